# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: host_passthru
short_description: Passthrough of PCI devices of an ESXi host
version_added: 0.1.0
description:
  - Enables or disables passthrough of PCI devices through vCenter.
  - Enabled (configured) and active (in force) are told apart. A device that is enabled but not active is not a change but a reason to reboot.
  - A device that carries a VMkernel port or is an uplink of a switch is refused, and the error says what uses it; so is a storage controller.
  - Devices that depend on the same device (a bridge, or a function that a reset takes along) are switched together by the host. They are shown as
    C(moves_with), planned as steps of their own, and refused where one of them is in use.
  - The host never reboots by this module; see RV(reboot_reasons) and M(vhpc.rdma.esxi_reboot).
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  devices:
    description:
      - The devices. Each entry has exactly one of C(pci), C(card), C(id), C(name) and C(query),
        or is plain text (an address, or vendor and device id).
    type: list
    elements: raw
    required: true
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
          - Hardware label for the device (vSphere 7.0.2 or newer), by which a VM finds it without knowing its address.
          - Give each function of a card its own, because their ids are the same.
        type: str
      bar_size_gb:
        description: Taken and not used here, so that one list serves M(vhpc.rdma.vm_passthru) too.
        type: int
  state:
    description: Whether the devices are passed through.
    type: str
    choices: [enabled, disabled]
    default: enabled
  apply_now:
    description:
      - V(true) asks the host to change at once, V(false) to wait for a reboot.
      - Without it the host does it at once where it can (RV(rebind_without_reboot)).
    type: bool
  released:
    description:
      - Addresses that an earlier task takes out of a distributed switch, RV(vhpc.rdma.dvs_uplinks#module:removed).
      - Only matters in check mode, when that task has not acted and the switch still holds them.
    type: list
    elements: str
    default: []
seealso:
  - module: vhpc.rdma.vm_passthru
  - module: vhpc.rdma.esxi_reboot
  - module: vhpc.rdma.dvs_uplinks
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: Both ports of the card
  vhpc.rdma.host_passthru:
    devices:
      - card: "3b:00.0"
  register: passthru

- name: Every ConnectX-5 of the host
  vhpc.rdma.host_passthru:
    devices:
      - id: "15b3:1017"

- name: Each port with a label of its own
  vhpc.rdma.host_passthru:
    devices:
      - pci: "3b:00.0"
        label: rdma-ib
      - pci: "3b:00.1"
        label: rdma-roce
"""

RETURN = r"""
devices:
  description: The chosen devices as they are after the task, with the keys of RV(vhpc.rdma.host_pci_info#module:devices).
  returned: success
  type: list
  elements: dict
  sample:
    - pci: "0000:3b:00.0"
      capable: true
      enabled: true
      active: false
      label: ""
      dependent: "0000:3b:00.0"
      moves_with: []
      used_by: ""
rebind_without_reboot:
  description: Whether the host can hand a device over without a reboot.
  returned: success
  type: bool
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
reboot_required:
  description: Whether the host needs a reboot before all devices are as asked for.
  returned: success
  type: bool
reboot_reasons:
  description: Why.
  returned: success
  type: list
  elements: str
"""
