# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: vm_tuning
short_description: Size, reservations and latency sensitivity of a VM
version_added: 0.1.0
description:
  - Brings a VM to the size and the settings of a virtual HPC node in one reconfiguration.
  - Memory and its reservation change together. The CPU reservation is vCPUs x the host's MHz, which latency sensitivity High asks for.
  - What the host cannot give is told before anything changes.
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
  cpus:
    description: Number of vCPUs. Without it, the VM keeps its own.
    type: int
  cores_per_socket:
    description:
      - vCPUs per virtual socket.
      - Without it, O(cpus) are spread evenly over as many sockets as the host has, so that the VM's NUMA nodes are the host's; without O(cpus), the VM
        keeps its own.
    type: int
  memory_mb:
    description: Memory in MB. Without it, the VM keeps its own.
    type: int
  reserve_memory:
    description: Reserve the whole memory and keep the reservation locked to the memory size, without a limit. V(false) leaves it as it is.
    type: bool
    default: true
  reserve_cpu:
    description: Reserve vCPUs x MHz of the host, without a limit. V(false) leaves it as it is.
    type: bool
    default: true
  latency:
    description: Latency sensitivity. V(high) gives every vCPU a core of its own and needs O(reserve_memory) and O(reserve_cpu).
    type: str
    choices: [high, normal]
    default: high
  hot_add:
    description: Whether vCPUs and memory can be added while the VM runs. CPU hot add hides the NUMA nodes from the VM.
    type: bool
    default: false
  extra_config:
    description: Further settings of the VM by key, merged with what it has; an empty value removes the key.
    type: dict
    default: {}
  allow_power_cycle:
    description: Whether a running VM may be shut down for the change; it is powered on again afterwards.
    type: bool
    default: false
  power_timeout:
    description: Seconds that powering off, reconfiguring or powering on may take, each.
    type: int
    default: 300
seealso:
  - module: vhpc.rdma.vm_passthru
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: 44 of 48 cores, 144 GB, everything reserved
  vhpc.rdma.vm_tuning:
    name: "{{ vhpc_vm }}"
    cpus: 44
    memory_mb: 147456

- name: A setting of one's own
  vhpc.rdma.vm_tuning:
    name: vm01
    extra_config:
      numa.vcpu.preferHT: true
"""

RETURN = r"""
vm:
  description: The VM as it is after the task.
  returned: success
  type: dict
  sample:
    name: vm01
    host: esxi01
    host_mhz: 2993
    power: poweredOff
    cpus: 44
    cores_per_socket: 22
    memory_mb: 147456
    memory_reservation: 147456
    cpu_reservation: 131692
    latency: high
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
problems:
  description: Everything that stands in the way.
  returned: when something does
  type: list
  elements: str
"""
