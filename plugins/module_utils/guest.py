# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wrapper of every module that runs on a guest: arguments in, result or failure out."""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.system import System

ROOT = dict(type="str", default="/")


class Guest:
    """What the work of a module gets: its options, the system it may touch, and whether it may change it."""

    def __init__(self, params, check_mode):
        self.params = params
        self.check_mode = check_mode
        self.system = System(params.get("root") or "/")
        self.warnings = []

    @property
    def host(self):
        """How errors name this guest."""
        return self.system.name()


def run(spec, work, **rules):
    """Run work(guest) -> result dictionary as an Ansible module; rules: keyword arguments of AnsibleModule."""
    module = AnsibleModule(argument_spec=dict(spec, root=ROOT), supports_check_mode=True, **rules)
    try:
        guest = Guest(module.params, module.check_mode)
        result = work(guest)
    except RdmaError as err:
        module.fail_json(**err.result())
    for text in guest.warnings:
        module.warn(text)
    if not module._diff:
        result.pop("diff", None)
    result.setdefault("changed", False)
    module.exit_json(**result)
