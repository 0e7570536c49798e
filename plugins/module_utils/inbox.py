# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RDMA from the distribution's own packages: which ones, which version, and whether the running modules are the kernel's own."""

import lzma
import re

from ansible_collections.vhpc.rdma.plugins.module_utils import packages as packages_of
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

# What a guest needs for verbs, the connection manager, the port tools and perftest, by family of distributions.
PACKAGES = {
    "debian": ["rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "infiniband-diags", "perftest"],
    "rhel": ["rdma-core", "libibverbs", "libibverbs-utils", "librdmacm-utils", "infiniband-diags", "perftest"],
    "suse": ["rdma-core", "libibverbs", "libibverbs-utils", "librdmacm-utils", "infiniband-diags", "perftest"],
}
FAMILIES = {
    "debian": ("debian", "ubuntu"),
    "rhel": ("rhel", "fedora", "centos", "rocky", "almalinux", "ol"),
    "suse": ("suse", "sles", "sled", "opensuse", "opensuse-leap", "sle_hpc"),
}
# User space finds devices through these. rdma-core loads them when a device appears, but ib_umad not for one that speaks RoCE.
USER_MODULES = ("ib_uverbs", "ib_umad", "rdma_ucm")
AT_BOOT = "/etc/modules-load.d/vhpc-rdma.conf"
AT_BOOT_TEXT = "# Written by vhpc.rdma: what RDMA programs reach the devices through.\n" + "".join("%s\n" % name for name in USER_MODULES)
DRIVERS = ("mlx5_core", "mlx5_ib", "mlx4_core", "mlx4_ib", "rdma_rxe", "siw")
NOT_LOADED = "ib_core is not loaded"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def release(text):
    """os-release: key -> value."""
    out = {}
    for line in text.splitlines():
        key, sign, value = line.strip().partition("=")
        if sign and not key.startswith("#"):
            out[key] = value.strip().strip("\"'")
    return out


def family(text):
    """The family of distributions an os-release belongs to; empty when unknown."""
    found = release(text)
    for name in [found.get("ID", "").lower()] + found.get("ID_LIKE", "").lower().split():
        for kind, members in FAMILIES.items():
            if name in members:
                return kind
    return ""


def packages(system):
    """The packages of this guest's distribution. Raises when it is none that is known."""
    text = system.read("/etc/os-release", "") or system.read("/usr/lib/os-release", "")
    kind = family(text)
    if not kind:
        raise RdmaError("install RDMA from the distribution", system.name(), "the distribution %r is none of the known ones" % release(text).get("ID", ""),
                        "name its packages in packages", code="DISTRIBUTION")
    return list(PACKAGES[kind])


def version(system):
    """The version of the installed rdma-core with its release, without an epoch; empty when it is not there."""
    return packages_of.version(system, "rdma-core")


is_version = packages_of.is_version


def missing_modules(system):
    """Modules that user space needs and that are not loaded; those built into the kernel count as loaded."""
    out = []
    for name in USER_MODULES:
        if system.is_dir("/sys/module/%s" % name):
            continue
        if not system.find("modinfo") or "builtin" not in system.run(["modinfo", "-n", name], timeout=30)[1]:
            out.append(name)
    return out


def _bytes(system, name):
    try:
        with open(system.path(name), "rb") as handle:
            data = handle.read()
        return lzma.decompress(data) if name.endswith(".xz") else data
    except (IOError, OSError, lzma.LZMAError):
        return b""


def same_build(system, module, path):
    """Whether a running module is the one in the file, by the build ID that the linker gave it; None when nobody can tell."""
    note = _bytes(system, "/sys/module/%s/notes/.note.gnu.build-id" % module)
    at = note.find(b"GNU\0")
    data = _bytes(system, path) if at >= 0 and path.startswith("/") else b""
    if not data.startswith(b"\x7fELF") or len(note) < at + 20:
        return None
    return note[at:] in data


def loaded(system):
    """(whether the running modules are the running kernel's own, why not); None when nobody can tell."""
    code, out, dummy = system.run(["uname", "-r"], timeout=10)
    kernel = out.strip() if not code else ""
    running = [name for name in ("ib_core",) + USER_MODULES + DRIVERS if system.is_dir("/sys/module/%s" % name)]
    if "ib_core" not in running:
        return False, NOT_LOADED
    if not system.find("modinfo"):
        return None, "modinfo is not there"
    told = False
    for name in running:
        source = system.line("/sys/module/%s/srcversion" % name)
        of_kernel = ["-k", kernel] if kernel else []
        code, out, dummy = system.run(["modinfo"] + of_kernel + ["-F", "srcversion", name], timeout=30)
        known = not code and bool(out.strip()) and bool(source)
        if known and out.strip() != source:
            return False, "the running %s (srcversion %s) is not the one of kernel %s (%s)" % (name, source, kernel, out.strip())
        code, out, dummy = system.run(["modinfo"] + of_kernel + ["-n", name], timeout=30)
        if code or "builtin" in out:
            continue
        if not known:
            # Distributions such as Debian build most modules without a source version.
            known = same_build(system, name, out.strip())
            if known is False:
                return False, "the running %s is not the one of kernel %s: their build IDs differ" % (name, kernel)
        told = told or bool(known)
        if re.search(r"/(?:extra|updates|weak-updates|dkms)/", out):
            return False, "%s comes from %s, which is not the kernel's own" % (name, out.strip())
    return (True, "") if told else (None, "the modules tell neither a source version nor a build ID")


def state(system):
    """Installed and loaded together, in the form of ofed_state.state."""
    found = version(system)
    running, why = loaded(system) if found else (False, "rdma-core is not installed")
    return dict(installed="rdma-core %s" % found if found else "", version=found, provider="inbox" if found else "", loaded=running, loaded_reason=why)


def secure_boot(system):
    """Whether EFI Secure Boot is on in this VM; None where the firmware is no EFI."""
    path = system.path(SECURE_BOOT)
    try:
        with open(path, "rb") as handle:
            data = handle.read()
    except (IOError, OSError):
        return None
    return data[-1:] == b"\x01"
