# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import ibverbs, ofed
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample


@pytest.mark.parametrize("name, provider, version", [
    ("s", "mlnx_ofed", "5.8-4.1.5.0"), ("doca", "doca", "24.10-0.7.0"), ("en", "mlnx_en", "23.10-2.1.3.1"), ("n", "", "5.8-4.1.5.0"),
    ("full", "mlnx_ofed", "5.8-4.1.5.0")])
def test_ofed_info(name, provider, version):
    out = ofed.parse(sample("ofed_info", name))
    assert (out["provider"], out["version"]) == (provider, version)


def test_ofed_info_packages_and_foreign_text():
    out = ofed.parse(sample("ofed_info", "full"))
    assert out["ofed"] == "OFED-5.8-4.1.5" and list(out["packages"]) == ["clusterkit", "mlnx-ofa_kernel"]
    for text in ("", "bash: ofed_info: command not found\n", "glibc-2.28-251.el8\n"):
        with pytest.raises(ParseError):
            ofed.parse(text)


def test_installer_asks_for_packages():
    out = ofed.parse_install("Error: One or more required packages for installing MLNX_OFED_LINUX are missing.\n"
                             "Please install the missing packages using your Linux distribution Package Management tool.\nRun:\n"
                             "yum install tk kernel-modules-extra\n")
    assert (out["status"], out["kind"], out["missing"]) == ("failed", "packages", ["tk", "kernel-modules-extra"])


def test_the_same_sentence_is_only_a_notice_on_debian():
    out = ofed.parse_install("Checking SW Requirements...\nOne or more required packages for installing MLNX_OFED_LINUX are missing.\n"
                             "Attempting to install the following missing packages:\nlibnl-3-dev gfortran\nInstalling ofed-scripts-5.8...\n")
    assert out["status"] == "running" and "error" not in out and out["missing"] == ["libnl-3-dev", "gfortran"] and out["packages"] == ["ofed-scripts-5.8"]


def test_installer_without_drivers_for_the_kernel():
    out = ofed.parse_install("Logs dir: /tmp/MLNX_OFED_LINUX.1.logs\nThe 4.18.0-477.el8.x86_64 kernel is installed, MLNX_OFED_LINUX does not have drivers "
                             "available for this kernel.\n"
                             "You can run mlnx_add_kernel_support.sh in order to to generate an MLNX_OFED_LINUX package with drivers for this kernel.\n")
    assert (out["status"], out["kind"], out["kernel"], out["add_kernel_support"]) == ("failed", "kernel", "4.18.0-477.el8.x86_64", True)


def test_installer_that_passed_carries_the_firmware_part():
    out = ofed.parse_install("Attempting to perform Firmware update...\n" + sample("mlxfwmanager", "update") + "\nInstallation passed successfully\n"
                             "To load the new driver, run:\n/etc/init.d/openibd restart\n")
    assert out["status"] == "passed" and out["restart"] == "/etc/init.d/openibd restart" and out["firmware"]["devices"][0]["psid"] == "MT_0000000008"


@pytest.mark.parametrize("blanks", ["", " " * 20])
def test_openibd_restart(blanks):
    out = ofed.parse_openibd("Unloading HCA driver:%s[  OK  ]\nLoading HCA driver and Access Layer:%s[  OK  ]\n" % (blanks, blanks))
    assert out["ok"] is True and [step["step"] for step in out["steps"]] == ["Unloading HCA driver", "Loading HCA driver and Access Layer"]


def test_openibd_failures_and_status():
    out = ofed.parse_openibd("Unloading mlx_compat      [FAILED]\nrmmod: ERROR: Module mlx_compat is in use by: nvme_core\n")
    assert out["ok"] is False and "nvme_core" in out["error"]
    out = ofed.parse_openibd("\n  HCA driver loaded\n\nConfigured IPoIB devices:\n\nCurrently active IPoIB devices:\nConfigured Mellanox EN devices:\n"
                             "ens224\n\n"
                             "Currently active Mellanox devices:\nens224\nib0\n\nThe following OFED modules are loaded:\n\n  rdma_ucm\n  mlx5_core\n")
    assert out["status"]["loaded"] is True and out["status"]["ipoib_configured"] == [] and out["status"]["active"] == ["ens224", "ib0"]
    assert "force-restart" in ofed.parse_openibd("\nUsage: openibd {start|force-start|restart|force-restart|status}\n")["actions"]
    with pytest.raises(ParseError):
        ofed.parse_openibd("nothing of openibd\n")


