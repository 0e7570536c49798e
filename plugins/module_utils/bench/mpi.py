# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MPI benchmarks (pure): where programs lie, which layouts can run, command lines, rows and statistics.

OSU and the Intel MPI Benchmarks (IMB) are two back ends for the same four measurements. Ranks are laid out in blocks by node:
both programs pair rank i with rank i + half, so that every pair crosses the fabric. A cyclic layout would pair ranks of one
node and report the bandwidth of its memory.
"""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import stats
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import imb, osu

# name: OSU program, IMB benchmark, column of OSU, column of IMB, unit, direction, ranks (pairs: any even number; two: exactly two; any)
BENCHMARKS = {
    "mbw_mr": dict(osu="osu_mbw_mr", imb="Uniband", osu_column="bandwidth", imb_column="bandwidth", unit="MB/s", direction="higher", ranks="pairs"),
    "bw": dict(osu="osu_bw", imb="Uniband", osu_column="bandwidth", imb_column="bandwidth", unit="MB/s", direction="higher", ranks="two"),
    "latency": dict(osu="osu_latency", imb="PingPong", osu_column="latency", imb_column="t", unit="us", direction="lower", ranks="two"),
    "allreduce": dict(osu="osu_allreduce", imb="Allreduce", osu_column="latency", imb_column="t_avg", unit="us", direction="lower", ranks="any"),
}
FIGURE_SIZE = 8  # bytes: where a latency is read, as published checks do; a bandwidth is the best size
IMB_PROGRAM = "IMB-MPI1"

# Where sites have them, in the order they are looked for: (what it is, patterns of directories with OSU or IMB, pattern of mpirun).
# %s in mpirun stands for what the first group of ROOT_OF finds in the directory.
PLACES = (
    ("mpitests", ("/usr/lib64/openmpi*/bin", "/usr/lib64/mpich*/bin", "/usr/lib64/mvapich2*/bin", "/usr/lib64/mpi/gcc/openmpi*/bin",
                  "/usr/lib64/mpi/gcc/openmpi*/tests/*")),
    ("HPC-X", ("/opt/hpcx*/ompi/tests/osu-micro-benchmarks*", "/opt/hpcx*/ompi/tests/imb", "/opt/*/hpcx*/ompi/tests/osu-micro-benchmarks*",
               "/opt/*/hpcx*/ompi/tests/imb")),
    ("MLNX_OFED", ("/usr/mpi/gcc/openmpi*/tests/osu*", "/usr/mpi/gcc/openmpi*/tests/imb", "/usr/mpi/gcc/mvapich*/tests/osu*")),
    ("the role's stack", ("/opt/vhpc_rdma/benchmark/view/libexec/osu-micro-benchmarks",)),
    ("Spack", ("/opt/spack/opt/spack/*/*/osu-micro-benchmarks-*/libexec/osu-micro-benchmarks", "/opt/spack/opt/spack/*/*/intel-mpi-benchmarks-*/bin",
               "/opt/spack/var/spack/environments/*/.spack-env/view/libexec/osu-micro-benchmarks",
               "/opt/view/libexec/osu-micro-benchmarks", "/opt/view/bin")),
    ("Intel MPI", ("/opt/intel/oneapi/mpi/latest/bin", "/opt/intel/oneapi/mpi/*/bin", "/opt/intel/compilers_and_libraries*/linux/mpi/intel64/bin")),
    ("the system", ("/usr/local/libexec/osu-micro-benchmarks", "/usr/libexec/osu-micro-benchmarks", "/usr/local/bin", "/usr/bin")),
)
INNER = ("", "/mpi/pt2pt", "/mpi/collective", "/mpi/pt2pt/standard", "/mpi/collective/blocking", "/pt2pt", "/collective",
         "/libexec/osu-micro-benchmarks/mpi/pt2pt", "/libexec/osu-micro-benchmarks/mpi/collective", "/bin")
PREFIXES = ("", "mpitests-")


def programs(benchmark, backend):
    """The names that a program can have."""
    name = BENCHMARKS[benchmark]["osu"] if backend == "osu" else IMB_PROGRAM
    return [prefix + name for prefix in PREFIXES]


def launchers(folder):
    """Where the mpirun that belongs to a program's directory can lie, nearest first."""
    out, parts = [], folder.rstrip("/").split("/")
    for length in range(len(parts), 1, -1):
        base = "/".join(parts[:length])
        out += [base + "/mpirun", base + "/bin/mpirun"]
    return out


# ---- layouts -----------------------------------------------------------------------------------------------------------

