# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BIOS attributes through Redfish: one small client, and the pure decisions what to set.

Sources: DMTF DSP0266 (Settings objects, apply times), Dell iDRAC9 Redfish guide (job queue), HPE iLO Redfish reference
(workload profiles). Names and values are looked up in what the BMC offers: vendors write `Enable` and `Enabled`.
"""

from __future__ import annotations

import json
import re
import urllib.error

from ansible.module_utils.urls import open_url

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

# intent -> the attribute names that carry it, by vendor family (matched whole, a "#0048" suffix ignored)
INTENTS = {
    "virtualization": (r"ProcVirtualization", r"IntelProcVtd", r"ProcAmdIoVt", r"IommuSupport", r"IntelVirtualizationTechnology",
                       r"(Intel)?VTforDirectedI/?O(\(VT-d\))?", r"Processors_IntelVirtualizationTechnology",
                       r"DevicesandIOPorts_IntelVTforDirectedIOVTd"),
    "sriov": (r"SriovGlobalEnable", r"Sriov", r"SR[-_]IOVSupport", r"DevicesandIOPorts_SRIOV"),
    "logical_processors": (r"LogicalProc", r"ProcHyperthreading", r"Hyper[-_]?Threading(\[ALL\]|_ALL)?", r"Processors_HyperThreading"),
}
ON, OFF = ("Enabled", "Enable", "On", "Yes"), ("Disabled", "Disable", "Off", "No")
PROFILES = {  # power_profile -> attribute, value, by what the BMC has (the paper: Performance Per Watt (OS), Table 1)
    "performance_per_watt_os": (("SysProfile", "PerfPerWattOptimizedOs"), ("WorkloadProfile", "Virtualization-PowerEfficient")),
    "performance": (("SysProfile", "PerfOptimized"), ("WorkloadProfile", "Virtualization-MaxPerformance")),
}
# HPE: these switch SR-IOV, VT-d and VT-x off and lock them, so passthrough breaks under an "HPC" profile.
HPE_HOSTILE = ("LowLatency", "HighPerformanceCompute(HPC)", "GraphicProcessing")


class Redfish:
    """Requests to one BMC. where names it in every error."""

    def __init__(self, params: dict, where: str) -> None:
        base = params["baseuri"]
        self.base = base if "://" in base else "https://" + base
        self.where = where
        self.options = dict(url_username=params["username"], url_password=params["password"], force_basic_auth=True,
                            validate_certs=params["validate_certs"], ca_path=params["ca_file"], timeout=params["timeout"],
                            follow_redirects="safe", headers={"Accept": "application/json"})

    def _call(self, method: str, path: str, body: dict | None = None, headers: dict | None = None):
        options = dict(self.options)
        options["headers"] = dict(options["headers"], **(headers or {}))
        if body is not None:
            options["headers"]["Content-Type"] = "application/json"
            options["data"] = json.dumps(body)
        what = "%s %s" % ("read" if method == "GET" else "write", path)
        try:
            with open_url(self.base + path, method=method, **options) as answer:
                text = answer.read()
                return json.loads(text) if text.strip() else {}, answer.headers, answer.status
        except urllib.error.HTTPError as err:
            ids, messages = messages_of(err.read())
            hint = {401: "check the BMC user and password", 403: "the BMC user needs the Configure Components privilege",
                    404: "check that the BMC speaks Redfish and its firmware is recent"}.get(err.code, "")
            raise RdmaError(what, self.where, "HTTP %d %s" % (err.code, "; ".join(messages) or err.reason), hint,
                            code=(ids or ["HTTP_%d" % err.code])[0]) from err
        except (urllib.error.URLError, OSError, ValueError) as err:
            reason = str(getattr(err, "reason", err))
            hint = "give ca_file with the BMC's CA, or validate_certs: false" if "CERTIFICATE" in reason.upper() else "check the address and that the BMC is up"
            raise RdmaError(what, self.where, reason, hint, code="BMC_UNREACHABLE") from err

    def get(self, path: str) -> dict:
        return self._call("GET", path)[0]

    def patch(self, path: str, body: dict, etag: str = "") -> tuple[dict, object]:
        data, headers, dummy = self._call("PATCH", path, body, {"If-Match": etag} if etag else {})
        return data, headers

    def post(self, path: str, body: dict) -> tuple[dict, object]:
        data, headers, dummy = self._call("POST", path, body)
        return data, headers


def messages_of(body: bytes) -> tuple[list[str], list[str]]:
    """The message ids (last dotted part: versions differ) and texts of a Redfish answer."""
    try:
        info = json.loads(body).get("error", {}).get("@Message.ExtendedInfo", [])
    except (ValueError, AttributeError):
        return [], []
    return ([str(m.get("MessageId", "")).rsplit(".", 1)[-1] for m in info], [str(m.get("Message", "")) for m in info if m.get("Message")])


def read(client: Redfish, system: str = "") -> dict:
    """Everything a decision needs: vendor, model, current, pending, registry, jobs scheduled, where to write."""
    root = client.get("/redfish/v1/")
    members = [m["@odata.id"] for m in client.get(root["Systems"]["@odata.id"])["Members"]]
    chosen = [m for m in members if not system or m.rstrip("/").rsplit("/", 1)[-1] == system]
    if len(chosen) != 1:
        raise RdmaError("choose the computer system", client.where, "the BMC lists %s" % (", ".join(members) or "none"), "set the option system", code="SYSTEM")
    computer = client.get(chosen[0])
    if "Bios" not in computer:
        raise RdmaError("read BIOS attributes", client.where, "the BMC offers no Bios resource", "update the BMC firmware", code="NO_BIOS")
    bios = client.get(computer["Bios"]["@odata.id"])
    # Always by link: vendors build this address in five ways.
    settings_at = bios.get("@Redfish.Settings", {}).get("SettingsObject", {}).get("@odata.id", computer["Bios"]["@odata.id"])
    settings = client.get(settings_at)
    managers = [m["@odata.id"] for m in computer.get("Links", {}).get("ManagedBy", [])]
    current, vendor = bios.get("Attributes", {}), computer.get("Manufacturer", "")
    # Some BMCs repeat every current value in the settings object: only a difference is pending.
    pending = {k: v for k, v in (settings.get("Attributes") or {}).items() if v is not None and v != current.get(k)}
    apply_time = settings.get("@Redfish.SettingsApplyTime") or bios.get("@Redfish.SettingsApplyTime") or {}
    out = {"vendor": vendor, "model": computer.get("Model", ""), "bios_version": computer.get("BiosVersion") or "", "current": current,
           "pending": pending, "settings_at": settings_at, "etag": settings.get("@odata.etag", ""),
           "apply_times": apply_time.get("ApplyTime@Redfish.AllowableValues"),
           "manager": managers[0] if managers else "",
           "registry": {}, "jobs_at": "", "scheduled": []}
    out["registry"] = _registry(client, bios.get("AttributeRegistry", ""), computer["Bios"]["@odata.id"])
    if vendor.startswith("Dell") and out["manager"]:
        out["jobs_at"], out["scheduled"] = _dell_jobs(client, out["manager"].rstrip("/"))
    return out


def _registry(client: Redfish, name: str, bios_at: str) -> dict:
    """Attribute name -> {values, read_only, type}; empty when the BMC gives no registry (values are then guessed from current)."""
    tries = [bios_at.rstrip("/") + "/BiosRegistry"] if name.startswith("BiosAttributeRegistry") else []
    if name:
        try:
            location = client.get("/redfish/v1/Registries/%s" % name).get("Location") or []
            tries += [place["Uri"] for place in location if place.get("Uri")]
        except RdmaError as err:
            if err.code == "BMC_UNREACHABLE":
                raise
    for path in tries:
        try:
            entries = client.get(path).get("RegistryEntries", {}).get("Attributes", [])
        except RdmaError as err:
            if err.code == "BMC_UNREACHABLE":
                raise
            continue
        if entries:
            return {e["AttributeName"]: {"values": [v.get("ValueName") for v in e.get("Value") or []], "read_only": bool(e.get("ReadOnly")),
                                         "type": e.get("Type", "")} for e in entries if e.get("AttributeName")}
    return {}


def _dell_jobs(client: Redfish, manager: str) -> tuple[str, list[dict]]:
    for path in (manager + "/Oem/Dell/Jobs", manager + "/Jobs"):
        try:
            members = client.get(path + "?$expand=*($levels=1)").get("Members", [])
        except RdmaError as err:
            if err.code == "BMC_UNREACHABLE":
                raise
            continue
        jobs = [m if "JobState" in m else client.get(m["@odata.id"]) for m in members]
        return path, [{"id": j.get("Id"), "state": j.get("JobState")} for j in jobs
                      if j.get("JobState") in ("Scheduled", "Scheduling", "New", "Running") and "BIOS" in str(j.get("JobType", "")).upper()]
    return "", []


def wanted(state: dict, params: dict, where: str) -> tuple[dict, list[str]]:
    """The attributes to have, by their names and values on this BMC; and warnings about what it does not offer. Errors all at once."""
    want: dict = {}
    warnings, errors = [], []
    current, registry = state["current"], state["registry"]
    for intent, patterns in INTENTS.items():
        wish = params.get(intent)
        if wish is None:
            continue
        names = [n for n in current if any(re.fullmatch(p, re.sub(r"#[0-9A-Fa-f]+$", "", n), re.I) for p in patterns)]
        if not names:
            warnings.append("%s: the BMC shows no BIOS attribute for %s; check it by hand" % (where, intent))
        for name in names:
            value = switch(current[name], registry.get(name, {}).get("values") or [], wish)
            if value is None:
                errors.append("%s has no value for %s (values: %s)" % (name, "on" if wish else "off", registry.get(name, {}).get("values") or current[name]))
            else:
                want[name] = value
    profile = params.get("power_profile")
    if profile:
        found = [(n, v) for n, v in PROFILES[profile] if n in current and current[n] not in (None, "NotAvailable")]
        if found:
            want[found[0][0]] = found[0][1]
        else:
            warnings.append("%s: the BMC shows no BIOS attribute for the power profile %s; check it by hand" % (where, profile))
    for name, value in (params.get("attributes") or {}).items():
        if name not in current:
            close = [n for n in current if n.lower().startswith(name.lower()[:6])]
            errors.append("there is no attribute %s%s" % (name, "; similar: " + ", ".join(sorted(close)[:5]) if close else ""))
            continue
        # Playbook values arrive as text: the PATCH must keep the type the BMC uses.
        want[name] = value
        if isinstance(current[name], int) and not isinstance(current[name], bool):
            try:
                want[name] = int(value)
            except (TypeError, ValueError):
                errors.append("%s takes a number (now %s), not %r" % (name, current[name], value))
    for name, value in want.items():
        values = registry.get(name, {}).get("values")
        if values and value not in values:
            errors.append("%s cannot be %r; values: %s" % (name, value, ", ".join(map(str, values))))
        if registry.get(name, {}).get("read_only") and value != current[name]:
            errors.append("%s is read-only now (another setting decides it) and is %r, not %r" % (name, current[name], value))
    hostile = want.get("WorkloadProfile")
    if hostile in HPE_HOSTILE:
        errors.append("WorkloadProfile %s switches SR-IOV, VT-d and VT-x off, so passthrough would break; use a Virtualization profile or Custom" % hostile)
    if errors:
        raise RdmaError("set BIOS attributes", where, "; ".join(errors), "correct these and run again; nothing was changed", code="BIOS_VALUES")
    return want, warnings


def switch(now, values: list, wish: bool):
    """The value that means on or off for this attribute, in the BMC's own spelling; None when there is none."""
    if isinstance(now, bool):
        return wish
    words = ON if wish else OFF
    for word in words:
        if word in values:
            return word
    if not values:
        for spelling in zip(ON, OFF):
            if now in spelling:
                return spelling[0 if wish else 1]
    return None


