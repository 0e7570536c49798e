# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts over the measurements of all pairs (pure): bandwidth, latency, dips, outliers, and whom to blame.

A measurement ("item") is a dict: fabric (ib, roce), test (send_bw, send_lat), server, client, rows, error (dict or None).
Rows are lists in the order of COLUMNS; bandwidths in Gb/s, times in microseconds.
"""

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import schedule, stats

COLUMNS = {
    "bw": ["size", "peak_gbps", "average_gbps", "mpps"],
    "lat": ["size", "t_min_us", "t_max_us", "t_typical_us", "t_avg_us", "t_stdev_us", "p99_us", "p999_us"],
}
FABRIC_NAMES = {"ib": "InfiniBand", "roce": "RoCE"}
RANK = {"pass": 0, "warn": 1, "fail": 2}
# From this share of bad pairs on, the fault is not one node's.
FABRIC_SHARE = 0.8


def kind(test):
    """bw or lat: which table a test prints."""
    return "lat" if test.endswith("_lat") else "bw"


def _size(number):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit and number % unit == 0:
            return "%d %s" % (number // unit, name)
    return "%d bytes" % number


def _limit(limits, name, text, value):
    return dict(limit=text, limit_value=value, limit_from=limits[name]["origin"])


def judge_bandwidth(fabric, rows, rate, limits):
    """Verdict on one bandwidth table; rate: of the link, in Gb/s."""
    start, share = limits["bandwidth_from_size"]["value"], limits["bandwidth_percent"]["value"]
    wanted = limits["rate_%s_gbps" % fabric]
    link = wanted["value"] or rate
    large = [(row[0], row[2]) for row in rows if row[0] >= start and row[2] is not None]
    out = dict(metric="median of the sizes from %s" % _size(start), unit="Gb/s", value=None, peak=None, warnings=[], status="fail")
    out.update(_limit(limits, "bandwidth_percent", "at least %g %% of the link rate" % share, None))
    if not large:
        out["error"] = dict(cause="no-rows", text="the table has no size from %s" % _size(start), hint="measure all sizes (-a)")
        return out
    middle = stats.median(value for dummy, value in large)
    out.update(value=round(middle, 3), peak=max(row[1] or row[2] for row in rows if row[2] is not None))
    if not link:
        out["error"] = dict(cause="no-rate", text="neither port told its link rate", hint="give the limit rate_%s_gbps" % fabric)
        return out
    floor = link * share / 100.0
    source = "%s; the link rate: %s" % (limits["bandwidth_percent"]["origin"], wanted["origin"])
    out.update(limit="at least %g Gb/s (%g %% of the link rate of %g Gb/s)" % (floor, share, link), limit_value=floor, limit_from=source)
    out["status"] = "pass" if middle >= floor else "fail"
    for size, value in large:
        less = stats.below(value, middle)
        if less > limits["dip_percent"]["value"]:
            out["warnings"].append(dict(kind="dip", size=size, value=value, limit_from=limits["dip_percent"]["origin"],
                                        text="%g Gb/s at %s, %.1f %% below the median of %.2f Gb/s" % (value, _size(size), less, middle)))
    return out


def judge_latency(fabric, rows, limits):
    """Verdict on one latency table."""
    size, name = limits["latency_size"]["value"], "latency_%s_us" % fabric
    most, switch = limits[name]["value"], limits["switch_ns_%s" % fabric]["value"]
    out = dict(metric="t_typical at %s" % _size(size), unit="us", value=None, warnings=[], status="fail")
    out.update(_limit(limits, name, "at most %g us" % most, most))
    value = next((row[3] for row in rows if row[0] == size), None)
    if value is None:
        out["error"] = dict(cause="no-rows", text="the table has no row for %s" % _size(size), hint="measure all sizes (-a)")
        return out
    out.update(value=value, status="pass" if value <= most else "fail")
    if switch and value:
        out.update(switch_ns=switch, switch_percent=round(switch / (value * 10.0), 1), switch_from=limits["switch_ns_%s" % fabric]["origin"])
    return out


def judge(item, rate, limits):
    """Verdict on one measurement: status pass, warn or fail with its limit and the limit's origin."""
    fabric, test = item["fabric"], item["test"]
    head = dict(fabric=fabric, test=test, server=item["server"], client=item["client"], round=item.get("round"))
    if item.get("error"):
        name = "latency_%s_us" % fabric if kind(test) == "lat" else "bandwidth_percent"
        text = "at most %g us" % limits[name]["value"] if kind(test) == "lat" else "at least %g %% of the link rate" % limits[name]["value"]
        return dict(head, status="fail", value=None, unit="us" if kind(test) == "lat" else "Gb/s", warnings=[], error=dict(item["error"]),
                    **_limit(limits, name, text, None))
    rows = item.get("rows") or []
    out = judge_latency(fabric, rows, limits) if kind(test) == "lat" else judge_bandwidth(fabric, rows, rate, limits)
    return dict(head, **out)


