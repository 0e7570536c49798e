# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ESXi's own programs beside esxcli: esxcfg-module, vmkchdev, lspci, esxcfg-nics, vim-cmd, vmware, secureBoot.py, reboot."""

from __future__ import annotations

import threading

from ..world import CLASS_INFINIBAND, Host, Service, World
from . import esxcli
from .sh import Io, Shell

REBOOT_AFTER = 0.3  # so that the client gets its answer before the connection goes


def reboot_later(world: World, host: Host, delay: float) -> None:
    """The reboot happens in a thread of its own: whoever asked for it is answered first."""
    timer = threading.Timer(max(delay, REBOOT_AFTER), world.reboot_host, [host.name, "esxi"])
    timer.daemon = True
    timer.start()


def reboot(shell: Shell, args: list[str], io: Io) -> int:
    """reboot [-d SECONDS] [-f] [-n]"""
    rest, delay = list(args[1:]), 0.0
    while rest:
        item = rest.pop(0)
        if item == "-d" and rest:
            item = "-d" + rest.pop(0)
        if item.startswith("-d"):
            try:
                delay = float(item[2:])
            except ValueError:
                io.err.write("reboot: invalid number '%s'\n" % item[2:])
                return 1
        elif item not in ("-f", "-n"):
            io.err.write("reboot: invalid option -- '%s'\n" % item.lstrip("-"))
            return 1
    reboot_later(shell.world, shell.host, delay)
    return 0


def vmware(shell: Shell, args: list[str], io: Io) -> int:
    host = shell.host
    if "-l" in args:
        io.out.write("VMware ESXi %s Update %s\n" % (host.version.rsplit(".", 1)[0] + ".0", host.version.rsplit(".", 1)[1]))
    else:
        io.out.write("VMware ESXi %s build-%s\n" % (host.version, host.build))
    return 0


def module(shell: Shell, args: list[str], io: Io) -> int:
    """esxcfg-module -g NAME | -s OPTIONS NAME | -l"""
    rest = args[1:]
    with shell.world.lock:
        host = shell.host
        if rest[:1] == ["-g"] and len(rest) > 1:
            name = rest[1]
            if name not in esxcli.MODULES or esxcli.MODULES[name] not in host.vibs:
                io.out.write("Unable to find module %s\n" % name)
                return 1
            io.out.write("%s enabled = 1 options = '%s'\n" % (name, host.module_options.get(name, "")))
            return 0
        if rest[:1] == ["-s"] and len(rest) > 2:
            try:
                esxcli.execute(shell.world, host, "system.module.parameters", "set", {"parameterstring": rest[1], "module": rest[2]})
            except esxcli.EsxcliError as fault:
                io.out.write("%s\n" % fault)
                return 1
            return 0
        if rest[:1] in ([], ["-l"], ["-q"]):
            io.out.write("Name                     Used Size (kb)\n")
            for row in esxcli.module_list(shell.world, host, {"loaded": True}):
                io.out.write("%-25s%4d %9d\n" % (row["Name"], 1, 1024))
            return 0
    io.out.write("esxcfg-module <options> [module]\n  -g|--get-options   Get the options for a given module and whether it is set to load on boot.\n")
    return 1


def rows(host: Host) -> list[tuple]:
    nics = {bdf: name for name, bdf in host.vmnics().items()}
    return [(bdf, card, port, nics.get(bdf, ""), host.passthru[bdf].active, esxcli.claimed(host, bdf)) for bdf, card, port in host.functions()]


def ids(card: object) -> tuple[str, str]:
    return "15b3:%04x" % card.mt, "15b3:%04x" % esxcli.SUBDEVICE.get(card.mt, 0)


def vmkchdev(shell: Shell, args: list[str], io: Io) -> int:
    if args[1:2] != ["-l"]:
        io.out.write("Usage: vmkchdev -l\n")
        return 1
    with shell.world.lock:
        for bdf, card, dummy, nic, passed, dummy2 in rows(shell.host):
            io.out.write(" ".join(part for part in (bdf, *ids(card), "passthru" if passed else "vmkernel", nic) if part) + "\n")
    return 0


def lspci(shell: Shell, args: list[str], io: Io) -> int:
    """lspci, -n, -p, -v"""
    flags = {letter for item in args[1:] if item.startswith("-") for letter in item[1:]}
    with shell.world.lock:
        for bdf, card, port, nic, passed, module_name in rows(shell.host):
            infiniband = card.pci_class(port.number) == CLASS_INFINIBAND
            alias = " [%s]" % nic if nic else ""
            if "p" in flags:
                io.out.write("%s %s %s 255/   /     A %s %-12s %s\n" % ((bdf,) + ids(card) + ("P" if passed else "V", module_name, nic)))
            elif "n" in flags:
                io.out.write("%s Class %04x: %s%s\n" % (bdf, card.pci_class(port.number), ids(card)[0], alias))
            else:
                io.out.write("%s %s controller: Mellanox Technologies %s%s\n"
                             % (bdf, "Infiniband" if infiniband else "Network", esxcli.device_name(card), alias))
                if "v" in flags:
                    io.out.write("\t Class %04x: %s\n\n" % (card.pci_class(port.number), ids(card)[0]))
    return 0


