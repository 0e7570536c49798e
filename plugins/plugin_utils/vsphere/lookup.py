# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts and VMs by name: one request each, and a name that fits nothing or two things is told, never guessed."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import session as _session
from . import vm_devices

# Agent VMs of the vSphere Cluster Services: vCenter powers them on again, so they are nobody's VM.
VCLS = re.compile(r"^vCLS(-[0-9a-f-]+| ?\(\d+\))?$", re.I)


def is_vcls(name: str, managed_by: t.Any = None) -> bool:
    return bool(VCLS.match(name or "")) or "vim.eam" in (getattr(managed_by, "extensionKey", None) or "")


def choose(rows: list[dict], name: str, kind: str, where: str, hint: str) -> dict:
    """The row whose name is `name`: exactly, else by case, else (hosts) by the first label of a full name."""
    for same in (lambda n: n == name, lambda n: n.lower() == name.lower(), lambda n: kind == "host" and n.lower().split(".")[0] == name.lower()):
        found = [row for row in rows if same(row["name"] or "")]
        if len(found) == 1:
            return found[0]
        if found:
            raise RdmaError("choose the %s %s" % (kind, name), where, "vCenter has %d of that name" % len(found), hint, code="AMBIGUOUS")
    names = sorted(row["name"] or "" for row in rows)
    shown = ", ".join(names[:20]) + (" and %d more" % (len(names) - 20) if len(names) > 20 else "")
    raise RdmaError("find the %s %s" % (kind, name), where, "vCenter has %s" % (shown or "none at all (that this user may see)"), hint, code="NOT_FOUND")


def steps_to(vms: bool) -> list:
    vim = _session.vim
    steps = [(vim.Folder, "childEntity", ["childEntity", "hostFolder", "host"]),
             (vim.Datacenter, "hostFolder", ["childEntity", "host"]),
             (vim.ComputeResource, "host", ["vm"] if vms else [])]
    if vms:
        steps.append((vim.HostSystem, "vm", []))
    return steps


def find_host(session: t.Any, name: str) -> t.Any:
    """The HostSystem of that name; a login straight to an ESXi host has just one, whatever it calls itself."""
    vim = _session.vim
    rows = session.walk(steps_to(False), {vim.HostSystem: ["name"]})
    if session.is_host and len(rows) == 1:
        return rows[0]["object"]
    return choose(rows, name, "host", session.where, "set esxi_hostname to the name the host has in vCenter")["object"]


def find_vm(session: t.Any, name: str, paths: tuple[str, ...] = ()) -> dict:
    """The VM of that name with the properties asked for; agent VMs of the cluster services are not there."""
    return find_vms(session, [name], paths)[0]


def all_vms(session: t.Any) -> list[dict]:
    """name of every VM but the agent VMs of the cluster services."""
    vim = _session.vim
    return [row for row in session.walk(steps_to(True), {vim.VirtualMachine: ["name"]}) if not is_vcls(row["name"])]


def find_vms(session: t.Any, names: t.Sequence[str], paths: tuple[str, ...] = ()) -> list[dict]:
    """The VMs of those names in that order with the properties asked for: two requests for however many."""
    rows = all_vms(session)
    found = [choose(rows, name, "VM", session.where, "correct the name (vhpc_vm of the host); VMs need names of their own") for name in names]
    if not paths:
        return found
    read = {row["object"]._moId: row for row in session.read_many([row["object"] for row in found], list(paths))}
    out = [dict(read[row["object"]._moId], name=row["name"]) for row in found]
    empty = [row["name"] for row in out if "config.hardware" in paths and row["config.hardware"] is None]
    if empty:
        raise RdmaError("read the settings of the VM %s" % ", ".join(empty), session.where, "vCenter has none (is it inaccessible or orphaned?)",
                        "see the VM in vCenter: its datastore may be away", code="NO_CONFIG")
    return out


