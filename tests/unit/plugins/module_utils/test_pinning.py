# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Both ends of a measurement on the NUMA node of their card: CPU and memory, where the guest says which node that is."""

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import mesh
from ansible_collections.vhpc.rdma.plugins.module_utils.system import System
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.guest_tree import Tree


BINDS = "#!/bin/sh\nshift 2\nexec \"$@\"\n"
REFUSES = "#!/bin/sh\necho 'set_mempolicy: Operation not permitted' >&2\nexit 1\n"


def command(top, node, numactl=BINDS, numa=True):
    tree = Tree(top / "vm01", "vm01")
    tree.card()
    for path in (tree.root / "sys").rglob("numa_node"):
        path.write_text("%d\n" % node)
    tree.program("ib_send_bw", "#!/bin/sh\necho 'Version: 6.06'\nexit 1\n")
    if numactl:
        tree.program("numactl", numactl)
    spec = dict(self="vm01", peers=[dict(name="vm01", address="127.0.0.1"), dict(name="vm02", address="127.0.0.2")], fabrics=["ib"], tests=["send_bw"],
                run_id="x", numa=numa, port=18515, iterations=None, extra_args=[])
    walker = mesh.Walker(System(str(tree.root)), spec)
    walker.prepare()
    return [walker.command("ib", "send_bw", server) for server in ("", "127.0.0.2")]


@pytest.mark.parametrize("node", [0, 1])
def test_client_and_server_are_bound_to_the_cards_node(tmp_path, node):
    for argv in command(tmp_path, node):
        assert argv[:4] == ["numactl", "--cpunodebind=%d" % node, "--membind=%d" % node, "ib_send_bw"]


@pytest.mark.parametrize("node, more", [(-1, {}), (1, {"numactl": None}), (1, {"numa": False}), (0, {"numactl": REFUSES})])
def test_nothing_is_bound_where_there_is_no_node_no_numactl_no_wish_or_it_may_not(tmp_path, node, more):
    for argv in command(tmp_path, node, **more):
        assert argv[0] == "ib_send_bw"
