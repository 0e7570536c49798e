#!/usr/bin/python
# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: perftest
short_description: Measure bandwidth and latency between all pairs of guests
version_added: "0.1.0"
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Runs C(ib_send_bw) and C(ib_send_lat) of perftest between every pair of guests, on InfiniBand and on RoCE.
  - With O(phase=start) every guest gets the whole schedule and walks its own part of it in the background. The task returns at
    once, so the run needs no more forks on the controller than any other task.
  - With O(phase=collect) the task waits until the guest's walk is done and returns what it measured.
  - With O(phase=run) one task does both, which is handy for a few guests. All of them must be in that task at the same time, so it
    needs as many forks as there are guests.
  - In a round every guest has one partner. A pair measures its fabrics one after another, because both ports of a card share
    one PCIe slot. So no guest is ever busy with two measurements.
  - The client of a pair keeps the result. Both ends run under deadlines. A guest that does not answer costs its partners one
    timeout and not the schedule.
  - Devices, ports and GID indexes are looked up on each guest by link layer.
extends_documentation_fragment:
  - vhpc.rdma.attributes
attributes:
  check_mode:
    support: full
    details:
      - Nothing is measured in check mode. The number of pairs and measurements is returned.
  diff_mode:
    support: none
    details:
      - A measurement changes nothing that stays.
  idempotent:
    support: full
    details:
      - A measurement changes nothing that stays, so the task is never changed. Files of the last runs are kept in
        C(/var/tmp/vhpc_rdma).
      - Starting a run again that has been started does nothing.
options:
  phase:
    description:
      - V(start) starts the walk of this guest, V(collect) waits for its end and returns the results, V(run) does both.
      - V(run) is refused where the forks are fewer than the O(peers), because those that wait would hold up those that have not begun.
    type: str
    choices: [start, collect, run]
    required: true
  run_id:
    description:
      - Name of the run, the same on all guests.
      - If it is not set, O(phase=start) and O(phase=run) make one that is new for every task and the same for all its hosts, and
        return it. O(phase=collect) needs it.
    type: str
  self_name:
    description:
      - Name of this guest as in O(peers).
      - If it is not set, the C(inventory_hostname).
    type: str
  peers:
    description:
      - All guests that take part, this one too. Names of hosts of the inventory, or dictionaries with the keys C(name),
        C(address) (where the others reach it by TCP, C(ansible_host) when left out) and C(ports) (GUID or MAC by fabric, where
        a guest has several ports of a kind).
      - Needed with O(phase=start) and O(phase=run).
    type: list
    elements: raw
    default: []
  fabrics:
    description: What to measure on.
    type: list
    elements: str
    choices: [ib, roce]
    default: [ib, roce]
  tests:
    description: What to measure.
    type: list
    elements: str
    choices: [send_bw, send_lat, write_bw, write_lat, read_bw, read_lat]
    default: [send_bw, send_lat]
  repeats:
    description: How often a pair makes each measurement. Repeats are judged by their median.
    type: int
    default: 1
  pattern:
    description:
      - Which pairs meet. V(all) is every pair. V(ring) is everyone with the next by name, who is the server. V(one_to_all) is O(hub) as the client of
        everyone else. V(list) is O(pairs).
      - The more partners a guest has, the better a bad guest is told from a bad path.
    type: str
    choices: [all, ring, one_to_all, list]
    default: all
  hub:
    description: The guest that O(pattern=one_to_all) is about. The first of O(peers) when it is not set.
    type: str
  pairs:
    description: The pairs of O(pattern=list), each a list of server and client. A pair that is named twice meets once.
    type: list
    elements: list
    default: []
  rounds:
    description:
      - How many rounds of the schedule are walked, spread evenly over it. In a round every guest has one partner. V(0) walks all, so that every pair meets.
      - For fleets that are too large for all pairs. Any number from 3 finds a node that is bad with all partners; single bad paths are found only where they
        are walked.
    type: int
    default: 0
  size:
    description:
      - One message size in bytes, for a short look at many pairs. All sizes (C(-a)) when it is not set.
      - The verdict needs its limits for that size too (C(bandwidth_from_size), C(latency_size)).
    type: int
  iterations:
    description: Iterations per size; perftest's own number when it is not set.
    type: int
  extra_args:
    description: More arguments for both ends.
    type: list
    elements: str
    default: []
  numa:
    description:
      - Whether to bind both ends to the NUMA node of the card with C(numactl).
      - They stay unbound where there is no node, no C(numactl), or it may not bind.
    type: bool
    default: false
  port:
    description: TCP port of perftest.
    type: int
    default: 18515
  control_port:
    description: TCP port on which the guests meet.
    type: int
    default: 18514
  connect_timeout:
    description: Seconds to wait for a partner's TCP answer.
    type: int
    default: 3
  start_timeout:
    description: Seconds within which all guests have been started. A guest that does not answer afterwards is given up.
    type: int
    default: 60
  listen_timeout:
    description: Seconds that a started server may take until it listens.
    type: int
    default: 30
  test_timeout:
    description: Seconds that one measurement may take.
    type: int
    default: 120
  wait:
    description:
      - Seconds after which O(phase=collect) returns although the walk goes on, with RV(running), RV(done) and RV(total). V(0) waits for its end.
      - Without it, the first host of the play shows every 15 seconds how far it is.
    type: int
    default: 0
  timeout:
    description: Seconds that the whole run may take. With O(phase=collect) and O(phase=run) also how long to wait for its end.
    type: int
    default: 3600
  root:
    description:
      - Directory that holds the system to work on. V(/) is the guest itself.
      - With another directory nothing outside of it is read, run or changed.
    type: str
    default: /
