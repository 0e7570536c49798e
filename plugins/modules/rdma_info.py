#!/usr/bin/python
# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: rdma_info
short_description: Read the RDMA ports of a guest and tell what is wrong with them
version_added: "0.1.0"
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Reads sysfs, C(ibstatus), C(ibv_devinfo), C(ip), the OFED and the limit of locked memory in one task.
  - Compares them with O(expect) and names all findings of all ports at once.
  - Proves an MTU end to end with packets that must not be fragmented (O(reach)).
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.info
options:
  expect:
    description: What must hold. Whatever does not becomes a finding of level error.
    type: dict
    suboptions:
      roce:
        description: The port with link layer Ethernet. Leave it out when the guest need not have one.
        type: dict
        suboptions: &port
          state:
            description: State of the port.
            type: str
            default: ACTIVE
          mac:
            description: Hardware address of its network device.
            type: str
          guid:
            description: GUID of the port.
            type: str
          mtu:
            description: MTU of its network device.
            type: int
          active_mtu:
            description: MTU that RDMA uses on the port.
            type: int
          rate_gbps:
            description: Least rate of the link in Gb/s.
            type: float
          address:
            description: IPv4 address with prefix length of its network device.
            type: str
      ib:
        description: The port with link layer InfiniBand. Leave it out when the guest need not have one.
        type: dict
        suboptions: *port
      ofed:
        description: Version of the OFED that must be installed and loaded.
        type: str
  reach:
    description: Peers that must be reached with whole packets.
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description: IPv4 address of the peer.
        type: str
        required: true
      mtu:
        description: Size of the packets including the IP header.
        type: int
        default: 9000
      role:
        description: Port that the packets leave by.
        type: str
        choices: [roce, ib]
        default: roce
  fabric:
    description:
      - Asks the management tools of InfiniBand about the whole fabric (C(sminfo), C(ibstat), C(iblinkinfo), C(ibqueryerrors)).
      - Ask one guest. What it finds is true for all.
    type: dict
    suboptions:
      hosts:
        description: Hosts that must be in the fabric, by the first word of their node description.
        type: list
        elements: str
        default: []
      interval:
        description: Seconds between two readings of the error counters, to tell those that rise. V(0) reads them once.
        type: int
        default: 0
  enforce:
    description: Whether findings of level error fail the task. In check mode they never do.
    type: bool
    default: false
  root:
    description:
      - Directory that holds the system to work on. V(/) is the guest itself.
      - With another directory nothing outside of it is read, run or changed.
    type: str
    default: /
"""

EXAMPLES = r"""
- name: Both ports must be there, active and at 100 Gb/s
  vhpc.rdma.rdma_info:
    expect:
      ib: {rate_gbps: 100}
      roce: {rate_gbps: 100, mtu: 9000, active_mtu: 4096}
      ofed: 5.4-3.0.3.0
    enforce: true

- name: Jumbo frames get through to the neighbours
  vhpc.rdma.rdma_info:
    reach:
      - {address: 192.168.5.12, mtu: 9000}
      - {address: 192.168.5.13, mtu: 9000}
    enforce: true
"""

RETURN = r"""
fabric:
  description: The fabric, where O(fabric) asked for it.
  returned: when O(fabric) is given
  type: dict
  contains:
    manager:
      description: The subnet manager with C(lid), C(guid), C(priority) and C(state); V(null) when none answers.
      type: dict
    links:
      description: Every end of a link.
      type: list
      elements: dict
    errors:
      description: Ports with error counters beyond their thresholds.
      type: list
      elements: dict
ports:
  description: All RDMA ports of the guest.
  returned: always
  type: list
  elements: dict
  contains:
    role:
      description: V(ib) or V(roce), by the link layer.
      type: str
    device:
      description: Name of the RDMA device now.
      type: str
    netdev:
      description: Name of the network device now.
      type: str
    guid:
      description: GUID of the port (InfiniBand) or of its node (Ethernet).
      type: str
    mac:
      description: Hardware address of the network device.
      type: str
    state:
      description: State of the port.
      type: str
    rate_gbps:
      description: Rate of the link in Gb/s.
      type: float
    mtu:
      description: MTU of the network device.
      type: int
    active_mtu:
      description: MTU that RDMA uses.
      type: int
    gid_index:
      description: Index of the first RoCE v2 GID with an IPv4 address.
      type: int
  sample:
    - role: ib
      device: mlx5_0
      netdev: ib0
      guid: 0c42a10300d00008
      state: ACTIVE
      rate_gbps: 100.0
      active_mtu: 4096
