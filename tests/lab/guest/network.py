# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Network programs: ip, nmcli, ping, ethtool, ss, and the RoCE settings that do not survive a reboot."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import time

from . import state
from .programs import OFED, Call, Stop, options, program
from .state import MANAGEMENT, Netdev

NO_DEVICE = 'Cannot find device "%s"\n'


def _dev(call: Call, name: str) -> Netdev:
    dev = state.find_netdev(call.world, call.vm, name)
    if dev is None:
        raise Stop(1, NO_DEVICE % name)
    return dev


# ---- ip ------------------------------------------------------------------------------------------------------------------

def _flags(dev: Netdev) -> list[str]:
    if dev.kind == "loopback":
        return ["LOOPBACK", "UP", "LOWER_UP"]
    return (["NO-CARRIER"] if dev.up and not dev.carrier else []) + ["BROADCAST", "MULTICAST"] + (["UP"] if dev.up else []) + (["LOWER_UP"] if dev.running
                                                                                                                               else [])


def _inet6(dev: Netdev) -> str:
    if not dev.running or dev.kind == "loopback":
        return ""
    tail = dev.hw.replace(":", "")[-16:] if dev.kind == "infiniband" else state.eui64(dev.hw)
    return str(ipaddress.IPv6Address("fe80::" + state.dotted(tail)))


def _link(dev: Netdev) -> dict:
    ib = dev.kind == "infiniband"
    loop = dev.kind == "loopback"
    return {"ifindex": dev.index, "ifname": dev.name, "flags": _flags(dev), "mtu": dev.mtu, "qdisc": "noqueue" if loop else "mq",
            "operstate": "UNKNOWN" if loop else "UP" if dev.running else "DOWN", "linkmode": "DEFAULT", "group": "default", "txqlen": 256 if ib else 1000,
            "link_type": dev.kind, "address": dev.hw,
            "broadcast": "00:00:00:00:00:00" if loop else "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff" if ib else "ff:ff:ff:ff:ff:ff"}


def _addr_info(dev: Netdev) -> list[dict]:
    out = []
    for one in dev.networks():
        row = {"family": "inet", "local": str(one.ip), "prefixlen": one.network.prefixlen}
        if dev.kind != "loopback" and one.network.prefixlen < 31:
            row["broadcast"] = str(one.network.broadcast_address)
        out.append(dict(row, scope="host" if dev.kind == "loopback" else "global", label=dev.name, valid_life_time=4294967295, preferred_life_time=4294967295))
        if dev.connection:
            out[-1]["noprefixroute"] = True
    inet6 = "::1" if dev.kind == "loopback" else _inet6(dev)
    if inet6:
        out.append({"family": "inet6", "local": inet6, "prefixlen": 128 if dev.kind == "loopback" else 64,
                    "scope": "host" if dev.kind == "loopback" else "link",
                    "valid_life_time": 4294967295, "preferred_life_time": 4294967295})
    return out


def _text(dev: Netdev, addresses: bool) -> str:
    row = _link(dev)
    head = "%d: %s: <%s> mtu %d qdisc %s state %s " % (row["ifindex"], row["ifname"], ",".join(row["flags"]), row["mtu"], row["qdisc"], row["operstate"])
    if not addresses:
        head += "mode DEFAULT "
    text = head + "group default qlen %d\n    link/%s %s brd %s\n" % (row["txqlen"], row["link_type"], row["address"], row["broadcast"])
    for info in _addr_info(dev) if addresses else []:
        brd = " brd %s" % info["broadcast"] if "broadcast" in info else ""
        label = " %s%s" % ("noprefixroute " if info.get("noprefixroute") else "", dev.name) if info["family"] == "inet" else ""
        text += "    %s %s/%d%s scope %s%s\n       valid_lft forever preferred_lft forever\n" % (info["family"], info["local"], info["prefixlen"], brd,
                                                                                                 info["scope"], label)
    return text


def _routes(call: Call) -> list[dict]:
    out = []
    for dev in state.netdevs(call.world, call.vm):
        if dev.kind == "loopback" or not dev.running:
            continue
        for one in dev.networks():
            if one.network.prefixlen < 32:
                out.append({"dst": str(one.network), "dev": dev.name, "protocol": "kernel", "scope": "link", "prefsrc": str(one.ip), "metric": 100 + dev.index,
                            "flags": []})
    gateway = str(ipaddress.ip_interface(call.guest.address + "/24").network.broadcast_address - 1)
    return [{"dst": "default", "gateway": gateway, "dev": MANAGEMENT, "protocol": "static", "metric": 100, "flags": []}] + out


