# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the results of every stage to a plan: steps with certainty and reason, reboots merged per host. Pure.

The plan is check mode: every module decides with the same compare in check mode and in a real run, so this file
only collects. The same function over the results of a real run tells what happened, which is how the two are compared.
"""

from __future__ import annotations

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

# In the order in which site.yml runs them. A reboot result closes a batch: what was open before it is current after it.
RESULTS = (
    ("vsphere_clone_result", "vsphere"),  # where a play of the user's runs it ahead
    ("esxi_info_result", "esxi"), ("bios_result", "bios"), ("esxi_service_result", "esxi"), ("esxi_dvs_result", "esxi"),
    ("esxi_software_result", "esxi"), ("esxi_driver_result", "esxi"), ("esxi_reboot_first_result", "reboot"), ("esxi_firmware_result", "esxi"),
    ("vsphere_policy_result", "vsphere"), ("vsphere_passthru_result", "vsphere"), ("vsphere_reboot_result", "reboot"), ("esxi_proof_result", "esxi"),
    ("vsphere_tuning_result", "vsphere"), ("vsphere_vm_passthru_result", "vsphere"), ("vsphere_power_result", "vsphere"),
    ("esxi_reboot_result", "reboot"), ("esxi_restore_result", "esxi"),
    ("guest_wait_result", "guest"), ("guest_ofed_result", "guest"), ("guest_reboot_result", "guest"), ("guest_link_result", "guest"),
    ("guest_info_result", "guest"), ("fabric_mtu_result", "fabric"), ("verify_start_result", "verify"), ("verify_mesh_result", "verify"),
)


def known_hosts(asked: list[str] | None, default: list[str], known: list[str] | None = None) -> list[str]:
    """The hosts asked for, which the inventory must have, or the default."""
    unknown = [host for host in asked or [] if host not in (known if known is not None else default)]
    if unknown:
        raise RdmaError("collect what the stages found", why="the inventory has no %s" % ", ".join(unknown), hint="correct hosts", code="HOSTS")
    return asked or default


def collect(hostvars: dict, hosts: list[str]) -> dict:
    """What each host's stages returned: {host: {variable: result}}, only those that ran."""
    out: dict[str, dict] = {}
    for host in hosts:
        results = {name: hostvars[host][name] for name, dummy in RESULTS if isinstance(hostvars[host].get(name), dict)}
        out[host] = {name: result for name, result in results.items() if not result.get("skipped")}
    return out


def build(results: dict) -> dict:
    """{host: {variable: result}} in, the plan out.

    hosts: {host: {steps, reboots: [{number, reasons, needs}], warnings, errors}}; needs: consents that are missing; a step carries before_reboot: the number of
    the reboot
    that makes it current (0: at once, or a reboot that is not planned), and after_reboot: how many reboots come before it.
    """
    hosts: dict[str, dict] = {}
    for host, stages in results.items():
        steps: list[dict] = []
        reboots: list[dict] = []
        warnings, errors, waiting = [], [], []
        for name, stage in RESULTS:
            result = stages.get(name)
            if not result:
                continue
            if result.get("failed") or result.get("unreachable"):
                errors.append({"stage": stage, "msg": result.get("msg", "failed"), "error": result.get("error", {})})
            warnings += [{"stage": stage, "msg": text} for text in result.get("warnings") or []]
            if stage == "reboot":
                done = [s for s in result.get("changes") or [] if s["name"] == "reboot" and s["certainty"] == "sure"]
                steps += [dict(s, before_reboot=0, after_reboot=len(reboots)) for s in result.get("changes") or [] if s not in done]
                if done:
                    reboots.append({"number": len(reboots) + 1, "reasons": list(result.get("reasons") or result.get("reboot_reasons") or []),
                                    "needs": list(result.get("needs") or [])})
                    for step in waiting:
                        step["before_reboot"] = len(reboots)
                    waiting = []
                continue
            for step in result.get("changes") or []:
                step = dict(step, before_reboot=0, after_reboot=len(reboots))
                steps.append(step)
                if step.get("reboot") == "host":
                    waiting.append(step)
        hosts[host] = {"steps": steps, "reboots": reboots, "warnings": warnings, "errors": errors}
    every = [step for plan in hosts.values() for step in plan["steps"]]
    counts = {host: len(plan["reboots"]) for host, plan in hosts.items()}
    return {"hosts": hosts, "sure": sum(s["certainty"] == "sure" for s in every), "conditional": sum(s["certainty"] != "sure" for s in every),
            "reboots": {host: count for host, count in counts.items() if count}, "reboots_max": max(counts.values(), default=0),
            "errors": sum(len(plan["errors"]) for plan in hosts.values()), "empty": not every and not any(counts.values())}


