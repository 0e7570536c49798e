# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mlxfwmanager / mlxup: which firmware the cards run, what is available, how an update went."""

import re
from xml.etree import ElementTree

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

DEVICE = re.compile(r"^\s*Device #(\d+):\s*$")
UPDATING = re.compile(r"^\s*Device #(\d+):\s*(?:Updating FW|Burning|Flashing|Updating)\b\s*(?:\.\.\.)?\s*(.*)$", re.I)
LABEL = re.compile(r"^\s*(Device Type|Part Number|Description|PSID|PCI Device Name|Base GUID|Base MAC|Port ?\d+ GUID|Port ?\d+ MAC|Versions"
                   r"|Status)\s*:\s*(.*)$", re.I)
OTHER_LABEL = re.compile(r"^\s*([A-Z][A-Za-z0-9 ()/]{1,24}):(?:\s{2,}(\S.*))?$")
RESULT = re.compile(r"(?:^|\s)(Done|Fail(?:ed)?\s*:\s*.*|Fail(?:ed)?|Interrupted.*)\s*$")
STEP = re.compile(r"^(.*?)\s*-\s+(OK|Failed|FAILED|Skipped)\s*(.*)$")
FOUND = re.compile(r"Found (\d+) device\(s\) requiring firmware update", re.I)
VERSION = re.compile(r"^\s*(mlxfwmanager|mstfwmanager|mlxup)\s*,?\s+(?:(mft|mstflint)\s+)?v?([\d][\w.-]*)", re.I)
NO_DEVICE = re.compile(r"No devices? (?:were )?found", re.I)


def parse(text):
    """Devices with PSID, versions and status; and, of an update, its result per device. "No matching image found" is no error."""
    found = clean.lines("mlxfwmanager", text)
    whole = "\n".join(found)
    if "<Devices" in whole:
        return _from_xml(whole, found)
    out = {"devices": [], "updates": [], "restart_needed": False}
    device, update, label, known = None, None, "", False
    for line in found:
        stripped = line.strip()
        if not stripped or re.match(r"^-+$", stripped):
            continue
        head, updating, named = DEVICE.match(line), UPDATING.match(line), LABEL.match(line)
        if head:
            again = out["devices"][-1] if out["devices"] else None
            update, label = None, ""
            if again == _device(int(head.group(1))):  # the heading stands there twice
                device = again
                continue
            device = _device(int(head.group(1)))
            out["devices"].append(device)
        elif updating:
            update, device, label, known = {"device": int(updating.group(1)), "steps": [], "result": ""}, None, "", True
            out["updates"].append(update)
            _progress(update, updating.group(2))
        elif named and device is not None:
            label = clean.snake(named.group(1))
            known = known or label in ("psid", "part_number", "versions", "pci_device_name")
            _label(device, label, named.group(2).strip())
        elif re.match(r"^Querying (?:Mellanox|NVIDIA)? ?devices firmware", stripped, re.I):
            known = True
        elif FOUND.search(line):
            out["requiring_update"], known, device = int(FOUND.search(line).group(1)), True, None
        elif re.match(r"^All listed device\(s\) firmware images are up to date", stripped, re.I):
            out["requiring_update"], known, device = 0, True, None
        elif re.match(r"^Perform FW update\?", stripped):
            answer = re.search(r"\]\s*:\s*(\w*)", stripped)
            out["answer"], known, device = answer.group(1) if answer else "", True, None
        elif re.match(r"^Restart needed\b", stripped, re.I):
            out["restart_needed"], known, update = True, True, None
        elif re.match(r"^Log File:", stripped, re.I):
            out["log"] = stripped.split(":", 1)[1].strip()
        elif re.match(r"^Release notes for the available", stripped, re.I):
            label, device, out["release_notes"] = "release_notes", None, []
        elif re.match(r"^-[EWID]-", stripped):
            continue
        elif VERSION.match(line):
            out["version"], known = VERSION.match(line).group(3), True
        elif update is not None:
            _progress(update, stripped)
        elif label == "versions" and device is not None and _version_row(device, stripped):
            continue
        elif label == "release_notes":
            out["release_notes"].append(stripped)
        elif device is not None and OTHER_LABEL.match(line):
            other = OTHER_LABEL.match(line)
            label = clean.snake(other.group(1))
            device["other"][other.group(1).strip()] = (other.group(2) or "").strip()
        elif label in ("description", "status") and device is not None and not re.match(r"^(?:WARNING\b|The time and date\b)", stripped):
            device[label] = ("%s %s" % (device[label], stripped)).strip()
    return _finish(out, found, whole, known)


def _device(index):
    return {"index": index, "device_type": "", "part_number": "", "description": "", "psid": "", "pci_name": "", "pci": "", "macs": {}, "guids": {},
            "versions": {}, "fw": "", "fw_running": "", "fw_available": "", "status": "", "other": {}}


