# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guests in directories that really meet: walkers in processes of their own, perftest programs that listen and connect."""

import json
import os
import signal
import socket
import sys
import threading
import time

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import mesh
from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, verdict
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.system import System
from ansible_collections.vhpc.rdma.plugins.modules import perftest
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.guest_tree import Tree

# perftest as far as meeting goes: the server takes one client, the client prints the table. Every start and end is noted.
TOOL = """#!{python} -S
import os, pathlib, socket, sys, time
root = pathlib.Path(__file__).resolve().parents[2]
name, argv = pathlib.Path(__file__).name, sys.argv[1:]
if "--version" in argv:
    print("Version: 6.06")
    sys.exit(1)
fault = root / "fault"
fault = fault.read_text().split() if fault.exists() else []
port, server = int(argv[argv.index("-p") + 1]), argv[-1] if not argv[-1].startswith("-") and argv[-2] != "-p" else ""
device = argv[argv.index("-d") + 1]
mine = (root / "address").read_text()
def note(what):
    with open(root.parent / "log", "a") as log:
        log.write("%.6f %s %s %s %s %d\\n" % (time.time(), what, root.name, name, device, os.getpid()))
if "memlock" in fault:
    sys.stderr.write("Couldn't allocate MR\\nfailed to create mr\\n")
    sys.exit(1)
if not server:
    time.sleep(0.05)
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((mine, port))
    except OSError:
        sys.exit("Couldn't listen to port %d" % port)
    door.listen(1)
    peer = door.accept()[0]
    note("begin")
    peer.sendall(b"x")
    peer.recv(1)
    note("end")
    sys.exit(0)
try:
    peer = socket.create_connection((server, port))
except OSError:
    sys.stderr.write("Couldn't connect to %s:%d\\n" % (server, port))
    sys.stderr.write("Unable to open file descriptor for socket connection Unable to init the socket connection\\n")
    sys.exit(1)
note("begin")
peer.recv(1)
if "hang" in fault:
    time.sleep(60)
time.sleep(0.02)
if name.endswith("bw"):
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    for size in (8, 65536, 1048576):
        print(" %d 1000 97.10 97.00 0.1" % size)
else:
    print(" #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]")
    print(" 8 1000 1.03 3.35 1.07 1.08 0.10 1.18 3.35")
note("end")
peer.sendall(b"y")
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Site:
    """Guests below one directory, each with a loopback address of its own."""

    def __init__(self, top, count):
        self.top, self.names = top, ["vm%02d" % (number + 1) for number in range(count)]
        self.addresses = {name: "127.88.%d.%d" % (os.getpid() % 250, number + 1) for number, name in enumerate(self.names)}
        self.port, self.control = free_port(), free_port()
        self.trees = {}
        for name in self.names:
            tree = self.trees[name] = Tree(top / name, name)
            tree.card()
            tree.write("sys/class/infiniband/mlx5_1/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:c0a8:050b")
            tree.write("sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/3", "RoCE v2")
            (tree.root / "address").write_text(self.addresses[name])
            for test in ("send_bw", "send_lat"):
                tree.program("ib_" + test, TOOL.format(python=sys.executable))

    def guest(self, name, phase, check=False, **more):
        peers = [dict(name=one, address=self.addresses[one]) for one in self.names]
        params = dict(phase=phase, run_id="run1", self_name=name, peers=peers, fabrics=["ib", "roce"],
                      tests=["send_bw", "send_lat"], repeats=1, rounds=0, iterations=None, extra_args=[], numa=False, port=self.port,
                      control_port=self.control, connect_timeout=1,
                      start_timeout=3, listen_timeout=5, test_timeout=10, timeout=60)
        params.update(more)
        return self.trees[name].guest(check, **params)

    def start(self, name, **more):
        return perftest.work(self.guest(name, "start", **more))

    def collect(self, name, **more):
        return perftest.work(self.guest(name, "collect", **more))

    def run(self, names=None, **more):
        names = names or self.names
        for name in names:
            assert self.start(name, **more)["started"]
        return {name: self.collect(name) for name in names}

    def system(self, name):
        return System(str(self.trees[name].root))

    def noted(self, what, guest):
        """Process numbers of the programs of a guest that came so far."""
        log = self.top / "log"
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [int(words[5]) for words in lines if words[1] == what and words[2] == guest]

    def judge(self, found):
        items = [item for result in found.values() for item in result["results"]]
        rates = {name: {fabric: port["rate_gbps"] for fabric, port in result["ports"].items()} for name, result in found.items()}
        return verdict.assess(items, self.names, rates, limits.resolve(), ["ib", "roce"], ["send_bw", "send_lat"])


@pytest.fixture
def site(tmp_path):
    made = []

    def make(count):
        made.append(Site(tmp_path, count))
        return made[0]

    yield make
    for name in made[0].names:
        for run in made[0].system(name).listdir(mesh.FOLDER):
            mesh.end(made[0].system(name), run)


def test_four_guests_measure_all_pairs_and_nobody_is_busy_twice(site):
    here = site(4)
    found = here.run()
    judged = here.judge(found)
    assert judged["summary"]["judged"] == judged["summary"]["passed"] == 24 and judged["summary"]["failed"] == 0
    assert all(result["finished"] and result["done"] == result["total"] == 12 and not result["changed"] for result in found.values())
    assert all(item["client"] == name for name, result in found.items() for item in result["results"])
    rows = sorted(line.split() for line in (here.top / "log").read_text().splitlines())
    busy = set()
    for dummy, what, guest, test, device, dummy in rows:
        if what == "begin":
            assert guest not in busy, "%s was busy twice" % guest
            busy.add(guest)
        else:
            busy.discard(guest)
    assert len(rows) == 24 * 4
    assert found["vm01"]["version"] == "6.06" and found["vm01"]["ports"]["roce"]["gid_index"] == 3


def test_repeats_and_a_part_of_the_rounds(site):
    here = site(4)
    found = here.run(repeats=2, rounds=1, tests=["send_bw"])
    items = [item for result in found.values() for item in result["results"]]
    assert len(items) == 2 * 2 * 2 and sorted({item["repeat"] for item in items}) == [1, 2] and len({item["round"] for item in items}) == 1
    assert all(result["rounds"] == 1 and result["done"] == result["total"] == 4 for result in found.values())
    rates = {name: {"ib": 100.0, "roce": 100.0} for name in here.names}
    judged = verdict.assess(items, here.names, rates, limits.resolve(), ["ib", "roce"], ["send_bw"], 1)
    assert judged["summary"]["passed"] == judged["summary"]["judged"] == 4 and all(one["repeats"]["n"] == 2 for one in judged["verdicts"])


def test_the_start_leaves_no_wait_behind_and_is_done_once(site):
    here = site(2)
    began = time.time()
    assert here.start("vm01")["started"]
    assert time.time() - began < 5
    assert not here.start("vm01")["started"]
    with pytest.raises(RdmaError) as err:
        here.start("vm01", fabrics=["ib"])
    assert err.value.code == "RUN_ID"
    assert here.start("vm02")["started"]
    assert here.collect("vm01")["finished"] and here.collect("vm02")["finished"]
    assert not here.start("vm01")["started"], "a run that is over is not run again"


def test_start_and_end_in_one_task(site):
    here, found = site(2), {}
    both = [threading.Thread(target=lambda name=name: found.update({name: perftest.work(here.guest(name, "run"))})) for name in here.names]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert here.judge(found)["summary"]["passed"] == 4
    assert all(one["started"] and one["finished"] and one["pairs"] == 1 and one["done"] == 4 for one in found.values())
    planned = perftest.work(here.guest("vm01", "run", check=True, run_id="run2"))
    assert planned["pairs"] == 1 and planned["hosts"] == here.names and not planned["started"] and "run2" not in here.system("vm01").listdir(mesh.FOLDER)


def test_check_mode_measures_nothing_and_counts(site):
    here = site(4)
    found = here.start("vm01", check=True)
    assert (found["pairs"], found["measurements"], found["started"], found["changed"], found["changes"]) == (6, 24, False, False, [])
    assert not (here.trees["vm01"].root / "var/tmp/vhpc_rdma").exists()
    assert here.collect("vm01", check=True)["results"] == []


def test_a_dead_guest_costs_one_timeout_and_is_blamed(site):
    here = site(4)
    began = time.time()
    found = here.run(["vm01", "vm02", "vm04"])
    assert time.time() - began < 20
    judged = here.judge(found)
    assert [(one["fabric"], one["kind"], one["names"]) for one in judged["blame"]] == [("ib", "node", ["vm03"]), ("roce", "node", ["vm03"])]
    bad = [one for one in judged["verdicts"] if one["status"] == "fail"]
    assert len(bad) == 12 and {one["error"]["cause"] for one in bad} == {"server-not-running"} and judged["summary"]["passed"] == 12


def test_a_guest_that_comes_late_is_waited_for(site):
    here = site(3)
    here.start("vm01")
    here.start("vm02")
    time.sleep(1.0)
    here.start("vm03")
    assert here.judge({name: here.collect(name) for name in here.names})["summary"]["failed"] == 0


def test_a_guest_that_dies_in_the_middle_does_not_hold_the_others(site):
    here = site(4)
    (here.trees["vm02"].root / "fault").write_text("hang")
    for name in here.names:
        here.start(name)
    time.sleep(0.8)
    pid = int(here.system("vm02").line(mesh.folder("run1") + "/pid"))
    os.kill(pid, signal.SIGKILL)
    began = time.time()
    found = {name: here.collect(name) for name in ("vm01", "vm03", "vm04")}
    assert time.time() - began < 30 and all(result["finished"] for result in found.values())
    late = here.collect("vm02")
    assert not late["finished"]
    judged = here.judge(dict(found, vm02=late))
    assert {tuple(one["names"]) for one in judged["blame"]} == {("vm02",)}


def test_memlock_on_one_guest_is_named_from_both_sides(site):
    here = site(3)
    (here.trees["vm02"].root / "fault").write_text("memlock")
    began = time.time()
    judged = here.judge(here.run())
    assert time.time() - began < 20
    bad = [one for one in judged["verdicts"] if one["status"] == "fail"]
    assert len(bad) == 8 and {one["error"]["cause"] for one in bad} == {"memlock"} and {one["error"]["side"] for one in bad} == {"vm02"}
    assert {tuple(one["names"]) for one in judged["blame"]} == {("vm02",)}


def test_a_hanging_measurement_ends_by_its_own_deadline(site):
    here = site(2)
    for tree in here.trees.values():
        (tree.root / "fault").write_text("hang")
    began = time.time()
    found = here.run(test_timeout=1, fabrics=["ib"], tests=["send_bw"])
    assert time.time() - began < 15
    errors = [item["error"] for result in found.values() for item in result["results"]]
    assert [error["cause"] for error in errors] == ["timeout"]


def test_a_fabric_that_a_guest_does_not_have_is_named_and_the_other_is_measured(site):
    here = site(3)
    here.trees["vm03"].write("sys/class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand")
    judged = here.judge(here.run())
    bad = [one for one in judged["verdicts"] if one["status"] == "fail"]
    # Two InfiniBand ports are ambiguous, none is Ethernet: both fabrics of vm03 say why.
    assert {one["error"]["cause"] for one in bad} == {"no-port"} and all("vm03" in (one["server"], one["client"]) for one in bad) and len(bad) == 8
    assert any("LINK_TYPE" in one["error"]["hint"] for one in bad)


def test_a_port_in_use_is_told_by_the_start(site):
    here = site(2)
    with socket.socket() as other:
        other.bind((here.addresses["vm01"], here.control))
        other.listen(1)
        with pytest.raises(RdmaError) as err:
            here.start("vm01")
    assert err.value.code == "START" and str(here.control) in err.value.why
    late = here.collect("vm01")
    assert not late["finished"] and late["results"] == []


def test_a_new_run_ends_an_old_one_that_still_waits(site):
    here = site(2)
    here.start("vm01", run_id="old", start_timeout=50)
    assert mesh.locked(here.system("vm01"), "old")
    here.start("vm01", run_id="new")
    assert not mesh.locked(here.system("vm01"), "old") and mesh.locked(here.system("vm01"), "new")
    here.start("vm02", run_id="new")
    assert here.judge({name: here.collect(name, run_id="new") for name in here.names})["summary"]["failed"] == 0


def test_collect_ends_a_run_at_its_deadline(site):
    here = site(2)
    here.start("vm01", start_timeout=50)
    guest = here.guest("vm01", "collect", timeout=1)
    found = perftest.work(guest)
    assert not found["finished"] and guest.warnings and not mesh.locked(here.system("vm01"), "run1")


def test_names_and_ports_are_checked_before_anything_starts(site):
    here = site(2)
    for more, code in ((dict(self_name="vm09"), "SCHEDULE"), (dict(run_id="../x"), "RUN_ID"), (dict(control_port=here.port), "PORTS"),
                       (dict(peers=[dict(address="x")]), "PEERS")):
        with pytest.raises(RdmaError) as err:
            here.start("vm01", **more)
        assert err.value.code == code
    with pytest.raises(RdmaError) as err:
        here.collect("vm01", run_id="never")
    assert err.value.code == "NOT_STARTED"


def test_old_runs_are_cleared_away(site):
    here = site(1)
    system = here.system("vm01")
    for number in range(8):
        system.write(mesh.folder("old%d" % number) + "/spec.json", json.dumps({}))
        os.utime(system.path(mesh.folder("old%d" % number) + "/spec.json"), (number, number))
    here.start("vm01")
    left = system.listdir(mesh.FOLDER)
    assert left == ["old%d" % number for number in range(8 - mesh.KEEP, 8)] + ["run1"]
    assert here.collect("vm01")["finished"]


def test_a_listening_port_is_read_from_proc():
    table = ("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
             "   0: 00000000:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
             "   1: 0100007F:1F90 0100007F:4854 01 00000000:00000000 00:00000000 00000000     0        0 2 1\n")
    assert [mesh.listeners(table, port) for port in (18515, 8080, 18516)] == [{"1"}, set(), set()] and mesh.listeners("", 18515) == set()


def test_a_server_that_is_killed_is_named_and_not_called_slow(site):
    here = site(2)
    for tree in here.trees.values():
        (tree.root / "fault").write_text("hang")
    for name in here.names:
        here.start(name, fabrics=["ib"], tests=["send_bw"], test_timeout=30)
    deadline = time.time() + 20
    while not here.noted("begin", "vm01") and time.time() < deadline:
        time.sleep(0.02)
    os.kill(here.noted("begin", "vm01")[0], signal.SIGKILL)
    began = time.time()
    errors = [item["error"] for name in here.names for item in here.collect(name)["results"]]
    assert [(error["cause"], error["side"]) for error in errors] == [("killed", "vm01")] and "signal 9" in errors[0]["text"], errors
    assert time.time() - began < 15


def test_a_partner_whose_name_is_unknown_is_told_from_one_that_is_off(site):
    here = site(2)
    peers = [dict(name="vm01", address="nowhere.invalid"), dict(name="vm02", address=here.addresses["vm02"])]
    here.start("vm02", peers=peers, start_timeout=0)
    errors = [item["error"] for item in here.collect("vm02")["results"]]
    assert {error["cause"] for error in errors} == {"name"} and "vhpc_peer_address" in errors[0]["hint"]


def test_no_client_is_sent_to_a_server_that_lost_its_port_to_another_program(site):
    here = site(2)
    table = "proc/net/tcp"
    with socket.socket() as other:
        other.bind((here.addresses["vm01"], here.port))
        other.listen(4)
        # /proc of a guest in a directory is a file: the listener was there before.
        here.trees["vm01"].write(table, "  sl\n   0: 0100007F:%04X 00000000:0000 0A 0:0 00:0 0 0 0 77 1\n" % here.port)
        found = here.run(fabrics=["ib"], tests=["send_bw"], listen_timeout=20)
        other.settimeout(0.1)
        with pytest.raises(socket.timeout):
            other.accept()
    errors = [item["error"] for result in found.values() for item in result["results"]]
    assert [(error["cause"], error["side"]) for error in errors] == [("port-busy", "vm01")] and "listen" in errors[0]["server_output"]


@pytest.mark.parametrize("extra, index", [([], 3), (["-x", "9"], 9), (["-x5"], 5), (["--gid-index=7", "-q", "2"], 7), (["-q", "2"], 3)])
def test_the_gid_that_is_looked_at_is_the_one_that_perftest_was_told(site, extra, index):
    here = site(1)
    spec = dict(self="vm01", peers=[dict(name="vm01", address="127.0.0.1")], fabrics=["roce"], tests=["send_bw"], extra_args=extra, run_id="x")
    walker = mesh.Walker(here.system("vm01"), spec)
    walker.prepare()
    assert walker.gid_index("roce") == index


@pytest.mark.parametrize("options, met", [
    (dict(pattern="ring"), {("vm01", "vm02"), ("vm02", "vm03"), ("vm03", "vm04"), ("vm01", "vm04")}),
    (dict(pattern="one_to_all", hub="vm03"), {("vm01", "vm03"), ("vm02", "vm03"), ("vm03", "vm04")}),
    (dict(pattern="list", pairs=[["vm02", "vm04"], ["vm01", "vm03"]]), {("vm02", "vm04"), ("vm01", "vm03")})])
def test_other_patterns_than_all_pairs(site, options, met):
    here = site(4)
    found = here.run(tests=["send_bw"], **options)
    items = [item for result in found.values() for item in result["results"]]
    assert {tuple(sorted((item["server"], item["client"]))) for item in items} == met and not any(item["error"] for item in items)
    assert len(items) == 2 * len(met) and all(result["finished"] for result in found.values())
    judged = verdict.assess(items, here.names, {}, limits.resolve(dict(rate_ib_gbps=100, rate_roce_gbps=100)), ["ib", "roce"], ["send_bw"], 0, None,
                            found["vm01"]["chosen"])
    assert judged["summary"]["judged"] == judged["summary"]["passed"] == 2 * len(met)


def test_collect_tells_how_far_it_is_and_leaves_the_walk_alone(site):
    here = site(2)
    for tree in here.trees.values():
        (tree.root / "fault").write_text("hang")
    for name in here.names:
        here.start(name, test_timeout=4, fabrics=["ib"])
    began = time.time()
    found = here.collect("vm01", wait=1)
    assert found["running"] and not found["finished"] and found["results"] == [] and found["total"] in (0, 2) and time.time() - began < 3
    found = {name: here.collect(name) for name in here.names}
    assert not any(result["running"] for result in found.values()) and all(result["finished"] for result in found.values())
    assert {item["error"]["cause"] for result in found.values() for item in result["results"]} == {"timeout"}
