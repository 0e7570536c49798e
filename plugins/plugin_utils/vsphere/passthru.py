# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI devices of an ESXi host and their passthrough: what is there, what uses it, what a wanted state changes."""

from __future__ import annotations

import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import pci_address

try:
    import jmespath
    from jmespath.exceptions import JMESPathError
except ImportError:
    jmespath = None
    JMESPathError = ValueError

# One device of a list: exactly one of these says which; selectors_of() checks it, for an entry may be plain text too.
SELECTOR_SPEC: dict = dict(
    pci=dict(type="str"),
    card=dict(type="str"),
    id=dict(type="str"),
    name=dict(type="str"),
    query=dict(type="str"),
)
SELECTORS = ("pci", "card", "id", "name", "query")
LABEL_VERSION = (7, 0, 2)
HOST_PATHS = ("hardware.pciDevice", "config.pciPassthruInfo", "config.network", "config.virtualNicManagerInfo", "config.product",
              "capability", "configManager.pciPassthruSystem")
CLASS_STORAGE = "01"
SHOWN = ("pci", "id", "class", "name", "vendor", "capable", "enabled", "active", "label", "dependent", "moves_with", "vmnic", "used_by")


# ---- what is there ----------------------------------------------------------------------------------------------------

def vmk_services(manager: t.Any) -> dict[str, list[str]]:
    """vmk0 -> [management, vsan] from a host's virtualNicManagerInfo."""
    out: dict[str, list[str]] = {}
    for config in (manager.netConfig if manager else None) or []:
        devices = {nic.key: nic.device for nic in config.candidateVnic or []}
        for key in config.selectedVnic or []:
            device = devices.get(key, key.rsplit("-", 1)[-1])
            out.setdefault(device, []).append(config.nicType)
    return out


def uses_of(network: t.Any, services: dict[str, list[str]]) -> tuple[dict[str, list[dict]], dict[str, str]]:
    """What of ESXi uses a function, and the vmnic it is: ({bdf: [{kind, switch, text}]}, {bdf: vmnic}).

    Every uplink of a switch with a VMkernel port counts as carrying that port: which uplink of a team is in use changes by itself.
    """
    if network is None:
        return {}, {}
    nics = {nic.key: nic for nic in network.pnic or []}
    vmnics = {pci_address(nic.pci) or nic.pci: nic.device for nic in nics.values()}
    uses: dict[str, list[dict]] = {}

    def vmk_text(device: str) -> str:
        tags = services.get(device)
        return "VMkernel adapter %s%s" % (device, " (%s)" % ", ".join(tags) if tags else "")

    def use(keys: t.Any, kind: str, switch: str, text: str) -> None:
        for key in keys or []:
            if key in nics:
                bdf = pci_address(nics[key].pci) or nics[key].pci
                uses.setdefault(bdf, []).append(dict(kind=kind, switch=switch, text=text))

    groups = {group.spec.name: group.spec.vswitchName for group in network.portgroup or []}
    for switch in network.vswitch or []:
        use(switch.pnic, "vswitch", switch.name, "virtual switch %s" % switch.name)
        for nic in network.vnic or []:
            if nic.portgroup and groups.get(nic.portgroup) == switch.name:
                use(switch.pnic, "vmk", switch.name, vmk_text(nic.device))
    for switch in network.proxySwitch or []:
        use(switch.pnic, "dvs", switch.dvsName, "distributed switch %s" % switch.dvsName)
        for nic in network.vnic or []:
            port = nic.spec.distributedVirtualPort if nic.spec else None
            if port is not None and port.switchUuid == switch.dvsUuid:
                use(switch.pnic, "vmk", switch.dvsName, vmk_text(nic.device))
    return uses, vmnics


