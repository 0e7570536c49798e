# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""OSU micro-benchmarks 5.x to 7.x: any size table, whatever columns its header announces."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

TITLE = re.compile(r"^\s*#\s*(OSU\s+(?:MPI|UPC|OpenSHMEM|NCCL)\S*\s.*?)\s*(?:v(\d[\w.]*))?\s*$")
PAIRS = re.compile(r"^\s*#\s*\[\s*pairs:\s*(\d+)\s*\](?:\s*\[\s*window size:\s*(\w+)\s*\])?")
HEADER = re.compile(r"^\s*#\s*(Size\b.*)$")
BARE_HEADER = re.compile(r"^\s*#\s*((?:Avg |Overall).*\(us\).*)$")
WINDOWS = re.compile(r"^\s*#\s*((?:\d+\s+)+\d+)\s*$")
PROFILE = re.compile(r"^\s*#\s*((?:Uni|Bi)-directional Bandwidth.*|Message Rate Profile.*)$", re.I)
DATATYPE = re.compile(r"^\s*#\s*Datatype:\s*([\w.]+?)\.?\s*$")
COLUMN = re.compile(r"P\d+(?:\.\d+)?\s+Tail\s+Lat\s*\(us\)|(?:Avg|Min|Max)?\s*Lat(?:ency)?\s*\(us\)|Bandwidth\s*\(MB/s(?:ec)?\)|Messages/s|MB/s"
                    r"|Iterations|Validation"
                    r"|(?:Overall|Compute|Coll\. ?Init|MPI_Test|MPI_Wait|Pure Comm\.)\s*\(us\)|Overlap\s*\(%\)|\S+(?:\s?\(\S+\))?")
ROW = re.compile(r"^\s*\d+(?:\s+-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)+(?:\s+(?:Pass|Fail|-))?\s*$")
NAMES = {"size": "size", "mb/s": "bandwidth", "messages/s": "message_rate", "iterations": "iterations", "validation": "validation"}
BENCHMARKS = (("Multiple Bandwidth / Message Rate", "mbw_mr"), ("Bi-Directional Bandwidth", "bibw"), ("Multi Latency", "multi_lat"),
              ("Multi-threaded Latency", "latency_mt"),
              ("Put Bandwidth", "put_bw"), ("Get Bandwidth", "get_bw"), ("Bandwidth", "bw"), ("All-to-All", "alltoall"), ("Allreduce", "allreduce"),
              ("Reduce_scatter", "reduce_scatter"), ("Reduce", "reduce"), ("Broadcast", "bcast"), ("Allgather", "allgather"), ("Gather", "gather"),
              ("Scatter", "scatter"), ("Barrier", "barrier"), ("Latency", "latency"))
ERRORS = (r"This test requires (?:exactly|at least) \w+ processes.*", r"DATA VALIDATION ERROR:.*", r"\[[^\]]*\] Signal: .*",
          r"\d+ total process(?:es)? failed to start.*", r".*mpirun (?:was unable to|noticed that|detected that|could not).*", r".*exited on signal .*",
          r".*There are not enough slots available.*", r".*error while loading shared libraries.*", r".*(?:BAD TERMINATION|KILLED BY SIGNAL).*",
          r"(?:\S*osu_\w+): (?:command not found|No such file).*", r"\S*osu_\w+: (?:invalid|unrecognized) option.*",
          r"(?:Invalid|Unknown) (?:argument|option).*",
          r".*MPI_ABORT was invoked.*", r".*Primary job +terminated.*", r".*ORTE was unable to.*", r"\[[^\]]*\] \*\*\* An error occurred in .*",
          r"Abort\(\d+\) on node.*",
          r"Fatal error in .*")


