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
from ansible_collections.vhpc.rdma.plugins.plugin_utils import plan, report
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction

display = Display()


class ActionModule(RdmaAction):
    ABOUT_HOST = False
    SPEC = dict(directory=dict(type="path", required=True), title=dict(type="str", default="InfiniBand and RoCE on vSphere"),
                source=dict(type="str", default="measured"), hosts=dict(type="list", elements="str"))

    def act(self, params, task_vars):
        hostvars = task_vars["hostvars"]
        stopped = set(task_vars.get("ansible_play_hosts_all", [])) - set(task_vars.get("ansible_play_hosts", []))
        known = [host for host in task_vars.get("groups", {}).get("all", []) if host in hostvars]
        hosts = plan.known_hosts(params["hosts"], report.subjects(hostvars, known, stopped), known)
        if not hosts:
            # An empty page in the place of an earlier run's evidence would be worse than none.
            return dict(changed=False, paths={}, source=params["source"], reboots={}, failures={}, summary={},
                        warnings=["No other stage ran in this run: there is nothing to report, and %s was left as it is" % params["directory"]])
        done = plan.build({host: stages for host, stages in plan.collect(hostvars, hosts).items() if stages})
        made = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        data = report.gather(hostvars, hosts, params["title"], params["source"], made, stopped)
        if self.check_mode:
            # Nothing happened, so what there is to tell is the plan. It is written in check mode too: that is what check mode was run for.
            files = {"plan": ("plan.json", json.dumps(done, indent=1, default=str) + "\n")}
            display.display("\n".join([""] + plan.text(done) + [""]))
        else:
            files = {"html": ("report.html", report.html(data)), "json": ("report.json", json.dumps(data, indent=1, default=str) + "\n"),
                     "done": ("done.json", json.dumps(done, indent=1, default=str) + "\n"),
                     "pairs": ("pairs.csv", report.pairs_csv(data)), "curves": ("curves.csv", report.curves_csv(data))}
        paths = {kind: os.path.join(params["directory"], name) for kind, (name, dummy) in files.items()}
        try:
            Path(params["directory"]).mkdir(parents=True, exist_ok=True)
            for kind, (dummy, text) in files.items():
                Path(paths[kind]).write_text(text, encoding="utf-8")
        except OSError as err:
            raise RdmaError("write the report", params["directory"], str(err), "choose another directory", code="REPORT") from err
        if not self.check_mode:
            display.display("Report: %s" % paths["html"])
        # A report is a picture of the run, not a state of a host: it never counts as a change.
        return dict(changed=False, paths=paths, source=params["source"], reboots=data["reboots"], failures=data["failures"],
                    summary=data["verdict"].get("summary") or {})
