# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's ESX driver, written in C without pyVmomi: it sees errors of the wire that no pyVmomi client can see."""

from __future__ import annotations

import os
import subprocess

import pytest
from witness_tools import need, virsh as program_of
from lab.vsphere.direct import HostFace
from lab.world import PassthruDevice

HOST, VM = "esxi02", "vm02"


def client(rehearsal, user, password, address, rest):
    """A function that runs virsh and gives its output; a program that cannot start here skips the test."""
    program, libraries = need(program_of)
    credentials = rehearsal.directory / "auth.conf"
    credentials.write_text("[credentials-lab]\nusername=%s\npassword=%s\n[auth-esx-%s]\ncredentials=lab\n" % (user, password, address))
    env = dict(os.environ, LD_LIBRARY_PATH=libraries, LIBVIRT_AUTH_FILE=str(credentials), LC_ALL="C", HOME=str(rehearsal.directory))

    def call(*words):
        done = subprocess.run([str(program), "-q", "-c", rest % (user.replace("@", "%40"), address), *words], env=env, check=False, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        if "error while loading shared libraries" in done.stderr:
            pytest.skip("this witness cannot be had here: " + done.stderr.strip())
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        assert done.returncode == 0 and not errors, "virsh %s ended with %d: %s" % (" ".join(words), done.returncode, "\n".join(errors) or done.stderr)
        return done.stdout
    return call


@pytest.fixture()
def virsh(rehearsal):
    login = rehearsal.login
    return client(rehearsal, login["username"], login["password"], login["hostname"], "vpx://%%s@%%s:%d/HPC/hpc-cluster/%s?no_verify=1" % (login["port"], HOST))


def table(text):
    return {row[0].strip(): row[1].strip() for row in (line.split(":", 1) for line in text.splitlines()) if len(row) == 2}


def test_virsh_reads_the_host(rehearsal, virsh):
    host, found = rehearsal.world.hosts[HOST], table(virsh("nodeinfo"))
    assert (found["CPU(s)"], found["CPU socket(s)"], found["CPU frequency"]) == ("48", "2", "2993 MHz")
    assert found["Memory size"] == "%d KiB" % (host.memory_mb * 1024)
    assert "hypervisor: ESX" in virsh("version")
    assert "<arch>x86_64</arch>" in virsh("capabilities")


def test_virsh_reads_what_ours_set_and_ours_what_virsh_set(rehearsal, virsh):
    def ours(state):
        return "vhpc.rdma.vm_power", dict(rehearsal.ours, name=VM, state=state, power_off_ok=True)
    rehearsal.good(("vhpc.rdma.vm_tuning", dict(rehearsal.ours, name=VM, cpus=44, cores_per_socket=22, memory_mb=147456)))
    found = table(virsh("dominfo", VM))
    assert (found["Name"], found["UUID"], found["CPU(s)"], found["Max memory"]) == (VM, rehearsal.world.vms[VM].uuid, "44", "%d KiB" % (147456 * 1024))
    assert virsh("domstate", VM).strip() == "shut off"
    assert rehearsal.good(ours("on"))[0]["changed"]
    assert virsh("domstate", VM).strip() == "running"
    assert [line.split()[1:] for line in virsh("list", "--all").splitlines() if line.strip()] == [[VM, "running"]]
    virsh("destroy", VM)
    assert rehearsal.world.vms[VM].power == "off"
    assert not rehearsal.good(ours("off"))[0]["changed"]
    virsh("start", VM)
    assert not rehearsal.good(ours("on"))[0]["changed"]


def test_virsh_is_refused_what_a_real_host_refuses(rehearsal, virsh):
    """Power-on of a VM whose memory is not reserved, with a fixed passthrough device: the task's error reaches the C client."""
    host = rehearsal.world.hosts[HOST]
    host.dvs.clear()
    host.passthru["0000:3b:00.0"].enabled = host.passthru["0000:3b:00.0"].active = True
    rehearsal.world.vms[VM].devices.append(PassthruDevice(13000, "0000:3b:00.0", "1017", 0x15B3, "wrong"))
    with pytest.raises(AssertionError, match="sched.mem.min"):
        virsh("start", VM)
    assert rehearsal.world.vms[VM].power == "off"


def test_virsh_at_the_host_itself(rehearsal):
    """esx:// takes the host's own API rather than vCenter's."""
    lab, host = rehearsal.lab, rehearsal.world.hosts[HOST]
    with HostFace(rehearsal.world, str(lab.directory), str(lab.directory / "cert.pem"), str(lab.directory / "key.pem"), HOST) as face:
        virsh = client(rehearsal, "root", host.password, host.address, "esx://%%s@%%s:%d/?no_verify=1" % face.port)
        assert table(virsh("dominfo", VM))["State"] == "shut off"
        assert [line.split() for line in virsh("pool-list").splitlines() if line.strip()] == [["hpc-nfs", "active", "yes"]]
        assert "ESX %s" % host.version in virsh("version") and virsh("hostname").strip() == "%s.lab" % HOST
        virsh("start", VM)
        assert rehearsal.world.vms[VM].power == "on" and virsh("domstate", VM).strip() == "running"
