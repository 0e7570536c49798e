# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures provoked for real, one after another in one play: what the module perftest says of each, and what to try."""

from __future__ import annotations

import json
import sys
import time

import pytest

SERVER, CLIENT = "guest-01", "guest-02"  # who serves is the schedule's choice
PORT = 18515
# Short where a failure is waited for, long where something has to happen: an emulated guest on a busy machine is slow.
USUAL = dict(fabrics=["roce"], tests=["send_bw"], size=65536, iterations=5, start_timeout=120, listen_timeout=60, test_timeout=120, connect_timeout=3,
             timeout=400)
FILTER = ("nft add table inet test; nft 'add chain inet test in { type filter hook input priority 0; }'; nft add rule inet test in tcp dport %d " % PORT)
UNFILTER = "nft delete table inet test"
# Ansible's raw has a terminal, whose end would end what runs in the background.
BACKGROUND = "trap '' HUP; setsid sh -c '%s' > /dev/null 2>&1 < /dev/null & "
# Something is done when data flows, never after a time: a guest may be slow.
FLOWS = ("read=/sys/class/infiniband/rxe0/ports/1/hw_counters/%s; begin=$(cat $read); n=0; "
         "until [ $(cat $read) -gt $((begin + 500)) ] || [ $n -gt 3000 ]; do sleep 0.1; n=$((n + 1)); done; ")
DEVICE = "$(cat /sys/class/infiniband/rxe0/parent)"
# A root without the capability to lock memory as it likes: what a session of an ordinary user has.
LIMITED = "/usr/local/sbin/limited-python"
LIMIT = ("printf '#!/bin/sh\\nexec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock prlimit --memlock=65536:65536 /usr/bin/python3 \"$@\"\\n' > %s; "
         "chmod 755 %s" % (LIMITED, LIMITED))


def peers(**addresses):
    """The two guests; a name that is not given an address has the one of the inventory."""
    return [dict(name=name, address=addresses[name.replace("-", "_")]) if name.replace("-", "_") in addresses else name for name in (SERVER, CLIENT)]


class Case:
    """both: options of both ends; server, client: of one; before, after: shell by guest; only: the one end that starts."""

    def __init__(self, cause, side, *words, both=None, server=None, client=None, before=None, after=None, only="", python=""):
        self.cause, self.side, self.words = (cause,) if isinstance(cause, str) else cause, side, words
        self.options = {SERVER: dict(both or {}, **(server or {})), CLIENT: dict(both or {}, **(client or {}))}
        self.before, self.after, self.hosts, self.python = before or {}, after or {}, [only] if only else [SERVER, CLIENT], python


