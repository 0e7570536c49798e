# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passthrough devices of a VM: one reconfiguration, and every reason against it at once."""

from __future__ import annotations

import pytest
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import vm_devices

IB, ROCE = "0000:3b:00.0", "0000:3b:00.1"


def device(bdf, active=True, enabled=True, uses=(), label=""):
    return {"pci": bdf, "id": "15b3:1017", "class": "0207", "name": "ConnectX-5", "vmnic": "", "active": active, "enabled": enabled, "capable": True,
            "label": label, "uses": list(uses)}


def target(bdf, **changes):
    return dict(dict(id=bdf, device_id=0x1017, vendor_id=0x15b3, system_id="sys-1", name="ConnectX-5"), **changes)


TARGETS = {IB: target(IB), ROCE: target(ROCE)}


def on_vm(bdf, key=13000, device_id="1017", **changes):
    return dict(dict(key=key, dynamic=False, bdf=bdf, device_id=device_id, vendor_id=0x15b3, system_id="sys-1", label=""), **changes)


def vm(**changes):
    return dict(dict(power="poweredOff", devices=[], memory_mb=147456, locked=True, reservation=147456, limit=-1, snapshots=[], hw_version=19,
                     firmware="efi", extra={}), **changes)


def plan(machine, wanted=None, state="present", targets=None, others=None, **more):
    wanted = [device(IB), device(ROCE)] if wanted is None else wanted
    return vm_devices.plan("vm01", machine, wanted, state, TARGETS if targets is None else targets, others or {}, "esxi01", **more)


def test_attach_both():
    got = plan(vm())
    assert [d["pci"] for d in got["add"]] == [IB, ROCE] and not got["problems"] and not got["reserve"] and not got["power_off"]
    assert [(s["thing"], s["name"], s["certainty"]) for s in got["changes"].steps] == [("vm vm01", IB, "sure"), ("vm vm01", ROCE, "sure")]


def test_second_time_nothing_even_when_the_vm_runs():
    got = plan(vm(power="poweredOn", devices=[on_vm(IB), on_vm(ROCE, 13001)]))
    assert not got["changes"].changed and not got["power_off"] and not got["problems"]


@pytest.mark.parametrize("was,why", [(on_vm(IB, device_id="4119"), "device id 4119"), (on_vm(IB, system_id="sys-2"), "another host"),
                                     (on_vm(IB, vendor_id=0x8086), "8086")])
def test_a_backing_that_does_not_fit_is_replaced(was, why):
    got = plan(vm(devices=[was, on_vm(ROCE, 13001)]))
    assert [d["pci"] for d in got["add"]] == [IB] and got["remove"] == [13000] and why in got["changes"].steps[0]["before"]


def test_all_problems_at_once():
    got = plan(vm(snapshots=["before"], locked=False, reservation=0), [device(IB, active=False), device(ROCE)], others={ROCE: "vm09"}, reserve_memory=False,
               mmio_gb=48)
    text = "; ".join(got["problems"])
    for words in ("not active on esxi01 (enabled, it waits for a reboot)", "vm09", "snapshots (before)", "0 of 147456 MB", "no power of two"):
        assert words in text


def test_what_an_earlier_step_does_is_no_problem_for_a_look():
    got = plan(vm(locked=False, reservation=0), [device(IB, False, False), device(ROCE, False, False)], targets={}, reserve_memory=False, checking=True)
    assert not got["problems"]
    assert {s["certainty"] for s in got["changes"].steps} == {"conditional"}
    assert "not active on esxi01" in got["changes"].steps[0]["reason"] and "reserved" in got["changes"].steps[0]["reason"]


def test_memory_is_reserved_in_the_same_spec():
    got = plan(vm(locked=False, reservation=0))
    assert got["reserve"] and got["changes"].steps[-1]["name"] == "memory reservation"
    assert plan(vm(limit=65536))["reserve"]
    assert not plan(vm(power="poweredOn", devices=[on_vm(IB), on_vm(ROCE, 13001)]))["reserve"]


def test_the_management_card_is_refused():
    card = device("0000:18:00.0", uses=[dict(kind="vmk", switch="vSwitch0", text="VMkernel adapter vmk0 (management)")])
    for checking in (False, True):
        assert "vmk0 (management)" in plan(vm(), [card], checking=checking)["problems"][0]


def test_exact_and_absent():
    both = vm(devices=[on_vm(IB), on_vm("0000:af:00.0", 13005)])
    got = plan(both, [device(IB)], "exact")
    assert got["remove"] == [13005] and not got["add"]
    got = plan(both, [], "exact")
    assert sorted(got["remove"]) == [13000, 13005] and not got["reserve"]
    got = plan(both, [device(IB)], "absent")
    assert got["remove"] == [13000] and not got["reserve"] and not got["problems"]
    assert not plan(vm(), [device(IB)], "absent")["changes"].changed


def test_dynamic_needs_labels_and_hardware_17():
    got = plan(vm(hw_version=15), [device(IB)], dynamic=True, on_host=[device(IB), device(ROCE)])
    assert "no hardware label" in got["problems"][0] and "hardware version 17" in got["problems"][1]
    got = plan(vm(), [device(IB, label="rdma-ib")], dynamic=True, targets={})
    assert not got["problems"] and got["add"]
    have = dict(key=13000, dynamic=True, bdf="", label="rdma-ib", allowed=["15b3:1017"])
    assert not plan(vm(devices=[have]), [device(IB, label="rdma-ib")], dynamic=True)["changes"].changed


