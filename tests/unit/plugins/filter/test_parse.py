# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.vhpc.rdma.plugins.filter import parse as plugin
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.registry import PARSERS
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import every, sample

NAMES = ["mst", "mlxconfig", "mlxfwmanager", "flint", "vib_list", "vib_result", "module_parameters", "pcipassthru", "pci_list", "nic_list", "ofed_info",
         "ibstatus", "ibstat", "ibv_devinfo", "rdma_link", "perftest", "osu", "imb", "clck", "openfoam", "wrf", "lammps", "gromacs", "namd", "ucx"]


@pytest.fixture(name="parse")
def fixture_parse():
    return plugin.FilterModule().filters()["parse"]


def test_exactly_these_tools_are_known_and_documented():
    documentation = yaml.safe_load(plugin.DOCUMENTATION)
    assert list(PARSERS) == NAMES
    assert documentation["options"]["tool"]["choices"] == NAMES and documentation["name"] == "parse" and documentation["positional"] == "tool"
    text = " ".join(documentation["options"]["tool"]["description"])
    assert [name for name in NAMES if "V(%s)" % name not in text] == []


def test_it_gives_what_the_parser_gives(parse):
    for tool, dummy, text in every():
        assert parse(text, tool) == PARSERS[tool](text)
    assert parse(sample("perftest", "bw_ib_gbits"), "perftest")["rows"][0]["bytes"] == 2
    assert parse(b"Module mst loaded successfully\n", "mst")["loaded"] is True


def test_a_tool_that_failed_is_data(parse):
    assert parse("-E- Failed to open the device\n", "mlxconfig")["error"] == "Failed to open the device"
    assert parse("Couldn't connect to 192.168.60.12:18515\n", "perftest")["error"]["kind"] == "connect"


def test_an_unknown_tool_is_told_which_there_are(parse):
    with pytest.raises(AnsibleFilterError) as caught:
        parse("x", "mlxlink")
    assert "'mlxlink'" in str(caught.value) and all(name in str(caught.value) for name in NAMES)
    with pytest.raises(AnsibleFilterError):
        parse("x", ["mst"])


@pytest.mark.parametrize("value, kind", [({"stdout": "x"}, "a dictionary"), (["x"], "a list"), (None, "NoneType"), (3, "int")])
def test_only_text_can_be_read(parse, value, kind):
    with pytest.raises(AnsibleFilterError, match="has to be text, not %s" % kind):
        parse(value, "mst")


def test_foreign_text_says_what_it_was_taken_for_and_what_it_begins_with(parse):
    with pytest.raises(AnsibleFilterError, match="output of ibstatus.*no port in it.*'hello'"):
        parse("\nhello\n", "ibstatus")
