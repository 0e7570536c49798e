# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service instance and what stands beside the inventory: sessions, options, licences, custom fields."""

from __future__ import annotations

import time
import uuid
from typing import Any, TYPE_CHECKING

from pyVmomi import vim, vmodl

from .model import Managed, fill, utc

if TYPE_CHECKING:
    from .server import Call, VsphereFace

BUILD = {"7.0.2.0": "17694817", "7.0.3.0": "20990077", "8.0.3.0": "24022515"}


class Session:
    """A logged-in client; owned are its views and filters, which end with it."""

    def __init__(self, user: str) -> None:
        self.user, self.key, self.login, self.active = user, str(uuid.uuid4()), utc(), time.time()
        self.owned: list[str] = []

    def data(self) -> Any:
        return fill(vim.UserSession(key=self.key, userName=self.user.upper(), fullName=self.user, loginTime=self.login, lastActiveTime=utc(), locale="en",
                                    messageLocale="en", extensionSession=False, ipAddress="127.0.0.1", userAgent="", callCount=0))


class ServiceInstance(Managed):
    kind = vim.ServiceInstance

    def get_content(self) -> Any:
        return self.content()

    def get_serverClock(self) -> Any:
        return utc()

    def get_capability(self) -> Any:
        return vim.Capability(provisioningSupported=True, multiHostSupported=True)

    def about_info(self) -> Any:
        version = self.face.offered
        short = ".".join(version.split(".")[:3])
        return vim.AboutInfo(name="VMware vCenter Server", fullName="VMware vCenter Server %s build-%s" % (short, BUILD.get(version, "1")),
                             vendor="VMware, Inc.",
                             version=short, build=BUILD.get(version, "1"), localeVersion="INTL", localeBuild="000", osType="linux-x64", productLineId="vpx",
                             apiType="VirtualCenter", apiVersion=version, instanceUuid="b6f5e8a0-52c1-4f0e-9a3c-0d4a4c3e7a11",
                             licenseProductName="VMware VirtualCenter Server", licenseProductVersion=short.split(".", maxsplit=1)[0] + ".0")

    def content(self) -> Any:
        return self.face.content(vim.ServiceInstanceContent(
            rootFolder=self.face.root.ref, propertyCollector=self.face.collector.ref, viewManager=vim.view.ViewManager("ViewManager"), about=self.about_info(),
            setting=vim.option.OptionManager("VpxSettings"), sessionManager=vim.SessionManager("SessionManager"), taskManager=vim.TaskManager("TaskManager"),
            searchIndex=vim.SearchIndex("SearchIndex"), customFieldsManager=vim.CustomFieldsManager("CustomFieldsManager"),
            licenseManager=vim.LicenseManager("LicenseManager"),
            customizationSpecManager=None if self.face.one_host else vim.CustomizationSpecManager("CustomizationSpecManager"),
            dvSwitchManager=vim.dvs.DistributedVirtualSwitchManager("DVSManager")))

    def RetrieveServiceContent(self, call: Call) -> Any:
        return self.content()

    def CurrentTime(self, call: Call) -> Any:
        return utc()


class SessionManager(Managed):
    kind = vim.SessionManager
    unset = ("message", "messageLocaleList", "supportedLocaleList")

    def get_currentSession(self) -> Any:
        session = self.face.current.call.session
        return session.data() if session else None

    def get_sessionList(self) -> list[Any]:
        return [session.data() for session in self.face.sessions.values()]

    def get_defaultLocale(self) -> str:
        return "en"

    def Login(self, call: Call, userName: str, password: str, locale: str | None = None) -> Any:
        if not self.face.may_log_in(userName, password):
            raise vim.fault.InvalidLogin(msg="Cannot complete login due to an incorrect user name or password.")
        self.face.end_session(call.sid)
        self.face.sessions[call.sid] = session = Session(userName)
        return session.data()

    def Logout(self, call: Call) -> None:
        self.face.end_session(call.sid)

    def SessionIsActive(self, call: Call, sessionID: str, userName: str) -> bool:
        return any(session.key == sessionID and session.user.lower() == userName.lower() for session in self.face.sessions.values())

    def TerminateSession(self, call: Call, sessionId: list[str]) -> None:
        for sid, session in list(self.face.sessions.items()):
            if session.key in sessionId:
                self.face.end_session(sid)


