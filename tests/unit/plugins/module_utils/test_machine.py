# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import os

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import machine
from ansible_collections.vhpc.rdma.plugins.module_utils.system import System


def cpuinfo(sockets, cores, threads=1, flags="fpu avx2"):
    blocks = []
    for number in range(sockets * cores * threads):
        core = number % (sockets * cores)
        blocks.append("processor\t: %d\nmodel name\t: Some   CPU @ 3.00GHz\nphysical id\t: %d\ncore id\t\t: %d\nflags\t\t: %s\n" % (
            number, core // cores, core % cores, flags))
    return "\n".join(blocks)


@pytest.mark.parametrize("layout, wanted", [((2, 24), (2, 48, 48)), ((2, 24, 2), (2, 48, 96)), ((44, 1), (44, 44, 44)), ((1, 1), (1, 1, 1))])
def test_cores_are_not_threads(layout, wanted):
    found = machine.parse_cpuinfo(cpuinfo(*layout))
    assert (found["sockets"], found["cores"], found["threads"]) == wanted and found["cpu"] == "Some CPU @ 3.00GHz"


def test_a_vm_is_told_from_bare_metal_where_the_flags_tell():
    assert machine.parse_cpuinfo(cpuinfo(1, 2, flags="fpu hypervisor"))["virtual"] is True
    assert machine.parse_cpuinfo(cpuinfo(1, 2))["virtual"] is False
    assert machine.parse_cpuinfo("processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n\nprocessor\t: 1\n")["virtual"] is None
    assert machine.parse_cpuinfo("processor\t: 0\nBogoMIPS\t: 50.00\n\nprocessor\t: 1\n")["cores"] == 2
    assert machine.parse_cpuinfo("") == dict(cpu="", sockets=0, cores=0, threads=0, virtual=None)


@pytest.mark.parametrize("text, version", [
    ("# Library version: 1.12.0\n# Library path: /usr/lib64/libucs.so.0\n", "1.12.0"), ("# UCT version=1.10.1 revision d0b7a8f\n", "1.10.1"), ("nothing", "")])
def test_both_words_of_ucx_are_understood(text, version):
    assert machine.parse_ucx(text) == version


def test_a_machine_is_read_and_what_is_not_there_is_empty(tmp_path):
    empty = machine.read(System(str(tmp_path)))
    assert not any(value for value in empty.values()) and set(empty) >= {"cpu", "memory", "os", "bios", "model", "mpi", "ucx"}
    for name, text in (("proc/cpuinfo", cpuinfo(2, 4)), ("proc/meminfo", "MemTotal:       148500000 kB\nMemFree: 1 kB\n"),
                       ("etc/os-release", 'NAME="Rocky"\nPRETTY_NAME="Rocky Linux 8.9 (Green Obsidian)"\n'), ("sys/class/dmi/id/bios_version", "2.12.2\n"),
                       ("sys/class/dmi/id/product_name", "PowerEdge C6420\n"), ("usr/bin/mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.2'\n"),
                       ("usr/bin/ucx_info", "#!/bin/sh\n[ \"$1\" = -v ] && echo '# Library version: 1.12.0'\n")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if "/bin/" in name:
            os.chmod(str(path), 0o755)
    found = machine.read(System(str(tmp_path)))
    assert (found["memory"], found["os"], found["bios"], found["model"]) == ("142 GiB", "Rocky Linux 8.9 (Green Obsidian)", "2.12.2", "PowerEdge C6420")
    assert (found["mpi"], found["ucx"], found["cores"]) == ("openmpi 4.1.2", "1.12.0", 8)
