# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The road back, on a host where MFT opens a card in passthrough and on one where it does not; and the road again after it."""

import pytest

from lab.harness import Site, differences

CX5 = "MT_0000000008"
CONSENT = ("-e", "teardown_ok=true")


class Back:
    def __init__(self, directory) -> None:
        self.site = Site(directory, [2, 3])
        world = self.site.world
        try:
            self.there = self.site.run("site.yml", "--skip-tags", "fabric,verify,report")
            self.before = world.dump()
            self.refused = self.site.run("teardown.yml")
            self.after_refusal = world.dump()
            self.check = self.site.run("teardown.yml", "--check", *CONSENT)
            self.after_check = world.dump()
            self.back = self.site.run("teardown.yml", *CONSENT)
            self.torn = world.dump()
            self.again = self.site.run("teardown.yml", *CONSENT)
            self.once_more = self.site.run("site.yml", "--skip-tags", "fabric,verify,report")
            self.rebuilt = world.dump()
        finally:
            self.site.stop()


@pytest.fixture(scope="module")
def back(tmp_path_factory):
    return Back(tmp_path_factory.mktemp("back"))


def test_without_consent_nothing_is_touched(back):
    assert back.there.code == 0, back.there.log[-3000:]
    assert back.refused.code != 0 and all("teardown_ok=true" in text for text in back.refused.failed.values())
    assert set(back.refused.failed) == {"esxi02", "esxi03"}
    assert differences(back.before, back.after_refusal) == []


def test_check_mode_touches_nothing(back):
    assert back.check.code == 0, back.check.log[-3000:]
    assert differences(back.before, back.after_check) == []
    assert set(back.check.summary["changed_hosts"]) == {"esxi02", "esxi03"}


def test_ports_passthrough_and_vm_are_given_back(back):
    assert back.back.code == 0, back.back.log[-3000:]
    for name, host in back.torn["hosts"].items():
        config = next(card for card in host["cards"] if card["psid"] == CX5)["config"]
        assert (config["LINK_TYPE_P1"]["current"], config["LINK_TYPE_P2"]["current"]) == (2, 2), name
        assert not any(state["enabled"] or state["active"] for state in host["passthru"].values()), name
        assert not host["maintenance"] and host["services"]["TSM-SSH"] == back.before["hosts"][name]["services"]["TSM-SSH"]
    for name in ("vm02", "vm03"):
        assert back.torn["vms"][name]["devices"] == [] and back.torn["vms"][name]["power"] == "off"


def test_a_second_reboot_only_where_the_tools_could_not_open_the_card(back):
    boots = {name: host["boots"] - back.before["hosts"][name]["boots"] for name, host in back.torn["hosts"].items()}
    assert boots == {"esxi02": 1, "esxi03": 2}


def test_the_second_time_changes_nothing(back):
    assert back.again.code == 0 and back.again.summary["changed_results"] == 0, back.again.log[-3000:]


def test_the_road_can_be_walked_again(back):
    assert back.once_more.code == 0, back.once_more.log[-3000:]
    for name, host in back.rebuilt["hosts"].items():
        assert host["boots"] - back.torn["hosts"][name]["boots"] == 1, name
        assert sum(state["active"] for state in host["passthru"].values()) == 2, name
    assert all(len(back.rebuilt["vms"][name]["devices"]) == 2 and back.rebuilt["vms"][name]["power"] == "on" for name in ("vm02", "vm03"))
