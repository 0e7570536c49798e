# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of the action group vsphere against the lab's vCenter, over HTTPS."""

from __future__ import annotations

import json
import re
import socket
import threading
import time

import pytest
from pyVmomi import vim

from lab.vsphere.direct import HostFace
from lab.vsphere.rig import API, LABELS, Lab
from lab.world import OtherDevice, Passthru

IB, ROCE = "0000:3b:00.0", "0000:3b:00.1"
CX5 = [{"id": "15b3:1017"}]


needs_labels = pytest.mark.skipif(not LABELS, reason="hardware labels came with 7.0.2; test_labels_before_7_0_2 has the refusal")


@pytest.fixture()
def site(tmp_path):
    made = []

    def start(hosts: int = 2, api: str = API) -> Lab:
        made.append(Lab(tmp_path, hosts, api))
        return made[-1]

    yield start
    for one in made:
        one.face.stop()


def steps(result):
    return [(s["thing"], s["name"], s["certainty"]) for s in result["changes"]]


def twice(site, module, *args, **kwargs):
    return site.twice(module, *args, **kwargs)


# ---- sessions ---------------------------------------------------------------------------------------------------------

def test_login_and_certificates(site):
    site = site()
    assert "password is wrong" in site.failed("host_pci_info", password="no")["msg"]
    result = site.failed("host_pci_info", ca_file=None)
    assert result["error"]["code"] == "TLS" and "thumbprint" in result["msg"]
    assert site.ok("host_pci_info", ca_file=None, validate_certs=False)["devices"]
    assert "thumbprint" in site.failed("host_pci_info", ca_file=None, thumbprint=":".join(["ab"] * 32))["msg"]
    with open(site.login["ca_file"], encoding="ascii") as source:
        import hashlib
        import ssl
        print_ = hashlib.sha256(ssl.PEM_cert_to_DER_cert(source.read())).hexdigest()
    assert site.ok("host_pci_info", ca_file=None, thumbprint=print_)["devices"]
    assert site.failed("host_pci_info", port=1)["error"]["code"] == "CONNECTION"
    result = site.failed("host_pci_info", hostname=None)
    assert result["error"]["code"] == "NO_VCENTER" and "VMWARE_HOST" in result["msg"]
    assert not site.face.sessions or all(not s.user for s in site.face.sessions.values() if hasattr(s, "user"))


def test_credentials_from_the_environment_and_one_login_for_a_task(site, monkeypatch):
    site = site()
    for option, name in (("hostname", "VMWARE_HOST"), ("port", "VMWARE_PORT"), ("username", "VMWARE_USER"), ("password", "VMWARE_PASSWORD")):
        monkeypatch.setenv(name, str(site.login.pop(option)))
    monkeypatch.setenv("VMWARE_VALIDATE_CERTS", "false")
    site.login.pop("ca_file")
    assert site.ok("host_power_policy")["changed"]
    lines = asked(site)
    assert lines.count("Login") == lines.count("Logout") == 1 and not site.face.sessions


def test_unknown_host_names_those_there(site):
    site = site()
    result = site.failed("host_pci_info", "esxi77")
    assert "esxi01, esxi02" in result["msg"] and "esxi_hostname" in result["msg"]
    assert site.ok("host_pci_info", "esxi77", esxi_hostname="ESXI02")["devices"]


def test_an_expired_session_is_renewed(site):
    site = site()
    site.world.set_fault("session_expired", "esxi01", times=1)
    assert site.ok("host_power_policy")["changed"]


# ---- host -------------------------------------------------------------------------------------------------------------

def test_pci_info(site):
    site = site()
    result = site.ok("host_pci_info", devices=["15b3:1017"])
    assert [d["pci"] for d in result["devices"]] == [IB, ROCE] and not result["changed"]
    assert "hpc-dvs" in result["devices"][0]["used_by"]
    cards = site.ok("host_pci_info", devices=[{"id": "15b3:1015"}])["devices"]
    assert "vmk0 (management)" in cards[0]["used_by"]


def test_power_policy(site):
    site = site()
    assert twice(site, "host_power_policy", policy="high_performance")["policy"] == "static"
    assert site.world.hosts["esxi01"].power_policy == 1


def test_passthru_needs_the_switch_cleaned_first(site):
    site = site()
    result = site.failed("host_passthru", devices=CX5)
    assert result["error"]["code"] == "DEVICE_IN_USE" and "hpc-dvs" in result["msg"]
    looked = site.ok("host_passthru", devices=CX5, check=True)
    assert {s["certainty"] for s in looked["changes"]} == {"conditional"}
    removed = site.ok("dvs_uplinks", devices=CX5, consent=True, check=True)["removed"]
    looked = site.ok("host_passthru", devices=CX5, released=removed, check=True)
    assert {s["certainty"] for s in looked["changes"]} == {"sure"}
    site.ok("dvs_uplinks", devices=CX5, consent=True)
    assert site.ok("host_passthru", devices=CX5, released=removed)["changes"] == looked["changes"]


def test_passthru_with_and_without_rebind(site):
    site = site()
    for name, reboot in (("esxi01", True), ("esxi02", False)):
        site.world.hosts[name].dvs = {}
        assert site.world.hosts[name].rebind is not reboot
        result = twice(site, "host_passthru", name, devices=CX5)
        assert result["reboot_required"] is reboot
        assert [(d["enabled"], d["active"]) for d in result["devices"]] == [(True, not reboot)] * 2
        again = site.ok("host_passthru", name, devices=CX5)
        assert again["reboot_required"] is reboot and len(again["reboot_reasons"]) == (2 if reboot else 0)
    assert site.ok("host_passthru", "esxi02", devices=CX5, state="disabled")["changed"]
    assert not site.world.hosts["esxi02"].passthru[IB].enabled


@pytest.mark.parametrize("module,more", [("host_passthru", {}), ("vm_passthru", {"name": "vm01"})])
def test_the_management_card_is_refused(site, module, more):
    site = site()
    site.world.hosts["esxi01"].passthru["0000:18:00.0"].active = module == "vm_passthru"
    for check in (False, True):
        result = site.failed(module, devices=[{"card": "18:00.0"}], check=check, **more)
        assert "VMkernel adapter vmk0 (management)" in result["msg"]
    assert not site.world.hosts["esxi01"].passthru["0000:18:00.0"].enabled and not site.world.vms["vm01"].devices


@needs_labels
def test_labels(site):
    site = site()
    site.ready()
    wanted = [{"pci": "3B:00.0", "label": "rdma-ib"}, {"pci": "3B:00.1", "label": "rdma-roce"}]
    result = twice(site, "host_passthru", devices=wanted)
    assert [d["label"] for d in result["devices"]] == ["rdma-ib", "rdma-roce"] and all(d["active"] for d in result["devices"])
    assert "label" in site.failed("host_passthru", devices=[{"id": "15b3:1017", "label": "x"}])["msg"]
    result = twice(site, "vm_passthru", name="vm01", devices=[{"label": "rdma-roce"}, {"label": "rdma-ib"}])
    assert [d["pci"] for d in result["devices"]] == [IB, ROCE]


@pytest.mark.parametrize("api", ["7.0.0.0", "7.0.1.0"])
def test_labels_before_7_0_2(site, api):
    site = site(api=api)
    site.ready()
    for check in (False, True):
        result = site.failed("host_passthru", devices=[{"pci": IB, "label": "rdma-ib"}], check=check)
        assert result["error"]["code"] == "VERSION" and "7.0.2" in result["msg"] and api[:5] in result["msg"]
    assert "no hardware label" in site.failed("vm_passthru", name="vm01", devices=CX5, mode="dynamic")["msg"]


def test_labels_of_an_older_host(site):
    site = site()
    host = site.ready()
    host.version = "7.0.1"
    assert "the host runs 7.0.1" in site.failed("host_passthru", devices=[{"pci": IB, "label": "rdma-ib"}])["msg"]