def layout(benchmark, nodes, ppn, within_node=False):
    """(nodes, ppn) that run; raises on a layout that cannot give what the benchmark is about."""
    what = "run %s on %s nodes with %s processes each" % (benchmark, nodes, ppn)
    if nodes < 1 or ppn < 1:
        raise RdmaError(what, why="there is nothing to run", hint="give numbers from 1", code="LAYOUT")
    ranks = BENCHMARKS[benchmark]["ranks"] if benchmark in BENCHMARKS else "any"
    if ranks == "any":
        return nodes, ppn
    if nodes == 1 and not within_node:
        raise RdmaError(what, why="on one node it measures the node's memory and not the fabric", hint="give two nodes or more, or within_node",
                        code="LAYOUT")
    if ranks == "two":
        return (1, 2) if nodes == 1 else (2, 1)
    if nodes > 1 and nodes % 2:
        raise RdmaError(what, why="an odd number of nodes cannot be split into halves that send to each other", hint="give an even number of nodes",
                        code="LAYOUT")
    if nodes * ppn % 2:
        raise RdmaError(what, why="an odd number of processes leaves one without a partner; OSU 7 hangs on it", hint="give an even number of processes",
                        code="LAYOUT")
    return nodes, ppn


def plan(benchmarks, nodes, ppn, repeats, available, within_node=False):
    """All runs as dicts benchmark, nodes, ppn, repeat, and the node counts that were left out for want of nodes.

    Repeats go round all layouts before the next repeat: what drifts in time then meets all of them alike.
    """
    layouts, left = [], []
    for benchmark in benchmarks:
        for count in nodes:
            if count > available:
                if count not in left:
                    left.append(count)
                continue
            for processes in ppn:
                one = (benchmark,) + layout(benchmark, count, processes, within_node)
                if one not in layouts:
                    layouts.append(one)
    return [dict(benchmark=one[0], nodes=one[1], ppn=one[2], processes=one[1] * one[2], repeat=number + 1)
            for number in range(repeats) for one in layouts], left


# ---- command lines -----------------------------------------------------------------------------------------------------

def family(version_text):
    """openmpi, intel or mpich from the output of mpirun --version."""
    if re.search(r"Open MPI|OpenRTE|open-mpi", version_text):
        return "openmpi"
    if re.search(r"Intel\(R\) MPI", version_text):
        return "intel"
    if re.search(r"HYDRA|MPICH|MVAPICH", version_text):
        return "mpich"
    return ""


def version_of(version_text):
    match = re.search(r"(?:Open MPI\)?|Version:?|Version)\s+v?(\d[\w.]*)", version_text)
    return match.group(1) if match else ""


def hostfile(kind, hosts, ppn):
    """The text of a hostfile for blocks of ppn ranks by node."""
    return "".join("%s slots=%d\n" % (host, ppn) if kind == "openmpi" else "%s:%d\n" % (host, ppn) for host in hosts)


def environment(kind, device, fabric):
    """What pins MPI to one port: UCX would use all of them, and InfiniBand and RoCE of one node are not one fabric."""
    if not device:
        return {}
    env = {"UCX_NET_DEVICES": device}
    if kind == "intel":
        env.update(I_MPI_FABRICS="shm:ofi", FI_PROVIDER="mlx")
    return env


def launch(kind, mpirun, hostfile_name, run, env, interface="", oversubscribe=False, extra=()):
    """The launcher's part of a command line."""
    argv = [mpirun]
    if kind == "openmpi":
        argv += ["-np", str(run["processes"]), "--hostfile", hostfile_name]
        argv += ["--map-by", "ppr:%d:node%s" % (run["ppn"], ":OVERSUBSCRIBE" if oversubscribe else "")]
        argv += ["--bind-to", "none" if oversubscribe else "core"]
        if "UCX_NET_DEVICES" in env:
            argv += ["--mca", "pml", "ucx", "--mca", "btl", "^openib"]
        if interface:
            argv += ["--mca", "oob_tcp_if_include", interface]
        for name in sorted(env):
            argv += ["-x", "%s=%s" % (name, env[name])]
    else:
        argv += ["-n", str(run["processes"]), "-ppn", str(run["ppn"]), "-f", hostfile_name]
        if interface:
            argv += ["-iface", interface]
        for name in sorted(env):
            argv += ["-genv", name, str(env[name])]
    return argv + list(extra)


