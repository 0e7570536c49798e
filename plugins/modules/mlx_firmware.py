# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: mlx_firmware
short_description: Set the firmware settings of one adapter card of an ESXi host
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Sets link types, SR-IOV and any other C(mlxconfig) parameter of one ConnectX card, in one C(mlxconfig set), and only what differs.
  - Next-boot and current values are told apart. What differs from the next-boot value is set; what is set but not current is a reason to reboot.
  - A parameter that the card does not show is a state of its own. A C(FORCE_ETH_PCI_SUBCLASS=1) hidden by C(ADVANCED_PCI_SETTINGS=0) is found by the
    PCI class of the InfiniBand port, shown, and cleared.
  - A card that carries a VMkernel adapter (management, vSAN, vMotion) is refused before anything is written.
  - The card's identity is read again right before the write.
  - The mst driver is started for reading, and stopped again if nothing was written and it did not run before.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
  - vhpc.rdma.vcenter.transport
options:
  card:
    description:
      - The card.
      - A card is told by what it is, never by an mst or vmnic name, since those change between boots.
      - Everything that is given must fit, and exactly one card must fit; else the error lists the cards that were found.
    type: dict
    required: true
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
    description: What the card's firmware should be set to.
    type: dict
    required: true
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
  allow_management_card:
    description: Also write to a card that carries a VMkernel adapter. A mistake there cuts the host off from vCenter or its storage.
    type: bool
    default: false
  rebooted:
    description:
      - Whether the host has rebooted since the settings were written.
      - A value that is still not current is then a card that needs a cold power cycle (RV(power_cycle_required)), not a reason for one more reboot.
    type: bool
    default: false
  state_file:
    description:
      - File on the controller that remembers when the card was set, so that a later run knows whether the host has rebooted since (see O(rebooted)).
      - Without it, a card that needs a cold power cycle is told from one that waits for a reboot only within one run.
    type: path
notes:
  - Runs on the controller and talks to the ESXi shell through the task's SSH connection, or to C(esxcli) through vCenter (O(transport)). The host needs
    no Python, and C(gather_facts) must be off.
  - Needs MFT and NMST on the host. In check mode on a host without them, the wanted values are returned as conditional steps.
seealso:
  - module: vhpc.rdma.mlx_firmware_info
  - module: vhpc.rdma.esxi_software
  - module: vhpc.rdma.esxi_reboot
"""

EXAMPLES = r"""
- name: Port 1 InfiniBand, port 2 RoCE, SR-IOV undone
  vhpc.rdma.mlx_firmware:
    card:
      psid: MT_0000000008
    settings:
      ports:
        1: ib
        2: roce
      sriov: false
  register: firmware

- name: Ethernet again on both ports of the card at an address
  vhpc.rdma.mlx_firmware:
    card:
      psid: MT_0000000008
      pci: "0000:3b:00.0"
    settings:
      ports: {1: eth, 2: eth}
"""

RETURN = r"""
card:
  description: The card that was chosen; null where MFT does not run yet.
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
parameters:
  description: Every wanted parameter with what the card shows now for current and next boot, what is wanted, and a verdict.
  type: dict
  returned: always
  sample: {LINK_TYPE_P1: {shown: true, current: ETH(2), next: IB(1), wanted: IB(1), verdict: pending}}
mst_device:
  description: The name that the MFT tools have for the card at this moment.
  type: str
  returned: always
reachable:
  description: V(false) where passthrough owns the card and MFT cannot open it; V(null) where MFT does not run yet (check mode).
  type: bool
  returned: always
verified:
  description: Whether the card's settings were read; V(false) where nothing can be claimed about them.
  type: bool
  returned: always
power_cycle_required:
  description: Whether only a cold power cycle makes the settings current.
  type: bool
  returned: always
power_cycle_reasons:
  description: Why.
  type: list
  elements: str
  returned: always
changes:
  description: What differs, as steps with stage, thing, name, before, after, certainty, reason and the reboot that makes it current.
  type: list
  elements: dict
  returned: always
reboot_required:
  description: Whether a reboot of the host is missing, for a change of this run or an earlier one.
  type: bool
  returned: always
reboot_reasons:
  description: Why, one sentence per reason; hand them to M(vhpc.rdma.esxi_reboot).
  type: list
  elements: str
  returned: always
"""
