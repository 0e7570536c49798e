# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault and kill campaign; its last line is "N passed, M failed". Arguments are pytest's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


class Count:
    def __init__(self) -> None:
        self.passed = self.failed = 0

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed += 1
        elif report.when == "call" and report.passed:
            self.passed += 1


def main(words: list[str]) -> int:
    sys.path.insert(0, str(TOP / "build" / "collections"))
    (TOP / "build" / "test").mkdir(parents=True, exist_ok=True)
    count = Count()
    ours = [TOP / "tests" / "faults", TOP / "tests" / "integration" / "lab" / "test_faults.py"]
    where = [word for word in words if not word.startswith("-")] or [str(path) for path in ours]
    options = [word for word in words if word.startswith("-")]
    code = pytest.main(["-q", "-ra", "-p", "no:pytest-ansible", "-o", "cache_dir=%s" % (TOP / "build" / "cache" / "pytest-faults"),
                        "--basetemp", str(TOP / "build" / "test" / "tmp-faults")] + options + where, plugins=[count])
    print("%d passed, %d failed" % (count.passed, count.failed))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
