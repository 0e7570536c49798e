#!/usr/bin/python
# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: mpi_benchmark
short_description: Run OSU, Intel MPI Benchmarks or an application over numbers of nodes
version_added: "0.1.0"
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Runs MPI benchmarks from this node, the first one, on all of O(hosts) by C(mpirun) with a hostfile. Run it on one host of the play.
    The nodes need to reach each other by SSH without a password, or by what else the site's MPI starts processes with.
  - Two back ends measure the same, the OSU micro-benchmarks 5.x to 7.x and the Intel MPI Benchmarks. They are looked for in O(path), the
    packages C(mpitests-*), HPC-X, MLNX_OFED (C(/usr/mpi)), the stack of the role C(benchmark), Spack, Intel MPI and the system, in this order.
  - Processes are laid out in blocks by node, so that every pair of C(mbw_mr) crosses the fabric. Layouts that cannot be split in halves of
    nodes that send to each other are refused before anything runs.
  - UCX is pinned to the one port of O(fabric). It would use all ports of a node otherwise, and InfiniBand and RoCE are not one fabric.
  - Every run is kept, with its output. The mean is the paper's (of five runs); beside it stand median, smallest, largest, coefficient of variation,
    and marks where the runs differ too much for the mean to be trusted.
  - It needs nothing of ESXi or vCenter and works on bare metal nodes as well.
extends_documentation_fragment:
  - vhpc.rdma.attributes
attributes:
  check_mode:
    support: full
    details:
      - Nothing runs in check mode. The runs that would be made are returned.
  diff_mode:
    support: none
    details:
      - A measurement changes nothing that stays.
  idempotent:
    support: full
    details:
      - The task is never changed. Outputs of the last runs are kept in O(directory).
options:
  hosts:
    description:
      - Addresses of the nodes as MPI reaches them, this node first. Runs on fewer nodes take the first of them.
    type: list
    elements: str
    required: true
  benchmarks:
    description:
      - What to measure. V(mbw_mr) is bandwidth and message rate of all pairs of processes between two halves of the nodes, V(bw) and V(latency)
        are those of two processes on two nodes, V(allreduce) the time of a collective of all processes.
      - Of IMB these are C(Uniband), C(Uniband), C(PingPong) and C(Allreduce).
    type: list
    elements: str
    choices: [mbw_mr, bw, latency, allreduce]
    default: [mbw_mr]
  applications:
    description:
      - Applications to run, by name. With any the benchmarks are those of O(benchmarks), which may be an empty list.
      - A definition has C(command) (what runs below C(mpirun); C({nodes}), C({ppn}), C({processes}) and C({repeat}) are replaced), C(workdir),
        C(log) (file in C(workdir) that holds the figures, standard output when left out), C(prepare) (commands before each run) and C(env).
      - C(parser) names a parser of the collection (V(openfoam), V(wrf), V(lammps), V(gromacs), V(namd), V(ucx)). Without it,
        C(figure_of_merit) has C(regex) (its first group is the number), C(unit), C(direction) (V(lower) or V(higher) is better) and C(pick) (V(last),
        V(first), V(mean), V(median), V(min), V(max), V(sum)); C(success) is a regular expression that a good run prints; C(error), C(series) and
        C(discard) may be there.
    type: dict
    default: {}
  logs:
    description:
      - Logs that exist, to be read instead of running anything, with C(application), C(path), C(nodes) and C(ppn) each. The application is one of
        O(applications).
    type: list
    elements: dict
    default: []
  backend:
    description: Which benchmarks to run. V(auto) takes OSU where it is found, and IMB otherwise.
    type: str
    choices: [auto, osu, imb]
    default: auto
  path:
    description: Directory that holds the benchmark programs, or an installation of them. Found by itself when not set.
    type: str
  mpirun:
    description: The launcher. The one that belongs to the programs when not set.
    type: str
  nodes:
    description: Numbers of nodes. Those that O(hosts) does not have are left out, and returned in RV(left_out).
    type: list
    elements: int
    default: [2, 4, 8, 12, 16]
  ppn:
    description: Processes per node.
    type: list
    elements: int
    default: [44]
  repeats:
    description: How often every run is made.
    type: int
    default: 5
  fabric:
    description: The fabric to measure on. V(none) leaves the choice to MPI, as for nodes without RDMA.
    type: str
    choices: [ib, roce, none]
    default: none
  device:
    description: Device and port for UCX, such as V(mlx5_0:1). Found on this node by link layer when not set; the others must have the same name for it.
    type: str
  tcp_interface:
    description: Network interface for the start of processes, where the nodes have several.
    type: str
  sizes:
    description: Smallest and largest message size in bytes. The program's own when not set.
    type: list
    elements: int
  iterations:
    description: Iterations for each size. The program's own when not set.
    type: int
  env:
    description: More environment variables for all processes.
    type: dict
    default: {}
  extra_args:
    description: More arguments for C(mpirun).
    type: list
    elements: str
    default: []
  within_node:
    description: Whether runs within one node are allowed. They measure the memory of the node and not a fabric.
    type: bool
    default: false
  oversubscribe:
    description: Whether a node may get more processes than it has cores.
    type: bool
    default: false
  config:
    description: What this configuration is called in RV(tables). C({ppn}) is replaced by the number of processes per node.
    type: str
    default: VM.{ppn}
  timeout:
    description: Seconds that one run may take.
    type: int
    default: 1800
  directory:
    description: Directory of this node that keeps the outputs.
    type: str
    default: /var/tmp/vhpc_rdma/benchmark
  root:
    description:
      - Directory that holds the system to work on. V(/) is the node itself.
      - With another directory nothing outside of it is read, run or changed.
    type: str
    default: /
