# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import hashlib
import io
import tarfile

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils import ofed_state
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


def test_openibd_in_use_is_a_failure_with_its_own_words(tree):
    (tree.root / "busy").write_text("")
    err = failure(tree)
    assert err.code == "OPENIBD" and "nvme_rdma" in err.why and "reboot" in err.hint


def test_openibd_is_not_restarted_under_the_way_to_the_guest(tree):
    tree.write("proc/net/route", "Iface\tDestination\tGateway\nens224\t00000000\t0102000A")
    (tree.root / "sys/class/net/ens224/device").mkdir(parents=True)
    (tree.root / "sys/class/net/ens224/device/driver").symlink_to("../../../bus/pci/drivers/mlx5_core")
    err = failure(tree)
    assert err.code == "OWN_NETWORK" and "ens224" in err.why and log(tree, "openibd.log") == []


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


def test_memlock_is_left_alone_when_it_is_right_or_not_asked_for(tree):
    (tree.root / "etc/security/limits.d/site.conf").write_text("* - memlock -1\n")
    assert "memlock" not in [step["name"] for step in run(tree)["changes"]]
    assert not (tree.root / "etc/security/limits.d/90-vhpc-rdma.conf").exists()
    assert ofed_state.memlock(["* soft memlock 64\n", "* soft memlock unlimited\n* hard memlock 128 # x\n"]) == dict(soft="unlimited", hard="128")


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
    (tree.root / "signer").write_text("Mellanox Technologies signing key\n")
    assert run(tree)["ofed"]["loaded"] is True
