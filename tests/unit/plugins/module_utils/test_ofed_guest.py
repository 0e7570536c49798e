# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import hashlib
import io
import os
import subprocess
import sys
import tarfile

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import ofed_state, uses
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.system import System
from ansible_collections.vhpc.rdma.plugins.modules import ofed_guest
from ansible_collections.vhpc.rdma.tests.unit.plugins.module_utils.guest_tree import Tree

WANTED = "5.4-3.0.3.0"
TARBALL = "/root/MLNX_OFED_LINUX-5.4-3.0.3.0-rhel8.1-x86_64.tgz"
# Installs by writing what ofed_info and modinfo then tell; how it was called is kept. It finds its root by the folder it lies in.
INSTALLER = """#!/bin/sh
top=$(cd "$(dirname "$0")/../../../../.." && pwd)
echo "$*" >> $top/installer.log
[ -f $top/fail ] && { cat $top/fail; exit $(cat $top/code); }
printf '#!/bin/sh\\necho MLNX_OFED_LINUX-5.4-3.0.3.0:\\n' > $top/usr/bin/ofed_info
chmod 755 $top/usr/bin/ofed_info
echo NEW > $top/installed
echo Installation passed successfully
"""
MODINFO = 'cat $(dirname $0)/../../installed\n'
OPENIBD = """echo "$1" >> $(dirname $0)/../../openibd.log
top=$(dirname $0)/../..
[ -f $top/busy ] && { echo 'Unloading mlx_compat    [FAILED]'; echo 'rmmod: ERROR: Module mlx_compat is in use by: nvme_rdma'; exit 1; }
mkdir -p $top/sys/module/mlx5_core
cp $top/installed $top/sys/module/mlx5_core/srcversion
echo 'Unloading HCA driver:                                      [  OK  ]'
echo 'Loading HCA driver and Access Layer:                       [  OK  ]'
"""


def tarball(tree, name=TARBALL, files=None):
    files = files or {"MLNX/mlnxofedinstall": (INSTALLER, 0o755), "MLNX/.mlnx": ("MLNX_OFED_LINUX-5.4-3.0.3.0\n", 0o644)}
    with tarfile.open(str(tree.root) + name, "w:gz") as archive:
        for path, (text, mode) in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(text), mode
            archive.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture
def tree(tmp_path):
    """A RHEL-like guest without OFED, its inbox driver loaded."""
    tree = Tree(tmp_path)
    tarball(tree)
    (tree.root / "packages").write_text("bash\n")
    tree.program("rpm", 'shift\ncode=0\nfor p; do grep -qx "$p" $(dirname $0)/../../packages && echo "$p-1" || {\n'
                        'echo "package $p is not installed"; code=1; }; done\nexit $code\n')
    tree.program("dnf", 'shift 2\necho "$*" >> $(dirname $0)/../../dnf.log\nfor p; do [ "$p" = nowhere ] && {\n'
                        'echo "Error: Unable to find a match: nowhere" >&2; exit 1; }\n'
                        'echo "$p" >> $(dirname $0)/../../packages; done\n')
    tree.program("uname", "echo 4.18.0-147.el8.x86_64\n")
    tree.program("modinfo", MODINFO)
    tree.program("openibd", OPENIBD, "etc/init.d")
    (tree.root / "installed").write_text("INBOX\n")
    tree.write("sys/module/mlx5_core/srcversion", "INBOX")
    return tree


def run(tree, check=False, **more):
    params = dict(provider="mlnx_ofed", version=WANTED, source=TARBALL, checksum=None, prerequisites=[], installer_arguments=[],
                  firmware_update=False, reload="openibd",
                  memlock="unlimited", memlock_file="90-vhpc-rdma.conf", timeout=60)
    params.update(more)
    return ofed_guest.work(tree.guest(check, **params))


def log(tree, name):
    path = tree.root / name
    return path.read_text().splitlines() if path.exists() else []


def failure(tree, **more):
    with pytest.raises(RdmaError) as err:
        run(tree, **more)
    return err.value


