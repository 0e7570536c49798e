# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Claims against the figures they are drawn from (pure).

A claim is data: which table, which configuration, what is said. Its verdict is computed; where the printed digits leave room
for more than one answer, the verdict says that and does not choose.
"""

import math
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import scaling, stats
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

REPRODUCES, CONSISTENT, CONTRADICTED = "reproduces", "consistent within rounding", "contradicted"
OPEN, PRINTED_FALSE, NO_DATA = "cannot be decided from rounded input", "false as printed, possible by rounding", "cannot be checked"
VERDICTS = (REPRODUCES, CONSISTENT, OPEN, PRINTED_FALSE, CONTRADICTED, NO_DATA)
HOLDS = "holds"
WORSE, BETTER = "RoCE is worse for certain", "RoCE is better for certain"


def _round(value, places):
    """Half away from zero, as people round: 0.125 is 0.13."""
    scale = 10.0 ** places
    return math.copysign(math.floor(abs(value) * scale + 0.5 + 1e-9), value) / scale


def _claimed(claim):
    """(value, half a unit of its last digit, digits)."""
    places = scaling.digits(claim["claimed"])
    return float(claim["claimed"]), 0.5 * 10.0 ** -places, places


def _compare(computed, ends, claim):
    """Whether a computed value with its interval is the claimed one."""
    value, half, places = _claimed(claim)
    if abs(_round(computed, places) - value) < 1e-9:
        return REPRODUCES
    return CONSISTENT if ends[0] <= value + half and ends[1] >= value - half else CONTRADICTED


def _percent(value):
    return "%.2f %%" % value


def _deltas(part):
    return [cell for cell in part["cells"] if cell and "delta" in cell]


def judge_delta(claim, found):
    value, half, dummy = _claimed(claim)
    cell = scaling.cell(found, claim["config"], claim["nodes"])
    if cell is None or "delta" not in cell:
        return dict(verdict=NO_DATA, text="the table has no figures of %s and %s on %s nodes" % (claim["config"], claim["baseline"], claim["nodes"]))
    said = _compare(cell["delta"], cell["delta_interval"], claim)
    other = _compare(cell["delta_other"], [cell["delta_other"]] * 2, claim)
    out = dict(computed=cell["delta"], interval=cell["delta_interval"], value=said, verdict=said, other_formula=cell["delta_other"],
               other_formula_fits=other == REPRODUCES and said != REPRODUCES)
    text = "the figures make %s" % _percent(cell["delta"])
    if said != REPRODUCES:
        text += ", and %s to %s with their rounding" % (_percent(cell["delta_interval"][0]), _percent(cell["delta_interval"][1]))
    if said == CONSISTENT:
        text += ": the digits do not decide"
    if claim.get("maximum"):
        rest = [one for one in _deltas(found["configs"][claim["config"]]) if one["nodes"] != claim["nodes"]]
        largest = max(rest + [cell], key=lambda one: one["delta"])
        over = [one["nodes"] for one in rest if one["delta_interval"][0] > value + half]
        printed = [one["nodes"] for one in rest if one["delta"] > value + half and one["nodes"] not in over]
        loose = [one["nodes"] for one in rest if one["delta_interval"][1] > value + half and one["nodes"] not in over + printed]
        out.update(largest=dict(nodes=largest["nodes"], delta=largest["delta"]), over_at=over, false_as_printed_at=printed, open_at=loose,
                   maximum=CONTRADICTED if over else PRINTED_FALSE if printed else HOLDS, maximum_certain=bool(over) or not loose + printed)
        if over or printed:
            # The weaker of the two statements counts: the value itself, and that it is the largest.
            out["verdict"] = CONTRADICTED if over or said == CONTRADICTED else PRINTED_FALSE
        if over:
            text += "; for certain more than claimed on %s nodes (the largest: %s on %d)" % (
                ", ".join(map(str, over)), _percent(largest["delta"]), largest["nodes"])
        if printed:
            text += "; as printed more than claimed on %s nodes, though the digits leave room" % ", ".join(map(str, printed))
        elif loose and not over:
            text += "; as printed no node count has more, but the digits leave room on %s nodes" % ", ".join(map(str, loose))
    return dict(out, text=text)


def judge_within(claim, found):
    value, half, dummy = _claimed(claim)
    cells = [cell for cell in _deltas(found["configs"].get(claim["config"], dict(cells=[]))) if cell["nodes"] not in (claim.get("except") or [])]
    if not cells:
        return dict(verdict=NO_DATA, text="the table has no figures")
    marks = dict((cell["nodes"], scaling.against(cell["delta"], cell["delta_interval"], value + half)) for cell in cells)
    sure, maybe = ([nodes for nodes in sorted(marks) if marks[nodes] == mark] for mark in (scaling.OVER, scaling.OVER_OPEN))
    loose = [nodes for nodes in sorted(marks) if marks[nodes] == scaling.WITHIN_OPEN]
    worst = max(cells, key=lambda cell: cell["delta"])
    verdict = CONTRADICTED if sure else PRINTED_FALSE if maybe else CONSISTENT if loose else REPRODUCES
    text = "the largest is %s on %d nodes" % (_percent(worst["delta"]), worst["nodes"])
    for nodes, words in ((sure, "over for certain"), (maybe, "over as printed, the digits do not decide"),
                         (loose, "within as printed, the digits do not decide")):
        if nodes:
            text += "; %s on %s nodes" % (words, ", ".join(map(str, nodes)))
    return dict(verdict=verdict, computed=worst["delta"], interval=worst["delta_interval"], over_at=sure, false_as_printed_at=maybe, open_at=loose, text=text)


def judge_better(claim, found):
    cells = _deltas(found["configs"].get(claim["config"], dict(cells=[])))
    if not cells:
        return dict(verdict=NO_DATA, text="the table has no figures")
    edge = 1e-9
    worse = [cell["nodes"] for cell in cells if cell["delta_interval"][0] > -edge and cell["delta"] > edge]
    printed = [cell["nodes"] for cell in cells if cell["delta"] > edge and cell["nodes"] not in worse]
    ties = [cell["nodes"] for cell in cells if abs(cell["delta"]) <= edge]
    loose = [cell["nodes"] for cell in cells if cell["delta"] < -edge and cell["delta_interval"][1] > edge]
    verdict = CONTRADICTED if worse else PRINTED_FALSE if printed else OPEN if ties else CONSISTENT if loose else REPRODUCES
    text = "better as printed on %s nodes" % (", ".join(str(cell["nodes"]) for cell in cells if cell["delta"] < -edge) or "no number of")
    for nodes, words in ((worse, "worse for certain"), (printed, "worse as printed"), (ties, "equal as printed, so the digits do not decide"),
                         (loose, "the digits do not decide")):
        if nodes:
            text += "; %s on %s" % (words, ", ".join(map(str, nodes)))
    return dict(verdict=verdict, worse_at=worse, false_as_printed_at=printed, open_at=sorted(ties + loose), text=text)


def judge_scales(claim, found):
    base = scaling.cell(found, claim["baseline"], claim["nodes"])
    cells = [(name, scaling.cell(found, name, claim["nodes"])) for name in claim["configs"]]
    if base is None or any(cell is None for dummy, cell in cells):
        return dict(verdict=NO_DATA, text="the table has no figures on %s nodes" % claim["nodes"])
    text = "on %d nodes %s has %.1f %%, %s" % (claim["nodes"], claim["baseline"], base["efficiency"],
                                               ", ".join("%s %.1f %%" % (name, cell["efficiency"]) for name, cell in cells))
    less = [name for name, cell in cells if cell["efficiency"] <= base["efficiency"]]
    sure = [name for name, cell in cells if cell["efficiency_interval"][1] < base["efficiency_interval"][0]]
    certain = all(cell["efficiency_interval"][0] > base["efficiency_interval"][1] for dummy, cell in cells)
    verdict = CONTRADICTED if sure else PRINTED_FALSE if less else REPRODUCES
    return dict(verdict=verdict, certain=certain or bool(sure), text=text + ("" if certain or sure else "; with their rounding the two could be equal"))


def judge_curve(claim, curve):
    """statistic over the sizes from from_size to to_size against at_least (a limit) or claimed (a rounded value)."""
    if not curve:
        return dict(verdict=NO_DATA, text="there are no figures of %s" % claim["curve"])
    rows = [(size, value) for size, value in zip(curve["sizes"], curve["values"])
            if claim.get("from_size", 0) <= size <= claim.get("to_size", size)]
    if not rows:
        return dict(verdict=NO_DATA, text="there are no figures in this range of sizes")
    values = [value for dummy, value in rows]
    if claim["statistic"] == "every_size":
        less = [(size, value) for size, value in rows if value < claim["at_least"]]
        if not less:
            return dict(verdict=REPRODUCES, computed=min(values), text="the smallest is %g" % min(values))
        # 94.89 is 95 in two digits: that is rounding, 89.98 is not.
        hard = [(size, value) for size, value in less if _round(value, scaling.digits(claim["at_least"])) < claim["at_least"]]
        return dict(verdict=CONTRADICTED if hard else CONSISTENT, computed=min(values), below_at=[size for size, dummy in less],
                    text="below %g: %s" % (claim["at_least"], ", ".join("%g at %d bytes" % (value, size) for size, value in less)))
    computed = dict(mean=stats.mean, median=stats.median, peak=max, min=min)[claim["statistic"]](values)
    text = "the %s of %d sizes is %.2f" % (claim["statistic"], len(values), computed)
    if "at_least" in claim:
        return dict(verdict=REPRODUCES if computed >= claim["at_least"] else CONTRADICTED, computed=computed, text=text)
    return dict(verdict=_compare(computed, [computed, computed], claim), computed=computed, text=text)


JUDGES = {"delta": judge_delta, "within": judge_within, "better": judge_better, "scales": judge_scales}


def judge(claim, tables, curves=None, configs=None):
    """Verdict on one claim: the claim itself with verdict, text and what it was computed from."""
    kind = claim.get("kind", "delta")
    if kind == "curve":
        return dict(claim, kind=kind, **judge_curve(claim, (curves or {}).get(claim["curve"])))
    if kind not in JUDGES:
        raise RdmaError("judge the claim %s" % claim.get("id"), why="its kind %r is none of %s" % (kind, ", ".join(sorted(JUDGES) + ["curve"])), code="CLAIM")
    table = tables.get(claim.get("table"))
    if not table or not table.get("rows"):
        return dict(claim, kind=kind, verdict=NO_DATA, text="there is no table %s with figures" % claim.get("table"))
    if claim.get("baseline_table"):
        other = tables.get(claim["baseline_table"]) or {}
        if claim["baseline"] not in (other.get("rows") or {}):
            return dict(claim, kind=kind, verdict=NO_DATA, text="the table %s has no figures of %s" % (claim["baseline_table"], claim["baseline"]))
        # The two may have the same name, as VM.44 on one fabric and on the other.
        name = "%s of %s" % (claim["baseline"], claim["baseline_table"])
        table = scaling.merge(table, _renamed(other, claim["baseline"], name))
        return dict(claim, kind=kind, **JUDGES[kind](dict(claim, baseline=name), scaling.analyse(table, configs, name)))
    if claim["baseline"] not in table["rows"]:
        return dict(claim, kind=kind, verdict=NO_DATA, text="the table has no figures of %s" % claim["baseline"])
    return dict(claim, kind=kind, **JUDGES[kind](claim, scaling.analyse(table, configs, claim["baseline"])))


def _renamed(table, old, new):
    """A table of one row alone, under another name; the digits of the whole table say how it was rounded."""
    return dict(table, rows={new: table["rows"][old]}, ranges={new: [list(ends) if ends else None for ends in scaling.ends_of(table)[old]]})


def between_fabrics(tables):
    """RoCE against InfiniBand: the figures of the same application and configuration on both, where two tables have them.

    A configuration is the same when its name is, apart from the fabric in it (VM.44.IB and VM.44.RoCE).
    """
    out, groups = [], {}
    for name in sorted(tables):
        table = tables[name]
        fabric = str(table.get("fabric") or "").lower()
        if table.get("rows") and table.get("kind", "performance") == "performance" and fabric in ("ib", "roce"):
            groups.setdefault((table.get("app") or name, table.get("unit"), table.get("sense") or table.get("direction")), {})[fabric] = (name, table)
    for key in sorted(groups, key=str):
        if len(groups[key]) < 2:
            continue
        (ib_name, ib), (roce_name, roce) = groups[key]["ib"], groups[key]["roce"]
        spans = scaling.ends_of(ib), scaling.ends_of(roce)
        partners = dict((_without_fabric(config), config) for config in roce["rows"])
        for config in ib["rows"]:
            partner = partners.get(_without_fabric(config))
            if partner is None:
                continue
            row = dict(app=key[0], unit=key[1], direction=key[2], ib=config, roce=partner, ib_table=ib_name, roce_table=roce_name, cells=[])
            for place, nodes in enumerate(ib["nodes"]):
                where = roce["nodes"].index(nodes) if nodes in roce["nodes"] else None
                one, two = ib["rows"][config][place], None if where is None else roce["rows"][partner][where]
                if one and two:
                    ends = scaling.delta_interval(spans[0][config][place], spans[1][partner][where], key[2])
                    row["cells"].append(dict(nodes=nodes, ib=one, roce=two, delta=scaling.delta(one, two, key[2]), delta_interval=ends,
                                             verdict=WORSE if ends[0] > 1e-9 else BETTER if ends[1] < -1e-9 else OPEN))
            if row["cells"]:
                out.append(row)
    return out


def _without_fabric(config):
    return re.sub(r"(?i)(?<![a-z0-9])(?:ib|roce|infiniband)(?![a-z0-9])\.?", "", config).strip(".")


def efficiencies(tables, analyses):
    """Printed efficiency tables against the ones that the figures make: exact, off by rounding, contradicted."""
    out = dict(cells=0, exact=0, rounding=0, contradicted=0, where=[])
    for name in sorted(tables):
        table, found = tables[name], analyses.get(name.replace(".eff", ".perf"))
        if table.get("kind") != "efficiency" or not table.get("rows") or not found:
            continue
        for config, row in table["rows"].items():
            for nodes, printed in zip(table["nodes"], row):
                cell = scaling.cell(found, config, nodes)
                if cell is None or printed is None:
                    continue
                out["cells"] += 1
                ends = cell["efficiency_interval"]
                if abs(_round(cell["efficiency"], 0) - printed) < 1e-9:
                    out["exact"] += 1
                elif ends[0] <= printed + 0.5 and ends[1] >= printed - 0.5:
                    out["rounding"] += 1
                else:
                    out["contradicted"] += 1
                    out["where"].append(dict(table=name, config=config, nodes=nodes, printed=printed, computed=cell["efficiency"], interval=ends))
    return out


def over_the_gauge(analyses):
    """All cells over the flat gauge of the paper, and how they stand to the fair one of their direction."""
    out = []
    for name in sorted(analyses):
        for config, part in analyses[name]["configs"].items():
            for cell in part["cells"]:
                if cell and cell.get("against_paper_gauge") in (scaling.OVER, scaling.OVER_OPEN):
                    out.append(dict(table=name, config=config, nodes=cell["nodes"], delta=cell["delta"], interval=cell["delta_interval"],
                                    verdict=cell["against_paper_gauge"], fair_gauge=part["gauge"], fair_verdict=cell["against_gauge"]))
    return out


def study(data, claims, curves=None):
    """Everything about a set of tables: analyses, verdicts, cells over the gauge, efficiencies, and what cannot be analysed."""
    tables, configs = data.get("tables") or {}, data.get("configs") or {}
    analyses, absent = {}, []
    for name in sorted(tables):
        table = tables[name]
        if not table.get("rows"):
            absent.append(name)
        elif table.get("kind", "performance") == "performance":
            analyses[name] = scaling.analyse(dict(table, nodes=table.get("nodes") or data.get("nodes")), configs, table.get("baseline"))
    twice = sorted(set(claim["id"] for claim in claims if [one["id"] for one in claims].count(claim["id"]) > 1))
    if twice:
        raise RdmaError("judge the claims", why="the same id more than once: %s" % ", ".join(twice), code="CLAIM")
    judged = [judge(claim, tables, curves, configs) for claim in claims]
    return dict(tables=analyses, absent=absent, claims=judged, verdicts=dict((claim["id"], claim["verdict"]) for claim in judged),
                over_the_gauge=over_the_gauge(analyses), efficiencies=efficiencies(tables, analyses),
                fabrics=between_fabrics(dict((name, dict(tables[name], nodes=analyses[name]["nodes"])) for name in analyses)),
                counts=dict((word, sum(claim["verdict"] == word for claim in judged)) for word in VERDICTS))
