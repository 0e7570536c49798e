# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The firmware modules on every kind of card and every width of mlxconfig."""

from __future__ import annotations

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.tools import mlxconfig
from ansible_collections.vhpc.rdma.tests.unit.plugins.action.rig import Rig
from lab import kinds
from lab.world import ETH, IB

HOST = "esxi01"
WITH_LINK_TYPE = sorted(name for name, kind in kinds.KINDS.items() if kind.link_type)
ETHERNET_ONLY = sorted(set(kinds.KINDS) - set(WITH_LINK_TYPE))


def start(*names, **settings):
    return Rig(kinds.build(*names, **settings))


def workload(rig, host=HOST, seat=0):
    return [card for card in rig.world.hosts[host].cards if card.psid != "MT_2420110034"][seat]


def by_psid(name):
    return {"psid": kinds.KINDS[name].psid}


@pytest.mark.parametrize("name", WITH_LINK_TYPE)
def test_every_card_with_link_types_is_set_and_proven(name):
    rig = start(name)
    ports = {port: role for port, role in ((1, "ib"), (2, "roce")) if port <= kinds.KINDS[name].ports}
    job = dict(card=by_psid(name), settings={"ports": ports, "sriov": False})
    done = rig("mlx_firmware", HOST, **job)
    assert not done.get("failed"), done["msg"]
    card = workload(rig)
    assert (card.config["LINK_TYPE_P1"].next, card.config["SRIOV_EN"].next, card.config["FORCE_ETH_PCI_SUBCLASS"].next) == (IB, 0, 0)
    rig.reboot(HOST)
    proof = rig("mlx_firmware_info", HOST, enforce=True, **job)
    assert proof["matches"] is True, proof["msg"]
    again = rig("mlx_firmware", HOST, **job)
    assert (again["changed"], again["reboot_required"]) == (False, False)


@pytest.mark.parametrize("name", ETHERNET_ONLY)
def test_an_ethernet_only_card_cannot_be_infiniband_and_is_ethernet_already(name):
    rig = start(name)
    refused = rig("mlx_firmware", HOST, card=by_psid(name), settings={"ports": {1: "ib"}, "sriov": False})
    assert refused["failed"] and refused["error"]["code"] == "NO_LINK_TYPE" and "Ethernet-only" in refused["msg"]
    assert not rig.writes(HOST)
    job = dict(card=by_psid(name), settings={"ports": {1: "eth", 2: "roce"}, "sriov": False})
    done = rig("mlx_firmware", HOST, **job)
    assert not done.get("failed"), done["msg"]
    assert workload(rig).config["SRIOV_EN"].next == 0
    rig.reboot(HOST)
    assert rig("mlx_firmware_info", HOST, enforce=True, **job)["matches"] is True
    assert rig("mlx_firmware", HOST, **job)["changed"] is False


def test_a_single_port_card_has_no_second_port():
    rig = start("connectx6-vpi-single")
    refused = rig("mlx_firmware", HOST, card=by_psid("connectx6-vpi-single"), settings={"ports": {1: "ib", 2: "roce"}})
    assert refused["failed"] and "no LINK_TYPE_P2 (it shows LINK_TYPE_P1)" in refused["msg"] and not rig.writes(HOST)


@pytest.mark.parametrize("version", ["4.18.1.14", "4.22.1.11", "4.26.1.6", "4.31.0.149", "4.36.0.147"])
@pytest.mark.parametrize("name", ["connectx5-vpi", "connectx7-vpi", "bluefield3-vpi"])
def test_every_width_of_the_tool_says_the_same(name, version):
    rig = Rig(kinds.build(name, mft=version))
    job = dict(card=by_psid(name), settings={"ports": {1: "ib", 2: "roce"}, "sriov": False})
    shown = rig("mlx_firmware_info", HOST, **job)["card"]["parameters"]
    assert (shown["LINK_TYPE_P1"]["current"], shown["NUM_OF_VFS"]["next"], shown["ROCE_CONTROL"]["default"]) == ("ETH(2)", "16", "ROCE_ENABLE(2)")
    done = rig("mlx_firmware", HOST, **job)
    assert not done.get("failed"), done["msg"]
    assert workload(rig).config["LINK_TYPE_P1"].next == IB


