# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""esxcli and its neighbours in the ESXi shell: tables, nested blocks, results and errors."""

import csv
import json
import re
from xml.etree import ElementTree

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

RULE = re.compile(r"^\s*-{2,}(?:\s+-{2,})*\s*$")
TAG = re.compile(r"^\s*\[(\w+)\]\s*$")
ERROR = re.compile(r"^\s*(?!Failed to (?:get IB|open NETLINK|modify)|Unable to (?:find the Infiniband|query port)|Cannot get driver"
                   r"|Error: (?:One or more|ipv|any valid)|Invalid (?:command:|benchmark name))(?:Error:|Errors?\s*:|Unable to\b|Unknown "
                   r"(?:command|namespace|option)"
                   r"|Connect to \S+ failed|Got no data from process|Invalid\b|Could not\b|Cannot\b"
                   r"|Can't\b|Failed (?!status)|No such\b|Permission denied\b|Not (?:found|allowed|permitted)\b|The (?:host|system|operation)\b.*\b(?:not"
                   r"|cannot|already)\b"
                   r"|Device owner(?:ship)?\b|Module \S+ (?:not|could)|.*\bis not (?:in maintenance|supported)|\w*(?:Error|Fault|Exception)\b)", re.I)
REFER = re.compile(r"^\s*Please refer to the log file", re.I)
DETAIL = re.compile(r"^\s*(url|cause|vibs|filename|errno|description|bulletins?|components?)\s*=\s*(.*)$")
TYPE = (r"(?:array of )?(?:unsigned |signed )?(?:u?int(?:8|16|32|64)?|u?short|u?long(?: long)?|u?llong|ulonglong|longlong|bool(?:ean)?|byte|u?char"
        r"|charp|string|hex)"
        r"(?:\[\])?(?:,? ?array)?")
PCI_BLOCK = re.compile(r"^\s*([0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s*$", re.I)
CSV_HEAD = r"[A-Z]\w+(?:,[A-Z]\w+)+,?"
LEVELS = ("VMwareCertified", "VMwareAccepted", "PartnerSupported", "CommunitySupported")
VIB_ROW = re.compile(r"^\s*(\S+)\s+(\S*\d\S*)\s+(\S+(?: \S+)*?)\s+(%s)(?:\s+(\d{4}-\d{2}-\d{2}))?(?:\s+(\S.*?))?\s*$" % "|".join(LEVELS))
RESULT_KEY = re.compile(r"^\s*(Message|Reboot Required|(?:VIBs|Components) (?:Installed|Removed|Skipped)|DPU Results?)\s*:\s*(.*)$")
KEYVALUE = re.compile(r"^\s*(?:\w+\.)*?(Message|RebootRequired|VIBs(?:Installed|Removed|Skipped)|Components(?:Installed|Removed|Skipped)|DPUResults?)"
                      r"\.\w+(?:\[\])?\s*=\s*(.*)$")


def error(text):
    """The error that esxcli printed, as a dict with error and what else can be told; {} where the text is none."""
    found = [line for line in clean.lines("esxcli", text) if line.strip()]
    if not found:
        return {}
    tag = TAG.match(found[0])
    if not tag and not ERROR.match(found[0]):
        return {}
    out = {"error": "", "tag": tag.group(1) if tag else ""}
    body, details = [], {}
    for line in found[1:] if tag else found:
        detail = DETAIL.match(line)
        if REFER.match(line):
            continue
        if detail:
            details[detail.group(1)] = detail.group(2).strip()
        elif re.match(r"^\s*(?:Usage:|Description:|Cmd options:)", line):
            out["usage"] = True
            break
        else:
            body.append(line.strip())
    message = " ".join(body)
    out["lines"] = body
    missing = re.match(r"^Error: Missing required parameter (\S+)", message)
    if missing:
        out["parameter"] = missing.group(1)
    out["error"] = re.sub(r"^Errors?:\s*", "", message) or out["tag"]
    if details:
        out["details"] = details
    return out


