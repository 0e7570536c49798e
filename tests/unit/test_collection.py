# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The places that name the collection's parts name the same ones, and an action plugin takes what its module documents."""

from __future__ import annotations

import ast
import importlib
import pathlib
import re

import pytest
import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]
NAME = "vhpc.rdma."


def stems(folder):
    return {path.stem for path in (TOP / "plugins" / folder).glob("*.py") if path.stem != "__init__"}


MODULES = stems("modules")
ACTIONS = stems("action")
ROLES = {path.name for path in (TOP / "roles").glob("*") if (path / "tasks").is_dir()}


def strings(path):
    """Every NAME = "text" of a Python file, inside classes too, without importing it."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update((target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name))
    return found


def documentation(module):
    """The module's documentation with the options of its own collection's fragments merged in, as ansible-doc shows it."""
    docs = yaml.safe_load(strings(TOP / "plugins" / "modules" / (module + ".py"))["DOCUMENTATION"])
    fragments = docs.get("extends_documentation_fragment", [])
    docs.setdefault("options", {})
    for fragment in [fragments] if isinstance(fragments, str) else fragments:
        assert fragment.startswith(NAME), "%s uses a fragment of another collection: %s" % (module, fragment)
        name, dummy, part = fragment[len(NAME):].partition(".")
        text = strings(TOP / "plugins" / "doc_fragments" / (name + ".py"))[(part or "DOCUMENTATION").upper()]
        for option, about in (yaml.safe_load(text).get("options") or {}).items():
            docs["options"].setdefault(option, about)
        docs.setdefault("fragments", set()).add(fragment)
    return docs


def shape(options, key_of_options):
    """What an argument specification and a documentation must say alike, as plain data."""
    out = {}
    for name, about in (options or {}).items():
        kind = about.get("type") or "str"
        default = about.get("default")
        if kind == "bool" and default is not None:
            default = str(default).lower() in ("true", "yes", "1")
        out[name] = {
            "type": kind, "default": default, "required": bool(about.get("required")), "elements": about.get("elements"),
            "choices": sorted(map(str, about["choices"])) if about.get("choices") else None,
            "aliases": sorted(about.get("aliases") or []), "options": shape(about.get(key_of_options), key_of_options),
        }
    return out


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_action_takes_what_its_module_documents(name):
    assert name in MODULES, "plugins/action/%s.py has no plugins/modules/%s.py with its documentation" % (name, name)
    spec = importlib.import_module("ansible_collections.vhpc.rdma.plugins.action." + name).ActionModule.SPEC
    assert shape(spec, "options") == shape(documentation(name)["options"], "suboptions")


def test_action_groups_hold_the_modules_that_share_their_options():
    groups = yaml.safe_load((TOP / "meta" / "runtime.yml").read_text())["action_groups"]
    docs = {name: documentation(name) for name in MODULES}
    assert {m for m in MODULES if NAME + "vcenter" in docs[m].get("fragments", ())} == {m[len(NAME):] for m in groups["vsphere"]}
    assert {m for m in MODULES if "root" in docs[m]["options"]} == {m[len(NAME):] for m in groups["guest"]}
    assert {m for m in MODULES if m.startswith("bios_")} == {m[len(NAME):] for m in groups["bmc"]}
    for group, members in groups.items():
        assert members == sorted(members), "the names of %s are not in order" % group


@pytest.mark.parametrize("name", sorted(MODULES))
def test_module_states_its_attributes(name):
    docs = documentation(name)
    assert any(f.startswith(NAME + "attributes") for f in docs.get("fragments", ())), "%s does not extend vhpc.rdma.attributes" % name
    assert docs["short_description"] and docs["module"] == name


def table(text, heading):
    """The names in the first column of the table below a heading of README.md."""
    section = re.split(r"^## ", text, flags=re.M)
    body = next(part for part in section if part.startswith(heading))
    return re.findall(r"^\| `([a-z_]+)`", body, re.M)


def test_readme_lists_modules_and_roles():
    readme = (TOP / "README.md").read_text()
    assert sorted(table(readme, "Modules")) == sorted(MODULES)
    assert sorted(table(readme, "Roles")) == sorted(ROLES)


def test_docs_list_modules_roles_and_filters():
    rst = TOP / "docs" / "docsite" / "rst"
    listed = re.findall(r":ansplugin:`vhpc\.rdma\.([a-z_]+)#([a-z]+)`", (rst / "modules.rst").read_text())
    assert sorted(name for name, kind in listed if kind == "module") == sorted(MODULES)
    for kind in ("filter", "callback", "inventory"):
        assert {name for name, what in listed if what == kind} == stems(kind)
    stages = re.findall(r":ansplugin:`vhpc\.rdma\.([a-z_]+)#role`", (rst / "stages.rst").read_text())
    assert sorted(set(stages)) == sorted(ROLES)


@pytest.mark.parametrize("role", sorted(ROLES))
def test_role_documents_its_variables(role):
    folder = TOP / "roles" / role
    assert (folder / "README.md").is_file()
    main = yaml.safe_load((folder / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]
    defaults = yaml.safe_load((folder / "defaults" / "main.yml").read_text()) or {}
    options = main.get("options", {})
    shown = {name for name in defaults if not name.startswith("__")}
    assert shown <= set(options), "defaults without documentation"
    for name, value in defaults.items():
        assert name.lstrip("_").startswith(role + "_"), "%s does not say whose it is" % name
        if name in options and "default" in options[name]:
            assert options[name]["default"] == value, "%s: default and its documentation differ" % name


def test_sanity_ignores_nothing():
    assert [path.name for path in (TOP / "tests" / "sanity").glob("ignore-*.txt") if path.read_text().strip()] == []


def test_version_is_one():
    version = yaml.safe_load((TOP / "galaxy.yml").read_text())["version"]
    for name in sorted(MODULES):
        added = str(documentation(name).get("version_added"))
        assert tuple(map(int, added.split("."))) <= tuple(map(int, version.split("."))), name
