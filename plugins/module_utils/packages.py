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
                if re.match(r"^\s*(?:Error|E:|No match|Unable to find|nothing provides|No provider of|Problem:|'.*' not found in package names)", line)]
        raise RdmaError("install %s" % ", ".join(names), system.name(), "; ".join(told[:4]) or (err or out)[-400:],
                        "see that the guest reaches a repository that has them", code="PACKAGES", data=dict(stdout=out[-4000:], stderr=err[-4000:]))
