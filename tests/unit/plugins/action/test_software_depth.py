# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""esxi_software on hosts that are not as the paper's: components, an installation that somebody left, an image-managed cluster."""

from __future__ import annotations

import pytest

from ansible_collections.vhpc.rdma.tests.unit.plugins.action.rig import Rig
from lab import kinds, site
from lab.vsphere.client import Site
from lab.world import Vib

HOST = "esxi01"
MFT_FILE, NMST_FILE, DRIVER_FILE = ("/vmfs/volumes/%s/%s" % (site.DATASTORE, path) for path in site.FILES)
TOOLS = [{"name": "nmst", "version": "4.18.1.14", "source": NMST_FILE}, {"name": "mft", "version": "4.18.1.14", "source": MFT_FILE}]
DRIVER = [{"name": "nmlx5-core", "version": "4.21.71.101", "source": DRIVER_FILE}]


@pytest.fixture(name="rig")
def _rig():
    made = Rig(site.build(2))
    for host in made.world.hosts.values():
        host.boot_seconds = 0.01
    return made


@pytest.mark.parametrize("version", ["7.0.2", "8.0.3"])
def test_a_bundle_goes_in_as_component(rig, version):
    host = rig.world.hosts[HOST]
    if version == "8.0.3":
        kinds.host(rig.world, HOST, "esxi8")
    done = rig("esxi_software", HOST, packages=DRIVER, install_as="component")
    assert not done.get("failed"), done["msg"]
    assert "component apply -d" in done["results"][0]["command"] and done["reboot_required"] and done["results"][0]["installed"]
    assert host.staged["nmlx5-rdma"].version.startswith("4.21.71.101")
    rig.reboot(HOST)
    assert rig("esxi_software", HOST, packages=DRIVER, install_as="component")["changed"] is False


def test_a_vib_file_is_no_component(rig):
    done = rig("esxi_software", HOST, packages=TOOLS, install_as="component")
    assert "vib install -v" in done["results"][0]["command"]


def test_a_half_finished_installation_is_finished_and_nothing_is_installed_twice(rig):
    host = kinds.host(rig.world, HOST, "half-installed")
    planned = rig("esxi_software", HOST, check=True, packages=TOOLS)
    assert [step["thing"] for step in planned["changes"]] == ["VIB nmst"] and any("VIB mft" in reason for reason in planned["reboot_reasons"])
    done = rig("esxi_software", HOST, packages=TOOLS)
    assert done["changes"] == planned["changes"] and [vib for result in done["results"] for vib in result["installed"]] == [
        "MEL_bootbank_nmst_4.18.1.14-1OEM.700.1.0.15843807"]
    assert {"mft", "nmst"} <= set(host.staged) and done["blocking"] is True
    rig.reboot(HOST)
    after = rig("esxi_software", HOST, packages=TOOLS)
    assert (after["changed"], after["reboot_required"], after["warnings"]) == (False, False, [])


def test_what_somebody_else_left_for_the_next_boot_is_named(rig):
    host = rig.world.hosts[HOST]
    host.staged = dict(host.vibs, **{"odd-agent": Vib("odd-agent", "2.1-1", "ACME", "PartnerSupported")})
    del host.staged["ixgben"]
    warning = rig("esxi_software", HOST, check=True, packages=TOOLS)["warnings"][0]
    assert "odd-agent 2.1-1 (none runs)" in warning and "ixgben removed" in warning


@pytest.mark.parametrize("managed", [True, False])
def test_an_image_managed_cluster_is_warned_about_before_something_is_installed(managed):
    with Site(2) as lab:
        if managed:
            kinds.host(lab.world, HOST, "vlcm")
        vcenter = lab.world.vcenter
        login = dict(hostname=vcenter["address"], port=vcenter["port"], username=vcenter["username"], password=vcenter["password"], validate_certs=False)
        rig = Rig(lab.world)
        looked = rig("esxi_software", HOST, check=True, packages=TOOLS, **login)
        assert not looked.get("failed"), looked["msg"]
        assert any("remediation" in text and "nmst, mft" in text for text in looked["warnings"]) is managed
        assert rig("esxi_software", "esxi02", check=True, packages=TOOLS, **dict(login, port=1))["warnings"] == []  # nothing to install: nobody is asked


