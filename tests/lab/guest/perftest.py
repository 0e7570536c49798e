# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""perftest of the lab: ib_send_bw and its five sisters, two real ends over TCP, numbers that lie around the paper's.

The server listens on its guest's own address and serves one client; the client connects there; both tell each other
their options and addresses and print the tables of perftest 5.x. What the two ports, their GIDs, MTUs and options do to
a real run, they do here: the failures have the tool's words. The numbers are simulated: curves of the paper's two
fabrics, a small offset per pair, noise per run and size.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import random
import re
from typing import Any

from . import network, state
from .programs import OFED, Call, Stop, program
from .state import VERBS_MTU, RdmaPort

VERSION = "5.60"
DEFAULT_PORT = 18515
LINE = "-" * 87 + "\n"
RUN_SECONDS = 0.02  # what a run takes in the lab, whatever it would take on a card
CONNECT = "Unable to open file descriptor for socket connection Unable to init the socket connection\n"
SIZES = [2 ** n for n in range(1, 24)]

# By size from 2 bytes to 8 MiB: message rate in Mpps of small ones, Gb/s of larger ones (average), and t_typical in microseconds.
RATE = {"ib": [6.8, 6.95, 7.0, 7.02, 7.08, 7.2, 6.9, 6.6, 6.65], "roce": [6.68, 6.85, 6.7, 6.6, 6.55, 6.6, 6.55, 6.8, 6.4]}
GBITS = {"ib": [53.5, 79.7, 93.0, 95.0, 95.65, 95.8, 96.05, 96.17, 96.14, 96.18, 96.17, 96.25, 96.24, 96.21],
         "roce": [49.4, 74.5, 91.3, 94.9, 96.07, 96.5, 96.8, 97.0, 96.65, 90.0, 93.1, 95.1, 95.95, 96.2]}
TYPICAL = {"ib": [1.09, 1.08, 1.07, 1.07, 1.11, 1.22, 1.26, 1.68, 1.74, 1.93, 2.11, 2.65, 3.35, 4.86, 7.05, 9.77, 15.5, 27.4, 51.2, 98.2, 189.4, 364.1, 714.2],
           "roce": [1.96, 1.95, 1.95, 1.96, 1.99, 2.06, 2.1, 2.51, 2.57, 2.71, 3.02, 3.55, 4.26, 5.74, 7.92, 10.7, 16.15, 28.4, 52.8, 101.1, 194.5, 368.1,
                    716.0]}
TITLES = {"send_bw": "Send BW Test", "write_bw": "RDMA_Write BW Test", "read_bw": "RDMA_Read BW Test",
          "send_lat": "Send Latency Test", "write_lat": "RDMA_Write Latency Test", "read_lat": "RDMA_Read Latency Test"}
FLAGS = {"a": "all", "F": "CPU-freq", "b": "bidirectional", "N": "noPeak", "R": "rdma_cm", "z": "com_rdma_cm", "e": "events", "U": "report-unsorted",
         "H": "report-histogram",
         "C": "report-cycles", "h": "help", "V": "version", "": "report_gbits", "B": "cpu_util", "K": "use_old_post_send", "Y": "disable_pcie_relaxed"}
VALUES = {"p": "port", "d": "ib-dev", "i": "ib-port", "m": "mtu", "c": "connection", "s": "size", "n": "iters", "t": "tx-depth", "r": "rx-depth",
          "x": "gid-index",
          "q": "qp", "u": "qp-timeout", "S": "sl", "I": "inline_size", "Q": "cq-mod", "D": "duration", "f": "margin", "w": "limit_bw", "y": "limit_msgrate",
          "l": "post_list",
          "A": "atomic_type", "g": "post", "T": "tos"}


