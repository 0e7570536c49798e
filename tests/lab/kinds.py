# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cards and hosts by name: fit(world, "esxi02", "connectx6-vpi") puts another card where the site has its ConnectX-5.

A scenario is a few lines:
    world = kinds.build("connectx7-vpi", "bluefield2", "oem")      # esxi01, esxi02, esxi03
    kinds.host(world, "esxi04", "mft-4.36")                          # an existing host, changed
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

from . import site
from .world import ETH, IB, Card, File, Host, Nv, Passthru, Port, Vib, World

PLACE = "0000:3b:00.0"


@dataclass(frozen=True)
class Kind:
    """A card as it leaves the box. link_type: it shows LINK_TYPE_Pn; EN cards and BlueField-2 do not."""

    device: str
    mt: int
    part: str
    description: str
    psid: str
    firmware: str
    ports: int = 2
    speed: int = 100
    link_type: bool = True
    more: dict[str, int] = field(default_factory=dict)  # further parameters and their values
    read_only: tuple[str, ...] = ()
    secure: bool = False


def _vpi(name: str, ports: int = 2) -> str:
    return "%s VPI adapter card; %s-port" % (name, "dual" if ports == 2 else "single")


KINDS: dict[str, Kind] = {
    "connectx4-vpi": Kind("ConnectX4", 4115, "MCX456A-ECA_Ax", _vpi("ConnectX-4"), "MT_2190110032", "12.28.2006"),
    "connectx4-en": Kind("ConnectX4", 4115, "MCX416A-CCA_Ax", "ConnectX-4 EN network interface card; 100GbE dual-port QSFP28", "MT_2150110033",
                         "12.28.2006", link_type=False),
    "connectx4lx": Kind("ConnectX4LX", 4117, "MCX4121A-XCA_Ax", "ConnectX-4 Lx EN network interface card; 10GbE dual-port SFP28", "MT_2410110034",
                        "14.32.1010", speed=10, link_type=False),
    "connectx5-vpi": Kind("ConnectX5", 4119, "MCX556A-ECA_Ax", _vpi("ConnectX-5"), "MT_0000000008", "16.32.1010"),
    "connectx5-vpi-single": Kind("ConnectX5", 4119, "MCX555A-ECA_Ax", _vpi("ConnectX-5", 1), "MT_0000000010", "16.32.1010", ports=1),
    "connectx5-en": Kind("ConnectX5", 4119, "MCX516A-CCA_Ax", "ConnectX-5 EN network interface card; 100GbE dual-port QSFP28", "MT_0000000012",
                         "16.32.1010", link_type=False),
    "connectx5ex-vpi": Kind("ConnectX5", 4121, "MCX556A-EDA_Ax", _vpi("ConnectX-5 Ex"), "MT_0000000009", "16.32.1010"),
    "connectx6-vpi": Kind("ConnectX6", 4123, "MCX653106A-HDA_Ax", _vpi("ConnectX-6"), "MT_0000000225", "20.32.1010", speed=200),
    "connectx6-vpi-single": Kind("ConnectX6", 4123, "MCX653105A-HDA_Ax", _vpi("ConnectX-6", 1), "MT_0000000223", "20.32.1010", ports=1, speed=200),
    "connectx6dx": Kind("ConnectX6DX", 4125, "MCX623106AC-CDA_Ax", "ConnectX-6 Dx EN adapter card; 100GbE; dual-port QSFP56; crypto and secure boot",
                        "MT_0000000436", "22.32.1010", link_type=False, secure=True),
    "connectx7-vpi": Kind("ConnectX7", 4129, "MCX755106AS-HEA_Ax", "NVIDIA ConnectX-7 VPI adapter card; dual-port QSFP112", "MT_0000000834", "28.36.1010",
                          speed=200, secure=True),
    "connectx7-single": Kind("ConnectX7", 4129, "MCX75310AAS-NEA_Ax", "NVIDIA ConnectX-7 HHHL adapter card; 400GbE / NDR IB; single-port OSFP",
                             "MT_0000000838", "28.36.1010", ports=1, speed=400, secure=True),
    "bluefield2": Kind("BlueField2", 41686, "MBF2H516A-CEEO_Ax", "BlueField-2 DPU 100GbE dual-port QSFP56", "MT_0000000539", "24.32.1010", link_type=False,
                       more={"INTERNAL_CPU_MODEL": 1}, read_only=("INTERNAL_CPU_MODEL",), secure=True),
    "bluefield3-vpi": Kind("BlueField3", 41692, "900-9D3B6-00CV-A_Ax", "NVIDIA BlueField-3 B3220 VPI DPU; dual-port QSFP112", "MT_0000000884", "32.36.1010",
                           speed=200, more={"INTERNAL_CPU_MODEL": 0}, read_only=("INTERNAL_CPU_MODEL",), secure=True),
    # The same silicon with another vendor's board id: the user has to name it.
    "oem-dell": Kind("ConnectX5", 4119, "0XNR3W_Ax", "Mellanox ConnectX-5 EX Dual Port VPI EDR", "DEL0000000023", "16.32.1010"),
    "oem-hpe": Kind("ConnectX5", 4119, "872726-B21_Ax", "HPE InfiniBand EDR/Ethernet 100Gb 2-port 841QSFP28 Adapter", "HPE0000000009", "16.32.1010"),
    "oem-nameless": Kind("ConnectX5", 4119, "N/A", "N/A", "IBM0000000002", "16.32.1010"),
}


