# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from lab import site as sites  # noqa: E402
from lab.lab import Lab  # noqa: E402
from lab.runner import collections, environment  # noqa: E402
from witness_tools import collections as witnesses_of, controller, need  # noqa: E402


class Rehearsal:
    """A small lab, Ansible with the witnesses' collections beside ours, and what the world says."""

    def __init__(self, directory) -> None:
        self.directory, self.runs = directory, 0
        self.world = sites.build(2)
        self.world.guest_boot_seconds = 0.1
        for host in self.world.hosts.values():
            host.boot_seconds = 0.2
        self.lab = Lab(directory / "lab", world=self.world)
        self.sockets = tempfile.TemporaryDirectory(prefix="vhpc-")
        self.lab.start()
        vcenter = self.world.vcenter
        self.login = {"hostname": vcenter["address"], "port": vcenter["port"], "username": vcenter["username"], "password": vcenter["password"]}
        self.ours = dict(self.login, ca_file=str(self.lab.ca))
        self.theirs = dict(self.login, validate_certs=True)

    def stop(self) -> None:
        self.lab.stop()
        self.sockets.cleanup()

    def environment(self, venv, witnesses):
        env = environment(self.directory, 4, self.sockets.name)
        env.update(ANSIBLE_COLLECTIONS_PATH="%s:%s" % (collections(), witnesses), SSL_CERT_FILE=str(self.lab.ca), REQUESTS_CA_BUNDLE=str(self.lab.ca),
                   PATH="%s/bin:%s" % (venv, env["PATH"]), VHPC_RDMA_SUMMARY=str(self.directory / "summary.json"))
        return env

    def tasks(self, *tasks, hosts="localhost"):
        """Run tasks one after the other; the results in their order (a failed one has failed: true)."""
        venv, witnesses = need(controller), need(witnesses_of)
        self.runs += 1
        output = self.directory / ("results-%d.json" % self.runs)
        steps = []
        for number, (module, arguments) in enumerate(tasks):
            step = {module: arguments, "register": "result_%d" % number, "ignore_errors": True}
            if hosts != "localhost" and not module.startswith("vhpc."):
                step.update(delegate_to="localhost", vars={"ansible_connection": "local", "ansible_python_interpreter": "%s/bin/python" % venv})
            steps.append(step)
        listed = "{{ [%s] }}" % ", ".join("result_%d" % number for number in range(len(tasks)))
        steps.append({"ansible.builtin.copy": {"content": "{{ results | to_json }}", "dest": str(output), "mode": "0600"}, "vars": {"results": listed},
                      "delegate_to": "localhost", "check_mode": False})
        if hosts != "localhost":
            steps[-1]["vars"].update(ansible_connection="local", ansible_python_interpreter="%s/bin/python" % venv)
        play = [{"hosts": hosts, "gather_facts": False, "tasks": steps}]
        if hosts == "localhost":
            play[0]["connection"] = "local"
        book = self.directory / ("play-%d.yml" % self.runs)
        book.write_text(json.dumps(play))
        done = subprocess.run([str(venv / "bin" / "ansible-playbook"), "-i", str(self.lab.inventory), str(book)], cwd=self.directory,
                              env=self.environment(venv, witnesses), check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        assert output.exists(), done.stdout[-3000:] + done.stderr[-2000:]
        results = json.loads(output.read_text())
        assert len(results) == len(tasks)
        return results

    def good(self, *tasks, **options):
        results = self.tasks(*tasks, **options)
        for (module, _arguments), result in zip(tasks, results):
            assert not result.get("failed"), (module, result.get("msg"), result.get("exception"))
        return results

    def inventory(self, plugin, **options):
        """ansible-inventory's own data for a plugin's file."""
        venv, witnesses = need(controller), need(witnesses_of)
        source = self.directory / ("%s.yml" % plugin.rsplit(".", 1)[-1])
        source.write_text(json.dumps(dict(self.theirs, plugin=plugin, **options)))
        done = subprocess.run([str(venv / "bin" / "ansible-inventory"), "-i", str(source), "--list"], cwd=self.directory, env=self.environment(venv, witnesses),
                              check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "Failed to parse" not in done.stderr, done.stderr[-2000:]  # it ends with 0 even then
        return json.loads(done.stdout)

    def free(self, *names):
        """Hosts without the distributed switch that SR-IOV left."""
        with self.world.lock:
            for name in names:
                self.world.hosts[name].dvs.clear()

    def defects(self):
        return [line for line in self.world.journal if "crash" in line or line["what"] in ("undeclared fault", "unmodelled property", "unmodelled field")]


@pytest.fixture()
def rehearsal(tmp_path):
    made = Rehearsal(tmp_path)
    yield made
    made.stop()
    assert made.defects() == []
