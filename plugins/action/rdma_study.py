# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges claims by the figures they are drawn from, and compares configurations; decided by the pure functions of bench."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import yaml

from ansible.utils.display import Display
from ansible_collections.vhpc.rdma.plugins.module_utils.bench import scaling, study
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import paper, study_page
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction

display = Display()


class ActionModule(RdmaAction):
    ABOUT_HOST = False
    SPEC = dict(tables_file=dict(type="path"), tables=dict(type="dict"), configs=dict(type="dict"), claims_file=dict(type="path"),
                claims=dict(type="list", elements="dict"), runs=dict(type="list", elements="dict"), config=dict(type="str", default=""),
                directory=dict(type="path", required=True),
                title=dict(type="str", default="Bare metal and VM, InfiniBand and RoCE"))
    RULES = dict(required_one_of=[["tables_file", "tables"]])

    def act(self, params, task_vars):
        data = self._load(params["tables_file"], "tables") if params["tables_file"] else {}
        tables = dict(data.get("tables") or {})
        for name, table in (params["tables"] or {}).items():
            self._check({"tables": {name: table}}, [])
            tables[name] = scaling.merge(tables[name], table) if (tables.get(name) or {}).get("rows") and table.get("rows") else table
        data = dict(data, tables=tables,
                    configs={**(data.get("configs") or {}), **(params["configs"] or {})})
        claims = list(self._load(params["claims_file"], "claims").get("claims") or []) if params["claims_file"] else []
        claims += params["claims"] or []
        self._check(data, claims)
        curves = {"%s.%s" % key: {"sizes": paper.SIZES, "values": one["values"]} for key, one in paper.CURVES.items()}
        curves.update(data.get("curves") or {})
        found = study.study(data, claims, curves)
        made = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        judged = {key: found[key] for key in ("verdicts", "claims", "over_the_gauge", "fabrics", "efficiencies", "counts", "absent")}
        files = {"claims": ("claims.json", json.dumps(judged, indent=1) + "\n"),
                 "tables": ("tables.json", json.dumps(found["tables"], indent=1) + "\n"), "csv": ("tables.csv", study_page.tables_csv(found)),
                 "html": ("study.html", study_page.html(found, params["title"], made, data["tables"]))}
        # The figures as they were given: another run compares itself with this file.
        files["figures"] = ("figures.json", json.dumps({key: data[key] for key in ("tables", "configs")}, indent=1) + "\n")
        if params["runs"] and not self.check_mode:
            files["runs"] = ("runs.json", json.dumps(params["runs"], indent=1) + "\n")
            files["runs_csv"] = ("runs.csv", study_page.runs_csv(params["runs"], params["config"]))
            for name, text in study_page.perflogs(params["runs"], params["config"]).items():
                files["perflog_" + name] = (os.path.join("perflogs", name + ".log"), text)
        paths = {kind: os.path.join(params["directory"], name) for kind, (name, dummy) in files.items()}
        if not self.check_mode:
            try:
                Path(params["directory"]).mkdir(parents=True, exist_ok=True)
                for kind, (dummy, text) in files.items():
                    Path(paths[kind]).parent.mkdir(exist_ok=True)
                    Path(paths[kind]).write_text(text, encoding="utf-8")
            except OSError as err:
                raise RdmaError("write the study", params["directory"], str(err), "choose another directory", code="STUDY") from err
            width = max([len(claim["id"]) for claim in found["claims"]] or [0])
            display.display("\n".join(["%-*s  %s: %s" % (width, claim["id"], claim["verdict"], claim["text"]) for claim in found["claims"]]
                                      + ["Study: %s" % paths["html"]]))
        # A study is a picture of figures, not a state of a host: it never counts as a change.
        return dict(changed=False, paths=paths, **found)

    def _load(self, path, key):
        try:
            data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except OSError as err:
            raise RdmaError("read the %s" % key, path, err.strerror or str(err), code="STUDY") from err
        except yaml.YAMLError as err:
            raise RdmaError("read the %s" % key, path, str(err), "check the YAML", code="STUDY") from err
        if not isinstance(data, dict) or not isinstance(data.get(key), dict if key == "tables" else list):
            raise RdmaError("read the %s" % key, path, "it has no %s" % key, "see playbooks/files of the collection for the form", code="STUDY")
        return data

    @staticmethod
    def _check(data, claims):
        """All that is wrong with the form, at once."""
        wrong = []
        for name, table in data["tables"].items():
            if not isinstance(table, dict):
                wrong.append("table %s is no dictionary" % name)
                continue
            for config, row in (table.get("rows") or {}).items():
                nodes = table.get("nodes") or data.get("nodes") or []
                if not isinstance(row, list) or len(row) != len(nodes):
                    wrong.append("table %s, %s: one value for each of the node counts %s is needed" % (name, config, nodes))
                elif any(value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0) for value in row):
                    wrong.append("table %s, %s: a value is no number above 0" % (name, config))
        need = {"delta": ("table", "config", "baseline", "nodes", "claimed"), "within": ("table", "config", "baseline", "claimed"),
                "better": ("table", "config", "baseline"), "scales": ("table", "configs", "baseline", "nodes"), "curve": ("curve", "statistic")}
        for claim in claims:
            missing = [key for key in ("id",) + need.get(claim.get("kind", "delta"), ()) if claim.get(key) is None]
            if missing:
                wrong.append("claim %s: %s missing" % (claim.get("id", claim), ", ".join(missing)))
        if wrong:
            raise RdmaError("study the figures", why="; ".join(wrong), hint="see playbooks/files of the collection for the form", code="STUDY")
