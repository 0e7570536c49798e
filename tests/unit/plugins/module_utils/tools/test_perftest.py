# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import perftest
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample


def run(name):
    return perftest.parse(sample("perftest", name))


def test_bandwidth_table_header_and_addresses():
    out = run("bw_ib_gbits")
    assert (out["test"], out["kind"], out["unit"]) == ("Send BW Test", "bw", "Gb/sec")
    assert out["header"]["Device"] == "mlx5_0" and out["header"]["Link type"] == "IB" and out["header"]["Data ex. method"] == "Ethernet"
    assert out["header"]["ibv_wr* API"] == "ON" and out["header"]["Transport type"] == "IB" and out["header"]["rdma_cm QPs"] == "OFF"
    assert [row["bytes"] for row in out["rows"]] == [2, 64, 1024, 8192, 65536, 1048576, 8388608]
    assert set(out["rows"][0]) == {"bytes", "iterations", "bw_peak", "bw_average", "msg_rate"}
    assert [(a["side"], a["lid"], a["qpn"]) for a in out["addresses"]] == [("local", "0x14", "0x004b"), ("remote", "0x15", "0x004c")]
    assert "error" not in out and out["warnings"] == []


@pytest.mark.parametrize("name", ["bw_ib_gbits", "bw_roce_mb", "bw_mib_2024", "bw_server", "bw_cpu_notice", "bw_duration", "bw_rdmacm", "bw_small"])
def test_average_is_message_rate_times_size(name):
    out = run(name)
    assert out["rows"]
    for row in out["rows"]:
        expected = row["msg_rate"] * 1e6 * row["bytes"] * 8 / 1e9
        assert perftest.gbits(row["bw_average"], out["unit"]) == pytest.approx(expected, rel=1e-3, abs=0.005)


def test_gid_lines_belong_to_their_address():
    local, remote = run("bw_roce_mb")["addresses"]
    assert local["gid"].endswith("192:168:60:11") and remote["gid"].endswith("192:168:60:12")


def test_units_come_from_the_header():
    assert run("bw_roce_mb")["unit"] == "MB/sec" and run("bw_mib_2024")["unit"] == "MiB/sec"
    assert perftest.gbits(1000, "MB/sec") == perftest.gbits(1000, "MiB/sec") == pytest.approx(8.388608)
    assert perftest.gbits(95.5, "Gb/sec") == 95.5 and perftest.gbits(1, "furlong") is None and perftest.gbits(None, "Gb/sec") is None


def test_new_header_keys_are_kept():
    header = run("bw_mib_2024")["header"]
    assert header["Lock-free"] == "OFF" and header["Using DDP"] == "OFF" and header["PCIe relax order"] == "ON"
    assert run("bw_rdmacm")["header"]["TOS"] == "41" and run("bw_rdmacm")["header"]["Data ex. method"] == "rdma_cm"
    assert run("bw_duration")["header"]["Outstand reads"] == "16"


def test_server_side_has_no_peak():
    out = run("bw_server")
    assert out["header"]["RX depth"] == "512" and {row["bw_peak"] for row in out["rows"]} == {0.0} and out["rows"][-1]["bw_average"] > 90


def test_small_rates_have_six_decimals():
    assert run("bw_small")["rows"][0]["bw_average"] == 0.156004 and run("bw_small")["rows"][1]["bw_average"] == 0.31


def test_notices_between_header_and_rows_are_warnings():
    out = run("bw_cpu_notice")
    assert len(out["warnings"]) == 2 and len(out["rows"]) == 1 and "error" not in out
    assert run("bw_duration")["warnings"] == ["WARNING: BW peak won't be measured in this run."]


def test_client_and_server_on_one_terminal():
    out = run("bw_interleaved")
    assert out["interleaved"] is True and [row["bytes"] for row in out["rows"]] == [2, 4] and len(out["addresses"]) == 2


@pytest.mark.parametrize("name", ["bw_squeezed", "bw_glued"])
def test_lost_blanks(name):
    out = run(name)
    assert out["rows"] == [{"bytes": 65536, "iterations": 1000, "bw_peak": 96.02, "bw_average": 95.89, "msg_rate": 0.1829}]
    assert out["header"]["Device"] == "mlx5_0" and out["header"]["Dual-port"] == "OFF" and out["header"]["Mtu"] == "4096[B]"


def test_latency_table():
    out = run("lat_ib")
    assert (out["kind"], out["unit"]) == ("lat", "usec")
    assert out["rows"][1] == {"bytes": 8, "iterations": 1000, "t_min": 1.03, "t_max": 3.3, "t_typical": 1.07, "t_avg": 1.08, "t_stdev": 0.1, "p99": 1.2,
                              "p99_9": 3.3}
    assert run("lat_paper_heads")["rows"][0]["p99_9"] == 8.7 and run("lat_paper_heads")["rows"][0]["p99"] == 2.3


def test_glued_latency_columns_are_cut_by_their_decimals():
    (row,) = run("lat_glued")["rows"]
    assert (row["t_stdev"], row["p99"], row["p99_9"]) == (2470.1, 1220.6, 38330.7)