def devices_of(row: dict) -> list[dict]:
    """Every PCI device of the host as plain data, in PCI order. row: HOST_PATHS as read."""
    uses, vmnics = uses_of(row["config.network"], vmk_services(row["config.virtualNicManagerInfo"]))
    passthru = {pci_address(info.id) or info.id: info for info in row["config.pciPassthruInfo"] or []}
    out = []
    for device in row["hardware.pciDevice"] or []:
        bdf = pci_address(device.id) or device.id
        info = passthru.get(bdf)
        vendor, model = device.vendorId & 0xffff, device.deviceId & 0xffff  # the API has them as signed shorts
        out.append(dict(
            pci=bdf, id="%04x:%04x" % (vendor, model), **{"class": "%04x" % (device.classId & 0xffff)}, name=device.deviceName, vendor=device.vendorName,
            capable=bool(info and info.passthruCapable), enabled=bool(info and info.passthruEnabled), active=bool(info and info.passthruActive),
            label=(getattr(info, "hardwareLabel", None) or "") if info else "",
            dependent=(pci_address(info.dependentDevice) or info.dependentDevice) if info else "", moves_with=[],
            vmnic=vmnics.get(bdf, ""), uses=uses.get(bdf, []), used_by=", ".join(one["text"] for one in uses.get(bdf, []))))
    for device in out:  # what is switched for several devices switches them together: a bridge, or the function that a reset takes along
        device["moves_with"] = sorted(other["pci"] for other in out if device["dependent"] and other["dependent"] == device["dependent"]
                                      and other is not device
                                      and not (other["pci"] == device["dependent"] and other["class"].startswith("06")))
    return sorted(out, key=lambda one: one["pci"])


def shown(device: dict) -> dict:
    """The keys of a device that results carry."""
    return {key: device[key] for key in SHOWN}


# ---- which of them ----------------------------------------------------------------------------------------------------

def selectors_of(entries: t.Iterable[t.Any], where: str, extra: tuple[str, ...] = ()) -> list[dict]:
    """Entries of a list of devices as dicts: a plain text is an address, or vendor and device id."""
    out = []
    for entry in entries:
        if isinstance(entry, str):
            out.append({"id" if _ids(entry) and not pci_address(entry) else "pci": entry})
        elif isinstance(entry, dict) and set(entry) <= set(SELECTORS + extra):
            out.append({key: None if value is None else str(value) for key, value in entry.items()})
        else:
            raise RdmaError("choose devices", where, "%r is no device" % (entry,), "write an address, vendor:device, or one of the keys %s" % (
                ", ".join(SELECTORS + extra)), code="SELECTOR")
    return out


def _ids(text: str) -> tuple[int, int] | None:
    parts = text.lower().replace("0x", "").split(":")
    try:
        return (int(parts[0], 16) & 0xffff, int(parts[1], 16) & 0xffff) if len(parts) == 2 else None
    except ValueError:
        return None


def slot(bdf: str) -> str:
    return bdf.rsplit(".", 1)[0]


def select(devices: list[dict], selectors: list[dict], where: str, extra: tuple[str, ...] = ()) -> list[tuple[dict, dict]]:
    """[(device, selector)] in PCI order, each device once. A selector that fits nothing, or a name that fits several, is an error.

    extra: further keys of a selector that are compared with the same key of a device (label).
    """
    chosen: dict[str, tuple[dict, dict]] = {}
    for selector in selectors:
        given = [key for key in SELECTORS + extra if selector.get(key)]
        if len(given) != 1:
            raise RdmaError("choose devices", where, "%s: exactly one of %s says which device" % (
                {k: v for k, v in selector.items() if v} or "an empty entry", ", ".join(SELECTORS + extra)), code="SELECTOR")
        found = _match(devices, given[0], selector[given[0]], where)
        for device in found:
            before = chosen.get(device["pci"], (None, selector))[1]
            if selector.get("label") not in (None, before.get("label")):
                raise RdmaError("choose devices", where, "%s is chosen twice with different labels" % device["pci"], code="SELECTOR")
            chosen.setdefault(device["pci"], (device, selector))
    return [chosen[bdf] for bdf in sorted(chosen)]