CASES = {
    # The client's side of a walk whose server's side was never started.
    "server-not-running": Case("server-not-running", SERVER, "part of the measurements does not run", "phase start", only=CLIENT, both=dict(start_timeout=3)),
    # perftest's own "Couldn't connect", while its server does run.
    "refused": Case("server-not-running", CLIENT, "Couldn't connect", "nothing listens", "firewall refuses", both=dict(listen_timeout=5),
                    before={SERVER: FILTER + "reject with tcp reset"}, after={SERVER: UNFILTER}),
    # A firewall that drops, and a way that leads nowhere.
    "unreachable": Case("unreachable", CLIENT, "nothing answers", "firewall", both=dict(test_timeout=20), before={SERVER: FILTER + "drop"},
                        after={SERVER: UNFILTER}),
    "unreachable-address": Case("unreachable", SERVER, "10.99.0.77", only=CLIENT, both=dict(start_timeout=3, peers=peers(guest_01="10.99.0.77"))),
    "bad-host": Case("name", SERVER, "the name is not known", "vhpc_peer_address", only=CLIENT,
                     both=dict(start_timeout=3, peers=peers(guest_01="nowhere.invalid"))),
    "wrong-device": Case("wrong-device", SERVER, "mlx5_0", "rdma_info", both=dict(extra_args=["-d", "mlx5_0"])),
    "bad-port-number": Case("wrong-port", CLIENT, "port 2", "rdma_info", client=dict(extra_args=["-i", "2"])),
    "gid-out-of-range": Case("gid-range", CLIENT, "77|between", "leave -x out", client=dict(extra_args=["-x", "77"])),
    "gid-incompatible": Case("gid", (SERVER, CLIENT), "Incompatibility", "rdma_link", server=dict(extra_args=["-x", "0"]), client=dict(extra_args=["-x", "1"])),
    "gid-empty-both": Case("gid-empty", (SERVER, CLIENT), "is empty", "leave -x out", both=dict(extra_args=["-x", "9"])),
    "memlock": Case("memlock", CLIENT, "MR", "ofed_guest", before={CLIENT: LIMIT}, python=CLIENT),
    "memlock-server": Case("memlock", SERVER, "MR", "ofed_guest", before={SERVER: LIMIT}, python=SERVER),
    "port-taken": Case("port-busy", SERVER, str(PORT), "end it", after={SERVER: "pkill -x ib_send_bw"}, before={SERVER: BACKGROUND % (
        "timeout 600 ib_send_bw -d rxe0") + " n=0; until [ -n \"$(ss -Hltn sport = :%d)\" ] || [ $n -gt 1500 ]; do sleep 0.1; n=$((n + 1)); done" % PORT}),
    "size-mismatch": Case("size-mismatch", (SERVER, CLIENT), "11", "same size", server=dict(size=1024), client=dict(size=65536)),
    "tool-mismatch": Case("tool-mismatch", (SERVER, CLIENT), "10", "different tests", server=dict(tests=["send_bw"]), client=dict(tests=["write_bw"])),
    # Ended by somebody: the server, then the client. So many iterations do not end by themselves.
    "killed-mid-run": Case("killed", SERVER, "signal 9", "out-of-memory", both=dict(iterations=100000),
                           before={SERVER: BACKGROUND % (FLOWS % "rcvd_pkts" + "pkill -KILL -x ib_send_bw")}),
    "killed-client": Case("killed", CLIENT, "signal 9", "out-of-memory", both=dict(iterations=100000),
                          before={CLIENT: BACKGROUND % (FLOWS % "sent_pkts" + "pkill -KILL -x ib_send_bw")}),
    # The link goes down when data flows: perftest itself would wait for ever.
    "hang-mid-run": Case(("timeout", "completion"), (SERVER, CLIENT), "", "MTU", both=dict(iterations=100000, test_timeout=30),
                         before={CLIENT: BACKGROUND % (FLOWS % "sent_pkts" + "ip link set %s down" % DEVICE)},
                         after={CLIENT: "n=0; until rdma link | grep -q DOWN || [ $n -gt 300 ]; do sleep 0.1; n=$((n + 1)); done; "
                                        "ip link set %s up; nmcli --wait 120 connection up vhpc-roce" % DEVICE}),
}


def tasks(name: str, case: Case) -> list[dict]:
    """The tasks of one case; what it came to is kept as ended_NAME."""
    mine = "inventory_hostname in %s" % json.dumps(case.hosts)
    found = []
    for host, command in case.before.items():
        found.append({"name": name + " is provoked", "ansible.builtin.raw": command, "when": "inventory_hostname == '%s'" % host})
    chosen = {host: dict(dict(USUAL, peers=peers()), **options) for host, options in case.options.items()}
    options = {key: "{{ chosen[inventory_hostname].%s | default(omit) }}" % key for key in dict(chosen[SERVER], **chosen[CLIENT])}
    ours = {"chosen": chosen}
    if case.python:
        ours["ansible_python_interpreter"] = "{{ '%s' if inventory_hostname == '%s' else '/usr/bin/python3' }}" % (LIMITED, case.python)
    found.append({"name": name, "vhpc.rdma.perftest": dict(options, phase="run"), "register": kept(name), "vars": ours, "when": mine})
    for host, command in case.after.items():
        found.append({"name": name + " is mended", "ansible.builtin.raw": command, "when": "inventory_hostname == '%s'" % host, "failed_when": False})
    return found


