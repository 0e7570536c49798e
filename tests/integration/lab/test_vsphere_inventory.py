# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory plugin through ansible-inventory, whose return code is 0 even when a plugin fails: what it says is what counts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from lab.site import build
from lab.vsphere.__main__ import certificate
from lab.vsphere.server import VsphereFace


def tool(name: str, *words: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, os.path.join(os.path.dirname(sys.executable), name), *words], capture_output=True, text=True, timeout=240,
                          check=False, env=dict(os.environ, ANSIBLE_LOCALHOST_WARNING="false", LC_ALL="C.UTF-8", NO_COLOR="1", COLUMNS="1000", **env))


def listed(tmp_path, content: dict, **env: str) -> tuple[dict, str]:
    path = tmp_path / "cluster.yml"
    path.write_text(yaml.safe_dump(dict(content, plugin="vhpc.rdma.cluster")))
    done = tool("ansible-inventory", "-i", str(path), "--list", **env)
    # Text that came from outside, or was put together from it, is marked as no template.
    return json.loads(done.stdout or "{}", object_hook=lambda one: one["__ansible_unsafe"] if set(one) == {"__ansible_unsafe"} else one), \
        " ".join(re.sub(r"(?<=-)\n", "", done.stderr).split())  # ansible-core 2.16 folds warnings


PAIRS = dict(nodes=[dict(esxi="esxi-[01:16].example.org", vm="vm-[01:16]", role="compute",
                         esxi_vars=dict(vhpc_bmc=dict(baseuri="bmc-[01:16]", username="root")),
                         vm_vars=dict(vhpc_roce_address="192.168.5.[1:16]/24", tags=["n[a:p]", "all"], slice="{{ x[1:3] }}", v6="https://[fe80::1]/")),
                    dict(esxi="spare-[a:b]")], esxi_vars=dict(ansible_user="root"), vcenter=dict(hostname="vc", username="u"))


def test_sixteen_pairs_from_one_entry(tmp_path):
    found, dummy = listed(tmp_path, PAIRS)
    hosts = found["_meta"]["hostvars"]
    assert found["guests"]["hosts"] == ["vm-%02d" % n for n in range(1, 17)] and len(found["esxi"]["hosts"]) == 18
    assert len(found["compute"]["hosts"]) == 32 and "spare-a" in found["esxi"]["hosts"]
    host, vm = hosts["esxi-07.example.org"], hosts["vm-07"]
    assert host["vhpc_vm"] == "vm-07" and vm["vhpc_host"] == "esxi-07.example.org" and "vhpc_vm" not in hosts["spare-b"]
    assert host["vhpc_bmc"] == dict(baseuri="bmc-07", username="root") and host["ansible_user"] == "root" and host["ansible_python_interpreter"] == "none"
    assert vm["vhpc_roce_address"] == "192.168.5.7/24" and vm["tags"] == ["ng", "all"] and vm["slice"] == "{{ x[1:3] }}" and vm["v6"] == "https://[fe80::1]/"
    assert vm["vhpc_vcenter"] == dict(hostname="vc", username="u") and "ansible_python_interpreter" not in vm


@pytest.mark.parametrize("content,words", [
    (dict(nodes=[dict(esxi="e[1:3]", vm="v[1:2]")]), ("node 1", "3 hosts", "2 VMs")),
    (dict(nodes=[dict(vm="v[1:2]", vm_vars=dict(a="192.168.0.[1:4]"))]), ("stands for 4 values", "2 machines")),
    (dict(nodes=[dict(role="compute")]), ("neither esxi nor vm",)), (dict(nodes=[dict(esx="a")]), ("unknown: esx",)),
    (dict(nodes=[dict(esxi="a", role="guests")]), ("the group guests",)), (dict(query=dict(datacenter="a")), ("unknown in query: datacenter",)),
    (dict(query={}), ("hostname",))])
def test_mistakes_are_told(tmp_path, content, words):
    found, said = listed(tmp_path, content)
    assert not found.get("_meta", {}).get("hostvars")
    for word in words:
        assert word in said, said


