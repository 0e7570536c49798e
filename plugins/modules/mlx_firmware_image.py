# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: mlx_firmware_image
short_description: Burn a firmware image into one adapter card of an ESXi host
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Burns one image that lies on the host (or on a datastore of it) into one card, only where the version on flash is another one. A file goes in with
    C(flint); out of a directory, or from the vendor's server, C(mlxfwmanager) takes the image for the card's PSID.
  - An image for another PSID, of another version than O(version), older than what is on flash, or unsigned for a card that takes signed images only
    is refused before anything is written.
  - The version on flash and the one that runs are told apart. What is on flash and does not run is a reason to reboot, not to burn again.
  - Two burns never run at once on a host. The tasks of a controller wait for each other, and a firmware tool that somebody else runs there is refused.
  - The vendor's server is asked only with O(online) and O(online_ok). The role C(vhpc.rdma.esxi) does not burn.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.full
  - vhpc.rdma.vcenter
  - vhpc.rdma.vcenter.host
  - vhpc.rdma.vcenter.transport
options:
  card:
    description:
      - The card.
      - A card is told by what it is, never by an mst or vmnic name, since those change between boots.
      - Everything that is given must fit, and exactly one card must fit; else the error lists the cards that were found.
    type: dict
    required: true
    suboptions:
      psid:
        description: Board id of the card, for example V(MT_0000000008).
        type: str
      part_number:
        description: Part number, with or without its revision, for example V(MCX556A-ECA) or V(MCX556A-ECA_Ax).
        type: str
      serial:
        description: Serial number in the card's vital product data.
        type: str
      guid:
        description: GUID of the card or of one of its ports, in any notation.
        type: str
      mac:
        description: MAC address of one of its ports, in any notation.
        type: str
      pci:
        description: PCI address of one of its functions, for example V(0000:3b:00.0).
        type: str
  image:
    description: Absolute path on the host of the image file. One of O(image), O(image_dir) and O(online) is needed, and only one.
    type: str
  image_dir:
    description:
      - Absolute path on the host of a directory that has exactly one image for the card's PSID, as a file or in an archive of the vendor. Needs SSH.
      - What lies in an archive cannot be looked into beforehand, so that the tool alone tells whether a card of signed firmware takes it.
    type: str
  online:
    description: Let the host fetch the image from the vendor's server, which offers its newest one. Needs O(version), O(online_ok) and SSH.
    type: bool
    default: false
  online_ok:
    description: Consent to have the host connect to the vendor's server, in check mode too.
    type: bool
    default: false
  version:
    description: The exact version that the image must have.
    type: str
  checksum:
    description: SHA-256 of O(image), as C(sha256:) and 64 hex digits. Not checked when not given. Needs SSH.
    type: str
  burn_ok:
    description: Consent to write the card's firmware.
    type: bool
    default: false
  allow_downgrade:
    description: Also burn an image older than what is on flash.
    type: bool
    default: false
  allow_management_card:
    description: Also burn a card that carries a VMkernel adapter.
    type: bool
    default: false
notes:
  - Runs on the controller and talks to the ESXi shell through the task's SSH connection, or to C(esxcli) through vCenter (O(transport)). The host needs
    no Python, and C(gather_facts) must be off.
  - Needs MFT and NMST on the host. One MFT program runs at a time per host.
  - How the tools refuse an unsigned image, and how C(mlxfwmanager) answers without the vendor's server, was never seen on hardware.
seealso:
  - module: vhpc.rdma.mlx_firmware
  - module: vhpc.rdma.esxi_reboot
"""

EXAMPLES = r"""
- name: Firmware of the ConnectX-5 VPI cards
  vhpc.rdma.mlx_firmware_image:
    card:
      psid: MT_0000000008
    image: /vmfs/volumes/hpc-nfs/firmware/fw-ConnectX5-rel-16_35_4030-MCX556A-ECA_Ax.bin
    version: 16.35.4030
    checksum: "sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
    burn_ok: true
  register: image

- name: The one image for this card in a directory of images for many
  vhpc.rdma.mlx_firmware_image:
    card:
      pci: "0000:3b:00.0"
    image_dir: /vmfs/volumes/hpc-nfs/firmware
    version: 16.35.4030
    burn_ok: true
  register: image

- name: Reboot into it
  vhpc.rdma.esxi_reboot:
    reasons: "{{ image.reboot_reasons }}"
    reboot_ok: true
"""

RETURN = r"""
card:
  description: The card that was chosen; null where MFT does not run yet.
  returned: always
  type: dict
  contains:
    bdf: {description: PCI address of its first function., type: str, returned: always}
    psid: {description: Board id; empty where MFT cannot tell., type: str, returned: always}
    part_number: {description: Part number., type: str, returned: always}
    serial: {description: Serial number; empty where it was not asked for or cannot be read., type: str, returned: always}
    firmware: {description: Version of the running firmware., type: str, returned: always}
    mst: {description: The name that the MFT tools have for it at this moment., type: str, returned: always}
    readable: {description: Whether MFT can open it., type: bool, returned: always}
    carries: {description: The VMkernel adapters whose uplink it is., type: list, elements: str, returned: always}
    functions:
      description: One per port, with PCI address, PCI class, vmnic, passthrough state and the switches that use it.
      type: list
      elements: dict
      returned: always
firmware:
  description: The versions; null where MFT does not run yet.
  returned: always
  type: dict
  contains:
    flash: {description: Version on flash after the task., type: str, returned: always}
    running: {description: Version that runs., type: str, returned: always}
    image: {description: Version of the image., type: str, returned: always}
    burn: {description: "Whether the image was written (or would be, in check mode).", type: bool, returned: always}
    pending: {description: Whether only a reboot is missing., type: bool, returned: always}
changes:
  description: The step with before and after, in check mode too.
  returned: always
  type: list
  elements: dict
reboot_required:
  description: Whether a reboot is missing.
  returned: always
  type: bool
reboot_reasons:
  description: Why.
  returned: always
  type: list
  elements: str
"""
