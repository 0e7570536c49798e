# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a real host refuses when a VM powers on: ReconfigVM is lax, this is where mistakes show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyVmomi import vim

from ..world import Host, PassthruDevice, Vm
from . import pci
from .host import holder_of
from .model import message

if TYPE_CHECKING:
    from .server import VsphereFace

SYSTEM_MEMORY_MB = 4096  # what ESXi keeps for itself
MMIO_FREE_GIB = 16  # BARs above this need 64-bit MMIO


def refuse(text: str, key: str = "lab.refused", module: str = "") -> None:
    """The VM configuration is refused in the words of the virtual machine monitor."""
    lines = ["Module '%s' power on failed." % module] if module else []
    raise vim.fault.GenericVmConfigFault(reason=text, msg=" ".join(lines + [text]),
                                         faultMessage=[message("msg.moduletable.powerOnFailed", one) for one in lines] + [message(key, text)])


def decimal(bdf: str) -> str:
    """The address as these messages spell it: bus, device and function in decimal."""
    return "%d:%d.%d" % pci.address(bdf)


def check(face: VsphereFace, vm: Vm) -> dict[int, str]:
    """Raises what the host refuses; returns the functions for dynamic devices by device key."""
    host = face.world.hosts[vm.host]
    _cpu(host, vm)
    if vm.devices:
        _memory(vm)
    _latency(host, vm)
    chosen: dict[int, str] = {}
    for device in vm.devices:
        if not device.dynamic:
            _fixed(face, host, vm, device)
    taken = [device.bdf for device in vm.devices if not device.dynamic]
    for device in vm.devices:
        if device.dynamic:
            chosen[device.key] = _allocate(face, host, vm, device, taken)
            taken.append(chosen[device.key])
    _mmio(host, vm, taken)
    _capacity(face, host, vm)
    return chosen


def _cpu(host: Host, vm: Vm) -> None:
    if vm.cores_per_socket < 1 or vm.cpus % vm.cores_per_socket:
        refuse("The number of virtual CPUs (%d) is not a multiple of the number of cores per socket (%d)." % (vm.cpus, vm.cores_per_socket),
               "msg.cpuid.numvcpus")
    if vm.cpus > 2 * host.cores:
        refuse("The virtual machine has %d virtual CPUs, but the host supports only %d." % (vm.cpus, 2 * host.cores), "msg.cpuid.numvcpus")


def _memory(vm: Vm) -> None:
    if vm.memory_limit != -1:
        refuse("Invalid memory setting: memory limit (sched.mem.max) of a virtual machine with a passthrough device should be unlimited.", "msg.memsched",
               "MemSched")
    if vm.memory_reservation_mb != vm.memory_mb:
        refuse("Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize(%d)." % vm.memory_mb, "msg.memsched", "MemSched")


def _latency(host: Host, vm: Vm) -> None:
    if vm.latency != "high":
        return
    if vm.memory_reservation_mb != vm.memory_mb:
        refuse("Invalid memory setting: memory reservation (sched.mem.min) should be equal to memsize(%d)." % vm.memory_mb, "msg.memsched", "MemSched")
    needed = vm.cpus * host.mhz // vm.threads
    if vm.cpu_reservation_mhz < needed:
        refuse("Invalid CPU reservation for the latency-sensitive VM, (sched.cpu.min) should be at least %d MHz." % needed, "msg.cpusched", "MonitorLoop")


