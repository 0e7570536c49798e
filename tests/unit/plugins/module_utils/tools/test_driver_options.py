# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import driver_options

CONFIGURED = "max_vfs=0,0,16,16 pfctx=0x08 pfcrx=0x08 trust_state=2"


def merged(wanted, purge=False, configured=CONFIGURED):
    after, changed = driver_options.merge(driver_options.parse(configured), wanted, purge)
    return driver_options.join(after), changed


@pytest.mark.parametrize("absent", ["absent", None])
def test_removing_one_option_keeps_the_rest_in_order(absent):
    assert merged({"max_vfs": absent}) == ("pfctx=0x08 pfcrx=0x08 trust_state=2", ["max_vfs"])


def test_nothing_to_do():
    assert merged({"max_vfs": "absent"}, configured="pfctx=0x08") == ("pfctx=0x08", [])
    assert merged({"pfctx": 8, "max_vfs": [0, 0, 16, 16]}) == (CONFIGURED, [])  # 8 is 0x08


def test_purge_is_what_the_paper_does():
    assert merged({}, purge=True) == ("", ["max_vfs", "pfctx", "pfcrx", "trust_state"])
    assert merged({"trust_state": 2}, purge=True) == ("trust_state=2", ["max_vfs", "pfctx", "pfcrx"])


def test_changing_in_place_and_adding_at_the_end():
    assert merged({"max_vfs": [0, 0, 4, 4], "ecn": True}) == ("max_vfs=0,0,4,4 pfctx=0x08 pfcrx=0x08 trust_state=2 ecn=1", ["max_vfs", "ecn"])


@pytest.mark.parametrize("wanted", [{"nmlx5_core": {"a b": 1}}, {"nmlx5_core": {"a": "1 b=2"}}, {"nmlx5-core": {}}, {"nmlx5_core": ["max_vfs"]},
                                    {"nmlx5_core": {"a": "'"}}])
def test_what_cannot_stand_in_an_option_string_is_refused(wanted):
    with pytest.raises(RdmaError):
        driver_options.check(wanted, "esxi01")


def test_unknown_option():
    with pytest.raises(RdmaError, match="it has no option maxvfs"):
        driver_options.known("nmlx5_core", ["maxvfs"], {"max_vfs": {}}, "esxi01")
    driver_options.known("nmlx5_core", ["maxvfs"], {}, "esxi01")