def _label(device, label, value):
    """A label that comes twice with two values means that the heading between two devices is lost."""
    before = device["pci_name"] if label == "pci_device_name" else device.get(label)
    if before and value and before != value and label in ("pci_device_name", "psid", "part_number", "device_type"):
        raise ParseError("mlxfwmanager", "one device has two values of %s" % label, "%s, %s" % (before, value))
    if label == "pci_device_name":
        device["pci_name"], device["pci"] = value, clean.pci_address(value)
    elif label.endswith("mac"):
        device["macs"][label[:-4].replace(" ", "")] = value
    elif label.endswith("guid"):
        device["guids"][label[:-5].replace(" ", "")] = value
    elif label != "versions":
        device[label] = value


def _version_row(device, line):
    """FW, FW (Running), PXE, UEFI, UEFI Virtio blk ...: the name ends where the first version starts."""
    cells = line.split()
    first = next((index for index, cell in enumerate(cells) if index and re.match(r"^(?:\d|--$|N/A$|-$)", cell)), None)
    if first is None or len(cells) - first > 3:
        return False
    name = " ".join(cells[:first])
    if not re.match(r"^[A-Za-z][\w ()/.-]*$", name):
        return False
    if device["versions"].get(name, {"current": cells[first]})["current"] != cells[first]:
        raise ParseError("mlxfwmanager", "one device has two versions of %s" % name, line)
    device["versions"][name] = {"current": cells[first], "available": cells[first + 1] if len(cells) > first + 1 else ""}
    return True


def _progress(update, text):
    result = RESULT.search(text)
    if result:
        update["result"] = re.sub(r"\s+", " ", result.group(1).strip())
        text = text[:result.start()]
    step = STEP.match(text.strip())
    if step:
        update["steps"].append({"step": step.group(1).strip(), "result": step.group(2)})


def _from_xml(whole, found):
    start, end = whole.index("<Devices"), whole.rfind("</Devices>")
    empty = re.match(r"<Devices\s*/>", whole[start:])
    if end < 0 and not empty:
        raise ParseError("mlxfwmanager", "the XML ends before </Devices>", whole[start:])
    body = empty.group(0) if empty else whole[start:end + len("</Devices>")]
    body = re.sub(r"&(?!(?:amp|lt|gt|quot|apos|#\w+);)", "&amp;", body)
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as err:
        raise ParseError("mlxfwmanager", "the XML cannot be read (%s)" % err, body)
    out = {"devices": [], "updates": [], "restart_needed": bool(re.search(r"^\s*Restart needed", whole, re.M))}
    for index, node in enumerate(root.findall("Device"), 1):
        device = _device(index)
        device.update(device_type=node.get("type") or "", part_number=node.get("partNumber") or "", psid=node.get("psid") or "")
        _label(device, "pci_device_name", node.get("pciName") or "")
        for parent in node.findall("Versions"):
            for row in parent:
                device["versions"][row.tag] = {"current": row.get("current") or "", "available": row.get("available") or ""}
        for tag, key in (("MACs", "macs"), ("GUIDs", "guids")):
            for child in node.findall(tag):
                device[key].update((re.sub(r"_?(?:mac|guid)s?$", "", name, flags=re.I).lower() or name.lower(), value)
                                   for name, value in child.attrib.items())
        device["status"] = (node.findtext("Status") or "").strip()
        device["description"] = (node.findtext("Description") or "").strip()
        out["devices"].append(device)
    return _finish(out, found, whole, True)


def _finish(out, found, whole, known):
    for device in out["devices"]:
        versions = device["versions"]
        flash = versions.get("FW", {})
        running = versions.get("FW (Running)") or versions.get("FW_Running_") or versions.get("FW_Running") or flash
        device["fw"], device["fw_available"] = flash.get("current", ""), flash.get("available", "")
        device["fw_running"] = running.get("current", "")
        if device["status"] == "Failed to open device":
            device["error"] = device["status"]
    warnings = clean.mft_warnings(found)
    if warnings:
        out["warnings"] = warnings
    errors = clean.mft_errors(found)
    failed = ["device #%d: %s" % (update["device"], update["result"]) for update in out["updates"]
              if re.match(r"Fail|Interrupted", update["result"])]
    if not errors and not out["devices"] and NO_DEVICE.search(whole):
        errors = [line.strip() for line in found if NO_DEVICE.search(line)]
    if failed or (errors and (known or clean.error_alone(found) or NO_DEVICE.search(whole))):
        out["error"] = "; ".join(errors + failed)
    elif not known:
        raise ParseError("mlxfwmanager", "no device list and no -E- line in it", whole)
    return out


def query_args(device="", xml=True, source=()):
    """A read-only query; XML because Description and versions need no guessing there. source: where images come from, see source_args()."""
    return (["-d", device] if device else []) + list(source) + ["--query"] + (["--query-format", "XML"] if xml else [])


def source_args(directory=""):
    """The images of a directory of the host, or of the vendor's server."""
    return ["-D", directory] if directory else ["--online"]


def update_args(device, source, downgrade=False):
    """Burn what the source has for this card; an older image only when told to."""
    return ["-d", device] + list(source) + ["-u", "-y", "--no-progress"] + (["-f"] if downgrade else [])
