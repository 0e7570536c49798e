# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's guests as SSH servers: OpenSSH's own client, a root of their own, reboots that end everything that ran."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

pytest.importorskip("asyncssh")
if shutil.which("ssh") is None:
    pytest.skip("OpenSSH's client is not installed", allow_module_level=True)
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from guest_bench import Bench  # noqa: E402


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("guests"))
    yield made
    made.stop()


def test_a_command_sees_the_guest_and_its_exit_status_comes_back(bench):
    done = bench.ssh(1, "pwd; hostname; echo to stderr >&2; exit 7")
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (7, [str(bench.root(1) / "root"), "vm01"], "to stderr\n")


def test_standard_input_reaches_the_command(bench):
    text = "line\n" * 20000
    done = bench.ssh(1, "cat", text=text)
    assert done.stdout == text


def test_home_of_root_is_the_guests(bench):
    """Ansible asks for ~root before it makes its temporary directory."""
    done = bench.ssh(1, "/bin/sh -c 'echo ~root && sleep 0'")
    assert done.stdout.strip() == str(bench.root(1) / "root")


def test_only_the_labs_key_and_the_right_user_get_in(bench, tmp_path):
    key = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    guest = bench.vms[0].guest
    done = subprocess.run(["ssh", "-F", "/dev/null", "-i", str(key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
                           "-o", "UserKnownHostsFile=/dev/null", "-p", str(guest.port), "root@" + guest.address, "true"],
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def test_locked_memory_follows_limits_d(bench):
    assert bench.ssh(2, "ulimit -l").stdout.strip() == "64"
    limits = bench.root(2) / "etc/security/limits.d/rdma.conf"
    limits.write_text("* soft memlock 4096\n* hard memlock 4096\n")
    try:
        assert bench.ssh(2, "ulimit -l").stdout.strip() == "4096"
    finally:
        limits.unlink()


def test_sftp_ends_inside_the_root(bench, tmp_path):
    source = tmp_path / "file"
    source.write_text("content")
    guest = bench.vms[0].guest
    cases = {"/etc/motd": "etc/motd", str(bench.root(1) / "root/x"): "root/x", "relative": "root/relative", "/../../etc/escaped": "etc/escaped"}
    for target, place in cases.items():
        done = subprocess.run(["sftp", "-F", "/dev/null", "-b", "-", "-i", str(bench.directory / "id_ed25519"),
                               "-o", "UserKnownHostsFile=%s" % (bench.directory / "known_hosts"), "-P", str(guest.port), "root@" + guest.address],
                              input="put %s %s\n" % (source, target), text=True, capture_output=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        assert (bench.root(1) / place).read_text() == "content"


def test_a_terminal_for_people(bench):
    done = bench.ssh(1, options=("-tt",), text="tty; hostname\nexit 3\n")
    assert done.returncode == 3
    assert "vm01" in done.stdout
    assert "/dev/pts/" in done.stdout


def test_a_session_does_not_wait_for_a_daemon_it_left_behind(bench):
    started = time.monotonic()
    done = bench.ssh(1, "setsid sleep 30 & echo started")
    assert done.stdout == "started\n"
    assert time.monotonic() - started < 10


def test_a_reboot_ends_what_runs_and_keeps_the_files(bench):
    boots = bench.vms[1].guest.boots
    done = bench.ssh(2, "setsid sleep 300 >/dev/null 2>&1 & echo $!; echo kept > kept; sync")
    pid = int(done.stdout.split()[0])
    assert pathlib.Path("/proc/%d" % pid).exists()
    bench.ssh(2, "reboot")
    bench.wait(lambda: bench.vms[1].guest.boots == boots + 1 and bench.ssh(2, "true").returncode == 0)

    def gone():
        try:
            return "State:\tZ" in pathlib.Path("/proc/%d/status" % pid).read_text()
        except FileNotFoundError:
            return True

    bench.wait(gone)
    assert bench.ssh(2, "cat kept").stdout == "kept\n"


def test_a_guest_that_is_off_refuses_connections(bench):
    vm = bench.vms[1]
    bench.world.power_off_vm(vm)
    bench.wait(lambda: bench.ssh(2, "true").returncode == 255)
    bench.world.power_on_vm(vm)
    bench.wait(lambda: bench.ssh(2, "true").returncode == 0)


def test_programs_that_would_reach_the_machine_are_the_guests_own(bench):
    """reboot, systemctl and the like must never be this machine's."""
    names = "reboot shutdown poweroff halt init systemctl dnf yum rpm ip nmcli modprobe rmmod sysctl mount ping ethtool mlnx_qos uname hostname udevadm".split()
    done = bench.ssh(1, "for n in %s; do command -v $n || echo none; done" % " ".join(names))
    for name, place in zip(names, done.stdout.splitlines()):
        if name != "mount":  # harmless without an argument, and nothing here mounts
            assert place.startswith(str(bench.root(1))), "%s is %s" % (name, place)


def test_the_first_program_of_path_is_looked_up_in_the_root(bench):
    folders = bench.ssh(1, "echo $PATH").stdout.split(":")
    assert folders[0].startswith(str(bench.root(1)))
    assert os.path.realpath(bench.root(1)) == str(bench.root(1))


def test_ansible_runs_a_module_with_and_without_pipelining(bench):
    ansible = shutil.which("ansible", path=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""))
    if ansible is None:
        pytest.skip("ansible is not installed")
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    config = bench.directory / "ansible.cfg"
    config.write_text("[defaults]\nhome = %s\n" % (bench.directory / "ansible"))
    env.update(ANSIBLE_CONFIG=str(config), LC_ALL="C.UTF-8")
    for pipelining in ("true", "false"):
        done = subprocess.run([ansible, "-i", str(bench.inventory), "guests", "-m", "ping",
                               "-e", "ansible_pipelining=%s ansible_ssh_pipelining=%s" % (pipelining, pipelining),
                               "-e", "ansible_python_interpreter=%s" % sys.executable], capture_output=True, text=True, timeout=120, env=env,
                              check=False)
        assert done.stdout.count("pong") == 2, done.stdout + done.stderr
