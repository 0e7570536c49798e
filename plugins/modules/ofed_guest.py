#!/usr/bin/python
# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: ofed_guest
short_description: Install RDMA's drivers and tools in a guest and load them
version_added: "0.1.0"
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Compares the version that C(ofed_info -s) tells with the wanted one, installs the prerequisites and the driver where they
    differ, and loads the new modules by restarting C(openibd) or by asking for a reboot.
  - Installed is not loaded. The modules that run are compared with those that are installed, so a driver that still waits for
    its restart is noticed on every run.
  - The firmware of the card is never burned from a guest unless O(firmware_update) says so. It belongs to the host.
  - Where EFI Secure Boot is on in the VM, modules without a signature are refused before the running driver is unloaded.
  - Sets the limit of locked memory that RDMA programs need.
extends_documentation_fragment:
  - vhpc.rdma.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  provider:
    description:
      - Where RDMA comes from. V(mlnx_ofed) is the tarball with C(mlnxofedinstall).
      - V(inbox) is the distribution, its kernel's own modules with C(rdma-core) and C(perftest) from its repositories.
      - V(doca) is the vendor's repository with the package C(doca-ofed), the successor of the tarball.
    type: str
    choices: [mlnx_ofed, inbox, doca]
    default: mlnx_ofed
  version:
    description:
      - The exact version, such as V(5.4-3.0.3.0). Needed for O(provider=mlnx_ofed) and O(provider=doca).
      - With O(provider=doca) the version of the package C(doca-ofed); one without a release takes every release of it.
      - With O(provider=inbox) the version of C(rdma-core) that must be there; when left out, the one of the distribution is as good as any.
    type: str
  packages:
    description:
      - The packages of O(provider=inbox).
      - When left out, those of the guest's family of distributions (Debian and Ubuntu, RHEL and its kin, SLES and openSUSE).
    type: list
    elements: str
  source:
    description:
      - The tarball, or the directory it was unpacked to, as an absolute path on the guest.
      - Needed only where the version has to be installed.
      - With O(provider=doca) the C(doca-host) package (rpm or deb) that brings the repository. Left out where the guest has the repository already.
    type: str
  checksum:
    description: What the tarball or the package of O(source) must be, as V(sha256:...).
    type: str
  prerequisites:
    description:
      - Packages that must be there before. Only missing ones are installed.
      - V({kernel}) in a name becomes the running kernel's release, so that no newer kernel comes along.
    type: list
    elements: str
    default: []
  installer_arguments:
    description: More arguments for the installer, such as V(--add-kernel-support).
    type: list
    elements: str
    default: []
  firmware_update:
    description: Whether the installer may burn the firmware of the cards that it sees.
    type: bool
    default: false
  reload:
    description:
      - How new modules become the running ones.
      - With O(provider=inbox) only what user space still misses is loaded, and only V(none) prevents that.
      - V(openibd) restarts C(/etc/init.d/openibd), and never by force.
      - Where the way to the guest, its root disk or another mounted file system stands on that driver, V(openibd) becomes V(reboot).
      - V(reboot) reports that the guest must be rebooted.
      - V(none) leaves the running modules alone.
    type: str
    choices: [openibd, reboot, none]
    default: openibd
  memlock:
    description:
      - Limit of locked memory for all users, for root, and, where systemd runs, for services (C(DefaultLimitMEMLOCK)).
      - V(unlimited) or a number of KiB. Empty leaves the limits alone.
    type: str
    default: unlimited
  memlock_file:
    description: File in C(/etc/security/limits.d) that holds the limit.
    type: str
    default: 90-vhpc-rdma.conf
  firewall:
    description:
      - Opens the TCP ports that the guests' measurements need in the firewall of the guest (firewalld, ufw or nftables, whichever filters), now and
        after a reboot, or closes them again.
      - Where nothing filters there is nothing to do. Leave it out to leave the firewall alone.
    type: dict
    suboptions:
      state:
        description: Whether the ports are open.
        type: str
        choices: [open, closed]
        default: open
      ports:
        description: Ports and ranges, C(port) and C(control_port) of M(vhpc.rdma.perftest).
        type: list
        elements: str
        default: [18514-18515]
      zone:
        description: Zone of firewalld, its default zone when left out.
        type: str
  timeout:
    description: Seconds that the installation may take.
    type: int
    default: 2700
  root:
    description:
      - Directory that holds the system to work on. V(/) is the guest itself.
      - With another directory nothing outside of it is read, run or changed.
    type: str
    default: /
