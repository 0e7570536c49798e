# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VIBs of an ESXi host, installed or removed; what runs is told apart from what the next boot brings."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import software_plan
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxcli_vc, esxi_vibs
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction
from ansible_collections.vhpc.rdma.plugins.plugin_utils.esxcli_vc import TRANSPORT_SPEC, shell as reach_host
from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import Shell
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import datastore, lookup, session


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

    def _missing(self, shell: Shell, install: list[dict]) -> dict[str, str]:
        """source -> local of the files that have to be uploaded: they are not there, or not the same."""
        wanted = {one["source"]: one["local"] for one in install if one.get("local")}
        sums = {target: datastore.sha256(local) for target, local in wanted.items()}
        if not wanted:
            return {}
        if not shell.shell:  # nothing tells a file's checksum there: what esxcli can read counts as the file
            answers = shell.run_many([["esxcli", "software", "sources", "vib", "get", "-d" if target.lower().endswith(".zip") else "-v", target]
                                      for target in wanted])
            return {target: wanted[target] for target, answer in zip(wanted, answers) if not answer.ok}
        answers = shell.run_many([["sha256sum", target] for target in wanted])
        return {target: wanted[target] for target, answer in zip(wanted, answers) if not answer.ok or answer.text.split()[:1] != [sums[target]]}

    def _upload(self, params: dict, shell: Shell, install: list[dict], missing: dict[str, str]) -> None:
        """One host at a time per file: who comes later finds the copy of the first."""
        for target in list(missing):
            with esxcli_vc.one_of("upload" + target, 1, self.host, datastore.SECONDS):
                if target not in self._missing(shell, install):
                    missing.pop(target)
                    continue
                with session.connect(params, self.host, "upload %s" % missing[target]) as link:
                    datastore.upload(link, lookup.find_host(link, params["esxi_hostname"] or self.host), missing[target], target, self.host)

    def _image_managed(self, params: dict) -> list[str]:
        """A cluster whose hosts get their software from one image takes away what is not part of it; only vCenter knows."""
        if not params["hostname"]:
            return []
        try:
            with session.connect(params, self.host, "ask how the cluster is managed") as link:
                cluster = link.read(lookup.find_host(link, params["esxi_hostname"] or self.host), "parent")["parent"]
                known = not link.is_host and isinstance(cluster, session.vim.ComputeResource)
                managed = known and link.read(cluster, "lifecycleManaged")["lifecycleManaged"]
        except RdmaError as err:
            return ["%s: whether the cluster is managed by an image is not known: %s" % (self.host, err.why)]
        return ["%s: the cluster is managed by one image (vSphere Lifecycle Manager): its next remediation removes what is not in the image. "
                "Add %s to the image" % (self.host, ", ".join(package["name"] for package in params["packages"]))] if managed else []

    def _act(self, shell: Shell, params: dict) -> dict:
        software = esxi_vibs.Software(shell, params["packages"], params["state"], params["allow_downgrade"])
        software.take(dict(zip(esxi_vibs.READ, shell.run_many(list(esxi_vibs.READ.values())))))
        missing = self._missing(shell, software.plan["install"])
        if missing and self.check_mode:
            present = [one for one in software.plan["install"] if one["source"] not in missing]
            software.check_files(present)
        else:
            self._upload(params, shell, software.plan["install"], missing)
            software.check_files()
        changes, results = Changes("esxi"), []
        for target, local in missing.items():
            changes.add("file %s" % target, "content", None, "uploaded from %s" % local)
        software.steps(changes)
        warnings = software.warnings()
        if software.wants_change:
            warnings += self._image_managed(params)
            if not self.check_mode:
                results = software.apply(params["force"], params["install_as"] == "component")
        return changes.result(warnings=warnings, vibs=software.report(), blocking=software.blocking, acceptance=software.level,
                              secure_boot=software.secured, results=results)
