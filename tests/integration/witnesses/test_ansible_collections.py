# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules and inventories of community.vmware and vmware.vmware against the lab, side by side with ours.

Each reads what our module set, sets what ours then reports unchanged, and is itself unchanged the second time. What they say is
held against the world: some of them report success with empty data.
"""

from __future__ import annotations

IB, ROCE = "0000:3b:00.0", "0000:3b:00.1"
HOST, VM = "esxi02", "vm02"  # a host that rebinds devices without a reboot


def test_vmware_host_passthrough(rehearsal):
    rehearsal.free(HOST)

    def ours(state):
        return "vhpc.rdma.host_passthru", dict(rehearsal.ours, esxi_hostname=HOST, devices=[{"card": IB}], state=state)

    def theirs(state, *devices):
        return "community.vmware.vmware_host_passthrough", dict(rehearsal.theirs, esxi_hostname=HOST, state=state, devices=[{"device": one} for one in devices])
    results = rehearsal.good(ours("enabled"), theirs("present", IB, ROCE), theirs("absent", IB, ROCE), theirs("absent", IB, ROCE), ours("disabled"),
                             theirs("present", IB), ours("enabled"))
    assert [one["changed"] for one in results] == [True, False, True, False, False, True, True]
    state = rehearsal.world.hosts[HOST].passthru
    assert state[IB].active and state[ROCE].active
    unknown, used = rehearsal.tasks(theirs("present", "0000:99:00.0"), theirs("present", "0000:18:00.0"))
    assert unknown["failed"] and used["failed"] and "vSwitch0" in used["msg"]
    assert not state["0000:18:00.0"].enabled


def test_vmware_host_powermgmt_policy(rehearsal):
    def ours(policy):
        return "vhpc.rdma.host_power_policy", dict(rehearsal.ours, esxi_hostname=HOST, policy=policy)

    def theirs(policy):
        return "community.vmware.vmware_host_powermgmt_policy", dict(rehearsal.theirs, esxi_hostname=HOST, policy=policy)
    results = rehearsal.good(ours("static"), theirs("high-performance"), theirs("low-power"), theirs("low-power"), ours("low"))
    assert [one["changed"] for one in results] == [True, False, True, False, False]
    said = [one["result"][HOST] for one in results[1:4]]
    assert [(one.get("current_state"), one["msg"]) for one in said] == [
        ("high-performance", "Power policy is already configured"), ("low-power", "Power policy changed"), ("low-power", "Power policy is already configured")]
    assert rehearsal.world.hosts[HOST].power_policy == 3


def test_vmware_host_kernel_manager(rehearsal):
    def theirs(options, module="nmlx5_core"):
        return "community.vmware.vmware_host_kernel_manager", dict(rehearsal.theirs, esxi_hostname=HOST, kernel_module_name=module,
                                                                   kernel_module_option=options)

    def ours(options):
        return "vhpc.rdma.nmlx_driver", dict(options={"nmlx5_core": options})
    first = rehearsal.good(ours({"max_vfs": "absent", "trust_state": "1"}), hosts=HOST)
    kept = rehearsal.world.hosts[HOST].module_options["nmlx5_core"]
    assert first[0]["changed"] and "trust_state=1" in kept and "max_vfs" not in kept
    read, changed, again = rehearsal.good(theirs(kept), theirs("pfctx=0x08 trust_state=2"), theirs("pfctx=0x08 trust_state=2"))
    assert (read["changed"], changed["changed"], again["changed"]) == (False, True, False)
    assert changed["host_kernel_status"][HOST]["original_options"] == kept  # an ok without this key would be the false pass
    assert rehearsal.world.hosts[HOST].module_options["nmlx5_core"] == "pfctx=0x08 trust_state=2"
    last = rehearsal.good(ours({"pfctx": "0x08", "trust_state": "2"}), hosts=HOST)
    assert not last[0]["changed"]
    unknown, = rehearsal.tasks(theirs("", module="nmlx9_core"))
    assert unknown["failed"] and "nmlx9_core" in unknown["msg"]


def test_vmware_guest_info_reads_what_ours_set(rehearsal):
    rehearsal.free(HOST)
    devices = [{"pci": IB}, {"pci": ROCE}]
    results = rehearsal.good(
        ("vhpc.rdma.host_passthru", dict(rehearsal.ours, esxi_hostname=HOST, devices=devices)),
        ("vhpc.rdma.vm_tuning", dict(rehearsal.ours, name=VM, cpus=44, cores_per_socket=22, memory_mb=147456, extra_config={"numa.vcpu.preferHT": "TRUE"})),
        ("vhpc.rdma.vm_passthru", dict(rehearsal.ours, name=VM, devices=devices)),
        ("vhpc.rdma.vm_power", dict(rehearsal.ours, name=VM, state="on")),
        ("community.vmware.vmware_guest_info", dict(rehearsal.theirs, datacenter="HPC", name=VM)),
        ("community.vmware.vmware_guest_info", dict(rehearsal.theirs, datacenter="HPC", uuid=rehearsal.world.vms[VM].uuid, schema="vsphere",
                                                    properties=["config.hardware", "config.memoryAllocation", "config.latencySensitivity",
                                                                "config.extraConfig"])))
    assert all(one["changed"] for one in results[:4])
    found = results[4]["instance"]
    assert (found["hw_name"], found["hw_processor_count"], found["hw_cores_per_socket"], found["hw_memtotal_mb"]) == (VM, 44, 22, 147456)
    assert (found["hw_power_status"], found["hw_esxi_host"], found["hw_cluster"]) == ("poweredOn", HOST, "hpc-cluster")
    assert found["hw_eth0"]["macaddress"] == rehearsal.world.vms[VM].mac
    raw = results[5]["instance"]["config"]
    assert raw["memoryAllocation"]["reservation"] == 147456 and raw["latencySensitivity"]["level"] == "high"
    assert [one["backing"]["id"] for one in raw["hardware"]["device"] if one["_vimtype"] == "vim.vm.device.VirtualPCIPassthrough"] == [IB, ROCE]
    assert {"key": "numa.vcpu.preferHT", "value": "TRUE"}.items() <= next(one for one in raw["extraConfig"] if one["key"] == "numa.vcpu.preferHT").items()
    missing, = rehearsal.tasks(("community.vmware.vmware_guest_info", dict(rehearsal.theirs, datacenter="HPC", name="nobody")))
    assert missing["failed"]


def test_vmware_host_facts(rehearsal):
    facts, = rehearsal.good(("community.vmware.vmware_host_facts", dict(rehearsal.theirs, esxi_hostname=HOST, show_datacenter=True)))
    found, host = facts["ansible_facts"], rehearsal.world.hosts[HOST]
    assert (found["ansible_hostname"], found["ansible_distribution_version"], found["ansible_distribution_build"]) == (HOST, host.version, host.build)
    assert (found["ansible_processor_cores"], found["ansible_memtotal_mb"], found["ansible_uuid"]) == (48, 393216, host.uuid)
    assert (found["datacenter"], found["cluster"], found["ansible_interfaces"]) == ("HPC", "hpc-cluster", ["vmk0", "vmk1"])
    assert found["ansible_in_maintenance_mode"] is False


def test_maintenance_modes_of_both_collections(rehearsal):
    def community(state):
        return "community.vmware.vmware_maintenancemode", dict(rehearsal.theirs, esxi_hostname=HOST, state=state, timeout=60, evacuate=False)

    def vmware(enable):
        return "vmware.vmware.esxi_maintenance_mode", dict(rehearsal.theirs, name=HOST, enable_maintenance_mode=enable, timeout=60)
    results = rehearsal.good(community("present"), community("present"), vmware(True), vmware(False), vmware(False), community("absent"))
    assert [one["changed"] for one in results] == [True, False, False, True, False, False]
    assert not rehearsal.world.hosts[HOST].maintenance
    asked = [line["what"] for line in rehearsal.world.journal if line["face"] == "vsphere" and "MaintenanceMode_Task" in line["what"]]
    assert asked == ["EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task"]


def test_services_options_and_acceptance(rehearsal):
    def service(state=None, policy=None):
        return "community.vmware.vmware_host_service_manager", dict(rehearsal.theirs, esxi_hostname=HOST, service_name="TSM-SSH", state=state or "present",
                                                                    **({"service_policy": policy} if policy else {}))

    def ours(**wanted):
        return "vhpc.rdma.esxi_service", dict(rehearsal.ours, esxi_hostname=HOST, service="TSM-SSH", **wanted)
    results = rehearsal.good(
        ours(running=True, policy="on"), service("present", "on"), service("absent"), service("absent"), ours(running=False),
        ("community.vmware.vmware_host_service_info", dict(rehearsal.theirs, esxi_hostname=HOST)),
        ("community.vmware.vmware_host_package_info", dict(rehearsal.theirs, esxi_hostname=HOST)),
        ("community.vmware.vmware_host_acceptance", dict(rehearsal.theirs, esxi_hostname=HOST, state="partner")),
        ("community.vmware.vmware_host_config_manager", dict(rehearsal.theirs, esxi_hostname=HOST, options={"UserVars.SuppressShellWarning": 1})),
        ("community.vmware.vmware_host_config_manager", dict(rehearsal.theirs, esxi_hostname=HOST, options={"UserVars.SuppressShellWarning": 1})))
    assert [one["changed"] for one in results[:5]] == [True, False, True, False, False]
    assert not rehearsal.world.hosts[HOST].services["TSM-SSH"].running
    services = {one["key"]: one for one in results[5]["host_service_info"][HOST]}
    assert services["TSM-SSH"]["running"] is False and services["TSM-SSH"]["policy"] == "on"
    packages = {one["name"]: one["version"] for one in results[6]["hosts_package_info"][HOST]}
    assert packages["mft"] == "4.18.1.14-0" and "nmlx5-core" in packages
    assert results[7]["changed"] is False and results[7]["facts"][HOST]["level"] == "partner"
    assert [one["changed"] for one in results[8:]] == [True, False]
    assert rehearsal.world.hosts[HOST].settings["options"]["UserVars.SuppressShellWarning"] == 1


def test_power_state_of_a_vm(rehearsal):
    def theirs(state):
        return "community.vmware.vmware_guest_powerstate", dict(rehearsal.theirs, datacenter="HPC", name=VM, state=state)

    def ours(state):
        return "vhpc.rdma.vm_power", dict(rehearsal.ours, name=VM, state=state, power_off_ok=True)
    results = rehearsal.good(ours("on"), theirs("powered-on"), theirs("powered-off"), theirs("powered-off"), ours("off"))
    assert [one["changed"] for one in results] == [True, False, True, False, False]
    assert rehearsal.world.vms[VM].power == "off"


def test_inventories(rehearsal):
    rehearsal.world.vms[VM].power = "on"
    found = rehearsal.inventory("vmware.vmware.vms", group_by_paths=True, hostnames=["config.name"])
    hosts = found["_meta"]["hostvars"]
    assert {name.split("_")[0] for name in hosts} >= {"vm01", VM} and len(hosts) == 3
    assert any(name.endswith("HPC_vm") for name in found)
    found = rehearsal.inventory("vmware.vmware.esxi_hosts", group_by_paths=True)
    assert set(found["_meta"]["hostvars"]) == {"esxi01", "esxi02"}
    assert any("hpc_cluster" in name or "hpc-cluster" in name for name in found)