def test_check_mode_tells_the_steps_of_the_real_run_and_touches_nothing(tree):
    before = {str(path): path.read_bytes() for path in tree.root.rglob("*") if path.is_file()}
    planned = run(tree, check=True, prerequisites=["bash", "tk", "kernel-modules-extra-{kernel}"])
    assert {str(path): path.read_bytes() for path in tree.root.rglob("*") if path.is_file()} == before
    done = run(tree, prerequisites=["bash", "tk", "kernel-modules-extra-{kernel}"])
    assert planned["changes"] == done["changes"]
    assert [step["name"] for step in done["changes"]] == ["memlock", "tk", "kernel-modules-extra-4.18.0-147.el8.x86_64", "version", "running modules"]


def test_installed_loaded_and_the_second_run_changes_nothing(tree):
    done = run(tree, prerequisites=["bash", "tk"])
    assert done["ofed"]["version"] == WANTED and done["ofed"]["loaded"] is True and done["changed"]
    assert log(tree, "installer.log") == ["--force --without-fw-update"] and log(tree, "openibd.log") == ["restart"] and log(tree, "dnf.log") == ["tk"]
    assert not (tree.root / "var/tmp/vhpc_rdma/ofed").exists()
    again = run(tree, prerequisites=["bash", "tk"])
    assert not again["changed"] and len(log(tree, "installer.log")) == len(log(tree, "openibd.log")) == 1


def test_firmware_is_burned_only_when_asked(tree):
    run(tree, firmware_update=True, installer_arguments=["--add-kernel-support"])
    assert log(tree, "installer.log") == ["--force --add-kernel-support"]


def test_installed_but_not_loaded_is_loaded_without_installing_again(tree):
    run(tree)
    tree.write("sys/module/mlx5_core/srcversion", "INBOX")
    planned = run(tree, check=True)
    assert [step["name"] for step in planned["changes"]] == ["running modules"] and planned["ofed"]["loaded"] is False
    done = run(tree)
    assert done["changes"] == planned["changes"] and done["ofed"]["loaded"] is True and len(log(tree, "installer.log")) == 1


def test_with_reload_reboot_the_guest_must_be_rebooted_until_it_was(tree):
    done = run(tree, reload="reboot")
    assert done["reboot_required"] and done["changed"] and log(tree, "openibd.log") == []
    again = run(tree, reload="reboot")
    assert again["reboot_required"] and not again["changed"] and "not loaded" in again["reboot_reasons"][0]
    tree.write("sys/module/mlx5_core/srcversion", "NEW")
    assert not run(tree, reload="reboot")["reboot_required"]


def test_the_version_is_compared_as_a_whole(tree):
    assert ofed_state.is_version("MLNX_OFED_LINUX-5.4-3.0.3.0", "5.4-3.0.3.0") and ofed_state.is_version("5.4-3.0.3.0:", "MLNX_OFED_LINUX-5.4-3.0.3.0")
    assert not ofed_state.is_version("MLNX_OFED_LINUX-5.4-3.0.3.0", "5.4-3.0.3") and not ofed_state.is_version("", "5.4-3.0.3.0")
    assert not ofed_state.is_version("MLNX_OFED_LINUX-25.4-3.0.3.0", "5.4-3.0.3.0")
    tree.program("ofed_info", "echo MLNX_OFED_LINUX-5.4-3.0.3.1:\n")
    assert run(tree)["changes"][1]["before"] == "5.4-3.0.3.1"


@pytest.mark.parametrize("code, text, word, hint", [
    (172, "Error: One or more required packages for installing MLNX_OFED_LINUX are missing.\nRun:\nyum install tcsh tk\n", "tcsh, tk", "prerequisites"),
    (171, "", "no supported adapter", "lspci"), (28, "", "room", "room"), (22, "", "parameter", "installer_arguments"), (2, "", "firmware", "firmware_update"),
    (173, "", "mst", "firmware_update"),
    (1, "The 4.18.0-348.el8.x86_64 kernel is installed, MLNX_OFED_LINUX does not have drivers available for this kernel.\n"
        "Or, you can provide '--add-kernel-support' flag\n", "4.18.0-348", "--add-kernel-support"),
    (9, "Error: something new\n", "something new", "log"),
])
def test_the_installers_return_codes_become_words(tree, code, text, word, hint):
    (tree.root / "fail").write_text(text)
    (tree.root / "code").write_text(str(code))
    err = failure(tree)
    assert err.code == "INSTALLER" and word in err.why and hint in err.hint and err.data["rc"] == code
    assert log(tree, "openibd.log") == []


