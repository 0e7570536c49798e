# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report and the comparison of two reports as pages for a person: the verdict first, then what it stands on. Pure: data in, text out."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import stats, verdict as verdicts
from ansible_collections.vhpc.rdma.plugins.plugin_utils import charts, page, report

# source: what a reader must know before he reads a figure
NOTICES = {
    "simulated": "source: simulated. Made on the rehearsal lab: its figures say nothing about hardware.",
    "soft-roce": "source: soft-roce. Measured on soft-RoCE, RDMA in software: the figures are real, and they say nothing about hardware.",
}
# How much of a long list stands on the page; the rest is in report.json.
SHOWN = 100
FIRST = 6
# Up to so many hosts a matrix is a table too.
TABLED = 32


def html(data: dict, pictures: bool | None = None) -> str:
    """The whole page. pictures: whether there are charts; when not given, where matplotlib is."""
    pictures = charts.available() if pictures is None else pictures
    found = data["verdict"].get("verdicts") or []
    warnings = [(one, warning) for one in found for warning in one.get("warnings") or []]
    return page.render(
        PAGE, data["title"], data=data, fabrics=report.FABRICS, about=report.test_about, notice=NOTICES.get(data["source"], ""), lead=report.lead(data),
        warnings=warnings[:SHOWN], more_warnings=max(0, len(warnings) - SHOWN), summary=data["verdict"].get("summary") or {}, pictures=pictures,
        missing=charts.MISSING, first=FIRST, repeats=_repeats(found), failed=_failed(found), matrices=_matrices(data, pictures),
        curves=[(curve, _curve(number, curve) if pictures else "") for number, curve in enumerate(data["curves"])],
        benchmarks=_benchmarks(data["benchmark"], pictures), size_text=charts.size_text, number_text=charts.number_text,
        testbed_keys=[key for key in report.TESTBED if any(column["properties"].get(key) for column in data["testbed"])],
        machines=report.machines(data), active=sum(port.get("state") == "ACTIVE" for port in data["ports"]),
        rows={kind: [row for row in data["versions"] if row["kind"] == kind] for kind in ("esxi", "guest")},
        columns={"esxi": ["ESXi", "build", "driver", "MFT", "PSID", "firmware", "BIOS", "machine", "PCI"],
                 "guest": ["OS", "kernel", "OFED", "firmware", "PSID", "CPU", "cores", "memory", "MPI", "UCX"]})


def _failed(found: list[dict]) -> dict:
    bad = sorted((one for one in found if one["status"] == "fail"), key=lambda one: (one["fabric"], one["test"], one["server"], one["client"]))
    return {"rows": [(one, report.why(one)) for one in bad[:SHOWN]], "more": max(0, len(bad) - SHOWN)}


def _repeats(found: list[dict]) -> dict:
    """(fabric, test) -> how often each pair was measured and how well it repeats itself."""
    groups: dict[tuple, list[dict]] = {}
    for one in found:
        if one.get("repeats"):
            groups.setdefault((one["fabric"], one["test"]), []).append(one["repeats"])
    return {key: {"n": max(one["n"] for one in group), "cv": stats.median(one["cv"] for one in group if one["cv"] is not None),
                  "most": max((one["cv"] for one in group if one["cv"] is not None), default=None)} for key, group in groups.items()}


def _curve(number: int, curve: dict) -> str:
    printed = curve["paper"]
    reference = printed and {"name": "the paper, Figure %d" % printed["figure"], "sizes": printed["sizes"], "values": printed["values"]}
    label = "median of %d pairs, bars from lowest to highest" % curve["pairs"] if curve["pairs"] > 1 else "one pair"
    ours = {"name": label, "sizes": curve["sizes"], "values": curve["median"], "low": curve["low"],
            "high": curve["high"]}
    return charts.sizes("curve%d" % number, curve["title"], [ours], curve["unit"], reference, verdicts.kind(curve["test"]) == "lat")


