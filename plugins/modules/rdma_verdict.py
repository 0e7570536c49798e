# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: rdma_verdict
short_description: Judge the measurements of all pairs of guests
version_added: "0.1.0"
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Takes what M(vhpc.rdma.perftest) collected on every guest and judges each measurement by limits that say where they come from.
  - The bandwidth of a pair is the median of the sizes from 64 KiB. A single size far below it is a warning, as is a pair that is
    clearly worse than the others.
  - Pairs that fail are told apart. A node is bad with most of its partners, a link with one.
  - Works on the controller and reads nothing but the results that were registered.
extends_documentation_fragment:
  - vhpc.rdma.attributes
  - vhpc.rdma.attributes.info
options:
  hosts:
    description:
      - Guests whose results are judged.
      - If it is not set, all hosts of the play.
    type: list
    elements: str
  variable:
    description: Name of the variable in which each of them has the result of M(vhpc.rdma.perftest) with O(vhpc.rdma.perftest#module:phase=collect).
    type: str
    default: verify_mesh_result
  results:
    description: The results themselves, each with the key C(self_name), instead of those of O(hosts).
    type: list
    elements: dict
  limits:
    description: Limits that replace the defaults. Each verdict says which limit it was judged by and where that comes from.
    type: dict
    suboptions:
      bandwidth_percent:
        description: Least bandwidth in percent of the link rate; 95 when it is not set.
        type: float
      bandwidth_from_size:
        description: Sizes in bytes from which on the median is taken; 65536 when it is not set.
        type: int
      latency_ib_us:
        description: Most latency on InfiniBand in microseconds; 2.0 when it is not set.
        type: float
      latency_roce_us:
        description: Most latency on RoCE in microseconds; 5.0 when it is not set.
        type: float
      latency_size:
        description: Size in bytes at which the latency is taken; 8 when it is not set.
        type: int
      dip_percent:
        description: By how many percent a single size may lie below the median without a warning; 5 when it is not set.
        type: float
      outlier_percent:
        description:
          - By how many percent a pair may be worse than the median of all pairs without a warning. For latency three times that.
          - 5 when it is not set.
        type: float
      switch_ns_ib:
        description: What the switch adds to the latency on InfiniBand in nanoseconds, to show its share; 90 when it is not set. 0 shows none.
        type: float
      switch_ns_roce:
        description: What the switch adds to the latency on RoCE in nanoseconds, to show its share; 1754, two hops of 877, when it is not set. 0 shows none.
        type: float
      paper_percent:
        description:
          - By how many percent a figure may be worse than the paper's (Figures 17 to 20). It counts where it is stricter than the other limit.
          - Only for ports of 100 Gb/s, and the usual sizes. Off when it is not set.
        type: float
      rate_ib_gbps:
        description: Link rate of InfiniBand in Gb/s to judge by instead of what the ports report.
        type: float
      rate_roce_gbps:
        description: Link rate of RoCE in Gb/s to judge by instead of what the ports report.
        type: float
  enforce:
    description: Whether a failed verdict fails the task. In check mode it never does.
    type: bool
    default: true
  cluster_checker:
    description:
      - Results of Intel Cluster Checker, where the site has it. The file C(clck_results.log), on the controller.
      - Its issues are returned with the guests that they name, and those about a blamed guest are among RV(text). They do not change a verdict.
    type: path
"""

EXAMPLES = r"""
- name: Judge what all guests measured
  vhpc.rdma.rdma_verdict:
  run_once: true
  register: verify_verdict_result

- name: Judge by the limits of another card
  vhpc.rdma.rdma_verdict:
    limits:
      bandwidth_percent: 93
      latency_ib_us: 1.5
    enforce: false
  run_once: true
"""

RETURN = r"""
summary:
  description: Counts, and per fabric and test the limits, statistics and the worst pair.
  returned: always
  type: dict
  sample: {status: warn, judged: 480, passed: 360, warned: 120, failed: 0}
verdicts:
  description: One entry for each fabric, test and pair.
  returned: always
  type: list
  elements: dict
  contains:
    fabric:
      description: V(ib) or V(roce).
      type: str
    test:
      description: Name of the test.
      type: str
    server:
      description: Guest that served.
      type: str
    client:
      description: Guest that measured.
      type: str
    status:
      description: V(pass), V(warn) or V(fail).
      type: str
    metric:
      description: What was judged.
      type: str
    value:
      description: Its value.
      type: float
    unit:
      description: Its unit.
      type: str
    limit:
      description: The limit in words.
      type: str
    limit_value:
      description: The limit as a number.
      type: float
    limit_from:
      description: Where the limit comes from.
      type: str
    warnings:
      description:
        - Dips at single sizes, how far the pair is worse than the others, repeats that failed or that differ, and an MTU with which the limit cannot be met.
      type: list
      elements: dict
    repeats:
      description: Statistics of the repeats, where a pair was measured more than once; RV(verdicts[].value) is their median.
      type: dict
    error:
      description: Why there is no value.
      type: dict
pairs:
  description: One entry for each fabric and pair, with the value and status of each test.
  returned: always
  type: list
  elements: dict
matrix:
  description: By fabric the names of the hosts and by test a square table of values in their order.
  returned: always
  type: dict
blame:
  description:
    - What the failed pairs point to. C(kind) is V(node) (bad with most partners), V(direction) (slow with most partners, but only when it sends, or only
      when it receives), V(link) (bad with one partner), V(pair) (with two hosts nobody can tell) or V(fabric) (nearly all pairs).
    - C(severity) is V(fail), or V(warn) where all pairs keep their limits and a node is worse than the fleet with most partners.
    - C(differs) says what the port of a blamed guest has unlike most others (MTU, link rate, firmware, PSID, state), and so does C(text).
  returned: always
  type: list
  elements: dict
  sample:
    - {fabric: ib, kind: node, names: [vm03], bad: 15, of: 15, severity: fail, causes: {slow: 30}, text: "vm03 is bad with 15 of its 15 partners"}
noisy:
  description:
    - Guests whose figures scatter while their middle is as it should be, by fabric and test. They are not blamed, nor are paths to them, for figures that the
      scatter explains.
  returned: always
  type: list
  elements: dict
cluster_checker:
  description: What O(cluster_checker) says, with C(status), C(result), C(counts) and C(issues), each with C(hosts), the guests of the schedule that it names.
  returned: always
  type: dict
  sample: {}
silent:
  description: Guests of the schedule that sent no result.
  returned: always
  type: list
  elements: str
limits:
  description: All limits with value, unit and origin.
  returned: always
  type: dict
hosts:
  description: The guests of the schedule.
  returned: always
  type: list
  elements: str
text:
  description: The outcome in words, the worst first.
  returned: always
  type: list
  elements: str
"""
