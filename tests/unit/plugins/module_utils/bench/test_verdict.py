# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import itertools
import pathlib

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, schedule, tables, verdict
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import perftest

SIZES = [2 ** power for power in range(1, 24)]
LIMITS = limits.resolve()
PAPER = pathlib.Path(__file__).resolve().parents[6] / "shared" / "paper" / "perftest"


def bw_table(full=97.3, dip=None, unit="Gb/sec"):
    """An ib_send_bw -a table: the message rate limits small sizes, the link large ones; dip: (size, value)."""
    lines = ["                    Send BW Test", " Link type       : Ethernet",
             " #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]" % (unit, unit)]
    for size in SIZES:
        value = min(full, size * 8 * 6.4 / 1000) if size < 4096 else full - 40.0 / size
        if dip and size == dip[0]:
            value = dip[1]
        shown = value if unit == "Gb/sec" else value * 1e9 / 8 / 1048576
        lines.append(" %-7d    %-10d  %-7.2f            %-7.2f              %-7.6f" % (size, 1000, shown + 0.02, shown, value * 1000 / 8 / size))
    return "\n".join(lines) + "\n"


def lat_table(base=1.2):
    lines = ["                    Send Latency Test",
             " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
             "99% percentile[usec]   99.9% percentile[usec]"]
    for size in SIZES:
        typical = base + size / 11800.0
        lines.append(" %-7d %-10d     %-7.2f        %-7.2f      %-7.2f            %-7.2f         %-7.2f         %-7.2f                 %-7.2f" % (
            size, 1000, typical - 0.04, typical + 3.1, typical, typical + 0.01, 0.1, typical + 0.2, typical + 3.1))
    return "\n".join(lines) + "\n"


def item(fabric, test, text=None, server="a", client="b", error=None):
    rows = tables.compact(perftest.parse(text), test) if text else []
    return dict(fabric=fabric, test=test, server=server, client=client, rows=rows, error=error)


def judge(fabric, test, text, rate=100.0, **given):
    return verdict.judge(item(fabric, test, text), rate, limits.resolve(given))


# ---- one measurement ---------------------------------------------------------------------------------------------------

def test_a_good_bandwidth_passes_by_the_median_of_the_large_sizes():
    found = judge("ib", "send_bw", bw_table(97.3))
    assert found["status"] == "pass" and found["value"] == pytest.approx(97.3, abs=0.02) and found["unit"] == "Gb/s"
    assert found["limit_value"] == 95.0 and "95 % of the link rate of 100 Gb/s" in found["limit"] and "Figure 17" in found["limit_from"]
    assert "64 KiB" in found["metric"]


def test_a_slow_link_fails_and_a_slower_rate_lowers_the_limit():
    assert judge("ib", "send_bw", bw_table(94.9))["status"] == "fail"
    assert judge("ib", "send_bw", bw_table(53.1), rate=56.0)["limit_value"] == pytest.approx(53.2)
    assert judge("ib", "send_bw", bw_table(53.1), rate=56.0)["status"] == "fail"
    assert judge("ib", "send_bw", bw_table(53.3), rate=56.0)["status"] == "pass"


def test_a_dip_at_one_size_is_a_warning_that_names_the_size_and_does_not_fail():
    found = judge("roce", "send_bw", bw_table(97.3, dip=(524288, 88.8)))
    assert [one["size"] for one in found["warnings"]] == [524288] and "512 KiB" in found["warnings"][0]["text"]
    verdict.mark_outliers([found], LIMITS)
    assert found["status"] == "warn"
    assert judge("roce", "send_bw", bw_table(97.3, dip=(524288, 88.8)), dip_percent=10)["warnings"] == []
    # Below 64 KiB small sizes are slow by nature.
    assert judge("roce", "send_bw", bw_table(97.3, dip=(32768, 60.0)))["warnings"] == []


def test_megabytes_are_judged_like_gigabits():
    assert judge("ib", "send_bw", bw_table(97.3, unit="MB/sec"))["value"] == pytest.approx(97.3, abs=0.02)
    assert judge("ib", "send_bw", bw_table(94.0, unit="MiB/sec"))["status"] == "fail"


