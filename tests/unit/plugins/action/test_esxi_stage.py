# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The actions of the ESXi stage against the lab's ESXi shell, without SSH between them."""

from __future__ import annotations

import hashlib
import time

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.vhpc.rdma.tests.unit.plugins.action.rig import Rig
from lab import site
from lab.world import CLASS_INFINIBAND, ETH, IB, Passthru, Vib

CARD = {"psid": "MT_0000000008"}
PAPER = {"ports": {1: "ib", 2: "roce"}, "sriov": False}
STORE = "/vmfs/volumes/%s/" % site.DATASTORE
MFT_FILE, NMST_FILE, DRIVER_FILE = (STORE + path for path in site.FILES)
TOOLS = [{"name": "mft", "version": "4.18.1.14", "source": MFT_FILE}, {"name": "nmst", "version": "4.18.1.14", "source": NMST_FILE}]
# What is special about hosts of the site: see lab/site.py
NO_MFT, WITH_MFT, RIGHT, NEWER, ELSEWHERE, HIDES = "esxi01", "esxi02", "esxi04", "esxi06", "esxi12", "esxi14"


@pytest.fixture(name="rig")
def _rig():
    world = site.build(16)
    for host in world.hosts.values():
        host.boot_seconds = 0.01
    return Rig(world)


def vpi(rig, host):
    return next(card for card in rig.world.hosts[host].cards if card.vpi)


def values(card, *names):
    return {name: (card.config[name].current, card.config[name].next) for name in names}


def steps(result):
    return {step["name"]: (step["before"], step["after"], step["certainty"]) for step in result["changes"]}


# ---- mlx_firmware -----------------------------------------------------------------------------------------------------

def test_firmware_is_set_once_and_is_then_only_pending(rig):
    planned = rig("mlx_firmware", WITH_MFT, check=True, card=CARD, settings=PAPER)
    assert not rig.writes(WITH_MFT) and rig.world.hosts[WITH_MFT].mst_started is False
    done = rig("mlx_firmware", WITH_MFT, card=CARD, settings=PAPER)
    assert not done.get("failed"), done["msg"]
    assert planned["changes"] == done["changes"] and planned["reboot_reasons"] == done["reboot_reasons"]
    assert steps(done)["LINK_TYPE_P1"] == ("ETH(2)", "IB(1)", "sure") and "LINK_TYPE_P2" not in steps(done)
    assert len([line for line in rig.writes(WITH_MFT) if "mlxconfig" in line]) == 1
    assert values(vpi(rig, WITH_MFT), "LINK_TYPE_P1", "SRIOV_EN", "FORCE_ETH_PCI_SUBCLASS", "ADVANCED_PCI_SETTINGS") == {
        "LINK_TYPE_P1": (ETH, IB), "SRIOV_EN": (1, 0), "FORCE_ETH_PCI_SUBCLASS": (1, 0), "ADVANCED_PCI_SETTINGS": (1, 0)}
    again = rig("mlx_firmware", WITH_MFT, card=CARD, settings=PAPER)
    assert again["changed"] is False and again["reboot_required"] is True
    assert any("LINK_TYPE_P1 is set to IB(1) but runs as ETH(2)" in reason for reason in again["reboot_reasons"])
    rig.reboot(WITH_MFT)
    after = rig("mlx_firmware", WITH_MFT, card=CARD, settings=PAPER, rebooted=True)
    assert (after["changed"], after["reboot_required"], after["power_cycle_required"]) == (False, False, False)
    proof = rig("mlx_firmware_info", WITH_MFT, card=CARD, settings=PAPER, rebooted=True, enforce=True)
    assert proof["matches"] is True and proof["card"]["functions"][0]["class"] == "0x%04x" % CLASS_INFINIBAND


def test_right_card_costs_three_round_trips_and_leaves_mst_as_it_was(rig):
    result = rig("mlx_firmware", RIGHT, card=CARD, settings=PAPER)
    assert (result["changed"], result["reboot_required"], result["verified"]) == (False, False, True)
    assert result["execs"] == 3 and rig.world.hosts[RIGHT].mst_started is False
    rig.world.hosts[RIGHT].mst_started = True
    result = rig("mlx_firmware", RIGHT, card=CARD, settings=PAPER)
    assert result["execs"] == 2 and rig.world.hosts[RIGHT].mst_started is True


def test_card_is_found_where_it_is_not_where_the_paper_had_it(rig):
    result = rig("mlx_firmware", ELSEWHERE, card=CARD, settings=PAPER)
    assert result["card"]["bdf"] == "0000:18:00.0" and result["mst_device"] == "mt4119_pciconf0"
    lx = next(card for card in rig.world.hosts[ELSEWHERE].cards if not card.vpi)
    assert all(nv.current == nv.next for nv in lx.config.values())


