# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""perftest (ib_send_bw, ib_send_lat, ib_write_bw, ...): tables, header, addresses, failures, JSON; and the argument list."""

import json
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

TITLE = re.compile(r"^\s*((?:[A-Za-z][\w-]*\s+)*(?:BW|Latency|Lat)(?:\s+[\w()-]+)*?\s+Test(?:\s*:\s*\S+)?)\s*$")
COLUMNS = re.compile(r"^\s*#bytes\s+#iterations\b\s*(.*)$")
COLUMN = re.compile(r"([A-Za-z0-9][\w.%]*(?:\s(?:peak|average|percentile))?)\s?(?:\[([^\]]*)\])?")
PAIR = re.compile(r"^\s*([A-Za-z][^:]*?)\s*:\s*(\S+)(?:\s+([A-Za-z][^:]*?)\s*:\s*(\S.*?))?\s*$")
ADDRESS = re.compile(r"^\s*(local|remote) address:\s*((?:LID|QPN|MAC|GID)\s+[^\s,]+(?:\s.*)?)$")
GID = re.compile(r"^\s*GID:\s*([0-9a-fA-F:]+)\s*$")
NUMBER = r"(?:-?nan|-?inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+(%s.*)$" % NUMBER)
VERSION = re.compile(r"^\s*Version\s*:\s*(\S+)\s*$")
NOTICE = re.compile(r"^\s*(?:WARNING\d?:|Conflicting CPU frequency|Requested mtu|Changing to active mtu|Perftest doesn't support|Device not recognized"
                    r"|Using sampled CPU)", re.I)
NOT_HEADER = re.compile(r"^\s*(?:\[|CUDA|Picking|Connected|Completed|Total run time|WARNING|Conflicting|allocated|Listing|\*|---|Failed|Couldn"
                        r"|Unable|Error|GID:|local address|remote address"
                        r"|http|ethernet_read)", re.I)
HEADER_KEYS = ("Dual-port", "Device", "Number of qps", "Transport type", "Connection type", "Using SRQ", "PCIe relax order", "Lock-free",
               "ibv_wr* API", "Using DDP", "TX depth", "RX depth", "CQ Moderation", "CQE Poll Batch", "Mtu", "Link type", "CPU freq", "GID index",
               "Outstand reads", "Max inline data", "rdma_cm QPs",
               "Data ex. method", "Using Enhanced Reorder", "rate limit", "Use ROCm memory", "Using Enhanced reorder")
