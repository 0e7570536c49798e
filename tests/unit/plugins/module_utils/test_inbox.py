# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Provider inbox of ofed_guest on the three families, with package managers that keep what is installed in a file."""

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import backends, inbox, packages
from ansible_collections.vhpc.rdma.plugins.module_utils.bench import tables
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import ibfabric
from ansible_collections.vhpc.rdma.plugins.modules import ofed_guest
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.guest_tree import Tree

ROOT = 'root=$(cd "$(dirname "$0")/../.." && pwd)\n'
RPM = ROOT + """if [ "$2" = --qf ]; then
grep -qx rdma-core $root/packages || { echo "package rdma-core is not installed"; exit 1; }; echo 32.0-4.el8; exit 0; fi
shift; code=0; for p; do grep -qx "$p" $root/packages && echo "$p-1-1" || { echo "package $p is not installed"; code=1; }; done; exit $code
"""
DPKG = ROOT + """shift; format=$2; shift 2
case $format in *Version*) grep -qx rdma-core $root/packages && printf 'installed 1:44.0-2\\n'; exit 0 ;; esac
code=0; for p; do grep -qx "$p" $root/packages && echo "$p installed" || code=1; done; exit $code
"""
INSTALL = ROOT + """echo "$(basename $0) $*" >> $root/installs
[ "$(basename $0)" = apt-get ] && case "$*" in *update*) touch $root/lists; exit 0 ;; esac
[ "$(basename $0)" = apt-get ] && [ ! -e $root/lists ] && { echo "E: Unable to locate package rdma-core" >&2; exit 100; }
for p; do case $p in -*|install|DPkg*) ;; *) echo "$p" >> $root/packages ;; esac; done
for m in ib_core mlx5_core; do mkdir -p $root/sys/module/$m; echo KERNELS > $root/sys/module/$m/srcversion; done
"""
MODINFO = ROOT + """for last; do :; done
case "$*" in *" -n "*|"-n "*) echo /lib/modules/5.14.0/kernel/drivers/$last.ko ;; *) echo KERNELS ;; esac
"""
MODPROBE = ROOT + 'mkdir -p $root/sys/module/$1; echo KERNELS > $root/sys/module/$1/srcversion\n'
FAMILIES = {
    "rhel": ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf", "32.0-4.el8"),
    "suse": ('ID="sles"\nID_LIKE="suse"\n', "zypper", "32.0-4.el8"),
    "debian": ("ID=ubuntu\nID_LIKE=debian\n", "apt-get", "44.0-2"),
}


def make(path, kind):
    tree = Tree(path)
    tree.write("etc/os-release", FAMILIES[kind][0])
    (path / "packages").write_text("")
    if kind == "debian":
        tree.program("dpkg-query", DPKG)
    else:
        tree.program("rpm", RPM)
    tree.program(FAMILIES[kind][1], INSTALL)
    tree.program("uname", "echo 5.14.0\n")
    tree.program("modinfo", MODINFO)
    tree.program("modprobe", MODPROBE)
    return tree


def run(tree, check=False, **more):
    params = dict(provider="inbox", version=None, packages=None, source=None, checksum=None, prerequisites=[], installer_arguments=[], firmware_update=False,
                  reload="openibd", memlock="unlimited", memlock_file="90-vhpc-rdma.conf", timeout=60)
    return ofed_guest.work(tree.guest(check, **dict(params, **more)))


@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test_each_family_gets_its_packages_once(tmp_path, kind):
    tree = make(tmp_path, kind)
    planned = run(tree, check=True)
    assert not (tmp_path / "installs").exists()
    first = run(tree)
    names = [step["name"] for step in first["changes"] if step["thing"] == "packages"]
    assert names == inbox.PACKAGES[kind] and [step["name"] for step in planned["changes"]] == [step["name"] for step in first["changes"]]
    assert first["ofed"]["provider"] == "inbox" and first["ofed"]["version"] == FAMILIES[kind][2] and first["ofed"]["loaded"] is True
    second = run(tree)
    assert second["changed"] is False, second["changes"]
    limits = (tmp_path / "etc/security/limits.d/90-vhpc-rdma.conf").read_text()
    assert "* hard memlock unlimited" in limits and "root hard memlock unlimited" in limits


def test_lists_that_were_never_fetched_are_fetched(tmp_path):
    tree = make(tmp_path, "debian")
    run(tree)
    log = (tmp_path / "installs").read_text().splitlines()
    assert len(log) == 3 and "update" in log[1]


