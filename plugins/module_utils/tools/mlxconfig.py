# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mlxconfig / mstconfig: the non-volatile settings of a card, queried, compared by number, and set."""

import json
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.software_plan import compare
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import number

JSON_SINCE = "4.31"

DEVICE = re.compile(r"^\s*Device #(\d+):\s*$")
LABEL = re.compile(r"^\s*(Device type|Name|Description|Device|PCI device)\s*:\s*(.*)$", re.I)
LABELS = {"device type": "device_type", "name": "name", "description": "description", "device": "device", "pci device": "device"}
HEADER = re.compile(r"^\s*Configurations\s*:\s*(.*)$")
COLUMN = re.compile(r"Default|Current|Next\s*Boot|New", re.I)
NAME = r"[A-Z_][A-Z0-9_][A-Za-z0-9_]*(?:\[\d+(?:\.\.\w+)?\])?"
ROW = re.compile(r"^\s*(\*)?\s*(?:(RO)\s+)?(%s)((?:\s+\S+){1,4})$" % NAME)
VALUE = re.compile(r"^(?:-?\d+|0x[0-9a-fA-F]+|\S*\(-?(?:0x[0-9a-fA-F]+|\d+)\)|N/A|Array\[\S+\]|True|False)$")
FORMS = {1: ("next",), 2: ("next", "new"), 3: ("default", "current", "next"), 4: ("default", "current", "next", "new")}
PROMPT = re.compile(r"(?:configuration|config)\b.*\(y/n\)\s*\[n\]\s*:\s*(\w*)", re.I)
OTHER_TOOL = re.compile(r"^\s*(?:PSID|Part Number|PCI Device Name|Versions)\s*:", re.M)
APPLYING = re.compile(r"Applying\s*\.\.\.\s*(Done|Failed)?\s*!?", re.I)
POWER_CYCLE = re.compile(r"-I-.*power[ -]?cycle", re.I)
REBOOT = re.compile(r"-I-.*\b(?:reboot|reset|mlxfwreset)\b", re.I)
FOOTER = re.compile(r"^\s*The '(?:\*|RO)' shows parameters", re.I)
NO_VERBOSE = re.compile(r"does(?:n't| not) support reading default and current", re.I)
VERSION = re.compile(r"^\s*(mlxconfig|mstconfig)\s*,\s*(mft|mstflint)\s+([\w.-]+)", re.I)
USAGE = re.compile(r"^\s*(?:NAME|SYNOPSIS|OPTIONS):\s*$")
KINDS = (
    ("unsupported_parameter", r"(?:Device )?doesn't support (?P<p>\S+) parameter"),
    ("unknown_parameter", r"Unknown Parameter:? *'?(?P<p>[\w\[\].]+)"),
    ("value_range", r"Parameter '?(?P<p>[\w\[\].]+)'? value is (?:larger|smaller)|(?:larger than maximum|smaller than minimum)"),
    ("value_range", r"Index \d+ of the parameter (?P<p>\S+) is out of range"),
    ("constraint", r"Parameter (?P<p>\S+) has [Ii]llegal constraint|Illegal constraint"),
    ("argument", r"Unknown value|Duplicate parameter,? *(?P<p>[\w\[\]]+)?|[Ii]nvalid (?:Configuration )?argument|command expects"),
    ("aborted", r"Aborted by user"),
    ("semaphore", r"[Ss]emaphore"),
    ("no_device", r"No devices found|Failed to get devices"),
    ("livefish", r"[Ll]ivefish"),
    ("unsupported_device", r"Unsupported [Dd]evice|doesn't support any configuration"),
    ("busy", r"Device is busy|Resource unavailable"),
    ("rejected", r"rejected|Failed to set|Unsupported Configuration|Bad parameter"),
    ("open", r"Failed to (?:open|identify) the [Dd]evice|Failed to get device type|Cannot access NV|Unable to parse device name"),
    ("query", r"Failed to query"),
)


