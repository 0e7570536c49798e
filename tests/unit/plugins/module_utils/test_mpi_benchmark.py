# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mpi_benchmark on a node in a directory: programs where sites have them, a launcher that reads its hostfile and starts the program."""

import json
import os
import sys

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.modules import mpi_benchmark
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.guest_tree import Tree

# Open MPI's launcher as far as options go: it checks that the hostfile has room, and starts the program once with what it was told.
MPIRUN = """#!{python} -S
import os, pathlib, subprocess, sys
argv = sys.argv[1:]
if argv == ["--version"]:
    print("mpirun (Open MPI) 4.1.2")
    sys.exit(0)
np, hosts, env, place = 0, [], dict(os.environ), 0
while place < len(argv) and argv[place].startswith("-"):
    option, value = argv[place], argv[place + 1]
    place += 2
    if option == "-np": np = int(value)
    elif option == "--hostfile": hosts = [line.split() for line in pathlib.Path(value).read_text().splitlines()]
    elif option == "-x": env.update([value.split("=", 1)])
    elif option == "--mca": place += 1
slots = sum(int(words[1].split("=")[1]) for words in hosts)
if slots < np:
    print("There are not enough slots available in the system to satisfy the %d" % np)
    sys.exit(1)
env["NP"], env["NODES"] = str(np), str(len(hosts))
sys.exit(subprocess.call(argv[place:], env=env))
"""
OSU = """#!{python} -S
import os, pathlib, sys, time
root = pathlib.Path(__file__).resolve()
while not (root / "state.json").exists(): root = root.parent
name, np, nodes = pathlib.Path(__file__).name.replace("mpitests-", ""), int(os.environ["NP"]), int(os.environ["NODES"])
count = root / "count"
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
fault = (root / "fault").read_text().split() if (root / "fault").exists() else []
if "hang" in fault: time.sleep(60)
if "fail%d" % number in fault:
    sys.stderr.write("[vm02:1] *** An error occurred in MPI_Init\\n")
    sys.exit(14)
if name == "osu_mbw_mr":
    print("# OSU MPI Multiple Bandwidth / Message Rate Test v5.7\\n# [ pairs: %d ] [ window size: 64 ]" % (np // 2))
    print("# Size                  MB/s        Messages/s")
    for size, each in ((1, 5.0), (8, 40.0), (1048576, 500.0)):
        value = each * np + number
        print("%-10d %15.2f %18.2f" % (size, value, value * 1e6 / size))
elif name == "osu_latency":
    print("# OSU MPI Latency Test v5.7\\n# Size          Latency (us)\\n0 1.00\\n8 1.%02d\\n1024 2.50" % number)
else:
    print("\\n# OSU MPI Allreduce Latency Test v5.7\\n# Size       Avg Latency(us)\\n4 %.2f\\n8 %.2f" % (nodes * 1.5, nodes * 2.0))
"""
APP = """#!{python} -S
import os, pathlib, sys
nodes = int(os.environ["NODES"])
pathlib.Path("my.log").write_text("rate: 1\\nrate: %.1f\\n%s" % (nodes * 10.0, "done\\n" if sys.argv[1] != "broken" else ""))
print("device", os.environ.get("UCX_NET_DEVICES"), "arguments", *sys.argv[1:])
"""
BIN = "usr/lib64/openmpi/bin/"


class Node(Tree):
    def write(self, name, text, mode=None):
        super().write(name, text)
        if mode:
            (self.root / name).chmod(mode)


@pytest.fixture(name="node")
def fixture_node(tmp_path):
    node = Node(tmp_path)
    node.card()
    for name, text in (("mpirun", MPIRUN), ("mpitests-osu_mbw_mr", OSU), ("mpitests-osu_latency", OSU), ("mpitests-osu_allreduce", OSU)):
        node.write(BIN + name, text.replace("{python}", sys.executable), 0o755)
    return node


def run(node, check=False, **options):
    params = {name: about.get("default") for name, about in mpi_benchmark.SPEC.items()}
    params.update(dict(hosts=["vm%02d" % number for number in range(1, 5)], ppn=[2], repeats=2), **options)
    guest = node.guest(check, **params)
    return mpi_benchmark.work(guest), guest


