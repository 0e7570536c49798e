# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The adapter cards of an ESXi host: put together from what the tools say, chosen by identity, guarded where the host lives on them.

A card is (host, PCI address, PSID). mst and vmnic names are only looked up, never a way to choose: they change between boots.
"""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.mst import device_at

MELLANOX = 0x15b3
VIRTUAL_FUNCTIONS = (0x1004, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e)  # device ids of SR-IOV virtual functions
CLASS_ETHERNET, CLASS_INFINIBAND = 0x0200, 0x0207
SELECTORS = ("psid", "part_number", "serial", "guid", "mac", "pci")
SELECTOR_SPEC = dict((name, dict(type="str")) for name in SELECTORS)


def blocks(text):
    """Blocks of esxcli: an unindented line, then its fields indented by three; deeper lines belong to a field and are left out."""
    found = []
    for line in clean.lines("esxcli", text):
        if line and not line.startswith(" "):
            found.append({"title": line.strip()})
            continue
        field = re.match(r"^ {1,3}([A-Z][^:]*?)\s*:\s*(.*)$", line)
        if field and found:
            found[-1][clean.snake(field.group(1))] = field.group(2).strip()
    return found


def words(value):
    return [word.strip() for word in (value or "").split(",") if word.strip() and word.strip() != "N/A"]


def uplinks(interfaces, switches, dvs):
    """vmnic -> what of the host uses it: [{"switch": "standard switch vSwitch0", "vmk": ["vmk0 (Management Network)"]}].

    interfaces, switches, dvs: blocks of network ip interface list, network vswitch standard list and network vswitch dvs vmware list.
    """
    used = {}
    for kind, rows in (("standard switch", switches), ("distributed switch", dvs)):
        for row in rows:
            name = row.get("name") or row["title"]
            vmks = []
            for interface in interfaces:
                if name in (interface.get("portset"), interface.get("vds_name")):
                    port_group = interface.get("portgroup", "")
                    vmks.append(interface["title"] + (" (%s)" % port_group if port_group not in ("", "N/A") else ""))
            for vmnic in words(row.get("uplinks")):
                used.setdefault(vmnic, []).append({"switch": "%s %s" % (kind, name), "vmk": vmks})
    return used


def _slot(address):
    return address.rsplit(".", 1)[0]


def _hex(value):
    try:
        return int(str(value), 16)
    except ValueError:
        return None


def functions(pci, nics, passthru, used):
    """The physical network functions of Mellanox cards, from hardware pci list, network nic list, pcipassthru list and uplinks()."""
    by_address = dict((nic["pci_device"], nic) for nic in nics)
    enabled = dict((device["address"], device["enabled"]) for device in passthru)
    out = []
    for device in pci:
        kind = _hex(device.get("device_class"))
        if _hex(device.get("vendor_id")) != MELLANOX or kind is None or kind >> 8 != 0x02:
            continue
        if _hex(device.get("device_id")) in VIRTUAL_FUNCTIONS or "Virtual Function" in device.get("device_name", ""):
            continue
        address = device["address"]
        nic = by_address.get(address, {})
        vmnic = nic.get("name") or (device.get("vmkernel_name") or "").strip()
        vmnic = vmnic if re.match(r"^vmnic\d+$", vmnic) else ""
        owners = used.get(vmnic, []) if vmnic else []
        active = "passthru" in (device.get("module_name") or "").lower() or "passthru" in (device.get("current_owner") or "").lower()
        out.append({
            "bdf": address, "port": int(address[-1], 16) + 1, "class": "0x%04x" % kind, "vmnic": vmnic, "mac": nic.get("mac_address", ""),
            "passthru": bool(enabled.get(address, active)), "passthru_active": active, "used_by": sorted(set(owner["switch"] for owner in owners)),
            "vmk": sorted(set(vmk for owner in owners for vmk in owner["vmk"])), "device_name": device.get("device_name", ""),
            "description": nic.get("description", ""), "device_id": _hex(device.get("device_id")),
        })
    return sorted(out, key=lambda function: function["bdf"])


def assemble(found, mst=(), firmware=()):
    """Cards from functions(), the devices of mst status -vv and the devices of an mlxfwmanager query (both empty without MFT)."""
    cards = []
    for function in found:
        if not cards or _slot(cards[-1]["bdf"]) != _slot(function["bdf"]):
            cards.append({"bdf": function["bdf"], "functions": []})
        cards[-1]["functions"].append(dict((key, function[key]) for key in
                                           ("bdf", "port", "class", "vmnic", "mac", "passthru", "passthru_active", "used_by", "vmk")))
        cards[-1].setdefault("device_name", function["device_name"])
        cards[-1].setdefault("device_id", function["device_id"])
        cards[-1]["description"] = cards[-1].get("description") or function["description"]
    for card in cards:
        card["mst"] = device_at(mst, card["bdf"])
        asked = next((device for device in firmware if _same_device(device, card)), None)
        known = asked if asked and asked.get("psid") and not asked.get("error") else {}
        part = known.get("part_number", "")
        card.update(
            psid=_told(known.get("psid")), part_number=_told(part), serial="", guids=guids(known),
            firmware=known.get("fw_running") or known.get("fw", ""), device_type=known.get("device_type", ""),
            macs=sorted(set(macs(known) + [_plain_mac(function["mac"]) for function in card["functions"] if function["mac"]])),
            readable=bool(known and card["mst"]), why_not="" if known else (asked or {}).get("error", ""),
            carries=sorted(set(vmk for function in card["functions"] for vmk in function["vmk"])))
        card["description"] = _told(known.get("description")) or card["description"] or card["device_name"]
    return cards


def _told(value):
    """What a tool says of a card; OEM cards say N/A."""
    value = (value or "").strip()
    return "" if value in ("--", "-", "N/A", "NA") else value


def _same_device(device, card):
    if device.get("pci"):
        return _slot(device["pci"]) == _slot(card["bdf"])
    return bool(card["mst"]) and device.get("pci_name", "").split("/")[-1] == card["mst"].split("/")[-1]


def _plain_mac(mac):
    return re.sub(r"[^0-9a-f]", "", (mac or "").lower())


def macs(device):
    return [_plain_mac(mac) for mac in device.get("macs", {}).values() if len(_plain_mac(mac)) == 12]


def guids(device):
    found = [re.sub(r"[^0-9a-f]", "", guid.lower().replace("0x", "")) for guid in device.get("guids", {}).values()]
    return sorted(guid for guid in found if len(guid) == 16)


def name(card):
    """How messages call a card."""
    known = [card["psid"], card["part_number"]]
    label = ", ".join(part for part in known if part) or card.get("device_type") or card.get("device_name") or "unknown model"
    return "card %s (%s)" % (card["bdf"], label)


def describe(cards):
    if not cards:
        return "no Mellanox/NVIDIA network card at all"
    return "; ".join(name(card) + (" MFT cannot open it" if card["why_not"] else "") + (" carries " + ", ".join(card["carries"]) if card["carries"] else "")
                     for card in cards)


def matches(card, selector):
    """True, False, or None where the card does not tell (MFT is missing or cannot open it)."""
    verdict = True
    for key, wanted in selector.items():
        wanted = (wanted or "").strip().lower()
        if not wanted:
            continue
        if key == "pci":
            address = clean.pci_address(wanted)
            fits = address in [function["bdf"] for function in card["functions"]]
        elif key == "guid":
            fits = _guid_of(card, re.sub(r"[^0-9a-f]", "", wanted.replace("0x", "")))
        elif key == "mac":
            fits = _plain_mac(wanted) in card["macs"] or (None if not card["readable"] else False)
        else:
            has = card[key].lower()
            fits = None if not has else has == wanted or (key == "part_number" and re.split(r"[_ ]", has)[0] == wanted)
        if fits is False:
            return False
        if fits is None:
            verdict = None
    return verdict


def _guid_of(card, wanted):
    """A port's GUID is the base GUID and a few more: a card has at most 8 functions."""
    if not card.get("guids"):
        return None
    try:
        return any(0 <= int(wanted, 16) - int(guid, 16) < 8 for guid in card["guids"])
    except ValueError:
        return False


