# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A guest's own walk through the schedule of pairs: it meets each partner at a door, measures, and writes down what it saw.

Every guest walks by itself, so the run does not depend on how many hosts the controller handles at once. Partners meet over
one TCP connection (the door) that says when the server listens, carries what the other end had to say, and tells at once when
the other end has gone. So a server is never waited for by guess, and a dead guest costs its partners one timeout in all.
"""

import errno
import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time

from ansible_collections.vhpc.rdma.plugins.module_utils import ports as rdma
from ansible_collections.vhpc.rdma.plugins.module_utils.bench import schedule, tables, verdict
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.system import stop
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import perftest

FOLDER = "/var/tmp/vhpc_rdma"
PAUSE = 0.01
GRACE = 2.0
EXITING = 0x4  # PF_EXITING among the flags of /proc/PID/stat
KEEP = 5


class Stopped(Exception):
    """The walk was told to end."""


class Gone(Exception):
    """The partner's end of the door closed, or never opened; says why. told: (cause, text, hint) where they were looked up."""

    def __init__(self, text, told=None):
        Exception.__init__(self, text)
        self.told = told


def folder(run_id):
    return "%s/%s" % (FOLDER, run_id)


def connection(address, port, seconds):
    """What a TCP connection comes to: open, refused, timeout, unreachable or unknown (the name)."""
    try:
        socket.create_connection((address, port), timeout=seconds).close()
        return "open"
    except socket.gaierror:
        return "unknown"
    except socket.timeout:
        return "timeout"
    except (IOError, OSError) as err:
        return {errno.ECONNREFUSED: "refused", errno.ETIMEDOUT: "timeout"}.get(err.errno, "unreachable")


class Door:
    """One connection between two walkers: a JSON object per line."""

    def __init__(self, connection):
        self.connection, self._rest = connection, b""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A guest that was switched off says nothing: without this its partner would wait for hours.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def say(self, **message):
        try:
            self.connection.settimeout(10)
            self.connection.sendall(json.dumps(message).encode("ascii") + b"\n")
        except (IOError, OSError) as err:
            raise Gone(str(err))

    def hear(self, seconds):
        """The next message, or None when there is none within the time."""
        deadline = time.time() + seconds
        while b"\n" not in self._rest:
            left = max(0.0, deadline - time.time())
            try:
                ready = select.select([self.connection], [], [], left)[0]
                if not ready:
                    return None
                data = self.connection.recv(65536)
            except (IOError, OSError) as err:
                raise Gone(str(err))
            if not data:
                raise Gone("it closed the connection")
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        try:
            message = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            raise Gone("it does not speak as a walker does")
        if not isinstance(message, dict):
            raise Gone("it does not speak as a walker does")
        return message

    def close(self):
        try:
            self.connection.close()
        except (IOError, OSError):
            pass


class Lobby:
    """Listens for partners: answers what round we are in, and keeps those who come for a round until we get there."""

    def __init__(self, run_id, address, port):
        self.run_id, self.round = run_id, -1
        self._waiting, self._news = {}, threading.Condition()
        self._socket = self._listen(address, port)
        thread = threading.Thread(target=self._accept)
        thread.daemon = True
        thread.start()

    @staticmethod
    def _listen(address, port):
        # A guest's name may stand for 127.0.1.1 in its own /etc/hosts, where no partner reaches it: only an address that is
        # written as a loopback one, of guests that share a machine, is taken by its word.
        for place in (address, "") if address.startswith("127.") else ("",):
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((place, port))
                listener.listen(64)
                return listener
            except (IOError, OSError) as err:
                listener.close()
                if place and err.errno == errno.EADDRNOTAVAIL:
                    continue
                raise

    def _accept(self):
        while True:
            try:
                connection = self._socket.accept()[0]
            except (IOError, OSError):
                return
            thread = threading.Thread(target=self._greet, args=(Door(connection),))
            thread.daemon = True
            thread.start()

    def _greet(self, door):
        try:
            message = door.hear(5)
            if message is None or message.get("run") != self.run_id:
                door.say(refused="another run is going on here")
            elif "hello" not in message:
                door.say(round=self.round)
            else:
                with self._news:
                    if message["round"] >= self.round:
                        self._waiting[message["round"]] = (door, message)
                        self._news.notify_all()
                        return
                door.say(past=self.round)
        except Gone:
            pass
        door.close()

    def enter(self, number):
        """From now on we are in this round: who comes for an earlier one is told so."""
        with self._news:
            self.round = number
            for other in [key for key in self._waiting if key < number]:
                self._waiting.pop(other)[0].close()

    def guest(self, number, seconds):
        """(door, greeting) of the partner of a round, None when nobody comes within the time."""
        deadline = time.time() + seconds
        with self._news:
            while number not in self._waiting:
                left = deadline - time.time()
                if left <= 0:
                    return None
                self._news.wait(left)
            return self._waiting.pop(number)

    def close(self):
        # Shutdown wakes the thread in accept; close alone does not.
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except (IOError, OSError):
            pass
        self._socket.close()


