# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deltas and strong scaling by the paper's formulas, with what rounding leaves open (pure).

Everything is computed on unrounded values. Printed values stand for an interval of half a unit of their last digit on each
side; what the interval leaves open is said to be open and not decided.
"""

import re
from decimal import Decimal

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

LOWER, HIGHER = "lower", "higher"
FORMULAS = {
    LOWER: dict(delta="(T - T_base) / T_base", efficiency="T_1 / (n * T_n)", gauge="P / p - 1"),
    HIGHER: dict(delta="(R_base - R) / R_base", efficiency="R_n / (n * R_1)", gauge="1 - p / P"),
}
OVER, OVER_OPEN = "over for certain", "over as printed, undecided by rounding"
WITHIN, WITHIN_OPEN = "within for certain", "within as printed, undecided by rounding"


def _known(direction):
    if direction not in FORMULAS:
        raise RdmaError("compare figures", why="nobody said whether lower or higher is better (%r)" % (direction,), hint="give direction: lower or higher",
                        code="DIRECTION")


def delta(base, value, direction):
    """By how many percent a value is worse than the base; negative where it is better."""
    _known(direction)
    if not base:
        return None
    return 100.0 * (value - base) / base if direction == LOWER else 100.0 * (base - value) / base


def delta_other(base, value, direction):
    """The other choice, divided by the new value: shown to tell which formula somebody used."""
    _known(direction)
    if not value:
        return None
    return 100.0 * (value - base) / value if direction == LOWER else 100.0 * (base - value) / value


def efficiency(first, nodes, value, direction, first_nodes=1):
    """Percent of ideal strong scaling against the configuration's own run on the fewest nodes."""
    _known(direction)
    times = float(nodes) / first_nodes
    if not first or not value:
        return None
    return 100.0 * first / (times * value) if direction == LOWER else 100.0 * value / (times * first)


def gauge(processes, base_processes, direction):
    """What fewer processes cost by themselves, in percent: the delta that is no loss of the platform."""
    _known(direction)
    if not processes or not base_processes:
        return None
    return 100.0 * (float(base_processes) / processes - 1) if direction == LOWER else 100.0 * (1 - float(processes) / base_processes)


# ---- rounding ----------------------------------------------------------------------------------------------------------

def digits(value):
    """How many digits stand behind the point, as far as the number itself tells: a lost trailing zero is not seen."""
    exponent = Decimal(repr(value) if isinstance(value, float) else str(value)).normalize().as_tuple().exponent
    return max(0, -exponent)


def resolutions(rows):
    """The unit of the last digit of every value of a table, from the digits of the whole table.

    A table is printed with one number of digits, and trailing zeros get lost (2.3 for 2.30): the number of digits that most
    values have counts, and a value with more digits than that has its own.
    """
    counts = {}
    for row in rows.values():
        for value in row:
            if value is not None:
                counts[digits(value)] = counts.get(digits(value), 0) + 1
    usual = max(sorted(counts), key=lambda number: counts[number]) if counts else 0
    return dict((name, [None if value is None else 10.0 ** -max(usual, digits(value)) for value in row]) for name, row in rows.items())


def interval(value, resolution):
    return value - resolution / 2.0, value + resolution / 2.0


def delta_interval(base_ends, ends, direction):
    """From the ends of both values."""
    found = [delta(one, two, direction) for one in base_ends for two in ends]
    return [min(found), max(found)]


def efficiency_interval(first_ends, nodes, ends, direction, first_nodes=1):
    if nodes == first_nodes:
        return [100.0, 100.0]
    found = [efficiency(one, nodes, two, direction, first_nodes) for one in first_ends for two in ends]
    return [min(found), max(found)]


def ends_of(table):
    """Between what each value of a table lies: the range of its repeats where the table has ranges, else what rounding left."""
    fixed, ranges, out = table.get("resolution"), table.get("ranges") or {}, {}
    units = resolutions(table["rows"]) if fixed is None else {}
    for name, row in table["rows"].items():
        given = ranges.get(name) or [None] * len(row)
        out[name] = [None if value is None else tuple(given[place]) if given[place] else interval(value, units[name][place] if units else fixed)
                     for place, value in enumerate(row)]
    return out