@pytest.fixture()
def vcenter(tmp_path):
    world = build(4)
    world.vcenter.update(address="127.0.0.1", port=0)
    cert, key = certificate(str(tmp_path))
    face = VsphereFace(world, str(tmp_path), cert, key, strict=True)
    face.start()
    try:
        yield world, face, dict(hostname="127.0.0.1", port=face.port, username=world.vcenter["username"], password="{{ lookup('env', 'LAB_PASSWORD') }}",
                                ca_file=cert)
    finally:
        face.stop()


def test_pairs_from_vcenter(tmp_path, vcenter):
    world, face, login = vcenter
    guest = world.vms["vm02"].guest
    guest.booted, guest.address, world.vms["vm02"].power = True, "10.1.2.3", "on"
    found, said = listed(tmp_path, dict(vcenter=login, query={}), LAB_PASSWORD=world.vcenter["password"])
    hosts = found["_meta"]["hostvars"]
    assert found["esxi"]["hosts"] == ["esxi01", "esxi02", "esxi03", "esxi04"] and found["guests"]["hosts"] == ["vm01", "vm02", "vm03", "vm04"], said
    assert hosts["esxi03"]["vhpc_vm"] == "vm03" and hosts["vm03"]["vhpc_host"] == "esxi03" and hosts["vm02"]["ansible_host"] == "10.1.2.3"
    assert len([line for line in world.journal if "this" in line]) <= 8, "three requests, however many machines"
    assert world.vcenter["password"] not in json.dumps(found) and not face.sessions


def test_a_part_of_vcenter_and_what_the_file_says(tmp_path, vcenter):
    world, dummy, login = vcenter
    world.vms["vm04"].host = "esxi03"
    content = dict(vcenter=login, query=dict(hosts=["ESXI0[23]"], vms=["vm*"], cluster="hpc-cluster", role="lab"),
                   nodes=[dict(esxi="esx-two", vm="vm02", esxi_vars=dict(vhpc_esxi_hostname="esxi02"))])
    found, said = listed(tmp_path, content, LAB_PASSWORD=world.vcenter["password"])
    hosts = found["_meta"]["hostvars"]
    assert sorted(found["esxi"]["hosts"]) == ["esx-two", "esxi03"] and sorted(found["guests"]["hosts"]) == ["vm02", "vm03", "vm04"]
    assert hosts["vm02"]["vhpc_host"] == "esx-two" and hosts["vm04"]["vhpc_host"] == "esxi03" and "vhpc_vm" not in hosts["esxi03"]
    assert "esxi03 has 2 VMs (vm03, vm04)" in said and sorted(found["lab"]["hosts"]) == ["esx-two", "esxi03", "vm02", "vm03", "vm04"]
    dummy, said = listed(tmp_path, dict(content, query=dict(cluster="nope")), LAB_PASSWORD=world.vcenter["password"])
    assert "vCenter has hpc-cluster" in said
    dummy, said = listed(tmp_path, content, LAB_PASSWORD="wrong")
    assert "password is wrong" in said


PLAY = """
- hosts: esxi
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: vhpc.rdma.vsphere
        tasks_from: "{{ item }}"
      loop: [clone, vm]
    - vhpc.rdma.rdma_plan:
        hosts: "{{ ansible_play_hosts_all }}"
      run_once: true
      register: plan_result
    - ansible.builtin.copy:
        content: "{{ plan_result.plan.hosts.esxi02.steps | selectattr('thing', 'equalto', 'vm n2') | map(attribute='name') | to_json }}"
        dest: "{{ playbook_dir }}/plan.json"
        mode: "0600"
      changed_when: false
      run_once: true
      delegate_to: localhost
      vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}
"""


