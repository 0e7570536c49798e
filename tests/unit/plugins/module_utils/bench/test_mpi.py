# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import mpi, scaling, stats
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

RUN = dict(benchmark="mbw_mr", nodes=2, ppn=44, processes=88, repeat=1)


# ---- layouts -------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("benchmark, nodes, ppn, words", [
    ("mbw_mr", 3, 44, "odd number of nodes"), ("mbw_mr", 1, 44, "memory and not the fabric"), ("latency", 1, 2, "memory and not the fabric"),
    ("mbw_mr", 0, 44, "nothing to run"), ("allreduce", 4, 0, "nothing to run"), ("mbw_mr", 13, 1, "odd number of nodes"),
])
def test_odd_layouts_are_refused(benchmark, nodes, ppn, words):
    with pytest.raises(RdmaError, match=words):
        mpi.layout(benchmark, nodes, ppn)


def test_layouts_that_run():
    assert mpi.layout("mbw_mr", 2, 3) == (2, 3) and mpi.layout("allreduce", 3, 5) == (3, 5)
    # Bandwidth and latency are those of two processes on two nodes, whatever was asked for.
    assert mpi.layout("latency", 16, 44) == (2, 1) and mpi.layout("bw", 2, 44) == (2, 1)
    assert mpi.layout("mbw_mr", 1, 2, within_node=True) == (1, 2) and mpi.layout("latency", 1, 44, within_node=True) == (1, 2)
    with pytest.raises(RdmaError, match="without a partner"):
        mpi.layout("mbw_mr", 1, 3, within_node=True)


def test_repeats_go_round_all_layouts_and_no_layout_comes_twice():
    runs, left = mpi.plan(["mbw_mr", "latency"], [2, 4, 8, 12, 16], [44, 48], 5, 8)
    assert left == [12, 16] and len(runs) == 5 * (3 * 2 + 1)
    assert [run["repeat"] for run in runs[:8]] == [1] * 7 + [2] and len({(r["benchmark"], r["nodes"], r["ppn"], r["repeat"]) for r in runs}) == len(runs)
    assert [(r["nodes"], r["ppn"], r["processes"]) for r in runs if r["benchmark"] == "latency"] == [(2, 1, 2)] * 5
    assert mpi.plan(["mbw_mr"], [2, 4], [44], 5, 1) == ([], [2, 4])


# ---- command lines -------------------------------------------------------------------------------------------------------

def test_ranks_lie_in_blocks_by_node_and_ucx_has_one_device():
    env = mpi.environment("openmpi", "mlx5_1:1", "roce")
    argv = mpi.launch("openmpi", "/opt/mpirun", "/tmp/h", RUN, env, "ens192")
    text = " ".join(argv)
    assert "-np 88" in text and "--map-by ppr:44:node" in text and "--rank-by" not in text and "-x UCX_NET_DEVICES=mlx5_1:1" in text
    assert "--mca pml ucx" in text and "oob_tcp_if_include ens192" in text and "OVERSUBSCRIBE" not in text
    assert mpi.hostfile("openmpi", ["vm01", "vm02"], 44) == "vm01 slots=44\nvm02 slots=44\n"


def test_hydra():
    env = mpi.environment("intel", "mlx5_0:1", "ib")
    text = " ".join(mpi.launch("intel", "mpirun", "/tmp/h", RUN, env, "ens192", extra=["-v"]))
    assert text.startswith("mpirun -n 88 -ppn 44 -f /tmp/h") and "-genv UCX_NET_DEVICES mlx5_0:1" in text and "-genv FI_PROVIDER mlx" in text
    assert text.endswith("-v") and mpi.hostfile("intel", ["vm01"], 44) == "vm01:44\n"
    assert mpi.environment("mpich", "", "none") == {} and "mlx" not in " ".join(mpi.launch("mpich", "mpirun", "/h", RUN, {}))


def test_arguments_of_both_back_ends():
    assert mpi.arguments("osu", "mbw_mr", RUN, (1, 4194304), 1000) == ["-m", "1:4194304", "-i", "1000", "-x", "100"] and mpi.arguments("osu", "bw", RUN) == []
    assert mpi.arguments("imb", "mbw_mr", RUN, (1, 4194304)) == ["Uniband", "-npmin", "88", "-msglog", "0:22"]
    assert mpi.arguments("imb", "allreduce", RUN, (8, 8), 20) == ["Allreduce", "-npmin", "88", "-msglog", "3:4", "-iter", "20"]


@pytest.mark.parametrize("text, kind, version", [
    ("mpirun (Open MPI) 4.1.2\n\nReport bugs to http://www.open-mpi.org/community/help/\n", "openmpi", "4.1.2"),
    ("mpirun (Open MPI) 5.0.3\n", "openmpi", "5.0.3"),
    ("Intel(R) MPI Library for Linux* OS, Version 2021.5 Build 20211102 (id: 9279b7d62)\n", "intel", "2021.5"),
    ("HYDRA build details:\n    Version:                                 4.0.2\n", "mpich", "4.0.2"), ("srun 20.1\n", "", ""),
])
def test_families_of_mpi(text, kind, version):
    assert mpi.family(text) == kind and (not kind or mpi.version_of(text) == version)


def test_the_launcher_of_the_same_tree_comes_first():
    assert mpi.launchers("/usr/lib64/openmpi/bin")[0] == "/usr/lib64/openmpi/bin/mpirun"
    found = mpi.launchers("/opt/hpcx-v2.17/ompi/tests/osu-micro-benchmarks-7.2")
    assert "/opt/hpcx-v2.17/ompi/bin/mpirun" in found and "/opt/mpirun" not in found[:5]


