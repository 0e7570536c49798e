# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The RDMA ports of a guest: read from sysfs, chosen by link layer, GUID or MAC, and what their states mean.

Names such as mlx5_0, ens224f1 or ib0 come from slots and udev rules: they are looked up each time and never asked for.
"""

import ipaddress
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import ibverbs

CLASS = "/sys/class/infiniband"
ROLES = {"ib": "InfiniBand", "roce": "Ethernet"}
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def _digits(text):
    return re.sub(r"[^0-9a-f]", "", (text or "").lower())


def _coded(text):
    """'4: ACTIVE' as ACTIVE."""
    return text.split(":", 1)[1].strip() if ":" in text else text


def _lid(text):
    try:
        return int(text, 16)
    except ValueError:
        return None


def read(system):
    """All RDMA ports that the kernel shows now, in the order of device and port."""
    out = []
    for device in system.listdir(CLASS):
        base = "%s/%s" % (CLASS, device)
        numbers = [int(number) for number in system.listdir(base + "/ports") if number.isdigit()]
        for number in sorted(numbers):
            # A device that is just coming or going shows its folder before, or after, its files.
            if system.line("%s/ports/%d/link_layer" % (base, number)):
                out.append(_port(system, device, base, number))
    return out


def _port(system, device, base, number):
    where = "%s/ports/%d" % (base, number)
    layer = system.line(where + "/link_layer")
    rate = system.line(where + "/rate")
    match = re.match(r"([\d.]+)\s*Gb/sec", rate)
    port = dict(
        device=device, port=number, link_layer=layer, role="ib" if layer == ROLES["ib"] else "roce" if layer == ROLES["roce"] else "",
        state=_coded(system.line(where + "/state")), phys_state=_coded(system.line(where + "/phys_state")), rate=rate,
        rate_gbps=float(match.group(1)) if match else None, lid=_lid(system.line(where + "/lid")), sm_lid=_lid(system.line(where + "/sm_lid")),
        node_guid=_digits(system.line(base + "/node_guid")), firmware=system.line(base + "/fw_ver"), psid=system.line(base + "/board_id"),
        numa_node=_number(system.line(base + "/device/numa_node", "-1")), pci=_pci(system, base), gids=_gids(system, where, layer))
    port["guid"] = _digits(port["gids"][0]["gid"])[16:] if port["role"] == "ib" and port["gids"] else port["node_guid"]
    netdev = _netdev(system, base, number, port["gids"])
    port.update(netdev=netdev, mac="", mtu=None, up=None)
    if netdev:
        net = "/sys/class/net/%s" % netdev
        flags = system.line(net + "/flags", "0x0") or "0x0"
        port.update(mac=system.line(net + "/address").lower(), mtu=_number(system.line(net + "/mtu")), up=bool(int(flags, 16) & 1))
    return port


def _number(text):
    return int(text) if re.match(r"^-?\d+$", text) else None


def _pci(system, base):
    target = system.link(base + "/device")
    name = target.rstrip("/").rsplit("/", 1)[-1]
    if re.match(r"^[0-9a-f]{4}:[0-9a-f]{2}:", name):
        return name
    match = re.search(r"^PCI_SLOT_NAME=(\S+)", system.read(base + "/device/uevent", ""), re.M)
    return match.group(1) if match else ""


def _gids(system, where, layer):
    out = []
    for entry in sorted((name for name in system.listdir(where + "/gids") if name.isdigit()), key=int):
        gid = system.line("%s/gids/%s" % (where, entry)).lower()
        if gid and gid != EMPTY_GID:
            out.append(dict(index=int(entry), gid=gid, type=system.line("%s/gid_attrs/types/%s" % (where, entry)),
                            netdev=system.line("%s/gid_attrs/ndevs/%s" % (where, entry)), ipv4=ipv4_of(gid)))
        if layer == ROLES["ib"]:
            break  # the first is the port's own; the others belong to virtual functions
    return out


def _netdev(system, base, number, gids):
    """The network device of a port: what its GID table says, else the one below the PCI function with the right dev_port."""
    named = [gid["netdev"] for gid in gids if gid["netdev"]]
    if named:
        return named[0]
    # Soft-RoCE has no hardware below it: it says itself which device it lies on, also while that is down and has no GIDs.
    parent = system.line(base + "/parent")
    if parent and system.is_dir("/sys/class/net/%s" % parent):
        return parent
    found = system.listdir(base + "/device/net")
    for name in found:
        place = _number(system.line("%s/device/net/%s/dev_port" % (base, name)))
        if place == number - 1:
            return name
    return found[0] if len(found) == 1 else ""


def verbs(system):
    """(device, port) -> what ibv_devinfo tells; empty without the program."""
    if not system.find("ibv_devinfo"):
        return {}
    dummy, out, err = system.run(["ibv_devinfo"], timeout=30)
    try:
        found = ibverbs.parse_ibv_devinfo(out if "hca_id" in out else out + err)
    except ParseError:
        return {}
    return dict(((device["hca_id"], port["port"]), port) for device in found["devices"] for port in device["ports"])


def ipv4_of(gid):
    """The IPv4 address in a GID (::ffff:a.b.c.d), or nothing."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return ""
    return str(mapped) if mapped else ""


