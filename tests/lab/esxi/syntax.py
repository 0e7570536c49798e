# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The grammar of the shell: text in, a tree of tuples out.

Own parser instead of bashlex: busybox ash scripts use `case`, `$(( ))`, functions and here-documents, which bashlex refuses.
A tree is immutable, so that a line which many hosts run is parsed once.
"""

from __future__ import annotations

import functools
from typing import Any

OPERATORS = ("&&", "||", ";;", "<<-", "<<", ">>", "<&", ">&", "<>", ">|", ";", "&", "|", "<", ">", "(", ")", "\n")
RESERVED = {"if", "then", "elif", "else", "fi", "for", "in", "do", "done", "while", "until", "case", "esac", "{", "}", "!"}
CLOSERS = {"then", "elif", "else", "fi", "do", "done", "esac", "}"}
BLANKS = " \t"


class SyntaxFault(Exception):
    """What ash prints after `sh: syntax error: `."""


class Parser:
    """Recursive descent over the characters; words become tuples of parts.

    Parts: ("text", s, quoted), ("var", name, op, word, quoted), ("cmd", tree, quoted), ("arith", word, quoted).
    """

    def __init__(self, text: str) -> None:
        self.text, self.at, self.pending = text, 0, []

    # ---- characters and tokens ------------------------------------------------------------------------------------

    def peek(self, size: int = 1) -> str:
        return self.text[self.at:self.at + size]

    def blanks(self) -> None:
        while self.at < len(self.text):
            if self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at] in BLANKS:
                self.at += 1
            elif self.text[self.at] == "#":
                while self.at < len(self.text) and self.text[self.at] != "\n":
                    self.at += 1
            else:
                return

    def operator(self) -> str:
        """The operator that stands here, without taking it."""
        self.blanks()
        for operator in OPERATORS:
            if self.text.startswith(operator, self.at):
                return operator
        return ""

    def take(self, operator: str) -> bool:
        if self.operator() != operator:
            return False
        self.at += len(operator)
        if operator == "\n":
            self.heredocs()
        return True

    def newlines(self) -> None:
        while self.take("\n"):
            pass

    def heredocs(self) -> None:
        """The bodies of here-documents start on the line after the one that named them."""
        for box, end, quoted, strip in self.pending:
            lines = []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line, self.at = self.text[self.at:stop], stop + 1
                if (line.lstrip("\t") if strip else line) == end:
                    break
                lines.append(line.lstrip("\t") if strip else line)
            body = "".join(line + "\n" for line in lines)
            box.append((("text", body, True),) if quoted else Parser(body).double_quoted(None))
        self.pending = []

    def reserved(self) -> str:
        """The reserved word that stands here, without taking it."""
        self.blanks()
        end = self.at
        while end < len(self.text) and (self.text[end].isalpha() or self.text[end] in "{}!"):
            end += 1
        word = self.text[self.at:end]
        if word in RESERVED and (end == len(self.text) or self.text[end] in BLANKS + ";&|()<>\n"):
            return word
        return ""

    def want(self, word: str) -> None:
        if self.reserved() != word:
            raise SyntaxFault(self.unexpected('(expecting "%s")' % word))
        self.at += len(word)

    def unexpected(self, more: str = "") -> str:
        self.blanks()
        here = self.operator() or self.reserved() or self.peek(20).split("\n")[0]
        name = {"": "end of file", "\n": "newline"}.get(here, '"%s"' % here)
        return ("unexpected %s %s" % (name, more)).strip()

    # ---- commands -------------------------------------------------------------------------------------------------

    def program(self) -> tuple:
        tree = self.sequence()
        self.newlines()
        self.blanks()
        if self.at < len(self.text):
            raise SyntaxFault(self.unexpected())
        return tree

    def sequence(self) -> tuple:
        """("list", ((and_or, background), ...))"""
        items = []
        while True:
            self.newlines()
            if self.at >= len(self.text) or self.operator() in (")", ";;") or self.reserved() in CLOSERS:
                break
            item = self.and_or()
            background = False
            if self.operator() in (";", "&"):
                background = self.take("&")
                if not background:
                    self.take(";")
            elif self.operator() == "\n":
                self.take("\n")
            elif self.at < len(self.text) and self.operator() not in (")", ";;") and self.reserved() not in CLOSERS:
                raise SyntaxFault(self.unexpected())
            items.append((item, background))
        if self.pending:
            self.heredocs()
        return ("list", tuple(items))

    def and_or(self) -> tuple:
        parts = [("", self.pipeline())]
        while self.operator() in ("&&", "||"):
            operator = self.operator()
            self.take(operator)
            self.newlines()
            parts.append((operator, self.pipeline()))
        return ("and_or", tuple(parts))

    def pipeline(self) -> tuple:
        negate = False
        while self.reserved() == "!":
            self.want("!")
            negate = not negate
        commands = [self.command()]
        while self.operator() == "|":
            self.take("|")
            self.newlines()
            commands.append(self.command())
        return ("pipe", negate, tuple(commands))

    def command(self) -> tuple:
        word = self.reserved()
        if self.operator() == "(":
            self.take("(")
            body = self.sequence()
            if not self.take(")"):
                raise SyntaxFault(self.unexpected('(expecting ")")'))
            return self.redirected(("subshell", body))
        compound = {"{": self.group, "if": self.branch, "while": self.loop, "until": self.loop, "for": self.each, "case": self.choice}.get(word)
        if compound:
            return self.redirected(compound())
        if word in CLOSERS or self.operator() not in ("", "<", ">", ">>", "<<", "<<-", "<&", ">&", "<>", ">|"):
            raise SyntaxFault(self.unexpected())
        return self.simple()

    def group(self) -> tuple:
        self.want("{")
        body = self.sequence()
        self.want("}")
        return body

    def branch(self) -> tuple:
        self.want("if")
        arms, other = [], None
        while True:
            test = self.sequence()
            self.want("then")
            arms.append((test, self.sequence()))
            word = self.reserved()
            self.at += len(word)
            if word == "elif":
                continue
            if word == "else":
                other = self.sequence()
                self.want("fi")
            elif word != "fi":
                raise SyntaxFault(self.unexpected('(expecting "fi")'))
            return ("if", tuple(arms), other)

    def loop(self) -> tuple:
        word = self.reserved()
        self.want(word)
        test = self.sequence()
        self.want("do")
        body = self.sequence()
        self.want("done")
        return ("while", word == "until", test, body)

    def each(self) -> tuple:
        self.want("for")
        name = self.name()
        self.newlines()
        words = None
        if self.reserved() == "in":
            self.want("in")
            words = []
            while self.operator() == "":
                self.blanks()
                if self.at >= len(self.text):
                    break
                words.append(self.word())
        self.take(";")
        self.newlines()
        self.want("do")
        body = self.sequence()
        self.want("done")
        return ("for", name, None if words is None else tuple(words), body)

    def choice(self) -> tuple:
        self.want("case")
        self.blanks()
        subject = self.word()
        self.newlines()
        self.want("in")
        arms = []
        while True:
            self.newlines()
            if self.reserved() == "esac":
                self.want("esac")
                return ("case", subject, tuple(arms))
            self.take("(")
            patterns = []
            while True:
                self.blanks()
                patterns.append(self.word())
                if not self.take("|"):
                    break
            if not self.take(")"):
                raise SyntaxFault(self.unexpected('(expecting ")")'))
            arms.append((tuple(patterns), self.sequence()))
            if not self.take(";;"):
                self.newlines()
                self.want("esac")
                return ("case", subject, tuple(arms))

    def redirected(self, body: tuple) -> tuple:
        found = []
        while True:
            redirection = self.redirection()
            if redirection is None:
                return ("with", body, tuple(found)) if found else body
            found.append(redirection)

    def redirection(self) -> tuple | None:
        """(fd, operator, word) if one stands here."""
        self.blanks()
        end = self.at
        while end < len(self.text) and self.text[end].isdigit():
            end += 1
        if end == len(self.text) or self.text[end] not in "<>":
            return None
        fd = self.text[self.at:end]
        self.at = end
        operator = self.operator()
        self.at += len(operator)
        self.blanks()
        if operator in ("<<", "<<-"):
            start = self.at
            word = self.word()
            end_word = "".join(part[1] for part in word if part[0] == "text")
            box: list = []
            self.pending.append((box, end_word, any(char in "'\"\\" for char in self.text[start:self.at]), operator == "<<-"))
            return (int(fd or 0), "<<", box)
        word = self.word()
        if not word:
            raise SyntaxFault(self.unexpected())
        return (int(fd) if fd else (0 if operator[0] == "<" else 1), operator, word)

    def simple(self) -> tuple:
        """("simple", assignments, words, redirections), or a function definition."""
        assignments, words, redirections = [], [], []
        while True:
            self.blanks()
            redirection = self.redirection()
            if redirection is not None:
                redirections.append(redirection)
                continue
            if self.at >= len(self.text) or (self.operator() and self.peek() not in "<>"):
                break
            name = self.assignment() if not words else ""
            if name:
                self.at += len(name) + 1
                assignments.append((name, self.word()))
                continue
            word = self.word()
            words.append(word)
            if len(words) == 1 and not assignments and self.operator() == "(" and len(word) == 1 and word[0][0] == "text":
                self.take("(")
                if not self.take(")"):
                    raise SyntaxFault(self.unexpected())
                self.newlines()
                return ("function", word[0][1], self.command())
        return ("simple", tuple(assignments), tuple(words), tuple(redirections))

    # ---- words ----------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.blanks()
        end = self.at
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        name, self.at = self.text[self.at:end], end
        if not name or name[0].isdigit():
            raise SyntaxFault("bad for loop variable")
        return name

    def assignment(self) -> str:
        end = self.at
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        name = self.text[self.at:end]
        return name if name and not name[0].isdigit() and self.text[end:end + 1] == "=" else ""

    def word(self, stop: str = BLANKS + "\n;&|<>()") -> tuple:
        """The parts up to an unquoted character of stop."""
        parts: list[tuple] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in stop:
                break
            if char == "\\":
                follower = self.text[self.at + 1:self.at + 2]
                self.at += 2
                if follower != "\n":
                    parts.append(("text", follower, True))
            elif char == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise SyntaxFault("unterminated quoted string")
                parts.append(("text", self.text[self.at + 1:end], True))
                self.at = end + 1
            elif char == '"':
                self.at += 1
                inner = self.double_quoted('"')
                parts.extend(inner or (("text", "", True),))
            elif char in "$`":
                parts.append(self.expansion(False))
            else:
                start = self.at
                while self.at < len(self.text) and self.text[self.at] not in stop and self.text[self.at] not in "\\'\"$`":
                    self.at += 1
                parts.append(("text", self.text[start:self.at], False))
        return tuple(parts)

    def double_quoted(self, end: str | None) -> tuple:
        parts: list[tuple] = []
        text = ""
        while True:
            if self.at >= len(self.text):
                if end is not None:
                    raise SyntaxFault("unterminated quoted string")
                break
            char = self.text[self.at]
            if char == end:
                self.at += 1
                break
            if char == "\\" and self.text[self.at + 1:self.at + 2] in ("$", "`", '"', "\\", "\n"):
                follower = self.text[self.at + 1]
                text += "" if follower == "\n" else ("\\" + follower if follower == '"' and end is None else follower)
                self.at += 2
            elif char in "$`":
                if text:
                    parts.append(("text", text, True))
                    text = ""
                parts.append(self.expansion(True))
            else:
                text += char
                self.at += 1
        if text:
            parts.append(("text", text, True))
        return tuple(parts)

    def expansion(self, quoted: bool) -> tuple:
        if self.peek() == "`":
            return self.backquoted(quoted)
        if self.peek(3) == "$((":
            end, depth = self.at + 3, 0
            while end < len(self.text):
                if self.text[end] == "(":
                    depth += 1
                elif self.text[end] == ")":
                    if depth == 0:
                        break
                    depth -= 1
                end += 1
            if self.text[end:end + 2] == "))":
                inner = Parser(self.text[self.at + 3:end]).double_quoted(None)
                self.at = end + 2
                return ("arith", inner, quoted)
        if self.peek(2) == "$(":
            self.at += 2
            tree = self.sequence()
            if not self.take(")"):
                raise SyntaxFault(self.unexpected('(expecting ")")'))
            return ("cmd", tree, quoted)
        if self.peek(2) == "${":
            return self.braced(quoted)
        self.at += 1
        char = self.peek()
        if char and char in "?#$!@*-0123456789":
            self.at += 1
            return ("var", char, "", (), quoted)
        end = self.at
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        name, self.at = self.text[self.at:end], end
        return ("var", name, "", (), quoted) if name else ("text", "$", True)

    def backquoted(self, quoted: bool) -> tuple:
        self.at += 1
        inner = ""
        while True:
            if self.at >= len(self.text):
                raise SyntaxFault("EOF in backquote substitution")
            char = self.text[self.at]
            if char == "`":
                self.at += 1
                return ("cmd", Parser(inner).program(), quoted)
            if char == "\\" and self.text[self.at + 1:self.at + 2] in ("$", "`", "\\") + (('"',) if quoted else ()):
                self.at += 1
                char = self.text[self.at]
            inner += char
            self.at += 1

    def braced(self, quoted: bool) -> tuple:
        """${name}, ${#name}, ${name<op>word} with op one of - :- = := + :+ ? :? # ## % %%."""
        self.at += 2
        if self.peek() == "#" and self.peek(2) != "#}":
            self.at += 1
            name = self.parameter()
            operator, word = "length", ()
        else:
            name, operator, word = self.parameter(), "", ()
            for candidate in (":-", ":=", ":+", ":?", "##", "%%", "-", "=", "+", "?", "#", "%"):
                if self.text.startswith(candidate, self.at):
                    operator = candidate
                    self.at += len(candidate)
                    word = self.double_quoted_until_brace() if quoted else self.word("}")
                    break
        if self.peek() != "}":
            raise SyntaxFault("bad substitution")
        self.at += 1
        return ("var", name, operator, word, quoted)

    def double_quoted_until_brace(self) -> tuple:
        start, depth, at = self.at, 0, self.at
        while at < len(self.text) and not (self.text[at] == "}" and depth == 0):
            if self.text[at] == "\\":
                at += 1
            elif self.text.startswith("${", at):
                depth += 1
            elif self.text[at] == "}":
                depth -= 1
            at += 1
        self.at = at
        return Parser(self.text[start:at].replace('"', "")).double_quoted(None)

    def parameter(self) -> str:
        if self.peek() and self.peek() in "?#$!@*-":
            self.at += 1
            return self.text[self.at - 1]
        end = self.at
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        name, self.at = self.text[self.at:end], end
        if not name:
            raise SyntaxFault("bad substitution")
        return name


@functools.lru_cache(maxsize=512)
def parse(text: str) -> Any:
    return Parser(text).program()
