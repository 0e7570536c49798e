# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small site behind a real HTTPS port and a plain pyVmomi client: what the tests of this face stand on."""

from __future__ import annotations

import tempfile
import time
from typing import Any, Callable

from pyVim.connect import Disconnect, SmartConnect
from pyVim.task import WaitForTask
from pyVmomi import vim

from ..site import build
from ..world import World
from .__main__ import certificate
from .server import VsphereFace

Passthrough = vim.vm.device.VirtualPCIPassthrough


class Site:
    """with Site(4) as site: site.host("esxi01"), site.vm("vm01"), site.world."""

    def __init__(self, hosts: int = 4, strict: bool = True, version: str = "", prepare: Callable[[World], None] | None = None, **options: Any) -> None:
        self.world = build(hosts)
        self.world.guest_boot_seconds = 0.02
        for host in self.world.hosts.values():
            host.boot_seconds = 0.1
        self.world.vcenter.update(address="127.0.0.1", port=0)
        if version:
            self.world.vcenter["version"] = version
        if prepare:
            prepare(self.world)
        self._directory = tempfile.TemporaryDirectory(prefix="lab-vsphere-")
        cert, key = certificate(self._directory.name)
        self.cert = cert
        self.face = VsphereFace(self.world, self._directory.name, cert, key, strict=strict, **options)
        self._clients: list[Any] = []

    def __enter__(self) -> Site:
        self.face.start()
        self.client = self.connect()
        return self

    def __exit__(self, *_exc: Any) -> None:
        for client in self._clients:
            try:
                Disconnect(client)
            except vim.fault.NotAuthenticated:
                pass  # a test took its session away
        self.face.stop()
        self._directory.cleanup()

    def connect(self, password: str = "") -> Any:
        vcenter = self.world.vcenter
        client = SmartConnect(host=vcenter["address"], port=vcenter["port"], user=vcenter["username"], pwd=password or vcenter["password"],
                              disableSslCertValidation=True, httpConnectionTimeout=20)
        self._clients.append(client)
        return client

    @property
    def content(self) -> Any:
        return self.client.content

    def all(self, kind: Any) -> list[Any]:
        view = self.content.viewManager.CreateContainerView(self.content.rootFolder, [kind], True)
        found = list(view.view)
        view.DestroyView()
        return found

    def _named(self, kind: Any, name: str) -> Any:
        return next(one for one in self.all(kind) if one.name == name)

    def host(self, name: str) -> Any:
        return self._named(vim.HostSystem, name)

    def vm(self, name: str) -> Any:
        return self._named(vim.VirtualMachine, name)

    def run(self, task: Any) -> Any:
        """Follow a task to its end; its error is raised, its result returned."""
        WaitForTask(task, si=self.client)
        return task.info.result

    def fixed(self, vm: str, bdf: str, key: int = -1, **wrong: Any) -> Any:
        """A device spec that adds the function, made from what the environment browser offers."""
        machine, host = self.vm(vm), self.world.hosts[self.world.vms[vm].host]
        offer = next((one for one in machine.environmentBrowser.QueryConfigTarget(None).pciPassthrough if one.pciDevice.id == bdf), None)
        card, _port = host.find(bdf)
        backing = dict(id=bdf, deviceId="%x" % card.mt, systemId=offer.systemId if offer else "none", vendorId=0x15B3,
                       deviceName=offer.pciDevice.deviceName if offer else "")
        backing.update(wrong)
        return vim.vm.device.VirtualDeviceSpec(operation="add", device=Passthrough(key=key, backing=Passthrough.DeviceBackingInfo(**backing)))

    @staticmethod
    def dynamic(key: int = -1, label: str | None = None, vendor: int = 0x15B3, device: int = 0x1017) -> Any:
        backing = Passthrough.DynamicBackingInfo(deviceName="", customLabel=label, allowedDevice=[Passthrough.AllowedDevice(vendorId=vendor, deviceId=device)])
        return vim.vm.device.VirtualDeviceSpec(operation="add", device=Passthrough(key=key, backing=backing))

    def reconfigure(self, vm: str, **spec: Any) -> Any:
        return self.run(self.vm(vm).ReconfigVM_Task(vim.vm.ConfigSpec(**spec)))

    @staticmethod
    def until(test: Callable[[], Any], seconds: float = 5.0) -> Any:
        end = time.monotonic() + seconds
        while not test():
            assert time.monotonic() < end, "it did not happen within %s s" % seconds
            time.sleep(0.01)
        return test()

    def notes(self, what: str) -> list[dict[str, Any]]:
        return [line for line in self.world.journal if line["what"] == what]

    def defects(self) -> list[dict[str, Any]]:
        """Journal lines that tell of an error of the lab itself."""
        return [line for line in self.world.journal if "crash" in line or line["what"] in ("undeclared fault", "unmodelled property", "unmodelled field")]
