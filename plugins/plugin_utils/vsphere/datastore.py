# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file of the controller onto a datastore, through vCenter's own file access: no SSH, one copy for every host that mounts it."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import typing as t
from urllib.parse import quote, urlencode

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import session as _session

SECONDS = 1200
PLACE = re.compile(r"^/vmfs/volumes/([^/]+)/(.+)$")


def sha256(path: str) -> str:
    """Of a file on the controller."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as source:
            for block in iter(lambda: source.read(1 << 20), b""):
                digest.update(block)
    except OSError as err:
        raise RdmaError("read the file to upload", path, str(err), "name a file that the user who runs the play can read", code="FILE") from err
    return digest.hexdigest()


def upload(link: t.Any, host: t.Any, local: str, target: str, where: str) -> None:
    """PUT the file; target: /vmfs/volumes/DATASTORE/path, by the datastore's name."""
    place = PLACE.match(target)
    if not place:
        raise RdmaError("upload %s" % local, where, "%s is not on a datastore" % target, "write source as /vmfs/volumes/DATASTORE/path", code="RELATIVE_PATH")
    query = urlencode({"dcPath": _datacenter(link, host), "dsName": place.group(1)})
    params, server = link.params, link.server
    connection = http.client.HTTPSConnection(params["hostname"], params["port"], timeout=SECONDS, context=_session._context(params, server))
    try:
        with open(local, "rb") as source:
            connection.request("PUT", "/folder/%s?%s" % (quote(place.group(2)), query), body=source,
                               headers={"Cookie": link.stub.cookie.split(";")[0], "Content-Length": str(os.path.getsize(local)),
                                        "Content-Type": "application/octet-stream"})
            answer = connection.getresponse()
            answer.read()
    except (OSError, http.client.HTTPException) as err:
        raise _session.explain(err, "upload %s" % local, where) from err
    finally:
        connection.close()
    if answer.status not in (200, 201, 204):
        hint = "see whether the datastore and its directory exist" if answer.status in (404, 500) else \
            "give the user the privilege Datastore.FileManagement" if answer.status in (401, 403) else "see vCenter's log"
        raise RdmaError("upload %s" % local, where, "vCenter answers %d %s for %s" % (answer.status, answer.reason, target), hint, code="UPLOAD")


def _datacenter(link: t.Any, thing: t.Any) -> str:
    """The inventory path of the datacenter that something is in; a host of its own calls it ha-datacenter."""
    if link.is_host:
        return "ha-datacenter"
    names: list[str] = []
    while thing is not None:
        row = link.read(thing, "name", "parent")
        if names or isinstance(thing, _session.vim.Datacenter):
            names.insert(0, row["name"])
        thing = row["parent"]
    return "/".join(names[1:])  # without the root folder
