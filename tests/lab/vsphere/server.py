# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vCenter of the lab: SOAP over HTTPS on the world model."""

from __future__ import annotations

import http.server
import socket
import socketserver
import ssl
import threading
import time
import traceback
import urllib.parse
import uuid
from typing import Any, Callable, Iterator

from pyVmomi import VmomiSupport, vim, vmodl

from ..world import File, World
from . import wire
from .collector import PropertyCollector
from .dvs import DistributedSwitch, Portgroup
from .host import HostSystem
from .inventory import Cluster, Datacenter, Datastore, Folder, Network, ResourcePool, SearchIndex, ViewManager
from .model import Entity, Managed, filled
from .session import HOST_OPTIONS, Session, service_objects
from .tasks import Task
from .vm import VirtualMachine

PATHS = ("/sdk", "/sdk/", "/sdk/webService", "/sdk/vimService")
VERSIONS = ("9.1.1.0", "9.1.0.0", "9.0.0.0", "8.0.3.0", "8.0.2.0", "8.0.1.0", "8.0.0.1", "7.0.3.0", "7.0.2.0", "7.0.1.0", "7.0.0.0", "6.7.3", "6.7.2", "6.7.1",
            "6.7",
            "6.5", "6.0", "5.5", "5.1")
WITHOUT_LOGIN = ("RetrieveServiceContent", "Login", "Logout", "CurrentTime")
COOKIE = "vmware_soap_session"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


class Call:
    """One request on its way: whose session it is, and what has to happen once the world is unlocked."""

    def __init__(self, face: VsphereFace, sid: str, version: str, method: Any) -> None:
        self.face, self.sid, self.version, self.method = face, sid, version, method
        self.after: list[Callable[[], Any]] = []

    @property
    def session(self) -> Session | None:
        return self.face.sessions.get(self.sid)

    def later(self, action: Callable[[], Any]) -> None:
        """Run after the world's lock is free and before the answer leaves."""
        self.after.append(action)

    def task(self, entity: Managed, name: str, body: Callable[[Any], Any], background: bool = False) -> Any:
        """Start a task on the entity; body(task) runs under the lock and may return a callable that finishes without it."""
        task = Task(self.face, self.face.new_id("task"), entity, name, self, body)
        self.face.add(task)
        if background or self.face.task_delay:
            threading.Thread(target=task.run, args=[self.face.task_delay], name=task.moid, daemon=True).start()
        else:
            self.later(task.run)
        return task.ref


