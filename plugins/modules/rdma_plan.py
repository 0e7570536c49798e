# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: rdma_plan
short_description: Collect what every stage would do into one plan
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Collects what the collection's roles registered in check mode and shows, per host, the steps, the reboots with their reasons,
    and what cannot be known yet.
  - After a real run the same module tells what happened.
  - It runs on the controller and talks to no host.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.info
options:
  path:
    description: File on the controller that gets the plan as JSON. It is written in check mode too, because the plan is what check mode is run for.
    type: path
  hosts:
    description: The hosts to collect from. All hosts of the inventory when not given.
    type: list
    elements: str
  show:
    description: Whether the plan is printed.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Plan the ESXi stage of all hosts
  hosts: esxi
  gather_facts: false
  check_mode: true
  tasks:
    - name: Ask what would change
      ansible.builtin.import_role:
        name: vhpc.rdma.esxi

    - name: Show the plan
      vhpc.rdma.rdma_plan:
        path: build/plan.json
      run_once: true
"""

RETURN = r"""
plan:
  description: The plan as data.
  returned: always
  type: dict
  contains:
    hosts:
      description: Per host the steps, reboots, warnings and errors.
      type: dict
    sure:
      description: How many steps will happen.
      type: int
    conditional:
      description: How many steps depend on what cannot be read yet.
      type: int
    reboots:
      description: Reboots per host, only hosts that have any.
      type: dict
    reboots_max:
      description: The largest number of reboots on one host.
      type: int
    errors:
      description: How many errors were met.
      type: int
    empty:
      description: Whether there is nothing to do.
      type: bool
text:
  description: The plan as lines of text.
  returned: always
  type: list
  elements: str
path:
  description: Where the JSON lies.
  returned: always
  type: str
"""