def nics(shell: Shell, args: list[str], io: Io) -> int:
    with shell.world.lock:
        io.out.write("%-8s%-13s%-12s%-5s%-11s%-7s%-18s%-7s%s\n" % ("Name", "PCI", "Driver", "Link", "Speed", "Duplex", "MAC Address", "MTU", "Description"))
        for row in esxcli.nic_list(shell.world, shell.host, {}):
            io.out.write("%-8s%-13s%-12s%-5s%-11s%-7s%-18s%-7d%s\n" % (row["Name"], row["PCI Device"], row["Driver"], row["Link Status"],
                                                                       "%dMbps" % row["Speed"], row["Duplex"],
                                                                       row["MAC Address"], row["MTU"], row["Description"]))
    return 0


def load(shell: Shell, args: list[str], io: Io) -> int:
    """vmkload_mod -s NAME | -l"""
    with shell.world.lock:
        if args[1:2] == ["-s"] and len(args) > 2:
            name = args[2]
            if name not in esxcli.MODULES or esxcli.MODULES[name] not in shell.host.vibs:
                io.out.write("vmkload_mod: Can not find module %s\n" % name)
                return 1
            io.out.write("vmkload_mod module information\n input file: /usr/lib/vmware/vmkmod/%s\n Version: %s\n"
                         % (name, shell.host.vibs[esxcli.MODULES[name]].version))
            return 0
        io.out.write("Name                     Used Size (kb)\n")
        for row in esxcli.module_list(shell.world, shell.host, {"loaded": True}):
            io.out.write("%-25s%4d %9d\n" % (row["Name"], 1, 1024))
    return 0


def secure_boot(shell: Shell, args: list[str], io: Io) -> int:
    """-s: the state; -c: whether it can be enabled"""
    if "-c" in args:
        io.out.write("Secure boot can be enabled: All vib signatures verified. All tardisks validated. All acceptance levels validated\n")
    else:
        io.out.write("Enabled\n" if shell.host.secure_boot else "Disabled\n")
    return 0


def service(shell: Shell, name: str, running: bool | None = None, policy: str | None = None) -> None:
    world, host = shell.world, shell.host
    with world.lock:
        entry = host.services.setdefault(name, Service(False, "off"))
        entry.running = entry.running if running is None else running
        entry.policy = policy or entry.policy
        world.note("esxi", host.name, "service %s: running=%s policy=%s" % (name, entry.running, entry.policy))
    if running is False and name == "TSM-SSH":
        timer = threading.Timer(REBOOT_AFTER, world.tell, ["host", host.name])
        timer.daemon = True
        timer.start()
    else:
        world.tell("host", host.name)


def vim_cmd(shell: Shell, args: list[str], io: Io) -> int:
    rest = [item for item in args[1:] if item not in ("-U", "dcui")]
    name = rest[0] if rest else ""
    host = shell.host
    if name == "vimsvc/auth/lockdown_is_enabled":
        io.out.write("true\n" if host.lockdown != "lockdownDisabled" else "false\n")
    elif name in ("hostsvc/enable_ssh", "hostsvc/disable_ssh"):
        service(shell, "TSM-SSH", policy="on" if "enable" in name else "off")
    elif name in ("hostsvc/start_ssh", "hostsvc/stop_ssh"):
        service(shell, "TSM-SSH", running="start" in name)
    elif name in ("hostsvc/maintenance_mode_enter", "hostsvc/maintenance_mode_exit"):
        with shell.world.lock:
            host.maintenance = name.endswith("enter")
    elif name == "vmsvc/getallvms":
        io.out.write("Vmid   Name   File   Guest OS   Version   Annotation\n")
        for index, vm in enumerate([vm for vm in shell.world.vms.values() if vm.host == host.name], 1):
            io.out.write("%-6d %s   [%s] %s/%s.vmx   rhel8_64Guest   vmx-%d\n"
                         % (index, vm.name, next(iter(shell.world.datastores), ""), vm.name, vm.name, vm.hw_version))
    else:
        io.out.write("Invalid command '%s'.\n" % name)
        return 1
    return 0


def init_ssh(shell: Shell, args: list[str], io: Io) -> int:
    action = args[1] if len(args) > 1 else ""
    if action == "status":
        io.out.write("SSH is %s\n" % ("running" if shell.host.services["TSM-SSH"].running else "not running"))
        return 0
    if action in ("start", "stop", "restart"):
        service(shell, "TSM-SSH", running=action != "stop")
        return 0
    io.out.write("Usage: SSH {start|stop|status|restart}\n")
    return 1


PROGRAMS = {"reboot": reboot, "vmware": vmware, "esxcfg-module": module, "vmkchdev": vmkchdev, "lspci": lspci, "esxcfg-nics": nics, "vmkload_mod": load,
            "secureBoot.py": secure_boot,
            "vim-cmd": vim_cmd, "SSH": init_ssh}
