# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""perftest of the lab's guests: two ends over TCP, tables near the paper's figures, and every way in which a run fails."""

from __future__ import annotations

import pathlib
import socket
import statistics
import sys
import time

import pytest

pytest.importorskip("asyncssh")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from guest_bench import Bench  # noqa: E402

ROCE = "-F --report_gbits -d mlx5_1"
IB = "-F --report_gbits -d mlx5_0"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("guests"), 3)
    for number in (1, 2, 3):
        assert made.run(number, "ip link set ens224f1 mtu 9000; ip addr add 192.168.5.%d/24 dev ens224f1" % number)[0] == 0
    yield made
    made.stop()


def rows(text):
    """{size: [columns after #iterations]} of a table."""
    lines = text.split("#iterations", 1)[1].splitlines()[1:]
    return {int(line.split()[0]): [float(cell) for cell in line.split()[2:]] for line in lines if line.strip()[:1].isdigit()}


@pytest.mark.parametrize("options, floor, latency", [(IB, 95, 1.15), (ROCE, 89, 2.05)])
def test_figures_lie_around_the_papers(bench, options, floor, latency):
    server, client = bench.pair("ib_send_bw", "-a " + options)
    assert (server.returncode, client.returncode) == (0, 0), client.stderr + server.stderr
    table = rows(client.stdout)
    assert sorted(table) == [2 ** n for n in range(1, 24)]
    large = [table[size][1] for size in table if size >= 65536]
    assert statistics.median(large) > 95 and min(large) > floor and max(large) < 98
    assert all(row[0] >= row[1] for row in table.values()), "peak is at least the average"
    for size, (dummy, average, rate) in table.items():
        assert rate == pytest.approx(average * 1000 / 8 / size, rel=0.06, abs=1e-6)
    assert all(row[0] == 0 and row[1] > 0 for row in rows(server.stdout).values()), "the server knows no peak"
    server, client = bench.pair("ib_send_lat", "-a " + options)
    table = rows(client.stdout)
    assert 0.9 * latency < table[2][2] < latency
    assert all(low <= middle <= high for low, high, middle, *dummy in table.values())
    assert all(row[5] <= row[6] <= row[1] for row in table.values())


def test_roce_dips_at_512_kib(bench):
    table = rows(bench.pair("ib_send_bw", "-a " + ROCE)[1].stdout)
    assert table[524288][1] == pytest.approx(90, abs=0.6) and table[262144][1] > 96 and table[8388608][1] > 95.5


def test_both_ends_name_each_others_address(bench):
    server, client = bench.pair("ib_send_bw", ROCE)
    lines = [[line.strip() for line in text.splitlines() if "address:" in line or "GID:" in line] for text in (server.stdout, client.stdout)]
    assert lines[0][0][len("local"):] == lines[1][2][len("remote"):] and lines[0][1] == lines[1][3]
    assert lines[1][1] == "GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:05:02"
    assert " GID index       : 3\n" in client.stdout and "LID 0000" in client.stdout
    server, client = bench.pair("ib_send_bw", IB)
    assert "GID" not in client.stdout and "local address: LID 0x14" in client.stdout


def test_runs_differ_a_little_and_a_repeated_lab_repeats(bench, tmp_path):
    first, second = (rows(bench.pair("ib_send_bw", IB, ends=(1, 3))[1].stdout)[65536][1] for dummy in range(2))
    assert first != second
    assert first == pytest.approx(second, rel=0.01)


@pytest.mark.parametrize("test, options, columns", [("ib_write_bw", "-a " + IB, 3), ("ib_read_bw", IB, 3), ("ib_write_lat", IB, 7), ("ib_read_lat", ROCE, 7),
                                                    ("ib_send_bw", "-D 1 " + IB, 3), ("ib_send_lat", "-D 1 " + IB, 2),
                                                    ("ib_send_bw", "-s 4096 -n 200 -q 2 -x 3 " + ROCE, 3)])
def test_other_tests_and_options(bench, test, options, columns):
    server, client = bench.pair(test, options)
    assert (server.returncode, client.returncode) == (0, 0), client.stderr + server.stderr
    assert all(len(row) == columns for row in rows(client.stdout).values())
    if "-n 200" in options:
        assert " 4096       400 " in client.stdout, "iterations of all queue pairs"


def test_without_report_gbits_the_unit_is_mb(bench):
    table = rows(bench.pair("ib_send_bw", "-F -d mlx5_0")[1].stdout)
    assert table[65536][1] == pytest.approx(96 * 1e9 / 8 / 2 ** 20, rel=0.01)


