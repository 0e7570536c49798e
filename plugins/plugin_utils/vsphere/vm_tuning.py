# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Size, reservations and latency sensitivity of a VM: one reconfiguration from what it has to what it is to have."""

from __future__ import annotations

import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes

VM_PATHS = ("config.hardware", "config.memoryAllocation", "config.cpuAllocation", "config.memoryReservationLockedToMax", "config.latencySensitivity",
            "config.cpuHotAddEnabled", "config.memoryHotAddEnabled", "config.extraConfig", "config.changeVersion", "runtime.powerState", "runtime.host")
HOST_PATHS = ("name", "runtime.connectionState", "hardware.cpuInfo", "hardware.memorySize", "summary.hardware")
UNLIMITED = -1
LIVE = ("memoryReservationLockedToMax", "memory", "cpu")  # parts of the spec that a running VM takes


def host_plain(row: dict) -> dict:
    """Cores, sockets, MHz of one core (rounded up: a reservation one MHz short is refused at power-on) and MB of the host."""
    cpu, summary = row["hardware.cpuInfo"], row["summary.hardware"]
    mhz = -(-cpu.hz // 1000000) if cpu and cpu.hz else (summary.cpuMhz if summary else 0)
    return dict(name=row["name"], cores=cpu.numCpuCores if cpu else 0, sockets=(cpu.numCpuPackages if cpu else 0) or 1,
                mhz=mhz, memory_mb=(row["hardware.memorySize"] or 0) // (1 << 20))


def vm_plain(row: dict) -> dict:
    hardware, memory, cpu = row["config.hardware"], row["config.memoryAllocation"], row["config.cpuAllocation"]
    latency = row["config.latencySensitivity"]

    def amount(allocation: t.Any, name: str, unset: int) -> int:
        value = getattr(allocation, name, None) if allocation else None
        return unset if value is None else int(value)  # pyVmomi's own long is nothing that Ansible can keep

    return dict(
        power=str(row["runtime.powerState"] or ""), cpus=hardware.numCPU, cores_per_socket=hardware.numCoresPerSocket or 1, memory_mb=hardware.memoryMB,
        locked=bool(row["config.memoryReservationLockedToMax"]), memory_reservation=amount(memory, "reservation", 0),
        memory_limit=amount(memory, "limit", UNLIMITED),
        cpu_reservation=amount(cpu, "reservation", 0), cpu_limit=amount(cpu, "limit", UNLIMITED), latency=str(latency.level) if latency else "normal",
        cpu_hot_add=bool(row["config.cpuHotAddEnabled"]), memory_hot_add=bool(row["config.memoryHotAddEnabled"]),
        extra={option.key: str(option.value) for option in row["config.extraConfig"] or []})


def option_text(value: t.Any) -> str:
    """A value of extra_config as the VM keeps it; empty removes the key."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value)


def sockets_fit(cpus: int, sockets: int) -> int:
    """Cores per socket that spread the vCPUs evenly over the host's sockets, so that the VM's NUMA nodes are the host's."""
    return cpus // sockets if cpus % sockets == 0 else cpus


def plan(name: str, vm: dict, host: dict, wanted: dict) -> dict:
    """changes, spec (plain), problems (what the host cannot give), power_off.

    wanted: the module's options; None leaves a setting alone.
    """
    changes, spec, problems = Changes("vsphere"), {}, []
    thing = "vm %s" % name

    def change(label: str, before: t.Any, after: t.Any, **fields: t.Any) -> None:
        changes.add(thing, label, before, after)
        spec.update(fields)

    cpus = wanted["cpus"] or vm["cpus"]
    cores = wanted["cores_per_socket"] or (sockets_fit(cpus, host["sockets"]) if wanted["cpus"] else vm["cores_per_socket"])
    memory = wanted["memory_mb"] or vm["memory_mb"]
    if cpus % cores:
        problems.append("%d vCPUs do not fit sockets of %d" % (cpus, cores))
    if cpus != vm["cpus"]:
        change("vCPUs", vm["cpus"], cpus, numCPUs=cpus)
    if cores != vm["cores_per_socket"]:
        change("cores per socket", vm["cores_per_socket"], cores, numCoresPerSocket=cores)
    if memory != vm["memory_mb"]:
        change("memory MB", vm["memory_mb"], memory, memoryMB=memory)
    if memory % 4:
        problems.append("%d MB is no multiple of 4 MB" % memory)

    # Memory and its reservation go together: a locked reservation follows the size, but a plain one that stays behind is refused at power-on.
    if wanted["reserve_memory"] and not (vm["locked"] and vm["memory_reservation"] == memory and vm["memory_limit"] == UNLIMITED):
        if not vm["locked"] or vm["memory_limit"] != UNLIMITED or vm["memory_reservation"] != vm["memory_mb"]:
            change("memory reservation", "%d MB" % vm["memory_reservation"], "all, locked to the memory size, no limit")
        spec.update(memoryReservationLockedToMax=True, memory=dict(reservation=memory, limit=UNLIMITED))
    reservation = cpus * host["mhz"]
    if wanted["reserve_cpu"] and (vm["cpu_reservation"] != reservation or vm["cpu_limit"] != UNLIMITED):
        change("CPU reservation MHz", vm["cpu_reservation"], reservation, cpu=dict(reservation=reservation, limit=UNLIMITED))
    if wanted["latency"] and vm["latency"] != wanted["latency"]:
        change("latency sensitivity", vm["latency"], wanted["latency"], latency=wanted["latency"])
    if wanted["latency"] == "high" and not (wanted["reserve_memory"] and wanted["reserve_cpu"]):
        problems.append("latency sensitivity high needs the whole memory and vCPUs x MHz reserved (reserve_memory and reserve_cpu)")
    for label, key, field in (("CPU hot add", "cpu_hot_add", "cpuHotAddEnabled"), ("memory hot add", "memory_hot_add", "memoryHotAddEnabled")):
        if wanted["hot_add"] is not None and vm[key] != wanted["hot_add"]:
            change(label, vm[key], wanted["hot_add"], **{field: wanted["hot_add"]})
    extra = {}
    for key, value in sorted((wanted["extra_config"] or {}).items()):
        text = option_text(value)
        if vm["extra"].get(key, "") != text:
            extra[key] = text
            changes.add(thing, "extra config %s" % key, vm["extra"].get(key, ""), text)
    if extra:
        spec["extra"] = extra

    if host["cores"] and cpus > host["cores"] and wanted["latency"] == "high":
        problems.append("%d vCPUs, each with a core of its own, do not fit the %d cores of %s" % (cpus, host["cores"], host["name"]))
    elif host["cores"] and wanted["reserve_cpu"] and reservation > host["cores"] * host["mhz"]:
        problems.append("%d vCPUs x %d MHz = %d MHz reserved do not fit the %d MHz of %s" % (
            cpus, host["mhz"], reservation, host["cores"] * host["mhz"], host["name"]))
    if host["memory_mb"] and memory >= host["memory_mb"]:
        problems.append("%d MB do not fit the %d MB of %s" % (memory, host["memory_mb"], host["name"]))
    power_off = vm["power"] != "poweredOff" and any(key not in LIVE for key in spec)
    return dict(changes=changes, spec=spec, problems=problems, power_off=power_off, cpu_reservation_mhz=reservation)


def unlike(name: str, vm: dict, host: dict, wanted: dict) -> list[str]:
    """What a read after the reconfiguration shows otherwise than asked for."""
    return ["%s is %s, not %s" % (step["name"], step["before"], step["after"]) for step in plan(name, vm, host, wanted)["changes"].steps]