# The first kind that fits names the cause; what follows from it ("Couldn't get context") comes later in the list.
KINDS = (
    ("no_device", r"Did not detect devices|IB device \S+ not found|(?:IB|RDMA) device .* was not found"),
    ("port_down", r"Port number \d+ state is \S+|Port \d+ is (?:down|not active)"),
    ("port", r"Unable to query port \d+ attributes|Invalid port"),
    ("gid", r"Found Incompatibility issue with GID types|Gid index should be between|Failed to (?:get|find|query) (?:the )?gid|Couldn't read GID"),
    ("memlock", r"Couldn't allocate MR|[Ff]ailed to create mr|Cannot allocate memory"),
    ("capabilities", r"Failed to query device capabilities"),
    ("resolve", r"name resolution|Name or service not known|No address associated|Problem in resolving"),
    ("listen", r"Couldn't listen to port|Address already in use|Failed to bind (?:socket|RDMA CM)|Failed to listen on|rdma_(?:listen|bind_addr) failed"),
    ("connect", r"Couldn't connect to|Unable to init the socket connection|Unable to open file descriptor for socket connection"
                r"|rdma_(?:resolve_\w+|connect|accept|get_cm_events\w*) failed|[Uu]nexpected CM event|UNREACHABLE|ADDR_ERROR|accept\(\) failed"
                r"|Unable to (?:connect|perform rdma_(?:client|server) function|set up socket connection)"
                r"|Failed to (?:connect|resolve|establish|accept|create)\b.*RDMA CM"),
    ("rtr", r"Failed to modify (?:\w+ )?QP .*to (?:RTR|RTS|INIT)|Unable to Connect the HCA's"),
    ("completion", r"Completion with [Ee]rror (?:at|in) \w+|Failed status|Poll \w+ CQ error status"),
    ("limit", r"(?:BW|Latency|[Mm]sg ?[Rr]ate)\s+(?:result\s+)?is (?:below|above)"),
    ("options", r"Duration mode currently doesn't support|Parser function exited with Error|^\s*Usage:|invalid option|unrecognized option"
                r"|^\s*Invalid \w|should be between"
                r"|can(?:not| ?'t) (?:be used|use) (?:with|together)|doesn't support running|only supported (?:with|in)|Atomic tests|must be"),
    ("peer_lost", r"Couldn't read remote address|Couldn't (?:read reports|send reports|write to socket)"
                  r"|Unable to (?:read|write) (?:to|from) socket|Failed to (?:exchange|sync|close connection)\b|Connection reset"),
    ("no_device", r"Unable to find the Infiniband/RoCE device"),
    ("port", r"Couldn't set the link layer"),
    ("device", r"Couldn't get context for the device|Couldn't (?:create|allocate|get)|Unable to (?:create|open)|Failed to (?:create|open|allocate"
               r"|initialize)"),
    ("other", r"^\s*(?:Failed|Error|ERROR|Unable|Couldn't|Can't|Cannot|FATAL)\b"),
)
FAILURE = re.compile("|".join("(?:%s)" % pattern for dummy, pattern in KINDS))
# Without a title or a table around them only these are perftest's for certain; "Failed to ..." alone may be anybody's.
STRONG = re.compile("|".join("(?:%s)" % pattern for name, pattern in KINDS if name not in ("options", "device", "other", "listen", "resolve"))
                    + r"|Parser function exited with Error|Duration mode currently|Couldn't listen to port|Problem in resolving basic"
                    + r"|\b(?:ib|raw_ethernet)_(?:\w+_)?(?:bw|lat|rate)\b|Couldn't (?:get context for the device|create IB resources)|num of Qps"
                      r"|Message Size should"
                    + r"|Invalid Connection type|Invalid Command line|you must choose test side|Failed to complete run_iter")
FOLLOW_UP = re.compile(r"^\s*(?:scnt=|If device exists|Please Try|Problem in|Failed status)", re.I)
STATUS = re.compile(r"Failed status(?:\s+(\d+)|-(.*?)\s*\((\d+)\))(?::\s*wr_id\s+(\d+))?.*?(?:syndrom\w*\s+(0x[0-9a-fA-F]+))?$")


def parse(text):
    """The table with its unit, the header, the addresses; a failure becomes error {kind, text, ...} beside what else could be read."""
    found = clean.lines("perftest", text)
    whole = "\n".join(found).strip()
    command = clean.command(text)
    if whole[:1] == "{":
        return _from_json(whole)
    out = {"test": "", "kind": "", "header": {}, "columns": [], "unit": "", "rows": [], "addresses": [], "warnings": []}
    if command:
        out["command"] = command
    titled, tables, failures, unknown, known, last_failure = False, 0, [], [], False, False
    for line in found:
        if not line.strip() or re.match(r"^\s*[-*]{3,}\s*$", line) or re.match(r"^\s*\* Waiting for client", line):
            known = known or "Waiting for client" in line
            last_failure = False
            continue
        title, columns, address, gid, row = TITLE.match(line), COLUMNS.match(line), ADDRESS.match(line), GID.match(line), ROW.match(line)
        version, pair = VERSION.match(line), PAIR.match(line)
        if columns:
            out["columns"], out["unit"] = _columns(columns.group(1))
            tables, known = tables + 1, True
        elif address:
            out["addresses"].append(dict(_address(address.group(2)), side=address.group(1)))
            known = True
        elif gid and out["addresses"]:
            without = next((item for item in out["addresses"] if "gid" not in item), out["addresses"][-1])
            without["gid"] = gid.group(1)
        elif NOTICE.match(line):
            out["warnings"].append(line.strip())
        elif re.match(r"^\s*Usage:", line):
            failures.append(line.strip())
            break
        elif FAILURE.search(line) or (last_failure and FOLLOW_UP.match(line)):
            if "Parser function exited" in line:
                failures += [other for other in unknown if other not in failures]
            failures.append(line.strip())
            last_failure = True
            continue
        elif title and not NOT_HEADER.match(line):
            out["test"], titled, known = re.sub(r"\s+", " ", title.group(1)), True, True
        elif row and (out["columns"] or known):
            out["rows"].append(_row(row, out["columns"], out))
        elif version and len([other for other in found if other.strip()]) == 1:
            out["version"], known = version.group(1), True
        elif pair and not NOT_HEADER.match(line) and not out["columns"] and (titled or pair.group(1) in HEADER_KEYS):
            _header(out["header"], line, pair)
            known = known or titled or pair.group(1) != "Device"
        elif not known:
            unknown = unknown[-1:] + [line.strip()]  # what was wrong with the options stands above the words that say so
        last_failure = False
    out["rows"] = [row for row in out["rows"] if row is not None]
    if tables > 1:  # client and server on one terminal
        out["interleaved"] = True
        out["rows"] = [row for index, row in enumerate(out["rows"]) if row not in out["rows"][:index]]
    out["kind"] = _kind(out)
    if failures and (known or STRONG.search("\n".join(failures))):
        out["error"] = _failure(failures)
    elif not known:
        raise ParseError("perftest", "no table, no header and no failure of perftest in it", whole)
    return out


