# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.text.converters import to_text

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools.registry import PARSERS

DOCUMENTATION = r"""
name: parse
short_description: Read the output of an RDMA tool as data
version_added: "0.1.0"
author: The vhpc.rdma authors (@vhpc-rdma)
description:
  - Turns what one of the tools of this field prints into plain dictionaries and lists, for people who only have logs.
  - An error text of the tool itself is data too, the result then has the key C(error) beside what else could be read.
  - Text that is not the output of the named tool fails.
  - The text may hold both streams of the tool. Lost blank lines, trailing blanks and squeezed columns are accepted where the grammar allows it.
positional: tool
options:
  _input:
    description: What the tool printed.
    type: str
    required: true
  tool:
    description:
      - The tool, or the part of it, that printed the text.
      - V(mst) is C(mst status) with or without C(-v), C(mst start) and C(mst restart), on ESXi and on Linux.
      - V(mlxconfig) is a query, a set or the JSON file of C(mlxconfig) or C(mstconfig).
      - V(mlxfwmanager) is a query as text or XML or an update of C(mlxfwmanager) or C(mlxup).
      - V(flint) is a query or a burn of C(flint) or C(mstflint).
      - V(vib_list) is C(esxcli software vib list) or C(vib get), V(vib_result) the result of an installation, update or removal.
      - V(module_parameters) is C(esxcli system module parameters list).
      - V(pcipassthru) is C(esxcli hardware pci pcipassthru list) or the answer of C(set), V(pci_list) is C(esxcli hardware pci list).
      - V(nic_list) is C(esxcli network nic list), C(esxcfg-nics -l) or C(esxcli network nic get).
      - V(ofed_info) is C(ofed_info) with or without C(-s).
      - V(ibstatus), V(ibstat), V(ibv_devinfo) and V(rdma_link) are the guest's tools of that name.
      - V(perftest) is any bandwidth or latency test of perftest, its failure, or its JSON file.
      - V(osu) is any size table of the OSU micro-benchmarks, V(imb) the Intel MPI Benchmarks.
      - V(clck) is the summary of Intel Cluster Checker, from the screen or its C(clck_results.log).
      - V(openfoam), V(wrf), V(lammps), V(gromacs) and V(namd) are the logs of these applications, V(ucx) is C(ucx_perftest).
        The result has C(value), C(unit), C(direction), C(success), C(series) and what was C(discarded) and why.
    type: str
    required: true
    choices:
      - mst
      - mlxconfig
      - mlxfwmanager
      - flint
      - vib_list
      - vib_result
      - module_parameters
      - pcipassthru
      - pci_list
      - nic_list
      - ofed_info
      - ibstatus
      - ibstat
      - ibv_devinfo
      - rdma_link
      - perftest
      - osu
      - imb
      - clck
      - openfoam
      - wrf
      - lammps
      - gromacs
      - namd
      - ucx
"""

EXAMPLES = r"""
- name: Peak bandwidth of a run that is only there as a log
  ansible.builtin.debug:
    msg: "{{ (lookup('ansible.builtin.file', 'node07.log') | vhpc.rdma.parse('perftest')).rows | map(attribute='bw_peak') | max }}"

- name: Cards whose running firmware is not the one on flash
  ansible.builtin.debug:
    msg: "{{ (query_output | vhpc.rdma.parse('mlxfwmanager')).devices | rejectattr('fw', 'equalto', item.fw_running) }}"

- name: Link type that port 1 will have after the next boot
  ansible.builtin.debug:
    msg: "{{ (query_output | vhpc.rdma.parse('mlxconfig')).devices[0].parameters.LINK_TYPE_P1.next }}"
"""

RETURN = r"""
_value:
  description:
    - What the tool said. The keys depend on the tool, for example C(devices) for V(mst), V(mlxconfig) and V(mlxfwmanager), C(vibs) for V(vib_list),
      C(ports) for V(ibstatus), C(links) for V(rdma_link), C(header), C(unit) and C(rows) for V(perftest).
    - C(error) is there when the tool reported an error. For V(perftest) it is a dictionary with C(kind) and C(text), else a string.
  type: dict
"""


def parse(text, tool):
    """The filter: which parser, then its data or its complaint."""
    if not isinstance(tool, str) or tool not in PARSERS:
        raise AnsibleFilterError("vhpc.rdma.parse: there is no parser for %r; there are: %s" % (tool, ", ".join(sorted(PARSERS))))
    if not isinstance(text, (str, bytes)):
        kind = "a dictionary" if isinstance(text, Mapping) else "a list" if isinstance(text, Sequence) else type(text).__name__
        raise AnsibleFilterError("vhpc.rdma.parse: the output of %s has to be text, not %s; of a registered result give its stdout" % (tool, kind))
    try:
        return PARSERS[tool](to_text(text))
    except ParseError as err:
        raise AnsibleFilterError("vhpc.rdma.parse: %s" % err.text()) from err


class FilterModule:
    """The filters of this file."""

    def filters(self):
        return {"parse": parse}
