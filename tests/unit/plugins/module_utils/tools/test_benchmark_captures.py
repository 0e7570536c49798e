# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Numbers that a person read in real outputs of OSU, IMB and applications, against what the parsers read.

The outputs are looked for as in test_captures.py; without them these tests are skipped.
"""

import csv
import io
import os

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import stats
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import apps, imb, osu
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.tools.test_captures import CAPTURES

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


def text(name):
    with io.open(os.path.join(FOLDER, name), encoding="utf-8", errors="replace") as handle:
        return handle.read()


@pytest.mark.parametrize("name, benchmark, version, pairs, size, column, value", OSU)
def test_osu(name, benchmark, version, pairs, size, column, value):
    found = osu.parse(text("osu/" + name))
    assert (found["benchmark"], found["version"], found["pairs"]) == (benchmark, version, pairs)
    assert [row[column] for row in found["rows"] if row["size"] == size] == [value]


def test_enough_files_are_asserted():
    assert len(set(row[0] for row in OSU)) + len(IMB) > 60


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