def test_an_installer_that_asks_is_told_to_go_on_and_never_waited_for(tree):
    begin = "[ -f $top/fail ]"
    asks = INSTALLER.replace(begin, 'case "$*" in *--force*) ;; *) echo "Do you want to continue?[y/N]:"; read answer || exit 1 ;; esac\n' + begin)
    tarball(tree, TARBALL, {"MLNX/mlnxofedinstall": (asks, 0o755)})
    assert run(tree)["ofed"]["version"] == WANTED
    (tree.root / "usr/bin/ofed_info").unlink()
    stubborn = INSTALLER.replace(begin, 'echo "Overwrite the configuration?[y/N]:"; read answer || { echo "Error: no answer"; exit 1; }\n' + begin)
    tarball(tree, TARBALL, {"MLNX/mlnxofedinstall": (stubborn, 0o755)})
    err = failure(tree, timeout=20)
    assert err.code == "INSTALLER" and "no answer" in err.why and log(tree, "openibd.log") == ["restart"]


def test_openibd_in_use_is_a_failure_with_its_own_words(tree):
    (tree.root / "busy").write_text("")
    err = failure(tree)
    assert err.code == "OPENIBD" and "nvme_rdma" in err.why and "reboot" in err.hint


def stands_on(tree, name, driver="mlx5_core"):
    """A network device with its driver."""
    (tree.root / "sys/class/net" / name / "device").mkdir(parents=True)
    (tree.root / "sys/class/net" / name / "device/driver").symlink_to("../../../bus/pci/drivers/" + driver)


ROUTE = "Iface\tDestination\tGateway\n%s\t00000000\t0102000A"


def standing(tree, what):
    """Something in the guest that would be gone without the driver, and the word by which it is told."""
    if what == "default route":
        tree.write("proc/net/route", ROUTE % "ens224")
        stands_on(tree, "ens224")
        return "ens224"
    if what == "default route of IPv6 over a bond":
        tree.write("proc/net/ipv6_route", "%s 00 %s 00 %s 00000400 00000001 00000000 00000003     bond0" % (("0" * 32,) * 3))
        for name in ("vlan9", "bond0"):
            (tree.root / "sys/class/net" / name).mkdir()
        (tree.root / "sys/class/net/bond0/lower_vlan9").symlink_to("../vlan9")
        (tree.root / "sys/class/net/vlan9/lower_ens161").symlink_to("../ens161")
        stands_on(tree, "ens161")
        return "ens161"
    if what == "root disk":
        tree.write("proc/mounts", "/dev/mapper/vg-root / xfs rw 0 0")
        for folder in ("dev/mapper", "sys/class/block/dm-0/slaves/nvme0n1", "sys/class/nvme/nvme0"):
            (tree.root / folder).mkdir(parents=True)
        (tree.root / "dev/mapper/vg-root").symlink_to("../dm-0")
        tree.write("sys/class/nvme/nvme0/transport", "rdma")
        return "vg-root"
    if what == "root over NFS":
        tree.write("proc/mounts", "192.0.2.9:/vm01 / nfs4 rw,vers=4.2,proto=tcp,addr=192.0.2.9 0 0")
        ip = (tree.root / "usr/bin/ip").read_text()
        tree.program("ip", ip.replace("rows = []", 'if "route" in sys.argv:\n    sys.exit(print("192.0.2.9 dev ens224 src 192.0.2.11 uid 0"))\nrows = []'))
        stands_on(tree, "ens224")
        return "ens224"
    tree.write("proc/mounts", {"NFS": "192.0.2.9:/home /home nfs4 rw,vers=4.2,proto=rdma,addr=192.0.2.9 0 0",
                               "Lustre": "192.0.2.8@o2ib:/scratch /scratch lustre rw 0 0"}[what])
    return {"NFS": "/home", "Lustre": "/scratch"}[what]