def parse(text):
    """Tables with their rows: size first, then what the header names. Log lines before and inside the table are skipped."""
    found = clean.lines("osu", text)
    whole = "\n".join(found)
    runs, errors, profile = [], [], ""
    run = None
    for line in found:
        title, header, pairs, datatype = TITLE.match(line), HEADER.match(line) or BARE_HEADER.match(line), PAIRS.match(line), DATATYPE.match(line)
        windows, matrix = WINDOWS.match(line), PROFILE.match(line)
        if title:
            if run is None or run["rows"] or run["title"] != title.group(1):  # 7.0 prints its title twice
                run = _run(title.group(1), title.group(2) or "")
                runs.append(run)
        elif matrix:
            profile = "message_rate" if "rate" in matrix.group(1).lower() else "bandwidth"
            if run is None or run["rows"]:
                run = _run(run["title"] if run else "", run["version"] if run else "", run)
                runs.append(run)
        elif header:
            if run is None or (run["rows"] and run["columns"]):
                run = _run("", "")
                runs.append(run)
            run["columns"], run["units"] = _columns(header.group(1))
        elif windows and run is not None:
            run["windows"] = [int(word) for word in windows.group(1).split()]
            run["columns"] = ["size"] + ["%s_w%s" % (profile or "bandwidth", window) for window in windows.group(1).split()]
        elif pairs and run is not None:
            window = pairs.group(2) or ""
            run["pairs"], run["window_size"] = int(pairs.group(1)), int(window) if window.isdigit() else window
        elif datatype and run is not None:
            run["datatype"] = datatype.group(1)
        elif run is not None and ROW.match(line):
            row = _row(line.split(), run["columns"])
            if row:
                run["rows"].append(row)
        elif run is not None and run["columns"][:1] != ["size"] and run["columns"] and re.match(r"^\s*[\d.]+(?:\s+[\d.]+)*\s*$", line):
            cells = line.split()
            if len(cells) == len(run["columns"]):
                run["rows"].append(dict((name, clean.real(cell)) for name, cell in zip(run["columns"], cells)))
    for pattern in ERRORS:
        match = re.search(r"^[ \t]*%s$" % pattern, whole, re.M)
        if match:
            errors.append(match.group(0).strip())
    if not runs:
        bare = [line for line in found if ROW.match(line) and len(line.split()) <= 3 and re.match(r"^\s*(?:0|1|2|4|8|\d*[02468])\s", line)]
        if not errors and not (bare and all(ROW.match(line) for line in found if line.strip()) and len(bare) > 1):
            raise ParseError("osu", "no OSU title, no header and no known failure in it", whole)
        runs = [_run("", "")]
        runs[0]["rows"] = [row for row in (_row(line.split(), []) for line in bare) if row]
    out = dict(runs[0])
    out["runs"] = runs
    if any(row.get("validation") == "Fail" for one in runs for row in one["rows"]) and not errors:
        errors.append("data validation failed")
    if errors:
        out["error"] = errors[0]
        if len(errors) > 1:
            out["error_details"] = errors
    return out


def _run(title, version, like=None):
    benchmark = next((short for words, short in BENCHMARKS if words.lower() in title.lower()), "")
    out = {"benchmark": benchmark, "title": title, "version": version, "pairs": None, "window_size": None, "datatype": "", "columns": [],
           "units": {}, "rows": []}
    if like:
        out.update((key, like[key]) for key in ("benchmark", "pairs", "window_size", "datatype"))
    return out


def _columns(header):
    cells = [cell for cell in re.split(r"\s{2,}", header.strip()) if cell]
    if len(cells) < 2 or any(len(re.findall(r"\)|\S/s\b", cell)) > 1 or re.match(r"^Size\s", cell) for cell in cells):
        cells = [cell.strip() for cell in COLUMN.findall(header)]
    names, units = [], {}
    for cell in cells:
        name, unit = _column(re.sub(r"\s+", " ", cell))
        names.append(name)
        if unit:
            units[name] = unit
    return names, units


def _column(cell):
    bracket = re.match(r"^(.*?)\s?\(([^)]*)\)$", cell)
    title, unit = (bracket.group(1), bracket.group(2)) if bracket else (cell, {"MB/s": "MB/s", "Messages/s": "1/s"}.get(cell, ""))
    if title.lower() in NAMES:
        return NAMES[title.lower()], unit
    tail = re.match(r"^P(\d+(?:\.\d+)?) Tail Lat$", title, re.I)
    if tail:
        return "latency_p" + tail.group(1).replace(".", "_"), unit
    latency = re.match(r"^(?:(Avg|Min|Max) )?Lat(?:ency)?$", title, re.I)
    if latency:
        return {"min": "latency_min", "max": "latency_max"}.get((latency.group(1) or "").lower(), "latency"), unit
    return clean.snake(title), unit


def _row(cells, columns):
    names = columns if len(columns) == len(cells) else None
    if names is None and columns and len(cells) > 1:
        names = columns[:len(cells)]  # a row cut by a timeout
        cells = cells[:len(names)]
    if names is None:
        names = ["size"] + (["bandwidth", "message_rate"] if len(cells) == 3 else ["value_%d" % index for index in range(1, len(cells))])
    return dict((name, cell if name == "validation" else clean.real(cell)) for name, cell in zip(names, cells))


def gbits(value):
    """MB/s of OSU (10^6 bytes, the sum over all pairs) in Gb/s."""
    return None if value is None else value * 8 / 1000.0
