# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A login straight to an ESXi host: one host, its own VMs, no cluster, and an API that goes down with it."""

from __future__ import annotations

import pytest

pytest.importorskip("pyVmomi")
from pyVim.connect import SmartConnect  # noqa: E402
from pyVmomi import vim  # noqa: E402

from lab.vsphere.client import Site  # noqa: E402
from lab.vsphere.direct import HostFace  # noqa: E402


@pytest.fixture()
def direct():
    with Site(2) as site:
        site.world.hosts["esxi02"].boot_seconds = 0.6
        with HostFace(site.world, site.face.directory, site.face.cert, site.face.key, "esxi02", strict=True) as face:
            def connect(password=site.world.hosts["esxi02"].password):
                return SmartConnect(host="127.0.0.1", port=face.port, user="root", pwd=password, disableSslCertValidation=True, httpConnectionTimeout=5)
            site.direct = connect
            yield site
        assert site.defects() == []


def entities(client, kind):
    return list(client.content.viewManager.CreateContainerView(client.content.rootFolder, [kind], True).view)


def test_it_knows_only_itself(direct):
    client = direct.direct()
    about = client.content.about
    assert (about.apiType, about.productLineId, about.version) == ("HostAgent", "embeddedEsx", "7.0.2")
    assert client.content.customFieldsManager is None and client._stub.version == "vim.version.v7_0_2_0"
    host, = entities(client, vim.HostSystem)
    assert host.name == "esxi02" and not isinstance(host.parent, vim.ClusterComputeResource)
    assert [vm.name for vm in entities(client, vim.VirtualMachine)] == ["vm02"]
    assert entities(client, vim.DistributedVirtualSwitch) == [] and host.config.network.proxySwitch[0].dvsName == "hpc-dvs"
    direct.world.hosts["esxi02"].dvs.clear()
    host.configManager.pciPassthruSystem.UpdatePassthruConfig([vim.host.PciPassthruConfig(id="0000:3b:00.0", passthruEnabled=True)])
    assert next(one for one in direct.host("esxi02").config.pciPassthruInfo if one.id == "0000:3b:00.0").passthruActive


def test_it_goes_down_with_the_host(direct):
    client = direct.direct()
    host, = entities(client, vim.HostSystem)
    host.RebootHost_Task(True)

    def away():
        try:
            return host.runtime.bootTime is None
        except (OSError, vim.fault.NotAuthenticated):
            return True
    direct.until(away)

    def back():
        try:
            return host.runtime.bootTime is None
        except vim.fault.NotAuthenticated:  # it is up again, and knows no session of before
            return True
        except OSError:
            return False
    direct.until(back)
    assert entities(direct.direct(), vim.HostSystem)[0].runtime.connectionState == "connected"


def test_lockdown_keeps_root_out(direct):
    direct.world.hosts["esxi02"].lockdown = "lockdownNormal"
    with pytest.raises(vim.fault.InvalidLogin):
        direct.direct()
    with pytest.raises(vim.fault.InvalidLogin):
        direct.direct("wrong")