def test_a_deviation_that_is_no_number():
    (row,) = run("lat_nan")["rows"]
    assert row["t_stdev"] is None and row["p99"] == 1619.1


def test_older_and_duration_latency_have_other_columns():
    assert run("lat_old")["rows"] == [{"bytes": 2, "iterations": 20000, "t_min": 0.87, "t_max": 6.8, "t_typical": 0.97}]
    assert run("lat_duration")["rows"] == [{"bytes": 2, "iterations": 4501234, "t_avg": 1.11, "tps": 450123.4}]


@pytest.mark.parametrize("name, kind", [
    ("err_connect", "connect"), ("err_no_device", "no_device"), ("err_port_down", "port_down"), ("err_rtr", "rtr"), ("err_completion", "completion"),
    ("err_completion_new", "completion"), ("err_limit", "limit"), ("err_duration_all", "options"), ("err_capabilities", "capabilities"), ("err_gid", "gid"),
    ("err_memlock", "memlock"), ("err_listen", "listen")])
def test_failures_have_a_kind(name, kind):
    error = run(name)["error"]
    assert error["kind"] == kind and error["text"]


@pytest.mark.parametrize("text, kind, first", [
    (" Bidirectional is only available in BW test\n Parser function exited with Error\n", "options", "Bidirectional is only"),
    (" Message Size should be between 1 and 2147483647\n Parser function exited with Error\n", "options", "Message Size"),
    ("ib_send_bw: unrecognized option '--foo'\n Invalid Command or flag.\n\nUsage:\n  ib_send_bw            start a server\n", "options", "ib_send_bw: unrec"),
    ("Temporary failure in name resolution for vm99:18515\nProblem in resolving basic address and port\n", "resolve", "Temporary failure"),
    (" Unexpected CM event bl blka 8\n Unable to perform rdma_client function\n Unable to init the socket connection\n", "connect", "Unexpected CM event"),
    ("Failed to connect RDMA CM client, tried 10 times.\nFailed to create RDMA CM connection with resources.\n", "connect", "Failed to connect"),
    ("ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm\n", "peer_lost", "ethernet_read_keys"),
    (" Unable to query port 2 attributes\n Couldn't set the link layer\n Couldn't get context for the device\n", "port", "Unable to query"),
    ("IB device mlx5_7 not found\n Unable to find the Infiniband/RoCE device\n", "no_device", "IB device mlx5_7"),
    ("Error: Msg rate  is below msg_rate limit\n", "limit", "Error: Msg rate")])
def test_the_cause_wins_over_what_follows_from_it(text, kind, first):
    error = perftest.parse(text)["error"]
    assert error["kind"] == kind and error["text"].startswith(first)


def test_completion_error_in_both_wordings():
    for name in ("err_completion", "err_completion_new"):
        error = run(name)["error"]
        assert (error["status"], error["syndrome"], error["side"]) == (12, "0x81", "client")
    assert run("err_completion_new")["error"]["status_text"] == "transport retry counter exceeded"
    assert run("err_completion")["rows"] == [] and run("err_completion")["header"]["GID index"] == "3"


def test_a_missed_limit_keeps_its_row():
    assert len(run("err_limit")["rows"]) == 1


def test_version_and_prompt():
    assert run("version")["version"] == "6.21"
    assert run("prompt")["command"] == "ib_send_lat -a -d mlx5_0 vm08" and len(run("prompt")["rows"]) == 1


def test_json_valid_and_as_old_versions_write_it():
    out = run("json")
    assert out["rows"] == [{"bytes": 65536, "iterations": 1000, "bw_peak": 96.02, "bw_average": 95.89, "msg_rate": 0.1829}] and out["kind"] == "bw"
    assert out["unit"] == ""  # the file does not say it
    out = run("json_invalid")
    assert out["kind"] == "lat" and out["header"]["Device"] == "mlx5_0" and out["header"]["TX_depth"] == 1
    assert out["rows"] == [{"bytes": 2, "iterations": 1000, "t_min": 1.03, "t_max": 4.9, "t_typical": 1.08, "t_avg": 1.09, "t_stdev": 0.11, "p99": 1.26,
                            "p99_9": 4.9}]


def test_both_sides_get_the_same_arguments_and_the_client_the_server():
    server = perftest.args("mlx5_1", gid_index=3, all_sizes=True, tcp_port=18515)
    assert server == ["-d", "mlx5_1", "-x", "3", "-p", "18515", "-a", "--report_gbits", "-F"]
    assert perftest.args("mlx5_1", "192.168.60.11", gid_index=3, all_sizes=True, tcp_port=18515) == server + ["192.168.60.11"]
    assert perftest.args("mlx5_0", size=65536, iterations=5000, report_gbits=False) == ["-d", "mlx5_0", "-n", "5000", "-s", "65536", "-F"]


def test_foreign_text():
    for text in ("", "Failed to do something\n", "   Version: 7.0.2\n   Build: 1\n", "{}", "65536 1000 1.0 1.0 1.0\n"):
        with pytest.raises(ParseError):
            perftest.parse(text)
