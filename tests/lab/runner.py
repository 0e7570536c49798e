# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs ansible-playbook against a lab: settings that stay below one directory, a line per task while it goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from .lab import Lab

TOP = Path(__file__).resolve().parents[2]


def collections() -> Path:
    """A collections path where this checkout is vhpc.rdma."""
    link = TOP / "build" / "collections" / "ansible_collections" / "vhpc" / "rdma"
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(TOP)
    return TOP / "build" / "collections"


def environment(directory: Path, forks: int, sockets: str) -> dict[str, str]:
    """Ansible's settings for a run that neither reads the user's configuration nor writes outside build/."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("ANSIBLE_") and not name.lower().endswith("_proxy") and not name.startswith("VMWARE_")}
    config = directory / "ansible.cfg"
    config.write_text(f"""[defaults]
collections_path = {collections()}
home = {directory}/ansible-home
local_tmp = {directory}/ansible-home/tmp
callbacks_enabled = vhpc.rdma.summary
forks = {forks}
timeout = 60
host_key_checking = true
retry_files_enabled = false
deprecation_warnings = false
interpreter_python = auto_silent
nocows = true
[ssh_connection]
pipelining = true
control_path_dir = {sockets}
ssh_args = -F /dev/null -o ControlMaster=auto -o ControlPersist=120s -o IdentitiesOnly=yes
""")
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled plugins lie below build/: every worker would compile them again
    env.update(ANSIBLE_CONFIG=str(config), ANSIBLE_FORCE_COLOR="0", PYTHONPYCACHEPREFIX=str(TOP / "build" / "cache" / "pycache"), LC_ALL="C.UTF-8")
    return env


def play(name: str, playbook: str, lab: Lab, env: dict[str, str], extra: list[str], quiet: bool = False) -> tuple[int, float, dict]:
    """One ansible-playbook run with a line per task; returns (exit code, seconds, the callback's summary)."""
    directory = lab.directory.parent
    journal, summary, log = (directory / ("%s.%s" % (name, end)) for end in ("jsonl", "summary.json", "log"))
    for path in (journal, summary):
        path.unlink(missing_ok=True)
    env = dict(env, VHPC_RDMA_JOURNAL=str(journal), VHPC_RDMA_SUMMARY=str(summary))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(lab.inventory), playbook] + extra
    started = time.monotonic()
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, cwd=directory, env=env, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            progress = Progress(journal, quiet)
            while process.poll() is None:
                progress.follow()
                time.sleep(0.1)
            progress.follow()
            progress.close()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(20)
    seconds = time.monotonic() - started
    try:
        found = json.loads(summary.read_text())
    except FileNotFoundError:
        found = {}
        print("%s stopped before its end; the last lines of %s:" % (name, log))
        print("".join(log.read_text().splitlines(keepends=True)[-30:]))
    return process.returncode, seconds, found


class Progress:
    """Follows the journal and prints one line per task: how many hosts did what, how long it took."""

    def __init__(self, journal: Path, quiet: bool) -> None:
        self.journal, self.quiet = journal, quiet
        self.handle = None
        self.task: dict | None = None
        self.count: dict[str, int] = {}
        self.last = 0.0

    def follow(self) -> None:
        if self.handle is None:
            if not self.journal.exists():
                return
            self.handle = open(self.journal, encoding="utf-8")
        for line in self.handle:
            event = json.loads(line)
            if event["event"] == "task":
                self.close()
                self.task, self.count, self.last = event, {}, event["at"]
            elif event["event"] == "result":
                kind = "changed" if event["changed"] else event["status"]
                self.count[kind] = self.count.get(kind, 0) + 1
                self.last = event["at"]

    def close(self) -> None:
        if self.task and self.count and not self.quiet:
            print("  %-8s %-56s %6.1f s  %s" % (self.task["stage"], self.task["task"].split(" : ")[-1][:56], self.last - self.task["at"],
                                                ", ".join("%d %s" % (count, kind) for kind, count in self.count.items())), flush=True)
        self.task = None
