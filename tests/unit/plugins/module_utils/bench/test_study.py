# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import copy
import pathlib

import pytest
import yaml

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import scaling, study
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.plugin_utils import paper, study_page

TOP = pathlib.Path(__file__).resolve().parents[5]
DATA = yaml.safe_load((TOP / "playbooks" / "files" / "paper_tables.yml").read_text())
CLAIMS = yaml.safe_load((TOP / "playbooks" / "files" / "paper_claims.yml").read_text())["claims"]
CURVES = {"%s.%s" % key: {"sizes": paper.SIZES, "values": one["values"]} for key, one in paper.CURVES.items()}


def run(data=DATA, claims=CLAIMS):
    return study.study(data, claims, CURVES)


FOUND = run()
BY = {claim["id"]: claim for claim in FOUND["claims"]}


# ---- formulas, worked out by hand ----------------------------------------------------------------------------------------

def test_delta_of_a_time_and_of_a_rate():
    assert scaling.delta(100.0, 106.0, "lower") == pytest.approx(6.0) and scaling.delta(100.0, 94.0, "higher") == pytest.approx(6.0)
    assert scaling.delta(100.0, 94.0, "lower") == pytest.approx(-6.0)
    assert scaling.delta_other(100.0, 106.0, "lower") == pytest.approx(5.660377) and scaling.delta_other(8.93, 8.2, "higher") == pytest.approx(8.902439)


def test_efficiency_is_against_the_own_run_on_the_fewest_nodes():
    assert scaling.efficiency(40.0, 4, 12.5, "lower") == pytest.approx(80.0) and scaling.efficiency(10.0, 4, 32.0, "higher") == pytest.approx(80.0)
    assert scaling.efficiency(20.0, 8, 6.25, "lower", 2) == pytest.approx(80.0)


def test_the_gauge_follows_core_counts_and_direction():
    assert scaling.gauge(44, 48, "higher") == pytest.approx(8.3333, abs=1e-4) and scaling.gauge(44, 48, "lower") == pytest.approx(9.0909, abs=1e-4)
    assert scaling.gauge(32, 64, "higher") == 50 and scaling.gauge(32, 64, "lower") == 100 and scaling.gauge(48, 48, "lower") == 0
    assert scaling.gauge(None, 48, "lower") is None
    with pytest.raises(RdmaError, match="direction"):
        scaling.gauge(44, 48, "unknown")


def test_digits_of_a_table_outlive_a_lost_trailing_zero():
    rows = {"a": [4.74, 2.3, 1.1], "b": [5.03, 2.48, 1.18]}
    assert scaling.resolutions(rows) == {"a": [0.01, 0.01, 0.01], "b": [0.01, 0.01, 0.01]}
    # One value with more digits makes the others no sharper.
    assert scaling.resolutions({"a": [4.74, 2.3, 1.1234], "b": [5.03, 2.48, 1.18]})["a"] == pytest.approx([0.01, 0.01, 0.0001])
    assert scaling.resolutions({"a": [30, 60], "b": [27, 55]}) == {"a": [1.0, 1.0], "b": [1.0, 1.0]}


def test_rounding_interval_by_hand():
    # 2.445/2.305 - 1 and 2.455/2.295 - 1
    assert scaling.delta_interval(scaling.interval(2.3, 0.01), scaling.interval(2.45, 0.01), "lower") == pytest.approx([6.0738, 6.9717], abs=1e-3)
    assert scaling.delta_interval((2.3, 2.3), (2.45, 2.45), "lower") == pytest.approx([6.5217, 6.5217], abs=1e-3)


def test_ranges_of_repeats_take_the_place_of_rounding():
    table = dict(sense="lower", resolution=0, nodes=[1, 2], rows={"BM.48": [10.0, 5.0], "VM.44": [11.0, 5.5]}, ranges={"VM.44": [[10.5, 11.5], None]})
    cells = scaling.analyse(table)["configs"]["VM.44"]["cells"]
    assert cells[0]["delta_interval"] == pytest.approx([5.0, 15.0]) and cells[1]["delta_interval"] == pytest.approx([10.0, 10.0])
    assert cells[0]["against_gauge"] == scaling.OVER_OPEN and cells[1]["against_gauge"] == scaling.OVER


