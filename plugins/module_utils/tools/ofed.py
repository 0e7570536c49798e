# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MLNX_OFED and DOCA in the guest: which version is there, how an installation and a driver restart went."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import mlxfwmanager
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

HEAD = re.compile(r"^\s*([A-Za-z][A-Za-z_]*(?:-[A-Za-z][A-Za-z_]*)*)-(\d[\w.]*(?:-\d[\w.]*)*)(?:-[a-z][\w.]*-\w+)?\s*(?:\(([^)]+)\))?\s*:?\s*$")
PLAIN = re.compile(r"^\s*(\d+\.\d+(?:-\d+(?:\.\d+)+))\s*:?\s*$")
PACKAGE = re.compile(r"^\s*([\w.+-]+):\s*$")
ERROR = re.compile(r"^\s*(?:-E-|Error:|ERROR:|Fatal:)\s*(.*)$")
MISSING = re.compile(r"One or more required packages for installing (\S+) are missing", re.I)
COMMAND = re.compile(r"^\s*((?:yum|dnf|zypper|apt-get|apt|tdnf)\s+(?:-\S+\s+)*install\s+(?:-\S+\s+)*)(.*)$")
NO_KERNEL = re.compile(r"^\s*The (\S+) kernel is installed, (?:but )?(\S+) does not have drivers available for this kernel", re.I)
BUILD_FAILED = re.compile(r"^\s*Failed to (?:build|install)\b.*$", re.I)
PASSED = re.compile(r"Installation (?:passed|finished|completed) successfully", re.I)
INSTALLING = re.compile(r"^\s*(?:Installing|Setting up)\s+([\w.+:-]+?)(?:\s+\(([^)]*)\))?\s*\.{3}")
LOG = re.compile(r"^\s*(?:General log file|See log file|Logs dir|Log File)\s*:?\s+(\S+)", re.I)
BRACKET = re.compile(r"^\s*(\S.*?)\s*:?\s*\[\s*(OK|FAILED|WARNING|PASSED|SKIPPED|DONE)\s*\]\s*$", re.I)
LISTS = (("Configured IPoIB devices", "ipoib_configured"), ("Currently active IPoIB devices", "ipoib_active"),
         ("Configured Mellanox EN devices", "en_configured"), ("Currently active Mellanox devices", "active"),
         ("The following OFED modules are loaded", "modules"), ("Configured MLX4_EN devices", "en_configured"),
         ("Currently active MLX4_EN devices", "en_active"))


def parse(text):
    """ofed_info, ofed_info -s and ofed_info -n: provider, version and, of the full listing, the packages."""
    found = list(clean.lines("ofed_info", text))
    first = next((line for line in found if line.strip()), "")
    head, plain = HEAD.match(first), PLAIN.match(first)
    if plain:
        return {"name": "", "provider": "", "version": plain.group(1), "ofed": "", "packages": {}}
    if not head or not re.search(r"OFED|mlnx[-_]?en|DOCA", head.group(1), re.I):
        raise ParseError("ofed_info", "the first line is no OFED version", "\n".join(found))
    name = head.group(1)
    provider = "mlnx_ofed" if name.upper().startswith("MLNX_OFED") else "mlnx_en" if re.match(r"mlnx[-_]?en", name, re.I) else "doca"
    out = {"name": "%s-%s" % (name, head.group(2)), "provider": provider, "version": head.group(2), "ofed": head.group(3) or "", "packages": {}}
    package = ""
    for line in found[found.index(first) + 1:]:
        named = PACKAGE.match(line)
        if named:
            package = named.group(1)
            out["packages"][package] = []
        elif package and line.strip():
            out["packages"][package].append(line.strip())
    return out


