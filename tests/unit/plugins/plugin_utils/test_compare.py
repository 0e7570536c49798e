# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two runs against each other: what is told apart from noise, and what comes first."""

from __future__ import annotations

import json
import random
import re

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, schedule, verdict
from ansible_collections.vhpc.rdma.plugins.plugin_utils import compare, report, report_page

HOSTS = ["vm%02d" % number for number in range(1, 9)]


def run(seed=1, scale=None, repeats=3, scatter=0.002, dead=(), hosts=None, versions=None, failed=()):
    """A report of a fleet; scale: pair of names -> factor."""
    chance, hosts = random.Random(seed), hosts or HOSTS
    items = []
    for number, server, client in schedule.pairs(hosts):
        for test, top in (("send_bw", 96.2), ("send_lat", 1.1)):
            for repeat in range(1, repeats + 1):
                value = top * (scale or {}).get(frozenset((server, client)), {}).get(test, 1.0) * (1 + chance.gauss(0, scatter))
                item = dict(fabric="ib", test=test, server=server, client=client, round=number, repeat=repeat, error=None, by="client",
                            rows=[[65536, value, value, 1.0]] if test == "send_bw" else [[8, value, value, value, value, 0.1, value, value]])
                if {server, client} in [set(pair) for pair in dead]:
                    item.update(rows=[], error=dict(cause="hung", text="%s did not answer" % server, hint="look at it"))
                items.append(item)
    judged = verdict.assess(items, hosts, {h: {"ib": 100} for h in hosts}, limits.resolve(), ["ib"], ["send_bw", "send_lat"])
    variables = {host: {"guest_info_result": {"kernel": (versions or {}).get(host, "4.18.0-147")}, "verify_verdict_result": judged if host == hosts[0] else {}}
                 for host in hosts}
    for host in failed:
        variables[host]["guest_ofed_result"] = {"failed": True, "msg": "Cannot install OFED on %s: disk full." % host}
    return json.loads(json.dumps(report.gather(variables, hosts, "Run %d" % seed, "measured", "day %d" % seed), default=str))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scatter, repeats", [(0.0, 3), (0.002, 3), (0.002, 1), (0.0005, 5)])
def test_two_runs_of_the_same_fleet_are_the_same(seed, scatter, repeats):
    found = compare.compare(run(seed, scatter=scatter, repeats=repeats), run(seed + 100, scatter=scatter, repeats=repeats))
    assert (found["worse"], found["better"], found["newly_failed"], found["new_failures"]) == ([], [], [], [])
    assert found["compared"] == found["within_noise"] == 2 * 28 and found["verdict"]["status"] == "pass"


@pytest.mark.parametrize("repeats", [1, 3])
def test_one_pair_that_got_slower_is_the_only_one_named(repeats):
    slow = {frozenset(("vm02", "vm05")): {"send_bw": 0.9}}
    found = compare.compare(run(1, repeats=repeats), run(2, slow, repeats=repeats))
    assert [(row["what"], row["test"]) for row in found["worse"]] == [("vm02 and vm05", "send_bw")] and found["better"] == []
    assert found["worse"][0]["worse_percent"] == pytest.approx(10, abs=1.5) and [row["what"] for row in found["newly_failed"]] == ["vm02 and vm05"]
    assert found["verdict"]["status"] == "fail" and found["verdict"]["text"].startswith("1 new failure.")
    back = compare.compare(run(2, slow, repeats=repeats), run(1, repeats=repeats))
    assert [row["what"] for row in back["better"]] == [row["what"] for row in back["no_longer_failed"]] == ["vm02 and vm05"]
    assert back["verdict"]["status"] == "pass" and "1 failure of before is gone" in back["verdict"]["text"]


def test_a_latency_that_rose_is_worse_and_one_that_fell_is_better():
    pair = frozenset(("vm01", "vm02"))
    found = compare.compare(run(1), run(2, {pair: {"send_lat": 1.3}}))
    assert [(row["test"], row["change"]) for row in found["worse"]] == [("send_lat", "worse")]
    assert [row["test"] for row in compare.compare(run(1), run(2, {pair: {"send_lat": 0.8}}))["better"]] == ["send_lat"]


def test_a_pair_that_scatters_has_room_to_scatter():
    """5 % less is a change for a quiet pair, and nothing for one whose repeats lie 5 % apart."""
    pair = frozenset(("vm03", "vm04"))

    def noisy(data, values):
        for one in data["verdict"]["verdicts"]:
            if {one["server"], one["client"]} == set(pair) and one["test"] == "send_bw":
                one.update(value=values[1], repeats=dict(one["repeats"], values=values, mad=abs(values[1] - values[0])))
        return data

    before, after = noisy(run(1), [91.0, 96.0, 101.0]), noisy(run(2), [86.2, 91.2, 96.2])
    assert compare.compare(before, after)["worse"] == []
    quiet = noisy(run(1), [95.9, 96.0, 96.1]), noisy(run(2), [91.1, 91.2, 91.3])
    assert [row["what"] for row in compare.compare(*quiet)["worse"]] == ["vm03 and vm04"]


