# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logs of OpenFOAM, WRF, LAMMPS, GROMACS, NAMD, ucx_perftest, and of any program that a definition describes (pure).

Every parser returns the same keys: app, version, processes, metric, value (the figure of merit, None without one), unit,
direction (lower or higher is better), success, series (seconds of every step, where the log has steps), health (their
spread), figures (other numbers), discarded (what was left out of the value, and why), warnings, and error where the log says one.
"""

import re

from ansible_collections.vhpc.rdma.plugins.module_utils.bench import stats
from ansible_collections.vhpc.rdma.plugins.module_utils.errors import ParseError, RdmaError
from ansible_collections.vhpc.rdma.plugins.module_utils.tools import text as clean

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# Steps of one run do much the same work, so their times are close together. In public series of WRF on 1 to 56 nodes the 99th
# percentile is 1.5 to 2.9 medians and cv up to 0.37 on InfiniBand; on a RoCE fabric that stalls cv is 0.44 to 1.0.
STALL_RATIO = 3.0
STALL_CV = 0.4
FEW_STEPS = 20
# A rank that waits in MPI is busy too, so less CPU time than wall time means that others have the cores.
CPU_PERCENT = 95.0
DAYS_PER_NS = 11.574074074  # of one second a step of one femtosecond: 1e6 steps in 86400 s


def stalls(p99_to_median, cv):
    """Whether steps with this spread stall."""
    return p99_to_median > STALL_RATIO or cv > STALL_CV


def health(series):
    """The spread of the times of steps: a cheap check of a fabric, since stalls show here and not in a bandwidth of two nodes."""
    rows = [value for value in series if value is not None]
    if len(rows) < FEW_STEPS:
        return dict(steps=len(rows), status="none", text="%d steps are too few to judge their spread" % len(rows) if rows else "the log has no steps")
    middle, mean, deviation = stats.median(rows), stats.mean(rows), stats.deviation(rows)
    p99 = stats.percentile(rows, 99)
    out = dict(steps=len(rows), median=middle, mean=mean, p99=p99, max=max(rows), cv=deviation / mean if mean else 0.0,
               p99_to_median=p99 / middle if middle else None)
    bad = bool(middle) and stalls(out["p99_to_median"], out["cv"])
    out["status"] = "warn" if bad else "pass"
    # pylint: disable-next=bad-string-format-type  # there are rows, so there are all of these
    out["text"] = "median step %.4g s, mean %.4g s, 99th percentile %.4g s (%.1f medians), cv %.2f" % (
        middle, mean, p99, p99 / middle if middle else 0.0, out["cv"])
    if bad:
        out["text"] += ": the steps stall; on RoCE look at PFC, ECN and pause counters of the switch, and at other load on the nodes"
    return out


def _result(app, metric, unit, direction, **more):
    out = dict(app=app, version="", processes=None, metric=metric, value=None, unit=unit, direction=direction, success=False, series=[], figures={},
               discarded=[], warnings=[])
    out.update(more)
    return out


def _finish(out, errors):
    out["health"] = health(out["series"])
    if errors:
        out["error"], out["success"] = errors[0], False
    if not out["success"] and out["value"] is not None:
        out["warnings"].append("the log does not say that the run ended well: its figure is not to be believed")
    return out


def _matches(pattern, found):
    return [match for match in (pattern.search(line) for line in found) if match]


def _refuse(app, found):
    raise ParseError(app, "no line of %s in it" % app, "\n".join(found))


# ---- OpenFOAM ----------------------------------------------------------------------------------------------------------

FOAM_TIMES = re.compile(r"^\s*ExecutionTime = (%s) s\s+ClockTime = (%s) s" % (NUMBER, NUMBER))
FOAM_SIGN = re.compile(r"OpenFOAM: The Open Source CFD Toolbox|^\s*Exec\s+: \w+Foam\b|^Build\s+: ?\S*(?:OPENFOAM|\d+-[0-9a-f]{6,})")
FOAM_VERSION = re.compile(r"^\s*(?:\|.*\|\s*Version:\s+(\S+)\s*\||Build\s*: (?:OPENFOAM=)?(\S+))")
FOAM_ERROR = re.compile(r"^\s*(?:\[\d+\]\s*)?-->\s*FOAM (?:FATAL|PARALLEL).*|^\s*(?:\[\d+\]\s*)?FOAM (?:exiting|aborting).*")


def parse_openfoam(text):
    """Seconds per iteration by the wall clock. ExecutionTime is CPU time: on a busy host it hides all waiting."""
    found = clean.lines("openfoam", text)
    rows = _matches(FOAM_TIMES, found)
    errors = [match.group(0).strip() for match in _matches(FOAM_ERROR, found)]
    if not rows and not errors and not _matches(FOAM_SIGN, found):
        _refuse("openfoam", found)
    out = _result("openfoam", "wall clock time per iteration", "s/iteration", "lower")
    out["version"] = next((match.group(1) or match.group(2) for match in _matches(FOAM_VERSION, found) if (match.group(1) or match.group(2))), "")
    out["processes"] = next((int(match.group(1)) for match in _matches(re.compile(r"^\s*nProcs : (\d+)"), found)), None)
    out["success"] = any(re.match(r"^\s*(?:Finalising parallel run|End)\s*$", line) for line in found)
    cpu, wall = [float(match.group(1)) for match in rows], [float(match.group(2)) for match in rows]
    if rows:
        out["figures"] = dict(iterations=len(rows), cpu_seconds=cpu[-1], wall_seconds=wall[-1])
        if wall[-1] and cpu[-1] < wall[-1] * CPU_PERCENT / 100.0:
            out["warnings"].append("CPU time %g s of %g s on the wall clock: the processes waited for a disk or shared their cores" % (cpu[-1], wall[-1]))
    if len(rows) > 1:
        steps = len(rows) - 1
        out["value"] = (wall[-1] - wall[0]) / steps
        out["discarded"].append(dict(what="all before the end of iteration 1 (%g s)" % wall[0], why="reading the mesh and starting is no iteration"))
        whole = all(value == int(value) for value in wall)
        out["figures"]["resolution"] = (1.0 if whole else 0.01) / steps
        series = [later - sooner for sooner, later in zip(wall, wall[1:])]
        if whole and stats.median(series) < 10:
            out["discarded"].append(dict(what="times of single iterations", why="ClockTime has whole seconds, too coarse for them"))
        else:
            out["series"] = series
        if whole and out["value"] and out["figures"]["resolution"] > 0.01 * out["value"]:
            out["warnings"].append("ClockTime has whole seconds: the figure is known to %.2g s only; run more iterations" % out["figures"]["resolution"])
    elif rows:
        out["warnings"].append("one iteration alone cannot be told from the start")
    return _finish(out, errors)


# ---- WRF ---------------------------------------------------------------------------------------------------------------

WRF_STEP = re.compile(r"Timing for main(?:\s*\(dt=\s*%s\))?: time (\S+) on domain\s+(\d+):\s+(%s) elapsed seconds" % (NUMBER, NUMBER))
WRF_IO = re.compile(r"Timing for (Writing|processing) (.*?) for domain\s+\d+:\s+(%s) elapsed seconds" % NUMBER)
WRF_SIGN = re.compile(r"^\s*WRF V\d|wrf: SUCCESS COMPLETE WRF|^\s*Quilting with\s+\d+ groups|^\s*taskid:\s*\d+\s+hostname:")
WRF_ERROR = re.compile(r"^.*(?:FATAL CALLED FROM FILE|module_.*FATAL|forrtl: severe|wrf_error_fatal).*")


def parse_wrf(text):
    """Mean seconds per time step of the outermost domain, which holds the time of the nests; rsl.error.0000 or rsl.out.0000."""
    found = clean.lines("wrf", text)
    rows, io = _matches(WRF_STEP, found), _matches(WRF_IO, found)
    errors = [match.group(0).strip() for match in _matches(WRF_ERROR, found)]
    if not rows and not io and not errors and not _matches(WRF_SIGN, found):
        _refuse("wrf", found)
    out = _result("wrf", "mean time per step", "s/step", "lower")
    out["version"] = next((match.group(1) for match in _matches(re.compile(r"^\s*WRF V(\S+) MODEL"), found)), "")
    grid = next(iter(_matches(re.compile(r"Ntasks in X\s+(\d+)\s*,\s*ntasks in Y\s+(\d+)"), found)), None)
    out["processes"] = int(grid.group(1)) * int(grid.group(2)) if grid else None
    out["success"] = any("SUCCESS COMPLETE WRF" in line for line in found)
    domain = min([int(match.group(2)) for match in rows] or [1])
    steps = [float(match.group(3)) for match in rows if int(match.group(2)) == domain]
    nests = len(rows) - len(steps)
    if nests:
        out["discarded"].append(dict(what="%d steps of nested domains" % nests, why="the outermost domain's steps hold their time"))
    if io:
        seconds = sum(float(match.group(3)) for match in io)
        out["discarded"].append(dict(what="%d lines of reading and writing files, %.2f s" % (len(io), seconds), why="input and output are no time steps"))
        out["figures"]["io_seconds"] = seconds
    if len(steps) > 1:
        out["discarded"].append(dict(what="the first step, %g s" % steps[0], why="it sets tables up and is no step like the others"))
        out["figures"]["mean_with_first"] = stats.mean(steps)
        steps = steps[1:]
        out["series"], out["value"] = steps, stats.mean(steps)
        out["figures"].update(steps=len(steps), median=stats.median(steps))
    elif steps:
        out["warnings"].append("one step alone is the first step, which is no step like the others")
    return _finish(out, errors)


# ---- LAMMPS ------------------------------------------------------------------------------------------------------------

LAMMPS_LOOP = re.compile(r"^\s*Loop time of (%s) on (\d+) procs?(?: \([^)]*\))? for (\d+) steps(?: with (\d+) atoms)?" % NUMBER)
LAMMPS_SPEED = re.compile(r"^\s*Performance: (.*)$")
LAMMPS_CPU = re.compile(r"^\s*(%s)%% CPU use with (\d+) MPI tasks x (?:(\d+|no) OpenMP threads?)" % NUMBER)
LAMMPS_VERSION = re.compile(r"^\s*LAMMPS \((.+)\)\s*$")
LAMMPS_ERROR = re.compile(r"^\s*ERROR(?: on proc \d+)?:? .*")


def parse_lammps(text):
    """Timesteps per second of the longest loop: shorter ones are minimization and warming up."""
    found = clean.lines("lammps", text)
    if not any(LAMMPS_VERSION.match(line) or LAMMPS_LOOP.match(line) for line in found):
        _refuse("lammps", found)
    out = _result("lammps", "time steps per second", "timesteps/s", "higher")
    loops, errors = [], []
    for line in found:
        version, loop, speed, cpu = LAMMPS_VERSION.match(line), LAMMPS_LOOP.match(line), LAMMPS_SPEED.match(line), LAMMPS_CPU.match(line)
        if version and not out["version"]:
            out["version"] = version.group(1)
        elif loop:
            loops.append(dict(seconds=float(loop.group(1)), processes=int(loop.group(2)), steps=int(loop.group(3)),
                              atoms=int(loop.group(4)) if loop.group(4) else None, printed={}))
        elif speed and loops:
            for part in speed.group(1).split(","):
                cells = part.split()
                if len(cells) == 2 and clean.real(cells[0]) is not None:
                    loops[-1]["printed"][cells[1]] = clean.real(cells[0])
        elif cpu and loops:
            loops[-1].update(cpu_percent=float(cpu.group(1)), tasks=int(cpu.group(2)))
        elif LAMMPS_ERROR.match(line):
            errors.append(line.strip())
    out["success"] = any(re.match(r"^\s*Total wall time: \d+:\d\d:\d\d", line) for line in found)
    done = [loop for loop in loops if loop["steps"] and loop["seconds"]]
    if done:
        main = max(done, key=lambda loop: loop["steps"])
        if len(loops) > 1:
            out["discarded"].append(dict(what="%d shorter loops" % (len(loops) - 1), why="minimization and warming up are not what is compared"))
        out["processes"] = main["processes"]
        # The printed rate has three decimals and is not there for all unit styles: steps and seconds say it better.
        rate = out["value"] = main["steps"] / main["seconds"]
        out["figures"] = dict((key, main[key]) for key in ("seconds", "steps", "atoms", "cpu_percent") if main.get(key) is not None)
        out["figures"]["printed"] = main["printed"]
        printed = main["printed"].get("timesteps/s")
        if printed and abs(printed - rate) > 0.01 * printed + 0.001:
            out["warnings"].append("the log prints %g timesteps/s, its steps and seconds make %g" % (printed, rate))
        if main.get("cpu_percent", 100.0) < CPU_PERCENT:
            out["warnings"].append("%g %% CPU use: the processes shared their cores with others" % main["cpu_percent"])
    return _finish(out, errors)


# ---- GROMACS -----------------------------------------------------------------------------------------------------------

GMX_SPEED = re.compile(r"^\s*Performance:\s+(%s)(?:\s+(%s))?" % (NUMBER, NUMBER))
GMX_TIME = re.compile(r"^\s*Time:\s+(%s)\s+(%s)\s+(%s)" % (NUMBER, NUMBER, NUMBER))
GMX_VERSION = re.compile(r"^\s*(?:GROMACS version:\s+(?:VERSION )?(\S+)|:-\) GROMACS - .*, (?:VERSION )?(\S+) \(-:)")
GMX_SIMD = re.compile(r"^\s*(Highest SIMD level (?:supported|requested) by all nodes in run|SIMD instructions selected at compile time):\s+(\S+)")
GMX_ERROR = re.compile(r"^\s*(?:Fatal error|Error in user input|Inconsistency in user input):")


def parse_gromacs(text):
    """ns/day of mdrun's own accounting, which leaves out the steps before a reset of its counters."""
    found = clean.lines("gromacs", text)
    if not any(GMX_VERSION.match(line) or re.match(r"^\s*GROMACS:\s+gmx", line) or re.match(r"^\s*Finished mdrun on rank", line)
               or re.match(r"^\s*\(ns/day\)\s+\(hour/ns\)", line) for line in found):
        _refuse("gromacs", found)
    out = _result("gromacs", "simulated time per day", "ns/day", "higher")
    out["version"] = next((match.group(1) or match.group(2) for match in _matches(GMX_VERSION, found)), "")
    out["success"] = any(re.match(r"^\s*(?:Finished mdrun on rank \d+|GROMACS reminds you:)", line) for line in found)
    ranks = _matches(re.compile(r"^\s*(?:On|Using) (\d+) MPI (?:ranks?|process(?:es)?)"), found)
    out["processes"] = int(ranks[-1].group(1)) if ranks else None
    errors = []
    for place, line in enumerate(found):
        if GMX_ERROR.match(line):
            errors.append(" ".join(part.strip() for part in found[place:place + 2] if part.strip()))
    for place, line in enumerate(found):
        speed, times, simd = GMX_SPEED.match(line), GMX_TIME.match(line), GMX_SIMD.match(line)
        if speed and any("ns/day" in before for before in found[max(0, place - 2):place]):
            out["value"] = float(speed.group(1))
        elif times:
            out["figures"].update(core_seconds=float(times.group(1)), wall_seconds=float(times.group(2)), cpu_percent=float(times.group(3)))
        elif simd:
            out["figures"]["simd_host" if simd.group(1).startswith("Highest") else "simd_build"] = simd.group(2)
        match = re.search(r"step (\d+):? resetting all time and cycle counters", line)
        if match:
            out["discarded"].append(dict(what="the first %s steps" % match.group(1),
                                         why="mdrun reset its counters there: balancing the load is no measurement"))
        match = re.match(r"^\s*nsteps\s+= (-?\d+)", line)
        if match:
            out["figures"]["steps"] = int(match.group(1))
    if out["value"] is not None and not out["discarded"]:
        out["warnings"].append("the counters were not reset: balancing the load at the start is in the figure; see mdrun -resethway")
    host, build = out["figures"].get("simd_host"), out["figures"].get("simd_build")
    if host and build and host != build:
        out["warnings"].append("built for %s, the nodes have %s: the program could be faster" % (build, host))
    return _finish(out, errors)


