"""One JupyterLab and one browser for all tests of this folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from pathlib import Path

import pytest

from .driver import CHECKOUT, BrowserMissing, lab_and_browser

NOTEBOOKS = CHECKOUT / "notebooks"
SCREENSHOTS = Path(__file__).with_name("screenshots")


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)


def give_up(reason: str):
    """Skip, and say why; where a browser is a must, fail."""
    if os.environ.get("MHA_REQUIRE_BROWSER") == "1":
        pytest.fail(f"MHA_REQUIRE_BROWSER is set, but {reason}", pytrace=False)
    pytest.skip(reason)


def _needs(*modules: str) -> None:
    if missing := [name for name in modules if importlib.util.find_spec(name) is None]:
        give_up(f"{', '.join(missing)} not installed: the browser tests want the extra `test` of this project")


# The package, not the session: Playwright keeps an event loop running while it lives, and tests elsewhere that run
# notebooks want to start one of their own.
@pytest.fixture(scope="package")
def lab_and_context():
    _needs("playwright", "jupyterlab", "ipywidgets", "axe_playwright_python", "psutil")
    with contextlib.ExitStack() as stack:
        try:
            both = stack.enter_context(lab_and_browser(NOTEBOOKS))
        except BrowserMissing as missing:
            both, reason = None, str(missing)
        if both is None:
            give_up(reason)
        yield both
