# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guest's RDMA tools: ibstatus, ibstat, ibv_devinfo, rdma link, ibdev2netdev, show_gids."""

import json
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

STATUS_HEAD = re.compile(r"^\s*Infiniband device '([^']+)' port (\d+) status:", re.I)
FIELD = re.compile(r"^\s*([A-Za-z][\w \[\]-]*?)\s*:\s*(.*)$")
CODED = re.compile(r"^(\d+)\s*:\s*(.*)$")
RATE = re.compile(r"^([\d.]+)\s*Gb/sec(?:\s*\((\d+X)(?:\s+(\w+))?\))?")
CA_HEAD = re.compile(r"^\s*CA '([^']+)'")
PORT_HEAD = re.compile(r"^\s*Port (\d+):\s*$")
CODE_SUFFIX = re.compile(r"^(.*?)\s*\((\d+)\)$")
STATUS_ERROR = re.compile(r"^\s*(?:Fatal error:|ibstatus: |.*sys files not found)", re.I)
STAT_ERROR = re.compile(r"^\s*(?:ibpanic:|iberror:|ibwarn:|ibstat: |.*IB device can't be found|.*stat of IB device|Usage: ibstat)", re.I)
LINK = re.compile(r"^\s*(?:link\s+|(\d+)/(\d+|-):\s*)([\w.-]+)/(\d+|-):?(?:\s+(.*))?$")
LINK_ERROR = re.compile(r"^\s*(?:Failed to open NETLINK|Wrong device|[Ee]rror: (?!Missing|Unknown|One or more|ipv|any valid|BW result)|RTNETLINK|Object \""
                        r"|Unknown parameter '|Usage: rdma|Command \"\S+\" is unknown"
                        r"|Device \S+ (?:not|does)|No device name|Link \S+ (?:not|does))")


def parse_ibstatus(text):
    """Ports with state, rate and link layer. Only link_layer tells InfiniBand from Ethernet: speed names appear on both."""
    found = clean.lines("ibstatus", text)
    ports = []
    for line in found:
        head, field = STATUS_HEAD.match(line), FIELD.match(line)
        if head:
            ports.append({"device": head.group(1), "port": int(head.group(2)), "default_gid": "", "base_lid": None, "sm_lid": None, "state": "",
                          "state_code": None, "phys_state": "", "phys_state_code": None, "rate": "", "rate_gbits": None, "width": "", "speed": "",
                          "link_layer": ""})
        elif field and ports:
            _status_field(ports[-1], clean.snake(field.group(1)), field.group(2).strip())
    if ports:
        return {"ports": ports}
    return {"ports": [], "error": _ib_error(found, STATUS_ERROR, "ibstatus", "no port in it")}


def _ib_error(found, pattern, tool, why):
    messages = [line.strip() for line in found if line.strip()]
    # Other programs have fatal errors too, below a title of their own: these tools say nothing else.
    if not messages or not any(pattern.match(line) for line in messages[:2]) or re.match(r"^(?::-\)|LAMMPS \(|Info: |-+$)", messages[0]):
        raise ParseError(tool, why, "\n".join(found))
    return re.sub(r"^(?:Fatal error:|Error:)\s*", "", "; ".join(messages))


def _status_field(port, key, value):
    if key in ("state", "phys_state"):
        coded = CODED.match(value)
        port[key] = coded.group(2) if coded else value
        port[key + "_code"] = int(coded.group(1)) if coded else None
    elif key in ("base_lid", "sm_lid"):
        port[key] = clean.number(value)
    elif key == "rate":
        rate = RATE.match(value)
        port["rate"] = value
        if rate:
            port["rate_gbits"], port["width"], port["speed"] = float(rate.group(1)), rate.group(2) or "", rate.group(3) or ""
    else:
        port[key] = value


