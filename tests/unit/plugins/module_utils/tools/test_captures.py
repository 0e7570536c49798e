# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The contract with real outputs: every capture that has a parser is read, and the test's name says what was understood.

The captures are samples of other people's systems and are not part of this repository. They are looked for in ../shared/captures beside it, or where
VHPC_RDMA_CAPTURES points to; without them these tests are skipped. Their first line is "$ command", the rest is what the tool printed.
"""

import fnmatch
import io
import json
import os
import re

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import esxcli, ibverbs, ofed, perftest
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.registry import PARSERS

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), *[".."] * 5))


def folder():
    """../shared/captures beside the repository, or beside a directory above it when the tests run in a copy of the tree."""
    beside = os.path.join(os.path.dirname(REPOSITORY), "shared", "captures")
    above = REPOSITORY
    while above != os.path.dirname(above):
        above = os.path.dirname(above)
        if os.path.isdir(os.path.join(above, "shared", "captures")):
            return os.path.join(above, "shared", "captures")
    return beside


CAPTURES = os.environ.get("VHPC_RDMA_CAPTURES") or folder()
PAPER = os.path.realpath(os.path.join(CAPTURES, "..", "paper", "perftest"))
NO_PARSER = "no parser"

# Parsers that the filter does not offer by name.
MORE = {
    "acceptance": esxcli.parse_acceptance, "version": esxcli.parse_version, "maintenance_mode": esxcli.parse_maintenance_mode,
    "esxcli_table": esxcli.table, "ofed_install": ofed.parse_install, "openibd": ofed.parse_openibd,
    "ibdev2netdev": ibverbs.parse_ibdev2netdev, "show_gids": ibverbs.parse_show_gids,
}
ALL = dict(PARSERS, **MORE)

# Folder and file name to tool; the first line that fits counts.
TABLE = (
    ("mst-status/*", "mst"), ("mlxconfig/*", "mlxconfig"), ("mlxfwmanager/*", "mlxfwmanager"), ("mlxup/*", "mlxfwmanager"), ("flint/*", "flint"),
    ("esxcli-software/*vib-list*", "vib_list"), ("esxcli-software/*vib-get*", "vib_list"), ("esxcli-software/*acceptance-get*", "acceptance"),
    ("esxcli-software/*", "vib_result"),
    ("esxcli-hardware/*pcipassthru*", "pcipassthru"), ("esxcli-hardware/*pci-list*", "pci_list"),
    ("esxcli-network/*nic-list*", "nic_list"), ("esxcli-network/*nic-get*", "nic_list"), ("esxcli-network/*esxcfg-nics*", "nic_list"),
    ("esxcli-network/*-list*", "esxcli_table"), ("esxcli-rdma/*", "esxcli_table"),
    ("esxcli-system/*module-parameters*", "module_parameters"), ("esxcli-system/*parameters-list*", "module_parameters"),
    ("esxcli-system/*vmware-v*", "version"), ("esxcli-system/*version-get*", "version"), ("esxcli-system/*maintenancemode-get*", "maintenance_mode"),
    ("esxcli-system/*settings-kernel-list*", "esxcli_table"),
    ("ofed-info/*", "ofed_info"), ("ofed-install/*", "ofed_install"), ("openibd/*", "openibd"),
    ("ibstatus/*", "ibstatus"), ("ibstat/*", "ibstat"), ("ibv_devinfo/*", "ibv_devinfo"), ("rdma-link/*", "rdma_link"), ("ibdev2netdev/*", "ibdev2netdev"),
    ("show_gids/*", "show_gids"), ("ibsim/*ibstat.txt", "ibstat"), ("ibsim/*ibstat-*", "ibstat"), ("ibsim/ibstatus.txt", "ibstatus"),
    ("ibsim/ibv_devinfo.txt", "ibv_devinfo"), ("ibsim/bad-host.txt", "ibstat"),
    ("perftest/*", "perftest"), ("soft-roce/*rping*", NO_PARSER), ("soft-roce/*pingpong*", NO_PARSER), ("soft-roce/*.client.txt", "perftest"),
    ("soft-roce/*.server.txt", "perftest"), ("soft-roce/quiet/*.client.txt", "perftest"), ("soft-roce/quiet/*.server.txt", "perftest"),
    ("soft-roce/*.json", "perftest"),
    ("osu/*", "osu"), ("benchmarks/osu/ucx_*", "ucx"),
    ("benchmarks/osu/imb-*", "imb"), ("benchmarks/osu/omb*", "osu"), ("benchmarks/osu/stackhpc/*/*.txt", "osu"),
    ("benchmarks/osu/repeat5/*", "osu"), ("benchmarks/applogs/openfoam/*", "openfoam"), ("benchmarks/applogs/wrf/rsl.*", "wrf"),
    ("benchmarks/applogs/lammps/*", "lammps"), ("benchmarks/applogs/gromacs/*", "gromacs"), ("benchmarks/applogs/namd/*.log", "namd"),
    ("*", NO_PARSER),
)
# Files that hold something else than an output of their tool.
HOLDS_OTHER = {
    "benchmarks/osu/omb5.3-np1.txt": "standard output alone: the message is in the .err file beside it",
    "benchmarks/osu/omb7.4-np1.txt": "standard output alone: the message went to standard error",
    "soft-roce/quiet/fail_link_down_midrun.client.txt": "no output: the run was cut by a timeout",
    "soft-roce/quiet/fail_link_down_midrun.server.txt": "no output: the server was killed",
    "soft-roce/quiet/fail_server_killed_midrun.client.txt": "no output: the run was cut by a timeout",
    "soft-roce/quiet/fail_server_killed_midrun.server.txt": "no output: the server was killed",
    "soft-roce/fail_wrong_gid_server.server.txt": "no output: the server was stopped by a signal",
}
# Exit situations of the index that do not follow the text.
EXIT_IS_NOT_ERROR = {
    "perftest/01-local-version.txt": "--version exits with 1",
}
COUNTED = {
    "mst": lambda out: (len(out["devices"]), "device"), "mlxconfig": lambda out: (sum(len(d["parameters"]) for d in out["devices"]), "parameter"),
    "mlxfwmanager": lambda out: (len(out["devices"]), "device"),
    "flint": lambda out: (len(out["fields"]) or len(out.get("burn", {}).get("steps", [])), "field or step"),
    "vib_list": lambda out: (len(out["vibs"]), "VIB"), "vib_result": lambda out: (len(out["installed"] + out["removed"] + out["skipped"]), "VIB"),
    "module_parameters": lambda out: (len(out["parameters"]), "parameter"), "pcipassthru": lambda out: (len(out["devices"]), "device"),
    "pci_list": lambda out: (len(out["devices"]), "device"), "nic_list": lambda out: (len(out["nics"]), "NIC"),
    "ofed_info": lambda out: (int(bool(out["version"])), "version"), "ibstatus": lambda out: (len(out["ports"]), "port"),
    "ibstat": lambda out: (len(out["devices"]), "device"), "ibv_devinfo": lambda out: (len(out["devices"]), "device"),
    "rdma_link": lambda out: (len(out["links"]) + len(out.get("devices", [])) + len(out.get("system", {})), "link, device or setting"),
    "perftest": lambda out: (len(out["rows"]), "row"), "osu": lambda out: (sum(len(run["rows"]) for run in out["runs"]), "row"),
    "imb": lambda out: (sum(len(bench["rows"]) for bench in out["benchmarks"]), "row"),
    "acceptance": lambda out: (int("level" in out), "level"), "version": lambda out: (int(bool(out.get("version"))), "version"),
    "maintenance_mode": lambda out: (int("enabled" in out), "state"), "esxcli_table": lambda out: (len(out["rows"]), "row"),
    "ofed_install": lambda out: (int(out["status"] in ("passed", "running")), "stage"),
    "openibd": lambda out: (len(out["steps"]) + len(out.get("status", {})), "step or list"), "ibdev2netdev": lambda out: (len(out["ports"]), "port"),
    "show_gids": lambda out: (len(out["gids"]), "GID"),
}
COUNTED.update((name, lambda out: (int(out["value"] is not None), "figure of merit")) for name in ("openfoam", "wrf", "lammps", "gromacs", "namd", "ucx"))
# How many there have to be, counted in another way than the parser counts.
LINES = {
    "vib_list": r"^.*(?:VMwareCertified|VMwareAccepted|PartnerSupported|CommunitySupported)", "ibstatus": r"^\s*Infiniband device '", "ibstat": r"^\s*CA '",
    "pcipassthru": r"^\s*\S+:\S+:\S+\s+(?:true|false)\s*$", "pci_list": r"^\s*\S{4}:\S\S:\S\S\.\S\s*$", "nic_list": r"^(?:vmnic\d+\s|\s*Name: vmnic)",
    "osu": r"^\d+[ \t]+\d+\.\d\d", "imb": r"^\s+\d+\s+\d+\s+\d+\.\d\d", "ibdev2netdev": r"==>", "show_gids": r"\sv[12]\s",
    "mlxconfig": r"^\*?\s*(?:RO\s)?\s*[A-Z][A-Z0-9]+_\w+(?:\[[\d.]+\])?\s+[^\s<]",
    "mlxfwmanager": r"^\s*(?:Device #\d+:\s*$|<Device )",
}


def captures():
    out = []
    for folder, dummy, files in os.walk(CAPTURES):
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), CAPTURES).replace(os.sep, "/")
            log = "/applogs/" in path and (name.startswith(("rsl.", "log.")) or name.endswith(".log"))
            if (log or name.endswith((".txt", ".err", ".json"))) and path != "INDEX.tsv":
                out.append(path)
    return sorted(out)


def tool_of(path):
    return next(tool for pattern, tool in TABLE if fnmatch.fnmatch(path, pattern) and (pattern == "*" or pattern.count("/") == path.count("/")))


def output(path):
    """What the tool printed: without the command line before it and the exit code that the recorder put behind it."""
    with io.open(os.path.join(CAPTURES, path), encoding="utf-8", newline="") as handle:
        text = handle.read()
    if text.startswith("$ "):
        text = text.partition("\n")[2]
    return re.sub(r"^\[rc=\d+\]\n?", "", text, flags=re.M)


def index():
    out = {}
    path = os.path.join(CAPTURES, "INDEX.tsv")
    if os.path.exists(path):
        with io.open(path, encoding="utf-8") as handle:
            for line in handle:
                cells = line.rstrip("\n").split("\t")
                if len(cells) > 3:
                    out[cells[0]] = cells[3]
    return out


def understood(tool, out):
    parts = []
    count, noun = COUNTED[tool](out)
    if count:
        parts.append("%d %s" % (count, noun))
    keys = ("set", "burn", "validation", "updates", "loaded", "system", "actions", "reboot_required") + (() if tool in ("osu", "imb") else ("version",))
    for key in keys:
        if out.get(key) not in (None, "", [], {}, ()):
            parts.append("%s: %s" % (key, json.dumps(out[key])[:60]))
    if out.get("error"):
        parts.append("error: %s" % json.dumps(out["error"])[:80])
    if not parts:  # the tool was recognized, and this is all that it said
        rest = [key for key in ("columns", "header", "devices", "messages", "parameters", "links") if out.get(key)]
        parts.append("nothing but %s" % ", ".join(rest) if rest else "no output, which says that there is nothing")
    return "; ".join(parts)


def cases():
    out = []
    for path in captures():
        tool = tool_of(path)
        label = tool
        if tool != NO_PARSER and path not in HOLDS_OTHER:
            try:
                label = "%s: %s" % (tool, understood(tool, ALL[tool](output(path))))
            except ParseError as err:
                label = "%s: refused (%s)" % (tool, err.why[:60])
        out.append(pytest.param(path, tool, id="%s = %s" % (path, re.sub(r"[^ -~]", "?", label)[:160])))
    return out


needs_captures = pytest.mark.skipif(not os.path.isdir(CAPTURES), reason="no captures at %s (set VHPC_RDMA_CAPTURES)" % CAPTURES)
needs_paper = pytest.mark.skipif(not os.path.exists(os.path.join(PAPER, "parsed.json")), reason="no outputs of the paper at %s" % PAPER)


@needs_captures
@pytest.mark.parametrize("path, tool", cases())
def test_every_capture_with_a_parser_is_read(path, tool, record_property):
    if tool == NO_PARSER:
        record_property("understood", NO_PARSER)
        return
    text = output(path)
    if path in HOLDS_OTHER:
        with pytest.raises(ParseError):
            ALL[tool](text)
        record_property("understood", "holds something else: %s" % HOLDS_OTHER[path])
        return
    out = ALL[tool](text)
    assert json.loads(json.dumps(out)) == out
    said = understood(tool, out)
    record_property("understood", said)
    assert text.strip() or tool in ("ibstat", "rdma_link", "pcipassthru")
    assert "no output" not in said or not text.strip(), "nothing was understood of %s" % path
    if tool in LINES and not out.get("error"):
        expected = set(re.findall(LINES[tool] + ".*", text, re.M)) if tool == "perftest" else re.findall(LINES[tool], text.replace(u"\u00a0", " "), re.M)
        count = len(out["devices"]) if tool == "mlxfwmanager" else COUNTED[tool](out)[0]
        if not out.get("validation"):
            assert count == len(expected)


@needs_captures
@pytest.mark.parametrize("path", sorted(path for path in index() if tool_of(path) != NO_PARSER and path not in HOLDS_OTHER))
def test_an_error_is_seen_exactly_where_the_tool_failed(path):
    situation = index()[path]
    failed = situation.startswith("failure") or situation == "usage" or bool(re.search(r"rc=[1-9]", situation))
    if path in EXIT_IS_NOT_ERROR or not os.path.exists(os.path.join(CAPTURES, path)):
        return
    assert bool(ALL[tool_of(path)](output(path)).get("error")) == failed, situation


def bandwidth_tables():
    return [path for path in captures() if tool_of(path) == "perftest" and path not in HOLDS_OTHER and not path.endswith(".json")]


@needs_captures
@pytest.mark.parametrize("path", bandwidth_tables())
def test_message_rate_times_size_is_the_average(path):
    out = perftest.parse(output(path))
    if out["kind"] != "bw" or not out["unit"]:
        return
    factor = 1 if out["unit"] == "Gb/sec" else 8 * 1048576 / 1e9
    for row in out["rows"]:
        expected = row["msg_rate"] * 1e6 * row["bytes"] * 8 / 1e9
        printed = (0.0051 * factor) + row["bytes"] * 4.1e-9  # what the two columns lose by rounding
        assert abs(perftest.gbits(row["bw_average"], out["unit"]) - expected) <= printed, row


@needs_captures
def test_the_table_of_tools_covers_the_folders():
    folders = {path.split("/")[0] for path in captures()}
    read = {path.split("/")[0] for path in captures() if tool_of(path) != NO_PARSER}
    assert set(PARSERS) - {"module_parameters", "clck"} <= {tool_of(path) for path in captures()}
    print("no parser: %s" % ", ".join(sorted(folders - read)))
    for path in list(HOLDS_OTHER) + list(EXIT_IS_NOT_ERROR):
        assert "/" in path and (path not in captures() or tool_of(path) != NO_PARSER)


@needs_paper
@pytest.mark.parametrize("name", ["fig17_ib_send_bw_ib.txt", "fig18_ib_send_lat_ib.txt", "fig19_ib_send_bw_roce.txt", "fig20_ib_send_lat_roce.txt"])
def test_the_outputs_of_the_paper(name):
    with io.open(os.path.join(PAPER, "parsed.json"), encoding="utf-8") as handle:
        expected = json.load(handle)[name]
    with io.open(os.path.join(PAPER, name), encoding="utf-8", newline="") as handle:
        out = perftest.parse(handle.read())
    header = dict(expected["header"])
    assert (out["command"], out["test"]) == (header.pop("command"), header.pop("test"))
    assert out["header"] == header
    keys = [column["name"] for column in out["columns"]]
    assert len(keys) == len(expected["columns"]) and [[row[key] for key in keys] for row in out["rows"]] == expected["rows"]
    assert len(out["rows"]) == 23
    assert [{key if key == "side" else key.upper(): value for key, value in address.items()} for address in out["addresses"]] == expected["addresses"]
    for row in out["rows"] if out["kind"] == "bw" else []:
        assert abs(row["msg_rate"] * 1e6 * row["bytes"] * 8 / 1e9 - row["bw_average"]) <= 0.03 + 1e-9
