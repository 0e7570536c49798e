# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts as a reader of their text sees them: what is drawn, in which colours, and what is said to those who do not see it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import scaling
from ansible_collections.vhpc.rdma.plugins.plugin_utils import charts

HOSTS = ("vm01", "vm02", "vm03")


def matrix(values, states, lower=False, limit=95.0, hosts=HOSTS):
    return charts.matrix("m", "Bandwidth <IB>", list(hosts), values, states, "Gb/s", lower, limit)


def texts(svg):
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter("text")]


def white(svg):
    return {"".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter("text") if "fill: #ffffff" in element.get("style", "")}


def square(one, two, three):
    return [[None, one, two], [one, None, three], [two, three, None]], [["", "pass", "pass"], ["pass", "", "pass"], ["pass", "pass", ""]]


def test_every_pair_has_its_number_and_the_failed_ones_a_cross_and_a_frame():
    values, states = square(96.0, 80.0, None)
    for row, column, state in ((0, 2, "fail"), (2, 0, "fail"), (1, 2, "fail"), (2, 1, "fail"), (0, 1, "warn"), (1, 0, "warn")):
        states[row][column] = state
    svg = matrix(values, states)
    found = texts(svg)
    assert found.count("!96.0") == 2 and found.count("\u00d780.0") == 2 and found.count("no") == found.count("result") == 2 and "Gb/s, darker is worse" in found
    assert svg.count("stroke: #d4351c") == 4
    assert "<title id=\"m-title\">Bandwidth &lt;IB&gt;</title>" in svg and "2 failed pairs, framed and marked with a cross" in svg
    assert 'role="img" aria-labelledby="m-title m-desc"' in svg


def test_small_figures_keep_the_digits_that_count():
    found = texts(matrix(*square(0.0312, 0.00431, 96.04)))
    assert found.count("0.031") == 2 and found.count("0.0043") == 2 and found.count("96.0") == 2
    assert [charts.number_text(value) for value in (0.0, 0.1, 0.0999, 1.066, -0.004)] == ["0.00", "0.10", "0.1", "1.07", "-0.004"]


@pytest.mark.parametrize("lower, worst", [(False, 80.0), (True, 110.0)])
def test_the_worse_the_darker_whatever_the_direction(lower, worst):
    """Numbers are white on dark and black on light cells: that tells how dark a cell is."""
    assert white(matrix(*square(95.0, worst, 96.0), lower=lower)) == {"%.*f" % (2 if lower else 1, worst)}


def test_a_fleet_of_equals_looks_like_one():
    assert white(matrix(*square(96.10, 96.11, 96.12))) == set() and white(matrix(*square(1.07, 1.08, 1.09), lower=True, limit=2.0)) == set()


def test_a_big_matrix_is_a_picture_and_small():
    hosts = ["n%03d" % number for number in range(256)]
    values = [[None if one == two else 97.0 for two in range(256)] for one in range(256)]
    states = [["" if value is None else "pass" for value in row] for row in values]
    svg = matrix(values, states, hosts=hosts)
    assert len(svg) < 200000 and "data:image/png;base64" in svg and texts(svg).count("97.0") == 0 and "Pairs of 256 hosts" in svg


def test_the_same_figures_give_the_same_bytes_and_the_pages_colours():
    one = charts.sizes("c", "t", [dict(name="x", sizes=[2, 4, 8], values=[1.0, 2.0, 3.0], low=[0.9, 1.9, 2.9], high=[1.1, 2.1, 3.5])], "us", None, True)
    assert one == charts.sizes("c", "t", [dict(name="x", sizes=[2, 4, 8], values=[1.0, 2.0, 3.0], low=[0.9, 1.9, 2.9], high=[1.1, 2.1, 3.5])], "us", None, True)
    assert "var(--soft)" in one and "var(--line)" in one and not re.search(r"#01020[3-6]", one) and "http" not in one
    assert "x: 1 us at 2, 3 us at 8" in one and "message size in bytes (log2)" in texts(one)


def test_a_configuration_looks_the_same_in_every_chart():
    table = scaling.analyse(dict(nodes=[1, 2, 4], sense="higher", resolution=0, rows={
        "BM.48": [10.0, 20.0, 39.0], "BM.44": [9.5, 18.0, 36.0], "VM.44": [9.0, 17.0, 30.0]}))
    found = dict(charts.scaling(dict(table, unit="ns/day"), "gromacs", "s"))
    assert list(found) == ["figures over nodes", "delta to BM.48", "strong-scaling efficiency"]
    for name, colour in (("BM.44", charts.COLOURS[1]), ("VM.44", charts.COLOURS[2])):
        for title, svg in found.items():
            assert name in texts(svg) and svg.count(colour.lower()) > 3, (title, name)
    assert charts.COLOURS[0].lower() not in found["delta to BM.48"] and "BM.48" in texts(found["delta to BM.48"])
    assert all("within the gauge of 8.33 %" in texts(found[title]) for title in ("figures over nodes", "delta to BM.48"))
    # One number of nodes is no scaling.
    assert charts.scaling(scaling.analyse(dict(nodes=[2], sense="higher", resolution=0, rows={"BM.48": [1.0], "VM.44": [1.0]})), "x", "s") == []
