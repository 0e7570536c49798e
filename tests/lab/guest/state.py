# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guest's kernel would know now: its RDMA ports and network devices, derived from the world and from guest.extra.

guest.extra["net"] keeps per network device what was set since its driver loaded (MTU, admin state, addresses, connection);
guest.extra["nm"] the connection profiles NetworkManager has read. Callers hold world.lock.
"""

from __future__ import annotations

import configparser
import hashlib
import ipaddress
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..world import IB, Vm, World

LOOPBACK, MANAGEMENT = "lo", "ens192"
ETHERNET_MAX_MTU = 9978  # what mlx5 allows
VERBS_MTU = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
PROFILES = "etc/NetworkManager/system-connections"


@dataclass
class Netdev:
    """A network device; hw is its address as ip shows it, rdma the RDMA device it belongs to."""

    name: str
    kind: str  # loopback | ether | infiniband
    hw: str
    mtu: int
    index: int
    max_mtu: int = 9000
    up: bool = True
    carrier: bool = True
    addresses: list[str] = field(default_factory=list)  # "192.168.5.11/24"
    connection: str = ""
    rdma: str = ""
    bdf: str = ""

    @property
    def running(self) -> bool:
        return self.up and self.carrier

    def networks(self) -> list[ipaddress.IPv4Interface]:
        return [ipaddress.ip_interface(address) for address in self.addresses]


@dataclass
class RdmaPort:
    """Port 1 of an RDMA device: in a guest every device has one."""

    name: str
    bdf: str
    link: int
    guid: str
    mac: str
    firmware: str
    psid: str
    mt: int
    part: str
    speed: int
    state: int  # 1 DOWN, 2 INIT, 4 ACTIVE
    physical: int  # 2 Polling, 3 Disabled, 5 LinkUp
    lid: int
    sm_lid: int
    netdev: Netdev
    gids: list[tuple[int, str, str]] = field(default_factory=list)  # index, gid, type
    numa: int = 0

    @property
    def infiniband(self) -> bool:
        return self.link == IB

    @property
    def link_layer(self) -> str:
        return "InfiniBand" if self.infiniband else "Ethernet"

    @property
    def active_mtu(self) -> int:
        if self.infiniband:
            return self.netdev.max_mtu + 4
        return max(size for size in VERBS_MTU if size <= max(256, self.netdev.mtu - 58))

    @property
    def rate(self) -> str:
        return "%d Gb/sec (%s)" % (self.speed, {100: "4X EDR", 25: "1X EDR", 50: "2X EDR", 40: "4X QDR"}.get(self.speed, "4X"))

    def gid_index(self, gid_type: str = "RoCE v2") -> int | None:
        """The index perftest picks by itself: an IPv4 address before the link-local one, RoCE v2 before v1."""
        if self.infiniband:
            return 0
        rows = [(not gid.startswith("0000"), kind != gid_type, index) for index, gid, kind in self.gids]
        return min(rows)[2] if rows else None


STATES = {1: "DOWN", 2: "INIT", 4: "ACTIVE"}
PHYSICAL = {2: "Polling", 3: "Disabled", 5: "LinkUp"}


def dotted(guid: str) -> str:
    return ":".join(guid[n:n + 4] for n in range(0, 16, 4))


def eui64(mac: str) -> str:
    digits = mac.replace(":", "")
    return "%02x%s" % (int(digits[:2], 16) ^ 2, digits[2:6] + "fffe" + digits[6:])


def lid(world: World, vm: Vm) -> int:
    """What the subnet manager gave this guest's port: stable over reboots, as opensm keeps them."""
    return 0x12 + sorted(world.vms).index(vm.name)


def managed(world: World, vm: Vm) -> bool:
    """Whether a subnet manager sets this guest's port up."""
    return world.subnet_manager and world.fault("unmanaged_port", vm.name) is None


def net(vm: Vm) -> dict[str, dict[str, Any]]:
    return vm.guest.extra.setdefault("net", {})


def loaded(vm: Vm) -> bool:
    """Whether the drivers that show RDMA devices run: in this lab only those of an installed OFED do."""
    return vm.guest.booted and bool(vm.guest.extra.get("loaded"))


def srcversion(module: str, release: str) -> str:
    """What tells one build of a module from another, in modinfo and in /sys/module."""
    return hashlib.sha256(("%s %s" % (module, release)).encode()).hexdigest()[:23].upper()


