# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles guest and verify over SSH on guests alone: real modules, on the Python that VHPC_GUEST_PYTHON names."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab.guest import __main__ as alone
from lab.runner import environment

PLAY = """
- hosts: guests
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: vhpc.rdma.guest}
      tags: [guest]
    - ansible.builtin.import_role: {name: vhpc.rdma.verify}
      tags: [verify]
    - ansible.builtin.copy:
        content: "{{ vars | dict2items | selectattr('key', 'in', wanted) | items2dict | to_json }}"
        dest: "{{ out }}/{{ inventory_hostname }}.json"
        mode: "0600"
      vars:
        wanted: [guest_ofed_result, guest_link_result, guest_info_result, verify_start_result, verify_mesh_result, verify_verdict_result]
        ansible_connection: local
        ansible_python_interpreter: "{{ ansible_playbook_python }}"
      check_mode: false
      changed_when: false
      tags: [always]
"""


class Guests:
    """Booted guests with both ports attached, and playbooks against them."""

    def __init__(self, directory: Path, count: int, ofed: bool) -> None:
        self.directory = directory
        self.sockets = tempfile.mkdtemp(prefix="vhpc-")
        self.world, self.face, self.inventory = alone.start(count, directory, alone.free_network(), ofed)
        self.env = environment(directory, count, self.sockets)
        (directory / "play.yml").write_text(PLAY)

    def stop(self) -> None:
        self.face.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def run(self, *extra: str, **variables):
        """(return code, log, host -> registered results)."""
        out = self.directory / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        variables["out"] = str(out)
        if os.environ.get("VHPC_GUEST_PYTHON"):
            variables["ansible_python_interpreter"] = os.environ["VHPC_GUEST_PYTHON"]
        program = str(Path(sys.executable).parent / "ansible-playbook")
        command = [program, "-i", str(self.inventory), str(self.directory / "play.yml"), "-e", json.dumps(variables)]
        done = subprocess.run(command + list(extra), env=self.env, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        return done.returncode, done.stdout, {path.stem: json.loads(path.read_text()) for path in out.glob("*.json")}

    def files(self):
        """What lies in the guests' directories for good."""
        return {str(path): path.read_bytes() for vm in self.vms for path in (Path(vm.guest.root) / "etc").rglob("*") if path.is_file()}

    @property
    def vms(self):
        return [vm for vm in self.world.vms.values() if not vm.vcls]


@pytest.fixture()
def guests(tmp_path):
    made: list[Guests] = []

    def start(count: int = 2, ofed: bool = False) -> Guests:
        made.append(Guests(tmp_path, count, ofed))
        return made[-1]

    yield start
    for one in made:
        one.stop()


def changed(log: str) -> int:
    return sum(int(number) for number in re.findall(r"changed=(\d+)", log))


def test_a_virgin_guest_is_planned_set_measured_and_then_left_alone(guests):
    here = guests(3)
    before = here.files()
    code, log, planned = here.run("--check")
    assert code == 0, log[-3000:]
    assert here.files() == before and not any(vm.guest.ofed for vm in here.vms)
    assert planned["vm01"]["verify_verdict_result"]["summary"]["judged"] == 0 and "Nothing to judge" in planned["vm01"]["verify_verdict_result"]["msg"]
    code, log, done = here.run()
    assert code == 0, log[-3000:]
    for name, found in done.items():
        sure = [step for step in planned[name]["guest_ofed_result"]["changes"] if step["certainty"] == "sure"]
        assert sure == found["guest_ofed_result"]["changes"], name
        assert {(port["role"], port["state"]) for port in found["guest_info_result"]["ports"]} == {("ib", "ACTIVE"), ("roce", "ACTIVE")}
        assert found["guest_info_result"]["memlock"]["configured"] == "unlimited"
        assert found["verify_mesh_result"]["finished"] and not found["verify_mesh_result"]["changed"]
    judged = done["vm01"]["verify_verdict_result"]
    assert judged["summary"]["failed"] == 0 and {fabric: part["pairs"] for fabric, part in judged["summary"]["fabrics"].items()} == {"ib": 3, "roce": 3}
    dips = {(one["fabric"], warning["size"]) for one in judged["verdicts"] for warning in one["warnings"] if warning["kind"] == "dip"}
    assert dips <= {("roce", 524288)}
    runs = {found["verify_mesh_result"]["run_id"] for found in done.values()}
    code, log, again = here.run()
    assert code == 0 and changed(log) == 0, log[-3000:]
    assert len(runs) == 1 and {found["verify_mesh_result"]["run_id"] for found in again.values()} != runs, "a second run measures again"
    assert not [entry for entry in here.world.journal if "firmware" in str(entry["what"])], "firmware is never burned from a guest"


def test_nobody_is_busy_twice_over_both_fabrics(guests):
    here = guests(4, ofed=True)
    code, log, dummy = here.run()
    assert code == 0, log[-3000:]
    busy, measured = set(), 0
    for entry in here.world.journal:
        if entry["face"] == "guest" and entry["what"] == "perftest start":
            assert entry["host"] not in busy
            busy.add(entry["host"])
        elif entry["face"] == "guest" and entry["what"] == "perftest end":
            busy.discard(entry["host"])
            measured += 1
    assert measured == 6 * 4 * 2


def test_a_guest_that_does_not_answer_is_blamed_and_the_others_are_measured(guests):
    here = guests(3, ofed=True)
    code, log, dummy = here.run("--tags", "guest")
    assert code == 0, log[-3000:]
    words = ("--tags", "verify", "--limit", "vm01,vm02")
    options = dict(verify_hosts=["vm01", "vm02", "vm03"], verify_start_timeout=2)
    code, log, done = here.run(*words, verify_enforce=False, **options)
    assert code == 0, log[-3000:]
    items = [item for found in done.values() for item in found["verify_mesh_result"]["results"]]
    assert {item["error"]["cause"] if item["error"] else "" for item in items if "vm03" in (item["server"], item["client"])} == {"server-not-running"}
    assert len([item for item in items if not item["error"]]) == 4
    judged = done["vm01"]["verify_verdict_result"]
    assert judged["silent"] == ["vm03"] and {tuple(one["names"]) for one in judged["blame"]} == {("vm03",)}
    code, log, done = here.run(*words, **options)
    assert code != 0 and "vm03 is bad with 2 of its 2 partners" in log, log[-3000:]


def test_a_subnet_of_another_device_is_refused_before_anything_is_written(guests):
    here = guests(2, ofed=True)
    network = here.vms[0].guest.address.rsplit(".", 1)[0]
    before = here.files()
    code, log, dummy = here.run("--tags", "guest", guest_roce_address=network + ".99/24", guest_memlock="")
    assert code != 0 and "lies in the subnet of ens192" in log.replace("\n", " "), log[-3000:]
    assert {name for name in here.files() if "system-connections" in name} == {name for name in before if "system-connections" in name}


def test_a_port_without_subnet_manager_is_told_in_those_words(guests):
    here = guests(2, ofed=True)
    with here.world.lock:
        here.world.subnet_manager = False
    for vm in here.vms:
        here.face.loop.call_soon_threadsafe(here.face.refresh, vm)
    code, log, dummy = here.run("--tags", "guest", guest_link_timeout=1, guest_ib_address="")
    assert code != 0 and "no subnet manager has set it up" in log, log[-3000:]
