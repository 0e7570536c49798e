# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One SSH server per ESXi host, on its own address, up exactly while the host and its SSH service are.

Commands run in threads of this process: a command costs no fork. Faults of the connection strike here:
ssh_drop (options: match, a pattern for the command line; when, "after" its effect or "before") and slow_host (option: delay in seconds).
host.settings["sshd"]: max_startups (as many logins may be half open), banner (before the login), motd (what a login prints), login_seconds (how long it takes).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import os
import pathlib
import posixpath
import re
import socket
import threading
from typing import Any

import asyncssh

from ..world import Host, World
from .sh import Buffer, Exit, Io, Reader, Shell, Stop, new_shell

WORKERS = 64
BANNER = "OpenSSH_8.3"
BIND_ATTEMPTS = 50  # a tenth of a second apart
SLOW = 0.5  # seconds that slow_host adds to a command


class Server(asyncssh.SSHServer):
    """Root by key, by password or by keyboard-interactive."""

    def __init__(self, face: EsxiFace, host: Host) -> None:
        self.face, self.host, self.over = face, host, threading.Event()
        self.sshd, self.logged_in = host.settings.get("sshd", {}), False
        self.connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.connection = conn
        conn.set_extra_info(lab_server=self)
        servers = self.face.servers[self.host.name]
        if sum(not one.logged_in for one in servers) >= self.sshd.get("max_startups", 100):
            self.face.world.note("esxi", self.host.name, "sshd: drop connection, past MaxStartups")
            conn.abort()
        servers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()
        self.face.servers[self.host.name].discard(self)

    async def begin_auth(self, username: str) -> bool:
        if self.connection and self.sshd.get("banner"):
            self.connection.send_auth_banner(self.sshd["banner"])
        await asyncio.sleep(self.sshd.get("login_seconds", 0))
        return True

    def auth_completed(self) -> None:
        self.logged_in = True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return self.lets_in(username) and key.public_data == self.face.client_key.public_data

    def lets_in(self, username: str) -> bool:
        """Lockdown leaves only exception users."""
        if self.host.lockdown != "lockdownDisabled" and username not in self.host.lockdown_exceptions:
            self.face.world.note("esxi", self.host.name, "sshd: %s is no exception user" % username)
            return False
        return username == "root"

    def public_key_auth_supported(self) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return self.lets_in(username) and password == self.host.password

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        return "", "", "", [("Password: ", False)]

    def validate_kbdint_response(self, username: str, responses: Any) -> bool:
        return self.lets_in(username) and list(responses) == [self.host.password]


