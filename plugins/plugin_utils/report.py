# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The evidence of a run as plain data: what report.json holds, and what the page and the other files are made of. Pure: results of the stages in."""

from __future__ import annotations

import re
from collections import Counter
from typing import Container

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import stats, verdict as verdicts
from ansible_collections.vhpc.rdma.plugins.plugin_utils import paper, plan

FORMAT = 1  # of report.json; docs/report.schema.json describes it
FABRICS = {"ib": "InfiniBand", "roce": "RoCE"}
# What only a guest has.
GUEST_RESULTS = ("guest_wait_result", "guest_info_result", "fabric_mtu_result", "verify_start_result", "verify_mesh_result")
BENCHMARK_RESULTS = ("benchmark_result", "benchmark_study_result")
# Tasks that run once for all: when one fails, every host leaves the play, and none of them is at fault for that.
RUN_ONCE = (("verify_verdict_result", "verify"), ("benchmark_result", "benchmark"), ("benchmark_study_result", "benchmark"))
VERDICT_KEYS = ("summary", "verdicts", "pairs", "matrix", "blame", "noisy", "silent", "limits", "cluster_checker")
# What must be alike on all hosts of a kind; an odd one out is marked.
ALIKE = {"esxi": ("ESXi", "build", "driver", "MFT", "PSID", "firmware", "BIOS"),
         "guest": ("OS", "kernel", "OFED", "firmware", "PSID", "CPU", "MPI", "UCX")}
TESTBED = ("CPU", "cores", "memory", "machine", "BIOS", "ESXi", "OS", "kernel", "adapter", "firmware", "driver", "OFED", "MPI", "UCX")


def test_about(test: str) -> tuple[str, str, int]:
    """(title, unit, column of the value in a row) of a test; the paper's two have the plain names."""
    plain = {"send_bw": "Bandwidth", "send_lat": "Latency"}.get(test)
    if verdicts.kind(test) == "lat":
        return plain or "Latency (ib_%s)" % test, "us", 3
    return plain or "Bandwidth (ib_%s)" % test, "Gb/s", 2


def subjects(hostvars: dict, known: list[str], stopped: Container[str]) -> list[str]:
    """Those of the known hosts that the run was about: something was read there, or it failed before that. A report that names others would
    say that they are as wanted."""
    results = plan.collect(hostvars, known)
    return [host for host in known if results[host] or host in stopped or any(_result(hostvars[host], name) for name in BENCHMARK_RESULTS)]


def _result(variables: dict, name: str) -> dict:
    """What a task registered, where it ran."""
    found = variables.get(name)
    return found if isinstance(found, dict) and not found.get("skipped") else {}


def gather(hostvars: dict, hosts: list[str], title: str, source: str, made: str, stopped: Container[str] = (), about: dict | None = None,
           bare_metal: dict | None = None) -> dict:
    """All that the report says. hosts: everything the run was about; made: the time as text; stopped: hosts that left the play; about: how the run was
    started; bare_metal: an earlier report, for the table of testbeds."""
    results = plan.collect(hostvars, hosts)
    happened = plan.build(results)
    for host in hosts:
        if host in stopped and not happened["hosts"][host]["errors"] and not any(_result(hostvars[host], name).get("failed") for name, dummy in RUN_ONCE):
            happened["hosts"][host]["errors"].append({"stage": "", "msg": "%s left the play before a stage could say why: see the log of the run" % host,
                                                      "error": {}})
    judged = next((found for found in (_result(hostvars[h], "verify_verdict_result") for h in hosts) if found.get("summary")), {})
    rows = [dict(host=h, **_versions(hostvars[h], results[h])) for h in hosts]
    stages: dict[str, dict] = {}
    ran: dict[str, list[str]] = {}
    for host, entry in happened["hosts"].items():
        ran[host] = list(dict.fromkeys(stage for name, stage in plan.RESULTS if name in results[host]))
        for step in entry["steps"]:
            stage = stages.setdefault(step["stage"], {"hosts": [], "steps": 0})
            stage["steps"] += 1
            if host not in stage["hosts"]:
                stage["hosts"].append(host)
    reboots = {h: [r["reasons"] for r in entry["reboots"]] for h, entry in happened["hosts"].items() if entry["reboots"]}
    data = {"format": FORMAT, "title": title, "source": source, "made": made, "about": about or {}, "hosts": hosts, "ran": ran, "versions": rows,
            "fleet": fleet(rows), "testbed": testbed(rows, bare_metal), "stages": stages,
            "changes": {h: e["steps"] for h, e in happened["hosts"].items() if e["steps"]}, "reboots": reboots,
            "reboots_max": happened["reboots_max"], "failures": {h: e["errors"] for h, e in happened["hosts"].items() if e["errors"]},
            "stops": _stops(hostvars, hosts),
            "warnings": {h: e["warnings"] for h, e in happened["hosts"].items() if e["warnings"]},
            "ports": _ports(hostvars, hosts), "curves": _curves(hostvars, hosts, source), "benchmark": _benchmark(hostvars, hosts),
            "verdict": {key: judged[key] for key in VERDICT_KEYS if judged.get(key) is not None}}
    return dict(data, worst=worst(data), reasons=reasons(data))


