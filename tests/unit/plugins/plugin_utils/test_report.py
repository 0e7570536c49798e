# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from jsonschema import Draft202012Validator

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, verdict
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.plugin_utils import charts, paper, report, report_files, report_page

HOSTS = ["vm01", "vm02", "vm03"]


def bw(scale=1.0):
    return [[size, value, value * scale, 1.0] for size, value in zip(paper.SIZES, paper.CURVES["ib", "send_bw"]["values"])]


def lat(scale=1.0):
    return [[size, v * scale, v * scale, v * scale, v * scale, 0.1, v, v] for size, v in zip(paper.SIZES, paper.CURVES["ib", "send_lat"]["values"])]


def hostvars(slow=1.0):
    items = [dict(fabric=fabric, test=test, server=a, client=b, error=None,
                  rows=(lat if test == "send_lat" else bw)(slow if "vm03" in (a, b) and test == "send_bw" else 1.0))
             for fabric in ("ib", "roce") for test in ("send_bw", "send_lat") for a, b in (("vm01", "vm02"), ("vm02", "vm03"), ("vm03", "vm01"))]
    judged = verdict.assess(items, HOSTS, {h: {"ib": 100, "roce": 100} for h in HOSTS}, limits.resolve(), ["ib", "roce"], ["send_bw", "send_lat"])
    changes = Changes("esxi")
    changes.add("card <b>0000:3b:00.0</b>", "LINK_TYPE_P1", "ETH(2)", "IB(1)", reboot="host")
    reboot = Changes("vsphere")
    reboot.add("host esxi01", "reboot", "up", "rebooted")
    out = {h: {"verify_mesh_result": {"results": [i for i in items if i["client"] == h]}, "guest_wait_result": {"changed": False},
               "guest_info_result": {"ports": [{"role": "ib", "state": "ACTIVE"}, {"role": "roce", "state": "ACTIVE"}], "kernel": "4.18.0"}} for h in HOSTS}
    out["vm01"]["verify_verdict_result"] = judged
    out["esxi01"] = {"esxi_firmware_result": changes.result(card={"psid": "MT_0000000008", "bdf": "0000:3b:00.0", "firmware": "16.32.1010"}),
                     "vsphere_reboot_result": reboot.result(reasons=["card: LINK_TYPE_P1"])}
    out["esxi02"] = {"esxi_info_result": {"failed": True, "msg": "Cannot choose the card on esxi02: PSID differs."}}
    return out


def made(source="simulated", slow=1.0, pictures=False):
    variables = hostvars(slow)
    data = report.gather(variables, ["esxi01", "esxi02"] + HOSTS, "A title & more", source, "2026-01-01 00:00 UTC")
    return data, report_page.html(data, pictures)


