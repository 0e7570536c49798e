# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import firmware_plan, mlxconfig

PAPER = {"ports": {1: "ib", 2: "roce"}, "sriov": False}
ETH, IB = 0x0200, 0x0207


def query(**values):
    """Parameters as mlxconfig -e q prints them: name=(default, current, next)."""
    rows = "".join("%s        %-36s%-16s%-16s%-16s\n" % ("*" if len(set(v)) > 1 else " ", name, *v) for name, v in values.items())
    text = "\nDevice #1:\n----------\n\nDevice type:    ConnectX5       \nName:           MCX556A-ECA_Ax\nDescription:    VPI adapter\n" \
           "Device:         mt4119_pciconf1\n\nConfigurations:                              Default         Current         Next Boot\n" + rows
    return mlxconfig.parse(text)["devices"][0]["parameters"]


def both(*texts):
    """The same value now and after a reboot."""
    return (texts[0], texts[-1], texts[-1])


LEFT_BY_SRIOV = dict(
    LINK_TYPE_P1=both("IB(1)", "ETH(2)"), LINK_TYPE_P2=both("IB(1)", "ETH(2)"), SRIOV_EN=both("False(0)", "True(1)"), NUM_OF_VFS=both("0", "16"),
    ADVANCED_PCI_SETTINGS=both("False(0)", "True(1)"), FORCE_ETH_PCI_SUBCLASS=both("False(0)", "True(1)"), KEEP_ETH_LINK_UP_P1=both("True(1)"))
RIGHT = dict(
    LINK_TYPE_P1=both("IB(1)"), LINK_TYPE_P2=both("IB(1)", "ETH(2)"), SRIOV_EN=both("False(0)"), NUM_OF_VFS=both("0"), ADVANCED_PCI_SETTINGS=both("False(0)"))


def compare(values, settings=None, classes=None, **more):
    want = firmware_plan.wanted(**(settings or PAPER))
    return firmware_plan.compare(query(**values), want, classes or {1: IB, 2: ETH}, "esxi01", **more)


def test_sriov_is_cleaned_in_one_set_in_order():
    plan = compare(LEFT_BY_SRIOV, classes={1: ETH, 2: ETH})
    assert list(firmware_plan.order(plan["sets"]).items()) == [
        ("FORCE_ETH_PCI_SUBCLASS", 0), ("SRIOV_EN", 0), ("NUM_OF_VFS", 0), ("LINK_TYPE_P1", 1), ("ADVANCED_PCI_SETTINGS", 0)]
    assert plan["reveal"] == "" and plan["pending"] == []
    assert plan["state"]["LINK_TYPE_P2"]["verdict"] == "right"


def test_right_card_needs_nothing():
    plan = compare(RIGHT)
    assert plan["sets"] == {} and plan["pending"] == [] and plan["reveal"] == ""
    assert plan["state"]["FORCE_ETH_PCI_SUBCLASS"]["verdict"] == "not shown"


def test_star_alone_is_not_pending():
    # LINK_TYPE_P2 differs from its default and is starred for ever
    assert query(**RIGHT)["LINK_TYPE_P2"]["modified"] is True
    assert compare(RIGHT)["pending"] == []


def test_next_set_but_not_current_waits_for_a_reboot():
    values = dict(RIGHT, LINK_TYPE_P1=("IB(1)", "ETH(2)", "IB(1)"))
    plan = compare(values, classes={1: ETH, 2: ETH})
    assert plan["sets"] == {} or "LINK_TYPE_P1" not in plan["sets"]
    assert plan["pending"] == ["LINK_TYPE_P1"]
    assert plan["state"]["LINK_TYPE_P1"] == {"shown": True, "current": "ETH(2)", "next": "IB(1)", "wanted": "IB(1)", "verdict": "pending"}


def test_current_right_but_next_wrong_is_set():
    plan = compare(dict(RIGHT, LINK_TYPE_P1=("IB(1)", "IB(1)", "ETH(2)")))
    assert dict(plan["sets"]) == {"LINK_TYPE_P1": 1}


def test_hidden_force_eth_shows_itself_in_the_pci_class():
    plan = compare(RIGHT, classes={1: ETH, 2: ETH})
    assert plan["reveal"] == "in force"
    assert dict(plan["sets"]) == {"FORCE_ETH_PCI_SUBCLASS": 0}
    assert plan["state"]["FORCE_ETH_PCI_SUBCLASS"]["verdict"] == "hidden"
    shown = dict(RIGHT, ADVANCED_PCI_SETTINGS=("False(0)", "False(0)", "True(1)"), FORCE_ETH_PCI_SUBCLASS=both("False(0)", "True(1)"))
    second = compare(shown, classes={1: ETH, 2: ETH}, revealed=True)
    assert list(firmware_plan.order(second["sets"]).items()) == [("FORCE_ETH_PCI_SUBCLASS", 0), ("ADVANCED_PCI_SETTINGS", 0)]


def test_hidden_force_eth_is_looked_at_before_a_port_becomes_infiniband():
    values = dict(RIGHT, LINK_TYPE_P1=both("IB(1)", "ETH(2)"))
    assert compare(values, classes={1: ETH, 2: ETH})["reveal"] == "unknown"
    # once, not in every run until the reboot
    assert compare(dict(RIGHT, LINK_TYPE_P1=("IB(1)", "ETH(2)", "IB(1)")), classes={1: ETH, 2: ETH})["reveal"] == ""
    # but not when no port is InfiniBand: there it has no effect
    assert compare(values, settings={"ports": {1: "eth", 2: "eth"}, "sriov": False}, classes={1: ETH, 2: ETH})["reveal"] == ""


