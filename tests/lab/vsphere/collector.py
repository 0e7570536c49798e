# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The property collector: bulk reads with traversals, and filters to wait on."""

from __future__ import annotations

import time
from typing import Any, Iterator, TYPE_CHECKING

from pyVmomi import vim, vmodl

from . import wire
from .model import Managed

if TYPE_CHECKING:
    from .server import Call, VsphereFace

Q = vmodl.query.PropertyCollector
WAIT_LIMIT = 1800.0  # as long as a session may idle; Ex calls bring their own bound


class Filter(Managed):
    kind = Q.Filter

    def __init__(self, face: VsphereFace, moid: str, collector: PropertyCollector, spec: Any, partial: bool) -> None:
        super().__init__(face, moid)
        self.collector, self.spec, self._partial = collector, spec, partial
        self.seen: dict[str, dict[str, str]] = {}

    def get_spec(self) -> Any:
        return self.spec

    def get_partialUpdates(self) -> bool:
        return self._partial

    def DestroyPropertyFilter(self, call: Call) -> None:
        if call.session and self.moid in call.session.owned:
            call.session.owned.remove(self.moid)
        self.face.drop(self.moid)

    def update(self, version: str) -> Any:
        """What changed since the last look as a FilterUpdate, or None."""
        updates, now = [], {}
        for content in self.collector.contents([self.spec]):
            values = {change.name: wire.text_of(change.val, object, version, "val") for change in content.propSet}
            now[content.obj._moId] = values
            old = self.seen.get(content.obj._moId)
            fresh = [one for one in content.propSet if old is None or old.get(one.name) != values[one.name]]
            gone = [name for name in old or () if name not in values]
            if fresh or gone or old is None:
                changes = [Q.Change(name=one.name, op="assign", val=one.val) for one in fresh] + [Q.Change(name=name, op="assign") for name in gone]
                updates.append(Q.ObjectUpdate(kind="enter" if old is None else "modify", obj=content.obj, changeSet=changes))
        for moid in self.seen:
            if moid not in now:
                kind = next((type(spec.obj) for spec in self.spec.objectSet if spec.obj._moId == moid), vmodl.ManagedObject)
                updates.append(Q.ObjectUpdate(kind="leave", obj=kind(moid)))
        self.seen = now
        return Q.FilterUpdate(filter=self.ref, objectSet=updates) if updates else None


def _waits(method: Any) -> Any:
    """The method waits, so it takes the world's lock itself when it needs it."""
    method.waits = True
    return method