@program("ip")
def ip(call: Call) -> int:
    argv, as_json, brief, family = list(call.argv), False, False, ""
    while argv and argv[0].startswith("-"):
        flag = argv.pop(0).lstrip("-")
        if flag in ("V", "Version"):
            call.line("ip utility, iproute2-ss190319")
            return 0
        as_json = as_json or flag in ("j", "json")
        brief = brief or flag in ("br", "brief")
        family = {"4": "inet", "6": "inet6"}.get(flag, family)
        if flag in ("f", "family") and argv:
            family = argv.pop(0)
    what = argv.pop(0) if argv else "help"
    verb = argv.pop(0) if argv else "show"
    if verb in ("ls", "list", "lst", "sh", "s"):
        verb = "show"
    if what and "address".startswith(what):
        return _ip_address(call, verb, argv, as_json, brief, family)
    if what and "link".startswith(what):
        return _ip_link(call, verb, argv, as_json, brief)
    if what and "route".startswith(what):
        return _ip_route(call, verb, argv, as_json)
    if what in ("neigh", "n", "rule"):
        if as_json:
            call.line("[]")
        return 0
    raise Stop(255, 'Object "%s" is unknown, try "ip help".\n' % what)


def _chosen(call: Call, argv: list[str], addressed: bool = False) -> list[Netdev]:
    names = [arg for n, arg in enumerate(argv) if arg not in ("dev", "up", "scope", "global", "type") and (n == 0 or argv[n - 1] not in ("scope", "type"))]
    rows = [_dev(call, names[0])] if names else state.netdevs(call.world, call.vm)
    return [dev for dev in rows if dev.up or "up" not in argv]


def _ip_address(call: Call, verb: str, argv: list[str], as_json: bool, brief: bool, family: str) -> int:
    if verb == "show":
        rows = _chosen(call, argv)
        if as_json:
            out = []
            for dev in rows:
                row = _link(dev)
                row.pop("linkmode")
                out.append(dict(row, addr_info=[info for info in _addr_info(dev) if family in ("", info["family"])]))
            call.line(json.dumps(out, separators=(",", ":")))
        elif brief:
            for dev in rows:
                addresses = " ".join("%s/%d" % (info["local"], info["prefixlen"]) for info in _addr_info(dev) if family in ("", info["family"]))
                call.line("%-16s %-14s %s " % (dev.name, _link(dev)["operstate"], addresses))
        else:
            call.out("".join(_text(dev, True) for dev in rows))
        return 0
    if verb in ("add", "a", "replace", "del", "delete", "d", "flush"):
        if "dev" not in argv[:-1]:
            if verb == "flush" and argv:
                dev = _dev(call, argv[0])
                argv = ["dev", argv[0]]
            else:
                raise Stop(255, "Not enough information: \"dev\" argument is required.\n")
        else:
            dev = _dev(call, argv[argv.index("dev") + 1])
        if verb == "flush":
            state.change(call.vm, dev.name, addresses=[])
            call.face.refresh(call.vm)
            return 0
        text = argv[argv.index("local") + 1] if "local" in argv else argv[0]
        try:
            one = ipaddress.ip_interface(text)
        except ValueError:
            raise Stop(1, 'Error: any valid prefix is expected rather than "%s".\n' % text) from None
        held = list(dev.addresses)
        if verb in ("add", "a", "replace"):
            if any(str(one.ip) == address.partition("/")[0] for address in held):
                if verb == "replace":
                    return 0
                raise Stop(2, "Error: ipv4: Address already assigned.\n" if "." in text else "RTNETLINK answers: File exists\n")
            held.append(str(one))
        else:
            if str(one) not in held:
                raise Stop(2, "Error: ipv4: Address not found.\n")
            held.remove(str(one))
        call.world.note("guest", call.vm.name, "ip addr %s %s dev %s" % (verb, one, dev.name))
        state.change(call.vm, dev.name, addresses=held)
        call.face.refresh(call.vm)
        return 0
    raise Stop(255, 'Command "%s" is unknown, try "ip address help".\n' % verb)


