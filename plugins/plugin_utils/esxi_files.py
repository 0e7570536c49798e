# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of the controller that belong on a datastore, and what vCenter knows of a cluster's software. Used by esxi_software and nmlx_driver."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import esxcli_vc
from .esxi_vibs import Software
from .shell import Shell
from .vsphere import datastore, lookup, session


def bring(software: Software, params: dict, changes: Changes, check_mode: bool) -> None:
    """Uploads what is not there yet (check mode: says so) and checks every file, before the first write to the host."""
    shell, install = software.shell, software.plan["install"]
    missing = _missing(shell, install)
    if missing and check_mode:
        software.check_files([one for one in install if one["source"] not in missing])
    else:
        _upload(params, shell, install, missing)
        software.check_files()
    for target, local in missing.items():
        changes.add("file %s" % target, "content", None, "uploaded from %s" % local)


def _missing(shell: Shell, install: list[dict]) -> dict[str, str]:
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


def _upload(params: dict, shell: Shell, install: list[dict], missing: dict[str, str]) -> None:
    """One host at a time per file: who comes later finds the copy of the first."""
    for target in list(missing):
        with esxcli_vc.one_of("upload" + target, 1, shell.host, datastore.SECONDS):
            if not _missing(shell, [one for one in install if one["source"] == target]):
                missing.pop(target)
                continue
            with session.connect(params, shell.host, "upload %s" % missing[target]) as link:
                datastore.upload(link, lookup.find_host(link, params["esxi_hostname"] or shell.host), missing[target], target, shell.host)


def image_managed(params: dict, host: str, names: list[str]) -> list[str]:
    """A cluster whose hosts get their software from one image takes away what is not part of it; only vCenter knows."""
    if not params["hostname"]:
        return []
    try:
        with session.connect(params, host, "ask how the cluster is managed") as link:
            cluster = link.read(lookup.find_host(link, params["esxi_hostname"] or host), "parent")["parent"]
            known = not link.is_host and isinstance(cluster, session.vim.ComputeResource)
            managed = known and link.read(cluster, "lifecycleManaged")["lifecycleManaged"]
    except RdmaError as err:
        return ["%s: whether the cluster is managed by an image is not known: %s" % (host, err.why)]
    return ["%s: the cluster is managed by one image (vSphere Lifecycle Manager): its next remediation removes what is not in the image. "
            "Add %s to the image" % (host, ", ".join(names))] if managed else []