# ---- NAMD --------------------------------------------------------------------------------------------------------------

NAMD_BENCH = re.compile(r"^\s*Info: Benchmark time: (\d+) CPUs (%s) s/step (%s) (days/ns|ns/day) (%s) MB memory" % (NUMBER, NUMBER, NUMBER))
NAMD_TIMING = re.compile(r"^\s*TIMING: (\d+)\s+CPU: (%s), (%s)/step\s+Wall: (%s), (%s)/step" % ((NUMBER,) * 4))
NAMD_END = re.compile(r"^\s*WallClock: (%s)\s+CPUTime: (%s)\s+Memory: (%s) MB" % ((NUMBER,) * 3))
NAMD_ERROR = re.compile(r"^\s*(?:FATAL ERROR:.*|\[\d+\] Stack Traceback.*|Charm\+\+ fatal error.*)")


def parse_namd(text):
    """ns/day from the benchmark lines (their mean); versions before 3 print days/ns, so the unit is read and not assumed."""
    found = clean.lines("namd", text)
    if not any(NAMD_BENCH.match(line) or NAMD_TIMING.match(line) or NAMD_END.match(line) or re.match(r"^\s*Info: NAMD \d", line) for line in found):
        _refuse("namd", found)
    runs, now = [], []
    for line in found:
        now.append(line)
        if NAMD_END.match(line):
            runs.append(now)
            now = []
    if any(NAMD_BENCH.match(line) or NAMD_TIMING.match(line) for line in now) or not runs:
        runs.append(now)
    parts = [_namd(run) for run in runs]
    out = parts[-1]
    if len(parts) > 1:
        out = dict(out, runs=parts)
        out["warnings"] = out["warnings"] + ["the text holds %d runs: the figure is the last one's, see runs" % len(parts)]
    return out


