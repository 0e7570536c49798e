# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts over the measurements of all pairs (pure): bandwidth, latency, dips, outliers, and whom to blame.

A measurement ("item") is a dict: fabric (ib, roce), test (send_bw, send_lat), server, client, rows, error (dict or None), and
repeat where a measurement is made more than once. Rows are lists in the order of COLUMNS; bandwidths in Gb/s, times in microseconds.

A pair may be measured in both directions and repeatedly. Repeats of a direction are judged by their median, a pair by its worse
direction. Blame looks at whole nodes: a node is bad with most partners, one direction of its cable with most partners but in that
direction alone, a link with one partner; a node whose figures scatter while their middle is fine is called noisy and is not blamed.
"""

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits as known_limits
from ansible_collections.vhpc.rdma.plugins.module_utils.bench import schedule, stats

COLUMNS = {
    "bw": ["size", "peak_gbps", "average_gbps", "mpps"],
    "lat": ["size", "t_min_us", "t_max_us", "t_typical_us", "t_avg_us", "t_stdev_us", "p99_us", "p999_us"],
}
FABRIC_NAMES = {"ib": "InfiniBand", "roce": "RoCE"}
RANK = {"pass": 0, "warn": 1, "fail": 2}
# From this share of bad pairs on, the fault is not one node's.
FABRIC_SHARE = 0.8
# From this share of bad partners on in one direction, with the other direction clean, it is the direction.
DIRECTION_SHARE, CLEAN_SHARE = 0.75, 0.25
# A node is noisy when its figures scatter by more than this (percent), and by so many times more than those of the fleet.
NOISY_PERCENT, NOISY_TIMES = 3.0, 3.0
SIGMAS = 3.0
# A path is blamed when its pair is so many percent worse than the median of a fleet of at least so many pairs.
STANDS_OUT_PERCENT, FLEET = 3.0, 6
VERBS_MTU = (4096, 2048, 1024, 512, 256)
# Bytes on the wire around the payload of a packet. InfiniBand: LRH, BTH and two CRCs; RoCE v2 over IPv4: Ethernet with preamble and gap, IP, UDP, BTH, CRCs.
AROUND = {"ib": 26, "roce": 82}
# What ports of one fabric have in common, and what it is called.
COMMON = (("mtu", "MTU"), ("rate_gbps", "link rate in Gb/s"), ("firmware", "firmware"), ("psid", "PSID"), ("state", "state"))


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


def payload_mtu(fabric, mtu):
    """The MTU that RDMA uses, from that of the network device; None where that does not tell (connected mode of IPoIB)."""
    if not mtu:
        return None
    if fabric == "ib":
        return mtu + 4 if mtu + 4 in VERBS_MTU else None
    return next((size for size in VERBS_MTU if size <= mtu - 96), None)


def ceiling(fabric, rate, mtu):
    """What headers leave of a link's rate at an MTU of RDMA, in Gb/s."""
    return rate * mtu / float(mtu + AROUND[fabric])


def _of_paper(fabric, which, limits, link, where, usual):
    """(limit, text, origin) that the paper's figure gives, or nothing; only where the same thing was measured: 100 Gb/s, the usual sizes."""
    part = limits["paper_percent"]
    if part["value"] is None or link != 100 or where != usual:
        return None
    figure, source = known_limits.PAPER[fabric][which]
    edge = figure * (1 - part["value"] / 100.0) if which == "bw" else figure * (1 + part["value"] / 100.0)
    words = ("at least", "Gb/s") if which == "bw" else ("at most", "us")
    text = "%s %.4g %s (within %g %% of %s, %g)" % (words[0], edge, words[1], part["value"], source, figure)
    return edge, text, "%s; %s" % (source, part["origin"])


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
    paper = _of_paper(fabric, "bw", limits, link, start, known_limits.DEFAULTS["bandwidth_from_size"][0])
    if paper and paper[0] > floor:
        floor = paper[0]
        out.update(limit=paper[1], limit_value=floor, limit_from=paper[2])
    out["status"] = "pass" if middle >= floor else "fail"
    for size, value in large:
        less = stats.below(value, middle)
        if less > limits["dip_percent"]["value"]:
            out["warnings"].append(dict(kind="dip", size=size, value=value, limit_from=limits["dip_percent"]["origin"],
                                        text="%g Gb/s at %s, %.1f %% below the median of %.2f Gb/s" % (value, _size(size), less, middle)))
    return out


