# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A walk over a Redfish service, as its tests take it."""

from __future__ import annotations

import typing as t


def walk(get: t.Callable[[str], t.Any]) -> dict[str, t.Any]:
    """Every resource that links lead to from the service root: path -> body. get: path -> body."""
    todo, seen = ["/redfish/v1"], {}

    def links(value: t.Any) -> None:
        if isinstance(value, dict):
            if set(value) == {"@odata.id"}:
                todo.append(value["@odata.id"])
            for part in value.values():
                links(part)
        elif isinstance(value, list):
            for part in value:
                links(part)

    while todo:
        path = todo.pop()
        if path not in seen:
            seen[path] = get(path)
            links(seen[path])
    return seen