def _namd(found):
    out = _result("namd", "simulated time per day", "ns/day", "higher")
    out["version"] = next((match.group(1) for match in _matches(re.compile(r"^\s*Info: NAMD (\S+) for"), found)), "")
    errors = [match.group(0).strip() for match in _matches(NAMD_ERROR, found)]
    femto = next((float(match.group(1)) for match in _matches(re.compile(r"^\s*Info: TIMESTEP\s+(%s)" % NUMBER), found)), None)
    rows, timing, end = _matches(NAMD_BENCH, found), _matches(NAMD_TIMING, found), _matches(NAMD_END, found)
    out["success"] = bool(end)
    if end:
        out["figures"].update(wall_seconds=float(end[-1].group(1)), cpu_seconds=float(end[-1].group(2)))
    if rows:
        out["processes"] = int(rows[-1].group(1))
        speeds = [1.0 / float(match.group(3)) if match.group(4) == "days/ns" else float(match.group(3)) for match in rows if float(match.group(3))]
        out["value"] = stats.mean(speeds)
        speed = float(out["value"] or 0)
        out["figures"].update(benchmarks=len(rows), seconds_per_step=stats.mean(float(match.group(2)) for match in rows), printed_unit=rows[-1].group(4))
        out["discarded"].append(dict(what="the steps before the first benchmark line", why="NAMD balances the load there and leaves them out itself"))
        if femto and speeds:
            made = 1.0 / (out["figures"]["seconds_per_step"] * DAYS_PER_NS / femto)
            if abs(made - speed) > 0.02 * made:
                out["warnings"].append("%g ns/day is printed, %g s a step of %g fs make %g" % (speed, out["figures"]["seconds_per_step"], femto, made))
    elif timing and femto:
        last = float(timing[-1].group(5))
        out["value"] = 1.0 / (last * DAYS_PER_NS / femto) if last else None
        out["warnings"].append("no benchmark line: the figure is from the last TIMING line, %g s a step of %g fs" % (last, femto))
    out["series"] = [float(match.group(5)) for match in timing]
    if out["series"]:
        out["figures"]["series_is"] = "mean of the steps between two TIMING lines"
    return _finish(out, errors)


