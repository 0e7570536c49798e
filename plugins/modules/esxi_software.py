# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: esxi_software
short_description: Install or remove VIBs on an ESXi host
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Installs VIBs and offline bundles from a path on the host, such as NVIDIA's MFT and NMST, and only what is missing.
  - The running image and the image of the next boot are told apart. What is installed but does not run is a reason to reboot, not a change.
  - Versions are compared as versions. A newer one that is already there is never replaced by an older one without O(allow_downgrade).
  - All VIB files go into one C(esxcli software vib install), so that packages that belong together are installed together.
  - Before the first write, every file is checked for existence, SHA-256 and acceptance level.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
  - vhpc.rdma.vcenter.transport
options:
  packages:
    description: The VIBs.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the VIB as C(esxcli software vib list) shows it.
        type: str
        required: true
      version:
        description: Wanted version, with or without the release after the dash. Any version when not given.
        type: str
      at_least:
        description: Whether a newer version is as good.
        type: bool
        default: true
      source:
        description:
          - Absolute path on the host of the VIB file or of the offline bundle (C(.zip)), best on a shared datastore.
          - Needed only where something must be installed. Several packages may name the same bundle.
        type: str
      checksum:
        description: SHA-256 of the file, written as V(sha256:) and 64 hex digits.
        type: str
      local:
        description:
          - A file on the controller that belongs at O(packages[].source). Where it is not there or not the same, it is uploaded through vCenter, whose
            connection options are then needed, before it is installed. On a shared datastore the first host uploads and the others find it.
          - O(packages[].source) must name the datastore by its name.
        type: path
  state:
    description: Whether the VIBs should be there.
    type: str
    choices: [present, absent]
    default: present
  allow_downgrade:
    description: Replace a newer version by the wanted one where O(packages[].at_least=false).
    type: bool
    default: false
  force:
    description:
      - Pass C(--force), which skips dependency checks. It does not get around the host's acceptance level.
      - Signed VIBs do not need it.
    type: bool
    default: false
  install_as:
    description:
      - How an offline bundle goes in. V(vib) is C(esxcli software vib install), V(component) C(esxcli software component apply), which keeps the list of
        components of ESXi 7 and later right. A single VIB file is always installed as a VIB.
    type: str
    choices: [vib, component]
    default: vib
notes:
  - Runs on the controller and talks to the ESXi shell through the task's SSH connection, or to C(esxcli) through vCenter (O(transport)). The host needs
    no Python, and C(gather_facts) must be off.
  - A host that vSphere Lifecycle Manager manages by an image loses what is not part of the image at the next remediation. Add the VIBs to the image there.
    Where the connection to vCenter is given, such a cluster is found and warned about before something is installed.
  - An installation that somebody else left for the next boot is named in a warning, and what it already brings is not installed again.
seealso:
  - module: vhpc.rdma.nmlx_driver
  - module: vhpc.rdma.esxi_reboot
"""

EXAMPLES = r"""
- name: MFT and NMST as the paper has them, or newer
  vhpc.rdma.esxi_software:
    packages:
      - name: mft
        version: 4.18.1.14
        source: /vmfs/volumes/hpc-nfs/rdma/mft-4.18.1.14-0.vib
      - name: nmst
        version: 4.18.1.14
        source: /vmfs/volumes/hpc-nfs/rdma/nmst-4.18.1.14-1OEM.700.1.0.15843807.vib
  register: software

- name: Reboot if they are installed but do not run
  vhpc.rdma.esxi_reboot:
    reasons: "{{ software.reboot_reasons }}"
    reboot_ok: true
"""

RETURN = r"""
vibs:
  description: The packages with the version that runs and the one that the next boot brings.
  type: dict
  returned: always
  sample: {mft: {running: "", next: 4.18.1.14-0}}
blocking:
  description: Whether later steps of the same run need something that does not run yet (MFT, NMST).
  type: bool
  returned: always
acceptance:
  description: The host's acceptance level.
  type: str
  returned: always
secure_boot:
  description: Whether the host boots with UEFI Secure Boot; V(null) where it does not tell.
  type: bool
  returned: always
results:
  description: What esxcli said, one entry per call.
  type: list
  elements: dict
  returned: always
changes:
  description: What differs, as steps with stage, thing, name, before, after, certainty, reason and the reboot that makes it current.
  type: list
  elements: dict
  returned: always
reboot_required:
  description: Whether a reboot of the host is missing, for a change of this run or an earlier one.
  type: bool
  returned: always
reboot_reasons:
  description: Why, one sentence per reason; hand them to M(vhpc.rdma.esxi_reboot).
  type: list
  elements: str
  returned: always
"""