notes:
  - The limit in C(limits.d) counts for sessions, and that of systemd for services, that start after it was written. A unit that has a
    C(LimitMEMLOCK) of its own keeps that.
  - A kernel for which the vendor's driver was not built is noticed on every run. MLNX_OFED is then installed again only if
    O(installer_arguments) has C(--add-kernel-support); with O(provider=doca) DKMS builds the modules, where it is installed.
"""

EXAMPLES = r"""
- name: The paper's OFED, loaded at once
  vhpc.rdma.ofed_guest:
    version: 5.4-3.0.3.0
    source: /root/MLNX_OFED_LINUX-5.4-3.0.3.0-rhel8.1-x86_64.tgz
    prerequisites: ["kernel-modules-extra-{kernel}", tk]

- name: What the distribution has
  vhpc.rdma.ofed_guest:
    provider: inbox

- name: The vendor's repository, from the package that brings it
  vhpc.rdma.ofed_guest:
    provider: doca
    version: 3.2.1
    source: /root/doca-host.rpm
    reload: reboot

- name: The distribution's RDMA, and perftest let through the guest's firewall
  vhpc.rdma.ofed_guest:
    provider: inbox
    firewall:
      state: open
      ports: [18514-18515]

- name: Install now, reboot later
  vhpc.rdma.ofed_guest:
    version: 5.4-3.0.3.0
    source: /mnt/software/MLNX_OFED_LINUX-5.4-3.0.3.0-rhel8.1-x86_64.tgz
    reload: reboot
  register: ofed
"""

RETURN = r"""
changes:
  description: The steps that were, or in check mode would be, taken.
  returned: success
  type: list
  elements: dict
ofed:
  description: The OFED of the guest after the run.
  returned: success
  type: dict
  contains:
    installed:
      description: Name of what is installed, empty when nothing is.
      type: str
    version:
      description: Its version.
      type: str
    loaded:
      description: Whether its modules are the ones that run; V(null) when the guest does not tell.
      type: bool
    loaded_reason:
      description: Why they are not.
      type: str
    wanted:
      description: The version that was asked for.
      type: str
  sample:
    installed: MLNX_OFED_LINUX-5.4-3.0.3.0
    version: 5.4-3.0.3.0
    loaded: true
    wanted: 5.4-3.0.3.0
firewall:
  description: The guest's firewall, where O(firewall) asked for it.
  returned: when O(firewall) is given
  type: dict
  contains:
    kind:
      description: V(firewalld), V(ufw), V(nftables), or V(none) where nothing filters.
      type: str
    ports:
      description: The ports and ranges.
      type: list
      elements: str
  sample: {kind: firewalld, ports: [18514-18515]}
reboot_required:
  description: Whether the guest must be rebooted before its modules are the installed ones.
  returned: success
  type: bool
reboot_reasons:
  description: Why.
  returned: success
  type: list
  elements: str
