# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Size, reservations and latency sensitivity of a VM."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import lookup, power, session, tasks, vm_tuning
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, POWER_SECONDS, VsphereAction, check_vm_host

PLAIN_FIELDS = ("numCPUs", "numCoresPerSocket", "memoryMB", "memoryReservationLockedToMax", "cpuHotAddEnabled", "memoryHotAddEnabled")


class ActionModule(VsphereAction):
    WHAT = "tune the VM"
    SPEC = dict(
        HOST_SPEC,
        name=dict(type="str", required=True),
        cpus=dict(type="int"),
        cores_per_socket=dict(type="int"),
        memory_mb=dict(type="int"),
        reserve_memory=dict(type="bool", default=True),
        reserve_cpu=dict(type="bool", default=True),
        latency=dict(type="str", default="high", choices=["high", "normal"]),
        hot_add=dict(type="bool", default=False),
        extra_config=dict(type="dict", default={}),
        allow_power_cycle=dict(type="bool", default=False),
        power_timeout=dict(type="int", default=POWER_SECONDS),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        name = params["name"]
        where = "%s, VM %s" % (self.host, name)
        with self.connect(params, where) as link:
            row = lookup.find_vm(link, name, vm_tuning.VM_PATHS)
            vm = row["object"]
            host_row = link.read(row["runtime.host"], *vm_tuning.HOST_PATHS)
            check_vm_host(params, host_row, "tune the VM", where)
            host, plain = vm_tuning.host_plain(host_row), vm_tuning.vm_plain(row)
            plan = vm_tuning.plan(name, plain, host, params)
            changes, problems = plan["changes"], plan["problems"]
            if plan["power_off"] and not params["allow_power_cycle"]:
                text = "the VM is on, and this changes only while it is off"
                if self.check_mode:
                    for step in changes.steps:
                        step.update(certainty="conditional", reason=text)
                else:
                    problems.append("%s (allow_power_cycle: true lets it be powered off and on)" % text)
            if problems:
                raise RdmaError("tune the VM", where, "; ".join(problems), "put right what is named here; nothing was changed", code="PRECONDITION",
                                data=dict(problems=problems))
            if plan["spec"] and not self.check_mode:
                with power.off_for(link, vm, name, plan["power_off"], params["power_timeout"]):
                    version = link.read(vm, "config.changeVersion") if plan["power_off"] else row
                    tasks.wait(link, vm.ReconfigVM_Task(self._spec(plan["spec"], version["config.changeVersion"])), "reconfigure the VM", where,
                               params["power_timeout"])
                    plain = vm_tuning.vm_plain(dict(row, **link.read(vm, *vm_tuning.VM_PATHS)))
                    wrong = vm_tuning.unlike(name, plain, host, params)
                    if wrong:
                        raise RdmaError("tune the VM", where, "vCenter took the reconfiguration, but %s" % "; ".join(wrong),
                                        "see the VM's settings and its events in vCenter", code="NOT_HELD")
        shown = {key: plain[key] for key in ("cpus", "cores_per_socket", "memory_mb", "memory_reservation", "cpu_reservation", "latency", "power")}
        return changes.result(vm=dict(shown, name=name, host=host["name"], host_mhz=host["mhz"]))

    @staticmethod
    def _spec(plain: dict, version: str):
        vim = session.vim
        spec = vim.vm.ConfigSpec(changeVersion=version)
        for field in PLAIN_FIELDS:
            if field in plain:
                setattr(spec, field, plain[field])
        if "memory" in plain:
            spec.memoryAllocation = vim.ResourceAllocationInfo(**plain["memory"])
        if "cpu" in plain:
            spec.cpuAllocation = vim.ResourceAllocationInfo(**plain["cpu"])
        if "latency" in plain:
            spec.latencySensitivity = vim.LatencySensitivity(level=plain["latency"])
        if "extra" in plain:
            spec.extraConfig = [vim.option.OptionValue(key=key, value=value) for key, value in plain["extra"].items()]
        return spec