class Files(asyncssh.SFTPServer):
    """sftp and scp on the host's file system."""

    def __init__(self, face: EsxiFace, host: Host, chan: asyncssh.SSHServerChannel) -> None:
        super().__init__(chan)
        self.shell = new_shell(face.world, host)
        self.fs = self.shell.fs

    def _path(self, path: bytes) -> str:
        return self.fs.absolute(path.decode("utf-8", "surrogateescape"))

    def open(self, path: bytes, pflags: int, attrs: Any) -> dict[str, Any]:
        name = self._path(path)
        writes = bool(pflags & (asyncssh.FXF_WRITE | asyncssh.FXF_APPEND))
        if not writes:
            return {"path": name, "data": bytearray(self.fs.read(name)), "write": False}
        old = b"" if pflags & asyncssh.FXF_TRUNC else self.fs.find(name) or b""
        if self.fs.find(name) is None:
            self.fs.write(name, b"")
        return {"path": name, "data": bytearray(old), "write": True}

    def read(self, file_obj: dict[str, Any], offset: int, size: int) -> bytes:
        return bytes(file_obj["data"][offset:offset + size])

    def write(self, file_obj: dict[str, Any], offset: int, data: bytes) -> int:
        if file_obj["path"].startswith("/tmp/") and self.shell.world.fault("tmp_full", self.shell.host.name) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        held = file_obj["data"]
        held.extend(b"\0" * max(0, offset - len(held)))
        held[offset:offset + len(data)] = data
        return len(data)

    def close(self, file_obj: dict[str, Any]) -> None:
        if file_obj["write"]:
            self.fs.write(file_obj["path"], bytes(file_obj["data"]))
            self.shell.world.note("esxi", self.shell.host.name, "sftp wrote %s" % file_obj["path"])

    def _attrs(self, name: str) -> asyncssh.SFTPAttrs:
        if not self.fs.exists(name):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        directory = self.fs.is_dir(name)
        seconds = int(self.shell.host.boot_time.timestamp())
        return asyncssh.SFTPAttrs(type=asyncssh.FILEXFER_TYPE_DIRECTORY if directory else asyncssh.FILEXFER_TYPE_REGULAR,
                                  size=512 if directory else len(self.fs.find(name) or b""),
                                  uid=0, gid=0, permissions=0o40755 if directory else 0o100644, atime=seconds, mtime=seconds)

    def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return self._attrs(self._path(path))

    def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return self._attrs(self._path(path))

    def fstat(self, file_obj: dict[str, Any]) -> asyncssh.SFTPAttrs:
        return asyncssh.SFTPAttrs(type=asyncssh.FILEXFER_TYPE_REGULAR, size=len(file_obj["data"]), permissions=0o100644)

    def setstat(self, path: bytes, attrs: Any) -> None:
        self._attrs(self._path(path))

    def fsetstat(self, file_obj: dict[str, Any], attrs: Any) -> None:
        return None

    def realpath(self, path: bytes) -> bytes:
        return self._path(path).encode()

    async def scandir(self, path: bytes) -> Any:
        name = self._path(path)
        for entry in [".", ".."] + self.fs.listing(name):
            yield asyncssh.SFTPName(entry.encode(), attrs=self._attrs(posixpath.normpath(posixpath.join(name, entry))))

    def remove(self, path: bytes) -> None:
        self.fs.remove(self._path(path))

    def mkdir(self, path: bytes, attrs: Any) -> None:
        self.fs.mkdir(self._path(path))

    def rmdir(self, path: bytes) -> None:
        self.fs.remove(self._path(path))

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        old, new = self._path(oldpath), self._path(newpath)
        self.fs.write(new, self.fs.read(old))
        self.fs.remove(old)

    def exit(self) -> None:
        self.channel.exit(0)  # scp takes a missing exit status for a failure

    def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        self.rename(oldpath, newpath)


class Channel:
    """The streams of one session, seen from the thread that runs its command."""

    def __init__(self, loop: asyncio.AbstractEventLoop, process: Any, over: threading.Event) -> None:
        self.loop, self.process, self.over = loop, process, over
        self.tty = process.term_type is not None
        self.held: list[tuple[bool, bytes]] = []
        self.lock = threading.Lock()
        self.out, self.err = Buffer(lambda data: self.hold(False, data)), Buffer(lambda data: self.hold(True, data))
        self.stdin = Reader(more=self.more)

    def hold(self, is_error: bool, data: bytes) -> None:
        """Output goes out in one piece per command, or before the command waits for something."""
        with self.lock:
            self.held.append((is_error, data))

    def take(self) -> list[tuple[bool, bytes]]:
        with self.lock:
            held, self.held = self.held, []
        return held

    def send(self, held: list[tuple[bool, bytes]]) -> None:
        """In the loop's thread: hand what was held to SSH; a terminal has one stream and CR LF."""
        if self.process.is_closing():
            return
        for is_error, data in held:
            if self.tty:
                self.process.stdout.write(re.sub(rb"(?<!\r)\n", b"\r\n", data))
            else:
                (self.process.stderr if is_error else self.process.stdout).write(data)

    def flush(self) -> None:
        held = self.take()
        if held:
            self.loop.call_soon_threadsafe(self.send, held)

    def more(self) -> bytes:
        """Wait for the client's input."""
        self.flush()
        future = asyncio.run_coroutine_threadsafe(self.process.stdin.read(65536), self.loop)
        while not self.over.is_set():
            try:
                data = future.result(timeout=0.5)
            except concurrent.futures.TimeoutError:
                continue
            except (asyncssh.Error, OSError, asyncio.IncompleteReadError):
                return b""
            if self.tty and data:
                self.hold(False, data.replace(b"\r", b"\n"))
            return data
        future.cancel()
        raise Stop()


