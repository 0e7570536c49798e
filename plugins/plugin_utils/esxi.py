# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the ESXi actions read of a host, in as few round trips as it takes, and the mst driver that is left as it was found."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass, field
from typing import Any, Iterator

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards as card_tools
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import esxcli, mlxconfig, mlxfwmanager, mst
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.text import lines

from .shell import Answer, Shell, check, command_line

VIBS = ["esxcli", "software", "vib", "list"]
STAGED = VIBS + ["--rebooting-image"]
NETWORK = {
    "pci": ["esxcli", "hardware", "pci", "list"],
    "nics": ["esxcli", "network", "nic", "list"],
    "passthru": ["esxcli", "hardware", "pci", "pcipassthru", "list"],
    "interfaces": ["esxcli", "network", "ip", "interface", "list"],
    "switches": ["esxcli", "network", "vswitch", "standard", "list"],
    "dvs": ["esxcli", "network", "vswitch", "dvs", "vmware", "list"],
}
MFT = {
    "mst_start": ["mst", "start"],
    "mst": ["mst", "status", "-vv"],
    "firmware": ["mlxfwmanager"] + mlxfwmanager.query_args(),
}
RUNNING, STAGED_ONLY, ABSENT, NO_WAY = "running", "staged", "absent", "no esxcli plugin"


@dataclass
class Reading:
    """A host as one look found it."""

    cards: list[dict[str, Any]] = field(default_factory=list)
    vibs: dict[str, dict[str, Any]] = field(default_factory=dict)
    staged: dict[str, dict[str, Any]] | None = None  # None: the next boot brings the same image
    mft: str = ABSENT
    started: bool = False  # this reading started the mst driver
    json: bool = False  # mlxconfig of this host can write JSON, and its files can be read
    problem: str = ""  # why MFT is installed and does not work
    answers: dict[str, Answer] = field(default_factory=dict)

    def why_no_mft(self) -> str:
        if self.mft == STAGED_ONLY:
            return "MFT is installed but the host has not rebooted into it yet"
        if self.mft == NO_WAY:
            return "MFT %s is installed, but without SSH only MFT's esxcli plugin (4.31 and newer) can be reached, and this host has none" % (
                self.vibs.get("mft", {}).get("version", ""))
        return "MFT is not installed on this host yet"


def vibs(answer: Answer) -> dict[str, dict[str, Any]]:
    return {vib["name"]: vib for vib in esxcli.parse_vib_list(answer.text)["vibs"]}


def staged_vibs(answer: Answer, running: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]] | None:
    """The image of the next boot, None when there is no other than the running one (esxcli then lists nothing or says so)."""
    if not answer.ok or not answer.text.strip():
        return None
    found = vibs(answer)
    if not found or {name: vib["version"] for name, vib in found.items()} == {name: vib["version"] for name, vib in running.items()}:
        return None
    return found


def read(shell: Shell, extra: dict[str, list[str] | str] | None = None, with_mft: bool = True) -> Reading:
    """Cards, VIBs and whatever `extra` commands say, in one SSH exec. Starts the mst driver if it has to: see driver()."""
    commands: dict[str, list[str] | str] = {"vibs": VIBS, "staged": STAGED, **NETWORK, **(extra or {}), **(MFT if with_mft else {})}
    answers = dict(zip(commands, shell.run_many(list(commands.values()))))
    out = Reading(answers=answers)
    what = "read the cards"
    out.vibs = vibs(check(answers["vibs"], what, shell.host))
    out.staged = staged_vibs(answers["staged"], out.vibs)
    used = card_tools.uplinks(*(card_tools.blocks(check(answers[key], what, shell.host).text) for key in ("interfaces", "switches", "dvs")))
    passthru = answers["passthru"]  # ESXi 6.7 has no such namespace; the owner in the PCI list says it too
    functions = card_tools.functions(
        esxcli.parse_pci_list(check(answers["pci"], what, shell.host).text)["devices"],
        esxcli.parse_nic_list(check(answers["nics"], what, shell.host).text)["nics"],
        esxcli.parse_pcipassthru(passthru.text)["devices"] if passthru.ok else [], used)
    devices: list[dict[str, Any]] = []
    firmware: list[dict[str, Any]] = []
    if with_mft and not answers["mst_start"].missing:
        out.mft = RUNNING
        out.json = shell.shell and mlxconfig.has_json(out.vibs.get("mft", {}).get("version", ""))
        devices, firmware = _mft(out, answers)
    elif "mft" in out.vibs and not shell.shell:
        out.mft = NO_WAY
    elif out.staged and {"mft", "nmst"} <= set(out.staged):
        out.mft = STAGED_ONLY
    out.cards = card_tools.assemble(functions, devices, firmware)
    return out