def _ip_link(call: Call, verb: str, argv: list[str], as_json: bool, brief: bool) -> int:
    if verb == "show":
        rows = _chosen(call, argv)
        if as_json:
            call.line(json.dumps([_link(dev) for dev in rows], separators=(",", ":")))
        elif brief:
            call.out("".join("%-16s %-14s %s <%s> \n" % (dev.name, _link(dev)["operstate"], dev.hw, ",".join(_flags(dev))) for dev in rows))
        else:
            call.out("".join(_text(dev, False) for dev in rows))
        return 0
    if verb not in ("set", "s"):
        raise Stop(255, 'Command "%s" is unknown, try "ip link help".\n' % verb)
    words = list(argv)
    if words and words[0] == "dev":
        words.pop(0)
    if not words:
        raise Stop(255, 'Not enough information: "dev" argument is required.\n')
    dev = _dev(call, words.pop(0))
    values: dict = {}
    while words:
        word = words.pop(0)
        if word in ("up", "down"):
            values["up"] = word == "up"
        elif word == "mtu" and words:
            text = words.pop(0)
            if not text.isdigit():
                raise Stop(255, 'Error: argument "%s" is wrong: Invalid "mtu" value\n\n' % text)
            if int(text) > dev.max_mtu:
                raise Stop(2, "RTNETLINK answers: Invalid argument\n" if dev.kind == "infiniband" else "Error: mtu greater than device maximum.\n")
            if int(text) < 68:
                raise Stop(2, "Error: mtu less than device minimum.\n")
            values["mtu"] = int(text)
        elif word in ("txqueuelen", "qlen", "alias", "name") and words:
            words.pop(0)
        else:
            raise Stop(255, 'Error: either "dev" is duplicate, or "%s" is a garbage.\n' % word)
    call.world.note("guest", call.vm.name, "ip link set %s %s" % (dev.name, " ".join("%s=%s" % item for item in sorted(values.items()))))
    if values.get("up") is False:
        values["addresses"] = dev.addresses
    state.change(call.vm, dev.name, **values)
    call.face.refresh(call.vm)
    return 0


def _ip_route(call: Call, verb: str, argv: list[str], as_json: bool) -> int:
    routes = _routes(call)
    if verb == "get" and argv:
        try:
            target = ipaddress.IPv4Address(argv[0])
        except ValueError:
            raise Stop(1, 'Error: any valid prefix is expected rather than "%s".\n' % argv[0]) from None
        best = [row for row in routes if row["dst"] != "default" and target in ipaddress.ip_network(row["dst"])]
        row = best[0] if best else routes[0]
        source = row.get("prefsrc", call.guest.address)
        if as_json:
            call.line(json.dumps([{"dst": argv[0], "dev": row["dev"], "prefsrc": source, "flags": [], "uid": 0, "cache": []}], separators=(",", ":")))
        else:
            via = "via %s " % row["gateway"] if "gateway" in row else ""
            call.out("%s %sdev %s src %s uid 0 \n    cache \n" % (argv[0], via, row["dev"], source))
        return 0
    if verb != "show":
        raise Stop(255, 'Command "%s" is not simulated.\n' % verb)
    if "dev" in argv[:-1]:
        routes = [row for row in routes if row["dev"] == argv[argv.index("dev") + 1]]
    elif argv and argv[0] == "default":
        routes = routes[:1]
    if as_json:
        call.line(json.dumps(routes, separators=(",", ":")))
        return 0
    for row in routes:
        if "gateway" in row:
            call.line("default via %s dev %s proto static metric 100 " % (row["gateway"], row["dev"]))
        else:
            call.line("%s dev %s proto kernel scope link src %s metric %d " % (row["dst"], row["dev"], row["prefsrc"], row["metric"]))
    return 0


# ---- NetworkManager -------------------------------------------------------------------------------------------------------

def _active(call: Call) -> dict[str, Netdev]:
    return {dev.connection: dev for dev in state.netdevs(call.world, call.vm) if dev.connection}


def _known(call: Call, words: list[str]) -> dict:
    """The profile that words name: [id|uuid|path|filename] NAME."""
    kind = words.pop(0) if words and words[0] in ("id", "uuid", "path", "filename") and len(words) > 1 else ""
    name = words[0] if words else ""
    for profile in state.profiles(call.vm).values():
        by_name = (kind in ("", "id") and profile["id"] == name) or (kind in ("", "uuid") and profile["uuid"] == name)
        if by_name or (kind == "filename" and profile["file"].endswith(name)):
            return profile
    raise Stop(10, "Error: unknown connection '%s'.\n" % name if kind != "show" else "Error: %s - no such connection profile.\n" % name)


def _table(call: Call, rows: list[dict[str, str]], fields: list[str], terse: bool) -> None:
    if terse:
        call.out("".join(":".join(row[name].replace("\\", "\\\\").replace(":", "\\:") for name in fields) + "\n" for row in rows))
        return
    rows = [{name: row[name] or "--" for name in fields} for row in rows]
    widths = {name: max([len(name)] + [len(row[name]) for row in rows]) for name in fields}
    for row in [{name: name for name in fields}] + rows:
        call.line("  ".join(row[name].ljust(widths[name]) for name in fields) + " ")


