# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What vCenter refuses although the module saw nothing against it: the error names the VM or the host, the cause and a cure.

Each case puts the obstacle there behind the module's back, at the last moment, as somebody else at the same vCenter would.
"""

from __future__ import annotations

import pytest

from lab.vsphere.rig import Lab
from lab.world import OtherDevice, Passthru, PassthruDevice

IB, ROCE, GPU = "0000:3b:00.0", "0000:3b:00.1", "0000:af:00.0"
CX5 = [{"card": IB}]
GENERIC = "see Tasks and Events"


@pytest.fixture()
def lab(tmp_path):
    made = Lab(tmp_path, 2)
    made.ready()
    yield made
    made.face.stop()


def meanwhile(lab, method, action):
    """action() runs once, ahead of the first request of that method."""
    left = [action]

    def before(sid, body):
        if "<%s " % method in body and left:
            left.pop()()

    lab.face.before = before


def told(result, name, cause, cure):
    """The error names the VM or host, why, and what to try that is more than where to look."""
    error = result["error"]
    assert name in result["msg"] and name in error["where"], error
    assert cause in error["why"], error
    assert cure in error["hint"] and GENERIC not in error["hint"], error


def attach(lab, **more):
    return lab.ok("vm_passthru", name="vm01", devices=CX5, **more)


# ---- reconfiguring ----------------------------------------------------------------------------------------------------

def power_on(lab):
    lab.world.vms["vm01"].power = "on"


def other_change(lab):
    lab.world.vms["vm01"].change_version += 1


def other_device(lab):
    lab.world.vms["vm01"].devices.append(PassthruDevice(13000, IB, "1017", 0x15B3, "x"))


def full_house(lab):
    lab.world.vms["vm01"].devices = [PassthruDevice(13000 + number, "0000:e%x:00.0" % number, "1", 1, "x") for number in range(16)]


@pytest.mark.parametrize("obstacle,cause,cure", [
    (power_on, "InvalidPowerState", "check the power state"), (other_change, "ConcurrentAccess", "run again"),
    (other_device, "InvalidDeviceBacking", "host_pci_info"), (full_house, "TooManyDevices", "detach")])
def test_a_reconfiguration_that_vcenter_refuses(lab, obstacle, cause, cure):
    meanwhile(lab, "ReconfigVM_Task", lambda: obstacle(lab))
    told(lab.failed("vm_passthru", name="vm01", devices=CX5), "vm01", cause, cure)


def test_another_task_on_the_vm(lab):
    for module, more in (("vm_passthru", dict(devices=CX5)), ("vm_tuning", dict(cpus=8))):
        lab.world.set_fault("task_fault", "vm01", times=1, fault="vim.fault.TaskInProgress", message="The operation is in progress.")
        told(lab.failed(module, name="vm01", **more), "vm01", "TaskInProgress", "other task")
        assert lab.ok(module, name="vm01", **more)["changed"]


# ---- powering on ------------------------------------------------------------------------------------------------------

def not_reserved(lab, vm, host):
    vm.memory_locked, vm.memory_reservation_mb = False, vm.memory_mb - 1


def limited(lab, vm, host):
    vm.memory_limit = vm.memory_mb


def latency(lab, vm, host):
    vm.latency = "high"


def not_active(lab, vm, host):
    host.passthru[IB].active = False


def decimal_id(lab, vm, host):
    vm.devices[0].device_id = "4119"


def other_host(lab, vm, host):
    vm.devices[0].system_id = "elsewhere"


def used(lab, vm, host):
    other = lab.world.vms["vm02"]
    other.host, other.power, other.devices = "esxi01", "on", [PassthruDevice(13000, IB, "1017", 0x15B3, "x")]


def cpu_taken(lab, vm, host):
    other = lab.world.vms["vm02"]
    other.host, other.power, other.cpu_reservation_mhz = "esxi01", "on", 40 * host.mhz
    vm.cpu_reservation_mhz = 20 * host.mhz


def memory_taken(lab, vm, host):
    other = lab.world.vms["vm02"]
    other.host, other.power, other.memory_reservation_mb = "esxi01", "on", host.memory_mb - vm.memory_mb


def in_maintenance(lab, vm, host):
    host.maintenance = True


def big_bars(lab, vm, host):
    host.others.append(OtherDevice(GPU, 0x10DE, 0xABCD, "GPU", "NVIDIA Corporation", bar_gib=33))
    host.passthru[GPU] = Passthru(True, True)
    vm.devices.append(PassthruDevice(13009, GPU, "abcd", 0x10DE, vm.devices[0].system_id))


@pytest.mark.parametrize("obstacle,cause,cure", [
    (not_reserved, "memory reservation (sched.mem.min) should be equal to memsize(65536)", "reserve_memory: true"),
    (limited, "sched.mem.max", "lift the VM's memory limit"), (latency, "sched.cpu.min", "reserve_cpu: true"),
    (not_active, "Device 59:0.0 is not a passthrough device", "reboot the host when it is only enabled"),
    (decimal_id, "systemId does not match the current system or the deviceId and vendorId do not match the device currently at 59:0.0", "detach the device"),
    (other_host, "The systemId does not match", "attach it again with vhpc.rdma.vm_passthru"), (used, "in use by virtual machine vm02", "power that VM off"),
    (cpu_taken, "InsufficientHostCpuCapacityFault", "reserve less CPU"), (memory_taken, "InsufficientHostMemoryCapacityFault", "reserve less memory"),
    (in_maintenance, "in or entering maintenance mode", "out of maintenance mode"), (big_bars, "Module 'DevicePowerOn' power on failed", "bar_size_gb")])
def test_a_power_on_that_the_host_refuses(lab, obstacle, cause, cure):
    attach(lab)
    vm = lab.world.vms["vm01"]
    obstacle(lab, vm, lab.world.hosts["esxi01"])
    told(lab.failed("vm_power", name="vm01"), "vm01", cause, cure)
    assert vm.power == "off"


@pytest.mark.parametrize("obstacle", [decimal_id, other_host])
def test_a_backing_that_power_on_refuses_is_put_right_by_attaching_again(lab, obstacle):
    attach(lab)
    obstacle(lab, lab.world.vms["vm01"], lab.world.hosts["esxi01"])
    result = lab.twice("vm_passthru", name="vm01", devices=CX5)
    assert [step["thing"] for step in result["changes"]] == ["vm vm01"] and IB in result["changes"][0]["name"]
    assert lab.ok("vm_power", name="vm01")["vm"]["power"] == "on"


def test_a_vm_that_runs_is_attached_however_its_address_is_written(lab):
    attach(lab)
    for text in ("00000:059:00.0", "3B:00.0", "0000:3B:00.0"):
        lab.world.vms["vm01"].devices[0].bdf = text
        assert not lab.ok("vm_passthru", name="vm01", devices=CX5)["changed"], text


# ---- dynamic DirectPath I/O -------------------------------------------------------------------------------------------

def dynamic(lab, gpu=True):
    host = lab.world.hosts["esxi01"]
    host.others.append(OtherDevice(GPU, 0x10DE, 0x1EB8, "TU104GL [Tesla T4]", "NVIDIA Corporation"))
    host.passthru[GPU] = Passthru(True, True)
    return host


def test_no_free_device_at_power_on(lab):
    host = dynamic(lab)
    lab.ok("vm_passthru", name="vm01", mode="dynamic", devices=[GPU])
    host.passthru[GPU].active = False
    told(lab.failed("vm_power", name="vm01"), "vm01", "no free assignable device 10de:1eb8", "host_pci_info")


def test_a_hardware_version_that_went_back(lab):
    dynamic(lab)
    lab.ok("vm_passthru", name="vm01", mode="dynamic", devices=[GPU])
    lab.world.vms["vm01"].hw_version = 15
    told(lab.failed("vm_power", name="vm01"), "vm01", "hardware version 17", "upgrade the VM's hardware version")
    result = lab.failed("vm_passthru", name="vm02", mode="dynamic", devices=[IB], esxi_hostname="esxi02")
    assert "vm02" in result["msg"]


def test_drs_takes_the_vm_to_the_host_that_has_a_free_device(lab):
    host, other = dynamic(lab), lab.world.hosts["esxi02"]
    other.others, other.passthru[GPU] = list(host.others), Passthru(True, True)
    lab.ok("vm_passthru", name="vm01", mode="dynamic", devices=[GPU])
    host.passthru[GPU].active = False
    assert lab.ok("vm_power", name="vm01")["vm"] == dict(name="vm01", power="on", host="esxi02")
    assert lab.ok("vm_passthru", name="vm01", mode="dynamic", devices=[GPU])["vm"]["host"] == "esxi02"
    told(lab.failed("vm_power", name="vm01", esxi_hostname="esxi01"), "vm01", "the VM is on esxi02, not on esxi01", "correct the VM's name or its host")


# ---- the host ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("module,method,fault,more,cure", [
    ("host_passthru", "UpdatePassthruConfig", "HostConfigFault", dict(devices=CX5, state="disabled"), "put that right"),
    ("host_power_policy", "ConfigurePowerPolicy", "HostConfigFault", {}, "put that right"),
    ("esxi_service", "StartService", "HostConfigFault", dict(running=True), "put that right"),
    ("esxi_service", "StartService", "InvalidState", dict(running=True), "run again")])
def test_a_setting_that_the_host_refuses(lab, module, method, fault, more, cure):
    lab.world.hosts["esxi01"].services["TSM-SSH"].running = False
    lab.world.set_fault("call_fault", "esxi01", method=method, fault="vim.fault." + fault, times=1, message="The host agent is busy.")
    told(lab.failed(module, **more), "esxi01", "The host agent is busy. (%s)" % fault, cure)
    assert lab.ok(module, **more)["changed"]


def test_a_device_that_went_out_of_reach_before_the_write(lab):
    host = lab.world.hosts["esxi02"]
    host.dvs = {}
    meanwhile(lab, "UpdatePassthruConfig", lambda: host.settings.update(vtd=False))
    told(lab.failed("host_passthru", "esxi02", devices=CX5), "esxi02", "is not capable of passthrough", "put that right")
    assert "VT-d is off in the BIOS" in lab.failed("host_passthru", "esxi02", devices=CX5)["msg"]


def test_devices_that_move_together(lab):
    host = lab.world.hosts["esxi02"]
    host.dvs = {}
    for number in (0, 1):
        host.others.append(OtherDevice("0000:af:00.%d" % number, 0x10DE, 0x1EB8, "GPU", "NVIDIA Corporation", dependent="0000:ae:00.0"))
        host.passthru["0000:af:00.%d" % number] = Passthru()
    result = lab.twice("host_passthru", "esxi02", devices=[GPU])
    assert [step["thing"] for step in result["changes"]] == ["device 0000:af:00.0", "device 0000:af:00.1"]
    assert result["devices"][0]["moves_with"] == ["0000:af:00.1"] and host.passthru["0000:af:00.1"].active
    lab.world.vms["vm02"].host = "esxi02"
    lab.ok("vm_passthru", "esxi02", name="vm02", devices=["0000:af:00.1"])
    result = lab.failed("host_passthru", "esxi02", devices=[GPU], state="disabled")
    assert "moves with 0000:af:00.0" in result["msg"] and "attached to the VM vm02" in result["msg"] and host.passthru[GPU].enabled


def test_a_vm_that_starts_while_its_host_enters_maintenance_mode(lab):
    host, vm = lab.world.hosts["esxi01"], lab.world.vms["vm01"]
    meanwhile(lab, "EnterMaintenanceMode_Task", lambda: setattr(vm, "power", "on"))
    told(lab.failed("esxi_reboot", reasons=["a"], reboot_ok=True, maintenance_timeout=1), "esxi01", "VMs still on: vm01", "move or stop them")
    assert host.boots == 0 and not host.maintenance


def test_a_reboot_that_the_host_refuses(lab):
    host = lab.world.hosts["esxi01"]
    meanwhile(lab, "RebootHost_Task", lambda: setattr(host, "maintenance", False))
    told(lab.failed("esxi_reboot", reasons=["a"], reboot_ok=True), "esxi01", "not in maintenance mode", "maintenance mode")
    assert host.boots == 0


def test_labels_and_dynamic_devices_of_an_api_that_knows_them_not(tmp_path):
    made = Lab(tmp_path, 1, "7.0.1.0")
    try:
        made.ready()
        result = made.failed("host_passthru", devices=[{"pci": IB, "label": "ib"}])
        assert result["error"]["code"] == "VERSION" and "esxi01" in result["msg"] and "leave label out" in result["error"]["hint"]
    finally:
        made.face.stop()
