# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Size, reservations and latency of a VM."""

from __future__ import annotations

from types import SimpleNamespace as S

from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import vm_tuning

HOST = dict(name="esxi01", cores=48, sockets=2, mhz=2993, memory_mb=393216)
PAPER = dict(cpus=44, cores_per_socket=None, memory_mb=147456, reserve_memory=True, reserve_cpu=True, latency="high", hot_add=False, extra_config={})


def vm(**changes):
    return dict(dict(power="poweredOff", cpus=20, cores_per_socket=10, memory_mb=65536, locked=False, memory_reservation=0, memory_limit=-1,
                     cpu_reservation=0, cpu_limit=-1, latency="normal", cpu_hot_add=True, memory_hot_add=False, threads=1, cores_per_numa_node=0,
                     affinity=[], hw_version=20, extra={}), **changes)


RIGHT = dict(cpus=44, cores_per_socket=22, memory_mb=147456, locked=True, memory_reservation=147456, cpu_reservation=44 * 2993, latency="high",
             cpu_hot_add=False)


def right(**changes):
    return vm(**dict(RIGHT, **changes))


def plan(machine, host=None, **wanted):
    return vm_tuning.plan("vm01", machine, host or HOST, dict(PAPER, **wanted))


def names(got):
    return [step["name"] for step in got["changes"].steps]


def test_the_papers_vm():
    got = plan(vm())
    assert names(got) == ["vCPUs", "cores per socket", "memory MB", "memory reservation", "CPU reservation MHz", "latency sensitivity", "CPU hot add"]
    assert got["spec"] == dict(numCPUs=44, numCoresPerSocket=22, memoryMB=147456, memoryReservationLockedToMax=True, memory=dict(reservation=147456, limit=-1),
                               cpu=dict(reservation=131692, limit=-1), latency="high", cpuHotAddEnabled=False)
    assert not got["problems"] and not got["power_off"]


def test_nothing_the_second_time_on_or_off():
    for power in ("poweredOff", "poweredOn"):
        got = plan(vm(power=power, **RIGHT))
        assert not got["changes"].changed and not got["spec"] and not got["power_off"]


def test_the_reservation_follows_the_memory():
    got = plan(right(memory_mb=131072, memory_reservation=131072))
    assert names(got) == ["memory MB"] and got["spec"]["memory"] == dict(reservation=147456, limit=-1)
    assert "memory reservation" in names(plan(right(memory_limit=65536)))


def test_a_reservation_alone_is_taken_by_a_running_vm():
    got = plan(right(power="poweredOn", cpu_reservation=1000))
    assert names(got) == ["CPU reservation MHz"] and not got["power_off"]
    assert plan(right(power="poweredOn", latency="normal"))["power_off"]


def test_what_the_host_cannot_give_all_at_once():
    got = plan(vm(), cpus=52, memory_mb=400002)
    text = "; ".join(got["problems"])
    for words in ("52 vCPUs, each with a core of its own, do not fit the 48 cores of esxi01", "400002 MB is no multiple of 4 MB", "do not fit the 393216 MB"):
        assert words in text
    assert "MHz of esxi01" in plan(vm(), cpus=52, latency="normal")["problems"][0]
    assert "needs the whole memory" in plan(vm(), reserve_cpu=False)["problems"][0]
    assert "do not fit sockets of 10" in plan(vm(), cores_per_socket=10)["problems"][0]


def test_sockets():
    assert plan(vm(), cpus=45)["spec"]["numCoresPerSocket"] == 45
    assert "numCoresPerSocket" not in plan(vm(), cpus=None)["spec"]
    assert plan(vm(), cores_per_socket=11)["spec"]["numCoresPerSocket"] == 11


def test_high_with_hyperthreading_reserves_a_core_for_two():
    got = plan(vm(), cpus=88, latency="high_with_hyperthreading")
    assert not got["problems"] and got["spec"]["cpu"] == dict(reservation=44 * 2993, limit=-1)
    assert got["spec"]["latency"] == "high" and got["spec"]["simultaneousThreads"] == 2
    assert "hardware version 20" in plan(vm(hw_version=19), latency="high_with_hyperthreading")["problems"][0]
    assert "vSphere 8.0" in plan(vm(), dict(HOST, api=(7, 0, 3)), latency="high_with_hyperthreading")["problems"][0]
    assert "in pairs" in plan(vm(), cpus=45, latency="high_with_hyperthreading")["problems"][0]
    assert "two to a core, do not fit the 48" in plan(vm(), cpus=98, latency="high_with_hyperthreading")["problems"][0]
    assert plan(right(threads=2))["spec"]["simultaneousThreads"] == 1


