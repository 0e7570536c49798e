# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The evidence of a run: one self-contained HTML page, JSON and CSV. Pure: results of the stages in, text out."""

from __future__ import annotations

import csv
import io
import math
from typing import Container

from jinja2 import Environment

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import stats
from ansible_collections.vhpc.rdma.plugins.plugin_utils import paper, plan

FABRICS = {"ib": "InfiniBand", "roce": "RoCE"}
TESTS = {"send_bw": ("Bandwidth", "Gb/s", 2), "send_lat": ("Latency", "us", 3)}  # title, unit, column of the value in a row
# source: what a reader must know before he reads a figure
NOTICES = {
    "simulated": "source: simulated. This run was made on the rehearsal lab. Its figures say nothing about hardware.",
    "soft-roce": "source: soft-roce. This run was made on virtual machines whose RDMA devices are software (soft-RoCE). Its figures are measured, and they "
                 "say nothing about hardware.",
}


# What only a guest has.
GUEST_RESULTS = ("guest_wait_result", "guest_info_result", "fabric_mtu_result", "verify_start_result", "verify_mesh_result")


def subjects(hostvars: dict, known: list[str], stopped: Container[str]) -> list[str]:
    """Those of the known hosts that the run was about: something was read there, or it failed before that. A report that names others would
    say that they are as wanted."""
    results = plan.collect(hostvars, known)
    return [host for host in known if results[host] or host in stopped]


def gather(hostvars: dict, hosts: list[str], title: str, source: str, made: str, stopped: Container[str] = ()) -> dict:
    """All that the report says, as plain data. hosts: everything the run was about; made: the time as text; stopped: hosts that left the play."""
    results = plan.collect(hostvars, hosts)
    happened = plan.build(results)
    for host in hosts:
        if host in stopped and not happened["hosts"][host]["errors"]:
            happened["hosts"][host]["errors"].append({"stage": "", "msg": "%s left the play before a stage could say why: see the log of the run" % host,
                                                      "error": {}})
    verdict = next((hostvars[h]["verify_verdict_result"] for h in hosts
                    if isinstance(hostvars[h].get("verify_verdict_result"), dict) and hostvars[h]["verify_verdict_result"].get("summary")), {})
    rows = [dict(host=h, **_versions(hostvars[h], results[h])) for h in hosts]
    stages: dict[str, dict] = {}
    for host, entry in happened["hosts"].items():
        for step in entry["steps"]:
            stage = stages.setdefault(step["stage"], {"hosts": [], "steps": 0})
            stage["steps"] += 1
            if host not in stage["hosts"]:
                stage["hosts"].append(host)
    reboots = {h: [r["reasons"] for r in entry["reboots"]] for h, entry in happened["hosts"].items() if entry["reboots"]}
    return {"title": title, "source": source, "made": made, "hosts": hosts, "versions": rows, "stages": stages,
            "changes": {h: e["steps"] for h, e in happened["hosts"].items() if e["steps"]}, "reboots": reboots,
            "reboots_max": happened["reboots_max"], "failures": {h: e["errors"] for h, e in happened["hosts"].items() if e["errors"]},
            "ports": _ports(hostvars, hosts), "curves": _curves(hostvars, hosts),
            "verdict": {key: verdict.get(key) for key in ("summary", "verdicts", "pairs", "matrix", "blame", "limits") if verdict.get(key) is not None}}


def _versions(variables: dict, results: dict) -> dict:
    """ESXi: version, driver, tools, card. Guest: OFED and kernel."""
    info, firmware = results.get("esxi_info_result", {}), results.get("esxi_firmware_result", {})
    proof = results.get("esxi_proof_result", {})
    vibs = {**(info.get("vibs") or {}), **(results.get("esxi_software_result", {}).get("vibs") or {}),
            **(results.get("esxi_driver_result", {}).get("vibs") or {})}

    def vib(name: str) -> str:
        entry = vibs.get(name)
        if isinstance(entry, dict):
            return str(entry.get("next") or entry.get("staged") or entry.get("running") or entry.get("version") or "")
        return str(entry or "")

    card = firmware.get("card") or next(iter(proof.get("cards") or []), {}) or {}
    guest = results.get("guest_info_result", {})
    ofed = results.get("guest_ofed_result", {}).get("ofed") or {}
    guest_like = variables.get("vhpc_host") or any(results.get(name) for name in GUEST_RESULTS)
    out = {"kind": "guest" if guest_like else "esxi", "ESXi": info.get("version", ""), "MFT": vib("mft"), "driver": vib("nmlx5-core"),
           "PSID": card.get("psid", ""), "PCI": card.get("bdf", ""), "firmware": card.get("firmware", ""),
           "OFED": ofed.get("installed", ""), "kernel": guest.get("kernel", "")}
    return {key: value if isinstance(value, str) else str(value or "") for key, value in out.items()}


