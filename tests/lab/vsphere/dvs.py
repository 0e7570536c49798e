# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Distributed switches: which functions of which hosts are their uplinks, and the port groups that use them."""

from __future__ import annotations

from typing import Any, TYPE_CHECKING

from pyVmomi import vim, vmodl

from .model import Entity, utc

if TYPE_CHECKING:
    from .server import Call, VsphereFace

UPLINKS = 4


class DistributedSwitch(Entity):
    kind = vim.dvs.VmwareDistributedVirtualSwitch
    unset = Entity.unset + ("networkResourcePool", "runtime")

    def __init__(self, face: VsphereFace, moid: str, name: str) -> None:
        super().__init__(face, moid)
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def parent(self) -> Entity | None:
        return self.face.network_folder

    @property
    def data(self) -> dict[str, Any]:
        return self.world.switches[self._name]

    def groups(self) -> list[Portgroup]:
        return [one for one in self.face.portgroups() if one.switch == self._name]

    def uplink_group(self) -> Portgroup:
        return next(one for one in self.groups() if one.uplink)

    def members(self) -> list[str]:
        return [host.name for host in self.world.hosts.values() if self._name in host.dvs]

    def get_uuid(self) -> str:
        return self.data["uuid"]

    def get_portgroup(self) -> list[Any]:
        return [one.ref for one in self.groups()]

    def get_capability(self) -> Any:
        return vim.DistributedVirtualSwitch.Capability(dvsOperationSupported=True, dvPortGroupOperationSupported=True, dvPortOperationSupported=True)

    @staticmethod
    def _product() -> Any:
        return vim.dvs.ProductSpec(name="DVS", vendor="VMware, Inc.", version="7.0.0", build="1", forwardingClass="etherswitch")

    def get_summary(self) -> Any:
        members = [self.face.host(name).ref for name in self.members()]
        return vim.DistributedVirtualSwitch.Summary(name=self._name, uuid=self.get_uuid(), numPorts=8 + UPLINKS * len(members), productInfo=self._product(),
                                                    hostMember=members, host=members, portgroupName=[one.name for one in self.groups()], numHosts=len(members))

    def _member(self, name: str) -> Any:
        host, uplink = self.world.hosts[name], self.uplink_group()
        names = {bdf: vmnic for vmnic, bdf in host.vmnics().items()}
        first = UPLINKS * list(self.world.hosts).index(name)
        keys = [str(first + n) for n in range(UPLINKS)]
        pnics = [vim.dvs.HostMember.PnicSpec(pnicDevice=names[bdf], uplinkPortKey=keys[n], uplinkPortgroupKey=uplink.moid)
                 for n, bdf in enumerate(host.dvs[self._name]) if bdf in names]
        config = vim.dvs.HostMember.ConfigInfo(host=self.face.host(name).ref, maxProxySwitchPorts=2048, backing=vim.dvs.HostMember.PnicBacking(pnicSpec=pnics))
        return vim.dvs.HostMember(config=config, productInfo=self._product(), uplinkPortKey=keys, status="up" if host.state == "on" else "disconnected")

    def get_config(self) -> Any:
        names = ["Uplink %d" % (n + 1) for n in range(UPLINKS)]
        return vim.dvs.VmwareDistributedVirtualSwitch.ConfigInfo(
            uuid=self.get_uuid(), name=self._name, numStandalonePorts=0, numPorts=8 + UPLINKS * len(self.members()), maxPorts=2147483647, maxMtu=9000,
            uplinkPortPolicy=vim.DistributedVirtualSwitch.NameArrayUplinkPortPolicy(uplinkPortName=names), uplinkPortgroup=[self.uplink_group().ref],
            host=[self._member(name) for name in self.members()], productInfo=self._product(), configVersion=self.data["version"], createTime=utc(),
            networkResourceManagementEnabled=True, defaultProxySwitchMaxNumPorts=2048)

    # ---- changing host members --------------------------------------------------------------------------------------

    def ReconfigureDvs_Task(self, call: Call, spec: Any) -> Any:
        return call.task(self, "reconfigure", lambda task: self._reconfigure(spec))

    def _reconfigure(self, spec: Any) -> None:
        if spec.configVersion is not None and spec.configVersion != self.data["version"]:
            raise vim.fault.ConcurrentAccess(msg="The operation cannot be completed because the object or values provided are out of sync with the server.")
        for info in spec._GetPropertyList():
            if info.name not in ("configVersion", "host", "dynamicType", "dynamicProperty") and getattr(spec, info.name) not in (None, []):
                raise vmodl.fault.NotSupported(msg="The lab changes only the host members of a distributed switch, not %s." % info.name)
        # All members are checked before one is changed.
        changes = [self._planned(member) for member in spec.host]
        for name, functions in changes:
            host = self.world.hosts[name]
            if functions is None:
                del host.dvs[self._name]
            else:
                host.dvs[self._name] = functions
        self.data["version"] = str(int(self.data["version"]) + 1)

    def _planned(self, member: Any) -> tuple[str, list[str] | None]:
        """(host name, its uplink functions after the change or None when it leaves)."""
        managed = self.face.find(member.host)
        managed.reachable()
        host, uuid = self.world.hosts[managed.name], self.get_uuid()
        joined = self._name in host.dvs
        if member.operation == "add" and joined:
            raise vim.fault.AlreadyExists(name=host.name, msg="Host %s is already a member of %s." % (host.name, self._name))
        if member.operation in ("edit", "remove") and not joined:
            raise vim.fault.NotFound(msg="Host %s is not a member of %s." % (host.name, self._name))
        if member.operation not in ("add", "edit", "remove"):
            raise vmodl.fault.InvalidArgument(invalidProperty="spec.host.operation", msg="A specified parameter was not correct: spec.host.operation")
        carried = [vmk for vmk, functions in host.vmk_uplinks.items() if joined and set(functions) & set(host.dvs[self._name])]
        if member.operation == "remove":
            if carried:
                raise vim.fault.ResourceInUse(type=vim.host.VirtualNic, name=carried[0], msg="The resource '%s' is in use." % carried[0])
            return host.name, None
        if member.backing is None:
            return host.name, host.dvs.get(self._name, [])
        vmnics, functions = host.vmnics(), []
        for pnic in member.backing.pnicSpec:
            bdf = vmnics.get(pnic.pnicDevice)
            if bdf is None:
                raise vim.fault.NotFound(msg="Host %s has no physical adapter %s." % (host.name, pnic.pnicDevice))
            user = host.used_by(bdf)
            if user and bdf not in host.dvs.get(self._name, []):
                raise vim.fault.ResourceInUse(type=vim.host.PhysicalNic, name=pnic.pnicDevice,
                                              msg="%s of host %s is in use by %s (%s)." % (pnic.pnicDevice, host.name, user, uuid))
            functions.append(bdf)
        lost = [vmk for vmk in carried if not set(host.vmk_uplinks[vmk]) & set(functions)]
        if lost:
            raise vim.fault.ResourceInUse(type=vim.host.VirtualNic, name=lost[0], msg="%s of host %s would lose its last uplink." % (lost[0], host.name))
        return host.name, functions


