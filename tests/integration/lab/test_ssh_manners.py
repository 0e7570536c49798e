# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SSH servers of ESXi hosts with manners of their own: few half-open logins, notices before and after the login, logins that take their time."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from lab import kinds
from lab.harness import Site

PLAY = """
- hosts: esxi
  gather_facts: false
  tasks:
    - vhpc.rdma.esxi_info:
        card: {psid: MT_0000000008}
        transport: "%s"
        enforce: true
      module_defaults:
        group/vhpc.rdma.vsphere: "{{ vhpc_vcenter }}"
      register: seen
    - vhpc.rdma.mlx_firmware:
        card: {psid: MT_0000000008}
        settings: {ports: {1: ib, 2: roce}, sriov: false}
      register: set
    - ansible.builtin.assert:
        that: seen.cards | length == 2 and set.card.psid == 'MT_0000000008'
"""


@pytest.fixture(name="run")
def _run(tmp_path):
    """run(kind, transport) looks at a host of that kind and sets its card; returns the world."""
    made = []

    def start(kind, transport="ssh", before=lambda world: None):
        here = Site(tmp_path, [2], lambda world: kinds.host(world, "esxi02", kind))
        made.append(here)
        path = tmp_path / "play.yml"
        path.write_text(PLAY % transport)
        over = before(here.world)
        done = here.run(str(path))
        if over:
            over()
        assert done.code == 0, done.log[-3000:]
        assert next(card for card in here.world.hosts["esxi02"].cards if card.vpi).config["LINK_TYPE_P1"].next == 1
        return here.world
    yield start
    for one in made:
        one.stop()


def turned_away(world):
    return [entry for entry in list(world.journal) if "past MaxStartups" in entry["what"]]


@pytest.mark.parametrize("transport", ["ssh", "auto"])
def test_a_login_that_is_one_too_many_is_tried_again(run, transport):
    def crowd(world):
        """Somebody's half-open login holds the only place until the play was turned away."""
        host = world.hosts["esxi02"]
        other = socket.create_connection((host.address, host.ssh_port))
        other.recv(64)

        def leave():
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not turned_away(world):
                time.sleep(0.05)
            other.close()
        thread = threading.Thread(target=leave)
        thread.start()
        return thread.join
    world = run("ssh-max-startups", transport, crowd)
    assert turned_away(world)
    assert not [entry for entry in world.journal if entry["face"] == "vsphere" and entry["what"] == "esxcli"]


@pytest.mark.parametrize("kind", ["ssh-banner", "ssh-slow-login"])
def test_notices_and_slow_logins_change_nothing(run, kind):
    run(kind)
