# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A reboot of a host: when it may happen, and how to tell that it has."""

from __future__ import annotations

import datetime
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.tools import driver_options, software_plan

# A boot time is computed from the host's clock and moves by seconds; without having seen the host away, only a larger step is a boot.
CLOCK_SLACK = 60


def rebooted(before: datetime.datetime | None, now: datetime.datetime | None, seen_down: bool) -> bool:
    """Whether the host has booted since `before`."""
    if now is None:
        return False
    if before is None:
        return seen_down
    later = (now - before).total_seconds()
    return later > (0.5 if seen_down else CLOCK_SLACK)


def blocking(vms: list[dict]) -> list[str]:
    """Names of the VMs that run. vms: [{name, power}] without the cluster services' own."""
    return sorted(vm["name"] for vm in vms if vm["power"] != "poweredOff")


def overdue(elapsed: float, seen_down: bool, state: str, booted: bool) -> tuple[str, str]:
    """(what is known, what to look at) when the time is over."""
    if not seen_down:
        return "after %d s the host is still up as before" % elapsed, "see whether the reboot task reached it, and its console"
    if not booted:
        return "it went down and after %d s is not back (vCenter shows it as %s)" % (elapsed, state), \
            "see its console or BMC (stuck in POST, boot device, hardware error); run again once it is up"
    return "it has booted, but after %d s vCenter shows it as %s" % (elapsed, state), \
        "see the management network and the host agents; reconnect the host in vCenter"


EVACUATION = {"ensure_accessibility": "ensureObjectAccessibility", "full": "evacuateAllData", "none": "noAction"}


def unmet(steps: list[dict], vibs: dict[str, str], options: dict[str, str], active: dict[str, bool]) -> list[str]:
    """Which of the steps that waited for the reboot do not hold after it.

    steps: as every module returns them in changes; vibs: name -> version; options: module -> its option string; active: address -> passthrough is active.
    Steps about cards are none of these: their own module proves them.
    """
    out = []
    for step in steps:
        kind, _blank, name = str(step.get("thing", "")).partition(" ")
        if step.get("reboot") != "host" or step.get("certainty", "sure") != "sure":
            continue
        if kind == "VIB":
            have, after = vibs.get(name, ""), step.get("after")
            if (after is None and have) or (after is not None and not software_plan.fits(have, _package(name, str(after)))):
                out.append("VIB %s is %s, not %s" % (name, have or "not there", after or "removed"))
        elif kind == "module" and name in options:
            have = driver_options.parse(options[name]).get(step["name"])
            after = step.get("after")
            if (have is None) is not (after is None) or (after is not None and not driver_options.same(str(have), str(after))):
                out.append("module %s runs with %s=%s, not %s" % (name, step["name"], have, "without it" if after is None else after))
        elif step.get("name") == "passthrough" and name in active:
            if active[name] is not (step.get("after") == "enabled"):
                out.append("passthrough of %s is %s" % (name, "active" if active[name] else "not active"))
    return out


def advice(left: list[str]) -> str:
    """What to try about what unmet() found."""
    out = []
    if any(text.startswith("passthrough of") for text in left):
        out.append("run host_passthru and one more reboot; where passthrough is lost again, see the release notes of this ESXi build and what the vendor "
                   "says of \"is not a passthrough device\"")
    if any(not text.startswith("passthrough of") for text in left):
        out.append("another reboot will not help: see /var/log/esxupdate.log and vmkernel.log on the host, or who changed it meanwhile")
    return "; ".join(out)


def _package(name: str, text: str) -> dict:
    version = re.sub(r" or later$", "", text)
    return dict(name=name, version="" if version == "any version" else version, at_least=text.endswith(" or later"))


def crowded(others: list[dict], most: int) -> list[str]:
    """The hosts that are away, when one more would be too many. others: [{name, state, maintenance}] of the same cluster."""
    away = sorted(one["name"] for one in others if one["state"] != "connected" or one["maintenance"])
    return away if len(away) >= most else []
