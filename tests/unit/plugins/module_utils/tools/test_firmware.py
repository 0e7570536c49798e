# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import flint, mlxfwmanager
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample


def fw(name):
    return mlxfwmanager.parse(sample("mlxfwmanager", name))


def test_query_of_two_cards():
    first, second = fw("query")["devices"]
    assert (first["psid"], first["part_number"], first["pci"], first["fw"], first["status"]) == (
        "MT_0000000008", "MCX556A-ECA_Ax", "0000:5e:00.0", "16.32.1010", "Up to date")
    assert first["macs"] == {"base": "98039ba1b2c0"} and first["guids"] == {"base": "98039b0300a1b2c0"}
    assert first["versions"]["UEFI"] == {"current": "14.25.0017", "available": "14.25.0017"}
    assert second["pci_name"] == "mt4117_pciconf0" and second["pci"] == "" and second["fw_available"] == "N/A"


def test_no_matching_image_is_no_error():
    out = fw("query")
    assert out["devices"][1]["status"] == "No matching image found" and "error" not in out and "error" not in out["devices"][1]


def test_flash_and_running_firmware_are_told_apart():
    (device,) = fw("query_running")["devices"]
    assert (device["fw"], device["fw_running"]) == ("16.32.1010", "16.31.1014")
    (device,) = fw("up_to_date")["devices"]
    assert device["fw"] == device["fw_running"]


def test_description_over_two_lines_and_squeezed_columns():
    assert fw("query_long_description")["devices"][0]["description"].endswith("EDR IB (100Gb/s) and 100GbE; dual-port QSFP28")
    (device,) = fw("query_squeezed")["devices"]
    assert device["versions"] == {"FW": {"current": "16.32.1010", "available": "N/A"}, "UEFI Virtio net": {"current": "21.1.0010", "available": "N/A"}}
    assert device["status"] == "No matching image found" and device["psid"] == "MT_0000000008"


def test_online_query_lists_release_notes_apart():
    out = fw("query_online")
    assert out["requiring_update"] == 1 and "http://docs.example.com" in out["release_notes"][-1]
    assert out["devices"][0]["status"] == "Update required"


@pytest.mark.parametrize("name", ["update", "update_carriage"])
def test_update_done_whatever_the_progress_is_drawn_with(name):
    out = fw(name)
    assert [(update["device"], update["result"]) for update in out["updates"]] == [(1, "Done")]
    assert out["restart_needed"] is True and "error" not in out
    if name == "update_carriage":
        assert [step["step"] for step in out["updates"][0]["steps"]] == ["FSMST_INITIALIZE", "Writing Boot image component"]


def test_failed_update_names_the_device_and_the_reason():
    out = fw("update_failed")
    assert out["error"] == "device #1: Fail : The Digest in the signature is wrong" and out["restart_needed"] is False


def test_up_to_date_summary():
    assert fw("up_to_date")["requiring_update"] == 0


def test_xml_with_one_bad_device_among_good_ones():
    good, bad = fw("xml")["devices"]
    assert (good["psid"], good["fw"], good["macs"], good["guids"]) == (
        "MT_0000000008", "16.32.1010", {"base": "98039ba1b2c0"}, {"base": "98039b0300a1b2c0"})
    assert "R&D sample" in good["description"]
    assert bad["error"] == "Failed to open device" and bad["psid"] == "" and bad["fw"] == "--"


def test_xml_and_text_of_the_same_card_agree():
    text, xml = fw("query")["devices"][0], fw("xml")["devices"][0]
    assert all(text[key] == xml[key] for key in ("psid", "part_number", "pci", "macs", "guids", "fw", "device_type"))


def test_a_card_that_cannot_be_opened_is_marked():
    (device,) = fw("failed_open")["devices"]
    assert device["error"] == "Failed to open device" and device["versions"]["FW"] == {"current": "--", "available": ""}


def test_no_device_and_foreign_text():
    assert "mst might be stopped" in fw("err_no_device")["error"]
    for text in ("", "Device #1:\n----------\n\nDevice type:    ConnectX5\n", "<Devices><Device>"):
        with pytest.raises(ParseError):
            mlxfwmanager.parse(text)


def test_update_arguments_name_the_source_and_force_only_a_downgrade():
    args = mlxfwmanager.update_args("mt4119_pciconf0", mlxfwmanager.source_args("/vmfs/volumes/ds/fw"))
    assert args[:4] == ["-d", "mt4119_pciconf0", "-D", "/vmfs/volumes/ds/fw"] and "-y" in args and not {"--online", "-f"} & set(args)
    assert "-f" in mlxfwmanager.update_args("mt4119_pciconf0", mlxfwmanager.source_args("/vmfs/volumes/ds/fw"), downgrade=True)
    assert mlxfwmanager.source_args() == ["--online"] and "-u" not in mlxfwmanager.query_args("mt4119_pciconf0", source=["--online"])


def image(name):
    return flint.parse(sample("flint", name))


def test_flint_query_with_a_second_rom_and_a_reflashed_card():
    out = image("query_fs4")
    assert (out["fw_version"], out["psid"], out["orig_psid"], out["base_guid"], out["base_guid_count"]) == (
        "16.32.1010", "MT_0000000008", "DEL0000000004", "98039b0300a1b2c0", 8)
    assert [(rom["type"], rom["version"]) for rom in out["rom"]] == [("UEFI", "14.25.17"), ("PXE", "3.6.502")]
    assert out["security"] == ["secure-fw", "dev"]


def test_flint_query_with_empty_fields_and_no_rom():
    out = image("query_fs3_empty")
    assert out["rom"] == [] and out["image_vsd"] == "" and out["security"] == [] and out["base_mac"] == "00007cfe90112230"


def test_flint_burn():
    burn = image("burn")["burn"]
    assert burn["ok"] and not burn["same"] and burn["new"] == "16.32.1010" and "reboot machine" in burn["reset"]
    assert image("burn_same")["burn"]["same"] is True


def test_flint_errors():
    psid = image("err_psid")
    assert (psid["psid_on_flash"], psid["psid_in_image"]) == ("MT_0000000008", "MT_0000000012") and psid["error"].startswith("PSID mismatch")
    assert "MFE_CR_ERROR" in image("err_open")["error"]
    assert image("err_command")["error"] == "Invalid command: qq"
    with pytest.raises(ParseError):
        flint.parse("Description: nothing of flint\nDevice Type: x\n")


def test_burn_that_stops_half_way_is_an_error():
    out = flint.parse("    Current FW version on flash:  1.1.1\n    New FW version:               1.1.2\n\nBurning FS3 FW image without signatures - FAILED\n")
    assert out["burn"]["ok"] is False and "Burning" in out["error"]
