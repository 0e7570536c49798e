# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""esxi_reboot: reasons looked at again after the boot, one retry, vSAN's data and vSAN's turn."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxcli_vc
from lab.vsphere.rig import Lab
from lab.world import Vib

TOOLS = [{"thing": "VIB mft", "name": "version", "before": None, "after": "4.18.1.14 or later", "reboot": "host", "certainty": "sure"}]
OPTION = [{"thing": "module nmlx5_core", "name": "max_vfs", "before": "16", "after": None, "reboot": "host", "certainty": "sure"}]
CARD = [{"thing": "card 0000:3b:00.0", "name": "LINK_TYPE_P1", "before": "ETH(2)", "after": "IB(1)", "reboot": "host", "certainty": "sure"}]


@pytest.fixture(name="here")
def _here(tmp_path, monkeypatch):
    monkeypatch.setattr(esxcli_vc.tempfile, "gettempdir", lambda: str(tmp_path))
    made = []

    def start(hosts=1):
        made.append(Lab(tmp_path, hosts))
        for host in made[-1].world.hosts.values():
            host.boot_seconds = 1.5
        return made[-1]
    yield start
    for one in made:
        one.face.stop()


def stage(here, name="esxi01"):
    host = here.world.hosts[name]
    host.staged = dict(host.vibs, mft=Vib("mft", "4.18.1.14-0", "MEL", "PartnerSupported"))
    host.module_options["nmlx5_core"] = "pfctx=0x08"
    return host


def test_every_reason_is_looked_at_again(here):
    site = here()
    host = stage(site)
    done = site.ok("esxi_reboot", reasons=["tools"], checks=TOOLS + OPTION + CARD, reboot_ok=True, reboot_timeout=30)
    assert done["rebooted"] and host.boots == 1 and "mft" in host.vibs


def test_what_is_not_in_force_is_a_verdict_and_no_loop(here):
    site = here()
    host = stage(site)
    site.world.set_fault("image_lost", "esxi01")
    failed = site.failed("esxi_reboot", reasons=["tools"], checks=TOOLS + OPTION, reboot_ok=True, reboot_timeout=30)
    assert failed["error"]["code"] == "NOT_IN_FORCE" and failed["unmet"] == ["VIB mft is not there, not 4.18.1.14 or later"]
    assert host.boots == 1 and not host.maintenance


@pytest.mark.parametrize("retry, boots", [(False, 1), (True, 2)])
def test_passthrough_that_the_boot_lost_is_a_verdict_of_the_reboot(here, retry, boots):
    site = here()
    host = site.world.hosts["esxi01"]
    host.dvs = {}
    set_up = site.ok("host_passthru", devices=[{"id": "15b3:1017"}])
    site.world.set_fault("passthru_lost", "esxi01")
    failed = site.failed("esxi_reboot", reasons=set_up["reboot_reasons"], checks=set_up["changes"], retry=retry, reboot_ok=True, reboot_timeout=30)
    assert failed["error"]["code"] == "NOT_IN_FORCE" and "passthrough of 0000:3b:00.0 is not active" in failed["msg"]
    assert "host_passthru" in failed["error"]["hint"] and host.boots == boots
    site.world.clear_fault("passthru_lost", "esxi01")
    assert site.ok("esxi_reboot", reasons=["passthrough"], checks=set_up["changes"], reboot_ok=True, reboot_timeout=30)["rebooted"]


def test_one_retry_at_most(here):
    site = here()
    host = stage(site)
    site.world.set_fault("image_lost", "esxi01")
    assert site.failed("esxi_reboot", reasons=["tools"], checks=TOOLS, retry=True, reboot_ok=True, reboot_timeout=30)["error"]["code"] == "NOT_IN_FORCE"
    assert host.boots == 2


@pytest.mark.parametrize("asked, sent", [(None, "ensureObjectAccessibility"), ("full", "evacuateAllData"), ("none", "noAction")])
def test_vsan_is_told_what_to_do_with_the_data(here, asked, sent):
    site = here()
    site.ok("esxi_reboot", reasons=["a"], reboot_ok=True, reboot_timeout=30, vsan_evacuation=asked)
    assert [entry["vsan"] for entry in site.world.journal if entry["what"] == "evacuation"] == [sent]


@pytest.mark.parametrize("vsan, most, at_once", [(True, 1, 1), (True, 2, 2), (False, 1, 3)])
def test_vsan_hosts_wait_for_their_turn(here, vsan, most, at_once):
    site = here(3)
    site.world.vsan = vsan
    counts, over = [], threading.Event()

    def watch():
        while not over.wait(0.01):
            counts.append(sum(host.state != "on" or host.maintenance for host in site.world.hosts.values()))
    job = dict(reasons=["a"], reboot_ok=True, reboot_timeout=30, vsan_hosts_down_max=most)
    threads = [threading.Thread(target=site.ok, args=("esxi_reboot", name), kwargs=job) for name in site.world.hosts]
    watcher = threading.Thread(target=watch)
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    watcher.join()
    assert [host.boots for host in site.world.hosts.values()] == [1, 1, 1] and max(counts) == at_once


def test_a_host_that_is_away_keeps_the_others_up(here):
    site = here(2)
    site.world.vsan = True
    site.world.hosts["esxi02"].maintenance = True
    started = time.monotonic()
    failed = site.failed("esxi_reboot", reasons=["a"], reboot_ok=True, reboot_timeout=30, maintenance_timeout=2)
    assert failed["error"]["code"] == "VSAN_HOSTS_DOWN" and "esxi02 is away" in failed["msg"] and time.monotonic() - started < 15
    assert site.world.hosts["esxi01"].boots == 0
    assert site.ok("esxi_reboot", reasons=["a"], reboot_ok=True, reboot_timeout=30, vsan_hosts_down_max=0)["rebooted"]
