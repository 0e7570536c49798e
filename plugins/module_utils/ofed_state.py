# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""OFED in a guest: what is installed, whether its modules are the loaded ones, and the limits it needs."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import ofed

LIMITS_DIR = "/etc/security/limits.d"
SYSTEMD = "/etc/systemd/system.conf"
SYSTEMD_LIMITS = SYSTEMD + ".d/90-vhpc-rdma.conf"
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
    drifted = drift(system)
    if drifted:
        return False, drifted
    running = system.line("/sys/module/mlx5_core/version")
    short = ".".join(version.split(".")[:3])
    if running and version and not running.startswith(short):
        return False, "the running mlx5_core has version %s" % running
    if told or running:
        return True, ""
    return None, "neither /sys/module/mlx5_core nor modinfo tells a version"


def kernel(system):
    """Release of the running kernel; empty when nobody tells."""
    return system.run(["uname", "-r"], timeout=10)[1].strip() if system.find("uname") else ""


def drift(system):
    """What is wrong when the running kernel is another one than the vendor's modules were built for; empty when it has them."""
    if not system.find("modinfo"):
        return ""
    code, out, dummy = system.run(["modinfo", "-n", "mlx5_core"], timeout=30)
    # The vendor's lie in extra, updates or weak-updates.
    if code or not re.match(r"^(?:/usr)?/lib/modules/[^/]+/kernel/", out.strip()):
        return ""
    return "the running kernel %s has none of its modules: modprobe would take %s" % (kernel(system), out.strip())


def dkms_missing(text, release):
    """The modules that dkms status lists and that are not installed for a kernel."""
    names, there = [], set()
    for line in text.splitlines():
        match = re.match(r"^\s*([\w.+-]+)(?:/|,\s*)[^,:]+(?:,\s*([^,:]+),\s*[^,:]+)?:\s*(\w+)", line)
        if match:
            if match.group(1) not in names:
                names.append(match.group(1))
            if match.group(2) == release and match.group(3) == "installed":
                there.add(match.group(1))
    return [name for name in names if name not in there]


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


def memlock(texts, who="*"):
    """What limits.conf files say on locked memory: dict(soft, hard) of the lines for who; the last line wins.

    texts: contents of /etc/security/limits.conf and then limits.d, in the order in which PAM reads them. The lines for everybody (*) do not hold for root.
    """
    out = dict(soft="", hard="")
    for text in texts:
        for line in text.splitlines():
            match = re.match(r"^\s*(\*|root)\s+(soft|hard|-)\s+memlock\s+(\S+)", line)
            if match and match.group(1) == who:
                value = "unlimited" if match.group(3) in ("-1", "infinity") else match.group(3)
                for side in ("soft", "hard") if match.group(2) == "-" else (match.group(2),):
                    out[side] = value
    return out


def read_memlock(system, who="*"):
    """The configured limits of locked memory."""
    names = ["/etc/security/limits.conf"] + system.glob(LIMITS_DIR + "/*.conf")
    return memlock([system.read(name, "") for name in names], who)


def systemd_memlock(text):
    """A limit of ours as systemd writes it."""
    return "infinity" if text == "unlimited" else text + "K"


def read_systemd_memlock(system):
    """DefaultLimitMEMLOCK of the services, as the last file says it; empty when none does, None where systemd does not run."""
    if not system.is_dir("/run/systemd/system"):
        return None
    value = ""
    for name in [SYSTEMD] + system.glob(SYSTEMD + ".d/*.conf"):
        for match in re.finditer(r"^\s*DefaultLimitMEMLOCK\s*=\s*(\S*)", system.read(name, ""), re.M):
            value = match.group(1)
    return value


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
