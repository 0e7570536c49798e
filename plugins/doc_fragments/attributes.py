# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a module says about itself: check mode, diff mode, idempotency."""

from __future__ import annotations


class ModuleDocFragment:
    """Use vhpc.rdma.attributes with the module's own C(support) values, or one of the ready answers below."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return the status that a real run would have, without changing anything.
  diff_mode:
    description: Returns what changes, or would change in C(check_mode), as before and after when in diff mode.
  idempotent:
    description: When run twice in a row without changes outside of Ansible, the second run changes nothing.
"""

    # A module that changes state and does it fully.
    FULL = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

    # A reader: never changes anything.
    INFO = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module only reads.
  diff_mode:
    support: N/A
    details:
      - This module only reads.
  idempotent:
    support: full
    details:
      - This module only reads.
"""
