# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passthrough devices of a VM: what is attached, what a wanted list changes, which preconditions stand in the way."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import pci_address

from . import passthru

VM_PATHS = ("config.hardware", "config.memoryAllocation", "config.memoryReservationLockedToMax", "config.version", "config.firmware", "config.changeVersion",
            "config.extraConfig", "runtime.powerState", "runtime.host", "snapshot", "environmentBrowser")
DYNAMIC_HARDWARE = 17
UNLIMITED = -1

# MiB of BARs by vendor:device, where somebody published lspci or the kernel's log of the device; the API does not tell sizes.
# A whole vendor: ConnectX, whose PF BAR is 2^PF_LOG_BAR_SIZE MiB (5, so 32 MiB, by default; mlxconfig's parameter list).
BAR_MIB = {
    "15b3": 64,
    "10de:1db1": 16384 + 48,  # Tesla V100 SXM2 16GB: 16M + 16G + 32M (ComputeCanada/puppet-magic_castle#268)
    "10de:20b0": 65536 + 48,  # A100 SXM4 40GB: 16M + 64G + 32M (ComputeCanada/puppet-magic_castle#268)
    "10de:20f1": 65536 + 48,  # A100 PCIe 40GB: 16M + 64G + 32M (kata-containers/kata-containers#4358)
    "10de:2329": 131072 + 48,  # H20: 16M + 128G + 32M (NVIDIA/nvtrust#128)
}
MMIO_FREE_MIB = 16384  # more than that in all needs EFI and a 64-bit MMIO space of a size of its own
MMIO_USE, MMIO_SIZE = "pciPassthru.use64bitMMIO", "pciPassthru.64bitMMIOSizeGB"

# What a VM with passthrough does without (vSphere Networking: DirectPath I/O; vSphere VM Administration: PCI devices).
LOSES_STATIC = ("With a DirectPath I/O device a VM has no snapshots, no suspend, no vMotion, no DRS migration, no vSphere HA, no Fault Tolerance and no "
                "hot add; "
                "its whole memory is reserved, and it has to be off before its host enters maintenance mode.")
LOSES_DYNAMIC = ("With a Dynamic DirectPath I/O device a VM has no snapshots, no suspend, no vMotion while it runs, no Fault Tolerance and no hot add; "
                 "its whole "
                 "memory is reserved. vSphere HA restarts it, and DRS places it at power-on, where a device with the label is free.")


def hardware_version(text: str) -> int:
    match = re.search(r"(\d+)$", text or "")
    return int(match.group(1)) if match else 0


def attached(hardware: t.Any) -> list[dict]:
    """The VM's passthrough devices: key, bdf as the host writes it, and the backing's fields to compare with the host's."""
    out = []
    for device in (hardware.device if hardware else None) or []:
        if not type(device).__name__.endswith("VirtualPCIPassthrough"):
            continue
        backing = device.backing
        kind = type(backing).__name__.rsplit(".", 1)[-1]
        if kind == "DynamicBackingInfo":
            allowed = ["%04x:%04x" % (one.vendorId & 0xffff, one.deviceId & 0xffff) for one in backing.allowedDevice or []]
            out.append(dict(key=device.key, dynamic=True, bdf=pci_address(backing.assignedId or ""), label=backing.customLabel or "", allowed=allowed))
        elif kind == "DeviceBackingInfo":
            out.append(dict(key=device.key, dynamic=False, bdf=pci_address(backing.id) or backing.id.lower(), device_id=backing.deviceId,
                            vendor_id=backing.vendorId & 0xffff, system_id=backing.systemId or "", label=""))
    return out


def vm_plain(row: dict) -> dict:
    """VM_PATHS as read, as plain data."""
    memory = row["config.memoryAllocation"]
    hardware = row["config.hardware"]
    snapshots = [node.name for node in row["snapshot"].rootSnapshotList] if row["snapshot"] else []
    return dict(
        power=str(row["runtime.powerState"] or ""), devices=attached(hardware), memory_mb=hardware.memoryMB if hardware else 0,
        locked=bool(row["config.memoryReservationLockedToMax"]), reservation=(memory.reservation if memory else 0) or 0,
        limit=memory.limit if memory and memory.limit is not None else UNLIMITED, snapshots=snapshots,
        hw_version=hardware_version(row["config.version"]), firmware=row["config.firmware"] or "",
        extra={option.key: str(option.value) for option in row["config.extraConfig"] or []})