def card(name: str, number: int = 1, bdf: str = PLACE, seat: int = 0, ports: int = 0) -> Card:
    """A card of that kind as SR-IOV left it: Ethernet everywhere, virtual functions on. seat tells several cards of one host apart."""
    kind = KINDS[name]
    node = 0x0C42A1030000E000 + number * 0x100 + seat * 0x10
    made = [Port(n + 1, "%016x" % (node + n), "0c:42:a1:%02x:%02x:%02x" % (0xA0 + seat, number % 256, n), speed=kind.speed) for n in range(kind.ports)]
    config = {"SRIOV_EN": Nv(0, 1, 1), "NUM_OF_VFS": Nv(0, 16, 16), "ADVANCED_PCI_SETTINGS": Nv(0, 1, 1), "FORCE_ETH_PCI_SUBCLASS": Nv(0, 1, 1),
              "MAX_ACC_OUT_READ": Nv(0, 0, 0), "NUM_PF_MSIX": Nv(63, 63, 63), "PF_LOG_BAR_SIZE": Nv(5, 5, 5), "ROCE_CONTROL": Nv(2, 2, 2),
              "INT_LOG_MAX_PAYLOAD_SIZE": Nv(0, 0, 0, True)}
    for port in made:
        if kind.link_type:
            config["LINK_TYPE_P%d" % port.number] = Nv(IB, ETH, ETH)
        config["KEEP_ETH_LINK_UP_P%d" % port.number] = Nv(1, 1, 1)
    config.update((key, Nv(value, value, value, key in kind.read_only)) for key, value in kind.more.items())
    return Card(kind.device, kind.mt, kind.part, kind.description, kind.psid, "MT2099X%03d%02d" % (number, seat), bdf, kind.firmware, made, config,
                vpi=kind.link_type, secure=kind.secure)


def fit(world: World, name: str, *kinds: str) -> Host:
    """Takes the site's workload card out of the host and puts cards of these kinds in, the first where the old one was."""
    host, number = world.hosts[name], int("".join(filter(str.isdigit, name)))
    old = next(one for one in host.cards if one.psid != "MT_2420110034")
    host.cards = [one for one in host.cards if one is not old]
    bus = int(old.bdf.split(":")[1], 16)
    for seat, kind in enumerate(kinds):
        host.cards.append(card(kind, number, "0000:%02x:00.0" % (bus + seat), seat))
    _wire(host)
    return host


def _wire(host: Host) -> None:
    """What hangs on the functions: passthrough states, distributed switch, mst's order; the management card stays as it is."""
    there = {bdf for bdf, _card, _port in host.functions()}
    host.passthru = {bdf: Passthru() for bdf in sorted(there)}
    host.dvs = {name: [bdf for bdf in used if bdf in there] for name, used in host.dvs.items()}
    host.mst_order = [one.bdf for one in sorted(host.cards, key=lambda one: one.bdf)]
    host.module_options["nmlx5_core"] = "max_vfs=%s pfctx=0x08 pfcrx=0x08 trust_state=2" % ",".join(
        "16" if "SRIOV_EN" in one.config and one.config["SRIOV_EN"].current else "0" for _bdf, one, _port in host.functions())
    host.module_running = dict(host.module_options)


