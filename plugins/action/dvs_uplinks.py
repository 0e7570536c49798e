# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes a card's ports out of the distributed switches that still use them."""

from __future__ import annotations

import random
import time

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import dvs, lookup, passthru, session, tasks
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, VsphereAction, consent_missing


class ActionModule(VsphereAction):
    WHAT = "take uplinks out of the distributed switch"
    SPEC = dict(
        HOST_SPEC,
        devices=dict(type="list", elements="raw", required=True, options=passthru.SELECTOR_SPEC),
        state=dict(type="str", default="absent", choices=["absent"]),
        consent=dict(type="bool", default=False),
        task_timeout=dict(type="int", default=180),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        if not params["devices"]:
            return Changes("esxi").result(removed=[], switches=[])
        with self.connect(params) as link:
            row = self.host_row(link, params, passthru.HOST_PATHS)
            host = row["object"]
            devices = passthru.devices_of(row)
            chosen = [device for device, dummy in passthru.select(devices, passthru.selectors_of(params["devices"], self.host), self.host)]
            switches = dvs.uplinks(devices, chosen)
            managers = self._switches(link, row["config.network"], switches)
            changes, refused = dvs.plan(switches, params["consent"], self.check_mode)
            if refused:
                raise RdmaError("take uplinks out of the distributed switch", self.host, "; ".join(refused),
                                "move the VMkernel adapter to another uplink first", code="DEVICE_IN_USE", data=dict(switches=switches))
            if changes.changed and not self.check_mode:
                if not params["consent"]:
                    raise consent_missing("take uplinks out of the distributed switch", self.host, "; ".join(dvs.text_of(s) for s in switches),
                                          "consent", dict(switches=switches))
                for switch in switches:
                    self._remove(link, managers[switch["switch"]], host, switch, params["task_timeout"])
                left = tasks.until(lambda: self._left(link, host, chosen), lambda names: not names, 20)
                if left:
                    raise RdmaError("take uplinks out of the distributed switch", self.host, "vCenter did it, but the host still uses %s" % ", ".join(left),
                                    "see the host's virtual switches in vCenter (out of sync?)", code="NOT_HELD")
        return changes.result(removed=[one["pci"] for s in switches for one in s["uplinks"]], switches=switches)

    def _left(self, link, host, chosen) -> list:
        wanted = {device["pci"] for device in chosen}
        return ["%s (%s)" % (d["pci"], d["used_by"]) for d in self.devices(link, host) if d["pci"] in wanted and any(u["kind"] == "dvs" for u in d["uses"])]

    def _switches(self, link, network, switches) -> dict:
        """Switch name -> its object; their port groups are added to `switches`."""
        if not switches:
            return {}
        if link.is_host:
            raise RdmaError("take uplinks out of the distributed switch", self.host, "this is a login straight to the host",
                            "log in to the vCenter that owns the switch", code="NO_VCENTER")
        managers, known = {}, lookup.switches(link)
        for switch in switches:
            uuid = next(one.dvsUuid for one in network.proxySwitch if one.dvsName == switch["switch"])
            manager = known.get(uuid)
            if manager is None:
                raise RdmaError("find the distributed switch %s" % switch["switch"], self.host, "the user %s does not see it" % link.params["username"],
                                "give the user Read-only on it", code="NO_PERMISSION")
            managers[switch["switch"]] = manager
            groups = link.read_many(link.read(manager, "portgroup")["portgroup"] or [], ["name", "config.uplink"])
            switch["portgroups"] = sorted(group["name"] for group in groups if not group["config.uplink"])
        return managers

    def _remove(self, link, manager, host, switch, seconds) -> None:
        """Every host of the cluster edits the same switch: a stale version is read again and tried again."""
        vim = session.vim
        what = "take uplinks out of the distributed switch %s" % switch["switch"]
        vmnics = {one["vmnic"] for one in switch["uplinks"]}
        deadline, attempt = time.monotonic() + seconds, 0
        while True:
            now = link.read(manager, "config.configVersion", "config.host")
            member = next((one for one in now["config.host"] or [] if one.config.host == host), None)
            if member is None:
                return
            pnics = [dict(device=one.pnicDevice, port=one.uplinkPortKey, group=one.uplinkPortgroupKey)
                     for one in getattr(member.config.backing, "pnicSpec", None) or []]
            keep = dvs.remaining(pnics, vmnics)
            if len(keep) == len(pnics):
                return
            spec = vim.DistributedVirtualSwitch.ConfigSpec(configVersion=now["config.configVersion"], host=[vim.dvs.HostMember.ConfigSpec(
                operation="edit", host=host, backing=vim.dvs.HostMember.PnicBacking(pnicSpec=[
                    vim.dvs.HostMember.PnicSpec(pnicDevice=one["device"], uplinkPortKey=one["port"], uplinkPortgroupKey=one["group"]) for one in keep]))])
            try:
                tasks.wait(link, manager.ReconfigureDvs_Task(spec), what, self.host, max(1, deadline - time.monotonic()))
                return
            except (RdmaError, session.vmodl.MethodFault) as err:
                error = session.explain(err, what, self.host)
                if "ConcurrentAccess" not in error.code or time.monotonic() >= deadline:
                    raise error from err
            attempt += 1
            session.pause(random.uniform(0.1, 0.3) * min(attempt, 10), deadline)
