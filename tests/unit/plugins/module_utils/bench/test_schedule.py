# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import io
import itertools
import os
import random
import re
import time

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import schedule, stats, verdict
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8, 15, 16, 33])
def test_every_pair_once_and_nobody_twice_in_a_round(count):
    names = ["vm%02d" % number for number in range(count)]
    table = schedule.rounds(names)
    assert len(table) == (count - 1 if count % 2 == 0 else count)
    for row in table:
        busy = [name for pair in row for name in pair]
        assert len(busy) == len(set(busy))
        assert len(row) == count // 2
    met = sorted(tuple(sorted(pair)) for row in table for pair in row)
    assert met == sorted(itertools.combinations(names, 2))
    served = [sum(server == name for row in table for server, dummy in row) for name in names]
    assert max(served) - min(served) <= 2


@pytest.mark.parametrize("count", [2, 5, 16])
def test_every_host_computes_the_same(count):
    names = ["vm%02d" % number for number in range(count)]
    assert schedule.rounds(names) == schedule.rounds(reversed(names))
    parts = {name: schedule.walk(names, name) for name in names}
    for number, server, client in schedule.pairs(names):
        assert dict(round=number, partner=client, server=True) in parts[server]
        assert dict(round=number, partner=server, server=False) in parts[client]
    assert all([step["round"] for step in part] == sorted({step["round"] for step in part}) for part in parts.values())
    assert sum(map(len, parts.values())) == count * (count - 1)


def test_walking_with_waits_never_locks_up_and_never_makes_a_host_busy_twice():
    """Every host goes on as soon as its partner is there: with any durations all pairs get done."""
    names = ["vm%d" % number for number in range(9)]
    todo = {name: schedule.walk(names, name) for name in names}
    done = 0
    while any(todo.values()):
        heads = {name: part[0] for name, part in todo.items() if part}
        ready = [(name, step) for name, step in sorted(heads.items(), reverse=True)
                 if heads.get(step["partner"], {}).get("partner") == name and heads[step["partner"]]["round"] == step["round"]]
        assert ready, "nobody can go on"
        name, step = ready[done % len(ready)]
        todo[name].pop(0)
        todo[step["partner"]].pop(0)
        done += 1
    assert done == 36


def test_the_fabrics_of_a_pair_follow_each_other():
    assert schedule.items(["ib", "roce"], ["send_bw", "send_lat"]) == [("ib", "send_bw"), ("ib", "send_lat"), ("roce", "send_bw"), ("roce", "send_lat")]
    assert schedule.count(["a%d" % n for n in range(16)], ["ib", "roce"], ["send_bw", "send_lat"]) == 480


def test_one_host_has_nothing_to_do_and_wrong_names_are_refused():
    assert schedule.rounds(["a"]) == [] and schedule.walk(["a"], "a") == []
    with pytest.raises(RdmaError):
        schedule.rounds(["a", "b", "a"])
    with pytest.raises(RdmaError) as err:
        schedule.walk(["a", "b"], "c")
    assert "c" in str(err.value)


