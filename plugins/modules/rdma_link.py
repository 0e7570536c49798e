#!/usr/bin/python
# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: rdma_link
short_description: Give the RDMA ports of a guest their persistent address and MTU
version_added: "0.1.0"
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Finds the InfiniBand and the RoCE port of the guest by their link layer, writes a NetworkManager profile for each that
    is bound to the port's MAC, brings it up, and waits until the port is ACTIVE.
  - Where the guest uses netplan, systemd-networkd or ifupdown instead, a file of that keeps address and MTU.
  - Names such as C(mlx5_0), C(ens224f1) or C(ib0) are never asked for. They depend on slots and udev rules and change.
  - An address in a subnet that another device of the guest already has is refused before anything is written.
  - Sets what RoCE needs of the port where it is asked for (O(roce.qos)), and keeps it in a systemd unit, because the driver forgets it.
  - A port that does not become ACTIVE is told apart. The link without a subnet manager, the cable or link type, and the
    port that is switched off each have their own text.
extends_documentation_fragment:
  - vhpc.rdma.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  roce:
    description:
      - What the RoCE port is to be. The port with the link layer Ethernet.
      - Leave it out to leave the port alone.
    type: dict
    suboptions:
      address:
        description: IPv4 address with prefix length, such as V(192.168.5.11/24).
        type: str
      mtu:
        description: MTU of the network device. 9000 gives RoCE its largest MTU, 4096.
        type: int
        default: 9000
      mac:
        description: MAC of the port, where the guest has several Ethernet ports with RDMA.
        type: str
      guid:
        description: Node GUID of the device, where the guest has several.
        type: str
      profile:
        description: Name of the NetworkManager profile.
        type: str
        default: vhpc-roce
      qos:
        description:
          - RoCE settings of the port, by C(mlnx_qos) where the vendor's driver brings it, else by iproute2's C(dcb), and by the kernel's files.
          - C(vhpc-rdma-qos.service) sets them again at every boot. It finds the port by MAC and GUID.
          - What the device or its driver cannot do is left out and named in RV(findings).
          - Leave it out to leave the settings alone.
        type: dict
        suboptions:
          state:
            description:
              - V(absent) removes the unit and puts the settings back to what a port has before anybody set them. Where there is no unit it does nothing.
            type: str
            choices: [present, absent]
            default: present
          trust:
            description: What a packet's priority is taken from, its DSCP or its VLAN tag.
            type: str
            choices: [dscp, pcp]
            default: dscp
          priority:
            description: The priority of RoCE, as the switch has it too.
            type: int
            default: 3
          dscp:
            description: The DSCP that RoCE packets carry, which is mapped to that priority.
            type: int
            default: 26
          pfc:
            description: Priorities with priority flow control; that of RoCE when left out. An empty list is none.
            type: list
            elements: int
          roce_mode:
            description: The RoCE version of connections that the connection manager makes.
            type: str
            choices: [v1, v2]
            default: v2
          ecn:
            description: Whether RoCE packets may be marked on congestion, and the port slows down when they are.
            type: bool
            default: true
  ib:
    description:
      - What the InfiniBand port is to be. The port with the link layer InfiniBand.
      - Without O(ib.address) and O(ib.mtu) no profile is written and only the state is waited for. RDMA on InfiniBand needs no address.
      - Leave it out to leave the port alone.
    type: dict
    suboptions:
      address:
        description: IPv4 address with prefix length for IPoIB.
        type: str
      mtu:
        description: MTU of the IPoIB device, 2044 or 4092.
        type: int
        choices: [2044, 4092]
      mac:
        description: Hardware address of the IPoIB device, where the guest has several. Its last 8 bytes count.
        type: str
      guid:
        description: GUID of the port, where the guest has several InfiniBand ports.
        type: str
      profile:
        description: Name of the NetworkManager profile.
        type: str
        default: vhpc-ib
  backend:
    description:
      - What keeps the guest's network configuration.
      - V(auto) takes V(netplan) where there is a netplan file, V(networkmanager) where that runs, V(networkd) where systemd-networkd runs,
        V(ifupdown) where there is C(/etc/network/interfaces), and else V(networkmanager).
    type: str
    choices: [auto, networkmanager, netplan, networkd, ifupdown]
    default: auto
  state:
    description:
      - V(active) waits until the ports are ACTIVE and fails when they are not.
      - V(any) does not care.
    type: str
    choices: [active, any]
    default: active
  timeout:
    description: Seconds to wait for a port to become ACTIVE, and for NetworkManager.
    type: int
    default: 60
  root:
    description:
      - Directory that holds the system to work on. V(/) is the guest itself.
      - With another directory nothing outside of it is read, run or changed.
    type: str
    default: /
