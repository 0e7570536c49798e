# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Virtual machines in the lab's vCenter: reconfigure accepts what a real one accepts, power-on refuses what a real one refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("pyVmomi")
from pyVmomi import vim, vmodl  # noqa: E402

from lab.vsphere.client import Passthrough, Site  # noqa: E402

IB, ROCE = "0000:3b:00.0", "0000:3b:00.1"
VM = "vm04"  # on esxi04, which is already right: both functions are active


def label(world):
    host = world.hosts["esxi04"]
    host.passthru[IB].label, host.passthru[ROCE].label = "ib", "roce"


@pytest.fixture()
def site():
    with Site(4, prepare=label) as made:
        yield made
        assert made.defects() == []


def devices(site, vm=VM):
    return [one for one in site.vm(vm).config.hardware.device if isinstance(one, Passthrough)]


def power_on(site, vm=VM):
    return site.run(site.vm(vm).PowerOnVM_Task())


def ready(site, *changes, **spec):
    """A VM with its memory reserved and these devices."""
    wanted = dict(memoryReservationLockedToMax=True, deviceChange=list(changes))
    wanted.update(spec)
    site.reconfigure(VM, **wanted)


# ---- reconfigure ------------------------------------------------------------------------------------------------------

def test_everything_in_one_spec(site):
    free = vim.ResourceAllocationInfo(reservation=44 * 2993, limit=-1)
    before = site.vm(VM).config.changeVersion
    site.reconfigure(VM, changeVersion=before, numCPUs=44, numCoresPerSocket=22, memoryMB=147456, memoryReservationLockedToMax=True, cpuAllocation=free,
                     latencySensitivity=vim.LatencySensitivity(level="high"), cpuHotAddEnabled=False, memoryHotAddEnabled=False,
                     extraConfig=[vim.option.OptionValue(key="numa.vcpu.preferHT", value="TRUE")],
                     deviceChange=[site.fixed(VM, IB, key=-1), site.fixed(VM, ROCE, key=-2)])
    config = site.vm(VM).config
    assert (config.hardware.numCPU, config.hardware.numCoresPerSocket, config.hardware.memoryMB) == (44, 22, 147456)
    assert config.memoryAllocation.reservation == 147456 and config.memoryReservationLockedToMax
    assert config.cpuAllocation.reservation == 131692 and config.latencySensitivity.level == "high"
    assert not config.cpuHotAddEnabled and not config.memoryHotAddEnabled
    assert {one.key: one.value for one in config.extraConfig} == {"numa.vcpu.preferHT": "TRUE"}
    assert [(one.backing.id, one.backing.deviceId, one.deviceInfo.label) for one in devices(site)] == [
        (IB, "1017", "PCI device 0"), (ROCE, "1017", "PCI device 1")]
    assert config.changeVersion != before
    power_on(site)
    site.reconfigure(VM, extraConfig=[vim.option.OptionValue(key="numa.vcpu.preferHT", value="")])
    assert not site.vm(VM).config.extraConfig


def test_a_stale_change_version_is_refused(site):
    stale = site.vm(VM).config.changeVersion
    site.reconfigure(VM, numCPUs=8)
    with pytest.raises(vim.fault.ConcurrentAccess):
        site.reconfigure(VM, changeVersion=stale, numCPUs=16)
    assert site.world.vms[VM].cpus == 8


@pytest.mark.parametrize("keys", [(0, 0), (-1, -1)])
def test_devices_in_one_spec_need_keys_of_their_own(site, keys):
    with pytest.raises(vim.fault.InvalidDeviceSpec) as caught:
        site.reconfigure(VM, numCPUs=8, deviceChange=[site.fixed(VM, IB, key=keys[0]), site.fixed(VM, ROCE, key=keys[1])])
    assert caught.value.property == "virtualDeviceSpec.device.key"
    assert devices(site) == [] and site.world.vms[VM].cpus == 20  # nothing of the spec was taken


