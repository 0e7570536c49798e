# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import mlxconfig
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample


def only(name):
    (device,) = mlxconfig.parse(sample("mlxconfig", name))["devices"]
    return device


def values(name, parameter, *keys):
    return tuple(only(name)["parameters"][parameter][key] for key in keys or ("default", "current", "next", "new"))


def test_plain_query_fills_only_next():
    device = only("query_418")
    assert (device["device_type"], device["name"], device["device"]) == ("ConnectX5", "MCX556A-XDAT_Ax", "mt4119_pciconf1")
    assert device["description"] == "ConnectX-5 Ex VPI adapter card; 100Gb/s (EDR; HDR100: no) / 100GbE; dual-port"
    assert values("query_418", "LINK_TYPE_P1") == (None, None, "ETH(2)", None)
    assert values("query_418", "HOST_CHAINING_DESCRIPTORS", "next") == ("Array[0..7]",)
    assert values("query_418", "EXP_ROM_UEFI_x86_ENABLE", "next") == ("False(0)",)
    assert len(device["parameters"]) == 13


def test_verbose_query_tells_pending_by_current_and_next_not_by_the_star():
    assert values("query_e_418", "LINK_TYPE_P1") == ("IB(1)", "ETH(2)", "IB(1)", None)
    advanced = only("query_e_418")["parameters"]["ADVANCED_PCI_SETTINGS"]
    assert advanced["modified"] and advanced["current"] == advanced["next"]
    assert values("query_e_418", "IBM_CAPI_EN") == ("N/A", "N/A", "False(0)", None)


def test_a_value_wider_than_its_column_is_followed_by_one_blank():
    wide = "PCI_ATOMIC_DISABLED_EXT(0)"
    assert values("query_e_418", "PCI_ATOMIC_MODE") == (wide, wide, wide, None)


def test_read_only_mark_of_newer_versions():
    parameters = only("query_e_43_ro")["parameters"]
    assert parameters["LOG_MAX_QUEUE"]["read_only"] and not parameters["LOG_MAX_QUEUE"]["modified"]
    assert parameters["NUM_OF_PF"]["read_only"] and parameters["NUM_OF_PF"]["modified"]
    assert not parameters["NUM_OF_VFS"]["read_only"] and parameters["NUM_OF_VFS"]["next"] == "4"


def test_raw_number_beside_a_named_value():
    assert values("query_e_436_mixed", "PCI_DOWNSTREAM_PORT_OWNER[3]") == ("DEVICE_DEFAULT(0)", "212", "HOST_1(2)", None)
    assert values("query_e_436_mixed", "MODULE_SPLIT_M0", "next") == ("Array[1..n]",)


def test_header_may_stand_right_of_the_values():
    assert values("query_header_shifted", "LINK_TYPE_P2") == (None, None, "ETH(2)", None)


@pytest.mark.parametrize("name, parameter, value", [
    ("query_squeezed", "LINK_TYPE_P1", "IB(1)"), ("query_grep", "LINK_TYPE_P2", "ETH(2)"), ("query_cx3", "LINK_TYPE_P1", "VPI(3)"),
    ("query_very_old", "NUM_OF_VFS", "4"), ("query_no_verbose", "LINK_TYPE_P1", "IB(1)")])
def test_one_column_whatever_it_is_called(name, parameter, value):
    assert values(name, parameter) == (None, None, value, None)


def test_labels_of_old_and_unnamed_cards():
    assert only("query_very_old")["device"] == "/dev/mst/mt4099_pci_cr0"
    assert only("query_squeezed")["name"] == "N/A"
    assert only("query_cx3")["name"] == "" and only("query_cx3")["description"] == ""
    assert only("query_no_verbose")["current_readable"] is False


def test_head_without_table_has_no_parameters():
    assert only("query_head_only")["parameters"] == {}


def test_description_broken_over_two_lines():
    device = only("query_long_description")
    assert device["description"].endswith("EDR IB (100Gb/s) and 100GbE; dual-port; both brackets") and device["device"] == "mt4119_pciconf0"


def test_two_devices_keep_their_own_parameters():
    first, second = mlxconfig.parse(sample("mlxconfig", "query_two_devices"))["devices"]
    assert list(first["parameters"]) == ["SRIOV_EN"] and list(second["parameters"]) == ["LINK_TYPE_P1"]


def test_lost_blank_lines_and_trailing_blanks_change_nothing():
    for name in ("query_418", "query_e_418", "set_ok"):
        text = sample("mlxconfig", name)
        squeezed = "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
        assert mlxconfig.parse(squeezed) == mlxconfig.parse(text)


def test_set():
    out = mlxconfig.parse_set(sample("mlxconfig", "set_ok"))
    assert (out["applied"], out["reboot"], out["error"]) == (True, "reboot", "")
    assert values("set_ok", "LINK_TYPE_P2") == (None, None, "IB(1)", "ETH(2)")
    assert values("set_e", "NUM_OF_VFS") == ("0", "16", "16", "0")
    assert mlxconfig.parse_set(sample("mlxconfig", "set_old_prompt"))["applied"] is True