ofed:
  description: The OFED of the guest.
  returned: always
  type: dict
  sample: {installed: MLNX_OFED_LINUX-5.4-3.0.3.0, version: 5.4-3.0.3.0, loaded: true}
memlock:
  description: Limit of locked memory as configured, and as it holds for this session, in KiB or V(unlimited).
  returned: always
  type: dict
  sample: {configured: unlimited, session: unlimited}
kernel:
  description: Release of the running kernel.
  returned: success
  type: str
  sample: 4.18.0-147.el8.x86_64
machine:
  description:
    - What the machine is made of, for the report's table of testbeds. C(virtual) tells whether a hypervisor runs below; C(mpi) and C(ucx) are those that a
      session finds first. What cannot be read is empty.
  returned: success
  type: dict
  sample:
    cpu: Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz
    sockets: 2
    cores: 44
    threads: 44
    memory: 141 GiB
    virtual: true
    os: Red Hat Enterprise Linux 8.1 (Ootpa)
    bios: VMW71.00V.16460286.B64.2006250725
    model: VMware7,1
    mpi: openmpi 4.1.2
    ucx: 1.12.0
findings:
  description: What is wrong, each with level (error or warning), code, thing, text and hint.
  returned: always
  type: list
  elements: dict
reach:
  description: Which peers were reached with whole packets.
  returned: always
  type: list
  elements: dict
  sample:
    - {address: 192.168.5.12, mtu: 9000, role: roce, ok: true, text: ""}
