# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Statistics over small samples (pure): what verdicts and reports need, without numpy."""

import math


def median(values):
    """The middle value, the mean of the two middle ones for an even number; None without values."""
    rows = sorted(values)
    if not rows:
        return None
    middle = len(rows) // 2
    return rows[middle] if len(rows) % 2 else (rows[middle - 1] + rows[middle]) / 2.0


def mean(values):
    rows = list(values)
    return math.fsum(rows) / len(rows) if rows else None


def deviation(values):
    """Standard deviation of a sample (n - 1); None below two values."""
    rows = list(values)
    if len(rows) < 2:
        return None
    middle = mean(rows)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in rows) / (len(rows) - 1))


def percentile(values, part):
    """Linear between the neighbours; part from 0 to 100; None without values."""
    rows = sorted(values)
    if not rows:
        return None
    place = (len(rows) - 1) * part / 100.0
    low = int(math.floor(place))
    high = min(low + 1, len(rows) - 1)
    return rows[low] + (rows[high] - rows[low]) * (place - low)


def summary(values):
    """min, max, mean, median and deviation of the values that are there (None is left out)."""
    rows = [value for value in values if value is not None]
    return dict(n=len(rows), min=min(rows) if rows else None, max=max(rows) if rows else None,
                mean=mean(rows), median=median(rows), deviation=deviation(rows))


def below(value, middle):
    """By how many percent a value lies below the middle (negative: above)."""
    return 100.0 * (middle - value) / middle if middle else 0.0


# Repeats of one measurement on a quiet fabric differ by less than this (percent of the mean).
QUIET_CV = 5.0
FAR_MADS = 3.0


def mad(values):
    """The median of the distances from the median; None without values."""
    rows = list(values)
    middle = median(rows)
    return median(abs(value - middle) for value in rows) if rows else None


def repeats(values):
    """Statistics of repeats of one measurement, in the order they were made, with marks where the mean is not to be trusted.

    A run that lies far off is marked and stays in: a mean without it would hide what users will meet.
    """
    rows = [value for value in values if value is not None]
    out = dict(summary(rows), mad=mad(rows), cv=None, marks=[], values=rows)
    if len(rows) < 2:
        return out
    middle, cv = float(out["median"]), 0.0
    if out["mean"]:
        cv = out["cv"] = 100.0 * out["deviation"] / out["mean"]
    if cv > QUIET_CV:
        out["marks"].append(dict(kind="cv", text="the runs differ by %.1f %% (cv), more than %g %%" % (cv, QUIET_CV)))
    for number, value in enumerate(rows):
        far = abs(value - middle)
        # Three runs that agree to the last digit have a MAD of nothing: a percent of the median keeps their last digits apart from trouble.
        if len(rows) >= 3 and far > FAR_MADS * out["mad"] and far > 0.01 * abs(middle):
            out["marks"].append(dict(kind="run", run=number + 1, value=value, text="run %d is %.4g, the median is %.4g, which is more than %g MAD off"
                                                                                   % (number + 1, float(value), middle, FAR_MADS)))
    if middle and abs(out["mean"] - middle) > 0.05 * abs(middle):
        out["marks"].append(dict(kind="mean", text="the mean, %.4g, is far from the median, %.4g: it stands for none of the runs"
                                 % (float(out["mean"]), middle)))
    return out
