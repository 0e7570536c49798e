# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of an ESXi shell: busybox applets here, the rest from their own files; PROGRAMS by name, PATHS by path."""

from __future__ import annotations

import datetime
import errno
import hashlib
import posixpath
import re
from typing import Callable

from . import esxcli, mft, mft_plugin, vmkernel
from .sh import BUILTINS, Buffer, Io, Reader, Shell, match_glob

DATE = "%a %b %e %H:%M:%S UTC %Y"


class Usage(Exception):
    """An option that the applet does not know."""


def options(args: list[str], flags: str, valued: str = "") -> tuple[dict[str, str], list[str]]:
    """Short options as busybox takes them (joined, anywhere): ({option: value}, operands)."""
    found: dict[str, str] = {}
    rest, queue = [], list(args[1:])
    while queue:
        item = queue.pop(0)
        if item == "--":
            rest += queue
            break
        if not item.startswith("-") or item == "-":
            rest.append(item)
            continue
        body = item[1:]
        while body:
            letter, body = body[0], body[1:]
            if letter in valued:
                value = body if body else (queue.pop(0) if queue else "")
                found[letter] = found[letter] + "\n" + value if letter in found and letter == "e" else value
                body = ""
            elif letter in flags:
                found[letter] = ""
            else:
                raise Usage("invalid option -- '%s'" % letter)
    return found, rest


def applet(flags: str = "", valued: str = "") -> Callable:
    """A program with parsed options: function(shell, options, operands, io) -> exit code."""
    def decorate(function: Callable) -> Callable:
        def run(shell: Shell, args: list[str], io: Io) -> int:
            try:
                found, rest = options(args, flags, valued)
            except Usage as fault:
                io.err.write("%s: %s\n" % (args[0], fault))
                return 1
            return function(shell, found, rest, io) or 0
        return run
    return decorate


def inputs(shell: Shell, name: str, operands: list[str], io: Io) -> tuple[list[tuple[str, bytes]], int]:
    """The contents a filter works on: its files, or standard input."""
    if not operands:
        return [("-", io.stdin.read())], 0
    out, rc = [], 0
    for operand in operands:
        if operand == "-":
            out.append(("-", io.stdin.read()))
            continue
        try:
            out.append((operand, shell.fs.read(shell.path(operand))))
        except OSError as fault:
            verb = "can't open '%s'" % operand if fault.errno == errno.ENOENT else "read error: '%s'" % operand
            io.err.write("%s: %s: %s\n" % (name, verb, fault.strerror) if name != "grep" else "grep: %s: %s\n" % (operand, fault.strerror))
            rc = 1
    return out, rc


def text_lines(content: bytes) -> list[str]:
    text = content.decode("utf-8", "surrogateescape")
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []


# ---- text ---------------------------------------------------------------------------------------------------------

def escapes(text: str) -> str:
    table = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}

    def one(match: re.Match) -> str:
        body = match.group(1)
        if body[0] in "01234567":
            return chr(int(body, 8) & 255)
        if body[0] == "x":
            return chr(int(body[1:], 16))
        return table.get(body, "\\" + body)
    return re.sub(r"\\(0?[0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", one, text, flags=re.S)


def echo(shell: Shell, args: list[str], io: Io) -> int:
    rest, newline, special = args[1:], True, False
    while rest and re.match(r"^-[neE]+$", rest[0]):
        newline = newline and "n" not in rest[0]
        special = special or "e" in rest[0]
        rest = rest[1:]
    text = " ".join(rest)
    io.out.write((escapes(text) if special else text) + ("\n" if newline else ""))
    return 0


def printf(shell: Shell, args: list[str], io: Io) -> int:
    if len(args) < 2:
        io.err.write("printf: usage: printf FORMAT [ARG]...\n")
        return 1
    values, out, first = list(args[2:]), "", True
    while first or values:
        first = False
        before = len(values)

        def one(match: re.Match) -> str:
            kind = match.group(2)
            if kind == "%":
                return "%"
            value = values.pop(0) if values else ""
            if kind in "di":
                return (match.group(1) + "d") % int(value or 0, 0)
            if kind in "xXuo":
                return (match.group(1) + kind.replace("u", "d")) % int(value or 0, 0)
            if kind == "c":
                return value[:1]
            return (match.group(1) + "s") % (escapes(value) if kind == "b" else value)
        out += re.sub(r"(%[-+ 0#]*\d*(?:\.\d+)?)([sdixXuocb%])", one, escapes(args[1]))
        if len(values) == before:
            break
    io.out.write(out)
    return 0