"""

EXAMPLES = r"""
- name: Bandwidth and message rate of all pairs over 2 to 16 VMs on RoCE, five runs each
  vhpc.rdma.mpi_benchmark:
    hosts: "{{ ansible_play_hosts | map('extract', hostvars, 'ansible_host') }}"
    fabric: roce
    config: VM.{ppn}.RoCE
  run_once: true
  register: benchmark_result

- name: An application of one's own
  vhpc.rdma.mpi_benchmark:
    hosts: "{{ groups.nodes }}"
    benchmarks: []
    ppn: [48]
    config: BM.{ppn}.IB
    fabric: ib
    applications:
      hpcg:
        command: /opt/hpcg/xhpcg
        workdir: /shared/hpcg
        figure_of_merit: {regex: 'GFLOP/s rating of: ([\d.]+)', unit: GFLOP/s, direction: higher}
        success: 'HPCG result is VALID'
  run_once: true
"""

RETURN = r"""
backend:
  description: Which benchmarks were run.
  returned: always
  type: str
  sample: osu
programs:
  description: The program of each benchmark.
  returned: always
  type: dict
mpi:
  description: The launcher, its family and version.
  returned: always
  type: dict
  sample: {mpirun: /usr/lib64/openmpi/bin/mpirun, family: openmpi, version: 4.1.2}
device:
  description: Device and port that UCX was pinned to.
  returned: always
  type: str
left_out:
  description: Numbers of nodes that were left out for want of nodes.
  returned: always
  type: list
  elements: int
runs:
  description: Every run, with C(benchmark), C(nodes), C(ppn), C(repeat), C(command), C(seconds), C(finished) (as seconds
    since 1970), C(success), C(value), C(unit), C(direction), C(rows),
    C(error) and C(output), the file that keeps what it printed.
  returned: always
  type: list
  elements: dict
summary:
  description: Statistics and marks for each benchmark and layout, of the figure of merit and of every size.
  returned: always
  type: list
  elements: dict
tables:
  description: The mean figures in the form that M(vhpc.rdma.rdma_study) takes.
  returned: always
  type: dict