def test_a_device_cannot_be_attached_twice(site):
    site.reconfigure(VM, deviceChange=[site.fixed(VM, IB)])
    with pytest.raises(vim.fault.InvalidDeviceBacking) as caught:
        site.reconfigure(VM, deviceChange=[site.fixed(VM, IB.upper())])
    assert caught.value.deviceIndex == 0
    with pytest.raises(vim.fault.InvalidDeviceBacking):
        site.reconfigure(VM, deviceChange=[site.fixed(VM, ROCE, id="no address")])


def test_remove_by_key(site):
    site.reconfigure(VM, deviceChange=[site.fixed(VM, IB, key=-1), site.fixed(VM, ROCE, key=-2)])
    first = devices(site)[0]
    site.reconfigure(VM, deviceChange=[vim.vm.device.VirtualDeviceSpec(operation="remove", device=first)])
    assert [one.backing.id for one in devices(site)] == [ROCE]
    with pytest.raises(vim.fault.InvalidDeviceSpec):
        site.reconfigure(VM, deviceChange=[vim.vm.device.VirtualDeviceSpec(operation="remove", device=first)])


@pytest.mark.parametrize("spec", [dict(numCPUs=8), dict(memoryMB=32768), dict(numCoresPerSocket=5), dict(cpuHotAddEnabled=False), dict(device=True)])
def test_no_hot_change(site, spec):
    power_on(site)
    if spec.pop("device", False):
        spec = dict(deviceChange=[site.fixed(VM, IB)])
    with pytest.raises(vim.fault.InvalidPowerState) as caught:
        site.reconfigure(VM, **spec)
    assert caught.value.existingState == "poweredOn" and devices(site) == []


def test_numbers_are_checked(site):
    for spec, name in ((dict(numCPUs=0), "numCPUs"), (dict(memoryMB=6), "memoryMB"), (dict(firmware="uefi"), "firmware")):
        with pytest.raises(vmodl.fault.InvalidArgument) as caught:
            site.reconfigure(VM, **spec)
        assert caught.value.invalidProperty == "configSpec." + name


def test_fields_without_a_model_are_refused_in_strict_mode(site):
    with pytest.raises(vmodl.fault.NotSupported, match="vPMCEnabled"):
        site.reconfigure(VM, vPMCEnabled=True)
    site.world.journal.clear()
    with Site(1, strict=False) as lenient:
        lenient.reconfigure("vm01", vPMCEnabled=True)
        assert lenient.notes("unmodelled field")


# ---- power on: strict -------------------------------------------------------------------------------------------------

def test_power_on_boots_the_guest_and_off_stops_it(site):
    site.world.vms[VM].guest.address = "127.9.9.9"
    power_on(site)
    site.until(lambda: site.vm(VM).guest.toolsRunningStatus == "guestToolsRunning")
    assert site.vm(VM).guest.ipAddress == "127.9.9.9" and site.vm(VM).runtime.powerState == "poweredOn"
    assert site.content.searchIndex.FindByIp(None, "127.9.9.9", True).name == VM
    with pytest.raises(vim.fault.InvalidPowerState):
        power_on(site)
    site.run(site.vm(VM).PowerOffVM_Task())
    assert not site.world.vms[VM].guest.booted
    with pytest.raises(vim.fault.InvalidPowerState):
        site.run(site.vm(VM).PowerOffVM_Task())


def test_guest_shutdown_and_reboot_need_tools(site):
    vm = site.vm(VM)
    with pytest.raises(vim.fault.InvalidPowerState):
        vm.ShutdownGuest()
    site.world.guest_boot_seconds = 0.3
    power_on(site)
    with pytest.raises(vim.fault.ToolsUnavailable):
        vm.ShutdownGuest()
    site.until(lambda: site.world.vms[VM].guest.booted)
    vm.RebootGuest()
    assert not site.world.vms[VM].guest.booted
    site.until(lambda: site.world.vms[VM].guest.boots == 2)
    site.run(vm.ResetVM_Task())
    site.until(lambda: site.world.vms[VM].guest.boots == 3)
    vm.ShutdownGuest()
    site.until(lambda: vm.runtime.powerState == "poweredOff")


def test_device_that_is_not_active(site):
    site.world.hosts["esxi04"].passthru[IB].active = False
    ready(site, site.fixed(VM, IB, systemId="x"))
    with pytest.raises(vim.fault.GenericVmConfigFault, match="Module 'DevicePowerOn' power on failed. Device 59:0.0 is not a passthrough device"):
        power_on(site)
    assert site.world.vms[VM].power == "off"


