# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's ESXi hosts as the machine's own OpenSSH client and Ansible meet them."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest

asyncssh = pytest.importorskip("asyncssh")
if not shutil.which("ssh"):
    pytest.skip("no OpenSSH client here", allow_module_level=True)

from lab import site  # noqa: E402
from lab.esxi.server import EsxiFace  # noqa: E402
from lab.world import Service  # noqa: E402

LOST = 255
DATASTORE_VIB = "/vmfs/volumes/hpc-nfs/rdma/mft-4.18.1.14-0.vib"


class Site:
    """A running face and a client for it."""

    def __init__(self, directory, hosts=4):
        self.directory = directory
        self.key = directory / "key"
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(self.key))
        key.write_public_key(str(self.key) + ".pub")
        self.key.chmod(0o600)
        self.world = site.build(hosts)
        for host in self.world.hosts.values():
            host.boot_seconds = 0.2
        self.face = EsxiFace(self.world, directory, str(self.key) + ".pub", directory / "hostkey")
        self.face.start()

    def options(self, *more):
        return ["-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10", *more]

    def ssh(self, name, *command, options=(), stdin="", user="root", identity=None, batch=True, env=None):
        host = self.world.hosts[name]
        words = ["ssh", *self.options("-p", str(host.ssh_port), *options)]
        words += ["-i", str(identity or self.key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=%s" % ("yes" if batch else "no")]
        done = subprocess.run([*words, "%s@%s" % (user, host.address), *command], input=stdin.encode(), capture_output=True, check=False, timeout=30,
                              env=dict(os.environ, **(env or {})))
        return done.stdout.decode(), done.stderr.decode(), done.returncode

    def wait(self, name, command="true", seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = self.ssh(name, command)
            if answer[2] == 0:
                return answer
            time.sleep(0.05)
        raise AssertionError("%s did not come back: %s" % (name, answer))


@pytest.fixture(name="lab")
def _lab(tmp_path):
    made = Site(tmp_path)
    yield made
    made.face.stop()


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within %d seconds" % seconds
        time.sleep(0.05)


def refused(lab, name):
    return "refused" in lab.ssh(name, "true")[1]


def always_on(lab, name):
    lab.world.hosts[name].services["TSM-SSH"] = Service(True, "on")


# ---- login ------------------------------------------------------------------------------------------------------------

def test_root_logs_in_by_key_and_nobody_else_does(lab, tmp_path):
    assert lab.ssh("esxi01", "hostname; id -u; echo oops >&2; exit 7") == ("esxi01\n0\n", "oops\n", 7)
    assert lab.ssh("esxi02", "hostname")[0] == "esxi02\n"
    other = tmp_path / "other"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(other))
    other.chmod(0o600)
    assert lab.ssh("esxi01", "true", identity=other)[2] == LOST and lab.ssh("esxi01", "true", user="admin")[2] == LOST


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
@pytest.mark.parametrize("right", [True, False])
def test_the_password_works_both_ways(lab, tmp_path, method, right):
    ask = tmp_path / "ask"
    ask.write_text("#!/bin/sh\necho '%s'\n" % (lab.world.hosts["esxi01"].password if right else "wrong"))
    ask.chmod(0o700)
    options = ("-o", "PreferredAuthentications=" + method, "-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1")
    out, err, rc = lab.ssh("esxi01", "echo in", options=options, batch=False, env={"SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"})
    assert (out, rc) == (("in\n", 0) if right else ("", LOST)), err


# ---- streams ----------------------------------------------------------------------------------------------------------

def test_streams_stay_apart_unless_there_is_a_terminal(lab):
    lab.ssh("esxi02", "/opt/mellanox/bin/mst start")
    out, err, rc = lab.ssh("esxi02", "/opt/mellanox/bin/mlxconfig -d /dev/mst/x q; nosuch")
    assert (out, err, rc) == ("-E- Failed to open the device\n", "Unable to parse device name /dev/mst/x\nsh: nosuch: not found\n", 127)
    out, err, rc = lab.ssh("esxi02", "echo a; nosuch", options=("-tt",))
    assert (out, err, rc) == ("a\r\nsh: nosuch: not found\r\n", "", 127)


def test_input_reaches_the_command_and_the_prompt(lab):
    assert lab.ssh("esxi01", "cat > /tmp/in; wc -c < /tmp/in; sha256sum /tmp/in | cut -c1-8", stdin="x" * 200000)[0] == "200000\n%s\n" % _sha("x" * 200000)
    assert lab.ssh("esxi01", stdin="echo from stdin\nexit 3\n") == ("from stdin\n", "", 3)
    lab.ssh("esxi02", "/opt/mellanox/bin/mst start")
    command = "/opt/mellanox/bin/mlxconfig -d mt4119_pciconf1 set SRIOV_EN=0"
    assert "Aborted by user" in lab.ssh("esxi02", command)[0] and "Applying... Done!" in lab.ssh("esxi02", command, stdin="y\n")[0]
    assert [card.config["SRIOV_EN"].next for card in lab.world.hosts["esxi02"].cards] == [0, 0]


def _sha(text):
    import hashlib
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def test_output_before_a_sleep_comes_before_it(lab):
    host = lab.world.hosts["esxi01"]
    started = time.monotonic()
    with subprocess.Popen(["ssh", *lab.options("-p", str(host.ssh_port), "-i", str(lab.key)), "root@" + host.address, "echo first; sleep 0.6; echo second"],
                          stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"first\n"
        first = time.monotonic() - started
        assert client.stdout.read() == b"second\n"
        assert time.monotonic() - started - first > 0.4


def test_a_person_finds_a_prompt(lab):
    out, err, rc = lab.ssh("esxi01", options=("-tt",), stdin="hostnam\x7fme\rcd /tmp\rpwd\rfalse\rexit\r")
    assert rc == 1 and "[root@esxi01:~] " in out and "\r\nesxi01\r\n" in out and "[root@esxi01:/tmp] " in out and "\r\n/tmp\r\n" in out


@pytest.mark.parametrize("legacy", [False, True])
def test_files_come_and_go_by_scp(lab, tmp_path, legacy):
    if not shutil.which("scp"):
        pytest.skip("no scp here")
    host = lab.world.hosts["esxi01"]
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(os.urandom(300000))
    scp = ["scp", *(["-O"] if legacy else []), *lab.options("-P", str(host.ssh_port), "-i", str(lab.key))]
    remote = "root@%s:" % host.address
    subprocess.run([*scp, str(source), remote + "/tmp/f"], check=True, timeout=30)
    subprocess.run([*scp, remote + "/tmp/f", str(back)], check=True, timeout=30)
    assert back.read_bytes() == source.read_bytes() == host.tmp["f"]
    lab.world.set_fault("tmp_full", "esxi01")
    assert subprocess.run([*scp, str(source), remote + "/tmp/g"], check=False, capture_output=True, timeout=30).returncode != 0
    assert host.tmp.get("g", b"") == b""


# ---- up and down ------------------------------------------------------------------------------------------------------

def test_a_reboot_answers_first_then_ends_every_session_and_empties_tmp(lab):
    always_on(lab, "esxi01")
    host = lab.world.hosts["esxi01"]
    with subprocess.Popen(["ssh", *lab.options("-p", str(host.ssh_port), "-i", str(lab.key)), "root@" + host.address, "sleep 30; echo never"],
                          stdout=subprocess.PIPE) as waiting:
        answer = lab.ssh("esxi01", "echo x > /tmp/x; esxcli software vib install -v %s | grep Required; reboot" % DATASTORE_VIB)
        assert answer == ("   Reboot Required: true\n", "", 0)
        assert waiting.stdout.read() == b"" and waiting.wait(5) == LOST
    out, err, rc = lab.wait("esxi01", "ls /tmp; /opt/mellanox/bin/mst status; uptime")
    assert out.startswith("MST devices:\n") and host.boots == 1 and " 0 days, 00:00:0" in out
    assert lab.ssh("esxi02", "true")[2] == 0 and lab.world.hosts["esxi02"].boots == 0


def test_ssh_that_is_not_to_start_with_the_host_stays_away_after_a_reboot(lab):
    booted = threading.Event()
    lab.world.watch(lambda kind, name: booted.set() if lab.world.hosts["esxi01"].boots else None)
    lab.ssh("esxi01", "reboot")
    assert booted.wait(5)
    time.sleep(0.3)
    assert refused(lab, "esxi01")
    lab.world.hosts["esxi01"].services["TSM-SSH"].running = True  # as vCenter would start it
    lab.world.tell("host", "esxi01")
    assert lab.wait("esxi01", "hostname")[0] == "esxi01\n"


def test_a_port_that_is_taken_for_a_moment_is_waited_for(lab):
    host = lab.world.hosts["esxi01"]
    host.services["TSM-SSH"].running = False
    lab.world.tell("host", "esxi01")
    until(lambda: refused(lab, "esxi01"))
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host.address, host.ssh_port))
        taken.listen()
        host.services["TSM-SSH"].running = True
        lab.world.tell("host", "esxi01")
        time.sleep(0.3)
    assert lab.wait("esxi01", "hostname")[0] == "esxi01\n"


def test_a_host_that_stays_down_does_not_listen(lab):
    always_on(lab, "esxi02")
    lab.world.set_fault("stays_down", "esxi02")
    assert lab.ssh("esxi02", "reboot")[2] == 0
    until(lambda: lab.world.hosts["esxi02"].state == "down")
    until(lambda: refused(lab, "esxi02"))
    assert lab.world.hosts["esxi02"].boots == 0


def test_ssh_can_be_stopped_from_inside(lab):
    assert lab.ssh("esxi01", "vim-cmd hostsvc/stop_ssh; echo asked") == ("asked\n", "", 0)
    until(lambda: refused(lab, "esxi01"))


def test_a_delayed_reboot_waits(lab):
    assert lab.ssh("esxi01", "reboot -d 1")[2] == 0
    until(lambda: lab.world.hosts["esxi01"].boots == 1)
    asked, down = (next(entry["at"] for entry in lab.world.journal if entry["what"] == what) for what in ("reboot -d 1", "reboot"))
    assert 0.9 < down - asked < 5


# ---- faults -----------------------------------------------------------------------------------------------------------

def test_a_dropped_connection_loses_the_answer_not_the_effect(lab):
    lab.world.set_fault("ssh_drop", "esxi01", times=1, match="vib install")
    assert lab.ssh("esxi01", "hostname")[2] == 0
    out, err, rc = lab.ssh("esxi01", "esxcli software vib install -v " + DATASTORE_VIB)
    assert (out, rc) == ("", LOST) and "mft" in lab.world.hosts["esxi01"].staged
    assert "Host is not changed." in lab.ssh("esxi01", "esxcli software vib install -v " + DATASTORE_VIB)[0]
    lab.world.set_fault("ssh_drop", "esxi02", times=1, when="before")
    assert lab.ssh("esxi02", "echo x > /tmp/x")[2] == LOST and lab.world.hosts["esxi02"].tmp == {}


def test_a_slow_host_answers_late(lab):
    lab.world.set_fault("slow_host", "esxi01", delay=0.7)
    started = time.monotonic()
    assert lab.ssh("esxi01", "echo late")[0] == "late\n" and time.monotonic() - started > 0.7


# ---- many -------------------------------------------------------------------------------------------------------------

def test_many_sessions_share_one_connection_and_all_hosts_answer_at_once(lab, tmp_path):
    sockets = pathlib.Path("/tmp/vhpc-%d" % os.getpid())  # a socket's path has to be short
    sockets.mkdir(mode=0o700)
    options = ("-o", "ControlMaster=auto", "-o", "ControlPersist=10", "-o", "ControlPath=%s/%%p" % sockets)
    try:
        for name in lab.world.hosts:
            assert lab.ssh(name, "true", options=options)[2] == 0
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: lab.ssh("esxi%02d" % (number % 4 + 1), "sleep 0.1; hostname; echo %d" % number, options=options), range(40)))
        assert [answer[0] for answer in answers] == ["esxi%02d\n%d\n" % (number % 4 + 1, number) for number in range(40)]
        assert all(len(servers) == 1 for servers in lab.face.servers.values())
    finally:
        for name, host in lab.world.hosts.items():
            lab.ssh(name, options=(*options, "-O", "exit"))
        shutil.rmtree(sockets)


