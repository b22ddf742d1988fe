"""Which PyTorch the course runs on and what is shown in each of them."""

import subprocess
import sys

import pytest
import torch

from course_utils.base import versions
from course_utils.base.expected import expect_error
from course_utils.measure import environment

MESSAGES = [
    (
        "[torch.FloatTensor [3]], which is output 0 of ExpBackward0, is at version 1; expected version 0 instead.",
        "[torch.FloatTensor [3]], which is output 0 of Exp, is at version 1; expected version 0 instead.",
    ),
    ("Output 0 of MulBackward0 is a view and is being modified", "Output 0 of Mul is a view and is being modified"),
    ("addmm: mat1 and mat2 shapes cannot be multiplied", "mat1 and mat2 shapes cannot be multiplied"),
    ("One of the differentiated Tensors appears unused", "The differentiated Tensor at index 0 appears unused"),
    ("max() iterable argument is empty", "max() arg is an empty sequence"),
]


def test_what_is_older_is_refused_and_what_is_newer_let_through(monkeypatch, capfd):
    for version, newer in (("2.10.0", False), ("2.15.3+cu132", False), ("2.16.0a0+git12", True), ("3.0.0", True)):
        monkeypatch.setattr(torch, "__version__", version)
        versions.refuse_older()
        told = f"The course was tried on PyTorch 2.10 to 2.15, and not yet on {version}."
        assert environment().note == versions.note() == (told if newer else "")
        assert (told in str(environment())) == newer
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    with pytest.raises(ImportError, match=r"^This course needs PyTorch 2\.10 or newer, and found 2\.9\.1\. Set the "):
        versions.refuse_older()
    assert capfd.readouterr() == ("", "")  # anything on stderr would cost a graded cell its points


@pytest.mark.nightly  # it changes with PyTorch, and not with a push
def test_importing_the_course_on_a_newer_pytorch_says_nothing():
    program = "import torch; torch.__version__ = '2.99.0'; import course_utils; course_utils.Lesson('detach')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize(("said", "shown"), MESSAGES)
def test_a_lesson_shows_what_every_release_says(said, shown, capsys):
    with expect_error(shown):
        raise RuntimeError(said)
    assert capsys.readouterr().out == f"RuntimeError: {shown.removesuffix('.')}\n"
    assert versions.stable(shown) == shown


def test_words_of_the_course_s_own_are_left_alone():
    for text in ("grad_fn=<ExpBackward0>", "the node MulBackward0 of y", "addmm: takes bias, mat1 and mat2"):
        assert versions.stable(text) == text


def test_an_expected_phrase_may_be_the_running_release_s_own(capsys):
    with expect_error("output 0 of ExpBackward0, is at"):
        raise RuntimeError("which is output 0 of ExpBackward0, is at version 1")
    assert capsys.readouterr().out == "RuntimeError: which is output 0 of Exp, is at version 1\n"