@pytest.mark.parametrize("wrong", [dict(deviceId="4119"), dict(deviceId="1019"), dict(systemId="11111111-0000-0000-0000-000000000000"), dict(vendorId=0x1234),
                                   dict(deviceId="0x1017")])
def test_ids_are_taken_by_reconfigure_and_refused_by_power_on(site, wrong):
    ready(site, site.fixed(VM, IB, **wrong))
    with pytest.raises(vim.fault.GenericVmConfigFault, match="systemId does not match the current system or the deviceId and vendorId .* currently at 59:0.0"):
        power_on(site)


def test_system_id_of_another_host(site):
    site.world.vms["vm02"].host = "esxi04"
    other = site.fixed(VM, IB)
    site.world.hosts["esxi02"].passthru[IB].active = True
    site.world.vms[VM].host = "esxi02"
    ready(site, other)
    with pytest.raises(vim.fault.GenericVmConfigFault, match="systemId"):
        power_on(site)


@pytest.mark.parametrize("spec, text", [
    (dict(memoryReservationLockedToMax=False), "sched.mem.min\\) should be equal to memsize\\(65536\\)"),
    (dict(memoryReservationLockedToMax=False, memoryAllocation=vim.ResourceAllocationInfo(reservation=65535)), "memsize\\(65536\\)"),
    (dict(memoryAllocation=vim.ResourceAllocationInfo(limit=65536)), "unlimited")])
def test_memory_of_a_vm_with_a_device(site, spec, text):
    ready(site, site.fixed(VM, IB), **spec)
    with pytest.raises(vim.fault.GenericVmConfigFault, match=text):
        power_on(site)


def test_memory_without_a_device_is_free(site):
    power_on(site)


def test_latency_sensitivity_high_needs_all_reservations(site):
    site.reconfigure(VM, latencySensitivity=vim.LatencySensitivity(level="high"))
    with pytest.raises(vim.fault.GenericVmConfigFault, match="memsize"):
        power_on(site)
    site.reconfigure(VM, memoryReservationLockedToMax=True, cpuAllocation=vim.ResourceAllocationInfo(reservation=20 * 2993 - 1))
    with pytest.raises(vim.fault.GenericVmConfigFault, match="latency-sensitive VM, \\(sched.cpu.min\\) should be at least 59860 MHz"):
        power_on(site)
    site.reconfigure(VM, cpuAllocation=vim.ResourceAllocationInfo(reservation=20 * 2993))
    power_on(site)


def test_capacity_of_the_host(site):
    site.reconfigure(VM, cpuAllocation=vim.ResourceAllocationInfo(reservation=48 * 2993 + 1))
    with pytest.raises(vim.fault.InsufficientHostCpuCapacityFault) as caught:
        power_on(site)
    assert (caught.value.unreserved, caught.value.requested) == (48 * 2993, 48 * 2993 + 1)
    site.reconfigure(VM, cpuAllocation=vim.ResourceAllocationInfo(reservation=0), memoryMB=393216, memoryReservationLockedToMax=True)
    with pytest.raises(vim.fault.InsufficientHostMemoryCapacityFault):
        power_on(site)
    site.reconfigure(VM, memoryMB=4096, numCPUs=44, numCoresPerSocket=20)
    with pytest.raises(vim.fault.GenericVmConfigFault, match="multiple"):
        power_on(site)
    site.reconfigure(VM, numCPUs=100)
    with pytest.raises(vim.fault.GenericVmConfigFault, match="only 96"):
        power_on(site)


def test_two_vms_cannot_hold_one_device(site):
    site.world.vms["vm03"].host = "esxi04"
    ready(site, site.fixed(VM, IB))
    site.reconfigure("vm03", memoryReservationLockedToMax=True, deviceChange=[site.fixed("vm03", IB)])
    power_on(site)
    with pytest.raises(vim.fault.GenericVmConfigFault, match="in use by virtual machine vm04"):
        power_on(site, "vm03")
    site.run(site.vm(VM).PowerOffVM_Task())
    power_on(site, "vm03")


