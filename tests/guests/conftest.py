# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two real guests for the whole session, and the roles as a user runs them."""

from __future__ import annotations

import concurrent.futures
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from guests import lab as labs
from lab.runner import TOP, environment

VARIABLES = "@%s" % (Path(__file__).resolve().parent / "site_vars.yml")


# What walks the road shares two guests; all else has two of its own, at the same time: emulated guests wait more than they work.
ROAD = ("test_road", "test_failures", "test_info")


class ByGuests(LoadScopeScheduling):
    """Tests that share guests go to one worker, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return "road" if Path(nodeid.split("::")[0]).stem in ROAD else "apart"


def pytest_xdist_make_scheduler(config, log):
    return ByGuests(config, log)


class Run:
    """What one run of ansible-playbook came to."""

    def __init__(self, code: int, log: str, summary: dict, directory: Path, seconds: float) -> None:
        self.code, self.log, self.summary, self.directory, self.seconds = code, log, summary, directory, seconds

    def file(self, name: str):
        return json.loads((self.directory / name).read_text())

    @property
    def changed(self) -> int:
        return self.summary["changed_results"]

    @property
    def messages(self) -> str:
        return " ".join(str(failure.get("msg")) for failure in self.summary.get("failures", []))


class Site:
    """The guests, and playbooks and modules against them."""

    def __init__(self, directory: Path, installed: Path | None = None) -> None:
        self.directory = directory
        self.lab = labs.Lab(directory / "guests", 2, "systemd", say=say, installed=installed)
        self.sockets = tempfile.mkdtemp(prefix="vhpc-")
        self.env = environment(directory, 2, self.sockets)
        self.boot_seconds = self.lab.start()
        self.runs = 0

    @property
    def guests(self) -> list[labs.Guest]:
        return self.lab.guests

    def stop(self) -> None:
        self.lab.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def play(self, playbook: str, *words: str, timeout: float = 1200, **variables) -> Run:
        """playbook: the text of one, or a file's name below playbooks/."""
        self.runs += 1
        name = "%02d" % self.runs
        path = TOP / "playbooks" / playbook
        if "\n" in playbook:
            path = self.directory / (name + ".yml")
            path.write_text(playbook)
        place, summary, log = (self.directory / (name + end) for end in ("", ".summary.json", ".log"))
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.lab.inventory), str(path), "-e", VARIABLES, "-e",
                   json.dumps(dict(variables, vhpc_run_dir=str(place), fabric_directory="")), *words]
        started = time.monotonic()
        with open(log, "w", encoding="utf-8") as out:
            code = subprocess.run(command, cwd=self.directory, env=dict(self.env, VHPC_RDMA_SUMMARY=str(summary)), stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, timeout=timeout, check=False).returncode
        seconds = time.monotonic() - started
        say("run %s: %s %s, %.0f s" % (name, path.name, " ".join(words), seconds))
        return Run(code, log.read_text(), json.loads(summary.read_text()) if summary.exists() else {}, place, seconds)

    def modules(self, *calls: tuple[str, bool, dict], guests: list[labs.Guest] | None = None) -> list[dict]:
        """Modules one after another, each (name, whether in check mode, options): host -> result of each."""
        out = self.directory / "results"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        tasks: list[dict] = []
        for number, (name, check, options) in enumerate(calls):
            tasks += [{"vhpc.rdma." + name: options, "register": "found", "ignore_errors": True, "check_mode": check},
                      {"ansible.builtin.copy": {"content": "{{ found | to_json }}", "dest": "%s/%d.{{ inventory_hostname }}" % (out, number), "mode": "0600"},
                       "delegate_to": "localhost", "check_mode": False,
                       "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}]
        play = [{"hosts": ",".join(guest.name for guest in guests) if guests else "guests", "gather_facts": False, "tasks": tasks}]
        run = self.play(json.dumps(play, indent=1))
        found: list[dict] = [{} for dummy in calls]
        for path in out.iterdir():
            number, host = path.name.split(".", 1)
            found[int(number)][host] = json.loads(path.read_text())
        assert all(found), run.log
        return found

    def module(self, name: str, guest: labs.Guest | None = None, check: bool = False, **options):
        """One module on one guest, or on both: host -> its result."""
        found = self.modules((name, check, options), guests=[guest] if guest else None)[0]
        return found[guest.name] if guest else found

    def reboot(self) -> None:
        """All at once."""
        with concurrent.futures.ThreadPoolExecutor(len(self.guests)) as pool:
            list(pool.map(lambda guest: guest.reboot(), self.guests))


STAGES = ("--tags", "guest,fabric,verify,report")


def say(text: str) -> None:
    print(text, file=sys.__stderr__, flush=True)


def booted(directory: Path, installed: Path | None = None):
    made = Site(directory, installed)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Guests as the distribution installs them."""
    yield from booted(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Guests that have RDMA's packages."""
    yield from booted(tmp_path_factory.mktemp("site"), labs.installed(say))


@pytest.fixture(scope="session")
def road(site):
    """The road of the guests as a user walks it: the plan, the run, the run again, a reboot of all guests, the run once more."""
    short = {"verify_tests": ["send_bw"], "verify_size": 65536}
    runs = {"plan": site.play("site.yml", "--check", *STAGES), "first": site.play("site.yml", *STAGES, **short)}
    if runs["first"].code == 0:
        runs["second"] = site.play("site.yml", *STAGES, **short)
        site.reboot()
        runs["third"] = site.play("site.yml", *STAGES)
    return runs
