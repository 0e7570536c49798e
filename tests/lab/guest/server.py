# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GuestFace: one SSH server per VM while its guest is booted, and the door that the guests' programs come through."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import threading
from pathlib import Path
from typing import Any

import asyncssh

from ..world import Vm, World
from . import mpi, network, ofed, perftest, show, system  # noqa: F401 pylint: disable=unused-import  # their programs register themselves
from . import state
from .programs import Call, paths
from .session import Server
from .tree import Tree


def _key(source: Path | str) -> str:
    """A key given as its text or as the file that holds it."""
    text = str(source)
    return text if text.startswith(("ssh-", "-----")) else Path(text).read_text()


class GuestFace:
    """GuestFace(world, directory, client_key_public, host_key): start() returns when the booted guests listen."""

    def __init__(self, world: World, directory: Path | str, client_key_public: Path | str, host_key: Path | str) -> None:
        self.world, self.directory = world, Path(directory).absolute()
        self.client_key = asyncssh.import_public_key(_key(client_key_public))
        self._host_key = asyncssh.import_private_key(_key(host_key))
        self.connections: dict[str, set[Any]] = {}
        self.calls: dict[str, set[asyncio.Task]] = {}
        self.loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]
        self._listeners: dict[str, Any] = {}
        self._trees: dict[str, Tree] = {}
        self._tokens: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._thread: threading.Thread | None = None
        self._door: Any = None
        self._stopped = False

    # ---- start and stop -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        ready: "list[BaseException | None]" = []
        done = threading.Event()

        def work() -> None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
            try:
                self.loop.run_until_complete(self._open())
            except BaseException as err:  # handed to the caller of start()
                ready.append(err)
                done.set()
                return
            done.set()
            self.loop.run_forever()

        self._thread = threading.Thread(target=work, name="lab-guests", daemon=True)
        self._thread.start()
        done.wait()
        if ready:
            raise ready[0]  # type: ignore[misc]
        self.world.watch(self._told)

    def vms(self) -> list[Vm]:
        return [vm for vm in self.world.vms.values() if not vm.vcls and vm.guest.address]

    async def _open(self) -> None:
        self._door = await asyncio.start_server(self._program, "127.0.0.1", 0, backlog=512, limit=1 << 22)
        port = self._door.sockets[0].getsockname()[1]
        for vm in self.vms():
            if not vm.guest.root:
                vm.guest.root = str(self.directory / "guests" / vm.name)
            vm.guest.root = os.path.realpath(vm.guest.root)
            self._tokens[vm.name] = secrets.token_hex(8)
            self._locks[vm.name] = asyncio.Lock()
            self.connections[vm.name], self.calls[vm.name] = set(), set()
            self._trees[vm.name] = Tree(self.world, vm, port, self._tokens[vm.name])
            self._trees[vm.name].clear()
        for vm in self.vms():
            await self._follow(vm)

    def stop(self) -> None:
        if self._thread is None or self._stopped:
            return
        self._stopped = True

        async def close() -> None:
            for vm in self.vms():
                await self._down(vm)
            self._door.close()
            for task in [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]:
                task.cancel()
            await asyncio.sleep(0.05)

        asyncio.run_coroutine_threadsafe(close(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)

    # ---- following the world ----------------------------------------------------------------------------------------------

    def _told(self, kind: str, name: str) -> None:
        if self._stopped:
            return
        if kind == "guest":
            names = [name]
        else:
            names = [vm.name for vm in self.vms() if vm.host == name]
        for one in names:
            if one in self._trees:
                self.loop.call_soon_threadsafe(lambda vm=self.world.vms[one]: asyncio.ensure_future(self._follow(vm)))

    async def _follow(self, vm: Vm) -> None:
        """Bring the listener of a VM to what the world says."""
        async with self._locks[vm.name]:
            up, seen = vm.guest.booted, vm.guest.extra.get("seen_boot")
            if vm.name in self._listeners and (not up or seen != vm.guest.boots):
                await self._down(vm)
            if up and vm.name not in self._listeners:
                await self._up(vm)

    async def _up(self, vm: Vm) -> None:
        tree = self._trees[vm.name]
        tree.make({other.guest.address: other.name for other in self.vms()})
        with self.world.lock:
            vm.guest.extra["seen_boot"] = vm.guest.boots
            state.load_drivers(self.world, vm)
            self.refresh(vm)
        self._listeners[vm.name] = await asyncssh.create_server(
            lambda: Server(self, vm), vm.guest.address, vm.guest.port, server_host_keys=[self._host_key], encoding=None, line_editor=False,
            allow_scp=False, reuse_address=True, backlog=100, login_timeout=60,
            encryption_algs=["aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr", "aes256-ctr"],
            kex_algs=["curve25519-sha256", "ecdh-sha2-nistp256"], compression_algs=["none"])

    async def _down(self, vm: Vm) -> None:
        listener = self._listeners.pop(vm.name, None)
        if listener is None:
            return
        listener.close()
        for task in list(self.calls[vm.name]):
            task.cancel()
        for conn in list(self.connections[vm.name]):
            conn.abort()
        self._kill(vm)
        await listener.wait_closed()

    def _kill(self, vm: Vm) -> None:
        """What runs in a guest ends with it, daemons too: they are known by the token in their environment."""
        mark = b"VHPC_LAB_GUEST=" + self._tokens[vm.name].encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open("/proc/%s/environ" % entry, "rb") as handle:
                    if mark in handle.read().split(b"\0"):
                        os.kill(int(entry), signal.SIGKILL)
            except OSError:
                continue

    def refresh(self, vm: Vm) -> None:
        """Files and programs of the guest as the world says now. Caller holds the lock."""
        tree = self._trees[vm.name]
        tree.sync()
        tree.programs(paths(vm))

    def session_opened(self, vm: Vm) -> None:
        with self.world.lock:
            self._trees[vm.name].sync()

    def token(self, vm: Vm) -> str:
        return self._tokens[vm.name]

    # ---- the door of the programs -----------------------------------------------------------------------------------------

    async def _program(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def word() -> str:
            return (await reader.readuntil(b"\0"))[:-1].decode("utf-8", "surrogateescape")

        task, vm = asyncio.current_task(), None
        try:
            token, count = await word(), int(await word())
            vm = next((one for one in self.vms() if self._tokens[one.name] == token), None)
            words = [await word() for dummy in range(3 + count)]
            if vm is None or not vm.guest.booted:
                return
            self.calls[vm.name].add(task)  # type: ignore[arg-type]
            root = vm.guest.root
            cwd = words[1][len(root):] or "/" if words[1].startswith(root) else words[1]
            call = Call(self, vm, words[0], words[3:], cwd, words[2], reader, writer)
            await call.run()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            if vm is not None:
                self.calls[vm.name].discard(task)  # type: ignore[arg-type]
            writer.close()