def _connection_rows(call: Call) -> list[dict[str, str]]:
    active = _active(call)
    kinds = {"ethernet": "802-3-ethernet"}
    rows = [{"NAME": "Wired connection 1", "UUID": "5fb06bd0-0bb0-7ffb-45f1-d6edd65f3e03", "TYPE": "802-3-ethernet", "DEVICE": MANAGEMENT, "STATE": "activated",
             "ACTIVE": "yes",
             "AUTOCONNECT": "yes", "FILENAME": "/run/NetworkManager/system-connections/Wired connection 1.nmconnection"}]
    for uuid, profile in state.profiles(call.vm).items():
        dev = active.get(uuid)
        rows.append({"NAME": profile["id"], "UUID": uuid, "TYPE": kinds.get(profile["type"], profile["type"]), "DEVICE": dev.name if dev else "",
                     "STATE": "activated" if dev else "", "ACTIVE": "yes" if dev else "no",
                     "AUTOCONNECT": "no" if profile["values"]["connection"].get("autoconnect") in ("false", "no") else "yes",
                     "FILENAME": profile["file"][len(call.guest.root):]})
    return sorted(rows, key=lambda row: row["ACTIVE"] != "yes")


def _device_rows(call: Call) -> list[dict[str, str]]:
    names = {uuid: profile["id"] for uuid, profile in state.profiles(call.vm).items()}
    rows = []
    for dev in state.netdevs(call.world, call.vm):
        connection = names.get(dev.connection, dev.connection if dev.name == MANAGEMENT else "")
        shown = "unmanaged" if dev.kind == "loopback" else "connected" if connection else "disconnected" if dev.carrier else "unavailable"
        rows.append({"DEVICE": dev.name, "TYPE": {"ether": "ethernet"}.get(dev.kind, dev.kind), "STATE": shown, "CONNECTION": connection,
                     "HWADDR": dev.hw.upper(), "MTU": str(dev.mtu)})
    return rows


@program("nmcli")
def nmcli(call: Call) -> int:
    argv, terse, fields, get, wait = list(call.argv), False, "", False, ""
    while argv and argv[0].startswith("-"):
        flag, dummy, value = argv.pop(0).partition("=")
        if flag in ("--version", "-v"):
            call.line("nmcli tool, version 1.20.0-3.el8")
            return 0
        if flag in ("-t", "--terse"):
            terse = True
        elif flag in ("-f", "--fields", "-g", "--get-values", "-w", "--wait", "-m", "--mode", "-e", "--escape", "-c", "--colors"):
            value = value or (argv.pop(0) if argv else "")
            if flag in ("-f", "--fields", "-g", "--get-values"):
                fields, get = value, get or flag in ("-g", "--get-values")
            wait = value if flag in ("-w", "--wait") else wait
        elif flag not in ("-p", "--pretty", "-a", "--ask", "-s", "--show-secrets"):
            raise Stop(2, "Error: Option '%s' is unknown, try 'nmcli -help'.\n" % flag)
    terse = terse or get
    what = argv.pop(0) if argv else "general"
    verb = argv.pop(0) if argv else ""
    picked = [name.strip().upper() for name in fields.split(",") if name.strip()]
    if "connection".startswith(what):
        return _nm_connection(call, verb, argv, terse, picked, get)
    if "device".startswith(what):
        return _nm_device(call, verb, argv, terse, picked)
    if "general".startswith(what):
        row = {"STATE": "connected", "CONNECTIVITY": "full", "WIFI-HW": "enabled", "WIFI": "enabled", "WWAN-HW": "enabled", "WWAN": "enabled",
               "RUNNING": "running"}
        _table(call, [row], picked or ["STATE", "CONNECTIVITY", "WIFI-HW", "WIFI", "WWAN-HW", "WWAN"], terse)
        return 0
    if "networking".startswith(what):
        call.line("enabled" if verb != "connectivity" else "full")
        return 0
    raise Stop(2, "Error: argument '%s' not understood. Try passing --help instead.\n" % what)


def _apply(call: Call, profile: dict, dev: Netdev) -> None:
    why = state.activate(call.world, call.vm, profile, dev)
    call.face.refresh(call.vm)
    call.world.note("guest", call.vm.name, "connection up %s on %s" % (profile["id"], dev.name), failed=why)
    if why:
        raise Stop(4, "Error: Connection activation failed: %s\n" % why.replace("Connection activation failed: ", ""))


