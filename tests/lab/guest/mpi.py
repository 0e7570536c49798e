# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The MPI that an OFED brings to a guest: Open MPI's mpirun, and the Intel MPI Benchmarks with figures of the same curves as perftest's.

What the launcher checks on a real cluster it checks here: the hostfile's slots, whether each node answers, and whether UCX has the device.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

from . import perftest, state
from .programs import OFED, Call, Stop, program

VERSION = "4.1.2a1"
HOME = "usr/mpi/gcc/openmpi-%s/" % VERSION
RULE = "#" + "-" * 64 + "\n"
ONE = ("-np", "-n", "--hostfile", "-hostfile", "--map-by", "--bind-to", "-x")  # options of mpirun with one value; --mca has two


def _options(argv: list[str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """(options, environment of the processes, command line of the program)."""
    found: dict[str, str] = {}
    env: dict[str, str] = {}
    todo = list(argv)
    while todo and todo[0].startswith("-"):
        name = todo.pop(0)
        if name in ("--mca", "-mca"):
            del todo[:2]
        elif name == "-x":
            key, dummy, value = todo.pop(0).partition("=")
            env[key] = value
        elif name in ONE:
            found[name.lstrip("-")] = todo.pop(0)
        elif name not in ("--allow-run-as-root", "--oversubscribe"):
            raise Stop(1, "mpirun: Error: unknown option \"%s\"\nType 'mpirun --help' for usage.\n" % name)
    return found, env, todo


@program("mpirun", package=OFED, path=HOME + "bin/mpirun")
def mpirun(call: Call) -> int:
    if call.argv[:1] in (["--version"], ["-V"]):
        call.line("mpirun (Open MPI) %s\n\nReport bugs to http://www.open-mpi.org/community/help/" % VERSION)
        return 0
    found, env, words = _options(call.argv)
    count = int(found.get("np") or found.get("n") or 1)
    names = [[call.vm.name, "slots=%d" % count]]
    if "hostfile" in found:
        # The guest's own name for it, or this machine's, which has the guest's root in front.
        path = Path(call.guest.root + call.cwd, found["hostfile"])
        if not path.exists():
            raise Stop(1, "Open RTE was unable to open the hostfile:\n    %s\nCheck to make sure the path and filename are correct.\n" % found["hostfile"])
        names = [line.split() for line in path.read_text().splitlines()]
    slots = sum(int(line[1].partition("=")[2]) for line in names)
    if slots < count:
        raise Stop(1, "There are not enough slots available in the system to satisfy the %d\nslots that were requested by the application:\n\n  %s\n"
                   % (count, words[0]))
    vms = []
    for name in [line[0] for line in names]:
        target = state.resolve(call.world, call.vm, name)
        there = state.owner(call.world, target) if target else None
        if there is None:
            raise Stop(1, "ssh: connect to host %s port 22: No route to host\nORTE was unable to reliably start one or more daemons.\n" % name)
        vms.append(there[0])
    if not words or Path(words[0]).name != "IMB-MPI1":
        raise Stop(1, "mpirun was unable to find the specified executable file, and therefore\ndid not launch the job.\n")
    device = env.get("UCX_NET_DEVICES", "").partition(":")[0]
    fabric = ""
    for vm in vms if device else []:
        port = next((one for one in state.rdma_ports(call.world, vm) if one.name == device), None)
        if port is None or port.state != 4:
            raise Stop(1, "[%s:1] UCX  WARN  network device '%s' is not available\nNo components were able to be opened in the pml framework.\n"
                       % (vm.name, env["UCX_NET_DEVICES"]))
        fabric = "ib" if port.infiniband else "roce"
    _imb(call, words[1:], count, len(vms), fabric or "roce")
    return 0


def _imb(call: Call, words: list[str], count: int, nodes: int, fabric: str) -> None:
    """Tables of the benchmarks that were asked for."""
    call.guest.extra["mpi"] = call.guest.extra.get("mpi", 0) + 1
    noise = random.Random("%s %d %d" % (call.vm.name, call.guest.boots, call.guest.extra["mpi"]))
    call.out(RULE + "#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part\n" + RULE + "# Machine               : x86_64\n\n")
    call.out("# Calling sequence was: \n\n# IMB-MPI1 %s\n\n" % " ".join(words))
    low, high = 0, 22
    if "-msglog" in words:
        low, high = (int(part) for part in words[words.index("-msglog") + 1].split(":"))
    iterations = int(words[words.index("-iter") + 1]) if "-iter" in words else 1000
    sizes = [0] + [2 ** power for power in range(low, high + 1)]
    for name in [word for word in words if word in ("PingPong", "Uniband", "Allreduce")]:
        mine = 2 if name == "PingPong" else count
        call.out(RULE + "# Benchmarking %s \n# #processes = %d \n" % (name, mine) + RULE)
        call.out({"PingPong": "       #bytes #repetitions      t[usec]   Mbytes/sec\n", "Uniband": "       #bytes #repetitions   Mbytes/sec      Msg/sec\n",
                  "Allreduce": "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"}[name])
        for size in sizes:
            wide = perftest.gbits(fabric, "send_bw", max(size, 2)) * 125 * max(nodes / 2, 1) * (1 + noise.uniform(-0.01, 0.01))
            slow = (perftest.typical(fabric, "send_lat", max(size, 2)) + 0.25) * (1 + noise.uniform(-0.01, 0.01))
            if name == "PingPong":
                call.line("%13d %12d %12.2f %12.2f" % (size, iterations, slow, size / slow))
            elif name == "Uniband" and size:
                call.line("%13d %12d %12.2f %12.0f" % (size, iterations, wide, wide * 1e6 / size))
            elif name == "Allreduce":
                slow *= math.log2(max(mine, 2))
                call.line("%13d %12d %12.2f %12.2f %12.2f" % (size, iterations, slow * 0.97, slow * 1.04, slow))
        call.line()
    call.out("\n# All processes entering MPI_Finalize\n\n")


@program("IMB-MPI1", package=OFED, path=HOME + "tests/imb/IMB-MPI1")
def imb(call: Call) -> int:
    _imb(call, call.argv, 1, 1, "roce")
    return 0
