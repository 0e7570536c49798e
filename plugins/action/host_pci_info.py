# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What PCI devices a host has and how their passthrough stands."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import passthru
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, VsphereAction


class ActionModule(VsphereAction):
    WHAT = "read the PCI devices"
    SPEC = dict(HOST_SPEC, devices=dict(type="list", elements="raw", options=passthru.SELECTOR_SPEC))

    def act(self, params: dict, task_vars: dict) -> dict:
        with self.connect(params) as link:
            row = self.host_row(link, params, passthru.HOST_PATHS)
            devices = passthru.devices_of(row)
            rebind = bool(row["capability"] and row["capability"].deviceRebindWithoutRebootSupported)
        if params["devices"]:
            devices = [device for device, dummy in passthru.select(devices, passthru.selectors_of(params["devices"], self.host), self.host)]
        return Changes("vsphere").result(devices=[passthru.shown(device) for device in devices], rebind_without_reboot=rebind)
