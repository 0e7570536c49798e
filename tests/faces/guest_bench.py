# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of the lab's guests stand on: a few booted guests, and their programs run as an Ansible module would."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from lab.guest.__main__ import free_network, start


class Bench:
    def __init__(self, directory: Path, hosts: int = 2, ofed: bool = True) -> None:
        self.directory = directory
        self.world, self.face, self.inventory = start(hosts, directory, free_network(), ofed)
        self.vms = [vm for vm in self.world.vms.values() if not vm.vcls]

    def stop(self) -> None:
        self.face.stop()

    def root(self, number: int) -> Path:
        return Path(self.vms[number - 1].guest.root)

    def popen(self, number: int, script: str) -> subprocess.Popen:
        """A script in a guest, without SSH: its programs and its environment."""
        root = str(self.root(number))
        env = {"PATH": ":".join(root + part for part in ("/usr/sbin", "/usr/bin")), "HOME": root + "/root", "LC_ALL": "C"}
        return subprocess.Popen(["/bin/sh", "-c", script], cwd=root + "/root", env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, number: int, script: str) -> tuple[int, str, str]:
        process = self.popen(number, script)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def ssh(self, number: int, *words: str, text: str | None = None, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        """OpenSSH into a guest."""
        guest = self.vms[number - 1].guest
        return subprocess.run(["ssh", "-F", "/dev/null", "-i", str(self.directory / "id_ed25519"),
                               "-o", "UserKnownHostsFile=%s" % (self.directory / "known_hosts"),
                               "-o", "GlobalKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", *options,
                               "-p", str(guest.port), "root@" + guest.address, *words], input=text, text=True, capture_output=True, timeout=30, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.directory)})

    def wait(self, what, seconds: float = 5) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "it did not happen within %g seconds" % seconds
            time.sleep(0.02)

    def pair(self, test: str, server: str, client: str = "", ends: tuple[int, int] = (1, 2)) -> tuple[subprocess.CompletedProcess, subprocess.CompletedProcess]:
        """A perftest run: options of the server and of the client (default: the same), on two guests; (server, client)."""
        one, two = ends
        background = self.popen(one, "exec %s %s" % (test, server))
        guest = self.vms[one - 1].guest
        self.wait(lambda: guest.extra.get("listening") or background.poll() is not None)
        code, out, err = self.run(two, "%s %s %s" % (test, client or server, self.vms[one - 1].name))
        try:
            done = background.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            background.kill()
            done = background.communicate()
        return (subprocess.CompletedProcess([], background.returncode, *done), subprocess.CompletedProcess([], code, out, err))