def table(text, tool="esxcli", fallback=None):
    """The rows of a table as dicts by column title, cut by the rule of dashes: a blank cell is just blanks, a cell may hold blanks.

    fallback(line, titles) reads a row whose columns lost their place (blanks squeezed by a document).
    """
    found = clean.lines(tool, text)
    at = next((index for index, line in enumerate(found) if RULE.match(line)), None)
    if at is None:
        raise ParseError(tool, "no table: the rule of dashes is missing", "\n".join(found))
    starts = [match.start() for match in re.finditer(r"-+", found[at])]
    header = next((line for line in reversed(found[:at]) if line.strip()), "")
    titles = _titles(header, starts)
    rows = []
    for line in found[at + 1:]:
        if not line.strip() or RULE.match(line):
            continue
        cells = _cut(line, starts)
        if cells is None:
            cells = fallback(line, titles) if fallback else None
            if cells is None:
                cells = _by_blanks(line, len(titles))
        if cells is None:
            raise ParseError(tool, "a row does not fit the %d columns of its table" % len(titles), line)
        rows.append(dict(zip(titles, cells)))
    return {"titles": titles, "rows": rows}


def _titles(header, starts):
    cells = _cut(header, starts)
    if cells is not None and all(cells):
        return cells
    cells = [cell for cell in re.split(r"\s{2,}", header.strip()) if cell]
    if len(cells) == len(starts):
        return cells
    words = header.split()
    if len(words) == len(starts):
        return words
    return _known_titles(header, len(starts)) or ["column_%d" % (index + 1) for index in range(len(starts))]


TITLES = (
    "Auto Negotiation Resolution Avail", "RX Auto Negotiation Resolution", "TX Auto Negotiation Resolution", "Pause Params Supported", "Acceptance Level",
    "Install Date", "Device ID", "PCI Device", "Admin Status", "Link Status", "MAC Address", "Paired Uplink", "VF ID", "PCI Address", "Owner World ID",
    "Pause RX", "Pause TX", "Auto Negotiation", "Creation Date", "Display Name", "Display Version", "Port Group", "World ID")


def _known_titles(header, count):
    found = re.findall("|".join(re.escape(title) for title in TITLES) + r"|\S+", header)
    return found if len(found) == count else None


def _cut(line, starts):
    """The cells of a line by the columns' starts; None where a column would start inside a word."""
    cells = []
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else None
        if 0 < start < len(line) and line[start - 1] != " " and line[start] != " ":
            return None
        cells.append(line[start:end].strip())
    return cells


def _by_blanks(line, count):
    cells = re.split(r"\s{2,}", line.strip())
    if len(cells) == count:
        return cells
    words = line.split(None, count - 1)
    if len(words) == count:
        return words
    return None


def nested(text, tool="esxcli"):
    """Key: value lines as a dict; deeper lines under a key without value become a dict of their own."""
    root, stack, count = {}, [], 0
    for line in clean.lines(tool, text):
        match = re.match(r"^(\s*)([^:]+?)\s*:(?:\s+(.*))?$", line)
        if not match:
            continue
        indent, key, value = len(match.group(1)), match.group(2).strip(), (match.group(3) or "").strip()
        while stack and stack[-1][0] >= indent:
            stack.pop()
        parent = stack[-1] if stack else None
        target = root
        if parent is not None:
            holder, name = parent[1], parent[2]
            if not isinstance(holder[name], dict):
                holder[name] = {}
            target = holder[name]
        target[key] = value
        count += 1
        if not value:
            stack.append((indent, target, key))
    if not count:
        raise ParseError(tool, "no key with a value in it", text)
    return root


def formatted(text):
    """Rows of --formatter=json, csv or xml with snake_case keys; None where the text is none of them."""
    found = clean.lines("esxcli", text)
    start = next((number for number, line in enumerate(found[:20]) if re.match(r"^\s*(?:[\[{]\s*$|[\[{].*[\]}\"]|%s$)" % CSV_HEAD, line)), 0)
    whole = "\n".join(found[start:]).strip()  # a banner may stand above it
    rows = None
    if whole[:1] in "[{" and whole:
        try:
            data = json.loads(whole)
        except ValueError:
            return None
        rows = data if isinstance(data, list) else [data]
    elif "<output" in whole[:400] and "</output>" in whole:
        rows = _xml_rows(whole[whole.index("<output"):whole.rindex("</output>") + 9])
    elif re.match("^%s$" % CSV_HEAD, whole.split("\n", 1)[0]):
        rows = [dict((key, value) for key, value in row.items() if key) for row in csv.DictReader(whole.split("\n"))]
    if rows is None or not all(isinstance(row, dict) for row in rows):
        return None
    return [dict((clean.snake(key), value) for key, value in row.items()) for row in rows]