class Walker:
    """Walks one guest's part of a run. spec: what start wrote down (see the module perftest)."""

    def __init__(self, system, spec):
        self.system, self.spec, self.me = system, spec, spec["self"]
        self.addresses = dict((peer["name"], peer["address"]) for peer in spec["peers"])
        once = schedule.items(spec["fabrics"], spec["tests"])
        # All items before the next repeat: what disturbs a pair for a moment does not hit all repeats of one item.
        self.items, self.once = once * (spec.get("repeats") or 1), len(once)
        self.steps = schedule.walk(list(self.addresses), self.me, spec.get("rounds") or 0, spec.get("chosen"))
        self.folder = folder(spec["run_id"])
        self.started, self.done, self.process, self.lobby = time.time(), 0, None, None
        self.ports, self.faults = {}, {}
        self.bindable = {}
        self.version = ""

    # ---- what this guest has ------------------------------------------------------------------------------------------

    def prepare(self):
        """Look up ports and programs once; what is missing becomes the error of the pairs that need it."""
        mine = next(peer for peer in self.spec["peers"] if peer["name"] == self.me)
        found = rdma.read(self.system)
        for fabric in self.spec["fabrics"]:
            only = (mine.get("ports") or {}).get(fabric) or ""
            try:
                port = rdma.choose(found, fabric, guid=only if only.count(":") != 5 else "", mac=only if only.count(":") == 5 else "", where=self.me)
            except RdmaError as err:
                self.faults[fabric] = dict(cause="no-port", text=err.text(), hint=err.hint)
                continue
            self.ports[fabric] = dict(rdma.public(port), gid_index=rdma.gid_index(port))
            if port["state"] != "ACTIVE":
                told = rdma.findings(port)[0]
                self.faults[fabric] = dict(cause="port-down", text="%s: %s" % (told["thing"], told["text"]), hint=told["hint"])
            elif fabric == "roce" and self.ports[fabric]["gid_index"] is None:
                self.faults[fabric] = dict(cause="gid", text="%s has no RoCE v2 GID with an IPv4 address" % rdma.describe(port),
                                           hint="give it an address with rdma_link")
        for test in self.spec["tests"]:
            if not self.system.find("ib_" + test):
                self.faults[test] = dict(cause="no-program", text="ib_%s is not installed on %s" % (test, self.me),
                                         hint="install perftest, or the OFED that has it")
        if not any(test in self.faults for test in self.spec["tests"]):
            try:
                # Returns 1 although it is no failure.
                self.version = perftest.parse(self.system.run(["ib_" + self.spec["tests"][0], "--version"], timeout=20)[1]).get("version", "")
            except (RdmaError, ParseError):
                self.version = ""

    def fault(self, fabric, test):
        """Why this guest cannot take part in an item, with its name; None when it can."""
        found = self.faults.get(fabric) or self.faults.get(test)
        return dict(found, side=self.me) if found else None

    def gid_index(self, fabric):
        """The entry of the GID table that perftest uses: what the user names counts more than what was looked up."""
        given = re.findall(r"(?:^|\s)(?:-x\s*|--gid-index[=\s])(\d+)(?!\S)", " ".join(str(word) for word in self.spec["extra_args"]))
        return int(given[-1]) if given else self.ports[fabric]["gid_index"]

    def pinned(self, node):
        """What goes before a test to keep it on the card's NUMA node; nothing where binding does not work (a container may not, a node may have no memory)."""
        if not self.spec["numa"] or node is None or node < 0 or not self.system.find("numactl"):
            return []
        words = ["numactl", "--cpunodebind=%d" % node, "--membind=%d" % node]
        if node not in self.bindable:
            try:
                self.bindable[node] = self.system.run(words + ["true"], timeout=20)[0] == 0
            except RdmaError:
                self.bindable[node] = False
        return words if self.bindable[node] else []

    def command(self, fabric, test, server=""):
        port, spec = self.ports[fabric], self.spec
        return self.pinned(port["numa_node"]) + ["ib_" + test] + perftest.args(
            port["device"], server=server, port=port["port"], gid_index=port["gid_index"] if fabric == "roce" else None, tcp_port=spec["port"],
            all_sizes=not spec.get("size"), size=spec.get("size"), iterations=spec["iterations"], extra=spec["extra_args"])

    # ---- the walk -----------------------------------------------------------------------------------------------------

    def walk(self):
        try:
            for step in self.steps:
                self.lobby.enter(step["round"])
                if step["server"]:
                    self.serve(step)
                else:
                    self.measure(step)
                self.save()
            self.lobby.enter(1 << 30)
            self.save(finished=True)
        finally:
            if self.process is not None:
                stop(self.process)
            self.lobby.close()

    def save(self, finished=False, error=""):
        """The state that collect reads."""
        self.system.write(self.folder + "/state.json", json.dumps(dict(
            done=self.done, total=len(self.steps) * len(self.items), finished=finished, error=error, seconds=round(time.time() - self.started, 3),
            ports=self.ports, version=self.version)), mode=0o600)

    def record(self, step, index, rows=None, error=None, seconds=0.0, attempts=0, by="client", versions=""):
        """Write one measurement down: a line of the result file."""
        fabric, test = self.items[index]
        server, client = (self.me, step["partner"]) if step["server"] else (step["partner"], self.me)
        line = dict(fabric=fabric, test=test, round=step["round"], server=server, client=client, rows=rows or [], error=error, seconds=round(seconds, 3),
                    attempts=attempts, by=by)
        if len(self.items) > self.once:
            line["repeat"] = index // self.once + 1
        if versions:
            line["versions"] = versions
        data = json.dumps(line, separators=(",", ":")) + "\n"
        with open(self.system.path(self.folder + "/results.jsonl"), "ab", 0) as handle:
            handle.write(data.encode("ascii"))

    def failed(self, step, start, cause, text, hint, by="client"):
        """All items from start on have failed for the same reason."""
        for index in range(start, len(self.items)):
            self.record(step, index, error=dict(cause=cause, text=text, hint=hint, side=step["partner"]), by=by)
            self.done += 1

    def knock(self, name, **message):
        """A door to a partner that was sent a message; raises IOError when there is none."""
        door = Door(socket.create_connection((self.addresses[name], self.spec["control_port"]), timeout=self.spec["connect_timeout"]))
        try:
            door.say(run=self.spec["run_id"], **message)
        except Gone as gone:
            door.close()
            raise IOError(str(gone))
        return door

    @property
    def early(self):
        """Guests do not start at the same time: one that is not there yet may still come."""
        return time.time() - self.started < self.spec["start_timeout"]

    def shut(self, partner, err):
        """Why a partner's door does not open."""
        place = (self.addresses[partner], self.spec["control_port"])
        cause, text, hint = tables.closed(connection(place[0], place[1], self.spec["connect_timeout"]), err)
        text = "%s port %s: %s" % (place[0], place[1], text)
        return Gone(text, (cause, "%s: %s" % (partner, text), hint))

    def dead(self, step, gone, by="client"):
        """The partner of a step is not there for us: all its items have failed."""
        told = gone.told or ("peer-dead", "%s: %s" % (step["partner"], gone), "see whether that guest is up and whether its TCP ports %s and %s are open" % (
            self.spec["control_port"], self.spec["port"]))
        self.failed(step, 0, *told, by=by)

    # ---- client -------------------------------------------------------------------------------------------------------

    def meet(self, step):
        """The door to the server of a step, once it is ready for us: (door, its greeting)."""
        while True:
            try:
                door = self.knock(step["partner"], hello=self.me, round=step["round"], version=self.version)
            except (IOError, OSError) as err:
                if not self.early:
                    raise self.shut(step["partner"], err)
                time.sleep(PAUSE * 4)
                continue
            message = None
            try:
                # It answers when it has come to this round; as long as it lives it will, because all its own waits are bounded.
                while message is None:
                    message = door.hear(5)
                    self.check_time(step)
            except (Gone, Stopped):
                door.close()
                raise
            if "ready" in message:
                return door, message
            door.close()
            if "refused" not in message or not self.early:
                raise Gone(message.get("refused") or "it has given up on this pair and is in round %s" % message.get("past"))
            time.sleep(PAUSE * 4)

    def check_time(self, step):
        if time.time() - self.started > self.spec["run_timeout"]:
            raise Stopped("the run did not end within %g seconds; it waited for %s in round %d" % (self.spec["run_timeout"], step["partner"], step["round"]))

    def measure(self, step):
        """Be the client of a step: all items, one after another."""
        index = 0
        try:
            door, greeting = self.meet(step)
        except Gone as gone:
            self.dead(step, gone)
            return
        versions = "%s/%s" % (self.version, greeting.get("version")) if greeting.get("version") != self.version else ""
        try:
            for index in range(len(self.items)):
                self.measure_item(step, index, door, versions)
                self.done += 1
        except Gone as gone:
            self.failed(step, index, "peer-lost", "%s went away in the middle: %s" % (step["partner"], gone),
                        "see whether that guest still runs, and its log in %s" % self.folder)
        finally:
            door.close()

    def measure_item(self, step, index, door, versions):
        fabric, test = self.items[index]
        begun, attempts = time.time(), 0
        own = self.fault(fabric, test)
        if own:
            door.say(skip=index)
            self.record(step, index, error=own, versions=versions)
            return
        door.say(run=index)
        answer = self.expect(door, "started", "failed")
        if "failed" in answer:
            error = dict(answer["failed"])
            error.update(client_output="", server_output=error.pop("output", ""))
            self.record(step, index, error=error, versions=versions)
            return
        deadline, text, code, timed_out, theirs = begun + self.spec["test_timeout"], "", None, None, None
        while True:
            attempts += 1
            text, code, told = self.run_client(fabric, test, step["partner"], deadline, door)
            theirs = told or theirs
            if code is None:
                timed_out = self.spec["test_timeout"] if told is None else None
                break
            # The server's walker has started it, but it may not listen yet.
            if theirs or code == 0 or not tables.could_not_connect(text) or time.time() - begun > self.spec["listen_timeout"]:
                break
            time.sleep(PAUSE)
        rows = []
        error = tables.failure(text, code, timed_out)
        if error is None:
            try:
                rows = tables.compact(perftest.parse(text), test)
            except ParseError as err:
                error = dict(cause="other", text=err.text(), hint="see the output of both ends")
            if not rows and error is None:
                error = dict(cause="no-rows", text="the client printed no table", hint="see the output of both ends")
        if error is not None:
            error = tables.refine(error, **self.look_closer(error, fabric, step["partner"]))
            error.setdefault("side", self.me)
        if theirs is None:
            door.say(done=index, ok=error is None)
            theirs = self.expect(door, "ended", "failed").get("failed")
        if error is not None:
            chosen = dict(tables.worse(error, theirs))
            if chosen["cause"] == "path":  # the server says no more than that, and may have been first
                chosen = tables.refine(chosen, **self.look_closer(chosen, fabric, step["partner"]))
            chosen.update(client_output=tables.tail(text), server_output=(theirs or {}).get("output", ""))
            error = chosen
            rows = []
        self.record(step, index, rows=rows, error=error, seconds=time.time() - begun, attempts=attempts, versions=versions)

    def look_closer(self, error, fabric, partner):
        """What tells causes apart for which perftest has the same words."""
        if error["cause"] in ("server-not-running", "timeout"):
            return dict(connect=connection(self.addresses[partner], self.spec["port"], self.spec["connect_timeout"]))
        if error["cause"] == "path" and fabric == "roce":
            mine = self.ports[fabric]
            now = next((port for port in rdma.read(self.system) if (port["device"], port["port"]) == (mine["device"], mine["port"])), None)
            if now is None or self.gid_index(fabric) not in [gid["index"] for gid in now["gids"]]:
                return dict(empty_gid=self.me)
        return {}

    def expect(self, door, *keys):
        """The partner's next message with one of the keys; it answers soon or is lost."""
        deadline = time.time() + self.spec["test_timeout"] + 10
        while time.time() < deadline:
            message = door.hear(1)
            if message and any(key in message for key in keys):
                return message
        raise Gone("it does not answer")

    def run_client(self, fabric, test, partner, deadline, door):
        """(output, return code or None when it was stopped, the server's failure if it told one meanwhile)."""
        told = None
        with self.system.scratch() as out:
            self.process = self.system.start(self.command(fabric, test, self.addresses[partner]), out, out)
            while self.process.poll() is None:
                if told:
                    time.sleep(PAUSE)  # after its last item the server closes the door
                message = None if told else door.hear(PAUSE)
                if message and "failed" in message:
                    told = message["failed"]
                    deadline = min(deadline, time.time() + 0.5)  # its server is gone: this end would hang
                if time.time() > deadline:
                    code = self.end_process()
                    break
            else:
                code = self.process.returncode
            self.process = None
            out.seek(0)
            return out.read().decode("utf-8", "replace"), code, told

    def end_process(self):
        """Stop what runs; its return code when it was ending by itself, which takes its time while the kernel takes its memory back, else None."""
        stat = self.system.read("/proc/%d/stat" % self.process.pid, "").rpartition(")")[2].split()
        if len(stat) > 6 and int(stat[6]) & EXITING:
            try:
                return self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        stop(self.process)
        return 0 if self.process.returncode == 0 else None

    # ---- server -------------------------------------------------------------------------------------------------------

    def serve(self, step):
        """Be the server of a step for as long as its client measures."""
        while True:
            came = self.lobby.guest(step["round"], 1.0)
            if came:
                break
            why = self.missing(step)
            if why:
                self.dead(step, why, by="server")
                return
            self.check_time(step)
        door, dummy = came
        index = 0
        try:
            door.say(ready=True, version=self.version)
            while index < len(self.items):
                message = door.hear(self.spec["test_timeout"] + 10)
                if message is None:
                    raise Gone("it asks for nothing")
                if "skip" in message:
                    index = message["skip"] + 1
                    self.done += 1
                elif "run" in message:
                    index = message["run"]
                    self.serve_item(index, door)
                    index += 1
                    self.done += 1
        except Gone as gone:
            self.failed(step, index, "peer-lost", "%s went away in the middle: %s" % (step["partner"], gone),
                        "see whether that guest still runs, and its log in %s" % self.folder,
                        by="server")
        finally:
            if self.process is not None:
                stop(self.process)
                self.process = None
            door.close()

    def missing(self, step):
        """Why the client of a step will not come; None while it still may."""
        try:
            door = self.knock(step["partner"])
        except (IOError, OSError) as err:
            return None if self.early else self.shut(step["partner"], err)
        try:
            message = door.hear(5) or {}
        except Gone:
            return None
        finally:
            door.close()
        if "refused" in message:
            return None if self.early else Gone(message["refused"])
        return Gone("it has given up on this pair") if message.get("round", -1) > step["round"] else None

    def listening(self):
        """The sockets that listen on perftest's port; None where /proc does not tell."""
        table = self.system.read("/proc/net/tcp", "") + self.system.read("/proc/net/tcp6", "")
        return listeners(table, self.spec["port"]) if table else None

    def wait_for_listen(self, before):
        """Until the started server listens, where /proc tells; else its client tries again. before: who listened before it was started."""
        deadline = time.time() + self.spec["listen_timeout"]
        while self.process.poll() is None and time.time() < deadline:
            now = self.listening()
            if now is None or now - (before or set()):
                return
            time.sleep(PAUSE)

    def serve_item(self, index, door):
        fabric, test = self.items[index]
        own = self.fault(fabric, test)
        if own:
            door.say(failed=own)
            return
        deadline = time.time() + self.spec["test_timeout"] + GRACE
        with self.system.scratch() as out:
            before = self.listening()
            try:
                self.process = self.system.start(self.command(fabric, test), out, out)
            except RdmaError as err:
                door.say(failed=dict(cause="no-program", text=err.text(), hint=err.hint, side=self.me))
                return
            self.wait_for_listen(before)
            asked, told, code = None, False, self.process.poll()
            # Its client is not sent to a server that has ended: another program may have the port, and would be measured.
            if not code:
                door.say(started=index)
            while not code:
                message = None if told or asked else door.hear(PAUSE)
                if asked:
                    time.sleep(PAUSE)
                if message and "done" in message:
                    asked = message
                    # A client that failed leaves its server waiting for ever.
                    deadline = min(deadline, time.time() + (GRACE if message["ok"] else 0.0))
                code = self.process.poll()
                if code is not None and (asked or code):
                    break
                if time.time() > deadline:
                    code = self.end_process()
                    break
                if code == 0 and not asked:
                    message = door.hear(max(0.0, deadline - time.time()))
                    if message and "done" in message:
                        asked = message
            self.process = None
            out.seek(0)
            text = out.read().decode("utf-8", "replace")
        stopped_by_us = code is None and asked is not None
        error = None if stopped_by_us and asked["ok"] else tables.failure(text, code, self.spec["test_timeout"] if code is None and not asked else None)
        if error:
            door.say(failed=dict(error, side=self.me, output=tables.tail(text)))
        else:
            door.say(ended=index)