def parse_ibstat(text):
    """Channel adapters and their ports. No output at all is the tool's way to say that there is no device."""
    found = clean.lines("ibstat", text)
    devices, port = [], None
    for line in found:
        head, port_head, field = CA_HEAD.match(line), PORT_HEAD.match(line), FIELD.match(line)
        if head:
            devices.append({"name": head.group(1), "ports": []})
            port = None
        elif port_head and devices:
            port = {"port": int(port_head.group(1))}
            devices[-1]["ports"].append(port)
        elif field and devices:
            key, value = clean.snake(field.group(1)), field.group(2).strip()
            target = port if port is not None else devices[-1]
            if key in ("base_lid", "sm_lid", "lmc", "number_of_ports"):
                target[key] = clean.number(value)
            elif key == "rate":
                target[key] = clean.real(value.split()[0]) if value.split() else None
            else:
                target[key] = value
    if devices or not any(line.strip() for line in found):
        return {"devices": devices}
    names = [line.strip() for line in found if line.strip()]
    if all(re.match(r"^(?:mlx[345]_\w+|ib[a-z]+\d\w*|roce[a-z]*\d\w*|bnxt_re\w+|rxe\w*\d)$", name) for name in names):
        return {"devices": [{"name": name, "ports": []} for name in names]}
    if all(re.match(r"^0x[0-9a-f]{16}$", name) for name in names):
        return {"devices": [], "port_guids": names}
    return {"devices": [], "error": _ib_error(found, STAT_ERROR, "ibstat", "no channel adapter in it")}


def parse_ibv_devinfo(text):
    """ibv_devinfo, -v, -l, and ibv_devices: devices with their ports; lines of flags hang on the key above them."""
    found = clean.lines("ibv_devinfo", text)
    devices, port, last = [], None, ""
    for line in found:
        if not line.strip():
            continue
        head = re.match(r"^\s*hca_id\s*:\s*(\S+)", line)
        port_head = re.match(r"^\s*port\s*:\s*(\d+)\s*$", line)
        gid = re.match(r"^\s*GID\[\s*(\d+)\]\s*:\s*(\S+?)(?:,\s*(.*))?$", line)
        field = re.match(r"^\s*([A-Za-z][\w ]*?)\s*:\s*(.*)$", line)
        if head:
            devices.append({"hca_id": head.group(1), "ports": []})
            port, last = None, ""
        elif not devices or re.match(r"^\s*Device ports:\s*$", line):
            continue
        elif port_head:
            port, last = {"port": int(port_head.group(1))}, ""
            devices[-1]["ports"].append(port)
        elif gid:
            (port if port is not None else devices[-1]).setdefault("gids", []).append(
                {"index": int(gid.group(1)), "gid": gid.group(2), "type": gid.group(3) or ""})
        elif field and not re.match(r"^\s*Unknown flags", line):
            last = clean.snake(field.group(1))
            _devinfo_field(port if port is not None else devices[-1], last, field.group(2).strip())
        elif last:
            (port if port is not None else devices[-1]).setdefault(last + "_flags", []).append(line.strip())
    if devices:
        return {"devices": devices}
    listed = _ibv_devices(found)
    if listed is not None:
        return {"devices": listed}
    message = "; ".join(line.strip() for line in found if line.strip())
    if not re.search(r"^\s*(?:No IB devices found|Failed to (?:get (?:IB devices list|page size)|open device|query (?:device props|port \d+ props|gid "
                     r"|pkey|sys))"
                     r"|IB device '\S+' (?:wasn't|was not) found|Invalid port requested|libibverbs: Warning|Usage: ibv_)", "\n".join(found), re.M | re.I):
        raise ParseError("ibv_devinfo", "no hca_id in it", "\n".join(found))
    return {"devices": [], "error": message}


def _devinfo_field(target, key, value):
    coded = CODE_SUFFIX.match(value)
    if key in ("state", "max_mtu", "active_mtu", "active_width", "active_speed", "phys_state", "transport", "max_vl_num"):
        target[key] = coded.group(1) if coded else value
        if coded:
            target[key + "_code"] = int(coded.group(2))
        if key.endswith("mtu"):
            target[key] = clean.number(target[key])
    elif key in ("port_lid", "sm_lid", "port_lmc", "phys_port_cnt", "vendor_part_id"):
        target[key] = clean.number(value)
    else:
        target[key] = value


def _ibv_devices(found):
    if not any(re.match(r"^\s*device\s+node GUID", line) or re.match(r"^\s*\d+ HCAs? found", line) for line in found):
        return None
    out = []
    for line in found:
        row = re.match(r"^\s*([A-Za-z][\w.-]*)(?:\s+([0-9a-f]{16}))?\s*$", line)
        if row:
            out.append({"hca_id": row.group(1), "node_guid": row.group(2) or "", "ports": []})
    return out


