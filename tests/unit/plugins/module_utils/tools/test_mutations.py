# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Damaged outputs of the ESXi stage's tools: what keeps its meaning gives equal values, the rest an error or a part of the truth, never a lie.

VHPC_EXAMPLES=10000 runs as many examples in all; digits are never altered. Text is cut at the end of a line: an output that stops within
one cannot reach a parser, because every command's output ends in a marker (see test_shell_mutations).
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.registry import PARSERS
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import every

TOOLS = ("mst", "mlxconfig", "mlxfwmanager", "flint", "vib_list", "vib_result", "module_parameters", "pcipassthru", "pci_list", "nic_list")
EXAMPLES = int(os.environ.get("VHPC_EXAMPLES", "1500"))


KNOWN = {"mst": ("mst", "pci", "type"), "mlxfwmanager": ("pci_name", "psid", "part_number", "fw"),
         "flint": ("fw_version", "psid", "orig_psid", "image_type", "base_guid", "base_mac"),
         "vib_list": ("name", "version", "vendor", "acceptance_level"), "module_parameters": ("name", "type", "value"), "pcipassthru": ("address", "enabled"),
         "pci_list": ("address", "vendor_id", "device_id", "device_class", "module_name", "configured_owner", "current_owner", "vmkernel_name"),
         "nic_list": ("name", "pci_device", "mac_address", "driver", "mtu", "link_status")}


def facts(tool, out):
    """What an output claims: of each thing, which two values belong together. What is left out is no claim."""
    if out.get("error"):
        return set()
    if tool == "mlxconfig":
        return {(name, key, row[key]) for one in out["devices"] for name, row in one["parameters"].items() for key in ("default", "current", "next", "new")
                if row[key] is not None}
    if tool == "vib_result":
        return {(kind, vib) for kind in ("installed", "removed", "skipped") for vib in out[kind]} | ({("reboot", out["reboot_required"])} - NOTHING)
    rows = {"mst": "devices", "mlxfwmanager": "devices", "vib_list": "vibs", "pcipassthru": "devices", "pci_list": "devices", "nic_list": "nics"}
    found = [out] if tool == "flint" else [dict(one, name=name) for name, one in out["parameters"].items()] if tool == "module_parameters" else out[rows[tool]]
    claims = set()
    for one in found:
        pairs = [(key, one[key]) for key in KNOWN[tool] if one.get(key) not in (None, "")]
        claims.update((left, right) for left in pairs for right in pairs if left < right)
    return claims


NOTHING = {("reboot", None)}


def usable():
    """Samples that claim something."""
    out = []
    for tool, name, text in every():
        if tool in TOOLS and text.strip():
            truth = facts(tool, PARSERS[tool](text))
            if truth:
                out.append((tool, name, text, truth))
    return out


SAMPLES = usable()
BANNERS = ("The time and date of this login have been sent to the system logs.", "WARNING: All commands run on the ESXi shell are logged.",
           "-W- Firmware flash cache access is enabled.")


# ---- damage -----------------------------------------------------------------------------------------------------------

def crlf(lines, pick):
    return "\r\n".join(lines)


def trailing_blanks(lines, pick):
    return "\n".join(line + " " * (pick % 7) for line in lines)


def banner_above(lines, pick):
    return "\n".join([BANNERS[pick % 2], ""] + lines)


def nuls(lines, pick):
    text = "\n".join(lines)
    at = pick % (len(text) + 1)
    return text[:at] + "\x00" * (1 + pick % 3) + text[at:]


def byte_order_mark(lines, pick):
    return u"\ufeff" + "\n".join(lines)


def final_newlines(lines, pick):
    return "\n".join(lines).rstrip("\n") + "\n" * (pick % 4)


KEEPING = (crlf, trailing_blanks, banner_above, nuls, byte_order_mark, final_newlines)


def cut(lines, pick):
    return "\n".join(lines[:pick % (len(lines) + 1)])


def dropped(lines, pick):
    at = pick % len(lines)
    return "\n".join(lines[:at] + lines[at + 1:])


def doubled(lines, pick):
    at = pick % len(lines)
    return "\n".join(lines[:at + 1] + lines[at:])


def squeezed(lines, pick):
    return "\n".join(" ".join(line.split(" ")) if pick % 2 else " ".join(line.split()) for line in lines)


def widened(lines, pick):
    return "\n".join(line.replace("  ", "  " + " " * (1 + pick % 5)) for line in lines)


def noise_inside(lines, pick):
    at = pick % (len(lines) + 1)
    return "\n".join(lines[:at] + [BANNERS[pick % 3]] + lines[at:])


def unknown_row(lines, pick):
    at = pick % (len(lines) + 1)
    return "\n".join(lines[:at] + [("         SOMETHING_NEW_%d", "   Something New: %d", "?? %d ??")[pick % 3] % 0] + lines[at:])


HARMING = (cut, dropped, doubled, squeezed, widened, noise_inside, unknown_row) + KEEPING
CHOICE = st.integers(min_value=0, max_value=100000)
BOUNDS = dict(deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)


def read(tool, text):
    try:
        return facts(tool, PARSERS[tool](text))
    except ParseError:
        return None


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=max(10, EXAMPLES // (3 * len(TOOLS))), **BOUNDS)
@given(which=CHOICE, how=st.lists(st.tuples(st.sampled_from(KEEPING), CHOICE), min_size=1, max_size=3))
def test_what_keeps_its_meaning_gives_equal_values(tool, which, how):
    mine = [one for one in SAMPLES if one[0] == tool]
    _tool, name, text, truth = mine[which % len(mine)]
    for damage, pick in how:
        text = damage(text.replace("\r", "").split("\n"), pick)
    assert read(tool, text) == truth, name


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=max(10, 2 * EXAMPLES // (3 * len(TOOLS))), **BOUNDS)
@given(which=CHOICE, how=st.lists(st.tuples(st.sampled_from(HARMING), CHOICE), min_size=1, max_size=3))
def test_any_other_damage_gives_an_error_or_a_part_of_the_truth(tool, which, how):
    mine = [one for one in SAMPLES if one[0] == tool]
    _tool, name, text, truth = mine[which % len(mine)]
    for damage, pick in how:
        text = damage(text.replace("\r", "").split("\n"), pick)
    said = read(tool, text)
    assert said is None or said <= truth, (name, sorted(map(str, said - truth)))
