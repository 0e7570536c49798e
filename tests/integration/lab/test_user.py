# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What a user does who has only the tarball: another directory, other group names, a site.yml of his own, one stage at a time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lab.harness import Site, differences
from lab.runner import TOP

SITE = """
- name: Ours
  ansible.builtin.import_playbook: vhpc.rdma.site
  vars:
    vhpc_esxi_group: hypervisors
    vhpc_guest_group: nodes
    vhpc_run_dir: evidence
    vhpc_guest_timeout: 60
"""


class User:
    def __init__(self, directory: Path) -> None:
        self.home = directory / "a user's directory"
        self.home.mkdir()
        self.site = Site(directory, 2)
        self.world = self.site.world
        inventory = yaml.safe_load(self.site.lab.inventory.read_text())
        groups = inventory["all"]["children"]
        inventory["all"]["children"] = {"hypervisors": groups["esxi"], "nodes": groups["guests"]}
        (self.home / "hosts.yml").write_text(yaml.safe_dump(inventory))
        (self.home / "site.yml").write_text(SITE)
        self.collections = directory / "collections"
        self.env = {name: value for name, value in self.site.env.items() if name != "PYTHONPATH"}
        self.env["ANSIBLE_COLLECTIONS_PATH"] = str(self.collections)
        self.program("ansible-galaxy", "collection", "build", str(TOP), "--output-path", str(directory))
        self.program("ansible-galaxy", "collection", "install", "--offline", "-p", str(self.collections), *map(str, directory.glob("vhpc-rdma-*.tar.gz")))
        self.installed = self.files()

    def program(self, name: str, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(Path(sys.executable).parent / name), *words], cwd=self.home, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=name != "ansible-playbook", timeout=300)

    def play(self, *words: str) -> tuple[int, str, dict]:
        """(exit code, log, summary) of ansible-playbook site.yml, or of the playbook that the words name."""
        summary = self.home / "summary.json"
        summary.unlink(missing_ok=True)
        self.env["VHPC_RDMA_SUMMARY"] = str(summary)
        playbook = [] if words and words[0].startswith("vhpc.rdma.") else ["site.yml"]
        done = self.program("ansible-playbook", "-i", "hosts.yml", *playbook, *words)
        return done.returncode, done.stdout, json.loads(summary.read_text()) if summary.exists() else {}

    def files(self) -> set[str]:
        return {os.path.join(top, name) for top, dummy, names in os.walk(self.collections) for name in names}


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    made = User(tmp_path_factory.mktemp("user"))
    yield made
    made.site.stop()


def test_the_tarball_installs_offline_and_is_the_one_that_runs(user):
    assert (user.collections / "ansible_collections" / "vhpc" / "rdma" / "playbooks" / "site.yml").exists()


def test_the_plan_by_name_with_own_group_names(user):
    before = user.world.dump()
    code, log, dummy = user.play("vhpc.rdma.plan", "-e", "vhpc_esxi_group=hypervisors", "-e", "vhpc_guest_group=nodes", "-e", "vhpc_run_dir=evidence")
    assert code == 0, log[-3000:]
    assert differences(before, user.world.dump()) == []
    assert json.loads((user.home / "evidence" / "plan.json").read_text())["reboots"] == {"esxi01": 2, "esxi02": 1}


def test_one_stage_at_a_time_reaches_the_same_end(user):
    """Every stage alone, in order; the esxi stage makes its settings current itself, as no other stage of the run will."""
    for tags in ("esxi", "bios,vsphere", "guest"):
        code, log, summary = user.play("--tags", tags)
        assert code == 0 and not summary["failures"], log[-3000:]
    assert {name: host.cards[1].link_type(1) for name, host in user.world.hosts.items()} == {"esxi01": 1, "esxi02": 1}
    assert not (user.home / "evidence" / "report.html").exists()
    code, log, summary = user.play("--tags", "fabric,verify,report")
    assert code == 0, log[-3000:]
    assert json.loads((user.home / "evidence" / "report.json").read_text())["verdict"]["summary"]["failed"] == 0


def test_the_report_alone_leaves_the_evidence_of_an_earlier_run(user):
    before = (user.home / "evidence" / "report.html").read_bytes()
    code, log, dummy = user.play("--tags", "report")
    assert code == 0 and "nothing to report" in log
    assert (user.home / "evidence" / "report.html").read_bytes() == before


def test_a_limit_touches_only_its_hosts(user):
    """A stranger's change on the second host stays; the report is about the first alone."""
    user.world.hosts["esxi02"].power_policy = 2
    seen = len(user.world.journal)
    code, log, summary = user.play("--limit", "esxi01,vm01", "-e", "vhpc_serial=1")
    assert code == 0 and summary["changed_results"] == 0, log[-3000:]
    assert user.world.hosts["esxi02"].power_policy == 2
    assert {entry["host"] for entry in user.world.journal[seen:]} & {"esxi02", "vm02"} == set()
    report = json.loads((user.home / "evidence" / "report.json").read_text())
    assert report["hosts"] == ["esxi01", "vm01"]


def test_batches_of_one_put_it_right_and_change_nothing_else(user):
    code, log, summary = user.play("-e", "vhpc_serial=1")
    assert code == 0, log[-3000:]
    assert summary["changed_hosts"] == ["esxi02"] and summary["changed_results"] == 1
    assert user.world.hosts["esxi02"].power_policy == 1


def test_nothing_was_written_into_the_installed_collection(user):
    assert user.files() == user.installed
    assert {path.name for path in user.home.iterdir()} <= {"hosts.yml", "site.yml", "evidence", "summary.json", "build"}
    assert (user.home / "evidence" / "roce-switch.os10.txt").exists()
