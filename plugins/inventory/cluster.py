# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster
short_description: ESXi hosts and their VMs, in pairs
version_added: 0.1.0
description:
  - Makes the inventory that the collection's roles and playbooks want from one short YAML file, by ranges of names.
  - Where asked, reads hosts and VMs from vCenter and pairs them by where each VM is.
  - Every ESXi host is in the group C(esxi), every VM in the group C(guests), and both in a group of their O(nodes[].role).
    A host knows its VM by C(vhpc_vm), a VM its host by C(vhpc_host).
  - The file's name ends in C(.yml) or C(.yaml).
author:
  - vhpc.rdma authors (@vhpc-rdma)
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [vhpc.rdma.cluster]
  nodes:
    description:
      - Hosts, VMs or pairs of them.
      - Every text may have ranges (V(esxi-[01:16].example.org), V(192.168.5.[1:16]/24)); all ranges of an entry are equally long, and the first name of one
        belongs with the first of the others. A text without a range is for all of them.
    type: list
    elements: dict
    default: []
    suboptions:
      esxi:
        description: Names of ESXi hosts.
        type: str
      vm:
        description: Names of VMs, as they are called in vCenter.
        type: str
      role:
        description: Name of a group that these hosts and VMs are in too.
        type: str
      esxi_vars:
        description: Variables of each host, with ranges where they differ.
        type: dict
      vm_vars:
        description: Variables of each VM, with ranges where they differ, such as C(ansible_host) and C(vhpc_roce_address).
        type: dict
  esxi_vars:
    description: Variables of the group C(esxi).
    type: dict
    default: {}
  vm_vars:
    description: Variables of the group C(guests).
    type: dict
    default: {}
  vcenter:
    description:
      - The connection to vCenter, with the keys C(hostname), C(username), C(password), C(port), C(ca_file), C(thumbprint), C(validate_certs), C(timeout).
        Keys that are missing are taken from the environment, E(VMWARE_HOST), E(VMWARE_USER) and E(VMWARE_PASSWORD) first of all. Templates and vaulted values
        are allowed.
      - It becomes the variable C(vhpc_vcenter) of all, as written here.
    type: dict
    default: {}
  query:
    description:
      - Read hosts and VMs from vCenter. Without it, vCenter is not asked; an empty dictionary takes everything.
      - What O(nodes) says of the same machines wins.
    type: dict
    suboptions:
      cluster:
        description: Name of the cluster whose hosts are taken.
        type: str
      hosts:
        description: Patterns of host names, such as V(esxi-*).
        type: list
        elements: str
      vms:
        description: Patterns of VM names. When several VMs of a host fit, none of them becomes the host's VM, and a warning says so.
        type: list
        elements: str
      role:
        description: Name of a group that what is read is in too.
        type: str
"""

EXAMPLES = r"""
# cluster.yml: 16 hosts and 16 VMs in pairs
plugin: vhpc.rdma.cluster
vcenter:
  hostname: vcenter.example.org
  username: automation@vsphere.local
  password: "{{ lookup('ansible.builtin.env', 'VCENTER_PASSWORD') }}"
nodes:
  - esxi: esxi-[01:16].example.org
    vm: vm-[01:16]
    role: compute
    esxi_vars:
      vhpc_bmc: {baseuri: "bmc-[01:16].example.org", username: root, password: "{{ vault_bmc_password }}"}
    vm_vars:
      ansible_host: vm-[01:16].example.org
      vhpc_roce_address: 192.168.5.[1:16]/24
esxi_vars:
  ansible_user: root

