# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Mellanox firmware tools on ESXi: mst, mlxconfig, mlxfwmanager, flint.

Widths, streams and exit codes follow the version of the mft VIB. Assumed, because nobody has shown it: the texts of `mst stop`,
of `mst start` without the nmst VIB, of a text query of a device that cannot be opened, and of setting a read-only parameter.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from ..world import ADVANCED_ONLY, Card, Host, Nv, Port
from .sh import Io, Shell

OK, ABORTED, ERROR = 0, 2, 3  # of mlxconfig
NOT_KNOWN = "N/A"
RULE = "----------"


# ---- versions -----------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Layout:
    """How mlxconfig of a range of versions prints."""

    since: tuple[int, ...]
    label: int  # Device type:, Name:, ...
    name: int
    value: int
    read_only: bool  # marks RO after the star
    json: bool = False
    verbose: bool = True  # has -e

    @property
    def prefix(self) -> int:
        return 8 if self.read_only else 9


LAYOUTS = (  # newest first
    Layout((4, 36), 20, 48, 33, True, json=True),
    Layout((4, 31), 20, 44, 20, True, json=True),
    Layout((4, 25), 16, 44, 16, True),
    Layout((4, 4), 16, 36, 16, False),
    Layout((0,), 16, 36, 16, False, verbose=False),
)


def version(host: Host) -> tuple[int, ...]:
    """(4, 18, 1, 14) of the running mft VIB."""
    found = host.vibs.get("mft")
    return tuple(int(part) for part in re.findall(r"\d+", found.version.split("-")[0])) if found else ()


def version_text(host: Host) -> str:
    number = version(host)
    return "mft %s-%s, built on Nov 30 2021, 17:21:35. Git SHA Hash: N/A" % (".".join(str(part) for part in number[:3]), number[3] if len(number) > 3 else 0)


def layout(host: Host) -> Layout:
    return next(entry for entry in LAYOUTS if version(host) >= entry.since)


# ---- devices ------------------------------------------------------------------------------------------------------

@dataclass
class Device:
    """What a -d argument stands for: one function of a card."""

    given: str
    card: Card
    port: Port
    bdf: str
    name: str  # mst name

    @property
    def short(self) -> str:
        return self.bdf[5:] if self.bdf.startswith("0000:") else self.bdf


def loaded(host: Host) -> bool:
    return host.mst_started and "nmst" in host.vibs


def devices(host: Host) -> list[Device]:
    """Every function in mst's order: mt4117_pciconf0, mt4117_pciconf0.1, mt4119_pciconf1, ..."""
    order = {bdf: index for index, bdf in enumerate(host.mst_order)}
    cards = sorted(host.cards, key=lambda card: (order.get(card.bdf, len(order)), card.bdf))
    out = []
    for index, card in enumerate(cards):
        for port in card.ports:
            name = "mt%d_pciconf%d%s" % (card.mt, index, ".%d" % (port.number - 1) if port.number > 1 else "")
            out.append(Device(name, card, port, card.function(port.number - 1), name))
    return out


def find(host: Host, given: str) -> Device | None:
    """The function that a -d argument names, by mst name or PCI address, if mst is loaded."""
    if not loaded(host):
        return None
    wanted = given.lower()
    for device in devices(host):
        if wanted in (device.name, device.bdf, device.short):
            return Device(given, device.card, device.port, device.bdf, device.name)
    return None


def opens(host: Host, device: Device) -> bool:
    return host.mft_reaches_passthru or not host.passthru[device.bdf].active


