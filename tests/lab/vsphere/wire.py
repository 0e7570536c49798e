# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SOAP on the wire: requests read and answers written with pyVmomi's own types and (de)serialiser.

Where pyVmomi as a server would write what a real vCenter does not, Writer corrects it: references inside an anyType, types of array
items inside an anyType, empty required lists. What pyVmomi as a reader lets pass (ranges, enums, required fields) is checked here.
"""

from __future__ import annotations

import io
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from pyVmomi import SoapAdapter, VmomiSupport, vmodl

NAMESPACE = "urn:vim25"
NEWEST = VmomiSupport.versionMap["vim25/8.0.3.0"]
Array, DataObject, Enum, ManagedObject, Object = VmomiSupport.Array, VmomiSupport.DataObject, VmomiSupport.Enum, VmomiSupport.ManagedObject, VmomiSupport.Object
OPTIONAL = VmomiSupport.F_OPTIONAL
RANGES = {VmomiSupport.byte: (-2 ** 7, 2 ** 7 - 1), VmomiSupport.short: (-2 ** 15, 2 ** 15 - 1), int: (-2 ** 31, 2 ** 31 - 1),
          VmomiSupport.long: (-2 ** 63, 2 ** 63 - 1)}
# `obj.property` of pyVmomi sends this undocumented method rather than a RetrieveProperties.
FETCH = Object(name="fetch", wsdlName="Fetch", params=(Object(name="prop", type=str, version="vim.version.version1", flags=0),), result=object, faults=())


class BadRequest(Exception):
    """The request cannot be read; carries the fault to answer with."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.fault = vmodl.fault.InvalidRequest(msg=message)


class Request(SoapAdapter.ExpatDeserializerNSHandlers):
    """One SOAP request: method (info), this (reference) and args (pyVmomi values by parameter name)."""

    def __init__(self, body: bytes, extra: dict[str, Any]) -> None:
        super().__init__({})
        self._extra, self._depth, self._in_body, self._params = extra, 0, False, []
        self.method: Any = None
        self.parser = parser = ParserCreate(namespace_separator=SoapAdapter.NS_SEP)
        parser.buffer_text = True
        SoapAdapter.SetHandlers(parser, SoapAdapter.GetHandlers(self))
        try:
            parser.Parse(body, True)
        except ExpatError as exc:
            raise BadRequest("XML document is not well formed: %s" % exc) from exc
        except (TypeError, AttributeError, KeyError, ValueError) as exc:
            # What pyVmomi's reader meets in values and types it does not know.
            raise BadRequest("Unable to deserialize the request: %s: %s" % (type(exc).__name__, exc)) from exc
        if self.method is None:
            raise BadRequest("No method in the SOAP body")
        self.args: dict[str, Any] = {}
        for name, kind, reader in self._params:
            if issubclass(kind, list):
                self.args.setdefault(name, kind()).append(reader.GetResult())
            else:
                self.args[name] = reader.GetResult()
        self.this = self.args.pop("_this", None)
        if not isinstance(self.this, ManagedObject):
            raise BadRequest("The method %s was sent to no object" % self.method.wsdlName)
        for param in self.method.params:
            if param.name not in self.args:
                if issubclass(param.type, list):
                    self.args[param.name] = param.type()
                elif param.flags & OPTIONAL:
                    self.args[param.name] = None
                else:
                    raise BadRequest("Required parameter %s is missing" % param.name)
            check(self.args[param.name], param.type, param.name)

    def StartElementHandler(self, tag: str, attr: dict[str, str]) -> Any:
        namespace, _sep, name = tag.rpartition(SoapAdapter.NS_SEP)
        if self.method is not None:
            if name == "_this":
                kind = ManagedObject
            else:
                kind = next((param.type for param in self.method.params if param.name == name), None)
                if kind is None:
                    raise BadRequest("Unexpected element tag %r seen in %s" % (name, self.method.wsdlName))
            reader = SoapAdapter.SoapDeserializer(None, None)
            self._params.append((name, kind, reader))
            reader.Deserialize(self.parser, kind.Item if issubclass(kind, list) else kind, False, self.nsMap)
            return reader.StartElementHandler(tag, attr)  # it hands the parser back at the matching end tag
        if self._in_body:
            self.method = self._find(namespace, name)
        if name == "Body":
            self._in_body = True
        self._depth += 1
        return None

    def _find(self, namespace: str, name: str) -> Any:
        if name == "Fetch":
            return FETCH
        if name in self._extra:
            return self._extra[name]
        try:
            return VmomiSupport.GetWsdlMethod(namespace, name).info
        except KeyError:
            try:
                return VmomiSupport.GuessWsdlMethod(name).info
            except KeyError:
                raise BadRequest("Unable to resolve WSDL method name %s for namespace: %s" % (name, namespace)) from None

    def CharacterDataHandler(self, data: str) -> None:
        """Text between elements means nothing."""

    def EndElementHandler(self, tag: str) -> None:
        self._depth -= 1


