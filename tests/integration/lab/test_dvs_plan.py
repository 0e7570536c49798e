# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Before the ports leave a distributed switch, the plan names the switch, its port groups and what the host keeps of it."""

from __future__ import annotations

import pytest

from lab.vsphere.rig import Lab


@pytest.mark.parametrize("consent", [False, True])
def test_the_plan_names_switch_port_groups_and_uplinks(tmp_path, consent):
    site = Lab(tmp_path, 1)
    try:
        before = site.world.dump()["hosts"]["esxi01"]["dvs"]
        planned = site.ok("dvs_uplinks", devices=[{"id": "15b3:1017"}], consent=consent, check=True)
        assert site.world.dump()["hosts"]["esxi01"]["dvs"] == before and len(planned["changes"]) == 2
        for step, vmnic in zip(planned["changes"], ("vmnic2", "vmnic3")):
            assert step["thing"] == "distributed switch hpc-dvs" and vmnic in step["name"]
            assert "hpc-ib-sriov" in step["reason"] and "no uplink of this host is left" in step["reason"]
            assert ("needs consent" in step["reason"]) is not consent and step["certainty"] == ("sure" if consent else "conditional")
    finally:
        site.face.stop()
