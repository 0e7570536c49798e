# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waits until a guest answers where Ansible connects to it."""

from __future__ import annotations

import time

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.vhpc.rdma.plugins.module_utils.changes import Changes
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import reach
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere import lookup, session
from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.common import VsphereAction, display

SAY_EVERY = 15
ASK_EVERY = 20  # seconds between two questions to vCenter
WORD = "vhpc-rdma-answers"


class ActionModule(VsphereAction):
    WHAT = "ask vCenter for the VM"
    SPEC = dict(
        session.VCENTER_SPEC,
        name=dict(type="str"),
        wait_timeout=dict(type="int", default=600),
    )

    def act(self, params: dict, task_vars: dict) -> dict:
        changes = Changes("guest")
        started = said = time.monotonic()
        deadline = started + params["wait_timeout"]
        asked, interval = 0.0, 0.5
        reach.forget(self)  # an earlier connection may lead to the system before a restart
        where = reach.endpoint(self)
        while True:
            why = self._answers(where)
            elapsed = time.monotonic() - started
            if not why:
                return changes.result(reachable=True, seconds=round(elapsed, 1))
            if self.check_mode:
                # Without the address: guests that wait for the same thing stand together in the plan.
                changes.add("guest %s" % self.host, "answers", False, True, certainty="conditional",
                            reason="it does not answer yet: %s" % why.rsplit(": ", 1)[-1])
                return changes.result(reachable=False, seconds=round(elapsed, 1))
            if params["hostname"] and params["name"] and (not asked or time.monotonic() - asked >= ASK_EVERY):
                asked = time.monotonic()
                self._vm_is_on(params)
            if time.monotonic() >= deadline:
                raise RdmaError("reach the guest", "%s%s" % (self.host, " (VM %s)" % params["name"] if params["name"] else ""),
                                "after %d s: %s" % (elapsed, why), "see the VM's console: has it booted, has it its address, does sshd run?",
                                code="GUEST_TIMEOUT")
            if time.monotonic() - said >= SAY_EVERY:
                said = time.monotonic()
                display.display("%s: no answer for %d s (%s)" % (self.host, elapsed, why))
            session.pause(interval, deadline)
            interval = min(interval * 1.3, 5.0)

    def _answers(self, where) -> str:
        """Empty when a command comes back through the connection, else why not."""
        if where is not None:
            why = reach.answers(where)
            if why and not why.startswith("unknown name"):
                return "%s:%d: %s" % (where + (why,))
        try:
            done = self._low_level_execute_command("echo %s" % WORD, sudoable=False)
        except AnsibleConnectionFailure as err:
            reach.forget(self)
            return str(err).strip().splitlines()[-1] if str(err).strip() else "no connection"
        if WORD not in done.get("stdout", ""):
            return "a command through the connection ends with %s: %s" % (done.get("rc"), (done.get("stderr") or done.get("stdout") or "").strip()[:200])
        return ""

    def _vm_is_on(self, params) -> None:
        with self.connect(params) as link:
            state = str(lookup.find_vm(link, params["name"], ("runtime.powerState",))["runtime.powerState"])
        if state != "poweredOn":
            raise RdmaError("reach the guest", self.host, "the VM %s is %s" % (params["name"], "off" if state == "poweredOff" else state),
                            "power it on (vhpc.rdma.vm_power, or the vsphere role)", code="VM_OFF")
