# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Intel MPI Benchmarks: one table per benchmark and number of processes."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

VERSION = re.compile(r"^\s*#\s*Intel\(?R?\)?\s*\(?R?\)?\s*MPI Benchmarks?(?: Suite)?\s*(?:V(?:ersion)?\s*)?([\d][\w.]*)?", re.I)
BENCHMARK = re.compile(r"^\s*#\s*Benchmarking\s+(\S+)")
PROCESSES = re.compile(r"^\s*#\s*#?\s*processes\s*=\s*(\d+)")
GROUPS = re.compile(r"^\s*#\s*\(\s*(\d+)\s+(groups?|additional processes?)\b(?:\s+of\s+(\d+)\s+processes)?")
MODE = re.compile(r"^\s*#\s*MODE:\s*(\S+)")
HEADER = re.compile(r"^\s*(#(?:bytes|repetitions)\b.*)$")
INFO = re.compile(r"^\s*#\s*(Date|Machine|System|Release|Version|MPI Version|MPI Thread Environment|MPI_Datatype|MPI_Datatype for reductions|MPI_Op"
                  r"|Minimum message length in bytes|Maximum message length in bytes)\s*:\s*(.*)$")
CALL = re.compile(r"^\s*#\s+(\S*\bIMB-\w+.*)$")
ROW = re.compile(r"^\s*\d+(?:\s+-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)+\s*$", re.I)
SKIPPED = re.compile(r"^\s*(?:(\d+)\s+)?.*\b(out-of-mem|int-overflow|exceeds)\b", re.I)
ERROR = re.compile(r"^\s*(?:#?\s*ERROR\b.*|.*Invalid benchmark name.*|.*\bInvalid (?:argument|option|value)\b.*|.*unrecognized (?:option"
                   r"|argument).*|.*BAD TERMINATION.*|Abort\(\d+\).*"
                   r"|.*mpirun (?:was unable|noticed|detected).*|.*MPI_ABORT was invoked.*|Fatal error in .*|.*exited on signal .*|IMB-\w+: .*"
                   r"|.*This benchmark requires.*)$")
NAMES = {"#bytes": "bytes", "#repetitions": "repetitions", "mbytes/sec": "bandwidth", "msg/sec": "message_rate", "t": "t", "defects": "defects"}


def parse(text):
    """Benchmarks with their rows; columns are named by the header, units are kept beside them."""
    found = clean.lines("imb", text)
    out = {"version": "", "info": {}, "command": "", "benchmarks": []}
    table, known = None, False
    for line in found:
        version, bench, processes, mode, header, info = (VERSION.match(line), BENCHMARK.match(line), PROCESSES.match(line), MODE.match(line),
                                                         HEADER.match(line),
                                                         INFO.match(line))
        groups = GROUPS.match(line)
        if bench:
            table, known = {"name": bench.group(1), "processes": None, "groups": None, "mode": "", "columns": [], "units": {}, "rows": [],
                            "skipped": []}, True
            out["benchmarks"].append(table)
        elif version:
            out["version"], known = version.group(1) or "", True
        elif processes and table is not None:
            table["processes"] = int(processes.group(1))
        elif groups and table is not None and groups.group(2).startswith("group"):
            table["groups"] = int(groups.group(1))
            table["processes"] = table["processes"] or int(groups.group(3) or 0) or None
        elif mode and table is not None:
            if table["rows"]:
                table = dict(table, columns=[], units={}, rows=[], skipped=[])
                out["benchmarks"].append(table)
            table["mode"] = mode.group(1)
        elif header and table is not None:
            table["columns"], table["units"] = _columns(header.group(1))
        elif ROW.match(line) and table is not None and table["columns"]:
            cells = line.split()
            if len(cells) <= len(table["columns"]):
                table["rows"].append(dict((name, clean.real(cell)) for name, cell in zip(table["columns"], cells)))
        elif info:
            out["info"][clean.snake(info.group(1))] = info.group(2).strip()
        elif CALL.match(line) and not out["command"]:
            out["command"], known = CALL.match(line).group(1).strip(), True
        elif SKIPPED.match(line) and table is not None:
            table["skipped"].append(line.strip())
    errors = [line.strip() for line in found if ERROR.match(line)]
    if errors:
        out["error"] = "; ".join(errors)
    if not known and (not errors or re.match(r"^\s*LAMMPS \(", next((line for line in found if line.strip()), ""))):
        raise ParseError("imb", "no table of the Intel MPI Benchmarks in it", "\n".join(found))
    return out


def _columns(header):
    names, units = [], {}
    for cell in header.split():
        match = re.match(r"^(.*?)\[([^\]]*)\]$", cell)
        title, unit = match.groups() if match else (cell, {"Mbytes/sec": "MB/s", "Msg/sec": "1/s"}.get(cell, ""))
        name = NAMES.get(title.lower(), clean.snake(title))
        names.append(name)
        if unit:
            units[name] = unit
    return names, units
