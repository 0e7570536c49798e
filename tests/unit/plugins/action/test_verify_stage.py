# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's parts of perftest and rdma_verdict."""

from __future__ import annotations

import importlib
import itertools
import types

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible.utils.context_objects import CLIArgs

HOSTS = ["vm01", "vm02", "vm03"]
GOOD = {"send_bw": [[65536, 97.0, 96.9, 0.2], [1048576, 97.1, 97.0, 0.01]], "send_lat": [[8, 1.0, 3.0, 1.07, 1.08, 0.1, 1.2, 3.0]]}


def action(name, task_vars, check=False, task=None, **args):
    module = importlib.import_module("ansible_collections.vhpc.rdma.plugins.action." + name)
    task = task or Task()
    task.args, task.check_mode, task.diff = args, check, False
    loader = DataLoader()
    connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="/nowhere"))
    made = module.ActionModule(task=task, connection=connection, play_context=PlayContext(), loader=loader,
                               templar=Templar(loader=loader), shared_loader_obj=None)
    made.sent = []
    made._execute_module = lambda module_name, module_args, task_vars: made.sent.append(module_args) or dict(changed=False)
    result = made.run(task_vars=dict({"inventory_hostname": "vm01"}, **task_vars))
    return result, made.sent


def collected(slow=None, lost=()):
    """hostvars of guests that have measured; slow: (host, GB/s) whose bandwidth is low; lost: hosts without a result."""
    hostvars = {}
    for host in HOSTS:
        results = []
        for server, client in itertools.combinations(HOSTS, 2):
            for fabric in ("ib", "roce"):
                for test, rows in GOOD.items():
                    if slow and test == "send_bw" and slow in (server, client):
                        rows = [[row[0], row[1] / 2, row[2] / 2, row[3]] for row in rows]
                    if client == host:
                        results.append(dict(fabric=fabric, test=test, server=server, client=client, rows=rows, error=None))
        hostvars[host] = dict(verify_mesh_result=dict(hosts=HOSTS, fabrics=["ib", "roce"], tests=["send_bw", "send_lat"], results=results,
                                                      ports=dict(ib=dict(rate_gbps=100.0), roce=dict(rate_gbps=100.0))))
    for host in lost:
        hostvars[host] = dict(verify_mesh_result=dict(skipped=True, changed=False))
    return dict(hostvars=hostvars, ansible_play_hosts_all=HOSTS)


def test_all_pairs_pass_and_the_limits_say_where_they_come_from():
    found = action("rdma_verdict", collected())[0]
    assert not found.get("failed") and found["summary"]["status"] == "pass" and found["summary"]["judged"] == 12 and found["changes"] == []
    assert all(one["limit_from"] for one in found["verdicts"]) and found["limits"]["latency_ib_us"]["origin"]
    assert any("InfiniBand send_bw: 3 pairs" in line for line in found["text"])


def test_a_slow_node_fails_the_task_names_it_and_still_returns_everything():
    found = action("rdma_verdict", collected(slow="vm02"))[0]
    assert found["failed"] and found["error"]["code"] == "VERDICT" and "vm02 is bad with 2 of its 2 partners" in found["msg"]
    assert len(found["verdicts"]) == 12 and found["summary"]["failed"] == 4 and found["matrix"]["ib"]["send_lat"][0][1] == 1.07
    for more in (dict(enforce=False), dict(check=True)):
        again = action("rdma_verdict", collected(slow="vm02"), **more)[0]
        assert not again.get("failed") and again["summary"]["failed"] == 4


def test_limits_of_the_user_decide():
    found = action("rdma_verdict", collected(slow="vm02"), limits=dict(bandwidth_percent=40))[0]
    assert not found.get("failed") and "set by the user" in found["limits"]["bandwidth_percent"]["origin"]
    assert action("rdma_verdict", collected(), limits=dict(latency_ib_us=1.0))[0]["failed"]


def test_a_guest_without_a_result_is_named():
    found = action("rdma_verdict", collected(lost=["vm03"]))[0]
    assert found["failed"] and found["silent"] == ["vm03"]


