# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import apps
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.samples import sample


def read(app, name):
    return apps.PARSERS[app](sample(app, name))


def warned(found, words):
    return any(words in text for text in found["warnings"])


def left_out(found, words):
    return any(words in one["what"] for one in found["discarded"])


# ---- OpenFOAM ------------------------------------------------------------------------------------------------------------

def test_openfoam_is_wall_clock_time_without_the_start():
    found = read("openfoam", "steady")
    assert (found["value"], found["unit"], found["direction"], found["success"]) == (2.5, "s/iteration", "lower", True)
    assert found["processes"] == 88 and found["figures"]["iterations"] == 61 and left_out(found, "40 s") and not found["warnings"]


def test_openfoam_on_a_busy_host_is_not_made_faster_by_its_cpu_time():
    found = read("openfoam", "busy")
    assert found["value"] == 1.0 and warned(found, "CPU time") and warned(found, "whole seconds")


def test_openfoam_that_did_not_end_is_not_believed():
    found = read("openfoam", "cut")
    assert found["value"] == 2.0 and not found["success"] and warned(found, "not to be believed")
    assert "FATAL" in read("openfoam", "error")["error"]


# ---- WRF -----------------------------------------------------------------------------------------------------------------

def test_wrf_leaves_out_the_first_step_and_files():
    found = read("wrf", "steady")
    assert found["value"] == pytest.approx(0.5, abs=0.002) and found["figures"]["mean_with_first"] == pytest.approx(0.55, abs=0.002)
    assert len(found["series"]) == 59 and left_out(found, "3.5 s") and left_out(found, "15.35 s") and found["processes"] == 88
    assert found["version"] == "3.9.1.1" and found["success"] and found["health"]["status"] == "pass"


def test_wrf_with_stalls_is_told_by_its_steps():
    found = read("wrf", "stalls")
    assert found["health"]["status"] == "warn" and "PFC" in found["health"]["text"] and found["health"]["p99_to_median"] > 8
    assert found["health"]["median"] == pytest.approx(0.25, abs=0.01) and found["value"] > 0.4


def test_wrf_takes_nests_only_once():
    found = read("wrf", "nested")
    assert found["value"] == pytest.approx(0.4, abs=0.002) and len(found["series"]) == 29 and left_out(found, "90 steps of nested domains")


def test_wrf_success_and_error():
    assert not read("wrf", "cut")["success"] and "FATAL" in read("wrf", "error")["error"]


def test_steps_of_public_runs_are_told_apart_by_their_spread():
    """p99/median and cv of WRF on InfiniBand and on a RoCE fabric that stalls, over 1 to 56 nodes."""
    infiniband = [(1.55, 0.083), (1.55, 0.082), (1.51, 0.077), (1.49, 0.076), (1.51, 0.085), (1.48, 0.095), (2.87, 0.37), (1.83, 0.159)]
    stalling = [(4.26, 0.484), (13.1, 1.003), (2.47, 0.842), (2.34, 0.441)]
    assert not any(apps.stalls(*one) for one in infiniband) and all(apps.stalls(*one) for one in stalling)
    assert apps.health([1.0] * 5)["status"] == "none" and apps.health([1.0] * 50)["status"] == "pass"


# ---- LAMMPS --------------------------------------------------------------------------------------------------------------

def test_lammps_rate_is_steps_over_seconds():
    found = read("lammps", "eam")
    assert (found["value"], found["unit"], found["direction"], found["processes"], found["success"]) == (250.0, "timesteps/s", "higher", 88, True)
    assert found["figures"]["atoms"] == 2048000 and found["figures"]["printed"]["ns/day"] == 108 and found["version"] == "10 Mar 2021"


def test_lammps_takes_the_long_loop_and_warns_of_shared_cores():
    found = read("lammps", "two_loops")
    assert found["value"] == 250.0 and left_out(found, "1 shorter") and warned(found, "61 % CPU use")
    assert "Cannot open EAM" in read("lammps", "error")["error"]


# ---- GROMACS -------------------------------------------------------------------------------------------------------------

def test_gromacs():
    found = read("gromacs", "bench")
    assert (found["value"], found["unit"], found["direction"], found["processes"], found["version"]) == (4.32, "ns/day", "higher", 88, "2020.5")
    assert found["success"] and not found["warnings"] and left_out(found, "first 5000 steps")
    assert warned(read("gromacs", "old_simd"), "built for SSE4.1") and not read("gromacs", "cut")["success"]
    assert read("gromacs", "error")["error"].startswith("Fatal error: There is no domain decomposition")


