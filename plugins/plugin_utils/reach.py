# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a host of the inventory answers where Ansible would connect to it."""

from __future__ import annotations

import socket
import typing as t

from ansible.errors import AnsibleError

SILENT = "the port is open, but no SSH server greets"
SSH = ("ssh", "paramiko", "paramiko_ssh", "ssh_legacy", "libssh")


def _over_ssh(action: t.Any) -> bool:
    return getattr(action._connection, "transport", "").rsplit(".", 1)[-1] in SSH


def endpoint(action: t.Any) -> tuple[str, int] | None:
    """(address, port) of the task's own connection; None where a probe says nothing (not SSH, or through a jump host)."""
    connection = action._connection
    if not _over_ssh(action):
        return None
    options = []
    for name in ("ssh_args", "ssh_common_args", "ssh_extra_args"):
        try:
            options.append(str(connection.get_option(name) or ""))
        except (KeyError, AttributeError, AnsibleError):
            pass
    if any(word in " ".join(options) for word in ("ProxyJump", "ProxyCommand", "-J ", "-F ")):
        return None
    host, port = getattr(action._play_context, "remote_addr", None), None
    try:
        host = connection.get_option("host") or host
        port = connection.get_option("port")
    except (KeyError, AttributeError, AnsibleError):
        port = getattr(action._play_context, "port", None)
    return (host, int(port or 22)) if host else None


def user(action: t.Any) -> str:
    """Who the task's own connection logs in as."""
    try:
        return action._connection.get_option("remote_user") or ""
    except (KeyError, AttributeError, AnsibleError):
        return getattr(action._play_context, "remote_user", None) or ""


def answers(where: tuple[str, int], seconds: float = 3.0) -> str:
    """Empty when an SSH server greets there, else why not; "unknown name" may still be a name that only ssh knows."""
    try:
        with socket.create_connection(where, timeout=seconds) as link:
            link.settimeout(seconds)
            greeting = link.recv(16)
    except socket.gaierror as err:
        return "unknown name: %s" % err
    except ConnectionResetError:
        return SILENT
    except OSError as err:
        return str(err) or type(err).__name__
    return "" if greeting.startswith(b"SSH-") else SILENT


def forget(action: t.Any) -> None:
    """Drop a connection that outlives its task (ControlPersist): after a reboot its other end is gone."""
    if not _over_ssh(action):
        return
    try:
        action._connection.reset()
    except (AnsibleError, AttributeError, OSError):
        pass  # nothing was open, or the connection type cannot: then there is nothing to drop
