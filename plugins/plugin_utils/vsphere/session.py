# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions with vCenter (or with one ESXi host): who logs in, how the certificate is checked, how faults become errors.

pyVmomi is imported once, in the process that forks the workers: an import in every worker would cost each task a tenth of a second.
Its absence is an error only when a session is asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import re
import ssl
import time
import typing as t
from xml.etree import ElementTree

from ansible.module_utils.basic import env_fallback
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

try:
    from pyVmomi import SoapStubAdapter, vim, vmodl
    from pyVmomi.VmomiSupport import GetServiceVersions, versionIdMap
    # pyVmomi makes its classes when they are first met: meeting the usual ones here makes them once for all workers.
    for _kind in (vim.ServiceInstanceContent, vim.UserSession, vim.Folder, vim.Datacenter, vim.ClusterComputeResource, vim.HostSystem, vim.host.NetworkInfo,
                  vim.host.PciDevice, vim.host.PciPassthruInfo, vim.host.Capability, vim.host.RuntimeInfo, vim.host.VirtualNicManagerInfo, vim.VirtualMachine,
                  vim.vm.VirtualHardware, vim.vm.ConfigSpec, vim.vm.device.VirtualPCIPassthrough, vim.vm.ConfigTarget, vim.TaskInfo,
                  vim.DistributedVirtualSwitch, vmodl.query.PropertyCollector):
        for _property in _kind._GetPropertyList():
            str(_property.type)
    PYVMOMI_ERROR = ""
except ImportError as import_error:
    PYVMOMI_ERROR = str(import_error)
    SoapStubAdapter = object
    vim = vmodl = None

VCENTER_SPEC: dict = dict(
    hostname=dict(type="str", fallback=(env_fallback, ["VMWARE_HOST"])),
    username=dict(type="str", fallback=(env_fallback, ["VMWARE_USER"])),
    password=dict(type="str", no_log=True, fallback=(env_fallback, ["VMWARE_PASSWORD"])),
    port=dict(type="int", default=443, fallback=(env_fallback, ["VMWARE_PORT"])),
    validate_certs=dict(type="bool", default=True, fallback=(env_fallback, ["VMWARE_VALIDATE_CERTS"])),
    ca_file=dict(type="path"),
    thumbprint=dict(type="str"),
    timeout=dict(type="int", default=60),
)
MINIMUM = (7, 0)
NAMESPACE = "vim25"


def version_tuple(text: str) -> tuple[int, ...]:
    """(8, 0, 3) from "8.0.3.0" or "8.0.3 U1": comparable with MINIMUM and the like."""
    out = []
    for part in text.split("."):
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            break
        out.append(int(digits))
    return tuple(out)


def fault_text(fault: t.Any) -> str:
    """A fault's own words: its message, the messages inside it, else the name of its type."""
    texts = []
    for part in (fault.msg, getattr(fault, "reason", "")):
        if isinstance(part, str) and part.strip():
            texts.append(part.strip())
    for message in list(getattr(fault, "faultMessage", None) or []):
        if message.message and message.message.strip() not in texts:
            texts.append(message.message.strip())
    cause = getattr(fault, "faultCause", None)
    if cause is not None and getattr(cause, "fault", None) is None and getattr(cause, "msg", None):
        texts.append(cause.msg.strip())
    name = type(fault).__name__.rsplit(".", 1)[-1]
    unique = list(dict.fromkeys(texts))
    return "%s (%s)" % ("; ".join(unique), name) if unique else name


