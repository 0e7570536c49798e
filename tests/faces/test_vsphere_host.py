# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts in the lab's vCenter: passthrough, services, maintenance, reboot, switches; and what a real one refuses."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("pyVmomi")
from pyVmomi import vim, vmodl  # noqa: E402

from lab.site import DVS  # noqa: E402
from lab.vsphere.client import Site  # noqa: E402
from lab.world import OtherDevice, Passthru  # noqa: E402

CX5, CX4 = "0000:3b:00.0", "0000:18:00.0"


@pytest.fixture()
def site():
    with Site(4) as made:
        yield made
        assert made.defects() == []


def free(site, name):
    """Take the host's functions off the distributed switch that SR-IOV left."""
    site.world.hosts[name].dvs.clear()


def config(bdf, enabled, **more):
    return [vim.host.PciPassthruConfig(id=bdf, passthruEnabled=enabled, **more)]


def passthru(site, name, bdf):
    return next(one for one in site.host(name).config.pciPassthruInfo if one.id == bdf)


# ---- passthrough ------------------------------------------------------------------------------------------------------

def test_enabled_is_not_active_until_the_reboot(site):
    free(site, "esxi01")  # this host cannot rebind
    host = site.host("esxi01")
    assert not host.capability.deviceRebindWithoutRebootSupported
    host.configManager.pciPassthruSystem.UpdatePassthruConfig(config(CX5, True))
    info = passthru(site, "esxi01", CX5)
    assert (info.passthruEnabled, info.passthruActive) == (True, False)
    assert host.summary.rebootRequired
    site.run(host.EnterMaintenanceMode_Task(0))
    site.run(host.RebootHost_Task(False))
    site.until(lambda: host.runtime.connectionState == "connected")
    info = passthru(site, "esxi01", CX5)
    assert (info.passthruEnabled, info.passthruActive) == (True, True)
    assert not host.summary.rebootRequired


@pytest.mark.parametrize("apply_now, active", [(None, True), (True, True), (False, False)])
def test_a_host_that_rebinds_applies_at_once_unless_told_otherwise(site, apply_now, active):
    free(site, "esxi02")
    assert site.host("esxi02").capability.deviceRebindWithoutRebootSupported
    site.host("esxi02").configManager.pciPassthruSystem.UpdatePassthruConfig(config(CX5, True, applyNow=apply_now))
    info = passthru(site, "esxi02", CX5)
    assert (info.passthruEnabled, info.passthruActive) == (True, active)


def test_lost_passthrough_stays_enabled_and_pending(site):
    free(site, "esxi01")
    host = site.host("esxi01")
    host.configManager.pciPassthruSystem.UpdatePassthruConfig(config(CX5, True))
    site.world.set_fault("passthru_lost", "esxi01", times=1)
    site.run(host.RebootHost_Task(True))
    site.until(lambda: host.runtime.connectionState == "connected")
    assert passthru(site, "esxi01", CX5).passthruEnabled and not passthru(site, "esxi01", CX5).passthruActive
    assert host.summary.rebootRequired


def test_functions_in_use_are_refused_and_nothing_changes(site):
    system = site.host("esxi01").configManager.pciPassthruSystem
    with pytest.raises(vim.fault.HostConfigFault, match="distributed switch hpc-dvs"):
        system.UpdatePassthruConfig(config(CX5, True))
    free(site, "esxi01")
    with pytest.raises(vim.fault.HostConfigFault, match="virtual switch vSwitch0"):
        system.UpdatePassthruConfig(config(CX5, True) + config(CX4, True))
    assert not any(state.enabled for state in site.world.hosts["esxi01"].passthru.values())
    site.world.hosts["esxi01"].vswitch.clear()
    with pytest.raises(vim.fault.HostConfigFault, match="VMkernel adapter vmk0"):
        system.UpdatePassthruConfig(config(CX4, True))


@pytest.mark.parametrize("bdf, text", [("0000:00:1f.0", "not capable"), ("0000:ff:00.0", "no device")])
def test_devices_that_cannot(site, bdf, text):
    with pytest.raises(vim.fault.HostConfigFault, match=text):
        site.host("esxi01").configManager.pciPassthruSystem.UpdatePassthruConfig(config(bdf, True))


