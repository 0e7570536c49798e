# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a card's firmware settings should be, how they differ from what it shows, and in which order they are set.

A parameter has three states that matter: current (the firmware runs with it), next (it will after a reset) and not shown.
Wanted != next: set it. next != current: a reset is missing. Not shown: a state of its own, never taken for right or wrong.
"""

import re
from collections import OrderedDict

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.cards import CLASS_ETHERNET
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import number

ROLES = {"ib": 1, "infiniband": 1, "eth": 2, "ethernet": 2, "roce": 2}
SHOW, FORCE = "ADVANCED_PCI_SETTINGS", "FORCE_ETH_PCI_SUBCLASS"
HIDDEN = ("MAX_ACC_OUT_READ", FORCE, "IBM_CAPI_EN")  # not shown while the next-boot value of ADVANCED_PCI_SETTINGS is 0
LABELS = {"LINK_TYPE": {1: "IB(1)", 2: "ETH(2)"}}
SWITCHES = ("SRIOV_EN", SHOW, FORCE)
NAME = re.compile(r"^[A-Z_][A-Z0-9_]*[A-Za-z0-9_]*(?:\[\d+\])?$")


def wanted(ports=None, sriov=None, raw=None):
    """Parameter -> value in the order in which one mlxconfig set gets them.

    Undoing SR-IOV for InfiniBand clears FORCE_ETH_PCI_SUBCLASS before ADVANCED_PCI_SETTINGS hides it; raw values win.
    """
    raw = dict((name.strip(), value) for name, value in (raw or {}).items())
    out = OrderedDict()
    if sriov is False:
        out.update([(FORCE, 0), ("SRIOV_EN", 0), ("NUM_OF_VFS", 0)])
    elif sriov is True:
        out["SRIOV_EN"] = 1
    for port in ports or {}:
        if not re.match(r"^[1-9]$", str(port)):
            raise RdmaError("set the link type of port %r" % port, why="a port is a number", hint="write ports: {1: ib, 2: roce}", code="BAD_SETTING")
    for port, role in sorted((int(port), role) for port, role in (ports or {}).items()):
        if str(role).lower() not in ROLES:
            raise RdmaError("understand the role of port %s" % port, why="%r is none of %s" % (role, ", ".join(sorted(ROLES))),
                            hint="write ports: {1: ib, 2: roce}", code="BAD_SETTING")
        out["LINK_TYPE_P%d" % port] = ROLES[str(role).lower()]
    for name in sorted(raw):
        if not NAME.match(name):
            raise RdmaError("set %s" % name, why="this is no name of a firmware parameter", hint="mlxconfig show_confs lists the names", code="BAD_SETTING")
        if name != SHOW:
            out[name] = _value(raw[name])
    if SHOW in raw:
        out[SHOW] = _value(raw[SHOW])
    elif sriov is False:
        out[SHOW] = 0
    return out


def _value(value):
    found = number(value)
    return value if found is None else found


def same(want, shown):
    """Whether a value as mlxconfig prints it (IB(1), 0x10, True(1)) is the wanted one; None where nothing is shown."""
    if shown is None or shown == "N/A":
        return None
    if isinstance(want, str):
        return want.strip().lower() == re.sub(r"\(.*\)$", "", shown).lower() or want.strip().lower() == shown.lower()
    return number(shown) == want


def label(name, value):
    """A wanted value in mlxconfig's own form, so that before and after of a step read alike."""
    for start, names in LABELS.items():
        if name.startswith(start) and value in names:
            return names[value]
    if name in SWITCHES and value in (0, 1):
        return "%s(%d)" % (bool(value), value)
    return str(value)


def _off(value):
    return not isinstance(value, str) and not value


def port_of(name):
    match = re.match(r"^LINK_TYPE_P(\d+)$", name)
    return int(match.group(1)) if match else None


def compare(parameters, want, classes, where, revealed=False):
    """How a card differs from what is wanted. parameters: as mlxconfig.parse() gives them; classes: port -> PCI class of its function.

    Returns
      state: NAME -> {shown, current, next, wanted, verdict: right | set | pending | not shown | hidden}
      sets: NAME -> value, in order, for one mlxconfig set
      pending: names that only wait for a reset
      reveal: "" or why ADVANCED_PCI_SETTINGS has to be 1 for a moment:
        "in force": a hidden FORCE_ETH_PCI_SUBCLASS=1 shows itself in the PCI class; "unknown": it could come into force; "asked": wanted by raw
    """
    state, sets, pending, reveal, refused = OrderedDict(), OrderedDict(), [], "", []
    hides = SHOW in parameters and number(parameters[SHOW]["next"]) == 0
    for name, value in want.items():
        row = parameters.get(name)
        entry = {"shown": row is not None, "current": row["current"] if row else None, "next": row["next"] if row else None,
                 "wanted": label(name, value), "verdict": "right"}
        state[name] = entry
        if row is None:
            why = _hidden(name, value, parameters, want, classes) if hides and not revealed and name in HIDDEN else ""
            entry["verdict"] = "hidden" if why else "not shown"
            if not why and port_of(name) and value == ROLES["eth"] and _ethernet_only(parameters, classes, port_of(name)):
                entry["verdict"] = "right"
                continue
            if why:
                reveal = why
                sets[name] = value
            elif not _off(value):
                refused.append(_absent(name, parameters, where, hides and not revealed))
        elif same(value, row["next"]) is False:
            why = _no_value(value, row)
            if row["read_only"]:
                refused.append(RdmaError("set %s=%s" % (name, value), where, "the firmware shows it as read-only (it is %s)" % row["next"], code="READ_ONLY"))
            elif why:
                refused.append(RdmaError("set %s=%s" % (name, value), where, why, "see the value that the card shows for its form", code="OUT_OF_RANGE"))
            entry["verdict"] = "set"
            sets[name] = value
        elif same(value, row["current"]) is False:
            entry["verdict"] = "pending"
            pending.append(name)
    if refused:
        raise _together(refused, where)
    return {"state": state, "sets": sets, "pending": pending, "reveal": reveal}