def _pinned(thumbprint: str, server: str) -> ssl.SSLContext:
    """A context whose every handshake ends in an error unless the certificate is the one named.

    pyVmomi looks at a thumbprint only after an ordinary verification has failed, and only on the first connection.
    """
    wanted = re.sub("[^0-9a-f]", "", thumbprint.lower())
    if len(wanted) != 64:
        raise RdmaError("check the certificate of %s" % server, "", "thumbprint is no SHA-256 fingerprint (64 hexadecimal digits)",
                        "openssl s_client -connect %s </dev/null | openssl x509 -noout -fingerprint -sha256" % server, code="TLS")

    class Pinned(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            found = hashlib.sha256(self.getpeercert(True) or b"").hexdigest()
            if found != wanted:
                raise RdmaError("trust %s" % server, "", "its certificate has the thumbprint %s, not %s" % (found, wanted),
                                "check that this is the right vCenter, then correct thumbprint", code="TLS")

    context = ssl._create_unverified_context()
    context.sslsocket_class = Pinned
    return context


def _context(params: dict, server: str) -> ssl.SSLContext:
    if params.get("thumbprint"):
        return _pinned(params["thumbprint"], server)
    if not params["validate_certs"]:
        return ssl._create_unverified_context()
    try:
        return ssl.create_default_context(cafile=params.get("ca_file") or None)
    except OSError as err:
        raise RdmaError("read the certificates to trust", params["ca_file"], str(err), "name a file with PEM certificates in ca_file") from err


def _newest(served: set[str]) -> str:
    """The newest version of the API that both sides know."""
    for version in GetServiceVersions(NAMESPACE):
        if versionIdMap[version] in served:
            return version
    return ""


class _Stub(SoapStubAdapter):
    """A stub that logs in again, once per call, when the server has dropped the session."""

    login: t.Callable[[], None] | None = None

    def InvokeMethod(self, mo, info, args, outerStub=None):
        try:
            return self._answered(mo, info, args, outerStub)
        except vim.fault.NotAuthenticated:
            login, self.login = self.login, None
            if login is None:
                raise
            try:
                login()
                return self._answered(mo, info, args, outerStub)
            finally:
                self.login = login

    def _answered(self, mo, info, args, outerStub):
        """The answer; a read without a session may end well and say of each property that nobody is logged in."""
        answer = super().InvokeMethod(mo, info, args, outerStub)
        if isinstance(answer, vmodl.query.PropertyCollector.RetrieveResult):
            for missing in (missing for found in answer.objects for missing in found.missingSet or []):
                if isinstance(missing.fault, vim.fault.NotAuthenticated):
                    raise missing.fault
        return answer


class Session:
    """A login, and reads that cost one request each."""

    def __init__(self, params: dict, where: str = "") -> None:
        if PYVMOMI_ERROR:
            raise RdmaError("talk to vCenter", where, "the Python package pyvmomi is not there (%s)" % PYVMOMI_ERROR,
                            "pip install pyvmomi into the environment that runs ansible-playbook", code="NO_PYVMOMI")
        missing = [name for name in ("hostname", "username", "password") if not params.get(name)]
        if missing:
            raise RdmaError("log in to vCenter", where, "%s not given" % ", ".join(missing),
                            "set them once: vhpc_vcenter (roles), module_defaults for group/vhpc.rdma.vsphere, or VMWARE_HOST, VMWARE_USER and VMWARE_PASSWORD",
                            code="NO_VCENTER")
        self.params, self.where = params, where
        self.server = "%s:%d" % (params["hostname"], params["port"])
        self.content: t.Any = None
        self.logins = 0

    # ---- life ---------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        self.stub = _Stub(host=self.params["hostname"], port=self.params["port"], sslContext=_context(self.params, self.server),
                          httpConnectionTimeout=self.params["timeout"])
        version = _newest(self._served_versions())
        if not version:
            raise RdmaError("talk to vCenter %s" % self.server, self.where, "it serves no version of the API that this pyvmomi knows", "another pyvmomi")
        self.stub.ComputeVersionInfo(version)
        self.si = vim.ServiceInstance("ServiceInstance", self.stub)
        self.content = self.si.RetrieveContent()
        self.version = version_tuple(self.content.about.apiVersion)
        if self.version < MINIMUM:
            raise RdmaError("work with %s" % self.server, self.where, "its API version is %s" % self.content.about.apiVersion, "vSphere 7.0 or newer")
        self._login()
        self.stub.login = self._login

    def _served_versions(self) -> set[str]:
        connection = self.stub.GetConnection()
        connection.request("GET", "/sdk/vimServiceVersions.xml")
        answer = connection.getresponse()
        body = answer.read()
        self.stub.ReturnConnection(connection)
        if answer.status != 200:
            raise RdmaError("talk to vCenter %s" % self.server, self.where, "it answers %d to /sdk/vimServiceVersions.xml" % answer.status,
                            "check hostname and port: is it a vCenter or an ESXi host?")
        try:
            root = ElementTree.fromstring(body)
        except ElementTree.ParseError as err:
            raise RdmaError("talk to vCenter %s" % self.server, self.where, "its list of versions is not XML: %s" % err, "check hostname and port") from err
        return {node.text.strip() for node in root.iter("version") if node.text}

    def _login(self) -> None:
        try:
            self.content.sessionManager.Login(self.params["username"], self.params["password"], None)
            self.logins += 1
        except vim.fault.InvalidLogin:
            raise RdmaError("log in to vCenter %s as %s" % (self.server, self.params["username"]), self.where,
                            "the user name or the password is wrong", "check both; a locked account looks the same", code="LOGIN") from None

    def close(self) -> None:
        if self.content is not None:
            # The work is done (or failed with a better reason): a logout that fails changes neither.
            with contextlib.suppress(OSError, http.client.HTTPException, vmodl.MethodFault):
                self.stub.login = None
                self.content.sessionManager.Logout()
        self.stub.DropConnections()

    # ---- reads --------------------------------------------------------------------------------------------------------

    @property
    def is_host(self) -> bool:
        """True when this is a login straight to an ESXi host."""
        return self.content.about.apiType == "HostAgent"

    def read_many(self, objects: t.Iterable[t.Any], paths: list[str]) -> list[dict]:
        """The properties of several objects of one type in one request: dicts with the paths as keys and the object as "object"."""
        objects = list(objects)
        if not objects:
            return []
        spec = vmodl.query.PropertyCollector.FilterSpec(
            propSet=[vmodl.query.PropertyCollector.PropertySpec(type=type(objects[0]), pathSet=paths)],
            objectSet=[vmodl.query.PropertyCollector.ObjectSpec(obj=one, skip=False) for one in objects])
        return self._retrieve(spec, paths)

    def read(self, thing: t.Any, *paths: str) -> dict:
        """The properties of one object, None for those that are not set."""
        rows = self.read_many([thing], list(paths))
        return rows[0] if rows else dict.fromkeys(paths)

    def walk(self, steps: list[tuple[t.Any, str, list[str]]], kinds: dict[t.Any, list[str]]) -> list[dict]:
        """Every object of the types in `kinds` that is reached from the root folder, in one request.

        steps: (type, property to follow, names of the properties to follow from there on).
        """
        collector = vmodl.query.PropertyCollector
        selection = [collector.TraversalSpec(name=path, type=kind, path=path, skip=False,
                                             selectSet=[collector.SelectionSpec(name=name) for name in following])
                     for kind, path, following in steps]
        root = collector.ObjectSpec(obj=self.content.rootFolder, skip=True, selectSet=selection)
        spec = collector.FilterSpec(propSet=[collector.PropertySpec(type=kind, pathSet=paths) for kind, paths in kinds.items()], objectSet=[root])
        return self._retrieve(spec, sorted({path for paths in kinds.values() for path in paths}))

    def _pages(self, spec: t.Any) -> list[t.Any]:
        """Every object of an answer that may come in pages."""
        collector, out = self.content.propertyCollector, []
        page = collector.RetrievePropertiesEx(specSet=[spec], options=vmodl.query.PropertyCollector.RetrieveOptions())
        while page is not None:
            out += page.objects
            page = collector.ContinueRetrievePropertiesEx(page.token) if page.token else None
        return out

    def _retrieve(self, spec: t.Any, paths: list[str]) -> list[dict]:
        logins = self.logins
        try:
            objects = self._pages(spec)
        except vmodl.fault.InvalidArgument:
            if self.logins == logins:
                raise
            objects = self._pages(spec)  # the session ended between two pages, and the new one does not know the place
        rows = []
        for found in objects:
            row = dict.fromkeys(paths)
            row["object"] = found.obj
            row.update((prop.name, prop.val) for prop in found.propSet)
            denied = [m.path for m in (found.missingSet or []) if isinstance(m.fault, vim.fault.NoPermission)]
            if denied:
                raise RdmaError("read %s" % ", ".join(denied), self.where, "the user %s may not" % self.params["username"],
                                "give the user at least the role Read-only on the host and its VMs", code="NO_PERMISSION")
            rows.append(row)
        return rows