def _columns(heads):
    names, unit = [{"name": "bytes", "unit": ""}, {"name": "iterations", "unit": ""}], ""
    for name, bracket in COLUMN.findall(heads):
        names.append({"name": _column_name(name), "unit": bracket})
        if bracket and not unit and not bracket.startswith("Mpps"):
            unit = bracket
    return names, unit


def _column_name(name):
    name = re.sub(r"\s+", " ", name.strip())
    if re.match(r"^(?:percentile_)?\d[\d.]*%?(?: ?percentile)?$|^percentile_\d|^t?_?99", name, re.I):
        return "p" + re.search(r"\d[\d.]*", name).group(0).replace(".", "_")
    fixed = {"msgrate": "msg_rate", "msgsize": "bytes", "n_iterations": "iterations", "tps average": "tps", "tps": "tps"}
    return fixed.get(name.lower(), clean.snake(name))


def _row(match, columns, out):
    """One row by the header; columns of large numbers may run into each other and are cut by their decimals."""
    rest = match.group(3)
    cells = rest.split()
    names = [column["name"] for column in columns[2:]] or _names_by_count(cells)
    if not columns:
        out["columns"] = [{"name": name, "unit": ""} for name in ["bytes", "iterations"] + names]
    if len(cells) != len(names) or not all(re.match(r"^%s$" % NUMBER, cell) for cell in cells):
        cells = _unglued(rest, names)
        if cells is None:
            return None
    row = {"bytes": int(match.group(1)), "iterations": int(match.group(2))}
    row.update((name, clean.real(cell)) for name, cell in zip(names, cells))
    return row


def _names_by_count(cells):
    if len(cells) == 3:
        return ["bw_peak", "bw_average", "msg_rate"]
    if len(cells) == 2:
        return ["t_avg", "tps"]
    return ["t_min", "t_max", "t_typical", "t_avg", "t_stdev", "p99", "p99_9"][:len(cells)]


def _unglued(rest, names):
    forms = [r"-?nan|-?inf|-?\d+\.\d{2}"] * len(names)
    if "bw_average" in names:
        tries = ([r"\d+\.\d{6}" if name == "msg_rate" else first if name == "bw_peak" else second for name in names]
                 for first, second in ((r"\d+\.\d{2}", r"\d+\.\d{2}"), (r"\d+\.\d{6}", r"\d+\.\d{6}"), (r"\d+\.\d{2}", r"\d+\.\d{6}"),
                                       (r"\d+\.\d{6}", r"\d+\.\d{2}")))
    else:
        tries = [forms]
    for form in tries:
        match = re.match(r"^\s*%s\s*$" % r"\s*".join("(%s)" % part for part in form), rest)
        if match:
            return list(match.groups())
    return None


