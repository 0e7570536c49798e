# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tasks: what a *_Task method returns and a client follows."""

from __future__ import annotations

import time
import traceback
from typing import Any, Callable, TYPE_CHECKING

from pyVmomi import VmomiSupport, vim, vmodl

from .model import Managed, utc

if TYPE_CHECKING:
    from .server import Call, VsphereFace


class Task(Managed):
    kind = vim.Task
    unset = ("availableField", "value", "customValue")

    def __init__(self, face: VsphereFace, moid: str, entity: Managed, name: str, call: Call, body: Callable[[Task], Any]) -> None:
        super().__init__(face, moid)
        self.entity, self._body, self._method, self.cancelled = entity, body, call.method, False
        user = call.session.user if call.session else ""
        kind = entity.kind.__name__.rsplit(".", 1)[-1]
        self.info = vim.TaskInfo(key=moid, task=vim.Task(moid), entity=entity.ref, entityName=getattr(entity, "name", None), state="running", cancelled=False,
                                 cancelable=False, queueTime=utc(), startTime=utc(), eventChainId=0, descriptionId="%s.%s" % (kind, name), name=None,
                                 reason=vim.TaskReasonUser(userName=user))

    @property
    def about(self) -> str:
        return self.entity.about

    def get_info(self) -> Any:
        return self.info

    def run(self, delay: float = 0.0) -> None:
        """The task's whole life; the body runs under the world's lock and may return a callable that goes on without it."""
        time.sleep(delay)
        try:
            with self.world.lock:
                self._injected()
                result = self._body(self)
            if callable(result):
                result = result()
        except vmodl.MethodFault as problem:
            problem.msg = problem.msg or type(problem).__name__
            self._end("error", error=problem)
        except Exception as problem:  # a defect of the lab must not leave a client waiting for ever
            self.world.note("vsphere", self.about, "task", crash=traceback.format_exc())
            text = "A defect of the lab: %r" % problem
            self._end("error", error=vmodl.fault.SystemError(reason=text, msg=text))
        else:
            self._end("success", result=result)

    def _end(self, state: str, result: Any = None, error: Any = None) -> None:
        with self.world.lock:
            self.info.result, self.info.error = result, error
            self.info.cancelled, self.info.completeTime, self.info.state = self.cancelled, utc(), state
            if error is not None:
                self.world.note("vsphere", self.about, "task error", task=self.info.descriptionId, fault=type(error).__name__.rsplit(".", 1)[-1],
                                message=error.msg)
                self.face.declared(self._method, error)

    def _injected(self) -> None:
        options = self.world.fault("task_fault", self.about)
        if options is not None:
            kind = VmomiSupport.GetVmodlType(options.get("fault", "vmodl.fault.SystemError"))
            problem = kind(msg=options.get("message", "A general system error occurred: Connection to the host agent was lost during %s."
                                           % self.info.descriptionId))
            for info in problem._GetPropertyList():
                if info.type is str and not info.flags & VmomiSupport.F_OPTIONAL and getattr(problem, info.name) is None:
                    setattr(problem, info.name, "")
            if isinstance(problem, vmodl.fault.SystemError):
                problem.reason = problem.msg
            raise problem

    def wait(self, ready: Callable[[], bool], timeout: float) -> None:
        """Wait outside the lock until ready() holds under it; the task can be cancelled meanwhile. Timeout 0 is none."""
        self.info.cancelable = True
        end = time.monotonic() + timeout if timeout else None
        while True:
            with self.world.lock:
                if ready():
                    self.info.cancelable = False
                    return
            if self.cancelled:
                raise vmodl.fault.RequestCanceled(msg="The task was canceled by a user.")
            if end is not None and time.monotonic() > end:
                raise vim.fault.Timedout(msg="Operation timed out.")
            if self.face.closed.wait(0.05):
                raise vmodl.fault.SystemError(reason="shutdown", msg="vCenter is shutting down.")

    def CancelTask(self, call: Call) -> None:
        if self.info.state not in ("queued", "running") or not self.info.cancelable:
            raise vim.fault.InvalidState(msg="The operation is not allowed in the current state.")
        self.cancelled = True
