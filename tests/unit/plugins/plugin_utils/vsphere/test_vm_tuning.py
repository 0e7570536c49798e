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
                     cpu_reservation=0, cpu_limit=-1, latency="normal", cpu_hot_add=True, memory_hot_add=False, extra={}), **changes)


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
