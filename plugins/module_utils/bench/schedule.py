# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who measures with whom and when (pure): the circle method.

n hosts take n - 1 rounds (n when n is odd); in a round every host has one partner or none, and over all rounds every
pair meets once. A pair walks its fabrics and tests one after another, because both ports of a card share one PCIe slot:
no host is ever busy with two measurements. Every host computes the same schedule from the same names.
"""

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError


def rounds(names):
    """Rounds of (server, client) pairs. The order of names does not matter; how often a host is server is balanced."""
    hosts = sorted(names)
    twice = sorted(set(name for name in hosts if hosts.count(name) > 1))
    if twice:
        raise RdmaError("make the schedule of pairs", why="named more than once: %s" % ", ".join(twice), hint="name every host once", code="SCHEDULE")
    if len(hosts) < 2:
        return []
    circle = hosts + ([None] if len(hosts) % 2 else [])
    size, out = len(circle), []
    for turn in range(size - 1):
        rest = circle[1:]
        rest = rest[-turn:] + rest[:-turn] if turn else rest
        table = [circle[0]] + rest
        pairs = []
        for place in range(size // 2):
            one, two = table[place], table[size - 1 - place]
            if one is None or two is None:
                continue
            # The fixed host of the circle changes sides with the round; for the others the side follows from the places.
            if (turn if place == 0 else place) % 2:
                one, two = two, one
            pairs.append((one, two))
        out.append(pairs)
    return out


def pairs(names):
    """All pairs in the order of their rounds: (round, server, client)."""
    return [(number, server, client) for number, row in enumerate(rounds(names)) for server, client in row]


def walk(names, me):
    """The part of one host: a list of dicts round, partner, server (whether it serves), in the order it is walked."""
    if me not in names:
        raise RdmaError("find the part of %s in the schedule" % me, why="it is not one of %s" % ", ".join(sorted(names)),
                        hint="give self as it is written in peers", code="SCHEDULE")
    out = []
    for number, server, client in pairs(names):
        if me in (server, client):
            out.append(dict(round=number, partner=client if me == server else server, server=me == server))
    return out


def items(fabrics, tests):
    """What a pair measures, in order: (fabric, test), all tests of a fabric before the next fabric."""
    return [(fabric, test) for fabric in fabrics for test in tests]


def count(names, fabrics, tests):
    """How many measurements a whole schedule makes."""
    return len(pairs(names)) * len(fabrics) * len(tests)