@pytest.mark.parametrize("transport", ["ssh", "vcenter"])
def test_one_upload_from_the_controller_serves_all_hosts(tmp_path, transport):
    with Site(2) as lab:
        vcenter, store = lab.world.vcenter, lab.world.datastores[site.DATASTORE]
        job = dict(hostname=vcenter["address"], port=vcenter["port"], username=vcenter["username"], password=vcenter["password"], validate_certs=False,
                   transport=transport, packages=[])
        for package, path in zip(TOOLS, (list(site.FILES)[1], list(site.FILES)[0])):
            local = tmp_path / path.split("/")[-1]
            local.write_bytes(store.pop(path).content)
            job["packages"].append(dict(package, local=str(local)))
        lab.world.hosts["esxi02"].vibs = dict(lab.world.hosts["esxi01"].vibs)
        rig = Rig(lab.world)
        planned = rig("esxi_software", HOST, check=True, **job)
        assert not planned.get("failed"), planned["msg"]
        assert [step["thing"] for step in planned["changes"]] == ["file " + NMST_FILE, "file " + MFT_FILE, "VIB nmst", "VIB mft"]
        done = rig("esxi_software", HOST, **job)
        assert done["changes"] == planned["changes"] and {"mft", "nmst"} <= set(lab.world.hosts[HOST].staged), done
        second = rig("esxi_software", "esxi02", **job)
        assert [step["thing"] for step in second["changes"]] == ["VIB nmst", "VIB mft"]
        assert len([entry for entry in lab.world.journal if entry["what"] == "upload"]) == 2
        job["packages"] = [dict(job["packages"][0], version="9.9", local="/nowhere.vib")]
        wrong = rig("esxi_software", "esxi02", **job)
        assert wrong["failed"] and "/nowhere.vib" in wrong["msg"]


def test_a_list_per_port_is_built_from_the_ports_that_are_there(rig):
    done = rig("nmlx_driver", "esxi02", options={"nmlx5_core": {"max_vfs": {"3b:00.1": 8}}})
    assert not done.get("failed"), done["msg"]
    assert rig.world.hosts["esxi02"].module_options["nmlx5_core"].startswith("max_vfs=0,0,0,8 ")  # 18:00.0, 18:00.1, 3b:00.0, 3b:00.1
    assert rig("nmlx_driver", "esxi02", options={"nmlx5_core": {"max_vfs": {"0000:3b:00.1": 8}}})["changed"] is False
    refused = rig("nmlx_driver", "esxi02", options={"nmlx5_core": {"max_vfs": {"0000:99:00.0": 8}}})
    assert refused["failed"] and "0000:99:00.0 is no port" in refused["msg"] and "0000:3b:00.1" in refused["msg"]


def test_inbox_and_async_driver_with_a_pinned_version(rig):
    kinds.host(rig.world, HOST, "esxi8-inbox-driver")
    job = dict(version="4.21.71.101", source=DRIVER_FILE)
    newer = rig("nmlx_driver", HOST, **job)
    assert newer["changed"] is False and set(newer["vibs"]) == {"nmlx5-core", "nmlx5-rdma", "nmlx5-cc"}
    refused = rig("nmlx_driver", HOST, at_least=False, **job)
    assert refused["failed"] and refused["error"]["code"] == "DOWNGRADE" and "4.23.6.2-7vmw" in refused["msg"]
    done = rig("nmlx_driver", HOST, at_least=False, allow_downgrade=True, install_as="component", **job)
    assert not done.get("failed"), done["msg"]
    assert done["vibs"]["nmlx5-core"] == {"running": "4.23.6.2-7vmw.803.0.0.24022510", "next": "4.21.71.101-1OEM.702.0.0.17630552"}
    assert "component apply" in done["results"][0]["command"]
    assert [step["thing"] for step in done["changes"]] == ["VIB nmlx5-core"]