@pytest.mark.parametrize("command, text", [
    ("ib_send_bw -d mlx5_9", "IB device mlx5_9 not found"),
    ("ib_send_bw vm02", "Couldn't connect to vm02:18515"),
    ("ib_send_bw 192.168.7.7", "Couldn't connect to 192.168.7.7:18515"),
    ("ib_send_bw nobody", "Name or service not known"),
    ("ib_send_bw -a -D 5", "Duration mode currently doesn't support running on all sizes"),
    ("ib_send_bw -x 99 -d mlx5_1", "Gid index should be between"),
    ("ib_send_bw --nonsense", "Invalid Command"),
])
def test_a_run_that_cannot_start(bench, command, text):
    code, dummy, err = bench.run(1, command)
    assert code == 1 and text in err


def test_version_is_told_with_return_code_1(bench):
    assert bench.run(1, "ib_send_bw --version") == (1, "Version: 5.60\n", "")


def fails(bench, server, client, text, test="ib_send_bw"):
    one, two = bench.pair(test, server, client)
    assert two.returncode == 1 and text in two.stderr, two
    assert one.returncode == 1, one
    return one, two


def test_options_must_be_the_same_on_both_ends(bench):
    fails(bench, "-a " + IB, IB, "Failed status 10: wr_id 0 syndrom 0x88")


def test_gids_must_fit(bench):
    fails(bench, "-x 3 " + ROCE, "-x 2 " + ROCE, "Failed status 12: wr_id 0 syndrom 0x81")
    fails(bench, "-x 3 " + ROCE, "-x 1 " + ROCE, "Found Incompatibility issue with GID types")
    fails(bench, "-x 3 " + ROCE, "-x 7 " + ROCE, "to RTR")


def test_fabrics_do_not_mix(bench):
    fails(bench, ROCE, IB, "Unable to Connect the HCA's through the link")


def test_different_subnets_do_not_meet(bench):
    bench.run(3, "ip addr flush dev ens224f1; ip addr add 192.168.6.3/24 dev ens224f1")
    one, two = bench.pair("ib_send_bw", ROCE, ends=(1, 3))
    assert two.returncode == 1 and "to RTR" in two.stderr
    bench.run(3, "ip addr flush dev ens224f1; ip addr add 192.168.5.3/24 dev ens224f1")


def test_a_switch_without_jumbo_frames_ends_a_roce_run(bench):
    bench.world.fabric["ethernet"]["mtu"] = 1518
    try:
        fails(bench, ROCE, ROCE, "Failed status 12")
    finally:
        bench.world.fabric["ethernet"]["mtu"] = 9216


def test_a_smaller_mtu_costs_bandwidth(bench):
    bench.run(2, "ip link set ens224f1 mtu 1500")
    client = bench.pair("ib_send_bw", ROCE)[1]
    bench.run(2, "ip link set ens224f1 mtu 9000")
    assert " Mtu             : 1024[B]\n" in client.stdout
    assert 91 < rows(client.stdout)[65536][1] < 94


def test_a_port_that_is_not_active(bench):
    bench.world.subnet_manager = False
    try:
        code, dummy, err = bench.run(1, "ib_send_bw -d mlx5_0")
        assert code == 1 and "Port number 1 state is Init" in err
    finally:
        bench.world.subnet_manager = True


def test_a_weak_port_and_a_weak_link(bench):
    bench.world.set_fault("weak_port", "vm03", factor=0.5, fabric="ib")
    try:
        assert rows(bench.pair("ib_send_bw", IB, ends=(1, 3))[1].stdout)[65536][1] < 60
        assert rows(bench.pair("ib_send_bw", ROCE, ends=(1, 3))[1].stdout)[65536][1] > 95
        assert rows(bench.pair("ib_send_bw", IB, ends=(1, 2))[1].stdout)[65536][1] > 95
    finally:
        bench.world.clear_fault("weak_port", "vm03")
    bench.world.set_fault("weak_link", "vm01", peer="vm02", factor=0.5)
    try:
        assert rows(bench.pair("ib_send_bw", IB, ends=(2, 1))[1].stdout)[65536][1] < 60
        assert rows(bench.pair("ib_send_bw", IB, ends=(1, 3))[1].stdout)[65536][1] > 95
    finally:
        bench.world.clear_fault("weak_link", "vm01")


