# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import script, split

EXAMPLES = int(os.environ.get("VHPC_EXAMPLES", "1500"))


@settings(max_examples=max(50, EXAMPLES // 10), deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(texts=st.lists(st.text(alphabet="ab1 \n", max_size=30), min_size=1, max_size=4), at=st.integers(min_value=0, max_value=100000))
def test_an_output_that_stops_early_is_noticed(texts, at):
    """Cut anywhere, a script's output yields whole answers only."""
    lines = ["command %d" % number for number in range(len(texts))]
    mark = "=rdma-0123456789ab="
    assert script(lines, mark).count(mark) == len(texts) + 1
    whole = "Welcome.\n%s -\n" % mark + "".join("%s%s %d 0\n" % (text, mark, number) for number, text in enumerate(texts))
    cut_at = at % len(whole)
    answers = split(whole[:cut_at], mark, lines)
    assert [answer.text for answer in answers] == texts[:len(answers)]
    assert len(answers) < len(texts) or cut_at >= len(whole) - 1
