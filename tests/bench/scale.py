# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the mesh costs: `make bench`.

1. The walk: 16 guests in directories walk the whole schedule (15 rounds x 2 fabrics x 2 tests) with a program that measures for a given time.
2. The same with one Ansible task for each measurement of a round, from what a task costs here.
3. Schedule, verdicts and report of 16, 64 and 256 hosts, each in a process of its own: seconds and memory.

    scale.py [--seconds 2] [--hosts 16] [--only walk|tasks|scale] [--sizes 16,64,256]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "build" / "collections"))


# What stands for perftest: two ends that meet and wait, with as little of Python as there is, since 16 of them start at a time.
TOOL = """#!{python} -SsEB
import _socket, os, sys, time
argv = sys.argv[1:]
if "--version" in argv:
    print("Version: 6.06")
    os._exit(1)
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
port = int(argv[argv.index("-p") + 1])
door = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
if argv[-1].startswith("-") or argv[-2] == "-p":
    door.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    door.bind((open(root + "/address").read().strip(), port))
    door.listen(1)
    peer = _socket.socket(fileno=door._accept()[0])
    peer.send(b"x")
    peer.recv(1)
    os._exit(0)
try:
    door.connect((argv[-1], port))
except OSError:
    sys.stderr.write("Couldn't connect to %s:%d\\n" % (argv[-1], port))
    sys.stderr.write("Unable to open file descriptor for socket connection Unable to init the socket connection\\n")
    os._exit(1)
door.recv(1)
time.sleep(SECONDS)
if "bw" in sys.argv[0]:
    print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
    print(" 65536 1000 97.10 97.00 0.1\\n 1048576 1000 97.10 97.00 0.1")
else:
    print(" #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]")
    print(" 8 1000 1.03 3.35 1.07 1.08 0.10 1.18 3.35")
sys.stdout.flush()
door.send(b"y")
"""


def walk(count: int, seconds: float) -> None:
    from ansible_collections.vhpc.rdma.plugins.module_utils import mesh
    from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils import test_mesh

    rounds, ideal = count - 1 + count % 2, (count - 1 + count % 2) * 4 * seconds
    test_mesh.TOOL = TOOL.replace("SECONDS", "%g" % seconds)
    with tempfile.TemporaryDirectory(prefix="vhpc-bench-") as folder:
        site = test_mesh.Site(pathlib.Path(folder), count)
        limits = dict(start_timeout=120, listen_timeout=60, test_timeout=120, timeout=int(ideal * 4 + 300), connect_timeout=10)
        began = time.monotonic()
        try:
            for name in site.names:
                site.start(name, **limits)
            found = {name: site.collect(name, **limits) for name in site.names}
        finally:
            for name in site.names:
                for run in site.system(name).listdir(mesh.FOLDER):
                    mesh.end(site.system(name), run)
        spent = time.monotonic() - began
        judged = site.judge(found)["summary"]
    print("walk        %d hosts, %d rounds x 2 fabrics x 2 tests x %g s: %.0f s (ideal %.0f s, ratio %.2f); %d of %d measurements passed" % (
        count, rounds, seconds, spent, ideal, spent / ideal if ideal else 0, judged["passed"], judged["judged"]))
    print("            load average %.1f on %d cores" % (os.getloadavg()[0], os.cpu_count() or 1), flush=True)


def tasks(count: int, seconds: float) -> None:
    """Ansible tasks that only sleep, on as many local hosts: the least a task for each measurement of a round can cost."""
    number, forks = 3, (count, 5)
    rounds = (count - 1 + count % 2) * 4
    for limit in forks:
        with tempfile.TemporaryDirectory(prefix="vhpc-bench-") as folder:
            book = pathlib.Path(folder) / "play.yml"
            sleep = "    - ansible.builtin.command: sleep %g\n" % seconds
            book.write_text("- hosts: all\n  gather_facts: false\n  tasks:\n" + sleep * number)
            hosts = "".join("node%02d ansible_connection=local ansible_python_interpreter=%s\n" % (n, sys.executable) for n in range(count))
            (pathlib.Path(folder) / "inventory").write_text(hosts)
            began = time.monotonic()
            done = subprocess.run(["ansible-playbook", "-i", folder + "/inventory", "-f", str(limit), str(book)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False, env=dict(os.environ, ANSIBLE_HOME=folder, ANSIBLE_NOCOLOR="1"))
            spent = time.monotonic() - began
        if done.returncode:
            print("tasks       %s" % done.stdout.strip()[-500:])
            return
        print("tasks       one task for each measurement of a round, forks %d: %.1f s a task of %g s, %d tasks: %.0f s (extrapolated from %d tasks)%s" % (
            limit, spent / number, seconds, rounds, spent / number * rounds, number,
            "; and a pair whose ends do not run at the same time cannot meet" if limit < count else ""), flush=True)


def scale(count: int) -> None:
    from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, schedule, verdict
    from ansible_collections.vhpc.rdma.plugins.plugin_utils import report, report_page

    chance = random.Random(count)
    hosts = ["n%03d" % number for number in range(count)]
    sizes = [2 ** power for power in range(1, 24)]
    began = time.monotonic()
    pairs = schedule.pairs(hosts)
    planned = time.monotonic() - began
    results: dict[str, list] = {host: [] for host in hosts}
    for number, server, client in pairs:
        for fabric, test in schedule.items(["ib", "roce"], ["send_bw", "send_lat"]):
            if test == "send_bw":
                top = 97.2 * (1 + chance.gauss(0, 0.004)) * (0.85 if hosts[3] in (server, client) else 1)
                rows = [[size, top, min(top, size * 0.05), 1.0] for size in sizes]
            else:
                base = 1.2 * (1 + chance.gauss(0, 0.01))
                rows = [[size, base, base + 2, base + size / 11800.0, base, 0.1, base, base + 2] for size in sizes]
            results[client].append(dict(fabric=fabric, test=test, round=number, server=server, client=client, rows=rows, error=None, by="client",
                                        seconds=2.0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    began = time.monotonic()
    rates = {host: {"ib": 100.0, "roce": 100.0} for host in hosts}
    judged = verdict.assess([item for items in results.values() for item in items], hosts, rates, limits.resolve(), ["ib", "roce"], ["send_bw", "send_lat"])
    decided = time.monotonic() - began
    began = time.monotonic()
    hostvars = {host: {"verify_mesh_result": {"results": results[host], "hosts": hosts}, "verify_verdict_result": judged if host == hosts[0] else {}}
                for host in hosts}
    data = report.gather(hostvars, hosts, "bench", "simulated", "now")
    page = report_page.html(data)
    written = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    named = sorted({name for entry in judged["blame"] for name in entry["names"]})
    print("scale       %3d hosts, %5d pairs, %6d measurements: schedule %.2f s, verdicts %.1f s, report %.1f s (%.1f MB)" % (
        count, len(pairs), len(judged["verdicts"]), planned, decided, written, len(page) / 1e6))
    print("            memory %.0f MB (before verdicts and report %.0f MB); blamed: %s" % (peak, before, ", ".join(named)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="What the mesh costs.")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--only", choices=["walk", "tasks", "scale"])
    parser.add_argument("--sizes", default="16,64,256")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.one:
        scale(words.one)
        return 0
    if words.only in (None, "walk"):
        walk(words.hosts, words.seconds)
    if words.only in (None, "tasks"):
        tasks(words.hosts, words.seconds)
    if words.only in (None, "scale"):
        for size in words.sizes.split(","):
            subprocess.run([sys.executable, __file__, "--one", size], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
