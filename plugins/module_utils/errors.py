# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one error type of the collection.

Everything below a module's entry point raises RdmaError; only the wrapper of that entry point
(plugin_utils/action.py on the controller, module_utils/guest.py on a guest) turns it into a failed result.
"""


class RdmaError(Exception):
    """Something could not be done.

    what: what could not be done ("set LINK_TYPE_P1")
    where: the host and the thing ("esxi-03, card MT_0000000008 at 0000:3b:00.0")
    why: the reason, in the tool's words where a tool spoke
    hint: what to try next
    code: a short upper-case word for playbooks to branch on, such as REBOOT_NOT_ALLOWED
    data: plain data that goes into the failed result (outputs of both ends, several findings)
    """

    def __init__(self, what, where="", why="", hint="", code="", data=None):
        self.what, self.where, self.why, self.hint, self.code = what, where, why, hint, code
        self.data = dict(data or {})
        super(RdmaError, self).__init__(self.text())

    def text(self):
        """One sentence: Cannot WHAT on WHERE: WHY; try: HINT."""
        text = "Cannot %s" % self.what
        if self.where:
            text += " on %s" % self.where
        if self.why:
            text += ": %s" % self.why.strip().rstrip(".")
        if self.hint:
            text += "; try: %s" % self.hint.strip().rstrip(".")
        return text + "."

    def result(self):
        """The keys that a failed task result carries."""
        out = dict(self.data)
        out.update(msg=self.text(), error=dict(what=self.what, where=self.where, why=self.why, hint=self.hint, code=self.code))
        return out


class ParseError(RdmaError):
    """Text that is not in the grammar of the tool it was said to come from."""

    def __init__(self, tool, why, text=""):
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        super(ParseError, self).__init__(
            "read the output of %s" % tool, why="%s%s" % (why, ": %r" % first[:120] if first else " (no output)"),
            hint="check that the text is the whole output of %s and nothing else" % tool, code="PARSE")
