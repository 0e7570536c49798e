# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cluster files of vhpc_toolkit: macros, ranges, and nothing lost without a word."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import toolkit

FILE = """
# sixteen nodes
[BASE]
template: golden image 8
datacenter: lab
datastore: nfs-1
linked: no
cpu: 44
cores_per_socket: 22
memory: 144

[LATENCY]
latency: High
cpu_reservation: True
memory_reservation: yes
[NET]
port_group: mgmt
is_dhcp: false
netmask: 255.255.255.0
dns: ['10.0.0.2', '10.0.0.3']
guest_password: hunter2
[CARD]
device: ['0000:3B:00.0', '0000:3B:00.1']
[ALL]
BASE LATENCY
[_DVS_]
hpc-dvs: pnic: vmnic2 port_group: pg host: esx-{01:04}
[_VMS_]
node{001:004}: ALL NET CARD ip: 10.1.0.{11:14} host: esx-0{1:4}.example.org power: off
big: BASE memory: 320 cpu_reservation: no host: esx-09.example.org vgpu: grid_a100-4c guest_username: hpc script: a.sh
lonely: BASE
"""


def test_hosts_and_vms_in_pairs():
    inventory, dummy = toolkit.convert(FILE)
    esxi, guests = (inventory["all"]["children"][name] for name in ("esxi", "guests"))
    assert list(guests["hosts"]) == ["node001", "node002", "node003", "node004", "big", "lonely"]
    host = dict(esxi["vars"], **esxi["hosts"]["esx-03.example.org"])
    assert host == dict(ansible_python_interpreter="none", vhpc_vm="node003", vsphere_cpus=44, vsphere_cores_per_socket=22, vsphere_memory_mb=147456,
                        vsphere_latency="high", vsphere_reserve_cpu=True, vsphere_reserve_memory=True, vsphere_devices=["0000:3B:00.0", "0000:3B:00.1"],
                        vsphere_vm_state="present")
    vm = dict(guests.get("vars", {}), **guests["hosts"]["node003"])
    assert vm["ansible_host"] == "10.1.0.13" and vm["vhpc_host"] == "esx-03.example.org"
    assert vm["vhpc_clone"] == dict(template="golden image 8", datastore="nfs-1", linked=False, network="mgmt")
    big = dict(esxi["vars"], **esxi["hosts"]["esx-09.example.org"])
    assert big["vsphere_memory_mb"] == 320 * 1024 and big["vsphere_reserve_cpu"] is False and "vsphere_latency" not in big
    assert dict(guests.get("vars", {}), **guests["hosts"]["big"])["ansible_user"] == "hpc"


def test_what_is_left_is_said_and_no_secret_is_copied():
    inventory, left = toolkit.convert(FILE)
    rows = {row["key"]: row for row in left}
    for key in ("datacenter", "is_dhcp", "netmask", "dns", "guest_password", "vgpu", "script", "dvs", "host"):
        assert rows[key]["reason"] and rows[key]["where"], key
    assert rows["host"]["where"] == ["lonely"] and rows["netmask"]["reason"] == toolkit.NO_DOMAIN
    assert rows["netmask"]["where"] == ["node001", "node002", "node003", "node004"]
    text = toolkit.document(inventory, left, "x.conf")
    assert "hunter2" not in text + str(left) and "#   vgpu (big): vGPU" in text and "and 1 more" in text
    assert yaml.safe_load(text) == inventory


GUEST = "[_VMS_]\nn{1:2}: template: gold port_group: mgmt %s ip: 10.1.0.{11:12} host: e{1:2}\n"


@pytest.mark.parametrize("words,clone,left", [
    ("domain: hpc.org guest_hostname: node-{1:2} netmask: 255.255.0.0 gateway: ['10.1.0.1'] dns: ['10.0.0.2', '10.0.0.3'] is_dhcp: false",
     dict(guest_domain="hpc.org", guest_hostname="node-2", guest_address="10.1.0.12/16", guest_gateway="10.1.0.1", guest_dns=["10.0.0.2", "10.0.0.3"]), {}),
    ("domain: a netmask: 255.255.0.0 gateway: 10.1.0.1 is_dhcp: yes", dict(guest_domain="a"), dict(netmask=toolkit.BY_DHCP, gateway=toolkit.BY_DHCP)),
    ("domain: a gateway: 10.1.0.1", dict(guest_domain="a"), dict(gateway=toolkit.BY_DHCP)),
    ("netmask: 255.255.0.0", {}, dict(netmask=toolkit.NO_DOMAIN))])
def test_the_guest_of_a_clone_gets_its_name_and_address(words, clone, left):
    inventory, rows = toolkit.convert(GUEST % words)
    guests = inventory["all"]["children"]["guests"]
    vm = dict(guests.get("vars", {}), **guests["hosts"]["n2"])
    assert vm["vhpc_clone"] == dict(clone, template="gold", network="mgmt") and vm["ansible_host"] == "10.1.0.12"
    assert {row["key"]: row["reason"] for row in rows} == left
    assert {row["reason"] for row in toolkit.convert(GUEST.replace("template: gold ", "") % words)[1]} == {toolkit.NO_TEMPLATE}


@pytest.mark.parametrize("text,count,values", [
    ("esx-0{2:3}.org", 4, ["esx-02.org", "esx-03.org", "esx-02.org", "esx-03.org"]),
    ("esx-0{{2:3}}.org", 4, ["esx-02.org", "esx-02.org", "esx-03.org", "esx-03.org"]),
    ("10.0.0.{9:11}", 3, ["10.0.0.9", "10.0.0.10", "10.0.0.11"]), ("n{08:10}", None, ["n08", "n09", "n10"]), ("plain", 2, ["plain", "plain"])])
def test_ranges(text, count, values):
    assert toolkit.expand(text, count) == values


def test_two_vms_on_a_host_are_told():
    inventory, left = toolkit.convert("[B]\ncpu: 8\n[_VMS_]\nv{1:4}: B host: e{{1:2}}\n")
    assert all("vhpc_vm" not in (row or {}) for row in inventory["all"]["children"]["esxi"]["hosts"].values())
    assert [row["where"] for row in left if row["key"] == "vhpc_vm"] == [["e1", "e2"]]


@pytest.mark.parametrize("text,words", [
    ("cpu: 4\n", "in no section"), ("[_VMS_]\na: NOPE\n", "names the section NOPE"), ("[_VMS_]\na{1:2}: ip: 10.0.0.{1:5}\n", "5 values, there are 2 VMs"),
    ("[A]\nB\n[B]\nA\n[_VMS_]\nv: A\n", "contains itself"), ("[_VMS_]\nv: cpu: four\n", "cpu is 'four'"), ("[_VMS_]\nv{b:a}: cpu: 4\n", "no range of numbers"),
    ("[_VMS_]\njust words\n", "no name with a colon"), ("[A]\ncpu:4\n", "no space behind its colon"),
    ("[_VMS_]\nv: template: g domain: a ip: 10.0.0.1 netmask: 255.0.255.0\n", "line 2, VM v")])
def test_broken_files(text, words):
    with pytest.raises(ParseError) as err:
        toolkit.convert(text)
    assert words in str(err.value)
