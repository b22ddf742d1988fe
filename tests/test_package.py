"""The package as a whole: its public names, what importing it costs, and which torch it takes."""

import doctest
import inspect
import re
import subprocess
import sys

import pytest
import torch

import course_utils


def run(source):
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)


def documented():
    """Every public name with its object, and every public method and property of the classes."""
    for name in course_utils.__all__:
        value = getattr(course_utils, name)
        yield name, value
        for member, found in vars(value).items() if inspect.isclass(value) else ():
            if not member.startswith("_") and (callable(found) or isinstance(found, property)):
                yield f"{name}.{member}", found


def sections(docstring):
    """The sections of a docstring in Google's style: their text by their heading."""
    parts = re.split(r"^(\w+):\n(?= {4})", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(("name", "value"), list(documented()), ids=lambda part: part if isinstance(part, str) else "")
def test_every_public_name_has_the_sections_that_its_signature_asks_for(name, value):
    assert value.__doc__ and value.__doc__.count("`") % 2 == 0
    if isinstance(value, property):
        return
    found, signature = sections(value.__doc__), inspect.signature(value)
    asked = {str(one).split(":")[0].split("=")[0].strip() for one in signature.parameters.values()} - {"self"}
    told = re.findall(r"^    ([*\w]+):", found.get("Args", "") + found.get("Attributes", ""), flags=re.MULTILINE)
    assert sorted(asked - set(told)) == []
    if asked and not inspect.isclass(value) and signature.return_annotation not in (None, "None"):
        assert {"Returns", "Yields"} & set(found)


@pytest.mark.parametrize(
    "name", [name for name in course_utils.__all__ if ">>> " in getattr(course_utils, name).__doc__]
)
def test_examples_in_docstrings_are_true(name):
    names = {"torch": torch} | {public: getattr(course_utils, public) for public in course_utils.__all__}
    example = inspect.getdoc(getattr(course_utils, name))
    test = doctest.DocTestParser().get_doctest(example, names, name, None, None)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_sections_are_read_by_their_headings():
    told = sections("One line.\n\n    Args:\n        first: this.\n\n    Returns:\n        That.\n    ")
    assert list(told) == ["Args", "Returns"] and told["Args"].strip() == "first: this."


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