def hex_id(text: str) -> int:
    """The device id of a backing, which is hexadecimal text whatever the documentation says; -1 when it is not."""
    try:
        return int(text, 16) & 0xffff
    except (TypeError, ValueError):
        return -1


def stale(device: dict, target: dict | None) -> str:
    """Why an attached device's backing does not fit the host's device at its address; empty when it does."""
    if target is None or device["dynamic"]:
        return ""
    if hex_id(device["device_id"]) != target["device_id"]:
        return "the backing says device id %s, the host has %04x there" % (device["device_id"], target["device_id"])
    if device["vendor_id"] != target["vendor_id"]:
        return "the backing says vendor %04x, the host has %04x there" % (device["vendor_id"], target["vendor_id"])
    if target["system_id"] and device["system_id"] and device["system_id"] != target["system_id"]:
        return "the backing belongs to another host"
    return ""


def other_kind(device: dict, wanted: dict) -> str:
    """Why a dynamic device that is attached does not fit the host's device of its label; empty when it does."""
    return "" if wanted["id"] in device["allowed"] else "attached for %s" % ", ".join(device["allowed"] or ["no device"])


def targets_of(config_target: t.Any) -> dict[str, dict]:
    """bdf -> what a backing needs, from QueryConfigTarget of the VM's host (which lists active devices only)."""
    out = {}
    for info in (config_target.pciPassthrough if config_target else None) or []:
        device = info.pciDevice
        out[pci_address(device.id) or device.id] = dict(
            id=device.id, device_id=device.deviceId & 0xffff, vendor_id=device.vendorId & 0xffff, system_id=info.systemId, name=device.deviceName)
    return out


def backing_fields(target: dict) -> dict:
    """The fields of a DeviceBackingInfo: device id as unpadded hex (power-on refuses a decimal one), vendor id as a signed short."""
    vendor = target["vendor_id"]
    return dict(deviceName=target["name"] or "", id=target["id"], deviceId="%x" % target["device_id"], systemId=target["system_id"],
                vendorId=vendor - 0x10000 if vendor > 0x7fff else vendor)


def bar_mib(device: dict) -> int | None:
    """MiB of the device's BARs: what the user says (bar_size_gb), else what is published of the kind, else nothing is known."""
    said = device.get("bar_size_gb")
    if said is not None:
        return int(said) * 1024
    return BAR_MIB.get(device["id"], BAR_MIB.get(device["id"].split(":")[0]))


def mmio(devices: t.Iterable[dict]) -> tuple[int, list[str]]:
    """(GB of 64-bit MMIO that the devices need, 0 for none; those whose BAR size is not known).

    All BARs together, rounded up to a power of two, then doubled: the space is aligned to its size and the VM needs room beside it.
    """
    devices = list(devices)
    unknown = ["%s (%s)" % (d["pci"], d["id"]) for d in devices if bar_mib(d) is None]
    total = sum(bar_mib(d) or 0 for d in devices)
    if total <= MMIO_FREE_MIB:
        return 0, unknown
    size = 1
    while size * 1024 < total:
        size *= 2
    return 2 * size, unknown


def guest_port(device: dict) -> int | None:
    """Which port of its card a function of a network adapter is; none for anything else."""
    return int(device["pci"].rsplit(".", 1)[1], 16) + 1 if device.get("id", "").startswith("15b3:") else None


