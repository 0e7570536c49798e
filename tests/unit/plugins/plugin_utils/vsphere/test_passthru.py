# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Devices of a host: what is read, what uses them, which are chosen, what a wanted state changes."""

from __future__ import annotations

from types import SimpleNamespace as S

import pytest
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import passthru

CX4, CX5, HBA = "0000:18:00.%d", "0000:3b:00.%d", "0000:01:00.0"


def pci(bdf, vendor=0x15b3, device=0x1017, classid=0x0200, name="MT27800 Family [ConnectX-5]"):
    return S(id=bdf, vendorId=vendor, deviceId=device, classId=classid, deviceName=name, vendorName="Mellanox Technologies")


def info(bdf, enabled=False, active=False, capable=True, label=None, dependent=None):
    return S(id=bdf, passthruEnabled=enabled, passthruActive=active, passthruCapable=capable, hardwareLabel=label, dependentDevice=dependent or bdf)


def vmk(device, portgroup="", switch=""):
    return S(device=device, portgroup=portgroup, spec=S(distributedVirtualPort=S(switchUuid=switch) if switch else None))


def network(dvs_vmk=False):
    bdfs = [CX4 % 0, CX4 % 1, CX5 % 0, CX5 % 1]
    return S(
        pnic=[S(key="key-vim.host.PhysicalNic-vmnic%d" % n, device="vmnic%d" % n, pci=bdf.upper()) for n, bdf in enumerate(bdfs)],
        vswitch=[S(name="vSwitch0", pnic=["key-vim.host.PhysicalNic-vmnic0", "key-vim.host.PhysicalNic-vmnic1"])],
        portgroup=[S(spec=S(name="Management Network", vswitchName="vSwitch0"))],
        proxySwitch=[S(dvsName="hpc-dvs", dvsUuid="50 0e", pnic=["key-vim.host.PhysicalNic-vmnic2", "key-vim.host.PhysicalNic-vmnic3"])],
        vnic=[vmk("vmk0", "Management Network")] + ([vmk("vmk2", switch="50 0e")] if dvs_vmk else []))


def row(**changes):
    passthruinfo = [info(CX4 % 0), info(CX4 % 1), info(CX5 % 0), info(CX5 % 1), info(HBA)]
    services = S(netConfig=[S(nicType="management", selectedVnic=["management.key-vim.host.VirtualNic-vmk0"],
                              candidateVnic=[S(key="management.key-vim.host.VirtualNic-vmk0", device="vmk0")])])
    out = {"hardware.pciDevice": [pci(CX4 % 0, device=0x1015, name="ConnectX-4 Lx"), pci(CX4 % 1, device=0x1015, name="ConnectX-4 Lx"),
                                  pci(CX5 % 1), pci(CX5 % 0), pci(HBA, -32634, -32715, 0x0106, "SATA"), pci("0000:00:1f.0", -32634, 0x1234, 0x0601, "bridge")],
           "config.pciPassthruInfo": passthruinfo, "config.network": network(), "config.virtualNicManagerInfo": services}
    out.update(changes)
    return out


def test_ids_are_unsigned_and_in_order():
    devices = passthru.devices_of(row())
    assert [d["pci"] for d in devices] == ["0000:00:1f.0", HBA, CX4 % 0, CX4 % 1, CX5 % 0, CX5 % 1]
    assert devices[1]["id"] == "8086:8035"
    assert devices[4]["id"] == "15b3:1017" and devices[4]["vmnic"] == "vmnic2"
    assert devices[0]["capable"] is False


def test_uses_name_switch_and_vmkernel_port():
    devices = {d["pci"]: d for d in passthru.devices_of(row())}
    assert devices[CX4 % 1]["used_by"] == "virtual switch vSwitch0, VMkernel adapter vmk0 (management)"
    assert devices[CX5 % 0]["used_by"] == "distributed switch hpc-dvs"
    devices = {d["pci"]: d for d in passthru.devices_of(row(**{"config.network": network(dvs_vmk=True)}))}
    assert "VMkernel adapter vmk2" in devices[CX5 % 0]["used_by"]
    assert {d["used_by"] for d in passthru.devices_of(row(**{"config.network": None}))} == {""}


