# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of the lab's guests: OFED from tarball to devices, what shows them, addresses that last and that do not."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

pytest.importorskip("asyncssh")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from guest_bench import Bench  # noqa: E402

INSTALLER = "cd MLNX_OFED_LINUX-5.4-3.0.3.0-rhel8.1-x86_64 && ./mlnxofedinstall"
KEYFILE = """[connection]
id=roce
uuid=7c1f8f86-52a4-4b7c-9d2e-a0a0a0a0a0a0
type=ethernet
interface-name=%s

[ethernet]
mtu=9000

[ipv4]
method=manual
address1=192.168.5.21/24
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("guests"), 3)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def virgin(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("virgin"), 1, ofed=False)
    yield made
    made.stop()


def reboot(bench, number):
    boots = bench.vms[number - 1].guest.boots
    bench.world.reboot_guest(bench.vms[number - 1])
    bench.wait(lambda: bench.vms[number - 1].guest.extra.get("seen_boot") == boots + 1 and bench.run(number, "hostname")[0] == 0)


def journal(bench, words):
    return [row for row in bench.world.journal if words in row["what"]]


# ---- OFED ------------------------------------------------------------------------------------------------------------------

def test_from_nothing_to_devices(virgin):
    """The paper's order: prerequisites, installer, driver restart; each step missing shows as it would."""
    assert virgin.run(1, "ofed_info -s")[0] == 127
    assert virgin.run(1, "rdma link") == (0, "", "")
    assert "15b3:1017" in virgin.run(1, "lspci -nn")[1], "the host's functions are there before any driver"
    assert virgin.run(1, "tar xzf *.tgz")[0] == 0
    code, out, dummy = virgin.run(1, INSTALLER + " --force --without-fw-update")
    assert code == 172
    assert "required packages" in out and "kernel-modules-extra" in out
    code, out, dummy = virgin.run(1, "rpm -q perl tk bash")
    assert (code, out.splitlines()[:2]) == (2, ["package perl is not installed", "package tk is not installed"])
    assert virgin.run(1, "dnf install -y perl nosuchpackage")[0] == 1
    assert virgin.run(1, "dnf -y install perl tk gcc-gfortran kernel-modules-extra-4.18.0-147.el8.x86_64 numactl-libs")[0] == 0
    assert virgin.run(1, "rpm -q --qf '%{VERSION}\\n' tcl")[1] == "8.6.8\n", "tk brings tcl along"
    assert "Nothing to do" in virgin.run(1, "dnf -y install perl")[1]
    code, out, dummy = virgin.run(1, INSTALLER + " --force --without-fw-update --no-such-option")
    assert code == 22
    code, out, dummy = virgin.run(1, "echo n | (%s --without-fw-update)" % INSTALLER)
    assert code == 1 and "Do you want to continue" in out
    code, out, dummy = virgin.run(1, "echo y | (%s --without-fw-update)" % INSTALLER)
    assert code == 0 and "Installation passed successfully" in out
    assert journal(virgin, "firmware update") == []
    assert virgin.run(1, "ofed_info -s")[1] == "MLNX_OFED_LINUX-5.4-3.0.3.0:\n"
    code, out, err = virgin.run(1, "ibv_devinfo")
    assert (code, err) == (255, "No IB devices found\n"), "installed is not loaded"
    code, out, dummy = virgin.run(1, "ibstatus")
    assert code == 255 and "No devices" in out
    assert virgin.run(1, "../etc/init.d/openibd restart") == (0, "Unloading HCA driver:[  OK  ]\nLoading HCA driver and Access Layer:[  OK  ]\n", "")
    assert virgin.run(1, "ibdev2netdev")[1].splitlines() == ["mlx5_0 port 1 ==> ib0 (Up)", "mlx5_1 port 1 ==> ens224f1 (Up)"]
    reboot(virgin, 1)
    assert virgin.run(1, "ibstat -l")[1] == "mlx5_0\nmlx5_1\n", "a reboot loads the driver too"


