# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The InfiniBand fabric as its management tools tell it: sminfo, iblinkinfo -l, ibqueryerrors; and what is wrong with it."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError

SMINFO = re.compile(r"sm lid (\d+) sm guid (0x[0-9a-fA-F]+), activity count (\d+) priority (\d+) state (\d+) (\S+)")
SM_FAILED = re.compile(r"iberror|ibwarn|ibpanic|failed", re.I)
LINK = re.compile(r'^(0x[0-9a-fA-F]+)\s+"\s*(.*?)"\s+(\d+)\s+(\d+)\[\s*\]'
                  r'\s+==\(\s*(.*?)\s*\)==>\s*(?:(0x[0-9a-fA-F]+)\s+(\d+)\s+(\d+))?\s*\[\s*\]\s+"\s*(.*?)"')
STATE = re.compile(r"(\w+)\s*/\s*(\w+)\s*$")
ERRORS_OF = re.compile(r'^Errors for (?:(0x[0-9a-fA-F]+)\s+)?"\s*(.*?)"')
ERRORS = re.compile(r"^\s*GUID (0x[0-9a-fA-F]+) port (\d+|ALL):\s*(.*)$")
COUNTER = re.compile(r"\[(\w+) == (\d+)")
CHECKED = re.compile(r"^## Summary: (\d+) nodes checked", re.M)
HINTS = {
    "SymbolErrorCounter": "a bad or loose cable, or dirt on the optics: reseat it, then replace it",
    "LinkErrorRecoveryCounter": "the link had to be trained again: cable or port",
    "LinkDownedCounter": "the link went down: cable, port, or a restart of the other end",
    "PortRcvErrors": "packets came in broken: cable or port",
    "PortXmitDiscards": "packets were thrown away because the other end took none: congestion, or a port that is down",
}


def parse_sminfo(text):
    """The subnet manager, None when none answers."""
    match = SMINFO.search(text)
    if match:
        return dict(lid=int(match.group(1)), guid=match.group(2), priority=int(match.group(4)), state=match.group(6))
    if SM_FAILED.search(text):
        return None
    raise ParseError("sminfo", "no subnet manager and no failure in it", text)


def parse_links(text):
    """iblinkinfo -l: one dict per end of a link; peer is empty where there is no partner."""
    out = []
    for line in text.splitlines():
        match = LINK.match(line.strip())
        if not match:
            continue
        state = STATE.search(match.group(5))
        out.append(dict(guid=match.group(1), name=match.group(2).strip(), lid=int(match.group(3)), port=int(match.group(4)),
                        state=state.group(1) if state else "", phys_state=state.group(2) if state else "", speed=match.group(5).split("Gbps")[0].strip(),
                        peer=match.group(9).strip(), peer_port=int(match.group(8)) if match.group(8) else None))
    if not out and text.strip():
        raise ParseError("iblinkinfo -l", "no link in it", text)
    return out


def parse_errors(text):
    """ibqueryerrors: [dict(name, guid, port, counters)]; empty when all counters are below their thresholds."""
    out, name = [], ""
    for line in text.splitlines():
        head, row = ERRORS_OF.match(line.strip()), ERRORS.match(line)
        if head:
            name = head.group(2).strip()
        elif row and row.group(2) != "ALL":
            out.append(dict(name=name, guid=row.group(1), port=int(row.group(2)),
                            counters=dict((key, int(value)) for key, value in COUNTER.findall(row.group(3)))))
    if not out and not CHECKED.search(text):
        raise ParseError("ibqueryerrors", "no port and no summary in it", text)
    return out


def host_of(name):
    """The host in a node description such as "vm01 mlx5_0"."""
    return name.split()[0] if name.split() else ""


def _finding(level, code, thing, text, hint):
    return dict(level=level, code=code, thing=thing, text=text, hint=hint)


def findings(manager, links, before, after, hosts, local):
    """What is wrong with a fabric.

    manager: of parse_sminfo; links: of parse_links; before, after: two readings of parse_errors (the same one twice when it was read once);
    hosts: names that must be there; local: dict(host, ports) with the state of this guest's own ports, as ibstat tells it.
    """
    def mine(port):
        return _finding("error", "LINK_NOT_UP", "%s, %s port %s" % (local["host"], port["device"], port["port"]),
                        "the port is %s, physical state %s" % (port["state"], port["phys_state"]), "check its cable and the switch port")

    if manager is None:
        # Who has no link cannot hear the subnet manager: then the link is what is wrong.
        return [mine(port) for port in local["ports"] if port["phys_state"] != "LinkUp"] or [
            _finding("error", "NO_SUBNET_MANAGER", "InfiniBand fabric seen from %s" % local["host"], "no subnet manager answers",
                     "start the one of the switch, or one opensm on a host of the fabric; cables and ports may be fine")]
    out = [mine(port) for port in local["ports"] if port["state"] != "Active"]
    there = set(host_of(link["name"]) for link in links) | set(host_of(link["peer"]) for link in links)
    empty = ["%s port %d (%s/%s)" % (link["name"], link["port"], link["state"], link["phys_state"]) for link in links
             if link["state"] == "Down" and not link["peer"]]
    for host in hosts:
        if host not in there:
            out.append(_finding("error", "HOST_MISSING", host,
                                "it is not in the fabric; switch ports without a partner: %s" % (", ".join(empty[:40]) or "none"),
                                "check its cable, and on the host the state of its InfiniBand port"))
    for link in links:
        if link["state"] not in ("Active", "Down"):
            out.append(_finding("error", "LINK_BAD_STATE", "%s port %d" % (link["name"], link["port"]), "the link to %s is %s/%s" % (
                link["peer"] or "nobody", link["state"], link["phys_state"]), "see the subnet manager's log"))
    known = dict(((row["guid"], row["port"]), row["counters"]) for row in before)
    for row in after:
        old = known.get((row["guid"], row["port"]), {})
        for counter in sorted(row["counters"]):
            value, rise = row["counters"][counter], row["counters"][counter] - old.get(counter, 0)
            text = "%s is %d" % (counter, value) + (" and rose by %d while it was watched" % rise if rise > 0 else "")
            out.append(_finding("error" if rise > 0 else "warning", "ERRORS_RISE" if rise > 0 else "ERRORS", "%s port %d" % (row["name"], row["port"]), text,
                                HINTS.get(counter, "see the other counters of that port with perfquery")))
    return out