def test_a_host_without_vt_d_cannot_pass_anything_through(site):
    free(site, "esxi02")
    site.world.hosts["esxi02"].settings["vtd"] = False
    assert not any(one.passthruCapable for one in site.host("esxi02").config.pciPassthruInfo)
    with pytest.raises(vim.fault.HostConfigFault, match="not capable"):
        site.host("esxi02").configManager.pciPassthruSystem.UpdatePassthruConfig(config(CX5, True))


def test_labels_from_7_0_2_on(site):
    free(site, "esxi02")
    system = site.host("esxi02").configManager.pciPassthruSystem
    system.UpdatePassthruConfig(config(CX5.upper(), True, hardwareLabel="ib"))
    assert passthru(site, "esxi02", CX5).hardwareLabel == "ib"
    manager = site.host("esxi02").configManager.assignableHardwareManager
    override = manager.config.attributeOverride
    assert [(one.instanceId, one.value) for one in override] == [("pci:" + CX5, "ib")]
    override[0].value = "infiniband"
    manager.UpdateAssignableHardwareConfig(vim.host.AssignableHardwareConfig(attributeOverride=override))
    assert passthru(site, "esxi02", CX5).hardwareLabel == "infiniband"
    site.world.hosts["esxi02"].version = "7.0.1"
    system.UpdatePassthruConfig(config(CX5, True, hardwareLabel="ignored"))
    assert passthru(site, "esxi02", CX5).hardwareLabel is None
    assert site.world.hosts["esxi02"].passthru[CX5].label == "infiniband"


def test_a_device_of_a_running_vm_stays(site):
    host = site.world.hosts["esxi04"]  # already right: active
    site.reconfigure("vm04", deviceChange=[site.fixed("vm04", CX5)], memoryReservationLockedToMax=True)
    site.run(site.vm("vm04").PowerOnVM_Task())
    with pytest.raises(vim.fault.HostConfigFault, match="virtual machine vm04"):
        site.host("esxi04").configManager.pciPassthruSystem.UpdatePassthruConfig(config(CX5, False))
    assert host.passthru[CX5].enabled


def test_the_port_that_became_infiniband_is_no_nic(site):
    nics = {nic.pci: nic for nic in site.host("esxi01").config.network.pnic}
    assert set(nics) == {CX4, "0000:18:00.1", CX5, "0000:3b:00.1"} and nics[CX5].driver == "nmlx5_core"
    card = site.world.hosts["esxi01"].cards[1]
    card.config["LINK_TYPE_P1"].current = 1
    card.config["FORCE_ETH_PCI_SUBCLASS"].current = 0
    host = site.host("esxi01")
    assert CX5 not in {nic.pci for nic in host.config.network.pnic}
    assert next(one for one in host.hardware.pciDevice if one.id == CX5).classId == 0x0207


# ---- power policy, services, modules, options, software ---------------------------------------------------------------

def test_power_policy(site):
    system = site.host("esxi01").configManager.powerSystem
    assert system.info.currentPolicy.shortName == "dynamic"
    assert [(one.key, one.shortName) for one in system.capability.availablePolicy] == [(1, "static"), (2, "dynamic"), (3, "low"), (4, "custom")]
    system.ConfigurePowerPolicy(1)
    assert site.host("esxi01").config.powerSystemInfo.currentPolicy.shortName == "static"
    with pytest.raises(vim.fault.HostConfigFault):
        system.ConfigurePowerPolicy(9)


def test_ssh_service_follows_and_tells(site):
    told = []
    site.world.watch(lambda kind, name: told.append((kind, name, site.world.hosts["esxi01"].ssh_up)))
    system = site.host("esxi01").configManager.serviceSystem

    def ssh():
        return next(one for one in system.serviceInfo.service if one.key == "TSM-SSH")
    assert (ssh().running, ssh().policy, list(ssh().ruleset)) == (True, "off", ["sshServer"])
    system.StopService("TSM-SSH")
    assert not ssh().running and told == [("host", "esxi01", False)]
    with pytest.raises(vim.fault.InvalidState):
        system.StopService("TSM-SSH")
    system.StartService("TSM-SSH")
    with pytest.raises(vim.fault.InvalidState):
        system.StartService("TSM-SSH")
    system.RestartService("TSM-SSH")
    system.UpdateServicePolicy("TSM-SSH", "on")
    assert (ssh().running, ssh().policy) == (True, "on")
    with pytest.raises(vim.fault.NotFound):
        system.StartService("sshd")
    with pytest.raises(vmodl.fault.InvalidArgument):
        system.UpdateServicePolicy("TSM-SSH", "always")


