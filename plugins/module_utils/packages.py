# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of a guest through its own package manager: rpm with dnf or yum, dpkg with apt."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError


def missing(system, names):
    """Those of names that are not installed, in their order."""
    if not names:
        return []
    if system.find("rpm"):
        code, out, err = system.run(["rpm", "-q"] + list(names), timeout=60)
        absent = set(re.findall(r"^package (\S+) is not installed", out + "\n" + err, re.M))
        if code and not absent:
            raise RdmaError("read the installed packages", system.name(), err or out, "see whether the rpm database is in order (rpm -qa)", code="RPM")
        return [name for name in names if name in absent]
    if system.find("dpkg-query"):
        dummy, out, err = system.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n"] + list(names), timeout=60)
        there = set(line.split()[0] for line in out.splitlines() if line.endswith(" installed"))
        return [name for name in names if name not in there]
    raise RdmaError("read the installed packages", system.name(), "neither rpm nor dpkg-query is there",
                    "install the prerequisites yourself and give prerequisites: []", code="RPM")


def version(system, name):
    """The version of an installed package with its release, without an epoch; empty when it is not there."""
    if system.find("rpm"):
        code, out, dummy = system.run(["rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}\\n", name], timeout=60)
        return out.split()[0] if not code and out.split() else ""
    if system.find("dpkg-query"):
        code, out, dummy = system.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}\\n", name], timeout=60)
        words = out.split()
        return words[1].split(":", 1)[-1] if not code and len(words) == 2 and words[0] == "installed" else ""
    return ""


def is_version(found, wanted):
    """Whether an installed version is the wanted one; a wanted version without a release takes every release of it."""
    if not wanted:
        return bool(found)
    return found == wanted or found.startswith(wanted + "-") or found.startswith(wanted + ".")


def of_file(system, path):
    """(name, version with its release, without an epoch) of a package that lies in a file."""
    if path.endswith(".rpm"):
        argv = ["rpm", "-qp", "--nosignature", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n", path]
    elif path.endswith(".deb"):
        argv = ["dpkg-deb", "-W", "--showformat", "${Package} ${Version}\\n", path]
    else:
        raise RdmaError("read the package %s" % path, system.name(), "its name ends neither in .rpm nor in .deb", "give the package of the guest's family",
                        code="PACKAGE_FILE")
    code, out, err = system.run(argv, timeout=60)
    words = out.split()
    if code or len(words) != 2:
        raise RdmaError("read the package %s" % path, system.name(), (err or out).strip() or "return code %d" % code, "copy the file again",
                        code="PACKAGE_FILE")
    return words[0], words[1].split(":", 1)[-1]


def install_file(system, path, timeout):
    """Install one package from a file, and have the package manager forget what it knew of repositories."""
    argv = ["rpm", "-U", "--oldpackage", path] if path.endswith(".rpm") else ["dpkg", "-i", path]
    code, out, err = system.run(argv, timeout=timeout)
    if code:
        raise RdmaError("install the package %s" % path, system.name(), (err or out).strip()[-400:], "see that it is the one of this distribution",
                        code="PACKAGE_FILE")
    program = next((program for program, dummy in MANAGERS if system.find(program)), "")
    if program:
        argv = {"apt-get": ["apt-get", "-q", "update"], "zypper": ["zypper", "--non-interactive", "refresh"]}.get(program, [program, "clean", "all"])
        system.run(argv, timeout=timeout)


def pinned(system, name, wanted):
    """How the package manager is asked for one version of a package."""
    program = next((program for program, dummy in MANAGERS if system.find(program)), "")
    if program == "apt-get":
        return "%s=%s" % (name, wanted if "-" in wanted else wanted + "-*")
    return "%s=%s" % (name, wanted) if program == "zypper" else "%s-%s" % (name, wanted)


MANAGERS = (
    ("dnf", ["dnf", "-y", "install"]),
    ("yum", ["yum", "-y", "install"]),
    ("zypper", ["zypper", "--non-interactive", "install", "--no-recommends"]),
    ("apt-get", ["apt-get", "-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "install"]),
)
# What apt says when its lists are older than the repository, or were never fetched.
STALE = re.compile(r"^E: (?:Unable to locate package|Package '.*' has no installation candidate|Unable to fetch|Failed to fetch)|404 +Not Found", re.M)


def install(system, names, timeout):
    """Install packages that are missing."""
    program, argv = next(((program, argv) for program, argv in MANAGERS if system.find(program)), ("", []))
    if not program:
        raise RdmaError("install %s" % ", ".join(names), system.name(), "none of dnf, yum, zypper and apt-get is there", "install them yourself",
                        code="PACKAGES")
    env = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l"} if program == "apt-get" else {}
    code, out, err = system.run(argv + list(names), timeout=timeout, env=env)
    if code and program == "apt-get" and STALE.search(err + "\n" + out):
        system.run(["apt-get", "-q", "update"], timeout=timeout, env=env)
        code, out, err = system.run(argv + list(names), timeout=timeout, env=env)
    if code:
        told = [line.strip() for line in (err + "\n" + out).splitlines()
                if re.match(r"^\s*(?:- )?(?:Error: *\S|E:|No match|Unable to find|nothing provides|No provider of|Problem:|package .* (?:conflicts|requires)|"
                            r"'.*' not found in package names)", line)]
        raise RdmaError("install %s" % ", ".join(names), system.name(), "; ".join(told[:4]) or (err or out)[-400:],
                        "see that the guest reaches a repository that has them", code="PACKAGES", data=dict(stdout=out[-4000:], stderr=err[-4000:]))
