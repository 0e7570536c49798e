# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mlx_firmware_image against the lab's flint: what belongs on the card is burned once, everything else is refused before the write."""

from __future__ import annotations

import hashlib
import threading

import pytest

from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxcli_vc
from ansible_collections.vhpc.rdma.tests.unit.plugins.action.rig import Rig
from lab import kinds, site
from lab.vsphere.client import Site

HOST = "esxi01"
NEW = "16.35.4030"


@pytest.fixture(name="rig")
def _rig():
    return Rig(kinds.build("connectx5-vpi"))


def card_of(rig):
    return next(card for card in rig.world.hosts[HOST].cards if card.psid != "MT_2420110034")


def job(rig, name="connectx5-vpi", version=NEW, signed=True, psid="", **more):
    psid = psid or kinds.KINDS[name].psid
    return dict(card={"psid": kinds.KINDS[name].psid}, image=kinds.image(rig.world, "fw.bin", psid, version, signed), **more)


def burned(rig):
    return [entry for entry in rig.world.journal if entry["what"].startswith("burned")]


def test_an_image_is_burned_once_then_pending_then_running(rig):
    wanted = job(rig, version=NEW, burn_ok=True)
    planned = rig("mlx_firmware_image", HOST, check=True, **wanted)
    assert not planned.get("failed"), planned["msg"]
    assert not burned(rig) and planned["changes"][0]["before"] == "16.32.1010" and planned["changes"][0]["after"] == NEW
    done = rig("mlx_firmware_image", HOST, **wanted)
    assert done["changes"] == planned["changes"] and done["reboot_required"] and (done["firmware"]["flash"], done["firmware"]["running"]) == (NEW, "16.32.1010")
    again = rig("mlx_firmware_image", HOST, **wanted)
    assert (again["changed"], again["reboot_required"], len(burned(rig))) == (False, True, 1)
    rig.reboot(HOST)
    after = rig("mlx_firmware_image", HOST, **wanted)
    assert (after["changed"], after["reboot_required"], after["firmware"]["running"], len(burned(rig))) == (False, False, NEW, 1)


def test_consent_is_asked_before_and_check_mode_needs_none(rig):
    refused = rig("mlx_firmware_image", HOST, **job(rig))
    assert refused["failed"] and refused["error"]["code"] == "NO_CONSENT" and not burned(rig)
    assert rig("mlx_firmware_image", HOST, check=True, **job(rig))["changed"] is True


@pytest.mark.parametrize("more, code, words", [
    (dict(psid="DEL0000000023"), "PSID", "DEL0000000023"),
    (dict(version="16.31.1014"), "DOWNGRADE", "older than 16.32.1010"),
])
def test_what_does_not_belong_there_is_refused_before_the_write(rig, more, code, words):
    refused = rig("mlx_firmware_image", HOST, **job(rig, burn_ok=True, **more))
    assert refused["failed"] and refused["error"]["code"] == code and words in refused["msg"] and not burned(rig)


def test_a_version_that_is_not_the_asked_one_and_a_wrong_checksum(rig):
    wanted = job(rig, burn_ok=True)
    refused = rig("mlx_firmware_image", HOST, **dict(wanted, version="16.35.4000"))
    assert refused["error"]["code"] == "VERSION"
    refused = rig("mlx_firmware_image", HOST, **dict(wanted, checksum="sha256:" + "0" * 64))
    assert refused["error"]["code"] == "FILE" and "SHA-256" in refused["msg"] and not burned(rig)
    good = hashlib.sha256(rig.world.datastores[site.DATASTORE]["firmware/fw.bin"].content).hexdigest()
    assert rig("mlx_firmware_image", HOST, **dict(wanted, version=NEW, checksum="sha256:" + good))["changed"] is True


def test_a_downgrade_needs_a_word(rig):
    assert rig("mlx_firmware_image", HOST, **job(rig, version="16.31.1014", burn_ok=True, allow_downgrade=True))["changed"] is True
    assert card_of(rig).flash == "16.31.1014"


@pytest.mark.parametrize("name", ["connectx6dx", "connectx7-vpi", "bluefield2"])
def test_a_card_with_secure_firmware_takes_signed_images_only(name):
    rig = Rig(kinds.build(name))
    wanted = dict(name=name, version="99.1.0", burn_ok=True)
    refused = rig("mlx_firmware_image", HOST, **job(rig, signed=False, **wanted))
    assert refused["failed"] and refused["error"]["code"] == "UNSIGNED" and not burned(rig)
    assert rig("mlx_firmware_image", HOST, **job(rig, **wanted))["changed"] is True


