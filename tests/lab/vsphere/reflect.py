# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reflection types of the wire protocol that pyVmomi does not have: how a client finds and calls what a host describes itself."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport, vim

VERSION = "vmodl.reflect.version.version1"
EXECUTER, TYPES = "vmodl.reflect.ManagedMethodExecuter", "vmodl.reflect.DynamicTypeManager"
OPT = VmomiSupport.F_OPTIONAL
_NAMED = (("name", "string", 0), ("wsdlName", "string", 0), ("version", "string", 0))
_NOTE = (("annotation", TYPES + ".Annotation[]", OPT),)
# (name, wire name, base, properties); a property is (name, type, flags)
_DATA: tuple[tuple[str, str, str, tuple[tuple[str, str, int], ...]], ...] = (
    (EXECUTER + ".SoapArgument", "ReflectManagedMethodExecuterSoapArgument", "vmodl.DynamicData", (("name", "string", 0), ("val", "string", 0))),
    (EXECUTER + ".SoapFault", "ReflectManagedMethodExecuterSoapFault", "vmodl.DynamicData", (("faultMsg", "string", 0), ("faultDetail", "string", OPT))),
    (EXECUTER + ".SoapResult", "ReflectManagedMethodExecuterSoapResult", "vmodl.DynamicData",
     (("response", "string", OPT), ("fault", EXECUTER + ".SoapFault", OPT))),
    (TYPES + ".Annotation", "DynamicTypeMgrAnnotation", "vmodl.DynamicData", (("name", "string", 0), ("parameter", "string[]", OPT))),
    (TYPES + ".PropertyTypeInfo", "DynamicTypeMgrPropertyTypeInfo", "vmodl.DynamicData",
     (("name", "string", 0), ("version", "string", 0), ("type", "string", 0), ("privId", "string", OPT), ("msgIdFormat", "string", OPT)) + _NOTE),
    (TYPES + ".ParamTypeInfo", "DynamicTypeMgrParamTypeInfo", "vmodl.DynamicData",
     (("name", "string", 0), ("version", "string", 0), ("type", "string", 0), ("privId", "string", OPT)) + _NOTE),
    (TYPES + ".MethodTypeInfo", "DynamicTypeMgrMethodTypeInfo", "vmodl.DynamicData",
     _NAMED + (("paramTypeInfo", TYPES + ".ParamTypeInfo[]", OPT), ("returnTypeInfo", TYPES + ".ParamTypeInfo", OPT), ("fault", "string[]", OPT),
               ("privId", "string", OPT)) + _NOTE),
    (TYPES + ".DataTypeInfo", "DynamicTypeMgrDataTypeInfo", "vmodl.DynamicData",
     _NAMED + (("base", "string[]", OPT), ("property", TYPES + ".PropertyTypeInfo[]", OPT)) + _NOTE),
    (TYPES + ".EnumTypeInfo", "DynamicTypeEnumTypeInfo", "vmodl.DynamicData", _NAMED + (("value", "string[]", OPT),) + _NOTE),
    (TYPES + ".ManagedTypeInfo", "DynamicTypeMgrManagedTypeInfo", "vmodl.DynamicData",
     _NAMED + (("base", "string[]", OPT), ("property", TYPES + ".PropertyTypeInfo[]", OPT), ("method", TYPES + ".MethodTypeInfo[]", OPT)) + _NOTE),
    (TYPES + ".AllTypeInfo", "DynamicTypeMgrAllTypeInfo", "vmodl.DynamicData",
     (("managedTypeInfo", TYPES + ".ManagedTypeInfo[]", OPT), ("enumTypeInfo", TYPES + ".EnumTypeInfo[]", OPT),
      ("dataTypeInfo", TYPES + ".DataTypeInfo[]", OPT))),
    (TYPES + ".MoInstance", "DynamicTypeMgrMoInstance", "vmodl.DynamicData", (("id", "string", 0), ("moType", "string", 0))),
    (TYPES + ".FilterSpec", "DynamicTypeMgrFilterSpec", "vmodl.DynamicData", ()),
    (TYPES + ".MoFilterSpec", "DynamicTypeMgrMoFilterSpec", TYPES + ".FilterSpec", (("id", "string", OPT), ("typeSubstr", "string", OPT))),
    (TYPES + ".TypeFilterSpec", "DynamicTypeMgrTypeFilterSpec", TYPES + ".FilterSpec", (("typeSubstr", "string", OPT),)),
)
_METHODS = {
    (EXECUTER, "ReflectManagedMethodExecuter"): (
        ("executeSoap", "ExecuteSoap", (("moid", "string", 0), ("version", "string", 0), ("method", "string", 0),
                                        ("argument", EXECUTER + ".SoapArgument[]", OPT)),
         EXECUTER + ".SoapResult"),
        ("fetchSoap", "FetchSoap", (("moid", "string", 0), ("version", "string", 0), ("prop", "string", 0)), EXECUTER + ".SoapResult")),
    (TYPES, "InternalDynamicTypeManager"): (
        ("queryTypeInfo", "DynamicTypeMgrQueryTypeInfo", (("filterSpec", TYPES + ".FilterSpec", OPT),), TYPES + ".AllTypeInfo"),
        ("queryMoInstances", "DynamicTypeMgrQueryMoInstances", (("filterSpec", TYPES + ".FilterSpec", OPT),), TYPES + ".MoInstance[]")),
}
_installed: dict[str, Any] = {}


