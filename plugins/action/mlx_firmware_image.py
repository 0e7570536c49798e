# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Burns one firmware image into one card of an ESXi host: everything that speaks against it is found before the write."""

from __future__ import annotations

import contextlib
import re

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards as card_tools
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import flint, image_plan, mlxfwmanager
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxi
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction
from ansible_collections.vhpc.rdma.plugins.plugin_utils.esxcli_vc import TRANSPORT_SPEC, shell as reach_host
from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import WRITE_SECONDS, Answer, Shell


class ActionModule(RdmaAction):
    SPEC = dict(
        TRANSPORT_SPEC,
        card=dict(type="dict", required=True, options=card_tools.SELECTOR_SPEC),
        image=dict(type="str"),
        image_dir=dict(type="str"),
        online=dict(type="bool", default=False),
        online_ok=dict(type="bool", default=False),
        version=dict(type="str"),
        checksum=dict(type="str"),
        burn_ok=dict(type="bool", default=False),
        allow_downgrade=dict(type="bool", default=False),
        allow_management_card=dict(type="bool", default=False),
    )
    RULES = dict(mutually_exclusive=[("image", "image_dir")], required_by={"checksum": ("image",)}, required_if=[("online", True, ["version"])])

    def act(self, params: dict, task_vars: dict) -> dict:
        path = params["image"] or params["image_dir"]
        if bool(path) is params["online"]:
            raise RdmaError("burn an image", self.host, "one of image, image_dir and online says where it is, and only one", code="ARGUMENTS")
        if path and not path.startswith("/"):
            raise RdmaError("burn the image", self.host, "the path %r is not absolute" % path,
                            "write the whole path, for example /vmfs/volumes/DATASTORE/firmware/%s" % path.split("/")[-1], code="RELATIVE_PATH")
        if params["online"] and not params["online_ok"]:
            raise RdmaError("ask the vendor's server for an image", self.host, "it is not allowed",
                            "set online_ok: true when the host may connect to it, or give a local image", code="NO_CONSENT")
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
            plan = self._plan(shell, params, card, where) if params["image"] else self._plan_offered(shell, params, card, where)
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
        wanted = params["version"] or (params["image"] or params["image_dir"]).split("/")[-1]
        changes.add("card %s" % card_tools.selector_text(params["card"]), "firmware", None, wanted, reboot="host", certainty="conditional", reason=why)
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

    def _plan_offered(self, shell: Shell, params: dict, card: dict, where: str) -> dict:
        """The same where mlxfwmanager chooses among the images of a directory or of the vendor's server."""
        if not shell.shell:
            raise RdmaError("look for an image", where, "mlxfwmanager can be given a source of images through SSH only", "use transport: ssh, or image",
                            code="TRANSPORT")
        source, name = mlxfwmanager.source_args(params["image_dir"]), params["image_dir"] or "the vendor's server"
        answers = shell.run_many([["flint"] + flint.query_args(card["mst"]), ["mlxfwmanager"] + mlxfwmanager.query_args(card["mst"], source=source)])
        now = self._query(answers[0], "read the firmware of the card", where)
        offer = mlxfwmanager.parse(answers[1].text)
        if offer.get("error") or not answers[1].ok or len(offer["devices"]) != 1:
            raise RdmaError("look for an image in %s" % name, where, "mlxfwmanager: %s" % (offer.get("error") or answers[1].last_line()),
                            "see whether the directory is right, or whether the host reaches the server", code="SOURCE")
        image = image_plan.offered(offer["devices"][0], now, name, where)
        if params["image_dir"] and image_plan.SIGNED in now["security"]:
            image["security"] = self._signed(shell, params["image_dir"], image)
        return image_plan.plan(now, image, where, params["version"], params["allow_downgrade"])

    def _signed(self, shell: Shell, directory: str, image: dict) -> list[str] | None:
        """The security attributes of that image in the directory; None where it lies in an archive that flint does not read."""
        names = shell.run(["ls", directory]).text.split("\n")
        files = ["%s/%s" % (directory.rstrip("/"), name) for name in names if name.endswith(".bin")]
        for answer in shell.run_many([["flint"] + flint.image_args(path) for path in files]) if files else ():
            with contextlib.suppress(ParseError):
                found = flint.parse(answer.text)
                if (found.get("psid"), found.get("fw_version")) == (image["psid"], image["fw_version"]):
                    return found["security"]
        return None

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

    def _nobody_else(self, shell: Shell, where: str) -> None:
        """Tasks of this controller wait for each other; a program that somebody else started is seen in the host's list of processes."""
        found = shell.run("ps -c | grep -E '/(flint|mlxfwmanager|mlxconfig|mlxup)( |$)'").text.split("\n") if shell.shell else []
        running = [line[line.index("/"):].strip() for line in found if "/" in line]
        if running:
            raise RdmaError("burn the image", where, "another firmware tool runs on the host: %s" % "; ".join(running),
                            "wait until it has ended, then run again; nothing was written", code="BUSY")

    def _burn(self, shell: Shell, params: dict, card: dict, where: str, plan: dict) -> None:
        if not esxi.same_card(shell, card):
            raise RdmaError("burn the image", where, "the name %s does not lead to this card any more" % card["mst"], "run the task again; nothing was written",
                            code="CARD_MOVED")
        self._nobody_else(shell, where)
        if params["image"]:
            tool, words = "flint", flint.burn_args(card["mst"], params["image"])
        else:
            downgrade = params["allow_downgrade"] and image_plan.compare_versions(plan["image"], plan["flash"]) < 0
            tool, words = "mlxfwmanager", mlxfwmanager.update_args(card["mst"], mlxfwmanager.source_args(params["image_dir"]), downgrade)
        answer = shell.run([tool] + words, WRITE_SECONDS)
        said = flint.parse(answer.text) if tool == "flint" else mlxfwmanager.parse(answer.text)
        done = said.get("burn", {}).get("ok") if tool == "flint" else [one["result"] for one in said["updates"]] == ["Done"]
        if not answer.ok or said.get("error") or not done:
            raise RdmaError("burn the image", where, "%s: %s" % (tool, said.get("error") or answer.last_line()),
                            "do not reboot the host before a burn has succeeded: run again, and see the card with flint query", code="BURN",
                            data={"output": answer.text})
        after = self._query(shell.run(["flint"] + flint.query_args(card["mst"])), "read the firmware back", where)
        if after["fw_version"] != plan["image"]:
            raise RdmaError("burn the image", where, "%s reported success, but %s is on flash instead of %s" % (tool, after["fw_version"], plan["image"]),
                            "look at the card with flint query", code="NOT_KEPT")
        plan.update(flash=after["fw_version"], running=after["fw_version_running"])
