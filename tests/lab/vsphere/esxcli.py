# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""esxcli through vCenter: the commands of the lab's ESXi shell as the managed methods that esxcli clients find and call."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any, TYPE_CHECKING
from xml.sax.saxutils import escape

from pyVmomi import VmomiSupport

from ..esxi import mft_plugin
from ..esxi.esxcli import COMMANDS, PLUGINS, Command, EsxcliError, commands, execute
from . import reflect
from .model import Managed

if TYPE_CHECKING:
    from .host import HostSystem
    from .server import Call, VsphereFace

PLUGINS.update(mft_plugin.LAYOUTS)
VERSION = "vim.version.version5"
SPACES = ' xmlns="urn:vim25" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
ROOT = "vim.EsxCLI."
# Types of vim.CLIInfo, which describes commands to the client: name -> (property, type, optional)
INFO: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "vim.KeyValue": (("key", "string", False), ("value", "string", False)),
    "vim.CLIInfo.Param": (("name", "string", False), ("displayName", "string", True), ("aliases", "string[]", True), ("default", "string", True),
                          ("constraint", "string[]", True), ("flag", "boolean", True), ("help", "string", True)),
    "vim.CLIInfo.Method": (("name", "string", False), ("displayName", "string", True), ("param", "vim.CLIInfo.Param[]", True),
                           ("ret", "vim.CLIInfo.Param", False),
                           ("hints", "vim.KeyValue[]", True), ("help", "string", True)),
    "vim.CLIInfo.Info": (("name", "string", False), ("displayName", "string", True), ("help", "string", True), ("method", "vim.CLIInfo.Method[]", True)),
}


def wire(name: str) -> str:
    """vim.EsxCLI.system.module -> VimEsxCLIsystemmodule"""
    return "".join(name.replace("vim.", "Vim", 1).split(".")) if name.startswith("vim.") and name != "vim.KeyValue" else name.rsplit(".", 1)[-1]


def structure(entry: Command) -> str:
    """Name of the type that a command's rows have."""
    return "%s%s.%s%s" % (ROOT, entry.namespace, entry.name.capitalize(), entry.type_name)


def result(entry: Command) -> str:
    if entry.form == "none":
        return "boolean"
    if entry.form == "simple":
        return "string"
    return structure(entry) + ("" if entry.form == "struct" else "[]")


def fields(entry: Command) -> tuple[tuple[str, str, bool], ...]:
    """Properties of a command's rows; a nested structure is told as lines of text."""
    return tuple((field.prop, "string[]" if field.kind == "structure[]" else field.kind, True) for field in entry.fields)


TYPES = dict(INFO)
TYPES.update({structure(entry): fields(entry) for entry in COMMANDS.values() if entry.fields})


def xml(value: Any, kind: str, tag: str, top: bool = False) -> str:
    """The value as XML of its declared type; the root says its type."""
    spaces = SPACES if top else ""
    if kind.endswith("[]"):
        item = kind[:-2]
        if not top:
            return "".join(xml(one, item, tag) for one in value or ())
        name = wire(item) if item in TYPES else item
        return '<%s%s xsi:type="ArrayOf%s">%s</%s>' % (tag, spaces, name, "".join(xml(one, item, name) for one in value), tag)
    if kind in TYPES:
        inner = "".join(xml(value[name], one, name) for name, one, _optional in TYPES[kind] if value.get(name) is not None)
        return '<%s%s xsi:type="%s">%s</%s>' % (tag, spaces, wire(kind), inner, tag)
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return '<%s%s xsi:type="xsd:%s">%s</%s>' % (tag, spaces, kind, escape(text), tag)


def rows(entry: Command, data: Any) -> Any:
    """Data of a command under property names."""
    def one(row: dict[str, Any]) -> dict[str, Any]:
        out = {}
        for field in entry.fields:
            value = row.get(field.name)
            if field.kind == "structure[]":
                value = ["%s: %s" % pair for part in value or () for pair in part.items()]
            elif field.kind == "string[]" and not isinstance(value, (list, tuple, type(None))):
                value = [value]
            elif field.kind == "long" and not isinstance(value, int):
                value = int(value) if str(value).lstrip("-").isdigit() else None
            out[field.prop] = value
        return out
    if not entry.fields:
        return data if data is not None else entry.form == "none" or ""
    return [one(row) for row in data] if isinstance(data, list) else one(data)


