# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MLNX_OFED in a guest: the installer, what it leaves behind, and the driver script."""

from __future__ import annotations

import asyncio
import re

from . import state
from .programs import OFED, Call, Stop, options, program
from .system import rpms
from .tree import OFED_VERSION

# What the installer asks for on RHEL 8 before it does anything (documented: it ends with 172 without them).
REQUIRED = ("perl", "gcc-gfortran", "tcl", "tk", "kernel-modules-extra", "numactl-libs")
INSTALL_SECONDS, RESTART_SECONDS = 0.4, 0.2
KERNEL = "4.18.0-147.el8.x86_64"


def packages(ofed: str, kernel: str) -> dict[str, str]:
    """The packages of an OFED as rpm lists them."""
    match = re.search(r"(\d+\.\d+)-(\d[\d.]*)$", ofed)
    version, build = match.groups() if match else ("5.4", "3.0.3.0")
    short = version.replace(".", "")
    tail = "%s%s.rhel8u1.x86_64" % (short, build.replace(".", "")[:3])
    plain = "1.%s%s.x86_64" % (short, build.replace(".", "")[:4])
    return {"ofed-scripts": "%s-OFED.%s.%s.x86_64" % (version, version, build), "mlnx-ofa_kernel": "%s-OFED.%s.%s.1.rhel8u1.x86_64" % (version, version, build),
            "kmod-mlnx-ofa_kernel": "%s-OFED.%s.%s.1.rhel8u1.x86_64" % (version, version, build), "mlnx-tools": "5.2.0-0.%s" % tail,
            "rdma-core": "54mlnx1-1.%s" % plain,
            "libibverbs": "54mlnx1-1.%s" % plain, "libibverbs-utils": "54mlnx1-1.%s" % plain, "librdmacm": "54mlnx1-1.%s" % plain,
            "infiniband-diags": "54mlnx1-1.%s" % plain,
            "perftest": "4.5-0.11.g5d2d4ae.%s" % plain, "opensm": "5.9.0.MLNX20210617.c9f2ade-0.1.%s" % plain,
            "mlnx-fw-updater": "%s-%s.x86_64" % (version, build),
            "mft": "4.17.0-106.x86_64", "ucx": "1.11.0-1.%s" % plain, "openmpi": "4.1.2a1-1.%s" % plain}


@program("ofed_info", package=OFED)
def ofed_info(call: Call) -> int:
    short = call.guest.ofed.replace("MLNX_OFED_LINUX-", "")
    if "-s" in call.argv:
        call.line(call.guest.ofed + ":")
    elif "-n" in call.argv:
        call.line(short)
    elif "-l" in call.argv or "-b" in call.argv:
        call.out("".join("%s-%s\n" % item for item in sorted(packages(call.guest.ofed, call.guest.kernel).items())))
    elif call.argv:
        raise Stop(1, "Usage: ofed_info [-s|-n|-l|-d]\n")
    else:
        call.line("%s (OFED-%s):\n" % (call.guest.ofed, short))
        for name, full in sorted(packages(call.guest.ofed, call.guest.kernel).items()):
            call.line("%s:\n%s/SRPMS/%s-%s.src.rpm\n" % (name, name, name, full.rpartition(".")[0]))
    return 0


FLAGS = ("force", "without-fw-update", "fw-update-only", "add-kernel-support", "skip-distro-check", "skip-repo", "all", "hpc", "basic", "user-space-only",
         "kernel-only",
         "uninstall", "help", "version", "quiet", "without-depcheck", "with-nvmf", "without-dkms", "dkms", "guest", "hypervisor", "upstream-libs",
         "enable-sriov",
         "skip-unsupported-devices-check", "force-fw-update", "dry-run", "vma", "with-nfsrdma", "with-mlnx-ethtool", "disable-kmp", "kmp", "umad-dev-rw")
VALUES = ("distro", "kernel", "kernel-sources", "tmpdir", "build-root", "fw-image-dir", "enable-opensm", "log-dir", "config", "conf-dir",
          "package-install-options")