"""

EXAMPLES = r"""
- name: Address and MTU for RoCE, InfiniBand active
  vhpc.rdma.rdma_link:
    roce:
      address: 192.168.5.11/24
      mtu: 9000
    ib: {}

- name: A lossless RoCE port, kept over reboots
  vhpc.rdma.rdma_link:
    roce:
      address: 192.168.5.11/24
      qos:
        priority: 3
        dscp: 26

- name: An address for IPoIB too, on the port with this GUID
  vhpc.rdma.rdma_link:
    ib:
      address: 192.168.6.11/24
      mtu: 4092
      guid: "0c42:a103:00d3:9846"
"""

RETURN = r"""
changes:
  description: The steps that were, or in check mode would be, taken.
  returned: success
  type: list
  elements: dict
backend:
  description: What keeps the configuration.
  returned: success
  type: str
  sample: networkmanager
findings:
  description: Settings that the device or its driver cannot have, each with level, code, thing, text and hint.
  returned: success
  type: list
  elements: dict
  sample:
    - level: warning
      code: DEVICE_CANNOT
      thing: rxe0 port 1 (Ethernet, mac 52:54:00:00:01:01, ens5)
      text: "does not take trust, PFC: dcb says: Attribute read: Operation not supported"
      hint: RoCE works without, but not lossless
ports:
  description: The ports by role as they are after the run.
  returned: success
  type: list
  elements: dict
  contains:
    role:
      description: V(ib) or V(roce).
      type: str
    device:
      description: Name of the RDMA device now.
      type: str
    port:
      description: Number of the port on its device.
      type: int
    netdev:
      description: Name of the network device now.
      type: str
    guid:
      description: GUID of the port (InfiniBand) or of its node (Ethernet), 16 hexadecimal digits.
      type: str
    mac:
      description: Hardware address of the network device.
      type: str
    state:
      description: State of the port, such as ACTIVE, INIT or DOWN.
      type: str
    mtu:
      description: MTU of the network device.
      type: int
    addresses:
      description: IPv4 addresses of the network device.
      type: list
      elements: str
    gid_index:
      description: Index of the RoCE v2 GID of the address. RoCE only.
      type: int
  sample:
    - role: roce
      device: mlx5_1
      port: 1
      netdev: ens256f1
      mac: "0c:42:a1:d3:00:09"
      state: ACTIVE
      mtu: 9000
      addresses: ["192.168.5.11/24"]
      gid_index: 3