def test_a_dynamic_device_that_is_the_only_one_of_its_kind_needs_no_label():
    one = gpu("10de:20f1")
    got = plan(vm(), [one], dynamic=True, targets={}, on_host=[device(IB), device(ROCE), one])
    assert not got["problems"] and [s["name"] for s in got["changes"].steps][0] == "10de:20f1, any"
    have = dict(key=13000, dynamic=True, bdf="", label="", allowed=["10de:20f1"])
    assert not plan(vm(devices=[have], extra=MMIO), [one], dynamic=True)["changes"].changed
    assert plan(vm(devices=[dict(have, allowed=["10de:1db1"])]), [one], dynamic=True)["add"] == [one]


def test_a_label_that_moved_to_another_kind_is_attached_anew():
    have = dict(key=13000, dynamic=True, bdf="", label="rdma-ib", allowed=["15b3:1019"])
    got = plan(vm(devices=[have]), [device(IB, label="rdma-ib")], dynamic=True)
    assert got["remove"] == [13000] and got["changes"].steps[0]["before"] == "attached for 15b3:1019"


def gpu(ids, bdf="0000:af:00.0", **more):
    return dict(device(bdf), id=ids, name="GPU", **{"class": "0302"}, **more)


MMIO = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "128"}


@pytest.mark.parametrize("devices,size,unknown", [
    ([device(IB), device(ROCE)], 0, 0), ([gpu("10de:1db1")], 64, 0), ([gpu("10de:20f1")], 256, 0), ([gpu("10de:ffff")], 0, 1),
    ([gpu("10de:ffff", bar_size_gb=16)], 0, 0), ([gpu("10de:ffff", bar_size_gb=17)], 64, 0), ([gpu("10de:20f1", bar_size_gb=1)], 0, 0),
    ([gpu("10de:1db1"), gpu("10de:1db1", "0000:b0:00.0"), device(IB)], 128, 0), ([gpu("10de:ffff", bar_size_gb=16), device(IB)], 64, 0)])
def test_mmio_from_published_bars_or_from_the_user(devices, size, unknown):
    got = vm_devices.mmio(devices)
    assert got[0] == size and len(got[1]) == unknown


def test_mmio_in_the_same_reconfiguration():
    one = gpu("10de:1db1")
    target_ = {"0000:af:00.0": target("0000:af:00.0", device_id=0x1db1, vendor_id=0x10de)}
    got = plan(vm(), [one], targets=target_)
    assert got["extra"] == {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "64"} and not got["problems"]
    assert plan(vm(extra=MMIO), [one], targets=target_)["extra"] == {}, "a larger space is enough"
    assert "EFI" in plan(vm(firmware="bios"), [one], targets=target_)["problems"][0]
    got = plan(vm(), [gpu("10de:ffff")], targets=target_)
    assert not got["extra"] and "nothing is guessed" in got["notes"][0] and "0000:af:00.0 (10de:ffff)" in got["notes"][0]
    assert plan(vm(), [gpu("10de:ffff")], targets=target_, mmio_gb=512)["extra"]["pciPassthru.64bitMMIOSizeGB"] == "512"


def test_a_gpu_that_stays_counts_and_is_left_alone():
    have = on_vm("0000:af:00.0", 13005, device_id="1db1", vendor_id=0x10de)
    everything = [device(IB), device(ROCE), gpu("10de:1db1")]
    got = plan(vm(devices=[have], extra=dict(MMIO)), on_host=everything)
    assert [d["pci"] for d in got["add"]] == [IB, ROCE] and not got["remove"] and not got["extra"]
    assert plan(vm(devices=[have]), on_host=everything)["extra"]["pciPassthru.64bitMMIOSizeGB"] == "64"


def test_what_the_user_loses_is_told_once_something_is_attached():
    assert "no snapshots" in plan(vm())["notes"][0] and "vSphere HA restarts it" in plan(vm(), [device(IB, label="a")], dynamic=True)["notes"][0]
    assert not plan(vm(devices=[on_vm(IB), on_vm(ROCE, 13001)]))["notes"]


def test_backing_is_hex_and_signed():
    assert vm_devices.backing_fields(target(IB)) == dict(deviceName="ConnectX-5", id=IB, deviceId="1017", systemId="sys-1", vendorId=0x15b3)
    fields = vm_devices.backing_fields(target(IB, vendor_id=0x8086, device_id=0x80a1))
    assert fields["deviceId"] == "80a1" and fields["vendorId"] == -32634


def test_missing_after():
    assert vm_devices.missing(vm(devices=[on_vm(IB)]), [device(IB), device(ROCE)], [], False) == ["%s is not attached" % ROCE]
    assert vm_devices.missing(vm(devices=[on_vm(IB)]), [], [13000], False) == ["the device with key 13000 is still attached"]


def test_mmio_needs_efi():
    got = plan(vm(firmware="bios"), mmio_gb=64)
    assert got["extra"] == {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "64"} and "EFI" in got["problems"][0]
