# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Size, reservations and latency sensitivity of a VM: one reconfiguration from what it has to what it is to have."""

from __future__ import annotations

import typing as t

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes

from .vm_devices import hardware_version

VM_PATHS = ("config.hardware", "config.memoryAllocation", "config.cpuAllocation", "config.memoryReservationLockedToMax", "config.latencySensitivity",
            "config.cpuHotAddEnabled", "config.memoryHotAddEnabled", "config.extraConfig", "config.changeVersion", "config.version", "config.cpuAffinity",
            "runtime.powerState", "runtime.host")
HOST_PATHS = ("name", "runtime.connectionState", "hardware.cpuInfo", "hardware.memorySize", "summary.hardware", "vm")
HELD_PATHS = ("name", "runtime.powerState", "config.cpuAllocation", "config.memoryAllocation", "config.memoryReservationLockedToMax", "config.hardware")
UNLIMITED = -1
HYPERTHREADS = "high_with_hyperthreading"
NUMA_AFFINITY, PREFER_HT = "numa.nodeAffinity", "numa.vcpu.preferHT"
NEWER = (8, 0)  # virtual hyperthreading and cores per NUMA node
NEWER_HARDWARE = 20
# What a declared profile says where the user says nothing; None leaves a setting alone.
SETTINGS = ("reserve_memory", "reserve_cpu", "latency", "hot_add")
PROFILES: dict[str, dict] = {
    "hpc": dict(reserve_memory=True, reserve_cpu=True, latency="high", hot_add=False),
    "none": {},
}
LIVE = ("memoryReservationLockedToMax", "memory", "cpu")  # parts of the spec that a running VM takes


def vm_paths(version: tuple[int, ...]) -> tuple[str, ...]:
    """What is read of a VM; a server refuses to read a property that is newer than itself."""
    return VM_PATHS + (("config.numaInfo",) if version >= NEWER else ())


def with_profile(options: dict) -> dict:
    """The options with what the profile says for those that are not given; what `leave` names stays as the VM has it."""
    profile = PROFILES[options["profile"]]
    out = dict(options, **{key: profile.get(key) if options[key] is None else options[key] for key in SETTINGS})
    out.update((key, None) for key in options["leave"] or [])
    return out