"""

import hashlib
import os
import tarfile

from ansible_collections.vhpc.rdma.plugins.module_utils import guest as wrapper
from ansible_collections.vhpc.rdma.plugins.module_utils import doca, firewall, inbox, ofed_state, packages, uses
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import ofed as tool

SPEC = dict(
    provider=dict(type="str", choices=["mlnx_ofed", "inbox", "doca"], default="mlnx_ofed"),
    version=dict(type="str"),
    packages=dict(type="list", elements="str"),
    source=dict(type="str"),
    checksum=dict(type="str"),
    prerequisites=dict(type="list", elements="str", default=[]),
    installer_arguments=dict(type="list", elements="str", default=[]),
    firmware_update=dict(type="bool", default=False),
    reload=dict(type="str", choices=["openibd", "reboot", "none"], default="openibd"),
    memlock=dict(type="str", default="unlimited"),
    memlock_file=dict(type="str", default="90-vhpc-rdma.conf"),
    firewall=dict(type="dict", options=dict(
        state=dict(type="str", choices=["open", "closed"], default="open"), ports=dict(type="list", elements="str", default=["18514-18515"]),
        zone=dict(type="str"))),
    timeout=dict(type="int", default=2700),
)
SIGNED = ("use a release with signed modules for this kernel, enrol the key that signs them (mokutil --import, then a reboot with the VM's console), "
          "or switch Secure Boot off in the VM's options")
OPENIBD = "/etc/init.d/openibd"
UNPACKED = "/var/tmp/vhpc_rdma/ofed"
LIMITS = "# Written by vhpc.rdma: RDMA programs lock the memory that the card reads and writes.\n* soft memlock %s\n* hard memlock %s\n" \
         "# The lines for everybody are not for root.\nroot soft memlock %s\nroot hard memlock %s\n"
SYSTEMD = "# Written by vhpc.rdma: services lock memory for RDMA too.\n[Manager]\nDefaultLimitMEMLOCK=%s\n"


def with_kernel(guest, names):
    """The names with {kernel} filled in."""
    if not any("{kernel}" in name for name in names):
        return list(names)
    code, out, err = guest.system.run(["uname", "-r"], timeout=10)
    if code or not out.strip():
        raise RdmaError("read the running kernel", guest.host, err, "name the packages without {kernel}", code="KERNEL")
    return [name.replace("{kernel}", out.strip()) for name in names]


def plan_limits(guest, changes):
    """Which limits of locked memory have to be written: some of "limits" and "systemd"."""
    wanted, out = guest.params["memlock"], []
    if wanted and wanted != "unlimited" and not wanted.isdigit():
        raise RdmaError("set memlock to %s" % wanted, guest.host, "it is neither unlimited nor a number of KiB", "take unlimited", code="MEMLOCK")
    if not wanted:
        return out
    limits, roots = (ofed_state.read_memlock(guest.system, who) for who in ("*", "root"))
    both = dict(soft=wanted, hard=wanted)
    if limits != both:
        changes.add("limits", "memlock", limits["soft"] or "system's default", wanted, reason="RDMA programs lock memory")
    elif roots != both:
        changes.add("limits", "memlock of root", roots["soft"] or "system's default", wanted, reason="the lines for everybody are not for root")
    if limits != both or roots != both:
        out.append("limits")
    services = ofed_state.read_systemd_memlock(guest.system)
    if services is not None and services != ofed_state.systemd_memlock(wanted):
        changes.add("limits", "memlock of services", services or "system's default", ofed_state.systemd_memlock(wanted),
                    reason="limits.d is for sessions; what systemd starts has a limit of its own")
        out.append("systemd")
    return out


def plan_inbox(guest, changes):
    """What is, and the steps to the distribution's own RDMA."""
    params, system = guest.params, guest.system
    other = ofed_state.installed(system)
    if other["name"]:
        raise RdmaError("use the distribution's RDMA", guest.host, "%s is installed, whose packages replace the distribution's" % other["name"],
                        "remove it first (ofed_uninstall.sh), or ask for provider: %s" % (other["provider"] or "mlnx_ofed"), code="OTHER_OFED")
    found = inbox.state(system)
    names = params["packages"] if params["packages"] is not None else inbox.packages(system)
    view = dict(found=found, install=False, rebuild=False, reload=False, limits=plan_limits(guest, changes), modules=[], at_boot=False)
    view["packages"] = packages.missing(system, with_kernel(guest, params["prerequisites"] + names))
    for name in view["packages"]:
        changes.add("packages", name, "absent", "present", reason="RDMA of the distribution")
    if found["version"] and not inbox.is_version(found["version"], params["version"]):
        raise RdmaError("have rdma-core %s" % params["version"], guest.host, "%s is installed" % found["version"],
                        "leave version out, or give the guest the repository of the release that has it", code="VERSION")
    if params["reload"] != "none":
        view["modules"] = inbox.missing_modules(system)
        for name in view["modules"]:
            changes.add("modules", name, "not loaded", "loaded", reason="programs reach the devices through it")
        view["at_boot"] = system.read(inbox.AT_BOOT, "") != inbox.AT_BOOT_TEXT
        if view["at_boot"]:
            changes.add("modules", "loaded at boot", "not all", ", ".join(inbox.USER_MODULES),
                        reason="the distribution loads some of them for InfiniBand alone")
    if found["version"] and found["loaded"] is False and found["loaded_reason"] != inbox.NOT_LOADED:
        changes.wait_for_reboot("the modules of another kernel or release are loaded: %s" % found["loaded_reason"], "guest")
    return view