@pytest.mark.parametrize("selector", [{"pci": "3B:00.0"}, {"pci": "0000:3B:00.0"}, {"pci": "00000:059:00.0"}])
def test_an_address_is_what_it_means(selector):
    assert [d["pci"] for d, s in passthru.select(passthru.devices_of(row()), [selector], "h")] == [CX5 % 0]


@pytest.mark.parametrize("selector", [{"card": "3b:00.1"}, {"card": "0000:3b:00"}, {"id": "15B3:1017"}, {"id": "0x15b3:0x1017"},
                                      {"query": "[?id=='15b3:1017']"}, {"query": "[?id=='15b3:1017'].pci"}])
def test_both_ports_of_the_card(selector):
    assert [d["pci"] for d, s in passthru.select(passthru.devices_of(row()), [selector], "h")] == [CX5 % 0, CX5 % 1]


@pytest.mark.parametrize("selector,code,words", [
    ({"name": "MT27800 Family [ConnectX-5]"}, "AMBIGUOUS", "0000:3b:00.0, 0000:3b:00.1"),
    ({"pci": "af:00.0"}, "NO_DEVICE", "0000:3b:00.0 (15b3:1017)"),
    ({"pci": "vmnic2"}, "SELECTOR", "no PCI address"),
    ({"id": "ConnectX-5"}, "SELECTOR", "15b3:1017"),
    ({"pci": "3b:00.0", "id": "15b3:1017"}, "SELECTOR", "exactly one"),
    ({}, "SELECTOR", "exactly one"),
    ({"query": "[?id=="}, "SELECTOR", "[?id=="),
    ({"query": "[?id=='dead:beef']"}, "NO_DEVICE", "esxi07"),
])
def test_a_selector_that_does_not_choose_is_told(selector, code, words):
    with pytest.raises(RdmaError) as err:
        passthru.select(passthru.devices_of(row()), [selector], "esxi07")
    assert err.value.code == code and words in str(err.value)


def free(**changes):
    return row(**dict({"config.network": S(pnic=[], vswitch=[], proxySwitch=[], portgroup=[], vnic=[])}, **changes))


def plan_of(found, selector, *args, **kwargs):
    return passthru.plan(passthru.select(passthru.devices_of(found), [selector], "h"), *args, **kwargs)


def test_enable_needs_a_reboot_only_where_the_host_cannot_rebind():
    changes, configs, refused = plan_of(free(), {"card": "3b:00.0"}, True, rebind=False)
    assert [(s["thing"], s["before"], s["after"], s["reboot"]) for s in changes.steps] == [
        ("device 0000:3b:00.0", "disabled", "enabled", "host"), ("device 0000:3b:00.1", "disabled", "enabled", "host")]
    assert [c["id"] for c in configs] == [CX5 % 0, CX5 % 1] and not refused
    assert changes.result()["reboot_required"]
    changes, dummy, dummy = plan_of(free(), {"card": "3b:00.0"}, True, rebind=True)
    assert not changes.result()["reboot_required"] and changes.changed
    changes, dummy, dummy = plan_of(free(), {"card": "3b:00.0"}, True, rebind=True, apply_now=False)
    assert changes.result()["reboot_required"]


def test_enabled_but_not_active_is_a_reason_and_no_change():
    found = free(**{"config.pciPassthruInfo": [info(CX5 % 0, True, False), info(CX5 % 1, True, True)]})
    changes, configs, refused = plan_of(found, {"card": "3b:00.0"}, True, rebind=False)
    assert not changes.changed and not configs and not refused
    assert changes.reboot_reasons() == ["device 0000:3b:00.0: passthrough is enabled but not active, and a reboot makes it so"]
    found = free(**{"config.pciPassthruInfo": [info(CX5 % 0, True, True), info(CX5 % 1, True, True)]})
    changes, configs, refused = plan_of(found, {"card": "3b:00.0"}, True, rebind=False)
    assert not changes.changed and not changes.reboot_reasons()


