# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from pathlib import Path

from ansible.release import __version__ as ansible_version
from ansible.utils.display import Display
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import charts, compare, plan, report, report_about, report_files, report_page
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction

display = Display()
BIG = 128
# What a comparison needs of a report, and other files of a run do not have.
PARTS = {"hosts", "verdict", "benchmark", "failures", "versions"}


class ActionModule(RdmaAction):
    ABOUT_HOST = False
    SPEC = dict(directory=dict(type="path", required=True), title=dict(type="str", default="InfiniBand and RoCE on vSphere"),
                source=dict(type="str", default="measured"), hosts=dict(type="list", elements="str"), before=dict(type="path"), after=dict(type="path"),
                bare_metal=dict(type="path"), charts=dict(type="bool", default=True), junit=dict(type="bool", default=True),
                perflogs=dict(type="bool", default=True))
    RULES = dict(required_by=dict(after=["before"]))

    def act(self, params, task_vars):
        # Read before anything is written: the earlier report may lie where the new one goes.
        after, earlier, unread = self._load(params["after"]) if params["after"] else None, {}, None
        for name in ("before", "bare_metal"):
            try:
                earlier[name] = self._load(params[name]) if params[name] else None
            except RdmaError as err:
                if after:
                    raise
                # The evidence of this run is written first: it exists nowhere else.
                earlier[name], unread = None, unread or err
        before, bare_metal = earlier["before"], earlier["bare_metal"]
        if after:
            found = compare.compare(before, after)
            paths = {} if self.check_mode else self._write(params["directory"], self._comparison(found))
            if paths:
                display.display("%s\nComparison: %s" % (found["verdict"]["text"], paths["comparison_html"]))
            return dict(changed=False, paths=paths, source=after["source"], reboots={}, failures={}, summary={}, comparison=found)
        hostvars = task_vars["hostvars"]
        stopped = set(task_vars.get("ansible_play_hosts_all", [])) - set(task_vars.get("ansible_play_hosts", []))
        known = [host for host in task_vars.get("groups", {}).get("all", []) if host in hostvars]
        hosts = plan.known_hosts(params["hosts"], report.subjects(hostvars, known, stopped), known)
        if not hosts:
            # An empty page in the place of an earlier run's evidence would be worse than none.
            return dict(changed=False, paths={}, source=params["source"], reboots={}, failures={}, summary={},
                        warnings=["No other stage ran in this run: there is nothing to report, and %s was left as it is" % params["directory"]])
        done = plan.build({host: stages for host, stages in plan.collect(hostvars, hosts).items() if stages})
        now = datetime.datetime.now(datetime.timezone.utc)
        made = now.strftime("%Y-%m-%d %H:%M UTC")
        data = report.gather(hostvars, hosts, params["title"], params["source"], made, stopped, self._about(task_vars), bare_metal)
        result = dict(changed=False, source=params["source"], reboots=data["reboots"], failures=data["failures"],
                      summary=data["verdict"].get("summary") or {}, status=report.state(data))
        if self.check_mode:
            # Nothing happened, so what there is to tell is the plan. It is written in check mode too: that is what check mode was run for.
            files = {"plan": ("plan.json", json.dumps(done, indent=1, default=str) + "\n")}
            display.display("\n".join([""] + plan.text(done) + [""]))
        else:
            files = {"html": ("report.html", report_page.html(data, params["charts"] and charts.available())),
                     # Of a big fleet nobody reads it line by line, and without indentation it takes a tenth of the time.
                     "json": ("report.json", json.dumps(data, indent=1 if len(hosts) <= BIG else None, default=str) + "\n"),
                     "done": ("done.json", json.dumps(done, indent=1, default=str) + "\n"),
                     "pairs": ("pairs.csv", report_files.pairs_csv(data)), "curves": ("curves.csv", report_files.curves_csv(data))}
            if data["benchmark"]:
                files["benchmarks"] = ("benchmarks.csv", report_files.benchmarks_csv(data))
            if params["junit"]:
                files["junit"] = ("junit.xml", report_files.junit(data))
            if params["perflogs"]:
                files.update(("perflog_" + name, (os.path.join("perflogs", name + ".log"), text))
                             for name, text in report_files.perflogs(data, now.timestamp()).items())
            if before:
                result["comparison"] = compare.compare(before, data)
                files.update(self._comparison(result["comparison"]))
        paths = self._write(params["directory"], files)
        if unread:
            raise unread
        if not self.check_mode:
            display.display("%s\nReport: %s" % (report.lead(data)[1], paths["html"]))
        # A report is a picture of the run, not a state of a host: it never counts as a change.
        return dict(result, paths=paths)

    @staticmethod
    def _comparison(found):
        return {"comparison_html": ("comparison.html", report_page.comparison(found)),
                "comparison_json": ("comparison.json", json.dumps(found, indent=1, default=str) + "\n")}

    @staticmethod
    def _about(task_vars):
        sources = list(task_vars.get("ansible_inventory_sources") or [])
        return {"command": report_about.command(sys.argv), "directory": os.getcwd(), "inventory": sources, "inventory_sha256": report_about.digest(sources),
                "collection": report_about.collection_version(), "ansible": ansible_version, "python": platform.python_version()}

    @staticmethod
    def _write(directory, files):
        paths = {kind: os.path.join(directory, name) for kind, (name, dummy) in files.items()}
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
            for kind, (dummy, text) in files.items():
                Path(paths[kind]).parent.mkdir(exist_ok=True)
                Path(paths[kind]).write_text(text, encoding="utf-8")
        except OSError as err:
            raise RdmaError("write the report", directory, str(err), "choose another directory", code="REPORT") from err
        return paths

    @staticmethod
    def _load(path):
        """A report.json of an earlier run."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as err:
            raise RdmaError("read the report", path, err.strerror or str(err), "give a report.json that this module has written", code="REPORT") from err
        except ValueError as err:
            raise RdmaError("read the report", path, "it is no JSON: %s" % err, "give a report.json that this module has written", code="REPORT") from err
        if not isinstance(data, dict) or data.get("format") != report.FORMAT or not PARTS <= set(data):
            raise RdmaError("read the report", path, "it is no report.json of format %d" % report.FORMAT,
                            "give a report.json that this version of the collection has written", code="REPORT")
        return data
