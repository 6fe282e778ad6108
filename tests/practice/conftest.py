import pytest


@pytest.fixture(autouse=True)
def a_file_of_its_own(tmp_path, monkeypatch):
    """No test touches the progress of whoever runs it."""
    monkeypatch.setenv("MHA_PROGRESS", str(tmp_path / "progress.json"))
