# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import esxcli
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample

NMLX = ("nmlx5-core", "4.21.71.101-1OEM.702.0.0.17630552", "MEL", "VMwareCertified", "2024-02-01")


def vibs(name):
    return [tuple(vib[key] for key in ("name", "version", "vendor", "acceptance_level", "install_date"))
            for vib in esxcli.parse_vib_list(sample("vib_list", name))["vibs"]]


@pytest.mark.parametrize("name", ["seven", "eight_platforms", "empty_cell", "squeezed", "nbsp"])
def test_vib_list_whatever_became_of_its_blanks(name):
    assert NMLX in vibs(name) and ("mft", "4.18.1.14-0", "MEL", "PartnerSupported", "2024-02-01") in vibs(name)


def test_an_empty_cell_stays_empty_and_moves_nothing():
    assert vibs("empty_cell")[0] == ("odd-tool", "1.0-1", "", "CommunitySupported", "2024-02-02")


def test_platforms_column_of_esxi_8():
    assert {vib["platforms"] for vib in esxcli.parse_vib_list(sample("vib_list", "eight_platforms"))["vibs"]} == {"host"}


@pytest.mark.parametrize("name", ["csv", "json", "xml"])
def test_vib_list_from_a_formatter(name):
    assert vibs(name) == [("mft", "4.18.1.14-0", "MEL", "PartnerSupported", "2024-02-01")]


def test_vib_list_through_grep_and_vib_get():
    assert vibs("grep") == [("nmst", "4.18.1.14-1OEM.700.1.0.15843807", "MEL", "PartnerSupported", "2024-02-01")]
    (vib,) = esxcli.parse_vib_list(sample("vib_list", "get"))["vibs"]
    assert vib["maintenance_mode_required"] is True and vib["live_install_allowed"] is False and vib["vendor"] == "MEL"


def test_vib_list_refuses_other_tables():
    with pytest.raises(ParseError, match="other columns"):
        esxcli.parse_vib_list(sample("nic_list", "seven"))


def result(name):
    return esxcli.parse_vib_result(sample("vib_result", name))


def test_result_is_read_by_key_not_by_place():
    seven, eight = result("seven"), result("eight")
    assert seven["reboot_required"] is True and len(seven["installed"]) == 2 and seven["removed"] == ["MEL_bootbank_mft_4.17.0.106-0"]
    assert eight["reboot_required"] is False and eight["installed"] == [] and eight["skipped"] == ["MEL_bootbank_nmst_4.18.1.14-1OEM.700.1.0.15843807"]
    assert seven["changed"] is True and eight["changed"] is False


def test_result_that_changed_nothing():
    out = result("unchanged")
    assert out["changed"] is False and out["skipped"] == ["MEL_bootbank_mft_4.18.1.14-0"] and out["message"] == "Host is not changed."


@pytest.mark.parametrize("name, installed, removed", [
    ("unindented", [], ["MEL_bootbank_mft_4.18.1.14-0"]), ("keyvalue", ["MEL_bootbank_mft_4.18.1.14-0"], []),
    ("component", ["Mellanox-nmlx5_4.21.71.101-1OEM.702.0.0.17630552"], []),
    ("wrapped", ["MEL_bootbank_mft_4.18.1.14-0", "MEL_bootbank_nmst_4.18.1.14-1OEM.700.1.0.15843807"], [])])
def test_result_in_other_forms(name, installed, removed):
    out = result(name)
    assert (out["installed"], out["removed"]) == (installed, removed) and out["reboot_required"] is not None


@pytest.mark.parametrize("name, tag, words", [
    ("err_dependency", "DependencyError", "requires nmlx5-core = 4.21.71.101"), ("err_platform", "AcceptanceConfigError", "On platform embeddedEsx"),
    ("err_url", "VibDownloadError", "/var/log/vmware/mft.vib"), ("err_memory", "MemoryError", "MemoryError"), ("err_no_tag", "", "Got no data from process"),
    ("err_usage", "", "Missing required parameter -n|--vibname")])
def test_errors_carry_their_tag_and_text(name, tag, words):
    out = result(name)
    assert out["tag"] == tag and words in out["error"] and "Please refer" not in out["error"] and "Usage:" not in out["error"]


def test_error_details_stand_apart():
    assert result("err_url")["details"] == {"url": "mft.vib"}


def test_module_parameters():
    parameters = esxcli.parse_module_parameters(sample("module_parameters", "nmlx5"))["parameters"]
    assert parameters["max_vfs"]["type"] == "array of uint" and parameters["max_vfs"]["value"] == "8,8"
    assert "range 0-128" in parameters["max_vfs"]["description"] and parameters["max_vfs"]["default"] == "0"
    assert parameters["DRSS"]["value"] == "" and parameters["ecn"]["value"] == "1" and list(parameters)[-1] == "trust_state"


def test_module_parameters_squeezed():
    parameters = esxcli.parse_module_parameters(sample("module_parameters", "squeezed"))["parameters"]
    assert parameters["max_vfs"] == {"type": "array of uint", "value": "16,16", "description": "Number of VFs per port"}
    assert parameters["RSS"]["value"] == "" and parameters["enable_debug"]["value"] == "0"


def test_module_parameters_through_grep_and_of_another_table():
    out = esxcli.parse_module_parameters("max_vfs              array of uint  4,4    Number of PCI VFs to initialize\n")
    assert out["parameters"]["max_vfs"]["value"] == "4,4"
    assert "nmlx9_core" in esxcli.parse_module_parameters(sample("module_parameters", "error"))["error"]
    with pytest.raises(ParseError, match="other columns"):
        esxcli.parse_module_parameters(sample("vib_list", "seven"))