def _ports(hostvars: dict, hosts: list[str]) -> list[dict]:
    ports = []
    for host in hosts:
        for name in ("guest_info_result", "guest_link_result"):
            result = hostvars[host].get(name)
            if isinstance(result, dict) and result.get("ports"):
                ports += [dict(port, host=host) for port in result["ports"]]
                break
    return ports


def _curves(hostvars: dict, hosts: list[str]) -> list[dict]:
    """Per fabric and test: sizes, the median over all pairs, lowest and highest, and the paper's curve."""
    samples: dict[tuple, dict[int, list[float]]] = {}
    seen = set()
    for host in hosts:
        result = hostvars[host].get("verify_mesh_result")
        for item in (result.get("results") or [] if isinstance(result, dict) else []):
            key = (item["fabric"], item["test"], frozenset((item["server"], item["client"])))
            if item.get("error") or key in seen or item["test"] not in TESTS:
                continue
            seen.add(key)
            table = samples.setdefault((item["fabric"], item["test"]), {})
            for row in item.get("rows") or []:
                value = row[TESTS[item["test"]][2]]
                if value is not None:
                    table.setdefault(int(row[0]), []).append(value)
    out = []
    for fabric in FABRICS:
        for test, (title, unit, dummy) in TESTS.items():
            table = samples.get((fabric, test))
            if not table:
                continue
            sizes = sorted(table)
            out.append({"fabric": fabric, "test": test, "title": "%s, %s" % (title, FABRICS[fabric]), "unit": unit, "sizes": sizes,
                        "median": [stats.median(table[s]) for s in sizes], "low": [min(table[s]) for s in sizes], "high": [max(table[s]) for s in sizes],
                        "pairs": max(len(values) for values in table.values()),
                        "paper": {"figure": paper.CURVES[fabric, test]["figure"], "sizes": paper.SIZES, "values": paper.CURVES[fabric, test]["values"]}})
    return out


def pairs_csv(data: dict) -> str:
    """One line per pair and fabric."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["source", "fabric", "server", "client", "status"]
                    + ["%s_%s" % (test, unit.replace("/", "p")) for test, (dummy, unit, dummy2) in TESTS.items()])
    for pair in data["verdict"].get("pairs") or []:
        writer.writerow([data["source"], pair["fabric"], pair["server"], pair["client"], pair["status"]]
                        + [(pair.get(test) or {}).get("value") for test in TESTS])
    return out.getvalue()


def curves_csv(data: dict) -> str:
    """One line per fabric, test and size: the median over the pairs beside the paper's value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["source", "fabric", "test", "unit", "bytes", "median", "lowest", "highest", "paper"])
    for curve in data["curves"]:
        printed = dict(zip(curve["paper"]["sizes"], curve["paper"]["values"]))
        for number, size in enumerate(curve["sizes"]):
            writer.writerow([data["source"], curve["fabric"], curve["test"], curve["unit"], size, curve["median"][number], curve["low"][number],
                             curve["high"][number], printed.get(size)])
    return out.getvalue()


# ---- chart -------------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 300, 56, 12, 14, 46


def size_text(size: float) -> str:
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return "%g%s" % (size / unit, name)
    return "%g" % size


