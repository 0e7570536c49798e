# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts as SVG that stands in an HTML page. matplotlib is optional: without it there are no charts, and pages keep their tables. Pure: data in, text out."""

from __future__ import annotations

import importlib
import io
import math
import re
from html import escape

# Okabe and Ito's colours: told apart by colour-blind readers and in grey print; the shapes say it once more.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKS = ["o", "s", "^", "D", "v", "P"]
# Stand-ins for what the page's style sheet decides, so that a chart is readable on a light page, on a dark one and on paper.
INK, SOFT, LINE, BAND = "#010203", "#010204", "#010205", "#010206"
THEME = {INK: "var(--ink)", SOFT: "var(--soft)", LINE: "var(--line)", BAND: "var(--band)"}
# Up to so many hosts each cell of a matrix has its number in it; from there on it is a picture, and the worst are told in words.
NUMBERED = 24
MISSING = "Charts are left out: matplotlib 3.6 or newer is not installed where Ansible runs. The tables hold the same figures."


def available() -> bool:
    """Whether a matplotlib that knows what is asked of it is there and can be loaded: one whose libraries are missing is none."""
    try:
        importlib.import_module("matplotlib.figure")
        return getattr(importlib.import_module("matplotlib"), "__version_info__", (0,)) >= (3, 6)
    except (ImportError, OSError):
        return False


def size_text(size: float) -> str:
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return "%g%s" % (size / unit, name)
    return "%g" % size


def number_text(value: float, digits: int = 2) -> str:
    """With so many digits behind the point, or with two that count where these would leave nothing of it."""
    return "%.*f" % (digits, value) if not value or abs(value) >= 0.1 else "%.2g" % value


def _figure(width: float, height: float):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    axes.tick_params(colors=SOFT, labelsize=8.5, length=3)
    for name in ("top", "right"):
        axes.spines[name].set_visible(False)
    for name in ("left", "bottom"):
        axes.spines[name].set_color(SOFT)
    axes.xaxis.label.set_color(SOFT)
    axes.yaxis.label.set_color(SOFT)
    return figure, axes


def _svg(figure, name: str, title: str, description: str) -> str:
    """The figure as an element of a page: names of its own, the page's colours, a title and a description for those who do not see it."""
    import matplotlib

    out = io.StringIO()
    # Text stays text (small, searchable, read aloud), and the same data give the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "vhpc.rdma", "path.simplify": True}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg"):], flags=re.S)
    text = re.sub(r'\s*xmlns(?::xlink)?="[^"]*"', "", text, count=2).replace("xlink:href", "href")
    text = re.sub(r'\bid="([^"]+)"', r'id="%s-\1"' % name, text)
    text = re.sub(r'url\(#([^)]+)\)', r'url(#%s-\1)' % name, text)
    text = re.sub(r'href="#([^"]+)"', r'href="#%s-\1"' % name, text)
    for colour, variable in THEME.items():
        text = text.replace(colour, variable)
    view = re.search(r'viewBox="[^"]*"', text).group(0)
    head = '<svg %s role="img" aria-labelledby="%s-title %s-desc"><title id="%s-title">%s</title><desc id="%s-desc">%s</desc>' % (
        view, name, name, name, escape(title), name, escape(description))
    return re.sub(r"\n\s*", "\n", head + text[text.index(">") + 1:].strip())


def _legend(axes, columns: int = 1) -> None:
    legend = axes.legend(fontsize=8.5, frameon=False, ncols=columns)
    for text in legend.get_texts():
        text.set_color(INK)


def _errors(one: dict, middle: list[float]) -> list[list[float]]:
    """matplotlib wants the distances below and above."""
    return [[max(0.0, value - low) for value, low in zip(middle, one["low"])], [max(0.0, high - value) for value, high in zip(middle, one["high"])]]


