# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What other programs read: JUnit XML by a reader that is not ours, performance logs column by column, and the command without secrets."""

from __future__ import annotations

import hashlib
import os
import random

import pytest
from junitparser import Failure, JUnitXml

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, verdict
from ansible_collections.vhpc.rdma.plugins.plugin_utils import report, report_about, report_files

HOSTS = ["vm01", "vm02", "vm03"]


def data(title="A <title> & more", slow=0.8):
    items = []
    for number, (one, two) in enumerate((("vm01", "vm02"), ("vm02", "vm03"), ("vm03", "vm01"))):
        scale = slow if number == 1 else 1.0
        items.append(dict(fabric="ib", test="send_bw", server=one, client=two, error=None, rows=[[65536, 97.0, 97.0 * scale, 1.0]]))
        items.append(dict(fabric="ib", test="send_lat", server=one, client=two, error=None, rows=[[8, 1, 2, 1.1, 1.1, 0.1, 1.2, 2]]))
    judged = verdict.assess(items, HOSTS, {h: {"ib": 100} for h in HOSTS}, limits.resolve(), ["ib"], ["send_bw", "send_lat"])
    variables = {h: {"guest_info_result": {"kernel": "4.18"}, "guest_link_result": {"changed": False}} for h in HOSTS}
    variables["vm01"]["verify_verdict_result"] = judged
    variables["esxi01"] = {"esxi_info_result": {"failed": True, "msg": "Cannot read \x1b[31mred\x1b[0m <b> & \x00 lines.\nSecond line."}}
    run = dict(benchmark="bw", nodes=2, ppn=1, processes=2, value=1.0, unit="MB/s", direction="higher", seconds=2.5)
    variables["vm03"]["benchmark_result"] = {"runs": [dict(run, repeat=1, success=True, error=""), dict(run, repeat=2, success=False, error="return code 1")]}
    return report.gather(variables, HOSTS + ["esxi01"], title, "simulated", "now")


def test_a_ci_system_reads_every_host_stage_pair_and_run():
    read = JUnitXml.fromstring(report_files.junit(data()).encode())
    cases = {(suite.name, case.name): case for suite in read for case in suite}
    assert read.tests == len(cases) == 1 + 3 + 6 + 2 and read.failures == 3 and read.name == "A <title> & more"
    assert {name for suite, name in cases if suite == "guest"} == set(HOSTS)
    assert {suite for suite, dummy in cases} == {"esxi", "guest", "verify.ib.send_bw", "verify.ib.send_lat", "benchmark"}
    failed = {key: case.result[0] for key, case in cases.items() if case.result and isinstance(case.result[0], Failure)}
    assert set(failed) == {("esxi", "esxi01"), ("verify.ib.send_bw", "vm03 to vm02"), ("benchmark", "bw on 2 nodes, 1 processes each, run 2")}
    assert "red" in failed["esxi", "esxi01"].message and "Second line." in failed["esxi", "esxi01"].text
    slow = failed["verify.ib.send_bw", "vm03 to vm02"]
    assert "18.3 % below the limit" in slow.message and "77.6 Gb/s; limit: at least 95 Gb/s" in slow.text
    assert cases["benchmark", "bw on 2 nodes, 1 processes each, run 1"].time == 2.5
    assert all(suite.failures == sum(bool(case.result) and isinstance(case.result[0], Failure) for case in suite) for suite in read)


@pytest.mark.parametrize("seed", range(20))
def test_no_message_can_break_the_xml(seed):
    chance = random.Random(seed)
    text = "".join(chr(chance.choice([chance.randrange(0, 0x60), chance.randrange(0x7f, 0x110000)])) for dummy in range(200))
    text = "".join(char for char in text if not 0xd800 <= ord(char) <= 0xdfff) + "\ud800"
    found = data(title="]]>" + text)
    found["failures"]["esxi01"][0]["msg"] = text
    assert JUnitXml.fromstring(report_files.junit(found).encode()).failures == 3


