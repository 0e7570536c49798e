# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from lab.harness import Site


@pytest.fixture()
def site(tmp_path):
    """site(hosts) starts a lab that is stopped after the test."""
    made: list[Site] = []

    def start(hosts: int = 2) -> Site:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Site(directory, hosts))
        return made[-1]

    yield start
    for one in made:
        one.stop()
