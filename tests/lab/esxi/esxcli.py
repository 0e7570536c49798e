# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""esxcli: a table of commands (COMMANDS) whose functions return plain data, and the formatters that make text of it.

The shell uses run(); whoever carries esxcli over another protocol uses COMMANDS and execute(), which raises EsxcliError.
Assumed, because nobody has shown it: the texts of a refused module parameter, of a device that is not there, and of
entering maintenance mode while VMs run.
"""

from __future__ import annotations

import dataclasses
import datetime
import posixpath
import re
from dataclasses import dataclass
from typing import Any, Callable
from xml.sax.saxutils import escape, quoteattr

from ..world import ACCEPTANCE, CLASS_INFINIBAND, ETH, Card, File, Host, Port, Vib, World, utc
from .fs import FileSystem, volume_id

NAMESPACE = "http://www.vmware.com/Products/ESX/5.0/esxcli"
RESULT_OK = "Operation finished successfully."
RESULT_REBOOT = "The update completed successfully, but the system needs to be rebooted for the changes to be effective."
RESULT_SAME = "Host is not changed."
RESULT_DRY = "Dryrun only, host not changed. The following installers will be applied: [BootBankInstaller]"
LEVELS = dict(zip(ACCEPTANCE, ("community", "partner", "accepted", "certified")))


class EsxcliError(Exception):
    """A command's own failure: its text on stdout, exit code 1."""


class UsageError(Exception):
    """Wrong words on the command line."""

    def __init__(self, text: str, command: Command | None = None, namespace: str = "") -> None:
        super().__init__(text)
        self.text, self.command, self.namespace = text, command, namespace


# ---- the table ----------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Option:
    name: str  # parameter name of the managed method
    flags: tuple[str, ...]  # ("-m", "--module")
    help: str
    kind: str = "string"  # string | boolean | long | string[]
    required: bool = False
    flag: bool = False  # a switch without a value


@dataclass(frozen=True)
class Field:
    name: str  # as people read it
    kind: str = "string"  # string | boolean | long | string[] | structure[]

    @property
    def prop(self) -> str:
        return self.name.replace(" ", "")


@dataclass(frozen=True)
class Command:
    namespace: str  # system.module.parameters
    name: str
    help: str
    run: Callable[[World, Host, dict[str, Any]], Any]
    options: tuple[Option, ...] = ()
    form: str = "table"  # table | list | struct | simple | none
    fields: tuple[Field, ...] = ()
    header: str = ""  # of list: the field that heads a block; of struct: the words above it
    type_name: str = ""

    @property
    def words(self) -> str:
        return "%s %s" % (self.namespace.replace(".", " "), self.name)


COMMANDS: dict[tuple[str, str], Command] = {}


def command(words: str, text: str, options: tuple[Option, ...] = (), form: str = "table", fields: str = "", header: str = "", type_name: str = "") -> Callable:
    """Enter a function in COMMANDS. fields: "Name, Speed:long, Up:boolean"."""
    def enter(function: Callable) -> Callable:
        namespace, name = words.rsplit(" ", 1)
        row = tuple(Field(*(part.strip() for part in item.split(":"))) for item in fields.split(",") if item.strip())
        key = (namespace.replace(" ", "."), name)
        COMMANDS[key] = Command(key[0], name, text, function, options, form, row, header, type_name or namespace.split(" ")[-1].capitalize())
        return function
    return enter


def switch(name: str, flags: str, text: str) -> Option:
    return Option(name, tuple(flags.split("|")), text, "boolean", flag=True)


def option(name: str, flags: str, text: str, kind: str = "string", required: bool = False) -> Option:
    return Option(name, tuple(flags.split("|")), text, kind, required)


PLUGINS: dict[str, dict[tuple[str, str], Command]] = {}  # what VIBs add: host.settings["mft_esxcli"] says which of them a host has


def commands(host: Host) -> dict[tuple[str, str], Command]:
    """The commands that esxcli of this host has."""
    plugin = PLUGINS.get(host.settings.get("mft_esxcli", ""), {})
    return {**COMMANDS, **plugin} if plugin and "mft" in host.vibs else COMMANDS


def execute(world: World, host: Host, namespace: str, name: str, values: dict[str, Any]) -> Any:
    """Run a command with values by parameter name (as text, bool, int or list) and give its data."""
    entry = commands(host).get((namespace, name))
    if entry is None:
        raise EsxcliError("Unknown command or namespace %s %s" % (namespace.replace(".", " "), name))
    wanted: dict[str, Any] = {}
    for item in entry.options:
        if values.get(item.name) is not None:
            wanted[item.name] = converted(item, values[item.name])
        elif item.required:
            raise EsxcliError("Missing required parameter %s" % "|".join(item.flags))
    with world.lock:
        return entry.run(world, host, wanted)


def converted(item: Option, value: Any) -> Any:
    if item.kind == "boolean" and isinstance(value, str):
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise EsxcliError("Invalid value '%s' for boolean option %s" % (value, item.flags[-1]))
        return value.lower() in ("true", "1", "yes")
    if item.kind == "long":
        try:
            return int(value)
        except ValueError:
            raise EsxcliError("Invalid value '%s' for option %s" % (value, item.flags[-1])) from None
    if item.kind == "string[]" and isinstance(value, str):
        return [value]
    return value


# ---- the command line ---------------------------------------------------------------------------------------------

def parse(words: list[str], known_commands: dict[tuple[str, str], Command] | None = None) -> tuple[Command, dict[str, Any], str, str]:
    """(command, values, formatter, fields wanted) of a command line without its first word."""
    entries = COMMANDS if known_commands is None else known_commands
    queue, formatter, chosen = list(words), "", ""
    while queue and queue[0].startswith("-"):
        name, equals, value = queue.pop(0).partition("=")
        if name not in ("--formatter", "--format-param", "--debug", "-h", "--help", "-v", "--version"):
            raise UsageError("Invalid option " + name)
        if name in ("--formatter", "--format-param") and not equals:
            value = queue.pop(0) if queue else ""
        if name == "--formatter":
            formatter = value
        elif name == "--format-param" and value.startswith("fields="):
            chosen = value[7:].strip('"')
    path = []
    while queue and not queue[0].startswith("-"):
        path.append(queue.pop(0))
    entry = entries.get((".".join(path[:-1]), path[-1])) if len(path) > 1 else None
    if entry is None:
        namespace = ".".join(path)
        if any((key[0] + ".").startswith(namespace + ".") for key in entries) or not path:
            raise UsageError("", namespace=namespace)
        raise UsageError("Unknown command or namespace %s" % " ".join(path))
    values: dict[str, Any] = {}
    while queue:
        item = queue.pop(0)
        name, equals, value = item.partition("=")
        if name in ("-h", "--help", "-?"):
            raise UsageError("", entry)
        known = next((candidate for candidate in entry.options if name in candidate.flags), None)
        if known is None:
            raise UsageError("Invalid option " + name, entry)
        if known.flag:
            values[known.name] = (value or "true") if equals else "true"
            continue
        if not equals:
            if not queue:
                raise UsageError("Missing value for option " + name, entry)
            value = queue.pop(0)
        if known.kind == "string[]":
            values.setdefault(known.name, []).append(value)
        elif known.name in values:
            raise UsageError("Duplicated option " + name, entry)
        else:
            values[known.name] = value
    missing = ["Missing required parameter " + "|".join(item.flags) for item in entry.options if item.required and item.name not in values]
    if missing:
        raise UsageError("\n       ".join(missing), entry)
    return entry, values, formatter, chosen


