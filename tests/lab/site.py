# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The site that the lab rehearses: the paper's hardware, left over from SR-IOV, with a real site's unevenness.

build(n) gives n hosts and n VMs, build([5, 9]) those with these numbers. The pattern repeats every 16 hosts:
10 have no MFT, 3 have MFT 4.18, 2 a newer one, 1 is already right; 8 cannot rebind a device without a reboot;
4 have a BIOS setting pending; 3 have the ConnectX-5 at another address, numbered first by mst;
one (14) followed the paper before and hides FORCE_ETH_PCI_SUBCLASS=1 behind ADVANCED_PCI_SETTINGS=0.
"""

from __future__ import annotations

from typing import Sequence

from .world import ETH, IB, Bmc, Card, File, Host, Nv, Passthru, Port, Service, Vib, Vm, World

NO_MFT, MFT_418, MFT_NEWER, RIGHT = "no MFT", "MFT 4.18", "newer MFT", "already right"
STATE = [NO_MFT, MFT_418, NO_MFT, RIGHT, NO_MFT, MFT_NEWER, NO_MFT, NO_MFT, MFT_418, NO_MFT, NO_MFT, MFT_NEWER, NO_MFT, MFT_418, NO_MFT, NO_MFT]
FOLLOWED_PAPER = 14
BIOS_PENDING = (3, 6, 9, 13)  # a value is stored and its job scheduled
BIOS_WRONG = (5, 11)  # a value is wrong and nothing is pending
ELSEWHERE = {3: "0000:5e:00.0", 7: "0000:af:00.0", 12: "0000:18:00.0"}  # ConnectX-5 address; else 0000:3b:00.0
DATASTORE = "hpc-nfs"
DVS = "hpc-dvs"

MFT_418_VIBS = (Vib("mft", "4.18.1.14-0", "MEL", "PartnerSupported"),
                Vib("nmst", "4.18.1.14-1OEM.700.1.0.15843807", "MEL", "PartnerSupported"))
MFT_NEWER_VIBS = (Vib("mft", "4.22.1.11-0", "MEL", "PartnerSupported"),
                  Vib("nmst", "4.22.1.11-1OEM.703.0.0.18434556", "MEL", "PartnerSupported"))
DRIVER_ASYNC = (Vib("nmlx5-core", "4.21.71.101-1OEM.702.0.0.17630552", "MEL", "VMwareCertified"),
                Vib("nmlx5-rdma", "4.21.71.101-1OEM.702.0.0.17630552", "MEL", "VMwareCertified"))
DRIVER_INBOX = (Vib("nmlx5-core", "4.19.16.10-1vmw.702.0.0.17867351", "VMW", "VMwareCertified", date="2021-05-04"),
                Vib("nmlx5-rdma", "4.19.16.10-1vmw.702.0.0.17867351", "VMW", "VMwareCertified", date="2021-05-04"))
BASE = (Vib("esx-base", "7.0.2-0.0.17867351", "VMware", "VMwareCertified", date="2021-05-04"),
        Vib("esx-update", "7.0.2-0.0.17867351", "VMware", "VMwareCertified", date="2021-05-04"),
        Vib("vsan", "7.0.2-0.0.17867351", "VMware", "VMwareCertified", date="2021-05-04"),
        Vib("ixgben", "1.7.1.35-1vmw.702.0.0.17867351", "VMW", "VMwareCertified", date="2021-05-04"))
FILES = {  # path on the datastore: what it holds
    "rdma/mft-4.18.1.14-0.vib": (MFT_418_VIBS[:1], False),
    "rdma/nmst-4.18.1.14-1OEM.700.1.0.15843807.vib": (MFT_418_VIBS[1:], False),
    "rdma/Mellanox-nmlx5_4.21.71.101-1OEM.702.0.0.17630552.zip": (DRIVER_ASYNC, True),
}
# BIOS attributes of a Dell R740 that matter here, as they should be (tools.md 8).
BIOS_RIGHT = {"ProcVirtualization": "Enabled", "SriovGlobalEnable": "Enabled", "LogicalProc": "Enabled", "SysProfile": "PerfPerWattOptimizedOs"}


def _nv(default: int, value: int, read_only: bool = False) -> Nv:
    return Nv(default=default, current=value, next=value, read_only=read_only)


def connectx5(host: int, bdf: str, right: bool, followed: bool) -> Card:
    """ConnectX-5 VPI EDR dual port, PSID MT_0000000008; as SR-IOV left it, or as the paper wants it."""
    clean = right or followed
    node = "0c42a10300%02x%02x%02x" % (0xD0 + host // 16, (host * 8) // 256, (host * 8) % 256)
    mac = "0c:42:a1:%02x:%02x:" % (0xD0 + host // 16, (host * 8) // 256)
    ports = [Port(n + 1, "%016x" % (int(node, 16) + n), mac + "%02x" % ((host * 8 + n) % 256)) for n in (0, 1)]
    config = {
        "LINK_TYPE_P1": _nv(IB, IB if clean else ETH), "LINK_TYPE_P2": _nv(IB, ETH),
        "SRIOV_EN": _nv(0, 0 if clean else 1), "NUM_OF_VFS": _nv(0, 0 if clean else 16),
        "ADVANCED_PCI_SETTINGS": _nv(0, 0 if clean else 1), "FORCE_ETH_PCI_SUBCLASS": _nv(0, 0 if right else 1),
        "MAX_ACC_OUT_READ": _nv(0, 0), "NUM_PF_MSIX": _nv(63, 63), "PF_LOG_BAR_SIZE": _nv(5, 5), "VF_LOG_BAR_SIZE": _nv(1, 1),
        "ROCE_CONTROL": _nv(2, 2), "KEEP_ETH_LINK_UP_P1": _nv(1, 1), "KEEP_IB_LINK_UP_P1": _nv(0, 0), "KEEP_LINK_UP_ON_BOOT_P1": _nv(0, 0),
        "KEEP_ETH_LINK_UP_P2": _nv(1, 1), "KEEP_IB_LINK_UP_P2": _nv(0, 0), "KEEP_LINK_UP_ON_BOOT_P2": _nv(0, 0),
        "PCI_WR_ORDERING": _nv(0, 0), "MULTI_PORT_VHCA_EN": _nv(0, 0), "INT_LOG_MAX_PAYLOAD_SIZE": _nv(0, 0, read_only=True),
    }
    return Card("ConnectX5", 4119, "MCX556A-ECA_Ax",
                "ConnectX-5 VPI adapter card; EDR IB (100Gb/s) and 100GbE; dual-port QSFP28; PCIe3.0 x16; tall bracket; ROHS R6",
                "MT_0000000008", "MT2016X%05d" % host, bdf, "16.32.1010", ports, config)


def connectx4lx(host: int, bdf: str) -> Card:
    """ConnectX-4 Lx EN 25GbE dual port: Ethernet only, so no LINK_TYPE; carries management and vSAN."""
    mac = "ec:0d:9a:%02x:%02x:" % (host // 256, host % 256)
    ports = [Port(n + 1, "ec0d9a03%04x%04x" % (host, n), mac + "%02x" % (0x10 + n), speed=25) for n in (0, 1)]
    config = {"SRIOV_EN": _nv(0, 0), "NUM_OF_VFS": _nv(0, 0), "ADVANCED_PCI_SETTINGS": _nv(0, 0), "FORCE_ETH_PCI_SUBCLASS": _nv(0, 0),
              "NUM_PF_MSIX": _nv(63, 63), "ROCE_CONTROL": _nv(2, 2), "KEEP_ETH_LINK_UP_P1": _nv(1, 1), "KEEP_ETH_LINK_UP_P2": _nv(1, 1),
              "UEFI_HII_EN": _nv(1, 1), "MAX_ACC_OUT_READ": _nv(0, 0)}
    return Card("ConnectX4LX", 4117, "MCX4121A-ACA_Ax", "ConnectX-4 Lx EN network interface card; 25GbE dual-port SFP28; PCIe3.0 x8; ROHS R6",
                "MT_2420110034", "MT1922X%05d" % host, bdf, "14.32.1010", ports, config, vpi=False)


def add_host(world: World, number: int) -> Host:
    state = STATE[(number - 1) % 16]
    place = (number - 1) % 16 + 1
    right, followed = state == RIGHT, place == FOLLOWED_PAPER
    cx5_at, cx4_at = ELSEWHERE.get(place, "0000:3b:00.0"), "0000:18:00.0"
    if cx5_at == cx4_at:
        cx4_at = "0000:86:00.0"
    cx4, cx5 = connectx4lx(number, cx4_at), connectx5(number, cx5_at, right, followed)
    host = Host("esxi%02d" % number, "4c4c4544-0042-3510-8053-%012x" % number, cards=[cx4, cx5])
    if place in (12, 16):
        host.version, host.build = "7.0.3", "19193900"
    vibs = list(BASE) + list(DRIVER_ASYNC if right or state == MFT_418 else DRIVER_INBOX)
    vibs += {MFT_418: MFT_418_VIBS, MFT_NEWER: MFT_NEWER_VIBS, RIGHT: MFT_418_VIBS}.get(state, ())
    host.vibs = {vib.name: vib for vib in vibs}
    host.mst_order = [cx5.bdf, cx4.bdf] if place in ELSEWHERE else [cx4.bdf, cx5.bdf]
    host.rebind = place % 2 == 0
    host.mft_reaches_passthru = place % 3 != 0
    for bdf, card, port in host.functions():
        on = right and card is cx5
        host.passthru[bdf] = Passthru(enabled=on, active=on)
    # Driver options of SR-IOV (one max_vfs per Mellanox port in PCI order) beside ones of the service network that must stay.
    vfs = ",".join("16" if card is cx5 else "0" for bdf, card, port in host.functions())
    keep = "pfctx=0x08 pfcrx=0x08 trust_state=2"
    host.module_options = {"nmlx5_core": keep if right or followed else "max_vfs=%s %s" % (vfs, keep), "nmlx5_rdma": "dscp_force=26", "vmkernel": ""}
    host.module_running = dict(host.module_options)
    management = [cx4.function(0), cx4.function(1)]
    host.vmk_uplinks = {"vmk0": management, "vmk1": management}
    host.vmk_services = {"vmk0": ["management"], "vmk1": ["vsan", "vmotion"]}
    host.vswitch = {"vSwitch0": management}
    host.dvs = {} if right or followed else {DVS: [cx5.function(0), cx5.function(1)]}
    host.services = {"TSM-SSH": Service(True, "off"), "TSM": Service(False, "off"), "ntpd": Service(True, "on"), "vpxa": Service(True, "on")}
    host.power_policy = 1 if right else 2
    # MFT prints less on some hosts: no part number in mlxconfig, three columns in mst status.
    host.settings.update({"nameless": True} if place == 9 else {"mst_three_columns": True} if place == FOLLOWED_PAPER else {})
    current = dict(BIOS_RIGHT, SysMemSize="384 GB", MmioAbove4Gb="Enabled", ProcPwrPerf="OsDbpm", WorkloadProfile="NotAvailable", NumLock="On",
                   AcPwrRcvryUserDelay=60)
    host.bmc = Bmc("Dell Inc.", "Lab-Bmc-1!", current)
    if place in BIOS_PENDING:
        current["ProcVirtualization" if place != 6 else "SriovGlobalEnable"] = "Disabled"
        host.bmc.pending = {"ProcVirtualization" if place != 6 else "SriovGlobalEnable": "Enabled"}
        host.bmc.jobs = [dict(id="JID_4%011d" % number, state="Scheduled", message="JCP001")]
    if place in BIOS_WRONG:
        current["SysProfile"] = "PerfOptimized"
    world.hosts[host.name] = host
    return host


def add_vm(world: World, number: int) -> Vm:
    place = (number - 1) % 16 + 1
    vm = Vm("vm%02d" % number, "esxi%02d" % number, "42000000-0000-4000-8000-%012x" % number, cpus=20, cores_per_socket=10, memory_mb=65536,
            cpu_hot_add=True, memory_hot_add=place % 2 == 0, mac="00:50:56:aa:%02x:%02x" % (number // 256, number % 256))
    if place == 5:
        vm.guest.ofed = "MLNX_OFED_LINUX-5.4-3.0.3.0"
    world.vms[vm.name] = vm
    return vm


def build(hosts: int | Sequence[int] = 16) -> World:
    """So many hosts, or the ones with these numbers, each with its VM."""
    numbers = range(1, hosts + 1) if isinstance(hosts, int) else hosts
    world = World()
    world.datastores[DATASTORE] = {path: File(("content of %s\n" % path).encode() * 64, list(vibs), bundle) for path, (vibs, bundle) in FILES.items()}
    world.library = list(world.datastores[DATASTORE].values())
    world.switches[DVS] = {"uuid": "50 0e 2a 6c 1d 9f 43 11-8a 41 b7 02 5c 66 19 d3", "version": "1", "portgroups": ["hpc-ib-sriov", "hpc-roce-sriov"]}
    for number in numbers:
        add_host(world, number)
        add_vm(world, number)
    agent = Vm("vCLS-4c4c4544-0001", next(iter(world.hosts)), "42ffffff-0000-4000-8000-000000000001", cpus=1, cores_per_socket=1, memory_mb=128, power="on",
               vcls=True)
    world.vms[agent.name] = agent
    return world