def source_is_there(guest, found):
    """Refuse an installation that has nothing to install from."""
    params = guest.params
    if not params["source"]:
        raise RdmaError("install OFED %s" % params["version"], guest.host, "%s is there and no source is given" % (found["installed"] or "no OFED"),
                        "give source, the tarball's path on the guest", code="NO_SOURCE")
    if not guest.system.exists(params["source"]):
        raise RdmaError("install OFED %s" % params["version"], guest.host, "there is no %s on the guest" % params["source"],
                        "copy the tarball to the guest or mount the file system that has it", code="NO_SOURCE")


def plan_reload(guest, changes, view):
    """How the installed modules become the running ones."""
    params, found = guest.params, view["found"]
    replaced = view["install"] or view["rebuild"]
    # Without modules of its own there is nothing to load.
    if not replaced and found["loaded"] is not False or params["reload"] == "none" or "--user-space-only" in params["installer_arguments"]:
        return
    if not replaced:
        refuse_unsigned(guest)
    standing = uses.of_driver(guest.system) if params["reload"] == "openibd" else []
    if params["reload"] == "openibd" and not standing:
        view["reload"] = True
        changes.add("OFED", "running modules", "those of %s" % (found["version"] or "the distribution") if replaced else found["loaded_reason"],
                    "those of %s" % params["version"], reason="restart of openibd")
        return
    why = "a restart of openibd would cut what stands on the driver: %s" % "; ".join(standing) if standing else ""
    if replaced:
        changes.add("OFED", "running modules", "those of %s" % (found["version"] or "the distribution"), "those of %s" % params["version"], reboot="guest",
                    reason=why)
    else:
        changes.wait_for_reboot("OFED %s is installed and not loaded: %s%s" % (params["version"], found["loaded_reason"], why and " (%s)" % why), "guest")


def plan_drift(guest, view):
    """Why the modules of the running kernel have to be built; empty when they are there."""
    if view["install"] or not view["found"]["version"] or guest.params["reload"] == "none" or "--user-space-only" in guest.params["installer_arguments"]:
        return ""
    return ofed_state.drift(guest.system)


def plan_doca(guest, changes):
    """What is, and the steps to the vendor's repository and its doca-ofed."""
    params, system = guest.params, guest.system
    other = ofed_state.installed(system)
    if other["provider"] not in ("", "doca"):
        raise RdmaError("use DOCA", guest.host, "%s is installed, whose files those of DOCA would meet" % other["name"],
                        "remove it first (ofed_uninstall.sh), or ask for provider: mlnx_ofed", code="OTHER_OFED")
    found = doca.state(system)
    view = dict(found=found, install=not (found["version"] and packages.is_version(found["version"], params["version"])), rebuild=False, reload=False,
                modules=[], repository="")
    view["limits"] = plan_limits(guest, changes)
    view["packages"] = packages.missing(system, with_kernel(guest, params["prerequisites"]))
    for name in view["packages"]:
        changes.add("packages", name, "absent", "present", reason="prerequisite of DOCA")
    if view["install"]:
        if params["source"]:
            source_is_there(guest, found)
            name, wanted = packages.of_file(system, params["source"])
            there = packages.version(system, name)
            if there != wanted:
                view["repository"] = name
                changes.add("repository", name, there or "absent", wanted, reason="brings the repository of DOCA")
        changes.add("OFED", doca.PACKAGE, found["version"] or "absent", params["version"])
    drift = plan_drift(guest, view)
    if drift:
        view["rebuild"] = doca.unbuilt(system, "") is not None
        if not view["rebuild"]:
            raise RdmaError("use DOCA %s" % found["version"], guest.host, drift,
                            "install the modules' packages for this kernel (doca-kernel-support builds them), or boot "
                            "the kernel that they were built for", code="KERNEL_DRIFT")
        changes.add("OFED", "kernel modules", "none for kernel %s" % ofed_state.kernel(system), "built by DKMS", reason=drift)
    plan_reload(guest, changes, view)
    return view


