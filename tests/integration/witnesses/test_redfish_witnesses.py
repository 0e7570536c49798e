# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's BMCs before clients and judges that nobody here wrote.

DMTF's protocol validator and Tacklebox, DMTF's published schemas and message registries (as an index inside a package),
sushy of OpenStack, community.general and dellemc.openmanage. They are installed below build/witnesses when they are not
there; without a package index the tests that need them are skipped. DMTF's service validator wants the schema bundle
DSP8010, which no package brings: give its directory as VHPC_REDFISH_SCHEMAS.
"""

from __future__ import annotations

import base64
import csv
import gzip
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import witness_tools as witnesses  # noqa: E402
from lab.bmc.__main__ import start  # noqa: E402
from lab.bmc.walk import walk  # noqa: E402

CLIENTS = ("redfish-protocol-validator==1.3.2", "redfish-service-validator==3.1.8", "redfish-utilities==3.5.2", "sushy==5.14.0")
INDEX = "mirastack-redfish-mcp==0.1.2"  # holds DMTF Redfish-Publications 2026.1 as data
COLLECTIONS = ("ansible_collections/community/general/", "ansible_collections/dellemc/openmanage/")
SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
PREFIX = "https://"


def sh(*words, env=None, timeout=300, **more):
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=timeout, env=env, **more)
    done.text = done.stdout + done.stderr
    return done


def need(get):
    """The tool, or the test is skipped with the reason."""
    try:
        return get()
    except witnesses.Unavailable as why:
        pytest.skip("this witness cannot be had here: %s" % why)


@pytest.fixture(scope="session")
def clients():
    """The bin directory of a venv with the Python clients."""
    def make(place):
        witnesses.run(sys.executable, "-m", "venv", place)
        pip = (place / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
        witnesses.run(*pip, *CLIENTS)
        witnesses.run(*pip, "--no-deps", INDEX)
    return need(lambda: witnesses.once("redfish-clients", make)) / "bin"


@pytest.fixture(scope="session")
def collections():
    """community.general and dellemc.openmanage as the package ansible ships them."""
    def make(place):
        witnesses.run(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "-d", place,
                      witnesses.ANSIBLE)
        for wheel in place.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(place, [name for name in archive.namelist() if name.startswith(COLLECTIONS)])
            wheel.unlink()
    return need(lambda: witnesses.once("redfish-collections", make))


class Bmc:
    def __init__(self, directory, vendor, networks):
        for network in networks:
            try:
                self.world, self.face, dummy = start(2, directory, network, vendor)
                break
            except OSError:
                continue
        for host in self.world.hosts.values():
            host.boot_seconds = 0.2
        self.host = self.world.hosts["esxi01"]
        self.bmc = self.host.bmc
        self.ca = directory / "ca.pem"
        self.address = "%s:%d" % (self.bmc.address, self.bmc.port)
        # requests prefers a CA of the environment over the one it is given.
        self.env = {name: value for name, value in os.environ.items() if "CA_BUNDLE" not in name and not name.startswith(("SSL_CERT", "ANSIBLE_"))
                    and not name.lower().endswith("_proxy")}
        self.env.update(REQUESTS_CA_BUNDLE=str(self.ca), SSL_CERT_FILE=str(self.ca), LC_ALL="C.UTF-8")

    def ask(self, path, method="GET", body=None):
        """(status, body)"""
        login = base64.b64encode(("root:" + self.bmc.password).encode()).decode()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(PREFIX + self.address + path, data, {"Authorization": "Basic " + login}, method=method)
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(self.ca)))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https)
        try:
            with opener.open(request, timeout=10) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as err:
            return err.code, json.loads(err.read())

    def get(self, path):
        status, body = self.ask(path)
        assert status == 200, path
        return body

    def rebooted(self, boots):
        end = time.monotonic() + 10
        while self.host.boots == boots or self.host.state != "on":
            assert time.monotonic() < end, "the host did not reboot"
            time.sleep(0.05)


@pytest.fixture()
def dell(tmp_path):
    made = Bmc(tmp_path / "dell", "Dell", range(32, 64))
    yield made
    made.face.stop()


@pytest.fixture()
def hpe(tmp_path):
    made = Bmc(tmp_path / "hpe", "HPE", range(32, 64))
    yield made
    made.face.stop()


@pytest.fixture(scope="session")
def published(clients):
    """DMTF's publications: resource types with properties, enumerations, URIs; message registries."""
    path = next((clients.parent / "lib").glob("python*/site-packages/mirastack_redfish_mcp/data/redfish_index.json.gz"))
    index = json.loads(gzip.decompress(path.read_bytes()))
    assert index["source"]["corpus"] == "DMTF Redfish-Publications"
    return index


