# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power state of a VM, with consent for what takes it away from its user."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import lookup, power
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, POWER_SECONDS, VsphereAction, check_vm_host, consent_missing

WORDS = {"poweredOn": "on", "poweredOff": "off", "suspended": "suspended"}


class ActionModule(VsphereAction):
    WHAT = "power the VM"
    SPEC = dict(
        HOST_SPEC,
        name=dict(type="str", required=True),
        state=dict(type="str", default="on", choices=["on", "off", "restarted", "present"]),
        power_off_ok=dict(type="bool", default=False),
        power_timeout=dict(type="int", default=POWER_SECONDS),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        name, state = params["name"], params["state"]
        where = "%s, VM %s" % (self.host, name)
        changes = Changes("vsphere")
        with self.connect(params, where) as link:
            row = lookup.find_vm(link, name, ("runtime.powerState", "runtime.host"))
            vm = row["object"]
            host_row = link.read(row["runtime.host"], "name", "runtime.connectionState", "runtime.inMaintenanceMode")
            check_vm_host(params, host_row, "power the VM", where)
            now = WORDS.get(str(row["runtime.powerState"]), str(row["runtime.powerState"]))
            wanted = {"on": "on", "off": "off", "restarted": "on", "present": now}[state]
            if now != wanted or state == "restarted":
                takes_down = now == "on"
                changes.add("vm %s" % name, "power", now, "restarted" if state == "restarted" and takes_down else wanted)
                if takes_down and not params["power_off_ok"]:
                    if not self.check_mode:
                        raise consent_missing("power off the VM", where, "it is on", "power_off_ok")
                    changes.steps[-1].update(certainty="conditional", reason="needs power_off_ok: true")
                if not self.check_mode:
                    if takes_down:
                        power.shut_down(link, vm, name, params["power_timeout"])
                    if wanted == "on":
                        power.power_on(link, vm, where, params["power_timeout"])
                        # DRS may have placed it elsewhere.
                        host_row = link.read(link.read(vm, "runtime.host")["runtime.host"], "name")
                    now = wanted
        return changes.result(vm=dict(name=name, power=now, host=host_row["name"]))