class OptionManager(Managed):
    """Options of a host or of vCenter over a dictionary; `open_ended` lets unknown names in (vCenter does for config.*)."""

    kind = vim.option.OptionManager

    def __init__(self, face: VsphereFace, moid: str, host: str = "") -> None:
        super().__init__(face, moid)
        self._host = host

    @property
    def about(self) -> str:
        return self._host

    def table(self) -> dict[str, Any]:
        if not self._host:
            return self.face.settings
        return self.world.hosts[self._host].settings["options"]  # beside what the shell keeps there

    def get_setting(self) -> list[Any]:
        return [vim.option.OptionValue(key=name, value=value) for name, value in sorted(self.table().items())]

    def get_supportedOption(self) -> list[Any]:
        return [vim.option.OptionDef(key=name, label=name, summary=name, optionType=self._type(value)) for name, value in sorted(self.table().items())]

    @staticmethod
    def _type(value: Any) -> Any:
        if isinstance(value, bool):
            return vim.option.BoolOption(supported=True, defaultValue=value, valueIsReadonly=False)
        if isinstance(value, int):
            return vim.option.LongOption(min=-2 ** 31, max=2 ** 31 - 1, defaultValue=value, valueIsReadonly=False)
        return vim.option.StringOption(defaultValue=str(value), valueIsReadonly=False)

    def QueryOptions(self, call: Call, name: str | None = None) -> list[Any]:
        table = self.table()
        found = [one for one in sorted(table) if not name or one == name or name.endswith(".") and one.startswith(name)]
        if not found:
            raise vim.fault.InvalidName(name=name, msg="The name '%s' is invalid." % name)
        return [vim.option.OptionValue(key=one, value=table[one]) for one in found]

    def UpdateOptions(self, call: Call, changedValue: list[Any]) -> None:
        table = self.table()
        for option in changedValue:
            old = table.get(option.key)
            if old is None and (self._host or not option.key.startswith("config.")):
                raise vim.fault.InvalidName(name=option.key, msg="The name '%s' is invalid." % option.key)
            if old is not None and isinstance(old, int) != isinstance(option.value, int):
                raise vmodl.fault.InvalidArgument(invalidProperty=option.key, msg="A specified parameter was not correct: %s" % option.key)
        for option in changedValue:
            old = table.get(option.key)
            table[option.key] = option.value if old is None else type(old)(option.value)
        if not self._host:
            self.face.cluster.settle_agents()


HOST_OPTIONS: dict[str, Any] = {
    "UserVars.SuppressShellWarning": 0, "UserVars.ESXiShellTimeOut": 0, "UserVars.ESXiShellInteractiveTimeOut": 0, "Misc.LogToFile": 1,
    "VMkernel.Boot.disableACSCheck": False, "VMkernel.Boot.execInstalledOnly": False, "Syslog.global.logHost": "", "Net.TcpipHeapMax": 1536,
}


class LicenseManager(Managed):
    kind = vim.LicenseManager
    unset = ("source", "diagnostics", "featureInfo", "licensedEdition", "sourceAvailable", "evaluation")

    def get_licenses(self) -> list[Any]:
        """Of a vCenter all that are assigned, each once; of a host its own."""
        return list({info.editionKey: info for info in map(self.of_host, self.face.hosts())}.values())

    @staticmethod
    def of_host(managed: Any) -> Any:
        """host.settings["licence"] = (name, edition, [feature, ...]); without it the host is evaluated."""
        name, edition, features = managed.host.settings.get("licence", ("Evaluation Mode", "eval", []))
        rows = [vmodl.KeyAnyValue(key="feature", value=vim.KeyValue(key=key, value=key)) for key in features]
        return vim.LicenseManager.LicenseInfo(licenseKey="00000-00000-00000-00000-00000", editionKey=edition, name=name, total=0, used=0, costUnit="cpuPackage",
                                              properties=rows)

    def get_evaluation(self) -> Any:
        return vim.LicenseManager.EvaluationInfo()

    def get_licenseAssignmentManager(self) -> Any:
        return None if self.face.one_host else vim.LicenseAssignmentManager("LicenseAssignmentManager")

    def CheckLicenseFeature(self, call: Call, host: Any, featureKey: str) -> bool:
        return True


class LicenseAssignmentManager(Managed):
    kind = vim.LicenseAssignmentManager

    def QueryAssignedLicenses(self, call: Call, entityId: str | None = None) -> list[Any]:
        return [vim.LicenseAssignmentManager.LicenseAssignment(entityId=host.moid, entityDisplayName=host.name, assignedLicense=LicenseManager.of_host(host))
                for host in self.face.hosts() if entityId in (None, "", host.moid)]


class CustomizationSpecManager(Managed):
    """face.customizations: name -> specification, as somebody left them in vCenter."""

    kind = vim.CustomizationSpecManager
    unset = ("encryptionKey",)

    def _info(self, name: str) -> Any:
        linux = isinstance(self.face.customizations[name].identity, vim.vm.customization.LinuxPrep)
        return vim.CustomizationSpecInfo(name=name, description="", type="Linux" if linux else "Windows", changeVersion="1")

    def get_info(self) -> list[Any]:
        return [self._info(name) for name in sorted(self.face.customizations)]

    def DoesCustomizationSpecExist(self, call: Call, name: str) -> bool:
        return name in self.face.customizations

    def GetCustomizationSpec(self, call: Call, name: str) -> Any:
        if name not in self.face.customizations:
            raise vim.fault.NotFound(msg="The object or item referred to could not be found: %s." % name)
        return vim.CustomizationSpecItem(info=self._info(name), spec=self.face.customizations[name])


class CustomFieldsManager(Managed):
    kind = vim.CustomFieldsManager

    def get_field(self) -> list[Any]:
        return []


class TaskManager(Managed):
    kind = vim.TaskManager
    unset = ("description",)

    def get_maxCollector(self) -> int:
        return 0

    def get_recentTask(self) -> list[Any]:
        return [task.ref for task in self.face.tasks()[-16:]]


def service_objects(face: VsphereFace) -> list[Managed]:
    return [ServiceInstance(face, "ServiceInstance"), SessionManager(face, "SessionManager"), OptionManager(face, "VpxSettings"),
            LicenseManager(face, "LicenseManager"), LicenseAssignmentManager(face, "LicenseAssignmentManager"),
            CustomizationSpecManager(face, "CustomizationSpecManager"), CustomFieldsManager(face, "CustomFieldsManager"), TaskManager(face, "TaskManager")]
