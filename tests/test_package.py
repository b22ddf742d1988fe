"""The package as a whole: its public names, what importing it costs, and which torch it takes."""

import doctest
import importlib
import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import course_utils
from course_utils.__main__ import main


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


FOLDER = Path(course_utils.__file__).parent
SHOWN = sorted(path.relative_to(FOLDER.parent) for path in FOLDER.rglob("*.py") if ">>> " in path.read_text("utf-8"))


@pytest.mark.parametrize("path", SHOWN, ids=str)
def test_examples_in_docstrings_are_true(path):
    module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    names = {"torch": torch} | {public: getattr(course_utils, public) for public in course_utils.__all__}
    found = doctest.testmod(module, extraglobs=names)
    assert found.attempted > 0 == found.failed


def test_sections_are_read_by_their_headings():
    told = sections("One line.\n\n    Args:\n        first: this.\n\n    Returns:\n        That.\n    ")
    assert list(told) == ["Args", "Returns"] and told["Args"].strip() == "first: this."


# One after the other in one process, and what each loads of what is heavy.
HEAVY = ["torch", "torch._dynamo", "matplotlib", "IPython", "nbformat", "nbgrader", "sklearn", "pandas", "sqlite3"]
STEPS = [
    ("import course_utils", []),
    ("import course_utils.__main__, course_utils.workspace.__main__, course_utils.classroom.__main__", []),
    ("import torch, random; random.seed(0); torch.manual_seed(0); before = settings()", ["torch"]),
    ("for name in set(course_utils.__all__) - {'load_ipython_extension'}: getattr(course_utils, name)", []),
    ("assert course_utils.graph.references._owner_references.cache_info().currsize == 0 and settings() == before", []),
    ("course_utils.handwritten_digits()", []),
    ("with course_utils.MemoryTracker(): torch.ones(3, requires_grad=True).exp().sum().backward()", []),
    ("import sqlite3", ["sqlite3"]),
]
# And at last, another PyTorch.
OLDER = """
torch.__version__ = "2.4.1"
for name in [name for name in sys.modules if name.startswith("course_utils")]: del sys.modules[name]
try: from course_utils import Lesson
except ImportError as error: print(json.dumps(str(error)))"""
SETTINGS = """
def settings():
    return torch.get_rng_state().tolist(), random.getstate(), torch.get_default_dtype(), torch.is_grad_enabled()
"""


@pytest.fixture(scope="module")
def loaded():
    """What the steps load, in their order."""
    lines = ["import json, sys", SETTINGS, "heavy = set()"]
    for step, _ in STEPS:
        lines += [step, f"now = set({HEAVY}) & set(sys.modules)"]
        lines += ["print(json.dumps(sorted(now - heavy)))", "heavy = now"]
    result = run("\n".join([*lines, OLDER]))
    assert (result.returncode, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[step.replace("\n", "") for step, _ in STEPS])
def test_nothing_heavy_is_loaded_before_it_is_used(number, loaded):
    assert loaded[number] == STEPS[number][1]


def test_an_older_torch_is_refused_in_one_clear_sentence_before_it_is_used(loaded):
    assert loaded[-1].startswith("This course needs PyTorch 2.10 or newer, and found 2.4.1.")


def test_a_name_that_a_room_has_too_is_the_public_one():
    importlib.import_module("course_utils.progress.history")
    assert inspect.isfunction(course_utils.progress)
    assert course_utils.__all__ == sorted(set(dir(course_utils))) and "Lesson" in course_utils.__all__
    with pytest.raises(AttributeError, match="has no attribute 'lessen'"):
        _ = course_utils.lessen


def test_readable_versions_of_the_machine():
    shown = repr(course_utils.environment())
    assert sys.version.split()[0] in shown and "PyTorch" in shown and "device" in shown


def test_the_command_says_what_there_is_and_hands_on_what_it_is_asked(capsys):
    assert main([]) == 0
    help_text = capsys.readouterr().out
    assert main(["wy"]) == 2 and 'no command "wy"' in capsys.readouterr().err
    for word in re.findall(r"^  autograd-control (\w+)", help_text, flags=re.MULTILINE):
        with pytest.raises(SystemExit, match="0"):
            main([word, "--help"])
        assert f"usage: autograd-control {word}" in capsys.readouterr().out


def test_the_leak_finder_s_old_name_runs_and_says_the_new_one(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["memory", "no.py"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(importlib.import_module("course_utils.memory").__path__[0] + "/__main__.py", run_name="__main__")
    assert "is `autograd-control leaks` now" in capsys.readouterr().err.splitlines()[0]
