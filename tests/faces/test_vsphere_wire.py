# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wire of the lab's vCenter with requests written by hand: client and server of the other tests share pyVmomi's serialiser."""

from __future__ import annotations

import http.client
import socket
import ssl
import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("pyVmomi")

from lab.vsphere.client import Site  # noqa: E402

XSI = "{http://www.w3.org/2001/XMLSchema-instance}type"
VIM = "{urn:vim25}"
SOAP = "{http://schemas.xmlsoap.org/soap/envelope/}"
ENVELOPE = ('<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
            'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">'
            '<soapenv:Body>%s</soapenv:Body></soapenv:Envelope>')


class Raw:
    """A client of a few lines: one kept-alive connection and a cookie."""

    def __init__(self, site):
        vcenter = site.world.vcenter
        self.context = ssl.create_default_context(cafile=site.cert)
        self.connection = http.client.HTTPSConnection(vcenter["address"], vcenter["port"], context=self.context, timeout=10)
        self.cookie, self.user, self.password = None, vcenter["username"], vcenter["password"]

    def send(self, body, path="/sdk", headers=None):
        more = {"Content-Type": "text/xml"}
        if self.cookie is not None:
            more["Cookie"] = self.cookie
        more.update(headers or {})
        self.connection.request("POST", path, body, more)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.getheader("Set-Cookie"):
            self.cookie = answer.getheader("Set-Cookie").split(";")[0]
        return answer.status, text

    def call(self, inner, **options):
        status, text = self.send((ENVELOPE % inner).encode(), **options)
        return status, ET.fromstring(text).find(SOAP + "Body")[0]

    def login(self):
        status, answer = self.call('<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this>'
                                   '<userName>%s</userName><password>%s</password></Login>'
                                   % (self.user, self.password))
        assert status == 200 and answer.tag == VIM + "LoginResponse"
        return answer

    def properties(self, kind, moid, *paths):
        inner = ('<RetrieveProperties xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this><specSet><propSet><type>%s</type>%s</propSet>'
                 '<objectSet><obj type="%s">%s</obj></objectSet></specSet></RetrieveProperties>'
                 % (kind, "".join("<pathSet>%s</pathSet>" % path for path in paths), kind, moid))
        status, answer = self.call(inner)
        assert status == 200, ET.tostring(answer)
        return {one.find(VIM + "name").text: one.find(VIM + "val") for one in answer.iter(VIM + "propSet")}

    def fault(self, inner, **options):
        """(text, element of the detail) of a call that has to fail."""
        status, answer = self.call(inner, **options)
        assert status == 500 and answer.tag == SOAP + "Fault"
        return answer.find("faultstring").text, answer.find("detail")[0]


@pytest.fixture()
def site():
    with Site(2) as made:
        yield made
        assert made.defects() == []


@pytest.fixture()
def raw(site):
    made = Raw(site)
    yield made
    made.connection.close()


def test_service_content_without_soap_action(raw):
    status, answer = raw.call('<RetrieveServiceContent xmlns="urn:vim25"><_this type="ServiceInstance">ServiceInstance</_this></RetrieveServiceContent>')
    assert status == 200 and answer.tag == VIM + "RetrieveServiceContentResponse"
    content = answer.find(VIM + "returnval")
    root, about = content.find(VIM + "rootFolder"), content.find(VIM + "about")
    assert (root.get("type"), root.text) == ("Folder", "group-d1")
    assert (about.find(VIM + "apiType").text, about.find(VIM + "version").text, about.find(VIM + "productLineId").text) == ("VirtualCenter", "8.0.3", "vpx")


@pytest.mark.parametrize("path", ["/sdk", "/sdk/", "/sdk/webService", "/sdk/vimService"])
def test_paths(raw, path):
    assert raw.call('<CurrentTime xmlns="urn:vim25"><_this type="ServiceInstance">ServiceInstance</_this></CurrentTime>', path=path)[0] == 200


def test_versions_file_and_other_pages(raw, site):
    raw.connection.request("GET", "/sdk/vimServiceVersions.xml")
    answer = raw.connection.getresponse()
    tree = ET.fromstring(answer.read())
    assert answer.status == 200 and tree.find("namespace/name").text == "urn:vim25" and tree.find("namespace/version").text == "8.0.3.0"
    prior = [one.text for one in tree.findall("namespace/priorVersions/version")]
    assert prior[0] == "8.0.2.0" and "7.0.3.0" in prior and "9.0.0.0" not in prior
    raw.connection.request("GET", "/folder/vm01/vm01.vmx")
    answer = raw.connection.getresponse()
    answer.read()
    assert answer.status == 404
    assert raw.send(b"body", path="/other")[0] == 404
    raw.login()  # the connection is still in step