def gid_index(port, address=""):
    """The index of the RoCE v2 GID of an IPv4 address; without an address of the first IPv4 one. None when there is none.

    Both ends must use the same kind of GID: index 3 is usual but not fixed, so it is looked up.
    """
    wanted = address.split("/")[0]
    for gid in port["gids"]:
        if "v2" in gid["type"] and gid["ipv4"] and gid["ipv4"] == (wanted or gid["ipv4"]):
            return gid["index"]
    return None


def same_mac(one, two):
    """Equal hardware addresses. Of the 20 bytes of IPoIB only the last 8, the GUID, stay over a reboot."""
    one, two = _digits(one), _digits(two)
    if len(one) == 40 and len(two) == 40:
        return one[-16:] == two[-16:]
    return bool(one) and one == two


def choose(ports, role, guid="", mac="", where=""):
    """The one port of a role; guid or mac says which where there are several. Raises when there is none or more than one."""
    layer = ROLES[role]
    found = [port for port in ports if port["role"] == role]
    if guid:
        found = [port for port in found if _digits(guid) in (port["guid"], port["node_guid"])]
    if mac:
        found = [port for port in found if same_mac(mac, port["mac"])]
    if len(found) == 1:
        return found[0]
    what = "find the %s port" % role
    asked = "".join(" with %s %s" % pair for pair in (("GUID", guid), ("MAC", mac)) if pair[1])
    if found:
        raise RdmaError(what, where, "%d ports have link layer %s%s: %s" % (len(found), layer, asked, ", ".join(describe(port) for port in found)),
                        "name the one that is meant by its guid or mac", code="PORT_AMBIGUOUS")
    if not ports:
        raise RdmaError(what, where, "the guest shows no RDMA device",
                        "check that both functions of the card are attached to the VM, that the VM was started since, "
                        "and that the driver is loaded (/etc/init.d/openibd status)", code="NO_DEVICE")
    raise RdmaError(what, where, "no port has link layer %s%s; there are: %s" % (layer, asked, "; ".join(describe(port) for port in ports)),
                    "check LINK_TYPE_P1 and LINK_TYPE_P2 in the card's firmware (1 is InfiniBand, 2 is Ethernet) and that the host was rebooted since they "
                    "were set",
                    code="LINK_TYPE")


def describe(port):
    """A port in words, with what stays the same over a reboot."""
    return "%s port %d (%s, %s%s)" % (port["device"], port["port"], port["link_layer"],
                                      "guid %s" % port["guid"] if port["role"] == "ib" else "mac %s" % port["mac"],
                                      ", %s" % port["netdev"] if port["netdev"] else "")


def public(port):
    """A port as a result shows it: without the table of all GIDs."""
    return dict((key, value) for key, value in port.items() if key != "gids")


def findings(port):
    """What keeps a port from work: dicts level, code, thing, text, hint. Empty for a port that is ACTIVE."""
    thing = describe(port)
    if port["state"] == "ACTIVE":
        return []
    physical, state = port["phys_state"], port["state"]
    if port["role"] == "ib" and physical == "LinkUp":
        return [dict(level="error", code="LINK_IN_INIT", thing=thing, text="the link is up but the port is %s: no subnet manager has set it up (sm lid %s)" % (
            state, port["sm_lid"]), hint="start the subnet manager of the fabric (on the switch or one opensm); the cable and the port are fine")]
    if physical == "Disabled":
        return [dict(level="error", code="LINK_DISABLED", thing=thing, text="the port is switched off (%s)" % state,
                     hint="bring its network device up; see whether the switch or the card's firmware disabled it")]
    if physical in ("Polling", "Sleep", "PortConfigurationTraining", "LinkErrorRecovery"):
        return [dict(level="error", code="LINK_NOT_UP", thing=thing, text="the port finds no partner (%s, physical state %s)" % (state, physical),
                     hint="check the cable, the switch port, and that the link type of the card's port fits the switch (InfiniBand or Ethernet)")]
    return [dict(level="error", code="LINK_BAD_STATE", thing=thing, text="the port is %s, physical state %s" % (state or "unknown", physical or "unknown"),
                 hint="check the cable and the switch port, and look at dmesg for mlx5_core")]
