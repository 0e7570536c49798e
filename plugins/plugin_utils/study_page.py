# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a study says, as a page that opens offline and as CSV. Pure: the result of bench/study.py in, text out."""

from __future__ import annotations

import csv
import datetime
import io
import math

from jinja2 import Environment

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import study

# Okabe and Ito's colours: told apart by colour-blind readers and in grey print; the shapes say it once more.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 260, 50, 14, 18, 40
CLASS = {study.REPRODUCES: "pass", study.CONSISTENT: "pass", study.OPEN: "warn", study.PRINTED_FALSE: "warn", study.CONTRADICTED: "fail",
         study.NO_DATA: "none"}


def tables_csv(data: dict) -> str:
    """One line per table, configuration and node count."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "configuration", "processes_per_node", "nodes", "value", "delta_percent", "delta_low", "delta_high", "efficiency_percent",
                     "efficiency_low", "efficiency_high", "gauge_percent", "against_gauge", "paper_gauge_percent", "against_paper_gauge"])
    for name, table in data["tables"].items():
        for config, part in table["configs"].items():
            for cell in filter(None, part["cells"]):
                ends, wide = cell.get("delta_interval") or ["", ""], cell["efficiency_interval"]
                writer.writerow([name, config, part["processes"], cell["nodes"], cell["value"]] + [_short(value) for value in (
                    cell.get("delta"), ends[0], ends[1], cell["efficiency"], wide[0], wide[1], part["gauge"])]
                    + [cell.get("against_gauge", ""), _short(part["gauge_paper"]), cell.get("against_paper_gauge", "")])
    return out.getvalue()


def runs_csv(runs: list[dict], config: str) -> str:
    """One line per run, and one per message size of it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["configuration", "benchmark", "fabric", "nodes", "processes_per_node", "repeat", "success", "size", "value", "unit", "direction",
                     "seconds",
                     "error"])
    for run in runs:
        head = [config.replace("{ppn}", str(run["ppn"])), run["benchmark"], run["fabric"], run["nodes"], run["ppn"], run["repeat"], run["success"]]
        tail = [run["unit"], run["direction"], run.get("seconds"), run["error"]]
        writer.writerow(head + ["", _short(run["value"])] + tail)
        for row in run.get("rows") or []:
            writer.writerow(head + [row["size"], row["value"]] + tail)
    return out.getvalue()


def perflogs(runs: list[dict], config: str) -> dict[str, str]:
    """benchmark -> lines in the form of ReFrame's performance logs, which plotters and data bases of other projects read."""
    out: dict[str, list[str]] = {}
    for run in runs:
        name = run["benchmark"]
        columns = ["result", "job_completion_time", "descr", "environ", "job_completion_time_unix", "job_exitcode", "job_nodelist", "name", "num_tasks",
                   "num_tasks_per_node", "partition"] + [name + end for end in ("_value", "_unit", "_ref", "_lower_thres", "_upper_thres")] + ["system"]
        lines = out.setdefault(name, ["|".join(columns)])
        moment = run.get("finished")
        when = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") if moment else "null"
        cells = ["pass" if run["success"] else "fail", when, "%s, run %d" % (config.replace("{ppn}", str(run["ppn"])), run["repeat"]),
                 run.get("backend") or "builtin", moment or "null", 0 if run["success"] else 1, ",".join(run["hosts"]),
                 "%s %%nodes=%d %%ppn=%d" % (name, run["nodes"], run["ppn"]), run["processes"], run["ppn"], run["fabric"],
                 "null" if run["value"] is None else run["value"], run["unit"] or "null", 0, "null", "null", config.replace("{ppn}", str(run["ppn"]))]
        lines.append("|".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells))
    return {name: "\n".join(lines) + "\n" for name, lines in out.items()}


def _short(value):
    return round(value, 4) if isinstance(value, float) else "" if value is None else value