class Options:
    """The command line of a run."""

    def __init__(self, call: Call) -> None:
        self.verb = call.name[3:]
        self.bandwidth = self.verb.endswith("bw")
        self.found: dict[str, str] = {}
        self.server = ""
        todo = list(call.argv)
        flags, values = set(FLAGS.values()) | {"ipv6", "odp", "perform_warm_up"}, set(VALUES.values()) | {"bind_source_ip", "output", "out_json_file",
                                                                                                          "burst_size"}
        while todo:
            arg = todo.pop(0)
            name, equals, value = arg[2:].partition("=")
            if arg.startswith("--") and name in flags and not equals:
                self.found[name] = ""
            elif arg.startswith("--") and name in values and (equals or todo):
                self.found[name] = value if equals else todo.pop(0)
            elif re.fullmatch(r"-[a-zA-Z].*", arg) and arg[1] in FLAGS and len(arg) == 2:
                self.found[FLAGS[arg[1]]] = ""
            elif re.fullmatch(r"-[a-zA-Z].*", arg) and arg[1] in VALUES and (len(arg) > 2 or todo):
                self.found[VALUES[arg[1]]] = arg[2:] or todo.pop(0)
            elif not arg.startswith("-") and not self.server:
                self.server = arg
            else:
                raise Stop(1, " Invalid Command or flag.\n Please check command line and run again.\n\n")
        for name in ("port", "ib-port", "iters", "size", "gid-index", "qp", "duration", "tx-depth"):
            if name in self.found and not self.found[name].lstrip("-").isdigit():
                raise Stop(1, " Invalid %s value: %s\n" % (name, self.found[name]))

    def number(self, name: str, default: int) -> int:
        return int(self.found.get(name, default))

    @property
    def all(self) -> bool:
        return "all" in self.found

    @property
    def gbits(self) -> bool:
        return "report_gbits" in self.found

    @property
    def sizes(self) -> list[int]:
        if self.all:
            return SIZES
        return [self.number("size", 65536 if self.bandwidth else 2)]

    @property
    def iterations(self) -> int:
        return self.number("iters", 5000 if self.verb == "write_bw" and not self.all else 1000)


# ---- numbers --------------------------------------------------------------------------------------------------------------

def _between(table: list[float], first: int, size: int) -> float:
    """The curve at a size that is between two of its powers of two."""
    place = math.log2(size) - first
    low = min(max(int(math.floor(place)), 0), len(table) - 1)
    high = min(low + 1, len(table) - 1)
    part = min(max(place - low, 0.0), 1.0)
    return table[low] * (1 - part) + table[high] * part


def gbits(fabric: str, verb: str, size: int) -> float:
    """Average bandwidth of the fabric's curve."""
    if size < 1024:
        rate = _between(RATE[fabric], 1, max(size, 2)) * {"write_bw": 1.06, "read_bw": 0.88}.get(verb, 1.0)
        return min(rate * size * 8 / 1000, GBITS[fabric][0])
    return _between(GBITS[fabric], 10, size) * (0.985 if verb == "read_bw" else 1.0)


def typical(fabric: str, verb: str, size: int) -> float:
    base = _between(TYPICAL[fabric], 1, max(size, 2))
    return base * {"write_lat": 0.97, "read_lat": 1.0}.get(verb, 1.0) + (0.85 if verb == "read_lat" else -0.02 if verb == "write_lat" else 0.0)


def bw_rows(fabric: str, verb: str, sizes: list[int], iterations: int, speed: float, noise: random.Random, pair: float) -> list[list[float]]:
    rows = []
    for size in sizes:
        spread = 0.0015 if size >= 4096 else 0.012 if size >= 1024 else 0.03
        average = gbits(fabric, verb, size) * speed * pair * (1 + noise.uniform(-spread, spread))
        peak = average * (1 + abs(noise.gauss(0, 0.0003 if size >= 4096 else 0.02)))
        rows.append([size, iterations, peak, average, average * 1000 / 8 / size])
    return rows


def lat_rows(fabric: str, verb: str, sizes: list[int], iterations: int, slower: float, noise: random.Random, pair: float) -> list[list[float]]:
    rows = []
    for size in sizes:
        middle = typical(fabric, verb, size) * (2 - pair) * slower * (1 + noise.uniform(-0.008, 0.008))
        deviation = 0.09 + 0.0013 * middle + noise.uniform(0, 0.05)
        low = middle * 0.995 - noise.uniform(0.02, 0.05)
        average = middle + noise.uniform(0.0, 0.02)
        p99 = middle + deviation * noise.uniform(1.6, 2.6)
        high = p99 + noise.uniform(1.5, 3.5)
        rows.append([size, iterations, low, high, middle, average, deviation, p99, high])
    return rows


# ---- text -----------------------------------------------------------------------------------------------------------------