def test_what_changed_for_everybody_is_said_of_the_fleet():
    everyone = {frozenset(names): {"send_bw": 0.985} for dummy, *names in schedule.pairs(HOSTS)}
    found = compare.compare(run(1, repeats=1, scatter=0.01), run(2, everyone, repeats=1, scatter=0.01))
    fleet = {row["test"]: row["change"] for row in found["fleet"]}
    assert fleet == {"send_bw": "worse", "send_lat": "same"} and len(found["worse"]) < 5 and found["verdict"]["status"] != "pass"


def test_new_failures_come_first_and_what_else_changed_is_there():
    before = run(1, failed=["vm06", "vm07"])
    found = compare.compare(before, run(2, dead=[("vm01", "vm02")], failed=["vm03", "vm06"], versions={"vm04": "5.14.0", "vm05": "5.14.0"}))
    assert [row["host"] for row in found["new_failures"]] == ["vm03"] and found["fixed"] == ["vm07"] and found["still_failing"] == ["vm06"]
    assert {(row["what"], row["after"]) for row in found["newly_failed"]} == {("vm01 and vm02", None)}
    assert found["versions"] == [{"what": "kernel", "before": "4.18.0-147", "after": "5.14.0", "hosts": ["vm04", "vm05"]}]
    html = report_page.comparison(found)
    places = [html.index(text) for text in ("3 new failures", "disk full", "<h2>Worse", "<h2>Better", "<h2>The fleet", "5.14.0")]
    assert places == sorted(places) and not re.search(r"https?:|<script", html)


def test_hosts_that_are_in_one_report_only_are_named_and_not_judged():
    found = compare.compare(run(1), run(2, hosts=HOSTS[:6] + ["vm99"]))
    assert found["hosts_gone"] == ["vm07", "vm08"] and found["hosts_new"] == ["vm99"]
    assert found["compared"] == 2 * 15 and "ib send_bw vm01 and vm07" in found["only_before"] and "ib send_lat vm01 and vm99" in found["only_after"]
    assert found["verdict"]["status"] == "pass"


def test_benchmarks_are_compared_by_their_repeats():
    def with_benchmark(median, mad, direction="higher", successful=5):
        data = run(1, hosts=HOSTS[:2])
        data["benchmark"] = {"summary": [dict(benchmark="gromacs", nodes=4, ppn=44, processes=176, unit="ns/day", direction=direction, runs=5,
                                              successful=successful, sizes=[], statistics=dict(n=5, median=median, mad=mad))]}
        return data

    def changes(one, two):
        found = compare.compare(one, two)
        return [row["test"] for row in found["worse"]], [row["test"] for row in found["better"]], [row["test"] for row in found["newly_failed"]]

    assert changes(with_benchmark(30.0, 0.1), with_benchmark(27.0, 0.1)) == (["gromacs"], [], [])
    assert changes(with_benchmark(30.0, 3.0), with_benchmark(27.0, 3.0)) == ([], [], [])
    assert changes(with_benchmark(30.0, 0.1, "lower"), with_benchmark(27.0, 0.1, "lower")) == ([], ["gromacs"], [])
    assert changes(with_benchmark(30.0, 0.1), with_benchmark(30.0, 0.1, successful=4)) == ([], [], ["gromacs"])


def test_reports_without_a_figure_in_common_say_so():
    empty = json.loads(json.dumps(report.gather({"a": {}}, ["a"], "t", "measured", "now")))
    found = compare.compare(empty, empty)
    assert found["verdict"] == {"status": "none", "text": "No figure is in both reports."} and "None." in report_page.comparison(found)


def test_the_last_digit_that_perftest_prints_is_no_change():
    def at(latency):
        data = run(1, hosts=HOSTS[:2])
        for one in data["verdict"]["verdicts"]:
            if one["test"] == "send_lat":
                one.update(value=latency, repeats=None)
        return data

    def changes(old, new):
        return [row["change"] for row in compare.compare(at(old), at(new))["fleet"] if row["test"] == "send_lat"]

    assert changes(0.93, 0.94) == changes(0.94, 0.93) == ["same"]
    assert (changes(0.93, 0.95), changes(0.95, 0.93)) == (["worse"], ["better"])


def test_a_stage_that_stopped_and_what_fails_in_both_are_not_passed_over():
    well, stopped = run(1), dict(run(2), stops=[{"stage": "benchmark", "msg": "mpirun died"}])
    found = compare.compare(well, stopped)
    assert found["verdict"]["status"] == "fail" and found["new_failures"] == [{"host": "all hosts", "stage": "benchmark", "msg": "mpirun died"}]
    assert "mpirun died" in report_page.comparison(found)
    assert compare.compare(stopped, stopped)["verdict"]["status"] == "warn"
    dead = [("vm01", "vm02")]
    found = compare.compare(run(1, dead=dead), run(2, dead=dead))
    assert found["failed_in_both"] == 2 and found["verdict"]["status"] == "warn" and "2 figures failed in both" in found["verdict"]["text"]
