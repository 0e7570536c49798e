# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of the operating system: rpm, dnf, systemctl, modinfo, lsmod, uname, reboot and what else must not touch this machine."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

from . import state
from .programs import Call, Stop, program

RELEASE = "el8"
# name -> version-release.arch of a minimal installation, as far as anyone here asks.
MINIMAL = {"NetworkManager": "1.20.0-3.el8.x86_64", "bash": "4.4.19-10.el8.x86_64", "coreutils": "8.30-6.el8.x86_64", "dnf": "4.2.7-6.el8.noarch",
           "ethtool": "5.0-2.el8.x86_64", "glibc": "2.28-72.el8.x86_64", "gzip": "1.9-8.el8.x86_64", "iproute": "4.18.0-15.el8.x86_64",
           "iputils": "20180629-2.el8.x86_64", "kernel": "4.18.0-147.el8.x86_64", "kernel-core": "4.18.0-147.el8.x86_64",
           "kernel-modules": "4.18.0-147.el8.x86_64",
           "openssh-server": "8.0p1-3.el8.x86_64", "pciutils": "3.5.6-4.el8.x86_64", "platform-python": "3.6.8-15.1.el8.x86_64",
           "python3-libs": "3.6.8-15.1.el8.x86_64",
           "redhat-release": "8.1-3.3.el8.x86_64", "rpm": "4.14.2-25.el8.x86_64", "systemd": "239-18.el8.x86_64", "tar": "1.30-4.el8.x86_64",
           "util-linux": "2.32.1-17.el8.x86_64", "libnl3": "3.5.0-1.el8.x86_64"}
# What the guest's repositories offer beside it; a value after "+" comes along.
AVAILABLE = {"kernel-modules-extra": "4.18.0-147.el8.x86_64", "tk": "8.6.8-1.el8.x86_64+tcl", "tcl": "8.6.8-2.el8.x86_64", "tcsh": "6.20.00-9.el8.x86_64",
             "perl": "5.26.3-416.el8.x86_64", "gcc-gfortran": "8.3.1-4.5.el8.x86_64+gcc", "gcc": "8.3.1-4.5.el8.x86_64", "numactl-libs": "2.0.12-9.el8.x86_64",
             "numactl": "2.0.12-9.el8.x86_64+numactl-libs", "fuse-libs": "2.9.7-12.el8.x86_64", "lsof": "4.91-2.el8.x86_64", "make": "4.2.1-9.el8.x86_64",
             "python36": "3.6.8-2.module+el8.1.0+3334+5cb623d7.x86_64", "libusbx": "1.0.22-1.el8.x86_64", "kernel-devel": "4.18.0-147.el8.x86_64",
             "kernel-headers": "4.18.0-147.el8.x86_64", "elfutils-libelf-devel": "0.176-5.el8.x86_64", "createrepo_c": "0.11.0-3.el8.x86_64",
             "rpm-build": "4.14.2-25.el8.x86_64", "tuned": "2.12.0-3.el8.noarch", "wget": "1.19.5-8.el8.x86_64", "rdma-core": "22.3-1.el8.x86_64",
             "libibverbs": "22.3-1.el8.x86_64", "infiniband-diags": "2.1.0-2.el8.x86_64", "perftest": "4.2-1.el8.x86_64"}


def rpms(call: Call) -> dict[str, str]:
    held = call.guest.extra.setdefault("rpms", dict(MINIMAL))
    if call.guest.ofed and not any(".mlnx" in version or ".54" in version for version in held.values()):
        from .ofed import packages  # a guest that had OFED from the start

        held.update(packages(call.guest.ofed, call.guest.kernel))
    return held


def split(full: str) -> tuple[str, str, str]:
    version, dummy, rest = full.partition("-")
    release, dummy, arch = rest.rpartition(".")
    return version, release, arch