def test_without_results_there_is_nothing_to_judge_and_that_is_no_failure():
    for variables in (collected(lost=HOSTS), dict(hostvars={host: {} for host in HOSTS}, ansible_play_hosts_all=HOSTS)):
        found = action("rdma_verdict", variables)[0]
        assert not found.get("failed") and "Nothing to judge" in found["msg"] and found["summary"]["judged"] == 0


def test_results_can_be_handed_over():
    results = [dict(entry["verify_mesh_result"], self_name=host) for host, entry in collected()["hostvars"].items()]
    assert action("rdma_verdict", dict(hostvars={}), results=results)[0]["summary"]["passed"] == 12


def test_all_hosts_of_a_task_get_the_same_run_and_another_task_another():
    variables = dict(hostvars={host: dict(ansible_host="192.0.2.%d" % number) for number, host in enumerate(HOSTS)})
    one, two = Task(), Task()
    sent = [action("perftest", dict(variables, inventory_hostname=host), task=one, phase="start", peers=HOSTS)[1][0] for host in HOSTS]
    assert len({args["run_id"] for args in sent}) == 1 and [args["self_name"] for args in sent] == HOSTS
    assert sent[0]["peers"] == [dict(name=host, address="192.0.2.%d" % number) for number, host in enumerate(HOSTS)]
    assert action("perftest", variables, task=two, phase="start", peers=HOSTS)[1][0]["run_id"] != sent[0]["run_id"]
    peers = [dict(name="vm01", address="10.0.0.1", ports=dict(ib="x")), "vm02"]
    result, own = action("perftest", variables, phase="start", peers=peers, run_id="mine", self_name="a")
    assert own[0]["run_id"] == result["run_id"] == "mine" and own[0]["self_name"] == "a" and own[0]["peers"][0]["address"] == "10.0.0.1"


def test_a_peer_that_the_inventory_does_not_know_is_named():
    result = action("perftest", dict(hostvars={"vm01": {}}), phase="start", peers=["vm01", "vm09"])[0]
    assert result["failed"] and "vm09" in result["msg"]


def test_one_task_for_all_needs_a_fork_for_each(monkeypatch):
    module = importlib.import_module("ansible_collections.vhpc.rdma.plugins.action.perftest")
    variables = dict(hostvars={host: {} for host in HOSTS})
    monkeypatch.setattr(module.context, "CLIARGS", CLIArgs({"forks": 2}))
    result, sent = action("perftest", variables, phase="run", peers=HOSTS)
    assert result["failed"] and result["error"]["code"] == "FORKS" and "3 guests" in result["msg"] and "2 forks" in result["msg"] and sent == []
    assert not action("perftest", variables, phase="start", peers=HOSTS)[0].get("failed")
    monkeypatch.setattr(module.context, "CLIARGS", CLIArgs({"forks": 3}))
    assert [args["phase"] for args in action("perftest", variables, phase="run", peers=HOSTS)[1]] == ["run"]


@pytest.mark.parametrize("wrong", [dict(phase="stop"), dict(phase="start", fabrics=["ethernet"]), dict(phase="start", port="x")])
def test_wrong_options_are_refused_before_anything_is_sent(wrong):
    result, sent = action("perftest", dict(hostvars={}), **wrong)
    assert result["failed"] and sent == []


CHECKER = """Intel(R) Cluster Checker 2021 Update 6

  Overall Result: 2 issues found - FUNCTIONALITY (2)

FUNCTIONALITY
  1. The memlock limit is too small.
       [ Id: memlock-too-small ]
       2 nodes: vm02, other
  2. A clock differs.
       1 node: vm01
"""


def test_cluster_checker_stands_beside_the_blame_and_changes_no_verdict(tmp_path):
    path = tmp_path / "clck_results.log"
    path.write_text(CHECKER)
    found = action("rdma_verdict", collected(slow="vm02"), cluster_checker=str(path), enforce=False)[0]
    assert [issue["hosts"] for issue in found["cluster_checker"]["issues"]] == [["vm02"], ["vm01"]] and found["cluster_checker"]["status"] == "issues"
    said = [line for line in found["text"] if "Cluster Checker" in line]
    assert len(found["blame"]) == 2 and said == ["Intel Cluster Checker on vm02: The memlock limit is too small (memlock-too-small)."]
    assert action("rdma_verdict", collected(), cluster_checker=str(path))[0]["summary"]["status"] == "pass"
    path.write_text("clck: command not found\n")
    failed = action("rdma_verdict", collected(), cluster_checker=str(path))[0]
    assert failed["failed"] and "no overall result" in failed["msg"]
    assert "clck_results.log" in action("rdma_verdict", collected(), cluster_checker=str(tmp_path / "none"))[0]["msg"]


