# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wrapper of every action plugin of the collection: arguments in, result or failure out.

The modules that act on an ESXi host, on vCenter or on a BMC run on the controller as action plugins:
ESXi has no Python that today's ansible-core accepts, and a module start costs ten times the request it makes.
"""

from __future__ import annotations

import re

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError


def plain(message: str) -> str:
    """Ansible's words about wrong arguments without the names of its own classes and of our files."""
    message = re.sub(r"<class '(?:[\w.]*\._AnsibleTagged)?(\w+)'>", lambda found: "a " + found.group(1).lower(), message)
    return message.replace("ansible_collections.vhpc.rdma.plugins.action.", "vhpc.rdma.")


class RdmaAction(ActionBase):
    """Subclasses give SPEC (and RULES) and act(); nothing else calls fail_json or reads raw arguments.

    SPEC: argument_spec as in AnsibleModule; RULES: keyword arguments of validate_argument_spec
    (mutually_exclusive, required_if, ...). act(params, task_vars) returns the result dict
    (usually Changes.result(...)) and raises RdmaError.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    SPEC: dict = {}
    RULES: dict = {}
    ABOUT_HOST = True  # False: the task runs once for all, and a host in its errors would mislead

    @property
    def check_mode(self) -> bool:
        return bool(self._task.check_mode)

    @property
    def host(self) -> str:
        """inventory_hostname of the host this task acts on: every error names it."""
        return self._task_vars.get("inventory_hostname", "")

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        del tmp
        self._task_vars = task_vars or {}
        try:
            params = self._params()
            result.update(self.act(params, self._task_vars))
        except RdmaError as err:
            if self.ABOUT_HOST and self.host and self.host not in err.text():
                err.where = ", ".join(filter(None, [self.host, err.where]))
            result.update(err.result(), failed=True)
        except AnsibleError as err:  # arguments that do not fit, a connection that dropped: Ansible's words, our host
            if type(err).__name__ == "AnsibleConnectionFailure":
                raise
            result.update(failed=True, msg="%s: %s" % (self.host, plain(str(err))))
        if not self._task.diff:
            result.pop("diff", None)
        result.setdefault("changed", False)
        return result

    def _params(self) -> dict:
        try:
            return self.validate_argument_spec(argument_spec=self.SPEC, **self.RULES)[1]
        except (TypeError, ValueError, AttributeError, OverflowError) as err:  # Ansible's check stumbles over a value where options with suboptions are due
            wrong = [name for name, about in self.SPEC.items() if about.get("options") and not _holds(self._task.args.get(name), about)]
            raise RdmaError("take the arguments", self.host, "%s is not written as the documentation says" % (", ".join(wrong) or "one of them"),
                            "ansible-doc vhpc.rdma.%s" % type(self).__module__.rsplit(".", 1)[-1], code="ARGUMENTS") from err

    def act(self, params: dict, task_vars: dict) -> dict:
        raise NotImplementedError


def _holds(value: object, about: dict) -> bool:
    """Whether a value can be options with suboptions: a mapping, or a list of mappings where the option takes several."""
    values = value if isinstance(value, list) and about.get("type") == "list" else [value]
    return value is None or all(isinstance(one, dict) for one in values)