def _format(template: str, name: str, full: str) -> str:
    version, release, arch = split(full)
    tags = {"NAME": name, "VERSION": version, "RELEASE": release, "ARCH": arch, "NVRA": "%s-%s" % (name, full), "NEVRA": "%s-%s" % (name, full),
            "EPOCH": "(none)",
            "EPOCHNUM": "0", "VENDOR": "Red Hat, Inc.", "SUMMARY": name, "EVR": "%s-%s" % (version, release)}
    text = re.sub(r"%-?\d*\{([^}]*)\}", lambda m: tags.get(m.group(1).upper().split(":")[0], "(none)"), template)
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _matches(text: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)


@program("rpm")
def rpm(call: Call) -> int:
    held = rpms(call)
    template, words, letters, erase = "", [], "", False
    argv = list(call.argv)
    while argv:
        arg = argv.pop(0)
        if arg in ("--qf", "--queryformat"):
            template = argv.pop(0) if argv else ""
        elif arg.startswith(("--qf=", "--queryformat=")):
            template = arg.split("=", 1)[1]
        elif arg in ("--query", "--all", "--erase", "--nodeps", "--eval", "-E", "--quiet", "--version"):
            letters += {"--query": "q", "--all": "a", "--erase": "e", "--eval": "E", "-E": "E", "--version": "V"}.get(arg, "")
        elif arg.startswith("-"):
            letters += arg.lstrip("-")
        else:
            words.append(arg)
    erase = "e" in letters and "q" not in letters
    if letters.startswith("V") and not words:
        call.line("RPM version 4.14.2")
        return 0
    if "E" in letters:
        for word in words:
            call.line({"%{rhel}": "8", "%rhel": "8", "%{_arch}": "x86_64", "%{dist}": ".el8"}.get(word, word))
        return 0
    if erase:
        missing = [word for word in words if word not in held]
        if missing:
            raise Stop(len(missing), "".join("error: package %s is not installed\n" % word for word in missing))
        for word in words:
            del held[word]
        return 0
    if "q" not in letters:
        raise Stop(1, "rpm: this guest of the lab queries only\n")
    show = (lambda name: _format(template, name, held[name])) if template else (lambda name: "%s-%s\n" % (name, held[name]))
    if "a" in letters:
        names = [name for name in sorted(held) if not words or _matches(name, words) or _matches("%s-%s" % (name, held[name]), words)]
        call.out("".join(show(name) for name in names))
        return 0
    missing = 0
    for word in words:
        if "f" in letters:
            owner = next((name for name in ("mlnx-ofa_kernel", "perftest", "libibverbs-utils", "infiniband-diags") if name in held and word.endswith(
                {"mlnx-ofa_kernel": "openibd", "perftest": "bw", "libibverbs-utils": "ibv_devinfo", "infiniband-diags": "ibstat"}[name])), None)
            if owner is None:
                call.line("file %s is not owned by any package" % word)
                missing += 1
            else:
                call.out(show(owner))
            continue
        name = next((name for name in held if word in (name, "%s-%s" % (name, held[name]), "%s-%s" % (name, held[name].rpartition(".")[0]),
                                                       "%s.%s" % (name, split(held[name])[2]))), None)
        if name is None:
            call.line("package %s is not installed" % word)
            missing += 1
        else:
            call.out(show(name))
    return min(missing, 255)


