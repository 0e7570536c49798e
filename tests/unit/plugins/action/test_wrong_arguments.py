# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random wrong arguments to every module of the ESXi stage: a clear error, never a traceback. VHPC_EXAMPLES: how many (1,000)."""

from __future__ import annotations

import importlib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.vhpc.rdma.plugins.plugin_utils.vsphere.session import VCENTER_SPEC
from ansible_collections.vhpc.rdma.tests.unit.plugins.action.rig import Rig
from lab import site

MODULES = ("dvs_uplinks", "esxi_info", "esxi_reboot", "esxi_service", "esxi_software", "mlx_firmware", "mlx_firmware_image",
           "mlx_firmware_info", "nmlx_driver")
EXAMPLES = int(os.environ.get("VHPC_EXAMPLES", "1000"))
TRACES = ("Traceback", "object has no attribute", "NoneType", "unexpected keyword", "not subscriptable", "unhashable", "list index", "object is not",
          "invalid literal for int", "KeyError", "must be str", "expected string")
WORDS = st.sampled_from(["", " ", "absent", "ib", "vmk0", "0000:3b:00.0", "MT_0000000008", "-1", "../..", "/vmfs/volumes/x", "a b", "'", '"', "$(id)",
                         "{{ x }}", "NUM_OF_VFS", "nmlx5_core", "\u00e9\u20ac", "x" * 300, "sha256:zz", "1.2.3", "mft", "true", "\n"])
LEAF = st.one_of(st.none(), st.booleans(), st.integers(-3, 10 ** 12), st.floats(allow_nan=False), WORDS, st.text(max_size=8))
JUNK = st.recursive(LEAF, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)), max_leaves=6)


def shaped(spec):
    """Values that look like the specification's and are not to be trusted: each is right in form or junk."""
    kinds = {"str": LEAF, "path": WORDS, "bool": LEAF, "int": LEAF, "dict": JUNK, "list": JUNK, "raw": JUNK}
    fields = {}
    for name, about in spec.items():
        if name in VCENTER_SPEC:
            continue  # nothing here may look for a server
        kind = about.get("type", "str")
        value = st.one_of(kinds[kind], JUNK)
        if about.get("choices"):
            value = st.one_of(st.sampled_from(about["choices"]), LEAF)
        if about.get("options"):
            value = st.one_of(shaped(about["options"]), JUNK)
            if kind == "list":
                value = st.one_of(st.lists(shaped(about["options"]), max_size=2), JUNK)
        elif kind == "bool":
            value = st.one_of(st.booleans(), LEAF)
        fields[name] = value
    return st.fixed_dictionaries({}, optional=dict(fields, no_such_option=LEAF))


RIG = Rig(site.build(2))


@pytest.fixture(autouse=True)
def _no_vcenter(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith("VMWARE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def spec_of(name):
    return importlib.import_module("ansible_collections.vhpc.rdma.plugins.action." + name).ActionModule.SPEC


@pytest.mark.parametrize("name", MODULES)
def test_wrong_arguments_give_a_clear_error(name):
    seen = {"failed": 0}

    @settings(max_examples=max(20, EXAMPLES // len(MODULES)), deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(args=shaped(spec_of(name)))
    def one(args):
        result = RIG(name, "esxi02", check=True, **args)
        if result.get("failed"):
            seen["failed"] += 1
            text = str(result.get("msg"))
            assert len(text) > 15 and text != "None", result
            assert "unable to convert" in text or "must be a" in text or "must by a" in text or not any(trace in text for trace in TRACES), text
    one()
    assert seen["failed"] > 10
