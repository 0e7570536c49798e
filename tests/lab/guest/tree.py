# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A guest's root directory: what a RHEL 8.1 minimal installation has that matters here, /sys as files, the programs.

A program is a hard link to one small bash script: it sends its name, arguments and directory to the lab over loopback TCP
and runs what comes back (write this, read a line, exit with that). bash starts in half the time of any Python.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
from pathlib import Path

from ..world import Vm, World
from . import state

OFED_VERSION = "MLNX_OFED_LINUX-5.4-3.0.3.0"
TARBALL = OFED_VERSION + "-rhel8.1-x86_64"
STUB_HOME = "usr/libexec/vhpc-lab"

STUB = """#!/bin/bash
# A program of the rehearsal lab: the lab's process knows what it does.
exec 3<>/dev/tcp/127.0.0.1/%(port)d || exit 255
n=${VHPC_LAB_NAME:-${0##*/}}
printf '%%s\\0' %(token)s "$#" "$n" "$PWD" "$0" "$@" >&3
while IFS= read -r -d '' -u 3 c; do eval "$c"; done
exit 255
"""

# The programs of this machine that a guest's own programs call: by a script, since the root's links end inside the root.
MACHINE_PROGRAMS = """[ awk basename bash cat chmod chown cp cut date dirname df du echo env expr false find flock free getent grep gunzip gzip head
id install kill ln ls md5sum mkdir mktemp mv nohup nproc printf ps pwd python3 readlink realpath rm rmdir sed seq setsid sh sha256sum sleep sort
stat stdbuf tail tar tee test time timeout touch tr true uniq wc which xargs xz yes""".split()

# Pinning to cores and memory of a machine that is not there: the program is run as it is.
PINNING = """#!/bin/sh
# A guest of the rehearsal lab has no cores of its own.
while [ $# -gt 0 ]; do
    case "$1" in
        -c|-C|-N|-m|-p|-i|-l|--cpu-list|--physcpubind|--cpunodebind|--membind|--preferred|--interleave|--localalloc) [ "$1" = -l ] || shift ;;
        -*) ;;
        *) break ;;
    esac
    [ $# -gt 0 ] && shift
done
case "${0##*/}:${1:-}" in taskset:[0-9]*) shift ;; esac
[ $# -gt 0 ] && exec "$@"
exit 0
"""

OS_RELEASE = """NAME="Red Hat Enterprise Linux"
VERSION="8.1 (Ootpa)"
ID="rhel"
ID_LIKE="fedora"
VERSION_ID="8.1"
PLATFORM_ID="platform:el8"
PRETTY_NAME="Red Hat Enterprise Linux 8.1 (Ootpa)"
CPE_NAME="cpe:/o:redhat:enterprise_linux:8.1:GA"
"""

INSTALLER = """#!/bin/sh
# The installer of the rehearsal lab's MLNX_OFED: the guest it runs in is the root above this directory.
case "$0" in /*) here=${0%/*} ;; */*) here=$PWD/${0%/*} ;; *) here=$PWD ;; esac
top=$here
while [ -n "$top" ] && [ ! -x "$top/usr/libexec/vhpc-lab/stub" ]; do top=${top%/*}; done
[ -n "$top" ] || top=$VHPC_LAB_ROOT
cd "$here" || exit 1
VHPC_LAB_NAME=mlnxofedinstall exec "$top/usr/libexec/vhpc-lab/stub" "$@"
"""


def tarball() -> bytes:
    """MLNX_OFED as the lab's guests get it: the installer and what tells its version. The same bytes every time."""
    files = {"mlnxofedinstall": (INSTALLER, 0o755), "uninstall.sh": (INSTALLER.replace("LAB_NAME=mlnxofedinstall", "LAB_NAME=ofed_uninstall.sh"), 0o755),
             ".mlnx": (OFED_VERSION + "\n", 0o644), "distro": ("rhel8.1\n", 0o644), ".arch": ("x86_64\n", 0o644),
             ".supported_kernels": ("4.18.0-147.el8.x86_64\n", 0o644)}
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        top = tarfile.TarInfo(TARBALL)
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(top)
        for name, (text, mode) in files.items():
            info = tarfile.TarInfo("%s/%s" % (TARBALL, name))
            info.size, info.mode = len(text), mode
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


