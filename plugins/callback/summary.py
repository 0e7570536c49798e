# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: summary
type: aggregate
short_description: Per stage, what a run of the collection did and why it rebooted
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Writes one JSON line per task result while the run goes on, so that a long run can be followed.
  - At the end it shows a table with a row per stage (role) and the reboots with their reasons.
  - The same is written as JSON for machines.
requirements:
  - enabled in C(ansible.cfg) with C(callbacks_enabled = vhpc.rdma.summary) or with E(ANSIBLE_CALLBACKS_ENABLED)
options:
  journal:
    description: File that gets one JSON line per task result. Empty means none.
    type: str
    default: ""
    env:
      - name: VHPC_RDMA_JOURNAL
    ini:
      - section: vhpc_rdma
        key: journal
  summary:
    description: File that gets the summary as JSON. Empty means none.
    type: str
    default: ""
    env:
      - name: VHPC_RDMA_SUMMARY
    ini:
      - section: vhpc_rdma
        key: summary
notes:
  - Task results are counted for the host they act on; skipped ones and loop items are included.
"""

import json
import os
import time

from ansible.plugins.callback import CallbackBase

KEEP = ("msg", "changes", "rebooted", "reasons", "reboot_required", "reboot_reasons", "power_cycle_required", "seconds", "error", "verdicts", "warnings")


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "vhpc.rdma.summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._journal = None
        self._started = time.time()
        self._task_started = self._started
        self.results: list[dict] = []

    def v2_playbook_on_start(self, playbook) -> None:
        path = self.get_option("journal")
        if path:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            self._journal = open(path, "w", encoding="utf-8", buffering=1)

    def v2_playbook_on_task_start(self, task, is_conditional) -> None:
        self._task_started = time.time()
        self._write({"event": "task", "task": task.get_name().strip(), "stage": self._stage(task)})

    @staticmethod
    def _stage(task) -> str:
        role = getattr(task, "_role", None)
        return role.get_name(include_role_fqcn=False) if role else ""

    def _write(self, line: dict) -> None:
        if self._journal:
            self._journal.write(json.dumps(dict(line, at=round(time.time() - self._started, 3)), default=str) + "\n")

    def _add(self, result, status: str, ignored: bool = False) -> None:
        task, raw = result._task, result._result
        line = {"event": "result", "host": result._host.get_name(), "stage": self._stage(task), "task": task.get_name().strip(),
                "action": task.resolved_action or task.action, "status": status, "ignored": ignored,
                "changed": bool(raw.get("changed")) and status == "ok", "check": bool(task.check_mode), "after": round(time.time() - self._task_started, 2)}
        if task.delegate_to and "{" not in str(task.delegate_to):  # ansible-core strips the name from what a callback gets to see
            line["delegated"] = str(task.delegate_to)
        line.update({key: raw[key] for key in KEEP if raw.get(key)})
        self.results.append(line)
        self._write(line)

    def v2_runner_on_ok(self, result) -> None:
        self._add(result, "ok")

    def v2_runner_on_failed(self, result, ignore_errors=False) -> None:
        self._add(result, "failed", ignore_errors)

    def v2_runner_on_unreachable(self, result) -> None:
        self._add(result, "unreachable")

    def v2_runner_on_skipped(self, result) -> None:
        self._add(result, "skipped")

    v2_runner_item_on_ok = v2_runner_on_ok
    v2_runner_item_on_skipped = v2_runner_on_skipped

    def v2_runner_item_on_failed(self, result) -> None:
        self._add(result, "failed")

    def v2_playbook_on_stats(self, stats) -> None:
        summary = summarise(self.results)
        summary["seconds"] = round(time.time() - self._started, 1)
        if not summary["stages"]:
            return
        for line in table(summary):
            self._display.display(line)
        path = self.get_option("summary")
        if path:
            with open(path, "w", encoding="utf-8") as handle:
                json.dump(summary, handle, indent=1, default=str)
                handle.write("\n")
        self._write({"event": "end"})
        if self._journal:
            self._journal.close()


def summarise(results: list[dict]) -> dict:
    """Results in, the summary out: stages in order of appearance, reboots with reasons, failures, tasks per host."""
    stages: dict[str, dict] = {}
    reboots: dict[str, list] = {}
    failures, tasks = [], {}
    for line in results:
        host = line.get("delegated", line["host"])
        tasks[host] = tasks.get(host, 0) + 1
        if line["stage"]:
            stage = stages.setdefault(line["stage"], {"hosts": set(), "changed": set(), "failed": set(), "seconds": 0.0})
            stage["hosts"].add(line["host"])
            if line["changed"]:
                stage["changed"].add(line["host"])
            if line["status"] in ("failed", "unreachable") and not line["ignored"]:
                stage["failed"].add(line["host"])
        if line.get("rebooted") and not line["check"]:
            reboots.setdefault(line["host"], []).append(line.get("reasons") or line.get("reboot_reasons") or [])
        if line["status"] in ("failed", "unreachable") and not line["ignored"]:
            failures.append({key: line.get(key) for key in ("host", "stage", "task", "status", "msg")})
    for stage in stages.values():
        for key in ("hosts", "changed", "failed"):
            stage[key] = sorted(stage[key])
    verdicts = [v for line in results for v in (line.get("verdicts") or [])]
    return {"stages": stages, "reboots": reboots, "failures": failures, "tasks": tasks,
            "changed_hosts": sorted({r["host"] for r in results if r["changed"]}), "changed_results": sum(r["changed"] for r in results),
            "verdicts": verdicts}


def table(summary: dict) -> list[str]:
    """The summary as lines of text."""
    lines = ["", "%-10s %6s %8s %7s" % ("STAGE", "hosts", "changed", "failed")]
    for name, stage in summary["stages"].items():
        lines.append("%-10s %6d %8d %7d" % (name, len(stage["hosts"]), len(stage["changed"]), len(stage["failed"])))
    if summary["reboots"]:
        lines += ["", "REBOOTS"]
        for host in sorted(summary["reboots"]):
            for number, reasons in enumerate(summary["reboots"][host], 1):
                lines.append("%-10s %d  %s" % (host, number, "; ".join(reasons)))
    for failure in summary["failures"]:
        lines += ["", "%s  %s: %s" % (failure["host"], failure["stage"] or failure["task"], failure["msg"])]
    return lines