def _xml_rows(body):
    try:
        root = ElementTree.fromstring(re.sub(r'\sxmlns="[^"]*"', "", body, count=1))
    except ElementTree.ParseError:
        return None
    rows = []
    for structure in root.iter("structure"):
        row = {}
        for field in structure.findall("field"):
            items = [(item.text or "").strip() for item in field.iter() if item is not field and not len(item)]
            row[field.get("name")] = items if field.find("list") is not None else (items[0] if items else (field.text or "").strip())
        rows.append(row)
    return rows


def _failed(text, tool, why):
    found = error(text)
    if not found:
        raise ParseError(tool, why, text)
    return found


def _vib_fallback(line, titles):
    match = VIB_ROW.match(line)
    if not match:
        return None
    cells = [cell or "" for cell in match.groups()]
    return (cells + [""])[:len(titles)]


def _vib(name, version, vendor, level, date, platforms=""):
    return {"name": name, "version": version, "vendor": vendor, "acceptance_level": level, "install_date": date, "platforms": platforms}


def parse_vib_list(text):
    """software vib list (also through grep, or from a formatter) and the blocks of software vib get."""
    found = clean.lines("vib_list", text)
    whole = "\n".join(found)
    rows = formatted(text)
    if rows is not None:
        if any("name" not in row or "version" not in row for row in rows):
            raise ParseError("vib_list", "the rows have no name and version", whole)
        vibs = [_vib(*[_plain(row.get(key, "")) for key in ("name", "version", "vendor", "acceptance_level", "install_date", "platforms")]) for row in rows]
        return {"vibs": [vib for vib in vibs if _is_vib(vib)]}
    if any(RULE.match(line) for line in found):
        read = table(text, "vib_list", _vib_fallback)
        titles = [clean.snake(title) for title in read["titles"]]
        if titles[:2] == ["column_1", "column_2"]:
            names = ("name", "version", "vendor", "acceptance_level", "install_date", "platforms")
            read["rows"] = [dict(zip(names, [row[title] for title in read["titles"]])) for row in read["rows"]]
        elif "name" not in titles or "version" not in titles or "acceptance_level" not in titles:
            raise ParseError("vib_list", "a table with other columns (%s)" % ", ".join(read["titles"]), whole)
        vibs = []
        for row in read["rows"]:
            cells = dict((clean.snake(title), value) for title, value in row.items())
            if cells.get("acceptance_level") not in LEVELS and VIB_ROW.match("  ".join(row.values())):
                vibs.append(_vib(*[cell or "" for cell in VIB_ROW.match("  ".join(row.values())).groups()]))
                continue
            vibs.append(_vib(*[cells.get(key, "") for key in ("name", "version", "vendor", "acceptance_level", "install_date", "platforms")]))
        return {"vibs": [vib for vib in vibs if _is_vib(vib)]}
    blocks = _vib_blocks(found)
    if blocks:
        return {"vibs": blocks}
    matches = [VIB_ROW.match(line) for line in _below_banner(found, VIB_ROW.match) if line.strip() and not re.match(r"^\s*Name\s+Version\b", line)]
    if matches and all(matches):
        return {"vibs": [_vib(*[cell or "" for cell in match.groups()]) for match in matches]}
    return dict(_failed(text, "vib_list", "no list of VIBs in it"), vibs=[])


def _keep(block, key, value, tool):
    """A key that comes twice with two values means that the line between two blocks is lost."""
    if block.get(key, value) != value:
        raise ParseError(tool, "%s is said twice in one block, as %s and %s" % (key, block[key], value))
    block[key] = value


def _is_vib(vib):
    """A row of the list, and not a message of the host in the middle of it."""
    return bool(re.match(r"^[\w.+-]+$", vib["name"]) and re.search(r"\d", vib["version"]) and vib["acceptance_level"] in LEVELS + ("",))


def _below_banner(found, fits):
    """The lines after the paragraph that a login banner is: the last blank line before the first line that fits."""
    first = next((number for number, line in enumerate(found) if fits(line)), 0)
    blank = [number for number, line in enumerate(found[:first]) if not line.strip()]
    return found[blank[-1]:] if blank else found