def parse_rdma_link(text):
    """rdma link, old and new form and JSON, and rdma dev. An InfiniBand link has no netdev but lids. No output is no link."""
    found = clean.lines("rdma_link", text)
    whole = "\n".join(found).strip()
    if whole[:1] == "[":
        try:
            data = json.loads(whole)
        except ValueError as err:
            raise ParseError("rdma_link", "not valid JSON (%s)" % err, whole)
        return _rdma_json(data, whole)
    out = {"links": []}
    known = not whole
    for line in found:
        link = LINK.match(line)
        device = re.match(r"^\s*(\d+):\s+([\w.-]+):\s+((?:node_type|pd|cq|qp|cm_id|mr|ctx|srq)\s.*)$", line)
        if link:
            out["links"].append(dict(_link(link.group(3), link.group(4), link.group(1)), **_words(link.group(5) or "")))
            known = True
        elif device:
            words = _words(device.group(3))
            out.setdefault("devices", []).append(dict(words, device=device.group(2), index=int(device.group(1))))
            known = True
        elif re.match(r"^\s*rdma utility, iproute2", line):
            out["version"], known = line.split("iproute2-")[-1].strip(), True
        elif re.match(r"^\s*netns (?:shared|exclusive)\b", line):
            out["system"] = _words(line)
            known = True
        elif re.match(r"^\s+(?:caps|dev_caps)\s*:", line) and out["links"]:
            out["links"][-1]["caps"] = re.findall(r"\w+", line.split(":", 1)[1])
    if not known:
        if not LINK_ERROR.match(next(line for line in found if line.strip())):
            raise ParseError("rdma_link", "no link in it", whole)
        out["error"] = "; ".join(line.strip() for line in found if line.strip())
    return out


def _link(device, port, index=None):
    return {"device": device, "port": int(port) if str(port).isdigit() else None, "index": int(index) if index else None, "state": "", "physical_state": "",
            "netdev": "", "subnet_prefix": "", "lid": None, "sm_lid": None, "lmc": None}


def _words(text):
    words, out = text.split(), {}
    for key, value in zip(words[::2], words[1::2]):
        key = key.replace("-", "_")
        out[key] = clean.number(value) if key in ("lid", "sm_lid", "lmc", "netdev_index") else value
    return out


def _rdma_json(data, whole):
    out = {"links": []}
    for entry in data:
        if not isinstance(entry, dict) or "ifname" not in entry or not {"port", "physical_state", "node_type", "node_guid"} & set(entry):
            raise ParseError("rdma_link", "JSON without RDMA links", whole)
        entry = dict(entry)
        name = entry.pop("ifname")
        if "port" not in entry and "state" not in entry:
            out.setdefault("devices", []).append(dict(entry, device=name, index=entry.get("ifindex")))
            continue
        if "/" in name:
            name, port = name.split("/", 1)
            entry.setdefault("port", port)
        link = _link(name, entry.pop("port", ""), entry.pop("ifindex", None))
        link.update(entry)
        out["links"].append(link)
    return out


def parse_ibdev2netdev(text):
    """RDMA device and port to network interface; it does not tell the link layer."""
    found = [line for line in clean.lines("ibdev2netdev", text) if line.strip()]
    out = []
    for line in found:
        match = re.match(r"^.*?([A-Za-z][\w.-]*)\s+(?:\(.*?\).*?)?port (\d+)\s+(?:\(\S+\)\s+)?==>\s+(\S+)\s+\((\w+)\)\s*$", line)
        if not match:
            raise ParseError("ibdev2netdev", "a line without ==>", line)
        out.append({"device": match.group(1), "port": int(match.group(2)), "netdev": match.group(3), "up": match.group(4) == "Up"})
    return {"ports": out}


def parse_show_gids(text):
    """The GID table of RoCE ports: index, GID, IPv4 address, RoCE version, interface."""
    found = clean.lines("show_gids", text)
    gids, count = [], None
    for line in found:
        row = re.match(r"^\s*(\S+)\s+(\d+)\s+(\d+)\s+([0-9a-f:]{15,39})(?:\s+(\d+\.\d+\.\d+\.\d+))?\s+(v\d(?:\.\d)?|IB/RoCE v1"
                       r"|RoCE v2)(?:\s+(\S+))?\s*$", line)
        total = re.match(r"^\s*n_gids_found=(\d+)", line)
        if row:
            gids.append({"device": row.group(1), "port": int(row.group(2)), "index": int(row.group(3)), "gid": row.group(4), "ipv4": row.group(5) or "",
                         "version": row.group(6), "netdev": row.group(7) or ""})
        elif total:
            count = int(total.group(1))
    if not gids and count is None:
        raise ParseError("show_gids", "no GID and no n_gids_found in it", "\n".join(found))
    return {"gids": gids, "count": len(gids) if count is None else count}
