# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VIBs of an ESXi host, installed or removed; what runs is told apart from what the next boot brings."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import software_plan
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxi_files, esxi_vibs
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction
from ansible_collections.vhpc.rdma.plugins.plugin_utils.esxcli_vc import TRANSPORT_SPEC, shell as reach_host
from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import Shell


class ActionModule(RdmaAction):
    SPEC = dict(
        TRANSPORT_SPEC,
        packages=dict(type="list", elements="dict", required=True, options=software_plan.UPLOAD_SPEC),
        state=dict(type="str", choices=["present", "absent"], default="present"),
        allow_downgrade=dict(type="bool", default=False),
        force=dict(type="bool", default=False),
        install_as=dict(type="str", choices=["vib", "component"], default="vib"),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        software_plan.check_packages(params["packages"], self.host)
        with reach_host(self, params) as shell:
            return self._act(shell, params)

    def _act(self, shell: Shell, params: dict) -> dict:
        software = esxi_vibs.Software(shell, params["packages"], params["state"], params["allow_downgrade"])
        software.take(dict(zip(esxi_vibs.READ, shell.run_many(list(esxi_vibs.READ.values())))))
        changes, results = Changes("esxi"), []
        esxi_files.bring(software, params, changes, self.check_mode)
        software.steps(changes)
        warnings = software.warnings()
        if software.wants_change:
            warnings += esxi_files.image_managed(params, self.host, [package["name"] for package in params["packages"]])
            if not self.check_mode:
                results = software.apply(params["force"], params["install_as"] == "component")
        return changes.result(warnings=warnings, vibs=software.report(), blocking=software.blocking, acceptance=software.level,
                              secure_boot=software.secured, results=results)
