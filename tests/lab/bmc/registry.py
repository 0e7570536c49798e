# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BIOS attribute registries: what values an attribute takes, and what one attribute does to another."""

from __future__ import annotations

from typing import Any

DELL_REGISTRY, HPE_REGISTRY = "BiosAttributeRegistry.v1_0_0", "BiosAttributeRegistryU30.v1_2_44"
SWITCH = ("Enabled", "Disabled")
# name: (type, values or (lower, upper) or (), read-only, display name, menu)
Attribute = tuple[str, tuple[Any, ...], bool, str, str]

DELL: dict[str, Attribute] = {
    "SysMemSize": ("String", (), True, "System Memory Size", "MemSettings"),
    "LogicalProc": ("Enumeration", SWITCH, False, "Logical Processor", "ProcSettings"),
    "ProcVirtualization": ("Enumeration", SWITCH, False, "Virtualization Technology", "ProcSettings"),
    "SriovGlobalEnable": ("Enumeration", SWITCH, False, "SR-IOV Global Enable", "IntegratedDevices"),
    "MmioAbove4Gb": ("Enumeration", SWITCH, False, "Memory Mapped I/O above 4GB", "IntegratedDevices"),
    "SysProfile": ("Enumeration", ("PerfPerWattOptimizedDapc", "PerfPerWattOptimizedOs", "PerfOptimized", "PerfWorkStationOptimized", "Custom"), False,
                   "System Profile", "SysProfileSettings"),
    "WorkloadProfile": ("Enumeration", ("NotAvailable", "HpcProfile", "LowLatencyOptimizedProfile", "VtOptimizedProfile", "VtPerWattOptimizedProfile"), False,
                        "Workload Profile", "SysProfileSettings"),
    "ProcPwrPerf": ("Enumeration", ("SysDbpm", "OsDbpm", "MaxPerf"), False, "CPU Power Management", "SysProfileSettings"),
    "NumLock": ("Enumeration", ("On", "Off"), False, "Keyboard NumLock", "MiscSettings"),
    "AcPwrRcvryUserDelay": ("Integer", (60, 600), False, "User Defined Delay (60s to 600s)", "SysSecurity"),
}
HPE: dict[str, Attribute] = {
    "WorkloadProfile": ("Enumeration", ("GeneralPowerEfficientCompute", "GeneralPeakFrequencyCompute", "GeneralThroughputCompute",
                                        "Virtualization-PowerEfficient",
                                        "Virtualization-MaxPerformance", "LowLatency", "HighPerformanceCompute(HPC)", "GraphicProcessing", "Custom"), False,
                        "Workload Profile", "BiosMainPage"),
    "ProcVirtualization": ("Enumeration", SWITCH, False, "Intel(R) Virtualization Technology (Intel VT)", "VirtualizationOptions"),
    "IntelProcVtd": ("Enumeration", SWITCH, False, "Intel(R) VT-d", "VirtualizationOptions"),
    "Sriov": ("Enumeration", SWITCH, False, "SR-IOV", "VirtualizationOptions"),
    "ProcHyperthreading": ("Enumeration", SWITCH, False, "Intel(R) Hyper-Threading", "ProcessorOptions"),
    "PowerRegulator": ("Enumeration", ("DynamicPowerSavings", "StaticLowPower", "StaticHighPerf", "OsControl"), False, "Power Regulator", "PowerOptions"),
    "SerialNumber": ("String", (), True, "Serial Number", "ServerInformation"),
    "PostBootProgress": ("Enumeration", SWITCH, False, "POST Boot Progress", "BootOptions"),
}
VIRTUAL = ("ProcVirtualization", "IntelProcVtd", "Sriov")
# What a workload profile of HPE sets and locks: the ones for HPC switch off what passthrough needs.
HPE_PROFILES: dict[str, dict[str, str]] = {
    "LowLatency": dict.fromkeys(VIRTUAL, "Disabled") | {"PowerRegulator": "StaticHighPerf"},
    "HighPerformanceCompute(HPC)": dict.fromkeys(VIRTUAL, "Disabled") | {"PowerRegulator": "StaticHighPerf"},
    "GraphicProcessing": dict.fromkeys(VIRTUAL, "Disabled"),
    "Virtualization-PowerEfficient": dict.fromkeys(VIRTUAL, "Enabled") | {"PowerRegulator": "OsControl"},
    "Virtualization-MaxPerformance": dict.fromkeys(VIRTUAL, "Enabled") | {"PowerRegulator": "StaticHighPerf"},
}
HPE_CURRENT = {"WorkloadProfile": "GeneralPowerEfficientCompute", "ProcVirtualization": "Disabled", "IntelProcVtd": "Disabled", "Sriov": "Disabled",
               "ProcHyperthreading": "Enabled", "PowerRegulator": "DynamicPowerSavings", "SerialNumber": "CZ20390101", "PostBootProgress": "Disabled"}


