# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BmcFace: HTTPS listeners and the Redfish protocol; what the resources are lies in service.py."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import secrets
import socket
import ssl
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..world import Host, World
from .service import Answer, Refusal, Service

OPEN = ("/redfish", "/redfish/v1", "/redfish/v1/odata", "/redfish/v1/$metadata")  # no login needed
USER = "root"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 32

    def __init__(self, address: tuple[str, int], handler: Any, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer looks the address up in the DNS here, which a lab on loopback has no use for.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a lab before this one may still linger
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def get_request(self) -> tuple[Any, Any]:
        sock, address = self.socket.accept()
        sock.settimeout(60)
        # Head and body are two writes: without this the second waits for the client's delayed acknowledgement, 40 ms.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The handshake is left to the worker's first read, so that a slow client does not hold the others up.
        return self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event of the lab."""


def handler(world: World, host: Host, service: Service) -> type[BaseHTTPRequestHandler]:
    sessions: dict[str, str] = {}  # token -> session id
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "Lab-Bmc/1", ""

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            """Quiet: the world's journal is the log."""

        # ---- who asks ---------------------------------------------------------------------------------------------------

        def allowed(self) -> bool:
            token = self.headers.get("X-Auth-Token")
            if token:
                return token in sessions
            kind, dummy, value = (self.headers.get("Authorization") or "").partition(" ")
            if kind.lower() != "basic" or host.bmc is None:
                return False
            try:
                user, dummy, password = base64.b64decode(value).decode().partition(":")
            except ValueError:
                return False
            return user == USER and secrets.compare_digest(password.encode(), host.bmc.password.encode())

        # ---- the methods ------------------------------------------------------------------------------------------------

        def work(self, method: str) -> None:
            split = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(split.path)
            bare = path.rstrip("/") or "/"
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length) if length else b""
            try:
                if bare not in OPEN and not (method == "POST" and service.is_sessions(bare)) and not self.allowed():
                    raise Refusal(401, "NoValidSession", "There is no valid session established with the implementation.")
                body: Any = None
                if raw:
                    try:
                        body = json.loads(raw)
                    except ValueError:
                        raise Refusal(400, "MalformedJSON", "The request body submitted was malformed JSON and could not be parsed by the receiving "
                                                            "service.") from None
                    if not isinstance(body, dict):
                        raise Refusal(400, "UnrecognizedRequestBody", "The service detected a malformed request body that it was unable to interpret.")
                query = dict(urllib.parse.parse_qsl(split.query, keep_blank_values=True))
                if self.headers.get("OData-Version", "4.0") != "4.0":
                    raise Refusal(412, "PreconditionFailed", "The OData-Version %s is not supported." % self.headers["OData-Version"])
                strange = [name for name in query if name.startswith("$") and name != "$expand"]
                if strange:
                    raise Refusal(501, "QueryNotSupportedOnResource", "Querying is not supported on the requested resource.")
                with world.lock:
                    if method in ("GET", "HEAD"):
                        answer = service.get(bare, query, sessions)
                    else:
                        world.note("bmc", host.name, "%s %s" % (method, path), body={k: v for k, v in (body or {}).items() if k != "Password"})
                        answer = self.change(method, bare, body or {})
                if answer.after is not None:
                    answer.after()
            except Refusal as refusal:
                answer = refusal.answer(service)
            self.send(answer, method == "HEAD")

        def change(self, method: str, path: str, body: dict[str, Any]) -> Answer:
            if service.is_sessions(path) and method == "POST":
                if host.bmc is None or body.get("UserName") != USER or body.get("Password") != host.bmc.password:
                    raise Refusal(401, "ResourceAtUriUnauthorized",
                                  "While accessing the resource at '%1', the service received an authorization error '%2'.", path, "login failed")
                # The same in every run: DMTF's validator takes one of fifty good random tokens for none.
                number = str(next(numbers))
                token = hashlib.sha256(("%s session %s" % (host.name, number)).encode()).hexdigest()[:32]
                sessions[token] = number
                answer = service.session(number)
                answer.status = 201
                answer.headers.update({"X-Auth-Token": token, "Location": answer.body["@odata.id"]})
                return answer
            gone = service.session_of(path)
            if gone and method == "DELETE":
                for token in [token for token, number in sessions.items() if number == gone]:
                    del sessions[token]
                    return service.done()
                raise Refusal(404, "ResourceMissingAtURI", "The resource at the URI '%1' was not found.", path)
            return service.change(method, path, body, self.headers.get("If-Match"))

        def send(self, answer: Answer, head: bool) -> None:
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body, indent=None) if answer.body is not None else ""
            raw = text.encode()
            self.send_response(answer.status)
            kind = "application/xml" if text.startswith("<?xml") else "application/json;odata.metadata=minimal;charset=utf-8"
            if raw:
                self.send_header("Content-Type", kind)
            if answer.zipped and "gzip" in (self.headers.get("Accept-Encoding") or ""):
                raw = gzip.compress(raw)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(raw)))
            self.send_header("OData-Version", "4.0")
            self.send_header("Cache-Control", "no-cache")
            self.send_header("Allow", answer.allow)
            if answer.status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="RedfishService"')
            if isinstance(answer.body, dict) and "@odata.id" in answer.body and answer.status == 200:
                self.send_header("ETag", answer.body.get("@odata.etag") or 'W/"%s"' % hashlib.sha256(text.encode()).hexdigest()[:8])
                if "@odata.type" in answer.body:
                    self.send_header("Link", "<%s>; rel=describedby" % ("/redfish/v1/$metadata" + answer.body["@odata.type"]))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if not head:
                self.wfile.write(raw)

        def do_GET(self) -> None:
            self.work("GET")

        def do_HEAD(self) -> None:
            self.work("HEAD")

        def do_PATCH(self) -> None:
            self.work("PATCH")

        def do_POST(self) -> None:
            self.work("POST")

        def do_PUT(self) -> None:
            self.work("PUT")

        def do_DELETE(self) -> None:
            self.work("DELETE")

    return Handler


class BmcFace:
    """BmcFace(world, cert, key): a Redfish service on bmc.address:bmc.port of every host that has a BMC."""

    def __init__(self, world: World, cert: Path | str, key: Path | str) -> None:
        self.world = world
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(str(cert), str(key))
        self._servers: list[_Server] = []

    def start(self) -> None:
        for host in self.world.hosts.values():
            if host.bmc is None or not host.bmc.address:
                continue
            server = _Server((host.bmc.address, host.bmc.port), handler(self.world, host, Service(self.world, host)), self._context)
            host.bmc.port = server.server_address[1]
            self._servers.append(server)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True, name="lab-bmc-" + host.name).start()

    def stop(self) -> None:
        for server in self._servers:
            # shutdown() waits for the loop's next look; all loops are asked first.
            threading.Thread(target=server.shutdown, daemon=True).start()
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._servers = []
