# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of recipes lists the privileges that the API declares for what the modules call, and knows every module of the group."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml
from pyVmomi import vim

TOP = pathlib.Path(__file__).resolve().parents[5]
PAGE = (TOP / "docs" / "docsite" / "rst" / "passthrough.rst").read_text(encoding="utf-8")
ROWS = {name: " ".join(text.split())
        for name, text in re.findall(r"\* - ``(\w+)``\n     - ((?:.|\n)*?)(?=\n   \* -|\n\n)", PAGE.partition("Least privileges")[2])}


@pytest.mark.parametrize("module,method", [
    ("host_passthru", vim.host.PciPassthruSystem.UpdatePassthruConfig), ("host_power_policy", vim.host.PowerSystem.ConfigurePolicy),
    ("esxi_reboot", vim.HostSystem.EnterMaintenanceMode), ("esxi_reboot", vim.HostSystem.Reboot), ("esxi_service", vim.host.ServiceSystem.Start),
    ("esxi_service", vim.host.ServiceSystem.UpdatePolicy), ("vm_power", vim.VirtualMachine.PowerOn), ("vm_power", vim.VirtualMachine.ShutdownGuest),
    ("vm_clone", vim.VirtualMachine.Customize), ("vm_clone", vim.CustomizationSpecManager.GetCustomizationSpec)])
def test_declared_privileges_are_listed(module, method):
    assert "``%s``" % method.info.privId in ROWS[module]


def test_every_module_that_changes_something_through_vcenter_is_listed():
    group = yaml.safe_load((TOP / "meta" / "runtime.yml").read_text(encoding="utf-8"))["action_groups"]["vsphere"]
    for module in (name.rpartition(".")[2] for name in group):
        if (module.startswith(("vm_", "host_")) and not module.endswith("_info")) or module in ("dvs_uplinks", "esxi_reboot", "esxi_service"):
            assert module in ROWS, module
