# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reboots an ESXi host when there is a reason and consent, and waits until it is of use again."""

from __future__ import annotations

import contextlib
import http.client
import time

from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import esxcli_vc, reach
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import lookup, power, reboot, services, session, tasks
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import HOST_SPEC, VsphereAction, display

SAY_EVERY = 15
SSH_SERVICE = "TSM-SSH"
MAINTENANCE = "maintenance"  # what the state file says while the host is in maintenance mode because of us


class ActionModule(VsphereAction):
    WHAT = "reboot the host"
    SPEC = dict(
        HOST_SPEC,
        reasons=dict(type="list", elements="str", default=[]),
        conditional_reasons=dict(type="list", elements="str", default=[]),
        reboot_ok=dict(type="bool", default=False),
        vm_shutdown_ok=dict(type="bool", default=False),
        vm_start=dict(type="bool", default=True),
        maintenance=dict(type="bool", default=True),
        leave_maintenance=dict(type="bool", default=False),
        maintenance_timeout=dict(type="int", default=900),
        reboot_timeout=dict(type="int", default=3600),
        start_ssh=dict(type="bool", default=True),
        state_file=dict(type="path"),
        checks=dict(type="list", elements="dict", default=[]),
        retry=dict(type="bool", default=False),
        vsan_evacuation=dict(type="str", choices=list(reboot.EVACUATION), default="ensure_accessibility"),
        vsan_hosts_down_max=dict(type="int", default=1),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        reasons = list(dict.fromkeys(params["reasons"]))
        path = params["state_file"]
        left_over = bool(path and services.recorded(path, self.host, MAINTENANCE))
        changes = Changes("esxi")
        leave = left_over or params["leave_maintenance"]
        if leave:
            changes.add("host %s" % self.host, "maintenance mode", "entered by a run that did not end" if left_over else "on", "left")
        if reasons or (self.check_mode and params["conditional_reasons"]):
            doubts = [] if reasons else list(dict.fromkeys(params["conditional_reasons"]))
            changes.add("host %s" % self.host, "reboot", "", "rebooted", certainty="conditional" if doubts else "sure", reason="; ".join(reasons or doubts))
        needs: list = []
        if self.check_mode and (reasons or leave):
            needs = self._foretell(changes, bool(reasons), params)
        if not reasons and not leave or self.check_mode:
            out = self._result(changes, reasons if self.check_mode else [], rebooted=False)
            return dict(out, needs=needs) if self.check_mode else out
        if reasons and not params["reboot_ok"]:
            raise RdmaError("reboot the host", self.host, "it is not allowed, and a reboot is needed for: %s" % "; ".join(reasons),
                            "set reboot_ok: true (vhpc_reboot_ok) when the host may be rebooted", code="REBOOT_NOT_ALLOWED",
                            data=dict(reboot_reasons=reasons, reboot_required=True))
        started = time.monotonic()
        with self.connect(params) as link:
            row = self.host_row(link, params, ("runtime", "configManager.serviceSystem"))
            host, before = row["object"], row["runtime"].bootTime
            if not row["runtime"].inMaintenanceMode:
                self._no_maintenance(changes)
            if not reasons:
                self._exit_maintenance(link, host, params)
                return self._result(changes, [], rebooted=False)
            with self._turn(link, host, params):
                after, stopped, warnings = self._once(link, row, params, reasons, leave)
                left = self._left(link, host, params["checks"])
                if left and params["retry"]:
                    self._say("reboots once more: %s" % "; ".join(left))
                    again = link.read(host, "runtime")["runtime"]
                    after, more, warnings = self._once(link, dict(row, runtime=again), params, left, leave)
                    stopped += [vm for vm in more if vm["name"] not in [one["name"] for one in stopped]]
                    left = self._left(link, host, params["checks"])
            if left:
                raise RdmaError("make the reboot take effect", self.host, "; ".join(left), reboot.advice(left), code="NOT_IN_FORCE",
                                data=dict(unmet=left, rebooted=True))
        seconds = round(time.monotonic() - started, 1)
        self._say("is back after %d s" % seconds)
        out = self._result(changes, reasons, rebooted=True, seconds=seconds, before=before, after=after, vms=[vm["name"] for vm in stopped])
        return dict(out, warnings=warnings) if warnings else out

    def _once(self, link, row, params, reasons, leave) -> tuple:
        """One reboot with all that belongs around it: (new boot time, VMs that were shut down, warnings)."""
        host, before, maintained = row["object"], row["runtime"].bootTime, row["runtime"].inMaintenanceMode
        ssh = self._ssh(link, row["configManager.serviceSystem"])
        entered = params["maintenance"] and not maintained
        stopped = self._stop_vms(link, host, params)
        try:
            if entered:
                self._enter_maintenance(link, host, params)
            self._say("reboots: %s" % "; ".join(reasons))
            deadline = time.monotonic() + params["reboot_timeout"]
            after = self._reboot(link, host, before, force=not (entered or maintained), deadline=deadline)
        except RdmaError as err:
            if err.code != "REBOOT_TIMEOUT":  # nothing went down: leave the host as it was found
                with contextlib.suppress(RdmaError):
                    if entered:
                        self._exit_maintenance(link, host, params)
                    if params["vm_start"]:
                        self._start_vms(link, stopped, params)
            raise
        if entered or leave:
            self._exit_maintenance(link, host, params)
        self._ssh_again(link, row["configManager.serviceSystem"], ssh, params, deadline)
        return after, stopped, self._start_vms(link, stopped, params) if params["vm_start"] else []

    def _left(self, link, host, steps) -> list:
        """What was to come into force and has not, as vCenter shows the host now."""
        kinds = {str(step.get("thing", "")).partition(" ")[0] for step in steps if step.get("reboot") == "host"}
        vibs, options, active = {}, {}, {}
        paths = ("configManager.imageConfigManager", "configManager.kernelModuleSystem", "config.pciPassthruInfo")
        row = link.read(host, *paths) if kinds else {}
        if "VIB" in kinds:
            vibs = {one.name: one.version for one in row[paths[0]].FetchSoftwarePackages()}
        if "module" in kinds:
            options = {one.name: one.optionString or "" for one in row[paths[1]].QueryModules()}
        if kinds:
            active = {one.id: bool(one.passthruActive) for one in row[paths[2]] or [] if hasattr(one, "passthruActive")}
        return reboot.unmet(steps, vibs, options, active)

    @contextlib.contextmanager
    def _turn(self, link, host, params):
        """In a cluster with vSAN, at most vsan_hosts_down_max hosts are away at a time: this host's turn."""
        vim = session.vim
        cluster = link.read(host, "parent")["parent"]
        vsan = isinstance(cluster, vim.ClusterComputeResource) and link.read(cluster, "configurationEx")["configurationEx"]
        vsan = getattr(vsan or None, "vsanConfigInfo", None)
        most = params["vsan_hosts_down_max"]
        if not vsan or not vsan.enabled or most <= 0:
            yield
            return
        members = link.read(cluster, "host")["host"] or []
        where = "%s-%s" % (link.server, cluster._moId)
        with esxcli_vc.one_of(where, most, self.host, params["reboot_timeout"] * max(1, len(members))):
            deadline, said = time.monotonic() + params["maintenance_timeout"], False
            while True:
                rows = link.read_many([one for one in members if one._moId != host._moId], ["name", "runtime.connectionState", "runtime.inMaintenanceMode"])
                away = reboot.crowded([dict(name=row["name"], state=str(row["runtime.connectionState"]), maintenance=row["runtime.inMaintenanceMode"])
                                       for row in rows], most)
                if not away:
                    break
                if time.monotonic() >= deadline:
                    raise RdmaError("reboot the host", self.host, "the cluster has vSAN and %s %s away already (vsan_hosts_down_max is %d)" % (
                        ", ".join(away), "are" if len(away) > 1 else "is", most), "bring those hosts back first, or raise vsan_hosts_down_max",
                        code="VSAN_HOSTS_DOWN", data=dict(away=away))
                if not said:
                    said = True
                    self._say("waits for %s, which are away" % ", ".join(away))
                session.pause(1.0, deadline)
            yield

    def _result(self, changes, reasons, rebooted, seconds=0.0, before=None, after=None, vms=()) -> dict:
        times = dict(before=before.isoformat() if before else "", after=after.isoformat() if after else "")
        return changes.result(rebooted=rebooted, reasons=reasons, seconds=seconds, boot_time=times, vms_shut_down=list(vms))

    def _say(self, text: str) -> None:
        display.display("%s: %s" % (self.host, text))

    def _foretell(self, changes: Changes, rebooting: bool, params: dict) -> list:
        """What a real run would find belongs to the plan; returned is the consent that it would refuse for lack of."""
        with self.connect(params) as link:
            row = self.host_row(link, params, ("runtime.inMaintenanceMode",))
            running = self._running(lookup.vms_of(link, row["object"])) if rebooting else []
        if not row["runtime.inMaintenanceMode"]:
            self._no_maintenance(changes)
        if not rebooting:
            return []
        needs = ["vm_shutdown_ok: true for %s" % ", ".join(running)] if running and not params["vm_shutdown_ok"] else []
        needs += ["reboot_ok: true"] if not params["reboot_ok"] else []
        changes.steps[-1]["reason"] += "".join("; needs %s" % need for need in needs)
        return needs

    @staticmethod
    def _no_maintenance(changes: Changes) -> None:
        changes.steps = [step for step in changes.steps if step["name"] != "maintenance mode"]

    # ---- before -------------------------------------------------------------------------------------------------------

    @staticmethod
    def _running(vms) -> list:
        return reboot.blocking([dict(name=vm["name"], power=str(vm["runtime.powerState"])) for vm in vms])

    def _stop_vms(self, link, host, params) -> list:
        vms = lookup.vms_of(link, host)
        running = self._running(vms)
        if running and not params["vm_shutdown_ok"]:
            raise RdmaError("reboot the host", self.host, "these VMs run on it: %s" % ", ".join(running),
                            "move or stop them, or set vm_shutdown_ok: true to have them shut down", code="VMS_RUNNING", data=dict(vms=running))
        stopped = [vm for vm in vms if vm["name"] in running]
        for vm in stopped:
            self._say("shuts down the VM %s" % vm["name"])
            power.shut_down(link, vm["object"], vm["name"], params["maintenance_timeout"])
        return stopped

    def _ssh(self, link, system) -> bool:
        """Whether the SSH server runs now: then it is to run after the boot."""
        rows = link.read(system, "serviceInfo.service")["serviceInfo.service"] or []
        return any(one.key == SSH_SERVICE and one.running for one in rows)

    def _enter_maintenance(self, link, host, params) -> None:
        if params["state_file"]:
            services.record(params["state_file"], self.host, MAINTENANCE, dict(since=int(time.time())))
        seconds = params["maintenance_timeout"]
        try:
            mode = session.vim.vsan.host.DecommissionMode(objectAction=reboot.EVACUATION[params["vsan_evacuation"]])
            spec = session.vim.host.MaintenanceSpec(vsanMode=mode)
            tasks.wait(link, host.EnterMaintenanceMode_Task(seconds, False, spec), "enter maintenance mode", self.host, seconds + 30)
        except RdmaError as err:
            names = [row["name"] for row in link.read_many(link.read(host, "vm")["vm"] or [], ["name", "runtime.powerState"])
                     if str(row["runtime.powerState"]) == "poweredOn"]
            raise RdmaError("enter maintenance mode", self.host, "%s; VMs still on: %s" % (err.why, ", ".join(names) or "none"),
                            "move or stop them (vCLS agents move by DRS, or go with the cluster's retreat mode)", code="MAINTENANCE") from err

    def _exit_maintenance(self, link, host, params) -> None:
        if link.read(host, "runtime.inMaintenanceMode")["runtime.inMaintenanceMode"]:
            tasks.wait(link, host.ExitMaintenanceMode_Task(params["maintenance_timeout"]), "leave maintenance mode", self.host, params["maintenance_timeout"])
        if params["state_file"]:
            services.record(params["state_file"], self.host, MAINTENANCE, None)

    # ---- the reboot ---------------------------------------------------------------------------------------------------

    def _reboot(self, link, host, before, force, deadline):
        """The new boot time, once vCenter shows the host connected again."""
        vim = session.vim
        started = said = time.monotonic()
        try:
            task = host.RebootHost_Task(force)
        except vim.fault.InvalidState as err:
            raise RdmaError("reboot the host", self.host, session.fault_text(err), "put it into maintenance mode (maintenance: true)",
                            code="InvalidState") from err
        seen_down, booted, state, now, interval = False, False, "connected", None, 0.5
        while True:
            elapsed = time.monotonic() - started
            try:
                runtime = link.read(host, "runtime")["runtime"]
                state, now = str(runtime.connectionState), runtime.bootTime
                if state != "connected" and not seen_down:
                    seen_down = True
                    self._say("is down")
                booted = state == "connected" and reboot.rebooted(before, now, seen_down)
                if booted:
                    return now
                if not seen_down and task is not None:
                    task = self._task_of_reboot(link, task)
            except (OSError, http.client.HTTPException, session.vmodl.MethodFault) as err:
                # A login straight to the host goes down with it, and a vCenter may be away for a moment: the deadline bounds both.
                seen_down = seen_down or link.is_host
                state = "not readable: %s" % (session.fault_text(err) if isinstance(err, session.vmodl.MethodFault) else err)
            if time.monotonic() >= deadline:
                why, hint = reboot.overdue(elapsed, seen_down, state, reboot.rebooted(before, now, seen_down))
                raise RdmaError("reboot the host within the time", self.host, why, hint, code="REBOOT_TIMEOUT", data=dict(last_state=state))
            if time.monotonic() - said >= SAY_EVERY:
                said = time.monotonic()
                self._say("%s %d s after the reboot began (vCenter shows it as %s)" % ("down" if seen_down else "not yet down", elapsed, state))
            session.pause(interval, deadline)
            interval = min(5.0, max(0.5, elapsed / 20))

    def _task_of_reboot(self, link, task):
        """None once the task has nothing more to say; its fault is ours. A task that ends well says only that the host took it."""
        info = link.read(task, "info")["info"]
        if info is not None and info.state == "error":
            raise tasks.fault(info.error, "reboot the host", self.host)
        return task if info is not None and info.state in ("queued", "running") else None

    # ---- after --------------------------------------------------------------------------------------------------------

    def _ssh_again(self, link, system, ran, params, deadline) -> None:
        """SSH answers again if it did before: the service starts at boot only by its policy, which stays as the site has it."""
        reach.forget(self)
        if not ran:
            return
        if params["start_ssh"] and not self._ssh(link, system):
            try:
                system.StartService(SSH_SERVICE)
            except session.vmodl.MethodFault as err:
                raise session.explain(err, "start the SSH server after the reboot", self.host) from err
        if not self._ssh(link, system):
            return
        where = reach.endpoint(self)
        if where is None:
            return
        why = tasks.until(lambda: reach.answers(where), lambda text: not text or text.startswith("unknown name"), max(30.0, deadline - time.monotonic()))
        if why and not why.startswith("unknown name"):
            raise RdmaError("reach the host by SSH after the reboot", self.host, "%s:%d: %s" % (where + (why,)),
                            "see the host's SSH service, firewall and management network", code="SSH_TIMEOUT")

    def _start_vms(self, link, stopped, params) -> list:
        warnings = []
        for vm in stopped:
            try:
                power.power_on(link, vm["object"], vm["name"], params["maintenance_timeout"])
            except RdmaError as err:  # the host is rebooted: a VM that does not start is worth a word, not a failed reboot
                warnings.append("%s was shut down for the reboot and does not start: %s" % (vm["name"], err))
        return warnings
