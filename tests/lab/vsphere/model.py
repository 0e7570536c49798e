# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every managed object of the face has in common, and neutral values for what nobody asked to model."""

from __future__ import annotations

import datetime
from typing import Any, TYPE_CHECKING

from pyVmomi import VmomiSupport, vmodl

from .wire import OPTIONAL, coerce

if TYPE_CHECKING:
    from .server import Call, VsphereFace

DataObject, Enum, ManagedObject = VmomiSupport.DataObject, VmomiSupport.Enum, VmomiSupport.ManagedObject


def utc() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def neutral(kind: Any) -> Any:
    """A value of the type that says nothing."""
    if issubclass(kind, Enum):
        return kind(kind.values[0])
    if issubclass(kind, ManagedObject):
        return kind("none")
    if issubclass(kind, datetime.datetime):
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    if issubclass(kind, DataObject):
        return fill(kind())
    if kind in (type, VmomiSupport.ManagedMethod):
        return None
    return "" if kind is object else kind()


def fill(value: Any) -> Any:
    """Every required field that is unset gets a neutral value: pyVmomi refuses to write an object without them."""
    for info in value._GetPropertyList():
        field = getattr(value, info.name)
        if field is None:
            if not info.flags & OPTIONAL:
                setattr(value, info.name, neutral(info.type))
        elif isinstance(field, DataObject):
            fill(field)
        elif isinstance(field, list):
            for item in field:
                if isinstance(item, DataObject):
                    fill(item)
    return value


def filled(value: Any) -> Any:
    """The answer with every object in it complete."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, DataObject):
            fill(item)
    return value


class Managed:
    """A managed object. Properties are methods `get_NAME`; methods of the API carry their WSDL name and take a Call first.

    `unset` names properties that are modelled as having no value; anything else that is asked for is not modelled: a neutral
    value in lenient mode, InvalidProperty in strict mode, and a line in the journal in both.
    """

    kind: Any = ManagedObject
    unset: tuple[str, ...] = ()

    def __init__(self, face: VsphereFace, moid: str) -> None:
        self.face, self.world, self.moid = face, face.world, moid

    @property
    def ref(self) -> Any:
        return self.kind(self.moid)

    @property
    def about(self) -> str:
        """Name of the host or VM that this object belongs to, for the journal and for faults."""
        return ""

    def prop(self, name: str) -> tuple[Any, Any]:
        """(value, declared type) of a property."""
        try:
            info = self.kind._GetPropertyInfo(name)
        except AttributeError:
            raise vmodl.query.InvalidProperty(name=name, msg="The property %s is not a property of %s." % (name, self.kind.__name__)) from None
        getter = getattr(self, "get_" + name, None)
        if getter is not None:
            value = coerce(getter(), info.type)
        elif name in self.unset:
            value = info.type() if issubclass(info.type, list) else None
        else:
            value = self._unmodelled(name, info)
        return filled(value), info.type

    def _unmodelled(self, name: str, info: Any) -> Any:
        self.world.note("vsphere", self.about, "unmodelled property", name="%s.%s" % (self.kind.__name__, name))
        if self.face.strict:
            raise vmodl.query.InvalidProperty(name=name, msg="The lab does not model %s.%s." % (self.kind.__name__, name))
        if issubclass(info.type, list):
            return info.type()
        return None if info.flags & OPTIONAL else neutral(info.type)

    def value(self, path: str, read: dict[str, Any] | None = None) -> Any:
        """The value at a property path such as `config.hardware`; read keeps whole properties between the paths of one answer."""
        head, *rest = path.split(".")
        if read is None or head not in read:
            value = self.prop(head)[0]
            if read is not None:
                read[head] = value
        else:
            value = read[head]
        for name in rest:
            if value is None:
                return None
            try:
                kind = value._GetPropertyInfo(name).type
            except AttributeError:
                raise vmodl.query.InvalidProperty(name=path, msg="The property path %s does not exist." % path) from None
            value = coerce(getattr(value, name), kind)
        return value

    def names(self) -> list[str]:
        """Properties that have a model (what `all` of a PropertySpec returns)."""
        return [name[4:] for name in dir(self) if name.startswith("get_")]


class Entity(Managed):
    """A managed entity of the inventory tree."""

    unset = ("alarmActionsEnabled", "availableField", "customValue", "declaredAlarmState", "disabledMethod", "effectiveRole", "permission", "tag",
             "triggeredAlarmState", "value", "configIssue", "recentTask")

    @property
    def name(self) -> str:
        return self.moid

    @property
    def parent(self) -> Entity | None:
        return None

    def children(self) -> list[Entity]:
        return []

    def get_name(self) -> str:
        return self.name

    def get_parent(self) -> Any:
        return self.parent.ref if self.parent else None

    def get_overallStatus(self) -> str:
        return "green"

    def get_configStatus(self) -> str:
        return "green"

    def get_recentTask(self) -> list[Any]:
        return [task.ref for task in self.face.tasks() if task.entity is self and task.info.state in ("queued", "running")]

    def get_effectiveRole(self) -> list[int]:
        return [-1]

    def get_customValue(self) -> list[Any]:
        return []

    def below(self) -> list[Entity]:
        """All entities under this one, parents first."""
        out = []
        for child in self.children():
            out.append(child)
            out.extend(child.below())
        return out

    def Rename_Task(self, call: Call, newName: str) -> Any:
        raise vmodl.fault.NotSupported(msg="The lab keeps the names of its inventory.")


def known(kind: Any, **fields: Any) -> Any:
    """An object of the type with the fields that the installed pyVmomi knows: newer ones came with newer versions of the API."""
    names = {info.name for info in kind._GetPropertyList()}
    return kind(**{name: value for name, value in fields.items() if name in names})


def message(key: str, text: str) -> Any:
    return vmodl.LocalizableMessage(key=key, message=text)
