# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The world model of the rehearsal lab: what is true, apart from how a protocol shows it.

Plain data and transitions, no protocol and no text of any tool. Every face (vSphere, ESXi shell, guest shell, Redfish)
reads and changes the same World under `world.lock`, and writes what it was asked to `world.journal`.
A reboot is a transition: next becomes current, staged becomes active, /tmp is empty, the mst driver is not started,
SSH is up only if its policy says so (sources: the facts behind the design, rules 4 to 8).
"""

from __future__ import annotations

import dataclasses
import datetime
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable

# Hidden while the next-boot value of ADVANCED_PCI_SETTINGS is 0 (mlxconfig parameter database of MFT 4.18).
ADVANCED_ONLY = ("MAX_ACC_OUT_READ", "FORCE_ETH_PCI_SUBCLASS", "IBM_CAPI_EN")
IB, ETH = 1, 2
CLASS_ETHERNET, CLASS_INFINIBAND = 0x0200, 0x0207
ACCEPTANCE = ("CommunitySupported", "PartnerSupported", "VMwareAccepted", "VMwareCertified")  # weakest first


def utc() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


@dataclass
class Nv:
    """One firmware configuration parameter of a card: numbers as the firmware keeps them."""

    default: int
    current: int
    next: int
    read_only: bool = False


@dataclass
class Port:
    """A physical port of a card; guid and mac are what host and guest both see."""

    number: int
    guid: str  # 16 hex digits, no separators
    mac: str  # aa:bb:cc:dd:ee:ff
    cabled: bool = True
    speed: int = 100  # Gb/s


@dataclass
class Card:
    """An adapter card. bdf is the address of function 0 ("0000:3b:00.0"); function n is port n+1."""

    device: str  # ConnectX5
    mt: int  # 4119: decimal PCI device id
    part: str
    description: str
    psid: str
    serial: str
    bdf: str
    firmware: str
    ports: list[Port]
    config: dict[str, Nv] = field(default_factory=dict)
    vpi: bool = True
    needs_power_cycle: bool = False  # a warm reboot does not make next current
    flash: str = ""  # firmware version that was burned and waits for a reset
    secure: bool = False  # takes signed images only

    def function(self, number: int) -> str:
        return "%s.%d" % (self.bdf.rsplit(".", 1)[0], number)

    def visible(self) -> dict[str, Nv]:
        """What mlxconfig shows of this card now."""
        advanced = self.config.get("ADVANCED_PCI_SETTINGS")
        hide = advanced is not None and advanced.next == 0
        return {name: nv for name, nv in self.config.items() if not (hide and name in ADVANCED_ONLY)}

    def link_type(self, port: int) -> int:
        """IB or ETH as the firmware runs now; an Ethernet-only card has no LINK_TYPE at all."""
        nv = self.config.get("LINK_TYPE_P%d" % port)
        return nv.current if nv and self.vpi else ETH

    def pci_class(self, port: int) -> int:
        forced = self.config.get("FORCE_ETH_PCI_SUBCLASS")
        if self.link_type(port) == IB and not (forced and forced.current):
            return CLASS_INFINIBAND
        return CLASS_ETHERNET

    def load_next(self) -> None:
        for nv in self.config.values():
            nv.current = nv.next
        self.firmware, self.flash = self.flash or self.firmware, ""


@dataclass
class Vib:
    name: str
    version: str
    vendor: str
    acceptance: str
    reboot: bool = True
    maintenance: bool = False
    date: str = "2026-11-29"

    @property
    def id(self) -> str:
        return "%s_bootbank_%s_%s" % (self.vendor, self.name, self.version)


@dataclass
class File:
    """A file on a datastore: what it contains as software, and bytes for checksums."""

    content: bytes
    vibs: list[Vib] = field(default_factory=list)
    bundle: bool = False  # offline bundle (.zip) rather than one VIB
    image: dict[str, Any] = field(default_factory=dict)  # a firmware image: psid, version, signed


@dataclass
class Passthru:
    """enabled is what the user configured, active is what holds since the last boot or rebind."""

    enabled: bool = False
    active: bool = False
    label: str = ""


@dataclass
class Service:
    running: bool
    policy: str  # on | off | automatic


@dataclass
class Bmc:
    vendor: str
    password: str
    current: dict[str, Any]
    pending: dict[str, Any] = field(default_factory=dict)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    address: str = ""
    port: int = 0


@dataclass
class OtherDevice:
    """A PCI device that is no network card (a GPU, say) and that can be passed through."""

    bdf: str
    vendor: int
    device: int
    name: str
    vendor_name: str
    pci_class: int = 0x0302
    bar_gib: int = 0
    dependent: str = ""  # the device (a bridge, perhaps) that is switched for it; those with the same one move together


@dataclass
class PassthruDevice:
    """A passthrough device of a VM: a fixed one has a bdf, a dynamic one ids and a label (bdf set at power-on)."""

    key: int
    bdf: str = ""
    device_id: str = ""  # as the client wrote it; power-on is strict about it
    vendor_id: int = 0
    system_id: str = ""
    dynamic: bool = False
    allowed: list[dict[str, int]] = field(default_factory=list)
    label: str = ""


@dataclass
class Guest:
    """The operating system of a VM. Faces keep their own details under `extra`."""

    root: str = ""  # directory that is its file system in the lab
    address: str = ""
    port: int = 0
    kernel: str = "4.18.0-147.el8.x86_64"
    ofed: str = ""  # installed OFED, for example MLNX_OFED_LINUX-5.4-3.0.3.0
    ofed_loaded: bool = False  # its modules are the loaded ones
    booted: bool = False
    boots: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Vm:
    name: str
    host: str
    uuid: str
    cpus: int = 44
    cores_per_socket: int = 22
    memory_mb: int = 147456
    memory_reservation_mb: int = 0
    memory_locked: bool = False
    memory_limit: int = -1
    cpu_reservation_mhz: int = 0
    cpu_limit: int = -1
    latency: str = "normal"
    cpu_hot_add: bool = False
    memory_hot_add: bool = False
    firmware: str = "efi"
    secure_boot: bool = False
    hw_version: int = 19
    extra: dict[str, str] = field(default_factory=dict)
    devices: list[PassthruDevice] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    power: str = "off"
    change_version: int = 1
    mac: str = "00:50:56:aa:00:01"
    guest: Guest = field(default_factory=Guest)
    vcls: bool = False
    template: bool = False
    threads: int = 1  # vCPUs that share a core (virtual hyperthreading)
    cpu_affinity: list[int] = field(default_factory=list)
    cores_per_numa_node: int = 0  # 0: ESXi chooses


@dataclass
class Host:
    name: str
    uuid: str
    address: str = ""
    ssh_port: int = 0
    password: str = "VMware1!"
    version: str = "7.0.2"
    build: str = "17867351"
    model: str = "PowerEdge R740"
    vendor: str = "Dell Inc."
    sockets: int = 2
    cores: int = 48
    mhz: int = 2993
    memory_mb: int = 393216
    secure_boot: bool = False
    acceptance: str = "PartnerSupported"
    cards: list[Card] = field(default_factory=list)
    others: list[OtherDevice] = field(default_factory=list)
    vibs: dict[str, Vib] = field(default_factory=dict)
    staged: dict[str, Vib] | None = None  # the image after the next boot, None when it is the running one
    module_options: dict[str, str] = field(default_factory=dict)  # configured
    module_running: dict[str, str] = field(default_factory=dict)  # as the modules were loaded
    passthru: dict[str, Passthru] = field(default_factory=dict)
    rebind: bool = False  # capability deviceRebindWithoutRebootSupported
    services: dict[str, Service] = field(default_factory=dict)
    lockdown: str = "lockdownDisabled"
    lockdown_exceptions: list[str] = field(default_factory=list)
    maintenance: bool = False
    power_policy: int = 2  # 1 static (High performance), 2 dynamic (Balanced), 3 low, 4 custom
    state: str = "on"  # on | down
    boot_time: datetime.datetime = field(default_factory=utc)
    boots: int = 0
    boot_seconds: float = 3.0
    mst_started: bool = False
    mst_order: list[str] = field(default_factory=list)  # bdf of function 0, in the order mst numbers them
    mft_reaches_passthru: bool = True  # MFT can still open a card owned by passthrough
    tmp: dict[str, bytes] = field(default_factory=dict)
    vmk_uplinks: dict[str, list[str]] = field(default_factory=dict)  # vmk0 -> functions that carry it
    vmk_services: dict[str, list[str]] = field(default_factory=dict)  # vmk0 -> management, vsan
    dvs: dict[str, list[str]] = field(default_factory=dict)  # distributed switch -> functions used as uplinks
    vswitch: dict[str, list[str]] = field(default_factory=dict)  # standard switch -> functions used as uplinks
    bmc: Bmc | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def functions(self) -> list[tuple[str, Card, Port]]:
        """Every network function in PCI order: (bdf, card, port)."""
        rows = [(card.function(port.number - 1), card, port) for card in self.cards for port in card.ports]
        return sorted(rows, key=lambda row: row[0])

    def find(self, bdf: str) -> tuple[Card, Port]:
        for address, card, port in self.functions():
            if address == bdf.lower():
                return card, port
        raise KeyError(bdf)

    def vmnics(self) -> dict[str, str]:
        """vmnicN -> bdf of the functions the Ethernet driver claims now (none when InfiniBand or passed through)."""
        rows = [bdf for bdf, card, port in self.functions()
                if card.pci_class(port.number) == CLASS_ETHERNET and not self.passthru[bdf].active and "nmlx5-core" in self.vibs]
        return {"vmnic%d" % n: bdf for n, bdf in enumerate(rows)}

    def used_by(self, bdf: str) -> str:
        """What of ESXi uses the function, in words of the vSphere client; empty when nothing does."""
        for kind, table in (("distributed switch", self.dvs), ("virtual switch", self.vswitch)):
            for name, functions in table.items():
                if bdf in functions:
                    return "%s %s" % (kind, name)
        for vmk, functions in self.vmk_uplinks.items():
            if bdf in functions:
                return "VMkernel adapter %s" % vmk
        return ""

    @property
    def ssh_up(self) -> bool:
        return self.state == "on" and self.services["TSM-SSH"].running


class World:
    """Hosts, VMs, switches and datastores of one site. All access under `lock`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.hosts: dict[str, Host] = {}
        self.vms: dict[str, Vm] = {}
        self.datacenter, self.cluster = "HPC", "hpc-cluster"
        self.datastores: dict[str, dict[str, File]] = {}
        self.switches: dict[str, dict[str, Any]] = {}  # distributed switches: name -> {uuid, version, portgroups}
        self.library: list[File] = []  # what uploaded bytes are, when they are one of these
        self.image_managed = False  # the cluster's hosts get their software from one image (vLCM)
        self.vsan = False  # the cluster has vSAN enabled
        self.subnet_manager = True
        self.fabric = {"ethernet": {"mtu": 9216, "pfc": [3], "hop_ns": 877}, "infiniband": {"mtu": 4096, "hop_ns": 90}}
        self.vcenter = {"username": "administrator@vsphere.local", "password": "Lab-Vc-1!", "address": "", "port": 0, "version": "8.0.3.0"}
        self.guest_user = {"username": "root", "password": "Lab-Guest-1!"}
        self.guest_boot_seconds = 1.0
        self.journal: list[dict[str, Any]] = []
        self.faults: dict[str, dict[str, dict[str, Any]]] = {}
        self._watchers: list[Callable[[str, str], None]] = []

    # ---- journal, faults, watchers --------------------------------------------------------------------------------

    def note(self, face: str, host: str, what: str, **more: Any) -> None:
        """One line of the journal: which face was asked what of which host."""
        with self.lock:
            self.journal.append(dict(at=time.time(), face=face, host=host, what=what, **more))

    def set_fault(self, name: str, host: str, **options: Any) -> None:
        """Switch a fault on; `times` (default: unlimited) bounds how often it strikes."""
        if name not in FAULTS:
            raise ValueError("no fault %r; there are %s" % (name, ", ".join(sorted(FAULTS))))
        with self.lock:
            self.faults.setdefault(name, {})[host] = dict(options)
            FAULTS[name](self, host)

    def clear_fault(self, name: str, host: str) -> None:
        with self.lock:
            self.faults.get(name, {}).pop(host, None)

    def fault(self, name: str, host: str) -> dict[str, Any] | None:
        """The options of the fault if it strikes now (counts down `times`), else None."""
        with self.lock:
            options = self.faults.get(name, {}).get(host)
            if options is None or options.get("times", 1) <= 0:
                return None
            if "times" in options:
                options["times"] -= 1
            return options

    def watch(self, callback: Callable[[str, str], None]) -> None:
        """callback(kind, name) after a state change: kind is host or guest. Called without the lock held by a caller's thread."""
        self._watchers.append(callback)

    def tell(self, kind: str, name: str) -> None:
        for callback in list(self._watchers):
            callback(kind, name)

    # ---- host -----------------------------------------------------------------------------------------------------

    def vm_on(self, host: str) -> list[Vm]:
        return [vm for vm in self.vms.values() if vm.host == host and vm.power == "on"]

    def reboot_host(self, name: str, by: str) -> None:
        """The host goes down now and is back after boot_seconds, unless a fault keeps it down."""
        with self.lock:
            host = self.hosts[name]
            if host.state != "on":
                return
            self.note(by, name, "reboot")
            for vm in self.vm_on(name):
                self._guest_down(vm)
            host.state = "down"
            stays = self.fault("stays_down", name) is not None
            slow = self.fault("slow_host", name)
            seconds = host.boot_seconds * (slow or {}).get("factor", 4.0 if slow is not None else 1.0)
        self.tell("host", name)
        if not stays:
            timer = threading.Timer(seconds, self.boot_host, [name])
            timer.daemon = True
            timer.start()

    def boot_host(self, name: str) -> None:
        with self.lock:
            host = self.hosts[name]
            self._reset_bmc(host)
            for card in host.cards:
                if not card.needs_power_cycle:
                    card.load_next()
            if host.staged is not None:
                if self.fault("image_lost", name) is None:
                    host.vibs = host.staged
                host.staged = None
            host.module_running = dict(host.module_options)
            host.tmp.clear()
            host.mst_started = False
            lost = self.fault("passthru_lost", name)
            for state in host.passthru.values():
                state.active = state.enabled and lost is None
            host.services["TSM-SSH"].running = host.services["TSM-SSH"].policy == "on"
            host.boots += 1
            host.boot_time = utc()
            host.state = "on"
            self.note("world", name, "booted")
        self.tell("host", name)

    def power_cycle_host(self, name: str, by: str) -> None:
        """Power off and on: what a card that needs it waits for."""
        with self.lock:
            for card in self.hosts[name].cards:
                card.load_next()
        self.reboot_host(name, by)

    def _reset_bmc(self, host: Host) -> None:
        bmc = host.bmc
        if bmc is None or not bmc.pending:
            return
        scheduled = [job for job in bmc.jobs if job["state"] == "Scheduled"]
        if bmc.vendor.startswith("Dell") and not scheduled:
            return  # values stored without a job: reboots change nothing
        bmc.current.update(bmc.pending)
        bmc.pending = {}
        for job in scheduled:
            job.update(state="Completed", message="PR19", end=utc())

    # ---- VM and guest ---------------------------------------------------------------------------------------------

    def power_on_vm(self, vm: Vm) -> None:
        """The transition only; the vSphere face has checked what the real one refuses."""
        with self.lock:
            vm.power = "on"
        timer = threading.Timer(self.guest_boot_seconds, self._boot_guest, [vm])
        timer.daemon = True
        timer.start()

    def _boot_guest(self, vm: Vm) -> None:
        with self.lock:
            if vm.power != "on" or self.hosts[vm.host].state != "on":
                return
            vm.guest.booted = True
            vm.guest.boots += 1
            vm.guest.ofed_loaded = bool(vm.guest.ofed)
            self.note("world", vm.name, "guest booted")
        self.tell("guest", vm.name)

    def power_off_vm(self, vm: Vm) -> None:
        with self.lock:
            self._guest_down(vm)
        self.tell("guest", vm.name)

    def _guest_down(self, vm: Vm) -> None:
        vm.power = "off"
        vm.guest.booted = False

    def reboot_guest(self, vm: Vm) -> None:
        with self.lock:
            vm.guest.booted = False
        self.tell("guest", vm.name)
        self.power_on_vm(vm)

    def rdma_devices(self, vm: Vm) -> list[dict[str, Any]]:
        """The RDMA devices the guest's hardware shows: one per attached function, in the VM's slot order.

        Each: name (mlx5_N), bdf on the host, guest_bdf, card, port, link (IB or ETH), netdev name.
        """
        host, out = self.hosts[vm.host], []
        for slot, device in enumerate(vm.devices):
            if not device.bdf or any(other.bdf == device.bdf.lower() for other in host.others):
                continue
            card, port = host.find(device.bdf)
            link = card.link_type(port.number)
            out.append(dict(name="mlx5_%d" % slot, bdf=device.bdf, guest_bdf="0000:%02x:00.0" % (0x0b + 8 * slot), card=card, port=port, link=link,
                            netdev="ib%d" % sum(d["link"] == IB for d in out) if link == IB else "ens%df%d" % (224 + 32 * (len(out) > 1), port.number - 1)))
        return out

    def dump(self) -> dict[str, Any]:
        """The state as plain data, for people and for tests that compare before and after."""
        with self.lock:
            def plain(value: Any) -> Any:
                if dataclasses.is_dataclass(value):
                    return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
                if isinstance(value, dict):
                    return {str(k): plain(v) for k, v in value.items()}
                if isinstance(value, (list, tuple)):
                    return [plain(v) for v in value]
                if isinstance(value, bytes):
                    return "<%d bytes>" % len(value)
                return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
            return {"hosts": plain(self.hosts), "vms": plain(self.vms), "switches": plain(self.switches), "faults": plain(self.faults)}


