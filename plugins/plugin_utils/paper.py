# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the paper measured (InfiniBand and RoCE Setup and Performance Study on vSphere 7.x, Figures 17 to 20).

Two VMs, ConnectX-5 VPI by DirectPath I/O, `-a`, 1000 iterations a size; sizes are powers of two from 2 bytes to 8 MiB.
Bandwidth: average in Gb/s. Latency: t_typical in microseconds.
"""

from __future__ import annotations

SIZES = [2 ** n for n in range(1, 24)]
CURVES = {
    ("ib", "send_bw"): {"figure": 17, "values": [
        0.11, 0.22, 0.45, 0.9, 1.81, 3.7, 5.68, 12.37, 27.44, 53.44, 79.7, 93, 95.04, 95.66, 95.81, 96.06, 96.17, 96.14, 96.19, 96.16, 96.26, 96.24, 96.21]},
    ("ib", "send_lat"): {"figure": 18, "values": [
        1.09, 1.08, 1.07, 1.07, 1.11, 1.22, 1.26, 1.68, 1.74, 1.94, 2.11, 2.65, 3.35, 4.87, 7.05, 9.77, 15.53, 27.42, 51.16, 98.23, 189.47, 364.16, 714.27]},
    ("roce", "send_bw"): {"figure": 19, "values": [
        0.11, 0.22, 0.33, 0.84, 1.51, 3.36, 6.64, 14, 23.12, 49.42, 74.49, 91.29, 94.89, 96.07, 96.49, 96.8, 97, 96.66, 89.98, 93.07, 95.12, 95.96, 96.21]},
    ("roce", "send_lat"): {"figure": 20, "values": [
        1.96, 1.95, 1.95, 1.96, 1.99, 2.06, 2.1, 2.51, 2.57, 2.71, 3.02, 3.55, 4.26, 5.75, 7.92, 10.71, 16.15, 28.42, 52.84, 101.12, 194.48, 368.09, 715.99]},
}