def _mark(number: int, x: float, y: float, text: str) -> str:
    """A point as circle, square or triangle by the number of its series, with a tooltip."""
    colour = COLOURS[number % len(COLOURS)]
    shapes = ['<circle cx="%.1f" cy="%.1f" r="4"' % (x, y), '<rect x="%.1f" y="%.1f" width="8" height="8"' % (x - 4, y - 4),
              '<path d="M%.1f %.1fl5 9h-10z"' % (x, y - 5)]
    return '%s fill="%s"><title>%s</title></%s>' % (shapes[number % 3], colour, text, ("circle", "rect", "path")[number % 3])


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between low and high, about five of them."""
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next((times for times in (1, 2, 5) if (high - low) / (step * times) <= 6), 10)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def chart(title: str, series: list[dict], nodes: list[int], unit: str, line: list[tuple[float, str]], zero: bool) -> str:
    """Points with error bars over node counts. series: name, values [(value, low, high) or None]; line: (height, label) across."""
    everything = [number for one in series for triple in one["values"] if triple for number in triple]
    everything += [height for height, dummy in line] + ([0] if zero else [])
    if not everything:
        return ""
    low, high = min(everything), max(everything)
    room = (high - low or 1) * 0.12
    low, high = low - room, high + room

    def y(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def x(place: int, number: int) -> float:
        step = (WIDTH - LEFT - RIGHT) / len(nodes)
        return LEFT + step * (place + 0.5) + (number - (len(series) - 1) / 2) * min(14, step / (len(series) + 1))

    out = ['<svg viewBox="0 0 %d %d" role="img" aria-label="%s">' % (WIDTH, HEIGHT, title)]
    for tick in ticks(low, high):
        out.append('<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%.3g</text>' % (
            LEFT, WIDTH - RIGHT, y(tick), y(tick), LEFT - 6, y(tick) + 4, tick + 0.0))
    for number, (height, label) in enumerate(line):
        out.append('<line class="gauge" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="label" x="%d" y="%.1f" text-anchor="end">%s</text>' % (
            LEFT, WIDTH - RIGHT, y(height), y(height), WIDTH - RIGHT - 2, y(height) + (-4 if number % 2 == 0 else 12), label))
    for place, count in enumerate(nodes):
        step = (WIDTH - LEFT - RIGHT) / len(nodes)
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%d</text>' % (LEFT + step * (place + 0.5), HEIGHT - BOTTOM + 16, count))
    out.append('<text x="%d" y="%d" text-anchor="middle">nodes</text><text x="12" y="%d" text-anchor="middle" transform="rotate(-90 12 %d)">%s</text>' % (
        (LEFT + WIDTH - RIGHT) // 2, HEIGHT - 6, HEIGHT // 2, HEIGHT // 2, unit))
    for number, one in enumerate(series):
        for place, triple in enumerate(one["values"]):
            if not triple:
                continue
            middle = x(place, number)
            out.append('<line stroke="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>' % (
                COLOURS[number % len(COLOURS)], middle, middle, y(triple[1]), y(triple[2])))
            out.append(_mark(number, middle, y(triple[0]), "%s, %d nodes: %.2f %s (%.2f to %.2f)" % (one["name"], nodes[place], triple[0], unit,
                                                                                                     triple[1], triple[2])))
    return "".join(out) + "</svg>"


def charts(data: dict) -> dict[str, dict]:
    """Per table its two charts: deltas with the gauges, and efficiencies."""
    out = {}
    for name, table in data["tables"].items():
        deltas, efficiencies, lines = [], [], {}
        for config, part in table["configs"].items():
            efficiencies.append({"name": config, "values": [cell and (cell["efficiency"], *cell["efficiency_interval"]) for cell in part["cells"]]})
            if config == table["baseline"]:
                continue
            deltas.append({"name": config, "values": [cell and "delta" in cell and (cell["delta"], *cell["delta_interval"]) for cell in part["cells"]]})
            if part["gauge"]:
                lines[round(part["gauge"], 2)] = "gauge %.2f %%" % part["gauge"]
                if abs(part["gauge"] - part["gauge_paper"]) > 0.01:
                    lines[round(part["gauge_paper"], 2)] = "the paper's gauge %.2f %%" % part["gauge_paper"]
        out[name] = {"delta": chart("%s: delta to %s" % (name, table["baseline"]), deltas, table["nodes"], "% worse", sorted(lines.items()), True),
                     "efficiency": chart("%s: strong-scaling efficiency" % name, efficiencies, table["nodes"], "%", [(100.0, "ideal")], False),
                     "names": [[one["name"], COLOURS[number % len(COLOURS)]] for number, one in enumerate(efficiencies)],
                     "delta_names": [[one["name"], COLOURS[number % len(COLOURS)]] for number, one in enumerate(deltas)]}
    return out


def html(data: dict, title: str, made: str, about: dict) -> str:
    """The page; about: the tables as they were given, for application, fabric, unit and figure."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    worst = [claim for claim in data["claims"] if CLASS[claim["verdict"]] == "fail"] + [claim for claim in data["claims"] if CLASS[claim["verdict"]] == "warn"]
    return environment.from_string(PAGE).render(data=data, title=title, made=made, about=about, charts=charts(data), classes=CLASS, worst=worst)


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root{--ink:#1d2733;--soft:#5b6b7b;--line:#dde3e9;--good:#1b7f4b;--warn:#8a5800;--bad:#b3261e}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);margin:0;background:#f5f7f9}
main{max-width:1180px;margin:0 auto;padding:20px}h1{font-size:25px;margin:6px 0}h2{font-size:19px;margin:30px 0 8px;border-bottom:2px solid var(--line)}
h3{font-size:16px;margin:18px 0 6px}.soft{color:var(--soft)}.wide{overflow-x:auto}
.cards{display:flex;flex-wrap:wrap;gap:10px;margin:12px 0}.card{background:#fff;border:1px solid var(--line);border-radius:8px;padding:8px 14px}
.card b{display:block;font-size:22px}.pass{color:var(--good)}.warn{color:var(--warn)}.fail{color:var(--bad)}.none{color:var(--soft)}
table{border-collapse:collapse;background:#fff;font-size:13px;font-variant-numeric:tabular-nums}
th,td{border:1px solid var(--line);padding:3px 8px;text-align:left;vertical-align:top}th{background:#eef2f5}td.n{text-align:right}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:14px}
figure{margin:0;background:#fff;border:1px solid var(--line);border-radius:8px;padding:8px}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#5b6b7b}svg .label{fill:#1d2733}.grid{stroke:#e6eaee}
.gauge{stroke:#1d2733;stroke-dasharray:5 4}.key{font-size:12px}.key span{white-space:nowrap}
.key i{display:inline-block;width:10px;height:10px;margin:0 4px 0 10px}
@media(max-width:600px){.cards{gap:6px}.card{padding:3px 8px}.card b{display:inline;font-size:16px;margin-right:6px}h1{font-size:20px}}
@media print{body{background:#fff}figure,table{break-inside:avoid}main{padding:0}}
</style></head><body><main>
<h1>{{ title }}</h1>
<div class="soft">{{ made }}</div>
<div class="cards">{% for word, number in data.counts.items() if number %}
<div class="card {{ classes[word] }}"><b>{{ number }}</b>{{ word }}</div>{% endfor %}
<div class="card"><b>{{ data.over_the_gauge|length }}</b>cells over the gauge</div></div>
{% for claim in worst %}<p class="{{ classes[claim.verdict] }}"><b>{{ claim.id }}: {{ claim.verdict }}.</b>
{{ claim.text[:1]|upper }}{{ claim.text[1:] }}.</p>{% endfor %}
<h2>Claims</h2>
<div class="wide"><table><tr><th>claim</th><th>from</th><th>claimed</th><th>computed</th><th>with rounding</th><th>verdict</th><th>why</th></tr>
{% for claim in data.claims %}<tr><td>{{ claim.id }}</td><td>{{ claim.table or claim.curve }}{% if claim.nodes %}, {{ claim.nodes }} nodes{% endif %}</td>
<td class="n">{{ claim.claimed if claim.claimed is defined else (claim.at_least if claim.at_least is defined else '') }}</td>
<td class="n">{{ '%.2f'|format(claim.computed) if claim.computed is defined else '' }}</td>
<td class="n">{% if claim.interval %}{{ '%.2f'|format(claim.interval[0]) }} to {{ '%.2f'|format(claim.interval[1]) }}{% endif %}</td>
<td class="{{ classes[claim.verdict] }}"><b>{{ claim.verdict }}</b></td><td>{{ claim.text }}</td></tr>
{% endfor %}</table></div>
{% if data.over_the_gauge %}
<h2>Over the gauge</h2>
<p class="soft">Fewer processes on a node cost something by themselves: 1 - p/P of a rate, P/p - 1 of a time. The paper uses the first for both.</p>
<div class="wide"><table><tr><th>table</th><th>configuration</th><th>nodes</th><th>delta</th><th>with rounding</th><th>paper's gauge</th>
<th>gauge of the direction</th></tr>
{% for cell in data.over_the_gauge %}<tr><td>{{ cell.table }}</td><td>{{ cell.config }}</td><td class="n">{{ cell.nodes }}</td>
<td class="n">{{ '%.2f'|format(cell.delta) }} %</td><td class="n">{{ '%.2f'|format(cell.interval[0]) }} to {{ '%.2f'|format(cell.interval[1]) }}</td>
<td>{{ cell.verdict }}</td><td>{{ '%.2f'|format(cell.fair_gauge) }} %: {{ cell.fair_verdict }}</td></tr>{% endfor %}</table></div>
{% endif %}
{% if data.efficiencies.cells %}
<p>Printed efficiencies: {{ data.efficiencies.cells }} cells, {{ data.efficiencies.exact }} follow exactly from the printed figures,
{{ data.efficiencies.rounding }} within rounding, {{ data.efficiencies.contradicted }} contradicted.</p>{% endif %}
<h2>Tables</h2>
{% for name, table in data.tables.items() %}{% set given = about.get(name, {}) %}
<h3>{{ given.app or name }}{% if given.fabric %}, {{ given.fabric }}{% endif %}
<span class="soft">&ensp;{{ name }}{% if given.figure %}, Figure {{ given.figure }}{% endif %}; {{ given.unit }},
{{ table.direction }} is better;
delta = {{ table.formulas.delta }}, efficiency = {{ table.formulas.efficiency }}</span></h3>
<div class="wide"><table><tr><th>configuration</th><th></th>{% for count in table.nodes %}<th>{{ count }}</th>{% endfor %}</tr>
{% for config, part in table.configs.items() %}<tr><th rowspan="{{ 2 if config == table.baseline else 3 }}">{{ config }}{% if part.gauge %}<br>
<span class="soft">gauge {{ '%.2f'|format(part.gauge) }} %</span>{% endif %}</th><td>value</td>
{% for cell in part.cells %}<td class="n">{{ '%.6g'|format(cell.value) if cell else '' }}</td>{% endfor %}</tr>
{% if config != table.baseline %}<tr><td>delta %</td>
{% for cell in part.cells %}{% set mark = (cell.against_gauge or '') if cell else '' %}
<td class="n {{ 'fail' if mark == 'over for certain' else ('warn' if mark.startswith('over') else '') }}">
{{ '%.2f'|format(cell.delta) if cell and cell.delta is defined else '' }}</td>{% endfor %}</tr>{% endif %}
<tr><td>efficiency %</td>{% for cell in part.cells %}<td class="n">{{ '%.1f'|format(cell.efficiency) if cell else '' }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
<div class="charts">{% for kind, names, words in (('delta', 'delta_names', 'delta to ' ~ table.baseline),
('efficiency', 'names', 'strong-scaling efficiency')) %}
{% if charts[name][kind] %}<figure><figcaption>{{ words }}<span class="key">
{% for label, colour in charts[name][names] %}<span><i style="background:{{ colour }}"></i>
{{ label }}</span> {% endfor %}</span></figcaption>{{ charts[name][kind]|safe }}</figure>{% endif %}{% endfor %}</div>
{% endfor %}
{% if data.absent %}<p class="soft">Without figures: {{ data.absent|join(', ') }}.</p>{% endif %}
</main></body></html>
"""