# ---- NAMD ----------------------------------------------------------------------------------------------------------------

def test_namd_reads_the_unit_of_the_line():
    old, new = read("namd", "days_per_ns"), read("namd", "ns_per_day")
    assert old["value"] == new["value"] == 4.0 and old["unit"] == "ns/day" and old["figures"]["printed_unit"] == "days/ns" and not old["warnings"]
    assert old["figures"]["benchmarks"] == 2 and old["series"] == [0.0434] and old["version"] == "2.14"
    assert warned(read("namd", "wrong_unit"), "make 2") and "UNABLE TO OPEN" in read("namd", "error")["error"]


# ---- a program of one's own ------------------------------------------------------------------------------------------------

OWN = dict(figure_of_merit=dict(regex=r"^GFLOP/s rating of:\s*([\d.]+)", unit="GFLOP/s", direction="higher"), success="Benchmark Successful",
           series=r"^iteration \d+ took ([\d.]+)", error="^Segmentation")
LOG = "iteration 1 took 9.0\n" + "".join("iteration %d took 1.0\n" % number for number in range(2, 40)) + "GFLOP/s rating of: 17.25\nBenchmark Successful\n"


def test_an_application_in_a_few_lines():
    found = apps.parse("hpcg", OWN, LOG)
    assert (found["app"], found["value"], found["unit"], found["direction"], found["success"]) == ("hpcg", 17.25, "GFLOP/s", "higher", True)
    assert found["health"]["steps"] == 39 and apps.parse("hpcg", dict(OWN, discard=1), LOG)["series"] == [1.0] * 38
    broken = apps.parse("hpcg", OWN, LOG.replace("Benchmark Successful", "Segmentation fault"))
    assert not broken["success"] and broken["error"].startswith("Segmentation") and warned(broken, "not to be believed")
    assert apps.parse("x", dict(OWN, figure_of_merit=dict(regex=r"took ([\d.]+)", unit="s", direction="lower", pick="mean"), discard=1), LOG)["value"] == 1.0
    assert apps.parse("mywrf", dict(parser="wrf"), sample("wrf", "steady"))["app"] == "mywrf"


@pytest.mark.parametrize("change, words", [
    (dict(success=None), "success is missing"), (dict(figure_of_merit=dict(regex="(x)", unit="s")), "direction is missing"),
    (dict(figure_of_merit=dict(regex="x", unit="s", direction="lower")), "no group"), (dict(parser="abinit"), "abinit"),
    (dict(colour="red"), "unknown key colour"),
    (dict(figure_of_merit=dict(regex="(x", unit="s", direction="lower")), "no regular expression"),
])
def test_a_definition_that_cannot_work_is_refused(change, words):
    with pytest.raises(RdmaError, match=words):
        apps.parse("mine", dict(OWN, **change), LOG)


@pytest.mark.parametrize("app", sorted(apps.PARSERS))
def test_foreign_text_is_refused(app):
    with pytest.raises(ParseError):
        apps.PARSERS[app]("nothing of the kind\n")


# ---- ucx_perftest --------------------------------------------------------------------------------------------------------

def test_ucx_bandwidth_is_gigabits_of_real_megabytes():
    found = read("ucx", "tag_bw")
    row = found["figures"]
    assert (found["unit"], found["direction"], found["success"]) == ("Gb/s", "higher", True) and row["iterations"] == 100000
    assert found["value"] == pytest.approx(row["overall_rate"] * 65536 * 8 / 1e9, rel=1e-3)


def test_ucx_latency_is_microseconds_and_a_disturbed_run_is_told():
    found = read("ucx", "tag_lat")
    assert (found["unit"], found["direction"], found["value"]) == ("us", "lower", 1.219) and not found["warnings"]
    held_up = apps.parse_ucx(sample("ucx", "held_up"))
    assert held_up["value"] == 1765.287 and held_up["success"] and warned(held_up, "held up")


def test_ucx_of_a_cut_run_and_of_no_server():
    text = sample("ucx", "csv")
    assert apps.parse_ucx(text)["success"] and apps.parse_ucx(text)["unit"] == "Gb/s"
    cut = apps.parse_ucx("\n".join(text.splitlines()[:2]))
    assert cut["value"] and not cut["success"] and warned(cut, "not to be believed")
    error = read("ucx", "err_connect")
    assert error["value"] is None and not error["success"] and "Connection refused" in error["error"]