def _stops(hostvars: dict, hosts: list[str]) -> list[dict]:
    """What a task that runs once for all could not do; a verdict that fails is told by its measurements."""
    out = []
    for name, stage in RUN_ONCE:
        result = next((found for found in (_result(hostvars[host], name) for host in hosts) if found.get("failed")), {})
        if result and not result.get("summary"):
            out.append({"stage": stage, "msg": result.get("msg") or "failed"})
    return out


# ---- versions ----------------------------------------------------------------------------------------------------------

def _versions(variables: dict, results: dict) -> dict:
    """ESXi: version, driver, tools, card, BIOS. Guest or bare metal: OFED, kernel, card, processor, MPI."""
    info, firmware = results.get("esxi_info_result", {}), results.get("esxi_firmware_result", {})
    proof, bios = results.get("esxi_proof_result", {}), results.get("bios_result", {})
    vibs = {**(info.get("vibs") or {}), **(results.get("esxi_software_result", {}).get("vibs") or {}),
            **(results.get("esxi_driver_result", {}).get("vibs") or {})}

    def vib(name: str) -> str:
        entry = vibs.get(name)
        if isinstance(entry, dict):
            return str(entry.get("next") or entry.get("staged") or entry.get("running") or entry.get("version") or "")
        return str(entry or "")

    guest = results.get("guest_info_result", {})
    port = next(iter(guest.get("ports") or []), {})
    card = firmware.get("card") or next(iter(proof.get("cards") or []), {}) or info.get("card") or {}
    machine = guest.get("machine") or {}
    launcher = _result(variables, "benchmark_result").get("mpi") or {}
    mpi = " ".join(filter(None, (launcher.get("family"), launcher.get("version")))) or machine.get("mpi")
    ofed = results.get("guest_ofed_result", {}).get("ofed") or guest.get("ofed") or {}
    guest_like = variables.get("vhpc_host") or any(results.get(name) for name in GUEST_RESULTS)
    out = {"kind": "guest" if guest_like else "esxi", "ESXi": info.get("version", ""), "build": info.get("build"), "MFT": vib("mft"),
           "driver": vib("nmlx5-core"), "PSID": card.get("psid") or port.get("psid"), "PCI": card.get("bdf") or port.get("pci"),
           "firmware": card.get("firmware") or port.get("firmware"), "BIOS": bios.get("bios_version") or machine.get("bios"),
           "machine": bios.get("model") or machine.get("model"), "OFED": ofed.get("installed", ""), "kernel": guest.get("kernel", ""), "OS": machine.get("os"),
           "CPU": machine.get("cpu"), "cores": machine.get("cores"), "memory": machine.get("memory"), "MPI": mpi, "UCX": machine.get("ucx"),
           "virtual": {True: "yes", False: "no"}.get(machine.get("virtual"), "yes" if variables.get("vhpc_host") else "")}
    return {key: value if isinstance(value, str) else str(value or "") for key, value in out.items()}


