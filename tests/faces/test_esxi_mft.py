# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's firmware tools: grammar by version, streams and exit codes, and that the collection's parsers read every text."""

from __future__ import annotations

import dataclasses
import json

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.tools import flint as flint_parser
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import mlxconfig as config_parser
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import mlxfwmanager as firmware_parser
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import mst as mst_parser
from lab import site
from lab.esxi.sh import run_line
from lab.world import ETH, IB

BIN = "/opt/mellanox/bin/"
MFT, NO_MFT, NEWER, RIGHT, ELSEWHERE, FOLLOWED = "esxi02", "esxi01", "esxi06", "esxi04", "esxi12", "esxi14"
USER_ERROR = 3


@pytest.fixture(name="world")
def _world():
    return site.build(16)


def run(world, line, host=MFT, stdin=""):
    return run_line(world, host, BIN + line, stdin)


def started(world, *hosts):
    for name in hosts or (MFT,):
        assert run(world, "mst start", name)[2] == 0
    return world


def vpi(world, host=MFT):
    return next(card for card in world.hosts[host].cards if card.vpi)


def set_version(world, version, host=MFT):
    vibs = world.hosts[host].vibs
    for name in ("mft", "nmst"):
        vibs[name] = dataclasses.replace(vibs[name], version=version + "-0")


# ---- mst --------------------------------------------------------------------------------------------------------------

def test_tools_are_there_only_when_their_vib_runs(world):
    assert run(world, "mst status", NO_MFT)[1:] == ("sh: /opt/mellanox/bin/mst: not found\n", 127)
    assert run_line(world, MFT, "mst status")[2] == 127  # not on PATH
    assert run_line(world, MFT, "export PATH=$PATH:/opt/mellanox/bin; which mst") == ("/opt/mellanox/bin/mst\n", "", 0)
    del world.hosts[MFT].vibs["nmst"]
    out, err, rc = run(world, "mst start")
    assert rc == 1 and mst_parser.parse(out)["error"] and not world.hosts[MFT].mst_started


def test_mst_starts_once_and_lists_both_functions_of_both_cards(world):
    assert run(world, "mst start") == ("Module mst loaded successfully\n", "", 0)
    assert run(world, "mst start") == ("Module mst is already loaded\n", "", 0)
    assert run(world, "mst status") == ("MST devices:\n------------\nmt4117_pciconf0\nmt4117_pciconf0.1\nmt4119_pciconf1\nmt4119_pciconf1.1\n", "", 0)
    rows = run(world, "mst status -vv")[0].splitlines()
    assert rows[2] == "DEVICE_TYPE             MST                           PCI       RDMA            NET                       NUMA"
    assert rows[5] == "ConnectX5(rev:0)        mt4119_pciconf1               3b:00.0   net-vmnic2"
    found = mst_parser.parse("\n".join(rows))["devices"]
    assert [(device["mst"], device["pci"], device["net"]) for device in found][2:] == [
        ("mt4119_pciconf1", "0000:3b:00.0", ["vmnic2"]), ("mt4119_pciconf1.1", "0000:3b:00.1", ["vmnic3"])]
    out, err, rc = run(world, "mst status --v")
    assert out.startswith('-E- Unknown argument "--v"\n') and rc == 1


def test_mst_numbers_follow_its_own_order_and_a_reboot_unloads_it(world):
    started(world, ELSEWHERE)
    found = mst_parser.parse(run(world, "mst status -vv", ELSEWHERE)[0])["devices"]
    assert mst_parser.device_at(found, "0000:18:00.0") == "mt4119_pciconf0" and mst_parser.device_at(found, "86:00.0") == "mt4117_pciconf1"
    world.hosts[ELSEWHERE].state = "down"
    world.boot_host(ELSEWHERE)
    assert mst_parser.parse(run(world, "mst status", ELSEWHERE)[0])["devices"] == []


def test_a_port_without_a_vmnic_has_no_network_cell(world):
    started(world, RIGHT)
    found = {device["pci"]: device["net"] for device in mst_parser.parse(run(world, "mst status -vv", RIGHT)[0])["devices"]}
    assert found == {"0000:18:00.0": ["vmnic0"], "0000:18:00.1": ["vmnic1"], "0000:3b:00.0": [], "0000:3b:00.1": []}  # passed through


