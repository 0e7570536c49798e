# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""perftest's tables as compact rows, and its failures as causes with something to try (pure)."""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.bench.verdict import kind
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import perftest

LATENCIES = ("t_min", "t_max", "t_typical", "t_avg", "t_stdev", "p99", "p99_9")
# Failure kinds of the parser: (cause, what to try).
CAUSES = {
    "no_device": ("wrong-device", "look at the devices of the guest with rdma_info; the driver may have been restarted under the run"),
    "port_down": ("port-down", "see rdma_info on that guest: cable, switch port, and for InfiniBand the subnet manager"),
    "port": ("wrong-port", "look at the ports of the guest with rdma_info"),
    "gid": ("gid", "both RoCE ports need an IPv4 address, so that both ends use a RoCE v2 GID of the same kind; set them with rdma_link"),
    "memlock": ("memlock", "the session may not lock enough memory: set memlock to unlimited with ofed_guest and log in again"),
    "capabilities": ("driver", "perftest and the driver belong to different releases: install perftest of the same OFED"),
    "resolve": ("name", "give the peer's address in peers"),
    "listen": ("port-busy", "another program, perhaps a server left behind, has the TCP port: choose another one, or end it"),
    "connect": ("server-not-running", "check that the TCP port is open in the firewalls between the guests and that the server's guest is up"),
    "rtr": ("path", "the two ports do not see each other: same subnet and VLAN for RoCE, same subnet manager for InfiniBand, equal MTU"),
    "completion": ("completion", "packets got lost or the two sides had different options: check MTU end to end and PFC on the switch"),
    "options": ("options", "this perftest does not know an option: compare its version on both guests"),
    "peer_lost": ("peer-lost", "the other end died during the run: see its output"),
    "device": ("device", "see dmesg on that guest for mlx5_core"),
    "limit": ("limit", "the tool's own limit was given in extra_args"),
}
# A completion's status tells more than the sentence around it.
STATUSES = {
    10: ("tool-mismatch", "the two ends ran different tests (ib_send_bw against ib_write_bw, for example) or different options: start the same on both"),
    11: ("size-mismatch", "the server took smaller messages than the client sent: give both ends the same size (-s or -a)"),
}
# What the client says when it finds no server does not tell why; a TCP connection of our own does: (cause, text, hint).
CONNECTS = {
    "refused": ("server-not-running", "that guest answers and nothing listens on the port",
                "see why its server ended or never began: its output, whether both ends use the same port, and whether a firewall refuses it"),
    "timeout": ("unreachable", "nothing answers there at all", "see whether the guest is up, has that address, and whether a firewall between the guests "
                                                               "drops the TCP port (perftest's port and control_port must be open)"),
    "unreachable": ("unreachable", "there is no way to that address", "see the routes of both guests, and whether the port that leads there is up"),
    "unknown": ("name", "the name is not known", "give the peer's address in peers, or vhpc_peer_address in the inventory"),
}
# The same for the door at which two guests meet before perftest runs at all.
DOORS = dict(CONNECTS, refused=("server-not-running", "that guest answers, but its part of the measurements does not run",
                                "see the result of phase start on that guest, and whether both have the same control_port"))
TEXT = 500


def compact(parsed, test):
    """Rows as lists in the order of verdict.COLUMNS; bandwidths in Gb/s whatever unit the table has."""
    if kind(test) == "lat":
        return [[row["bytes"]] + [row.get(name) for name in LATENCIES] for row in parsed["rows"]]
    unit = parsed["unit"]
    return [[row["bytes"], perftest.gbits(row.get("bw_peak"), unit), perftest.gbits(row.get("bw_average"), unit), row.get("msg_rate")]
            for row in parsed["rows"]]


def tail(text):
    text = text.strip()
    return text if len(text) <= TEXT else "..." + text[-TEXT:]


def failure(text, code=None, timed_out=None):
    """dict(cause, text, hint) from what a side said; None when it says nothing of a failure.

    code: its return code, None while unknown; timed_out: after how many seconds it was stopped.
    """
    try:
        error = perftest.parse(text).get("error")
    except ParseError:
        error = dict(kind="other", text=tail(text)) if code and code > 0 and text.strip() else None
    if error:
        cause, hint = CAUSES.get(error["kind"], ("other", "see the output of both ends"))
        # Two ends that do not fit fail with their first message; what fails later has another reason.
        if error["kind"] == "completion" and not re.search(r"ccnt=\s*0*[1-9]", error["text"]):
            cause, hint = STATUSES.get(error.get("status"), (cause, hint))
        if error["kind"] == "gid" and "should be between" in error["text"]:
            cause, hint = "gid-range", "the GID index does not exist on that device: leave -x out of extra_args, it is looked up"
        return dict(cause=cause, text=tail(error["text"]), hint=hint)
    if timed_out is not None:
        return dict(cause="timeout", text="it did not end within %g seconds" % timed_out,
                    hint="a path that loses packets hangs like this: check link, MTU and PFC; or raise test_timeout for a slow system")
    if code and code < 0:
        return dict(cause="killed", text="ended by signal %d%s" % (-code, ": " + tail(text) if text.strip() else ""),
                    hint="somebody or the kernel ended it: look in dmesg of that guest for the out-of-memory killer, and who else works there")
    if code:
        return dict(cause="other", text="return code %s%s" % (code, ": " + tail(text) if text.strip() else ""), hint="see the output of both ends")
    return None


def refine(error, connect="", empty_gid=""):
    """A failure with what was looked up after it, where perftest says the same for several causes.

    connect: what a TCP connection to the server's port came to (a key of CONNECTS); empty_gid: whose GID entry is empty.
    """
    # A firewall that drops lets the client wait for minutes: then it was ended before it could say anything.
    hung = error and error["cause"] == "timeout" and connect in ("timeout", "unreachable")
    if error and (error["cause"] == "server-not-running" and connect in CONNECTS or hung):
        cause, text, hint = CONNECTS[connect]
        return dict(error, cause=cause, text="%s; %s" % (error["text"], text), hint=hint)
    if error and error["cause"] == "path" and empty_gid:
        return dict(error, cause="gid-empty", text="%s; the GID that %s was to use is empty" % (error["text"], empty_gid),
                    hint="the port lost its address in the middle, or extra_args name an entry (-x): set the address with rdma_link, leave -x out")
    return error


def closed(probe, err):
    """(cause, text, hint) when a partner's door stays shut. probe: what a connection to it came to (a key of CONNECTS)."""
    cause, text, hint = DOORS.get(probe, ("peer-dead", "nobody answers", "see whether that guest is up and whether its TCP ports are open"))
    return cause, "%s (%s)" % (text, err), hint


def could_not_connect(text):
    """Whether a client only came too early: its server does not listen yet."""
    try:
        error = perftest.parse(text).get("error") or {}
    except ParseError:
        return False
    return error.get("kind") == "connect"


def worse(client, server):
    """Which of two failures tells more: a side that could not connect or ran out of time knows least, one that was killed is the reason."""
    vague = ("server-not-running", "unreachable", "timeout", "other", "peer-lost", "peer-dead")
    if client is None or server is None:
        return client or server
    if "killed" in (client["cause"], server["cause"]):
        return client if client["cause"] == "killed" else server
    return server if client["cause"] in vague and server["cause"] not in ("timeout", "peer-lost") else client
