# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an ESXi host shows as its file system: /tmp and datastores of the world, programs, a few files of /etc and /var/log.

Nothing of it is a file of the machine that runs the lab.
"""

from __future__ import annotations

import errno
import functools
import os
import posixpath
import re
from typing import Any, Callable

from ..world import File, Host, Vib, World

MFT_BIN = "/opt/mellanox/bin"
MFT_PROGRAMS = ("mst", "mlxconfig", "mlxfwmanager", "flint", "mlxvpd")
DIRECTORIES = ("/", "/bin", "/bootbank", "/dev", "/etc", "/etc/init.d", "/etc/rc.local.d", "/etc/ssh", "/etc/ssh/keys-root", "/etc/vmware", "/opt", "/root",
               "/scratch", "/sbin", "/tmp",
               "/usr", "/usr/bin", "/usr/lib", "/usr/lib/vmware", "/usr/lib/vmware/secureboot", "/usr/lib/vmware/secureboot/bin", "/var", "/var/log",
               "/var/tmp",
               "/vmfs", "/vmfs/volumes")
KEPT = ("/etc/",)  # what a host saves across reboots of what is written outside datastores


def failure(number: int, path: str = "") -> OSError:
    return OSError(number, os.strerror(number), path)


def locked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Under the world's lock."""
    @functools.wraps(function)
    def wrapper(self: FileSystem, *args: Any, **named: Any) -> Any:
        with self.world.lock:
            return function(self, *args, **named)
    return wrapper