def test_service(site, tmp_path):
    site = site()
    path, host = tmp_path / "state" / "esxi01.json", site.world.hosts["esxi01"]
    host.services["TSM-SSH"].running = False
    assert twice(site, "esxi_service", running=True, policy="on", state_file=str(path))["service"] == dict(key="TSM-SSH", running=True, policy="on")
    assert host.services["TSM-SSH"].running and json.loads(path.read_text()) == {"esxi01": {"TSM-SSH": {"running": False, "policy": "off"}}}
    result = site.ok("esxi_service", restore=True, state_file=str(path))
    assert result["changed"] and not host.services["TSM-SSH"].running and host.services["TSM-SSH"].policy == "off" and not path.exists()
    assert not site.ok("esxi_service", restore=True, state_file=str(path))["changed"]
    assert "TSM-SSH" in site.failed("esxi_service", service="sshd", running=True)["msg"]


def test_dvs_needs_consent_and_names_what_goes(site):
    site = site()
    result = site.failed("dvs_uplinks", devices=CX5)
    assert result["error"]["code"] == "NO_CONSENT"
    for word in ("hpc-dvs", "hpc-ib-sriov", "vmnic2", IB):
        assert word in result["msg"], result["msg"]
    assert site.world.hosts["esxi01"].dvs
    assert twice(site, "dvs_uplinks", devices=CX5, consent=True)["removed"] == [IB, ROCE]
    assert not any(site.world.hosts["esxi01"].dvs.values()) and site.world.hosts["esxi02"].dvs


