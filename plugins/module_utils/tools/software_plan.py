# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VIBs: versions compared, wanted against running and next image, sources checked, refusals of esxcli explained."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

LEVELS = ("CommunitySupported", "PartnerSupported", "VMwareAccepted", "VMwareCertified")  # weakest first
WORDS = {"community": "CommunitySupported", "partner": "PartnerSupported", "accepted": "VMwareAccepted", "certified": "VMwareCertified"}
BLOCKING = ("mft", "nmst")  # later steps of the same run need them running, not only installed
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
PACKAGE_SPEC = dict(
    name=dict(type="str", required=True), version=dict(type="str"), at_least=dict(type="bool", default=True),
    source=dict(type="str"), checksum=dict(type="str"))
UPLOAD_SPEC = dict(PACKAGE_SPEC, local=dict(type="path"))  # a file of the controller that belongs at source


def version_key(version):
    """4.22.1.11-1OEM.703.0.0.18434556 as two lists that compare: the version proper, then the release.

    Numbers compare as numbers (4.9 < 4.22), words as words, a number above a word.
    """
    main, dummy, release = version.strip().partition("-")
    return [_parts(main), _parts(release)]


def _parts(text):
    return [(1, int(part), "") if part.isdigit() else (0, 0, part.lower()) for part in re.findall(r"\d+|[A-Za-z]+", text)]


def compare(have, want):
    """-1, 0 or 1. A wanted version without a release (4.18.1.14) says nothing about the release."""
    left, right = version_key(have), version_key(want)
    if "-" not in want:
        left, right = left[:1], right[:1]
    width = max(len(left[0]), len(right[0]))
    for side in (left, right):
        side[0] = side[0] + [(1, 0, "")] * (width - len(side[0]))
    return (left > right) - (left < right)


def fits(have, package):
    """Whether an installed version ("" for none) is what is wanted."""
    if not have:
        return False
    if not package.get("version"):
        return True
    order = compare(have, package["version"])
    return order == 0 or (package.get("at_least", True) and order > 0)


def wanted_text(package):
    if not package.get("version"):
        return "any version"
    return ("%s or later" if package.get("at_least", True) else "%s") % package["version"]


def check_packages(packages, where):
    for package in packages:
        if not NAME.match(package["name"]):
            raise RdmaError("handle VIB %r" % package["name"], where, "this is no name of a VIB", "write it as `esxcli software vib list` shows it",
                            code="BAD_NAME")
        source = package.get("source")
        if source and not source.startswith("/"):
            raise RdmaError("install %s" % package["name"], where, "the path %r is relative and esxcli would look for it under /var/log/vmware" % source,
                            "write the whole path, for example /vmfs/volumes/DATASTORE/rdma/%s" % source.split("/")[-1], code="RELATIVE_PATH")
        checksum = package.get("checksum")
        if checksum and not re.match(r"^sha256:[0-9a-fA-F]{64}$", checksum):
            raise RdmaError("check %s" % package["name"], where, "the checksum %r is not written as sha256: and 64 hex digits" % checksum,
                            "run sha256sum on the file you trust", code="BAD_CHECKSUM")
    names = [package["name"] for package in packages]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            raise RdmaError("handle VIB %s" % name, where, "it is in the list %d times" % names.count(name), code="BAD_NAME")


def plan(packages, running, following, where, state="present", allow_downgrade=False):
    """What is missing. running, following: name -> version of the running image and of the one after the next boot.

    Returns install (packages), remove (names), pending: [{name, running, next, blocking}] that only wait for a reboot.
    """
    out = {"install": [], "remove": [], "pending": []}
    for package in packages:
        name = package["name"]
        now, then = running.get(name, ""), following.get(name, "")
        if state == "absent":
            if then:
                out["remove"].append(name)
            elif now:
                out["pending"].append({"name": name, "running": now, "next": "", "blocking": False})
            continue
        if not fits(then, package):
            if then and compare(then, package["version"]) > 0 and not allow_downgrade:
                raise RdmaError("install %s %s" % (name, package["version"]), where, "%s is installed, which is newer" % then,
                                "accept it with at_least: true, or allow_downgrade: true", code="DOWNGRADE")
            out["install"].append(package)
        elif not fits(now, package):
            out["pending"].append({"name": name, "running": now, "next": then, "blocking": name in BLOCKING})
    return out