def check(value: Any, kind: Any, where: str) -> None:
    """What a real server refuses and pyVmomi's reader lets pass: ranges, unknown enum values, missing required fields."""
    if value is None:
        return
    if isinstance(value, list):
        for item in value:
            check(item, getattr(kind, "Item", object), where)
    elif isinstance(value, DataObject):
        for info in value._GetPropertyList():
            field = getattr(value, info.name)
            if field is None and not info.flags & OPTIONAL:
                raise BadRequest("Required property %s is missing from data object of type %s" % (info.name, VmomiSupport.GetWsdlName(type(value))))
            check(field, info.type, "%s.%s" % (where, info.name))
    elif isinstance(value, Enum) or isinstance(kind, type) and issubclass(kind, Enum):
        if str(value) not in type(value).values:
            raise BadRequest("%r is not a value of %s (%s)" % (str(value), VmomiSupport.GetWsdlName(type(value)), where))
    elif isinstance(value, int) and not isinstance(value, bool) and (kind in RANGES or type(value) in RANGES):
        low, high = RANGES[kind if kind in RANGES else type(value)]
        if not low <= value <= high:
            raise BadRequest("Value %d is out of range for %s" % (value, where))


class Writer(SoapAdapter.SoapSerializer):
    """pyVmomi's serialiser, with what strict clients (libvirt) want of a server."""

    def _QName(self, typ: Any, defNS: str) -> Any:
        attr, name = super()._QName(typ, defNS)
        return attr, name + "Reference" if typ is ManagedObject else name

    def _Serialize(self, val: Any, info: Any, defNS: str) -> None:
        if isinstance(val, list) and not val and info.type is not object:
            return  # pyVmomi refuses an empty required list; a server sends none
        if isinstance(val, Array) and info.type is object and not self.outermostAttrs and VmomiSupport.IsChildVersion(self.version, info.version):
            self._typed_array(val, info, defNS)
        else:
            super()._Serialize(val, info, defNS)

    def _typed_array(self, val: Any, info: Any, defNS: str) -> None:
        """An array inside an anyType: each item carries its xsi:type, which pyVmomi leaves out."""
        item = val.Item
        if SoapAdapter.isDynamicType(item):
            tag, kind = "string", VmomiSupport.GetVmodlType("string[]")
        elif issubclass(item, ManagedObject):
            tag, kind = "ManagedObjectReference", ManagedObject.Array
        else:
            tag, kind = VmomiSupport.GetWsdlName(item), VmomiSupport.Type(val)
        attr, name = self._QName(kind, defNS)
        if kind is ManagedObject.Array:
            name += "Reference"
        self.writer.write('<%s%s %stype="%s">' % (info.name, attr, self.xsiPrefix, name))
        for value in val:
            self._Serialize(value, Object(name=tag, type=object, version=info.version, flags=info.flags), defNS)
        self.writer.write("</%s>" % info.name)


def _names() -> dict[str, str]:
    return dict(SoapAdapter.SOAP_NSMAP, **{NAMESPACE: ""})


def text_of(value: Any, kind: Any, version: str, tag: str = "returnval") -> str:
    """The value as XML of that declared type; nothing for None."""
    if value is None:
        return ""
    out = io.StringIO()
    Writer(out, version, _names()).Serialize(value, Object(name=tag, type=kind, version=version, flags=OPTIONAL))
    return out.getvalue()


def envelope(inner: str) -> bytes:
    return ('<?xml version="1.0" encoding="UTF-8"?>\n<soapenv:Envelope xmlns:soapenc="http://schemas.xmlsoap.org/soap/encoding/"'
            ' xmlns:soapenv="%s" xmlns:xsd="%s" xmlns:xsi="%s">\n<soapenv:Body>\n%s\n</soapenv:Body>\n</soapenv:Envelope>'
            % (SoapAdapter.XMLNS_SOAPENV, SoapAdapter.XMLNS_XSD, SoapAdapter.XMLNS_XSI, inner)).encode("utf-8")


def response(method: Any, value: Any, kind: Any, version: str) -> bytes:
    return envelope('<%sResponse xmlns="%s">%s</%sResponse>' % (method.wsdlName, NAMESPACE, text_of(value, kind, version), method.wsdlName))


def fault(problem: Any, version: str) -> bytes:
    """The SOAP fault of a vmodl fault, as detail without the LocalizedMethodFault around it."""
    out, message = io.StringIO(), problem.msg or type(problem).__name__
    problem.msg = message
    name = VmomiSupport.GetWsdlName(VmomiSupport.GetCompatibleType(type(problem), version)) + "Fault"
    info = Object(name=name, type=object, version=version, flags=0)
    # pyVmomi takes the namespace for declared; it is not, outside a response element.
    Writer(out, version, _names())._SerializeDataObject(problem, info, ' xmlns="%s"' % NAMESPACE, NAMESPACE)
    return envelope("<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>%s</faultstring><detail>%s</detail></soapenv:Fault>"
                    % (SoapAdapter.XmlEscape(message), out.getvalue()))


def coerce(value: Any, kind: Any) -> Any:
    """The value as its declared type: else an enum goes out as xsd:string and a long as xsd:int."""
    if value is None or not isinstance(kind, type) or type(value) is kind or kind is object:  # pylint: disable=unidiomatic-typecheck
        return value
    if isinstance(value, list):
        return value if isinstance(value, Array) else kind([coerce(item, kind.Item) for item in value])
    if issubclass(kind, (Enum, int, float, str)) and not issubclass(kind, bool):
        return kind(value)
    return value
