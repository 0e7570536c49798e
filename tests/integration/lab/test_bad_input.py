# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Wrong input to every module, on a site that is already right: a clear error that names host, thing and reason, no traceback, nothing changed."""

import json

import pytest
import yaml

from lab.harness import Site, differences

HOST, VM = "esxi04", "vm04"
CARD, WANT, CX5 = {"psid": "MT_0000000008"}, {"ports": {1: "ib", 2: "roce"}, "sriov": False}, [{"id": "15b3:1017"}]
VIB = "/vmfs/volumes/hpc-nfs/rdma/mft-4.18.1.14-0.vib"
BMC = {"baseuri": "{{ vhpc_bmc.baseuri }}", "username": "root", "password": "{{ vhpc_bmc.password }}", "ca_file": "{{ vhpc_bmc.ca_file }}"}
PEERS = [VM, HOST]


def software(**package):
    return {"packages": [package]}


# module, arguments, words that the error must have beside the host
ESXI = [
    # the card that carries management, through each of the three that could take it away
    ("mlx_firmware", dict(card={"psid": "MT_2420110034"}, settings=WANT), ["MT_2420110034", "carries vmk0", "try: choose the card of the workload"]),
    ("mlx_firmware", dict(card={"pci": "18:00.0"}, settings={"raw": {"SRIOV_EN": 1}}), ["0000:18:00.0", "carries vmk0"]),
    ("host_passthru", dict(devices=[{"id": "15b3:1015"}]), ["0000:18:00.0", "vmk0 (management)", "try: choose other devices"]),
    ("host_passthru", dict(devices=[{"card": "18:00.1"}]), ["0000:18:00.1", "vmk0 (management)"]),
    ("vm_passthru", dict(name=VM, devices=[{"id": "15b3:1015"}]), ["0000:18:00.0", "vmk0 (management)", "nothing was changed"]),
    ("vm_passthru", dict(name=VM, devices=["0000:18:00.1"], allow_power_cycle=True), ["0000:18:00.1", "vmk0 (management)"]),
    # cards and firmware settings
    ("mlx_firmware", dict(card={"psid": "NOPE"}, settings=WANT), ["psid NOPE fits no card", "MT_0000000008"]),
    ("mlx_firmware", dict(card={"pci": "0000:99:00.0"}, settings=WANT), ["0000:99:00.0 fits no card"]),
    ("mlx_firmware", dict(card={"pci": "hello"}, settings=WANT), ["'hello' is no PCI address", "0000:3b:00.0"]),
    ("mlx_firmware", dict(card=dict(CARD, serial="X1"), settings=WANT), ["serial X1 fits no card"]),
    ("mlx_firmware", dict(card={}, settings=WANT), ["the card is not described", "psid"]),
    ("mlx_firmware", dict(card=dict(CARD, colour="red"), settings=WANT), ["card.colour"]),
    ("mlx_firmware", dict(card="MT_0000000008", settings=WANT), ["dictionary"]),
    ("mlx_firmware", dict(settings=WANT), ["missing required arguments: card"]),
    ("mlx_firmware", dict(card=CARD), ["missing required arguments: settings"]),
    ("mlx_firmware", dict(card=CARD, settings={}), ["settings names none"]),
    ("mlx_firmware", dict(card=CARD, settings={"ports": {3: "ib"}}), ["LINK_TYPE_P3", "LINK_TYPE_P1"]),
    ("mlx_firmware", dict(card=CARD, settings={"ports": {1: "token"}}), ["'token' is none of", "ib"]),
    ("mlx_firmware", dict(card=CARD, settings={"ports": {"x": "ib"}}), ["port 'x'", "a port is a number"]),
    ("mlx_firmware", dict(card=CARD, settings={"ports": ["ib"]}), ["'ports'", "a list cannot be converted to a dict"]),
    ("mlx_firmware", dict(card=CARD, settings={"sriov": "perhaps"}), ["'sriov'", "perhaps"]),
    ("mlx_firmware", dict(card=CARD, settings={"raw": {"NO_SUCH": 1}}), ["NO_SUCH", "does not have this parameter"]),
    ("mlx_firmware", dict(card=CARD, settings={"raw": {"NUM_PF_MSIX": "lots; reboot"}}), ["NUM_PF_MSIX", "lots; reboot"]),
    ("mlx_firmware_info", dict(card={"psid": "NOPE"}, settings=WANT, enforce=True), ["psid NOPE fits no card"]),
    ("esxi_info", dict(card={"psid": "NOPE"}, enforce=True), ["psid NOPE fits no card"]),
    ("esxi_info", dict(min_version="9.0", enforce=True), ["7.0.2 is older than 9.0", "upgrade"]),
    ("esxi_info", dict(min_version="new", enforce=True), ["'new' is no version"]),
    # software and driver
    ("esxi_software", software(name="mft", version="4.30.0", source="relative/mft.vib"), ["'relative/mft.vib' is relative", "/vmfs/volumes"]),
    ("esxi_software", software(name="mft", version="4.30.0", source="/vmfs/volumes/hpc-nfs/rdma/none.vib"), ["none.vib is not on the host"]),
    ("esxi_software", software(name="mft", version="4.30.0"), ["no source is given for mft 4.30.0"]),
    ("esxi_software", software(name="mft", version="4.30.0", source=VIB, checksum="sha256:" + "0" * 64), ["has SHA-256", "nothing was installed"]),
    ("esxi_software", software(name="mft", version="4.30.0", source=VIB, checksum="md5:00"), ["md5:00", "sha256: and 64 hex digits"]),
    ("esxi_software", software(name="mft", version="4.1.0", at_least=False, source=VIB), ["which is newer", "allow_downgrade"]),
    ("esxi_software", software(version="1.0"), ["missing required arguments: name"]),
    ("esxi_software", dict(packages="mft"), ["dictionary"]),
    ("nmlx_driver", dict(options={"nmlx6_core": {"a": 1}}), ["nmlx6_core", "esxcli system module list"]),
    ("nmlx_driver", dict(options={"nmlx5_core": {"no_such_option": 1}}), ["no option no_such_option"]),
    ("nmlx_driver", dict(options={"nmlx5_core": {"max_vfs": "1 2; reboot"}}), ["max_vfs", "without blanks"]),
    ("nmlx_driver", dict(options=["x"]), ["'options'", "a list cannot be converted to a dict"]),
    ("nmlx_driver", dict(version="4.21.71.999"), ["no source is given for nmlx5-core"]),
    # services, reboots
    ("esxi_service", dict(service="no-such", running=True), ["the host has TSM, TSM-SSH"]),
    ("esxi_service", dict(service="TSM-SSH", policy="maybe"), ["policy must be one of"]),
    ("esxi_service", dict(service="TSM-SSH", restore=True), ["state_file"]),
    ("esxi_reboot", dict(reasons=["a new driver"]), ["a new driver", "reboot_ok: true"]),
    ("esxi_reboot", dict(reasons=["a new driver"], reboot_ok=True), ["these VMs run on it: vm04", "vm_shutdown_ok"]),
    ("esxi_reboot", dict(reasons=["x"], reboot_ok=True, esxi_hostname="nobody"), ["the host nobody", "vCenter has esxi04"]),
    # passthrough, power, VMs
    ("host_passthru", dict(devices=["15b3:ffff"]), ["15b3:ffff", "0000:3b:00.0 (15b3:1017)"]),
    ("host_passthru", dict(devices=["nonsense"]), ["nonsense", "no PCI address"]),
    ("host_passthru", dict(devices=[{"query": "[?bad=="}]), ["Invalid jmespath"]),
    ("host_passthru", dict(devices=[{"pci": "3b:00.0", "colour": "red"}]), ["colour"]),
    ("host_passthru", dict(devices=CX5, state="on"), ["state must be one of"]),
    ("host_passthru", dict(devices=CX5, state="disabled"), ["attached to the VM vm04", "detach"]),
    ("host_pci_info", dict(devices=[{"id": "15b3"}]), ["15b3 on esxi04", "15b3:1017"]),
    ("host_power_policy", dict(policy="turbo"), ["policy must be one of"]),
    ("dvs_uplinks", dict(devices=["15b3:ffff"], consent=True), ["15b3:ffff"]),
    ("vm_tuning", dict(name="vm99"), ["VM vm99", "vCenter has vm04"]),
    ("vm_tuning", dict(name=VM, cpus=1000), ["1000 vCPUs", "48 cores"]),
    ("vm_tuning", dict(name=VM, cpus=-1), ["cpus cannot be -1"]),
    ("vm_tuning", dict(name=VM, memory_mb=99999996), ["99999996 MB do not fit"]),
    ("vm_tuning", dict(name=VM, cpus=20), ["the VM is on", "allow_power_cycle"]),
    ("vm_passthru", dict(name="", devices=CX5), ["name is empty"]),
    ("vm_passthru", dict(name="ünïcode vm", devices=CX5), ["ünïcode vm", "vCenter has vm04"]),
    ("vm_passthru", dict(name=VM, devices=[{"label": "none"}]), ["label none", "host_pci_info"]),
    ("vm_passthru", dict(name=VM, devices=CX5, state="absent"), ["the VM is on", "nothing was changed"]),
    ("vm_power", dict(name=VM, state="off"), ["it is on", "power_off_ok"]),
    ("vm_power", dict(name=VM, state="sleepy"), ["state must be one of"]),
    # connections
    ("host_power_policy", dict(policy="static", hostname="127.0.0.1", port=1), ["127.0.0.1:1", "refused"]),
    ("host_power_policy", dict(policy="static", hostname="no-such-name.invalid"), ["no-such-name.invalid"]),
    ("host_power_policy", dict(policy="static", password="{{ wrong }}"), ["the user name or the password is wrong"]),
    ("host_power_policy", dict(policy="static", ca_file="/no/such"), ["/no/such", "ca_file"]),
    ("host_power_policy", dict(policy="static", ca_file=""), ["certificate is not trusted", "ca_file or thumbprint"]),
    ("host_power_policy", dict(policy="static", thumbprint="AA:BB"), ["no SHA-256 fingerprint"]),
    ("host_power_policy", dict(policy="static", thumbprint=":".join(["AA"] * 32)), ["has the thumbprint", "right vCenter"]),
    ("host_power_policy", dict(policy="static", port="many"), ["'port'", "many"]),
    # BMC
    ("bios_settings", dict(BMC, baseuri="127.0.0.1:1", sriov=True), ["127.0.0.1:1", "refused"]),
    ("bios_settings", dict(BMC, password="{{ wrong }}", sriov=True), ["401", "check the BMC user and password"]),
    ("bios_settings", dict(BMC, ca_file="", sriov=True), ["CERTIFICATE_VERIFY_FAILED", "ca_file"]),
    ("bios_settings", dict(BMC, attributes={"NoSuch": 1}, set_ok=True), ["no attribute NoSuch", "nothing was changed"]),
    ("bios_settings", dict(BMC, attributes={"SysProfile": "Fast"}, set_ok=True), ["SysProfile cannot be 'Fast'", "PerfOptimized"]),
    ("bios_settings", dict(BMC, attributes={"AcPwrRcvryUserDelay": "x"}, set_ok=True), ["takes a number", "'x'"]),
    ("bios_settings", dict(BMC, sriov=False), ["SriovGlobalEnable", "set_ok: true"]),
    ("bios_settings", dict(BMC, system="Nope.1", sriov=True), ["System.Embedded.1"]),
    ("bios_settings", {}, ["missing required arguments"]),
]
GUESTS = [
    ("rdma_link", dict(roce={"address": "192.168.4.77/24"}), ["192.168.4.77/24", "subnet of ib0"]),
    ("rdma_link", dict(roce={"address": "192.168.5.300/24"}), ["192.168.5.300"]),
    ("rdma_link", dict(roce={"address": "192.168.5.7"}), ["no prefix length"]),
    ("rdma_link", dict(roce={"address": "192.168.9.7/24"}, ib={"address": "192.168.9.8/24"}), ["share a subnet"]),
    ("rdma_link", dict(roce={"mtu": 12345}), ["MTU 12345"]),
    ("rdma_link", dict(ib={"mtu": 65520}), ["65520", "2044"]),
    ("rdma_link", dict(roce={"mac": "00:00:00:00:00:00"}), ["MAC 00:00:00:00:00:00", "mlx5_1"]),
    ("rdma_link", dict(ib={"guid": "zz"}), ["GUID zz"]),
    ("rdma_link", dict(root="/no/such", ib={}), ["/no/such"]),
    ("rdma_info", dict(expect={"ib": {"rate_gbps": 400}}, enforce=True), ["not at 400 Gb/s", "cable"]),
    ("rdma_info", dict(expect={"ofed": "9.9"}, enforce=True), ["not 9.9", "ofed_guest"]),
    ("rdma_info", dict(reach=[{"address": "192.168.77.1", "mtu": 9000}], enforce=True), ["192.168.77.1", "9000 bytes"]),
    ("ofed_guest", dict(version="5.9-0.0.0.0", source="/root/none.tgz"), ["/root/none.tgz"]),
    ("ofed_guest", dict(version="5.9-0.0.0.0"), ["no source is given"]),
    ("ofed_guest", dict(version="5.9-0.0.0.0", source="/root/MLNX_OFED_LINUX-5.4-3.0.3.0-rhel8.1-x86_64.tgz"), ["holds MLNX_OFED_LINUX-5.4-3.0.3.0"]),
    ("ofed_guest", dict(version="5.9-0.0.0.0", source="/root/MLNX_OFED_LINUX-5.4-3.0.3.0-rhel8.1-x86_64.tgz", checksum="sha256:" + "1" * 64), ["sha256"]),
    ("ofed_guest", dict(version="5.4-3.0.3.0", reload="later"), ["reload must be one of"]),
    ("ofed_guest", dict(version="5.4-3.0.3.0", memlock="much"), ["neither unlimited nor a number"]),
    ("ofed_guest", dict(version="5.4-3.0.3.0", prerequisites=["no-such-package"]), ["no-such-package", "repository"]),
    ("perftest", dict(phase="start", peers=[]), ["peers is empty"]),
    ("perftest", dict(phase="start", peers=[VM, "nobody"]), ["'nobody'"]),
    ("perftest", dict(phase="start", peers=PEERS, port=99999), ["port is a number from 1 to 65535"]),
    ("perftest", dict(phase="start", peers=PEERS, tests=["fast"]), ["send_bw"]),
    ("perftest", dict(phase="collect", run_id="none"), ["the run none was not started here"]),
    ("perftest", dict(phase="walk"), ["phase must be one of"]),
    ("perftest", dict(phase="run"), ["peers is empty"]),
    ("guest_wait", dict(wait_timeout="long"), ["'wait_timeout'"]),
    ("rdma_verdict", dict(limits={"no_such": 1}), ["no_such", "bandwidth_percent"]),
    ("rdma_verdict", dict(limits={"bandwidth_percent": "x"}), ["bandwidth_percent"]),
    ("rdma_report", dict(directory="/proc/nope", hosts=[VM]), ["/proc/nope", "another directory"]),
    ("rdma_report", dict(directory="x", hosts=["nobody"]), ["no nobody"]),
    ("rdma_plan", dict(path="/proc/nope/plan.json"), ["/proc/nope"]),
]
ROOTED = {"rdma_link", "rdma_info", "ofed_guest", "perftest"}
# Errors about the controller's own part name no host; Ansible's own validation of a guest module's options cannot.
HOSTLESS = {"rdma_verdict", "rdma_report", "rdma_plan"}


