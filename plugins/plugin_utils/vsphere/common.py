# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the action plugins of the vSphere stage share."""

from __future__ import annotations

import typing as t

from ansible.utils.display import Display
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils.action import RdmaAction

from . import lookup, passthru, session

display = Display()
HOST_SPEC: dict = dict(session.VCENTER_SPEC, esxi_hostname=dict(type="str"))
POWER_SECONDS = 300


class VsphereAction(RdmaAction):
    """act() opens one session; every error names the inventory host and, where they differ, the name in vCenter."""

    WHAT = ""  # what the module does, for errors that no better words were found for

    def esxi(self, params: dict) -> str:
        """The name of the ESXi host in vCenter."""
        return params.get("esxi_hostname") or self.host

    def connect(self, params: dict, where: str = "") -> t.Any:
        return session.connect(params, where or self.host, self.WHAT)

    def host_row(self, link: t.Any, params: dict, paths: tuple[str, ...]) -> dict:
        """The host with the properties asked for; a host that does not answer vCenter is told at once."""
        host = lookup.find_host(link, self.esxi(params))
        row = link.read(host, "runtime.connectionState", *paths)
        state = row["runtime.connectionState"]
        if state != "connected":
            raise host_down(self.esxi(params), str(state))
        return row

    def devices(self, link: t.Any, host: t.Any) -> list[dict]:
        return passthru.devices_of(link.read(host, *passthru.HOST_PATHS))


def host_down(name: str, state: str) -> RdmaError:
    return RdmaError("work with the host", name, "vCenter shows it as %s" % state,
                     "see the host's console or its BMC; once it is back and connected, run again", code="HOST_DOWN")


def consent_missing(what: str, where: str, why: str, option: str, data: dict | None = None, code: str = "NO_CONSENT") -> RdmaError:
    return RdmaError(what, where, why, "set %s: true when that is all right" % option, code=code, data=data)


def check_vm_host(params: dict, host_row: dict, what: str, where: str) -> None:
    """The VM is on the host that the task names (if it names one), and that host answers. host_row: name, runtime.connectionState."""
    asked = params.get("esxi_hostname")
    if asked and asked.lower().split(".")[0] != (host_row["name"] or "").lower().split(".")[0]:
        raise RdmaError(what, where, "the VM is on %s, not on %s" % (host_row["name"], asked),
                        "correct the VM's name or its host, or move the VM back while it is off", code="OTHER_HOST")
    if host_row["runtime.connectionState"] != "connected":
        raise host_down(host_row["name"], str(host_row["runtime.connectionState"]))
