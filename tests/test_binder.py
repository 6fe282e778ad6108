"""What Binder would build: rendered without a container engine, then installed and used for real."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import course

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Binder runs Linux, and repo2docker does not run on Windows")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What a clone of the course holds, without environments and leftovers."""
    leave_out = shutil.ignore_patterns(".venv*", ".git", "__pycache__", ".*_cache", "screenshots", "*.egg-info")
    return Path(shutil.copytree(ROOT, tmp_path_factory.mktemp("binder") / "course", ignore=leave_out))


@pytest.fixture(scope="module")
def rendering(checkout):
    """The Dockerfile that repo2docker makes of the course."""
    program = shutil.which("repo2docker", path=os.path.dirname(sys.executable)) or shutil.which("repo2docker")
    assert program, "repo2docker is part of the test extra"
    options = ["--no-build", "--debug", "--user-id", "1000", "--user-name", "jovyan"]
    made = subprocess.run([program, *options, str(checkout)], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    return made.stdout + made.stderr


def test_the_python_is_one_the_course_supports(rendering):
    version = re.search(r"python=3\.(\d+)", rendering)
    assert version, "binder/runtime.txt is not understood"
    assert course.OLDEST[1] <= int(version.group(1)) <= course.NEWEST[1]


def test_the_learners_requirements_are_installed_and_nothing_else(rendering, checkout):
    assert pip_installs(rendering) == ["binder/requirements.txt"]
    lines = [line for line in (checkout / "binder" / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    assert lines == ["-c ../constraints.txt", "-r ../requirements.txt", "notebook>=7.2,<8"]


def test_the_whole_course_is_there_before_pip_reads_it(rendering):
    """binder/requirements.txt points to files outside binder/, so the copy has to come first."""
    copy = rendering.index("COPY --chown=1000:1000 src/ ${REPO_DIR}/")
    assert copy < rendering.index("/bin/pip install") < rendering.index("RUN ./binder/postBuild")


def test_postbuild_installs_the_library_without_asking_for_more(rendering, checkout):
    assert "RUN ./binder/postBuild" in rendering
    script = checkout / "binder" / "postBuild"
    text = script.read_text()
    assert "pip install --no-cache-dir --no-deps -e ." in text
    assert os.access(script, os.X_OK)
    assert b"\r" not in script.read_bytes()
    subprocess.run(["bash", "-n", script], check=True)


def test_binder_reads_nothing_but_these_files():
    assert {path.name for path in (ROOT / "binder").iterdir()} == {"requirements.txt", "runtime.txt", "postBuild"}


def test_the_readme_forms_the_link_to_the_first_notebook():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "https://mybinder.org/v2/gh/OWNER/REPO/HEAD?urlpath=lab/tree/notebooks/00_start_here.ipynb" in readme
    assert (ROOT / "notebooks" / "00_start_here.ipynb").exists()


def pip_installs(rendering):
    """The requirement files that the Dockerfile hands to pip, in order."""
    lines = [line for line in rendering.splitlines() if re.match(r"RUN .*pip install", line)]
    return [re.fullmatch(r'RUN \S+/pip install --no-cache-dir -r "([^"]+)"', line).group(1) for line in lines]


@pytest.mark.slow
def test_the_first_notebook_runs_in_exactly_what_binder_installs(rendering, checkout, tmp_path):
    venv = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = course.python_in(str(venv), windows=False)
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MPLBACKEND")}
    variables |= {"PATH": f"{venv}/bin:{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}
    variables |= {"JUPYTER_PREFER_ENV_PATH": "1", "IPYTHONDIR": str(tmp_path / "ipython")}

    def run(*command):
        done = subprocess.run(command, cwd=checkout, env=variables, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    for requirements in pip_installs(rendering):
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements)
    run("./binder/postBuild")
    run(python, "-m", "pip", "check")

    # Run All, headless, in that environment and in the folder where Binder would run it.
    notebook = "notebooks/00_start_here.ipynb"
    run(python, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", str(tmp_path), notebook)
    assert (tmp_path / "00_start_here.ipynb").stat().st_size > 0

    # The server as the Dockerfile starts it, and the address in the README's link.
    assert 'CMD ["jupyter", "notebook", "--ip", "0.0.0.0"]' in rendering
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    options = ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=secret", "--allow-root"]
    log = tmp_path / "server.log"
    with log.open("w") as output:
        command = [f"{venv}/bin/jupyter", "notebook", *options]
        server = subprocess.Popen(command, cwd=checkout, env=variables, stdout=output, stderr=output)
    try:
        address = f"http://127.0.0.1:{port}/lab/tree/{notebook}?token=secret"
        until = time.time() + 60
        while True:
            try:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    assert "JupyterLab" in answer.read().decode()
                break
            except OSError:
                assert server.poll() is None, log.read_text()
                assert time.time() < until, log.read_text()
                time.sleep(0.2)
    finally:
        server.terminate()
        server.wait(timeout=30)