THINGS = ("default route", "default route of IPv6 over a bond", "root disk", "root over NFS", "NFS", "Lustre")


@pytest.mark.parametrize("what", THINGS)
def test_what_stands_on_the_driver_makes_a_restart_of_openibd_a_reboot(tree, what):
    word = standing(tree, what)
    planned = run(tree, check=True)
    done = run(tree)
    assert planned["changes"] == done["changes"] and planned["reboot_required"] and done["reboot_required"]
    assert word in done["changes"][-1]["reason"] and log(tree, "openibd.log") == [] and done["ofed"]["version"] == WANTED
    again = run(tree)
    assert not again["changed"] and again["reboot_required"] and word in again["reboot_reasons"][0] and log(tree, "openibd.log") == []
    tree.write("sys/module/mlx5_core/srcversion", "NEW")
    assert not run(tree)["reboot_required"]


def test_what_stands_on_another_driver_is_in_nobodys_way(tree):
    tree.write("proc/net/route", ROUTE % "ens192")
    stands_on(tree, "ens192", "vmxnet3")
    tree.write("proc/mounts", "/dev/nvme0n1p2 / xfs rw 0 0\n192.0.2.9:/home /home nfs4 rw,proto=tcp,addr=192.0.2.9 0 0")
    tree.write("sys/class/nvme/nvme0/transport", "pcie")
    assert run(tree)["ofed"]["loaded"] is True and log(tree, "openibd.log") == ["restart"]


def test_the_way_of_a_session_is_found_behind_sudo_too():
    """sudo takes SSH_CONNECTION out of the environment; the shell above has it."""
    way = "192.0.2.1 50022 192.0.2.11 22"
    ask = "import sys; sys.path[:0] = %r; from %s import session; from %s import System; print(session(System('/')))" % (
        sys.path, uses.__name__, System.__module__)
    for above, word in ((dict(SSH_CONNECTION=way), way), ({}, "")):
        out = subprocess.check_output(["sh", "-c", 'env -i "$0" -c "$1"; true', sys.executable, ask], env=dict(above, PATH=os.environ["PATH"]))
        assert out.decode().strip() == (word or os.environ.get("SSH_CONNECTION", ""))


def test_an_installation_without_modules_has_none_to_load(tree):
    only = dict(installer_arguments=["--user-space-only"])
    run(tree, **only)
    tree.write("sys/module/mlx5_core/srcversion", "INBOX")
    again = run(tree, **only)
    assert not again["changed"] and not again["reboot_required"] and log(tree, "openibd.log") == []


def test_the_way_of_this_session_counts_too(tree):
    system = System(str(tree.root))
    assert uses.of_driver(system, "192.0.2.1 50022 192.0.2.11 22") == []
    stands_on(tree, "ens192")
    assert "ens192" in uses.of_driver(system, "192.0.2.1 50022 192.0.2.11 22")[0]
    assert uses.of_driver(system, "192.0.2.1 50022 192.0.2.99 22") == uses.of_driver(system, "") == []


def test_sources_that_are_not_there_or_not_right_are_refused_before_installing(tree):
    assert failure(tree, source="/root/none.tgz", check=True).code == "NO_SOURCE"
    assert failure(tree, source=None).code == "NO_SOURCE"
    assert failure(tree, checksum="sha256:" + "0" * 64).code == "CHECKSUM"
    assert failure(tree, checksum="md5:1").code == "CHECKSUM"
    tarball(tree, "/root/other.tgz", {"MLNX/mlnxofedinstall": (INSTALLER, 0o755), "MLNX/.mlnx": ("MLNX_OFED_LINUX-5.8-1.0.1.1\n", 0o644)})
    assert "5.8-1.0.1.1" in failure(tree, source="/root/other.tgz").why
    tarball(tree, "/root/empty.tgz", {"readme": ("x", 0o644)})
    assert failure(tree, source="/root/empty.tgz").code == "TARBALL"
    (tree.root / "root/broken.tgz").write_text("no archive")
    assert failure(tree, source="/root/broken.tgz").code == "TARBALL"
    assert log(tree, "installer.log") == []
    good = hashlib.sha256((tree.root / TARBALL[1:]).read_bytes()).hexdigest()
    assert run(tree, checksum="sha256:" + good)["ofed"]["version"] == WANTED