def ports(name):
    return ibverbs.parse_ibstatus(sample("ibstatus", name))["ports"]


def test_ibstatus_tells_the_fabric_by_link_layer_alone():
    first, second = ports("paper_like")
    assert (first["device"], first["link_layer"], first["state"], first["phys_state"], first["base_lid"]) == ("mlx5_0", "InfiniBand", "ACTIVE", "LinkUp", 20)
    assert second["link_layer"] == "Ethernet" and first["speed"] == second["speed"] == "EDR" and second["rate_gbits"] == 100.0


def test_ibstatus_without_a_subnet_manager_and_with_two_ports():
    (port,) = ports("no_sm")
    assert (port["state"], port["state_code"], port["base_lid"], port["sm_lid"]) == ("INIT", 2, 0xffff, 0)
    assert [(port["device"], port["port"], port["rate_gbits"], port["width"]) for port in ports("mlx4")] == [("mlx4_0", 1, 40.0, "4X"), ("mlx4_0", 2, 10.0, "")]


def test_ibstatus_errors():
    assert ibverbs.parse_ibstatus(sample("ibstatus", "error")) == {"ports": [], "error": "No devices"}
    assert "mlx5_7" in ibverbs.parse_ibstatus(sample("ibstatus", "error_device"))["error"]
    with pytest.raises(ParseError):
        ibverbs.parse_ibstatus("")


def test_ibstat():
    first, second = ibverbs.parse_ibstat(sample("ibstat", "two"))["devices"]
    assert (first["name"], first["ca_type"], first["firmware_version"]) == ("mlx5_0", "MT4119", "16.32.1010")
    assert (first["ports"][0]["base_lid"], first["ports"][0]["rate"], second["ports"][0]["link_layer"]) == (20, 100, "Ethernet")
    port = ibverbs.parse_ibstat(sample("ibstat", "no_sm"))["devices"][0]["ports"][0]
    assert (port["state"], port["physical_state"], port["base_lid"]) == ("Down", "LinkUp", 65535)


def test_ibstat_prints_nothing_where_there_is_no_device():
    assert ibverbs.parse_ibstat(sample("ibstat", "nothing")) == {"devices": []}
    assert [device["name"] for device in ibverbs.parse_ibstat(sample("ibstat", "names"))["devices"]] == ["mlx5_0", "mlx5_1"]
    assert "mlx5_9" in ibverbs.parse_ibstat(sample("ibstat", "error"))["error"]
    with pytest.raises(ParseError):
        ibverbs.parse_ibstat("hello there\n")


def test_ibv_devinfo():
    first, second = ibverbs.parse_ibv_devinfo(sample("ibv_devinfo", "two"))["devices"]
    assert (first["hca_id"], first["fw_ver"], first["board_id"], first["vendor_part_id"]) == ("mlx5_0", "16.32.1010", "MT_0000000008", 4119)
    assert (first["ports"][0]["state"], first["ports"][0]["active_mtu"], first["ports"][0]["port_lid"]) == ("PORT_ACTIVE", 4096, 20)
    assert (second["ports"][0]["link_layer"], second["ports"][0]["active_mtu"]) == ("Ethernet", 1024)


def test_ibv_devinfo_two_ports_under_one_device_and_the_old_line():
    (device,) = ibverbs.parse_ibv_devinfo(sample("ibv_devinfo", "mlx4_two_ports"))["devices"]
    assert [(port["port"], port["state"], port["link_layer"]) for port in device["ports"]] == [(1, "PORT_DOWN", "InfiniBand"), (2, "PORT_ACTIVE", "Ethernet")]


