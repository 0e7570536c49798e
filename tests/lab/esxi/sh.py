# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A busybox-like sh that runs in this process: no fork, no program of the machine, no file of the machine.

run_line(world, host, line) is the whole of it for a caller without SSH.
"""

from __future__ import annotations

import errno
import fnmatch
import posixpath
import re
import threading
from typing import Any, Callable

from ..world import Host, World
from . import syntax
from .fs import FileSystem

PATH = "/bin:/sbin:/usr/bin"


class Stop(Exception):
    """The session is over: the host went down, the client is gone."""


class Exit(Exception):
    def __init__(self, rc: int) -> None:
        super().__init__(rc)
        self.rc = rc


class Jump(Exception):
    """break, continue or return on its way out."""

    def __init__(self, kind: str, count: int) -> None:
        super().__init__(kind)
        self.kind, self.count = kind, count


class Buffer:
    """Where a command writes: kept, or handed on at once."""

    def __init__(self, forward: Callable[[bytes], None] | None = None) -> None:
        self.parts: list[bytes] = []
        self.forward = forward

    def write(self, data: bytes | str) -> None:
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogateescape")
        if not data:
            return
        if self.forward:
            self.forward(data)
        else:
            self.parts.append(data)

    def value(self) -> bytes:
        return b"".join(self.parts)


class Sink(Buffer):
    """A redirection's target: written at the end of its command, as far as there is room."""

    def __init__(self, fs: FileSystem, path: str, append: bool) -> None:
        super().__init__()
        self.fs, self.path, self.append = fs, path, append
        fs.write(path, b"", append)

    def close(self) -> None:
        content = self.value()
        if content:
            self.fs.write(self.path, content, append=True)

    def at_once(self, data: bytes) -> None:
        self.fs.write(self.path, data, append=True)


class Reader:
    """Standard input: bytes that are there, or a function that waits for the client's."""

    def __init__(self, data: bytes = b"", more: Callable[[], bytes] | None = None) -> None:
        self.data, self.more = data, more

    def read(self) -> bytes:
        while self.more:
            self._fill()
        data, self.data = self.data, b""
        return data

    def readline(self) -> bytes:
        while self.more and b"\n" not in self.data and b"\r" not in self.data:
            self._fill()
        end = min((at for at in (self.data.find(b"\n"), self.data.find(b"\r")) if at >= 0), default=len(self.data) - 1)
        line, self.data = self.data[:end + 1], self.data[end + 1:]
        return line

    def _fill(self) -> None:
        chunk = self.more() if self.more else b""
        if not chunk:
            self.more = None
        self.data += chunk


class Io:
    """The three streams of a command."""

    def __init__(self, stdin: Reader, out: Buffer, err: Buffer) -> None:
        self.stdin, self.out, self.err = stdin, out, err


