# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power policy, distributed switches, services, the reboot's rules, sessions' words."""

from __future__ import annotations

import datetime
import json

import pytest
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import dvs, lookup, power, reboot, services, session
from pyVmomi import vim, vmodl

POLICIES = [dict(key=1, short="static"), dict(key=2, short="dynamic"), dict(key=3, short="low"), dict(key=4, short="custom")]


def test_policy_by_short_name():
    changes, key = power.plan_policy("h", POLICIES, "dynamic", "high_performance")
    assert key == 1 and [(s["before"], s["after"], s["reboot"]) for s in changes.steps] == [("dynamic", "static", "")]
    assert not power.plan_policy("h", POLICIES, "static", "static")[0].changed
    with pytest.raises(RdmaError) as err:
        power.plan_policy("esxi05", [], "", "static")
    assert "esxi05" in str(err.value) and "BIOS" in str(err.value)


def device(bdf, vmnic, *uses):
    return dict(pci=bdf, vmnic=vmnic, uses=[dict(kind=kind, switch=switch, text=text) for kind, switch, text in uses])


USED = ("dvs", "hpc-dvs", "distributed switch hpc-dvs")


def test_uplinks_and_what_stays():
    devices = [device("0000:18:00.0", "vmnic0", USED), device("0000:3b:00.0", "vmnic2", USED), device("0000:3b:00.1", "vmnic3", USED)]
    switches = dvs.uplinks(devices, devices[1:])
    assert switches == [dict(switch="hpc-dvs", uplinks=[dict(pci="0000:3b:00.0", vmnic="vmnic2"), dict(pci="0000:3b:00.1", vmnic="vmnic3")], carries=[],
                             left=["vmnic0"])]
    changes, refused = dvs.plan(switches, True, False)
    assert not refused and [s["name"] for s in changes.steps] == ["uplink vmnic2 (0000:3b:00.0)", "uplink vmnic3 (0000:3b:00.1)"]
    assert dvs.plan(switches, False, True)[0].steps[0]["certainty"] == "conditional"
    text = dvs.text_of(dict(switches[0], portgroups=["hpc-roce"]))
    assert "vmnic2" in text and "hpc-roce" in text and "it keeps vmnic0" in text
    assert dvs.uplinks(devices, [device("0000:af:00.0", "vmnic9")]) == []


def test_an_uplink_that_carries_a_vmkernel_port_stays():
    devices = [device("0000:3b:00.0", "vmnic2", USED, ("vmk", "hpc-dvs", "VMkernel adapter vmk2 (vsan)"))]
    changes, refused = dvs.plan(dvs.uplinks(devices, devices), True, True)
    assert not changes.changed and "vmnic2 carries VMkernel adapter vmk2 (vsan)" in refused[0]


def test_remaining():
    rows = [dict(device="vmnic0", port="1", group="g"), dict(device="vmnic2", port="2", group="g")]
    assert dvs.remaining(rows, {"vmnic2", "vmnic3"}) == rows[:1]


def test_services_change_and_are_found():
    found = dict(key="TSM-SSH", running=False, policy="off")
    assert [(s["name"], s["before"], s["after"]) for s in services.plan("h", found, True, "on").steps] == [("policy", "off", "on"), ("running", False, True)]
    assert not services.plan("h", found, None, None).changed
    with pytest.raises(RdmaError) as err:
        services.find([found], "sshd", "esxi02")
    assert "TSM-SSH" in str(err.value) and "esxi02" in str(err.value)


def test_records(tmp_path):
    path = str(tmp_path / "deep" / "h.json")
    assert services.recorded(path, "h", "TSM-SSH") is None
    services.record(path, "h", "TSM-SSH", dict(running=True, policy="off"))
    services.record(path, "h", "maintenance", dict(since=1))
    assert services.recorded(path, "h", "TSM-SSH") == dict(running=True, policy="off")
    services.record(path, "h", "TSM-SSH", None)
    assert json.loads((tmp_path / "deep" / "h.json").read_text()) == {"h": {"maintenance": {"since": 1}}}
    services.record(path, "h", "maintenance", None)
    assert list((tmp_path / "deep").iterdir()) == []
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(RdmaError) as err:
        services.recorded(str(tmp_path / "broken.json"), "h", "TSM-SSH")
    assert "broken.json" in str(err.value)


