# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m lab.guest --hosts 2 --dir DIR: the guests alone, booted, with both functions of their card attached.

For work on guest modules without the rest of the lab. --ofed starts them with MLNX_OFED installed and loaded.
"""

from __future__ import annotations

import argparse
import signal
import socket
import threading
from pathlib import Path

import asyncssh
import yaml

from .. import site
from ..world import PassthruDevice, World
from .server import GuestFace
from .tree import OFED_VERSION


def build(hosts: int, directory: Path, network: int, ofed: bool = False, port: int = 8022) -> World:
    """A world whose cards are right and whose VMs run."""
    world = site.build(hosts)
    world.guest_boot_seconds = 0.3
    for number, vm in enumerate(v for v in world.vms.values() if not v.vcls):
        host = world.hosts[vm.host]
        card = next(card for card in host.cards if card.vpi)
        for name, value in (("LINK_TYPE_P1", 1), ("LINK_TYPE_P2", 2), ("SRIOV_EN", 0), ("NUM_OF_VFS", 0), ("FORCE_ETH_PCI_SUBCLASS", 0),
                            ("ADVANCED_PCI_SETTINGS", 0)):
            card.config[name].current = card.config[name].next = value
        vm.devices = [PassthruDevice(13000 + n, card.function(n)) for n in range(2)]
        for device in vm.devices:
            host.passthru[device.bdf].enabled = host.passthru[device.bdf].active = True
        vm.guest.address, vm.guest.port = "127.%d.2.%d" % (network, number + 1), port
        vm.guest.root = str(directory / "guests" / vm.name)
        vm.guest.ofed = OFED_VERSION if ofed else ""
        vm.power, vm.guest.booted, vm.guest.boots, vm.guest.ofed_loaded = "on", True, 1, ofed
    return world


def start(hosts: int, directory: Path, network: int, ofed: bool = False, port: int = 8022) -> tuple[World, GuestFace, Path]:
    """World, face (listening) and the path of an inventory."""
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    world = build(hosts, directory, network, ofed, port)
    client, server = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
    key = directory / "id_ed25519"
    key.unlink(missing_ok=True)
    key.touch(0o600)
    key.write_bytes(client.export_private_key())
    known = directory / "known_hosts"
    vms = [vm for vm in world.vms.values() if not vm.vcls]
    known.write_text("".join("[%s]:%d %s\n" % (vm.guest.address, port, server.export_public_key().decode().strip()) for vm in vms))
    face = GuestFace(world, directory, client.export_public_key().decode(), server.export_private_key().decode())
    face.start()
    ssh = {"ansible_user": "root", "ansible_ssh_private_key_file": str(key), "ansible_ssh_pipelining": True, "ansible_python_interpreter": "/usr/bin/python3",
           "ansible_ssh_common_args": "-o UserKnownHostsFile=%s -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes" % known}
    hosts_of = {vm.name: {"ansible_host": vm.guest.address, "ansible_port": port, "vhpc_host": vm.host, "guest_root": vm.guest.root,
                          "vhpc_roce_address": "192.168.5.%d/24" % (n + 1), "vhpc_ib_address": "192.168.4.%d/24" % (n + 1)} for n, vm in enumerate(vms)}
    inventory = directory / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": {"guests": {"hosts": hosts_of, "vars": ssh}}}}, sort_keys=False))
    return world, face, inventory


def free_network(port: int = 8022) -> int:
    """A 127.N.0.0/16 below those of whole labs where nobody listens for guests."""
    for number in range(20, 60):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.%d.2.1" % number, port))
            except OSError:
                continue
            return number
    raise SystemExit("No free loopback network for the guests")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.guest", description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--network", type=int, default=0, help="the guests are 127.NETWORK.2.1 and so on (default: a free one)")
    parser.add_argument("--ofed", action="store_true")
    args = parser.parse_args()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *dummy: stopping.set())
    dummy, face, inventory = start(args.hosts, args.dir, args.network or free_network(), args.ofed)
    print("%d guests are up; inventory: %s" % (args.hosts, inventory), flush=True)
    stopping.wait()
    face.stop()


if __name__ == "__main__":
    main()
