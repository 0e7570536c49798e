# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: host_power_policy
short_description: Power policy of an ESXi host
version_added: 0.1.0
description:
  - Sets the power policy of a host through vCenter. It holds at once and needs no reboot.
  - Policies are known by their short names, which do not depend on the language of the host as their shown names do.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  policy:
    description:
      - V(static) is what the vSphere client calls High Performance, V(dynamic) Balanced, V(low) Low Power.
      - V(high_performance), V(balanced) and V(low_power) are other words for them.
    type: str
    choices: [static, dynamic, low, custom, high_performance, balanced, low_power]
    default: static
seealso:
  - module: vhpc.rdma.bios_settings
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: High Performance
  vhpc.rdma.host_power_policy:
    policy: high_performance
"""

RETURN = r"""
policy:
  description: Short name of the policy that is in force after the task.
  returned: success
  type: str
  sample: static
available:
  description: Short names of the policies that the host offers.
  returned: success
  type: list
  elements: str
  sample: [static, dynamic, low, custom]
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
"""
