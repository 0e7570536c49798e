# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Spack environment as the role renders it, against what Spack's schema of an environment and its packages allow. Spack itself is not run."""

from __future__ import annotations

import pathlib
import re

import jinja2
import pytest
import yaml
from ansible.plugins.test.core import version_compare

TOP = pathlib.Path(__file__).resolve().parents[2]
ROLE = TOP / "roles" / "benchmark"
DEFAULTS = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
# Top-level keys of an environment (schema/env.py and merged.py), the older and the newer form; others are refused by Spack.
KEYS = {"old": {"specs", "view", "packages", "concretization"}, "new": {"specs", "view", "packages", "concretizer"}}
# Variants that Spack's package ucx declares: with dashes before 0.18, with underscores since.
UCX = {"old": {"thread_multiple", "cma", "rc", "ud", "dc", "mlx5-dv"}, "new": {"thread_multiple", "cma", "verbs", "rc", "ud", "dc", "mlx5_dv"}}


def render(**variables):
    """(environment, its one spec as package -> (version, variants))."""
    made = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    made.tests["version"] = version_compare
    text = made.from_string((ROLE / "templates" / "spack.yaml.j2").read_text()).render(dict(DEFAULTS, ansible_managed="managed", **variables))
    data = yaml.safe_load(text)
    assert list(data) == ["spack"]
    spec, = data["spack"]["specs"]
    packages = {}
    for word in spec.split():
        match = re.fullmatch(r"\^?([a-z][a-z0-9-]*)@([\w.:-]+)", word)
        if match:
            packages[match.group(1)] = (match.group(2), [])
        else:
            packages[list(packages)[-1]][1].append(word)
    return data["spack"], packages


@pytest.mark.parametrize("kind, spack", [("old", "0.17.1"), ("new", "0.18.0"), ("new", "0.23.1"), ("new", "1.0.2")])
def test_the_papers_pins_in_the_form_of_the_spack_that_reads_them(kind, spack):
    env, packages = render(benchmark_stack_spack_version=spack)
    assert set(env) <= KEYS[kind] and {"specs", "view"} <= set(env)
    assert env.get("concretization", "together") == "together" and env.get("concretizer", {"unify": True}) == {"unify": True}
    assert packages["osu-micro-benchmarks"] == ("5.7.1", ["%gcc@9.3.0"]) and packages["openmpi"] == ("4.1.2", ["fabrics=ucx"])
    version, variants = packages["ucx"]
    assert version == "1.12.0" and {part for word in variants for part in word.strip("+").split("+")} == UCX[kind]
    assert env["view"] == "/opt/vhpc_rdma/benchmark/view"


def test_newer_versions_and_the_rdma_core_of_an_ofed():
    env, packages = render(benchmark_stack_spack_version="0.23.1", benchmark_stack_osu="7.5", benchmark_stack_openmpi="5.0.6", benchmark_stack_ucx="1.17.0",
                           benchmark_stack_compiler="", benchmark_stack_rdma_core="54")
    assert packages["osu-micro-benchmarks"] == ("7.5", []) and packages["openmpi"][0] == "5.0.6" and packages["ucx"][0] == "1.17.0"
    assert env["packages"] == {"rdma-core": {"buildable": False, "externals": [{"spec": "rdma-core@54", "prefix": "/usr"}]}}
    assert "packages" not in render(benchmark_stack_rdma_core="")[0]