# What each package manager says, by its documentation, when no repository has a package: (program, rest of the way in, return code, text, what is told).
REFUSALS = [
    ("dnf", "-y install", 1, "Last metadata expiration check: 0:12:31 ago on Mon 02 Mar 2026 10:00:00 AM UTC.\nNo match for argument: perftest\n"
                             "Error: Unable to find a match: perftest\n", ["Unable to find a match: perftest"]),
    ("dnf", "-y install", 1, "Error: \n Problem: package libibverbs-61.0-1.el9.x86_64 conflicts with doca\n  - nothing provides kmod-mlnx needed by perftest\n",
     ["Problem: package libibverbs", "nothing provides kmod-mlnx"]),
    ("yum", "-y install", 1, "Loaded plugins: fastestmirror\nNo package perftest available.\nError: Nothing to do\n", ["Nothing to do"]),
    ("zypper", "--non-interactive install --no-recommends", 104, "Loading repository data...\nReading installed packages...\n"
     "'perftest' not found in package names. Trying capabilities.\nNo provider of 'perftest' found.\n", ["'perftest' not found", "No provider of 'perftest'"]),
    ("apt-get", "-y -q --no-install-recommends -o DPkg::Lock::Timeout=300 install", 100, "Reading package lists...\nBuilding dependency tree...\n"
     "E: Unable to locate package perftest\n", ["Unable to locate package perftest"]),
]


@pytest.mark.parametrize("program, way, code, text, told", REFUSALS)
def test_each_package_manager_is_asked_its_way_and_its_refusal_is_told(tmp_path, program, way, code, text, told):
    tree = Tree(tmp_path)
    tree.program(program, ROOT + 'echo "$*" >> $root/asked\ncat <<\'E\'\n%sE\nexit %d\n' % (text, code))
    with pytest.raises(RdmaError) as err:
        packages.install(tree.guest().system, ["perftest", "rdma-core"], 60)
    assert err.value.code == "PACKAGES" and all(words in err.value.why for words in told), err.value.why
    assert (tmp_path / "asked").read_text().splitlines()[0] == way + " perftest rdma-core"


@pytest.mark.parametrize("program, code, text, missing", [
    ("rpm", 1, "rdma-core-51.0-1.el9_5.x86_64\npackage perftest is not installed\n", ["perftest"]),
    ("rpm", 0, "rdma-core-51.0-1.el9_5.x86_64\nperftest-24.07.0-1.el9.x86_64\n", []),
    ("dpkg-query", 1, "rdma-core installed\nperftest config-files\n", ["perftest"]),
    ("dpkg-query", 1, "rdma-core installed\n", ["perftest"]),
])
def test_what_is_missing_is_read_from_the_database_of_packages(tmp_path, program, code, text, missing):
    tree = Tree(tmp_path)
    complaint = "echo 'dpkg-query: no packages found matching perftest' >&2\n" if program != "rpm" else ""
    tree.program(program, "cat <<'E'\n%sE\n%sexit %d\n" % (text, complaint, code))
    assert packages.missing(tree.guest().system, ["rdma-core", "perftest"]) == missing


def test_a_broken_database_is_not_taken_for_missing_packages(tmp_path):
    tree = Tree(tmp_path)
    tree.program("rpm", "echo 'error: cannot open Packages database in /var/lib/rpm' >&2\nexit 1\n")
    with pytest.raises(RdmaError) as err:
        packages.missing(tree.guest().system, ["rdma-core"])
    assert err.value.code == "RPM" and "Packages database" in err.value.why


@pytest.mark.parametrize("program, wanted, asked", [
    ("dnf", "3.2.1", "doca-ofed-3.2.1"), ("zypper", "3.2.1", "doca-ofed=3.2.1"), ("apt-get", "3.2.1", "doca-ofed=3.2.1-*"),
    ("apt-get", "3.2.1-044000", "doca-ofed=3.2.1-044000")])
def test_a_version_is_asked_for_as_the_package_manager_takes_it(tmp_path, program, wanted, asked):
    tree = Tree(tmp_path)
    tree.program(program, "exit 0\n")
    assert packages.pinned(tree.guest().system, "doca-ofed", wanted) == asked


def test_an_unknown_distribution_needs_the_names(tmp_path):
    tree = make(tmp_path, "rhel")
    tree.write("etc/os-release", "ID=alpine")
    with pytest.raises(RdmaError) as err:
        run(tree)
    assert err.value.code == "DISTRIBUTION" and "alpine" in str(err.value)
    assert run(tree, packages=["rdma-core", "perftest"])["changed"]


def test_modules_of_another_kernel_are_noticed(tmp_path):
    tree = make(tmp_path, "rhel")
    run(tree)
    tree.write("sys/module/ib_core/srcversion", "ANOTHER")
    found = run(tree)
    assert found["ofed"]["loaded"] is False and found["reboot_required"] and "ib_core" in found["reboot_reasons"][0]