def at(seconds):
    return datetime.datetime(2026, 11, 29, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=seconds)


def test_a_boot_is_told_from_a_clock_that_moves():
    assert not reboot.rebooted(at(0), at(0), True)
    assert not reboot.rebooted(at(0), at(20), False)
    assert reboot.rebooted(at(0), at(20), True)
    assert reboot.rebooted(at(0), at(500), False)
    assert not reboot.rebooted(at(0), None, True) and reboot.rebooted(None, at(0), True)


def test_what_is_told_when_the_time_is_over():
    assert "still up" in reboot.overdue(60, False, "connected", False)[0]
    why, hint = reboot.overdue(3600, True, "notResponding", False)
    assert "3600 s" in why and "notResponding" in why and "BMC" in hint
    assert "management network" in reboot.overdue(60, True, "disconnected", True)[1]


def test_agent_vms_are_known():
    for name in ("vCLS-4c4c4544-0001", "vCLS (12)", "vCLS"):
        assert lookup.is_vcls(name)
    for name in ("vm01", "vCLS-backup of mine", "my vCLS"):
        assert not lookup.is_vcls(name)
    assert reboot.blocking([dict(name="b", power="poweredOn"), dict(name="a", power="suspended"), dict(name="c", power="poweredOff")]) == ["a", "b"]


def test_choose():
    rows = [dict(name=name) for name in ("esxi01.example.org", "esxi010.example.org", "VM01", "vm01x")]
    assert lookup.choose(rows, "esxi01", "host", "h", "")["name"] == "esxi01.example.org"
    assert lookup.choose(rows, "vm01", "VM", "h", "")["name"] == "VM01"
    with pytest.raises(RdmaError) as err:
        lookup.choose(rows, "esxi01", "VM", "h", "look again")
    assert err.value.code == "NOT_FOUND" and "esxi010.example.org" in str(err.value) and "look again" in str(err.value)
    with pytest.raises(RdmaError) as err:
        lookup.choose(rows + [dict(name="VM01")], "VM01", "VM", "h", "")
    assert err.value.code == "AMBIGUOUS"


def test_words_and_cures_of_faults():
    fault = vim.fault.GenericVmConfigFault(msg="Module 'DevicePowerOn' power on failed.", faultMessage=[
        vmodl.LocalizableMessage(key="a", message="Device 59:0.0 is not a passthrough device.")])
    err = session.explain(fault, "power on the VM", "esxi01, VM vm01")
    assert "DevicePowerOn" in str(err) and "59:0.0 is not a passthrough device" in str(err) and "host_pci_info" in err.hint and "esxi01, VM vm01" in str(err)
    err = session.explain(vim.fault.NoPermission(privilegeId="Host.Config.PciPassthru"), "x", "h")
    assert "Host.Config.PciPassthru" in str(err) and err.code == "NO_PERMISSION"
    assert "sched" not in session.cure(vim.fault.TaskInProgress()) and "other task" in session.cure(vim.fault.TaskInProgress())
    assert session.fault_text(vim.fault.ConcurrentAccess()) == "ConcurrentAccess"
    assert session.explain(TimeoutError(), "x", "h").code == "TIMEOUT"


def test_versions():
    assert session.version_tuple("8.0.3.0") == (8, 0, 3, 0) and session.version_tuple("7.0.2") >= (7, 0, 2) > session.version_tuple("7.0.1")


def test_what_is_missing_for_a_login_is_named():
    with pytest.raises(RdmaError) as err:
        session.Session(dict(hostname="vc", username=None, password=None, port=443), "esxi01")
    assert "username, password not given" in str(err.value) and "VMWARE_USER" in str(err.value)
