"""The files around the course agree with each other: requirements, lock, wheel, README, licence, style."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import course

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PYTHONS = [f"3.{minor}" for minor in range(course.OLDEST[1], course.NEWEST[1] + 1)]

# Where the name to import is not the name to install.
DISTRIBUTION = {"PIL": "pillow", "axe_playwright_python": "axe-playwright-python", "IPython": "ipython"}


def requirements_in(path):
    lines = [line.split(" #")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-"))]


LEARNER = requirements_in(ROOT / "requirements.txt")
LIBRARY = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
TEST = [Requirement(text) for text in PROJECT["project"]["optional-dependencies"]["test"]]
LOCK = requirements_in(ROOT / "constraints.txt")


def names(requirements):
    return {canonicalize_name(requirement.name) for requirement in requirements}


# ---- versions


@pytest.mark.parametrize("requirement", LEARNER + LIBRARY + TEST, ids=str)
def test_every_version_is_bounded_below_and_above(requirement):
    signs = {part.operator for part in requirement.specifier}
    assert signs >= {">=", "<"}, f"{requirement} would change under the course's feet"


def test_the_library_and_the_learner_ask_for_the_same_versions():
    wanted = {canonicalize_name(requirement.name): requirement.specifier for requirement in LEARNER}
    for requirement in LIBRARY:
        assert wanted[canonicalize_name(requirement.name)] == requirement.specifier


def test_the_python_range_is_the_same_everywhere():
    oldest, newest = course.OLDEST, course.NEWEST
    assert PROJECT["project"]["requires-python"] == f">=3.{oldest[1]},<3.{newest[1] + 1}"
    assert f"Python 3.{oldest[1]} to 3.{newest[1]}" in README
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert all(f'"{python}"' in workflow for python in PYTHONS)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_the_lock_holds_one_fitting_version_of_everything_for_every_python(python, system):
    place = {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": system,
        "os_name": "nt" if system == "win32" else "posix",
        "platform_system": {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[system],
        "extra": "",
    }
    pinned = {}
    for requirement in LOCK:
        if requirement.marker is None or requirement.marker.evaluate(place):
            name = canonicalize_name(requirement.name)
            assert name not in pinned, f"two versions of {name}"
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            pinned[name] = pin.version
    for requirement in LEARNER + LIBRARY + TEST:
        if requirement.marker is None or requirement.marker.evaluate(place):
            name = canonicalize_name(requirement.name)
            assert name in pinned, f"{name} is not in constraints.txt; CONTRIBUTING.md says how to make it again"
            assert requirement.specifier.contains(pinned[name]), f"{name} {pinned[name]} does not fit {requirement}"


def test_the_lock_says_how_it_was_made():
    head = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[:2]
    command = head[1].lstrip("# ")
    assert command.startswith("uv pip compile --universal")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert command.replace("compile", "compile --upgrade") in contributing


# ---- what is imported is what is declared


def imported(source):
    """Top-level names that a piece of Python imports from outside the standard library and this project."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    ours = {"mha_lib", "course", "tests"}
    ours |= {path.stem for folder in ("tests", "tools", "benchmarks") for path in (ROOT / folder).iterdir()}
    return {canonicalize_name(DISTRIBUTION.get(name, name)) for name in found - set(sys.stdlib_module_names) - ours}


def code_of(notebook):
    cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    return "\n".join(re.sub(r"^\s*[%!].*$", "pass", cell, flags=re.MULTILINE) for cell in cells)