def site(session: t.Any) -> tuple[list[dict], list[dict]]:
    """All hosts (name, id, cluster) and VMs (name, host's id, address in the guest), by name, in two requests; no templates, no agent VMs."""
    vim = _session.vim
    rows = session.walk(steps_to(True), {vim.HostSystem: ["name", "parent"],
                                         vim.VirtualMachine: ["name", "runtime.host", "guest.ipAddress", "config.template", "config.managedBy"]})
    found = [row for row in rows if isinstance(row["object"], vim.HostSystem)]
    parents = {row["parent"]._moId: row["parent"] for row in found if row["parent"] is not None}
    clusters = {row["object"]._moId: row["name"] for kind in {type(one) for one in parents.values()}
                for row in session.read_many([one for one in parents.values() if one.__class__ is kind], ["name"])}
    hosts = [dict(name=row["name"], id=row["object"]._moId, cluster=clusters.get(row["parent"]._moId, "") if row["parent"] else "") for row in found]
    machines = [row for row in rows if isinstance(row["object"], vim.VirtualMachine) and not row["config.template"]]
    vms = [dict(name=row["name"], host=row["runtime.host"]._moId if row["runtime.host"] else "", address=row["guest.ipAddress"] or "")
           for row in machines if not is_vcls(row["name"], row["config.managedBy"])]
    return sorted(hosts, key=lambda one: one["name"]), sorted(vms, key=lambda one: one["name"])


def hosts_of(session: t.Any, rows: t.Iterable[dict], paths: tuple[str, ...]) -> dict[str, dict]:
    """id of a host -> its properties, for the hosts of these VMs (with runtime.host): one request."""
    hosts = {row["runtime.host"]._moId: row["runtime.host"] for row in rows if row["runtime.host"] is not None}
    return {row["object"]._moId: row for row in session.read_many(hosts.values(), list(paths))}


def clusters_of(session: t.Any, parents: t.Iterable[t.Any]) -> dict[str, dict]:
    """id -> name, ha and drs (whether they are on) of the clusters among these compute resources that the user may read: one request."""
    found = {one._moId: one for one in parents if isinstance(one, _session.vim.ClusterComputeResource)}
    out: dict[str, dict] = {}
    try:
        rows = session.read_many(found.values(), ["name", "configurationEx"])
    except RdmaError as err:
        if err.code != "NO_PERMISSION":
            raise
        return out
    for row in rows:
        config = row["configurationEx"]
        das, drs = getattr(config, "dasConfig", None), getattr(config, "drsConfig", None)
        out[row["object"]._moId] = dict(name=row["name"], ha=bool(das and das.enabled), drs=bool(drs and drs.enabled))
    return out


def vms_of(session: t.Any, host: t.Any) -> list[dict]:
    """name and power state of every VM on the host but the cluster services' own."""
    rows = session.read_many(session.read(host, "vm")["vm"] or [], ["name", "runtime.powerState", "config.managedBy"])
    return [row for row in rows if not is_vcls(row["name"], row["config.managedBy"])]


def holders(session: t.Any, vms: t.Iterable[t.Any]) -> dict[str, list[tuple[str, str]]]:
    """bdf -> [(id of the VM, its name)] of VMs of one or several hosts that have a device there; one request. A VM whose settings cannot be read has none."""
    out: dict[str, list[tuple[str, str]]] = {}
    for row in session.read_many(vms, ["name", "config.hardware"]):
        for device in vm_devices.attached(row["config.hardware"]):
            if device["bdf"]:
                out.setdefault(device["bdf"], []).append((row["object"]._moId, row["name"]))
    return out


def attached(session: t.Any, vms: t.Iterable[t.Any]) -> dict[str, str]:
    """bdf -> name of the VM that has the device, for VMs of one host."""
    return {bdf: rows[0][1] for bdf, rows in holders(session, vms).items()}


def switches(session: t.Any) -> dict[str, t.Any]:
    """uuid -> distributed switch, all of them."""
    vim = _session.vim
    steps = [(vim.Folder, "childEntity", ["childEntity", "networkFolder"]), (vim.Datacenter, "networkFolder", ["childEntity"])]
    return {row["uuid"]: row["object"] for row in session.walk(steps, {vim.DistributedVirtualSwitch: ["uuid"]})}
