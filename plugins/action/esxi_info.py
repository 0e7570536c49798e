# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ESXi host as the stages need to know it, read in one SSH exec, with what stands in their way."""

from __future__ import annotations

import re
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards as card_tools
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import esxcli, software_plan
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxi, esxi_vibs
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction
from ansible_collections.vhpc.rdma.plugins.plugin_utils.esxcli_vc import TRANSPORT_SPEC, shell as reach_host
from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import Shell, check

OURS = re.compile(r"^(?:mft|nmst|nmlx|mlnx|esx-base$)")
MODULES = ("nmlx5_core", "nmlx5_rdma")


class ActionModule(RdmaAction):
    SPEC = dict(
        TRANSPORT_SPEC,
        card=dict(type="dict", options=card_tools.SELECTOR_SPEC),
        min_version=dict(type="str", default="7.0"),
        enforce=dict(type="bool", default=False),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        try:
            with reach_host(self, params) as shell:
                return self._act(shell, params)
        except AnsibleConnectionFailure as err:
            # A failure and not Ansible's "unreachable": a play's `always` is for failed hosts, and there SSH is put back and the report is written.
            why = re.sub(r"^Failed to connect to the host via \w+:\s*", "", str(err.__cause__ or err))
            raise RdmaError("log in to the ESXi shell", self.host, " ".join(why.split()), "see whether the host is up, its SSH service runs and the login "
                            "is right, then run the play again", code="SSH_LOST") from err

    def _act(self, shell: Shell, params: dict) -> dict:
        extra: dict[str, Any] = {
            "version": ["esxcli", "system", "version", "get"],
            "maintenance": ["esxcli", "system", "maintenanceMode", "get"],
            "acceptance": esxi_vibs.READ["acceptance"], "secure_boot": esxi_vibs.READ["secure_boot"],
            **{"options " + module: ["esxcfg-module", "-g", module] for module in MODULES},
        }
        reading = esxi.read(shell, extra)
        with esxi.driver(shell, reading):
            if (params["card"] or {}).get("serial"):
                esxi.serials(shell, reading.cards)
        answers = reading.answers
        version = esxcli.parse_version(check(answers["version"], "read the version", self.host).text)
        following = reading.staged or reading.vibs
        facts: dict[str, Any] = {
            "version": version["version"], "build": version["build_number"], "acceptance": esxi_vibs.acceptance(answers["acceptance"]),
            "secure_boot": esxi_vibs.secure_boot(answers["secure_boot"]),
            "maintenance": esxcli.parse_maintenance_mode(answers["maintenance"].text).get("enabled"),
            "vibs": {name: {"running": reading.vibs.get(name, {}).get("version", ""), "next": following.get(name, {}).get("version", "")}
                     for name in sorted(set(reading.vibs) | set(following)) if OURS.match(name)},
            "module_options": {module: self._options(answers["options " + module].text) for module in MODULES if answers["options " + module].ok},
            "mft": reading.mft, "cards": reading.cards,
        }
        card, facts["findings"] = self._findings(params, reading, facts)
        errors = [finding for finding in facts["findings"] if finding["level"] == "error"]
        warnings = ["%s: %s: %s" % (self.host, finding["thing"], finding["text"]) for finding in facts["findings"] if finding["level"] == "warning"]
        if errors and params["enforce"]:
            raise RdmaError("go on", self.host, "; ".join("%s: %s" % (finding["thing"], finding["text"]) for finding in errors),
                            "; ".join(dict.fromkeys(finding["hint"] for finding in errors if finding["hint"])), code="PREFLIGHT", data=facts)
        return Changes("esxi").result(card=card, warnings=warnings, **facts)

    def _options(self, text: str) -> str:
        found = re.search(r"options = '(.*)'", text)
        return found.group(1) if found else ""

    def _findings(self, params: dict, reading: esxi.Reading, facts: dict) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """The chosen card (or None) and everything that stands in the way or is worth knowing."""
        found: list[dict[str, Any]] = []

        def add(level: str, thing: str, text: str, hint: str = "") -> None:
            found.append({"level": level, "thing": thing, "text": text, "hint": hint})

        if not re.match(r"^\d+(\.\d+)*$", params["min_version"]):
            raise RdmaError("compare the version", self.host, "min_version %r is no version" % params["min_version"], "write it as 7.0", code="VERSION")
        if software_plan.compare(facts["version"], params["min_version"]) < 0:
            add("error", "ESXi", "version %s is older than %s" % (facts["version"], params["min_version"]), "upgrade the host first")
        if facts["maintenance"]:
            add("warning", "ESXi", "the host is in maintenance mode: no VM can be powered on", "")
        if reading.mft == esxi.ABSENT and software_plan.stronger(facts["acceptance"], "PartnerSupported"):
            add("error", "acceptance level", "%s refuses MFT, whose VIBs are PartnerSupported" % facts["acceptance"],
                "esxcli software acceptance set --level=PartnerSupported (this keeps UEFI Secure Boot possible)")
        if facts["acceptance"] == "CommunitySupported" and facts["secure_boot"] is False:
            add("warning", "acceptance level", "CommunitySupported lets in unsigned VIBs, with which UEFI Secure Boot cannot be switched on", "")
        if reading.mft == esxi.NO_WAY:
            add("error", "MFT", reading.why_no_mft(), "use transport: ssh for this host, or install MFT 4.31 or newer with its plugin")
        if reading.problem:
            add("error", "MFT", reading.problem, "see whether mft and nmst have the same version, and whether another MFT program runs")
        return self._card(params["card"], reading, add), found

    def _card(self, selector: dict | None, reading: esxi.Reading, add: Any) -> dict[str, Any] | None:
        if not reading.cards:
            add("error", "card", "the host has no Mellanox/NVIDIA network card", "see whether the card is seated: esxcli hardware pci list")
        if not reading.cards or not selector or not any(selector.values()) or reading.problem:
            return None
        if reading.mft != esxi.RUNNING:
            fits = [card for card in reading.cards if card_tools.matches(card, selector) is not False]
            free = [card for card in fits if not card["carries"]]
            if not free:
                add("error", "card", "no card can be the wanted one (%s). Found: %s" % (card_tools.selector_text(selector), card_tools.describe(reading.cards)),
                    "look at the cards in this host")
            else:
                add("warning" if len(free) > 1 else "note", "card", "%s: which card is meant (%s) shows once MFT runs; it can be %s" % (
                    reading.why_no_mft(), card_tools.selector_text(selector), " or ".join(card["bdf"] for card in free)))
            return free[0] if len(free) == 1 else None
        try:
            card, sure = card_tools.choose(reading.cards, selector, self.host)
        except RdmaError as err:
            add("error", "card", err.why, err.hint)
            return None
        thing = card_tools.name(card)
        if not sure:
            add("warning", thing, "passthrough owns it and MFT cannot open it: it is taken for the wanted card because no other can be", "")
        if card["carries"]:
            add("error", thing, "it carries %s" % ", ".join(card["carries"]), "choose the card of the workload")
        switches = sorted({switch for function in card["functions"] for switch in function["used_by"]})
        if switches and not card["carries"]:
            add("note", thing, "its ports are uplinks of %s" % ", ".join(switches), "dvs_uplinks takes them away, with consent")
        if not sure or card["readable"]:
            return card
        add("warning", thing, "MFT cannot open it (%s)" % (card["why_not"] or "mst does not list it"), "")
        return card
