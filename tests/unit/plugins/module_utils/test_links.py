# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import threading

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import links, ports
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.system import System
from ansible_collections.vhpc.rdma.plugins.modules import rdma_info, rdma_link
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.guest_tree import IB_GUID, IPOIB_MAC, ROCE_MAC, Tree

ROCE = dict(address="192.168.5.11/24", mtu=9000, mac=None, guid=None, profile="vhpc-roce")
IB = dict(address=None, mtu=None, mac=None, guid=None, profile="vhpc-ib")
PROFILE = "etc/NetworkManager/system-connections/vhpc-roce.nmconnection"


@pytest.fixture
def tree(tmp_path):
    tree = Tree(tmp_path)
    tree.card()
    return tree


def link(tree, check=False, roce=None, ib=None, state="active", timeout=1):
    return rdma_link.work(tree.guest(check, roce=roce, ib=ib, state=state, timeout=timeout))


# ---- ports -----------------------------------------------------------------------------------------------------------------

def test_ports_are_read_with_what_stays_the_same(tree):
    ib, roce = ports.read(System(str(tree.root)))
    assert (ib["role"], ib["guid"], ib["netdev"], ib["state"], ib["sm_lid"], ib["rate_gbps"]) == ("ib", IB_GUID, "ib0", "ACTIVE", 1, 100.0)
    assert (roce["role"], roce["mac"], roce["netdev"], roce["psid"]) == ("roce", ROCE_MAC, "ens256f1", "MT_0000000008")


def test_names_do_not_matter(tmp_path):
    tree = Tree(tmp_path)
    tree.port("rocep19s0", "InfiniBand", "eth7", IPOIB_MAC, gids=[(0, "fe80::c42:a103:d3:8", "IB/RoCE v1")])
    tree.port("mlx5_ib0", "Ethernet", "ib3", ROCE_MAC)
    found = ports.read(System(str(tree.root)))
    assert ports.choose(found, "ib")["netdev"] == "eth7" and ports.choose(found, "roce")["netdev"] == "ib3"


def test_several_ports_need_a_guid_or_mac(tree):
    tree.port("mlx5_2", "Ethernet", "ens161", "ec:0d:9a:00:00:10", guid="ec0d:9a03:0000:0010")
    found = ports.read(System(str(tree.root)))
    with pytest.raises(RdmaError) as err:
        ports.choose(found, "roce", where="vm01")
    assert err.value.code == "PORT_AMBIGUOUS" and ROCE_MAC in str(err.value) and "ec:0d:9a:00:00:10" in str(err.value)
    assert ports.choose(found, "roce", mac=ROCE_MAC.upper())["device"] == "mlx5_1"
    assert ports.choose(found, "roce", guid="ec0d:9a03:0000:0010")["device"] == "mlx5_2"


def test_a_wrong_link_type_is_told_from_no_device(tmp_path):
    tree = Tree(tmp_path)
    with pytest.raises(RdmaError) as err:
        ports.choose(ports.read(System(str(tmp_path))), "ib")
    assert err.value.code == "NO_DEVICE"
    tree.port("mlx5_0", "Ethernet", "ens224", "0c:42:a1:d3:00:08")
    with pytest.raises(RdmaError) as err:
        ports.choose(ports.read(System(str(tmp_path))), "ib")
    assert err.value.code == "LINK_TYPE" and "LINK_TYPE_P1" in str(err.value)


@pytest.mark.parametrize("layer, state, phys, code", [
    ("InfiniBand", "4: ACTIVE", "5: LinkUp", ""), ("InfiniBand", "2: INIT", "5: LinkUp", "LINK_IN_INIT"),
    ("InfiniBand", "1: DOWN", "5: LinkUp", "LINK_IN_INIT"),
    ("InfiniBand", "1: DOWN", "2: Polling", "LINK_NOT_UP"), ("Ethernet", "1: DOWN", "3: Disabled", "LINK_DISABLED"),
    ("Ethernet", "1: DOWN", "2: Polling", "LINK_NOT_UP"),
])
def test_a_missing_subnet_manager_is_told_from_cable_trouble(tmp_path, layer, state, phys, code):
    tree = Tree(tmp_path)
    tree.port("mlx5_0", layer, "dev0", ROCE_MAC, state=state, phys=phys)
    found = ports.findings(ports.read(System(str(tmp_path)))[0])
    assert [one["code"] for one in found] == ([code] if code else [])
    assert ("subnet manager" in found[0]["text"] if code == "LINK_IN_INIT" else True)


