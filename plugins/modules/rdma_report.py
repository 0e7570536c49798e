# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: rdma_report
short_description: Write the evidence of a run as one HTML page, JSON, CSV and JUnit XML, compare two runs; in check mode the plan
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Collects what the collection's roles registered and writes C(report.html) (self-contained), C(report.json), C(pairs.csv) and C(curves.csv), and where
    asked for C(junit.xml) and ReFrame performance logs in C(perflogs).
  - The report says the verdict, the worst pairs and the reasons first; then the matrix of pairs per fabric, the curves beside the paper's Figures 17 to 20,
    MPI benchmarks and applications with their gauge, the testbed, the fleet with what differs between hosts, what was changed where, which reboots were done
    and why, and how to repeat the run. Every limit says where it comes from.
  - Charts are drawn by matplotlib where that is installed; without it the page says so and keeps its tables.
  - The form of C(report.json) is published as C(docs/report.schema.json) (JSON Schema 2020-12).
  - With O(before) the run is compared with an earlier one; with O(before) and O(after) two earlier ones are, and nothing else is written. A figure counts as
    changed when it moved by more than three standard deviations of what it scatters by and by more than 1 %. Its scatter is told by the median absolute
    deviation of its repeats, or of all pairs of its fabric and test where there are no repeats.
  - C(done.json) holds what happened in the form of M(vhpc.rdma.rdma_plan)'s plan.
  - In check mode nothing happened, so it shows the plan and writes C(plan.json) instead.
  - Where no other stage ran in this run (C(--tags report) alone) there is nothing to tell. It warns, and leaves what an earlier run wrote.
  - The command line is part of the report. Values of extra variables whose names may mean a secret are hidden.
  - It runs on the controller and talks to no host.
extends_documentation_fragment:
  - vhpc.rdma.attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode C(plan.json) is written, because the plan is what check mode is run for.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - The files are written on each run; that is not reported as a change.
requirements:
  - matplotlib 3.6 or newer, for charts
options:
  directory:
    description: Directory on the controller that gets the files. Made when it is not there.
    type: path
    required: true
  title:
    description: Title of the page.
    type: str
    default: InfiniBand and RoCE on vSphere
  source:
    description:
      - Where the figures come from. It stands on every page and in every line of the CSV files.
      - V(simulated) and V(soft-roce) also show a banner, because figures of a simulated site or of RDMA in software say nothing about hardware.
    type: str
    default: measured
  hosts:
    description: The hosts to report on. When not given, every host that a stage of this run has read, and every host that failed before that.
    type: list
    elements: str
  before:
    description: The C(report.json) of an earlier run, to compare with this run or with O(after). C(comparison.html) and C(comparison.json) are written.
    type: path
  after:
    description: The C(report.json) of a later run. Then only the comparison is written.
    type: path
  bare_metal:
    description: The C(report.json) of a run on bare metal; its machines stand beside the VMs in the table of testbeds.
    type: path
  charts:
    description: Whether the page has charts, where matplotlib is installed.
    type: bool
    default: true
  junit:
    description: Whether C(junit.xml) is written, with a test case for each host and stage, each pair, and each benchmark run.
    type: bool
    default: true
  perflogs:
    description: Whether C(perflogs) is written, with a line for each pair in the form of ReFrame's performance logs; the limit is the reference.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Write the report
  vhpc.rdma.rdma_report:
    directory: build/report
  run_once: true

- name: What the new firmware changed
  vhpc.rdma.rdma_report:
    directory: build/firmware
    before: "{{ earlier }}/report.json"
    after: "{{ later }}/report.json"
  run_once: true
  when: earlier is defined and later is defined
"""

RETURN = r"""
paths:
  description: The files, by kind.
  returned: always
  type: dict
  contains:
    plan:
      description: The plan, in check mode.
      type: str
    done:
      description: What happened, in the form of a plan.
      type: str
    html:
      description: The page.
      type: str
    json:
      description: All data of the page.
      type: str
    pairs:
      description: One line per pair and fabric.
      type: str
    curves:
      description: One line per fabric, test and message size.
      type: str
    benchmarks:
      description: One line per benchmark and layout, where benchmarks ran.
      type: str
    junit:
      description: The test cases, with O(junit).
      type: str
    comparison_html:
      description: The comparison as a page, with O(before).
      type: str
    comparison_json:
      description: The comparison as data, with O(before).
      type: str
source:
  description: Where the figures come from.
  returned: always
  type: str
status:
  description: V(pass), V(warn), V(fail), or V(none) where nothing was measured and nothing failed.
  returned: when a report is written
  type: str
reboots:
  description: Per host a list of reboots, each a list of reasons.
  returned: always
  type: dict
failures:
  description: Per host what failed.
  returned: always
  type: dict
summary:
  description: Counts and statistics of the verdicts, as M(vhpc.rdma.rdma_verdict) returns them.
  returned: always
  type: dict
comparison:
  description:
    - What got better and worse. C(verdict) is the one line; C(new_failures) (hosts) and C(newly_failed) (figures) come first, then C(worse),
      C(better), C(fleet) (medians of all pairs) and C(versions).
  returned: with O(before)
  type: dict
"""
