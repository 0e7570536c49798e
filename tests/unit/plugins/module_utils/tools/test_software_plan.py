# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import esxcli, software_plan

MFT = {"name": "mft", "version": "4.18.1.14", "at_least": True, "source": "/vmfs/volumes/nfs/mft.vib"}
NMST = {"name": "nmst", "version": "4.18.1.14", "at_least": True, "source": "/vmfs/volumes/nfs/nmst.vib"}
OLD, RIGHT, NEWER = "4.17.0.106-0", "4.18.1.14-0", "4.22.1.11-1OEM.703.0.0.18434556"


@pytest.mark.parametrize("have, want, order", [
    ("4.22.1.11-1OEM.703.0.0.18434556", "4.18.1.14", 1), ("4.18.1.14-0", "4.18.1.14", 0), ("4.9.0.38-1", "4.18.1.14", -1),
    ("4.18.1.14-1OEM.700", "4.18.1.14-0", 1),
    ("4.18.1", "4.18.1.0", 0), ("4.18.1.14-0", "4.18.1.14-0", 0), ("4.19.16.10-1vmw.702.0.0.17867351", "4.21.71.101", -1), ("7.0.3", "7.0", 1),
    ("6.7.0", "7.0", -1),
    ("10.0", "9.9", 1)])
def test_versions_compare_as_versions(have, want, order):
    assert software_plan.compare(have, want) == order


def plan(running, following=None, packages=(MFT, NMST), **more):
    return software_plan.plan(list(packages), running, running if following is None else following, "esxi01", **more)


def test_virgin_host_installs_both_in_one_call():
    found = plan({})
    assert [package["name"] for package in found["install"]] == ["mft", "nmst"] and not found["pending"]
    assert software_plan.install_commands(found["install"]) == [
        ["software", "vib", "install", "-v", "/vmfs/volumes/nfs/mft.vib", "-v", "/vmfs/volumes/nfs/nmst.vib"]]


def test_bundles_are_installed_by_d_and_once():
    bundle = "/vmfs/volumes/nfs/nmlx5.zip"
    packages = [dict(MFT), {"name": "nmlx5-core", "source": bundle}, {"name": "nmlx5-rdma", "source": bundle}]
    assert software_plan.install_commands(packages) == [["software", "vib", "install", "-v", MFT["source"]], ["software", "vib", "install", "-d", bundle]]


def test_staged_but_not_running_is_pending_and_blocking_for_tools_only():
    found = plan({}, {"mft": RIGHT, "nmst": RIGHT})
    assert not found["install"] and [(p["name"], p["blocking"]) for p in found["pending"]] == [("mft", True), ("nmst", True)]
    driver = {"name": "nmlx5-core", "version": "4.21.71.101", "at_least": True}
    found = plan({"nmlx5-core": "4.19.16.10-1vmw"}, {"nmlx5-core": "4.21.71.101-1OEM"}, [driver])
    assert [(p["name"], p["running"], p["next"], p["blocking"]) for p in found["pending"]] == [("nmlx5-core", "4.19.16.10-1vmw", "4.21.71.101-1OEM", False)]


def test_newer_is_as_good_and_never_replaced_silently():
    assert plan({"mft": NEWER, "nmst": NEWER})["install"] == []
    exact = dict(MFT, at_least=False)
    with pytest.raises(RdmaError) as err:
        plan({"mft": NEWER}, packages=[exact])
    assert err.value.code == "DOWNGRADE" and NEWER in str(err.value)
    assert plan({"mft": NEWER}, packages=[exact], allow_downgrade=True)["install"] == [exact]
    assert plan({"mft": OLD}, packages=[exact])["install"] == [exact]


def test_absent():
    assert plan({"mft": RIGHT}, state="absent")["remove"] == ["mft"]
    found = plan({"mft": RIGHT}, {}, state="absent")
    assert found["remove"] == [] and found["pending"][0]["next"] == ""
    assert plan({}, state="absent") == {"install": [], "remove": [], "pending": []}
    assert software_plan.remove_command(["mft", "nmst"]) == ["software", "vib", "remove", "-n", "mft", "-n", "nmst"]


def test_missing_sources_are_named_together_only_when_needed():
    bare = [dict(MFT, source=None), dict(NMST, source="")]
    with pytest.raises(RdmaError) as err:
        software_plan.require_sources(plan({}, packages=bare)["install"], "esxi01", {})
    assert "mft 4.18.1.14 or later" in str(err.value) and "nmst" in str(err.value)
    software_plan.require_sources(plan({"mft": RIGHT, "nmst": RIGHT}, packages=bare)["install"], "esxi01", {})


@pytest.mark.parametrize("change, text", [
    ({"source": "mft.vib"}, "under /var/log/vmware"), ({"checksum": "abc"}, "64 hex digits"), ({"name": "-n x"}, "no name of a VIB")])
def test_wrong_packages_are_refused(change, text):
    with pytest.raises(RdmaError, match=text):
        software_plan.check_packages([dict(MFT, **change)], "esxi01")
    with pytest.raises(RdmaError, match="2 times"):
        software_plan.check_packages([MFT, MFT], "esxi01")


ACCEPTANCE = """ [AcceptanceConfigError]
 VIB ACME_bootbank_tool_2.0.0-1's acceptance level is community, which is not compliant with the ImageProfile acceptance level partner
 To change the host acceptance level, use the 'esxcli software acceptance set' command.
 Please refer to the log file for more details.
"""


@pytest.mark.parametrize("secure, text", [(True, "keep this host, which boots with UEFI Secure Boot, from booting"),
                                          (False, "a later UEFI Secure Boot impossible")])
def test_acceptance_refusal_is_explained(secure, text):
    err = software_plan.explain(esxcli.error(ACCEPTANCE), "install VIBs", "esxi01", "PartnerSupported", secure)
    assert err.code == "ACCEPTANCE" and "CommunitySupported" in str(err) and "--force does not help" in str(err) and text in str(err)
    # ESXi 6 tags the same sentence otherwise
    other = software_plan.explain(esxcli.error(ACCEPTANCE.replace("AcceptanceConfigError", "DependencyError")), "install VIBs", "esxi01", "PartnerSupported",
                                  secure)
    assert other.code == "ACCEPTANCE"


@pytest.mark.parametrize("text, hint", [
    (" [InstallationError]\n Can not open /var/vmware/lifecycle/stageliveimage/data/p.t00\n", "reboot the host"),
    (" [MemoryError]\n \n", "RAM disk"), ("Got no data from process: LANG=en_US.UTF-8 /usr/lib/vmware/esxcli-software vib.install", "RAM disk"),
    (" [VibDownloadError]\n Failed to download VIB\n", "datastore is mounted"), (" [DependencyError]\n VIB a requires b, but not found\n", "in the same call")])
def test_other_refusals_get_a_way_out(text, hint):
    assert hint in str(software_plan.explain(esxcli.error(text), "install VIBs", "esxi01", "PartnerSupported", False))


def test_levels():
    assert software_plan.stronger("PartnerSupported", "CommunitySupported") and not software_plan.stronger("PartnerSupported", "VMwareCertified")
    assert not software_plan.stronger("", "CommunitySupported")