def test_tables_of_two_runs_are_merged():
    one = dict(sense="higher", nodes=[1, 2], rows={"BM.48": [30, 60]})
    other = dict(sense="higher", resolution=0, nodes=[2, 4], rows={"VM.44": [55.5, 109.25]}, ranges={"VM.44": [[55.0, 56.0], None]})
    found = scaling.merge(one, other)
    assert found["nodes"] == [1, 2, 4] and found["rows"] == {"BM.48": [30, 60, None], "VM.44": [None, 55.5, 109.25]}
    cell = scaling.cell(scaling.analyse(found), "VM.44", 2)
    assert cell["delta"] == pytest.approx(7.5) and cell["delta_interval"] == pytest.approx([100 * (59.5 - 56) / 59.5, 100 * (60.5 - 55) / 60.5])
    with pytest.raises(RdmaError, match="lower is better in one"):
        scaling.merge(one, dict(other, sense="lower"))


def test_against_a_limit():
    assert scaling.against(9.09, [8.68, 9.5], 8.3333) == scaling.OVER and scaling.against(8.62, [8.21, 9.03], 8.3333) == scaling.OVER_OPEN
    assert scaling.against(7.0, [6.0, 8.0], 8.3333) == scaling.WITHIN and scaling.against(8.2, [7.8, 8.6], 8.3333) == scaling.WITHIN_OPEN


def test_a_table_whose_rows_do_not_fit_is_refused():
    with pytest.raises(RdmaError, match="2 values for 3"):
        scaling.analyse(dict(sense="lower", nodes=[1, 2, 4], rows={"BM.48": [1.0, 2.0]}))
    with pytest.raises(RdmaError, match="BM.40"):
        scaling.analyse(dict(sense="lower", nodes=[1], rows={"BM.48": [1.0]}), baseline="BM.40")


def test_a_missing_value_leaves_a_hole_and_no_error():
    found = scaling.analyse(dict(sense="higher", resolution=0, nodes=[2, 4, 8], rows={"x": [None, 10.0, 19.0], "y": [5.0, 9.0, None]}),
                            {"x": {"processes": 48}, "y": {"processes": 44}}, "x")
    assert found["configs"]["x"]["cells"][0] is None and found["configs"]["x"]["cells"][2]["efficiency"] == pytest.approx(95.0)
    assert "delta" not in found["configs"]["y"]["cells"][0] and found["configs"]["y"]["cells"][1]["delta"] == pytest.approx(10.0)
    assert found["configs"]["y"]["gauge"] == pytest.approx(8.3333, abs=1e-3)


# ---- the paper's claims ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, verdict, computed, interval", [
    ("openfoam-ib-max", study.REPRODUCES, 6.52, (6.07, 6.97)), ("openfoam-roce-max", study.REPRODUCES, 7.69, (5.71, 9.71)),
    ("wrf-ib-max", study.REPRODUCES, 5.56, (3.67, 7.48)), ("wrf-roce-max", study.CONSISTENT, 4.67, (3.72, 5.63)),
    ("lammps-ib-1n", study.CONSISTENT, 10.0, (6.78, 13.11)), ("lammps-ib-bm44-1n", study.CONSISTENT, 10.0, (6.78, 13.11)),
    ("lammps-roce-max", study.CONTRADICTED, 5.13, (4.29, 5.96)), ("gromacs-ib-16n", study.CONSISTENT, 8.17, (8.07, 8.28)),
    ("gromacs-ib-bm44-16n", study.REPRODUCES, 7.39, (7.28, 7.5)),
])
def test_claims_of_deltas(name, verdict, computed, interval):
    claim = BY[name]
    assert claim["verdict"] == verdict and claim["computed"] == pytest.approx(computed, abs=0.006)
    assert claim["interval"] == pytest.approx(list(interval), abs=0.006) and not claim["other_formula_fits"] and claim["text"]


def test_the_contradicted_claim_says_where():
    claim = BY["lammps-roce-max"]
    assert claim["maximum"] == study.CONTRADICTED and claim["over_at"] == [1, 2, 8, 16] and claim["value"] == study.CONSISTENT
    assert claim["largest"] == {"nodes": 1, "delta": pytest.approx(10.0)} and "1, 2, 8, 16" in claim["text"]
    assert all(BY[name]["maximum"] == study.HOLDS for name in ("openfoam-ib-max", "openfoam-roce-max", "wrf-ib-max", "wrf-roce-max", "gromacs-ib-16n"))


