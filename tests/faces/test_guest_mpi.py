# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mpirun and the Intel MPI Benchmarks of the lab's guests: what the launcher checks, and figures of the fabric's own curves."""

from __future__ import annotations

import pathlib
import sys

import pytest

pytest.importorskip("asyncssh")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from guest_bench import Bench  # noqa: E402

HOME = "/usr/mpi/gcc/openmpi-4.1.2a1/"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("guests"), 2)
    assert all(made.run(number, "ip link set ens224f1 mtu 9000; ip addr add 192.168.5.%d/24 dev ens224f1" % number)[0] == 0 for number in (1, 2))
    yield made
    made.stop()


def launch(bench, words, slots=2, names=("vm01", "vm02"), device="mlx5_0:1", count=4):
    root = bench.root(1)
    (root / "root" / "hosts").write_text("".join("%s slots=%d\n" % (name, slots) for name in names))
    return bench.run(1, "%s -np %d --hostfile hosts --map-by ppr:2:node --mca pml ucx -x UCX_NET_DEVICES=%s %s" % (
        root / (HOME + "bin/mpirun")[1:], count, device, words.replace("IMB", str(root / (HOME + "tests/imb/IMB-MPI1")[1:]))))


def test_tables_have_the_fabrics_figures_and_the_parser_reads_them(bench):
    imb = pytest.importorskip("ansible_collections.vhpc.rdma.plugins.module_utils.tools.imb")
    for device, latency in (("mlx5_0:1", 1.3), ("mlx5_1:1", 2.2)):
        code, out, err = launch(bench, "IMB Uniband PingPong Allreduce -npmin 4 -msglog 3:16 -iter 50", device=device)
        assert code == 0, err
        tables = {one["name"]: one for one in imb.parse(out)["benchmarks"]}
        assert tables["Uniband"]["processes"] == 4 and tables["PingPong"]["processes"] == 2
        assert [row["bytes"] for row in tables["Uniband"]["rows"]] == [2 ** power for power in range(3, 17)]
        assert 11800 < tables["Uniband"]["rows"][-1]["bandwidth"] < 12300, "two nodes have one link between them"
        assert tables["PingPong"]["rows"][1]["t"] == pytest.approx(latency, abs=0.06)
        assert all(row["t_min"] <= row["t_avg"] <= row["t_max"] for row in tables["Allreduce"]["rows"])


def test_what_cannot_start_says_so(bench):
    assert "not enough slots" in launch(bench, "IMB Uniband", slots=1)[2]
    assert "No route to host" in launch(bench, "IMB Uniband", names=("vm01", "vm09"))[2]
    assert "network device 'mlx5_7:1' is not available" in launch(bench, "IMB Uniband", device="mlx5_7:1")[2]
    assert "unable to find the specified executable" in launch(bench, "osu_bw")[2]
    assert "unknown option" in bench.run(1, str(bench.root(1)) + HOME + "bin/mpirun --nonsense")[2]
    assert "Open MPI) 4.1.2a1" in bench.run(1, str(bench.root(1)) + HOME + "bin/mpirun --version")[1]
