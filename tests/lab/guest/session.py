# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SSH sessions of a guest: commands run as subprocesses of the lab with the guest's root as their world.

Nothing is confined by the kernel: the guest is a directory, a PATH that starts in it, and programs that ask the lab.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh
from asyncssh.stream import SSHServerStreamSession

from ..world import Vm

if TYPE_CHECKING:
    from .server import GuestFace

# Ansible asks for the home of the user it logged in as; on a shared machine that must be the guest's.
HOME = re.compile(r"(?<![\w/~.])~root(?=[/\s'\";&|)]|$)")
MEMLOCK = re.compile(r"^\s*(?:\*|root)\s+(-|soft|hard)\s+memlock\s+(\S+)", re.M)


def environment(vm: Vm, token: str) -> dict[str, str]:
    root = vm.guest.root
    path = ":".join(root + part for part in ("/usr/local/sbin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))
    return {"HOME": root + "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh", "LANG": "C.UTF-8", "PATH": path + ":/usr/bin:/bin",
            "TMPDIR": root + "/tmp", "VHPC_LAB_ROOT": root, "VHPC_LAB_GUEST": token, "HOSTNAME": vm.name}


def memlock(vm: Vm) -> str:
    """What PAM would give a session as locked memory, in KiB; RHEL 8.1 gives 64 when nobody says otherwise."""
    limit = "64"
    folder = Path(vm.guest.root) / "etc/security/limits.d"
    for path in sorted(folder.glob("*.conf")) if folder.is_dir() else []:
        for kind, value in MEMLOCK.findall(path.read_text(errors="replace")):
            if kind in ("-", "soft"):
                limit = {"-1": "unlimited", "infinity": "unlimited"}.get(value, value)
    return limit


def command_line(vm: Vm, command: str) -> list[str]:
    # Lowering is always allowed; raising fails silently where this machine does not allow it.
    return ["/bin/sh", "-c", "ulimit -l %s 2>/dev/null\n%s" % (memlock(vm), HOME.sub("~", command))]


class Session(SSHServerStreamSession):
    """One channel: a command, a shell, or sftp (which asyncssh serves)."""

    def __init__(self, face: "GuestFace", vm: Vm) -> None:
        super().__init__(None, lambda chan: Files(chan, vm.guest.root), 3)
        self._face, self._vm = face, vm
        self._channel: Any = None
        self._process: Any = None  # asyncio transport of the subprocess
        self._child: Any = None
        self._stdin: Any = None
        self._command = ""
        self._pty = False
        self._size = (80, 24, 0, 0)
        self._early: list[bytes] = []
        self._early_eof = False
        self._master = -1

    def connection_made(self, chan: Any) -> None:
        super().connection_made(chan)
        self._channel = chan

    def pty_requested(self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Any) -> bool:
        self._pty, self._size = True, term_size
        return True

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    def shell_requested(self) -> bool:
        return True

    @property
    def _sftp(self) -> bool:
        return self._channel.get_subsystem() == "sftp"

    def signal_received(self, signal: str) -> None:
        number = {"INT": 2, "KILL": 9, "TERM": 15, "HUP": 1}.get(signal)
        if self._process is not None and number and self._process.get_returncode() is None:
            os.killpg(self._process.get_pid(), number)

    def session_started(self) -> None:
        if self._sftp:
            super().session_started()
            return
        self._face.session_opened(self._vm)
        if self._pty and not self._command:
            self._terminal()
        else:
            asyncio.ensure_future(self._start())

    async def _start(self) -> None:
        session = self

        class Pipes(asyncio.SubprocessProtocol):
            def pipe_data_received(self, fd: int, data: bytes) -> None:
                if fd == 1:
                    session._channel.write(data)
                else:
                    session._channel.write_stderr(data)

            def process_exited(self) -> None:
                # What the process has written is still in the pipes; a daemon that holds them open must not hold the session.
                session._face.loop.call_later(0.02, session._exit)

            def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
                if fd in (1, 2):
                    session._open.discard(fd)
                    if not session._open and session._process.get_returncode() is not None:
                        session._exit()

        self._open = {1, 2}
        argv = command_line(self._vm, self._command) if self._command else ["/bin/sh"]
        try:
            self._process, dummy = await self._face.loop.subprocess_exec(
                Pipes, *argv, cwd=self._vm.guest.root + "/root", env=environment(self._vm, self._face.token(self._vm)), start_new_session=True)
        except OSError as err:
            self._channel.write_stderr(("sh: %s\n" % err).encode())
            self._channel.exit(126)
            return
        self._stdin = self._process.get_pipe_transport(0)
        for data in self._early:
            self._stdin.write(data)
        if self._early_eof:
            self._stdin.close()

    def _exit(self) -> None:
        if self._process is None or self._channel is None or self._channel.is_closing():
            return
        code = self._process.get_returncode()
        if code is not None and code < 0:
            self._channel.exit_with_signal({9: "KILL", 15: "TERM"}.get(-code, "TERM"))
        else:
            self._channel.exit(255 if code is None else code)
        self._process.close()

    def data_received(self, data: bytes, datatype: Any) -> None:
        if self._sftp:
            super().data_received(data, datatype)
        elif self._master >= 0:
            os.write(self._master, data)
        elif self._stdin is None:
            self._early.append(data)
        elif not self._stdin.is_closing():
            self._stdin.write(data)

    def eof_received(self) -> bool:
        if self._sftp:
            return bool(super().eof_received())
        if self._stdin is None:
            self._early_eof = True
        else:
            self._stdin.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._process is not None and self._process.get_returncode() is None:
            # As sshd does: the session's shell gets a hang-up; daemons in sessions of their own live on.
            try:
                os.killpg(self._process.get_pid(), 1)
            except ProcessLookupError:
                pass
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        self._close_terminal()

    # ---- a person's terminal ----------------------------------------------------------------------------------------

    def _terminal(self) -> None:
        self._master, slave = pty.openpty()
        self._resize(*self._size)

        def controlling() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        env = dict(environment(self._vm, self._face.token(self._vm)), PS1="[root@%s \\W]# " % self._vm.name, TERM="xterm")
        self._child = subprocess.Popen(["/bin/bash", "--norc", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=env["HOME"], env=env, preexec_fn=controlling)
        os.close(slave)
        self._face.loop.add_reader(self._master, self._terminal_output)

    def _terminal_output(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except OSError:
            data = b""
        if data:
            self._channel.write(data)
            return
        self._close_terminal()
        self._channel.exit(self._child.wait() & 0xff)

    def _close_terminal(self) -> None:
        if self._master >= 0:
            self._face.loop.remove_reader(self._master)
            os.close(self._master)
            self._master = -1

    def _resize(self, columns: int, rows: int, width: int, height: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows or 24, columns or 80, width, height))

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        if self._master >= 0:
            self._resize(width, height, pixwidth, pixheight)


class Server(asyncssh.SSHServer):
    """Who may log in: root with the lab's key, or with the guest's password."""

    def __init__(self, face: "GuestFace", vm: Vm) -> None:
        self._face, self._vm = face, vm

    def connection_made(self, conn: Any) -> None:
        self._conn = conn
        self._face.connections[self._vm.name].add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._face.connections[self._vm.name].discard(self._conn)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: Any) -> bool:
        return username == self._face.world.guest_user["username"] and key.public_data == self._face.client_key.public_data

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        user = self._face.world.guest_user
        return (username, password) == (user["username"], user["password"])

    def session_requested(self) -> Session:
        return Session(self._face, self._vm)


class Files(asyncssh.SFTPServer):
    """sftp: names of this machine inside the guest's root, and names as the guest sees them, both end inside the root."""

    def __init__(self, chan: Any, root: str) -> None:
        super().__init__(chan)
        self._root = root.encode()

    def map_path(self, path: bytes) -> bytes:
        full = os.path.normpath(os.path.join(self._root + b"/root", path))
        if full == self._root or full.startswith(self._root + b"/"):
            return full
        return self._root + full

    def reverse_map_path(self, path: bytes) -> bytes:
        return path