def plan(guest, changes):
    """What is, and the steps to what is wanted."""
    params, system = guest.params, guest.system
    if params["provider"] != "mlnx_ofed":
        return (plan_inbox if params["provider"] == "inbox" else plan_doca)(guest, changes)
    found = ofed_state.state(system)
    if found["provider"] == "doca":
        raise RdmaError("use MLNX_OFED", guest.host, "%s is installed, which came as packages of DOCA" % found["installed"],
                        "remove it first with the package manager, or ask for provider: doca", code="OTHER_OFED")
    view = dict(found=found, install=not ofed_state.is_version(found["installed"], params["version"]), rebuild=False, packages=[], reload=False, modules=[])
    view["limits"] = plan_limits(guest, changes)
    view["packages"] = packages.missing(system, with_kernel(guest, params["prerequisites"]))
    for name in view["packages"]:
        changes.add("packages", name, "absent", "present", reason="prerequisite of the installer")
    drift = plan_drift(guest, view)
    if drift and "--add-kernel-support" not in params["installer_arguments"]:
        raise RdmaError("use OFED %s" % found["version"], guest.host, drift,
                        "give --add-kernel-support in installer_arguments and the source, so that they are built "
                        "for this kernel, or boot the kernel that the release was built for", code="KERNEL_DRIFT")
    if view["install"] or drift:
        source_is_there(guest, found)
        if "--add-kernel-support" in params["installer_arguments"] and inbox.secure_boot(system):
            raise RdmaError("install OFED %s" % params["version"], guest.host,
                            "EFI Secure Boot is on in this VM, and modules that are built here (--add-kernel-support) are signed by nobody", SIGNED,
                            code="SECURE_BOOT")
        if drift:
            changes.add("OFED", "kernel modules", "none for kernel %s" % ofed_state.kernel(system), "built by the installer", reason=drift)
        else:
            changes.add("OFED", "version", found["version"] or "none", params["version"])
        view["install"] = True
    plan_reload(guest, changes, view)
    return view


def unpack(guest):
    """The directory with the installer, and whether it is ours to remove."""
    system, source = guest.system, guest.params["source"]
    if system.is_dir(source):
        return source, False
    path = system.path(source)
    if guest.params["checksum"]:
        check(guest, path)
    system.remove_tree(UNPACKED)
    system.makedirs(UNPACKED, 0o700)
    target = system.path(UNPACKED)
    try:
        with tarfile.open(path) as archive:
            archive.extraction_filter = getattr(tarfile, "tar_filter", lambda member, dummy: member)
            for member in archive.getmembers():
                place = os.path.normpath(member.name)
                base = os.path.dirname(member.name) if member.issym() else ""
                link = os.path.normpath(os.path.join(base, member.linkname or "."))
                if place.startswith(("/", "..")) or link.startswith(("/", "..")) or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                    raise RdmaError("unpack %s" % source, guest.host, "%s in it lies or points outside" % member.name,
                                    "use the vendor's own tarball", code="TARBALL")
            archive.extractall(target)
    except (tarfile.TarError, IOError, OSError, EOFError) as err:
        raise RdmaError("unpack %s" % source, guest.host, str(err), "check the file's checksum and the room in /var/tmp", code="TARBALL")
    for name in [UNPACKED] + ["%s/%s" % (UNPACKED, entry) for entry in system.listdir(UNPACKED)]:
        if system.exists(name + "/mlnxofedinstall"):
            return name, True
    raise RdmaError("install OFED from %s" % source, guest.host, "there is no mlnxofedinstall in it",
                    "give the MLNX_OFED_LINUX tarball of the distribution", code="TARBALL")


def check(guest, path):
    """Compare the tarball with the wanted checksum."""
    kind, dummy, wanted = guest.params["checksum"].partition(":")
    if kind != "sha256" or len(wanted) != 64:
        raise RdmaError("check %s" % guest.params["source"], guest.host, "the checksum is not of the form sha256:64 digits", code="CHECKSUM")
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    if digest.hexdigest() != wanted.lower():
        raise RdmaError("install %s" % guest.params["source"], guest.host, "its sha256 is %s and not %s" % (digest.hexdigest(), wanted),
                        "copy the file again, or correct the checksum", code="CHECKSUM")


def install(guest):
    """Run the installer of the release."""
    system, params = guest.system, guest.params
    folder, ours = unpack(guest)
    release = system.line(folder + "/.mlnx")
    if release and not ofed_state.is_version(release, params["version"]):
        raise RdmaError("install OFED %s" % params["version"], guest.host, "%s holds %s" % (params["source"], release),
                        "give the tarball of the wanted version", code="TARBALL")
    argv = [folder + "/mlnxofedinstall", "--force"] + ([] if params["firmware_update"] else ["--without-fw-update"]) + params["installer_arguments"]
    code, out, err = system.run(argv, timeout=params["timeout"], cwd=folder)
    if code:
        why, hint = ofed_state.installer_failure(code, out + "\n" + err)
        raise RdmaError("install OFED %s" % params["version"], guest.host, why, hint, code="INSTALLER",
                        data=dict(rc=code, stdout=out[-8000:], stderr=err[-4000:]))
    if ours:
        system.remove_tree(UNPACKED)