def identity(step: dict) -> tuple:
    """What makes two steps the same one, whatever their values: used to hold a plan against what happened."""
    return step["stage"], step["thing"], step["name"]


def against(plan: dict, done: dict) -> list[str]:
    """Where what happened differs from the plan; empty when every sure step happened, every step that happened was planned
    (as sure, or under a conditional step of the same stage), and each host was rebooted as often as planned."""
    problems = []
    for host, planned in plan["hosts"].items():
        happened = done["hosts"].get(host, {"steps": [], "reboots": []})
        real = {identity(step) for step in happened["steps"]}
        sure = {identity(step) for step in planned["steps"] if step["certainty"] == "sure"}
        maybe = {step["stage"] for step in planned["steps"] if step["certainty"] != "sure"}
        problems += ["%s: planned as sure and did not happen: %s" % (host, " / ".join(map(str, step))) for step in sorted(sure - real)]
        problems += ["%s: happened and was not planned: %s" % (host, " / ".join(map(str, step)))
                     for step in sorted(real - sure) if step[0] not in maybe]
        if len(planned["reboots"]) != len(happened["reboots"]):
            problems.append("%s: %d reboots planned, %d happened" % (host, len(planned["reboots"]), len(happened["reboots"])))
    return problems


def text(plan: dict) -> list[str]:
    """The plan for a person, hosts with the same plan together."""
    if plan["empty"] and not plan["errors"]:
        return ["Nothing to do: every host and guest is as wanted."]
    groups: dict[tuple, list[str]] = {}
    for host, planned in plan["hosts"].items():
        groups.setdefault(tuple(_body(planned, host)), []).append(host)
    lines = ["%d sure steps, %d conditional, %d reboots in all, at most %d on one host" % (
        plan["sure"], plan["conditional"], sum(plan["reboots"].values()), plan["reboots_max"])]
    for body, hosts in groups.items():
        lines += ["", ", ".join(hosts)] + (list(body) or ["  as wanted"])
    warnings: dict[str, list[str]] = {}  # once each, not once per host
    for host, planned in plan["hosts"].items():
        for warning in planned["warnings"]:
            said_by = warnings.setdefault(re.sub(r"^%s[:,] " % re.escape(host), "", warning["msg"].replace("%s: " % host, "")), [])
            if host not in said_by:
                said_by.append(host)
    lines += ["", "Warnings"] if warnings else []
    return lines + ["  %s: %s" % (", ".join(hosts), message) for message, hosts in warnings.items()]


def _value(value) -> str:
    text_ = "none" if value in (None, "", [], {}) else str(value)
    return text_ if len(text_) <= 60 else text_[:57] + "..."


def _here(message: str, host: str) -> str:
    """Without the host's name, which stands above: hosts with equal plans look equal."""
    return re.sub(r"(?<![\w.-])%s(?![\w-])" % re.escape(host), "the host", message)


def _thing(step: dict, host: str) -> str:
    """Without the names that differ from host to host, so that equal plans look equal."""
    if step["thing"].startswith("vm "):
        return "its VM"
    return step["thing"].replace("host %s" % host, "host").replace("guest %s" % host, "guest")


def _body(planned: dict, host: str) -> list[str]:
    out = ["  ERROR    %s" % error["msg"] for error in planned["errors"]]
    for number in range(len(planned["reboots"]) + 1):
        out += ["  %-8s %s: %s  %s -> %s%s" % (step["stage"], _thing(step, host), step["name"], _value(step["before"]), _value(step["after"]),
                                               "  (%s)" % _here(step["reason"], host) if step.get("reason") else "")
                for step in planned["steps"] if step["certainty"] == "sure" and step["after_reboot"] == number]
        for reboot in planned["reboots"]:
            if reboot["number"] == number + 1:
                needs = " (NEEDS CONSENT: %s)" % _here("; ".join(reboot["needs"]), host) if reboot["needs"] else ""
                out.append("  REBOOT %d %s%s" % (reboot["number"], "; ".join(reboot["reasons"]), needs))
    maybe: dict[tuple, list[str]] = {}
    for step in planned["steps"]:
        if step["certainty"] != "sure":
            reason = _here(step["reason"].replace("passthrough of %s" % step["name"], "passthrough"), host)
            maybe.setdefault((_thing(step, host), reason), []).append(step["name"])
    return out + ["  maybe    %s: %s (%s)" % (thing, ", ".join(names), reason) for (thing, reason), names in maybe.items()]