"""

EXAMPLES = r"""
- name: Start the measurements on all guests
  vhpc.rdma.perftest:
    phase: start
    peers: "{{ ansible_play_hosts }}"
  register: mesh

- name: Wait for them
  vhpc.rdma.perftest:
    phase: collect
    run_id: "{{ mesh.run_id }}"
  register: verify_mesh_result

- name: Judge
  vhpc.rdma.rdma_verdict:
  run_once: true

- name: Measure one size between a few guests in one task
  vhpc.rdma.perftest:
    phase: run
    peers: "{{ ansible_play_hosts }}"
    fabrics: [roce]
    tests: [send_bw]
    size: 65536
"""

RETURN = r"""
run_id:
  description: Name of the run.
  returned: always
  type: str
  sample: 3f2a9c01
hosts:
  description: Names of all guests that take part.
  returned: success
  type: list
  elements: str
fabrics:
  description: The fabrics that are measured.
  returned: success
  type: list
  elements: str
tests:
  description: The tests that are run.
  returned: success
  type: list
  elements: str
rounds:
  description: How many rounds of the schedule are walked; 0 is all.
  returned: success
  type: int
chosen:
  description: The pairs of server and client, where O(pattern) is not V(all).
  returned: success
  type: list
  elements: list
pairs:
  description: How many pairs the whole schedule has.
  returned: O(phase=start) and O(phase=run)
  type: int
measurements:
  description: How many measurements the whole schedule has.
  returned: O(phase=start) and O(phase=run)
  type: int
started:
  description: Whether this task started the walk; false when it had been started before, and in check mode.
  returned: O(phase=start) and O(phase=run)
  type: bool
running:
  description: Whether the walk goes on. Only with O(wait); there are no RV(results) then.
  returned: O(phase=collect) and O(phase=run)
  type: bool
finished:
  description: Whether this guest's walk has ended.
  returned: O(phase=collect) and O(phase=run)
  type: bool
done:
  description: How many measurements this guest has taken part in.
  returned: O(phase=collect) and O(phase=run)
  type: int
total:
  description: In how many it is to take part.
  returned: O(phase=collect) and O(phase=run)
  type: int
seconds:
  description: How long the walk took.
  returned: O(phase=collect) and O(phase=run)
  type: float
version:
  description: Version of perftest on this guest.
  returned: O(phase=collect) and O(phase=run)
  type: str
ports:
  description: The port of each fabric that was used.
  returned: O(phase=collect) and O(phase=run)
  type: dict
columns:
  description: Names of the columns of the rows, by test.
  returned: O(phase=collect) and O(phase=run)
  type: dict
  sample: {send_bw: [size, peak_gbps, average_gbps, mpps]}