@program("dnf", "yum")
def dnf(call: Call) -> int:
    held = rpms(call)
    words, skip = [], False
    for arg in call.argv:
        if skip:
            skip = False
        elif arg in ("-c", "-d", "-e", "-x", "--setopt", "--enablerepo", "--disablerepo", "--releasever", "--exclude"):
            skip = True
        elif not arg.startswith("-"):
            words.append(arg)
    yes = any(arg in ("-y", "--assumeyes") or (re.fullmatch(r"-[a-z]*y[a-z]*", arg)) for arg in call.argv)
    quiet = any(arg in ("-q", "--quiet") for arg in call.argv)
    if "--version" in call.argv:
        call.line("4.2.7")
        return 0
    verb = words.pop(0) if words else "help"

    def say(text: str) -> None:
        if not quiet:
            call.line(text)

    if verb == "install":
        names = [re.sub(r"\.(x86_64|noarch)$", "", word) for word in words]
        unknown = [name for name in names if name not in AVAILABLE and name not in held
                   and not any(name.startswith(one + "-" + full.split("-")[0]) for one, full in AVAILABLE.items())]
        say("Updating Subscription Management repositories.\nLast metadata expiration check: 0:12:31 ago on Sun 29 Nov 2026 09:00:00 AM UTC.")
        if unknown:
            for name in unknown:
                call.line("No match for argument: %s" % name)
            raise Stop(1, "Error: Unable to find a match: %s\n" % " ".join(unknown))
        todo: dict[str, str] = {}
        for name in names:
            name = name if name in AVAILABLE or name in held else next(one for one in AVAILABLE if name.startswith(one + "-"))
            if name in held:
                say("Package %s-%s is already installed." % (name, held[name]))
                continue
            full, dummy, more = AVAILABLE[name].rpartition("+") if AVAILABLE[name].rpartition("+")[2] in AVAILABLE else (AVAILABLE[name], "", "")
            todo[name] = full
            if more and more not in held:
                todo[more] = AVAILABLE[more].split("+")[0]
        if not todo:
            say("Dependencies resolved.\nNothing to do.\nComplete!")
            return 0
        rule = "=" * 80
        say("Dependencies resolved.\n%s\n Package                 Arch      Version                 Repository       Size\n%s\nInstalling:" % (rule, rule))
        for name, full in todo.items():
            version, release, arch = split(full)
            say(" %-23s %-9s %-23s rhel-8-baseos    1.0 M" % (name, arch, "%s-%s" % (version, release)))
        say("\nTransaction Summary\n%s\nInstall  %d Package%s\n" % ("=" * 80, len(todo), "s" if len(todo) > 1 else ""))
        if not yes:
            call.err("Is this ok [y/N]: Operation aborted.\n")
            return 1
        held.update(todo)
        call.world.note("guest", call.vm.name, "dnf install %s" % " ".join(sorted(todo)))
        say("\nInstalled:\n  %s\n\nComplete!" % "  ".join("%s-%s" % item for item in sorted(todo.items())))
        return 0
    if verb in ("remove", "erase"):
        gone = [word for word in words if word in held]
        for word in gone:
            del held[word]
        say("Dependencies resolved.\n%s\nComplete!" % ("Removed: %s" % " ".join(gone) if gone else "No packages marked for removal.\nNothing to do."))
        return 0
    if verb in ("list", "info", "repoquery"):
        only = [word for word in words if word in ("installed", "available")]
        names = [word for word in words if word not in only]
        rows = {} if only == ["available"] else dict(held)
        shown = [name for name in sorted(rows) if not names or any(fnmatch.fnmatchcase(name, word) for word in names)]
        offered = [] if only == ["installed"] else [name for name in sorted(AVAILABLE) if name not in held and (not names or _matches(name, names))]
        if shown:
            call.line("Installed Packages")
            for name in shown:
                version, release, arch = split(held[name])
                call.line("%-40s %-35s @anaconda" % ("%s.%s" % (name, arch), "%s-%s" % (version, release)))
        if offered:
            call.line("Available Packages")
            for name in offered:
                version, release, arch = split(AVAILABLE[name].split("+")[0])
                call.line("%-40s %-35s rhel-8-baseos" % ("%s.%s" % (name, arch), "%s-%s" % (version, release)))
        if not shown and not offered:
            raise Stop(1, "Error: No matching Packages to list\n")
        return 0
    if verb in ("makecache", "clean", "repolist", "check-update", "update", "upgrade", "config-manager"):
        say({"makecache": "Metadata cache created.", "clean": "0 files removed",
             "repolist": "repo id                repo name\nrhel-8-baseos          Red Hat Enterprise Linux 8 - BaseOS"}.get(
            verb, "Dependencies resolved.\nNothing to do.\nComplete!"))
        return 0
    raise Stop(1, "No such command: %s. Please use /usr/bin/dnf --help\n" % verb)


