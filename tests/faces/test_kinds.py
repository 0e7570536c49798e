# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of cards, hosts and faults in the documentation names what the lab has and tests that exist."""

from __future__ import annotations

import pathlib
import re

import pytest

from lab import kinds
from lab.world import FAULTS

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = TOP / "docs" / "docsite" / "rst"
TEXT = (PAGES / "cards_and_faults.rst").read_text()


def test_the_table_names_every_kind():
    named = set(re.findall(r"``([\w.-]+)``", TEXT))
    assert set(kinds.KINDS) <= named and set(kinds.HOSTS) <= named


def test_the_names_in_the_table_exist_in_the_lab():
    """First column of each table: kinds of card, kinds of host, faults; every fault that strikes on a host's side is there."""
    def first_column(start, end):
        part = TEXT[TEXT.index(start):TEXT.index(end)]
        return {name for row in re.findall(r"^   \* - (.*)$", part, re.M) for name in re.findall(r"``([^`]+)``", row)}
    assert first_column("Cards\n-----", "Hosts\n-----") <= set(kinds.KINDS)
    assert first_column("Hosts\n-----", "Faults\n------") - {"world.vsan = True"} <= set(kinds.HOSTS)
    faults = first_column("Faults\n------", "What others ran into")
    assert faults <= set(FAULTS) and {name for name in FAULTS if not re.match(r"weak|noisy|unmanaged|call_fault|customization_fails", name)} <= faults


@pytest.mark.parametrize("page", ["cards_and_faults.rst", "refusals.rst"])
def test_the_tests_in_the_table_exist(page):
    text = (PAGES / page).read_text()
    defined = set()
    for path in (TOP / "tests").rglob("test_*.py"):
        defined.update(re.findall(r"^def (test_\w+)", path.read_text(), re.M))
    wanted = set(re.findall(r"``(test_\w+)``", text))
    assert wanted and wanted <= defined, sorted(wanted - defined)
