# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: rdma_study
short_description: Compare configurations of a benchmark and judge claims by their figures
version_added: 0.1.0
author:
  - vhpc.rdma authors (@vhpc-rdma)
description:
  - Computes deltas to a baseline and strong-scaling efficiencies, bare metal against VM, InfiniBand against RoCE, few against many processes.
  - Of a time, C(delta = (T - T_base) / T_base) and C(efficiency = T_1 / (n * T_n)); of a rate, C(delta = (R_base - R) / R_base) and
    C(efficiency = R_n / (n * R_1)).
  - The gauge, what fewer processes cost by themselves, is computed from the processes per node and the direction, C(P / p - 1) of a time and
    C(1 - p / P) of a rate. The paper's, the one of rates for both, stands beside it.
  - Every verdict is reached on unrounded values. Printed figures stand for an interval, and what the interval leaves open is said to be open.
  - Writes C(claims.json), C(tables.json), C(tables.csv), C(figures.json) and C(study.html), which opens offline. Runs on the controller and talks to no host.
  - The figures and the claims of the paper are in C(playbooks/files) of the collection, and C(playbooks/study.yml) judges them.
extends_documentation_fragment:
  - vhpc.rdma.attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode no file is written.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - The files are written on each run; that is not reported as a change.
options:
  tables_file:
    description:
      - YAML file with the figures, in the form of C(playbooks/files/paper_tables.yml).
      - One of this option and O(tables) is needed.
    type: path
  tables:
    description:
      - The figures themselves, by name of the table. They are merged with tables of the same name in O(tables_file), row by row.
      - A table has C(nodes), C(rows) (configuration to values, one for each node count, null where there is none), C(sense) (V(lower) or V(higher) is
        better), and may have C(baseline), C(app), C(fabric), C(unit), C(kind) (V(performance) or V(efficiency)) C(resolution) (the unit of the
        last printed digit, 0 for unrounded figures; read from the digits when left out) and C(ranges) (smallest and largest of repeats).
    type: dict
  configs:
    description: Processes per node of the configurations whose names do not tell, as C({name- {processes- 44}}).
    type: dict
  claims_file:
    description: YAML file with claims, in the form of C(playbooks/files/paper_claims.yml).
    type: path
  claims:
    description:
      - More claims, in the same form.
      - A claim compares rows of one table. C(baseline_table) takes C(baseline) from another one, to compare a fabric with the other.
    type: list
    elements: dict
  runs:
    description: The runs that the figures come from, as M(vhpc.rdma.mpi_benchmark) returns them; kept as JSON, CSV and performance logs of ReFrame's form.
    type: list
    elements: dict
  config:
    description: What the configuration of O(runs) is called. C({ppn}) is replaced by the number of processes per node.
    type: str
    default: ''
  directory:
    description: Directory on the controller that gets the files. Made when it is not there.
    type: path
    required: true
  title:
    description: Title of the page.
    type: str
    default: Bare metal and VM, InfiniBand and RoCE
"""

EXAMPLES = r"""
- name: Compare our VMs with our bare metal nodes
  vhpc.rdma.rdma_study:
    directory: build/study
    tables:
      gromacs.roce:
        sense: higher
        unit: ns/day
        resolution: 0
        nodes: [1, 2, 4]
        baseline: BM.48
        rows:
          BM.48: [0.5613, 1.1371, 2.2902]
          VM.44: [0.5502, 1.0618, null]
    claims:
      - id: vm-loses-at-most-7-percent
        table: gromacs.roce
        config: VM.44
        baseline: BM.48
        nodes: 2
        claimed: 7
"""

RETURN = r"""
verdicts:
  description:
    - The verdict of every claim by its id, one of V(reproduces), V(consistent within rounding), V(cannot be decided from rounded input),
      V(false as printed, possible by rounding), V(contradicted) and V(cannot be checked).
  returned: success
  type: dict
  sample: {openfoam-ib-max: reproduces}
claims:
  description: The claims with verdict, text, and the values and intervals that decided.
  returned: success
  type: list
  elements: dict
counts:
  description: How many claims have each verdict.
  returned: success
  type: dict
tables:
  description: Deltas, efficiencies, their intervals and gauges by table and configuration.
  returned: success
  type: dict
over_the_gauge:
  description: The cells whose delta is over the gauge as printed, and whether that is certain.
  returned: success
  type: list
  elements: dict
fabrics:
  description:
    - RoCE against InfiniBand, where two tables have the same application and configuration on both; C(cells) has for each number of nodes the two values,
      C(delta) and C(delta_interval) of RoCE against InfiniBand, and C(verdict).
    - A configuration is the same when its name is, apart from the fabric in it.
  returned: success
  type: list
  elements: dict
efficiencies:
  description: How many printed efficiencies follow from the printed figures exactly, within rounding, or not.
  returned: success
  type: dict
absent:
  description: Tables without figures.
  returned: success
  type: list
  elements: str
paths:
  description:
    - The files, by kind (V(claims), V(tables), V(csv), V(html), V(figures), and with O(runs) V(runs), V(runs_csv) and V(perflog_NAME)).
    - V(figures) is what O(tables_file) of a later comparison takes.
  returned: success
  type: dict
"""