def test_latency_is_t_typical_at_8_bytes_by_the_fabrics_own_limit():
    found = judge("ib", "send_lat", lat_table(1.99))
    assert (found["status"], found["value"]) == ("pass", 1.99) and found["limit_value"] == 2.0 and "Figure 18" in found["limit_from"]
    assert judge("ib", "send_lat", lat_table(2.1))["status"] == "fail"
    assert judge("roce", "send_lat", lat_table(2.1))["status"] == "pass"
    assert judge("roce", "send_lat", lat_table(5.1))["status"] == "fail"
    assert judge("roce", "send_lat", lat_table(2.0), latency_size=1048576)["value"] == pytest.approx(2.0 + 1048576 / 11800.0, abs=0.01)


def test_the_share_of_the_switch_is_shown():
    found = judge("ib", "send_lat", lat_table(1.2))
    assert found["switch_ns"] == 90 and found["switch_percent"] == 7.5 and "SB7800" in found["switch_from"]
    assert judge("roce", "send_lat", lat_table(2.5))["switch_percent"] == pytest.approx(70.2)
    assert "switch_ns" not in judge("ib", "send_lat", lat_table(1.2), switch_ns_ib=0)


def test_a_limit_of_the_user_says_so():
    found = judge("ib", "send_lat", lat_table(1.2), latency_ib_us=1.1)
    assert found["status"] == "fail" and "set by the user" in found["limit_from"] and "default is 2.0" in found["limit_from"]
    assert judge("ib", "send_bw", bw_table(97.3), rate=None)["error"]["cause"] == "no-rate"
    assert judge("ib", "send_bw", bw_table(97.3), rate=None, rate_ib_gbps=100)["status"] == "pass"
    with pytest.raises(RdmaError) as err:
        limits.resolve({"latency_ibus": 1})
    assert "latency_ib_us" in str(err.value)
    with pytest.raises(RdmaError):
        limits.resolve({"latency_ib_us": -1})


def test_every_limit_says_where_it_comes_from():
    for name, one in LIMITS.items():
        assert one["origin"] and one["unit"], name


def test_an_error_fails_with_its_cause_and_still_names_the_limit():
    found = verdict.judge(item("roce", "send_lat", error=dict(cause="gid", text="Found Incompatibility", hint="x")), 100, LIMITS)
    assert found["status"] == "fail" and found["error"]["cause"] == "gid" and found["limit"] == "at most 5 us" and found["limit_from"]


def test_a_table_that_stops_early_does_not_pass():
    short = "\n".join(line for line in bw_table(97.3).splitlines() if not line.strip()[:1].isdigit() or int(line.split()[0]) < 65536)
    found = judge("ib", "send_bw", short)
    assert found["status"] == "fail" and found["error"]["cause"] == "no-rows"


# ---- the paper's own outputs ---------------------------------------------------------------------------------------------

@pytest.mark.skipif(not PAPER.is_dir(), reason="the paper's outputs are not at %s" % PAPER)
def test_the_papers_own_outputs_pass_with_a_warning_for_roce_at_512_kib():
    files = {("ib", "send_bw"): "fig17_ib_send_bw_ib.txt", ("ib", "send_lat"): "fig18_ib_send_lat_ib.txt",
             ("roce", "send_bw"): "fig19_ib_send_bw_roce.txt", ("roce", "send_lat"): "fig20_ib_send_lat_roce.txt"}
    found = verdict.assess([item(fabric, test, (PAPER / name).read_text(), "compute-03", "compute-02") for (fabric, test), name in files.items()],
                           ["compute-02", "compute-03"], {"compute-02": {"ib": 100.0, "roce": 100.0}, "compute-03": {"ib": 100.0, "roce": 100.0}}, LIMITS,
                           ["ib", "roce"], ["send_bw", "send_lat"])
    status = {(one["fabric"], one["test"]): one for one in found["verdicts"]}
    assert {key: one["status"] for key, one in status.items()} == {
        ("ib", "send_bw"): "pass", ("ib", "send_lat"): "pass", ("roce", "send_bw"): "warn", ("roce", "send_lat"): "pass"}
    assert [one["size"] for one in status["roce", "send_bw"]["warnings"]] == [524288]
    assert (status["ib", "send_lat"]["value"], status["roce", "send_lat"]["value"]) == (1.07, 1.95)
    assert status["roce", "send_bw"]["value"] == pytest.approx(96.085) and found["summary"]["failed"] == 0 and found["blame"] == []