def merge(one, other):
    """Two tables of the same figure as one: the rows of both over the node counts of both."""
    if (one.get("sense") or one.get("direction")) != (other.get("sense") or other.get("direction")):
        raise RdmaError("compare two tables", why="lower is better in one of them, higher in the other", code="TABLE")
    nodes = sorted(set(one["nodes"]) | set(other["nodes"]))
    ends = [ends_of(table) for table in (one, other)]
    out = dict(one, nodes=nodes, rows={}, ranges={}, resolution=0)
    for table, spans in zip((one, other), ends):
        for name, row in table["rows"].items():
            values = dict(zip(table["nodes"], row))
            out["rows"][name] = [values.get(count) for count in nodes]
            limits = dict(zip(table["nodes"], spans[name]))
            out["ranges"][name] = [list(limits[count]) if limits.get(count) else None for count in nodes]
    return out


def against(value, ends, limit):
    """A value with its interval against a limit that it must not pass."""
    limit += 1e-9
    if value > limit:
        return OVER if ends[0] > limit else OVER_OPEN
    return WITHIN if ends[1] <= limit else WITHIN_OPEN


# ---- whole tables ------------------------------------------------------------------------------------------------------

def processes_of(name, configs=None):
    """Processes per node of a configuration: given, or from a name like BM.48.IB or VM.44.144.LatSens.IB.Passthru."""
    given = (configs or {}).get(name) or {}
    if given.get("processes"):
        return int(given["processes"])
    match = re.match(r"^[A-Za-z]+\.(\d+)(?:\.|$)", name)
    return int(match.group(1)) if match else None


def baseline_of(rows, given=None):
    """The configuration that the others are compared with: the named one, or bare metal with the most processes, or the first."""
    if given:
        if given not in rows:
            raise RdmaError("compare with %s" % given, why="the table has %s" % ", ".join(sorted(rows)), hint="name one of them", code="BASELINE")
        return given
    metal = [name for name in rows if name.upper().startswith("BM.")]
    return max(metal, key=lambda name: processes_of(name) or 0) if metal else next(iter(rows))


def analyse(table, configs=None, baseline=None):
    """All that follows from a table of figures: per configuration deltas, efficiencies, their intervals, and the gauge.

    table: nodes (list), rows (configuration -> values, None where there is none), sense or direction, resolution where it is known
    (0 for raw values), and ranges (configuration -> pairs, smallest and largest of the repeats) where there are repeats. gauge is the
    fair one of the direction; gauge_paper is the paper's, which is the one of rates (1 - 44/48 = 8.33 %, printed as 8.3) for figures of both directions.
    """
    direction = table.get("direction") or table.get("sense")
    rows, nodes = table["rows"], table["nodes"]
    _known(direction)
    for name, row in rows.items():
        if len(row) != len(nodes):
            raise RdmaError("read the figures of %s" % name, why="%d values for %d node counts" % (len(row), len(nodes)),
                            hint="give one value for each node count, null where there is none", code="TABLE")
    base_name = baseline_of(rows, baseline or table.get("baseline"))
    spans, base = ends_of(table), rows[base_name]
    out = dict(direction=direction, nodes=list(nodes), baseline=base_name, formulas=FORMULAS[direction], configs={})
    for name, row in rows.items():
        count, most = processes_of(name, configs), processes_of(base_name, configs)
        fair = gauge(count, most, direction) if name != base_name else None
        flat = gauge(count, most, HIGHER) if name != base_name else None
        part = out["configs"][name] = dict(processes=count, gauge=fair, gauge_paper=flat, cells=[])
        start = next((place for place, value in enumerate(row) if value), None)
        for place, value in enumerate(row):
            if value is None:
                part["cells"].append(None)
                continue
            cell = dict(nodes=nodes[place], value=value,
                        efficiency=efficiency(row[start], nodes[place], value, direction, nodes[start]),
                        efficiency_interval=efficiency_interval(spans[name][start], nodes[place], spans[name][place], direction, nodes[start]))
            if name != base_name and base[place]:
                cell["delta"] = delta(base[place], value, direction)
                cell["delta_other"] = delta_other(base[place], value, direction)
                cell["delta_interval"] = delta_interval(spans[base_name][place], spans[name][place], direction)
                if fair is not None:
                    cell["against_gauge"] = against(cell["delta"], cell["delta_interval"], fair)
                    cell["against_paper_gauge"] = against(cell["delta"], cell["delta_interval"], flat)
            part["cells"].append(cell)
    return out


def cell(analysis, config, nodes):
    """The cell of a configuration at a node count; None where the table has none."""
    part = analysis["configs"].get(config)
    if part is None or nodes not in analysis["nodes"]:
        return None
    return part["cells"][analysis["nodes"].index(nodes)]
