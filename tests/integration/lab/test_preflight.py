# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the user got wrong is told before the first change, on every host."""

from __future__ import annotations

from lab.harness import differences


def test_a_vm_that_does_not_exist_is_told_before_the_first_change(site):
    here = site(2)
    before = here.world.dump()
    first = here.run("site.yml", "-e", "vhpc_vm=nowhere", "--limit", "esxi")
    assert first.code != 0 and set(first.failed) == {"esxi01", "esxi02"}
    assert all("nowhere" in text and host in text for host, text in first.failed.items())
    assert differences(before, here.world.dump()) == []


def test_a_vm_that_does_not_fit_its_host_is_told_before_the_first_change(site):
    here = site(2)
    before = here.world.dump()
    first = here.run("site.yml", "-e", "vsphere_memory_mb=4194304", "--limit", "esxi")
    assert first.code != 0 and set(first.failed) == {"esxi01", "esxi02"}
    assert all("4194304 MB" in text or "memory" in text.lower() for text in first.failed.values()), first.failed
    assert differences(before, here.world.dump()) == []
