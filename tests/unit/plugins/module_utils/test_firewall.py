# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The firewall option of ofed_guest, with stand-ins of firewall-cmd, ufw and nft that keep what is open now and after a reboot."""

import json
import sys

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import firewall
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.test_inbox import make, run

PROGRAM = """#!{python} -IS
import json, pathlib, re, sys
root = pathlib.Path(__file__).resolve().parents[2]
path = root / "wall.json"
state = json.loads(path.read_text())
argv = sys.argv[1:]
def end(code, text=""):
    path.write_text(json.dumps(state))
    print(text, file=sys.stderr if code else sys.stdout)
    sys.exit(code)
{body}
"""
FIREWALLD = """
if argv == ["--state"]:
    end(0, "running") if state["running"] else end(252, "not running")
if argv == ["--get-default-zone"]:
    end(0, "public")
where = "permanent" if "--permanent" in argv else "now"
zone = next(word for word in argv if word.startswith("--zone=")).split("=")[1]
verb, port = argv[-1].split("=")
held = state[where].setdefault(zone, [])
if verb == "--query-port":
    end(0, "yes") if port in held else end(1, "no")
if verb == "--add-port" and port not in held:
    held.append(port)
if verb == "--remove-port" and port in held:
    held.remove(port)
end(0, "success")
"""
UFW = """
if argv == ["status"]:
    end(0, "Status: active" if state["running"] else "Status: inactive")
if argv == ["show", "added"]:
    end(0, "Added user rules (see 'ufw status' for running firewall):\\n" + "\\n".join("ufw " + rule for rule in state["rules"]))
rule = " ".join(argv).replace("delete ", "")
if argv[0] == "delete":
    rule in state["rules"] and state["rules"].remove(rule)
    end(0, "Rule deleted")
if rule in state["rules"]:
    end(0, "Skipping adding existing rule")
state["rules"].append(rule)
end(0, "Rule added")
"""
# It knows one chain, and files that insert rules into a chain that their including file has.
NFT = """
if argv[:3] == ["-j", "list", "ruleset"]:
    rows = [dict(metainfo=dict(version="1.0.6"))]
    for chain in state["chains"]:
        rows.append(dict(chain=dict(family="inet", table="filter", name=chain["name"], type="filter", hook=chain["hook"], prio=0, policy=chain["policy"])))
        for handle, rule in sorted(chain["rules"].items()):
            numbers = [dict(range=[int(p) for p in one.split("-")]) if "-" in one else int(one) for one in rule["ports"]]
            right = numbers[0] if len(numbers) == 1 else dict(set=numbers)
            match = dict(match=dict(op="==", left=dict(payload=dict(protocol="tcp", field="dport")), right=right))
            rows.append(dict(rule=dict(family="inet", table="filter", chain=chain["name"], handle=int(handle), comment=rule["comment"],
                                       expr=[match, {rule["verdict"]: None}])))
    end(0, json.dumps(dict(nftables=rows)))
if argv[:2] == ["-c", "-f"]:
    text = (root / argv[2].lstrip("/")).read_text()
    end(0) if "chain input" in text else end(1, "Error: No such file or directory; did you mean chain?")
chain = next(chain for chain in state["chains"] if chain["name"] == argv[4])
if argv[0] == "delete":
    del chain["rules"][argv[6]]
    end(0)
words = " ".join(argv)
ports = words.split("{ ")[1].split(" }")[0].split(", ")
state["handle"] += 1
chain["rules"][str(state["handle"])] = dict(ports=ports, verdict="accept", comment=re.search(r'comment "(.*)"', words).group(1))
end(0)
"""
STATES = {
    "firewalld": ("firewall-cmd", FIREWALLD, dict(running=True, now=dict(public=[]), permanent=dict(public=[]))),
    "ufw": ("ufw", UFW, dict(running=True, rules=["allow 22/tcp"])),
    "nftables": ("nft", NFT, dict(handle=9, chains=[dict(name="input", hook="input", policy="drop", rules={}),
                                                    dict(name="output", hook="output", policy="drop", rules={})])),
}
CONFIGURATION = "#!/usr/sbin/nft -f\nflush ruleset\ntable inet filter {\n    chain input { type filter hook input priority 0; policy drop; }\n}\n"