def _nm_connection(call: Call, verb: str, argv: list[str], terse: bool, picked: list[str], get: bool) -> int:
    if verb in ("", "show", "s"):
        names = [word for word in argv if word not in ("--active",)]
        if names:
            return _nm_profile(call, names, picked, terse, get)
        rows = [row for row in _connection_rows(call) if row["ACTIVE"] == "yes" or "--active" not in argv]
        if not terse:
            rows = [dict(row, TYPE=row["TYPE"].replace("802-3-", "")) for row in rows]
        _table(call, rows, picked or ["NAME", "UUID", "TYPE", "DEVICE"], terse)
        return 0
    if verb in ("reload", "load"):
        refused = state.load_profiles(call.vm)
        given = [word.rsplit("/", 1)[-1] for word in argv]
        bad = [word for word in argv if word.rsplit("/", 1)[-1] in refused
               or not any(p["file"].endswith("/" + word.rsplit("/", 1)[-1]) for p in state.profiles(call.vm).values())]
        if verb == "load" and given and bad:
            call.err("Could not load file '%s'\n" % "', '".join(bad))
        state.autoconnect(call.world, call.vm)
        call.face.refresh(call.vm)
        return 0
    if verb == "up":
        words = list(argv)
        name = words.pop(words.index("ifname") + 1) if "ifname" in words[:-1] else ""
        words = [word for word in words if word != "ifname"]
        if not words and name:
            dev = _dev(call, name)
            fits = [p for p in state.profiles(call.vm).values() if state.matches(p, dev)]
            if not fits:
                raise Stop(10, "Error: no active connection or profile for device '%s'.\n" % name)
            profile = fits[0]
        else:
            profile = _known(call, words)
        devs = [dev for dev in state.netdevs(call.world, call.vm) if state.matches(profile, dev) and name in ("", dev.name)]
        if not devs:
            raise Stop(4, "Error: Connection activation failed: No suitable device found for this connection.\n")
        for dev in state.netdevs(call.world, call.vm):
            if dev.connection == profile["uuid"] and dev.name != devs[0].name:
                state.change(call.vm, dev.name, connection="", addresses=[])
        _apply(call, profile, devs[0])
        call.guest.extra["activations"] = call.guest.extra.get("activations", 1) + 1
        call.line("Connection successfully activated (D-Bus active path: /org/freedesktop/NetworkManager/ActiveConnection/%d)"
                  % call.guest.extra["activations"])
        return 0
    if verb in ("down", "delete"):
        profile = _known(call, list(argv))
        for dev in state.netdevs(call.world, call.vm):
            if dev.connection == profile["uuid"]:
                state.change(call.vm, dev.name, connection="", addresses=[])
        if verb == "delete":
            os.unlink(profile["file"])
            state.load_profiles(call.vm)
            call.line("Connection '%s' (%s) successfully deleted." % (profile["id"], profile["uuid"]))
        else:
            call.line("Connection '%s' successfully deactivated (D-Bus active path: /org/freedesktop/NetworkManager/ActiveConnection/%d)"
                      % (profile["id"], call.guest.extra.get("activations", 1)))
        call.face.refresh(call.vm)
        return 0
    raise Stop(2, "Error: argument '%s' not understood. Try passing --help instead.\n" % verb)


def _nm_profile(call: Call, names: list[str], picked: list[str], terse: bool, get: bool) -> int:
    kind = names.pop(0) if names[0] in ("id", "uuid", "path") and len(names) > 1 else ""
    try:
        profile = _known(call, ([kind] if kind else []) + names[:1])
    except Stop:
        raise Stop(10, "Error: %s - no such connection profile.\n" % names[0]) from None
    values = profile["values"]
    section = values.get("ethernet") or values.get("802-3-ethernet") or {}
    infiniband = values.get("infiniband", {})
    dev = _active(call).get(profile["uuid"])
    ipv4 = values.get("ipv4", {})
    addresses = ", ".join(value.split(",")[0].strip() for key, value in sorted(ipv4.items()) if key.startswith("address"))
    rows = {"connection.id": profile["id"], "connection.uuid": profile["uuid"],
            "connection.type": {"ethernet": "802-3-ethernet"}.get(profile["type"], profile["type"]),
            "connection.interface-name": values["connection"].get("interface-name", ""),
            "connection.autoconnect": "no" if values["connection"].get("autoconnect") in ("false", "no") else "yes"}
    if profile["type"] == "infiniband":
        rows.update({"infiniband.mac-address": infiniband.get("mac-address", ""), "infiniband.mtu": infiniband.get("mtu", "auto"),
                     "infiniband.transport-mode": infiniband.get("transport-mode", "")})
    else:
        rows.update({"802-3-ethernet.mac-address": section.get("mac-address", ""), "802-3-ethernet.mtu": section.get("mtu", "auto")})
    rows.update({"ipv4.method": ipv4.get("method", "auto"), "ipv4.addresses": addresses, "ipv6.method": values.get("ipv6", {}).get("method", "auto")})
    if dev:
        rows.update({"GENERAL.NAME": profile["id"], "GENERAL.DEVICES": dev.name, "GENERAL.STATE": "activated"})
        rows.update({"IP4.ADDRESS[%d]" % (n + 1): address for n, address in enumerate(dev.addresses)})
    for key, value in rows.items():
        alias = key.replace("802-3-ethernet.", "ethernet.").upper()
        if picked and key.upper() not in picked and alias not in picked and key.partition(".")[0].upper() not in picked:
            continue
        call.line(value if get else "%s:%s" % (key, value) if terse else "%-40s%s" % (key + ":", value or "--"))
    return 0


