# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: vm_tuning
short_description: Size, reservations and latency sensitivity of VMs
version_added: 0.1.0
description:
  - Brings a VM to the size and the settings of a virtual HPC node in one reconfiguration.
  - One task does it for one VM (O(name)) or for many (O(vms)), which are reconfigured side by side.
  - Memory and its reservation change together. The CPU reservation is vCPUs x the host's MHz, which latency sensitivity High asks for.
  - What the host cannot give is told before anything changes. That counts what other VMs that are on have reserved there; the error names them and the
    numbers.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  name:
    description: Name of the VM. Exactly one of O(name) and O(vms) is given.
    type: str
  vms:
    description:
      - Many VMs in one task. All of them are looked at before any is changed, they are reconfigured side by side, and one wait follows all of them.
      - Run such a task once (C(run_once) or a play on C(localhost)), not for every host.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the VM.
        type: str
        required: true
      esxi_hostname:
        description: The host that the VM has to be on.
        type: str
      cpus:
        description: As O(cpus), for this VM.
        type: int
      cores_per_socket:
        description: As O(cores_per_socket), for this VM.
        type: int
      memory_mb:
        description: As O(memory_mb), for this VM.
        type: int
      cpu_affinity:
        description: As O(cpu_affinity), for this VM.
        type: list
        elements: int
      numa_affinity:
        description: As O(numa_affinity), for this VM.
        type: list
        elements: int
      extra_config:
        description: As O(extra_config), for this VM, instead of it.
        type: dict
  profile:
    description:
      - What is set where an option below is not given.
      - V(hpc) reserves memory and vCPUs, sets latency sensitivity V(high) and switches hot add off, as VMware's HPC studies do.
      - V(none) sets only what is given.
    type: str
    choices: [hpc, none]
    default: hpc
  leave:
    description: Settings that stay as the VM has them, whatever O(profile) says.
    type: list
    elements: str
    choices: [reserve_memory, reserve_cpu, latency, hot_add]
    default: []
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
  reserve_cpu:
    description:
      - Reserve what the vCPUs need of the host's MHz, without a limit. V(false) leaves it as it is.
      - That is one core for each vCPU, or one for two of them with O(latency=high_with_hyperthreading).
    type: bool
  latency:
    description:
      - Latency sensitivity. V(high) gives every vCPU a core of its own and needs memory and vCPUs reserved.
      - V(high_with_hyperthreading) gives every pair of vCPUs a core, and the guest sees them as its hyperthreads (vSphere 8.0, hardware version 20).
    type: str
    choices: [high, high_with_hyperthreading, normal]
  hot_add:
    description: Whether vCPUs and memory can be added while the VM runs. CPU hot add hides the NUMA nodes from the VM.
    type: bool
  cpu_affinity:
    description: Logical CPUs of the host that the VM may run on; an empty list lifts it. It excludes latency sensitivity V(high).
    type: list
    elements: int
  numa_affinity:
    description: NUMA nodes of the host that the VM's memory and vCPUs come from (C(numa.nodeAffinity)); an empty list lifts it.
    type: list
    elements: int
  cores_per_numa_node:
    description: vCPUs per virtual NUMA node (vSphere 8.0, hardware version 20); V(0) lets ESXi choose.
    type: int
  prefer_hyperthreads:
    description: Whether a VM is kept on few NUMA nodes by using both hyperthreads of a core (C(numa.vcpu.preferHT)).
    type: bool
  extra_config:
    description: Further settings of the VM by key, merged with what it has; an empty value removes the key.
    type: dict
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

- name: Many VMs in one task, one of them larger
  vhpc.rdma.vm_tuning:
    cpus: 44
    memory_mb: 147456
    vms:
      - name: vm01
      - name: vm02
        memory_mb: 327680
  run_once: true
  delegate_to: localhost

- name: All but the latency sensitivity
  vhpc.rdma.vm_tuning:
    name: vm01
    leave: [latency]

- name: Nothing but the NUMA nodes
  vhpc.rdma.vm_tuning:
    name: vm01
    profile: none
    numa_affinity: [0]

- name: A setting of one's own
  vhpc.rdma.vm_tuning:
    name: vm01
    extra_config:
      numa.vcpu.preferHT: true
"""

RETURN = r"""
vm:
  description: The VM as it is after the task.
  returned: when name is given
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
    threads: 1
vms:
  description: The same of each VM, and whether it is changed.
  returned: when vms is given
  type: list
  elements: dict
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