def chart(curve: dict) -> str:
    """An SVG line chart: sizes on a log2 axis; latency on a log10 axis, bandwidth from 0."""
    logarithmic = curve["test"].endswith("lat")
    values = curve["high"] + curve["low"] + curve["paper"]["values"]
    sizes = curve["sizes"] + curve["paper"]["sizes"]
    x0, x1 = math.log2(min(sizes)), math.log2(max(sizes))
    y0, y1 = (math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))) if logarithmic else (0.0, max(values) * 1.08)

    def x(size: float) -> float:
        return LEFT + (math.log2(size) - x0) / ((x1 - x0) or 1) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        place = math.log10(value) if logarithmic else value
        return HEIGHT - BOTTOM - (place - y0) / ((y1 - y0) or 1) * (HEIGHT - TOP - BOTTOM)

    def line(points: list[tuple[float, float]], name: str) -> str:
        return '<polyline class="%s" points="%s"/>' % (name, " ".join("%.1f,%.1f" % (x(a), y(b)) for a, b in points))

    out = ['<svg viewBox="0 0 %d %d" role="img" aria-label="%s">' % (WIDTH, HEIGHT, curve["title"])]
    if logarithmic:
        ticks = [10.0 ** n for n in range(int(y0), int(y1) + 1)]
    else:
        step = 10.0 ** math.floor(math.log10(y1 / 4)) if y1 else 1.0
        step *= next((m for m in (1, 2, 2.5, 5, 10) if y1 / (step * m) <= 6), 10)
        ticks = [step * n for n in range(int(y1 / step) + 1)]
    for tick in ticks:
        out.append('<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%g</text>' % (
            LEFT, WIDTH - RIGHT, y(tick), y(tick), LEFT - 6, y(tick) + 4, tick))
    for power in range(int(x0), int(x1) + 1, 3):
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (x(2 ** power), HEIGHT - BOTTOM + 16, size_text(2 ** power)))
    out.append('<text x="%d" y="%d" text-anchor="middle">message size (bytes)</text>' % ((LEFT + WIDTH - RIGHT) // 2, HEIGHT - 8))
    out.append('<text x="14" y="%d" text-anchor="middle" transform="rotate(-90 14 %d)">%s</text>'
               % ((TOP + HEIGHT - BOTTOM) // 2, (TOP + HEIGHT - BOTTOM) // 2, curve["unit"]))
    band = list(zip(curve["sizes"], curve["high"])) + list(zip(reversed(curve["sizes"]), reversed(curve["low"])))
    out.append('<polygon class="band" points="%s"/>' % " ".join("%.1f,%.1f" % (x(a), y(b)) for a, b in band))
    out.append(line(list(zip(curve["paper"]["sizes"], curve["paper"]["values"])), "paper"))
    out.append(line(list(zip(curve["sizes"], curve["median"])), "median"))
    return "".join(out) + "</svg>"


def html(data: dict) -> str:
    """The whole page; nothing is fetched from anywhere."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    limits: dict[tuple, dict] = {}
    for verdict in data["verdict"].get("verdicts") or []:
        limits.setdefault((verdict["fabric"], verdict["test"]), verdict)
    warnings = [(v, w) for v in data["verdict"].get("verdicts") or [] for w in v.get("warnings") or []]
    return environment.from_string(PAGE).render(
        data=data, fabrics=FABRICS, tests=TESTS, charts=[(curve, chart(curve)) for curve in data["curves"]], notice=NOTICES.get(data["source"], ""),
        lead=lead(data), limits=sorted(limits.items()), warnings=warnings, summary=data["verdict"].get("summary") or {}, cells=_cells(data),
        esxi=[row for row in data["versions"] if row["kind"] == "esxi"], guests=[row for row in data["versions"] if row["kind"] == "guest"])


def lead(data: dict) -> tuple[str, str]:
    """(class, sentence): what a reader who reads one line must know."""
    summary, parts, kind = data["verdict"].get("summary") or {}, [], "pass"
    if data["failures"]:
        kind = "fail"
        count = len(data["failures"])
        parts.append("%d of %d hosts did not get to the end; see Failures." % (count, len(data["hosts"])) if count > 1
                     else "%s did not get to the end; see Failures." % next(iter(data["failures"])))
    if summary.get("failed"):
        kind = "fail"
        parts.append("%d of %d measurements are not as they must be." % (summary["failed"], summary["judged"]))
    elif summary.get("judged"):
        kind = "warn" if kind == "pass" and summary["warned"] else kind
        parts.append("All %d measurements are within their limits%s." % (
            summary["judged"], ", %d of them with a warning" % summary["warned"] if summary["warned"] else ""))
    else:
        kind = "" if kind == "pass" else kind
        parts.append("Nothing was measured in this run.")
    steps = sum(len(steps) for steps in data["changes"].values())
    parts.append("%d settings were changed on %d hosts." % (steps, len(data["changes"])) if steps else "Nothing was changed.")
    return kind, " ".join(parts)


def _cells(data: dict) -> dict:
    """fabric -> frozenset of two hosts as "a b" -> the pair's row, for the matrices."""
    out: dict[str, dict] = {}
    for pair in data["verdict"].get("pairs") or []:
        table = out.setdefault(pair["fabric"], {})
        table[pair["server"], pair["client"]] = table[pair["client"], pair["server"]] = pair
    return out


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ data.title }}</title>
<style>
:root{--ink:#1d2733;--soft:#5b6b7b;--line:#dde3e9;--good:#1b7f4b;--warn:#a86a00;--bad:#b3261e;--blue:#1f5fbf;--paper:#c2571a}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);margin:0;background:#f5f7f9}
main{max-width:1180px;margin:0 auto;padding:24px}
h1{font-size:26px;margin:8px 0 2px}h2{font-size:19px;margin:34px 0 10px;border-bottom:2px solid var(--line);padding-bottom:4px}
h3{font-size:15px;margin:14px 0 6px}
.banner{background:#fff3d6;border:1px solid #e0b75a;padding:12px 16px;border-radius:6px;margin:12px 0;font-weight:600}
.soft{color:var(--soft)}.cards{display:flex;gap:12px;flex-wrap:wrap}
.card{background:#fff;border:1px solid var(--line);border-radius:8px;padding:12px 18px;min-width:120px}
.card b{display:block;font-size:24px}.pass b,.pass{color:var(--good)}.warn b,.warn{color:var(--warn)}.fail b,.fail{color:var(--bad)}
table{border-collapse:collapse;background:#fff;font-size:13px}th,td{border:1px solid var(--line);padding:3px 8px;text-align:left;vertical-align:top}
th{background:#eef2f5}
.wide{overflow-x:auto}.matrix td,.matrix th{padding:2px 5px;text-align:right;font-variant-numeric:tabular-nums;font-size:11px}
.matrix td.pass{background:#e3f4ea;color:var(--ink)}.matrix td.warn{background:#fdf0d2;color:var(--ink)}
.matrix td.fail{background:#fadcd9;color:var(--bad);font-weight:700}.matrix td.none{background:#f0f2f4}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:16px}
.charts figure{margin:0;background:#fff;border:1px solid var(--line);border-radius:8px;padding:10px}
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}.grid{stroke:#e6eaee}.median{fill:none;stroke:var(--blue);stroke-width:2}
.paper{fill:none;stroke:var(--paper);stroke-width:1.5;stroke-dasharray:5 4}.band{fill:#1f5fbf22;stroke:none}
.key i{display:inline-block;width:22px;height:0;border-top:3px solid var(--blue);vertical-align:middle;margin-right:5px}
.key i.p{border-top:2px dashed var(--paper)}
.lead{font-size:17px;font-weight:600;margin:4px 0 12px}
details{margin:6px 0}summary{cursor:pointer}
</style></head><body><main>
<h1>{{ data.title }}</h1>
<div class="soft">{{ data.made }} &middot; source: {{ data.source }}</div>
{% if notice %}<div class="banner">{{ notice }}</div>{% endif %}
<h2>Summary</h2>
<p class="lead {{ lead[0] }}">{{ lead[1] }}</p>
<div class="cards">
<div class="card"><b>{{ esxi|length }}</b>ESXi hosts</div><div class="card"><b>{{ guests|length }}</b>guests</div>
<div class="card"><b>{{ data.ports|selectattr('state','defined')|selectattr('state','equalto','ACTIVE')|list|length }}</b>ports active</div>
<div class="card"><b>{{ data.reboots.values()|map('length')|sum }}</b>reboots, at most {{ data.reboots_max }} on a host</div>
{% if summary %}
<div class="card pass"><b>{{ summary.passed }}</b>verdicts pass</div>
<div class="card {{ 'warn' if summary.warned }}"><b>{{ summary.warned }}</b>with a warning</div>
<div class="card {{ 'fail' if summary.failed }}"><b>{{ summary.failed }}</b>fail</div>
{% endif %}
<div class="card {{ 'fail' if data.failures else 'pass' }}"><b>{{ data.failures|length }}</b>hosts with a failure</div>
</div>
{% if data.failures %}
<h2>Failures</h2>
<table><tr><th>host</th><th>stage</th><th>what</th></tr>
{% for host, errors in data.failures.items() %}{% for error in errors %}<tr><td>{{ host }}</td><td>{{ error.stage }}</td><td>{{ error.msg }}</td></tr>
{% endfor %}{% endfor %}
</table>
{% endif %}
{% if summary %}
<h2>Verdicts</h2>
<table><tr><th>fabric</th><th>test</th><th>pairs</th><th>pass</th><th>warning</th><th>fail</th><th>median</th><th>worst pair</th><th>limit</th>
<th>where the limit comes from</th></tr>
{% for fabric, part in summary.fabrics.items() %}{% for test, row in part.tests.items() %}
<tr><td>{{ part.name }}</td><td>{{ tests[test][0] if test in tests else test }}</td><td>{{ part.pairs }}</td><td class="pass">{{ row.passed }}</td>
<td class="warn">{{ row.warned }}</td><td class="fail">{{ row.failed }}</td>
<td>{% if row['values'].median is not none %}{{ '%.2f'|format(row['values'].median) }} {{ row.unit }}{% endif %}</td>
<td>{% if row.worst %}{{ row.worst.server }} &ndash; {{ row.worst.client }}: {{ '%.2f'|format(row.worst.value) }}{% endif %}</td><td>{{ row.limit }}</td>
<td class="soft">{{ row.limit_from }}</td></tr>
{% endfor %}{% endfor %}
</table>
{% for entry in data.verdict.blame or [] %}<p class="fail">{{ fabrics[entry.fabric] }}: {{ entry.text }}</p>{% endfor %}
{% if warnings %}
<details><summary>{{ warnings|length }} warnings</summary><table>
{% for verdict, warning in warnings %}<tr><td>{{ fabrics[verdict.fabric] }}</td><td>{{ verdict.server }} &ndash; {{ verdict.client }}</td>
<td>{{ warning.text }}</td></tr>{% endfor %}
</table></details>
{% endif %}
{% endif %}
{% if charts %}
<h2>Curves beside the paper</h2>
<p class="key"><i></i>median over all pairs, band from lowest to highest &nbsp; <i class="p"></i>the paper</p>
<div class="charts">{% for curve, svg in charts %}<figure><figcaption><b>{{ curve.title }}</b>
<span class="soft">{{ curve.pairs }} pairs; paper: Figure {{ curve.paper.figure }}{{ '; source: ' ~ data.source if notice }}</span></figcaption>
{{ svg|safe }}</figure>{% endfor %}</div>
{% endif %}
{% for fabric, matrix in (data.verdict.matrix or {}).items() %}
<h2>Pairs, {{ fabrics[fabric] }}</h2>
{% for test, rows in matrix.items() if test != 'hosts' %}
<h3>{{ tests[test][0] if test in tests else test }} ({{ tests[test][1] if test in tests else '' }})</h3>
<div class="wide"><table class="matrix"><tr><th></th>{% for host in matrix.hosts %}<th>{{ host }}</th>{% endfor %}</tr>
{% for host in matrix.hosts %}{% set row = loop.index0 %}<tr><th>{{ host }}</th>
{% for other in matrix.hosts %}{% set value = rows[row][loop.index0] %}{% set pair = cells.get(fabric, {}).get((host, other)) %}
<td class="{{ (pair[test] or {}).status if pair and value is not none else ('fail' if pair else 'none') }}"{% if pair %}
title="{{ pair.server }} to {{ pair.client }}"{% endif %}>{{ '%.2f'|format(value) if value is not none else ('no result' if pair else '') }}</td>
{% endfor %}</tr>
{% endfor %}</table></div>
{% endfor %}
{% endfor %}
<h2>What was changed</h2>
{% if data.changes %}
<table><tr><th>stage</th><th>hosts</th><th>steps</th></tr>{% for stage, entry in data.stages.items() %}<tr><td>{{ stage }}</td><td>{{ entry.hosts|length }}</td>
<td>{{ entry.steps }}</td></tr>{% endfor %}</table>
{% for host, steps in data.changes.items() %}
<details><summary>{{ host }}: {{ steps|length }} steps{% if data.reboots.get(host) %}, {{ data.reboots[host]|length }} reboots{% endif %}</summary>
<table><tr><th>stage</th><th>thing</th><th>setting</th><th>before</th><th>after</th></tr>
{% for step in steps %}<tr><td>{{ step.stage }}</td><td>{{ step.thing }}</td><td>{{ step.name }}</td><td>{{ step.before }}</td><td>{{ step.after }}</td></tr>
{% endfor %}</table></details>
{% endfor %}
{% else %}<p>Nothing: everything was as wanted.</p>{% endif %}
<h2>Reboots and why</h2>
{% if data.reboots %}<table><tr><th>host</th><th>reboot</th><th>reasons</th></tr>
{% for host, batches in data.reboots.items() %}{% for reasons in batches %}<tr><td>{{ host }}</td><td>{{ loop.index }}</td>
<td>{{ reasons|join('; ') }}</td></tr>{% endfor %}{% endfor %}</table>
{% else %}<p>None.</p>{% endif %}
<h2>Versions</h2>
{% for rows, columns in ((esxi, ('ESXi','MFT','driver','PSID','PCI','firmware')), (guests, ('OFED','kernel'))) %}{% if rows %}
<div class="wide"><table><tr><th>host</th>{% for column in columns %}<th>{{ column }}</th>{% endfor %}</tr>
{% for row in rows %}<tr><td>{{ row.host }}</td>{% for column in columns %}<td>{{ row[column] }}</td>{% endfor %}</tr>{% endfor %}</table></div><br>
{% endif %}{% endfor %}
{% if notice %}<div class="banner">source: {{ data.source }}</div>{% endif %}
</main></body></html>
"""
