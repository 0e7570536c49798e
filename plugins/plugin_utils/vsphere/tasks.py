# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for vCenter: tasks end within a deadline or the wait does."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import session as _session


def wait(session: t.Any, task: t.Any, what: str, where: str, seconds: float, hint: str = "") -> t.Any:
    """The result of the task; its fault, or its not ending within `seconds`, as RdmaError.

    Polling with growing pauses rather than WaitForUpdates: a session's default collector serves one waiter only,
    and a lost connection costs one poll instead of the wait.
    """
    deadline, interval = time.monotonic() + seconds, 0.05
    while True:
        info = session.read(task, "info")["info"]
        if info.state == "success":
            return info.result
        if info.state == "error":
            raise fault(info.error, what, where, hint)
        if time.monotonic() >= deadline:
            raise RdmaError(what, where, "the task %s is still %s after %d s" % (info.descriptionId or info.key, info.state, seconds),
                            hint or "see Recent Tasks in vCenter; raise timeout if it is only slow", code="TASK_TIMEOUT")
        _session.pause(interval, deadline)
        interval = min(interval * 1.5, 2.0)


def wait_all(session: t.Any, running: dict[str, t.Any], what: str, seconds: float) -> dict[str, RdmaError]:
    """Follow tasks to their ends together, one request per look: {name: error} of those that did not succeed. running: name -> task."""
    deadline, interval = time.monotonic() + seconds, 0.05
    failed, open_ = {}, dict(running)
    while open_:
        rows = {row["object"]._moId: row["info"] for row in session.read_many(open_.values(), ["info"])}
        late = time.monotonic() >= deadline
        for name, task in list(open_.items()):
            info = rows[task._moId]
            if info.state == "error":
                failed[name] = fault(info.error, what, name)
            elif info.state != "success":
                if late:
                    failed[name] = RdmaError(what, name, "the task %s is still %s after %d s" % (info.descriptionId or info.key, info.state, seconds),
                                             "see Recent Tasks in vCenter; raise power_timeout if it is only slow", code="TASK_TIMEOUT")
                else:
                    continue
            del open_[name]
        if open_:
            _session.pause(interval, deadline)
            interval = min(interval * 1.5, 2.0)
    return failed


def together(failed: dict[str, RdmaError], what: str) -> RdmaError:
    """The errors of several things as one; a single one as it is."""
    errors = [failed[name] for name in sorted(failed)]
    if len(errors) == 1:
        return errors[0]
    return RdmaError(what, "%d of them" % len(errors), "; ".join("%s: %s" % (err.where, err.why) for err in errors),
                     "; ".join(dict.fromkeys(err.hint for err in errors if err.hint)), code=errors[0].code, data=dict(failed=sorted(failed)))


def fault(error: t.Any, what: str, where: str, hint: str = "") -> RdmaError:
    if error is None:
        return RdmaError(what, where, "the task ended in error without a reason", "see Recent Tasks in vCenter", code="TASK_FAULT")
    err = _session.explain(error, what, where)
    return RdmaError(err.what, err.where, err.why, hint or err.hint, err.code)


def until(read: t.Callable[[], t.Any], good: t.Callable[[t.Any], bool], seconds: float) -> t.Any:
    """Read until it is good or the time is over; the last reading either way."""
    deadline, interval = time.monotonic() + seconds, 0.05
    while True:
        value = read()
        if good(value) or time.monotonic() >= deadline:
            return value
        _session.pause(interval, deadline)
        interval = min(interval * 1.5, 2.0)
