# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make demo: starts the lab, runs site.yml against it twice, prints a summary and the path of the report, stops the lab."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))

from lab.lab import Lab  # noqa: E402  pylint: disable=wrong-import-position
from lab.runner import environment, play  # noqa: E402  pylint: disable=wrong-import-position


def active_ports(report: dict) -> int:
    return sum(port.get("state") == "ACTIVE" for port in report.get("ports", []))


def measured_pairs(report: dict) -> dict[str, int]:
    """Pairs with both a bandwidth and a latency, per fabric."""
    pairs = report.get("verdict", {}).get("pairs") or []
    return {fabric: sum(pair["fabric"] == fabric and all((pair.get(test) or {}).get("value") is not None for test in ("send_bw", "send_lat"))
                        for pair in pairs) for fabric in ("ib", "roce")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=16, help="hosts and VMs (default: 16)")
    parser.add_argument("--directory", type=Path, default=TOP / "build" / "demo")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=HOST", help="switch a fault of the lab on")
    parser.add_argument("--once", action="store_true", help="leave the second run out")
    args = parser.parse_args()
    if args.hosts < 2:
        parser.error("a cluster has at least 2 hosts")
    directory = args.directory.absolute()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    # A Unix socket's path is at most 107 bytes long; a deep checkout gets a short directory that goes away at the end.
    short = None if len(str(directory)) < 60 else tempfile.mkdtemp(prefix="vhpc-")
    try:
        return run(args, directory, short or str(directory / "cp"))
    finally:
        if short:
            shutil.rmtree(short, ignore_errors=True)


def run(args: argparse.Namespace, directory: Path, sockets: str) -> int:
    hosts = args.hosts
    with Lab(directory / "lab", hosts) as lab:
        for wish in args.fault:
            name, dummy, host = wish.partition("=")
            lab.world.set_fault(name, host)
        print("The rehearsal lab is up: %d ESXi hosts, %d VMs, simulated. Log in while it runs: see %s" % (hosts, hosts, lab.inventory))
        env = environment(directory, max(5, min(hosts, 32)), sockets)
        switch = ["-e", "fabric_directory=%s" % (directory / "switch")]
        extra = ["-e", "vhpc_run_dir=%s" % (directory / "first")] + switch
        before = {name: host.boots for name, host in lab.world.hosts.items()}
        print("\nFirst run of site.yml", flush=True)
        first_rc, first_s, first = play("first", str(TOP / "playbooks" / "site.yml"), lab, env, extra)
        boots = {name: host.boots - before[name] for name, host in lab.world.hosts.items()}
        report_path = directory / "first" / "report.html"
        report = json.loads((directory / "first" / "report.json").read_text()) if (directory / "first" / "report.json").exists() else {}
        second_rc, second_s, second, again = 0, 0.0, {}, dict.fromkeys(boots, 0)
        if not args.once:
            print("\nSecond run: nothing may change", flush=True)
            extra = ["-e", "vhpc_run_dir=%s" % (directory / "second")] + switch
            second_rc, second_s, second = play("second", str(TOP / "playbooks" / "site.yml"), lab, env, extra)
            again = {name: host.boots - before[name] - boots[name] for name, host in lab.world.hosts.items()}
        names = set(lab.world.hosts)
    tasks = first.get("tasks", {})
    failed = {failure["host"] for failure in first.get("failures", [])}
    summary = {
        "hosts": len(boots), "guests": hosts, "ports_active": active_ports(report), "pairs": measured_pairs(report), "failed": len(failed),
        "reboots": boots, "reboots_max": max(boots.values()),
        "tasks_per_host_max": {"esxi": max((n for h, n in tasks.items() if h in names), default=0),
                               "guest": max((n for h, n in tasks.items() if h not in names), default=0)},
        "first_run_s": round(first_s, 1), "second_run_s": round(second_s, 1), "second_run_changed": second.get("changed_results", -1 if not args.once else 0),
        "second_run_reboots": sum(again.values()), "report": str(report_path) if report_path.exists() else ""}
    (directory / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    show(summary, first, report, directory)
    if failed or first_rc or second_rc:
        return 2
    return 0 if summary["second_run_changed"] == 0 and summary["second_run_reboots"] == 0 else 3


def show(summary: dict, first: dict, report: dict, directory: Path) -> None:
    print("\n%-10s %6s %8s %7s" % ("STAGE", "hosts", "changed", "failed"))
    for name, stage in first.get("stages", {}).items():
        print("%-10s %6d %8d %7d" % (name, len(stage["hosts"]), len(stage["changed"]), len(stage["failed"])))
    print("\nREBOOTS (at most %d on one host)" % summary["reboots_max"])
    for host, batches in sorted(first.get("reboots", {}).items()):
        for number, reasons in enumerate(batches, 1):
            text = "; ".join(reasons)
            print("%-8s %d  %s" % (host, number, text if len(text) < 140 else text[:137] + "..."))
    verdicts = report.get("verdict", {}).get("summary")
    if verdicts:
        print("\nVERDICTS (simulated: they say nothing about hardware)")
        for fabric in verdicts["fabrics"].values():
            for test, row in fabric["tests"].items():
                middle = row["values"].get("median")
                print("%-11s %-9s %4d pass %4d warning %4d fail   median %s %s, %s" % (
                    fabric["name"], test, row["passed"], row["warned"], row["failed"], "none" if middle is None else "%.2f" % middle, row["unit"],
                    row["limit"]))
    for failure in first.get("failures", []):
        print("\nFAILED  %s  %s: %s" % (failure["host"], failure["stage"] or failure["task"], failure["msg"]))
    print("\n%d hosts, %d guests, %d ports active, pairs: %d InfiniBand and %d RoCE, %d failed" % (
        summary["hosts"], summary["guests"], summary["ports_active"], summary["pairs"]["ib"], summary["pairs"]["roce"], summary["failed"]))
    print("first run %.0f s; second run %.0f s, changed %d, reboots %d" % (
        summary["first_run_s"], summary["second_run_s"], summary["second_run_changed"], summary["second_run_reboots"]))
    print("report   %s\nsummary  %s\nlogs     %s" % (summary["report"], directory / "summary.json", directory / "first.log"))


if __name__ == "__main__":
    sys.exit(main())
