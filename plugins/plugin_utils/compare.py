# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What got better and what got worse between two reports, told from noise. Pure: two reports in, plain data out."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import stats, verdict as verdicts

FORMAT = 1
# A change counts when it is larger than this many standard deviations of what both runs scatter by, and than this part of the value:
# figures are printed with few digits, and a fleet that repeats itself to the last of them has no scatter at all.
SIGMAS = 3.0
LEAST_PERCENT = 1.0
# perftest prints two digits: two figures that differ by the last of them may be the same.
LAST_DIGIT = 0.01
# The median of absolute deviations of a normal sample is this many times smaller than its standard deviation.
TO_SIGMA = 1.4826
VERSIONS = ("ESXi", "build", "driver", "MFT", "firmware", "BIOS", "OS", "kernel", "OFED", "MPI", "UCX", "CPU")


def compare(before: dict, after: dict) -> dict:
    """Both as report.json holds them."""
    figures = _pairs(before, after) + _benchmarks(before, after)
    hosts = sorted(set(before["hosts"]) & set(after["hosts"]))
    new_failures = [{"host": host, "stage": error["stage"], "msg": error["msg"]} for host, errors in after["failures"].items() if host not in before["failures"]
                    for error in errors[:1]]
    still = sorted(set(before["failures"]) & set(after["failures"]))
    old_stops = {stop["stage"] for stop in before.get("stops") or []}
    for stop in after.get("stops") or []:
        if stop["stage"] in old_stops:
            still.append("all hosts (%s)" % stop["stage"])
        else:
            new_failures.append({"host": "all hosts", "stage": stop["stage"], "msg": stop["msg"]})
    fixed = sorted(host for host in before["failures"] if host not in after["failures"] and host in after["hosts"])
    out = {"format": FORMAT, "before": _head(before), "after": _head(after), "new_failures": new_failures, "still_failing": still, "fixed": fixed,
           "newly_failed": [row for row in figures if row["after_status"] == "fail" and row["before_status"] != "fail"],
           "failed_in_both": sum(row["before_status"] == row["after_status"] == "fail" for row in figures),
           "no_longer_failed": [row for row in figures if row["before_status"] == "fail" and row["after_status"] not in ("fail", None)],
           "worse": sorted((row for row in figures if row["change"] == "worse"), key=lambda row: -(row["worse_percent"] or 0)),
           "better": sorted((row for row in figures if row["change"] == "better"), key=lambda row: row["worse_percent"] or 0),
           "within_noise": sum(row["change"] == "same" for row in figures), "compared": sum(row["change"] != "incomparable" for row in figures),
           "only_before": [_name(row) for row in figures if row["after_status"] is None],
           "only_after": [_name(row) for row in figures if row["before_status"] is None],
           "fleet": _fleet(before, after), "versions": _versions(before, after, hosts),
           "hosts_gone": sorted(set(before["hosts"]) - set(after["hosts"])), "hosts_new": sorted(set(after["hosts"]) - set(before["hosts"]))}
    return dict(out, verdict=_verdict(out))


def _head(data: dict) -> dict:
    return {"title": data["title"], "made": data["made"], "source": data["source"], "hosts": len(data["hosts"])}


def _name(row: dict) -> str:
    return " ".join(str(row[key]) for key in ("fabric", "test", "what") if row[key])


def _sigma(one: dict | None, spread: float) -> float:
    """Standard deviation of a median of repeats by their MAD; what the fleet scatters by where there are no repeats."""
    repeats = (one or {}).get("repeats") or {}
    if repeats.get("n", 0) > 2 and repeats.get("mad") is not None:
        return 1.2533 * TO_SIGMA * repeats["mad"] / repeats["n"] ** 0.5
    return spread


def _judge(row: dict, old: float | None, new: float | None, sigma: float, lower_is_better: bool, digit: float = LAST_DIGIT) -> dict:
    """Add how a figure changed: worse, better or same, and the room that noise has."""
    if row["before_status"] is None or row["after_status"] is None:
        return dict(row, change="incomparable", worse_percent=None, noise_percent=None)
    if old is None or new is None:
        same = old is None and new is None
        return dict(row, change="same" if same else "better" if old is None else "worse", worse_percent=None, noise_percent=None)
    worse = stats.below(new, old) * (-1 if lower_is_better else 1)
    noise = max(100.0 * max(SIGMAS * sigma, 1.01 * digit) / abs(old) if old else 0.0, LEAST_PERCENT)
    change = "same" if abs(worse) <= noise else "worse" if worse > 0 else "better"
    return dict(row, change=change, worse_percent=round(worse, 3), noise_percent=round(noise, 3))


def _by_pair(data: dict) -> dict:
    return {(one["fabric"], one["test"], frozenset((one["server"], one["client"]))): one for one in data["verdict"].get("verdicts") or []}


def _spread(table: dict, kind: tuple) -> float:
    """By how much the pairs of a fabric and test scatter; slow nodes and cables do not move a median of deviations."""
    values = [one["value"] for key, one in table.items() if key[:2] == kind and one["value"] is not None]
    return TO_SIGMA * (stats.mad(values) or 0.0) if len(values) > 2 else 0.0


