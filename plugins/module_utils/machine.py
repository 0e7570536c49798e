# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guest or a bare-metal machine is made of, as far as a reader of its figures must know it: processor, memory, BIOS, system, MPI, UCX."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import mpi
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError


def parse_cpuinfo(text):
    """/proc/cpuinfo: model, sockets, cores, logical processors, and whether a hypervisor runs below."""
    blocks = [dict((key.strip(), value.strip()) for key, dummy, value in (line.partition(":") for line in block.splitlines()))
              for block in re.split(r"\n\s*\n", text) if re.search(r"(?m)^processor\s*:", block)]
    if not blocks:
        return dict(cpu="", sockets=0, cores=0, threads=0, virtual=None)
    first = blocks[0]
    cores = set((block.get("physical id", "0"), block.get("core id", block["processor"])) for block in blocks)
    # Arm's has no flags that would tell.
    virtual = "hypervisor" in first["flags"].split() if "flags" in first else None
    sockets = set(block.get("physical id", "0") for block in blocks)
    return dict(cpu=" ".join((first.get("model name") or first.get("Model") or "").split()), sockets=len(sockets), cores=len(cores), threads=len(blocks),
                virtual=virtual)


def parse_meminfo(text):
    """Memory as people say it."""
    found = re.search(r"(?m)^MemTotal:\s*(\d+) kB", text)
    return "%.0f GiB" % (int(found.group(1)) / 1048576.0) if found else ""


def parse_os(text):
    """The name that a system has for itself in os-release."""
    found = re.search(r"(?m)^PRETTY_NAME=[\"']?(.*?)[\"']?\s*$", text)
    return found.group(1) if found else ""


def parse_ucx(text):
    """ucx_info -v: the version, in the words of 1.12 and later or of those before."""
    found = re.search(r"(?:Library version:|UCT version=)\s*(\d+(?:\.\d+)+)", text)
    return found.group(1) if found else ""


def _ask(system, *argv):
    """What a program says of itself; nothing where it is not there or hangs."""
    if not system.find(argv[0]):
        return ""
    try:
        dummy, out, err = system.run(list(argv), timeout=15)
    except RdmaError:
        return ""
    return out + "\n" + err


def read(system):
    """Everything of it; what cannot be read is empty."""
    out = parse_cpuinfo(system.read("/proc/cpuinfo", ""))
    launcher = _ask(system, "mpirun", "--version")
    out.update(memory=parse_meminfo(system.read("/proc/meminfo", "")), os=parse_os(system.read("/etc/os-release", "")),
               bios=system.line("/sys/class/dmi/id/bios_version"), model=system.line("/sys/class/dmi/id/product_name"),
               mpi=" ".join(filter(None, (mpi.family(launcher), mpi.version_of(launcher)))) if launcher else "", ucx=parse_ucx(_ask(system, "ucx_info", "-v")))
    return out