def test_large_bars_need_64_bit_mmio(site):
    site.world.hosts["esxi04"].cards[1].config["PF_LOG_BAR_SIZE"].current = 14  # 16 GiB each
    ready(site, site.fixed(VM, IB, key=-1), site.fixed(VM, ROCE, key=-2))

    def options(size):
        return [vim.option.OptionValue(key="pciPassthru.use64bitMMIO", value="TRUE"), vim.option.OptionValue(key="pciPassthru.64bitMMIOSizeGB", value=size)]
    for spec in (dict(), dict(extraConfig=options("32")), dict(extraConfig=options("96")), dict(extraConfig=options("64"), firmware="bios")):
        site.reconfigure(VM, **spec)
        with pytest.raises(vim.fault.GenericVmConfigFault, match="DevicePowerOn"):
            power_on(site)
    site.reconfigure(VM, firmware="efi")
    power_on(site)


# ---- dynamic DirectPath I/O -------------------------------------------------------------------------------------------

def test_dynamic_devices_are_told_apart_by_label(site):
    offered = site.vm(VM).environmentBrowser.QueryConfigTarget(None).dynamicPassthrough
    assert sorted((one.vendorId, one.deviceId, one.customLabel) for one in offered) == [(0x15B3, 0x1017, "ib"), (0x15B3, 0x1017, "roce")]
    ready(site, site.dynamic(-1, "roce"), site.dynamic(-2, "ib"))
    assert [one.backing.assignedId for one in devices(site)] == [None, None]
    power_on(site)
    assert [(one.backing.customLabel, one.backing.assignedId) for one in devices(site)] == [("roce", ROCE), ("ib", IB)]
    binding = site.host("esxi04").config.assignableHardwareBinding
    assert sorted(one.instanceId for one in binding) == ["pci:" + IB, "pci:" + ROCE] and binding[0].vm.name == VM
    site.run(site.vm(VM).PowerOffVM_Task())
    assert [one.backing.assignedId for one in devices(site)] == [None, None]
    assert not site.host("esxi04").config.assignableHardwareBinding


@pytest.mark.parametrize("options", [dict(label="storage"), dict(device=0x1019), dict(vendor=0x8086)])
def test_no_dynamic_device_fits(site, options):
    ready(site, site.dynamic(**options))
    with pytest.raises(vim.fault.InsufficientResourcesFault, match="No host is compatible"):
        power_on(site)


def test_dynamic_needs_hardware_version_17(site):
    site.world.vms[VM].hw_version = 15
    ready(site, site.dynamic(label="ib"))
    with pytest.raises(vim.fault.GenericVmConfigFault, match="hardware version 17"):
        power_on(site)
    site.run(site.vm(VM).UpgradeVM_Task("vmx-19"))
    power_on(site)


# ---- what passthrough forbids -----------------------------------------------------------------------------------------

def test_snapshot_suspend_and_migration_are_refused_with_a_device(site):
    site.run(site.vm("vm01").CreateSnapshot_Task("before", "", False, False))
    assert site.vm("vm01").snapshot.rootSnapshotList[0].name == "before"
    ready(site, site.fixed(VM, IB))
    power_on(site)
    with pytest.raises(vim.fault.SnapshotIncompatibleDeviceInVm):
        site.run(site.vm(VM).CreateSnapshot_Task("before", "", False, False))
    with pytest.raises(vim.fault.DisallowedMigrationDeviceAttached):
        site.run(site.vm(VM).RelocateVM_Task(vim.vm.RelocateSpec(host=site.host("esxi02"))))
    with pytest.raises(vim.fault.InvalidState):
        site.run(site.vm(VM).SuspendVM_Task())
    site.run(site.vm(VM).PowerOffVM_Task())
    site.run(site.vm(VM).RelocateVM_Task(vim.vm.RelocateSpec(host=site.host("esxi02"))))
    with pytest.raises(vim.fault.GenericVmConfigFault):  # cold migration leaves the old host's device behind
        power_on(site)