def test_sixteen_hosts_take_ten_commands_each_in_little_time(tmp_path):
    import asyncio

    lab = Site(tmp_path, 16)
    commands = ["esxcli software vib list", "esxcli hardware pci list", "esxcli network nic list", "esxcfg-module -g nmlx5_core",
                "esxcli system module parameters list -m nmlx5_core",
                "ls /vmfs/volumes/hpc-nfs/rdma", "sha256sum /vmfs/volumes/hpc-nfs/rdma/*.vib", "/bin/sh -c 'echo ~root && sleep 0'",
                "esxcli network vswitch dvs vmware list", "uname -a"]

    async def client(host):
        async with asyncssh.connect(host.address, host.ssh_port, username="root", client_keys=[str(lab.key)], known_hosts=None) as connection:
            return [(await connection.run(command)).exit_status for command in commands]

    async def everybody():
        return await asyncio.gather(*(client(host) for host in lab.world.hosts.values()))

    try:
        started = time.monotonic()
        answers = asyncio.run(everybody())
        seconds = time.monotonic() - started
        assert answers == [[0] * len(commands)] * 16
        assert seconds < 10, "16 hosts x 10 commands took %.1f s" % seconds  # half a second on an idle machine
        assert len([entry for entry in lab.world.journal if entry["face"] == "esxi"]) == 160
    finally:
        lab.face.stop()


