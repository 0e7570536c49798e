# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: bios_settings
short_description: Set the BIOS settings that passthrough needs, through Redfish
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Reads a server's BIOS attributes from its BMC, tells current from pending, and with consent stores what is missing for the next reset.
  - It never resets the server. What is pending is returned as a reason to reboot, so that it joins the host's next reboot.
  - Attributes are wanted by intent, and found by the names and values that the BMC offers (Dell iDRAC, HPE iLO, Supermicro, Lenovo).
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
options:
  baseuri:
    description: Address of the BMC, with a port where it is not 443, for example V(10.0.3.1).
    type: str
    required: true
  username:
    description: User of the BMC.
    type: str
    required: true
  password:
    description: Password of that user.
    type: str
    required: true
  validate_certs:
    description: Whether the BMC's certificate is verified.
    type: bool
    default: true
  ca_file:
    description: File with the CA that signed the BMC's certificate.
    type: path
  timeout:
    description: Longest wait for one answer of the BMC, in seconds.
    type: int
    default: 60
  system:
    description: Id of the computer system, needed only where the BMC lists several.
    type: str
    default: ""
  virtualization:
    description: Processor virtualization and directed I/O (VT-x and VT-d, or AMD-V and IOMMU). Left alone when not given.
    type: bool
  sriov:
    description: The BIOS's global SR-IOV switch. Left alone when not given.
    type: bool
  logical_processors:
    description: Logical processors (hyperthreading). Left alone when not given.
    type: bool
  power_profile:
    description:
      - The system power profile. Left alone when not given.
      - V(performance_per_watt_os) is C(SysProfile=PerfPerWattOptimizedOs) on Dell and C(WorkloadProfile=Virtualization-PowerEfficient) on HPE.
      - HPE's HPC profiles are refused, because they switch virtualization and SR-IOV off.
    type: str
    choices: [performance, performance_per_watt_os]
  attributes:
    description: More attributes by their name in the BMC's registry.
    type: dict
    default: {}
  set_ok:
    description: Consent. Without it, the task fails before the first write when something differs.
    type: bool
    default: false
seealso:
  - module: vhpc.rdma.esxi_reboot
"""

EXAMPLES = r"""
- name: Have the BIOS settings that the paper's hosts have
  vhpc.rdma.bios_settings:
    baseuri: "{{ vhpc_bmc.baseuri }}"
    username: "{{ vhpc_bmc.username }}"
    password: "{{ vhpc_bmc.password }}"
    virtualization: true
    sriov: true
    logical_processors: true
    power_profile: performance_per_watt_os
    set_ok: true
  register: bios_result

- name: See what is pending
  ansible.builtin.debug:
    msg: "{{ bios_result.reboot_reasons }}"
"""

RETURN = r"""
changes:
  description: One entry per attribute that is, or in check mode would be, stored.
  returned: always
  type: list
  elements: dict
current:
  description: The wanted attributes as they are now.
  returned: always
  type: dict
pending:
  description: Attributes that the next reset changes, with the value they get.
  returned: always
  type: dict
wanted:
  description: The wanted attributes, by name and value on this BMC.
  returned: always
  type: dict
job:
  description: Id of the Dell job that applies them at the next reset, or empty.
  returned: always
  type: str
vendor:
  description: Manufacturer as the BMC says it.
  returned: always
  type: str
model:
  description: Model as the BMC says it.
  returned: always
  type: str
bios_version:
  description: Version of the BIOS that runs, as the BMC says it.
  returned: always
  type: str
reboot_required:
  description: Whether something is pending.
  returned: always
  type: bool
reboot_reasons:
  description: What is pending, one text each.
  returned: always
  type: list
  elements: str
power_cycle_required:
  description: Always false for this module.
  returned: always
  type: bool
"""
