# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MFT's esxcli plugin (MFT 4.31 and newer) in the two layouts that are told of, and the driver's namespace that has no tools.

Assumed, never seen on hardware: the names of the options, and that a command answers with the text of the tool behind it.
host.settings["mft_esxcli"]: "mellanox.mft", "mellanox" or "driver".
"""

from __future__ import annotations

from typing import Any, Callable

from ..world import Host, World
from .esxcli import Command, EsxcliError, Option, option, switch
from .sh import Buffer, Io, Reader, new_shell

DEVICE = option("device", "-d|--dev|--device", "The device, by mst name or PCI address.")
YES = switch("yes", "-y|--yes", "Yes to every question.")
# tool: command: (option list, words of the tool's own command line)
TOOLS: dict[str, dict[str, tuple[tuple[Option, ...], Callable[[dict[str, Any]], list[str]]]]] = {}


def _device(values: dict[str, Any]) -> list[str]:
    return ["-d", values["device"]] if values.get("device") else []


def _entry(tool: str, name: str, options: tuple[Option, ...], words: Callable[[dict[str, Any]], list[str]]) -> None:
    TOOLS.setdefault(tool, {})[name] = (options, words)


for verb in ("start", "stop", "restart"):
    _entry("mst", verb, (), lambda values, verb=verb: [verb])
_entry("mst", "status", (switch("verbose", "-v|-vv|--verbose", "More columns."),), lambda values: ["status"] + ["-vv"] * bool(values.get("verbose")))
_entry("mlxconfig", "query", (DEVICE, switch("enableverbosity", "-e|--enable_verbosity", "Default and current values too.")),
       lambda values: _device(values) + ["-e"] * bool(values.get("enableverbosity")) + ["q"])
_entry("mlxconfig", "set", (DEVICE, YES, option("settings", "-s|--settings", "NAME=VALUE", "string[]", True)),
       lambda values: _device(values) + ["-y"] * bool(values.get("yes")) + ["set"] + list(values["settings"]))
_entry("mlxfwmanager", "query", (DEVICE, option("queryformat", "-f|--query-format", "XML or Text"), switch("noprogress", "--no-progress", "No progress.")),
       lambda values: _device(values) + ["--query"] + (["--query-format", values["queryformat"]] if values.get("queryformat") else []))
_entry("flint", "query", (DEVICE, option("image", "-i|--image", "Image file.")),
       lambda values: _device(values) + (["-i", values["image"]] if values.get("image") else []) + ["q"])
_entry("flint", "burn", (DEVICE, YES, option("image", "-i|--image", "Image file.", required=True)),
       lambda values: _device(values) + ["-i", values["image"]] + ["-y"] * bool(values.get("yes")) + ["b"])
_entry("mlxvpd", "query", (DEVICE,), _device)


def _runs(tool: str, words: Callable[[dict[str, Any]], list[str]]) -> Callable[[World, Host, dict[str, Any]], str]:
    def run(world: World, host: Host, values: dict[str, Any]) -> str:
        from .mft import PROGRAMS  # pylint: disable=import-outside-toplevel

        line = [tool] + words(values)
        world.note("esxi", host.name, "esxcli: " + " ".join(line))
        out, err = Buffer(), Buffer()
        rc = PROGRAMS[tool](new_shell(world, host), line, Io(Reader(b""), out, err))
        text = out.value().decode() + err.value().decode()
        if rc:
            raise EsxcliError(text.strip())
        return text
    return run


def _plugin(prefix: str) -> dict[tuple[str, str], Command]:
    return {("%s.%s" % (prefix, tool), name): Command("%s.%s" % (prefix, tool), name, "%s %s" % (tool, name), _runs(tool, words), options, "simple")
            for tool, entries in TOOLS.items() for name, (options, words) in entries.items()}


LAYOUTS: dict[str, dict[tuple[str, str], Command]] = {
    "mellanox.mft": _plugin("mellanox.mft"), "mellanox": _plugin("mellanox"),
    "driver": {("mellanox.uplink.link", "info"): Command("mellanox.uplink.link", "info", "Link of an uplink.", lambda world, host, values: "Link: up",
                                                         (option("uplinkname", "-u|--uplink-name", "The uplink.", required=True),), "simple")},
}
