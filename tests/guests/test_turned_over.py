# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""rdma_link where something else than NetworkManager keeps the network: one guest is turned over to each in turn and rebooted once with each."""

from __future__ import annotations

import pytest

# The socket of systemd-networkd would start it again at the next change of a device.
CLEAN = ("rm -f /etc/NetworkManager/system-connections/vhpc-* /etc/systemd/network/*vhpc* /etc/netplan/*.yaml /etc/network/interfaces.d/vhpc*; "
         "systemctl unmask networking; systemctl disable NetworkManager systemd-networkd networking; "
         "systemctl stop systemd-networkd.socket systemd-networkd NetworkManager; ")
TURN = {
    "networkd": "systemctl enable --now systemd-networkd",
    "netplan": "printf 'network:\\n  version: 2\\n  renderer: networkd\\n' > /etc/netplan/01-base.yaml; chmod 600 /etc/netplan/01-base.yaml; "
               "systemctl enable --now systemd-networkd",
    "ifupdown": "systemctl enable networking",
}


@pytest.mark.parametrize("backend", list(TURN))
def test_address_and_mtu_persist(road, site, backend):
    guest = site.guests[1]
    device = guest.run("cat /sys/class/infiniband/rxe0/parent").stdout.strip()
    guest.run(CLEAN + TURN[backend], check=False)
    guest.run("ip addr flush dev %s; ip link set %s mtu 1500" % (device, device))
    wanted = dict(address=guest.address + "/24", mtu=9000)
    planned = site.module("rdma_link", guest, check=True, roce=wanted)
    first = site.module("rdma_link", guest, roce=wanted, timeout=120)
    assert not first.get("failed"), first
    assert first["backend"] == backend and first["changed"]
    assert [step["name"] for step in planned["changes"]] == [step["name"] for step in first["changes"]] == ["%s file" % backend, "address", "mtu"]
    guest.reboot()
    second = site.module("rdma_link", guest, roce=wanted, timeout=120)
    assert not second.get("failed"), second
    assert second["changed"] is False and second["ports"][0]["mtu"] == 9000 and second["ports"][0]["addresses"] == [guest.address + "/24"]
    assert second["ports"][0]["gid_index"] is not None
