# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's ESXi shell against the machine's own /bin/sh, and what it shows as a host's file system."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from lab import site
from lab.esxi.sh import run_line

HOST = "esxi01"
# Scripts that any POSIX shell answers alike: no file, no environment of the machine in their output.
ALIKE = [
    "echo a  b   c", "echo 'a  b' \"c  d\"", "echo a\\ b", "printf '%s-%03d-%x\\n' x 7 255", "printf '%s\\n' a b c", "printf 'no newline'",
    "x=1; echo $x ${x}2 \"$x\" '$x'", "x='a b'; for i in $x; do echo \"<$i>\"; done", "x='a b'; for i in \"$x\" c; do echo \"<$i>\"; done",
    "unset y; echo ${y:-default} ${y-none} \"${y:+set}\" end", "y=; echo ${y:-empty} [${y-kept}]", "echo ${z:=given} $z",
    "p=/a/b/c.txt; echo ${p##*/} ${p%/*} ${p%.txt} ${p#*/} ${#p}",
    "echo $(echo inner $(echo deep))", "echo `echo old \\`echo style\\``", "echo \"quoted $(printf 'a\\nb')\"", "echo $(printf 'a\\nb')",
    "x=$(printf 'a\\n\\n\\n'); echo \"[$x]\"",
    "echo $((2 + 3 * 4)) $(( (2 + 3) * 4 )) $((7 / 2)) $((7 % 2)) $((1 == 1)) $((3 > 5))", "n=4; echo $((n * n)) $(($n + 1))",
    "true && echo yes || echo no", "false && echo yes || echo no", "! true; echo $?", "! false && echo negated", "false; echo $?", "exit 3",
    "(exit 4); echo $?", "sh -c 'exit 5'; echo $?",
    "if true; then echo a; else echo b; fi", "if false; then echo a; elif true; then echo c; else echo b; fi", "if [ 3 -gt 2 ] && [ a = a ]; then echo ok; fi",
    "if ! [ a = b ]; then echo differ; fi",
    "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done", "i=3; until [ $i -eq 0 ]; do i=$((i-1)); done; echo $i",
    "for i in 1 2 3 4; do [ $i = 3 ] && break; echo $i; done",
    "for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done", "for i in a b; do for j in 1 2; do [ $j = 2 ] && continue 2; echo $i$j; done; done",
    "case abc in a*) echo star;; *) echo other;; esac", "case x in a|x) echo alt;; esac", "case '' in '') echo empty;; esac",
    "case 'a*' in 'a*') echo literal;; *) echo no;; esac",
    "case b in [a-c]) echo class;; esac; case d in [!a-c]) echo outside;; esac", "case nothing in a) echo a;; esac; echo $?",
    "f() { echo \"f $1 $#\"; return 7; }; f a b; echo $?", "f() { x=in; }; x=out; f; echo $x", "f() (x=in); x=out; f; echo $x",
    "g() { for a; do echo $a; done; }; g 1 '2 3'",
    "{ echo a; echo b; } | wc -l | tr -d ' '", "(echo a; echo b) | sort -r", "echo a | cat | cat", "false | true; echo $?", "true | false; echo $?",
    "x=1; (x=2); echo $x", "x=1; { x=2; }; echo $x",
    "echo out; echo err >&2", "{ echo out; echo err >&2; } 2>&1 | sort", "echo gone >/dev/null; echo here", "nosuchprogram 2>/dev/null; echo $?",
    "{ echo a; echo b >&2; } 2>/dev/null", "cat <<E\nx $((1+1))\ny\nE",
    "cat <<'E'\nx $y `z`\nE", "cat <<-E\n\tindented\n\tE\necho after", "v=hello; cat <<E | tr a-z A-Z\n$v\nE", "echo one # comment", "echo a#b",
    "# only a comment", "echo a;echo b", "echo a &&\necho b", "echo a |\ncat",
    "set -- a 'b c' d; echo $# \"$2\"; shift; echo $1", "set -- a 'b c'; for i in \"$@\"; do echo \"<$i>\"; done", "set -- a b; echo \"$*\"",
    "sh -c 'echo $0 $1' name arg",
    "set -e; false; echo unreached", "set -e; false || true; echo reached", "set -e; if false; then :; fi; echo reached", "set -u; echo ${undefined-fine}",
    "eval 'echo $((1+1))'", "x=y; eval \"$x=3\"; echo $y",
    "IFS=:; x=a:b:c; for i in $x; do echo $i; done", "echo 'a b' | { read x y; echo $y $x; }", "printf '1\\n2\\n' | while read n; do echo \"n=$n\"; done",
    "A=1 sh -c 'echo $A'; echo [$A]", "export B=2; sh -c 'echo $B'",
    "C=3; sh -c 'echo [$C]'", "command -v nosuchprogram; echo $?", "printf '%s\\n' \"a\\\"b\" 'c\\d' \"e\\\\f\"", "echo \"\\$x \\`\"", "echo a\\\nb",
    "echo \"a\\\nb\"", "test -z '' && echo z; test -n x && echo n", "[ a != b -a 1 -eq 1 ] && echo and",
    "[ 1 -eq 2 -o 2 -eq 2 ] && echo or", "[ '' ]; echo $?", "[ ]; echo $?", "echo *nothing* '*' \"*\"", "x='*'; echo \"$x\"", "echo ~nouser",
    ": ${D:=dd}; echo $D", "trap '' INT; echo trapped", "x=a; x=${x}b; x=$x$x; echo $x",
    "if grep -q b; then echo found; fi <<E\na\nb\nE", "while read l; do echo \"[$l]\"; done <<E\none\ntwo\nE", "echo $?", "false\necho $?",
    "x=$(false); echo $?", "x=$(exit 6) || echo $?", "return 2>/dev/null; echo ok",
    "(exec 2>&1; echo e >&2); exec 2>/dev/null; nosuch; echo after", "f() { local x=in; echo $x; }; x=out; f; echo $x",
    "echo $((-7 / 2)) $((-7 % 3)) $((1 << 4 | 1)) $((0x1f)) $((010)) $((!0 && 2 > 1))",
    "n=5; echo $((n += 2)) $n $((n > 6 ? 1 : 0)) $(( (n) ))", "x=1; f() { x=2; }; f | cat; echo $x", "set -f; echo *; set +f", "echo a; exec echo b; echo c",
    "for i in; do echo never; done; echo end",
    "if false; then :; fi; echo $?", "! (exit 3); echo $?", "x=a; case $x in $x) echo same;; esac", "printf '%5s|%-5s|%05d\\n' ab cd 42",
    "printf '%b' 'a\\tb\\n'",
]
TEXT = [  # filters, fed with the same input
    "grep b", "grep -v b", "grep -c a", "grep -i BETA", "grep -n 'g.*a'", "grep -E '^(alpha|delta)'", "grep -F 'a.b'", "grep -o '[0-9]*[0-9]'", "grep -w one",
    "grep -x gamma", "grep -q nothing; echo $?", "grep -e alpha -e beta", "grep -A1 beta",
    "grep '[[:space:]]x'", "grep '\\(ph\\)'", "grep 'a\\.b'", "head -n 2", "head -2", "tail -n 1", "tail -n +3", "wc -l | tr -d ' '", "cut -d: -f2",
    "cut -c1-3", "cut -d: -f1,3", "tr a-z A-Z", "tr -d aeiou", "tr -s ' '", "sort", "sort -r",
    "sort -t: -k2 -n", "sort | uniq -c | sed 's/^ *//'", "sed 's/a/A/'", "sed 's/a/A/g'", "sed -n '2p'", "sed -n '2,3p'", "sed '/beta/d'",
    "sed -n '/beta/,/delta/p'", "sed 's/\\([a-z]*\\):\\(.*\\)/\\2=\\1/'", "sed -E 's/([a-z]+):/<\\1>/'",
    "sed 's|a|/|'", "sed '$d'", "sed -e 's/a/1/' -e 's/b/2/'", "sed 's/[0-9]/(&)/g'", "sed -n 's/alpha/found/p'", "sed '1!d'", "sed 2q", "awk '{print $1}'",
    "awk -F: '{print $2}'", "awk '/beta/ {print $1}'", "awk 'NR==2'", "awk -F: '$2 == \"2\" {print $1, $3}'",
    "awk 'END {print NR}'", "awk '{print NF \" fields\"}'", "awk -F: 'NR>1 {print $1\"-\"$2}'", "xargs -n1 echo | head -3",
    "while IFS=: read a b c; do echo \"$b $a\"; done", "cat - | tail -1", "sort -u",
]
INPUT = "alpha:1:one\nbeta:2:two b\ngamma\ndelta:10:  x y\na.b and one\nalpha:1:one\n"


