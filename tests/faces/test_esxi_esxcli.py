# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's esxcli: every command in every form, what it changes, what it refuses, and that the collection's parsers read it."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from xml.etree import ElementTree

import pytest

from ansible_collections.vhpc.rdma.plugins.module_utils.tools import esxcli as parser
from lab import site
from lab.esxi import esxcli
from lab.esxi.sh import run_line
from lab.world import File, Passthru, Vib

NO_MFT, MFT, RIGHT = "esxi01", "esxi02", "esxi04"
STORE = "/vmfs/volumes/hpc-nfs/"
MFT_VIB, NMST_VIB, DRIVER = (STORE + path for path in site.FILES)
ARGUMENTS = {"-m|--module": "nmlx5_core", "-i|--interface-name": "vmk0", "-e|--enable": "true"}
READERS = sorted(key for key, entry in esxcli.COMMANDS.items() if entry.form != "none" and key[1] in ("list", "get") and "sources" not in key[0])


@pytest.fixture(name="world")
def _world():
    return site.build(16)


def run(world, line, host=NO_MFT):
    return run_line(world, host, "esxcli " + line)


def boot(world, host):
    world.hosts[host].state = "down"
    world.boot_host(host)


# ---- forms ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("key", READERS, ids=" ".join)
def test_every_reader_has_the_same_cells_as_text_xml_csv_and_keyvalue(world, key):
    entry = esxcli.COMMANDS[key]
    arguments = "".join(" %s %s" % (item.flags[0], ARGUMENTS["|".join(item.flags)]) for item in entry.options if item.required)
    for host in (MFT, RIGHT, "esxi12"):
        outs = {}
        for form in ("", "xml", "csv", "keyvalue"):
            out, err, rc = run(world, ("--formatter=%s " % form if form else "") + entry.words + arguments, host)
            assert (err, rc) == ("", 0), (form, out)
            outs[form] = out
        root = ElementTree.fromstring(outs["xml"].encode())
        assert root.tag == "{%s}output" % esxcli.NAMESPACE
        structures = [node for node in root.iter("{%s}structure" % esxcli.NAMESPACE) if node.get("typeName") == entry.type_name]
        if entry.form == "simple":
            continue
        rows = list(csv.reader(io.StringIO(outs["csv"])))
        header = rows[0] if rows else []
        assert header in ([], sorted(field.prop for field in entry.fields) + [""])
        assert len(structures) == max(0, len(rows) - 1)
        for structure, row in zip(structures, rows[1:]):
            for field, cell in zip(header, row):
                node = structure.find("{%s}field[@name='%s']" % (esxcli.NAMESPACE, field))
                if node is not None and node[0].tag.endswith(("string", "boolean", "integer")):
                    assert re.sub(r"\n\s*", "\n", node[0].text or "") == re.sub(r"\\n\s*", "\n", cell)
                    assert cell == "" or cell.split("\\n")[0] in outs[""]
        assert outs["keyvalue"].count(".%s." % header[0] if header else "=") >= len(structures)


def test_a_table_is_cut_by_its_rule(world):
    out = run(world, "network nic list")[0]
    head, rule = out.splitlines()[:2]
    spans = [match.span() for match in re.finditer("-+", rule)]
    titles = [field.name for field in esxcli.COMMANDS["network.nic", "list"].fields]
    assert [head[start:end].strip() for start, end in spans[:-1]] + [head[spans[-1][0]:]] == titles
    assert out.splitlines()[4][spans[5][0]:spans[5][1]] == "100000" and out.splitlines()[2][spans[5][0]:spans[5][1]] == " 25000"
    assert run(world, "hardware pci pcipassthru list")[0].splitlines()[2] == "0000:18:00.0    false"
    assert run(world, "--formatter=csv --format-param=fields=\"Name,MTU\" network nic list")[0].splitlines()[1] == "vmnic0,1500,"