# ---- blame -----------------------------------------------------------------------------------------------------------------

NAMES = ["n%02d" % number for number in range(16)]


def bad(*pairs):
    return {frozenset(pair) for pair in pairs}


def kinds(found):
    return [(one["kind"], tuple(one["names"])) for one in found]


def test_a_node_that_is_bad_with_most_partners_is_blamed_and_its_partners_are_not():
    assert kinds(verdict.blame(bad(*(("n03", other) for other in NAMES if other != "n03")), NAMES)) == [("node", ("n03",))]
    nine = bad(*(("n03", other) for other in NAMES[4:13]))
    assert kinds(verdict.blame(nine, NAMES)) == [("node", ("n03",))]


def test_a_single_bad_pair_is_a_link():
    assert kinds(verdict.blame(bad(("n03", "n07")), NAMES)) == [("link", ("n03", "n07"))]
    assert kinds(verdict.blame(bad(("n03", "n07"), ("n01", "n02")), NAMES)) == [("link", ("n01", "n02")), ("link", ("n03", "n07"))]


def test_two_bad_nodes_and_a_bad_link_are_told_apart():
    pairs = bad(*(("n03", other) for other in NAMES if other != "n03"), *(("n11", other) for other in NAMES if other != "n11"), ("n00", "n01"))
    assert kinds(verdict.blame(pairs, NAMES)) == [("node", ("n03",)), ("node", ("n11",)), ("link", ("n00", "n01"))]


def test_when_nearly_all_is_bad_no_node_is_blamed():
    assert kinds(verdict.blame(bad(*itertools.combinations(NAMES, 2)), NAMES)) == [("fabric", tuple(NAMES))]


def test_two_hosts_cannot_be_told_apart_and_three_can():
    assert kinds(verdict.blame(bad(("a", "b")), ["a", "b"])) == [("pair", ("a", "b"))]
    assert kinds(verdict.blame(bad(("a", "b"), ("a", "c")), ["a", "b", "c"])) == [("node", ("a",))]
    assert kinds(verdict.blame(bad(("a", "b")), ["a", "b", "c"])) == [("link", ("a", "b"))]
    assert verdict.blame(set(), NAMES) == []


# ---- a whole run -------------------------------------------------------------------------------------------------------------

def run(hosts, change=None, fabrics=("ib", "roce")):
    """All measurements of a healthy run; change(item) may spoil one or return None to lose it."""
    texts = {"send_bw": bw_table(97.3), "send_lat": lat_table(1.2)}
    items = [item(fabric, test, texts[test], one, two) for one, two in itertools.combinations(hosts, 2) for fabric in fabrics for test in texts]
    items = [spoilt for spoilt in map(change or (lambda one: one), items) if spoilt]
    rates = {host: {fabric: 100.0 for fabric in fabrics} for host in hosts}
    return verdict.assess(items, hosts, rates, LIMITS, list(fabrics), ["send_bw", "send_lat"])


def test_a_healthy_run_of_16():
    found = run(NAMES)
    assert found["summary"]["status"] == "pass" and found["summary"]["passed"] == found["summary"]["judged"] == 480
    assert {name: part["pairs"] for name, part in found["summary"]["fabrics"].items()} == {"ib": 120, "roce": 120}
    assert len(found["pairs"]) == 240
    table = found["matrix"]["ib"]["send_bw"]
    assert all(table[i][j] == table[j][i] and (table[i][j] is None) == (i == j) for i in range(16) for j in range(16))


def test_pairs_without_a_result_fail_and_point_to_the_silent_node():
    found = run(NAMES[:6], lambda one: None if "n02" in (one["server"], one["client"]) else one)
    assert found["summary"]["failed"] == 20 and kinds(found["blame"]) == [("node", ("n02",)), ("node", ("n02",))]
    assert found["blame"][0]["causes"] == {"missing": 10}


