# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: vm_clone
short_description: VMs from a template, one per host
version_added: 0.1.0
description:
  - Clones VMs from a template or another VM, places each on its host, and powers them on if asked. All clones run at the same time.
  - A VM that is there already is left as it is; one that is on another host than asked is refused, and nothing is made.
  - A Linux guest can be given its host name and address at its first boot, by a customization specification of vCenter or without one. That needs
    open-vm-tools in the template. Otherwise they come from the template (DHCP, cloud-init). Size, reservations and devices are for M(vhpc.rdma.vm_tuning) and
    M(vhpc.rdma.vm_passthru); a passthrough device is attached after the clone.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  template:
    description: Name of the template or VM that is cloned.
    type: str
    required: true
  name:
    description: Name of the VM, on the host O(esxi_hostname). Exactly one of O(name) and O(vms) is given.
    type: str
  vms:
    description: Many VMs in one task. Run such a task once (C(run_once) or a play on C(localhost)), not for every host.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the VM.
        type: str
        required: true
      esxi_hostname:
        description: The host it is placed on. Without it, the next one of O(hosts) that has none of these VMs.
        type: str
      datastore:
        description: Its datastore. Without it, O(datastore).
        type: str
      guest_hostname:
        description: As O(guest_hostname), for this VM.
        type: str
      guest_address:
        description: As O(guest_address), for this VM.
        type: str
  hosts:
    description: Hosts for the VMs that name none, one VM per host.
    type: list
    elements: str
    default: []
  datastore:
    description: Name of the datastore. Without it, the template's.
    type: str
  folder:
    description: Name of the folder of VMs. Without it, the template's.
    type: str
  resource_pool:
    description: Name of a resource pool in the host's cluster. Without it, the cluster's own.
    type: str
  network:
    description: Name of the network or distributed port group that the first network adapter is put into. Without it, the template's.
    type: str
  linked:
    description: Make linked clones of the template's current snapshot.
    type: bool
    default: false
  customization:
    description:
      - Name of a guest customization specification in vCenter. What the options below say takes the place of what it says.
      - VMs that are there already are not customized.
    type: str
  guest_hostname:
    description: Host name of the guest, without a domain. Without it, the VM's name or what O(customization) says. With O(vms) each says its own.
    type: str
  guest_domain:
    description: DNS domain of the guests; needed for a guest customization without O(customization).
    type: str
  guest_address:
    description:
      - IPv4 address with its prefix length (V(192.168.1.11/24)) of the first network adapter. Without it, DHCP or what O(customization) says.
      - With O(vms) each says its own.
    type: str
  guest_gateway:
    description: Default gateway of guests with an address.
    type: str
  guest_dns:
    description: IPv4 addresses of DNS servers.
    type: list
    elements: str
    default: []
  power_on:
    description: Power the VMs on, also those that were there and are off.
    type: bool
    default: false
  tools_timeout:
    description:
      - Seconds to wait until VMware Tools run in every VM, and until new guests tell that they have their name and address (vSphere 7.0.2 and newer).
      - V(0) does not wait.
    type: int
    default: 0
  clone_timeout:
    description: Seconds that the clones may take.
    type: int
    default: 3600
  power_timeout:
    description: Seconds that powering on may take.
    type: int
    default: 300
seealso:
  - module: vhpc.rdma.vm_tuning
  - module: vhpc.rdma.vm_passthru
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: One VM on each host
  vhpc.rdma.vm_clone:
    template: rocky8-hpc
    datastore: vsanDatastore
    network: VM Network
    hosts: "{{ groups['esxi'] }}"
    vms:
      - name: vm-01
      - name: vm-02
  run_once: true
  delegate_to: localhost

- name: One VM for the host of this play
  vhpc.rdma.vm_clone:
    template: rocky8-hpc
    name: "{{ vhpc_vm }}"
    power_on: true
    tools_timeout: 600

- name: Guests with names and addresses of their own
  vhpc.rdma.vm_clone:
    template: rocky8-hpc
    hosts: "{{ groups['esxi'] }}"
    guest_domain: hpc.example.org
    guest_gateway: 192.168.1.1
    guest_dns: [192.168.1.2]
    vms:
      - name: vm-01
        guest_hostname: node-01
        guest_address: 192.168.1.11/24
      - name: vm-02
        guest_hostname: node-02
        guest_address: 192.168.1.12/24
    power_on: true
    tools_timeout: 600
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
vms:
  description: Each VM with its host, and whether this task made it (or would).
  returned: success
  type: list
  elements: dict
  sample:
    - name: vm01
      host: esxi01
      made: true
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
problems:
  description: Everything that stands in the way of placing or customizing the VMs.
  returned: when something does
  type: list
  elements: str
"""