def test_what_rounding_leaves_open_is_said_to_be_open():
    assert BY["openfoam-ib-better-than-bm44"]["verdict"] == study.OPEN and BY["openfoam-ib-better-than-bm44"]["open_at"] == [16]
    assert BY["lammps-ib-others-gauge"]["verdict"] == study.PRINTED_FALSE and BY["lammps-ib-others-gauge"]["false_as_printed_at"] == [8, 16]
    assert BY["gromacs-roce-16n"]["verdict"] == study.NO_DATA and BY["lammps-ib-scaling"]["verdict"] == study.REPRODUCES


def test_perftest_claims():
    assert BY["perftest-ib-bw"]["verdict"] == study.REPRODUCES and BY["perftest-ib-lat"]["verdict"] == study.REPRODUCES
    assert BY["perftest-roce-bw"]["verdict"] == study.CONTRADICTED and BY["perftest-roce-bw"]["below_at"] == [8192, 524288, 1048576]
    assert BY["perftest-roce-bw-median"]["computed"] == pytest.approx(96.085) and BY["perftest-roce-lat"]["verdict"] == study.REPRODUCES


def test_nine_of_ten_cells_over_the_gauge_are_open():
    marks = [cell["verdict"] for cell in FOUND["over_the_gauge"]]
    assert (len(marks), marks.count(scaling.OVER_OPEN), marks.count(scaling.OVER)) == (10, 9, 1)
    sure = next(cell for cell in FOUND["over_the_gauge"] if cell["verdict"] == scaling.OVER)
    assert (sure["table"], sure["nodes"]) == ("lammps.roce.perf", 8) and sure["config"].startswith("VM.44") and sure["delta"] == pytest.approx(9.0909, abs=1e-3)
    # Of a time the fair cost of 4 of 48 cores is 9.09 %: OpenFOAM's 9.62 % is over it by less than it seems.
    time = next(cell for cell in FOUND["over_the_gauge"] if cell["table"] == "openfoam.ib.perf")
    assert time["fair_gauge"] == pytest.approx(9.0909, abs=1e-3)


def test_printed_efficiencies():
    found = FOUND["efficiencies"]
    assert (found["cells"], found["exact"], found["rounding"], found["contradicted"]) == (90, 62, 28, 0)
    assert len(FOUND["absent"]) >= 4 and FOUND["counts"][study.CONTRADICTED] == 2


def cell_changed(table, config, nodes, value):
    data = copy.deepcopy(DATA)
    entry = data["tables"][table]
    entry["rows"][config][entry["nodes"].index(nodes)] = value
    return data


CHECKED = [claim for claim in CLAIMS if claim["kind"] != "curve" and DATA["tables"][claim["table"]]["rows"]]


@pytest.mark.parametrize("claim", CHECKED, ids=lambda claim: claim["id"])
def test_changing_one_cell_changes_the_verdict_of_that_claim_and_of_no_other_table(claim):
    config = claim.get("config") or claim["configs"][-1]
    nodes = claim.get("nodes") or 8
    sense = DATA["tables"][claim["table"]]["sense"]
    worse = DATA["tables"][claim["table"]]["rows"][config][DATA["tables"][claim["table"]]["nodes"].index(nodes)] * (1.3 if sense == "lower" else 0.7)
    changed = run(cell_changed(claim["table"], config, nodes, round(worse, 2)))["verdicts"]
    if claim["id"] == "lammps-roce-max":  # it cannot get worse: it gets right when the cells that contradict it do
        data = copy.deepcopy(DATA)
        row = data["tables"][claim["table"]]["rows"][config]
        row[:] = [29, 58, 111, 225, 318, 420]
        assert run(data)["verdicts"][claim["id"]] == study.CONSISTENT
        assert run(cell_changed(claim["table"], config, 4, 111.4))["verdicts"][claim["id"]] == study.CONTRADICTED
        return
    assert FOUND["verdicts"][claim["id"]] != study.CONTRADICTED and changed[claim["id"]] == study.CONTRADICTED
    others = {other["id"] for other in CLAIMS if other.get("table") != claim["table"]}
    assert {name: changed[name] for name in others} == {name: FOUND["verdicts"][name] for name in others}


