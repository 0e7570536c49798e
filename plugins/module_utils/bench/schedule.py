# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who measures with whom and when (pure): the circle method.

n hosts take n - 1 rounds (n when n is odd); in a round every host has one partner or none, and over all rounds every
pair meets once. A pair walks its fabrics and tests one after another, because both ports of a card share one PCIe slot:
no host is ever busy with two measurements. Every host computes the same schedule from the same names.
"""

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError


def _circle(names):
    """The hosts in the order of the circle, with a place for nobody when they are odd in number."""
    hosts = sorted(names)
    twice = sorted(set(one for one, two in zip(hosts, hosts[1:]) if one == two))
    if twice:
        raise RdmaError("make the schedule of pairs", why="named more than once: %s" % ", ".join(twice), hint="name every host once", code="SCHEDULE")
    return hosts + ([None] if len(hosts) % 2 else []) if len(hosts) > 1 else []


def _turn(circle, turn):
    """The pairs (server, client) of one round."""
    size, rest = len(circle), circle[1:]
    table = [circle[0]] + (rest[-turn:] + rest[:-turn] if turn else rest)
    pairs = []
    for place in range(size // 2):
        one, two = table[place], table[size - 1 - place]
        if one is None or two is None:
            continue
        # The fixed host of the circle changes sides with the round; for the others the side follows from the places.
        if (turn if place == 0 else place) % 2:
            one, two = two, one
        pairs.append((one, two))
    return pairs


def rounds(names):
    """Rounds of (server, client) pairs. The order of names does not matter; how often a host is server is balanced."""
    circle = _circle(names)
    return [_turn(circle, turn) for turn in range(len(circle) - 1)]


def chosen(names, pattern="all", hub="", given=()):
    """The pairs (server, client) of a pattern other than all; None for all, where every pair meets.

    ring: everyone sends to the next by name, the last to the first; one_to_all: the hub is the client of everyone; list: the pairs that are given.
    """
    hosts = sorted(names)
    if pattern == "all":
        return None
    what = "make the schedule of pairs"
    if pattern == "ring":
        return [] if len(hosts) < 2 else [(hosts[1], hosts[0])] if len(hosts) == 2 else [
            (hosts[(place + 1) % len(hosts)], host) for place, host in enumerate(hosts)]
    if pattern == "one_to_all":
        hub = hub or names[0]
        if hub not in hosts:
            raise RdmaError(what, why="%s is none of the guests" % hub, hint="give hub as it is written in peers", code="SCHEDULE")
        return [(host, hub) for host in hosts if host != hub]
    wrong = ["%r" % (pair,) for pair in given if not isinstance(pair, (list, tuple)) or len(pair) != 2 or pair[0] == pair[1]
             or not set(map(str, pair)) <= set(hosts)]
    if wrong or not given:
        raise RdmaError(what, why="%s: no pair of two of the guests" % ", ".join(wrong) if wrong else "the list of pairs is empty",
                        hint="give pairs as [server, client], with names as in peers", code="SCHEDULE")
    return [(str(pair[0]), str(pair[1])) for pair in given]


def rounds_of(given):
    """Rounds for a list of pairs: each pair in the first round in which both are free, so that nobody is busy twice."""
    out, met = [], set()
    for server, client in given:
        if frozenset((server, client)) in met:
            continue
        met.add(frozenset((server, client)))
        for table in out:
            if not any(name in pair for pair in table for name in (server, client)):
                table.append((server, client))
                break
        else:
            out.append([(server, client)])
    return out


def sample(total, count=0):
    """Which rounds are walked: all, or count of them spread evenly. A host has one partner in a round, so count partners in all."""
    if count < 0:
        raise RdmaError("make the schedule of pairs", why="%d rounds cannot be walked" % count, hint="give a number from 1, or 0 for all", code="SCHEDULE")
    return list(range(total)) if not count or count >= total else sorted(set(place * total // count for place in range(count)))


def pairs(names, count=0, given=None):
    """Pairs in the order of their rounds: (round, server, client); of count rounds, or of all. given: the pairs of another pattern than all."""
    if given is not None:
        table = rounds_of(given)
        return [(number, server, client) for number in sample(len(table), count) for server, client in table[number]]
    # Only the rounds that are walked are made: all of thousands of hosts would take a guest's memory.
    circle = _circle(names)
    return [(number, server, client) for number in sample(max(len(circle) - 1, 0), count) for server, client in _turn(circle, number)]


def walk(names, me, count=0, given=None):
    """The part of one host: a list of dicts round, partner, server (whether it serves), in the order it is walked."""
    if me not in names:
        raise RdmaError("find the part of %s in the schedule" % me, why="it is not one of %s" % ", ".join(sorted(names)),
                        hint="give self as it is written in peers", code="SCHEDULE")
    out = []
    for number, server, client in pairs(names, count, given):
        if me in (server, client):
            out.append(dict(round=number, partner=client if me == server else server, server=me == server))
    return out


def items(fabrics, tests):
    """What a pair measures, in order: (fabric, test), all tests of a fabric before the next fabric."""
    return [(fabric, test) for fabric in fabrics for test in tests]


def count(names, fabrics, tests, rounds_walked=0, repeats=1, given=None):
    """How many measurements a whole schedule makes."""
    return len(pairs(names, rounds_walked, given)) * len(fabrics) * len(tests) * repeats


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
