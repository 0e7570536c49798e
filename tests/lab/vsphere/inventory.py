# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory tree around hosts and VMs, and the ways to look things up in it."""

from __future__ import annotations

from typing import Any, Callable, TYPE_CHECKING

from pyVmomi import VmomiSupport, vim, vmodl

from .model import Entity, Managed

if TYPE_CHECKING:
    from .server import Call, VsphereFace


class Folder(Entity):
    kind = vim.Folder
    unset = Entity.unset + ("namespace", "externallyManagedFolderInfo")

    def __init__(self, face: VsphereFace, moid: str, name: str, parent: Entity | None, types: list[str], children: Callable[[], list[Any]]) -> None:
        super().__init__(face, moid)
        self._name, self._parent, self._types, self._children = name, parent, types, children

    @property
    def name(self) -> str:
        return self._name

    @property
    def parent(self) -> Entity | None:
        return self._parent

    def children(self) -> list[Entity]:
        return self._children()

    def get_childEntity(self) -> list[Any]:
        return [child.ref for child in self.children()]

    def get_childType(self) -> list[Any]:
        return [VmomiSupport.GetVmodlType("vim." + name) for name in self._types]


class Datacenter(Entity):
    kind = vim.Datacenter

    def __init__(self, face: VsphereFace, moid: str, parent: Entity) -> None:
        super().__init__(face, moid)
        self._parent = parent

    @property
    def name(self) -> str:
        return self.face.datacenter_name

    @property
    def parent(self) -> Entity | None:
        return self._parent

    def children(self) -> list[Entity]:
        face = self.face
        return [face.vm_folder, face.host_folder, face.datastore_folder, face.network_folder]

    def get_vmFolder(self) -> Any:
        return self.face.vm_folder.ref

    def get_hostFolder(self) -> Any:
        return self.face.host_folder.ref

    def get_datastoreFolder(self) -> Any:
        return self.face.datastore_folder.ref

    def get_networkFolder(self) -> Any:
        return self.face.network_folder.ref

    def get_datastore(self) -> list[Any]:
        return [one.ref for one in self.face.datastores()]

    def get_network(self) -> list[Any]:
        return [one.ref for one in (self.face.network, *self.face.portgroups())]

    def get_configuration(self) -> Any:
        return vim.Datacenter.ConfigInfo(defaultHardwareVersionKey="vmx-19")


class Cluster(Entity):
    kind = vim.ClusterComputeResource
    unset = Entity.unset + ("actionHistory", "drsFault", "drsRecommendation", "migrationHistory", "recommendation", "hciConfig", "networkBootMode",
                            "environmentBrowser")

    ha = False  # whether vSphere HA is on; it restarts nothing here
    moves = True  # DRS places VMs at power-on

    @property
    def name(self) -> str:
        return self.world.cluster

    @property
    def parent(self) -> Entity | None:
        return self.face.host_folder

    def children(self) -> list[Entity]:
        return [*self.face.hosts(), self.face.pool]

    def get_host(self) -> list[Any]:
        return [host.ref for host in self.face.hosts()]

    def get_resourcePool(self) -> Any:
        return self.face.pool.ref

    def get_datastore(self) -> list[Any]:
        return [one.ref for one in self.face.datastores()]

    def get_network(self) -> list[Any]:
        return [one.ref for one in (self.face.network, *self.face.portgroups())]

    def get_configManagerEnabled(self) -> bool:
        return False

    def get_lifecycleManaged(self) -> bool:
        return self.world.image_managed

    def get_configuration(self) -> Any:
        return vim.cluster.ConfigInfo(dasConfig=vim.cluster.DasConfigInfo(enabled=self.ha), drsConfig=self._drs())

    def get_configurationEx(self) -> Any:
        return vim.cluster.ConfigInfoEx(dasConfig=vim.cluster.DasConfigInfo(enabled=self.ha), drsConfig=self._drs(), vmSwapPlacement="vmDirectory",
                                        vsanConfigInfo=vim.vsan.cluster.ConfigInfo(enabled=self.world.vsan))

    def _drs(self) -> Any:
        return vim.cluster.DrsConfigInfo(enabled=self.moves, defaultVmBehavior="fullyAutomated", vmotionRate=3)

    def get_summaryEx(self) -> Any:
        return self.get_summary()

    def get_summary(self) -> Any:
        hosts = list(self.world.hosts.values())
        up = [host for host in hosts if host.state == "on" and not host.maintenance]
        total = sum(host.cores * host.mhz for host in hosts)
        return vim.ClusterComputeResource.Summary(
            totalCpu=total, totalMemory=sum(host.memory_mb for host in hosts) << 20, numCpuCores=sum(host.cores for host in hosts),
            numCpuThreads=sum(2 * host.cores for host in hosts), effectiveCpu=sum(host.cores * host.mhz for host in up),
            effectiveMemory=sum(host.memory_mb for host in up), numHosts=len(hosts), numEffectiveHosts=len(up), overallStatus="green", currentFailoverLevel=0,
            numVmotions=0, targetBalance=0, currentBalance=0)

    # ---- agent VMs (vCLS) -------------------------------------------------------------------------------------------

    @property
    def retreat(self) -> bool:
        """Retreat mode: somebody switched the cluster's agent VMs off by the advanced option of vCenter."""
        return str(self.face.settings.get("config.vcls.clusters.%s.enabled" % self.moid, "true")).lower() == "false"

    def settle_agents(self) -> None:
        """vCenter keeps its agent VMs on, on a host that can run them, unless in retreat mode. Call with the world locked."""
        usable = [host.name for host in self.world.hosts.values() if host.state == "on" and not host.maintenance and not self.face.host(host.name).entering]
        for vm in self.world.vms.values():
            if not vm.vcls:
                continue
            if self.retreat or not usable:
                vm.power = "off"
            else:
                if vm.host not in usable:
                    vm.host = usable[0]
                    self.world.note("vsphere", vm.name, "agent VM moved", to=vm.host)
                vm.power = "on"

    def settle_agents_now(self) -> None:
        with self.world.lock:
            self.settle_agents()