def selector_text(selector):
    return ", ".join("%s %s" % (key, selector[key]) for key in SELECTORS if selector.get(key))


def choose(cards, selector, where):
    """The one card that the selector means, and whether that is certain.

    Uncertain: no card says that it is the one and exactly one, owned by passthrough, cannot be asked. Nothing may be written on such a guess.
    """
    selector = dict((key, value) for key, value in (selector or {}).items() if value)
    if not selector:
        raise RdmaError("choose a card", where, "the card is not described", "give card: one or more of %s" % ", ".join(SELECTORS), code="NO_SELECTOR")
    if selector.get("guid") and len(re.sub(r"[^0-9a-f]", "", selector["guid"].lower().replace("0x", ""))) != 16:
        raise RdmaError("choose a card", where, "%r is no GUID" % selector["guid"], "write it as 0c42:a103:00d0:0008", code="BAD_SELECTOR")
    if selector.get("pci") and not clean.pci_address(selector["pci"]):
        raise RdmaError("choose a card", where, "%r is no PCI address" % selector["pci"], "write it as 0000:3b:00.0", code="BAD_SELECTOR")
    verdicts = [(card, matches(card, selector)) for card in cards]
    sure = [card for card, verdict in verdicts if verdict]
    if len(sure) == 1:
        return sure[0], True
    if len(sure) > 1:
        raise RdmaError("choose a card", where, "%s fits %d cards: %s" % (selector_text(selector), len(sure), describe(sure)),
                        "add pci: or serial: to the description of the card", code="SEVERAL_CARDS", data={"cards": cards})
    maybe = [card for card, verdict in verdicts if verdict is None and any(function["passthru_active"] for function in card["functions"])]
    if len(maybe) == 1:
        return maybe[0], False
    raise RdmaError("find the card", where, "%s fits no card. Found: %s" % (selector_text(selector), describe(cards)),
                    "look at the card in this host: another OEM's card needs its own PSID in the inventory (card: for this host)",
                    code="NO_CARD", data={"cards": cards})


def guard(card, where, what, allow=False):
    """Refuses a card that carries a vmkernel port: a mistake there cuts the host off from vCenter or from its storage."""
    if card["carries"] and not allow:
        raise RdmaError(what, "%s, %s" % (where, name(card)), "it carries %s" % ", ".join(card["carries"]),
                        "choose the card of the workload; allow_management_card overrides this if the host has another way to be reached",
                        code="MANAGEMENT_CARD", data={"card": card})


def classes(card):
    """Port number -> PCI class of its function as a number."""
    return dict((function["port"], int(function["class"], 16)) for function in card["functions"])