def test_the_gid_index_is_computed_and_never_a_v1_one():
    port = dict(gids=[dict(index=0, type="RoCE v2", ipv4=""), dict(index=4, type="IB/RoCE v1", ipv4="192.168.5.11"),
                      dict(index=5, type="RoCE v2", ipv4="192.168.9.1"),
                      dict(index=7, type="RoCE v2", ipv4="192.168.5.11")])
    assert ports.gid_index(port, "192.168.5.11/24") == 7 and ports.gid_index(port) == 5 and ports.gid_index(port, "10.0.0.1") is None
    assert ports.ipv4_of("0000:0000:0000:0000:0000:ffff:c0a8:050b") == "192.168.5.11" and ports.ipv4_of("fe80::1") == ""


def test_of_an_ipoib_address_only_the_guid_counts():
    assert ports.same_mac(IPOIB_MAC, "80:00:02:08" + IPOIB_MAC[11:]) and not ports.same_mac(IPOIB_MAC, IPOIB_MAC[:-1] + "9")
    assert ports.same_mac(ROCE_MAC, ROCE_MAC.upper()) and not ports.same_mac("", "")


# ---- addresses and profiles --------------------------------------------------------------------------------------------------

def test_clashes_name_the_device_and_spare_the_port_itself():
    devices = {"lo": dict(addresses=["127.0.0.1/8"], loopback=True), "ens192": dict(addresses=["192.168.0.7/16"], loopback=False),
               "ens256": dict(addresses=["192.168.5.11/24"], loopback=False)}
    assert len(links.clashes({"roce": ("192.168.5.11/24", "ens256")}, devices)) == 1
    assert "ens192" in links.clashes({"roce": ("192.168.5.11/24", "ens256")}, devices)[0]
    assert links.clashes({"roce": ("10.1.0.1/24", "ens256")}, devices) == []
    assert "share a subnet" in links.clashes({"roce": ("10.1.0.1/24", "ens256"), "ib": ("10.1.0.2/24", "ib0")}, devices)[0]


@pytest.mark.parametrize("address", ["192.168.5.11", "192.168.5.0/24", "192.168.5.255/24", "192.168.5.300/24", "fe80::1/64"])
def test_no_address_of_a_host_is_refused(address):
    with pytest.raises(RdmaError) as err:
        links.interface(address, "roce", "vm01")
    assert err.value.code == "ADDRESS" and "vm01" in str(err.value)


def test_the_mtu_of_connected_mode_is_refused_with_the_reason():
    with pytest.raises(RdmaError) as err:
        links.check_mtu("ib", 65520)
    assert "datagram" in str(err.value)
    with pytest.raises(RdmaError):
        links.check_mtu("roce", 12000)
    links.check_mtu("ib", 4092)
    links.check_mtu("roce", 9000)


DEVINFO = """hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t16.32.1010
\tnode_guid:\t\t\t0c42:a103:00d3:0008
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t%s
\t\t\tsm_lid:\t\t\t1
\t\t\tport_lid:\t\t20
\t\t\tlink_layer:\t\tInfiniBand

"""


def test_ipoib_gets_no_more_than_the_fabric_has(tree):
    wish = dict(IB, address="192.168.6.11/24", mtu=4092)
    tree.program("ibv_devinfo", "cat <<'E'\n%sE\n" % (DEVINFO % "2048 (4)"))
    for check in (True, False):
        with pytest.raises(RdmaError) as err:
            link(tree, check=check, ib=wish)
        assert err.value.code == "MTU" and "2048" in err.value.why and "2044" in err.value.hint
    assert not (tree.root / "nmcli.log").exists()
    assert link(tree, ib=dict(wish, mtu=2044))["changed"]
    tree.program("ibv_devinfo", "cat <<'E'\n%sE\n" % (DEVINFO % "4096 (5)"))
    assert link(tree, ib=wish)["changed"]


def test_connected_mode_is_refused_where_nothing_would_switch_it(tree):
    tree.write("sys/class/net/ib0/mode", "connected")
    tree.write("etc/network/interfaces", "source /etc/network/interfaces.d/*")
    with pytest.raises(RdmaError) as err:
        rdma_link.work(tree.guest(False, roce=None, ib=dict(IB, address="192.168.6.11/24", mtu=2044), state="any", timeout=1, backend="ifupdown"))
    assert err.value.code == "IPOIB_MODE" and not (tree.root / "etc/network/interfaces.d/vhpc-ib").exists()
    assert link(tree, ib=dict(IB, address="192.168.6.11/24", mtu=2044))["changed"]  # NetworkManager's profile says datagram


