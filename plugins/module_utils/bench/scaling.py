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
OVER, OVER_OPEN, WITHIN, WITHIN_OPEN = "over for certain", "over as printed, undecided by rounding", "within for certain", "within as printed, undecided by rounding"


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


def delta_interval(base, base_resolution, value, resolution, direction):
    (base_low, base_high), (low, high) = interval(base, base_resolution), interval(value, resolution)
    ends = [delta(one, two, direction) for one in (base_low, base_high) for two in (low, high)]
    return [min(ends), max(ends)]


def efficiency_interval(first, first_resolution, nodes, value, resolution, direction, first_nodes=1):
    if nodes == first_nodes:
        return [100.0, 100.0]
    ends = [efficiency(one, nodes, two, direction, first_nodes) for one in interval(first, first_resolution) for two in interval(value, resolution)]
    return [min(ends), max(ends)]


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

    table: nodes (list), rows (configuration -> values, None where there is none), sense or direction, and resolution where it
    is known (0 for raw values). gauge is the fair one of the direction; gauge_paper is the paper's, which is the one of rates
    (1 - 44/48 = 8.33 %, printed as 8.3) for figures of both directions.
    """
    direction = table.get("direction") or table.get("sense")
    rows, nodes = table["rows"], table["nodes"]
    _known(direction)
    for name, row in rows.items():
        if len(row) != len(nodes):
            raise RdmaError("read the figures of %s" % name, why="%d values for %d node counts" % (len(row), len(nodes)),
                            hint="give one value for each node count, null where there is none", code="TABLE")
    base_name = baseline_of(rows, baseline or table.get("baseline"))
    fixed = table.get("resolution")
    units = resolutions(rows) if fixed is None else dict((name, [fixed] * len(nodes)) for name in rows)
    base, base_units = rows[base_name], units[base_name]
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
                        efficiency_interval=efficiency_interval(row[start], units[name][start], nodes[place], value, units[name][place], direction,
                                                                nodes[start]))
            if name != base_name and base[place]:
                cell["delta"] = delta(base[place], value, direction)
                cell["delta_other"] = delta_other(base[place], value, direction)
                cell["delta_interval"] = delta_interval(base[place], base_units[place], value, units[name][place], direction)
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
