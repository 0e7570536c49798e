# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guest face of the lab: one SSH server per VM, with a root directory of its own and programs that know the world."""

from .server import GuestFace

__all__ = ["GuestFace"]