@applet("nbeEvtA")
def cat(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    contents, rc = inputs(shell, "cat", rest, io)
    for dummy, content in contents:
        io.out.write(content)
    return rc


CLASSES = {"space": r"\s", "digit": "0-9", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "blank": r" \t", "xdigit": "0-9a-fA-F",
           "punct": r"!-/:-@\[-`{-~"}


def expression(pattern: str, extended: bool) -> str:
    """A POSIX expression as Python's: in a basic one the operators need a backslash."""
    out, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if char == "[":
            end = pattern.find("]", at + 2 + (pattern[at + 1:at + 2] == "^"))
            while end > 0 and re.search(r"\[:\w+:$", pattern[at:end]) is not None:
                end = pattern.find("]", end + 1)
            if end > 0:
                out += "[%s]" % re.sub(r"\[:(\w+):\]|([\[\\])", lambda match: CLASSES.get(match.group(1), "") if match.group(1) else "\\" + match.group(2),
                                       pattern[at + 1:end])
                at = end + 1
                continue
        if char == "\\" and at + 1 < len(pattern):
            follower = pattern[at + 1]
            at += 2
            if not extended and follower in "(){}|+?":
                out += follower
            elif follower in "<>":
                out += r"\b"
            else:
                out += "\\" + follower
            continue
        if not extended and char in "(){}|+?":
            out += "\\" + char
        elif not extended and char == "*" and (not out or out.endswith("(") or out.endswith("|")):
            out += r"\*"
        else:
            out += char
        at += 1
    return out


def compiled(name: str, pattern: str, extended: bool, io: Io, flags: int = 0) -> re.Pattern | None:
    try:
        return re.compile(expression(pattern, extended), flags)
    except re.error as fault:
        io.err.write("%s: bad regex '%s': %s\n" % (name, pattern, fault))
        return None


@applet("EFivcqnowxlLhHsr", "eABCm")
def grep(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    if "e" in found:
        patterns = found["e"].split("\n")
    elif rest:
        patterns, rest = rest[0].split("\n"), rest[1:]
    else:
        io.err.write("grep: usage: grep [-HhnlLoqvsrRiwFE] [-m N] [-A|B|C N] { PATTERN | -e PATTERN... } [FILE]...\n")
        return 2
    texts = []
    for pattern in patterns:
        text = re.escape(pattern) if "F" in found else expression(pattern, "E" in found)
        text = r"\b(?:%s)\b" % text if "w" in found else text
        texts.append("^(?:%s)$" % text if "x" in found else text)
    try:
        search = re.compile("|".join("(?:%s)" % text for text in texts), re.I if "i" in found else 0)
    except re.error as fault:
        io.err.write("grep: bad regex '%s': %s\n" % (patterns[0], fault))
        return 2
    if "r" in found:
        rest = [path for operand in rest or ["."] for path in walk(shell, operand)]
    errors = Io(io.stdin, io.out, Buffer()) if "s" in found else io
    contents, bad = inputs(shell, "grep", rest, errors)
    named = ("H" in found or len(rest) > 1 or "r" in found) and "h" not in found
    hits = 0
    before, after = int(found.get("B", found.get("C", "0"))), int(found.get("A", found.get("C", "0")))
    for name, content in contents:
        count, lines = 0, text_lines(content)
        shown: dict[int, bool] = {}
        for number, line in enumerate(lines):
            if bool(search.search(line)) == ("v" in found) or "m" in found and count >= int(found["m"]):
                continue
            count += 1
            for near in range(max(0, number - before), min(len(lines), number + after + 1)):
                shown[near] = shown.get(near, False) or near == number
        hits += count
        if "q" in found:
            continue
        if "l" in found or "L" in found:
            if bool(count) == ("l" in found):
                io.out.write(name + "\n")
            continue
        prefix = name + ":" if named else ""
        if "c" in found:
            io.out.write("%s%d\n" % (prefix, count))
            continue
        for number in sorted(shown):
            place = "%d:" % (number + 1) if "n" in found else ""
            if "o" in found:
                for match in search.finditer(lines[number]):
                    io.out.write("%s%s%s\n" % (prefix, place, match.group(0)))
            else:
                io.out.write("%s%s%s\n" % (prefix, place, lines[number]))
    return 0 if hits else 2 if bad else 1


def egrep(shell: Shell, args: list[str], io: Io) -> int:
    return shell.program(["grep", "-E"] + args[1:], io)


def counted(name: str, shell: Shell, args: list[str], io: Io) -> int:
    args = [re.sub(r"^-(\d+)$", r"-n\1", item) for item in args]
    try:
        found, rest = options(args, "qvf", "nc")
    except Usage as fault:
        io.err.write("%s: %s\n" % (name, fault))
        return 1
    contents, rc = inputs(shell, name, rest, io)
    for index, (title, content) in enumerate(contents):
        if len(contents) > 1 and "q" not in found:
            io.out.write("%s==> %s <==\n" % ("\n" if index else "", title))
        if "c" in found:
            size = int(found["c"])
            io.out.write(content[:size] if name == "head" else content[-size:])
            continue
        value = found.get("n", "10")
        lines, count = content.splitlines(True), abs(int(value))
        if name == "head":
            io.out.write(b"".join(lines[:-count] if value.startswith("-") else lines[:count]))
        else:
            io.out.write(b"".join(lines[count - 1:] if value.startswith("+") else lines[-count:] if count else []))
    return rc


def head(shell: Shell, args: list[str], io: Io) -> int:
    return counted("head", shell, args, io)


def tail(shell: Shell, args: list[str], io: Io) -> int:
    return counted("tail", shell, args, io)


@applet("lwcL")
def wc(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    contents, rc = inputs(shell, "wc", rest, io)
    which = [letter for letter in "lwc" if letter in found] or list("lwc")
    total = [0, 0, 0]

    def row(numbers: list[int], name: str) -> None:
        cells = [numbers["lwc".index(letter)] for letter in which]
        text = str(cells[0]) if len(cells) == 1 else " ".join("%9d" % cell for cell in cells)
        io.out.write("%s%s\n" % (text, "" if name == "-" else " " + name))
    for name, content in contents:
        numbers = [content.count(b"\n"), len(content.split()), len(content)]
        total = [a + b for a, b in zip(total, numbers)]
        row(numbers, name)
    if len(contents) > 1:
        row(total, "total")
    return rc


def ranges(text: str, length: int) -> list[int]:
    out = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = int(first or 1)
        end = (int(last) if last else length) if dash else start
        out += range(start, min(end, length) + 1)
    return sorted(set(out))


@applet("sn", "dfcb")
def cut(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    contents, rc = inputs(shell, "cut", rest, io)
    for dummy, content in contents:
        for line in text_lines(content):
            if "f" in found:
                separator = found.get("d", "\t")
                cells = line.split(separator)
                if len(cells) == 1:
                    io.out.write("" if "s" in found else line + "\n")
                else:
                    io.out.write(separator.join(cells[n - 1] for n in ranges(found["f"], len(cells))) + "\n")
            else:
                io.out.write("".join(line[n - 1] for n in ranges(found.get("c", found.get("b", "1-")), len(line))) + "\n")
    return rc


def characters(text: str) -> list[str]:
    for name, value in (("[:space:]", " \t\n\r\v\f"), ("[:digit:]", "0-9"), ("[:upper:]", "A-Z"), ("[:lower:]", "a-z"), ("[:alpha:]", "A-Za-z"),
                        ("[:alnum:]", "A-Za-z0-9")):
        text = text.replace(name, value)
    text = escapes(text)
    return list(re.sub(r"(.)-(.)", lambda match: "".join(chr(n) for n in range(ord(match.group(1)), ord(match.group(2)) + 1)), text, flags=re.S))


@applet("dsc")
def tr(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    text = io.stdin.read().decode("utf-8", "surrogateescape")
    first = characters(rest[0]) if rest else []
    second = characters(rest[1]) if len(rest) > 1 else []
    inside = (lambda char: char not in first) if "c" in found else (lambda char: char in first)
    out: list[str] = []
    for char in text:
        if inside(char):
            if "d" in found:
                continue
            if second:
                index = first.index(char) if char in first else len(second) - 1
                char = second[min(index, len(second) - 1)]
            if "s" in found and out and out[-1] == char and (not second or char in second):
                continue
        out.append(char)
    io.out.write("".join(out))
    return 0


@applet("rnufb", "kt")
def sort(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    contents, rc = inputs(shell, "sort", rest, io)
    lines = [line for dummy, content in contents for line in text_lines(content)]

    def key(line: str) -> tuple:
        part = line
        if "k" in found:
            first, dummy, last = found["k"].partition(",")
            cells = line.split(found.get("t"))
            start, end = (int(re.sub(r"\D.*", "", text) or 0) for text in (first, last))
            part = (found.get("t") or " ").join(cells[start - 1:end or None])
        number = re.match(r"\s*(-?\d+(?:\.\d+)?)", part)
        numeric = "n" in found or found.get("k", "").endswith("n")
        return (float(number.group(1)) if number else 0.0, "", line) if numeric else (0.0, part, line)
    lines.sort(key=key, reverse="r" in found)
    if "u" in found:
        lines = list(dict.fromkeys(lines))
    io.out.write("".join(line + "\n" for line in lines))
    return rc


@applet("cdu")
def uniq(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    contents, rc = inputs(shell, "uniq", rest[:1], io)
    groups: list[list] = []
    for line in text_lines(contents[0][1]) if contents else []:
        if groups and groups[-1][0] == line:
            groups[-1][1] += 1
        else:
            groups.append([line, 1])
    for line, count in groups:
        if ("d" in found and count == 1) or ("u" in found and count > 1):
            continue
        io.out.write("%7d %s\n" % (count, line) if "c" in found else line + "\n")
    return rc


# ---- sed and a little awk -----------------------------------------------------------------------------------------

SED = re.compile(r"\s*;?\s*")


class Sed:
    """s///[gipN], y, d, p, q, =, addresses (N, $, /re/, ranges, !) and -n -e -E -i."""

    def __init__(self, script: str, extended: bool) -> None:
        self.script, self.at, self.extended, self.commands = script, 0, extended, []
        while True:
            self.at = SED.match(self.script, self.at).end()
            if self.at >= len(self.script):
                return
            first = self.address()
            second = None
            if first is not None and self.script[self.at:self.at + 1] == ",":
                self.at += 1
                second = self.address()
            negate = self.script[self.at:self.at + 1] == "!"
            self.at += negate
            name = self.script[self.at:self.at + 1]
            self.at += 1
            if name == "s":
                mark = self.script[self.at]
                self.at += 1
                pattern, replacement = self.until(mark), self.until(mark)
                flags = re.match(r"[gipI0-9]*", self.script[self.at:]).group(0)
                self.at += len(flags)
                self.commands.append((first, second, negate, "s", (self.compile(pattern, "i" in flags or "I" in flags), replaced(replacement), flags)))
            elif name in tuple("dpq=D"):
                self.commands.append((first, second, negate, name, None))
            else:
                raise ValueError("unsupported command %s" % name)

    def compile(self, pattern: str, fold: bool) -> re.Pattern:
        return re.compile(expression(pattern, self.extended), re.I if fold else 0)

    def until(self, mark: str) -> str:
        out = ""
        while self.at < len(self.script) and self.script[self.at] != mark:
            if self.script[self.at] == "\\" and self.at + 1 < len(self.script):
                follower = self.script[self.at + 1]
                out += follower if follower == mark else "\\" + follower
                self.at += 2
            else:
                out += self.script[self.at]
                self.at += 1
        if self.at >= len(self.script):
            raise ValueError("unmatched '%s'" % mark)
        self.at += 1
        return out

    def address(self) -> object:
        match = re.match(r"\d+|\$", self.script[self.at:])
        if match:
            self.at += match.end()
            return match.group(0) if match.group(0) == "$" else int(match.group(0))
        if self.script[self.at:self.at + 1] == "/":
            self.at += 1
            return self.compile(self.until("/"), False)
        return None

    def run(self, lines: list[str], quiet: bool) -> str:
        out, active = [], [False] * len(self.commands)

        def hit(address: object, number: int, line: str) -> bool:
            if isinstance(address, int):
                return number == address
            return number == len(lines) if address == "$" else bool(address.search(line))
        for number, line in enumerate(lines, 1):
            deleted = quit_now = False
            for index, (first, second, negate, name, value) in enumerate(self.commands):
                if first is None:
                    chosen = True
                elif second is None:
                    chosen = hit(first, number, line)
                elif active[index]:
                    chosen = True
                    active[index] = not hit(second, number, line)
                else:
                    chosen = hit(first, number, line)
                    active[index] = chosen and not (isinstance(second, int) and second <= number)
                if chosen == negate:
                    continue
                if name == "s":
                    line, count = substituted(value, line)
                    if "p" in value[2] and count:
                        out.append(line)
                elif name in "dD":
                    deleted = True
                    break
                elif name == "p":
                    out.append(line)
                elif name == "=":
                    out.append(str(number))
                elif name == "q":
                    quit_now = True
                    break
            if not deleted and not quiet:
                out.append(line)
            if quit_now:
                break
        return "".join(line + "\n" for line in out)


def substituted(command: tuple, line: str) -> tuple[str, int]:
    """s/// on one line: (new line, number of replacements)."""
    pattern, replacement, flags = command
    if "g" in flags:
        return pattern.subn(replacement, line)
    nth = int(re.sub(r"\D", "", flags) or 1)
    for number, match in enumerate(pattern.finditer(line), 1):
        if number == nth:
            return line[:match.start()] + match.expand(replacement) + line[match.end():], 1
    return line, 0


def replaced(text: str) -> str:
    """A sed replacement as a template of re: & is the whole match."""
    out, at = "", 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            follower = text[at + 1]
            out += "\\g<%s>" % follower if follower.isdigit() else {"n": "\n", "t": "\t", "&": "&"}.get(follower, "\\\\" if follower == "\\" else follower)
            at += 2
        else:
            out += "\\g<0>" if text[at] == "&" else text[at].replace("\\", "\\\\")
            at += 1
    return out


@applet("nErsi", "e")
def sed(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    if "e" in found:
        script = found["e"]
    elif rest:
        script, rest = rest[0], rest[1:]
    else:
        script = ""
    try:
        program = Sed(script.replace("\n", ";"), "E" in found or "r" in found)
    except (ValueError, re.error, IndexError) as fault:
        io.err.write("sed: %s\n" % fault)
        return 1
    contents, rc = inputs(shell, "sed", rest, io)
    for name, content in contents:
        text = program.run(text_lines(content), "n" in found)
        if "i" in found and name != "-":
            shell.fs.write(shell.path(name), text.encode("utf-8", "surrogateescape"))
        else:
            io.out.write(text)
    return rc


AWK_RULE = re.compile(r"\s*(BEGIN|END|/(?:\\.|[^/\\])*/|!/(?:\\.|[^/\\])*/|"
                      r"(?:NR|NF|\$\w+)\s*(?:==|!=|>=|<=|>|<|~|!~)\s*(?:\"(?:\\.|[^\"])*\"|/(?:\\.|[^/])*/|\d+))?\s*(?:\{([^}]*)\})?\s*;?")


@applet("", "Fv")
def awk(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    """One-liners: a pattern (/re/, $2 == "x", NR > 1, BEGIN, END) and print with fields, strings, NR and NF."""
    source = rest[0] if rest else ""
    rules, at = [], 0
    while at < len(source.rstrip()):
        match = AWK_RULE.match(source, at)
        if not match or match.end() == at or (match.group(1) is None and match.group(2) is None):
            io.err.write("awk: cmd. line:1: Unexpected token\n")
            return 1
        rules.append((match.group(1) or "", match.group(2) if match.group(2) is not None else "print"))
        at = match.end()
    separator = escapes(found["F"]) if "F" in found else None
    contents, rc = inputs(shell, "awk", rest[1:], io)

    def value(word: str, cells: list[str], line: str, number: int) -> str:
        if word.startswith('"'):
            return escapes(word[1:-1])
        if word == "NR":
            return str(number)
        if word == "NF":
            return str(len(cells))
        if word.startswith("$"):
            index = len(cells) if word[1:] == "NF" else int(word[1:])
            return line if index == 0 else cells[index - 1] if index <= len(cells) else ""
        return word if word.isdigit() else ""

    def fits(pattern: str, cells: list[str], line: str, number: int) -> bool:
        if not pattern:
            return True
        if pattern.startswith(("/", "!/")):
            return bool(re.search(expression(pattern.strip("!")[1:-1], True), line)) != pattern.startswith("!")
        left, operator, right = re.match(r"(\S+?)\s*(==|!=|>=|<=|!~|>|<|~)\s*(.*)$", pattern).groups()
        left = value(left, cells, line, number)
        if operator.endswith("~"):
            return bool(re.search(expression(right.strip('/"'), True), left)) == (operator == "~")
        right = value(right, cells, line, number)
        if re.match(r"^-?\d+$", left) and re.match(r"^-?\d+$", right):
            left, right = int(left), int(right)
        return {"==": left == right, "!=": left != right, ">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}[operator]

    def act(action: str, cells: list[str], line: str, number: int) -> None:
        for statement in re.split(r"[;\n]", action):
            match = re.match(r"^\s*print\b\s*(.*)$", statement)
            if match:
                groups = re.findall(r'(?:"(?:\\.|[^"])*"|\$?\w+|\s+)+', match.group(1)) if match.group(1) else []
                out = ["".join(value(word, cells, line, number) for word in re.findall(r'"(?:\\.|[^"])*"|\$?\w+', group)) for group in groups]
                io.out.write((" ".join(out) if groups else line) + "\n")
    number = 0
    lines = [line for dummy, content in contents for line in text_lines(content)]
    for pattern, action in rules:
        if pattern == "BEGIN":
            act(action, [], "", 0)
    for number, line in enumerate(lines, 1):
        cells = line.split() if separator in (None, " ") else re.split(expression(separator, True), line) if len(separator) > 1 else line.split(separator)
        for pattern, action in rules:
            if pattern in ("BEGIN", "END"):
                continue
            if fits(pattern, cells, line, number):
                if re.search(r"\bexit\b", action):
                    act(action.split("exit")[0], cells, line, number)
                    return rc
                act(action, cells, line, number)
    for pattern, action in rules:
        if pattern == "END":
            act(action, [], "", number)
    return rc


# ---- files --------------------------------------------------------------------------------------------------------

def walk(shell: Shell, operand: str) -> list[str]:
    """The operand and all below it."""
    path = shell.path(operand)
    if not shell.fs.is_dir(path):
        return [operand] if shell.fs.exists(path) else []
    out = []
    for name in shell.fs.listing(path):
        out += walk(shell, posixpath.join(operand, name))
    return out or []


@applet("laA1hrtdFLRS")
def ls(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    rc, groups = 0, []
    for operand in rest or ["."]:
        path = shell.path(operand)
        if shell.fs.is_dir(path) and "d" not in found:
            groups.append((operand, [(name, posixpath.join(path, name)) for name in shell.fs.listing(path)]))
        elif shell.fs.exists(path):
            groups.append(("", [(operand, path)]))
        else:
            io.err.write("ls: %s: No such file or directory\n" % operand)
            rc = 1
    for index, (title, entries) in enumerate(groups):
        if len(groups) > 1 and title:
            io.out.write("%s%s:\n" % ("\n" if index else "", title))
        if "l" in found and title:
            io.out.write("total %d\n" % (4 * len(entries)))
        for name, path in entries:
            if "l" in found:
                directory = shell.fs.is_dir(path)
                size = 512 if directory else len(shell.fs.find(path) or b"")
                moment = shell.host.boot_time.strftime("%b %e %H:%M")
                io.out.write("%s    1 root     root     %9d %s %s\n" % ("drwxr-xr-x" if directory else "-rw-r--r--", size, moment, name))
            else:
                io.out.write(name + "\n")
    return rc


@applet("rfvi")
def rm(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    rc = 0
    for operand in rest:
        path = shell.path(operand)
        try:
            if shell.fs.is_dir(path) and "r" not in found:
                io.err.write("rm: '%s' is a directory\n" % operand)
                rc = 1
                continue
            shell.fs.remove(path)
        except OSError as fault:
            if "f" in found and fault.errno == errno.ENOENT:
                continue
            io.err.write("rm: can't remove '%s': %s\n" % (operand, fault.strerror))
            rc = 1
    return rc


@applet("pv", "m")
def mkdir(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    rc = 0
    for operand in rest:
        path = shell.path(operand)
        try:
            if "p" in found:
                whole = ""
                for part in path.strip("/").split("/"):
                    whole += "/" + part
                    if not shell.fs.is_dir(whole):
                        shell.fs.mkdir(whole)
            else:
                shell.fs.mkdir(path)
        except OSError as fault:
            io.err.write("mkdir: can't create directory '%s': %s\n" % (operand, fault.strerror))
            rc = 1
    return rc


@applet("")
def rmdir(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    rc = 0
    for operand in rest:
        path = shell.path(operand)
        text = "No such file or directory" if not shell.fs.exists(path) else "Directory not empty" if shell.fs.is_dir(path) and shell.fs.listing(path) else ""
        if text:
            io.err.write("rmdir: '%s': %s\n" % (operand, text))
            rc = 1
        else:
            shell.fs.remove(path)
    return rc


@applet("cam", "drt")
def touch(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    rc = 0
    for operand in rest:
        try:
            if not shell.fs.exists(shell.path(operand)) and "c" not in found:
                shell.fs.write(shell.path(operand), b"")
        except OSError as fault:
            io.err.write("touch: %s: %s\n" % (operand, fault.strerror))
            rc = 1
    return rc


def copied(name: str, shell: Shell, rest: list[str], io: Io, recursive: bool, remove: bool) -> int:
    if len(rest) < 2:
        io.err.write("%s: missing operand\n" % name)
        return 1
    rc, target = 0, shell.path(rest[-1])
    for operand in rest[:-1]:
        source = shell.path(operand)
        into = posixpath.join(target, posixpath.basename(source)) if shell.fs.is_dir(target) else target
        try:
            if shell.fs.is_dir(source):
                if not recursive:
                    io.err.write("%s: omitting directory '%s'\n" % (name, operand))
                    rc = 1
                    continue
                if not shell.fs.is_dir(into):
                    shell.fs.mkdir(into)
                for path in walk(shell, source):
                    shell.fs.write(posixpath.join(into, posixpath.relpath(path, source)), shell.fs.read(path))
            else:
                shell.fs.write(into, shell.fs.read(source))
            if remove:
                shell.fs.remove(source)
        except OSError as fault:
            if fault.errno == errno.ENOSPC:
                io.err.write("%s: write error: %s\n" % (name, fault.strerror))
            elif fault.errno == errno.ENOENT and fault.filename == source:
                io.err.write("%s: can't stat '%s': %s\n" % (name, operand, fault.strerror))
            else:
                io.err.write("%s: can't create '%s': %s\n" % (name, rest[-1], fault.strerror))
            rc = 1
    return rc


@applet("rRafpv")
def cp(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    return copied("cp", shell, rest, io, bool({"r", "R", "a"} & set(found)), False)


@applet("fiv")
def mv(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    return copied("mv", shell, rest, io, True, True)


def digest(kind: str) -> Callable:
    @applet("csw")
    def run(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
        contents, rc = inputs(shell, kind + "sum", rest, io)
        for name, content in contents:
            if "c" not in found:
                io.out.write("%s  %s\n" % (hashlib.new(kind, content).hexdigest(), name))
                continue
            for line in text_lines(content):
                wanted, dummy, path = line.partition("  ")
                good = hashlib.new(kind, shell.fs.find(shell.path(path)) or b"").hexdigest() == wanted.lower()
                if "s" not in found:
                    io.out.write("%s: %s\n" % (path, "OK" if good else "FAILED"))
                rc = rc if good else 1
        return rc
    return run


@applet("Ltf", "c")
def stat(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    rc = 0
    for operand in rest:
        path = shell.path(operand)
        if not shell.fs.exists(path):
            io.err.write("stat: can't stat '%s': No such file or directory\n" % operand)
            rc = 1
            continue
        directory = shell.fs.is_dir(path)
        size = 512 if directory else len(shell.fs.find(path) or b"")
        seconds = int(shell.host.boot_time.timestamp())
        cells = {"s": str(size), "n": operand, "F": "directory" if directory else "regular file", "a": "755" if directory else "644",
                 "A": "drwxr-xr-x" if directory else "-rw-r--r--",
                 "U": "root", "G": "root", "u": "0", "g": "0", "Y": str(seconds), "X": str(seconds), "Z": str(seconds),
                 "y": shell.host.boot_time.strftime("%Y-%m-%d %H:%M:%S.000000000")}
        if "c" in found:
            io.out.write(re.sub(r"%([A-Za-z])", lambda match, cells=cells: cells.get(match.group(1), "?"), found["c"]) + "\n")
        else:
            io.out.write("  File: %s\n  Size: %s\t\tBlocks: 0          IO Block: 131072 %s\nAccess: (0%s/%s)  Uid: (    0/    root)   Gid: (    0/    root)\n"
                         % (operand, size, cells["F"], cells["a"], cells["A"]))
    return rc


def find(shell: Shell, args: list[str], io: Io) -> int:
    """find PATH... [-name P] [-type f|d] [-maxdepth N] [-print]"""
    roots, tests = [], args[1:]
    while tests and not tests[0].startswith("-"):
        roots.append(tests.pop(0))
    name, kind, depth = "*", "", 99
    while tests:
        test = tests.pop(0)
        if test in ("-name", "-iname") and tests:
            name = tests.pop(0)
        elif test == "-type" and tests:
            kind = tests.pop(0)
        elif test == "-maxdepth" and tests:
            depth = int(tests.pop(0))
        elif test != "-print":
            io.err.write("find: unrecognized: %s\n" % test)
            return 1
    rc = 0

    def visit(shown: str, level: int) -> None:
        path = shell.path(shown)
        directory = shell.fs.is_dir(path)
        if match_glob(posixpath.basename(shown) or "/", name) and kind in ("", "d" if directory else "f"):
            io.out.write(shown + "\n")
        if directory and level < depth:
            for entry in shell.fs.listing(path):
                visit(posixpath.join(shown, entry), level + 1)
    for root in roots or ["."]:
        if shell.fs.exists(shell.path(root)):
            visit(root, 0)
        else:
            io.err.write("find: %s: No such file or directory\n" % root)
            rc = 1
    return rc


def test(shell: Shell, args: list[str], io: Io) -> int:
    words = args[1:]
    if args[0] == "[":
        if words[-1:] != ["]"]:
            io.err.write("[: missing ]\n")
            return 2
        words = words[:-1]

    def single(operator: str, word: str) -> bool:
        path = shell.path(word)
        return {"-n": lambda: word != "", "-z": lambda: word == "", "-e": lambda: shell.fs.exists(path), "-f": lambda: shell.fs.find(path) is not None,
                "-d": lambda: shell.fs.is_dir(path), "-s": lambda: bool(shell.fs.find(path)), "-r": lambda: shell.fs.exists(path),
                "-w": lambda: shell.fs.exists(path),
                "-x": lambda: shell.fs.is_dir(path) or path in shell.fs.tools() or (shell.fs.find(path) or b"").startswith(b"#!"), "-L": lambda: False,
                "-h": lambda: False,
                "-t": lambda: shell.tty}[operator]()

    def double(left: str, operator: str, right: str) -> bool:
        if operator in ("=", "=="):
            return left == right
        if operator == "!=":
            return left != right
        a, b = int(left), int(right)
        return {"-eq": a == b, "-ne": a != b, "-gt": a > b, "-ge": a >= b, "-lt": a < b, "-le": a <= b}[operator]

    def either(words: list[str]) -> bool:
        if "-o" in words[1:-1]:
            at = words.index("-o", 1)
            return either(words[:at]) or either(words[at + 1:])
        if "-a" in words[1:-1]:
            at = words.index("-a", 1)
            return either(words[:at]) and either(words[at + 1:])
        if not words:
            return False
        if len(words) == 3 and words[1] in ("=", "==", "!=", "-eq", "-ne", "-gt", "-ge", "-lt", "-le"):
            return double(*words)
        if words[0] == "!":
            return not either(words[1:])
        if len(words) == 1:
            return words[0] != ""
        return single(words[0], words[1])
    try:
        return 0 if either(words) else 1
    except (ValueError, KeyError, IndexError):
        io.err.write("%s: %s: bad argument\n" % (shell.name, " ".join(words)))
        return 2


# ---- the rest -----------------------------------------------------------------------------------------------------

@applet("")
def sleep(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    seconds = sum(float(item.rstrip("smhd") or 0) * {"m": 60, "h": 3600, "d": 86400}.get(item[-1:], 1) for item in rest)
    shell.sleep(seconds)
    return 0


@applet("amnrsvpio")
def uname(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    host = shell.host
    cells = {"s": "VMkernel", "n": host.name, "r": host.version, "v": "#1 SMP Release build-%s Apr  1 2021 12:00:00" % host.build, "m": "x86_64", "p": "x86_64",
             "i": "x86_64", "o": "ESXi"}
    which = "snrvmpio" if "a" in found else [letter for letter in "snrvmpio" if letter in found] or ["s"]
    io.out.write(" ".join(cells[letter] for letter in which) + "\n")
    return 0


@applet("fsid")
def hostname(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    io.out.write((shell.host.address if "i" in found else shell.host.name) + "\n")
    return 0


@applet("hkm")
def df(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    io.out.write("Filesystem      %s Used Available Use%% Mounted on\n" % ("  Size" if "h" in found else "1K-blocks"))
    for name in shell.world.datastores:
        row = ("NFS", "20.0T", "4.2T", "15.8T") if "h" in found else ("NFS", "21474836480", "4509715660", "16965120820")
        io.out.write("%-10s %11s %6s %9s  21%% /vmfs/volumes/%s\n" % (row + (name,)))
    return 0


@applet("h")
def vdf(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    full = shell.world.faults.get("tmp_full", {}).get(shell.host.name) is not None
    used = 262144 if full else sum(len(content) for content in shell.host.tmp.values()) // 1024 + 48
    io.out.write("Ramdisk                   Size      Used Available Use% Mounted on\n")
    io.out.write("%-21s %9d %9d %9d %3d%% %s\n" % ("tmp", 262144, used, 262144 - used, used * 100 // 262144, "/tmp"))
    return 0


def which(shell: Shell, args: list[str], io: Io) -> int:
    rc = 0
    for name in args[1:]:
        where = shell.which(name)
        if where:
            io.out.write(where + "\n")
        else:
            rc = 1
    return rc


def date(shell: Shell, args: list[str], io: Io) -> int:
    now = datetime.datetime.now(datetime.timezone.utc)
    form = next((item[1:] for item in args[1:] if item.startswith("+")), DATE)
    io.out.write(now.strftime(form.replace("%s", str(int(now.timestamp())))) + "\n")
    return 0


def uptime(shell: Shell, args: list[str], io: Io) -> int:
    now = datetime.datetime.now(datetime.timezone.utc)
    seconds = int((now - shell.host.boot_time).total_seconds())
    io.out.write(" %s up %d days, %02d:%02d:%02d, load average: 0.02, 0.02, 0.02\n"
                 % (now.strftime("%k:%M:%S"), seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60))
    return 0


def who(shell: Shell, args: list[str], io: Io) -> int:
    return 0


def identity(shell: Shell, args: list[str], io: Io) -> int:
    letters = "".join(item[1:] for item in args[1:] if item.startswith("-"))
    io.out.write(("root" if "n" in letters else "0") + "\n" if "u" in letters or "g" in letters else "uid=0(root) gid=0(root) groups=0(root)\n")
    return 0


def whoami(shell: Shell, args: list[str], io: Io) -> int:
    io.out.write("root\n")
    return 0


def env(shell: Shell, args: list[str], io: Io) -> int:
    rest = args[1:]
    other = shell.child()
    while rest and re.match(r"^[A-Za-z_]\w*=", rest[0]):
        name, dummy, value = rest.pop(0).partition("=")
        other.vars[name] = value
        other.exported.add(name)
    if rest:
        return other.program(rest, io) if rest[0] not in BUILTINS else other.call(rest, io)
    io.out.write("".join("%s=%s\n" % (name, other.vars[name]) for name in sorted(other.exported) if name in other.vars))
    return 0


def shell_program(shell: Shell, args: list[str], io: Io) -> int:
    """sh [-c line [name args...]] [file args...]; without operands it reads standard input."""
    rest, other = args[1:], shell.child()
    other.functions, other.options, other.name, other.tested = {}, set(), "sh", 0
    other.vars = {name: value for name, value in shell.vars.items() if name in shell.exported or name == "IFS"}
    line = None
    while rest and re.match(r"^[-+][a-z]+$", rest[0]):
        flags = rest.pop(0)
        if "c" in flags[1:]:
            if not rest:
                io.err.write("sh: -c requires an argument\n")
                return 2
            line = rest.pop(0)
            other.options |= set(flags[1:]) & set("exuf")
            if rest:
                other.name, other.args = rest[0], rest[1:]
            break
        other.options |= set(flags[1:]) & set("exuf")
        if "s" in flags[1:]:
            other.args = rest
            rest = []
            break
    if line is None and rest:
        try:
            line = shell.fs.read(shell.path(rest[0])).decode("utf-8", "replace")
        except OSError:
            io.err.write("sh: can't open '%s': No such file or directory\n" % rest[0])
            return 2
        other.name, other.args = rest[0], rest[1:]
    if line is None:
        line = io.stdin.read().decode("utf-8", "replace")
    return other.main(line, io)


def time_it(shell: Shell, args: list[str], io: Io) -> int:
    rc = shell.call(args[1:], io) if len(args) > 1 else 0
    io.err.write("real\t0m 0.01s\nuser\t0m 0.00s\nsys\t0m 0.00s\n")
    return rc


def nohup(shell: Shell, args: list[str], io: Io) -> int:
    return shell.call(args[1:], io) if len(args) > 1 else 1


@applet("rt0", "nI")
def xargs(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    words = io.stdin.read().decode("utf-8", "replace").split()
    rest = rest or ["echo"]
    if not words and "r" in found:
        return 0
    rc = 0
    if "I" in found:
        batches = [[item.replace(found["I"], word) for item in rest] for word in words]
    else:
        size = int(found.get("n", "0")) or max(1, len(words))
        batches = [rest + words[at:at + size] for at in range(0, max(1, len(words)), size)]
    for batch in batches:
        rc = shell.call(batch, Io(Reader(), io.out, io.err)) or rc
    return rc


@applet("a")
def tee(shell: Shell, found: dict, rest: list[str], io: Io) -> int:
    content, rc = io.stdin.read(), 0
    for operand in rest:
        try:
            shell.fs.write(shell.path(operand), content, "a" in found)
        except OSError as fault:
            io.err.write("tee: %s: %s\n" % (operand, fault.strerror))
            rc = 1
    io.out.write(content)
    return rc


def basename(shell: Shell, args: list[str], io: Io) -> int:
    name = posixpath.basename(args[1].rstrip("/") or "/") if len(args) > 1 else ""
    if len(args) > 2 and name.endswith(args[2]) and name != args[2]:
        name = name[:-len(args[2])]
    io.out.write(name + "\n")
    return 0


def dirname(shell: Shell, args: list[str], io: Io) -> int:
    io.out.write((posixpath.dirname(args[1].rstrip("/")) or ("/" if args[1].startswith("/") else ".")) + "\n")
    return 0


def seq(shell: Shell, args: list[str], io: Io) -> int:
    numbers = [int(item) for item in args[1:]]
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[1]) if len(numbers) == 2 else tuple(numbers[:3])
    io.out.write("".join("%d\n" % number for number in range(first, last + (1 if step > 0 else -1), step)))
    return 0


def nothing(shell: Shell, args: list[str], io: Io) -> int:
    return 0


def ps(shell: Shell, args: list[str], io: Io) -> int:
    """-c: whole command lines. What else runs there is host.settings["processes"]."""
    io.out.write("WID      CID      World Name            Command\n")
    for number, line in enumerate(shell.host.settings.get("processes", []), 2100000):
        io.out.write("%-9d%-9d%-22s%s\n" % (number, number, line.split()[0].split("/")[-1], line if "-c" in "".join(args[1:]) else line.split()[0]))
    return 0


def busybox(shell: Shell, args: list[str], io: Io) -> int:
    return shell.program(args[1:], io) if len(args) > 1 else 0


PROGRAMS: dict[str, Callable[[Shell, list[str], Io], int]] = {
    "echo": echo, "printf": printf, "cat": cat, "grep": grep, "egrep": egrep, "head": head,
    "tail": tail, "wc": wc,
    "cut": cut, "tr": tr, "sort": sort, "uniq": uniq, "sed": sed, "awk": awk, "ls": ls, "rm": rm, "mkdir": mkdir, "rmdir": rmdir, "touch": touch, "cp": cp,
    "mv": mv,
    "md5sum": digest("md5"), "sha1sum": digest("sha1"), "sha256sum": digest("sha256"), "sha512sum": digest("sha512"), "stat": stat, "find": find, "test": test,
    "[": test,
    "sleep": sleep, "uname": uname, "hostname": hostname, "df": df, "vdf": vdf, "which": which, "date": date, "uptime": uptime, "who": who, "id": identity,
    "whoami": whoami,
    "env": env, "printenv": env, "sh": shell_program, "time": time_it, "nohup": nohup, "xargs": xargs, "tee": tee, "basename": basename, "dirname": dirname,
    "seq": seq,
    "chmod": nothing, "chown": nothing, "sync": nothing, "true": nothing, "false": lambda shell, args, io: 1, "busybox": busybox, "ps": ps,
    "logger": nothing,
}
PROGRAMS.update(esxcli.PROGRAMS)
PROGRAMS.update(vmkernel.PROGRAMS)
ELSEWHERE = {"secureBoot.py": "/usr/lib/vmware/secureboot/bin/secureBoot.py", "SSH": "/etc/init.d/SSH"}
PATHS = {ELSEWHERE.get(name, "/bin/" + name): name for name in PROGRAMS}
PROGRAMS.update(mft.PROGRAMS)
esxcli.PLUGINS.update(mft_plugin.LAYOUTS)
BUILTINS.update({name: PROGRAMS[name] for name in ("echo", "printf", "test", "[")})  # ash has them inside