def header(options: Options, mine: dict[str, Any], client: bool) -> str:
    title = TITLES[options.verb]
    if "bidirectional" in options.found:
        title = title.replace(" BW", " Bidirectional BW")
    rows = [" Dual-port       : OFF\t\tDevice         : %s" % mine["device"], " Number of qps   : %d\t\tTransport type : IB" % options.number("qp", 1),
            " Connection type : %s\t\tUsing SRQ      : OFF" % options.found.get("connection", "RC"), " PCIe relax order: ON", " ibv_wr* API     : ON"]
    if options.verb.startswith("send") and not client:
        rows.append(" RX depth        : %d" % options.number("rx-depth", 512))
    elif not (options.verb.startswith(("write", "read")) and not client):
        rows.append(" TX depth        : %d" % (options.number("tx-depth", 128) if options.bandwidth else 1))
    if options.bandwidth:
        rows.append(" CQ Moderation   : %d" % (options.number("cq-mod", 100 if options.all or options.iterations >= 1000 else 1)))
    rows += [" Mtu             : %d[B]" % mine["mtu"], " Link type       : %s" % mine["link"]]
    if mine["gid_index"] is not None:
        rows.append(" GID index       : %d" % mine["gid_index"])
    if options.verb.startswith("read"):
        rows.append(" Outstand reads  : 16")
    else:
        rows.append(" Max inline data : %d[B]" % (0 if options.bandwidth else 236 if options.verb.startswith("send") else 220))
    rows += [" rdma_cm QPs\t : %s" % ("ON" if "rdma_cm" in options.found else "OFF"), " Data ex. method : Ethernet"]
    return LINE + " " * 20 + title + "\n" + "\n".join(rows) + "\n" + LINE


def address(side: str, end: dict[str, Any]) -> str:
    lid = "0000" if not end["lid"] else "0x%02x" % end["lid"]
    text = " %s address: LID %s QPN 0x%04x PSN 0x%x" % (side, lid, end["qpn"], end["psn"])
    if end.get("rkey"):
        text += " RKey 0x%06x VAddr 0x%014x" % (end["rkey"], end["vaddr"])
    text += "\n"
    if end["gid"]:
        digits = end["gid"].replace(":", "")
        text += " GID: %s\n" % ":".join("%02d" % int(digits[n:n + 2], 16) for n in range(0, 32, 2))
    return text


def bw_table(options: Options, rows: list[list[float]], peak_known: bool) -> str:
    unit = "Gb" if options.gbits else "MB"
    scale = 1.0 if options.gbits else 1e9 / 8 / 2 ** 20
    text = " #bytes     #iterations    BW peak[%s/sec]    BW average[%s/sec]   MsgRate[Mpps]\n" % (unit, unit)
    for size, iterations, peak, average, rate in rows:
        peak, average = (peak if peak_known else 0.0) * scale, average * scale
        form = "%-7.6f" if options.gbits and average < 0.1 else "%-7.2f"
        text += (" %-7d    %-10d       " + form + "            " + form + "\t\t     %-7.6f\n") % (size, iterations, peak, average, rate)
    return text


def lat_table(options: Options, rows: list[list[float]]) -> str:
    if "duration" in options.found:
        text = " #bytes        #iterations       t_avg[usec]    tps average\n"
        return text + "".join(" %-7d       %d            %-7.2f        %-7.2f\n" % (row[0], row[1], row[5], 1e6 / (2 * row[5])) for row in rows)
    text = (" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
            "99% percentile[usec]   99.9% percentile[usec] \n")
    for row in rows:
        text += " %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n" % tuple(row)
    return text


# ---- a run ----------------------------------------------------------------------------------------------------------------

def _port(call: Call, options: Options) -> RdmaPort:
    ports = state.rdma_ports(call.world, call.vm)
    if not ports:
        raise Stop(1, " Did not detect devices \n If device exists, check if driver is up\n Unable to find the Infiniband/RoCE device\n")
    name = options.found.get("ib-dev") or ports[0].name
    port = next((one for one in ports if one.name == name), None)
    if port is None:
        raise Stop(1, " IB device %s not found\n Unable to find the Infiniband/RoCE device\n" % name)
    number = options.number("ib-port", 1)
    if number != 1:
        raise Stop(1, " Couldn't get context for the device\n Invalid port number %d\n" % number if number > 1 else " Invalid port number\n")
    if port.state != 4:
        raise Stop(1, " Port number 1 state is %s\n Couldn't set the link layer\n Couldn't get context for the device\n" % {1: "Down", 2: "Init"}[port.state])
    return port