# ---- systemd --------------------------------------------------------------------------------------------------------------

UNITS = {"sshd": True, "NetworkManager": True, "systemd-udevd": True, "chronyd": True, "tuned": False, "firewalld": False, "crond": True, "dbus": True}


def _unit_file(call: Call, unit: str) -> Path | None:
    for folder in ("etc/systemd/system", "usr/lib/systemd/system"):
        path = Path(call.guest.root) / folder / (unit + ".service")
        if path.is_file():
            return path
    return None


def _known(call: Call, unit: str) -> bool:
    return unit in UNITS or (unit == "openibd" and bool(call.guest.ofed)) or _unit_file(call, unit) is not None


def _active(call: Call, unit: str) -> bool:
    if unit == "openibd":
        return state.loaded(call.vm)
    return call.guest.extra.setdefault("units", {}).get(unit, UNITS.get(unit, False))


def _enabled(call: Call, unit: str) -> bool:
    if unit == "openibd":
        return "openibd" not in call.guest.extra.get("disabled", ())
    if unit in UNITS:
        return UNITS[unit] and unit not in call.guest.extra.get("disabled", ())
    top = Path(call.guest.root) / "etc/systemd/system"
    return any((top / target / (unit + ".service")).is_symlink() for target in ("multi-user.target.wants", "network-online.target.wants"))


@program("systemctl")
async def systemctl(call: Call) -> int:
    from .ofed import restart_driver, stop_driver

    words = [arg for arg in call.argv if not arg.startswith("-")]
    quiet = any(arg in ("-q", "--quiet") for arg in call.argv)
    if "--version" in call.argv:
        call.line("systemd 239")
        return 0
    if not words:
        call.line("0 loaded units listed.")
        return 0
    verb, names = words[0], [re.sub(r"\.service$", "", word) for word in words[1:]]
    if verb in ("reboot", "kexec", "soft-reboot"):
        return await reboot(call)
    if verb in ("poweroff", "halt"):
        return await poweroff(call)
    if verb in ("daemon-reload", "daemon-reexec", "reset-failed", "set-default", "list-units", "list-unit-files"):
        return 0
    if verb == "is-system-running":
        call.line("running")
        return 0
    if verb == "get-default":
        call.line("multi-user.target")
        return 0
    code = 0
    for unit in names:
        known, active, enabled = _known(call, unit), _active(call, unit), _known(call, unit) and _enabled(call, unit)
        if verb == "is-active":
            if not quiet:
                call.line("active" if active and known else "inactive")
            code = code or (0 if active and known else 3)
        elif verb == "is-enabled":
            if not known:
                raise Stop(1, "Failed to get unit file state for %s.service: No such file or directory\n" % unit)
            if not quiet:
                call.line("enabled" if enabled else "disabled")
            code = code or (0 if enabled else 1)
        elif verb == "is-failed":
            call.line("active" if active else "inactive")
            code = 1
        elif verb in ("show", "cat"):
            for key, value in (("Id", unit + ".service"), ("LoadState", "loaded" if known else "not-found"),
                               ("ActiveState", "active" if active and known else "inactive"),
                               ("SubState", "running" if active else "dead"), ("UnitFileState", "enabled" if enabled else "disabled")):
                call.line("%s=%s" % (key, value))
        elif verb == "status":
            if not known:
                raise Stop(4, "Unit %s.service could not be found.\n" % unit)
            call.out("%s %s.service\n   Loaded: loaded (/usr/lib/systemd/system/%s.service; %s; vendor preset: enabled)\n   Active: %s\n"
                     % ("●", unit, unit, "enabled" if enabled else "disabled", "active (running)" if active else "inactive (dead)"))
            code = 0 if active else 3
        elif not known:
            raise Stop(5 if verb in ("start", "restart", "stop", "reload") else 1, "Failed to %s %s.service: Unit %s.service not found.\n" % (verb, unit, unit))
        elif verb in ("enable", "disable", "mask", "unmask"):
            folder = Path(call.guest.root) / "etc/systemd/system/multi-user.target.wants"
            link = folder / (unit + ".service")
            held = call.guest.extra.setdefault("disabled", [])
            if verb == "enable":
                if unit in held:
                    held.remove(unit)
                path = _unit_file(call, unit)
                if path and not link.is_symlink():
                    folder.mkdir(parents=True, exist_ok=True)
                    link.symlink_to("/" + str(path.relative_to(call.guest.root)))
                    call.err("Created symlink /etc/systemd/system/multi-user.target.wants/%s.service -> /%s.\n" % (unit, path.relative_to(call.guest.root)))
                if "--now" in call.argv:
                    call.guest.extra.setdefault("units", {})[unit] = True
            elif verb == "disable":
                if unit not in held:
                    held.append(unit)
                if link.is_symlink():
                    link.unlink()
                    call.err("Removed /etc/systemd/system/multi-user.target.wants/%s.service.\n" % unit)
        elif unit == "openibd" and verb in ("start", "restart", "reload-or-restart"):
            await restart_driver(call, quiet=True)
        elif unit == "openibd" and verb == "stop":
            await stop_driver(call, quiet=True)
        elif verb in ("start", "restart", "stop", "reload", "try-restart", "reload-or-restart"):
            call.guest.extra.setdefault("units", {})[unit] = verb != "stop"
            call.world.note("guest", call.vm.name, "systemctl %s %s" % (verb, unit))
        else:
            raise Stop(1, "Unknown operation %s.\n" % verb)
    return code