def test_module_options_are_the_configured_ones(site):
    system = site.host("esxi01").configManager.kernelModuleSystem
    assert "max_vfs=0,0,16,16" in system.QueryConfiguredModuleOptionString("nmlx5_core")
    system.UpdateModuleOptionString("nmlx5_core", "pfctx=0x08")
    assert site.world.hosts["esxi01"].module_options["nmlx5_core"] == "pfctx=0x08"
    running = next(one for one in system.QueryModules() if one.name == "nmlx5_core")
    assert "max_vfs" in running.optionString  # until the next boot
    with pytest.raises(vim.fault.NotFound):
        system.UpdateModuleOptionString("nmlx9_core", "")


def test_advanced_options(site):
    options = site.host("esxi01").configManager.advancedOption
    assert options.QueryOptions("UserVars.SuppressShellWarning")[0].value == 0
    assert len(options.QueryOptions("VMkernel.")) == 2
    options.UpdateOptions([vim.option.OptionValue(key="UserVars.SuppressShellWarning", value=1)])
    assert site.world.hosts["esxi01"].settings["options"]["UserVars.SuppressShellWarning"] == 1
    for key, value, fault in (("UserVars.Nothing", 1, vim.fault.InvalidName), ("UserVars.SuppressShellWarning", "one", vmodl.fault.InvalidArgument)):
        with pytest.raises(fault):
            options.UpdateOptions([vim.option.OptionValue(key=key, value=value)])


def test_software_and_acceptance(site):
    manager = site.host("esxi02").configManager.imageConfigManager
    packages = {one.name: one for one in manager.FetchSoftwarePackages()}
    assert packages["mft"].version == "4.18.1.14-0" and packages["mft"].acceptanceLevel == "partner"
    assert manager.HostImageConfigGetAcceptance() == "partner"
    with pytest.raises(vim.fault.HostConfigFault, match="mft"):
        manager.UpdateHostImageAcceptanceLevel("vmware_certified")
    manager.UpdateHostImageAcceptanceLevel("community")
    assert site.world.hosts["esxi02"].acceptance == "CommunitySupported"


def test_lockdown(site):
    manager = site.host("esxi01").configManager.hostAccessManager
    manager.ChangeLockdownMode("lockdownNormal")
    assert site.host("esxi01").config.lockdownMode == "lockdownNormal" and site.world.hosts["esxi01"].lockdown == "lockdownNormal"
    with pytest.raises(vim.fault.HostConfigFault):
        site.host("esxi01").EnterLockdownMode()
    site.host("esxi01").ExitLockdownMode()
    assert manager.lockdownMode == "lockdownDisabled"


# ---- maintenance mode and reboot --------------------------------------------------------------------------------------

def test_maintenance_moves_the_agent_vm_and_refuses_twice(site):
    host = site.host("esxi01")
    assert site.vm("vCLS-4c4c4544-0001").runtime.host.name == "esxi01"
    site.run(host.EnterMaintenanceMode_Task(0))
    assert host.runtime.inMaintenanceMode and site.vm("vCLS-4c4c4544-0001").runtime.host.name != "esxi01"
    assert site.vm("vCLS-4c4c4544-0001").runtime.powerState == "poweredOn"
    with pytest.raises(vim.fault.InvalidState):
        site.run(host.EnterMaintenanceMode_Task(0))
    with pytest.raises(vim.fault.InvalidState, match="maintenance"):
        site.run(site.vm("vm01").PowerOnVM_Task())
    site.run(host.ExitMaintenanceMode_Task(0))
    with pytest.raises(vim.fault.InvalidState):
        site.run(host.ExitMaintenanceMode_Task(0))


def test_maintenance_hangs_until_the_vm_is_off(site):
    host, vm = site.host("esxi01"), site.vm("vm01")
    site.run(vm.PowerOnVM_Task())
    task = host.EnterMaintenanceMode_Task(0)
    time.sleep(0.2)
    assert task.info.state == "running" and not host.runtime.inMaintenanceMode
    with pytest.raises(vim.fault.InvalidState):  # nothing powers on meanwhile
        site.world.vms["vm02"].host = "esxi01"
        site.run(site.vm("vm02").PowerOnVM_Task())
    site.run(vm.PowerOffVM_Task())
    site.run(task)
    assert host.runtime.inMaintenanceMode


