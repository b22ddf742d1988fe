"""What every package test stands on."""

import random
import sys

import pytest

from course_utils.base import torch_private
from course_utils.base.user_code import is_user_file
from course_utils.checks import trial


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
def same_draws(request, monkeypatch):
    """At a push a test draws what it drew the last time, from a seed made of its name; nightly it draws anew."""
    if request.config.getoption("--tier") != "nightly":
        monkeypatch.setattr(trial, "random_bits", random.Random(request.node.nodeid).getrandbits)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """A test that leaves a global setting of torch, or a module that counts as the user's, fails instead of the one
    after it.
    """
    import torch  # not at the top: the controller of a parallel run reads this file, and runs no test

    settings = torch.is_grad_enabled, torch.get_default_dtype, torch.is_anomaly_enabled
    before, modules = [read() for read in settings], set(sys.modules)
    yield
    assert [read() for read in settings] == before
    new = {name: getattr(sys.modules[name], "__file__", None) for name in sys.modules.keys() - modules}
    known = ("tests.", "course_utils.clinic.scripts")  # the clinic's scripts count as the user's, and stay
    assert not [name for name, file in new.items() if file and is_user_file(file) and not name.startswith(known)]


@pytest.fixture
def closed_figures():
    """Figures that a test made are closed after it."""
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


@pytest.fixture
def short_clinic(request, monkeypatch):
    """The clinic's tenth property after three epochs in place of ten; nightly it is judged as learners' answers are.

    Scripts that it must let through then get 0.60 of the test images right at least (a last layer that never learns, on
    14 seeds; the others 0.85), and one that trains for twelve steps 0.41 at most.
    """
    if request.config.getoption("--tier") != "nightly":
        from course_utils.clinic import ClinicDataset

        monkeypatch.setattr(ClinicDataset, "epochs", 3)
        monkeypatch.setattr(ClinicDataset, "bar", 0.5)
