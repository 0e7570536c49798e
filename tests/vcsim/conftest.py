# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A vCenter, and an ESXi host, by govmomi's simulator: built once from Debian's library, gone with the tests."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

from lab.vsphere.__main__ import certificate  # noqa: E402
from lab.vsphere.rig import Modules  # noqa: E402
from lacking import GOPATH, lacking  # noqa: E402

BUILD = HERE.parents[1] / "build" / "vcsim"
PASSWORD = "for the simulator alone"


class Simulator(Modules):
    """One simulator."""

    def __init__(self, program: pathlib.Path, directory: pathlib.Path, *words: str) -> None:
        cert, key = certificate(str(directory))
        self.process = subprocess.Popen([program, "-cert", cert, "-key", key, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, VCSIM_PASSWORD=PASSWORD))
        where = self.process.stdout.readline().strip()
        assert where, "the simulator did not start"
        self.login = dict(hostname="127.0.0.1", port=int(where.rsplit(":", 1)[-1]), username="operator", password=PASSWORD, ca_file=cert)

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(20)


@pytest.fixture(scope="session")
def program() -> pathlib.Path:
    why = lacking()
    if why:
        pytest.skip(why)
    BUILD.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["go", "build", "-o", str(BUILD / "vcsim"), str(HERE / "main.go")], capture_output=True, text=True, timeout=600, check=False,
                          env=dict(os.environ, GOPATH=str(GOPATH), GO111MODULE="off", GOFLAGS="", GOCACHE=str(BUILD / "cache")))
    assert done.returncode == 0, done.stderr
    return BUILD / "vcsim"


def started(program, tmp_path, *words):
    made = Simulator(program, tmp_path, *words)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture()
def vcenter(program, tmp_path):
    yield from started(program, tmp_path, "-hosts", "3")


@pytest.fixture()
def esxi(program, tmp_path):
    yield from started(program, tmp_path, "-esx")
