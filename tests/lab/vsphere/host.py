# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ESXi hosts and the managers behind host.configManager."""

from __future__ import annotations

import datetime
import time
import uuid
from typing import Any, Callable, TYPE_CHECKING

from pyVmomi import vim, vmodl

from ..world import ACCEPTANCE, Host
from . import pci
from .esxcli import DynamicTypeManager, MethodExecuter
from .model import Entity, Managed, known, utc
from .session import OptionManager

if TYPE_CHECKING:
    from .server import Call, VsphereFace

POLICIES = ((1, "static"), (2, "dynamic"), (3, "low"), (4, "custom"))
LEVELS = dict(zip(("community", "partner", "vmware_accepted", "vmware_certified"), ACCEPTANCE))
SERVICE_NAMES = {"TSM-SSH": "SSH", "TSM": "ESXi Shell", "ntpd": "NTP Daemon", "vpxa": "VMware vCenter Agent"}
ZERO = ":".join(["0000"] * 8)
LONG_MODE = "0010" + ZERO[4:]


class HostPart(Managed):
    """One manager of a host: its object id is its prefix and the host's id."""

    prefix = ""

    def __init__(self, face: VsphereFace, host: HostSystem) -> None:
        super().__init__(face, "%s-%s" % (self.prefix, host.moid.split("-")[1]))
        self.system = host

    @property
    def about(self) -> str:
        return self.system.about

    @property
    def host(self) -> Host:
        return self.system.host

    def reachable(self) -> Host:
        return self.system.reachable()


