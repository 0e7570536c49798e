# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import os
import stat
import time

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.system import System, stop


@pytest.fixture
def tree(tmp_path):
    """A root with programs, and a secret beside it that must stay out of reach."""
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "tmp").mkdir()
    (root / "bin").symlink_to("usr/bin")
    (tmp_path / "secret").write_text("outside\n")
    return root


def program(root, name, text):
    path = root / "usr/bin" / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def test_an_absolute_link_stays_inside_the_root(tree):
    (tree / "etc/real").write_text("inside\n")
    (tree / "etc/alias").symlink_to("/etc/real")
    system = System(str(tree))
    assert system.read("/etc/alias") == "inside\n"
    assert system.inside(system.path("/etc/alias")) == "/etc/real"


def test_no_way_out_of_the_root(tree):
    system = System(str(tree))
    (tree / "etc/up").symlink_to("../../secret")
    (tree / "etc/abs").symlink_to(str(tree.parent / "secret"))
    for name in ("/etc/up", "/etc/abs", "/../secret", "/etc/../../secret"):
        assert system.path(name).startswith(str(tree) + "/"), name
        assert not system.exists(name)
        with pytest.raises(RdmaError) as err:
            system.read(name)
        assert err.value.code == "FILE"
    system.write("/../secret", "mine\n")
    assert (tree.parent / "secret").read_text() == "outside\n"
    assert (tree / "secret").read_text() == "mine\n"


def test_links_in_a_circle_are_an_error_and_no_hang(tree):
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    with pytest.raises(RdmaError):
        System(str(tree)).path("/a")


def test_programs_of_the_machine_are_not_found_in_another_root(tree):
    system = System(str(tree))
    assert System("/").find("sh")
    assert system.find("sh") == ""
    (tree / "usr/bin/sh").symlink_to("/bin/sh")  # the root's own /bin/sh, which is this link itself
    with pytest.raises(RdmaError):
        system.find("sh")
    with pytest.raises(RdmaError) as err:
        system.run(["nothere"])
    assert err.value.code == "PROGRAM_MISSING" and "nothere" in str(err.value)


def test_run_gives_code_output_errors_and_english(tree):
    program(tree, "tell", 'echo "$LC_ALL $1"; echo wrong >&2; exit 3\n')
    assert System(str(tree)).run(["tell", "me"]) == (3, "C me\n", "wrong\n")


def test_a_program_calls_the_roots_programs_first(tree):
    program(tree, "inner", "echo ours\n")
    program(tree, "outer", "inner\n")
    assert System(str(tree)).run(["outer"])[1] == "ours\n"


def test_a_time_out_ends_what_the_program_started_too(tree):
    program(tree, "slow", 'sleep 30 & echo $! > "$1"; echo so far; wait\n')
    system, note = System(str(tree)), tree / "tmp/pid"
    began = time.time()
    with pytest.raises(RdmaError) as err:
        system.run(["slow", str(note)], timeout=0.4)
    assert time.time() - began < 5
    assert err.value.code == "TIMEOUT" and err.value.data["stdout"] == "so far\n"
    child = int(note.read_text())
    for dummy in range(50):
        try:
            with open("/proc/%d/stat" % child) as handle:
                state = handle.read().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
    raise AssertionError("the child still runs")


def test_a_daemon_that_keeps_the_output_open_does_not_hold_us(tree):
    program(tree, "leaves", "sleep 20 &\necho done\n")
    system = System(str(tree))
    began = time.time()
    assert system.run(["leaves"], timeout=10)[:2] == (0, "done\n")
    assert time.time() - began < 5


def test_write_keeps_the_mode_and_leaves_nothing_behind(tree):
    system = System(str(tree))
    system.write("/etc/app/new.conf", "one\n", mode=0o600)
    assert system.mode("/etc/app/new.conf") == 0o600
    (tree / "etc/app/new.conf").chmod(0o640)
    system.write("/etc/app/new.conf", "two\n")
    assert stat.S_IMODE(os.stat(tree / "etc/app/new.conf").st_mode) == 0o640
    assert system.read("/etc/app/new.conf") == "two\n"
    assert system.listdir("/etc/app") == ["new.conf"]


def test_write_through_a_link_changes_the_target(tree):
    (tree / "etc/target").write_text("old\n")
    (tree / "etc/link").symlink_to("/etc/target")
    System(str(tree)).write("/etc/link", "new\n")
    assert (tree / "etc/link").is_symlink() and (tree / "etc/target").read_text() == "new\n"


def test_glob_lists_inside_only(tree):
    system = System(str(tree))
    for name in ("b.conf", "a.conf", ".hidden.conf", "c.txt"):
        (tree / "etc" / name).write_text("")
    assert system.glob("/etc/*.conf") == ["/etc/a.conf", "/etc/b.conf"]
    assert system.glob("/*/a.conf") == ["/etc/a.conf"]
    assert system.glob("/nothing/*") == []


def test_remove_tree_does_not_follow_links(tree):
    (tree / "var").mkdir()
    (tree / "var/x").mkdir()
    (tree / "etc/keep").write_text("")
    (tree / "var/x/away").symlink_to("/etc")
    system = System(str(tree))
    system.remove_tree("/var/x")
    system.remove_tree("/")
    assert not system.exists("/var/x") and system.exists("/etc/keep")


def test_a_root_must_be_an_absolute_directory(tmp_path):
    for root in ("relative", str(tmp_path / "absent")):
        with pytest.raises(RdmaError) as err:
            System(root)
        assert err.value.code == "ROOT"


def test_the_name_of_a_root_is_its_own(tree):
    (tree / "etc/hostname").write_text("vm07\n")
    assert System(str(tree)).name() == "vm07"


def test_stop_is_fine_with_a_process_that_has_gone(tree):
    program(tree, "quick", "exit 0\n")
    system = System(str(tree))
    with system.scratch() as out:
        process = system.start(["quick"], out, out)
        process.wait(5)
        stop(process)
    assert process.returncode == 0