# ---- results -------------------------------------------------------------------------------------------------------------

OSU = """# OSU MPI Multiple Bandwidth / Message Rate Test v5.7
# [ pairs: %d ] [ window size: 64 ]
# Size                  MB/s        Messages/s
1                     100.00      100000000.00
8                     790.00       98750000.00
1048576             12100.00          11539.46
"""
IMB = """#----------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part
#----------------------------------------------------------------
#---------------------------------------------------
# Benchmarking Uniband
# #processes = %d
#---------------------------------------------------
       #bytes #repetitions   Mbytes/sec      Msg/sec
            0         1000         0.00     10384299
            8         1000        89.22     11152214
         1024         1000      5905.09      5766686
"""


def test_rows_of_osu_and_imb_are_alike():
    rows, version, error = mpi.rows_of("osu", "mbw_mr", OSU % 44, 88)
    assert version == "5.7" and not error and rows[-1] == dict(size=1048576, value=12100.0, rate=11539.46)
    assert mpi.figure("mbw_mr", rows) == (12100.0, 1048576)
    assert "44 pairs ran, 86 processes" in mpi.rows_of("osu", "mbw_mr", OSU % 44, 86)[2]
    rows, version, error = mpi.rows_of("imb", "mbw_mr", IMB % 88, 88)
    assert [row["size"] for row in rows] == [8, 1024] and version == "2021.7" and not error
    assert mpi.rows_of("imb", "mbw_mr", IMB % 2, 88)[0] == [] and "88 processes" in mpi.rows_of("imb", "mbw_mr", IMB % 2, 88)[2]
    assert mpi.figure("latency", [dict(size=1, value=1.1), dict(size=8, value=1.2), dict(size=64, value=1.4)]) == (1.2, 8)
    assert mpi.figure("latency", [dict(size=16, value=1.3)]) == (1.3, 16) and mpi.figure("bw", []) == (None, None)


def test_mean_of_five_stands_beside_what_it_hides():
    found = stats.repeats([7.26, 7.34, 0.1, 0.02, 7.31])
    assert found["mean"] == pytest.approx(4.406) and found["median"] == 7.26 and found["n"] == 5 and found["min"] == 0.02
    assert {mark["kind"] for mark in found["marks"]} == {"cv", "run", "mean"} and [m["run"] for m in found["marks"] if m["kind"] == "run"] == [3, 4]
    assert found["values"] == [7.26, 7.34, 0.1, 0.02, 7.31]
    assert stats.repeats([100.0, 100.4, 99.8, 100.1, 99.9])["marks"] == [] and stats.repeats([100.0, 100.0, 100.0, 100.01])["marks"] == []
    assert [m["run"] for m in stats.repeats([100.0, 100.0, 100.0, 88.0])["marks"] if m["kind"] == "run"] == [4]
    assert stats.repeats([])["mean"] is None and stats.repeats([5.0])["cv"] is None


def record(nodes, value, ppn=44, success=True, repeat=1, size=8):
    return dict(benchmark="mbw_mr", nodes=nodes, ppn=ppn, repeat=repeat, unit="MB/s", direction="higher", success=success, value=value if success else None,
                error="" if success else "return code 1", rows=[dict(size=size, value=value)] if success else [])


def test_failed_runs_are_counted_and_said():
    entry = mpi.summarize([record(2, 10.0), record(2, 10.1, repeat=2), record(2, 0, success=False, repeat=3)])[0]
    assert (entry["runs"], entry["successful"], entry["processes"]) == (3, 2, 88) and entry["statistics"]["mean"] == pytest.approx(10.05)
    assert entry["statistics"]["marks"][-1]["kind"] == "failed" and "1 of 3" in entry["statistics"]["marks"][-1]["text"]
    assert entry["sizes"] == [dict(size=8, statistics=stats.repeats([10.0, 10.1]))]


def test_figures_can_be_studied():
    found = mpi.tables(mpi.summarize([record(2, 10.0), record(4, 19.0), record(2, 11.0, 48), record(4, 21.0, 48)]), "VM.{ppn}.IB", "ib")
    table = found["mbw_mr.ib"]
    assert table["nodes"] == [2, 4] and table["rows"] == {"VM.44.IB": [10.0, 19.0], "VM.48.IB": [11.0, 21.0]} and table["sense"] == "higher"
    analysis = scaling.analyse(table, baseline="VM.48.IB")
    cell = analysis["configs"]["VM.44.IB"]["cells"][1]
    assert cell["delta"] == pytest.approx(100 * 2 / 21) and cell["efficiency"] == pytest.approx(95.0)
    assert analysis["configs"]["VM.44.IB"]["gauge"] == pytest.approx(8.333, abs=1e-3)
    # A size that only one row has leaves a hole.
    part = mpi.tables(mpi.summarize([record(2, 10.0), record(8, 30.0), record(4, 21.0, 48)]), "c{ppn}", "")["mbw_mr"]
    assert part["nodes"] == [2, 4, 8] and part["rows"] == {"c44": [10.0, None, 30.0], "c48": [None, 21.0, None]}


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_run_that_was_cut_does_not_turn_a_time_into_a_rate(cut):
    runs = [dict(record(2, 100.0, repeat=number, success=number != cut), benchmark="openfoam", unit="" if number == cut else "s",
                 direction="" if number == cut else "lower") for number in (1, 2, 3)]
    entry = mpi.summarize(runs)[0]
    assert (entry["direction"], entry["unit"], entry["successful"]) == ("lower", "s", 2)
    # On another number of nodes all of them may have been cut.
    assert mpi.summarize(runs + [dict(runs[cut - 1], nodes=4)])[1]["direction"] == "lower"
