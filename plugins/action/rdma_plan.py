# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

from ansible.utils.display import Display
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import plan
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction

display = Display()


class ActionModule(RdmaAction):
    ABOUT_HOST = False
    SPEC = dict(path=dict(type="path"), hosts=dict(type="list", elements="str"), show=dict(type="bool", default=True))

    def act(self, params, task_vars):
        hostvars = task_vars["hostvars"]
        known = [host for host in task_vars.get("groups", {}).get("all", []) if host in hostvars]
        hosts = plan.known_hosts(params["hosts"], known)
        results = {host: stages for host, stages in plan.collect(hostvars, hosts).items() if stages}
        made = plan.build(results)
        lines = plan.text(made)
        if params["show"]:
            display.display("\n".join([""] + lines + [""]))
        if params["path"]:
            # Written in check mode too: it is the plan that check mode is run for, and no host is touched by it.
            path = Path(params["path"])
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(made, indent=1, default=str) + "\n", encoding="utf-8")
            except OSError as err:
                raise RdmaError("write the plan", params["path"], str(err), "choose another path", code="PLAN") from err
        return dict(changed=False, plan=made, text=lines, path=params["path"] or "")
