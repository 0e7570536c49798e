# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The whole road on four hosts (no MFT, MFT 4.18, no MFT at another address, already right): plan, run, plan, run."""

import collections
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.vhpc.rdma.plugins.plugin_utils import plan

from lab.harness import Site, differences

REBOOTS = {"esxi01": 2, "esxi02": 1, "esxi03": 2, "esxi04": 0}


def machine() -> dict[str, str]:
    """What of this machine a run might touch by mistake: /etc, installed packages, root's and the user's own files at the top level."""
    out: dict[str, str] = {}
    for top, dummy, files in os.walk("/etc"):
        for name in files:
            path = os.path.join(top, name)
            try:
                out[path] = "%d %s" % (os.lstat(path).st_size, hashlib.sha256(Path(path).read_bytes()).hexdigest())
            except OSError:
                out[path] = "unreadable"
    out.pop("/etc/mtab", None)
    try:
        out["packages"] = subprocess.run(["dpkg-query", "-W"], check=True, stdout=subprocess.PIPE, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        out["packages"] = "no dpkg"
    for home in (Path.home(), Path("/root")):
        for name in (".ansible", ".ssh", ".netrc"):
            out[str(home / name)] = str(os.path.lexists(home / name))
    for unit in sorted(Path("/run").glob("*.pid")):
        out[str(unit)] = "there"
    return out


class Road:
    """plan, run, plan again, run again; what each gave, and the world between them."""

    def __init__(self, directory: Path) -> None:
        self.machine_before = machine()
        self.site = Site(directory, 4)
        try:
            world = self.site.world
            self.untouched = world.dump()
            self.plan = self.site.run("plan.yml")
            self.after_plan = world.dump()
            self.check = self.site.run("site.yml", "--check")
            self.after_check = world.dump()
            self.first = self.site.run("site.yml")
            self.boots = {name: host.boots for name, host in world.hosts.items()}
            self.second_plan = self.site.run("plan.yml")
            self.second = self.site.run("site.yml")
            self.boots_after = {name: host.boots for name, host in world.hosts.items()}
            self.done = world.dump()
            self.journal = list(world.journal)
        finally:
            self.site.stop()
        self.machine_after = machine()


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return Road(tmp_path_factory.mktemp("road"))


def test_the_road_ends_well(road):
    assert road.first.code == 0, road.first.log[-3000:]
    assert road.first.failed == {}


def test_the_plan_touches_nothing(road):
    assert road.plan.code == 0, road.plan.log[-3000:]
    assert differences(road.untouched, road.after_plan) == []


def test_check_mode_of_site_says_the_same_as_the_plan_and_touches_nothing(road):
    assert road.check.code == 0, road.check.log[-3000:]
    assert differences(road.untouched, road.after_check) == []
    assert differences(road.plan.file("plan.json"), road.check.file("plan.json")) == []


def test_the_plan_knows_the_reboots_before_the_run(road):
    planned = road.plan.file("plan.json")
    assert {h: planned["reboots"].get(h, 0) for h in REBOOTS} == REBOOTS


def test_what_cannot_be_read_yet_is_conditional_with_its_reason(road):
    hosts = road.plan.file("plan.json")["hosts"]
    without_mft = [s for s in hosts["esxi01"]["steps"] if s["certainty"] == "conditional"]
    assert without_mft and all(step["reason"] for step in without_mft)
    assert [s for s in hosts["vm01"]["steps"] if s["certainty"] == "conditional" and s["reason"]]


def test_the_plan_is_held_by_what_happened(road):
    assert plan.against(road.plan.file("plan.json"), road.first.file("done.json")) == []


def test_reboots_are_exactly_the_needed_ones(road):
    assert road.boots == REBOOTS


def test_after_the_run_the_plan_is_empty(road):
    assert road.second_plan.code == 0
    assert road.second_plan.file("plan.json")["empty"], road.second_plan.log[-3000:]


def test_the_second_run_changes_nothing_and_reboots_nothing(road):
    assert road.second.code == 0, road.second.log[-3000:]
    assert road.second.summary["changed_results"] == 0, road.second.summary["changed_hosts"]
    assert road.boots_after == road.boots


def test_the_price_in_tasks(road):
    tasks = road.first.summary["tasks"]
    assert max(count for host, count in tasks.items() if host.startswith("esxi")) <= 20
    assert max(count for host, count in tasks.items() if host.startswith("vm")) <= 15
    # Also when what a host delegates to the controller is put on its own bill.
    lines = [json.loads(line) for line in (road.site.directory / "03-site.jsonl").read_text().splitlines()]
    bill = collections.Counter(line["host"] for line in lines if line["event"] == "result")
    assert max(count for host, count in bill.items() if host.startswith("esxi")) <= 20 and max(bill.values()) <= 20
    assert max(count for host, count in bill.items() if host.startswith("vm")) <= 15


def test_the_world_is_as_the_paper_wants_it(road):
    for name, host in road.done["hosts"].items():
        card = next(c for c in host["cards"] if c["psid"] == "MT_0000000008")
        current = {key: nv["current"] for key, nv in card["config"].items()}
        assert (current["LINK_TYPE_P1"], current["LINK_TYPE_P2"], current["SRIOV_EN"], current["FORCE_ETH_PCI_SUBCLASS"]) == (1, 2, 0, 0), name
        functions = [bdf for bdf in host["passthru"] if bdf.startswith(card["bdf"][:-1])]
        assert len(functions) == 2 and all(host["passthru"][bdf]["active"] for bdf in functions)
        assert not any(host["passthru"][bdf]["enabled"] for bdf in host["passthru"] if bdf not in functions)
        assert host["power_policy"] == 1 and host["dvs"].get("hpc-dvs", []) == [] and not host["maintenance"]
        assert "max_vfs" not in host["module_running"]["nmlx5_core"] and "trust_state=2" in host["module_running"]["nmlx5_core"]
        assert host["bmc"]["pending"] == {} and host["bmc"]["current"]["ProcVirtualization"] == "Enabled"
    for name, vm in road.done["vms"].items():
        if not vm["vcls"]:
            assert (vm["cpus"], vm["memory_mb"], vm["memory_reservation_mb"], vm["latency"], vm["power"], len(vm["devices"])) == (
                44, 147456, 147456, "high", "on", 2), name
            assert vm["cpu_reservation_mhz"] >= 44 * 2992


def test_the_service_network_was_left_alone(road):
    for name, host in road.done["hosts"].items():
        before = road.untouched["hosts"][name]
        assert host["vswitch"] == before["vswitch"] and host["vmk_uplinks"] == before["vmk_uplinks"]
        other = [c for c in host["cards"] if c["psid"] != "MT_0000000008"]
        assert other == [c for c in before["cards"] if c["psid"] != "MT_0000000008"]


def test_ssh_is_as_it_was_found(road):
    for name, host in road.done["hosts"].items():
        assert host["services"]["TSM-SSH"] == road.untouched["hosts"][name]["services"]["TSM-SSH"]


def test_every_port_and_every_pair_is_proven(road):
    report = road.first.file("report.json")
    assert sum(port["state"] == "ACTIVE" for port in report["ports"]) == 8
    pairs = report["verdict"]["pairs"]
    for fabric in ("ib", "roce"):
        mine = [p for p in pairs if p["fabric"] == fabric]
        assert len(mine) == 6 and all(p["send_bw"]["value"] > 90 and p["send_lat"]["value"] < 5 for p in mine)
    assert report["source"] == "simulated"
    assert "source: simulated" in (road.first.directory / "report.html").read_text()


def test_no_host_was_ever_busy_twice(road):
    """From the lab's own journal: no guest runs two measurements at a time, over both fabrics together."""
    running: dict[str, int] = {}
    seen = 0
    for entry in road.journal:
        if entry["face"] == "guest" and entry["what"] in ("perftest start", "perftest end"):
            seen += 1
            running[entry["host"]] = running.get(entry["host"], 0) + (1 if entry["what"] == "perftest start" else -1)
            assert running[entry["host"]] <= 1, entry
    assert seen >= 2 * 2 * 2 * 6 * 2  # start and end, of both ends, of two tests, of six pairs, on two fabrics


def test_firmware_was_never_burned_from_a_guest(road):
    assert not [e for e in road.journal if "firmware" in str(e["what"]) and e["face"] == "guest"]


def test_the_machine_that_ran_it_is_untouched(road):
    changed = {key for key in set(road.machine_before) | set(road.machine_after) if road.machine_before.get(key) != road.machine_after.get(key)}
    assert changed == set()