def fleet(rows: list[dict]) -> dict:
    """Per kind of host: what most of them have, and who differs from that in what. Where nothing could be read there is nothing to differ."""
    out: dict[str, dict] = {}
    for kind, columns in ALIKE.items():
        mine = [row for row in rows if row["kind"] == kind]
        usual, odd = {}, {}
        for column in columns:
            counts = Counter(row[column] for row in mine if row[column])
            if not counts:
                continue
            most = max(counts.values())
            # Of two that are as frequent neither is the odd one: all are told.
            usual[column] = next(iter(counts)) if len(counts) == 1 else next((value for value, count in counts.items() if count == most), "")
            tie = sum(count == most for count in counts.values()) > 1
            for row in mine:
                if row[column] and len(counts) > 1 and (tie or row[column] != usual[column]):
                    odd.setdefault(row["host"], []).append(column)
        if mine:
            out[kind] = {"columns": [column for column in columns if column in usual], "usual": usual, "odd": odd}
    return out


def testbed(rows: list[dict], other: dict | None = None) -> list[dict]:
    """What was measured on, a column per platform: VMs (with what their hosts are) and bare metal, of this run and of another report."""
    out = []
    esxi = [row for row in rows if row["kind"] == "esxi"]
    machines = [row for row in rows if row["kind"] == "guest"]
    for virtual, name in (("no", "bare metal"), ("yes", "virtual machines"), ("", "machines")):
        mine = [row for row in machines if row["virtual"] == virtual]
        if not mine:
            continue
        host = [] if virtual == "no" else esxi
        properties = {}
        for key in TESTBED:
            # What a VM shows as its machine and BIOS is the hypervisor's; what counts is the host's.
            group = host if virtual == "yes" and key in ("BIOS", "machine") else mine
            if key == "ESXi":
                group = host
            elif key == "driver":
                group = host or mine
            values = Counter(row["PSID" if key == "adapter" else key] for row in group)
            values.pop("", None)
            properties[key] = [{"value": value, "hosts": count} for value, count in values.most_common()]
        out.append({"name": name, "hosts": len(mine), "properties": properties})
    for column in (other or {}).get("testbed") or []:
        if column["name"] != "virtual machines":
            out.insert(0, dict(column, name="%s (%s)" % ("bare metal", other.get("made", ""))))
    return out


def _ports(hostvars: dict, hosts: list[str]) -> list[dict]:
    ports = []
    for host in hosts:
        for name in ("guest_info_result", "guest_link_result"):
            result = hostvars[host].get(name)
            if isinstance(result, dict) and result.get("ports"):
                ports += [dict(port, host=host) for port in result["ports"]]
                break
    return ports


# ---- figures -----------------------------------------------------------------------------------------------------------

def _curves(hostvars: dict, hosts: list[str], source: str) -> list[dict]:
    """Per fabric and test: sizes, the median over all pairs, lowest and highest, and the paper's curve where it has one that can be compared."""
    samples: dict[tuple, dict[int, list[float]]] = {}
    pairs: dict[tuple, set] = {}
    seen = set()
    for host in hosts:
        result = hostvars[host].get("verify_mesh_result")
        for item in (result.get("results") or [] if isinstance(result, dict) else []):
            kind = (item["fabric"], item["test"])
            key = kind + (item["server"], item["client"], item.get("repeat") or 1)
            if item.get("error") or key in seen:  # both ends may tell of it
                continue
            seen.add(key)
            pairs.setdefault(kind, set()).add(frozenset((item["server"], item["client"])))
            table, column = samples.setdefault(kind, {}), test_about(item["test"])[2]
            for row in item.get("rows") or []:
                if row[column] is not None:
                    table.setdefault(int(row[0]), []).append(row[column])
    out = []
    for (fabric, test), table in sorted(samples.items()):
        title, unit, dummy = test_about(test)
        sizes = sorted(table)
        if not sizes:
            continue
        # Beside a card's curve that of a software port would be a line at zero.
        printed = paper.CURVES.get((fabric, test)) if source != "soft-roce" else None
        out.append({"fabric": fabric, "test": test, "title": "%s, %s" % (title, FABRICS.get(fabric, fabric)), "unit": unit, "sizes": sizes,
                    "median": [stats.median(table[s]) for s in sizes], "low": [min(table[s]) for s in sizes], "high": [max(table[s]) for s in sizes],
                    "pairs": len(pairs[fabric, test]),
                    "paper": {"figure": printed["figure"], "sizes": paper.SIZES, "values": printed["values"]} if printed else None})
    return out