def parse_install(text):
    """The log of mlnxofedinstall or install: passed, failed (with the cause) or running, and what it asks for."""
    found = clean.lines("mlnxofedinstall", text)
    whole = "\n".join(found)
    out = {"status": "running", "kind": "", "missing": [], "command": "", "kernel": "", "logs": [], "packages": [], "add_kernel_support": False}
    errors = [match.group(1).strip() for match in (ERROR.match(line) for line in found) if match]
    known = False
    for index, line in enumerate(found):
        command, kernel, log, package = COMMAND.match(line), NO_KERNEL.match(line), LOG.match(line), INSTALLING.match(line)
        if MISSING.search(line):
            out["kind"], known = "packages", True
        elif re.match(r"^\s*Attempting to install the following missing packages", line):
            out["missing"] = next((other.split() for other in found[index + 1:] if other.strip()), [])
        elif command:
            out["command"], out["missing"] = line.strip(), command.group(2).split()
        elif kernel:
            out["kind"], out["kernel"], known = "kernel", kernel.group(1), True
            errors.append(line.strip())
        elif log:
            out["logs"].append(log.group(1).rstrip("."))
        elif package:
            out["packages"].append(package.group(1))
        elif BUILD_FAILED.match(line):
            errors.append(line.strip())
            known = True
        known = known or bool(re.match(r"^\s*(?:Checking SW Requirements|Removing old packages|Uninstalling the previous version|Verifying KMP"
                                       r"|Installing new packages|"
                                       r"This program will install the|Note: This program will create|Preparing\.\.\.|Detected \S+ \S+\.|"
                                       r"(?:General log file|Logs dir): .*(?:MLNX_OFED|mlnx|OFED|DOCA)|Setting up mlnx"
                                       r"|Attempting to perform Firmware update)", line))
    out["add_kernel_support"] = "--add-kernel-support" in whole or "mlnx_add_kernel_support" in whole
    firmware = re.search(r"^[ \t]*Querying (?:Mellanox|NVIDIA) devices firmware", whole, re.M)
    if firmware:
        out["firmware"] = mlxfwmanager.parse(whole[firmware.start():])
    if PASSED.search(whole):
        out["status"] = "passed"
    elif errors:
        out["status"], out["error"] = "failed", "; ".join(errors)
    elif not known:
        raise ParseError("mlnxofedinstall", "no step, no error and no end of an installation in it", whole)
    restart = re.search(r"^\s*(/etc/init\.d/\S+\s+restart)\s*$", whole, re.M)
    if restart:
        out["restart"] = restart.group(1)
    return out


def parse_openibd(text):
    """openibd restart/start/stop (steps with OK or FAILED) and openibd status."""
    found = clean.lines("openibd", text)
    whole = "\n".join(found)
    out = {"steps": [], "ok": None, "messages": []}
    section = ""
    for line in found:
        step = BRACKET.match(line)
        head = next((key for title, key in LISTS if line.strip().startswith(title)), "")
        if step:
            out["steps"].append({"step": step.group(1).rstrip(": "), "ok": step.group(2).upper() not in ("FAILED",)})
        elif head:
            section = head
            out.setdefault("status", {}).setdefault(head, [])
        elif re.match(r"^\s*HCA driver (?:is )?(?:not )?loaded", line):
            out.setdefault("status", {})["loaded"] = "not" not in line
        elif re.match(r"^\s*Usage: \S*openibd", line):
            return {"steps": [], "ok": False, "messages": [], "actions": re.findall(r"[\w-]+(?=[|}])", line), "error": line.strip()}
        elif section and line.strip():
            out["status"][section].append(line.strip())
        elif line.strip():
            out["messages"].append(line.strip())
    failed = [step["step"] for step in out["steps"] if not step["ok"]]
    refused = [line for line in out["messages"] if re.search(r"opensm|in use|must stop|Please stop|rmmod: ERROR|unload .* fail", line, re.I)]
    if out["steps"]:
        out["ok"] = not failed
    if failed or (refused and not out["steps"]):
        out["ok"] = False
        out["error"] = "; ".join(failed + refused)
    elif not out["steps"] and "status" not in out:
        raise ParseError("openibd", "no step and no status in it", whole)
    return out