def _plain(value):
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value or "")


def _vib_blocks(found):
    blocks = []
    for line in found:
        match = re.match(r"^\s*([A-Z][A-Za-z ]+):\s*(.*)$", line)
        if match and match.group(1) == "Name":
            blocks.append({})
        if match and blocks:
            _keep(blocks[-1], clean.snake(match.group(1)), match.group(2).strip(), "vib_list")
    out = []
    for block in blocks:
        if "version" not in block or "vendor" not in block:
            return []
        vib = dict(_vib("", "", "", "", ""), **block)
        for key in ("maintenance_mode_required", "live_install_allowed", "live_remove_allowed", "stateless_ready", "overlay"):
            if key in block:
                vib[key] = clean.boolean(block[key])
        out.append(vib)
    return out


def _continues(key, text):
    """Whether a line goes on with the value above it: words of a message, or more identifiers of VIBs."""
    if key.split("_")[0] not in ("vibs", "components"):
        return bool(text) and not re.match(r"^-[EWID]-|^WARNING\b|^[\w ]+:", text)
    return all(re.match(r"^\S+_\S*\d\S*$", item) and re.search(r"[.-]", item) for item in re.split(r",\s*", text.rstrip(",")))


def parse_vib_result(text):
    """The result of vib/component/profile install, update and remove, read by key: ESXi 8 has another order than 7."""
    found = clean.lines("vib_result", text)
    out = {"message": "", "reboot_required": None, "installed": [], "removed": [], "skipped": [], "dpu_results": ""}
    key, known = "", set()
    rows = formatted(text)
    if rows:
        found = ["%s: %s" % (re.sub(r"^Vibs ", "VIBs ", name.replace("_", " ").title()).replace("Dpu", "DPU"),
                             _plain(value) if value is not False else "false")
                 for row in rows for name, value in row.items()]
    for line in found:
        match = RESULT_KEY.match(line)
        value_match = KEYVALUE.match(line)
        if match:
            key, value = clean.snake(match.group(1)), match.group(2)
        elif value_match:
            key, value = clean.snake(value_match.group(1)), value_match.group(2)
        elif key and re.match(r"^\s", line) and not TAG.match(line) and _continues(key, line.strip()):
            value = line.strip()  # a long list of VIBs broken by a terminal
        else:
            key = key if line.strip() else ""
            continue
        known.add(key)
        value = value.strip()
        if key == "message":
            out["message"] = ("%s %s" % (out["message"], value)).strip()
        elif key == "reboot_required":
            out["reboot_required"] = clean.boolean(value)
        elif key.startswith("dpu"):
            out["dpu_results"] = ("%s %s" % (out["dpu_results"], value)).strip()
        else:
            kind = key.split("_")[-1]
            out[kind].extend(name.strip() for name in value.split(",") if name.strip())
    sure = known & {"message", "reboot_required", "vibs_installed", "vibs_removed", "vibs_skipped", "components_installed"}
    if len(sure) >= 2 or (sure and any(KEYVALUE.match(line) for line in found)):
        out["changed"] = bool(out["installed"] or out["removed"]) and not re.search(r"host is not changed|dryrun", out["message"], re.I)
        return out
    return dict(_failed(text, "vib_result", "no installation result in it"), reboot_required=None, installed=[], removed=[], skipped=[])


def _parameter_fallback(line, titles):
    match = re.match(r"^\s*(\w+)\s+(%s)(?=\s|$)\s*(.*)$" % TYPE, line)
    if not match:
        return None
    rest = match.group(3)
    value = re.match(r"^(-?\d+(?:,-?\d+)*|0x[0-9a-fA-F]+(?:,0x[0-9a-fA-F]+)*)(?:\s+|$)", rest)
    cells = [match.group(1), match.group(2), value.group(1) if value else "", rest[value.end():] if value else rest]
    return (cells + [""] * len(titles))[:len(titles)]