# ---- DMTF's judges ----------------------------------------------------------------------------------------------------------

def test_protocol_validator_finds_nothing(clients, dell, tmp_path):
    done = sh(clients / "rf_protocol_validator", "--user", "root", "--password", dell.bmc.password, "--rhost", PREFIX + dell.address, "--ca-bundle", dell.ca,
              "--report-dir", tmp_path / "reports", "--report-type", "tsv", env=dell.env, cwd=tmp_path)
    with open(next((tmp_path / "reports").glob("*.tsv")), newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle, delimiter="\t", quoting=csv.QUOTE_NONE))
    results = [row["Result"] for row in rows]
    assert [(row["Assertion"], row["Method"], row["URI"], row["Message"]) for row in rows if row["Result"] in ("FAIL", "WARN")] == [], done.text
    assert results.count("PASS") >= 240, "it did not get far: %s" % done.text


def test_service_validator_finds_nothing(clients, dell, tmp_path):
    schemas = os.environ.get("VHPC_REDFISH_SCHEMAS")
    if not schemas:
        pytest.skip("DMTF's schema bundle DSP8010 is in no package; give the directory of its CSDL files as VHPC_REDFISH_SCHEMAS")
    done = sh(clients / "rf_service_validator", "--user", "root", "--password", dell.bmc.password, "--rhost", PREFIX + dell.address, "--skipschema",
              "--schema_directory", schemas, "--logdir", tmp_path / "logs", env=dell.env, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.text[-3000:]


KINDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def defects(published, path, body):
    """What DMTF's schemas say against a resource."""
    kind = body["@odata.type"][1:].split(".")[0]
    if kind not in published["resource_types"]:
        return ["%s: no type %s" % (path, kind)]
    about, out = published["resource_types"][kind], []
    patterns = ["^" + re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(one["template"])) + "$" for one in published["uri_templates"] if one["resource_type"] == kind]
    if not path.endswith("/Bios/Settings") and not any(re.match(pattern, path) for pattern in patterns):
        out.append("%s: no address of a %s" % (path, kind))
    for name, value in body.items() if about["properties"] else ():
        if "@" in name and not name.startswith("@odata"):
            continue
        wanted = about["properties"].get(name)
        if wanted is None:
            out.append("%s: %s has no property %s" % (path, kind, name))
            continue
        types = [one for one in (wanted.get("type") if isinstance(wanted.get("type"), list) else [wanted.get("type")]) if one in KINDS]
        if value is not None and types and not any(isinstance(value, KINDS[one]) for one in types):
            out.append("%s: %s is %r, not %s" % (path, name, value, types))
        values = published["enums"].get(wanted.get("enum_ref", ""), {}).get("values")
        if values and isinstance(value, str) and value not in values:
            out.append("%s: %s is %r, not one of %s" % (path, name, value, values))
    for name, action in body.get("Actions", {}).items():
        if name != "Oem" and name not in about["actions"]:
            out.append("%s: %s has no action %s" % (path, kind, name))
        for option in action:
            parameter, at, annotation = option.partition("@")
            if at and annotation == "Redfish.AllowableValues" and parameter not in about["actions"][name]["parameters"]:
                out.append("%s: %s has no parameter %s" % (path, name, parameter))
    return out