"""

import os
import shlex
import time

from ansible_collections.vhpc.rdma.plugins.module_utils import guest as wrapper
from ansible_collections.vhpc.rdma.plugins.module_utils import ports
from ansible_collections.vhpc.rdma.plugins.module_utils.bench import mpi
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import apps

SPEC = dict(
    hosts=dict(type="list", elements="str", required=True),
    benchmarks=dict(type="list", elements="str", choices=["mbw_mr", "bw", "latency", "allreduce"], default=["mbw_mr"]),
    applications=dict(type="dict", default={}),
    logs=dict(type="list", elements="dict", default=[]),
    backend=dict(type="str", choices=["auto", "osu", "imb"], default="auto"),
    path=dict(type="str"),
    mpirun=dict(type="str"),
    nodes=dict(type="list", elements="int", default=[2, 4, 8, 12, 16]),
    ppn=dict(type="list", elements="int", default=[44]),
    repeats=dict(type="int", default=5),
    fabric=dict(type="str", choices=["ib", "roce", "none"], default="none"),
    device=dict(type="str"),
    tcp_interface=dict(type="str"),
    sizes=dict(type="list", elements="int"),
    iterations=dict(type="int"),
    env=dict(type="dict", default={}),
    extra_args=dict(type="list", elements="str", default=[]),
    within_node=dict(type="bool", default=False),
    oversubscribe=dict(type="bool", default=False),
    config=dict(type="str", default="VM.{ppn}"),
    timeout=dict(type="int", default=1800),
    directory=dict(type="str", default="/var/tmp/vhpc_rdma/benchmark"),
)
TAIL = 2000


class Bench:
    """One task: what is to be run, where the programs are, and the runs."""

    def __init__(self, guest):
        self.guest, self.system, self.params = guest, guest.system, guest.params
        self.applications = self.params["applications"]
        for name in sorted(self.applications):
            apps.check(name, self.applications[name])
        if self.params["sizes"] and (len(self.params["sizes"]) != 2 or not 0 < self.params["sizes"][0] <= self.params["sizes"][1]):
            raise RdmaError("run the benchmarks", guest.host, "sizes is %r" % (self.params["sizes"],), "give the smallest and the largest size in bytes",
                            code="SIZES")
        if len(set(self.params["hosts"])) != len(self.params["hosts"]):
            raise RdmaError("run the benchmarks", guest.host, "a host is named twice in hosts", "name every node once", code="HOSTS")
        self.backend, self.programs, self.launcher = "", {}, dict(mpirun="", family="", version="")

    # ---- what is there ------------------------------------------------------------------------------------------------

    def folders(self):
        """(what it is, directory) in the order programs are looked for."""
        if self.params["path"]:
            return [("path", self.params["path"].rstrip("/"))]
        out = []
        for name in ("HPCX_OSU_DIR", "HPCX_IMB_DIR"):
            if os.environ.get(name) and self.system.is_machine:
                out.append(("HPC-X", os.environ[name].rstrip("/")))
        for what, patterns in mpi.PLACES:
            for pattern in patterns:
                # Newest first: names of versions sort well enough for that.
                out += [(what, folder) for folder in reversed(self.system.glob(pattern))]
        return out

    def find(self, benchmark, backend):
        for dummy, folder in self.folders():
            for inner in mpi.INNER:
                for name in mpi.programs(benchmark, backend):
                    path = folder + inner + "/" + name
                    if self.system.find(path):
                        return path
            if self.params["path"] and os.path.basename(folder) in mpi.programs(benchmark, backend) and self.system.find(folder):
                return folder
        return ""

    def discover(self):
        wanted = self.params["benchmarks"] if not self.params["logs"] else []
        backends = ["osu", "imb"] if self.params["backend"] == "auto" else [self.params["backend"]]
        missing = {}
        for backend in backends if wanted else []:
            found = dict((benchmark, self.find(benchmark, backend)) for benchmark in wanted)
            missing[backend] = sorted(benchmark for benchmark in found if not found[benchmark])
            if not missing[backend]:
                self.backend, self.programs = backend, found
                break
        if wanted and not self.backend:
            raise RdmaError(
                "find the benchmark programs", self.guest.host, "; ".join("%s: no %s" % (backend, ", ".join(missing[backend])) for backend in backends)
                + " in %s" % (self.params["path"] or "the usual places"),
                "install mpitests-openmpi (RHEL family), load HPC-X, build osu-micro-benchmarks with Spack, or give path", code="PROGRAM_MISSING")
        if not self.params["logs"]:
            self._mpirun()

    def _mpirun(self):
        program = self.params["mpirun"]
        if program and not self.system.find(program):
            raise RdmaError("find %s" % program, self.guest.host, "there is no such program", "see mpirun", code="PROGRAM_MISSING")
        if not program and self.programs:
            folder = os.path.dirname(self.programs[sorted(self.programs)[0]])
            program = next((path for path in mpi.launchers(folder) if self.system.find(path)), "")
        program = program or ("mpirun" if self.system.find("mpirun") else "")
        if not program:
            raise RdmaError("find mpirun", self.guest.host, "none belongs to the programs, and none is in the usual places", "give mpirun",
                            code="PROGRAM_MISSING")
        dummy, out, err = self.system.run([program, "--version"], env=self._libraries(program))
        kind = mpi.family(out + err)
        if not kind:
            raise RdmaError("use %s" % program, self.guest.host, "it is neither Open MPI's nor Intel MPI's nor MPICH's: %s" % (out + err).strip()[:200],
                            "give mpirun", code="MPI_UNKNOWN")
        self.launcher = dict(mpirun=program, family=kind, version=mpi.version_of(out + err))

    def _libraries(self, program):
        """Where an MPI that lies beside the system's has its libraries: no modules file has said so in this session."""
        folder = os.path.dirname(os.path.dirname(program)) if "/" in program else ""
        if folder in ("", "/usr", "/usr/local"):
            return {}
        found = [folder + name for name in ("/lib", "/lib64", "/lib/release", "/libfabric/lib") if self.system.is_dir(folder + name)]
        old = os.environ.get("LD_LIBRARY_PATH", "")
        env = dict(LD_LIBRARY_PATH=":".join([self.system.path(name) for name in found] + ([old] if old else [])))
        env["PATH"] = self.system.path(folder + "/bin") + ":" + os.environ.get("PATH", "/usr/bin:/bin")
        if self.system.glob(folder + "/lib*/libmpi.so.12*") or self.launcher["family"] == "intel":
            env["I_MPI_ROOT"] = self.system.path(folder)
        return env

    def device(self):
        if self.params["device"] or self.params["fabric"] == "none":
            return self.params["device"] or ""
        port = ports.choose(ports.read(self.system), self.params["fabric"], where=self.guest.host)
        wrong = ports.findings(port)
        if wrong and not self.guest.check_mode:
            raise RdmaError("measure on %s" % port["device"], self.guest.host, wrong[0]["text"], wrong[0]["hint"], code=wrong[0]["code"])
        return "%s:%d" % (port["device"], port["port"])

    # ---- runs ---------------------------------------------------------------------------------------------------------

    def run(self, run, device):
        """One run to its end: the record that is kept."""
        params, name = self.params, run["benchmark"]
        stem = "%s/%s-n%02d-p%02d-r%02d" % (params["directory"], name, run["nodes"], run["ppn"], run["repeat"])
        hosts = params["hosts"][:run["nodes"]]
        self.system.write(stem + ".hosts", mpi.hostfile(self.launcher["family"], hosts, run["ppn"]))
        env = mpi.environment(self.launcher["family"], device, params["fabric"])
        env.update((key, str(value)) for key, value in params["env"].items())
        definition = self.applications.get(name)
        words = dict(nodes=run["nodes"], ppn=run["ppn"], processes=run["processes"], repeat=run["repeat"])
        if definition is not None:
            env.update((key, str(value)) for key, value in (definition.get("env") or {}).items())
            program = shlex.split(fill(definition.get("command") or "", words))
            if not program:
                raise RdmaError("run %s" % name, self.guest.host, "its definition has no command", "give command, or logs that exist", code="APPLICATION")
        else:
            program = [self.system.path(self.programs[name])] + mpi.arguments(self.backend, name, run, params["sizes"], params["iterations"])
        argv = mpi.launch(self.launcher["family"], self.launcher["mpirun"], self.system.path(stem + ".hosts"), run, env, params["tcp_interface"] or "",
                          params["oversubscribe"], params["extra_args"]) + program
        ours = self._libraries(self.launcher["mpirun"])
        if self.launcher["family"] == "openmpi" and os.geteuid() == 0:
            # Guests of this collection are reached as root; Open MPI wants to hear twice that this is meant.
            ours.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        record = dict(run, backend="" if definition is not None else self.backend, fabric=params["fabric"],
                      command=" ".join(shlex.quote(word) for word in argv), hosts=hosts, output=stem + ".txt", success=False, value=None, error="", rows=[],
                      unit="", direction="")
        workdir = (definition or {}).get("workdir") or "/"
        if not self.system.is_dir(workdir):
            raise RdmaError("run %s" % name, self.guest.host, "there is no directory %s" % workdir, "make workdir on a file system that all nodes share",
                            code="WORKDIR")
        for command in (definition or {}).get("prepare") or []:
            command = fill(command, words)
            code, out, err = self.system.run(shlex.split(command), timeout=params["timeout"], env=dict(ours, **env), cwd=workdir)
            if code:
                self.system.write(record["output"], out + err)
                record.update(error="%s failed with return code %d: %s" % (command, code, (out + err).strip()[-300:]), seconds=0.0)
                return record
        started = time.time()
        try:
            code, out, err = self.system.run(argv, timeout=params["timeout"], env=ours, cwd=workdir)
            error = "" if code == 0 else "return code %d" % code
        except RdmaError as problem:
            if problem.code != "TIMEOUT":
                raise
            out, err = problem.data.get("stdout", ""), problem.data.get("stderr", "")
            error = "it did not end within %d seconds" % params["timeout"]
        record["finished"] = int(time.time())
        record["seconds"] = round(time.time() - started, 3)
        text = out + err
        self.system.write(record["output"], text)
        if definition is not None and definition.get("log"):
            log = "%s/%s" % (workdir, fill(definition["log"], words))
            if not self.system.exists(log) or os.path.getmtime(self.system.path(log)) < started - 1:
                # The log of the run before would be read as this one's.
                record["error"] = "%s was not written; %s" % (log, error or "the program ended with return code 0")
                record["tail"] = text.strip()[-TAIL:]
                return record
            text = self.system.read(log, "")
            self.system.write(stem + ".log", text)
        return self._judge(record, text, error)

    def _judge(self, record, text, error):
        """Read the text of a run into its record."""
        name, definition = record["benchmark"], self.applications.get(record["benchmark"])
        try:
            if definition is not None:
                found = apps.parse(name, definition, text)
                record.update((key, found[key]) for key in ("value", "unit", "direction", "version", "metric", "figures", "discarded", "warnings", "health"))
                record["success"] = found["success"] and found["value"] is not None and not error
                error = error or found.get("error", "") or ("" if found["success"] else "the log does not say that the run ended well")
            else:
                about = mpi.BENCHMARKS[name]
                record.update(unit=about["unit"], direction=about["direction"])
                record["rows"], record["version"], wrong = mpi.rows_of(self.backend, name, text, record["processes"])
                record["value"], record["size"] = mpi.figure(name, record["rows"])
                error = (error + "; " + wrong if error and wrong else error or wrong) or ("" if record["rows"] else "no row in its output")
                record["success"] = not error
        except ParseError as problem:
            error = error + "; " + problem.why if error else problem.why
        if error:
            record["error"] = error
            record["tail"] = text.strip()[-TAIL:]
        return record

    def read_logs(self):
        out = []
        for number, log in enumerate(self.params["logs"]):
            missing = [key for key in ("application", "path", "nodes", "ppn") if not log.get(key)]
            if missing or log["application"] not in self.applications:
                raise RdmaError("read the log %s" % (log.get("path") or number + 1), self.guest.host,
                                "%s missing" % ", ".join(missing) if missing else "%s is none of applications" % log["application"],
                                "give application, path, nodes and ppn", code="LOGS")
            layout = dict(benchmark=log["application"], nodes=int(log["nodes"]), ppn=int(log["ppn"]))
            run = dict(layout, processes=layout["nodes"] * layout["ppn"],
                       repeat=1 + sum(all(one[key] == layout[key] for key in layout) for one in out),
                       backend="", fabric=self.params["fabric"], command="", hosts=[], output=log["path"], success=False, value=None, error="", rows=[],
                       unit="", direction="", seconds=None)
            out.append(self._judge(run, self.system.read(log["path"]), ""))
        return out


