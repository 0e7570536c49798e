# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions, look-ups, the property collector and tasks of the lab's vCenter, through pyVmomi over real HTTPS."""

from __future__ import annotations

import threading
import time

import pytest

pytest.importorskip("pyVmomi")
from pyVim.connect import Disconnect  # noqa: E402
from pyVmomi import VmomiSupport, vim, vmodl  # noqa: E402

from lab.vsphere.client import Site  # noqa: E402

Q = vmodl.query.PropertyCollector


@pytest.fixture()
def site():
    with Site(4) as made:
        yield made
        assert made.defects() == []


def bulk(site, kind, paths, size=None):
    """All objects of a kind by one traversal from a view, page by page."""
    view = site.content.viewManager.CreateContainerView(site.content.rootFolder, [kind], True)
    walk = Q.TraversalSpec(name="walk", path="view", skip=False, type=vim.view.ContainerView)
    spec = Q.FilterSpec(objectSet=[Q.ObjectSpec(obj=view, skip=True, selectSet=[walk])], propSet=[Q.PropertySpec(type=kind, pathSet=paths)])
    page = site.content.propertyCollector.RetrievePropertiesEx([spec], Q.RetrieveOptions(maxObjects=size))
    pages = [page]
    while page.token:
        page = site.content.propertyCollector.ContinueRetrievePropertiesEx(page.token)
        pages.append(page)
    return pages


def test_login_is_needed_and_checked(site):
    with pytest.raises(vim.fault.InvalidLogin):
        site.connect(password="wrong")
    client = site.connect()
    Disconnect(client)
    with pytest.raises(vim.fault.NotAuthenticated):
        client.content.rootFolder.childEntity.__len__()


def test_current_session_belongs_to_the_connection(site):
    other = site.connect()
    mine, theirs = site.content.sessionManager.currentSession, other.content.sessionManager.currentSession
    assert mine.key != theirs.key
    assert site.content.sessionManager.SessionIsActive(theirs.key, theirs.userName)


@pytest.mark.parametrize("version, spoken", [("7.0.3.0", "vim.version.v7_0_3_0"), ("8.0.3.0", "vim.version.v8_0_3_0"),
                                             ("10.0.0.0", VmomiSupport.newestVersions.Get("vim"))])
def test_the_advertised_version_is_what_clients_speak(version, spoken):
    with Site(1, version=version) as site:
        assert site.client._stub.version == spoken
        assert site.host("esxi01").config.pciPassthruInfo


def test_the_tree_has_the_sites_names(site):
    content = site.content
    assert content.rootFolder.name == "Datacenters"
    found = content.searchIndex.FindByInventoryPath("HPC/host/hpc-cluster/esxi03")
    assert found.name == "esxi03" and isinstance(found.parent, vim.ClusterComputeResource)
    assert content.searchIndex.FindByInventoryPath("HPC/vm/vm02").runtime.host.name == "esxi02"
    assert content.searchIndex.FindByInventoryPath("HPC/vm/nothing") is None
    assert content.searchIndex.FindByUuid(None, site.world.vms["vm03"].uuid, True).name == "vm03"
    assert content.searchIndex.FindByDnsName(None, "esxi04", False).name == "esxi04"
    assert sorted(vm.name for vm in site.all(vim.VirtualMachine)) == ["vCLS-4c4c4544-0001", "vm01", "vm02", "vm03", "vm04"]


def test_bulk_read_in_pages(site):
    pages = bulk(site, vim.HostSystem, ["name", "runtime.connectionState", "config.pciPassthruInfo", "hardware.pciDevice"], size=3)
    assert [len(page.objects) for page in pages] == [3, 1]
    rows = {prop.val for page in pages for one in page.objects for prop in one.propSet if prop.name == "name"}
    assert rows == {"esxi01", "esxi02", "esxi03", "esxi04"}
    state = next(prop.val for prop in pages[0].objects[0].propSet if prop.name == "runtime.connectionState")
    assert isinstance(state, vim.HostSystem.ConnectionState)  # not a bare string
    devices = next(prop.val for prop in pages[0].objects[0].propSet if prop.name == "hardware.pciDevice")
    assert [(d.id, d.vendorId & 0xFFFF, d.deviceId & 0xFFFF) for d in devices if d.vendorId & 0xFFFF == 0x15B3] == [
        ("0000:18:00.0", 0x15B3, 0x1015), ("0000:18:00.1", 0x15B3, 0x1015), ("0000:3b:00.0", 0x15B3, 0x1017), ("0000:3b:00.1", 0x15B3, 0x1017)]
    assert next(d for d in devices if d.vendorId & 0xFFFF == 0x8086).vendorId == 0x8086 - 0x10000  # xsd:short is signed


def test_wrong_paths_and_gone_objects_are_told(site):
    with pytest.raises(vmodl.query.InvalidProperty):
        bulk(site, vim.HostSystem, ["name.first"])
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        vim.HostSystem("host-9999", site.client._stub).name.upper()
    with pytest.raises(vmodl.fault.MethodNotFound):
        site.host("esxi01").ShutdownHost_Task(True)