def test_config_target_offers_only_active_functions(site):
    assert [one.pciDevice.id for one in site.vm(VM).environmentBrowser.QueryConfigTarget(None).pciPassthrough] == [IB, ROCE]
    assert site.vm("vm01").environmentBrowser.QueryConfigTarget(None).pciPassthrough == []
    other = site.vm("vm01").environmentBrowser.QueryConfigTarget(site.host("esxi04"))
    assert {one.systemId for one in other.pciPassthrough} == {site.vm(VM).environmentBrowser.QueryConfigTarget(None).pciPassthrough[0].systemId}


def test_recording_fault_tolerance_and_an_old_snapshot_are_refused_with_a_device(site):
    site.run(site.vm(VM).CreateSnapshot_Task("before", "", False, False))
    site.run(site.vm(VM).RevertToCurrentSnapshot_Task())
    ready(site, site.fixed(VM, IB))
    with pytest.raises(vim.fault.SnapshotIncompatibleDeviceInVm):
        site.run(site.vm(VM).RevertToCurrentSnapshot_Task())
    site.run(site.vm(VM).RemoveAllSnapshots_Task())
    with pytest.raises(vim.fault.NotFound):
        site.run(site.vm(VM).RevertToCurrentSnapshot_Task())
    with pytest.raises(vim.fault.VmConfigIncompatibleForFaultTolerance):
        site.run(site.vm(VM).CreateSecondaryVM_Task())
    power_on(site)
    with pytest.raises(vim.fault.RecordReplayDisabled):
        site.run(site.vm(VM).StartRecording_Task("tape"))


def test_a_device_is_no_part_of_a_clone(site):
    site.world.vms[VM].template = True
    spec = vim.vm.CloneSpec(location=vim.vm.RelocateSpec(host=site.host("esxi04"), pool=site.all(vim.ResourcePool)[0]), powerOn=False, template=False)
    spec.config = vim.vm.ConfigSpec(deviceChange=[site.fixed(VM, IB)])
    with pytest.raises(vim.fault.InvalidDeviceSpec):
        site.run(site.vm(VM).CloneVM_Task(site.all(vim.Datacenter)[0].vmFolder, "n1", spec))
    assert "n1" not in site.world.vms


def test_drs_places_a_vm_with_dynamic_devices_where_one_is_free_and_moves_no_running_one(site):
    other = site.world.hosts["esxi03"]
    for bdf, state in other.passthru.items():
        state.enabled = state.active = bdf.endswith(".0")
    free = [bdf for bdf, card, _port in other.functions() if card.vpi][0]
    other.passthru[free].label = "ib"
    for name in (VM, "vm02"):
        site.world.vms["vm02"].host = "esxi04"
        site.reconfigure(name, memoryReservationLockedToMax=True, deviceChange=[site.dynamic(label="ib")])
        power_on(site, name)
    assert site.vm(VM).runtime.host.name == "esxi04" and site.vm("vm02").runtime.host.name == "esxi03"
    assert site.world.vms["vm02"].devices[0].bdf == free
    with pytest.raises(vim.fault.DisallowedMigrationDeviceAttached):
        site.run(site.vm("vm02").RelocateVM_Task(vim.vm.RelocateSpec(host=site.host("esxi02"))))
    site.run(site.vm("vm02").PowerOffVM_Task())
    other.passthru[free].active = False
    with pytest.raises(vim.fault.InsufficientResourcesFault, match="esxi03"):
        power_on(site, "vm02")
    assert site.world.vms["vm02"].host == "esxi03"


def test_a_fixed_device_keeps_its_vm_on_its_host(site):
    site.world.hosts["esxi04"].passthru[IB].active = True
    ready(site, site.fixed(VM, IB))
    site.world.hosts["esxi04"].passthru[IB].active = False
    with pytest.raises(vim.fault.GenericVmConfigFault, match="not a passthrough device"):
        power_on(site)
    assert site.world.vms[VM].host == "esxi04"


def test_the_address_as_a_vms_file_has_it(site):
    """The bus in decimal behind a domain of five digits."""
    ready(site, site.fixed(VM, IB, id="00000:059:00.0"))
    power_on(site)
    with pytest.raises(vim.fault.InvalidPowerState):
        site.reconfigure(VM, deviceChange=[site.fixed(VM, ROCE)])