def test_resources_are_what_the_published_schemas_say(published, dell, hpe):
    for bmc, system, attributes in ((dell, SYSTEM, {"LogicalProc": "Disabled"}), (hpe, "/redfish/v1/Systems/1", {"WorkloadProfile": "LowLatency"})):
        status, dummy = bmc.ask(system + "/Bios/Settings", "PATCH", {"Attributes": attributes, "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}})
        assert status in (200, 202)
        found = walk(bmc.get)
        assert len(found) >= 25
        standard = {path: body for path, body in found.items() if "/Oem/Dell/" not in path}
        assert [defect for path, body in standard.items() for defect in defects(published, path, body)] == []
    bent = dict(found["/redfish/v1/Systems/1"], PowerState="Onward", Manufaturer="HPE", HostName=5)
    assert len(defects(published, "/redfish/v1/Systems/1", bent)) == 3, "the judge sees what is wrong"


def test_messages_are_what_the_published_registries_say(published, dell):
    settings, reset = SYSTEM + "/Bios/Settings", SYSTEM + "/Actions/ComputerSystem.Reset"
    refusals = [("/redfish/v1/Nowhere", "GET", None), (settings, "PATCH", {"Attributes": {"Unknown": 1}}), (settings, "PATCH", {}),
                (settings, "PATCH", {"Attributes": {"LogicalProc": "Maybe"}}), (settings, "PATCH", {"Attributes": {"LogicalProc": 1}}),
                (reset, "POST", {}), (reset, "POST", {"ResetType": "Sideways"}),
                ("/redfish/v1/Chassis", "PATCH", {"Name": "x"}), ("/redfish/v1/Systems?$filter=x", "GET", None),
                ("/redfish/v1/SessionService/Sessions", "POST", {"UserName": "root", "Password": "wrong"})]
    seen = set()
    for path, method, body in refusals:
        status, answer = dell.ask(path, method, body)
        assert status >= 400, path
        assert answer["error"]["code"].rsplit(".", 1)[1] in published["registries"]["Base"]["1.13.0"]["messages"]
        for one in answer["error"]["@Message.ExtendedInfo"]:
            registry, version, name = re.fullmatch(r"([A-Za-z]+)\.(\d+\.\d+)\.(\w+)", one["MessageId"]).groups()
            about = published["registries"][registry][version + ".0"]["messages"][name]
            assert len(one["MessageArgs"]) == about["NumberOfArgs"], name
            assert one["MessageSeverity"] == about["MessageSeverity"] or about["MessageSeverity"] == "Critical", name
            seen.add(name)
    assert len(seen) >= 8


# ---- clients ------------------------------------------------------------------------------------------------------------------

def test_tacklebox_sets_bios_attributes_and_reboots(clients, dell):
    def tool(name, *words):
        done = sh(clients / "python", clients / name, "--user", "root", "--password", dell.bmc.password, "--rhost", PREFIX + dell.address, *words, env=dell.env)
        assert done.returncode == 0, done.text
        return done.stdout

    assert re.search(r"LogicalProc\s*\|\s*Enabled\s*\|\s*Enabled", tool("rf_bios_settings.py"))
    tool("rf_bios_settings.py", "--attribute", "LogicalProc", "Disabled")
    assert re.search(r"LogicalProc\s*\|\s*Enabled\s*\|\s*Disabled", tool("rf_bios_settings.py"))
    assert dell.bmc.pending == {"LogicalProc": "Disabled"}
    boots = dell.host.boots
    tool("rf_power_reset.py", "--type", "GracefulRestart")
    dell.rebooted(boots)
    assert "ConnectX-5 VPI" in tool("rf_firmware_inventory.py")


def test_sushy_reads_sets_and_resets(clients, dell):
    script = """
import sushy, sys
base, password, ca = sys.argv[1:]
system = sushy.Sushy(base, "root", password, verify=ca).get_system_collection().get_members()[0]
print(system.power_state.value, system.bios.attributes["LogicalProc"], system.bios.pending_attributes)
system.bios.set_attribute("LogicalProc", "Disabled", apply_time=sushy.APPLY_TIME_ON_RESET)
system.bios.refresh(force=True)
print(system.bios.pending_attributes)
registry = system.bios.get_attribute_registry()
print(sorted(entry.name for entry in registry.registry_entries.attributes)[:2])
system.reset_system(sushy.RESET_TYPE_GRACEFUL_RESTART)
"""
    boots = dell.host.boots
    done = sh(clients / "python", "-c", script, PREFIX + dell.address, dell.bmc.password, dell.ca, env=dell.env)
    assert done.stdout.splitlines() == ["On Enabled {}", "{'LogicalProc': 'Disabled'}", "['AcPwrRcvryUserDelay', 'LogicalProc']"], done.text
    dell.rebooted(boots)
    assert dell.bmc.current["LogicalProc"] == "Disabled"
    assert [job["state"] for job in dell.bmc.jobs] == ["Completed"]


def playbook(bmc, collections, tmp_path, tasks):
    """Registered results by name."""
    ansible = need(witnesses.controller) / "bin" / "ansible-playbook"
    names = [task["register"] for task in tasks]
    listed = "{{ {%s} | to_json }}" % ", ".join("'%s': %s" % (name, name) for name in names)
    tasks = tasks + [{"ansible.builtin.copy": {"dest": str(tmp_path / "out.json"), "content": listed, "mode": "0600"}}]
    (tmp_path / "play.json").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "connection": "local", "tasks": tasks}]))
    (tmp_path / "ansible.cfg").write_text("[defaults]\nhome = %s\ncollections_path = %s\n" % (tmp_path / "ansible", collections))
    done = sh(ansible, tmp_path / "play.json", env=dict(bmc.env, ANSIBLE_CONFIG=str(tmp_path / "ansible.cfg")), cwd=tmp_path)
    assert done.returncode == 0, done.text
    return json.loads((tmp_path / "out.json").read_text())


