"""The two commands of the README: what course.py says and does, from an old Python to a full disk."""

import ast
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import course

ROOT = Path(__file__).resolve().parent.parent
SOURCE = (ROOT / "course.py").read_bytes()
posix = pytest.mark.skipif(os.name == "nt", reason="uses a shell script or a symbolic link")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """An empty course folder, with a space in its path, that course.py believes to be its own."""
    folder = tmp_path / "my courses" / "attention"
    (folder / "notebooks").mkdir(parents=True)
    for name in ("requirements.txt", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    monkeypatch.setattr(course, "ROOT", str(folder))
    return folder


@pytest.fixture
def environment(checkout):
    return course.Environment(".venv", ".", ["numpy"], 450, "a minute")


# ---- it parses where it cannot run


def test_it_is_ascii_so_that_any_python_reads_it():
    SOURCE.decode("ascii")


def test_its_syntax_is_that_of_very_old_pythons():
    tree = ast.parse(SOURCE, feature_version=(3, 4))
    new = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFunctionDef, ast.Await, ast.Nonlocal, ast.Starred)
    for node in ast.walk(tree):
        if isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Load):
            continue  # f(*arguments) is as old as it gets; the old Pythons below try the rest
        assert not isinstance(node, new), f"line {node.lineno}: {type(node).__name__}"
        if isinstance(node, ast.FunctionDef):
            assert not node.args.kwonlyargs, f"line {node.lineno}: keyword-only arguments"
            assert not node.returns, f"line {node.lineno}: an annotation"
        if isinstance(node, ast.Raise):
            assert not node.cause, f"line {node.lineno}: raise ... from"
    assert not re.search(rb"\*[\w.\[\]() +]+,\s*\n?\s*\)", SOURCE), "a comma after f(*arguments is no Python 2"


def old_pythons():
    names = ["python2", "python2.7", *(f"python3.{minor}" for minor in range(10))]
    found = [shutil.which(name) for name in names]
    found += sorted(map(str, Path.home().glob(".pyenv/versions/[23].[0-9].*/bin/python")))
    return [name for name in found if name and subprocess.run([name, "-V"], capture_output=True).returncode == 0]


def test_a_real_old_python_says_what_to_do():
    pythons = old_pythons()
    if not pythons:
        pytest.skip("no Python below 3.10 on this machine; its syntax is checked above")
    for python in pythons:
        answer = subprocess.run([python, ROOT / "course.py"], capture_output=True, text=True, timeout=60)
        assert answer.returncode == 1, python
        assert "needs Python 3.10 to 3.14" in answer.stdout
        assert "too old" in answer.stdout
        assert not answer.stderr, answer.stderr


# ---- which Python


@pytest.mark.parametrize(
    ("version", "word"),
    [((2, 7, 18), "old"), ((3, 6, 1), "old"), ((3, 9, 18), "old"), ((3, 15, 0), "new"), ((4, 0), "new")],
)
def test_a_python_that_does_not_fit_is_told_what_to_install(version, word, monkeypatch):
    monkeypatch.setattr(course, "other_python", lambda: None)
    with pytest.raises(course.Trouble) as trouble:
        course.check_python(version, [])
    text = str(trouble.value)
    assert f"too {word}" in text
    assert ".".join(map(str, version)) in text
    for system in ("Windows", "macOS", "Debian/Ubuntu"):
        assert system in text


def test_a_python_that_fits_is_named_if_there_is_one(monkeypatch):
    monkeypatch.setattr(course, "other_python", lambda: "python3.12")
    with pytest.raises(course.Trouble, match=r"  python3\.12 course\.py test -q"):
        course.check_python((3, 9, 1), ["test", "-q"])


@pytest.mark.parametrize("minor", range(10, 15))
def test_pythons_3_10_to_3_14_fit(minor):
    course.check_python((3, minor, 0), [])


@posix
def test_other_python_asks_the_python_it_finds(tmp_path, monkeypatch):
    for name, answer in (("python3.14", "echo no such version; exit 1"), ("python3.12", "echo 3.12")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert course.other_python() == "python3.12", "3.14 is a stub that does not run"


# ---- arguments


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["test", "--help"]])
def test_help_installs_nothing(arguments, monkeypatch, capsys):
    monkeypatch.setattr(course, "prepare", lambda environment: pytest.fail("help must not install"))
    assert course.main(arguments) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("test", "--fast", "--setup-only", "--no-browser"))


