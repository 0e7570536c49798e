# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.plugin_utils import plan


def stage(name, *steps, pending=(), **more):
    changes = Changes(name)
    for step in steps:
        changes.add(*step[:4], **(step[4] if len(step) > 4 else {}))
    for reason in pending:
        changes.wait_for_reboot(reason)
    return changes.result(**more)


def reboot(*reasons, certainty="sure"):
    changes = Changes("esxi")
    if reasons:
        changes.add("host esxi01", "reboot", "", "rebooted", certainty=certainty, reason="; ".join(reasons))
    return changes.result(reasons=list(reasons))


def site(firmware="conditional"):
    software = stage("esxi", ("vib mft", "version", None, "4.18.1.14", {"reboot": "host"}))
    first = reboot("vib mft: version")
    card = stage("esxi", ("card 0000:3b:00.0", "LINK_TYPE_P1", "ETH(2)", "IB(1)",
                          {"reboot": "host", "certainty": firmware, "reason": "MFT is not installed yet"}))
    passthru = stage("vsphere", ("0000:3b:00.0", "passthrough", "disabled", "enabled", {"reboot": "host"}))
    second = reboot("0000:3b:00.0: passthrough")
    return {"esxi_software_result": software, "esxi_reboot_first_result": first, "esxi_firmware_result": card,
            "vsphere_passthru_result": passthru, "vsphere_reboot_result": second}


def test_a_reboot_closes_the_steps_before_it():
    made = plan.build({"esxi01": site()})
    steps = {step["name"]: step for step in made["hosts"]["esxi01"]["steps"]}
    assert steps["version"]["before_reboot"] == 1
    assert steps["passthrough"]["before_reboot"] == 2
    assert [r["reasons"] for r in made["hosts"]["esxi01"]["reboots"]] == [["vib mft: version"], ["0000:3b:00.0: passthrough"]]
    assert made["reboots"] == {"esxi01": 2} and made["reboots_max"] == 2
    assert (made["sure"], made["conditional"], made["empty"]) == (2, 1, False)


def test_a_host_as_wanted_has_an_empty_plan_and_says_so():
    made = plan.build({"esxi01": {"esxi_software_result": stage("esxi"), "esxi_reboot_first_result": reboot()}})
    assert made["empty"] and made["reboots"] == {} and made["reboots_max"] == 0
    assert plan.text(made) == ["Nothing to do: every host and guest is as wanted."]


def test_failures_stand_in_the_plan_and_make_it_not_silent():
    made = plan.build({"esxi01": {"esxi_info_result": dict(failed=True, msg="Cannot choose the card on esxi01: no card has PSID X.")}})
    assert made["errors"] == 1
    assert any("no card has PSID X" in line for line in plan.text(made))


def test_hosts_with_the_same_plan_stand_together():
    text = "\n".join(plan.text(plan.build({"esxi01": site(), "esxi02": site()})))
    assert "esxi01, esxi02" in text
    assert text.count("REBOOT 1") == 1
    assert "maybe" in text and "MFT is not installed yet" in text


def test_a_warning_of_several_hosts_is_said_once():
    warned = {host: dict(site(), vsphere_vm_passthru_result=dict(stage("vsphere"), warnings=["%s: no snapshots" % host])) for host in ("esxi01", "esxi02")}
    lines = plan.text(plan.build(warned))
    assert lines[-1] == "  esxi01, esxi02: no snapshots" and sum("no snapshots" in line for line in lines) == 1


def test_a_reboot_without_consent_says_which_one_it_needs():
    planned = site()
    planned["vsphere_reboot_result"] = dict(reboot("0000:3b:00.0: passthrough"), needs=["reboot_ok: true"])
    lines = [line for line in plan.text(plan.build({"esxi01": planned})) if "REBOOT" in line]
    assert "NEEDS CONSENT" not in lines[0] and lines[1].endswith("(NEEDS CONSENT: reboot_ok: true)")


def test_ports_that_wait_for_the_same_thing_stand_in_one_line():
    waiting = stage("vsphere", *[("vm vm01", bdf, None, "attached", {"certainty": "conditional", "reason": "passthrough of %s is not active" % bdf})
                                 for bdf in ("0000:3b:00.0", "0000:3b:00.1")])
    assert "  maybe    its VM: 0000:3b:00.0, 0000:3b:00.1 (passthrough is not active)" in plan.text(plan.build({"a": {"vsphere_vm_passthru_result": waiting}}))


def test_collect_leaves_out_what_was_skipped_or_never_ran():
    hostvars = {"a": {"esxi_software_result": {"skipped": True}, "esxi_driver_result": stage("esxi"), "other": 1}}
    assert list(plan.collect(hostvars, ["a"])["a"]) == ["esxi_driver_result"]


def test_what_happened_as_planned_has_no_difference():
    planned = plan.build({"esxi01": site("conditional")})
    assert plan.against(planned, plan.build({"esxi01": site("sure")})) == []


def test_a_sure_step_that_did_not_happen_is_told():
    planned, real = plan.build({"esxi01": site()}), site("sure")
    real["vsphere_passthru_result"] = stage("vsphere")
    assert any("did not happen" in line and "passthrough" in line for line in plan.against(planned, plan.build({"esxi01": real})))


def test_a_step_that_was_not_planned_is_told():
    planned, real = plan.build({"esxi01": site("sure")}), site("sure")
    real["vsphere_policy_result"] = stage("vsphere", ("host", "power policy", "dynamic", "static"))
    assert any("was not planned" in line and "power policy" in line for line in plan.against(planned, plan.build({"esxi01": real})))


def test_another_number_of_reboots_is_told():
    planned, real = plan.build({"esxi01": site("sure")}), site("sure")
    real["vsphere_reboot_result"] = reboot()
    assert "esxi01: 2 reboots planned, 1 happened" in plan.against(planned, plan.build({"esxi01": real}))


def test_a_reboot_that_depends_on_what_cannot_be_read_yet_is_not_counted():
    made = plan.build({"esxi01": {"esxi_reboot_first_result": reboot("MFT is not installed yet", certainty="conditional")}})
    assert made["reboots"] == {} and made["conditional"] == 1 and not made["empty"]