def _mine(call: Call, options: Options, port: RdmaPort) -> dict[str, Any]:
    """This end, as it is told to the other one."""
    guest = call.guest
    guest.extra["qpn"] = guest.extra.get("qpn", 0x47) + 1
    noise = random.Random("%s %d %d" % (call.vm.name, guest.boots, guest.extra["qpn"]))
    index: int | None = None
    gid, kind = "", ""
    if not port.infiniband or "gid-index" in options.found:
        index = options.number("gid-index", -1)
        if index < 0:
            index = port.gid_index()
        known = {n: (text, what) for n, text, what in port.gids}
        if index is None or index > 64:
            raise Stop(1, " Gid index should be between 0 to 64\n")
        gid, kind = known.get(index, ("0000:0000:0000:0000:0000:0000:0000:0000", ""))
    mtu = port.active_mtu
    if "mtu" in options.found:
        wanted = int(options.found["mtu"]) if options.found["mtu"].isdigit() else 0
        if wanted not in VERBS_MTU:
            raise Stop(1, " Invalid MTU: %s \n" % options.found["mtu"])
        if wanted > mtu:
            raise Stop(1, "Requested mtu is higher than active mtu \n Unable to create QP.\n")
        mtu = wanted
    end = dict(vm=call.vm.name, device=port.name, fabric="ib" if port.infiniband else "roce", link="IB" if port.infiniband else "Ethernet", lid=port.lid,
               qpn=guest.extra["qpn"],
               psn=noise.randrange(1, 1 << 24), gid=gid, gid_kind=kind, gid_index=index, mtu=mtu, speed=port.speed, verb=options.verb, sizes=options.sizes,
               all=options.all, iterations=options.iterations, duration=options.number("duration", 0), netdev_mtu=port.netdev.mtu,
               addresses=list(port.netdev.addresses))
    if options.verb.startswith(("write", "read")):
        end.update(rkey=noise.randrange(0x1000, 0xfffff), vaddr=0x7f0000000000 + noise.randrange(1 << 20) * 4096)
    return end


def _ipv4(end: dict[str, Any]) -> bool:
    return end["gid"].startswith("0000:0000:0000:0000:0000:ffff")