# ---- ucx_perftest ------------------------------------------------------------------------------------------------------

UCX_SIGN = re.compile(r"^\|\s+\|\s+\|\s+(latency|overhead) \(usec\)\s+\|\s+bandwidth \(MB/s\)|^iterations,[\d.]+_percentile_lat,avg_lat,overall_lat,avg_bw,")
UCX_ROW = re.compile(r"^\s*(?:Final:|\[thread \d+\])?\s*(\d+)%s\s*$" % (r"[\s,]+(%s)" % NUMBER * 7))
UCX_HEAD = re.compile(r"^\|\s*(Test|Message size):\s+(.*?)\s*\|$")
UCX_ERROR = re.compile(r"^\[[\d.]+\]\s+\[\S+\]\s+\S+:\d+\s+UCX\s+(?:ERROR|FATAL)\s+(.*)$")
UCX_KEYS = ("iterations", "p50_us", "average_us", "overall_us", "average_mib", "overall_mib", "average_rate", "overall_rate")
MIB = 1048576.0


def parse_ucx(text):
    """The last row of ucx_perftest's client: microseconds of a latency test, Gb/s of any other. Its MB are of 2^20 bytes.

    With -v a table does not say which kind of test it is of: then it is the bandwidth, which both have.
    """
    found = clean.lines("ucx", text)
    signs, errors = _matches(UCX_SIGN, found), [match.group(1) for match in _matches(UCX_ERROR, found)]
    if not signs and not errors:
        _refuse("ucx", found)
    head = dict((match.group(1), match.group(2)) for match in _matches(UCX_HEAD, found))
    latency = any(match.group(1) == "latency" for match in signs)
    out = _result("ucx", "latency" if latency else "bandwidth", "us" if latency else "Gb/s", "lower" if latency else "higher")
    rows = [dict(zip(UCX_KEYS, [int(match.group(1))] + [float(match.group(place)) for place in range(2, 9)])) for match in _matches(UCX_ROW, found)]
    # A run that was cut has rows of its threads and no final one.
    last = [line for line in found if UCX_ROW.match(line)][-1:]
    if rows:
        row = out["figures"] = rows[-1]
        out["value"] = row["overall_us"] if latency else row["overall_mib"] * MIB * 8 / 1e9
        out["success"] = not last[0].lstrip().startswith("[")
        # On a quiet path the median lies close to the mean of the whole run: another load shows here first.
        if latency and row["p50_us"] and row["overall_us"] > 3 * row["p50_us"]:
            out["warnings"].append("the mean, %g us, is far above the median, %g us: the processes or the path were held up" % (
                row["overall_us"], row["p50_us"]))
    if head:
        out["figures"].update((clean.snake(key), value) for key, value in head.items() if key == "Test")
    return _finish(out, errors)


