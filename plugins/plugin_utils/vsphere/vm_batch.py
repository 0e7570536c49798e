# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One VM or many in one task: checked all together before anything is written, reconfigured side by side, one wait for all.

An item is a dict: name, where, and what the module needs of it. Before apply() it has vm, row (properties as read) and plan
(changes, problems, power_off).
"""

from __future__ import annotations

import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import power, session as _session, tasks


def items(params: dict, keys: tuple[str, ...], host: str) -> list[dict]:
    """The VMs that the task names: `name` with the task's own options, or each entry of `vms` with what it says itself."""
    if params["name"]:
        return [dict({key: params[key] for key in keys}, name=params["name"], where="%s, VM %s" % (host, params["name"]))]
    if params["vms"] is None:
        raise RdmaError("work on a VM", host, "its name is empty", "give name (vhpc_vm of the host)", code="VMS")
    names = [entry["name"] for entry in params["vms"]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise RdmaError("work on a list of VMs", host, "%s there twice" % ", ".join(twice) if twice else "vms is empty", "name each VM once", code="VMS")
    # esxi_hostname of the task names one host; a list has VMs of many, and each entry may name its own.
    return [dict({key: entry[key] if entry.get(key) is not None or key == "esxi_hostname" else params[key] for key in keys},
                 name=entry["name"], where="VM %s" % entry["name"]) for entry in params["vms"]]


def no_power_cycle(item: dict, text: str, checking: bool) -> None:
    """The VM is on and nobody agreed to its going down: a problem, or a condition in a run that only looks."""
    if checking:
        for step in item["plan"]["changes"].steps:
            step.update(certainty="conditional", reason="; ".join(filter(None, [step["reason"], text])))
    else:
        item["plan"]["problems"].append("%s (allow_power_cycle: true lets it be powered off and on)" % text)


def refuse(all_items: list[dict], what: str, hint: str) -> None:
    """Everything that stands in the way of any VM, before the first one is touched."""
    bad = [item for item in all_items if item["plan"]["problems"]]
    if not bad:
        return
    problems = [text for item in bad for text in item["plan"]["problems"]]
    if len(all_items) == 1:
        where, why = bad[0]["where"], "; ".join(problems)
    else:
        where = "%d of %d VMs" % (len(bad), len(all_items))
        why = "; ".join("%s: %s" % (item["name"], ", ".join(item["plan"]["problems"])) for item in bad)
    raise RdmaError(what, where, why, hint, code="PRECONDITION", data=dict(problems=problems, vms={item["name"]: item["plan"]["problems"] for item in bad}))


def apply(session: t.Any, all_items: list[dict], seconds: float, what: str, spec_of: t.Callable[[dict], t.Any],
          held: t.Callable[[dict], list[str]], paths: tuple[str, ...]) -> None:
    """Reconfigure the VMs that have steps; read back. A VM that fails does not keep the others from what they need.

    held(item) tells what the VM shows otherwise than asked for, from item["row"] as read after the change.
    """
    todo = [item for item in all_items if item["plan"]["changes"].steps]
    if not todo:
        return
    down = {item["where"]: item["vm"] for item in todo if item["plan"]["power_off"]}
    with power.off_for(session, down, seconds):
        if down:
            # Shutting down changed the VM's version; a spec with the old one would be refused.
            for row in session.read_many(down.values(), ["config.changeVersion"]):
                item = next(one for one in todo if one["vm"]._moId == row["object"]._moId)
                item["row"]["config.changeVersion"] = row["config.changeVersion"]
        failed, running = {}, {}
        for item in todo:
            try:
                running[item["where"]] = item["vm"].ReconfigVM_Task(spec_of(item))
            except _session.vmodl.MethodFault as err:
                failed[item["where"]] = _session.explain(err, "reconfigure the VM", item["where"])
        failed.update(tasks.wait_all(session, running, "reconfigure the VM", seconds))
        done = [item for item in todo if item["where"] not in failed]
        for row in session.read_many([item["vm"] for item in done], list(paths)):
            item = next(one for one in done if one["vm"]._moId == row["object"]._moId)
            item["row"] = dict(item["row"], **row)
            wrong = held(item)
            if wrong:
                failed[item["where"]] = RdmaError(what, item["where"], "vCenter took the reconfiguration, but %s" % "; ".join(wrong),
                                                  "see the VM's settings and its events in vCenter", code="NOT_HELD")
        if failed:
            raise tasks.together(failed, what)
    for item in todo:
        if item["plan"]["power_off"]:
            item["plain"]["power"] = "poweredOn"  # off_for() ended without an error