results:
  description: The measurements in which this guest was the client, and those that failed for want of a client.
  returned: O(phase=collect) and O(phase=run)
  type: list
  elements: dict
  contains:
    fabric:
      description: V(ib) or V(roce).
      type: str
    test:
      description: Name of the test.
      type: str
    round:
      description: Round of the schedule.
      type: int
    server:
      description: Name of the guest that served.
      type: str
    client:
      description: Name of the guest that measured.
      type: str
    rows:
      description: A list per size, see RV(columns). Bandwidths in Gb/s, times in microseconds.
      type: list
      elements: list
    repeat:
      description: Number of the repeat, with O(repeats) above 1.
      type: int
    error:
      description: Why there are no rows, with C(cause), C(text), C(hint), C(side) and the outputs of both ends.
      type: dict
    seconds:
      description: How long it took.
      type: float
"""

import json
import time

from ansible_collections.vhpc.rdma.plugins.module_utils import guest as wrapper
from ansible_collections.vhpc.rdma.plugins.module_utils import mesh
from ansible_collections.vhpc.rdma.plugins.module_utils.bench import schedule
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

SPEC = dict(
    phase=dict(type="str", choices=["start", "collect", "run"], required=True),
    run_id=dict(type="str"),
    self_name=dict(type="str"),
    peers=dict(type="list", elements="raw", default=[]),
    fabrics=dict(type="list", elements="str", choices=["ib", "roce"], default=["ib", "roce"]),
    tests=dict(type="list", elements="str", choices=["send_bw", "send_lat", "write_bw", "write_lat", "read_bw", "read_lat"], default=["send_bw", "send_lat"]),
    repeats=dict(type="int", default=1),
    pattern=dict(type="str", choices=["all", "ring", "one_to_all", "list"], default="all"),
    hub=dict(type="str"),
    pairs=dict(type="list", elements="list", default=[]),
    rounds=dict(type="int", default=0),
    size=dict(type="int"),
    iterations=dict(type="int"),
    extra_args=dict(type="list", elements="str", default=[]),
    numa=dict(type="bool", default=False),
    port=dict(type="int", default=18515),
    control_port=dict(type="int", default=18514),
    connect_timeout=dict(type="int", default=3),
    start_timeout=dict(type="int", default=60),
    listen_timeout=dict(type="int", default=30),
    test_timeout=dict(type="int", default=120),
    timeout=dict(type="int", default=3600),
    wait=dict(type="int", default=0),
)
WAIT = 0.1


def specification(guest):
    """What the walker gets to know."""
    params = guest.params
    peers = []
    for peer in params["peers"]:
        peer = dict(name=peer) if not isinstance(peer, dict) else peer
        if not peer.get("name"):
            raise RdmaError("start the measurements", guest.host, "a peer without a name: %r" % (peer,),
                            "give names of hosts, or dictionaries with name and address", code="PEERS")
        peers.append(dict(name=peer["name"], address=peer.get("address") or peer["name"], ports=dict(peer.get("ports") or {})))
    if params["port"] == params["control_port"]:
        raise RdmaError("start the measurements", guest.host, "port and control_port are the same", "give two TCP ports", code="PORTS")
    spec = dict((key, params.get(key)) for key in (
        "run_id", "fabrics", "tests", "repeats", "rounds", "size", "iterations", "extra_args", "numa", "port", "control_port", "connect_timeout",
        "start_timeout", "listen_timeout", "test_timeout"))
    spec.update(self=params["self_name"] or guest.host, peers=sorted(peers, key=lambda peer: peer["name"]), run_timeout=params["timeout"])
    if params["repeats"] < 1:
        raise RdmaError("start the measurements", guest.host, "%d repeats measure nothing" % params["repeats"], "give repeats from 1", code="REPEATS")
    names = [peer["name"] for peer in peers]
    chosen = schedule.chosen(names, params.get("pattern") or "all", params.get("hub") or "", params.get("pairs") or [])
    if chosen is not None:
        spec["chosen"] = [list(pair) for pair in chosen]
    schedule.walk(names, spec["self"], params["rounds"], chosen)  # refuses names that do not fit
    return spec


def check_run_id(guest):
    run_id = guest.params["run_id"] or ""
    if not run_id.replace("-", "").replace("_", "").replace(".", "").isalnum() or run_id.startswith("."):
        raise RdmaError("%s the measurements" % guest.params["phase"], guest.host, "%r is no name of a run" % run_id,
                        "give run_id, letters and digits, as the start returned it", code="RUN_ID")
    return run_id


def start(guest):
    """Start the walk of this guest, once."""
    system, spec = guest.system, specification(guest)
    names = [peer["name"] for peer in spec["peers"]]
    head = dict(run_id=spec["run_id"] or "", hosts=names, fabrics=spec["fabrics"], tests=spec["tests"], rounds=spec["rounds"],
                chosen=spec.get("chosen") or [], pairs=len(schedule.pairs(names, spec["rounds"], spec.get("chosen"))),
                measurements=schedule.count(names, spec["fabrics"], spec["tests"], spec["rounds"], spec["repeats"], spec.get("chosen")))
    if guest.check_mode:
        return Changes("verify").result(started=False, **head)
    run_id = check_run_id(guest)
    here = mesh.folder(run_id)
    # Another run of an earlier day, or one that was broken off, must not stand in the door of this one.
    for other in system.listdir(mesh.FOLDER):
        if other != run_id and system.exists("%s/%s/spec.json" % (mesh.FOLDER, other)):
            mesh.end(system, other)
    text = json.dumps(spec, sort_keys=True)
    system.makedirs(mesh.FOLDER, 0o755)
    if not system.makedirs(here, 0o700):
        if system.read(here + "/spec.json", "") not in ("", text):
            raise RdmaError("start the measurements", guest.host, "the run %s has been started with other options" % run_id,
                            "give another run_id", code="RUN_ID")
        if system.exists(here + "/state.json"):
            return Changes("verify").result(started=False, **head)
    system.write(here + "/spec.json", text, mode=0o600)
    mesh.prune(system, run_id)
    mesh.launch(system, spec)
    return Changes("verify").result(started=True, **head)


def collect(guest):
    """Wait for the end of this guest's walk."""
    system = guest.system
    nothing = dict(run_id=guest.params["run_id"] or "", hosts=[], fabrics=[], tests=[], rounds=0, chosen=[], running=False, finished=False, done=0, total=0,
                   seconds=0.0, version="", ports={}, columns={}, results=[])
    if guest.check_mode:
        return Changes("verify").result(**nothing)
    run_id = check_run_id(guest)
    text = system.read(mesh.folder(run_id) + "/spec.json", "")
    if not text:
        raise RdmaError("collect the measurements", guest.host, "the run %s was not started here" % run_id,
                        "see the result of phase start on this guest", code="NOT_STARTED")
    spec, begun = json.loads(text), time.time()
    deadline = begun + guest.params["timeout"]
    while True:
        alive = mesh.locked(system, run_id)
        if alive and guest.params.get("wait") and begun + guest.params["wait"] < min(time.time(), deadline):
            state = mesh.results(system, run_id)[0]
            nothing.update((key, state[key]) for key in ("done", "total", "seconds") if key in state)
            nothing.update(running=True, hosts=[peer["name"] for peer in spec["peers"]])
            return Changes("verify").result(**nothing)
        state = mesh.results(system, run_id)[0] if not alive or time.time() >= deadline else {}
        if not alive:
            break
        if time.time() >= deadline:
            mesh.end(system, run_id)
            guest.warnings.append("%s: the run %s was ended after %d seconds with %d of %d measurements" % (
                spec["self"], run_id, guest.params["timeout"], state.get("done", 0), state.get("total", 0)))
            break
        time.sleep(WAIT)
    state, found = mesh.results(system, run_id)
    if not state.get("finished"):
        log = system.read(mesh.folder(run_id) + "/log", "").strip()[-300:]
        reason = state.get("error") or "the background process has gone; its log says: %s" % (log or "nothing")
        guest.warnings.append("%s: the walk of run %s did not end: %s" % (spec["self"], run_id, reason))
    return Changes("verify").result(
        run_id=run_id, hosts=[peer["name"] for peer in spec["peers"]], fabrics=spec["fabrics"], tests=spec["tests"], rounds=spec.get("rounds") or 0,
        chosen=spec.get("chosen") or [], running=False, finished=bool(state.get("finished")),
        done=state.get("done", 0), total=state.get("total", 0), seconds=state.get("seconds", 0.0), version=state.get("version", ""),
        ports=state.get("ports", {}), columns=mesh.columns(spec["tests"]), results=found)


def work(guest):
    """What the phase asks for; the result of a run has what its start and its end tell."""
    phase = guest.params["phase"]
    if phase == "collect":
        return collect(guest)
    begun = start(guest)
    return begun if phase == "start" or guest.check_mode else dict(begun, **collect(guest))


def main():
    wrapper.run(SPEC, work)


if __name__ == "__main__":
    main()
