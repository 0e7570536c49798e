# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/study.yml as a user runs it: the paper's tables, the same with one cell changed, and input that cannot be used."""

from __future__ import annotations

import csv
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml

TOP = pathlib.Path(__file__).resolve().parents[3]
FILES = TOP / "playbooks" / "files"


@pytest.fixture(name="study")
def fixture_study(tmp_path):
    """study(variables, words): returns (return code, output, directory of the results)."""
    collections = tmp_path / "collections" / "ansible_collections" / "vhpc"
    collections.mkdir(parents=True)
    (collections / "rdma").symlink_to(TOP)

    def study(*words, **variables):
        directory = tmp_path / "study"
        done = subprocess.run(["ansible-playbook", "-i", "localhost,", "-e", json.dumps(dict(study_directory=str(directory), **variables)), *words,
                               str(TOP / "playbooks" / "study.yml")], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
                              cwd=tmp_path, env=dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"), ANSIBLE_NOCOLOR="1", LC_ALL="C.UTF-8",
                                                     ANSIBLE_HOME=str(tmp_path / "home")))
        return done.returncode, done.stdout, directory

    return study


def changed_tables(tmp_path, table, config, nodes, value):
    data = yaml.safe_load((FILES / "paper_tables.yml").read_text())
    entry = data["tables"][table]
    entry["rows"][config][entry["nodes"].index(nodes)] = value
    path = tmp_path / "tables.yml"
    path.write_text(yaml.safe_dump(data))
    return str(path)


def test_every_claim_has_its_verdict_and_one_cell_changes_one_claim(study, tmp_path):
    code, text, directory = study()
    assert code == 0, text
    before = json.loads((directory / "claims.json").read_text())
    claims = yaml.safe_load((FILES / "paper_claims.yml").read_text())["claims"]
    assert list(before["verdicts"]) == [claim["id"] for claim in claims] and before["verdicts"]["lammps-roce-max"] == "contradicted"
    assert "lammps-roce-max" in text and "contradicted" in text
    page = (directory / "study.html").read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', page) and "contradicted" in page
    assert "RoCE against InfiniBand" in page and {row["app"] for row in before["fabrics"]} == {"OpenFOAM", "WRF", "LAMMPS"}
    with open(directory / "tables.csv", encoding="utf-8") as handle:
        assert len(list(csv.reader(handle))) == 1 + 7 * 3 * 6
    path = changed_tables(tmp_path, "gromacs.ib.perf", "BM.44.IB", 16, 8.6)
    code, text, directory = study(study_tables=path)
    assert code == 0, text
    after = json.loads((directory / "claims.json").read_text())["verdicts"]
    assert {name for name in after if after[name] != before["verdicts"][name]} == {"gromacs-ib-bm44-16n"} and after["gromacs-ib-bm44-16n"] == "contradicted"


def test_check_mode_writes_nothing(study):
    code, text, directory = study("--check")
    assert code == 0 and not directory.exists(), text


def test_figures_written_are_figures_read(study, tmp_path):
    code, text, directory = study()
    assert code == 0, text
    first = (directory / "claims.json").read_text()
    copy = tmp_path / "figures.json"
    copy.write_text((directory / "figures.json").read_text())
    code, text, directory = study(study_tables=str(copy))
    assert code == 0 and (directory / "claims.json").read_text() == first, text


def test_input_that_cannot_be_used_is_told_all_at_once(study, tmp_path):
    tables, claims = tmp_path / "t.yml", tmp_path / "c.yml"
    tables.write_text(yaml.safe_dump({"tables": {"one": {"sense": "lower", "nodes": [1, 2], "rows": {"BM.48": [1.0], "VM.44": [1.0, "fast"]}}}}))
    claims.write_text(yaml.safe_dump({"claims": [{"id": "x", "kind": "delta", "table": "one"}]}))
    code, text, dummy = study(study_tables=str(tables), study_claims=str(claims))
    flat = " ".join(text.split())
    assert code != 0 and "BM.48: one value for each" in flat and "VM.44: a value is no number" in flat
    assert "claim x: config, baseline, nodes, claimed missing" in flat
    code, text, dummy = study(study_tables=str(tmp_path / "none.yml"))
    assert code != 0 and "No such file" in text
