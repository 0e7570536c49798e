# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our own samples of what the tools print: fixtures/TOOL/NAME.txt, in the grammar of the real ones, with values of our own."""

import io
import os

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")


def sample(tool, name):
    with io.open(os.path.join(ROOT, tool, name + ".txt"), encoding="utf-8", newline="") as handle:
        return handle.read().replace(u"\u240d", "\r")  # a carriage return is kept as its visible sign: files here have \n alone


def every():
    """(tool, name, text) of all samples."""
    out = []
    for tool in sorted(os.listdir(ROOT)):
        for name in sorted(os.listdir(os.path.join(ROOT, tool))):
            out.append((tool, name[:-4], sample(tool, name[:-4])))
    return out