def test_a_performance_log_has_a_line_per_pair_with_its_limit_as_reference():
    logs = report_files.perflogs(data(), 1767225600.0)
    assert sorted(logs) == ["send_bw_ib", "send_lat_ib"]
    lines = [line.split("|") for line in logs["send_bw_ib"].splitlines()]
    assert len(lines) == 1 + 3 and all(len(line) == len(lines[0]) for line in lines)
    rows = [dict(zip(lines[0], line)) for line in lines[1:]]
    assert [row["result"] for row in rows].count("fail") == 1 and {row["job_completion_time"] for row in rows} == {"2026-01-01T00:00:00"}
    bad = next(row for row in rows if row["result"] == "fail")
    assert (bad["job_nodelist"], float(bad["send_bw_ib_value"]), bad["send_bw_ib_unit"], float(bad["send_bw_ib_ref"])) == ("vm02,vm03", 77.6, "Gb/s", 95.0)
    assert (bad["send_bw_ib_lower_thres"], bad["send_bw_ib_upper_thres"], bad["partition"], bad["system"]) == ("0", "null", "ib", "simulated")
    lat = dict(zip(*[line.split("|") for line in logs["send_lat_ib"].splitlines()[:2]]))
    assert (lat["send_lat_ib_lower_thres"], lat["send_lat_ib_upper_thres"]) == ("null", "0")


# ---- how it was started -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("words", [
    ["-e", "vhpc_password=hunter2"], ["-e", '{"vhpc_vcenter": {"hostname": "vc", "password": "hunter2"}}'], ["--extra-vars=ansible_ssh_pass=hunter2"],
    ["-eapi_token=hunter2"], ["-e", "vc={a:hunter2}"], ["--extra", "vhpc_password=hunter2"], ["--extra-var=vhpc_password=hunter2"],
    ["-Ke", "bmc_pass=hunter2"], ["-bvvepass=hunter2"], ["-e", '{"url": "https://me:hunter2@vc/x"}'],
    ["--extra-vars", "vhpc_vcenter={'password': 'hunter2'}"], ["-e", "a=1 bmc_pw=hunter2"], ["-e", "{broken: [hunter2"],
    ["-e", "unbalanced='hunter2"], ["-i", "https://me:hunter2@inventory.example.org/"], ["-e", "proxy=http://me:hunter2@proxy:3128"],
    ["-e", '{"list": [{"secret": {"deep": "hunter2"}}]}'], ["-e", "hunter2"]])
def test_no_secret_of_the_command_line_is_told(words):
    text = report_about.command(["/usr/bin/ansible-playbook", "-i", "hosts.yml"] + words + ["vhpc.rdma.site"])
    assert "hunter2" not in text and text.startswith("ansible-playbook -i hosts.yml ") and text.endswith(" vhpc.rdma.site") and "***" in text


def test_the_rest_of_the_command_is_told_as_a_shell_takes_it():
    words = ["ansible-playbook", "-i", "my hosts.yml", "site.yml", "--limit", "esxi01,vm01", "-e", "vhpc_serial=4 vhpc_reboot_ok=true", "-e", "@vault.yml",
             "--vault-password-file", "/root/.vault"]
    assert report_about.command(words) == ("ansible-playbook -i 'my hosts.yml' site.yml --limit esxi01,vm01 -e 'vhpc_serial=4 vhpc_reboot_ok=true' "
                                           "-e @vault.yml --vault-password-file /root/.vault")
    assert report_about.command(["ansible-playbook", "-ve", "a=1", "-bv", "site.yml", "-evhpc_serial=2", "--tags", "esxi"]) == (
        "ansible-playbook -ve a=1 -bv site.yml -evhpc_serial=2 --tags esxi")


def test_the_digest_of_an_inventory_follows_what_is_in_it(tmp_path):
    one, folder = tmp_path / "hosts.yml", tmp_path / "inventory"
    one.write_text("all: {}\n")
    (folder / "group_vars").mkdir(parents=True)
    (folder / "group_vars" / "all.yml").write_text("a: 1\n")
    first = report_about.digest([str(one)])
    assert len(first) == 64 and first != hashlib.sha256(b"").hexdigest()
    both = report_about.digest([str(one), str(folder)])
    (folder / "group_vars" / "all.yml").write_text("a: 2\n")
    assert report_about.digest([str(one), str(folder)]) != both and report_about.digest([str(one)]) == first
    os.rename(folder / "group_vars" / "all.yml", folder / "group_vars" / "esxi.yml")
    (folder / "group_vars" / "esxi.yml").write_text("a: 1\n")
    assert report_about.digest([str(one), str(folder)]) != both
    assert report_about.digest(["localhost,"]) == "" and report_about.digest([]) == ""