def test_dvs_of_many_hosts_at_once(site):
    site = site(8)
    site.face.task_delay = 0.05
    results = {}
    names = [name for name, host in site.world.hosts.items() if host.dvs]

    def run(name):
        results[name] = site("dvs_uplinks", name, devices=CX5, consent=True)

    threads = [threading.Thread(target=run, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.get("msg") for r in results.values() if r.get("failed")] == [] and len(results) == len(names) == 7
    assert not any(any(host.dvs.values()) for host in site.world.hosts.values())


def test_dvs_keeps_an_uplink_with_a_vmkernel_port(site):
    site = site()
    host = site.world.hosts["esxi01"]
    host.vmk_uplinks["vmk2"] = [IB, ROCE]
    host.vmk_services["vmk2"] = ["vsan"]
    result = site.failed("dvs_uplinks", devices=CX5, consent=True)
    assert "vmk2" in result["msg"] and host.dvs


# ---- reboot -----------------------------------------------------------------------------------------------------------

def test_reboot_only_with_reason_and_consent(site):
    site = site()
    assert site.ok("esxi_reboot", hostname="198.51.100.1")["rebooted"] is False  # no reason: nobody is asked
    result = site.failed("esxi_reboot", reasons=["a", "b", "a"])
    assert result["error"]["code"] == "REBOOT_NOT_ALLOWED" and result["reboot_reasons"] == ["a", "b"]
    looked = site.ok("esxi_reboot", reasons=["a"], check=True)
    assert steps(looked) == [("host esxi01", "reboot", "sure")] and not looked["rebooted"] and "needs reboot_ok" in looked["changes"][0]["reason"]
    site.world.vms["vm01"].power = "on"
    assert "vm_shutdown_ok: true for vm01" in site.ok("esxi_reboot", reasons=["a"], reboot_ok=True, check=True)["changes"][0]["reason"]
    looked = site.ok("esxi_reboot", conditional_reasons=["a"], check=True)
    assert steps(looked) == [("host esxi01", "reboot", "conditional")]
    assert not site.ok("esxi_reboot", conditional_reasons=["a"])["changed"]
    assert site.world.hosts["esxi01"].boots == 0


def test_reboot(site):
    site = site()
    host = site.world.hosts["esxi02"]
    host.boot_seconds = 1.0
    host.dvs = {}
    host.rebind = False
    reasons = site.ok("host_passthru", "esxi02", devices=CX5)["reboot_reasons"]
    result = site.ok("esxi_reboot", "esxi02", reasons=reasons, reboot_ok=True)
    assert result["rebooted"] and result["changed"] and result["boot_time"]["after"] > result["boot_time"]["before"]
    assert host.boots == 1 and not host.maintenance and host.passthru[IB].active
    assert host.services["TSM-SSH"].running and host.services["TSM-SSH"].policy == "off"
    assert not site.ok("host_passthru", "esxi02", devices=CX5)["reboot_reasons"]


def test_reboot_refuses_while_vms_run(site):
    site = site()
    host, vm = site.world.hosts["esxi02"], site.world.vms["vm02"]
    host.boot_seconds = 0.5
    vm.power = "on"
    result = site.failed("esxi_reboot", "esxi02", reasons=["a"], reboot_ok=True)
    assert result["error"]["code"] == "VMS_RUNNING" and "vm02" in result["msg"] and host.boots == 0
    result = site.ok("esxi_reboot", "esxi02", reasons=["a"], reboot_ok=True, vm_shutdown_ok=True)
    assert result["vms_shut_down"] == ["vm02"] and vm.power == "on" and host.boots == 1


def test_reboot_does_not_count_agent_vms(site):
    site = site()
    site.world.hosts["esxi01"].boot_seconds = 0.5
    assert site.ok("esxi_reboot", "esxi01", reasons=["a"], reboot_ok=True)["rebooted"]


def test_a_host_that_stays_down(site, tmp_path):
    site = site()
    host = site.world.hosts["esxi02"]
    state = str(tmp_path / "maintenance.json")
    site.world.set_fault("stays_down", "esxi02")
    result = site.failed("esxi_reboot", "esxi02", reasons=["a"], reboot_ok=True, reboot_timeout=2, state_file=state)
    assert result["error"]["code"] == "REBOOT_TIMEOUT"
    for word in ("esxi02", "went down", "notResponding", "BMC"):
        assert word in result["msg"], result["msg"]
    result = site.failed("esxi_reboot", "esxi02", reasons=["a"], reboot_ok=True, state_file=state)
    assert result["error"]["code"] == "HOST_DOWN"
    site.world.clear_fault("stays_down", "esxi02")
    site.world.boot_host("esxi02")
    assert host.maintenance
    result = site.ok("esxi_reboot", "esxi02", state_file=state)
    assert result["changed"] and not result["rebooted"] and not host.maintenance
    assert not site.ok("esxi_reboot", "esxi02", state_file=state)["changed"]


def test_leaving_maintenance_mode_whoever_entered_it(site):
    site = site()
    host = site.world.hosts["esxi02"]
    host.boot_seconds = 0.5
    host.maintenance = True
    assert steps(site.ok("esxi_reboot", "esxi02", leave_maintenance=True, check=True)) == [("host esxi02", "maintenance mode", "sure")]
    assert host.maintenance
    assert site.ok("esxi_reboot", "esxi02", leave_maintenance=True)["changed"] and not host.maintenance
    for check in (False, True):
        assert not site.ok("esxi_reboot", "esxi02", leave_maintenance=True, check=check)["changed"]
    host.maintenance = True
    assert site.ok("esxi_reboot", "esxi02", reasons=["a"], reboot_ok=True)["rebooted"] and host.maintenance
    assert site.ok("esxi_reboot", "esxi02", reasons=["a"], reboot_ok=True, leave_maintenance=True)["rebooted"] and not host.maintenance


def test_a_reboot_that_vcenter_refuses_leaves_the_host_as_it_was(site, tmp_path):
    site = site()
    host, vm = site.world.hosts["esxi02"], site.world.vms["vm02"]
    vm.power = "on"
    state = tmp_path / "maintenance.json"
    site.world.set_fault("task_fault", "esxi02", times=1)  # entering maintenance mode
    result = site.failed("esxi_reboot", "esxi02", reasons=["a"], reboot_ok=True, vm_shutdown_ok=True, state_file=str(state))
    assert "esxi02" in result["msg"] and host.boots == 0
    assert not host.maintenance and vm.power == "on" and not state.exists()


# ---- VM ---------------------------------------------------------------------------------------------------------------

PAPER = dict(name="vm01", cpus=44, memory_mb=147456)


def test_tuning(site):
    site = site()
    vm = site.world.vms["vm01"]
    result = twice(site, "vm_tuning", extra_config={"numa.vcpu.preferHT": True}, **PAPER)
    assert (vm.cpus, vm.cores_per_socket, vm.memory_mb, vm.memory_reservation_mb, vm.memory_locked) == (44, 22, 147456, 147456, True)
    assert vm.cpu_reservation_mhz == 44 * 2993 == result["vm"]["cpu_reservation"] and vm.latency == "high" and not vm.cpu_hot_add
    assert vm.extra["numa.vcpu.preferHT"] == "TRUE"
    assert sum(line["what"] == "ReconfigVM_Task" for line in site.world.journal if line["host"] == "vm01") == 1, [
        line for line in site.world.journal if line["host"] == "vm01"]


def test_tuning_refuses_what_the_host_cannot_give(site):
    site = site()
    result = site.failed("vm_tuning", name="vm01", cpus=50, memory_mb=400000)
    assert "48 cores" in result["msg"] and "393216 MB" in result["msg"]
    assert site.world.vms["vm01"].cpus == 20
    result = site.failed("vm_tuning", name="vm01", reserve_memory=False)
    assert "latency sensitivity high needs" in result["msg"]


def test_tuning_counts_what_other_vms_hold_of_the_host(site):
    site = site()
    host, other, vm = site.world.hosts["esxi01"], site.world.vms["vm02"], site.world.vms["vm01"]
    other.host, other.cpu_reservation_mhz, other.memory_reservation_mb = "esxi01", 100000, 300000
    other.memory_mb = 300000
    assert site.ok("vm_tuning", check=True, **PAPER)["changed"], "a VM that is off holds nothing"
    other.power = "on"
    for check in (True, False):
        result = site.failed("vm_tuning", check=check, **PAPER)
        left = host.cores * host.mhz - 100000
        assert "131692 MHz to reserve do not fit the %d of %d MHz that are left on esxi01: vm02 holds 100000" % (left, host.cores * host.mhz) in result["msg"]
        assert "147456 MB to reserve do not fit the 93216 of 393216 MB that are left on esxi01: vm02 holds 300000" in result["msg"]
    assert vm.cpus == 20 and result["error"]["code"] == "PRECONDITION"
    assert site.ok("vm_tuning", name="vm01", cpus=14, memory_mb=65536)["changed"]
    assert site.ok("vm_power", name="vm01")["vm"]["power"] == "on", "what was counted is what the host has"
    other.power = "off"
    # In a list, what the task is about to give to a VM that is on counts, not what that VM has.
    many = [dict(name="vm01", cpus=44), dict(name="vm02", cpus=8, memory_mb=65536)]
    other.cpu_reservation_mhz = other.memory_reservation_mb = 0
    other.memory_mb, other.power = 65536, "on"
    result = site.failed("vm_tuning", vms=many, allow_power_cycle=True)
    assert list(result["vms"]) == ["vm01", "vm02"] and "vm02 holds %d" % (8 * host.mhz) in result["msg"] and "vm01 holds 131692" in result["msg"]
    many[0]["cpus"] = 32
    assert site.ok("vm_tuning", vms=many, allow_power_cycle=True)["changed"] and vm.power == other.power == "on"


def test_tuning_of_a_running_vm_needs_consent(site):
    site = site()
    vm = site.world.vms["vm01"]
    vm.power = "on"
    result = site.failed("vm_tuning", **PAPER)
    assert "allow_power_cycle" in result["msg"] and vm.cpus == 20
    assert {s["certainty"] for s in site.ok("vm_tuning", check=True, **PAPER)["changes"]} == {"conditional"}
    done = site.ok("vm_tuning", allow_power_cycle=True, **PAPER)
    assert done["changed"] and done["vm"]["power"] == "poweredOn"
    assert vm.cpus == 44 and vm.power == "on"
    assert not site.ok("vm_tuning", **PAPER)["changed"]


def test_attach_both_ports_and_power_on(site):
    site = site()
    site.ready()
    site.ok("vm_tuning", **PAPER)
    result = twice(site, "vm_passthru", name="vm01", devices=[{"card": "3b:00.0"}], reserve_memory=False)
    assert [d["pci"] for d in result["devices"]] == [IB, ROCE] and len({d["key"] for d in result["devices"]}) == 2
    assert sum(line["what"] == "ReconfigVM_Task" for line in site.world.journal if line["host"] == "vm01") == 2
    assert twice(site, "vm_power", name="vm01")["vm"]["power"] == "on"
    assert site.world.vms["vm01"].power == "on"
    assert not site.ok("vm_passthru", name="vm01", devices=[{"card": "3b:00.0"}])["changed"]
    assert not site.ok("vm_tuning", **PAPER)["changed"]
    result = site.failed("vm_passthru", name="vm01", devices=[], state="exact")
    assert "allow_power_cycle" in result["msg"]
    assert site.ok("vm_passthru", name="vm01", devices=[], state="exact", allow_power_cycle=True)["changed"]
    assert not site.world.vms["vm01"].devices and site.world.vms["vm01"].power == "on"


def test_all_preconditions_at_once(site):
    site = site()
    vm = site.world.vms["vm01"]
    vm.snapshots.append("before")
    vm.power = "on"
    site.world.hosts["esxi01"].dvs = {}
    result = site.failed("vm_passthru", name="vm01", devices=CX5, reserve_memory=False)
    assert result["error"]["code"] == "PRECONDITION"
    for word in ("not active on esxi01", "snapshots (before)", "not all of its memory", "allow_power_cycle"):
        assert word in result["msg"], result["msg"]
    assert not vm.devices


def test_a_look_at_a_site_where_nothing_was_done(site):
    site = site()
    removed = site.ok("dvs_uplinks", devices=CX5, consent=True, check=True)["removed"]
    looked = site.ok("vm_passthru", name="vm01", devices=CX5, reserve_memory=False, released=removed, check=True)
    assert {s["certainty"] for s in looked["changes"]} == {"conditional"} and "not active" in looked["changes"][0]["reason"]


def test_a_device_of_another_vm_is_refused(site):
    site = site()
    site.ready()
    site.ok("vm_passthru", name="vm01", devices=CX5)
    site.world.vms["vm02"].host = "esxi01"
    result = site.failed("vm_passthru", name="vm02", devices=CX5)
    assert "attached to the VM vm01" in result["msg"]


def test_a_vm_of_another_host_is_told(site):
    site = site()
    assert "is on esxi02, not on esxi01" in site.failed("vm_passthru", name="vm02", devices=CX5, esxi_hostname="esxi01")["msg"]
    result = site.failed("vm_power", name="vm77")
    assert "vm01, vm02" in result["msg"] and "vCLS" not in result["msg"]


def test_detach(site):
    site = site()
    site.ready()
    site.ok("vm_passthru", name="vm01", devices=CX5)
    result = site.failed("host_passthru", devices=CX5, state="disabled")
    assert "attached to the VM vm01" in result["msg"] and "disable passthrough" in result["msg"]
    assert {s["certainty"] for s in site.ok("host_passthru", devices=CX5, state="disabled", check=True)["changes"]} == {"conditional"}
    result = twice(site, "vm_passthru", name="vm01", devices=[{"pci": "3b:00.1"}], state="absent")
    assert [d["pci"] for d in result["devices"]] == [IB]


@needs_labels
def test_dynamic(site):
    site = site()
    site.ready()
    result = site.failed("vm_passthru", name="vm01", devices=CX5, mode="dynamic")
    assert "no hardware label" in result["msg"]
    site.ok("host_passthru", devices=[{"pci": IB, "label": "rdma-ib"}, {"pci": ROCE, "label": "rdma-roce"}])
    twice(site, "vm_passthru", name="vm01", devices=CX5, mode="dynamic")
    assert [(d.dynamic, d.label) for d in site.world.vms["vm01"].devices] == [(True, "rdma-ib"), (True, "rdma-roce")]


def test_power(site):
    site = site()
    vm = site.world.vms["vm01"]
    assert twice(site, "vm_power", name="vm01")["vm"]["power"] == "on"
    result = site.failed("vm_power", name="vm01", state="off")
    assert result["error"]["code"] == "NO_CONSENT" and vm.power == "on"
    assert site.ok("vm_power", name="vm01", state="restarted", power_off_ok=True)["changed"] and vm.power == "on"
    assert twice(site, "vm_power", name="vm01", state="off", power_off_ok=True) and vm.power == "off"
    assert not site.ok("vm_power", name="vm01", state="present")["changed"]


def test_power_on_says_why_not(site):
    site = site()
    site.ready()
    site.ok("vm_passthru", name="vm01", devices=CX5)
    site.world.hosts["esxi01"].passthru[IB].active = False
    result = site.failed("vm_power", name="vm01")
    assert "vm01" in result["msg"] and "esxi01" in result["msg"] and "host_pci_info" in result["msg"], result["msg"]


def test_task_fault(site):
    site = site()
    site.world.set_fault("task_fault", "vm01", times=1)
    result = site.failed("vm_tuning", **PAPER)
    assert "vm01" in result["msg"] and site.world.vms["vm01"].cpus == 20
    assert site.ok("vm_tuning", **PAPER)["changed"]


def test_guest_wait_without_ssh(site):
    site = site()
    result = site.ok("guest_wait", "vm01", name="vm01")  # a local connection always answers
    assert result["reachable"] and not result["changed"]


# ---- many VMs in one task ---------------------------------------------------------------------------------------------

SIXTEEN = [dict(name="vm%02d" % n) for n in range(1, 17)]
CHANGES = ("ReconfigVM_Task", "PowerOffVM_Task", "PowerOnVM_Task", "ShutdownGuest")


def asked(site, since: int = 0) -> list[str]:
    """What the lab's vCenter was asked since that line of its journal, without the tasks' own lines."""
    return [line["what"] for line in site.world.journal[since:] if line["face"] == "vsphere" and "this" in line]


def test_sixteen_vms_in_one_task(site):
    site = site(16)
    for name in site.world.hosts:
        site.ready(name)
    since = len(site.world.journal)
    looked = site.ok("vm_passthru", vms=SIXTEEN, devices=CX5, check=True)
    assert not set(CHANGES) & set(asked(site, since)) and not any(vm.devices for vm in site.world.vms.values())
    since = len(site.world.journal)
    done = site.ok("vm_passthru", vms=SIXTEEN, devices=CX5)
    lines = asked(site, since)
    assert done["changes"] == looked["changes"] and len({s["thing"] for s in done["changes"]}) == 16
    assert len(lines) <= 6 * 16 and lines.count("ReconfigVM_Task") == 16, lines
    assert all(len(site.world.vms[one["name"]].devices) == 2 for one in SIXTEEN)
    assert [row["name"] for row in done["vms"]] == [one["name"] for one in SIXTEEN] and all(row["changed"] for row in done["vms"])
    assert [(d["port"], d["pci"]) for d in done["vms"][2]["devices"]] == [(1, "0000:5e:00.0"), (2, "0000:5e:00.1")]
    since = len(site.world.journal)
    again = site.ok("vm_passthru", vms=SIXTEEN, devices=CX5)
    assert not again["changed"] and not set(CHANGES) & set(asked(site, since)) and "warnings" not in again
    assert len(asked(site, since)) <= 2 * 16


@needs_labels
def test_sixteen_vms_with_dynamic_devices_in_one_task(site):
    """Licences and clusters are read once for all."""
    site = site(16)
    for name in site.world.hosts:
        host = site.ready(name)
        for (bdf, dummy, port), label in zip([one for one in host.functions() if one[1].vpi], ("rdma-ib", "rdma-roce")):
            host.passthru[bdf].label = label
    since = len(site.world.journal)
    done = site.ok("vm_passthru", vms=SIXTEEN, mode="dynamic", devices=[{"label": "rdma-ib"}, {"label": "rdma-roce"}])
    lines = asked(site, since)
    assert len(lines) <= 6 * 16 and lines.count("ReconfigVM_Task") == 16 and lines.count("QueryAssignedLicenses") == 1, lines
    licence, = [text for text in done["warnings"] if "licence of" in text]
    assert "esxi01, esxi02" in licence and "esxi16 is Evaluation Mode" in licence
    since = len(site.world.journal)
    again = site.ok("vm_passthru", vms=SIXTEEN, mode="dynamic", devices=[{"label": "rdma-ib"}, {"label": "rdma-roce"}])
    assert not again["changed"] and not set(CHANGES) & set(asked(site, since)) and len(asked(site, since)) <= 2 * 16


def test_sixteen_vms_tuned_in_one_task(site):
    site = site(16)
    many = [dict(one, memory_mb=327680) if one["name"] == "vm05" else one for one in SIXTEEN]
    since = len(site.world.journal)
    done = site.ok("vm_tuning", vms=many, cpus=44, memory_mb=147456)
    assert asked(site, since).count("ReconfigVM_Task") == 16 and len(asked(site, since)) <= 6 * 16
    assert {vm.memory_mb for vm in site.world.vms.values() if not vm.vcls} == {147456, 327680} and site.world.vms["vm05"].memory_mb == 327680
    assert done["vms"][4]["memory_reservation"] == 327680
    since = len(site.world.journal)
    assert not site.ok("vm_tuning", vms=many, cpus=44, memory_mb=147456)["changed"] and not set(CHANGES) & set(asked(site, since))


def test_one_wait_for_all_tasks(site):
    """Tasks that take their time run side by side: the wait is that of the slowest, not of all in a row."""
    site = site(8)
    site.face.task_delay = 0.5
    many = SIXTEEN[:8]
    started = time.monotonic()
    site.ok("vm_tuning", vms=many, cpus=44, memory_mb=147456)
    assert time.monotonic() - started < 8 * 0.5
    assert not [line for line in site.world.journal if line["what"] in ("CreateFilter", "WaitForUpdates", "WaitForUpdatesEx")]


def test_many_vms_power_cycle_together(site):
    site = site(4)
    for name in ("esxi01", "esxi02", "esxi03"):
        site.ready(name)
    for name in ("vm01", "vm02", "vm03"):
        site.world.vms[name].power = "on"
    result = site.failed("vm_passthru", vms=SIXTEEN[:3], devices=CX5)
    assert "vm01" in result["msg"] and "vm03" in result["msg"] and "allow_power_cycle" in result["msg"]
    assert site.ok("vm_passthru", vms=SIXTEEN[:3], devices=CX5, allow_power_cycle=True)["changed"]
    assert all(len(site.world.vms[one["name"]].devices) == 2 and site.world.vms[one["name"]].power == "on" for one in SIXTEEN[:3])


def test_one_bad_vm_keeps_all_untouched_and_one_failed_task_does_not(site):
    site = site(3)
    for name in site.world.hosts:
        site.ready(name)
    site.world.vms["vm02"].snapshots.append("before")
    result = site.failed("vm_passthru", vms=SIXTEEN[:3], devices=CX5)
    assert list(result["vms"]) == ["vm02"] and "1 of 3 VMs" in result["msg"] and not site.world.vms["vm01"].devices
    site.world.vms["vm02"].snapshots.clear()
    site.world.set_fault("task_fault", "vm02", times=1)
    result = site.failed("vm_passthru", vms=SIXTEEN[:3], devices=CX5)
    assert "VM vm02" in result["msg"] and "vm01" not in result["msg"]
    assert [len(site.world.vms["vm%02d" % n].devices) for n in (1, 2, 3)] == [2, 0, 2]
    assert {s["thing"] for s in site.ok("vm_passthru", vms=SIXTEEN[:3], devices=CX5)["changes"]} == {"vm vm02"}


def test_lists_that_make_no_sense(site):
    site = site(2)
    site.ready()
    site.world.vms["vm02"].host = "esxi01"
    assert "wanted for the VM vm01 too" in site.failed("vm_passthru", vms=SIXTEEN[:2], devices=CX5)["msg"]
    assert "vm01 there twice" in site.failed("vm_passthru", vms=[SIXTEEN[0], SIXTEEN[0]], devices=CX5)["msg"]
    assert site.failed("vm_passthru", vms=SIXTEEN[:1], name="vm01", devices=CX5) and site.failed("vm_passthru", devices=CX5)
    assert "devices is not given" in site.failed("vm_passthru", vms=[dict(name="vm01", devices=CX5), dict(name="vm02")])["msg"]
    assert "is on esxi01, not on esxi02" in site.failed("vm_tuning", vms=[dict(name="vm02", esxi_hostname="esxi02")])["msg"]


# ---- GPUs and MMIO ----------------------------------------------------------------------------------------------------

GPU = "0000:af:00.0"


def with_gpu(site, device=0x1DB1, gib=17, vendor=0x10DE, name="esxi01"):
    host = site.ready(name)
    host.others.append(OtherDevice(GPU, vendor, device, "GV100GL [Tesla V100 SXM2 16GB]", "NVIDIA Corporation", bar_gib=gib))
    host.passthru[GPU] = Passthru(True, True)
    return host


def test_a_gpu_that_is_there_stays(site):
    site = site()
    with_gpu(site)
    site.ok("vm_passthru", name="vm01", devices=[GPU])
    gpu = site.world.vms["vm01"].devices[0]
    result = twice(site, "vm_passthru", name="vm01", devices=CX5)
    assert [d["pci"] for d in result["devices"]] == [GPU, IB, ROCE] and site.world.vms["vm01"].devices[0] == gpu
    assert [d["port"] for d in result["devices"]] == [None, 1, 2]
    assert site.ok("vm_power", name="vm01")["vm"]["power"] == "on"
    assert not site.ok("vm_passthru", name="vm01", devices=[GPU, {"card": IB}])["changed"]


def test_mmio_from_the_table_the_user_or_not_at_all(site):
    site = site()
    host, vm = with_gpu(site), site.world.vms["vm01"]
    site.ok("vm_passthru", name="vm01", devices=[GPU])
    assert vm.extra["pciPassthru.use64bitMMIO"] == "TRUE" and vm.extra["pciPassthru.64bitMMIOSizeGB"] == "64"
    assert site.ok("vm_power", name="vm01")["changed"]
    site.ok("vm_power", name="vm01", state="off", power_off_ok=True)
    site.ok("vm_passthru", name="vm01", devices=[GPU], state="absent")
    vm.extra.clear()
    host.others[0].device, host.others[0].bar_gib = 0xABCD, 33
    result = site.ok("vm_passthru", name="vm01", devices=[GPU])
    assert not vm.extra and any("nothing is guessed" in text and "10de:abcd" in text for text in result["warnings"])
    result = site.failed("vm_power", name="vm01")
    assert "DevicePowerOn" in result["msg"] and "bar_size_gb" in result["msg"]
    site.ok("vm_passthru", name="vm01", devices=[GPU], state="absent")
    site.ok("vm_passthru", name="vm01", devices=[{"pci": GPU, "bar_size_gb": 33}])
    assert vm.extra["pciPassthru.64bitMMIOSizeGB"] == "128" and site.ok("vm_power", name="vm01")["changed"]


# ---- Dynamic DirectPath -----------------------------------------------------------------------------------------------

@needs_labels
def test_dynamic_from_the_host_to_the_running_vm(site):
    site = site()
    host, vm = site.ready(), site.world.vms["vm01"]
    site.ok("host_passthru", devices=[{"pci": IB, "label": "rdma-ib"}, {"pci": ROCE, "label": "rdma-roce"}])
    wanted = [{"label": "rdma-roce"}, {"label": "rdma-ib"}]
    result = twice(site, "vm_passthru", name="vm01", mode="dynamic", devices=wanted)
    assert [(d["label"], d["pci"], d["id"]) for d in result["devices"]] == [("rdma-ib", "", "15b3:1017"), ("rdma-roce", "", "15b3:1017")]
    assert vm.memory_locked
    site.ok("vm_power", name="vm01")
    result = site.ok("vm_passthru", name="vm01", mode="dynamic", devices=wanted)
    assert not result["changed"] and [(d["label"], d["pci"], d["port"]) for d in result["devices"]] == [("rdma-ib", IB, 1), ("rdma-roce", ROCE, 2)]
    # The labels change places: the devices follow them at the next power-on, the VM stays as it is.
    site.ok("vm_power", name="vm01", state="off", power_off_ok=True)
    host.passthru[IB].label, host.passthru[ROCE].label = "rdma-roce", "rdma-ib"
    site.ok("vm_power", name="vm01")
    result = site.ok("vm_passthru", name="vm01", mode="dynamic", devices=wanted)
    assert not result["changed"] and [(d["label"], d["pci"]) for d in result["devices"]] == [("rdma-ib", ROCE), ("rdma-roce", IB)]
    assert "attached to the VM vm01" in site.failed("host_passthru", devices=CX5, state="disabled")["msg"]
    site.ok("vm_power", name="vm01", state="off", power_off_ok=True)
    host.passthru[IB].active = False
    result = site.failed("vm_power", name="vm01")
    assert "rdma-roce" in result["msg"] and "vm01" in result["msg"] and "label" in result["error"]["hint"]
    assert site.ok("vm_passthru", name="vm01", mode="dynamic", devices=wanted, state="absent")["changed"] and not vm.devices


ENTERPRISE = ("VMware vSphere 8 Enterprise Plus", "esx.enterprisePlus.cpuPackageCoreLimited", ["drs", "vmotion"])
STANDARD = ("VMware vSphere 8 Standard", "esx.standard.cpuPackageCoreLimited", ["vmotion"])


@pytest.mark.parametrize("licence,said", [
    (None, ["The licence of esxi01 is Evaluation Mode (eval)", "ends"]),
    (ENTERPRISE, ["The licence of esxi01 is VMware vSphere 8 Enterprise Plus", "lists DRS"]),
    (STANDARD, ["The licence of esxi01 is VMware vSphere 8 Standard", "does not list Dynamic DirectPath I/O", "does not list DRS"]),
    (STANDARD[:2] + (["directPathDynamic", "drs"],), ["it lists Dynamic DirectPath I/O; it lists DRS"])])
def test_the_plan_names_the_licence_that_a_dynamic_device_needs(site, licence, said):
    site = site()
    host = with_gpu(site)
    if licence:
        host.settings["licence"] = licence
    for check in (True, False):
        warnings = site.ok("vm_passthru", name="vm01", mode="dynamic", devices=[GPU], check=check)["warnings"]
        assert any(all(words in text for words in ("no snapshots", "no vMotion while it runs", "vSphere HA restarts it", "DRS places it")) for text in warnings)
        told = [text for text in warnings if text.startswith("The licence of esxi01 is")]
        assert len(told) == 1 and all(words in told[0] for words in said), warnings
    assert "warnings" not in site.ok("vm_passthru", name="vm01", mode="dynamic", devices=[GPU]), "nothing is attached, so nothing is told"


def test_the_plan_names_what_this_cluster_does_not_do_for_the_vm(site):
    site = site()
    with_gpu(site)

    def told(**more):
        return [text for text in site.ok("vm_passthru", name="vm01", devices=[GPU], check=True, **more)["warnings"] if "hpc-cluster" in text]

    assert not told() and not told(mode="dynamic"), "DRS is on and HA is off"
    site.face.cluster.ha, site.face.cluster.moves = True, False
    assert len(told()) == 1 and "does not restart a VM" in told()[0]
    assert ["DRS off" in text or "restarts the VM only where" in text for text in told(mode="dynamic")] == [True, True]


def test_a_licence_that_cannot_be_read_is_told_too(site):
    site = site()
    with_gpu(site)
    site.world.set_fault("call_fault", "", method="QueryAssignedLicenses", fault="vim.fault.NoPermission")
    result = site.ok("vm_passthru", name="vm01", mode="dynamic", devices=[GPU])
    assert result["changed"] and any("The licence of esxi01 could not be read" in text for text in result["warnings"])
    static = site.ok("vm_passthru", name="vm01", devices=[GPU], state="exact")["warnings"]
    assert any("no vSphere HA" in text and "no DRS migration" in text for text in static) and not any("licence" in text for text in static)


@needs_labels
def test_one_list_for_host_and_vm_also_before_the_labels_are_there(site):
    site = site()
    site.world.hosts["esxi01"].dvs = {}
    devices = [{"pci": IB, "label": "rdma-ib", "bar_size_gb": 1}, {"pci": ROCE, "label": "rdma-roce"}]
    looked = site.ok("vm_passthru", name="vm01", mode="dynamic", devices=devices, check=True)
    first = looked["changes"][0]
    assert first["name"] == "15b3:1017 by label rdma-ib" and first["certainty"] == "conditional" and "has the label ''" in first["reason"]
    assert "has the label '' on esxi01, not 'rdma-ib'" in site.failed("vm_passthru", name="vm01", mode="dynamic", devices=devices)["msg"]
    site.ok("host_passthru", devices=devices)
    site.ready()
    done = twice(site, "vm_passthru", name="vm01", mode="dynamic", devices=devices)
    assert [s["name"] for s in done["changes"]] == [s["name"] for s in looked["changes"]]
    site.ok("vm_passthru", name="vm01", devices=[], state="exact")
    assert len(twice(site, "vm_passthru", name="vm01", devices=devices)["devices"]) == 2


# ---- straight on an ESXi host -----------------------------------------------------------------------------------------

def test_the_whole_stage_straight_on_a_host(site):
    """The same modules against the host's own API: one host, no cluster, and the host says localhost of itself where it likes."""
    site = site(2)
    host, vm = site.world.hosts["esxi02"], site.world.vms["vm02"]
    host.dvs = {}
    assert host.rebind
    host.address, host.passthru[IB].label = "127.0.0.1", "ib"
    direct = HostFace(site.world, str(site.directory), site.face.cert, site.face.key, "esxi02", strict=True)
    direct.start()
    try:
        login = dict(port=direct.port, username="root", password=host.password)
        site.login.update(login)
        assert [d["pci"] for d in site.ok("host_pci_info", "any-name", devices=CX5)["devices"]] == [IB, ROCE]
        twice(site, "host_power_policy", "any-name", policy="high_performance")
        twice(site, "host_passthru", "any-name", devices=CX5)
        twice(site, "vm_tuning", "any-name", name="vm02", cpus=44, memory_mb=147456)
        twice(site, "vm_passthru", "any-name", name="vm02", devices=CX5)
        twice(site, "vm_power", "any-name", name="vm02")
        assert len(vm.devices) == 2 and vm.power == "on"
        host.settings["licence"] = STANDARD
        if LABELS:
            looked = site.ok("vm_passthru", "any-name", name="vm02", mode="dynamic", devices=[{"label": "ib"}], check=True)
            assert any(text.startswith("The licence of esxi02 is VMware vSphere 8 Standard") for text in looked["warnings"])
        assert "vm01" not in site.failed("vm_power", "any-name", name="vm77")["msg"]
    finally:
        direct.stop()


def test_a_dynamic_gpu_needs_no_label_when_it_is_the_only_one(site):
    site = site()
    with_gpu(site)
    twice(site, "vm_passthru", name="vm01", mode="dynamic", devices=["10de:1db1"])
    site.ok("vm_power", name="vm01")
    assert [d["pci"] for d in site.ok("vm_passthru", name="vm01", mode="dynamic", devices=["10de:1db1"])["devices"]] == [GPU]


# ---- tuning -----------------------------------------------------------------------------------------------------------

def test_tuning_with_hyperthreads_numa_and_affinity(site):
    site = site()
    vm = site.world.vms["vm01"]
    args = dict(name="vm01", cpus=88, cores_per_socket=44, memory_mb=147456, latency="high_with_hyperthreading", cores_per_numa_node=44, numa_affinity=[0, 1])
    result = site.failed("vm_tuning", **args)
    assert ("vSphere 8.0" if API < "8" else "hardware version 20") in result["msg"]
    if API < "8":
        return
    vm.hw_version = 20
    twice(site, "vm_tuning", **args)
    assert (vm.threads, vm.latency, vm.cpu_reservation_mhz, vm.cores_per_numa_node, vm.extra["numa.nodeAffinity"]) == (2, "high", 44 * 2993, 44, "0,1")
    assert site.ok("vm_power", name="vm01")["changed"]
    site.ok("vm_power", name="vm01", state="off", power_off_ok=True)
    twice(site, "vm_tuning", name="vm01", profile="none", latency="normal", cpu_affinity=[4, 5, 6])
    assert (vm.threads, vm.latency, vm.cpu_affinity, vm.cpus) == (1, "normal", [4, 5, 6], 88)


def test_settings_left_alone(site):
    site = site()
    vm = site.world.vms["vm01"]
    assert not site.ok("vm_tuning", name="vm01", profile="none")["changed"]
    assert not site.ok("vm_tuning", name="vm01", leave=["reserve_memory", "reserve_cpu", "latency", "hot_add"])["changed"]
    assert site.ok("vm_tuning", name="vm01", leave=["latency", "hot_add"])["changed"]
    assert vm.latency == "normal" and vm.cpu_hot_add and vm.memory_locked and vm.cpu_reservation_mhz == 20 * 2993


# ---- what goes over the wire ------------------------------------------------------------------------------------------

def flat(xml: str) -> str:
    """SOAP without its namespaces, the version that pyVmomi notes at each value, and white space between elements."""
    return re.sub(r">\s+<", "><", re.sub(r' (xmlns(:\w+)?|versionId)="[^"]*"', "", xml)).strip()


@pytest.mark.parametrize("vendor,device,vendor_sent,device_sent", [(0x10DE, 0x1DB4, "4318", "1db4"), (0x8086, 0x9BC4, "-32634", "9bc4"),
                                                                   (0x8086, 0x0BD5, "-32634", "bd5"), (0x10DE, 0x8001, "4318", "8001")])
def test_golden_attach_of_a_fixed_device(site, vendor, device, vendor_sent, device_sent):
    """Vendor ids are signed shorts, device ids unpadded hexadecimal text, whatever the sign of the short the host shows."""
    site = site()
    with_gpu(site, device, 0, vendor)
    site.ok("vm_passthru", name="vm01", devices=[GPU])
    sent, = site.face.sent("ReconfigVM_Task")
    system = site.face.host("esxi01").system_id
    assert flat(sent) == (
        '<ReconfigVM_Task><_this type="VirtualMachine">%s</_this><spec><changeVersion>1</changeVersion>'
        '<deviceChange><operation>add</operation><device xsi:type="VirtualPCIPassthrough"><key>-101</key>'
        '<backing xsi:type="VirtualPCIPassthroughDeviceBackingInfo"><deviceName>GV100GL [Tesla V100 SXM2 16GB]</deviceName><id>%s</id>'
        "<deviceId>%s</deviceId><systemId>%s</systemId><vendorId>%s</vendorId></backing></device></deviceChange>"
        "<memoryAllocation><reservation>65536</reservation><limit>-1</limit></memoryAllocation>"
        "<memoryReservationLockedToMax>true</memoryReservationLockedToMax></spec></ReconfigVM_Task>"
        % (site.face.vm("vm01").moid, GPU, device_sent, system, vendor_sent))
    assert site.ok("vm_power", name="vm01")["changed"], "the strict check at power-on takes what was sent"


def test_golden_attach_of_two_ports_has_keys_of_their_own(site):
    site = site()
    site.ready()
    site.ok("vm_passthru", name="vm01", devices=CX5)
    sent, = site.face.sent("ReconfigVM_Task")
    assert re.findall("<key>(.*?)</key>", sent) == ["-101", "-102"] and re.findall("<id>(.*?)</id>", sent) == [IB, ROCE]
    assert re.findall("<deviceId>(.*?)</deviceId>", sent) == ["1017", "1017"] and re.findall("<vendorId>(.*?)</vendorId>", sent) == ["5555", "5555"]
    site.ok("vm_passthru", name="vm01", devices=[ROCE], state="absent")
    assert "<operation>remove</operation>" in site.face.sent("ReconfigVM_Task")[1] and "<key>13001</key>" in site.face.sent("ReconfigVM_Task")[1]


@pytest.mark.parametrize("vendor,device", [(0x15B3, 0x1017), (0x8086, 0x9BC4)])
def test_golden_attach_of_a_dynamic_device(site, vendor, device):
    """Ids of an allowed device are ints: unsigned, decimal, above 0x8000 too."""
    site = site()
    if vendor == 0x15B3:
        if not LABELS:
            pytest.skip("labels came with 7.0.2")
        host = site.ready()
        host.passthru[IB].label, host.passthru[ROCE].label = "rdma-ib", "rdma-roce"
        devices, label = [{"label": "rdma-ib"}], "<customLabel>rdma-ib</customLabel>"
    else:
        with_gpu(site, device, 0, vendor)
        devices, label = [GPU], ""
    site.world.vms["vm01"].memory_locked = True
    site.world.vms["vm01"].memory_reservation_mb = site.world.vms["vm01"].memory_mb
    site.ok("vm_passthru", name="vm01", mode="dynamic", devices=devices)
    sent, = site.face.sent("ReconfigVM_Task")
    assert flat(sent) == (
        '<ReconfigVM_Task><_this type="VirtualMachine">%s</_this><spec><changeVersion>1</changeVersion>'
        '<deviceChange><operation>add</operation><device xsi:type="VirtualPCIPassthrough"><key>-101</key>'
        '<backing xsi:type="VirtualPCIPassthroughDynamicBackingInfo"><deviceName></deviceName>'
        "<allowedDevice><vendorId>%d</vendorId><deviceId>%d</deviceId></allowedDevice>%s</backing></device></deviceChange></spec></ReconfigVM_Task>"
        % (site.face.vm("vm01").moid, vendor, device, label))
    assert site.ok("vm_power", name="vm01")["changed"]


def test_golden_passthrough_of_a_host(site):
    site = site()
    site.world.hosts["esxi01"].dvs = {}
    site.ok("host_passthru", devices=[{"pci": IB, "label": "rdma-ib" if LABELS else None}, ROCE])
    sent, = site.face.sent("UpdatePassthruConfig")
    label = "<hardwareLabel>rdma-ib</hardwareLabel>" if LABELS else ""
    row = "<config><id>%s</id><passthruEnabled>true</passthruEnabled>%s</config>"
    assert flat(sent) == "<UpdatePassthruConfig>%s%s%s</UpdatePassthruConfig>" % (
        '<_this type="HostPciPassthruSystem">%s</_this>' % site.face.host("esxi01").managers["pciPassthruSystem"].moid, row % (IB, label), row % (ROCE, ""))
    site.ok("host_passthru", devices=[ROCE], state="disabled", apply_now=False)
    assert "<passthruEnabled>false</passthruEnabled><applyNow>false</applyNow>" in flat(site.face.sent("UpdatePassthruConfig")[1])


def test_golden_power_policy_and_tuning(site):
    site = site()
    site.ok("host_power_policy", policy="high_performance")
    sent, = site.face.sent("ConfigurePowerPolicy")
    assert re.fullmatch('<ConfigurePowerPolicy><_this type="HostPowerSystem">[^<]*</_this><key>1</key></ConfigurePowerPolicy>', flat(sent)), sent
    site.ok("vm_tuning", extra_config={"numa.vcpu.preferHT": True}, **PAPER)
    sent, = site.face.sent("ReconfigVM_Task")
    assert flat(sent) == (
        '<ReconfigVM_Task><_this type="VirtualMachine">%s</_this><spec><changeVersion>1</changeVersion><numCPUs>44</numCPUs>'
        "<numCoresPerSocket>22</numCoresPerSocket><memoryMB>147456</memoryMB>"
        "<cpuHotAddEnabled>false</cpuHotAddEnabled>"
        "<cpuAllocation><reservation>131692</reservation><limit>-1</limit></cpuAllocation>"
        "<memoryAllocation><reservation>147456</reservation><limit>-1</limit></memoryAllocation>"
        "<latencySensitivity><level>high</level></latencySensitivity>"
        '<extraConfig><key>numa.vcpu.preferHT</key><value xsi:type="xsd:string">TRUE</value></extraConfig>'
        "<memoryReservationLockedToMax>true</memoryReservationLockedToMax></spec></ReconfigVM_Task>"
        % site.face.vm("vm01").moid)


# ---- sessions that end, servers that hang -----------------------------------------------------------------------------

@pytest.mark.parametrize("quiet", [False, True])
def test_a_session_that_ends_before_any_request(site, quiet):
    """Whichever request of a run meets the expired session, and however a read is told of it: a new login, and the same end."""
    site = site()
    site.face.quiet_reads = quiet
    site.ready()
    site.ok("vm_passthru", name="vm01", devices=CX5, check=True)
    state = dict(seen=0, strike=0)

    def before(sid, body):
        if not any("<%s " % method in body for method in ("Login", "RetrieveServiceContent", "Logout")):
            if state["seen"] == state["strike"]:
                site.face.end_session(sid)
            state["seen"] += 1

    site.face.before = before
    while True:
        site.world.vms["vm01"].devices.clear()
        state["seen"] = 0
        assert site.ok("vm_passthru", name="vm01", devices=CX5)["changed"]
        assert len(site.world.vms["vm01"].devices) == 2
        if state["strike"] >= state["seen"]:
            break
        state["strike"] += 1
    assert state["strike"] >= 6


def test_a_session_that_ends_between_two_pages(site):
    """A server answers large reads in pages, and a new login knows nothing of the place in the old answer."""
    site = site(8)
    site.face.collector.page_size = 3
    names = [dict(name="vm%02d" % number) for number in range(1, 9)]
    assert site.ok("vm_tuning", vms=names, cpus=8, check=True)["changed"]
    ended = []

    def before(sid, body):
        if "<ContinueRetrievePropertiesEx " in body and not ended:
            site.face.end_session(sid)
            ended.append(sid)

    site.face.before = before
    result = site.ok("vm_tuning", vms=names, cpus=8)
    assert ended and len({step["thing"] for step in result["changes"]}) == 8 and all(site.world.vms[one["name"]].cpus == 8 for one in names)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_session_that_ends_again_and_again_is_told(site, quiet):
    site = site()
    site.face.quiet_reads = quiet
    site.face.before = lambda sid, body: site.face.end_session(sid) if "<Login " not in body else None
    result = site.failed("host_pci_info")
    assert result["error"]["code"] == "SESSION" and "session" in result["msg"]


def test_a_server_that_does_not_answer(site):
    site = site()
    site.face.before = lambda sid, body: time.sleep(4) if "RetrievePropertiesEx" in body else None
    started = time.monotonic()
    result = site.failed("host_pci_info", timeout=1)
    assert result["error"]["code"] == "TIMEOUT" and "esxi01" in result["msg"] and time.monotonic() - started < 4
    with socket.socket() as silent:  # takes the connection and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.monotonic()
        result = site.failed("host_pci_info", port=silent.getsockname()[1], timeout=1)
        assert result["error"]["code"] in ("TIMEOUT", "TLS") and time.monotonic() - started < 10


# ---- VMs from a template ----------------------------------------------------------------------------------------------

def golden(site, name: str = "vm01"):
    """The VM becomes a template that its host keeps."""
    vm = site.world.vms[name]
    vm.template = True
    return vm


def test_clones_one_per_host(site):
    site = site(4)
    golden(site, "vm04")
    for name in ("vm01", "vm02", "vm03"):
        del site.world.vms[name]
    args = dict(template="vm04", hosts=["esxi01", "esxi02", "esxi03"], vms=[dict(name="n1"), dict(name="n2", esxi_hostname="esxi01"), dict(name="n3")])
    since = len(site.world.journal)
    result = twice(site, "vm_clone", **args)
    assert {name: site.world.vms[name].host for name in ("n1", "n2", "n3")} == {"n1": "esxi02", "n2": "esxi01", "n3": "esxi03"}
    assert [row["made"] for row in result["vms"]] == [True] * 3 and asked(site, since).count("CloneVM_Task") == 3
    assert all(site.world.vms[name].power == "off" and not site.world.vms[name].template for name in ("n1", "n2", "n3"))
    result = twice(site, "vm_clone", **dict(args, power_on=True, tools_timeout=20))
    assert all(site.world.vms[name].power == "on" and site.world.vms[name].guest.booted for name in ("n1", "n2", "n3"))
    assert site.ok("vm_tuning", vms=[dict(name="n1")], cpus=8, allow_power_cycle=True)["changed"]


@pytest.mark.parametrize("network,kind", [("VM Network", "NetworkBackingInfo"), ("hpc-roce-sriov", "DistributedVirtualPortBackingInfo")])
def test_a_clone_in_its_place(site, network, kind):
    site = site(2)
    golden(site).snapshots.append("gold")
    twice(site, "vm_clone", host="esxi02", template="vm01", name="n1", network=network, datastore="hpc-nfs", folder="vm", linked=True)
    assert site.world.vms["n1"].host == "esxi02" and type(site.face.vm("n1").nic).__name__.endswith(kind)
    sent, = site.face.sent("CloneVM_Task")
    assert "<diskMoveType>createNewChildDiskBacking</diskMoveType>" in flat(sent) and "<snapshot" in sent and "<powerOn>false</powerOn>" in flat(sent)


def test_clones_that_cannot_be(site):
    site = site(2)
    golden(site)
    assert "vm01, vm02" in site.failed("vm_clone", template="nope", name="n1")["msg"]
    for check in (False, True):
        result = site.failed("vm_clone", template="vm01", hosts=["esxi01"], vms=[dict(name="n1"), dict(name="n2")], check=check)
        assert result["error"]["code"] == "PLACE" and "no host is left for n2" in result["msg"] and "n1" not in site.world.vms
        assert "is there, on esxi02 and not on esxi01" in site.failed("vm_clone", template="vm01", vms=[dict(name="vm02", esxi_hostname="esxi01")],
                                                                      check=check)["msg"]
        assert "hpc-nfs" in site.failed("vm_clone", template="vm01", name="n1", datastore="nope", check=check)["msg"]
        assert "has no snapshot" in site.failed("vm_clone", template="vm01", name="n1", linked=True, check=check)["msg"]
        assert "network of esxi01 nope" in site.failed("vm_clone", template="vm01", name="n1", network="nope", check=check)["msg"]
    site.world.set_fault("task_fault", "vm01", times=1)
    result = site.failed("vm_clone", template="vm01", vms=[dict(name="n1", esxi_hostname="esxi01"), dict(name="n2", esxi_hostname="esxi02")])
    assert "n1" in result["msg"] and "n2" in site.world.vms and "n1" not in site.world.vms
    site.world.hosts["esxi01"].maintenance = True
    assert "maintenance mode" in site.failed("vm_clone", template="vm01", name="n1")["msg"]


# ---- guests that get a name and an address ----------------------------------------------------------------------------

def seen(site, name):
    guest = site.face.vm(name).get_guest()
    return guest.hostName, guest.ipAddress


def test_clones_with_a_name_and_an_address_of_their_own(site):
    site = site(3)
    golden(site, "vm03")
    many = [dict(name="n1", esxi_hostname="esxi01", guest_hostname="node-1", guest_address="192.168.7.11/24"), dict(name="n2", esxi_hostname="esxi02")]
    args = dict(template="vm03", vms=many, guest_domain="hpc.example.org", guest_gateway="192.168.7.1", guest_dns=["192.168.7.2"], power_on=True,
                tools_timeout=20)
    result = twice(site, "vm_clone", **args)
    assert [(s["thing"], s["after"]) for s in result["changes"] if s["name"] == "guest customization"] == [
        ("vm n1", "node-1.hpc.example.org, 192.168.7.11/24"), ("vm n2", "the VM's name.hpc.example.org, DHCP")]
    assert seen(site, "n1") == ("node-1", "192.168.7.11") and seen(site, "n2")[0] == "n2"
    sent = flat(site.face.sent("CloneVM_Task")[0])
    for part in ('<hostName xsi:type="CustomizationFixedName"><name>node-1</name></hostName><domain>hpc.example.org</domain>',
                 '<ip xsi:type="CustomizationFixedIp"><ipAddress>192.168.7.11</ipAddress></ip><subnetMask>255.255.255.0</subnetMask>'
                 "<gateway>192.168.7.1</gateway>", "<dnsSuffixList>hpc.example.org</dnsSuffixList><dnsServerList>192.168.7.2</dnsServerList>"):
        assert part in sent, sent
    sent = site.face.sent("CloneVM_Task")[1]
    assert 'xsi:type="CustomizationVirtualMachineName"' in sent and "CustomizationDhcpIpGenerator" in sent


def named_spec(site, nics=1, windows=False):
    cust = vim.vm.customization
    identity = cust.Sysprep(guiUnattended=cust.GuiUnattended(timeZone=85, autoLogon=False, autoLogonCount=0), identification=cust.Identification(),
                            userData=cust.UserData(fullName="a", orgName="b", productId="", computerName=cust.VirtualMachineNameGenerator())) if windows else \
        cust.LinuxPrep(hostName=cust.VirtualMachineNameGenerator(), domain="site.example.org", timeZone="Europe/Berlin")
    maps = [cust.AdapterMapping(adapter=cust.IPSettings(ip=cust.DhcpIpGenerator())) for dummy in range(nics)]
    site.face.customizations["hpc-linux"] = cust.Specification(identity=identity, options=cust.LinuxOptions(), nicSettingMap=maps,
                                                               globalIPSettings=cust.GlobalIPSettings(dnsServerList=["10.1.1.1"]))


def test_a_customization_of_vcenter_and_what_a_vm_says_itself(site):
    site = site(2)
    golden(site)
    named_spec(site)
    args = dict(template="vm01", customization="hpc-linux", power_on=True, tools_timeout=20)
    twice(site, "vm_clone", host="esxi02", name="n1", **args)
    sent = flat(site.face.sent("CloneVM_Task")[0])
    assert "<domain>site.example.org</domain><timeZone>Europe/Berlin</timeZone>" in sent and "<dnsServerList>10.1.1.1</dnsServerList>" in sent
    assert seen(site, "n1")[0] == "n1"
    twice(site, "vm_clone", host="esxi01", name="n2", guest_hostname="node-2", guest_address="10.1.1.12/16", **args)
    sent = flat(site.face.sent("CloneVM_Task")[1])
    assert "<timeZone>Europe/Berlin</timeZone>" in sent and "<domain>site.example.org</domain>" in sent and "<subnetMask>255.255.0.0</subnetMask>" in sent
    assert seen(site, "n2") == ("node-2", "10.1.1.12")


@pytest.mark.parametrize("more,words", [
    (dict(guest_hostname="n1"), "guest_domain is not given"), (dict(guest_hostname="n1.example.org", guest_domain="a"), "is no host name"),
    (dict(guest_domain="a", guest_address="10.0.0.300/24"), "is no IPv4 address"), (dict(guest_domain="a", guest_address="10.0.0.3"), "no prefix length"),
    (dict(guest_domain="a", guest_gateway="10.0.0.1"), "guest_gateway goes with a guest_address"),
    (dict(guest_domain="a", guest_dns=["dns"]), "guest_dns dns is no IPv4 address"),
    (dict(customization="nope"), "vCenter has hpc-linux"), (dict(customization="two"), "for 2 network adapters, the template vm01 has 1"),
    (dict(customization="windows", guest_hostname="n1"), "not one for Linux")])
def test_customizations_that_cannot_be_are_told_before_anything_is_made(site, more, words):
    site = site(2)
    golden(site)
    named_spec(site, windows=True)
    site.face.customizations["windows"] = site.face.customizations["hpc-linux"]
    named_spec(site, nics=2)
    site.face.customizations["two"] = site.face.customizations.pop("hpc-linux")
    if "nope" in more.values():
        site.face.customizations.clear()
        named_spec(site)
    for check in (True, False):
        assert words in site.failed("vm_clone", template="vm01", name="n1", check=check, **more)["msg"]
    assert "n1" not in site.world.vms
    many = [dict(name="n1", esxi_hostname="esxi01", guest_hostname="same"), dict(name="n2", esxi_hostname="esxi02", guest_hostname="SAME")]
    assert "given to n1 and to n2" in site.failed("vm_clone", template="vm01", vms=many, guest_domain="a")["msg"]
    assert "mutually exclusive" in site.failed("vm_clone", template="vm01", vms=[dict(name="n1")], guest_domain="a", guest_hostname="n1")["msg"]


def test_a_guest_that_is_not_customized_is_told(site):
    site = site(2)
    golden(site)
    site.world.set_fault("customization_fails", "n1", times=1)
    args = dict(template="vm01", name="n1", guest_hostname="node-1", guest_domain="a.example.org", power_on=True, tools_timeout=3)
    if API < "7.0.2":
        assert site.ok("vm_clone", **args)["changed"], "an API before 7.0.2 does not tell"
        return
    result = site.failed("vm_clone", **args)
    assert "n1: The guest's network could not be configured" in result["msg"] and "open-vm-tools" in result["error"]["hint"]
    assert not site.ok("vm_clone", **args)["changed"], "the clone is there and is left as it is"