# ---- hosts ------------------------------------------------------------------------------------------------------------

def _mft(version: str) -> Callable[[World, Host], None]:
    def give(world: World, host: Host) -> None:
        for name in ("mft", "nmst"):
            host.vibs[name] = Vib(name, version + "-0", "MEL", "PartnerSupported")
    return give


def _esxi8(world: World, host: Host) -> None:
    host.version, host.build = "8.0.3", "24022510"


def _esxi8_driver(world: World, host: Host) -> None:
    """The inbox driver of 8.0 U3: newer than the paper's, and with a VIB more."""
    _esxi8(world, host)
    for name in ("nmlx5-core", "nmlx5-rdma", "nmlx5-cc"):
        host.vibs[name] = Vib(name, "4.23.6.2-7vmw.803.0.0.24022510", "VMW", "VMwareCertified")


def _lockdown(world: World, host: Host) -> None:
    host.lockdown = "lockdownNormal"


def _half_installed(world: World, host: Host) -> None:
    """An installation was staged and the host not rebooted: mft waits, and nmst was never part of it."""
    host.staged = dict(host.vibs)
    host.staged["mft"] = Vib("mft", "4.18.1.14-0", "MEL", "PartnerSupported")


def _vlcm(world: World, host: Host) -> None:
    world.image_managed = True


def _plugin(layout: str) -> Callable[[World, Host], None]:
    def give(world: World, host: Host) -> None:
        _mft("4.31.0.149")(world, host)
        host.settings["mft_esxcli"] = layout
    return give


def _sshd(**settings: Any) -> Callable[[World, Host], None]:
    def give(world: World, host: Host) -> None:
        host.settings.setdefault("sshd", {}).update(settings)
    return give


NOTICE = "Authorized use only. All activity is recorded.\n-E- is no error here, and 0000:3b:00.0 is no device.\n\n"

HOSTS: dict[str, Callable[[World, Host], None]] = {
    "mft-4.22": _mft("4.22.1.11"), "mft-4.26": _mft("4.26.1.6"), "mft-4.31": _mft("4.31.0.149"), "mft-4.36": _mft("4.36.0.147"),
    "esxi8": _esxi8, "esxi8-inbox-driver": _esxi8_driver, "lockdown": _lockdown, "half-installed": _half_installed, "vlcm": _vlcm,
    "ssh-max-startups": _sshd(max_startups=1), "ssh-banner": _sshd(banner=NOTICE, motd=NOTICE), "ssh-slow-login": _sshd(login_seconds=3.0),
    "mft-esxcli": _plugin("mellanox.mft"), "mft-esxcli-flat": _plugin("mellanox"), "driver-esxcli": _plugin("driver"),
}


def host(world: World, name: str, *kinds: str) -> Host:
    """Makes an existing host one of these kinds."""
    for kind in kinds:
        HOSTS[kind](world, world.hosts[name])
    return world.hosts[name]


def image(world: World, name: str, psid: str, version: str, signed: bool = True) -> str:
    """Puts a firmware image on the datastore; the path that a host has for it."""
    content = ("image %s %s\n" % (psid, version)).encode() * 64
    world.datastores[site.DATASTORE]["firmware/" + name] = File(content, image={"psid": psid, "version": version, "signed": signed})
    return "/vmfs/volumes/%s/firmware/%s" % (site.DATASTORE, name)


def build(*kinds: str, mft: str = "4.18.1.14", **settings: Any) -> World:
    """A world with one host per kind of card (several with +: "connectx6-vpi+connectx5-en"), MFT running on each; mft="": none."""
    world = site.build(len(kinds))
    for number, kind in enumerate(kinds, 1):
        one = fit(world, "esxi%02d" % number, *kind.split("+"))
        for name in ("mft", "nmst"):
            one.vibs.pop(name, None)
        if mft:
            _mft(mft)(world, one)
        one.settings.update(settings)
        one.boot_seconds = 0.5
    return world