def test_another_ofed_is_not_mixed_with_it(tmp_path):
    tree = make(tmp_path, "rhel")
    tree.program("ofed_info", "echo MLNX_OFED_LINUX-5.4-3.0.3.0:\n")
    with pytest.raises(RdmaError) as err:
        run(tree)
    assert err.value.code == "OTHER_OFED" and "5.4-3.0.3.0" in str(err.value)


# ---- what keeps the network -----------------------------------------------------------------------------------------------------

def systemctl(tree, **units):
    tree.program("systemctl", 'case $2 in %s *) echo inactive; exit 3 ;; esac\n' % " ".join("%s) echo %s; [ %s = active ]; exit $? ;;" % (
        name.replace("_", "-"), state, state) for name, state in units.items()))


def test_the_back_end_is_the_one_that_runs(tmp_path):
    tree = Tree(tmp_path)
    system = tree.guest().system
    assert backends.choose(system) == "networkmanager"
    for program in ("nmcli", "networkctl", "ifup"):
        tree.program(program, "exit 0\n")
    assert backends.choose(system) == "networkmanager"  # systemd cannot be asked
    tree.write("etc/network/interfaces", "source /etc/network/interfaces.d/*")
    systemctl(tree, NetworkManager="active", systemd_networkd="active")
    assert backends.choose(system) == "networkmanager"
    systemctl(tree, systemd_networkd="active")
    assert backends.choose(system) == "networkd"
    systemctl(tree)
    assert backends.choose(system) == "ifupdown"
    tree.program("netplan", "exit 0\n")
    assert backends.choose(system) == "ifupdown"
    tree.write("etc/netplan/01.yaml", "network: {version: 2}")
    assert backends.choose(system) == "netplan"


def test_interfaces_that_do_not_read_their_directory_are_refused(tmp_path):
    tree = Tree(tmp_path)
    tree.write("etc/network/interfaces", "auto lo\n# source /etc/network/interfaces.d/*")
    port = dict(netdev="ens5", mac="52:54:00:00:01:02")
    with pytest.raises(RdmaError) as err:
        backends.configuration(tree.guest().system, "ifupdown", "roce", port, "vhpc-roce", "192.0.2.1/24", 9000)
    assert err.value.code == "INTERFACES"
    for line in ("source interfaces.d/*", "source-directory /etc/network/interfaces.d"):
        assert backends.sourced("auto lo\n%s\n" % line)


# ---- causes that perftest does not tell apart -----------------------------------------------------------------------------------

CONNECT = "Couldn't connect to 192.0.2.7:18515\nUnable to open file descriptor for socket connection Unable to init the socket connection\n"


@pytest.mark.parametrize("probe, cause", [("refused", "server-not-running"), ("timeout", "unreachable"), ("unreachable", "unreachable"), ("unknown", "name"),
                                          ("open", "server-not-running")])
def test_a_connection_of_our_own_tells_why_there_was_none(probe, cause):
    found = tables.refine(tables.failure(CONNECT, 1), connect=probe)
    assert found["cause"] == cause and found["hint"] and "Couldn't connect" in found["text"]


def test_a_client_that_hung_in_its_connection_is_told_from_a_slow_one():
    hung = tables.failure("", None, 60)
    assert tables.refine(hung, connect="timeout")["cause"] == "unreachable"
    assert tables.refine(hung, connect="refused")["cause"] == tables.refine(hung, connect="open")["cause"] == "timeout"
    assert "signal 9" in tables.failure("", -9)["text"]


@pytest.mark.parametrize("probe, cause", [("refused", "server-not-running"), ("timeout", "unreachable"), ("unreachable", "unreachable"), ("unknown", "name"),
                                          ("open", "peer-dead")])
def test_a_partner_that_never_came_is_told_by_a_connection_to_its_door(probe, cause):
    found, text, hint = tables.closed(probe, "[Errno 1] why")
    assert found == cause and "why" in text and hint


def test_an_empty_gid_is_told_from_a_path():
    error = tables.failure(" Failed to modify QP 25 to RTR\n Unable to Connect the HCA's through the link\n", 1)
    assert tables.refine(error)["cause"] == "path" and tables.refine(error, empty_gid="vm01")["cause"] == "gid-empty"
    assert tables.refine(None, connect="refused") is None


@pytest.mark.parametrize("text, cause", [
    ("Completion with error at client\n Failed status 10: wr_id 0 syndrom 0x88\nscnt=5, ccnt=0\n", "tool-mismatch"),
    ("Completion with error at client\n Failed status 11: wr_id 0 syndrom 0x88\nscnt=5, ccnt=0\n", "size-mismatch"),
    ("Completion with error at client\n Failed status 11: wr_id 0 syndrom 0x0\nscnt=1641, ccnt=1513\n", "completion"),
    (" Gid index should be between 0 and 64\n", "gid-range")])
