"""What every package test stands on. torch is imported in functions: at the top, the workers of a parallel run would
wait until the process that starts them has imported it, too.
"""

import builtins
import gc
import os
import random
import signal
import sys
from functools import partial
from unittest import mock

import pytest

from course_utils.base import user_code

SIGNALS = [partial(signal.getsignal, number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session):
    """A line for each thing that a new PyTorch lacks, and not a failure in every file."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background ignores it
    yield
    from course_utils.base import torch_private

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
        from course_utils.checks import trial

        monkeypatch.setattr(trial, "random_bits", random.Random(request.node.nodeid).getrandbits)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """A test that leaves a setting of the process, or a module that counts as the user's, fails instead of the one
    after it. The files that it called the user's are so no longer, and the environment is as before: a cluster sets a
    seed and numbers of threads there, for every process that is begun later.
    """
    import torch

    settings = [torch.is_grad_enabled, torch.get_default_dtype, torch.is_anomaly_enabled, torch.get_num_threads]
    settings += [torch.is_warn_always_enabled, gc.isenabled, os.getcwd, *SIGNALS]
    settings += [partial(sys.modules.get, "__main__")]  # what it holds is the user's
    before, modules, files = [read() for read in settings], set(sys.modules), set(user_code._chosen)
    with mock.patch.dict(os.environ):
        yield
    assert [read() for read in settings] == before
    known = ("tests.", "course_utils.clinic.scripts")  # the clinic's scripts count as the user's, and stay
    new = [name for name in sys.modules.keys() - modules if not name.startswith(known)]
    has_file = [(name, file) for name in new if (file := getattr(sys.modules[name], "__file__", None))]
    assert not [name for name, file in has_file if user_code.is_user_file(file)]
    if user_code._chosen != files:
        user_code._chosen.intersection_update(files)
        user_code.is_user_file.cache_clear()


@pytest.fixture
def one_thread():
    """Where the work is small, a busy machine waits for a second thread longer than it works."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def shell(monkeypatch):
    """IPython with the course's magics, as in a notebook. What it puts into the process is gone after the test."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from course_utils import load_ipython_extension

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("display", "__IPYTHON__"):
        monkeypatch.setattr(builtins, name, None, raising=False)
    InteractiveShell.clear_instance()
    without_history = Config({"HistoryManager": {"enabled": False}})  # a thread, and a file in the home
    shell = InteractiveShell.instance(config=without_history, colors="nocolor")
    load_ipython_extension(shell)
    yield shell
    InteractiveShell.clear_instance()


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
