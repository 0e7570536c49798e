# Copyright: (c) 2026, the vhpc.rdma authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only way of guest modules to files and programs: the system below one root directory.

With root "/" that is the machine itself. With another root (an image tree, a guest of the rehearsal lab) nothing outside
of it is read, run or written: absolute symbolic links are taken relative to the root, and programs are never looked up elsewhere.
"""

import errno
import fnmatch
import os
import shutil
import signal
import stat
import subprocess
import tempfile

from ansible_collections.vhpc.rdma.plugins.module_utils.errors import RdmaError

PROGRAM_DIRS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
MAX_LINKS = 40


class System:
    """Files and programs below root. Names are absolute paths as the system itself sees them."""

    def __init__(self, root="/"):
        root = root or "/"
        if not os.path.isabs(root):
            raise RdmaError("use %r as the root of a system" % root, why="it is not an absolute path", hint="give root as a path that starts with /",
                            code="ROOT")
        self.root = os.path.realpath(root)
        if not os.path.isdir(self.root):
            raise RdmaError("use %r as the root of a system" % root, why="there is no such directory", code="ROOT")

    @property
    def is_machine(self):
        """True when this is the machine that runs us and not a tree on it."""
        return self.root == "/"

    # ---- names ----------------------------------------------------------------------------------------------------

    def path(self, name, follow=True):
        """Where the file lies for us: every symbolic link on the way is resolved inside the root.

        follow: whether a link in the last place is followed too.
        """
        if self.is_machine and follow:
            return os.path.realpath(name)
        todo, done, links = [part for part in name.split("/") if part and part != "."][::-1], [], 0
        while todo:
            part = todo.pop()
            if part == "..":
                if done:
                    done.pop()
                continue
            here = os.path.join(self.root, *(done + [part]))
            if (todo or follow) and os.path.islink(here):
                links += 1
                if links > MAX_LINKS:
                    raise RdmaError("find %s" % name, self.name(), "too many symbolic links", code="LINKS")
                target = os.readlink(here)
                if target.startswith("/"):
                    done = []
                todo.extend([bit for bit in target.split("/") if bit and bit != "."][::-1])
                continue
            done.append(part)
        return os.path.join(self.root, *done)

    def inside(self, path):
        """The name that the system itself has for a path of ours: the opposite of path()."""
        if self.is_machine:
            return path
        return "/" + os.path.relpath(path, self.root) if path != self.root else "/"

    def name(self):
        """What errors call this system: its host name."""
        if self.is_machine:
            return os.uname()[1]
        try:
            with open(self.path("/etc/hostname")) as handle:
                return handle.read().strip() or self.root
        except (IOError, OSError):
            return self.root

    # ---- reading --------------------------------------------------------------------------------------------------

    def exists(self, name):
        return os.path.exists(self.path(name))

    def is_dir(self, name):
        return os.path.isdir(self.path(name))

    def listdir(self, name):
        """Sorted names of a directory; empty when it is not there."""
        try:
            return sorted(os.listdir(self.path(name)))
        except (IOError, OSError) as err:
            if err.errno in (errno.ENOENT, errno.ENOTDIR):
                return []
            raise self._error("list", name, err)

    def glob(self, pattern):
        """Absolute names that match, sorted; wildcards do not cross a slash."""
        names = ["/"]
        for part in [bit for bit in pattern.split("/") if bit]:
            if any(char in part for char in "*?["):
                names = [os.path.join(name, entry) for name in names for entry in self.listdir(name)
                         if fnmatch.fnmatchcase(entry, part) and (part.startswith(".") or not entry.startswith("."))]
            else:
                names = [os.path.join(name, part) for name in names if os.path.lexists(self.path(os.path.join(name, part), follow=False))]
        return sorted(names)

    def read(self, name, missing=None):
        """The text of a file. missing: what to return when it is not there (or a driver refuses to tell); without it that is an error."""
        try:
            with open(self.path(name), "rb") as handle:
                return handle.read().decode("utf-8", "replace")
        except (IOError, OSError) as err:
            if missing is not None and err.errno in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.EIO, errno.EOPNOTSUPP, errno.ENODEV):
                return missing
            raise self._error("read", name, err)

    def line(self, name, missing=""):
        """The first line of a small file such as those of sysfs, stripped."""
        return (self.read(name, missing).splitlines() or [""])[0].strip()

    def link(self, name):
        """Where a symbolic link points to, as it is written; empty when it is no link."""
        path = self.path(name, follow=False)
        return os.readlink(path) if os.path.islink(path) else ""

    # ---- writing --------------------------------------------------------------------------------------------------

    def write(self, name, text, mode=None):
        """Replace a file as a whole; what it had as mode and owner stays, mode sets it for a new file or another one."""
        path = self.path(name)
        try:
            self._makedirs(os.path.dirname(path))
            old = os.stat(path) if os.path.exists(path) else None
            handle, temporary = tempfile.mkstemp(prefix=".%s." % os.path.basename(path), dir=os.path.dirname(path))
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(text if isinstance(text, bytes) else text.encode("utf-8"))
                    out.flush()
                    os.fsync(out.fileno())
                if mode is None:
                    mode = stat.S_IMODE(old.st_mode) if old else 0o644
                os.chmod(temporary, mode)
                if old and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()) and os.geteuid() == 0:
                    os.chown(temporary, old.st_uid, old.st_gid)
                os.rename(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except (IOError, OSError) as err:
            raise self._error("write", name, err)

    def poke(self, name, text):
        """Write a value into a file of the kernel (sysfs, configfs), which cannot be replaced."""
        try:
            with open(self.path(name), "wb", 0) as out:
                out.write((text + "\n").encode("utf-8"))
        except (IOError, OSError) as err:
            raise self._error("write %s to" % text, name, err)

    def mode(self, name):
        """Permission bits of a file, None when it is not there."""
        path = self.path(name)
        return stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else None

    def remove(self, name):
        """Remove a file (a link itself, not what it points to); fine when it is not there."""
        try:
            os.unlink(self.path(name, follow=False))
        except (IOError, OSError) as err:
            if err.errno != errno.ENOENT:
                raise self._error("remove", name, err)

    def remove_dir(self, name):
        """Remove an empty directory; fine when it is not there, or not empty."""
        try:
            os.rmdir(self.path(name, follow=False))
        except (IOError, OSError) as err:
            if err.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EBUSY):
                raise self._error("remove", name, err)

    def remove_tree(self, name):
        """Remove a directory and everything below it; links are removed, not followed; fine when it is not there."""
        path = self.path(name, follow=False)
        if os.path.isdir(path) and not os.path.islink(path) and path != self.root:
            shutil.rmtree(path, ignore_errors=True)

    def makedirs(self, name, mode=0o755):
        """Make a directory and its parents. Returns False when it was already there."""
        path = self.path(name)
        if os.path.isdir(path):
            return False
        try:
            self._makedirs(os.path.dirname(path))
            os.mkdir(path, mode)
            return True
        except (IOError, OSError) as err:
            if err.errno == errno.EEXIST:
                return False
            raise self._error("make the directory", name, err)

    @staticmethod
    def _makedirs(path):
        if not os.path.isdir(path):
            try:
                os.makedirs(path, 0o755)
            except (IOError, OSError) as err:
                if err.errno != errno.EEXIST:
                    raise

    def _error(self, verb, name, err):
        hint = {errno.EACCES: "use become: true", errno.EPERM: "use become: true", errno.ENOSPC: "make room on the file system"}.get(err.errno, "")
        return RdmaError("%s %s" % (verb, name), self.name(), err.strerror or str(err), hint, code="FILE")

    # ---- programs -------------------------------------------------------------------------------------------------

    def find(self, program):
        """The path of a program for us; empty when the system does not have it."""
        if "/" in program:
            path = self.path(program)
            return path if os.path.isfile(path) and os.access(path, os.X_OK) else ""
        for folder in PROGRAM_DIRS:
            path = self.find("%s/%s" % (folder, program))
            if path:
                # The name it was called by: programs such as busybox look at it.
                parent = self.path(folder)
                return os.path.join(parent, program) if self.is_machine else path
        return ""

    def environment(self, env=None):
        """The environment of every run: English messages, the root's programs first."""
        out = dict((key, value) for key, value in os.environ.items() if key not in ("LANGUAGE", "LANG") and not key.startswith("LC_"))
        ours = [self.root.rstrip("/") + folder for folder in PROGRAM_DIRS]
        out["PATH"] = os.pathsep.join(ours + [p for p in out.get("PATH", "").split(os.pathsep) if p and p not in ours])
        out["LC_ALL"] = "C"
        out.update(env or {})
        return out

    def start(self, argv, stdout, stderr, env=None, cwd=None):
        """Start a program in a process group of its own; stdout, stderr: open files. Returns the Popen object."""
        program = self.find(argv[0])
        if not program:
            raise RdmaError("run %s" % os.path.basename(argv[0]), self.name(), "the program is not installed",
                            "install it, or check its name and where it lies", code="PROGRAM_MISSING")
        with open(os.devnull, "rb") as nothing:
            try:
                return subprocess.Popen([program] + [str(arg) for arg in argv[1:]], stdin=nothing, stdout=stdout, stderr=stderr, close_fds=True,
                                        env=self.environment(env), cwd=self.path(cwd or "/"), start_new_session=True)
            except (IOError, OSError) as err:
                raise RdmaError("run %s" % argv[0], self.name(), err.strerror or str(err), code="PROGRAM_FAILED")

    def scratch(self):
        """An open file without a name, inside the root."""
        folder = None if self.is_machine else next((self.path(name) for name in ("/tmp", "/var/tmp", "/") if os.access(self.path(name), os.W_OK)), None)
        return tempfile.TemporaryFile(dir=folder)

    def run(self, argv, timeout=60, env=None, cwd=None):
        """Run a program to its end: (return code, stdout, stderr). Raises when it is not there or takes longer than timeout seconds."""
        with self.scratch() as out, self.scratch() as err:
            # Files and not pipes: a daemon that the program leaves behind must not keep us waiting for its end of a pipe.
            process = self.start(argv, out, err, env, cwd)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                stop(process)
                raise RdmaError("run %s" % " ".join(str(arg) for arg in argv), self.name(), "it did not end within %g seconds" % timeout,
                                "raise the timeout if the system is slow, or see what it waits for", code="TIMEOUT",
                                data=dict(stdout=_text(out)[-4000:], stderr=_text(err)[-4000:]))
            return process.returncode, _text(out), _text(err)


def _text(handle):
    handle.seek(0)
    return handle.read().decode("utf-8", "replace")


def stop(process, grace=1.0):
    """End a started program and everything it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except (IOError, OSError) as err:
            if err.errno not in (errno.ESRCH, errno.EPERM):
                raise
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGTERM:
            grace = 0.2
