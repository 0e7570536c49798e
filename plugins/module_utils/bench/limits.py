# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits and where each of them comes from (pure). A limit without an origin is an opinion."""

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

# name: (value, unit, where it comes from)
DEFAULTS = {
    "bandwidth_percent": (95.0, "% of the link rate",
                          "default of the collection: published checks of 100 Gb/s ConnectX-5 ask for 95 (Azure, HC44rs) and 96 Gb/s (OCI); "
                          "the paper's Figure 17 has 96.2 (InfiniBand) and Figure 19 has 96.1 (RoCE) as the median of the sizes from 64 KiB"),
    "bandwidth_from_size": (65536, "bytes", "default of the collection: below 64 KiB the message rate and not the link limits the bandwidth"),
    "latency_ib_us": (2.0, "us", "default of the collection: the paper's Figure 18 has t_typical 1.07 us at 8 bytes over one switch of 90 ns"),
    "latency_roce_us": (5.0, "us", "default of the collection: OCI's check of 100 Gb/s ConnectX-5 asks for at most 5 us at 8 bytes; the paper's Figure 20 has "
                                   "1.95 us"),
    "latency_size": (8, "bytes", "default of the collection: the size that published latency checks use"),
    "dip_percent": (5.0, "% below the median",
                    "default of the collection: it shows the dip at 512 KiB of the paper's RoCE run (Figure 19) and nothing in its InfiniBand run"),
    "outlier_percent": (5.0, "% worse than the median of all pairs", "default of the collection: pairs of one fabric have the same hardware"),
    "switch_ns_ib": (90.0, "ns", "data sheet of the paper's Mellanox SB7800: 90 ns, one hop between two VMs"),
    "switch_ns_roce": (1754.0, "ns", "data sheet of the paper's Dell S5232F-ON: 877 ns a hop, two hops between two VMs as the paper counts them"),
    "paper_percent": (None, "% worse than the paper", "off unless set; it counts where it is stricter, for ports of 100 Gb/s"),
    "rate_ib_gbps": (None, "Gb/s", "the rate that the ports themselves report"),
    "rate_roce_gbps": (None, "Gb/s", "the rate that the ports themselves report"),
}

# What the paper's two VMs reached: the median bandwidth from 64 KiB in Gb/s, t_typical at 8 bytes in microseconds; and where that stands.
PAPER = {
    "ib": {"bw": (96.18, "the paper's Figure 17"), "lat": (1.07, "the paper's Figure 18")},
    "roce": {"bw": (96.085, "the paper's Figure 19"), "lat": (1.95, "the paper's Figure 20")},
}


def resolve(given=None, origin="set by the user"):
    """All limits as name: dict(value, unit, origin). given: values that replace defaults; None leaves the default."""
    given = dict(given or {})
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise RdmaError("judge by the limit %s" % ", ".join(unknown), why="there is no such limit", hint="use one of %s" % ", ".join(sorted(DEFAULTS)),
                        code="LIMITS")
    out = {}
    for name, (value, unit, source) in DEFAULTS.items():
        if given.get(name) is None or given[name] == value:
            out[name] = dict(value=value, unit=unit, origin=source)
            continue
        number = given[name]
        if isinstance(number, bool) or not isinstance(number, (int, float)) or number < 0:
            raise RdmaError("judge by the limit %s" % name, why="%r is not a number from 0" % (number,), hint="give a number in %s" % unit, code="LIMITS")
        out[name] = dict(value=number, unit=unit, origin="%s (%s; the default is %s)" % (origin, name, value))
    return out