def test_a_tarball_that_writes_outside_is_refused(tree):
    tarball(tree, "/root/evil.tgz", {"MLNX/mlnxofedinstall": (INSTALLER, 0o755), "../../../etc/evil": ("x", 0o644)})
    assert failure(tree, source="/root/evil.tgz").code == "TARBALL" and not (tree.root / "etc/evil").exists()
    with tarfile.open(tree.root / "root/link.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("MLNX/away")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(info)
    assert failure(tree, source="/root/link.tgz").code == "TARBALL"


def test_a_package_that_no_repository_has_is_named(tree):
    err = failure(tree, prerequisites=["nowhere"])
    assert err.code == "PACKAGES" and "nowhere" in err.why and log(tree, "installer.log") == []


def limit_steps(done):
    return [(step["name"], step["before"], step["after"]) for step in done["changes"] if step["thing"] == "limits"]


def test_memlock_is_left_alone_when_it_is_right_or_not_asked_for(tree):
    (tree.root / "etc/security/limits.d/site.conf").write_text("* - memlock -1\nroot - memlock infinity\n")
    assert limit_steps(run(tree)) == []
    (tree.root / "etc/security/limits.d/site.conf").write_text("* - memlock 64\n")
    assert limit_steps(run(tree, memlock="")) == []
    assert not (tree.root / "etc/security/limits.d/90-vhpc-rdma.conf").exists()
    assert ofed_state.memlock(["* soft memlock 64\n", "* soft memlock unlimited\n* hard memlock 128 # x\n"]) == dict(soft="unlimited", hard="128")


def test_lines_for_everybody_are_not_taken_for_root(tree):
    (tree.root / "etc/security/limits.d/site.conf").write_text("* - memlock unlimited\nroot soft memlock 64\n")
    (tree.root / "etc/security/limits.d/site.conf").rename(tree.root / "etc/security/limits.d/10-site.conf")
    assert limit_steps(run(tree)) == [("memlock of root", "64", "unlimited")]
    assert "root hard memlock unlimited" in (tree.root / "etc/security/limits.d/90-vhpc-rdma.conf").read_text() and not run(tree)["changed"]


def test_services_get_the_limit_where_systemd_runs(tree):
    (tree.root / "run/systemd/system").mkdir(parents=True)
    tree.program("systemctl", 'echo "$*" >> $(dirname $0)/../../systemctl.log\n')
    planned, done = run(tree, check=True), run(tree)
    assert limit_steps(planned) == limit_steps(done) and ("memlock of services", "system's default", "infinity") in limit_steps(done)
    file = tree.root / "etc/systemd/system.conf.d/90-vhpc-rdma.conf"
    assert "[Manager]\nDefaultLimitMEMLOCK=infinity\n" in file.read_text() and log(tree, "systemctl.log") == ["daemon-reexec"]
    assert not run(tree)["changed"] and log(tree, "systemctl.log") == ["daemon-reexec"]
    assert ("memlock of services", "infinity", "65536K") in limit_steps(run(tree, memlock="65536"))
    tree.write("etc/systemd/system.conf.d/99-site.conf", "[Manager]\n#DefaultLimitMEMLOCK=1\nDefaultLimitMEMLOCK=8M")
    err = failure(tree)
    assert err.code == "READ_BACK" and "services" in err.what


def test_a_later_file_that_says_otherwise_is_not_hidden(tree):
    (tree.root / "etc/security/limits.d/99-site.conf").write_text("* soft memlock 64\n")
    err = failure(tree)
    assert err.code == "READ_BACK" and "memlock" in err.what


def test_an_installer_that_installs_something_else_is_found_out(tree):
    tarball(tree, TARBALL, {"MLNX/mlnxofedinstall": (INSTALLER.replace("echo MLNX_OFED_LINUX-5.4-3.0.3.0:", "echo MLNX_OFED_LINUX-5.4-1.0.0.0:"), 0o755)})
    assert failure(tree).code == "READ_BACK"


def test_without_srcversions_the_version_of_the_module_decides(tmp_path):
    tree = Tree(tmp_path)
    system = System(str(tmp_path))
    assert ofed_state.loaded(system, WANTED)[0] is False
    (tmp_path / "sys/module/mlx5_core").mkdir(parents=True)
    assert ofed_state.loaded(system, WANTED)[0] is None
    tree.write("sys/module/mlx5_core/version", "5.0-0")
    assert ofed_state.loaded(system, WANTED)[0] is False
    tree.write("sys/module/mlx5_core/version", "5.4-3.0.3")
    assert ofed_state.loaded(system, WANTED)[0] is True


# ---- EFI Secure Boot -------------------------------------------------------------------------------------------------------

def secure_boot(tree, on):
    path = tree.root / "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x06\x00\x00\x00" + (b"\x01" if on else b"\x00"))