def module_version(release: str) -> str:
    """5.4-3.0.3 of MLNX_OFED_LINUX-5.4-3.0.3.0."""
    return "-".join(release.rsplit("-", 2)[1:])[:9]


def netdevs(world: World, vm: Vm) -> list[Netdev]:
    address = vm.guest.address or "192.0.2.1"
    out = [Netdev(LOOPBACK, "loopback", "00:00:00:00:00:00", 65536, 1, 65536, addresses=["127.0.0.1/8"]),
           Netdev(MANAGEMENT, "ether", vm.mac, 1500, 2, addresses=["%s/24" % address], connection="Wired connection 1", bdf="0000:03:00.0")]
    if not loaded(vm):
        return out
    for device in world.rdma_devices(vm):
        port, kind = device["port"], "infiniband" if device["link"] == IB else "ether"
        if kind == "infiniband":
            digits = "fe80000000000000" + port.guid
            hw = "00:00:10:%02x:" % (0x29 + port.number) + ":".join(digits[n:n + 2] for n in range(0, 32, 2))
            top = world.fabric["infiniband"]["mtu"] - 4
            mtu = top
        else:
            hw, mtu, top = port.mac, 1500, ETHERNET_MAX_MTU
        own = net(vm).get(device["netdev"], {})
        out.append(Netdev(device["netdev"], kind, hw, own.get("mtu", mtu), len(out) + 1, top, own.get("up", True),
                          port.cabled and (kind != "infiniband" or managed(world, vm)), list(own.get("addresses", ())),
                          own.get("connection", ""), device["name"], device["guest_bdf"]))
    return out


def rdma_ports(world: World, vm: Vm) -> list[RdmaPort]:
    if not loaded(vm):
        return []
    by_rdma = {dev.rdma: dev for dev in netdevs(world, vm) if dev.rdma}
    out = []
    for device in world.rdma_devices(vm):
        card, port, dev = device["card"], device["port"], by_rdma[device["name"]]
        item = RdmaPort(device["name"], device["guest_bdf"], device["link"], port.guid, port.mac, card.firmware, card.psid, card.mt, card.part,
                        port.speed, 1, 5 if port.cabled else 2, 0, 0, dev)
        if item.infiniband:
            up = managed(world, vm)
            item.state = 1 if not port.cabled else 4 if up else 2
            item.lid, item.sm_lid = (lid(world, vm), 1) if up and port.cabled else (0xffff, 0)
            item.gids = [(0, "fe80:0000:0000:0000:" + dotted(port.guid), "IB/RoCE v1")]
        else:
            if not dev.up:
                item.physical = 3
            item.state = 4 if dev.running else 1
            gids = ["fe80:0000:0000:0000:" + dotted(eui64(port.mac))]
            for address in dev.networks():
                digits = "%08x" % int(address.ip)
                gids.append("0000:0000:0000:0000:0000:ffff:%s:%s" % (digits[:4], digits[4:]))
            item.gids = [(2 * n + half, gid, kind) for n, gid in enumerate(gids) for half, kind in enumerate(("IB/RoCE v1", "RoCE v2"))]
        out.append(item)
    return out


def find_netdev(world: World, vm: Vm, name: str) -> Netdev | None:
    return next((dev for dev in netdevs(world, vm) if dev.name == name), None)


def change(vm: Vm, name: str, **values: Any) -> None:
    net(vm).setdefault(name, {}).update(values)


# ---- NetworkManager ----------------------------------------------------------------------------------------------------

def _profile(path: Path) -> dict[str, Any] | None:
    """A keyfile as NetworkManager reads it; None when it refuses the file."""
    if path.stat().st_mode & 0o077:
        return None  # secrets may be in it: files that others can read are ignored
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#", ";"), strict=False)
    try:
        parser.read_string(path.read_text())
    except (configparser.Error, UnicodeDecodeError):
        return None
    if not parser.has_section("connection"):
        return None
    values = {section: dict(parser.items(section)) for section in parser.sections()}
    about = values["connection"]
    digest = hashlib.md5(str(path.name).encode(), usedforsecurity=False).hexdigest()
    return {"id": about.get("id", path.stem), "uuid": about.get("uuid") or str(uuid.UUID(digest)), "type": about.get("type", "ethernet"),
            "file": str(path), "values": values}


def load_profiles(vm: Vm) -> list[str]:
    """Read every keyfile again; returns the names of the ones that were refused."""
    folder = Path(vm.guest.root) / PROFILES
    found, refused = {}, []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith(".") or path.name.endswith(("~", ".swp")):
            continue
        profile = _profile(path)
        if profile:
            found[profile["uuid"]] = profile
        else:
            refused.append(path.name)
    vm.guest.extra["nm"] = found
    return refused