def test_wrong_words_are_a_usage_error_on_stdout(world):
    out, err, rc = run(world, "system module parameters list")
    assert out.startswith("Error: Missing required parameter -m|--module\n\nUsage: esxcli system module parameters list [cmd options]\n")
    assert (err, rc) == ("", 1)
    assert run(world, "software vib nosuch")[0].startswith("Error: Unknown command or namespace software vib nosuch")
    assert run(world, "network nic list -x")[0].startswith("Error: Invalid option -x")
    assert "Available Commands:\n  get" in run(world, "system version")[0] and "Available Namespaces:\n  module" not in run(world, "")[0]
    assert run(world, "hardware pci pcipassthru set -d 0000:3b:00.0 -e maybe")[::2] == ("Invalid value 'maybe' for boolean option --enable\n", 1)


# ---- what the parsers read --------------------------------------------------------------------------------------------

def test_parsers_read_every_text_of_every_host(world):
    for name, host in world.hosts.items():
        vibs = parser.parse_vib_list(run(world, "software vib list", name)[0])["vibs"]
        assert {vib["name"]: vib["version"] for vib in vibs} == {vib.name: vib.version for vib in host.vibs.values()}
        devices = {device["address"]: device for device in parser.parse_pci_list(run(world, "hardware pci list", name)[0])["devices"]}
        for bdf, card, port in host.functions():
            assert int(devices[bdf]["device_class"], 16) == card.pci_class(port.number) and devices[bdf]["module_name"] == (esxcli.claimed(host, bdf) or "None")
            assert (devices[bdf]["current_owner"] == "VM Passthru") is host.passthru[bdf].active
        assert {nic["name"]: nic["pci_device"] for nic in parser.parse_nic_list(run(world, "network nic list", name)[0])["nics"]} == host.vmnics()
        assert {row["address"]: row["enabled"] for row in parser.parse_pcipassthru(run(world, "hardware pci pcipassthru list", name)[0])["devices"]} == {
            bdf: state.enabled for bdf, state in host.passthru.items()}
        found = parser.parse_module_parameters(run(world, "system module parameters list -m nmlx5_core", name)[0])["parameters"]
        assert " ".join("%s=%s" % (key, found[key]["value"]) for key in esxcli.pairs(host.module_options["nmlx5_core"])) == host.module_options["nmlx5_core"]
        assert found["max_vfs"]["type"] == "array of uint" and found["RSS"]["value"] == ""
        assert parser.parse_version(run(world, "system version get", name)[0])["build_number"] == int(host.build)
        options = parser.parse_esxcfg_module(run_line(world, name, "esxcfg-module -g nmlx5_core")[0])
        assert options == parser.parse_esxcfg_module("nmlx5_core enabled = 1 options = '%s'\n" % host.module_options["nmlx5_core"])


def test_who_uses_what_is_told_by_the_interfaces_and_switches(world):
    assert "Uplinks: vmnic0, vmnic1\n" in run(world, "network vswitch standard list")[0]
    assert run(world, "network vswitch dvs vmware list")[0].startswith("hpc-dvs\n   Name: hpc-dvs\n   VDS ID: 50 0e")
    assert "Uplinks: vmnic2, vmnic3\n" in run(world, "network vswitch dvs vmware list")[0]
    assert run(world, "network vswitch dvs vmware list", RIGHT) == ("", "", 0)
    assert "   Portset: vSwitch0\n   Portgroup: Management Network\n" in run(world, "network ip interface list")[0]
    assert run(world, "network ip interface tag get -i vmk1")[0] == "   Tags: VSAN, VMotion\n"
    assert run_line(world, RIGHT, "vmkchdev -l")[0].splitlines()[2] == "0000:3b:00.0 15b3:1017 15b3:0008 passthru"
    assert run_line(world, RIGHT, "lspci -p | grep 3b:00.1")[0].split()[-2:] == ["P", "pciPassthru"]
    assert "Infiniband controller: Mellanox Technologies MT27800 Family [ConnectX-5]" in run_line(world, RIGHT, "lspci")[0]


# ---- module options ---------------------------------------------------------------------------------------------------

