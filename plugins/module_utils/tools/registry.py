# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parsers by the name of the tool, as the filter vhpc.rdma.parse knows them."""

from ansible_collections.vhpc.rdma.plugins.module_utils.tools import apps, clck, esxcli, flint, ibverbs, imb, mlxconfig, mlxfwmanager, mst, ofed, osu, perftest

PARSERS = {
    "mst": mst.parse,
    "mlxconfig": mlxconfig.parse,
    "mlxfwmanager": mlxfwmanager.parse,
    "flint": flint.parse,
    "vib_list": esxcli.parse_vib_list,
    "vib_result": esxcli.parse_vib_result,
    "module_parameters": esxcli.parse_module_parameters,
    "pcipassthru": esxcli.parse_pcipassthru,
    "pci_list": esxcli.parse_pci_list,
    "nic_list": esxcli.parse_nic_list,
    "ofed_info": ofed.parse,
    "ibstatus": ibverbs.parse_ibstatus,
    "ibstat": ibverbs.parse_ibstat,
    "ibv_devinfo": ibverbs.parse_ibv_devinfo,
    "rdma_link": ibverbs.parse_rdma_link,
    "perftest": perftest.parse,
    "osu": osu.parse,
    "imb": imb.parse,
    "clck": clck.parse,
}
PARSERS.update(apps.PARSERS)