def test_a_burn_that_fails_is_told_and_repeated(rig):
    rig.world.set_fault("burn_fails", HOST, times=1)
    wanted = job(rig, burn_ok=True)
    failed = rig("mlx_firmware_image", HOST, **wanted)
    assert failed["failed"] and failed["error"]["code"] == "BURN" and "Flash" in failed["msg"] and "do not reboot" in failed["msg"]
    assert rig("mlx_firmware_image", HOST, **wanted)["changed"] is True


def test_a_missing_file_a_management_card_and_a_host_without_mft(rig):
    wanted = job(rig, burn_ok=True)
    assert rig("mlx_firmware_image", HOST, **dict(wanted, image="/vmfs/volumes/hpc-nfs/none.bin"))["error"]["code"] == "FILE"
    assert rig("mlx_firmware_image", HOST, **dict(wanted, image="fw.bin"))["error"]["code"] == "RELATIVE_PATH"
    assert rig("mlx_firmware_image", HOST, **dict(wanted, card={"psid": "MT_2420110034"}))["error"]["code"] == "MANAGEMENT_CARD"
    rig.world.hosts[HOST].vibs.pop("mft")
    assert rig("mlx_firmware_image", HOST, **wanted)["error"]["code"] == "NO_MFT"
    assert rig("mlx_firmware_image", HOST, check=True, **wanted)["changes"][0]["certainty"] == "conditional"
    assert not burned(rig)


# ---- out of a directory, from the vendor ------------------------------------------------------------------------------

DIRECTORY = "/vmfs/volumes/%s/firmware" % site.DATASTORE


def shelf(rig, **images):
    """A directory with images: name=(psid, version, signed)."""
    for name, about in images.items():
        kinds.image(rig.world, name + ".bin", *about)
    return dict(card={"psid": "MT_0000000008"}, image_dir=DIRECTORY, burn_ok=True)


def test_out_of_a_directory_goes_the_image_for_the_cards_psid(rig):
    wanted = shelf(rig, ours=("MT_0000000008", NEW), others=("DEL0000000023", "16.99.1"))
    planned = rig("mlx_firmware_image", HOST, check=True, **wanted)
    assert not planned.get("failed"), planned["msg"]
    assert planned["changes"][0]["after"] == NEW and not burned(rig)
    refused = rig("mlx_firmware_image", HOST, **dict(wanted, burn_ok=False))
    assert refused["error"]["code"] == "NO_CONSENT" and not burned(rig)
    refused = rig("mlx_firmware_image", HOST, **dict(wanted, version="16.35.4000"))
    assert refused["error"]["code"] == "VERSION" and not burned(rig)
    done = rig("mlx_firmware_image", HOST, **wanted)
    assert done["changes"] == planned["changes"] and (done["firmware"]["flash"], done["firmware"]["running"]) == (NEW, "16.32.1010")
    again = rig("mlx_firmware_image", HOST, **wanted)
    assert (again["changed"], again["reboot_required"], len(burned(rig))) == (False, True, 1)


@pytest.mark.parametrize("images, code", [
    (dict(others=("DEL0000000023", "16.99.1")), "NO_IMAGE"),
    (dict(one=("MT_0000000008", "16.35.4030"), two=("MT_0000000008", "16.35.8008")), "SEVERAL_IMAGES"),
    (dict(old=("MT_0000000008", "16.31.1014")), "DOWNGRADE"),
])
def test_a_directory_without_the_one_right_image_is_refused_before_the_write(rig, images, code):
    refused = rig("mlx_firmware_image", HOST, **shelf(rig, **images))
    assert refused["failed"] and refused["error"]["code"] == code and not burned(rig), refused["msg"]


def test_a_downgrade_out_of_a_directory_needs_a_word_and_a_missing_directory_is_told(rig):
    wanted = shelf(rig, old=("MT_0000000008", "16.31.1014"))
    assert rig("mlx_firmware_image", HOST, **dict(wanted, allow_downgrade=True))["firmware"]["flash"] == "16.31.1014"
    missing = rig("mlx_firmware_image", HOST, **dict(wanted, image_dir=DIRECTORY + "/none"))
    assert missing["error"]["code"] == "SOURCE" and "does not exist" in missing["msg"]


def test_an_unsigned_image_in_a_directory_is_refused_before_the_write():
    rig = Rig(kinds.build("connectx7-vpi"))
    psid = kinds.KINDS["connectx7-vpi"].psid
    wanted = dict(shelf(rig, ours=(psid, "28.99.1", False)), card={"psid": psid})
    refused = rig("mlx_firmware_image", HOST, **wanted)
    assert refused["error"]["code"] == "UNSIGNED" and not burned(rig)
    rig.world.set_fault("burn_fails", HOST, times=1)
    wanted = dict(shelf(rig, ours=(psid, "28.99.1", True)), card={"psid": psid})
    failed = rig("mlx_firmware_image", HOST, **wanted)
    assert failed["error"]["code"] == "BURN" and "Flash" in failed["msg"] and not burned(rig)
    assert rig("mlx_firmware_image", HOST, **wanted)["changed"] is True