@pytest.mark.parametrize("name", sorted(kinds.KINDS))
def test_json_and_text_of_one_card_have_equal_values(name, monkeypatch):
    rig = Rig(kinds.build(name, mft="4.36.0.147"))

    def shown():
        return rig("mlx_firmware_info", HOST, card=by_psid(name))["card"]["parameters"]
    by_json = shown()
    assert " -j /tmp/vhpc-" in rig.execs[-1] and not rig.world.hosts[HOST].tmp  # no file is left
    rig.world.set_fault("tmp_full", HOST)  # no room for the file
    assert shown() == by_json and len(by_json) > 20 and " -j " in rig.execs[-1]
    rig.world.clear_fault("tmp_full", HOST)
    monkeypatch.setattr(mlxconfig, "JSON_SINCE", "99")
    assert shown() == by_json and " -j " not in rig.execs[-1]


def test_a_star_is_not_taken_for_pending():
    """A value that differs from its default keeps its star after the reboot that made it current."""
    rig = start("connectx5-vpi")
    result = rig("mlx_firmware", HOST, card=by_psid("connectx5-vpi"), settings={"ports": {1: "eth", 2: "eth"}})
    assert rig.world.hosts[HOST].cards[1].config["LINK_TYPE_P1"].default == IB
    assert (result["changed"], result["reboot_required"]) == (False, False)


def test_several_cards_are_told_apart_by_serial_pci_mac_and_guid():
    rig = start("connectx6-vpi+connectx6-vpi+connectx5-en")
    refused = rig("mlx_firmware", HOST, card=by_psid("connectx6-vpi"), settings={"ports": {1: "ib"}})
    assert refused["failed"] and refused["error"]["code"] == "SEVERAL_CARDS" and not rig.writes(HOST)
    second = workload(rig, seat=1)
    for selector in ({"serial": second.serial}, {"pci": second.bdf}, {"mac": second.ports[1].mac}, {"guid": second.ports[1].guid},
                     {"guid": ":".join(second.ports[0].guid[at:at + 4] for at in (0, 4, 8, 12))}):
        result = rig("mlx_firmware", HOST, check=True, card=selector, settings={"ports": {1: "ib"}})
        assert not result.get("failed"), result["msg"]
        assert result["card"]["bdf"] == second.bdf
    assert rig("mlx_firmware", HOST, check=True, card={"guid": "12345"}, settings={"ports": {1: "ib"}})["error"]["code"] == "BAD_SELECTOR"
    assert rig("mlx_firmware", HOST, card={"pci": second.bdf}, settings={"ports": {1: "ib"}})["changed"] is True
    assert workload(rig, seat=0).config["LINK_TYPE_P1"].next == ETH and second.config["LINK_TYPE_P1"].next == IB


@pytest.mark.parametrize("name, part", [("oem-dell", "0XNR3W"), ("oem-hpe", "872726-B21"), ("oem-nameless", "")])
def test_oem_cards_go_by_their_own_psid(name, part):
    rig = start(name, nameless=True)
    wrong = rig("mlx_firmware", HOST, card=by_psid("connectx5-vpi"), settings={"ports": {1: "ib"}})
    assert wrong["failed"] and kinds.KINDS[name].psid in wrong["msg"] and not rig.writes(HOST)
    selector = dict(by_psid(name), part_number=part) if part else by_psid(name)
    done = rig("mlx_firmware", HOST, card=selector, settings={"ports": {1: "ib", 2: "eth"}})
    assert done["changed"] is True and done["card"]["description"] not in ("", "N/A") and done["card"]["part_number"] != "N/A"


RAW = {
    "absent": ({"MEMIC_ATOMIC": 1}, "NO_PARAMETER", "does not have this parameter"),
    "read_only": ({"INTERNAL_CPU_MODEL": 1}, "READ_ONLY", "read-only"),
    "too_large": ({"NUM_OF_VFS": 9999}, "OUT_OF_RANGE", "larger than maximum"),
    "negative": ({"NUM_OF_VFS": -4}, "OUT_OF_RANGE", "out of range"),
    "no_boolean": ({"SRIOV_EN": 7}, "OUT_OF_RANGE", "true or false"),
    "no_word": ({"ROCE_CONTROL": "SOMETIMES"}, "OUT_OF_RANGE", "Unknown value"),
    "whole_array": ({"HOST_CHAINING_DESCRIPTORS": 3}, "OUT_OF_RANGE", "one element"),
    "array_index": ({"HOST_CHAINING_DESCRIPTORS[9]": 3}, "NO_PARAMETER", "does not have"),
    "no_name": ({"link type": 3}, "BAD_SETTING", "no name of a firmware parameter"),
}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("case", sorted(RAW))
def test_a_parameter_that_cannot_be_set_is_told_as_what_it_is_before_the_write(case, check):
    rig = start("bluefield3-vpi", mft="4.36.0.147")
    raw, code, words = RAW[case]
    before = {name: (nv.current, nv.next) for name, nv in workload(rig).config.items()}
    refused = rig("mlx_firmware", HOST, check=check, card=by_psid("bluefield3-vpi"), settings={"ports": {1: "ib"}, "raw": raw})
    assert refused["failed"] and refused["error"]["code"] == code and words in refused["msg"], refused["msg"]
    assert {name: (nv.current, nv.next) for name, nv in workload(rig).config.items()} == before


