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

    def esxi(self, params: dict) -> str:
        """The name of the ESXi host in vCenter."""
        return params.get("esxi_hostname") or self.host

    def connect(self, params: dict, where: str = "", what: str = "") -> t.Any:
        return session.connect(params, where or self.host, what)

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