# ---- mlxconfig --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("version, start, value, mark", [("4.18.1.14", 9, 16, False), ("4.22.1.11", 9, 16, False), ("4.25.0.62", 8, 16, True),
                                                         ("4.31.0.149", 8, 20, True), ("4.36.0.147", 8, 33, True)])
def test_columns_are_as_wide_as_the_version_has_them(world, version, start, value, mark):
    set_version(world, version)
    started(world)
    out, err, rc = run(world, "mlxconfig -d mt4119_pciconf1 -e q")
    assert (err, rc) == ("", 0)
    name = {9: 36, 8: 48 if version.startswith("4.36") else 44}[start]
    row = next(line for line in out.splitlines() if " LINK_TYPE_P1 " in line)
    assert row[:start].strip() == "*" and row[start:].startswith("LINK_TYPE_P1 ")
    cells = [row[start + name + index * value:start + name + (index + 1) * value].strip() for index in range(3)]
    assert cells == ["IB(1)", "ETH(2)", "ETH(2)"]
    label = next(line for line in out.splitlines() if line.startswith("Device type:"))
    assert label.index("ConnectX5") == (20 if version >= "4.31" else 16)
    only = next(line for line in out.splitlines() if " INT_LOG_MAX_PAYLOAD_SIZE " in line)
    assert ("RO" in only[:start]) is mark and ("The 'RO' shows" in out) is mark
    device = config_parser.parse(out)["devices"][0]
    assert (device["device"], device["device_type"], device["name"]) == ("mt4119_pciconf1", "ConnectX5", "MCX556A-ECA_Ax")
    for key, nv in vpi(world).visible().items():
        got = device["parameters"][key]
        assert [config_parser.number(got[which]) for which in ("default", "current", "next")] == [nv.default, nv.current, nv.next], key
        assert got["modified"] is (nv.next != nv.default or nv.next != nv.current)


def test_plain_query_has_one_column_and_no_stars(world):
    started(world)
    out = run(world, "mlxconfig -d 3b:00.0 query")[0]
    assert out.startswith("\nDevice #1:\n----------\n\nDevice type:    ConnectX5       \n")
    assert "\nConfigurations:                              Next Boot\n" in out and "*" not in out
    assert "\n         SRIOV_EN                            True(1)         \n" in out
    assert config_parser.parse(out)["devices"][0]["parameters"]["SRIOV_EN"]["next"] == "True(1)"


@pytest.mark.parametrize("given", ["mt4119_pciconf1", "mt4119_pciconf1.1", "3b:00.0", "0000:3b:00.0", "3b:00.1"])
def test_a_device_is_named_by_mst_or_by_its_address(world, given):
    started(world)
    assert "LINK_TYPE_P2 " in run(world, "mlxconfig -d %s q" % given)[0]


def test_an_ethernet_card_has_no_link_type(world):
    started(world)
    assert "LINK_TYPE" not in run(world, "mlxconfig -d mt4117_pciconf0 -e q")[0]
    assert run(world, "mlxconfig -d mt4117_pciconf0 -y set LINK_TYPE_P1=1") == ("-E- The Device doesn't support LINK_TYPE_P1 parameter\n", "", USER_ERROR)


def test_all_devices_are_queried_without_a_name(world):
    started(world)
    found = config_parser.parse(run(world, "mlxconfig -e q")[0])["devices"]
    assert [(device["index"], device["device"]) for device in found] == [(1, "mt4117_pciconf0"), (2, "mt4119_pciconf1")]


def test_named_parameters_and_elements_of_an_array(world):
    started(world)
    rows = config_parser.parse(run(world, "mlxconfig -d 3b:00.0 -e q SRIOV_EN ESWITCH_HAIRPIN_DESCRIPTORS[0..2]")[0])["devices"][0]["parameters"]
    assert list(rows) == ["SRIOV_EN"] + ["ESWITCH_HAIRPIN_DESCRIPTORS[%d]" % index for index in range(3)]
    assert rows["ESWITCH_HAIRPIN_DESCRIPTORS[1]"]["next"] == "128"
    out = run(world, "mlxconfig -d 3b:00.0 q ESWITCH_HAIRPIN_DESCRIPTORS[9]")[0]
    assert out.startswith("-E- Index 9 of the parameter ESWITCH_HAIRPIN_DESCRIPTORS is out of range. Maximal index is 7")
    out = run(world, "mlxconfig -d 3b:00.0 q ESWITCH_HAIRPIN_DESCRIPTORS SRIOV_EN")[0]
    assert "ESWITCH_HAIRPIN_DESCRIPTORS         Array[0..7]     \n" in out


