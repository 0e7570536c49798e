# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resources of one BMC: iDRAC9's or iLO5's names and habits around BIOS settings, jobs and resets.

Dell: a PATCH of the settings object makes a job only with an apply time; without one the values are stored and no reset
applies them. While a job is scheduled nothing else may be set. HPE: no jobs; the success of a PATCH is an error object
that says SystemResetRequired; what was wrong is told by the settings' messages after the reset.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import threading
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable

from ..world import Host, World, utc
from . import registry

ROOT = "/redfish/v1"
APPLY_TIMES = ["OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset"]
RESETS = ["On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi", "PowerCycle"]
NOT_IN_LIST = "The value '%1' for the property %2 is not in the list of acceptable values."
ROLES = {"Administrator": ("Login", "ConfigureManager", "ConfigureUsers", "ConfigureSelf", "ConfigureComponents"),
         "Operator": ("Login", "ConfigureSelf", "ConfigureComponents"), "ReadOnly": ("Login", "ConfigureSelf")}
OK = {"State": "Enabled", "Health": "OK", "HealthRollup": "OK"}


@dataclass
class Answer:
    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    allow: str = "GET, HEAD"
    zipped: bool = False
    after: Callable[[], None] | None = None  # run once the world's lock is free


class Refusal(Exception):
    """An error answer: HTTP status, message id (without registry and version), text."""

    def __init__(self, status: int, message_id: str, text: str, *args: Any, related: str = "", allow: str = "GET, HEAD") -> None:
        """args fill the registry's %1, %2 ... in the text, and are told as MessageArgs."""
        super().__init__(text)
        self.status, self.message_id, self.text, self.args, self.related, self.allow = status, message_id, text, [str(arg) for arg in args], related, allow

    def answer(self, service: "Service") -> Answer:
        for number, arg in enumerate(self.args, 1):
            self.text = self.text.replace("%%%d" % number, arg)
        return Answer(service.errors(self.message_id, self.text, self.args, [self.related] if self.related else []), self.status, allow=self.allow)


def stamp(when: datetime.datetime | None = None) -> str:
    return (when or utc()).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


