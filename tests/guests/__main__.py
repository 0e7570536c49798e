# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m guests build | up | stop | test: the guests at a prompt, and the tests on them."""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from lab.runner import collections

from . import image as images
from . import lab as labs

PLACE = images.BUILD / "run"


def up(place: Path, count: int, flavour: str, installed: bool) -> int:
    place.mkdir(parents=True, exist_ok=True)
    stop(place, quiet=True)
    (place / "parent").write_text("%d\n" % os.getpid())
    lab = labs.Lab(place, count, flavour, installed=labs.installed() if installed else None)
    signal.signal(signal.SIGTERM, lambda *dummy: sys.exit(0))
    try:
        seconds = lab.start()
        print("%d guests, Linux %s, %s, ready after %.1f s" % (count, lab.image.version, flavour, seconds))
        print("Inventory: %s" % lab.inventory)
        for guest in lab.guests:
            print("%s: %s" % (guest.name, shlex.join(["ssh", "-p", str(guest.port)] + lab.ssh_options() + ["root@127.0.0.1"])))
        print("They stay until Ctrl-C or make guests-stop.", flush=True)
        while all(guest.process and guest.process.poll() is None for guest in lab.guests):
            time.sleep(0.5)
        print("A guest has ended.")
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        lab.stop()
        (place / "parent").unlink(missing_ok=True)


def stop(place: Path, quiet: bool = False) -> int:
    """End the one that keeps guests up, and with it the guests."""
    note = place / "parent"
    try:
        pid = int(note.read_text())
        if pid != os.getpid() and b"guests" in Path("/proc/%d/cmdline" % pid).read_bytes():
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + 30
            while note.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            print("Stopped.")
    except (OSError, ValueError):
        if not quiet:
            print("No guests are up.")
    labs.reap(place)
    return 0


def test(words: list[str]) -> int:
    """pytest on two pairs of guests. The images are made before, so that a cold run is told apart from a warm one."""
    image = images.image()
    images.check(images.FABRIC, "The simulated fabric needs")
    labs.installed()
    started = time.monotonic()
    lock = open(images.BUILD / "test.lock", "wb")  # pylint: disable=consider-using-with  # held until we end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise images.Missing("The guest tests run already in this checkout.") from None
    base = images.TOP / "build" / "test" / "tmp-guests"
    base.parent.mkdir(parents=True, exist_ok=True)
    for place in [*base.glob("site*/guests"), *base.glob("popen-*/site*/guests")]:
        labs.reap(place)
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(collections()), str(images.TOP / "tests")]))
    paths = [] if any(word.startswith("tests/") for word in words) else ["tests/guests", "-n", "2", "--dist", "loadscope"]
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "--durations=8", "--capture=sys", "--basetemp", str(base), *words, *paths]
    code = subprocess.call(command, cwd=images.TOP, env=env, preexec_fn=labs.die_with_parent)
    print("Guest tests: %s after %.0f s, Linux %s, image cached" % ("passed" if code == 0 else "FAILED", time.monotonic() - started, image.version))
    return code


def main() -> int:
    parser = argparse.ArgumentParser(prog="guests", description=__doc__)
    parser.add_argument("what", choices=["build", "up", "stop", "test"])
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--flavour", choices=["systemd", "plain"], default="systemd")
    parser.add_argument("--installed", action="store_true", help="RDMA's packages are on the guests already")
    parser.add_argument("--directory", type=Path, default=PLACE, help="where the guests of up and stop have their disks and the inventory")
    words, more = parser.parse_known_args()
    if more and words.what != "test":
        parser.error("unknown: %s" % " ".join(more))
    try:
        if words.what == "build":
            print(images.image().directory)
            return 0
        if words.what == "test":
            return test(more)
        return up(words.directory.resolve(), words.count, words.flavour, words.installed) if words.what == "up" else stop(words.directory.resolve())
    except (images.Missing, labs.GuestError) as err:
        print(err, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