def arguments(backend, benchmark, run, sizes=None, iterations=None):
    """The program's part. sizes: (smallest, largest) in bytes."""
    about = BENCHMARKS[benchmark]
    if backend == "osu":
        out = ["-m", "%d:%d" % tuple(sizes)] if sizes else []
        return out + (["-i", str(iterations), "-x", str(max(1, iterations // 10))] if iterations else [])
    out = [about["imb"], "-npmin", str(run["processes"])]
    if sizes:
        # IMB takes powers of two.
        low = max(0, int(sizes[0]).bit_length() - 1)
        out += ["-msglog", "%d:%d" % (low, max(low + 1, int(sizes[1]).bit_length() - 1))]
    return out + (["-iter", str(iterations)] if iterations else [])


# ---- results -----------------------------------------------------------------------------------------------------------

def rows_of(backend, benchmark, text, processes):
    """(rows as dicts size, value and for mbw_mr rate; version; error) of one run's output."""
    about = BENCHMARKS[benchmark]
    if backend == "osu":
        found = osu.parse(text)
        wanted = next((one for one in found["runs"] if one["rows"]), found)
        rows = [dict(size=row["size"], value=row.get(about["osu_column"]), rate=row.get("message_rate")) for row in wanted["rows"]]
        pairs = wanted.get("pairs")
        error = found.get("error", "")
        if benchmark == "mbw_mr" and pairs and pairs * 2 != processes:
            error = error or "%d pairs ran, %d processes were asked for" % (pairs, processes)
        return [row for row in rows if row["value"] is not None], found["version"], error
    found = imb.parse(text)
    tables = [one for one in found["benchmarks"] if one["name"].lower() == about["imb"].lower()]
    wanted = next((one for one in tables if one["processes"] == processes), None)
    error = found.get("error", "")
    if wanted is None:
        return [], found["version"], error or "no table of %s with %d processes in it" % (about["imb"], processes)
    rows = [dict(size=row["bytes"], value=row.get(about["imb_column"]), rate=row.get("message_rate")) for row in wanted["rows"] if row["bytes"]]
    return [row for row in rows if row["value"] is not None], found["version"], error


def figure(benchmark, rows):
    """The figure of merit of a run's rows: (value, size): the best bandwidth, or the time at 8 bytes (or the smallest size there is)."""
    if not rows:
        return None, None
    if BENCHMARKS[benchmark]["direction"] == "higher":
        best = max(rows, key=lambda row: row["value"])
    else:
        best = next((row for row in rows if row["size"] == FIGURE_SIZE), rows[0])
    return best["value"], best["size"]


def summarize(runs):
    """Statistics per benchmark, nodes and ppn: of the figure of merit and of every size. Failed runs are counted, not dropped."""
    groups, order = {}, []
    # A run that was cut says neither unit nor direction; another run of the same benchmark does.
    said = dict((run["benchmark"], run) for run in runs if run.get("direction"))
    for run in runs:
        key = (run["benchmark"], run["nodes"], run["ppn"])
        if key not in groups:
            groups[key] = []
            order.append(key)
        groups[key].append(run)
    out = []
    for key in order:
        group = groups[key]
        good = [run for run in group if run["success"] and run.get("value") is not None]
        about = said.get(key[0]) or dict(unit="", direction="higher")
        entry = dict(benchmark=key[0], nodes=key[1], ppn=key[2], processes=key[1] * key[2], runs=len(group), successful=len(good),
                     unit=about["unit"] or "", direction=about["direction"], statistics=stats.repeats([run["value"] for run in good]), sizes=[])
        if len(good) < len(group):
            entry["statistics"]["marks"].append(dict(kind="failed", text="%d of %d runs failed: %s" % (
                len(group) - len(good), len(group), next(run["error"] or "no figure" for run in group if run not in good))))
        for size in sorted(set(row["size"] for run in good for row in run.get("rows") or [])):
            entry["sizes"].append(dict(size=size, statistics=stats.repeats(
                [row["value"] for run in good for row in run["rows"] if row["size"] == size])))
        out.append(entry)
    return out


def tables(summary, config, fabric, statistic="mean"):
    """The figures in the form of a study: one table per benchmark and ppn, one row for this configuration."""
    out = {}
    for entry in summary:
        # The number of processes is part of the configuration, as in BM.48 and BM.44: that is what is compared.
        name = "%s.%s" % (entry["benchmark"], fabric) if fabric else entry["benchmark"]
        table = out.setdefault(name, dict(app=entry["benchmark"], fabric=fabric, kind="performance", unit=entry["unit"], sense=entry["direction"],
                                          resolution=0, nodes=[], rows={}, ranges={}))
        if entry["nodes"] not in table["nodes"]:
            table["nodes"].append(entry["nodes"])
            table["nodes"].sort()
    for entry in summary:
        name = "%s.%s" % (entry["benchmark"], fabric) if fabric else entry["benchmark"]
        table = out[name]
        place, label = table["nodes"].index(entry["nodes"]), config.replace("{ppn}", str(entry["ppn"]))
        numbers = entry["statistics"]
        table["rows"].setdefault(label, [None] * len(table["nodes"]))[place] = numbers[statistic]
        table["ranges"].setdefault(label, [None] * len(table["nodes"]))[place] = [numbers["min"], numbers["max"]] if numbers["n"] > 1 else None
    return out