def _pairs(before: dict, after: dict) -> list[dict]:
    old, new = _by_pair(before), _by_pair(after)
    kinds = {key[:2] for key in list(old) + list(new)}
    spreads = {kind: (_spread(old, kind), _spread(new, kind)) for kind in kinds}
    out = []
    for key in sorted(set(old) | set(new), key=lambda key: (key[0], key[1], sorted(key[2]))):
        one, two = old.get(key), new.get(key)
        sigma = (_sigma(one, spreads[key[:2]][0]) ** 2 + _sigma(two, spreads[key[:2]][1]) ** 2) ** 0.5
        row = {"fabric": key[0], "test": key[1], "what": " and ".join(sorted(key[2])), "unit": (two or one)["unit"],
               "before": one and one["value"], "after": two and two["value"], "before_status": one and one["status"], "after_status": two and two["status"]}
        out.append(_judge(row, row["before"], row["after"], sigma, verdicts.kind(key[1]) == "lat"))
    return out


def _benchmarks(before: dict, after: dict) -> list[dict]:
    tables = [{(one["benchmark"], one["nodes"], one["ppn"]): one for one in data["benchmark"].get("summary") or []} for data in (before, after)]
    out = []
    for key in sorted(set(tables[0]) | set(tables[1])):
        one, two = (table.get(key) for table in tables)
        row = {"fabric": "", "test": key[0], "what": "%d nodes, %d processes each" % key[1:], "unit": (two or one)["unit"],
               "before": one and one["statistics"]["median"], "after": two and two["statistics"]["median"],
               "before_status": one and ("fail" if one["successful"] < one["runs"] else "pass"),
               "after_status": two and ("fail" if two["successful"] < two["runs"] else "pass")}
        sigma = sum(_sigma(found and {"repeats": found["statistics"]}, 0.0) ** 2 for found in (one, two)) ** 0.5
        out.append(_judge(row, row["before"], row["after"], sigma, (two or one)["direction"] == "lower", 0.0))
    return out


def _fleet(before: dict, after: dict) -> list[dict]:
    """The median of all pairs of a fabric and test: what changed for everybody."""
    old, new = _by_pair(before), _by_pair(after)
    out = []
    for kind in sorted({key[:2] for key in old} & {key[:2] for key in new}):
        groups = [[one["value"] for key, one in table.items() if key[:2] == kind and one["value"] is not None] for table in (old, new)]
        if not all(groups):
            continue
        sigma = sum((1.2533 * _spread(table, kind) / len(group) ** 0.5) ** 2 for table, group in zip((old, new), groups)) ** 0.5
        row = {"fabric": kind[0], "test": kind[1], "what": "median of %d and %d pairs" % (len(groups[0]), len(groups[1])),
               "unit": "us" if verdicts.kind(kind[1]) == "lat" else "Gb/s", "before": stats.median(groups[0]), "after": stats.median(groups[1]),
               "before_status": "", "after_status": ""}
        out.append(_judge(row, row["before"], row["after"], sigma, verdicts.kind(kind[1]) == "lat"))
    return out


def _versions(before: dict, after: dict, hosts: list[str]) -> list[dict]:
    """What else changed: one line per change, with the hosts that have it in common."""
    tables = [{row["host"]: row for row in data["versions"]} for data in (before, after)]
    found: dict[tuple, list[str]] = {}
    for host in hosts:
        one, two = (table.get(host) or {} for table in tables)
        for column in VERSIONS:
            if one.get(column) and two.get(column) and one[column] != two[column]:
                found.setdefault((column, one[column], two[column]), []).append(host)
    return [{"what": column, "before": old, "after": new, "hosts": names} for (column, old, new), names in found.items()]


def _verdict(out: dict) -> dict:
    """The one line: new failures first."""
    new = len(out["new_failures"]) + len(out["newly_failed"])
    gone = len(out["fixed"]) + len(out["no_longer_failed"])
    fleet = [row for row in out["fleet"] if row["change"] == "worse"]
    parts = []
    if new:
        parts.append("%d new failure%s." % (new, "" if new == 1 else "s"))
    if out["still_failing"]:
        parts.append("%d host%s failed in both." % (len(out["still_failing"]), "" if len(out["still_failing"]) == 1 else "s"))
    if out["failed_in_both"]:
        parts.append("%d figure%s failed in both." % (out["failed_in_both"], "" if out["failed_in_both"] == 1 else "s"))
    if out["compared"]:
        parts.append("Of %d figures %d got worse, %d better, %d are the same within noise." % (
            out["compared"], len(out["worse"]), len(out["better"]), out["within_noise"]))
    else:
        parts.append("No figure is in both reports.")
    if gone:
        parts.append("%d failure%s of before %s gone." % (gone, "" if gone == 1 else "s", "is" if gone == 1 else "are"))
    status = "fail" if new else "warn" if out["worse"] or fleet or out["still_failing"] or out["failed_in_both"] else "pass" if out["compared"] else "none"
    return {"status": status, "text": " ".join(parts)}