def parse_module_parameters(text):
    """system module parameters list: a type of several words, a value that may be empty, a description that may span lines."""
    found = clean.lines("module_parameters", text)
    whole = "\n".join(found)
    rows = formatted(text)
    if rows is not None:
        if not all("name" in row and "type" in row and "value" in row for row in rows):
            raise ParseError("module_parameters", "rows without name, type and value", whole)
        return {"parameters": dict((row.get("name", ""), {"type": _plain(row.get("type")), "value": _plain(row.get("value")),
                                                          "description": _plain(row.get("description"))}) for row in rows)}
    at, starts = next((index for index, line in enumerate(found) if RULE.match(line)), None), []
    if at is not None:
        starts = [match.start() for match in re.finditer(r"-+", found[at])]
        header = next((line for line in reversed(found[:at]) if line.strip()), "")
        if header and not re.match(r"^\s*Name\s+Type\s+Value\b", header):
            raise ParseError("module_parameters", "a table with other columns", whole)
    else:  # rows through grep
        at = next((index for index, line in enumerate(found) if line.strip() and not re.match(r"^\s*Name\s+Type\s+Value\b", line)), 0) - 1
        if not _parameter_fallback(found[at + 1], ["name", "type", "value", "description"]):
            return dict(_failed(text, "module_parameters", "no table of parameters in it"), parameters={})
    out, last = {}, None
    for line in found[at + 1:]:
        if not line.strip():
            continue
        cells = _cut(line, starts) if not line.startswith(" ") else None
        if cells is not None and (len(cells) < 4 or not re.match(r"^\w+$", cells[0]) or not re.match(r"^%s$" % TYPE, cells[1])
                                  or (not cells[2] and re.match(r"^(?:-?\d+(?:,-?\d+)*|0x[0-9a-fA-F,x]+)(?:\s{2,}|$)", cells[3]))):
            cells = None  # the row is wider than its heading
        if cells is None:
            cells = _parameter_fallback(line, ["name", "type", "value", "description"])
        if cells is not None:
            last = {"type": cells[1], "value": cells[2], "description": cells[3]}
            out[cells[0]] = last
        elif last is not None:
            last["description"] = ("%s\n%s" % (last["description"], line.strip())).strip()
        else:
            raise ParseError("module_parameters", "a row that does not start with name and type", line)
    for parameter in out.values():
        default = re.search(r"\bDefault\s*:\s*(\S+)", parameter["description"], re.I)
        if default:
            parameter["default"] = default.group(1).rstrip(".,;)")
    return {"parameters": out}


def parse_esxcfg_module(text):
    """esxcfg-module -g MODULE: the option string that is configured for the next load."""
    match = re.search(r"^\s*(\S+) enabled = (\d) options = '(.*)'\s*$", "\n".join(clean.lines("esxcfg-module", text)), re.M)
    if not match:
        raise ParseError("esxcfg-module", "no line MODULE enabled = N options = '...'", text)
    return {"module": match.group(1), "enabled": match.group(2) == "1", "options": parse_options(match.group(3))}


def parse_options(text):
    """a=1 b=2,2 as a dict."""
    return dict((word.split("=", 1) + [""])[:2] for word in (text or "").split())


def join_options(options):
    """The one string that module parameters set takes."""
    return " ".join("%s=%s" % (name, options[name]) for name in options)


def parse_pcipassthru(text):
    """hardware pci pcipassthru list, or the answer of set; a state that is already there is an error of the tool, marked unchanged."""
    found = clean.lines("pcipassthru", text)
    if any(RULE.match(line) for line in found):
        read = table(text, "pcipassthru")
        titles = [clean.snake(title) for title in read["titles"]]
        if "enabled" not in titles or titles[0] not in ("device_id", "address"):
            raise ParseError("pcipassthru", "a table with other columns (%s)" % ", ".join(read["titles"]), "\n".join(found))
        rows = [list(row.values()) for row in read["rows"]]
        devices = [{"address": clean.pci_address(row[0]), "enabled": clean.boolean(row[titles.index("enabled")])} for row in rows]
        return {"devices": [device for device in devices if device["address"] and device["enabled"] is not None]}
    rows = formatted(text)
    if rows and all("device_id" in row for row in rows):
        return {"devices": [{"address": row["device_id"], "enabled": clean.boolean(str(row.get("enabled")))} for row in rows]}
    rows = [re.match(r"^\s*(\S+)\s+(true|false)\s*$", line, re.I) for line in found if line.strip() and not re.match(r"^\s*Device ID\s+Enabled", line)]
    if rows and all(row and clean.pci_address(row.group(1)) for row in rows):
        return {"devices": [{"address": clean.pci_address(row.group(1)), "enabled": clean.boolean(row.group(2))} for row in rows]}
    if not any(line.strip() for line in found):
        return {"devices": []}  # set prints nothing when it worked
    out = dict(_failed(text, "pcipassthru", "no list of devices and no answer of set in it"), devices=[])
    already = re.search(r"already configured to (\w+)", out["error"])
    used = re.search(r"used by vswitch (\S+)(?: for uplink (\S+))?", out["error"], re.I)
    out["unchanged"] = bool(already)
    if already:
        out["owner"] = already.group(1)
    if used:
        out["vswitch"], out["uplink"] = used.group(1), (used.group(2) or "").rstrip(".")
    return out