def test_a_mistyped_command_is_answered_with_the_help(monkeypatch):
    monkeypatch.setattr(course, "prepare", lambda environment: pytest.fail("nothing to install for"))
    with pytest.raises(course.Trouble, match=r"(?s)no command 'tets'.*usage:"):
        course.main(["tets"])


def test_the_environments_python_on_unix_and_on_windows():
    assert course.python_in("e", windows=False) == os.path.join("e", "bin", "python")
    assert course.python_in("e", windows=True) == os.path.join("e", "Scripts", "python.exe")


def test_jupyterlab_opens_the_first_notebook_and_gets_every_option():
    command = course.lab_command("python", ["--no-browser", "--port", "9000"], os.getcwd())
    assert command[:3] == ["python", "-m", "jupyterlab"]
    assert command[-3:] == ["--no-browser", "--port", "9000"]
    assert "--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb" in command
    assert f"--ServerApp.root_dir={ROOT}" in command
    assert "--allow-root" not in command
    assert "--allow-root" in course.lab_command("python", [], os.getcwd(), root_user=True)


def test_a_notebook_is_found_from_any_folder(checkout, tmp_path):
    (checkout / "notebooks" / "01 shapes.ipynb").touch()
    for folder, name in [
        (checkout, "notebooks/01 shapes.ipynb"),
        (checkout / "notebooks", "01 shapes.ipynb"),
        (tmp_path, "notebooks/01 shapes.ipynb"),
        (tmp_path, "01 shapes.ipynb"),
    ]:
        command = course.lab_command("python", [name], str(folder))
        assert "--LabApp.default_url=/lab/tree/notebooks/01%20shapes.ipynb" in command
    with pytest.raises(course.Trouble, match=r"no notebook 'nowhere\.ipynb'"):
        course.lab_command("python", ["nowhere.ipynb"], str(checkout))


def test_pytest_gets_every_option_and_fast_is_spelled_out():
    assert course.test_command("python", ["tests/test_dims.py", "-q"])[1:] == [
        "-m",
        "pytest",
        "tests/test_dims.py",
        "-q",
    ]
    fast = course.test_command("python", ["--fast", "-x"])
    assert fast[3:] == ["-m", "not slow and not browser", "--ignore=notebooks", "-x"]


def test_a_command_runs_in_the_course_folder_and_its_exit_code_comes_back(environment, capfd):
    code = "import os, sys; print(os.getcwd()); sys.exit(3)"
    assert course.start([sys.executable, "-c", code], environment) == 3
    assert Path(capfd.readouterr().out.strip()) == Path(course.ROOT).resolve()


def test_what_is_set_around_the_course_does_not_leak_in(environment, monkeypatch):
    for name in ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX"):
        monkeypatch.setenv(name, "/elsewhere")
    monkeypatch.setenv("PIP_USER", "1")
    variables = course.surroundings(environment)
    assert not {"PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX"} & set(variables)
    assert variables["PIP_USER"] == "0"
    assert variables["PATH"].startswith(os.path.dirname(environment.python))


# ---- when to install, and when to begin again


@pytest.fixture
def steps(monkeypatch, environment):
    """Record what prepare() does, instead of doing it; ``steps.state`` is what the environment says of itself."""

    class Steps(list):
        state = (tuple(sys.version_info[:2]), [])

    done = Steps()
    monkeypatch.setattr(course, "examine", lambda environment: done.state)
    for name in ("remove", "make"):
        monkeypatch.setattr(course, name, lambda environment, name=name: done.append(name))
    monkeypatch.setattr(course, "install", lambda environment, wanted: done.append("install"))
    return done


def complete(environment, **changes):
    """Make the folder look like a finished installation."""
    folder = Path(environment.path)
    folder.mkdir()
    (folder / "pyvenv.cfg").touch()
    stamp = {"fingerprint": course.fingerprint(environment), "root": course.ROOT, **changes}
    (folder / course.STAMP).write_text(course.json.dumps(stamp))
    return folder


