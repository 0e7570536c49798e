# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passthrough devices of a VM, in one reconfiguration with all preconditions checked first."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import pci_address
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import lookup, passthru, power, session, tasks, vm_devices
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, POWER_SECONDS, VsphereAction, check_vm_host

FIRST_KEY = -101  # keys of new devices: negative, and a different one for each


class ActionModule(VsphereAction):
    WHAT = "change the passthrough devices"
    SPEC = dict(
        HOST_SPEC,
        name=dict(type="str", required=True),
        devices=dict(type="list", elements="raw", required=True, options=dict(passthru.SELECTOR_SPEC, label=dict(type="str"))),
        state=dict(type="str", default="present", choices=["present", "absent", "exact"]),
        mode=dict(type="str", default="static", choices=["static", "dynamic"]),
        reserve_memory=dict(type="bool", default=True),
        mmio_gb=dict(type="int"),
        released=dict(type="list", elements="str", default=[]),
        allow_power_cycle=dict(type="bool", default=False),
        power_timeout=dict(type="int", default=POWER_SECONDS),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        name, dynamic = params["name"], params["mode"] == "dynamic"
        where = "%s, VM %s" % (self.host, name)
        with self.connect(params, where) as link:
            row = lookup.find_vm(link, name, vm_devices.VM_PATHS)
            vm, host = row["object"], row["runtime.host"]
            host_row = link.read(host, "name", "runtime.connectionState", "vm", *passthru.HOST_PATHS)
            check_vm_host(params, host_row, "change the passthrough devices", where)
            devices = passthru.devices_of(host_row)
            plain = vm_devices.vm_plain(row)
            wanted = self._wanted(params, devices, plain, where)
            targets, others = {}, {}
            if params["state"] != "absent" and wanted:
                target = row["environmentBrowser"].QueryConfigTarget(host)
                targets = vm_devices.targets_of(target)
                others = lookup.attached(link, [one for one in host_row["vm"] or [] if one != vm])
            plan = vm_devices.plan(name, plain, wanted, params["state"], targets, others, host_row["name"], params["reserve_memory"], params["mmio_gb"],
                                   dynamic, {pci_address(bdf) for bdf in params["released"]}, self.check_mode)
            changes, problems = plan["changes"], plan["problems"]
            if plan["power_off"] and not params["allow_power_cycle"]:
                text = "the VM is on, and its devices change only while it is off"
                if self.check_mode:
                    for step in changes.steps:
                        step.update(certainty="conditional", reason="; ".join(filter(None, [step["reason"], text])))
                else:
                    problems.append("%s (allow_power_cycle: true lets it be powered off and on)" % text)
            if problems and changes.steps:
                lost = " (a host that has just rebooted lost it at boot, which some builds do: run again)" if "waits for a reboot" in str(problems) else ""
                raise RdmaError("change the passthrough devices", where, "; ".join(problems),
                                "put right what is named here%s; nothing was changed" % lost, code="PRECONDITION", data=dict(problems=problems))
            if changes.steps and not self.check_mode:
                plain = self._apply(link, vm, name, where, row, plan, targets, params, dynamic)
        return changes.result(devices=self._shown(plain, devices), vm=dict(name=name, power=plain["power"], host=host_row["name"]))

    def _wanted(self, params, devices, plain, where) -> list:
        """The devices asked for; what is to be detached may be gone from the host already."""
        selectors = passthru.selectors_of(params["devices"], where, ("label",))
        if params["state"] != "absent":
            return [device for device, dummy in passthru.select(devices, selectors, where, extra=("label",))] if selectors else []
        if not selectors:
            raise RdmaError("detach devices", where, "devices is empty", "name them, or take state: exact with devices: [] to detach all", code="SELECTOR")
        known, rest = [], []
        on_vm = {device["bdf"] for device in plain["devices"] if device["bdf"]}
        for selector in selectors:
            bdf = pci_address(selector.get("pci") or "")
            (known if bdf and bdf not in {d["pci"] for d in devices} else rest).append(selector)
        gone = [dict(pci=pci_address(s["pci"]), label="") for s in known if pci_address(s["pci"]) in on_vm]
        return gone + [device for device, dummy in (passthru.select(devices, rest, where, extra=("label",)) if rest else [])]

    def _spec(self, row, plan, targets, dynamic):
        vim = session.vim
        spec = vim.vm.ConfigSpec(changeVersion=row["config.changeVersion"])
        edits = [vim.vm.device.VirtualDeviceSpec(operation="remove", device=device) for device in row["config.hardware"].device if device.key in plan["remove"]]
        for number, device in enumerate(plan["add"]):
            if dynamic:
                vendor, model = (int(part, 16) for part in device["id"].split(":"))
                allowed = vim.vm.device.VirtualPCIPassthrough.AllowedDevice(vendorId=vendor, deviceId=model)
                backing = vim.vm.device.VirtualPCIPassthrough.DynamicBackingInfo(deviceName="", allowedDevice=[allowed], customLabel=device["label"])
            else:
                backing = vim.vm.device.VirtualPCIPassthrough.DeviceBackingInfo(**vm_devices.backing_fields(targets[device["pci"]]))
            edits.append(vim.vm.device.VirtualDeviceSpec(
                operation="add", device=vim.vm.device.VirtualPCIPassthrough(key=FIRST_KEY - number, backing=backing)))
        if edits:
            spec.deviceChange = edits
        if plan["reserve"]:
            spec.memoryReservationLockedToMax = True
            spec.memoryAllocation = vim.ResourceAllocationInfo(reservation=row["config.hardware"].memoryMB, limit=vm_devices.UNLIMITED)
        if plan["extra"]:
            spec.extraConfig = [vim.option.OptionValue(key=key, value=value) for key, value in plan["extra"].items()]
        return spec

    def _apply(self, link, vm, name, where, row, plan, targets, params, dynamic) -> dict:
        seconds = params["power_timeout"]
        with power.off_for(link, vm, name, plan["power_off"], seconds):
            if plan["power_off"]:
                row["config.changeVersion"] = link.read(vm, "config.changeVersion")["config.changeVersion"]
            tasks.wait(link, vm.ReconfigVM_Task(self._spec(row, plan, targets, dynamic)), "reconfigure the VM", where, seconds)
            plain = vm_devices.vm_plain(dict(row, **link.read(vm, *vm_devices.VM_PATHS)))
            wrong = vm_devices.missing(plain, plan["add"], plan["remove"], dynamic)
            if plan["reserve"] and not plain["locked"]:
                wrong.append("its memory is not reserved")
            if wrong:
                raise RdmaError("change the passthrough devices", where, "vCenter took the reconfiguration, but %s" % "; ".join(wrong),
                                "see the VM's settings and its events in vCenter", code="NOT_HELD")
        return plain

    @staticmethod
    def _shown(plain, devices) -> list:
        known = {device["pci"]: device for device in devices}
        return [dict(pci=device["bdf"], key=device["key"], label=device["label"] or known.get(device["bdf"], {}).get("label", ""),
                     dynamic=device["dynamic"], id=known.get(device["bdf"], {}).get("id", ""), name=known.get(device["bdf"], {}).get("name", ""))
                for device in plain["devices"]]