class Service:
    """Redfish of one host. Every method is called with the world's lock held."""

    def __init__(self, world: World, host: Host) -> None:
        self.world, self.host = world, host
        assert host.bmc is not None
        self.bmc = host.bmc
        self.jobs_made = 0

    # ---- names ----------------------------------------------------------------------------------------------------------

    @property
    def dell(self) -> bool:
        return self.bmc.vendor.startswith("Dell")

    @property
    def system(self) -> str:
        return ROOT + ("/Systems/System.Embedded.1" if self.dell else "/Systems/1")

    @property
    def manager(self) -> str:
        return ROOT + ("/Managers/iDRAC.Embedded.1" if self.dell else "/Managers/1")

    @property
    def chassis(self) -> str:
        return ROOT + ("/Chassis/System.Embedded.1" if self.dell else "/Chassis/1")

    @property
    def jobs_at(self) -> str:
        return self.manager + "/Oem/Dell/Jobs"

    @property
    def registry_name(self) -> str:
        return registry.DELL_REGISTRY if self.dell else registry.HPE_REGISTRY

    @property
    def serial(self) -> str:
        return self.host.uuid.replace("-", "")[-7:].upper()

    def message_id(self, name: str) -> str:
        if name.startswith(("SYS", "RAC", "JCP", "PR", "SWC", "PSU")):
            return "IDRAC.2.4." + name
        if name in ("SystemResetRequired",):
            return "iLO.2.23." + name
        return "Base.1.13." + name

    def message(self, name: str, text: str, args: list[str] | None = None, related: list[str] | None = None) -> dict[str, Any]:
        good = name in ("Success", "SYS413", "SystemResetRequired")
        return {"MessageId": self.message_id(name), "Message": text, "MessageArgs": list(args or []), "RelatedProperties": list(related or []),
                "Severity": "OK" if good else "Warning", "MessageSeverity": "OK" if good else "Warning",
                "Resolution": "None" if good else "Read the message and correct the request."}

    def errors(self, name: str, text: str, args: list[str], related: list[str]) -> dict[str, Any]:
        return {"error": {"code": self.message_id("GeneralError"), "message": "A general error has occurred. See ExtendedInfo for more information.",
                          "@Message.ExtendedInfo": [self.message(name, text, args, related)]}}

    def done(self) -> Answer:
        return Answer({"@Message.ExtendedInfo": [self.message("Success", "The request completed successfully.")]
                       + ([self.message("SYS413", "The operation successfully completed.")] if self.dell else [])})

    # ---- reading ----------------------------------------------------------------------------------------------------------

    def resources(self) -> dict[str, Callable[[], dict[str, Any]]]:
        """Every resource but sessions: path (as the service spells it) -> what builds it."""
        out: dict[str, Callable[[], dict[str, Any]]] = {
            "/redfish": lambda: {"v1": "/redfish/v1/"},
            ROOT: self._root,
            ROOT + "/odata": self._odata,
            ROOT + "/Systems": lambda: self._collection("/Systems", "ComputerSystem", [self.system]),
            self.system: self._system,
            self.system + "/Bios": self._bios,
            self.system + "/Bios/Settings": self._settings,
            ROOT + "/Chassis": lambda: self._collection("/Chassis", "Chassis", [self.chassis]),
            self.chassis: self._chassis,
            ROOT + "/Managers": lambda: self._collection("/Managers", "Manager", [self.manager]),
            self.manager: self._manager,
            ROOT + "/SessionService": self._session_service,
            ROOT + "/AccountService": self._account_service,
            ROOT + "/AccountService/Accounts": lambda: self._collection("/AccountService/Accounts", "ManagerAccount", [ROOT + "/AccountService/Accounts/2"]),
            ROOT + "/AccountService/Accounts/2": self._account,
            ROOT + "/AccountService/Roles": lambda: self._collection("/AccountService/Roles", "Role",
                                                                     [ROOT + "/AccountService/Roles/" + role for role in ROLES]),
            ROOT + "/UpdateService": self._update_service,
            ROOT + "/UpdateService/FirmwareInventory": lambda: self._collection("/UpdateService/FirmwareInventory", "SoftwareInventory",
                                                                                [ROOT + "/UpdateService/FirmwareInventory/%s" % name
                                                                                 for name in self._firmware()]),
            ROOT + "/TaskService": self._task_service,
            ROOT + "/TaskService/Tasks": lambda: self._collection("/TaskService/Tasks", "Task",
                                                                  [ROOT + "/TaskService/Tasks/" + job["id"] for job in self._all_jobs()]),
            ROOT + "/Registries": lambda: self._collection("/Registries", "MessageRegistryFile", [ROOT + "/Registries/" + self.registry_name]),
            ROOT + "/Registries/" + self.registry_name: self._registry_file,
            ROOT + "/JsonSchemas": lambda: self._collection("/JsonSchemas", "JsonSchemaFile", []),
        }
        for role in ROLES:
            out[ROOT + "/AccountService/Roles/" + role] = lambda role=role: self._role(role)  # type: ignore[misc]
        for name in self._firmware():
            out[ROOT + "/UpdateService/FirmwareInventory/" + name] = lambda name=name: self._firmware_item(name)  # type: ignore[misc]
        if self.dell:
            out[self.system + "/Bios/BiosRegistry"] = lambda: registry.registry(self.bmc.vendor, self.bmc.current)
            for top in (self.jobs_at, self.manager + "/Jobs"):
                out[top] = lambda top=top: self._jobs(top)  # type: ignore[misc]
                for job in self._all_jobs():
                    out["%s/%s" % (top, job["id"])] = lambda top=top, job=job: self._job(top, job)  # type: ignore[misc]
            for job in self._all_jobs():
                out[ROOT + "/TaskService/Tasks/" + job["id"]] = lambda job=job: self._task(job)  # type: ignore[misc]
        else:
            out[ROOT + "/RegistryStore/registries/en/" + self.registry_name] = lambda: registry.registry(self.bmc.vendor, self.bmc.current)
        return out

    def get(self, path: str, query: dict[str, str], sessions: dict[str, str]) -> Answer:
        if path == ROOT + "/$metadata":
            return Answer(self._metadata())
        if self.is_sessions(path):
            return Answer(self._collection("/SessionService/Sessions", "Session",
                                           [ROOT + "/SessionService/Sessions/" + number for number in sessions.values()]),
                          allow="GET, HEAD, POST")
        number = self.session_of(path)
        if number:
            if number not in sessions.values():
                raise self._missing(path)
            return self.session(number)
        found = self._find(path)
        body = self.resources()[found]()
        if "$expand" in query and "Members" in body:
            all_of = self.resources()
            body["Members"] = [all_of[row["@odata.id"]]() if row["@odata.id"] in all_of else row for row in body["Members"]]
        elif "$expand" not in query and found.endswith(("/Oem/Dell/Jobs", self.manager + "/Jobs")):
            body["Members"] = [link(row["@odata.id"]) for row in body["Members"]]
        allow = {self.system + "/Bios/Settings": "GET, HEAD, PATCH", self.jobs_at: "GET, HEAD, POST", self.manager + "/Jobs": "GET, HEAD, POST",
                 self.system: "GET, HEAD, PATCH"}.get(found, "GET, HEAD")
        return Answer(body, allow=allow, zipped=not self.dell and "RegistryStore" in found)

    def _find(self, path: str) -> str:
        known = self.resources()
        if path in known:
            return path
        if not self.dell:  # iLO does not care about case
            for one in known:
                if one.lower() == path.lower():
                    return one
        raise self._missing(path)

    @staticmethod
    def _missing(path: str) -> Refusal:
        return Refusal(404, "ResourceMissingAtURI", "The resource at the URI '%1' was not found.", path)

    def is_sessions(self, path: str) -> bool:
        places = (ROOT + "/SessionService/Sessions", ROOT + "/Sessions", ROOT + "/SessionService/Sessions/Members")
        return path.lower() in [place.lower() for place in places]

    def session_of(self, path: str) -> str:
        head, dummy, number = path.rpartition("/")
        return number if number.isdigit() and self.is_sessions(head) else ""

    def session(self, number: str) -> Answer:
        path = ROOT + "/SessionService/Sessions/" + number
        return Answer({**self._head(path, "Session.v1_3_0.Session", number, "User Session"), "UserName": "root", "Description": "User Session"},
                      allow="GET, HEAD, DELETE")

    # ---- resources ----------------------------------------------------------------------------------------------------------

    def _head(self, path: str, kind: str, number: str, name: str) -> dict[str, Any]:
        short = kind.split(".")[0]
        return {"@odata.context": ROOT + "/$metadata#%s.%s" % (short, kind.split(".")[-1]), "@odata.id": path, "@odata.type": "#" + kind, "Id": number,
                "Name": name}

    def _collection(self, path: str, kind: str, members: list[str]) -> dict[str, Any]:
        name = kind + "Collection"
        return {"@odata.context": ROOT + "/$metadata#%s.%s" % (name, name), "@odata.id": ROOT + path, "@odata.type": "#%s.%s" % (name, name),
                "Name": kind + " Collection", "Description": "Collection of " + kind, "Members": [link(member) for member in members],
                "Members@odata.count": len(members)}

    def _root(self) -> dict[str, Any]:
        out = self._head(ROOT, "ServiceRoot.v1_12_0.ServiceRoot", "RootService", "Root Service")
        out.update(Description="Root Service", RedfishVersion="1.13.1", UUID=str(uuid.uuid5(uuid.NAMESPACE_URL, self.host.uuid)),
                   Vendor="Dell" if self.dell else "HPE",
                   Product="Integrated Dell Remote Access Controller" if self.dell else "ProLiant DL380 Gen10",
                   Systems=link(ROOT + "/Systems"), Chassis=link(ROOT + "/Chassis"), Managers=link(ROOT + "/Managers"),
                   SessionService=link(ROOT + "/SessionService"),
                   AccountService=link(ROOT + "/AccountService"), UpdateService=link(ROOT + "/UpdateService"), Tasks=link(ROOT + "/TaskService"),
                   Registries=link(ROOT + "/Registries"), JsonSchemas=link(ROOT + "/JsonSchemas"), Links={"Sessions": link(ROOT + "/SessionService/Sessions")},
                   ProtocolFeaturesSupported={"ExpandQuery": {"ExpandAll": False, "Levels": True, "Links": False, "MaxLevels": 1, "NoLinks": True},
                                              "FilterQuery": False,
                                              "SelectQuery": False, "OnlyMemberQuery": False, "ExcerptQuery": False})
        if self.dell:
            out["Oem"] = {"Dell": {"@odata.type": "#DellServiceRoot.v1_0_0.DellServiceRoot", "IsBranded": 0, "ManagerMACAddress": "4c:d9:8f:00:00:01",
                                   "ServiceTag": self.serial}}
        return out

    def _odata(self) -> dict[str, Any]:
        names = ("Systems", "Chassis", "Managers", "SessionService", "AccountService", "UpdateService", "Registries", "JsonSchemas")
        rows = [{"name": "Service", "kind": "Singleton", "url": ROOT + "/"}] + [{"name": name, "kind": "Singleton", "url": "%s/%s" % (ROOT, name)}
                                                                                for name in names]
        return {"@odata.context": ROOT + "/$metadata", "value": rows + [{"name": "Tasks", "kind": "Singleton", "url": ROOT + "/TaskService"}]}

    def _metadata(self) -> str:
        names = ("ServiceRoot", "ComputerSystemCollection", "ComputerSystem", "Bios", "ChassisCollection", "Chassis", "ManagerCollection", "Manager",
                 "SessionService",
                 "SessionCollection", "Session", "AccountService", "ManagerAccountCollection", "ManagerAccount", "RoleCollection", "Role", "UpdateService",
                 "SoftwareInventoryCollection", "SoftwareInventory", "TaskService", "TaskCollection", "Task", "JobCollection", "Job",
                 "MessageRegistryFileCollection",
                 "MessageRegistryFile", "AttributeRegistry", "JsonSchemaFileCollection", "Settings", "Message", "Resource")
        rows = "".join('<edmx:Reference Uri="http://redfish.dmtf.org/schemas/v1/%s_v1.xml"><edmx:Include Namespace="%s"/></edmx:Reference>' % (name, name)
                       for name in names)
        service = ('<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service"><EntityContainer Name="Service" '
                   'Extends="ServiceRoot.v1_12_0.ServiceContainer"/></Schema></edmx:DataServices>')
        head = '<?xml version="1.0" encoding="UTF-8"?><edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">'
        return head + rows + service + "</edmx:Edmx>"

    def powered(self) -> bool:
        return self.host.settings.get("power", "On") == "On"

    def _system(self) -> dict[str, Any]:
        host = self.host
        out = self._head(self.system, "ComputerSystem.v1_16_0.ComputerSystem", self.system.rsplit("/", 1)[1], "System" if self.dell else "Computer System")
        out.update(Description="Computer System which represents a machine (physical or virtual) and the local resources such as memory, cpu and other "
                               "devices.",
                   SystemType="Physical", Manufacturer="Dell Inc." if self.dell else "HPE", Model=host.model if self.dell else "ProLiant DL380 Gen10",
                   SKU=self.serial,
                   SerialNumber="CN" + self.serial, PartNumber="0923K0A04", UUID=host.uuid, HostName=host.name, AssetTag="", IndicatorLED="Off",
                   PowerState="On" if self.powered() else "Off", BiosVersion="2.12.2" if self.dell else "U30 v2.44 (07/21/2021)", Status=dict(OK),
                   Boot={"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideMode": "UEFI", "BootSourceOverrideTarget": "None",
                         "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Cd", "Hdd", "BiosSetup"], "BootOrder": []},
                   ProcessorSummary={"Count": host.sockets, "CoreCount": host.cores, "LogicalProcessorCount": host.cores * 2,
                                     "Model": "Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz",
                                     "Status": dict(OK)},
                   MemorySummary={"TotalSystemMemoryGiB": host.memory_mb // 1024, "MemoryMirroring": "System", "Status": dict(OK)},
                   Bios=link(self.system + "/Bios"),
                   Links={"Chassis": [link(self.chassis)], "ManagedBy": [link(self.manager)], "Chassis@odata.count": 1, "ManagedBy@odata.count": 1},
                   Actions={"#ComputerSystem.Reset": {"target": self.system + "/Actions/ComputerSystem.Reset",
                                                      "ResetType@Redfish.AllowableValues": list(RESETS)}})
        return out

    def _bios(self) -> dict[str, Any]:
        path = self.system + "/Bios"
        out = self._head(path, "Bios.v1_2_0.Bios", "Bios" if self.dell else "bios", "BIOS Configuration Current Settings")
        settings: dict[str, Any] = {"@odata.type": "#Settings.v1_3_3.Settings", "SettingsObject": link(path + "/Settings")}
        if self.dell:
            settings["SupportedApplyTimes"] = list(APPLY_TIMES)
        told = self.host.settings.get("bmc_verdict")
        if told and self.host.boots >= told["boots"]:
            settings.update(Time=told["time"], ETag=told["etag"],
                            Messages=[{"MessageId": self.message_id(name), "RelatedProperties": related} for name, related in told["messages"]])
        out.update({"Description": "BIOS Configuration Current Settings", "AttributeRegistry": self.registry_name, "Attributes": dict(self.bmc.current),
                    "@Redfish.Settings": settings,
                    "Actions": {"#Bios.ResetBios": {"target": path + "/Actions/Bios.ResetBios"},
                                "#Bios.ChangePassword": {"target": path + "/Actions/Bios.ChangePassword"}}})
        return out

    def _settings(self) -> dict[str, Any]:
        path = self.system + "/Bios/Settings"
        out = self._head(path, "Bios.v1_2_0.Bios", "Settings", "BIOS Configuration Pending Settings")
        pending = dict(self.bmc.pending) if self.dell else {**self.bmc.current, **self.bmc.pending}
        digest = hashlib.sha256(json.dumps(pending, sort_keys=True).encode()).hexdigest()[:8]
        out.update({"@odata.etag": 'W/"%s"' % digest,
                    "Description": "BIOS Configuration Pending Settings. These settings will be applied on next system reboot.",
                    "AttributeRegistry": self.registry_name, "Attributes": pending})
        if self.dell:
            out["@Redfish.SettingsApplyTime"] = {"@odata.type": "#Settings.v1_3_3.PreferredApplyTime", "ApplyTime@Redfish.AllowableValues": list(APPLY_TIMES),
                                                 "MaintenanceWindowStartTime": None, "MaintenanceWindowDurationInSeconds": None}
            out["Actions"] = {"Oem": {"#DellManager.ClearPending": {"target": path + "/Actions/Oem/DellManager.ClearPending"}}}
        return out

    def _chassis(self) -> dict[str, Any]:
        out = self._head(self.chassis, "Chassis.v1_17_0.Chassis", self.chassis.rsplit("/", 1)[1], "Computer System Chassis")
        out.update(ChassisType="RackMount", Manufacturer="Dell Inc." if self.dell else "HPE", Model=self.host.model, SerialNumber="CN" + self.serial,
                   SKU=self.serial,
                   PartNumber="0923K0A04", PowerState="On" if self.powered() else "Off", Status=dict(OK), IndicatorLED="Off",
                   Links={"ComputerSystems": [link(self.system)], "ManagedBy": [link(self.manager)]})
        return out

    def _manager(self) -> dict[str, Any]:
        out = self._head(self.manager, "Manager.v1_12_0.Manager", self.manager.rsplit("/", 1)[1], "Manager")
        out.update(Description="BMC", ManagerType="BMC", Model="14G Monolithic" if self.dell else "iLO 5",
                   FirmwareVersion="5.10.50.00" if self.dell else "iLO 5 v2.60", PowerState="On",
                   Status={"State": "Enabled", "Health": "OK"}, DateTime=stamp(), DateTimeLocalOffset="+00:00",
                   UUID=str(uuid.uuid5(uuid.NAMESPACE_DNS, self.host.uuid)),
                   Links={"ManagerForServers": [link(self.system)], "ManagerForChassis": [link(self.chassis)]},
                   Actions={"#Manager.Reset": {"target": self.manager + "/Actions/Manager.Reset", "ResetType@Redfish.AllowableValues": ["GracefulRestart"]}})
        if self.dell:
            out["Links"]["Oem"] = {"Dell": {"@odata.type": "#DellOem.v1_3_0.DellOemLinks", "Jobs": link(self.jobs_at)}}
        return out

    def _session_service(self) -> dict[str, Any]:
        out = self._head(ROOT + "/SessionService", "SessionService.v1_1_8.SessionService", "SessionService", "Session Service")
        out.update(ServiceEnabled=True, SessionTimeout=1800, Sessions=link(ROOT + "/SessionService/Sessions"), Status={"State": "Enabled", "Health": "OK"})
        return out

    def _account_service(self) -> dict[str, Any]:
        out = self._head(ROOT + "/AccountService", "AccountService.v1_10_0.AccountService", "AccountService", "Account Service")
        out.update(ServiceEnabled=True, Accounts=link(ROOT + "/AccountService/Accounts"), Roles=link(ROOT + "/AccountService/Roles"), MinPasswordLength=0,
                   Status={"State": "Enabled", "Health": "OK"})
        return out

    def _account(self) -> dict[str, Any]:
        out = self._head(ROOT + "/AccountService/Accounts/2", "ManagerAccount.v1_8_0.ManagerAccount", "2", "User Account")
        out.update(UserName="root", Password=None, RoleId="Administrator", Enabled=True, Locked=False, AccountTypes=["Redfish"],
                   Links={"Role": link(ROOT + "/AccountService/Roles/Administrator")})
        return out

    def _role(self, role: str) -> dict[str, Any]:
        out = self._head(ROOT + "/AccountService/Roles/" + role, "Role.v1_3_1.Role", role, "User Role")
        out.update(RoleId=role, IsPredefined=True, AssignedPrivileges=list(ROLES[role]))
        return out

    def _firmware(self) -> dict[str, tuple[str, str]]:
        out = {"Installed-159-2.12.2" if self.dell else "1": ("BIOS", "2.12.2")}
        for n, card in enumerate(self.host.cards):
            out["Installed-%d-%s" % (20000 + n, card.firmware)] = (card.description.split(";")[0], card.firmware)
        return out

    def _firmware_item(self, name: str) -> dict[str, Any]:
        label, version = self._firmware()[name]
        out = self._head(ROOT + "/UpdateService/FirmwareInventory/" + name, "SoftwareInventory.v1_7_0.SoftwareInventory", name, label)
        out.update(Version=version, Updateable=True, Status={"State": "Enabled", "Health": "OK"})
        return out

    def _update_service(self) -> dict[str, Any]:
        out = self._head(ROOT + "/UpdateService", "UpdateService.v1_11_0.UpdateService", "UpdateService", "Update Service")
        out.update(ServiceEnabled=True, FirmwareInventory=link(ROOT + "/UpdateService/FirmwareInventory"), Status={"State": "Enabled", "Health": "OK"})
        return out

    def _task_service(self) -> dict[str, Any]:
        out = self._head(ROOT + "/TaskService", "TaskService.v1_2_0.TaskService", "TaskService", "Task Service")
        out.update(ServiceEnabled=True, CompletedTaskOverWritePolicy="Oldest", LifeCycleEventOnTaskStateChange=False, DateTime=stamp(),
                   Tasks=link(ROOT + "/TaskService/Tasks"),
                   Status={"State": "Enabled", "Health": "OK"})
        return out

    def _registry_file(self) -> dict[str, Any]:
        where = self.system + "/Bios/BiosRegistry" if self.dell else ROOT + "/RegistryStore/registries/en/" + self.registry_name
        out = self._head(ROOT + "/Registries/" + self.registry_name, "MessageRegistryFile.v1_1_3.MessageRegistryFile", self.registry_name,
                         "BIOS Attribute Registry File")
        name, dummy, version = self.registry_name.partition(".v")
        out.update(Description="Registry of the BIOS attributes", Registry=name + "." + version.rsplit("_", 1)[0].replace("_", "."), Languages=["en"],
                   Location=[{"Language": "en", "Uri": where}])
        return out

    # ---- jobs (Dell) ----------------------------------------------------------------------------------------------------------

    def _all_jobs(self) -> list[dict[str, Any]]:
        return self.bmc.jobs if self.dell else []

    def _state(self, job: dict[str, Any]) -> str:
        # While the host is in POST the job runs; the world completes it when the boot is done.
        return "Running" if job["state"] == "Scheduled" and self.host.state == "down" and self.powered() else job["state"]

    def _job(self, top: str, job: dict[str, Any]) -> dict[str, Any]:
        state = self._state(job)
        kind = "DellJob.v1_2_0.DellJob" if top == self.jobs_at else "Job.v1_0_8.Job"
        out = self._head("%s/%s" % (top, job["id"]), kind, job["id"], "Configure: BIOS.Setup.1-1")
        code, text = {"Scheduled": ("JCP001", "Task successfully scheduled."), "Running": ("JCP027", "The job is running."),
                      "Completed": ("PR19", "Job completed successfully."),
                      "Failed": ("PR21", "Failed to complete the job.")}.get(state, ("JCP000", "New."))
        start, end = job.get("start"), job.get("end")
        if top == self.jobs_at:
            out.update(Description="Job Instance", JobState=state, JobType="BIOSConfiguration", Message=text, MessageArgs=[], MessageId=code,
                       PercentComplete={"Completed": 100, "Running": 34}.get(state, 0), StartTime=stamp(start)[:19] if start else "TIME_NOW", EndTime="TIME_NA",
                       CompletionTime=stamp(end)[:19] if end else None, ActualRunningStartTime=None, ActualRunningStopTime=None, TargetSettingsURI=None)
            out["MessageArgs@odata.count"] = 0
        else:
            out.update(Description="Job Instance", JobState={"Scheduled": "Pending"}.get(state, state), JobStatus="OK",
                       PercentComplete={"Completed": 100, "Running": 34}.get(state, 0),
                       StartTime=stamp(start), CreatedBy="root", Messages=[{"MessageId": self.message_id(code), "Message": text, "MessageArgs": []}])
            if end:
                out["EndTime"] = stamp(end)
        return out

    def _jobs(self, top: str) -> dict[str, Any]:
        kind = "DellJob" if top == self.jobs_at else "Job"
        out = self._collection(top[len(ROOT):], kind, [])
        out["Members"] = [self._job(top, job) for job in self._all_jobs()]
        out["Members@odata.count"] = len(out["Members"])
        return out

    def _task(self, job: dict[str, Any]) -> dict[str, Any]:
        state = self._state(job)
        out = self._head(ROOT + "/TaskService/Tasks/" + job["id"], "Task.v1_5_1.Task", job["id"], "Configure: BIOS.Setup.1-1")
        code, text = ("PR19", "Job completed successfully.") if state == "Completed" else ("JCP001", "Task successfully scheduled.")
        out.update(Description="Server Configuration and other Tasks running on iDRAC are listed here", TaskState={"Scheduled": "Starting"}.get(state, state),
                   TaskStatus="OK",
                   PercentComplete={"Completed": 100}.get(state, 0), StartTime=stamp(job.get("start")),
                   Messages=[{"MessageId": self.message_id(code), "Message": text, "MessageArgs": []}])
        if job.get("end"):
            out["EndTime"] = stamp(job["end"])
        return out

    def _scheduled(self) -> bool:
        return any(job["state"] == "Scheduled" for job in self._all_jobs())

    def _new_job(self) -> dict[str, Any]:
        self.jobs_made += 1
        number = (int(self.host.uuid[-6:], 16) * 1000 + self.jobs_made + len(self.bmc.jobs)) % 10 ** 11
        job = dict(id="JID_9%011d" % number, state="Scheduled", message="JCP001", start=utc())
        self.bmc.jobs.append(job)
        return job

    # ---- changing ----------------------------------------------------------------------------------------------------------

    def change(self, method: str, path: str, body: dict[str, Any], if_match: str | None) -> Answer:
        low = path.lower()
        settings, bios = (self.system + "/Bios/Settings").lower(), (self.system + "/Bios").lower()
        if method == "PATCH" and low == settings:
            if if_match and if_match not in ("*", self._settings()["@odata.etag"]):
                raise Refusal(412, "PreconditionFailed", "The ETag supplied did not match the ETag required to change this resource.")
            return self._patch_dell(body) if self.dell else self._patch_hpe(body)
        if method == "POST" and low == self.system.lower() + "/actions/computersystem.reset":
            return self._reset(body)
        if self.dell and method == "POST" and path in (self.jobs_at, self.manager + "/Jobs"):
            return self._post_job(body)
        if self.dell and method == "POST" and low == settings + "/actions/oem/dellmanager.clearpending":
            if self._scheduled():
                raise self._committed()
            if not self.bmc.pending:
                raise Refusal(400, "SYS424", "Unable to perform the operation because there are no pending values.")
            self.bmc.pending = {}
            return self.done()
        if self.dell and method == "DELETE":
            head, dummy, name = path.rpartition("/")
            job = next((job for job in self.bmc.jobs if job["id"] == name), None)
            if job is not None and head in (self.jobs_at, self.manager + "/Jobs"):
                self.bmc.jobs.remove(job)
                if job["state"] == "Scheduled":
                    self.bmc.pending = {}  # the values go with their job: idrac_bios clears pending ones this way
                return self.done()
        if method == "POST" and low in (bios + "/actions/bios.resetbios", bios + "/actions/bios.changepassword",
                                        self.manager.lower() + "/actions/manager.reset"):
            return self.done()
        found = self._find(path)
        allow = "GET, HEAD, PATCH" if found.lower() == settings else "GET, HEAD"
        raise Refusal(405, "OperationNotAllowed", "The HTTP method is not allowed on this resource.", allow=allow)

    @staticmethod
    def _committed() -> Refusal:
        return Refusal(400, "SYS011", "Pending configuration values are already committed, unable to perform another set operation.")

    def _wanted(self, body: dict[str, Any]) -> dict[str, Any]:
        wanted = body.get("Attributes")
        if not isinstance(wanted, dict) or not wanted:
            raise Refusal(400, "PropertyMissing", "The property %1 is a required property and must be included in the request.", "Attributes",
                          related="#/Attributes")
        return wanted

    @staticmethod
    def _bad_value(wrong: str, name: str, value: Any) -> Refusal:
        if wrong == "type":
            text = "The value '%1' for the property %2 is of a different type than the property can accept."
            return Refusal(400, "PropertyValueTypeError", text, value, name, related="#/Attributes/" + name)
        return Refusal(400, "PropertyValueNotInList", NOT_IN_LIST, value, name, related="#/Attributes/" + name)

    def _patch_dell(self, body: dict[str, Any]) -> Answer:
        wanted, when = self._wanted(body), body.get("@Redfish.SettingsApplyTime")
        if when is not None and (not isinstance(when, dict) or when.get("ApplyTime") not in APPLY_TIMES):
            raise Refusal(400, "PropertyValueNotInList", NOT_IN_LIST, when, "ApplyTime", related="#/@Redfish.SettingsApplyTime/ApplyTime")
        if self._scheduled():
            raise self._committed()
        for name, value in wanted.items():
            wrong = registry.problem(self.bmc.vendor, name, value, self.bmc.current, {k: v for k, v in wanted.items() if k == "SysProfile"})
            related = "#/Attributes/" + name
            if wrong == "unknown":
                raise Refusal(400, "PropertyUnknown", "The property %1 is not in the list of valid properties for the resource.", name, related=related)
            if wrong == "read-only":
                raise Refusal(400, "SYS410", "Unable to complete the operation because the attribute %1 is read-only or depends on other attributes.", name,
                              related=related)
            if wrong:
                raise self._bad_value(wrong, name, value)
        new = {name: value for name, value in wanted.items() if self.bmc.current.get(name) != value}
        for name in wanted:
            self.bmc.pending.pop(name, None)
        self.bmc.pending.update(new)
        answer = self.done()
        if when is not None and self.bmc.pending:
            job = self._new_job()
            answer.status, answer.headers["Location"] = 202, ROOT + "/TaskService/Tasks/" + job["id"]
        return answer

    def _post_job(self, body: dict[str, Any]) -> Answer:
        if body.get("TargetSettingsURI", "").rstrip("/") != self.system + "/Bios/Settings":
            raise Refusal(400, "PropertyValueFormatError", "The value '%1' for the property %2 is not a format that the property can accept.",
                          body.get("TargetSettingsURI", ""), "TargetSettingsURI", related="#/TargetSettingsURI")
        if self._scheduled():
            raise self._committed()
        if not self.bmc.pending:
            raise Refusal(400, "RAC0607", "Unable to create the job because there are no pending values.")
        job = self._new_job()
        answer = self.done()
        answer.headers["Location"] = "%s/%s" % (self.jobs_at, job["id"])
        return answer

    def _patch_hpe(self, body: dict[str, Any]) -> Answer:
        wanted, messages = self._wanted(body), []
        taken: dict[str, Any] = {}
        held = {**self.bmc.current, **self.bmc.pending}
        profile = {k: v for k, v in wanted.items() if k == "WorkloadProfile"}
        for name, value in wanted.items():
            wrong = registry.problem(self.bmc.vendor, name, value, held, profile)
            if wrong in ("type", "value"):
                raise self._bad_value(wrong, name, value)
            if wrong == "read-only" and registry.HPE_PROFILES.get(wanted.get("WorkloadProfile", ""), {}).get(name) == value:
                continue  # the profile of the same request sets it so
            if wrong:
                messages.append(({"unknown": "PropertyUnknown", "read-only": "PropertyNotWritable"}[wrong], ["#/Attributes/" + name]))
            else:
                taken[name] = value
        if "WorkloadProfile" in taken:
            taken.update(registry.HPE_PROFILES.get(taken["WorkloadProfile"], {}))
        self.bmc.pending.update({name: value for name, value in taken.items() if self.bmc.current.get(name) != value})
        # The verdict is told after the next reset.
        self.host.settings["bmc_verdict"] = {"boots": self.host.boots + 1, "time": stamp(),
                                             "etag": hashlib.sha256(json.dumps(taken, sort_keys=True).encode()).hexdigest()[:8].upper(),
                                             "messages": messages + [("Success", [])]}
        return Answer({"error": {"code": "iLO.0.10.ExtendedInfo", "message": "See @Message.ExtendedInfo for more information.",
                                 "@Message.ExtendedInfo": [{"MessageId": self.message_id("SystemResetRequired")}]}})

    def _reset(self, body: dict[str, Any]) -> Answer:
        kind = body.get("ResetType")
        if not kind:
            raise Refusal(400, "ActionParameterMissing", "The action %1 requires the parameter %2 to be present in the request body.",
                          "ComputerSystem.Reset", "ResetType")
        if kind not in RESETS:
            raise Refusal(400, "ActionParameterValueNotInList", "The value '%1' for the parameter %2 in the action %3 is not in the list of acceptable values.",
                          kind, "ResetType", "ComputerSystem.Reset")
        on, world, name = self.powered(), self.world, self.host.name
        if kind == "On" and on or kind in ("ForceOff", "GracefulShutdown", "ForceRestart", "GracefulRestart", "PowerCycle") and not on:
            raise Refusal(409, "PSU501" if self.dell else "InvalidOperationForSystemState",
                          "Unable to perform the operation because the host is already powered %s." % ("ON" if on else "OFF"))
        if kind in ("On", "PushPowerButton") and not on:
            def after() -> None:
                self.host.settings["power"] = "On"
                timer = threading.Timer(self.host.boot_seconds, world.boot_host, [name])
                timer.daemon = True
                timer.start()
        elif kind in ("ForceOff", "GracefulShutdown", "PushPowerButton"):
            def after() -> None:
                with world.lock:
                    self.host.settings["power"] = "Off"
                    self.host.state = "down"
                    gone = world.vm_on(name)
                    for vm in gone:
                        vm.power, vm.guest.booted = "off", False
                    for card in self.host.cards:
                        card.load_next()
                world.tell("host", name)
                for vm in gone:
                    world.tell("guest", vm.name)
        elif kind == "PowerCycle":
            def after() -> None:
                world.power_cycle_host(name, "bmc")
        elif kind == "Nmi":
            return Answer(None, 204)
        else:
            def after() -> None:
                world.reboot_host(name, "bmc")
        return Answer(None, 204, after=after)