def sources(packages):
    """Package sources in order, each once: several VIBs may come from one bundle."""
    out = []
    for package in packages:
        if package["source"] not in out:
            out.append(package["source"])
    return out


def require_sources(packages, where, installed):
    """Every package that has to be installed needs a file; all that lack one are named at once."""
    missing = [package for package in packages if not package.get("source")]
    if missing:
        lacks = ", ".join("%s %s (now %s)" % (package["name"], wanted_text(package), installed.get(package["name"]) or "not installed") for package in missing)
        raise RdmaError("install software", where, "no source is given for " + lacks,
                        "put the file on a datastore of the host and give its whole path as source", code="NO_SOURCE")


def install_commands(packages, components=False):
    """esxcli arguments: every VIB file in one call (mft and nmst belong together), every bundle in one call of its own.

    components: a bundle goes in as its components, which is how ESXi 7 and later count it; a single VIB file is none.
    """
    bundles = [source for source in sources(packages) if source.lower().endswith(".zip")]
    vibs = [source for source in sources(packages) if source not in bundles]
    base = ["software", "vib", "install"]
    out = []
    if vibs:
        out.append(base + [word for source in vibs for word in ("-v", source)])
    each = ["software", "component", "apply"] if components else base
    return out + [each + ["-d", source] for source in bundles]


def foreign(running, following, packages):
    """What the next boot also brings or takes that nobody asked for here: an installation that was never booted into. name -> (runs, next)."""
    asked = set(package["name"] for package in packages)
    return dict((name, (running.get(name, ""), following.get(name, ""))) for name in sorted(set(running) | set(following))
                if name not in asked and running.get(name) != following.get(name))


def remove_command(names):
    return ["software", "vib", "remove"] + [word for name in names for word in ("-n", name)]


def stronger(level, than):
    """Whether an acceptance level is stricter than another; False for words that are no levels."""
    return level in LEVELS and than in LEVELS and LEVELS.index(level) > LEVELS.index(than)


def acceptance_error(what, where, vib, host, secure_boot):
    """The refusal of a VIB below the host's acceptance level, with what the ways out cost."""
    hint = "get the file signed by the vendor (%s or better); --force does not help, " % host
    if secure_boot:
        hint += "and lowering the host's level would keep this host, which boots with UEFI Secure Boot, from booting with the VIB"
    else:
        hint += "and lowering the host's level makes a later UEFI Secure Boot impossible"
    return RdmaError(what, where, "the VIB is %s, the host accepts %s and better" % (vib, host), hint, code="ACCEPTANCE")


def explain(error, what, where, host_level, secure_boot):
    """esxcli's refusal as an error with a way out. error: esxcli.error()."""
    text, tag = error.get("error", ""), error.get("tag", "")
    level = re.search(r"acceptance level is (\w+), which is not compliant", text)
    if level or tag == "AcceptanceConfigError":
        vib = WORDS.get(level.group(1).lower(), level.group(1)) if level else "below the host's acceptance level"
        return acceptance_error(what, where, vib, host_level or "the level it is set to", secure_boot)
    hints = (
        (r"MemoryError|Got no data from process|No space left",
         "the host has too little memory or room for the installer: free some (/tmp is a RAM disk), then run again"),
        (r"stageliveimage", "a known fault of ESXi 8.0U2 hosts: reboot the host, then run again"),
        (r"maintenance mode|MaintenanceMode", "this VIB needs maintenance mode: move the VMs away, enter it, then run again"),
        (r"Could not find (?:a )?trusted signer|signature|gunzip checksum|VibValidationError", "get a signed file for this ESXi release from the vendor"),
        (r"Expected 1 component, found 2|ComponentConfig|ValueError", "give the offline bundle (.zip) instead of the single VIB"),
        (r"DependencyError|requires|conflict", "install what it requires in the same call, or the file made for this ESXi release"),
        (r"VibDownloadError|MetadataDownloadError|No such file|does not exist", "see whether the path is right and the datastore is mounted"),
        (r"LockingError|in use by another|already running", "another installation runs on this host: wait for it, then run again"),
    )
    hint = next((hint for pattern, hint in hints if re.search(pattern, "%s %s" % (tag, text))), "see /var/log/esxupdate.log on the host")
    return RdmaError(what, where, "esxcli: %s%s" % ("[%s] " % tag if tag else "", text or "no output"), hint, code="VIB", data={"esxcli": error})
