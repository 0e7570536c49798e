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


def _others(session: t.Any, vms: dict[str, t.Any], wanted: str, deadline: float) -> dict[str, str]:
    """name -> power state of the VMs that are not as wanted by the deadline; all are read with one request."""
    names = {vm._moId: name for name, vm in vms.items()}

    def read() -> dict[str, str]:
        rows = session.read_many(vms.values(), ["runtime.powerState"])
        return {names[row["object"]._moId]: str(row["runtime.powerState"]) for row in rows if str(row["runtime.powerState"]) != wanted}

    return tasks.until(read, lambda rest: not rest, max(0.0, deadline - time.monotonic()))


def shut_down(session: t.Any, vm: t.Any, name: str, seconds: float, guest_seconds: float | None = None) -> str:
    """The VM is off when this returns: asked through its tools first, switched off when that is not possible or takes too long."""
    return shut_down_all(session, {name: vm}, seconds, guest_seconds)[name]


def shut_down_all(session: t.Any, vms: dict[str, t.Any], seconds: float, guest_seconds: float | None = None) -> dict[str, str]:
    """All these VMs (name -> VM) go down at the same time; how each did: shut down or switched off."""
    vim = _session.vim
    deadline = time.monotonic() + seconds
    tools = {row["object"]._moId: row["guest.toolsRunningStatus"] for row in session.read_many(vms.values(), ["guest.toolsRunningStatus"])}
    asked = {}
    for name, vm in vms.items():
        if tools.get(vm._moId) == "guestToolsRunning":
            with contextlib.suppress(vim.fault.ToolsUnavailable, vim.fault.InvalidPowerState):
                vm.ShutdownGuest()
                asked[name] = vm
    soft = min(deadline, time.monotonic() + (guest_seconds if guest_seconds is not None else seconds / 2))
    hard = {name: vm for name, vm in vms.items() if name not in asked}
    if asked:
        hard.update((name, asked[name]) for name in _others(session, asked, "poweredOff", soft))
    how = {name: "switched off" if name in hard else "shut down" for name in vms}
    if hard:
        failed = tasks.wait_all(session, {name: vm.PowerOffVM_Task() for name, vm in hard.items()}, "power off the VM", max(1.0, deadline - time.monotonic()))
        rest = _others(session, hard, "poweredOff", time.monotonic())
        failed = {name: err for name, err in failed.items() if name in rest}  # it may have gone down between the two requests
        if failed:
            raise tasks.together(failed, "power off VMs")
    rest = _others(session, vms, "poweredOff", max(deadline, time.monotonic() + 1))
    if rest:
        raise RdmaError("power off the VM", ", ".join(sorted(rest)), "it is still on after %d s" % seconds, "see the VM's console", code="POWER")
    return how


def power_on(session: t.Any, vm: t.Any, name: str, seconds: float) -> None:
    power_on_all(session, {name: vm}, seconds)


def power_on_all(session: t.Any, vms: dict[str, t.Any], seconds: float) -> None:
    """All these VMs (name -> VM) are on when this returns; one that does not come up does not keep the others down."""
    deadline = time.monotonic() + seconds
    failed = tasks.wait_all(session, {name: vm.PowerOnVM_Task(None) for name, vm in vms.items()}, "power on the VM", seconds)
    up = {name: vm for name, vm in vms.items() if name not in failed}
    rest = _others(session, up, "poweredOn", max(deadline, time.monotonic() + 1)) if up else {}
    for name, state in rest.items():
        question = session.read(vms[name], "runtime.question")["runtime.question"]
        failed[name] = RdmaError("power on the VM", name, "it is %s%s" % (state, ", and vCenter asks: %s" % question.text if question else ""),
                                 "answer the question in vCenter" if question else "see the VM's events in vCenter", code="POWER")
    if failed:
        raise tasks.together(failed, "power on VMs")


@contextlib.contextmanager
def off_for(session: t.Any, vms: dict[str, t.Any], seconds: float) -> t.Iterator[None]:
    """These VMs (name -> VM, those that have to be powered off for it) are off inside the block, and on again after it, even when the block fails."""
    if not vms:
        yield
        return
    shut_down_all(session, vms, seconds)
    try:
        yield
    finally:
        power_on_all(session, vms, seconds)
