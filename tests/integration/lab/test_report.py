# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The evidence as a run leaves it: held against its schema, read by others' readers, compared, without secrets, and there even when every host failed."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from junitparser import JUnitXml

from lab.harness import Site

TOP = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((TOP / "docs" / "report.schema.json").read_text())


def problems(data):
    return ["%s: %s" % ("/".join(map(str, error.path)), error.message) for error in Draft202012Validator(SCHEMA).iter_errors(data)]


def secrets_of(site):
    """Every password of the inventory."""
    found = set()

    def walk(value, name=""):
        if isinstance(value, dict):
            for key, entry in value.items():
                walk(entry, str(key))
        elif isinstance(value, list):
            for entry in value:
                walk(entry, name)
        elif re.search("pass", name) and isinstance(value, str) and "{" not in value and len(value) > 3:
            found.add(value)

    walk(yaml.safe_load(site.lab.inventory.read_text()))
    return found


class Runs:
    def __init__(self, directory: Path) -> None:
        self.site = Site(directory, [4, 8])
        try:
            self.first = self.site.run("site.yml", "-e", "report_title='First <run>' some_password=Wr0ng-Secret")
            self.kept = directory / "first.json"
            shutil.copy(self.first.directory / "report.json", self.kept)
            self.second = self.site.run("verify.yml", "-e", "report_before=%s" % self.kept, "-e", "report_bare_metal=%s" % self.kept)
            self.third = self.site.run("benchmark.yml", "-e", json.dumps({
                "benchmark_benchmarks": ["mbw_mr", "latency"], "benchmark_nodes": [2], "benchmark_ppn": [2], "benchmark_repeats": 2,
                "benchmark_sizes": [8, 65536]}))
            self.fourth = self.site.run("verify.yml", "-e", json.dumps({"verify_limits": {"bandwidth_percent": 99.9}, "report_before": str(self.kept)}))
            self.secrets = secrets_of(self.site)
        finally:
            self.site.stop()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("report"))


def test_the_report_of_a_run_is_as_its_schema_says(runs):
    assert runs.first.code == 0, runs.first.log[-3000:]
    data = runs.first.file("report.json")
    assert problems(data) == []
    data["verdict"]["verdicts"][0]["status"] = "fine"
    assert any("fine" in problem for problem in problems(data))


def test_it_says_how_to_repeat_the_run_and_keeps_secrets_to_itself(runs):
    about = runs.first.file("report.json")["about"]
    assert about["command"].startswith("ansible-playbook -i ") and "some_password=***" in about["command"] and "First <run>" in about["command"]
    assert len(about["inventory_sha256"]) == 64 and about["inventory"] == [str(runs.site.lab.inventory)] and about["collection"]
    assert runs.secrets
    for path in [one for run in (runs.first, runs.second) for one in run.directory.rglob("*") if one.is_file()]:
        text = path.read_text(errors="replace")
        for secret in runs.secrets | {"Wr0ng-Secret"}:
            assert secret not in text, path


def test_a_ci_system_finds_every_host_stage_and_pair(runs):
    read = JUnitXml.fromstring((runs.first.directory / "junit.xml").read_bytes())
    names = {(suite.name, case.name) for suite in read for case in suite}
    assert read.failures == 0 and {("esxi", "esxi04"), ("esxi", "esxi08"), ("guest", "vm04"), ("guest", "vm08")} <= names, names
    assert len([name for name in names if name[0].startswith("verify.")]) == 4
    log = (runs.first.directory / "perflogs" / "send_bw_ib.log").read_text().splitlines()
    assert len(log) == 2 and log[1].startswith("pass|") and log[1].endswith("|simulated")


def test_versions_are_there_for_the_testbed_and_the_fleet(runs):
    data = runs.first.file("report.json")
    testbed = {key: [entry["value"] for entry in values] for key, values in data["testbed"][0]["properties"].items()}
    read = ("CPU", "cores", "memory", "machine", "BIOS", "ESXi", "OS", "kernel", "firmware", "driver", "OFED")
    assert data["testbed"][0]["name"] == "virtual machines" and all(testbed[key] for key in read), testbed
    assert {"build", "driver", "firmware", "BIOS"} <= set(data["fleet"]["esxi"]["columns"]) and data["fleet"]["esxi"]["odd"] == {}


def test_a_run_is_compared_with_the_one_before(runs):
    assert runs.second.code == 0, runs.second.log[-3000:]
    found = runs.second.file("comparison.json")
    assert found["compared"] == 4 and found["newly_failed"] == [] and found["before"]["title"] == "First <run>" and found["hosts_gone"] == ["esxi04", "esxi08"]
    page = (runs.second.directory / "comparison.html").read_text()
    assert "First &lt;run&gt;" in page and "source: simulated" in page


def test_a_verdict_that_fails_is_a_new_failure_whatever_the_figure(runs):
    assert runs.fourth.code != 0
    data, found = runs.fourth.file("report.json"), runs.fourth.file("comparison.json")
    assert problems(data) == [] and [row["status"] for row in data["worst"]] == ["fail", "fail", "pass", "pass"]
    assert "below the limit" in data["worst"][0]["why"]
    assert {(row["fabric"], row["test"], row["change"]) for row in found["newly_failed"]} == {("ib", "send_bw", "same"), ("roce", "send_bw", "same")}
    assert found["verdict"]["text"].startswith("2 new failures.") and found["worse"] == [] and data["failures"] == {}
    assert JUnitXml.fromstring((runs.fourth.directory / "junit.xml").read_bytes()).failures == 2


