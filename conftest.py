"""For every test, example and notebook: no run of the tests touches the reader's own progress."""

import os
import shutil
import tempfile
from pathlib import Path


def pytest_configure(config):
    config.progress_folder = Path(tempfile.mkdtemp(prefix="mha-progress-"))
    os.environ["MHA_PROGRESS"] = str(config.progress_folder / "progress.json")


def pytest_unconfigure(config):
    shutil.rmtree(config.progress_folder, ignore_errors=True)
