"""What every package test stands on."""

import pytest
import torch

from course_utils.base import torch_private


def pytest_sessionstart(session):
    """A line for each thing that a new PyTorch lacks, and not a failure in every file."""
    if not hasattr(session.config, "workerinput") and (gone := torch_private.gone()):
        pytest.exit("\n".join(gone), returncode=1)


@pytest.fixture(autouse=True)
def progress_file(tmp_path, monkeypatch):
    """No test writes into the progress file of whoever runs it."""
    path = tmp_path / "progress.sqlite3"
    monkeypatch.setenv("COURSE_UTILS_PROGRESS", str(path))
    return path


@pytest.fixture(autouse=True)
def torch_state():
    """A test that leaves a global setting of torch changed fails, instead of the one after it."""
    before = torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_anomaly_enabled()
    yield
    assert (torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_anomaly_enabled()) == before
