# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""python -m lab up: keeps the lab up and prints how to log in. python -m lab fault NAME HOST: switches a fault on."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import urllib.request
from pathlib import Path

from .world import FAULTS


def up(args: argparse.Namespace) -> int:
    from .lab import Lab  # the faces need the lab's requirements; the other commands do not

    lab = Lab(args.dir, args.hosts)
    lab.start()
    control = lab._faces[-1]
    for wish in args.fault:
        name, dummy, host = wish.partition("=")
        lab.world.set_fault(name, host or "esxi01")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *dummy: control.stopping.set())
    world = lab.world
    first, guest = next(iter(world.hosts.values())), next(v for v in world.vms.values() if not v.vcls)
    ssh = "ssh -i %s -o UserKnownHostsFile=%s -p" % (lab.client_key, lab.known_hosts)
    print("The rehearsal lab is up: %d ESXi hosts, %d VMs. Everything in it is simulated.\n" % (len(world.hosts), len(world.hosts)))
    print("  inventory   %s" % lab.inventory)
    print("  vCenter     https://%(address)s:%(port)d  user %(username)s  password %(password)s" % world.vcenter)
    print("              CA file %s" % lab.ca)
    print("  %-10s  %s %d root@%s" % (first.name, ssh, first.ssh_port, first.address))
    print("  %-10s  %s %d root@%s  (once its VM is on)" % (guest.name, ssh, guest.guest.port, guest.guest.address))
    if first.bmc:
        print("  BMC         https://%s:%d  user root  password %s" % (first.bmc.address, first.bmc.port, first.bmc.password))
    print("  faults      python -m lab --dir %s fault NAME HOST   names: %s" % (lab.directory, ", ".join(sorted(FAULTS))))
    print("\nStop it with Ctrl-C.", flush=True)
    try:
        control.stopping.wait()
    finally:
        lab.stop()
    return 0


def ask(directory: Path, path: str, data: dict | None = None):
    """Talk to the control door of the lab that runs in `directory`."""
    try:
        door = json.loads((directory / "lab.json").read_text())["control"]
    except FileNotFoundError:
        raise SystemExit("No lab runs in %s. Try: make lab" % directory) from None
    request = urllib.request.Request(door + path, None if data is None else json.dumps(data).encode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy: it is loopback
    with opener.open(request, timeout=10) as answer:
        return json.load(answer)


def main() -> int:
    parser = argparse.ArgumentParser(prog="lab", description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path("build/lab"), help="where keys, inventory and guests lie (default: build/lab)")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="start and keep up")
    start.add_argument("--hosts", type=int, default=16)
    start.add_argument("--fault", action="append", default=[], metavar="NAME=HOST")
    fault = commands.add_parser("fault", help="switch a fault on or off")
    fault.add_argument("name", choices=sorted(FAULTS))
    fault.add_argument("host")
    fault.add_argument("--off", action="store_true")
    fault.add_argument("--times", type=int)
    for name in ("world", "journal", "stop"):
        commands.add_parser(name)
    args = parser.parse_args()
    if args.command == "up":
        return up(args)
    if args.command == "fault":
        options = {"times": args.times} if args.times else {}
        print(json.dumps(ask(args.dir, "/fault", dict(options, name=args.name, host=args.host, off=args.off))["on"]))
    elif args.command == "stop":
        ask(args.dir, "/stop", {})
    else:
        json.dump(ask(args.dir, "/" + args.command), sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
