# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Troubles planted into synthetic fleets of 16 hosts, 20 random fleets each: who gets blamed, and who must not."""

import random

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, schedule, verdict

LIMITS = limits.resolve()
HOSTS = ["n%02d" % number for number in range(16)]
SIZES = [8, 65536, 8388608]
FLEETS = range(20)


def fleet(seed, trouble=None, hosts=HOSTS, repeats=3, both=False, fabrics=("ib", "roce"), quiet=0.004, rounds=0):
    """Verdicts over a random fleet. trouble(chance, item, value) -> value, or None for a measurement that failed."""
    chance = random.Random(seed)
    items = []
    for number, server, client in schedule.pairs(hosts, rounds):
        for one, two in [(server, client)] + ([(client, server)] if both else []):
            for fabric in fabrics:
                for test in ("send_bw", "send_lat"):
                    for repeat in range(1, repeats + 1):
                        item = dict(fabric=fabric, test=test, server=one, client=two, round=number, repeat=repeat, rows=[], error=None)
                        value = (97.2 if test == "send_bw" else 1.2 if fabric == "ib" else 2.0) * (1 + chance.gauss(0, quiet))
                        if trouble:
                            value = trouble(chance, item, value)
                        if value is None:
                            item["error"] = dict(cause="path", text="Unable to Connect the HCA's through the link", hint="x")
                        elif test == "send_bw":
                            item["rows"] = [[size, value + 0.02, value if size > 4096 else value / 2, 1.0] for size in SIZES]
                        else:
                            item["rows"] = [[size, value - 0.04, value + 3, value, value, 0.1, value + 0.2, value + 3] for size in SIZES]
                        items.append(item)
    chance.shuffle(items)
    rates = dict((host, dict((fabric, 100.0) for fabric in fabrics)) for host in hosts)
    return verdict.assess(items, hosts, rates, LIMITS, list(fabrics), ["send_bw", "send_lat"], rounds)


def blamed(found):
    return sorted((one["fabric"], one["kind"], tuple(one["names"])) for one in found["blame"])


@pytest.mark.parametrize("seed", FLEETS)
def test_in_healthy_fleets_nobody_is_blamed(seed):
    found = fleet(seed, quiet=0.002 + 0.0004 * seed)  # cv from 0.2 to 1 %
    assert found["blame"] == [] and found["noisy"] == []
    assert fleet(seed, repeats=1)["blame"] == []


@pytest.mark.parametrize("seed", FLEETS)
def test_a_node_that_is_15_percent_slow_is_blamed_and_nobody_else(seed):
    slow = HOSTS[seed % 16]

    def trouble(chance, item, value):
        mine = slow in (item["server"], item["client"])
        return value * (0.85 if item["test"] == "send_bw" else 1.15) if mine else value
    for repeats in (1, 3):
        found = fleet(seed, trouble, repeats=repeats)
        assert blamed(found) == [("ib", "node", (slow,)), ("roce", "node", (slow,))] and found["noisy"] == []
        assert found["blame"][0]["bad"] == found["blame"][0]["of"] == 15 and found["blame"][0]["severity"] == "fail"


@pytest.mark.parametrize("seed", FLEETS)
def test_one_slow_direction_of_a_cable_is_told_from_a_slow_node(seed):
    slow, sends = HOSTS[(seed * 7) % 16], seed % 2 == 0

    def trouble(chance, item, value):
        end = item["client"] if sends else item["server"]  # the client of send_bw sends
        return value * 0.6 if item["fabric"] == "roce" and item["test"] == "send_bw" and end == slow else value
    for both in (False, True):
        found = fleet(seed, trouble, both=both, repeats=1)
        assert blamed(found) == [("roce", "direction", (slow,))] and found["blame"][0]["direction"] == ("send" if sends else "receive")
    assert found["blame"][0]["bad"] == 15


@pytest.mark.parametrize("seed", FLEETS)
def test_a_blocked_pair_is_a_path(seed):
    pair = sorted(random.Random(1000 + seed).sample(HOSTS, 2))

    def trouble(chance, item, value):
        return None if item["fabric"] == "ib" and {item["server"], item["client"]} == set(pair) else value
    found = fleet(seed, trouble)
    assert blamed(found) == [("ib", "link", tuple(pair))] and found["blame"][0]["causes"] == {"path": 2}
    # A path that is slow and not blocked.
    found = fleet(seed, lambda chance, item, value: value * 0.8 if item["test"] == "send_bw" and item["fabric"] == "ib"
                  and {item["server"], item["client"]} == set(pair) else value, repeats=1)
    assert blamed(found) == [("ib", "link", tuple(pair))]


