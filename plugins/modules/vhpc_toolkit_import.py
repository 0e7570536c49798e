# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: vhpc_toolkit_import
short_description: An inventory from a cluster file of vhpc_toolkit
version_added: 0.1.0
description:
  - Reads the cluster file that C(vhpc_toolkit cluster --create) takes, with its macros and ranges, and makes an inventory for this collection of it.
  - What has no counterpart is listed with the reason, in the result and as comments in the file. Passwords are not copied.
  - VMs become the group C(guests), the hosts they name the group C(esxi), in pairs by C(vhpc_vm) and C(vhpc_host). Size, reservations, latency sensitivity
    and devices become the C(vsphere_*) variables of the host. The settings of the clone, its guest's name and address among them, become C(vhpc_clone) of
    the VM.
  - Only files on the controller are read and written.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
options:
  src:
    description: The cluster file.
    type: path
    required: true
  dest:
    description: The inventory to write. Without it, the result alone has it.
    type: path
seealso:
  - plugin: vhpc.rdma.cluster
    plugin_type: inventory
  - module: vhpc.rdma.vm_clone
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: Take over a cluster file
  vhpc.rdma.vhpc_toolkit_import:
    src: cluster.conf
    dest: inventory.yml
  register: imported

- name: What has no counterpart
  ansible.builtin.debug:
    var: imported.left
"""

RETURN = r"""
inventory:
  description: The inventory as data.
  returned: success
  type: dict
left:
  description: What has no counterpart, with the reason and where it stands.
  returned: success
  type: list
  elements: dict
  sample:
    - key: vgpu
      reason: vGPU profiles are not set up here
      where: [compute01]
path:
  description: The file that was written.
  returned: success
  type: str
"""
