# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guest and verify stages on real guests: planned, run, run again, and after a reboot."""

from __future__ import annotations


def test_the_plan_says_what_the_first_run_does(road):
    plan, done = road["plan"], road["first"]
    assert plan.code == 0, plan.log[-3000:]
    assert done.code == 0, done.log[-3000:]
    planned = plan.file("plan.json")["hosts"]["guest-01"]["steps"]
    steps = done.file("done.json")["hosts"]["guest-01"]["steps"]
    assert {"rdma-core", "perftest", "ibverbs-utils"} <= {step["name"] for step in planned if step["thing"] == "packages"}
    assert [(step["thing"], step["name"]) for step in planned] == [(step["thing"], step["name"]) for step in steps]


def test_the_second_run_changes_nothing(road):
    assert road["second"].code == 0, road["second"].log[-3000:]
    assert road["second"].changed == 0


def test_after_a_reboot_all_of_it_is_still_there(road, site):
    assert road["third"].code == 0, road["third"].log[-3000:]
    assert road["third"].changed == 0
    for guest in site.guests:
        told = guest.run("ip -br addr; ip link; nmcli -t -f NAME,DEVICE connection show --active").stdout
        assert guest.address + "/24" in told and "mtu 9000" in told and "vhpc-roce" in told


def test_every_size_was_measured_and_the_counters_moved(road):
    report = road["third"].file("report.json")
    curves = {curve["test"]: curve for curve in report["curves"]}
    assert set(curves) == {"send_bw", "send_lat"}
    for curve in curves.values():
        assert curve["sizes"] == [2 ** power for power in range(1, 24)]
        assert all(value > 0 for value in curve["median"]), curve
    assert report["verdict"]["summary"]["failed"] == 0


def test_the_report_says_that_it_was_soft_roce(road):
    page = (road["third"].directory / "report.html").read_text()
    assert "soft-RoCE" in page and "say nothing about hardware" in page
    assert "rehearsal lab" not in page
    assert "rdma-core" in page
