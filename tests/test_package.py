"""The package as a whole: its public names, what importing it costs, and which torch it takes."""

import subprocess
import sys

import pytest

import course_utils


def run(source):
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", course_utils.__all__)
def test_every_public_name_can_be_had_and_is_documented(name):
    value = getattr(course_utils, name)
    assert value.__doc__


def test_importing_brings_in_no_drawing_no_notebook_and_no_grader():
    heavy = "{'matplotlib', 'IPython', 'nbgrader', 'nbformat', 'sklearn', 'sqlite3', 'pandas'}"
    source = "import torch, sys; before = set(sys.modules); import course_utils; "
    result = run(source + f"print(({heavy} & set(sys.modules)) - before)")
    assert result.stdout.strip() == "set()", result.stderr


def test_the_guard_on_imports_can_fail():
    assert run("import sqlite3, sys; print({'sqlite3'} & set(sys.modules))").stdout.strip() == "{'sqlite3'}"


def test_importing_changes_nothing_and_says_nothing():
    source = """
import torch, random
random.seed(0); torch.manual_seed(0)
before = torch.get_rng_state(), random.getstate(), torch.get_default_dtype(), torch.is_grad_enabled()
import course_utils
after = torch.get_rng_state(), random.getstate(), torch.get_default_dtype(), torch.is_grad_enabled()
assert torch.equal(before[0], after[0]) and before[1:] == after[1:]
"""
    result = run(source)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_an_older_torch_is_refused_in_one_clear_sentence():
    result = run("import torch; torch.__version__ = '2.4.1'; import course_utils")
    assert result.returncode != 0
    assert (
        result.stderr.strip()
        .splitlines()[-1]
        .startswith("ImportError: This course needs PyTorch 2.13 or newer, and found 2.4.1.")
    )


def test_readable_versions_of_the_machine():
    shown = repr(course_utils.environment())
    assert sys.version.split()[0] in shown and "PyTorch" in shown and "device" in shown
