# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: rdma_report
short_description: Write the evidence of a run as one HTML page, JSON and CSV; in check mode the plan
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Collects what the collection's roles registered and writes C(report.html) (self-contained), C(report.json), C(pairs.csv) and C(curves.csv).
  - The report says what was changed where, which reboots were done and why, versions, the matrix of pairs per fabric, the curves beside
    the paper's Figures 17 to 20, and the verdicts with the origin of every limit.
  - C(done.json) holds what happened in the form of M(vhpc.rdma.rdma_plan)'s plan.
  - In check mode nothing happened, so it shows the plan and writes C(plan.json) instead.
  - Where no other stage ran in this run (C(--tags report) alone) there is nothing to tell. It warns, and leaves what an earlier run wrote.
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
"""

EXAMPLES = r"""
- name: Write the report
  vhpc.rdma.rdma_report:
    directory: build/report
  run_once: true
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
source:
  description: Where the figures come from.
  returned: always
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
"""
