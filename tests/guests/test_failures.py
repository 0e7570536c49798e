# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures provoked for real: perftest's own words by hand, and what the verify stage makes of a guest that is not as it should be."""

from __future__ import annotations

import json
import time

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import tables

LISTEN = "ss -Hltn sport = :18515"
END = "pkill -x 'ib_.*' || true"


def pair(site, server: str, client: str, seconds: int = 60):
    """The server on guest-02, the client on guest-01: (its output, return code), (the server's output)."""
    one, two = site.guests
    two.run(END)
    if server:
        two.run("timeout -k 2 %d %s > /tmp/server 2>&1 < /dev/null & for n in $(seq 200); do [ -n \"$(%s)\" ] && break; sleep 0.1; done" % (
            seconds, server, LISTEN))
    done = one.run("timeout -k 2 %d %s 2>&1; echo rc=$?" % (seconds, client), check=False, timeout=seconds + 60)
    two.run(END)
    text, dummy, code = done.stdout.rpartition("rc=")
    return text, int(code), two.run("cat /tmp/server", check=False).stdout if server else ""


BW = "ib_send_bw -d rxe0 -n 5 "
BY_HAND = {
    # name: server's command, client's command, cause
    "server-not-running": ("", BW + "{peer}", "server-not-running"),
    "bad-host": ("", BW + "nowhere.invalid", "name"),
    "wrong-device": ("", "ib_send_bw -d mlx5_0 -n 5 {peer}", "wrong-device"),
    "bad-port-number": ("", BW + "-i 2 {peer}", "wrong-port"),
    "gid-out-of-range": ("", BW + "-x 77 {peer}", "gid-range"),
    "gid-incompatible": (BW + "-x 0", BW + "-x 1 {peer}", "gid"),
    "gid-empty-both": (BW + "-x 9", BW + "-x 9 {peer}", "path"),
    "size-mismatch": ("ib_send_bw -d rxe0 -n 5 -s 1024", "ib_send_bw -d rxe0 -n 5 -s 65536 {peer}", "size-mismatch"),
    "tool-mismatch": (BW, "ib_write_bw -d rxe0 -n 5 {peer}", "tool-mismatch"),
    "memlock": (BW, "setpriv --reuid=65534 --clear-groups prlimit --memlock=65536 ib_send_bw -d rxe0 -n 5 {peer}", "memlock"),
}


@pytest.mark.parametrize("name", list(BY_HAND))
def test_what_perftest_says_has_a_cause_and_a_hint(road, site, name):
    server, client, cause = BY_HAND[name]
    text, code, dummy = pair(site, server, client.format(peer=site.guests[1].office))
    assert code != 0
    found = tables.failure(text, code)
    assert found["cause"] == cause, (text, found)
    assert found["hint"]


def test_a_taken_port_is_what_the_server_says(road, site):
    two = site.guests[1]
    two.run(END)
    two.run("timeout 60 ib_send_bw -d rxe0 > /dev/null 2>&1 < /dev/null & for n in $(seq 200); do [ -n \"$(%s)\" ] && break; sleep 0.1; done" % LISTEN)
    done = two.run("timeout 30 ib_send_bw -d rxe0 2>&1; echo rc=$?", check=False)
    two.run(END)
    text, dummy, code = done.stdout.rpartition("rc=")
    assert tables.failure(text, int(code))["cause"] == "port-busy", text


# ---- the verify stage ----------------------------------------------------------------------------------------------------------

PLAY = json.dumps([{"hosts": "guests", "gather_facts": False, "tasks": [{"ansible.builtin.import_role": {"name": "vhpc.rdma.verify"}}]}], indent=1)
QUICK = {"verify_tests": ["send_bw"], "verify_start_timeout": 120, "verify_test_timeout": 60, "verify_timeout": 300, "verify_enforce": False}


def verify(site, **more):
    """The one error that the verify stage reports, or None."""
    run = site.play(PLAY, **dict(QUICK, **more))
    assert run.code == 0, run.log[-3000:]
    verdicts = run.summary["verdicts"]
    assert verdicts, run.log[-3000:]
    return verdicts[0].get("error")


def test_a_pulled_cable_is_named_with_its_guest(road, site):
    two = site.guests[1]
    two.cable(False)
    try:
        wait(lambda: "DOWN" in two.run("rdma link").stdout)
        error = verify(site)
    finally:
        two.cable(True)
        wait(lambda: two.address in two.run("ip -br addr").stdout and "state ACTIVE" in two.run("rdma link").stdout)
    assert error["cause"] == "port-down" and error["side"] == two.name and "rxe0" in error["text"], error


def test_a_firewall_is_told_from_a_server_that_does_not_run(road, site):
    server, client = site.guests
    server.run("nft add table inet test; nft 'add chain inet test in { type filter hook input priority 0; }'; "
               "nft add rule inet test in tcp dport 18515 drop")
    try:
        error = verify(site)
    finally:
        server.run("nft delete table inet test")
    assert error["cause"] == "unreachable" and "firewall" in error["hint"] and error["side"] == client.name, error


def test_a_server_that_dies_is_told_from_a_slow_one(road, site):
    server = site.guests[0]
    # Not before perftest itself runs: the stage has started it by then.
    server.run("(for n in $(seq 3000); do pgrep -x ib_send_bw > /dev/null && { sleep 2; pkill -KILL -x ib_send_bw; break; }; sleep 0.1; done)"
               " > /dev/null 2>&1 < /dev/null &")
    error = verify(site, verify_iterations=1000)
    assert error is not None and "signal 9" in error["text"] and error["side"] == server.name, error


def test_a_hang_ends_at_its_deadline(road, site):
    two = site.guests[1]
    # The link goes down when data flows: perftest itself would then wait for ever.
    two.run("(sent() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }; begin=$(sent); "
            "for n in $(seq 3000); do [ $(sent) -gt $((begin + 2000)) ] && { ip link set %s down; break; }; sleep 0.1; done)"
            " > /dev/null 2>&1 < /dev/null &" % port_of(two))
    started = time.monotonic()
    try:
        error = verify(site, verify_iterations=1000, verify_test_timeout=40)
    finally:
        two.run("ip link set %s up; nmcli connection up vhpc-roce" % port_of(two))
        wait(lambda: two.address in two.run("ip -br addr").stdout and "state ACTIVE" in two.run("rdma link").stdout)
    assert error is not None and error["cause"] in ("timeout", "completion") and error["hint"], error
    assert time.monotonic() - started < 300
    for guest in site.guests:
        assert guest.run("pgrep -x ib_send_bw", check=False).returncode == 1  # nothing is left behind


def port_of(guest) -> str:
    return guest.run("cat /sys/class/infiniband/rxe0/parent").stdout.strip()


def wait(condition, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)