def test_the_vendors_server_is_asked_only_with_consent(rig):
    wanted = dict(card={"psid": "MT_0000000008"}, online=True, version=NEW, burn_ok=True)
    rig.world.hosts[HOST].settings["online"] = {"MT_0000000008": NEW}

    def asked():
        return [entry for entry in rig.world.journal if entry["what"] == "asked the vendor's server"]
    for check in (True, False):
        refused = rig("mlx_firmware_image", HOST, check=check, **wanted)
        assert refused["error"]["code"] == "NO_CONSENT" and "online_ok" in refused["msg"] and not asked()
    assert "version" in rig("mlx_firmware_image", HOST, **{key: value for key, value in wanted.items() if key != "version"}, online_ok=True)["msg"]
    newer = rig("mlx_firmware_image", HOST, **dict(wanted, online_ok=True, version="16.35.4000"))
    assert newer["error"]["code"] == "VERSION" and asked() and not burned(rig)
    assert rig("mlx_firmware_image", HOST, online_ok=True, **wanted)["firmware"]["flash"] == NEW
    rig.world.hosts[HOST].settings["online"] = None
    away = rig("mlx_firmware_image", HOST, online_ok=True, **wanted)
    assert away["error"]["code"] == "SOURCE" and "server" in away["msg"]


@pytest.mark.parametrize("more", [{}, {"image": "/a.bin", "image_dir": "/b"}, {"image": "/a.bin", "online": True, "online_ok": True, "version": "1.2.3"},
                                  {"image_dir": "/b", "checksum": "sha256:" + "0" * 64}])
def test_one_source_of_the_image_and_only_one(rig, more):
    refused = rig("mlx_firmware_image", HOST, card={"psid": "MT_0000000008"}, **more)
    assert refused["failed"] and "image" in refused["msg"] and not rig.execs


def test_two_burns_never_run_at_once_on_a_host(rig, monkeypatch, tmp_path):
    """Each of two tasks has the host for itself from its first command to its last; the second finds what the first wrote."""
    monkeypatch.setattr(esxcli_vc.tempfile, "gettempdir", lambda: str(tmp_path))
    rig.address, rig.tasks = "192.0.2.1", []
    wanted, results = job(rig, burn_ok=True), []
    threads = [threading.Thread(target=lambda: results.append(rig("mlx_firmware_image", HOST, **wanted))) for _number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(result["changed"] for result in results) == [False, True] and len(burned(rig)) == 1
    changes = sum(one is not other for one, other in zip(rig.tasks, rig.tasks[1:]))
    assert changes == 1, "the commands of two tasks are mixed"


def test_a_firmware_tool_that_somebody_else_runs_is_not_joined(rig):
    wanted = job(rig, burn_ok=True)
    rig.world.hosts[HOST].settings["processes"] = ["/bin/sh /etc/init.d/flintlock", "/opt/mellanox/bin/flint -d mt4119_pciconf1 -i /tmp/other.bin b"]
    busy = rig("mlx_firmware_image", HOST, **wanted)
    assert busy["error"]["code"] == "BUSY" and "/tmp/other.bin" in busy["msg"] and not burned(rig)
    rig.world.hosts[HOST].settings["processes"].pop()
    assert rig("mlx_firmware_image", HOST, **wanted)["changed"] is True


@pytest.mark.parametrize("layout", ["mft-esxcli", "mft-esxcli-flat"])
def test_an_image_is_burned_through_vcenter_too(layout):
    """By MFT's esxcli plugin; what it cannot do there is said."""
    with Site(2) as lab:
        host, vcenter = kinds.host(lab.world, "esxi02", layout), lab.world.vcenter
        rig = Rig(lab.world)
        job_ = dict(card={"psid": "MT_0000000008"}, image=kinds.image(lab.world, "fw.bin", "MT_0000000008", NEW), burn_ok=True, transport="vcenter",
                    hostname=vcenter["address"], port=vcenter["port"], username=vcenter["username"], password=vcenter["password"], validate_certs=False)
        assert "computed through vCenter" in rig("mlx_firmware_image", "esxi02", **dict(job_, checksum="sha256:" + "0" * 64))["msg"]
        directory = {key: value for key, value in job_.items() if key != "image"}
        assert rig("mlx_firmware_image", "esxi02", image_dir=DIRECTORY, **directory)["error"]["code"] == "TRANSPORT"
        done = rig("mlx_firmware_image", "esxi02", **job_)
        assert not done.get("failed"), done["msg"]
        assert (done["firmware"]["flash"], next(card for card in host.cards if card.vpi).flash, rig.execs) == (NEW, NEW, [])
