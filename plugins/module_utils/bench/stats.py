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
