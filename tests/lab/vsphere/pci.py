# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI devices of a host as the API shows them: the cards' functions beside a few devices that every server has."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from ..world import Card, Host, OtherDevice

MELLANOX, INTEL = 0x15B3, 0x8086
NAMES = {4115: "MT27700 Family [ConnectX-4]", 4117: "MT27710 Family [ConnectX-4 Lx]", 4119: "MT27800 Family [ConnectX-5]",
         4121: "MT28800 Family [ConnectX-5 Ex]",
         4123: "MT28908 Family [ConnectX-6]", 4125: "MT2892 Family [ConnectX-6 Dx]", 4129: "MT2910 Family [ConnectX-7]",
         41686: "MT42822 BlueField-2 integrated ConnectX-6 Dx network controller",
         41692: "MT43244 BlueField-3 integrated ConnectX-7 network controller"}
# (address, class, device id, name): neither can be passed through; ids from 0x8000 up are what a signed short shows as negative.
BOARD = (("0000:00:00.0", 0x0600, 0x2020, "Sky Lake-E DMI3 Registers"), ("0000:00:1f.0", 0x0601, 0xA1C1, "C621 Series Chipset LPC/eSPI Controller"),
         ("0000:00:17.0", 0x0106, 0xA182, "C620 Series Chipset Family SATA Controller [AHCI mode]"))


def short(value: int) -> int:
    """The signed short of the wire: 0x8086 is -32634."""
    return value - 0x10000 if value > 0x7FFF else value


def byte(value: int) -> int:
    return value - 0x100 if value > 0x7F else value


def address(bdf: str) -> tuple[int, int, int]:
    """Bus, slot and function of "0000:3b:00.1", or of "00000:059:00.1" as a VM's file has it; ValueError when it is no address."""
    parts = bdf.strip().lower().replace(".", ":").split(":")
    if len(parts) == 4 and len(parts[0]) == 5:
        return int(parts[1]), int(parts[2]), int(parts[3])
    if len(parts) == 3:
        parts.insert(0, "0")
    if len(parts) != 4:
        raise ValueError(bdf)
    return int(parts[1], 16), int(parts[2], 16), int(parts[3], 16)


def same(one: str, other: str) -> bool:
    """Whether two spellings name one device (case, with or without domain)."""
    try:
        return address(one) == address(other)
    except ValueError:
        return False


def function(card: Card, bdf: str, pci_class: int) -> Any:
    bus, slot, number = address(bdf)
    return vim.host.PciDevice(id=bdf, classId=pci_class, bus=byte(bus), slot=slot, function=number, vendorId=short(MELLANOX), subVendorId=short(MELLANOX),
                              vendorName="Mellanox Technologies", deviceId=short(card.mt), subDeviceId=8 if card.vpi else 3,
                              parentBridge="0000:%02x:00.0" % (bus - 1),
                              deviceName=NAMES.get(card.mt, card.device))


def other(one: OtherDevice) -> Any:
    bus, slot, number = address(one.bdf)
    return vim.host.PciDevice(id=one.bdf, classId=one.pci_class, bus=byte(bus), slot=slot, function=number, vendorId=short(one.vendor),
                              subVendorId=short(one.vendor), vendorName=one.vendor_name, deviceId=short(one.device), subDeviceId=0x1212,
                              parentBridge="0000:%02x:00.0" % (bus - 1), deviceName=one.name)


def passable(host: Host) -> dict[str, tuple[int, int, str, int]]:
    """What can be passed through: address -> (vendor id, device id, name, GiB of its BARs)."""
    out = {bdf: (MELLANOX, card.mt, NAMES.get(card.mt, card.device), bar_gib(card)) for bdf, card, _port in host.functions()}
    out.update((one.bdf, (one.vendor, one.device, one.name, one.bar_gib)) for one in host.others)
    return dict(sorted(out.items()))


def devices(host: Host) -> list[Any]:
    out = []
    for bdf, pci_class, device_id, name in BOARD:
        bus, slot, number = address(bdf)
        out.append(vim.host.PciDevice(id=bdf, classId=pci_class, bus=bus, slot=slot, function=number, vendorId=short(INTEL), subVendorId=0x1028,
                                      vendorName="Intel Corporation", deviceId=short(device_id), subDeviceId=0x7D0, deviceName=name))
    out += [function(card, bdf, card.pci_class(port.number)) for bdf, card, port in host.functions()]
    return out + [other(one) for one in host.others]


def passthru(host: Host) -> list[Any]:
    """HostPciPassthruInfo of every device; the hardware label is known from 7.0.2 on."""
    labels, capable = release(host) >= (7, 0, 2), host.settings.get("vtd", True)  # without VT-d nothing can be passed through
    out = [vim.host.PciPassthruInfo(id=row[0], dependentDevice=row[0], passthruEnabled=False, passthruCapable=False, passthruActive=False) for row in BOARD]
    bound = {one.bdf: one.dependent for one in host.others if one.dependent}
    for bdf in passable(host):
        state = host.passthru[bdf]
        out.append(vim.host.PciPassthruInfo(id=bdf, dependentDevice=bound.get(bdf, bdf), passthruEnabled=state.enabled, passthruCapable=capable,
                                            passthruActive=state.active, hardwareLabel=state.label if labels else None))
    return out


def together(host: Host, name: str) -> list[str]:
    """The functions that UpdatePassthruConfig switches for that id: the one, or all that depend on it or on what it depends on."""
    infos = [info for info in passthru(host) if info.passthruCapable]
    wanted = next((info.dependentDevice for info in infos if same(info.id, name)), name)
    return [info.id for info in infos if same(info.dependentDevice, wanted)]


def release(host: Host) -> tuple[int, ...]:
    return tuple(int(part) for part in host.version.split("."))


def bar_gib(card: Card) -> int:
    """Size of one function's largest BAR in GiB (PF_LOG_BAR_SIZE counts in powers of two of MiB)."""
    log = card.config.get("PF_LOG_BAR_SIZE")
    return (1 << log.current) >> 10 if log else 0