def play(hosts, cases, start):
    tasks = [{"name": "%03d" % (start + number), "vhpc.rdma.%s" % module: dict({"root": "{{ guest_root }}"} if module in ROOTED else {}, **args),
              "ignore_errors": True, "ignore_unreachable": True} for number, (module, args, dummy) in enumerate(cases)]
    # The connection to vCenter is written once, here.
    return {"hosts": hosts, "gather_facts": False, "module_defaults": {"group/vhpc.rdma.vsphere": "{{ vhpc_vcenter }}"}, "tasks": tasks}


class Answers:
    def __init__(self, directory) -> None:
        site = Site(directory, [4])
        try:
            self.ready = site.run("site.yml", "-e", "verify_hosts=[]", "--skip-tags", "fabric,verify,report")
            (directory / "bad.yml").write_text(yaml.safe_dump([play(HOST, ESXI, 0), play(VM, GUESTS, len(ESXI))]))
            before = site.world.dump()
            self.run = site.run(str(directory / "bad.yml"), "-e", "wrong=Wr0ng-Secret")
            self.touched = differences(before, site.world.dump())
            lines = [json.loads(line) for line in (directory / "02-bad.jsonl").read_text().splitlines()]
            self.results = {int(line["task"]): line for line in lines if line["event"] == "result"}
        finally:
            site.stop()


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return Answers(tmp_path_factory.mktemp("bad"))


def test_the_site_was_right_before(answers):
    assert answers.ready.code == 0, answers.ready.log[-3000:]


@pytest.mark.parametrize("number", range(len(ESXI) + len(GUESTS)))
def test_the_error_says_what_is_wrong(answers, number):
    module, args, words = (ESXI + GUESTS)[number]
    result = answers.results[number]
    assert result["status"] == "failed", (module, args, result)
    message = result["msg"]
    for word in words:
        assert word in message, (word, message)
    if module not in HOSTLESS and "must be one of" not in message and "/no/such" not in message:
        assert (HOST if number < len(ESXI) else VM) in message, message
    for ugly in ("Traceback", "object is not", "object has no", "invalid literal", "<class", "Exception", "NoneType"):
        assert ugly not in message, message


def test_nothing_was_changed(answers):
    # The mst driver may stay loaded where an earlier run loaded it, and a look at a guest may note what it saw there.
    assert [line for line in answers.touched if "/mst_started" not in line and "/guest/extra/" not in line] == []


def test_there_is_no_traceback_and_no_secret_in_the_log(answers):
    assert "Traceback" not in answers.run.log
    for secret in ("Lab-Vc-1!", "Lab-Bmc-1!", "Wr0ng-Secret"):
        assert secret not in answers.run.log