# ---- any other program -------------------------------------------------------------------------------------------------

PARSERS = {"openfoam": parse_openfoam, "wrf": parse_wrf, "lammps": parse_lammps, "gromacs": parse_gromacs, "namd": parse_namd, "ucx": parse_ucx}
PICKS = ("last", "first", "mean", "median", "min", "max", "sum")
DIRECTIONS = ("lower", "higher")


def _pattern(name, what, text):
    try:
        return re.compile(text)
    except (re.error, TypeError) as err:
        raise RdmaError("use the definition of the application %s" % name, why="%s is no regular expression: %s" % (what, err),
                        hint="write it between single quotes in YAML", code="APPLICATION")


def check(name, definition):
    """Refuse a definition that cannot be used, with all that is wrong with it."""
    wrong = []
    known = ("title", "dataset", "version", "source", "command", "log", "parser", "figure_of_merit", "success", "error", "series", "discard", "env", "notes",
             "prepare", "workdir", "domain")
    for key in sorted(set(definition) - set(known)):
        wrong.append("unknown key %s" % key)
    figure = definition.get("figure_of_merit") or {}
    if definition.get("parser"):
        if definition["parser"] not in PARSERS:
            wrong.append("parser %s is none of %s" % (definition["parser"], ", ".join(sorted(PARSERS))))
    else:
        for key in ("regex", "unit", "direction"):
            if not figure.get(key):
                wrong.append("figure_of_merit.%s is missing" % key)
        if figure.get("regex") and _pattern(name, "figure_of_merit.regex", figure["regex"]).groups < 1:
            wrong.append("figure_of_merit.regex has no group that holds the number")
        if not definition.get("success"):
            wrong.append("success is missing: without it a broken run cannot be told from a good one")
    if figure.get("direction") and figure["direction"] not in DIRECTIONS:
        wrong.append("figure_of_merit.direction is neither lower nor higher")
    if figure.get("pick") and figure["pick"] not in PICKS:
        wrong.append("figure_of_merit.pick is none of %s" % ", ".join(PICKS))
    for key in ("success", "error", "series"):
        if definition.get(key):
            _pattern(name, key, definition[key])
    if wrong:
        raise RdmaError("use the definition of the application %s" % name, why="; ".join(wrong), hint="see the README of the role benchmark",
                        code="APPLICATION")


