# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import imb, osu
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample


def run(name):
    return osu.parse(sample("osu", name))


@pytest.mark.parametrize("name, version, pairs, datatype", [
    ("mbw_mr_56", "5.7.1", 44, ""), ("mbw_mr_70", "7.0", 2, ""), ("mbw_mr_71_datatype_after", "7.1", 44, "MPI_CHAR"), ("mbw_mr_c", "7.4", 1, "MPI_CHAR")])
def test_mbw_mr_of_all_versions(name, version, pairs, datatype):
    out = run(name)
    assert (out["benchmark"], out["version"], out["pairs"], out["window_size"], out["datatype"]) == ("mbw_mr", version, pairs, 64, datatype)
    assert len(out["runs"]) == 1 and [row["size"] for row in out["rows"]] == [1, 2, 4, 8, 64, 1024]
    for row in out["rows"]:
        assert row["bandwidth"] == pytest.approx(row["message_rate"] * row["size"] / 1e6, rel=1e-3)
    assert osu.gbits(out["rows"][-1]["bandwidth"]) == pytest.approx(91.75, rel=1e-3)


def test_validation_column():
    out = run("mbw_mr_c")
    assert [row["validation"] for row in out["rows"]][-2:] == ["Pass", "Fail"] and out["error"] == "data validation failed"
    assert run("err_validation")["error"].startswith("DATA VALIDATION ERROR")


def test_latency_columns_are_read_from_the_header():
    assert run("latency_5")["rows"][0] == {"size": 0, "latency": 1.2} and run("latency_5")["units"] == {"latency": "us"}
    assert run("latency_z")["rows"][0] == {"size": 1, "latency": 1.3, "latency_p50": 1.28, "latency_p99_9": 2.31}
    assert run("allreduce_f")["rows"][0] == {"size": 4, "latency": 3.1, "latency_min": 2.5, "latency_max": 3.8, "iterations": 1000}
    assert run("allreduce_f_squeezed")["rows"] == run("allreduce_f")["rows"][:1]
    assert run("barrier")["rows"] == [{"latency": 3.21}]


def test_log_lines_are_no_rows():
    assert run("bw_log_lines")["rows"] == [{"size": 1, "bandwidth": 7.1}, {"size": 2, "bandwidth": 14.2}]
    assert run("bw_squeezed")["rows"][1] == {"size": 4194304, "bandwidth": 12160.4}


def test_a_matrix_of_windows():
    out = run("mbw_mr_windows")
    assert out["windows"] == [8, 16, 32] and out["rows"][1] == {"size": 2, "bandwidth_w8": 3.7, "bandwidth_w16": 5.2, "bandwidth_w32": 4.2}
    assert out["runs"][1]["rows"] == [{"size": 1, "message_rate_w8": 1.9e6, "message_rate_w16": 2.7e6, "message_rate_w32": 2.1e6}]


def test_two_tests_in_one_log():
    assert [one["benchmark"] for one in run("two_tests")["runs"]] == ["bw", "latency"]


def test_failures():
    assert run("err_processes")["error"] == "This test requires exactly two processes"
    assert run("err_start")["error"] == "2 total processes failed to start"
    assert "Bus error" in run("err_signal")["error"] and len(run("err_signal")["rows"]) == 1
    assert run("cut")["rows"] == [] and run("cut")["columns"] == ["size", "bandwidth", "message_rate"]
    for text in ("", "# some other benchmark v1\n1 2.0\n", "hello\n"):
        with pytest.raises(ParseError):
            osu.parse(text)


def test_imb():
    out = imb.parse(sample("imb", "four"))
    assert out["version"] == "2021.10" and out["command"].startswith("mpitests-IMB-MPI1")
    assert [(bench["name"], bench["processes"], len(bench["rows"])) for bench in out["benchmarks"]] == [
        ("PingPong", 2, 3), ("Uniband", 8, 2), ("Biband", 8, 1), ("Allreduce", 4, 2)]
    pingpong, uniband, dummy, allreduce = out["benchmarks"]
    assert pingpong["rows"][2] == {"bytes": 4194304, "repetitions": 10, "t": 360.1, "bandwidth": 11647.61} and pingpong["units"]["t"] == "usec"
    assert uniband["rows"][1] == {"bytes": 4096, "repetitions": 1000, "bandwidth": 11801.2, "message_rate": 2881152}
    assert allreduce["rows"][1] == {"bytes": 4, "repetitions": 1000, "t_min": 2.21, "t_max": 2.4, "t_avg": 2.3}


def test_imb_errors_and_foreign_text():
    assert "PingPing2" in imb.parse(sample("imb", "error"))["error"]
    with pytest.raises(ParseError):
        imb.parse("#bytes #repetitions\n")