@pytest.mark.parametrize("seed", FLEETS)
@pytest.mark.parametrize("repeats", [1, 3, 5])
def test_a_noisy_host_is_named_as_noisy_and_not_blamed(seed, repeats):
    noisy = HOSTS[(seed * 3) % 16]

    def trouble(chance, item, value):
        return value * (1 + chance.gauss(0, 0.1)) if noisy in (item["server"], item["client"]) else value
    found = fleet(seed, trouble, repeats=repeats)
    assert found["blame"] == []
    assert {one["host"] for one in found["noisy"]} == {noisy} and all("scatters" in one["text"] for one in found["noisy"])


@pytest.mark.parametrize("seed", FLEETS)
def test_a_port_without_any_figure_is_the_nodes(seed):
    """Wrong MTU, wrong GID index, INIT: nothing goes to or from that port, on one fabric."""
    broken = HOSTS[seed % 16]
    found = fleet(seed, lambda chance, item, value: None if item["fabric"] == "roce" and broken in (item["server"], item["client"]) else value, repeats=1)
    assert blamed(found) == [("roce", "node", (broken,))] and found["blame"][0]["causes"] == {"path": 30}


@pytest.mark.parametrize("seed", FLEETS)
def test_a_slow_node_a_blocked_pair_and_a_noisy_host_at_once(seed):
    slow, noisy, one, two = random.Random(seed).sample(HOSTS, 4)

    def trouble(chance, item, value):
        ends = {item["server"], item["client"]}
        if ends == {one, two}:
            return None
        if slow in ends:
            return value * (0.85 if item["test"] == "send_bw" else 1.15)
        return value * (1 + chance.gauss(0, 0.1)) if noisy in ends else value
    found = fleet(seed, trouble, repeats=3, fabrics=("ib",))
    assert blamed(found) == [("ib", "link", tuple(sorted((one, two)))), ("ib", "node", (slow,))]
    assert {entry["host"] for entry in found["noisy"]} == {noisy}


@pytest.mark.parametrize("seed", FLEETS)
def test_a_part_of_the_rounds_finds_a_slow_node_among_64(seed):
    hosts = ["n%02d" % number for number in range(64)]
    slow = hosts[(seed * 13) % 64]
    found = fleet(seed, lambda chance, item, value: value * (0.85 if item["test"] == "send_bw" else 1.15)
                  if slow in (item["server"], item["client"]) else value, hosts=hosts, fabrics=("ib",), repeats=1, rounds=5)
    assert blamed(found) == [("ib", "node", (slow,))] and found["blame"][0]["of"] == 5 and len(found["pairs"]) == 5 * 32


@pytest.mark.parametrize("count", [4, 5, 8])
def test_small_fleets(count):
    hosts = HOSTS[:count]
    for seed in FLEETS:
        slow = hosts[seed % count]
        found = fleet(seed, lambda chance, item, value: value * (0.85 if item["test"] == "send_bw" else 1.15)
                      if slow in (item["server"], item["client"]) else value, hosts=hosts, fabrics=("ib",))
        assert blamed(found) == [("ib", "node", (slow,))]
        assert fleet(seed, hosts=hosts)["blame"] == []


def test_a_node_worse_than_the_fleet_but_within_its_limits_is_a_warning():
    def trouble(chance, item, value):
        return value * 1.3 if item["test"] == "send_lat" and "n03" in (item["server"], item["client"]) else value
    found = fleet(1, trouble, fabrics=("ib",))
    assert blamed(found) == [("ib", "node", ("n03",))] and found["blame"][0]["severity"] == "warn" and found["summary"]["status"] == "warn"


