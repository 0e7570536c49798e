# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a study says, as a page that opens offline and as CSV. Pure: the result of bench/study.py in, text out."""

from __future__ import annotations

import csv
import io

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import study
from ansible_collections.vhpc.rdma.plugins.plugin_utils import charts, page, report_files

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
        lines = out.setdefault(name, [report_files.perflog_head(name)])
        moment = run.get("finished")
        cells = ["pass" if run["success"] else "fail", report_files.moment_text(moment),
                 "%s, run %d" % (config.replace("{ppn}", str(run["ppn"])), run["repeat"]),
                 run.get("backend") or "builtin", moment, 0 if run["success"] else 1, ",".join(run["hosts"]),
                 "%s %%nodes=%d %%ppn=%d" % (name, run["nodes"], run["ppn"]), run["processes"], run["ppn"], run["fabric"],
                 run["value"], run["unit"] or None, 0, None, None, config.replace("{ppn}", str(run["ppn"]))]
        lines.append(report_files.perflog_line(cells))
    return {name: "\n".join(lines) + "\n" for name, lines in out.items()}


def _short(value):
    return round(value, 4) if isinstance(value, float) else "" if value is None else value


def html(data: dict, title: str, made: str, about: dict, pictures: bool | None = None) -> str:
    """The page; about: the tables as they were given, for application, fabric, unit and figure; pictures: whether there are charts."""
    pictures = charts.available() if pictures is None else pictures
    worst = [claim for claim in data["claims"] if CLASS[claim["verdict"]] == "fail"] + [claim for claim in data["claims"] if CLASS[claim["verdict"]] == "warn"]
    drawn = {name: charts.scaling(dict(table, unit=about.get(name, {}).get("unit") or ""), name, "t%d" % number) if pictures else []
             for number, (name, table) in enumerate(data["tables"].items())}
    return page.render(PAGE, title, data=data, made=made, about=about, charts=drawn, classes=CLASS, worst=worst, pictures=pictures, missing=charts.MISSING)


PAGE = """
<h1>{{ title }}</h1>
<div class="soft small">{{ made }}</div>
<ul class="facts">{% for word, number in data.counts.items() if number %}
<li class="{{ classes[word] }}"><b>{{ number }}</b> {{ signs[classes[word]] }} {{ word }}</li>{% endfor %}
<li><b>{{ data.over_the_gauge|length }}</b> cells over the gauge</li></ul>
{% for claim in worst %}<p><b class="{{ classes[claim.verdict] }}">{{ signs[classes[claim.verdict]] }} {{ claim.id }}: {{ claim.verdict }}.</b>
{{ claim.text[:1]|upper }}{{ claim.text[1:] }}.</p>{% endfor %}
{% if not pictures %}<p class="soft">{{ missing }}</p>{% endif %}
<h2>Claims</h2>
{% call wide('Claims') %}<table><tr><th>claim</th><th>from</th><th>claimed</th><th>computed</th><th>with rounding</th><th>verdict</th><th>why</th></tr>
{% for claim in data.claims %}<tr><td>{{ claim.id }}</td><td>{{ claim.table or claim.curve }}{% if claim.nodes %}, {{ claim.nodes }} nodes{% endif %}</td>
<td class="n">{{ claim.claimed if claim.claimed is defined else (claim.at_least if claim.at_least is defined else '') }}</td>
<td class="n">{{ '%.2f'|format(claim.computed) if claim.computed is defined else '' }}</td>
<td class="n">{% if claim.interval %}{{ '%.2f'|format(claim.interval[0]) }} to {{ '%.2f'|format(claim.interval[1]) }}{% endif %}</td>
<td class="{{ classes[claim.verdict] }}"><b>{{ claim.verdict }}</b></td><td>{{ claim.text }}</td></tr>
{% endfor %}</table>{% endcall %}
{% if data.over_the_gauge %}
<h2>Over the gauge</h2>
<p class="soft">Fewer processes on a node cost something by themselves: 1 - p/P of a rate, P/p - 1 of a time. The paper uses the first for both.</p>
{% call wide('Over the gauge') %}<table><tr><th>table</th><th>configuration</th><th>nodes</th><th>delta</th><th>with rounding</th><th>paper's gauge</th>
<th>gauge of the direction</th></tr>
{% for cell in data.over_the_gauge %}<tr><td>{{ cell.table }}</td><td>{{ cell.config }}</td><td class="n">{{ cell.nodes }}</td>
<td class="n">{{ '%.2f'|format(cell.delta) }} %</td><td class="n">{{ '%.2f'|format(cell.interval[0]) }} to {{ '%.2f'|format(cell.interval[1]) }}</td>
<td>{{ cell.verdict }}</td><td>{{ '%.2f'|format(cell.fair_gauge) }} %: {{ cell.fair_verdict }}</td></tr>{% endfor %}</table>{% endcall %}
{% endif %}
{% if data.fabrics %}
<h2>RoCE against InfiniBand</h2>
<p class="soft">By how many percent RoCE is worse than InfiniBand (negative: better), where both have the same application and configuration.</p>
{% call wide('RoCE against InfiniBand') %}<table><tr><th>application</th><th>InfiniBand</th><th>RoCE</th><th>nodes</th><th>delta</th>
<th>with rounding or repeats</th><th>verdict</th></tr>
{% for row in data.fabrics %}{% for cell in row.cells %}<tr>{% if loop.first %}<th rowspan="{{ row.cells|length }}">{{ row.app }}</th>
<td rowspan="{{ row.cells|length }}">{{ row.ib }}</td><td rowspan="{{ row.cells|length }}">{{ row.roce }}</td>{% endif %}
<td class="n">{{ cell.nodes }}</td><td class="n">{{ '%.2f'|format(cell.delta) }} %</td>
<td class="n">{{ '%.2f'|format(cell.delta_interval[0]) }} to {{ '%.2f'|format(cell.delta_interval[1]) }}</td><td>{{ cell.verdict }}</td></tr>
{% endfor %}{% endfor %}</table>{% endcall %}
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
{% call wide(name) %}<table><tr><th>configuration</th><th></th>{% for count in table.nodes %}<th>{{ count }}</th>{% endfor %}</tr>
{% for config, part in table.configs.items() %}<tr><th rowspan="{{ 2 if config == table.baseline else 3 }}">{{ config }}{% if part.gauge %}<br>
<span class="soft">gauge {{ '%.2f'|format(part.gauge) }} %</span>{% endif %}</th><td>value</td>
{% for cell in part.cells %}<td class="n">{{ '%.6g'|format(cell.value) if cell else '' }}</td>{% endfor %}</tr>
{% if config != table.baseline %}<tr><td>delta %</td>
{% for cell in part.cells %}{% set stand = (cell.against_gauge or '') if cell else '' %}
<td class="n {{ 'fail' if stand == 'over for certain' else ('warn' if stand.startswith('over') else '') }}">
{{ '%.2f'|format(cell.delta) if cell and cell.delta is defined else '' }}{{ ' over' if stand.startswith('over') }}</td>{% endfor %}</tr>{% endif %}
<tr><td>efficiency %</td>{% for cell in part.cells %}<td class="n">{{ '%.1f'|format(cell.efficiency) if cell else '' }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endcall %}
<div class="charts">{% for text, svg in charts[name] %}<figure><figcaption>{{ text }}</figcaption>{{ svg|safe }}</figure>{% endfor %}</div>
{% endfor %}
{% if data.absent %}<p class="soft">Without figures: {{ data.absent|join(', ') }}.</p>{% endif %}
"""
