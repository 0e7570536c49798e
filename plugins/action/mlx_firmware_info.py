# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Firmware settings of the cards of an ESXi host, and whether one card runs with what is wanted."""

from __future__ import annotations

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards as card_tools
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import firmware_plan
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxi
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction
from ansible_collections.vhpc.rdma.plugins.plugin_utils.esxcli_vc import TRANSPORT_SPEC, shell as reach_host
from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import Shell

SETTINGS_SPEC = dict(ports=dict(type="dict"), sriov=dict(type="bool"), raw=dict(type="dict"))


class ActionModule(RdmaAction):
    SPEC = dict(
        TRANSPORT_SPEC,
        card=dict(type="dict", options=card_tools.SELECTOR_SPEC),
        settings=dict(type="dict", options=SETTINGS_SPEC),
        rebooted=dict(type="bool", default=False),
        enforce=dict(type="bool", default=False),
    )
    RULES = dict(required_by={"settings": ("card",)})

    def act(self, params: dict, task_vars: dict) -> dict:
        want = firmware_plan.wanted(**params["settings"]) if params["settings"] else {}
        with reach_host(self, params) as shell:
            return self._act(shell, params, want)

    def _act(self, shell: Shell, params: dict, want: dict) -> dict:
        reading = esxi.read(shell)
        if reading.mft != esxi.RUNNING or reading.problem:
            return self._blind(params, reading)
        with esxi.driver(shell, reading) as mst:
            if (params["card"] or {}).get("serial"):
                esxi.serials(shell, reading.cards)
            card, sure = card_tools.choose(reading.cards, params["card"], self.host) if params["card"] else (None, True)
            cards = [card] if card else reading.cards
            asked = [one for one in cards if one["readable"] and sure]
            mst["stopped"] = reading.started
            commands = [esxi.query_command(one, reading.json) for one in asked] + [esxi.vpd_command(one) for one in asked]
            answers = shell.run_many(commands + ([["mst", "stop"]] if reading.started else [["true"]]))
            for one in cards:
                one["parameters"] = {}
            for one, answer in zip(asked, answers[len(asked):]):
                esxi.take_serial(one, answer)
            for one, answer in zip(asked, answers):
                device = esxi.device_of(answer, one, self.host)
                one["parameters"] = device["parameters"]
                one["readable"], one["why_not"] = not device.get("error"), device.get("error", "")
        return self._verdict(params, want, card, cards)

    def _blind(self, params: dict, reading: esxi.Reading) -> dict:
        why = reading.problem or reading.why_no_mft()
        if params["enforce"] and not self.check_mode:
            raise RdmaError("read the firmware settings", self.host, why, "run esxi_software and the reboot it asks for first", code="NO_MFT")
        for card in reading.cards:
            card["parameters"] = {}
        return Changes("esxi").result(cards=reading.cards, card=None, matches=None, differences=[], reachable=None, reason=why)

    def _verdict(self, params: dict, want: dict, card: dict | None, cards: list[dict]) -> dict:
        changes, matches, differences, warnings, reason = Changes("esxi"), None, [], [], ""
        reachable = card["readable"] and bool(card["parameters"]) if card else None
        if card and want and reachable:
            matches, differences = firmware_plan.in_force(card["parameters"], want, card_tools.classes(card))
            for one in differences:
                if one["why"] == "a reset is missing":
                    changes.wait_for_reboot("%s: %s is set to %s but runs as %s" % (card_tools.name(card), one["name"], one["next"], one["current"])
                                            + (" after a reboot" if params["rebooted"] else ""), "cold" if params["rebooted"] else "host")
        elif card and not reachable:
            reason = "MFT cannot open the card (%s)" % (card["why_not"] or "mst does not list it")
            if any(function["passthru_active"] for function in card["functions"]):
                reason += ": passthrough owns it, so the link layer in the guest is the proof"
            warnings.append("%s, %s: %s" % (self.host, card_tools.name(card), reason))
        result = changes.result(cards=cards, card=card, matches=matches, differences=differences, reachable=reachable, reason=reason, warnings=warnings)
        if params["enforce"] and not self.check_mode and matches is False:
            self._fail(card, differences, result)
        return result

    def _fail(self, card: dict, differences: list[dict], result: dict) -> None:
        why = "; ".join("%s is %s instead of %s (%s)" % (one["name"], one["current"] or "not there", one["wanted"], one["why"]) for one in differences)
        hint = "run mlx_firmware for this card"
        if result["power_cycle_required"]:
            hint = "switch the host off and on (cold power cycle): this card does not load its settings in a warm reboot"
        elif result["reboot_required"]:
            hint = "reboot the host"
        raise RdmaError("prove the firmware settings", "%s, %s" % (self.host, card_tools.name(card)), why, hint,
                        code="POWER_CYCLE" if result["power_cycle_required"] else "NOT_IN_FORCE",
                        data={key: value for key, value in result.items() if key not in ("cards", "card")})  # dozens of parameters that nobody asked about
