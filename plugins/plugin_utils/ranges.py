# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names and values for many machines from one text with ranges, as in Ansible's own inventories: esxi-[01:16]."""

from __future__ import annotations

import re
import typing as t

from ansible.plugins.inventory import expand_hostname_range
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

# Digits with digits, a letter with a letter: not the slice of a template, not an IPv6 address in brackets.
RANGE = re.compile(r"\[(\d+:\d+|[A-Za-z]:[A-Za-z])(:\d+)?\]")


def has_range(text: str) -> bool:
    return "{{" not in text and RANGE.search(text) is not None


def names(text: str) -> list[str]:
    """Every name that the text stands for; a text without a range is one name."""
    return list(expand_hostname_range(text)) if has_range(text) else [text]


def nth(value: t.Any, number: int, count: int, where: str) -> t.Any:
    """The value for the number-th of count machines: texts with ranges step along, also inside lists and dictionaries; the rest is for all."""
    if isinstance(value, dict):
        return {key: nth(one, number, count, where) for key, one in value.items()}
    if isinstance(value, list):
        return [nth(one, number, count, where) for one in value]
    if not isinstance(value, str) or not has_range(value):
        return value
    every = names(value)
    if len(every) != count:
        raise RdmaError("expand %s" % value, where, "it stands for %d values, there are %d machines" % (len(every), count),
                        "make the ranges equally long", code="RANGE")
    return every[number]