def test_one_bad_fabric_does_not_blame_the_other():
    def spoil(one):
        if one["fabric"] == "roce" and "n01" in (one["server"], one["client"]):
            return dict(one, rows=[], error=dict(cause="memlock", text="Couldn't allocate MR", hint="x"))
        return one
    found = run(NAMES[:5], spoil)
    assert [(one["fabric"], one["kind"], one["names"], one["causes"]) for one in found["blame"]] == [("roce", "node", ["n01"], {"memlock": 8})]
    assert found["summary"]["fabrics"]["ib"]["failed_pairs"] == 0 and found["summary"]["fabrics"]["roce"]["failed_pairs"] == 4


def test_the_lower_of_two_link_rates_counts():
    items = [item("ib", "send_bw", bw_table(55.0), "a", "b")]
    found = verdict.assess(items, ["a", "b"], {"a": {"ib": 100.0}, "b": {"ib": 56.0}}, LIMITS, ["ib"], ["send_bw"])
    assert found["verdicts"][0]["status"] == "pass" and found["verdicts"][0]["limit_value"] == pytest.approx(53.2)


def test_a_measurement_counts_more_than_the_other_ends_failure():
    good, lost = item("ib", "send_bw", bw_table(97.3)), dict(item("ib", "send_bw", error=dict(cause="peer-dead", text="x", hint="y")), by="server")
    for items in ([good, lost], [lost, good]):
        assert verdict.assess(items, ["a", "b"], {"a": {"ib": 100}, "b": {"ib": 100}}, LIMITS, ["ib"], ["send_bw"])["summary"]["failed"] == 0


def test_a_pair_far_from_the_others_is_warned_of_though_it_passes():
    def spoil(one):
        if one["test"] == "send_lat" and {one["server"], one["client"]} == {"n01", "n02"}:
            return item(one["fabric"], "send_lat", lat_table(1.7), one["server"], one["client"])
        return one
    found = run(NAMES[:5], spoil)
    odd = [one for one in found["verdicts"] if one["status"] == "warn"]
    assert {(one["test"], frozenset((one["server"], one["client"]))) for one in odd} == {("send_lat", frozenset(("n01", "n02")))}
    assert odd[0]["warnings"][0]["kind"] == "outlier" and found["summary"]["status"] == "warn"


# ---- failures of the tool ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, cause", [
    ("Couldn't connect to 192.0.2.7:18515\nUnable to open file descriptor for socket connection Unable to init the socket connection\n", "server-not-running"),
    ("IB device mlx5_7 not found\n Unable to find the Infiniband/RoCE device\n", "wrong-device"),
    (" Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n", "port-down"),
    ("Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n", "gid"),
    ("Couldn't allocate MR\nfailed to create mr\n", "memlock"),
    ("Couldn't listen to port 18515\n", "port-busy"),
    (" Failed to modify QP 25 to RTR\n Unable to Connect the HCA's through the link\n", "path"),
    ("Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n", "completion"),
])
def test_failures_have_a_cause_and_a_hint(text, cause):
    found = tables.failure(text, 1)
    assert found["cause"] == cause and found["hint"] and found["text"]


def test_a_hang_is_a_timeout_and_success_is_no_failure():
    assert tables.failure("", None, 120)["cause"] == "timeout"
    assert tables.failure("", -9)["cause"] == tables.failure("half a word", -9)["cause"] == "killed"
    assert tables.failure(bw_table(), 0) is None


def test_only_a_client_that_came_too_early_is_tried_again():
    assert tables.could_not_connect("Couldn't connect to 192.0.2.7:18515\n Unable to init the socket connection\n")
    assert not tables.could_not_connect("Couldn't allocate MR\n") and not tables.could_not_connect("") and not tables.could_not_connect(bw_table())


def test_the_end_that_knows_more_is_believed():
    vague, exact = dict(cause="server-not-running"), dict(cause="memlock")
    assert tables.worse(vague, exact) is exact and tables.worse(exact, vague) is exact
    assert tables.worse(None, exact) is exact and tables.worse(exact, None) is exact
    assert tables.worse(dict(cause="gid"), dict(cause="timeout"))["cause"] == "gid"
    # What a client says whose server was killed under it is not the reason.
    for one, other in (("completion", "killed"), ("killed", "completion"), ("timeout", "killed"), ("killed", "peer-lost")):
        assert tables.worse(dict(cause=one), dict(cause=other))["cause"] == "killed"


