# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lockdown mode of an ESXi host."""

from __future__ import annotations

from lab import kinds
from lab.vsphere.rig import Lab


def test_lockdown_mode_is_explained_and_left_alone(tmp_path):
    site = Lab(tmp_path, 2)
    try:
        host = kinds.host(site.world, "esxi01", "lockdown")
        host.services["TSM-SSH"].running = False
        result = site.ok("esxi_service", running=True)
        assert result["lockdown"] == "lockdownNormal" and "exception users" in result["warnings"][0] and "transport: vcenter" in result["warnings"][0]
        assert host.lockdown == "lockdownNormal"
        assert "warnings" not in site.ok("esxi_service", "esxi02", running=True)
    finally:
        site.face.stop()
