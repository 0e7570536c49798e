# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a firmware image belongs on a card: board id, version, signature; and what is missing between flash and running firmware."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.software_plan import compare as compare_versions

SIGNED = "secure-fw"


def offered(device, card, source, where):
    """What mlxfwmanager would burn from a directory or the vendor's server, in the form that plan() takes. device: as its query of the card gives it."""
    version = device["fw_available"]
    if re.search("multiple", device["status"], re.I):
        raise RdmaError("choose the image", where, "%s has several images for %s" % (source, card["psid"]), "name the file with image", code="SEVERAL_IMAGES")
    if not re.match(r"^\d+\.\d", version):
        raise RdmaError("find an image", where, "%s has none for %s (%s)" % (source, card["psid"], device["status"] or "no status"),
                        "get the image for this PSID from the card's vendor", code="NO_IMAGE")
    return {"psid": card["psid"], "fw_version": version, "security": None}


def plan(card, image, where, version="", allow_downgrade=False):
    """{burn, pending, flash, running, image}: burn is whether the image has to be written. Refuses everything that must not be.

    card, image: flint's queries of the device and of the file; security None: what signs the image is not known, the tool that burns it looks.
    """
    what, refused = "burn the image", []
    flash, running, new = card["fw_version"], card["fw_version_running"], image["fw_version"]
    if image["psid"] != card["psid"]:
        refused.append(("PSID", "the image is for %s, the card is %s%s" % (
            image["psid"] or "no board that it names", card["psid"], " (made as %s)" % card["orig_psid"] if card.get("orig_psid") else ""),
            "get the image for this PSID from the card's vendor"))
    if version and compare_versions(new, version) != 0:
        refused.append(("VERSION", "the image is version %s, %s is asked for" % (new, version), "give the image of that version"))
    if SIGNED in card["security"] and image["security"] is not None and SIGNED not in image["security"]:
        refused.append(("UNSIGNED", "the card takes signed images only (%s) and this one is not signed" % ", ".join(card["security"]),
                        "get the signed image (the vendor's file for secure firmware)"))
    if compare_versions(new, flash) < 0 and not allow_downgrade:
        refused.append(("DOWNGRADE", "%s is older than %s on flash" % (new, flash), "set allow_downgrade: true if that is meant"))
    if refused:
        raise RdmaError(what, where, "; ".join(text for dummy, text, hint in refused), "; ".join(hint for dummy, text, hint in refused), code=refused[0][0])
    burn = compare_versions(new, flash) != 0
    return {"burn": burn, "pending": not burn and running != flash, "flash": flash, "running": running, "image": new}