def test_modules_built_here_are_refused_under_secure_boot(tree):
    secure_boot(tree, True)
    with pytest.raises(RdmaError) as err:
        run(tree, installer_arguments=["--add-kernel-support"])
    assert err.value.code == "SECURE_BOOT" and "mokutil" in err.value.hint and not log(tree, "installer.log")
    secure_boot(tree, False)
    assert run(tree, installer_arguments=["--add-kernel-support"])["changed"]


def test_unsigned_modules_do_not_replace_the_running_ones_under_secure_boot(tree):
    secure_boot(tree, True)
    tree.program("modinfo", '[ "$2" = signer ] && { cat $(dirname $0)/../../signer 2>/dev/null; exit 0; }\n' + MODINFO)
    with pytest.raises(RdmaError) as err:
        run(tree)
    assert err.value.code == "SECURE_BOOT" and not log(tree, "openibd.log")
    # Nor does a reboot bring them, now or on a later run.
    for check in (True, False):
        with pytest.raises(RdmaError) as err:
            run(tree, check=check, reload="reboot")
        assert err.value.code == "SECURE_BOOT"
    (tree.root / "signer").write_text("Mellanox Technologies signing key\n")
    assert run(tree)["ofed"]["loaded"] is True


# ---- another kernel than the one it was installed for ------------------------------------------------------------------------

def drifted(tree):
    """The guest after an update of its kernel: modprobe finds the kernel's own modules only."""
    tree.program("uname", "echo 4.18.0-348.el8.x86_64\n")
    tree.program("modinfo", 'case "$*" in *-n*) [ -e $(dirname $0)/../../built ] && echo /lib/modules/4.18.0-348.el8.x86_64/extra/mlx5_core.ko ||\n'
                            "echo /lib/modules/4.18.0-348.el8.x86_64/kernel/drivers/net/mlx5_core.ko.xz; exit 0 ;; esac\n" + MODINFO)
    (tree.root / "installed").write_text("INBOX\n")
    tree.write("sys/module/mlx5_core/srcversion", "INBOX")


def test_a_kernel_without_the_drivers_modules_is_noticed(tree):
    run(tree)
    drifted(tree)
    assert ofed_state.state(System(str(tree.root)))["loaded"] is False
    for check in (True, False):
        err = failure(tree, check=check)
        assert err.code == "KERNEL_DRIFT" and "4.18.0-348" in err.why and "--add-kernel-support" in err.hint
    assert log(tree, "openibd.log") == ["restart"] and len(log(tree, "installer.log")) == 1
    assert not run(tree, reload="none")["changed"]


