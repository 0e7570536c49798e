# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: nmlx_driver
short_description: Install the nmlx5 driver of an ESXi host and set its options
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Brings the driver to a version, and merges options of its kernel modules by key. Options that are not named are kept, in their order.
  - Options are the configured ones, which the module gets when it is loaded at the next boot. ESXi does not show those that it runs with, so a reboot is
    asked for when this run changed something.
  - Options hold for every card of the module. A warning says so when the host has more than one.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
  - vhpc.rdma.vcenter.transport
options:
  name:
    description: Name of the driver's VIB.
    type: str
    default: nmlx5-core
  version:
    description: Wanted version of the driver. Its version is left alone when not given.
    type: str
  at_least:
    description: Whether a newer version is as good.
    type: bool
    default: true
  source:
    description: Absolute path on the host of the driver's offline bundle or VIB. Needed only where it must be installed.
    type: str
  checksum:
    description: SHA-256 of the file, written as V(sha256:) and 64 hex digits.
    type: str
  local:
    description:
      - A file on the controller that belongs at O(source). Where it is not there or not the same, it is uploaded through vCenter, whose connection options
        are then needed, before it is installed. O(source) must name the datastore by its name.
    type: path
  install_as:
    description: How an offline bundle goes in, V(vib) by C(esxcli software vib install), V(component) by C(esxcli software component apply).
    type: str
    choices: [vib, component]
    default: vib
  allow_downgrade:
    description: Replace a newer version by the wanted one where O(at_least=false).
    type: bool
    default: false
  options:
    description:
      - Module name, then option and value. V(absent) (or null) removes an option. A list is written as one value per port.
      - A mapping of PCI addresses to values becomes the list of an option that counts the ports of all cards, such as C(max_vfs), in the order of the ports
        that the host has, with 0 for those that are not named.
    type: dict
    default: {}
  purge:
    description:
      - Remove every option of the named modules that O(options) does not name. This is what the paper does.
      - It also removes what the host's own network may need on the same module, such as C(pfctx) and C(trust_state).
    type: bool
    default: false
  state_file:
    description:
      - File on the controller that remembers when options were set, so that a later run still asks for the reboot that an interrupted one did not reach.
    type: path
notes:
  - Runs on the controller and talks to the ESXi shell through the task's SSH connection, or to C(esxcli) through vCenter (O(transport)). The host needs
    no Python, and C(gather_facts) must be off.
  - Without O(state_file), a run after one that set options and was stopped before the reboot finds the options right and does not ask for that reboot.
seealso:
  - module: vhpc.rdma.esxi_software
  - module: vhpc.rdma.esxi_reboot
"""

EXAMPLES = r"""
- name: The driver of the paper or a newer one, without virtual functions
  vhpc.rdma.nmlx_driver:
    version: 4.21.71.101
    source: /vmfs/volumes/hpc-nfs/rdma/Mellanox-nmlx5_4.21.71.101-1OEM.702.0.0.17630552.zip
    options:
      nmlx5_core:
        max_vfs: absent
  register: driver

- name: Virtual functions on one port only, wherever it counts among the host's ports
  vhpc.rdma.nmlx_driver:
    options:
      nmlx5_core:
        max_vfs:
          "0000:3b:00.1": 8

- name: Clear all options of the module, as the paper does
  vhpc.rdma.nmlx_driver:
    options:
      nmlx5_core: {}
    purge: true
"""

RETURN = r"""
options:
  description: The option string of each named module, before and after.
  type: dict
  returned: always
  sample: {nmlx5_core: {before: "max_vfs=0,0,16,16 pfctx=0x08", after: pfctx=0x08}}
vibs:
  description:
    - The driver's VIBs (C(nmlx5-core), C(nmlx5-rdma) and whatever else its bundle has) with the version that runs and the one that the next boot brings.
  type: dict
  returned: always
results:
  description: What esxcli said of an installation.
  type: list
  elements: dict
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
