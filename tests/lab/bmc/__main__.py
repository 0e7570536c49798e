# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m lab.bmc --hosts 2 --dir DIR: the BMCs alone, for work on bios_settings. --vendor HPE makes them iLOs."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

import yaml

from .. import site
from ..world import World
from . import registry
from .server import BmcFace


def make_hpe(world: World) -> None:
    """Turn every BMC into an HPE one."""
    for host in world.hosts.values():
        if host.bmc:
            host.vendor = host.bmc.vendor = "HPE"
            host.model, host.bmc.current, host.bmc.pending, host.bmc.jobs = "ProLiant DL380 Gen10", dict(registry.HPE_CURRENT), {}, []


def start(hosts: int, directory: Path, network: int, vendor: str = "Dell", port: int = 8443) -> tuple[World, BmcFace, Path]:
    from ..lab import certificate  # imports every face, which only this starter needs

    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    world = site.build(hosts)
    if vendor == "HPE":
        make_hpe(world)
    for number, host in enumerate(world.hosts.values()):
        assert host.bmc is not None
        host.bmc.address, host.bmc.port = "127.%d.3.%d" % (network, number + 1), port
    ca, cert, key = certificate(directory, [host.bmc.address for host in world.hosts.values() if host.bmc])
    face = BmcFace(world, cert, key)
    face.start()
    rows = {host.name: {"ansible_host": "127.0.0.1", "vhpc_bmc": {"baseuri": "%s:%d" % (host.bmc.address, host.bmc.port), "username": "root",
                                                                  "password": host.bmc.password,
                                                                  "ca_file": str(ca)}} for host in world.hosts.values() if host.bmc}
    inventory = directory / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"children": {"esxi": {"hosts": rows}}}}, sort_keys=False))
    return world, face, inventory


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.bmc", description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--network", type=int, default=61, help="the BMCs are 127.NETWORK.3.1 and so on (default 61)")
    parser.add_argument("--vendor", choices=["Dell", "HPE"], default="Dell")
    args = parser.parse_args()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *dummy: stopping.set())
    dummy, face, inventory = start(args.hosts, args.dir, args.network, args.vendor)
    print("%d BMCs are up; inventory: %s" % (args.hosts, inventory), flush=True)
    stopping.wait()
    face.stop()


if __name__ == "__main__":
    main()