def explain(err: BaseException, what: str, where: str) -> RdmaError:
    """Any way a call to vCenter can fail, as the error a person can act on."""
    if isinstance(err, RdmaError):
        return err
    if isinstance(err, vim.fault.NotAuthenticated):  # a kind of NoPermission
        return RdmaError(what, where, "vCenter dropped the session and a new login did not hold", "run again", code="SESSION")
    if isinstance(err, vim.fault.NoPermission):
        return RdmaError(what, where, "the user lacks the privilege %s" % (err.privilegeId or "for it"), "give it to the user's role in vCenter",
                         code="NO_PERMISSION")
    if isinstance(err, vmodl.MethodFault):
        return RdmaError(what, where, fault_text(err), cure(err), code=type(err).__name__.rsplit(".", 1)[-1])
    if isinstance(err, ssl.SSLCertVerificationError):
        return RdmaError(what, where, "the certificate is not trusted: %s" % err.verify_message, "set ca_file or thumbprint", code="TLS")
    if isinstance(err, ssl.SSLError):
        return RdmaError(what, where, "no TLS connection: %s" % (err.reason or err), "check the port", code="TLS")
    if isinstance(err, TimeoutError):
        return RdmaError(what, where, "no answer in time", "check that vCenter is healthy, or raise timeout", code="TIMEOUT")
    return RdmaError(what, where, "%s: %s" % (type(err).__name__, err), "check hostname, port and the network between here and vCenter", code="CONNECTION")


