# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RoCE settings of a guest's port: trust, priority flow control, the mode and type of service of RoCE, ECN, and the systemd unit that keeps them.

All of them are gone with the driver. What a device cannot do is told and left out: a software port has no priorities.
"""

import json
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError

UNIT = "vhpc-rdma-qos.service"
UNIT_PATH = "/etc/systemd/system/" + UNIT
WANTS = "/etc/systemd/system/multi-user.target.wants/" + UNIT
SCRIPT_PATH = "/usr/local/sbin/vhpc-rdma-qos"
CONFIGFS = "/sys/kernel/config/rdma_cm"
MODES = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}
PRIORITIES = range(8)
ECT = 2  # the bits of the type of service that say: mark me instead of dropping me

UNIT_TEXT = """# Written by vhpc.rdma.rdma_link
[Unit]
Description=RoCE settings of the RDMA port
Wants=sys-kernel-config.mount
After=sys-kernel-config.mount openibd.service network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=%s
TimeoutStartSec=180

[Install]
WantedBy=multi-user.target
""" % SCRIPT_PATH

SCRIPT_HEAD = """#!/bin/sh
# Written by vhpc.rdma.rdma_link: RoCE settings that are lost with the driver and at a reboot. %(service)s runs this.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
code=0

find_port() {
    netdev= device=
    for path in /sys/class/net/*; do
        [ -e "$path/device" ] && [ "$(cat "$path/address" 2>/dev/null)" = "%(mac)s" ] && netdev=${path##*/}
    done
    for path in /sys/class/infiniband/*; do
        [ "$(cat "$path/node_guid" 2>/dev/null)" = "%(guid)s" ] && device=${path##*/}
    done
    [ -n "$netdev" ] && [ -n "$device" ]
}

run() {
    "$@" > /dev/null || { echo "this failed: $*" >&2; code=1; }
}

write() {
    echo "$2" > "$1" || { echo "this was not written: $2 to $1" >&2; code=1; }
}

tries=0
until find_port; do
    tries=$((tries + 1))
    [ $tries -gt 240 ] && { echo "no port has MAC %(mac)s and node GUID %(guid)s" >&2; exit 1; }
    sleep 0.5
