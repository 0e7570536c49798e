# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RoCE settings of rdma_link, with programs and kernel files that keep what they were told."""

import json
import subprocess
import sys

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import qos
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.modules import rdma_link
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.guest_tree import ROCE_MAC, Tree

WISH = dict(state="present", trust="dscp", priority=3, dscp=26, pfc=None, roce_mode="v2", ecn=True)
UNIT, SCRIPT = qos.UNIT_PATH[1:], qos.SCRIPT_PATH[1:]

PROGRAM = """#!{python} -IS
import json, pathlib, sys
root = pathlib.Path(__file__).resolve().parents[2]
path = root / "qos.json"
state = json.loads(path.read_text())
argv = sys.argv[1:]
with open(str(root / "qos.log"), "a") as log:
    log.write(pathlib.Path(__file__).name + " " + " ".join(argv) + "\\n")
{body}
path.write_text(json.dumps(state))
"""
MLNX = """
if state.get("refuses"):
    sys.exit("Netlink error: Operation not supported. see dmesg.")
pairs = dict(zip(argv[::2], argv[1::2]))
if "--trust" in pairs:
    state["trust"] = pairs["--trust"]
if "--pfc" in pairs:
    state["pfc"] = [] if state.get("stubborn") else [n for n, one in enumerate(pairs["--pfc"].split(",")) if one == "1"]
if "--dscp2prio" in pairs:
    word, number, priority = pairs["--dscp2prio"].split(",")
    state["dscp"][number] = int(priority)
print("DCBX mode: OS controlled\\nPriority trust state: %s" % state["trust"])
if state["trust"] == "dscp":
    print("dscp2prio mapping:")
    for priority in range(8):
        mine = [n for n in range(63, -1, -1) if state["dscp"].get(str(n), n // 8) == priority]
        for start in range(0, len(mine), 8):
            head = "\\tprio:%d dscp:" % priority if not start else "\\t\\t"
            print(head + "".join("%02d," % n for n in mine[start:start + 8]))
print("Cable len: 7\\nPFC configuration:\\n\\tpriority    0   1   2   3   4   5   6   7")
print("\\tenabled     " + "".join("%d   " % (n in state["pfc"]) for n in range(8)))
print("tc: 0 ratelimit: unlimited, tsa: vendor\\n\\t priority:  1")
"""
DCB = """
if state.get("refuses"):
    sys.exit("Attribute read: Operation not supported")
words = [word for word in argv if not word.startswith("-")]
if words[:2] == ["pfc", "show"]:
    print(json.dumps(dict(prio_pfc=[n in state["pfc"] for n in range(8)])))
elif words[:2] == ["pfc", "set"]:
    state["pfc"] = [int(word[0]) for word in words[5:] if word.endswith(":on")]
elif words[:2] == ["app", "show"]:
    print(json.dumps(dict(dscp_prio=[[int(key), value] for key, value in sorted(state["dscp"].items())]) if state["dscp"] else {}))
elif words[:2] == ["app", "replace"]:
    state["dscp"][words[-1].split(":")[0]] = int(words[-1].split(":")[1])
elif words[:2] == ["app", "flush"]:
    state["dscp"] = {}
"""
CMA = """
if "-m" in argv:
    state["mode"] = {"1": "IB/RoCE v1", "2": "RoCE v2"}[argv[-1]]
if "-t" in argv:
    state["tos"] = int(argv[-1])
print(state["mode"] if pathlib.Path(__file__).name == "cma_roce_mode" else state["tos"])
"""
SYSTEMCTL = """
unit = root / "etc/systemd/system/multi-user.target.wants/vhpc-rdma-qos.service"
if argv[0] == "enable":
    unit.parent.mkdir(parents=True, exist_ok=True)
    if not unit.is_symlink():
        unit.symlink_to("../vhpc-rdma-qos.service")
elif argv[0] == "disable" and unit.is_symlink():
    unit.unlink()
"""


def make(path, *programs, **state):
    tree = Tree(path)
    tree.card()
    bodies = dict(mlnx_qos=MLNX, dcb=DCB, cma_roce_mode=CMA, cma_roce_tos=CMA, systemctl=SYSTEMCTL)
    (path / "qos.json").write_text(json.dumps(dict(dict(trust="pcp", pfc=[], dscp={}, mode="RoCE v2", tos=0), **state)))
    for name in programs + ("systemctl",):
        tree.program(name, PROGRAM.replace("{body}", bodies[name]).replace("{python}", sys.executable))
    return tree


