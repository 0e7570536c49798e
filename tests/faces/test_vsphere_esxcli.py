# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""esxcli through the lab's vCenter: every command of the shell is described to clients and answers in the types it was described with."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("pyVmomi")

from lab.esxi.esxcli import COMMANDS  # noqa: E402
from lab.vsphere import esxcli, reflect  # noqa: E402
from lab.vsphere.client import Site  # noqa: E402

XSI = "{http://www.w3.org/2001/XMLSchema-instance}type"
VIM = "{urn:vim25}"
CX5 = "0000:3b:00.0"


@pytest.fixture(scope="module")
def site():
    with Site(4) as made:
        yield made
        assert made.defects() == []


class Proxy:
    """The two objects of a host, called as a client that declared the reflection types itself."""

    def __init__(self, site, host="esxi02"):
        number = site.host(host)._moId.split("-")[1]
        self.executer = reflect.VmomiSupport.GetVmodlType(reflect.EXECUTER)("managedMethodExecuter-" + number, site.client._stub)
        self.types = reflect.VmomiSupport.GetVmodlType(reflect.TYPES)("dynamicTypeManager-" + number, site.client._stub)

    def run(self, method, **values):
        argument = [reflect.named("SoapArgument")(name=name, val='<%s xmlns="urn:vim25">%s</%s>' % (name, value, name)) for name, value in values.items()]
        return self.executer.ExecuteSoap("ha-cli-handler", "urn:vim25/5.5", method, argument)

    def data(self, method, **values):
        answer = self.run(method, **values)
        assert answer.fault is None, answer.fault.faultDetail
        return ET.fromstring(answer.response)


@pytest.fixture(scope="module")
def proxy(site):
    return Proxy(site)


def test_a_table_comes_as_a_typed_array(proxy):
    root = proxy.data("vim.EsxCLI.hardware.pci.pcipassthru.List")
    assert root.get(XSI) == "ArrayOfVimEsxCLIhardwarepcipcipassthruListPciPassthru"
    rows = {row.find(VIM + "DeviceID").text: row.find(VIM + "Enabled").text for row in root}
    assert rows[CX5] == "false" and len(rows) == 4


def test_a_change_reaches_the_world(site, proxy):
    site.world.hosts["esxi02"].dvs.clear()
    assert proxy.data("vim.EsxCLI.hardware.pci.pcipassthru.Set", deviceid=CX5, enable="true").text == "true"
    assert site.world.hosts["esxi02"].passthru[CX5].enabled
    assert next(one for one in site.host("esxi02").config.pciPassthruInfo if one.id == CX5).passthruEnabled


def test_a_failure_is_a_localized_fault_around_the_message(proxy):
    fault = proxy.run("vim.EsxCLI.hardware.pci.pcipassthru.set", deviceid="0000:99:00.0", enable="true").fault
    detail = ET.fromstring(fault.faultDetail)
    assert detail.get(XSI) == "LocalizedMethodFault" and detail.find(VIM + "fault").get(XSI) == "VimEsxCLICLIFault"
    assert "0000:99:00.0 not found" in detail.find(VIM + "fault/" + VIM + "errMsg").text
    assert proxy.run("vim.EsxCLI.hardware.pci.nothing.list").fault is not None


@pytest.mark.parametrize("key", [key for key, entry in sorted(COMMANDS.items()) if entry.form != "none" and not any(one.required for one in entry.options)],
                         ids=".".join)
def test_every_reading_command_answers_as_described(proxy, key):
    entry = COMMANDS[key]
    answer = proxy.run("vim.EsxCLI.%s.%s" % key)
    if answer.fault is not None:
        assert "errMsg" in answer.fault.faultDetail
        return
    root, kind = ET.fromstring(answer.response), esxcli.result(entry)
    described = proxy.types.QueryTypeInfo(reflect.named("TypeFilterSpec")(typeSubstr="vim.EsxCLI." + key[0]))
    method = next(one for managed in described.managedTypeInfo for one in managed.method if managed.name == "vim.EsxCLI." + key[0] and one.name == key[1])
    assert method.returnTypeInfo.type == kind
    if kind in ("string", "boolean"):
        assert root.get(XSI) == "xsd:" + kind
        return
    names = {prop.name: prop.type for data in described.dataTypeInfo if data.name == kind.replace("[]", "") for prop in data.property}
    for row in root if kind.endswith("[]") else [root]:
        for cell in row:
            assert cell.get(XSI) == "xsd:" + names[cell.tag.replace(VIM, "")].replace("[]", "")


def test_clients_find_the_commands(proxy):
    instances = {one.moType: one.id for one in proxy.types.QueryMoInstances()}
    assert instances["vim.CLIInfo"] == "ha-cli-info" and instances["vim.EsxCLI.system.module.parameters"] == "ha-cli-handler-system-module-parameters"
    info = proxy.data("vim.CLIInfo.FetchCLIInfo", typeName="vim.EsxCLI.system.module.parameters")
    assert [one.find(VIM + "name").text for one in info.iter(VIM + "method")] == ["list", "set"]
    assert [one.text for one in info.iter(VIM + "aliases")][:2] == ["-m", "--module"]