def test_set_with_yes_changes_the_next_boot_only(world):
    started(world)
    out, err, rc = run(world, "mlxconfig -d mt4119_pciconf1 -y set LINK_TYPE_P1=1 SRIOV_EN=False NUM_OF_VFS=0x0")
    assert (err, rc) == ("", 0)
    assert out.endswith("""
Configurations:                              Next Boot       New
         LINK_TYPE_P1                        ETH(2)          IB(1)           
         SRIOV_EN                            True(1)         False(0)        
         NUM_OF_VFS                          16              0               

 Apply new Configuration? (y/n) [n] : y
Applying... Done!
-I- Please reboot machine to load new configurations.
""")  # noqa: W291
    outcome = config_parser.parse_set(out)
    assert outcome["applied"] and outcome["reboot"] == "reboot"
    config = vpi(world).config
    assert [(config[name].current, config[name].next) for name in ("LINK_TYPE_P1", "SRIOV_EN", "NUM_OF_VFS")] == [(ETH, IB), (1, 0), (16, 0)]
    again = run(world, "mlxconfig -d mt4119_pciconf1 -y set SRIOV_EN=0")[0]  # the same value: written all the same
    assert config_parser.parse_set(again)["reboot"] == "reboot"


@pytest.mark.parametrize("answer, rc", [("y\n", 0), ("yes\n", 0), ("n\n", 2), ("", 2)])
def test_the_prompt_wants_a_yes(world, answer, rc):
    started(world)
    out, err, got = run(world, "mlxconfig -d 3b:00.0 set SRIOV_EN=0", stdin=answer)
    assert got == rc and " Apply new Configuration? (y/n) [n] : " in out
    assert vpi(world).config["SRIOV_EN"].next == (0 if rc == 0 else 1) and ("-E- Aborted by user.\n" in out) is (rc == 2)
    assert config_parser.parse_set(out)["applied"] is (rc == 0)


@pytest.mark.parametrize("arguments, text", [
    ("set FOO", "Invalid Configuration argument FOO"), ("set SRIOV_EN=1 SRIOV_EN=0", "Duplicate parameter, SRIOV_EN."),
    ("set NO_SUCH_THING=1", "Unknown Parameter: NO_SUCH_THING"),
    ("set NUM_OF_VFS=500", "Parameter NUM_OF_VFS' value is larger than maximum allowed 127"),
    ("set LINK_TYPE_P1=0", "Parameter LINK_TYPE_P1' value is smaller than minimum allowed 1"),
    ("set LINK_TYPE_P1=VPI", "Unknown value VPI"), ("q NO_SUCH_THING", "Unknown Parameter: NO_SUCH_THING"),
    ("q IBM_CAPI_EN", "The Device doesn't support IBM_CAPI_EN parameter")])
def test_errors_stand_on_stdout_with_code_three_and_nothing_is_written(world, arguments, text):
    started(world)
    before = world.dump()["hosts"]
    out, err, rc = run(world, "mlxconfig -d 3b:00.0 -y " + arguments)
    assert out.startswith("-E- %s\n" % text) and (err, rc) == ("", USER_ERROR) and "Next Boot" not in out
    assert ("SYNOPSIS" in out) is ("argument" in text or "Duplicate" in text)
    assert config_parser.parse(out)["error"] == text and world.dump()["hosts"] == before


def test_a_read_only_parameter_is_not_written(world):
    started(world)
    out, err, rc = run(world, "mlxconfig -d 3b:00.0 -y set INT_LOG_MAX_PAYLOAD_SIZE=12 SRIOV_EN=0")
    assert "Applying... Failed!\n-E- Failed to set TLV settings" in out and rc == USER_ERROR and vpi(world).config["SRIOV_EN"].next == 1
    assert config_parser.parse_set(out)["applied"] is False and config_parser.parse_set(out)["error"]