class PropertyCollector(Managed):
    kind = Q
    page_size = 0  # a server may answer in pages smaller than asked for; 0: all at once

    def __init__(self, face: VsphereFace, moid: str) -> None:
        super().__init__(face, moid)
        self._rest: dict[str, tuple[list[Any], int]] = {}

    def get_filter(self) -> list[Any]:
        return []

    # ---- reading ----------------------------------------------------------------------------------------------------

    def contents(self, specs: list[Any]) -> list[Any]:
        """ObjectContent of everything the specs select."""
        out = []
        for spec in specs:
            wanted = [(one.type, list(one.pathSet), bool(one.all)) for one in spec.propSet]
            for start in spec.objectSet:
                named: dict[str, Any] = {}
                self._collect_names(start.selectSet, named)
                first = self.face.find(start.obj)
                seen: set[str] = set()
                for managed in ([] if start.skip else [first]) + list(self._reach(first, start.selectSet, named, set())):
                    if managed.moid in seen:
                        continue
                    seen.add(managed.moid)
                    out.extend(self._content(managed, wanted))
        return out

    def _collect_names(self, selections: Any, named: dict[str, Any]) -> None:
        for one in selections or ():
            if isinstance(one, Q.TraversalSpec):
                if one.name:
                    named[one.name] = one
                self._collect_names(one.selectSet, named)

    def _reach(self, managed: Managed, selections: Any, named: dict[str, Any], visited: set[tuple[str, int]]) -> Iterator[Managed]:
        for one in selections or ():
            selection = one if isinstance(one, Q.TraversalSpec) else named.get(one.name)
            if selection is None:
                raise vmodl.fault.InvalidArgument(invalidProperty="selectSet", msg="No selection spec is named %s." % one.name)
            if not issubclass(managed.kind, selection.type) or (managed.moid, id(selection)) in visited:
                continue
            visited.add((managed.moid, id(selection)))
            value = managed.value(selection.path)
            for ref in value if isinstance(value, list) else [value] if value is not None else []:
                found = self.face.objects.get(ref._moId)
                if found is None:
                    continue
                if not selection.skip:
                    yield found
                yield from self._reach(found, selection.selectSet, named, visited)

    def _content(self, managed: Managed, wanted: list[tuple[Any, list[str], bool]]) -> Iterator[Any]:
        paths: list[str] | None = None
        for kind, names, everything in wanted:
            if issubclass(managed.kind, kind):
                paths = (paths or []) + (managed.names() if everything else names)
        if paths is None:
            return
        content, read = Q.ObjectContent(obj=managed.ref), {}
        for path in dict.fromkeys(paths):
            value = managed.value(path, read)
            if value is not None:
                content.propSet.append(vmodl.DynamicProperty(name=path, val=value))
        yield content

    def RetrieveProperties(self, call: Call, specSet: list[Any]) -> list[Any]:
        found = self.contents(specSet)
        return found if call.session else [self._withheld(one) for one in found]

    @staticmethod
    def _withheld(content: Any) -> Any:
        """The object for somebody who is not logged in: no property, and for each the reason."""
        why = vim.fault.NotAuthenticated(object=content.obj, privilegeId="System.Read", msg="The session is not authenticated.")
        return Q.ObjectContent(obj=content.obj, missingSet=[Q.MissingProperty(path=one.name, fault=why) for one in content.propSet])

    def RetrievePropertiesEx(self, call: Call, specSet: list[Any], options: Any) -> Any:
        found = self.RetrieveProperties(call, specSet)
        if not call.session:
            return Q.RetrieveResult(objects=found)
        return self._page(call, found, options.maxObjects or self.page_size or len(found)) if found else None

    def _page(self, call: Call, found: list[Any], size: int) -> Any:
        token = None
        if len(found) > size:
            token = self.face.new_id("%s-token" % call.session.key)  # a new login does not know it
            self._rest[token] = (found[size:], size)
        return Q.RetrieveResult(objects=found[:size], token=token)

    def ContinueRetrievePropertiesEx(self, call: Call, token: str) -> Any:
        if token not in self._rest or not token.startswith(call.session.key):
            raise vmodl.fault.InvalidArgument(invalidProperty="token", msg="A specified parameter was not correct: token")
        return self._page(call, *self._rest.pop(token))

    def CancelRetrievePropertiesEx(self, call: Call, token: str) -> None:
        if self._rest.pop(token, None) is None:
            raise vmodl.fault.InvalidArgument(invalidProperty="token", msg="A specified parameter was not correct: token")

    # ---- waiting ----------------------------------------------------------------------------------------------------

    def CreateFilter(self, call: Call, spec: Any, partialUpdates: bool) -> Any:
        self.contents([spec])  # a filter that cannot be read is refused at once
        made = self.face.add(Filter(self.face, self.face.new_id("session[%s]filter" % call.sid[:8]), self, spec, partialUpdates))
        call.session.owned.append(made.moid)
        return made.ref

    def CreatePropertyCollector(self, call: Call) -> Any:
        made = self.face.add(PropertyCollector(self.face, self.face.new_id("session[%s]collector" % call.sid[:8])))
        call.session.owned.append(made.moid)
        return made.ref

    def DestroyPropertyCollector(self, call: Call) -> None:
        if self is self.face.collector:
            raise vmodl.fault.NotSupported(msg="The default property collector cannot be destroyed.")
        self.face.drop(self.moid)

    def _changes(self, call: Call) -> Any:
        filters = [self.face.objects.get(moid) for moid in (call.session.owned if call.session else ())]
        updates = [one.update(call.version) for one in filters if isinstance(one, Filter) and one.collector is self]
        updates = [one for one in updates if one is not None]
        return Q.UpdateSet(version=self.face.new_id("update").split("-")[1], filterSet=updates) if updates else None

    def _wait(self, call: Call, seconds: float) -> Any:
        end, pause = time.monotonic() + seconds, 0.01
        while True:
            with self.world.lock:
                found = self._changes(call)
            if found is not None or time.monotonic() >= end or self.face.closed.wait(pause) or call.session is None:
                return found
            pause = min(pause * 1.3, 0.2)

    @_waits
    def WaitForUpdates(self, call: Call, version: str | None = None) -> Any:
        return self._wait(call, WAIT_LIMIT)

    @_waits
    def WaitForUpdatesEx(self, call: Call, version: str | None = None, options: Any = None) -> Any:
        return self._wait(call, WAIT_LIMIT if options is None or options.maxWaitSeconds is None else options.maxWaitSeconds)

    def CheckForUpdates(self, call: Call, version: str | None = None) -> Any:
        return self._changes(call)

    def CancelWaitForUpdates(self, call: Call) -> None:
        """A wait ends by its own bound."""
