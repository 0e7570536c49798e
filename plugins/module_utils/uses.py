# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What in a guest stands on the driver of the RDMA devices: it would be gone while that driver is unloaded."""

import json
import os
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

FAMILY = "mlx"  # what the drivers of such cards begin with


def below(system, netdev, seen=()):
    """[(network device, its driver)] that a network device stands on: itself, or what is below a bond, a bridge or a VLAN."""
    driver = system.link("/sys/class/net/%s/device/driver" % netdev).rsplit("/", 1)[-1]
    if driver:
        return [(netdev, driver)]
    out = []
    for entry in system.listdir("/sys/class/net/%s" % netdev):
        if entry.startswith("lower_") and entry[6:] not in seen:
            out += below(system, entry[6:], tuple(seen) + (netdev,))
    return out


def default_routes(system):
    """Network devices of the default routes."""
    out = []
    for line in system.read("/proc/net/route", "").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 2 and fields[1] == "00000000":
            out.append(fields[0])
    for line in system.read("/proc/net/ipv6_route", "").splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[0] == "0" * 32 and fields[1] == "00" and fields[9] != "lo":
            out.append(fields[9])
    return out


def by_address(system, address):
    """The network device that has an address; empty when none has."""
    code, out, dummy = system.run(["ip", "-j", "addr"], timeout=30) if system.find("ip") else (1, "", "")
    try:
        data = json.loads(out or "[]") if not code else []
    except ValueError:
        return ""
    return next((entry.get("ifname", "") for entry in data for one in entry.get("addr_info") or [] if one.get("local") == address), "")


def over_rdma(system, device, seen=()):
    """Whether a block device is an NVMe disk that comes over RDMA, itself or below a device-mapper or MD device."""
    name = device.rsplit("/", 1)[-1]
    if device.startswith("/dev/mapper/"):
        name = system.link(device).rsplit("/", 1)[-1] or name
    match = re.match(r"^(nvme\d+)", name)
    if match:
        return system.line("/sys/class/nvme/%s/transport" % match.group(1)) == "rdma"
    return any(over_rdma(system, slave, tuple(seen) + (name,)) for slave in system.listdir("/sys/class/block/%s/slaves" % name) if slave not in seen)


def mounts(system):
    """Texts on mounted file systems that need the driver."""
    out = []
    for line in system.read("/proc/mounts", "").splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        source, place, kind, options = fields[0], fields[1], fields[2], fields[3].split(",")
        if kind.startswith("nfs") and ("proto=rdma" in options or "rdma" in options) or kind == "lustre" and "@o2ib" in source \
                or source.startswith("/dev/") and over_rdma(system, source):
            out.append("%s (%s) is mounted over RDMA" % (place, source))
        elif kind.startswith("nfs") and place == "/":
            address = next((option[5:] for option in options if option.startswith("addr=")), "")
            code, text, dummy = system.run(["ip", "-o", "route", "get", address], timeout=30) if address and system.find("ip") else (1, "", "")
            match = re.search(r"\bdev (\S+)", text) if not code else None
            out += ["the root file system (%s) comes over %s, whose driver is %s" % (source, netdev, driver)
                    for netdev, driver in (below(system, match.group(1)) if match else []) if driver.startswith(FAMILY)]
    return out


def session(system):
    """SSH_CONNECTION of this session: sudo drops it from the environment, but the processes above still have it."""
    pid = os.getpid()
    try:
        while pid > 1:
            match = re.search(r"(?:^|\0)SSH_CONNECTION=([^\0]*)", system.read("/proc/%d/environ" % pid, ""))
            if match:
                return match.group(1)
            fields = system.read("/proc/%d/stat" % pid, "").rpartition(")")[2].split()
            pid = int(fields[1]) if len(fields) > 1 else 0
    except RdmaError:
        pass  # a process of somebody else may not be read: without sudo our own environment has told already
    return ""


def of_driver(system, connection=None):
    """Texts on what the guest would lose without the driver: the way to it, and file systems.

    connection: SSH_CONNECTION of this session; without it that of this process or those above, where the system is this machine.
    """
    devices = default_routes(system)
    if connection is None:
        connection = session(system) if system.is_machine else ""
    words = connection.split()
    if len(words) == 4:
        own = by_address(system, words[2])
        devices += [own] if own and own not in devices else []
    out = []
    for name in devices:
        for netdev, driver in below(system, name):
            text = "the way to the guest runs over %s, whose driver is %s" % (netdev, driver)
            if driver.startswith(FAMILY) and text not in out:
                out.append(text)
    return out + mounts(system)