def test_one_way_of_a_port_a_blocked_path_and_a_noisy_port(bench):
    def measured(test, ends):
        return rows(bench.pair(test, IB, ends=ends)[1].stdout)[65536 if test.endswith("bw") else 2]
    bench.world.set_fault("weak_port", "vm03", factor=0.5, way="send")
    try:
        assert measured("ib_send_bw", (1, 3))[1] < 60 and measured("ib_send_bw", (3, 1))[1] > 95, "the client sends"
        assert measured("ib_read_bw", (3, 1))[1] < 60 and measured("ib_read_bw", (1, 3))[1] > 93, "a read fetches"
        assert measured("ib_send_lat", (1, 3))[2] < 1.2
    finally:
        bench.world.clear_fault("weak_port", "vm03")
    bench.world.set_fault("weak_link", "vm01", peer="vm02", factor=0)
    try:
        fails(bench, IB, IB, "Failed status 12")
        assert measured("ib_send_bw", (1, 3))[1] > 95
    finally:
        bench.world.clear_fault("weak_link", "vm01")
    bench.world.set_fault("noisy_port", "vm02", cv=10.0)
    try:
        found = [measured("ib_send_bw", (1, 2))[1] for dummy in range(40)]
        assert statistics.stdev(found) > 4 and 90 < statistics.median(found) < 102
    finally:
        bench.world.clear_fault("noisy_port", "vm02")


def test_a_port_that_the_subnet_manager_leaves_alone(bench):
    bench.world.set_fault("unmanaged_port", "vm02")
    try:
        code, dummy, err = bench.run(2, "ib_send_bw -d mlx5_0")
        assert code == 1 and "Port number 1 state is Init" in err
        assert bench.pair("ib_send_bw", IB, ends=(1, 3))[1].returncode == 0
    finally:
        bench.world.clear_fault("unmanaged_port", "vm02")


def test_a_server_listens_on_its_guests_address_and_ends_with_its_program(bench):
    guest = bench.vms[0].guest
    process = bench.popen(1, "exec ib_send_bw -d mlx5_0 -p 18700")
    bench.wait(lambda: 18700 in guest.extra.get("listening", ()))
    assert "18700" in bench.run(1, "ss -Hltn")[1]
    code, dummy, err = bench.run(1, "ib_send_bw -d mlx5_0 -p 18700")
    assert code == 1 and "Couldn't listen to port 18700" in err
    other = bench.popen(2, "exec ib_send_bw -d mlx5_0 -p 18700")
    bench.wait(lambda: 18700 in bench.vms[1].guest.extra.get("listening", ()))
    for one in (process, other):
        one.kill()
        one.communicate()
    bench.wait(lambda: 18700 not in guest.extra["listening"])
    with pytest.raises(OSError):
        socket.create_connection((guest.address, 18700), 1)


def test_a_client_that_goes_away_ends_the_server(bench):
    guest = bench.vms[0].guest
    process = bench.popen(1, "exec ib_send_bw -d mlx5_0 -p 18701")
    bench.wait(lambda: 18701 in guest.extra.get("listening", ()))
    socket.create_connection((guest.address, 18701), 1).close()
    process.communicate(timeout=5)
    assert process.returncode == 1


def test_a_pair_costs_little(bench):
    """The rehearsal of 16 guests makes 480 pairs: each must stay cheap."""
    started = time.process_time()
    for dummy in range(5):
        assert bench.pair("ib_send_bw", "-a " + IB)[1].returncode == 0
    assert (time.process_time() - started) / 5 < 0.1


def test_the_collections_parser_reads_the_labs_tables(bench):
    parser = pytest.importorskip("ansible_collections.vhpc.rdma.plugins.module_utils.tools.perftest")
    for test, options in (("ib_send_bw", "-a " + ROCE), ("ib_send_lat", "-a " + IB)):
        for end in bench.pair(test, options):
            found = parser.parse(end.stdout)
            assert len(found["rows"]) == 23, found
    kinds = {"completion": ("-x 3 " + ROCE, "-x 2 " + ROCE), "gid": ("-x 3 " + ROCE, "-x 1 " + ROCE), "rtr": (ROCE, IB)}
    for kind, (server, client) in kinds.items():
        assert parser.parse(bench.pair("ib_send_bw", server, client)[1].stderr)["error"]["kind"] == kind
    alone = {"no_device": "ib_send_bw -d mlx5_9", "connect": "ib_send_bw vm02", "resolve": "ib_send_bw nobody", "options": "ib_send_bw -a -D 5"}
    for kind, command in alone.items():
        assert parser.parse(bench.run(1, command)[2])["error"]["kind"] == kind