def _nm_device(call: Call, verb: str, argv: list[str], terse: bool, picked: list[str]) -> int:
    if verb in ("", "status"):
        _table(call, _device_rows(call), picked or ["DEVICE", "TYPE", "STATE", "CONNECTION"], terse)
        return 0
    name = next((word for word in argv if word not in ("ifname",)), "")
    if verb == "show":
        for row in _device_rows(call):
            if name and row["DEVICE"] != name:
                continue
            dev = _dev(call, row["DEVICE"])
            number = {"connected": "100 (connected)", "disconnected": "30 (disconnected)", "unavailable": "20 (unavailable)",
                      "unmanaged": "10 (unmanaged)"}[row["STATE"]]
            rows = {"GENERAL.DEVICE": row["DEVICE"], "GENERAL.TYPE": row["TYPE"], "GENERAL.HWADDR": row["HWADDR"], "GENERAL.MTU": row["MTU"],
                    "GENERAL.STATE": number,
                    "GENERAL.CONNECTION": row["CONNECTION"], **{"IP4.ADDRESS[%d]" % (n + 1): address for n, address in enumerate(dev.addresses)}}
            for key, value in rows.items():
                if not picked or key in picked or key.partition(".")[0] in picked or key.split("[")[0] in picked:
                    call.line("%s:%s" % (key, value) if terse else "%-40s%s" % (key + ":", value or "--"))
            call.line()
        if name and not any(row["DEVICE"] == name for row in _device_rows(call)):
            raise Stop(10, "Error: Device '%s' not found.\n" % name)
        return 0
    dev = state.find_netdev(call.world, call.vm, name)
    if dev is None:
        raise Stop(10, "Error: Device '%s' not found.\n" % name)
    if verb in ("reapply", "connect"):
        profile = state.profiles(call.vm).get(dev.connection) or next((p for p in state.profiles(call.vm).values() if state.matches(p, dev)), None)
        if profile is None:
            raise Stop(4 if verb == "connect" else 1, "Error: Reapplying connection to device '%s' failed: Device is not activated\n" % name)
        _apply(call, profile, dev)
        call.line("Connection successfully reapplied to device '%s'." % name if verb == "reapply" else
                  "Device '%s' successfully activated with '%s'." % (name, profile["uuid"]))
        return 0
    if verb == "disconnect":
        state.change(call.vm, dev.name, connection="", addresses=[])
        call.face.refresh(call.vm)
        call.line("Device '%s' successfully disconnected." % name)
        return 0
    if verb == "set":
        return 0
    raise Stop(2, "Error: argument '%s' not understood. Try passing --help instead.\n" % verb)


# ---- reachability ---------------------------------------------------------------------------------------------------------

def path(call: Call, target: str, device: str = "") -> tuple[Netdev, int] | None:
    """The own device that leads to an address, and the largest IP packet that the whole way carries (0: nobody answers); None: no such device."""
    found = state.owner(call.world, target)
    own = None
    for dev in state.netdevs(call.world, call.vm):
        if device and dev.name != device:
            continue
        if dev.kind != "loopback" and dev.running and any(ipaddress.IPv4Address(target) in one.network for one in dev.networks()):
            own = dev
            break
    if own is None:
        own = state.find_netdev(call.world, call.vm, device or MANAGEMENT)
        if own is None:
            return None
        if found is None or found[1].name != MANAGEMENT or own.name != MANAGEMENT:
            return own, 0
    if found is None:
        return own, 0
    other, peer = found
    if other is call.vm:
        return own, 65536
    if own.kind != peer.kind or (own.name == MANAGEMENT) != (peer.name == MANAGEMENT) or not peer.running or not own.running:
        return own, 0
    fabric = call.world.fabric
    between = 1500 if own.name == MANAGEMENT else fabric["ethernet"]["mtu"] - 18 if own.kind == "ether" else fabric["infiniband"]["mtu"] - 4
    return own, min(own.mtu, peer.mtu, between)


