# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nmlx driver of an ESXi host: its version and the options of its kernel modules, merged by key."""

from __future__ import annotations

from typing import Any

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import cards as card_tools
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import driver_options, esxcli, software_plan
from ansible_collections.vhpc.rdma.plugins.plugin_utils import boot_memory, esxi, esxi_files, esxi_vibs
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction
from ansible_collections.vhpc.rdma.plugins.plugin_utils.esxcli_vc import TRANSPORT_SPEC, shell as reach_host
from ansible_collections.vhpc.rdma.plugins.plugin_utils.shell import Answer, Shell, check

DRIVER = "nmlx5-core"


class ActionModule(RdmaAction):
    SPEC = dict(
        TRANSPORT_SPEC,
        name=dict(type="str", default=DRIVER),
        version=dict(type="str"),
        at_least=dict(type="bool", default=True),
        source=dict(type="str"),
        checksum=dict(type="str"),
        local=dict(type="path"),
        install_as=dict(type="str", choices=["vib", "component"], default="vib"),
        allow_downgrade=dict(type="bool", default=False),
        options=dict(type="dict", default={}),
        purge=dict(type="bool", default=False),
        state_file=dict(type="path"),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        wanted = params["options"] or {}
        driver_options.check(wanted, self.host)
        package = {key: params[key] for key in ("name", "version", "at_least", "source", "checksum", "local")}
        software_plan.check_packages([package], self.host)
        with reach_host(self, params) as shell:
            return self._act(shell, params, wanted, package)

    def _act(self, shell: Shell, params: dict, wanted: dict, package: dict) -> dict:
        commands: dict[str, Any] = dict(esxi_vibs.READ)
        for module in wanted:
            commands["get " + module] = ["esxcfg-module", "-g", module]
            commands["list " + module] = ["esxcli", "system", "module", "parameters", "list", "-m", module]
        commands.update({key: esxi.NETWORK[key] for key in ("pci", "nics")}, uptime=boot_memory.UPTIME)
        answers = dict(zip(commands, shell.run_many(list(commands.values()))))

        family = params["name"].partition("-")[0]  # nmlx5: core, rdma and, from 8.0U3 on, cc come from one bundle
        wanted = self._per_port(wanted, answers)
        memory = boot_memory.Memory(params["state_file"], answers["uptime"])
        software = esxi_vibs.Software(shell, [package] if params["version"] else [], allow_downgrade=params["allow_downgrade"])
        software.take(answers)
        before = {module: self._configured(module, answers) for module in wanted}
        after, changed = {}, {}
        for module in wanted:
            after[module], changed[module] = driver_options.merge(before[module], wanted[module], params["purge"])
            if not software.plan["install"]:  # another driver version may know other options
                driver_options.known(module, [key for key in changed[module] if key in after[module]], self._known(answers["list " + module]), self.host)
        changes, results = Changes("esxi"), []
        esxi_files.bring(software, params, changes, self.check_mode)
        software.steps(changes)
        for module in wanted:
            for key in changed[module]:
                changes.add("module %s" % module, key, before[module].get(key), after[module].get(key), reboot="host")
            if not changed[module] and memory.waits("module %s" % module):
                changes.wait_for_reboot("module %s: its options were set and the host has not rebooted since" % module)
        warnings = self._shared(changed, answers)
        if software.wants_change:
            warnings += software.warnings() + esxi_files.image_managed(params, self.host, [params["name"]])
        if not self.check_mode:
            if software.wants_change:
                results = software.apply(components=params["install_as"] == "component")
            self._set_options(shell, {module: after[module] for module in wanted if changed[module]}, memory)
        return changes.result(
            options={module: {"before": driver_options.join(before[module]), "after": driver_options.join(after[module])} for module in wanted},
            vibs={name: {"running": software.running.get(name, ""), "next": software.following.get(name, "")}
                  for name in sorted(set(software.running) | set(software.following) | {params["name"]}) if name.startswith(family)},
            results=results, warnings=warnings)

    def _per_port(self, wanted: dict, answers: dict[str, Answer]) -> dict:
        """Lists like max_vfs have one value per Mellanox port in PCI order: built from the ports that are there, never typed by hand."""
        if not any(isinstance(value, dict) for options in wanted.values() for value in (options or {}).values()):
            return wanted
        what = "read the ports of the cards"
        found = card_tools.functions(esxcli.parse_pci_list(check(answers["pci"], what, self.host).text)["devices"],
                                     esxcli.parse_nic_list(check(answers["nics"], what, self.host).text)["nics"], [], {})
        ports = [function["bdf"] for function in found]
        return {module: {key: driver_options.per_port(value, ports, key, self.host) if isinstance(value, dict) else value
                         for key, value in (options or {}).items()} for module, options in wanted.items()}

    def _configured(self, module: str, answers: dict[str, Answer]) -> dict[str, str]:
        """The options the module gets at its next load, in their order: esxcfg-module keeps it, the table of esxcli does not."""
        answer, listed = answers["get " + module], answers["list " + module]
        if answer.ok and " options = " in answer.text:
            text = answer.text.split(" options = ", 1)[1].strip()
            return driver_options.parse(text[1:text.rindex("'")] if text.startswith("'") else text)
        check(listed, "read the options of module %s" % module, self.host, "see whether its driver is installed: esxcli system module list")
        parameters = esxcli.parse_module_parameters(listed.text)
        if parameters.get("error"):
            raise RdmaError("read the options of module %s" % module, self.host, parameters["error"], "see whether its driver is installed")
        return {key: about["value"] for key, about in parameters["parameters"].items() if about["value"]}

    def _known(self, answer: Answer) -> dict[str, Any]:
        return esxcli.parse_module_parameters(answer.text)["parameters"] if answer.ok else {}

    def _shared(self, changed: dict[str, list[str]], answers: dict[str, Answer]) -> list[str]:
        """Options hold for every card of a module, also for the one that carries the host's own network."""
        if not any(changed.values()) or not (answers["pci"].ok and answers["nics"].ok):
            return []
        nics = esxcli.parse_nic_list(answers["nics"].text)["nics"]
        cards = card_tools.assemble(card_tools.functions(esxcli.parse_pci_list(answers["pci"].text)["devices"], nics, [], {}))
        if len(cards) < 2:
            return []
        module = ", ".join(name for name in changed if changed[name])
        return ["%s: the options of %s hold for %d cards (%s); changed: %s" % (
            self.host, module, len(cards), ", ".join(card["bdf"] for card in cards), ", ".join("%s" % key for keys in changed.values() for key in keys))]

    def _set_options(self, shell: Shell, after: dict[str, dict[str, str]], memory: boot_memory.Memory) -> None:
        for module in [thing for thing in memory.known if thing.startswith("module ") and memory.rebooted(thing)]:
            memory.forget(module)
        for module in after:
            memory.keep("module %s" % module)
        memory.save()  # before the set: a run that ends right after it must not forget the reboot
        if not after:
            return
        commands = [["esxcli", "system", "module", "parameters", "set", "-m", module, "-p", driver_options.join(options)] for module, options in after.items()]
        modules = list(after)
        commands += [["esxcfg-module", "-g", module] for module in modules]
        commands += [["esxcli", "system", "module", "parameters", "list", "-m", module] for module in modules]
        answers = shell.run_many(commands)
        for module, answer in zip(modules, answers):
            said = esxcli.error(answer.text) if answer.text.strip() else {}
            if not answer.ok or said:
                raise RdmaError("set the options of module %s" % module, self.host, "`%s`: %s" % (answer.command, said.get("error") or answer.last_line()),
                                "esxcli system module parameters list -m %s shows names and ranges" % module, code="MODULE")
        count = len(modules)
        read = {"get " + module: answer for module, answer in zip(modules, answers[count:])}
        read.update({"list " + module: answer for module, answer in zip(modules, answers[2 * count:])})
        for module in modules:
            now = self._configured(module, read)
            if dict(now) != dict(after[module]):
                raise RdmaError("set the options of module %s" % module, self.host,
                                "esxcli reported success, but the module is configured with '%s' instead of '%s'"
                                % (driver_options.join(now), driver_options.join(after[module])), code="NOT_KEPT")