def test_the_first_host_says_how_far_the_measurements_are(monkeypatch):
    module = importlib.import_module("ansible_collections.vhpc.rdma.plugins.action.perftest")
    said, asked = [], []
    answers = [dict(running=True, done=12, total=48), dict(running=True, done=36, total=48), dict(running=False, finished=True, done=48, total=48)]
    monkeypatch.setattr(module.display, "display", lambda text, *words, **more: said.append(text))
    monkeypatch.setattr(module.ActionModule, "_execute_module", lambda self, **words: asked.append(words["module_args"]) or dict(answers[len(asked) - 1]))

    def collect(host, **options):
        made = module.ActionModule(task=Task(), connection=types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="/nowhere")), play_context=PlayContext(),
                                   loader=DataLoader(), templar=Templar(loader=DataLoader()), shared_loader_obj=None)
        made._task.args, made._task.check_mode = dict(dict(phase="collect", run_id="x", timeout=100), **options), False
        return made.run(task_vars=dict(inventory_hostname=host, ansible_play_hosts=HOSTS, hostvars={}))
    assert collect("vm01")["done"] == 48
    assert [line.split(" in ")[0] for line in said] == ["vm01 has made 12 of its 48 measurements (25 %)", "vm01 has made 36 of its 48 measurements (75 %)"]
    assert [args["wait"] for args in asked] == [15, 15, 15] and all(95 < args["timeout"] <= 100 for args in asked)
    # What starts it too does that once.
    del said[:], asked[:]
    monkeypatch.setattr(module.context, "CLIARGS", CLIArgs({"forks": 1}))
    assert collect("vm01", phase="run", peers=[dict(name="vm01", address="192.0.2.1")])["done"] == 48
    assert [args["phase"] for args in asked] == ["run", "collect", "collect"] and len({args["run_id"] for args in asked}) == 1 and len(said) == 2
    # The others wait to the end in one go.
    del said[:], asked[:]
    answers[0] = dict(running=False, finished=True, done=48, total=48)
    assert collect("vm02")["done"] == 48 and said == [] and [args["wait"] for args in asked] == [0]


def test_different_versions_of_perftest_are_told():
    variables = collected()
    for number, host in enumerate(HOSTS):
        variables["hostvars"][host]["verify_mesh_result"]["version"] = "5.60" if number == 1 else "6.06"
    assert [line for line in action("rdma_verdict", variables)[0]["text"] if "differs" in line] == ["perftest differs: 5.60 on vm02; 6.06 on vm01, vm03."]
    item = next(item for item in variables["hostvars"]["vm02"]["verify_mesh_result"]["results"])
    item.update(error=dict(cause="options", text="Invalid Command", hint="see both ends"), rows=[], versions="5.60/6.06")
    failed = action("rdma_verdict", variables, enforce=False)[0]
    hint = next(one["error"]["hint"] for one in failed["verdicts"] if one["status"] == "fail")
    assert hint.startswith("the two ends have different versions of perftest (5.60 and 6.06)") and hint.endswith("see both ends")
    assert not [line for line in action("rdma_verdict", collected())[0]["text"] if "differs" in line]


@pytest.mark.parametrize("other", ["missing", "comparison"])
def test_an_earlier_report_that_cannot_be_read_costs_no_evidence(tmp_path, other):
    variables = dict(collected(), groups=dict(all=HOSTS), ansible_play_hosts=HOSTS)
    earlier = tmp_path / "earlier.json"
    if other == "comparison":
        earlier.write_text('{"format": 1, "verdict": {"status": "pass", "text": ""}}')
    found = action("rdma_report", variables, directory=str(tmp_path / "run"), before=str(earlier), hosts=HOSTS)[0]
    assert found["failed"] and "earlier.json" in found["msg"]
    assert (tmp_path / "run/report.html").exists() and (tmp_path / "run/report.json").exists()