def test_a_profile_survives_reading_and_keeps_what_a_person_added():
    wanted = links.profile("roce", "vhpc-roce", ROCE_MAC, "192.168.5.11/24", 9000)
    text = links.profile_text(wanted)
    assert links.merge_profile(links.parse_profile(text), wanted) == (wanted, {})
    assert text.index("[connection]") < text.index("[ethernet]") < text.index("[ipv4]") and "interface-name" not in text
    old = links.parse_profile(text.replace("mtu=9000", "mtu=1500") + "[ethtool]\nring-rx=8192\n")
    merged, different = links.merge_profile(old, wanted)
    assert different == {"ethernet.mtu": ("1500", "9000")} and merged["ethtool.ring-rx"] == "8192"
    assert links.profile("roce", "vhpc-roce", ROCE_MAC, "192.168.5.12/24", 9000)["connection.uuid"] == wanted["connection.uuid"]


# ---- the module ----------------------------------------------------------------------------------------------------------------

def test_check_mode_tells_the_same_steps_and_touches_nothing(tree):
    before = sorted(str(path) for path in tree.root.rglob("*"))
    planned = link(tree, check=True, roce=dict(ROCE), ib=dict(IB))
    assert sorted(str(path) for path in tree.root.rglob("*")) == before and not (tree.root / "nmcli.log").exists()
    done = link(tree, roce=dict(ROCE), ib=dict(IB))
    assert done["changes"] == planned["changes"] and [step["name"] for step in done["changes"]] == ["profile", "address", "mtu"]
    assert all(step["certainty"] == "sure" and step["stage"] == "guest" for step in done["changes"])


def test_address_and_mtu_persist_and_the_second_run_changes_nothing(tree):
    done = link(tree, roce=dict(ROCE), ib=dict(IB, address="192.168.6.11/24", mtu=4092))
    roce = next(port for port in done["ports"] if port["role"] == "roce")
    assert done["changed"] and (roce["mtu"], roce["addresses"], roce["gid_index"]) == (9000, ["192.168.5.11/24"], 3)
    assert (tree.root / PROFILE).stat().st_mode & 0o777 == 0o600
    log = (tree.root / "nmcli.log").read_text()
    again = link(tree, roce=dict(ROCE), ib=dict(IB, address="192.168.6.11/24", mtu=4092))
    assert not again["changed"] and again["changes"] == [] and (tree.root / "nmcli.log").read_text() == log


def test_an_ipoib_queue_number_that_changed_is_no_change(tree):
    link(tree, ib=dict(IB, address="192.168.6.11/24"))
    tree.write("sys/class/net/ib0/address", "00:00:11:99" + IPOIB_MAC[11:])
    assert not link(tree, ib=dict(IB, address="192.168.6.11/24"))["changed"]


def test_a_profile_that_others_can_read_is_put_right(tree):
    link(tree, roce=dict(ROCE))
    (tree.root / PROFILE).chmod(0o644)
    done = link(tree, roce=dict(ROCE))
    assert [step["name"] for step in done["changes"]] == ["profile mode"] and (tree.root / PROFILE).stat().st_mode & 0o777 == 0o600


def test_run_time_drift_is_mended_without_touching_the_profile(tree):
    link(tree, roce=dict(ROCE))
    text = (tree.root / PROFILE).read_text()
    state = tree.load()
    state["net"]["ens256f1"]["addresses"] = []
    tree.save()
    done = link(tree, roce=dict(ROCE))
    assert [step["name"] for step in done["changes"]] == ["address"] and (tree.root / PROFILE).read_text() == text


def test_a_subnet_clash_is_refused_before_anything_is_written(tree):
    for check in (True, False):
        with pytest.raises(RdmaError) as err:
            link(tree, check=check, roce=dict(ROCE, address="192.0.2.99/25"))
        assert err.value.code == "SUBNET_CLASH" and "ens192" in str(err.value)
    assert not (tree.root / PROFILE).exists()