def addressable(given: str) -> bool:
    return re.match(r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$|^mt\d+_pci", given.lower()) is not None


# ---- mst ----------------------------------------------------------------------------------------------------------

MST_USAGE = "Usage:\n    mst {start|stop|status|restart|version|help}\n"


def mst(shell: Shell, args: list[str], io: Io) -> int:
    host, rest = shell.host, args[1:]
    with shell.world.lock:
        if not rest or rest[0] in ("help", "-h", "--help"):
            io.out.write(MST_USAGE)
            return 0 if rest else 1
        if rest[0] in ("version", "-v", "--version"):
            io.out.write("mst, %s\n" % version_text(host))
            return 0
        if rest[0] == "status":
            return mst_status(host, rest[1:], io)
        if rest[0] == "start":
            return mst_start(host, io)
        if rest[0] == "stop":
            return mst_stop(host, io)
        if rest[0] == "restart":
            mst_stop(host, io)
            return mst_start(host, io)
        io.out.write("-E- Unknown argument \"%s\"\n%s" % (rest[0], MST_USAGE))
        return 1


def mst_start(host: Host, io: Io) -> int:
    if "nmst" not in host.vibs:
        io.out.write("Failed to load module mst: Unable to find module\n")
        return 1
    io.out.write("Module mst is already loaded\n" if host.mst_started else "Module mst loaded successfully\n")
    host.mst_started = True
    return 0


def mst_stop(host: Host, io: Io) -> int:
    io.out.write("Module mst unloaded successfully\n" if host.mst_started else "Module mst is not loaded\n")
    host.mst_started = False
    return 0


def mst_status(host: Host, rest: list[str], io: Io) -> int:
    wrong = [item for item in rest if item not in ("-v", "-vv")]
    if wrong:
        io.out.write("-E- Unknown argument \"%s\"\n%s" % (wrong[0], MST_USAGE))
        return 1
    found = devices(host) if loaded(host) else []
    if not rest:
        io.out.write("MST devices:\n------------\n")
        io.out.write("".join(device.name + "\n" for device in found) or "\tNo MST devices were found\n")
        return 0
    nets = {bdf: name for name, bdf in host.vmnics().items()}
    io.out.write("PCI devices:\n------------\n")
    if not found:
        io.out.write("\tNo MST devices were found\n")
        return 0
    row = "%-24s%-30s%-10s"
    if host.settings.get("mst_three_columns"):  # as the paper shows it: neither RDMA nor NET nor NUMA
        io.out.write(row % ("DEVICE_TYPE", "MST", "PCI") + "\n")
        io.out.write("".join(row % ("%s(rev:0)" % device.card.device, device.name, device.short) + "\n" for device in found))
        return 0
    io.out.write((row + "%-16s%-26s%s") % ("DEVICE_TYPE", "MST", "PCI", "RDMA", "NET", "NUMA") + "\n")
    for device in found:
        # The RDMA cell is empty and not even padded: the network name stands in its place.
        net = "net-" + nets[device.bdf] if device.bdf in nets else ""
        io.out.write((row + "%s") % ("%s(rev:0)" % device.card.device, device.name, device.short, net) + "\n")
    return 0


# ---- mlxconfig ----------------------------------------------------------------------------------------------------

BOOLEAN = re.compile(r"^(?:SRIOV_EN|ADVANCED_PCI_SETTINGS|FORCE_ETH_PCI_SUBCLASS|KEEP_\w+|UEFI_HII_EN|MULTI_PORT_VHCA_EN|IBM_CAPI_EN|SAFE_MODE_ENABLE"
                     r"|NON_PREFETCHABLE_PF_BAR|NUM_PF_MSIX_VALID|EXP_ROM_\w+_ENABLE|\w+_EN|\w+_ENABLE)$")
WORDS = {  # names of values, by parameter without its port
    "LINK_TYPE": {1: "IB", 2: "ETH"},
    "ROCE_CONTROL": {0: "DEVICE_DEFAULT", 1: "ROCE_DISABLE", 2: "ROCE_ENABLE"},
    "PCI_WR_ORDERING": {0: "per_mkey", 1: "force_relax"},
    "MEMIC_SIZE_LIMIT": {0: "DISABLED", 1: "_256KB", 2: "_512KB", 3: "_1024KB"},
    "HOST_CHAINING_MODE": {0: "DISABLED", 1: "BASIC"},
    "INT_LOG_MAX_PAYLOAD_SIZE": {0: "AUTOMATIC", 12: "_4KB"},
    "NUM_OF_VL": {1: "_1_VL", 2: "_2_VLs", 3: "_4_VLs", 4: "_8_VLs", 5: "_15_VLs"},
    "LEGACY_BOOT_PROTOCOL": {0: "NONE", 1: "PXE", 2: "iSCSI"},
    "PHY_COUNT_LINK_UP_DELAY": {0: "DELAY_NONE"},
    "INTERNAL_CPU_MODEL": {0: "SEPARATED_HOST", 1: "EMBEDDED_CPU"},
}
MAXIMUM = {"NUM_OF_VFS": 127, "NUM_PF_MSIX": 2047, "PF_LOG_BAR_SIZE": 12, "VF_LOG_BAR_SIZE": 12, "MAX_ACC_OUT_READ": 128}
# Rows that every card shows beside what the world keeps of it; an array shows its range, its elements on demand.
BEFORE = {"MEMIC_BAR_SIZE": 0, "MEMIC_SIZE_LIMIT": 1, "HOST_CHAINING_MODE": 0, "HOST_CHAINING_DESCRIPTORS": "Array[0..7]",
          "HOST_CHAINING_TOTAL_BUFFER_SIZE": "Array[0..7]",
          "FLEX_PARSER_PROFILE_ENABLE": 0, "FLEX_IPV4_OVER_VXLAN_PORT": 0, "ROCE_NEXT_PROTOCOL": 254, "ESWITCH_HAIRPIN_DESCRIPTORS": "Array[0..7]",
          "NON_PREFETCHABLE_PF_BAR": 0, "NUM_PF_MSIX_VALID": 1}
AFTER = {"NUM_OF_VL_P1": 3, "NUM_OF_VL_P2": 3, "LLDP_NB_DCBX_P1": 0, "PHY_COUNT_LINK_UP_DELAY": 0, "SAFE_MODE_THRESHOLD": 10, "SAFE_MODE_ENABLE": 1,
         "EXP_ROM_PXE_ENABLE": 1,
         "EXP_ROM_UEFI_x86_ENABLE": 0, "BOOT_OPTION_ROM_EN_P1": 0, "LEGACY_BOOT_PROTOCOL_P1": 1}
ARRAY_ITEM = re.compile(r"^([A-Z0-9_]+)\[(\d+)(?:\.\.(\d+))?\]$")
ARRAY_DEFAULT = 128


def known(name: str) -> bool:
    """Whether the parameter database has the name at all (a card may still lack it)."""
    base = re.sub(r"_P\d$", "", name)
    return base in KNOWN or name in KNOWN


def is_boolean(name: str) -> bool:
    return BOOLEAN.match(re.sub(r"_P\d$", "", name)) is not None and re.sub(r"_P\d$", "", name) not in WORDS and name not in ("FLEX_PARSER_PROFILE_ENABLE",)


def words(name: str) -> dict[int, str]:
    if is_boolean(name):
        return {0: "False", 1: "True"}
    return WORDS.get(re.sub(r"_P\d$", "", name), {})


KNOWN = ({"LINK_TYPE", "SRIOV_EN", "NUM_OF_VFS", "ADVANCED_PCI_SETTINGS", "NUM_PF_MSIX", "PF_LOG_BAR_SIZE", "VF_LOG_BAR_SIZE", "ROCE_CONTROL",
          "KEEP_ETH_LINK_UP", "KEEP_IB_LINK_UP",
          "KEEP_LINK_UP_ON_BOOT", "KEEP_LINK_UP_ON_STANDBY", "PCI_WR_ORDERING", "MULTI_PORT_VHCA_EN", "INT_LOG_MAX_PAYLOAD_SIZE", "UEFI_HII_EN",
          "INTERNAL_CPU_MODEL",
          "MPFS_UC_LOOPBACK_DISABLE", "CQ_TIMESTAMP", "WOL_MAGIC_EN", "LLDP_NB_DCBX", "ECN", "DCBX_IEEE", "DCBX_CEE", "NUM_OF_PF", "IBM_CAPI_EN"}
         | set(ADVANCED_ONLY) | {re.sub(r"_P\d$", "", name) for name in list(BEFORE) + list(AFTER)} | set(WORDS))


def cell(name: str, value: int | str | None) -> str:
    if value is None:
        return "N/A"
    if isinstance(value, str):
        return value
    base = ARRAY_ITEM.match(name)
    word = words(base.group(1) if base else name).get(value)
    return "%s(%d)" % (word, value) if word else str(value)


def shown(card: Card) -> dict[str, Nv | str]:
    """Every row of a query in the tool's order."""
    visible = card.visible()
    ports = len(card.ports)
    rows: dict[str, Nv | str] = {}
    for table in (BEFORE, visible, AFTER):
        for name, value in table.items():
            if name in rows or (name in card.config and table is not visible) or (name.endswith("_P2") and ports < 2):
                continue
            rows[name] = value if isinstance(value, (Nv, str)) else Nv(value, value, value)
    return rows


def parameter(card: Card, name: str) -> Nv | str | None:
    """A row by name, an element of an array included; None where the card does not show it."""
    rows = shown(card)
    if name in rows:
        return rows[name]
    item = ARRAY_ITEM.match(name)
    if item and isinstance(rows.get(item.group(1)), str) and item.group(3) is None:
        if int(item.group(2)) > 7:
            raise Refusal("Index %s of the parameter %s is out of range. Maximal index is 7" % (item.group(2), item.group(1)))
        return card.config.get(name) or Nv(ARRAY_DEFAULT, ARRAY_DEFAULT, ARRAY_DEFAULT)
    return None


class Refusal(Exception):
    """The text of an -E- line."""


class Usage(Exception):
    """The text of an -E- line with the usage after it."""


MLXCONFIG_USAGE = """    NAME:
        mlxconfig
    SYNOPSIS:
        mlxconfig [Options] <Commands> [Parameters]
    DESCRIPTION:
        Shows and changes the configuration of a device without a new firmware image.
    OPTIONS:
        -d|--dev <device>\t\t: The MST device to work on.
        -b|--db <filename>\t\t: Another database file.
        -h|--help       \t\t: This message.
        -v|--version    \t\t: The version.
        -e|--enable_verbosity\t\t: Default and current configurations too.
        -y|--yes        \t\t: Yes to the prompt.

    COMMANDS SUMMARY
        i|show_confs             : all configurations that are known.
        q|query                  : the configurations of the device.
        r|reset                  : everything back to its default.
        s|set                    : new values.

"""


@dataclass
class Request:
    device: str = ""
    verbose: bool = False
    yes: bool = False
    json: str = ""
    command: str = ""
    names: tuple[str, ...] = ()


def arguments(rest: list[str], form: Layout) -> Request:
    request, queue = Request(), list(rest)
    while queue:
        item = queue.pop(0)
        if request.command:
            request.names += (item,)
        elif item in ("-d", "--dev", "-b", "--db", "-j", "--json_format", "-f", "-t"):
            if not queue:
                raise Usage("missing device name" if item in ("-d", "--dev") else "Missing argument of %s" % item)
            value = queue.pop(0)
            if item in ("-d", "--dev"):
                request.device = value
            elif item in ("-j", "--json_format"):
                if not form.json:
                    raise Usage("Invalid argument: %s" % item)
                request.json = value
        elif item in ("-e", "--enable_verbosity"):
            if not form.verbose:
                raise Usage("Invalid argument: %s" % item)
            request.verbose = True
        elif item in ("-y", "--yes"):
            request.yes = True
        elif item in ("q", "query", "s", "set", "r", "reset", "i", "show_confs"):
            request.command = {"q": "query", "s": "set", "r": "reset", "i": "show_confs"}.get(item, item)
        else:
            raise Usage("invalid argument: %s" % item)
    if not request.command:
        raise Usage("No command found. For more information please read the usage.")
    if request.command == "set" and not request.device:
        raise Usage("Device was not specified.")
    return request


def mlxconfig(shell: Shell, args: list[str], io: Io) -> int:
    host, form = shell.host, layout(shell.host)
    if args[1:2] in (["-v"], ["--version"]):
        io.out.write("mlxconfig, %s\n" % version_text(host))
        return OK
    if args[1:2] in (["-h"], ["--help"]):
        io.out.write(MLXCONFIG_USAGE)
        return OK
    try:
        request = arguments(args[1:], form)
        if request.command == "show_confs":
            io.out.write("\nList of configurations the device %s may support:\n" % request.device)
            io.out.write("".join("%20s%-32s %s\n" % ("", name + ("=<%s>" % "|".join(words(name).values()) if words(name) else "=<NUM>"), "")
                                 for name in sorted(KNOWN)))
            return OK
        if request.command == "set":
            return set_values(shell, request, form, io)
        if request.command == "reset":
            return reset(shell, request, io)
        return query(shell, request, form, io)
    except Usage as fault:
        io.out.write("-E- %s\n%s" % (fault, MLXCONFIG_USAGE))
        return ERROR
    except Refusal as fault:
        io.out.write("-E- %s\n" % fault)
        return ERROR


def opened(host: Host, given: str, io: Io) -> Device:
    device = find(host, given)
    if device is None or not opens(host, device):
        if not addressable(given):
            io.err.write("Unable to parse device name %s\n" % given)
        raise Refusal("Failed to open the device")
    return device


def opening(device: Device, number: int, form: Layout, io: Io, nameless: bool) -> None:
    """nameless (host.settings): some hosts with MFT 4.18 know neither part number nor description here."""
    row = "%%-%ds%%-16s\n" % form.label
    io.out.write("\nDevice #%d:\n%s\n\n" % (number, RULE))
    name, text = (NOT_KNOWN, NOT_KNOWN) if nameless else (device.card.part, device.card.description)
    for label, value in (("Device type:", device.card.device), ("Name:", name), ("Description:", text), ("Device:", device.given)):
        io.out.write(row % (label, value))


def table(rows: list[tuple[str, list[str], bool, bool]], titles: list[str], form: Layout, io: Io) -> None:
    """rows: (name, values, star, read only)."""
    start = form.prefix + form.name
    io.out.write("\n" + "Configurations:".ljust(start) + "".join(title.ljust(form.value) for title in titles).rstrip() + "\n")
    for name, values, star, read_only in rows:
        mark = ("*" if star else " ") + (("RO" if read_only else "  ") if form.read_only else "   ")
        text = mark.ljust(form.prefix) + name.ljust(form.name)
        for index, value in enumerate(values):
            if index and len(values[index - 1]) > form.value:
                text += " "
            text += value.ljust(form.value)
        io.out.write(text + "\n")


def query(shell: Shell, request: Request, form: Layout, io: Io) -> int:
    host = shell.host
    with shell.world.lock:
        if request.device:
            chosen = [opened(host, request.device, io)]
        else:
            chosen = [device for device in devices(host) if device.port.number == 1] if loaded(host) else []
            if not chosen:
                raise Refusal("No devices found, mst might be stopped. You may need to run 'mst start' to load MST modules. ")
        rc, data = OK, {}
        for number, device in enumerate(chosen, 1):
            if not opens(host, device):
                io.out.write("-E- Failed to open the device\n")
                rc = ERROR
                continue
            found = selected(device.card, request.names)
            if request.json:
                data["Device #%d" % number] = as_json(device, found, request.verbose, bool(host.settings.get("nameless")))
                continue  # then nothing is printed
            opening(device, number, form, io, bool(host.settings.get("nameless")))
            rows, differs = [], False
            for name, nv in found.items():
                if isinstance(nv, str):
                    rows.append((name, [nv] * (3 if request.verbose else 1), False, False))
                    continue
                star = request.verbose and (nv.next != nv.default or nv.next != nv.current)
                differs = differs or star
                values = [nv.default, nv.current, nv.next] if request.verbose else [nv.next]
                rows.append((name, [cell(name, value) for value in values], star, nv.read_only))
            table(rows, ["Default", "Current", "Next Boot"] if request.verbose else ["Next Boot"], form, io)
            if differs:
                io.out.write("The '*' shows parameters with next value different from default/current value.\n")
            if form.read_only and any(row[3] for row in rows):
                io.out.write("The 'RO' shows parameters which are for read only and cannot be changed\n")
        if request.json:
            try:
                shell.fs.write(shell.path(request.json), (json.dumps(data, indent=4) + "\n").encode())
            except OSError:
                io.err.write("failed to read json file [%s]\n" % request.json)
                return ERROR
        return rc


def selected(card: Card, names: tuple[str, ...]) -> dict[str, Nv | str]:
    if not names:
        return shown(card)
    out: dict[str, Nv | str] = {}
    for given in names:
        item = ARRAY_ITEM.match(given)
        wanted = [given]
        if item and item.group(3) is not None:
            wanted = ["%s[%d]" % (item.group(1), index) for index in range(int(item.group(2)), int(item.group(3)) + 1)]
        for name in wanted:
            out[name] = supported(card, name)
    return out


def supported(card: Card, name: str) -> Nv | str:
    found = parameter(card, name)
    if found is None:
        item = ARRAY_ITEM.match(name)
        base = item.group(1) if item else name
        raise Refusal("The Device doesn't support %s parameter" % name if known(base) else "Unknown Parameter: %s" % name)
    return found


def as_json(device: Device, found: dict[str, Nv | str], verbose: bool, nameless: bool) -> dict:
    """A value without a word for it is a number here."""
    def plain_value(name: str, nv: Nv | str, which: str) -> str | int:
        shown_as = nv if isinstance(nv, str) else cell(name, getattr(nv, which))
        return int(shown_as) if shown_as.isdigit() else shown_as

    def row(name: str, nv: Nv | str) -> dict:
        out: dict = {"next_value": plain_value(name, nv, "next"), "read_only": not isinstance(nv, str) and nv.read_only}
        if verbose:
            out.update(current_value=plain_value(name, nv, "current"), default_value=plain_value(name, nv, "default"),
                       modified=not isinstance(nv, str) and (nv.next != nv.default or nv.next != nv.current))
        return out
    name, text = (NOT_KNOWN, NOT_KNOWN) if nameless else (device.card.part, device.card.description)
    return {"description": text, "device": device.given, "device_type": device.card.device, "name": name,
            "tlv_configuration": {key: row(key, nv) for key, nv in found.items()}}


def number(name: str, text: str) -> int:
    item = ARRAY_ITEM.match(name)
    base = item.group(1) if item else name
    table_of = words(base)
    for value, word in table_of.items():
        if text.lower() == word.lower():
            return value
    try:
        value = int(text, 0)
    except ValueError:
        raise Refusal("Unknown value %s" % text) from None
    top = max(table_of) if table_of else MAXIMUM.get(base, 0xFFFFFFFF)
    bottom = min(table_of) if table_of else 0
    if value > top:
        raise Refusal("Parameter %s' value is larger than maximum allowed %d" % (name, top))
    if value < bottom:
        raise Refusal("Parameter %s' value is smaller than minimum allowed %d" % (name, bottom))
    return value


def wanted_values(names: tuple[str, ...]) -> dict[str, str]:
    out: dict[str, str] = {}
    if not names:
        raise Usage("set command requires at least one argument")
    for item in names:
        name, equals, value = item.partition("=")
        if not equals or not name or not value or "=" in value:
            raise Usage("Invalid Configuration argument %s" % (name or item))
        if name in out:
            raise Usage("Duplicate parameter, %s." % name)
        array = ARRAY_ITEM.match(name)
        for single in (["%s[%d]" % (array.group(1), index) for index in range(int(array.group(2)), int(array.group(3)) + 1)] if array
                       and array.group(3) is not None else [name]):
            out[single] = value
    return out


def confirmed(request: Request, question: str, io: Io) -> bool:
    io.out.write("\n %s (y/n) [n] : " % question)
    if request.yes:
        io.out.write("y\n")
        return True
    answer = io.stdin.readline().decode("utf-8", "replace").strip().lower()
    if answer in ("y", "yes"):
        return True
    io.out.write("-E- Aborted by user.\n")
    return False


def set_values(shell: Shell, request: Request, form: Layout, io: Io) -> int:
    host, world = shell.host, shell.world
    texts = wanted_values(request.names)
    with world.lock:
        device = opened(host, request.device, io)
        card = device.card
        new: dict[str, int] = {}
        before: dict[str, Nv] = {}
        for name, text in texts.items():
            nv = supported(card, name)
            if isinstance(nv, str):
                raise Refusal("Unknown Parameter: %s" % name)
            before[name] = nv
            new[name] = number(name, text)
        opening(device, 1, form, io, bool(host.settings.get("nameless")))
        rows = []
        for name, nv in before.items():
            values = ([nv.default, nv.current] if request.verbose else []) + [nv.next, new[name]]
            rows.append((name, [cell(name, value) for value in values], request.verbose and (nv.next != nv.default or nv.next != nv.current), nv.read_only))
        table(rows, (["Default", "Current"] if request.verbose else []) + ["Next Boot", "New"], form, io)
    if not confirmed(request, "Apply new Configuration?", io):
        return ABORTED
    with world.lock:
        io.out.write("Applying... ")
        locked = [name for name, nv in before.items() if nv.read_only]
        if locked:
            io.out.write("Failed!\n-E- Failed to set TLV settings: Bad parameter\n")
            return ERROR
        for name, value in new.items():
            if name not in card.config:
                nv = before[name]
                card.config[name] = Nv(nv.default, nv.current, nv.next)
            card.config[name].next = value
        world.note("mft", host.name, "card %s: %s" % (card.bdf, " ".join("%s=%d" % item for item in sorted(new.items()))))
        io.out.write("Done!\n-I- %s\n" % load_text(card))
    return OK


def load_text(card: Card) -> str:
    return "Please %s machine to load new configurations." % ("power cycle" if card.needs_power_cycle else "reboot")


def reset(shell: Shell, request: Request, io: Io) -> int:
    if not confirmed(request, "Reset configuration for %s?" % ("device " + request.device if request.device else "all devices"), io):
        return ABORTED
    io.out.write("Applying... ")
    with shell.world.lock:
        if request.device:
            device = find(shell.host, request.device)
            if device is None or not opens(shell.host, device):
                io.out.write("Failed!\n-E- Failed to open the device\n")
                return ERROR
            cards = [device.card]
        else:
            cards = shell.host.cards if loaded(shell.host) else []
        for card in cards:
            for nv in card.config.values():
                if not nv.read_only:
                    nv.next = nv.default
    io.out.write("Done!\n-I- Please reboot machine to load new configurations.\n")
    return OK


# ---- mlxfwmanager -------------------------------------------------------------------------------------------------

ROMS = {4119: (("PXE", "3.6.0502"), ("UEFI", "14.25.0017")), 4117: (("PXE", "3.6.0502"), ("UEFI", "14.25.0017"))}
NO_IMAGE = "No matching image found"


def plain(mac: str) -> str:
    return mac.replace(":", "")


@dataclass
class Update:
    """What a command line of mlxfwmanager asks for."""

    given: list[str]
    images: list[dict] | None = None  # psid, version, signed; None: no source of images is named
    xml: bool = False
    update: bool = False
    yes: bool = False
    force: bool = False
    output: str = ""

    def available(self, card: Card) -> list[dict]:
        """The images for this card; the world has one file per version and board."""
        return [image for image in self.images or [] if image["psid"] == card.psid]

    def status(self, card: Card) -> str:
        found = self.available(card)
        if len(found) != 1:
            return "Multiple image files found" if found else NO_IMAGE
        return "Update required" if firmware_key(found[0]["version"]) > firmware_key(card.flash or card.firmware) else "Up to date"


def firmware_key(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def mlxfwmanager(shell: Shell, args: list[str], io: Io) -> int:
    host, queue, request = shell.host, list(args[1:]), Update([])
    while queue:
        item = queue.pop(0)
        value = queue.pop(0) if item in ("-d", "--dev", "--query-format", "-o", "--output-file", "-i", "--image-file", "-D", "--image-dir", "-L",
                                         "--log-file") and queue else ""
        if item in ("-v", "--version"):
            io.out.write("mlxfwmanager, %s\n" % version_text(host))
            return 0
        if item in ("-d", "--dev"):
            request.given += value.split(",")
        elif item == "--query-format":
            request.xml = value.upper() == "XML"
        elif item in ("-o", "--output-file"):
            request.output = value
        elif item in ("-i", "--image-file"):
            entry = shell.fs.software(shell.path(value))
            if entry is None:
                io.err.write("-E- Image file: %s does not exist\n" % value)
                return 9
            request.images = [entry.image] if entry.image else []
        elif item in ("-D", "--image-dir"):
            path = shell.path(value)
            if not shell.fs.is_dir(path):
                io.err.write("-E- Image directory: %s does not exist\n" % value)
                return 9
            entries = [shell.fs.software(path.rstrip("/") + "/" + name) for name in shell.fs.listing(path)]
            request.images = [entry.image for entry in entries if entry and entry.image]
        elif item == "--online":
            offers = host.settings.get("online", {})  # PSID: version; None: the server is out of reach
            if offers is None:
                io.err.write("-E- Failed to connect to the server: Could not resolve host\n")
                return 24
            shell.world.note("mft", host.name, "asked the vendor's server")
            request.images = [dict(psid=psid, version=number, signed=True) for psid, number in offers.items()]
        elif item in ("-u", "--update"):
            request.update = True
        elif item in ("-y", "--yes"):
            request.yes = True
        elif item in ("-f", "--force"):
            request.force = True
        elif item not in ("-q", "--query", "-L", "--log-file", "--no-progress", "--no", "--skip_if_same", "--no_fw_ctrl"):
            io.err.write("-E- Invalid argument: %s\n" % item)
            return 3
    with shell.world.lock:
        if not loaded(host):
            io.err.write("-E- No devices found or specified, mst might be stopped, run 'mst start' to load MST modules\n")
            return 20
        found = []
        for name in request.given:
            device = find(host, name)
            if device is None:
                io.err.write("-E- Could not find device: %s\n" % name)
                return 1
            found.append(device)
        if not request.given:
            found = [device for device in devices(host) if device.port.number == 1]
        text = "".join(["<Devices>\n"] + [fw_xml(host, device, request) for device in found] + ["</Devices>\n"]) if request.xml \
            else fw_text(host, found, request)
        if request.output and request.xml:
            shell.fs.write(shell.path(request.output), text.encode())
        else:
            io.out.write(text)
        if request.update:
            return fw_update(shell, found, request, io)
        return 0 if any(opens(host, device) for device in found) else 1


def fw_update(shell: Shell, found: list[Device], request: Update, io: Io) -> int:
    """How an unsigned image is refused is assumed."""
    due = [(number, device) for number, device in enumerate(found, 1) if opens(shell.host, device) and (
        request.status(device.card) == "Update required" or (request.force and len(request.available(device.card)) == 1))]
    io.out.write("---------\n")
    if not due:
        io.out.write("All listed device(s) firmware images are up to date.\n")
        return 0
    io.out.write("Found %d device(s) requiring firmware update...\n\n" % len(due))
    if not request.yes:
        io.out.write("Perform FW update? [y/N]: \n")
        return 18
    rc = 0
    for number, device in due:
        image, card = request.available(device.card)[0], device.card
        io.out.write("Device #%d: Updating FW ...     " % number)
        if card.secure and not image["signed"]:
            io.out.write("Fail : The Digest in the signature is wrong\n")
            rc = 2
        elif shell.world.fault("burn_fails", shell.host.name) is not None:
            io.out.write("Fail : Flash erase failed. Flash gw is locked\n")
            rc = 2
        else:
            written(shell, card, image)
            io.out.write("Done\n")
    if not rc:
        io.out.write("\nRestart needed for updates to take effect.\n")
    return rc


def written(shell: Shell, card: Card, image: dict) -> None:
    card.flash = image["version"] if image["version"] != card.firmware else ""
    shell.world.note("mft", shell.host.name, "burned %s %s" % (card.bdf, image["version"]))


def fw_versions(card: Card) -> list[tuple[str, str]]:
    """The running version has a row of its own only where it is not the one on flash."""
    running = [("FW (Running)", card.firmware)] if card.flash else []
    return [("FW", card.flash or card.firmware)] + running + list(ROMS.get(card.mt, ()))


def fw_text(host: Host, found: list[Device], request: Update) -> str:
    out = ["Querying Mellanox devices firmware ...", ""]
    for index, device in enumerate(found, 1):
        card, good = device.card, opens(host, device)
        out += ["Device #%d:" % index, RULE, ""]
        rows = [("Device Type:", card.device), ("Part Number:", card.part if good else "--"), ("Description:", card.description if good else ""),
                ("PSID:", card.psid if good else ""),
                ("PCI Device Name:", device.given), ("Base GUID:", card.ports[0].guid if good else "N/A"),
                ("Base MAC:", plain(card.ports[0].mac) if good else "N/A"),
                ("Versions:", "%-15s%-14s" % ("Current", "Available"))]
        out += ["  %-18s%s" % row for row in rows]
        versions = fw_versions(card) if good else [("FW", "--")]
        out += ["     %-15s%-15s%-14s" % (name, value, fw_available(request, card, name) if good else "") for name, value in versions]
        out += ["", "  %-18s%s" % ("Status:", request.status(card) if good else "Failed to open device"), ""]
    return "\n".join(out) + "\n"


def fw_available(request: Update, card: Card, name: str) -> str:
    found = request.available(card)
    return found[0]["version"] if name == "FW" and len(found) == 1 else "N/A"


def fw_xml(host: Host, device: Device, request: Update) -> str:
    card, good = device.card, opens(host, device)
    versions = [(name.replace(" (Running)", "_Running_"), value) for name, value in fw_versions(card)]
    lines = ["    <Device pciName=%s type=%s psid=%s partNumber=%s>" % tuple(quoteattr(value) for value in (
        device.given, card.device, card.psid if good else "", card.part if good else "--")), "      <Versions>"]
    lines += ["        <%s current=%s available=%s/>" % (name, quoteattr(value if good else "--"), quoteattr(fw_available(request, card, name) if good else ""))
              for name, value in versions]
    lines += ["      </Versions>", "      <MACs Base_Mac=%s />" % quoteattr(plain(card.ports[0].mac) if good else "N/A")]
    if good:
        lines.append("      <GUIDs Base_Guid=%s />" % quoteattr(card.ports[0].guid))
    lines += ["      <Status>%s</Status>" % (request.status(card) if good else "Failed to open device"),
              "      <Description>%s</Description>" % escape(card.description if good else ""),
              "    </Device>"]
    return "\n".join(lines) + "\n"


# ---- flint --------------------------------------------------------------------------------------------------------

def flint(shell: Shell, args: list[str], io: Io) -> int:
    host, queue, given, image, command, yes = shell.host, list(args[1:]), "", "", [], False
    while queue:
        item = queue.pop(0)
        if item in ("-v", "--version"):
            io.out.write("flint, %s\n" % version_text(host))
            return 0
        if item in ("-d", "--device"):
            given = queue.pop(0) if queue else ""
        elif item in ("-i", "--image"):
            image = queue.pop(0) if queue else ""
        elif item in ("-y", "--yes"):
            yes = True
        elif not item.startswith("-"):
            command.append(item)
    if not command or command[0] not in ("q", "query", "b", "burn"):
        io.out.write("-E- Invalid command: %s\n" % (command[0] if command else ""))
        return 1
    burning = command[0] in ("b", "burn")
    if not given and not (image and not burning):
        io.out.write("-E- For %s command \"-device\" %s \"-image\" switch must be specified.\n" % (("burn", "and") if burning else ("query", "or")))
        return 1
    about: dict = {}
    if image:
        entry = shell.fs.software(shell.path(image))
        if entry is None or not entry.image:
            io.out.write("-E- Cannot open Image: %s. %s\n" % (image, "No such file or directory" if entry is None else "Not a valid image"))
            return 1
        about = entry.image
    with shell.world.lock:
        if not given:
            io.out.write(image_text(about))
            return 0
        device = find(host, given)
        if device is None or not opens(host, device):
            io.out.write("-E- Cannot open Device: %s. No such file or directory. MFE_CR_ERROR\n" % given)
            return 1
        if burning:
            return burn(shell, device, about, yes, io)
        io.out.write(card_text(host, device.card, command[1:] == ["full"]))
        return 0


ROW = "%-23s%s\n"


def card_text(host: Host, card: Card, full: bool) -> str:
    roms = dict(ROMS.get(card.mt, ()))

    def rom(text: str) -> str:
        return ".".join(str(int(part)) for part in text.split("."))
    out = [ROW % ("Image type:", "FS4" if card.mt >= 4119 else "FS3"), ROW % ("FW Version:", card.flash or card.firmware)]
    if card.flash:
        out.append(ROW % ("FW Version(Running):", card.firmware))
    out.append(ROW % ("FW Release Date:", "30.11.2021"))
    if full:
        out += [ROW % ("Part Number:", card.part), ROW % ("Description:", card.description)]
    out += [ROW % ("Product Version:", card.flash or card.firmware),
            ROW % ("Rom Info:", "type=UEFI version=%s cpu=AMD64,AARCH64" % rom(roms.get("UEFI", "14.25.0017"))),
            ROW % ("", "type=PXE version=%s cpu=AMD64" % rom(roms.get("PXE", "3.6.0502"))), ROW % ("Description:", "UID                GuidsNumber"),
            ROW % ("Base GUID:", "%-24s%d" % (card.ports[0].guid, 4)), ROW % ("Base MAC:", "%-24s%d" % (plain(card.ports[0].mac), 4)),
            ROW % ("Image VSD:", "N/A"), ROW % ("Device VSD:", "N/A"), ROW % ("PSID:", card.psid)]
    original = host.settings.get("orig_psid", {}).get(card.bdf)
    if original:
        out.append(ROW % ("Orig PSID:", original))
    out.append(ROW % ("Security Attributes:", "secure-fw" if card.secure else "N/A"))
    if full:
        out.append(ROW % ("Default Update Method:", "fw_ctrl"))
    return "".join(out)


def image_text(image: dict) -> str:
    return "".join(ROW % row for row in (("Image type:", "FS4"), ("FW Version:", image["version"]), ("FW Release Date:", "30.11.2021"),
                                         ("Product Version:", image["version"]), ("Description:", "UID                GuidsNumber"), ("Base GUID:", "N/A"),
                                         ("Base MAC:", "N/A"), ("Image VSD:", "N/A"), ("Device VSD:", "N/A"), ("PSID:", image["psid"]),
                                         ("Security Attributes:", "secure-fw" if image["signed"] else "N/A")))


def burn(shell: Shell, device: Device, image: dict, yes: bool, io: Io) -> int:
    """The refusal of an unsigned image is assumed: nobody has shown it."""
    card, world = device.card, shell.world
    if image["psid"] != card.psid:
        io.out.write("-E- PSID mismatch. The PSID on flash (%s) differs from the PSID in the given image (%s).\n" % (card.psid, image["psid"]))
        return 1
    now = card.flash or card.firmware
    io.out.write("\n    Current FW version on flash:  %s\n    New FW version:               %s\n" % (now, image["version"]))
    if now == image["version"]:
        io.out.write("\n    Note: The new FW version is the same as the current FW version on flash.\n")
    io.out.write("\n Do you want to continue ? (y/n) [n] : ")
    if not yes:
        io.out.write("n\n-E- Aborted by user\n")
        return 1
    io.out.write("y\n")
    if card.secure and not image["signed"]:
        io.out.write("-E- Burning FS4 image failed: The device accepts signed images only\n")
        return 1
    if world.fault("burn_fails", shell.host.name) is not None:
        io.out.write("Burning FS4 FW image without signatures - FAILED\n-E- Flash erase failed. Flash gw is locked\n")
        return 1
    written(shell, card, image)
    io.out.write("Burning FS4 FW image without signatures - OK\nRestoring signature                     - OK\n"
                 "-I- To load new FW run mlxfwreset or reboot machine.\n")
    return 0


# ---- mlxvpd -------------------------------------------------------------------------------------------------------

def mlxvpd(shell: Shell, args: list[str], io: Io) -> int:
    """The vital product data: part and serial number as they are printed on the card."""
    host, rest = shell.host, args[1:]
    given = rest[rest.index("-d") + 1] if "-d" in rest[:-1] else ""
    if not given:
        io.out.write("-E- missing device argument\n")
        return 1
    with shell.world.lock:
        device = find(host, given)
        if device is None or not opens(host, device):
            io.out.write("-E- Failed to open device: %s\n" % given)
            return 1
        card = device.card
    part = card.part.split("_")[0]
    io.out.write("\n  VPD-KEYWORD    DESCRIPTION             VALUE\n  -----------    -----------             -----\nRead Only Section:\n\n")
    for key, text, value in (("PN", "Part Number", part), ("EC", "Revision", "A9"), ("V2", "N/A", part), ("SN", "Serial Number", card.serial),
                             ("V0", "Misc Info", "PCIeGen3 x16"),
                             ("RV", "Checksum Complement", "0x3a"), ("IDTAG", "Board Id", card.description.split(";")[0])):
        io.out.write("  %-14s %-23s %s\n" % (key, text, value))
    return 0


PROGRAMS = {"mst": mst, "mlxconfig": mlxconfig, "mlxfwmanager": mlxfwmanager, "flint": flint, "mlxvpd": mlxvpd}
