# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster file of vhpc_toolkit becomes an inventory."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import toolkit
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction


class ActionModule(RdmaAction):
    SPEC = dict(src=dict(type="path", required=True), dest=dict(type="path"))

    def act(self, params: dict, task_vars: dict) -> dict:
        source = Path(params["src"])
        try:
            text = source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as err:
            raise RdmaError("read the cluster file", str(source), str(err), "name the file that vhpc_toolkit was given with --file") from err
        inventory, left = toolkit.convert(text)
        made = toolkit.document(inventory, left, source.name)
        changed, before = False, ""
        if params["dest"]:
            dest = Path(params["dest"])
            try:
                before = dest.read_text(encoding="utf-8") if dest.exists() else ""
                changed = before != made
                if changed and not self.check_mode:
                    dest.parent.mkdir(parents=True, exist_ok=True)
                    dest.write_text(made, encoding="utf-8")
            except OSError as err:
                raise RdmaError("write the inventory", str(dest), str(err), "name a file that you may write") from err
        return dict(changed=changed, inventory=inventory, left=left, path=params["dest"] or "", diff=dict(before=before, after=made) if changed else {})
