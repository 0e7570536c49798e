# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guest customization of clones: the name and the address that a Linux guest gets at its first boot."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import session as _session

LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
STATUS_VERSION = (7, 0, 2)  # the guest tells how its customization went
DONE, FAILED = "TOOLSDEPLOYPKG_SUCCEEDED", "TOOLSDEPLOYPKG_FAILED"
SHARED = ("customization", "guest_domain", "guest_gateway", "guest_dns")
OWN = ("guest_hostname", "guest_address")


def problems(rows: list[dict], shared: dict) -> list[str]:
    """What is wrong with what the user asks for, for all VMs. rows: name and OWN; shared: SHARED."""
    out = []
    if not shared["customization"] and not shared["guest_domain"]:
        out.append("guest_domain is not given (a Linux guest is customized with it), and no customization is named")
    for key, text in [("guest_gateway", shared["guest_gateway"])] + [("guest_dns", one) for one in shared["guest_dns"]]:
        if text:
            try:
                ipaddress.IPv4Address(text)
            except ValueError:
                out.append("%s %s is no IPv4 address" % (key, text))
    if shared["guest_gateway"] and not any(row["guest_address"] for row in rows):
        out.append("guest_gateway goes with a guest_address")
    seen: dict[tuple[str, str], str] = {}
    for row in rows:
        if row["guest_hostname"] and not LABEL.fullmatch(row["guest_hostname"]):
            out.append("guest_hostname %s of %s is no host name (letters, digits and hyphens; the domain has an option of its own)" % (
                row["guest_hostname"], row["name"]))
        if row["guest_address"]:
            try:
                if ipaddress.IPv4Interface(row["guest_address"]).network.prefixlen == 32:
                    out.append("guest_address %s of %s has no prefix length (write it like 192.168.1.11/24)" % (row["guest_address"], row["name"]))
            except ValueError:
                out.append("guest_address %s of %s is no IPv4 address with its prefix length (192.168.1.11/24)" % (row["guest_address"], row["name"]))
        for key in OWN:
            value = (row[key] or "").split("/")[0].lower()
            if value and seen.setdefault((key, value), row["name"]) != row["name"]:
                out.append("%s %s is given to %s and to %s" % (key, row[key], seen[key, value], row["name"]))
    return out


def wanted_text(row: dict, shared: dict) -> str:
    """What a guest gets, for the plan."""
    name = row["guest_hostname"] or ("the VM's name" if not shared["customization"] else "")
    return ", ".join(filter(None, [
        "by %s" % shared["customization"] if shared["customization"] else "", ".".join(filter(None, [name, shared["guest_domain"]])) if name else "",
        row["guest_address"] or ("DHCP" if not shared["customization"] else "")]))


def named(session: t.Any, name: str, where: str) -> t.Any:
    """The specification of that name in vCenter."""
    manager = session.content.customizationSpecManager
    if manager is None:
        raise RdmaError("customize guests", where, "this is an ESXi host, and only a vCenter keeps customization specifications", "log in to vCenter",
                        code="NO_CUSTOMIZATION")
    try:
        return manager.GetCustomizationSpec(name).spec
    except _session.vim.fault.NotFound:
        known = sorted(one.name for one in session.read(manager, "info")["info"] or [])
        raise RdmaError("find the customization specification %s" % name, where, "vCenter has %s" % (", ".join(known) or "none at all"),
                        "correct customization, or leave it out and give guest_domain", code="NOT_FOUND") from None


def specification(base: t.Any, row: dict, shared: dict, nics: int, where: str) -> t.Any:
    """The specification for one VM: that of vCenter (base) with the VM's own name and address in it, or a plain Linux one."""
    cust = _session.vim.vm.customization
    name = cust.FixedName(name=row["guest_hostname"]) if row["guest_hostname"] else None
    if base is None:
        identity = cust.LinuxPrep(hostName=name or cust.VirtualMachineNameGenerator(), domain=shared["guest_domain"], hwClockUTC=True)
        rest = [cust.AdapterMapping(adapter=cust.IPSettings(ip=cust.DhcpIpGenerator())) for dummy in range(nics)]
        options, key = cust.LinuxOptions(), None
        common = cust.GlobalIPSettings(dnsSuffixList=[shared["guest_domain"]], dnsServerList=shared["guest_dns"])
    else:
        identity, options, key, common = base.identity, base.options, base.encryptionKey, base.globalIPSettings
        rest = list(base.nicSettingMap or [])
        if (name or shared["guest_domain"]) and not isinstance(identity, cust.LinuxPrep):
            raise RdmaError("give the guest of %s a name" % row["name"], where, "the customization %s is not one for Linux" % shared["customization"],
                            "leave guest_hostname and guest_domain out, or name another", code="NOT_LINUX")
        if name or shared["guest_domain"]:
            identity = _changed(identity, hostName=name, domain=shared["guest_domain"])
        if shared["guest_dns"]:
            common = _changed(common, dnsServerList=shared["guest_dns"])
    if row["guest_address"] and rest:
        address = ipaddress.IPv4Interface(row["guest_address"])
        settings = _changed(rest[0].adapter, ip=cust.FixedIp(ipAddress=str(address.ip)), subnetMask=str(address.netmask),
                            gateway=[shared["guest_gateway"]] if shared["guest_gateway"] else None)
        rest[0] = cust.AdapterMapping(macAddress=rest[0].macAddress, adapter=settings)
    return cust.Specification(identity=identity, options=options, globalIPSettings=common, nicSettingMap=rest, encryptionKey=key)


def _changed(thing: t.Any, **fields: t.Any) -> t.Any:
    """A copy of the object with the fields that have a value."""
    now = {info.name: getattr(thing, info.name) for info in thing._GetPropertyList()}
    now.update((key, value) for key, value in fields.items() if value)
    return type(thing)(**{key: value for key, value in now.items() if value is not None})