def test_hidden_force_eth_is_shown_cleared_and_hidden_again(rig):
    planned = rig("mlx_firmware", HIDES, check=True, card=CARD, settings=PAPER)
    assert steps(planned) == {"FORCE_ETH_PCI_SUBCLASS": ("True(1)", "False(0)", "sure")}
    assert not rig.writes(HIDES)
    done = rig("mlx_firmware", HIDES, card=CARD, settings=PAPER)
    assert not done.get("failed"), done["msg"]
    assert steps(done) == steps(planned) and done["reboot_required"] is True
    assert values(vpi(rig, HIDES), "FORCE_ETH_PCI_SUBCLASS", "ADVANCED_PCI_SETTINGS") == {"FORCE_ETH_PCI_SUBCLASS": (1, 0), "ADVANCED_PCI_SETTINGS": (0, 0)}
    again = rig("mlx_firmware", HIDES, card=CARD, settings=PAPER)
    assert again["changed"] is False and again["reboot_required"] is True
    before = rig("mlx_firmware_info", HIDES, card=CARD, settings=PAPER)
    assert before["matches"] is False and before["differences"][0]["name"] == "FORCE_ETH_PCI_SUBCLASS"
    rig.reboot(HIDES)
    assert rig("mlx_firmware", HIDES, card=CARD, settings=PAPER)["reboot_required"] is False
    assert rig("mlx_firmware_info", HIDES, card=CARD, settings=PAPER, enforce=True)["matches"] is True


def test_management_card_is_refused_before_any_write(rig):
    result = rig("mlx_firmware", WITH_MFT, card={"psid": "MT_2420110034"}, settings={"raw": {"SRIOV_EN": 1}})
    assert result["failed"] and result["error"]["code"] == "MANAGEMENT_CARD" and "vmk0" in result["msg"]
    assert not rig.writes(WITH_MFT) and rig.world.hosts[WITH_MFT].mst_started is False
    # an Ethernet-only card has no LINK_TYPE
    result = rig("mlx_firmware", WITH_MFT, card={"psid": "MT_2420110034"}, settings=PAPER, allow_management_card=True)
    assert result["failed"] and result["error"]["code"] == "NO_LINK_TYPE" and "MT_2420110034" in result["msg"]


def test_wrong_psid_is_refused_before_any_write(rig):
    rig.world.set_fault("wrong_psid", WITH_MFT)
    result = rig("mlx_firmware", WITH_MFT, card=CARD, settings=PAPER)
    assert result["failed"] and result["error"]["code"] == "NO_CARD" and "DEL0000000023" in result["msg"] and WITH_MFT in result["msg"]
    assert not rig.writes(WITH_MFT)


def test_power_cycle_is_a_verdict_and_no_reboot_loop(rig):
    rig.world.set_fault("power_cycle", WITH_MFT)
    done = rig("mlx_firmware", WITH_MFT, card=CARD, settings=PAPER)
    assert done["changed"] is True and not done.get("failed")
    rig.reboot(WITH_MFT)
    after = rig("mlx_firmware", WITH_MFT, card=CARD, settings=PAPER, rebooted=True)
    assert (after["changed"], after["reboot_required"], after["power_cycle_required"]) == (False, False, True)
    proof = rig("mlx_firmware_info", WITH_MFT, card=CARD, settings=PAPER, rebooted=True, enforce=True)
    assert proof["failed"] and proof["error"]["code"] == "POWER_CYCLE" and "cold power cycle" in proof["msg"]


def test_power_cycle_is_known_in_a_later_run_too(rig, tmp_path):
    rig.world.set_fault("power_cycle", WITH_MFT)
    job = dict(card=CARD, settings=PAPER, state_file=str(tmp_path / "a" / "b.json"))
    assert rig("mlx_firmware", WITH_MFT, **job)["reboot_required"] is True or rig.world.hosts[WITH_MFT].cards[1].needs_power_cycle
    assert rig("mlx_firmware", WITH_MFT, **job)["power_cycle_required"] is False  # no reboot yet
    time.sleep(0.3)
    rig.reboot(WITH_MFT)
    late = rig("mlx_firmware", WITH_MFT, **job)
    assert (late["changed"], late["reboot_required"], late["power_cycle_required"]) == (False, False, True)
    vpi(rig, WITH_MFT).load_next()
    assert rig("mlx_firmware", WITH_MFT, **job)["power_cycle_required"] is False
    assert (tmp_path / "a" / "b.json").read_text() == "{}"


