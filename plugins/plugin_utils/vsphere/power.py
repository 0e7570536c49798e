# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power: a host's power policy, and VMs on and off."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import session as _session
from . import tasks

# The names that the vSphere client shows depend on its language; shortName does not.
POLICIES = {"static": "static", "dynamic": "dynamic", "low": "low", "custom": "custom",
            "high_performance": "static", "balanced": "dynamic", "low_power": "low"}


def plan_policy(host: str, policies: list[dict], current: str, wanted: str) -> tuple[Changes, int]:
    """(changes, key of the wanted policy). policies: [{key, short}]; current: the short name in force."""
    changes = Changes("vsphere")
    short = POLICIES[wanted]
    key = next((one["key"] for one in policies if one["short"] == short), None)
    if key is None:
        raise RdmaError("set the power policy %s" % short, host, "the host offers %s" % (", ".join(one["short"] for one in policies) or "no policy at all"),
                        "let the BIOS leave power management to the operating system (profile Performance Per Watt (OS))", code="NO_POLICY")
    if current != short:
        changes.add("host %s" % host, "power policy", current, short)
    return changes, key


def power_of(session: t.Any, vm: t.Any) -> str:
    return str(session.read(vm, "runtime.powerState")["runtime.powerState"])


def _wait_power(session: t.Any, vm: t.Any, wanted: str, deadline: float) -> str:
    return tasks.until(lambda: power_of(session, vm), lambda state: state == wanted, max(0.0, deadline - time.monotonic()))


def shut_down(session: t.Any, vm: t.Any, name: str, seconds: float, guest_seconds: float | None = None) -> str:
    """The VM is off when this returns: asked through its tools first, switched off when that is not possible or takes too long."""
    vim = _session.vim
    deadline = time.monotonic() + seconds
    how = "shut down"
    tools = session.read(vm, "guest.toolsRunningStatus")["guest.toolsRunningStatus"]
    asked = False
    if tools == "guestToolsRunning":
        with contextlib.suppress(vim.fault.ToolsUnavailable, vim.fault.InvalidPowerState):
            vm.ShutdownGuest()
            asked = True
    soft = min(deadline, time.monotonic() + (guest_seconds if guest_seconds is not None else seconds / 2))
    if not asked or _wait_power(session, vm, "poweredOff", soft) != "poweredOff":
        how = "switched off"
        try:
            tasks.wait(session, vm.PowerOffVM_Task(), "power off the VM", name, max(1.0, deadline - time.monotonic()))
        except RdmaError:
            if power_of(session, vm) != "poweredOff":  # it may have gone down between the two requests
                raise
    if _wait_power(session, vm, "poweredOff", max(deadline, time.monotonic() + 1)) != "poweredOff":
        raise RdmaError("power off the VM", name, "it is still on after %d s" % seconds, "see the VM's console", code="POWER")
    return how


def power_on(session: t.Any, vm: t.Any, name: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    task = vm.PowerOnVM_Task(None)
    tasks.wait(session, task, "power on the VM", name, seconds)
    state = _wait_power(session, vm, "poweredOn", max(deadline, time.monotonic() + 1))
    if state != "poweredOn":
        question = session.read(vm, "runtime.question")["runtime.question"]
        raise RdmaError("power on the VM", name, "it is %s%s" % (state, ", and vCenter asks: %s" % question.text if question else ""),
                        "answer the question in vCenter" if question else "see the VM's events in vCenter", code="POWER")


@contextlib.contextmanager
def off_for(session: t.Any, vm: t.Any, name: str, needed: bool, seconds: float) -> t.Iterator[None]:
    """The VM is off inside the block, and on again after it when it had to be powered off for it, even when the block fails."""
    if not needed:
        yield
        return
    shut_down(session, vm, name, seconds)
    try:
        yield
    finally:
        power_on(session, vm, name, seconds)