def kept(name: str) -> str:
    return "ended_" + name.replace("-", "_")


@pytest.fixture(scope="module")
def provoked(road, site):
    """All cases in one play; name -> the errors of its measurements."""
    out = site.directory / "failures.json"
    both = "[%s]" % ", ".join("hostvars['%s']" % host for host in (SERVER, CLIENT))
    results = {name: "{{ %s | map(attribute='%s.results', default=[]) | flatten | map(attribute='error') | list }}" % (both, kept(name)) for name in CASES}
    keep = {"name": "What all came to", "ansible.builtin.copy": {"content": "{{ results | to_json }}", "dest": str(out), "mode": "0600"}, "run_once": True,
            "delegate_to": "localhost", "vars": {"results": results, "ansible_connection": "local", "ansible_python_interpreter": sys.executable}}
    play = [{"hosts": "guests", "gather_facts": False, "tasks": [task for name, case in CASES.items() for task in tasks(name, case)] + [keep]}]
    run = site.play(json.dumps(play, indent=1), timeout=1800)
    assert out.exists(), run.log[-3000:]
    found = json.loads(out.read_text())
    return run, found


@pytest.mark.parametrize("name", list(CASES))
def test_a_failure_is_named_with_its_cause_and_what_to_try(provoked, name):
    run, found = provoked
    case = CASES[name]
    assert len(found[name]) == 1 and found[name][0], (found[name], run.log[-3000:])
    error = found[name][0]
    assert error["cause"] in case.cause, error
    assert error["side"] in ((case.side,) if isinstance(case.side, str) else case.side), error
    assert error["text"] and error["hint"]
    for word in case.words:
        assert any(one in error["text"] + error["hint"] for one in word.split("|")), (word, error)


def test_nothing_is_left_running_and_the_pair_measures_again(provoked, site):
    run, dummy = provoked
    assert run.code == 0, run.log[-3000:]
    for guest in site.guests:
        assert guest.run("pgrep -x 'ib_.*(bw|lat)'", check=False).returncode == 1  # the kernel's own threads have such names too
    assert verify(site) is None


# ---- the verify stage as a user runs it ----------------------------------------------------------------------------------------

PLAY = json.dumps([{"hosts": "guests", "gather_facts": False, "tasks": [{"ansible.builtin.import_role": {"name": "vhpc.rdma.verify"}}]}], indent=1)
QUICK = {"verify_tests": ["send_bw"], "verify_size": 65536, "verify_start_timeout": 120, "verify_test_timeout": 120, "verify_timeout": 400,
         "verify_enforce": False}


def verify(site, **more):
    """The one error that the verify stage reports, or None."""
    run = site.play(PLAY, **dict(QUICK, **more))
    assert run.code == 0, run.log[-3000:]
    verdicts = run.summary["verdicts"]
    assert verdicts, run.log[-3000:]
    return verdicts[0].get("error")


@pytest.mark.parametrize("number, name", [(0, "peer-port-down"), (1, "own-port-down")])
def test_a_pulled_cable_is_named_with_its_guest(provoked, site, number, name):
    guest = site.guests[number]
    guest.cable(False)
    try:
        wait(lambda: "DOWN" in guest.run("rdma link").stdout)
        error = verify(site)
    finally:
        guest.cable(True)
        wait(lambda: guest.address in guest.run("ip -br addr").stdout and "state ACTIVE" in guest.run("rdma link").stdout)
    assert error["cause"] == "port-down" and error["side"] == guest.name and "rxe0" in error["text"] and "cable" in error["hint"], (name, error)


def wait(condition, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)
