# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import redfish

DELL = {"ProcVirtualization": "Disabled", "SriovGlobalEnable": "Disabled", "LogicalProc": "Enabled", "SysProfile": "PerfOptimized",
        "WorkloadProfile": "NotAvailable", "AcPwrRcvryUserDelay": 60}
DELL_REGISTRY = {name: {"values": ["Enabled", "Disabled"], "read_only": False, "type": "Enumeration"}
                 for name in ("ProcVirtualization", "SriovGlobalEnable", "LogicalProc")}
PAPER = dict(virtualization=True, sriov=True, logical_processors=True, power_profile="performance_per_watt_os")


def state(current, pending=None, registry=None, jobs_at="", scheduled=()):
    return dict(current=current, pending=pending or {}, registry=registry or {}, jobs_at=jobs_at, scheduled=list(scheduled), vendor="", model="")


@pytest.mark.parametrize("current, registry, want", [
    (DELL, DELL_REGISTRY, {"ProcVirtualization": "Enabled", "SriovGlobalEnable": "Enabled", "LogicalProc": "Enabled", "SysProfile": "PerfPerWattOptimizedOs"}),
    ({"ProcVirtualization": "Disabled", "IntelProcVtd": "Enabled", "Sriov": "Disabled", "ProcHyperthreading": "Enabled", "WorkloadProfile": "Custom"}, {},
     {"ProcVirtualization": "Enabled", "IntelProcVtd": "Enabled", "Sriov": "Enabled", "ProcHyperthreading": "Enabled",
      "WorkloadProfile": "Virtualization-PowerEfficient"}),
    ({"IntelVirtualizationTechnology#0048": "Disable", "IntelVTforDirectedI/O(VT-d)#0103": "Enable", "SR-IOVSupport#00AB": "Disabled",
      "Hyper-Threading": "Enable"}, {},
     {"IntelVirtualizationTechnology#0048": "Enable", "IntelVTforDirectedI/O(VT-d)#0103": "Enable", "SR-IOVSupport#00AB": "Enabled",
      "Hyper-Threading": "Enable"}),
    ({"SR_IOVSupport": False}, {}, {"SR_IOVSupport": True}),
], ids=["dell", "hpe", "supermicro", "openbmc"])
def test_intents_become_the_names_and_values_of_the_bmc(current, registry, want):
    assert redfish.wanted(state(current, registry=registry), PAPER, "esxi01")[0] == want


def test_what_the_bmc_does_not_show_is_a_warning():
    want, warnings = redfish.wanted(state({"SR_IOVSupport": False}), PAPER, "esxi01")
    assert [w for w in warnings if "virtualization" in w] and [w for w in warnings if "power profile" in w]


def test_an_hpc_profile_is_refused_because_it_locks_passthrough_out():
    with pytest.raises(RdmaError) as caught:
        redfish.wanted(state({"WorkloadProfile": "Custom"}), {"attributes": {"WorkloadProfile": "HighPerformanceCompute(HPC)"}}, "esxi01")
    assert "SR-IOV" in str(caught.value) and "esxi01" in str(caught.value)


def test_all_wrong_attributes_are_told_at_once():
    registry = {"SysProfile": {"values": ["Custom"], "read_only": False}, "LogicalProc": {"values": ["Enabled", "Disabled"], "read_only": True}}
    with pytest.raises(RdmaError) as caught:
        redfish.wanted(state(DELL, registry=registry), {"attributes": {"SysProfile": "Fast", "Nothing": 1, "LogicalProc": "Disabled"}}, "esxi01")
    text = str(caught.value)
    assert "SysProfile cannot be 'Fast'" in text and "no attribute Nothing" in text and "LogicalProc is read-only" in text


def test_integers_stay_integers():
    assert redfish.wanted(state(DELL), {"attributes": {"AcPwrRcvryUserDelay": "120"}}, "esxi01")[0] == {"AcPwrRcvryUserDelay": 120}


def test_current_is_not_pending_is_not_wanted():
    want = {"ProcVirtualization": "Enabled", "SriovGlobalEnable": "Enabled", "LogicalProc": "Enabled"}
    changes, write = redfish.compare(state(DELL, pending={"ProcVirtualization": "Enabled"}), want)
    assert write == {"SriovGlobalEnable": "Enabled"}
    assert changes.reboot_reasons() == ["BIOS: SriovGlobalEnable", "BIOS: ProcVirtualization is pending"]


def test_only_a_pending_value_is_no_change_but_a_reason_to_reboot():
    changes, write = redfish.compare(state(DELL, pending={"ProcVirtualization": "Enabled"}, jobs_at="/jobs", scheduled=[{"id": "J"}]),
                                     {"ProcVirtualization": "Enabled"})
    assert (changes.changed, write) == (False, {}) and changes.result()["reboot_required"]


def test_a_stored_value_without_a_job_is_scheduled():
    changes, write = redfish.compare(state(DELL, pending={"ProcVirtualization": "Enabled"}, jobs_at="/jobs"), {"ProcVirtualization": "Enabled"})
    assert changes.changed and write == {"ProcVirtualization": "Enabled"}


def test_a_pending_value_that_would_undo_the_wanted_one_is_a_change():
    changes, write = redfish.compare(state(DELL, pending={"LogicalProc": "Disabled"}), {"LogicalProc": "Enabled"})
    assert changes.changed and write == {"LogicalProc": "Enabled"}


def test_messages_are_matched_on_the_last_part():
    body = b'{"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.8.SYS011", "Message": "Pending configuration values are already committed."}]}}'
    assert redfish.messages_of(body) == (["SYS011"], ["Pending configuration values are already committed."])
    assert redfish.messages_of(b"<html>") == ([], [])