def described(name: str, known: dict[tuple[str, str], Command]) -> dict[str, Any]:
    """vim.CLIInfo.Info of a namespace such as vim.EsxCLI.system.module."""
    namespace = name[len(ROOT):] if name.startswith(ROOT) else name
    entries = [entry for (where, _name), entry in sorted(known.items()) if where == namespace]
    if not entries and not any(where.startswith(namespace + ".") for where, _name in known):
        raise EsxcliError("Unknown command or namespace %s" % namespace.replace(".", " "))
    methods = []
    for entry in entries:
        names = ",".join(field.name for field in entry.fields)  # as people read them: the client finds the properties by them
        hints = {"table": {"formatter": "table", "table-columns": names}, "struct": {"formatter": "simple", "list-order": names},
                 "list": {"formatter": "simple", "list-order": names}}.get(entry.form, {"formatter": "simple"})
        if entry.form == "struct" and entry.header:
            hints["header"] = entry.header
        elif entry.header in [field.name for field in entry.fields]:
            hints["header"] = "%%%s%%" % entry.header.replace(" ", "")
        params = [{"name": one.name, "displayName": one.flags[-1].strip("-"), "aliases": list(one.flags), "flag": one.flag,
                   "help": one.help} for one in entry.options]
        methods.append({"name": entry.name, "displayName": entry.name, "param": params, "ret": {"name": "result", "displayName": "result", "help": ""},
                        "hints": [{"key": key, "value": value} for key, value in hints.items()], "help": entry.help})
    return {"name": namespace, "displayName": namespace.rsplit(".", 1)[-1], "help": namespace.rsplit(".", 1)[-1], "method": methods}


class HostReflection(Managed):
    """Common ground of the two objects that a host hands out."""

    prefix, family = "", ""

    def __init__(self, face: VsphereFace, host: HostSystem) -> None:
        super().__init__(face, "%s-%s" % (self.prefix, host.moid.split("-")[1]))
        face.extra_methods.update(reflect.install())
        self.kind, self.system = VmomiSupport.GetVmodlType(self.family), host

    @property
    def about(self) -> str:
        return self.system.about


class MethodExecuter(HostReflection):
    prefix, family = "managedMethodExecuter", reflect.EXECUTER

    def ExecuteSoap(self, call: Call, moid: str, version: str, method: str, argument: list[Any]) -> Any:
        values: dict[str, Any] = {}
        for one in argument:
            values.setdefault(one.name, []).append(ET.fromstring(one.val).text or "")
        host = self.system.reachable()
        self.world.note("vsphere", host.name, "esxcli", method=method, arguments={name: " ".join(texts) for name, texts in values.items()})
        try:
            return reflect.named("SoapResult")(response=self._execute(host, method, values))
        except EsxcliError as problem:
            detail = ('<obj xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="LocalizedMethodFault">'
                      '<fault xsi:type="VimEsxCLICLIFault">'
                      "<errMsg>%s</errMsg></fault><localizedMessage>EsxCLI.CLIFault.summary</localizedMessage></obj>" % escape(str(problem)))
            return reflect.named("SoapResult")(fault=reflect.named("SoapFault")(faultMsg="EsxCLI.CLIFault.summary", faultDetail=detail))

    def _execute(self, host: Any, method: str, values: dict[str, list[str]]) -> str:
        where, _dot, last = method.rpartition(".")
        name = last[:1].lower() + last[1:]  # clients send the capitalised name of the generated method
        if where == "vim.CLIInfo":
            if name == "fetchCLIInfo":
                return xml(described(values["typeName"][0], commands(host)), "vim.CLIInfo.Info", "obj", True)
            return xml(described(values["name"][0].replace(" ", "."), commands(host)), "vim.CLIInfo.Info", "obj", True)
        namespace = where[len(ROOT):] if where.startswith(ROOT) else where
        entry = commands(host).get((namespace, name))
        many = {one.name for one in entry.options if one.kind == "string[]"} if entry else set()
        data = execute(self.world, host, namespace, name, {key: texts if key in many else texts[0] for key, texts in values.items()})
        self.face.current.call.later(lambda: self.world.tell("host", host.name))
        return xml(rows(entry, data), result(entry), "obj", True)


