# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, verdict
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.plugin_utils import paper, report

HOSTS = ["vm01", "vm02", "vm03"]


def bw(scale=1.0):
    return [[size, value, value * scale, 1.0] for size, value in zip(paper.SIZES, paper.CURVES["ib", "send_bw"]["values"])]


def lat(scale=1.0):
    return [[size, v * scale, v * scale, v * scale, v * scale, 0.1, v, v] for size, v in zip(paper.SIZES, paper.CURVES["ib", "send_lat"]["values"])]


def hostvars(slow=1.0):
    items = [dict(fabric=fabric, test=test, server=a, client=b, error=None,
                  rows=(lat if test == "send_lat" else bw)(slow if "vm03" in (a, b) and test == "send_bw" else 1.0))
             for fabric in ("ib", "roce") for test in ("send_bw", "send_lat") for a, b in (("vm01", "vm02"), ("vm02", "vm03"), ("vm03", "vm01"))]
    judged = verdict.assess(items, HOSTS, {h: {"ib": 100, "roce": 100} for h in HOSTS}, limits.resolve(), ["ib", "roce"], ["send_bw", "send_lat"])
    changes = Changes("esxi")
    changes.add("card <b>0000:3b:00.0</b>", "LINK_TYPE_P1", "ETH(2)", "IB(1)", reboot="host")
    reboot = Changes("vsphere")
    reboot.add("host esxi01", "reboot", "up", "rebooted")
    out = {h: {"verify_mesh_result": {"results": [i for i in items if i["client"] == h]}, "guest_wait_result": {"changed": False},
               "guest_info_result": {"ports": [{"role": "ib", "state": "ACTIVE"}, {"role": "roce", "state": "ACTIVE"}], "kernel": "4.18.0"}} for h in HOSTS}
    out["vm01"]["verify_verdict_result"] = judged
    out["esxi01"] = {"esxi_firmware_result": changes.result(card={"psid": "MT_0000000008", "bdf": "0000:3b:00.0", "firmware": "16.32.1010"}),
                     "vsphere_reboot_result": reboot.result(reasons=["card: LINK_TYPE_P1"])}
    out["esxi02"] = {"esxi_info_result": {"failed": True, "msg": "Cannot choose the card on esxi02: PSID differs."}}
    return out


def page(source="simulated", slow=1.0):
    variables = hostvars(slow)
    data = report.gather(variables, ["esxi01", "esxi02"] + HOSTS, "A title & more", source, "2026-01-01 00:00 UTC")
    return data, report.html(data)


class Balanced(HTMLParser):
    """Raises when a tag is closed that is not open."""

    VOID = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_startendtag(self, tag, attrs):
        """<line/>: opened and closed."""

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


def test_the_page_is_whole_and_fetches_nothing():
    dummy, html = page()
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    assert not re.search(r'(src|href)\s*=|url\(|@import|<script', html)


def test_a_simulated_run_says_so_at_the_top_and_in_every_csv_line():
    data, html = page()
    assert html.index('class="banner"') < html.index("<h2>Summary")
    assert "source: simulated" in html
    for text in (report.pairs_csv(data), report.curves_csv(data)):
        rows = list(csv.DictReader(io.StringIO(text)))
        assert rows and {row["source"] for row in rows} == {"simulated"}


def test_a_measured_run_has_no_banner():
    assert 'class="banner"' not in page("measured")[1]


def test_what_users_wrote_is_escaped():
    html = page()[1]
    assert "<b>0000:3b:00.0</b>" not in html and "A title &amp; more" in html


def test_pairs_and_values_stand_in_the_csv():
    data, dummy = page()
    rows = list(csv.DictReader(io.StringIO(report.pairs_csv(data))))
    assert len(rows) == 6
    assert {float(row["send_bw_Gbps"]) for row in rows} == {96.18}
    assert {float(row["send_lat_us"]) for row in rows} == {1.07}


def test_the_curve_is_the_median_of_the_pairs_beside_the_paper():
    data, dummy = page(slow=0.5)
    curve = next(c for c in data["curves"] if (c["fabric"], c["test"]) == ("ib", "send_bw"))
    top = curve["sizes"].index(8388608)
    assert curve["pairs"] == 3 and curve["paper"]["figure"] == 17
    assert curve["median"][top] == pytest.approx(96.21 * 0.5) and curve["high"][top] == 96.21
    assert 'class="paper"' in report.chart(curve)


def test_failures_and_blame_are_on_the_page():
    data, html = page(slow=0.5)
    assert "PSID differs" in html
    assert data["verdict"]["summary"]["failed"] == 4
    assert any("vm03" in entry["names"] for entry in data["verdict"]["blame"]) and data["verdict"]["blame"][0]["text"] in html


def test_reboots_and_their_reasons_are_on_the_page():
    data, html = page()
    assert data["reboots"] == {"esxi01": [["card: LINK_TYPE_P1"]]}
    assert "card: LINK_TYPE_P1" in html


def test_the_report_is_about_the_hosts_of_the_run_and_those_that_fell_out_of_it():
    variables = dict(hostvars(), esxi09={}, vm09={"vhpc_host": "esxi09"}, switch={})
    known = ["esxi01", "esxi02", "esxi09", "vm09", "switch"] + HOSTS
    hosts = report.subjects(variables, known, {"vm09"})
    assert hosts == ["esxi01", "esxi02", "vm09"] + HOSTS
    data = report.gather(variables, hosts, "t", "measured", "now", {"vm09", "esxi02"})
    assert "PSID differs" in data["failures"]["esxi02"][0]["msg"] and len(data["failures"]["esxi02"]) == 1
    assert "vm09 left the play" in data["failures"]["vm09"][0]["msg"]
    assert {row["host"] for row in data["versions"] if row["kind"] == "guest"} == {"vm09"} | set(HOSTS)


def test_guests_that_were_only_measured_are_guests():
    variables = {"vm01": {"verify_mesh_result": {"results": []}}}
    assert [row["kind"] for row in report.gather(variables, ["vm01"], "t", "measured", "now")["versions"]] == ["guest"]


def test_a_run_without_measurements_still_gives_a_page():
    data = report.gather({"esxi01": {}}, ["esxi01"], "t", "measured", "now")
    assert "Nothing: everything was as wanted." in report.html(data)
    assert report.pairs_csv(data).count("\n") == 1


def test_the_papers_own_figures_keep_its_dip():
    values = dict(zip(paper.SIZES, paper.CURVES["roce", "send_bw"]["values"]))
    assert values[524288] == 89.98 and min(v for s, v in values.items() if s >= 65536) == 89.98


def test_the_first_sentence_is_the_one_that_counts():
    good, slow = page()[0], page(slow=0.5)[0]
    for data in (good, slow):
        assert "esxi02 did not get to the end" in report.lead(data)[1] and report.lead(data)[0] == "fail"
        data["failures"] = {}
    assert report.lead(good)[0] in ("pass", "warn") and "All 12 measurements are within their limits" in report.lead(good)[1]
    assert report.lead(slow)[0] == "fail" and "4 of 12 measurements are not as they must be" in report.lead(slow)[1]
    assert "Nothing was measured in this run. Nothing was changed." == report.lead(report.gather({"a": {}}, ["a"], "t", "measured", "now"))[1]
    assert report.lead(good)[1] in report.html(good)