class Portgroup(Entity):
    kind = vim.dvs.DistributedVirtualPortgroup

    def __init__(self, face: VsphereFace, moid: str, switch: str, name: str, uplink: bool) -> None:
        super().__init__(face, moid)
        self.switch, self._name, self.uplink = switch, name, uplink

    @property
    def name(self) -> str:
        return self._name

    @property
    def parent(self) -> Entity | None:
        return self.face.network_folder

    def get_key(self) -> str:
        return self.moid

    def _switch(self) -> DistributedSwitch:
        return next(one for one in self.face.switches() if one.name == self.switch)

    def get_config(self) -> Any:
        ports = UPLINKS * len(self._switch().members()) if self.uplink else 8
        return vim.dvs.DistributedVirtualPortgroup.ConfigInfo(key=self.moid, name=self._name, numPorts=ports, distributedVirtualSwitch=self._switch().ref,
                                                              type="earlyBinding", uplink=self.uplink, configVersion="1", autoExpand=True,
                                                              backingType="standard")

    def get_host(self) -> list[Any]:
        return [self.face.host(name).ref for name in self._switch().members()]

    def get_vm(self) -> list[Any]:
        return []

    def get_portKeys(self) -> list[str]:
        return [str(n) for n in range(self.get_config().numPorts)]

    def get_summary(self) -> Any:
        return vim.Network.Summary(network=self.ref, name=self._name, accessible=True, ipPoolName="")