def test_strict_refuses_what_is_not_modelled_and_lenient_says_so():
    with Site(1, strict=True) as site:
        with pytest.raises(vmodl.query.InvalidProperty):
            site.host("esxi01").datastoreBrowser.__class__
        assert [line["name"] for line in site.notes("unmodelled property")] == ["vim.HostSystem.datastoreBrowser"]
    with Site(1, strict=False) as site:
        assert site.host("esxi01").datastoreBrowser is not None
        assert site.notes("unmodelled property")


def test_filters_tell_changes_until_the_wait_ends(site):
    host, collector = site.host("esxi01"), site.content.propertyCollector
    spec = Q.FilterSpec(objectSet=[Q.ObjectSpec(obj=host)], propSet=[Q.PropertySpec(type=vim.HostSystem, pathSet=["runtime.inMaintenanceMode", "name"])])
    made = collector.CreateFilter(spec, True)
    first = collector.WaitForUpdatesEx("", Q.WaitOptions(maxWaitSeconds=1))
    assert first.filterSet[0].objectSet[0].kind == "enter"
    assert {change.name: change.val for change in first.filterSet[0].objectSet[0].changeSet} == {"runtime.inMaintenanceMode": False, "name": "esxi01"}
    assert collector.WaitForUpdatesEx(first.version, Q.WaitOptions(maxWaitSeconds=0)) is None

    def change():
        with site.world.lock:
            site.world.hosts["esxi01"].maintenance = True
    threading.Timer(0.1, change).start()
    second = collector.WaitForUpdatesEx(first.version, Q.WaitOptions(maxWaitSeconds=5))
    changes = second.filterSet[0].objectSet[0].changeSet
    assert [(one.name, one.val) for one in changes] == [("runtime.inMaintenanceMode", True)]
    made.DestroyPropertyFilter()
    assert collector.CheckForUpdates(second.version) is None


def test_logout_drops_views_and_filters(site):
    client = site.connect()
    client.content.viewManager.CreateContainerView(client.content.rootFolder, [vim.HostSystem], True)
    view = site.content.viewManager.CreateContainerView(site.content.rootFolder, [vim.HostSystem], True)
    Disconnect(client)
    assert [one._moId for one in site.content.viewManager.viewList] == [view._moId]


def test_an_expired_session_strikes_once(site):
    site.world.set_fault("session_expired", "esxi02", times=1)
    assert site.host("esxi01").name == "esxi01"
    with pytest.raises(vim.fault.NotAuthenticated):
        site.host("esxi02").summary.host.name.upper()
    client = site.connect()
    assert client.content.rootFolder.name == "Datacenters"
    site.client = client
    assert site.host("esxi02").name == "esxi02"


def test_a_task_fault_is_readable_and_counted(site):
    site.world.set_fault("task_fault", "vm01", times=1, fault="vim.fault.TaskInProgress", message="Another task is already in progress.")
    with pytest.raises(vim.fault.TaskInProgress, match="Another task"):
        site.reconfigure("vm01", numCPUs=4)
    assert site.world.vms["vm01"].cpus == 20
    site.reconfigure("vm01", numCPUs=4)
    assert site.world.vms["vm01"].cpus == 4
    site.world.set_fault("task_fault", "vm02", times=1)
    with pytest.raises(vmodl.fault.SystemError, match="host agent was lost"):
        site.run(site.vm("vm02").PowerOnVM_Task())
    assert site.world.vms["vm02"].power == "off"


def test_tasks_can_take_time():
    with Site(1, task_delay=1.5) as site:
        task = site.vm("vm01").PowerOnVM_Task()
        assert task.info.state == "running" and site.vm("vm01").recentTask[0]._moId == task._moId
        site.run(task)
        assert task.info.state == "success" and task.info.completeTime and site.vm("vm01").recentTask == []


def test_sixteen_workers_at_once():
    problems = []
    with Site(16) as site:
        def work(number):
            try:
                client = site.connect()
                host = next(one for one in client.content.viewManager.CreateContainerView(client.content.rootFolder, [vim.HostSystem], True).view
                            if one.name == "esxi%02d" % number)
                machine = host.vm[0]
                assert machine.name == "vm%02d" % number
                for wanted in ("poweredOn", "poweredOff"):
                    task = machine.PowerOnVM_Task() if wanted == "poweredOn" else machine.PowerOffVM_Task()
                    while task.info.state == "running":
                        time.sleep(0.01)
                    assert machine.runtime.powerState == wanted
                Disconnect(client)
            except Exception as exc:  # told by the main thread
                problems.append((number, exc))
        threads = [threading.Thread(target=work, args=[number]) for number in range(1, 17)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert problems == [] and time.monotonic() - started < 20
        assert site.defects() == []
