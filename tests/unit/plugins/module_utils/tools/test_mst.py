# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import mst
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample


def names(name):
    return [device["mst"] for device in mst.parse(sample("mst", name))["devices"]]


def test_esxi_names_have_no_directory_and_old_builds_have_one():
    assert names("esxi_plain") == ["mt4119_pciconf0", "mt4119_pciconf1"]
    assert names("esxi_old_dev") == ["/dev/mt4115_pciconf0"]


def test_esxi_table_of_the_paper_has_three_columns():
    devices = mst.parse(sample("mst", "esxi_vv_three_columns"))["devices"]
    assert [(d["type"], d["chip"], d["mst"], d["pci"]) for d in devices] == [
        ("ConnectX4LX", 4117, "mt4117_pciconf0", "0000:19:00.0"), ("ConnectX5", 4119, "mt4119_pciconf0", "0000:5e:00.0"),
        ("ConnectX5", 4119, "mt4119_pciconf0.1", "0000:5e:00.1")]


def test_a_net_name_in_the_rdma_column_is_a_net_name():
    devices = mst.parse(sample("mst", "esxi_vv_net_in_rdma"))["devices"]
    assert [(d["rdma"], d["net"], d["numa"]) for d in devices] == [([], ["vmnic4"], None), ([], ["vmnic6"], 1), ([], ["vmnic7"], 1)]


def test_linux_table_with_blank_lines_lists_and_virtual_functions():
    out = mst.parse(sample("mst", "linux_v"))
    first, second, virtual = out["devices"]
    assert first["rdma"] == ["mlx5_3", "mlx5_b0"] and first["net"] == ["ens9f1", "bond0"] and first["numa"] == -1
    assert second["mst"] == "/dev/mst/mt4123_pciconf0"
    assert virtual["mst"] == "" and virtual["pci"] == "0000:af:00.2" and virtual["rdma"] == ["mlx5_4"]
    assert out["modules"] == {"pci": False, "pci_configuration": True}


def test_squeezed_table_and_a_domain_other_than_zero():
    (device,) = mst.parse(sample("mst", "linux_v_squeezed"))["devices"]
    assert (device["pci"], device["rdma"], device["net"], device["numa"]) == ("0002:41:00.0", ["mlx5_0"], ["ib3"], 0)


def test_linux_plain_has_three_lines_per_device():
    devices = mst.parse(sample("mst", "linux_plain"))["devices"]
    assert [(d["mst"], d["pci"], d["rev"]) for d in devices] == [
        ("/dev/mst/mt4119_pciconf0", "0004:41:00.0", "00"), ("/dev/mst/mt4117_pciconf0", "0000:19:00.0", "0A")]


def test_device_at_finds_the_card_by_its_address_and_prefers_pciconf():
    devices = mst.parse(sample("mst", "cx3_two_nodes"))["devices"]
    assert mst.device_at(devices, "07:00.0") == "mt4103_pciconf0"
    assert mst.device_at(devices, "0000:08:00.0") == ""


@pytest.mark.parametrize("name", ["esxi_start", "esxi_start_again", "linux_restart"])
def test_start_and_restart_leave_the_driver_loaded(name):
    out = mst.parse(sample("mst", name))
    assert out["loaded"] is True and "error" not in out


def test_failed_start_is_an_error_with_the_reason():
    out = mst.parse(sample("mst", "linux_start_failed"))
    assert out["loaded"] is False and "mst_pci not found" in out["error"] and "Failure: 1" in out["error"]


def test_version():
    assert mst.parse("mst, mft 4.18.1-14, built on Jan 02 2022, 11:11:11. Git SHA Hash: N/A\n")["version"] == "4.18.1-14"


def test_no_device_is_no_error():
    out = mst.parse(sample("mst", "none"))
    assert out["devices"] == [] and "error" not in out and "No MST devices were found" in out["messages"][0]


def test_wrong_switch_and_foreign_text():
    assert mst.parse(sample("mst", "wrong_switch"))["error"] == 'Unknown argument "--vv"'
    with pytest.raises(ParseError, match="read the output of mst"):
        mst.parse("total 4\ndrwxr-xr-x 2 root root 60 Jan 1 00:00 mst\n")