def test_set_that_a_reboot_does_not_load():
    assert mlxconfig.parse_set(sample("mlxconfig", "set_power_cycle"))["reboot"] == "power_cycle"


@pytest.mark.parametrize("name, kind", [("set_failed", "rejected"), ("set_aborted", "aborted"), ("set_aborted_no_tty", "aborted")])
def test_set_that_was_not_written(name, kind):
    out = mlxconfig.parse_set(sample("mlxconfig", name))
    assert (out["applied"], out["reboot"], out["error_kind"]) == (False, "", kind) and out["error"]


@pytest.mark.parametrize("name, kind, parameter", [
    ("err_not_supported", "unsupported_parameter", "FORCE_ETH_PCI_SUBCLASS"), ("err_unknown", "unknown_parameter", "LINK_TYP_P1"),
    ("err_range", "value_range", "NUM_OF_VFS"), ("err_semaphore", "open", None), ("err_usage", "argument", None)])
def test_errors_have_a_kind_and_name_the_parameter(name, kind, parameter):
    out = mlxconfig.parse(sample("mlxconfig", name))
    assert out["error_kind"] == kind and out.get("parameter") == parameter and out["devices"] == []
    assert "SYNOPSIS" not in out["error"]


@pytest.mark.parametrize("text, kind", [
    ("-E- Failed to identify the device", "open"), ("-E- Device in Livefish mode is not supported", "livefish"),
    ("-E- Unsupported device", "unsupported_device"),
    ("-E- Device doesn't support any configuration changes.", "unsupported_device"), ("-E- The Parameter NUM_OF_VFS has Illegal constraint.", "constraint"),
    ("-E- Failed to set TLV settings Device is busy", "busy"), ("-E- No devices found", "no_device"), ("-E- Duplicate parameter, SRIOV_EN.", "argument"),
    ("-E- Index 9 of the parameter MODULE_SPLIT_M0 is out of range. Maximal index is 7", "value_range"), ("-E- Cannot access NV register", "open"),
    ("-E- Failed to set TLV settings Semaphore locked", "semaphore"), ("-E- Unsupported Configuration", "rejected")])
def test_messages_of_the_tool(text, kind):
    assert mlxconfig.parse(text)["error_kind"] == kind


def test_json_of_newer_versions_keeps_text_and_numbers_as_text():
    device = only("json")
    assert device["device"] == "0000:5e:00.0" and device["name"] == "MCX556A-ECA_Ax"
    assert values("json", "LINK_TYPE_P1") == ("IB(1)", "ETH(2)", "IB(1)", None)
    assert values("json", "NUM_OF_VFS") == ("0", "16", "16", None) and device["parameters"]["NUM_OF_VFS"]["read_only"]


def test_version_and_validation():
    assert mlxconfig.parse(sample("mlxconfig", "version"))["version"] == "4.18.1-14"
    validation = mlxconfig.parse(sample("mlxconfig", "validate"))["validation"]
    assert validation["matches"] is False and validation["skipped"] == ["LINK_TYPE_P2"]
    assert validation["mismatch"] == [{"name": "LINK_TYPE_P1", "expected": "IB", "actual": "ETH"}]


@pytest.mark.parametrize("value, number", [("IB(1)", 1), ("True(1)", 1), ("False(0)", 0), ("0x10", 16), ("16", 16), ("_4_VLs(3)", 3), ("N/A", None),
                                           ("Array[0..7]", None), (None, None), ("DEVICE_DEFAULT(0)", 0), (2, 2), (True, 1), ("MODE(0x1f)", 31)])
def test_number(value, number):
    assert mlxconfig.number(value) == number


def test_argument_lists():
    assert mlxconfig.query_args("mt4119_pciconf0", json_file="/tmp/q") == ["-d", "mt4119_pciconf0", "-e", "-j", "/tmp/q", "q"]
    assert [mlxconfig.has_json(version) for version in ("4.18.1.14-0", "4.30.1.8-0", "4.31.0.149-0", "4.36.0.147-0", "")] == [False, False, True, True, False]
    assert mlxconfig.query_args("mt4119_pciconf0", ["LINK_TYPE_P1"]) == ["-d", "mt4119_pciconf0", "-e", "q", "LINK_TYPE_P1"]
    assert mlxconfig.set_args("mt4119_pciconf0", {"LINK_TYPE_P1": 1, "SRIOV_EN": 0}) == [
        "-d", "mt4119_pciconf0", "-y", "set", "LINK_TYPE_P1=1", "SRIOV_EN=0"]


def test_foreign_text():
    for text in ("", "LINK_TYPE_P1 is what I want to set\n", '{"a": 1}', '{"Device #1": {"tlv'):
        with pytest.raises(ParseError):
            mlxconfig.parse(text)