def test_statistics():
    assert stats.median([3, 1, 2]) == 2 and stats.median([4, 1, 2, 3]) == 2.5 and stats.median([]) is None
    assert stats.percentile([1, 2, 3, 4, 5], 90) == pytest.approx(4.6)
    assert stats.deviation([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx(2.138, abs=1e-3) and stats.deviation([1]) is None
    assert stats.below(90, 100) == 10 and stats.below(110, 100) == -10
    assert stats.summary([1, None, 3]) == dict(n=2, min=1, max=3, mean=2, median=2, deviation=pytest.approx(1.41421, abs=1e-4))


def test_a_part_of_the_rounds_gives_every_host_as_many_partners():
    names = ["n%03d" % number for number in range(256)]
    part = schedule.pairs(names, 6)
    assert len(part) == 6 * 128 and len({number for number, dummy, dummy2 in part}) == 6
    met = {name: set() for name in names}
    for dummy, one, two in part:
        met[one].add(two)
        met[two].add(one)
    assert {len(partners) for partners in met.values()} == {6}
    assert schedule.pairs(names[:16], 99) == schedule.pairs(names[:16]) and schedule.sample(15, 15) == list(range(15)) and schedule.sample(15, 3) == [0, 5, 10]
    assert [step["round"] for step in schedule.walk(names[:16], "n003", 3)] == [0, 5, 10]
    assert schedule.count(names, ["ib"], ["send_bw"], 6, 2) == 6 * 128 * 2
    with pytest.raises(RdmaError):
        schedule.pairs(names, -1)


def test_power_of_a_part():
    assert schedule.power(3) == (1.0, 0.0)
    found, wrong = schedule.power(6, 0.9, 0.01)
    # 4, 5 or 6 of 6 at 0.901: worked out apart from the code.
    assert found == pytest.approx(15 * 0.901 ** 4 * 0.099 ** 2 + 6 * 0.901 ** 5 * 0.099 + 0.901 ** 6) and wrong == pytest.approx(1.5e-7, rel=0.05)
    assert schedule.power(1) == (0.0, 0.0)


README = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 5 + ["roles", "verify", "README.md"])


def power_table():
    """Rows of the table in the role's README: rounds, percent for shares of 1, 0.9 and 0.75, percent of false blame."""
    with io.open(README, encoding="utf-8") as handle:
        found = re.findall(r"^\| (\d+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \| (?:below )?([\d.]+) % \|$", handle.read(), re.M)
    return [(int(row[0]), [float(cell) for cell in row[1:4]], float(row[4])) for row in found]


def test_the_documented_power_is_what_the_code_computes():
    rows = power_table()
    assert [row[0] for row in rows] == [3, 5, 6, 9]
    for rounds, shares, wrong in rows:
        for share, percent in zip((1.0, 0.9, 0.75), shares):
            assert 100 * schedule.power(rounds, share)[0] == pytest.approx(percent, abs=0.06)
        assert 100 * schedule.power(rounds, 0.0, 0.01)[1] <= wrong * 1.05


@pytest.mark.parametrize("rounds, share", [(3, 0.9), (5, 0.75), (6, 0.75), (9, 0.9)])
def test_the_power_is_what_blame_finds_in_1024_hosts(rounds, share):
    """The formula against the code that blames, on random fleets that are past what a whole mesh can do."""
    names = ["n%04d" % number for number in range(1024)]
    walked, chance, found, times = schedule.pairs(names, rounds), random.Random(rounds), 0, 400
    partners = {name: [] for name in names}
    for dummy, one, two in walked:
        partners[one].append(two)
        partners[two].append(one)
    assert all(len(met) == rounds for met in partners.values())
    pairs = set(frozenset(pair[1:]) for pair in walked)
    for dummy in range(times):
        bad = chance.choice(names)
        shown = set(frozenset((bad, other)) for other in partners[bad] if chance.random() < share)
        # Blame of the part that can be touched: the other pairs are good.
        near = [bad] + partners[bad] + [far for other in partners[bad] for far in partners[other]]
        hosts = sorted(set(near))
        blamed = verdict.blame(shown, hosts, scheduled=set(pair for pair in pairs if pair <= set(hosts))) if shown else []
        found += [(entry["kind"], entry["names"]) for entry in blamed] == [("node", [bad])]
    assert found / float(times) == pytest.approx(schedule.power(rounds, share)[0], abs=0.05)


# ---- other patterns than all pairs -----------------------------------------------------------------------------------------

def nobody_busy_twice(table):
    return all(len(set(name for pair in one for name in pair)) == 2 * len(one) for one in table)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 16, 33])
def test_a_ring_is_everyone_with_the_next_in_two_or_three_rounds(count):
    names = ["n%02d" % number for number in range(count)]
    given = schedule.chosen(names[::-1], "ring")
    assert len(given) == (1 if count == 2 else count) and (names[1], names[0]) in given and (count == 2 or (names[0], names[-1]) in given)
    table = schedule.rounds_of(given)
    assert nobody_busy_twice(table) and len(table) == (1 if count == 2 else 2 + count % 2) and sum(map(len, table)) == len(given)
    assert sum(len(schedule.walk(names, name, 0, given)) for name in names) == 2 * len(given)


def test_one_to_all_takes_a_round_for_each_partner():
    names = ["n%02d" % number for number in range(6)]
    given = schedule.chosen(names, "one_to_all", "n03")
    assert {pair[1] for pair in given} == {"n03"} and {pair[0] for pair in given} == set(names) - {"n03"}
    assert len(schedule.rounds_of(given)) == 5 and [step["round"] for step in schedule.walk(names, "n03", 0, given)] == [0, 1, 2, 3, 4]
    assert schedule.chosen(["b", "a"], "one_to_all") == [("a", "b")], "the first that was named"
    assert schedule.count(names, ["ib", "roce"], ["send_bw"], 0, 1, given) == 10 and len(schedule.pairs(names, 2, given)) == 2


def test_a_list_meets_in_as_few_rounds_as_its_order_lets_it():
    names = list("abcdef")
    table = schedule.rounds_of(schedule.chosen(names, "list", given=[["a", "b"], ["c", "d"], ["b", "c"], ("b", "a"), ["e", "f"]]))
    assert table == [[("a", "b"), ("c", "d"), ("e", "f")], [("b", "c")]] and nobody_busy_twice(table)
    assert schedule.chosen(names, "all") is None


@pytest.mark.parametrize("pattern, hub, given, words", [
    ("list", "", [], "empty"), ("list", "", [["a", "x"]], "x"), ("list", "", [["a", "a"]], "a"), ("list", "", [["a"], "ab"], "no pair"),
    ("one_to_all", "x", [], "x is none of the guests")])
def test_patterns_that_do_not_fit_are_refused(pattern, hub, given, words):
    with pytest.raises(RdmaError) as caught:
        schedule.chosen(["a", "b"], pattern, hub, given)
    assert words in caught.value.why


def test_a_part_of_thousands_of_hosts_costs_little():
    names = ["n%04d" % number for number in range(4096)]
    began = time.time()
    steps = schedule.walk(names, "n0003", 9)
    assert len(steps) == 9 and len(set(step["partner"] for step in steps)) == 9 and time.time() - began < 2
    small = names[:64]
    assert schedule.pairs(small, 5) == [(number, server, client) for number in schedule.sample(63, 5) for server, client in schedule.rounds(small)[number]]
