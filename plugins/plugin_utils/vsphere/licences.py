# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which licence a host has, and what it says of Dynamic DirectPath I/O and DRS.

A licence that does not fit is told and not refused: the API has no key of its own for Dynamic DirectPath I/O, and what editions include changes with releases.
"""

from __future__ import annotations

import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import session as _session

EVALUATION = "eval"
NAMED_EDITION = "enterpriseplus"  # in an edition's key: esx.enterprisePlus.cpuPackage and the like


def licence_plain(info: t.Any) -> dict:
    """name, edition and the licensed features (key -> description)."""
    features = {one.value.key: one.value.value or "" for one in info.properties or [] if one.key == "feature" and hasattr(one.value, "key")}
    return dict(name=info.name or "", edition=info.editionKey or "", features=features)


def words(hosts: t.Iterable[str], licence: dict | None) -> str:
    """What the user has to know of the licence of these hosts for a dynamic device."""
    host = ", ".join(sorted(set(hosts)))
    if licence is None:
        return ("The licence of %s could not be read with this user: check that it includes Dynamic DirectPath I/O, and DRS for the placement at "
                "power-on." % host)
    named = "The licence of %s is %s (%s)" % (host, licence["name"] or "without a name", licence["edition"] or "no edition")
    if licence["edition"] == EVALUATION:
        return "%s: the evaluation has every feature and ends; Dynamic DirectPath I/O and DRS need a licence that includes them by then." % named
    listed = any("directpath" in ("%s %s" % item).lower().replace(" ", "") for item in licence["features"].items())
    if listed:
        verdict = "it lists Dynamic DirectPath I/O"
    elif NAMED_EDITION in licence["edition"].lower():
        verdict = "it does not list Dynamic DirectPath I/O by name; Enterprise Plus is the edition it is sold with"
    else:
        verdict = "it does not list Dynamic DirectPath I/O, which is sold with Enterprise Plus: without it the VM does not power on"
    drs = "" if not licence["features"] else "; it lists DRS" if "drs" in {key.lower().split(":")[0] for key in licence["features"]} else \
        "; it does not list DRS, so nothing places the VM at power-on"
    return "%s: %s%s." % (named, verdict, drs)


def told(hosts: t.Iterable[tuple[str, dict | None]]) -> list[str]:
    """words() for hosts (name, licence), those with the same licence in one."""
    alike: dict[str, tuple[list[str], dict | None]] = {}
    for name, licence in hosts:
        alike.setdefault(repr(licence), ([], licence))[0].append(name)
    return [words(names, licence) for names, licence in alike.values()]


def of_hosts(session: t.Any, hosts: t.Iterable[t.Any]) -> dict[str, dict | None]:
    """id of a host -> its licence, None where it cannot be read; two requests where the server tells all at once."""
    out: dict[str, dict | None] = {host._moId: None for host in hosts}
    manager = session.content.licenseManager
    if manager is None:
        return out
    try:
        assignments = session.read(manager, "licenseAssignmentManager")["licenseAssignmentManager"]
        if assignments is None:  # a host of its own: its licence is the one it has
            own = [licence_plain(info) for info in session.read(manager, "licenses")["licenses"] or []]
            return {moid: own[0] if own else None for moid in out}
        for one in assignments.QueryAssignedLicenses():
            if one.entityId in out and one.assignedLicense is not None:
                out[one.entityId] = licence_plain(one.assignedLicense)
        for moid in [moid for moid, licence in out.items() if licence is None]:  # a server need not tell all of them at once
            for one in assignments.QueryAssignedLicenses(moid):
                out[moid] = licence_plain(one.assignedLicense) if one.assignedLicense is not None else None
    except (RdmaError, _session.vim.fault.NoPermission) as err:
        if isinstance(err, _session.vim.fault.NotAuthenticated) or isinstance(err, RdmaError) and err.code != "NO_PERMISSION":
            raise
    return out