@program("mlnxofedinstall", package="archive", path="-")
async def mlnxofedinstall(call: Call) -> int:
    argv = [re.sub(r"^-(?=[a-z]{2})", "--", arg) for arg in call.argv]
    try:
        found, rest = options(argv, "qvhn", "ck", FLAGS, VALUES)
        if rest:
            raise ValueError(rest[0])
    except ValueError as err:
        call.line("Unsupported installation option: %s" % err)
        return 22
    if "h" in found or "help" in found:
        call.line("Usage: ./mlnxofedinstall [-n|--net <network config_file>] [-q] [--force] [--without-fw-update] [--add-kernel-support]")
        return 0
    if "version" in found:
        call.line(OFED_VERSION)
        return 0
    if "uninstall" in found:
        return await uninstall(call)
    quiet = "q" in found or "quiet" in found
    log = "/tmp/MLNX_OFED_LINUX.%d.logs" % (4000 + call.guest.boots * 7)
    with call.world.lock:
        held, guest = rpms(call), call.guest
        missing = [name for name in REQUIRED if name not in held]
        attached = call.world.rdma_devices(call.vm)
    call.line("General log file: %s/general.log" % log)
    if missing and "without-depcheck" not in found:
        call.line("Error: One or more required packages for installing MLNX_OFED_LINUX are missing.\n"
                  "Please install the missing packages using your Linux distribution Package Management tool.\nRun:\nyum install %s" % " ".join(missing))
        return 172
    if guest.kernel != KERNEL and "add-kernel-support" not in found:
        call.line("The %s kernel is installed, but do not have drivers available.\nYou should run with --add-kernel-support flag to build them for it."
                  % guest.kernel)
        return 1
    if not attached and "skip-unsupported-devices-check" not in found and "user-space-only" not in found:
        call.line("Error: No supported adapter was found on this system.")
        return 171
    if "force" not in found and not quiet:
        call.out("This program will install the MLNX_OFED_LINUX package on your machine.\n"
                 "Note that all other Mellanox, OEM, OFED, RDMA or Distribution IB packages will be removed.\n"
                 "Those packages are removed due to conflicts with MLNX_OFED_LINUX, do not reinstall them.\n\nDo you want to continue?[y/N]:")
        if not (await call.ask()).lower().startswith("y"):
            return 1
    if not quiet:
        call.out("Verifying KMP rpms compatibility with target kernel...\nLogs dir: %s\n" % log)
        if "force" in found:
            call.out("This program will install the MLNX_OFED_LINUX package on your machine.\n"
                     "Note that all other Mellanox, OEM, OFED, RDMA or Distribution IB packages will be removed.\n"
                     "Those packages are removed due to conflicts with MLNX_OFED_LINUX, "
                     "do not reinstall them.\n\n")
        call.line("Starting MLNX_OFED_LINUX-%s installation ...\n" % OFED_VERSION.rsplit("LINUX-", 1)[1])
    await call.flush()
    await asyncio.sleep(INSTALL_SECONDS)
    with call.world.lock:
        if guest.boots != call.boots or not guest.booted:
            return 255
        new = packages(OFED_VERSION, guest.kernel)
        if not quiet:
            call.out("".join("Installing %s RPM\nPreparing...                          ########################################\n"
                             "Updating / installing...\n%s-%s"
                             "           ########################################\n" % (name, name, full) for name, full in sorted(new.items())))
        old = guest.ofed
        for name in packages(old, guest.kernel) if old else ():
            held.pop(name, None)
        held.update(new)
        guest.ofed = OFED_VERSION
        guest.ofed_loaded = guest.extra.get("loaded") == OFED_VERSION
        call.world.note("guest", call.vm.name, "mlnxofedinstall", options=sorted(found), replaced=old)
        if "without-fw-update" in found or "user-space-only" in found:
            call.line("Device (%s):" % attached[0]["guest_bdf"][5:] if attached else "")
        else:
            # The installer's own habit: it burns what it brings along unless it is told not to.
            guest.extra["firmware_updates"] = guest.extra.get("firmware_updates", 0) + 1
            call.world.note("guest", call.vm.name, "mlnxofedinstall tried a firmware update")
            call.line("Attempting to perform Firmware update...\nQuerying Mellanox devices firmware ...\n")
            for n, device in enumerate(attached):
                card = device["card"]
                call.out("Device #%d:\n----------\n\n  Device Type:      %s\n  Part Number:      %s\n  Description:      %s\n  PSID:             %s\n"
                         "  PCI Device Name:  %s\n  Base GUID:        %s\n  Versions:         Current        Available     \n     FW             %-15s%-14s\n\n"
                         "  Status:           Up to date\n\n\n" % (n + 1, card.device, card.part, card.description, card.psid, device["guest_bdf"],
                                                                   device["port"].guid,
                                                                   card.firmware, card.firmware))
            call.line("Log File: %s/fw_update.log\nReal log file: %s/fw_update.log" % (log, log))
        for device in attached:
            link = "Infiniband controller" if device["link"] == 1 else "Ethernet controller"
            call.out("Device (%s):\n\t%s %s: Mellanox Technologies MT27800 Family [ConnectX-5]\n\tLink Width: x16\n\tPCI Link Speed: 8GT/s\n\n"
                     % (device["guest_bdf"], device["guest_bdf"], link))
        call.out("Installation passed successfully\nTo load the new driver, run:\n/etc/init.d/openibd restart\n")
        call.face.refresh(call.vm)
    return 0