def test_option_strings():
    assert esxcli.parse_options("max_vfs=8,8 trust_state=2") == {"max_vfs": "8,8", "trust_state": "2"}
    assert esxcli.join_options(esxcli.parse_options("a=1 b=2,3")) == "a=1 b=2,3"
    out = esxcli.parse_esxcfg_module("nmlx5_core enabled = 1 options = 'pfctx=0x08 max_vfs=8,8'\n")
    assert out == {"module": "nmlx5_core", "enabled": True, "options": {"pfctx": "0x08", "max_vfs": "8,8"}}


@pytest.mark.parametrize("name", ["list", "squeezed"])
def test_pcipassthru_list(name):
    devices = esxcli.parse_pcipassthru(sample("pcipassthru", name))["devices"]
    assert devices[0] == {"address": "0000:5e:00.0", "enabled": True} and devices[-1]["enabled"] is False


def test_pcipassthru_set():
    assert esxcli.parse_pcipassthru(sample("pcipassthru", "silent")) == {"devices": []}
    already = esxcli.parse_pcipassthru(sample("pcipassthru", "already"))
    assert already["unchanged"] is True and already["owner"] == "vmkernel"
    used = esxcli.parse_pcipassthru(sample("pcipassthru", "in_use"))
    assert used["unchanged"] is False and (used["vswitch"], used["uplink"]) == ("dvs-rdma", "vmnic7")


def test_pci_list():
    kernel, passed = esxcli.parse_pci_list(sample("pci_list", "mixed"))["devices"]
    assert (kernel["vmkernel_name"], kernel["module_name"], kernel["irq"], kernel["slot_description"]) == ("vmnic6", "nmlx5_core", "255", "Slot 3: PCIe x16")
    assert (passed["address"], passed["current_owner"], passed["module_name"], passed["passthru_capable"]) == (
        "0000:5e:00.1", "VM Passthru", "pciPassthru", True)
    (bare,) = esxcli.parse_pci_list(sample("pci_list", "unindented"))["devices"]
    assert bare["module_name"] == "pciPassthru" and bare["passthru_capable"] is False


@pytest.mark.parametrize("name", ["seven", "squeezed", "esxcfg"])
def test_nic_list(name):
    first, second = esxcli.parse_nic_list(sample("nic_list", name))["nics"]
    assert (first["name"], first["pci_device"], first["driver"], first["link_status"], first["speed"], first["mtu"]) == (
        "vmnic4", "0000:19:00.0", "nmlx5_core", "Up", 25000, 9000)
    assert second["speed"] == 0 and second["mac_address"] == "98:03:9b:a1:b2:c0" and second["description"].endswith("[ConnectX-5]")


def test_nic_get_has_its_address_with_a_colon():
    (nic,) = esxcli.parse_nic_list(sample("nic_list", "get"))["nics"]
    assert (nic["name"], nic["pci_device"], nic["firmware_version"]) == ("vmnic7", "0000:5e:00.1", "16.32.1010")
    assert nic["fields"]["Driver Info"]["Driver"] == "nmlx5_core"


def test_version_maintenance_mode_acceptance():
    assert esxcli.parse_version("   Product: VMware ESXi\n   Version: 7.0.2\n   Build: Releasebuild-17867351\n   Update: 2\n"
                                "   Patch: 0\n")["build_number"] == 17867351
    assert esxcli.parse_version("   Product: VMware ESXi\n   Version: 5.5.0\n   Build: Releasebuild-1\n   Update: 3\n")["patch"] == ""
    assert esxcli.parse_version("VMware ESXi 8.0.2 build-22380479\n")["version"] == "8.0.2"
    assert esxcli.parse_maintenance_mode("Enabled\n") == {"enabled": True} and esxcli.parse_maintenance_mode("Disabled\n") == {"enabled": False}
    assert esxcli.parse_acceptance("PartnerSupported\n") == {"level": "PartnerSupported"}
    for parser in (esxcli.parse_version, esxcli.parse_maintenance_mode, esxcli.parse_acceptance):
        with pytest.raises(ParseError):
            parser("something else\n")


def test_any_table_and_any_block():
    rows = esxcli.table("VF ID  Active  PCI Address     Owner World ID\n-----  ------  --------------  --------------\n"
                        "    3   false  00000:094:00.4   -\n")["rows"]
    assert rows == [{"VF ID": "3", "Active": "false", "PCI Address": "00000:094:00.4", "Owner World ID": "-"}]
    assert esxcli.nested("A: 1\n   B:\n      C: x y\n      D:\n   E: 2\n") == {"A": "1", "B": {"C": "x y", "D": ""}, "E": "2"}


def test_argument_lists():
    assert esxcli.vib_install_args("/vmfs/volumes/ds/nmlx5.zip") == ["software", "vib", "install", "-d", "/vmfs/volumes/ds/nmlx5.zip"]
    assert esxcli.vib_install_args("/vmfs/volumes/ds/mft.vib", force=True)[3:] == ["-v", "/vmfs/volumes/ds/mft.vib", "--force"]
    assert esxcli.module_set_args("nmlx5_core", {"max_vfs": "0,0", "ecn": 1})[-1] == "max_vfs=0,0 ecn=1"
    assert esxcli.pcipassthru_set_args("0000:5e:00.0", True, apply_now=True)[-5:] == ["-d", "0000:5e:00.0", "-e", "true", "-a"]
