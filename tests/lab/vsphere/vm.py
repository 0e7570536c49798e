# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Virtual machines: how they look, how they change (lax), how they power on (strict, see poweron.py)."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from typing import Any, Callable, TYPE_CHECKING

from pyVmomi import vim, vmodl

from ..world import Guest, PassthruDevice, Vm
from . import pci, poweron
from .host import dynamic_devices
from .model import Entity, Managed, fill, utc

if TYPE_CHECKING:
    from .server import Call, VsphereFace

Passthrough = vim.vm.device.VirtualPCIPassthrough
FIRST_PASSTHRU_KEY, MAX_PASSTHRU = 13000, 16
# Fields of a ConfigSpec that have a model; others are refused in strict mode and noted in lenient mode.
MODELLED = {"changeVersion", "name", "numCPUs", "numCoresPerSocket", "memoryMB", "memoryHotAddEnabled", "cpuHotAddEnabled", "cpuHotRemoveEnabled",
            "cpuAllocation",
            "simultaneousThreads", "cpuAffinity", "virtualNuma", "memoryAllocation", "latencySensitivity", "memoryReservationLockedToMax", "extraConfig",
            "deviceChange", "firmware", "bootOptions", "annotation",
            "dynamicType", "dynamicProperty"}


class VirtualMachine(Entity):
    kind = vim.VirtualMachine
    unset = Entity.unset + ("parentVApp", "storage", "layoutEx", "resourceConfig")

    def __init__(self, face: VsphereFace, moid: str, name: str) -> None:
        super().__init__(face, moid)
        self._name, self.annotation, self.shares, self.booted_at = name, "", {}, None
        self.customization: Any = None  # what its guest is to become at its first boot
        self.identity: dict[str, str] = {}  # what it became: hostname, address, error
        self.nic: Any = None  # backing of the network adapter when it is not on the first network
        self.browser = EnvironmentBrowser(face, "envbrowser-%s" % moid.split("-")[1], self)

    def parts(self) -> list[Managed]:
        return [self.browser]

    @property
    def name(self) -> str:
        return self._name

    @property
    def about(self) -> str:
        return self._name

    @property
    def parent(self) -> Entity | None:
        return self.face.vm_folder

    @property
    def vm(self) -> Vm:
        return self.world.vms[self._name]

    @property
    def uuid(self) -> str:
        return self.vm.uuid

    @property
    def instance_uuid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, self.vm.uuid))

    @property
    def address(self) -> str:
        return self.vm.guest.address if self.vm.guest.booted else ""

    @property
    def vmx(self) -> str:
        return "[%s] %s/%s.vmx" % (next(iter(self.world.datastores), "local"), self._name, self._name)

    def reachable(self) -> Vm:
        self.face.host(self.vm.host).reachable()
        return self.vm

    # ---- properties -------------------------------------------------------------------------------------------------

    def get_resourcePool(self) -> Any:
        return self.face.pool.ref

    def get_datastore(self) -> list[Any]:
        return [one.ref for one in self.face.datastores()]

    def get_network(self) -> list[Any]:
        return [self.face.network.ref]

    def get_environmentBrowser(self) -> Any:
        return self.browser.ref

    def get_guestHeartbeatStatus(self) -> str:
        return "green" if self.vm.guest.booted else "gray"

    def get_capability(self) -> Any:
        return vim.vm.Capability(snapshotOperationsSupported=True, memorySnapshotsSupported=True, poweredOffSnapshotsSupported=True,
                                 memoryReservationLockSupported=True,
                                 bootOptionsSupported=True, changeTrackingSupported=True)

    def get_rootSnapshot(self) -> list[Any]:
        return [vim.vm.Snapshot("%s-snapshot-%d" % (self.moid, n + 1)) for n in range(min(1, len(self.vm.snapshots)))]

    def get_snapshot(self) -> Any:
        tree, vm = [], self.vm
        for number in range(len(vm.snapshots), 0, -1):
            tree = [vim.vm.SnapshotTree(snapshot=vim.vm.Snapshot("%s-snapshot-%d" % (self.moid, number)), vm=self.ref, name=vm.snapshots[number - 1],
                                        description="", id=number,
                                        createTime=utc(), state="poweredOff", quiesced=False, childSnapshotList=tree)]
        return vim.vm.SnapshotInfo(currentSnapshot=vim.vm.Snapshot("%s-snapshot-%d" % (self.moid, len(vm.snapshots))), rootSnapshotList=tree) if tree else None

    def get_runtime(self) -> Any:
        vm = self.vm
        up = self.world.hosts[vm.host].state == "on"
        return vim.vm.RuntimeInfo(host=self.face.host(vm.host).ref, connectionState="connected" if up else "disconnected", powerState=self.power_state,
                                  bootTime=self.booted_at if vm.power == "on" else None, consolidationNeeded=False, faultToleranceState="notConfigured",
                                  toolsInstallerMounted=False, maxCpuUsage=vm.cpus * self.world.hosts[vm.host].mhz, maxMemoryUsage=vm.memory_mb,
                                  numMksConnections=0)

    @property
    def power_state(self) -> str:
        return "poweredOn" if self.vm.power == "on" else "poweredOff"

    def get_guest(self) -> Any:
        vm = self.vm
        up = vm.guest.booted
        nics = [vim.vm.GuestInfo.NicInfo(network=self.face.network.name, ipAddress=[vm.guest.address] if vm.guest.address else [], macAddress=vm.mac,
                                         connected=True,
                                         deviceConfigId=4000)] if up else []
        address, hostname = self.identity.get("address") or vm.guest.address, self.identity.get("hostname") or vm.name
        state = "IDLE" if not self.identity else "PENDING" if not up else "FAILED" if self.identity["error"] else "SUCCEEDED"
        custom = vim.vm.GuestInfo.CustomizationInfo(customizationStatus="TOOLSDEPLOYPKG_" + state, errorMsg=self.identity.get("error") or None)
        return vim.vm.GuestInfo(customizationInfo=custom, toolsStatus="toolsOk" if up else "toolsNotRunning", toolsVersionStatus="guestToolsCurrent",
                                toolsVersionStatus2="guestToolsCurrent",
                                toolsRunningStatus="guestToolsRunning" if up else "guestToolsNotRunning", toolsVersion="11269", guestId=GUEST_ID,
                                guestFamily="linuxGuest",
                                guestFullName=GUEST_NAME, hostName=hostname if up else None, ipAddress=(address or None) if up else None, net=nics,
                                guestState="running" if up else "notRunning", guestOperationsReady=up)

    def get_layout(self) -> Any:
        return vim.vm.FileLayout(configFile=["%s.nvram" % self._name], logFile=["vmware.log"])

    def get_summary(self) -> Any:
        vm, guest = self.vm, self.get_guest()
        return vim.vm.Summary(
            vm=self.ref, runtime=self.get_runtime(), overallStatus="green",
            quickStats=vim.vm.Summary.QuickStats(uptimeSeconds=0, guestHeartbeatStatus=self.get_guestHeartbeatStatus()),
            guest=vim.vm.Summary.GuestSummary(guestId=guest.guestId, guestFullName=guest.guestFullName, toolsStatus=guest.toolsStatus,
                                              toolsRunningStatus=guest.toolsRunningStatus,
                                              hostName=guest.hostName, ipAddress=guest.ipAddress),
            config=vim.vm.Summary.ConfigSummary(name=vm.name, template=vm.template, vmPathName=self.vmx, memorySizeMB=vm.memory_mb,
                                                cpuReservation=vm.cpu_reservation_mhz,
                                                memoryReservation=vm.memory_reservation_mb, numCpu=vm.cpus, numEthernetCards=1, numVirtualDisks=1, uuid=vm.uuid,
                                                instanceUuid=self.instance_uuid, guestId=GUEST_ID, guestFullName=GUEST_NAME, annotation=self.annotation))

    def _shares(self, kind: str, default: int) -> Any:
        return self.shares.get(kind) or vim.SharesInfo(shares=default, level="normal")

    def get_config(self) -> Any:
        vm = self.vm
        managed = vim.ext.ManagedByInfo(extensionKey="com.vmware.vim.eam", type="cluster-agent") if vm.vcls else None
        return vim.vm.ConfigInfo(
            name=vm.name, uuid=vm.uuid, instanceUuid=self.instance_uuid, guestId=GUEST_ID, guestFullName=GUEST_NAME, alternateGuestName="",
            version="vmx-%02d" % vm.hw_version,
            changeVersion=str(vm.change_version), modified=utc(), template=vm.template, firmware=vm.firmware, annotation=self.annotation, managedBy=managed,
            cpuHotAddEnabled=vm.cpu_hot_add, cpuHotRemoveEnabled=False, memoryHotAddEnabled=vm.memory_hot_add, memoryReservationLockedToMax=vm.memory_locked,
            files=vim.vm.FileInfo(vmPathName=self.vmx, logDirectory=self.vmx.rsplit("/", 1)[0] + "/", snapshotDirectory=self.vmx.rsplit("/", 1)[0] + "/"),
            hardware=vim.vm.VirtualHardware(numCPU=vm.cpus, numCoresPerSocket=vm.cores_per_socket, memoryMB=vm.memory_mb, device=self._devices(),
                                            simultaneousThreads=vm.threads if vm.hw_version >= 20 else None),
            numaInfo=vim.vm.VirtualNumaInfo(coresPerNumaNode=vm.cores_per_numa_node, autoCoresPerNumaNode=not vm.cores_per_numa_node),
            cpuAffinity=vim.vm.AffinityInfo(affinitySet=vm.cpu_affinity) if vm.cpu_affinity else None,
            extraConfig=[vim.option.OptionValue(key=key, value=value) for key, value in sorted(vm.extra.items())],
            latencySensitivity=vim.LatencySensitivity(level=vm.latency), bootOptions=vim.vm.BootOptions(efiSecureBootEnabled=vm.secure_boot, bootDelay=0),
            cpuAllocation=vim.ResourceAllocationInfo(reservation=vm.cpu_reservation_mhz, limit=vm.cpu_limit, expandableReservation=False,
                                                     shares=self._shares("cpu", 1000 * vm.cpus)),
            memoryAllocation=vim.ResourceAllocationInfo(reservation=vm.memory_reservation_mb, limit=vm.memory_limit, expandableReservation=False,
                                                        shares=self._shares("memory", 10 * vm.memory_mb)))

    def _devices(self) -> list[Any]:
        vm, device = self.vm, vim.vm.device
        text = vim.Description
        store = self.face.datastores()[0] if self.face.datastores() else None
        disk = device.VirtualDisk.FlatVer2BackingInfo(fileName=self.vmx.replace(".vmx", ".vmdk"), datastore=store.ref if store else None, diskMode="persistent",
                                                      thinProvisioned=True)
        out = [device.VirtualPCIController(key=100, deviceInfo=text(label="PCI controller 0", summary="PCI controller 0"), busNumber=0,
                                           device=[1000, 4000] + [one.key for one in vm.devices]),
               device.ParaVirtualSCSIController(key=1000, deviceInfo=text(label="SCSI controller 0", summary="VMware paravirtual SCSI"), controllerKey=100,
                                                unitNumber=3,
                                                busNumber=0, device=[2000], sharedBus="noSharing", hotAddRemove=True, scsiCtlrUnitNumber=7),
               device.VirtualDisk(key=2000, deviceInfo=text(label="Hard disk 1", summary="104,857,600 KB"), backing=disk, controllerKey=1000, unitNumber=0,
                                  capacityInKB=100 << 20, capacityInBytes=100 << 30),
               device.VirtualVmxnet3(key=4000, deviceInfo=text(label="Network adapter 1", summary=self.face.network.name), macAddress=vm.mac,
                                     addressType="manual",
                                     controllerKey=100, unitNumber=7, wakeOnLanEnabled=True,
                                     connectable=device.VirtualDevice.ConnectInfo(startConnected=True, allowGuestControl=True, connected=vm.power == "on"),
                                     backing=self.nic or device.VirtualEthernetCard.NetworkBackingInfo(deviceName=self.face.network.name,
                                                                                                       network=self.face.network.ref))]
        return out + [self._passthrough(one, number) for number, one in enumerate(vm.devices)]

    def _passthrough(self, one: PassthruDevice, number: int) -> Any:
        host, name = self.world.hosts[self.vm.host], ""
        for bdf, (vendor, model, known_as, _gib) in pci.passable(host).items():
            if one.bdf and pci.same(bdf, one.bdf) or one.dynamic and {"vendor": vendor, "device": model} in one.allowed:
                name = known_as
        if one.dynamic:
            backing = Passthrough.DynamicBackingInfo(deviceName=name, customLabel=one.label or None,
                                                     assignedId=one.bdf if one.bdf and self.vm.power == "on" else None,
                                                     allowedDevice=[Passthrough.AllowedDevice(vendorId=entry["vendor"], deviceId=entry["device"])
                                                                    for entry in one.allowed])
        else:
            backing = Passthrough.DeviceBackingInfo(deviceName=name, id=one.bdf, deviceId=one.device_id, systemId=one.system_id,
                                                    vendorId=pci.short(one.vendor_id & 0xFFFF))
        return Passthrough(key=one.key, deviceInfo=vim.Description(label="PCI device %d" % number, summary=name), backing=backing, controllerKey=100,
                           unitNumber=18 + number)

    # ---- reconfigure: lax -------------------------------------------------------------------------------------------

    def ReconfigVM_Task(self, call: Call, spec: Any) -> Any:
        self.reachable()
        return call.task(self, "reconfigure", lambda task: self._reconfigure(spec))

    def _reconfigure(self, spec: Any) -> None:
        vm = self.reachable()
        if spec.changeVersion and spec.changeVersion != str(vm.change_version):
            raise vim.fault.ConcurrentAccess(msg="Cannot complete operation due to concurrent modification by another operation.")
        for info in spec._GetPropertyList():
            if info.name not in MODELLED and getattr(spec, info.name) not in (None, []):
                self.world.note("vsphere", self.about, "unmodelled field", name="ConfigSpec." + info.name)
                if self.face.strict:
                    raise vmodl.fault.NotSupported(msg="The lab does not model ConfigSpec.%s." % info.name)
        if spec.name and spec.name != vm.name:
            raise vmodl.fault.NotSupported(msg="The lab keeps the names of its inventory.")
        self._needs_off(spec)
        self._numbers(spec)
        devices = self._changed_devices(spec.deviceChange)  # raises before anything is changed
        for field, attribute in (("numCPUs", "cpus"), ("numCoresPerSocket", "cores_per_socket"), ("memoryMB", "memory_mb"), ("firmware", "firmware"),
                                 ("cpuHotAddEnabled", "cpu_hot_add"), ("memoryHotAddEnabled", "memory_hot_add"),
                                 ("memoryReservationLockedToMax", "memory_locked")):
            value = getattr(spec, field)
            if value is not None:
                setattr(vm, attribute, type(getattr(vm, attribute))(value))
        if spec.cpuAllocation is not None:
            self._allocate("cpu", spec.cpuAllocation, "cpu_reservation_mhz", "cpu_limit")
        if spec.memoryAllocation is not None:
            self._allocate("memory", spec.memoryAllocation, "memory_reservation_mb", "memory_limit")
        if vm.memory_locked:
            vm.memory_reservation_mb = vm.memory_mb
        if spec.latencySensitivity is not None:
            vm.latency = str(spec.latencySensitivity.level)
        if spec.simultaneousThreads is not None:
            vm.threads = spec.simultaneousThreads
        if spec.virtualNuma is not None and spec.virtualNuma.coresPerNumaNode is not None:
            vm.cores_per_numa_node = spec.virtualNuma.coresPerNumaNode
        if spec.cpuAffinity is not None:
            vm.cpu_affinity = list(spec.cpuAffinity.affinitySet)
        if spec.bootOptions is not None and spec.bootOptions.efiSecureBootEnabled is not None:
            vm.secure_boot = spec.bootOptions.efiSecureBootEnabled
        if spec.annotation is not None:
            self.annotation = spec.annotation
        for option in spec.extraConfig:
            if option.value in ("", None):
                vm.extra.pop(option.key, None)
            else:
                vm.extra[option.key] = str(option.value)
        vm.devices = devices
        vm.change_version += 1

    def _needs_off(self, spec: Any) -> None:
        """What cannot be changed while the VM runs."""
        vm = self.vm
        if vm.power != "on":
            return
        held = ("numCoresPerSocket", "simultaneousThreads", "virtualNuma", "firmware", "cpuHotAddEnabled", "memoryHotAddEnabled")
        held += () if vm.cpu_hot_add and (spec.numCPUs or vm.cpus) >= vm.cpus else ("numCPUs",)
        held += () if vm.memory_hot_add and not vm.devices and (spec.memoryMB or vm.memory_mb) >= vm.memory_mb else ("memoryMB",)
        now = {"numCoresPerSocket": vm.cores_per_socket, "firmware": vm.firmware, "cpuHotAddEnabled": vm.cpu_hot_add, "memoryHotAddEnabled": vm.memory_hot_add,
               "numCPUs": vm.cpus, "simultaneousThreads": vm.threads, "virtualNuma": None, "memoryMB": vm.memory_mb}
        changed = [name for name in held if getattr(spec, name) is not None and getattr(spec, name) != now[name]]
        if changed or spec.deviceChange:
            raise vim.fault.InvalidPowerState(requestedState="poweredOff", existingState="poweredOn",
                                              msg="The attempted operation cannot be performed in the current state (Powered on): %s."
                                              % ", ".join(changed + (["deviceChange"] if spec.deviceChange else [])))

    def _numbers(self, spec: Any) -> None:
        def wrong(name: str) -> None:
            raise vmodl.fault.InvalidArgument(invalidProperty="configSpec." + name, msg="A specified parameter was not correct: configSpec." + name)
        if spec.numCPUs is not None and not 1 <= spec.numCPUs <= 768:
            wrong("numCPUs")
        if spec.memoryMB is not None and (spec.memoryMB < 4 or spec.memoryMB % 4):
            wrong("memoryMB")
        if spec.numCoresPerSocket is not None and spec.numCoresPerSocket < 0:
            wrong("numCoresPerSocket")
        if spec.simultaneousThreads is not None and (spec.simultaneousThreads not in (1, 2) or self.vm.hw_version < 20):
            wrong("simultaneousThreads")
        if spec.firmware not in (None, "", "efi", "bios"):
            wrong("firmware")
        for name in ("cpuAllocation", "memoryAllocation"):
            allocation = getattr(spec, name)
            if allocation is not None and (allocation.reservation is not None and allocation.reservation < 0 or allocation.limit is not None
                                           and allocation.limit < -1):
                wrong(name)

    def _allocate(self, kind: str, allocation: Any, reservation: str, limit: str) -> None:
        if allocation.reservation is not None:
            setattr(self.vm, reservation, int(allocation.reservation))
        if allocation.limit is not None:
            setattr(self.vm, limit, int(allocation.limit))
        if allocation.shares is not None:
            self.shares[kind] = allocation.shares

    def _changed_devices(self, changes: list[Any]) -> list[PassthruDevice]:
        """The VM's passthrough devices after the changes; accepts ids that power-on will refuse."""
        devices, given = list(self.vm.devices), [change.device.key for change in changes if change.operation == "add"]
        for index, change in enumerate(changes):
            device = change.device
            if change.operation == "remove" and any(one.key == device.key for one in devices):
                devices = [one for one in devices if one.key != device.key]
                continue
            if not isinstance(device, Passthrough):
                raise vmodl.fault.NotSupported(msg="The lab changes only passthrough devices of a VM, not %s." % type(device).__name__)
            old = next((one for one in devices if one.key == device.key), None)
            if change.operation == "add":
                if given.count(device.key) > 1 or old is not None:
                    raise vim.fault.InvalidDeviceSpec(deviceIndex=index, property="virtualDeviceSpec.device.key",
                                                      msg="Invalid configuration for device '%d'." % index)
                if len(devices) >= MAX_PASSTHRU:
                    raise vim.fault.TooManyDevices(property="configSpec.deviceChange", msg="The maximum number of passthrough devices is %d." % MAX_PASSTHRU)
                used = {one.key for one in self.vm.devices} | {one.key for one in devices}
                key = next(FIRST_PASSTHRU_KEY + n for n in range(2 * MAX_PASSTHRU) if FIRST_PASSTHRU_KEY + n not in used)
            elif old is not None and change.operation == "edit":
                key = old.key
                devices.remove(old)
            else:
                raise vim.fault.InvalidDeviceSpec(deviceIndex=index, property="virtualDeviceSpec.device.key",
                                                  msg="Invalid configuration for device '%d'." % index)
            devices.append(self._device(index, key, device.backing, devices))
        return sorted(devices, key=lambda one: one.key)

    @staticmethod
    def _device(index: int, key: int, backing: Any, others: list[PassthruDevice]) -> PassthruDevice:
        if isinstance(backing, Passthrough.DynamicBackingInfo):
            allowed = [{"vendor": one.vendorId, "device": one.deviceId} for one in backing.allowedDevice]
            return PassthruDevice(key, dynamic=True, allowed=allowed, label=backing.customLabel or "")
        if isinstance(backing, Passthrough.DeviceBackingInfo):
            try:
                pci.address(backing.id)
            except ValueError:
                pass
            else:
                if not any(pci.same(one.bdf, backing.id) for one in others if one.bdf):
                    return PassthruDevice(key, backing.id, backing.deviceId, backing.vendorId & 0xFFFF, backing.systemId)
        raise vim.fault.InvalidDeviceBacking(deviceIndex=index, property="virtualDeviceSpec.device.backing",
                                             msg="Incompatible device backing specified for device '%d'." % index)

    def CloneVM_Task(self, call: Call, folder: Any, name: str, spec: Any) -> Any:
        def wrong(text: str) -> None:
            raise vmodl.fault.InvalidArgument(invalidProperty=text, msg="A specified parameter was not correct: %s" % text)

        def clone(task: Any) -> Any:
            source, place = self.reachable(), spec.location
            if name in self.world.vms:
                raise vim.fault.DuplicateName(name=name, object=self.face.vm(name).ref, msg="The name '%s' already exists." % name)
            for one in (folder, place.pool, place.host, place.datastore):
                if one is not None:
                    self.face.find(one)
            if source.template and place.pool is None:
                wrong("spec.location.pool")
            if place.diskMoveType == "createNewChildDiskBacking" and not (spec.snapshot and source.snapshots):
                wrong("spec.snapshot")
            host = self.face.find(place.host).name if place.host is not None else source.host
            if self.face.host(host).reachable().maintenance:
                raise vim.fault.InvalidState(msg="The operation is not allowed in the current state: host %s is in maintenance mode." % host)
            if any(isinstance(change.device, Passthrough) for change in list(place.deviceChange) + list(spec.config.deviceChange if spec.config else ())):
                raise vim.fault.InvalidDeviceSpec(deviceIndex=0, property="virtualDeviceSpec.device", msg="A passthrough device cannot be part of a clone.")
            nics = [change.device for change in place.deviceChange]
            if any(not isinstance(nic, vim.vm.device.VirtualEthernetCard) or nic.key != 4000 for nic in nics):
                raise vmodl.fault.NotSupported(msg="The lab changes only the network adapter of a clone.")
            if spec.customization is not None and len(spec.customization.nicSettingMap) != 1:
                raise vim.fault.NicSettingMismatch(numberOfNicsInSpec=len(spec.customization.nicSettingMap), numberOfNicsInVM=1,
                                                   msg="The number of network adapters in the customization does not match that of the virtual machine.")
            number = len(self.world.vms) + 1
            self.world.vms[name] = dataclasses.replace(
                source, name=name, host=host, uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, name)), devices=[], snapshots=[], power="off", template=spec.template,
                guest=Guest(kernel=source.guest.kernel), extra=dict(source.extra), cpu_affinity=list(source.cpu_affinity), change_version=1,
                mac="00:50:56:bb:%02x:%02x" % (number // 256, number % 256))
            self.face.sync()
            made = self.face.vm(name)
            made.nic, made.customization = nics[0].backing if nics else self.nic, spec.customization
            if spec.powerOn:
                self.world.power_on_vm(self.world.vms[name])
            return made.ref
        return call.task(self, "clone", clone)

    def UpgradeVM_Task(self, call: Call, version: str | None = None) -> Any:
        def upgrade(task: Any) -> None:
            vm = self._power("poweredOff", "poweredOff")
            wanted = int((version or "vmx-19").split("-")[1])
            if wanted <= vm.hw_version:
                raise vim.fault.AlreadyUpgraded(msg="The virtual machine has hardware version %d already." % vm.hw_version)
            vm.hw_version = wanted
        return call.task(self, "upgradeVirtualHardware", upgrade)

    # ---- power ------------------------------------------------------------------------------------------------------

    def _power(self, needed: str, wanted: str) -> Vm:
        vm = self.reachable()
        if self.power_state != needed:
            raise vim.fault.InvalidPowerState(requestedState=wanted, existingState=self.power_state,
                                              msg="The attempted operation cannot be performed in the current state (%s)."
                                              % ("Powered on" if vm.power == "on" else "Powered off"))
        return vm

    def _become(self) -> None:
        """The guest customizes itself at its first boot."""
        wanted, self.customization = self.customization, None
        if wanted is None:
            return
        failed = self.world.fault("customization_fails", self._name) is not None
        self.identity = {"hostname": "", "address": "", "error": "The guest's network could not be configured." if failed else ""}
        if not failed:
            name = getattr(wanted.identity, "hostName", None)
            ip = wanted.nicSettingMap[0].adapter.ip
            self.identity["hostname"] = name.name if isinstance(name, vim.vm.customization.FixedName) else self._name
            self.identity["address"] = ip.ipAddress if isinstance(ip, vim.vm.customization.FixedIp) else ""

    def _placed(self, vm: Vm, free: bool) -> dict[int, str]:
        """What poweron.check() gives, after DRS has looked for another host where this one has no free device for a VM with dynamic ones alone."""
        home = vm.host
        try:
            return poweron.check(self.face, vm)
        except vim.fault.InsufficientResourcesFault:
            if not free or not vm.devices or not all(device.dynamic for device in vm.devices) or not self.face.cluster.moves:
                raise
            for managed in self.face.hosts():
                if managed.name != home and managed.host.state == "on" and not managed.host.maintenance and not managed.entering:
                    vm.host = managed.name
                    try:
                        chosen = poweron.check(self.face, vm)
                    except vmodl.MethodFault:
                        continue
                    self.world.note("vsphere", vm.name, "placed by DRS", to=vm.host)
                    return chosen
            vm.host = home
            raise

    def PowerOnVM_Task(self, call: Call, host: Any = None) -> Any:
        self.reachable()

        def switch_on(task: Any) -> None:
            vm = self._power("poweredOff", "poweredOn")
            if vm.template:
                raise vmodl.fault.NotSupported(msg="The operation is not supported on a template.")
            managed = self.face.host(vm.host)
            if host is not None and host._moId != managed.moid:
                raise vmodl.fault.NotSupported(msg="The lab powers a VM on where it lies: on %s." % vm.host)
            if managed.host.maintenance or managed.entering:
                raise vim.fault.InvalidState(msg="The operation is not allowed in the current state: host %s is in or entering maintenance mode." % vm.host)
            for device in vm.devices:
                if device.dynamic:
                    device.bdf = ""
            for key, bdf in self._placed(vm, host is None).items():
                next(device for device in vm.devices if device.key == key).bdf = bdf
            self._become()
            self.booted_at = utc()
            self.world.note("vsphere", vm.name, "power on")
            self.world.power_on_vm(vm)
        return call.task(self, "powerOn", switch_on)

    def _off(self, call: Call) -> None:
        """Off, outside the world's lock; vCenter does not leave its agent VMs off."""
        self.world.power_off_vm(self.vm)
        with self.world.lock:
            for device in self.vm.devices:
                if device.dynamic:
                    device.bdf = ""
            agent = self.vm.vcls
        if agent:
            timer = threading.Timer(1.0, self.face.cluster.settle_agents_now)
            timer.daemon = True
            timer.start()

    def PowerOffVM_Task(self, call: Call) -> Any:
        self.reachable()

        def switch_off(task: Any) -> Callable[[], None]:
            self._power("poweredOn", "poweredOff")
            self.world.note("vsphere", self.about, "power off")
            return lambda: self._off(call)
        return call.task(self, "powerOff", switch_off)

    def ResetVM_Task(self, call: Call) -> Any:
        self.reachable()

        def reset(task: Any) -> Callable[[], None]:
            vm = self._power("poweredOn", "poweredOn")
            self.booted_at = utc()
            return lambda: self.world.reboot_guest(vm)
        return call.task(self, "reset", reset)

    def SuspendVM_Task(self, call: Call) -> Any:
        def suspend(task: Any) -> None:
            vm = self._power("poweredOn", "suspended")
            if vm.devices:
                raise vim.fault.InvalidState(msg="A virtual machine with a passthrough device cannot be suspended.")
            raise vmodl.fault.NotSupported(msg="The lab does not suspend virtual machines.")
        return call.task(self, "suspend", suspend)

    def _tools(self, wanted: str) -> Vm:
        vm = self._power("poweredOn", wanted)
        if not vm.guest.booted:
            raise vim.fault.ToolsUnavailable(msg="Cannot complete operation because VMware Tools is not running in this virtual machine.")
        return vm

    def ShutdownGuest(self, call: Call) -> None:
        self._tools("poweredOff")
        # The call returns before the guest is down, as a real one does.
        timer = threading.Timer(0.3, self._off, [call])
        timer.daemon = True
        timer.start()

    def RebootGuest(self, call: Call) -> None:
        vm = self._tools("poweredOn")
        call.later(lambda: self.world.reboot_guest(vm))

    # ---- what passthrough forbids -----------------------------------------------------------------------------------

    def CreateSnapshot_Task(self, call: Call, name: str, description: str | None, memory: bool, quiesce: bool) -> Any:
        def snapshot(task: Any) -> Any:
            vm = self.reachable()
            if vm.devices:
                inner = vim.fault.DeviceNotSupported(device="PCI device 0", msg="Device 'PCI device 0' is not supported.")
                raise vim.fault.SnapshotIncompatibleDeviceInVm(fault=inner, msg="Cannot take a snapshot: the virtual machine has a PCI passthrough device.")
            vm.snapshots.append(name)
            return vim.vm.Snapshot("%s-snapshot-%d" % (self.moid, len(vm.snapshots)))
        return call.task(self, "createSnapshot", snapshot)

    def RevertToCurrentSnapshot_Task(self, call: Call, host: Any = None, suppressPowerOn: bool | None = None) -> Any:
        def revert(task: Any) -> None:
            vm = self.reachable()
            if not vm.snapshots:
                raise vim.fault.NotFound(msg="The virtual machine has no snapshot.")
            if vm.devices:
                inner = vim.fault.DeviceNotSupported(device="PCI device 0", msg="Device 'PCI device 0' is not supported.")
                raise vim.fault.SnapshotIncompatibleDeviceInVm(fault=inner, msg="Cannot revert: the virtual machine has a PCI passthrough device.")
        return call.task(self, "revertToCurrentSnapshot", revert)

    def CreateSecondaryVM_Task(self, call: Call, host: Any = None) -> Any:
        def protect(task: Any) -> None:
            if self.reachable().devices:
                inner = vim.fault.DeviceNotSupported(device="PCI device 0", msg="Device 'PCI device 0' is not supported.")
                raise vim.fault.VmConfigIncompatibleForFaultTolerance(fault=inner, msg="Fault Tolerance does not go with a PCI passthrough device.")
            raise vmodl.fault.NotSupported(msg="The lab has no Fault Tolerance.")
        return call.task(self, "createSecondary", protect)

    def StartRecording_Task(self, call: Call, name: str, description: str | None = None) -> Any:
        def record(task: Any) -> None:
            self._power("poweredOn", "poweredOn")
            raise vim.fault.RecordReplayDisabled(msg="Record and replay is disabled for this virtual machine.")
        return call.task(self, "startRecording", record)

    def RemoveAllSnapshots_Task(self, call: Call, consolidate: bool | None = None, spec: Any = None) -> Any:
        return call.task(self, "removeAllSnapshots", lambda task: self.reachable().snapshots.clear())

    def RelocateVM_Task(self, call: Call, spec: Any, priority: Any = None) -> Any:
        return call.task(self, "relocate", lambda task: self._move(spec.host))

    def MigrateVM_Task(self, call: Call, pool: Any = None, host: Any = None, priority: Any = None, state: Any = None) -> Any:
        return call.task(self, "migrate", lambda task: self._move(host))

    def _move(self, target: Any) -> None:
        vm = self.reachable()
        if target is None:
            return
        if vm.power == "on" and vm.devices:
            inner = vim.fault.DeviceNotSupported(device="PCI device 0", msg="Device 'PCI device 0' is not supported.")
            raise vim.fault.DisallowedMigrationDeviceAttached(fault=inner, msg="Migration is not allowed: the virtual machine has a PCI passthrough device.")
        managed = self.face.find(target)
        if managed.reachable().maintenance:
            raise vim.fault.InvalidState(msg="The operation is not allowed in the current state: host %s is in maintenance mode." % managed.name)
        vm.host = managed.name


GUEST_ID, GUEST_NAME = "rhel8_64Guest", "Red Hat Enterprise Linux 8 (64-bit)"


class EnvironmentBrowser(Managed):
    kind = vim.EnvironmentBrowser
    unset = ("datastoreBrowser",)

    def __init__(self, face: VsphereFace, moid: str, machine: VirtualMachine) -> None:
        super().__init__(face, moid)
        self._machine = machine

    @property
    def about(self) -> str:
        return self._machine.about

    def QueryConfigTarget(self, call: Call, host: Any = None) -> Any:
        managed = self.face.find(host) if host is not None else self.face.host(self._machine.vm.host)
        real = managed.reachable()
        rows = [vim.vm.PciPassthroughInfo(name=device.id, pciDevice=device, systemId=managed.system_id, configurationTag=[]) for device in pci.devices(real)
                if device.id in real.passthru and real.passthru[device.id].active]
        return fill(vim.vm.ConfigTarget(numCpus=2 * real.cores, numCpuCores=real.cores, numNumaNodes=real.sockets, smcPresent=False,
                                        maxMemMBOptimalPerf=real.memory_mb,
                                        supportedMaxMemMB=real.memory_mb, autoVmotion=False, pciPassthrough=rows, dynamicPassthrough=dynamic_devices(real),
                                        network=[vim.vm.NetworkInfo(name=self.face.network.name, network=self.face.network.get_summary())]))
