# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import redfish
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction


class ActionModule(RdmaAction):
    SPEC = dict(
        baseuri=dict(type="str", required=True), username=dict(type="str", required=True),
        password=dict(type="str", required=True, no_log=True), validate_certs=dict(type="bool", default=True),
        ca_file=dict(type="path"), timeout=dict(type="int", default=60), system=dict(type="str", default=""),
        virtualization=dict(type="bool"), sriov=dict(type="bool"), logical_processors=dict(type="bool"),
        power_profile=dict(type="str", choices=sorted(redfish.PROFILES)), attributes=dict(type="dict", default={}),
        set_ok=dict(type="bool", default=False))

    def act(self, params, task_vars):
        where = "%s (BMC %s)" % (self.host, params["baseuri"])
        client = redfish.Redfish(params, where)
        state = redfish.read(client, params["system"])
        want, warnings = redfish.wanted(state, params, where)
        changes, write = redfish.compare(state, want)
        job = ""
        if write and self.check_mode and not params["set_ok"]:
            for step in changes.steps:
                step.update(certainty="conditional", reason="needs set_ok: true")
        if write and not self.check_mode:
            if not params["set_ok"]:
                raise RdmaError("set BIOS attributes", where, "%s differ and set_ok is false" % ", ".join(sorted(write)),
                                "read the changes, then set set_ok: true", code="BIOS_CHANGE_NOT_ALLOWED", data={"changes": changes.steps})
            job = redfish.apply(client, state, write)
            state = redfish.read(client, params["system"])
            missing = [n for n, v in write.items() if state["pending"].get(n, state["current"].get(n)) != v]
            if missing:
                raise RdmaError("set BIOS attributes %s" % ", ".join(missing), where, "the BMC took the request and did not keep them",
                                "look at the BMC's job queue and lifecycle log", code="BIOS_NOT_KEPT")
        result = changes.result(vendor=state["vendor"], model=state["model"], bios_version=state["bios_version"], wanted=want, pending=state["pending"],
                                current={name: state["current"].get(name) for name in sorted(want)},
                                job=job or ", ".join(str(j["id"]) for j in state["scheduled"]))
        if warnings:
            result["warnings"] = warnings
        return result