def refuse_unsigned(guest):
    """With Secure Boot on the kernel takes no module without a signature: better known before the running driver is unloaded."""
    if not inbox.secure_boot(guest.system) or not guest.system.find("modinfo"):
        return
    code, out, dummy = guest.system.run(["modinfo", "-F", "signer", "mlx5_core"], timeout=30)
    if not code and not out.strip():
        raise RdmaError("load OFED %s" % guest.params["version"], guest.host, "EFI Secure Boot is on in this VM and the installed mlx5_core has no signature",
                        SIGNED, code="SECURE_BOOT")


def restart(guest):
    """Restart openibd and believe its words rather than its return code alone."""
    code, out, err = guest.system.run([OPENIBD, "restart"], timeout=300)
    try:
        told = tool.parse_openibd(out + "\n" + err)
    except ParseError:
        told = dict(ok=None)
    if code or told["ok"] is False:
        raise RdmaError("restart openibd", guest.host, told.get("error") or (err or out).strip() or "return code %d" % code,
                        "stop what uses the devices (opensm, MPI jobs, mounts), or use reload: reboot", code="OPENIBD",
                        data=dict(rc=code, stdout=out, stderr=err))


def apply_doca(guest, view):
    """The repository, the package at its version, and the modules of the running kernel."""
    params, system = guest.params, guest.system
    if view["repository"]:
        if params["checksum"]:
            check(guest, system.path(params["source"]))
        packages.install_file(system, params["source"], params["timeout"])
    if view["install"]:
        packages.install(system, [packages.pinned(system, doca.PACKAGE, params["version"])], params["timeout"])
    release = ofed_state.kernel(system)
    # DKMS knows modules of others too: only where the kernel would not take DOCA's is there something to build.
    if view["rebuild"] or view["install"] and ofed_state.drift(system) and doca.unbuilt(system, release):
        code, out, err = system.run(["dkms", "autoinstall", "-k", release], timeout=params["timeout"])
        missing = doca.unbuilt(system, release)
        if (code or missing) and ofed_state.drift(system):
            raise RdmaError("build the modules of DOCA for kernel %s" % release, guest.host,
                            "DKMS has not installed %s" % ", ".join(missing) if missing else (err or out).strip()[-400:],
                            "install the headers of that kernel, and read the make.log that DKMS names", code="DKMS",
                            data=dict(stdout=out[-4000:], stderr=err[-4000:]))


def apply(guest, view):
    params, system = guest.params, guest.system
    if "limits" in view["limits"]:
        system.write("%s/%s" % (ofed_state.LIMITS_DIR, params["memlock_file"]), LIMITS % ((params["memlock"],) * 4), mode=0o644)
    if "systemd" in view["limits"]:
        system.write(ofed_state.SYSTEMD_LIMITS, SYSTEMD % ofed_state.systemd_memlock(params["memlock"]), mode=0o644)
        system.run(["systemctl", "daemon-reexec"], timeout=120)
    if view["packages"]:
        packages.install(system, view["packages"], params["timeout"])
    if params["provider"] == "doca":
        apply_doca(guest, view)
    elif view["install"]:
        install(guest)
    if params["provider"] != "inbox" and params["reload"] != "none" and (view["reload"] or view["install"] or view["rebuild"]):
        refuse_unsigned(guest)
    if view["reload"]:
        restart(guest)
    if view.get("at_boot"):
        system.write(inbox.AT_BOOT, inbox.AT_BOOT_TEXT, mode=0o644)
    for name in view["modules"]:
        code, out, err = system.run(["modprobe", name], timeout=120)
        if code:
            raise RdmaError("load the module %s" % name, guest.host, (err or out).strip(),
                            "see whether the running kernel (uname -r) still has its modules in /lib/modules, and reboot the guest if not", code="MODPROBE")


