# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passthrough devices of one VM or of many, in one reconfiguration each, with all preconditions of all of them checked first."""

from __future__ import annotations

import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import pci_address
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import licences, lookup, passthru, session, vm_batch, vm_devices
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, POWER_SECONDS, VsphereAction, check_vm_host

FIRST_KEY = -101  # keys of new devices: negative, and a different one for each
DEVICES = dict(type="list", elements="raw", options=dict(passthru.SELECTOR_SPEC, label=dict(type="str"), bar_size_gb=dict(type="int")))


class ActionModule(VsphereAction):
    WHAT = "change the passthrough devices"
    SPEC = dict(
        HOST_SPEC,
        name=dict(type="str"),
        devices=DEVICES,
        vms=dict(type="list", elements="dict", options=dict(name=dict(type="str", required=True), devices=DEVICES, esxi_hostname=dict(type="str"))),
        state=dict(type="str", default="present", choices=["present", "absent", "exact"]),
        mode=dict(type="str", default="static", choices=["static", "dynamic"]),
        reserve_memory=dict(type="bool", default=True),
        mmio_gb=dict(type="int"),
        released=dict(type="list", elements="str", default=[]),
        allow_power_cycle=dict(type="bool", default=False),
        power_timeout=dict(type="int", default=POWER_SECONDS),
    )
    RULES = dict(required_one_of=[["name", "vms"]], mutually_exclusive=[["name", "vms"]])

    def act(self, params: dict, task_vars: dict) -> dict:
        items = vm_batch.items(params, ("devices", "esxi_hostname"), self.host)
        for item in items:
            if item["devices"] is None:
                raise RdmaError(self.WHAT, item["where"], "devices is not given", "name them, or take state: exact with devices: [] to detach all",
                                code="SELECTOR")
        with self.connect(params, items[0]["where"] if params["name"] else self.host) as link:
            self._read(link, items, params)
            for item in items:
                self._plan(item, params)
            self._surroundings(link, items, params["mode"] == "dynamic")
            self._twice(items)
            self._consent(items, params)
            vm_batch.refuse(items, self.WHAT, self._hint(items))
            if not self.check_mode:
                vm_batch.apply(link, items, params["power_timeout"], self.WHAT, self._spec, self._held, vm_devices.VM_PATHS)
        return self._result(items, params)

    # ---- look ---------------------------------------------------------------------------------------------------------

    def _read(self, link: t.Any, items: list[dict], params: dict) -> None:
        """What all of them need is read together; only what a host offers (QueryConfigTarget) is asked for each VM."""
        rows = lookup.find_vms(link, [item["name"] for item in items], vm_devices.VM_PATHS)
        hosts = lookup.hosts_of(link, rows, ("name", "runtime.connectionState", "vm", "parent", *passthru.HOST_PATHS))
        for item, row in zip(items, rows):
            host = hosts[row["runtime.host"]._moId]
            item.update(row=row, vm=row["object"], host=host, plain=vm_devices.vm_plain(row), all=passthru.devices_of(host), targets={}, others={})
            check_vm_host(dict(esxi_hostname=item["esxi_hostname"]), host, self.WHAT, item["where"])
            item["wanted"] = self._wanted(item, params["state"], params["mode"] == "dynamic")
        asking = [item for item in items if params["state"] != "absent" and item["wanted"]]
        if not asking:
            return
        there = {vm._moId: vm for item in asking for vm in item["host"]["vm"] or []}
        holders = lookup.holders(link, there.values())
        for item in asking:
            near = {vm._moId for vm in item["host"]["vm"] or []} - {item["vm"]._moId}
            item["others"] = {bdf: name for bdf, rows in holders.items() for moid, name in rows if moid in near}
            item["targets"] = vm_devices.targets_of(item["row"]["environmentBrowser"].QueryConfigTarget(item["row"]["runtime.host"]))

    def _wanted(self, item: dict, state: str, dynamic: bool) -> list:
        """The devices asked for; what is to be detached may be gone from the host already."""
        where, devices = item["where"], item["all"]
        selectors = passthru.selectors_of(item["devices"], where, ("label", "bar_size_gb"))
        sizes = [selector.pop("bar_size_gb", None) for selector in selectors]
        # Beside another key, a label is not what chooses: one list serves host_passthru, which gives the label, and this module.
        labels = [selector.pop("label") if selector.get("label") and len([key for key in selector if selector[key]]) > 1 else None for selector in selectors]
        if state != "absent":
            out = []
            for selector, size, label in zip(selectors, sizes, labels):
                for device, dummy in passthru.select(devices, [selector], where, extra=("label",)):
                    if size is not None:
                        device = dict(device, bar_size_gb=int(size))
                    if label and dynamic:
                        device = dict(device, label=label, label_now=device["label"])
                    if device["pci"] not in {one["pci"] for one in out}:
                        out.append(device)
            return sorted(out, key=lambda one: one["pci"])
        if not selectors:
            raise RdmaError("detach devices", where, "devices is empty", "name them, or take state: exact with devices: [] to detach all", code="SELECTOR")
        known, rest = [], []
        on_vm = {device["bdf"] for device in item["plain"]["devices"] if device["bdf"]}
        for selector in selectors:
            bdf = pci_address(selector.get("pci") or "")
            (known if bdf and bdf not in {d["pci"] for d in devices} else rest).append(selector)
        gone = [dict(pci=pci_address(s["pci"]), label="", id="") for s in known if pci_address(s["pci"]) in on_vm]
        return gone + [device for device, dummy in (passthru.select(devices, rest, where, extra=("label",)) if rest else [])]

    # ---- decide -------------------------------------------------------------------------------------------------------

    def _plan(self, item: dict, params: dict) -> None:
        item["plan"] = vm_devices.plan(
            item["name"], item["plain"], item["wanted"], params["state"], item["targets"], item["others"], item["host"]["name"], params["reserve_memory"],
            params["mmio_gb"], params["mode"] == "dynamic", {pci_address(bdf) for bdf in params["released"]}, self.check_mode, item["all"])
        item["dynamic"] = params["mode"] == "dynamic"
        if not item["plan"]["changes"].steps:
            item["plan"]["problems"] = []

    @staticmethod
    def _surroundings(link: t.Any, items: list[dict], dynamic: bool) -> None:
        """What the cluster does not do for a VM with such a device, and the licence of its host: told where one is to be attached."""
        asking = [item for item in items if item["plan"]["add"]]
        if not asking:
            return
        clusters = lookup.clusters_of(link, [item["host"]["parent"] for item in asking])
        found = licences.of_hosts(link, [item["row"]["runtime.host"] for item in asking]) if dynamic else {}
        said = licences.told((item["host"]["name"], found[item["row"]["runtime.host"]._moId]) for item in asking) if dynamic else []
        for item in asking:
            parent = item["host"]["parent"]
            near = [clusters[parent._moId]] if parent is not None and parent._moId in clusters else []
            item["plan"]["notes"] += vm_devices.cluster_notes(near, dynamic) + said

    @staticmethod
    def _twice(items: list[dict]) -> None:
        """Two VMs of the list must not want the same device."""
        first: dict[tuple, str] = {}
        for item in items:
            for device in item["wanted"] if not item["dynamic"] else []:
                key = (item["host"]["object"]._moId, device["pci"])
                if first.setdefault(key, item["name"]) != item["name"] and item["plan"]["changes"].steps:
                    item["plan"]["problems"].append("%s is wanted for the VM %s too" % (device["pci"], first[key]))

    def _consent(self, items: list[dict], params: dict) -> None:
        text = "the VM is on, and its devices change only while it is off"
        for item in items:
            if item["plan"]["power_off"] and not params["allow_power_cycle"]:
                vm_batch.no_power_cycle(item, text, self.check_mode)

    @staticmethod
    def _hint(items: list[dict]) -> str:
        problems = str([item["plan"]["problems"] for item in items])
        lost = " (a host that has just rebooted lost it at boot, which some builds do: run again)" if "waits for a reboot" in problems else ""
        return "put right what is named here%s; nothing was changed" % lost

    # ---- act ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _spec(item: dict) -> t.Any:
        vim, row, plan, targets = session.vim, item["row"], item["plan"], item["targets"]
        passthrough = vim.vm.device.VirtualPCIPassthrough
        spec = vim.vm.ConfigSpec(changeVersion=row["config.changeVersion"])
        edits = [vim.vm.device.VirtualDeviceSpec(operation="remove", device=device) for device in row["config.hardware"].device if device.key in plan["remove"]]
        for number, device in enumerate(plan["add"]):
            if item["dynamic"]:
                vendor, model = (int(part, 16) for part in device["id"].split(":"))
                backing = passthrough.DynamicBackingInfo(deviceName="", allowedDevice=[passthrough.AllowedDevice(vendorId=vendor, deviceId=model)],
                                                         customLabel=device["label"] or None)
            else:
                backing = passthrough.DeviceBackingInfo(**vm_devices.backing_fields(targets[device["pci"]]))
            edits.append(vim.vm.device.VirtualDeviceSpec(operation="add", device=passthrough(key=FIRST_KEY - number, backing=backing)))
        if edits:
            spec.deviceChange = edits
        if plan["reserve"]:
            spec.memoryReservationLockedToMax = True
            spec.memoryAllocation = vim.ResourceAllocationInfo(reservation=row["config.hardware"].memoryMB, limit=vm_devices.UNLIMITED)
        if plan["extra"]:
            spec.extraConfig = [vim.option.OptionValue(key=key, value=value) for key, value in plan["extra"].items()]
        return spec

    @staticmethod
    def _held(item: dict) -> list[str]:
        """What the VM shows otherwise after the reconfiguration; item["row"] is read anew."""
        plan = item["plan"]
        item["plain"] = vm_devices.vm_plain(item["row"])
        wrong = vm_devices.missing(item["plain"], plan["add"], plan["remove"], item["dynamic"])
        return wrong + (["its memory is not reserved"] if plan["reserve"] and not item["plain"]["locked"] else [])

    # ---- tell ---------------------------------------------------------------------------------------------------------

    def _result(self, items: list[dict], params: dict) -> dict:
        changes, rows = Changes("vsphere"), []
        for item in items:
            changes.steps += item["plan"]["changes"].steps
            rows.append(dict(name=item["name"], power=item["plain"]["power"], host=item["host"]["name"], changed=item["plan"]["changes"].changed,
                             devices=self._shown(item["plain"], item["all"])))
        notes = list(dict.fromkeys(note for item in items for note in item["plan"]["notes"]))
        more: dict[str, t.Any] = dict(warnings=notes) if notes else {}
        if params["name"]:
            more.update(devices=rows[0]["devices"], vm={key: rows[0][key] for key in ("name", "power", "host")})
        else:
            more.update(vms=rows)
        return changes.result(**more)

    @staticmethod
    def _shown(plain: dict, devices: list[dict]) -> list[dict]:
        known = {device["pci"]: device for device in devices}
        out = []
        for device in plain["devices"]:
            there = known.get(device["bdf"], {})
            out.append(dict(pci=device["bdf"], key=device["key"], label=device["label"] or there.get("label", ""), dynamic=device["dynamic"],
                            id=there.get("id", "") or ", ".join(device.get("allowed", [])), name=there.get("name", ""),
                            port=vm_devices.guest_port(there) if there else None))
        return out
