# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What integration tests stand on: a lab in a directory of its own, and playbooks against it with their outcome."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Callable, Sequence

from . import site as sites
from .lab import Lab
from .runner import TOP, environment, play
from .world import World


class Site:
    """A lab and the playbooks against it; everything lies below one directory."""

    def __init__(self, directory: Path, hosts: int | Sequence[int] = 2, prepare: Callable[[World], None] | None = None) -> None:
        """hosts: as lab.site.build takes it; prepare changes the world before anything listens."""
        self.directory = directory
        self.sockets = tempfile.mkdtemp(prefix="vhpc-")  # a socket's path is at most 107 bytes long
        self.lab = Lab(directory / "lab", world=sites.build(hosts))
        self.world = self.lab.world
        if prepare:
            prepare(self.world)
        for host in self.world.hosts.values():
            host.boot_seconds = 0.5
        self.world.guest_boot_seconds = 0.2
        self.lab.start()
        self.env = environment(directory, max(len(self.world.hosts), 4), self.sockets)
        self.runs = 0

    def stop(self) -> None:
        self.lab.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def run(self, playbook: str, *extra: str) -> "Outcome":
        """playbook: a file below playbooks/, or a path. All runs share one run directory, as a user's do; each outcome keeps a copy."""
        self.runs += 1
        name = "%02d-%s" % (self.runs, Path(playbook).stem)
        target = self.directory / "run"
        for old in target.glob("*.*"):
            old.unlink()
        path = TOP / "playbooks" / playbook
        words = ["-e", "vhpc_run_dir=%s" % target, "-e", "fabric_directory=%s" % (self.directory / "switch"),
                 "-e", json.dumps(TIMEOUTS)] + list(extra)
        code, seconds, summary = play(name, str(path if path.exists() else playbook), self.lab, self.env, words, quiet=True)
        kept = self.directory / name
        shutil.copytree(target, kept) if target.exists() else kept.mkdir()
        return Outcome(code, seconds, summary, kept, (self.directory / (name + ".log")).read_text())


# Long enough for a slow machine, short enough for a test of a host that never comes back.
TIMEOUTS = {"vhpc_reboot_timeout": 60, "vhpc_guest_timeout": 60}


class Outcome:
    def __init__(self, code: int, seconds: float, summary: dict, directory: Path, log: str) -> None:
        self.code, self.seconds, self.summary, self.directory, self.log = code, seconds, summary, directory, log

    def file(self, name: str) -> dict:
        return json.loads((self.directory / name).read_text())

    @property
    def failed(self) -> dict[str, str]:
        """host: message of its first failure."""
        out: dict[str, str] = {}
        for failure in self.summary.get("failures", []):
            out.setdefault(failure["host"], failure["msg"] or "")
        return out


def differences(before, after, path: str = "") -> list[str]:
    """Where two dumps of the world differ: path: before -> after."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [line for key in sorted(set(before) | set(after)) for line in differences(before.get(key), after.get(key), "%s/%s" % (path, key))]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [line for number, pair in enumerate(zip(before, after)) for line in differences(pair[0], pair[1], "%s/%d" % (path, number))]
    return [] if before == after else ["%s: %r -> %r" % (path, before, after)]