def test_the_first_time_everything_is_made(environment, steps, capsys):
    course.prepare(environment)
    assert steps == ["remove", "make", "install"]
    assert "first time only" in capsys.readouterr().out


def test_the_second_time_nothing_is_done_and_nothing_said(environment, steps, capsys):
    complete(environment)
    course.prepare(environment)
    assert steps == []
    assert capsys.readouterr().out == ""


def test_a_changed_requirement_is_installed_into_what_is_there(environment, steps, checkout, capsys):
    complete(environment)
    with (checkout / "requirements.txt").open("a") as file:
        file.write("anywidget>=0.9,<1\n")
    course.prepare(environment)
    assert steps == ["install"]
    assert "up to date" in capsys.readouterr().out


def test_an_interrupted_installation_is_made_anew(environment, steps, capsys):
    (complete(environment) / course.UNFINISHED).touch()
    (Path(environment.path) / course.STAMP).unlink()
    course.prepare(environment)
    assert steps == ["remove", "make", "install"]
    assert "cut short" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("state", "words"),
    [(None, "no longer runs"), (((3, 9), []), "Python 3.9"), (((3, 12), ["numpy"]), "missing (numpy)")],
)
def test_a_broken_environment_is_made_anew(environment, steps, capsys, state, words):
    complete(environment)
    steps.state = state
    course.prepare(environment)
    assert steps == ["remove", "make", "install"]
    assert words in capsys.readouterr().out


def test_a_moved_course_is_made_anew(environment, steps, capsys):
    complete(environment, root="/where/it/was", fingerprint="of that place")
    course.prepare(environment)
    assert steps == ["remove", "make", "install"]
    assert "moved" in capsys.readouterr().out


def test_an_environment_of_the_readers_own_is_used_as_it_is(environment, steps):
    (complete(environment) / course.STAMP).unlink()
    steps.state = (tuple(sys.version_info[:2]), ["numpy"])
    course.prepare(environment)
    assert steps == ["install"]


def test_another_python_than_the_environments_is_said(environment, steps, capsys):
    complete(environment)
    other = 10 if sys.version_info[1] != 10 else 11
    steps.state = ((3, other), [])
    course.prepare(environment)
    assert steps == []
    assert f"made with Python 3.{other}" in capsys.readouterr().out


def test_a_folder_that_is_no_environment_is_never_removed(environment, steps):
    (Path(environment.path)).mkdir()
    (Path(environment.path) / "thesis.docx").touch()
    with pytest.raises(course.Trouble, match="in the way"):
        course.prepare(environment)
    assert steps == []
    shutil.rmtree(environment.path)
    Path(environment.path).write_text("a file")
    with pytest.raises(course.Trouble, match="in the way"):
        course.prepare(environment)


