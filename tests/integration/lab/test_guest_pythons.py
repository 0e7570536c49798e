# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guest modules on every Python of this machine that the running ansible-core takes on a target: one run, one guest tree per Python, and once more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ansible.release import __version__ as core

from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils import test_inbox, test_qos
from lab.runner import environment

# ansible-core line -> oldest Python of its targets
OLDEST = {"2.16": (3, 6), "2.17": (3, 7), "2.18": (3, 8), "2.19": (3, 8), "2.20": (3, 9), "2.21": (3, 9)}
PLAY = """
- hosts: all
  gather_facts: false
  connection: local
  tasks:
    - vhpc.rdma.ofed_guest: {provider: inbox, firewall: {state: open}, root: "{{ tree }}"}
      register: ofed
    - vhpc.rdma.rdma_link: {roce: {address: 192.168.5.11/24, qos: {}}, ib: {}, timeout: 30, root: "{{ tree }}"}
      register: link
    - vhpc.rdma.rdma_info: {expect: {roce: {mtu: 9000, address: 192.168.5.11/24}, ib: {}}, enforce: true, root: "{{ tree }}"}
      register: info
    - ansible.builtin.copy:
        content: "{{ [ofed.changed, link.changed, info.ports | map(attribute='role') | sort] | to_json }}"
        dest: "{{ tree }}/{{ out }}"
        mode: "0600"
      vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}"}
"""


def interpreters() -> dict[str, str]:
    """version -> program."""
    found = {"%d.%d" % sys.version_info[:2]: sys.executable}
    for root in (os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")):
        for path in sorted(Path(root).glob("versions/3.*/bin/python")) if root else []:
            found.setdefault(".".join(path.parts[-3].split(".")[:2]), str(path))
    oldest = OLDEST.get(".".join(core.split(".")[:2]), max(OLDEST.values()))
    return {version: path for version, path in found.items() if tuple(int(part) for part in version.split(".")) >= oldest}


def make(path: Path) -> None:
    """A guest like RHEL with both ports and what its distribution brings."""
    path.mkdir()
    tree = test_inbox.make(path, "rhel")
    tree.card()
    (path / "qos.json").write_text(json.dumps(dict(trust="pcp", pfc=[], dscp={})))
    for name, body in (("dcb", test_qos.DCB), ("systemctl", test_qos.SYSTEMCTL)):
        tree.program(name, test_qos.PROGRAM.replace("{body}", body).replace("{python}", sys.executable))
    test_qos.configfs(tree)


def test_the_guest_modules_run_on_every_python_that_ansible_core_takes(tmp_path):
    found = interpreters()
    print("Pythons: %s with ansible-core %s" % (", ".join(sorted(found, key=lambda text: int(text[2:]))), core))
    (tmp_path / "play.yml").write_text(PLAY)
    hosts = {}
    for version, path in found.items():
        make(tmp_path / version)
        hosts["py" + version] = dict(ansible_python_interpreter=path, tree=str(tmp_path / version))
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts}}))
    env = environment(tmp_path, 2, str(tmp_path / "cp"))
    for out, changed in (("first", True), ("second", False)):
        done = subprocess.run([str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.json", "play.yml", "-e", "out=" + out], cwd=tmp_path,
                              env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout[-4000:]
        assert {version: json.loads((tmp_path / version / out).read_text()) for version in found} == dict.fromkeys(found, [changed, changed, ["ib", "roce"]])