def host_plain(row: dict) -> dict:
    """Cores, sockets, MHz of one core (rounded up: a reservation one MHz short is refused at power-on) and MB of the host."""
    cpu, summary = row["hardware.cpuInfo"], row["summary.hardware"]
    mhz = -(-cpu.hz // 1000000) if cpu and cpu.hz else (summary.cpuMhz if summary else 0)
    return dict(name=row["name"], cores=cpu.numCpuCores if cpu else 0, sockets=(cpu.numCpuPackages if cpu else 0) or 1,
                mhz=mhz, memory_mb=(row["hardware.memorySize"] or 0) // (1 << 20))


def vm_plain(row: dict) -> dict:
    hardware, memory, cpu = row["config.hardware"], row["config.memoryAllocation"], row["config.cpuAllocation"]
    latency = row["config.latencySensitivity"]
    numa, affinity = row.get("config.numaInfo"), row.get("config.cpuAffinity")

    def amount(allocation: t.Any, name: str, unset: int) -> int:
        value = getattr(allocation, name, None) if allocation else None
        return unset if value is None else int(value)  # pyVmomi's own long is nothing that Ansible can keep

    return dict(
        power=str(row["runtime.powerState"] or ""), cpus=hardware.numCPU, cores_per_socket=hardware.numCoresPerSocket or 1, memory_mb=hardware.memoryMB,
        locked=bool(row["config.memoryReservationLockedToMax"]), memory_reservation=amount(memory, "reservation", 0),
        memory_limit=amount(memory, "limit", UNLIMITED),
        cpu_reservation=amount(cpu, "reservation", 0), cpu_limit=amount(cpu, "limit", UNLIMITED), latency=str(latency.level) if latency else "normal",
        cpu_hot_add=bool(row["config.cpuHotAddEnabled"]), memory_hot_add=bool(row["config.memoryHotAddEnabled"]),
        threads=getattr(hardware, "simultaneousThreads", None) or 1, cores_per_numa_node=(numa.coresPerNumaNode or 0) if numa else 0,
        affinity=sorted(int(one) for one in (affinity.affinitySet if affinity else None) or []), hw_version=hardware_version(row.get("config.version")),
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

    wanted: the module's options (with_profile); None leaves a setting alone. host: host_plain and api, the version that the server speaks.
    """
    changes, spec, problems = Changes("vsphere"), {}, []
    thing = "vm %s" % name

    def change(label: str, before: t.Any, after: t.Any, **fields: t.Any) -> None:
        changes.add(thing, label, before, after)
        spec.update(fields)

    def newer(what: str) -> None:
        if tuple(host.get("api") or NEWER) < NEWER:
            problems.append("%s needs vSphere 8.0, the API here is %s" % (what, ".".join(map(str, host["api"]))))
        elif vm["hw_version"] < NEWER_HARDWARE:
            problems.append("%s needs hardware version %d, the VM has %d" % (what, NEWER_HARDWARE, vm["hw_version"]))

    for key in ("cpus", "cores_per_socket", "memory_mb"):
        if (wanted[key] or 0) < 0:
            problems.append("%s cannot be %d" % (key, wanted[key]))
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
    level = {HYPERTHREADS: "high"}.get(wanted["latency"], wanted["latency"])
    threads = {None: vm["threads"], HYPERTHREADS: 2}.get(wanted["latency"], 1)
    if threads > 1 and threads != vm["threads"]:
        newer("latency sensitivity high with hyperthreading")
    if threads > 1 and cpus % threads:
        problems.append("%d vCPUs cannot share cores in pairs" % cpus)
    reservation = -(-cpus // threads) * host["mhz"]  # a vCPU with a core of its own reserves all of it, two that share one reserve it once
    if wanted["reserve_cpu"] and (vm["cpu_reservation"] != reservation or vm["cpu_limit"] != UNLIMITED):
        change("CPU reservation MHz", vm["cpu_reservation"], reservation, cpu=dict(reservation=reservation, limit=UNLIMITED))
    if level and vm["latency"] != level:
        change("latency sensitivity", vm["latency"], level, latency=level)
    if threads != vm["threads"]:
        change("vCPUs per core", vm["threads"], threads, simultaneousThreads=threads)
    high = (level or vm["latency"]) == "high"
    if high and not ((wanted["reserve_memory"] or vm["memory_reservation"] >= memory) and (wanted["reserve_cpu"] or vm["cpu_reservation"] >= reservation)):
        problems.append("latency sensitivity high needs the whole memory and vCPUs x MHz reserved (reserve_memory and reserve_cpu)")
    for label, key, field in (("CPU hot add", "cpu_hot_add", "cpuHotAddEnabled"), ("memory hot add", "memory_hot_add", "memoryHotAddEnabled")):
        if wanted["hot_add"] is not None and vm[key] != wanted["hot_add"]:
            change(label, vm[key], wanted["hot_add"], **{field: wanted["hot_add"]})
    if wanted.get("cores_per_numa_node") is not None and wanted["cores_per_numa_node"] != vm["cores_per_numa_node"]:
        newer("cores_per_numa_node")
        change("cores per NUMA node", vm["cores_per_numa_node"] or "ESXi's choice", wanted["cores_per_numa_node"] or "ESXi's choice",
               coresPerNumaNode=wanted["cores_per_numa_node"])
    if wanted.get("cpu_affinity") is not None and sorted(set(wanted["cpu_affinity"])) != vm["affinity"]:
        change("CPU affinity", vm["affinity"], sorted(set(wanted["cpu_affinity"])), cpuAffinity=sorted(set(wanted["cpu_affinity"])))
        if wanted["cpu_affinity"] and high:
            problems.append("latency sensitivity high gives every vCPU a core of its own: it and cpu_affinity exclude each other")
    options = dict(wanted["extra_config"] or {})
    if wanted.get("numa_affinity") is not None:
        options[NUMA_AFFINITY] = ",".join(map(str, wanted["numa_affinity"]))
    if wanted.get("prefer_hyperthreads") is not None:
        options[PREFER_HT] = wanted["prefer_hyperthreads"]
    extra = {}
    for key, value in sorted(options.items()):
        text = option_text(value)
        if vm["extra"].get(key, "") != text:
            extra[key] = text
            changes.add(thing, "extra config %s" % key, vm["extra"].get(key, ""), text)
    if extra:
        spec["extra"] = extra

    if host["cores"] and -(-cpus // threads) > host["cores"] and high:
        problems.append("%d vCPUs, %s, do not fit the %d cores of %s" % (
            cpus, "each with a core of its own" if threads == 1 else "two to a core", host["cores"], host["name"]))
    elif host["cores"] and wanted["reserve_cpu"] and reservation > host["cores"] * host["mhz"]:
        problems.append("%d vCPUs x %d MHz = %d MHz reserved do not fit the %d MHz of %s" % (
            cpus, host["mhz"], reservation, host["cores"] * host["mhz"], host["name"]))
    if host["memory_mb"] and memory >= host["memory_mb"]:
        problems.append("%d MB do not fit the %d MB of %s" % (memory, host["memory_mb"], host["name"]))
    power_off = vm["power"] != "poweredOff" and any(key not in LIVE for key in spec)
    return dict(changes=changes, spec=spec, problems=problems, power_off=power_off, cpu_reservation_mhz=reservation)


def held(row: dict) -> dict:
    """name, cpu (MHz) and memory (MB) that a VM holds of its host; a VM that is off holds nothing. row: HELD_PATHS as read."""
    on = str(row["runtime.powerState"]) == "poweredOn"
    cpu, memory, hardware = row["config.cpuAllocation"], row["config.memoryAllocation"], row["config.hardware"]
    locked = hardware.memoryMB if row["config.memoryReservationLockedToMax"] and hardware else 0
    return dict(name=row["name"], on=on, cpu=int((cpu.reservation if cpu else 0) or 0) if on else 0,
                memory=int(locked or (memory.reservation if memory else 0) or 0) if on else 0)


def no_room(spec: dict, host: dict, others: list[dict]) -> list[str]:
    """What a new reservation does not find on the host, with the numbers and who holds the rest. others: held() of the other VMs there."""
    out = []
    for key, unit, size in (("cpu", "MHz", host["cores"] * host["mhz"]), ("memory", "MB", host["memory_mb"])):
        wanted = spec.get(key, {}).get("reservation", 0)
        holders = sorted((one for one in others if one[key]), key=lambda one: -one[key])
        left = size - sum(one[key] for one in holders)
        if wanted and holders and size and wanted > left:
            out.append("%d %s to reserve do not fit the %d of %d %s that are left on %s: %s%s" % (
                wanted, unit, max(left, 0), size, unit, host["name"], ", ".join("%s holds %d" % (one["name"], one[key]) for one in holders[:5]),
                " and %d more VMs the rest" % (len(holders) - 5) if len(holders) > 5 else ""))
    return out


def unlike(name: str, vm: dict, host: dict, wanted: dict) -> list[str]:
    """What a read after the reconfiguration shows otherwise than asked for."""
    return ["%s is %s, not %s" % (step["name"], step["before"], step["after"]) for step in plan(name, vm, host, wanted)["changes"].steps]