def _fixed(face: VsphereFace, host: Host, vm: Vm, device: PassthruDevice) -> None:
    bdf = next((one for one in host.passthru if pci.same(one, device.bdf)), None)
    if bdf is None or not host.passthru[bdf].active:
        refuse("Device %s is not a passthrough device." % decimal(device.bdf), "msg.pciPassthru.notPassthru", "DevicePowerOn")
    vendor, model, _name, _gib = pci.passable(host)[bdf]
    hexadecimal = re.fullmatch("[0-9a-fA-F]{1,4}", device.device_id) is not None and int(device.device_id, 16) == model
    if not hexadecimal or device.vendor_id & 0xFFFF != vendor or device.system_id != face.host(host.name).system_id:
        refuse("The systemId does not match the current system or the deviceId and vendorId do not match the device currently at %s." % decimal(bdf),
               "msg.pciPassthru.mismatch", "DevicePowerOn")
    holder = holder_of(face.world, host, bdf)
    if holder and holder != vm.name:
        refuse("Device %s is already in use by virtual machine %s." % (decimal(bdf), holder), "msg.pciPassthru.inUse", "DevicePowerOn")


def _allocate(face: VsphereFace, host: Host, vm: Vm, device: PassthruDevice, taken: list[str]) -> str:
    if vm.hw_version < 17:
        refuse("Dynamic DirectPath I/O needs virtual hardware version 17 or later; the virtual machine has %d." % vm.hw_version, "msg.pciPassthru.version",
               "DevicePowerOn")
    for bdf, (vendor, model, _name, _gib) in pci.passable(host).items():
        state = host.passthru[bdf]
        fits = any(one["vendor"] == vendor and one["device"] == model for one in device.allowed)
        if state.active and fits and (not device.label or device.label == state.label) and not any(pci.same(bdf, one) for one in taken) \
                and not holder_of(face.world, host, bdf):
            return bdf
    wanted = " or ".join("%04x:%04x" % (one["vendor"], one["device"]) for one in device.allowed) or "no device"
    raise vim.fault.InsufficientResourcesFault(msg="No host is compatible with the virtual machine: host %s has no free assignable device %s%s."
                                               % (host.name, wanted, " labelled '%s'" % device.label if device.label else ""))


def _mmio(host: Host, vm: Vm, functions: list[str]) -> None:
    kinds = pci.passable(host)
    total = sum(gib for known, (_vendor, _model, _name, gib) in kinds.items() for bdf in functions if pci.same(known, bdf))
    if total <= MMIO_FREE_GIB:
        return
    needed = 1
    while needed < total:
        needed *= 2
    needed *= 2
    size = vm.extra.get("pciPassthru.64bitMMIOSizeGB", "0")
    enough = size.isdigit() and int(size) >= needed and int(size) & (int(size) - 1) == 0
    if vm.firmware != "efi" or vm.extra.get("pciPassthru.use64bitMMIO", "").upper() != "TRUE" or not enough:
        refuse("The devices need %d GB of 64-bit MMIO: EFI firmware, pciPassthru.use64bitMMIO=TRUE and pciPassthru.64bitMMIOSizeGB=%d." % (total, needed),
               "msg.pciPassthru.mmio", "DevicePowerOn")


def _capacity(face: VsphereFace, host: Host, vm: Vm) -> None:
    running = [one for one in face.world.vm_on(host.name) if one is not vm]
    ref, text = face.host(host.name).ref, "The available %s resources of the host %s are insufficient for the operation: %d %s requested, %d %s free."
    free = host.cores * host.mhz - sum(one.cpu_reservation_mhz for one in running)
    if vm.cpu_reservation_mhz > free:
        raise vim.fault.InsufficientHostCpuCapacityFault(host=ref, unreserved=free, requested=vm.cpu_reservation_mhz,
                                                         msg=text % ("CPU", host.name, vm.cpu_reservation_mhz, "MHz", free, "MHz"))
    free = host.memory_mb - SYSTEM_MEMORY_MB - sum(one.memory_reservation_mb for one in running)
    if vm.memory_reservation_mb > free:
        raise vim.fault.InsufficientHostMemoryCapacityFault(host=ref, unreserved=free << 20, requested=vm.memory_reservation_mb << 20,
                                                            msg=text % ("memory", host.name, vm.memory_reservation_mb, "MB", free, "MB"))
