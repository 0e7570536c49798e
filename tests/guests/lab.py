# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""N guests on loopback: each a QEMU process that dies with us, with a disk of its own that survives its reboot."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from . import image as images

SUBNET = "192.168.50"
READY = "GUEST_READY"
PROBE_SECONDS = 20
BOOT_SECONDS = 300
ARGUMENTS = "console=ttyS0 panic=0 quiet loglevel=4 mitigations=off nokaslr random.trust_cpu=on systemd.show_status=0"


class GuestError(Exception):
    pass


def die_with_parent() -> None:
    """Runs in the child before QEMU: the kernel ends it when we end, however that happens."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def qemu(accelerator: str, memory: int) -> list[str]:
    # Emulating the oldest CPU costs a fifth less than the newest, whose vector instructions the C library would use.
    chosen = ["-accel", "kvm", "-cpu", "host"] if accelerator == "kvm" else ["-accel", "tcg,thread=multi,tb-size=128", "-cpu", "qemu64"]
    return ["qemu-system-x86_64"] + chosen + ["-M", "pc,usb=off", "-m", str(memory), "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none"]


def accelerator(image: images.Image, say=print) -> str:
    """kvm where a kernel really boots with it within bounds, else tcg. The answer holds until the machine is booted again."""
    wanted = os.environ.get("VHPC_GUESTS_ACCEL", "")
    if wanted:
        say("Accelerator: %s, as VHPC_GUESTS_ACCEL says" % wanted)
        return wanted
    if not os.access("/dev/kvm", os.W_OK):
        say("Accelerator: tcg, there is no /dev/kvm to write to")
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    note = images.BUILD / "accelerator"
    if note.exists() and note.read_text().split()[0] == boot:
        found = note.read_text().split()[1]
        say("Accelerator: %s, as a trial boot told since the machine was started" % found)
        return found
    command = qemu("kvm", 256) + ["-no-reboot", "-serial", "stdio", "-kernel", str(image.kernel), "-initrd", str(image.initrd),
                                  "-append", ARGUMENTS + " guest.probe"]
    out = b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_with_parent) as process:
        try:
            out = process.communicate(timeout=PROBE_SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            out = process.communicate()[0]
    found = "kvm" if b"GUEST_PROBE" in out else "tcg"
    note.write_text("%s %s\n" % (boot, found))
    say("Accelerator: %s, a trial boot with KVM %s" % (found, "succeeded" if found == "kvm" else "did not come up within %d s" % PROBE_SECONDS))
    return found


def reap(directory: Path) -> None:
    """End guests of an earlier start in this directory that are still there, which only a QEMU can be that lost its parent before it could ask for its end."""
    for path in directory.glob("*.pid"):
        try:
            pid = int(path.read_text())
            words = Path("/proc/%d/cmdline" % pid).read_bytes().split(b"\0")
            if any(os.fsencode(directory) in word for word in words):
                os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            pass
        path.unlink(missing_ok=True)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for dummy in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Guest:
    """One guest: its process, its way in, its console."""

    def __init__(self, lab: "Lab", number: int, port: int) -> None:
        self.lab, self.number, self.port = lab, number, port
        self.name = "guest-%02d" % number
        self.address, self.office = "%s.%d" % (SUBNET, number), "10.99.0.%d" % number
        self.process: subprocess.Popen | None = None
        self.files = {kind: lab.directory / ("%s.%s" % (self.name, kind)) for kind in ("qcow2", "console", "pid", "log")}
        self.monitor_path = Path(lab.sockets) / ("%d.qmp" % number)

    def start(self) -> None:
        lab, disk = self.lab, self.files["qcow2"]
        if not disk.exists():
            below = ["-F", "raw", "-b", str(lab.image.root)] if lab.installed is None else ["-F", "qcow2", "-b", str(lab.installed)]
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2"] + below + [str(disk)], check=True)
        words = ARGUMENTS + " guest.number=%d" % self.number
        if lab.flavour == "plain":
            words += " guest.init=/usr/local/sbin/guest-init guest.address=%s/24" % self.address
        command = qemu(lab.accelerator, lab.memory) + [
            "-name", self.name, "-kernel", str(lab.image.kernel), "-initrd", str(lab.image.initrd), "-append", words,
            "-serial", "file:%s" % self.files["console"], "-qmp", "unix:%s,server=on,wait=off" % self.monitor_path,
            "-drive", "file=%s,if=none,id=disk,format=qcow2,cache=unsafe" % disk, "-device", "virtio-blk-pci,drive=disk",
            "-netdev", "user,id=way,restrict=on,hostfwd=tcp:127.0.0.1:%d-:22" % self.port,
            "-device", "virtio-net-pci,netdev=way,mac=52:54:00:00:00:01,romfile=",
            "-netdev", lab.wire("office", self.number), "-device", "virtio-net-pci,netdev=office,mac=52:54:00:00:02:%02x,romfile=" % self.number,
            "-netdev", lab.wire("fabric", self.number), "-device", "virtio-net-pci,id=port,netdev=fabric,mac=52:54:00:00:01:%02x,romfile=" % self.number,
            "-device", "virtio-rng-pci"]
        with open(self.files["log"], "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        self.files["pid"].write_text("%d\n" % self.process.pid)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        self.files["pid"].unlink(missing_ok=True)

    def console(self) -> str:
        return self.files["console"].read_text(errors="replace") if self.files["console"].exists() else ""

    def wait(self, boots: int = 1, seconds: float = BOOT_SECONDS) -> None:
        """Until it has said so many times that it is ready."""
        deadline = time.monotonic() + seconds
        while self.console().count(READY) < boots:
            if self.process is None or self.process.poll() is not None:
                raise GuestError("%s ended while it booted: %s" % (self.name, self.files["log"].read_text(errors="replace")[-500:]))
            if time.monotonic() > deadline:
                raise GuestError("%s was not ready within %d s; its console ends with:\n%s" % (self.name, seconds, self.console()[-1500:]))
            time.sleep(0.2)

    def reboot(self) -> float:
        """Reboot it from inside; seconds until it is ready again."""
        boots, started = self.console().count(READY), time.monotonic()
        inside = "systemctl reboot" if self.lab.flavour == "systemd" else "sync; echo b > /proc/sysrq-trigger"
        self.run("(sleep 0.5; %s) >/dev/null 2>&1 &" % inside)
        self.forget()
        self.wait(boots + 1)
        return time.monotonic() - started

    def ssh(self) -> list[str]:
        return ["ssh", "-p", str(self.port)] + self.lab.ssh_options() + ["-o", "ControlPath=%s/%%C" % self.lab.sockets, "-o", "ControlMaster=auto",
                                                                         "-o", "ControlPersist=120", "root@127.0.0.1"]

    def run(self, command: str, timeout: float = 120, check: bool = True) -> subprocess.CompletedProcess:
        """Run a shell command in it."""
        done = subprocess.run(self.ssh() + [command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
                              check=False)
        if check and done.returncode:
            raise GuestError("%s: %r ended with %d: %s" % (self.name, command, done.returncode, (done.stdout + done.stderr)[-1500:]))
        return done

    def forget(self) -> None:
        """Close the shared connection: the guest's other end is gone after a reboot."""
        subprocess.run(self.ssh()[:-1] + ["-O", "exit", "root@127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def monitor(self, execute: str, **arguments) -> None:
        """A command to QEMU itself."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(self.monitor_path))
            stream = connection.makefile("rw")
            stream.readline()
            for command in ({"execute": "qmp_capabilities"}, {"execute": execute, "arguments": arguments}):
                stream.write(json.dumps(command) + "\n")
                stream.flush()
                while True:
                    answer = json.loads(stream.readline())
                    if "error" in answer:
                        raise GuestError("%s: QEMU refuses %s: %s" % (self.name, execute, answer["error"]))
                    if "return" in answer:
                        break

    def cable(self, plugged: bool) -> None:
        """Pull or plug the cable of the RDMA port."""
        self.monitor("set_link", name="port", up=plugged)


class Lab:
    """All guests of one start; everything lies below one directory."""

    def __init__(self, directory: Path, count: int = 2, flavour: str = "systemd", memory: int = 0, say=print, installed: Path | None = None) -> None:
        self.image = images.image(say)
        self.accelerator = accelerator(self.image, say)
        self.installed = installed
        self.directory, self.flavour, self.count = directory, flavour, count
        self.memory = memory or (512 if flavour == "systemd" else 320)
        directory.mkdir(parents=True, exist_ok=True)
        reap(directory)
        for pattern in ("*.qcow2", "*.console", "*.log"):
            for path in directory.glob(pattern):
                path.unlink()
        self.sockets = images.BUILD / "s"  # a socket's path is short
        if len(str(self.sockets)) > 60:
            self.sockets = Path("/tmp") / ("vhpc-guests-%d" % os.getuid())
        for old in self.sockets.glob("*"):
            if not Path("/proc", old.name.split("-")[0]).exists():
                shutil.rmtree(old, ignore_errors=True)
        self.sockets.mkdir(parents=True, exist_ok=True)
        self.sockets = Path(tempfile.mkdtemp(prefix="%d-" % os.getpid(), dir=self.sockets))
        ports = free_ports(count + 2)
        self.groups = {"office": ports[count], "fabric": ports[count + 1]}
        self.guests = [Guest(self, number, ports[number - 1]) for number in range(1, count + 1)]
        self.known_hosts = directory / "known_hosts"
        self.known_hosts.write_text("".join("[127.0.0.1]:%d %s\n" % (guest.port, self.image.host_key) for guest in self.guests))
        self.inventory = directory / "inventory.json"
        self.inventory.write_text(json.dumps(self.hosts(), indent=1) + "\n")

    def wire(self, name: str, number: int) -> str:
        """Two guests have a cable between them; more share a hub. office: where they reach each other by TCP; fabric: between the RDMA ports."""
        if self.count == 2:
            return "stream,id=%s,server=%s,addr.type=unix,addr.path=%s" % (name, "on" if number == 1 else "off", self.sockets / name)
        return "socket,id=%s,mcast=230.0.0.1:%d,localaddr=127.0.0.1" % (name, self.groups[name])

    def ssh_options(self) -> list[str]:
        return ["-F", "/dev/null", "-i", str(self.image.key), "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=%s" % self.known_hosts,
                "-o", "StrictHostKeyChecking=yes", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=60"]

    def hosts(self) -> dict:
        """The inventory. We come in through a port of 127.0.0.1; the guests reach each other in their own network."""
        return {"guests": {
            "hosts": {guest.name: {"ansible_host": "127.0.0.1", "ansible_port": guest.port, "vhpc_peer_address": guest.office,
                                   "vhpc_roce_address": "%s/24" % guest.address}
                      for guest in self.guests},
            "vars": {"ansible_user": "root", "ansible_ssh_private_key_file": str(self.image.key), "ansible_python_interpreter": "/usr/bin/python3",
                     "ansible_ssh_common_args": "-o UserKnownHostsFile=%s -o StrictHostKeyChecking=yes" % self.known_hosts,
                     "vhpc_source": "soft-roce"}}}

    def start(self) -> float:
        """Boot all; seconds until the last is ready."""
        started = time.monotonic()
        try:
            for guest in self.guests:
                guest.start()
                deadline = time.monotonic() + 20
                while self.count == 2 and guest.number == 1 and not (self.sockets / "fabric").exists() and time.monotonic() < deadline:
                    time.sleep(0.02)
            for guest in self.guests:
                guest.wait(seconds=BOOT_SECONDS + 30 * self.count)
        except BaseException:
            self.stop()
            raise
        return time.monotonic() - started

    def stop(self) -> None:
        for guest in self.guests:
            if guest.process is not None:
                guest.forget()
            guest.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)


def installed(say=print) -> Path:
    """A disk on which RDMA's packages are installed already, made once for an image: many guests need not unpack them each for itself."""
    image = images.image(say)
    disk = image.directory / "installed.qcow2"
    if not disk.exists():
        place = image.directory / "installing"
        lab = Lab(place, 1, "plain", say=say)
        guest = lab.guests[0]
        try:
            seconds = lab.start()
            started = time.monotonic()
            guest.run("export DEBIAN_FRONTEND=noninteractive; apt-get -q update && apt-get -y -q install rdma-core perftest ibverbs-utils ibverbs-providers "
                      "rdmacm-utils infiniband-diags && rm -f /etc/machine-id && echo uninitialized > /etc/machine-id && sync", timeout=1200)
            guest.monitor("quit")
            guest.process.wait(60)
            say("Packages installed on a disk of their own in %.0f s" % (seconds + time.monotonic() - started))
            guest.files["qcow2"].rename(disk)
        finally:
            lab.stop()
            shutil.rmtree(place, ignore_errors=True)
    return disk