def test_maintenance_times_out_or_is_cancelled(site):
    host = site.host("esxi01")
    site.run(site.vm("vm01").PowerOnVM_Task())
    with pytest.raises(vim.fault.Timedout):
        site.run(host.EnterMaintenanceMode_Task(1))
    task = host.EnterMaintenanceMode_Task(0)
    site.until(lambda: task.info.cancelable)
    task.CancelTask()
    with pytest.raises(vmodl.fault.RequestCanceled):
        site.run(task)
    assert not host.runtime.inMaintenanceMode


def test_agent_vms_come_back_unless_in_retreat_mode(site):
    agent = site.vm("vCLS-4c4c4544-0001")
    site.run(agent.PowerOffVM_Task())
    site.until(lambda: agent.runtime.powerState == "poweredOn")
    cluster = site.all(vim.ClusterComputeResource)[0]
    site.content.setting.UpdateOptions([vim.option.OptionValue(key="config.vcls.clusters.%s.enabled" % cluster._moId, value="false")])
    assert agent.runtime.powerState == "poweredOff"


def test_reboot_needs_maintenance_or_force(site):
    with pytest.raises(vim.fault.InvalidState):
        site.run(site.host("esxi01").RebootHost_Task(False))
    assert site.world.hosts["esxi01"].boots == 0


def test_the_tasks_success_is_not_the_host_back(site):
    site.world.hosts["esxi01"].boot_seconds = 0.4
    host = site.host("esxi01")
    before = host.runtime.bootTime
    site.run(host.RebootHost_Task(True))
    assert host.runtime.connectionState == "notResponding" and host.runtime.bootTime == before
    for call in (host.configManager.serviceSystem.RefreshServices, lambda: host.EnterMaintenanceMode_Task(0), site.vm("vm01").PowerOnVM_Task):
        with pytest.raises(vmodl.fault.HostNotConnected):
            call()
    assert site.vm("vm01").runtime.connectionState == "disconnected"
    site.until(lambda: host.runtime.connectionState == "connected")
    assert host.runtime.bootTime > before


def test_vcenter_may_notice_late_that_a_host_is_away():
    with Site(2, notice_delay=0.4) as site:
        site.world.hosts["esxi02"].boot_seconds = 1.0
        host = site.host("esxi02")
        before = host.runtime.bootTime
        site.run(host.RebootHost_Task(True))
        assert (host.runtime.connectionState, host.runtime.bootTime) == ("connected", before)  # success, connected, and not rebooted
        site.until(lambda: host.runtime.connectionState == "notResponding")
        site.until(lambda: host.runtime.connectionState == "connected")
        assert host.runtime.bootTime > before


def test_a_reboot_from_elsewhere_moves_the_agent_vm_too(site):
    site.world.reboot_host("esxi01", "test")
    agent = site.vm("vCLS-4c4c4544-0001")
    assert agent.runtime.powerState == "poweredOn" and agent.runtime.host.name != "esxi01"


def test_a_host_that_stays_down(site):
    site.world.set_fault("stays_down", "esxi01", times=1)
    host = site.host("esxi01")
    site.run(host.RebootHost_Task(True))
    time.sleep(0.3)
    assert host.runtime.connectionState == "notResponding" and host.overallStatus == "red"


# ---- distributed switch -----------------------------------------------------------------------------------------------

def switch(site):
    return site.all(vim.DistributedVirtualSwitch)[0]


def member(host, operation, names=()):
    backing = vim.dvs.HostMember.PnicBacking(pnicSpec=[vim.dvs.HostMember.PnicSpec(pnicDevice=name) for name in names])
    return vim.dvs.HostMember.ConfigSpec(operation=operation, host=host, backing=None if operation == "remove" else backing)


def change(site, *members, version=None):
    dvs = switch(site)
    return site.run(dvs.ReconfigureDvs_Task(vim.DistributedVirtualSwitch.ConfigSpec(configVersion=version or dvs.config.configVersion, host=list(members))))