def named(name: str) -> Any:
    """A type by its name below DynamicTypeManager or ManagedMethodExecuter, such as "MoInstance"."""
    for family in (TYPES, EXECUTER):
        try:
            return VmomiSupport.GetVmodlType("%s.%s" % (family, name))
        except KeyError:
            continue
    raise KeyError(name)


def install() -> dict[str, Any]:
    """Declare the types once per process; returns the method infos by wire name."""
    if _installed:
        return _installed
    if VERSION not in VmomiSupport.nsMap:
        VmomiSupport.AddVersion(VERSION, "reflect", "1.0", 0, "reflect")
        for parent in ("vmodl.version.version0", "vmodl.version.version1", "vmodl.version.version2", VERSION):
            VmomiSupport.AddVersionParent(VERSION, parent)
        for version in [one for one in VmomiSupport.nsMap if one.startswith("vim.version.")]:
            VmomiSupport.AddVersionParent(version, VERSION)  # or no vim client would be sent these types
    for name, wire, base, properties in _DATA:
        VmomiSupport.CreateDataType(name, wire, base, VERSION, [(prop, kind, VERSION, flags) for prop, kind, flags in properties])
    for (name, wire), methods in _METHODS.items():
        rows = [(method, wire_name, VERSION, tuple((param, kind, VERSION, flags, None) for param, kind, flags in params), (OPT, result, result), "dynamic",
                 None)
                for method, wire_name, params, result in methods]
        VmomiSupport.CreateManagedType(name, wire, "vmodl.ManagedObject", VERSION, None, rows)
        managed = VmomiSupport.GetVmodlType(name)
        for method, wire_name, _params, _result in methods:
            _installed[wire_name] = getattr(managed, VmomiSupport.Capitalize(method)).info
    for wire_name, result in (("RetrieveManagedMethodExecuter", EXECUTER), ("RetrieveDynamicTypeManager", TYPES)):
        kind = VmomiSupport.GetVmodlType(result)
        _installed[wire_name] = VmomiSupport.Object(name=VmomiSupport.Uncapitalize(wire_name), typeName="vim.HostSystem", wsdlName=wire_name,
                                                    version="vim.version.version7",
                                                    params=(), isTask=False, resultFlags=OPT, result=kind, methodResult=kind, resultName="returnval",
                                                    privId="System.Read", faults=(), type=vim.HostSystem)
    return _installed