# What vCenter has in one cluster
# plugin: vhpc.rdma.cluster
# query:
#   cluster: hpc
#   vms: ["vm-*"]
"""

import fnmatch  # noqa: E402

from ansible.errors import AnsibleParserError  # noqa: E402
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator  # noqa: E402
from ansible.plugins.inventory import BaseInventoryPlugin  # noqa: E402
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError  # noqa: E402
from ansible_collections.vhpc.rdma.plugins.plugin_utils import ranges  # noqa: E402
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import lookup, session  # noqa: E402

ESXI = "esxi"
GUESTS = "guests"
NODE_KEYS = {"esxi", "vm", "role", "esxi_vars", "vm_vars"}
QUERY_KEYS = {"cluster", "hosts", "vms", "role"}


class InventoryModule(BaseInventoryPlugin):
    NAME = "vhpc.rdma.cluster"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith((".yml", ".yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            self._groups()
            for number, node in enumerate(self.get_option("nodes")):
                self._node(node, "%s, node %d" % (path, number + 1))
            if self.get_option("query") is not None:
                self._query(self.get_option("query"), path)
        except RdmaError as err:
            raise AnsibleParserError(err.text()) from err

    def _groups(self) -> None:
        for group, more in ((ESXI, self.get_option("esxi_vars")), (GUESTS, self.get_option("vm_vars"))):
            self.inventory.add_group(group)
            for key, value in more.items():
                self.inventory.set_variable(group, key, value)
        if "ansible_python_interpreter" not in self.get_option("esxi_vars"):
            self.inventory.set_variable(ESXI, "ansible_python_interpreter", "none")  # nothing of the collection runs Python on ESXi
        if self.get_option("vcenter"):
            self.inventory.set_variable("all", "vhpc_vcenter", self.get_option("vcenter"))

    def _add(self, name: str, group: str, role: str, variables: dict) -> None:
        """What is there already stays: the file is read before vCenter, and says more."""
        if role:
            role = self.inventory.add_group(self._sanitize_group_name(role))
            if role in (ESXI, GUESTS):
                raise RdmaError("make a group for the role", role, "the group %s is another one" % role, "call the role otherwise", code="ROLE")
        self.inventory.add_host(name, group=group)
        if role:
            self.inventory.add_host(name, group=role)
        have = self.inventory.get_host(name).vars
        for key, value in variables.items():
            if key not in have:
                self.inventory.set_variable(name, key, value)

    # ---- from the file ------------------------------------------------------------------------------------------------

    def _node(self, node: dict, where: str) -> None:
        unknown = sorted(set(node) - NODE_KEYS)
        if unknown or not (node.get("esxi") or node.get("vm")):
            raise RdmaError("read the inventory", where, "unknown: %s" % ", ".join(unknown) if unknown else "it has neither esxi nor vm",
                            "an entry has %s" % ", ".join(sorted(NODE_KEYS)), code="NODE")
        hosts, vms = (ranges.names(node[key]) if node.get(key) else [] for key in ("esxi", "vm"))
        if hosts and vms and len(hosts) != len(vms):
            raise RdmaError("pair hosts and VMs", where, "%s are %d hosts, %s are %d VMs" % (node["esxi"], len(hosts), node["vm"], len(vms)),
                            "make the ranges equally long", code="RANGE")
        count = len(hosts or vms)
        for number in range(count):
            host, vm = (names[number] if names else "" for names in (hosts, vms))
            if host:
                self._add(host, ESXI, node.get("role"), dict(ranges.nth(node.get("esxi_vars") or {}, number, count, where), **({"vhpc_vm": vm} if vm else {})))
            if vm:
                self._add(vm, GUESTS, node.get("role"),
                          dict(ranges.nth(node.get("vm_vars") or {}, number, count, where), **({"vhpc_host": host} if host else {})))

    # ---- from vCenter -------------------------------------------------------------------------------------------------

    def _query(self, query: dict, path: str) -> None:
        unknown = sorted(set(query) - QUERY_KEYS)
        if unknown:
            raise RdmaError("read the inventory", path, "unknown in query: %s" % ", ".join(unknown), "it has %s" % ", ".join(sorted(QUERY_KEYS)), code="QUERY")
        checked = ArgumentSpecValidator(session.VCENTER_SPEC).validate(self.templar.template(self.get_option("vcenter")))
        if checked.error_messages:
            raise RdmaError("log in to vCenter", path, "; ".join(checked.error_messages), "correct vcenter", code="NO_VCENTER")
        with session.connect(checked.validated_parameters, path, "read hosts and VMs") as link:
            hosts, vms = lookup.site(link)
        if query.get("cluster"):
            clusters = sorted({host["cluster"] for host in hosts})
            if query["cluster"] not in clusters:
                raise RdmaError("find the cluster %s" % query["cluster"], path, "vCenter has %s" % ", ".join(clusters), "correct query.cluster",
                                code="NOT_FOUND")
        hosts = [host for host in hosts if fits(host["name"], query.get("hosts")) and query.get("cluster") in (None, host["cluster"])]
        known = {full: name for name in self.inventory.hosts for full in (name, self.inventory.hosts[name].vars.get("vhpc_esxi_hostname"))}
        for host in hosts:
            here = [vm for vm in vms if vm["host"] == host["id"] and fits(vm["name"], query.get("vms"))]
            name = known.get(host["name"], host["name"])
            paired = {"vhpc_vm": here[0]["name"]} if len(here) == 1 else {}
            if len(here) > 1 and "vhpc_vm" not in (self.inventory.hosts[name].vars if name in self.inventory.hosts else {}):
                self.display.warning("%s has %d VMs (%s): none of them becomes its vhpc_vm; narrow query.vms" % (
                    host["name"], len(here), ", ".join(vm["name"] for vm in here)))
            self._add(name, ESXI, query.get("role"), dict(paired, vhpc_esxi_hostname=host["name"]))
            for vm in here:
                self._add(vm["name"], GUESTS, query.get("role"), dict({"ansible_host": vm["address"]} if vm["address"] else {}, vhpc_host=name))


def fits(name: str, patterns: list[str] | None) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)
