# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A report for other programs: CSV for spreadsheets, JUnit XML for CI systems, ReFrame's performance logs for plotters. Pure: data in, text out."""

from __future__ import annotations

import csv
import datetime
import io
import re
from xml.etree import ElementTree

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import verdict as verdicts
from ansible_collections.vhpc.rdma.plugins.plugin_utils import report

PERFLOG = ["result", "job_completion_time", "descr", "environ", "job_completion_time_unix", "job_exitcode", "job_nodelist", "name", "num_tasks",
           "num_tasks_per_node", "partition"]


def _table(head: list[str], rows: list[list]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()


def tests_of(data: dict) -> list[str]:
    """The tests of a run in the order they were made; the paper's two where none was."""
    return list(dict.fromkeys(one["test"] for one in data["verdict"].get("verdicts") or [])) or ["send_bw", "send_lat"]


def pairs_csv(data: dict) -> str:
    """One line per pair and fabric."""
    tests = tests_of(data)
    head = ["source", "fabric", "server", "client", "status"] + ["%s_%s" % (test, report.test_about(test)[1].replace("/", "p")) for test in tests]
    return _table(head, [[data["source"], pair["fabric"], pair["server"], pair["client"], pair["status"]]
                         + [(pair.get(test) or {}).get("value") for test in tests] for pair in data["verdict"].get("pairs") or []])


def curves_csv(data: dict) -> str:
    """One line per fabric, test and size: the median over the pairs beside the paper's value."""
    rows = []
    for curve in data["curves"]:
        printed = dict(zip(curve["paper"]["sizes"], curve["paper"]["values"])) if curve["paper"] else {}
        for number, size in enumerate(curve["sizes"]):
            rows.append([data["source"], curve["fabric"], curve["test"], curve["unit"], size, curve["median"][number], curve["low"][number],
                         curve["high"][number], printed.get(size)])
    return _table(["source", "fabric", "test", "unit", "bytes", "median", "lowest", "highest", "paper"], rows)


def benchmarks_csv(data: dict) -> str:
    """One line per benchmark or application, number of nodes and processes."""
    rows = []
    for entry in data["benchmark"].get("summary") or []:
        numbers = entry["statistics"]
        rows.append([data["source"], entry["benchmark"], entry["nodes"], entry["ppn"], entry["unit"], entry["direction"], entry["runs"], entry["successful"]]
                    + [numbers.get(key) for key in ("mean", "median", "min", "max", "mad", "cv")])
    return _table(["source", "benchmark", "nodes", "processes_per_node", "unit", "direction", "runs", "successful", "mean", "median", "min", "max", "mad",
                   "cv_percent"], rows)


# ---- JUnit -------------------------------------------------------------------------------------------------------------

def _clean(text: object) -> str:
    """Without the control characters that no XML may hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]", " ", str(text))


def junit(data: dict) -> str:
    """One test case per host and stage, per pair, fabric and test, and per benchmark run."""
    suites: dict[str, list[tuple]] = {}  # name -> (case, seconds, kind of trouble, first line, text)
    for host in data["hosts"]:
        errors: dict[str, list[str]] = {}
        for error in data["failures"].get(host) or []:
            errors.setdefault(error["stage"] or "run", []).append(error["msg"])
        for stage in list(dict.fromkeys(data["ran"].get(host, []) + list(errors))):
            trouble = errors.get(stage)
            suites.setdefault(stage, []).append((host, None, "failure" if trouble else "", trouble[0] if trouble else "", "\n".join(trouble or [])))
    for stop in data["stops"]:
        suites.setdefault(stop["stage"], []).append(("all hosts", None, "failure", stop["msg"], stop["msg"]))
    for one in data["verdict"].get("verdicts") or []:
        said = report.why(one)
        figure = "no value" if one["value"] is None else "%g %s" % (one["value"], one["unit"])
        text = "%s; limit: %s (%s); %s" % (figure, one["limit"], one["limit_from"], said)
        kind = {"fail": "failure", "warn": "note"}.get(one["status"], "")
        suites.setdefault("verify.%s.%s" % (one["fabric"], one["test"]), []).append(("%s to %s" % (one["client"], one["server"]), None, kind, said, text))
    for run in data["benchmark"].get("runs") or []:
        name = "%s on %d nodes, %d processes each, run %d" % (run["benchmark"], run["nodes"], run["ppn"], run["repeat"])
        suites.setdefault("benchmark", []).append((name, run["seconds"], "" if run["success"] else "failure", run["error"] or "", run["error"] or ""))
    root = ElementTree.Element("testsuites", name=_clean(data["title"]))
    total = failed = 0
    for name, cases in suites.items():
        bad = sum(case[2] == "failure" for case in cases)
        total, failed = total + len(cases), failed + bad
        suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(cases)), failures=str(bad), errors="0", skipped="0")
        properties = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(properties, "property", name="source", value=_clean(data["source"]))
        for case, seconds, kind, first, text in cases:
            element = ElementTree.SubElement(suite, "testcase", classname="vhpc.rdma." + name, name=_clean(case), time="%g" % (seconds or 0))
            if kind == "failure":
                ElementTree.SubElement(element, "failure", message=_clean(first), type="failed").text = _clean(text)
            elif kind == "note":
                ElementTree.SubElement(element, "system-out").text = "warning: " + _clean(text)
    root.set("tests", str(total))
    root.set("failures", str(failed))
    root.set("errors", "0")
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


# ---- ReFrame's performance logs ------------------------------------------------------------------------------------------

def perflog_head(name: str) -> str:
    return "|".join(PERFLOG + [name + end for end in ("_value", "_unit", "_ref", "_lower_thres", "_upper_thres")] + ["system"])


def perflog_line(cells: list) -> str:
    return "|".join("null" if cell is None else str(cell).replace("|", "/").replace("\n", " ") for cell in cells)


def moment_text(moment: float | None) -> str | None:
    return datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") if moment else None


def perflogs(data: dict, moment: float) -> dict[str, str]:
    """name of the file -> a line per pair, with the limit as reference: a bandwidth may not fall below it, a latency not rise above it."""
    out: dict[str, list[str]] = {}
    when = moment_text(moment)
    for one in data["verdict"].get("verdicts") or []:
        name = "%s_%s" % (one["test"], one["fabric"])
        lower = verdicts.kind(one["test"]) == "bw"
        out.setdefault(name, [perflog_head(name)]).append(perflog_line(
            ["fail" if one["status"] == "fail" else "pass", when,
             "%s, %s to %s" % (one["metric"] if one.get("metric") else one["test"], one["client"], one["server"]),
             "builtin", int(moment), 1 if one["status"] == "fail" else 0, "%s,%s" % (one["server"], one["client"]), name, 2, 1, one["fabric"],
             one["value"], one["unit"], one.get("limit_value") or 0, 0 if lower and one.get("limit_value") else None,
             0 if not lower and one.get("limit_value") else None, data["source"]]))
    return {name: "\n".join(lines) + "\n" for name, lines in out.items()}