class ResourcePool(Entity):
    kind = vim.ResourcePool
    unset = Entity.unset + ("childConfiguration", "namespace", "resourcePool")

    @property
    def name(self) -> str:
        return "Resources"

    @property
    def parent(self) -> Entity | None:
        return self.face.cluster

    def get_owner(self) -> Any:
        return self.face.cluster.ref

    def get_vm(self) -> list[Any]:
        return [vm.ref for vm in self.face.vms()]

    def _usage(self, total: int) -> Any:
        return vim.ResourcePool.ResourceUsage(reservationUsed=0, reservationUsedForVm=0, unreservedForPool=total, unreservedForVm=total, overallUsage=0,
                                              maxUsage=total)

    def get_runtime(self) -> Any:
        hosts = self.world.hosts.values()
        return vim.ResourcePool.RuntimeInfo(memory=self._usage(sum(host.memory_mb for host in hosts) << 20),
                                            cpu=self._usage(sum(host.cores * host.mhz for host in hosts)),
                                            overallStatus="green")

    def get_config(self) -> Any:
        share = vim.SharesInfo(shares=4000, level="normal")
        free = vim.ResourceAllocationInfo(reservation=0, expandableReservation=True, limit=-1, shares=share)
        return vim.ResourceConfigSpec(entity=self.ref, cpuAllocation=free, memoryAllocation=free)

    def get_summary(self) -> Any:
        return vim.ResourcePool.Summary(name=self.name, config=self.get_config(), runtime=self.get_runtime())


class Datastore(Entity):
    kind = vim.Datastore
    unset = Entity.unset + ("iormConfiguration",)

    def __init__(self, face: VsphereFace, moid: str, name: str) -> None:
        super().__init__(face, moid)
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def parent(self) -> Entity | None:
        return self.face.datastore_folder

    @property
    def url(self) -> str:
        return "ds:///vmfs/volumes/%s/" % self._name

    def get_summary(self) -> Any:
        return vim.Datastore.Summary(datastore=self.ref, name=self._name, url=self.url, capacity=10 << 40, freeSpace=7 << 40, accessible=True,
                                     multipleHostAccess=True,
                                     type="NFS", maintenanceMode="normal")

    def get_info(self) -> Any:
        return vim.host.NasDatastoreInfo(name=self._name, url=self.url, freeSpace=7 << 40, maxFileSize=62 << 40,
                                         nas=vim.host.NasVolume(name=self._name, type="NFS", capacity=10 << 40, remoteHost="nas.lab",
                                                                remotePath="/%s" % self._name))

    def get_capability(self) -> Any:
        return vim.Datastore.Capability(directoryHierarchySupported=True, perFileThinProvisioningSupported=True)

    def get_host(self) -> list[Any]:
        mount = vim.host.MountInfo(path="/vmfs/volumes/%s" % self._name, accessMode="readWrite", mounted=True, accessible=True)
        return [vim.Datastore.HostMount(key=host.ref, mountInfo=mount) for host in self.face.hosts()]

    def get_vm(self) -> list[Any]:
        return [vm.ref for vm in self.face.vms()]