@posix
def test_a_link_is_unlinked_and_what_it_points_to_stays(environment, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    os.symlink(tmp_path / "kept", environment.path)
    course.remove(environment)
    assert not os.path.lexists(environment.path)
    assert (tmp_path / "kept" / "file").exists()


def test_the_fingerprint_follows_content_and_place_and_not_line_ends(environment, checkout, monkeypatch):
    before = course.fingerprint(environment)
    text = (checkout / "requirements.txt").read_bytes().replace(b"\r\n", b"\n")
    (checkout / "requirements.txt").write_bytes(text.replace(b"\n", b"\r\n"))
    assert course.fingerprint(environment) == before
    (checkout / "requirements.txt").write_bytes(text + b"# changed\n")
    assert course.fingerprint(environment) != before
    (checkout / "requirements.txt").write_bytes(text)
    moved = shutil.copytree(checkout, checkout.with_name("moved"))
    monkeypatch.setattr(course, "ROOT", str(moved))
    assert course.fingerprint(environment) != before


def test_a_damaged_stamp_counts_as_none(environment):
    stamp = complete(environment) / course.STAMP
    for text in ("", "{", "[]", "7"):
        stamp.write_text(text)
        assert course.read_stamp(environment) == {}


def test_an_environment_is_asked_what_it_lacks(environment, monkeypatch):
    assert course.examine(environment) is None, "there is no such environment"
    monkeypatch.setattr(course.Environment, "python", sys.executable)
    environment.modules = ["json", "no_such_module"]
    assert course.examine(environment) == (tuple(sys.version_info[:2]), ["no_such_module"])


# ---- trouble, in words


def test_a_folder_that_cannot_be_written_is_said(environment, steps, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(course.tempfile, "mkstemp", refuse)
    with pytest.raises(course.Trouble, match=r"(?s)Nothing can be written.*Copy the whole folder"):
        course.prepare(environment)
    assert steps == []


def test_a_full_disk_is_said_before_anything_is_made(environment, steps, monkeypatch):
    usage = shutil._ntuple_diskusage(10**12, 10**12 - 3 * 10**7, 3 * 10**7)
    monkeypatch.setattr(course.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(course.Trouble, match=r"30 MB are free here.*needs about 450 MB"):
        course.prepare(environment)
    assert steps == []


def test_a_python_without_ensurepip_is_told_the_package(environment, monkeypatch):
    class Answer:
        returncode = 1

    monkeypatch.setattr(course.subprocess, "run", lambda *_, **__: Answer)
    with pytest.raises(course.Trouble, match="sudo apt install python3-venv"):
        course.make(environment)
    assert not os.path.exists(environment.path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("OSError: [Errno 28] No space left on device", "Make room"),
        ("NewConnectionError: Failed to establish a new connection: name resolution", "could not be reached"),
        ("SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))", "Install Certificates"),
        ("HINT: This error might have occurred since this system does not have Windows Long Path support", "short one"),
        ("[WinError 32] The process cannot access the file", "Close JupyterLab"),
        ("ERROR: No matching distribution found for numpy", "64-bit"),
        ("something nobody has seen before", "Run the same command again"),
    ],
)
def test_when_pip_fails_its_last_lines_and_a_way_out_are_shown(environment, monkeypatch, line, words):
    folder = complete(environment)
    monkeypatch.setattr(course, "run", lambda *_: (1, ["first"] + [""] * 30 + [line]))
    with pytest.raises(course.Trouble) as trouble:
        course.install(environment, "wanted")
    text = str(trouble.value)
    assert line in text
    assert words in text
    assert course.LOG in text
    assert not (folder / course.STAMP).exists(), "a failed installation must not look complete"
    assert (folder / course.UNFINISHED).exists()


def test_the_stamp_is_written_last(environment, monkeypatch):
    folder = complete(environment)
    seen = []

    def run(command, *_):
        assert not (folder / course.STAMP).exists()
        assert (folder / course.UNFINISHED).exists()
        seen.append(command)
        return 0, []

    monkeypatch.setattr(course, "run", run)
    course.install(environment, "wanted")
    assert course.read_stamp(environment)["fingerprint"] == "wanted"
    assert not (folder / course.UNFINISHED).exists()
    pip = seen[0]
    assert pip[1:4] == ["-m", "pip", "install"]
    assert pip[-6:] == ["-c", "constraints.txt", "-r", "requirements.txt", "-e", "."]


def test_trouble_and_ctrl_c_end_in_words_and_not_in_a_traceback(tmp_path):
    shutil.copy(ROOT / "course.py", tmp_path)
    answer = subprocess.run([sys.executable, tmp_path / "course.py", "tets"], capture_output=True, text=True)
    assert answer.returncode == 1
    assert "no command 'tets'" in answer.stdout
    assert "Traceback" not in answer.stdout + answer.stderr


def test_a_command_that_is_interrupted_does_not_go_on(environment, monkeypatch):
    class Interrupted(course.Progress):
        def show(self, doing):
            raise KeyboardInterrupt

    began = time.time()
    with pytest.raises(KeyboardInterrupt):
        course.run([sys.executable, "-c", "import time; time.sleep(60)"], Interrupted("x"), lambda line, before: before)
    assert time.time() - began < 10


# ---- progress


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Collecting numpy<3,>=1.26 (from -r requirements.txt (line 7))", "looking for numpy"),
        ("  Downloading numpy-2.4.6-cp311-manylinux.whl (16.9 MB)", "downloading numpy (16.9 MB)"),
        ("  Using cached numpy-2.4.6-cp311-manylinux.whl", "taking numpy from the last download"),
        ("Installing collected packages: a, b, c", "unpacking 3 packages, the longest part"),
        ("  WARNING: Retrying (Retry(total=4))", "no answer from the package index yet, trying again"),
        ("  Installing build dependencies: started", "preparing the course's own library"),
        ("", "before"),
        ("Requirement already satisfied: pip", "before"),
    ],
)
def test_pips_lines_become_words(line, words):
    assert course.describe(line, "before") == words


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_moves():
    terminal = Terminal()
    progress = course.Progress("installing", terminal)
    progress.show("downloading a package with a rather long name")
    progress.show("x")
    first, second = terminal.getvalue().split("\r")[1:]
    assert first.startswith("  installing (0 s) downloading")
    assert len(second) == len(first), "the shorter text has to cover the longer one"
    assert "\n" not in terminal.getvalue()