def test_the_management_card_is_refused_in_check_mode_too():
    for checking in (False, True):
        changes, configs, refused = plan_of(row(), {"card": "18:00.0"}, True, rebind=True, checking=checking)
        assert len(refused) == 2 and "vmk0 (management)" in refused[0] and "vmnic0" in refused[0]
        assert not configs and not changes.changed


def test_a_storage_controller_is_refused():
    dummy, configs, refused = plan_of(free(), {"pci": HBA}, True, rebind=True)
    assert "storage controller" in refused[0] and not configs


def test_an_uplink_of_a_distributed_switch_is_refused_but_only_doubted_in_check_mode():
    changes, configs, refused = plan_of(row(), {"card": "3b:00.0"}, True, rebind=True)
    assert "distributed switch hpc-dvs" in refused[0] and not configs
    changes, configs, refused = plan_of(row(), {"card": "3b:00.0"}, True, rebind=False, checking=True)
    assert not refused and {s["certainty"] for s in changes.steps} == {"conditional"} and "hpc-dvs" in changes.steps[0]["reason"]
    changes, configs, refused = plan_of(row(), {"card": "3b:00.0"}, True, rebind=False, checking=True, released=[CX5 % 0, CX5 % 1])
    assert not refused and {s["certainty"] for s in changes.steps} == {"sure"}


def test_a_device_that_cannot_is_refused():
    found = free(**{"config.pciPassthruInfo": [info(CX5 % 0, capable=False), info(CX5 % 1)]})
    dummy, dummy, refused = plan_of(found, {"pci": CX5 % 0}, True, rebind=False)
    assert "VT-d" in refused[0]
    changes, dummy, refused = plan_of(found, {"pci": CX5 % 0}, True, rebind=False, checking=True)
    assert not refused and changes.steps[0]["certainty"] == "conditional"


def test_a_label_alone_keeps_what_is_enabled():
    found = free(**{"config.pciPassthruInfo": [info(CX5 % 0, True, True)]})
    devices = passthru.devices_of(found)
    changes, configs, dummy = plan_of(found, {"pci": CX5 % 0, "label": "rdma-ib"}, True, rebind=False)
    assert [s["name"] for s in changes.steps] == ["label"] and not changes.result()["reboot_required"]
    assert passthru.config_rows(configs, devices, None) == [{"id": CX5 % 0, "passthruEnabled": True, "hardwareLabel": "rdma-ib"}]
    assert passthru.unlike(devices, configs) == ["0000:3b:00.0 still has the label ''"]


def test_the_dependent_device_is_the_one_that_is_switched():
    found = free(**{"config.pciPassthruInfo": [info(CX5 % 0, dependent="0000:3a:00.0"), info(CX5 % 1, dependent="0000:3a:00.0")]})
    dummy, configs, dummy = plan_of(found, {"card": "3b:00.0"}, True, rebind=False)
    assert passthru.config_rows(configs, passthru.devices_of(found), True) == [{"id": "0000:3a:00.0", "passthruEnabled": True, "applyNow": True}]