def mark_outliers(verdicts, limits):
    """Add a warning where a pair is clearly worse than the median of its fabric's pairs; from four pairs on."""
    part = limits["outlier_percent"]["value"]
    for key in sorted(set((v["fabric"], v["test"]) for v in verdicts)):
        group = [v for v in verdicts if (v["fabric"], v["test"]) == key and v["value"] is not None]
        middle = stats.median(v["value"] for v in group)
        if len(group) < 4:
            continue
        for verdict in group:
            worse = stats.below(verdict["value"], middle) * (-1 if kind(key[1]) == "lat" else 1)
            # Latencies are small numbers with two digits: three times the share keeps rounding and one slow PCIe slot apart.
            if worse > part * (3 if kind(key[1]) == "lat" else 1):
                verdict["warnings"].append(dict(kind="outlier", value=verdict["value"], limit_from=limits["outlier_percent"]["origin"],
                                                text="%g %s is %.1f %% worse than the median of all pairs, %.2f"
                                                % (verdict["value"], verdict["unit"], worse, middle)))
    for verdict in verdicts:
        if verdict["status"] == "pass" and verdict["warnings"]:
            verdict["status"] = "warn"


def blame(bad, hosts):
    """Who is to blame for the bad pairs of one fabric.

    bad: set of frozensets of two names; hosts: all names. A node is bad with most of its partners, a link with one.
    Returns dicts kind (node, link, pair, fabric), names, bad, of, text.
    """
    hosts, left, out = sorted(hosts), set(bad), []
    total = len(hosts) * (len(hosts) - 1) // 2
    if not left:
        return []
    if len(hosts) == 2:
        return [dict(kind="pair", names=hosts, bad=1, of=1, text="%s and %s: with two hosts nobody can tell a node from the link; add a third" % tuple(hosts))]
    if len(hosts) > 2 and len(left) >= FABRIC_SHARE * total:
        return [dict(kind="fabric", names=hosts, bad=len(left), of=total,
                     text="%d of %d pairs are bad: look at what all share (switch, subnet manager, MTU, driver) before any node" % (len(left), total))]
    partners = dict((host, len(hosts) - 1) for host in hosts)
    while left:
        counts = dict((host, sum(host in pair for pair in left)) for host in partners)
        worst = max(sorted(partners), key=lambda host: counts[host] / float(max(partners[host], 1)))
        if counts[worst] < 2 or counts[worst] * 2 <= partners[worst]:
            break
        out.append(dict(kind="node", names=[worst], bad=counts[worst], of=partners[worst],
                        text="%s is bad with %d of its %d partners: look at this node (card, cable, passthrough, driver)"
                        % (worst, counts[worst], partners[worst])))
        left = set(pair for pair in left if worst not in pair)
        del partners[worst]
        for host in partners:
            partners[host] -= 1
    for pair in sorted(sorted(names) for names in left):
        out.append(dict(kind="link", names=pair, bad=1, of=1, text="%s and %s are bad only with each other: look at the path between them" % tuple(pair)))
    return out


def _cell(verdict):
    return None if verdict is None else dict((key, verdict.get(key)) for key in ("value", "status"))