@program("ping")
async def ping(call: Call) -> int:
    try:
        found, rest = options(call.argv, "4bdDfhLnoqrRUvVaAB", "cIiMmQsStTwWlp")
    except ValueError as err:
        raise Stop(2, "ping: invalid option -- '%s'\nUsage: ping [-aAbBdDfhLnOqrRUvV64] [-c count] [-i interval] [-I interface]\n"
                      "            [-M pmtudisc_option] [-s packetsize] destination\n" % str(err).lstrip("-")) from None
    if "V" in found:
        call.line("ping from iputils 20190515")
        return 0
    if not rest:
        raise Stop(2, "ping: usage error: Destination address required\n")
    name, size, count = rest[-1], int(found.get("s", 56)), int(found.get("c", 4))
    with call.world.lock:
        target = state.resolve(call.world, call.vm, name)
        if target is None:
            raise Stop(2, "ping: %s: Name or service not known\n" % name)
        device = found.get("I", "")
        held = [dev for dev in state.netdevs(call.world, call.vm) if any(str(one.ip) == device for one in dev.networks())]
        device = held[0].name if held else device
        way = path(call, target, device)
        if way is None:
            raise Stop(2, "ping: SO_BINDTODEVICE %s: No such device\n" % device)
        own, limit = way
        delay = call.world.fabric["ethernet" if own.kind == "ether" else "infiniband"]["hop_ns"] / 1e6 * 2 + 0.04
    source = " from %s %s:" % (own.networks()[0].ip if own.networks() else "0.0.0.0", own.name) if "I" in found else ""
    call.line("PING %s (%s)%s %d(%d) bytes of data." % (name, target, source, size, size + 28))
    alone = found.get("M") in ("do", "1", "probe")
    too_long = alone and size + 28 > own.mtu and limit != 65536
    lost = limit == 0 or (alone and size + 28 > limit)
    errors = 0
    started = time.monotonic()
    if too_long:
        errors = count
        call.err("".join("ping: local error: message too long, mtu=%d\n" % own.mtu for dummy in range(count)))
    elif lost:
        # The real one waits for each answer; one short wait is enough for a rehearsal.
        await asyncio.sleep(min(0.2, float(found.get("W", 1)), float(found.get("w", 1))))
    elif "q" not in found:
        for n in range(count):
            call.line("%d bytes from %s: icmp_seq=%d ttl=64 time=%.3f ms" % (size + 8, target, n + 1, delay * (1 + 0.03 * (n % 3))))
    received = 0 if too_long or lost else count
    spent = int((time.monotonic() - started) * 1000) + 1000 * max(0, count - 1)
    percent = "%g%%" % (100.0 * (count - received) / count) if count else "0%"
    call.line("\n--- %s ping statistics ---" % name)
    call.line("%d packets transmitted, %d received,%s %s packet loss, time %dms" % (count, received, " +%d errors," % errors if errors else "", percent, spent))
    if received:
        call.line("rtt min/avg/max/mdev = %.3f/%.3f/%.3f/%.3f ms" % (delay, delay * 1.02, delay * 1.06, delay * 0.01))
    else:
        call.line()
    return 0 if received else 1


@program("ethtool")
def ethtool(call: Call) -> int:
    words = [arg for arg in call.argv if not arg.startswith("-")]
    flags = [arg for arg in call.argv if arg.startswith("-")]
    dev = state.find_netdev(call.world, call.vm, words[0]) if words else None
    if flags == ["-i"] or flags == ["--driver"]:
        if dev is None:
            raise Stop(71, "Cannot get driver information: No such device\n")
        if dev.rdma:
            port = next(port for port in state.rdma_ports(call.world, call.vm) if port.name == dev.rdma)
            driver = "mlx5_core[ib_ipoib]" if dev.kind == "infiniband" else "mlx5_core"
            version, firmware = "-".join(call.guest.ofed.rsplit("-", 2)[1:]), "%s (%s)" % (port.firmware, port.psid)
        else:
            driver, version, firmware = "vmxnet3", "1.4.17.0-k-NAPI", ""
        yes = "yes" if dev.rdma else "no"
        for key, value in (("driver", driver), ("version", version), ("firmware-version", firmware), ("expansion-rom-version", ""), ("bus-info", dev.bdf),
                           ("supports-statistics", "yes"), ("supports-test", yes), ("supports-eeprom-access", "no"),
                           ("supports-register-dump", "yes" if not dev.rdma else "no"),
                           ("supports-priv-flags", yes)):
            call.line("%s: %s" % (key, value))
        return 0
    if dev is None:
        call.err("Cannot get device settings: No such device\n")
        return 75
    if not flags:
        call.out("Settings for %s:\n\tSpeed: %s\n\tDuplex: Full\n\tPort: Other\n\tAuto-negotiation: on\n\tLink detected: %s\n"
                 % (dev.name, ("100000Mb/s" if dev.rdma else "10000Mb/s") if dev.running else "Unknown!", "yes" if dev.running else "no"))
        return 0
    if flags[0] == "-a":
        call.out("Pause parameters for %s:\nAutonegotiate:\toff\nRX:\t\ton\nTX:\t\ton\n\n" % dev.name)
        return 0
    return 0