# ---- start and collect -------------------------------------------------------------------------------------------------

def prune(system, keep):
    """Remove the folders of old runs, all but the newest."""
    names = [name for name in system.listdir(FOLDER) if system.exists("%s/%s/spec.json" % (FOLDER, name)) and name != keep]
    names.sort(key=lambda name: os.stat(system.path("%s/%s/spec.json" % (FOLDER, name))).st_mtime)
    for name in names[:-KEEP]:
        if not locked(system, name):
            system.remove_tree("%s/%s" % (FOLDER, name))


def locked(system, run_id):
    """Whether a walker holds the lock of a run: it lives."""
    path = system.path(folder(run_id) + "/lock")
    if not os.path.exists(path):
        return False
    with open(path, "ab") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (IOError, OSError) as err:
            if err.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return True
            raise
    return False


def end(system, run_id):
    """End the walker of a run, with what it started."""
    try:
        pid = int(system.line(folder(run_id) + "/pid"))
    except ValueError:
        return
    if not locked(system, run_id):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except (IOError, OSError) as err:
            if err.errno == errno.ESRCH:
                return
            raise
        deadline = time.time() + 5
        while time.time() < deadline:
            if not locked(system, run_id):
                return
            time.sleep(0.02)


def launch(system, spec):
    """Start the walker in the background and return when it listens. Raises with its reason when it does not."""
    here = folder(spec["run_id"])
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            os.setsid()
            if os.fork() == 0:
                _background(system, spec, here, write_end)
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(pid, 0)
    answer, deadline = b"", time.time() + 60
    while not answer.endswith(b"\n"):
        if not select.select([read_end], [], [], max(0.0, deadline - time.time()))[0]:
            break
        data = os.read(read_end, 4096)
        if not data:
            break
        answer += data
    os.close(read_end)
    text = answer.decode("utf-8", "replace").strip()
    if text != "ok":
        raise RdmaError("start the measurements", spec["self"], text or "the background process ended at once (see %s/log)" % here,
                        "choose other ports with port and control_port if they are in use", code="START")