def test_a_device_that_moves_along_is_shown_planned_and_refused_where_it_is_in_use():
    """Both functions depend on a bridge, and one is asked for."""
    bound = {"config.pciPassthruInfo": [info(CX5 % 0, dependent="0000:3a:00.0"), info(CX5 % 1, dependent="0000:3a:00.0")]}
    devices = passthru.devices_of(free(**bound))
    assert {d["pci"]: d["moves_with"] for d in devices if d["id"] == "15b3:1017"} == {CX5 % 0: [CX5 % 1], CX5 % 1: [CX5 % 0]}
    assert not any(d["moves_with"] for d in passthru.devices_of(free()))
    changes, configs, refused = plan_of(free(**bound), {"pci": CX5 % 0, "label": "gpu"}, True, rebind=False, on_host=devices)
    assert [(s["thing"], s["name"], s["certainty"]) for s in changes.steps] == [
        ("device 0000:3b:00.0", "passthrough", "sure"), ("device 0000:3b:00.0", "label", "sure"), ("device 0000:3b:00.1", "passthrough", "sure")]
    assert "0000:3b:00.1 moves with 0000:3b:00.0: both depend on 0000:3a:00.0" in changes.steps[2]["reason"] and not refused
    assert passthru.config_rows(configs, devices, None) == [{"id": "0000:3a:00.0", "passthruEnabled": True},
                                                            {"id": CX5 % 0, "passthruEnabled": True, "hardwareLabel": "gpu"}]
    devices = passthru.devices_of(row(**bound))
    dummy, configs, refused = plan_of(row(**bound), {"pci": CX5 % 0}, True, rebind=False, on_host=devices, released=[CX5 % 0])
    assert len(refused) == 1 and refused[0].startswith("0000:3b:00.1 moves with 0000:3b:00.0") and "distributed switch hpc-dvs" in refused[0]
    off = free(**{"config.pciPassthruInfo": [info(CX5 % n, True, True, dependent="0000:3a:00.0") for n in (0, 1)]})
    dummy, dummy, refused = plan_of(off, {"pci": CX5 % 0}, False, rebind=False, on_host=passthru.devices_of(off), attached={CX5 % 1: "vm07"})
    assert len(refused) == 1 and "attached to the VM vm07" in refused[0]
    half = free(**{"config.pciPassthruInfo": [info(CX5 % 0, True, True, dependent="0000:3a:00.0"), info(CX5 % 1, dependent="0000:3a:00.0")]})
    changes, dummy, dummy = plan_of(half, {"pci": CX5 % 0}, True, rebind=False, on_host=passthru.devices_of(half))
    assert not changes.changed, "nothing is switched, so nothing moves along"


def test_disable():
    found = free(**{"config.pciPassthruInfo": [info(CX5 % 0, True, True), info(CX5 % 1, False, True)]})
    changes, configs, dummy = plan_of(found, {"card": "3b:00.0"}, False, rebind=False)
    assert [(s["thing"], s["after"], s["reboot"]) for s in changes.steps] == [("device 0000:3b:00.0", "disabled", "host")]
    assert any("still active" in reason for reason in changes.reboot_reasons())


def test_plain_text_is_an_address_or_ids():
    assert passthru.selectors_of(["3b:00.0", "15b3:1017", {"card": "3b:00.0"}], "h") == [{"pci": "3b:00.0"}, {"id": "15b3:1017"}, {"card": "3b:00.0"}]
    for wrong in (3, {"bdf": "3b:00.0"}, {"pci": "3b:00.0", "label": "x"}):
        with pytest.raises(RdmaError):
            passthru.selectors_of([wrong], "h")
    assert passthru.selectors_of([{"pci": "3b:00.0", "label": "x"}], "h", ("label",))


def test_a_sibling_that_is_switched_along_is_refused_where_it_carries_management():
    """The second function depends on the first one, which has the management port."""
    bound = {"config.pciPassthruInfo": [info(CX4 % 0), info(CX4 % 1, dependent=CX4 % 0), info(CX5 % 0), info(CX5 % 1)]}
    devices = passthru.devices_of(row(**bound))
    assert next(d["moves_with"] for d in devices if d["pci"] == CX4 % 1) == [CX4 % 0]
    alone = row(**bound)
    alone["config.network"].vswitch[0].pnic.pop()  # so that only the sibling is in use
    dummy, dummy, refused = plan_of(alone, {"pci": CX4 % 1}, True, rebind=False, on_host=passthru.devices_of(alone))
    assert any(CX4 % 0 in text and "vmk0" in text for text in map(str, refused)), refused
