# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Firmware settings of one card of an ESXi host: read, compare, set in one go, read back."""

from __future__ import annotations

from typing import Any

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards as card_tools
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import firmware_plan, mlxconfig
from ansible_collections.vhpc.rdma.plugins.plugin_utils import boot_memory, esxi
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction
from ansible_collections.vhpc.rdma.plugins.plugin_utils.esxcli_vc import TRANSPORT_SPEC, shell as reach_host
from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import WRITE_SECONDS, Shell, command_line

# What mlxconfig refuses when it has looked at the values.
CODES = {"unsupported_parameter": "NO_PARAMETER", "unknown_parameter": "NO_PARAMETER", "value_range": "OUT_OF_RANGE", "constraint": "OUT_OF_RANGE",
         "argument": "OUT_OF_RANGE"}
SETTINGS_SPEC = dict(ports=dict(type="dict"), sriov=dict(type="bool"), raw=dict(type="dict"))


class ActionModule(RdmaAction):
    SPEC = dict(
        TRANSPORT_SPEC,
        card=dict(type="dict", required=True, options=card_tools.SELECTOR_SPEC),
        settings=dict(type="dict", required=True, options=SETTINGS_SPEC),
        allow_management_card=dict(type="bool", default=False),
        rebooted=dict(type="bool", default=False),
        state_file=dict(type="path"),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        want = firmware_plan.wanted(**params["settings"])
        if not want:
            raise RdmaError("set firmware settings", self.host, "settings names none", "give ports, sriov or raw", code="BAD_SETTING")
        with reach_host(self, params) as shell:
            return self._act(shell, params, want)

    def _act(self, shell: Shell, params: dict, want: dict) -> dict:
        reading = esxi.read(shell, {"uptime": boot_memory.UPTIME} if params["state_file"] else None)
        if reading.mft != esxi.RUNNING:
            return self._without_mft(params, want, reading)
        with esxi.driver(shell, reading) as mst:
            if reading.problem:
                raise RdmaError("reach the cards through MFT", self.host, reading.problem, "see whether mft and nmst have the same version (esxi_software)",
                                code="MFT")
            if params["card"].get("serial"):
                esxi.serials(shell, reading.cards)
            card, sure = card_tools.choose(reading.cards, params["card"], self.host)
            card_tools.guard(card, self.host, "set firmware settings", params["allow_management_card"])
            device: dict = {"error": card["why_not"] or "mst does not list it"}
            if sure and card["readable"]:
                mst["stopped"] = self.check_mode and reading.started and not params["settings"].get("raw")
                device = esxi.query_card(shell, card, mst["json"], stop=mst["stopped"])
            if device.get("error"):
                return self._unreachable(card, device["error"])
            memory = boot_memory.Memory(params["state_file"], reading.answers.get("uptime"))
            return self._settle(shell, mst, card, device["parameters"], want, params, memory)

    # ---- nothing to read ------------------------------------------------------------------------------------------

    def _without_mft(self, params: dict, want: dict, reading: esxi.Reading) -> dict:
        why = reading.why_no_mft()
        if not self.check_mode:
            raise RdmaError("set firmware settings", self.host, why, "run esxi_software and the reboot it asks for first", code="NO_MFT")
        changes = Changes("esxi")
        thing = "card %s" % card_tools.selector_text(params["card"])
        for name, value in firmware_plan.order(want).items():
            changes.add(thing, name, None, firmware_plan.label(name, value), reboot="host", certainty="conditional", reason=why)
        return self._result(changes, None, {}, reachable=None, verified=None)

    def _unreachable(self, card: dict, why: str) -> dict:
        owned = [function["bdf"] for function in card["functions"] if function["passthru_active"]]
        where = "%s, %s" % (self.host, card_tools.name(card))
        if not owned:
            raise RdmaError("open the card", where, "MFT says: %s" % why, "see whether another MFT program is running on the host, then try again", code="OPEN")
        warning = "%s: %s is owned by passthrough and MFT cannot open it (%s). Its settings were neither read nor changed; " \
            "the link layer in the guest proves them." % (self.host, card_tools.name(card), why)
        return self._result(Changes("esxi"), card, {}, reachable=False, verified=False, warnings=[warning])

    # ---- compare and set ------------------------------------------------------------------------------------------

    def _settle(self, shell: Shell, mst: dict, card: dict, before: dict, want: dict, params: dict, memory: boot_memory.Memory) -> dict:
        where = "%s, %s" % (self.host, card_tools.name(card))
        classes = card_tools.classes(card)
        plan = firmware_plan.compare(before, want, classes, where)
        changes, warnings = Changes("esxi"), []
        ending, after, revealed = "reboot", before, None
        if params["settings"].get("raw") and plan["sets"] and not plan["reveal"] and shell.shell:
            self._rehearse(shell, card, firmware_plan.order(plan["sets"]), where)
        if plan["sets"] and not self.check_mode:
            mst["keep"] = True
            if not esxi.same_card(shell, card):
                raise RdmaError("set firmware settings", where, "the name %s does not lead to this card any more" % card["mst"],
                                "run the task again; nothing was written", code="CARD_MOVED")
            sets = plan["sets"]
            if plan["reveal"]:
                self._set(shell, card, {firmware_plan.SHOW: 1}, where)
                revealed = esxi.query_card(shell, card, mst["json"])["parameters"]
                sets = firmware_plan.compare(revealed, want, classes, where, revealed=True)["sets"]
                if firmware_plan.SHOW not in want:
                    sets[firmware_plan.SHOW] = 0
            if sets:
                ending = self._set(shell, card, firmware_plan.order(sets), where)
            after = esxi.query_card(shell, card, mst["json"])["parameters"]
            self._read_back(after, want, where)
        self._steps(changes, card, plan, want, revealed, ending)
        state = plan["state"] if self.check_mode else firmware_plan.compare(after, want, classes, where, revealed=True)["state"]
        self._waiting(changes, card, plan, revealed, params["rebooted"] or memory.rebooted(card_tools.name(card)))
        if not self.check_mode:
            if plan["sets"] or changes.pending:
                memory.keep(card_tools.name(card), again=bool(plan["sets"]))
            else:
                memory.forget(card_tools.name(card))
            memory.save()
        if plan["reveal"] == "unknown":
            warnings.append("%s: FORCE_ETH_PCI_SUBCLASS is hidden and a port becomes InfiniBand: it is looked at and cleared on the way" % where)
        return self._result(changes, card, state, reachable=True, verified=True, warnings=warnings)

    def _rehearse(self, shell: Shell, card: dict, values: dict, where: str) -> None:
        """Ranges are known to the tool alone: it checks every value and then asks, and the answer is no."""
        words = ["mlxconfig"] + [word for word in mlxconfig.set_args(card["mst"], values) if word != "-y"]
        said = mlxconfig.parse(shell.run("echo n | " + command_line(words)).text)
        kind = said.get("error_kind", "")
        if kind in CODES:
            raise RdmaError("set %s" % said.get("parameter", " ".join("%s=%s" % item for item in values.items())), where,
                            "mlxconfig: %s" % said["error"], "correct the value in raw; nothing was written", code=CODES[kind])

    def _set(self, shell: Shell, card: dict, values: dict, where: str) -> str:
        """One mlxconfig set; returns what makes it current: reboot or power_cycle."""
        answer = shell.run(["mlxconfig"] + mlxconfig.set_args(card["mst"], values), WRITE_SECONDS)
        outcome = mlxconfig.parse_set(answer.text)
        if not outcome["applied"]:
            raise RdmaError("set %s" % " ".join("%s=%s" % item for item in values.items()), where,
                            "mlxconfig: %s" % (outcome["error"] or answer.last_line()),
                            "a later run goes on from what the card then shows", code="MLXCONFIG", data={"output": answer.text})
        return outcome["reboot"] or "reboot"

    def _read_back(self, after: dict, want: dict, where: str) -> None:
        wrong = ["%s is %s instead of %s" % (name, after[name]["next"], firmware_plan.label(name, value)) for name, value in want.items()
                 if name in after and firmware_plan.same(value, after[name]["next"]) is False]
        if wrong:
            raise RdmaError("set firmware settings", where, "mlxconfig reported success, but the card still shows for the next boot: " + "; ".join(wrong),
                            "look at the card with mlxconfig -e query", code="NOT_KEPT")

    def _steps(self, changes: Changes, card: dict, plan: dict, want: dict, revealed: dict | None, ending: str) -> None:
        """A step per parameter whose next-boot value changes; ADVANCED_PCI_SETTINGS put to 1 and back is none."""
        for name, value in plan["sets"].items():
            seen = plan["state"][name]["next"]
            certainty, reason = "sure", ""
            if plan["state"][name]["verdict"] == "hidden":
                if revealed is not None:
                    seen = revealed[name]["next"] if name in revealed else None
                    if firmware_plan.same(value, seen) is not False:
                        continue
                elif plan["reveal"] == "in force":
                    seen, reason = "True(1)", "hidden, but an InfiniBand port shows the PCI class of Ethernet"
                else:
                    certainty, reason = "conditional", "hidden while ADVANCED_PCI_SETTINGS is 0; it is looked at on the way"
            changes.add(card_tools.name(card), name, seen, firmware_plan.label(name, value), certainty=certainty, reason=reason,
                        reboot="cold" if ending == "power_cycle" else "host")

    def _waiting(self, changes: Changes, card: dict, plan: dict, revealed: dict | None, rebooted: bool) -> None:
        waiting = list(plan["pending"])
        for name, entry in plan["state"].items():
            row = (revealed or {}).get(name) if entry["verdict"] == "hidden" else None
            if row and firmware_plan.same(0, row["next"]) and firmware_plan.same(0, row["current"]) is False:
                waiting.append(name)
        for name in waiting:
            now = (revealed or {}).get(name) or plan["state"][name]
            reason = "%s: %s is set to %s but runs as %s" % (card_tools.name(card), name, now["next"], now["current"])
            # A reboot that did not help is not tried twice: only a cold power cycle is left.
            changes.wait_for_reboot(reason + (" after a reboot" if rebooted else ""), "cold" if rebooted else "host")

    def _result(self, changes: Changes, card: dict | None, state: dict, **more: Any) -> dict:
        return changes.result(card=card, parameters={name: dict(entry) for name, entry in state.items()},
                              mst_device=card["mst"] if card else None, **more)
