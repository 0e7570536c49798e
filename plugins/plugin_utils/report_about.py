# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a run was started, for whoever wants to repeat it: the command without its secrets, and a digest of the inventory."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from pathlib import Path

import yaml

SECRET = re.compile(r"pass|pwd|_pw|^pw|secret|token|key|cred|auth|vault|license|thumbprint", re.I)
HIDDEN = "***"
# Flags without a value may stand before -e in one word: -ve, -bKe.
CLUSTER = re.compile(r"(-[bvkKCDJh]*e)(.*)", re.S)


def command(argv: list[str]) -> str:
    """The command line as a shell takes it; values of variables that may be secret are hidden."""
    words, extra = [os.path.basename(argv[0])] if argv else [], False
    for word in argv[1:]:
        name, equals, value = word.partition("=")
        cluster = CLUSTER.fullmatch(word)
        if extra:
            words.append(_variables(word))
        elif equals and _extra(name):
            words.append("%s=%s" % (name, _variables(value)))
        elif cluster and cluster.group(2):
            words.append(cluster.group(1) + _variables(cluster.group(2)))
        else:
            words.append(_address(word))
        extra = not extra and (_extra(word) or bool(cluster and not cluster.group(2)))
    return shlex.join(words)


def _extra(word: str) -> bool:
    """--extra-vars or a beginning of it, which Ansible's option parser takes for it."""
    return len(word) > 2 and "--extra-vars".startswith(word)


def _address(text: str) -> str:
    """Without the user and password of a URL."""
    return re.sub(r"(?<=://)[^/@\s]*@", HIDDEN + "@", text)


def _variables(text: str) -> str:
    """What one -e sets: a file, pairs, or JSON or YAML."""
    if text.startswith("@"):
        return text
    if text.lstrip().startswith(("{", "[")):
        try:
            return yaml.safe_dump(_hide(yaml.safe_load(text)), default_flow_style=True, width=10000).strip()
        except yaml.YAMLError:
            return HIDDEN
    try:
        pairs = shlex.split(text)
    except ValueError:
        return HIDDEN
    out = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        # A structure in a pair may hold anything.
        hidden = not equals or SECRET.search(name) or value.lstrip().startswith(("{", "["))
        out.append("%s=%s" % (name if equals else "", HIDDEN) if hidden else "%s=%s" % (name, _address(value)))
    return " ".join(out)


def _hide(value: object, name: str = "") -> object:
    if SECRET.search(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: _hide(entry, str(key)) for key, entry in value.items()}
    if isinstance(value, list):
        return [_hide(entry) for entry in value]
    return _address(value) if isinstance(value, str) else value


def digest(sources: list[str]) -> str:
    """SHA-256 over the files of an inventory, their names below its directories included; empty where it is a list of names or cannot be read."""
    found, files = hashlib.sha256(), []
    for source in sources:
        path = Path(source)
        if path.is_dir():
            files += [(str(one.relative_to(path)), one) for one in sorted(path.rglob("*")) if one.is_file() and ".git" not in one.parts]
        elif path.is_file():
            files.append((path.name, path))
    try:
        for name, path in files:
            found.update(b"%s\0%s\0" % (name.encode(), hashlib.sha256(path.read_bytes()).hexdigest().encode()))
    except OSError:
        return ""
    return found.hexdigest() if files else ""


def collection_version() -> str:
    """Of this collection as it is installed, or of its checkout."""
    top = Path(__file__).resolve().parents[2]
    for name, pattern in (("MANIFEST.json", r'"version":\s*"([^"]+)"'), ("galaxy.yml", r"^version:\s*[\"']?([^\s\"']+)")):
        try:
            match = re.search(pattern, (top / name).read_text(encoding="utf-8"), re.M)
        except OSError:
            continue
        if match:
            return match.group(1)
    return ""