def ours(script, stdin=""):
    return run_line(site.build(1), HOST, script, stdin)


def machine(script, stdin=""):
    done = subprocess.run(["/bin/sh", "-c", script], input=stdin, capture_output=True, text=True, check=False, cwd="/",
                          env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, timeout=20)
    return done.stdout, done.stderr, done.returncode


@pytest.mark.parametrize("script", ALIKE)
def test_a_script_says_what_the_machines_shell_says(script):
    assert ours(script)[::2] == machine(script)[::2]


@pytest.mark.parametrize("script", TEXT)
def test_a_filter_does_what_the_machines_does(script):
    for tool in ("awk", "sed", "grep", "xargs"):
        if tool in script and not shutil.which(tool):
            pytest.skip("no %s here" % tool)
    assert ours(script, INPUT)[::2] == machine(script, INPUT)[::2]


@pytest.mark.parametrize("script, error", [
    ("nosuch -x", "sh: nosuch: not found\n"), ("/opt/mellanox/bin/mst status", "sh: /opt/mellanox/bin/mst: not found\n"),
    ("python3 --version", "sh: python3: not found\n"),
    ("bash -c true", "sh: bash: not found\n"), ("sudo true", "sh: sudo: not found\n")])
def test_what_a_host_does_not_have_is_127_in_the_words_of_ash(script, error):
    assert ours(script) == ("", error, 127)


