# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A service of an ESXi host; what was found is recorded and can be put back."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import services, session, tasks
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, VsphereAction

OPEN = "lockdownDisabled"
LOCKDOWN = {"lockdownNormal": "normal", "lockdownStrict": "strict"}


class ActionModule(VsphereAction):
    WHAT = "change the service"
    SPEC = dict(
        HOST_SPEC,
        service=dict(type="str", default="TSM-SSH"),
        running=dict(type="bool"),
        policy=dict(type="str", choices=["on", "off", "automatic"]),
        state_file=dict(type="path"),
        restore=dict(type="bool", default=False),
    )
    RULES = dict(required_if=[("restore", True, ["state_file"])], mutually_exclusive=[("restore", "running"), ("restore", "policy")])

    def act(self, params: dict, task_vars: dict) -> dict:
        key, path = params["service"], params["state_file"]
        running, policy = params["running"], params["policy"]
        kept = services.recorded(path, self.host, key) if path else None
        if params["restore"]:
            if kept is None:  # nothing was recorded: nothing to put back, and no reason to ask vCenter
                return Changes("esxi").result(service=None, restored=False, lockdown="")
            running, policy = kept["running"], kept["policy"]
        with self.connect(params) as link:
            row = self.host_row(link, params, ("configManager.serviceSystem", "config.lockdownMode"))
            system, lockdown = row["configManager.serviceSystem"], str(row["config.lockdownMode"] or OPEN)
            found = self._read(link, system, key)
            changes = services.plan(self.host, found, running, policy)
            if changes.changed and not self.check_mode:
                if path and not params["restore"] and kept is None:
                    # Only the first state is what the site had: a second task, or a run after one that died, finds what we made.
                    services.record(path, self.host, key, dict(running=found["running"], policy=found["policy"]))
                found = self._apply(link, system, key, changes, running, policy)
        if params["restore"] and not self.check_mode:
            services.record(path, self.host, key, None)
        result = changes.result(service=found, restored=params["restore"], lockdown=lockdown)
        if lockdown != OPEN and running and key == "TSM-SSH":
            result["warnings"] = ["%s: lockdown mode is on (%s): even with SSH running only its exception users may log in. It is left as it is; take "
                                  "transport: vcenter, or an exception user" % (self.host, LOCKDOWN.get(lockdown, lockdown))]
        return result

    def _read(self, link, system, key) -> dict:
        rows = link.read(system, "serviceInfo.service")["serviceInfo.service"] or []
        return services.find([dict(key=one.key, running=bool(one.running), policy=str(one.policy)) for one in rows], key, self.host)

    def _apply(self, link, system, key, changes, running, policy) -> dict:
        try:
            for step in changes.steps:
                if step["name"] == "policy":
                    system.UpdateServicePolicy(key, policy)
                elif running:
                    system.StartService(key)
                else:
                    system.StopService(key)
        except session.vmodl.MethodFault as err:
            raise session.explain(err, "change the service %s" % key, self.host) from err
        found = tasks.until(lambda: self._read(link, system, key), lambda now: not services.plan(self.host, now, running, policy).changed, 20)
        wrong = services.plan(self.host, found, running, policy).steps
        if wrong:
            raise RdmaError("change the service %s" % key, self.host, "; ".join("%s is %s" % (s["name"], s["before"]) for s in wrong),
                            "see the host's services in vCenter; lockdown mode can forbid it", code="NOT_HELD")
        return found
