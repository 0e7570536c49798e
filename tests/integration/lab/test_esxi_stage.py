# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role esxi alone, over SSH, on a host without MFT (esxi01) and on one with it (esxi02)."""

from __future__ import annotations

import pytest

PLAY = """
- hosts: esxi
  gather_facts: false
  roles:
    - role: vhpc.rdma.esxi
"""


TASKS = 12


@pytest.fixture(name="stage")
def _stage(site, tmp_path):
    here = site(2)
    path = tmp_path / "esxi.yml"
    path.write_text(PLAY)
    return here, lambda *extra: here.run(str(path), *extra)


def state(world):
    """Everything of the hosts but what the lab's faces keep for themselves."""
    return {name: {key: value for key, value in host.items() if key != "settings"} for name, host in world.dump()["hosts"].items()}


def changed(outcome):
    return sum(line.split("changed=")[1].split()[0] != "0" for line in outcome.log.splitlines() if "changed=" in line and "ok=" in line)


def test_virgin_hosts_are_planned_set_proven_and_then_left_alone(stage):
    here, run = stage
    before = state(here.world)
    planned = run("--check")
    assert planned.code == 0, planned.log[-3000:]
    assert state(here.world) == before
    for words in ("REBOOT 1 VIB nmst", "REBOOT 1 module nmlx5_core: max_vfs; card 0000:3b:00.0", "maybe    host: reboot (MFT is not installed",
                  "LINK_TYPE_P1  ETH(2) -> IB(1)", "distributed switch hpc-dvs: uplink vmnic2 (0000:3b:00.0)  in use -> removed  (port groups hpc-ib-sriov"):
        assert words in planned.log, planned.log[-4000:]
    done = run()
    assert done.code == 0, done.log[-3000:]
    for one in (planned, done):
        recap = [line for line in one.log.splitlines() if "changed=" in line and "ok=" in line]
        assert len(recap) == 2
        for line in recap:
            assert sum(int(part.split("=")[1]) for part in line.split() if part.split("=")[0] in ("ok", "skipped", "failed")) <= TASKS, line
    assert [here.world.hosts[name].boots for name in ("esxi01", "esxi02")] == [2, 1]
    for host in here.world.hosts.values():
        card = next(card for card in host.cards if card.vpi)
        assert (card.link_type(1), card.link_type(2), card.config["SRIOV_EN"].current, card.config["FORCE_ETH_PCI_SUBCLASS"].current) == (1, 2, 0, 0)
        assert not host.dvs.get("hpc-dvs")
        assert host.module_running["nmlx5_core"] == "pfctx=0x08 pfcrx=0x08 trust_state=2" and host.mst_started is False
        assert host.services["TSM-SSH"].policy == "off" and host.services["TSM-SSH"].running
        management = next(card for card in host.cards if not card.vpi)
        assert all(nv.current == nv.next for nv in management.config.values())
    again = run()
    assert again.code == 0 and changed(again) == 0
    assert [here.world.hosts[name].boots for name in ("esxi01", "esxi02")] == [2, 1]


@pytest.mark.parametrize("when", ["before", "after"])
def test_ssh_that_drops_while_the_card_is_set_names_the_command_and_a_later_run_finishes(stage, when):
    here, run = stage
    here.world.set_fault("ssh_drop", "esxi02", match="mlxconfig.* set ", when=when, times=1)
    first = run()
    assert first.code != 0 and list(first.failed) == ["esxi02"]
    assert "mlxconfig -d mt4119_pciconf1 -y set" in first.failed["esxi02"] and "run the play again" in first.failed["esxi02"]
    second = run()
    assert second.code == 0, second.log[-3000:]
    assert here.world.hosts["esxi02"].boots == 1 and here.world.hosts["esxi01"].boots == 2


def test_closed_ssh_is_opened_for_the_run_and_closed_again(stage):
    here, run = stage
    for host in here.world.hosts.values():
        host.services["TSM-SSH"].running = False
        here.world.tell("host", host.name)
    done = run()
    assert done.code == 0, done.log[-3000:]
    assert [host.services["TSM-SSH"].running for host in here.world.hosts.values()] == [False, False]


def test_a_run_that_fails_puts_ssh_back_as_it_was_found(stage):
    here, run = stage
    for host in here.world.hosts.values():
        host.services["TSM-SSH"].running, host.services["TSM-SSH"].policy = False, "automatic"
        here.world.tell("host", host.name)
    here.world.set_fault("wrong_psid", "esxi02")
    failed = run()
    assert failed.code != 0 and set(failed.failed) == {"esxi02"}
    found = {host.name: (host.services["TSM-SSH"].running, host.services["TSM-SSH"].policy) for host in here.world.hosts.values()}
    assert found == dict.fromkeys(found, (False, "automatic"))
    assert [entry["host"] for entry in here.world.journal if entry["what"] == "StopService"].count("esxi02") == 1
