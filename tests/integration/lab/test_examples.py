# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What users copy: every EXAMPLE of every module is valid, and those that fit the lab run there as they are written."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lab.harness import Site, differences
from lab.runner import TOP, environment

ESXI = ("bios_settings", "dvs_uplinks", "esxi_info", "esxi_reboot", "esxi_service", "esxi_software", "host_passthru", "host_pci_info", "host_power_policy",
        "mlx_firmware", "mlx_firmware_info", "nmlx_driver", "vm_passthru", "vm_power", "vm_tuning")
GUESTS = ("guest_wait", "ofed_guest", "perftest", "rdma_info", "rdma_link")
# Examples for a site that the lab is not, and what the lab says to them.
ELSEWHERE = {
    "These two and nothing else": "label rdma-ib", "The same two for every VM, in one task": "VM vm02",
    "Any free device with these labels, wherever the VM powers on": "label rdma-ib", "A GPU whose BARs need 64-bit MMIO": "0000:af:00.0",
    "The vendor's repository, from the package that brings it": "provider: mlnx_ofed",
    "The distribution's RDMA, and perftest let through the guest's firewall": "provider: mlnx_ofed",
    "What the distribution has": "", "Install now, reboot later": "", "Jumbo frames get through to the neighbours": "192.168.5.12",
    "An address for IPoIB too, on the port with this GUID": "", "Nothing but the NUMA nodes": "", "All but the latency sensitivity": "",
    "Many VMs in one task, one of them larger": "", "Wait for them": "", "Judge": "", "Detach everything": ""}


def examples(module: str) -> list[dict]:
    tree = ast.parse((TOP / "plugins" / "modules" / ("%s.py" % module)).read_text())
    text = next(node.value.value for node in tree.body if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXAMPLES")
    return yaml.safe_load(text)


MODULES = sorted(path.stem for path in (TOP / "plugins" / "modules").glob("*.py") if path.stem != "__init__")


def test_every_example_is_a_valid_playbook(tmp_path):
    plays = []
    for module in MODULES:
        found = examples(module)
        plays += found if "hosts" in found[0] else [{"name": module, "hosts": "localhost", "gather_facts": False, "tasks": found}]
    (tmp_path / "examples.yml").write_text(yaml.safe_dump(plays, allow_unicode=True))
    done = subprocess.run([str(Path(sys.executable).parent / "ansible-playbook"), "--syntax-check", "-i", "localhost,", "examples.yml"], cwd=tmp_path,
                          env=environment(tmp_path, 4, str(tmp_path / "cp")), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


class Tried:
    """The examples in check mode on a finished host, each as its own task, with the connection to vCenter written once for the play."""

    def __init__(self, directory) -> None:
        site = Site(directory, [4])
        try:
            self.ready = site.run("site.yml", "--skip-tags", "fabric,verify,report")
            plays = []
            for hosts, modules in (("esxi", ESXI), ("guests", GUESTS)):
                tasks = [self._fit(dict(task), "%s | %s" % (module, task["name"])) for module in modules for task in examples(module)]
                plays.append({"name": hosts, "hosts": hosts, "gather_facts": False,
                              "module_defaults": {"group/vhpc.rdma.vsphere": "{{ vhpc_vcenter }}", "group/vhpc.rdma.guest": {"root": "{{ guest_root }}"},
                                                  "group/vhpc.rdma.bmc": {"ca_file": "{{ vhpc_bmc.ca_file | default(omit) }}"}},
                              "vars": {name: {"reboot_reasons": []} for name in ("software", "driver", "passthru")}, "tasks": tasks})
            (directory / "examples.yml").write_text(yaml.safe_dump(plays, allow_unicode=True))
            before = site.world.dump()
            self.run = site.run(str(directory / "examples.yml"), "--check", "--diff")
            self.touched = differences(before, site.world.dump())
            lines = [json.loads(line) for line in (directory / "02-examples.jsonl").read_text().splitlines()]
            self.results = {line["task"]: line for line in lines if line["event"] == "result"}
        finally:
            site.stop()

    @staticmethod
    def _fit(task: dict, name: str) -> dict:
        """The lab's VM is vm04 where an example says vm01; nothing else is changed."""
        task.update(name=name, ignore_errors=True)
        return yaml.safe_load(yaml.safe_dump(task, allow_unicode=True).replace("vm01", "vm04"))


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    return Tried(tmp_path_factory.mktemp("examples"))


def test_they_run_as_they_are_written(tried):
    assert tried.ready.code == 0, tried.ready.log[-3000:]
    wrong = []
    for name, result in tried.results.items():
        excuse = ELSEWHERE.get(name.split(" | ")[1])
        if result["status"] not in ("ok", "skipped") and (excuse is None or excuse not in str(result.get("msg"))):
            wrong.append((name, result.get("msg")))
    assert wrong == []
    assert len(tried.results) >= 35


def test_check_mode_with_diff_touches_nothing(tried):
    assert [line for line in tried.touched if "/mst_started" not in line and "/guest/extra/" not in line] == []