def test_node_counts_repeats_and_statistics(node):
    found, guest = run(node, benchmarks=["mbw_mr", "latency", "allreduce"], config="VM.{ppn}.RoCE", repeats=3)
    assert (found["backend"], found["mpi"]["family"], found["mpi"]["version"]) == ("osu", "openmpi", "4.1.2") and found["left_out"] == [8, 12, 16]
    assert found["programs"]["mbw_mr"] == "/" + BIN + "mpitests-osu_mbw_mr" and not found["changed"]
    assert [(e["benchmark"], e["nodes"], e["ppn"], e["successful"]) for e in found["summary"]] == [
        ("mbw_mr", 2, 2, 3), ("mbw_mr", 4, 2, 3), ("latency", 2, 1, 3), ("allreduce", 2, 2, 3), ("allreduce", 4, 2, 3)]
    # 500 MB/s for each process and one more with every start: starts 1, 6 and 11 are mbw_mr on two nodes.
    assert found["summary"][0]["statistics"]["values"] == [2001.0, 2006.0, 2011.0] and found["summary"][0]["statistics"]["mean"] == 2006.0
    assert [size["size"] for size in found["summary"][0]["sizes"]] == [1, 8, 1048576] and found["summary"][4]["statistics"]["mean"] == 8.0
    assert found["tables"]["allreduce"]["rows"] == {"VM.2.RoCE": [4.0, 8.0]} and found["tables"]["latency"]["rows"] == {"VM.1.RoCE": [pytest.approx(1.08)]}
    first = found["runs"][0]
    assert first["hosts"] == ["vm01", "vm02"] and first["success"] and first["value"] == 2001.0
    assert node.root.joinpath(first["output"][1:]).read_text().startswith("# OSU")
    assert json.dumps(found) and guest.warnings == []


def test_a_run_that_fails_is_kept_and_told(node):
    node.write("fault", "fail2")
    found, guest = run(node, nodes=[2], repeats=3)
    assert [r["success"] for r in found["runs"]] == [True, False, True]
    assert "return code 14" in found["runs"][1]["error"] and "MPI_Init" in found["runs"][1]["tail"]
    assert any("1 of 3 runs failed" in text for text in guest.warnings)
    node.write("count", "0")
    node.write("fault", "fail1 fail2")
    with pytest.raises(RdmaError, match="none of 2 runs succeeded") as caught:
        run(node, nodes=[2])
    assert len(caught.value.data["runs"]) == 2


def test_a_run_that_hangs_costs_its_timeout(node):
    node.write("fault", "hang")
    with pytest.raises(RdmaError, match="did not end within 1 seconds"):
        run(node, nodes=[2], repeats=1, timeout=1)


def test_ucx_is_pinned_to_the_fabric_asked_for(node):
    node.port("mlx5_1", "Ethernet", "ens256f1", "0c:42:a1:d3:00:09")
    for fabric, device in (("ib", "mlx5_0:1"), ("roce", "mlx5_1:1")):
        found = run(node, nodes=[2], repeats=1, fabric=fabric)[0]
        assert found["device"] == device and "UCX_NET_DEVICES=" + device in found["runs"][0]["command"] and list(found["tables"]) == ["mbw_mr." + fabric]
    assert run(node, nodes=[2], repeats=1, fabric="ib", device="mlx5_7:1")[0]["device"] == "mlx5_7:1"
    node.port("mlx5_0", "InfiniBand", "ib0", "00:00", state="2: INIT", phys="5: LinkUp", gids=[(0, "fe80::1", "")])
    with pytest.raises(RdmaError, match="subnet manager"):
        run(node, nodes=[2], fabric="ib")


def test_what_cannot_run_is_refused_before_anything_runs(node):
    for options, words in ((dict(nodes=[2, 3]), "odd number of nodes"), (dict(nodes=[8]), "4 hosts are too few"), (dict(hosts=["a", "a"]), "named twice"),
                           (dict(sizes=[8]), "smallest and the largest"), (dict(backend="imb"), "IMB-MPI1|no mbw_mr"), (dict(path="/opt/none"), "/opt/none"),
                           (dict(mpirun="/opt/mpirun"), "no such program"), (dict(benchmarks=["bw"]), "no bw")):
        with pytest.raises(RdmaError, match=words):
            run(node, **dict(dict(nodes=[2]), **options))
    assert not (node.root / "count").exists()


