# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small guest in a directory: sysfs of an InfiniBand and a RoCE port, and programs that keep their state in files."""

import json
import sys

from ansible_collections.vhpc.rdma.plugins.module_utils.guest import Guest

IB_GUID, ROCE_MAC = "0c42a10300d30008", "0c:42:a1:d3:00:09"
IPOIB_MAC = "00:00:10:29:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:d3:00:08"

IP = """#!{python} -IS
import json, pathlib, sys
root = pathlib.Path(__file__).resolve().parents[2]
state = json.loads((root / "state.json").read_text())
rows = []
for name, dev in state["net"].items():
    local = [dict(family="inet", local=a.split("/")[0], prefixlen=int(a.split("/")[1])) for a in dev["addresses"]]
    rows.append(dict(ifname=name, mtu=dev["mtu"], flags=["UP"] + (["LOOPBACK"] if name == "lo" else []), address="", addr_info=local))
print(json.dumps(rows))
"""

# What NetworkManager does with a keyfile that is bound to a MAC: it is read on reload and applied on up.
NMCLI = """#!{python} -IS
import configparser, json, pathlib, re, sys
root = pathlib.Path(__file__).resolve().parents[2]
path = root / "state.json"
state = json.loads(path.read_text())
with open(root / "nmcli.log", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
profiles = {{}}
for file in (root / "etc/NetworkManager/system-connections").glob("*"):
    if file.stat().st_mode & 0o77 == 0:
        keys = configparser.RawConfigParser(delimiters=("=",))
        keys.read(file)
        profiles[keys["connection"]["uuid"]] = keys
if sys.argv[1:] == ["connection", "reload"]:
    state["read"] = sorted(profiles)
elif "up" in sys.argv:
    uuid = sys.argv[-1]
    if uuid not in state.get("read", []):
        sys.exit("Error: unknown connection '%s'." % uuid)
    keys = profiles[uuid]
    section = keys["connection"]["type"]
    mac = keys[section]["mac-address"].lower()
    for name in state["net"]:
        net = root / "sys/class/net" / name
        if (net / "address").exists() and (net / "address").read_text().strip() == mac:
            if keys["ipv4"]["method"] == "manual":
                state["net"][name]["addresses"] = [keys["ipv4"]["address1"]]
            mtu = keys[section].get("mtu")
            if mtu:
                state["net"][name]["mtu"] = int(mtu)
                (net / "mtu").write_text(mtu + "\\n")
            device = root / "sys/class/infiniband/mlx5_1/ports/1"
            if section == "ethernet" and keys["ipv4"]["method"] == "manual":
                parts = [int(part) for part in keys["ipv4"]["address1"].split("/")[0].split(".")]
                gid = "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(parts)
                for index, kind in ((2, "IB/RoCE v1"), (3, "RoCE v2")):
                    (device / ("gids/%d" % index)).write_text(gid + "\\n")
                    (device / ("gid_attrs/types/%d" % index)).write_text(kind + "\\n")
                    (device / ("gid_attrs/ndevs/%d" % index)).write_text(name + "\\n")
path.write_text(json.dumps(state))
"""


class Tree:
    """The guest's root and what tests change in it."""

    def __init__(self, root, name="vm01"):
        self.root = root
        for folder in ("usr/bin", "usr/sbin", "etc/NetworkManager/system-connections", "etc/security/limits.d", "etc/init.d", "tmp", "var/tmp", "root",
                       "sys/class/net"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "etc/hostname").write_text(name + "\n")
        self.state = {"net": {"lo": dict(addresses=["127.0.0.1/8"], mtu=65536), "ens192": dict(addresses=["192.0.2.11/24"], mtu=1500)}}
        self.save()
        self.program("ip", IP.format(python=sys.executable))
        self.program("nmcli", NMCLI.format(python=sys.executable))

    def save(self):
        (self.root / "state.json").write_text(json.dumps(self.state))

    def load(self):
        self.state = json.loads((self.root / "state.json").read_text())
        return self.state

    def program(self, name, text, folder="usr/bin"):
        path = self.root / folder / name
        path.write_text(text if text.startswith("#!") else "#!/bin/sh\n" + text)
        path.chmod(0o755)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def port(self, device, layer, netdev, mac, state="4: ACTIVE", phys="5: LinkUp", gids=(), guid=IB_GUID, mtu=1500, sm_lid="0x0", place=0):
        """One RDMA device with one port and its network device."""
        top, net = "sys/class/infiniband/%s" % device, "sys/class/net/%s" % netdev
        values = {top + "/node_guid": guid, top + "/fw_ver": "16.32.1010", top + "/board_id": "MT_0000000008", top + "/ports/1/link_layer": layer,
                  top + "/ports/1/state": state, top + "/ports/1/phys_state": phys, top + "/ports/1/rate": "100 Gb/sec (4X EDR)", top + "/ports/1/lid": "0x14",
                  top + "/ports/1/sm_lid": sm_lid, net + "/address": mac, net + "/mtu": str(mtu), net + "/flags": "0x1003",
                  top + "/device/net/%s/dev_port" % netdev: str(place), top + "/device/numa_node": "-1"}
        for index, gid, kind in gids:
            values["%s/ports/1/gids/%d" % (top, index)] = gid
            values["%s/ports/1/gid_attrs/types/%d" % (top, index)] = kind
            values["%s/ports/1/gid_attrs/ndevs/%d" % (top, index)] = netdev if layer == "Ethernet" else ""
        for name, text in values.items():
            self.write(name, text)
        self.state["net"].setdefault(netdev, dict(addresses=[], mtu=mtu))
        self.save()

    def card(self):
        """Both ports of the paper's card: InfiniBand first, RoCE second."""
        self.port("mlx5_0", "InfiniBand", "ib0", IPOIB_MAC, gids=[(0, "fe80:0000:0000:0000:0c42:a103:00d3:0008", "IB/RoCE v1")], mtu=4092, sm_lid="0x1")
        local = "fe80:0000:0000:0000:0e42:a1ff:fed3:0009"
        empty = "0000:0000:0000:0000:0000:0000:0000:0000"
        self.port("mlx5_1", "Ethernet", "ens256f1", ROCE_MAC, guid="0c42:a103:00d3:0009",
                  gids=[(0, local, "IB/RoCE v1"), (1, local, "RoCE v2"), (2, empty, ""), (3, empty, "")])

    def guest(self, check=False, **params):
        return Guest(dict(params, root=str(self.root)), check)
