# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import threading

import pytest

from lab import site
from lab.world import CLASS_ETHERNET, CLASS_INFINIBAND, ETH, IB


@pytest.fixture()
def world():
    made = site.build(16)
    for host in made.hosts.values():
        host.boot_seconds = 0.01
    return made


def reboot(world, name):
    back = threading.Event()
    world.watch(lambda kind, what: back.set() if (kind, what) == ("host", name) and world.hosts[name].state == "on" else None)
    world.reboot_host(name, "test")
    assert back.wait(5)


def test_the_site_is_as_uneven_as_it_says(world):
    hosts = list(world.hosts.values())
    assert sum("mft" not in h.vibs for h in hosts) == 10
    assert sum(h.vibs["mft"].version.startswith("4.18") for h in hosts if "mft" in h.vibs) == 4  # 3 and the one already right
    assert sum(not h.rebind for h in hosts) == 8
    assert sum(bool(h.bmc.pending) for h in hosts) == 4
    assert len({h.cards[1].bdf for h in hosts}) == 4
    hidden = [h.name for h in hosts if h.cards[1].config["FORCE_ETH_PCI_SUBCLASS"].current and "FORCE_ETH_PCI_SUBCLASS" not in h.cards[1].visible()]
    assert hidden == ["esxi14"]


def test_a_reboot_makes_next_current_staged_active_and_tmp_empty(world):
    host = world.hosts["esxi01"]
    card = host.cards[1]
    card.config["LINK_TYPE_P1"].next = IB
    host.staged = dict(host.vibs, mft=site.MFT_418_VIBS[0])
    host.passthru["0000:3b:00.0"].enabled = True
    host.module_options["nmlx5_core"] = "pfctx=0x08"
    host.tmp["x"], host.mst_started, host.services["TSM-SSH"].policy = b"1", True, "on"
    booted = host.boot_time
    assert (card.link_type(1), host.module_running["nmlx5_core"]) == (ETH, "max_vfs=0,0,16,16 pfctx=0x08 pfcrx=0x08 trust_state=2")
    reboot(world, "esxi01")
    assert card.link_type(1) == IB and "mft" in host.vibs and host.staged is None
    assert host.passthru["0000:3b:00.0"].active and host.module_running["nmlx5_core"] == "pfctx=0x08"
    assert host.tmp == {} and not host.mst_started and host.ssh_up and host.boot_time > booted


def test_ssh_that_is_not_on_by_policy_is_down_after_a_reboot(world):
    reboot(world, "esxi01")
    assert not world.hosts["esxi01"].ssh_up


def test_the_pci_class_follows_link_type_and_forced_subclass(world):
    card = world.hosts["esxi14"].cards[1]
    assert card.link_type(1) == IB and card.pci_class(1) == CLASS_ETHERNET
    card.config["FORCE_ETH_PCI_SUBCLASS"].next = 0
    reboot(world, "esxi14")
    assert card.pci_class(1) == CLASS_INFINIBAND and card.pci_class(2) == CLASS_ETHERNET


def test_a_dell_value_without_a_job_survives_no_reboot(world):
    bmc = world.hosts["esxi01"].bmc
    bmc.pending = {"LogicalProc": "Disabled"}
    reboot(world, "esxi01")
    assert bmc.current["LogicalProc"] == "Enabled" and bmc.pending
    bmc.jobs = [dict(id="JID_1", state="Scheduled", message="")]
    reboot(world, "esxi01")
    assert bmc.current["LogicalProc"] == "Disabled" and bmc.jobs[0]["state"] == "Completed"


def test_faults_strike_as_often_as_they_were_told(world):
    world.set_fault("ssh_drop", "esxi01", times=2)
    assert [world.fault("ssh_drop", "esxi01") is not None for dummy in range(3)] == [True, True, False]
    with pytest.raises(ValueError, match="no fault 'nonsense'"):
        world.set_fault("nonsense", "esxi01")


def test_a_card_that_needs_a_power_cycle_keeps_its_next_values_over_a_reboot(world):
    world.set_fault("power_cycle", "esxi01")
    card = world.hosts["esxi01"].cards[1]
    card.config["LINK_TYPE_P1"].next = IB
    reboot(world, "esxi01")
    assert card.link_type(1) == ETH
    world.power_cycle_host("esxi01", "test")
    assert card.link_type(1) == IB


def test_a_host_that_stays_down_stays_down(world):
    world.set_fault("stays_down", "esxi01")
    world.reboot_host("esxi01", "test")
    assert not threading.Event().wait(0.2) and world.hosts["esxi01"].state == "down"


def test_vmnics_are_what_the_ethernet_driver_claims(world):
    host = world.hosts["esxi01"]
    assert sorted(host.vmnics().values()) == ["0000:18:00.0", "0000:18:00.1", "0000:3b:00.0", "0000:3b:00.1"]
    right = world.hosts["esxi04"]
    assert sorted(right.vmnics().values()) == ["0000:18:00.0", "0000:18:00.1"]