def _connectable(mine: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the queue pairs of the two ends come to RTR."""
    if mine["link"] != other["link"]:
        return False
    if mine["fabric"] == "ib":
        return bool(mine["lid"] and other["lid"])
    if not mine["gid_kind"] or not other["gid_kind"]:
        return False
    if not _ipv4(other):
        return True
    number = int(other["gid"][-9:].replace(":", ""), 16)
    return any(ipaddress.IPv4Address(number) in ipaddress.ip_interface(one).network for one in mine["addresses"])


def _cable(call: Call, mine: dict[str, Any], one: str, peer: str) -> dict[str, Any] | None:
    """The fault of the path from one VM to another on the fabric of this run."""
    cable = call.world.fault("weak_link", one)
    return cable if cable is not None and cable.get("peer") == peer and cable.get("fabric", mine["fabric"]) == mine["fabric"] else None


def _broken(call: Call, mine: dict[str, Any], other: dict[str, Any]) -> tuple[int, str] | None:
    """What goes wrong once data flows: status and syndrome of the first completion."""
    if (mine["verb"], mine["sizes"], mine["iterations"]) != (other["verb"], other["sizes"], other["iterations"]):
        return 10, "0x88"
    for one, peer in ((mine["vm"], other["vm"]), (other["vm"], mine["vm"])):
        cable = _cable(call, mine, one, peer)
        if cable is not None and not cable.get("factor", 0.6):
            return 12, "0x81"
    if mine["fabric"] == "roce":
        if mine["gid_kind"] != other["gid_kind"]:
            return 12, "0x81"
        if min(mine["mtu"], other["mtu"]) + 58 > call.world.fabric["ethernet"]["mtu"]:
            return 12, "0x81"
    return None


def _rows(call: Call, options: Options, mine: dict[str, Any], other: dict[str, Any]) -> list[list[float]]:
    """The client's measurement."""
    names = sorted([mine["vm"], other["vm"]])
    pair = 1 + random.Random("%s %s %s" % (names[0], names[1], mine["fabric"])).uniform(-0.0015, 0.001)
    noise = random.Random("%s %s %s %s %s %s" % (mine["vm"], other["vm"], mine["fabric"], options.verb, mine["run"], other["run"]))
    factor = 1.0
    # The client sends, but for reads, which it fetches; there and back is both.
    sends = "" if not options.bandwidth or "bidirectional" in options.found else other["vm"] if options.verb.startswith("read") else mine["vm"]
    with call.world.lock:
        for one, peer in ((mine["vm"], other["vm"]), (other["vm"], mine["vm"])):
            weak = call.world.fault("weak_port", one)
            if weak is not None and weak.get("fabric", mine["fabric"]) == mine["fabric"]:
                if not weak.get("way") or sends and (sends == one) == (weak["way"] == "send"):
                    factor *= weak.get("factor", 0.6)
            noisy = call.world.fault("noisy_port", one)
            if noisy is not None and noisy.get("fabric", mine["fabric"]) == mine["fabric"]:
                factor *= max(0.1, 1 + noise.gauss(0, noisy.get("cv", 10.0) / 100.0))
            cable = _cable(call, mine, one, peer)
            if cable is not None:
                factor *= cable.get("factor", 0.6)
    mtu = min(mine["mtu"], other["mtu"])
    speed = factor * {4096: 1.0, 2048: 0.985, 1024: 0.955}.get(mtu, 0.9) * min(mine["speed"], other["speed"]) / 100.0
    iterations = mine["iterations"] * options.number("qp", 1)
    if options.bandwidth:
        if options.number("qp", 1) > 1:
            pair *= 1.004
        rows = bw_rows(mine["fabric"], options.verb, options.sizes, iterations, speed, noise, pair)
        if "bidirectional" in options.found:
            rows = [[row[0], row[1]] + [value * 1.95 for value in row[2:]] for row in rows]
        if mine["duration"]:
            rows = [[row[0], int(row[3] * 1e9 / 8 / row[0] * mine["duration"]), 0.0, row[3], row[4]] for row in rows]
        return rows
    rows = lat_rows(mine["fabric"], options.verb, options.sizes, iterations, 1 / factor, noise, pair)
    if mine["duration"]:
        rows = [[row[0], int(mine["duration"] * 1e6 / (2 * row[5]))] + row[2:] for row in rows]
    return rows


@program(*["ib_" + verb for verb in TITLES], package=OFED)
async def perftest(call: Call) -> int:
    options = Options(call)
    if "version" in options.found:
        call.line("Version: %s" % VERSION)
        return 1
    if "help" in options.found:
        call.line("Usage:\n  %s            start a server and wait for connection\n  %s <host>     connect to server at <host>" % (call.name, call.name))
        return 1
    if "duration" in options.found and options.all:
        call.out(LINE)
        raise Stop(1, "Duration mode currently doesn't support running on all sizes.\n")
    with call.world.lock:
        port = _port(call, options)
        mine = _mine(call, options, port)
    number = options.number("port", DEFAULT_PORT)
    if options.server:
        reader, writer = await _connect(call, options.server, number)
    else:
        call.out("\n************************************\n* Waiting for client to connect... *\n************************************\n")
        accepted = await _accept(call, number)
        if accepted is None:
            return 1
        reader, writer = accepted
    with call.world.lock:  # only a meeting counts: how often a client had to come again is a matter of time, and figures are none
        mine["run"] = call.guest.extra["runs"] = call.guest.extra.get("runs", 0) + 1
    # Who measures when: the journal shows whether a guest was ever busy twice.
    call.world.note("guest", call.vm.name, "perftest start", test=call.name, fabric=mine["fabric"])
    try:
        return await _converse(call, options, mine, reader, writer)
    except (ConnectionError, asyncio.IncompleteReadError, json.JSONDecodeError):
        raise Stop(1, "Couldn't read/write remote address\n Unable to exchange data with the other side\n"
                      " Failed to exchange data between server and clients\n") from None
    finally:
        call.world.note("guest", call.vm.name, "perftest end", test=call.name, fabric=mine["fabric"])
        writer.close()


async def _connect(call: Call, name: str, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    with call.world.lock:
        target = state.resolve(call.world, call.vm, name)
        if target is None:
            raise Stop(1, "Name or service not known for %s:%d\n%s" % (name, number, CONNECT))
        found = state.owner(call.world, target)
        there = found[0].guest.address if found and network.reachable(call, target) else ""
    if there:
        try:
            return await asyncio.open_connection(there, number, local_addr=(call.guest.address, 0))
        except OSError:
            pass
    raise Stop(1, "Couldn't connect to %s:%d\n%s" % (name, number, CONNECT))


async def _accept(call: Call, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """Wait for the one client; None when the program was killed meanwhile."""
    came: "asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]" = call.face.loop.create_future()

    def first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if came.done():
            writer.close()
        else:
            came.set_result((reader, writer))

    try:
        server = await asyncio.start_server(first, call.guest.address, number, backlog=1)
    except OSError:
        raise Stop(1, "Couldn't listen to port %d\n%s" % (number, CONNECT)) from None
    listening = call.guest.extra.setdefault("listening", [])
    listening.append(number)
    killed = asyncio.ensure_future(call.gone())
    try:
        await call.flush()
        await asyncio.wait({came, killed}, return_when=asyncio.FIRST_COMPLETED)
        return came.result() if came.done() else None
    finally:
        killed.cancel()
        server.close()
        listening.remove(number)


async def _converse(call: Call, options: Options, mine: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    client = bool(options.server)

    async def tell(data: Any) -> None:
        writer.write(json.dumps(data).encode() + b"\n")
        await writer.drain()

    async def hear() -> Any:
        line = await asyncio.wait_for(reader.readline(), 30)
        if not line.endswith(b"\n"):
            raise asyncio.IncompleteReadError(line, None)
        return json.loads(line)

    await tell(mine)
    other = await hear()
    mine["mtu"] = min(mine["mtu"], other["mtu"])
    call.out(("WARNING: BW peak won't be measured in this run.\n" if options.bandwidth and mine["duration"] else "") + header(options, mine, client))
    call.out(address("local", mine) + address("remote", other))
    if mine["fabric"] == other["fabric"] == "roce" and mine["gid_kind"] and other["gid_kind"] and _ipv4(mine) != _ipv4(other):
        await tell("end")
        raise Stop(1, " Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n\n")
    if not _connectable(mine, other):
        await tell("end")
        raise Stop(1, " Failed to modify QP %d to RTR\n Unable to Connect the HCA's through the link\n" % mine["qpn"])
    call.out(LINE)
    with call.world.lock:
        broken = _broken(call, mine, other)
    if broken:
        status, syndrome = broken
        empty = bw_table(options, [], True) if options.bandwidth else lat_table(options, [])
        call.out(empty)
        await tell("end")
        if client:
            raise Stop(1, " Completion with error at client\n Failed status %d: wr_id 0 syndrom %s\nscnt=128, ccnt=0\n"
                          " Failed to complete run_iter_%s function successfully\n"
                       % (status, syndrome, "bw" if options.bandwidth else "lat"))
        raise Stop(1, " Completion with error at server\n Failed status %d: wr_id 0 syndrom %s\nrcnt=0\n"
                      " Failed to complete run_iter_%s_server function successfully\n"
                   % (status, syndrome, "bw" if options.bandwidth else "lat"))
    if client:
        rows = _rows(call, options, mine, other)
        await asyncio.sleep(RUN_SECONDS)
        await tell(rows)
    else:
        rows = await hear()
    if rows == "end":
        raise asyncio.IncompleteReadError(b"", None)
    one_sided = options.verb.startswith(("write", "read"))
    if options.bandwidth:
        call.out(bw_table(options, rows if client or not one_sided else rows[-1:], client or one_sided))
    elif client or options.verb != "read_lat":
        call.out(lat_table(options, rows))
    call.out(LINE)
    limit = options.found.get("limit_bw")
    if client and limit and options.bandwidth and rows[-1][3] < float(limit):
        raise Stop(1, "Error: BW result is below bw limit\n")
    return 0