class EsxiFace:
    """The shells of all hosts of a world. start() returns when they listen."""

    def __init__(self, world: World, directory: str | os.PathLike, client_key_public: str | os.PathLike, host_key_path: str | os.PathLike) -> None:
        self.world, self.directory = world, pathlib.Path(directory)
        text = str(client_key_public)
        self.client_key = asyncssh.import_public_key(text if text.startswith(("ssh-", "ecdsa-")) else pathlib.Path(text).read_text(encoding="utf-8"))
        path = pathlib.Path(host_key_path)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(path))
        self.host_key = asyncssh.read_private_key(str(path))
        self.servers: dict[str, set[Server]] = {name: set() for name in world.hosts}
        self.listeners: dict[str, tuple[int, Any]] = {}  # host: (boots when it was opened, acceptor)
        self.loop = asyncio.new_event_loop()
        self.thread: threading.Thread | None = None
        self.stopping = False
        self.pool = concurrent.futures.ThreadPoolExecutor(WORKERS, "esxi-shell")
        self.locks: dict[str, asyncio.Lock] = {}

    # ---- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for host in self.world.hosts.values():
            host.address = host.address or "127.0.0.1"
            host.ssh_port = host.ssh_port or free_port(host.address)
        self.thread = threading.Thread(target=self._serve, name="esxi-face", daemon=True)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self._open_all(), self.loop).result(60)
        self.world.watch(self._changed)

    def stop(self) -> None:
        if self.thread is None:
            return
        self.stopping = True
        asyncio.run_coroutine_threadsafe(self._close_all(), self.loop).result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.thread = None
        self.pool.shutdown(wait=False, cancel_futures=True)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    async def _open_all(self) -> None:
        await asyncio.gather(*(self._sync(name) for name in self.world.hosts))

    async def _close_all(self) -> None:
        for name in list(self.listeners):
            await self._close(name)
        await asyncio.sleep(0)

    def _changed(self, kind: str, name: str) -> None:
        if kind == "host" and not self.stopping and name in self.servers:
            self.loop.call_soon_threadsafe(lambda: self.loop.create_task(self._sync(name)))

    async def _sync(self, name: str) -> None:
        """Make the listener what the host's state says."""
        async with self.locks.setdefault(name, asyncio.Lock()):
            host = self.world.hosts[name]
            held = self.listeners.get(name)
            if held and (not host.ssh_up or held[0] != host.boots):
                await self._close(name)
                held = None
            if held or not host.ssh_up:
                return
            boots = host.boots
            self.listeners[name] = (boots, await self._listen(host))

    async def _listen(self, host: Host) -> Any:
        """Listen, after a while of trying where somebody still holds the port."""
        for attempt in range(BIND_ATTEMPTS):
            try:
                return await asyncssh.listen(
                    host.address, host.ssh_port, server_factory=lambda: Server(self, host), server_host_keys=[self.host_key], encoding=None, line_editor=False,
                    process_factory=lambda process: self._session(host, process), sftp_factory=lambda chan: Files(self, host, chan), allow_scp=True,
                    server_version=BANNER, reuse_address=True, login_timeout=30, compression_algs=["none"], backlog=128)
            except OSError as fault:
                if attempt == BIND_ATTEMPTS - 1:
                    self.world.note("esxi", host.name, "cannot listen on %s:%d: %s" % (host.address, host.ssh_port, fault.strerror))
                    raise
                await asyncio.sleep(0.1)
        return None

    async def _close(self, name: str) -> None:
        dummy, acceptor = self.listeners.pop(name)
        acceptor.close()
        for server in list(self.servers[name]):
            server.over.set()
            if server.connection:
                server.connection.abort()
        await asyncio.sleep(0)

    # ---- sessions -------------------------------------------------------------------------------------------------

    def strikes(self, name: str, host: Host, line: str) -> dict[str, Any] | None:
        """The fault's options if it strikes this command line."""
        with self.world.lock:
            options = self.world.faults.get(name, {}).get(host.name)
            if options is None or not re.search(options.get("match", ""), line):
                return None
            return self.world.fault(name, host.name)

    async def _session(self, host: Host, process: Any) -> None:
        server = process.get_extra_info("lab_server")
        channel = Channel(self.loop, process, server.over)
        shell = new_shell(self.world, host, server.over)
        shell.tty, shell.flush = channel.tty, channel.flush
        line = process.command
        if line is None:
            rc = await self.loop.run_in_executor(self.pool, self._interactive, shell, channel)
        else:
            self.world.note("esxi", host.name, line)
            channel.out.write(server.sshd.get("motd", ""))
            slow = self.strikes("slow_host", host, line)
            if slow is not None:
                await asyncio.sleep(slow.get("delay", SLOW))
            drop = self.strikes("ssh_drop", host, line)
            if drop is not None and drop.get("when") == "before":
                server.connection.abort()
                return
            rc = await self.loop.run_in_executor(self.pool, self._command, shell, channel, line)
            if drop is not None:
                server.connection.abort()
                return
        if rc is None or process.is_closing():
            return
        channel.send(channel.take())
        process.exit(rc)

    @staticmethod
    def _command(shell: Shell, channel: Channel, line: str) -> int | None:
        try:
            return shell.main(line, Io(channel.stdin, channel.out, channel.err))
        except Stop:
            return None

    def _interactive(self, shell: Shell, channel: Channel) -> int | None:
        """A prompt, for people who look around; without a terminal a script on standard input."""
        shell.name = "-sh"
        if not channel.tty:
            return self._command(shell, channel, channel.stdin.read().decode("utf-8", "replace"))
        shell.source(shell.fs.read("/etc/profile.local").decode("utf-8", "replace"), Io(Reader(), channel.out, channel.err))
        channel.out.write("The time and date of this login have been sent to the system logs.\n\nThis host is simulated.\n\n")
        try:
            while True:
                channel.out.write("[root@%s:%s] " % (shell.host.name, "~" if shell.cwd == "/" else shell.cwd))
                line = self._line(channel)
                if line is None:
                    return shell.last
                if line.strip():
                    self.world.note("esxi", shell.host.name, line)
                    try:
                        shell.source(line, Io(Reader(), channel.out, channel.err))
                    except Exit as leave:
                        return leave.rc
        except Stop:
            return None

    @staticmethod
    def _line(channel: Channel) -> str | None:
        """One line from a terminal, echoed; None at ^D."""
        text = ""
        tty, channel.tty = channel.tty, False
        try:
            while True:
                channel.tty = True
                channel.flush()
                channel.tty = False
                data = channel.stdin.data or channel.more()
                channel.stdin.data = b""
                if not data:
                    return None
                for index, char in enumerate(data.decode("utf-8", "replace")):
                    if char in "\r\n":
                        channel.hold(False, b"\r\n")
                        channel.stdin.data = data[index + 1:].lstrip(b"\n")
                        return text
                    if char == "\x04" and not text:
                        return None
                    if char == "\x03":
                        channel.hold(False, b"^C\r\n")
                        return ""
                    if char in "\x7f\b":
                        if text:
                            text = text[:-1]
                            channel.hold(False, b"\b \b")
                    elif char.isprintable():
                        text += char
                        channel.hold(False, char.encode())
        finally:
            channel.tty = tty


def free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]