def _benchmark(hostvars: dict, hosts: list[str]) -> dict:
    """MPI benchmarks and applications: every run in short, their statistics, and the comparison with other configurations."""
    for host in hosts:
        done, study = (_result(hostvars[host], name) for name in BENCHMARK_RESULTS)
        if not done and not study:
            continue
        keep = ("benchmark", "nodes", "ppn", "processes", "repeat", "fabric", "success", "value", "unit", "direction", "seconds", "error")
        runs = [{key: run.get(key) for key in keep} for run in done.get("runs") or [] if "success" in run]
        given = done.get("tables") or {}
        tables = {name: dict(table, unit=(given.get(name) or {}).get("unit") or "") for name, table in (study.get("tables") or {}).items()}
        return {"mpi": done.get("mpi") or {}, "backend": done.get("backend") or "", "device": done.get("device") or "", "runs": runs,
                "summary": done.get("summary") or [], "tables": tables, "claims": study.get("claims") or [],
                "over_the_gauge": study.get("over_the_gauge") or [], "left_out": done.get("left_out") or []}
    return {}


# ---- what a reader must know first --------------------------------------------------------------------------------------

def why(one: dict) -> str:
    """Why a verdict is what it is, in a few words."""
    if one.get("error"):
        return one["error"].get("text") or one["error"].get("cause") or "no result"
    said = [warning["text"] for warning in one.get("warnings") or []]
    limit = one.get("limit_value")
    if one["status"] == "fail" and limit and one["value"] is not None:
        apart = abs(100.0 * (one["value"] - limit) / limit)
        said.insert(0, "%.1f %% %s the limit" % (apart, "above" if verdicts.kind(one["test"]) == "lat" else "below"))
    return "; ".join(said) or "within the limit"


def worst(data: dict) -> list[dict]:
    """The worst pair of each fabric and test with its reason, failed ones first."""
    groups: dict[tuple, list[dict]] = {}
    for one in data["verdict"].get("verdicts") or []:
        groups.setdefault((one["fabric"], one["test"]), []).append(one)
    out = []
    for (fabric, test), group in groups.items():
        def badness(one: dict) -> tuple:
            value = one["value"] or 0.0
            return one["value"] is None, value if verdicts.kind(one["test"]) == "lat" else -value, verdicts.RANK[one["status"]]

        bad = max(group, key=lambda one: (one["status"] == "fail",) + badness(one))
        middle = stats.median(one["value"] for one in group if one["value"] is not None)
        out.append({"fabric": fabric, "test": test, "server": bad["server"], "client": bad["client"], "value": bad["value"], "unit": bad["unit"],
                    "status": bad["status"], "median": middle, "limit": bad["limit"], "limit_from": bad["limit_from"], "why": why(bad),
                    "failed": sum(one["status"] == "fail" for one in group), "judged": len(group)})
    return sorted(out, key=lambda row: -verdicts.RANK[row["status"]])