def test_an_empty_cookie_is_none(raw):
    raw.cookie = ""
    raw.login()
    assert raw.cookie.startswith("vmware_soap_session=")
    assert raw.properties("Folder", "group-d1", "name")["name"].text == "Datacenters"


def test_not_authenticated_fault(raw):
    text, detail = raw.fault('<RetrieveProperties xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this></RetrieveProperties>')
    assert text == "The session is not authenticated."
    assert detail.tag == VIM + "NotAuthenticatedFault" and detail.get(XSI) == "NotAuthenticated"
    assert detail.find(VIM + "privilegeId").text == "System.View" and detail.find(VIM + "object").get("type") == "PropertyCollector"


def test_types_inside_an_any_type(raw):
    raw.login()
    values = raw.properties("HostSystem", "host-1001", "parent", "name", "runtime.connectionState", "runtime.inMaintenanceMode", "vm", "hardware.memorySize",
                            "config.pciPassthruInfo")
    parent = values["parent"]
    assert (parent.get(XSI), parent.get("type"), parent.text) == ("ManagedObjectReference", "ClusterComputeResource", "domain-c8")
    assert values["name"].get(XSI) == "xsd:string"
    assert (values["runtime.connectionState"].get(XSI), values["runtime.connectionState"].text) == ("HostSystemConnectionState", "connected")
    assert (values["runtime.inMaintenanceMode"].get(XSI), values["runtime.inMaintenanceMode"].text) == ("xsd:boolean", "false")
    assert (values["hardware.memorySize"].get(XSI), values["hardware.memorySize"].text) == ("xsd:long", str(393216 << 20))
    assert values["vm"].get(XSI) == "ArrayOfManagedObjectReference"
    assert [(one.tag, one.get(XSI), one.get("type"))
            for one in values["vm"]][:1] == [(VIM + "ManagedObjectReference", "ManagedObjectReference", "VirtualMachine")]
    devices = values["config.pciPassthruInfo"]
    assert devices.get(XSI) == "ArrayOfHostPciPassthruInfo"
    assert {(one.tag, one.get(XSI)) for one in devices} == {(VIM + "HostPciPassthruInfo", "HostPciPassthruInfo")}
    assert [one.find(VIM + "id").text for one in devices][-1] == "0000:3b:00.1"


def test_an_empty_list_is_an_answer(raw):
    raw.login()
    field = raw.properties("CustomFieldsManager", "CustomFieldsManager", "field")["field"]
    assert field.get(XSI) == "ArrayOfCustomFieldDef" and len(field) == 0
    status, answer = raw.call('<Fetch xmlns="urn:vim25"><_this type="CustomFieldsManager">CustomFieldsManager</_this><prop>field</prop></Fetch>')
    assert status == 200 and len(answer) == 0


def test_named_selections_can_refer_to_each_other(raw):
    raw.login()
    inner = """<RetrieveProperties xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this><specSet>
      <propSet><type>HostSystem</type><pathSet>name</pathSet></propSet>
      <objectSet><obj type="Folder">group-d1</obj>
        <selectSet xsi:type="TraversalSpec"><name>folder</name><type>Folder</type><path>childEntity</path><skip>false</skip>
          <selectSet><name>folder</name></selectSet><selectSet><name>datacenter</name></selectSet><selectSet><name>cluster</name></selectSet></selectSet>
        <selectSet xsi:type="TraversalSpec"><name>datacenter</name><type>Datacenter</type><path>hostFolder</path><skip>false</skip>
          <selectSet><name>folder</name></selectSet></selectSet>
        <selectSet xsi:type="TraversalSpec"><name>cluster</name><type>ComputeResource</type><path>host</path></selectSet>
      </objectSet></specSet></RetrieveProperties>"""
    status, answer = raw.call(inner)
    assert status == 200
    assert [(one.find(VIM + "obj").text, one.find(VIM + "propSet/" + VIM + "val").text) for one in answer] == [("host-1001", "esxi01"), ("host-1002", "esxi02")]