def test_what_the_ends_disagree_on_has_its_own_name(text, cause):
    assert tables.failure(text, 1)["cause"] == cause


# ---- the fabric -----------------------------------------------------------------------------------------------------------------

LINE = '%s "%30s"      4    %d[  ] ==( %s/  %s)==>  %s[  ] "%s" ( )\n'
LINKS = "".join(LINE % row for row in (
    ("0xec0d9a0300b00021", "vm02 mlx5_0", 1, "4X      25.78125 Gbps Active", "LinkUp", "0x7cfe9003000a0000      2    2", "sw1"),
    ("0x7cfe9003000a0000", "sw1", 1, "4X      25.78125 Gbps Initialize", "LinkUp", "0xec0d9a0300b00011      3    1", "vm01 mlx5_0"),
    ("0x7cfe9003000a0000", "sw1", 3, "Down", "Polling", "           ", "")))
ERRORS = 'Errors for "vm02 mlx5_0"\n   GUID 0xec0d9a0300b00021 port 1: [SymbolErrorCounter == %d] [PortRcvErrors == 2]\n\n## Summary: 3 nodes checked, 1 bad\n'
LOCAL = dict(host="vm01", ports=[dict(device="mlx5_0", port=1, state="Active", phys_state="LinkUp")])


def test_a_fabric_is_judged_by_its_links_and_counters():
    links = ibfabric.parse_links(LINKS)
    assert [(link["name"], link["port"], link["state"], link["peer"]) for link in links] == [
        ("vm02 mlx5_0", 1, "Active", "sw1"), ("sw1", 1, "Initialize", "vm01 mlx5_0"), ("sw1", 3, "Down", "")]
    before, after = ibfabric.parse_errors(ERRORS % 5), ibfabric.parse_errors(ERRORS % 9)
    found = ibfabric.findings(dict(lid=1), links, before, after, ["vm01", "vm02", "vm03"], LOCAL)
    assert [(one["code"], one["level"], one["thing"]) for one in found] == [
        ("HOST_MISSING", "error", "vm03"), ("LINK_BAD_STATE", "error", "sw1 port 1"), ("ERRORS", "warning", "vm02 mlx5_0 port 1"),
        ("ERRORS_RISE", "error", "vm02 mlx5_0 port 1")]
    assert "sw1 port 3" in found[0]["text"] and "rose by 4" in found[3]["text"]


def test_a_guest_without_a_link_is_not_told_to_start_a_subnet_manager():
    down = dict(host="vm01", ports=[dict(device="mlx5_0", port=1, state="Down", phys_state="Polling")])
    assert [one["code"] for one in ibfabric.findings(None, [], [], [], [], down)] == ["LINK_NOT_UP"]
    assert [one["code"] for one in ibfabric.findings(None, [], [], [], [], LOCAL)] == ["NO_SUBNET_MANAGER"]
    assert ibfabric.parse_sminfo("sminfo: iberror: failed: query\n") is None
    for parse in (ibfabric.parse_sminfo, ibfabric.parse_links, ibfabric.parse_errors):
        with pytest.raises(ParseError):
            parse("something else\n")


# ---- modules without a source version -------------------------------------------------------------------------------------------

def test_build_ids_tell_where_there_is_no_source_version(tmp_path):
    tree = make(tmp_path, "debian")
    run(tree)
    path = tmp_path / "lib/modules/5.14.0/kernel/drivers"
    path.mkdir(parents=True)
    tree.program("modinfo", ROOT + 'for last; do :; done\ncase "$*" in *"-n "*) echo /lib/modules/5.14.0/kernel/drivers/$last.ko ;; esac\n')
    for name in ("ib_core", "mlx5_core") + inbox.USER_MODULES:
        (tmp_path / "sys/module" / name / "srcversion").unlink()
        build = name.encode().ljust(20, b"\x07")
        (tmp_path / "sys/module" / name / "notes").mkdir()
        (tmp_path / "sys/module" / name / "notes/.note.gnu.build-id").write_bytes(b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0" + build)
        (path / (name + ".ko")).write_bytes(b"\x7fELF.....GNU\0" + build + b"....")
    assert run(tree)["ofed"]["loaded"] is True
    (path / "ib_umad.ko").write_bytes(b"\x7fELF.....GNU\0" + b"another".ljust(20, b"\1"))
    found = run(tree)
    assert found["ofed"]["loaded"] is False and "ib_umad" in found["ofed"]["loaded_reason"] and "build IDs" in found["reboot_reasons"][0]
    (path / "ib_umad.ko").unlink()
    assert run(tree)["ofed"]["loaded"] is True  # the others still tell