def usage(fault: UsageError) -> str:
    out = ["Error: " + fault.text, ""] if fault.text else []
    entry = fault.command
    if entry:
        out += ["Usage: esxcli %s [cmd options]" % entry.words, "", "Description: ", "  %-20s  %s" % (entry.name, entry.help), "", "Cmd options:"]
        for item in sorted(entry.options, key=lambda one: one.name):
            kind = {"string": "str", "string[]": "[ <str> ... ]"}.get(item.kind, item.kind)
            shown = "|".join(item.flags) + ("" if item.flag else "=" + (kind if kind.startswith("[") else "<%s>" % kind))
            out.append("  %-20s  %s%s" % (shown, item.help, " (required)" if item.required else ""))
        return "\n".join(out) + "\n"
    if not fault.text or fault.namespace:
        namespace = fault.namespace
        out += ["Usage: esxcli %s{cmd} [cmd options]" % (namespace.replace(".", " ") + " " if namespace else ""), ""]
        prefix = namespace + "." if namespace else ""
        below = sorted({key[0][len(prefix):].split(".")[0] for key in COMMANDS if key[0].startswith(prefix)})
        if below:
            out += ["Available Namespaces:"] + ["  %-20s  Operations on %s." % (name, name) for name in below] + [""]
        commands = [entry for key, entry in sorted(COMMANDS.items()) if key[0] == namespace]
        if commands:
            out += ["Available Commands:"] + ["  %-20s  %s" % (entry.name, entry.help) for entry in commands]
    return "\n".join(out) + "\n"


def run(shell: Any, args: list[str], io: Any) -> int:
    try:
        entry, values, formatter, chosen = parse(args[1:], commands(shell.host))
        data = execute(shell.world, shell.host, entry.namespace, entry.name, values)
        io.out.write(render(entry, data, formatter, chosen))
    except UsageError as fault:
        io.out.write(usage(fault))
        return 1
    except EsxcliError as fault:
        io.out.write("%s\n" % fault)
        return 1
    return 0


# ---- formatters ---------------------------------------------------------------------------------------------------

