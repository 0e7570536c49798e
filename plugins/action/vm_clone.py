# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs from a template, placed one per host."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import customization, lookup, power, session, tasks
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, POWER_SECONDS, VsphereAction

HINT = "list what is there with ansible-inventory and the plugin vhpc.rdma.cluster, or look in vCenter"


class ActionModule(VsphereAction):
    WHAT = "make VMs from a template"
    SPEC = dict(
        HOST_SPEC,
        template=dict(type="str", required=True),
        name=dict(type="str"),
        vms=dict(type="list", elements="dict", options=dict(
            name=dict(type="str", required=True), esxi_hostname=dict(type="str"), datastore=dict(type="str"), guest_hostname=dict(type="str"),
            guest_address=dict(type="str"))),
        hosts=dict(type="list", elements="str", default=[]),
        datastore=dict(type="str"),
        folder=dict(type="str"),
        resource_pool=dict(type="str"),
        network=dict(type="str"),
        linked=dict(type="bool", default=False),
        customization=dict(type="str"),
        guest_hostname=dict(type="str"),
        guest_domain=dict(type="str"),
        guest_address=dict(type="str"),
        guest_gateway=dict(type="str"),
        guest_dns=dict(type="list", elements="str", default=[]),
        power_on=dict(type="bool", default=False),
        tools_timeout=dict(type="int", default=0),
        clone_timeout=dict(type="int", default=3600),
        power_timeout=dict(type="int", default=POWER_SECONDS),
    )
    RULES = dict(required_one_of=[["name", "vms"]], mutually_exclusive=[["name", "vms"], ["guest_hostname", "vms"], ["guest_address", "vms"]])

    def act(self, params: dict, task_vars: dict) -> dict:
        if params["name"]:
            wanted = [dict({key: params[key] for key in customization.OWN}, name=params["name"], esxi_hostname=self.esxi(params), datastore=None)]
        else:
            wanted = params["vms"]
        shared = {key: params[key] for key in customization.SHARED}
        custom = any(shared.values()) or any(one[key] for one in wanted for key in customization.OWN)
        self._refuse(customization.problems(wanted, shared) if custom else [], "CUSTOMIZATION", "correct it; nothing was made")
        changes = Changes("vsphere")
        with self.connect(params) as link:
            hosts, vms = self._site(link)
            template = lookup.choose(vms, params["template"], "template", self.host, "correct template")
            placed = self._place(wanted, hosts, [row for row in vms if row is not template], params["hosts"])
            for row in placed:
                if row["vm"] is None:
                    changes.add("vm %s" % row["name"], "clone of %s" % template["name"], "absent", "on %s" % row["host"]["name"])
                    if custom:
                        changes.add("vm %s" % row["name"], "guest customization", "as the template", customization.wanted_text(row, shared))
            new = [row for row in placed if row["vm"] is None]
            base = customization.named(link, shared["customization"], self.host) if new and shared["customization"] else None
            down = [row for row in placed if params["power_on"] and (row["vm"] is None or str(row["vm"]["runtime.powerState"]) == "poweredOff")]
            for row in down:
                changes.add("vm %s" % row["name"], "power", "off", "on")
            # In check mode too: what is not there is told now.
            specs = [(row, self._spec(link, template, row, params, base if custom else False)) for row in new]
            if not self.check_mode:
                self._clone(link, template, specs, params)
                if down:
                    power.power_on_all(link, {row["name"]: row["object"] for row in down}, params["power_timeout"])
                if params["tools_timeout"]:
                    deadline = time.monotonic() + params["tools_timeout"]
                    self._tools(link, placed, params["tools_timeout"])
                    if custom and link.version >= customization.STATUS_VERSION:
                        self._customized(link, [row for row in down if row["vm"] is None], deadline)
        return changes.result(vms=[dict(name=row["name"], host=row["host"]["name"], made=row["vm"] is None) for row in placed])

    @staticmethod
    def _site(link: t.Any) -> tuple[list[dict], list[dict]]:
        vim = session.vim
        rows = link.walk(lookup.steps_to(True), {
            vim.HostSystem: ["name", "parent", "runtime.connectionState", "runtime.inMaintenanceMode", "datastore", "network"],
            vim.VirtualMachine: ["name", "runtime.host", "runtime.powerState", "config.template", "parent", "snapshot", "config.hardware"]})
        return ([row for row in rows if isinstance(row["object"], vim.HostSystem)],
                [row for row in rows if isinstance(row["object"], vim.VirtualMachine) and not lookup.is_vcls(row["name"])])

    def _place(self, wanted: list[dict], hosts: list[dict], vms: list[dict], pool: list[str]) -> list[dict]:
        """Each VM with its host: the one it is on, the one it names, else the next of `hosts` that has none of these VMs."""
        names = [one["name"] for one in wanted]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not names:
            raise RdmaError(self.WHAT, self.host, "%s there twice" % ", ".join(twice) if twice else "vms is empty", "name each VM once", code="VMS")
        there = {row["name"]: row for row in vms}
        by_id = {row["object"]._moId: row for row in hosts}

        def host_of(name: str) -> dict:
            return lookup.choose(hosts, name, "host", self.host, HINT)

        out, problems = [], []
        for one in wanted:
            vm = there.get(one["name"])
            host = by_id.get(vm["runtime.host"]._moId) if vm is not None and vm["runtime.host"] is not None else None
            asked = host_of(one["esxi_hostname"]) if one.get("esxi_hostname") else None
            if vm is not None and asked is not None and asked is not host:
                problems.append("%s is there, on %s and not on %s" % (one["name"], host["name"] if host else "no host", asked["name"]))
            out.append(dict({key: one.get(key) for key in customization.OWN}, name=one["name"], vm=vm, object=vm["object"] if vm else None,
                            host=host or asked, datastore=one.get("datastore")))
        taken = {row["host"]["object"]._moId for row in out if row["host"]}
        free = [host for host in map(host_of, pool) if host["object"]._moId not in taken]
        for row in out:
            if row["host"] is None:
                if not free:
                    problems.append("no host is left for %s" % row["name"])
                    continue
                row["host"] = free.pop(0)
        for row in out:
            host = row["host"]
            if row["vm"] is None and host and str(host["runtime.connectionState"]) != "connected":
                problems.append("%s, for %s, is %s" % (host["name"], row["name"], host["runtime.connectionState"]))
            elif row["vm"] is None and host and host["runtime.inMaintenanceMode"] and not self.check_mode:
                problems.append("%s, for %s, is in maintenance mode" % (host["name"], row["name"]))
        self._refuse(problems, "PLACE", "name hosts or esxi_hostname of each VM; nothing was made")
        return out

    def _refuse(self, problems: list[str], code: str, hint: str) -> None:
        if problems:
            raise RdmaError(self.WHAT, self.host, "; ".join(problems), hint, code=code, data=dict(problems=problems))

    def _named(self, link: t.Any, things: t.Iterable[t.Any], name: str, kind: str) -> t.Any:
        """The object of that name among those; they may be of several types."""
        things = list(things or [])
        rows = [row for one in {thing.__class__ for thing in things} for row in link.read_many([thing for thing in things if thing.__class__ is one], ["name"])]
        return lookup.choose(rows, name, kind, self.host, HINT)["object"]

    def _spec(self, link: t.Any, template: dict, row: dict, params: dict, base: t.Any) -> dict:
        """folder and CloneSpec for one VM. base: vCenter's customization; None: a plain one; False: none."""
        vim, host = session.vim, row["host"]
        place = vim.vm.RelocateSpec(host=host["object"])
        parent = link.read(host["parent"], "resourcePool")
        place.pool = parent["resourcePool"]
        if params["resource_pool"]:
            place.pool = self._named(link, link.read(place.pool, "resourcePool")["resourcePool"], params["resource_pool"], "resource pool")
        store = row["datastore"] or params["datastore"]
        if store:
            place.datastore = self._named(link, host["datastore"], store, "datastore")
        if params["network"]:
            place.deviceChange = [self._nic(link, template, host, params["network"])]
        spec = vim.vm.CloneSpec(location=place, template=False, powerOn=False)
        if base is not False:
            nics = sum(isinstance(one, vim.vm.device.VirtualEthernetCard) for one in template["config.hardware"].device)
            spec.customization = customization.specification(base, row, params, nics, self.host)
            if len(spec.customization.nicSettingMap) != nics:
                why = "the customization %s is for %d network adapters, the template %s has %d" % (
                    params["customization"], len(spec.customization.nicSettingMap), template["name"], nics)
                raise RdmaError("customize the guest of %s" % row["name"], self.host, why, "name another, or correct it in vCenter", code="CUSTOMIZATION")
        if params["linked"]:
            if template["snapshot"] is None:
                raise RdmaError("make a linked clone", row["name"], "the template %s has no snapshot" % template["name"], "take one, or leave linked out",
                                code="NO_SNAPSHOT")
            place.diskMoveType = "createNewChildDiskBacking"
            spec.snapshot = template["snapshot"].currentSnapshot
        return dict(folder=self._folder(link, template, params["folder"]), spec=spec)

    def _folder(self, link: t.Any, template: dict, name: str | None) -> t.Any:
        vim = session.vim
        if not name:
            return template["parent"]
        steps = [(vim.Folder, "childEntity", ["childEntity", "vmFolder"]), (vim.Datacenter, "vmFolder", ["childEntity"])]
        return lookup.choose(link.walk(steps, {vim.Folder: ["name"]}), name, "folder", self.host, HINT)["object"]

    def _nic(self, link: t.Any, template: dict, host: dict, name: str) -> t.Any:
        vim, device = session.vim, session.vim.vm.device
        nic = next((one for one in template["config.hardware"].device if isinstance(one, device.VirtualEthernetCard)), None)
        if nic is None:
            raise RdmaError("put the VM into the network %s" % name, self.host, "the template %s has no network adapter" % template["name"],
                            "give it one, or leave network out", code="NO_NIC")
        network = self._named(link, host["network"], name, "network of %s" % host["name"])
        if isinstance(network, vim.dvs.DistributedVirtualPortgroup):
            group = link.read(network, "key", "config.distributedVirtualSwitch")
            switch = link.read(group["config.distributedVirtualSwitch"], "uuid")
            nic.backing = device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(
                port=vim.dvs.PortConnection(portgroupKey=group["key"], switchUuid=switch["uuid"]))
        else:
            nic.backing = device.VirtualEthernetCard.NetworkBackingInfo(deviceName=name, network=network)
        return device.VirtualDeviceSpec(operation="edit", device=nic)

    def _clone(self, link: t.Any, template: dict, specs: list, params: dict) -> None:
        """All clones at the same time, one wait; what could be made stays."""
        running = {row["name"]: template["object"].CloneVM_Task(made["folder"], row["name"], made["spec"]) for row, made in specs}
        failed = tasks.wait_all(link, running, "clone the VM", params["clone_timeout"])
        if failed:
            raise tasks.together(failed, self.WHAT)
        if not specs:
            return
        elsewhere = []
        for (row, dummy), found in zip(specs, lookup.find_vms(link, [row["name"] for row, dummy in specs], ("runtime.host",))):
            row["object"] = found["object"]
            if found["runtime.host"]._moId != row["host"]["object"]._moId:
                elsewhere.append("%s is on %s, not on %s" % (row["name"], link.read(found["runtime.host"], "name")["name"], row["host"]["name"]))
        if elsewhere:
            raise RdmaError(self.WHAT, self.host, "vCenter made them, but %s" % "; ".join(elsewhere), "move them while they are off, or delete them",
                            code="NOT_HELD")

    def _tools(self, link: t.Any, placed: list[dict], seconds: int) -> None:
        names = {row["object"]._moId: row["name"] for row in placed}

        def silent() -> list[str]:
            rows = link.read_many([row["object"] for row in placed], ["guest.toolsRunningStatus"])
            return sorted(names[row["object"]._moId] for row in rows if row["guest.toolsRunningStatus"] != "guestToolsRunning")

        started = time.monotonic()
        rest = tasks.until(silent, lambda names_: not names_, seconds)
        if rest:
            raise RdmaError("wait for VMware Tools", ", ".join(rest), "they do not run after %d s" % (time.monotonic() - started),
                            "see the VM's console: is it on, and are open-vm-tools in the template?", code="NO_TOOLS")

    def _customized(self, link: t.Any, made: list[dict], deadline: float) -> None:
        """Every new guest says that it has its name and address; one that could not is an error with the guest's own words."""
        names = {row["object"]._moId: row["name"] for row in made}

        def states() -> dict[str, tuple[str, str]]:
            rows = link.read_many([row["object"] for row in made], ["guest.customizationInfo"])
            infos = {names[row["object"]._moId]: row["guest.customizationInfo"] for row in rows}
            return {name: (str(info.customizationStatus), info.errorMsg or "") if info else ("", "") for name, info in infos.items()}

        found = tasks.until(states, lambda now: all(state in (customization.DONE, customization.FAILED) for state, dummy in now.values()),
                            max(0.0, deadline - time.monotonic()))
        bad = sorted("%s: %s" % (name, text or "it failed" if state == customization.FAILED else "not done in time (%s)" % (state or "nothing reported"))
                     for name, (state, text) in found.items() if state != customization.DONE)
        if bad:
            raise RdmaError("customize the guests", self.host, "; ".join(bad),
                            "see /var/log/vmware-imc in the guest; the template needs open-vm-tools and perl, or cloud-init with customization enabled",
                            code="CUSTOMIZATION")
