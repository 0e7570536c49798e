# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs that show RDMA devices: ibstat, ibstatus, ibv_devinfo, ibv_devices, rdma, ibdev2netdev, show_gids, lspci."""

from __future__ import annotations

import ipaddress
import json

from .programs import OFED, Call, Stop, options, program
from .state import PHYSICAL, RdmaPort, dotted, rdma_ports


def _ports(call: Call) -> list[RdmaPort]:
    return rdma_ports(call.world, call.vm)


@program("ibstatus", package=OFED)
def ibstatus(call: Call) -> int:
    ports = _ports(call)
    if not ports:
        call.out("Fatal error:  No devices\n")
        return 255
    wanted = [arg.partition(":")[0] for arg in call.argv if not arg.startswith("-")]
    for name in wanted:
        if name not in [port.name for port in ports]:
            call.out("Fatal error:  device '%s': sys files not found (/sys/class/infiniband/%s/ports)\n" % (name, name))
            return 255
    for port in ports:
        if wanted and port.name not in wanted:
            continue
        gid = port.gids[0][1] if port.gids else ":".join(["0000"] * 8)
        rows = (("default gid:\t", gid), ("base lid:\t", hex(port.lid)), ("sm lid:\t\t", hex(port.sm_lid)),
                ("state:\t\t", "%d: %s" % (port.state, {1: "DOWN", 2: "INIT", 4: "ACTIVE"}[port.state])),
                ("phys state:\t", "%d: %s" % (port.physical, PHYSICAL[port.physical])), ("rate:\t\t", port.rate), ("link_layer:\t", port.link_layer))
        call.out("Infiniband device '%s' port 1 status:\n%s\n" % (port.name, "".join("\t%s %s\n" % row for row in rows)))
    return 0


@program("ibstat", package=OFED)
def ibstat(call: Call) -> int:
    names = [arg for arg in call.argv if not arg.startswith("-")]
    ports = _ports(call)
    if names and names[0] not in [port.name for port in ports]:
        raise Stop(255, "ibpanic: [0] main: '%s' IB device can't be found: No such file or directory\n" % names[0])
    if "-l" in call.argv:
        call.out("".join(port.name + "\n" for port in ports))
        return 0
    for port in ports:
        if names and port.name != names[0]:
            continue
        guid = "0x" + port.guid
        port_guid = guid if port.infiniband else "0x" + port.gids[0][1].replace(":", "")[16:]
        call.out("CA '%s'\n\tCA type: MT%d\n\tNumber of ports: 1\n\tFirmware version: %s\n\tHardware version: 0\n\tNode GUID: %s\n\tSystem image GUID: %s\n"
                 "\tPort 1:\n"
                 % (port.name, port.mt, port.firmware, guid, guid))
        rows = (("State", {1: "Down", 2: "Initializing", 4: "Active"}[port.state]), ("Physical state", PHYSICAL[port.physical]), ("Rate", port.speed),
                ("Base lid", port.lid), ("LMC", 0), ("SM lid", port.sm_lid), ("Capability mask", "0x2651e848" if port.infiniband else "0x04010000"),
                ("Port GUID", port_guid), ("Link layer", port.link_layer))
        call.out("".join("\t\t%s: %s\n" % row for row in rows))
    return 0


VERBOSE = (("max_mr_size", "0xffffffffffffffff"), ("page_size_cap", "0xfffffffffffff000"), ("max_qp", "131072"), ("max_qp_wr", "32768"),
           ("max_sge", "30"), ("max_cq", "16777216"), ("max_cqe", "4194303"), ("max_mr", "16777216"), ("max_pd", "8388608"), ("max_qp_rd_atom", "16"),
           ("atomic_cap", "ATOMIC_HCA (1)"), ("max_srq", "8388608"), ("max_pkeys", "128"))