"""

import time

from ansible_collections.vhpc.rdma.plugins.module_utils import guest as wrapper
from ansible_collections.vhpc.rdma.plugins.module_utils import backends, links, qos
from ansible_collections.vhpc.rdma.plugins.module_utils import ports as rdma
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

SPEC = dict(
    roce=dict(type="dict", options=dict(
        address=dict(type="str"), mtu=dict(type="int", default=9000), mac=dict(type="str"), guid=dict(type="str"),
        profile=dict(type="str", default="vhpc-roce"), qos=dict(type="dict", options=dict(
            state=dict(type="str", choices=["present", "absent"], default="present"), trust=dict(type="str", choices=["dscp", "pcp"], default="dscp"),
            priority=dict(type="int", default=3), dscp=dict(type="int", default=26), pfc=dict(type="list", elements="int"),
            roce_mode=dict(type="str", choices=["v1", "v2"], default="v2"), ecn=dict(type="bool", default=True))))),
    ib=dict(type="dict", options=dict(
        address=dict(type="str"), mtu=dict(type="int", choices=[2044, 4092]), mac=dict(type="str"), guid=dict(type="str"),
        profile=dict(type="str", default="vhpc-ib"))),
    backend=dict(type="str", choices=["auto"] + list(backends.NAMES), default="auto"),
    state=dict(type="str", choices=["active", "any"], default="active"),
    timeout=dict(type="int", default=60),
)
APPEAR = 15  # seconds


def addresses(system):
    """All network devices with their addresses."""
    code, out, err = system.run(["ip", "-j", "addr"], timeout=30)
    if code:
        raise RdmaError("read the network devices", system.name(), err or out, "ip must know -j (iproute2 4.13 or newer)", code="IP")
    return links.parse_addresses(out)


def wanted_ports(guest):
    """role -> options of the ports that are asked for, checked without looking at the system."""
    out = {}
    for role in ("ib", "roce"):
        options = guest.params[role]
        if options is None:
            continue
        options = dict((key, value) for key, value in options.items() if value not in (None, ""))
        if options.get("address"):
            options["address"] = str(links.interface(options["address"], role, guest.host))
        if options.get("mtu"):
            links.check_mtu(role, options["mtu"], guest.host)
        if options.get("qos"):
            options["qos"] = qos.wish(options["qos"], guest.host)
        out[role] = options
    return out


def observe(guest, role, options, all_ports, devices, backend):
    """The port of a role with what is found and what is wanted of it."""
    system = guest.system
    if backend != "networkmanager":
        return observe_file(guest, role, options, all_ports, devices, backend)
    port = rdma.choose(all_ports, role, options.get("guid", ""), options.get("mac", ""), guest.host)
    path = "%s/%s.nmconnection" % (links.PROFILES, options["profile"])
    text = system.read(path, "")
    mtu = options.get("mtu")
    profile = None
    addresses_now = devices.get(port["netdev"], {}).get("addresses", [])
    if options.get("address") or mtu:
        if not port["netdev"]:
            raise RdmaError("configure the %s port" % role, "%s, %s" % (guest.host, rdma.describe(port)), "the port has no network device",
                            "load the driver of the network device (ib_ipoib for InfiniBand)", code="NO_NETDEV")
        if addresses_now and not options.get("address") and not text:
            raise RdmaError("set the MTU of the %s port" % role, "%s, %s" % (guest.host, rdma.describe(port)),
                            "it has the address %s, which a profile with an MTU alone would take away" % ", ".join(addresses_now),
                            "give the address too", code="ADDRESS")
        profile = links.profile(role, options["profile"], port["mac"], options.get("address", ""), mtu)
    found = dict(profile=links.parse_profile(text) if text else None, mode=system.mode(path), addresses=addresses_now)
    return dict(role=role, port=port, found=found, wanted=dict(profile=profile, address=options.get("address", ""), mtu=mtu, path=path))


def observe_all(guest, wanted, backend):
    """The views of all ports, and all network devices. After a restart of the driver devices may take a moment to appear."""
    deadline = time.time() + (0 if guest.check_mode else min(guest.params["timeout"], APPEAR))
    while True:
        all_ports, devices = rdma.read(guest.system), addresses(guest.system)
        try:
            return [observe(guest, role, wanted[role], all_ports, devices, backend) for role in sorted(wanted)], devices
        except RdmaError as err:
            if err.code not in ("NO_DEVICE", "NO_NETDEV") or time.time() >= deadline:
                raise
        time.sleep(0.25)


def check_ipoib(guest, port, mtu, backend):
    """Refuse what the fabric, or the mode that somebody chose, does not let an IPoIB device have."""
    system, where = guest.system, "%s, %s" % (guest.host, rdma.describe(port))
    if not mtu or not port["netdev"]:
        return
    if backend != "networkmanager" and system.line("/sys/class/net/%s/mode" % port["netdev"]) == "connected":
        raise RdmaError("set MTU %s on the ib port" % mtu, where, "IPoIB is in connected mode there, and the MTU of datagrams does not hold for it",
                        "set datagram where connected was chosen (a udev rule or the driver's options), and in /sys/class/net/%s/mode now" % port["netdev"],
                        code="IPOIB_MODE")
    active = rdma.verbs(system).get((port["device"], port["port"]), {}).get("active_mtu") if port["state"] == "ACTIVE" else None
    if active and mtu > active - links.IPOIB_HEAD:
        raise RdmaError("set MTU %s on the ib port" % mtu, where, "the fabric's MTU on this port is %d, and IPoIB has %d less" % (active, links.IPOIB_HEAD),
                        "use %d, or give the subnet manager's partition an MTU of 4096" % (active - links.IPOIB_HEAD), code="MTU")


def observe_file(guest, role, options, all_ports, devices, backend):
    """The same where a file of another back end keeps the configuration."""
    system = guest.system
    port, mtu, address = rdma.choose(all_ports, role, options.get("guid", ""), options.get("mac", ""), guest.host), options.get("mtu"), options.get("address")
    addresses_now, file, text = devices.get(port["netdev"], {}).get("addresses", []), None, None
    if address or mtu:
        if not port["netdev"]:
            raise RdmaError("configure the %s port" % role, "%s, %s" % (guest.host, rdma.describe(port)), "the port has no network device",
                            "load the driver of the network device (ib_ipoib for InfiniBand)", code="NO_NETDEV")
        file = backends.configuration(system, backend, role, port, options["profile"], address or "", mtu)
        text = system.read(file["path"], "")
        if addresses_now and not address and not text:
            raise RdmaError("set the MTU of the %s port" % role, "%s, %s" % (guest.host, rdma.describe(port)),
                            "it has the address %s, which a configuration with an MTU alone would take away" % ", ".join(addresses_now),
                            "give the address too", code="ADDRESS")
    return dict(role=role, port=port, found=dict(profile=None, mode=None, addresses=addresses_now, text=text),
                wanted=dict(profile=None, address=address or "", mtu=mtu, path="", file=file))


def plan(guest, changes, wanted, backend):
    """Observe all ports, refuse what cannot be, and put the differences into changes."""
    try:
        views, devices = observe_all(guest, wanted, backend)
    except RdmaError as err:
        if not guest.check_mode or err.code not in ("NO_DEVICE", "LINK_TYPE", "NO_NETDEV"):
            raise
        # In check mode the driver or the firmware of an earlier stage may not be there yet: then nobody can tell.
        for role in sorted(wanted):
            changes.add("port %s" % role, "address and MTU", "unknown", wanted[role].get("address") or "ACTIVE", certainty="conditional", reason=err.text())
        return []
    clash = links.clashes(dict((view["role"], (view["wanted"]["address"], view["port"]["netdev"])) for view in views if view["wanted"]["address"]), devices)
    if clash:
        raise RdmaError("give the RDMA ports their addresses", guest.host, "; ".join(clash),
                        "choose a subnet that no other device of the guest uses", code="SUBNET_CLASH")
    for view in views:
        file = view["wanted"].get("file")
        if file and view["found"]["text"] != file["text"]:
            changes.add("port %s" % view["role"], "%s file" % backend, "other content" if view["found"]["text"] else "absent", file["path"],
                        reason="keeps address and MTU over a reboot")
        if view["role"] == "ib":
            check_ipoib(guest, view["port"], view["wanted"]["mtu"], backend)
        view["write"], view["up"] = links.steps(changes, "port %s" % view["role"], view["port"], view["found"], view["wanted"])
        view["findings"], view["qos"] = [], None
        if wanted[view["role"]].get("qos"):
            view["qos"] = plan_qos(guest, changes, view, wanted[view["role"]]["qos"])
    return views


def plan_qos(guest, changes, view, wanted):
    """The RoCE settings that differ and the unit that keeps them; what the device cannot do becomes a finding. None where there is nothing to do."""
    system, port, thing = guest.system, view["port"], "port %s" % view["role"]
    there = any(system.exists(path) for path in (qos.UNIT_PATH, qos.SCRIPT_PATH))
    present = wanted["state"] == "present"
    if not present and not there:
        return None
    if not port["netdev"]:
        raise RdmaError("set the RoCE settings", "%s, %s" % (guest.host, rdma.describe(port)), "the port has no network device", "load its driver",
                        code="NO_NETDEV")
    if not system.find("systemctl"):
        raise RdmaError("keep the RoCE settings", guest.host, "there is no systemd, and the driver forgets them",
                        "leave qos out, and set them by the guest's own init", code="NO_SYSTEMD")
    target = wanted if present else qos.defaults(wanted)
    found = qos.read(system, port, target)
    rows = qos.settings(found, target)
    able = [row for row in rows if "cannot" not in row]
    for why in sorted(set(row["cannot"] for row in rows if "cannot" in row)) if present else []:
        view["findings"].append(dict(
            level="warning", code="DEVICE_CANNOT", thing=rdma.describe(port), hint="RoCE works without, but not lossless",
            text="does not take %s: %s" % (", ".join(row["name"] for row in rows if row.get("cannot") == why), why)))
    todo = [row for row in able if row["before"] != row["after"]]
    for row in todo:
        changes.add(thing, "qos %s" % row["name"], row["before"], row["after"])
    out = dict(target=target, todo=todo, unit=present and bool(able), files={}, rewrite=False, there=there)
    if out["unit"]:
        out["files"] = {qos.SCRIPT_PATH: (qos.script(able, port, found["configfs"]), 0o755), qos.UNIT_PATH: (qos.UNIT_TEXT, 0o644)}
        told = [] if system.link(qos.WANTS) else ["not enabled"]
        told += ["other content" for path, (text, mode) in out["files"].items() if system.read(path, "") != text or system.mode(path) != mode]
        if told:
            out["rewrite"] = True
            changes.add(thing, "qos unit", told[-1] if there else "absent", qos.UNIT_PATH, reason="the driver forgets the settings, and so does a reboot")
    elif there:
        changes.add(thing, "qos unit", qos.UNIT_PATH, "absent")
    return out


def apply_qos(guest, view):
    """The settings now, and the unit for the next boot; all of them are read again."""
    system, port, plan_of = guest.system, view["port"], view["qos"]
    qos.do(system, port, plan_of["todo"])
    left = ["%s is %s and not %s" % (row["name"], row["before"], row["after"])
            for row in qos.settings(qos.read(system, port, plan_of["target"]), plan_of["target"]) if "cannot" not in row and row["before"] != row["after"]]
    if left:
        raise RdmaError("set the RoCE settings", "%s, %s" % (guest.host, rdma.describe(port)), "afterwards %s" % "; ".join(left),
                        "see dmesg; the card's firmware may keep the setting to itself (DCBX)", code="QOS")
    if plan_of["rewrite"]:
        for path, (text, mode) in plan_of["files"].items():
            system.write(path, text, mode=mode)
        systemctl(guest, "daemon-reload")
        systemctl(guest, "enable", qos.UNIT)
    elif plan_of["there"] and not plan_of["unit"]:
        systemctl(guest, "disable", "--now", qos.UNIT)
        for path in (qos.UNIT_PATH, qos.SCRIPT_PATH):
            system.remove(path)
        systemctl(guest, "daemon-reload")


def systemctl(guest, *argv):
    """Run systemctl; its own words on failure."""
    code, out, err = guest.system.run(["systemctl"] + list(argv), timeout=120)
    if code:
        raise RdmaError("run systemctl %s" % " ".join(argv), guest.host, (err or out).strip()[-300:], "see systemctl status %s" % qos.UNIT, code="SYSTEMCTL")


def nmcli(guest, *argv):
    """Run nmcli; its own words on failure."""
    code, out, err = guest.system.run(["nmcli"] + list(argv), timeout=guest.params["timeout"] + 30)
    if code:
        raise RdmaError("run nmcli %s" % " ".join(argv), guest.host, (err or out).strip(),
                        "see whether NetworkManager runs (systemctl status NetworkManager)", code="NMCLI")
    return out


def apply_files(guest, views, backend):
    """Write the files of another back end than NetworkManager and make them current."""
    turn = []
    for view in views:
        file = view["wanted"]["file"]
        if file and (view["found"]["text"] != file["text"] or view["up"]):
            guest.system.write(file["path"], file["text"], mode=file["mode"])
            turn.append(view["port"]["netdev"])
    for argv, must in backends.commands(backend, turn) if turn else []:
        code, out, err = guest.system.run(argv, timeout=guest.params["timeout"] + 60)
        if code and must:
            raise RdmaError("run %s" % " ".join(argv), guest.host, (err or out).strip()[-500:], "see what %s says of its files" % backend, code="BACKEND")


def apply(guest, views, backend):
    """Write the profiles and bring them up."""
    if backend != "networkmanager":
        apply_files(guest, views, backend)
        return
    for view in views:
        if view["write"]:
            merged, dummy = links.merge_profile(view["found"]["profile"] or {}, view["wanted"]["profile"])
            guest.system.write(view["wanted"]["path"], links.profile_text(merged), mode=0o600)
    if any(view["write"] for view in views):
        nmcli(guest, "connection", "reload")
    for view in views:
        if view["up"]:
            try:
                nmcli(guest, "--wait", str(guest.params["timeout"]), "connection", "up", "uuid", view["wanted"]["profile"]["connection.uuid"])
            except RdmaError as err:
                # NetworkManager sees a port without a carrier; the port itself says why.
                faults = [fault for port in rdma.read(guest.system) if port["guid"] == view["port"]["guid"] for fault in rdma.findings(port)]
                if not faults:
                    raise
                raise RdmaError("bring the %s port up" % view["role"], guest.host, "; ".join(
                    "%s: %s" % (fault["thing"], fault["text"]) for fault in faults) + " (%s)" % err.why, faults[0]["hint"], code=faults[0]["code"])


def settle(guest, wanted):
    """Wait until every port is ACTIVE and holds what was asked; returns the ports. Fails with all reasons at once."""
    deadline = time.time() + guest.params["timeout"]
    while True:
        all_ports, devices, faults, out = rdma.read(guest.system), addresses(guest.system), [], []
        for role in sorted(wanted):
            options = wanted[role]
            port = rdma.choose(all_ports, role, options.get("guid", ""), options.get("mac", ""), guest.host)
            found = devices.get(port["netdev"], {}).get("addresses", [])
            index = rdma.gid_index(port, options.get("address", "")) if role == "roce" else None
            out.append(dict(rdma.public(port), addresses=found, gid_index=index))
            if guest.params["state"] == "active":
                faults += rdma.findings(port)
            missing = []
            if options.get("address") and options["address"] not in found:
                missing.append("address %s" % options["address"])
            if options.get("mtu") and port["mtu"] != options["mtu"]:
                missing.append("MTU %s (it is %s)" % (options["mtu"], port["mtu"]))
            if role == "roce" and options.get("address") and index is None:
                missing.append("a RoCE v2 GID for %s" % options["address"])
            if missing:
                faults.append(dict(code="NOT_SET", thing=rdma.describe(port), text="does not have %s" % " and ".join(missing),
                                   hint="see what else configures the device (nmcli device show %s)" % port["netdev"]))
        if not faults:
            return out
        if time.time() >= deadline:
            raise RdmaError("bring the RDMA ports up", guest.host, "; ".join("%s: %s" % (fault["thing"], fault["text"]) for fault in faults),
                            "; ".join(sorted(set(fault["hint"] for fault in faults))), code=faults[0]["code"], data=dict(ports=out, findings=faults))
        time.sleep(0.25)


def work(guest):
    changes = Changes("guest")
    wanted = wanted_ports(guest)
    backend = backends.choose(guest.system, guest.params.get("backend") or "auto")
    views = plan(guest, changes, wanted, backend)
    if guest.check_mode:
        return changes.result(backend=backend, findings=[one for view in views for one in view["findings"]], ports=[dict(
            rdma.public(view["port"]), addresses=view["found"]["addresses"],
            gid_index=rdma.gid_index(view["port"], view["wanted"]["address"]) if view["role"] == "roce" else None) for view in views])
    apply(guest, views, backend)
    for view in views:
        if view["qos"]:
            apply_qos(guest, view)
    return changes.result(backend=backend, ports=settle(guest, wanted), findings=[one for view in views for one in view["findings"]])


def main():
    wrapper.run(SPEC, work)


if __name__ == "__main__":
    main()
