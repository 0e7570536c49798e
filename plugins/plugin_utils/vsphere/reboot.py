# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A reboot of a host: when it may happen, and how to tell that it has."""

from __future__ import annotations

import datetime

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