def test_without_mft_check_mode_is_conditional_and_apply_an_error(rig):
    planned = rig("mlx_firmware", NO_MFT, check=True, card=CARD, settings=PAPER)
    assert not planned.get("failed") and planned["reboot_required"] is False
    assert {step["certainty"] for step in planned["changes"]} == {"conditional"} and "not installed" in planned["changes"][0]["reason"]
    failed = rig("mlx_firmware", NO_MFT, card=CARD, settings=PAPER)
    assert failed["failed"] and failed["error"]["code"] == "NO_MFT"
    assert rig("mlx_firmware_info", NO_MFT, check=True, card=CARD, settings=PAPER, enforce=True)["matches"] is None


def test_card_that_passthrough_owns(rig):
    host = rig.world.hosts[RIGHT]
    host.mft_reaches_passthru = False
    for name, settings in (("mlx_firmware", PAPER), ("mlx_firmware", {"ports": {1: "eth", 2: "eth"}})):
        result = rig(name, RIGHT, card=CARD, settings=settings)
        assert (result.get("failed"), result["changed"], result["reachable"], result["verified"]) == (None, False, False, False)
        assert "link layer in the guest" in result["warnings"][0]
    proof = rig("mlx_firmware_info", RIGHT, card=CARD, settings=PAPER, enforce=True)
    assert (proof.get("failed"), proof["matches"], proof["reachable"]) == (None, None, False)
    host.mft_reaches_passthru = True
    assert rig("mlx_firmware_info", RIGHT, card=CARD, settings=PAPER, enforce=True)["matches"] is True


def test_ssh_that_drops_in_the_middle_is_named_and_a_later_run_finishes(rig):
    rig.drop_at = 4  # reading, query, identity, then the set
    lost = rig("mlx_firmware", WITH_MFT, card=CARD, settings=PAPER)
    assert lost["failed"] and lost["error"]["code"] == "SSH_LOST" and WITH_MFT in lost["msg"] and "mlxconfig" in lost["msg"]
    rig.drop_at = None
    done = rig("mlx_firmware", WITH_MFT, card=CARD, settings=PAPER)
    assert done["changed"] is True and not done.get("failed")


@pytest.mark.parametrize("host", [WITH_MFT, HIDES])
@pytest.mark.parametrize("effect", [True, False])
def test_wherever_the_connection_drops_the_next_run_ends_in_the_same_state(host, effect):
    """On a card that takes one set, and on one whose hidden parameter takes two."""
    def run(at):
        rig = Rig(site.build(16))
        rig.drop_after, rig.drop_at = (at, None) if effect else (None, at)
        try:
            first = rig("mlx_firmware", host, card=CARD, settings=PAPER)
        except AnsibleConnectionFailure:  # before the first answer: unreachable
            first = {"failed": True}
        total = len(rig.execs)
        rig.drop_after = rig.drop_at = None
        last = rig("mlx_firmware", host, card=CARD, settings=PAPER) if first.get("failed") else first
        assert not last.get("failed"), (at, last["msg"])
        card = vpi(rig, host)
        written = [entry["what"].split(": ")[1].split() for entry in rig.world.journal if entry["face"] == "mft" and entry["what"].startswith("card")]
        for name in card.config:
            of_it = [pair for pairs in written for pair in pairs if pair.startswith(name + "=")]
            assert all(one != other for one, other in zip(of_it, of_it[1:])), (at, of_it)
        return {name: nv.next for name, nv in card.config.items()}, total
    expected, total = run(None)
    assert total >= 5
    for at in range(1, total + 1):
        assert run(at)[0] == expected, at


# ---- esxi_software ----------------------------------------------------------------------------------------------------

def test_tools_are_installed_in_one_call_then_pending_then_done(rig):
    planned = rig("esxi_software", NO_MFT, check=True, packages=TOOLS)
    assert not planned.get("failed"), planned["msg"]
    assert planned["blocking"] is True and planned["reboot_required"] is True and not rig.writes(NO_MFT)
    done = rig("esxi_software", NO_MFT, packages=TOOLS)
    assert not done.get("failed"), done["msg"]
    assert done["changes"] == planned["changes"] and len(done["results"]) == 1
    assert done["vibs"]["mft"] == {"running": "", "next": "4.18.1.14-0"}
    again = rig("esxi_software", NO_MFT, packages=TOOLS)
    assert (again["changed"], again["reboot_required"], again["blocking"]) == (False, True, True)
    rig.reboot(NO_MFT)
    after = rig("esxi_software", NO_MFT, packages=TOOLS)
    assert (after["changed"], after["reboot_required"], after["blocking"], after["execs"]) == (False, False, False, 1)


