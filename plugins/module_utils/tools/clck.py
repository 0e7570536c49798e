# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Intel Cluster Checker says at its end: its summary, on the screen or in clck_results.log (pure).

Public are the line of the overall result, and what an issue has: a category, an id, a severity, the nodes it is about (in
parentheses for a pair), perhaps a remedy. How an issue is set out in lines is not: so an issue is a numbered line with what is
indented below it, in whatever order its fields come, and what is not known is kept as its text.
"""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

VERSION = re.compile(r"Intel\(R\) Cluster Checker(?: for Linux\*?)?,?\s+(?:Version\s+)?(\d[\w. ]*?)(?:\s*\((?:build\s+)?(\w+)\))?\s*$", re.I)
RESULT = re.compile(r"^\s*Overall Result:\s*(.+?)\s*$", re.I)
COUNT = re.compile(r"([A-Z][A-Z /-]*?)\s*\((\d+)\)")
NUMBERED = re.compile(r"^\s*(\d+)[.)]\s+(.*\S)")
FIELD = re.compile(r"^\s*\[?\s*(?:message\s+)?(id|severity|confidence|remedy|nodes?|category)\s*:\s*(.*?)\s*\]?\s*$", re.I)
NODES = re.compile(r"^\s*(\d+)\s+nodes?\s*:\s*(.+?)\s*$", re.I)
PAIR = re.compile(r"\(([^()\s,]+)\s*,\s*([^()\s,]+)\)")
SEVERITIES = ("informational", "warning", "critical")


def _names(found, issue):
    """Names of nodes out of a list; two in parentheses are a pair."""
    pairs = PAIR.findall(found)
    issue["pairs"] += [list(pair) for pair in pairs]
    for name in re.split(r"[\s,;]+", PAIR.sub(" ", found)) + [name for pair in pairs for name in pair]:
        name = name.strip("()[]")
        if name and name not in issue["nodes"]:
            issue["nodes"].append(name)


def parse(text):
    """dict(version, result, status, counts, issues): status is pass, incomplete (not all tests ran) or issues."""
    found = clean.lines("clck", text)
    version = next((match for match in (VERSION.search(line) for line in found) if match), None)
    results = [match.group(1) for match in (RESULT.match(line) for line in found) if match]
    if not results:
        raise ParseError("clck", "no overall result of Intel Cluster Checker in it", "\n".join(found))
    said = results[-1].rstrip(".")
    status = "pass" if re.match(r"(?i)(?:no issues found|pass)$", said) else "incomplete" if re.match(r"(?i)could not run", said) else "issues"
    out = dict(version=version.group(1).strip() if version else "", result=said, status=status,
               counts=dict((name.strip(), int(number)) for name, number in COUNT.findall(said)), issues=[])
    category, issue, indent = "", None, 0
    for line in found:
        head, field = NUMBERED.match(line), FIELD.match(line)
        if line.strip() in out["counts"]:
            category, issue = line.strip(), None
        elif head and category:
            issue = dict(category=category, text=head.group(2), id="", severity="", nodes=[], pairs=[], remedy="")
            indent = len(line) - len(line.lstrip())
            out["issues"].append(issue)
        elif issue is None or not line.strip():
            continue
        elif len(line) - len(line.lstrip()) <= indent:
            issue = None
        elif NODES.match(line):
            _names(NODES.match(line).group(2), issue)
        elif field:
            key, value = field.group(1).lower(), field.group(2)
            if key.startswith("node"):
                _names(value, issue)
            elif key == "severity":
                word = value.lower().strip("]").split()[0] if value else ""
                issue["severity"] = word if word in SEVERITIES else value
            elif key in ("id", "remedy"):
                issue[key] = value
        elif not issue["id"] and not issue["nodes"]:
            issue["text"] += " " + line.strip()
    return out


def about(parsed, hosts):
    """The issues that name hosts, each with hosts: those of ours that it names, by their whole name or by its first word."""
    out = []
    for issue in parsed["issues"]:
        words = set(name.lower() for name in issue["nodes"]) | set(re.findall(r"[\w.-]+", issue["text"].lower()))
        named = [host for host in hosts if host.lower() in words or host.lower() in [word.split(".")[0] for word in words]]
        out.append(dict(issue, hosts=named))
    return out
