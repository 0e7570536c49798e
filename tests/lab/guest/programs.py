# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of a guest: a registry, and the call a program gets.

A program is a function of the world: program(call) -> return code or None. It may be a coroutine where it waits.
`package` names what installs it: nothing of OFED is there before OFED is.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import Any, Callable

from ..world import Vm, World

BASE, OFED = "base", "ofed"
SBIN = ("ip", "ethtool", "ibstat", "ibstatus", "show_gids", "mlnx_qos", "cma_roce_mode", "cma_roce_tos", "modprobe", "modinfo", "lsmod", "lspci", "reboot",
        "shutdown",
        "poweroff", "halt", "init", "sysctl", "ss", "rdma", "dcb", "mst", "ofed_uninstall.sh", "sminfo", "ibping", "udevadm", "dmidecode", "swapoff",
        "tuned-adm")


class Stop(Exception):
    """Ends a program: with its return code and the last words on standard error."""

    def __init__(self, code: int, err: str = "") -> None:
        super().__init__(err)
        self.code, self.text = code, err


@dataclass
class Program:
    function: Callable[["Call"], Any]
    package: str
    path: str


PROGRAMS: dict[str, Program] = {}


def program(*names: str, package: str = BASE, path: str = "") -> Callable[[Callable[["Call"], Any]], Callable[["Call"], Any]]:
    def register(function: Callable[["Call"], Any]) -> Callable[["Call"], Any]:
        for name in names:
            PROGRAMS[name] = Program(function, package, path or ("usr/sbin/" if name in SBIN else "usr/bin/") + name)
        return function
    return register


def paths(vm: Vm) -> set[str]:
    """The programs that this guest has now."""
    have = {BASE} | ({OFED} if vm.guest.ofed else set())
    return {one.path for one in PROGRAMS.values() if one.package in have and one.path != "-"}


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class Call:
    """One run of a program: what it was called with and where its output goes."""

    def __init__(self, face: Any, vm: Vm, name: str, argv: list[str], cwd: str, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.face, self.vm, self.name, self.argv, self.cwd, self.path = face, vm, name, argv, cwd, path
        self.world: World = face.world
        self.guest = vm.guest
        self.boots = vm.guest.boots
        self._reader, self._writer = reader, writer
        self._chunks: list[str] = []

    def out(self, text: str) -> None:
        if text:
            self._chunks.append("printf %s " + quote(text))

    def err(self, text: str) -> None:
        if text:
            self._chunks.append("printf %s " + quote(text) + " >&2")

    def line(self, text: str = "") -> None:
        self.out(text + "\n")

    async def flush(self) -> None:
        if self._chunks:
            self._writer.write("".join(chunk + "\0" for chunk in self._chunks).encode("utf-8", "surrogateescape"))
            self._chunks = []
            await self._writer.drain()

    async def ask(self) -> str:
        """A line of the program's standard input; empty at its end."""
        self._chunks.append("IFS= read -r l; printf '%s\\n' \"$l\" >&3")
        await self.flush()
        return (await self._reader.readline()).decode("utf-8", "replace").rstrip("\n")

    async def gone(self) -> None:
        """Returns when the program was killed."""
        while await self._reader.read(4096):
            pass

    async def run(self) -> None:
        one = PROGRAMS.get(self.name)
        code: int | None
        if one is None:
            self.err("%s: not simulated\n" % self.name)
            code = 127
        else:
            try:
                if inspect.iscoroutinefunction(one.function):
                    code = await one.function(self)
                else:
                    with self.world.lock:
                        code = one.function(self)
            except Stop as stop:
                self.err(stop.text)
                code = stop.code
        self._chunks.append("exit %d" % (code or 0))
        await self.flush()


def options(argv: list[str], flags: str = "", values: str = "", long_flags: tuple[str, ...] = (),
            long_values: tuple[str, ...] = ()) -> tuple[dict[str, str], list[str]]:
    """getopt_long as most of these programs use it. Raises ValueError with the option that is not known."""
    found: dict[str, str] = {}
    rest: list[str] = []
    todo = list(argv)
    while todo:
        arg = todo.pop(0)
        if arg == "--":
            rest += todo
            break
        if arg.startswith("--"):
            name, equals, value = arg[2:].partition("=")
            if name in long_flags and not equals:
                found[name] = ""
            elif name in long_values:
                if not equals:
                    if not todo:
                        raise ValueError(arg)
                    value = todo.pop(0)
                found[name] = value
            else:
                raise ValueError(arg)
        elif arg.startswith("-") and len(arg) > 1:
            letters = arg[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter in flags:
                    found[letter] = ""
                elif letter in values:
                    if not letters:
                        if not todo:
                            raise ValueError("-" + letter)
                        letters = todo.pop(0)
                    found[letter], letters = letters, ""
                else:
                    raise ValueError("-" + letter)
        else:
            rest.append(arg)
    return found, rest