@pytest.mark.parametrize("path", sorted((ROOT / "mha_lib").rglob("*.py")), ids=lambda path: path.stem)
def test_the_library_imports_only_what_it_declares(path):
    # IPython comes with ipywidgets and is what shows a widget in the first place.
    assert imported(path.read_text(encoding="utf-8")) <= names(LIBRARY) | {"ipython"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_imports_only_what_a_learner_has(path):
    assert imported(code_of(path)) <= names(LEARNER) | {"ipython"}


def test_the_tests_import_only_what_the_test_extra_declares():
    allowed = names(LEARNER) | names(LIBRARY) | names(TEST) | {"tomli", "tomllib"}
    for folder in ("tests", "tools", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            missing = imported(path.read_text(encoding="utf-8")) - allowed - {"torch"}
            assert not missing, f"{path.name} imports {missing}"


def test_torch_is_asked_of_nobody():
    assert not {"torch", "jax", "tensorflow"} & (names(LEARNER) | names(LIBRARY) | names(TEST) | names(LOCK))


# ---- the package


def test_the_wheel_holds_the_library_whole_and_nothing_else(tmp_path):
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    leftovers = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "mha_lib", tmp_path / "mha_lib", ignore=leftovers)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "00_start_here.ipynb").touch()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    library = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "mha_lib").rglob("*") if path.is_file()}
    assert library <= inside
    rest = inside - library
    assert all(name.startswith(f"mha_lib-{PROJECT['project']['version']}.dist-info/") for name in rest), rest
    assert any(name.endswith("LICENSE") for name in rest)


def test_the_version_is_the_same_in_both_places():
    import mha_lib

    assert mha_lib.__version__ == PROJECT["project"]["version"]


def test_the_licence_is_mit():
    assert PROJECT["project"]["license"] == "MIT"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("MIT License")
    assert "the course's authors" in text


def test_a_module_is_named_for_the_job_it_does():
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "lib", "tools"}
    for folder in ("mha_lib", "tests", "tools", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not vague & set(path.relative_to(ROOT / folder).with_suffix("").parts), path


# ---- style


def test_ruff_finds_nothing_in_code_and_notebooks():
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", "."]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


# ---- the README


def links(text):
    return [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_link_to_a_file_leads_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in filter(None, links(text)):
        assert (ROOT / target).exists(), f"{name} points to {target}"


def test_the_readme_lists_every_notebook_in_order():
    listed = re.findall(r"^\| (\d\d) \| \[[^\]]+\]\(notebooks/([^)]+)\) \| \d+ \| .+ \|$", README, re.MULTILINE)
    assert [name for _, name in listed] == [path.name for path in NOTEBOOKS]
    assert all(name.startswith(number + "_") for number, name in listed)


def test_every_picture_in_the_readme_has_alt_text():
    for alt, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", README):
        assert len(alt) > 40, target


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_command_in_the_text_is_one_that_works(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    commands = re.findall(r"(?:`|^ *)((?:python3 |py )course\.py[^`\n]*)", text, re.MULTILINE)
    assert commands
    for command in commands:
        _, _, *arguments = shlex.split(command)
        assert not arguments or arguments[0] == "test" or arguments[0].startswith("-"), command
        ours = {argument for argument in arguments if argument in ("--fast", "--setup-only", "--help")}
        assert all(argument in course.HELP for argument in ours)
        for argument in arguments:
            if "/" in argument:
                assert (ROOT / argument).exists(), command
    for path in re.findall(r"\.venv-test/bin/python (\S+\.py)", text):
        assert (ROOT / path).exists(), path


def test_both_commands_are_given_for_windows_too():
    for command in ("course.py", "course.py test"):
        assert f"python3 {command}\n```" in README
        assert f"On Windows: `py {command}`" in README


# ---- CI


def test_ci_runs_the_readmes_test_command_and_lets_nothing_skip():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.rstrip().endswith('exec "$python" course.py test')
    assert "MHA_REQUIRE_BROWSER=1 MHA_REQUIRE_TORCH=1" in script
    bash = shutil.which("bash")
    if bash and os.name != "nt":
        subprocess.run([bash, "-n", ROOT / ".ci" / "run"], check=True)
        assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_torch_is_there_where_ci_insists():
    if os.environ.get("MHA_REQUIRE_TORCH") == "1":
        assert find_spec("torch"), "without torch the comparisons with it would skip"


def test_public_ci_runs_the_same_script_and_may_only_read():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "run: bash .ci/run" in workflow
    assert "permissions:\n  contents: read\n" in workflow
    assert "write" not in workflow
    actions = re.findall(r"uses: (\S+)", workflow)
    assert actions
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in actions)
