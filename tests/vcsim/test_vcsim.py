# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The generic client code (login, look-up, reconfigure, power, clone) against an implementation of the API that nobody here wrote.

The simulator knows nothing of passthrough, power policies or reboots: those are the rehearsal lab's.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import subprocess
import sys

import pytest
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import datastore, licences, lookup, session, tasks

VM = ["DC0_C0_RP0_VM%d" % number for number in range(3)]


def test_login_and_certificate(vcenter):
    assert vcenter.failed("vm_power", name=VM[0], password="wrong")["error"]["code"] == "LOGIN"
    assert vcenter.failed("vm_power", name=VM[0], username="nobody")["error"]["code"] == "LOGIN"
    result = vcenter.failed("vm_power", name=VM[0], ca_file=None)
    assert result["error"]["code"] == "TLS" and "thumbprint" in result["msg"]
    with open(vcenter.login["ca_file"], encoding="ascii") as stream:
        found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(stream.read())).hexdigest()
    assert vcenter.ok("vm_power", name=VM[0], ca_file=None, thumbprint=found)["vm"]["power"] == "on"
    assert "thumbprint" in vcenter.failed("vm_power", name=VM[0], ca_file=None, thumbprint="ab" * 32)["msg"]


def test_credentials_from_the_environment(vcenter, monkeypatch):
    for option, name in (("hostname", "VMWARE_HOST"), ("port", "VMWARE_PORT"), ("username", "VMWARE_USER"), ("password", "VMWARE_PASSWORD")):
        monkeypatch.setenv(name, str(vcenter.login.pop(option)))
    assert vcenter.ok("vm_power", name=VM[0])["vm"]["power"] == "on"


def test_look_up(vcenter):
    result = vcenter.failed("vm_power", name="vm77")
    assert result["error"]["code"] == "NOT_FOUND" and all(name in result["msg"] for name in VM)
    result = vcenter.failed("host_pci_info", "esxi77")
    assert result["error"]["code"] == "NOT_FOUND" and "DC0_C0_H0, DC0_C0_H1, DC0_C0_H2" in result["msg"]
    devices = vcenter.ok("host_pci_info", "DC0_C0_H1")["devices"]
    assert len(devices) > 10 and {d["id"].split(":")[0] for d in devices} >= {"8086", "15ad"} and all(len(d["pci"]) == 12 for d in devices)
    host = vcenter.ok("vm_power", name=VM[1])["vm"]["host"]
    other = next(name for name in ("DC0_C0_H0", "DC0_C0_H1") if name != host)
    assert "is on %s, not on %s" % (host, other) in vcenter.failed("vm_power", name=VM[1], esxi_hostname=other)["msg"]
    with session.connect(dict(vcenter.login, validate_certs=True, timeout=20)) as link:
        hosts, vms = lookup.site(link)
        assert [one["name"] for one in vms] == VM and {one["cluster"] for one in hosts} == {"DC0_C0"} and len(hosts) == 3
        parent = link.read(lookup.find_host(link, "DC0_C0_H0"), "parent")["parent"]
        assert list(lookup.clusters_of(link, [parent, parent]).values()) == [dict(name="DC0_C0", ha=False, drs=True)]
        licence, = licences.of_hosts(link, [lookup.find_host(link, "DC0_C0_H0")]).values()
        assert (licence["name"], licence["edition"]) == ("Evaluation Mode", "eval") and "dvs" in licence["features"]


def test_power(vcenter):
    assert not vcenter.ok("vm_power", name=VM[0])["changed"]
    assert vcenter.failed("vm_power", name=VM[0], state="off")["error"]["code"] == "NO_CONSENT"
    vcenter.twice("vm_power", name=VM[0], state="off", power_off_ok=True)
    vcenter.twice("vm_power", name=VM[0])
    assert vcenter.ok("vm_power", name=VM[0], state="restarted", power_off_ok=True)["vm"]["power"] == "on"


def test_reconfigure(vcenter):
    wanted = dict(cpus=2, memory_mb=1024, extra_config={"numa.vcpu.preferHT": True})
    assert "allow_power_cycle" in vcenter.failed("vm_tuning", name=VM[0], **wanted)["msg"]
    result = vcenter.twice("vm_tuning", vms=[dict(name=name) for name in VM], allow_power_cycle=True, **wanted)
    for row in result["vms"]:
        assert (row["cpus"], row["memory_mb"], row["memory_reservation"], row["latency"]) == (2, 1024, 1024, "high")
        assert row["cpu_reservation"] == 2 * row["host_mhz"] > 0
        assert row["power"] == "poweredOn" and vcenter.ok("vm_power", name=row["name"])["vm"]["power"] == "on"
    vcenter.twice("vm_tuning", name=VM[0], profile="none", extra_config={"numa.vcpu.preferHT": ""}, allow_power_cycle=True)


