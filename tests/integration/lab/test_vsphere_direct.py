# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of the vSphere stage with a login straight to the ESXi host: no vCenter, and a session that the reboot takes away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from lab.runner import environment
from lab.vsphere.client import Site
from lab.vsphere.direct import HostFace

CARD = [{"card": "0000:3b:00.0"}]


def test_the_vsphere_stage_works_without_vcenter(tmp_path):
    with Site(2) as site:
        host = site.world.hosts["esxi02"]
        host.dvs.clear()
        host.boot_seconds = 3.0
        with HostFace(site.world, site.face.directory, site.face.cert, site.face.key, "esxi02", strict=True) as face:
            login = dict(hostname="127.0.0.1", port=face.port, username="root", password=host.password, ca_file=site.cert)
            steps = [("host_power_policy", dict(policy="static")), ("host_passthru", dict(devices=CARD)),
                     ("esxi_service", dict(service="TSM-SSH", policy="on")),
                     ("vm_tuning", dict(name="vm02")), ("vm_passthru", dict(name="vm02", devices=CARD)), ("vm_power", dict(name="vm02", state="on")),
                     ("vm_power", dict(name="vm02", state="off", power_off_ok=True)), ("esxi_reboot", dict(reasons=["a test"], reboot_ok=True, timeout=60))]
            tasks = [{"vhpc.rdma." + module: dict(login, **options)} for module, options in steps]
            book = tmp_path / "direct.yml"
            book.write_text(json.dumps([dict(hosts="esxi02", gather_facts=False, vars=dict(ansible_connection="local"), tasks=tasks)]))
            done = subprocess.run([str(Path(sys.executable).parent / "ansible-playbook"), "-i", "esxi02,", str(book)], cwd=tmp_path, check=False, timeout=200,
                                  env=environment(tmp_path, 1, str(tmp_path)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True)
            assert done.returncode == 0 and "changed=8 " in done.stdout, done.stdout
        assert host.boots == 1 and host.power_policy == 1 and host.passthru["0000:3b:00.0"].active and host.services["TSM-SSH"].policy == "on"
        assert [device.bdf for device in site.world.vms["vm02"].devices] == ["0000:3b:00.0", "0000:3b:00.1"]
        assert site.defects() == []
