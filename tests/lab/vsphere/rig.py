# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of the action group vsphere against a vCenter over HTTPS: what their tests stand on."""

from __future__ import annotations

import importlib
import json
import os
import re

from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.connection.local import Connection
from ansible.template import Templar

from ..site import build
from .__main__ import certificate
from .server import VsphereFace

API = os.environ.get("VHPC_API_VERSION", "8.0.3.0")  # what the lab's vCenter says it is; the lane vsphere-8 runs all of this with several
LABELS = tuple(int(part) for part in API.split(".")) >= (7, 0, 2)


class Modules:
    """Calls modules as Ansible's worker does, with the login; no result tells the password."""

    login: dict

    def __call__(self, module: str, host: str = "esxi01", check: bool = False, **args) -> dict:
        task = Task()
        task.action = "vhpc.rdma." + module
        task.args = {key: value for key, value in dict(self.login, **args).items() if value is not None}
        task.check_mode, task.diff = check, True
        context, loader = PlayContext(), DataLoader()
        context.remote_addr = host
        plugin = importlib.import_module("ansible_collections.vhpc.rdma.plugins.action." + module)
        action = plugin.ActionModule(task, Connection(context, os.devnull), context, loader, Templar(loader=loader), None)
        password = self.login.get("password")
        result = action.run(task_vars={"inventory_hostname": host})
        assert not password or password not in json.dumps(result, default=str)
        return result

    def ok(self, module: str, *args, **kwargs) -> dict:
        result = self(module, *args, **kwargs)
        assert not result.get("failed"), result["msg"]
        return result

    def failed(self, module: str, *args, **kwargs) -> dict:
        result = self(module, *args, **kwargs)
        assert result.get("failed"), result
        return result

    def twice(self, module: str, *args, **kwargs) -> dict:
        """Check mode tells what the run does, the run does it, the second run and a check after it do nothing."""
        looked = self.ok(module, *args, check=True, **kwargs)
        done = self.ok(module, *args, **kwargs)
        assert looked["changed"] and done["changed"] and looked["changes"] == done["changes"] and looked["diff"] == done["diff"]
        for check in (False, True):
            again = self.ok(module, *args, check=check, **kwargs)
            assert not again["changed"] and not again["changes"], again["changes"]
        return done


class Face(VsphereFace):
    """Keeps what clients send: requests[n] is the raw SOAP; before(n, method name) runs ahead of each."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.requests: list[str] = []
        self.before = None

    def answer(self, body, sid, action):
        self.requests.append(body.decode())
        if self.before:
            self.before(sid, body.decode())
        return super().answer(body, sid, action)

    def sent(self, method: str) -> list[str]:
        """The bodies of the requests with that method, from its element on."""
        return [re.search("<soapenv:Body>(.*)</soapenv:Body>", one, re.S).group(1) for one in self.requests if "<%s " % method in one]


class Lab(Modules):
    """A lab with vCenter only."""

    def __init__(self, directory, hosts: int, api: str = API) -> None:
        self.directory = directory
        self.world = build(hosts)
        self.world.vcenter["version"] = api
        release = ".".join(api.split(".")[:3])
        for one in self.world.hosts.values():
            if release < one.version:  # hosts are no newer than their vCenter
                one.version = release
        cert, key = certificate(str(directory))
        self.world.vcenter.update(address="127.0.0.1", port=0)
        self.face = Face(self.world, str(directory), cert, key, strict=True)
        self.face.start()
        self.login = dict(hostname="127.0.0.1", port=self.face.port, username=self.world.vcenter["username"], password=self.world.vcenter["password"],
                          ca_file=cert)

    def ready(self, name: str = "esxi01"):
        """The host without what SR-IOV left, passthrough active."""
        host = self.world.hosts[name]
        host.dvs = {}
        for state in (host.passthru[bdf] for bdf, card, port in host.functions() if card.vpi):
            state.enabled = state.active = True
        return host