def reasons(data: dict) -> list[dict]:
    """What stands behind it, the worst first: hosts that failed, who is to blame, who is silent, who scatters."""
    out, found = [], data["verdict"]
    causes: dict[str, list[str]] = {}  # what several hosts say is said once
    for host, errors in data["failures"].items():
        text = re.sub(r"(?<![\w.-])%s(?![\w-])" % re.escape(host), "the host", errors[0]["msg"])
        causes.setdefault(text, []).append(host)
    for text, hosts in causes.items():
        msg = data["failures"][hosts[0]][0]["msg"] if len(hosts) == 1 else text
        out.append({"severity": "fail", "what": "host", "names": hosts,
                    "text": msg if len(hosts) == 1 and hosts[0] in msg else "%s: %s" % (names(hosts), msg)})
    for stop in data["stops"]:
        out.append({"severity": "fail", "what": "stage", "names": [], "text": "%s: %s" % (stop["stage"], stop["msg"])})
    for entry in found.get("blame") or []:
        out.append({"severity": entry.get("severity", "fail"), "what": entry["kind"], "names": entry["names"],
                    "text": "%s: %s" % (FABRICS.get(entry["fabric"], entry["fabric"]), entry["text"])})
    for host in found.get("silent") or []:
        out.append({"severity": "fail", "what": "host", "names": [host], "text": "%s was to be measured and sent no result" % host})
    for entry in found.get("noisy") or []:
        out.append({"severity": "warn", "what": "noise", "names": [entry["host"]],
                    "text": "%s: %s" % (FABRICS.get(entry["fabric"], entry["fabric"]), entry["text"])})
    for issue in (found.get("cluster_checker") or {}).get("issues") or []:
        out.append({"severity": "warn", "what": "checker", "names": issue["hosts"], "text": "Intel Cluster Checker: %s%s" % (
            issue["text"], " (%s)" % names(issue["hosts"]) if issue["hosts"] else "")})
    failed = [run for run in data["benchmark"].get("runs") or [] if not run["success"]]
    if failed:
        out.append({"severity": "fail", "what": "benchmark", "names": [],
                    "text": "%d of %d benchmark runs failed; the first: %s on %d nodes: %s" % (
                        len(failed), len(data["benchmark"]["runs"]), failed[0]["benchmark"], failed[0]["nodes"], failed[0]["error"])})
    for cell in data["benchmark"].get("over_the_gauge") or []:
        out.append({"severity": "warn", "what": "gauge", "names": [cell["config"]],
                    "text": "%s, %s on %d nodes is %.2f %% worse than the baseline, over the gauge" % (
                        cell["table"], cell["config"], cell["nodes"], cell["delta"])})
    for kind, table in data["fleet"].items():
        for column in table["columns"]:
            hosts = [host for host, columns in table["odd"].items() if column in columns]
            if hosts:
                values: dict[str, list[str]] = {}
                for row in data["versions"]:
                    if row["host"] in hosts:
                        values.setdefault(row[column], []).append(row["host"])
                told = "; ".join("%s on %s" % (value, names(found)) for value, found in values.items())
                out.append({"severity": "warn", "what": "drift", "names": hosts, "text": "%s is not the same on all %s: %s%s" % (
                    column, "ESXi hosts" if kind == "esxi" else machines(data), told,
                    "; %s on the others" % table["usual"][column] if table["usual"][column] not in values else "")})
    return sorted(out, key=lambda row: row["severity"] != "fail")


def machines(data: dict) -> str:
    """What those are called that were measured."""
    virtual = {row["virtual"] for row in data["versions"] if row["kind"] == "guest"}
    return "guests" if "yes" in virtual or not virtual else "machines"


def names(hosts: list[str], most: int = 4) -> str:
    return ", ".join(hosts[:most]) + (" and %d more" % (len(hosts) - most) if len(hosts) > most else "")


def state(data: dict) -> str:
    """fail, warn, pass, or none where nothing was measured and nothing failed."""
    summary = data["verdict"].get("summary") or {}
    runs = data["benchmark"].get("runs") or []
    if data["failures"] or summary.get("failed") or any(row["severity"] == "fail" for row in data["reasons"]):
        return "fail"
    # What another tool says stands among the reasons and changes no verdict.
    if summary.get("warned") or any(row["severity"] == "warn" and row["what"] != "checker" for row in data["reasons"]):
        return "warn"
    return "pass" if summary.get("judged") or runs else "none"


def lead(data: dict) -> tuple[str, str]:
    """(state, sentence): what a reader who reads one line must know."""
    summary, parts = data["verdict"].get("summary") or {}, []
    runs = data["benchmark"].get("runs") or []
    if data["failures"]:
        count = len(data["failures"])
        parts.append("%d of %d hosts did not get to the end." % (count, len(data["hosts"])) if count > 1
                     else "%s did not get to the end." % next(iter(data["failures"])))
    if summary.get("failed"):
        parts.append("%d of %d measurements are not as they must be." % (summary["failed"], summary["judged"]))
    elif summary.get("judged"):
        parts.append("All %d measurements are within their limits%s." % (
            summary["judged"], ", %d of them with a warning" % summary["warned"] if summary["warned"] else ""))
    if runs:
        parts.append("%d of %d benchmark runs succeeded." % (sum(run["success"] for run in runs), len(runs)))
    elif not summary.get("judged"):
        parts.append("Nothing was measured in this run.")
    steps, count = sum(len(steps) for steps in data["changes"].values()), len(data["changes"])
    parts.append("%d setting%s changed on %d host%s." % (steps, " was" if steps == 1 else "s were", count, "" if count == 1 else "s") if steps
                 else "Nothing was changed.")
    return state(data), " ".join(parts)