def attributes(vendor: str) -> dict[str, Attribute]:
    return DELL if vendor.startswith("Dell") else HPE


def locked(vendor: str, current: dict[str, Any]) -> set[str]:
    """Attributes that another one's value makes read-only."""
    if vendor.startswith("Dell"):
        return set() if current.get("SysProfile") == "Custom" else {"ProcPwrPerf"}
    return set(HPE_PROFILES.get(current.get("WorkloadProfile", ""), ()))


def registry(vendor: str, current: dict[str, Any]) -> dict[str, Any]:
    """The registry document."""
    dell = vendor.startswith("Dell")
    rows = []
    shut = locked(vendor, current)
    for order, (name, (kind, values, read_only, display, menu)) in enumerate(sorted(attributes(vendor).items()), 1):
        row: dict[str, Any] = {"AttributeName": name, "DisplayName": display, "DisplayOrder": order * 100, "HelpText": display + ".", "Hidden": False,
                               "MenuPath": "./%s" % menu, "ReadOnly": read_only or name in shut, "ResetRequired": True, "Type": kind, "WriteOnly": False}
        if kind == "Enumeration":
            row["Value"] = [{"ValueDisplayName": value, "ValueName": value} for value in values]
        elif kind == "Integer":
            row.update(LowerBound=values[0], UpperBound=values[1], ScalarIncrement=0)
        else:
            row.update(MinLength=0, MaxLength=64)
        row["CurrentValue"] = current.get(name)
        rows.append(row)
    dependencies = []
    if dell:
        dependencies.append(_dependency("ProcPwrPerf", "SysProfile", "NEQ", "Custom", "ReadOnly", True))
    else:
        for profile, sets in HPE_PROFILES.items():
            for name, value in sets.items():
                dependencies.append(_dependency(name, "WorkloadProfile", "EQU", profile, "CurrentValue", value))
                dependencies.append(_dependency(name, "WorkloadProfile", "EQU", profile, "ReadOnly", True))
    name = DELL_REGISTRY if dell else HPE_REGISTRY
    return {"@odata.type": "#AttributeRegistry.v1_3_4.AttributeRegistry", "Id": name if not dell else "BiosRegistry", "Language": "en",
            "Name": "BIOS Attribute Registry", "OwningEntity": "Dell" if dell else "HPE", "RegistryVersion": "1.0.0" if dell else "1.2.44",
            "Description": "This registry defines a representation of BIOS Attribute instances",
            "SupportedSystems": [{"ProductName": "PowerEdge R740" if dell else "ProLiant DL380 Gen10", "SystemId": "0x716" if dell else "U30",
                                  "FirmwareVersion": "2.12.2" if dell else "2.44"}],
            "RegistryEntries": {"Attributes": rows, "Dependencies": dependencies,
                                "Menus": [{"DisplayName": menu, "DisplayOrder": n * 100, "Hidden": False, "MenuName": menu, "MenuPath": "./%s" % menu,
                                           "ReadOnly": False}
                                          for n, menu in enumerate(sorted({row["MenuPath"][2:] for row in rows}), 1)]}}


def _dependency(target: str, source: str, condition: str, value: str, prop: str, to: Any) -> dict[str, Any]:
    return {"DependencyFor": target, "Type": "Map", "Dependency": {
        "MapFrom": [{"MapFromAttribute": source, "MapFromCondition": condition, "MapFromProperty": "CurrentValue", "MapFromValue": value}],
        "MapToAttribute": target, "MapToProperty": prop, "MapToValue": to}}


def problem(vendor: str, name: str, value: Any, current: dict[str, Any], together: dict[str, Any]) -> str:
    """What is wrong with setting an attribute: unknown, type, value, read-only; nothing when it may be set."""
    about = attributes(vendor).get(name)
    if about is None or name not in current:
        return "unknown"
    kind, values, read_only, dummy, dummy = about
    if read_only or name in locked(vendor, {**current, **together}):
        return "read-only"
    if kind == "Integer":
        if not isinstance(value, int) or isinstance(value, bool):
            return "type"
        return "" if values[0] <= value <= values[1] else "value"
    if not isinstance(value, str):
        return "type"
    return "" if kind == "String" or value in values else "value"