def test_a_hidden_parameter_is_told_as_hidden_and_several_refusals_at_once():
    rig = start("connectx5-vpi")
    workload(rig).config["ADVANCED_PCI_SETTINGS"].next = workload(rig).config["ADVANCED_PCI_SETTINGS"].current = 0
    hidden = rig("mlx_firmware", HOST, card=by_psid("connectx5-vpi"), settings={"raw": {"MAX_ACC_OUT_READ": 16}})
    assert hidden["failed"] and hidden["error"]["code"] == "HIDDEN" and "ADVANCED_PCI_SETTINGS" in hidden["msg"]
    both = rig("mlx_firmware", HOST, card=by_psid("connectx5-vpi"), settings={"raw": {"MAX_ACC_OUT_READ": 16, "SRIOV_EN": 5, "NOT_THERE": 1}})
    assert [one["code"] for one in both["refused"]] == ["HIDDEN", "NO_PARAMETER", "OUT_OF_RANGE"] and not rig.writes(HOST)
    shown = rig("mlx_firmware", HOST, card=by_psid("connectx5-vpi"), settings={"raw": {"MAX_ACC_OUT_READ": 16, "ADVANCED_PCI_SETTINGS": 1}})
    assert not shown.get("failed") and workload(rig).config["MAX_ACC_OUT_READ"].next == 16


def test_raw_values_are_set_by_number_and_by_word():
    rig = start("connectx6-vpi")
    job = dict(card=by_psid("connectx6-vpi"), settings={"raw": {"LINK_TYPE_P1": "IB", "NUM_OF_VFS": "0x4", "SRIOV_EN": True, "HOST_CHAINING_MODE": "BASIC"}})
    done = rig("mlx_firmware", HOST, **job)
    assert not done.get("failed"), done["msg"]
    assert (workload(rig).config["LINK_TYPE_P1"].next, workload(rig).config["NUM_OF_VFS"].next) == (IB, 4)
    assert rig("mlx_firmware", HOST, **job)["changed"] is False


def test_an_unknown_kind_is_an_error_of_the_scenario():
    with pytest.raises(KeyError):
        kinds.build("connectx9")


@pytest.mark.parametrize("module, more", [("mlx_firmware", {"settings": {"ports": {1: "ib"}}}),
                                          ("mlx_firmware_image", {"version": "16.35.4030", "burn_ok": True})])
def test_a_name_that_leads_to_another_card_when_it_comes_to_the_write_is_noticed(module, more):
    """Two alike cards whose mst names change places between the look and the write."""
    rig = start("connectx5-vpi+connectx5-vpi")
    host, second = rig.world.hosts[HOST], workload(rig, seat=1)
    if module == "mlx_firmware_image":
        more = dict(more, image=kinds.image(rig.world, "fw.bin", second.psid, "16.35.4030"))

    def swap(line):
        if "mlxfwmanager -d " in line:  # the look right before the write
            host.mst_order.reverse()
    rig.before = swap
    before = [(card.flash, {name: nv.next for name, nv in card.config.items()}) for card in host.cards]
    refused = rig(module, HOST, card={"pci": second.bdf}, **more)
    assert refused["failed"] and refused["error"]["code"] == "CARD_MOVED" and "nothing was written" in refused["msg"]
    assert [(card.flash, {name: nv.next for name, nv in card.config.items()}) for card in host.cards] == before
    rig.before = None
    assert rig(module, HOST, card={"pci": second.bdf}, **more)["changed"] is True
    assert (second.flash, second.config["LINK_TYPE_P1"].next) == (("16.35.4030", ETH) if module == "mlx_firmware_image" else ("", IB))
