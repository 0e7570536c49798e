# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of cards, hosts and faults in the documentation names what the lab has and tests that exist."""

from __future__ import annotations

import pathlib
import re

import pytest

from lab import kinds

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = TOP / "docs" / "docsite" / "rst"
TEXT = (PAGES / "cards_and_faults.rst").read_text()


def test_the_table_names_every_kind():
    named = set(re.findall(r"``([\w.-]+)``", TEXT))
    assert set(kinds.KINDS) <= named and set(kinds.HOSTS) <= named


@pytest.mark.parametrize("page", ["cards_and_faults.rst", "refusals.rst"])
def test_the_tests_in_the_table_exist(page):
    text = (PAGES / page).read_text()
    defined = set()
    for path in (TOP / "tests").rglob("test_*.py"):
        defined.update(re.findall(r"^def (test_\w+)", path.read_text(), re.M))
    wanted = set(re.findall(r"``(test_\w+)``", text))
    assert wanted and wanted <= defined, sorted(wanted - defined)