def test_setting_options_replaces_the_string_and_append_does_not(world):
    host = world.hosts[NO_MFT]
    running = host.module_running["nmlx5_core"]
    assert run(world, "system module parameters set -m nmlx5_core -a -p 'RSS=4 pfctx=0x04'") == ("", "", 0)
    assert host.module_options["nmlx5_core"] == "max_vfs=0,0,16,16 pfctx=0x04 pfcrx=0x08 trust_state=2 RSS=4"
    assert run(world, "system module parameters set -m nmlx5_core -p 'trust_state=2'") == ("", "", 0)
    assert run_line(world, NO_MFT, "esxcfg-module -g nmlx5_core") == ("nmlx5_core enabled = 1 options = 'trust_state=2'\n", "", 0)
    assert run(world, "system module parameters set -m nmlx5_core -p ''") == ("", "", 0)
    assert host.module_options["nmlx5_core"] == "" and host.module_running["nmlx5_core"] == running
    boot(world, NO_MFT)
    assert host.module_running["nmlx5_core"] == ""
    assert run(world, "system module parameters set -m nmlx5_core -p nosuch=1")[2] == 1
    assert run(world, "system module parameters list -m nosuch")[::2] == ("Unable to find module nosuch\n", 1)


# ---- VIBs -------------------------------------------------------------------------------------------------------------

def test_vibs_are_staged_until_the_reboot(world):
    out, err, rc = run(world, "software vib install -v %s -v %s" % (MFT_VIB, NMST_VIB))
    assert (err, rc) == ("", 0)
    assert out.splitlines()[:3] == ["Installation Result",
                                    "   Message: The update completed successfully, but the system needs to be rebooted for the changes to be effective.",
                                    "   Reboot Required: true"]
    result = parser.parse_vib_result(out)
    assert result["reboot_required"] is True and result["installed"] == ["MEL_bootbank_mft_4.18.1.14-0", "MEL_bootbank_nmst_4.18.1.14-1OEM.700.1.0.15843807"]
    assert "mft" not in run(world, "software vib list")[0]
    staged = {vib["name"]: vib for vib in parser.parse_vib_list(run(world, "software vib list --rebooting-image")[0])["vibs"]}
    assert staged["mft"]["version"] == "4.18.1.14-0" and len(staged) == len(world.hosts[NO_MFT].vibs) + 2
    again = run(world, "software vib install -v %s" % MFT_VIB)[0]
    assert again.splitlines() == ["Installation Result", "   Message: Host is not changed.", "   Reboot Required: false", "   VIBs Installed: ",
                                  "   VIBs Removed: ", "   VIBs Skipped: MEL_bootbank_mft_4.18.1.14-0"]
    assert parser.parse_vib_result(again)["reboot_required"] is False
    boot(world, NO_MFT)
    assert "mft   " in run(world, "software vib list")[0] and run(world, "software vib list --rebooting-image") == ("", "", 0)


def test_a_bundle_upgrades_and_says_what_went(world):
    out = run(world, "software vib install -d %s --dry-run" % DRIVER)[0]
    assert "Dryrun only, host not changed." in out and world.hosts[NO_MFT].staged is None
    result = parser.parse_vib_result(run(world, "software vib update -d %s" % DRIVER)[0])
    assert result["removed"] == ["VMW_bootbank_nmlx5-core_4.19.16.10-1vmw.702.0.0.17867351", "VMW_bootbank_nmlx5-rdma_4.19.16.10-1vmw.702.0.0.17867351"]
    assert world.hosts[NO_MFT].staged["nmlx5-core"].vendor == "MEL" and world.hosts[NO_MFT].vibs["nmlx5-core"].vendor == "VMW"
    skipped = parser.parse_vib_result(run(world, "software vib update -d %s" % DRIVER)[0])
    assert [item.split("_")[2] for item in skipped["skipped"]] == ["nmlx5-core", "nmlx5-rdma"] and skipped["changed"] is False


def test_removal_is_staged_too_and_what_is_needed_stays(world):
    assert parser.parse_vib_result(run(world, "software vib remove -n mft -n nmst", MFT)[0])["reboot_required"] is True
    assert set(world.hosts[MFT].staged) == set(world.hosts[MFT].vibs) - {"mft", "nmst"}
    assert parser.parse_vib_result(run(world, "software vib remove -n nmlx5-core", MFT)[0])["tag"] == "DependencyError"
    assert parser.parse_vib_result(run(world, "software vib remove -n nosuch", MFT)[0])["tag"] == "NoMatchError"