DEVICE = """<ReconfigVM_Task xmlns="urn:vim25"><_this type="VirtualMachine">vm-2001</_this><spec><deviceChange><operation>%s</operation>
  <device xsi:type="VirtualPCIPassthrough"><key>-1</key><backing xsi:type="VirtualPCIPassthroughDeviceBackingInfo"><deviceName>x</deviceName>
  <id>0000:3b:00.0</id><deviceId>1017</deviceId>%s<vendorId>%d</vendorId></backing></device></deviceChange></spec></ReconfigVM_Task>"""


@pytest.mark.parametrize("values, text", [(("add", "<systemId>s</systemId>", 0x8086), "out of range"),
                                          (("add", "<systemId>s</systemId><color/>", 0x15B3), "color"),
                                          (("attach", "<systemId>s</systemId>", 0x15B3), "attach")])
def test_what_pyvmomi_lets_pass_is_refused(raw, site, values, text):
    raw.login()
    message, detail = raw.fault(DEVICE % values)
    assert detail.get(XSI) == "InvalidRequest" and text in message
    assert site.world.vms["vm01"].devices == []


def test_a_missing_part_is_told(raw):
    raw.login()
    spec = '<spec><deviceChange><operation>add</operation></deviceChange></spec>'
    message, detail = raw.fault('<ReconfigVM_Task xmlns="urn:vim25"><_this type="VirtualMachine">vm-2001</_this>%s</ReconfigVM_Task>' % spec)
    assert detail.get(XSI) == "InvalidRequest" and "device is missing from data object of type VirtualDeviceConfigSpec" in message


def test_a_good_device_is_taken(raw, site):
    raw.login()
    status, answer = raw.call(DEVICE % ("add", "<systemId>s</systemId>", 0x15B3))
    assert status == 200 and answer.find(VIM + "returnval").get("type") == "Task"
    assert site.world.vms["vm01"].devices[0].vendor_id == 0x15B3


@pytest.mark.parametrize("inner, name", [
    ('<DoSomething xmlns="urn:vim25"><_this type="Folder">group-d1</_this></DoSomething>', "InvalidRequest"),
    ('<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this></Login>', "InvalidRequest"),
    ('<Logout xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this><why>no</why></Logout>', "InvalidRequest"),
    ('<FindByIp xmlns="urn:vim25"><_this type="SearchIndex">SearchIndex</_this><ip>1</ip><vmSearch>perhaps</vmSearch></FindByIp>', "InvalidRequest"),
    ('<Destroy_Task xmlns="urn:vim25"><_this type="VirtualMachine">vm-2001</_this></Destroy_Task>', "MethodNotFound"),
    ('<Destroy_Task xmlns="urn:vim25"><_this type="VirtualMachine">vm-9</_this></Destroy_Task>', "ManagedObjectNotFound")])
def test_bad_requests_answer_with_a_fault(raw, inner, name):
    raw.login()
    _message, detail = raw.fault(inner)
    assert detail.get(XSI) == name


def test_broken_xml_and_a_newer_version(raw):
    status, text = raw.send(b"<soapenv:Envelope")
    assert status == 500 and b"InvalidRequest" in text
    now = '<CurrentTime xmlns="urn:vim25"><_this type="ServiceInstance">ServiceInstance</_this></CurrentTime>'
    message, _detail = raw.fault(now, headers={"SOAPAction": '"urn:vim25/9.0.0.0"'})
    assert "Unsupported version" in message
    assert raw.call(now, headers={"SOAPAction": '"urn:vim25/6.7"'})[0] == 200


def test_old_clients_do_not_see_new_fields(raw):
    raw.login()
    inner = '<Fetch xmlns="urn:vim25"><_this type="HostSystem">host-1001</_this><prop>config</prop></Fetch>'
    new = raw.call(inner)[1]
    old = raw.call(inner, headers={"SOAPAction": "urn:vim25/6.5"})[1]
    assert list(new.iter(VIM + "hardwareLabel")) and not list(old.iter(VIM + "hardwareLabel"))
    assert len(list(old.iter(VIM + "passthruCapable"))) == 7


def test_bad_tls_and_sudden_ends_leave_no_trace(raw, site, capfd):
    address = site.world.vcenter["address"], site.world.vcenter["port"]
    with socket.create_connection(address) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        plain.recv(100)
    with socket.create_connection(address):
        pass  # hangs up before the handshake
    with pytest.raises(ssl.SSLCertVerificationError):
        with socket.create_connection(address) as untrusting:
            ssl.create_default_context().wrap_socket(untrusting, server_hostname="localhost")
    raw.login()
    assert capfd.readouterr().err == "" and site.notes("connection error") == []