def judge_latency(fabric, rows, limits, rate=None):
    """Verdict on one latency table."""
    size, name = limits["latency_size"]["value"], "latency_%s_us" % fabric
    most, switch = limits[name]["value"], limits["switch_ns_%s" % fabric]["value"]
    out = dict(metric="t_typical at %s" % _size(size), unit="us", value=None, warnings=[], status="fail")
    out.update(_limit(limits, name, "at most %g us" % most, most))
    paper = _of_paper(fabric, "lat", limits, limits["rate_%s_gbps" % fabric]["value"] or rate, size, known_limits.DEFAULTS["latency_size"][0])
    if paper and paper[0] < most:
        most = paper[0]
        out.update(limit=paper[1], limit_value=most, limit_from=paper[2])
    value = next((row[3] for row in rows if row[0] == size), None)
    if value is None:
        out["error"] = dict(cause="no-rows", text="the table has no row for %s" % _size(size), hint="measure all sizes (-a)")
        return out
    out.update(value=value, status="pass" if value <= most else "fail")
    if switch and value:
        out.update(switch_ns=switch, switch_percent=round(switch / (value * 10.0), 1), switch_from=limits["switch_ns_%s" % fabric]["origin"])
    return out


def sender(verdict):
    """Who sends the data of a bandwidth test: the client, but for reads, which it fetches."""
    return verdict["server"] if verdict["test"].startswith("read_") else verdict["client"]


def combine(tables):
    """Repeated tables as one: the median of every column at every size."""
    if len(tables) == 1:
        return tables[0]
    sizes = {}
    for rows in tables:
        for row in rows:
            sizes.setdefault(row[0], []).append(row)
    return [[size] + [stats.median(cell for cell in column if cell is not None) for column in list(zip(*sizes[size]))[1:]] for size in sorted(sizes)]


def judge_repeats(group, rate, limits):
    """Verdict on one direction of a pair from all its repeats (at least one): the median, and what the repeats say of its worth."""
    good = [item for item in group if not item.get("error")]
    if not good or len(good) * 2 < len(group):
        return judge(next(item for item in group if item.get("error")), rate, limits)
    out = judge(dict(good[0], rows=combine([item.get("rows") or [] for item in good])), rate, limits)
    if len(group) > len(good):
        error = next(item for item in group if item.get("error"))["error"]
        out["warnings"].append(dict(kind="repeat", limit_from="the repeats of this pair",
                                    text="%d of %d repeats failed: %s" % (len(group) - len(good), len(group), error.get("text", ""))))
    if len(good) > 1 and out.get("value") is not None:
        found = stats.repeats([judge(item, rate, limits)["value"] for item in good])
        out["repeats"] = dict((key, found[key]) for key in ("n", "min", "max", "mean", "median", "mad", "cv", "values"))
        if found["cv"] is not None and found["cv"] > stats.QUIET_CV:
            out["warnings"].append(dict(kind="spread", value=found["cv"], limit_from="default of the collection: a quiet fabric repeats itself within 5 % (cv)",
                                        text="%d repeats from %g to %g %s, cv %.1f %%" % (
                                            found["n"], found["min"], found["max"], out["unit"], float(found["cv"]))))
    return out


def judge(item, rate, limits):
    """Verdict on one measurement: status pass, warn or fail with its limit and the limit's origin."""
    fabric, test = item["fabric"], item["test"]
    head = dict(fabric=fabric, test=test, server=item["server"], client=item["client"], round=item.get("round"))
    if item.get("error"):
        name = "latency_%s_us" % fabric if kind(test) == "lat" else "bandwidth_percent"
        text = "at most %g us" % limits[name]["value"] if kind(test) == "lat" else "at least %g %% of the link rate" % limits[name]["value"]
        error = dict(item["error"])
        if item.get("versions"):
            # An option or a table that one end does not know looks like many other things.
            error["hint"] = "the two ends have different versions of perftest (%s): install the same on both; %s" % (
                item["versions"].replace("/", " and "), error.get("hint", ""))
        return dict(head, status="fail", value=None, unit="us" if kind(test) == "lat" else "Gb/s", warnings=[], error=error,
                    **_limit(limits, name, text, None))
    rows = item.get("rows") or []
    out = judge_latency(fabric, rows, limits, rate) if kind(test) == "lat" else judge_bandwidth(fabric, rows, rate, limits)
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