def test_with_kernel_support_it_is_installed_again_for_the_new_kernel(tree):
    run(tree)
    drifted(tree)
    tarball(tree, TARBALL, {"MLNX/mlnxofedinstall": (INSTALLER + "touch $top/built\n", 0o755)})
    planned = run(tree, check=True, installer_arguments=["--add-kernel-support"])
    done = run(tree, installer_arguments=["--add-kernel-support"])
    assert planned["changes"] == done["changes"] and [step["name"] for step in done["changes"]] == ["kernel modules", "running modules"]
    assert done["ofed"]["loaded"] is True and log(tree, "installer.log")[-1] == "--force --without-fw-update --add-kernel-support"
    assert not run(tree, installer_arguments=["--add-kernel-support"])["changed"]


def test_dkms_tells_what_it_has_not_built():
    text = ("mlnx-ofed-kernel/25.10.OFED.25.10.1.7.1.1, 5.14.0-570.el9.x86_64, x86_64: installed\nkernel-mft-dkms/4.34.0: added\n"
            "iser, 25.10, 5.14.0-503.el9.x86_64, x86_64: installed (original_module exists)\nsrp/25.10, 5.14.0-570.el9.x86_64, x86_64: built\n")
    assert ofed_state.dkms_missing(text, "5.14.0-570.el9.x86_64") == ["kernel-mft-dkms", "iser", "srp"]
    assert ofed_state.dkms_missing("", "5.14.0-570.el9.x86_64") == []


# ---- the vendor's repository --------------------------------------------------------------------------------------------------

DOCA = "3.2.1-044000"
# Package managers that keep "name version" in a file, and what a package in a file is in that file itself.
DOCA_RPM = """root=$(cd "$(dirname "$0")/../.." && pwd)
echo "rpm $*" >> $root/packages.log
case "$*" in
-qp*) for last; do :; done; cat $root$last 2>/dev/null || cat $last; exit 0 ;;
-U*) for last; do :; done; cat $last >> $root/packages 2>/dev/null || cat $root$last >> $root/packages; touch $root/repository; exit 0 ;;
"-q --qf"*) for last; do :; done; grep "^$last " $root/packages | tail -n 1 | cut -d' ' -f2 | grep . && exit 0
echo "package $last is not installed"; exit 1 ;;
esac
exit 0
"""
DOCA_DNF = """root=$(cd "$(dirname "$0")/../.." && pwd)
echo "dnf $*" >> $root/packages.log
for last; do :; done
[ "$last" = all ] && exit 0
[ -e $root/repository ] || { echo "Error: Unable to find a match: $last" >&2; exit 1; }
case $last in doca-ofed-3.2.1*) ;; *) echo "Error: Unable to find a match: $last" >&2; exit 1 ;; esac
echo "doca-ofed 3.2.1-044000" >> $root/packages
echo NEW > $root/installed
printf '#!/bin/sh\necho OFED-internal-25.10-1.7.1:\n' > $root/usr/bin/ofed_info
chmod 755 $root/usr/bin/ofed_info
"""


@pytest.fixture
def vendor(tree):
    """The same guest, and the package of the vendor's repository."""
    tree.program("rpm", DOCA_RPM)
    tree.program("dnf", DOCA_DNF)
    (tree.root / "packages").write_text("")
    (tree.root / "root/doca-host.rpm").write_text("doca-host 3.2.1-044000_25.10\n")
    return tree


def doca_run(tree, check=False, **more):
    return run(tree, check=check, **dict(dict(provider="doca", version=DOCA, source="/root/doca-host.rpm"), **more))


def test_doca_comes_from_its_repository_and_is_loaded_once(vendor):
    planned, done = doca_run(vendor, check=True), doca_run(vendor)
    assert planned["changes"] == done["changes"]
    assert [(step["thing"], step["name"], step["after"]) for step in done["changes"]][1:] == [
        ("repository", "doca-host", "3.2.1-044000_25.10"), ("OFED", "doca-ofed", DOCA), ("OFED", "running modules", "those of " + DOCA)]
    assert done["ofed"]["provider"] == "doca" and done["ofed"]["loaded"] is True and log(vendor, "openibd.log") == ["restart"]
    asked = log(vendor, "packages.log")
    assert asked.index("dnf clean all") < asked.index("dnf -y install doca-ofed-" + DOCA)
    assert not doca_run(vendor)["changed"] and not doca_run(vendor, version="3.2.1", source=None)["changed"]
    assert log(vendor, "openibd.log") == ["restart"] and log(vendor, "installer.log") == []


