# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""flint / mstflint: the firmware image on a card's flash, queried and burned."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

KEY = re.compile(r"^\s*(Image type|FW Version(?:\(Running\))?|FW Version \(Running\)|FW Release Date|MIC Version|Product Version|Rom Info"
                 r"|Description|Base GUID"
                 r"|Base MAC|Orig Base GUID|Orig Base MAC|GUIDs|MACs|Node|Port ?\d|Sys image|Image VSD|Device VSD|PSID|Orig PSID|Security Attributes"
                 r"|Default Update Method|Life cycle|Secure Boot Capable|EFUSE Security Ver|Image Security Ver|Security Ver Program|Encryption"
                 r"|HW Rev(?:ision)?"
                 r"|Chunk Size|Device Type|Device HW Revision|Config Sectors|Activation Method|Chip Revision|Current Image|BIN Info"
                 r"|Alg Info)\s*:\s*(.*)$", re.I)
ROM = re.compile(r"(\w+)=(\S+)")
CURRENT = re.compile(r"^\s*Current FW version on flash:\s*(\S+)")
NEW = re.compile(r"^\s*New FW version:\s*(\S+)")
STEP = re.compile(r"^\s*(\S.*?)\s*-\s+(OK|FAILED|Failed|Skipped)\b\s*(.*)$")
PROMPT = re.compile(r"\(y/n\)\s*\[n\]\s*:\s*(\w*)", re.I)
PSIDS = re.compile(r"PSID on flash \((\S+?)\) differs from the PSID in the given image \((\S+?)\)")
OWN_FIELDS = {"Image type", "FW Version", "FW Release Date", "Product Version", "Rom Info", "Image VSD", "Device VSD", "Security Attributes"}
VERSION = re.compile(r"^\s*(flint|mstflint)\s*,\s*(?:mft|mstflint)\s+([\w.-]+)", re.I)


def parse(text):
    """The fields of a query, or the steps and the end of a burn; an -E- line becomes error."""
    found = clean.lines("flint", text)
    out = {"fields": {}}
    burn, steps, last = {}, [], ""
    for line in found:
        stripped = line.strip()
        if not stripped:
            last = ""
            continue
        key = KEY.match(line)
        if re.match(r"^-[EWI]-", stripped):
            if re.search(r"-I-.*(?:mlxfwreset|reboot|power[ -]?cycle)", stripped, re.I):
                burn["reset"] = stripped[3:].strip()
            elif re.search(r"-I-.*verif", stripped, re.I):
                out["verified"] = stripped[3:].strip()
        elif CURRENT.match(line):
            burn["current"] = CURRENT.match(line).group(1)
        elif NEW.match(line):
            burn["new"] = NEW.match(line).group(1)
        elif PROMPT.search(line):
            burn["answer"] = PROMPT.search(line).group(1)
        elif STEP.match(line) and not key:
            step = STEP.match(line)
            steps.append({"step": re.sub(r"\s+", " ", step.group(1)), "result": step.group(2)})
        elif key:
            last = key.group(1).strip()
            out["fields"][last] = [key.group(2).strip()]
        elif VERSION.match(line):
            out["version"] = VERSION.match(line).group(2)
        elif last == "Rom Info" and re.match(r"^type=", stripped):
            out["fields"][last].append(stripped)
    others = [line for line in found if line.strip() and not KEY.match(line) and not re.match(r"^\s", line)]
    if not (OWN_FIELDS & set(out["fields"]) or (out["fields"].get("PSID") and not others)):
        out["fields"] = {}  # Description, PSID and the like alone may come from any tool
    if out["fields"]:
        out.update(_query(out["fields"]))
    steps = steps if burn.get("current") or burn.get("new") or any(re.match(r"Burning|Restoring", step["step"]) for step in steps) else []
    if burn.get("current") or burn.get("new") or steps:
        burn["steps"] = steps
        burn["same"] = bool(burn.get("new")) and burn.get("new") == burn.get("current")
        burn["ok"] = bool(steps) and all(step["result"] == "OK" for step in steps)
        out["burn"] = burn
    errors = clean.mft_errors(found) or [line.strip() for line in found if re.match(r"^\s*(?:Invalid command:|No command found)", line)]
    if errors and (out["fields"] or burn or clean.error_alone(found) or "ommand" in errors[0]):
        out["error"] = "; ".join(errors)
        psids = PSIDS.search(out["error"])
        if psids:
            out["psid_on_flash"], out["psid_in_image"] = psids.groups()
        if "burn" in out:
            burn["ok"] = False
    elif steps and not burn["ok"]:
        out["error"] = "; ".join("%s - %s" % (step["step"], step["result"]) for step in steps if step["result"] != "OK")
    elif not out["fields"] and "burn" not in out and "version" not in out and "verified" not in out:
        raise ParseError("flint", "no query field, no burn step and no -E- line in it", "\n".join(found))
    warnings = clean.mft_warnings(found)
    if warnings:
        out["warnings"] = warnings
    return out


def _query(fields):
    plain = {clean.snake(name): " ".join(part for part in values if part) for name, values in fields.items()}
    running = next((plain[key] for key in ("fw_version_running", "fw_versionrunning") if plain.get(key)), "")
    out = {"image_type": plain.get("image_type", ""), "fw_version": plain.get("fw_version", ""),
           "fw_version_running": running or plain.get("fw_version", ""),
           "fw_release_date": plain.get("fw_release_date", ""), "product_version": plain.get("product_version", ""),
           "psid": plain.get("psid", ""), "orig_psid": plain.get("orig_psid", ""), "image_vsd": plain.get("image_vsd", ""),
           "device_vsd": plain.get("device_vsd", "")}
    out["rom"] = [rom for rom in (dict(ROM.findall(part)) for part in fields.get("Rom Info", [])) if rom]
    for name in ("base_guid", "base_mac"):
        cells = plain.get(name, "").split()
        out[name] = cells[0] if cells else ""
        out[name + "_count"] = clean.number(cells[1]) if len(cells) > 1 else None
    security = plain.get("security_attributes", "")
    out["security"] = [] if security in ("", "N/A") else [word.strip() for word in security.split(",")]
    return out


def query_args(device):
    return ["-d", device, "q"]


def image_args(image):
    return ["-i", image, "q"]


def burn_args(device, image):
    return ["-d", device, "-i", image, "-y", "b"]