def parse(name, definition, text):
    """The log of one run by its definition: a parser of this file by name, or patterns given by the user."""
    check(name, definition)
    if definition.get("parser"):
        return dict(PARSERS[definition["parser"]](text), app=name)
    figure, found = definition["figure_of_merit"], clean.lines(name, text)
    out = _result(name, figure.get("name") or "figure of merit", figure["unit"], figure["direction"])
    cells = [clean.real(match.group(1)) for match in _matches(_pattern(name, "figure_of_merit.regex", figure["regex"]), found)]
    values = [value for value in cells if value is not None]
    drop = int(definition.get("discard") or 0)
    if drop and len(values) > drop:
        out["discarded"].append(dict(what="the first %d values: %s" % (drop, ", ".join("%g" % value for value in values[:drop])), why="the definition says so"))
        values = values[drop:]
    if values:
        out["value"] = {"last": lambda v: v[-1], "first": lambda v: v[0], "mean": stats.mean, "median": stats.median, "min": min, "max": max,
                        "sum": sum}[figure.get("pick") or "last"](values)
    if definition.get("series"):
        rows = [clean.real(match.group(1)) for match in _matches(_pattern(name, "series", definition["series"]), found)]
        out["series"] = [value for value in rows if value is not None][drop:]
    out["success"] = bool(_matches(_pattern(name, "success", definition["success"]), found))
    errors = [match.group(0).strip() for match in _matches(_pattern(name, "error", definition["error"]), found)] if definition.get("error") else []
    return _finish(out, errors)