def test_hidden_is_not_asked_for_twice():
    # ADVANCED_PCI_SETTINGS is on and the parameter still not shown: the card does not have it
    plan = compare(dict(RIGHT, ADVANCED_PCI_SETTINGS=both("False(0)", "True(1)")), classes={1: ETH, 2: ETH})
    assert plan["reveal"] == "" and dict(plan["sets"]) == {"ADVANCED_PCI_SETTINGS": 0}


def test_ethernet_only_card_is_an_error_that_names_the_card():
    values = {name: row for name, row in RIGHT.items() if not name.startswith("LINK_TYPE")}
    with pytest.raises(RdmaError) as err:
        firmware_plan.compare(query(**values), firmware_plan.wanted(**PAPER), {1: ETH, 2: ETH}, "esxi01, card 0000:18:00.0 (MT_2420110034)")
    assert "no LINK_TYPE at all" in str(err.value) and "MT_2420110034" in str(err.value) and err.value.code == "NO_LINK_TYPE"


def test_second_port_of_a_single_port_card():
    values = {name: row for name, row in RIGHT.items() if name != "LINK_TYPE_P2"}
    with pytest.raises(RdmaError) as err:
        compare(values)
    assert "shows no LINK_TYPE_P2 (it shows LINK_TYPE_P1)" in str(err.value)


def test_what_is_not_shown_is_off_already_but_cannot_be_switched_on():
    values = {name: row for name, row in RIGHT.items() if name not in ("SRIOV_EN", "NUM_OF_VFS")}
    plan = compare(values)
    assert plan["sets"] == {} and plan["state"]["SRIOV_EN"]["verdict"] == "not shown"
    with pytest.raises(RdmaError, match="Cannot set SRIOV_EN"):
        compare(values, settings={"sriov": True})


def test_hidden_parameter_wanted_on_names_the_switch():
    with pytest.raises(RdmaError, match="set ADVANCED_PCI_SETTINGS to 1 as well"):
        compare(RIGHT, settings={"raw": {"MAX_ACC_OUT_READ": 44}})
    assert compare(RIGHT, settings={"raw": {"MAX_ACC_OUT_READ": 44, "ADVANCED_PCI_SETTINGS": 1}})["reveal"] == "asked"


def test_read_only_parameter():
    parameters = query(**RIGHT)
    parameters["SRIOV_EN"].update(read_only=True, next="True(1)")
    with pytest.raises(RdmaError, match="read-only"):
        firmware_plan.compare(parameters, firmware_plan.wanted(sriov=False), {}, "esxi01")


@pytest.mark.parametrize("want, shown, verdict", [
    (1, "IB(1)", True), (2, "IB(1)", False), (16, "0x10", True), (1, "True(1)", True), (0, "False(0)", True), ("DEVICE_DEFAULT", "DEVICE_DEFAULT(0)", True),
    ("_4_VLs", "_4_VLs(3)", True), (3, "N/A", None), (3, None, None)])
def test_values_compare_by_number_or_word(want, shown, verdict):
    assert firmware_plan.same(want, shown) is verdict


def test_only_one_column_tells_nothing_about_current():
    rows = {name: dict(row, current=None, default=None) for name, row in query(**RIGHT).items()}
    assert firmware_plan.compare(rows, firmware_plan.wanted(**PAPER), {1: IB, 2: ETH}, "")["pending"] == []
    assert firmware_plan.in_force(rows, firmware_plan.wanted(**PAPER), {1: IB, 2: ETH}) == (None, [])


def test_raw_wins_and_wrong_input_is_refused():
    assert firmware_plan.wanted(sriov=False, raw={"ADVANCED_PCI_SETTINGS": True})["ADVANCED_PCI_SETTINGS"] == 1
    assert list(firmware_plan.wanted(sriov=False, raw={"ROCE_CONTROL": "2"})) == [
        "FORCE_ETH_PCI_SUBCLASS", "SRIOV_EN", "NUM_OF_VFS", "ROCE_CONTROL", "ADVANCED_PCI_SETTINGS"]
    with pytest.raises(RdmaError, match="role of port 1"):
        firmware_plan.wanted(ports={1: "fibre"})
    with pytest.raises(RdmaError, match="no name of a firmware parameter"):
        firmware_plan.wanted(raw={"A;reboot": 1})


def test_in_force_tells_reset_from_set():
    want = firmware_plan.wanted(**PAPER)
    assert firmware_plan.in_force(query(**RIGHT), want, {1: IB, 2: ETH}) == (True, [])
    waiting = query(**RIGHT)
    waiting["SRIOV_EN"].update(current="True(1)")
    verdict, differences = firmware_plan.in_force(waiting, want, {1: IB, 2: ETH})
    assert verdict is False and [(d["name"], d["why"]) for d in differences] == [("SRIOV_EN", "a reset is missing")]
    verdict, differences = firmware_plan.in_force(query(**RIGHT), want, {1: ETH, 2: ETH})
    assert verdict is False and differences[0]["name"] == "FORCE_ETH_PCI_SUBCLASS"