class Network(Entity):
    kind = vim.Network

    def __init__(self, face: VsphereFace, moid: str, name: str) -> None:
        super().__init__(face, moid)
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def parent(self) -> Entity | None:
        return self.face.network_folder

    def get_host(self) -> list[Any]:
        return [host.ref for host in self.face.hosts()]

    def get_vm(self) -> list[Any]:
        return [vm.ref for vm in self.face.vms()]

    def get_summary(self) -> Any:
        return vim.Network.Summary(network=self.ref, name=self.name, accessible=True, ipPoolName="")


class View(Managed):
    """A container or list view: the members when it was made, without what has gone since."""

    def __init__(self, face: VsphereFace, moid: str, kind: Any, members: Callable[[], list[Managed]], values: dict[str, Any]) -> None:
        super().__init__(face, moid)
        self.kind, self._members, self._values = kind, members, values

    def get_view(self) -> list[Any]:
        return [one.ref for one in self._members()]

    def get_container(self) -> Any:
        return self._values.get("container")

    def get_type(self) -> list[Any]:
        return self._values.get("type", [])

    def get_recursive(self) -> bool:
        return self._values.get("recursive", False)

    def DestroyView(self, call: Call) -> None:
        self.face.drop(self.moid)
        if call.session and self.moid in call.session.owned:
            call.session.owned.remove(self.moid)


class ViewManager(Managed):
    kind = vim.view.ViewManager

    def get_viewList(self) -> list[Any]:
        return [one.ref for one in list(self.face.objects.values()) if isinstance(one, View)]

    def _add(self, call: Call, kind: Any, members: Callable[[], list[Managed]], **values: Any) -> Any:
        made = self.face.add(View(self.face, self.face.new_id("session[%s]view" % call.sid[:8]), kind, members, values))
        call.session.owned.append(made.moid)
        return made.ref

    def CreateContainerView(self, call: Call, container: Any, type: list[Any], recursive: bool) -> Any:
        top = self.face.find(container)
        if not isinstance(top, (Folder, Datacenter, Cluster, ResourcePool)) and not isinstance(top, Entity):
            raise vmodl.fault.InvalidArgument(invalidProperty="container", msg="A specified parameter was not correct: container")

        def members() -> list[Managed]:
            found = top.below() if recursive else top.children()
            return [one for one in found if not type or any(issubclass(one.kind, kind) for kind in type)]
        return self._add(call, vim.view.ContainerView, members, container=container, type=type, recursive=recursive)

    def CreateListView(self, call: Call, obj: list[Any]) -> Any:
        found = [self.face.find(ref) for ref in obj]
        return self._add(call, vim.view.ListView, lambda: [one for one in found if one.moid in self.face.objects])


class SearchIndex(Managed):
    kind = vim.SearchIndex

    def _pick(self, vmSearch: bool, test: Callable[[Any], bool]) -> list[Any]:
        return [one.ref for one in (self.face.vms() if vmSearch else self.face.hosts()) if test(one)]

    def FindAllByUuid(self, call: Call, datacenter: Any, uuid: str, vmSearch: bool, instanceUuid: bool | None = None) -> list[Any]:
        return self._pick(vmSearch, lambda one: uuid.lower() == (one.instance_uuid if vmSearch and instanceUuid else one.uuid).lower())

    def FindByUuid(self, call: Call, datacenter: Any, uuid: str, vmSearch: bool, instanceUuid: bool | None = None) -> Any:
        return next(iter(self.FindAllByUuid(call, datacenter, uuid, vmSearch, instanceUuid)), None)

    def FindAllByDnsName(self, call: Call, datacenter: Any, dnsName: str, vmSearch: bool) -> list[Any]:
        return self._pick(vmSearch, lambda one: one.name.lower() == dnsName.lower())

    def FindByDnsName(self, call: Call, datacenter: Any, dnsName: str, vmSearch: bool) -> Any:
        return next(iter(self.FindAllByDnsName(call, datacenter, dnsName, vmSearch)), None)

    def FindAllByIp(self, call: Call, datacenter: Any, ip: str, vmSearch: bool) -> list[Any]:
        return self._pick(vmSearch, lambda one: bool(ip) and one.address == ip)

    def FindByIp(self, call: Call, datacenter: Any, ip: str, vmSearch: bool) -> Any:
        return next(iter(self.FindAllByIp(call, datacenter, ip, vmSearch)), None)

    def FindByDatastorePath(self, call: Call, datacenter: Any, path: str) -> Any:
        return next(iter(self._pick(True, lambda one: one.vmx == path)), None)

    def FindChild(self, call: Call, entity: Any, name: str) -> Any:
        return next((child.ref for child in self.face.find(entity).children() if child.name == name), None)

    def FindByInventoryPath(self, call: Call, inventoryPath: str) -> Any:
        found: Entity | None = self.face.root
        for part in inventoryPath.split("/"):
            if part and found is not None:
                found = next((child for child in found.children() if child.name == part), None)
        return found.ref if found is not None else None