def compare(state: dict, want: dict) -> tuple[Changes, dict]:
    """What to write now: (changes, attributes). A value that is pending already is a reason to reboot, not a change."""
    changes, write = Changes("bios"), {}
    for name, value in sorted(want.items()):
        now, later = state["current"].get(name), state["pending"].get(name)
        if later is None and now == value:
            continue
        if later == value:
            if state["jobs_at"] and not state["scheduled"]:
                changes.add("BIOS", name, now, value, reboot="host", reason="stored, but no job would apply it")
                write[name] = value
            else:
                changes.wait_for_reboot("BIOS: %s is pending" % name)
            continue
        changes.add("BIOS", name, now if later is None else "%s (pending: %s)" % (now, later), value, reboot="host")
        write[name] = value
    return changes, write


def apply(client: Redfish, state: dict, write: dict) -> str:
    """Store the attributes for the next reset; returns the Dell job id or an empty string."""
    if state["scheduled"]:
        raise RdmaError("set BIOS attributes %s" % ", ".join(sorted(write)), client.where,
                        "job %s is scheduled and holds the pending values" % ", ".join(j["id"] for j in state["scheduled"]),
                        "reboot the host so that it runs, then run again", code="BIOS_JOB_SCHEDULED")
    body: dict = {"Attributes": write}
    dell = bool(state["jobs_at"])
    already = all(state["pending"].get(name) == value for name, value in write.items())
    if dell and already:
        dummy, headers = client.post(state["jobs_at"], {"TargetSettingsURI": state["settings_at"]})
        return str(headers.get("Location", "")).rstrip("/").rsplit("/", 1)[-1]
    if dell or "OnReset" in (state["apply_times"] or []):
        body["@Redfish.SettingsApplyTime"] = {"ApplyTime": "OnReset"}
    dummy, headers = client.patch(state["settings_at"], body, state["etag"])
    return str(headers.get("Location", "")).rstrip("/").rsplit("/", 1)[-1] if dell else ""
