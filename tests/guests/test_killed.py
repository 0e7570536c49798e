# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guests end with what started them, however that ends, and each has a disk of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from guests import lab as labs

START = "import sys, pathlib; from guests import lab; made = lab.Lab(pathlib.Path(sys.argv[1]), 1, 'plain'); made.start(); print('up'); sys.stdin.read()"


def machines(directory: Path) -> list[int]:
    """QEMUs that have a file below the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(b"qemu") and any(os.fsencode(directory) in word for word in words):
            found.append(int(path.parent.name))
    return found


def until(condition, seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_guest_outlives_its_parent(tmp_path, number):
    with subprocess.Popen([sys.executable, "-c", START, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as parent:
        try:
            assert until(lambda: machines(tmp_path))
            parent.send_signal(number)
            parent.wait()
            assert until(lambda: not machines(tmp_path), 20)
        finally:
            parent.kill()
    labs.reap(tmp_path)
    assert not list(tmp_path.glob("*.pid"))


def test_a_guest_that_lost_its_parent_is_ended_at_the_next_start(tmp_path):
    # What a QEMU looks like whose parent died before it could ask to die with it.
    with subprocess.Popen(["qemu-system-x86_64", "-M", "none", "-display", "none", "-S", "-name", str(tmp_path)], stdin=subprocess.DEVNULL) as lost:
        try:
            (tmp_path / "guest-01.pid").write_text("%d\n" % lost.pid)
            assert until(lambda: machines(tmp_path))
            labs.reap(tmp_path)
            assert until(lambda: lost.poll() is not None, 20)
        finally:
            lost.kill()
