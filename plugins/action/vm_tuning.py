# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Size, reservations and latency sensitivity of one VM or of many."""

from __future__ import annotations

import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import lookup, session, vm_batch, vm_tuning
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, POWER_SECONDS, VsphereAction, check_vm_host

PLAIN_FIELDS = ("numCPUs", "numCoresPerSocket", "memoryMB", "memoryReservationLockedToMax", "cpuHotAddEnabled", "memoryHotAddEnabled", "simultaneousThreads")
# What an entry of `vms` may say for itself.
OWN: dict = dict(
    cpus=dict(type="int"),
    cores_per_socket=dict(type="int"),
    memory_mb=dict(type="int"),
    cpu_affinity=dict(type="list", elements="int"),
    numa_affinity=dict(type="list", elements="int"),
    extra_config=dict(type="dict"),
)
SHOWN = ("cpus", "cores_per_socket", "memory_mb", "memory_reservation", "cpu_reservation", "latency", "threads", "power")


class ActionModule(VsphereAction):
    WHAT = "tune the VM"
    SPEC = dict(
        HOST_SPEC,
        name=dict(type="str"),
        vms=dict(type="list", elements="dict", options=dict(OWN, name=dict(type="str", required=True), esxi_hostname=dict(type="str"))),
        profile=dict(type="str", default="hpc", choices=list(vm_tuning.PROFILES)),
        reserve_memory=dict(type="bool"),
        reserve_cpu=dict(type="bool"),
        latency=dict(type="str", choices=["high", vm_tuning.HYPERTHREADS, "normal"]),
        hot_add=dict(type="bool"),
        leave=dict(type="list", elements="str", default=[], choices=list(vm_tuning.SETTINGS)),
        cores_per_numa_node=dict(type="int"),
        prefer_hyperthreads=dict(type="bool"),
        allow_power_cycle=dict(type="bool", default=False),
        power_timeout=dict(type="int", default=POWER_SECONDS),
        **OWN,
    )
    RULES = dict(required_one_of=[["name", "vms"]], mutually_exclusive=[["name", "vms"]])

    def act(self, params: dict, task_vars: dict) -> dict:
        items = vm_batch.items(params, (*OWN, "esxi_hostname"), self.host)
        shared = vm_tuning.with_profile(params)
        with self.connect(params, items[0]["where"] if params["name"] else self.host) as link:
            paths = vm_tuning.vm_paths(link.version)
            rows = lookup.find_vms(link, [item["name"] for item in items], paths)
            hosts = lookup.hosts_of(link, rows, vm_tuning.HOST_PATHS)
            for item, row in zip(items, rows):
                host_row = hosts[row["runtime.host"]._moId]
                check_vm_host(dict(esxi_hostname=item["esxi_hostname"]), host_row, self.WHAT, item["where"])
                item.update(row=row, vm=row["object"], host=dict(vm_tuning.host_plain(host_row), api=link.version), plain=vm_tuning.vm_plain(row),
                            wanted=dict(shared, **{key: item[key] for key in OWN}))
                item["plan"] = vm_tuning.plan(item["name"], item["plain"], item["host"], item["wanted"])
            self._room(link, items, hosts)
            for item in items:
                if item["plan"]["power_off"] and not params["allow_power_cycle"]:
                    vm_batch.no_power_cycle(item, "the VM is on, and this changes only while it is off", self.check_mode)
            vm_batch.refuse(items, self.WHAT, "put right what is named here; nothing was changed")
            if not self.check_mode:
                vm_batch.apply(link, items, params["power_timeout"], self.WHAT, self._spec, self._held, paths)
        changes = Changes("vsphere")
        for item in items:
            changes.steps += item["plan"]["changes"].steps
        rows = [dict({key: item["plain"][key] for key in SHOWN}, name=item["name"], host=item["host"]["name"], host_mhz=item["host"]["mhz"]) for item in items]
        return changes.result(vm=rows[0]) if params["name"] else changes.result(
            vms=[dict(row, changed=item["plan"]["changes"].changed) for row, item in zip(rows, items)])

    @staticmethod
    def _room(link: t.Any, items: list[dict], hosts: dict[str, dict]) -> None:
        """What other VMs that are on hold of the same host, and other VMs of the list will; one request for all hosts."""
        asking = [item for item in items if "cpu" in item["plan"]["spec"] or "memory" in item["plan"]["spec"]]
        if not asking:
            return
        there = {vm._moId: vm for item in asking for vm in hosts[item["row"]["runtime.host"]._moId]["vm"] or []}
        rows = {row["object"]._moId: vm_tuning.held(row) for row in link.read_many(there.values(), list(vm_tuning.HELD_PATHS))}
        for item in items:
            row, spec = rows.get(item["vm"]._moId), item["plan"]["spec"]
            if row is not None and row["on"]:
                row.update((key, spec[key]["reservation"]) for key in ("cpu", "memory") if key in spec)
        for item in asking:
            near = [vm._moId for vm in hosts[item["row"]["runtime.host"]._moId]["vm"] or [] if vm._moId != item["vm"]._moId]
            item["plan"]["problems"] += vm_tuning.no_room(item["plan"]["spec"], item["host"], [rows[moid] for moid in near if moid in rows])

    @staticmethod
    def _held(item: dict) -> list[str]:
        item["plain"] = vm_tuning.vm_plain(item["row"])
        return vm_tuning.unlike(item["name"], item["plain"], item["host"], item["wanted"])

    @staticmethod
    def _spec(item: dict) -> t.Any:
        vim, plain = session.vim, item["plan"]["spec"]
        spec = vim.vm.ConfigSpec(changeVersion=item["row"]["config.changeVersion"])
        for field in PLAIN_FIELDS:
            if field in plain:
                setattr(spec, field, plain[field])
        if "memory" in plain:
            spec.memoryAllocation = vim.ResourceAllocationInfo(**plain["memory"])
        if "cpu" in plain:
            spec.cpuAllocation = vim.ResourceAllocationInfo(**plain["cpu"])
        if "latency" in plain:
            spec.latencySensitivity = vim.LatencySensitivity(level=plain["latency"])
        if "coresPerNumaNode" in plain:
            spec.virtualNuma = vim.vm.VirtualNuma(coresPerNumaNode=plain["coresPerNumaNode"])
        if "cpuAffinity" in plain:
            spec.cpuAffinity = vim.vm.AffinityInfo(affinitySet=plain["cpuAffinity"])
        if "extra" in plain:
            spec.extraConfig = [vim.option.OptionValue(key=key, value=value) for key, value in plain["extra"].items()]
        return spec