def _matrices(data: dict, pictures: bool) -> list[dict]:
    """Per fabric and test the square of pairs, with how each pair stands."""
    out = []
    table: dict[tuple, dict] = {}
    for one in data["verdict"].get("verdicts") or []:
        table.setdefault((one["fabric"], one["test"]), {})[one["server"], one["client"]] = one
    for fabric, matrix in (data["verdict"].get("matrix") or {}).items():
        hosts = matrix["hosts"]
        place = {host: number for number, host in enumerate(hosts)}
        for test, values in matrix.items():
            if test == "hosts":
                continue
            states = [[""] * len(hosts) for dummy in hosts]
            limit = None
            for (server, client), one in table.get((fabric, test), {}).items():
                states[place[server]][place[client]] = states[place[client]][place[server]] = one["status"]
                limit = one.get("limit_value") or limit
            title, unit, dummy = report.test_about(test)
            title = "%s of every pair, %s" % (title, report.FABRICS.get(fabric, fabric))
            lower = verdicts.kind(test) == "lat"
            svg = charts.matrix("map%d" % len(out), title, hosts, values, states, unit, lower, limit) if pictures and len(hosts) > 1 else ""
            out.append({"title": title, "unit": unit, "hosts": hosts, "values": values, "states": states, "tabled": len(hosts) <= TABLED,
                        "svg": svg.replace("<svg ", '<svg class="map" style="--least:%dpx" ' % (90 * charts.matrix_width(len(hosts))), 1),
                        "by_host": [] if len(hosts) <= TABLED else _by_host(hosts, values, lower)[:SHOWN]})
    return out


def _by_host(hosts: list[str], values: list[list], lower: bool) -> list[tuple]:
    """(host, median over its partners, its worst partner, that value), the worst host first."""
    out = []
    for host, row in zip(hosts, values):
        known = [(value, other) for value, other in zip(row, hosts) if value is not None]
        if known:
            value, partner = (max if lower else min)(known)
            out.append((host, stats.median(one for one, dummy in known), partner, value))
    return sorted(out, key=lambda row: row[1], reverse=lower)


def _benchmarks(found: dict, pictures: bool) -> dict:
    """Charts and tables of MPI benchmarks and applications."""
    if not found:
        return {}
    groups: dict[tuple, list[dict]] = {}
    for entry in found["summary"]:
        if len(entry.get("sizes") or []) > 1:
            groups.setdefault((entry["benchmark"], entry["ppn"]), []).append(entry)
    curves = []
    for number, ((name, ppn), entries) in enumerate(sorted(groups.items())):
        series = [{"name": "%d nodes" % entry["nodes"], "sizes": [row["size"] for row in entry["sizes"] if row["size"]],
                   "values": [row["statistics"]["median"] for row in entry["sizes"] if row["size"]],
                   "low": [row["statistics"]["min"] for row in entry["sizes"] if row["size"]],
                   "high": [row["statistics"]["max"] for row in entry["sizes"] if row["size"]]} for entry in entries]
        title = "%s, %d process%s per node" % (name, ppn, "" if ppn == 1 else "es")
        # Bandwidths and times of MPI span as many powers as sizes do.
        curves.append({"title": title, "unit": entries[0]["unit"], "series": series,
                       "svg": charts.sizes("mpi%d" % number, title, series, entries[0]["unit"], None, True) if pictures else ""})
    return {"curves": curves, "tables": [dict(table, name=name, charts=charts.scaling(table, name, "scale%d" % number) if pictures else [])
                                         for number, (name, table) in enumerate(found["tables"].items())]}


