# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's own door: faults on and off, the state and the journal, for people and for tests. Loopback only."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .world import FAULTS, World


class Control:
    """GET /world, /journal, /faults; POST /fault {"name", "host", ...options} or {"name", "host", "off": true}; POST /stop."""

    def __init__(self, world: World, claim: socket.socket) -> None:
        self.stopping = threading.Event()
        stopping = self.stopping

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args) -> None:  # noqa: A002 - the base class names it so
                """Quiet: the journal is the log."""

            def answer(self, code: int, data) -> None:
                body = json.dumps(data, default=str).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                if self.path == "/world":
                    return self.answer(200, world.dump())
                if self.path == "/journal":
                    with world.lock:
                        return self.answer(200, list(world.journal))
                if self.path == "/faults":
                    return self.answer(200, {"known": sorted(FAULTS), "on": world.faults})
                return self.answer(404, {"error": "there are /world, /journal, /faults"})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"
                if self.path == "/stop":
                    self.answer(200, {"stopping": True})
                    stopping.set()
                    return None
                if self.path != "/fault":
                    return self.answer(404, {"error": "there are /fault and /stop"})
                try:
                    wish = json.loads(body)
                    name, host = wish.pop("name"), wish.pop("host")
                    if wish.pop("off", False):
                        world.clear_fault(name, host)
                    else:
                        world.set_fault(name, host, **wish)
                except (ValueError, KeyError, TypeError) as err:
                    return self.answer(400, {"error": str(err)})
                return self.answer(200, {"on": world.faults})

        self._server = ThreadingHTTPServer(claim.getsockname(), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = claim
        self._server.daemon_threads = True

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True, name="lab-control").start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
