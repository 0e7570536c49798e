# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of the action group vsphere against the lab's vCenter, over HTTPS."""

from __future__ import annotations

import importlib
import json
import os
import threading

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.connection.local import Connection
from ansible.template import Templar

from lab.site import build
from lab.vsphere.__main__ import certificate
from lab.vsphere.server import VsphereFace

PACKAGE = "ansible_collections.vhpc.rdma.plugins.action."
IB, ROCE = "0000:3b:00.0", "0000:3b:00.1"
CX5 = [{"id": "15b3:1017"}]


class Site:
    """A lab with vCenter only, and the modules called as Ansible's worker calls them."""

    def __init__(self, directory, hosts: int) -> None:
        self.directory = directory
        self.world = build(hosts)
        cert, key = certificate(str(directory))
        self.world.vcenter.update(address="127.0.0.1", port=0)
        self.face = VsphereFace(self.world, str(directory), cert, key, strict=True)
        self.face.start()
        self.login = dict(hostname="127.0.0.1", port=self.face.port, username=self.world.vcenter["username"], password=self.world.vcenter["password"],
                          ca_file=cert)

    def __call__(self, module: str, host: str = "esxi01", check: bool = False, **args) -> dict:
        task = Task()
        task.action = "vhpc.rdma." + module
        task.args = {key: value for key, value in dict(self.login, **args).items() if value is not None}
        task.check_mode, task.diff = check, True
        context, loader = PlayContext(), DataLoader()
        context.remote_addr = host
        action = importlib.import_module(PACKAGE + module).ActionModule(task, Connection(context, os.devnull), context, loader, Templar(loader=loader), None)
        result = action.run(task_vars={"inventory_hostname": host})
        assert self.login["password"] not in json.dumps(result, default=str)
        return result

    def ok(self, module: str, *args, **kwargs) -> dict:
        result = self(module, *args, **kwargs)
        assert not result.get("failed"), result["msg"]
        return result

    def failed(self, module: str, *args, **kwargs) -> dict:
        result = self(module, *args, **kwargs)
        assert result.get("failed"), result
        return result

    def ready(self, name: str = "esxi01"):
        """The host without what SR-IOV left, passthrough active."""
        host = self.world.hosts[name]
        host.dvs = {}
        for state in (host.passthru[bdf] for bdf, card, port in host.functions() if card.vpi):
            state.enabled = state.active = True
        return host


@pytest.fixture()
def site(tmp_path):
    made = []

    def start(hosts: int = 2) -> Site:
        made.append(Site(tmp_path, hosts))
        return made[-1]

    yield start
    for one in made:
        one.face.stop()


def steps(result):
    return [(s["thing"], s["name"], s["certainty"]) for s in result["changes"]]


def twice(site, module, *args, **kwargs):
    """Check mode tells what the run does, the run does it, the second run and a check after it do nothing."""
    looked = site.ok(module, *args, check=True, **kwargs)
    done = site.ok(module, *args, **kwargs)
    assert looked["changed"] and done["changed"] and looked["changes"] == done["changes"] and looked["diff"] == done["diff"]
    for check in (False, True):
        again = site.ok(module, *args, check=check, **kwargs)
        assert not again["changed"] and not again["changes"], again["changes"]
    return done


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


def test_labels(site):
    site = site()
    site.ready()
    wanted = [{"pci": "3B:00.0", "label": "rdma-ib"}, {"pci": "3B:00.1", "label": "rdma-roce"}]
    result = twice(site, "host_passthru", devices=wanted)
    assert [d["label"] for d in result["devices"]] == ["rdma-ib", "rdma-roce"] and all(d["active"] for d in result["devices"])
    assert "label" in site.failed("host_passthru", devices=[{"id": "15b3:1017", "label": "x"}])["msg"]
    result = twice(site, "vm_passthru", name="vm01", devices=[{"label": "rdma-roce"}, {"label": "rdma-ib"}])
    assert [d["pci"] for d in result["devices"]] == [IB, ROCE]


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


def test_tuning_of_a_running_vm_needs_consent(site):
    site = site()
    vm = site.world.vms["vm01"]
    vm.power = "on"
    result = site.failed("vm_tuning", **PAPER)
    assert "allow_power_cycle" in result["msg"] and vm.cpus == 20
    assert {s["certainty"] for s in site.ok("vm_tuning", check=True, **PAPER)["changes"]} == {"conditional"}
    assert site.ok("vm_tuning", allow_power_cycle=True, **PAPER)["changed"]
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