class HostSystem(Entity):
    kind = vim.HostSystem
    unset = Entity.unset + ("answerFileValidationResult", "answerFileValidationState", "complianceCheckResult", "complianceCheckState",
                            "precheckRemediationResult",
                            "remediationResult", "remediationState", "systemResources")

    def __init__(self, face: VsphereFace, moid: str, name: str) -> None:
        super().__init__(face, moid)
        self._name, self.entering, self.went_down = name, False, 0.0
        self.managers: dict[str, Managed] = {
            "pciPassthruSystem": PciPassthruSystem(face, self), "powerSystem": PowerSystem(face, self), "kernelModuleSystem": KernelModuleSystem(face, self),
            "serviceSystem": ServiceSystem(face, self), "imageConfigManager": ImageConfigManager(face, self), "networkSystem": NetworkSystem(face, self),
            "virtualNicManager": VirtualNicManager(face, self), "hostAccessManager": HostAccessManager(face, self),
            "assignableHardwareManager": AssignableHardwareManager(face, self), "autoStartManager": AutoStartManager(face, self),
            "advancedOption": OptionManager(face, "EsxHostAdvSettings-%s" % moid.split("-")[1], name)}

        self.reflection = {"executer": MethodExecuter(face, self), "types": DynamicTypeManager(face, self)}

    def parts(self) -> list[Managed]:
        return [*self.managers.values(), *self.reflection.values()]

    @property
    def name(self) -> str:
        return self._name

    @property
    def about(self) -> str:
        return self._name

    @property
    def parent(self) -> Entity | None:
        return self.face.cluster

    @property
    def host(self) -> Host:
        return self.world.hosts[self._name]

    @property
    def uuid(self) -> str:
        return self.host.uuid

    @property
    def address(self) -> str:
        return self.host.address

    @property
    def number(self) -> int:
        return list(self.world.hosts).index(self._name) + 1

    @property
    def system_id(self) -> str:
        """What a VM's passthrough device must carry to be of this host."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, self.host.uuid))

    def reachable(self) -> Host:
        if self.host.state != "on":
            raise vmodl.fault.HostNotConnected(msg="Unable to communicate with the remote host %s, since it is disconnected." % self._name)
        return self.host

    # ---- properties -------------------------------------------------------------------------------------------------

    def get_vm(self) -> list[Any]:
        return [vm.ref for vm in self.face.vms() if vm.vm.host == self._name]

    def get_datastore(self) -> list[Any]:
        return [one.ref for one in self.face.datastores()]

    def get_network(self) -> list[Any]:
        groups = [one.ref for one in self.face.portgroups() if one.switch in self.host.dvs]
        return [self.face.network.ref, *groups]

    def get_overallStatus(self) -> str:
        return "green" if self.host.state == "on" else "red"

    def get_runtime(self) -> Any:
        # vCenter learns by a missing heartbeat that a host is away.
        up = self.host.state == "on" or time.monotonic() - self.went_down < self.face.notice_delay
        return vim.host.RuntimeInfo(connectionState="connected" if up else "notResponding", powerState="poweredOn" if up else "unknown", standbyMode="none",
                                    inMaintenanceMode=self.host.maintenance, inQuarantineMode=False, bootTime=self.host.boot_time)

    def get_capability(self) -> Any:
        return vim.host.Capability(
            rebootSupported=True, shutdownSupported=True, maintenanceModeSupported=True, vmotionSupported=True, storageVMotionSupported=True,
            localSwapDatastoreSupported=True,
            standbySupported=False, hostAccessManagerSupported=True, vPMCSupported=True, latencySensitivitySupported=True,
            deviceRebindWithoutRebootSupported=self.host.rebind,
            maxSupportedVcpus=768, maxHostSupportedVcpus=4096, supportedCpuFeature=self._cpu_features(), cpuHwMmuSupported=True, nestedHVSupported=True)

    def get_licensableResource(self) -> Any:
        return vim.LicenseManager.LicensableResourceInfo()

    def get_configManager(self) -> Any:
        return vim.host.ConfigManager(**{name: part.ref for name, part in self.managers.items()})

    def product(self) -> Any:
        host = self.host
        return vim.AboutInfo(name="VMware ESXi", fullName="VMware ESXi %s build-%s" % (host.version, host.build), vendor="VMware, Inc.", version=host.version,
                             build=host.build, localeVersion="INTL", localeBuild="000", osType="vmnix-x86", productLineId="embeddedEsx", apiType="HostAgent",
                             apiVersion="%s.0" % host.version, licenseProductName="VMware ESX Server",
                             licenseProductVersion=host.version.split(".", maxsplit=1)[0] + ".0")

    @staticmethod
    def _cpu_features() -> list[Any]:
        return [vim.host.CpuIdInfo(level=level, vendor="", eax=ZERO, ebx=ZERO, ecx=ZERO, edx=LONG_MODE if level < 0 else ZERO)
                for level in (0, 1, -2147483648, -2147483647)]

    def get_hardware(self) -> Any:
        host = self.host
        tag = vim.host.SystemIdentificationInfo(identifierValue="LAB%04d" % self.number,
                                                identifierType=vim.ElementDescription(label="Service tag", summary="Service tag of the system",
                                                                                      key="ServiceTag"))
        per_socket = host.cores // host.sockets
        packages = [vim.host.CpuPackage(index=n, vendor="intel", hz=host.mhz * 1000000, busHz=100000000, description=CPU,
                                        threadId=list(range(2 * per_socket * n, 2 * per_socket * (n + 1))), cpuFeature=[]) for n in range(host.sockets)]
        nodes = [vim.host.NumaNode(typeId=n, cpuID=list(range(2 * per_socket * n, 2 * per_socket * (n + 1))), memorySize=(host.memory_mb << 20) // host.sockets,
                                   memoryRangeBegin=n * ((host.memory_mb << 20) // host.sockets), memoryRangeLength=(host.memory_mb << 20) // host.sockets)
                 for n in range(host.sockets)]
        return vim.host.HardwareInfo(
            systemInfo=vim.host.SystemInfo(vendor=host.vendor, model=host.model, uuid=host.uuid, serialNumber="LAB%04d" % self.number,
                                           otherIdentifyingInfo=[tag]),
            memorySize=host.memory_mb << 20, cpuPkg=packages, cpuFeature=self._cpu_features(), pciDevice=pci.devices(host),
            cpuInfo=vim.host.CpuInfo(numCpuPackages=host.sockets, numCpuCores=host.cores, numCpuThreads=2 * host.cores, hz=host.mhz * 1000000),
            numaInfo=vim.host.NumaInfo(type="NUMA", numNodes=host.sockets, numaNode=nodes),
            biosInfo=vim.host.BIOSInfo(biosVersion="2.10.2", vendor=host.vendor, releaseDate=datetime.datetime(2021, 2, 24, tzinfo=datetime.timezone.utc)))

    def get_summary(self) -> Any:
        host, running = self.host, self.world.vm_on(self._name)
        reasons = self.reboot_reasons()
        return known(
            vim.host.Summary, host=self.ref, runtime=self.get_runtime(), overallStatus=self.get_overallStatus(), rebootRequired=bool(reasons),
            maintenanceModeRequired=False,
            rebootRequiredReason=[vmodl.LocalizableMessage(key="lab.rebootRequired", message=text) for text in reasons],
            managementServerIp=self.world.vcenter["address"],
            config=vim.host.Summary.ConfigSummary(name=self._name, port=443, product=self.product(), vmotionEnabled=True, faultToleranceEnabled=False),
            quickStats=vim.host.Summary.QuickStats(overallCpuUsage=200 + sum(vm.cpu_reservation_mhz for vm in running),
                                                   overallMemoryUsage=4096 + sum(vm.memory_reservation_mb for vm in running),
                                                   uptime=int((utc() - host.boot_time).total_seconds()) if host.state == "on" else 0),
            hardware=vim.host.Summary.HardwareSummary(vendor=host.vendor, model=host.model, uuid=host.uuid, memorySize=host.memory_mb << 20, cpuModel=CPU,
                                                      cpuMhz=host.mhz,
                                                      numCpuPkgs=host.sockets, numCpuCores=host.cores, numCpuThreads=2 * host.cores,
                                                      numNics=len(host.functions()), numHBAs=0))

    def reboot_reasons(self) -> list[str]:
        out = ["Passthrough of %s changes with the next boot." % bdf for bdf, state in sorted(self.host.passthru.items()) if state.enabled != state.active]
        if self.host.staged is not None:
            out.append("Software was staged that runs after the next boot.")
        return out

    def get_config(self) -> Any:
        host, part = self.host, self.managers
        return vim.host.ConfigInfo(
            host=self.ref, product=self.product(), network=part["networkSystem"].get_networkInfo(), pciPassthruInfo=pci.passthru(host),
            powerSystemInfo=part["powerSystem"].get_info(), powerSystemCapability=part["powerSystem"].get_capability(),
            service=part["serviceSystem"].get_serviceInfo(),
            option=part["advancedOption"].get_setting(), lockdownMode=host.lockdown, adminDisabled=host.lockdown != "lockdownDisabled",
            virtualNicManagerInfo=part["virtualNicManager"].get_info(), assignableHardwareBinding=part["assignableHardwareManager"].get_binding(),
            assignableHardwareConfig=part["assignableHardwareManager"].get_config(), domainList=[],
            hyperThread=vim.host.CpuSchedulerSystem.HyperThreadScheduleInfo(available=True, active=True, config=True),
            dateTimeInfo=vim.host.DateTimeInfo(timeZone=vim.host.DateTimeSystem.TimeZone(key="UTC", name="UTC", description="UTC", gmtOffset=0)))

    # ---- maintenance and reboot -------------------------------------------------------------------------------------

    def EnterMaintenanceMode_Task(self, call: Call, timeout: int, evacuatePoweredOffVms: bool | None = None, maintenanceSpec: Any = None) -> Any:
        self.reachable()
        running = [vm for vm in self.world.vm_on(self._name) if not vm.vcls]
        mode = getattr(maintenanceSpec, "vsanMode", None)
        self.world.note("vsphere", self._name, "evacuation", vsan=mode.objectAction if mode else "")

        def enter(task: Any) -> Callable[[], None] | None:
            host = self.reachable()
            if host.maintenance or self.entering:
                raise vim.fault.InvalidState(msg="The operation is not allowed in the current state: host %s is in or entering maintenance mode." % self._name)
            self.entering = True
            self.face.cluster.settle_agents()
            if not self.world.vm_on(self._name):
                self._entered()
                return None

            def wait() -> None:
                # Nothing evacuates a VM here: it has to be powered off, as one with a passthrough device has to.
                try:
                    task.wait(lambda: not self.world.vm_on(self._name), timeout)
                    with self.world.lock:
                        self._entered()
                finally:
                    self.entering = False
            return wait
        return call.task(self, "enterMaintenanceMode", enter, background=bool(running))

    def _entered(self) -> None:
        self.host.maintenance, self.entering = True, False

    def ExitMaintenanceMode_Task(self, call: Call, timeout: int) -> Any:
        self.reachable()

        def leave(task: Any) -> None:
            host = self.reachable()
            if not host.maintenance:
                raise vim.fault.InvalidState(msg="The operation is not allowed in the current state: host %s is not in maintenance mode." % self._name)
            host.maintenance = False
            self.face.cluster.settle_agents()
        return call.task(self, "exitMaintenanceMode", leave)

    def RebootHost_Task(self, call: Call, force: bool) -> Any:
        self.reachable()

        def reboot(task: Any) -> Callable[[], None]:
            if not self.reachable().maintenance and not force:
                raise vim.fault.InvalidState(msg="The operation is not allowed in the current state: host %s is not in maintenance mode." % self._name)

            return lambda: self.world.reboot_host(self._name, "vsphere")
        return call.task(self, "reboot", reboot)

    def RetrieveHardwareUptime(self, call: Call) -> int:
        return int((utc() - self.reachable().boot_time).total_seconds())

    def RetrieveManagedMethodExecuter(self, call: Call) -> Any:
        return self.reflection["executer"].ref

    def RetrieveDynamicTypeManager(self, call: Call) -> Any:
        return self.reflection["types"].ref

    def EnterLockdownMode(self, call: Call) -> None:
        if self.reachable().lockdown != "lockdownDisabled":
            raise vim.fault.HostConfigFault(msg="Host %s is in lockdown mode already." % self._name)
        self.host.lockdown = "lockdownNormal"

    def ExitLockdownMode(self, call: Call) -> None:
        if self.reachable().lockdown == "lockdownDisabled":
            raise vim.fault.HostConfigFault(msg="Host %s is not in lockdown mode." % self._name)
        self.host.lockdown = "lockdownDisabled"


CPU = "Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz"


class PciPassthruSystem(HostPart):
    kind, prefix = vim.host.PciPassthruSystem, "pciPassthruSystem"
    unset = ("sriovDevicePoolInfo", "availableField", "value")

    def get_pciPassthruInfo(self) -> list[Any]:
        return pci.passthru(self.host)

    def Refresh(self, call: Call) -> None:
        self.reachable()

    def UpdatePassthruConfig(self, call: Call, config: list[Any]) -> None:
        host = self.reachable()
        # Everything is checked before anything is changed.
        changes = [(bdf, one) for one in config for bdf in self._functions(host, one.id)]
        for bdf, one in changes:
            state = host.passthru[bdf]
            if one.passthruEnabled and not state.enabled and host.used_by(bdf):
                raise vim.fault.HostConfigFault(msg="Device %s cannot be passed through: it is in use by %s." % (bdf, host.used_by(bdf)))
            holder = holder_of(self.world, host, bdf)
            if not one.passthruEnabled and holder:
                raise vim.fault.HostConfigFault(msg="Device %s is in use by virtual machine %s." % (bdf, holder))
        for bdf, one in changes:
            state = host.passthru[bdf]
            state.enabled = one.passthruEnabled
            if one.hardwareLabel is not None and pci.release(host) >= (7, 0, 2) and pci.same(bdf, one.id):
                state.label = one.hardwareLabel
            # Unset applyNow means: at once where the host can, else with the next boot.
            if host.rebind and one.applyNow is not False:
                state.active = state.enabled
        call.later(lambda: self.world.tell("host", host.name))

    @staticmethod
    def _functions(host: Host, name: str) -> list[str]:
        found = pci.together(host, name)
        if found:
            return found
        known_as = next((info.id for info in pci.passthru(host) if pci.same(info.id, name)), "")
        raise vim.fault.HostConfigFault(msg="Device %s is not capable of passthrough." % name if known_as else "Host %s has no device %s." % (host.name, name))


def holder_of(world: Any, host: Host, bdf: str) -> str:
    """Name of the running VM that owns the function."""
    return next((vm.name for vm in world.vm_on(host.name) for device in vm.devices if device.bdf and pci.same(device.bdf, bdf)), "")


class AssignableHardwareManager(HostPart):
    kind, prefix = vim.host.AssignableHardwareManager, "assignableHardwareManager"

    def get_binding(self) -> list[Any]:
        return [known(vim.host.AssignableHardwareBinding, instanceId="pci:%s" % device.bdf, vm=self.face.vm(vm.name).ref, pciId=device.bdf,
                      deviceKey=device.key)
                for vm in self.world.vm_on(self.host.name) for device in vm.devices if device.dynamic and device.bdf]

    def get_config(self) -> Any:
        override = vim.host.AssignableHardwareConfig.AttributeOverride
        return vim.host.AssignableHardwareConfig(attributeOverride=[override(instanceId="pci:%s" % bdf, name="customLabel", value=state.label)
                                                                    for bdf, state in sorted(self.host.passthru.items()) if state.label])

    def UpdateAssignableHardwareConfig(self, call: Call, config: Any) -> None:
        host = self.reachable()
        wanted = {}
        for one in config.attributeOverride:
            bdf = next((bdf for bdf in host.passthru if pci.same(bdf, one.instanceId.split("pci:")[-1])), None)
            if bdf is None or one.name != "customLabel":
                raise vim.fault.HostConfigFault(msg="Host %s has no assignable device %s with an attribute %s." % (host.name, one.instanceId, one.name))
            wanted[bdf] = str(one.value or "")
        for bdf, state in host.passthru.items():
            state.label = wanted.get(bdf, "")

    def RetrieveDynamicPassthroughInfo(self, call: Call) -> list[Any]:
        return dynamic_devices(self.reachable())

    def DownloadDescriptionTree(self, call: Call) -> bytes:
        return b""


def dynamic_devices(host: Host) -> list[Any]:
    rows = {}
    vendors = {one.bdf: one.vendor_name for one in host.others}
    for bdf, (vendor, model, name, _gib) in pci.passable(host).items():
        state = host.passthru[bdf]
        if state.active:
            rows[(vendor, model, state.label)] = vim.vm.DynamicPassthroughInfo(
                name="", configurationTag=[], vendorName=vendors.get(bdf, "Mellanox Technologies"), deviceId=model, deviceName=name,
                customLabel=state.label, vendorId=vendor)
    return list(rows.values())


class PowerSystem(HostPart):
    kind, prefix = vim.host.PowerSystem, "powerSystem"

    @staticmethod
    def _policy(key: int) -> Any:
        name = dict(POLICIES)[key]
        return vim.host.PowerSystem.PowerPolicy(key=key, name="PowerPolicy.%s.name" % name, shortName=name, description="PowerPolicy.%s.description" % name)

    def get_info(self) -> Any:
        return vim.host.PowerSystem.Info(currentPolicy=self._policy(self.host.power_policy))

    def get_capability(self) -> Any:
        return vim.host.PowerSystem.Capability(availablePolicy=[self._policy(key) for key, _name in POLICIES])

    def ConfigurePowerPolicy(self, call: Call, key: int) -> None:
        host = self.reachable()
        if key not in dict(POLICIES):
            raise vim.fault.HostConfigFault(msg="Host %s has no power policy %d." % (host.name, key))
        host.power_policy = key


class KernelModuleSystem(HostPart):
    kind, prefix = vim.host.KernelModuleSystem, "kernelModuleSystem"

    def _check(self, name: str) -> Host:
        host = self.reachable()
        if name not in host.module_options:
            raise vim.fault.NotFound(msg="The object or item referred to could not be found: module %s." % name)
        return host

    def QueryModules(self, call: Call) -> list[Any]:
        host, out = self.reachable(), []
        for number, name in enumerate(sorted(host.module_options)):
            vib = host.vibs.get(name.replace("_", "-"))
            out.append(vim.host.KernelModuleSystem.ModuleInfo(id=number + 1, name=name, version=vib.version if vib else host.version,
                                                              filename="/usr/lib/vmware/vmkmod/" + name,
                                                              optionString=host.module_running.get(name, ""), loaded=True, enabled=True, useCount=1))
        return out

    def QueryConfiguredModuleOptionString(self, call: Call, name: str) -> str:
        return self._check(name).module_options[name]

    def UpdateModuleOptionString(self, call: Call, name: str, options: str) -> None:
        self._check(name).module_options[name] = options


class ServiceSystem(HostPart):
    kind, prefix = vim.host.ServiceSystem, "serviceSystem"
    unset = ("availableField", "value")

    def get_serviceInfo(self) -> Any:
        return vim.host.ServiceInfo(service=[
            vim.host.Service(key=key, label=SERVICE_NAMES.get(key, key), required=key == "vpxa", uninstallable=False, running=one.running, policy=one.policy,
                             ruleset=["sshServer"] if key == "TSM-SSH" else [],
                             sourcePackage=vim.host.Service.SourcePackage(sourcePackageName="esx-base",
                                                                          description="This VIB contains all of the base functionality"))
            for key, one in sorted(self.host.services.items())])

    def _service(self, name: str, running: bool | None = None) -> Any:
        host = self.reachable()
        if name not in host.services:
            raise vim.fault.NotFound(msg="The object or item referred to could not be found: service %s." % name)
        if running is not None and host.services[name].running != running:
            raise vim.fault.InvalidState(msg="The operation is not allowed in the current state: service %s is %s."
                                         % (name, "stopped" if running else "running"))
        return host.services[name]

    def _tell(self, call: Call) -> None:
        call.later(lambda: self.world.tell("host", self.host.name))

    def StartService(self, call: Call, id: str) -> None:
        self._service(id, running=False).running = True
        self._tell(call)

    def StopService(self, call: Call, id: str) -> None:
        self._service(id, running=True).running = False
        self._tell(call)

    def RestartService(self, call: Call, id: str) -> None:
        self._service(id, running=True)
        self._tell(call)

    def UpdateServicePolicy(self, call: Call, id: str, policy: str) -> None:
        service = self._service(id)
        if policy not in ("on", "off", "automatic"):
            raise vmodl.fault.InvalidArgument(invalidProperty="policy", msg="A specified parameter was not correct: policy")
        service.policy = policy

    def RefreshServices(self, call: Call) -> None:
        self.reachable()


class ImageConfigManager(HostPart):
    kind, prefix = vim.host.ImageConfigManager, "imageConfigManager"

    def HostImageConfigGetAcceptance(self, call: Call) -> str:
        host = self.reachable()
        return next(word for word, level in LEVELS.items() if level == host.acceptance)

    def UpdateHostImageAcceptanceLevel(self, call: Call, newAcceptanceLevel: str) -> None:
        host = self.reachable()
        if newAcceptanceLevel not in LEVELS:
            raise vim.fault.HostConfigFault(msg="There is no acceptance level %s." % newAcceptanceLevel)
        level = LEVELS[newAcceptanceLevel]
        below = sorted(vib.name for vib in host.vibs.values() if ACCEPTANCE.index(vib.acceptance) < ACCEPTANCE.index(level))
        if below:
            raise vim.fault.HostConfigFault(msg="Acceptance level %s cannot be set: %s of host %s are below it." % (level, ", ".join(below), host.name))
        if host.secure_boot and level == "CommunitySupported":
            raise vim.fault.HostConfigFault(msg="Secure Boot is on, CommunitySupported is not possible on host %s." % host.name)
        host.acceptance = level

    def fetchSoftwarePackages(self, call: Call) -> list[Any]:
        words = {level: word for word, level in LEVELS.items()}
        return [vim.host.SoftwarePackage(name=vib.name, version=vib.version, type="bootbank", vendor=vib.vendor, acceptanceLevel=words[vib.acceptance],
                                         summary=vib.name,
                                         description=vib.name, maintenanceModeRequired=vib.maintenance,
                                         creationDate=datetime.datetime.fromisoformat(vib.date + "T00:00:00+00:00"))
                for vib in sorted(self.reachable().vibs.values(), key=lambda vib: vib.name)]


class HostAccessManager(HostPart):
    kind, prefix = vim.host.HostAccessManager, "hostAccessManager"

    def get_lockdownMode(self) -> str:
        return self.host.lockdown

    def ChangeLockdownMode(self, call: Call, mode: str) -> None:
        self.reachable().lockdown = str(mode)

    def QueryLockdownExceptions(self, call: Call) -> list[str]:
        return list(self.host.lockdown_exceptions)


class NetworkSystem(HostPart):
    kind, prefix = vim.host.NetworkSystem, "networkSystem"
    unset = ("availableField", "value", "capabilities", "consoleIpRouteConfig", "ipRouteConfig", "offloadCapabilities", "networkConfig")

    def RefreshNetworkSystem(self, call: Call) -> None:
        self.reachable()

    def get_dnsConfig(self) -> Any:
        return vim.host.DnsConfig(dhcp=False, hostName=self.host.name, domainName="lab")

    def _pnic(self, vmnic: str, bdf: str) -> Any:
        card, port = self.host.find(bdf)
        speed = vim.host.PhysicalNic.LinkSpeedDuplex(speedMb=port.speed * 1000, duplex=True)
        driver = self.host.vibs.get("nmlx5-core")
        return vim.host.PhysicalNic(key="key-vim.host.PhysicalNic-" + vmnic, device=vmnic, pci=bdf, driver="nmlx5_core",
                                    driverVersion=driver.version if driver else None,
                                    firmwareVersion=card.firmware, linkSpeed=speed if port.cabled else None, mac=port.mac, wakeOnLanSupported=False,
                                    autoNegotiateSupported=True,
                                    spec=vim.host.PhysicalNic.Specification(linkSpeed=speed), validLinkSpecification=[speed])

    def vmnic_of(self, functions: list[str]) -> list[str]:
        names = {bdf: vmnic for vmnic, bdf in self.host.vmnics().items()}
        return [names[bdf] for bdf in functions if bdf in names]

    def vnics(self) -> list[Any]:
        out = []
        for number, vmk in enumerate(sorted(self.host.vmk_uplinks)):
            ip = (self.host.address or "10.0.0.%d" % self.system.number) if number == 0 else "10.0.%d.%d" % (number, self.system.number)
            spec = vim.host.VirtualNic.Specification(ip=vim.host.IpConfig(dhcp=False, ipAddress=ip, subnetMask="255.255.255.0"),
                                                     mtu=1500 if number == 0 else 9000,
                                                     mac="00:50:56:6%d:%02x:%02x" % (number % 10, self.system.number // 256, self.system.number % 256),
                                                     netStackInstanceKey="defaultTcpipStack")
            out.append(vim.host.VirtualNic(device=vmk, key="key-vim.host.VirtualNic-" + vmk, portgroup=port_group(vmk), spec=spec))
        return out

    def get_networkInfo(self) -> Any:
        host = self.host
        names, switches, groups, proxies = host.vmnics(), [], [], []
        for name, functions in sorted(host.vswitch.items()):
            vmnics = self.vmnic_of(functions)
            members = [port_group(vmk) for vmk in sorted(host.vmk_uplinks)] + [self.face.network.name]
            order = vim.host.NetworkPolicy.NicOrderPolicy(activeNic=vmnics)
            policy = vim.host.NetworkPolicy(nicTeaming=vim.host.NetworkPolicy.NicTeamingPolicy(policy="loadbalance_srcid", nicOrder=order))
            switches.append(vim.host.VirtualSwitch(
                name=name, key="key-vim.host.VirtualSwitch-" + name, numPorts=5632, numPortsAvailable=5600, mtu=9000,
                pnic=["key-vim.host.PhysicalNic-" + one for one in vmnics],
                portgroup=["key-vim.host.PortGroup-" + one for one in members],
                spec=vim.host.VirtualSwitch.Specification(numPorts=128, bridge=vim.host.VirtualSwitch.BondBridge(nicDevice=vmnics), policy=policy, mtu=9000)))
            groups += [vim.host.PortGroup(key="key-vim.host.PortGroup-" + one, vswitch="key-vim.host.VirtualSwitch-" + name, computedPolicy=policy,
                                          spec=vim.host.PortGroup.Specification(name=one, vlanId=0, vswitchName=name, policy=vim.host.NetworkPolicy()))
                       for one in members]
        for number, (name, functions) in enumerate(sorted(host.dvs.items())):
            vmnics = self.vmnic_of(functions)
            pnics = [vim.dvs.HostMember.PnicSpec(pnicDevice=one) for one in vmnics]
            proxies.append(vim.host.HostProxySwitch(
                dvsUuid=self.world.switches[name]["uuid"], dvsName=name, key="DvsPortset-%d" % number, numPorts=2816, numPortsAvailable=2800, mtu=9000,
                pnic=["key-vim.host.PhysicalNic-" + one for one in vmnics],
                spec=vim.host.HostProxySwitch.Specification(backing=vim.dvs.HostMember.PnicBacking(pnicSpec=pnics))))
        return vim.host.NetworkInfo(pnic=[self._pnic(vmnic, bdf) for vmnic, bdf in names.items()], vswitch=switches, proxySwitch=proxies, portgroup=groups,
                                    vnic=self.vnics(),
                                    dnsConfig=self.get_dnsConfig(), ipV6Enabled=False, atBootIpV6Enabled=False)


class AutoStartManager(HostPart):
    """No VM starts with the host; clients ask all the same (libvirt follows the reference unseen)."""

    kind, prefix = vim.host.AutoStartManager, "autoStartManager"

    def get_config(self) -> Any:
        return vim.host.AutoStartManager.Config(defaults=vim.host.AutoStartManager.SystemDefaults(enabled=False, startDelay=120, stopDelay=120,
                                                                                                  waitForHeartbeat=False,
                                                                                                  stopAction="PowerOff"))


def port_group(vmk: str) -> str:
    return "Management Network" if vmk == "vmk0" else "Kernel %s" % vmk


class VirtualNicManager(HostPart):
    kind, prefix = vim.host.VirtualNicManager, "virtualNicManager"
    unset = ("availableField", "value")

    def _net(self, service: str) -> Any:
        vnics = self.system.managers["networkSystem"].vnics()
        chosen = ["key-vim.host.VirtualNic-" + vmk for vmk, services in sorted(self.host.vmk_services.items()) if service in services]
        return vim.host.VirtualNicManager.NetConfig(nicType=service, multiSelectAllowed=True, candidateVnic=vnics, selectedVnic=chosen)

    def get_info(self) -> Any:
        return vim.host.VirtualNicManagerInfo(netConfig=[self._net(service) for service in ("management", "vmotion", "vsan", "faultToleranceLogging")])

    def QueryNetConfig(self, call: Call, nicType: str) -> Any:
        self.reachable()
        return self._net(nicType)
