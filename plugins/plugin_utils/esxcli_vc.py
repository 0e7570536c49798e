# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""esxcli of a host through vCenter, without SSH: the managed methods behind every esxcli command.

pyVmomi no longer has the types of this part of the protocol, so the few that are needed are declared here. What a command is called
and which parameters it takes comes from the host (CLIInfo); its result is put into the text that the host's shell prints, so that
the parsers of the shell's output read both.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
import typing as t
from typing import Sequence
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

from . import reach
from .shell import CROWDED, READ_SECONDS, Answer, Shell
from .vsphere import lookup, session
from .vsphere.common import HOST_SPEC

VERSION = "vmodl.reflect.version.version1"
EXECUTER, TYPES = "vmodl.reflect.ManagedMethodExecuter", "vmodl.reflect.DynamicTypeManager"
PREFIX, VIM25 = "vim.EsxCLI.", "{urn:vim25}"
XSI = "{http://www.w3.org/2001/XMLSchema-instance}type"
MISSING = 127
LOCK_SECONDS = 900.0
GREETING_PAUSES = (1, 2, 3)
OPEN = "lockdownDisabled"
TOOLS = ("mst", "mlxconfig", "mlxfwmanager", "flint", "mlxvpd")
TRANSPORT_SPEC: dict = dict(HOST_SPEC, transport=dict(type="str", choices=["ssh", "vcenter", "auto"], default="ssh"))


# ---- the protocol -----------------------------------------------------------------------------------------------------

def _declare() -> dict[str, t.Any]:
    """The types and methods, declared once per process; name -> what pyVmomi needs to call it."""
    from pyVmomi import VmomiSupport as vmomi  # pylint: disable=import-outside-toplevel

    optional = vmomi.F_OPTIONAL

    def known(name: str) -> bool:
        try:
            vmomi.GetVmodlType(name)
        except KeyError:
            return False
        return True

    def data(name: str, wire: str, base: str, *properties: tuple[str, str, int]) -> None:
        if not known(name):
            vmomi.CreateDataType(name, wire, base, VERSION, [(prop, kind, VERSION, flags) for prop, kind, flags in properties])

    def managed(name: str, wire: str, *methods: tuple[str, str, tuple[tuple[str, str, int], ...], str]) -> None:
        if not known(name):
            rows = [(method, wire_name, VERSION, tuple((one, kind, VERSION, flags, None) for one, kind, flags in params), (optional, result, result),
                     "dynamic", None) for method, wire_name, params, result in methods]
            vmomi.CreateManagedType(name, wire, "vmodl.ManagedObject", VERSION, None, rows)

    if VERSION not in vmomi.nsMap:
        vmomi.AddVersion(VERSION, "reflect", "1.0", 0, "reflect")
        for parent in ("vmodl.version.version0", "vmodl.version.version1", "vmodl.version.version2", VERSION):
            vmomi.AddVersionParent(VERSION, parent)
        for version in [one for one in vmomi.nsMap if one.startswith("vim.version.")]:
            vmomi.AddVersionParent(version, VERSION)
    plain = "vmodl.DynamicData"
    data(EXECUTER + ".SoapArgument", "ReflectManagedMethodExecuterSoapArgument", plain, ("name", "string", 0), ("val", "string", 0))
    data(EXECUTER + ".SoapFault", "ReflectManagedMethodExecuterSoapFault", plain, ("faultMsg", "string", 0), ("faultDetail", "string", optional))
    data(EXECUTER + ".SoapResult", "ReflectManagedMethodExecuterSoapResult", plain, ("response", "string", optional),
         ("fault", EXECUTER + ".SoapFault", optional))
    data(TYPES + ".MoInstance", "DynamicTypeMgrMoInstance", plain, ("id", "string", 0), ("moType", "string", 0))
    data(TYPES + ".FilterSpec", "DynamicTypeMgrFilterSpec", plain)
    data(TYPES + ".MoFilterSpec", "DynamicTypeMgrMoFilterSpec", TYPES + ".FilterSpec", ("id", "string", optional), ("typeSubstr", "string", optional))
    managed(EXECUTER, "ReflectManagedMethodExecuter",
            ("executeSoap", "ExecuteSoap", (("moid", "string", 0), ("version", "string", 0), ("method", "string", 0),
                                            ("argument", EXECUTER + ".SoapArgument[]", optional)), EXECUTER + ".SoapResult"))
    managed(TYPES, "InternalDynamicTypeManager",
            ("queryMoInstances", "DynamicTypeMgrQueryMoInstances", (("filterSpec", TYPES + ".FilterSpec", optional),), TYPES + ".MoInstance[]"))
    out = {"argument": vmomi.GetVmodlType(EXECUTER + ".SoapArgument"), "filter": vmomi.GetVmodlType(TYPES + ".MoFilterSpec")}
    for method, result in (("RetrieveManagedMethodExecuter", EXECUTER), ("RetrieveDynamicTypeManager", TYPES)):
        kind = vmomi.GetVmodlType(result)
        out[method] = vmomi.Object(name=vmomi.Uncapitalize(method), typeName="vim.HostSystem", wsdlName=method, version="vim.version.version7", params=(),
                                   isTask=False, resultFlags=optional, result=kind, methodResult=kind, resultName="returnval", privId="System.Read",
                                   faults=(), type=session.vim.HostSystem)
    return out


