# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keeps a guest's network configuration where it is not NetworkManager: which it is, the file it reads, how it is told to read it."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

INTERFACES = "/etc/network/interfaces"
NAMES = ("networkmanager", "netplan", "networkd", "ifupdown")
MARK = "# Written by vhpc.rdma.rdma_link\n"


def active(system, unit):
    """Whether systemd runs a unit; None where it cannot be asked."""
    if not system.find("systemctl"):
        return None
    code, out, dummy = system.run(["systemctl", "is-active", unit], timeout=30)
    word = out.strip().splitlines()[-1].strip() if out.strip() else ""
    if word in ("active", "activating", "reloading"):
        return True
    return False if code and word in ("inactive", "failed", "unknown", "deactivating") else None


def choose(system, wanted="auto"):
    """The name of the back end. Without a sign of another one it is NetworkManager."""
    if wanted != "auto":
        return wanted
    if system.find("netplan") and system.glob("/etc/netplan/*.yaml"):
        return "netplan"
    if system.find("nmcli") and active(system, "NetworkManager") is not False:
        return "networkmanager"
    if system.find("networkctl") and active(system, "systemd-networkd"):
        return "networkd"
    if system.find("ifup") and system.exists(INTERFACES):
        return "ifupdown"
    return "networkmanager"


def networkd(role, port, address, mtu):
    # networkd compares six bytes; the address of an IPoIB device has twenty.
    lines = ["[Match]", "MACAddress=%s" % port["mac"] if role == "roce" else "Name=%s" % port["netdev"], ""]
    if mtu:
        lines += ["[Link]", "MTUBytes=%d" % mtu, ""]
    lines += ["[Network]", "DHCP=no", "IPv6AcceptRA=no"] + (["Address=%s" % address] if address else [])
    return "\n".join(lines) + "\n"


def netplan(role, port, address, mtu, name):
    match = 'macaddress: "%s"' % port["mac"] if role == "roce" else 'name: "%s"' % port["netdev"]
    lines = ["network:", "  version: 2", "  ethernets:", "    %s:" % name, "      match:", "        %s" % match, "      dhcp4: false", "      dhcp6: false",
             "      optional: true"]
    if mtu:
        lines.append("      mtu: %d" % mtu)
    if address:
        lines += ["      addresses:", "        - %s" % address]
    return "\n".join(lines) + "\n"


def ifupdown(port, address, mtu):
    lines = ["auto %s" % port["netdev"], "iface %s inet %s" % (port["netdev"], "static" if address else "manual")]
    if address:
        lines.append("    address %s" % address)
    # It knows devices by name alone: should another one have the name one day, it is left alone.
    lines.append("    pre-up grep -qi '%s$' /sys/class/net/%s/address" % (port["mac"][-23:] if len(port["mac"]) > 17 else port["mac"], port["netdev"]))
    if mtu:
        # mtu is no option of the method "manual".
        lines.append("    %s %d" % ("mtu", mtu) if address else "    pre-up ip link set dev %s mtu %d" % (port["netdev"], mtu))
    if not address:
        lines += ["    up ip link set dev %s up" % port["netdev"], "    down ip link set dev %s down" % port["netdev"]]
    return "\n".join(lines) + "\n"


def sourced(text):
    """Whether an interfaces file reads interfaces.d."""
    return bool(re.search(r"^\s*source(?:-directory)?\s+(?:/etc/network/)?interfaces\.d(?:/\*)?\s*$", text, re.M))


def configuration(system, backend, role, port, name, address, mtu):
    """dict(path, text, mode) of the file that keeps a port's address and MTU."""
    if backend == "networkd":
        return dict(path="/etc/systemd/network/10-%s.network" % name, text=MARK + networkd(role, port, address, mtu), mode=0o644)
    if backend == "netplan":
        return dict(path="/etc/netplan/90-%s.yaml" % name, text=MARK + netplan(role, port, address, mtu, name), mode=0o600)
    if not sourced(system.read(INTERFACES, "")):
        raise RdmaError("configure the %s port" % role, system.name(), "%s does not read interfaces.d" % INTERFACES,
                        "add the line: source /etc/network/interfaces.d/*", code="INTERFACES")
    return dict(path="/etc/network/interfaces.d/%s" % name, text=MARK + ifupdown(port, address, mtu), mode=0o644)


def commands(backend, netdevs):
    """(program and arguments, whether it must succeed) that make what the files say current on devices."""
    if backend == "netplan":
        return [(["netplan", "apply"], True)]
    out = [(["networkctl", "reload"], True)] if backend == "networkd" else []
    for netdev in netdevs:
        if backend == "networkd":
            out.append((["networkctl", "reconfigure", netdev], True))
        else:
            out += [(["ifdown", "--force", netdev], False), (["ifup", netdev], True)]
    return out