def word(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(word(item) for item in value) if isinstance(value, (list, tuple)) else str(value)


def render(entry: Command, data: Any, formatter: str = "", chosen: str = "") -> str:
    """The text of a command's data; formatter "" is the table or list that people read."""
    if formatter in ("", "text"):
        return as_text(entry, data)
    if formatter not in ("xml", "csv", "keyvalue"):
        return "Error: Invalid value %s for option --formatter\n" % formatter
    return {"xml": as_xml, "csv": as_csv, "keyvalue": as_keyvalue}[formatter](entry, data, chosen)


def as_text(entry: Command, data: Any) -> str:
    if entry.form == "none":
        return ""
    if entry.form == "simple":
        return word(data) + "\n" if data not in (None, "", []) else ""
    if entry.form == "table":
        return table(entry.fields, data)
    blocks = []
    for item in data if isinstance(data, list) else [data]:
        lines = [str(item.get(entry.header, entry.header))] if entry.header else []
        blocks.append("\n".join(lines + block(entry.fields, item, 3)))
    return "\n\n".join(blocks) + ("\n" if blocks else "")


def block(fields: tuple[Field, ...], item: dict[str, Any], indent: int) -> list[str]:
    out = []
    for field in fields:
        value = item.get(field.name)
        if field.kind == "structure[]":
            out.append("%s%s: " % (" " * indent, field.name))
            for number, part in enumerate(value or []):
                out += [" " * (indent + 3)] * bool(number) + ["%s%s: %s" % (" " * (indent + 6), name, word(inner)) for name, inner in part.items()]
        else:
            out.append("%s%s: %s" % (" " * indent, field.name, word(value)))
    return out


def table(fields: tuple[Field, ...], rows: list[dict[str, Any]]) -> str:
    """Columns as wide as their longest cell, two blanks between; numbers and truth values to the right; the last rule as wide as its heading."""
    if not rows:
        return ""
    cells = [[word(row.get(field.name)) for field in fields] for row in rows]
    widths = [max([len(field.name)] + [len(row[index]) for row in cells]) for index, field in enumerate(fields)]
    right = [field.kind in ("long", "boolean") for field in fields]
    rule = ["-" * width for width in widths]
    if not right[-1]:
        rule[-1] = "-" * len(fields[-1].name)
    out = []
    for row in [[field.name for field in fields], rule] + cells:
        parts = [text.rjust(width) if aligned else text.ljust(width) for text, width, aligned in zip(row, widths, right)]
        out.append("  ".join(parts).rstrip())
    return "\n".join(out) + "\n"


def typed(field: Field) -> str:
    return {"boolean": "boolean", "long": "integer", "structure[]": "structure"}.get(field.kind, "string")


def columns(entry: Command, chosen: str) -> list[Field]:
    if chosen:
        wanted = [name.strip() for name in chosen.split(",")]
        return [field for name in wanted for field in entry.fields if field.name == name]
    return sorted(entry.fields, key=lambda field: field.prop)


def as_xml(entry: Command, data: Any, chosen: str) -> str:
    out = ['<?xml version="1.0" encoding="utf-8"?>', '<output xmlns="%s">' % NAMESPACE, "<root>"]

    def put(depth: int, text: str) -> None:
        out.append("\n".join("   " * depth + line for line in text.split("\n")))  # a value of several lines is indented as a whole

    def structure(name: str, cells: list[tuple[str, str, Any]], depth: int) -> None:
        put(depth, "<structure typeName=%s>" % quoteattr(name))
        for prop, kind, value in sorted(cells):
            put(depth + 1, "<field name=%s>" % quoteattr(prop))
            if kind.endswith("[]"):
                put(depth + 2, '<list type="%s">' % kind[:-2])
                for part in value or []:
                    if kind == "structure[]":
                        structure(prop, [(Field(key).prop, "string", inner) for key, inner in part.items()], depth + 3)
                    else:
                        put(depth + 3, "<string>%s</string>" % escape(word(part)))
                put(depth + 2, "</list>")
            else:
                put(depth + 2, "<%s>%s</%s>" % (kind, escape(word(value)), kind))
            put(depth + 1, "</field>")
        put(depth, "</structure>")

    def row(item: dict[str, Any], depth: int) -> None:
        structure(entry.type_name, [(field.prop, field.kind if field.kind.endswith("[]") else typed(field), item.get(field.name)) for field in entry.fields],
                  depth)

    if entry.form in ("simple", "none"):
        kind = "boolean" if isinstance(data, bool) else "integer" if isinstance(data, int) else "string"
        put(1, "<%s>%s</%s>" % (kind, escape(word(data)), kind))
    elif isinstance(data, list):
        put(1, '<list type="structure">')
        for item in data:
            row(item, 2)
        put(1, "</list>")
    else:
        row(data, 1)
    return "\n".join(out + ["</root>", "</output>"]) + "\n"


def as_keyvalue(entry: Command, data: Any, chosen: str) -> str:
    out = []

    def structure(item: dict[str, Any], prefix: str) -> None:
        for field in sorted(entry.fields, key=lambda one: one.prop):
            key = "%s.%s" % (prefix, field.prop)
            value = item.get(field.name)
            if field.kind.endswith("[]"):
                if not value:
                    out.append("%s.%s[] = " % (key, typed(field)))
                elif field.kind == "string[]":
                    out.extend("%s.string[%d].string=%s" % (key, index, word(part)) for index, part in enumerate(value))
                else:
                    out.extend("%s.structure[%d].%s.%s.string=%s" % (key, index, field.prop, name.replace(" ", ""), word(inner))
                               for index, part in enumerate(value) for name, inner in sorted(part.items()))
            else:
                out.append("%s.%s=%s" % (key, typed(field), word(value).replace("\n", "\\n")))
    if entry.form in ("simple", "none"):
        kind = "boolean" if isinstance(data, bool) else "integer" if isinstance(data, int) else "string"
        out.append("%s=%s" % (kind, word(data)))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            structure(item, "structure[%d].%s" % (index, entry.type_name))
        if not data:
            out.append("structure[] = ")
    else:
        structure(data, entry.type_name)
    return "\n".join(out) + "\n"


def as_csv(entry: Command, data: Any, chosen: str) -> str:
    if entry.form in ("simple", "none"):
        return word(data) + "\n"
    fields = columns(entry, chosen)
    rows = data if isinstance(data, list) else [data]
    if not rows:
        return ""
    out = ["".join(field.prop + "," for field in fields)]
    for item in rows:
        cells = []
        for field in fields:
            text = word(item.get(field.name)) if field.kind != "structure[]" else ""
            if field.kind == "string[]" and item.get(field.name):
                text = '"%s"' % "".join(part + "," for part in item[field.name])
            else:
                text = text.replace("\n", "\\n")
                text = '"%s"' % text.replace('"', '""') if re.search(r'[",]', text) else text
            cells.append(text + ",")
        out.append("".join(cells))
    return "\n".join(out) + "\n"


# ---- system -------------------------------------------------------------------------------------------------------

@command("system version get", "Display the product name, version and build information.", (), "struct", "Product, Version, Build, Update, Patch",
         type_name="VersionGet")
def version_get(world: World, host: Host, values: dict) -> dict:
    patch = {"7.0.2": "0", "7.0.3": "15"}.get(host.version, "0")
    return {"Product": "VMware ESXi", "Version": host.version, "Build": "Releasebuild-" + host.build, "Update": host.version.rsplit(".", 1)[-1], "Patch": patch}


@command("system stats uptime get", "Display the number of microseconds the system has been running.", (), "simple")
@command("system uptime get", "System uptime in microseconds.", (), "simple")
def uptime_get(world: World, host: Host, values: dict) -> int:
    return int((utc() - host.boot_time).total_seconds() * 1000000)


@command("system hostname get", "Get the host, domain or fully qualified name of the ESX host.", (), "struct",
         "Domain Name, Fully Qualified Domain Name, Host Name", type_name="HostnameGet")
def hostname_get(world: World, host: Host, values: dict) -> dict:
    name, dummy, domain = host.name.partition(".")
    return {"Domain Name": domain, "Fully Qualified Domain Name": host.name, "Host Name": name}


@command("system uuid get", "Get the system UUID.", (), "simple")
def uuid_get(world: World, host: Host, values: dict) -> str:
    return host.uuid


@command("system maintenanceMode get", "Get the maintenance mode state of the system.", (), "simple")
def maintenance_get(world: World, host: Host, values: dict) -> str:
    return "Enabled" if host.maintenance else "Disabled"


@command("system maintenanceMode set", "Enable or disable the maintenance mode of the system.",
         (option("enable", "-e|--enable", "enable maintenance mode", "boolean", True),
          option("timeout", "-t|--timeout", "Time in seconds to wait for the host to enter maintenance mode.", "long"),
          option("vsanmode", "-m|--vsanmode", "Action the vSAN service must take before the host can enter maintenance mode.")), "none")
def maintenance_set(world: World, host: Host, values: dict) -> bool:
    if host.maintenance == values["enable"]:
        raise EsxcliError("Maintenance mode is already %s." % ("enabled" if host.maintenance else "disabled"))
    running = [vm for vm in world.vm_on(host.name) if not vm.vcls]  # the cluster moves its agents away by itself
    if values["enable"] and running:
        raise EsxcliError("Timed out waiting for the host to enter maintenance mode: %d virtual machines are powered on." % len(running))
    host.maintenance = values["enable"]
    world.note("esxi", host.name, "maintenance mode %s" % ("on" if host.maintenance else "off"))
    return True


@command("system shutdown reboot", "Reboot the system. The host must be in maintenance mode.",
         (option("delay", "-d|--delay", "Delay interval in seconds", "long"),
          option("reason", "-r|--reason", "Reason for performing the operation", required=True)), "none")
def shutdown_reboot(world: World, host: Host, values: dict) -> bool:
    from .vmkernel import reboot_later  # it needs this module

    if not host.maintenance:
        raise EsxcliError("The host must be in maintenance mode to perform this operation.")
    reboot_later(world, host, float(values.get("delay", 10)))
    return True


KERNEL = (("execInstalledOnly", "Bool", "Execute only VIB-installed executables", "FALSE", "FALSE"),
          ("iovDisableIR", "Bool", "Disable Interrrupt Routing in the IOMMU", "FALSE", "FALSE"),
          ("maxVmnics", "UInt16", "Maximum number of vmnics allowed", "64", "64"),
          ("netNetqueueEnabled", "Bool", "Enable/Disable NetQueue support.", "TRUE", "TRUE"),
          ("disableACSCheck", "Bool", "Skip PCIe ACS checks for passthru", "FALSE", "FALSE"))


@command("system settings kernel list", "List VMkernel kernel settings.",
         (option("option", "-o|--option", "Only get information for a single VMkernel kernel setting."),
          switch("delta", "-d|--delta", "Only display settings that differ.")), "table",
         "Name, Type, Description, Configured, Runtime, Default", type_name="KernelSetting")
def kernel_list(world: World, host: Host, values: dict) -> list[dict]:
    own = host.settings.get("kernel", {})
    rows = []
    for name, kind, text, default, runtime in KERNEL:
        configured = own.get(name, default).lower() if kind == "Bool" else own.get(name, default)
        rows.append({"Name": name, "Type": kind, "Description": text, "Configured": configured,
                     "Runtime": host.settings.get("kernel_running", {}).get(name, runtime), "Default": default})
    wanted = values.get("option")
    if wanted and wanted not in [row["Name"] for row in rows]:
        raise EsxcliError("Invalid option name: %s" % wanted)
    return [row for row in rows if (not wanted or row["Name"] == wanted) and (not values.get("delta") or row["Configured"].upper() != row["Default"].upper())]


@command("system settings kernel set", "Set a VMKernel setting.",
         (option("setting", "-s|--setting", "The name of the VMKernel setting to set.", required=True),
          option("value", "-v|--value", "The value.", required=True)), "none")
def kernel_set(world: World, host: Host, values: dict) -> bool:
    if values["setting"] not in [row[0] for row in KERNEL]:
        raise EsxcliError("Invalid option name: %s" % values["setting"])
    host.settings.setdefault("kernel", {})[values["setting"]] = values["value"].upper()
    return True


@command("system settings encryption get", "Get the encryption mode and policy.", (), "struct",
         "Mode, Require Executables Only From Installed VIBs:boolean, Require Secure Boot:boolean", type_name="EncryptionSettings")
def encryption_get(world: World, host: Host, values: dict) -> dict:
    return {"Mode": "NONE", "Require Executables Only From Installed VIBs": False, "Require Secure Boot": bool(host.settings.get("require_secure_boot"))}


@command("system account list", "List local user accounts.", (), "table", "User ID, Description, Shell Access:boolean", type_name="Account")
def account_list(world: World, host: Host, values: dict) -> list[dict]:
    return [{"User ID": "root", "Description": "Administrator", "Shell Access": True}, {"User ID": "dcui", "Description": "DCUI User", "Shell Access": True},
            {"User ID": "vpxuser", "Description": "VMware VirtualCenter administration account", "Shell Access": True}]


# ---- modules ------------------------------------------------------------------------------------------------------

MODULES = {"vmkernel": "esx-base", "ixgben": "ixgben", "nmlx5_core": "nmlx5-core", "nmlx5_rdma": "nmlx5-rdma", "pciPassthru": "esx-base", "mst": "nmst"}
PARAMETERS = {
    "nmlx5_core": (
        ("DRSS", "uint", "Number of hardware queues for Default Queue (DEFQ) RSS\n   Values : 0 - disabled, 2-16 (power of two)\n   Default: 0"),
        ("DYN_RSS", "uint", "Dynamic RSS mode\n   Values : 0 - disabled, 1 - enabled\n   Default: 1"),
        ("ecn", "uint", "Enable the ECN feature\n   Values : 0 - disabled, 1 - enabled\n   Default: 1"),
        ("enable_nmlx_debug", "uint", "Enable debug prints\n   Values : 0 - disabled, 1 - enabled\n   Default: 0"),
        ("GEN_RSS", "uint", "RSS on generic queues\n   Values : 0-3\n   Default: 2"),
        ("max_queues", "uint", "Maximum number of hardware queues\n   Values : 0 - system default, 1-16\n   Default: 0"),
        ("max_vfs", "array of uint", "Number of PCI VFs to initialize\n   Values : Array of 'uint' of range 0-128, 0 - disabled\n   Default: 0"),
        ("pfcrx", "int", "Priority based Flow Control policy on RX\n   Values : 8-bit bit mask, one bit per priority\n   Default: 0"),
        ("pfctx", "int", "Priority based Flow Control policy on TX\n   Values : 8-bit bit mask, one bit per priority\n   Default: 0"),
        ("RSS", "uint", "Number of hardware queues for NetQ RSS\n   Values : 0 - disabled, 2-16\n   Default: 4"),
        ("trust_state", "int", "Port policy to calculate the switch priority and packet color\n   Values : 1 - trust PCP, 2 - trust DSCP\n   Default: 1")),
    "nmlx5_rdma": (
        ("dscp_force", "int", "DSCP value to force on outgoing RoCE traffic\n   Values : -1 - disabled, 0-63\n   Default: -1"),
        ("pcp_force", "int", "PCP value to force on outgoing RoCE traffic\n   Values : -1 - disabled, 0-7\n   Default: -1")),
    "ixgben": (("InterruptType", "array of int", "Interrupt type\n   Values : 0 - auto, 1 - INTx, 2 - MSI, 3 - MSI-X\n   Default: 0"),),
    "vmkernel": (),
    "pciPassthru": (),
    "mst": (),
}


def module_of(host: Host, name: str) -> str:
    if name not in MODULES or MODULES[name] not in host.vibs:
        raise EsxcliError("Unable to find module %s" % name)
    return name


def pairs(text: str) -> dict[str, str]:
    """The parameters in an option string; several blanks and quotes are fine."""
    return dict(item.partition("=")[::2] for item in text.replace('"', "").split())


@command("system module list", "List the VMkernel modules that the system knows about.",
         (option("loaded", "-l|--loaded", "Only loaded, or only not loaded ones.", "boolean"),
          option("enabled", "-e|--enabled", "Only enabled, or only disabled ones.", "boolean")),
         "table", "Name, Is Loaded:boolean, Is Enabled:boolean", type_name="Module")
def module_list(world: World, host: Host, values: dict) -> list[dict]:
    rows = [{"Name": name, "Is Loaded": name != "mst" or host.mst_started, "Is Enabled": True} for name, vib in MODULES.items() if vib in host.vibs]
    return [row for row in rows if values.get("loaded", row["Is Loaded"]) == row["Is Loaded"] and values.get("enabled", True)]


@command("system module get", "Show information for a given VMkernel module.",
         (option("module", "-m|--module", "The name of the VMkernel module.", required=True),), "struct",
         "Module, Module File, License, Version, Build Type, Provided Namespaces, Required Namespaces, Containing VIB, VIB Acceptance Level",
         type_name="ModuleInfo")
def module_get(world: World, host: Host, values: dict) -> dict:
    name = module_of(host, values["module"])
    vib = host.vibs[MODULES[name]]
    return {"Module": name, "Module File": "/usr/lib/vmware/vmkmod/" + name, "License": "BSD" if name.startswith("nmlx5") else "VMware", "Version": vib.version,
            "Build Type": "release",
            "Provided Namespaces": "", "Required Namespaces": "com.vmware.vmkapi@v2_7_0_0", "Containing VIB": vib.name,
            "VIB Acceptance Level": LEVELS[vib.acceptance]}


@command("system module parameters list", "List the parameters for a given module and their values.",
         (option("module", "-m|--module", "The name of the module.", required=True),),
         "table", "Name, Type, Value, Description", type_name="Param")
def parameters_list(world: World, host: Host, values: dict) -> list[dict]:
    name = module_of(host, values["module"])
    own = pairs(host.module_options.get(name, ""))
    return [{"Name": key, "Type": kind, "Value": own.get(key, ""), "Description": text} for key, kind, text in PARAMETERS.get(name, ())]


@command("system module parameters set", "Set the parameters for a given module.",
         (switch("append", "-a|--append", "Append the specified parameter string to the currently set parameters for the module."),
          switch("force", "-f|--force", "Skip module/parameter validation when setting parameters."),
          option("module", "-m|--module", "The name of the module to set parameters for.", required=True),
          option("parameterstring", "-p|--parameter-string", "The parameter string to set for this module.", required=True)), "none")
def parameters_set(world: World, host: Host, values: dict) -> bool:
    name = values["module"] if values.get("force") else module_of(host, values["module"])
    text = values["parameterstring"].strip()
    for item in text.split():
        key, equals = item.partition("=")[:2]
        if not values.get("force") and (not equals or key not in [row[0] for row in PARAMETERS.get(name, ())]):
            raise EsxcliError("Unable to set module parameters: Invalid parameter name: %s" % key)
    if values.get("append"):
        merged = pairs(host.module_options.get(name, ""))
        merged.update(pairs(text))
        text = " ".join("%s=%s" % item for item in merged.items())
    host.module_options[name] = text
    world.note("esxi", host.name, "options of %s: %s" % (name, text or "(none)"))
    return True


# ---- software -----------------------------------------------------------------------------------------------------

IMAGE = switch("rebootingimage", "--rebooting-image",
               "Information for the image which becomes active after a reboot, or nothing if it has not been created yet.")


def failure(tag: str, *lines: str) -> EsxcliError:
    return EsxcliError("\n".join([" [%s]" % tag] + [" " + line for line in lines] + [" Please refer to the log file for more details."]))


def image(host: Host, values: dict) -> dict[str, Vib]:
    return (host.staged or {}) if values.get("rebootingimage") else host.vibs


def next_image(host: Host) -> dict[str, Vib]:
    return host.vibs if host.staged is None else host.staged


@command("software vib list", "Lists the installed VIB packages", (IMAGE,), "table", "Name, Version, Vendor, Acceptance Level, Install Date",
         type_name="VIBExt")
def vib_list(world: World, host: Host, values: dict) -> list[dict]:
    return [{"Name": vib.name, "Version": vib.version, "Vendor": vib.vendor, "Acceptance Level": vib.acceptance, "Install Date": vib.date, "ID": vib.id}
            for vib in sorted(image(host, values).values(), key=lambda one: one.name)]


VIB_FIELDS = ("Name, Version, Type, Vendor, Acceptance Level, Summary, Description, ReferenceURLs:string[], Creation Date, Depends:string[], "
              "Conflicts:string[], Replaces:string[], "
              "Provides:string[], Maintenance Mode Required:boolean, Hardware Platforms Required:string[], Live Install Allowed:boolean, Live Remove "
              "Allowed:boolean, "
              "Stateless Ready:boolean, Overlay:boolean, Tags:string[], Payloads:string[]")


def described(vib: Vib) -> dict[str, Any]:
    return {"ID": vib.id, "Name": vib.name, "Version": vib.version, "Type": "bootbank", "Vendor": vib.vendor, "Acceptance Level": vib.acceptance,
            "Summary": vib.name,
            "Description": vib.name, "Creation Date": vib.date, "Depends": [], "Conflicts": [], "Replaces": [], "Provides": [],
            "Maintenance Mode Required": vib.maintenance,
            "Hardware Platforms Required": [], "Live Install Allowed": not vib.reboot, "Live Remove Allowed": not vib.reboot, "Stateless Ready": True,
            "Overlay": False,
            "Tags": ["driver", "module"] if vib.name.startswith(("nmlx", "nmst")) else [], "Payloads": [vib.name.replace("-", "")[:8]], "ReferenceURLs": []}


@command("software vib get", "Displays detailed information about one or more installed VIBs",
         (IMAGE, option("vibname", "-n|--vibname", "Name of the VIB.", "string[]")), "list",
         VIB_FIELDS, "ID", "VIBExt")
def vib_get(world: World, host: Host, values: dict) -> list[dict]:
    found = image(host, values)
    names = values.get("vibname") or sorted(found)
    for name in names:
        if matching(found, name) is None:
            raise no_match(name)
    return [described(matching(found, name)) for name in names]


def matching(found: dict[str, Vib], text: str) -> Vib | None:
    """name, name:version, vendor:name or vendor:name:version."""
    for vib in found.values():
        if text in (vib.name, "%s:%s" % (vib.name, vib.version), "%s:%s" % (vib.vendor, vib.name), "%s:%s:%s" % (vib.vendor, vib.name, vib.version), vib.id):
            return vib
    return None


def no_match(name: str) -> EsxcliError:
    return failure("NoMatchError", "No VIB matching VIB search specification '%s'." % name, "       id = %s" % name)


INSTALL = (option("depot", "-d|--depot", "Full remote URLs of the depot index.xml or server file path pointing to an offline bundle .zip file.", "string[]"),
           switch("dryrun", "--dry-run", "Performs a dry-run only."),
           switch("force", "-f|--force", "Bypasses checks for package dependencies, conflicts, obsolescence, and acceptance levels."),
           switch("maintenancemode", "--maintenance-mode", "Pretends that maintenance mode is in effect."),
           switch("noliveinstall", "--no-live-install", "Forces an install to /altbootbank."),
           switch("nosigcheck", "--no-sig-check", "Bypasses acceptance level verification, including signing."), option("proxy", "--proxy", "Proxy server."),
           option("vibname", "-n|--vibname", "VIBs from a depot, by name.", "string[]"),
           option("viburl", "-v|--viburl", "URL or absolute path of a VIB.", "string[]"))
RESULT_FIELDS = "Message, Reboot Required:boolean, VIBs Installed:string[], VIBs Removed:string[], VIBs Skipped:string[]"


def sources(world: World, host: Host, values: dict) -> list[Vib]:
    """The VIBs that -v and -d name, or the error of a source that cannot be read."""
    fs, out = FileSystem(world, host, {}), []
    for given, bundle in [(path, False) for path in values.get("viburl", ())] + [(path, True) for path in values.get("depot", ())]:
        path = given[7:] if given.startswith("file://") else given
        if re.match(r"^https?://", path):
            raise unreachable(given, bundle, "<urlopen error [Errno 101] Network is unreachable>")
        path = path if path.startswith("/") else posixpath.join("/var/log/vmware", path)
        entry = fs.software(fs.absolute(path))
        if entry is None:
            raise unreadable(given, path, bundle)
        if not entry.vibs or entry.bundle != bundle:
            raise unfit(given, path, bundle, entry)
        out += entry.vibs
    names = values.get("vibname")
    if names:
        found = {vib.name: vib for vib in out}
        for name in names:
            if matching(found, name) is None:
                raise no_match(name)
        out = [matching(found, name) for name in names]
    return out


def unreachable(given: str, bundle: bool, why: str) -> EsxcliError:
    if bundle:
        return failure("MetadataDownloadError", "Could not download from depot at %s, skipping (('%s', '', \"%s\"))" % (given, given, why),
                       "       url = %s" % given)
    return failure("VibDownloadError", "('%s', '', \"%s\")" % (given, why), "       url = %s" % given)


def unreadable(given: str, path: str, bundle: bool) -> EsxcliError:
    if bundle:
        inner = "zip:%s?index.xml" % path
        return failure("MetadataDownloadError", "Could not download from depot at %s, skipping (('%s', '', \"Error extracting index.xml from %s: "
                       "[Errno 2] No such file or directory: '%s'\"))" % (inner, inner, path, path), "       url = %s" % inner)
    return failure("VibDownloadError", "('%s', '', \"[Errno 4] IOError: <urlopen error [Errno 2] No such file or directory: '%s'>\")" % (given, path),
                   "       url = %s" % given)


def unfit(given: str, path: str, bundle: bool, entry: File) -> EsxcliError:
    if bundle:
        inner = "zip:%s?index.xml" % path
        return failure("MetadataDownloadError",
                       "Could not download from depot at %s, skipping (('%s', '', 'Error extracting index.xml from %s: File is not a zip file'))"
                       % (inner, inner, path), "       url = %s" % inner)
    return failure("VibFormatError", "VIB %s is not in the correct format: %s" % (given, "an offline bundle needs -d" if entry.vibs else "not an ar archive"),
                   "       filename = %s" % path)


def checked(world: World, host: Host, new: list[Vib], gone: list[Vib], result: dict[str, Vib], values: dict) -> None:
    """What an image must satisfy before anything is staged."""
    prefix = "On platform embeddedEsx, " if int(host.version.split(".")[0]) >= 8 else ""
    if not values.get("force"):
        for vib in new:
            if ACCEPTANCE.index(vib.acceptance) < ACCEPTANCE.index(host.acceptance):
                raise failure("AcceptanceConfigError", "VIB %s's acceptance level is %s, which is not compliant with the ImageProfile acceptance level %s"
                              % (vib.id, LEVELS[vib.acceptance], LEVELS[host.acceptance]),
                              "To change the host acceptance level, use the 'esxcli software acceptance set' command.")
        rdma, core = result.get("nmlx5-rdma"), result.get("nmlx5-core")
        if rdma and (core is None or core.version != rdma.version):
            raise failure("DependencyError", "%sVIB %s requires nmlx5-core = %s, but the requirement cannot be satisfied within the ImageProfile."
                          % (prefix, rdma.id, rdma.version))
    if any(vib.maintenance for vib in new + gone) and not host.maintenance and not values.get("maintenancemode"):
        raise failure("MaintenanceModeError", "MaintenanceMode is required to remove: [%s]; install: [%s]."
                      % (", ".join(vib.id for vib in gone), ", ".join(vib.id for vib in new)))
    if not values.get("dryrun") and world.fault("tmp_full", host.name) is not None:
        raise failure("InstallationError", "[Errno 28] No space left on device", "      cause = [Errno 28] No space left on device",
                      "       vibs = [%s]" % ", ".join("'%s'" % vib.id for vib in new + gone))


def staged(world: World, host: Host, new: list[Vib], gone: list[Vib], skipped: list[Vib], values: dict) -> dict[str, Any]:
    """Check and bring about a change of the image; the result as esxcli reports it."""
    if not new and not gone:
        return {"Message": RESULT_SAME, "Reboot Required": False, "VIBs Installed": [], "VIBs Removed": [], "VIBs Skipped": [vib.id for vib in skipped]}
    result = {name: vib for name, vib in next_image(host).items() if vib not in gone}
    today = utc().date().isoformat()
    result.update({vib.name: dataclasses.replace(vib, date=today) for vib in new})
    checked(world, host, new, gone, result, values)
    reboot = any(vib.reboot for vib in new + gone) or bool(values.get("noliveinstall"))
    if values.get("dryrun"):
        message = RESULT_DRY
    elif reboot:
        message, host.staged = RESULT_REBOOT, result
    else:
        message = RESULT_OK
        if host.staged is not None:
            host.staged = result
        host.vibs = {name: vib for name, vib in host.vibs.items() if vib not in gone}
        host.vibs.update({vib.name: result[vib.name] for vib in new})
    if not values.get("dryrun"):
        world.note("esxi", host.name, "image: +%s -%s" % ([vib.id for vib in new], [vib.id for vib in gone]))
    return {"Message": message, "Reboot Required": reboot, "VIBs Installed": [vib.id for vib in new], "VIBs Removed": [vib.id for vib in gone],
            "VIBs Skipped": [vib.id for vib in skipped]}


def same(one: Vib | None, other: Vib) -> bool:
    return one is not None and one.version == other.version


def newer(one: Vib, other: Vib | None) -> bool:
    def key(vib: Vib) -> list[tuple[int, str]]:
        return [(int(part), "") if part.isdigit() else (0, part) for part in re.findall(r"\d+|[A-Za-z]+", vib.version)]
    return other is None or key(one) > key(other)


@command("software vib install", "Installs VIB packages from a URL or depot. VIBs may be installed, upgraded, or downgraded.", INSTALL, "struct", RESULT_FIELDS,
         "Installation Result", "InstallationResult")
def vib_install(world: World, host: Host, values: dict) -> dict:
    wanted = sources(world, host, values)
    if not wanted:
        raise EsxcliError("Need to specify either a depot or one or more VIB URLs")
    now = next_image(host)
    new = [vib for vib in wanted if not same(now.get(vib.name), vib)]
    return staged(world, host, new, [now[vib.name] for vib in new if vib.name in now], [vib for vib in wanted if vib not in new], values)


@command("software vib update", "Update installed VIBs to newer VIB packages.", INSTALL, "struct", RESULT_FIELDS, "Update Result", "InstallationResult")
def vib_update(world: World, host: Host, values: dict) -> dict:
    wanted = sources(world, host, values)
    if not wanted:
        raise EsxcliError("Need to specify either a depot or one or more VIB URLs")
    now = next_image(host)
    new = [vib for vib in wanted if vib.name in now and newer(vib, now[vib.name])]
    return staged(world, host, new, [now[vib.name] for vib in new], [vib for vib in wanted if vib not in new], values)


@command("software vib remove", "Removes VIB packages from the host.",
         (switch("dryrun", "--dry-run", "Performs a dry-run only."), switch("force", "-f|--force", "Bypasses checks."),
          switch("maintenancemode", "--maintenance-mode", "Pretends that maintenance mode is in effect."),
          switch("noliveinstall", "--no-live-install", "Forces a remove of /altbootbank."),
          option("vibname", "-n|--vibname", "VIBs to remove.", "string[]", True)), "struct", RESULT_FIELDS, "Removal Result", "InstallationResult")
def vib_remove(world: World, host: Host, values: dict) -> dict:
    now, gone = next_image(host), []
    for name in values["vibname"]:
        vib = matching(now, name)
        if vib is None:
            raise no_match(name)
        gone.append(vib)
    return staged(world, host, [], gone, [], values)


@command("software sources vib get", "Display details about VIB packages in the depot.", INSTALL, "list", VIB_FIELDS, "ID", "VIBExt")
def sources_vib_get(world: World, host: Host, values: dict) -> list[dict]:
    return [described(vib) for vib in sources(world, host, values)]


@command("software sources vib list", "List all the VIBs in the specified depots.", INSTALL, "table",
         "Name, Version, Vendor, Creation Date, Acceptance Level, Status", type_name="VIBSummaryExt")
def sources_vib_list(world: World, host: Host, values: dict) -> list[dict]:
    now = next_image(host)
    return [{"Name": vib.name, "Version": vib.version, "Vendor": vib.vendor, "Creation Date": vib.date, "Acceptance Level": vib.acceptance,
             "Status": "Installed" if same(now.get(vib.name), vib) else "New" if vib.name not in now else "Update" if newer(vib, now[vib.name])
             else "Downgrade"}
            for vib in sources(world, host, values)]


COMPONENTS = {"Mellanox-nmlx5": ("nmlx5-core", "Mellanox Native OFED ConnectX-4/5/6 Drivers"), "MFT-Tools": ("mft", "Mellanox Firmware Tools"),
              "NMST": ("nmst", "Mellanox Software Tools driver")}


@command("software component list", "Displays a list of Component packages.", (IMAGE,), "table",
         "Name, Display Name, Version, Display Version, Vendor, Creation Date, Acceptance Level, Status", type_name="Component")
def component_list(world: World, host: Host, values: dict) -> list[dict]:
    found, out = image(host, values), []
    for name, (vib_name, text) in COMPONENTS.items():
        vib = found.get(vib_name)
        if vib:
            out.append({"Name": name, "Display Name": text, "Version": vib.version, "Display Version": vib.version.split("-")[0], "Vendor": vib.vendor,
                        "Creation Date": vib.date,
                        "Acceptance Level": vib.acceptance, "Status": "Installed"})
    return out


@command("software component apply", "Installs Component packages from a depot.",
         tuple(item for item in INSTALL if item.name in ("depot", "dryrun", "force", "maintenancemode", "nosigcheck"))
         + (option("component", "-n|--component", "Components.", "string[]"),),
         "struct", "Message, Components Installed:string[], Components Removed:string[], Components Skipped:string[], Reboot Required:boolean",
         "Installation Result", "InstallationResult")
def component_apply(world: World, host: Host, values: dict) -> dict:
    if not values.get("depot"):
        raise EsxcliError("Need to specify a depot")
    found = vib_install(world, host, {key: value for key, value in values.items() if key != "component"})
    return {"Message": found["Message"], "Reboot Required": found["Reboot Required"], "Components Installed": found["VIBs Installed"],
            "Components Removed": found["VIBs Removed"],
            "Components Skipped": found["VIBs Skipped"]}


@command("software acceptance get", "Gets the host acceptance level.", (), "simple")
def acceptance_get(world: World, host: Host, values: dict) -> str:
    return host.acceptance


@command("software acceptance set", "Sets the host acceptance level.",
         (option("level", "--level", "VMwareCertified / VMwareAccepted / PartnerSupported / CommunitySupported", required=True),), "simple")
def acceptance_set(world: World, host: Host, values: dict) -> str:
    level = values["level"]
    if level not in ACCEPTANCE:
        raise failure("AcceptanceConfigError", "Invalid acceptance level '%s'." % level)
    below = [vib.id for vib in host.vibs.values() if ACCEPTANCE.index(vib.acceptance) < ACCEPTANCE.index(level)]
    if below:
        raise failure("AcceptanceConfigError", "Acceptance level of VIBs %s is below the host acceptance level %s" % (", ".join(below), LEVELS[level]))
    host.acceptance = level
    return "Host acceptance level changed to '%s'." % level


@command("software profile get", "Display the installed image profile.", (IMAGE,), "list",
         "Name, Vendor, Creation Time, Modification Time, Stateless Ready:boolean, Description, VIBs:string[]", "Heading", "ImageProfile")
def profile_get(world: World, host: Host, values: dict) -> list[dict]:
    found = image(host, values)
    if not found:
        return []
    name = "ESXi-%s-%s-standard" % (host.version, host.build)
    changed = any(vib.vendor == "MEL" for vib in found.values())
    name = "(Updated) " + name if changed else name
    moment = host.boot_time.strftime("%Y-%m-%dT%H:%M:%S")
    return [{"Heading": name, "Name": name, "Vendor": "VMware, Inc.", "Creation Time": moment, "Modification Time": moment, "Stateless Ready": True,
             "Description": "",
             "VIBs": ["%s %s" % (vib.name, vib.version) for vib in sorted(found.values(), key=lambda one: one.name)]}]


@command("software baseimage get", "Display the installed baseimage of the host.", (IMAGE,), "struct", "Name, Version, Display Version, Release Type, Vendor",
         type_name="BaseImage")
def baseimage_get(world: World, host: Host, values: dict) -> dict:
    return {"Name": "ESXi", "Version": "%s-0.0.%s" % (host.version, host.build), "Display Version": host.version, "Release Type": "patch",
            "Vendor": "VMware, Inc."}


# ---- hardware -----------------------------------------------------------------------------------------------------

def decimal(bdf: str) -> str:
    domain, bus, rest = bdf.split(":")
    slot, function = rest.split(".")
    return "PCI %d:%d:%d:%d" % (int(domain, 16), int(bus, 16), int(slot, 16), int(function))


DEVICE_NAMES = {4115: "MT27700 Family [ConnectX-4]", 4117: "MT27710 Family [ConnectX-4 Lx]", 4119: "MT27800 Family [ConnectX-5]",
                4121: "MT28800 Family [ConnectX-5 Ex]", 4123: "MT28908 Family [ConnectX-6]", 4125: "MT2892 Family [ConnectX-6 Dx]",
                4129: "MT2910 Family [ConnectX-7]", 41686: "MT42822 BlueField-2 integrated ConnectX-6 Dx network controller",
                41692: "MT43244 BlueField-3 integrated ConnectX-7 network controller"}
SUBDEVICE = {4117: 0x0003, 4119: 0x0008}


def device_name(card: Card) -> str:
    return DEVICE_NAMES.get(card.mt, card.device)


def claimed(host: Host, bdf: str) -> str:
    """The module that owns a function: pciPassthru, nmlx5_core or ""."""
    if host.passthru[bdf].active:
        return "pciPassthru"
    return "nmlx5_core" if bdf in host.vmnics().values() else ""


def pci_row(host: Host, bdf: str, card: Card, port: Port, slot: int, nics: dict[str, str]) -> dict[str, Any]:
    domain, bus, rest = bdf.split(":")
    device, function = rest.split(".")
    state, module = host.passthru[bdf], claimed(host, bdf)
    infiniband = card.pci_class(port.number) == CLASS_INFINIBAND
    return {"Address": bdf, "Segment": "0x" + domain, "Bus": "0x" + bus, "Slot": "0x" + device, "Function": "0x" + function, "VMkernel Name": nics.get(bdf, ""),
            "Vendor Name": "Mellanox Technologies", "Device Name": device_name(card), "Configured Owner": "VM Passthru" if state.enabled else "Unknown",
            "Current Owner": "VM Passthru" if state.active else "VMkernel", "Vendor ID": "0x15b3", "Device ID": "0x%04x" % card.mt, "SubVendor ID": "0x15b3",
            "SubDevice ID": "0x%04x" % SUBDEVICE.get(card.mt, 0), "Device Class": "0x%04x" % card.pci_class(port.number),
            "Device Class Name": "Infiniband controller" if infiniband else "Ethernet controller", "Programming Interface": "0x00", "Revision ID": "0x00",
            "Interrupt Line": "0xff",
            "IRQ": 255, "Interrupt Vector": "0x00", "PCI Pin": "0x%02x" % (port.number - 1), "Spawned Bus": "0x00",
            "Flags": "0x3401" if state.active else "0x3201",
            "Module ID": {"pciPassthru": 21, "nmlx5_core": 87}.get(module, 0), "Module Name": module or "None", "Chassis": 0, "Physical Slot": slot,
            "Slot Description": "PCIe Slot %d" % slot, "Device Layer Bus Address": "s%08x.%02x" % (slot, int(function)), "Passthru Capable": True,
            "Parent Device": "PCI %d:%d:0:0" % (int(domain, 16), max(int(bus, 16) - 1, 0)), "Dependent Device": decimal(bdf), "Reset Method": "Function reset",
            "FPT Sharable": True,
            "NUMA Node": 0 if int(bus, 16) < 0x80 else 1}


PCI_FIELDS = ("Address, Segment, Bus, Slot, Function, VMkernel Name, Vendor Name, Device Name, Configured Owner, Current Owner, Vendor ID, Device ID, "
              "SubVendor ID, SubDevice ID, "
              "Device Class, Device Class Name, Programming Interface, Revision ID, Interrupt Line, IRQ:long, Interrupt Vector, PCI Pin, Spawned Bus, Flags, "
              "Module ID:long, Module Name, "
              "Chassis:long, Physical Slot:long, Slot Description, Device Layer Bus Address, Passthru Capable:boolean, Parent Device, Dependent Device, Reset "
              "Method, FPT Sharable:boolean, "
              "NUMA Node:long")
RAID = {"Address": "0000:02:00.0", "Segment": "0x0000", "Bus": "0x02", "Slot": "0x00", "Function": "0x0", "VMkernel Name": "vmhba0", "Vendor Name": "Broadcom",
        "Device Name": "PERC H740P Mini", "Configured Owner": "Unknown", "Current Owner": "VMkernel", "Vendor ID": "0x1000", "Device ID": "0x0016",
        "SubVendor ID": "0x1028",
        "SubDevice ID": "0x1fcb", "Device Class": "0x0104", "Device Class Name": "RAID bus controller", "Programming Interface": "0x00", "Revision ID": "0x02",
        "Interrupt Line": "0x0b",
        "IRQ": 11, "Interrupt Vector": "0x31", "PCI Pin": "0x00", "Spawned Bus": "0x00", "Flags": "0x3201", "Module ID": 44, "Module Name": "lsi_mr3",
        "Chassis": 0, "Physical Slot": 0,
        "Slot Description": "Integrated RAID", "Device Layer Bus Address": "s00000000.00", "Passthru Capable": True, "Parent Device": "PCI 0:0:28:0",
        "Dependent Device": "PCI 0:2:0:0",
        "Reset Method": "Function reset", "FPT Sharable": True, "NUMA Node": 0}


@command("hardware pci list", "List all of the PCI devices on the system.",
         (option("class", "-c|--class", "Limit to devices of this class.", "string"), option("mask", "-m|--mask", "Mask of the class.", "string")), "list",
         PCI_FIELDS, "Address", "PciDevice")
def pci_list(world: World, host: Host, values: dict) -> list[dict]:
    nics = {bdf: name for name, bdf in host.vmnics().items()}
    slots = {card.bdf: index + 2 for index, card in enumerate(sorted(host.cards, key=lambda one: one.bdf))}
    rows = [dict(RAID)] + [pci_row(host, bdf, card, port, slots[card.bdf], nics) for bdf, card, port in host.functions()]
    if values.get("class"):
        wanted, mask = int(values["class"], 0), int(values.get("mask") or "0xffff", 0)
        rows = [row for row in rows if int(row["Device Class"], 16) & mask == wanted & mask]
    return sorted(rows, key=lambda row: row["Address"])


@command("hardware pci pcipassthru list", "Displays PCI device passthru configuration.", (), "table", "Device ID, Enabled:boolean", type_name="PciPassthru")
def passthru_list(world: World, host: Host, values: dict) -> list[dict]:
    return [{"Device ID": bdf, "Enabled": host.passthru[bdf].enabled} for bdf, dummy, dummy2 in host.functions()]


@command("hardware pci pcipassthru set", "Configure PCI device for passthru.",
         (switch("applynow", "-a|--apply-now", "Apply the configuration now, without a reboot where that is possible."),
          option("deviceid", "-d|--device-id", "Device address.", required=True),
          option("enable", "-e|--enable", "Whether passthru is to be enabled.", "boolean", True)), "none")
def passthru_set(world: World, host: Host, values: dict) -> bool:
    bdf = values["deviceid"].lower()
    if bdf not in host.passthru:
        raise EsxcliError("Unable to configure the PCI device: Device %s not found." % values["deviceid"])
    state, on = host.passthru[bdf], values["enable"]
    if state.enabled == on:
        raise EsxcliError("Unable to configure the PCI device: Device owner is already configured to %s." % ("passthru" if on else "vmkernel"))
    if on:
        user, names = used_by_switch(host, bdf), {where: name for name, where in host.vmnics().items()}
        if user:
            raise EsxcliError("Unable to configure the PCI device: Device ownership cannot be changed to passthru as it is used by vswitch %s for uplink %s"
                              % (user, names.get(bdf, bdf)))
    state.enabled = on
    if values.get("applynow") and host.rebind:
        state.active = on
    world.note("esxi", host.name, "passthrough of %s %s" % (bdf, "on" if on else "off"))
    return True


def used_by_switch(host: Host, bdf: str) -> str:
    for name, functions in host.vswitch.items():
        if bdf in functions:
            return name
    for index, functions in enumerate(host.dvs.values()):
        if bdf in functions:
            return "DvsPortset-%d" % index
    return ""


# ---- network ------------------------------------------------------------------------------------------------------

def nic_description(card: Card) -> str:
    if card.mt == 4117:
        return "Mellanox Technologies ConnectX-4 Lx EN NIC; 25GbE; dual-port SFP28; (%s)" % card.part.split("_")[0]
    return "Mellanox Technologies " + device_name(card)


@command("network nic list", "List physical NICs installed in the system.", (), "table",
         "Name, PCI Device, Driver, Admin Status, Link Status, Speed:long, Duplex, MAC Address, MTU:long, Description", type_name="PhysicalNetworkCard")
def nic_list(world: World, host: Host, values: dict) -> list[dict]:
    out = []
    for name, bdf in host.vmnics().items():
        card, port = host.find(bdf)
        up = port.cabled and card.link_type(port.number) == ETH
        out.append({"Name": name, "PCI Device": bdf, "Driver": "nmlx5_core", "Admin Status": "Up", "Link Status": "Up" if up else "Down",
                    "Speed": port.speed * 1000 if up else 0,
                    "Duplex": "Full" if up else "Half", "MAC Address": port.mac, "MTU": 1500, "Description": nic_description(card)})
    return out


def uplinks(host: Host, functions: list[str]) -> list[str]:
    nics = {bdf: name for name, bdf in host.vmnics().items()}
    return [nics[bdf] for bdf in functions if bdf in nics]


PORTGROUPS = {"vmk0": "Management Network", "vmk1": "Storage Network"}


@command("network ip interface list", "List the VMkernel network interfaces.", (option("netstack", "-N|--netstack", "The network stack instance."),), "list",
         "Name, MAC Address, Enabled:boolean, Portset, Portgroup, Netstack Instance, VDS Name, VDS UUID, VDS Port, VDS Connection:long, Opaque Network ID, "
         "Opaque Network Type, External ID, "
         "MTU:long, TSO MSS:long, RXDispQueue Size:long, Port ID:long", "Name", "Interface")
def interface_list(world: World, host: Host, values: dict) -> list[dict]:
    out = []
    for index, (name, functions) in enumerate(host.vmk_uplinks.items()):
        portset = next((switch_name for switch_name, used in host.vswitch.items() if set(functions) & set(used)), "vSwitch0")
        out.append({"Name": name, "MAC Address": vmk_mac(host, index), "Enabled": True, "Portset": portset, "Portgroup": PORTGROUPS.get(name, name),
                    "Netstack Instance": "defaultTcpipStack",
                    "VDS Name": "N/A", "VDS UUID": "N/A", "VDS Port": "N/A", "VDS Connection": -1, "Opaque Network ID": "N/A", "Opaque Network Type": "N/A",
                    "External ID": "N/A",
                    "MTU": 1500, "TSO MSS": 65535, "RXDispQueue Size": 4, "Port ID": 67108870 + index})
    return out


def vmk_mac(host: Host, index: int) -> str:
    if index == 0 and host.cards:
        return host.functions()[0][2].mac
    return "00:50:56:6%d:%s:%s" % (index % 10, host.uuid[-4:-2], host.uuid[-2:])


@command("network ip interface ipv4 get", "List IPv4 addresses assigned to VMkernel network interfaces.",
         (option("interfacename", "-i|--interface-name", "The interface."),), "table",
         "Name, IPv4 Address, IPv4 Netmask, IPv4 Broadcast, Address Type, Gateway, DHCP DNS:boolean", type_name="IPv4Interface")
def ipv4_get(world: World, host: Host, values: dict) -> list[dict]:
    out = []
    for index, name in enumerate(host.vmk_uplinks):
        if values.get("interfacename", name) != name:
            continue
        address = host.address or "192.0.2.10"
        if index:
            address = "192.168.%d.%s" % (100 + index, address.split(".")[-1])
        network = address.rsplit(".", 1)[0]
        out.append({"Name": name, "IPv4 Address": address, "IPv4 Netmask": "255.255.255.0", "IPv4 Broadcast": network + ".255", "Address Type": "STATIC",
                    "Gateway": network + ".254" if not index else "0.0.0.0", "DHCP DNS": False})
    return out


@command("network ip interface tag get", "Gets the tags set on the given VMkernel network interface.",
         (option("interfacename", "-i|--interface-name", "The interface.", required=True),),
         "struct", "Tags:string[]", type_name="Tags")
def tag_get(world: World, host: Host, values: dict) -> dict:
    if values["interfacename"] not in host.vmk_uplinks:
        raise EsxcliError("Unable to find vmkernel interface %s" % values["interfacename"])
    words = {"management": "Management", "vsan": "VSAN", "vmotion": "VMotion"}
    return {"Tags": [words.get(tag, tag) for tag in host.vmk_services.get(values["interfacename"], [])]}


@command("network vswitch standard list", "List the virtual switches current on the ESXi host.",
         (option("vswitchname", "-v|--vswitch-name", "Limit to this switch."),), "list",
         "Name, Class, Num Ports:long, Used Ports:long, Configured Ports:long, MTU:long, CDP Status, Beacon Enabled:boolean, Beacon Interval:long, Beacon "
         "Threshold:long, "
         "Beacon Required By:string[], Uplinks:string[], Portgroups:string[]", "Name", "VSwitch")
def vswitch_list(world: World, host: Host, values: dict) -> list[dict]:
    return [{"Name": name, "Class": "cswitch", "Num Ports": 7936, "Used Ports": 6, "Configured Ports": 128, "MTU": 1500, "CDP Status": "listen",
             "Beacon Enabled": False, "Beacon Interval": 1,
             "Beacon Threshold": 3, "Beacon Required By": [], "Uplinks": uplinks(host, functions),
             "Portgroups": [PORTGROUPS.get(vmk, vmk) for vmk, used in host.vmk_uplinks.items() if set(used) & set(functions)]}
            for name, functions in host.vswitch.items() if values.get("vswitchname", name) == name]


@command("network vswitch standard uplink remove", "Remove an uplink from a virtual switch.",
         (option("uplinkname", "-u|--uplink-name", "The uplink.", required=True), option("vswitchname", "-v|--vswitch-name", "The switch.", required=True)),
         "none")
def vswitch_uplink_remove(world: World, host: Host, values: dict) -> bool:
    functions = host.vswitch.get(values["vswitchname"])
    if functions is None:
        raise EsxcliError("No such virtual switch: %s" % values["vswitchname"])
    bdf = host.vmnics().get(values["uplinkname"], "")
    if bdf not in functions:
        raise EsxcliError("No such uplink: %s" % values["uplinkname"])
    functions.remove(bdf)
    return True


@command("network vswitch dvs vmware list", "List the VMware vSphere Distributed Switch currently configured on the ESXi host.",
         (option("vdsname", "-v|--vds-name", "Limit to this switch."),),
         "list",
         "Name, VDS ID, Class, Num Ports:long, Used Ports:long, Configured Ports:long, MTU:long, CDP Status, Beacon Timeout:long, Uplinks:string[], VMware "
         "Branded:boolean, "
         "DVPort:structure[]", "Name", "DVSwitch")
def dvs_list(world: World, host: Host, values: dict) -> list[dict]:
    out = []
    for name, functions in host.dvs.items():
        if values.get("vdsname", name) != name:
            continue
        names = uplinks(host, functions)
        ports = [{"Client": nic, "DVPortgroup ID": "dvportgroup-31", "In Use": True, "Port ID": str(10 + index)} for index, nic in enumerate(names)]
        out.append({"Name": name, "VDS ID": world.switches.get(name, {}).get("uuid", ""), "Class": "cswitch", "Num Ports": 7936, "Used Ports": 2 + len(names),
                    "Configured Ports": 512,
                    "MTU": 9000, "CDP Status": "listen", "Beacon Timeout": -1, "Uplinks": names, "VMware Branded": True, "DVPort": ports})
    return out


# ---- storage, rdma ------------------------------------------------------------------------------------------------

@command("storage filesystem list", "List the volumes available to the host.", (), "table",
         "Mount Point, Volume Name, UUID, Mounted:boolean, Type, Size:long, Free:long", type_name="FilesystemVolume")
def filesystem_list(world: World, host: Host, values: dict) -> list[dict]:
    rows = [{"Mount Point": "/vmfs/volumes/" + volume_id(name), "Volume Name": name, "UUID": volume_id(name), "Mounted": True, "Type": "NFS",
             "Size": 21990232555520, "Free": 17372283207680}
            for name in world.datastores]
    return rows + [{"Mount Point": "/vmfs/volumes/5f0c2c1a-9a2d7f10-%s" % host.uuid[-4:], "Volume Name": "BOOTBANK1",
                    "UUID": "5f0c2c1a-9a2d7f10-%s" % host.uuid[-4:], "Mounted": True,
                    "Type": "vfat", "Size": 4293591040, "Free": 4104388608}]


@command("rdma device list", "List all logical RDMA devices on the system.", (), "table", "Name, Driver, State, MTU:long, Speed, Paired Uplink, Description",
         type_name="RDMADevice")
def rdma_list(world: World, host: Host, values: dict) -> list[dict]:
    if "nmlx5-rdma" not in host.vibs:
        return []
    out = []
    for index, (name, bdf) in enumerate(host.vmnics().items()):
        card, port = host.find(bdf)
        up = port.cabled and card.link_type(port.number) == ETH
        out.append({"Name": "vmrdma%d" % index, "Driver": "nmlx5_rdma", "State": "Active" if up else "Down", "MTU": 1024,
                    "Speed": "%d Gbps" % (port.speed if up else 0), "Paired Uplink": name,
                    "Description": device_name(card)})
    return out


@command("hardware platform get", "Get information about the platform", (), "struct", "UUID, Product Name, Vendor Name, Serial Number, IPMI Supported:boolean",
         type_name="PlatformGet")
def platform_get(world: World, host: Host, values: dict) -> dict:
    return {"UUID": " ".join("0x" + host.uuid.replace("-", "")[at:at + 2] for at in range(0, 32, 2)), "Product Name": host.model, "Vendor Name": host.vendor,
            "Serial Number": host.uuid[-7:].upper(), "IPMI Supported": True}


@command("system time get", "Display the current system time.", (), "simple")
def time_get(world: World, host: Host, values: dict) -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


PROGRAMS = {"esxcli": run}