def test_advanced_settings_hide_by_their_next_value(world):
    started(world, FOLLOWED)
    card = "mlxconfig -d %s " % vpi(world, FOLLOWED).bdf
    assert "FORCE_ETH_PCI_SUBCLASS" not in run(world, card + "-e q", FOLLOWED)[0]
    assert run(world, card + "q FORCE_ETH_PCI_SUBCLASS", FOLLOWED)[0] == "-E- The Device doesn't support FORCE_ETH_PCI_SUBCLASS parameter\n"
    assert run(world, card + "-y set ADVANCED_PCI_SETTINGS=1", FOLLOWED)[2] == 0  # shows at once, before any reboot
    rows = config_parser.parse(run(world, card + "-e q", FOLLOWED)[0])["devices"][0]["parameters"]
    assert rows["FORCE_ETH_PCI_SUBCLASS"]["current"] == "True(1)" and "MAX_ACC_OUT_READ" in rows
    assert run(world, card + "-y set FORCE_ETH_PCI_SUBCLASS=0 ADVANCED_PCI_SETTINGS=0", FOLLOWED)[2] == 0
    assert "FORCE_ETH_PCI_SUBCLASS" not in run(world, card + "-e q", FOLLOWED)[0]
    assert vpi(world, FOLLOWED).config["FORCE_ETH_PCI_SUBCLASS"].next == 0


def test_reset_puts_the_defaults_in_the_next_boot(world):
    started(world)
    out, err, rc = run(world, "mlxconfig -d 3b:00.0 -y reset")
    assert out == "\n Reset configuration for device 3b:00.0? (y/n) [n] : y\nApplying... Done!\n-I- Please reboot machine to load new configurations.\n"
    assert rc == 0
    assert all(nv.next == nv.default for nv in vpi(world).config.values())
    assert any(nv.next != nv.default for card in world.hosts[MFT].cards if not card.vpi for nv in card.config.values()) is False


def test_a_card_that_needs_power_off_says_so(world):
    started(world)
    world.set_fault("power_cycle", MFT)
    out = run(world, "mlxconfig -d 3b:00.0 -y set SRIOV_EN=0")[0]
    assert out.endswith("-I- Please power cycle machine to load new configurations.\n") and config_parser.parse_set(out)["reboot"] == "power_cycle"


def test_json_is_for_the_versions_that_have_it(world):
    started(world)
    out, err, rc = run(world, "mlxconfig -d 3b:00.0 -e -j /tmp/q.json q")
    assert out.startswith("-E- ") and rc == USER_ERROR
    set_version(world, "4.31.0.149")
    assert run(world, "mlxconfig -d 3b:00.0 -e -j /tmp/q.json q SRIOV_EN NUM_OF_VFS") == ("", "", 0)
    text = run_line(world, MFT, "cat /tmp/q.json")[0]
    rows = json.loads(text)["Device #1"]["tlv_configuration"]
    assert rows["SRIOV_EN"]["current_value"] == "True(1)" and rows["NUM_OF_VFS"]["next_value"] == 16
    assert config_parser.parse(text)["devices"][0]["parameters"]["SRIOV_EN"]["next"] == "True(1)"


def test_some_hosts_print_less(world):
    started(world, "esxi09", FOLLOWED)
    device = config_parser.parse(run(world, "mlxconfig -d mt4119_pciconf1 -e q", "esxi09")[0])["devices"][0]
    assert (device["name"], device["description"], device["device_type"]) == ("N/A", "N/A", "ConnectX5") and "LINK_TYPE_P1" in device["parameters"]
    rows = run(world, "mst status -vv", FOLLOWED)[0].splitlines()
    assert rows[2].split() == ["DEVICE_TYPE", "MST", "PCI"]
    assert [device["pci"] for device in mst_parser.parse("\n".join(rows))["devices"]] == ["0000:18:00.0", "0000:18:00.1", "0000:3b:00.0", "0000:3b:00.1"]


# ---- what cannot be opened --------------------------------------------------------------------------------------------

def test_nothing_opens_while_mst_is_not_started(world):
    assert run(world, "mlxconfig -d 3b:00.0 q") == ("-E- Failed to open the device\n", "", USER_ERROR)
    assert run(world, "mlxconfig -d /dev/mst/mt4119_pciconf1 q") == (
        "-E- Failed to open the device\n", "Unable to parse device name /dev/mst/mt4119_pciconf1\n", USER_ERROR)
    assert run(world, "mlxconfig q")[0].startswith("-E- No devices found, mst might be stopped.") and run(world, "mlxconfig q")[2] == USER_ERROR
    out, err, rc = run(world, "mlxfwmanager --query")
    assert (out, rc) == ("", 20) and err.startswith("-E- No devices found or specified, mst might be stopped")
    assert run(world, "flint -d 3b:00.0 q")[::2] == ("-E- Cannot open Device: 3b:00.0. No such file or directory. MFE_CR_ERROR\n", 1)
    for text in (run(world, "mlxconfig -d 3b:00.0 q")[0], run(world, "mlxconfig q")[0]):
        assert config_parser.parse(text)["error_kind"] in ("open", "no_device")
    assert firmware_parser.parse(err)["error"]