class Esxcli:
    """Finds commands of one host and runs them."""

    def __init__(self, link: t.Any, host: t.Any) -> None:
        self._own = _declare()
        self._link, self._host = link, host
        self._executer = self._ask("RetrieveManagedMethodExecuter")
        self._infos: dict[str, dict[str, dict]] = {}
        self._mellanox: dict[str, str] | None = None

    def _ask(self, method: str) -> t.Any:
        return self._link.stub.InvokeMethod(self._host, self._own[method], ())

    def _call(self, moid: str, method: str, values: Sequence[tuple[str, str]]) -> tuple[ElementTree.Element | None, str]:
        """(result, error text): one of them is set."""
        arguments = [self._own["argument"](name=name, val='<%s xmlns="urn:vim25">%s</%s>' % (name, escape(value), name)) for name, value in values]
        answer = self._executer.ExecuteSoap(moid, "urn:vim25/5.0", method, arguments)
        if answer is not None and answer.fault is not None:
            return None, _fault(answer.fault)
        text = answer.response if answer is not None else ""
        return (ElementTree.fromstring(text.encode("utf-8")) if text else None), ""

    def methods(self, namespace: str) -> dict[str, dict]:
        """The commands of a namespace such as system.module: name -> {params, hints}; {} where the host has no such namespace."""
        if namespace not in self._infos:
            root, dummy = self._call("ha-dynamic-type-manager-local-cli-cliinfo", "vim.CLIInfo.FetchCLIInfo", [("typeName", PREFIX + namespace)])
            self._infos[namespace] = {}
            for method in root.findall(VIM25 + "method") if root is not None else ():
                params = [{"name": _text(one, "name"), "flag": _text(one, "flag") == "true",
                           "aliases": [alias.text or "" for alias in one.findall(VIM25 + "aliases")]}
                          for one in method.findall(VIM25 + "param")]
                hints = {_text(one, "key"): _text(one, "value") for one in method.findall(VIM25 + "hints")}
                self._infos[namespace][_text(method, "name")] = {"params": params, "hints": hints}
        return self._infos[namespace]

    def run(self, namespace: str, name: str, words: Sequence[str]) -> tuple[int, str]:
        """(return code, text) of a command, as the shell would have it."""
        method = self.methods(namespace).get(name)
        if method is None:
            return MISSING, "Error: Unknown command or namespace %s %s\n" % (namespace.replace(".", " "), name)
        values = arguments(method["params"], words)
        root, fault = self._call("ha-cli-handler-" + namespace.replace(".", "-"), PREFIX + namespace + "." + name, values)
        return (1, fault + "\n") if fault else (0, render(root, method["hints"]))

    def tool(self, name: str) -> str:
        """The namespace under mellanox that has an MFT tool; "" where MFT brings no esxcli plugin."""
        if self._mellanox is None:
            manager = self._ask("RetrieveDynamicTypeManager")
            found = manager.QueryMoInstances(self._own["filter"](typeSubstr=PREFIX + "mellanox")) or []
            spaces = sorted(one.moType[len(PREFIX):] for one in found if one.moType.startswith(PREFIX + "mellanox."))
            self._mellanox = {space.rsplit(".", 1)[-1]: space for space in spaces}
        return self._mellanox.get(name, "")


def _text(node: ElementTree.Element, name: str) -> str:
    return (node.findtext(VIM25 + name) or "").strip()


def _fault(fault: t.Any) -> str:
    """The messages in a VimEsxCLICLIFault, else whatever the fault says."""
    with contextlib.suppress(ElementTree.ParseError):
        texts = [node.text or "" for node in ElementTree.fromstring((fault.faultDetail or "").encode("utf-8")).iter() if node.tag.endswith("}errMsg")]
        if texts:
            return "\n".join(texts)
    return fault.faultMsg or "the command failed and the host does not say why"


