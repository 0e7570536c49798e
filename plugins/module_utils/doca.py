# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DOCA in a guest: the vendor's RDMA as packages of a repository (doca-ofed), which a package of its own (doca-host) brings."""

from ansible_collections.vhpc.rdma.plugins.module_utils import ofed_state, packages

PACKAGE = "doca-ofed"


def state(system):
    """Installed and loaded together, in the form of ofed_state.state."""
    found = packages.version(system, PACKAGE)
    running, why = ofed_state.loaded(system, "") if found else (False, "%s is not installed" % PACKAGE)
    return dict(installed="%s %s" % (PACKAGE, found) if found else "", version=found, provider="doca" if found else "", loaded=running, loaded_reason=why)


def unbuilt(system, release):
    """Modules that DKMS knows and has not installed for the running kernel; None without DKMS."""
    if not system.find("dkms"):
        return None
    dummy, out, err = system.run(["dkms", "status"], timeout=120)
    return ofed_state.dkms_missing(out + "\n" + err, release)