def test_elsewhere_a_line_appears_now_and_then(capsys):
    progress = course.Progress("installing", io.StringIO(), every=0)
    progress.show("downloading numpy")
    progress.done()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "  installing ..."
    assert said[1].endswith("0 s: downloading numpy")
    assert "done in 0 s" in said[2]


def test_output_survives_a_terminal_that_lacks_a_letter(monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    course.say("C:\\Users\\Zo\u00eb")
    narrow.seek(0)
    assert narrow.read().strip() == "C:\\Users\\Zo?"


# ---- for real


def megabytes(folder):
    return sum(path.lstat().st_size for path in Path(folder).rglob("*")) / 1e6


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def files_of_the_course(folder):
    """Copy what a download of the course holds, without environments and leftovers."""
    leave_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "tests", "screenshots")
    return Path(shutil.copytree(ROOT, folder, ignore=leave_out))


@pytest.mark.slow
def test_the_first_command_really_installs_and_opens(tmp_path):
    folder = files_of_the_course(tmp_path / "my courses" / "attention")
    clean = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}

    def command(*arguments):
        return subprocess.run(
            [sys.executable, folder / "course.py", *arguments],
            cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    first = command("--setup-only")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "first time only" in first.stdout
    assert "done in" in first.stdout
    assert megabytes(folder / ".venv") <= 450

    began = time.time()
    second = command("--setup-only")
    assert second.stdout.strip() == ".venv is ready."
    assert time.time() - began < 5

    # The library is found from any folder, and it is the one in the checkout, so that an edit counts at once.
    python = course.python_in(folder / ".venv")
    where = [python, "-c", "import mha_lib; print(mha_lib.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).resolve() == (folder / "mha_lib" / "__init__.py").resolve()
    for name in ("pytest", "torch"):
        absent = subprocess.run([python, "-c", f"import {name}"], capture_output=True)
        assert absent.returncode, f"{name} is no part of what a learner needs"

    # JupyterLab answers on the port it is given, and the link in the terminal leads to the first notebook.
    port = free_port()
    log = tmp_path / "lab.log"
    with log.open("w") as output:
        lab = subprocess.Popen(
            [sys.executable, folder / "course.py", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0"],
            cwd=tmp_path, env=clean, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        address = rf"http://127\.0\.0\.1:{port}/lab/tree/notebooks/00_start_here\.ipynb\?token=(\w+)"
        link = wait_for(lambda: re.search(address, log.read_text()), lab, log)
        assert "JupyterLab" in page_at(link.group())
        server, token = f"http://127.0.0.1:{port}/api", f"token={link.group(1)}"
        assert "00_start_here.ipynb" in page_at(f"{server}/contents/notebooks/00_start_here.ipynb?content=0&{token}")
        # A kernel starts without a word of alarm in the terminal.
        page_at(urllib.request.Request(f"{server}/kernels?{token}", data=b"{}", method="POST"))
        time.sleep(3)
        assert "WARN" not in log.read_text()
    finally:
        lab.send_signal(signal.SIGTERM)
        lab.wait(timeout=30)


def page_at(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode()


def wait_for(found, process, log, seconds=60):
    """What ``found()`` returns, as soon as it is something; the process has to live that long."""
    until = time.time() + seconds
    while True:
        if answer := found():
            return answer
        assert process.poll() is None, log.read_text()
        assert time.time() < until, log.read_text()
        time.sleep(0.2)