def _match(devices: list[dict], key: str, value: str, where: str) -> list[dict]:
    what = "find the device %s %s" % (key, value)
    hint = "list them with vhpc.rdma.host_pci_info"
    if key in ("pci", "card"):
        bdf = pci_address(value) or (pci_address(value + ".0") if key == "card" else "")
        if not bdf:
            raise RdmaError(what, where, "this is no PCI address", "write it like 0000:3b:00.0 or 3b:00.0", code="SELECTOR")
        found = [d for d in devices if (d["pci"] == bdf if key == "pci" else slot(d["pci"]) == slot(bdf))]
    elif key == "id":
        ids = _ids(value)
        if ids is None:
            raise RdmaError(what, where, "this is not vendor:device", "write it in hexadecimal like 15b3:1017 (ConnectX-5)", code="SELECTOR")
        found = [d for d in devices if d["id"] == "%04x:%04x" % ids]
    elif key == "query":
        found = _query(devices, value, where)
    else:
        found = [d for d in devices if d[key] == value]
        if len(found) > 1:
            raise RdmaError(what, where, "%d devices have this %s: %s" % (len(found), key, ", ".join(d["pci"] for d in found)),
                            "choose by pci or card instead", code="AMBIGUOUS")
    if not found:
        near = [d for d in devices if d["id"].startswith("15b3:")]
        raise RdmaError(what, where, "the host has no such device; of Mellanox it has %s" % (
            ", ".join("%s (%s)" % (d["pci"], d["id"]) for d in near) or "nothing"), hint, code="NO_DEVICE")
    return found


def _query(devices: list[dict], query: str, where: str) -> list[dict]:
    if jmespath is None:
        raise RdmaError("choose devices by query", where, "the Python package jmespath is not there", "pip install jmespath", code="NO_JMESPATH")
    try:
        found = jmespath.search(query, [shown(d) for d in devices])
    except JMESPathError as err:
        raise RdmaError("choose devices by query", where, "%s: %s" % (query, str(err).splitlines()[0]), code="SELECTOR") from err
    addresses = {d.get("pci") if isinstance(d, dict) else d for d in (found if isinstance(found, list) else [found]) if d}
    return [d for d in devices if d["pci"] in addresses]


# ---- what changes -----------------------------------------------------------------------------------------------------

def in_use(device: dict, released: t.Container[str], checking: bool) -> tuple[str, str]:
    """(why it is refused, why it is uncertain): what of ESXi uses the device now.

    A distributed switch lets go of its uplinks in an earlier stage; a run that only looks must not fail because that stage did not act.
    """
    if device["class"].startswith(CLASS_STORAGE):
        return "it is a storage controller (%s): a datastore or vSAN may live on it" % device["name"], ""
    uses = [use for use in device["uses"] if not (use["kind"] == "dvs" and device["pci"] in released)]
    if not uses:
        return "", ""
    text = "%s%s is used by %s" % (device["pci"], " (%s)" % device["vmnic"] if device["vmnic"] else "", ", ".join(use["text"] for use in uses))
    if checking and all(use["kind"] == "dvs" for use in uses):
        return "", text
    return text, ""


def with_companions(chosen: list[tuple[dict, dict]], on_host: t.Iterable[dict], enabled: bool) -> list[tuple[dict, dict, str]]:
    """(device, selector, why it is there): the chosen devices, then those that cannot but move with one of them."""
    known = {device["pci"]: device for device in on_host}
    out = [(device, selector, "") for device, selector in chosen]
    there = {device["pci"] for device, dummy in chosen}
    for device, dummy in chosen:
        for bdf in device.get("moves_with", []) if device["enabled"] != enabled else []:
            if bdf in known and bdf not in there:
                there.add(bdf)
                out.append((known[bdf], {}, "%s moves with %s: both depend on %s" % (bdf, device["pci"], device["dependent"])))
    return out


