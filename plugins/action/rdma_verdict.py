# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges what all guests measured: read from their registered results, decided by the pure functions of bench."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, verdict
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import clck
from ansible_collections.vhpc.rdma.plugins.plugin_utils import charts
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction

LIMITS = {name: dict(type="float") for name in limits.DEFAULTS if not name.endswith("_size")}
LIMITS.update((name, dict(type="int")) for name in limits.DEFAULTS if name.endswith("_size"))
SHOWN = 8


class ActionModule(RdmaAction):
    ABOUT_HOST = False
    SPEC = dict(hosts=dict(type="list", elements="str"), variable=dict(type="str", default="verify_mesh_result"), results=dict(type="list", elements="dict"),
                limits=dict(type="dict", options=LIMITS), enforce=dict(type="bool", default=True), cluster_checker=dict(type="path"))

    def act(self, params, task_vars):
        known = limits.resolve({name: value for name, value in (params["limits"] or {}).items() if value is not None})
        collected = self._collected(params, task_vars)
        hosts = sorted({host for result in collected for host in result.get("hosts") or []})
        fabrics = self._union(collected, "fabrics", ["ib", "roce"])
        tests = self._union(collected, "tests", [])
        rates = {result["self_name"]: {fabric: port.get("rate_gbps") for fabric, port in (result.get("ports") or {}).items()} for result in collected}
        ports = {result["self_name"]: result.get("ports") or {} for result in collected}
        items = [item for result in collected for item in result.get("results") or []]
        judged = verdict.assess(items, hosts, rates, known, fabrics, tests, max([result.get("rounds") or 0 for result in collected] or [0]), ports,
                                next((result["chosen"] for result in collected if result.get("chosen")), None))
        summary = judged["summary"]
        silent = sorted(set(hosts) - {result["self_name"] for result in collected})
        checker = self._cluster_checker(params["cluster_checker"], hosts) if params["cluster_checker"] and not (
            self.check_mode and not Path(params["cluster_checker"]).exists()) else {}
        text = self._text(judged, hosts, silent, checker)
        versions: dict[str, list[str]] = {}
        for one in collected:
            versions.setdefault(one.get("version") or "", []).append(one["self_name"])
        if len(versions) > 1:
            text.append("perftest differs: %s." % "; ".join("%s on %s" % (version or "no known version", ", ".join(sorted(names)))
                                                            for version, names in sorted(versions.items())))
        result = Changes("verify").result(limits=known, hosts=hosts, silent=silent, text=text, cluster_checker=checker, **judged)
        if not collected or not summary["judged"]:
            result["msg"] = "Nothing to judge: %s." % ("no guest has measured" if not collected else "one guest alone has no partner")
            if not self.check_mode:
                result["warnings"] = [result["msg"]]
        elif summary["status"] == "fail" and params["enforce"] and not self.check_mode:
            raise RdmaError("prove the fabric", why="%d of %d measurements are not as they must be. %s"
                            % (summary["failed"], summary["judged"], " ".join(text[:SHOWN])),
                            hint="see blame and verdicts of this result, and the report", code="VERDICT", data=result)
        return result

    def _collected(self, params, task_vars):
        """The results of phase collect, each with the name of its guest."""
        if params["results"] is not None:
            return [dict(result, self_name=result.get("self_name", "")) for result in params["results"]]
        hostvars = task_vars["hostvars"]
        out = []
        for host in params["hosts"] or task_vars.get("ansible_play_hosts_all") or []:
            result = hostvars[host].get(params["variable"]) if host in hostvars else None
            if isinstance(result, dict) and result.get("hosts"):
                out.append(dict(result, self_name=host))
        return out

    @staticmethod
    def _cluster_checker(path, hosts):
        """What Intel Cluster Checker found, with the guests of ours that each issue names."""
        try:
            found = clck.parse(Path(path).read_text(encoding="utf-8", errors="replace"))
        except (OSError, ParseError) as err:
            raise RdmaError("read the results of Intel Cluster Checker", path, getattr(err, "why", "") or getattr(err, "strerror", "") or str(err),
                            "give the file that clck wrote (clck_results.log) on the controller", code="CLUSTER_CHECKER") from err
        return dict(found, issues=clck.about(found, hosts))

    @staticmethod
    def _union(collected, key, order):
        found = []
        for result in collected:
            found += [value for value in result.get(key) or [] if value not in found]
        return [value for value in order if value in found] + [value for value in found if value not in order]

    @staticmethod
    def _text(judged, hosts, silent, checker):
        """What a person wants to read, one line each, the worst first."""
        out = ["%s: %s." % (verdict.FABRIC_NAMES.get(entry["fabric"], entry["fabric"]), entry["text"]) for entry in judged["blame"]]
        out += ["%s: %s." % (verdict.FABRIC_NAMES.get(entry["fabric"], entry["fabric"]), entry["text"]) for entry in judged["noisy"]]
        out += ["%s sent no result." % host for host in silent]
        blamed = {name for entry in judged["blame"] if entry["kind"] != "fabric" for name in entry["names"]}
        # What another tool says of a guest that is blamed is the reason to look for; what it says of others is not.
        out += ["Intel Cluster Checker on %s: %s%s." % (", ".join(issue["hosts"]), issue["text"].rstrip("."), " (%s)" % issue["id"] if issue["id"] else "")
                for issue in checker.get("issues", []) if blamed & set(issue["hosts"])]
        failed = [one for one in judged["verdicts"] if one["status"] == "fail"]
        causes: dict[str, list[str]] = {}  # what several measurements say is said once
        for one in failed:
            what = one["error"]["text"] if one.get("error") else "%g %s, the limit is %s" % (one["value"], one["unit"], one["limit"])
            causes.setdefault(what.rstrip("."), []).append("%s %s %s to %s" % (one["fabric"], one["test"], one["client"], one["server"]))
        for what, pairs in list(causes.items())[:SHOWN]:
            out.append("%s%s: %s." % (", ".join(pairs[:3]), " and %d more" % (len(pairs) - 3) if len(pairs) > 3 else "", what))
        if len(causes) > SHOWN:
            out.append("And %d more causes." % (len(causes) - SHOWN))
        for fabric, part in judged["summary"]["fabrics"].items():
            for test, row in part["tests"].items():
                values = row["values"]
                if values["n"]:
                    out.append("%s %s: %d pairs, median %s %s, from %s to %s; limit %s; %d passed, %d with a warning, %d failed." % (
                        part["name"], test, row["passed"] + row["warned"] + row["failed"], charts.number_text(values["median"]), row["unit"],
                        charts.number_text(values["min"]), charts.number_text(values["max"]), row["limit"],
                        row["passed"], row["warned"], row["failed"]))
        return out
