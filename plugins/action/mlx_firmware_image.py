# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Burns one firmware image into one card of an ESXi host: everything that speaks against it is found before the write."""

from __future__ import annotations

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards as card_tools
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import flint, image_plan
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxi
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction
from ansible_collections.vhpc.rdma.plugins.plugin_utils.esxcli_vc import TRANSPORT_SPEC, shell as reach_host
from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import WRITE_SECONDS, Answer, Shell


class ActionModule(RdmaAction):
    SPEC = dict(
        TRANSPORT_SPEC,
        card=dict(type="dict", required=True, options=card_tools.SELECTOR_SPEC),
        image=dict(type="str", required=True),
        version=dict(type="str"),
        checksum=dict(type="str"),
        burn_ok=dict(type="bool", default=False),
        allow_downgrade=dict(type="bool", default=False),
        allow_management_card=dict(type="bool", default=False),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        if not params["image"].startswith("/"):
            raise RdmaError("burn the image", self.host, "the path %r is not absolute" % params["image"],
                            "write the whole path, for example /vmfs/volumes/DATASTORE/firmware/%s" % params["image"].split("/")[-1], code="RELATIVE_PATH")
        if params["checksum"] and not re.match(r"^sha256:[0-9a-fA-F]{64}$", params["checksum"]):
            raise RdmaError("check the image", self.host, "the checksum %r is not written as sha256: and 64 hex digits" % params["checksum"],
                            "run sha256sum on the file you trust", code="BAD_CHECKSUM")
        with reach_host(self, params) as shell:
            return self._act(shell, params)

    def _act(self, shell: Shell, params: dict) -> dict:
        reading = esxi.read(shell)
        if reading.mft != esxi.RUNNING:
            return self._without_mft(params, reading)
        with esxi.driver(shell, reading) as mst:
            if reading.problem:
                raise RdmaError("reach the cards through MFT", self.host, reading.problem, "see whether mft and nmst have the same version (esxi_software)",
                                code="MFT")
            if params["card"].get("serial"):
                esxi.serials(shell, reading.cards)
            card, sure = card_tools.choose(reading.cards, params["card"], self.host)
            card_tools.guard(card, self.host, "burn firmware", params["allow_management_card"])
            where = "%s, %s" % (self.host, card_tools.name(card))
            if not sure or not card["readable"]:
                raise RdmaError("open the card", where, "MFT says: %s" % (card["why_not"] or "mst does not list it"),
                                "burn before passthrough takes the card, or while no VM with it runs", code="OPEN")
            plan = self._plan(shell, params, card, where)
            changes = Changes("esxi")
            if plan["burn"]:
                changes.add(card_tools.name(card), "firmware", plan["flash"], plan["image"], reboot="host")
                if not self.check_mode:
                    self._consented(params, where, plan)
                    mst["keep"] = True
                    self._burn(shell, params, card, where, plan)
            elif plan["pending"]:
                changes.wait_for_reboot("%s: firmware %s is on flash but %s runs" % (card_tools.name(card), plan["flash"], plan["running"]))
            return changes.result(card=card, firmware=plan)

    def _without_mft(self, params: dict, reading: esxi.Reading) -> dict:
        why = reading.why_no_mft()
        if not self.check_mode:
            raise RdmaError("burn the image", self.host, why, "run esxi_software and the reboot it asks for first", code="NO_MFT")
        changes = Changes("esxi")
        changes.add("card %s" % card_tools.selector_text(params["card"]), "firmware", None, params["version"] or params["image"].split("/")[-1], reboot="host",
                    certainty="conditional", reason=why)
        return changes.result(card=None, firmware=None)

    def _plan(self, shell: Shell, params: dict, card: dict, where: str) -> dict:
        image = params["image"]
        commands = [["flint"] + flint.query_args(card["mst"]), ["flint"] + flint.image_args(image)]
        if params["checksum"] and not shell.shell:
            raise RdmaError("check the image", self.host, "its checksum cannot be computed through vCenter", "use transport: ssh, or leave checksum out",
                            code="FILE")
        if params["checksum"]:
            commands.append(["sha256sum", image])
        answers = shell.run_many(commands)
        found = [self._query(answer, what, where) for answer, what in zip(answers, ("read the firmware of the card", "read the image %s" % image))]
        if params["checksum"]:
            words = answers[2].text.split()
            if not answers[2].ok or not words or words[0].lower() != params["checksum"].split(":")[1].lower():
                found_sum = words[0] if answers[2].ok and words else "?"
                raise RdmaError("trust the image", where, "%s has SHA-256 %s, not %s" % (image, found_sum, params["checksum"]),
                                "put the right file there; nothing was written", code="FILE")
        return image_plan.plan(found[0], found[1], where, params["version"], params["allow_downgrade"])

    def _query(self, answer: Answer, what: str, where: str) -> dict:
        try:
            found = flint.parse(answer.text)
        except ParseError as err:
            raise RdmaError(what, where, err.why, "see what `%s` prints on the host" % answer.command, code="FLINT") from err
        if found.get("error") or not answer.ok or not found.get("fw_version"):
            raise RdmaError(what, where, "flint: %s" % (found.get("error") or answer.last_line()), "see whether the path is right", code="FILE")
        return found

    def _consented(self, params: dict, where: str, plan: dict) -> None:
        if not params["burn_ok"]:
            raise RdmaError("burn the image", where, "it is not allowed (%s is on flash, %s would be written)" % (plan["flash"], plan["image"]),
                            "set burn_ok: true when the card's firmware may be written", code="NO_CONSENT", data={"firmware": plan})

    def _burn(self, shell: Shell, params: dict, card: dict, where: str, plan: dict) -> None:
        if not esxi.same_card(shell, card):
            raise RdmaError("burn the image", where, "the name %s does not lead to this card any more" % card["mst"], "run the task again; nothing was written",
                            code="CARD_MOVED")
        answer = shell.run(["flint"] + flint.burn_args(card["mst"], params["image"]), WRITE_SECONDS)
        said = flint.parse(answer.text)
        if not answer.ok or said.get("error") or not said.get("burn", {}).get("ok"):
            raise RdmaError("burn the image", where, "flint: %s" % (said.get("error") or answer.last_line()),
                            "do not reboot the host before a burn has succeeded: run again, and see the card with flint query", code="BURN",
                            data={"output": answer.text})
        after = self._query(shell.run(["flint"] + flint.query_args(card["mst"])), "read the firmware back", where)
        if after["fw_version"] != plan["image"]:
            raise RdmaError("burn the image", where, "flint reported success, but %s is on flash instead of %s" % (after["fw_version"], plan["image"]),
                            "look at the card with flint query", code="NOT_KEPT")
        plan.update(flash=after["fw_version"], running=after["fw_version_running"])
