# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SSH of an ESXi host: lockdown mode, and whose state is put back."""

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


def test_only_what_the_first_run_found_is_put_back(tmp_path):
    """A run that ended without putting SSH back, and one after it that wants another policy: the site's own state is the first one's."""
    site = Lab(tmp_path, 1)
    try:
        service = site.world.hosts["esxi01"].services["TSM-SSH"]
        service.running, service.policy = False, "automatic"
        state = dict(state_file=str(tmp_path / "esxi01.json"))
        for policy in ("on", "off"):
            assert site.ok("esxi_service", running=True, policy=policy, **state)["changed"]
        assert (service.running, service.policy) == (True, "off")
        assert site.ok("esxi_service", restore=True, **state)["restored"]
        assert (service.running, service.policy) == (False, "automatic") and not (tmp_path / "esxi01.json").exists()
    finally:
        site.face.stop()
