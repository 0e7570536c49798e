# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a card's settings were written, kept on the controller from one run to the next.

A card shows that a value is set and not current, but not whether a reboot has already failed to make it current.
Without this memory every run would reboot such a host once more.
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
    """The memory of one card of one host. Without a file it knows nothing and keeps nothing."""

    def __init__(self, path: str | None, card: str, uptime: Answer | None) -> None:
        self.path, self.card = path, card
        self.known: dict[str, float] = self._load()
        found = re.search(r"\d+", uptime.text) if uptime and uptime.ok else None
        self.booted_at = time.time() - int(found.group()) / 1e6 if found else None

    def _load(self) -> dict[str, float]:
        if not self.path or not os.path.exists(self.path):
            return {}
        try:
            with open(self.path, encoding="utf-8") as handle:
                return {str(card): float(at) for card, at in json.load(handle).items()}
        except (OSError, ValueError, AttributeError, TypeError) as err:
            raise RdmaError("read what an earlier run set", self.path, str(err), "remove the file; at worst the host is rebooted once more",
                            code="STATE") from err

    @property
    def rebooted(self) -> bool:
        """The host has booted since this card was last seen with values that were set and not current."""
        at = self.known.get(self.card)
        return at is not None and self.booted_at is not None and self.booted_at > at + SLACK

    def keep(self, set_now: bool, waiting: bool) -> None:
        """Remembers a set of this run; or, the first time, that values were found waiting; forgets when nothing waits."""
        before = dict(self.known)
        if set_now:
            self.known[self.card] = time.time()
        elif waiting:
            self.known.setdefault(self.card, time.time())
        else:
            self.known.pop(self.card, None)
        if self.path and self.known != before:
            self._save()

    def _save(self) -> None:
        try:
            os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(os.path.abspath(self.path)), delete=False) as handle:
                json.dump(self.known, handle)
            os.replace(handle.name, self.path)
        except OSError as err:
            raise RdmaError("remember what was set", self.path, str(err), "give a state_file in a directory that can be written", code="STATE") from err