def configfs(tree, mode="IB/RoCE v1"):
    tree.write(qos.CONFIGFS[1:] + "/mlx5_1/ports/1/default_roce_mode", mode)
    tree.write(qos.CONFIGFS[1:] + "/mlx5_1/ports/1/default_roce_tos", "0")


def ecn(tree):
    for side in ("roce_np", "roce_rp"):
        tree.write("sys/class/net/ens256f1/ecn/%s/enable/3" % side, "0")


def link(tree, check=False, **more):
    roce = dict(address=None, mtu=None, mac=None, guid=None, profile="vhpc-roce", qos=dict(WISH, **more))
    return rdma_link.work(tree.guest(check, roce=roce, ib=None, state="active", timeout=1))


def state(tree):
    return json.loads((tree.root / "qos.json").read_text())


def names(done):
    return [step["name"] for step in done["changes"]]


def files(tree):
    return {str(path): path.read_bytes() for path in tree.root.rglob("*") if path.is_file() and path.name != "qos.log"}


@pytest.mark.parametrize("programs", [("mlnx_qos", "cma_roce_mode", "cma_roce_tos"), ("dcb",)])
def test_settings_are_planned_set_kept_and_taken_back(tmp_path, programs):
    tree = make(tmp_path, *programs)
    if programs == ("dcb",):
        configfs(tree)
    ecn(tree)
    before = files(tree)
    planned = link(tree, check=True)
    assert files(tree) == before
    done = link(tree)
    assert planned["changes"] == done["changes"] and done["findings"] == planned["findings"] == [] and all("qos" in name for name in names(done))
    assert {"qos trust", "qos PFC", "qos type of service", "qos ECN", "qos unit"} <= set(names(done))
    now = state(tree)
    assert now["pfc"] == [3] and (now["trust"] == "dscp" or now["dscp"] == {"26": 3})
    if programs == ("dcb",):
        assert (tree.root / qos.CONFIGFS[1:] / "mlx5_1/ports/1/default_roce_mode").read_text() == "RoCE v2\n"
    assert (tree.root / "sys/class/net/ens256f1/ecn/roce_rp/enable/3").read_text() == "1\n"
    assert (tree.root / UNIT).exists() and (tree.root / SCRIPT).stat().st_mode & 0o777 == 0o755
    assert (tree.root / "etc/systemd/system/multi-user.target.wants" / qos.UNIT).is_symlink()
    again = link(tree)
    assert not again["changed"] and names(again) == []
    gone, left = link(tree, check=True, state="absent"), link(tree, state="absent")
    assert gone["changes"] == left["changes"] and names(left)[-1] == "qos unit"
    assert state(tree)["pfc"] == [] and not (tree.root / UNIT).exists() and not (tree.root / SCRIPT).exists()
    assert not (tree.root / "etc/systemd/system/multi-user.target.wants" / qos.UNIT).is_symlink()
    assert names(link(tree, state="absent")) == [] and (tree.root / "sys/class/net/ens256f1/ecn/roce_rp/enable/3").read_text() == "1\n"


def test_settings_that_somebody_else_made_are_not_taken_back(tmp_path):
    tree = make(tmp_path, "mlnx_qos", "cma_roce_mode", "cma_roce_tos", pfc=[5], trust="dscp")
    assert not link(tree, state="absent")["changed"] and state(tree)["pfc"] == [5]


def test_what_the_driver_forgot_is_set_again_without_writing_the_unit(tmp_path):
    tree = make(tmp_path, "mlnx_qos", "cma_roce_mode", "cma_roce_tos")
    link(tree)
    (tmp_path / "qos.json").write_text(json.dumps(dict(state(tree), pfc=[], trust="pcp")))
    done = link(tree)
    assert names(done) == ["qos trust", "qos PFC"] and state(tree)["pfc"] == [3]


