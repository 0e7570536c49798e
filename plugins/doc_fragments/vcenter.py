# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection to vCenter, the same for every module of the action group vhpc.rdma.vsphere."""

from __future__ import annotations


class ModuleDocFragment:
    """The options of VCENTER_SPEC in plugins/plugin_utils/vsphere/session.py."""

    DOCUMENTATION = r"""
options:
  hostname:
    description:
      - Name or address of the vCenter.
      - Write the connection once for a play with C(module_defaults) and the action group C(group/vhpc.rdma.vsphere).
      - If it is not set, the environment variable E(VMWARE_HOST) is used.
    type: str
  username:
    description:
      - Who logs in.
      - If it is not set, the environment variable E(VMWARE_USER) is used.
    type: str
  password:
    description:
      - The password of O(username).
      - If it is not set, the environment variable E(VMWARE_PASSWORD) is used.
    type: str
  port:
    description:
      - TCP port of the vCenter's API.
      - If it is not set, the environment variable E(VMWARE_PORT) is used.
    type: int
    default: 443
  validate_certs:
    description:
      - Whether the certificate of the vCenter must be valid and belong to O(hostname).
      - If it is not set, the environment variable E(VMWARE_VALIDATE_CERTS) is used.
    type: bool
    default: true
  ca_file:
    description: File on the controller with the certificates (PEM) that are trusted instead of the system's.
    type: path
  thumbprint:
    description: SHA-256 fingerprint that the vCenter's certificate must have; it then needs no authority that vouches for it.
    type: str
  timeout:
    description: Seconds that one request to the vCenter may take.
    type: int
    default: 60
requirements:
  - pyvmomi on the controller
"""

    # Modules that act on an ESXi host, or on a VM of one.
    HOST = r"""
options:
  esxi_hostname:
    description:
      - Name of the ESXi host in vCenter; the first label of a full name will do.
      - If it is not set, C(inventory_hostname) is the name. A module that acts on a VM then takes the host that the VM is on.
    type: str
"""

    # Modules that reach an ESXi host's programs over SSH or through vCenter.
    TRANSPORT = r"""
options:
  transport:
    description:
      - How the host's programs are reached.
      - V(ssh) is the ESXi shell over the task's own SSH connection.
      - V(vcenter) is C(esxcli) through vCenter, with SSH off. The connection options are needed. Firmware tools then work where MFT brings its C(esxcli)
        plugin (MFT 4.31 and newer); it is looked for below C(mellanox) at run time. Its output is assumed, never seen on hardware.
      - V(auto) is SSH where an SSH server answers and lockdown mode does not keep logins out, else vCenter.
    type: str
    choices: [ssh, vcenter, auto]
    default: ssh
"""
