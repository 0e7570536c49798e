# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: esxi_service
short_description: A service of an ESXi host, such as its SSH server
version_added: 0.1.0
description:
  - Starts or stops a service of a host through vCenter and sets its startup policy.
  - With O(state_file), what was found is recorded on the controller before the first change, and O(restore) puts it back.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  service:
    description: Key of the service. V(TSM-SSH) is the SSH server, V(TSM) the local shell.
    type: str
    default: TSM-SSH
  running:
    description: Whether the service runs. Without it, that stays.
    type: bool
  policy:
    description: Whether the service starts with the host. Without it, that stays.
    type: str
    choices: ["on", "off", automatic]
  state_file:
    description:
      - File on the controller that keeps what was found. What it says already is kept, so that a run after one that died still knows the first state.
      - Hosts that run at the same time need files of their own.
    type: path
  restore:
    description: Put back what O(state_file) says and forget it. Nothing happens where it says nothing.
    type: bool
    default: false
seealso:
  - module: vhpc.rdma.esxi_reboot
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: SSH for the run
  vhpc.rdma.esxi_service:
    running: true
    state_file: "{{ vhpc_run_dir }}/service-{{ inventory_hostname }}.json"

- name: As it was
  vhpc.rdma.esxi_service:
    restore: true
    state_file: "{{ vhpc_run_dir }}/service-{{ inventory_hostname }}.json"
"""

RETURN = r"""
service:
  description: The service after the task; none when there was nothing to restore.
  returned: success
  type: dict
  sample:
    key: TSM-SSH
    running: true
    policy: "off"
restored:
  description: Whether a recorded state was put back.
  returned: success
  type: bool
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
lockdown:
  description:
    - Lockdown mode of the host, C(lockdownDisabled), C(lockdownNormal) or C(lockdownStrict). It is read and explained in a warning, never changed.
    - Empty where there was nothing to restore, since nobody was asked.
  returned: success
  type: str
"""
