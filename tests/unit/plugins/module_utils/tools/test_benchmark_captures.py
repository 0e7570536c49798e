# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Numbers that a person read in real outputs of perftest, OSU, IMB, ucx_perftest and applications, against what the parsers read.

The outputs are looked for as in test_captures.py; without them these tests are skipped.
"""

import csv
import io
import os

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import stats, tables
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import apps, imb, osu, perftest
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.test_captures import CAPTURES, captures, output, tool_of

FOLDER = os.path.join(CAPTURES, "benchmarks")
pytestmark = pytest.mark.skipif(not os.path.isdir(FOLDER), reason="no outputs of benchmarks at %s (set VHPC_RDMA_CAPTURES)" % FOLDER)
IB, ROCE = "stackhpc/alaska_ib-gcc9-openmpi4-ucx/", "stackhpc/alaska_roce-gcc9-openmpi4-ucx/"

# file, benchmark, version, pairs, size, column, value
OSU = [
    ("omb5.3-allreduce.txt", "allreduce", "5.3", None, 8, "latency", 15.31), ("omb5.3-allreduce.txt", "allreduce", "5.3", None, 1048576, "latency", 2289.12),
    ("omb5.3-allreduce_f.txt", "allreduce", "5.3", None, 1048576, "latency_max", 2023.91),
    ("omb5.3-allreduce_f.txt", "allreduce", "5.3", None, 8, "latency_min", 0.17), ("omb5.3-allreduce_f.txt", "allreduce", "5.3", None, 64, "iterations", 20),
    ("omb5.3-bw.txt", "bw", "5.3", None, 4194304, "bandwidth", 1725.7), ("omb5.3-bw.txt", "bw", "5.3", None, 1, "bandwidth", 1.09),
    ("omb5.3-mbw_mr.txt", "mbw_mr", "5.3", 1, 4096, "bandwidth", 403.2), ("omb5.3-mbw_mr.txt", "mbw_mr", "5.3", 1, 1048576, "message_rate", 2980.38),
    ("omb7.0-allreduce.txt", "allreduce", "7.0", None, 4096, "latency", 11.2),
    ("omb7.0-allreduce_f.txt", "allreduce", "7.0", None, 1024, "latency_max", 4.79),
    ("omb7.0-allreduce_fc.txt", "allreduce", "7.0", None, 8, "latency", 31.2),
    ("omb7.0-allreduce_fc.txt", "allreduce", "7.0", None, 1024, "validation", "Pass"),
    ("omb7.0-latency.txt", "latency", "7.0", None, 65536, "latency", 8.83), ("omb7.0-latency_c.txt", "latency", "7.0", None, 8, "latency", 2.98),
    ("omb7.0-mbw_mr.txt", "mbw_mr", "7.0", 1, 1024, "bandwidth", 4167.54), ("omb7.0-mbw_mr.txt", "mbw_mr", "7.0", 1, 65536, "message_rate", 25972.32),
    ("omb7.4-allreduce.txt", "allreduce", "7.4", None, 64, "latency", 38.75), ("omb7.4-allreduce_f.txt", "allreduce", "7.4", None, 4096, "latency_min", 8.49),
    ("omb7.4-allreduce_fc.txt", "allreduce", "7.4", None, 8, "latency_max", 305.01),
    ("omb7.4-latency.txt", "latency", "7.4", None, 8, "latency", 0.59), ("omb7.4-latency.txt", "latency", "7.4", None, 65536, "latency", 7.98),
    ("omb7.4-latency_T.txt", "latency", "7.4", None, 1024, "latency", 2.92), ("omb7.4-latency_c.txt", "latency", "7.4", None, 4096, "latency", 32.72),
    ("omb7.4-latency_zlist.txt", "latency", "7.4", None, 1, "latency_p99", 3.31),
    ("omb7.4-latency_zlist.txt", "latency", "7.4", None, 1024, "latency_p50", 1.94),
    ("omb7.4-latency_zlist.txt", "latency", "7.4", None, 8, "latency", 1.76),
    ("omb7.4-mbw_mr.txt", "mbw_mr", "7.4", 1, 1024, "bandwidth", 2544.46), ("omb7.4-mbw_mr.txt", "mbw_mr", "7.4", 1, 8, "message_rate", 8258703.9),
    ("omb7.4-mbw_mr_c.txt", "mbw_mr", "7.4", 1, 256, "bandwidth", 17.99), ("omb7.4-mbw_mr_c.txt", "mbw_mr", "7.4", 1, 1, "validation", "Pass"),
    ("repeat5/mbw_mr_np2_run1.txt", "mbw_mr", "7.4", 1, 1, "bandwidth", 7.26), ("repeat5/mbw_mr_np2_run3.txt", "mbw_mr", "7.4", 1, 1, "bandwidth", 0.1),
    ("repeat5/mbw_mr_np2_run4.txt", "mbw_mr", "7.4", 1, 1, "bandwidth", 0.02), ("repeat5/mbw_mr_np2_run5.txt", "mbw_mr", "7.4", 1, 1, "bandwidth", 7.31),
    (IB + "Osu_allgather.txt", "allgather", "5.6.2", None, 8, "latency", 7.33), (IB + "Osu_allreduce.txt", "allreduce", "5.6.2", None, 8, "latency", 5.89),
    (IB + "Osu_alltoall.txt", "alltoall", "5.6.2", None, 8, "latency", 33.01), (IB + "Osu_bibw.txt", "bibw", "5.6.2", None, 4194304, "bandwidth", 20799.1),
    (IB + "Osu_bw.txt", "bw", "5.6.2", None, 4194304, "bandwidth", 12164.86), (IB + "Osu_latency.txt", "latency", "5.6.2", None, 8, "latency", 1.02),
    (IB + "Osu_mbw_mr_16.txt", "mbw_mr", "5.6.2", 8, 8, "message_rate", 54825405.31),
    (IB + "Osu_mbw_mr_1_0.txt", "mbw_mr", "5.6.2", 32, 4194304, "bandwidth", 12050.5),
    (IB + "Osu_mbw_mr_2.txt", "mbw_mr", "5.6.2", 1, 8, "bandwidth", 62.4), (IB + "Osu_mbw_mr_32.txt", "mbw_mr", "5.6.2", 16, 8, "bandwidth", 887.29),
    (IB + "Osu_mbw_mr_4.txt", "mbw_mr", "5.6.2", 2, 1048576, "bandwidth", 12392.27), (IB + "Osu_mbw_mr_64.txt", "mbw_mr", "5.6.2", 32, 8, "bandwidth", 659.76),
    (IB + "Osu_mbw_mr_8.txt", "mbw_mr", "5.6.2", 4, 8, "bandwidth", 197.52), (IB + "Osu_mbw_mr__1.txt", "mbw_mr", "5.6.2", 1, 8, "bandwidth", 62.93),
    (IB + "Osu_mbw_mr__16.txt", "mbw_mr", "5.6.2", 16, 8, "bandwidth", 806.61), (IB + "Osu_mbw_mr__2.txt", "mbw_mr", "5.6.2", 2, 8, "bandwidth", 126.05),
    (IB + "Osu_mbw_mr__32.txt", "mbw_mr", "5.6.2", 32, 8, "bandwidth", 665.27), (IB + "Osu_mbw_mr__4.txt", "mbw_mr", "5.6.2", 4, 8, "bandwidth", 231.17),
    (IB + "Osu_mbw_mr__8.txt", "mbw_mr", "5.6.2", 8, 8, "bandwidth", 466.3),
    (ROCE + "Osu_allgather.txt", "allgather", "5.6.2", None, 8, "latency", 12.38), (ROCE + "Osu_allreduce.txt", "allreduce", "5.6.2", None, 8, "latency", 6.07),
    (ROCE + "Osu_alltoall.txt", "alltoall", "5.6.2", None, 1048576, "latency", 354525.59),
    (ROCE + "Osu_bibw.txt", "bibw", "5.6.2", None, 8, "bandwidth", 73.74),
    (ROCE + "Osu_bw.txt", "bw", "5.6.2", None, 4194304, "bandwidth", 3063.09), (ROCE + "Osu_latency.txt", "latency", "5.6.2", None, 8, "latency", 1.38),
    (ROCE + "Osu_mbw_mr_16.txt", "mbw_mr", "5.6.2", 8, 8, "bandwidth", 242.99), (ROCE + "Osu_mbw_mr_1_0.txt", "mbw_mr", "5.6.2", 32, 8, "bandwidth", 243.25),
    (ROCE + "Osu_mbw_mr_2.txt", "mbw_mr", "5.6.2", 1, 8, "message_rate", 5765558.0),
    (ROCE + "Osu_mbw_mr_32.txt", "mbw_mr", "5.6.2", 16, 4194304, "message_rate", 730.42),
    (ROCE + "Osu_mbw_mr_4.txt", "mbw_mr", "5.6.2", 2, 8, "bandwidth", 82.51), (ROCE + "Osu_mbw_mr_64.txt", "mbw_mr", "5.6.2", 32, 8, "bandwidth", 241.19),
    (ROCE + "Osu_mbw_mr_8.txt", "mbw_mr", "5.6.2", 4, 8, "bandwidth", 193.24), (ROCE + "Osu_mbw_mr__1.txt", "mbw_mr", "5.6.2", 1, 8, "bandwidth", 49.53),
    (ROCE + "Osu_mbw_mr__16.txt", "mbw_mr", "5.6.2", 16, 8, "bandwidth", 242.51), (ROCE + "Osu_mbw_mr__2.txt", "mbw_mr", "5.6.2", 2, 8, "bandwidth", 97.5),
    (ROCE + "Osu_mbw_mr__32.txt", "mbw_mr", "5.6.2", 32, 8, "bandwidth", 242.93), (ROCE + "Osu_mbw_mr__4.txt", "mbw_mr", "5.6.2", 4, 8, "bandwidth", 196.77),
    (ROCE + "Osu_mbw_mr__8.txt", "mbw_mr", "5.6.2", 8, 8, "bandwidth", 241.4),
]
IMB = [("PingPong", 8, "t", 1.91), ("PingPong", 65536, "bandwidth", 19280.7), ("Uniband", 1024, "bandwidth", 5905.09),
       ("Uniband", 1024, "message_rate", 5766686),
       ("Biband", 2, "bandwidth", 22.03), ("Biband", 65536, "repetitions", 6), ("Allreduce", 65536, "t_avg", 5.16), ("Allreduce", 8, "t_max", 0.25)]


# The same of the folders osu and perftest, and of perftest over soft-RoCE between two virtual machines.
MORE_OSU = [
    ("01-mbw_mr-562-ib-8pairs.txt", "mbw_mr", "5.6.2", 8, 65536, "bandwidth", 12323.43),
    ("03-mbw_mr-563-roce-16pairs.txt", "mbw_mr", "5.6.3", 16, 4096, "message_rate", 1380474.53),
    ("04-mbw_mr-563-ib-fullnode.txt", "mbw_mr", "5.6.3", None, 128, "bandwidth", 1742.1),
    ("06-bw-562-ib.txt", "bw", "5.6.2", None, 4096, "bandwidth", 9660.55), ("07-latency-562-roce.txt", "latency", "5.6.2", None, 65536, "latency", 31.5),
    ("09-bibw-563-ib.txt", "bibw", "5.6.3", None, 256, "bandwidth", 831.06),
    ("10-mbw_mr-74-datatype-fixture.txt", "mbw_mr", "7.4", 1, 4194304, "message_rate", 6414.24),
    ("12-mbw_mr-752-gh200-head.txt", "mbw_mr", "7.5.2", 4, 256, "bandwidth", 2361.93),
    ("13-mbw_mr-71-header-reordered-1024pairs.txt", "mbw_mr", "7.1", 1024, 64, "message_rate", 2132627440.68),
    ("16-bw-541-host-head.txt", "bw", "5.4.1", None, 128, "bandwidth", 48.93), ("18-local-mbw_mr-53-1pair.txt", "mbw_mr", "5.3", 1, 1024, "bandwidth", 135.16),
    ("19-local-mbw_mr-53-odd-3procs.txt", "mbw_mr", "5.3", 1, 65536, "message_rate", 60949.82),
    ("25-local-bw-53.txt", "bw", "5.3", None, 256, "bandwidth", 7.07), ("27-local-bibw-53.txt", "bibw", "5.3", None, 262144, "bandwidth", 1991.69),
]
OSU_ERRORS = [("21-local-bw-53-err-one-process.txt", "exactly two processes"), ("22-local-latency-53-err-three.txt", "exactly two processes"),
              ("24-local-mbw_mr-53-crash-window0.txt", "Floating point exception")]
# file, kind, rows, size, column, value
PERFTEST = [
    ("perftest/06-write_bw-cuda-dmabuf-rdmacm-16qp-client.txt", "bw", 1, 65536, "bw_average", 181.46),
    ("perftest/07-write_bw-cuda-dmabuf-rdmacm-16qp-server.txt", "bw", 1, 65536, "iterations", 10384867),
    ("perftest/09-send_bw-a-ib-hdr-server-peak0.txt", "bw", 23, 32768, "bw_average", 17976.4),
    ("perftest/09-send_bw-a-ib-hdr-server-peak0.txt", "bw", 23, 8388608, "msg_rate", 0.002928),
    ("perftest/10-send_bw-cpufreq-conflict-in-table.txt", "bw", 1, 1024, "bw_average", 264.94),
    ("perftest/12-send_bw-bnxt-rocep-gbits.txt", "bw", 1, 65536, "bw_peak", 9.81),
    ("perftest/13-send_bw-rxe-softroce.txt", "bw", 1, 65536, "bw_average", 194.8),
    ("perftest/16-send_lat-rxe-glued-columns.txt", "lat", 1, 2, "t_stdev", 2465.9), ("perftest/16-send_lat-rxe-glued-columns.txt", "lat", 1, 2, "p99", 1216.65),
    ("perftest/18-write_lat-ib-old-20000it-head.txt", "lat", 4, 8, "t_max", 9.06),
    ("perftest/19-write_lat-rdmacm-linktype-ib-lid0.txt", "lat", 1, 2, "t_typical", 1.47),
    ("perftest/21-write_bw-loopback-interleaved-all.txt", "bw", 23, 16384, "bw_average", 16782.5),
    ("perftest/22-write_bw-rdmacm-roce-indented-cpufreq.txt", "bw", 1, 65536, "bw_average", 92.4),
    ("perftest/24-write-bw-bidir-4qp-all-vendor-fork.txt", "bw", None, 65536, "bw_average", 775.25),
    ("perftest/27-json-write-bw-roce-rocm.txt", "bw", 1, 65536, "bw_average", 2229.27),
    ("soft-roce/send_bw_n.client.txt", "bw", 1, 65536, "bw_peak", 0.012173), ("soft-roce/send_lat_n.client.txt", "lat", 1, 2, "t_typical", 10528.26),
    ("soft-roce/write_lat.client.txt", "lat", 1, 2, "t_avg", 4883.88), ("soft-roce/read_bw.client.txt", "bw", 1, 65536, "bw_average", 1.62),
    ("soft-roce/send_bw_bidir.client.txt", "bw", 1, 65536, "bw_average", 0.014677),
    ("soft-roce/send_bw_n_mtu9000.client.txt", "bw", 1, 65536, "bw_peak", 0.092011),
    ("soft-roce/quiet/bw_1000.client.txt", "bw", 1, 65536, "msg_rate", 0.00044), ("soft-roce/quiet/lat_1000.client.txt", "lat", 1, 2, "p99", 4004.44),
    ("soft-roce/quiet/bw_D5.client.txt", "bw", 1, 65536, "iterations", 1171), ("soft-roce/quiet/bw_a_n5.client.txt", "bw", 23, 8388608, "bw_average", 0.2),
]
# What went wrong, as a person calls it who knows how the failure was made.
CAUSES = [
    ("perftest/03-local-err-lat-no-device.txt", "wrong-device"), ("perftest/04-local-err-all-with-duration.txt", "options"),
    ("perftest/15-err-completion-status12-syndrom81.rekeyed.txt", "completion"), ("perftest/25-client-couldnt-connect.txt", "server-not-running"),
    ("soft-roce/fail_bad_host.client.txt", "name"), ("soft-roce/fail_gid_empty_both.client.txt", "path"), ("soft-roce/fail_memlock2.client.txt", "memlock"),
    ("soft-roce/fail_no_server.client.txt", "server-not-running"), ("soft-roce/fail_port_in_use.server.txt", "port-busy"),
    ("soft-roce/fail_tool_mismatch.client.txt", "tool-mismatch"), ("soft-roce/fail_wrong_device.client.txt", "wrong-device"),
]


def text(name):
    with io.open(os.path.join(FOLDER, name), encoding="utf-8", errors="replace") as handle:
        return handle.read()


@pytest.mark.parametrize("name, benchmark, version, pairs, size, column, value", OSU)
def test_osu(name, benchmark, version, pairs, size, column, value):
    found = osu.parse(text("osu/" + name))
    assert (found["benchmark"], found["version"], found["pairs"]) == (benchmark, version, pairs)
    assert [row[column] for row in found["rows"] if row["size"] == size] == [value]


@pytest.mark.parametrize("name, benchmark, version, pairs, size, column, value", MORE_OSU)
def test_osu_of_other_sites(name, benchmark, version, pairs, size, column, value):
    found = osu.parse(output("osu/" + name))
    run = next(one for one in found["runs"] if one["rows"])
    assert (run["benchmark"], found["version"]) == (benchmark, version) and (pairs is None or run["pairs"] == pairs)
    assert [row[column] for row in run["rows"] if row["size"] == size] == [value]


@pytest.mark.parametrize("name, words", OSU_ERRORS)
def test_osu_that_failed(name, words):
    assert words in osu.parse(output("osu/" + name))["error"]


@pytest.mark.parametrize("name, kind, count, size, column, value", PERFTEST)
def test_perftest(name, kind, count, size, column, value):
    found = perftest.parse(output(name))
    assert found["kind"] == kind and (count is None or len(found["rows"]) == count) and not found.get("error")
    assert value in [row[column] for row in found["rows"] if row["bytes"] == size]


@pytest.mark.parametrize("name, cause", CAUSES)
def test_causes_of_failures(name, cause):
    assert tables.failure(output(name), 1)["cause"] == cause


def test_the_version_of_perftest():
    assert perftest.parse(output("perftest/01-local-version.txt"))["version"] == "6.06"


def test_ucx_perftest():
    found = apps.parse_ucx(text("osu/ucx_perftest_tag_bw.txt"))
    assert found["figures"]["overall_us"] == 1795.18 and found["figures"]["p50_us"] == 3.918 and found["success"]
    assert found["value"] == pytest.approx(34.82 * 2 ** 20 * 8 / 1e9)


def test_enough_files_are_asserted():
    """Forty is what was promised; the applications' logs and the paper's outputs come on top."""
    files = set("benchmarks/osu/" + row[0] for row in OSU) | set("osu/" + row[0] for row in MORE_OSU + OSU_ERRORS) | set(row[0] for row in PERFTEST + CAUSES)
    assert len(files) >= 110 and all(os.path.exists(os.path.join(CAPTURES, name)) for name in files)
    held = set(name for name in captures() if tool_of(name) in ("osu", "perftest", "imb", "ucx") and name.split("/")[0] in ("osu", "perftest", "benchmarks"))
    # Without figures: a log cut before its table, the options of a version, and tables of another kind.
    assert len(held - files) <= 12, sorted(held - files)


@pytest.mark.parametrize("name", sorted(set(row[0] for row in OSU if row[1] == "mbw_mr")))
def test_rate_times_size_is_bandwidth(name):
    for row in osu.parse(text("osu/" + name))["rows"]:
        if row["bandwidth"] > 50:  # two decimals of small numbers say too little
            assert row["message_rate"] * row["size"] / 1e6 == pytest.approx(row["bandwidth"], rel=3e-4)


def test_osu_of_an_odd_number_of_ranks_and_of_one_rank():
    assert osu.parse(text("osu/omb7.4-odd3.txt"))["rows"] == []
    assert "at least two processes" in osu.parse(text("osu/omb5.3-np1.err"))["error"]
    assert osu.parse(text("osu/omb5.3-mbw_mr_varwindow.txt"))["windows"]


@pytest.mark.parametrize("name, size, column, value", IMB)
def test_imb(name, size, column, value):
    found = imb.parse(text("osu/imb-mpi1.txt"))
    table = next(one for one in found["benchmarks"] if one["name"] == name)
    assert found["version"] == "2021.11" and table["processes"] == 2
    assert [row[column] for row in table["rows"] if row["bytes"] == size] == [value]


def test_openfoam():
    found = apps.parse_openfoam(text("applogs/openfoam/log.simpleFoam"))
    assert found["figures"]["iterations"] == 40 and found["figures"]["cpu_seconds"] == 3.33 and found["figures"]["wall_seconds"] == 23
    # 3 s at the end of iteration 1, 23 s at the end of iteration 40; by CPU time it would be seven times as fast.
    assert found["value"] == pytest.approx(20 / 39.0) and found["success"] and found["processes"] == 2 and found["version"] == "1912"
    assert any("CPU time" in warning for warning in found["warnings"])


def test_wrf():
    found = apps.parse_wrf(text("applogs/wrf/rsl.error.0000"))
    assert found["series"][0] == 1.89368 and found["series"][-1] == 1.89204 and any("3.21256" in one["what"] for one in found["discarded"])
    assert found["version"] == "3.8.1" and found["processes"] == 112 and found["success"] and found["health"]["status"] == "pass"
    assert found["figures"]["io_seconds"] == pytest.approx(87.27811 + 0.29123 + 28.01658)


def test_lammps():
    found = apps.parse_lammps(text("applogs/lammps/stdout_np2.txt"))
    assert found["value"] == pytest.approx(19.101, abs=1e-3) and found["figures"]["printed"]["ns/day"] == 8.252 and found["figures"]["atoms"] == 32000
    assert found["figures"]["cpu_percent"] == 48.3 and found["warnings"] and found["success"]


def test_gromacs():
    found = apps.parse_gromacs(text("applogs/gromacs/np2.log"))
    assert found["value"] == 3.038 and found["figures"]["wall_seconds"] == 28.493 and found["figures"]["cpu_percent"] == 200 and found["success"]
    assert found["figures"]["simd_host"] == "AVX2_256" and any("SSE4.1" in warning for warning in found["warnings"])


def test_namd():
    found = apps.parse_namd(text("applogs/namd/namd-2.13-stmv-scaling.excerpt.log"))
    assert [run["processes"] for run in found["runs"]] == [1, 48] and found["figures"]["wall_seconds"] == 105.276253
    assert found["value"] == pytest.approx((1 / 1.96816 + 1 / 1.94278) / 2)
    cut = apps.parse_namd(text("applogs/namd/namd-2.14-multicore-cuda-apoa1.excerpt.log"))
    assert cut["value"] == pytest.approx(1 / 0.0232164) and not cut["success"] and cut["series"] == [0.00197171]


def test_spread_of_steps_tells_the_stalling_fabric():
    """Of 26 public series of WRF all on InfiniBand are even, and so is RoCE on few nodes; from 8 nodes on the larger case stalls on RoCE."""
    with io.open(os.path.join(FOLDER, "applogs/wrf/stackhpc_csd3_conus.csv"), encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    bad = [(row["benchmark"], row["fabric"], int(row["nodes"])) for row in rows
           if apps.stalls(float(row["p99_s"]) / float(row["median_s"]), float(row["cv"]))]
    assert len(rows) == 26 and bad == [("2_5km", "roce", nodes) for nodes in (8, 16, 32, 56)]


def test_mean_of_repeats_is_fragile():
    names = ["osu/repeat5/mbw_mr_np2_run%d.txt" % number for number in (1, 3, 4, 5)]
    values = [osu.parse(text(name))["rows"][0]["bandwidth"] for name in names]
    assert values == [7.26, 0.1, 0.02, 7.31] and stats.mean(values) == pytest.approx(3.6725) and stats.median(values) == pytest.approx(3.68)