def sizes(name: str, title: str, series: list[dict], unit: str, reference: dict | None = None, logarithmic: bool = False) -> str:
    """Curves over the message size, on an axis of powers of two. series: name, sizes, values, low and high; reference: name, sizes and values."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure, axes = _figure(6.2, 3.5)
    if reference:
        axes.plot(reference["sizes"], reference["values"], color=SOFT, linestyle=(0, (5, 3)), linewidth=1.4, label=reference["name"], zorder=2)
    for number, one in enumerate(series):
        axes.errorbar(one["sizes"], one["values"], yerr=_errors(one, one["values"]), color=COLOURS[number % 6], marker=MARKS[number % 6], markersize=4,
                      linewidth=1.6, elinewidth=1, capsize=2.5, label=one["name"], zorder=3)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, dummy: size_text(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if logarithmic:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, dummy: "%g" % value))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.grid(True, color=LINE, linewidth=0.8)
    axes.set_xlabel("message size in bytes (log2)", fontsize=8.5)
    axes.set_ylabel(unit + (" (log2)" if logarithmic else ""), fontsize=8.5)
    _legend(axes)
    said = ["%s: %.4g %s at %s, %.4g %s at %s" % (one["name"], one["values"][0], unit, size_text(one["sizes"][0]), one["values"][-1], unit,
                                                  size_text(one["sizes"][-1])) for one in series if one["values"]]
    return _svg(figure, name, title, "; ".join(said) + ". Error bars reach from the lowest to the highest value.")


def nodes(name: str, title: str, series: list[dict], counts: list[int], unit: str, band: dict | None = None, line: tuple | None = None) -> str:
    """Values over numbers of nodes. series: name, values [(value, low, high) or None], look (number of colour and mark); band: name, low and high per
    count, the room that the gauge gives; line: (height, name) across."""
    figure, axes = _figure(6.2, 3.2)
    if band:
        axes.fill_between(range(len(counts)), band["low"], band["high"], color=BAND, linewidth=0, label=band["name"], zorder=1)
    if line:
        axes.axhline(line[0], color=SOFT, linestyle=(0, (5, 3)), linewidth=1.2, label=line[1], zorder=2)
    for number, one in enumerate(series):
        known = [(place, triple) for place, triple in enumerate(one["values"]) if triple]
        if not known:
            continue
        shift = (number - (len(series) - 1) / 2) * min(0.08, 0.5 / len(series))
        values = [triple[0] for dummy, triple in known]
        ends = {"low": [triple[1] for dummy, triple in known], "high": [triple[2] for dummy, triple in known]}
        look = one.get("look", number) % 6
        axes.errorbar([place + shift for place, dummy in known], values, yerr=_errors(ends, values), color=COLOURS[look], marker=MARKS[look], markersize=5,
                      linewidth=1.2, elinewidth=1.2, capsize=3, label=one["name"], zorder=3)
    axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    axes.set_xlim(-0.5, len(counts) - 0.5)
    axes.margins(y=0.15)
    axes.grid(True, axis="y", color=LINE, linewidth=0.8)
    axes.set_xlabel("nodes", fontsize=8.5)
    axes.set_ylabel(unit, fontsize=8.5)
    _legend(axes)
    said = ["%s: %s" % (one["name"], ", ".join("%.4g at %d" % (triple[0], counts[place]) for place, triple in enumerate(one["values"]) if triple))
            for one in series]
    return _svg(figure, name, title, "; ".join(said) + " (%s over nodes)." % unit)


def matrix_width(count: int) -> float:
    """In inches: a number has to fit into a cell."""
    return max(4.0, 0.44 * count + 2.2) if count <= NUMBERED else 7.4


def matrix(name: str, title: str, hosts: list[str], values: list[list], states: list[list[str]], unit: str, lower_is_better: bool, limit: float | None) -> str:
    """A square of pairs as a heat map in cividis, which is even for colour-blind readers: the darker, the worse. Failed cells are framed and marked."""
    import numpy
    from matplotlib import colormaps, colors

    count = len(hosts)
    table = numpy.array([[numpy.nan if value is None else value for value in row] for row in values], dtype=float)
    known = table[~numpy.isnan(table)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    # A fleet of equals is to look like one: colours span at least what lies between a good value and the limit, or a tenth.
    best = low if lower_is_better else high
    room = max(abs(best - limit) if limit else 0.0, 0.1 * abs(best or 1.0))
    low, high = (low, max(high, low + room)) if lower_is_better else (min(low, high - room), high)
    scale = colormaps["cividis_r" if lower_is_better else "cividis"].with_extremes(bad="#8a8f94")
    figure, axes = _figure(matrix_width(count), matrix_width(count) - 1.0)
    norm = colors.Normalize(low, high)
    shown = numpy.ma.masked_invalid(table)
    empty = numpy.array([[not state for state in row] for row in states])
    # Nothing was to be measured on the diagonal: no colour. No result where there was to be one: grey.
    pixels = scale(norm(shown))
    pixels[empty] = (0, 0, 0, 0)
    axes.imshow(pixels, interpolation="nearest", aspect="equal")
    if count <= NUMBERED:
        _numbers(axes, table, states, scale, norm, 1 if not lower_is_better else 2)
        axes.set_xticks(range(count), hosts, rotation=90, fontsize=8)
        axes.set_yticks(range(count), hosts, fontsize=8)
    else:
        step = -(-count // 16)
        axes.set_xticks(range(0, count, step), hosts[::step], rotation=90, fontsize=8)
        axes.set_yticks(range(0, count, step), hosts[::step], fontsize=8)
    axes.xaxis.set_ticks_position("top")
    for spine in axes.spines.values():
        spine.set_visible(False)
    from matplotlib.cm import ScalarMappable

    legend = figure.colorbar(ScalarMappable(norm, scale), ax=axes, shrink=0.7, aspect=24, pad=0.02)
    legend.ax.tick_params(colors=SOFT, labelsize=8)
    legend.outline.set_visible(False)
    legend.set_label("%s, darker is worse" % unit, color=SOFT, fontsize=8.5)
    bad = sum(state == "fail" for row in states for state in row) // 2
    return _svg(figure, name, title, "Pairs of %d hosts: %s from %.4g to %.4g; %d failed pairs%s." % (
        count, unit, float(known.min()) if known.size else 0.0, float(known.max()) if known.size else 0.0, bad,
        ", framed and marked with a cross" if bad and count <= NUMBERED else ""))


def _numbers(axes, table, states, scale, norm, digits: int) -> None:
    from matplotlib.patches import Rectangle

    for row, line in enumerate(states):
        for column, state in enumerate(line):
            if not state:
                continue
            value = table[row][column]
            missing = math.isnan(value)
            red, green, blue, dummy = scale(norm(value)) if not missing else (0.55, 0.56, 0.58, 1)
            ink = "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "#000000"
            text = "no\nresult" if missing else number_text(value, digits)
            axes.text(column, row, ("\u00d7" if state == "fail" and not missing else "!" if state == "warn" else "") + text, ha="center", va="center",
                      fontsize=5.5 if missing else 6.8, color=ink, fontweight="bold" if state == "fail" else "normal")
            if state == "fail":
                axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, fill=False, edgecolor="#d4351c", linewidth=1.8))


def scaling(table: dict, name: str, prefix: str) -> list[tuple[str, str]]:
    """(words, chart) of a table of scaling: the figures with the room that the gauge gives, deltas with the gauge, and efficiencies."""
    counts, base = table["nodes"], table["baseline"]
    if len(counts) < 2:
        return []
    configs, sign = table["configs"], 1 if table["direction"] == "lower" else -1
    figures, deltas, efficiencies = [], [], []
    gauges = {config: part["gauge"] for config, part in configs.items() if part.get("gauge")}
    for config, part in configs.items():
        cells = part["cells"]
        figures.append({"name": config, "values": [cell and (cell["value"], cell["value"], cell["value"]) for cell in cells]})
        efficiencies.append({"name": config, "values": [cell and (cell["efficiency"], *cell["efficiency_interval"]) for cell in cells]})
        if config != base:
            known = [(cell["delta"], *cell["delta_interval"]) if cell and cell.get("delta") is not None else None for cell in cells]
            # A configuration looks the same in every chart.
            deltas.append({"name": config, "look": len(efficiencies) - 1, "values": known})
    widest = max(gauges.values(), default=None)
    band = flat = None
    if widest:
        room = [cell["value"] * (1 + sign * widest / 100.0) if cell else float("nan") for cell in configs[base]["cells"]]
        label = "within the gauge of %.2f %%" % widest
        band = {"name": label, "low": [cell["value"] if cell else float("nan") for cell in configs[base]["cells"]], "high": room}
        flat = {"name": label, "low": [0.0] * len(counts), "high": [widest] * len(counts)}
    out = [("figures over nodes", nodes(prefix + "v", "%s over nodes" % name, figures, counts, table.get("unit") or "figure", band))]
    if any(value for one in deltas for value in one["values"]):
        out.append(("delta to %s" % base, nodes(prefix + "d", "%s: delta to %s" % (name, base), deltas, counts, "% worse", flat, (0.0, base))))
    out.append(("strong-scaling efficiency", nodes(prefix + "e", "%s: strong-scaling efficiency" % name, efficiencies, counts, "%", None, (100.0, "ideal"))))
    return out