def parse_pci_list(text):
    """hardware pci list: an address line, then its fields."""
    found = clean.lines("pci_list", text)
    devices = []
    for line in found:
        head = PCI_BLOCK.match(line)
        field = re.match(r"^\s*([A-Z][A-Za-z ]*?)\s*:\s*(.*)$", line)
        if head:
            devices.append({"address": clean.pci_address(head.group(1)) or head.group(1)})
        elif field:
            key, value = clean.snake(field.group(1)), field.group(2).strip()
            if key == "address" and (not devices or "segment" in devices[-1] or "bus" in devices[-1]):
                devices.append({})
            if devices:
                _keep(devices[-1], key, (clean.pci_address(value) or value) if key == "address" else value, "pci_list")
    if not devices or not any(len(device) > 1 for device in devices):
        return dict(_failed(text, "pci_list", "no PCI device with fields in it"), devices=[])
    for device in devices:
        for key in ("passthru_capable", "fpt_sharable"):
            if key in device:
                device[key] = clean.boolean(device[key])
    return {"devices": devices}


NIC = re.compile(r"^\s*(\S+)\s+([0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|N/A)\s+(\S+)\s+(Up|Down)\s+(?:(Up|Down)\s+)?(\d+)(?:Mbps)?\s+(Full"
                 r"|Half|Auto|\S+)\s+"
                 r"((?:[0-9a-f]{2}:){5}[0-9a-f]{2})\s+(\d+)(?:\s+(.*))?$", re.I)


NIC_COLUMNS = ("name", "pci_device", "driver", "admin_status", "link_status", "speed", "duplex", "mac_address", "mtu", "description")
MAC = re.compile(r"^(?:[0-9a-f]{2}:){5}[0-9a-f]{2}$", re.I)


def parse_nic_list(text):
    """network nic list, esxcfg-nics -l and network nic get."""
    found = clean.lines("nic_list", text)
    whole = "\n".join(found)
    rows = formatted(text)
    if rows is not None and rows and all("name" in row and "mac_address" in row for row in rows):
        return {"nics": [_nic(row) for row in rows]}
    if any(RULE.match(line) for line in found):
        read = table(text, "nic_list", lambda line, titles: _nic_cells(line))
        titles = [clean.snake(title) for title in read["titles"]]
        if "pci_device" not in titles or "mac_address" not in titles:
            raise ParseError("nic_list", "a table with other columns (%s)" % ", ".join(read["titles"]), whole)
        nics = []
        for row in read["rows"]:
            cells = dict((clean.snake(title), value) for title, value in row.items())
            if not MAC.match(cells.get("mac_address", "")) or not (clean.pci_address(cells.get("pci_device", "")) or cells.get("pci_device") == "N/A"):
                again = _nic_cells("  ".join(row.values()))
                if again is None:
                    continue  # a message of the host in the middle of the table
                cells = dict(zip(NIC_COLUMNS, again))
            nics.append(_nic(cells))
        return {"nics": nics}
    rows = [line for line in _below_banner(found, _nic_cells) if line.strip() and not re.match(r"^\s*Name\s+PCI\b", line)]
    matches = [_nic_cells(line) for line in rows]
    if matches and all(matches):
        return {"nics": [_nic(dict(zip(NIC_COLUMNS, cells))) for cells in matches]}
    if re.search(r"^\s*Driver Info\s*:\s*$", whole, re.M):
        return {"nics": [_nic_get(whole)]}
    return dict(_failed(text, "nic_list", "no list of network cards in it"), nics=[])