def parse(text):
    """Everything an output of mlxconfig says: devices with parameters, the outcome of a set, an error, a version."""
    found = clean.lines("mlxconfig", text)
    whole = "\n".join(found)
    start = next((number for number, line in enumerate(found[:20]) if line.lstrip()[:1] == "{"), None)
    if start is not None:  # a banner may stand above it
        return _from_json("\n".join(found[start:]))
    out = {"devices": []}
    device, columns, in_table, last_label = None, (), False, ""
    errors, usage, known = clean.mft_errors(found), False, False
    for line in found:
        if not line.strip():
            if last_label:
                last_label = "" if not device or device.get("device") else last_label
            continue
        if usage or USAGE.match(line):
            usage = True
            continue
        if re.match(r"^\s*-[EWI]-", line):
            in_table = False
            continue
        head = DEVICE.match(line)
        if head:
            device, in_table, columns, last_label = _device(int(head.group(1))), False, (), ""
            out["devices"].append(device)
            continue
        table = HEADER.match(line)
        if table:
            if device is None:
                device = _device(len(out["devices"]) + 1)
                out["devices"].append(device)
            columns = tuple(re.sub(r"\s+", " ", name).strip().title() for name in COLUMN.findall(table.group(1)))
            device["columns"] = list(columns)
            in_table, last_label, known = True, "", True
            continue
        version = VERSION.match(line)
        if version:
            out["version"], out["package"], known = version.group(3), version.group(2).lower(), True
            continue
        if NO_VERBOSE.search(line):
            if device:
                device["current_readable"] = False
            known = True
            continue
        if FOOTER.match(line) or re.match(r"^[\s.*-]+$", line):
            continue
        if PROMPT.search(line) or APPLYING.search(line):
            known, in_table = True, False
            continue
        label = None if in_table else LABEL.match(line)
        if label and device is not None:
            last_label = LABELS[label.group(1).lower()]
            device[last_label] = label.group(2).strip()
            known = True
            continue
        row = ROW.match(line)
        values = row.group(4).split() if row else []
        if row and (in_table or (not last_label and all(VALUE.match(value) for value in values))):
            if device is None:
                device = _device(1)
                out["devices"].append(device)
            entry = _parameter(values, columns, row.group(1), row.group(2))
            if device["parameters"].get(row.group(3), entry) != entry:  # the heading between two devices is lost
                raise ParseError("mlxconfig", "%s has two values on one device" % row.group(3), line)
            device["parameters"][row.group(3)] = entry
            known = True
            continue
        if last_label == "description" and device is not None:
            device["description"] = ("%s %s" % (device["description"], line.strip())).strip()
            continue
        confs = re.match(r"^\s+(%s)=<([^>]*)>\s*(.*)$" % NAME, line)
        if confs:
            out.setdefault("known", {})[confs.group(1)] = {"values": confs.group(2), "description": confs.group(3)}
            known = True
    if OTHER_TOOL.search(whole) and not any(device["columns"] or device["parameters"] for device in out["devices"]):
        raise ParseError("mlxconfig", "a list of firmware versions, not of settings", whole)
    validation = _validation(found)
    if validation:
        out["validation"], known = validation, True
    outcome = _outcome(found, errors)
    if outcome:
        out["set"] = outcome
    warnings = clean.mft_warnings(found)
    if warnings:
        out["warnings"] = warnings
    if re.search(r"^\s*Aborted by user", whole, re.M) and not errors:
        errors = ["Aborted by user."]
    if errors:
        out.update(_error(errors), usage=usage)
    elif re.search(r"Applying\s*\.\.\.\s*Failed", whole):
        out.update(_error(["Applying... Failed!"]))
    elif not known and re.search(r"^\s*(?:Unable to parse device name|write counter to semaphore)", whole, re.M):
        out.update(_error([line.strip() for line in found if line.strip()]))
    elif not known:
        raise ParseError("mlxconfig", "no device, no parameter row and no -E- line in it", whole)
    return out


def _device(index):
    return {"index": index, "device_type": "", "name": "", "description": "", "device": "", "columns": [], "parameters": {}}


def _parameter(values, columns, star, read_only):
    """The values by the form that their count tells; the header may not line up and is believed only for its count."""
    keys = FORMS[len(values)]
    if columns and len(columns) == len(values):
        keys = tuple({"Default": "default", "Current": "current", "Next Boot": "next", "Nextboot": "next", "New": "new"}[name] for name in columns)
        if keys == ("current",):  # MFT up to 4.3 calls its only column so
            keys = ("next",)
    out = {"default": None, "current": None, "next": None, "new": None}
    out.update(zip(keys, values))
    out.update(modified=bool(star), read_only=bool(read_only))
    return out


