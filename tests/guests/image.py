# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guests' image: a Debian tree, its kernel and a small initramfs, built once and kept by the content of the recipe."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import subprocess
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VHPC_GUESTS_BUILD") or TOP / "build" / "guests")  # a copy of the checkout shares the images of the original
SETUP = Path(__file__).resolve().parent / "setup.sh"
PACKAGES = ("systemd-sysv", "dbus", "udev", "openssh-server", "python3", "iproute2", "iputils-ping", "kmod", "procps", "network-manager", "ifupdown",
            "netplan.io", "nftables")
FORMAT = "1"  # raise it when the code below makes another image of the same recipe
EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
# program: Debian package
NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "busybox": "busybox-static",
          "ssh": "openssh-client", "ssh-keygen": "openssh-client", "chroot": "coreutils"}
FABRIC = {"ibsim": "ibsim-utils", "opensm": "opensm", "ibqueryerrors": "infiniband-diags"}
INIT = """#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
case "$(cat /proc/cmdline)" in *guest.probe*) echo GUEST_PROBE; poweroff -f ;; esac
while read file; do insmod "/${file##*/}"; done < /order
tries=0
while [ ! -e /dev/vda ] && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
mount -t ext4 /dev/vda /root || { echo GUEST_NO_ROOT; poweroff -f; }
mount --move /dev /root/dev
init=/sbin/init
for word in $(cat /proc/cmdline); do case $word in guest.init=*) init=${word#*=} ;; esac; done
umount /proc
exec switch_root /root "$init"
"""


class Missing(Exception):
    """What the machine lacks, in one line."""


def check(programs: dict[str, str], who: str) -> None:
    """Name all missing packages at once."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = {package for program, package in programs.items() if not shutil.which(program, path=path)}
    if missing:
        raise Missing("%s packages that are missing here; Debian: apt-get install --no-install-recommends %s" % (who, " ".join(sorted(missing))))


def suite() -> str:
    """The machine's own release where it is Debian."""
    try:
        found = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    except OSError:
        found = {}
    return found.get("VERSION_CODENAME", "").strip('"') if found.get("ID") == "debian" else "bookworm"


def mirrors() -> list[str]:
    """The machine's own sources that are Debian's, as files; mmdebstrap's default where there are none."""
    found = []
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
        if path.suffix in (".list", ".sources") and path.is_file():
            text = path.read_text(errors="replace")
            if re.search(r"^(?:deb\s.*|URIs:.*)/debian", text, re.M) and suite() in text:
                found.append(str(path))
    return found


def name() -> str:
    """The content of the recipe as a name: another recipe is another image."""
    digest = hashlib.sha256()
    for part in (SETUP.read_text(), INIT, " ".join(PACKAGES + EXCLUDED), suite(), FORMAT):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


class Image:
    """One built image: root.ext4, vmlinux, initrd, key, known host key."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root, self.kernel, self.initrd, self.key = (directory / one for one in ("root.ext4", "vmlinux", "initrd", "key"))

    @property
    def host_key(self) -> str:
        return " ".join((self.directory / "host_key.pub").read_text().split()[:2])

    @property
    def version(self) -> str:
        return (self.directory / "version").read_text().strip()


def image(say=print) -> Image:
    """The image of this recipe, built when it is not there."""
    # Without being root mmdebstrap becomes it in a tree of its own.
    check(dict(NEEDED, newuidmap="uidmap") if os.geteuid() else NEEDED, "The guests need")
    target = BUILD / name()
    if not (target / "ready").exists():
        started = time.monotonic()
        say("Building the guests' image from Debian packages, once for this recipe")
        build(target)
        say("Image built in %.0f s: %s" % (time.monotonic() - started, target))
    return Image(target)


def build(target: Path) -> None:
    place = BUILD / (target.name + ".part")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for key in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "guests", "-f", str(place / key)], check=True)
    env = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin", LC_ALL="C.UTF-8")
    opened = place
    if os.geteuid():  # the hook runs as another user of ours
        place.chmod(0o777)
        (place / "host_key").chmod(0o644)
    command = ["mmdebstrap", "--quiet", "--mode=auto", "--format=null", "--variant=minbase", "--include=" + ",".join(PACKAGES),
               '--aptopt=Acquire::Languages "none"', "--skip=cleanup/apt"]
    command += ["--dpkgopt=path-exclude=%s" % pattern for pattern in EXCLUDED]
    command += ['--customize-hook=sh "%s" "$1" "%s"' % (SETUP, opened), suite(), "/dev/null"] + mirrors()
    with open(place / "build.log", "wb") as log:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode or not (place / "root.ext4").exists():
        tail = (place / "build.log").read_text(errors="replace").splitlines()[-15:]
        raise Missing("The guests' image could not be built (%s):\n%s" % (place / "build.log", "\n".join(tail)))
    (place / "vmlinux").write_bytes(uncompressed((place / "vmlinuz").read_bytes()))
    (place / "initrd").write_bytes(initramfs(place / "modules"))
    (place / "ready").write_text("")
    shutil.rmtree(target, ignore_errors=True)
    place.rename(target)
    for other in BUILD.iterdir():  # images of earlier recipes
        if other != target and re.fullmatch(r"[0-9a-f]{16}(\.part)?", other.name):
            shutil.rmtree(other, ignore_errors=True)


def uncompressed(data: bytes) -> bytes:
    """The ELF kernel inside of a bzImage: booting it skips the decompressor, which is slow without hardware. The bzImage itself if it is packed otherwise."""
    sectors = data[0x1f1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    payload = data[(sectors + 1) * 512 + offset:(sectors + 1) * 512 + offset + length]
    if payload.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return gzip.decompress(payload[:-4])
    if payload.startswith(b"\x28\xb5\x2f\xfd") and shutil.which("zstd"):
        return subprocess.run(["zstd", "-dc"], input=payload[:-4], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout or data
    return data


def initramfs(modules: Path) -> bytes:
    """busybox and the modules that the root device needs, as a compressed cpio archive."""
    entries: list[tuple[str, int, bytes]] = [(one, stat.S_IFDIR | 0o755, b"") for one in ("bin", "dev", "proc", "root")]
    entries.append(("bin/busybox", stat.S_IFREG | 0o755, Path(shutil.which("busybox") or "/bin/busybox").read_bytes()))
    entries += [("bin/" + one, stat.S_IFLNK | 0o777, b"busybox") for one in ("sh", "mount", "umount", "insmod", "switch_root", "cat", "sleep", "poweroff")]
    entries.append(("init", stat.S_IFREG | 0o755, INIT.encode()))
    order = []
    for line in (modules / "order").read_text().split():
        data, file = (modules / Path(line).name).read_bytes(), Path(line).name
        if file.endswith(".xz"):
            data, file = lzma.decompress(data), file[:-3]
        order.append("/" + file)
        entries.append((file, stat.S_IFREG | 0o644, data))
    entries.append(("order", stat.S_IFREG | 0o644, ("\n".join(order) + "\n").encode()))
    out = bytearray()
    for number, (file, mode, data) in enumerate(entries + [("TRAILER!!!", 0, b"")], 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(file) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + file.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return gzip.compress(bytes(out), 1)
