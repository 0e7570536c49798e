# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: esxi_info
short_description: Read what the stages need to know of an ESXi host
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Reads version, acceptance level, secure boot, maintenance mode, VIBs, driver options and the adapter cards in one SSH exec.
  - Says for every card which VMkernel adapters and switches it carries, and, where MFT runs, its PSID, part number and firmware.
  - Returns findings, and with O(enforce) fails with all errors among them at once, before anything is changed.
  - The mst driver is left as it was found.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.info
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
  - vhpc.rdma.vcenter.transport
options:
  card:
    description:
      - The card of the workload, which must be there and must not carry the host's own network.
      - A card is told by what it is, never by an mst or vmnic name, since those change between boots.
      - Everything that is given must fit, and exactly one card must fit; else the error lists the cards that were found.
    type: dict
    suboptions:
      psid:
        description: Board id of the card, for example V(MT_0000000008).
        type: str
      part_number:
        description: Part number, with or without its revision, for example V(MCX556A-ECA) or V(MCX556A-ECA_Ax).
        type: str
      serial:
        description: Serial number in the card's vital product data.
        type: str
      guid:
        description: GUID of the card or of one of its ports, in any notation.
        type: str
      mac:
        description: MAC address of one of its ports, in any notation.
        type: str
      pci:
        description: PCI address of one of its functions, for example V(0000:3b:00.0).
        type: str
  min_version:
    description: Oldest ESXi version that is accepted.
    type: str
    default: "7.0"
  enforce:
    description: Fail when a finding is an error.
    type: bool
    default: false
notes:
  - Runs on the controller and talks to the ESXi shell through the task's SSH connection, or to C(esxcli) through vCenter (O(transport)). The host needs
    no Python, and C(gather_facts) must be off.
seealso:
  - module: vhpc.rdma.mlx_firmware_info
  - module: vhpc.rdma.host_pci_info
"""

EXAMPLES = r"""
- name: Look at the host before anything is changed
  vhpc.rdma.esxi_info:
    card:
      psid: MT_0000000008
    enforce: true
  register: host
"""

RETURN = r"""
version:
  description: Version of ESXi.
  type: str
  returned: always
build:
  description: Its build number.
  type: int
  returned: always
acceptance:
  description: The host's acceptance level.
  type: str
  returned: always
secure_boot:
  description: Whether the host boots with UEFI Secure Boot; V(null) where it does not tell.
  type: bool
  returned: always
maintenance:
  description: Whether the host is in maintenance mode.
  type: bool
  returned: always
vibs:
  description: VIBs of the driver and of MFT with the version that runs and the one that the next boot brings.
  type: dict
  returned: always
module_options:
  description: The configured option string of each driver module.
  type: dict
  returned: always
mft:
  description: Whether MFT is V(running), V(staged) for the next boot, or V(absent).
  type: str
  returned: always
cards:
  description: All Mellanox/NVIDIA cards.
  type: list
  elements: dict
  returned: always
card:
  description: The card that O(card) means; null where it is not known yet.
  returned: always
  type: dict
  contains:
    bdf: {description: PCI address of its first function., type: str, returned: always}
    psid: {description: Board id; empty where MFT cannot tell., type: str, returned: always}
    part_number: {description: Part number., type: str, returned: always}
    serial: {description: Serial number; empty where it was not asked for or cannot be read., type: str, returned: always}
    firmware: {description: Version of the running firmware., type: str, returned: always}
    mst: {description: The name that the MFT tools have for it at this moment., type: str, returned: always}
    readable: {description: Whether MFT can open it., type: bool, returned: always}
    carries: {description: The VMkernel adapters whose uplink it is., type: list, elements: str, returned: always}
    functions:
      description: One per port, with PCI address, PCI class, vmnic, passthrough state and the switches that use it.
      type: list
      elements: dict
      returned: always
findings:
  description: What was found, with level (error, warning, note), thing, text and hint.
  type: list
  elements: dict
  returned: always
"""