def test_a_unit_that_somebody_changed_or_disabled_is_put_right(tmp_path):
    tree = make(tmp_path, "dcb")
    link(tree)
    (tmp_path / "etc/systemd/system/multi-user.target.wants" / qos.UNIT).unlink()
    assert [(step["name"], step["before"]) for step in link(tree)["changes"]] == [("qos unit", "not enabled")]
    (tmp_path / SCRIPT).write_text("#!/bin/sh\n")
    assert [(step["name"], step["before"]) for step in link(tree)["changes"]] == [("qos unit", "other content")]
    assert not link(tree)["changed"]


@pytest.mark.parametrize("program", ["mlnx_qos", "dcb"])
def test_a_device_that_cannot_is_a_finding_and_gets_the_rest(tmp_path, program):
    tree = make(tmp_path, program, refuses=True)
    configfs(tree)
    done = link(tree)
    assert [(one["code"], one["level"]) for one in done["findings"]] == [("DEVICE_CANNOT", "warning")] * 2
    assert "trust, PFC: %s says: " % program in " ".join(one["text"] for one in done["findings"]) and "not supported" in str(done["findings"])
    assert names(done) == ["qos RoCE mode", "qos type of service", "qos unit"] and program not in (tree.root / SCRIPT).read_text()
    assert not link(tree)["changed"]


def test_a_guest_that_can_nothing_gets_no_unit(tmp_path):
    tree = make(tmp_path)
    done = link(tree)
    assert not done["changed"] and len(done["findings"]) == 3 and not (tree.root / UNIT).exists()
    assert "neither mlnx_qos nor dcb" in str(done["findings"]) and "rdma_cm is not loaded" in str(done["findings"])


def test_a_setting_that_does_not_hold_is_an_error(tmp_path):
    tree = make(tmp_path, "mlnx_qos", "cma_roce_mode", "cma_roce_tos", stubborn=True)
    with pytest.raises(RdmaError) as err:
        link(tree)
    assert err.value.code == "QOS" and "PFC is none and not 3" in err.value.why and "DCBX" in err.value.hint


@pytest.mark.parametrize("more", [dict(priority=8), dict(dscp=64), dict(pfc=[3, 9]), dict(priority=-1)])
def test_values_that_cannot_be_are_refused_before_anything_is_read(tmp_path, more):
    tree = make(tmp_path, "mlnx_qos")
    with pytest.raises(RdmaError) as err:
        link(tree, **more)
    assert err.value.code == "QOS" and not (tmp_path / "qos.log").exists()


def test_without_systemd_nothing_is_set(tmp_path):
    tree = make(tmp_path, "mlnx_qos")
    (tmp_path / "usr/bin/systemctl").unlink()
    with pytest.raises(RdmaError) as err:
        link(tree)
    assert err.value.code == "NO_SYSTEMD" and not (tmp_path / "qos.log").exists()


def test_the_traffic_class_of_the_vendors_driver_is_set_where_it_is(tmp_path):
    tree = make(tmp_path, "mlnx_qos", "cma_roce_mode", "cma_roce_tos")
    tree.write("sys/class/infiniband/mlx5_1/tc/1/traffic_class", "")
    with pytest.raises(RdmaError):
        link(tree)  # a plain file does not answer as the driver does
    assert (tmp_path / "sys/class/infiniband/mlx5_1/tc/1/traffic_class").read_text() == "106\n"
    assert qos.parse_traffic_class("Global tclass=106\n") == 106 and qos.parse_traffic_class("") == -1
    # Taken back, each connection has its own class again; a class of 0 is one too.
    view = dict(program="", table={}, cannot=dict(priorities="x", manager="x"), port=1, ecn=None, traffic_class=106)
    for wanted, before, after in ((qos.defaults(qos.wish(dict(ecn=False))), 106, "-1"), (qos.wish(dict(dscp=0, ecn=False)), -1, "0")):
        step = [one for one in qos.settings(dict(view, traffic_class=before), wanted) if one["name"] == "traffic class"][0]
        assert step["before"] == before and step["after"] != before and step["actions"][0][2] == after


# ---- the script of the unit, run for real in a tree of its own -------------------------------------------------------------------