@pytest.mark.parametrize("reaches", [True, False])
def test_a_card_owned_by_passthrough_opens_only_where_the_host_lets_mft_in(world, reaches):
    host = world.hosts[RIGHT]
    host.mft_reaches_passthru = reaches
    started(world, RIGHT)
    bdf = vpi(world, RIGHT).bdf
    out, err, rc = run(world, "mlxconfig -d %s -e q" % bdf, RIGHT)
    assert (rc == 0) is reaches and (out == "-E- Failed to open the device\n") is not reaches
    xml, err, rc = run(world, "mlxfwmanager --query-format XML", RIGHT)
    found = {device["device_type"]: device["status"] for device in firmware_parser.parse(xml)["devices"]}
    assert rc == 0 and found == {"ConnectX4LX": "No matching image found", "ConnectX5": "No matching image found" if reaches else "Failed to open device"}
    text = run(world, "mlxfwmanager --query", RIGHT)[0]
    assert {device["device_type"]: device["status"] for device in firmware_parser.parse(text)["devices"]} == found
    assert run(world, "flint -d %s q" % bdf, RIGHT)[2] == (0 if reaches else 1)


# ---- mlxfwmanager, flint, mlxvpd --------------------------------------------------------------------------------------

def test_firmware_query_is_read_alike_as_text_and_as_xml(world):
    started(world)
    text, xml = (firmware_parser.parse(run(world, "mlxfwmanager -d 3b:00.0 " + more)[0])["devices"] for more in ("--online -u", "--query-format XML"))
    for (device,) in (text, xml):
        assert (device["psid"], device["part_number"], device["fw"]) == (
            "MT_0000000008", "MCX556A-ECA_Ax", "16.32.1010")
        assert device["status"] == "No matching image found" and "dual-port QSFP28" in device["description"]
    assert run(world, "mlxfwmanager -d 99:00.0")[1:] == ("-E- Could not find device: 99:00.0\n", 1)
    run(world, "mlxfwmanager --query --query-format XML -o /tmp/q.xml --no-progress")
    assert len(firmware_parser.parse(run_line(world, MFT, "cat /tmp/q.xml")[0])["devices"]) == 2


def test_flint_shows_the_psid_and_a_changed_one(world):
    started(world)
    card = vpi(world)
    world.set_fault("wrong_psid", MFT)
    world.hosts[MFT].settings["orig_psid"] = {card.bdf: "MT_0000000008"}
    out, err, rc = run(world, "flint -d 3b:00.0 q full")
    found = flint_parser.parse(out)
    assert rc == 0 and found["psid"] == "DEL0000000023" and found["orig_psid"] == "MT_0000000008" and "3.6.502" in out
    assert run(world, "mlxfwmanager -d 3b:00.0")[0].count("DEL0000000023") == 1


def test_serial_numbers_are_in_the_vital_product_data(world):
    started(world)
    out = run(world, "mlxvpd -d mt4119_pciconf1")[0]
    assert [line.split()[-1] for line in out.splitlines() if line.split()[:1] == ["SN"]] == [vpi(world).serial]


@pytest.mark.parametrize("tool", ["mlxconfig", "mlxfwmanager", "flint"])
def test_versions_are_those_of_the_vib(world, tool):
    out, err, rc = run(world, tool + " --version", NEWER)
    assert out.startswith("%s, mft 4.22.1-11, built on " % tool) and rc == 0


def test_every_host_with_mft_can_be_read_from_end_to_end(world):
    for name, host in world.hosts.items():
        if "mft" not in host.vibs:
            continue
        started(world, name)
        devices = mst_parser.parse(run(world, "mst status -vv", name)[0])["devices"]
        assert sorted(device["pci"] for device in devices) == [bdf for bdf, dummy, dummy2 in host.functions()]
        firmware = firmware_parser.parse(run(world, "mlxfwmanager --query-format XML", name)[0])["devices"]
        assert sorted(device["part_number"] for device in firmware if device["status"] != "Failed to open device") == sorted(
            card.part for card in host.cards if host.mft_reaches_passthru or not host.passthru[card.bdf].active)
