"""The environment check says in words what is missing, and what to type."""

from importlib import metadata

import pytest

from mha_lib import environment


def take_away(package, monkeypatch):
    real = metadata.version

    def version(name):
        if name == package:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(environment.metadata, "version", version)


def test_here_everything_is_fine():
    assert environment.check().endswith("Everything is here. Turn the page.")


def test_what_stands_behind_the_questions_is_told_only_where_it_is_missing(monkeypatch):
    assert "pebble" not in environment.check()
    take_away("pebble", monkeypatch)
    assert "pebble: missing. Install it with: python -m pip install pebble" in environment.check()


def test_a_missing_package(monkeypatch):
    take_away("ipywidgets", monkeypatch)
    said = environment.check()
    assert "ipywidgets: missing. Install it with: python -m pip install ipywidgets" in said
    assert said.endswith("1 to mend before the panels will work.")


def test_a_package_that_is_too_old(monkeypatch):
    real = metadata.version
    monkeypatch.setattr(environment.metadata, "version", lambda name: "1.20.0" if name == "numpy" else real(name))
    assert "numpy 1.20.0: the course is tested with" in environment.check()


@pytest.mark.parametrize("here", [(3, 9), (3, 15)])
def test_a_python_outside_the_tested_range(monkeypatch, here):
    monkeypatch.setattr(environment.sys, "version_info", (*here, 0))
    assert f"Python {here[0]}.{here[1]}: this course is tested on 3.10 to 3.14." in environment.check()


def test_the_range_is_the_one_the_package_declares():
    from packaging.requirements import SpecifierSet

    declared = SpecifierSet(metadata.metadata("mha-lib")["Requires-Python"])
    oldest, newest = (".".join(map(str, version)) for version in environment.PYTHON)
    assert declared.contains(oldest) and declared.contains(newest)
    assert not declared.contains("3.9") and not declared.contains("3.15")


def test_without_an_installed_library_nothing_is_asked(monkeypatch):
    def gone(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(environment.metadata, "requires", gone)
    assert environment._wanted() == {}
