# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a command reaches an ESXi shell: the task's own SSH connection, no Python on the host, no files left there.

Commands of one read travel in one SSH exec: each one's output (stderr merged into it, as the tools mix both) ends in a marker
with its return code. The markers also show whether the output is complete: a connection that drops half-way is noticed.
A marker of its own stands above the first one's output: what a login prints on its way in belongs to no command.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import signal
import threading
import time
from dataclasses import dataclass
from typing import Iterator, Sequence

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

# Full paths: the PATH of a non-interactive ESXi shell is short, and /opt/mellanox/bin is never on it.
MFT = "/opt/mellanox/bin/"
PROGRAMS = {
    "esxcli": "/bin/esxcli", "esxcfg-module": "/bin/esxcfg-module", "sha256sum": "/bin/sha256sum", "ls": "/bin/ls",
    "mst": MFT + "mst", "mlxconfig": MFT + "mlxconfig", "mlxfwmanager": MFT + "mlxfwmanager", "flint": MFT + "flint", "mlxvpd": MFT + "mlxvpd",
    "secureBoot.py": "/usr/lib/vmware/secureboot/bin/secureBoot.py",
}
READ_SECONDS, WRITE_SECONDS = 180, 1200
NOT_FOUND = (126, 127)
REFUSED_PAUSES = (1, 2, 3, 0)
# The SSH service has as many half-open logins as it takes (MaxStartups), or may just have been started: nothing has reached the host then.
CROWDED = re.compile(r"kex_exchange_identification|during banner exchange")
TOO_EARLY = re.compile(r"Connection refused|" + CROWDED.pattern)


@dataclass(frozen=True)
class Answer:
    """What one command said: its words as typed, its return code, its text (stdout and stderr in the order they came)."""

    command: str
    rc: int
    text: str

    @property
    def ok(self) -> bool:
        return self.rc == 0

    @property
    def missing(self) -> bool:
        """The program is not on this host."""
        return self.rc in NOT_FOUND

    def last_line(self) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else "return code %d and no output" % self.rc


class _Late(BaseException):
    """The deadline passed. Not an Exception, so that no handler on the way takes it for a fault of the connection."""


@contextlib.contextmanager
def deadline(seconds: int) -> Iterator[None]:
    """Ends the block after so many seconds, unless the task has a timeout of its own: then that one counts."""
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def late(_signal: int, _frame: object) -> None:
        raise _Late()

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def clean(text: str) -> str:
    """Text that can go into JSON: a byte that is no UTF-8 became a lone surrogate on its way here."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\r\n", "\n")


def command_line(words: Sequence[str] | str) -> str:
    """The words of a command as one shell line with the program's full path. A string is a shell line already."""
    if isinstance(words, str):
        return words
    return " ".join(shlex.quote(word) for word in [PROGRAMS.get(words[0], words[0])] + list(words[1:]))


def script(lines: Sequence[str], mark: str) -> str:
    return "\n".join(["echo %s -" % mark] + ["%s 2>&1; echo %s %d $?" % (line, mark, number) for number, line in enumerate(lines)])


def split(text: str, mark: str, lines: Sequence[str]) -> list[Answer]:
    """The answers in a script's output; fewer than commands when the output stops early."""
    head = "%s -\n" % mark
    answers, position = [], text.find(head) + len(head)
    for number, line in enumerate(lines if position >= len(head) else ()):
        found = re.compile(r"%s %d (-?\d+)(?:\n|$)" % (re.escape(mark), number)).search(text, position)
        if not found:
            break
        answers.append(Answer(line, int(found.group(1)), text[position:found.start()]))
        position = found.end()
    return answers


class Shell:
    """Runs commands on the ESXi host of one task."""

    shell = True  # pipes, files and every program of the host

    def __init__(self, action, host: str) -> None:
        self._action, self.host = action, host
        self._reached = False

    def run(self, words: Sequence[str] | str, seconds: int = READ_SECONDS) -> Answer:
        return self.run_many([words], seconds)[0]

    def run_many(self, commands: Sequence[Sequence[str] | str], seconds: int = READ_SECONDS) -> list[Answer]:
        """All commands in one SSH exec, in order, none stopped by the failure of one before it."""
        lines = [command_line(words) for words in commands]
        mark = "=rdma-%s=" % secrets.token_hex(6)
        shown = "; ".join(lines) if len(lines) < 3 else "%s; ... (%d commands)" % (lines[0], len(lines))
        try:
            with deadline(seconds):
                out = self.execute(script(lines, mark))
        except _Late:
            with contextlib.suppress(Exception):  # best effort: the error below is what matters
                self._action._connection.reset()
            raise RdmaError("get an answer within %d seconds to `%s`" % (seconds, shown), self.host, code="TIMEOUT",
                            hint="log in to the host and see whether the command hangs there") from None
        except AnsibleConnectionFailure as err:
            raise self._lost(shown, str(err)) from err
        text = clean(out["stdout"])
        answers = split(text, mark, lines)
        if len(answers) < len(lines):
            missing = lines[len(answers)]
            if answers:
                self._reached = True
            why = clean(out.get("stderr") or "").strip() or "the output ends before the command's end"
            raise self._lost(missing, why)
        self._reached = True
        return answers

    def execute(self, text: str, again: re.Pattern = TOO_EARLY) -> dict:
        """A login that the SSH service does not take yet is tried again for a moment."""
        for pause in REFUSED_PAUSES:
            try:
                # executable=False: the login shell takes the script as it is, without another shell and another quoting
                return self._action._low_level_execute_command(text, sudoable=False, executable=False)
            except AnsibleConnectionFailure as err:
                if self._reached or not again.search(str(err)) or not pause:
                    raise
                time.sleep(pause)
        raise AssertionError("the last pause is none")

    def _lost(self, command: str, why: str) -> Exception:
        why = re.sub(r"^Failed to connect to the host via \w+:\s*", "", why).strip() or "it was closed while the command ran"
        err = RdmaError("finish `%s`" % command, self.host, "the SSH connection was lost (%s)" % " ".join(why.split()), code="SSH_LOST",
                        hint="see whether the host is up and its SSH service runs, then run the play again: it goes on where this one stopped")
        # Before the first answer nothing has happened on the host: that is Ansible's "unreachable"; later it is a failure of this task.
        return err if self._reached else AnsibleConnectionFailure(err.text())


def check(answer: Answer, what: str, where: str, hint: str = "") -> Answer:
    """The answer if its command succeeded, else an error in the tool's words."""
    if answer.ok:
        return answer
    if answer.missing:
        raise RdmaError(what, where, "%s is not on the host" % answer.command.split()[0], hint, code="NO_PROGRAM")
    words = " ".join(answer.text.split())
    raise RdmaError(what, where, "`%s` answered with return code %d: %s" % (answer.command, answer.rc, words[:600] or "no output"), hint)