def test_the_installer_burns_firmware_unless_told_not_to(bench):
    bench.run(3, "tar xzf *.tgz; dnf -y install perl tk gcc-gfortran kernel-modules-extra numactl-libs")
    code, out, dummy = bench.run(3, INSTALLER + " --force")
    assert code == 0 and "Attempting to perform Firmware update" in out
    assert [row["host"] for row in journal(bench, "firmware update")] == ["vm03"]


def test_without_a_card_there_is_nothing_to_install_for(virgin):
    vm = virgin.vms[0]
    devices, vm.devices = vm.devices, []
    try:
        assert virgin.run(1, INSTALLER + " --force --without-fw-update")[0] == 171
    finally:
        vm.devices = devices


def test_another_kernel_needs_other_modules(virgin):
    guest = virgin.vms[0].guest
    kernel, guest.kernel = guest.kernel, "4.18.0-305.el8.x86_64"
    try:
        code, out, dummy = virgin.run(1, INSTALLER + " --force --without-fw-update")
        assert code == 1 and "--add-kernel-support" in out
        assert virgin.run(1, "uname -r")[1] == "4.18.0-305.el8.x86_64\n"
    finally:
        guest.kernel = kernel


def test_openibd_stop_takes_the_devices_away(bench):
    assert bench.run(3, "$HOME/../etc/init.d/openibd stop; systemctl is-active openibd")[1].endswith("inactive\n")
    assert bench.run(3, "ibv_devinfo")[0] == 255
    assert list((bench.root(3) / "sys/class/infiniband").iterdir()) == []
    assert not (bench.root(3) / "sys/class/net/ib0").exists()
    assert bench.run(3, "systemctl start openibd; systemctl is-active openibd")[1] == "active\n"
    assert bench.run(3, "ibv_devinfo")[0] == 0


# ---- devices ---------------------------------------------------------------------------------------------------------------

def test_ports_keep_the_cards_identity(bench):
    """GUID and MAC are those of the card in the host: the thread from firmware to guest."""
    vm = bench.vms[0]
    card = next(card for card in bench.world.hosts[vm.host].cards if card.vpi)
    out = bench.run(1, "ibv_devinfo -v")[1]
    for port in card.ports:
        assert ":".join(port.guid[n:n + 4] for n in range(0, 16, 4)) in out
    assert card.psid in out and card.firmware in out
    links = {row["ifname"]: row for row in json.loads(bench.run(1, "ip -j link")[1])}
    assert links["ens224f1"]["address"] == card.ports[1].mac
    assert links["ib0"]["address"].replace(":", "").endswith(card.ports[0].guid)
    assert links["ib0"]["link_type"] == "infiniband"