def test_uplinks_can_be_taken_away(site):
    dvs, host = switch(site), site.host("esxi01")
    assert {one.name for one in dvs.portgroup} == {"hpc-ib-sriov", "hpc-roce-sriov", "hpc-dvs-DVUplinks-20"}
    assert [one.name for one in dvs.config.uplinkPortgroup] == ["hpc-dvs-DVUplinks-20"]
    row = next(one for one in dvs.config.host if one.config.host == host)
    assert [pnic.pnicDevice for pnic in row.config.backing.pnicSpec] == ["vmnic2", "vmnic3"]
    before = dvs.config.configVersion
    change(site, member(host, "edit", ["vmnic3"]))
    assert site.world.hosts["esxi01"].dvs == {DVS: ["0000:3b:00.1"]} and dvs.config.configVersion != before
    assert list(host.config.network.proxySwitch[0].pnic) == ["key-vim.host.PhysicalNic-vmnic3"]
    change(site, member(host, "remove"))
    assert site.world.hosts["esxi01"].dvs == {} and not host.config.network.proxySwitch
    assert host not in [one.config.host for one in dvs.config.host]


def test_a_stale_switch_version_is_refused(site):
    stale = switch(site).config.configVersion
    change(site, member(site.host("esxi01"), "remove"))
    with pytest.raises(vim.fault.ConcurrentAccess):
        change(site, member(site.host("esxi02"), "remove"), version=stale)
    assert DVS in site.world.hosts["esxi02"].dvs


def test_members_are_checked_all_before_one_changes(site):
    with pytest.raises(vim.fault.NotFound):  # esxi04 is no member
        change(site, member(site.host("esxi01"), "remove"), member(site.host("esxi04"), "remove"))
    assert DVS in site.world.hosts["esxi01"].dvs
    with pytest.raises(vim.fault.ResourceInUse, match="vSwitch0"):
        change(site, member(site.host("esxi01"), "edit", ["vmnic0", "vmnic2", "vmnic3"]))
    site.world.hosts["esxi01"].vmk_uplinks["vmk2"] = [CX5]
    with pytest.raises(vim.fault.ResourceInUse):
        change(site, member(site.host("esxi01"), "remove"))
    with pytest.raises(vim.fault.ResourceInUse):
        change(site, member(site.host("esxi01"), "edit", ["vmnic3"]))


# ---- devices that move together, faults that a call declares ---------------------------------------------------------

def test_devices_with_one_dependent_device_switch_together(site):
    host = site.world.hosts["esxi02"]
    for number in (0, 1):
        host.others.append(OtherDevice("0000:af:00.%d" % number, 0x10DE, 0x1DB1, "GPU", "NVIDIA Corporation", dependent="0000:ae:00.0"))
        host.passthru["0000:af:00.%d" % number] = Passthru()
    assert host.rebind
    rows = {info.id: info for info in site.host("esxi02").config.pciPassthruInfo}
    assert rows["0000:af:00.0"].dependentDevice == rows["0000:af:00.1"].dependentDevice == "0000:ae:00.0"
    for given, enabled in (("0000:ae:00.0", True), ("0000:af:00.1", False)):
        site.host("esxi02").configManager.pciPassthruSystem.UpdatePassthruConfig([vim.host.PciPassthruConfig(id=given, passthruEnabled=enabled)])
        rows = {info.id: info for info in site.host("esxi02").config.pciPassthruInfo}
        assert [(rows["0000:af:00.%d" % n].passthruEnabled, rows["0000:af:00.%d" % n].passthruActive) for n in (0, 1)] == [(enabled, enabled)] * 2
    assert not rows["0000:3b:00.0"].passthruEnabled


@pytest.mark.parametrize("system,call,fault", [
    ("pciPassthruSystem", lambda one: one.UpdatePassthruConfig([vim.host.PciPassthruConfig(id="0000:3b:00.0", passthruEnabled=False)]), "HostConfigFault"),
    ("powerSystem", lambda one: one.ConfigurePowerPolicy(1), "HostConfigFault"), ("serviceSystem", lambda one: one.StartService("TSM-SSH"), "InvalidState")])
def test_a_call_ends_with_a_fault_that_it_declares(site, system, call, fault):
    manager = getattr(site.host("esxi01").configManager, system)
    site.world.hosts["esxi01"].services["TSM-SSH"].running = False
    method = {"pciPassthruSystem": "UpdatePassthruConfig", "powerSystem": "ConfigurePowerPolicy", "serviceSystem": "StartService"}[system]
    site.world.set_fault("call_fault", "esxi01", method=method, fault="vim.fault." + fault, times=1, message="The host is busy.")
    with pytest.raises(getattr(vim.fault, fault), match="busy"):
        call(manager)
    call(manager)
