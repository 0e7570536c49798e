# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards, esxcli, mlxfwmanager, mst

INTERFACES = """vmk0
   Name: vmk0
   MAC Address: ec:0d:9a:00:01:10
   Enabled: true
   Portset: vSwitch0
   Portgroup: Management Network
   VDS Name: N/A
   MTU: 1500

vmk1
   Name: vmk1
   Enabled: true
   Portset: DvsPortset-0
   Portgroup: N/A
   VDS Name: storage-dvs
   MTU: 9000
"""
SWITCHES = """vSwitch0
   Name: vSwitch0
   Class: cswitch
   Num Ports: 2560
   Uplinks: vmnic0, vmnic1
   Portgroups: VM Network, Management Network
"""
DVS = """storage-dvs
   Name: storage-dvs
   VDS ID: 50 0e 2a 6c
   Uplinks: vmnic1
   VMware Branded: true
   DVPort:
         Client: vmnic1
         DVPortgroup ID: dvportgroup-21
         In Use: true
         Port ID: 12

hpc-dvs
   Name: hpc-dvs
   Uplinks: vmnic2, vmnic3
   VMware Branded: true
"""


def function(address, device_id, kind, vmnic="", module="nmlx5_core", owner="VMkernel", vendor="0x15b3", device_name="MT27800 Family [ConnectX-5]"):
    return """%s
   Address: %s
   Segment: 0x0000
   VMkernel Name: %s
   Vendor Name: Mellanox Technologies
   Device Name: %s
   Configured Owner: Unknown
   Current Owner: %s
   Vendor ID: %s
   Device ID: %s
   Device Class: %s
   Device Class Name: Ethernet controller
   Module Name: %s
   Passthru Capable: true

""" % (address, address, vmnic, device_name, owner, vendor, device_id, kind, module)


LX = dict(device_name="MT27710 Family [ConnectX-4 Lx]")
PCI = (function("0000:18:00.0", "0x1015", "0x0200", "vmnic0", **LX) + function("0000:18:00.1", "0x1015", "0x0200", "vmnic1", **LX)
       + function("0000:3b:00.0", "0x1017", "0x0200", "vmnic2") + function("0000:3b:00.1", "0x1017", "0x0200", "vmnic3")
       + function("0000:3b:00.2", "0x1018", "0x0200", device_name="MT27800 Family [ConnectX-5 Virtual Function]")
       + function("0000:01:00.0", "0x1521", "0x0200", "vmnic4", vendor="0x8086", device_name="I350"))
NICS = """Name    PCI Device    Driver      Admin Status  Link Status  Speed   Duplex  MAC Address         MTU  Description
------  ------------  ----------  ------------  -----------  ------  ------  -----------------  ----  -----------
vmnic0  0000:18:00.0  nmlx5_core  Up            Up            25000  Full    ec:0d:9a:00:01:10  1500  ConnectX-4 Lx EN
vmnic1  0000:18:00.1  nmlx5_core  Up            Up            25000  Full    ec:0d:9a:00:01:11  1500  ConnectX-4 Lx EN
vmnic2  0000:3b:00.0  nmlx5_core  Up            Up           100000  Full    0c:42:a1:d0:00:08  1500  ConnectX-5 VPI
vmnic3  0000:3b:00.1  nmlx5_core  Up            Up           100000  Full    0c:42:a1:d0:00:09  1500  ConnectX-5 VPI
"""
MST = """PCI devices:
------------
DEVICE_TYPE             MST                           PCI       RDMA            NET                       NUMA
ConnectX5(rev:0)        mt4119_pciconf0               3b:00.0   net-vmnic2
ConnectX5(rev:0)        mt4119_pciconf0.1             3b:00.1   net-vmnic3
ConnectX4LX(rev:0)      mt4117_pciconf1               18:00.0   net-vmnic0
ConnectX4LX(rev:0)      mt4117_pciconf1.1             18:00.1   net-vmnic1
"""
FIRMWARE = """<Devices>
  <Device pciName="0000:3b:00.0" type="ConnectX5" psid="MT_0000000008" partNumber="MCX556A-ECA_Ax">
    <Versions><FW current="16.32.1010" available="N/A"/></Versions>
    <MACs Base_Mac="0c42a1d00008" />
    <Status>No matching image found</Status>
    <Description>ConnectX-5 VPI adapter card</Description>
  </Device>
  <Device pciName="mt4117_pciconf1" type="ConnectX4LX" psid="MT_2420110034" partNumber="MCX4121A-ACA_Ax">
    <Versions><FW current="14.32.1010" available="N/A"/></Versions>
    <MACs Base_Mac="ec0d9a000110" />
    <Status>No matching image found</Status>
    <Description>ConnectX-4 Lx EN</Description>
  </Device>
</Devices>
"""
CLOSED = FIRMWARE.replace('psid="MT_0000000008" partNumber="MCX556A-ECA_Ax"', 'psid="" partNumber="--"').replace('current="16.32.1010"', 'current="--"') \
    .replace("No matching image found</Status>\n    <Description>ConnectX-5", "Failed to open device</Status>\n    <Description>ConnectX-5")
VPI = {"psid": "MT_0000000008"}


def host(pci=PCI, nics=NICS, devices=MST, firmware=FIRMWARE, interfaces=INTERFACES, switches=SWITCHES, dvs=DVS):
    used = cards.uplinks(*(cards.blocks(text) for text in (interfaces, switches, dvs)))
    found = cards.functions(esxcli.parse_pci_list(pci)["devices"], esxcli.parse_nic_list(nics)["nics"], [], used)
    return cards.assemble(found, mst.parse(devices)["devices"] if devices else [], mlxfwmanager.parse(firmware)["devices"] if firmware else [])


