# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each fault of the lab: the host is named with the reason, the others finish, and a later run finishes the job."""

from __future__ import annotations


def finish(site, host, boots=None):
    """Run again after the fault is gone: the job is done, and what was done before is not done again."""
    again = site.run("site.yml")
    assert again.code == 0, again.log[-3000:]
    assert site.world.hosts[host].cards[1].link_type(1) == 1
    if boots is not None:
        assert site.world.hosts[host].boots == boots
    return again


def test_a_wrong_psid_is_refused_before_any_write_and_the_others_finish(site):
    here = site(3)
    here.world.set_fault("wrong_psid", "esxi02")
    before = here.world.dump()["hosts"]["esxi02"]
    first = here.run("site.yml")
    assert first.code != 0 and set(first.failed) >= {"esxi02"}
    assert "esxi01" not in first.failed and "esxi03" not in first.failed
    assert "MT_0000000008" in first.failed["esxi02"] and "DEL0000000023" in first.failed["esxi02"]
    after = here.world.dump()["hosts"]["esxi02"]
    for key in ("cards", "vibs", "staged", "module_options", "passthru", "power_policy", "dvs", "boots", "bmc"):
        assert after[key] == before[key], key
    assert here.world.vms["vm01"].power == "on" and here.world.vms["vm03"].power == "on" and here.world.vms["vm02"].power == "off"
    assert any(f["host"] == "esxi02" for f in first.summary["failures"])


def test_a_host_that_stays_down_is_named_within_the_bound_and_finished_later(site):
    here = site(3)
    here.world.set_fault("stays_down", "esxi01", times=1)
    first = here.run("site.yml", "-e", "vhpc_reboot_timeout=15")
    assert first.code != 0 and "esxi01" in first.failed and "15 s" in first.failed["esxi01"]
    assert first.seconds < 180
    assert here.world.vms["vm02"].power == "on"
    here.world.boot_host("esxi01")
    finish(here, "esxi01", boots=2)


def test_an_ssh_drop_in_the_middle_names_the_host_and_a_later_run_finishes(site):
    here = site(2)
    here.world.set_fault("ssh_drop", "esxi01", times=4)  # more often than the connection is tried again
    first = here.run("site.yml")
    assert first.code != 0 and "esxi01" in first.failed
    here.world.clear_fault("ssh_drop", "esxi01")
    finish(here, "esxi01", boots=2)


def test_a_task_fault_from_vcenter_names_host_and_cause(site):
    here = site(2)
    here.world.set_fault("task_fault", "vm01", times=1)
    first = here.run("site.yml")
    assert first.code != 0 and any("vm01" in text for text in first.failed.values())
    finish(here, "esxi01", boots=2)


def test_a_card_that_needs_a_power_cycle_gets_a_verdict_and_no_reboot_loop(site):
    here = site(2)
    here.world.set_fault("power_cycle", "esxi02")
    first = here.run("site.yml")
    assert first.code != 0 and "power cycle" in first.failed["esxi02"].lower()
    boots = here.world.hosts["esxi02"].boots
    assert boots <= 2
    second = here.run("site.yml")
    assert second.code != 0 and here.world.hosts["esxi02"].boots == boots
    here.world.hosts["esxi02"].cards[1].needs_power_cycle = False
    here.world.power_cycle_host("esxi02", "a person")
    finish(here, "esxi02")


def test_passthrough_that_is_not_active_after_the_reboot_is_a_verdict(site):
    here = site(2)
    here.world.set_fault("passthru_lost", "esxi01")
    first = here.run("site.yml")
    assert first.code != 0 and "active" in first.failed["esxi01"]
    assert here.world.hosts["esxi01"].boots <= 2
    here.world.clear_fault("passthru_lost", "esxi01")
    finish(here, "esxi01")


def test_a_full_tmp_is_named_and_a_slow_host_is_no_trouble(site):
    here = site(2)
    here.world.set_fault("tmp_full", "esxi01")
    here.world.set_fault("slow_host", "esxi02")
    first = here.run("site.yml")
    assert first.code != 0 and "No space left" in first.failed["esxi01"] and "/tmp" in first.failed["esxi01"]
    assert "esxi02" not in first.failed and here.world.vms["vm02"].power == "on"
    here.world.clear_fault("tmp_full", "esxi01")
    finish(here, "esxi01", boots=2)


def test_a_fabric_without_subnet_manager_is_named_and_still_gets_its_report(site):
    """Every guest fails, which ends the run at once; the evidence is there all the same."""
    here = site([4])
    here.world.subnet_manager = False
    first = here.run("site.yml")
    assert first.code != 0 and "INIT: no subnet manager" in first.failed["vm04"] and "start the subnet manager" in first.failed["vm04"]
    report = first.file("report.json")
    assert report["hosts"] == ["esxi04", "vm04"] and "no subnet manager" in report["failures"]["vm04"][0]["msg"]
    here.world.subnet_manager = True
    again = here.run("site.yml")
    assert again.code == 0 and again.file("report.json")["failures"] == {}, again.log[-3000:]
