# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of an ESXi host, such as its SSH server: what is changed, what was found and is put back."""

from __future__ import annotations

import json
import os
import tempfile

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError


def find(services: list[dict], key: str, host: str) -> dict:
    found = next((one for one in services if one["key"] == key), None)
    if found is None:
        raise RdmaError("find the service %s" % key, host, "the host has %s" % ", ".join(sorted(one["key"] for one in services)),
                        "SSH is TSM-SSH, the local shell is TSM", code="NOT_FOUND")
    return found


def plan(host: str, found: dict, running: bool | None, policy: str | None) -> Changes:
    changes = Changes("esxi")
    thing = "service %s" % found["key"]
    if policy is not None and policy != found["policy"]:
        changes.add(thing, "policy", found["policy"], policy)
    if running is not None and running != found["running"]:
        changes.add(thing, "running", found["running"], running)
    return changes


def recorded(path: str, host: str, key: str) -> dict | None:
    """What the file says about the service of that host; None where it says nothing."""
    try:
        with open(path, encoding="utf-8") as source:
            value = json.load(source)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        raise RdmaError("read what the service %s was" % key, host, "%s: %s" % (path, err), "correct or delete the file", code="STATE_FILE") from err
    return (value.get(host) or {}).get(key) if isinstance(value, dict) else None


def record(path: str, host: str, key: str, state: dict | None) -> None:
    """Write what was found (None: forget it) so that a run that dies leaves the old file or the new one, never half of it."""
    try:
        with open(path, encoding="utf-8") as source:
            value = json.load(source)
    except (OSError, ValueError):
        value = {}
    services = value.setdefault(host, {})
    services.pop(key, None)
    if state is not None:
        services[key] = state
    if not services:
        value.pop(host)
    try:
        if not value:
            if os.path.exists(path):
                os.unlink(path)
            return
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as target:
            json.dump(value, target, indent=2, sort_keys=True)
        os.replace(target.name, path)
    except OSError as err:
        raise RdmaError("record what the service %s was" % key, host, "%s: %s" % (path, err), "name a file in a directory that can be written",
                        code="STATE_FILE") from err
