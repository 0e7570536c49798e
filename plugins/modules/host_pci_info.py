# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: host_pci_info
short_description: PCI devices of an ESXi host, their passthrough and what uses them
version_added: 0.1.0
description:
  - Reads every PCI device of a host through vCenter, whether passthrough is enabled (configured) and active (in force), and what of ESXi uses it.
  - Acts on the ESXi host of the inventory; nothing runs on the host itself.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.info
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  devices:
    description: Only these devices; without it, all. Each entry has exactly one of the keys, or is plain text (an address, or vendor and device id).
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
seealso:
  - module: vhpc.rdma.host_passthru
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: Every ConnectX-5 function of the host
  vhpc.rdma.host_pci_info:
    devices:
      - id: "15b3:1017"
  register: cards

- name: What nothing uses
  vhpc.rdma.host_pci_info:
    devices:
      - query: "[?used_by=='' && id=='15b3:1017']"
"""

RETURN = r"""
devices:
  description: The devices in PCI order.
  returned: success
  type: list
  elements: dict
  sample:
    - pci: "0000:3b:00.0"
      id: "15b3:1017"
      class: "0200"
      name: MT27800 Family [ConnectX-5]
      vendor: Mellanox Technologies
      capable: true
      enabled: false
      active: false
      label: ""
      dependent: "0000:3b:00.0"
      moves_with: []
      vmnic: vmnic2
      used_by: distributed switch hpc-dvs
rebind_without_reboot:
  description: Whether the host can hand a device over without a reboot.
  returned: success
  type: bool
"""