class Shell:
    """One shell: variables, directory, functions, and the host it stands on."""

    def __init__(self, world: World, host: Host, programs: dict[str, Callable[..., int]], paths: dict[str, str], over: threading.Event | None = None) -> None:
        self.world, self.host, self.programs = world, host, programs
        self.fs = FileSystem(world, host, paths)
        self.vars = {"PATH": PATH, "HOME": "/", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh", "PWD": "/", "IFS": " \t\n", "TERM": "dumb"}
        self.exported = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TERM"}
        self.cwd, self.last, self.functions, self.args = "/", 0, {}, []
        self.name, self.options, self.depth, self.tty = "sh", set(), 0, False
        self.substituted = 0  # exit code of the last $( ) of a command: that of an assignment alone
        self.locals: list[dict[str, str | None]] = []  # what `local` hid, per function that runs
        self.over = over or threading.Event()
        self.flush: Callable[[], None] = lambda: None  # hand on what was written so far
        self.tested = 0  # inside a condition: set -e does not count

    def child(self) -> Shell:
        other = Shell.__new__(Shell)
        other.__dict__.update(self.__dict__)
        other.vars, other.exported, other.functions = dict(self.vars), set(self.exported), dict(self.functions)
        other.args, other.options, other.depth, other.locals = list(self.args), set(self.options), self.depth + 1, [dict(kept) for kept in self.locals]
        if other.depth > 50:
            raise Exit(2)
        return other

    def path(self, name: str) -> str:
        return self.fs.absolute(name, self.cwd)

    def sleep(self, seconds: float) -> None:
        self.flush()
        if self.over.wait(seconds):
            raise Stop()

    # ---- running --------------------------------------------------------------------------------------------------

    def source(self, text: str, io: Io) -> int:
        """Run a script in this shell."""
        try:
            tree = syntax.parse(text)
        except syntax.SyntaxFault as fault:
            io.err.write("%s: syntax error: %s\n" % (self.name, fault))
            self.last = 2
            return 2
        return self.run(tree, io)

    def main(self, text: str, io: Io) -> int:
        """Run a script as a shell of its own, exit included."""
        try:
            return self.source(text, io)
        except Exit as leave:
            return leave.rc
        except Jump:
            return self.last

    def run(self, node: tuple, io: Io) -> int:
        if self.over.is_set():
            raise Stop()
        self.last = getattr(self, "run_" + node[0])(node, io)
        return self.last

    def run_list(self, node: tuple, io: Io) -> int:
        for item, background in node[1]:
            if background:
                other = self.child()
                threading.Thread(target=self._background, args=(other, item, io), daemon=True).start()
                self.last = 0
            else:
                self.run(item, io)
                if self.last and "e" in self.options and not self.tested and len(item[1]) == 1 and not item[1][0][1][1]:
                    raise Exit(self.last)
        return self.last

    @staticmethod
    def _background(shell: Shell, node: tuple, io: Io) -> None:
        try:
            shell.run(node, Io(Reader(), io.out, io.err))
        except (Exit, Jump, Stop):
            return

    def run_and_or(self, node: tuple, io: Io) -> int:
        rc = 0
        more = len(node[1]) > 1
        self.tested += more
        try:
            for operator, pipeline in node[1]:
                if operator == "&&" and rc or operator == "||" and not rc:
                    continue
                rc = self.run(pipeline, io)
        finally:
            self.tested -= more
        return rc

    def run_pipe(self, node: tuple, io: Io) -> int:
        negate, commands = node[1], node[2]
        if len(commands) == 1:
            rc = self.run(commands[0], io)
        else:
            stdin, rc, failed = io.stdin, 0, 0
            for index, command in enumerate(commands):
                last = index == len(commands) - 1
                out = io.out if last else Buffer()
                shell = self.child()
                try:
                    rc = shell.run(command, Io(stdin, out, io.err))
                except Exit as leave:
                    rc = leave.rc
                failed = rc or failed
                if not last:
                    stdin = Reader(out.value())
            rc = failed if "P" in self.options else rc
        return int(not rc) if negate else rc

    def run_subshell(self, node: tuple, io: Io) -> int:
        try:
            return self.child().run(node[1], Io(io.stdin, io.out, io.err))
        except Exit as leave:
            return leave.rc

    def run_with(self, node: tuple, io: Io) -> int:
        opened = self.redirect(node[2], io)
        if opened is None:
            return 1
        rc = self.run(node[1], opened[0])
        return self.close(opened[1], io, rc)

    def run_if(self, node: tuple, io: Io) -> int:
        for test, body in node[1]:
            if self.condition(test, io) == 0:
                return self.run(body, io)
        return self.run(node[2], io) if node[2] else 0

    def condition(self, tree: tuple, io: Io) -> int:
        self.tested += 1
        try:
            return self.run(tree, io)
        finally:
            self.tested -= 1

    def run_while(self, node: tuple, io: Io) -> int:
        rc = 0
        while (self.condition(node[2], io) != 0) == node[1]:
            try:
                rc = self.run(node[3], io)
            except Jump as jump:
                if self.leave(jump):
                    break
        return rc

    def run_for(self, node: tuple, io: Io) -> int:
        values = list(self.args) if node[2] is None else [value for word in node[2] for value in self.expand(word, io)]
        rc = 0
        for value in values:
            self.vars[node[1]] = value
            try:
                rc = self.run(node[3], io)
            except Jump as jump:
                if self.leave(jump):
                    break
        return rc

    @staticmethod
    def leave(jump: Jump) -> bool:
        """Whether the loop ends; an outer loop's jump goes on."""
        if jump.kind == "return":
            raise jump
        if jump.count > 1:
            raise Jump(jump.kind, jump.count - 1)
        return jump.kind == "break"

    def run_case(self, node: tuple, io: Io) -> int:
        subject = self.one(node[1], io)
        for patterns, body in node[2]:
            if any(match_glob(subject, self.pattern(pattern, io)) for pattern in patterns):
                return self.run(body, io)
        return 0

    def run_function(self, node: tuple, io: Io) -> int:
        self.functions[node[1]] = node[2]
        return 0

    def run_simple(self, node: tuple, io: Io) -> int:
        assignments, words, redirections = node[1:]
        self.substituted = 0
        args = [value for word in words for value in self.expand(word, io)]
        values = [(name, self.one(word, io)) for name, word in assignments]
        opened = self.redirect(redirections, io) if redirections else (io, [])
        if opened is None:
            return 1
        if not args:
            for name, value in values:
                self.vars[name] = value
            return self.close(opened[1], io, self.substituted)
        if args == ["exec"]:  # its redirections stay
            for sink, dummy in opened[1]:
                sink.forward = sink.at_once
            io.stdin, io.out, io.err = opened[0].stdin, opened[0].out, opened[0].err
            return 0
        kept = {name: self.vars.get(name) for name, dummy in values}
        exported = set(self.exported)
        for name, value in values:
            self.vars[name] = value
            self.exported.add(name)
        try:
            if "x" in self.options:
                io.err.write("+ %s\n" % " ".join(args))
            rc = self.call(args, opened[0])
        finally:
            if values:
                self.restore(kept)
                self.exported = exported
        return self.close(opened[1], io, rc, args[0])

    def restore(self, kept: dict[str, str | None]) -> None:
        for name, value in kept.items():
            if value is None:
                self.vars.pop(name, None)
            else:
                self.vars[name] = value

    def call(self, args: list[str], io: Io) -> int:
        """A function, a builtin, a program by name or by path."""
        name = args[0]
        if name in self.functions:
            kept, self.args = self.args, args[1:]
            self.locals.append({})
            try:
                return self.run(self.functions[name], io)
            except Jump as jump:
                if jump.kind != "return":
                    raise
                return jump.count
            finally:
                self.args = kept
                self.restore(self.locals.pop())
        builtin = BUILTINS.get(name)
        if builtin:
            return builtin(self, args, io)
        return self.program(args, io)

    def program(self, args: list[str], io: Io) -> int:
        name = args[0]
        where = self.which(name)
        if not where:
            if "/" in name and self.fs.exists(self.path(name)):
                return self.script(args, io)
            io.err.write("%s: %s: not found\n" % (self.name, name))
            return 127
        function = self.programs[posixpath.basename(where)]
        try:
            return function(self, args, io)
        except OSError as fault:
            io.err.write("%s: %s: %s\n" % (posixpath.basename(name), fault.filename or "", fault.strerror))
            return 1

    def script(self, args: list[str], io: Io) -> int:
        """A file: with a #! line it runs, without one execInstalledOnly refuses it (it is taken for a binary)."""
        path = self.path(args[0])
        if self.fs.is_dir(path):
            io.err.write("%s: %s: Permission denied\n" % (self.name, args[0]))
            return 126
        text = self.fs.read(path)
        if not text.startswith(b"#!") or b"/sh" not in text.split(b"\n")[0]:
            io.err.write("%s: %s: Operation not permitted\n" % (self.name, args[0]))
            return 126
        other = self.child()
        other.args, other.name = args[1:], args[0]
        return other.main(text.decode("utf-8", "replace"), io)

    def which(self, name: str) -> str:
        """The path of a program of this host, or ""."""
        tools = self.fs.tools()
        if "/" in name:
            path = self.path(name)
            return path if path in tools else ""
        for directory in self.vars.get("PATH", PATH).split(":"):
            path = posixpath.join(directory or self.cwd, name)
            if path in tools:
                return path
        return ""

    # ---- redirections ---------------------------------------------------------------------------------------------

    def redirect(self, redirections: tuple, io: Io) -> tuple[Io, list[tuple[Sink, str]]] | None:
        table: dict[int, Any] = {0: io.stdin, 1: io.out, 2: io.err}
        sinks = []
        for fd, operator, word in redirections:
            if operator == "<<":
                table[fd] = Reader(self.one(word[0] if word else (), io).encode("utf-8", "surrogateescape"))
                continue
            target = self.one(word, io)
            try:
                if operator in (">&", "<&"):
                    if target == "-":
                        table[fd] = Buffer() if fd else Reader()
                    elif target.isdigit() and int(target) in table:
                        table[fd] = table[int(target)]
                    else:
                        io.err.write("%s: %s: Bad file descriptor\n" % (self.name, target))
                        return None
                elif operator == "<":
                    table[fd] = Reader(self.fs.read(self.path(target)))
                elif operator in (">", ">>", ">|", "<>"):
                    if self.path(target) == "/dev/null":
                        table[fd] = Buffer()
                    else:
                        sink = Sink(self.fs, self.path(target), operator == ">>")
                        sinks.append((sink, target))
                        table[fd] = sink
            except OSError as fault:
                reading = operator == "<"
                missing = "no such file" if reading else "nonexistent directory"
                io.err.write("%s: can't %s %s: %s\n"
                             % (self.name, "open" if reading else "create", target, missing if fault.errno == errno.ENOENT else fault.strerror))
                return None
        return Io(table[0], table[1], table[2]), sinks

    def close(self, sinks: list[tuple[Sink, str]], io: Io, rc: int, name: str = "") -> int:
        for sink, dummy in sinks:
            try:
                sink.close()
            except OSError as fault:
                io.err.write("%s: write error: %s\n" % (self.name if name in BUILTINS or not name else name, fault.strerror))
                rc = rc or 1
        return rc

    # ---- words ----------------------------------------------------------------------------------------------------

    def one(self, word: tuple, io: Io) -> str:
        """A word as one string: no splitting, no globbing."""
        return "".join(text for text, dummy in self.pieces(word, io, tilde=True))

    def pattern(self, word: tuple, io: Io) -> str:
        return "".join(escape_glob(text) if quoted else text for text, quoted in self.pieces(word, io))

    def pieces(self, word: tuple, io: Io, tilde: bool = False) -> list[tuple[str, bool]]:
        out = []
        for index, part in enumerate(word):
            if part[0] == "text":
                text = part[1]
                if tilde and index == 0 and not part[2]:
                    text = home(text)
                out.append((text, part[2]))
            else:
                quoted = part[-1]
                out.append((self.value(part, io), quoted))
        return out

    def expand(self, word: tuple, io: Io) -> list[str]:
        """A word as fields: variables split at IFS, patterns replaced by the paths that match."""
        fields: list[list[tuple[str, bool]]] = [[]]
        for index, part in enumerate(word):
            if part[0] == "text":
                text = home(part[1]) if index == 0 and not part[2] else part[1]
                fields[-1].append((text, part[2]))
            elif part[0] == "var" and part[1] == "@" and part[4] and not part[2]:
                for number, value in enumerate(self.args):
                    if number:
                        fields.append([])
                    fields[-1].append((value, True))
            elif part[-1]:
                fields[-1].append((self.value(part, io), True))
            else:
                self.split(self.value(part, io), fields)
        out = []
        for field in fields:
            if not field:
                continue
            text = "".join(piece for piece, dummy in field)
            if text == "" and not any(quoted for dummy, quoted in field):
                continue
            if "f" not in self.options and any(not quoted and re.search(r"[*?\[]", piece) for piece, quoted in field):
                found = self.glob("".join(escape_glob(piece) if quoted else piece for piece, quoted in field))
                if found:
                    out.extend(found)
                    continue
            out.append(text)
        return out

    def split(self, value: str, fields: list[list[tuple[str, bool]]]) -> None:
        separators = self.vars.get("IFS", " \t\n")
        if not separators:
            fields[-1].append((value, False))
            return
        blanks = "".join(char for char in separators if char in " \t\n")
        hard = "".join(char for char in separators if char not in " \t\n")
        if blanks and value[:1] and value[0] in blanks and fields[-1]:
            fields.append([])
        body = value.strip(blanks) if blanks else value
        pattern = "[%s]*[%s][%s]*|[%s]+" % (blanks, re.escape(hard), blanks,
                                            blanks) if hard and blanks else "[%s]+" % re.escape(blanks) if blanks else "[%s]" % re.escape(hard)
        parts = re.split(pattern, body)
        for index, text in enumerate(parts):
            if index:
                fields.append([])
            if text or hard and index < len(parts) - 1:
                fields[-1].append((text, bool(hard)))
        if blanks and value[-1:] and value[-1] in blanks and body:
            fields.append([])

    def glob(self, pattern: str) -> list[str]:
        parts = pattern.split("/")
        absolute = pattern.startswith("/")
        found = ["/" if absolute else ""]
        for part in [part for part in parts if part]:
            matching = []
            for base in found:
                directory = base or self.cwd
                if not re.search(r"[*?\[]", part.replace("\\", "")):
                    path = posixpath.join(base, unescape_glob(part))
                    if self.fs.exists(self.path(path)):
                        matching.append(path)
                elif self.fs.is_dir(self.path(directory)):
                    matching.extend(posixpath.join(base, name) for name in self.fs.listing(self.path(directory))
                                    if match_glob(name, part) and (not name.startswith(".") or part.startswith(".")))
            found = matching
        return sorted(found)

    def value(self, part: tuple, io: Io) -> str:
        if part[0] == "cmd":
            out = Buffer()
            try:
                self.substituted = self.child().run(part[1], Io(io.stdin, out, io.err))
            except Exit as leave:
                self.substituted = leave.rc
            return out.value().replace(b"\0", b"").decode("utf-8", "surrogateescape").rstrip("\n")
        if part[0] == "arith":
            return str(self.arithmetic(self.one(part[1], io)))
        return self.parameter(part, io)

    def get(self, name: str) -> str | None:
        special = {"?": str(self.last), "#": str(len(self.args)), "$": "2099%03d" % (id(self) % 1000), "!": "", "-": "".join(sorted(self.options)),
                   "@": " ".join(self.args), "*": (self.vars.get("IFS", " ")[:1] or "").join(self.args), "0": self.name}
        if name in special:
            return special[name]
        if name.isdigit():
            return self.args[int(name) - 1] if int(name) <= len(self.args) else None
        return self.vars.get(name)

    def parameter(self, part: tuple, io: Io) -> str:
        name, operator, word = part[1:4]
        value = self.get(name)
        if operator == "length":
            return str(len(value or ""))
        if operator in ("#", "##", "%", "%%"):
            return strip_pattern(value or "", operator, self.pattern(word, io))
        if not operator:
            if value is None and "u" in self.options:
                io.err.write("%s: %s: parameter not set\n" % (self.name, name))
                raise Exit(2)
            return value or ""
        missing = value is None or (operator.startswith(":") and value == "")
        kind = operator[-1]
        if kind == "+":
            return "" if missing else self.one(word, io)
        if not missing:
            return value or ""
        if kind == "-":
            return self.one(word, io)
        if kind == "=":
            self.vars[name] = self.one(word, io)
            return self.vars[name]
        io.err.write("%s: %s: %s\n" % (self.name, name, self.one(word, io) or "parameter not set"))
        raise Exit(2)

    def arithmetic(self, text: str) -> int:
        try:
            return Arithmetic(text, self.vars).result()
        except (IndexError, ValueError, ZeroDivisionError, RecursionError):
            raise Exit(2) from None


class Arithmetic:
    """$(( )): integers as in C, variables, comparisons, logic, ?: and assignment."""

    TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|\$\{?\w+\}?|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%]=|[-+*/%()<>=!~&^|?:])")
    LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
    WORK: dict[str, Callable[[int, int], int]] = {
        "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "&": lambda a, b: a & b, "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
        "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b), "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b),
        "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
        "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1)}

    def __init__(self, text: str, variables: dict[str, str]) -> None:
        self.tokens, self.variables = [], variables
        text, at = text.strip(), 0
        while at < len(text):
            match = self.TOKEN.match(text, at)
            if not match:
                raise ValueError(text)
            self.tokens.append(match.group(1).strip("${}") if match.group(1)[0] == "$" else match.group(1))
            at = match.end()

    def result(self) -> int:
        if not self.tokens:
            return 0
        value = self.choice()
        if self.tokens:
            raise ValueError(self.tokens[0])
        return value

    def choice(self) -> int:
        if len(self.tokens) > 1 and re.match(r"^[A-Za-z_]", self.tokens[0]) and re.match(r"^[-+*/%]?=$", self.tokens[1]):
            name, operator = self.tokens.pop(0), self.tokens.pop(0)
            value = self.choice()
            if operator != "=":
                value = self.WORK[operator[0]](self.number(name), value)
            self.variables[name] = str(value)
            return value
        value = self.level(0)
        if self.tokens[:1] == ["?"]:
            self.tokens.pop(0)
            yes = self.choice()
            if self.tokens.pop(0) != ":":
                raise ValueError("?")
            no = self.choice()
            return yes if value else no
        return value

    def level(self, depth: int) -> int:
        if depth == len(self.LEVELS):
            return self.unary()
        value = self.level(depth + 1)
        while self.tokens and self.tokens[0] in self.LEVELS[depth]:
            operator = self.tokens.pop(0)
            right = self.level(depth + 1)
            if operator in ("&&", "||"):
                value = int(bool(value) and bool(right)) if operator == "&&" else int(bool(value) or bool(right))
            else:
                value = self.WORK[operator](value, right)
        return value

    def unary(self) -> int:
        token = self.tokens.pop(0)
        if token in ("-", "+", "!", "~"):
            value = self.unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token]
        if token == "(":
            value = self.choice()
            if self.tokens.pop(0) != ")":
                raise ValueError("(")
            return value
        return self.number(token)

    def number(self, token: str) -> int:
        if token[0].isdigit():
            return int(token, 16 if token[:2].lower() == "0x" else 8 if token[0] == "0" and len(token) > 1 else 10)
        value = self.variables.get(token, "") or "0"
        return Arithmetic(value, self.variables).result()