def arguments(params: Sequence[dict], words: Sequence[str]) -> list[tuple[str, str]]:
    """Command-line words as (parameter, value), by the names that the host told. Words without a flag go to the one list-like parameter."""
    out, queue, used = [], list(words), set()
    while queue:
        word, equals, value = queue.pop(0).partition("=") if words and queue[0].startswith("-") else (queue.pop(0), "", "")
        param = next((one for one in params if word in one["aliases"]), None)
        if param is None and not word.startswith("-"):
            param, value, equals = next((one for one in params if not one["flag"] and one["name"] not in used
                                         and re.search("set|param|conf|value", one["name"], re.I)), None), word, "="
            if param is not None:
                out.append((param["name"], value))
                continue
        if param is None:
            raise RdmaError("run esxcli through vCenter", "", "the host's command takes no %s (it takes %s)" % (
                word, ", ".join(one["aliases"][-1] for one in params if one["aliases"]) or "nothing"), "use transport: ssh for this host", code="ESXCLI")
        used.add(param["name"])
        out.append((param["name"], "true" if param["flag"] and not equals else value if equals else queue.pop(0)))
    return out


# ---- the text ---------------------------------------------------------------------------------------------------------

def render(root: ElementTree.Element | None, hints: dict[str, str]) -> str:
    """A result as the shell prints it: a table, blocks of fields, or a plain value."""
    if root is None:
        return ""
    kind = root.get(XSI, "")
    if kind == "xsd:boolean":  # what commands without output return
        return ""
    many = kind.startswith("ArrayOf")
    if not len(root) and not many:
        return (root.text + "\n").replace("\n\n", "\n") if root.text else ""
    rows = [_row(node) for node in (root if many else [root])]
    columns = [name.strip() for name in (hints.get("table-columns") or hints.get("list-order") or "").split(",") if name.strip()]
    columns = columns or sorted({name for row in rows for name in row})
    if hints.get("formatter") == "table":
        return _table(columns, rows)
    header, blocks = hints.get("header", ""), []
    for row in rows:
        title = [row.get(header.strip("%"), "") if header.startswith("%") else header] if header else []
        blocks.append("\n".join(title + ["   %s: %s" % (name, row.get(name.replace(" ", ""), "")) for name in columns]))
    return "\n\n".join(blocks) + ("\n" if blocks else "")


def _row(node: ElementTree.Element) -> dict[str, str]:
    out: dict[str, list[str]] = {}
    for cell in node:
        out.setdefault(cell.tag.replace(VIM25, ""), []).append((cell.text or "").strip("\n"))
    return {name: ", ".join(values) for name, values in out.items()}


def _table(columns: list[str], rows: list[dict[str, str]]) -> str:
    if not rows:
        return ""
    cells = [[row.get(name.replace(" ", ""), "") for name in columns] for row in rows]
    widths = [max([len(name)] + [len(line) for row in cells for line in row[at].split("\n")]) for at, name in enumerate(columns)]
    lines = [columns, ["-" * width for width in widths]] + cells
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() + "\n" for line in lines)


# ---- the shell that is none -------------------------------------------------------------------------------------------

class VcenterShell:
    """Takes the words that Shell takes, as far as a managed method stands behind them."""

    shell = False  # no pipes, no files, no programs of the host but esxcli

    def __init__(self, link: t.Any, host: t.Any, where: str) -> None:
        self._link, self._object, self.host = link, host, where
        self._esxcli = Esxcli(link, host)

    def run(self, words: Sequence[str] | str, seconds: int = READ_SECONDS) -> Answer:
        return self.run_many([words], seconds)[0]

    def run_many(self, commands: Sequence[Sequence[str] | str], seconds: int = READ_SECONDS) -> list[Answer]:
        return [self._one(words, seconds) for words in commands]

    def _one(self, words: Sequence[str] | str, seconds: int) -> Answer:
        shown = words if isinstance(words, str) else " ".join(words)
        if isinstance(words, str):
            return Answer(shown, MISSING, "there is no shell behind vCenter\n")
        stub, patient = self._link.stub, seconds > READ_SECONDS
        before = stub.schemeArgs.get("timeout")
        if patient:  # an installation answers when it is done
            stub.DropConnections()
            stub.schemeArgs["timeout"] = seconds
        try:
            rc, text = self._answer(list(words))
        except RdmaError as err:
            raise RdmaError(err.what, self.host, err.why, err.hint, code=err.code) from err
        finally:
            if patient:
                stub.DropConnections()
                stub.schemeArgs["timeout"] = before
        return Answer(shown, rc, text)

    def _answer(self, words: list[str]) -> tuple[int, str]:
        if words[0] == "esxcli":
            path = list(words[1:])
            count = next((at for at, word in enumerate(path) if word.startswith("-")), len(path))
            return self._esxcli.run(".".join(path[:count - 1]), path[count - 1], path[count:])
        if words[0] in TOOLS:
            space = self._esxcli.tool(words[0])
            if not space:
                return MISSING, "MFT has no esxcli plugin on this host\n"
            return self._esxcli.run(space, *plugin_words(words))
        if words[:2] == ["esxcfg-module", "-g"]:
            return self._module(words[2])
        return (0, "") if words[0] == "true" else (MISSING, "%s needs SSH\n" % words[0])

    def _module(self, name: str) -> tuple[int, str]:
        system = self._link.read(self._object, "configManager.kernelModuleSystem")["configManager.kernelModuleSystem"]
        try:
            return 0, "%s enabled = 1 options = '%s'\n" % (name, system.QueryConfiguredModuleOptionString(name))
        except session.vim.fault.NotFound:
            return 1, "Unable to find module %s\n" % name


