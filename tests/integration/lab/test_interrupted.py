# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""ansible-playbook killed with all its children, again and again: later runs go on, and nothing is done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from lab.harness import TIMEOUTS
from lab.runner import TOP

MOMENTS = ("Install the firmware tools", "Reboot into the firmware tools", "Set the card's firmware", "Reboot once for all that is pending",
           "Attach the card's ports to the VM", "Install OFED and load it")


def kill_in(here, number: int, task: str) -> bool:
    """Start site.yml and kill it half a second into the task; False when the run ended before."""
    journal = here.directory / ("killed-%d.jsonl" % number)
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(here.lab.inventory), str(TOP / "playbooks" / "site.yml"),
               "-e", "vhpc_run_dir=%s" % (here.directory / "run"), "-e", json.dumps(TIMEOUTS), "--skip-tags", "fabric,verify"]
    with open(here.directory / ("killed-%d.log" % number), "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=here.directory, env=dict(here.env, VHPC_RDMA_JOURNAL=str(journal)), stdout=log, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        while process.poll() is None and not (journal.exists() and task in journal.read_text()):
            time.sleep(0.05)
        time.sleep(0.5)
        alive = process.poll() is None
        if alive:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return alive


def test_killed_six_times_the_road_ends_where_it_would_have_without_a_detour(site):
    here = site([1, 2])
    for host in here.world.hosts.values():
        host.boot_seconds = 2.0
    for number, task in enumerate(MOMENTS):
        assert kill_in(here, number, task), task
        time.sleep(2.5)  # a host that was told to reboot does so whoever asked for it
    last = here.run("site.yml", "--skip-tags", "fabric,verify")
    assert last.code == 0, last.log[-3000:]
    world = here.world
    # As without a kill: one write to each card, two reboots without MFT and one with it, nothing left behind.
    writes = [entry["host"] for entry in world.journal if entry["face"] == "mft" and str(entry["what"]).startswith("card ")]
    assert sorted(writes) == ["esxi01", "esxi02"], [entry for entry in world.journal if entry["face"] == "mft"]
    assert {name: host.boots for name, host in world.hosts.items()} == {"esxi01": 2, "esxi02": 1}
    for host in world.hosts.values():
        assert not host.maintenance and (host.services["TSM-SSH"].running, host.services["TSM-SSH"].policy) == (True, "off")
    assert all(len(world.vms[name].devices) == 2 and world.vms[name].power == "on" for name in ("vm01", "vm02"))
    again = here.run("site.yml", "--skip-tags", "fabric,verify")
    assert again.code == 0 and again.summary["changed_results"] == 0, again.summary["changed_hosts"]
