# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When something was set that the next boot makes current, kept on the controller from one run to the next.

A card shows that a value is set and not current, but not whether a reboot has already failed to make it current; a kernel
module does not even show what it runs with. Without this memory every run would reboot the one host once more, and forget the
reboot that the other still needs when a run ended before it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from .shell import Answer

UPTIME = ["esxcli", "system", "stats", "uptime", "get"]  # in microseconds
SLACK = 0.2  # seconds that the way of the answer may take


class Memory:
    """The memory of one host by thing. Without a file it knows nothing and keeps nothing."""

    def __init__(self, path: str | None, uptime: Answer | None) -> None:
        self.path = path
        self.known = self._load()
        self._before = dict(self.known)
        found = re.search(r"\d+", uptime.text) if uptime and uptime.ok else None
        self.booted_at = time.time() - int(found.group()) / 1e6 if found else None

    def _load(self) -> dict[str, float]:
        if not self.path or not os.path.exists(self.path):
            return {}
        try:
            with open(self.path, encoding="utf-8") as handle:
                return {str(thing): float(at) for thing, at in json.load(handle).items()}
        except (OSError, ValueError, AttributeError, TypeError) as err:
            raise RdmaError("read what an earlier run set", self.path, str(err), "remove the file; at worst a host reboots once more", code="STATE") from err

    def rebooted(self, thing: str) -> bool:
        """The host has booted since the thing was set."""
        return thing in self.known and self.booted_at is not None and self.booted_at > self.known[thing] + SLACK

    def waits(self, thing: str) -> bool:
        """The thing was set and the host has not booted since."""
        return thing in self.known and self.booted_at is not None and not self.rebooted(thing)

    def keep(self, thing: str, again: bool = True) -> None:
        """Set just now; again=False: only if nothing is known of it yet."""
        if again or thing not in self.known:
            self.known[thing] = time.time()

    def forget(self, thing: str) -> None:
        self.known.pop(thing, None)

    def save(self) -> None:
        if not self.path or self.known == self._before:
            return
        directory = os.path.dirname(os.path.abspath(self.path))
        try:
            os.makedirs(directory, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=directory, delete=False) as handle:
                json.dump(self.known, handle)
            os.replace(handle.name, self.path)
        except OSError as err:
            raise RdmaError("remember what was set", self.path, str(err), "give a state_file in a directory that can be written", code="STATE") from err