def guest(path, kind, **more):
    tree = make(path, "debian" if kind != "firewalld" else "rhel")
    name, body, state = STATES[kind]
    (path / "wall.json").write_text(json.dumps(dict(state, **more)))
    tree.program(name, PROGRAM.replace("{body}", body).replace("{python}", sys.executable), "usr/sbin")
    tree.program("systemctl", "exit 0\n")
    if kind == "nftables":
        tree.write("etc/nftables.conf", CONFIGURATION.rstrip("\n"))
    run(tree)
    return tree


def wall(tree, state="open", check=False, ports=("18514-18515",), zone=None):
    return run(tree, check=check, firewall=dict(state=state, ports=list(ports), zone=zone))


def steps(done):
    return [(step["thing"], step["name"], step["before"], step["after"]) for step in done["changes"]]


def held(tree):
    return json.loads((tree.root / "wall.json").read_text())


@pytest.mark.parametrize("kind", sorted(STATES))
def test_ports_are_planned_opened_kept_and_closed_again(tmp_path, kind):
    tree = guest(tmp_path, kind)
    before = held(tree)
    configuration = (tmp_path / "etc/nftables.conf").read_text() if kind == "nftables" else ""
    planned = wall(tree, check=True)
    assert held(tree) == before and not (tmp_path / firewall.NFT_FILE[1:]).exists()
    done = wall(tree)
    assert steps(planned) == steps(done) == [("firewall " + kind, "TCP 18514-18515", "closed", "open")]
    assert done["firewall"] == dict(kind=kind, ports=["18514-18515"])
    now = held(tree)
    if kind == "firewalld":
        assert now["now"] == now["permanent"] == {"public": ["18514-18515/tcp"]}
    elif kind == "ufw":
        assert now["rules"] == ["allow 22/tcp", "allow 18514:18515/tcp"]
    else:
        assert [rule["ports"] for rule in now["chains"][0]["rules"].values()] == [["18514-18515"]] and not now["chains"][1]["rules"]
        assert (tmp_path / "etc/nftables.conf").read_text() == configuration + 'include "%s"\n' % firewall.NFT_FILE
        assert "insert rule inet filter input tcp dport { 18514-18515 } accept" in (tmp_path / firewall.NFT_FILE[1:]).read_text()
    assert not wall(tree)["changed"]
    shut = wall(tree, "closed")
    assert steps(shut) == [("firewall " + kind, "TCP 18514-18515", "open", "closed")]
    after = held(tree)
    after.pop("handle", None)
    for part in ("now", "permanent"):
        if part in after:
            assert after.pop(part) == {"public": []}
            before.pop(part)
    before.pop("handle", None)
    assert after == before and not wall(tree, "closed")["changed"]
    if kind == "nftables":
        assert (tmp_path / "etc/nftables.conf").read_text() == configuration and not (tmp_path / firewall.NFT_FILE[1:]).exists()


def test_a_port_that_is_open_until_the_reboot_alone_is_not_open(tmp_path):
    tree = guest(tmp_path, "firewalld", now={"work": ["18514-18515/tcp"]})
    assert steps(wall(tree, zone="work")) == [("firewall firewalld", "TCP 18514-18515", "open until a reboot", "open")]
    assert held(tree)["permanent"]["work"] == ["18514-18515/tcp"] and not wall(tree, zone="work")["changed"]


def test_rules_that_were_flushed_are_put_back_and_other_ports_replaced(tmp_path):
    tree = guest(tmp_path, "nftables")
    wall(tree)
    state = held(tree)
    state["chains"][0]["rules"] = {}
    (tmp_path / "wall.json").write_text(json.dumps(state))
    assert steps(wall(tree))[0][2] == "open after a reboot" and len(held(tree)["chains"][0]["rules"]) == 1
    assert {step[2] for step in steps(wall(tree, ports=["18515", "20000-20010"]))} == {"other ports"}
    assert [rule["ports"] for rule in held(tree)["chains"][0]["rules"].values()] == [["18515", "20000-20010"]]
    assert not wall(tree, ports=["20000-20010", "18515"])["changed"]


