# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: esxi_reboot
short_description: Reboots an ESXi host when there is a reason and consent
version_added: 0.1.0
description:
  - Takes the reasons that earlier tasks gave and does nothing when there is none.
  - Enters maintenance mode, reboots the host through vCenter, waits until it is connected with a new boot time, leaves maintenance mode, and waits until
    SSH answers if it did before.
  - Says every 15 seconds what it waits for. Every wait is bounded, and the error tells the last state and what to look at.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
options:
  reasons:
    description: Why the host needs a reboot, such as RV(vhpc.rdma.host_passthru#module:reboot_reasons). No reason, no reboot.
    type: list
    elements: str
    default: []
  conditional_reasons:
    description:
      - Reasons that may come up in a real run but cannot be known yet. Only check mode looks at them; it then reports a step that is C(conditional).
    type: list
    elements: str
    default: []
  reboot_ok:
    description: Whether the host may be rebooted. If it may not and there are reasons, the task fails and lists them.
    type: bool
    default: false
  vm_shutdown_ok:
    description:
      - Whether VMs that run on the host may be shut down. If not, the task fails and names them.
      - The agent VMs of the vSphere Cluster Services do not count; vCenter sees to them itself.
    type: bool
    default: false
  vm_start:
    description: Whether VMs that were shut down for the reboot are powered on again.
    type: bool
    default: true
  maintenance:
    description: Whether the host goes through maintenance mode. A host that is in it already stays in it.
    type: bool
    default: true
  leave_maintenance:
    description: Take the host out of maintenance mode in the end, also when there is no reason to reboot and whoever put it there.
    type: bool
    default: false
  maintenance_timeout:
    description: Seconds that entering or leaving maintenance mode, or shutting down a VM, may take.
    type: int
    default: 900
  reboot_timeout:
    description: Seconds from the reboot until the host is back.
    type: int
    default: 3600
  start_ssh:
    description: Start the SSH server after the boot if it ran before and its policy does not. The policy stays as it is.
    type: bool
    default: true
  state_file:
    description:
      - File on the controller that remembers that the host is in maintenance mode because of this module.
      - With it, a later run takes a host out of maintenance mode that came back too late for the first.
    type: path
  checks:
    description:
      - Steps (RV(vhpc.rdma.nmlx_driver#module:changes) and the like) whose reboot this is. After the boot, each VIB, module option and passthrough state
        among them is looked up through vCenter, and the task fails with what is not in force.
      - Card settings are proven by M(vhpc.rdma.mlx_firmware_info).
    type: list
    elements: dict
    default: []
  retry:
    description: Reboot once more, and only once, when a check does not hold.
    type: bool
    default: false
  vsan_evacuation:
    description: What vSAN does with the host's data before it enters maintenance mode.
    type: str
    choices: [ensure_accessibility, full, none]
    default: ensure_accessibility
  vsan_hosts_down_max:
    description:
      - How many hosts of a cluster with vSAN may be away (not connected, or in maintenance mode) at a time, this one included. V(0) does not count.
      - Hosts of one play wait for their turn, with any number of forks. A host that stays away longer than O(maintenance_timeout) ends the wait.
    type: int
    default: 1
notes:
  - Hosts of a cluster without vSAN go down together. Run them a few at a time with C(serial) and C(max_fail_percentage) of the play, or C(throttle).
seealso:
  - module: vhpc.rdma.host_passthru
author:
  - vhpc.rdma authors (@vhpc-rdma)
"""

EXAMPLES = r"""
- name: One reboot for everything that waits for one
  vhpc.rdma.esxi_reboot:
    reasons: "{{ software.reboot_reasons + driver.reboot_reasons + passthru.reboot_reasons }}"
    reboot_ok: true
"""

RETURN = r"""
rebooted:
  description: Whether the host was rebooted.
  returned: success
  type: bool
reasons:
  description: Why.
  returned: success
  type: list
  elements: str
seconds:
  description: How long it took, from the first request until SSH answered.
  returned: success
  type: float
boot_time:
  description: The host's boot time before and after.
  returned: success
  type: dict
  sample:
    before: "2026-11-29T08:12:44+00:00"
    after: "2026-11-29T09:40:02+00:00"
vms_shut_down:
  description: VMs that were shut down for it.
  returned: success
  type: list
  elements: str
needs:
  description: The consents that a real run would refuse for lack of.
  returned: in check mode
  type: list
  elements: str
changes:
  description: The steps that were done, or would be done in check mode.
  returned: success
  type: list
  elements: dict
"""