def test_repeats_are_judged_by_their_median_and_a_failed_one_is_told():
    def trouble(chance, item, value):
        bad = {item["server"], item["client"]} == {"n00", "n01"} and item["test"] == "send_bw"
        return None if bad and item["repeat"] == 2 else value * 0.7 if bad and item["repeat"] == 3 else value
    found = fleet(3, trouble, repeats=5, fabrics=("ib",))
    one = next(v for v in found["verdicts"] if {v["server"], v["client"]} == {"n00", "n01"} and v["test"] == "send_bw")
    assert one["status"] == "warn" and {w["kind"] for w in one["warnings"]} == {"repeat", "spread"} and one["repeats"]["n"] == 4
    assert one["value"] == pytest.approx(97.2, rel=0.02) and found["blame"] == [] and found["summary"]["failed"] == 0


def test_the_worse_direction_of_a_pair_is_the_pairs():
    found = fleet(4, lambda chance, item, value: value * 0.5 if item["test"] == "send_bw" and (item["client"], item["server"]) == ("n02", "n05") else value,
                  both=True, repeats=1, fabrics=("ib",))
    one = next(v for v in found["verdicts"] if {v["server"], v["client"]} == {"n02", "n05"} and v["test"] == "send_bw")
    assert one["client"] == "n02" and one["status"] == "fail" and blamed(found) == [("ib", "link", ("n02", "n05"))]
    assert len(found["verdicts"]) == 240


@pytest.mark.parametrize("count", [5, 6, 7])
def test_partners_of_a_slow_node_are_not_noisy_in_a_handful_of_guests(count):
    hosts = HOSTS[:count]
    for slow in hosts:
        for seed in FLEETS:
            found = fleet(seed, lambda chance, item, value: value * (0.85 if item["test"] == "send_bw" else 1.15)
                          if slow in (item["server"], item["client"]) else value, hosts=hosts, fabrics=("ib",), repeats=1, quiet=0.001)
            assert blamed(found) == [("ib", "node", (slow,))] and found["noisy"] == [], (slow, seed)


def test_one_clean_figure_the_other_way_makes_it_a_direction():
    hosts = HOSTS[:5]
    serves = [server for dummy, server, client in schedule.pairs(hosts)]
    slow = max(hosts, key=serves.count)
    assert serves.count(slow) == 3
    found = fleet(1, lambda chance, item, value: value * 0.6 if item["test"] == "send_bw" and item["server"] == slow else value, hosts=hosts, repeats=1,
                  fabrics=("ib",))
    assert blamed(found) == [("ib", "direction", (slow,))] and found["blame"][0]["direction"] == "receive"


def test_blame_says_what_the_blamed_port_has_unlike_the_others():
    hosts = HOSTS[:5]
    ports = dict((host, {"roce": dict(mtu=9000, rate_gbps=100.0, firmware="16.33.1048", psid="MT_0000000008", state="ACTIVE")}) for host in hosts)
    ports["n02"]["roce"].update(mtu=1500, firmware="16.28.2006")
    assert verdict.differences(ports, "ib") == {}
    assert verdict.differences(ports, "roce") == {"n02": [dict(what="MTU", value=1500, usual=9000),
                                                          dict(what="firmware", value="16.28.2006", usual="16.33.1048")]}
    # Two guests have no usual, and neither has a fleet that is half this and half that.
    assert verdict.differences(dict((host, ports[host]) for host in ("n01", "n02")), "roce") == {}
    for host in ("n00", "n01"):
        ports[host]["roce"]["mtu"] = 4000 if host == "n00" else 1500
    assert all(one["what"] != "MTU" for one in verdict.differences(ports, "roce").get("n02", []))


def test_whoever_met_nobody_is_no_suspect_and_a_hub_is_the_first():
    def pairs(*names):
        return set(frozenset(pair) for pair in names)
    star = pairs(*(("n00", host) for host in HOSTS[1:6]))
    found = verdict.blame(star, HOSTS[:6], scheduled=star)
    assert [(one["kind"], one["names"], one["bad"], one["of"]) for one in found] == [("node", ["n00"], 5, 5)]
    one = pairs(("n00", "n01"))
    assert [(said["kind"], said["names"]) for said in verdict.blame(one, HOSTS[:6], scheduled=one)] == [("pair", ["n00", "n01"])]
    # All pairs bad is still what all share.
    everybody = pairs(*((a, b) for place, a in enumerate(HOSTS[:6]) for b in HOSTS[:place]))
    assert [said["kind"] for said in verdict.blame(everybody, HOSTS[:6], scheduled=everybody)] == ["fabric"]
