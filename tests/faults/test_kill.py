# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SIGKILL to the process group of ansible-playbook at ten moments of the ESXi stage; running it again always ends in the same final state.

esxi01 has no MFT and reboots twice, esxi02 has it and reboots once. A moment is something that the lab sees happen on a host.
"""

from __future__ import annotations

import collections
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.harness import differences

PLAY = """
- hosts: esxi
  gather_facts: false
  roles:
    - role: vhpc.rdma.esxi
"""
BOOTS = {"esxi01": 2, "esxi02": 1}
# name: (host, the line of the lab's journal, how many of them, seconds after it)
MOMENTS = {
    "SSH is being switched on": ("esxi01", r"^StartService$", 1, 0.0),
    "the host is being read": ("esxi01", r"esxcli software vib list", 1, 0.0),
    "the tools are being installed": ("esxi01", r"esxcli software vib install .*mft", 1, 0.0),
    "the tools are installed": ("esxi01", r"^image: \+", 1, 0.05),
    "the module's options are set": ("esxi02", r"^options of nmlx5_core", 1, 0.0),
    "maintenance mode is being entered": ("esxi01", r"^EnterMaintenanceMode_Task$", 1, 0.0),
    "the host goes down": ("esxi01", r"^reboot$", 1, 0.0),
    "the host is back": ("esxi01", r"^booted$", 1, 0.1),
    "the card is being set": ("esxi02", r"mlxconfig .* -y set ", 1, 0.0),
    "the card is set and waits": ("esxi01", r"^card 0000:\S+ .*LINK_TYPE_P1=1", 1, 0.0),
    "the last reboot is under way": ("esxi02", r"^reboot$", 1, 0.2),
}
EXPECTED: dict[str, dict] = {}


def state(world):
    """What a run leaves: hosts, without clocks and without what the lab's faces keep for themselves."""
    ignored = ("boot_time", "settings", "tmp", "address", "ssh_port", "bmc", "date")

    def plain(value):
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items() if key not in ignored}
        return [plain(one) for one in value] if isinstance(value, list) else value
    return plain(world.dump()["hosts"])


def writes(world):
    """(host, card, parameter) -> the values written, in order."""
    out = collections.defaultdict(list)
    for entry in list(world.journal):
        card = re.match(r"^card (\S+): (.*)$", entry["what"]) if entry["face"] == "mft" else None
        for pair in card.group(2).split() if card else ():
            name, _equals, value = pair.partition("=")
            out[entry["host"], card.group(1), name].append(value)
    return out


def no_value_is_written_twice(world):
    for place, values in writes(world).items():
        assert all(first != second for first, second in zip(values, values[1:])), "%s of %s %s: %s" % (place[2], place[0], place[1], values)


@pytest.fixture(scope="session", name="expected")
def _expected(lab_site, tmp_path_factory):
    """The final state of a run that nobody disturbed."""
    if not EXPECTED:
        here = lab_site("undisturbed")
        done = here.run(playbook(here.directory))
        assert done.code == 0, done.log[-3000:]
        assert {name: host.boots for name, host in here.world.hosts.items()} == BOOTS
        assert not any(host.services["TSM-SSH"].running for host in here.world.hosts.values())
        EXPECTED.update(state(here.world))
    return EXPECTED


def playbook(directory: Path) -> str:
    path = directory / "esxi.yml"
    path.write_text(PLAY)
    return str(path)


def seen(world, host, pattern, count):
    return sum(entry["host"] == host and re.search(pattern, entry["what"]) is not None for entry in list(world.journal)) >= count


def run_and_kill(here, moment) -> None:
    """Starts the play in a process group of its own and ends all of it at the moment."""
    host, pattern, count, after = moment
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(here.lab.inventory), playbook(here.directory),
               "-e", "vhpc_run_dir=%s" % (here.directory / "run"), "-e", "vhpc_reboot_timeout=60"]
    with open(here.directory / "killed.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=here.directory, env=here.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True)
    try:
        deadline = time.monotonic() + 90
        while not seen(here.world, host, pattern, count):
            assert process.poll() is None, "the play ended before the moment:\n%s" % (here.directory / "killed.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the moment did not come"
            time.sleep(0.005)
        time.sleep(after)
        assert process.poll() is None, "the play was over before it could be killed"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(20)


@pytest.mark.parametrize("name", list(MOMENTS))
def test_a_killed_run_is_finished_by_the_next_one(name, lab_site, expected):
    here = lab_site("killed")
    run_and_kill(here, MOMENTS[name])
    deadline = time.monotonic() + 20
    while any(host.state != "on" for host in here.world.hosts.values()):  # a person would not start again while a host boots
        assert time.monotonic() < deadline
        time.sleep(0.1)
    again = here.run(playbook(here.directory))
    assert again.code == 0, again.log[-3000:]
    assert differences(expected, state(here.world)) == []
    assert {host.name: host.boots for host in here.world.hosts.values()} == BOOTS
    no_value_is_written_twice(here.world)
    assert not list((here.directory / "run" / "services").glob("*.json"))
