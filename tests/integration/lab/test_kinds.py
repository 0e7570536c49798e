# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The kinds of host that the first four do not show, side by side: plan against reality, and the reboots that each kind costs."""

import pytest

from ansible_collections.vhpc.rdma.plugins.plugin_utils import plan

from lab.harness import Site, differences

# 4: already right, made to wait for a BIOS setting; 5: a BIOS setting is wrong and no MFT; 6: newer MFT, waits for a BIOS setting, MFT cannot open a
# card in passthrough; 8: no MFT, rebinds without a reboot; 9: MFT 4.18, waits for BIOS, MFT cannot open the card, mlxconfig names no part;
# 12: newer MFT, the card elsewhere, 7.0 U3; 14: followed the paper, FORCE_ETH_PCI_SUBCLASS=1 is hidden.
REBOOTS = {"esxi04": 1, "esxi05": 2, "esxi06": 1, "esxi08": 2, "esxi09": 1, "esxi12": 1, "esxi14": 1}


def prepare(world) -> None:
    bmc = world.hosts["esxi04"].bmc
    bmc.current["ProcVirtualization"] = "Disabled"
    bmc.pending = {"ProcVirtualization": "Enabled"}
    bmc.jobs = [{"id": "JID_400000000004", "state": "Scheduled", "message": "JCP001"}]


class Kinds:
    def __init__(self, directory) -> None:
        self.site = Site(directory, [int(name[4:]) for name in REBOOTS], prepare)
        try:
            world = self.site.world
            untouched = world.dump()
            self.plan = self.site.run("plan.yml")
            self.touched = differences(untouched, world.dump())
            self.first = self.site.run("site.yml")
            self.boots = {name: host.boots for name, host in world.hosts.items()}
            self.done = world.dump()
            self.second_plan = self.site.run("plan.yml")
        finally:
            self.site.stop()


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return Kinds(tmp_path_factory.mktemp("kinds"))


def test_the_plan_touches_nothing(kinds):
    assert kinds.plan.code == 0, kinds.plan.log[-3000:]
    assert kinds.touched == []


def test_the_run_ends_well(kinds):
    assert kinds.first.code == 0, kinds.first.log[-3000:]


def test_reboots_are_exactly_the_needed_ones_and_were_planned(kinds):
    planned = kinds.plan.file("plan.json")["reboots"]
    assert {host: planned.get(host, 0) for host in REBOOTS} == REBOOTS
    assert kinds.boots == REBOOTS


def test_the_plan_is_held_by_what_happened(kinds):
    assert plan.against(kinds.plan.file("plan.json"), kinds.first.file("done.json")) == []


def test_after_the_run_the_plan_is_empty(kinds):
    assert kinds.second_plan.code == 0
    assert kinds.second_plan.file("plan.json")["empty"], kinds.second_plan.log[-3000:]


def test_every_kind_ends_up_the_same(kinds):
    for name, host in kinds.done["hosts"].items():
        card = next(c for c in host["cards"] if c["psid"] == "MT_0000000008")
        current = {key: nv["current"] for key, nv in card["config"].items()}
        assert (current["LINK_TYPE_P1"], current["LINK_TYPE_P2"], current["SRIOV_EN"], current["FORCE_ETH_PCI_SUBCLASS"]) == (1, 2, 0, 0), name
        assert host["bmc"]["pending"] == {} and host["bmc"]["current"]["ProcVirtualization"] == "Enabled", name
        assert host["bmc"]["current"]["SysProfile"] == "PerfPerWattOptimizedOs", name