def blame(bad, hosts, measured=None, slow=None, scheduled=None):
    """Who is to blame for the bad pairs of one fabric.

    bad: set of frozensets of two names; hosts: all names. measured, slow: sets of (sender, receiver), the directions whose bandwidth
    was measured, and those of them that are slow; scheduled: the pairs that were to meet, all when not given. A node is
    bad with most of its partners, a direction of its cable with most in that direction and hardly any in the other, a link with one.
    Returns dicts kind (node, direction, link, pair, fabric), names, bad, of, text; of a direction also direction (send, receive).
    """
    hosts, left, out = sorted(hosts), set(bad), []
    if not left:
        return []
    scheduled = set(scheduled) if scheduled else set(frozenset((one, two)) for place, one in enumerate(hosts) for two in hosts[:place])
    total = len(scheduled)
    # Of a pattern other than all: who met nobody is no suspect, and who is in every pair is what all of them share.
    hosts = sorted(set(name for pair in scheduled for name in pair))
    hub = sorted(set.intersection(*[set(pair) for pair in scheduled]))
    if len(hosts) == 2:
        return [dict(kind="pair", names=hosts, bad=1, of=1, text="%s and %s: with two hosts nobody can tell a node from the link; add a third" % tuple(hosts))]
    if len(hub) == 1 and len(left) >= FABRIC_SHARE * total:
        return [dict(kind="node", names=hub, bad=len(left), of=total,
                     text="%s is in every pair that was to meet, and %d of %d are bad: look at this node first, then at what all share"
                          % (hub[0], len(left), total))]
    if len(hosts) > 2 and len(left) >= FABRIC_SHARE * total:
        return [dict(kind="fabric", names=hosts, bad=len(left), of=total,
                     text="%d of %d pairs are bad: look at what all share (switch, subnet manager, MTU, driver) before any node" % (len(left), total))]
    measured, slow = set(measured or ()), set(slow or ())
    partners = set(hosts)
    while left:
        found = _directions(left, partners, measured, slow) + _nodes(left, partners, scheduled)
        if not found:
            break
        # What explains most comes first; of the same number the direction, which says more.
        worst = max(found, key=lambda one: (one["bad"], one["kind"] == "direction", [-ord(char) for char in one["names"][0]]))
        out.append(worst)
        name = worst["names"][0]
        if worst["kind"] == "node":
            left = set(pair for pair in left if name not in pair)
            scheduled = set(pair for pair in scheduled if name not in pair)
            measured = set(one for one in measured if name not in one)
            partners.discard(name)
        else:
            place = 0 if worst["direction"] == "send" else 1
            gone = set(one for one in slow if one[place] == name)
            slow -= gone
            measured = set(one for one in measured if one[place] != name)
            left -= set(frozenset(one) for one in gone if (one[1], one[0]) not in slow)
    for pair in sorted(sorted(names) for names in left):
        out.append(dict(kind="link", names=pair, bad=1, of=1, text="%s and %s are bad only with each other: look at the path between them" % tuple(pair)))
    return out


def _nodes(left, partners, scheduled):
    """Nodes that are bad with most of the partners that are left."""
    counts, of = dict((host, 0) for host in partners), dict((host, 0) for host in partners)
    for group, table in ((left, counts), (scheduled, of)):
        for pair in group:
            for host in pair:
                if host in table:
                    table[host] += 1
    return [dict(kind="node", names=[host], bad=counts[host], of=of[host],
                 text="%s is bad with %d of its %d partners: look at this node (card, cable, passthrough, driver)" % (host, counts[host], of[host]))
            for host in sorted(partners) if counts[host] >= 2 and counts[host] * 2 > of[host]]