def _outcome(found, errors):
    """What the part of a set after the table says; {} where the text is no set at all."""
    whole = "\n".join(found)
    applying = APPLYING.search(whole)
    if not applying and not PROMPT.search(whole):
        return {}
    done = bool(applying and (applying.group(1) or "").lower() == "done") and not errors
    reboot = ""
    if done:
        reboot = "power_cycle" if POWER_CYCLE.search(whole) else "reboot" if REBOOT.search(whole) else ""
    return {"applied": done, "reboot": reboot}


def _error(errors):
    text = "; ".join(errors)
    kind, parameter = "other", ""
    for name, pattern in KINDS:
        match = re.search(pattern, text)
        if match:
            kind, parameter = name, (match.groupdict().get("p") or "").strip(".,'\"")
            break
    out = {"error": text, "error_kind": kind}
    if parameter:
        out["parameter"] = parameter
    return out


def _validation(found):
    """validate_system_conf of MFT 4.36 and later."""
    head = next((match for match in (re.match(r"^\s*Validating system configuration '([^']*)' on device (\S+)", line) for line in found) if match), None)
    if not head:
        return {}
    out = {"configuration": head.group(1), "device": head.group(2), "mismatch": [], "ok": {}, "skipped": [], "matches": None}
    for line in found:
        bad = re.match(r"^\s*MISMATCH:\s*(\S+)\s+Expected:\s*(\S+)\s+Actual:\s*(\S+)", line)
        good = re.match(r"^\s*OK:\s*(\S+)\s*=\s*(\S+)", line)
        skipped = re.match(r"^\s*- (%s)\s*$" % NAME, line)
        result = re.match(r"^\s*Result:\s*(.*)$", line)
        if bad:
            out["mismatch"].append({"name": bad.group(1), "expected": bad.group(2), "actual": bad.group(3)})
        elif good:
            out["ok"][good.group(1)] = good.group(2)
        elif skipped:
            out["skipped"].append(skipped.group(1))
        elif result:
            out["matches"] = not re.search(r"\bnot\b", result.group(1), re.I)
    return out


def _from_json(whole):
    """The file that -j writes (MFT 4.31 and later); a number without a word stands there as a number."""
    try:
        data = json.loads(whole)
    except ValueError as err:
        raise ParseError("mlxconfig", "not valid JSON (%s)" % err, whole)
    out = {"devices": []}
    for key in sorted(data):
        entry = data[key]
        if not isinstance(entry, dict) or not isinstance(entry.get("tlv_configuration"), dict):
            continue
        index = number(re.sub(r"\D", "", key)) if re.search(r"\d", key) else None
        device = _device(index if index is not None else len(out["devices"]) + 1)
        for name in ("device_type", "name", "description", "device"):
            device[name] = str(entry.get(name) or "")
        for name, values in entry["tlv_configuration"].items():
            device["parameters"][name] = {
                "default": _json_value(values.get("default_value")), "current": _json_value(values.get("current_value")),
                "next": _json_value(values.get("next_value")), "new": _json_value(values.get("new_value")),
                "modified": bool(values.get("modified")), "read_only": bool(values.get("read_only"))}
        out["devices"].append(device)
    if not out["devices"]:
        raise ParseError("mlxconfig", "JSON without a tlv_configuration", whole)
    return out


def _json_value(value):
    return value if value is None or isinstance(value, str) else str(value)


def has_json(version):
    """Whether an mft VIB of that version can write JSON."""
    return compare(version, JSON_SINCE) >= 0


def parse_set(text):
    """The outcome of a set or reset: applied, what has to follow (reboot, power_cycle or ""), the error or ""."""
    parsed = parse(text)
    out = {"applied": False, "reboot": "", "error": parsed.get("error", ""), "error_kind": parsed.get("error_kind", ""),
           "parameter": parsed.get("parameter", ""), "devices": parsed["devices"]}
    out.update(parsed.get("set", {}))
    return out


def query_args(device, names=(), json_file=""):
    """-e: without the current value nobody can tell whether a reboot is pending. With json_file the parameters go there and are not printed."""
    return ["-d", device, "-e"] + (["-j", json_file] if json_file else []) + ["q"] + list(names)


def set_args(device, values):
    """All parameters of a card in one set, in the order given."""
    return ["-d", device, "-y", "set"] + ["%s=%s" % (name, values[name]) for name in values]