# ---- helpers ------------------------------------------------------------------------------------------------------

def home(text: str) -> str:
    match = re.match(r"^~(root)?(/.*)?$", text, re.S)
    return ("/" + (match.group(2) or "").lstrip("/") if match.group(2) else "/") if match else text


def escape_glob(text: str) -> str:
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


def unescape_glob(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def glob_expression(pattern: str) -> str:
    """A shell pattern as a regular expression; a backslash quotes."""
    out, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            out += re.escape(pattern[at + 1])
            at += 2
            continue
        if char == "[":
            end = pattern.find("]", at + 2)
            if end > 0:
                body = fnmatch.translate(pattern[at:end + 1])
                out += re.sub(r"^\(\?s:(.*)\)\\[Zz]$", r"\1", body)
                at = end + 1
                continue
        out += {"*": ".*", "?": "."}.get(char, re.escape(char))
        at += 1
    return out


def match_glob(text: str, pattern: str) -> bool:
    return re.match("(?s:%s)$" % glob_expression(pattern), text) is not None


def strip_pattern(value: str, operator: str, pattern: str) -> str:
    cuts = range(len(value) + 1)
    if operator[0] == "#":
        found = [cut for cut in cuts if match_glob(value[:cut], pattern)]
        return value[(max(found) if operator == "##" else min(found)):] if found else value
    found = [cut for cut in cuts if match_glob(value[cut:], pattern)]
    return value[:(min(found) if operator == "%%" else max(found))] if found else value


# ---- builtins -----------------------------------------------------------------------------------------------------

def do_cd(shell: Shell, args: list[str], io: Io) -> int:
    target = args[1] if len(args) > 1 else shell.vars.get("HOME", "/")
    path = shell.path(shell.vars.get("OLDPWD", "/") if target == "-" else target)
    if not shell.fs.is_dir(path):
        io.err.write("%s: cd: can't cd to %s: No such file or directory\n" % (shell.name, target))
        return 2
    shell.vars["OLDPWD"], shell.cwd, shell.vars["PWD"] = shell.cwd, path, path
    return 0


def do_export(shell: Shell, args: list[str], io: Io) -> int:
    for item in args[1:]:
        if item == "-p":
            continue
        name, equals, value = item.partition("=")
        if equals:
            shell.vars[name] = value
        shell.exported.add(name)
    if len(args) == 1 or args[1:] == ["-p"]:
        for name in sorted(shell.exported & set(shell.vars)):
            io.out.write("export %s='%s'\n" % (name, shell.vars[name]))
    return 0


def do_unset(shell: Shell, args: list[str], io: Io) -> int:
    for name in args[1:]:
        if name not in ("-v", "-f"):
            shell.vars.pop(name, None)
            shell.functions.pop(name, None)
    return 0


def do_set(shell: Shell, args: list[str], io: Io) -> int:
    rest = args[1:]
    while rest and re.match(r"^[-+][a-zA-Z]+$", rest[0]):
        option = rest.pop(0)
        if option in ("-o", "+o"):
            names = {"errexit": "e", "nounset": "u", "xtrace": "x", "noglob": "f", "pipefail": "P"}
            flags = names.get(rest.pop(0) if rest else "", "")
        else:
            flags = option[1:]
        shell.options = shell.options | set(flags) if option[0] == "-" else shell.options - set(flags)
    if rest[:1] == ["--"]:
        shell.args = rest[1:]
    elif rest:
        shell.args = rest
    if len(args) == 1:
        io.out.write("".join("%s='%s'\n" % item for item in sorted(shell.vars.items())))
    return 0


def do_shift(shell: Shell, args: list[str], io: Io) -> int:
    count = int(args[1]) if len(args) > 1 else 1
    if count > len(shell.args):
        return 1
    shell.args = shell.args[count:]
    return 0


def do_exit(shell: Shell, args: list[str], io: Io) -> int:
    raise Exit(int(args[1]) & 255 if len(args) > 1 and args[1].isdigit() else shell.last)


def do_return(shell: Shell, args: list[str], io: Io) -> int:
    raise Jump("return", int(args[1]) if len(args) > 1 else shell.last)


def do_break(shell: Shell, args: list[str], io: Io) -> int:
    raise Jump(args[0], int(args[1]) if len(args) > 1 else 1)


def do_command(shell: Shell, args: list[str], io: Io) -> int:
    rest = args[1:]
    if rest[:1] in (["-v"], ["-V"]):
        rc = 0
        for name in rest[1:]:
            where = name if name in BUILTINS or name in shell.functions else shell.which(name)
            if where:
                io.out.write("%s\n" % (where if rest[0] == "-v" else "%s is %s" % (name, where)))
            else:
                rc = 127
        return rc
    if rest[:1] == ["-p"]:
        rest = rest[1:]
    if not rest:
        return 0
    builtin = BUILTINS.get(rest[0])
    return builtin(shell, rest, io) if builtin else shell.program(rest, io)


def do_type(shell: Shell, args: list[str], io: Io) -> int:
    rc = 0
    for name in args[1:]:
        where = "a shell builtin" if name in BUILTINS else "a function" if name in shell.functions else shell.which(name)
        io.out.write("%s: not found\n" % name if not where else "%s is %s\n" % (name, where))
        rc = rc if where else 127
    return rc


def do_eval(shell: Shell, args: list[str], io: Io) -> int:
    return shell.source(" ".join(args[1:]), io)


def do_dot(shell: Shell, args: list[str], io: Io) -> int:
    try:
        return shell.source(shell.fs.read(shell.path(args[1])).decode("utf-8", "replace"), io)
    except (OSError, IndexError):
        io.err.write("%s: .: can't open '%s': No such file or directory\n" % (shell.name, args[1] if len(args) > 1 else ""))
        raise Exit(2) from None


def do_read(shell: Shell, args: list[str], io: Io) -> int:
    names = [name for name in args[1:] if not name.startswith("-")] or ["REPLY"]
    line = io.stdin.readline().decode("utf-8", "replace")
    text, separators = line.rstrip("\r\n"), shell.vars.get("IFS", " \t\n")
    blanks = "".join(char for char in separators if char in " \t\n")
    pattern = "[%s]*[%s][%s]*|[%s]+" % (blanks, re.escape(separators), blanks, blanks) if blanks else "[%s]" % re.escape(separators) if separators else "(?!)"
    values = re.split(pattern, text.strip(blanks), maxsplit=len(names) - 1) if len(names) > 1 else [text.strip(blanks)]
    for index, name in enumerate(names):
        shell.vars[name] = values[index] if index < len(values) else ""
    return 0 if line else 1


def do_true(shell: Shell, args: list[str], io: Io) -> int:
    return 0


def do_false(shell: Shell, args: list[str], io: Io) -> int:
    return 1


def do_pwd(shell: Shell, args: list[str], io: Io) -> int:
    io.out.write(shell.cwd + "\n")
    return 0


def do_local(shell: Shell, args: list[str], io: Io) -> int:
    for item in args[1:]:
        name, equals, value = item.partition("=")
        if shell.locals:
            shell.locals[-1].setdefault(name, shell.vars.get(name))
        shell.vars[name] = value if equals else shell.vars.get(name, "")
    return 0


def do_exec(shell: Shell, args: list[str], io: Io) -> int:
    raise Exit(shell.call(args[1:], io) if len(args) > 1 else 0)


BUILTINS: dict[str, Callable[[Shell, list[str], Io], int]] = {
    "cd": do_cd, "export": do_export, "unset": do_unset, "set": do_set, "shift": do_shift, "exit": do_exit, "return": do_return, "break": do_break,
    "continue": do_break,
    "command": do_command, "type": do_type, "eval": do_eval, ".": do_dot, "read": do_read, ":": do_true, "true": do_true, "false": do_false, "pwd": do_pwd,
    "local": do_local, "readonly": do_export, "exec": do_exec, "umask": do_true, "trap": do_true, "wait": do_true, "ulimit": do_true, "alias": do_true,
}


# ---- for a caller -------------------------------------------------------------------------------------------------

def new_shell(world: World, host: Host | str, over: threading.Event | None = None) -> Shell:
    from . import applets  # they need Shell

    host = world.hosts[host] if isinstance(host, str) else host
    return Shell(world, host, applets.PROGRAMS, applets.PATHS, over)


def run_line(world: World, host: Host | str, line: str, stdin: bytes | str = b"") -> tuple[str, str, int]:
    """(stdout, stderr, exit code) of a command line, without SSH and without faults of the connection."""
    shell = new_shell(world, host)
    world.note("esxi", shell.host.name, line)
    out, err = Buffer(), Buffer()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    rc = shell.main(line, Io(Reader(data), out, err))
    return out.value().decode("utf-8", "replace"), err.value().decode("utf-8", "replace"), rc