def test_a_larger_delta_elsewhere_contradicts_a_maximum_though_the_value_holds():
    claim = next(one for one in run(cell_changed("openfoam.ib.perf", "VM.44.320.LatSens.IB.Passthru", 4, 1.25))["claims"] if one["id"] == "openfoam-ib-max")
    assert claim["value"] == study.REPRODUCES and claim["verdict"] == study.CONTRADICTED and claim["over_at"] == [4]
    claim = next(one for one in run(cell_changed("openfoam.ib.perf", "VM.44.320.LatSens.IB.Passthru", 8, 0.56))["claims"] if one["id"] == "openfoam-ib-max")
    assert claim["verdict"] == study.PRINTED_FALSE and claim["false_as_printed_at"] == [8]


def test_claims_that_cannot_be_understood_are_refused():
    with pytest.raises(RdmaError, match="more than once"):
        run(claims=CLAIMS + CLAIMS[:1])
    with pytest.raises(RdmaError, match="kind"):
        run(claims=[dict(CLAIMS[0], kind="guess")])


# ---- files -----------------------------------------------------------------------------------------------------------------

def test_the_page_opens_offline_and_says_the_verdicts():
    text = study_page.html(FOUND, "Study", "today", DATA["tables"])
    assert "http" not in text.replace("http-equiv", "") and text.count("<svg") == 3 * len(FOUND["tables"])
    for claim in FOUND["claims"]:
        assert claim["id"] in text
    assert "lammps-roce-max: contradicted" in text and "9.09" in text


def test_csv_has_a_line_for_every_cell():
    lines = study_page.tables_csv(FOUND).splitlines()
    assert len(lines) == 1 + 7 * 3 * 6
    row = next(line for line in lines if line.startswith("openfoam.ib.perf,VM.44.320.LatSens.IB.Passthru,44,2,"))
    assert row.split(",")[4:8] == ["2.45", "6.5217", "6.0738", "6.9717"]


# ---- RoCE against InfiniBand -----------------------------------------------------------------------------------------------

def test_the_papers_fabrics_are_compared_by_configuration():
    rows = {(row["app"], row["ib"]): row for row in FOUND["fabrics"]}
    row = rows["OpenFOAM", "BM.48.IB"]
    assert row["roce"] == "BM.48.RoCE" and [cell["nodes"] for cell in row["cells"]] == [1, 2, 4, 8, 12, 16]
    cell = row["cells"][4]  # 0.34 and 0.35: from nothing, 0.345 and 0.345, to 0.355/0.335 - 1
    assert cell["delta"] == pytest.approx(2.941, abs=1e-3) and cell["delta_interval"] == pytest.approx([0, 5.970], abs=1e-3)
    assert cell["verdict"] == "cannot be decided from rounded input"
    # The paper has no figures of GROMACS and NAMD on RoCE.
    assert {app for app, dummy in rows} == {"OpenFOAM", "WRF", "LAMMPS"}
    assert all(len([key for key in rows if key[0] == app]) == 3 for app in ("OpenFOAM", "WRF", "LAMMPS"))


def test_raw_figures_of_two_fabrics_are_decided():
    def table(fabric, config, values, **more):
        return dict(app="wrf", fabric=fabric, unit="s", sense="lower", resolution=0, nodes=[2, 4, 8], rows={config: values}, **more)
    tables = {"wrf.ib": table("ib", "VM.44", [2.0, 1.0, 0.5]), "wrf.roce": table("roce", "VM.44", [2.1, 0.9, 0.5])}
    row, = study.between_fabrics(tables)
    assert [cell["verdict"] for cell in row["cells"]] == ["RoCE is worse for certain", "RoCE is better for certain", "cannot be decided from rounded input"]
    claim = dict(id="x", table="wrf.roce", config="VM.44", baseline_table="wrf.ib", baseline="VM.44", nodes=2, claimed=5)
    assert study.judge(claim, tables)["verdict"] == "reproduces" and study.judge(dict(claim, claimed=7), tables)["verdict"] == "contradicted"
    assert study.judge(dict(claim, baseline="BM.48"), tables)["verdict"] == study.NO_DATA
    # The repeats of a busy cluster overlap: nothing is decided then.
    tables["wrf.roce"]["ranges"] = {"VM.44": [[1.9, 2.4], [0.8, 1.1], None]}
    assert {cell["verdict"] for cell in study.between_fabrics(tables)[0]["cells"]} == {"cannot be decided from rounded input"}
