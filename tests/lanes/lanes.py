# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each test lane does. A lane writes only below build/."""

from __future__ import annotations

import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = TOP / "build"
VENV = TOP / ".venv"
COLLECTION = pathlib.Path("ansible_collections", "vhpc", "rdma")
PYTHON = "%d.%d" % sys.version_info[:2]
# The Pythons that run a line of ansible-core on the controller, the best known first.
PYTHONS = {"2.16": ("3.11", "3.10", "3.12"), "2.19": ("3.11", "3.12", "3.13"), "2.21": ("3.12", "3.13", "3.14")}

# ansible-test fetches pip's bootstrap script from a server of its own before it makes a virtual environment.
# A stand-in in its cache does the same with the ensurepip that every Python has, from whatever index pip is set to.
GET_PIP = '''\
import os, subprocess, sys
args = [a for a in sys.argv[1:] if a not in ("--no-setuptools", "--no-wheel")]
env = dict((k, v) for k, v in os.environ.items() if k != "GET_PIP")
subprocess.check_call([sys.executable, "-m", "ensurepip"], env=env, stdout=subprocess.DEVNULL)
subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet"] + args, env=env)
'''


class LaneFailed(Exception):
    """A command of the lane failed."""


class NothingToTest(Exception):
    """What the lane tests, or the Python it needs, is not on this machine."""


RUNNING: set[subprocess.Popen] = set()
MAKING = threading.Lock()


def stop(process: subprocess.Popen) -> None:
    """End a command and everything it started: a lab or a forked playbook must not outlive its lane."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


class Run:
    """One run of one lane: its log, its environment, its copy of the tree."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.note = ""
        self.log = BUILD / "test" / (name + ".log")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_text("")

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def say(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(text + "\n")

    def __call__(self, *command: str | os.PathLike, cwd: os.PathLike = TOP, timeout: float = 2400, ok: tuple[int, ...] = (0,), **env: str) -> int:
        """Runs one command with its output in the lane's log."""
        words = [os.fspath(word) for word in command]
        self.say("$ " + " ".join(words))
        with self.log.open("a") as log:
            process = subprocess.Popen(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                       env=dict(os.environ, HOME=str(BUILD / "home"), NO_COLOR="1", ANSIBLE_NOCOLOR="1", **env))
            RUNNING.add(process)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                stop(process)
                raise LaneFailed("%s did not end within %d s" % (" ".join(words[:3]), timeout)) from None
            finally:
                RUNNING.discard(process)
        if code not in ok:
            raise LaneFailed("%s ended with %d" % (" ".join(os.path.basename(word) for word in words[:4]), code))
        return code

    def tree(self) -> pathlib.Path:
        """A copy of what git knows or would add, at a place that ends as Ansible's tools want it; a link is not enough for them."""
        base = BUILD / "tree" / self.name / "collections"  # pytest-ansible knows a collection in place by just this name
        tree = base / COLLECTION
        if base.exists():
            shutil.rmtree(base)
        names = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"], cwd=TOP, check=True,
                               stdout=subprocess.PIPE).stdout
        for name in filter(None, names.decode().split("\0")):
            source, target = TOP / name, tree / name
            if source.exists() or source.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        # ansible-test asks git for the files: without a repository of its own the copy would be the checkout's ignored build/.
        subprocess.run(["git", "init", "-q", "."], cwd=tree, check=True, stderr=subprocess.DEVNULL)
        return tree