def plan(name: str, vm: dict, wanted: list[dict], state: str, targets: dict[str, dict], others: dict[str, str], host: str,
         reserve_memory: bool = True, mmio_gb: int | None = None, dynamic: bool = False, released: t.Container[str] = (), checking: bool = False,
         on_host: t.Iterable[dict] = ()) -> dict:
    """What one ConfigSpec changes, and every reason not to send it.

    wanted: devices of the host (passthru.devices_of), bar_size_gb in them where the user says it; targets: targets_of;
    others: bdf -> other VM it is attached to; on_host: all devices of the host, to know what else the VM has.
    Returns changes, add (devices), remove (keys), reserve (bool), extra (dict), problems and notes (lists of text), power_off (bool).
    In a run that only looks, what an earlier step of the road still has to do makes a step conditional instead of a problem.
    """
    changes = Changes("vsphere")
    thing = "vm %s" % name
    add, remove, problems, later = [], [], [], []
    have = {device["bdf"] or "#%d" % device["key"]: device for device in vm["devices"]}
    labels = {device["label"]: device for device in vm["devices"] if device["dynamic"]}
    on_host = list(on_host) or wanted
    alike: dict[str, int] = {}
    for device in on_host:
        alike[device["id"]] = alike.get(device["id"], 0) + 1

    def there(device: dict) -> dict | None:
        if dynamic:
            found = labels.get(device["label"])
            return found if found is not None and (device["label"] or device["id"] in found["allowed"]) else None
        found = have.get(device["pci"])
        return found if found is not None and not found["dynamic"] else None

    rows = []  # (name, before, after, device or None)
    if state == "absent":
        for device in wanted:
            found = have.get(device["pci"]) or (labels.get(device.get("label") or "-"))
            if found is not None:
                remove.append(found["key"])
                rows.append((device["pci"], "attached", "detached", None))
    else:
        for device in wanted:
            found = there(device)
            why = ""
            if found is not None:
                why = other_kind(found, device) if dynamic else stale(found, targets.get(device["pci"]))
            if found is not None and not why:
                continue
            if found is not None:
                remove.append(found["key"])
            add.append(device)
            rows.append((("%s by label %s" % (device["id"], device["label"]) if device["label"] else "%s, any" % device["id"]) if dynamic else device["pci"],
                         why or "not attached", "attached", device))
        if state == "exact":
            keep = {found["key"] for found in map(there, wanted) if found is not None}
            for device in vm["devices"]:
                if device["key"] not in keep and device["key"] not in remove:
                    remove.append(device["key"])
                    rows.append((device["bdf"] or "label %s" % device["label"], "attached", "detached", None))

    doubts: dict[str, list[str]] = {}
    for device in add:
        why, doubt = passthru.in_use(device, released, checking)
        if why:
            problems.append(why)
        elif doubt:
            doubts.setdefault(device["pci"], []).append(doubt)
        if device["pci"] in others and not dynamic:
            problems.append("%s is attached to the VM %s" % (device["pci"], others[device["pci"]]))
        if dynamic:
            if not device["label"] and alike[device["id"]] > 1:
                problems.append("%s has no hardware label, and the host has %d devices with its ids (both ports of a card have the same ids)" % (
                    device["pci"], alike[device["id"]]))
            if device.get("label_now", device["label"]) != device["label"]:
                text = "%s has the label %r on %s, not %r" % (device["pci"], device["label_now"], host, device["label"])
                if checking:
                    doubts.setdefault(device["pci"], []).append(text)
                else:
                    problems.append(text)
            if vm["hw_version"] < DYNAMIC_HARDWARE:
                problems.append("dynamic DirectPath needs hardware version %d, the VM has %d" % (DYNAMIC_HARDWARE, vm["hw_version"]))
        if not device["active"] or (not dynamic and device["pci"] not in targets):
            text = "passthrough of %s is not active on %s%s" % (
                device["pci"], host, " (enabled, it waits for a reboot)" if device["enabled"] and not device["active"] else "")
            if checking:
                doubts.setdefault(device["pci"], []).append(text)
            else:
                problems.append(text)

    reserve, extra = False, {}
    if add or (state != "absent" and wanted):
        full = vm["locked"] or vm["reservation"] >= vm["memory_mb"]
        if reserve_memory and not (vm["locked"] and vm["limit"] == UNLIMITED and full):
            reserve = True
            rows.append(("memory reservation", "%d of %d MB" % (vm["reservation"], vm["memory_mb"]), "all, locked to the memory size, no limit", None))
        elif not full or vm["limit"] != UNLIMITED:
            text = "not all of its memory is reserved (%d of %d MB)" % (vm["reservation"], vm["memory_mb"]) if not full else "its memory has a limit"
            (later if checking else problems).append(text)
    notes: list[str] = []
    space = mmio_gb or 0
    if add and not mmio_gb:
        known = {device["pci"]: device for device in on_host}
        staying = [known[d["bdf"]] for d in vm["devices"] if d["key"] not in remove and d["bdf"] in known and d["bdf"] not in {one["pci"] for one in add}]
        space, unknown = mmio(add + staying)
        unknown = [text for text in unknown if text.split(" ")[0] in {device["pci"] for device in add}]
        if unknown:
            notes.append("The BAR size of %s is not known and vSphere does not tell it; nothing is guessed: if the VM does not power on "
                         "(Module 'DevicePowerOn'), set bar_size_gb of the device." % ", ".join(unknown))
        now = vm["extra"].get(MMIO_SIZE, "")
        if now.isdigit() and int(now) >= space and not int(now) & (int(now) - 1):
            space = min(space, int(now)) and int(now)  # what is there is enough
    if space and state != "absent" and wanted:
        for key, value in ((MMIO_USE, "TRUE"), (MMIO_SIZE, str(space))):
            if vm["extra"].get(key, "").upper() != value:
                extra[key] = value
                rows.append((key, vm["extra"].get(key, ""), value, None))
        if space & (space - 1):
            problems.append("mmio_gb is %d, which is no power of two" % space)
        if vm["firmware"] != "efi":
            problems.append("64-bit MMIO needs EFI, the VM's firmware is %s (do not switch it under an installed system)" % (vm["firmware"] or "not known"))
    if add:
        notes.append(LOSES_DYNAMIC if dynamic else LOSES_STATIC)

    if rows and (add or remove) and vm["snapshots"]:
        problems.append("it has snapshots (%s), which do not go with passthrough" % ", ".join(vm["snapshots"]))
    power_off = bool(rows) and vm["power"] != "poweredOff"
    for label, before, after, device in rows:
        reasons = list(doubts.get(device["pci"], []) if device else []) + (later if device else [])
        changes.add(thing, label, before, after, certainty="conditional" if reasons else "sure", reason="; ".join(reasons))
    return dict(changes=changes, add=add, remove=remove, reserve=reserve, extra=extra, problems=list(dict.fromkeys(problems)), notes=notes,
                power_off=power_off)


def cluster_notes(clusters: t.Iterable[dict], dynamic: bool) -> list[str]:
    """What these clusters (name, ha, drs) do not do for a VM that gets a device."""
    out = []
    for one in clusters:
        if one["ha"] and not dynamic:
            out.append("The cluster %s has vSphere HA on: it does not restart a VM with a DirectPath I/O device after its host has failed." % one["name"])
        if dynamic and not one["drs"]:
            out.append("The cluster %s has DRS off: nothing looks for a host with a free device, the VM powers on where it is or not at all." % one["name"])
        if dynamic and one["ha"]:
            out.append("The cluster %s has vSphere HA on: it restarts the VM only where another host has a free device of that kind." % one["name"])
    return out


def missing(vm: dict, add: list[dict], remove: list[int], dynamic: bool) -> list[str]:
    """What a read after the reconfiguration does not show as asked for."""
    have = {device["bdf"]: device for device in vm["devices"] if not device["dynamic"]}
    labels = {device["label"] for device in vm["devices"] if device["dynamic"]}
    out = ["%s is not attached" % d["pci"] for d in add if (d["label"] not in labels if dynamic else d["pci"] not in have)]
    return out + ["the device with key %d is still attached" % d["key"] for d in vm["devices"] if d["key"] in remove]
