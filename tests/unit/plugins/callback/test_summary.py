# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.callback import summary


def line(host, stage, status="ok", changed=False, **more):
    return dict({"host": host, "stage": stage, "task": "a task", "status": status, "changed": changed, "ignored": False, "check": False}, **more)


def test_stages_count_hosts_not_results():
    made = summary.summarise([line("a", "esxi", changed=True), line("a", "esxi", changed=True), line("b", "esxi")])
    assert made["stages"]["esxi"]["hosts"] == ["a", "b"] and made["stages"]["esxi"]["changed"] == ["a"]
    assert made["changed_results"] == 2 and made["changed_hosts"] == ["a"]


def test_tasks_are_counted_for_the_host_they_act_on():
    made = summary.summarise([line("a", "esxi"), line("a", "esxi", status="skipped"), line("a", "fabric", delegated="localhost")])
    assert made["tasks"] == {"a": 2, "localhost": 1}


def test_reboots_keep_their_reasons_and_check_mode_does_not_count():
    made = summary.summarise([line("a", "esxi", changed=True, rebooted=True, reasons=["one", "two"]),
                              line("b", "esxi", rebooted=True, check=True, reasons=["x"])])
    assert made["reboots"] == {"a": [["one", "two"]]}
    assert "a          1  one; two" in summary.table(made)


def test_ignored_failures_are_not_failures():
    made = summary.summarise([line("a", "guest", status="failed", ignored=True, msg="x"), line("b", "guest", status="unreachable", msg="gone")])
    assert [f["host"] for f in made["failures"]] == ["b"] and made["stages"]["guest"]["failed"] == ["b"]