@pytest.mark.parametrize("script", ["if true; then", "echo 'open", "for do", "echo )", "case x in", "{ echo a", "a && && b", "`echo"])
def test_wrong_syntax_is_an_error_and_nothing_runs(script):
    out, err, rc = ours("echo ran; " + script)
    assert out == "" and err.startswith("sh: syntax error: ") and rc == 2


def test_tmp_is_written_read_and_gone_after_a_reboot():
    world = site.build(1)
    host = world.hosts[HOST]
    line = "mkdir -p /tmp/a/b && echo one > /tmp/a/b/f && echo two >> /tmp/a/b/f && cat /tmp/a/b/f && ls /tmp/a"
    assert run_line(world, HOST, line) == ("one\ntwo\nb\n", "", 0)
    assert run_line(world, HOST, "rm /tmp/a; rm -r /tmp/a; ls /tmp/a") == ("", "rm: '/tmp/a' is a directory\nls: /tmp/a: No such file or directory\n", 1)
    run_line(world, HOST, "echo kept > /etc/profile.local; echo x > /tmp/x; echo y > /scratch/y")
    host.state = "down"
    world.boot_host(HOST)
    assert run_line(world, HOST, "cat /etc/profile.local /tmp/x /scratch/y") == (
        "kept\n", "cat: can't open '/tmp/x': No such file or directory\ncat: can't open '/scratch/y': No such file or directory\n", 1)


def test_a_full_tmp_says_so_and_keeps_what_was_there():
    world = site.build(1)
    run_line(world, HOST, "echo before > /tmp/f")
    world.set_fault("tmp_full", HOST)
    out, err, rc = run_line(world, HOST, "echo more > /tmp/g")
    assert (out, err, rc) == ("", "sh: write error: No space left on device\n", 1)
    assert run_line(world, HOST, "cp /vmfs/volumes/hpc-nfs/rdma/mft-4.18.1.14-0.vib /tmp")[1:] == ("cp: write error: No space left on device\n", 1)
    assert run_line(world, HOST, "cat /tmp/f; vdf | grep tmp | awk '{print $5}'")[0] == "before\n100%\n"
    out, err, rc = run_line(world, HOST, "esxcli software vib install -v /vmfs/volumes/hpc-nfs/rdma/mft-4.18.1.14-0.vib")
    assert "No space left on device" in out and rc == 1 and world.hosts[HOST].staged is None
    world.clear_fault("tmp_full", HOST)
    assert run_line(world, HOST, "echo more > /tmp/g && cat /tmp/g") == ("more\n", "", 0)


def test_datastores_are_shared_by_the_hosts_and_have_a_name_and_an_id():
    world = site.build(2)
    path = "/vmfs/volumes/hpc-nfs/rdma/"
    names = run_line(world, "esxi02", "ls " + path)[0].split()
    assert names == sorted(name.split("/")[1] for name in site.FILES)
    uuid = run_line(world, HOST, "esxcli storage filesystem list | grep hpc-nfs | awk '{print $1}'")[0].strip()
    one, two = (run_line(world, HOST, "sha256sum %s/rdma/%s" % (root, names[0]))[0].split()[0] for root in ("/vmfs/volumes/hpc-nfs", uuid))
    assert one == two and len(one) == 64
    run_line(world, HOST, "echo shared > /vmfs/volumes/hpc-nfs/note")
    assert run_line(world, "esxi02", "cat /vmfs/volumes/hpc-nfs/note")[0] == "shared\n"
    assert "Read-only file system" in run_line(world, HOST, "echo x > /bin/x")[1]
    assert run_line(world, HOST, "echo x > /nowhere/x") == ("", "sh: can't create /nowhere/x: nonexistent directory\n", 1)


def test_a_script_without_an_interpreter_line_is_refused_as_a_binary():
    """execInstalledOnly: what no VIB installed does not run; a script that names its shell does, and so does `sh FILE`."""
    world = site.build(1)
    run_line(world, HOST, "echo 'echo ran $1' > /tmp/a; printf '#!/bin/sh\\necho ran $1\\n' > /tmp/b; chmod +x /tmp/a /tmp/b")
    assert run_line(world, HOST, "/tmp/a x") == ("", "sh: /tmp/a: Operation not permitted\n", 126)
    assert run_line(world, HOST, "/tmp/b x; sh /tmp/a y") == ("ran x\nran y\n", "", 0)


def test_commands_of_the_machine_are_out_of_reach(tmp_path):
    marker = tmp_path / "marker"
    out, err, rc = ours("touch %s; ls %s; /usr/bin/env true; cat /proc/cpuinfo" % (marker, tmp_path))
    assert not marker.exists() and "No such file or directory" in err and "/usr/bin/env: not found" in err and rc == 1


def test_every_line_is_in_the_journal():
    world = site.build(1)
    run_line(world, HOST, "esxcli system version get")
    assert [(entry["face"], entry["host"], entry["what"]) for entry in world.journal] == [("esxi", HOST, "esxcli system version get")]
