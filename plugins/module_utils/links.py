# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses and MTU of RDMA ports (pure): what is allowed, what differs, and the NetworkManager profile that keeps it."""

import ipaddress
import json
import re
import uuid

from ansible_collections.vhpc.rdma.plugins.module_utils import ports as rdma
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError

PROFILES = "/etc/NetworkManager/system-connections"
IPOIB_MTU = (2044, 4092)
IPOIB_HEAD = 4
ROCE_MTU = (1280, 9978)
# Profiles of the same name have the same UUID on every run and guest, so that NetworkManager sees a change and not a new one.
NAMESPACE = uuid.UUID("5d4ae0c8-6e58-5f3a-9d0e-6a1f2f8a7c11")
# The keys of a profile that this collection decides; others that a person added stay as they are.
OURS = ("connection.id", "connection.uuid", "connection.type", "connection.autoconnect", "connection.autoconnect-priority", "ethernet.mac-address",
        "ethernet.mtu",
        "infiniband.mac-address", "infiniband.mtu", "infiniband.transport-mode", "ipv4.method", "ipv4.address1", "ipv4.never-default", "ipv6.method")


def parse_addresses(text):
    """ip -j addr: device name -> dict(addresses ["192.0.2.1/24"], mtu, mac, up, loopback)."""
    try:
        data = json.loads(text or "[]")
    except ValueError as err:
        raise ParseError("ip -j addr", "not valid JSON (%s)" % err, text)
    out = {}
    for entry in data:
        if not isinstance(entry, dict) or "ifname" not in entry:
            continue
        addresses = ["%s/%s" % (one["local"], one["prefixlen"]) for one in entry.get("addr_info") or []
                     if isinstance(one, dict) and one.get("local") and one.get("family", "inet") == "inet"]
        out[entry["ifname"]] = dict(addresses=addresses, mtu=entry.get("mtu"), mac=(entry.get("address") or "").lower(),
                                    up="UP" in (entry.get("flags") or []), loopback="LOOPBACK" in (entry.get("flags") or []))
    return out


def interface(address, role, where=""):
    """The address as an IPv4Interface; refuses what is no address with a prefix or no host of its network."""
    what = "use %r as the address of the %s port" % (address, role)
    if "/" not in address:
        raise RdmaError(what, where, "it has no prefix length", "write it as 192.168.5.11/24", code="ADDRESS")
    try:
        found = ipaddress.IPv4Interface(address)
    except ValueError as err:
        raise RdmaError(what, where, str(err), "write an IPv4 address as 192.168.5.11/24", code="ADDRESS")
    if found.network.prefixlen < 31 and found.ip in (found.network.network_address, found.network.broadcast_address):
        raise RdmaError(what, where, "it is the network or broadcast address of %s" % found.network, "choose an address of a host", code="ADDRESS")
    return found


def check_mtu(role, mtu, where=""):
    """Refuse an MTU that the port cannot have."""
    what = "set MTU %s on the %s port" % (mtu, role)
    if role == "ib" and mtu not in IPOIB_MTU:
        raise RdmaError(what, where, "IPoIB in datagram mode has the MTU of the fabric less 4: 2044 or 4092 (65520 was connected mode, which drivers of today "
                                     "do not have)",
                        "use 4092, or 2044 where the fabric has an MTU of 2048", code="MTU")
    if role == "roce" and not ROCE_MTU[0] <= mtu <= ROCE_MTU[1]:
        raise RdmaError(what, where, "an Ethernet port takes %d to %d" % ROCE_MTU, "use 9000, which gives RoCE its largest MTU of 4096", code="MTU")