def plugin_words(words: list[str]) -> tuple[str, list[str]]:
    """An MFT command line as the plugin's (command, options)."""
    tool, rest = words[0], words[1:]
    if tool == "mst":
        return rest[0], rest[1:]
    names = {"q": "query", "query": "query", "--query": "query", "set": "set", "b": "burn"}
    at = next((number for number, word in enumerate(rest) if word in names), None)
    if at is None:  # mlxvpd only queries
        return "query", rest
    return names[rest[at]], rest[:at] + rest[at + 1:]


@contextlib.contextmanager
def one_of(what: str, places: int, where: str, seconds: float) -> t.Iterator[None]:
    """One of so many places for `what` among all tasks of this controller. The lock goes with its file, also when the process is killed."""
    directory = os.path.join(tempfile.gettempdir(), "vhpc.rdma-%d" % os.getuid())
    os.makedirs(directory, mode=0o700, exist_ok=True)
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        names = ["%s.%d.lock" % (re.sub(r"[^\w.-]", "_", what), number) for number in range(places)]
        handles = [stack.enter_context(open(os.path.join(directory, name), "a", encoding="utf-8")) for name in names]
        while not any(_locked(handle) for handle in handles):
            if time.monotonic() >= deadline:
                raise RdmaError("work on the host", where, "another run on this controller has been working there for %d s" % seconds,
                                "let the other run end, then run again", code="BUSY")
            time.sleep(0.2)
        yield


def _locked(handle: t.Any) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def alone(address: str | None, where: str, seconds: float = LOCK_SECONDS) -> t.Iterator[None]:
    """Nothing else of this controller works on the host meanwhile: two MFT programs at once can hang a card, two installations refuse each other."""
    if not address:
        yield
        return
    with one_of(address, 1, where, seconds):
        yield


@contextlib.contextmanager
def shell(action: t.Any, params: dict) -> t.Iterator[t.Any]:
    """The way to the host that `transport` asks for, its SSH shell or esxcli through vCenter; one task at a time has it."""
    # pylint: disable-next=contextmanager-generator-missing-cleanup  # both give back what they hold by `with`
    with alone(getattr(action._play_context, "remote_addr", None), action.host), _shell(action, params) as found:
        yield found


@contextlib.contextmanager
def _shell(action: t.Any, params: dict) -> t.Iterator[t.Any]:
    if params["transport"] == "ssh" or (params["transport"] == "auto" and not _locked_down(action, params) and _ssh_answers(action)):
        yield Shell(action, action.host)
        return
    with session.connect(params, action.host, "run esxcli through vCenter") as link:
        host = lookup.find_host(link, params.get("esxi_hostname") or action.host)
        yield VcenterShell(link, host, action.host)


def _locked_down(action: t.Any, params: dict) -> bool:
    """Whether lockdown mode keeps this login out (exception users may come in), as far as vCenter can be asked: trying would count as failed logins of root."""
    if not params["hostname"]:
        return False
    try:
        with session.connect(params, action.host, "read the lockdown mode") as link:
            host = lookup.find_host(link, params.get("esxi_hostname") or action.host)
            row = link.read(host, "config.lockdownMode", "configManager.hostAccessManager")
            if str(row["config.lockdownMode"] or OPEN) == OPEN:
                return False
            try:
                return reach.user(action) not in (row["configManager.hostAccessManager"].QueryLockdownExceptions() or [])
            except (session.vmodl.MethodFault, AttributeError):
                return True  # who is an exception is not told: a login is not tried
    except RdmaError:
        return False  # whatever is wrong with vCenter is for the tasks that need it


def _ssh_answers(action: t.Any) -> bool:
    """A probe of the port; where that says nothing (a jump host, settings of ssh's own) a first command does."""
    where = reach.endpoint(action)
    why = reach.answers(where) if where else "unknown name"
    for pause in GREETING_PAUSES:
        if why != reach.SILENT:
            break
        time.sleep(pause)  # too many half-open logins: the next one may be greeted
        why = reach.answers(where)
    if not why.startswith("unknown name"):
        return not why
    try:
        Shell(action, action.host).execute("true", CROWDED)
    except AnsibleConnectionFailure:
        return False
    return True