def test_check_mode_says_what_would_run_and_touches_nothing(node):
    found = run(node, check=True)[0]
    assert [(r["nodes"], r["processes"], r["repeat"]) for r in found["runs"]] == [(2, 4, 1), (4, 8, 1), (2, 4, 2), (4, 8, 2)]
    assert found["left_out"] == [8, 12, 16]
    assert not (node.root / "var/tmp/vhpc_rdma").exists() and not (node.root / "count").exists()


def test_programs_of_a_path_and_of_hpc_x(node):
    for path in ("opt/hpcx-v2.9/ompi/tests/osu-micro-benchmarks-5.8/", "shared/osu/mpi/pt2pt/"):
        node.write(path + "osu_mbw_mr", OSU.replace("{python}", sys.executable), 0o755)
    node.write("opt/hpcx-v2.9/ompi/bin/mpirun", MPIRUN.replace("{python}", sys.executable), 0o755)
    # mpitests comes before HPC-X; with a path, only the path counts.
    assert run(node, nodes=[2], repeats=1)[0]["programs"]["mbw_mr"].startswith("/usr/lib64/openmpi")
    (node.root / BIN / "mpitests-osu_mbw_mr").unlink()
    found = run(node, nodes=[2], repeats=1)[0]
    assert found["programs"]["mbw_mr"].startswith("/opt/hpcx") and found["mpi"]["mpirun"] == "/opt/hpcx-v2.9/ompi/bin/mpirun"
    found = run(node, nodes=[2], repeats=1, path="/shared/osu", mpirun="/" + BIN + "mpirun")[0]
    assert found["programs"]["mbw_mr"] == "/shared/osu/mpi/pt2pt/osu_mbw_mr"


@pytest.mark.parametrize("program, launcher", [
    ("usr/lib64/openmpi/bin/mpitests-osu_mbw_mr", "usr/lib64/openmpi/bin/mpirun"),
    ("usr/lib64/mpi/gcc/openmpi4/tests/osu-micro-benchmarks/osu_mbw_mr", "usr/lib64/mpi/gcc/openmpi4/bin/mpirun"),
    ("opt/hpcx-v2.18-gcc-mlnx_ofed/ompi/tests/osu-micro-benchmarks/osu_mbw_mr", "opt/hpcx-v2.18-gcc-mlnx_ofed/ompi/bin/mpirun"),
    ("opt/mellanox/hpcx/ompi/tests/osu-micro-benchmarks-5.8/osu_mbw_mr", "opt/mellanox/hpcx/ompi/bin/mpirun"),
    ("usr/mpi/gcc/openmpi-4.1.2a1/tests/osu-micro-benchmarks-5.6.2/osu_mbw_mr", "usr/mpi/gcc/openmpi-4.1.2a1/bin/mpirun"),
    ("opt/vhpc_rdma/benchmark/view/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_mbw_mr", "opt/vhpc_rdma/benchmark/view/bin/mpirun"),
    ("opt/spack/opt/spack/linux-rhel8-zen2/gcc-9.3.0/osu-micro-benchmarks-5.7.1-abc/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_mbw_mr", "usr/bin/mpirun"),
    ("usr/local/libexec/osu-micro-benchmarks/mpi/pt2pt/standard/osu_mbw_mr", "usr/bin/mpirun")])
def test_osu_is_found_where_sites_have_it_with_the_mpirun_that_belongs_to_it(node, program, launcher):
    for name in ("mpirun", "mpitests-osu_mbw_mr"):
        (node.root / BIN / name).unlink()
    node.write(program, OSU.replace("{python}", sys.executable), 0o755)
    node.write(launcher, MPIRUN.replace("{python}", sys.executable), 0o755)
    found = run(node, nodes=[2], repeats=1)[0]
    assert found["programs"]["mbw_mr"] == "/" + program and found["runs"][0]["success"]
    assert found["mpi"]["mpirun"] in ("/" + launcher, "mpirun") and (found["mpi"]["mpirun"] == "/" + launcher or launcher == "usr/bin/mpirun")


