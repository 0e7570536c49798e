# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from lab.harness import Site


@pytest.fixture(scope="session")
def lab_site(tmp_path_factory):
    """lab_site(name) starts the two hosts of the campaign, SSH off as a careful site has it."""
    made: list[Site] = []

    def prepare(world):
        for host in world.hosts.values():
            host.services["TSM-SSH"].running = False

    def start(name: str) -> Site:
        for one in made:
            one.stop()
        del made[:]
        made.append(Site(tmp_path_factory.mktemp(name), 2, prepare))
        return made[-1]
    yield start
    for one in made:
        one.stop()