def profiles(vm: Vm) -> dict[str, dict[str, Any]]:
    return vm.guest.extra.setdefault("nm", {})


def matches(profile: dict[str, Any], dev: Netdev) -> bool:
    values = profile["values"]
    section = values.get("infiniband" if dev.kind == "infiniband" else "ethernet") or values.get("802-3-ethernet") or {}
    if profile["type"] not in ({"infiniband"} if dev.kind == "infiniband" else {"ethernet", "802-3-ethernet"}) or dev.kind == "loopback":
        return False
    name, mac = values["connection"].get("interface-name", ""), section.get("mac-address", "")
    return (not name or name == dev.name) and (not mac or mac.lower() == dev.hw.lower()) and bool(name or mac)


def activate(world: World, vm: Vm, profile: dict[str, Any], dev: Netdev) -> str:
    """Apply a profile to a device as NetworkManager does; returns why it could not, or nothing."""
    values = profile["values"]
    ipv4 = values.get("ipv4", {})
    section = values.get("infiniband" if dev.kind == "infiniband" else "ethernet") or values.get("802-3-ethernet") or {}
    method = ipv4.get("method", "auto")
    addresses = []
    for key, value in sorted(ipv4.items()):
        if key == "addresses" or (key.startswith("address") and key[7:].isdigit()):
            for part in value.split(";") if key == "addresses" else [value]:
                if part.strip():
                    addresses.append(str(ipaddress.ip_interface(part.split(",")[0].strip())))
    if method == "manual" and not addresses:
        return "method 'manual' requires at least an address"
    if method == "auto" and dev.name != MANAGEMENT:
        return "IP configuration could not be reserved (no available address, timeout, etc.)"
    if not dev.carrier:
        return "Connection activation failed: No carrier"
    mtu = int(section.get("mtu") or 0)
    own = net(vm).get(dev.name, {})
    default = dev.max_mtu if dev.kind == "infiniband" else 1500
    change(vm, dev.name, up=True, connection=profile["uuid"], mtu=min(mtu, dev.max_mtu) if mtu else own.get("mtu", default),
           addresses=addresses if method == "manual" else [])
    return ""


def autoconnect(world: World, vm: Vm) -> None:
    """What NetworkManager does when devices appear: the profile of each device that wants it."""
    for dev in netdevs(world, vm):
        if not dev.rdma or dev.connection:
            continue
        wanted = [p for p in profiles(vm).values() if matches(p, dev)
                  and p["values"]["connection"].get("autoconnect", "true").lower() not in ("false", "no", "0")]
        for profile in sorted(wanted, key=lambda p: -int(p["values"]["connection"].get("autoconnect-priority", 0))):
            if not activate(world, vm, profile, dev):
                break


def unload_drivers(world: World, vm: Vm) -> None:
    """What was set at run time goes with the devices."""
    vm.guest.extra.update(net={}, qos={}, loaded="")
    vm.guest.ofed_loaded = False


def load_drivers(world: World, vm: Vm) -> None:
    """At boot and by openibd: the installed OFED's modules, then NetworkManager for the devices that appear."""
    vm.guest.extra.update(net={}, qos={}, loaded=vm.guest.ofed)
    vm.guest.ofed_loaded = bool(vm.guest.ofed)
    load_profiles(vm)
    autoconnect(world, vm)


# ---- who owns an address -------------------------------------------------------------------------------------------------

def owner(world: World, address: str) -> tuple[Vm, Netdev] | None:
    """The booted guest and device that hold an IPv4 address (the lab has one network per device type)."""
    for vm in world.vms.values():
        if vm.vcls or not vm.guest.booted:
            continue
        for dev in netdevs(world, vm):
            if dev.kind != "loopback" and any(str(one.ip) == address for one in dev.networks()):
                return vm, dev
    return None


def resolve(world: World, vm: Vm, name: str) -> str | None:
    """The IPv4 address a guest gets for a name: VM names, as their DNS would say, and localhost."""
    try:
        return str(ipaddress.IPv4Address(name))
    except ValueError:
        pass
    if name in ("localhost", "localhost.localdomain"):
        return vm.guest.address
    for other in world.vms.values():
        if not other.vcls and name in (other.name, other.name + ".lab"):
            return other.guest.address
    return None
