# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for every parser: it refuses the others' text, and cut text ends in data or in ParseError, never in anything else."""

import json
import random
import time

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.registry import PARSERS
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import backspaced, lines, pci_address, snake
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import every

SAMPLES = every()
ESXCLI = {"vib_list", "vib_result", "module_parameters", "pcipassthru", "pci_list", "nic_list"}
MFT = {"mst", "mlxconfig", "mlxfwmanager", "flint"}
MPI = {"osu", "imb"}


def ids(values):
    return ["%s-%s" % value[:2] for value in values]


@pytest.mark.parametrize("tool, name, text", SAMPLES, ids=ids(SAMPLES))
def test_every_sample_is_plain_data_and_says_something(tool, name, text):
    out = PARSERS[tool](text)
    assert isinstance(out, dict) and json.loads(json.dumps(out)) == out
    if name.startswith("err") or name == "wrong_switch":
        assert out["error"]
    # Line ends of Windows, a byte order mark and bytes change nothing.
    assert PARSERS[tool](u"\ufeff" + text.replace("\r", "").replace("\n", "\r\n")) == PARSERS[tool](text.replace("\r", ""))
    assert PARSERS[tool](text.encode("utf-8")) == out


@pytest.mark.parametrize("tool, name, text", SAMPLES, ids=ids(SAMPLES))
def test_no_parser_reads_the_text_of_another_tool(tool, name, text):
    """Only an error alone can be anybody's of the same family: all MFT tools and all of esxcli speak alike."""
    if not text.strip():
        return
    own = PARSERS[tool](text)
    for other in sorted(set(PARSERS) - {tool}):
        try:
            out = PARSERS[other](text)
        except ParseError:
            continue
        family = next((group for group in (ESXCLI, MFT, MPI) if tool in group), set())
        assert other in family and own.get("error") and out.get("error"), "%s also reads it" % other


@pytest.mark.parametrize("tool, name, text", SAMPLES, ids=ids(SAMPLES))
def test_cut_or_mangled_text_never_crashes_and_never_hangs(tool, name, text):
    chance = random.Random("%s-%s" % (tool, name))
    cuts = [text[:chance.randrange(len(text) + 1)] for dummy in range(25)]
    cuts += [text[chance.randrange(len(text) + 1):] for dummy in range(10)]
    for dummy in range(10):
        kept = [line for line in text.split("\n") if chance.random() > 0.3]
        cuts.append("\n".join(kept))
        cuts.append("\n".join(" ".join(line.split()) for line in kept))
    started = time.time()
    for cut in cuts:
        try:
            out = PARSERS[tool](cut)
        except ParseError:
            continue
        assert isinstance(out, dict) and json.dumps(out)
    assert time.time() - started < 10


@pytest.mark.parametrize("tool", sorted(PARSERS))
@pytest.mark.parametrize("text", ["<html><body>404 Not Found</body></html>", "bash: line 1: command: command not found", "Lorem ipsum dolor sit amet: 12\n" * 3,
                                  "a" * 20000, " " * 20000 + "x", "1 " * 5000, "[1, 2, 3]", "{", "\x00\x01\x02", "key: value\n" * 500])
def test_foreign_text_is_refused_quickly(tool, text):
    started = time.time()
    with pytest.raises(ParseError) as caught:
        PARSERS[tool](text)
    assert time.time() - started < 2
    assert caught.value.code == "PARSE" and tool in caught.value.what and len(caught.value.text()) < 500


@pytest.mark.parametrize("prompt", ["[root@esx01:~] ", "[root@vm01 ~]# ", "user@vm01:~$ ", "$ "])
def test_a_command_line_on_top_is_no_part_of_the_output(prompt):
    for tool, name, text in SAMPLES:
        if text.strip() and name != "prompt":
            out = PARSERS[tool](prompt + "some command -d x | grep y\n" + text)
            if tool == "perftest" and not text.startswith("{"):
                assert out.pop("command") == "some command -d x | grep y"
            assert out == PARSERS[tool](text)
    assert PARSERS["pcipassthru"](prompt + "esxcli hardware pci pcipassthru set -d 0000:5e:00.0 -e true\n") == {"devices": []}


def test_only_text_is_read():
    for tool, parser in PARSERS.items():
        for value in (None, 1, ["a"], {"a": 1}):
            with pytest.raises(ParseError, match="text was expected"):
                parser(value)


def test_pci_addresses():
    assert pci_address("3b:00.0") == pci_address("0000:3B:00.0") == pci_address("0000:3b:00:0") == "0000:3b:00.0"
    assert pci_address("00000:059:00.1") == "0000:3b:00.1"
    assert pci_address("0002:01:00.0") == "0002:01:00.0" and pci_address("mt4119_pciconf0") == "" and pci_address(None) == ""


def test_clean_lines():
    assert lines("x", u"a\u00a0b \x1b[32mOK\x1b[0m\r\nc\rd") == ["a b OK", "c", "d"]
    assert backspaced("10%\b\b\b20%") == "20%"
    assert [snake(name) for name in ("AcceptanceLevel", "Acceptance Level", "PCI Device", "MAC Address", "VMkernel Name", "VIBsInstalled")] == [
        "acceptance_level", "acceptance_level", "pci_device", "mac_address", "vmkernel_name", "vibs_installed"]