def test_community_general(collections, dell, tmp_path):
    login = {"baseuri": dell.address, "username": "root", "password": dell.bmc.password, "category": "Systems"}
    boots = dell.host.boots
    out = playbook(dell, collections, tmp_path, [
        {"community.general.redfish_info": dict(login, command="GetBiosAttributes,GetSystemInventory"), "register": "info"},
        {"community.general.redfish_config": dict(login, command="SetBiosAttributes", bios_attributes={"LogicalProc": "Disabled"}), "register": "first"},
        {"community.general.redfish_command": dict(login, command="PowerGracefulRestart"), "register": "reset"}])
    assert out["info"]["redfish_facts"]["bios_attribute"]["entries"][0][1]["SysProfile"] == "PerfPerWattOptimizedOs"
    assert out["info"]["redfish_facts"]["system"]["entries"][0][1]["Model"] == "PowerEdge R740"
    assert out["first"]["changed"] and "reboot" in out["first"]["msg"]
    dell.rebooted(boots)
    assert dell.bmc.current["LogicalProc"] == "Disabled"


def test_dellemc_openmanage(collections, dell, tmp_path):
    login = {"idrac_ip": dell.bmc.address, "idrac_port": dell.bmc.port, "idrac_user": "root", "idrac_password": dell.bmc.password, "ca_path": str(dell.ca)}
    out = playbook(dell, collections, tmp_path, [
        {"dellemc.openmanage.idrac_bios": dict(login, apply_time="OnReset", attributes={"LogicalProc": "Disabled"}), "register": "first"},
        {"dellemc.openmanage.idrac_bios": dict(login, apply_time="OnReset", attributes={"LogicalProc": "Disabled", "NumLock": "Off"}), "register": "second"},
        {"dellemc.openmanage.idrac_bios": dict(login, apply_time="OnReset", attributes={"NoSuchThing": "On", "AcPwrRcvryUserDelay": 7, "SysProfile": "Custom"}),
         "register": "third"},
        {"dellemc.openmanage.idrac_bios": dict(login, clear_pending=True), "register": "clear"}])
    assert out["first"]["changed"] and out["first"]["job_id"].startswith("JID_")
    assert out["second"]["changed"] and out["second"]["job_id"] != out["first"]["job_id"], "it replaces the job that had not started"
    assert sorted(out["third"]["invalid_attributes"]) == ["AcPwrRcvryUserDelay", "NoSuchThing"], "it reads our registry"
    assert out["clear"]["changed"] and dell.bmc.pending == {}
