# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a machine is told that lacks what the guests need."""

from __future__ import annotations

import os
import subprocess
import sys

from guests import image as images


def test_all_missing_packages_are_named_at_once(tmp_path):
    done = subprocess.run([sys.executable, "-m", "guests", "test"], env=dict(os.environ, PATH=str(tmp_path), PYTHONPATH=str(images.TOP / "tests")),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    said = done.stderr.strip()
    assert "\n" not in said and "apt-get install --no-install-recommends" in said
    # The rest may lie in /usr/sbin, which is looked into though an ordinary user's PATH does not name it.
    assert {"qemu-system-x86", "qemu-utils", "mmdebstrap", "busybox-static", "openssh-client"} <= set(said.split())


def test_another_recipe_is_another_image(monkeypatch):
    before = images.name()
    monkeypatch.setattr(images, "PACKAGES", images.PACKAGES + ("tcpdump",))
    assert images.name() != before
