# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether govmomi's simulator can be built on this machine; nothing beyond the standard library, for the lane asks before there is an environment."""

from __future__ import annotations

import pathlib
import shutil

GOPATH = pathlib.Path("/usr/share/gocode")
LIBRARY = GOPATH / "src" / "github.com" / "vmware" / "govmomi" / "simulator"


def lacking() -> str:
    """Why the simulator cannot be built here; empty when it can."""
    if shutil.which("go") is None:
        return "no go in PATH (Debian: apt-get install --no-install-recommends golang-go golang-github-vmware-govmomi-dev)"
    if not LIBRARY.is_dir():
        return "no govmomi in %s (Debian: apt-get install --no-install-recommends golang-github-vmware-govmomi-dev)" % GOPATH
    return ""
