# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VIBs of one ESXi host: read both images, decide, check the files, install, read back. Used by esxi_software and nmlx_driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import esxcli, software_plan

from . import esxi
from .shell import WRITE_SECONDS, Answer, Shell, check

READ: dict[str, list[str] | str] = {
    "vibs": esxi.VIBS,
    "staged": esxi.STAGED,
    "acceptance": ["esxcli", "software", "acceptance", "get"],
    "secure_boot": ["secureBoot.py", "-s"],
}


def secure_boot(answer: Answer) -> bool | None:
    """Whether the host boots with UEFI Secure Boot; None where it does not tell."""
    word = answer.last_line().lower()
    return {"enabled": True, "disabled": False}.get(word) if answer.ok else None


def acceptance(answer: Answer) -> str:
    return esxcli.parse_acceptance(answer.text).get("level", "") if answer.ok else ""


@dataclass
class Software:
    """What a host has and what a list of packages asks of it."""

    shell: Shell
    packages: list[dict[str, Any]]
    state: str = "present"
    allow_downgrade: bool = False
    running: dict[str, str] = field(default_factory=dict)
    following: dict[str, str] = field(default_factory=dict)  # after the next boot
    plan: dict[str, list] = field(default_factory=dict)
    level: str = ""
    secured: bool | None = None

    def take(self, answers: dict[str, Answer]) -> None:
        """Reads the two images from the answers to READ and decides."""
        where = self.shell.host
        self._images(answers)
        self.level, self.secured = acceptance(answers["acceptance"]), secure_boot(answers["secure_boot"])
        self.plan = software_plan.plan(self.packages, self.running, self.following, where, self.state, self.allow_downgrade)
        software_plan.require_sources(self.plan["install"], where, self.following)

    def _images(self, answers: dict[str, Answer]) -> None:
        running = esxi.vibs(check(answers["vibs"], "list the VIBs", self.shell.host))
        staged = esxi.staged_vibs(answers["staged"], running)
        self.running = {name: vib["version"] for name, vib in running.items()}
        self.following = self.running if staged is None else {name: vib["version"] for name, vib in staged.items()}

    @property
    def wants_change(self) -> bool:
        return bool(self.plan["install"] or self.plan["remove"])

    def check_files(self, packages: list[dict[str, Any]] | None = None) -> None:
        """Existence, checksum and acceptance level of every file that would be installed, all findings at once, before the first write."""
        install = self.plan["install"] if packages is None else packages
        if not install:
            return
        host, files = self.shell.host, software_plan.sources(install)
        if not self.shell.shell:
            return self._check_without_shell(install, files)
        commands: list[list[str]] = [["ls", "-ld", path] for path in files]
        summed = [path for path in files if any(p["source"] == path and p.get("checksum") for p in install)]
        commands += [["sha256sum", path] for path in summed]
        kind = {path: "-d" if path.lower().endswith(".zip") else "-v" for path in files}
        commands += [["esxcli", "software", "sources", "vib", "get", kind[path], path] for path in files]
        answers = self.shell.run_many(commands)
        there, sums, about = answers[:len(files)], answers[len(files):len(files) + len(summed)], answers[len(files) + len(summed):]
        problems = []
        for path, answer in zip(files, there):
            if not answer.ok:
                problems.append("%s is not on the host" % path)
            elif answer.text.startswith("d"):
                problems.append("%s is a directory" % path)
        for path, answer in zip(summed, sums):
            wanted = {p["checksum"].split(":")[1].lower() for p in install if p["source"] == path and p.get("checksum")}
            found = answer.text.split()[0].lower() if answer.ok and answer.text.split() else ""
            if answer.ok and wanted != {found}:
                problems.append("%s has SHA-256 %s, not %s" % (path, found, ", ".join(sorted(wanted))))
        if problems:
            raise RdmaError("install software", host, "; ".join(problems), "put the right file there; nothing was installed", code="FILE",
                            data={"problems": problems})
        for path, answer in zip(files, about):
            for vib in esxcli.parse_vib_list(answer.text)["vibs"] if answer.ok else ():  # older hosts cannot tell: the installation itself will
                if software_plan.stronger(self.level, vib.get("acceptance_level", "")):
                    raise software_plan.acceptance_error("install %s" % path, host, vib["acceptance_level"], self.level, self.secured)

    def _check_without_shell(self, install: list[dict[str, Any]], files: list[str]) -> None:
        """Without SSH esxcli looks into the files; it knows no checksums."""
        host, kind = self.shell.host, {path: "-d" if path.lower().endswith(".zip") else "-v" for path in files}
        answers = self.shell.run_many([["esxcli", "software", "sources", "vib", "get", kind[path], path] for path in files])
        problems = ["%s cannot be read: %s" % (path, " ".join(answer.text.split())[:200]) for path, answer in zip(files, answers) if not answer.ok]
        problems += ["the checksum of %s cannot be computed through vCenter" % p["source"] for p in install if p.get("checksum")]
        if problems:
            raise RdmaError("install software", host, "; ".join(problems), "put the right file there; transport: ssh checks checksums", code="FILE",
                            data={"problems": problems})
        for path, answer in zip(files, answers):
            for vib in esxcli.parse_vib_list(answer.text)["vibs"]:
                if software_plan.stronger(self.level, vib.get("acceptance_level", "")):
                    raise software_plan.acceptance_error("install %s" % path, host, vib["acceptance_level"], self.level, self.secured)

    def steps(self, changes: Changes) -> None:
        for package in self.plan["install"]:
            changes.add("VIB %s" % package["name"], "version", self.following.get(package["name"]) or None, software_plan.wanted_text(package), reboot="host")
        for name in self.plan["remove"]:
            changes.add("VIB %s" % name, "version", self.following[name], None, reboot="host")
        for vib in self.plan["pending"]:
            changes.wait_for_reboot("VIB %s: %s is installed, %s runs" % (vib["name"], vib["next"] or "its removal", vib["running"] or "none"))

    def warnings(self) -> list[str]:
        """An installation that somebody left for the next boot."""
        # The firmware tools are the step before the driver's: no surprise to whoever runs both.
        others = {name: versions for name, versions in software_plan.foreign(self.running, self.following, self.packages).items()
                  if name not in software_plan.BLOCKING}
        if not others:
            return []
        return ["%s: an earlier installation waits for a reboot, which also brings: %s" % (self.shell.host, ", ".join(
            "%s %s (%s runs)" % (name, then or "removed", now or "none") for name, (now, then) in others.items()))]

    def apply(self, force: bool = False, components: bool = False) -> list[dict[str, Any]]:
        """Installs or removes, then reads the next image back."""
        host = self.shell.host
        commands = software_plan.install_commands(self.plan["install"], components) if self.plan["install"] else []
        commands = [words + ["--force"] for words in commands] if force else commands
        if self.plan["remove"]:
            commands.append(software_plan.remove_command(self.plan["remove"]))
        results = []
        for words in commands:
            answer = self.shell.run(["esxcli"] + words, WRITE_SECONDS)
            what = "%s VIBs" % words[2]
            result = esxcli.parse_vib_result(answer.text) if answer.text.strip() else {"error": "", "tag": ""}
            if not answer.ok or "error" in result:
                raise software_plan.explain(result if "error" in result else {"error": answer.last_line()}, "%s (`%s`)" % (what, " ".join(words)), host,
                                            self.level, bool(self.secured))
            results.append({"command": "esxcli " + " ".join(words), "message": result["message"], "reboot_required": result["reboot_required"],
                            "installed": result["installed"], "removed": result["removed"], "skipped": result["skipped"]})
        self._read_back(results)
        return results

    def _read_back(self, results: list[dict[str, Any]]) -> None:
        commands = {key: READ[key] for key in ("vibs", "staged")}
        self._images(dict(zip(commands, self.shell.run_many(list(commands.values())))))
        wrong = []
        for package in self.plan["install"]:
            have = self.following.get(package["name"], "")
            if not software_plan.fits(have, package):
                skipped = [vib for result in results for vib in result["skipped"] if package["name"] in vib]
                wrong.append("%s is %s after the installation, not %s%s" % (
                    package["name"], have or "not installed", software_plan.wanted_text(package),
                    " (esxcli skipped %s)" % ", ".join(skipped) if skipped else ""))
        wrong += ["%s is still installed" % name for name in self.plan["remove"] if name in self.following]
        if wrong:
            raise RdmaError("install software", self.shell.host, "; ".join(wrong), "see whether the file holds that VIB in that version", code="NOT_KEPT",
                            data={"results": results})

    def report(self) -> dict[str, dict[str, str]]:
        """name -> {running, next} of the packages asked for."""
        return {p["name"]: {"running": self.running.get(p["name"], ""), "next": self.following.get(p["name"], "")} for p in self.packages}

    @property
    def blocking(self) -> bool:
        """Later steps need what is installed but not running (or would be, in check mode)."""
        missing = [p["name"] for p in self.packages if self.state == "present" and not software_plan.fits(self.running.get(p["name"], ""), p)]
        return any(name in software_plan.BLOCKING for name in missing)