def test_doca_needs_its_exact_version_and_says_what_there_is(vendor):
    (vendor.root / "repository").write_text("")
    with pytest.raises(RdmaError) as err:
        doca_run(vendor, version="3.3.0", source=None)
    assert err.value.code == "PACKAGES" and "doca-ofed-3.3.0" in err.value.why
    for source, code in (("/root/none.rpm", "NO_SOURCE"), ("/root/MLNX_OFED_LINUX-5.4-3.0.3.0-rhel8.1-x86_64.tgz", "PACKAGE_FILE")):
        with pytest.raises(RdmaError) as err:
            doca_run(vendor, check=True, source=source)
        assert err.value.code == code


def test_doca_and_the_tarball_are_not_mixed(vendor):
    doca_run(vendor)
    with pytest.raises(RdmaError) as err:
        run(vendor)
    assert err.value.code == "OTHER_OFED" and "provider: doca" in err.value.hint and log(vendor, "installer.log") == []
    with pytest.raises(RdmaError) as err:
        run(vendor, provider="inbox", packages=["rdma-core"], version=None)
    assert err.value.code == "OTHER_OFED"
    vendor.program("ofed_info", "echo MLNX_OFED_LINUX-5.4-3.0.3.0:\n")
    with pytest.raises(RdmaError) as err:
        doca_run(vendor)
    assert err.value.code == "OTHER_OFED" and "mlnx_ofed" in err.value.hint


def test_dkms_modules_of_others_are_not_docas_business(vendor):
    vendor.program("dkms", """root=$(cd "$(dirname "$0")/../.." && pwd)
echo "dkms $*" >> $root/packages.log
echo "nvidia/535.183.01, 4.18.0-80.el8.x86_64, x86_64: installed"
""")
    done = doca_run(vendor)
    assert done["ofed"]["loaded"] is True and not [line for line in log(vendor, "packages.log") if "autoinstall" in line]


def test_after_an_update_of_the_kernel_dkms_builds_docas_modules(vendor):
    doca_run(vendor)
    drifted(vendor)
    with pytest.raises(RdmaError) as err:
        doca_run(vendor)
    assert err.value.code == "KERNEL_DRIFT" and "doca-kernel-support" in err.value.hint
    vendor.program("dkms", """root=$(cd "$(dirname "$0")/../.." && pwd)
echo "dkms $*" >> $root/packages.log
state=added
[ "$1" = autoinstall ] && [ ! -e $root/headers ] && exit 0
[ "$1" = autoinstall ] && { touch $root/built; exit 0; }
[ -e $root/built ] && state='installed'
echo "mlnx-ofed-kernel/25.10, 4.18.0-348.el8.x86_64, x86_64: $state"
""")
    planned = doca_run(vendor, check=True)
    with pytest.raises(RdmaError) as err:
        doca_run(vendor)
    assert err.value.code == "DKMS" and "mlnx-ofed-kernel" in err.value.why and "headers" in err.value.hint
    (vendor.root / "headers").write_text("")
    done = doca_run(vendor)
    assert done["changes"] == planned["changes"] and [step["name"] for step in done["changes"]] == ["kernel modules", "running modules"]
    assert "dkms autoinstall -k 4.18.0-348.el8.x86_64" in log(vendor, "packages.log") and not doca_run(vendor)["changed"]


def test_a_package_of_the_repository_with_another_checksum_is_not_installed(vendor):
    with pytest.raises(RdmaError) as err:
        doca_run(vendor, checksum="sha256:" + "1" * 64)
    assert err.value.code == "CHECKSUM" and not any(line.startswith("rpm -U") for line in log(vendor, "packages.log"))
