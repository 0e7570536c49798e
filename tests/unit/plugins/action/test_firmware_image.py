# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mlx_firmware_image against the lab's flint: what belongs on the card is burned once, everything else is refused before the write."""

from __future__ import annotations

import hashlib

import pytest

from ansible_collections.vhpc.rdma.tests.unit.plugins.action.rig import Rig
from lab import kinds, site

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
