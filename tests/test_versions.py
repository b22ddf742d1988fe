"""Which PyTorch the course runs on and what is shown in each of them; `make versions`, but for what it installs."""

import subprocess
import sys

import pytest
import torch

from course_utils.base import versions
from course_utils.base.expected import expect_error
from course_utils.measure.machine import environment
from tools import versions as tool

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


METADATA = """Name: torch
Requires-Dist: filelock
Requires-Dist: cuda-toolkit[cublas,cudart,cusparse,nvrtc]==13.2.2; platform_system == "Linux"
Requires-Dist: nvidia-cudnn-cu13==9.26.0.51; platform_system == "Linux"
Requires-Dist: nvidia-cusparselt-cu13==0.8.1; platform_system == "Linux"
Requires-Dist: nvidia-cuda-runtime-cu12==12.8.90; extra == "older"
"""


@pytest.mark.parametrize(
    ("library", "requirement"),
    [
        ("libcublasLt", "cuda-toolkit[cublas]==13.2.2"),
        ("libcudnn", "nvidia-cudnn-cu13==9.26.0.51"),
        ("libcusparse", "cuda-toolkit[cusparse]==13.2.2"),
        ("libcusparseLt", "nvidia-cusparselt-cu13==0.8.1"),
        ("libcudart", "nvidia-cuda-runtime-cu12==12.8.90"),
    ],
)
def test_a_missing_library_comes_from_the_package_that_pytorch_asks_for(tmp_path, library, requirement):
    (tmp_path / "torch-2.15.0.dist-info").mkdir()
    (tmp_path / "torch-2.15.0.dist-info" / "METADATA").write_text(METADATA, encoding="utf-8")
    assert tool.package_with(library, tmp_path) == requirement
    with pytest.raises(RuntimeError, match="PyTorch needs libnew, and asks for none of that name: cublas, "):
        tool.package_with("libnew", tmp_path)


@pytest.mark.parametrize(
    ("said", "library"),
    [
        ("ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory", "libcudnn"),
        ("OSError: libcusparseLt.so.0: cannot open shared object file", "libcusparseLt"),
        ("ValueError: libcublas.so.*[0-9] not found in the system path ['']", "libcublas"),
    ],
)
def test_the_loader_s_error_names_the_library(said, library):
    found = tool.MISSING.search(said)
    assert found is not None and (found[1] or found[2]) == library


REPORT = """<testsuites><testsuite>
<testcase classname="notebooks.solutions.03_detach.ipynb" name="Cell 0"/>
<testcase classname="tests.lessons.test_proofs" name="a"/>
<testcase classname="tests.lessons.test_proofs" name="b"><failure message="no"/></testcase>
<testcase classname="tests.test_memory" name="c"/>
<testcase classname="tests.test_memory" name="d"><skipped message="no accelerator"/></testcase>
<testcase classname="tests.leaks.test_watch" name="e"><error message="no"/></testcase>
<testcase classname="" name="tests.leaks.test_transformers"><skipped message="collection skipped">
('test_transformers.py', 9, "Skipped: could not import 'transformers'")</skipped></testcase>
</testsuite></testsuites>"""


def test_a_release_is_told_in_one_line(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT, encoding="utf-8")
    ran = tool.read(tmp_path / "report.xml")
    assert ran.line() == (
        "notebook cells 1 passed; proofs 1 passed, 1 failed; instrument tests 1 passed, 1 failed, 2 skipped. "
        "Skipped: no accelerator (1); could not import 'transformers' (1)"
    )
    assert ran.failed == ["FAILED tests.lessons.test_proofs b", "FAILED tests.leaks.test_watch e"] and not ran.green
    (tmp_path / "report.xml").write_text(REPORT.replace("failure", "system-out").replace("error", "system-out"))
    assert tool.read(tmp_path / "report.xml").green
    gone = tool.Ran(failed=["PyTorch 2.17.0 has no torch._C.name"])
    assert (gone.line(), gone.green) == ("not run: PyTorch 2.17.0 has no torch._C.name", False)


@pytest.mark.parametrize("patterns", tool.GROUPS.values(), ids=tool.GROUPS)
def test_what_is_run_is_there(patterns):
    assert all(tool.find(pattern) for pattern in patterns)
    with pytest.raises(FileNotFoundError, match="Mend GROUPS"):
        tool.find("tests/test_nothing.py")


def test_each_release_is_run_here_and_the_newest_on_the_other_pythons(monkeypatch):
    others = {"python3.11": ((3, 11), True, "/3.11"), "python3.13": ((3, 13), True, "/3.13")}
    here = f"python3.{sys.version_info[1]}"
    monkeypatch.setattr(tool.bootstrap, "probe", lambda command: others.get(command) if command != here else None)
    found = tool.pairs(["2.10.0", versions.RELEASES[-1]], None)
    assert found[:2] == [("2.10.0", sys.executable), (versions.RELEASES[-1], sys.executable)]
    assert {release for release, _ in found[2:]} == {versions.RELEASES[-1]}
    assert {path for _, path in found[2:]} == {path for name, (*_, path) in others.items() if name != here}


@pytest.mark.parametrize("part", ["torch", "networkx", "jupyterlab"])
def test_what_is_shared_is_everything_but_pytorch(part):
    names = {tool.Requirement(line).name for line in tool.everything_but_torch()}
    assert (part in names) == (part != "torch")
