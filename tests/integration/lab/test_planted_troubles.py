# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Troubles planted into the lab's guests: who gets blamed, and who must not.

Each trouble goes once through the role verify over SSH, and 20 times, at a random guest of a fleet, through the same walkers' commands, the lab's
perftest and the verdict without Ansible. No figure is written here: all come from the lab's model.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("asyncssh")
from ansible_collections.vhpc.rdma.plugins.module_utils import mesh  # noqa: E402
from ansible_collections.vhpc.rdma.plugins.module_utils.bench import limits, schedule, tables, verdict  # noqa: E402
from ansible_collections.vhpc.rdma.plugins.module_utils.system import System  # noqa: E402
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import perftest as reader  # noqa: E402
from lab.guest import __main__ as alone  # noqa: E402
from lab.guest import perftest as simulated  # noqa: E402
from lab.guest import state  # noqa: E402
from lab.guest.programs import Call  # noqa: E402
from test_guest_stage import Guests, guests  # noqa: E402,F401  pylint: disable=unused-import

FABRICS, TESTS, REPEATS = ["ib", "roce"], ["send_bw", "send_lat"], range(20)
ROCE = "ens224f1"


class Trouble:
    """Plants one trouble at a guest and takes it away again. blamed: (fabric, kind) of what has to be blamed; cause: an error that its pairs have."""

    def __init__(self, blamed: list[tuple[str, str]], cause: str = "slow", words: str = "") -> None:
        self.blamed, self.cause, self.words = blamed, cause, words

    def plant(self, world: Any, vm: Any, peer: Any, way: str) -> dict[str, Any]:
        """Returns options of perftest that this guest alone has."""
        return {}

    def lift(self, world: Any, vm: Any, peer: Any) -> None:
        for name in ("weak_port", "weak_link", "noisy_port", "unmanaged_port"):
            world.clear_fault(name, vm.name)


class Fault(Trouble):
    def __init__(self, name: str, blamed: list[tuple[str, str]], cause: str = "slow", words: str = "", **options: Any) -> None:
        super().__init__(blamed, cause, words)
        self.name, self.options = name, options

    def plant(self, world, vm, peer, way):
        options = dict(self.options)
        if self.name == "weak_link":
            options["peer"] = peer.name
        if "way" in options:
            options["way"] = way
        world.set_fault(self.name, vm.name, **options)
        return {}


class Mtu(Trouble):
    def plant(self, world, vm, peer, way):
        state.change(vm, ROCE, mtu=1500)
        return {}

    def lift(self, world, vm, peer):
        state.change(vm, ROCE, mtu=9000)


class Address(Trouble):
    """The port has lost its address, and its RoCE v2 GID with it."""

    def plant(self, world, vm, peer, way):
        vm.guest.extra["lost"] = state.net(vm)[ROCE].get("addresses", [])
        state.change(vm, ROCE, addresses=[])
        return {}

    def lift(self, world, vm, peer):
        state.change(vm, ROCE, addresses=vm.guest.extra.pop("lost"))


class GidIndex(Trouble):
    """One guest is told the index of a RoCE v1 GID."""

    def plant(self, world, vm, peer, way):
        return {"extra_args": ["-x", "2"]}


TROUBLES = {
    "healthy": Trouble([]),
    "slow node": Fault("weak_port", [("ib", "node"), ("roce", "node")], factor=0.85),
    "slow direction": Fault("weak_port", [("roce", "direction")], factor=0.6, way="", fabric="roce"),
    "blocked pair": Fault("weak_link", [("ib", "link")], "completion", factor=0, fabric="ib"),
    "wrong MTU": Mtu([("roce", "node")], "mtu", "has MTU 1500 (usual: 9000)"),
    "wrong GID index": GidIndex([("roce", "node")], "completion"),
    "no GID": Address([("roce", "node")], "gid"),
    "port in INIT": Fault("unmanaged_port", [("ib", "node")], "port-down", words="has state INIT (usual: ACTIVE)"),
    "noisy host": Fault("noisy_port", [], cv=10.0),
}


