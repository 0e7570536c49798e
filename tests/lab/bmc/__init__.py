# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The BMC face of the lab: a Redfish service per host, as iDRAC9 or iLO5 speak it where BIOS settings are concerned."""

from .server import BmcFace

__all__ = ["BmcFace"]