def test_a_port_without_subnet_manager_fails_with_that_word_and_returns_the_ports(tree):
    tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT")
    with pytest.raises(RdmaError) as err:
        link(tree, roce=dict(ROCE), ib=dict(IB), timeout=0)
    assert err.value.code == "LINK_IN_INIT" and "subnet manager" in str(err.value) and len(err.value.data["ports"]) == 2
    assert link(tree, ib=dict(IB), state="any", timeout=0)["changed"] is False


def test_before_the_driver_is_there_check_mode_cannot_know_and_a_real_run_fails(tmp_path):
    tree = Tree(tmp_path)
    planned = link(tree, check=True, roce=dict(ROCE), ib=dict(IB))
    assert [step["certainty"] for step in planned["changes"]] == ["conditional"] * 2 and "no RDMA device" in planned["changes"][0]["reason"]
    with pytest.raises(RdmaError) as err:
        link(tree, roce=dict(ROCE), ib=dict(IB))
    assert err.value.code == "NO_DEVICE"


def test_an_mtu_alone_does_not_take_an_address_away(tree):
    tree.state["net"]["ens256f1"]["addresses"] = ["10.9.8.7/24"]
    tree.save()
    with pytest.raises(RdmaError) as err:
        link(tree, roce=dict(ROCE, address=None))
    assert "10.9.8.7/24" in str(err.value) and not (tree.root / PROFILE).exists()


# ---- rdma_info -------------------------------------------------------------------------------------------------------------------

IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:0c42:a103:00d3:0008
\tbase lid:\t 0x14
\tsm lid:\t\t 0x1
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 100 Gb/sec (4X EDR)
\tlink_layer:\t InfiniBand

"""


def info(tree, check=False, enforce=False, expect=None, reach=()):
    return rdma_info.work(tree.guest(check, expect=expect, reach=list(reach), enforce=enforce))


def port_wish(**more):
    return dict(dict(state="ACTIVE", mac=None, guid=None, mtu=None, active_mtu=None, rate_gbps=None, address=None), **more)


def test_all_findings_of_all_ports_come_at_once(tree):
    tree.write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    tree.write("sys/class/infiniband/mlx5_0/ports/1/phys_state", "2: Polling")
    tree.write("sys/class/infiniband/mlx5_1/ports/1/rate", "40 Gb/sec (4X QDR)")
    expect = dict(roce=port_wish(mtu=9000, rate_gbps=100.0, address="192.168.5.11/24"), ib=port_wish(), ofed="5.4-3.0.3.0")
    with pytest.raises(RdmaError) as err:
        info(tree, enforce=True, expect=expect)
    codes = {one["code"] for one in err.value.data["findings"] if one["level"] == "error"}
    assert codes == {"LINK_NOT_UP", "LINK_RATE_MISMATCH", "MTU", "ADDRESS", "OFED_VERSION"}
    assert len(info(tree, check=True, enforce=True, expect=expect)["ports"]) == 2


def test_a_port_that_ibstatus_does_not_show_is_a_finding(tree):
    tree.program("ibstatus", "cat <<'E'\n%sE\n" % IBSTATUS)
    found = info(tree)["findings"]
    errors = [one for one in found if one["level"] == "error"]
    assert [one["code"] for one in errors] == ["TOOLS_DIFFER"] and "mlx5_1" in errors[0]["thing"]


def test_reach_believes_answers_and_not_the_return_code_alone(tree):
    tree.program("ping", 'for a; do :; done\ncase $a in\n*.12) echo "2 packets transmitted, 2 received, 0% packet loss"; exit 0;;\n'
                         '*.13) echo "ping: local error: message too long, mtu=1500"\n'
                         'echo "2 packets transmitted, 0 received, +2 errors, 100% packet loss"; exit 1;;\n'
                         '*) echo "2 packets transmitted, 0 received, 100% packet loss"; exit 0;;\nesac\n')
    peers = [dict(address="192.168.5.%d" % number, mtu=9000, role="roce") for number in (12, 13, 14)]
    rows = info(tree, reach=peers)["reach"]
    assert [row["ok"] for row in rows] == [True, False, False] and "too long" in rows[1]["text"]


def test_a_device_that_appears_a_moment_after_the_driver_is_waited_for(tmp_path):
    tree = Tree(tmp_path)
    late = threading.Timer(0.6, tree.card)
    late.start()
    done = link(tree, ib=dict(IB), timeout=10)
    late.join()
    assert [port["state"] for port in done["ports"]] == ["ACTIVE"] and done["changed"] is False