class Balanced(HTMLParser):
    """Raises when a tag is closed that is not open."""

    VOID = {"meta", "br"}
    FETCHES = ("src", "srcset", "poster", "data", "action", "formaction", "background")

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.fetched, self.tags = [], [], [], set()

    def seen(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in self.FETCHES or (name.endswith("href") and not value.startswith(("#", "data:"))):
                self.fetched.append((tag, name, value))

    def handle_startendtag(self, tag, attrs):
        self.seen(tag, attrs)

    def handle_starttag(self, tag, attrs):
        self.seen(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


@pytest.mark.parametrize("pictures", [True, False])
def test_the_page_is_whole_and_fetches_nothing(pictures):
    dummy, html = made(slow=0.5, pictures=pictures)
    parser = Balanced()
    parser.feed(html)
    assert parser.open == [] and parser.fetched == [] and not parser.tags & {"script", "link", "iframe", "object", "embed", "base"}
    assert not re.search(r"url\((?!#)|@import|https?:", html)
    assert len(parser.ids) == len(set(parser.ids)), "an id stands twice"
    links = set(re.findall(r'href="#([^"]+)"', html)) | set(re.findall(r"url\(#([^)]+)\)", html))
    assert links and links <= set(parser.ids), links - set(parser.ids)


def test_without_charts_the_page_says_so_and_keeps_the_figures():
    with_charts, without = (made(pictures=pictures)[1] for pictures in (True, False))
    assert with_charts.count("<svg") == 4 + 4 and "matplotlib 3.6 or newer is not installed" not in with_charts
    assert "<svg" not in without and without.count(charts.MISSING) == 1
    for html in (with_charts, without):
        assert html.count('class="matrix"') == 4 and "96.18" in html and "the paper" in html


@pytest.mark.parametrize("broken", ["matplotlib", "numpy"])
def test_a_controller_without_matplotlib_gets_its_page(broken, tmp_path):
    data = tmp_path / "data.json"
    data.write_text(json.dumps(made()[0], default=str))
    program = ("import json, sys\nsys.modules[%r] = None\nfrom ansible_collections.vhpc.rdma.plugins.plugin_utils import charts, report_page\n"
               "html = report_page.html(json.load(open(sys.argv[1])))\n"
               "assert '<svg' not in html and charts.MISSING in html\nassert not charts.available()\n" % broken)
    top = pathlib.Path(report.__file__).parents[5]
    subprocess.run([sys.executable, "-c", program, str(data)], check=True, env=dict(os.environ, PYTHONPATH=os.pathsep.join([str(top)] + sys.path)))


def test_a_simulated_run_says_so_at_the_top_and_in_every_csv_line():
    data, html = made()
    assert html.index('class="banner"') < html.index('class="verdict')
    assert "source: simulated" in html
    for text in (report_files.pairs_csv(data), report_files.curves_csv(data)):
        rows = list(csv.DictReader(io.StringIO(text)))
        assert rows and {row["source"] for row in rows} == {"simulated"}


def test_a_measured_run_has_no_banner():
    assert 'class="banner"' not in made("measured")[1]


def test_what_users_wrote_is_escaped():
    html = made()[1]
    assert "<b>0000:3b:00.0</b>" not in html and "A title &amp; more" in html


def test_pairs_and_values_stand_in_the_csv():
    data, dummy = made()
    rows = list(csv.DictReader(io.StringIO(report_files.pairs_csv(data))))
    assert len(rows) == 6
    assert {float(row["send_bw_Gbps"]) for row in rows} == {96.18}
    assert {float(row["send_lat_us"]) for row in rows} == {1.07}


def test_the_curve_is_the_median_of_the_pairs_beside_the_paper():
    data, dummy = made(slow=0.5)
    curve = next(c for c in data["curves"] if (c["fabric"], c["test"]) == ("ib", "send_bw"))
    top = curve["sizes"].index(8388608)
    assert curve["pairs"] == 3 and curve["paper"]["figure"] == 17
    assert curve["median"][top] == pytest.approx(96.21 * 0.5) and curve["high"][top] == 96.21


def test_figures_of_software_ports_are_no_zeros_and_stand_alone():
    data, html = made("soft-roce", slow=0.00004, pictures=True)
    assert "say nothing about hardware" in html and "the paper, Figure" not in html and all(curve["paper"] is None for curve in data["curves"])
    # 96.18 Gb/s in 25,000ths; what is large enough for two digits behind the point has them.
    assert html.count("0.0038") > 4 and "0.00 Gb/s" not in html and "0.00</td>" not in html and "1.07" in html


def test_failures_and_blame_are_on_the_page():
    data, html = made(slow=0.5)
    assert "PSID differs" in html
    assert data["verdict"]["summary"]["failed"] == 4
    assert any("vm03" in entry["names"] for entry in data["verdict"]["blame"]) and data["verdict"]["blame"][0]["text"] in html


def test_reboots_and_their_reasons_are_on_the_page():
    data, html = made()
    assert data["reboots"] == {"esxi01": [["card: LINK_TYPE_P1"]]}
    assert "card: LINK_TYPE_P1" in html


def test_the_report_is_about_the_hosts_of_the_run_and_those_that_fell_out_of_it():
    variables = dict(hostvars(), esxi09={}, vm09={"vhpc_host": "esxi09"}, switch={})
    known = ["esxi01", "esxi02", "esxi09", "vm09", "switch"] + HOSTS
    hosts = report.subjects(variables, known, {"vm09"})
    assert hosts == ["esxi01", "esxi02", "vm09"] + HOSTS
    data = report.gather(variables, hosts, "t", "measured", "now", {"vm09", "esxi02"})
    assert "PSID differs" in data["failures"]["esxi02"][0]["msg"] and len(data["failures"]["esxi02"]) == 1
    assert "vm09 left the play" in data["failures"]["vm09"][0]["msg"]
    assert {row["host"] for row in data["versions"] if row["kind"] == "guest"} == {"vm09"} | set(HOSTS)


def test_a_verdict_that_fails_is_no_failure_of_every_host():
    variables = hostvars(0.5)
    judged = dict(variables["vm01"]["verify_verdict_result"], failed=True, msg="Cannot prove the fabric: much is wrong.")
    for host in HOSTS:  # a task that runs once registers its result everywhere, and its failure takes every host out of the play
        variables[host]["verify_verdict_result"] = judged
    data = report.gather(variables, HOSTS, "t", "measured", "now", set(HOSTS))
    assert data["failures"] == {} and data["stops"] == []
    assert report.lead(data) == ("fail", "4 of 12 measurements are not as they must be. Nothing was changed.")
    assert not any("left the play" in row["text"] for row in data["reasons"])


@pytest.mark.parametrize("name, stage", [("verify_verdict_result", "verify"), ("benchmark_result", "benchmark")])
def test_a_stage_that_could_not_be_done_for_anybody_is_told_once(name, stage):
    failed = {"failed": True, "msg": "Cannot do it: there is no such limit."}
    variables = {host: {name: failed, "guest_info_result": {"kernel": "4.18"}} for host in HOSTS}
    data = report.gather(variables, HOSTS, "t", "measured", "now", set(HOSTS))
    assert data["stops"] == [{"stage": stage, "msg": failed["msg"]}] and data["failures"] == {} and problems(data) == []
    assert [row["text"] for row in data["reasons"]] == ["%s: %s" % (stage, failed["msg"])] and report.state(data) == "fail"
    assert report_page.html(data, False).count("there is no such limit") == 1 and report_files.junit(data).count("<failure") == 1


def test_guests_that_were_only_measured_are_guests():
    variables = {"vm01": {"verify_mesh_result": {"results": []}}}
    assert [row["kind"] for row in report.gather(variables, ["vm01"], "t", "measured", "now")["versions"]] == ["guest"]


def test_a_run_without_measurements_still_gives_a_page():
    data = report.gather({"esxi01": {}}, ["esxi01"], "t", "measured", "now")
    assert "Nothing: everything was as wanted." in report_page.html(data)
    assert report_files.pairs_csv(data).count("\n") == 1


def test_the_papers_own_figures_keep_its_dip():
    values = dict(zip(paper.SIZES, paper.CURVES["roce", "send_bw"]["values"]))
    assert values[524288] == 89.98 and min(v for s, v in values.items() if s >= 65536) == 89.98


def test_the_first_sentence_is_the_one_that_counts():
    good, slow = made()[0], made(slow=0.5)[0]
    for data in (good, slow):
        assert "esxi02 did not get to the end" in report.lead(data)[1] and report.lead(data)[0] == "fail"
        data["failures"], data["reasons"] = {}, [row for row in data["reasons"] if row["what"] != "host"]
    assert report.lead(good)[0] in ("pass", "warn") and "All 12 measurements are within their limits" in report.lead(good)[1]
    assert report.lead(slow)[0] == "fail" and "4 of 12 measurements are not as they must be" in report.lead(slow)[1]
    assert "Nothing was measured in this run. Nothing was changed." == report.lead(report.gather({"a": {}}, ["a"], "t", "measured", "now"))[1]
    assert report.lead(good)[1] in report_page.html(good)


# ---- what stands first ----------------------------------------------------------------------------------------------------

def noisy_hostvars(repeats=3):
    """Six guests, three repeats each; vm06 scatters."""
    hosts = ["vm%02d" % number for number in range(1, 7)]
    items = []
    for place, one in enumerate(hosts):
        for two in hosts[:place]:
            for repeat in range(1, repeats + 1):
                scale = [0.88, 1.0, 1.12][repeat - 1] if "vm06" in (one, two) else 1.0 + repeat / 1000.0
                items.append(dict(fabric="ib", test="send_bw", server=two, client=one, error=None, repeat=repeat, rows=bw(scale)))
    judged = verdict.assess(items, hosts, {h: {"ib": 100} for h in hosts}, limits.resolve(), ["ib"], ["send_bw"])
    out = {h: {"verify_mesh_result": {"results": [i for i in items if h in (i["client"], i["server"])]}} for h in hosts}
    out["vm01"]["verify_verdict_result"] = judged
    return out, hosts


def test_verdict_worst_pairs_and_reasons_come_before_everything_else():
    data, html = made(slow=0.5)
    first = html[:html.index('id="failures"')]
    for text in ("Failed", "48.09 Gb/s", "49.4 % below the limit", "esxi02", "PSID differs", data["verdict"]["blame"][0]["text"]):
        assert text in first, text
    assert [row["status"] for row in data["worst"]] == ["fail", "fail", "pass", "pass"] and "vm03" in (data["worst"][0]["server"], data["worst"][0]["client"])
    assert [row["severity"] for row in data["reasons"]] == sorted((row["severity"] for row in data["reasons"]))


def test_no_state_is_told_by_colour_alone():
    dummy, html = made(slow=0.5)
    text = re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    for state in re.findall(r'<span class="(\w+) nowrap">([^<]*)</span>', text):
        assert state[1].strip().split(" ", 1)[1] in ("passed", "warning", "failed"), state
    assert re.search(r'<td class="fail">48\.09 \u2715</td>', text) and re.search(r'class="verdict fail"><b>\u2715 Failed</b>', text)


def test_scatter_repeats_and_severity_are_told():
    variables, hosts = noisy_hostvars()
    data = report.gather(variables, hosts, "t", "measured", "now")
    html = report_page.html(data, False)
    assert [entry["host"] for entry in data["verdict"]["noisy"]] == ["vm06"] and "vm06 scatters by" in html
    assert any(row["what"] == "noise" and row["severity"] == "warn" for row in data["reasons"])
    assert {one["repeats"]["n"] for one in data["verdict"]["verdicts"]} == {3} and "3 per pair, cv 0.1 %" in html
    curve = data["curves"][0]
    assert curve["pairs"] == 15  # both ends told of it, and it counts once
    assert curve["low"][-1] == pytest.approx(96.21 * 0.88) and curve["high"][-1] == pytest.approx(96.21 * 1.12)


def test_benchmarks_are_part_of_the_report():
    run = dict(benchmark="mbw_mr", nodes=2, ppn=44, processes=88, fabric="ib", unit="MB/s", direction="higher", seconds=1.5, command="mpirun -x TOKEN=s3cret")
    statistics = dict(n=2, min=11900.0, max=12100.0, mean=12000.0, median=12000.0, deviation=141.4, mad=100.0, cv=1.2, marks=[], values=[11900.0, 12100.0])
    done = dict(mpi=dict(family="openmpi", version="4.1.2", mpirun="/x"), backend="osu", device="mlx5_0:1", left_out=[4],
                tables={"mbw_mr.ib": {"unit": "MB/s"}},
                runs=[dict(run, repeat=1, success=True, value=11900.0, error=""), dict(run, repeat=2, success=False, value=None, error="return code 1")],
                summary=[dict(benchmark="mbw_mr", nodes=2, ppn=44, processes=88, runs=2, successful=1, unit="MB/s", direction="higher", statistics=statistics,
                              sizes=[dict(size=size, statistics=statistics) for size in (1, 8)])])
    cell = dict(nodes=2, efficiency=100.0, efficiency_interval=[100.0, 100.0])
    study = dict(tables={"mbw_mr.ib": {"direction": "higher", "nodes": [2, 4], "baseline": "BM.48", "formulas": {}, "configs": {
        "BM.48": {"processes": 48, "gauge": None, "gauge_paper": None, "cells": [dict(cell, value=13000.0), None]},
        "VM.44": {"processes": 44, "gauge": 8.33, "gauge_paper": 8.33, "cells": [dict(
            cell, value=12000.0, delta=7.69, delta_interval=[7.0, 8.4], against_gauge="within as printed, undecided by rounding"), None]}}}},
        claims=[], over_the_gauge=[])
    variables = {"vm01": {"benchmark_result": done, "benchmark_study_result": study}, "vm02": {"benchmark_result": done, "benchmark_study_result": study}}
    assert report.subjects(variables, ["vm01", "vm02"], set()) == ["vm01", "vm02"]
    data = report.gather(variables, ["vm01", "vm02"], "t", "measured", "now")
    assert report.lead(data) == ("fail", "1 of 2 benchmark runs succeeded. Nothing was changed.")
    html = report_page.html(data, True)
    for text in ("return code 1", "openmpi", "within the gauge of 8.33 %", "7.69", "delta to BM.48", "mbw_mr, 44 processes per node"):
        assert text in html, text
    assert html.count("<svg") == 1 + 3 and "s3cret" not in html and "s3cret" not in json.dumps(data)
    row = next(csv.DictReader(io.StringIO(report_files.benchmarks_csv(data))))
    assert (row["benchmark"], row["successful"], float(row["median"]), float(row["mad"])) == ("mbw_mr", "1", 12000.0, 100.0)
    assert problems(data) == []


def test_what_cluster_checker_says_stands_beside_the_blame():
    variables, hosts = noisy_hostvars()
    issue = dict(category="NETWORK", text="The InfiniBand rate of node vm06 is too low.", id="ib-rate", severity="90", nodes=["vm06"], pairs=[], remedy="",
                 hosts=["vm06"])
    variables["vm01"]["verify_verdict_result"]["cluster_checker"] = dict(version="2021.7", result="x", status="issues", counts={}, issues=[issue])
    data = report.gather(variables, hosts, "t", "measured", "now")
    assert "Intel Cluster Checker: The InfiniBand rate of node vm06 is too low. (vm06)" in report_page.html(data, False) and problems(data) == []
    # It stands there and changes no verdict.
    data["reasons"] = [row for row in data["reasons"] if row["what"] == "checker"]
    data["verdict"]["summary"]["warned"] = 0
    assert data["reasons"] and report.state(data) == "pass"


def test_bare_metal_is_not_called_a_guest():
    metal = {"kernel": "5.14", "ports": [{"state": "ACTIVE"}], "machine": {"virtual": False, "cpu": "x"}}
    variables = {"node1": {"guest_info_result": metal}, "node2": {"guest_info_result": dict(metal, kernel="6.1")}}
    data = report.gather(variables, ["node1", "node2"], "t", "measured", "now")
    html = report_page.html(data, False)
    assert "guest" not in re.sub(r"<style>.*?</style>", "", html.lower(), flags=re.S) and "kernel is not the same on all machines" in html
    assert "ESXi host" not in html and "bare metal" in html


# ---- testbed and fleet ------------------------------------------------------------------------------------------------------

def fleet_hostvars():
    variables = {}
    for number in (1, 2, 3):
        variables["esxi%02d" % number] = {"esxi_info_result": {"version": "7.0.2", "build": 17630552, "card": {
            "psid": "MT_0000000008", "bdf": "0000:3b:00.0", "firmware": "16.32.1010" if number != 2 else "16.30.1004"}},
            "bios_result": {"model": "PowerEdge C6420", "bios_version": "2.12.2"}}
        variables["vm%02d" % number] = {"vhpc_host": "esxi%02d" % number, "guest_info_result": {
            "kernel": "4.18.0-147.el8.x86_64", "ports": [{"state": "ACTIVE", "firmware": "16.32.1010", "psid": "MT_0000000008"}],
            "machine": {"cpu": "Xeon Gold 6248R", "cores": 44, "memory": "144 GiB", "virtual": True, "bios": "VMW71", "model": "VMware7,1", "os": "RHEL 8.1",
                        "ucx": "1.12.0"}}}
    return variables


def test_the_odd_one_out_is_marked_by_sign_and_said_in_words():
    variables = fleet_hostvars()
    data = report.gather(variables, sorted(variables), "t", "measured", "now")
    assert data["fleet"]["esxi"]["odd"] == {"esxi02": ["firmware"]} and data["fleet"]["esxi"]["usual"]["firmware"] == "16.32.1010"
    assert data["fleet"]["guest"]["odd"] == {}
    html = report_page.html(data, False)
    cell = re.search(r'<tr><td>esxi02</td>(.*?)</tr>', html, re.S).group(1)
    assert re.search(r'class="odd">\s*&ne; 16\.30\.1004', cell) and html.count('class="odd"') == 1
    assert "firmware is not the same on all ESXi hosts: 16.30.1004 on esxi02; 16.32.1010 on the others" in html
    variables["esxi02"]["esxi_info_result"]["card"]["firmware"] = "16.32.1010"
    assert report.gather(variables, sorted(variables), "t", "measured", "now")["reasons"] == []


def test_of_two_that_differ_both_are_told():
    rows = [dict.fromkeys(report.ALIKE["esxi"], "") | {"host": host, "kind": "esxi", "build": build} for host, build in (("a", "1"), ("b", "2"))]
    found = report.fleet(rows)["esxi"]
    assert found["odd"] == {"a": ["build"], "b": ["build"]} and found["columns"] == ["build"]


def test_the_testbed_shows_bare_metal_beside_the_vms():
    variables = fleet_hostvars()
    machine = {"cpu": "Xeon Gold 6248R", "cores": 48, "virtual": False, "bios": "2.12.2", "model": "PowerEdge C6420"}
    variables["node1"] = {"guest_info_result": dict(variables["vm01"]["guest_info_result"], machine=machine)}
    data = report.gather(variables, sorted(variables), "t", "measured", "now")
    metal, vms = data["testbed"]
    assert (metal["name"], metal["hosts"], vms["name"], vms["hosts"]) == ("bare metal", 1, "virtual machines", 3)
    # What a VM calls its BIOS is the hypervisor's: the host's counts.
    assert vms["properties"]["BIOS"] == [{"value": "2.12.2", "hosts": 3}] and vms["properties"]["machine"][0]["value"] == "PowerEdge C6420"
    assert metal["properties"]["cores"] == [{"value": "48", "hosts": 1}] and metal["properties"]["ESXi"] == []
    alone = report.gather({"node1": variables["node1"]}, ["node1"], "t", "measured", "2026-01-01")
    vms_only = {host: entry for host, entry in variables.items() if host != "node1"}
    both = report.gather(vms_only, sorted(vms_only), "t", "measured", "now", bare_metal=alone)
    assert [column["name"] for column in both["testbed"]] == ["bare metal (2026-01-01)", "virtual machines"]
    assert problems(both) == []


# ---- the published form -----------------------------------------------------------------------------------------------------

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[4] / "docs" / "report.schema.json").read_text())