class Tree:
    """The files of one guest."""

    def __init__(self, world: World, vm: Vm, port: int, token: str) -> None:
        self.world, self.vm, self.root = world, vm, Path(vm.guest.root)
        self._stub = STUB % {"port": port, "token": token}
        self._sys: dict[str, str] = {}
        self._programs: set[str] = set()

    def clear(self) -> None:
        """Remove what another lab left here: its world is gone, and so is what was installed in it."""
        if (self.root / STUB_HOME).is_dir():
            shutil.rmtree(self.root)

    def make(self, names: dict[str, str]) -> None:
        """Everything that is there before anything is installed. names: address -> host name for /etc/hosts."""
        for folder in ("etc/NetworkManager/system-connections", "etc/NetworkManager/conf.d", "etc/security/limits.d", "etc/systemd/system", "etc/modprobe.d",
                       "etc/init.d", "etc/udev/rules.d", "etc/sysctl.d", "etc/yum.repos.d", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "usr/libexec",
                       "usr/lib/systemd/system", "usr/share", STUB_HOME, "root", "tmp", "var/tmp", "var/log", "var/lib", "opt", "mnt", "run", "dev", "proc",
                       "sys/class/infiniband", "sys/class/net", "sys/bus/pci/devices", "sys/devices", "usr/lib/modules/%s" % self.vm.guest.kernel):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        links = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "usr/tmp": "../var/tmp", "etc/rc.d": "."}
        for link, target in links.items():
            if not os.path.lexists(self.root / link):
                (self.root / link).symlink_to(target)
        once = {"etc/os-release": OS_RELEASE, "etc/redhat-release": "Red Hat Enterprise Linux release 8.1 (Ootpa)\n", "etc/hostname": self.vm.name + "\n",
                "etc/machine-id": self.vm.uuid.replace("-", "") + "\n", "etc/security/limits.conf": "# /etc/security/limits.conf\n",
                "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "etc/group": "root:x:0:\n"}
        for name, text in once.items():
            if not (self.root / name).exists():
                (self.root / name).write_text(text)
        # What a VM shows of its processors, memory and firmware; it changes with the VM's settings.
        (self.root / "proc/cpuinfo").write_text("\n".join(
            "processor\t: %d\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz\nphysical id\t: %d\ncore id\t\t: %d\n"
            "flags\t\t: fpu sse2 avx2 avx512f hypervisor\n" % (number, number // max(1, self.vm.cores_per_socket), number % max(1, self.vm.cores_per_socket))
            for number in range(self.vm.cpus)))
        (self.root / "proc/meminfo").write_text("MemTotal:       %8d kB\n" % (self.vm.memory_mb * 1024 - 3250000))
        dmi = self.root / "sys/class/dmi/id"
        dmi.mkdir(parents=True, exist_ok=True)
        (dmi / "bios_version").write_text("VMW71.00V.16460286.B64.2006250725\n")
        (dmi / "product_name").write_text("VMware7,1\n")
        lines = ["127.0.0.1 localhost localhost.localdomain"] + ["%s %s %s.lab" % (address, name, name) for address, name in names.items()]
        (self.root / "etc/hosts").write_text("\n".join(lines) + "\n")
        archive = self.root / "root" / (TARBALL + ".tgz")
        if not archive.exists():
            archive.write_bytes(tarball())
        stub = self.root / STUB_HOME / "stub"
        stub.unlink(missing_ok=True)
        stub.write_text(self._stub)
        stub.chmod(0o755)
        for name in MACHINE_PROGRAMS:
            path, real = self.root / "usr/bin" / name, shutil.which(name, path="/usr/bin:/bin")
            if real and not path.exists():
                self._script(path, '#!/bin/sh\nexec %s "$@"\n' % real)
        for name in ("numactl", "taskset", "nice", "chrt"):
            path = self.root / "usr/bin" / name
            if not path.exists():
                self._script(path, PINNING)

    def _script(self, path: Path, text: str) -> None:
        """A script that is the same in every guest: one file with a link per guest."""
        shared = self.root.parent / ".programs" / path.name
        if not shared.exists():
            shared.parent.mkdir(exist_ok=True)
            shared.write_text(text)
            shared.chmod(0o755)
        _link(shared, path)

    def programs(self, paths: set[str]) -> None:
        """Make exactly these paths (relative to the root) programs of the lab."""
        stub = self.root / STUB_HOME / "stub"
        for path in self._programs - paths:
            (self.root / path).unlink(missing_ok=True)
        for path in paths - self._programs:
            target = self.root / path
            target.unlink(missing_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(stub, target)
        self._programs = set(paths)

    # ---- sysfs --------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Write what changed of /sys. Caller holds the world's lock."""
        new = sysfs(self.world, self.vm)
        for name in sorted(set(self._sys) - set(new), reverse=True):
            path = self.root / "sys" / name
            path.unlink(missing_ok=True)
            for parent in path.parents:
                if parent == self.root / "sys" or parent.name in ("class", "net", "infiniband", "devices") and parent.parent.name in ("sys", "class"):
                    break
                try:
                    parent.rmdir()
                except OSError:
                    break
        made: set[Path] = set()
        for name, text in new.items():
            if self._sys.get(name) == text:
                continue
            path = self.root / "sys" / name
            if path.parent not in made:
                path.parent.mkdir(parents=True, exist_ok=True)
                made.add(path.parent)
            if text.startswith("->"):
                path.unlink(missing_ok=True)
                path.symlink_to(text[2:])
            else:
                path.write_text(text)
        self._sys = new


def _pci(bdf: str) -> str:
    return "devices/pci0000:00/%s" % bdf


def sysfs(world: World, vm: Vm) -> dict[str, str]:
    """/sys of the guest: name below /sys -> content ("->" target for a symbolic link)."""
    out: dict[str, str] = {}
    if not vm.guest.booted:
        return out
    for device in world.rdma_devices(vm):
        top, card, port = _pci(device["guest_bdf"]), device["card"], device["port"]
        out.update({top + "/vendor": "0x15b3\n", top + "/device": "0x%04x\n" % card.mt, top + "/subsystem_vendor": "0x15b3\n",
                    top + "/class": "0x%04x00\n" % card.pci_class(port.number), top + "/numa_node": "0\n", top + "/local_cpulist": "0-%d\n" % (vm.cpus - 1),
                    top + "/current_link_speed": "8.0 GT/s PCIe\n", top + "/current_link_width": "16\n",
                    "bus/pci/devices/" + device["guest_bdf"]: "->../../../" + top})
    loaded = vm.guest.extra.get("loaded")
    if loaded:
        for module in ("mlx5_core", "mlx5_ib", "ib_core", "mlx_compat"):
            out["module/%s/version" % module] = state.module_version(loaded) + "\n"
            out["module/%s/srcversion" % module] = state.srcversion(module, loaded) + "\n"
    for dev in state.netdevs(world, vm):
        top = "devices/virtual/net/" + dev.name if not dev.bdf else "%s/net/%s" % (_pci(dev.bdf), dev.name)
        out["class/net/" + dev.name] = "->../../" + top
        number = "00:00:00:00:00:00" if dev.kind == "loopback" else "ff:ff:ff:ff:ff:ff"
        ib = dev.kind == "infiniband"
        flags = 0x1 * dev.up | (0x8 if dev.kind == "loopback" else 0x1002)
        out.update({"%s/%s" % (top, name): "%s\n" % value for name, value in (
            ("address", dev.hw), ("mtu", dev.mtu), ("ifindex", dev.index), ("flags", hex(flags)), ("dev_id", "0x0"), ("dev_port", 0),
            ("type", {"loopback": 772, "ether": 1, "infiniband": 32}[dev.kind]), ("addr_len", 20 if ib else 6), ("tx_queue_len", 256 if ib else 1000),
            ("operstate", "unknown" if dev.kind == "loopback" else "up" if dev.running else "down"), ("carrier", int(dev.running)),
            ("broadcast", number if not ib else "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff"))})
        if dev.rdma or dev.name == state.MANAGEMENT:
            out[top + "/speed"] = "%d\n" % (100000 if dev.rdma else 10000)
        if dev.bdf:
            out[top + "/device"] = "->../../../" + dev.bdf
            out.setdefault(_pci(dev.bdf) + "/numa_node", "0\n")
        if ib:
            out[top + "/mode"] = "datagram\n"
            out[top + "/pkey"] = "0xffff\n"
    for port in state.rdma_ports(world, vm):
        top = "%s/infiniband/%s" % (_pci(port.bdf), port.name)
        one = top + "/ports/1"
        out["class/infiniband/" + port.name] = "->../../" + top
        out.update({"%s/%s" % (top, name): "%s\n" % value for name, value in (
            ("node_guid", state.dotted(port.guid)), ("sys_image_guid", state.dotted(port.guid)), ("fw_ver", port.firmware), ("board_id", port.psid),
            ("hca_type", "MT%d" % port.mt), ("hw_rev", "0"), ("node_type", "1: CA"), ("node_desc", "%s mlx5_%s" % (vm.name, port.name[-1])))})
        out[top + "/device"] = "->../../../" + port.bdf
        out.update({"%s/%s" % (one, name): "%s\n" % value for name, value in (
            ("state", "%d: %s" % (port.state, state.STATES[port.state])), ("phys_state", "%d: %s" % (port.physical, state.PHYSICAL[port.physical])),
            ("rate", port.rate), ("link_layer", port.link_layer), ("lid", hex(port.lid)), ("sm_lid", hex(port.sm_lid)), ("lid_mask_count", "0"),
            ("sm_sl", "0"), ("cap_mask", "0x2651e848" if port.infiniband else "0x04010000"), ("pkeys/0", "0xffff"),
            ("counters/symbol_error", "0"), ("counters/link_downed", "0"), ("counters/port_rcv_errors", "0"), ("counters/port_xmit_discards", "0"))})
        filled = {index: (gid, kind) for index, gid, kind in port.gids}
        for index in range(max(len(filled), 8) + 2 if not port.infiniband else 4):
            gid, kind = filled.get(index, ("0000:0000:0000:0000:0000:0000:0000:0000", ""))
            out["%s/gids/%d" % (one, index)] = gid + "\n"
            if kind:
                out["%s/gid_attrs/types/%d" % (one, index)] = kind + "\n"
                if not port.infiniband:
                    out["%s/gid_attrs/ndevs/%d" % (one, index)] = port.netdev.name + "\n"
    return out