done
"""


# ---- what the programs say (pure) ------------------------------------------------------------------------------------------------

def parse_mlnx_qos(text):
    """mlnx_qos -i: dict(trust, pfc: list of priorities, dscp: DSCP -> priority as far as it is shown)."""
    trust = re.search(r"^Priority trust state:\s*(\w+)", text, re.M)
    pfc = re.search(r"^PFC configuration:.*?^\s*enabled((?:\s+[01]){8})\s*$", text, re.M | re.S)
    if not trust or not pfc:
        raise ParseError("mlnx_qos", "neither a trust state nor a PFC table in it", text)
    found, priority = {}, None
    for line in text.splitlines():
        head, more = re.match(r"^\s*prio:(\d)\s+dscp:([\d,]*)\s*$", line), re.match(r"^\s+((?:\d\d,)+)\s*$", line)
        if head:
            priority = int(head.group(1))
        numbers = (head.group(2) if head else more.group(1) if more and priority is not None else "").split(",")
        for number in numbers:
            if number:
                found[int(number)] = priority
        if not head and not more:
            priority = None
    return dict(trust=trust.group(1).lower(), pfc=[index for index, word in enumerate(pfc.group(1).split()) if word == "1"], dscp=found)


def parse_dcb(pfc, app):
    """dcb -j pfc show and dcb -j -N app show in the same form: a device trusts DSCP where its table has DSCP entries."""
    try:
        enabled, entries = json.loads(pfc or "{}").get("prio_pfc") or [], json.loads(app or "{}").get("dscp_prio") or []
        table = dict((int(key), int(priority)) for key, priority in entries)
    except (AttributeError, TypeError, ValueError) as err:
        raise ParseError("dcb", "not the JSON of its tables (%s)" % err, pfc + app)
    return dict(trust="dscp" if table else "pcp", pfc=[index for index, value in enumerate(enabled) if value in (True, "on")], dscp=table)


def parse_traffic_class(text):
    """The traffic class that all connections of a port have, as the driver of the vendor tells it; -1, as the driver counts, when none is forced."""
    match = re.search(r"Global tclass=(\d+)", text)
    return int(match.group(1)) if match else -1


# ---- what is wanted (pure) ---------------------------------------------------------------------------------------------------------

def wish(options, where=""):
    """The options of qos, checked and complete."""
    out = dict(options, priority=options.get("priority", 3), dscp=options.get("dscp", 26))
    if out["priority"] not in PRIORITIES or not 0 <= out["dscp"] <= 63:
        raise RdmaError("set the RoCE settings", where, "priority %s and DSCP %s: a priority is 0 to 7, a DSCP 0 to 63" % (out["priority"], out["dscp"]),
                        "the usual ones are priority 3 and DSCP 26", code="QOS")
    pfc = options.get("pfc")
    out["pfc"] = [out["priority"]] if pfc is None else sorted(set(pfc))
    if not set(out["pfc"]) <= set(PRIORITIES):
        raise RdmaError("set the RoCE settings", where, "pfc holds %s: a priority is 0 to 7" % ", ".join(map(str, out["pfc"])), "name priorities", code="QOS")
    out["tos"] = out["dscp"] * 4 + (ECT if out["ecn"] else 0)
    return out


def defaults(options):
    """What a port has before anybody set anything."""
    return dict(options, trust="pcp", pfc=[], roce_mode="v2", tos=0, traffic_class=-1, ecn=None)


def priorities(numbers):
    return ", ".join(str(number) for number in numbers) or "none"


def settings(found, wanted):
    """All settings: dict(name, before, after, actions) or, where the device cannot, dict(name, cannot). Names of devices are {netdev} and {device}.

    found: of read(); wanted: of wish() or defaults().
    """
    out, program = [], found["program"]

    def add(name, before, after, *actions):
        out.append(dict(name=name, before=before, after=after, actions=list(actions)))

    if found["cannot"].get("priorities"):
        out += [dict(name=name, cannot=found["cannot"]["priorities"]) for name in ("trust", "PFC")]
    else:
        table, number = found["table"], wanted["dscp"]
        if program == "mlnx_qos":
            add("trust", table["trust"], wanted["trust"], ("run", ["mlnx_qos", "-i", "{netdev}", "--trust", wanted["trust"]]))
            if wanted["trust"] == "dscp":
                # Where the table is not shown it is the driver's: eight values to each priority.
                add("priority of DSCP %d" % number, table["dscp"].get(number, number // 8), wanted["priority"],
                    ("run", ["mlnx_qos", "-i", "{netdev}", "--dscp2prio", "set,%d,%d" % (number, wanted["priority"])]))
            add("PFC", priorities(table["pfc"]), priorities(wanted["pfc"]), (
                "run", ["mlnx_qos", "-i", "{netdev}", "--pfc", ",".join(str(int(one in wanted["pfc"])) for one in PRIORITIES)]))
        else:
            if wanted["trust"] == "dscp":
                entry = ("run", ["dcb", "app", "replace", "dev", "{netdev}", "dscp-prio", "%d:%d" % (number, wanted["priority"])])
                add("trust", table["trust"], "dscp", entry)
                add("priority of DSCP %d" % number, table["dscp"].get(number, "none"), wanted["priority"], entry)
            else:
                add("trust", table["trust"], "pcp", ("run", ["dcb", "app", "flush", "dev", "{netdev}", "dscp-prio"]))
            add("PFC", priorities(table["pfc"]), priorities(wanted["pfc"]), (
                "run", ["dcb", "pfc", "set", "dev", "{netdev}", "prio-pfc", "all:off"] + ["%d:on" % one for one in wanted["pfc"]]))
    if found["cannot"].get("manager"):
        out += [dict(name=name, cannot=found["cannot"]["manager"]) for name in ("RoCE mode", "type of service")]
    else:
        mode, port = MODES[wanted["roce_mode"]], found["port"]
        if found["configfs"]:
            place = "%s/{device}/ports/%d/" % (CONFIGFS, port)
            add("RoCE mode", found["mode"], mode, ("write", place + "default_roce_mode", mode))
            add("type of service", found["tos"], wanted["tos"], ("write", place + "default_roce_tos", str(wanted["tos"])))
        else:
            who = ["-d", "{device}", "-p", str(port)]
            add("RoCE mode", found["mode"], mode, ("run", ["cma_roce_mode"] + who + ["-m", wanted["roce_mode"][1:]]))
            add("type of service", found["tos"], wanted["tos"], ("run", ["cma_roce_tos"] + who + ["-t", str(wanted["tos"])]))
    if found["traffic_class"] is not None:
        # 0 is forced on every connection like any other class; -1 gives each its own again.
        forced = wanted.get("traffic_class", wanted["tos"])
        add("traffic class", found["traffic_class"], forced, ("write", "/sys/class/infiniband/{device}/tc/%d/traffic_class" % found["port"], str(forced)))
    if wanted["ecn"] is not None:
        if found["ecn"] is None:
            out.append(dict(name="ECN", cannot="its driver has no switch for it (/sys/class/net/*/ecn, which the vendor's driver has)"))
        else:
            add("ECN", found["ecn"], "on" if wanted["ecn"] else "off", *[
                ("write", "/sys/class/net/{netdev}/ecn/%s/enable/%d" % (side, wanted["priority"]), str(int(wanted["ecn"]))) for side in ("roce_np", "roce_rp")])
    return out


def script(rows, port, configfs):
    """What runs at boot: finds the port by MAC and GUID, and does all that the device can."""
    def words(action):
        if action[0] == "write":
            return "write %s" % " ".join('"%s"' % text.format(device="$device", netdev="$netdev") for text in action[1:])
        return "run " + " ".join('"$netdev"' if word == "{netdev}" else '"$device"' if word == "{device}" else word for word in action[1])

    lines, done = [], []
    for row in rows:
        for action in row.get("actions", []):
            if action not in done:
                done.append(action)
                lines.append(words(action))
    if configfs:
        made = '"%s/$device"' % CONFIGFS
        lines = ["modprobe -q rdma_cm", "mkdir %s 2>/dev/null" % made] + lines + ["rmdir %s 2>/dev/null" % made]
    guid = ":".join(port["node_guid"][start:start + 4] for start in range(0, 16, 4))
    return SCRIPT_HEAD % dict(service=UNIT, mac=port["mac"], guid=guid) + "\n".join(lines + ["exit $code"]) + "\n"


# ---- the system ------------------------------------------------------------------------------------------------------------------

def _asked(system, argv):
    code, out, err = system.run(argv, timeout=30)
    return out if not code else None, (err or out).strip().splitlines()[-1:] or ["return code %d" % code]


def read_priorities(system, netdev):
    """(program, its table, why the device cannot)."""
    if system.find("mlnx_qos"):
        out, why = _asked(system, ["mlnx_qos", "-i", netdev])
        return ("mlnx_qos", parse_mlnx_qos(out), "") if out is not None else ("mlnx_qos", None, "mlnx_qos says: %s" % why[0])
    if system.find("dcb"):
        pfc, why = _asked(system, ["dcb", "-j", "pfc", "show", "dev", netdev, "prio-pfc"])
        app, why = _asked(system, ["dcb", "-j", "-N", "app", "show", "dev", netdev, "dscp-prio"]) if pfc is not None else (None, why)
        return ("dcb", parse_dcb(pfc, app), "") if app is not None else ("dcb", None, "dcb says: %s" % why[0])
    return "", None, "neither mlnx_qos nor dcb (iproute2 5.11 or newer) is installed"


def read_manager(system, device, port):
    """dict(configfs, mode, tos) of the connection manager, or the text why not."""
    if system.is_dir(CONFIGFS):
        place = "%s/%s" % (CONFIGFS, device)
        # The folder is a handle and no setting: the values stay when it is gone.
        try:
            ours = system.makedirs(place)
        except RdmaError as err:
            return err.why
        try:
            base = "%s/ports/%d/" % (place, port)
            return dict(configfs=True, mode=system.line(base + "default_roce_mode"), tos=_number(system.line(base + "default_roce_tos")))
        finally:
            if ours:
                system.remove_dir(place)
    if not system.find("cma_roce_mode") or not system.find("cma_roce_tos"):
        return "there is no %s: the module rdma_cm is not loaded" % CONFIGFS
    values = []
    for program in ("cma_roce_mode", "cma_roce_tos"):
        out, why = _asked(system, [program, "-d", device, "-p", str(port)])
        if out is None:
            return "%s says: %s" % (program, why[0])
        values.append(out.strip())
    return dict(configfs=False, mode=values[0], tos=_number(values[1]))


def _number(text):
    return int(text) if text.isdigit() else None


def read(system, port, wanted):
    """What the port has now, and why it cannot have what it has not."""
    program, table, why = read_priorities(system, port["netdev"])
    manager = read_manager(system, port["device"], port["port"])
    out = dict(program=program, table=table, cannot={}, port=port["port"], configfs=False, mode="", tos=None, ecn=None, traffic_class=None)
    if why:
        out["cannot"]["priorities"] = why
    if isinstance(manager, dict):
        out.update(manager)
    else:
        out["cannot"]["manager"] = manager
    folder = "/sys/class/infiniband/%s/tc/%d/traffic_class" % (port["device"], port["port"])
    if system.exists(folder):
        out["traffic_class"] = parse_traffic_class(system.read(folder, ""))
    sides = [system.line("/sys/class/net/%s/ecn/%s/enable/%d" % (port["netdev"], side, wanted["priority"])) for side in ("roce_np", "roce_rp")]
    if all(sides):
        out["ecn"] = "on" if sides == ["1", "1"] else "off"
    return out


def do(system, port, rows):
    """Carry out what differs."""
    done, names = [], dict(netdev=port["netdev"], device=port["device"])
    place = "%s/%s" % (CONFIGFS, port["device"])
    ours = system.is_dir(CONFIGFS) and system.makedirs(place)
    try:
        for row in rows:
            for action in row["actions"]:
                if action in done:
                    continue
                done.append(action)
                if action[0] == "write":
                    system.poke(action[1].format(**names), action[2])
                    continue
                argv = [word.format(**names) for word in action[1]]
                code, out, err = system.run(argv, timeout=60)
                if code:
                    raise RdmaError("set %s of RoCE to %s" % (row["name"], row["after"]), system.name(),
                                    "%s: %s" % (" ".join(argv), (err or out).strip()[-300:]),
                                    "see dmesg; the card's firmware may keep the setting to itself (DCBX, LLDP_NB_DCBX)", code="QOS")
    finally:
        if ours:
            system.remove_dir(place)