@program("ss")
def ss(call: Call) -> int:
    """Listening TCP sockets: sshd and the perftest servers of this guest."""
    letters = "".join(arg.lstrip("-") for arg in call.argv if arg.startswith("-"))
    if "H" not in letters:
        call.line("State    Recv-Q   Send-Q     Local Address:Port      Peer Address:Port  ")
    for port in sorted({22} | set(call.guest.extra.get("listening", ()))):
        call.line("LISTEN   0        %-8d   %16s:%-8d          0.0.0.0:*     " % (128, "0.0.0.0", port))
    return 0


# ---- RoCE quality of service: lost with the driver and at a reboot -----------------------------------------------------------

def _qos(call: Call, name: str) -> dict:
    return call.guest.extra.setdefault("qos", {}).setdefault(name, {"pfc": [0] * 8, "trust": "pcp", "roce": "RoCE v2", "tos": 0})


def _roce(call: Call, name: str) -> state.RdmaPort | None:
    return next((port for port in state.rdma_ports(call.world, call.vm) if port.name == name), None)


@program("mlnx_qos", package=OFED)
def mlnx_qos(call: Call) -> int:
    try:
        found, dummy = options(call.argv, "h", "ifpsdrt", (), ("interface", "pfc", "trust", "prio_tc", "tsa", "tcbw", "ratelimit", "buffer_size", "dscp2prio"))
    except ValueError as err:
        call.line("mlnx_qos: error: no such option: %s" % err)
        return 2
    name = found.get("i", found.get("interface", ""))
    dev = state.find_netdev(call.world, call.vm, name)
    if dev is None or not dev.rdma or dev.kind != "ether":
        call.line("Netlink error: Bad value. see dmesg." if dev else "Interface %s doesn't exist" % name)
        return 1
    held = _qos(call, name)
    pfc = found.get("f", found.get("pfc"))
    if pfc:
        values = pfc.split(",")
        if len(values) != 8 or not set(values) <= {"0", "1"}:
            call.line("Bad PFC parameter: %s" % pfc)
            return 1
        held["pfc"] = [int(value) for value in values]
        call.world.note("guest", call.vm.name, "mlnx_qos pfc %s on %s" % (pfc, name))
    if found.get("trust"):
        held["trust"] = found["trust"]
    call.out("DCBX mode: OS controlled\nPriority trust state: %s\n" % held["trust"])
    call.out("default priority:\nReceive buffer size (bytes): 130944,130944,0,0,0,0,0,0,max_buffer_size=262016\nCable len: 7\nPFC configuration:\n")
    call.out("\tpriority    %s   \n\tenabled     %s   \n" % ("   ".join("01234567"), "   ".join(map(str, held["pfc"]))))
    call.out("\tbuffer      %s   \n" % "   ".join(map(str, held["pfc"])))
    for n in range(8):
        call.out("tc: %d ratelimit: unlimited, tsa: vendor\n\t priority:  %d\n" % (n, n))
    return 0


@program("cma_roce_mode", "cma_roce_tos", package=OFED)
def cma_roce(call: Call) -> int:
    try:
        found, dummy = options(call.argv, "h", "dpmt")
    except ValueError:
        call.line("Usage: %s -d <dev> -p <port> [-m <1|2>]" % call.name)
        return 1
    port = _roce(call, found.get("d", ""))
    if port is None or found.get("p", "1") != "1":
        call.line("cma_roce: device %s port %s does not exist" % (found.get("d", ""), found.get("p", "1")))
        return 1
    held = _qos(call, port.name)
    if call.name == "cma_roce_mode":
        if "m" in found:
            held["roce"] = {"1": "IB/RoCE v1", "2": "RoCE v2"}.get(found["m"], held["roce"])
        call.line(held["roce"])
    else:
        if "t" in found:
            held["tos"] = int(found["t"])
        call.line(str(held["tos"]))
    return 0


@program("dcb")
def dcb(call: Call) -> int:
    raise Stop(1, "dcb: not part of this system's iproute\n")


def reachable(call: Call, target: str) -> bool:
    """Whether TCP gets from this guest to an address now."""
    way = path(call, target)
    return way is not None and way[1] > 0
