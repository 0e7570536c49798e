# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""rdma_link where something else than NetworkManager keeps the network: guests are turned over to each in turn and rebooted once with each."""

from __future__ import annotations

import concurrent.futures

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
# Two guests, so two at a time: guest-01 and guest-02.
ROUNDS = (("networkd", "ifupdown"), ("netplan",))


@pytest.fixture(scope="module")
def turned(prepared):
    """backend -> what rdma_link says of the plan, of the run, and of a run after a reboot; with the guest."""
    link = ("rdma_link", dict(roce=dict(address="{{ vhpc_roce_address }}", mtu=9000), timeout=300))
    found = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for backends in ROUNDS:
            guests = prepared.guests[:len(backends)]
            for guest, backend in zip(guests, backends):
                device = guest.run("cat /sys/class/infiniband/rxe0/parent").stdout.strip()
                guest.run(CLEAN + TURN[backend], check=False)
                guest.run("ip addr flush dev %s; ip link set %s mtu 1500" % (device, device))
            planned, first = prepared.modules((link[0], True, link[1]), (link[0], False, link[1]), guests=guests)
            list(pool.map(lambda guest: guest.reboot(), guests))
            second = prepared.modules((link[0], False, link[1]), guests=guests)[0]
            for guest, backend in zip(guests, backends):
                found[backend] = (guest, planned[guest.name], first[guest.name], second[guest.name])
    return found


@pytest.mark.parametrize("backend", list(TURN))
def test_address_and_mtu_persist(turned, backend):
    guest, planned, first, second = turned[backend]
    assert not first.get("failed"), first
    assert first["backend"] == backend and first["changed"]
    assert [step["name"] for step in planned["changes"]] == [step["name"] for step in first["changes"]] == ["%s file" % backend, "address", "mtu"]
    assert not second.get("failed"), second
    assert second["changed"] is False and second["ports"][0]["mtu"] == 9000 and second["ports"][0]["addresses"] == [guest.address + "/24"]
    assert second["ports"][0]["gid_index"] is not None