def _together(refused, where):
    """All refusals of one card as one error; its code is the first one's."""
    if len(refused) == 1:
        return refused[0]
    return RdmaError("set the firmware settings", where, "; ".join("%s: %s" % (err.what, err.why) for err in refused),
                     "; ".join(OrderedDict.fromkeys(err.hint for err in refused if err.hint)), code=refused[0].code,
                     data={"refused": [{"what": err.what, "why": err.why, "code": err.code} for err in refused]})


def _no_value(value, row):
    """Why a value cannot be one of this parameter, as far as the card's own values tell; the tool knows the rest."""
    shown = [text for text in (row["next"], row["current"], row["default"]) if text]
    if any(re.match(r"^Array\[", text) for text in shown):
        return "it is an array: name one element, as NAME[0]"
    if any(re.match(r"^(?:True|False)\(\d\)$", text) for text in shown):
        if not (value in (0, 1) or str(value).lower() in ("true", "false")):
            return "it is true or false, %s is out of range" % value
    elif isinstance(value, int) and value < 0 and not any((number(text) or 0) < 0 for text in shown):
        return "%d is out of range: it is a number from 0 on" % value
    return ""


def _hidden(name, value, parameters, want, classes):
    """Why a parameter that ADVANCED_PCI_SETTINGS=0 hides must be looked at; "" when there is no need."""
    if name != FORCE or not _off(value):
        return "asked" if want.get(SHOW) == 1 else ""
    for port, kind in sorted(classes.items()):
        row = parameters.get("LINK_TYPE_P%d" % port)
        if row is None:
            continue
        if number(row["current"]) == 1:
            if kind == CLASS_ETHERNET:
                return "in force"
            continue
        # Once the link type is set, the next boot tells: looking again in every run until then would write in every run.
        if want.get("LINK_TYPE_P%d" % port) == 1 and number(row["next"]) != 1:
            return "unknown"
    return ""


def _absent(name, parameters, where, hides):
    if port_of(name):
        others = sorted(other for other in parameters if port_of(other))
        why = "the card shows no %s (it shows %s)" % (name, ", ".join(others)) if others else \
            "the card has no LINK_TYPE at all: it is an Ethernet-only card, or its OEM locked the setting"
        return RdmaError("set %s" % name, where, why, "choose the VPI card, or leave this port out of the ports of this host", code="NO_LINK_TYPE")
    if hides and name in HIDDEN:
        return RdmaError("set %s" % name, where, "it is hidden while ADVANCED_PCI_SETTINGS is 0", "set ADVANCED_PCI_SETTINGS to 1 as well", code="HIDDEN")
    return RdmaError("set %s" % name, where, "the card does not have this parameter", "see mlxconfig query on the host for what the card knows",
                     code="NO_PARAMETER")


def _ethernet_only(parameters, classes, port):
    """An EN card asked for Ethernet is what it can only be, as long as it has that port."""
    return not any(port_of(name) for name in parameters) and classes.get(port) == CLASS_ETHERNET


def order(sets):
    """One set holds all values: FORCE_ETH_PCI_SUBCLASS first, ADVANCED_PCI_SETTINGS last."""
    return OrderedDict(sorted(sets.items(), key=lambda item: (item[0] == SHOW, item[0] != FORCE)))


def in_force(parameters, want, classes):
    """(matches, differences): whether the firmware runs with what is wanted; None where it does not tell."""
    differences, unsure = [], False
    for name, value in want.items():
        row = parameters.get(name)
        if row is None:
            if port_of(name) and value == ROLES["eth"] and _ethernet_only(parameters, classes, port_of(name)):
                continue
            if port_of(name) or not _off(value):
                differences.append({"name": name, "wanted": label(name, value), "current": None, "next": None, "why": "not shown"})
            continue
        current = same(value, row["current"])
        unsure = unsure or current is None
        if current is False:
            why = "a reset is missing" if same(value, row["next"]) else "not set"
            differences.append({"name": name, "wanted": label(name, value), "current": row["current"], "next": row["next"], "why": why})
    if want.get(FORCE) == 0 and FORCE not in parameters:
        for port, kind in sorted(classes.items()):
            row = parameters.get("LINK_TYPE_P%d" % port)
            if row is not None and number(row["current"]) == 1 and kind == CLASS_ETHERNET:
                differences.append({"name": FORCE, "wanted": label(FORCE, 0), "current": "hidden", "next": "hidden",
                                    "why": "port %d runs InfiniBand but its PCI function still says Ethernet" % port})
    return (False if differences else None if unsure else True), differences