def problems(data):
    Draft202012Validator.check_schema(SCHEMA)
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(json.loads(json.dumps(data, default=str)))]


@pytest.mark.parametrize("slow", [1.0, 0.5])
def test_report_json_is_as_its_schema_says(slow):
    assert problems(made(slow=slow)[0]) == []
    assert problems(report.gather({"a": {}}, ["a"], "t", "measured", "now")) == []
    variables, hosts = noisy_hostvars()
    assert problems(report.gather(variables, hosts, "t", "measured", "now")) == []


@pytest.mark.parametrize("damage, word", [
    (lambda data: data.update(format=2), "1 was expected"), (lambda data: data.pop("worst"), "worst"), (lambda data: data.update(extra=1), "extra"),
    (lambda data: data["verdict"]["verdicts"][0].update(status="good"), "good"), (lambda data: data["verdict"]["verdicts"][0].update(value="96"), "96"),
    (lambda data: data["versions"][0].pop("host"), "host"), (lambda data: data["curves"][0]["median"].append("x"), "x"),
    (lambda data: data["reasons"][0].update(severity="bad"), "bad"), (lambda data: data["reboots"].update(a="b"), "b")])
def test_a_broken_field_is_refused(damage, word):
    data = json.loads(json.dumps(made(slow=0.5)[0], default=str))
    damage(data)
    found = problems(data)
    assert found and word in " ".join(found), found


def test_a_big_fleet_stays_a_page():
    hosts = ["n%03d" % number for number in range(70)]
    items = [dict(fabric="ib", test="send_bw", server=two, client=one, error=None, rows=[[65536, 97.0, 80.0 if hosts[7] in (one, two) else 97.0, 1.0]])
             for place, one in enumerate(hosts) for two in hosts[:place]]
    judged = verdict.assess(items, hosts, {h: {"ib": 100} for h in hosts}, limits.resolve(), ["ib"], ["send_bw"])
    variables = {h: {"verify_mesh_result": {"results": []}} for h in hosts}
    variables["n000"]["verify_verdict_result"] = judged
    data = report.gather(variables, hosts, "t", "measured", "now")
    html = report_page.html(data, True)
    assert len(html) < 300000 and "n007 is bad with 69 of its 69 partners" in html and 'class="matrix"' not in html
    assert re.search(r"By host, the worst first.*?<td>n007</td>", html, re.S) and "data:image/png" in html
