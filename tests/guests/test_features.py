# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guest can be asked for beside its address: RoCE settings, firewall, memlock of services, the vendor's repository. On a real guest, rebooted once."""

from __future__ import annotations

import json
import re
import sys

import pytest

# Whoever may come in to a port that nobody listens on is refused by the guest itself, at once; the firewall says nothing.
PROBE = """python3 -c '
import socket
s = socket.socket()
s.settimeout(4)
try:
    s.connect(("%s", 18515))
    print("open")
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("silent")'"""
RULES = """#!/usr/sbin/nft -f
flush ruleset
table inet filter {
    chain input {
        type filter hook input priority 0; policy drop;
        ct state established,related accept
        iif lo accept
        tcp dport 22 accept
    }
}
"""


def names(result: dict) -> list[str]:
    assert not result.get("failed"), result
    return [step["name"] for step in result["changes"]]


def each(site, guest, *calls) -> list[dict]:
    """Modules on one guest in one run, which is much faster than a run each: (name, options) or (name, options, check mode)."""
    out = site.directory / "each.json"
    out.unlink(missing_ok=True)
    tasks = [{"vhpc.rdma." + call[0]: call[1], "register": "found_%d" % number, "ignore_errors": True, "check_mode": len(call) > 2}
             for number, call in enumerate(calls)]
    tasks.append({"ansible.builtin.copy": {"content": "{{ [%s] | to_json }}" % ", ".join("found_%d" % number for number in range(len(calls))),
                                           "dest": str(out), "mode": "0600"},
                  "delegate_to": "localhost", "vars": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}})
    run = site.play(json.dumps([{"hosts": guest.name, "gather_facts": False, "tasks": tasks}], indent=1))
    assert out.exists(), run.log[-3000:]
    return json.loads(out.read_text())


class Asked:
    """One guest with all of it set, kept over a reboot, and taken back: what each run came to, and what the guest said in between."""

    def __init__(self, site) -> None:
        self.site, self.guest, self.other = site, site.guests[0], site.guests[1]
        wall = ("ofed_guest", dict(provider="inbox", firewall=dict(state="open")))
        link = ("rdma_link", self.link())
        self.guest.run("cp /etc/nftables.conf /root/nftables.conf; cat > /etc/nftables.conf << 'E'\n%sE\n"
                       "systemctl enable nftables && systemctl restart nftables" % RULES)
        self.rules, self.seen = self.guest.run("nft list ruleset").stdout, [self.probe()]
        before, self.wall_planned, self.link_planned, self.wall_first, self.link_first = each(
            site, self.guest, ("ofed_guest", dict(provider="inbox")), wall + (True,), link + (True,), wall, link)
        assert not before.get("failed"), before
        self.tos = [self.values()]
        self.seen.append(self.probe())
        self.guest.reboot()
        self.guest.run("for n in $(seq 60); do systemctl is-active -q vhpc-rdma-qos && break; sleep 1; done")
        self.tos.append(self.values())
        self.active = self.guest.run("systemctl is-enabled vhpc-rdma-qos; systemctl is-active vhpc-rdma-qos", check=False).stdout.split()
        self.tos.append(self.values("echo 0 > {0}/ports/1/default_roce_tos; "))
        self.guest.run("systemctl restart vhpc-rdma-qos")
        self.tos.append(self.values())
        self.wall_second, self.link_second, self.info = each(site, self.guest, wall, link, ("rdma_info", {}))
        self.seen.append(self.probe())
        self.link_back, self.wall_back = each(site, self.guest, ("rdma_link", self.link(state="absent")),
                                              ("ofed_guest", dict(provider="inbox", firewall=dict(state="closed"))))
        self.tos.append(self.values())
        self.seen.append(self.probe())

    def link(self, **more) -> dict:
        return dict(roce=dict(address=self.guest.address + "/24", qos=dict(dict(priority=3, dscp=26), **more)), timeout=120)

    def values(self, before: str = "") -> list[str]:
        """RoCE mode and type of service, as the kernel has them now."""
        return self.guest.run(("mkdir -p {0}; " + before + "cat {0}/ports/1/default_roce_mode {0}/ports/1/default_roce_tos; rmdir {0}").format(
            "/sys/kernel/config/rdma_cm/rxe0")).stdout.splitlines()

    def probe(self) -> str:
        """What the other guest sees of perftest's port, on which nobody listens."""
        return self.other.run(PROBE % self.guest.office).stdout.strip()