# ---- faults: what switching one on changes at once (most strike later, where their face or transition asks) -----------

def _power_cycle(world: World, name: str) -> None:
    for card in world.hosts[name].cards:
        if card.vpi:
            card.needs_power_cycle = True


def _wrong_psid(world: World, name: str) -> None:
    for card in world.hosts[name].cards:
        if card.vpi:
            card.psid, card.part = "DEL0000000023", "0XNR3W_Ax"


def _later(world: World, name: str) -> None:
    """Nothing now: a face or a transition asks world.fault(name, host) when it matters."""


FAULTS: dict[str, Callable[[World, str], None]] = {
    "ssh_drop": _later,  # ESXi shell face: the connection drops in the middle of a command
    "stays_down": _later,  # transition: the host does not come back from a reboot
    "power_cycle": _power_cycle,  # a warm reboot leaves the card's next values pending
    "passthru_lost": _later,  # transition: passthrough is enabled but not active after boot
    "task_fault": _later,  # vSphere face: the next task on this host or VM ends in error
    "wrong_psid": _wrong_psid,  # the card is another OEM's
    "image_lost": _later,  # transition: the host boots into the image it had, what was staged is gone
    "burn_fails": _later,  # ESXi shell face: flint stops in the middle of a burn
    "tmp_full": _later,  # ESXi shell face: /tmp has no room
    "slow_host": _later,  # booting and every shell command take several times longer
    "call_fault": _later,  # vSphere face: the next call of `method` on this host or VM is refused with the fault `fault`
    "customization_fails": _later,  # vSphere face, of a VM: its guest does not take the name and the address that it is to have
    "session_expired": _later,  # vSphere face: the session is gone at the next call
    "weak_port": _later,  # guest face, of a VM: all its perftest runs have only `factor` of the bandwidth (`fabric` ib or roce, default both;
    #                       `way` send or receive leaves the other way and the latency alone)
    "weak_link": _later,  # guest face, of a VM: so do its runs with the VM `peer` alone; a `factor` of 0 lets nothing through
    "noisy_port": _later,  # guest face, of a VM: its perftest runs scatter by `cv` percent around what they would be (`fabric` as above)
    "unmanaged_port": _later,  # guest face, of a VM: the subnet manager leaves its InfiniBand port in INIT
}
