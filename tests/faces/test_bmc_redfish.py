# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's BMCs over HTTPS: Dell's pending values and jobs, HPE's verdict after the reset, resets that reach the world."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time

import pytest

pytest.importorskip("asyncssh")
pytest.importorskip("pyVmomi")
from lab.bmc import registry  # noqa: E402
from lab.bmc.__main__ import start  # noqa: E402
from lab.bmc.walk import walk  # noqa: E402

SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
SETTINGS = SYSTEM + "/Bios/Settings"
JOBS = "/redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/Jobs"
ON_RESET = {"ApplyTime": "OnReset"}
NETWORKS = iter(range(32, 64))


class Bmc:
    """One BMC and a client of it."""

    def __init__(self, world, name, ca):
        self.world, self.host = world, world.hosts[name]
        self.context = ssl.create_default_context(cafile=str(ca))
        self.login = "root:" + self.host.bmc.password

    def ask(self, method, path, body=None, headers=None, login=True):
        """(status, parsed body, headers)"""
        connection = http.client.HTTPSConnection(self.host.bmc.address, self.host.bmc.port, context=self.context, timeout=10)
        sent = {"Authorization": "Basic " + base64.b64encode(self.login.encode()).decode()} if login else {}
        connection.request(method, path, None if body is None else json.dumps(body), {**sent, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if text.startswith("{") else text, answer.headers

    def get(self, path):
        status, body, dummy = self.ask("GET", path)
        assert status == 200, body
        return body

    def bios(self):
        return self.get(self.get(self.get("/redfish/v1/Systems")["Members"][0]["@odata.id"])["Bios"]["@odata.id"])

    def patch(self, attributes, when=None, path=SETTINGS):
        return self.ask("PATCH", path, {"Attributes": attributes, **({"@Redfish.SettingsApplyTime": when} if when else {})})

    def reset(self, kind, path=SYSTEM):
        return self.ask("POST", path + "/Actions/ComputerSystem.Reset", {"ResetType": kind})

    def wait(self, what):
        end = time.monotonic() + 5
        while not what():
            assert time.monotonic() < end
            time.sleep(0.02)

    def reboot(self):
        boots = self.host.boots
        assert self.reset("GracefulRestart", self.get("/redfish/v1/Systems")["Members"][0]["@odata.id"])[0] == 204
        self.wait(lambda: self.host.boots == boots + 1)


def messages(body):
    return [one["MessageId"].rsplit(".", 1)[-1] for one in body["error"]["@Message.ExtendedInfo"]]


def made(tmp_path, vendor):
    for network in NETWORKS:
        try:
            world, face, inventory = start(3, tmp_path, network, vendor)
            break
        except OSError:
            continue
    for host in world.hosts.values():
        host.boot_seconds = 0.05
    return world, face


@pytest.fixture()
def dell(tmp_path):
    world, face = made(tmp_path, "Dell")
    yield Bmc(world, "esxi01", tmp_path / "ca.pem")
    face.stop()


@pytest.fixture()
def hpe(tmp_path):
    world, face = made(tmp_path, "HPE")
    yield Bmc(world, "esxi01", tmp_path / "ca.pem")
    face.stop()


def test_only_the_root_is_open(dell):
    assert dell.ask("GET", "/redfish/v1/", login=False)[0] == 200
    assert dell.ask("GET", "/redfish/v1/Systems", login=False)[0] == 401
    dell.login = "root:wrong"
    assert dell.ask("GET", "/redfish/v1/Systems")[0] == 401


def test_sessions(dell):
    status, body, headers = dell.ask("POST", "/redfish/v1/SessionService/Sessions", {"UserName": "root", "Password": dell.host.bmc.password}, login=False)
    assert status == 201
    token = {"X-Auth-Token": headers["X-Auth-Token"]}
    assert dell.ask("GET", "/redfish/v1/Systems", headers=token, login=False)[0] == 200
    assert dell.ask("DELETE", headers["Location"], headers=token, login=False)[0] == 200
    assert dell.ask("GET", "/redfish/v1/Systems", headers=token, login=False)[0] == 401
    assert dell.ask("POST", "/redfish/v1/SessionService/Sessions", {"UserName": "root", "Password": "x"}, login=False)[0] == 401
    assert dell.host.bmc.password not in json.dumps(dell.world.journal, default=str)


def test_every_link_leads_somewhere(dell, hpe):
    for bmc in (dell, hpe):
        seen = walk(bmc.get)
        for path, body in seen.items():
            assert body["@odata.id"] == path or "AttributeRegistry" in body["@odata.type"] and "Registry" in path
        assert len(seen) > 20


def test_dell_applies_with_a_job_at_the_reset(dell):
    status, body, headers = dell.patch({"LogicalProc": "Disabled"}, ON_RESET)
    assert status == 202 and headers["Location"].rsplit("/", 1)[1].startswith("JID_")
    job = dell.get(JOBS + "/" + headers["Location"].rsplit("/", 1)[1])
    assert (job["JobState"], job["MessageId"], job["JobType"]) == ("Scheduled", "JCP001", "BIOSConfiguration")
    assert dell.get(SETTINGS)["Attributes"] == {"LogicalProc": "Disabled"}
    assert dell.bios()["Attributes"]["LogicalProc"] == "Enabled"
    dell.reboot()
    assert dell.bios()["Attributes"]["LogicalProc"] == "Disabled"
    assert dell.get(SETTINGS)["Attributes"] == {}
    job = dell.get(job["@odata.id"])
    assert (job["JobState"], job["MessageId"]) == ("Completed", "PR19")


def test_dell_stores_without_an_apply_time_and_no_reset_applies_it(dell):
    status, dummy, headers = dell.patch({"LogicalProc": "Disabled"})
    assert (status, headers.get("Location")) == (200, None)
    dell.reboot()
    assert dell.bios()["Attributes"]["LogicalProc"] == "Enabled"
    assert dell.get(SETTINGS)["Attributes"] == {"LogicalProc": "Disabled"}
    status, dummy, headers = dell.ask("POST", JOBS, {"TargetSettingsURI": SETTINGS})
    assert status == 200 and "JID_" in headers["Location"]
    dell.reboot()
    assert dell.bios()["Attributes"]["LogicalProc"] == "Disabled"


def test_dell_refuses_a_second_set_while_a_job_is_scheduled(dell):
    assert dell.patch({"LogicalProc": "Disabled"}, ON_RESET)[0] == 202
    status, body, dummy = dell.patch({"NumLock": "Off"}, ON_RESET)
    assert (status, messages(body)) == (400, ["SYS011"])
    status, body, dummy = dell.ask("POST", JOBS, {"TargetSettingsURI": SETTINGS})
    assert (status, messages(body)) == (400, ["SYS011"])
    job = dell.get(JOBS)["Members"][-1]["@odata.id"]
    assert dell.ask("DELETE", job)[0] == 200
    assert dell.get(SETTINGS)["Attributes"] == {}, "the values go with their job"
    assert dell.patch({"NumLock": "Off"}, ON_RESET)[0] == 202
    assert dell.get(SETTINGS)["Attributes"] == {"NumLock": "Off"}


def test_dell_says_nothing_of_a_job_when_nothing_changes(dell):
    status, dummy, headers = dell.patch({"LogicalProc": "Enabled"}, ON_RESET)
    assert (status, headers.get("Location")) == (200, None)
    assert dell.get(JOBS)["Members"] == []


@pytest.mark.parametrize("attributes, message", [({"NoSuchThing": "On"}, "PropertyUnknown"), ({"SysMemSize": "1 TB"}, "SYS410"),
                                                 ({"ProcPwrPerf": "MaxPerf"}, "SYS410"), ({"LogicalProc": "Maybe"}, "PropertyValueNotInList"),
                                                 ({"AcPwrRcvryUserDelay": "90"}, "PropertyValueTypeError"),
                                                 ({"AcPwrRcvryUserDelay": 6000}, "PropertyValueNotInList"), ({}, "PropertyMissing")])
def test_dell_refusals(dell, attributes, message):
    status, body, dummy = dell.patch(attributes, ON_RESET)
    assert (status, messages(body)) == (400, [message])
    assert dell.get(SETTINGS)["Attributes"] == {}, "nothing of a refused request is kept"


def test_dell_custom_profile_frees_what_it_locks(dell):
    assert dell.patch({"SysProfile": "Custom", "ProcPwrPerf": "MaxPerf", "AcPwrRcvryUserDelay": 90}, ON_RESET)[0] == 202
    dell.reboot()
    attributes = dell.bios()["Attributes"]
    assert (attributes["ProcPwrPerf"], attributes["AcPwrRcvryUserDelay"]) == ("MaxPerf", 90)


def test_an_old_etag_is_refused(dell):
    etag = dell.ask("GET", SETTINGS)[2]["ETag"]
    assert dell.patch({"NumLock": "Off"})[0] == 200
    status, body, dummy = dell.ask("PATCH", SETTINGS, {"Attributes": {"NumLock": "On"}}, {"If-Match": etag})
    assert (status, messages(body)) == (412, ["PreconditionFailed"])


def test_the_site_has_a_value_pending_since_before(dell):
    third = dell
    third.host = dell.world.hosts["esxi03"]
    third.login = "root:" + third.host.bmc.password
    assert third.get(SETTINGS)["Attributes"] == {"ProcVirtualization": "Enabled"}
    assert [row["JobState"] for row in third.get(JOBS + "?$expand=*($levels=1)")["Members"]] == ["Scheduled"]
    third.reboot()
    assert third.bios()["Attributes"]["ProcVirtualization"] == "Enabled"


def test_registry_names_values_and_locks(dell):
    entries = {row["AttributeName"]: row for row in dell.get(SYSTEM + "/Bios/BiosRegistry")["RegistryEntries"]["Attributes"]}
    assert set(entries) == set(dell.host.bmc.current)
    assert [value["ValueName"] for value in entries["ProcVirtualization"]["Value"]] == ["Enabled", "Disabled"]
    assert entries["SysMemSize"]["ReadOnly"] and entries["ProcPwrPerf"]["ReadOnly"] and not entries["SysProfile"]["ReadOnly"]


def test_power(dell):
    assert dell.get(SYSTEM)["PowerState"] == "On"
    assert dell.reset("On")[0] == 409
    assert dell.reset("ForceOff")[0] == 204
    assert (dell.get(SYSTEM)["PowerState"], dell.host.state) == ("Off", "down")
    assert dell.reset("ForceRestart")[0] == 409
    assert dell.reset("On")[0] == 204
    dell.wait(lambda: dell.host.state == "on")
    assert dell.reset("Sideways")[0] == 400


def test_a_power_cycle_loads_what_a_warm_reboot_leaves(dell):
    card = next(card for card in dell.host.cards if card.vpi)
    card.needs_power_cycle = True
    card.config["LINK_TYPE_P1"].next = 1
    dell.reboot()
    assert card.config["LINK_TYPE_P1"].current == 2
    boots = dell.host.boots
    assert dell.reset("PowerCycle")[0] == 204
    dell.wait(lambda: dell.host.boots == boots + 1)
    assert card.config["LINK_TYPE_P1"].current == 1


def test_wrong_requests(dell):
    assert dell.ask("GET", "/redfish/v1/Nowhere")[0] == 404
    status, dummy, headers = dell.ask("PATCH", "/redfish/v1/Chassis", {"Name": "x"})
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert messages(dell.ask("POST", SYSTEM + "/Actions/ComputerSystem.Reset", [])[1]) == ["UnrecognizedRequestBody"]


# ---- HPE -------------------------------------------------------------------------------------------------------------------

def test_hpe_answers_success_as_an_error_that_asks_for_a_reset(hpe):
    settings = hpe.bios()["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    status, body, dummy = hpe.patch({"WorkloadProfile": "Virtualization-PowerEfficient"}, path=settings)
    assert (status, messages(body)) == (200, ["SystemResetRequired"])
    assert "Messages" not in hpe.bios()["@Redfish.Settings"], "the verdict is told after the reset"
    pending = hpe.get(settings)["Attributes"]
    assert (pending["Sriov"], pending["PowerRegulator"]) == ("Enabled", "OsControl")
    hpe.reboot()
    bios = hpe.bios()
    assert bios["Attributes"]["IntelProcVtd"] == "Enabled"
    assert [one["MessageId"].rsplit(".", 1)[-1] for one in bios["@Redfish.Settings"]["Messages"]] == ["Success"]


def test_hpe_tells_of_an_unknown_attribute_only_after_the_reset(hpe):
    settings = hpe.bios()["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    assert hpe.patch({"NoSuchThing": "On", "ProcHyperthreading": "Disabled"}, path=settings)[0] == 200
    hpe.reboot()
    bios = hpe.bios()
    told = {one["MessageId"].rsplit(".", 1)[-1]: one["RelatedProperties"] for one in bios["@Redfish.Settings"]["Messages"]}
    assert told == {"PropertyUnknown": ["#/Attributes/NoSuchThing"], "Success": []}
    assert bios["Attributes"]["ProcHyperthreading"] == "Disabled"


@pytest.mark.parametrize("profile", ["LowLatency", "HighPerformanceCompute(HPC)", "GraphicProcessing"])
def test_hpe_profiles_for_speed_switch_virtualization_off_and_lock_it(hpe, profile):
    settings = hpe.bios()["@Redfish.Settings"]["SettingsObject"]["@odata.id"]
    hpe.patch(dict.fromkeys(registry.VIRTUAL, "Enabled"), path=settings)
    hpe.reboot()
    hpe.patch({"WorkloadProfile": profile}, path=settings)
    hpe.reboot()
    assert [hpe.bios()["Attributes"][name] for name in registry.VIRTUAL] == ["Disabled"] * 3
    hpe.patch({"Sriov": "Enabled"}, path=settings)
    hpe.reboot()
    bios = hpe.bios()
    assert bios["Attributes"]["Sriov"] == "Disabled"
    assert bios["@Redfish.Settings"]["Messages"][0]["MessageId"].endswith("PropertyNotWritable")
    hpe.patch({"WorkloadProfile": "Custom", "Sriov": "Enabled"}, path=settings)
    hpe.reboot()
    assert hpe.bios()["Attributes"]["Sriov"] == "Enabled"


def test_hpe_does_not_care_about_case_and_trailing_slashes(hpe):
    assert hpe.get("/redfish/v1/systems/1/bios/")["Id"] == "bios"
    status, body, dummy = hpe.ask("GET", "/redfish/v1/Registries/" + registry.HPE_REGISTRY)
    assert hpe.get(body["Location"][0]["Uri"])["RegistryEntries"]["Dependencies"]