def test_benchmarks_have_a_report_of_their_own(runs):
    assert runs.third.code == 0, runs.third.log[-3000:]
    data = json.loads((runs.third.directory / "benchmark" / "report.json").read_text())
    assert problems(data) == [] and data["hosts"] == ["vm04", "vm08"] and len(data["benchmark"]["runs"]) == 4
    assert {(row["benchmark"], row["nodes"], row["successful"]) for row in data["benchmark"]["summary"]} == {("mbw_mr", 2, 2), ("latency", 2, 2)}
    page = (runs.third.directory / "benchmark" / "report.html").read_text()
    assert "4 of 4 benchmark runs succeeded" in page and "mbw_mr, 2 processes per node" in page and page.count("<svg") >= 2
    assert not (runs.third.directory / "report.html").exists()  # that of the measurements is not written again
    read = JUnitXml.fromstring((runs.third.directory / "benchmark" / "junit.xml").read_bytes())
    assert read.tests == 4 and read.failures == 0


def test_compare_yml_takes_two_reports_and_refuses_what_is_none(runs, tmp_path):
    collections = tmp_path / "collections" / "ansible_collections" / "vhpc"
    collections.mkdir(parents=True)
    (collections / "rdma").symlink_to(TOP)

    def compare(before, after):
        words = ["ansible-playbook", "-i", "localhost,", str(TOP / "playbooks" / "compare.yml"), "-e",
                 json.dumps({"compare_before": str(before), "compare_after": str(after), "compare_directory": str(tmp_path / "out")})]
        done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False, cwd=tmp_path,
                              env=dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"), ANSIBLE_NOCOLOR="1", LC_ALL="C.UTF-8",
                                       ANSIBLE_HOME=str(tmp_path / "home")))
        return done.returncode, " ".join(done.stdout.split())

    code, text = compare(runs.kept, runs.second.directory / "report.json")
    assert code == 0 and (tmp_path / "out" / "comparison.html").exists() and "Of 4 figures" in text, text
    assert {one.name for one in (tmp_path / "out").iterdir()} == {"comparison.html", "comparison.json"}
    code, text = compare(runs.kept, tmp_path / "none.json")
    assert code != 0 and "none.json" in text and "No such file" in text
    (tmp_path / "old.json").write_text('{"title": "an old one"}')
    code, text = compare(tmp_path / "old.json", runs.kept)
    assert code != 0 and "no report.json of format 1" in text


# ---- every host fails --------------------------------------------------------------------------------------------------------

def wrong_cards(here):
    for name in here.world.hosts:
        here.world.set_fault("wrong_psid", name)


@pytest.mark.parametrize("prepare, words, said", [
    (wrong_cards, [], "MT_0000000008 fits no card"),
    (wrong_cards, ["-e", "vhpc_serial=1"], "MT_0000000008 fits no card"),
    (None, ["-e", "ansible_port=1"], "Cannot log in to the ESXi shell on esxi04"),
    (None, ["-e", '{"vhpc_vcenter": {"hostname": "127.0.0.1", "port": 1, "username": "u", "password": "Wr0ng-Secret"}}'], "refused")])
def test_when_every_esxi_host_fails_there_is_a_page_with_the_failures(site, prepare, words, said):
    here = site([4, 8])
    if prepare:
        prepare(here)
    run = here.run("site.yml", *words)
    assert run.code != 0, run.log[-3000:]
    data = run.file("report.json")
    first = data["hosts"][0]
    # With one host at a time Ansible stops after the first: the second was not begun.
    assert data["hosts"] == (["esxi04", "esxi08"] if "vhpc_serial=1" not in words else ["esxi04"])
    assert said in data["failures"][first][0]["msg"] and problems(data) == []
    page = (run.directory / "report.html").read_text()
    assert page.index("Failed</b>") < page.index(said.replace(" on esxi04", "")) < page.index("<nav") and "Wr0ng-Secret" not in page
    assert JUnitXml.fromstring((run.directory / "junit.xml").read_bytes()).failures == len(data["hosts"])


def test_where_a_host_is_left_the_report_is_written_once_and_at_the_end(site):
    here = site([4, 8])
    here.world.set_fault("wrong_psid", "esxi08")
    run = here.run("site.yml")
    assert run.code != 0 and "esxi08" in run.failed
    lines = [json.loads(line) for line in next(here.directory.glob("*site.jsonl")).read_text().splitlines()]
    reports = [line for line in lines if line["event"] == "result" and line["stage"] == "report"]
    assert [line["status"] for line in reports if line["status"] != "skipped"] == ["ok"]
    assert not [line for line in reports if line["host"].startswith("esxi")]
    data = run.file("report.json")
    assert set(data["hosts"]) >= {"esxi04", "esxi08", "vm04"} and "esxi08" in data["failures"] and "esxi04" not in data["failures"]
    assert here.world.vms["vm04"].power == "on"
