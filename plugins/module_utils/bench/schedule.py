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


def sample(total, count=0):
    """Which rounds are walked: all, or count of them spread evenly. A host has one partner in a round, so count partners in all."""
    if count < 0:
        raise RdmaError("make the schedule of pairs", why="%d rounds cannot be walked" % count, hint="give a number from 1, or 0 for all", code="SCHEDULE")
    return list(range(total)) if not count or count >= total else sorted(set(place * total // count for place in range(count)))


def pairs(names, count=0):
    """Pairs in the order of their rounds: (round, server, client); of count rounds, or of all."""
    table = rounds(names)
    return [(number, server, client) for number in sample(len(table), count) for server, client in table[number]]


def walk(names, me, count=0):
    """The part of one host: a list of dicts round, partner, server (whether it serves), in the order it is walked."""
    if me not in names:
        raise RdmaError("find the part of %s in the schedule" % me, why="it is not one of %s" % ", ".join(sorted(names)),
                        hint="give self as it is written in peers", code="SCHEDULE")
    out = []
    for number, server, client in pairs(names, count):
        if me in (server, client):
            out.append(dict(round=number, partner=client if me == server else server, server=me == server))
    return out


def items(fabrics, tests):
    """What a pair measures, in order: (fabric, test), all tests of a fabric before the next fabric."""
    return [(fabric, test) for fabric in fabrics for test in tests]


def count(names, fabrics, tests, rounds_walked=0, repeats=1):
    """How many measurements a whole schedule makes."""
    return len(pairs(names, rounds_walked)) * len(fabrics) * len(tests) * repeats


def power(partners, share=1.0, false_alarms=0.0):
    """(chance that a bad node is blamed, chance that a given good one is) when every host meets so many partners.

    share: with how many of its partners the bad node shows (1.0: with all); false_alarms: how often a good pair looks bad.
    A node is blamed when it is bad with two partners at least and with more than half of them.
    """
    def chance(each):
        total, ways = 0.0, 1.0
        for bad in range(partners + 1):
            if bad >= 2 and bad * 2 > partners:
                total += ways * each ** bad * (1 - each) ** (partners - bad)
            ways = ways * (partners - bad) / (bad + 1)
        return total
    return chance(share + (1 - share) * false_alarms), chance(false_alarms)