PAGE = """
<h1>{{ data.title }}</h1>
<div class="soft small">{{ data.made }} &middot; source: {{ data.source }} &middot; {{ data.hosts|length }} hosts</div>
{% if notice %}<div class="banner" role="note">{{ notice }}</div>{% endif %}
<div class="verdict {{ lead[0] }}"><b>{{ signs[lead[0]] }} {{ verdicts[lead[0]] }}</b>{{ lead[1] }}</div>
<div class="first">
{% if data.worst %}<section><h2>Worst pairs</h2><ul>
{% for row in data.worst[:first] %}<li>{{ mark(row.status) }} <b>{{ fabrics.get(row.fabric, row.fabric) }} {{ about(row.test)[0]|lower }}</b>
{{ row.client }} to {{ row.server }}: <b>{{ number_text(row.value) ~ ' ' ~ row.unit if row.value is not none else 'no result' }}</b>
<p>{{ row.why }}{% if row.median is not none %}; median {{ number_text(row.median) }}{% endif %}; limit {{ row.limit }}
{%- if row.failed %}; {{ row.failed }} of {{ row.judged }} failed{% endif %}</p></li>
{% endfor %}</ul></section>{% endif %}
<section><h2>Why</h2>{% if data.reasons %}<ul>
{% for row in data.reasons[:first] %}<li>{{ mark(row.severity) }} {{ row.text }}</li>{% endfor %}
{% if data.reasons|length > first %}<li><details><summary>{{ data.reasons|length - first }} more</summary><ul>
{% for row in data.reasons[first:first + 50] %}<li>{{ mark(row.severity) }} {{ row.text }}</li>{% endfor %}</ul></details></li>{% endif %}
</ul>{% else %}<p>Nobody is to blame: no host failed, nothing is out of line{% if summary.warned %}; single warnings are listed below{% endif %}.</p>{% endif %}
</section></div>
<ul class="facts">
{% if rows.esxi %}<li><b>{{ rows.esxi|length }}</b> ESXi host{{ 's' if rows.esxi|length > 1 }}</li>{% endif %}
<li><b>{{ rows.guest|length }}</b> {{ machines }}</li>
{% if data.ports %}<li><b>{{ active }}</b> ports active</li>{% endif %}
{% if summary %}<li><b>{{ summary.passed }}</b> passed</li><li><b>{{ summary.warned }}</b> with a warning</li><li><b>{{ summary.failed }}</b> failed</li>
{% endif %}
<li><b>{{ data.failures|length }}</b> hosts failed</li>
<li><b>{{ data.reboots.values()|map('length')|sum }}</b> reboots, at most {{ data.reboots_max }} on a host</li></ul>
<nav aria-label="Contents">{% if summary %}<a href="#verdicts">Verdicts</a><a href="#pairs">Pairs</a>{% endif %}
{% if curves %}<a href="#curves">Curves</a>{% endif %}{% if data.benchmark %}<a href="#benchmarks">Benchmarks</a>{% endif %}
{% if data.testbed %}<a href="#testbed">Testbed</a>{% endif %}<a href="#fleet">Fleet</a><a href="#changes">Changes</a><a href="#reboots">Reboots</a>
<a href="#again">How to reproduce</a></nav>
{% if not pictures and (curves or matrices or data.benchmark) %}<p class="soft">{{ missing }}</p>{% endif %}
{% if data.failures %}
<h2 id="failures">Failures</h2>
{% call wide('Failures') %}<table><tr><th>host</th><th>stage</th><th>what</th></tr>
{% for host, errors in data.failures.items() %}{% for error in errors %}<tr><td>{{ host }}</td><td>{{ error.stage }}</td><td>{{ error.msg }}</td></tr>
{% endfor %}{% endfor %}
</table>{% endcall %}
{% endif %}
{% if summary %}
<h2 id="verdicts">Verdicts</h2>
{% call wide('Verdicts') %}<table><tr><th>fabric</th><th>test</th><th>pairs</th><th>passed</th><th>warning</th><th>failed</th><th>median</th><th>range</th>
<th>repeats</th><th>limit</th><th class="from">where the limit comes from</th></tr>
{% for fabric, part in summary.fabrics.items() %}{% for test, row in part.tests.items() %}{% set again = repeats.get((fabric, test)) %}
<tr><td>{{ part.name }}</td><td>{{ about(test)[0] }}</td><td class="n">{{ part.pairs }}</td><td class="n pass">{{ row.passed }}</td>
<td class="n {{ 'warn' if row.warned }}">{{ row.warned }}</td><td class="n {{ 'fail' if row.failed }}">{{ row.failed }}</td>
<td class="nowrap">{% if row['values'].median is not none %}{{ number_text(row['values'].median) }} {{ row.unit }}{% endif %}</td>
<td class="nowrap">{% if row['values'].n %}{{ number_text(row['values'].min) }} to {{ number_text(row['values'].max) }}{% endif %}</td>
<td>{% if again %}{{ again.n }} per pair{% if again.cv is not none %}, cv {{ '%.1f'|format(again.cv) }} %, at most {{ '%.1f'|format(again.most) }} %{% endif %}
{% else %}1{% endif %}</td>
<td>{{ row.limit }}</td><td class="soft">{{ row.limit_from }}</td></tr>
{% endfor %}{% endfor %}
</table>{% endcall %}
{% if failed.rows %}<details><summary>Failed measurements: {{ summary.failed }}</summary>
{% call wide('Failed measurements') %}<table><tr><th>fabric</th><th>test</th><th>pair</th><th>value</th><th>why</th></tr>
{% for one, said in failed.rows %}<tr><td>{{ fabrics.get(one.fabric, one.fabric) }}</td><td>{{ about(one.test)[0] }}</td>
<td>{{ one.client }} to {{ one.server }}</td>
<td class="n">{{ number_text(one.value) ~ ' ' ~ one.unit if one.value is not none else 'none' }}</td>
<td>{{ said }}{% if one.error and one.error.hint %}. Try: {{ one.error.hint }}{% endif %}</td></tr>
{% endfor %}</table>{% endcall %}{% if failed.more %}<p>And {{ failed.more }} more in report.json.</p>{% endif %}</details>{% endif %}
{% if warnings %}
<details><summary>Warnings of measurements: {{ warnings|length + more_warnings }}</summary>
{% call wide('Warnings') %}<table><tr><th>fabric</th><th>test</th><th>pair</th><th>warning</th></tr>
{% for one, warning in warnings %}<tr><td>{{ fabrics.get(one.fabric, one.fabric) }}</td><td>{{ about(one.test)[0] }}</td>
<td>{{ one.client }} to {{ one.server }}</td><td>{{ warning.text }}</td></tr>
{% endfor %}</table>{% endcall %}{% if more_warnings %}<p>And {{ more_warnings }} more in report.json.</p>{% endif %}</details>
{% endif %}
<h2 id="pairs">Pairs</h2>
<div class="maps">
{% for map in matrices %}<section><h3>{{ map.title }} ({{ map.unit }})</h3>
{% if map.svg %}<figure><div class="wide" tabindex="0" role="region" aria-label="{{ map.title }}, chart">{{ map.svg|safe }}</div></figure>{% endif %}
{% if map.tabled %}<details{{ '' if map.svg else ' open' }}><summary>As a table</summary>
{% call wide(map.title) %}<table class="matrix"><tr><th></th>{% for host in map.hosts %}<th>{{ host }}</th>{% endfor %}</tr>
{% for host in map.hosts %}{% set row = loop.index0 %}<tr><th>{{ host }}</th>
{% for other in map.hosts %}{% set value = map['values'][row][loop.index0] %}{% set state = map.states[row][loop.index0] %}
<td class="{{ state }}">{% if state %}{{ number_text(value) if value is not none else 'no result' }}{{ ' ' ~ signs[state] if state != 'pass' }}{% endif %}
</td>
{% endfor %}</tr>
{% endfor %}</table>{% endcall %}</details>
{% else %}<details><summary>By host, the worst first</summary>
{% call wide(map.title) %}<table><tr><th>host</th><th>median over its partners</th><th>worst partner</th><th>value</th></tr>
{% for host, middle, partner, value in map.by_host %}<tr><td>{{ host }}</td><td class="n">{{ number_text(middle) }}</td><td>{{ partner }}</td>
<td class="n">{{ number_text(value) }}</td></tr>{% endfor %}</table>{% endcall %}<p class="small">Every pair is in pairs.csv.</p></details>{% endif %}
</section>{% endfor %}
</div>
{% endif %}
{% if curves %}
<h2 id="curves">Curves over message size</h2>
<div class="charts">{% for curve, svg in curves %}<figure><figcaption><b>{{ curve.title }}</b>
<span class="soft small">{{ curve.pairs }} pair{{ 's' if curve.pairs != 1 }}{{ '; source: ' ~ data.source if notice }}</span></figcaption>{{ svg|safe }}
<details><summary>As a table</summary>{% call wide(curve.title) %}<table><tr><th>bytes</th><th>median {{ curve.unit }}</th><th>lowest</th><th>highest</th>
{% if curve.paper %}<th>the paper</th>{% endif %}</tr>
{% for size in curve.sizes %}<tr><td class="n">{{ size_text(size) }}</td><td class="n">{{ number_text(curve.median[loop.index0]) }}</td>
<td class="n">{{ number_text(curve.low[loop.index0]) }}</td><td class="n">{{ number_text(curve.high[loop.index0]) }}</td>
{% if curve.paper %}<td class="n">{% if size in curve.paper.sizes %}{{ curve.paper['values'][curve.paper.sizes.index(size)] }}{% endif %}</td>{% endif %}</tr>
{% endfor %}</table>{% endcall %}</details></figure>{% endfor %}</div>
{% endif %}
{% if data.benchmark %}
<h2 id="benchmarks">MPI benchmarks and applications</h2>
<p class="soft small">{{ data.benchmark.backend }} {{ data.benchmark.mpi.family }} {{ data.benchmark.mpi.version }}{% if data.benchmark.device %}; UCX on
{{ data.benchmark.device }}{% endif %}</p>
{% if data.benchmark.summary %}
{% call wide('Benchmark results') %}<table><tr><th>benchmark</th><th>nodes</th><th>processes per node</th><th>runs that succeeded</th><th>mean</th>
<th>median</th>
<th>range</th><th>cv</th><th>better is</th><th>to note</th></tr>
{% for row in data.benchmark.summary %}{% set numbers = row.statistics %}<tr><td>{{ row.benchmark }}</td><td class="n">{{ row.nodes }}</td>
<td class="n">{{ row.ppn }}</td>
<td class="n {{ 'fail' if row.successful < row.runs }}">{{ row.successful }} of {{ row.runs }}</td>
<td class="n">{{ '%.5g %s'|format(numbers.mean, row.unit) if numbers.mean is not none else 'none' }}</td>
<td class="n">{{ '%.5g'|format(numbers.median) if numbers.median is not none else '' }}</td>
<td class="n">{{ '%.5g to %.5g'|format(numbers.min, numbers.max) if numbers.n else '' }}</td>
<td class="n">{{ '%.1f %%'|format(numbers.cv) if numbers.cv is not none else '' }}</td><td>{{ row.direction }}</td>
<td class="{{ 'warn' if numbers.marks }}">{{ numbers.marks|map(attribute='text')|join('; ') }}</td></tr>
{% endfor %}</table>{% endcall %}{% endif %}
{% if benchmarks.curves and pictures %}<div class="charts">{% for one in benchmarks.curves %}<figure><figcaption><b>{{ one.title }}</b>
<span class="soft small">median, bars from lowest to highest run</span></figcaption>{{ one.svg|safe }}</figure>{% endfor %}</div>{% endif %}
{% for table in benchmarks.tables %}<h3>{{ table.name }}{% if table.unit %} ({{ table.unit }}){% endif %}, {{ table.direction }} is better; compared with
{{ table.baseline }}</h3>
{% call wide(table.name) %}<table><tr><th>configuration</th><th></th>{% for count in table.nodes %}<th>{{ count }}</th>{% endfor %}</tr>
{% for config, part in table.configs.items() %}<tr><th>{{ config }}</th><td>value</td>
{% for cell in part.cells %}<td class="n">{{ '%.6g'|format(cell.value) if cell else '' }}</td>{% endfor %}</tr>
{% if config != table.baseline %}<tr><th></th><td>delta %{% if part.gauge %}, gauge {{ '%.2f'|format(part.gauge) }}{% endif %}</td>
{% for cell in part.cells %}{% set stand = (cell.against_gauge or '') if cell else '' %}
<td class="n {{ 'fail' if stand == 'over for certain' else ('warn' if stand.startswith('over') else '') }}">
{{ '%.2f'|format(cell.delta) if cell and cell.delta is defined else '' }}{{ ' over' if stand.startswith('over') }}</td>{% endfor %}</tr>{% endif %}
<tr><th></th><td>efficiency %</td>{% for cell in part.cells %}<td class="n">{{ '%.1f'|format(cell.efficiency) if cell else '' }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endcall %}
<div class="charts">{% for words_, svg in table.charts %}<figure><figcaption>{{ words_ }}</figcaption>{{ svg|safe }}</figure>{% endfor %}</div>
{% endfor %}
{% if data.benchmark.claims %}{% call wide('Claims') %}<table><tr><th>claim</th><th>verdict</th><th>why</th></tr>
{% for claim in data.benchmark.claims %}<tr><td>{{ claim.id }}</td><td><b>{{ claim.verdict }}</b></td><td>{{ claim.text }}</td></tr>{% endfor %}
</table>{% endcall %}{% endif %}
{% endif %}
{% if data.testbed %}
<h2 id="testbed">Testbed</h2>
{% call wide('Testbed') %}<table><tr><th></th>{% for column in data.testbed %}
<th>{{ column.name }}<br><span class="soft">{{ column.hosts }} machines</span></th>{% endfor %}</tr>
{% for key in testbed_keys %}<tr><th>{{ key }}</th>{% for column in data.testbed %}<td>
{% for entry in column.properties.get(key, []) %}{{ entry.value }}{% if column.properties[key]|length > 1 %}
 <span class="soft">({{ entry.hosts }})</span><br>{% endif %}
{% else %}<span class="soft">not read</span>{% endfor %}</td>{% endfor %}</tr>
{% endfor %}</table>{% endcall %}
{% endif %}
<h2 id="fleet">Fleet</h2>
{% for kind, name in (('esxi', 'ESXi hosts'), ('guest', machines|capitalize)) %}{% set table = data.fleet.get(kind) %}{% if table %}
{% set drifted = table.odd|length %}
<p>{{ name }}: {% if drifted %}<span class="warn">! {{ drifted }} of {{ rows[kind]|length }} differ from the others</span>, marked with &ne;.
{% else %}all {{ rows[kind]|length }} alike in {{ table.columns|join(', ') or 'all that was read' }}.{% endif %}</p>
{% call wide(name) %}<table><tr><th>host</th>{% for column in columns[kind] %}{% if rows[kind]|selectattr(column)|list %}<th>{{ column }}</th>{% endif %}
{% endfor %}</tr>
{% for row in rows[kind] %}{% set odd = table.odd.get(row.host, []) %}<tr><td>{{ row.host }}</td>
{% for column in columns[kind] %}{% if rows[kind]|selectattr(column)|list %}<td{% if column in odd %} class="odd"{% endif %}>
{{ '&ne; '|safe if column in odd }}{{ row[column] }}</td>{% endif %}{% endfor %}</tr>
{% endfor %}</table>{% endcall %}
{% endif %}{% endfor %}
<h2 id="changes">What was changed</h2>
{% if data.changes %}
{% call wide('Changes by stage') %}<table><tr><th>stage</th><th>hosts</th><th>steps</th></tr>{% for stage, entry in data.stages.items() %}
<tr><td>{{ stage }}</td><td class="n">{{ entry.hosts|length }}</td><td class="n">{{ entry.steps }}</td></tr>{% endfor %}</table>{% endcall %}
{% for host, steps in data.changes.items() %}
<details><summary>{{ host }}: {{ steps|length }} steps{% if data.reboots.get(host) %}, {{ data.reboots[host]|length }} reboots{% endif %}</summary>
{% call wide('Changes of ' ~ host) %}<table><tr><th>stage</th><th>thing</th><th>setting</th><th>before</th><th>after</th></tr>
{% for step in steps %}<tr><td>{{ step.stage }}</td><td>{{ step.thing }}</td><td>{{ step.name }}</td><td>{{ step.before }}</td><td>{{ step.after }}</td></tr>
{% endfor %}</table>{% endcall %}</details>
{% endfor %}
{% else %}<p>Nothing: everything was as wanted.</p>{% endif %}
<h2 id="reboots">Reboots and why</h2>
{% if data.reboots %}{% call wide('Reboots') %}<table><tr><th>host</th><th>reboot</th><th>reasons</th></tr>
{% for host, batches in data.reboots.items() %}{% for reasons in batches %}<tr><td>{{ host }}</td><td>{{ loop.index }}</td>
<td>{{ reasons|join('; ') }}</td></tr>{% endfor %}{% endfor %}</table>{% endcall %}
{% else %}<p>None.</p>{% endif %}
<h2 id="again">How to reproduce</h2>
{% if data.about %}<pre>{{ data.about.command }}</pre>
<table><tr><th>directory</th><td><code>{{ data.about.directory }}</code></td></tr>
<tr><th>inventory</th><td>{% for name in data.about.inventory %}<code>{{ name }}</code> {% endfor %}<br>SHA-256 of what it holds:
<code>{{ data.about.inventory_sha256 or 'not a file' }}</code></td></tr>
<tr><th>collection</th><td>vhpc.rdma {{ data.about.collection }}</td></tr><tr><th>ansible-core</th><td>{{ data.about.ansible }}</td></tr>
<tr><th>Python</th><td>{{ data.about.python }}</td></tr></table>
<p class="soft small">Values that may be secret are shown as ***.</p>{% else %}<p>How the run was started is not known.</p>{% endif %}
{% if notice %}<div class="banner">source: {{ data.source }}</div>{% endif %}
"""


