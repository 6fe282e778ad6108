#!/usr/bin/env python3
# -*- coding: ascii -*-
"""Set up the course and open it, or set up its tests and run them.

    python3 course.py          open the course in JupyterLab
    python3 course.py test     run all tests

Only the standard library is used. The file also parses on very old Pythons, so that it can say what to
do instead of failing with a syntax error: no f-strings, no annotations, no keyword-only arguments.
"""

from __future__ import print_function

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

try:
    from urllib.parse import quote
except ImportError:
    from urllib import quote

ROOT = os.path.dirname(os.path.abspath(__file__))
START = os.path.join("notebooks", "00_start_here.ipynb")
OLDEST, NEWEST = (3, 10), (3, 14)
WINDOWS = os.name == "nt"
ME = "py course.py" if WINDOWS else "python3 course.py"

STAMP = "course-stamp.json"  # written last: with it, the environment is complete
UNFINISHED = "course-unfinished"  # written first: with it, an installation was cut short
LOG = "course-install.log"

HELP = """\
usage: {me} [--setup-only] [options of JupyterLab]
       {me} test [--fast] [--setup-only] [options of pytest]

Without "test": makes the environment .venv beside this file, installs the course
into it, and opens JupyterLab on notebooks/00_start_here.ipynb.

With "test": makes .venv-test, installs the test tools as well, and runs every
test and every notebook. Paths of tests are written from the course's folder.

  --fast         leave out the slow tests, the browser and the notebooks
  --setup-only   install, but start nothing
  --help         this text

Examples:
  {me} --no-browser --port 9000
  {me} notebooks/01_shapes.ipynb
  {me} test --fast
  {me} test tests/test_dims.py -q

A second run starts at once. To begin again from nothing, delete .venv and
.venv-test: nothing of yours is in them."""


# JupyterLab reads this from the environment. Without it, each kernel warns that it could be overheard.
SERVER_CONFIG = """\
# Written by course.py: what JupyterLab and its kernels say to each other stays on this machine, and is encrypted.
import zmq

if zmq.has("curve"):
    c.KernelManager.transport_encryption = "auto"
"""


class Environment(object):
    """One of the two virtual environments: its folder, what goes into it, and what that takes."""

    def __init__(self, folder, target, modules, megabytes, minutes):
        self.name = folder
        self.path = os.path.join(ROOT, folder)
        self.target = target
        self.modules = modules
        self.megabytes = megabytes
        self.minutes = minutes

    def file(self, name):
        return os.path.join(self.path, name)

    @property
    def python(self):
        return python_in(self.path)


LEARN = ["ipykernel", "ipywidgets", "jupyterlab", "matplotlib", "mha_lib", "numpy"]
COURSE = Environment(".venv", ".", LEARN, 450, "one or two minutes")
TESTS = Environment(".venv-test", ".[test]", LEARN + ["nbval", "pytest"], 800, "about two minutes")


class Trouble(Exception):
    """Something the reader can mend; the text says how."""


# Saying things


def say(text=""):
    """Print at once, on any terminal: what its encoding lacks becomes a question mark."""
    if sys.version_info[0] >= 3:
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        text = text.encode(encoding, "replace").decode(encoding)
    print(text)
    sys.stdout.flush()


class Progress(object):
    """One line on a terminal, rewritten as things move on; a line every ten seconds anywhere else."""

    def __init__(self, title, stream=None, every=10):
        self.title = title
        self.stream = stream or sys.stdout
        self.live = hasattr(self.stream, "isatty") and self.stream.isatty()
        self.every = every
        self.began = self.said = time.time()
        self.width = 0
        if not self.live:
            say("  " + title + " ...")

    def seconds(self):
        return time.time() - self.began

    def show(self, doing):
        now = time.time()
        if self.live:
            room = max(40, shutil.get_terminal_size().columns) - 1
            line = "  {0} ({1:.0f} s) {2}".format(self.title, self.seconds(), doing)[:room]
            self.stream.write("\r" + line.ljust(self.width))
            self.stream.flush()
            self.width = len(line)
        elif now - self.said >= self.every:
            self.said = now
            say("    {0:3.0f} s: {1}".format(self.seconds(), doing or "still at it"))

    def done(self, how="done"):
        if self.live:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            say("  {0}: {1} in {2:.0f} s".format(self.title, how, self.seconds()))
        else:
            say("    {0} in {1:.0f} s".format(how, self.seconds()))