def _background(system, spec, here, write_end):
    """The walker's process: never returns."""
    def stopped(*dummy):
        raise Stopped("it was told to end")

    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(system.path(here + "/log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    lock = open(system.path(here + "/lock"), "ab")
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    keep = sorted((write_end, lock.fileno()))
    os.closerange(3, keep[0])
    os.closerange(keep[0] + 1, keep[1])
    os.closerange(keep[1] + 1, 4096)
    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    walker = None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        system.write(here + "/pid", "%d\n" % os.getpid(), mode=0o600)
        walker = Walker(system, spec)
        walker.lobby = Lobby(spec["run_id"], walker.addresses[walker.me], spec["control_port"])
        walker.prepare()
        walker.save()
        os.write(write_end, b"ok\n")
        os.close(write_end)
        write_end = None
        walker.walk()
    except Exception as err:  # whatever it is, nobody else is left to tell it: it goes into the state and the log
        text = err.text() if isinstance(err, RdmaError) else "%s: %s" % (type(err).__name__, err)
        if isinstance(err, (IOError, OSError)) and err.errno == errno.EADDRINUSE:
            text = "TCP port %s is in use" % spec["control_port"]
        os.write(2, (text + "\n").encode("utf-8", "replace"))
        if write_end is not None:
            os.write(write_end, (text + "\n").encode("utf-8", "replace"))
        if walker is not None:
            walker.save(error=text)
    os._exit(0)


def results(system, run_id):
    """(state, measurements) as they are now."""
    here = folder(run_id)
    try:
        state = json.loads(system.read(here + "/state.json", "") or "{}")
    except ValueError:
        state = {}
    found = []
    for line in system.read(here + "/results.jsonl", "").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # the last line, while it is being written
    return state, found


def listeners(table, port):
    """The inodes of the sockets of /proc/net/tcp that listen on the port."""
    rows = [line.split() for line in table.splitlines()]
    return set(row[9] for row in rows if len(row) > 9 and row[1].endswith(":%04X" % port) and row[3] == "0A")


def columns(tests):
    """test -> names of the columns of its rows."""
    return dict((test, verdict.COLUMNS[verdict.kind(test)]) for test in tests)
