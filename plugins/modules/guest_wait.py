# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: guest_wait
short_description: Waits until a guest answers
version_added: 0.1.0
description:
  - Waits until the host of the inventory, a guest, answers where Ansible connects to it and a command comes back through the connection.
  - Needs nothing on the guest, not even Python.
  - With the connection to vCenter and O(name), a VM that is not on is told at once instead of when the time is over.
  - In check mode it looks once and succeeds either way.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.info
  - vhpc.rdma.vcenter
options:
  name:
    description: Name of the guest's VM in vCenter.
    type: str
  wait_timeout:
    description: Seconds to wait.
    type: int
    default: 600
seealso:
  - module: vhpc.rdma.vm_power
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: The guest answers
  vhpc.rdma.guest_wait:
    name: "{{ inventory_hostname }}"
"""

RETURN = r"""
reachable:
  description: Whether the guest answers; in check mode it may not.
  returned: success
  type: bool
seconds:
  description: How long it took.
  returned: success
  type: float
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
"""