"""

import re
import resource
import time

from ansible_collections.vhpc.rdma.plugins.module_utils import guest as wrapper
from ansible_collections.vhpc.rdma.plugins.module_utils import links, machine, ofed_state
from ansible_collections.vhpc.rdma.plugins.module_utils import ports as rdma
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.system import stop
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import ibfabric, ibverbs

PORT = dict(state=dict(type="str", default="ACTIVE"), mac=dict(type="str"), guid=dict(type="str"), mtu=dict(type="int"), active_mtu=dict(type="int"),
            rate_gbps=dict(type="float"), address=dict(type="str"))
SPEC = dict(
    expect=dict(type="dict", options=dict(roce=dict(type="dict", options=PORT), ib=dict(type="dict", options=PORT), ofed=dict(type="str"))),
    reach=dict(type="list", elements="dict", default=[], options=dict(
        address=dict(type="str", required=True), mtu=dict(type="int", default=9000), role=dict(type="str", choices=["roce", "ib"], default="roce"))),
    fabric=dict(type="dict", options=dict(hosts=dict(type="list", elements="str", default=[]), interval=dict(type="int", default=0))),
    enforce=dict(type="bool", default=False),
)
IP_AND_ICMP = 28


def finding(level, code, thing, text, hint):
    return dict(level=level, code=code, thing=thing, text=text, hint=hint)


def status(system):
    """(device, port) -> what ibstatus tells; None without the program."""
    if not system.find("ibstatus"):
        return None
    dummy, out, err = system.run(["ibstatus"], timeout=30)
    try:
        found = ibverbs.parse_ibstatus(out + err)
    except ParseError:
        return None
    return dict(((port["device"], port["port"]), port) for port in found["ports"])


def read_ports(system, findings):
    """All ports with what every tool tells; tools that contradict each other are findings."""
    devinfo, told, devices, out = rdma.verbs(system), status(system), {}, []
    if system.find("ip"):
        code, text, dummy = system.run(["ip", "-j", "addr"], timeout=30)
        devices = links.parse_addresses(text) if not code else {}
    for port in rdma.read(system):
        key = (port["device"], port["port"])
        seen, more = (told or {}).get(key), devinfo.get(key, {})
        row = dict(rdma.public(port), addresses=devices.get(port["netdev"], {}).get("addresses", []),
                   active_mtu=more.get("active_mtu"), max_mtu=more.get("max_mtu"),
                   gid_index=rdma.gid_index(port) if port["role"] == "roce" else None)
        out.append(row)
        if told is not None and seen is None:
            findings.append(finding("error", "TOOLS_DIFFER", rdma.describe(port), "the kernel shows the port and ibstatus does not",
                                    "kernel and user space belong to different releases: compare ofed_info -s with the running modules"))
        elif seen and (seen["state"], seen["link_layer"]) != (port["state"], port["link_layer"]):
            findings.append(finding("warning", "TOOLS_DIFFER", rdma.describe(port), "ibstatus tells %s %s and the kernel %s %s" % (
                seen["link_layer"], seen["state"], port["link_layer"], port["state"]), "the port changed in between; read it again"))
        if more and port["state"] == "ACTIVE" and more.get("state", "PORT_ACTIVE") != "PORT_ACTIVE":
            findings.append(finding("error", "TOOLS_DIFFER", rdma.describe(port), "ibv_devinfo tells %s and the kernel ACTIVE" % more["state"],
                                    "kernel and user space belong to different releases: compare ofed_info -s with the running modules"))
    return out


def check_port(role, wanted, ports, host):
    """Findings of one expected port."""
    try:
        port = rdma.choose(ports, role, wanted.get("guid") or "", wanted.get("mac") or "", host)
    except RdmaError as err:
        return [finding("error", err.code, "%s port" % role, err.why, err.hint)]
    thing, out = rdma.describe(port), []
    if wanted["state"] and port["state"] != wanted["state"]:
        out += rdma.findings(port) if wanted["state"] == "ACTIVE" else [
            finding("error", "LINK_BAD_STATE", thing, "the port is %s and not %s" % (port["state"], wanted["state"]), "see the switch and the cable")]
    if wanted["mtu"] and port["mtu"] != wanted["mtu"]:
        out.append(finding("error", "MTU", thing, "MTU %s and not %s" % (port["mtu"], wanted["mtu"]), "set it with rdma_link"))
    if wanted["active_mtu"] and port["active_mtu"] != wanted["active_mtu"]:
        out.append(finding("error", "ACTIVE_MTU", thing, "RDMA uses MTU %s and not %s" % (port["active_mtu"], wanted["active_mtu"]),
                           "RoCE takes the largest of 256 to 4096 that fits the network device's MTU: set that to 9000; InfiniBand takes the fabric's"))
    if wanted["rate_gbps"] and (port["rate_gbps"] or 0) < wanted["rate_gbps"]:
        out.append(finding("error", "LINK_RATE_MISMATCH", thing,
                           "the link runs at %s and not at %g Gb/s" % (port["rate"] or "an unknown rate", wanted["rate_gbps"]),
                           "check the cable and the speed of the switch port"))
    if wanted["address"] and wanted["address"] not in port["addresses"]:
        out.append(finding("error", "ADDRESS", thing, "has %s and not %s" % (", ".join(port["addresses"]) or "no address", wanted["address"]),
                           "set it with rdma_link"))
    return out


def kernel(system):
    """Release of the running kernel; empty where uname is not there."""
    return system.run(["uname", "-r"], timeout=10)[1].strip() if system.find("uname") else ""


def session_memlock():
    """The limit of this very session in KiB, as programs started by it would have it."""
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return "unlimited" if soft == resource.RLIM_INFINITY else str(soft // 1024)


def reach(guest, peers, ports):
    """Ping all peers at once with packets that may not be fragmented."""
    running, out = [], []
    for peer in peers:
        netdev = next((port["netdev"] for port in ports if port["role"] == peer["role"] and port["netdev"]), "")
        row = dict(peer, ok=False, text="")
        out.append(row)
        if not netdev:
            row["text"] = "there is no %s port with a network device" % peer["role"]
            continue
        argv = ["ping", "-M", "do", "-c", "2", "-i", "0.2", "-W", "2", "-s", str(peer["mtu"] - IP_AND_ICMP), "-I", netdev, peer["address"]]
        stream = guest.system.scratch()
        running.append((row, guest.system.start(argv, stream, stream), stream))
    deadline = time.time() + 15
    for row, process, stream in running:
        while process.poll() is None and time.time() < deadline:
            time.sleep(0.01)
        if process.poll() is None:
            stop(process)
        stream.seek(0)
        text = stream.read().decode("utf-8", "replace")
        stream.close()
        received = re.search(r"(\d+) (?:packets )?received", text)
        row["ok"] = process.returncode == 0 and bool(received) and int(received.group(1)) > 0
        if not row["ok"]:
            told = [line.strip() for line in text.splitlines() if re.search(r"too long|needed|Unreachable|unknown host|Name or service|rror|packet loss", line)]
            row["text"] = "; ".join(told[:2]) or "no answer"
    return out


def fabric(guest, options, findings):
    """The whole fabric as seen from here."""
    system = guest.system

    def ask(*argv):
        dummy, out, err = system.run(list(argv), timeout=120)
        return out + "\n" + err

    own = ibverbs.parse_ibstat(ask("ibstat").strip())
    local = dict(host=guest.host, ports=[dict(device=device["name"], port=port["port"], state=port.get("state"), phys_state=port.get("physical_state"))
                                         for device in own["devices"] for port in device["ports"] if port.get("link_layer") != "Ethernet"])
    manager = ibfabric.parse_sminfo(ask("sminfo"))
    # Without a subnet manager ports have no address and the counters cannot be asked for.
    links = ibfabric.parse_links(ask("iblinkinfo", "-l")) if manager else []
    before = ibfabric.parse_errors(ask("ibqueryerrors")) if manager else []
    after = before
    if manager and options["interval"]:
        time.sleep(options["interval"])
        after = ibfabric.parse_errors(ask("ibqueryerrors"))
    findings += ibfabric.findings(manager, links, before, after, options["hosts"], local)
    return dict(manager=manager, links=links, errors=after)


def work(guest):
    system, expect, findings = guest.system, guest.params["expect"] or {}, []
    ports = read_ports(system, findings)
    ofed = ofed_state.state(system)
    for role in ("ib", "roce"):
        if expect.get(role) is not None:
            findings += check_port(role, expect[role], ports, guest.host)
    if expect.get("ofed"):
        if not ofed_state.is_version(ofed["installed"], expect["ofed"]):
            findings.append(finding("error", "OFED_VERSION", "OFED", "%s is installed and not %s" % (ofed["installed"] or "nothing", expect["ofed"]),
                                    "install it with ofed_guest"))
        elif ofed["loaded"] is False:
            findings.append(finding("error", "OFED_NOT_LOADED", "OFED", ofed["loaded_reason"], "restart openibd or reboot the guest"))
    limits = dict(configured=ofed_state.read_memlock(system)["soft"], session=session_memlock())
    if limits["session"] != "unlimited":
        findings.append(finding("warning", "MEMLOCK", "limits", "this session may lock %s KiB" % limits["session"],
                                "set memlock to unlimited with ofed_guest and log in again; for services set LimitMEMLOCK in their unit"))
    seen = fabric(guest, guest.params["fabric"], findings) if guest.params.get("fabric") else None
    reached = reach(guest, guest.params["reach"], ports)
    for row in reached:
        if not row["ok"]:
            findings.append(finding("error", "MTU_PATH", "%s to %s" % (row["role"], row["address"]),
                                    "packets of %d bytes do not get through: %s" % (row["mtu"], row["text"]),
                                    "set the MTU on the switch ports (9216 for 9000) and on both guests"))
    errors = [one for one in findings if one["level"] == "error"]
    result = Changes("guest").result(ports=ports, ofed=ofed, memlock=limits, findings=findings, reach=reached,
                                     kernel=kernel(system), machine=machine.read(system))
    if seen is not None:
        result["fabric"] = seen
    if errors and guest.params["enforce"] and not guest.check_mode:
        raise RdmaError("find the RDMA ports as they should be", guest.host, "; ".join("%s: %s" % (one["thing"], one["text"]) for one in errors),
                        "; ".join(sorted(set(one["hint"] for one in errors))), code=errors[0]["code"],
                        data=dict(ports=ports, ofed=ofed, memlock=limits, findings=findings, reach=reached))
    return result


def main():
    wrapper.run(SPEC, work)


if __name__ == "__main__":
    main()