@pytest.fixture(scope="module")
def asked(prepared):
    made = Asked(prepared)
    yield made
    made.guest.run("mv /root/nftables.conf /etc/nftables.conf; systemctl restart nftables")


def test_roce_settings_are_what_the_kernel_then_says(asked):
    assert [name for name in names(asked.link_planned) if "qos" in name] == [name for name in names(asked.link_first) if "qos" in name]
    assert "qos type of service" in names(asked.link_first) and "qos unit" in names(asked.link_first)
    assert asked.tos[0] == ["RoCE v2", "106"]


def test_what_a_software_port_cannot_do_is_said_and_no_failure(asked):
    found = {one["text"].split(":")[0]: one for one in asked.link_first["findings"]}
    assert {one["code"] for one in found.values()} == {"DEVICE_CANNOT"}
    assert "not supported" in found["does not take trust, PFC"]["text"] and "switch" in found["does not take ECN"]["text"]
    assert asked.link_second["findings"] == asked.link_first["findings"]


def test_after_the_reboot_the_unit_has_set_them_and_nothing_is_left_to_do(asked):
    assert asked.tos[1] == ["RoCE v2", "106"] and asked.active == ["enabled", "active"] and names(asked.link_second) == []


def test_the_unit_sets_again_what_the_driver_forgot(asked):
    assert asked.tos[2] == ["RoCE v2", "0"] and asked.tos[3] == ["RoCE v2", "106"]


def test_settings_are_taken_back(asked):
    assert names(asked.link_back) == ["qos type of service", "qos unit"] and asked.tos[4] == ["RoCE v2", "0"]
    assert asked.guest.run("ls /etc/systemd/system/vhpc-rdma-qos.service /usr/local/sbin/vhpc-rdma-qos", check=False).stdout == ""


def test_perftests_ports_are_opened_over_a_reboot_and_closed_again(asked):
    assert names(asked.wall_planned) == names(asked.wall_first) == names(asked.wall_back) == ["TCP 18514-18515"] and names(asked.wall_second) == []
    assert asked.wall_first["firewall"] == dict(kind="nftables", ports=["18514-18515"])
    assert asked.seen == ["silent", "refused", "refused", "silent"]
    assert asked.guest.run("nft list ruleset; cat /etc/nftables.conf").stdout == asked.rules + RULES


def test_services_may_lock_memory_too(asked):
    assert asked.guest.run("systemctl show -p DefaultLimitMEMLOCK").stdout.strip() == "DefaultLimitMEMLOCK=infinity"
    assert asked.guest.run("systemd-run --quiet --pipe --wait sh -c 'ulimit -l'").stdout.strip() == "unlimited"


