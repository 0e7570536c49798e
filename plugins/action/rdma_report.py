# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

from ansible.utils.display import Display
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import report
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction

display = Display()


class ActionModule(RdmaAction):
    SPEC = dict(directory=dict(type="path", required=True), title=dict(type="str", default="InfiniBand and RoCE on vSphere"),
                source=dict(type="str", default="measured"), hosts=dict(type="list", elements="str"))

    def act(self, params, task_vars):
        hostvars = task_vars["hostvars"]
        hosts = params["hosts"] or [host for host in task_vars.get("groups", {}).get("all", []) if host in hostvars]
        made = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        data = report.gather(hostvars, hosts, params["title"], params["source"], made)
        files = {"html": "report.html", "json": "report.json", "pairs": "pairs.csv", "curves": "curves.csv"}
        paths = {kind: os.path.join(params["directory"], name) for kind, name in files.items()}
        if not self.check_mode:
            try:
                Path(params["directory"]).mkdir(parents=True, exist_ok=True)
                Path(paths["html"]).write_text(report.html(data), encoding="utf-8")
                Path(paths["json"]).write_text(json.dumps(data, indent=1, default=str) + "\n", encoding="utf-8")
                Path(paths["pairs"]).write_text(report.pairs_csv(data), encoding="utf-8")
                Path(paths["curves"]).write_text(report.curves_csv(data), encoding="utf-8")
            except OSError as err:
                raise RdmaError("write the report", params["directory"], str(err), "choose another directory", code="REPORT") from err
            display.display("Report: %s" % paths["html"])
        # A report is a picture of the run, not a state of a host: it never counts as a change.
        return dict(changed=False, paths=paths, source=params["source"], reboots=data["reboots"], failures=data["failures"],
                    summary=data["verdict"].get("summary") or {})
