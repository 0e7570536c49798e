# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""OFED in a guest: what is installed, whether its modules are the loaded ones, and the limits it needs."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import ofed

LIMITS_DIR = "/etc/security/limits.d"
MODULES = ("mlx5_core", "mlx5_ib", "ib_core")
# What the installer's documented return codes mean: (text, hint).
RETURN_CODES = {
    1: ("the installation failed", "read the log it names"),
    2: ("there is no firmware for the adapter", "the firmware is not this step's task: leave firmware_update off"),
    22: ("it does not know a parameter", "check installer_arguments against the release"),
    28: ("there is not enough room on the file system", "make room in the root file system and in /tmp"),
    171: ("it does not apply: no supported adapter was found",
          "check that the card's functions are attached to the VM (lspci), or give --skip-unsupported-devices-check"),
    172: ("prerequisites are missing", "name the packages in prerequisites"),
    173: ("the mst driver could not be started", "leave firmware_update off, or check that the kernel allows the driver (secure boot)"),
}


def installed(system):
    """The installed OFED: dict(name, version, provider), all empty when there is none."""
    nothing = dict(name="", version="", provider="")
    if not system.find("ofed_info"):
        return nothing
    code, out, err = system.run(["ofed_info", "-s"], timeout=30)
    if code:
        return nothing
    try:
        found = ofed.parse(out)
    except ParseError:
        return nothing
    return dict((key, found[key]) for key in nothing)


def loaded(system, version):
    """(whether the running modules are those that are installed, why); None when nobody can tell.

    version: the installed OFED's. Compared by the modules' source version, which differs from build to build.
    """
    if not system.is_dir("/sys/module/mlx5_core"):
        return False, "mlx5_core is not loaded"
    told = False
    for module in MODULES:
        running = system.line("/sys/module/%s/srcversion" % module)
        if not running or not system.find("modinfo"):
            continue
        code, out, dummy = system.run(["modinfo", "-F", "srcversion", module], timeout=30)
        if code or not out.strip():
            continue
        told = True
        if out.strip() != running:
            return False, "the running %s (srcversion %s) is not the installed one (%s)" % (module, running, out.strip())
    running = system.line("/sys/module/mlx5_core/version")
    short = ".".join(version.split(".")[:3])
    if running and version and not running.startswith(short):
        return False, "the running mlx5_core has version %s" % running
    if told or running:
        return True, ""
    return None, "neither /sys/module/mlx5_core nor modinfo tells a version"


def state(system):
    """Installed and loaded together, as modules return it."""
    found = installed(system)
    running, why = loaded(system, found["version"]) if found["version"] else (False, "no OFED is installed")
    return dict(installed=found["name"], version=found["version"], provider=found["provider"], loaded=running, loaded_reason=why)


def is_version(found, wanted):
    """Whether an installed version is the wanted one; MLNX_OFED_LINUX- may stand before both."""
    def bare(text):
        return re.sub(r"^[A-Za-z_]+(?:-[A-Za-z_]+)*-(?=\d)", "", text.strip().rstrip(":"))
    return bool(found) and bare(found) == bare(wanted)


def memlock(texts):
    """What limits.conf files say on locked memory: dict(soft, hard) of the lines for everybody; the last line wins.

    texts: contents of /etc/security/limits.conf and then limits.d, in the order in which PAM reads them.
    """
    out = dict(soft="", hard="")
    for text in texts:
        for line in text.splitlines():
            match = re.match(r"^\s*\*\s+(soft|hard|-)\s+memlock\s+(\S+)", line)
            if match:
                value = "unlimited" if match.group(2) in ("-1", "infinity") else match.group(2)
                for side in ("soft", "hard") if match.group(1) == "-" else (match.group(1),):
                    out[side] = value
    return out


def read_memlock(system):
    """The configured limits of locked memory."""
    names = ["/etc/security/limits.conf"] + system.glob(LIMITS_DIR + "/*.conf")
    return memlock([system.read(name, "") for name in names])


def installer_failure(code, text):
    """(why, hint) of a failed mlnxofedinstall, from its return code and its output."""
    why, hint = RETURN_CODES.get(code, ("it ended with return code %d" % code, "read the log it names"))
    try:
        told = ofed.parse_install(text)
    except ParseError:
        told = {}
    if told.get("error"):
        why = "%s (%s)" % (why, told["error"])
    if told.get("missing"):
        why, hint = "packages are missing: %s" % ", ".join(told["missing"]), "add them to prerequisites"
    elif told.get("kind") == "kernel" or (told.get("add_kernel_support") and code):
        hint = "give --add-kernel-support in installer_arguments, or boot the kernel that the release was built for"
    if told.get("logs"):
        why += "; its log: %s" % told["logs"][-1]
    return why, hint