def test_the_inventory_drives_the_role_from_a_template_to_running_vms(tmp_path, vcenter):
    """VMs that are not there are cloned, tuned, given devices by label, and run; the second run changes nothing."""
    world, face, login = vcenter
    gold = world.vms.pop("vm01")
    gold.name, gold.template, gold.host = "gold", True, "esxi04"
    world.vms["gold"] = gold
    for number in (2, 3, 4):
        del world.vms["vm%02d" % number]
    for name in ("esxi01", "esxi02"):
        host = world.hosts[name]
        host.dvs = {}
        for bdf, label in (("0000:3b:00.0", "rdma-ib"), ("0000:3b:00.1", "rdma-roce")):
            host.passthru[bdf].enabled = host.passthru[bdf].active = True
            host.passthru[bdf].label = label
    (tmp_path / "cluster.yml").write_text(yaml.safe_dump(dict(
        plugin="vhpc.rdma.cluster", vcenter=login, nodes=[dict(esxi="esxi[01:02]", vm="n[1:2]", vm_vars=dict(vhpc_clone=dict(
            template="gold", guest_hostname="node-[1:2]", guest_domain="hpc.example.org", guest_address="192.168.9.[1:2]/24")))],
        esxi_vars=dict(vsphere_mode="dynamic", vsphere_memory_mb=65536, vhpc_run_dir=str(tmp_path / "run"),
                       vsphere_devices=[dict(label="rdma-ib"), dict(label="rdma-roce")]))))
    (tmp_path / "play.yml").write_text(PLAY)
    for changed in (True, False):
        done = tool("ansible-playbook", "-i", str(tmp_path / "cluster.yml"), str(tmp_path / "play.yml"), LAB_PASSWORD=world.vcenter["password"])
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("changed=0" not in done.stdout) is changed, done.stdout
        planned = json.loads((tmp_path / "plan.json").read_text())
        assert ({"clone of gold", "guest customization", "vCPUs"} <= set(planned)) is changed, planned
        assert ("no snapshots" in done.stderr) is changed, "what the VM gives up is told when a device is attached"
    for number in (1, 2):
        vm = world.vms["n%d" % number]
        guest = face.vm("n%d" % number).get_guest()
        assert (guest.hostName, guest.ipAddress) == ("node-%d" % number, "192.168.9.%d" % number)
        assert (vm.host, vm.power, vm.cpus, vm.latency) == ("esxi%02d" % number, "on", 44, "high")
        assert [(one.dynamic, one.label, one.bdf) for one in vm.devices] == [(True, "rdma-ib", "0000:3b:00.0"), (True, "rdma-roce", "0000:3b:00.1")]


SECRETS = """
- hosts: localhost
  gather_facts: false
  module_defaults:
    group/vhpc.rdma.vsphere: "{{ login }}"
  tasks:
    - vhpc.rdma.host_pci_info:
        esxi_hostname: esxi01
    - vhpc.rdma.vm_tuning:
        vms: [{name: vm01}, {name: vm02}]
        cpus: 8
    - vhpc.rdma.vm_power:
        name: nobody
      ignore_errors: true
"""


def test_neither_cookie_nor_password_lands_on_disk_or_in_the_output(tmp_path, vcenter):
    """With everything that Ansible can say and log, in a home of its own: one login for each task, gone with it."""
    world, face, login = vcenter
    seen, answer, home = set(), face.answer, tmp_path / "home"
    home.mkdir()

    def watched(body, sid, action):
        seen.add(sid)
        return answer(body, sid, action)

    face.answer = watched
    (tmp_path / "login.json").write_text(json.dumps(dict(login=login)))
    (tmp_path / "play.yml").write_text(SECRETS)
    done = tool("ansible-playbook", "-vvvv", "--diff", "-i", "localhost,", "-c", "local", "-e", "@%s" % (tmp_path / "login.json"), str(tmp_path / "play.yml"),
                LAB_PASSWORD=world.vcenter["password"], HOME=str(home), ANSIBLE_HOME=str(home / ".ansible"), TMPDIR=str(home),
                ANSIBLE_LOG_PATH=str(home / "log"), ANSIBLE_KEEP_REMOTE_FILES="1", ANSIBLE_CACHE_PLUGIN="jsonfile",
                ANSIBLE_CACHE_PLUGIN_CONNECTION=str(home / "facts"))
    assert done.returncode == 0 and world.vms["vm02"].cpus == 8, done.stdout + done.stderr
    asked = [line["what"] for line in world.journal if "this" in line]
    assert asked.count("Login") == asked.count("Logout") == 3 and not face.sessions
    assert len(seen) >= 3 and (home / "log").stat().st_size > 1000
    texts = [done.stdout, done.stderr] + [path.read_text(errors="replace") for path in home.rglob("*") if path.is_file()]
    for secret in (*seen, world.vcenter["password"]):
        assert not any(secret in text for text in texts)
