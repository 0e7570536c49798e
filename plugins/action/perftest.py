# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's part of perftest: names, addresses and the name of the run, which all guests must know alike."""

from __future__ import annotations

import hashlib
import time

from ansible import context
from ansible.utils.display import Display

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction

display = Display()
PROGRESS = 15  # seconds between two lines that say how far it is
TESTS = ["send_bw", "send_lat", "write_bw", "write_lat", "read_bw", "read_lat"]


class ActionModule(RdmaAction):
    # The same as in the module, which imports what is not there on every controller (fcntl).
    SPEC = dict(
        phase=dict(type="str", choices=["start", "collect", "run"], required=True), run_id=dict(type="str"), self_name=dict(type="str"),
        peers=dict(type="list", elements="raw", default=[]), fabrics=dict(type="list", elements="str", choices=["ib", "roce"], default=["ib", "roce"]),
        tests=dict(type="list", elements="str", choices=TESTS, default=["send_bw", "send_lat"]), repeats=dict(type="int", default=1),
        pattern=dict(type="str", choices=["all", "ring", "one_to_all", "list"], default="all"), hub=dict(type="str"),
        pairs=dict(type="list", elements="list", default=[]), rounds=dict(type="int", default=0), size=dict(type="int"), iterations=dict(type="int"),
        extra_args=dict(type="list", elements="str", default=[]), numa=dict(type="bool", default=False), port=dict(type="int", default=18515),
        control_port=dict(type="int", default=18514), connect_timeout=dict(type="int", default=3), start_timeout=dict(type="int", default=60),
        listen_timeout=dict(type="int", default=30), test_timeout=dict(type="int", default=120), timeout=dict(type="int", default=3600),
        wait=dict(type="int", default=0),
        root=dict(type="str", default="/"))

    def act(self, params, task_vars):
        params = {key: value for key, value in params.items() if value is not None}
        for name in ("port", "control_port"):
            if not 0 < params[name] < 65536:
                raise RdmaError("use TCP port %d" % params[name], self.host, "%s is a number from 1 to 65535" % name, "leave it out for the default",
                                code="PORT")
        begins, ends = params["phase"] in ("start", "run"), params["phase"] in ("collect", "run")
        if begins and not params["peers"]:
            raise RdmaError("start the measurements", self.host, "peers is empty", "name the guests that measure each other", code="PEERS")
        forks = context.CLIARGS.get("forks")
        if begins and ends and forks and forks < len(params["peers"]):
            raise RdmaError("run the measurements in one task", self.host, "%d guests have to be in it at the same time, and there are %d forks" % (
                len(params["peers"]), forks), "give as many forks, or use phase start and phase collect", code="FORKS")
        params.setdefault("self_name", self.host)
        if begins:
            # The task is one object for all its hosts and another one in every run of a playbook.
            params.setdefault("run_id", hashlib.sha256(str(self._task._uuid).encode()).hexdigest()[:12])
            params["peers"] = [self._peer(peer, task_vars) for peer in params["peers"]]
        if ends and not params["wait"] and not self.check_mode and self.host == (task_vars.get("ansible_play_hosts") or [""])[0]:
            result = self._watch(params, task_vars)
        else:
            result = self._execute_module(module_name="vhpc.rdma.perftest", module_args=params, task_vars=task_vars)
        result.setdefault("run_id", params.get("run_id", ""))
        return result

    def _watch(self, params, task_vars):
        """Collect, and say now and then how far it is: one host speaks for all, since they walk side by side."""
        begun = time.monotonic()
        asked = dict(params, wait=PROGRESS)
        while True:
            result = self._execute_module(module_name="vhpc.rdma.perftest", module_args=asked, task_vars=task_vars)
            if not result.get("running"):
                return result
            share = 100 * result["done"] // result["total"] if result.get("total") else 0
            display.display("%s has made %d of its %d measurements (%d %%) in %d s" % (
                self.host, result.get("done", 0), result.get("total", 0), share, time.monotonic() - begun))
            asked = dict(asked, phase="collect", timeout=max(1, int(params["timeout"] - (time.monotonic() - begun))))

    def _peer(self, peer, task_vars):
        """A peer with the address under which the others reach it."""
        peer = dict(peer) if isinstance(peer, dict) else {"name": str(peer)}
        name = peer.get("name", "")
        if not peer.get("address"):
            hostvars = task_vars["hostvars"]
            if name not in hostvars:
                raise RdmaError("find the address of the peer %r" % name, self.host, "the inventory has no such host", "give name and address", code="PEERS")
            peer["address"] = str(hostvars[name].get("vhpc_peer_address") or hostvars[name].get("ansible_host") or name)
        return peer