def test_ibv_devinfo_verbose():
    (device,) = ibverbs.parse_ibv_devinfo(sample("ibv_devinfo", "verbose"))["devices"]
    assert device["device_cap_flags_flags"] == ["BAD_PKEY_CNTR", "MEM_WINDOW", "Unknown flags: 0x45000000"] and device["hca_core_clock"] == "78125 kHZ"
    (port,) = device["ports"]
    assert (port["active_width"], port["active_speed"], port["phys_state"]) == ("4X", "25.0 Gbps", "LINK_UP")
    assert port["gids"][1] == {"index": 3, "gid": "::ffff:192.168.60.11", "type": "RoCE v2"}


def test_ibv_devices_list_and_errors():
    assert [(d["hca_id"], d["node_guid"]) for d in ibverbs.parse_ibv_devinfo(sample("ibv_devinfo", "devices"))["devices"]] == [
        ("mlx5_0", "98039b0300a1b2c0"), ("rocep94s0f1", "98039b0300a1b2c1")]
    assert [d["hca_id"] for d in ibverbs.parse_ibv_devinfo(sample("ibv_devinfo", "list"))["devices"]] == ["mlx5_0", "mlx5_1"]
    assert ibverbs.parse_ibv_devinfo(sample("ibv_devinfo", "error"))["error"] == "No IB devices found"
    assert "Function not implemented" in ibverbs.parse_ibv_devinfo(sample("ibv_devinfo", "error_kernel"))["error"]


@pytest.mark.parametrize("name", ["new", "old", "json"])
def test_rdma_link_in_all_forms(name):
    first, second = ibverbs.parse_rdma_link(sample("rdma_link", name))["links"][:2]
    assert (first["device"], first["port"], first["lid"], first["sm_lid"], first["netdev"]) == ("mlx5_0", 1, 20, 1, "")
    assert (second["device"], second["state"], second["physical_state"], second["lid"]) == ("mlx5_1", "ACTIVE", "LINK_UP", None)
    assert second["netdev"] == ("" if name == "old" else "ens224f1")


def test_rdma_dev_nothing_and_errors():
    out = ibverbs.parse_rdma_link(sample("rdma_link", "dev"))
    assert out["devices"][0]["fw"] == "16.32.1010" and out["links"] == []
    assert ibverbs.parse_rdma_link("") == {"links": []}
    assert ibverbs.parse_rdma_link(sample("rdma_link", "error"))["error"] == "Failed to open NETLINK_RDMA socket"
    with pytest.raises(ParseError):
        ibverbs.parse_rdma_link("1: lo: <LOOPBACK,UP> mtu 65536\n")


def test_ibdev2netdev_and_show_gids():
    out = ibverbs.parse_ibdev2netdev("mlx5_0 port 1 ==> ibp94s0 (Up)\nmlx5_1 port 1 ==> ens224f1 (Down)\n")
    assert out["ports"][1] == {"device": "mlx5_1", "port": 1, "netdev": "ens224f1", "up": False}
    (port,) = ibverbs.parse_ibdev2netdev("0000:5e:00.0 mlx5_0 (MT4119 - MCX556A-ECAT) CX556A fw 16.32.1010 port 1 (ACTIVE) ==> ib0 (Up)\n")["ports"]
    assert (port["device"], port["netdev"]) == ("mlx5_0", "ib0")
    out = ibverbs.parse_show_gids("DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
                                  "mlx5_1\t1\t1\tfe80:0000:0000:0000:9a03:9bff:fea1:b2c1\t\t\tv2\tens224f1\n"
                                  "mlx5_1\t1\t3\t0000:0000:0000:0000:0000:ffff:c0a8:3c0b\t192.168.60.11  \tv2\tens224f1\nn_gids_found=2\n")
    assert out["count"] == 2 and [(gid["index"], gid["ipv4"], gid["version"], gid["netdev"]) for gid in out["gids"]] == [
        (1, "", "v2", "ens224f1"), (3, "192.168.60.11", "v2", "ens224f1")]
