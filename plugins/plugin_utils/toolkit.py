# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster file of vhpc_toolkit as an inventory of this collection, and what of it has no counterpart here. Pure."""

from __future__ import annotations

import ipaddress
import re
import typing as t

import yaml
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError

VMS, SWITCHES = "_VMS_", ("_SVS_", "_DVS_")
# A key ends in a colon with white space behind it; the colon of a range or of a PCI address has none.
PAIR = re.compile(r"(\w+):\s+(\[[^\]]*\]|\"[^\"]*\"|'[^']*'|\S+)")
RANGED = re.compile(r"(\{\{(\w+):(\w+)\}\}|\{(\w+):(\w+)\})")
TRUE = ("yes", "y", "true", "t", "1")

# Variables of the ESXi host, which the role vsphere reads, and of the VM.
HOST_VARS: dict[str, tuple[str, t.Callable[[str], t.Any]]] = {
    "cpu": ("vsphere_cpus", int),
    "cores_per_socket": ("vsphere_cores_per_socket", int),
    "memory": ("vsphere_memory_mb", lambda text: int(float(text) * 1024)),
    "cpu_reservation": ("vsphere_reserve_cpu", lambda text: text.lower() in TRUE),
    "memory_reservation": ("vsphere_reserve_memory", lambda text: text.lower() in TRUE),
    "latency": ("vsphere_latency", str.lower),
    "device": ("vsphere_devices", lambda text: _list(text)),  # pylint: disable=unnecessary-lambda
    "power": ("vsphere_vm_state", lambda text: "present" if text.lower() == "off" else "on"),
}
VM_VARS = {"ip": "ansible_host", "guest_username": "ansible_user"}
CLONE = ("template", "datastore", "vm_folder", "resource_pool", "linked")
# What the guest of a clone gets: the network it is put into, and its own name and address.
NETWORK = ("port_group", "is_dhcp", "netmask", "gateway", "domain", "dns", "guest_hostname")
NO_TEMPLATE = "no template is named: the VM is there with settings of its own"
NO_DOMAIN = "vm_clone gives a guest its name and address together with a domain, and none is named"
BY_DHCP = "the guest gets it by DHCP, for no ip with a netmask is named"
# Why the rest stays behind.
NOT_HERE = {
    "datacenter": "VMs and hosts are found by name in all datacenters", "cluster": "hosts are named one by one",
    "guest_password": "a secret: put it into a vault as ansible_password, or use keys",
    "cpu_shares": "with everything reserved, shares decide nothing", "memory_shares": "with everything reserved, shares decide nothing",
    "script": "a task of your own playbook runs it", "sequence": "the order of your own playbook",
    "sriov_port_group": "SR-IOV is what this collection replaces by passthrough of the whole port", "pf": "as sriov_port_group",
    "sriov_dvs_name": "as sriov_port_group", "allow_guest_mtu_change": "as sriov_port_group",
    "pvrdma_port_group": "PVRDMA is not set up here", "pvrdma_dvs_name": "PVRDMA is not set up here", "vgpu": "vGPU profiles are not set up here",
    "secure_boot": "the firmware settings of a VM are the template's",
    "instant": "an instant clone needs a running parent; vm_clone makes full and linked ones",
    "mmio_size": "vm_passthru works it out, or takes bar_size_gb",
}


def _list(text: str) -> list[str]:
    value = yaml.safe_load(text)
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def read(text: str) -> tuple[dict[str, list], list[tuple[str, int, list]]]:
    """(macros, lines): {NAME: items}, [(section, line number, [name, items])]; an item is (key, value) or the name of a macro."""
    macros: dict[str, list] = {}
    lines: list[tuple[str, int, list]] = []
    section = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
            if section != VMS and section not in SWITCHES:
                macros.setdefault(section, [])
        elif not section:
            raise ParseError("the cluster file", "line %d is in no section" % number, line)
        elif section in macros:
            macros[section] += _items(line, number, whole=True)
        else:
            name, colon, rest = line.partition(": ") if ": " in line else (line.rstrip(":"), line[-1:], "")
            if colon.strip() != ":":
                raise ParseError("the cluster file", "line %d has no name with a colon" % number, line)
            lines.append((section, number, [name.strip(), _items(rest, number)]))
    return macros, lines


