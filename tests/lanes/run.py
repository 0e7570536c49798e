# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the test lanes, two at a time, and ends with a table: run.py [LANE...].

A lane is a function of lanes.py that runs commands and raises when one fails. Its whole output is kept in
build/test/LANE.log; the end of it (all of it when the lane failed) is shown when the lane is done.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time

import lanes

TAIL = 12
ALL = {**lanes.LANES, **lanes.OPTIONAL}
JOBS = int(os.environ.get("LANE_JOBS", "2"))


def work(todo: "queue.Queue[str]", done: dict[str, tuple[str, float, str]], screen: threading.Lock) -> None:
    while True:
        try:
            name = todo.get_nowait()
        except queue.Empty:
            return
        with screen:
            print("start  %s" % name, flush=True)
        started = time.monotonic()
        run = lanes.Run(name)
        try:
            ALL[name](run)
            status, note = "ok", run.note
        except lanes.NothingToTest as why:
            status, note = "absent", str(why)
        except lanes.LaneFailed as why:
            status, note = "FAILED", str(why)
        except Exception as why:  # a bug of a lane must not take the table and the other lanes with it
            status, note = "FAILED", "%s: %s" % (type(why).__name__, why)
        seconds = time.monotonic() - started
        done[name] = (status, seconds, note)
        with screen:
            show(name, status, seconds, note, run.log_text())


def show(name: str, status: str, seconds: float, note: str, log: str) -> None:
    lines = log.splitlines()
    if status != "FAILED" and len(lines) > TAIL:
        lines = ["..."] + lines[-TAIL:]
    rule = "-" * 20
    print("%s %s: %s in %.0f s %s" % (rule, name, status, seconds, rule))
    for line in lines:
        print("    " + line if status != "FAILED" else line)
    if note:
        print("    (%s)" % note)
    sys.stdout.flush()


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print("No such lane: %s. There are: %s" % (", ".join(unknown), ", ".join(ALL)), file=sys.stderr)
        return 2
    names = names or list(lanes.LANES)
    lanes.prepare()
    todo: "queue.Queue[str]" = queue.Queue()
    for name in names:
        todo.put(name)
    done: dict[str, tuple[str, float, str]] = {}
    screen = threading.Lock()
    started = time.monotonic()
    workers = [threading.Thread(target=work, args=(todo, done, screen)) for dummy in range(min(JOBS, len(names)))]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        while not todo.empty():
            todo.get_nowait()
        for process in list(lanes.RUNNING):
            lanes.stop(process)
        return 130
    print("\n%-14s %-7s %7s  %s" % ("lane", "result", "seconds", "note"))
    for name in names:
        status, seconds, note = done[name]
        print("%-14s %-7s %7.0f  %s" % (name, status, seconds, note))
    failed = [name for name in names if done[name][0] == "FAILED"]
    print("%d lanes in %.0f s: %s" % (len(names), time.monotonic() - started, "failed: " + ", ".join(failed) if failed else "all well"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