def test_clone(vcenter):
    """This simulator puts a clone beside its source, whatever host is asked for: there it is made, elsewhere that is told."""
    host = vcenter.ok("vm_power", name=VM[0])["vm"]["host"]
    vcenter.twice("vm_clone", host, template=VM[0], name="n1")
    assert vcenter.ok("vm_power", name="n1")["vm"] == dict(name="n1", power="on", host=host)
    assert "vcsim-linux" in vcenter.failed("vm_clone", host, template=VM[0], name="n3", customization="nope")["msg"]
    vcenter.twice("vm_clone", host, template=VM[0], name="n3", customization="vcsim-linux", guest_hostname="node-3", guest_address="10.0.0.3/24")
    vcenter.twice("vm_clone", host, template=VM[0], name="n4", guest_domain="hpc.example.org")
    other = next(name for name in ("DC0_C0_H0", "DC0_C0_H1") if name != host)
    result = vcenter.failed("vm_clone", other, template=VM[0], name="n2")
    assert result["error"]["code"] == "NOT_HELD" and "n2 is on %s, not on %s" % (host, other) in result["msg"]


def test_a_session_that_another_one_ends(vcenter):
    """A read, and a write through its own stub, after the session is gone: a new login each, and the answer."""
    login = dict(vcenter.login, validate_certs=True, timeout=20)
    with session.connect(login) as link, session.connect(login) as other:
        def end() -> None:
            key = link.content.sessionManager.currentSession.key
            other.content.sessionManager.TerminateSession([key])

        row = lookup.find_vm(link, VM[0], ("runtime.powerState",))
        end()
        assert lookup.find_vm(link, VM[0], ("runtime.powerState",))["runtime.powerState"] == row["runtime.powerState"] == "poweredOn"
        end()
        task = row["object"].PowerOffVM_Task()
        end()
        tasks.wait(link, task, "power off", VM[0], 20)
        assert link.logins == 4
    assert vcenter.ok("vm_power", name=VM[0], state="present")["vm"]["power"] == "off"


def test_a_file_for_a_datastore(vcenter, tmp_path):
    (tmp_path / "driver.zip").write_bytes(bytes(range(256)) * 1000)
    with session.connect(dict(vcenter.login, validate_certs=True, timeout=20)) as link:
        host = lookup.find_host(link, "DC0_C0_H0")
        datastore.upload(link, host, str(tmp_path / "driver.zip"), "/vmfs/volumes/LocalDS_0/depot/driver 1.zip", "DC0_C0_H0")
        store = next(one for one in link.read(host, "datastore")["datastore"])
        landed = os.path.join(link.read(store, "info.url")["info.url"], "depot", "driver 1.zip")
        with open(landed, "rb") as found:
            assert found.read() == (tmp_path / "driver.zip").read_bytes()
        with pytest.raises(RdmaError) as caught:
            datastore.upload(link, host, str(tmp_path / "driver.zip"), "/vmfs/volumes/nowhere/driver.zip", "DC0_C0_H0")
    assert caught.value.where == "DC0_C0_H0" and "404" in caught.value.why and "datastore" in caught.value.hint


def test_what_the_simulator_has_not_is_an_error_with_a_place(vcenter):
    result = vcenter.failed("host_power_policy", "DC0_C0_H0")
    assert result["error"]["where"] == "DC0_C0_H0" and "ManagedObjectNotFound" in result["msg"]
    with pytest.raises(RdmaError) as caught, session.connect(dict(vcenter.login, validate_certs=True, timeout=20), "here", "ask") as link:
        link.content.licenseManager.DecodeLicense("none")
    assert caught.value.where == "here" and caught.value.hint


def test_straight_on_an_esxi_host(esxi):
    vms = esxi.failed("vm_power", name="vm77")["error"]["why"].removeprefix("vCenter has ").split(", ")
    assert len(vms) == 2
    assert esxi.ok("host_pci_info", "any-name")["devices"]
    esxi.twice("vm_tuning", "any-name", name=vms[0], cpus=2, memory_mb=512, allow_power_cycle=True)
    assert esxi.ok("vm_power", "any-name", name=vms[0])["vm"]["power"] == "on"


def test_the_inventory_plugin(vcenter, tmp_path):
    path = tmp_path / "cluster.yml"
    path.write_text(json.dumps(dict(plugin="vhpc.rdma.cluster", vcenter=dict({key: vcenter.login[key] for key in ("hostname", "port", "username", "ca_file")}),
                                    query={})))
    done = subprocess.run([sys.executable, os.path.join(os.path.dirname(sys.executable), "ansible-inventory"), "-i", str(path), "--list"], capture_output=True,
                          text=True, timeout=120, check=False, env=dict(os.environ, VMWARE_PASSWORD=vcenter.login["password"], LC_ALL="C.UTF-8"))
    found = json.loads(done.stdout)
    assert len(found["esxi"]["hosts"]) == 3 and sorted(found["guests"]["hosts"]) == VM, done.stderr
    assert {found["_meta"]["hostvars"][name]["vhpc_host"]["__ansible_unsafe"] for name in VM} <= set(found["esxi"]["hosts"])