def clashes(wanted, devices):
    """Subnets in use elsewhere. wanted: role -> (address, own netdev); devices: of parse_addresses. Returns texts.

    Two devices in one subnet make the kernel answer for one with the other: RDMA connections then fail or take the service network.
    """
    out = []
    for role in sorted(wanted):
        address, own = wanted[role]
        mine = ipaddress.IPv4Interface(address)
        for name in sorted(devices):
            if name == own or devices[name]["loopback"]:
                continue
            for other in devices[name]["addresses"]:
                if ipaddress.IPv4Interface(other).network.overlaps(mine.network):
                    out.append("%s of the %s port lies in the subnet of %s (%s)" % (address, role, name, other))
        for peer in sorted(wanted):
            if peer > role and ipaddress.IPv4Interface(wanted[peer][0]).network.overlaps(mine.network):
                out.append("%s of the %s port and %s of the %s port share a subnet" % (address, role, wanted[peer][0], peer))
    return out


def profile(role, name, mac, address, mtu):
    """The NetworkManager profile of a port as key -> text ("section.key"). It is bound to the port by MAC, never by name."""
    section = "infiniband" if role == "ib" else "ethernet"
    out = {"connection.id": name, "connection.uuid": str(uuid.uuid5(NAMESPACE, name)), "connection.type": section, "connection.autoconnect": "true",
           "connection.autoconnect-priority": "100", section + ".mac-address": mac.upper(), "ipv4.method": "manual" if address else "disabled",
           "ipv6.method": "ignore"}
    if mtu:
        out[section + ".mtu"] = str(mtu)
    if role == "ib":
        out["infiniband.transport-mode"] = "datagram"
    if address:
        out["ipv4.address1"], out["ipv4.never-default"] = address, "true"
    return out


def parse_profile(text):
    """A keyfile as key -> text; what is no key is left out."""
    out, section = {}, ""
    for line in text.splitlines():
        head, pair = re.match(r"^\s*\[([^\]]+)\]\s*$", line), re.match(r"^\s*([^#;=\s][^=]*?)\s*=\s*(.*?)\s*$", line)
        if head:
            section = head.group(1)
        elif pair and section:
            out["%s.%s" % (section, pair.group(1))] = pair.group(2)
    return out


def profile_text(values):
    """The keyfile of a profile: sections in the order in which NetworkManager writes them."""
    order = ("connection", "ethernet", "infiniband", "ipv4", "ipv6")
    sections = {}
    for key in sorted(values):
        section, dummy, name = key.partition(".")
        sections.setdefault(section, []).append("%s=%s" % (name, values[key]))
    names = [name for name in order if name in sections] + sorted(set(sections) - set(order))
    return "\n".join("[%s]\n%s\n" % (name, "\n".join(sections[name])) for name in names)


def merge_profile(found, wanted):
    """(the profile to write, its differences as key -> (before, after)). Keys that are not ours stay."""
    out = dict((key, value) for key, value in found.items() if key not in OURS)
    out.update(wanted)
    different = {}
    for key in sorted(set(found) | set(out)):
        before, after = found.get(key), out.get(key)
        if key.endswith(".mac-address") and before and after and rdma.same_mac(before, after):
            out[key] = before
            continue
        if before != after:
            different[key] = (before, after)
    return out, different


def steps(changes, thing, port, found, wanted):
    """Add the differences of one port to changes; returns whether the profile has to be written and whether it has to be brought up.

    port: of ports.read; found: dict(profile: key -> text or None, mode, addresses); wanted: dict(profile or None, address, mtu, path).
    """
    write = False
    if wanted["profile"]:
        dummy, different = merge_profile(found["profile"] or {}, wanted["profile"])
        if found["profile"] is None:
            changes.add(thing, "profile", "absent", wanted["path"], reason="keeps address and MTU over a reboot")
            write = True
        else:
            for key, (before, after) in sorted(different.items()):
                changes.add(thing, "profile %s" % key, before, after)
                write = True
            if found["mode"] not in (None, 0o600):
                changes.add(thing, "profile mode", "%04o" % found["mode"], "0600", reason="NetworkManager ignores a profile that others can read")
                write = True
    up = write
    if wanted["address"] and found["addresses"] != [wanted["address"]]:
        changes.add(thing, "address", ", ".join(found["addresses"]) or "none", wanted["address"])
        up = True
    if wanted["mtu"] and port["mtu"] != wanted["mtu"]:
        changes.add(thing, "mtu", port["mtu"], wanted["mtu"])
        up = True
    return write, up