OWN = dict(command="/usr/bin/myapp case{processes} {repeat}", workdir="/shared/case", log="my.log", success="done",
           figure_of_merit=dict(regex=r"rate: ([\d.]+)", unit="it/s", direction="higher", pick="last"))


def application(node, **changes):
    node.write("usr/bin/myapp", APP.replace("{python}", sys.executable), 0o755)
    (node.root / "shared/case").mkdir(parents=True, exist_ok=True)
    definition = dict(OWN, command=str(node.root / "usr/bin/myapp") + " case{processes} {repeat}")
    definition.update(changes)
    return run(node, benchmarks=[], applications={"myapp": definition}, mpirun="/" + BIN + "mpirun", nodes=[1, 2, 4], config="BM.{ppn}")


def test_an_application_over_node_counts(node):
    found = application(node)[0]
    assert found["tables"] == {"myapp": dict(app="myapp", fabric="", kind="performance", unit="it/s", sense="higher", resolution=0, nodes=[1, 2, 4],
                                             rows={"BM.2": [10.0, 20.0, 40.0]}, ranges={"BM.2": [[10.0, 10.0], [20.0, 20.0], [40.0, 40.0]]})}
    assert found["runs"][1]["command"].endswith("case4 1") and "case4" in node.root.joinpath(found["runs"][1]["output"][1:]).read_text()


def test_an_application_without_its_success_text_gives_no_figure(node):
    with pytest.raises(RdmaError, match="does not say that the run ended well"):
        application(node, command=str(node.root / "usr/bin/myapp") + " broken")
    with pytest.raises(RdmaError, match="other.log was not written"):
        node.write("shared/case/other.log", "rate: 9\ndone\n")
        os.utime(str(node.root / "shared/case/other.log"), (1, 1))
        application(node, log="other.log")
    with pytest.raises(RdmaError, match="no directory /shared/none"):
        application(node, workdir="/shared/none")
    with pytest.raises(RdmaError, match="success is missing"):
        application(node, success="")


def test_preparation_comes_first_and_its_failure_is_the_runs(node):
    node.write("usr/bin/split", "#!/bin/sh\necho $1 >> parts\n[ $1 != 8 ]\n", 0o755)
    found = application(node, prepare=["/usr/bin/split {processes}"])[0]
    assert (node.root / "shared/case/parts").read_text().split() == ["2", "4", "8", "2", "4", "8"]
    assert [r["success"] for r in found["runs"]] == [True, True, False] * 2 and "split 8 failed" in found["runs"][2]["error"]


def test_logs_that_exist_are_read(node):
    for number, rate in ((1, 10.0), (2, 19.0), (3, 20.0)):
        node.write("logs/%d.log" % number, "rate: %.1f\ndone\n" % rate)
    node.write("logs/steps.log", "".join("step 1.0\n" for dummy in range(60)) + "step 9.0\n" * 4 + "rate: 5\ndone")
    stalls = [dict(application="myapp", path="/logs/steps.log", nodes=8, ppn=48)]
    found, guest = run(node, benchmarks=[], applications={"myapp": dict(OWN, series=r"step ([\d.]+)")}, logs=stalls)
    assert any("myapp on 8 nodes" in text and "the steps stall" in text for text in guest.warnings) and found["runs"][0]["health"]["status"] == "warn"
    logs = [dict(application="myapp", path="/logs/1.log", nodes=1, ppn=48), dict(application="myapp", path="/logs/2.log", nodes=2, ppn=48),
            dict(application="myapp", path="/logs/3.log", nodes=2, ppn=48)]
    found = run(node, benchmarks=[], applications={"myapp": OWN}, logs=logs, config="BM.{ppn}")[0]
    assert found["tables"]["myapp"]["rows"] == {"BM.48": [10.0, 19.5]} and [r["repeat"] for r in found["runs"]] == [1, 1, 2]
    with pytest.raises(RdmaError, match="nodes missing"):
        run(node, benchmarks=[], applications={"myapp": OWN}, logs=[dict(application="myapp", path="/logs/1.log", ppn=48)])
