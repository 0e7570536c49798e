# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, stats
from ansible_collections.vhpc.rdma.plugins.plugin_utils import paper


@pytest.mark.parametrize("fabric", ["ib", "roce"])
def test_the_papers_limits_are_those_of_its_curves(fabric):
    wide, quick = (paper.CURVES[fabric, test] for test in ("send_bw", "send_lat"))
    middle = stats.median(value for size, value in zip(paper.SIZES, wide["values"]) if size >= 65536)
    found = limits.PAPER[fabric]
    assert found["bw"] == (pytest.approx(middle), "the paper's Figure %d" % wide["figure"])
    assert found["lat"] == (quick["values"][paper.SIZES.index(8)], "the paper's Figure %d" % quick["figure"])
