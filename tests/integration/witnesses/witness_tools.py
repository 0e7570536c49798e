# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gets the clients that nobody here wrote, unmodified, into build/witnesses/; says why when one cannot be had."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile
from typing import Any, Callable

import pytest

TOP = pathlib.Path(__file__).resolve().parents[3]
PLACE = TOP / "build" / "witnesses"
ANSIBLE = "ansible==12.3.0"  # brings community.vmware 5.10.0, vmware.vmware 2.6.0, community.general
COLLECTIONS = ("community/vmware", "vmware/vmware", "community/general")
# The older pyVmomi that users may have: the lab serves the newer one.
CONTROLLER = ("ansible-core==2.19.14", "pyvmomi==8.0.3.0.1", "requests==2.32.5", "jmespath==1.1.0")
ESXCLI = ("vmware-esxcli==9.1.0",)
LIBVIRT = ("libvirt-clients", "libvirt0")


_failed: dict[str, str] = {}


class Unavailable(Exception):
    """The tool cannot be had on this machine; the text says why."""


def need(get: Callable[[], Any]) -> Any:
    """The tool, or the test is skipped with the reason."""
    try:
        return get()
    except Unavailable as exc:
        pytest.skip("this witness cannot be had here: %s" % exc)


def once(name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """build/witnesses/NAME, made at the first use (by one process at a time); what failed is not tried again by the next test."""
    if name in _failed:
        raise Unavailable(_failed[name])
    PLACE.mkdir(parents=True, exist_ok=True)
    done, place = PLACE / (name + ".done"), PLACE / name
    with open(PLACE / (name + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            try:
                make(place)
            except Unavailable as exc:
                _failed[name] = str(exc)
                raise
            done.touch()
    return place


def run(*command: str | os.PathLike, cwd: os.PathLike | None = None, timeout: float = 600) -> str:
    try:
        done = subprocess.run([os.fspath(word) for word in command], cwd=cwd, timeout=timeout, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise Unavailable("%s: %s" % (command[0], exc)) from exc
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise Unavailable("%s failed: %s" % (" ".join(os.path.basename(os.fspath(word)) for word in command[:4]), said[-1] if said else "no reason given"))
    return done.stdout


def venv(name: str, requirements: tuple[str, ...]) -> pathlib.Path:
    def make(place: pathlib.Path) -> None:
        run(sys.executable, "-m", "venv", place)
        run(place / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements)
    return once(name, make)


def collections() -> pathlib.Path:
    """A collections path with the collections out of the ansible package, nothing else of it."""
    def make(place: pathlib.Path) -> None:
        run(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "-d", place, ANSIBLE)
        for wheel in place.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                wanted = tuple("ansible_collections/%s/" % one for one in COLLECTIONS)
                archive.extractall(place, [name for name in archive.namelist() if name.startswith(wanted)])
            wheel.unlink()
    return once("collections", make)


def controller() -> pathlib.Path:
    return venv("controller", CONTROLLER)


def esxcli() -> pathlib.Path:
    return venv("esxcli", ESXCLI) / "bin" / "esxcli"


def virsh() -> tuple[pathlib.Path, str]:
    """(program, library path) of Debian's packages, unpacked beside the system: nothing is installed."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise Unavailable("libvirt's client is taken from Debian's packages, and there is no apt-get here")

    def make(place: pathlib.Path) -> None:
        rules = ("--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances")
        needed = {line.strip() for line in run("apt-cache", "depends", *rules, *LIBVIRT).splitlines() if line.startswith("lib")}
        if not needed:
            raise Unavailable("apt knows no package libvirt-clients: apt-get update has not run")
        here = set(run("dpkg-query", "-W", "-f", "${Package}\n").split()) - set(LIBVIRT)
        run("apt-get", "download", "-q", *sorted(needed - here), cwd=place)
        for package in place.glob("*.deb"):
            run("dpkg", "-x", package, place)
            package.unlink()
    place = once("libvirt", make)
    libraries = sorted({str(path.parent) for path in place.rglob("lib*.so*")})
    return place / "usr" / "bin" / "virsh", ":".join(libraries)