def test_the_paper_as_limit_counts_where_it_is_stricter_and_says_which_figure():
    from_paper = limits.resolve(dict(paper_percent=1))
    rows = [[65536, 96.0, 95.1, 0.1]]
    assert verdict.judge_bandwidth("ib", rows, 100.0, LIMITS)["status"] == "pass"
    found = verdict.judge_bandwidth("ib", rows, 100.0, from_paper)
    assert found["status"] == "fail" and found["limit_value"] == pytest.approx(96.18 * 0.99)
    assert "Figure 17" in found["limit_from"] and "user" in found["limit_from"]
    # Far from the paper is no limit of its own: the share of the link rate is stricter then.
    assert "link rate" in verdict.judge_bandwidth("ib", rows, 100.0, limits.resolve(dict(paper_percent=20)))["limit"]
    # The paper says nothing of other ports, and nothing of other sizes.
    assert verdict.judge_bandwidth("ib", [[65536, 190.5, 190.5, 0.1]], 200.0, from_paper)["status"] == "pass"
    assert "link rate" in verdict.judge_bandwidth("ib", rows, 100.0, limits.resolve(dict(paper_percent=1, bandwidth_from_size=4096)))["limit"]
    lat = [[8, 1.9, 4.0, 2.1, 2.1, 0.1, 2.3, 4.0]]
    assert verdict.judge_latency("roce", lat, LIMITS, 100.0)["status"] == "pass"
    found = verdict.judge_latency("roce", lat, limits.resolve(dict(paper_percent=5)), 100.0)
    assert found["status"] == "fail" and found["limit_value"] == pytest.approx(1.95 * 1.05) and "Figure 20" in found["limit_from"]


def test_headers_leave_what_the_mtu_lets_them():
    # 1024 of 1106 bytes, 4096 of 4178, 2048 of 2074: worked out by hand.
    assert verdict.ceiling("roce", 100.0, 1024) == pytest.approx(92.586, abs=1e-3) and verdict.ceiling("roce", 100.0, 4096) == pytest.approx(98.037, abs=1e-3)
    assert verdict.ceiling("ib", 100.0, 2048) == pytest.approx(98.746, abs=1e-3)
    assert [verdict.payload_mtu("roce", mtu) for mtu in (1500, 4200, 9000, 300, None)] == [1024, 4096, 4096, None, None]
    assert [verdict.payload_mtu("ib", mtu) for mtu in (4092, 2044, 65520)] == [4096, 2048, None]


def test_a_limit_that_the_mtu_puts_out_of_reach_is_explained():
    hosts = ["a", "b", "c"]
    ports = {host: {"roce": dict(mtu=1500 if host == "b" else 9000)} for host in hosts}
    rates = {host: {"roce": 100.0} for host in hosts}
    items = [dict(fabric="roce", test="send_bw", server=one, client=two, round=1, error=None,
                  rows=[[65536, 92.0, 91.8 if "b" in (one, two) else 96.0, 0.1]]) for dummy, one, two in schedule.pairs(hosts)]
    found = verdict.assess(items, hosts, rates, LIMITS, ["roce"], ["send_bw"], 0, ports)
    told = [one for one in found["verdicts"] if any(warning["kind"] == "mtu" for warning in one["warnings"])]
    assert len(told) == 2 and all(one["status"] == "fail" and "92.6 of 100 Gb/s" in one["warnings"][-1]["text"] for one in told)
    entry, = found["blame"]
    assert entry["names"] == ["b"] and entry["causes"] == {"mtu": 2} and "b has MTU 1500 (usual: 9000)" in entry["text"]
    # Slow with a good MTU is not the MTU's.
    for host in hosts:
        ports[host]["roce"]["mtu"] = 9000
    assert verdict.assess(items, hosts, rates, LIMITS, ["roce"], ["send_bw"], 0, ports)["blame"][0]["causes"] == {"slow": 2}