def check(trouble: Trouble, judged: dict[str, Any], vm: str, peer: str, way: str) -> None:
    """Exactly the planted trouble is blamed, with its cause."""
    names = [(fabric, kind, [vm] if kind != "link" else sorted([vm, peer])) for fabric, kind in trouble.blamed]
    assert [(one["fabric"], one["kind"], one["names"]) for one in judged["blame"]] == names, judged["blame"]
    for entry in judged["blame"]:
        # Of two ends that fail one may only see that the other is gone.
        assert trouble.cause in entry["causes"] and set(entry["causes"]) <= {trouble.cause, "slow", "peer-lost"} and entry["severity"] == "fail", entry
        assert trouble.words in entry["text"] and (trouble.words or not entry["differs"]), entry
        assert entry["kind"] != "direction" or entry["direction"] == way
    if not trouble.blamed:
        assert not [one for one in judged["noisy"] if one["host"] != vm or trouble is TROUBLES["healthy"]]


# ---- once through the role -----------------------------------------------------------------------------------------------

def test_the_role_blames_what_was_planted(guests):  # noqa: F811
    here = guests(5, ofed=True)
    here.env["ANSIBLE_FORKS"] = "2"  # fewer than guests: the schedule does not need all at once
    code, log, dummy = here.run("--tags", "guest")
    assert code == 0, log[-3000:]
    serves = [server for dummy, server, client in schedule.pairs([vm.name for vm in here.vms])]
    order = sorted(here.vms, key=lambda vm: -serves.count(vm.name))
    for number, (name, trouble) in enumerate(TROUBLES.items()):
        # Of five guests not everyone receives from two others.
        vm, peer = (order[0], order[1]) if name == "slow direction" else (here.vms[number % 5], here.vms[(number + 2) % 5])
        with here.world.lock:
            only = trouble.plant(here.world, vm, peer, "receive")
            here.face.refresh(vm)
        if only:  # options of one guest are variables of that guest
            (here.directory / "host_vars").mkdir()
            (here.directory / "host_vars" / (vm.name + ".yml")).write_text("verify_extra_args: %s\n" % only["extra_args"])
        repeats = 3 if name == "noisy host" else 1
        code, log, found = here.run("--tags", "verify", verify_enforce=False, verify_repeats=repeats)
        assert code == 0, name + log[-3000:]
        check(trouble, found["vm01"]["verify_verdict_result"], vm.name, peer.name, "receive")
        if only:
            (here.directory / "host_vars" / (vm.name + ".yml")).unlink()
        with here.world.lock:
            trouble.lift(here.world, vm, peer)
            here.face.refresh(vm)


# ---- 20 times without Ansible ----------------------------------------------------------------------------------------------

class Run(Call):
    """A program of the lab that is called in this process: its output is kept as text."""

    def __init__(self, face: Any, vm: Any, name: str, argv: list[str]) -> None:
        super().__init__(face, vm, name, argv, "/", "", None, None)  # type: ignore[arg-type]
        self.text, self.code = "", 0

    def out(self, text: str) -> None:
        self.text += text

    err = out

    async def flush(self) -> None:
        return None

    async def gone(self) -> None:
        await asyncio.Event().wait()

    async def ended(self) -> "Run":
        try:
            self.code = await simulated.perftest(self)
        except simulated.Stop as stop:
            self.text, self.code = self.text + stop.text, stop.code
        return self