def _address(text):
    words = text.split()
    return dict((key.lower(), value) for key, value in zip(words[::2], words[1::2]))


def _header(header, line, pair):
    key, value, second, second_value = pair.groups()
    header[key.strip()] = value if second else line.split(":", 1)[1].strip()
    if second:
        header[second.strip()] = second_value.strip()


def _kind(out):
    names = [column["name"] for column in out["columns"]]
    if "bw_average" in names or " BW" in " " + out["test"]:
        return "bw"
    if "t_avg" in names or "t_min" in names or re.search(r"\bLat", out["test"]):
        return "lat"
    return ""


def _failure(failures):
    text = "; ".join(failures)
    kind, at = "other", len(KINDS)
    for line in failures:
        for index, (name, pattern) in enumerate(KINDS):
            if index < at and re.search(pattern, line):
                kind, at = name, index
    out = {"kind": kind, "text": text}
    for line in failures:
        status = STATUS.search(line)
        if status:
            out["status"] = int(status.group(1) or status.group(3))
            if status.group(2):
                out["status_text"] = status.group(2)
            if status.group(5):
                out["syndrome"] = status.group(5)
    side = re.search(r"Completion with error at (client|server)", text)
    if side:
        out["side"] = side.group(1)
    return out


def _from_json(whole):
    """--out_json; versions before 2023 forget quotes and leave commas behind, so what json refuses is read key by key."""
    try:
        data = json.loads(whole)
    except ValueError:
        data = _loose_json(whole)
    info = data.get("test_info") if isinstance(data, dict) else None
    results = data.get("results") if isinstance(data, dict) else None
    if not isinstance(info, dict) or not isinstance(results, (dict, list)):
        raise ParseError("perftest", "JSON without test_info and results", whole)
    rows = []
    for result in results if isinstance(results, list) else [results]:
        row = dict((_column_name(name), clean.real(value)) for name, value in result.items())
        if row:
            rows.append(row)
    out = {"test": str(info.get("test", "")).replace("_", " "), "kind": "", "header": dict((name, value) for name, value in info.items() if name != "test"),
           "columns": [{"name": name, "unit": ""} for name in (rows[0] if rows else {})], "unit": "", "rows": rows, "addresses": [], "warnings": []}
    out["kind"] = _kind(out)
    return out


def _loose_json(whole):
    root, stack = {}, []
    for key, value, close in re.findall(r"\"?([A-Za-z_][\w.*% -]*?)\"?\s*:\s*(\{|\"[^\"\n]*\"|[^,{}\n]*)|(\})", whole):
        target = stack[-1] if stack else root
        if close:
            if stack:
                stack.pop()
        elif value == "{":
            target[key] = {}
            stack.append(target[key])
        else:
            value = value.strip().strip('"')
            number = clean.real(value)
            target[key.strip()] = value if number is None else number
    return root


def gbits(value, unit):
    """A bandwidth in Gb/s. MB/sec and MiB/sec are the same 2^20 bytes in perftest."""
    if value is None:
        return None
    if unit.lower() in ("gb/sec", "gbps"):
        return float(value)
    if unit.lower() in ("mb/sec", "mib/sec"):
        return value * 8 * 1048576 / 1e9
    if unit.lower() in ("kb/sec", "kib/sec"):
        return value * 8 * 1024 / 1e9
    return None


def args(device, server="", port=None, gid_index=None, tcp_port=None, all_sizes=False, size=None, iterations=None, duration=None, report_gbits=True,
         qps=None,
         mtu=None, extra=()):
    """The argument list of one side; server is the other side's address on the client and empty on the server. Both sides need the same."""
    out = ["-d", device]
    for flag, value in (("-i", port), ("-x", gid_index), ("-p", tcp_port), ("-q", qps), ("-m", mtu), ("-n", iterations), ("-D", duration)):
        if value is not None:
            out += [flag, str(value)]
    if all_sizes:
        out.append("-a")
    elif size is not None:
        out += ["-s", str(size)]
    if report_gbits:
        out.append("--report_gbits")
    out.append("-F")  # a CPU that changes its clock is no reason to print into the table
    out += list(extra)
    return out + ([server] if server else [])
