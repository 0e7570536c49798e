# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs actions of the ESXi stage against the lab's ESXi shell, without SSH between them."""

from __future__ import annotations

import importlib
import threading
import types

from ansible.errors import AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar

from lab.esxi.sh import run_line


class Rig:
    """Runs an action as a task on a host of a world; keeps the SSH execs."""

    def __init__(self, world):
        self.world, self.execs, self.drop_at = world, [], None
        self.address, self.tasks = None, []  # tasks: whose exec each one was
        self.drop_after = None  # the answer of this exec is lost, its effect is not
        self.before = None  # called with every command line ahead of it

    def __call__(self, plugin, host, /, check=False, diff=True, **args):
        module = importlib.import_module("ansible_collections.vhpc.rdma.plugins.action." + plugin)
        task = Task()
        task.args, task.check_mode, task.diff = args, check, diff
        loader = DataLoader()
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="/nowhere"))
        context = PlayContext()
        context.remote_addr = self.address
        action = module.ActionModule(task=task, connection=connection, play_context=context, loader=loader, templar=Templar(loader=loader),
                                     shared_loader_obj=None)

        def execute(cmd, sudoable=True, executable=None, **kwargs):
            self.execs.append(cmd)
            self.tasks.append(action)
            if self.before:
                self.before(cmd)
            if self.drop_at is not None and len(self.execs) >= self.drop_at:
                raise AnsibleConnectionFailure("Connection to %s closed by remote host." % host)
            out, err, rc = run_line(self.world, host, cmd)
            if self.drop_after is not None and len(self.execs) == self.drop_after:
                raise AnsibleConnectionFailure("Connection to %s closed by remote host." % host)
            return {"rc": rc, "stdout": out, "stderr": err}

        action._low_level_execute_command = execute
        before = len(self.execs)
        result = action.run(task_vars={"inventory_hostname": host})
        result["execs"] = len(self.execs) - before
        return result

    def reboot(self, host):
        back = threading.Event()
        self.world.watch(lambda kind, what: back.set() if what == host and self.world.hosts[host].state == "on" else None)
        self.world.reboot_host(host, "test")
        assert back.wait(5)

    def writes(self, host):
        return [entry["what"] for entry in self.world.journal if entry["host"] == host and entry["face"] != "world"
                and any(word in entry["what"] for word in (" set ", "vib install", "vib remove"))]