def plan(chosen: list[tuple[dict, dict]], enabled: bool, rebind: bool, apply_now: bool | None = None, released: t.Container[str] = (),
         checking: bool = False, attached: dict[str, str] | None = None, on_host: t.Iterable[dict] = ()) -> tuple[Changes, list[dict], list[str]]:
    """(changes, configurations for UpdatePassthruConfig as plain dicts, reasons to refuse).

    attached: bdf -> VM that has the device; on_host: all devices of the host, to know what moves with the chosen ones.
    """
    changes, configs, refused = Changes("vsphere"), [], []
    at_once = rebind and apply_now is not False
    for device, selector, along in with_companions(chosen, on_host, enabled):
        thing = "device %s" % device["pci"]
        label = selector.get("label")
        config: dict[str, t.Any] = {}
        if device["enabled"] != enabled:
            why = doubt = ""
            if enabled:
                why, doubt = in_use(device, released, checking)
                if not device["capable"] and not why:
                    lacks = "%s cannot be passed through: VT-d is off in the BIOS, or the device or its slot does not allow it" % device["pci"]
                    why, doubt = ("", lacks) if checking else (lacks, doubt)
            elif device["pci"] in (attached or {}):
                holds = "%s is attached to the VM %s" % (device["pci"], attached[device["pci"]])
                why, doubt = ("", holds) if checking else (holds, "")
            if why:
                refused.append("%s, and %s" % (along, why) if along else why)
                continue
            doubt, sure = "; ".join(filter(None, [along, doubt])), not doubt
            changes.add(thing, "passthrough", "enabled" if device["enabled"] else "disabled", "enabled" if enabled else "disabled",
                        reboot="" if at_once else "host", certainty="sure" if sure else "conditional", reason=doubt)
            config["passthruEnabled"] = enabled
        elif device["active"] != enabled:
            changes.wait_for_reboot("%s: passthrough is %s, and a reboot makes it so" % (
                thing, "enabled but not active" if enabled else "disabled but still active"))
        if label is not None and label != device["label"]:
            changes.add(thing, "label", device["label"], label)
            config["hardwareLabel"] = label
        if config:
            configs.append(dict(config, id=device["pci"], dependent=device["dependent"]))
    return changes, configs, refused


def config_rows(configs: list[dict], devices: list[dict], apply_now: bool | None) -> list[dict]:
    """The rows for UpdatePassthruConfig: what enables goes to the dependent device, a label to the device itself."""
    now = {device["pci"]: device for device in devices}
    rows: dict[str, dict] = {}
    for config in configs:
        target = config["dependent"] or config["id"]
        if "passthruEnabled" in config:
            row = rows.setdefault(target, dict(id=target))
            row["passthruEnabled"] = config["passthruEnabled"]
            if apply_now is not None:
                row["applyNow"] = apply_now
        if "hardwareLabel" in config:
            row = rows.setdefault(config["id"], dict(id=config["id"]))
            row.setdefault("passthruEnabled", config.get("passthruEnabled", now[config["id"]]["enabled"]))
            row["hardwareLabel"] = config["hardwareLabel"]
    return list(rows.values())


def unlike(devices: list[dict], configs: list[dict]) -> list[str]:
    """What a read after the change still shows otherwise."""
    now = {device["pci"]: device for device in devices}
    out = []
    for config in configs:
        device = now.get(config["id"])
        if device is None:
            out.append("%s is gone" % config["id"])
            continue
        if "passthruEnabled" in config and device["enabled"] != config["passthruEnabled"]:
            out.append("%s is still %s" % (config["id"], "enabled" if device["enabled"] else "disabled"))
        if "hardwareLabel" in config and device["label"] != config["hardwareLabel"]:
            out.append("%s still has the label %r" % (config["id"], device["label"]))
    return out
