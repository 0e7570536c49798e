# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mst: the names under which the MFT tools reach the cards, on ESXi and on Linux."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

NODE = re.compile(r"(?:^|(?<=\s))((?:/dev/)?(?:mst/)?(?:mt\d+_\w+(?:\.\d+)?|(?:CA|SW)_MT\w+|mtusb-\d+))(?=\s|$)")
TYPED_ROW = re.compile(r"^\s*([A-Za-z][\w-]*)\s?\(rev:\s?(\w+)\)\s*(.*)$")
SECTION = re.compile(r"^\s*(MST modules|MST devices|PCI devices|Cable devices|I2C devices|Inband devices|Remote MST devices|LBAR devices)\s*:")
LINUX_DETAIL = re.compile(r"domain:bus:dev\.fn=(\S+)")
REVISION = re.compile(r"^\s*Chip revision is:\s*(\w+)")
MODULE = re.compile(r"^\s*(MST PCI(?: configuration)? module|MST I2C module|MST Calibre[^:]*?|\S+ module)\s+(is not loaded|loaded|is loaded)\s*$", re.I)
STARTED = re.compile(r"^\s*(?:Module mst (?:is )?(?:already )?(?:un)?loaded\b|Module mst is not loaded|(?:Starting|Stopping) MST\b|Loading MST\b"
                     r"|Unloading MST\b"
                     r"|Create devices\b|\[warn\] mst|modprobe: (?:FATAL|ERROR): .*mst_pci|Saving .*mst|Removing mst)", re.I)
FAILED = re.compile(r"(?:- Failure: \d+|^\s*(?:modprobe|insmod): (?:FATAL|ERROR)|Can ?not load module mst"
                    r"|^\s*(?:Failed|Unable|Could not|Cannot)\b.*\bmst)", re.I)
VERSION = re.compile(r"^\s*mst,\s*mft\s+([\w.-]+)", re.I)
NO_DEVICES = re.compile(r"No (?:MST )?devices (?:were )?found", re.I)


def parse(text):
    """Devices and module states from mst status (plain, -v, -vv), mst start and mst restart."""
    found = clean.lines("mst", text)
    out = {"devices": [], "modules": {}, "messages": []}
    known, section = False, ""
    errors = clean.mft_errors(found)
    for line in found:
        if not line.strip() or re.match(r"^[\s.-]+$", line):
            continue
        head = SECTION.match(line)
        if head:
            section, known = head.group(1), True
            continue
        if re.match(r"^\s*DEVICE_TYPE\s+MST\b", line):
            section, known = "PCI devices", True
            continue
        module = MODULE.match(line)
        if module and section != "MST devices":
            key = re.sub(r"\bmodule\b|\bMST\b", "", module.group(1)).strip().lower().replace(" ", "_")
            out["modules"][key or "mst"] = module.group(2).lower() != "is not loaded"
            known = known or section == "MST modules"
            continue
        typed = TYPED_ROW.match(line)
        if typed:
            out["devices"].append(_typed(typed))
            known = True
            continue
        detail = LINUX_DETAIL.search(line)
        revision = REVISION.match(line)
        if detail and out["devices"]:
            address = clean.pci_address(detail.group(1))
            if out["devices"][-1]["pci"] not in ("", address):
                raise ParseError("mst", "a device's line is missing above its address", line)
            out["devices"][-1]["pci"] = address
            continue
        if revision and out["devices"]:
            out["devices"][-1]["rev"] = revision.group(1)
            continue
        node = NODE.match(line.strip())
        if node:
            rest = line.strip()[node.end():].strip(" -")
            device = _device(node.group(1))
            _cells(device, rest.split() if section == "PCI devices" else [cell for cell in rest.split() if clean.pci_address(cell)])
            out["devices"].append(device)
            known = True
            continue
        version = VERSION.match(line)
        if version:
            out["version"], known = version.group(1), True
        elif STARTED.match(line) or NO_DEVICES.search(line) or (known and section):
            known = True
            out["messages"].append(line.strip())
    failures = [line.strip() for line in found if FAILED.search(line)]
    if (errors and (known or clean.error_alone(found))) or failures:
        out["error"] = "; ".join(errors or failures)
        known = True
    if not known:
        raise ParseError("mst", "no device list, no module state and no start message in it", "\n".join(found))
    acted = [line for line in out["messages"] if re.match(r"^Module mst|^Starting MST|^Loading MST|^Stopping MST", line, re.I)]
    if acted:
        out["loaded"] = "error" not in out and not re.search(r"unloaded|is not loaded|^Stopping", acted[-1], re.I)
    return out


def _device(node, kind="", rev=""):
    chip = re.search(r"mt(\d+)_", node)
    return {"type": kind, "rev": rev, "mst": node, "chip": int(chip.group(1)) if chip else None, "pci": "", "rdma": [], "net": [], "numa": None}


def _typed(match):
    """A row of the -v table: the cells are told by their shape, an empty RDMA cell on ESXi is not even padded."""
    cells = match.group(3).split()
    device = _device("", match.group(1), match.group(2))
    if cells and NODE.match(cells[0]):
        device.update(_device(cells.pop(0), match.group(1), match.group(2)))
    _cells(device, cells)
    return device


def _cells(device, cells):
    for index, cell in enumerate(cells):
        if clean.pci_address(cell) and not device["pci"]:
            device["pci"] = clean.pci_address(cell)
        elif cell.startswith("net-"):
            device["net"].extend(name[4:] if name.startswith("net-") else name for name in cell.split(",") if name)
        elif re.match(r"^-?\d+$", cell) and index == len(cells) - 1:
            device["numa"] = int(cell)
        elif cell not in ("NA", "N/A", "-") and re.match(r"^[A-Za-z]\w*(?:,[A-Za-z]\w*)*$", cell):
            device["rdma"].extend(cell.split(","))
        elif re.match(r"^-?\d+$", cell):
            device["numa"] = int(cell)


def device_at(devices, pci):
    """The mst name of the card at a PCI address: pciconf nodes before pci_cr ones, "" where there is none."""
    wanted = clean.pci_address(pci)
    names = sorted((device["mst"] for device in devices if device["mst"] and device["pci"] == wanted), key=lambda name: ("pciconf" not in name, name))
    return names[0] if names else ""