@pytest.mark.parametrize("arguments, tag", [
    ("install -v mft-4.18.1.14-0.vib", "VibDownloadError"), ("install -d Mellanox-nmlx5.zip", "MetadataDownloadError"),
    ("install -v %snosuch.vib" % STORE, "VibDownloadError"),
    ("install -d %s" % MFT_VIB, "MetadataDownloadError"), ("install -v %s" % DRIVER, "VibFormatError"),
    ("install -v https://example.invalid/x.vib", "VibDownloadError"),
    ("install -d %s -n nosuch" % DRIVER, "NoMatchError")])
def test_a_source_that_cannot_be_read_is_refused_in_esxclis_words(world, arguments, tag):
    before = world.dump()["hosts"]
    out, err, rc = run(world, "software vib " + arguments)
    assert out.startswith(" [%s]\n " % tag) and out.endswith(" Please refer to the log file for more details.\n") and (err, rc) == ("", 1)
    assert parser.parse_vib_result(out)["tag"] == tag and world.dump()["hosts"] == before


def test_a_relative_path_is_looked_for_under_the_log_directory(world):
    run_line(world, NO_MFT, "cd %srdma && true" % STORE)
    assert "'/var/log/vmware/mft-4.18.1.14-0.vib'" in run_line(world, NO_MFT, "cd %srdma && esxcli software vib install -v mft-4.18.1.14-0.vib" % STORE)[0]


def test_acceptance_level_is_checked_unless_forced(world):
    world.datastores["hpc-nfs"]["weak.vib"] = File(b"weak", [Vib("weak", "1.0-1", "ACME", "CommunitySupported")])
    out = run(world, "software vib install -v %sweak.vib" % STORE)[0]
    assert out.splitlines()[:3] == [
        " [AcceptanceConfigError]",
        " VIB ACME_bootbank_weak_1.0-1's acceptance level is community, which is not compliant with the ImageProfile acceptance level partner",
        " To change the host acceptance level, use the 'esxcli software acceptance set' command."]
    assert run(world, "software vib install -v %sweak.vib -f" % STORE)[2] == 0
    assert run(world, "software acceptance set --level=VMwareCertified", MFT)[2] == 1  # MFT is PartnerSupported
    assert run(world, "software acceptance set --level CommunitySupported")[0] == "Host acceptance level changed to 'CommunitySupported'.\n"
    assert run(world, "software acceptance get")[0] == "CommunitySupported\n"


def test_a_vib_that_wants_maintenance_mode_gets_it_or_nothing(world):
    live = Vib("live", "1.0-1", "ACME", "PartnerSupported", reboot=False, maintenance=True)
    world.datastores["hpc-nfs"]["live.vib"] = File(b"live", [live])
    assert parser.parse_vib_result(run(world, "software vib install -v %slive.vib" % STORE)[0])["tag"] == "MaintenanceModeError"
    assert run(world, "system maintenanceMode set -e true") == ("", "", 0)
    result = parser.parse_vib_result(run(world, "software vib install -v %slive.vib" % STORE)[0])
    assert result["reboot_required"] is False and "live" in world.hosts[NO_MFT].vibs and world.hosts[NO_MFT].staged is None


def test_a_copy_of_a_vib_is_still_that_vib_and_a_damaged_one_is_none(world):
    out = run_line(world, NO_MFT, "cp %s /tmp/x.vib && esxcli software vib install -v /tmp/x.vib | grep Installed" % MFT_VIB)[0]
    assert out == "   VIBs Installed: MEL_bootbank_mft_4.18.1.14-0\n"
    out = run_line(world, MFT, "head -c 100 %s > /tmp/y.vib; esxcli software vib install -v /tmp/y.vib" % NMST_VIB)[0]
    assert parser.parse_vib_result(out)["tag"] == "VibFormatError"


# ---- passthrough ------------------------------------------------------------------------------------------------------

def test_passthrough_is_configured_now_and_active_later(world):
    host = world.hosts[NO_MFT]
    host.dvs = {}
    assert run(world, "hardware pci pcipassthru set -d 0000:3b:00.0 -e true -a") == ("", "", 0)
    assert host.passthru["0000:3b:00.0"] == Passthru(enabled=True, active=False)  # this host cannot rebind
    out, err, rc = run(world, "hardware pci pcipassthru set -d 0000:3b:00.0 -e true -a")
    assert (out, rc) == ("Unable to configure the PCI device: Device owner is already configured to passthru.\n", 1)
    assert parser.parse_pcipassthru(out)["unchanged"] is True
    assert "Configured Owner: VM Passthru\n   Current Owner: VMkernel\n" in run(world, "hardware pci list")[0]
    boot(world, NO_MFT)
    assert host.passthru["0000:3b:00.0"].active and "0000:3b:00.0" not in run(world, "network nic list")[0]
    world.hosts[MFT].dvs = {}
    run(world, "hardware pci pcipassthru set -d 0000:3b:00.1 -e true -a", MFT)
    assert world.hosts[MFT].passthru["0000:3b:00.1"].active  # this one can