class Fleet:
    """Booted guests with addresses and jumbo frames, measured without a controller."""

    def __init__(self, directory: Path, count: int) -> None:
        self.world, self.face, dummy = alone.start(count, directory, alone.free_network(), True)
        self.vms = {vm.name: vm for vm in self.world.vms.values() if not vm.vcls}
        for number, vm in enumerate(self.vms.values()):
            with self.world.lock:
                state.change(vm, ROCE, up=True, mtu=9000, addresses=["192.168.5.%d/24" % (number + 1)])
                self.face.refresh(vm)

    def walker(self, name: str, hosts: list[str], **more: Any) -> mesh.Walker:
        spec = dict(self=name, peers=[dict(name=one, address=self.vms[one].guest.address) for one in hosts], fabrics=FABRICS, tests=TESTS, run_id="x",
                    numa=False, port=18515, iterations=None, extra_args=[])
        spec.update(more)
        walker = mesh.Walker(System(self.vms[name].guest.root), spec)
        walker.prepare()
        return walker

    async def measure(self, server: mesh.Walker, client: mesh.Walker, number: int, repeats: int) -> list[dict[str, Any]]:
        """All measurements of a pair, as its two walkers would make them."""
        out = []
        for repeat in range(1, repeats + 1):
            for fabric, test in schedule.items(FABRICS, TESTS):
                item = dict(fabric=fabric, test=test, round=number, server=server.me, client=client.me, repeat=repeat, rows=[], error=None)
                out.append(item)
                item["error"] = client.fault(fabric, test) or server.fault(fabric, test)
                if item["error"]:
                    continue
                # One size each, the ones that are judged: tables of 23 sizes take ten times as long to print and to read.
                server.spec["size"] = client.spec["size"] = 65536 if test.endswith("_bw") else 8
                ends = [Run(self.face, self.vms[one.me], "ib_" + test, one.command(fabric, test, to)[1:])
                        for one, to in ((server, ""), (client, self.vms[server.me].guest.address))]
                waiting = asyncio.ensure_future(ends[0].ended())
                while 18515 not in self.vms[server.me].guest.extra.get("listening", ()) and not waiting.done():
                    await asyncio.sleep(0)
                await ends[1].ended()
                await waiting
                found = [tables.failure(end.text, end.code) for end in ends]
                item["error"] = tables.worse(found[1], found[0])
                if not item["error"]:
                    item["rows"] = tables.compact(reader.parse(ends[1].text), test)
        return out

    async def _rounds(self, walkers: dict[str, mesh.Walker], repeats: int) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for number, pairs in enumerate(schedule.rounds(walkers)):
            for found in await asyncio.gather(*[self.measure(walkers[server], walkers[client], number, repeats) for server, client in pairs]):
                out += found
        return out

    def judge(self, hosts: list[str], options: dict[str, dict[str, Any]], repeats: int) -> dict[str, Any]:
        walkers = {name: self.walker(name, hosts, **options.get(name, {})) for name in hosts}
        items = asyncio.run_coroutine_threadsafe(self._rounds(walkers, repeats), self.face.loop).result(120)
        ports = {name: walker.ports for name, walker in walkers.items()}
        rates = {name: {fabric: port["rate_gbps"] for fabric, port in found.items()} for name, found in ports.items()}
        return verdict.assess(items, hosts, rates, limits.resolve(), FABRICS, TESTS, 0, ports)


@pytest.fixture(scope="module", name="fleet")
def fixture_fleet(tmp_path_factory):
    made = Fleet(tmp_path_factory.mktemp("fleet"), 8)
    before, simulated.RUN_SECONDS = simulated.RUN_SECONDS, 0.0
    yield made
    simulated.RUN_SECONDS = before
    made.face.stop()


@pytest.mark.parametrize("name", list(TROUBLES))
@pytest.mark.parametrize("seed", REPEATS)
def test_a_random_guest_is_blamed_for_what_was_planted(fleet, name, seed):
    trouble, chance = TROUBLES[name], random.Random("%s %d" % (name, seed))
    # From six hosts on everyone sends to two others at least, and receives from two.
    hosts = chance.sample(sorted(fleet.vms), chance.randint(6, 8))
    vm, peer = (fleet.vms[one] for one in chance.sample(hosts, 2))
    way = chance.choice(["send", "receive"])
    with fleet.world.lock:
        only = trouble.plant(fleet.world, vm, peer, way)
        fleet.face.refresh(vm)
    try:
        judged = fleet.judge(hosts, {vm.name: only} if only else {}, 3 if name == "noisy host" else 1)
    finally:
        with fleet.world.lock:
            trouble.lift(fleet.world, vm, peer)
            fleet.face.refresh(vm)
    check(trouble, judged, vm.name, peer.name, way)
    if name == "noisy host":
        assert {one["host"] for one in judged["noisy"]} == {vm.name}