@program("reboot")
async def reboot(call: Call) -> int:
    call.world.note("guest", call.vm.name, "reboot asked in the guest")
    call.face.loop.call_later(0.1, call.world.reboot_guest, call.vm)
    return 0


@program("poweroff", "halt")
async def poweroff(call: Call) -> int:
    call.world.note("guest", call.vm.name, "power off asked in the guest")
    call.face.loop.call_later(0.1, call.world.power_off_vm, call.vm)
    return 0


@program("shutdown", "init")
async def shutdown(call: Call) -> int:
    if "-c" in call.argv:
        return 0
    if "-r" in call.argv or "6" in call.argv:
        return await reboot(call)
    if {"-h", "-P", "-H", "0", "now"} & set(call.argv):
        return await poweroff(call)
    raise Stop(1, "shutdown: not simulated: %s\n" % " ".join(call.argv))


# ---- kernel ---------------------------------------------------------------------------------------------------------------

OFED_MODULES = ("ib_ipoib", "rdma_ucm", "rdma_cm", "iw_cm", "ib_cm", "mlx5_ib", "ib_umad", "ib_uverbs", "ib_core", "mlx5_core", "mlxfw", "mlx_compat")
BASE_MODULES = ("vmxnet3", "vmw_pvscsi", "vmw_balloon", "xfs", "sd_mod")


@program("uname")
def uname(call: Call) -> int:
    flags = "".join(arg.lstrip("-") for arg in call.argv if arg.startswith("-") and not arg.startswith("--")) or "s"
    values = {"s": "Linux", "n": call.vm.name, "r": call.guest.kernel, "v": "#1 SMP Thu Sep 26 15:52:44 UTC 2019", "m": "x86_64", "p": "x86_64",
              "i": "x86_64", "o": "GNU/Linux"}
    if "--all" in call.argv or "a" in flags:
        flags = "snrvmpio"
    call.line(" ".join(values[letter] for letter in "snrvmpio" if letter in flags))
    return 0


@program("hostname", "hostnamectl")
def hostname(call: Call) -> int:
    if call.name == "hostname":
        call.line(call.vm.name)
    else:
        call.out("   Static hostname: %s\n  Operating System: Red Hat Enterprise Linux 8.1 (Ootpa)\n            Kernel: Linux %s\n"
                 "      Architecture: x86-64\n" % (call.vm.name, call.guest.kernel))
    return 0