def _nic_cells(line):
    match = NIC.match(line)
    if not match:
        return None
    cells = [cell or "" for cell in match.groups()]
    if not cells[4]:  # esxcfg-nics prints the link state alone
        cells[4], cells[3] = cells[3], ""
    return cells


def _nic(cells):
    out = dict((key, _plain(cells.get(key))) for key in ("name", "pci_device", "driver", "admin_status", "link_status", "duplex", "mac_address",
                                                         "description"))
    out["pci_device"] = clean.pci_address(out["pci_device"]) or out["pci_device"]
    out["speed"], out["mtu"] = clean.real(re.sub(r"\D.*$", "", str(cells.get("speed", "")))), clean.real(cells.get("mtu"))
    return out


def _nic_get(whole):
    fields = nested(whole, "nic_list")
    driver = fields.get("Driver Info") if isinstance(fields.get("Driver Info"), dict) else fields  # a paste may have lost its indentation
    out = _nic({"name": fields.get("Name", ""), "link_status": fields.get("Link Status", ""), "driver": driver.get("Driver", ""),
                "pci_device": driver.get("Bus Info", "")})
    out.update(driver_version=driver.get("Version", ""), firmware_version=driver.get("Firmware Version", ""), fields=fields)
    return out


def parse_version(text):
    """system version get, or vmware -v."""
    whole = "\n".join(clean.lines("version", text))
    short = re.search(r"^\s*(VMware ESXi?) (\d[\d.]*) build-(\d+)", whole, re.M)
    if short:
        return {"product": short.group(1), "version": short.group(2), "build": "Releasebuild-" + short.group(3), "build_number": int(short.group(3)),
                "update": "", "patch": ""}
    fields = dict((clean.snake(match.group(1)), match.group(2).strip())
                  for match in re.finditer(r"^\s*(Product|Version|Build|Update|Patch)\s*:\s*(.*)$", whole, re.M))
    if "version" not in fields:
        return _failed(text, "version", "no Version line in it")
    out = {"product": "", "version": "", "build": "", "update": "", "patch": ""}
    out.update(fields)
    digits = re.search(r"(\d+)$", out["build"])
    out["build_number"] = int(digits.group(1)) if digits else None
    return out


def parse_maintenance_mode(text):
    """system maintenanceMode get."""
    word = "\n".join(clean.lines("maintenanceMode", text)).strip()
    if word.lower() in ("enabled", "disabled"):
        return {"enabled": word.lower() == "enabled"}
    return _failed(text, "maintenanceMode", "neither Enabled nor Disabled")


def parse_acceptance(text):
    """software acceptance get, or the answer of set."""
    word = "\n".join(clean.lines("acceptance", text)).strip()
    changed = re.match(r"^Host acceptance level changed to '?(\w+)'?\.?$", word)
    if changed or word in LEVELS:
        return {"level": changed.group(1) if changed else word}
    return _failed(text, "acceptance", "no acceptance level in it")


def parse_rdma_devices(text):
    """rdma device list."""
    read = table(text, "rdma device list")
    return {"devices": [dict((clean.snake(title), value) for title, value in row.items()) for row in read["rows"]]}


def vib_install_args(path, force=False, no_sig_check=False, dry_run=False):
    """-v for a VIB, -d for a bundle; the path has to be absolute, a relative one is looked up under /var/log/vmware."""
    args = ["software", "vib", "install", "-d" if path.lower().endswith(".zip") else "-v", path]
    return args + ["--force"] * bool(force) + ["--no-sig-check"] * bool(no_sig_check) + ["--dry-run"] * bool(dry_run)


def vib_remove_args(name, dry_run=False):
    return ["software", "vib", "remove", "-n", name] + ["--dry-run"] * bool(dry_run)


def module_set_args(module, options):
    """The whole option string: what is not in it is cleared."""
    return ["system", "module", "parameters", "set", "-m", module, "-p", join_options(options)]


def pcipassthru_set_args(address, enabled, apply_now=False):
    return ["hardware", "pci", "pcipassthru", "set", "-d", address, "-e", "true" if enabled else "false"] + ["-a"] * bool(apply_now)
