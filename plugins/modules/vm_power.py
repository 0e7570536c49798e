# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: vm_power
short_description: Power state of a VM
version_added: 0.1.0
description:
  - Powers a VM on or off, or restarts it, and waits for the power state. See M(vhpc.rdma.guest_wait) for the guest.
  - A running VM is shut down through its tools, and switched off when they do not answer in time.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  name:
    description: Name of the VM.
    type: str
    required: true
  state:
    description:
      - V(restarted) powers a running VM off and on, and a VM that is off on.
      - V(present) only looks whether the VM is there.
    type: str
    choices: ["on", "off", restarted, present]
    default: "on"
  power_off_ok:
    description: Whether a running VM may be taken down.
    type: bool
    default: false
  power_timeout:
    description: Seconds that powering off or on may take, each.
    type: int
    default: 300
attributes:
  idempotent:
    support: partial
    details:
      - O(state=restarted) restarts every time.
seealso:
  - module: vhpc.rdma.guest_wait
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: Power a VM on
  vhpc.rdma.vm_power:
    name: "{{ vhpc_vm }}"

- name: Restarted
  vhpc.rdma.vm_power:
    name: vm01
    state: restarted
    power_off_ok: true
"""

RETURN = r"""
vm:
  description: Name, power state and host of the VM after the task.
  returned: success
  type: dict
  sample:
    name: vm01
    power: "on"
    host: esxi01
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
"""