@program("nproc")
def nproc(call: Call) -> int:
    call.line(str(call.vm.cpus))
    return 0


@program("lsmod")
def lsmod(call: Call) -> int:
    call.line("Module                  Size  Used by")
    names = (OFED_MODULES if state.loaded(call.vm) else ()) + BASE_MODULES
    for n, name in enumerate(names):
        call.line("%-19s %8d  0" % (name, 16384 * (1 + (n * 7) % 23)))
    return 0


@program("modinfo")
def modinfo(call: Call) -> int:
    words, field, kernel = [], "", call.guest.kernel
    argv = list(call.argv)
    while argv:
        arg = argv.pop(0)
        if arg in ("-F", "--field", "-k"):
            value = argv.pop(0) if argv else ""
            field, kernel = (value, kernel) if arg != "-k" else (field, value)
        elif arg in ("-n", "--filename"):
            field = "filename"
        elif not arg.startswith("-"):
            words.append(arg)
    code = 0
    for word in words:
        name = word.replace("-", "_")
        ofed, inbox = bool(call.guest.ofed), name in ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "rdma_cm", "vmxnet3", "xfs")
        if not (inbox or (ofed and name in OFED_MODULES)):
            call.err("modinfo: ERROR: Module %s not found.\n" % word)
            code = 1
            continue
        ours = ofed and name in OFED_MODULES
        folder = {"mlx5_core": "drivers/net/ethernet/mellanox/mlx5/core", "mlx5_ib": "drivers/infiniband/hw/mlx5"}.get(name, "drivers/infiniband/core")
        rows = [("filename", "/lib/modules/%s/%s/%s/%s.ko%s" % (kernel, "extra/mlnx-ofa_kernel" if ours else "kernel", folder, name, "" if ours else ".xz"))]
        if ours:
            rows += [("version", state.module_version(call.guest.ofed)), ("srcversion", state.srcversion(name, call.guest.ofed))]
        elif name.startswith("mlx5"):
            rows += [("version", "5.0-0"), ("srcversion", state.srcversion(name, "inbox"))]
        rows += [("license", "Dual BSD/GPL"), ("vermagic", kernel + " SMP mod_unload modversions ")]
        for key, value in rows:
            if not field:
                call.line("%-16s%s" % (key + ":", value))
            elif field == key:
                call.line(value)
    return code


@program("modprobe", "rmmod", "depmod", "dracut", "udevadm", "swapoff", "setenforce", "restorecon", "sync", "logger", "wall")
def nothing(call: Call) -> int:
    """Succeeds; the world has nothing that it would change."""
    return 0


@program("getenforce")
def getenforce(call: Call) -> int:
    call.line("Disabled")
    return 0


@program("sysctl")
def sysctl(call: Call) -> int:
    held = call.guest.extra.setdefault("sysctl", {"net.core.rmem_max": "212992", "vm.swappiness": "60"})
    short = any(arg in ("-n", "--values") for arg in call.argv)
    code = 0
    for arg in call.argv:
        if arg.startswith("-"):
            continue
        key, equals, value = arg.partition("=")
        if equals:
            held[key.strip()] = value.strip()
        if key.strip() not in held:
            call.err("sysctl: cannot stat /proc/sys/%s: No such file or directory\n" % key.replace(".", "/"))
            code = 255
        else:
            call.line(held[key.strip()] if short else "%s = %s" % (key.strip(), held[key.strip()]))
    return code


@program("dmidecode")
def dmidecode(call: Call) -> int:
    known = {"system-uuid": call.vm.uuid, "system-manufacturer": "VMware, Inc.", "system-product-name": "VMware7,1"}
    call.line(known.get(call.argv[-1] if call.argv else "", "VMware, Inc."))
    return 0


@program("systemd-detect-virt", "virt-what")
def virt(call: Call) -> int:
    call.line("vmware")
    return 0