def prepare() -> None:
    """The home that the commands of the lanes get: nothing of theirs may land in the user's own."""
    home = BUILD / "home"
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    settings = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=False, stdout=subprocess.PIPE, text=True).stdout
    # ansible-test hides the environment from pip, so what the user set there or in his own pip.conf is written into this one.
    values = dict(re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", settings, re.M))
    values.pop("disable-pip-version-check", None)
    conf = home / ".config" / "pip" / "pip.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text("[global]\ndisable-pip-version-check = 1\nquiet = 2\n" + "".join("%s = %s\n" % item for item in sorted(values.items())))


def get_pip(venv: pathlib.Path) -> None:
    """Put the stand-in under the names that this venv's ansible-test asks for."""
    source = next(venv.glob("lib/python3.*/site-packages/ansible_test/_internal/python_requirements.py")).read_text()
    for version in set(re.findall(r"pip='([\d.]+)'", source)):
        (BUILD / "home" / ".ansible" / "test" / "cache" / ("get_pip_%s.py" % version.replace(".", "_"))).write_text(GET_PIP)


def find_python(version: str) -> str:
    """A real interpreter of that version, in PATH or among pyenv's; '' if there is none. Shims of version managers do not count."""
    candidates = [os.path.join(d, "python" + version) for d in os.environ.get("PATH", "").split(os.pathsep)]
    roots = [os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")]
    for root in filter(None, roots):
        candidates += sorted(glob.glob(os.path.join(root, "versions", version + ".*", "bin", "python" + version)), reverse=True)
    if version == "3.6":
        candidates.append("/usr/libexec/platform-python")
    for path in candidates:
        if not os.access(path, os.X_OK):
            continue
        try:
            said = subprocess.run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=20, check=False).stdout.decode().strip()
        except (OSError, subprocess.TimeoutExpired):
            continue
        if said == version:
            return path
    return ""


def core_venv(run: Run, line: str, python: str) -> pathlib.Path:
    """The virtual environment of another ansible-core, made once for its list of requirements."""
    wanted = TOP / "tests" / "lanes" / ("requirements-%s.txt" % line)
    venv = BUILD / ("venv-" + line)
    stamp = venv / ".ready"
    with MAKING:  # two lanes may want the same one at the same time
        if not stamp.exists() or stamp.read_text() != wanted.read_text():
            shutil.rmtree(venv, ignore_errors=True)
            run(python, "-m", "venv", venv)
            run(venv / "bin" / "python", "-m", "pip", "install", "-qq", "-r", wanted)
            stamp.write_text(wanted.read_text())
        get_pip(venv)
    return venv


def ansible_test(run: Run, venv: pathlib.Path, tree: pathlib.Path, *words: str, python: str = "") -> None:
    """ansible-test of that venv; python: another interpreter that it shall find first."""
    path = [str(venv / "bin")]
    if python:
        bindir = BUILD / "test" / "pythons"
        bindir.mkdir(parents=True, exist_ok=True)
        link = bindir / os.path.basename(python).replace("platform-python", "python3.6")
        if not link.is_symlink():
            link.symlink_to(python)
        path.append(str(bindir))
    run(venv / "bin" / "ansible-test", *words, "--local", "--color", "no", cwd=tree, PATH=os.pathsep.join(path + [os.environ["PATH"]]),
        ANSIBLE_COLLECTIONS_PATH="", PYTHONPATH="")
    if "All targets skipped" in run.log_text():
        raise LaneFailed("ansible-test found nothing to test")


def has(pattern: str) -> bool:
    return any(TOP.glob(pattern))


# The lanes, in the order in which they start: the longest first.

def sanity(run: Run) -> None:
    get_pip(VENV)
    ansible_test(run, VENV, run.tree(), "sanity", "--python", PYTHON)


def molecule(run: Run) -> None:
    """Every scenario but those on real guests, which have a lane of their own."""
    if not has("extensions/molecule/*/molecule.yml"):
        raise NothingToTest("no scenario")
    real = [word for path in TOP.glob("extensions/molecule/*-real") for word in ("--exclude", path.name)]
    scenarios(run, "--all", *real)


def molecule_guests(run: Run) -> None:
    """A scenario per role of the guests, each on two real guests of its own."""
    real = [word for path in sorted(TOP.glob("extensions/molecule/*-real")) for word in ("--scenario-name", path.name)]
    scenarios(run, *real, VHPC_GUESTS_BUILD=str(BUILD / "guests"))


def scenarios(run: Run, *words: str, **env: str) -> None:
    tree = run.tree()
    # ssh's control sockets need a short path: 107 bytes is the most a socket's path can have.
    with tempfile.TemporaryDirectory(prefix="vhpc-") as sockets:
        run(VENV / "bin" / "molecule", "test", *words, cwd=tree, timeout=1800, ANSIBLE_COLLECTIONS_PATH=os.fspath(tree.parents[2]),
            MOLECULE_EPHEMERAL_DIRECTORY=str(BUILD / run.name), ANSIBLE_SSH_CONTROL_PATH_DIR=sockets, **env)


def integration(run: Run) -> None:
    if not has("tests/integration/**/test_*.py"):
        raise NothingToTest("no test below tests/integration")
    venv = core_venv(run, "2.19", other_python(PYTHONS["2.19"]))  # without pytest-ansible, which would link the checkout into itself
    folders = sorted(str(path.relative_to(TOP)) for path in TOP.glob("tests/integration/*") if path.name != "witnesses" and any(path.glob("test_*.py")))
    pytest(run, venv, *folders, "-n", "2", "--dist", "loadfile", "--durations=10", **by_path())


def faces(run: Run) -> None:
    """The lab itself: every face over its real protocol. Not among the unit tests, which run side by side: these hold addresses and ports."""
    venv = core_venv(run, "2.19", other_python(PYTHONS["2.19"]))
    pytest(run, venv, "tests/faces", "--durations=5", **by_path())


def witnesses(run: Run) -> None:
    """Clients that nobody here wrote, unmodified, against the lab; each skips itself with the reason where it cannot be had."""
    venv = core_venv(run, "2.19", other_python(PYTHONS["2.19"]))
    pytest(run, venv, "tests/integration/witnesses", "--durations=5", **by_path())


def vcsim(run: Run) -> None:
    """The generic vSphere client against govmomi's simulator, where Go and Debian's package of the library are."""
    sys.path.insert(0, str(TOP / "tests" / "vcsim"))
    from lacking import lacking  # pylint: disable=import-outside-toplevel
    why = lacking()
    if why:
        raise NothingToTest("skipped: " + why)
    pytest(run, core_venv(run, "2.19", other_python(PYTHONS["2.19"])), "tests/vcsim", **by_path())


def vsphere_8(run: Run) -> None:
    """The vSphere modules with the pyVmomi before the newest, against every version of the API that the collection works with."""
    venv = core_venv(run, "vsphere-8", other_python(PYTHONS["2.19"]))
    for version in ("7.0.0.0", "7.0.3.0", "8.0.3.0", "9.1.0.0"):
        pytest(run, venv, *("tests/integration/lab/test_vsphere_%s.py" % name for name in ("modules", "refusals")), VHPC_API_VERSION=version, **by_path())
    pytest(run, venv, "tests/faces", "-k", "vsphere", **by_path())
    run.note = "pyvmomi 8.0.3.0.1; API 7.0.0, 7.0.3, 8.0.3, 9.1"


def guest_216(run: Run) -> None:
    """Guest modules over ansible-core 2.16, on Python 3.6 guests where one is found: what RHEL 8 has."""
    if not has("tests/integration/**/test_*guest*.py"):
        raise NothingToTest("no test_*guest*.py below tests/integration")
    venv = core_venv(run, "2.16", other_python(PYTHONS["2.16"]))
    old = find_python("3.6")
    run.note = "guest Python: %s" % (old or "no 3.6 found, " + sys.executable)
    files = sorted(str(path.relative_to(TOP)) for path in TOP.glob("tests/integration/**/test_*guest*.py"))
    pytest(run, venv, *files, VHPC_GUEST_PYTHON=old, **by_path())


def by_path() -> dict[str, str]:
    """How Python finds the collection where neither ansible-test nor pytest-ansible shows it."""
    return dict(PYTHONPATH=os.pathsep.join([str(BUILD / "collections"), str(TOP / "tests")]))


def units(run: Run) -> None:
    """ansible-test units on the ansible-core that the lane is named after."""
    line = run.name.partition("-")[2]
    python = other_python(PYTHONS[line])
    venv = core_venv(run, line, python)
    run.note = "Python " + version_of(python)
    ansible_test(run, venv, run.tree(), "units", "--python", version_of(python))


def py36(run: Run) -> None:
    """Everything that runs on a guest compiles and imports on Python 3.6, the platform-python of RHEL 8."""
    old = find_python("3.6")
    if not old:
        raise NothingToTest("no Python 3.6 found on this machine")
    venv = core_venv(run, "2.16", other_python(PYTHONS["2.16"]))
    ansible_test(run, venv, run.tree(), "sanity", "--python", "3.6", "--test", "compile", "--test", "import", python=old)


def pytest_in_place(run: Run) -> None:
    """In the checkout as it lies there: pytest-ansible links it into collections/ to give it its name."""
    shutil.rmtree(TOP / "collections", ignore_errors=True)  # links of an earlier run do not know what was added since
    try:
        pytest(run, VENV, "tests/unit")
    finally:
        shutil.rmtree(TOP / "collections", ignore_errors=True)


def docs(run: Run) -> None:
    site = BUILD / "docs"
    tree = run.tree()
    env = dict(ANSIBLE_COLLECTIONS_PATH=os.fspath(tree.parents[2]))
    run(VENV / "bin" / "antsibull-changelog", "lint", cwd=tree)
    run(VENV / "bin" / "antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", ".", cwd=tree, **env)
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir(parents=True)
    run(VENV / "bin" / "antsibull-docs", "sphinx-init", "--use-current", "--lenient", "--sphinx-theme", "alabaster", "--dest-dir", site, "vhpc.rdma", **env)
    run(site / "build.sh", cwd=site, PATH=os.pathsep.join([str(VENV / "bin"), os.environ["PATH"]]), **env)
    run.note = "build/docs/build/html/index.html"


def package(run: Run) -> None:
    """What a user does: build, install without a network, and walk the plays from another directory."""
    place = BUILD / "package"
    shutil.rmtree(place, ignore_errors=True)
    (place / "elsewhere").mkdir(parents=True)
    galaxy = VENV / "bin" / "ansible-galaxy"
    run(galaxy, "collection", "build", "--output-path", place, cwd=run.tree())
    tarball = next(place.glob("vhpc-rdma-*.tar.gz"))
    installed = place / "collections"
    run(galaxy, "collection", "install", "--offline", tarball, "-p", installed, cwd=place, ANSIBLE_COLLECTIONS_PATH=str(installed))
    env = dict(ANSIBLE_COLLECTIONS_PATH=str(installed), PYTHONPATH="")
    run(VENV / "bin" / "ansible-doc", "-t", "module", "-l", "vhpc.rdma", cwd=place / "elsewhere", **env)
    plays = sorted(path.stem for path in TOP.glob("playbooks/*.yml"))
    if not plays:
        run.note = "no playbooks yet"
    for play in plays:
        run(VENV / "bin" / "ansible-playbook", "-i", "localhost,", "vhpc.rdma." + play, "--list-tasks", cwd=place / "elsewhere", **env)
    if "site" in plays:
        (place / "elsewhere" / "site.yml").write_text("---\n- name: The whole road\n  ansible.builtin.import_playbook: vhpc.rdma.site\n")
        run(VENV / "bin" / "ansible-playbook", "-i", "localhost,", "site.yml", "--list-tags", cwd=place / "elsewhere", **env)


def lint(run: Run) -> None:
    tree = run.tree()
    yaml = run(VENV / "bin" / "yamllint", "--strict", ".", cwd=tree, ok=(0, 1, 2))
    run(VENV / "bin" / "ansible-lint", "--offline", "--profile", "production", "--strict", cwd=tree, ANSIBLE_COLLECTIONS_PATH=os.fspath(tree.parents[2]))
    if yaml:
        raise LaneFailed("yamllint ended with %d" % yaml)


def other_python(versions: tuple[str, ...]) -> str:
    for version in versions:
        if version == PYTHON:
            return sys._base_executable  # pylint: disable=protected-access
        found = find_python(version)
        if found:
            return found
    raise NothingToTest("none of Python %s found on this machine" % ", ".join(versions))


def version_of(python: str) -> str:
    return subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def pytest(run: Run, venv: pathlib.Path, *words: str, **env: str) -> None:
    """pytest in place, in the checkout; the tests find ansible-playbook and its friends of the same venv first in PATH."""
    run(venv / "bin" / "python", "-m", "pytest", "-q", "-ra", "-o", "cache_dir=%s" % (BUILD / "cache" / ("pytest-" + run.name)),
        "--basetemp", BUILD / "test" / ("tmp-" + run.name), *words,
        PATH=os.pathsep.join([str(venv / "bin"), os.environ["PATH"]]), **env)


# Each lab finds a loopback network of its own, so lanes that start labs can run side by side.
LANES = {
    "integration": integration,
    "vsphere-8": vsphere_8,
    "sanity": sanity,
    "molecule": molecule,
    "faces": faces,
    "witnesses": witnesses,
    "units-2.16": units,
    "guest-2.16": guest_216,
    "units-2.19": units,
    "units-2.21": units,
    "py36": py36,
    "pytest": pytest_in_place,
    "docs": docs,
    "lint": lint,
    "package": package,
}
# Not among the lanes that run when none is named.
OPTIONAL = {
    "vcsim": vcsim,
    "molecule-guests": molecule_guests,
}