def describe(line, before):
    """What pip is doing, in few words, from one line of its output."""
    words = line.split()
    if not words:
        return before
    if words[0] == "Collecting":
        return "looking for " + name_of(words[1])
    if words[0] == "Downloading" and len(words) > 1:
        size = line[line.rfind("(") :].strip() if "(" in line else ""
        return "downloading {0} {1}".format(name_of(words[1].split("/")[-1].split("-")[0]), size).strip()
    if words[0] == "Using" and "cached" in words[:2] and len(words) > 2:
        return "taking {0} from the last download".format(name_of(words[2].split("-")[0]))
    if line.startswith("Installing collected packages"):
        return "unpacking {0} packages, the longest part".format(line.count(",") + 1)
    if "Retrying (" in line:
        return "no answer from the package index yet, trying again"
    if "build dependencies" in line or "metadata" in line or words[0] == "Building":
        return "preparing the course's own library"
    return before


def name_of(requirement):
    """The package's name out of ``numpy<3,>=1.26`` or ``jupyterlab[x]>=4``."""
    for sign in "[<>=!~;(":
        requirement = requirement.split(sign)[0]
    return requirement.strip()


# Which Python


def check_python(version, arguments):
    """Raise Trouble in plain words unless the course runs on this version of Python."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return
    wanted = "{0}.{1} to {2}.{3}".format(*(OLDEST + NEWEST))
    this = ".".join(str(number) for number in version[:3])
    old_or_new = "too old" if tuple(version[:2]) < OLDEST else "too new"
    lines = ["This course needs Python {0}. This is Python {1}, which is {2}:".format(wanted, this, old_or_new)]
    lines += ["  {0}".format(sys.executable), ""]
    found = other_python()
    if found:
        lines += ["A Python that fits is on this machine. Use it:", "  " + " ".join([found, "course.py"] + arguments)]
    else:
        lines += [
            "Install one that fits beside it, then run the same command with that one:",
            "  Windows        winget install Python.Python.3.13    then: py -3.13 course.py",
            "  macOS          brew install python@3.13             then: python3.13 course.py",
            "  Debian/Ubuntu  sudo apt install python3 python3-venv",
            "  any system     the installer from https://www.python.org/downloads/",
        ]
    raise Trouble("\n".join(lines))


def other_python():
    """The command of a Python on this machine that fits, or None."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        version = "3.{0}".format(minor)
        command = ["py", "-" + version] if WINDOWS else ["python" + version]
        try:
            asked = subprocess.Popen(
                command + ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            answer = asked.communicate()[0]
        except (OSError, ValueError):
            continue
        if asked.returncode == 0 and answer.decode("ascii", "replace").strip() == version:
            return " ".join(command)
    return None


def python_in(folder, windows=WINDOWS):
    """The interpreter inside a virtual environment."""
    return os.path.join(folder, "Scripts", "python.exe") if windows else os.path.join(folder, "bin", "python")


# The environment


def fingerprint(environment):
    """A hash over everything that decides what gets installed, and where."""
    digest = hashlib.sha256()
    for name in ("requirements.txt", "constraints.txt", "pyproject.toml"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read().replace(b"\r\n", b"\n"))
        digest.update(b"\0")
    digest.update((environment.target + "\0" + ROOT).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def read_stamp(environment):
    """What the last complete installation left: a dict, empty if there was none."""
    try:
        with open(environment.file(STAMP)) as file:
            stamp = json.load(file)
        return stamp if isinstance(stamp, dict) else {}
    except (OSError, ValueError):
        return {}


def examine(environment):
    """Ask the environment's own Python: (its version, the modules it lacks), or None if it does not run."""
    if not os.path.exists(environment.python):
        return None
    question = (
        "import json, sys\n"
        "from importlib.util import find_spec\n"
        "missing = [name for name in sys.argv[1:] if find_spec(name) is None]\n"
        "print(json.dumps([sys.version_info[:2], missing]))\n"
    )
    try:
        answer = subprocess.run(
            [environment.python, "-I", "-c", question] + environment.modules,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )
        version, missing = json.loads(answer.stdout.decode("utf-8", "replace"))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return tuple(version), missing


def prepare(environment):
    """Make the environment complete; return at once if it already is."""
    state = examine(environment)
    stamp = read_stamp(environment)
    wanted = fingerprint(environment)
    if state and stamp.get("fingerprint") == wanted and not state[1] and OLDEST <= state[0] <= NEWEST:
        if state[0] != tuple(sys.version_info[:2]):
            versions = state[0] + tuple(sys.version_info[:2])
            words = "Using {0}, made with Python {1}.{2}. To change to {3}.{4}, delete that folder and run again."
            say(words.format(environment.name, *versions))
        return
    check_folder(environment)
    why = why_anew(environment, state, stamp)
    if why == "first":
        say(
            "Setting up {0}: first time only, {1}, about {2} MB on disk.".format(
                environment.name, environment.minutes, environment.megabytes
            )
        )
    elif why:
        say("{0} Making {1} anew.".format(why, environment.name))
    else:
        say("Bringing {0} up to date.".format(environment.name))
    if why:
        check_space(environment)
        remove(environment)
        make(environment)
    install(environment, wanted)


def why_anew(environment, state, stamp):
    """Why the environment has to be made from nothing: a sentence, "first", or "" if it can be kept."""
    if not os.path.lexists(environment.path):
        return "first"
    if not os.path.isdir(environment.path) or not looks_like_ours(environment.path):
        raise Trouble(
            "{0} is in the way: it is not a Python environment.\n"
            "Move it somewhere else, then run the same command again.".format(environment.path)
        )
    if os.path.exists(environment.file(UNFINISHED)):
        return "The last installation was cut short."
    if state is None:
        return "The environment no longer runs."
    if not OLDEST <= state[0] <= NEWEST:
        return "The environment there has Python {0}.{1}.".format(*state[0])
    if stamp.get("root", ROOT) != ROOT:
        return "The course has moved to another folder."
    if stamp.get("fingerprint") == fingerprint(environment) and state[1]:
        return "A part of the environment is missing ({0}).".format(", ".join(state[1]))
    return ""


def looks_like_ours(folder):
    """True for a virtual environment, a half-made one, or an empty folder: only those are ever removed."""
    names = set(os.listdir(folder))
    parts = {"bin", "include", "lib", "lib64", "Include", "Lib", "Scripts", "share", "etc", UNFINISHED, STAMP, LOG}
    return "pyvenv.cfg" in names or names <= parts


def check_folder(environment):
    try:
        handle, path = tempfile.mkstemp(prefix=".course-", dir=ROOT)
        os.close(handle)
        os.remove(path)
    except OSError as error:
        if "No space" in str(error):
            raise Trouble(space_words(environment))
        raise Trouble(
            "Nothing can be written in the course's folder:\n  {0}\n  {1}\n"
            "Copy the whole folder to a place of your own, for instance your home folder, and run it there.".format(
                ROOT, error.strerror or error
            )
        )


def check_space(environment):
    free = shutil.disk_usage(ROOT).free
    if free < environment.megabytes * 1000 * 1000:
        raise Trouble(space_words(environment, "{0:.0f} MB are free here.".format(free / 1e6)))


def space_words(environment, found="The disk is full."):
    return (
        "{0} The installation needs about {1} MB in\n  {2}\n"
        "Make room, or copy the course's folder to a larger disk, then run the same command again.".format(
            found, environment.megabytes, ROOT
        )
    )


def remove(environment):
    """Delete a broken environment. A link is unlinked, never followed."""
    if not os.path.lexists(environment.path):
        return
    if os.path.islink(environment.path):
        os.unlink(environment.path)
        return

    def writable(function, path, _):
        os.chmod(path, stat.S_IWRITE | stat.S_IREAD | stat.S_IEXEC)
        function(path)

    try:
        shutil.rmtree(environment.path, onerror=writable)
    except OSError as error:
        raise Trouble(
            "The folder {0} has to be deleted, and cannot be:\n  {1}\n"
            "Close every program that uses it (JupyterLab, an editor, a terminal), "
            "then run the same command again.".format(environment.path, error)
        )


def make(environment):
    """Make the empty virtual environment."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    ready = subprocess.run([base, "-c", "import venv, ensurepip"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if ready.returncode:
        raise Trouble(venv_words())
    progress = Progress("making the environment")
    os.mkdir(environment.path)
    mark_unfinished(environment)
    code, lines = run([base, "-m", "venv", environment.path], progress, lambda line, before: before)
    if code:
        raise Trouble(
            "{0}\n{1}".format(
                tail(lines), venv_words() if "ensurepip" in " ".join(lines) else reason(lines, environment)
            )
        )
    progress.done()


def venv_words():
    return (
        "This Python cannot make virtual environments: its modules venv and ensurepip are missing.\n"
        "  Debian/Ubuntu  sudo apt install python3-venv\n"
        "  elsewhere      install Python from https://www.python.org/downloads/\n"
        "Then run the same command again."
    )


def mark_unfinished(environment):
    with open(environment.file(UNFINISHED), "w") as file:
        file.write("An installation began here and has not finished. course.py will make this folder anew.\n")


def install(environment, wanted):
    """Install into the environment, check that it works, and write the stamp last."""
    if os.path.exists(environment.file(STAMP)):
        os.remove(environment.file(STAMP))
    mark_unfinished(environment)
    progress = Progress("installing")
    pip = [environment.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    pip += [
        "--retries",
        "3",
        "--progress-bar",
        "off",
        "-c",
        "constraints.txt",
        "-r",
        "requirements.txt",
        "-e",
        environment.target,
    ]
    code, lines = run(pip, progress, describe, surroundings(environment), environment.file(LOG))
    if code:
        raise Trouble(
            "The installation did not finish. The last lines of pip:\n\n{0}\n\n{1}\n(All of it: {2})".format(
                tail(lines), reason(lines, environment), os.path.join(environment.name, LOG)
            )
        )
    progress.done()

    progress = Progress("checking that it works")
    configuration = os.path.join(environment.path, "etc", "jupyter")
    if not os.path.isdir(configuration):
        os.makedirs(configuration)
    with open(os.path.join(configuration, "jupyter_server_config.py"), "w") as file:
        file.write(SERVER_CONFIG)
    # JupyterLab would ask on the first start whether to fetch news; a course works without asking.
    quiet = [
        environment.python,
        "-m",
        "jupyter",
        "labextension",
        "disable",
        "@jupyterlab/apputils-extension:announcements",
    ]
    # Drawing once makes matplotlib look through the fonts now and not in the first lesson.
    check = [environment.python, "-c", "import ipywidgets, jupyterlab, matplotlib.pyplot, mha_lib, numpy"]
    for command in (quiet, check):
        code, lines = run(command, progress, lambda line, before: before, surroundings(environment))
        if code:
            raise Trouble(
                "Everything is installed, but it does not run:\n\n{0}\n\n"
                "Run the same command again: it starts from nothing. If this comes back, the lines above say what "
                "the machine lacks.".format(tail(lines))
            )
    progress.done()

    with open(environment.file(STAMP), "w") as file:
        json.dump({"fingerprint": wanted, "root": ROOT}, file)
    os.remove(environment.file(UNFINISHED))


def surroundings(environment):
    """Environment variables for everything that runs inside the environment."""
    variables = dict(os.environ)
    for name in ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "__PYVENV_LAUNCHER__"):
        variables.pop(name, None)
    variables["PIP_USER"] = "0"
    variables["VIRTUAL_ENV"] = environment.path
    variables["JUPYTER_PREFER_ENV_PATH"] = "1"
    variables["PATH"] = os.path.dirname(environment.python) + os.pathsep + variables.get("PATH", "")
    return variables


def run(command, progress, describe_line, variables=None, log=None):
    """Run a command quietly while the progress line moves on; return its exit code and its lines."""
    process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = []

    def read():
        for raw in iter(process.stdout.readline, b""):
            lines.append(raw.decode("utf-8", "replace").rstrip())

    reader = threading.Thread(target=read)
    reader.daemon = True
    reader.start()
    doing, seen = "", 0
    try:
        while process.poll() is None or reader.is_alive():
            for line in lines[seen:]:
                doing, seen = describe_line(line, doing), seen + 1
            progress.show(doing)
            reader.join(0.2)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        reader.join(5)
        process.stdout.close()
        if log:
            try:
                with open(log, "wb") as file:
                    file.write("\n".join(lines + [""]).encode("utf-8"))
            except OSError:
                pass
    return process.returncode, lines


def tail(lines, count=8):
    """The last lines that say something."""
    return "\n".join("  " + line[:200] for line in [line for line in lines if line.strip()][-count:])


REASONS = [
    (("No space left", "Errno 28", "not enough space on the disk"), None),
    (
        ("CERTIFICATE_VERIFY_FAILED", "SSLError", "SSLCertVerificationError"),
        "The connection's certificate could not be checked. Behind a company's proxy, ask for its certificate and "
        "set PIP_CERT to it. On macOS with Python from python.org, run 'Install Certificates.command' once.",
    ),
    (
        (
            "NewConnectionError",
            "ConnectTimeoutError",
            "ReadTimeoutError",
            "name resolution",
            "getaddrinfo failed",
            "nodename nor servname",
            "Network is unreachable",
            "Connection refused",
            "ProxyError",
            "Read timed out",
            "Connection broken",
        ),
        "The package index could not be reached. Check the connection (behind a proxy, set HTTPS_PROXY), then run "
        "the same command again: what was downloaded is kept.",
    ),
    (
        ("Long Path", "WinError 206", "Filename or extension is too long"),
        "The path of this folder is too long for Windows. Move the course to a short one, such as C:\\course.",
    ),
    (
        ("WinError 32", "WinError 5", "Permission denied", "Access is denied"),
        "A file could not be replaced. Close JupyterLab and every program that uses this folder, then run the same "
        "command again.",
    ),
    (
        ("No matching distribution", "Could not find a version"),
        "A package is not to be had for this Python or this system. The course is tried on 64-bit Linux, macOS and "
        "Windows with Python 3.10 to 3.14. Without a connection the same message appears: check it as well.",
    ),
]


def reason(lines, environment):
    """What probably went wrong, and what to do about it."""
    text = "\n".join(lines)
    for signs, words in REASONS:
        if any(sign in text for sign in signs):
            return words or space_words(environment)
    return "Run the same command again: it starts from nothing. If this comes back, the lines above say why."


# The two commands


def start(command, environment):
    """Run a command in the foreground and return its exit code. Ctrl-C is the command's to handle."""
    process = subprocess.Popen(command, cwd=ROOT, env=surroundings(environment))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def lab_command(python, arguments, folder, root_user=False):
    """JupyterLab on the first notebook, or on the one named in the arguments."""
    notebook = START
    rest = []
    for argument in arguments:
        if argument.endswith(".ipynb") and not argument.startswith("-"):
            notebook = notebook_in_course(argument, folder)
        else:
            rest.append(argument)
    command = [python, "-m", "jupyterlab", "--log-level=WARN", "--ServerApp.root_dir=" + ROOT]
    command.append("--LabApp.default_url=/lab/tree/" + quote(notebook.replace(os.sep, "/")))
    if root_user:
        command.append("--allow-root")
    return command + rest


def notebook_in_course(argument, folder):
    """The path below the course's folder of a notebook named from there or from the current folder."""
    for base in (folder, ROOT, os.path.join(ROOT, "notebooks")):
        path = os.path.realpath(os.path.join(base, argument))
        below = os.path.relpath(path, os.path.realpath(ROOT))
        if os.path.isfile(path) and not below.startswith(os.pardir):
            return below
    raise Trouble(
        "There is no notebook '{0}' in the course. Its notebooks are in\n  {1}".format(
            argument, os.path.join(ROOT, "notebooks")
        )
    )


def test_command(python, arguments):
    """pytest with the given arguments; --fast becomes what pytest understands."""
    command = [python, "-m", "pytest"]
    for argument in arguments:
        if argument == "--fast":
            command += ["-m", "not slow and not browser", "--ignore=notebooks"]
        else:
            command.append(argument)
    return command


def main(arguments):
    if any(argument in ("-h", "--help", "help") for argument in arguments[:2]):
        say(HELP.format(me=ME))
        return 0
    check_python(sys.version_info, arguments)
    testing = arguments[:1] == ["test"]
    environment = TESTS if testing else COURSE
    if testing:
        arguments = arguments[1:]
    elif arguments and not arguments[0].startswith("-") and not arguments[0].endswith(".ipynb"):
        raise Trouble("There is no command '{0}'.\n\n{1}".format(arguments[0], HELP.format(me=ME)))
    setup_only = "--setup-only" in arguments
    arguments = [argument for argument in arguments if argument != "--setup-only"]

    prepare(environment)
    if setup_only:
        say("{0} is ready.".format(environment.name))
        return 0
    if testing:
        return start(test_command(environment.python, arguments), environment)
    say("Starting JupyterLab. If no browser opens, open the link below yourself. Stop with Ctrl-C.")
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return start(lab_command(environment.python, arguments, os.getcwd(), as_root), environment)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Trouble as trouble:
        say("\n" + str(trouble))
        sys.exit(1)
    except KeyboardInterrupt:
        say("\nStopped. Run the same command again at any time.")
        sys.exit(130)