def _directions(left, partners, measured, slow):
    """Nodes that are slow with most partners in one direction and with hardly any in the other."""
    out = []
    # A pair that failed for another reason than bandwidth says nothing of directions: it speaks against the node.
    other = left - set(frozenset(one) for one in slow)
    of, bad = {}, {}
    for group, table in ((measured, of), (slow, bad)):
        for one in group:
            for place in (0, 1):
                table[one[place], place] = table.get((one[place], place), 0) + 1
    mixed = set(host for pair in other for host in pair)
    for host in sorted(partners):
        for place, word, verb in ((0, "send", "sending to"), (1, "receive", "receiving from")):
            mine, back = (host, place), (host, 1 - place)
            # One clean figure the other way is enough: a slow node would be slow there too.
            if of.get(mine, 0) < 2 or not of.get(back) or bad.get(mine, 0) < 2 or host in mixed:
                continue
            if bad[mine] >= DIRECTION_SHARE * of[mine] and bad.get(back, 0) <= CLEAN_SHARE * of[back]:
                out.append(dict(kind="direction", names=[host], direction=word, bad=bad[mine], of=of[mine],
                                text="%s is slow %s %d of %d partners and not the other way: look at its cable and at the switch port's errors and pauses"
                                % (host, verb, bad[mine], of[mine])))
    return out


def noise(verdicts, hosts):
    """Per host of one fabric and test how its figures scatter: percent of their middle, over partners within each direction.

    A slow node or a slow direction shifts figures and does not scatter them; a partner's fault touches one of many.
    """
    values, repeats = {}, {}
    for verdict in verdicts:
        if verdict["value"] is None:
            continue
        for host, role in ((verdict["server"], "server"), (verdict["client"], "client")):
            values.setdefault(host, {}).setdefault(role, []).append(verdict["value"])
            if (verdict.get("repeats") or {}).get("cv") is not None and verdict["repeats"]["n"] > 2:
                repeats.setdefault(host, []).append(verdict["repeats"]["cv"])
    out = {}
    for host in hosts:
        left, middles = [], []
        for group in values.get(host, {}).values():
            middle = stats.median(group)
            middles.append(middle)
            if len(group) > 2 and middle:
                left += [100.0 * abs(value - middle) / middle for value in group]
        # 1.4826 MAD is a deviation where the scatter is normal, and so is the upper quartile by 1.15; of a dozen figures each may
        # be small by chance. A quarter of the partners may be bad without touching either; of a handful one, which is left out.
        rows = sorted(left)[:-1] if len(left) < 6 else left
        scatter = max(1.4826 * stats.median(left), stats.percentile(rows, 75) / 1.15) if len(left) > 3 else 0.0
        again = stats.median(repeats[host]) if repeats.get(host) else 0.0
        out[host] = dict(percent=max(scatter, again), middle=stats.median(middles) if middles else None,
                         count=sum(len(group) for group in values.get(host, {}).values()))
    usual = stats.median(one["percent"] for one in out.values() if one["count"]) or 0.0
    for one in out.values():
        one["usual"] = usual
        one["noisy"] = one["count"] > 1 and one["percent"] > max(NOISY_PERCENT, NOISY_TIMES * usual)
    return out


def excused(verdict, table):
    """The noisy host whose scatter explains a figure beyond the limit; nothing where the figure is beyond that too, or the host's middle is."""
    if verdict.get("error") or verdict["value"] is None or not verdict.get("limit_value"):
        return ""
    sign = -1 if kind(verdict["test"]) == "lat" else 1
    for host in (verdict["server"], verdict["client"]):
        one = table.get(host) or {}
        if not one.get("noisy") or not one["middle"]:
            continue
        deviation = one["middle"] * one["percent"] / 100.0
        middle_of = SIGMAS * 1.2533 * deviation / max(one["count"], 1) ** 0.5
        # Scatter over partners is that of medians already; what repeats tell is of single runs.
        if sign * (one["middle"] - verdict["limit_value"]) + middle_of >= 0 and sign * (one["middle"] - verdict["value"]) <= (SIGMAS + 2) * deviation:
            return host
    return ""


def differences(ports, fabric):
    """Host -> what its port of a fabric has that those of most others do not, as dicts what, value, usual. ports: host -> fabric -> port."""
    out = {}
    mine = dict((host, found[fabric]) for host, found in ports.items() if found.get(fabric))
    for key, name in COMMON:
        values = [port.get(key) for port in mine.values() if port.get(key) not in (None, "")]
        usual = max(sorted(set(values), key=str), key=values.count) if values else None
        if len(values) < 3 or values.count(usual) * 2 <= len(values):
            continue
        for host in sorted(mine):
            if mine[host].get(key) not in (None, "", usual):
                out.setdefault(host, []).append(dict(what=name, value=mine[host][key], usual=usual))
    return out