def _row(indent: int, key: str, value: object) -> str:
    # The tool pads by tabs so that the values of one indentation stand below one another.
    width = {1: 32, 3: 24}[indent]
    text = "\t" * indent + key + ":"
    tabs = max(1, (width - (len(key) + 1) + 7) // 8)
    return text + "\t" * tabs + str(value) + "\n"


@program("ibv_devinfo", package=OFED)
def ibv_devinfo(call: Call) -> int:
    try:
        found, dummy = options(call.argv, "lv", "di", ("list", "verbose"), ("ib-dev", "ib-port"))
    except ValueError:
        raise Stop(255, "Usage: ibv_devinfo             print the ca attributes\n") from None
    ports = _ports(call)
    name = found.get("d", found.get("ib-dev"))
    if not ports:
        raise Stop(255, "No IB devices found\n")
    if "l" in found or "list" in found:
        call.out("%d HCA%s found:\n%s\n" % (len(ports), "s" if len(ports) > 1 else "", "".join("\t%s\n" % port.name for port in ports)))
        return 0
    if name and name not in [port.name for port in ports]:
        raise Stop(255, "IB device '%s' wasn't found\n" % name)
    chosen = [port for port in ports if not name or port.name == name]
    for port in chosen:
        text = "hca_id:\t%s\n" % port.name
        for key, value in (("transport", "InfiniBand (0)"), ("fw_ver", port.firmware), ("node_guid", dotted(port.guid)), ("sys_image_guid", dotted(port.guid)),
                           ("vendor_id", "0x02c9"), ("vendor_part_id", port.mt), ("hw_ver", "0x0"), ("board_id", port.psid), ("phys_port_cnt", 1)):
            text += _row(1, key, value)
        if "v" in found or "verbose" in found:
            text += "".join(_row(1, key, value) for key, value in VERBOSE)
        text += "\t\tport:\t1\n"
        mtu = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
        state = {1: "PORT_DOWN (1)", 2: "PORT_INIT (2)", 4: "PORT_ACTIVE (4)"}[port.state]
        for key, value in (("state", state), ("max_mtu", "4096 (5)"), ("active_mtu", "%d (%d)" % (port.active_mtu, mtu[port.active_mtu])),
                           ("sm_lid", port.sm_lid),
                           ("port_lid", port.lid), ("port_lmc", "0x00"), ("link_layer", port.link_layer)):
            text += _row(3, key, value)
        if "v" in found or "verbose" in found:
            text += _row(3, "max_msg_sz", "0x40000000") + _row(3, "active_width", "4X (2)") + _row(3, "active_speed", "25.0 Gbps (32)")
            text += _row(3, "phys_state", "LINK_UP (5)" if port.physical == 5 else "POLLING (2)" if port.physical == 2 else "DISABLED (3)")
            for index, gid, kind in port.gids:
                short = str(ipaddress.IPv6Address(gid))
                if "ffff:" in gid and gid.startswith("0000"):
                    short = "::ffff:%s" % ipaddress.IPv4Address(int(gid[-9:].replace(":", ""), 16))
                text += _row(3, "GID[%3d]" % index, short + (", " + kind if not port.infiniband else ""))
        call.out(text + "\n")
    return 0


@program("ibv_devices", package=OFED)
def ibv_devices(call: Call) -> int:
    call.out("    device          \t   node GUID\n    ------          \t----------------\n")
    call.out("".join("    %-16s\t%s\n" % (port.name, port.guid) for port in _ports(call)))
    return 0


@program("rdma")
def rdma(call: Call) -> int:
    flags = [arg for arg in call.argv if arg.startswith("-")]
    words = [arg for arg in call.argv if not arg.startswith("-")] or ["help"]
    if "-V" in flags or "-Version" in flags:
        call.line("rdma utility, iproute2-ss190319")
        return 0
    what, rest = words[0], [word for word in words[1:] if word not in ("show", "list")]
    as_json = any("j" in flag.lstrip("-") for flag in flags)
    ports = _ports(call)
    if "dev".startswith(what) and what:
        rows = [port for port in ports if not rest or port.name == rest[0]]
        if as_json:
            call.line(json.dumps([dict(ifindex=n, ifname=p.name, node_type="ca", fw=p.firmware, node_guid=dotted(p.guid), sys_image_guid=dotted(p.guid))
                                  for n, p in enumerate(rows)]))
        else:
            call.out("".join("%d: %s: node_type ca fw %s node_guid %s sys_image_guid %s \n" % (n, p.name, p.firmware, dotted(p.guid), dotted(p.guid)) for n,
                             p in enumerate(rows)))
        return 0
    if "link".startswith(what):
        rows = [port for port in ports if not rest or rest[0] in (port.name, port.name + "/1", port.name + "/-")]
        if rest and not rows:
            raise Stop(1, "Wrong device name\n")
        states = {1: "DOWN", 2: "INIT", 4: "ACTIVE"}
        physical = {2: "POLLING", 3: "DISABLED", 5: "LINK_UP"}
        if as_json:
            out = []
            for n, port in enumerate(rows):
                row: dict[str, object] = dict(ifindex=n, port=1, ifname=port.name)
                if port.infiniband:
                    row.update(subnet_prefix="fe80:0000:0000:0000", lid=port.lid, sm_lid=port.sm_lid, lmc=0)
                row.update(state=states[port.state], physical_state=physical[port.physical])
                if not port.infiniband:
                    row.update(netdev=port.netdev.name, netdev_index=port.netdev.index)
                out.append(row)
            call.line(json.dumps(out))
            return 0
        for port in rows:
            ib = "subnet_prefix fe80:0000:0000:0000 lid %d sm_lid %d lmc 0 " % (port.lid, port.sm_lid) if port.infiniband else ""
            tail = "" if port.infiniband else "netdev %s " % port.netdev.name
            call.line("link %s/1 %sstate %s physical_state %s %s" % (port.name, ib, states[port.state], physical[port.physical], tail))
        return 0
    if "system".startswith(what):
        call.line("netns shared copy-on-fork on" if not as_json else '[{"netns":"shared"}]')
        return 0
    raise Stop(1, "Unknown object \"%s\", try \"rdma help\".\n" % what)


@program("ibdev2netdev", package=OFED)
def ibdev2netdev(call: Call) -> int:
    for port in _ports(call):
        up = "Up" if port.netdev.running else "Down"
        if "-v" in call.argv:
            call.line("%s %s (MT%d - %s) %s fw %s port 1 (%-6s) ==> %s (%s)" % (port.bdf, port.name, port.mt, port.part, "ConnectX-5 VPI", port.firmware,
                                                                                {1: "DOWN", 2: "INIT", 4: "ACTIVE"}[port.state], port.netdev.name, up))
        else:
            call.line("%s port 1 ==> %s (%s)" % (port.name, port.netdev.name, up))
    return 0


@program("show_gids", package=OFED)
def show_gids(call: Call) -> int:
    call.out("DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n")
    count = 0
    for port in _ports(call):
        if call.argv and call.argv[0] != port.name:
            continue
        for index, gid, kind in port.gids:
            count += 1
            ipv4 = str(ipaddress.IPv4Address(int(gid[-9:].replace(":", ""), 16))) + "  " if gid.startswith("0000") else "\t"
            version = "v2" if kind == "RoCE v2" else "v1"
            call.line("%s\t1\t%d\t%s\t%s\t%s\t%s" % (port.name, index, gid, ipv4, version, port.netdev.name))
    call.line("n_gids_found=%d" % count)
    return 0


@program("lspci")
def lspci(call: Call) -> int:
    """The functions that the host passes through, whether a driver runs or not."""
    numbers = [arg for arg in call.argv if arg.startswith("-") and "n" in arg.lstrip("-")]
    twice = any("nn" in arg for arg in numbers)
    domain = any(arg.startswith("-") and "D" in arg for arg in call.argv)
    picked = call.argv[call.argv.index("-d") + 1] if "-d" in call.argv[:-1] else ""
    rows = []
    if not picked:
        rows.append(("0000:03:00.0", "Ethernet controller", "0200", "VMware VMXNET3 Ethernet Controller", "15ad:07b0", "01"))
    if not picked or picked.lower().startswith("15b3"):
        for device in call.world.rdma_devices(call.vm):
            card = device["card"]
            kind = card.pci_class(device["port"].number)
            family = {4119: "MT27800 Family [ConnectX-5]", 4117: "MT27710 Family [ConnectX-4 Lx]"}.get(card.mt, "MT%d" % card.mt)
            rows.append((device["guest_bdf"], "Infiniband controller" if kind == 0x0207 else "Ethernet controller", "%04x" % kind,
                         "Mellanox Technologies " + family, "15b3:%04x" % card.mt, "00"))
    for bdf, kind, code, name, ids, revision in rows:
        where = bdf if domain else bdf[5:]
        rev = " (rev %s)" % revision if revision != "00" else ""
        if twice:
            call.line("%s %s [%s]: %s [%s]%s" % (where, kind, code, name, ids, rev))
        elif numbers:
            call.line("%s %s: %s%s" % (where, code, ids, rev))
        else:
            call.line("%s %s: %s%s" % (where, kind, name, rev))
    return 0
