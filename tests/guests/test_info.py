# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""rdma_info and ofed_guest against what the tools of a real guest say by hand."""

from __future__ import annotations

import json
import re


def test_rdma_info_says_what_the_tools_say(road, site):
    guest = site.guests[0]
    found = site.module("rdma_info", guest)
    assert len(found["ports"]) == 1, found
    port = found["ports"][0]
    link = json.loads(guest.run("rdma -j link").stdout)[0]
    assert (port["device"], port["port"], port["state"], port["netdev"]) == (link["ifname"], link["port"], link["state"], link["netdev"])
    devinfo = guest.run("ibv_devinfo -v -d %s" % port["device"]).stdout
    assert port["link_layer"] == re.search(r"link_layer:\s+(\S+)", devinfo).group(1) == "Ethernet"
    assert port["active_mtu"] == int(re.search(r"active_mtu:\s+(\d+)", devinfo).group(1)) == 4096
    assert re.search(r"node_guid:\s+(\S+)", devinfo).group(1).replace(":", "") == port["guid"]
    gids = dict(re.findall(r"GID\[\s*(\d+)\]:\s+(\S+?),? ", devinfo + " "))
    assert "::ffff:%s" % guest.address in gids[str(port["gid_index"])] or guest.address in gids[str(port["gid_index"])], gids
    device = json.loads(guest.run("ip -j addr show dev %s" % port["netdev"]).stdout)[0]
    assert (port["mtu"], port["mac"]) == (device["mtu"], device["address"])
    assert port["addresses"] == ["%s/%s" % (one["local"], one["prefixlen"]) for one in device["addr_info"] if one["family"] == "inet"]
    stat = guest.run("ibstat %s 1" % port["device"], check=False).stdout
    assert re.search(r"State:\s+Active", stat) and re.search(r"Link layer:\s+Ethernet", stat), stat
    assert found["kernel"] == guest.run("uname -r").stdout.strip()
    assert [one for one in found["findings"] if one["level"] == "error"] == []


def test_the_modules_are_the_running_kernels_own(road, site):
    for result in site.module("ofed_guest", provider="inbox").values():
        assert result["changed"] is False, result
        assert result["ofed"]["provider"] == "inbox" and result["ofed"]["loaded"] is True
        assert result["ofed"]["version"] == site.guests[0].run("dpkg-query -W -f '${Version}' rdma-core").stdout.split(":")[-1]


def test_a_version_that_the_distribution_does_not_have_is_refused(road, site):
    result = site.module("ofed_guest", site.guests[0], provider="inbox", version="99.0")
    assert result["failed"] and result["error"]["code"] == "VERSION" and "99.0" in result["msg"]


def test_the_kernels_rdma_counters_move_while_perftest_runs(road, site):
    one, two = site.guests
    read = "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"
    before = int(one.run(read).stdout)
    two.run("timeout 60 ib_send_bw -d rxe0 -n 5 > /dev/null 2>&1 < /dev/null & for n in $(seq 100); do [ -n \"$(ss -Hltn sport = :18515)\" ] && break; "
            "sleep 0.1; done")
    one.run("timeout 60 ib_send_bw -d rxe0 -n 5 %s" % two.office)
    assert int(one.run(read).stdout) - before >= 5 * 65536 / 4096