class FileSystem:
    """The files of one host. Paths are absolute; text of an error is os.strerror's."""

    def __init__(self, world: World, host: Host, programs: dict[str, str]) -> None:
        self.world, self.host, self.programs = world, host, programs  # programs: path -> name

    # ---- the tree -------------------------------------------------------------------------------------------------

    def absolute(self, path: str, cwd: str = "/") -> str:
        path = posixpath.normpath(posixpath.join(cwd or "/", path))
        path = "/" + path.lstrip("/")
        match = re.match(r"^/vmfs/volumes/([^/]+)(/.*)?$", path)
        if match and match.group(1) not in self.world.datastores:
            for name in self.world.datastores:
                if volume_id(name) == match.group(1):
                    return "/vmfs/volumes/%s%s" % (name, match.group(2) or "")
        return path

    def own(self) -> dict[str, Any]:
        """Files written outside /tmp and datastores: path -> (boot they were written in, bytes)."""
        files = self.host.settings.get("files", {})
        for path in [path for path, (boots, content) in files.items() if boots != self.host.boots and not path.startswith(KEPT)]:
            del files[path]
        return files

    def fixed(self) -> dict[str, bytes]:
        """Files every host has."""
        host = self.host
        boots = "".join("%sZ bootstop: Host has booted\n" % moment.strftime("%Y-%m-%dT%H:%M:%S") for moment in (host.boot_time,))
        return {"/etc/hosts": ("127.0.0.1\tlocalhost.localdomain localhost\n%s\t%s\n" % (host.address or "127.0.0.1", host.name)).encode(),
                "/etc/profile.local": b"# profile.local\n",
                "/etc/rc.local.d/local.sh": b"#!/bin/sh ++group=host/vim/vmvisor/boot\n\nexit 0\n",
                "/etc/vmware-release": ("VMware ESXi %s\n" % host.version).encode(),
                "/etc/passwd": b"root:x:0:0:Administrator:/:/bin/sh\n",
                "/var/log/vmksummary.log": boots.encode()}

    def tools(self) -> dict[str, str]:
        out = dict(self.programs)
        if "mft" in self.host.vibs:
            out.update({"%s/%s" % (MFT_BIN, name): name for name in MFT_PROGRAMS})
        return out

    def store(self, path: str) -> tuple[dict[str, File], str] | None:
        """(files of the datastore, path in it) for a path under /vmfs/volumes."""
        match = re.match(r"^/vmfs/volumes/([^/]+)(?:/(.*))?$", path)
        if not match or match.group(1) not in self.world.datastores:
            return None
        return self.world.datastores[match.group(1)], match.group(2) or ""

    def directories(self) -> set[str]:
        out = set(DIRECTORIES) | {"/vmfs/volumes/" + name for name in self.world.datastores}
        if "mft" in self.host.vibs:
            out |= {"/opt/mellanox", MFT_BIN}
        for path in self.files():
            parent = posixpath.dirname(path.rstrip("/"))
            while parent not in out:
                out.add(parent)
                parent = posixpath.dirname(parent)
            if path.endswith("/"):
                out.add(path.rstrip("/"))
        return out

    def files(self) -> list[str]:
        """Every path; a directory that was made stands with a trailing slash."""
        out = ["/tmp/" + name for name in self.host.tmp] + list(self.own()) + list(self.fixed()) + list(self.tools())
        for name, store in self.world.datastores.items():
            out += ["/vmfs/volumes/%s/%s" % (name, path) for path in store]
        return out

    # ---- reading --------------------------------------------------------------------------------------------------

    @locked
    def is_dir(self, path: str) -> bool:
        return path in DIRECTORIES or path in self.directories()

    def exists(self, path: str) -> bool:
        return self.is_dir(path) or self.find(path) is not None

    @locked
    def find(self, path: str) -> bytes | None:
        """The bytes of a file, None where there is none."""
        if path == "/dev/null":
            return b""
        if path.startswith("/tmp/"):
            return self.host.tmp.get(path[5:])
        store = self.store(path)
        if store:
            entry = store[0].get(store[1])
            return entry.content if entry else None
        if path in self.own():
            return self.own()[path][1]
        fixed = self.fixed().get(path)
        if fixed is not None:
            return fixed
        return b"\x7fELF" + path.encode() if path in self.tools() else None

    def read(self, path: str) -> bytes:
        found = self.find(path)
        if found is None:
            raise failure(errno.EISDIR if self.is_dir(path) else errno.ENOENT, path)
        return found

    @locked
    def listing(self, path: str) -> list[str]:
        """Names in a directory."""
        if not self.is_dir(path):
            raise failure(errno.ENOTDIR if self.find(path) is not None else errno.ENOENT, path)
        prefix = path.rstrip("/") + "/"
        names = {entry[len(prefix):].split("/")[0] for entry in list(self.directories()) + self.files() if entry.startswith(prefix)}
        return sorted(name for name in names if name)

    @locked
    def software(self, path: str) -> File | None:
        """The VIBs in a file: by name on its datastore, by content anywhere else."""
        content = self.find(path)
        if content is None:
            return None
        store = self.store(path)
        if store:
            return store[0].get(store[1])
        for files in self.world.datastores.values():
            for entry in files.values():
                if entry.vibs and entry.content == content:
                    return entry
        return File(content)

    # ---- writing --------------------------------------------------------------------------------------------------

    @locked
    def write(self, path: str, content: bytes, append: bool = False) -> None:
        if path == "/dev/null":
            return
        parent = posixpath.dirname(path)
        if self.is_dir(path):
            raise failure(errno.EISDIR, path)
        if not self.is_dir(parent):
            raise failure(errno.ENOENT, path)
        if append:
            content = (self.find(path) or b"") + content
        if path.startswith("/tmp/"):
            self.host.tmp.setdefault(path[5:], b"")
            if content and self.world.fault("tmp_full", self.host.name) is not None:
                raise failure(errno.ENOSPC, path)
            self.host.tmp[path[5:]] = content
            return
        store = self.store(path)
        if store:
            known = self._same_content(content)
            store[0][store[1]] = File(content, list(known.vibs), known.bundle) if known else File(content)
        elif path.startswith("/vmfs") or path.startswith(("/bin", "/usr", "/opt", "/sbin")):
            raise failure(errno.EROFS if not path.startswith("/vmfs") else errno.ENOENT, path)
        else:
            self.host.settings.setdefault("files", {})[path] = (self.host.boots, content)

    def _same_content(self, content: bytes) -> File | None:
        """A copy of a VIB is still that VIB."""
        for files in self.world.datastores.values():
            for entry in files.values():
                if entry.vibs and entry.content == content:
                    return entry
        return None

    @locked
    def mkdir(self, path: str) -> None:
        if self.exists(path):
            raise failure(errno.EEXIST, path)
        if not self.is_dir(posixpath.dirname(path)):
            raise failure(errno.ENOENT, path)
        if path.startswith("/tmp/"):
            self.host.tmp[path[5:] + "/"] = b""
        elif self.store(path):
            store, name = self.store(path) or ({}, "")
            store[name + "/"] = File(b"")
        else:
            self.host.settings.setdefault("files", {})[path + "/"] = (self.host.boots, b"")

    @locked
    def remove(self, path: str) -> None:
        """A file, or a directory with all that is in it."""
        if not self.exists(path):
            raise failure(errno.ENOENT, path)
        if path.startswith("/tmp/"):
            tables: list[tuple[dict, str]] = [(self.host.tmp, path[5:])]
        elif self.store(path):
            store, name = self.store(path) or ({}, "")
            tables = [(store, name)]
        else:
            tables = [(self.own(), path)]
        table, name = tables[0]
        gone = [entry for entry in table if entry == name or entry.startswith(name + "/")]
        if not gone:
            raise failure(errno.EPERM, path)
        for entry in gone:
            del table[entry]


def volume_id(name: str) -> str:
    """The id under which a datastore is mounted; its name is a link to it."""
    number = sum(ord(char) << (8 * (index % 7)) for index, char in enumerate(name))
    return "%08x-%08x" % (number & 0xFFFFFFFF, (number >> 8) * 2654435761 & 0xFFFFFFFF)


def vib_files(world: World, vib: Vib) -> list[str]:
    """Where on the datastores a VIB lies."""
    return ["/vmfs/volumes/%s/%s" % (name, path) for name, store in world.datastores.items() for path, entry in store.items() if vib in entry.vibs]