def test_cards_are_put_together_from_all_tools():
    lx, vpi = host()
    assert (lx["bdf"], lx["psid"], lx["mst"], lx["readable"]) == ("0000:18:00.0", "MT_2420110034", "mt4117_pciconf1", True)
    assert (vpi["bdf"], vpi["psid"], vpi["mst"], vpi["firmware"]) == ("0000:3b:00.0", "MT_0000000008", "mt4119_pciconf0", "16.32.1010")
    assert [(f["bdf"], f["port"], f["class"], f["vmnic"]) for f in vpi["functions"]] == [
        ("0000:3b:00.0", 1, "0x0200", "vmnic2"), ("0000:3b:00.1", 2, "0x0200", "vmnic3")]
    assert vpi["macs"] == ["0c42a1d00008", "0c42a1d00009"]


def test_carried_vmkernel_ports_are_found_on_standard_and_distributed_switches():
    lx, vpi = host()
    assert lx["carries"] == ["vmk0 (Management Network)", "vmk1"]
    assert lx["functions"][0]["used_by"] == ["standard switch vSwitch0"]
    assert vpi["carries"] == [] and vpi["functions"][0]["used_by"] == ["distributed switch hpc-dvs"]


def test_management_card_is_refused_by_name():
    lx, vpi = host()
    with pytest.raises(RdmaError) as err:
        cards.guard(lx, "esxi01", "set firmware settings")
    assert "it carries vmk0 (Management Network), vmk1" in str(err.value) and "MT_2420110034" in str(err.value) and err.value.code == "MANAGEMENT_CARD"
    cards.guard(vpi, "esxi01", "set firmware settings")
    cards.guard(lx, "esxi01", "set firmware settings", allow=True)


@pytest.mark.parametrize("selector", [
    VPI, {"psid": "mt_0000000008"}, {"part_number": "MCX556A-ECA"}, {"part_number": "MCX556A-ECA_Ax"}, {"pci": "3b:00.0"}, {"pci": "0000:3B:00.1"},
    {"mac": "0C-42-A1-D0-00-09"}, {"psid": "MT_0000000008", "pci": "0000:3b:00.0", "serial": None}])
def test_selectors(selector):
    card, sure = cards.choose(host(), selector, "esxi01")
    assert (card["bdf"], sure) == ("0000:3b:00.0", True)


@pytest.mark.parametrize("selector", [{"psid": "DEL0000000023"}, {"psid": "MT_0000000008", "pci": "0000:18:00.0"}, {"mac": "aa:bb:cc:dd:ee:ff"}])
def test_no_card_lists_what_was_found(selector):
    with pytest.raises(RdmaError) as err:
        cards.choose(host(), selector, "esxi01")
    assert "fits no card" in str(err.value) and "card 0000:3b:00.0 (MT_0000000008, MCX556A-ECA_Ax)" in str(err.value) and "carries vmk0" in str(err.value)


def test_several_cards():
    pci = PCI + function("0000:af:00.0", "0x1017", "0x0200")
    firmware = FIRMWARE.replace("</Devices>", FIRMWARE[len("<Devices>"):FIRMWARE.index("</Device>")].replace("3b:00.0", "af:00.0") + "</Device></Devices>")
    with pytest.raises(RdmaError, match="fits 2 cards.*0000:3b:00.0.*0000:af:00.0"):
        cards.choose(host(pci, firmware=firmware), VPI, "esxi01")
    assert cards.choose(host(pci, firmware=firmware), dict(VPI, pci="0000:af:00.0"), "esxi01")[0]["bdf"] == "0000:af:00.0"


def test_card_that_mft_cannot_open_is_taken_by_elimination_but_not_for_sure():
    owned = PCI.replace("Current Owner: VMkernel", "Current Owner: VM Passthru")
    assert owned.count("VM Passthru") == PCI.count("Current Owner")
    pci = function("0000:18:00.0", "0x1015", "0x0200", "vmnic0", **LX) + function("0000:3b:00.0", "0x1017", "0x0207", module="pciPassthru", owner="VM Passthru")
    found = host(pci, firmware=CLOSED)
    assert found[1]["readable"] is False and found[1]["why_not"] == "Failed to open device" and found[1]["psid"] == ""
    assert found[1]["functions"][0]["passthru_active"] is True
    card, sure = cards.choose(found, VPI, "esxi01")
    assert (card["bdf"], sure) == ("0000:3b:00.0", False)
    # not owned by passthrough: no guess
    with pytest.raises(RdmaError, match="fits no card"):
        cards.choose(host(firmware=CLOSED), VPI, "esxi01")


def test_without_mft_the_cards_are_there_but_do_not_tell():
    lx, vpi = host(devices="", firmware="")
    assert (vpi["psid"], vpi["mst"], vpi["readable"]) == ("", "", False)
    assert cards.matches(vpi, VPI) is None and cards.matches(vpi, {"pci": "3b:00.0"}) is True and cards.matches(lx, {"pci": "3b:00.0"}) is False


def test_virtual_functions_and_other_vendors_are_no_cards():
    assert [card["bdf"] for card in host()] == ["0000:18:00.0", "0000:3b:00.0"]
    assert len(host()[1]["functions"]) == 2


def test_selector_must_say_something():
    with pytest.raises(RdmaError, match="not described"):
        cards.choose(host(), {"psid": ""}, "esxi01")
    with pytest.raises(RdmaError, match="no PCI address"):
        cards.choose(host(), {"pci": "vmnic3"}, "esxi01")