def _mft(out: Reading, answers: dict[str, Answer]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    start, status, query = answers["mst_start"], answers["mst"], answers["firmware"]
    started = mst.parse(start.text)
    # "already loaded" means that somebody else wants it loaded; only what this reading loaded is unloaded again
    out.started = bool(started.get("loaded")) and "already" not in start.text
    if "error" in started or not start.ok:
        out.problem = "mst start: %s" % (started.get("error") or start.last_line())
        return [], []
    found = mst.parse(status.text)
    if not query.ok and query.text.strip() == "":
        out.problem = "mlxfwmanager answered with return code %d and no output" % query.rc
        return found["devices"], []
    asked = mlxfwmanager.parse(query.text)
    if not asked["devices"] and asked.get("error"):
        out.problem = "mlxfwmanager: %s" % asked["error"]
    return found["devices"], asked["devices"]


@contextlib.contextmanager
def driver(shell: Shell, reading: Reading) -> Iterator[dict[str, bool]]:
    """Unloads the mst driver at the end if reading loaded it, unless the block set keep: a writer may leave it loaded."""
    state = {"keep": False, "stopped": False, "json": reading.json}
    try:
        yield state
    finally:
        if reading.started and not state["keep"] and not state["stopped"]:
            with contextlib.suppress(RdmaError):  # an error of the block says more than one of the clean-up
                shell.run(["mst", "stop"])


def query_command(card: dict[str, Any], as_json: bool) -> list[str] | str:
    """The query of a card's settings, as JSON where the tool has it. Where that does not work, no room in /tmp say, its text serves as well."""
    text = ["mlxconfig"] + mlxconfig.query_args(card["mst"])
    if not as_json:
        return text
    name = "/tmp/vhpc-%s.json" % secrets.token_hex(6)
    return "( ( %s >/dev/null && cat %s ) 2>/dev/null || %s; rc=$?; rm -f %s; exit $rc )" % (
        command_line(["mlxconfig"] + mlxconfig.query_args(card["mst"], json_file=name)), name, command_line(text), name)


def query_card(shell: Shell, card: dict[str, Any], as_json: bool, stop: bool = False) -> dict[str, Any]:
    """The firmware settings of a card (parameters by name), with mst stopped in the same round trip when nobody needs it any more.

    A card that MFT cannot open gives {"error": ...}; what else goes wrong raises.
    """
    commands = [query_command(card, as_json)] + ([["mst", "stop"]] if stop else [])
    return device_of(shell.run_many(commands)[0], card, shell.host)


def device_of(answer: Answer, card: dict[str, Any], host: str) -> dict[str, Any]:
    """The device in the answer to a query of one card."""
    found = mlxconfig.parse(answer.text)
    if found.get("error"):
        if found.get("error_kind") in ("open", "no_device", "semaphore", "busy"):
            return {"error": found["error"], "parameters": {}}
        raise RdmaError("query the firmware settings", "%s, %s" % (host, card_tools.name(card)), "mlxconfig: %s" % found["error"], code="MLXCONFIG")
    if not found["devices"]:
        raise RdmaError("query the firmware settings", "%s, %s" % (host, card_tools.name(card)), "mlxconfig printed no device: %s" % answer.last_line())
    return found["devices"][0]


def vpd_command(card: dict[str, Any]) -> list[str]:
    """The vital product data, where the serial number is: mlxfwmanager does not know it."""
    return ["mlxvpd", "-d", card["mst"]]


def take_serial(card: dict[str, Any], answer: Answer) -> None:
    for line in lines("mlxvpd", answer.text) if answer.ok else ():
        words = line.split()
        if words and words[0] == "SN":
            card["serial"] = words[-1]


def serials(shell: Shell, cards: list[dict[str, Any]]) -> None:
    """Fills in the serial numbers, for a selector that needs them."""
    readable = [card for card in cards if card["readable"]]
    if readable:
        for card, answer in zip(readable, shell.run_many([vpd_command(card) for card in readable])):
            take_serial(card, answer)


def same_card(shell: Shell, card: dict[str, Any]) -> bool:
    """Whether the mst name still leads to the card it was looked up for; asked right before a write."""
    answers = shell.run_many([MFT["mst"], ["mlxfwmanager"] + mlxfwmanager.query_args(card["mst"])])
    devices = mlxfwmanager.parse(answers[1].text)["devices"]
    now = mst.device_at(mst.parse(answers[0].text)["devices"], card["bdf"])
    return now == card["mst"] and len(devices) == 1 and devices[0]["psid"] == card["psid"] and set(card_tools.macs(devices[0])) <= set(card["macs"])