def test_rdma_info_says_what_sysfs_and_the_tools_say(asked):
    guest, port = asked.guest, asked.info["ports"][0]
    base = "/sys/class/infiniband/%s/" % port["device"]
    state, physical, rate, layer, guid, firmware = guest.run("cd %s; cat ports/1/state ports/1/phys_state ports/1/rate ports/1/link_layer node_guid; "
                                                             "cat fw_ver 2>/dev/null || echo" % base).stdout.split("\n")[:6]
    assert (state, physical) == ("4: " + port["state"], "5: " + port["phys_state"])
    assert (rate, layer, guid.replace(":", ""), firmware) == (port["rate"], port["link_layer"], port["guid"], port["firmware"])
    row = "gids/{0} gid_attrs/types/{0} gid_attrs/ndevs/{0}".format(port["gid_index"])
    assert guest.run("cd %sports/1; cat %s" % (base, row)).stdout.split("\n")[1:3] == ["RoCE v2", port["netdev"]]
    net = guest.run("cd /sys/class/net/%s; cat mtu address" % port["netdev"]).stdout.split()
    assert net == [str(port["mtu"]), port["mac"]]
    verbs = guest.run("ibv_devinfo -v -d %s" % port["device"]).stdout
    assert [int(re.search(r"%s_mtu:\s+(\d+)" % kind, verbs).group(1)) for kind in ("max", "active")] == [port["max_mtu"], port["active_mtu"]]
    stat = guest.run("ibstat %s 1" % port["device"], check=False).stdout
    assert re.search(r"Physical state:\s+LinkUp", stat) and re.search(r"Base lid:\s+%d\b" % port["lid"], stat), stat
    assert float(re.search(r"Rate:\s+(\S+)", stat).group(1)) == pytest.approx(port["rate_gbps"], abs=0.51), stat


# ---- a repository that is ours, with packages as the vendor has them ----------------------------------------------------------------

BUILD = r"""set -e
cd $(mktemp -d)
package() {
    mkdir -p $1-$2/DEBIAN
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: tests\nDescription: a test\n' $1 $2 > $1-$2/DEBIAN/control
}
place=/usr/share/doca-host/repository
package doca-host 3.2.1-044000-25.10
mkdir -p doca-host-3.2.1-044000-25.10$place doca-host-3.2.1-044000-25.10/etc/apt/sources.list.d
echo "deb [trusted=yes] file:$place ./" > doca-host-3.2.1-044000-25.10/etc/apt/sources.list.d/doca.list
for version in 3.2.1-044000 3.3.0-050000; do
    package doca-ofed $version
    dpkg-deb -b doca-ofed-$version doca-host-3.2.1-044000-25.10$place/doca-ofed_$version.deb > /dev/null
done
(cd doca-host-3.2.1-044000-25.10$place; for file in *.deb; do dpkg-deb -f $file
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $file $(stat -c %s $file) $(sha256sum $file | cut -d' ' -f1); done > Packages)
dpkg-deb -b doca-host-3.2.1-044000-25.10 /root/doca-host.deb > /dev/null
"""


def test_what_is_refused_and_what_the_repository_gives(asked):
    guest = asked.guest
    guest.run("printf 'flush ruleset\\n' > /etc/nftables.conf\n" + BUILD)

    def doca(version: str, *check) -> tuple:
        return ("ofed_guest", dict(provider="doca", source="/root/doca-host.deb", reload="none", version=version)) + check

    try:
        refused, planned, first, again, other, missing = each(
            asked.site, guest, ("ofed_guest", dict(provider="inbox", firewall=dict(state="open"))), doca("3.2.1", True), doca("3.2.1"), doca("3.2.1-044000"),
            doca("3.3.0-050000"), doca("9.9"))
        # The rules that run are in no file: one more would be gone after the reboot.
        assert refused["failed"] and "does not load" in refused["msg"], refused
        assert guest.run("cat /etc/nftables.conf; nft list ruleset").stdout == "flush ruleset\n" + asked.rules
        assert names(planned) == names(first) == ["doca-host", "doca-ofed"] and names(again) == []
        assert (first["ofed"]["provider"], first["ofed"]["version"]) == ("doca", "3.2.1-044000")
        assert [(step["before"], step["after"]) for step in other["changes"]] == [("3.2.1-044000", "3.3.0-050000")]
        assert guest.run("dpkg-query -W -f '${Version}' doca-ofed").stdout == "3.3.0-050000"
        assert missing["failed"] and missing["error"]["code"] == "PACKAGES" and "9.9" in missing["msg"]
    finally:
        guest.run("dpkg -P doca-ofed doca-host; rm -f /root/doca-host.deb; apt-get -q update", check=False)
