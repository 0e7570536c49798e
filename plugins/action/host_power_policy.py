# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power policy of an ESXi host."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import power, session, tasks
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, VsphereAction


class ActionModule(VsphereAction):
    WHAT = "set the power policy"
    SPEC = dict(HOST_SPEC, policy=dict(type="str", default="static", choices=list(power.POLICIES)))

    def act(self, params: dict, task_vars: dict) -> dict:
        with self.connect(params) as link:
            system = self.host_row(link, params, ("configManager.powerSystem",))["configManager.powerSystem"]
            row = link.read(system, "capability.availablePolicy", "info.currentPolicy")
            policies = [dict(key=one.key, short=one.shortName) for one in row["capability.availablePolicy"] or []]
            current = row["info.currentPolicy"].shortName if row["info.currentPolicy"] else ""
            changes, key = power.plan_policy(self.host, policies, current, params["policy"])
            if changes.changed and not self.check_mode:
                try:
                    system.ConfigurePowerPolicy(key)
                except session.vmodl.MethodFault as err:
                    raise session.explain(err, "set the power policy", self.host) from err
                wanted = power.POLICIES[params["policy"]]
                current = tasks.until(lambda: link.read(system, "info.currentPolicy")["info.currentPolicy"].shortName, lambda now: now == wanted, 10)
                if current != wanted:
                    raise RdmaError("set the power policy", self.host, "it is still %s" % current,
                                    "let the BIOS leave power management to the operating system", code="NOT_HELD")
        return changes.result(policy=current, available=[one["short"] for one in policies])