@program("ofed_uninstall.sh", package=OFED)
async def uninstall(call: Call) -> int:
    if not {"--force", "-q", "--uninstall"} & set(call.argv):
        call.out("This program will uninstall all %s packages on your machine.\n\nDo you want to continue?[y/N]:" % call.guest.ofed)
        if not (await call.ask()).lower().startswith("y"):
            return 1
    with call.world.lock:
        held, old = rpms(call), call.guest.ofed
        for name in packages(old, call.guest.kernel) if old else ():
            held.pop(name, None)
        call.guest.ofed = ""
        call.world.note("guest", call.vm.name, "ofed uninstalled", replaced=old)
        call.face.refresh(call.vm)
    call.line("Uninstall finished successfully" if old else "No packages to remove")
    return 0


# ---- openibd ----------------------------------------------------------------------------------------------------------------

def _done(call: Call, text: str) -> None:
    call.line(text + "[  OK  ]")


async def stop_driver(call: Call, quiet: bool = False) -> int:
    await asyncio.sleep(RESTART_SECONDS / 2)
    with call.world.lock:
        state.unload_drivers(call.world, call.vm)
        call.world.note("guest", call.vm.name, "openibd stop")
        call.face.refresh(call.vm)
    if not quiet:
        _done(call, "Unloading HCA driver:")
    return 0


async def restart_driver(call: Call, quiet: bool = False) -> int:
    """Unload and load: devices come back as the card shows them, and NetworkManager brings up what it has profiles for."""
    await stop_driver(call, quiet)
    await call.flush()
    await asyncio.sleep(RESTART_SECONDS / 2)
    with call.world.lock:
        state.load_drivers(call.world, call.vm)
        call.world.note("guest", call.vm.name, "openibd start", ofed=call.guest.ofed)
        call.face.refresh(call.vm)
    if not quiet:
        _done(call, "Loading HCA driver and Access Layer:")
    return 0


@program("openibd", package=OFED, path="etc/init.d/openibd")
async def openibd(call: Call) -> int:
    verb = call.argv[0] if call.argv else ""
    if verb in ("restart", "force-restart"):
        return await restart_driver(call)
    if verb in ("start", "force-start"):
        if state.loaded(call.vm):
            _done(call, "Loading HCA driver and Access Layer:")
            return 0
        with call.world.lock:
            state.load_drivers(call.world, call.vm)
            call.face.refresh(call.vm)
        _done(call, "Loading HCA driver and Access Layer:")
        return 0
    if verb in ("stop", "force-stop"):
        return await stop_driver(call)
    if verb == "status":
        with call.world.lock:
            devs = [dev for dev in state.netdevs(call.world, call.vm) if dev.rdma]
            if not state.loaded(call.vm):
                call.line("\n  HCA driver is not loaded\n")
                return 3
        ib, en = [dev for dev in devs if dev.kind == "infiniband"], [dev for dev in devs if dev.kind == "ether"]
        modules = ("rdma_ucm", "rdma_cm", "ib_ipoib", "mlx5_core", "mlx5_ib", "ib_uverbs", "ib_umad", "ib_cm", "ib_core", "mlxfw")
        for title, rows in (("Configured IPoIB devices:", ib), ("Currently active IPoIB devices:", [d for d in ib if d.running]),
                            ("Configured Mellanox EN devices:", en),
                            ("Currently active Mellanox devices:", [d for d in en if d.running])):
            if title.startswith("Configured IPoIB"):
                call.line("\n  HCA driver loaded\n")
            call.line(title + "\n" + "".join(dev.name + "\n" for dev in rows))
        call.line("The following OFED modules are loaded:\n")
        call.out("".join("  %s\n" % name for name in modules) + "\n")
        return 0
    call.line("\nUsage: openibd {start|force-start|stop|force-stop|restart|force-restart|status}")
    return 1
