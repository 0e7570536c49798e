# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: dvs_uplinks
short_description: Takes ports of a card out of the distributed switches that use them
version_added: 0.1.0
description:
  - Removes the uplinks of a host that are the chosen functions from every distributed switch, as SR-IOV leaves them behind.
  - Without O(consent) it fails and names the switch, its port groups and the uplinks.
  - An uplink of a switch with a VMkernel port of this host is refused in any case.
  - Hosts that edit the same switch at the same time try again by themselves.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  devices:
    description:
      - The functions. Each entry has exactly one of C(pci), C(card), C(id), C(name) and C(query),
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
  state:
    description: The functions are no uplinks.
    type: str
    choices: [absent]
    default: absent
  consent:
    description: Whether the uplinks may be removed.
    type: bool
    default: false
  task_timeout:
    description: Seconds that changing one switch may take, other hosts' turns included.
    type: int
    default: 180
seealso:
  - module: vhpc.rdma.host_passthru
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: What SR-IOV left behind
  vhpc.rdma.dvs_uplinks:
    devices:
      - id: "15b3:1017"
    consent: true
  register: uplinks
"""

RETURN = r"""
removed:
  description: Addresses of the functions that were uplinks (and in check mode still are).
  returned: success
  type: list
  elements: str
  sample: ["0000:3b:00.0", "0000:3b:00.1"]
switches:
  description: The switches they were taken out of.
  returned: always
  type: list
  elements: dict
  sample:
    - switch: hpc-dvs
      portgroups: [hpc-roce]
      uplinks:
        - pci: "0000:3b:00.0"
          vmnic: vmnic2
      carries: []
      left: []
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
"""
