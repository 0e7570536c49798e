# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Distributed switches that still use a card's ports: what goes, and what must not."""

from __future__ import annotations

import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes


def uplinks(devices: list[dict], chosen: list[dict]) -> list[dict]:
    """The distributed switches of which a chosen device is an uplink: [{switch, uplinks: [{pci, vmnic}], carries: [text], left: [vmnic]}].

    devices: all of the host (passthru.devices_of): the others tell what a switch keeps.
    """
    out: dict[str, dict] = {}
    for device in chosen:
        for use in device["uses"]:
            if use["kind"] == "dvs":
                switch = out.setdefault(use["switch"], dict(switch=use["switch"], uplinks=[], carries=[], left=[]))
                switch["uplinks"].append(dict(pci=device["pci"], vmnic=device["vmnic"]))
                switch["carries"] = [u["text"] for u in device["uses"] if u["kind"] == "vmk" and u["switch"] == use["switch"]]
    for switch in out.values():
        going = {one["pci"] for one in switch["uplinks"]}
        switch["left"] = [d["vmnic"] or d["pci"] for d in devices if d["pci"] not in going and any(
            u["kind"] == "dvs" and u["switch"] == switch["switch"] for u in d["uses"])]
    return [out[name] for name in sorted(out)]


def text_of(switch: dict) -> str:
    return "%s: uplinks %s, %s" % (switch["switch"], ", ".join("%s (%s)" % (one["vmnic"], one["pci"]) for one in switch["uplinks"]), consequence(switch))


def consequence(switch: dict) -> str:
    """Who else uses the switch, and what is left of it on this host."""
    text = "port groups %s, " % ", ".join(switch["portgroups"]) if switch.get("portgroups") else ""
    return text + ("it keeps %s" % ", ".join(switch["left"]) if switch["left"] else "no uplink of this host is left then")


def plan(switches: list[dict], consent: bool, checking: bool) -> tuple[Changes, list[str]]:
    """(changes, reasons to refuse): an uplink that carries a VMkernel port stays whatever the user agreed to."""
    changes, refused = Changes("esxi"), []
    for switch in switches:
        if switch["carries"]:
            refused.append("%s carries %s" % (", ".join(one["vmnic"] for one in switch["uplinks"]), ", ".join(switch["carries"])))
            continue
        for one in switch["uplinks"]:
            changes.add("distributed switch %s" % switch["switch"], "uplink %s (%s)" % (one["vmnic"], one["pci"]), "in use", "removed",
                        certainty="conditional" if checking and not consent else "sure",
                        reason=consequence(switch) + ("" if consent else "; needs consent: true"))
    return changes, refused


def remaining(pnics: t.Iterable[dict], vmnics: t.Container[str]) -> list[dict]:
    """The uplinks that a host keeps in the switch: [{device, port, group}] without the vmnics."""
    return [one for one in pnics if one["device"] not in vmnics]