def _items(text: str, number: int, whole: bool = False) -> list:
    """The words of a line; whole: a line of a macro with one key has all the rest as its value, spaces too."""
    pairs = PAIR.findall(text)
    if whole and len(re.findall(r"(?:^|\s)\w+:(?=\s)", text)) == 1 and re.match(r"\w+:\s", text):
        key, dummy, value = text.partition(":")
        return [(key, value.strip().strip("'\"") if not value.strip().startswith("[") else value.strip())]
    if whole and pairs == [] and re.match(r"\w+:\S", text):
        raise ParseError("the cluster file", "line %d has no space behind its colon" % number, text)
    out: list = []
    at = 0
    while at < len(text):
        match = PAIR.match(text, at)
        if match:
            out.append((match.group(1), match.group(2).strip("'\"")))
            at = match.end()
        elif text[at].isspace():
            at += 1
        else:
            word = re.match(r"\S+", text[at:]).group()
            out.append(word.rstrip(","))
            at += len(word)
    return out


def resolve(items: list, macros: dict[str, list], number: int, within: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """The pairs of a line with its macros put in, left to right."""
    out: list[tuple[str, str]] = []
    for item in items:
        if isinstance(item, tuple):
            out.append(item)
        elif item in within:
            raise ParseError("the cluster file", "line %d: the section %s contains itself" % (number, item), item)
        elif item not in macros:
            raise ParseError("the cluster file", "line %d names the section %s, there are %s" % (number, item, ", ".join(sorted(macros)) or "none"), item)
        else:
            out += resolve(macros[item], macros, number, within + (item,))
    return out


def expand(text: str, count: int | None = None) -> list[str]:
    """The values of a text with one range: {1:4} in turn, {{1:4}} in blocks, as many as count; a text without one as often."""
    match = RANGED.search(text)
    if not match:
        return [text] * (count or 1)
    first, last = match.group(2) or match.group(4), match.group(3) or match.group(5)
    if not (first.isdigit() and last.isdigit() and int(first) <= int(last)):
        raise ParseError("the cluster file", "%s is no range of numbers" % match.group(1), text)
    width = len(first) if first.startswith("0") else 0
    values = [text[:match.start()] + str(n).zfill(width) + text[match.end():] for n in range(int(first), int(last) + 1)]
    if count is None:
        return values
    if len(values) > count:
        raise ParseError("the cluster file", "%s stands for %d values, there are %d VMs" % (text, len(values), count), text)
    blocks = match.group(2) is not None
    return [values[n * len(values) // count if blocks else n % len(values)] for n in range(count)]


def convert(text: str) -> tuple[dict, list[dict]]:
    """(inventory, left): the inventory as data, and what of the file has no counterpart: [{where, key, reason}], each key once."""
    macros, lines = read(text)
    hosts: dict[str, dict] = {}
    guests: dict[str, dict] = {}
    left: dict[tuple, list[str]] = {}

    def leave(where: str, key: str, reason: str) -> None:
        rows = left.setdefault((key, reason), [])
        if where not in rows:
            rows.append(where)

    for section, number, (name, items) in lines:
        pairs = resolve(items, macros, number)
        if section in SWITCHES:
            leave(name, section.strip("_").lower(), "switches are yours to make; with the whole port passed through, the RDMA ports need none")
            continue
        names = expand(name)
        values = dict(pairs)
        per_vm = {key: expand(value, len(names)) for key, value in values.items()}
        for place, vm in enumerate(names):
            _vm(vm, {key: rows[place] for key, rows in per_vm.items()}, hosts, guests, leave, number)
    for host, rows in hosts.items():
        here = [vm for vm, variables in guests.items() if variables.get("vhpc_host") == host]
        if len(here) > 1:
            rows.pop("vhpc_vm", None)
            leave(host, "vhpc_vm", "several VMs are on this host; the roles set up one: name it, and give the settings of the others to vm_tuning and "
                                   "vm_passthru")
    inventory = {"all": {"children": {"esxi": _group(hosts, dict(ansible_python_interpreter="none")), "guests": _group(guests, {})}}}
    return inventory, [dict(key=key, reason=reason, where=where) for (key, reason), where in sorted(left.items())]


def _vm(vm: str, values: dict[str, str], hosts: dict, guests: dict, leave: t.Callable, number: int) -> None:
    host = values.pop("host", "")
    variables = guests.setdefault(vm, {})
    settings: dict[str, t.Any] = {}
    clone: dict[str, t.Any] = {}
    network: dict[str, str] = {}
    for key, value in values.items():
        if key in HOST_VARS:
            name, make = HOST_VARS[key]
            try:
                settings[name] = make(value)
            except ValueError as err:
                raise ParseError("the cluster file", "line %d, VM %s: %s is %r" % (number, vm, key, value), value) from err
        elif key in VM_VARS:
            variables[VM_VARS[key]] = value
        elif key in CLONE:
            clone[key] = value.lower() in TRUE if key == "linked" else value
        elif key in NETWORK:
            network[key] = value
        else:
            leave(vm, key, NOT_HERE.get(key, "this key is not known"))
    try:
        unused = _network(network, values.get("ip", ""), clone)
    except ValueError as err:
        raise ParseError("the cluster file", "line %d, VM %s: %s" % (number, vm, err), "") from err
    for key, reason in unused.items():
        leave(vm, key, reason)
    if clone:
        variables["vhpc_clone"] = clone
    if not host:
        leave(vm, "host", "no host is named, and a passthrough device is on one: set vhpc_host, and vhpc_vm of the host")
        for name in settings:
            leave(vm, name, "it is a variable of the ESXi host, and no host is named")
        return
    variables["vhpc_host"] = host
    if host not in hosts:
        hosts[host] = dict(settings, vhpc_vm=vm)
    elif {name: value for name, value in hosts[host].items() if name != "vhpc_vm"} != settings:
        leave(vm, ", ".join(sorted(settings)), "another VM of the host has other settings")


def _network(network: dict[str, str], ip: str, clone: dict[str, t.Any]) -> dict[str, str]:
    """Adds to the clone what its guest gets; returns what cannot be used: key -> reason."""
    if "template" not in clone:
        return dict.fromkeys(network, NO_TEMPLATE)
    rest = dict(network)
    if "port_group" in rest:
        clone["network"] = rest.pop("port_group")
    if "domain" not in rest:
        return dict.fromkeys(rest, NO_DOMAIN)
    clone["guest_domain"] = rest.pop("domain")
    if "guest_hostname" in rest:
        clone["guest_hostname"] = rest.pop("guest_hostname")
    if "dns" in rest:
        clone["guest_dns"] = _list(rest.pop("dns"))
    if rest.pop("is_dhcp", "no").lower() not in TRUE and ip and "netmask" in rest:
        clone["guest_address"] = ipaddress.IPv4Interface("%s/%s" % (ip, rest.pop("netmask"))).with_prefixlen
        if "gateway" in rest:
            clone["guest_gateway"] = (_list(rest.pop("gateway")) or [""])[0]
    return dict.fromkeys(rest, BY_DHCP)


def _group(members: dict[str, dict], variables: dict) -> dict:
    """A group; what all members say alike is said once."""
    rows = list(members.values())
    shared = {key: value for key, value in rows[0].items() if all(row.get(key) == value for row in rows)} if len(rows) > 1 else {}
    shared = {key: value for key, value in shared.items() if key not in ("vhpc_host", "vhpc_vm", "ansible_host")}
    out: dict = {"hosts": {name: {key: value for key, value in row.items() if key not in shared} for name, row in members.items()}}
    if shared or variables:
        out["vars"] = dict(variables, **shared)
    return out


def document(inventory: dict, left: list[dict], source: str) -> str:
    """The inventory as YAML, with what is left behind as comments."""
    lines = ["---", "# From the vhpc_toolkit cluster file %s." % source]
    if left:
        lines.append("# Without a counterpart here:")
        lines += ["#   %s (%s): %s" % (row["key"], ", ".join(row["where"][:3]) + (" and %d more" % (len(row["where"]) - 3) if len(row["where"]) > 3 else ""),
                                       row["reason"]) for row in left]
    return "\n".join(lines) + "\n" + yaml.safe_dump(inventory, sort_keys=False, default_flow_style=False, width=150)