def comparison(data: dict) -> str:
    """The page of two compared reports; data: of compare.compare()."""
    return page.render(COMPARISON, "Before and after", data=data, fabrics=report.FABRICS, about=report.test_about, shown=SHOWN,
                       notice=NOTICES.get(data["after"]["source"]) or NOTICES.get(data["before"]["source"]) or "", first=FIRST)


COMPARISON = """
{% macro number(value) %}{{ '%.5g'|format(value) if value is not none else 'none' }}{% endmacro %}
{% macro figures(rows, label) %}{% if rows %}{% call wide(label) %}<table><tr><th>fabric</th><th>test</th><th>what</th><th>before</th><th>after</th>
<th>change</th>
<th>room for noise</th><th>verdict before</th><th>after</th></tr>
{% for row in rows[:shown] %}<tr><td>{{ fabrics.get(row.fabric, row.fabric) }}</td><td>{{ about(row.test)[0] if row.fabric else row.test }}</td>
<td>{{ row.what }}</td>
<td class="n">{{ number(row.before) }}</td><td class="n">{{ number(row.after) }} {{ row.unit }}</td>
<td class="nowrap">{% if row.worse_percent is not none %}{{ 'within noise: ' if row.change == 'same' }}
{{ '%.2f'|format(row.worse_percent|abs) }} % {{ 'worse' if row.worse_percent > 0 else 'better' }}
{% else %}{{ row.change }}{% endif %}</td>
<td class="n">{% if row.noise_percent is not none %}&plusmn; {{ '%.2f'|format(row.noise_percent) }} %{% endif %}</td>
<td>{{ mark(row.before_status) if row.before_status }}</td><td>{{ mark(row.after_status) if row.after_status }}</td></tr>
{% endfor %}</table>{% endcall %}{% if rows|length > shown %}<p>And {{ rows|length - shown }} more in comparison.json.</p>{% endif %}
{% else %}<p>None.</p>{% endif %}{% endmacro %}
<h1>Before and after</h1>
<div class="soft small">before: {{ data.before.title }}, {{ data.before.made }}, {{ data.before.hosts }} hosts &middot;
after: {{ data.after.title }}, {{ data.after.made }}, {{ data.after.hosts }} hosts</div>
{% if notice %}<div class="banner" role="note">{{ notice }}</div>{% endif %}
<div class="verdict {{ data.verdict.status }}"><b>{{ signs[data.verdict.status] }}</b>{{ data.verdict.text }}</div>
<h2>New failures</h2>
{% if data.new_failures %}{% call wide('New failures of hosts') %}<table><tr><th>host</th><th>stage</th><th>what</th></tr>
{% for row in data.new_failures %}<tr><td>{{ row.host }}</td><td>{{ row.stage }}</td><td>{{ row.msg }}</td></tr>{% endfor %}</table>{% endcall %}{% endif %}
{% if data.newly_failed or not data.new_failures %}{{ figures(data.newly_failed, 'New failures') }}{% endif %}
{% if data.still_failing %}<p class="warn">Failed before and after: {{ data.still_failing|join(', ') }}.</p>{% endif %}
<h2>Worse</h2>{{ figures(data.worse, 'Worse') }}
<h2>Better</h2>{{ figures(data.better, 'Better') }}
<h2>No longer failed</h2>
{% if data.fixed %}<p>{{ data.fixed|join(', ') }}</p>{% endif %}
{% if data.no_longer_failed or not data.fixed %}{{ figures(data.no_longer_failed, 'No longer failed') }}{% endif %}
<h2>The fleet as a whole</h2>{{ figures(data.fleet, 'Fleet') }}
<h2>What else changed</h2>
{% if data.versions %}{% call wide('Versions') %}<table><tr><th>what</th><th>before</th><th>after</th><th>hosts</th></tr>
{% for row in data.versions %}<tr><td>{{ row.what }}</td><td>{{ row.before }}</td><td>{{ row.after }}</td><td>{{ row.hosts|join(', ') }}</td></tr>{% endfor %}
</table>{% endcall %}{% else %}<p>No version that both reports tell.</p>{% endif %}
{% if data.hosts_gone %}<p>Only before: {{ data.hosts_gone|join(', ') }}.</p>{% endif %}{% if data.hosts_new %}
<p>Only after: {{ data.hosts_new|join(', ') }}.</p>{% endif %}
<p class="soft small">A figure counts as changed when it moved by more than three standard deviations of what it scatters by (of its repeats by their
median absolute
deviation; where there are none, of all pairs of its fabric and test), and by more than 1 %.</p>
"""