def read_back(guest, view):
    """Fail when the guest does not hold what was asked."""
    params = guest.params
    wanted = params["memlock"]
    if wanted and any(ofed_state.read_memlock(guest.system, who) != dict(soft=wanted, hard=wanted) for who in ("*", "root")):
        raise RdmaError("set memlock to %s" % wanted, guest.host, "another file in %s, read later, says otherwise" % ofed_state.LIMITS_DIR,
                        "remove that line, or choose a memlock_file that sorts after it", code="READ_BACK")
    if wanted and ofed_state.read_systemd_memlock(guest.system) not in (None, ofed_state.systemd_memlock(wanted)):
        raise RdmaError("set the services' memlock to %s" % wanted, guest.host, "another file in %s.d, read later, says otherwise" % ofed_state.SYSTEMD,
                        "remove that line", code="READ_BACK")
    if view["packages"] and packages.missing(guest.system, view["packages"]):
        raise RdmaError("install %s" % ", ".join(view["packages"]), guest.host, "they are still missing afterwards", code="READ_BACK")
    if params["provider"] == "inbox":
        return read_back_inbox(guest)
    if params["provider"] == "doca":
        found = doca.state(guest.system)
        if not found["version"] or not packages.is_version(found["version"], params["version"]):
            raise RdmaError("install %s %s" % (doca.PACKAGE, params["version"]), guest.host, "it is %s afterwards" % (found["version"] or "absent"),
                            "see which versions the repository has", code="READ_BACK")
    else:
        found = ofed_state.state(guest.system)
        if not ofed_state.is_version(found["installed"], params["version"]):
            raise RdmaError("install OFED %s" % params["version"], guest.host, "ofed_info -s tells %s afterwards" % (found["installed"] or "nothing"),
                            "read the installer's log", code="READ_BACK")
    if found["loaded"] is False and view["reload"]:
        raise RdmaError("load OFED %s" % params["version"], guest.host, found["loaded_reason"],
                        "see whether modprobe takes the distribution's modules (modinfo -n mlx5_core), rebuild the initramfs, or use reload: reboot",
                        code="READ_BACK")
    return found


def read_back_inbox(guest):
    found = inbox.state(guest.system)
    if not inbox.is_version(found["version"], guest.params["version"]):
        raise RdmaError("have rdma-core %s" % (guest.params["version"] or "installed"), guest.host, "it is %s afterwards" % (found["version"] or "absent"),
                        "leave version out, or give the guest the repository of the release that has it", code="READ_BACK")
    missing = inbox.missing_modules(guest.system) if guest.params["reload"] != "none" else []
    if missing:
        raise RdmaError("load the modules of RDMA", guest.host, "%s still not loaded" % ", ".join(missing), "see dmesg", code="READ_BACK")
    return found


def plan_firewall(guest, changes):
    """The firewall that filters and the ports that have to be changed; None where nobody asked."""
    options = guest.params.get("firewall")
    if not options:
        return None
    pairs, opened = firewall.ranges(options["ports"], guest.host), options["state"] == "open"
    which = firewall.kind(guest.system)
    view = dict(kind=which, pairs=pairs, opened=opened, todo=[], zone=options["zone"])
    if which:
        view["todo"] = firewall.steps(changes, which, firewall.read(guest.system, which, pairs, options["zone"]), opened)
        if which == "nftables" and view["todo"] and opened:
            firewall.nft_place(guest.system)
    return view


def apply_firewall(guest, view):
    system, pairs = guest.system, view["pairs"] if view["kind"] == "nftables" else view["todo"]
    firewall.change(system, view["kind"], pairs, view["zone"], view["opened"])
    if not view["opened"]:
        return
    left = [pair for pair, state in firewall.read(system, view["kind"], view["pairs"], view["zone"]).items() if state != (True, True)]
    if left:
        raise RdmaError("open TCP %s" % ", ".join(firewall.name(pair) for pair in left), guest.host, "%s does not show it as open afterwards" % view["kind"],
                        "see what else writes the firewall's rules", code="FIREWALL")


def work(guest):
    changes = Changes("guest")
    walls = plan_firewall(guest, changes)
    view = plan(guest, changes)
    found, more = view["found"], {}
    if not guest.check_mode:
        if changes.changed:
            apply(guest, view)
        found = read_back(guest, view)
        if walls and walls["todo"]:
            apply_firewall(guest, walls)
    if walls:
        more["firewall"] = dict(kind=walls["kind"] or "none", ports=[firewall.name(pair) for pair in walls["pairs"]])
    return changes.result(ofed=dict(found, wanted=guest.params["version"] or ""), **more)


def main():
    wrapper.run(SPEC, work, required_if=[("provider", "mlnx_ofed", ["version"]), ("provider", "doca", ["version"])])


if __name__ == "__main__":
    main()