def assess(items, hosts, rates, limits, fabrics, tests):
    """Everything about a run: verdicts, pairs, matrix, blame and summary.

    items: the measurements; hosts: who took part by the schedule; rates: host -> fabric -> link rate in Gb/s.
    A pair of the schedule without a measurement fails.
    """
    found = {}
    # Both ends may tell of a pair: a measurement counts more than a failure, the client's word more than the server's.
    for item in sorted(items, key=lambda one: (one.get("error") is None, one.get("by", "client") == "client")):
        found[item["fabric"], item["test"], frozenset((item["server"], item["client"]))] = item
    verdicts = []
    for number, server, client in schedule.pairs(hosts):
        for fabric, test in schedule.items(fabrics, tests):
            item = found.get((fabric, test, frozenset((server, client))))
            if item is None:
                item = dict(fabric=fabric, test=test, server=server, client=client, round=number,
                            error=dict(cause="missing", text="no result of this pair came back", hint="see the result of perftest on both guests"))
            known = [rates.get(name, {}).get(fabric) for name in (item["server"], item["client"])]
            verdicts.append(judge(item, min([rate for rate in known if rate] or [None], key=lambda rate: rate or 0), limits))
    mark_outliers(verdicts, limits)
    return dict(verdicts=verdicts, pairs=_pairs(verdicts, tests), matrix=_matrix(verdicts, hosts, fabrics, tests),
                blame=_blames(verdicts, hosts, fabrics), summary=_summary(verdicts, fabrics, tests))


def _pairs(verdicts, tests):
    table = {}
    for verdict in verdicts:
        key = (verdict["fabric"], verdict["server"], verdict["client"])
        row = table.setdefault(key, dict(fabric=key[0], server=key[1], client=key[2], status="pass"))
        row[verdict["test"]] = _cell(verdict)
        if RANK[verdict["status"]] > RANK[row["status"]]:
            row["status"] = verdict["status"]
    return [table[key] for key in sorted(table)]


def _matrix(verdicts, hosts, fabrics, tests):
    """Per fabric and test a square table of values in the order of hosts; None on the diagonal and where nothing was measured."""
    names = sorted(hosts)
    place = dict((name, number) for number, name in enumerate(names))
    out = {}
    for fabric, test in schedule.items(fabrics, tests):
        out.setdefault(fabric, dict(hosts=names))[test] = [[None] * len(names) for dummy in names]
    for verdict in verdicts:
        one, two = place[verdict["server"]], place[verdict["client"]]
        table = out[verdict["fabric"]][verdict["test"]]
        table[one][two] = table[two][one] = verdict["value"]
    return out


def _blames(verdicts, hosts, fabrics):
    out = []
    for fabric in fabrics:
        failed = [verdict for verdict in verdicts if verdict["fabric"] == fabric and verdict["status"] == "fail"]
        for entry in blame(set(frozenset((v["server"], v["client"])) for v in failed), hosts):
            mine = [v for v in failed if entry["kind"] == "fabric" or set(entry["names"]) <= set((v["server"], v["client"]))]
            causes = {}
            for verdict in mine:
                cause = (verdict.get("error") or {}).get("cause") or "slow"
                causes[cause] = causes.get(cause, 0) + 1
            out.append(dict(entry, fabric=fabric, causes=causes))
    return out


def _summary(verdicts, fabrics, tests):
    """Counts and statistics per fabric and test, and the worst pair of each."""
    out = dict(status="none", judged=len(verdicts), passed=0, warned=0, failed=0, fabrics={})
    for fabric in fabrics:
        part = out["fabrics"][fabric] = dict(name=FABRIC_NAMES.get(fabric, fabric), tests={})
        mine = [v for v in verdicts if v["fabric"] == fabric]
        part["pairs"] = len(set((v["server"], v["client"]) for v in mine))
        bad = set((v["server"], v["client"]) for v in mine if v["status"] == "fail")
        part["failed_pairs"] = len(bad)
        for test in tests:
            group = [v for v in mine if v["test"] == test]
            values = [v for v in group if v["value"] is not None]
            worst = (max if kind(test) == "lat" else min)(values, key=lambda v: v["value"]) if values else None
            part["tests"][test] = dict(
                passed=sum(v["status"] == "pass" for v in group), warned=sum(v["status"] == "warn" for v in group),
                failed=sum(v["status"] == "fail" for v in group), unit="us" if kind(test) == "lat" else "Gb/s",
                limit=group[0]["limit"] if group else "", limit_from=group[0]["limit_from"] if group else "",
                worst=dict(server=worst["server"], client=worst["client"], value=worst["value"]) if worst else None,
                values=stats.summary(v["value"] for v in values))
    for verdict in verdicts:
        out[{"pass": "passed", "warn": "warned", "fail": "failed"}[verdict["status"]]] += 1
    if verdicts:
        out["status"] = max((v["status"] for v in verdicts), key=lambda status: RANK[status])
    return out
