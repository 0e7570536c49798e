# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shell against a real /bin/sh in the place of the SSH connection."""

from __future__ import annotations

import subprocess
import time

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxi
from ansible_collections.vhpc.rdma.plugins.plugin_utils import shell as shells


class Connection:
    """What Shell needs of an action plugin; cut: how much of the output arrives (a connection that drops)."""

    def __init__(self):
        self.execs, self.cut, self.drop, self.motd = 0, None, False, ""
        self._connection = self

    def reset(self):
        pass

    def _low_level_execute_command(self, cmd, sudoable=True, executable=None):
        self.execs += 1
        if self.drop:
            raise AnsibleConnectionFailure("Connection to 127.0.0.1 closed by remote host.")
        done = subprocess.run(["/bin/sh", "-c", self.motd + cmd], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return {"rc": done.returncode, "stdout": done.stdout[:self.cut].decode("utf-8", "surrogateescape"), "stderr": done.stderr.decode()}


@pytest.fixture(name="link")
def _link():
    return Connection()


def test_many_commands_are_one_round_trip_with_text_and_return_code(link):
    first, second, third, fourth = shells.Shell(link, "esxi01").run_many([["printf", "no line end"], ["sh", "-c", "echo out; echo err >&2; exit 3"],
                                                                          ["/no/such"], "echo a | cat"])
    assert link.execs == 1
    assert (first.rc, first.text) == (0, "no line end")
    assert (second.rc, second.text) == (3, "out\nerr\n")
    assert third.missing and not third.ok
    assert fourth.text == "a\n"


def test_words_are_quoted_and_programs_get_their_path(link):
    answer = shells.Shell(link, "esxi01").run(["echo", "a; reboot", "$HOME", "it's"])
    assert answer.text == "a; reboot $HOME it's\n"
    assert shells.command_line(["mlxconfig", "-d", "x y", "q"]) == "/opt/mellanox/bin/mlxconfig -d 'x y' q"
    assert shells.command_line(["esxcli", "software", "vib", "list"]).startswith("/bin/esxcli ")


def test_bytes_that_are_no_text_do_not_break_the_result(link):
    text = shells.Shell(link, "esxi01").run(["printf", "caf\\351\\r\\n"]).text
    assert text == "caf\ufffd\n"
    text.encode("utf-8")


def test_output_that_looks_like_a_marker_is_not_one(link):
    assert shells.Shell(link, "esxi01").run(["echo", "=rdma-0=", "0", "1"]).text == "=rdma-0= 0 1\n"


def test_what_the_login_prints_belongs_to_no_command(link):
    link.motd = "echo '-E- Failed to open the device'; echo 0123456789abcdef;"
    assert shells.Shell(link, "esxi01").run(["echo", "answer"]).text == "answer\n"


def test_lost_connection_names_host_and_command(link):
    shell = shells.Shell(link, "esxi01")
    link.drop = True
    with pytest.raises(AnsibleConnectionFailure) as unreachable:  # nothing has happened yet: the host is unreachable
        shell.run(["echo", "1"])
    assert "esxi01" in str(unreachable.value) and "echo 1" in str(unreachable.value)
    link.drop = False
    shell.run(["true"])
    link.drop = True
    with pytest.raises(RdmaError) as lost:  # in the middle of work: this task failed
        shell.run(["echo", "2"])
    assert lost.value.code == "SSH_LOST" and "esxi01" in str(lost.value) and "echo 2" in str(lost.value) and "run the play again" in str(lost.value)


def test_cut_output_is_noticed_and_names_the_command_that_is_missing(link):
    link.cut = 66
    with pytest.raises(RdmaError) as lost:
        shells.Shell(link, "esxi01").run_many([["echo", "first"], ["printf", "%060d", "7"], ["echo", "third"]])
    assert "`printf %060d 7`" in str(lost.value) and "output ends before" in str(lost.value)


def test_serial_number_from_the_vital_product_data():
    text = "\n  VPD-KEYWORD    DESCRIPTION             VALUE\n  -----------    -----------             -----\nRead Only Section:\n\n" \
           "  PN             Part Number             MCX556A-ECAT\n" \
           "  SN             Serial Number           MT2016X00007\n  V0             Misc Info               N/A\n"
    card = {"serial": ""}
    esxi.take_serial(card, shells.Answer("mlxvpd", 0, text))
    assert card["serial"] == "MT2016X00007"
    esxi.take_serial(card, shells.Answer("mlxvpd", 1, "-E- SN unreadable"))
    assert card["serial"] == "MT2016X00007"


@pytest.mark.parametrize("text", ["ssh: connect to host 127.0.0.1 port 22: Connection refused",
                                  "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 127.0.0.1 port 22",
                                  "Connection timed out during banner exchange"])
def test_refused_connection_is_tried_again_for_a_moment(link, monkeypatch, text):
    monkeypatch.setattr(shells, "REFUSED_PAUSES", (0.01, 0.01, 0))
    tries = []

    def refused(cmd, **kwargs):
        tries.append(cmd)
        if len(tries) < 3:
            raise AnsibleConnectionFailure(text)
        return Connection._low_level_execute_command(link, cmd)

    link._low_level_execute_command = refused
    assert shells.Shell(link, "esxi01").run(["echo", "up"]).text == "up\n" and len(tries) == 3
    tries.clear()
    monkeypatch.setattr(shells, "REFUSED_PAUSES", (0.01, 0))
    with pytest.raises(AnsibleConnectionFailure, match="never"):
        shells.Shell(link, "esxi01").run(["echo", "never"])


def test_deadline(link):
    started = time.monotonic()
    with pytest.raises(RdmaError) as late:
        shells.Shell(link, "esxi01").run(["sleep", "20"], seconds=1)
    assert late.value.code == "TIMEOUT" and "esxi01" in str(late.value) and time.monotonic() - started < 8