# ---- Ansible ----------------------------------------------------------------------------------------------------------

def test_ansible_runs_raw_commands_and_finds_no_python(lab, tmp_path):
    pytest.importorskip("ansible.cli.adhoc")
    inventory = tmp_path / "hosts"
    row = "%s ansible_host=%s ansible_port=%d ansible_user=root ansible_ssh_private_key_file=%s\n"
    inventory.write_text("".join(row % (name, host.address, host.ssh_port, lab.key) for name, host in lab.world.hosts.items()))
    sockets = pathlib.Path("/tmp/vhpc-a%d" % os.getpid())
    env = dict(os.environ, ANSIBLE_HOST_KEY_CHECKING="False", ANSIBLE_SSH_CONTROL_PATH_DIR=str(sockets), ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
               ANSIBLE_HOME=str(tmp_path),
               ANSIBLE_SSH_ARGS="-F none -o ControlMaster=auto -o ControlPersist=3s -o UserKnownHostsFile=/dev/null", ANSIBLE_NOCOLOR="1",
               ANSIBLE_STDOUT_CALLBACK="default")

    def ansible(*words):
        return subprocess.run([sys.executable, "-m", "ansible", "adhoc", "-i", str(inventory), "all", *words], capture_output=True, text=True, check=False,
                              env=env, timeout=60, cwd=tmp_path)

    try:
        raw = ansible("-m", "raw", "-a", "esxcli system maintenanceMode get")
        assert raw.returncode == 0 and raw.stdout.count("Disabled") == 4, raw.stdout + raw.stderr
        ping = ansible("-m", "ping")
        assert ping.returncode != 0 and "not found" in ping.stdout + ping.stderr
    finally:
        shutil.rmtree(sockets, ignore_errors=True)