def fill(text, words):
    """Replace {nodes} and the like and leave other braces alone."""
    for name in words:
        text = text.replace("{%s}" % name, str(words[name]))
    return text


def work(guest):
    bench, params = Bench(guest), guest.params
    fabric = "" if params["fabric"] == "none" else params["fabric"]
    names = params["benchmarks"] + sorted(bench.applications)
    planned, left = [], []
    if not params["logs"]:
        planned, left = mpi.plan(names, params["nodes"], params["ppn"], params["repeats"], len(params["hosts"]), params["within_node"])
    out = dict(changed=False, left_out=left, device="", backend="", programs={}, mpi=bench.launcher, runs=planned, summary=[], tables={})
    if guest.check_mode:
        return out
    if not params["logs"] and not planned:
        raise RdmaError("run the benchmarks", guest.host, "%d hosts are too few for any of %s nodes" % (len(params["hosts"]), params["nodes"]),
                        "give more hosts, or smaller numbers in nodes", code="HOSTS")
    bench.discover()
    device = bench.device() if not params["logs"] else ""
    if params["within_node"] and 1 in params["nodes"] and not params["logs"]:
        guest.warnings.append("Runs on one node measure its memory and not a fabric.")
    runs = bench.read_logs()
    bench.system.makedirs(params["directory"], 0o755)
    for run in planned:
        runs.append(bench.run(run, device))
    for run in runs:
        told = list(run.get("warnings") or []) + ([run["health"]["text"]] if (run.get("health") or {}).get("status") == "warn" else [])
        for text in told:
            text = "%s on %d node%s: %s" % (run["benchmark"], run["nodes"], "" if run["nodes"] == 1 else "s", text)
            if text not in guest.warnings:
                guest.warnings.append(text)
    summary = mpi.summarize(runs)
    for entry in summary:
        for mark in entry["statistics"]["marks"]:
            guest.warnings.append("%s on %d node%s with %d processes each: %s" % (
                entry["benchmark"], entry["nodes"], "" if entry["nodes"] == 1 else "s", entry["ppn"], mark["text"]))
    out.update(device=device, backend=bench.backend, programs=bench.programs, mpi=bench.launcher, runs=runs, summary=summary,
               tables=mpi.tables(summary, params["config"], fabric))
    if runs and not any(run["success"] for run in runs):
        first = runs[0]
        raise RdmaError("run %s" % first["benchmark"], guest.host, "none of %d runs succeeded; the first: %s" % (len(runs), first["error"]),
                        "see runs of this result, and %s" % first["output"], code="BENCHMARK", data=out)
    return out


def main():
    wrapper.run(SPEC, work)


if __name__ == "__main__":
    main()