def test_rules_that_the_boot_does_not_load_are_refused_before_anything_is_changed(tmp_path):
    tree = guest(tmp_path, "nftables")
    tree.program("systemctl", "exit 1\n")
    for check in (True, False):
        with pytest.raises(RdmaError) as err:
            wall(tree, check=check)
        assert err.value.code == "FIREWALL" and "at boot" in err.value.why
    tree.program("systemctl", "exit 0\n")
    (tmp_path / "etc/nftables.conf").write_text("flush ruleset\n")
    with pytest.raises(RdmaError) as err:
        wall(tree)
    assert "does not load" in err.value.why and (tmp_path / "etc/nftables.conf").read_text() == "flush ruleset\n"
    assert not (tmp_path / firewall.NFT_FILE[1:]).exists() and not held(tree)["chains"][0]["rules"]


def test_where_nothing_filters_nothing_is_done(tmp_path):
    for number, (kind, more) in enumerate([("ufw", dict(running=False)), ("firewalld", dict(running=False)), (
            "nftables", dict(chains=[dict(name="input", hook="input", policy="accept", rules={})]))]):
        (tmp_path / str(number)).mkdir()
        tree = guest(tmp_path / str(number), kind, **more)
        done = wall(tree)
        assert not done["changed"] and done["firewall"]["kind"] == "none"
    assert "firewall" not in run(tree)


def test_a_chain_that_accepts_at_its_end_and_drops_before_refuses_too(tmp_path):
    text = json.dumps(dict(nftables=[dict(chain=dict(family="ip", table="t", name="c", type="filter", hook="input", policy="accept")),
                                     dict(rule=dict(family="ip", table="t", chain="c", handle=4, expr=[dict(drop=None)])),
                                     dict(chain=dict(family="ip", table="t", name="n", type="nat", hook="input", policy="accept"))]))
    assert [chain["chain"] for chain in firewall.parse_nft(text)] == ["c"] and firewall.parse_nft("") == []
    with pytest.raises(RdmaError):
        firewall.parse_nft("table inet filter")


@pytest.mark.parametrize("ports", [["ssh"], ["0"], ["70000"], ["18515-18514"], ["18515/tcp"], ["18515; reboot"]])
def test_what_is_no_port_is_refused(tmp_path, ports):
    tree = make(tmp_path, "debian")
    with pytest.raises(RdmaError) as err:
        wall(tree, ports=ports)
    assert err.value.code == "FIREWALL" and not (tmp_path / "installs").exists()


def test_neighbours_become_a_range():
    assert firewall.ranges(["18515", 18514, "18516-18520", "22"]) == [(22, 22), (18514, 18520)]
    assert firewall.parse_ufw("Added user rules:\nufw allow 18514:18515/tcp comment 'x'\nufw deny 80/tcp\nufw allow 22/tcp\nufw allow from 192.0.2.1\n") == [
        (18514, 18515), (22, 22)]


@pytest.mark.parametrize("expression", [
    [{"counter": {"packets": 0, "bytes": 0}}, {"xt": {"type": "target", "name": "REJECT"}}], [{"xt": None}],
    [{"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["invalid", {"drop": None}]]}}}], [{"reject": {"type": "icmp"}}]])
def test_a_chain_that_accepts_by_policy_and_refuses_by_rule_filters(expression):
    chain = dict(family="ip", table="filter", name="INPUT", handle=1, type="filter", hook="input", prio=0, policy="accept")

    def rules(one):
        return json.dumps(dict(nftables=[dict(chain=chain), dict(rule=dict(family="ip", table="filter", chain="INPUT", handle=2, expr=one))]))
    assert [found["chain"] for found in firewall.parse_nft(rules(expression))] == ["INPUT"]
    harmless = [{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "lo"}}, {"xt": {"type": "match", "name": "comment"}}, {"accept": None}]
    assert firewall.parse_nft(rules(harmless)) == []