# What to try when a task or a call ends with that fault; the first entry whose word is in the fault's type or words wins.
CURES = (
    ("sched.mem.min", "reserve the VM's whole memory (reserve_memory: true)"),
    ("sched.mem.max", "lift the VM's memory limit (reserve_memory: true does)"),
    ("sched.cpu.min", "reserve vCPUs x host MHz (reserve_cpu: true), which latency sensitivity High asks for"),
    ("latency-sensitive", "reserve the VM's whole memory and vCPUs x host MHz (vhpc.rdma.vm_tuning does)"),
    ("not a passthrough device", "see with vhpc.rdma.host_pci_info whether passthrough is active on the host; reboot the host when it is only enabled"),
    ("systemId does not match", "detach the device and attach it again with vhpc.rdma.vm_passthru: its backing belongs to another host or address"),
    ("assignable device", "see with vhpc.rdma.host_pci_info whether the host has a free device of that kind, active and with that label"),
    ("in use by virtual machine", "power that VM off, or detach the device from one of the two (vhpc.rdma.vm_passthru, state: absent)"),
    ("hardware version", "upgrade the VM's hardware version while it is off (Compatibility in vCenter)"),
    ("MMIO", "attach the device again with bar_size_gb, or set mmio_gb of vhpc.rdma.vm_passthru; the VM needs EFI firmware"),
    ("DevicePowerOn", "see with vhpc.rdma.host_pci_info whether every attached device is active on this host; a device with more than 16 GB of "
     "BARs needs bar_size_gb of vhpc.rdma.vm_passthru"),
    ("maintenance mode", "take the host out of maintenance mode"),
    ("ConcurrentAccess", "run again: somebody else changed it at the same time"),
    ("TaskInProgress", "run again when the other task on it has ended (see Recent Tasks)"),
    ("InvalidPowerState", "check the power state of the VM"),
    ("HostNotConnected", "see why the host does not answer vCenter"),
    ("HostCommunication", "see why the host does not answer vCenter"),
    ("InsufficientMemory", "reserve less memory, or free the host"),
    ("InsufficientHostMemory", "reserve less memory, or free the host"),
    ("InsufficientCpu", "reserve less CPU, or free the host"),
    ("InsufficientHostCpu", "reserve less CPU, or free the host"),
    ("InvalidDevice", "see with vhpc.rdma.host_pci_info what the host has at that address, and in vCenter what the VM has already; then run again"),
    ("NicSettingMismatch", "name a customization for as many network adapters as the template has"),
    ("Customization", "see the customization in vCenter, and that the template has open-vm-tools"),
    ("TooManyDevices", "detach devices that the VM does not need (state: exact)"),
    ("HostConfigFault", "the host refused the setting for the reason that it names; see its vmkernel and hostd logs, put that right and run again"),
    ("InvalidState", "see in vCenter whether the host or VM is in maintenance mode, in another task or off, and run again when it is not"),
    ("ResourceInUse", "see what uses it and move that away first"),
    ("Timedout", "see on the host which VMs still run"),
    ("RequestCanceled", "somebody cancelled the task: run again"),
)


def cure(fault: t.Any) -> str:
    """What to try, from the fault's type and words; the place to look at when nothing fits better."""
    text = fault_text(fault)
    for word, hint in CURES:
        if word.lower() in text.lower():
            return hint
    return "see Tasks and Events of it in vCenter"


@contextlib.contextmanager
def connect(params: dict, where: str = "", what: str = "") -> t.Iterator[Session]:
    """A session for the length of a with block; whatever goes wrong in it comes out as RdmaError naming `where`."""
    session = Session(params, where)
    try:
        try:
            session.open()
        except Exception as err:  # explain() tells every kind apart; the server is named by the text
            raise explain(err, "connect to vCenter %s" % session.server, where) from err
        yield session
    except (vmodl.MethodFault, OSError, http.client.HTTPException) as err:
        raise explain(err, what or "do this through vCenter %s" % session.server, where) from err
    finally:
        if hasattr(session, "stub"):
            session.close()


def pause(seconds: float, deadline: float) -> None:
    """Sleep, but not beyond the deadline (time.monotonic)."""
    time.sleep(max(0.0, min(seconds, deadline - time.monotonic())))