def test_newer_tools_stay(rig):
    result = rig("esxi_software", NEWER, packages=TOOLS)
    assert (result["changed"], result["blocking"], result["vibs"]["mft"]["running"]) == (False, False, "4.22.1.11-0")
    exact = [dict(package, at_least=False) for package in TOOLS]
    refused = rig("esxi_software", NEWER, packages=exact)
    assert refused["failed"] and refused["error"]["code"] == "DOWNGRADE" and not rig.writes(NEWER)


def test_files_are_checked_before_the_installation(rig):
    content = rig.world.datastores[site.DATASTORE][list(site.FILES)[0]].content
    good = "sha256:" + hashlib.sha256(content).hexdigest()
    wrong = [dict(TOOLS[0], checksum="sha256:" + "0" * 64), dict(TOOLS[1], source=STORE + "rdma/none.vib")]
    refused = rig("esxi_software", NO_MFT, packages=wrong)
    assert refused["failed"] and "none.vib is not on the host" in refused["msg"] and "SHA-256 %s" % good[7:] in refused["msg"] and not rig.writes(NO_MFT)
    assert rig("esxi_software", NO_MFT, packages=[dict(TOOLS[0], checksum=good), TOOLS[1]])["changed"] is True
    nothing = rig("esxi_software", "esxi03", packages=[{"name": "mft", "version": "4.18.1.14"}, {"name": "nmst"}])
    assert nothing["failed"] and nothing["error"]["code"] == "NO_SOURCE" and "mft" in nothing["msg"] and "nmst" in nothing["msg"]


def test_unsigned_vib_is_refused_with_the_consequence(rig):
    file = rig.world.datastores[site.DATASTORE][list(site.FILES)[0]]
    file.vibs = [Vib("mft", "4.18.1.14-0", "ACME", "CommunitySupported")]
    for force in (False, True):
        refused = rig("esxi_software", NO_MFT, packages=TOOLS, force=force)
        assert refused["failed"] and refused["error"]["code"] == "ACCEPTANCE" and "Secure Boot" in refused["msg"]
    assert rig.world.hosts[NO_MFT].staged is None


def test_tools_are_removed(rig):
    result = rig("esxi_software", WITH_MFT, state="absent", packages=[{"name": "mft"}, {"name": "nmst"}])
    assert not result.get("failed"), result["msg"]
    assert result["changed"] is True and result["vibs"]["mft"]["next"] == ""
    assert rig("esxi_software", WITH_MFT, state="absent", packages=[{"name": "mft"}])["changed"] is False


# ---- nmlx_driver ------------------------------------------------------------------------------------------------------

DRIVER = dict(version="4.21.71.101", source=DRIVER_FILE, options={"nmlx5_core": {"max_vfs": "absent"}})


def test_driver_and_options(rig):
    planned = rig("nmlx_driver", NO_MFT, check=True, **DRIVER)
    assert not planned.get("failed"), planned["msg"]
    done = rig("nmlx_driver", NO_MFT, **DRIVER)
    assert not done.get("failed"), done["msg"]
    assert done["changes"] == planned["changes"] and done["reboot_required"] is True
    assert rig.world.hosts[NO_MFT].module_options["nmlx5_core"] == "pfctx=0x08 pfcrx=0x08 trust_state=2"
    assert rig.world.hosts[NO_MFT].module_options["nmlx5_rdma"] == "dscp_force=26"
    assert done["vibs"]["nmlx5-core"]["next"].startswith("4.21.71.101") and "2 cards" in done["warnings"][0]
    again = rig("nmlx_driver", NO_MFT, **DRIVER)
    assert again["changed"] is False and again["reboot_required"] is True  # the driver is installed, not yet running
    rig.reboot(NO_MFT)
    after = rig("nmlx_driver", NO_MFT, **DRIVER)
    assert (after["changed"], after["reboot_required"], after["warnings"]) == (False, False, [])


def test_options_set_by_a_run_that_ended_before_its_reboot_still_ask_for_it(rig, tmp_path):
    job = dict(options=DRIVER["options"], state_file=str(tmp_path / "state.json"))
    assert rig("nmlx_driver", WITH_MFT, **job)["reboot_reasons"] == ["module nmlx5_core: max_vfs"]
    later = rig("nmlx_driver", WITH_MFT, check=True, **job)
    assert (later["changed"], later["reboot_required"]) == (False, True) and "has not rebooted since" in later["reboot_reasons"][0]
    time.sleep(0.3)
    rig.reboot(WITH_MFT)
    assert rig("nmlx_driver", WITH_MFT, **job)["reboot_required"] is False
    assert (tmp_path / "state.json").read_text() == "{}"


