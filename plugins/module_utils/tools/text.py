# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every parser needs: clean lines, PCI addresses, numbers, key names."""

import math
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ODD_BLANKS = re.compile("[\u00a0\u2000-\u200a\u202f\u3000]")
# Documents turn the quotes and dashes of a tool's text into typographic ones.
PLAIN = {0x2018: "'", 0x2019: "'", 0x201c: '"', 0x201d: '"', 0x2010: "-", 0x2011: "-", 0x2012: "-", 0x2013: "-", 0x2014: "-", 0x2015: "-", 0x2026: "..."}
LONG_BLANK = re.compile(r"[ \t]{400,}")
NOTHING = re.compile("[\x00\u200b\u200c\u200d\ufeff]")
PCI = re.compile(r"^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})[.:]([0-7])$", re.I)
PCI_DECIMAL = re.compile(r"^(\d{5}):(\d{3}):(\d{2})\.(\d{1,3})$")
# [root@vm01 ~]# command, user@vm01:~$ command, ESXi's [root@esx01:~] command, and the bare "$ command" of recordings.
PROMPT = re.compile(r"^\s*(?:(?:\[[^\]@\s]+@[^\]]*\]|[\w.-]+@[\w.-]+:\S*)\s*[#$]|\[[^\]@\s]+@[^\]:\s]+:[^\]]*\]|\$)\s+(\S.*)$")


def backspaced(line):
    """The line as a terminal shows it: a progress counter overwrites itself with backspaces."""
    if "\b" not in line:
        return line
    out = []
    for char in line:
        if char != "\b":
            out.append(char)
        elif out:
            out.pop()
    return "".join(out)


def lines(tool, text):
    """The lines without line ends, trailing blanks, colours and the odd blanks that pastes bring in, and without a command line on top."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        raise ParseError(tool, "text was expected, not %s" % type(text).__name__)
    text = LONG_BLANK.sub(" " * 400, NOTHING.sub("", ODD_BLANKS.sub(" ", ANSI.sub("", text))).translate(PLAIN))
    found = [backspaced(line).rstrip() for line in re.split(r"\r\n|\n|\r", text)]
    first = next((index for index, line in enumerate(found) if line), None)
    if first is not None and PROMPT.match(found[first]):
        del found[first]
    return found


def command(text):
    """The command that a log shows above the output, "" where there is none."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    match = PROMPT.match(NOTHING.sub("", text).lstrip().split("\n", 1)[0].rstrip())
    return match.group(1) if match else ""


def pci_address(text):
    """0000:3b:00.0 from 3b:00.0, 0000:3b:00.0, 0000:3B:00:0 or the decimal 00000:059:00.0; "" for anything else."""
    text = (text or "").strip()
    match = PCI_DECIMAL.match(text)
    if match:
        domain, bus, slot, function = (int(part) for part in match.groups())
        return "%04x:%02x:%02x.%x" % (domain, bus, slot, function)
    match = PCI.match(text)
    if not match:
        return ""
    return "%04x:%s:%s.%s" % (int(match.group(1) or "0", 16), match.group(2).lower(), match.group(3).lower(), match.group(4))


def number(value):
    """The number in a value as tools print them: IB(1) -> 1, True(1) -> 1, 0x10 -> 16, 16 -> 16; None where there is none."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)) or value is None:
        return value
    text = value.strip()
    match = re.match(r"^.*\((-?(?:0x[0-9a-fA-F]+|\d+))\)$", text)
    if match:
        text = match.group(1)
    if re.match(r"^-?0x[0-9a-fA-F]+$", text):
        return int(text, 16)
    if re.match(r"^-?\d+$", text):
        return int(text)
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    return None


def real(text):
    """An int or a float from a table's cell; None for nan, inf and anything that is no number."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    if math.isnan(value) or math.isinf(value):
        return None
    return int(value) if re.match(r"^-?\d+$", str(text)) else value


def boolean(text):
    """True or False from the words tools print, None for anything else."""
    return {"true": True, "false": False, "yes": True, "no": False, "enabled": True, "disabled": False}.get((text or "").strip().lower())


def snake(name):
    """acceptance_level from "Acceptance Level" or AcceptanceLevel."""
    name = name.strip().replace("VIBs", "Vibs").replace("VMkernel", "Vmkernel").replace("DPUId", "DpuId")
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def mft_errors(found):
    """The text of the -E- lines of an MFT tool, without the mark; a refused prompt carries it on its own line."""
    return [match.group(1).strip() for match in (re.search(r"(?:^\s*|:\s+)-E-\s*(.*)$", line) for line in found) if match]


def mft_warnings(found):
    return [match.group(1).strip() for match in (re.match(r"^\s*-W-\s*(.*)$", line) for line in found) if match]


def error_alone(found):
    """True where the text is an -E- line and little before it: all MFT tools speak so, and no other sign tells which one it was."""
    first = [line for line in found if line.strip()][:2]
    return any(re.match(r"^\s*-E-", line) for line in first)
