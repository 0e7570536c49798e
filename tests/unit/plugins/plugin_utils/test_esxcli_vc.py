# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""esxcli through vCenter: words become parameters by what the host tells, results become the shell's text, one task at a time."""

from __future__ import annotations

import socket
import struct
import threading
import time
from xml.etree import ElementTree

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards, esxcli
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxcli_vc

PARAMS = [{"name": "module", "flag": False, "aliases": ["-m", "--module"]}, {"name": "force", "flag": True, "aliases": ["-f", "--force"]},
          {"name": "settings", "flag": False, "aliases": ["-s", "--settings"]}]
XML = ('<obj xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="ArrayOfVimEsxCLIx">'
       "<x><Name>vmk0</Name><Portset>vSwitch0</Portset></x><x><Name>vmk1</Name><Portset/></x></obj>")


def test_words_become_parameters_by_the_names_that_the_host_told():
    assert esxcli_vc.arguments(PARAMS, ["-m", "nmlx5_core", "--force"]) == [("module", "nmlx5_core"), ("force", "true")]
    assert esxcli_vc.arguments(PARAMS, ["--module=a=b", "A=1", "B=2"]) == [("module", "a=b"), ("settings", "A=1"), ("settings", "B=2")]
    with pytest.raises(RdmaError, match="takes no --nothing .*--module, --force, --settings"):
        esxcli_vc.arguments(PARAMS, ["--nothing", "1"])


def test_results_become_the_text_of_the_shell():
    root = ElementTree.fromstring(XML)
    listed = esxcli_vc.render(root, {"formatter": "simple", "list-order": "Name,Portset", "header": "%Name%"})
    assert listed == "vmk0\n   Name: vmk0\n   Portset: vSwitch0\n\nvmk1\n   Name: vmk1\n   Portset: \n"
    assert cards.blocks(listed)[1] == {"title": "vmk1", "name": "vmk1", "portset": ""}
    table = esxcli_vc.render(root, {"formatter": "table", "table-columns": "Name,Portset"})
    assert esxcli.table(table)["rows"] == [{"Name": "vmk0", "Portset": "vSwitch0"}, {"Name": "vmk1", "Portset": ""}]
    assert esxcli_vc.render(None, {}) == ""


def test_firmware_tools_become_commands_of_the_plugin():
    assert esxcli_vc.plugin_words(["mst", "status", "-vv"]) == ("status", ["-vv"])
    assert esxcli_vc.plugin_words(["mlxconfig", "-d", "x", "-y", "set", "A=1"]) == ("set", ["-d", "x", "-y", "A=1"])
    assert esxcli_vc.plugin_words(["mlxfwmanager", "--query", "--query-format", "XML"]) == ("query", ["--query-format", "XML"])
    assert esxcli_vc.plugin_words(["flint", "-d", "x", "-i", "y", "-y", "b"]) == ("burn", ["-d", "x", "-i", "y", "-y"])


def test_one_task_at_a_time_works_on_a_host(monkeypatch, tmp_path):
    monkeypatch.setattr(esxcli_vc.tempfile, "gettempdir", lambda: str(tmp_path))
    inside, most = [], []

    def work():
        with esxcli_vc.alone("192.0.2.7", "esxi07"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()
    threads = [threading.Thread(target=work) for _number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]
    with esxcli_vc.alone("192.0.2.7", "esxi07"):
        with esxcli_vc.alone("192.0.2.8", "esxi08"):
            pass
        with pytest.raises(RdmaError, match="another run"):
            with esxcli_vc.alone("192.0.2.7", "esxi07", 0.3):
                pass


@pytest.mark.parametrize("reset", [True, False])
def test_a_port_that_greets_the_third_time_is_ssh_and_one_that_never_does_is_not(monkeypatch, reset):
    """An SSH server with too many half-open logins hangs up, or resets, before it greets."""
    monkeypatch.setattr(esxcli_vc, "GREETING_PAUSES", (0.01, 0.01, 0.01))
    asked = []

    def serve(listener, silent):
        while True:
            try:
                link, _peer = listener.accept()
            except OSError:
                return
            asked.append(link)
            if len(asked) > silent:
                link.sendall(b"SSH-2.0-OpenSSH_8.3\r\n")
            elif reset:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.close()

    for silent, answers, times in ((2, True, 3), (9, False, 4)):
        del asked[:]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=serve, args=(listener, silent), daemon=True)
            thread.start()
            monkeypatch.setattr(esxcli_vc.reach, "endpoint", lambda action, at=listener.getsockname()[:2]: at)
            assert esxcli_vc._ssh_answers(None) is answers and len(asked) == times
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
