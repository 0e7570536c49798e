# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ESXi stage with SSH off: esxcli through vCenter, and MFT's esxcli plugin in both layouts."""

from __future__ import annotations

import json

import pytest

from lab import kinds
from lab.harness import Site

PLAY = """
- hosts: esxi
  gather_facts: false
  roles:
    - role: vhpc.rdma.esxi
"""
TASKS = 12


@pytest.fixture(name="dark")
def _dark(tmp_path):
    """dark(*kinds of host) starts a lab whose hosts do not answer SSH at all."""
    made = []

    def start(*names):
        def prepare(world):
            for name, kind in zip(world.hosts, names):
                host = kinds.host(world, name, kind)
                host.services["TSM-SSH"].running = False
        made.append(Site(tmp_path, len(names), prepare))
        (tmp_path / "esxi.yml").write_text(PLAY)
        return made[-1], lambda *extra: made[-1].run(str(tmp_path / "esxi.yml"), "-e", "esxi_transport=vcenter", *extra)
    yield start
    for one in made:
        one.stop()


def test_the_whole_stage_runs_with_ssh_off(dark):
    here, run = dark("mft-esxcli", "mft-esxcli-flat")
    planned = run("--check")
    assert planned.code == 0, planned.log[-3000:]
    assert all(host.boots == 0 for host in here.world.hosts.values())
    done = run()
    assert done.code == 0, done.log[-3000:]
    for host in here.world.hosts.values():
        card = next(card for card in host.cards if card.vpi)
        assert (card.link_type(1), card.link_type(2), card.config["SRIOV_EN"].current, host.boots) == (1, 2, 0, 1)
        assert host.module_running["nmlx5_core"] == "pfctx=0x08 pfcrx=0x08 trust_state=2" and host.mst_started is False
        assert host.services["TSM-SSH"].running is False
    again = run()
    assert again.code == 0 and all(host.boots == 1 for host in here.world.hosts.values())
    recap = [line for line in again.log.splitlines() if "changed=" in line and "ok=" in line]
    assert all("changed=0" in line for line in recap)
    for line in recap:
        assert sum(int(part.split("=")[1]) for part in line.split() if part.split("=")[0] in ("ok", "skipped", "failed")) <= TASKS, line
    assert not [entry for entry in here.world.journal if entry["face"] == "esxi" and entry["what"].startswith("ssh")]


def test_without_the_plugin_it_is_said_what_is_missing(dark):
    here, run = dark("driver-esxcli", "mft-4.22")
    first = run()
    assert first.code != 0 and set(first.failed) == {"esxi01", "esxi02"}
    for text in first.failed.values():
        assert "esxcli plugin" in text and "4.31" in text
    assert all(host.staged is None for host in here.world.hosts.values())
    assert all(nv.current == nv.next for host in here.world.hosts.values() for card in host.cards for nv in card.config.values())


@pytest.mark.parametrize("transport", ["ssh", "auto"])
def test_lockdown_mode_is_explained_and_auto_goes_around_it(dark, transport):
    here, run = dark("mft-esxcli")
    host = kinds.host(here.world, "esxi01", "lockdown")
    host.services["TSM-SSH"].running = True
    here.world.tell("host", "esxi01")
    done = run("-e", "esxi_transport=%s" % transport)
    assert host.lockdown == "lockdownNormal" and "lockdown mode is on (normal)" in done.log
    if transport == "ssh":
        assert done.code != 0 and host.boots == 0 and "login" in done.log
        return
    assert done.code == 0, done.log[-3000:]
    assert not [entry for entry in here.world.journal if "no exception user" in entry["what"]]  # failed logins would lock root out
    assert host.boots == 1 and next(card for card in host.cards if card.vpi).link_type(1) == 1


def test_auto_logs_in_as_an_exception_user_of_lockdown_mode(dark):
    here, run = dark("mft-4.22")  # whose tools nobody reaches without a login
    host = kinds.host(here.world, "esxi01", "lockdown")
    host.lockdown_exceptions.append("root")
    host.services["TSM-SSH"].running = True
    here.world.tell("host", "esxi01")
    done = run("-e", json.dumps({"esxi_transport": "auto", "esxi_manage_ssh": False}))
    assert done.code == 0, done.log[-3000:]
    assert not [entry for entry in here.world.journal if entry["face"] == "vsphere" and entry["what"] == "esxcli"]


def test_auto_takes_what_answers(dark):
    here, run = dark("mft-esxcli", "mft-esxcli")
    here.world.hosts["esxi02"].services["TSM-SSH"].running = True
    here.world.tell("host", "esxi02")
    done = run("-e", json.dumps({"esxi_transport": "auto", "esxi_manage_ssh": False}))
    assert done.code == 0, done.log[-3000:]
    through = {entry["host"] for entry in here.world.journal if entry["face"] == "vsphere" and entry["what"] == "esxcli"}
    assert "esxi01" in through and "esxi02" not in through