@pytest.mark.parametrize("bdf, user", [("0000:18:00.0", "vswitch vSwitch0 for uplink vmnic0"), ("0000:3b:00.1", "vswitch DvsPortset-0 for uplink vmnic3")])
def test_an_uplink_is_not_given_to_passthrough(world, bdf, user):
    out, err, rc = run(world, "hardware pci pcipassthru set -d %s -e true" % bdf)
    assert out == "Unable to configure the PCI device: Device ownership cannot be changed to passthru as it is used by %s\n" % user and rc == 1
    assert parser.parse_pcipassthru(out)["unchanged"] is False and not world.hosts[NO_MFT].passthru[bdf].enabled


# ---- maintenance mode, reuse ------------------------------------------------------------------------------------------

def test_maintenance_mode_is_entered_once_and_not_over_running_vms(world):
    assert run(world, "system maintenanceMode set -e false")[::2] == ("Maintenance mode is already disabled.\n", 1)
    world.vms["vm01"].power = "on"
    assert run(world, "system maintenanceMode set -e true -t 0")[2] == 1 and run(world, "system maintenanceMode get")[0] == "Disabled\n"
    for vm in world.vms.values():
        vm.power = "off"
    assert run(world, "system maintenanceMode set -e true") == ("", "", 0) and run(world, "system maintenanceMode get")[0] == "Enabled\n"
    assert run(world, "system shutdown reboot -r test", MFT)[::2] == ("The host must be in maintenance mode to perform this operation.\n", 1)


def test_commands_serve_a_caller_without_a_shell(world):
    host = world.hosts[NO_MFT]
    rows = esxcli.execute(world, host, "hardware.pci.pcipassthru", "list", {})
    assert rows[0] == {"Device ID": "0000:18:00.0", "Enabled": False}
    assert esxcli.execute(world, host, "system.module.parameters", "set", {"module": "nmlx5_core", "parameterstring": "RSS=2"}) is True
    assert host.module_options["nmlx5_core"] == "RSS=2"
    with pytest.raises(esxcli.EsxcliError, match="already configured to vmkernel"):
        esxcli.execute(world, host, "hardware.pci.pcipassthru", "set", {"deviceid": "0000:3b:00.0", "enable": "false"})
    for entry in esxcli.COMMANDS.values():
        assert entry.form in ("table", "list", "struct", "simple", "none") and (entry.form in ("simple", "none")) is not bool(entry.fields)
        assert all(re.match(r"^[a-z][a-z0-9-]*$", item.name) and item.flags[-1].startswith("--") for item in entry.options)
        assert all(field.prop.isidentifier() for field in entry.fields)


def test_kernel_settings_tell_configured_from_runtime(world):
    assert run(world, "system settings kernel set -s execInstalledOnly -v TRUE") == ("", "", 0)
    row = run(world, "system settings kernel list -o execInstalledOnly")[0].splitlines()[2].split()
    assert row[-3:] == ["true", "FALSE", "FALSE"]
    assert run_line(world, NO_MFT, "/usr/lib/vmware/secureboot/bin/secureBoot.py -s") == ("Disabled\n", "", 0)
    world.hosts[NO_MFT].secure_boot = True
    assert run_line(world, NO_MFT, "/usr/lib/vmware/secureboot/bin/secureBoot.py -s")[0] == "Enabled\n"


def test_newer_versions_are_told_by_number():
    old = Vib("x", "4.9.1-1OEM", "MEL", "PartnerSupported")
    assert esxcli.newer(dataclasses.replace(old, version="4.18.1-1OEM"), old)
    assert not esxcli.newer(old, dataclasses.replace(old, version="4.18.1-1OEM"))
    assert not esxcli.newer(old, old)
