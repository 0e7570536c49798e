# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""rdma_info on a simulated InfiniBand fabric of 16 hosts: ibsim with the real opensm and the real management tools."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import guest as wrapper
from ansible_collections.vhpc.rdma.plugins.modules import rdma_info
from guests.lab import die_with_parent

HOSTS = ["guest-%02d" % number for number in range(1, 17)]
LIBRARY = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
TOOLS = {name: "/usr/sbin/" + name for name in ("sminfo", "ibstat", "iblinkinfo", "ibqueryerrors")}


def guid(number: int) -> str:
    return "ec0d9a0300b0%04x" % (number * 16)


def topology() -> str:
    switch = "7cfe9003000a0000"
    lines = ["vendid=0x2c9", "devid=0xcf08", "sysimgguid=0x" + switch, "switchguid=0x%s(%s)" % (switch, switch),
             'Switch\t36 "S-%s"\t\t# "ib-switch" enhanced port 0 lid 2 lmc 0' % switch]
    lines += ['[%d]\t"H-%s"[1](%s) \t\t# "%s mlx5_0" lid %d 4xEDR' % (n, guid(n), guid(n), HOSTS[n - 1], n + 2) for n in range(1, 17)]
    for n in range(1, 17):
        lines += ["", "vendid=0x2c9", "devid=0x1017", "sysimgguid=0x" + guid(n), "caguid=0x" + guid(n),
                  'Ca\t1 "H-%s"\t\t# "%s mlx5_0"' % (guid(n), HOSTS[n - 1]),
                  '[1](%s) \t"S-%s"[%d]\t\t# lid %d lmc 0 "ib-switch" lid 2 4xEDR' % (guid(n), switch, n, n + 2)]
    return "\n".join(lines) + "\n"


class Fabric:
    """A running ibsim; opensm on its first host when asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "net.topo").write_text(topology())
        self.log = open(directory / "ibsim.log", "wb")
        self.simulator = subprocess.Popen(["ibsim", "-s", "-N", "300", "-S", "60", "-P", "5000", str(directory / "net.topo")], cwd=directory,
                                          stdin=subprocess.PIPE, stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        self.manager = None
        deadline = time.monotonic() + 20
        while "State:" not in self.ask(1, "ibstat") and time.monotonic() < deadline:
            time.sleep(0.1)

    def environment(self, number: int) -> dict[str, str]:
        return dict(os.environ, SIM_HOST="H-" + guid(number), LD_PRELOAD=LIBRARY, PATH=os.environ["PATH"] + ":/usr/sbin")

    def ask(self, number: int, *command: str) -> str:
        done = subprocess.run(list(command), env=self.environment(number), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return done.stdout

    def tell(self, command: str) -> None:
        self.simulator.stdin.write(command.encode() + b"\n")
        self.simulator.stdin.flush()
        time.sleep(0.3)

    def start_manager(self) -> None:
        env = dict(self.environment(1), OSM_TMP_DIR=str(self.directory), OSM_CACHE_DIR=str(self.directory))
        self.manager = subprocess.Popen(["opensm", "-f", str(self.directory / "opensm.log"), "-e"], env=env, cwd=self.directory, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        self.settle(lambda: "SMINFO_MASTER" in self.ask(1, "sminfo") and "Active" in self.ask(16, "ibstat"))

    def sweep(self) -> None:
        self.manager.send_signal(signal.SIGHUP)

    @staticmethod
    def settle(condition) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def info(self, number: int, **options):
        """rdma_info as that host would run it."""
        tree = self.directory / "root" / HOSTS[number - 1]
        if not tree.exists():
            for name in ("etc", "usr/sbin", "tmp", "sys/class"):
                (tree / name).mkdir(parents=True)
            (tree / "etc/hostname").write_text(HOSTS[number - 1] + "\n")
            for name, path in TOOLS.items():
                program = tree / "usr/sbin" / name
                program.write_text("#!/bin/sh\nSIM_HOST=H-%s LD_PRELOAD=%s exec %s \"$@\"\n" % (guid(number), LIBRARY, path))
                program.chmod(0o755)
        params = dict(root=str(tree), expect=None, reach=[], enforce=False, fabric=dict(dict(hosts=HOSTS, interval=0), **options))
        return rdma_info.work(wrapper.Guest(params, False))

    def stop(self) -> None:
        for process in (self.manager, self.simulator):
            if process is not None:
                process.kill()
                process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def fabric(tmp_path_factory):
    made = Fabric(tmp_path_factory.mktemp("ibsim"))
    try:
        yield made
    finally:
        made.stop()


def errors(result):
    return [(one["code"], one["thing"]) for one in result["findings"] if one["level"] == "error"]


def test_a_fabric_without_a_subnet_manager(fabric):
    found = fabric.info(1)
    assert found["fabric"]["manager"] is None
    assert errors(found) == [("NO_SUBNET_MANAGER", "InfiniBand fabric seen from guest-01")]


def test_a_sound_fabric_has_no_finding(fabric):
    fabric.start_manager()
    found = fabric.info(1)
    assert errors(found) == [] and found["fabric"]["manager"]["state"] == "SMINFO_MASTER"
    assert {link["peer"].split()[0] for link in found["fabric"]["links"] if link["name"] == "ib-switch" and link["peer"]} == set(HOSTS)


def test_a_link_that_is_down_is_named_from_both_ends(fabric):
    fabric.tell('Unlink "H-%s"' % guid(7))
    fabric.sweep()
    fabric.settle(lambda: "guest-07" not in fabric.ask(1, "ibhosts"))
    found = fabric.info(1)
    assert errors(found) == [("HOST_MISSING", "guest-07")]
    assert "ib-switch port 7 (Down/Polling)" in next(one["text"] for one in found["findings"] if one["code"] == "HOST_MISSING")
    # The host itself cannot ask the fabric any more, but its own port tells.
    assert ("LINK_NOT_UP", "guest-07, ibsim0 port 1") in errors(fabric.info(7))
    fabric.tell('Relink "H-%s"' % guid(7))
    fabric.sweep()
    fabric.settle(lambda: "guest-07" in fabric.ask(1, "ibhosts") and "Active" in fabric.ask(7, "ibstat"))
    assert errors(fabric.info(1)) == []


def test_an_error_counter_is_named_and_one_that_rises_is_worse(fabric):
    fabric.tell('PerformanceSet "H-%s"[1] PortCounters.SymbolErrorCounter=17' % guid(5))
    found = fabric.info(1)
    assert errors(found) == []
    row = next(one for one in found["findings"] if one["code"] == "ERRORS" and one["thing"].startswith("guest-05"))
    assert row["thing"] == "guest-05 mlx5_0 port 1" and "SymbolErrorCounter is 17" in row["text"] and "cable" in row["hint"]
    later = threading.Timer(1.5, fabric.tell, ['PerformanceSet "H-%s"[1] PortCounters.SymbolErrorCounter=40' % guid(5)])
    later.start()
    found = fabric.info(1, interval=5)
    later.join()
    row = next(one for one in found["findings"] if one["code"] == "ERRORS_RISE")
    assert row["level"] == "error" and row["thing"] == "guest-05 mlx5_0 port 1" and "rose by 23" in row["text"]
    assert "SymbolErrorCounter:..............40" in fabric.ask(5, "perfquery")