class DynamicTypeManager(HostReflection):
    prefix, family = "dynamicTypeManager", reflect.TYPES

    @property
    def commands(self) -> dict[tuple[str, str], Command]:
        return commands(self.system.reachable())

    def DynamicTypeMgrQueryMoInstances(self, call: Call, filterSpec: Any = None) -> list[Any]:
        instance = reflect.named("MoInstance")
        part = getattr(filterSpec, "typeSubstr", None) or ""
        made = [instance(id="ha-cli-info", moType="vim.CLIInfo")]
        made += [instance(id="ha-cli-handler-" + where.replace(".", "-"), moType=ROOT + where) for where in sorted({where for where, _name in self.commands})]
        return [one for one in made if part in one.moType]

    def DynamicTypeMgrQueryTypeInfo(self, call: Call, filterSpec: Any = None) -> Any:
        part = getattr(filterSpec, "typeSubstr", None) or ""
        found = reflect.named("AllTypeInfo")()
        for name, properties in TYPES.items():
            if part in name and name != "vim.KeyValue":
                found.dataTypeInfo.append(self._data(name, "vmodl.DynamicData", properties))
        if part in ROOT + "CLIFault":
            found.dataTypeInfo.append(self._data(ROOT + "CLIFault", "vmodl.MethodFault", (("errMsg", "string[]", True),)))
        if part in "vim.CLIInfo":
            info = "vim.CLIInfo.Info"
            methods = [self._method("vim.CLIInfo", "fetchCLIInfo", [("typeName", "string", False)], info, []),
                       self._method("vim.CLIInfo", "fetchCLIInfoFromDisplayName", [("name", "string", False)], info, [])]
            found.managedTypeInfo.append(self._managed("vim.CLIInfo", methods))
        for where in sorted({where for where, _name in self.commands}):
            if part in ROOT + where:
                methods = [self._method(ROOT + where, entry.name, [(one.name, one.kind, not one.required) for one in entry.options], result(entry),
                                        [ROOT + "CLIFault"])
                           for (namespace, _name), entry in sorted(self.commands.items()) if namespace == where]
                found.managedTypeInfo.append(self._managed(ROOT + where, methods))
        return found

    @staticmethod
    def _optional(optional: bool) -> list[Any]:
        return [reflect.named("Annotation")(name="optional")] if optional else []

    def _data(self, name: str, base: str, properties: Any) -> Any:
        rows_ = [reflect.named("PropertyTypeInfo")(name=prop, version=VERSION, type=kind, annotation=self._optional(optional)) for prop, kind,
                 optional in properties]
        return reflect.named("DataTypeInfo")(name=name, wsdlName=wire(name), version=VERSION, base=[base], property=rows_)

    def _managed(self, name: str, methods: list[Any]) -> Any:
        return reflect.named("ManagedTypeInfo")(name=name, wsdlName=wire(name), version=VERSION, base=["vmodl.ManagedObject"], method=methods)

    def _method(self, owner: str, name: str, params: list[tuple[str, str, bool]], returns: str, faults: list[str]) -> Any:
        rows_ = [reflect.named("ParamTypeInfo")(name=param, version=VERSION, type=kind, annotation=self._optional(optional)) for param, kind,
                 optional in params]
        back = reflect.named("ParamTypeInfo")(name="result", version=VERSION, type=returns, annotation=self._optional(True))
        return reflect.named("MethodTypeInfo")(name=name, wsdlName=wire(owner) + name[:1].upper() + name[1:], version=VERSION, paramTypeInfo=rows_,
                                               returnTypeInfo=back,
                                               fault=faults)
