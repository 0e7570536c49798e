# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The API of one ESXi host itself, for logins past vCenter: it goes down with the host, and its sessions with it."""

from __future__ import annotations

import threading
from typing import Any

from pyVmomi import vim

from ..world import World
from .inventory import Cluster
from .server import VsphereFace


class Standalone(Cluster):
    """The compute resource of a host that knows of no cluster."""

    kind = vim.ComputeResource
    moves = False

    @property
    def name(self) -> str:
        return "localhost.localdomain"

    def get_configurationEx(self) -> Any:
        return vim.ComputeResource.ConfigInfo(vmSwapPlacement="vmDirectory")

    def get_summary(self) -> Any:
        host = self.face.hosts()[0].host
        return vim.ComputeResource.Summary(totalCpu=host.cores * host.mhz, totalMemory=host.memory_mb << 20, numCpuCores=host.cores,
                                           numCpuThreads=2 * host.cores,
                                           effectiveCpu=host.cores * host.mhz, effectiveMemory=host.memory_mb, numHosts=1, numEffectiveHosts=1,
                                           overallStatus="green")

    def settle_agents(self) -> None:
        """Agent VMs are vCenter's business."""


class HostFace(VsphereFace):
    """Serves one host's own API (hostd) at host.address until stop()."""

    root_name = "ha-folder-root"
    one_host = True

    def __init__(self, world: World, directory: str, cert: str, key: str, host: str, port: int = 0, **options: Any) -> None:
        self._host, self._port = world.hosts[host], port
        super().__init__(world, directory, cert, key, **options)

    @property
    def offered(self) -> str:
        return "%s.0" % self._host.version

    @property
    def datacenter_name(self) -> str:
        return "ha-datacenter"

    def compute(self) -> Any:
        return Standalone(self, "ha-compute-res")

    def host_names(self) -> list[str]:
        return [self._host.name]

    def vm_names(self) -> list[str]:
        return [vm.name for vm in self.world.vms.values() if vm.host == self._host.name]

    def switch_names(self) -> list[str]:
        return []

    def may_log_in(self, user: str, password: str) -> bool:
        return (user, password) == ("root", self._host.password) and self._host.lockdown == "lockdownDisabled"

    def content(self, whole: Any) -> Any:
        """The service content without what only a vCenter has."""
        whole.customFieldsManager = whole.dvSwitchManager = None
        whole.about = self.hosts()[0].product()
        return whole

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> None:
        self._port = self.listen(self._host.address or "127.0.0.1", self._port)
        self.world.watch(self._host_changed)

    def _host_changed(self, kind: str, name: str) -> None:
        if (kind, name) != ("host", self._host.name) or self.closed.is_set():
            return
        if self._host.state == "on" and self._server is None:
            self.listen(self._host.address or "127.0.0.1", self._port)
        elif self._host.state != "on" and self._server is not None:
            # The answer to the call that took the host down still leaves.
            threading.Timer(0.05, self._gone).start()

    def _gone(self) -> None:
        self.hang_up()
        for sid in list(self.sessions):
            self.end_session(sid)
