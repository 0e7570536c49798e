# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts one after the other: vSAN's turn in every role that reboots, and a run that ends at the first batch with a failure."""

from __future__ import annotations

import json

import pytest

from lab import site as sites
from lab.harness import Site, differences


def away(world):
    """The largest number of hosts that were in maintenance mode or down at the same time, as the journal tells it."""
    out, most = set(), 0
    for entry in list(world.journal):
        if entry["what"] == "EnterMaintenanceMode_Task":
            out.add(entry["host"])
        elif entry["what"] == "ExitMaintenanceMode_Task":
            out.discard(entry["host"])
        most = max(most, len(out))
    return most


def test_a_cluster_with_vsan_loses_one_host_at_a_time_in_both_reboots(tmp_path):
    """Software and its files by the way: uploaded from the controller once for both hosts, the driver as component."""
    local = {}

    def prepare(world):
        world.vsan = True
        for variable, path in zip(("esxi_mft_local", "esxi_nmst_local", "esxi_driver_local"), sites.FILES):
            file = tmp_path / path.split("/")[-1]
            file.write_bytes(world.datastores[sites.DATASTORE].pop(path).content)
            local[variable] = str(file)
    here = Site(tmp_path, [1, 2, 5], prepare)
    try:
        extra = json.dumps(dict(local, vhpc_vsan_evacuation="full", esxi_install_as="component"))
        done = here.run("site.yml", "--tags", "esxi,vsphere", "-e", extra, "--limit", "esxi")
        assert done.code == 0, done.log[-3000:]
        world = here.world
        assert [host.boots for host in world.hosts.values()] == [2, 1, 2] and away(world) == 1
        evacuated = [entry["vsan"] for entry in world.journal if entry["what"] == "evacuation"]
        assert evacuated == ["evacuateAllData"] * 5
        assert len([entry for entry in world.journal if entry["what"] == "upload"]) == 3
        lines = [entry["what"] for entry in world.journal if entry["face"] == "esxi" and "esxcli software" in entry["what"]]
        assert any("component apply -d" in line for line in lines) and not any("vib install -d" in line for line in lines)
    finally:
        here.stop()


@pytest.mark.parametrize("most, third", [("0", 0), (None, 1)])
def test_a_rolling_run_ends_at_the_first_batch_with_a_failure_and_the_next_run_puts_ssh_back(tmp_path, most, third):
    def prepare(world):
        for host in world.hosts.values():
            host.services["TSM-SSH"].running = False
        world.set_fault("wrong_psid", "esxi02")
    here = Site(tmp_path, [1, 2, 3], prepare)
    words = ["--tags", "esxi,vsphere", "--limit", "esxi", "-e", "vhpc_serial=2"] + (["-e", "vhpc_max_fail_percentage=" + most] if most else [])
    try:
        before = here.world.dump()["hosts"]["esxi03"]
        first = here.run("site.yml", *words)
        assert first.code != 0 and set(first.failed) == {"esxi02"}, first.log[-3000:]
        assert bool(here.world.hosts["esxi03"].boots) is bool(third)
        if not third:
            assert differences(before, here.world.dump()["hosts"]["esxi03"]) == []
            here.world.clear_fault("wrong_psid", "esxi02")
            for card in here.world.hosts["esxi02"].cards:
                if card.vpi:
                    card.psid, card.part = "MT_0000000008", "MCX556A-ECA_Ax"
            last = here.run("site.yml", *words)
            assert last.code == 0, last.log[-3000:]
        assert not any(host.services["TSM-SSH"].running for host in here.world.hosts.values())
        assert not list((tmp_path / "run" / "services").glob("*.json"))
    finally:
        here.stop()