def _cell(verdict):
    return None if verdict is None else dict((key, verdict.get(key)) for key in ("value", "status"))


def assess(items, hosts, rates, limits, fabrics, tests, rounds=0, ports=None, given=None):
    """Everything about a run: verdicts, pairs, matrix, blame and summary.

    items: the measurements; hosts: who took part by the schedule; rates: host -> fabric -> link rate in Gb/s;
    rounds: how many rounds of the schedule were walked, 0 for all; ports: host -> fabric -> its port, to tell what a blamed one has unlike the others;
    given: the pairs of a pattern other than all.
    A pair of the schedule without a measurement fails.
    """
    found = {}
    # Both ends may tell of a measurement: a figure counts more than a failure, the client's word more than the server's.
    for item in sorted(items, key=lambda one: (one.get("error") is None, one.get("by", "client") == "client")):
        directions = found.setdefault((item["fabric"], item["test"], frozenset((item["server"], item["client"]))), {})
        directions.setdefault((item["server"], item["client"]), {})[item.get("repeat") or 1] = item
    verdicts, ways = [], []
    for number, server, client in schedule.pairs(hosts, rounds, given):
        for fabric, test in schedule.items(fabrics, tests):
            directions = found.get((fabric, test, frozenset((server, client))))
            if directions is None:
                directions = {(server, client): {1: dict(
                    fabric=fabric, test=test, server=server, client=client, round=number,
                    error=dict(cause="missing", text="no result of this pair came back", hint="see the result of perftest on both guests"))}}
            known = [rates.get(name, {}).get(fabric) for name in (server, client)]
            rate = min([one for one in known if one] or [None], key=lambda one: one or 0)
            both = [judge_repeats([directions[way][repeat] for repeat in sorted(directions[way])], rate, limits) for way in sorted(directions)]
            for one in both:
                _explain_by_mtu(one, rate, [((ports or {}).get(name) or {}).get(fabric) or {} for name in (server, client)])
            ways += both
            verdicts.append(max(both, key=_badness))
    mark_outliers(verdicts, limits)
    blames, noisy = _blames(ways, verdicts, hosts, fabrics)
    for fabric in fabrics:
        unlike = differences(ports or {}, fabric)
        for entry in [one for one in blames if one["fabric"] == fabric]:
            named = [] if entry["kind"] == "fabric" else [dict(one, host=host) for host in entry["names"] for one in unlike.get(host, [])]
            entry["differs"] = named
            if named:
                entry["text"] += "; unlike the others, %s" % ", ".join("%s has %s %s (usual: %s)" % (
                    one["host"], one["what"], one["value"], one["usual"]) for one in named)
    return dict(verdicts=verdicts, pairs=_pairs(verdicts, tests), matrix=_matrix(verdicts, hosts, fabrics, tests),
                blame=blames, noisy=noisy, summary=_summary(verdicts, fabrics, tests))


def _explain_by_mtu(verdict, rate, ends):
    """Add what headers alone leave of the link where the smaller MTU of the two ends makes the limit unreachable."""
    sizes = [payload_mtu(verdict["fabric"], port.get("mtu")) for port in ends]
    if verdict["status"] != "fail" or kind(verdict["test"]) != "bw" or not verdict["value"] or not rate or not all(sizes):
        return
    most = ceiling(verdict["fabric"], rate, min(sizes))
    if most < (verdict.get("limit_value") or 0):
        verdict["warnings"].append(dict(kind="mtu", value=most, limit_from="headers of a packet on %s" % FABRIC_NAMES[verdict["fabric"]],
                                        text="the MTU of %d leaves %.1f of %g Gb/s at most: the limit cannot be met with it" % (min(sizes), most, rate)))


def _badness(verdict):
    """Orders the two directions of a pair: no figure at all, then the status, then the figure."""
    value = verdict["value"]
    return value is None, RANK[verdict["status"]], 0.0 if value is None else value if kind(verdict["test"]) == "lat" else -value


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