def test_hidden_parameter_of_a_port_that_becomes_infiniband(rig):
    card = vpi(rig, HIDES)
    card.config["LINK_TYPE_P1"].current = card.config["LINK_TYPE_P1"].next = ETH
    planned = rig("mlx_firmware", HIDES, check=True, card=CARD, settings=PAPER)
    assert steps(planned)["FORCE_ETH_PCI_SUBCLASS"][2] == "conditional" and steps(planned)["LINK_TYPE_P1"][2] == "sure"
    done = rig("mlx_firmware", HIDES, card=CARD, settings=PAPER)
    assert steps(done) == {"FORCE_ETH_PCI_SUBCLASS": ("True(1)", "False(0)", "sure"), "LINK_TYPE_P1": ("ETH(2)", "IB(1)", "sure")}
    assert values(card, "FORCE_ETH_PCI_SUBCLASS", "ADVANCED_PCI_SETTINGS") == {"FORCE_ETH_PCI_SUBCLASS": (1, 0), "ADVANCED_PCI_SETTINGS": (0, 0)}
    written = len(rig.writes(HIDES))
    assert rig("mlx_firmware", HIDES, card=CARD, settings=PAPER)["changed"] is False and len(rig.writes(HIDES)) == written


def test_purge_clears_one_module(rig):
    result = rig("nmlx_driver", WITH_MFT, options={"nmlx5_core": {}}, purge=True)
    assert result["options"]["nmlx5_core"]["after"] == "" and rig.world.hosts[WITH_MFT].module_options["nmlx5_core"] == ""
    assert rig("nmlx_driver", WITH_MFT, options={"nmlx5_core": {}}, purge=True)["changed"] is False


def test_unknown_option_and_module(rig):
    assert "no option maxvfs" in rig("nmlx_driver", WITH_MFT, options={"nmlx5_core": {"maxvfs": 1}})["msg"]
    assert rig("nmlx_driver", WITH_MFT, options={"nmlx9_core": {"max_vfs": 1}})["failed"]
    assert not rig.writes(WITH_MFT)


# ---- esxi_info --------------------------------------------------------------------------------------------------------

def test_info_reads_everything_at_once(rig):
    result = rig("esxi_info", NO_MFT, card=CARD, enforce=True)
    assert not result.get("failed"), result["msg"]
    assert result["execs"] == 1 and result["changed"] is False
    assert (result["version"], result["acceptance"], result["secure_boot"], result["maintenance"], result["mft"]) == ("7.0.2", "PartnerSupported", False, False,
                                                                                                                      "absent")
    assert [card["bdf"] for card in result["cards"]] == ["0000:18:00.0", "0000:3b:00.0"] and result["card"]["bdf"] == "0000:3b:00.0"
    assert result["module_options"]["nmlx5_core"].startswith("max_vfs=0,0,16,16 ")
    assert any(finding["level"] == "note" and "shows once MFT runs" in finding["text"] for finding in result["findings"])
    found = rig("esxi_info", WITH_MFT, card=CARD, enforce=True)
    assert found["card"]["psid"] == "MT_0000000008" and found["card"]["firmware"] == "16.32.1010" and rig.world.hosts[WITH_MFT].mst_started is False


def test_preflight_fails_with_all_errors_at_once(rig):
    rig.world.set_fault("wrong_psid", WITH_MFT)
    rig.world.hosts[WITH_MFT].version = "6.7.0"
    result = rig("esxi_info", WITH_MFT, card=CARD, enforce=True)
    assert result["failed"] and "6.7.0 is older" in result["msg"] and "DEL0000000023" in result["msg"]
    relaxed = rig("esxi_info", WITH_MFT, card=CARD)
    assert not relaxed.get("failed") and len([finding for finding in relaxed["findings"] if finding["level"] == "error"]) == 2


def test_preflight_on_a_management_card(rig):
    result = rig("esxi_info", WITH_MFT, card={"psid": "MT_2420110034"}, enforce=True)
    assert result["failed"] and "carries vmk0" in result["msg"]
    assert rig("esxi_info", NO_MFT, card={"pci": "0000:18:00.0"}, enforce=True)["failed"]


def test_preflight_where_passthrough_owns_the_card(rig):
    host = rig.world.hosts[RIGHT]
    host.mft_reaches_passthru = False
    result = rig("esxi_info", RIGHT, card=CARD, enforce=True)
    assert not result.get("failed") and result["card"]["bdf"] == "0000:3b:00.0" and "no other can be" in "".join(result["warnings"])
    assert Passthru(True, True) == host.passthru["0000:3b:00.0"]
