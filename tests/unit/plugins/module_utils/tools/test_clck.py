# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Intel Cluster Checker's summary. The lines of the overall result are as published scripts look for them."""

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import clck
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample


@pytest.mark.parametrize("line, status, counts", [
    ("Overall Result: No issues found", "pass", {}), ("Overall Result: PASS", "pass", {}), ("Overall Result: Could not run all tests.", "incomplete", {}),
    ("Overall Result: 1 issue found - FUNCTIONALITY (1)", "issues", {"FUNCTIONALITY": 1}),
    ("  Overall Result: 9 issues found - HARDWARE UNIFORMITY (2), PERFORMANCE (7)", "issues", {"HARDWARE UNIFORMITY": 2, "PERFORMANCE": 7}),
])
def test_overall_results(line, status, counts):
    found = clck.parse("SUMMARY\n" + line + "\n")
    assert (found["status"], found["counts"], found["issues"]) == (status, counts, [])


def test_issues_have_what_the_guide_says_they_have():
    found = clck.parse(sample("clck", "issues"))
    assert found["version"] == "2021 Update 6" and found["counts"] == {"FUNCTIONALITY": 2, "PERFORMANCE": 1}
    memlock, port, latency = found["issues"]
    assert (memlock["category"], memlock["id"], memlock["severity"]) == ("FUNCTIONALITY", "memlock-too-small", "warning")
    assert memlock["nodes"] == ["vm03", "vm07.example.net"] and memlock["remedy"].startswith("set the limit")
    assert port["text"] == "A port of an InfiniBand adapter is not active." and port["id"] == "infiniband-port-state:mlx5_0" and port["severity"] == "critical"
    assert latency["pairs"] == [["vm01", "vm03"]] and latency["nodes"] == ["vm01", "vm03"] and latency["category"] == "PERFORMANCE"


def test_an_issue_set_out_in_another_way_is_kept_as_text():
    text = "Overall Result: 1 issue found - PERFORMANCE (1)\n\nPERFORMANCE\n 1) vm02 is slower than the others\n     see the log\n"
    issue, = clck.parse(text)["issues"]
    assert issue["text"] == "vm02 is slower than the others see the log" and issue["nodes"] == []
    assert clck.about(clck.parse(text), ["vm01", "vm02"])[0]["hosts"] == ["vm02"]


def test_issues_find_our_hosts_by_whole_or_first_name():
    found = clck.about(clck.parse(sample("clck", "issues")), ["vm01", "vm03", "vm07", "vm0"])
    assert [issue["hosts"] for issue in found] == [["vm03", "vm07"], ["vm03"], ["vm01", "vm03"]]


def test_another_text_is_refused():
    with pytest.raises(ParseError):
        clck.parse("Intel(R) Cluster Checker 2021 Update 6\nerror: nodefile not found\n")
