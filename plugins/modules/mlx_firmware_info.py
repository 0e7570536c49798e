# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: mlx_firmware_info
short_description: Read the firmware settings of the adapter cards of an ESXi host
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Reads every C(mlxconfig) parameter of the cards, or of one card, with default, current and next-boot value.
  - With O(card) and O(settings) it says whether the firmware runs with what is wanted, which is the proof after the reboot.
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
      - The card to read. All cards when not given.
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
  settings:
    description: What the card should run with. Needs O(card).
    type: dict
    suboptions:
      ports:
        description:
          - The link type by port number. V(ib) is InfiniBand; V(eth), and V(roce) as a plainer word for the same, is Ethernet.
          - Ports that are not named are left alone.
        type: dict
      sriov:
        description:
          - V(false) undoes SR-IOV as it is set up for InfiniBand (C(FORCE_ETH_PCI_SUBCLASS=0), C(SRIOV_EN=0), C(NUM_OF_VFS=0), C(ADVANCED_PCI_SETTINGS=0)).
          - V(true) sets C(SRIOV_EN=1). Left alone when not given.
        type: bool
      raw:
        description: More parameters by the name that C(mlxconfig) gives them, with numbers, booleans or the tool's words as values. They win over the rest.
        type: dict
  rebooted:
    description: Whether the host has rebooted since the settings were written. A value that is not current then needs a cold power cycle.
    type: bool
    default: false
  enforce:
    description: Fail when the card does not run with O(settings). Not in check mode, and not where MFT cannot open the card.
    type: bool
    default: false
notes:
  - Runs on the controller and talks to the ESXi shell through the task's SSH connection, or to C(esxcli) through vCenter (O(transport)). The host needs
    no Python, and C(gather_facts) must be off.
seealso:
  - module: vhpc.rdma.mlx_firmware
"""

EXAMPLES = r"""
- name: All cards with all parameters
  vhpc.rdma.mlx_firmware_info:
  register: firmware

- name: Prove that the card runs with what was set
  vhpc.rdma.mlx_firmware_info:
    card:
      psid: MT_0000000008
    settings:
      ports: {1: ib, 2: roce}
      sriov: false
    rebooted: true
    enforce: true
"""

RETURN = r"""
cards:
  description: The cards that were read, each with C(parameters).
  type: list
  elements: dict
  returned: always
card:
  description: The card that O(card) means.
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
matches:
  description: Whether the firmware runs with O(settings); V(null) where it cannot be told.
  type: bool
  returned: always
differences:
  description: What does not run as wanted, with name, wanted, current, next and why.
  type: list
  elements: dict
  returned: always
reachable:
  description: Whether MFT can open the card.
  type: bool
  returned: always
reason:
  description: Why it cannot be told.
  type: str
  returned: always
reboot_required:
  description: Whether a reset of the card is missing.
  type: bool
  returned: always
power_cycle_required:
  description: Whether only a cold power cycle helps.
  type: bool
  returned: always
"""
