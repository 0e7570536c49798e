# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PyPI's vmware-esxcli through the lab's vCenter: it learns every command from the host it talks to."""

from __future__ import annotations

import csv
import os
import subprocess
import xml.etree.ElementTree as ET

import pytest
from witness_tools import esxcli as program_of, need

IB, ROCE = "0000:3b:00.0", "0000:3b:00.1"
HOST = "esxi02"


@pytest.fixture()
def esxcli(rehearsal):
    program = need(program_of)

    def call(*words, password=None, options=(), host=HOST):
        login = rehearsal.login
        command = [str(program), "--server", login["hostname"], "--portnumber", str(login["port"]), "--username", login["username"],
                   "--cacertsfile", str(rehearsal.lab.ca), "--vihost", host, *options, *words]
        return subprocess.run(command, env=dict(os.environ, VI_PASSWORD=password or login["password"], HOME=str(rehearsal.directory), LC_ALL="C.UTF-8"),
                              check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return call


def passthru(esxcli):
    done = esxcli("hardware", "pci", "pcipassthru", "list", options=("--formatter", "csv"))
    assert done.returncode == 0, done.stderr
    return {row["DeviceID"]: row["Enabled"] for row in csv.DictReader(done.stdout.splitlines())}


def test_passthrough_between_ours_and_esxcli(rehearsal, esxcli):
    rehearsal.free(HOST)

    def ours(state):
        return "vhpc.rdma.host_passthru", dict(rehearsal.ours, esxi_hostname=HOST, devices=[{"pci": IB}], state=state)
    assert rehearsal.good(ours("enabled"))[0]["changed"]
    assert passthru(esxcli) == {"0000:18:00.0": "false", "0000:18:00.1": "false", IB: "true", ROCE: "false"}
    done = esxcli("hardware", "pci", "pcipassthru", "set", "--device-id", IB, "--enable", "false", "--apply-now")
    assert (done.returncode, done.stderr) == (0, "") and not rehearsal.world.hosts[HOST].passthru[IB].enabled
    assert not rehearsal.good(ours("disabled"))[0]["changed"]
    again = esxcli("hardware", "pci", "pcipassthru", "set", "--device-id", IB, "--enable", "false")
    assert again.returncode == 1 and "already configured" in again.stdout + again.stderr


def test_module_parameters_between_ours_and_esxcli(rehearsal, esxcli):
    def ours(**options):
        return "vhpc.rdma.nmlx_driver", dict(options={"nmlx5_core": options})

    def read():
        done = esxcli("system", "module", "parameters", "list", "-m", "nmlx5_core", options=("--formatter", "xml"))
        assert done.returncode == 0, done.stderr
        space = {"e": "http://www.vmware.com/Products/ESX/5.0/esxcli"}
        rows = [{field.get("name"): field[0].text for field in row.findall("e:field", space)}
                for row in ET.fromstring(done.stdout).iter("{%s}structure" % space["e"])]
        return {row["Name"]: row["Value"] for row in rows if row["Value"]}
    assert rehearsal.good(ours(max_vfs="absent", trust_state="1"), hosts=HOST)[0]["changed"]
    assert read() == {"pfctx": "0x08", "pfcrx": "0x08", "trust_state": "1"}
    done = esxcli("system", "module", "parameters", "set", "-m", "nmlx5_core", "-p", "pfctx=0x08 trust_state=2")
    assert (done.returncode, done.stderr) == (0, "")
    assert rehearsal.world.hosts[HOST].module_options["nmlx5_core"].split() == ["pfctx=0x08", "trust_state=2"]
    assert not rehearsal.good(ours(pfctx="0x08", trust_state="2"), hosts=HOST)[0]["changed"]


def test_software_and_version_as_people_read_them(rehearsal, esxcli):
    done = esxcli("software", "vib", "list")
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert done.returncode == 0 and ["mft", "4.18.1.14-0", "MEL", "PartnerSupported"] in [row[:4] for row in rows]
    assert len(rows) == len(rehearsal.world.hosts[HOST].vibs)
    done = esxcli("system", "version", "get")
    assert "Version: 7.0.2" in done.stdout and "Releasebuild-%s" % rehearsal.world.hosts[HOST].build in done.stdout


def test_help_and_errors_have_their_exit_codes(esxcli):
    done = esxcli("system", "module", "parameters")
    assert "list" in done.stdout and "set" in done.stdout
    for words, options, text in ((("no", "such", "command"), {}, "Unknown command or namespace"),
                                 (("system", "version", "get"), {"password": "wrong"}, "user name or password"),
                                 (("system", "version", "get"), {"host": "esxi99"}, "esxi99")):
        done = esxcli(*words, **options)
        assert done.returncode != 0 and text in done.stdout + done.stderr, (words, done.stdout, done.stderr)