def test_profiles_and_settings_left_alone():
    options = dict(PAPER, profile="hpc", leave=[], reserve_memory=None, reserve_cpu=None, latency=None, hot_add=None)
    assert vm_tuning.with_profile(options)["latency"] == "high" and vm_tuning.with_profile(dict(options, latency="normal"))["latency"] == "normal"
    none = vm_tuning.with_profile(dict(options, profile="none", cpus=None, memory_mb=None))
    assert not vm_tuning.plan("vm01", vm(), HOST, none)["changes"].changed
    left = vm_tuning.with_profile(dict(options, leave=["latency", "hot_add"]))
    assert names(vm_tuning.plan("vm01", vm(), HOST, left)) == ["vCPUs", "cores per socket", "memory MB", "memory reservation", "CPU reservation MHz"]
    every = vm_tuning.with_profile(dict(options, cpus=None, memory_mb=None, leave=list(vm_tuning.SETTINGS)))
    assert not vm_tuning.plan("vm01", vm(), HOST, every)["changes"].changed


def test_numa_and_affinity():
    got = plan(vm(extra={"numa.nodeAffinity": "1"}), numa_affinity=[0], prefer_hyperthreads=True, cores_per_numa_node=22)
    assert got["spec"]["extra"] == {"numa.nodeAffinity": "0", "numa.vcpu.preferHT": "TRUE"} and got["spec"]["coresPerNumaNode"] == 22
    assert plan(vm(extra={"numa.nodeAffinity": "1"}), numa_affinity=[])["spec"]["extra"] == {"numa.nodeAffinity": ""}
    assert "exclude each other" in plan(vm(), cpu_affinity=[0, 1])["problems"][0]
    got = plan(vm(affinity=[0]), cpu_affinity=[3, 2, 3], latency="normal")
    assert got["spec"]["cpuAffinity"] == [2, 3] and not got["problems"]
    assert "cpuAffinity" not in plan(vm(affinity=[2, 3]), cpu_affinity=[3, 2], latency="normal")["spec"]


def test_extra_config_is_merged_by_key():
    machine = vm(extra={"numa.autosize.cookie": "442", "keep": "1", "old": "x"}, **RIGHT)
    got = plan(machine, extra_config={"numa.vcpu.preferHT": True, "keep": 1, "old": None, "gone": None})
    assert got["spec"] == {"extra": {"numa.vcpu.preferHT": "TRUE", "old": ""}}
    assert names(got) == ["extra config numa.vcpu.preferHT", "extra config old"]


def test_mhz_is_rounded_up():
    row = {"name": "h", "hardware.cpuInfo": S(hz=2992968001, numCpuCores=48, numCpuPackages=2), "hardware.memorySize": 384 << 30,
           "summary.hardware": S(cpuMhz=2992)}
    assert vm_tuning.host_plain(row) == dict(name="h", cores=48, sockets=2, mhz=2993, memory_mb=393216)


def test_unlike():
    assert vm_tuning.unlike("vm01", vm(**RIGHT), HOST, PAPER) == []
    assert vm_tuning.unlike("vm01", right(latency="normal"), HOST, PAPER) == ["latency sensitivity is normal, not high"]


def test_room_beside_the_reservations_of_others():
    host = dict(name="esxi01", cores=48, mhz=2993, memory_mb=393216)

    def other(name, cpu, memory):
        return dict(name=name, on=True, cpu=cpu, memory=memory)

    spec = dict(cpu=dict(reservation=131692, limit=-1), memory=dict(reservation=147456, limit=-1))
    free = 48 * 2993 - 131692
    assert vm_tuning.no_room(spec, host, [other("a", free, 393216 - 147456)]) == [] == vm_tuning.no_room({}, host, [other("a", 10 ** 6, 10 ** 6)])
    assert vm_tuning.no_room(spec, host, []) == []
    cpu, = vm_tuning.no_room(spec, host, [other("a", 1, 0), other("b", free, 0)])
    assert cpu == "131692 MHz to reserve do not fit the 131691 of 143664 MHz that are left on esxi01: b holds %d, a holds 1" % free
    memory, = vm_tuning.no_room(dict(memory=spec["memory"]), host, [other("vm%d" % n, 0, 60000) for n in range(7)])
    assert "the 0 of 393216 MB" in memory and memory.endswith("and 2 more VMs the rest")