def boot(tree, text):
    """Run the unit's script as it is, but for the places that it looks at."""
    for place in ("/sys/", "/usr/"):
        text = text.replace(place, "%s%s" % (tree.root, place))
    return subprocess.run(["/bin/sh", "-c", text.replace(":/usr/bin", ":/usr/bin:%s/usr/bin" % tree.root).replace("-gt 240", "-gt 1")],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False)


def test_the_unit_finds_the_port_under_another_name_and_sets_all_of_it(tmp_path):
    (tmp_path / "first").mkdir()
    tree = make(tmp_path / "first", "mlnx_qos", "cma_roce_mode", "cma_roce_tos")
    ecn(tree)
    link(tree)
    text = (tree.root / SCRIPT).read_text()
    (tmp_path / "second").mkdir()
    other = make(tmp_path / "second", "mlnx_qos", "cma_roce_mode", "cma_roce_tos")
    for old, new in (("net/ens256f1", "net/eth9"), ("infiniband/mlx5_1", "infiniband/mlx5_7")):
        (other.root / "sys/class" / old).rename(other.root / "sys/class" / new)
    (other.root / "sys/class/net/eth9/device").mkdir()
    other.write("sys/class/infiniband/mlx5_7/node_guid", "0c42:a103:00d3:0009")
    for side in ("roce_np", "roce_rp"):
        other.write("sys/class/net/eth9/ecn/%s/enable/3" % side, "0")
    done = boot(other, text)
    assert done.returncode == 0, done.stderr
    assert (state(other)["trust"], state(other)["pfc"], state(other)["tos"]) == ("dscp", [3], 106)
    assert "-i eth9" in (other.root / "qos.log").read_text() and "-d mlx5_7" in (other.root / "qos.log").read_text()
    assert (other.root / "sys/class/net/eth9/ecn/roce_np/enable/3").read_text() == "1\n"


def test_the_unit_says_what_it_could_not_do(tmp_path):
    tree = make(tmp_path, "mlnx_qos", "cma_roce_mode", "cma_roce_tos")
    link(tree)
    (tmp_path / "sys/class/net/ens256f1/device").mkdir()
    text = (tree.root / SCRIPT).read_text()
    (tmp_path / "qos.json").write_text(json.dumps(dict(state(tree), refuses=True)))
    done = boot(tree, text)
    assert done.returncode == 1 and b"this failed: mlnx_qos -i ens256f1 --trust dscp" in done.stderr
    (tmp_path / "sys/class/net/ens256f1/address").write_text("00:00:00:00:00:01\n")
    done = boot(tree, text)
    assert done.returncode == 1 and ("no port has MAC %s" % ROCE_MAC).encode() in done.stderr


# ---- parsers ---------------------------------------------------------------------------------------------------------------------

def test_tables_of_mlnx_qos_in_both_forms():
    short = "Priority trust state: pcp\nPFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\tenabled     0   0   0   0   1   1   0   0   \n"
    assert qos.parse_mlnx_qos(short) == dict(trust="pcp", pfc=[4, 5], dscp={})
    full = short.replace("pcp\n", "dscp\ndscp2prio mapping:\n\tprio:0 dscp:07,06,\n\tprio:3 dscp:31,30,29,28,27,26,25,24,\n\t\t46,40,\n")
    found = qos.parse_mlnx_qos(full)
    assert found["trust"] == "dscp" and found["dscp"] == dict([(7, 0), (6, 0), (46, 3), (40, 3)] + [(number, 3) for number in range(24, 32)])
    for text in ("", "Netlink error: Bad value. see dmesg.", "Priority trust state: pcp\n", short[:-20]):
        with pytest.raises(ParseError):
            qos.parse_mlnx_qos(text)


def test_tables_of_dcb():
    assert qos.parse_dcb('{"prio_pfc":[false,false,false,true,false,false,false,false]}', '{"dscp_prio":[[26,3],[46,5]]}') == dict(
        trust="dscp", pfc=[3], dscp={26: 3, 46: 5})
    assert qos.parse_dcb("", "") == qos.parse_dcb("{}", "{}") == dict(trust="pcp", pfc=[], dscp={})
    for pfc, app in (("prio-pfc 0:off", ""), ("{}", '{"dscp_prio":[26]}'), ("[]", "")):
        with pytest.raises(ParseError):
            qos.parse_dcb(pfc, app)