def _blames(ways, verdicts, hosts, fabrics):
    """(blame, noisy) of all fabrics. ways: the verdicts of every direction that was measured; verdicts: those of the pairs."""
    out, noisy = [], []
    for fabric in fabrics:
        mine = [verdict for verdict in ways if verdict["fabric"] == fabric]
        tests = sorted(set(verdict["test"] for verdict in mine))
        tables = dict((test, noise([verdict for verdict in mine if verdict["test"] == test], hosts)) for test in tests)
        failed = [verdict for verdict in mine if verdict["status"] == "fail"]
        for test in tests:
            for host in sorted(tables[test]):
                one = tables[test][host]
                if one["noisy"]:
                    explained = sum(excused(verdict, {host: one}) == host for verdict in failed if verdict["test"] == test)
                    why = ", which explains %d of its failed figures" % explained if explained else ""
                    noisy.append(dict(fabric=fabric, test=test, host=host, percent=round(one["percent"], 1), usual=round(one["usual"], 1), failed=explained,
                                      text="%s scatters by %.1f %% in %s (the others: %.1f %%)%s: look for other load on it, and repeat the measurement"
                                      % (host, one["percent"], test, one["usual"], why)))
        real = [verdict for verdict in failed if not excused(verdict, tables[verdict["test"]])]
        fleet = dict((test, stats.summary(one["value"] for one in mine if one["test"] == test)) for test in tests)
        standing = set(frozenset((verdict["server"], verdict["client"])) for verdict in real if _stands_out(verdict, fleet[verdict["test"]]))
        out += [entry for entry in _blame_of(real, mine, hosts, fabric, "fail") if entry["kind"] != "link" or frozenset(entry["names"]) in standing]
        blamed = set(name for entry in out if entry["fabric"] == fabric for name in entry["names"])
        # Nobody failed, but a node is worse than the fleet with most of its partners: worth a look before it fails. Single pairs are not.
        odd = [verdict for verdict in verdicts if verdict["fabric"] == fabric and verdict["status"] == "warn"
               and any(one["kind"] == "outlier" for one in verdict["warnings"])
               and not any(tables[verdict["test"]][name]["noisy"] or name in blamed for name in (verdict["server"], verdict["client"]))]
        out += [entry for entry in _blame_of(odd, mine, hosts, fabric, "warn") if entry["kind"] in ("node", "direction")]
    return out, noisy


def _stands_out(verdict, fleet):
    """Whether a pair is worse than the fleet, and not only just below a limit that the fleet just meets: that is no fault of a path."""
    if verdict["value"] is None or fleet["n"] < FLEET:
        return True
    return stats.below(verdict["value"], fleet["median"]) * (-1 if kind(verdict["test"]) == "lat" else 1) > STANDS_OUT_PERCENT


def _blame_of(bad, mine, hosts, fabric, severity):
    """Blame for the verdicts given as bad, with their causes."""
    out = []
    wide = [verdict for verdict in mine if kind(verdict["test"]) == "bw" and verdict["value"] is not None]
    slow = set(_way(verdict) for verdict in bad if kind(verdict["test"]) == "bw" and verdict["value"] is not None)
    hard = set(frozenset((verdict["server"], verdict["client"])) for verdict in bad if kind(verdict["test"]) == "lat" or verdict["value"] is None)
    # A direction counts where nothing but bandwidth is wrong with the pair.
    slow = set(one for one in slow if frozenset(one) not in hard)
    pairs = set(frozenset((verdict["server"], verdict["client"])) for verdict in bad)
    met = set(frozenset((verdict["server"], verdict["client"])) for verdict in mine)
    for entry in blame(pairs, hosts, set(_way(verdict) for verdict in wide), slow, met):
        named = [v for v in bad if entry["kind"] == "fabric" or set(entry["names"]) <= set((v["server"], v["client"]))]
        causes = {}
        for verdict in named:
            cause = (verdict.get("error") or {}).get("cause") or ("mtu" if any(one["kind"] == "mtu" for one in verdict["warnings"]) else "slow")
            causes[cause] = causes.get(cause, 0) + 1
        out.append(dict(entry, fabric=fabric, causes=causes, severity=severity))
    return out


def _way(verdict):
    """(sender, receiver) of a bandwidth."""
    one = sender(verdict)
    return one, verdict["client"] if one == verdict["server"] else verdict["server"]


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
