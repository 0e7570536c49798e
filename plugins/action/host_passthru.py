# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passthrough of a host's PCI devices: enabled is what is configured, active is what holds."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import lookup, passthru, session, tasks
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, VsphereAction

# How long a device that needs no reboot may take to change hands.
REBIND_SECONDS = 20


class ActionModule(VsphereAction):
    WHAT = "change passthrough"
    SPEC = dict(
        HOST_SPEC,
        devices=dict(type="list", elements="raw", required=True, options=dict(passthru.SELECTOR_SPEC, label=dict(type="str"), bar_size_gb=dict(type="int"))),
        state=dict(type="str", default="enabled", choices=["enabled", "disabled"]),
        apply_now=dict(type="bool"),
        released=dict(type="list", elements="str", default=[]),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        wanted = params["state"] == "enabled"
        with self.connect(params) as link:
            row = self.host_row(link, params, passthru.HOST_PATHS)
            host = row["object"]
            rebind = bool(row["capability"] and row["capability"].deviceRebindWithoutRebootSupported)
            devices = passthru.devices_of(row)
            selectors = passthru.selectors_of(params["devices"], self.host, ("label", "bar_size_gb"))
            chosen = passthru.select(devices, selectors, self.host)
            self._labels(link, row, chosen)
            released = {passthru.pci_address(bdf) for bdf in params["released"]}
            leaving = not wanted and any(device["enabled"] for device, dummy in chosen)
            attached = lookup.attached(link, link.read(host, "vm")["vm"] or []) if leaving else {}
            changes, configs, refused = passthru.plan(chosen, wanted, rebind, params["apply_now"], released, self.check_mode, attached, devices)
            if refused:
                raise RdmaError("%s passthrough" % ("enable" if wanted else "disable"), self.host, "; ".join(refused),
                                "choose other devices, or take them out of use first (vhpc.rdma.dvs_uplinks for a distributed switch)" if wanted
                                else "detach them first (vhpc.rdma.vm_passthru)",
                                code="DEVICE_IN_USE", data=dict(devices=[passthru.shown(d) for d, dummy in chosen], problems=refused))
            if configs and not self.check_mode:
                devices = self._apply(link, host, row, configs, devices, params["apply_now"], wanted, rebind)
        chosen_bdf = [device["pci"] for device, dummy in chosen]
        now = [device for device in devices if device["pci"] in chosen_bdf]
        if configs and not self.check_mode:
            self._pending(changes, now, wanted)
        return changes.result(devices=[passthru.shown(device) for device in now], rebind_without_reboot=rebind)

    def _labels(self, link, row, chosen) -> None:
        labels = [selector["label"] for dummy, selector in chosen if selector.get("label")]
        version = row["config.product"].version if row["config.product"] else ""
        if labels and (link.version < passthru.LABEL_VERSION or session.version_tuple(version) < passthru.LABEL_VERSION):
            raise RdmaError("label devices", self.host, "hardware labels need vSphere 7.0.2; the API is %s, the host runs %s" % (
                ".".join(map(str, link.version)), version), "leave label out", code="VERSION")
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise RdmaError("label devices", self.host, "several functions would get the label %s" % ", ".join(sorted(twice)),
                            "give each function an entry with pci and its own label", code="SELECTOR")

    def _apply(self, link, host, row, configs, devices, apply_now, wanted, rebind) -> list:
        vim = session.vim
        rows = [vim.host.PciPassthruConfig(**config) for config in passthru.config_rows(configs, devices, apply_now)]
        try:
            row["configManager.pciPassthruSystem"].UpdatePassthruConfig(rows)
        except session.vmodl.MethodFault as err:
            raise session.explain(err, "change the passthrough of %s" % ", ".join(c["id"] for c in configs), self.host) from err
        at_once = rebind and apply_now is not False

        def settled(found: list) -> bool:
            changed = {c["id"] for c in configs if "passthruEnabled" in c}
            return not passthru.unlike(found, configs) and (
                not at_once or all(d["active"] == wanted for d in found if d["pci"] in changed))

        found = tasks.until(lambda: self.devices(link, host), settled, REBIND_SECONDS)
        wrong = passthru.unlike(found, configs)
        if wrong:
            raise RdmaError("change passthrough", self.host, "the host took the request, but %s" % "; ".join(wrong),
                            "see the host's Configure > PCI Devices in vCenter; the device or its slot may not allow it", code="NOT_HELD")
        return found

    @staticmethod
    def _pending(changes, now, wanted) -> None:
        """What the host was expected to do at once and did not: a reboot does it."""
        rebooting = {step["thing"] for step in changes.steps if step["reboot"]}
        told = " ".join(p["reason"] for p in changes.pending)
        for device in now:
            thing = "device %s" % device["pci"]
            if device["enabled"] == wanted and device["active"] != wanted and thing not in rebooting and thing not in told:
                changes.wait_for_reboot("%s: passthrough was set, but is %s" % (thing, "not active" if wanted else "still active"))