class VsphereFace:
    """Serves the world as a vCenter until stop()."""

    root_name = "Datacenters"
    one_host = False  # the API of an ESXi host and not of a vCenter
    quiet_reads = False  # without a session a read ends well and each property is missing, as some servers do, instead of a fault

    def __init__(self, world: World, directory: str, cert: str, key: str, strict: bool = False, task_delay: float = 0.0,
                 notice_delay: float = 0.0) -> None:
        """strict refuses what is not modelled; task_delay is how long a task runs; notice_delay how long a host that went down still looks connected."""
        self.world, self.directory, self.cert, self.key = world, directory, cert, key
        self.strict, self.task_delay, self.notice_delay = strict, task_delay, notice_delay
        self.sessions: dict[str, Session] = {}
        self.objects: dict[str, Managed] = {}
        self.extra_methods: dict[str, Any] = {}
        self.customizations: dict[str, Any] = {}
        self.closed = threading.Event()
        self.settings: dict[str, Any] = {"VirtualCenter.InstanceName": "vcenter", "config.log.level": "info"}
        self.current = threading.local()  # .call: the request that this thread answers
        self._sequence, self._known, self._ids = 0, None, {}
        self._server: _Server | None = None
        for host in world.hosts.values():  # here and not when they are first asked for: reading changes nothing
            host.settings.setdefault("options", dict(HOST_OPTIONS))
        for managed in service_objects(self):
            self.add(managed)
        self.collector = self.add(PropertyCollector(self, "propertyCollector"))
        self.add(ViewManager(self, "ViewManager"))
        self.add(SearchIndex(self, "SearchIndex"))
        self.root = self.add(Folder(self, "group-d1", self.root_name, None, ["Folder", "Datacenter"], lambda: [self.datacenter]))
        self.datacenter = self.add(Datacenter(self, "datacenter-2", self.root))
        self.host_folder = self.add(Folder(self, "group-h4", "host", self.datacenter, ["Folder", "ComputeResource"], lambda: [self.cluster]))
        self.vm_folder = self.add(Folder(self, "group-v3", "vm", self.datacenter, ["Folder", "VirtualMachine", "VirtualApp"], self.vms))
        self.datastore_folder = self.add(Folder(self, "group-s5", "datastore", self.datacenter, ["Folder", "Datastore", "StoragePod"], self.datastores))
        self.network_folder = self.add(Folder(self, "group-n6", "network", self.datacenter, ["Folder", "Network", "DistributedVirtualSwitch"],
                                              self.network_objects))
        self.cluster = self.add(self.compute())
        self.pool = self.add(ResourcePool(self, "resgroup-9"))
        self.network = self.add(Network(self, "network-11", "VM Network"))
        self.sync()

    # ---- what a host's own API does otherwise (direct.py) -----------------------------------------------------------

    @property
    def offered(self) -> str:
        """The API version that clients are offered."""
        return self.world.vcenter["version"]

    @property
    def datacenter_name(self) -> str:
        return self.world.datacenter

    def compute(self) -> Any:
        return Cluster(self, "domain-c8")

    def host_names(self) -> list[str]:
        return list(self.world.hosts)

    def vm_names(self) -> list[str]:
        return list(self.world.vms)

    def switch_names(self) -> list[str]:
        return list(self.world.switches)

    def content(self, whole: Any) -> Any:
        return whole

    def may_log_in(self, user: str, password: str) -> bool:
        vcenter = self.world.vcenter
        return user.lower() == vcenter["username"].lower() and password == vcenter["password"]

    # ---- the registry of managed objects ---------------------------------------------------------------------------

    def new_id(self, prefix: str) -> str:
        with self.world.lock:
            self._sequence += 1
            return "%s-%d" % (prefix, self._sequence)

    def add(self, managed: Any) -> Any:
        self.objects[managed.moid] = managed
        return managed

    def drop(self, moid: str) -> None:
        self.objects.pop(moid, None)

    def sync(self) -> None:
        """Objects for what the world has: ids stay with their names."""
        world = self.world
        hosts, vms, switches = self.host_names(), self.vm_names(), self.switch_names()
        known = (tuple(hosts), tuple(vms), tuple(world.datastores), tuple((name, len(world.switches[name]["portgroups"])) for name in switches))
        if known == self._known:
            return
        wanted: dict[str, Managed] = {}

        def want(prefix: str, first: int, names: Any, make: Callable[[str, str], Managed]) -> None:
            table = self._ids.setdefault(prefix, {})
            for name in names:
                moid = table.setdefault(name, "%s-%d" % (prefix, first + len(table)))
                wanted[moid] = self.objects.get(moid) or make(moid, name)

        want("host", 1001, hosts, lambda moid, name: HostSystem(self, moid, name))
        want("vm", 2001, vms, lambda moid, name: VirtualMachine(self, moid, name))
        want("datastore", 10, world.datastores, lambda moid, name: Datastore(self, moid, name))
        want("dvs", 20, switches, lambda moid, name: DistributedSwitch(self, moid, name))
        groups = [(switch, group, False) for switch in switches for group in world.switches[switch]["portgroups"]]
        groups += [(switch, "%s-DVUplinks-%s" % (switch, self._ids["dvs"][switch].split("-")[1]), True) for switch in switches]
        want("dvportgroup", 30, groups, lambda moid, name: Portgroup(self, moid, *name))
        for moid, managed in list(self.objects.items()):
            if isinstance(managed, (HostSystem, VirtualMachine, Datastore, DistributedSwitch, Portgroup)) and moid not in wanted:
                for gone in managed.parts() if isinstance(managed, (HostSystem, VirtualMachine)) else ():
                    self.drop(gone.moid)
                self.drop(moid)
        for moid, managed in wanted.items():
            if moid not in self.objects:
                self.add(managed)
                for part in managed.parts() if isinstance(managed, (HostSystem, VirtualMachine)) else ():
                    self.add(part)
        self._known = known

    def _all(self, kind: Any) -> list[Any]:
        return [managed for managed in list(self.objects.values()) if isinstance(managed, kind)]

    def hosts(self) -> list[HostSystem]:
        return [self.host(name) for name in self.host_names()]

    def vms(self) -> list[VirtualMachine]:
        return [self.vm(name) for name in self.vm_names()]

    def datastores(self) -> list[Datastore]:
        return self._all(Datastore)

    def switches(self) -> list[DistributedSwitch]:
        return self._all(DistributedSwitch)

    def portgroups(self) -> list[Portgroup]:
        return self._all(Portgroup)

    def network_objects(self) -> list[Entity]:
        return [self.network, *self.switches(), *self.portgroups()]

    def tasks(self) -> list[Task]:
        return self._all(Task)

    def host(self, name: str) -> HostSystem:
        return self.objects[self._ids["host"][name]]

    def vm(self, name: str) -> VirtualMachine:
        return self.objects[self._ids["vm"][name]]

    def find(self, ref: Any) -> Managed:
        managed = self.objects.get(ref._moId)
        if managed is None:
            raise vmodl.fault.ManagedObjectNotFound(obj=ref, msg="The object '%s:%s' has already been deleted or has not been completely created"
                                                    % (type(ref).__name__, ref._moId))
        return managed

    # ---- requests ---------------------------------------------------------------------------------------------------

    def version_of(self, action: str) -> str:
        """The API version that the client speaks; libvirt sends none."""
        known = VmomiSupport.versionMap.get(action.strip('"').rsplit(":", 1)[-1])
        return known if known and known.startswith("vim.version.") else self.newest

    @property
    def newest(self) -> str:
        """The newest API version that is offered and that pyVmomi knows."""
        offered = _numbers(self.offered)
        known = (VmomiSupport.versionMap.get("vim25/" + one) for one in VERSIONS if _numbers(one) <= offered)
        return next((one for one in known if one), wire.NEWEST)

    def _beyond(self, action: str) -> bool:
        """Whether the client speaks a version newer than the one offered, which pyVmomi may not even know."""
        asked = action.strip('"').rsplit("/", 1)[-1].split(".")
        return all(part.isdigit() for part in asked) and [int(part) for part in asked] > _numbers(self.offered)

    def versions(self) -> bytes:
        version = self.offered
        prior = "".join("<version>%s</version>" % one for one in VERSIONS if _numbers(one) < _numbers(version))
        return ('<?xml version="1.0" encoding="UTF-8" ?><namespaces version="1.0"><namespace><name>urn:vim25</name><version>%s</version>'
                "<priorVersions>%s</priorVersions></namespace></namespaces>" % (version, prior)).encode()

    def answer(self, body: bytes, sid: str, action: str) -> tuple[int, bytes]:
        """(HTTP status, SOAP envelope) for a request."""
        version = self.version_of(action)
        what, about = "unreadable request", ""
        try:
            request = wire.Request(body, self.extra_methods)
            what = request.method.wsdlName
            if not VmomiSupport.IsChildVersion(self.newest, version) or self._beyond(action):
                raise vmodl.fault.InvalidRequest(msg="Unsupported version URI %s" % action)
            self.current.call = call = Call(self, sid, version, request.method)
            with self.world.lock:
                self.sync()
                target = self.objects.get(request.this._moId)
                about = target.about if target else ""
                self._session_check(call, request, about)
                target = self.find(request.this)
                handler = getattr(target, what, None)
                note = {"path": request.args["prop"]} if what == "Fetch" else {}
                self.world.note("vsphere", about, what, this=request.this._moId, **note)
                if what != "Fetch" and not callable(handler):
                    raise vmodl.fault.MethodNotFound(receiver=request.this, method=request.method.name,
                                                     msg="The lab does not model %s.%s" % (target.kind.__name__, what))
                self._injected(what, about)
                if not getattr(handler, "waits", False):
                    out = self._invoke(call, target, handler, request)
            if getattr(handler, "waits", False):
                value = handler(call, **request.args)
                with self.world.lock:
                    out = wire.response(request.method, value, request.method.result, version)
            for action_ in call.after:
                action_()
            return 200, out
        except wire.BadRequest as exc:
            self.world.note("vsphere", about, what, fault="InvalidRequest", message=str(exc))
            return 500, wire.fault(exc.fault, version)
        except vmodl.MethodFault as exc:
            self.world.note("vsphere", about, what, fault=type(exc).__name__.rsplit(".", 1)[-1], message=exc.msg)
            self.declared(request.method, exc)
            return 500, wire.fault(exc, version)
        except Exception as exc:  # a defect of the lab: the client gets a readable fault, the journal gets the trace
            self.world.note("vsphere", about, what, crash=traceback.format_exc())
            return 500, wire.fault(vmodl.fault.SystemError(reason=repr(exc), msg="A defect of the lab: %r" % exc), version)

    def _injected(self, what: str, about: str) -> None:
        # asked for only where it is this call's: asking counts
        if self.world.faults.get("call_fault", {}).get(about, {}).get("method") == what:
            options = self.world.fault("call_fault", about)
            if options is not None:
                raise VmomiSupport.GetVmodlType(options["fault"])(msg=options.get("message", "The host refused %s." % what))

    def _invoke(self, call: Call, target: Managed, handler: Any, request: wire.Request) -> bytes:
        if request.method is wire.FETCH:
            value, kind = target.prop(request.args["prop"])
        else:
            value, kind = filled(handler(call, **request.args)), request.method.result
        return wire.response(request.method, value, kind, call.version)

    def _session_check(self, call: Call, request: wire.Request, about: str) -> None:
        session = call.session
        if session is not None:
            for name in ("", "vcenter", about):
                options = self.world.fault("session_expired", name)
                if options is not None:
                    if "times" not in options:
                        self.world.clear_fault("session_expired", name)
                    self.end_session(call.sid)
                    session = None
                    break
        if session is not None:
            session.active = time.time()
        elif self.quiet_reads and request.method.wsdlName in ("RetrieveProperties", "RetrievePropertiesEx"):
            return  # the collector says it of each property
        elif request.method.wsdlName not in WITHOUT_LOGIN and not (request.method is wire.FETCH and request.this._moId == "ServiceInstance"):
            raise vim.fault.NotAuthenticated(object=request.this, privilegeId="System.View", msg="The session is not authenticated.")

    def declared(self, method: Any, problem: Any) -> None:
        """A fault that the method does not declare would teach clients wrong: say so in the journal."""
        allowed = tuple(getattr(method, "faults", ()) or ()) + (vmodl.RuntimeFault, vim.fault.NotAuthenticated, vmodl.query.InvalidProperty)
        allowed = tuple(VmomiSupport.GetVmodlType(one) if isinstance(one, str) else one for one in allowed)
        if not isinstance(problem, allowed):
            self.world.note("vsphere", "", "undeclared fault", method=method.wsdlName, fault=type(problem).__name__)

    def end_session(self, sid: str) -> None:
        session = self.sessions.pop(sid, None)
        for moid in session.owned if session else ():
            self.drop(moid)

    # ---- life -------------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        return self.world.vcenter["port"]

    def start(self) -> None:
        """Returns when the port is open; port 0 becomes a free one, which the world then knows."""
        vcenter = self.world.vcenter
        vcenter["address"] = vcenter["address"] or "127.0.0.1"
        vcenter["port"] = self.listen(vcenter["address"], vcenter["port"])
        self.world.watch(self._host_changed)

    def listen(self, address: str, port: int) -> int:
        """Open the port; returns its number."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        self._server = _Server((address, port), context, self)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="vsphere", daemon=True).start()
        return self._server.server_port

    def hang_up(self) -> None:
        """Close the port and every connection."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.hang_up()

    def _host_changed(self, kind: str, name: str) -> None:
        if kind == "host" and not self.closed.is_set():
            with self.world.lock:
                self.sync()
                self.host(name).went_down = time.monotonic() if self.world.hosts[name].state != "on" else 0.0
                self.cluster.settle_agents()

    def stop(self) -> None:
        self.closed.set()
        self.hang_up()

    def __enter__(self) -> VsphereFace:
        self.start()
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.stop()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size, allow_reuse_address = True, 128, True

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, face: VsphereFace) -> None:
        self.face, self._open = face, set()
        super().__init__(address, _Handler)
        # The handshake belongs to the connection's own thread: a client that never speaks must not stop the others.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def server_bind(self) -> None:
        """HTTPServer looks the address up in the DNS here, which a lab on loopback has no use for."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up or refuse the certificate are daily life; anything else goes to the journal."""
        text = traceback.format_exc()
        if not any(word in text.splitlines()[-1]
                   for word in ("ssl.", "SSL", "ConnectionResetError", "BrokenPipeError", "TimeoutError", "ConnectionAbortedError")):
            self.face.world.note("vsphere", "", "connection error", crash=text)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, wbufsize, server_version = "HTTP/1.1", True, -1, "envoy"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """The journal of the world is the log."""

    def do_GET(self) -> None:
        if self.path.endswith("/vimServiceVersions.xml"):
            self._send(200, self.server.face.versions())
        else:
            self._send(404, b"Not found\n", "text/plain")

    def do_PUT(self) -> None:
        """A file for a datastore: /folder/PATH?dcPath=...&dsName=..., with the session's cookie."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        face, place = self.server.face, urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(place.query)
        with face.world.lock:
            store = face.world.datastores.get((query.get("dsName") or [""])[0])
            if self._sid()[0] not in face.sessions:
                self._send(401, b"Unauthorized\n", "text/plain")
            elif not place.path.startswith("/folder/") or store is None or query.get("dcPath") != [face.world.datacenter]:
                self._send(404, b"Not found\n", "text/plain")
            else:
                path = urllib.parse.unquote(place.path[len("/folder/"):])
                known = next((one for one in face.world.library if one.content == body), None)
                store[path] = File(body, list(known.vibs) if known else [], bool(known and known.bundle))
                face.world.note("vsphere", "", "upload", path=path, size=len(body))
                self._send(201, b"", "text/plain")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length")
        if length is None or not length.isdigit():
            self.close_connection = True
            self._send(411, b"Content-Length is required\n", "text/plain")
            return
        body = self.rfile.read(int(length))
        if self.path not in PATHS:
            self._send(404, b"Not found\n", "text/plain")
            return
        sid, fresh = self._sid()
        status, out = self.server.face.answer(body, sid, self.headers.get("SOAPAction") or "")
        self._send(status, out, cookie=sid if fresh else "")

    def _sid(self) -> tuple[str, bool]:
        """pyVmomi sends an empty Cookie header before the first login: empty is as good as none."""
        for part in self._cookies():
            name, _sep, value = part.strip().partition("=")
            if name == COOKIE and value.strip('"'):
                return value.strip('"'), False
        return uuid.uuid4().hex, True

    def _cookies(self) -> Iterator[str]:
        for header in self.headers.get_all("Cookie") or ():
            yield from header.split(";")

    def _send(self, status: int, body: bytes, kind: str = "text/xml; charset=utf-8", cookie: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if cookie:
            self.send_header("Set-Cookie", '%s="%s"; Path=/; HttpOnly; Secure' % (COOKIE, cookie))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
