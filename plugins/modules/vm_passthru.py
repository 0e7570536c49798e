# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: vm_passthru
short_description: Passthrough devices of VMs
version_added: 0.1.0
description:
  - Attaches PCI devices of a VM's host to the VM, or detaches them, in one reconfiguration. The devices may be of any kind, network cards and GPUs alike.
  - One task does it for one VM (O(name)) or for many (O(vms)), which are reconfigured side by side.
  - All preconditions are checked before it and reported together; passthrough active on the host, the VM off, its whole memory reserved, no snapshot,
    no other VM with the device, nothing of ESXi using it.
  - What a device's backing must say is taken from the VM's host; a backing that no longer fits the host is replaced.
  - A backing is compared by the address it means, not by how the address is written. A device that is attached already stays as it is.
  - What a VM gives up for a device that is attached is told as a warning, also in check mode and in the plan.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  name:
    description: Name of the VM. Exactly one of O(name) and O(vms) is given.
    type: str
  devices:
    description:
      - The devices of the VM's host. Each entry has exactly one of C(pci), C(card), C(id), C(name), C(query) and C(label),
        or is plain text (an address, or vendor and device id).
      - The guest sees them in PCI order.
    type: list
    elements: raw
    suboptions:
      pci:
        description: Address of one function, in any case and with or without the domain (V(0000:3b:00.0), V(3B:00.0)).
        type: str
      card:
        description: Address of any function of a card (V(0000:3b:00.0)); all functions of that slot are chosen.
        type: str
      id:
        description: Vendor and device id in hexadecimal (V(15b3:1017) is ConnectX-5); every device of that kind is chosen.
        type: str
      name:
        description: The device's name as vSphere shows it. Refused when several devices have it, as both ports of one card do.
        type: str
      query:
        description: JMESPath over the list that M(vhpc.rdma.host_pci_info) returns, such as V([?id=='15b3:1017' && used_by=='']).
        type: str
      label:
        description:
          - The hardware label that the device has on the host. Alone it chooses the device.
          - Beside another key it does not choose, so that the list that M(vhpc.rdma.host_passthru) gives the labels by serves here too.
        type: str
      bar_size_gb:
        description:
          - Size of all the BARs of the device together in GB, rounded up (C(lspci -v) on a Linux that has it shows them); vSphere does not tell it.
          - When the devices of a VM have more than 16 GB, the VM gets a 64-bit MMIO space that fits, in the same reconfiguration, and needs EFI firmware.
          - Not needed for ConnectX and for the few GPUs whose size is published (V100 SXM2 16 GB, A100 40 GB, H20). Nothing is guessed for the others.
        type: int
  vms:
    description:
      - Many VMs in one task. All of them are looked at before any is changed, they are reconfigured side by side, and one wait follows all of them.
      - Run such a task once (C(run_once) or a play on C(localhost)), not for every host.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the VM.
        type: str
        required: true
      devices:
        description: The devices of this VM. Without it, O(devices) of the task.
        type: list
        elements: raw
        suboptions:
          pci:
            description: Address of one function, in any case and with or without the domain (V(0000:3b:00.0), V(3B:00.0)).
            type: str
          card:
            description: Address of any function of a card (V(0000:3b:00.0)); all functions of that slot are chosen.
            type: str
          id:
            description: Vendor and device id in hexadecimal (V(15b3:1017) is ConnectX-5); every device of that kind is chosen.
            type: str
          name:
            description: The device's name as vSphere shows it. Refused when several devices have it, as both ports of one card do.
            type: str
          query:
            description: JMESPath over the list that M(vhpc.rdma.host_pci_info) returns, such as V([?id=='15b3:1017' && used_by=='']).
            type: str
          label:
            description: As O(devices[].label).
            type: str
          bar_size_gb:
            description:
              - Size of all the BARs of the device together in GB, rounded up (C(lspci -v) on a Linux that has it shows them); vSphere does not tell it.
              - When the devices of a VM have more than 16 GB, the VM gets a 64-bit MMIO space that fits, in the same reconfiguration, and needs EFI firmware.
              - Not needed for ConnectX and for the few GPUs whose size is published (V100 SXM2 16 GB, A100 40 GB, H20). Nothing is guessed for the others.
            type: int
      esxi_hostname:
        description: The host that the VM has to be on.
        type: str
  state:
    description:
      - V(present) attaches the devices and leaves others alone.
      - V(exact) also detaches every other passthrough device; with an empty list it detaches all.
      - V(absent) detaches the devices.
    type: str
    choices: [present, absent, exact]
    default: present
  mode:
    description:
      - V(static) ties the VM to the device at its address.
      - V(dynamic) (Dynamic DirectPath) asks for any free device of the same kind and label; which one it is, is decided when the VM powers on.
      - A device needs a hardware label (O(vhpc.rdma.host_passthru#module:devices[].label)) when its host has several with its ids,
        as both ports of a card have.
        The VM needs hardware version 17.
    type: str
    choices: [static, dynamic]
    default: static
  reserve_memory:
    description: Reserve the VM's whole memory in the same reconfiguration, which passthrough needs.
    type: bool
    default: true
  mmio_gb:
    description:
      - Size of the 64-bit MMIO space in GB, a power of two, whatever O(devices[].bar_size_gb) would give.
      - Needs EFI firmware.
    type: int
  released:
    description:
      - Addresses that an earlier task takes out of a distributed switch, RV(vhpc.rdma.dvs_uplinks#module:removed).
      - Only matters in check mode, when that task has not acted and the switch still holds them.
    type: list
    elements: str
    default: []
  allow_power_cycle:
    description: Whether a running VM may be shut down for the change; it is powered on again afterwards.
    type: bool
    default: false
  power_timeout:
    description: Seconds that powering off, reconfiguring or powering on may take, each.
    type: int
    default: 300
seealso:
  - module: vhpc.rdma.host_passthru
  - module: vhpc.rdma.vm_tuning
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: Both ports of the host's card
  vhpc.rdma.vm_passthru:
    name: "{{ vhpc_vm }}"
    devices:
      - card: "3b:00.0"

- name: These two and nothing else
  vhpc.rdma.vm_passthru:
    name: vm01
    state: exact
    devices:
      - label: rdma-ib
      - label: rdma-roce

- name: The same two for every VM, in one task
  vhpc.rdma.vm_passthru:
    devices:
      - label: rdma-ib
      - label: rdma-roce
    vms:
      - name: vm01
      - name: vm02
  run_once: true
  delegate_to: localhost

- name: Any free device with these labels, wherever the VM powers on
  vhpc.rdma.vm_passthru:
    name: vm01
    mode: dynamic
    devices:
      - label: rdma-ib
      - label: rdma-roce

- name: A GPU whose BARs need 64-bit MMIO
  vhpc.rdma.vm_passthru:
    name: vm01
    devices:
      - pci: "0000:af:00.0"
        bar_size_gb: 33

- name: Detach everything
  vhpc.rdma.vm_passthru:
    name: vm01
    state: exact
    devices: []
    allow_power_cycle: true
"""

RETURN = r"""
devices:
  description:
    - The passthrough devices that the VM has after the task, in the order in which the guest has them. C(port) is the port of a network card.
    - The address of a dynamic device is known while the VM is on.
  returned: when name is given
  type: list
  elements: dict
  sample:
    - pci: "0000:3b:00.0"
      key: 13000
      id: "15b3:1017"
      name: MT27800 Family [ConnectX-5]
      label: ""
      port: 1
      dynamic: false
vms:
  description: Name, power state, host and devices of each VM, and whether it is changed.
  returned: when vms is given
  type: list
  elements: dict
vm:
  description: Name, power state and host of the VM.
  returned: when name is given
  type: dict
  sample:
    name: vm01
    power: poweredOff
    host: esxi01
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
problems:
  description: Every precondition that does not hold.
  returned: when a precondition does not hold
  type: list
  elements: str
"""