def test_sysfs_says_what_the_tools_say(bench):
    top = bench.root(1) / "sys/class/infiniband"
    keys = ("state", "phys_state", "rate", "link_layer")
    ports = {name: {key: (top / name / "ports/1" / key).read_text().strip() for key in keys} for name in ("mlx5_0", "mlx5_1")}
    assert ports == {"mlx5_0": {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)", "link_layer": "InfiniBand"},
                     "mlx5_1": {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)", "link_layer": "Ethernet"}}
    assert [path.name for path in (top / "mlx5_1/device/net").iterdir()] == ["ens224f1"]
    assert (top / "mlx5_0/board_id").read_text() == "MT_0000000008\n"
    assert (top / "mlx5_1/device/vendor").read_text() == "0x15b3\n"
    assert (bench.root(1) / "sys/class/net/ib0/type").read_text() == "32\n"
    assert (bench.root(1) / "sys/module/mlx5_core/version").read_text() == "5.4-3.0.3\n"


def test_without_a_subnet_manager_infiniband_is_linked_but_not_active(bench):
    bench.world.subnet_manager = False
    try:
        out = bench.run(1, "ibstatus mlx5_0")[1]
        assert "2: INIT" in out and "5: LinkUp" in out and "0xffff" in out
        assert "Active" in bench.run(1, "ibstat mlx5_1")[1], "RoCE needs none"
    finally:
        bench.world.subnet_manager = True


def test_a_pulled_cable_shows(bench):
    vm = bench.vms[0]
    card = next(card for card in bench.world.hosts[vm.host].cards if card.vpi)
    card.ports[1].cabled = False
    try:
        assert "state DOWN physical_state POLLING" in bench.run(1, "rdma link show mlx5_1/1")[1]
        assert "mlx5_1 port 1 ==> ens224f1 (Down)" in bench.run(1, "ibdev2netdev")[1]
        assert json.loads(bench.run(1, "ip -j link show ens224f1")[1])[0]["operstate"] == "DOWN"
    finally:
        card.ports[1].cabled = True


def test_a_port_that_stayed_ethernet_shows_as_one(bench):
    """Had the host's firmware kept ETH on port 1, the guest would see two Ethernet ports."""
    vm = bench.vms[2]
    nv = next(card for card in bench.world.hosts[vm.host].cards if card.vpi).config["LINK_TYPE_P1"]
    nv.current = 2
    try:
        reboot(bench, 3)
        assert bench.run(3, "ibstatus | grep -c Ethernet")[1] == "2\n"
        assert "ib0" not in bench.run(3, "ip -br link")[1]
    finally:
        nv.current = 1
        reboot(bench, 3)


# ---- addresses -------------------------------------------------------------------------------------------------------------

def test_what_ip_sets_is_lost_and_what_a_keyfile_says_stays(bench):
    assert bench.run(1, "ip link set ens224f1 mtu 9000 && ip addr add 192.168.5.11/24 dev ens224f1")[0] == 0
    assert (bench.root(1) / "sys/class/net/ens224f1/mtu").read_text() == "9000\n"
    gids = bench.run(1, "show_gids mlx5_1")[1]
    assert "0000:0000:0000:0000:0000:ffff:c0a8:050b\t192.168.5.11  \tv2\tens224f1" in gids
    assert (bench.root(1) / "sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/3").read_text() == "RoCE v2\n"
    assert "active_mtu:\t\t4096" in bench.run(1, "ibv_devinfo -d mlx5_1")[1]
    reboot(bench, 1)
    row = json.loads(bench.run(1, "ip -j addr show ens224f1")[1])[0]
    assert (row["mtu"], [a for a in row["addr_info"] if a["family"] == "inet"]) == (1500, [])
    assert "active_mtu:\t\t1024" in bench.run(1, "ibv_devinfo -d mlx5_1")[1]

    path = bench.root(1) / "etc/NetworkManager/system-connections/roce.nmconnection"
    path.write_text(KEYFILE % "ens224f1")
    path.chmod(0o644)
    bench.run(1, "nmcli connection reload")
    code, dummy, err = bench.run(1, "nmcli connection up roce")
    assert code == 10 and "unknown connection" in err, "NetworkManager ignores keyfiles that others may read"
    path.chmod(0o600)
    code, out, dummy = bench.run(1, "nmcli connection reload && nmcli connection up roce")
    assert code == 0 and "successfully activated" in out
    assert bench.run(1, "nmcli -t -f NAME,DEVICE connection show --active")[1].splitlines() == ["Wired connection 1:ens192", "roce:ens224f1"]
    for again in (lambda: bench.run(1, "systemctl restart openibd"), lambda: reboot(bench, 1)):
        again()
        row = json.loads(bench.run(1, "ip -j addr show ens224f1")[1])[0]
        assert (row["mtu"], [a["local"] for a in row["addr_info"] if a["family"] == "inet"]) == (9000, ["192.168.5.21"])
    assert bench.run(1, "nmcli connection delete roce")[0] == 0
    assert not path.exists()
    assert "192.168.5.21" not in bench.run(1, "ip addr")[1]


@pytest.mark.parametrize("command, code, text", [
    ("ip link set nope mtu 9000", 1, 'Cannot find device "nope"'),
    ("ip link set ens224f1 mtu 10000", 2, "mtu greater than device maximum"),
    ("ip link set ib0 mtu 65520", 2, "Invalid argument"),
    ("ip addr add 192.168.5.999/24 dev ens224f1", 1, "any valid prefix is expected"),
    ("ip addr add 10.9.9.9/24 dev ens224f1 && ip addr add 10.9.9.9/24 dev ens224f1", 2, "Address already assigned"),
    ("nmcli connection up nope", 10, "unknown connection"),
    ("nmcli device show nope", 10, "not found"),
    ("ethtool -i nope", 71, "No such device"),
    ("ibstat nope", 255, "can't be found"),
    ("ibv_devinfo -d nope", 255, "wasn't found"),
    ("systemctl restart nope", 5, "not found"),
    ("modinfo nope", 1, "not found"),
])
def test_mistakes_end_as_they_do_on_a_real_system(bench, command, code, text):
    got = bench.run(2, command)
    assert (got[0], text in got[2]) == (code, True), got


def test_ethtool_and_modinfo_name_driver_and_firmware(bench):
    out = bench.run(2, "ethtool -i ib0")[1]
    assert "driver: mlx5_core[ib_ipoib]\n" in out and "firmware-version: 16.32.1010 (MT_0000000008)\n" in out and "bus-info: 0000:0b:00.0\n" in out
    assert "extra/mlnx-ofa_kernel" in bench.run(2, "modinfo -n mlx5_core")[1]


def test_ping_proves_the_mtu_end_to_end(bench):
    for number in (1, 2):
        assert bench.run(number, "ip link set ens224f1 mtu 9000; ip addr flush dev ens224f1; ip addr add 192.168.5.1%d/24 dev ens224f1" % number)[0] == 0
    assert bench.run(1, "ping -c 1 -M do -s 8972 192.168.5.12")[0] == 0
    code, out, err = bench.run(1, "ping -c 2 -M do -s 8973 192.168.5.12")
    assert code == 1 and "message too long, mtu=9000" in err and "100% packet loss" in out
    bench.run(2, "ip link set ens224f1 mtu 1500")
    assert bench.run(1, "ping -c 1 -M do -s 8972 192.168.5.12")[0] == 1, "the other end drops what is too long for it"
    assert bench.run(1, "ping -c 1 192.168.5.12")[0] == 0
    bench.run(2, "ip link set ens224f1 mtu 9000")
    bench.world.fabric["ethernet"]["mtu"] = 1518
    try:
        assert bench.run(1, "ping -c 1 -M do -s 8972 192.168.5.12")[0] == 1, "a switch without jumbo frames drops them"
        assert bench.run(1, "ping -c 1 -M do -s 1472 192.168.5.12")[0] == 0
    finally:
        bench.world.fabric["ethernet"]["mtu"] = 9216
    assert bench.run(1, "ping -c 1 192.168.5.77")[0] == 1
    assert bench.run(1, "ping -c 1 vm02")[0] == 0
    code, dummy, err = bench.run(1, "ping -c 1 nobody")
    assert code == 2 and "Name or service not known" in err


def test_roce_settings_of_the_run_are_gone_after_a_reboot(bench):
    assert bench.run(2, "mlnx_qos -i ens224f1 --pfc 0,0,0,1,0,0,0,0 --trust dscp")[0] == 0
    assert "enabled     0   0   0   1" in bench.run(2, "mlnx_qos -i ens224f1")[1]
    assert bench.run(2, "cma_roce_mode -d mlx5_1 -p 1")[1] == "RoCE v2\n"
    reboot(bench, 2)
    assert "enabled     0   0   0   0" in bench.run(2, "mlnx_qos -i ens224f1")[1]


# ---- the collection's own readers --------------------------------------------------------------------------------------------

def test_the_collections_parsers_read_the_labs_texts(bench):
    """Lab and parsers were written apart from each other: what one prints the other must take."""
    ibverbs = pytest.importorskip("ansible_collections.vhpc.rdma.plugins.module_utils.tools.ibverbs")
    texts = {"parse_ibstatus": "ibstatus", "parse_ibstat": "ibstat", "parse_ibv_devinfo": "ibv_devinfo", "parse_rdma_link": "rdma link",
             "parse_show_gids": "show_gids",
             "parse_ibdev2netdev": "ibdev2netdev"}
    for parser, command in texts.items():
        found = json.dumps(getattr(ibverbs, parser)(bench.run(1, command)[1]))
        assert "mlx5_0" in found and "mlx5_1" in found, (parser, found)
