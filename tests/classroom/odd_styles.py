"""Right answers by students with unusual habits (``STYLES``): each keeps all its points and is listed nowhere.

Each is a notebook in which every answer is right, changed in one way. Most are rows of a table: ``#: name`` begins a
row, what follows is a helper cell after the set-up cell, ``#+`` begins another one, ``#> exercise`` an answer.

What a helper cell does is ``needed``: the answer to ``snapshot`` calls ``severed``, which the cell defines in its last
lines, so that a cell which is refused half-way costs a point. What is ``beside`` the answers may be lost alone: a cell
that raises, prints or runs without end, or ends its process. Answers may also stand ``elsewhere`` than in their cell.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from course_utils.classroom.judging.director import STRANGE_WORDS
from tests.classroom.handed_in import Notebook, released, solutions

WRITTEN = "Because the log keeps the graph."
RIGHT = "def snapshot(x):\n    return x.detach().clone()"
SEVERED = "\n\ndef severed(x):\n    return x.detach()"

# Exercises that are graded in every style of a lesson: one at least that the style has nothing to do with.
ENOUGH = ("snapshot", "stop_gradient_round")
OTHERS = {"03_detach": ENOUGH, "01_requires_grad": ("freeze",), "05_no_grad": ("frozen_features",)}

PATIENCE, IMPATIENCE = 20.0, 1.0  # seconds for a cell or a check; the second for rows that take all of it
ENDLESS = frozenset(
    {
        "prints-without-end",
        "loops-without-end",
        "catches-its-own-interruption",
        "waits-without-end",
        "recurses-without-end",  # what takes long is the traceback
    }
)
# Of which a note may say that a cell was lost. About all others nothing may be said.
LOST = "was left out|was interrupted"
TOLD = ENDLESS | {
    *("prints-2-gb", "takes-what-there-is", "aborts", "crashes-in-c", "kills-itself"),
    *("ends-its-process", "ends-its-process-half-way", "ends-its-process-three-times"),
}


@cache
def short(assignment: str, exercises: tuple[str, ...]) -> str:
    """A released notebook without the answer and check cells of all other exercises."""
    left_out = {*solutions(assignment)} - {*exercises}
    notebook = json.loads(released(assignment))
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"].removesuffix("-check") not in left_out]
    return json.dumps(notebook)


@dataclass(frozen=True)
class Style:
    """One unusual way to hand in right answers.

    Attributes:
        name: what is unusual about it.
        edit: changes a solved notebook.
        exercises: those that are graded, besides the written question; as few as will do, for there are many styles.
        assignment: the lesson.
        cells: the helper cells that are all there is to it, so that others like it may stand in the same notebook.
        is_needed: whether the answer to ``snapshot`` calls the ``severed`` that the last of these defines.
    """

    name: str
    edit: Callable[[Notebook], Any]
    exercises: tuple[str, ...] = ENOUGH
    assignment: str = "03_detach"
    cells: tuple[str, ...] = ()
    is_needed: bool = False

    @property
    def seconds(self) -> float:
        """The limit of a cell and of a check."""
        return IMPATIENCE if self.name in ENDLESS else PATIENCE

    @property
    def released(self) -> str:
        """What the student got."""
        return short(self.assignment, self.exercises)

    def notebook(self) -> Notebook:
        """What is handed in."""
        notebook = Notebook(self.assignment)
        kept = {cell["id"] for cell in json.loads(self.released)["cells"]}
        notebook.data["cells"] = [cell for cell in notebook.cells if cell["id"] in kept]
        notebook.solve(*self.exercises).cell("written")["source"] = WRITTEN
        self.edit(notebook)
        return notebook

    def untold(self, notes: tuple[str, ...]) -> list[str]:
        """Those of a report's notes that need not be there: words are listed at no cost."""
        return [
            note
            for note in notes
            if not re.search(f"{LOST}|{STRANGE_WORDS}" if self.name in TOLD else STRANGE_WORDS, note)
        ]


def rows(table: str) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """(name, cells, answers by exercise) of every row of a table."""
    parts = re.split(r"^#: (.+)\n", table, flags=re.MULTILINE)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        cells, *answers = re.split(r"^#> (\w+)\n", body, flags=re.MULTILINE)
        helpers = [cell.strip("\n") for cell in re.split(r"^#\+\n", cells, flags=re.MULTILINE)]
        given = {exercise: source.strip("\n") for exercise, source in zip(answers[::2], answers[1::2], strict=True)}
        yield name, helpers if cells.strip("\n") else [], given


def needed(table: str) -> list[Style]:
    """Helper cells, the last of which defines what the answer to ``snapshot`` needs."""
    return [_needed(name, [tuple(cells)]) for name, cells, _ in rows(table)]


def _needed(name: str, styles: list[tuple[str, ...]]) -> Style:
    """Styles whose answer calls what each of them defines."""
    numbers = [""] if len(styles) == 1 else [f"_{number}" for number, _ in enumerate(styles)]
    helpers = [SEVERED.replace("severed", f"severed{number}") for number in numbers]
    cells = [cell for own, helper in zip(styles, helpers, strict=True) for cell in (*own[:-1], own[-1] + helper)]
    calls = "".join(f"    severed{number}(x)\n" for number in numbers[1:])
    answer = f"def snapshot(x):\n{calls}    return severed{numbers[0]}(x).clone()"
    own = styles[0] if len(styles) == 1 and name not in TOLD else ()
    return Style(name, _writing(cells, {"snapshot": answer}), cells=own, is_needed=True)


def together(styles: list[Style]) -> Style:
    """One notebook in the style of several students."""
    name, cells = " + ".join(style.name for style in styles), [style.cells for style in styles]
    if styles[0].is_needed:
        return _needed(name, cells)
    return Style(name, _writing([cell for own in cells for cell in own], {}))


def answered(table: str) -> list[Style]:
    """Other answers, with helper cells."""
    return [
        Style(name, _writing(cells, answers), tuple(dict.fromkeys((*others, *answers))), assignment)
        for name, cells, answers in rows(table)
        for assignment, others in OTHERS.items()
        if {*answers} <= {*solutions(assignment)}
    ]


def beside(table: str, after: str = "setup") -> list[Style]:
    """Cells that no answer needs."""
    return [
        Style(name, _writing(cells, {}, after), cells=() if name in TOLD or after != "setup" else tuple(cells))
        for name, cells, _ in rows(table)
    ]


def elsewhere(table: str) -> list[Style]:
    """The answer to ``snapshot`` in cells of its own; the answer cell stays as it was released."""
    stub = {"snapshot": Notebook().cell("snapshot")["source"]}
    return [Style(name, _writing(cells, stub, "snapshot")) for name, cells, _ in rows(table)]


def _writing(cells: list[str], answers: dict[str, str], after: str = "setup") -> Callable[[Notebook], None]:
    def edit(notebook: Notebook) -> None:
        for cell in reversed(cells):
            notebook.add(cell, after=after)
        notebook.write(**answers)

    return edit


# ------------------------------------------------------------------------------------------ words that attacks use, too

WORDS = [
    *needed(r"""
#: asks-whether-this-is-colab
import sys

IN_COLAB = "google.colab" in sys.modules
if IN_COLAB:
    %pip install -q torch

#: puts-a-stub-into-sys-modules
import sys
import types

try:
    from tqdm.auto import tqdm
except ImportError:
    sys.modules["tqdm"] = types.ModuleType("tqdm")
    sys.modules["tqdm"].tqdm = lambda items, **_: items
    from tqdm import tqdm

for _ in tqdm(range(3)):
    pass

#: makes-a-module-by-hand
import sys
import types

sys.modules["my_helpers"] = types.ModuleType("my_helpers")
exec("def twice(x):\n    return 2 * x", vars(sys.modules["my_helpers"]))
from my_helpers import twice

assert twice(2) == 4

#: forgets-a-module-to-load-it-again
import sys

for name in [name for name in sys.modules if name.startswith("colorsys")]:
    del sys.modules[name]
import colorsys

#: mocks-a-package
import sys
from unittest.mock import MagicMock, patch

sys.modules["wandb"] = MagicMock()
import wandb

wandb.init(project="detach").log({"loss": 1})
with patch("builtins.print") as printed, patch.object(torch, "manual_seed"):
    print("hidden")
assert printed.called

#: reads-the-cores-from-proc-cpuinfo
with open("/proc/cpuinfo") as file:
    print(sum(line.startswith("processor") for line in file), "cores")

#: reads-its-memory-from-proc-self-status
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024

before = resident()
big = torch.ones(1000, 1000)
print("grew by", resident() - before)
del big

#: looks-at-proc-meminfo-and-loadavg
from pathlib import Path

print(Path("/proc/meminfo").read_text().splitlines()[0], Path("/proc/loadavg").read_text())

#: has-rules-of-its-own
class Rules:
    def __init__(self):
        self._rules, self.exercises, self.truth = [], {}, None

    def add(self, rule):
        self._rules.append(rule)
        return rule

    def hold(self, value):
        return all(rule(value) for rule in self._rules)

rules = Rules()
rules.add(torch.is_tensor)
assert rules.hold(torch.ones(2))

#: lists-the-lesson-s-exercises
print(list(lesson.exercises))
for name, exercise in lesson.exercises.items():
    print(name, exercise.points, len(exercise.hints))

#: imports-the-score-s-class
from course_utils.checks.score import Claim, Score

score = lesson.check("snapshot", lambda x: x)
assert isinstance(score, Score) and all(isinstance(claim, Claim) for claim in score.claims)

#: reads-the-course-s-own-code
import inspect

import course_utils.checks.judge
import course_utils.checks.trial
from course_utils import Lesson

print(inspect.getsource(Lesson.check), inspect.getsource(course_utils.checks.trial.Trial)[:100])
print(course_utils.checks.judge.TIDY, course_utils.__all__)

#: looks-into-a-closure
def counter():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    return step

step = counter()
step()
assert step.__closure__[0].cell_contents == 1
assert step.__code__.co_freevars == ("count",)

#: looks-at-constants-of-code
import dis

def area(radius):
    return 3.14 * radius**2

print(area.__code__.co_consts, area.__code__.co_varnames)
dis.dis(area)

#: looks-at-globals-of-a-function
def here():
    return None

assert here.__globals__ is globals()
print(sorted(name for name in here.__globals__ if not name.startswith("_"))[:5])

#: lists-subclasses
class Shape:
    pass

class Circle(Shape):
    pass

assert Shape.__subclasses__() == [Circle]
print(len(nn.Module.__subclasses__()), torch.optim.Optimizer.__subclasses__())

#: walks-a-traceback
import sys
import traceback

try:
    torch.ones(2).view(3)
except RuntimeError as error:
    step = error.__traceback__
    while step.tb_next:
        step = step.tb_next
    print(step.tb_frame.f_code.co_name, step.tb_lineno, list(step.tb_frame.f_locals)[:1])
    print([frame.f_lineno for frame, _ in traceback.walk_tb(sys.exc_info()[2])])

#: asks-ctypes-for-sizes
import ctypes

print(ctypes.sizeof(ctypes.c_int), ctypes.c_int(3).value, ctypes.sizeof(ctypes.c_double * 4))

#: trims-the-heap
import ctypes
import gc

gc.collect()
print("returned:", ctypes.CDLL("libc.so.6").malloc_trim(0))

#: decorates-with-torch-compile-and-does-not-call
@torch.compile
def fused(x, y):
    return (x * y).tanh()

@torch.compile(mode="max-autotune")
class Fused(nn.Module):
    pass

#: compiles-with-the-eager-backend
@torch.compile(backend="eager")
def fused(x, y):
    return (x * y).tanh()

print(fused(torch.ones(2), torch.ones(2)))
"""),
    *answered(r'''
#: reads-its-memory-in-an-answer
#> snapshot
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

def snapshot(x):
    before = resident()
    result = x.detach().clone()
    print("pages:", resident() - before)
    return result

#: proc-in-a-link-in-a-docstring
#> snapshot
def snapshot(x):
    """Copies x. How memory is counted: https://www.kernel.org/doc/html/latest/filesystems/proc/index.html

    See also https://example.org/proc/self/mem and the article "__globals__ and __subclasses__, explained".
    """
    return x.detach().clone()

#: a-compiled-answer
#> snapshot
@torch.compile(backend="eager")
def snapshot(x):
    return x.detach().clone()
'''),
]


# --------------------------------------------------------------------------------------------- what nobody need look at

HARMLESS = [
    *needed(r"""
#: appends-to-the-search-path
import sys

sys.path.append("..")
sys.path.insert(0, "/content/drive")

#: imports-six
import six

print(six.PY3)

#: imports-setuptools
import setuptools
import pkgutil

print(setuptools.__version__)

#: imports-scikit-learn
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score

print(accuracy_score([0, 1], [0, 1]), LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0]).coef_)

#: times-with-torch-s-benchmark
from torch.utils import benchmark

print(benchmark.Timer("x + 1", globals={"x": torch.ones(2)}).timeit(10))

#: prints-tensors-shorter
torch.Tensor.__repr__ = lambda self, **_: f"tensor{tuple(self.shape)} {self.dtype}"
torch.ones(2)

#: prints-warnings-shorter
import warnings

warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"
warnings.warn("shown in one line")

#: silences-warnings-for-good
import warnings

def warn(*args, **kwargs):
    pass

warnings.warn = warn
warnings.filterwarnings("ignore")

#: flushes-every-print
import builtins
import functools

builtins.print = functools.partial(print, flush=True)
print("at once")

#: initialises-every-linear-layer-differently
def xavier(self):
    nn.init.xavier_uniform_(self.weight)
    if self.bias is not None:
        nn.init.zeros_(self.bias)

nn.Linear.reset_parameters = xavier
print(nn.Linear(2, 2).bias)

#: leaves-a-hook-on-all-modules
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook

names = []
register_module_forward_hook(lambda module, args, output: names.append(type(module).__name__))
register_module_full_backward_hook(lambda module, grad_input, grad_output: None)
nn.Linear(2, 2)(torch.ones(1, 2))
assert names == ["Linear"]

#: says-on-which-platform
import platform

print(platform.platform(), platform.python_version(), platform.processor(), platform.uname().node)

#: clears-the-terminal
import os

os.system("clear")
os.system("cls" if os.name == "nt" else "true")

#: asks-nvidia-smi
import shutil
import subprocess

try:
    print(subprocess.run(["nvidia-smi"], capture_output=True, text=True).stdout)
except FileNotFoundError:
    print("no GPU", shutil.which("nvidia-smi"))
!nvidia-smi

#: tries-to-download
import socket
import urllib.request

socket.setdefaulttimeout(2)
try:
    urllib.request.urlopen("https://course.invalid/data.csv", timeout=2).read()
except OSError as error:
    print("working offline:", error)
try:
    socket.create_connection(("198.51.100.1", 53), timeout=0.2).close()
except OSError:
    print("no network")
socket.setdefaulttimeout(None)

#: profiles-with-prun
%prun -q torch.ones(2).sum()
%prun -l 3 torch.ones(3).sum()

#: profiles-with-cprofile
import cProfile
import pstats

profile = cProfile.Profile()
profile.enable()
torch.ones(3).sum()
profile.disable()
pstats.Stats(profile).sort_stats("cumulative").print_stats(3)
with cProfile.Profile() as profile:
    torch.ones(3).sum()

#: keeps-a-debugger-at-hand
import pdb

from IPython.core.debugger import set_trace

DEBUG = False

def half(x):
    if DEBUG:
        pdb.set_trace()
        breakpoint()
        set_trace()
    return x / 2

assert half(2) == 1
pdb.Pdb(nosigint=True, readrc=False)

#: looks-for-tensors-in-all-objects
import gc

def tensors():
    found = []
    for item in gc.get_objects():
        try:
            if torch.is_tensor(item) or (hasattr(item, "data") and torch.is_tensor(item.data)):
                found.append(tuple(item.shape))
        except Exception:
            pass
    return found

print(len(tensors()), "tensors")

#: uses-a-pool-of-processes
import math
from concurrent.futures import ProcessPoolExecutor

with ProcessPoolExecutor(2) as pool:
    assert list(pool.map(math.factorial, [3, 4])) == [6, 24]
"""),
    *answered(r"""
#: puts-a-profile-decorator-into-builtins
import builtins

if not hasattr(builtins, "profile"):
    builtins.profile = lambda function: function
#> snapshot
@profile
def snapshot(x):
    return x.detach().clone()

#: adds-a-method-to-tensors
torch.Tensor.copied = lambda self: self.detach().clone()
nn.Module.size = lambda self: len(list(self.parameters()))
#> snapshot
def snapshot(x):
    return x.copied()

#: logs-who-called-it
import inspect

def severed(x):
    print(inspect.stack()[1].function, inspect.currentframe().f_back.f_lineno)
    return x.detach()

severed(torch.ones(2))
#> snapshot
def snapshot(x):
    return severed(x).clone()

#: names-itself-by-its-frame
import inspect
import sys

print(sys._getframe().f_code.co_name, inspect.currentframe().f_lineno)
#> snapshot
def snapshot(x):
    name = sys._getframe().f_code.co_name
    print(f"{name} in line {inspect.currentframe().f_lineno}")
    return x.detach().clone()

#: counts-tensors-while-it-answers
import gc

def living():
    return sum(isinstance(item, torch.Tensor) for item in gc.get_objects())

print(living())
#> mean_loss
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total += loss_fn(model(x), y).item()
        count += 1
        print(count, living())
    if not count:
        raise ValueError("no batches")
    return torch.tensor(total / count, dtype=torch.float64)

#: asks-who-holds-a-tensor
import gc

def holders(x):
    return [type(holder).__name__ for holder in gc.get_referrers(x)]

kept = [torch.ones(2)]
print(holders(kept[0]), len(gc.get_referents(kept)))
#> snapshot
def snapshot(x):
    result = x.detach().clone()
    holders(result)
    return result
"""),
]


# -------------------------------------------------------------------------------------------- answers in unusual places

PLACES = [
    *answered(r"""
#: answers-under-time
#> snapshot
%%time
def snapshot(x):
    return x.detach().clone()

#: answers-under-capture
#> snapshot
%%capture printed
print('hello')
def snapshot(x):
    return x.detach().clone()

#: answers-under-the-course-s-memory-magic
%load_ext course_utils
#> snapshot
%%memory
def snapshot(x):
    return x.detach().clone()

snapshot(torch.ones(100))

#: answers-by-globals
#> snapshot
globals()["snapshot"] = lambda x: x.detach().clone()

#: imports-in-its-answer-from-a-folder-of-its-own
%mkdir -p own_lib
#+
%%writefile own_lib/own_tools.py
def severed(x):
    return x.detach()
#+
import sys
import types

sys.path.insert(0, "own_lib")
sys.modules["own_copies"] = types.ModuleType("own_copies")
sys.modules["own_copies"].copied = lambda x: x.clone()
#> snapshot
def snapshot(x):
    from own_copies import copied
    from own_tools import severed

    return copied(severed(x))

#: uses-one-answer-in-another
#> snapshot
def snapshot(x):
    return without_history(x).clone()

def without_history(x):
    return x.detach()
#> stop_gradient_round
def stop_gradient_round(x):
    return x + without_history(snapshot(x.round() - x))

#: answers-from-a-loop-over-templates
#> snapshot
for name, way in {"snapshot": "x.detach().clone()", "thrice": "3 * x"}.items():
    exec(f"def {name}(x):\n    return {way}")

#: answers-by-an-import-in-the-answer-cell
%%writefile mine.py
def snapshot(x):
    return x.detach().clone()
#> snapshot
from mine import snapshot

#: defines-under-if
#> snapshot
if torch.__version__:
    def snapshot(x):
        return x.detach().clone()

#: defines-under-main
#> snapshot
if __name__ == "__main__":
    def snapshot(x):
        return x.detach().clone()

#: defines-under-try
#> snapshot
try:
    from my_unpublished_package import snapshot
except ImportError:
    def snapshot(x):
        return x.detach().clone()

#: unpacks-its-answer
#> snapshot
snapshot, thrice = (lambda x: x.detach().clone()), (lambda x: 3 * x)

#: checks-itself-in-the-answer-cell
#> snapshot
def snapshot(x):
    return x.detach().clone()

score = lesson.check("snapshot", snapshot)
assert score == score.possible
score

#: fails-its-own-assert-after-the-definition
#> snapshot
def snapshot(x):
    return x.detach().clone()

assert snapshot(torch.ones(2)).sum() == 3, 'counted wrongly'

#: raises-after-the-definition
#> snapshot
def snapshot(x):
    return x.detach().clone()

snapshot('text')
unfinished = snapshot(3)
"""),
    *elsewhere(r"""
#: answers-under-time-in-a-new-cell
%%time
def snapshot(x):
    return x.detach().clone()

#: answers-under-capture-in-a-new-cell
%%capture printed
def snapshot(x):
    return x.detach().clone()

#: answers-by-globals-in-a-new-cell
globals()["snapshot"] = lambda x: x.detach().clone()

#: answers-by-setattr
import __main__

setattr(__main__, "snapshot", lambda x: x.detach().clone())

#: answers-by-push
get_ipython().push({"snapshot": lambda x: x.detach().clone()})

#: answers-by-a-global-statement
def define():
    global snapshot

    def snapshot(x):
        return x.detach().clone()

define()

#: answers-from-a-file
%%writefile answers.py
def snapshot(x):
    return x.detach().clone()
#+
from answers import snapshot

#: answers-from-all-of-a-file
%%writefile answers.py
def snapshot(x):
    return x.detach().clone()
#+
from answers import *

#: answers-by-running-a-file
%%writefile answers.py
def snapshot(x):
    return x.detach().clone()
#+
%run answers.py

#: answers-under-a-magic-of-its-own
from IPython.core.magic import register_cell_magic

@register_cell_magic
def noted(line, cell):
    print("running", line)
    get_ipython().run_cell(cell)
#+
%%noted snapshot
def snapshot(x):
    return x.detach().clone()
"""),
    *needed(r"""
#: writes-a-module-and-imports-it
%%writefile helpers.py
def twice(x):
    return 2 * x
#+
import helpers
from helpers import twice

assert helpers.twice(2) == twice(2) == 4

#: reloads-a-module-of-its-own
%%writefile tools.py
VERSION = 1
#+
import importlib
from pathlib import Path

import tools

Path('tools.py').write_text('VERSION = 1  # again')
importlib.reload(tools)
assert tools.VERSION == 1

#: writes-a-package-and-reloads-by-autoreload
!mkdir -p lib
!touch lib/__init__.py
!echo 'THREE = 3' > lib/numbers.py
#+
%load_ext autoreload
%autoreload 2
from lib.numbers import THREE

assert THREE == 3

#: runs-a-file
%%writefile set_up.py
THREE = 3
#+
%run set_up.py
assert THREE == 3
"""),
    *beside(
        r"""
#: raises-in-a-cell-of-its-own-after-the-definition
assert snapshot(torch.ones(2)).sum() == 3
#+
snapshot('text')
""",
        after="snapshot",
    ),
]


def _answer_in_check_cell(notebook: Notebook) -> None:
    notebook.write(snapshot=Notebook().cell("snapshot")["source"])
    check = notebook.cell("snapshot-check")
    check["source"] = f"{RIGHT}\n\n{check['source']}"


def _all_in_one_cell(notebook: Notebook) -> None:
    notebook.add("\n\n".join(notebook.cell(name)["source"] for name in ENOUGH), after="setup")
    for name in ENOUGH:
        notebook.remove(name)


def _imports_in_set_up(notebook: Notebook) -> None:
    notebook.cell("setup")["source"] = "import copy\nimport math\n\n" + notebook.cell("setup")["source"]
    notebook.write(snapshot="def snapshot(x):\n    assert math.pi > 3\n    return copy.deepcopy(x.detach())")


def _only_answers(notebook: Notebook) -> None:
    keep = {"setup", "written", *ENOUGH}
    notebook.data["cells"] = [cell for cell in notebook.cells if cell["id"] in keep]


def _one_name_for_two_helpers(notebook: Notebook) -> None:
    notebook.add("def tool(x):\n    return x.detach()", after="setup")
    notebook.add("del tool, snapshot", after="snapshot-check")
    notebook.add("def tool(x):\n    return (x.round() - x).detach()", after="stop-zero")
    notebook.write(
        snapshot="def snapshot(x):\n    return tool(x).clone()",
        stop_gradient_round="def stop_gradient_round(x):\n    return x + tool(x)",
    )


def _helper_from_an_answer(notebook: Notebook) -> None:
    notebook.add("from functools import partial\n\nkeep = partial(snapshot)", after="snapshot-check")
    notebook.write(stop_gradient_round="def stop_gradient_round(x):\n    return x + keep(x.round() - x)")


def _other_check(source: str) -> Callable[[Notebook], None]:
    return lambda notebook: notebook.cell("snapshot-check").update(source=source)


PLACES += [
    Style("runs-its-answer-twice", lambda notebook: notebook.paste("snapshot", after="snapshot")),
    Style("puts-an-answer-into-the-check-cell", _answer_in_check_cell),
    Style("puts-all-answers-into-one-cell", _all_in_one_cell),
    Style("imports-in-the-set-up-cell", _imports_in_set_up),
    Style("keeps-nothing-but-answers", _only_answers),
    Style("gives-two-helpers-one-name", _one_name_for_two_helpers),
    Style("makes-a-helper-of-an-answer", _helper_from_an_answer),
    Style(
        "tries-a-wrong-answer-after-the-check",
        lambda notebook: notebook.add("def snapshot(x):\n    return x\n\n\nsnapshot(3)", after="snapshot-check"),
    ),
    Style("prints-its-check", _other_check('print(lesson.check("snapshot", snapshot))')),
    Style("checks-twice-in-the-check-cell", _other_check('lesson.check("snapshot", snapshot);\nlesson.scorecard()')),
]


# ------------------------------------------------------------------------------------------------------ written answers


def _written_elsewhere(after: str = "written", kind: str = "markdown") -> Callable[[Notebook], None]:
    def edit(notebook: Notebook) -> None:
        notebook.cell("written")["source"] = Notebook().cell("written")["source"]
        notebook.add(WRITTEN, after=after, kind=kind)

    return edit


def _replaced(notebook: Notebook) -> None:
    notebook.add(WRITTEN, after="written", kind="markdown").remove("written")


def _as_colab_saves(notebook: Notebook) -> None:
    """No ids, and nothing of nbgrader's in the metadata."""
    notebook.data |= {"nbformat_minor": 0, "metadata": {"colab": {"provenance": []}, "kernelspec": {"name": "python3"}}}
    for place, cell in enumerate(notebook.cells):
        cell.pop("id", None)
        cell["metadata"] = {"id": f"Ab{place:010d}"}


def _under_the_question(notebook: Notebook) -> None:
    notebook.cell("written-text")["source"] += f"\n\n**Answer.** {WRITTEN}"
    notebook.remove("written")


def _written_cell(**fields: Any) -> Callable[[Notebook], None]:
    return lambda notebook: notebook.cell("written").update(fields)


WRITING = [
    Style("writes-into-the-next-cell", _written_elsewhere()),
    Style("writes-above-the-cell", _written_elsewhere(after="written-text")),
    Style("writes-at-the-end", _written_elsewhere(after="end")),
    Style("writes-into-a-raw-cell", _written_elsewhere(kind="raw")),
    Style("replaces-the-written-cell", _replaced),
    Style("replaces-the-written-cell-in-colab", lambda notebook: (_replaced(notebook), _as_colab_saves(notebook))),
    Style("loses-all-metadata-in-colab", _as_colab_saves),
    Style("loses-the-metadata-of-the-written-cell", _written_cell(id="w1", metadata={})),
    Style("turns-the-written-cell-into-a-raw-one", _written_cell(cell_type="raw")),
    Style("writes-under-what-was-there", _written_cell(source=f"*Your answer here.*\n\n{WRITTEN}")),
    Style("writes-under-the-question", _under_the_question),
    Style(
        "merges-question-and-answer",
        lambda notebook: notebook.merge("written-text", "written", active="written-text"),
    ),
    Style(
        "writes-a-comment-in-a-code-cell",
        _written_cell(cell_type="code", source=f"# {WRITTEN}", outputs=[], execution_count=None),
    ),
    Style(
        "answers-by-a-picture",
        _written_cell(source="![](attachment:scan.png)", attachments={"scan.png": {"image/png": "iVBORw0KGgo="}}),
    ),
    Style(
        "gives-new-ids-to-all-cells",
        lambda notebook: [cell.update(id=f"{place:08x}") for place, cell in enumerate(notebook.cells)],
    ),
]


# --------------------------------------------------------------------------- cells that are lost, and lose nothing else

ACCIDENTS = [
    *beside(r"""
#: prints-without-end
while True:
    print("x" * 10_000)

#: loops-without-end
while True:
    pass

#: catches-its-own-interruption
while True:
    try:
        torch.ones(9).sum()
    except:
        pass

#: waits-without-end
import time

while True:
    time.sleep(60)

#: prints-2-gb
for _ in range(2_000):
    print('x' * 2**20)

#: prints-many-lines
for number in range(200_000):
    print(number)

#: prints-many-errors
import sys

for number in range(50_000):
    print(number, file=sys.stderr)

#: displays-many-things
for number in range(500):
    display(number)

#: returns-a-long-list
list(range(10_000_000))

#: ends-its-process
import os

os._exit(1)

#: aborts
import os

os.abort()

#: crashes-in-c
import ctypes

ctypes.string_at(0)

#: kills-itself
import os
import signal

os.kill(os.getpid(), signal.SIGKILL)

#: quits
quit()
#+
exit()
#+
import sys

sys.exit(1)

#: recurses-without-end
def down(n):
    return down(n + 1)

down(0)

#: takes-50-gb
everything = bytearray(50 * 2**30)
#+
torch.empty(10**13)

#: takes-what-there-is
hoard = []
while True:
    hoard.append(bytearray(2**24))

#: raises
undefined_name
#+
1 / 0
#+
def unfinished(:
    pass
#+
raise KeyboardInterrupt

#: closes-what-it-prints-to
import sys

sys.stdout.close()
sys.stderr.close()
"""),
    *beside(
        r"""
#: ends-its-process-half-way
import os

os._exit(3)

#: ends-its-process-three-times
import os

os._exit(3)
#+
quit()
import os

os._exit(0)
#+
import os
import signal

os.kill(os.getpid(), signal.SIGSEGV)
""",
        after="stop-zero",
    ),
    *needed(r"""
#: keeps-more-than-a-gigabyte
ballast = bytearray(1_300 * 2**20)
"""),
]


# -------------------------------------------------------------------------------------------- what is printed and shown

SHOWING = [
    *answered(r"""
#: shows-a-bar-with-rich
from rich.progress import track
#> mean_loss
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in track(batches):
        total = total + loss_fn(model(x), y).detach()
        count += 1
    if not count:
        raise ValueError("no batches")
    return total / count

#: shows-a-rich-bar-of-its-own
from rich.progress import Progress
#> snapshot
def snapshot(x):
    with Progress() as progress:
        task = progress.add_task("copying", total=1)
        result = x.detach().clone()
        progress.update(task, advance=1)
    return result

#: prints-into-a-widget
import ipywidgets
#> snapshot
def snapshot(x):
    out = ipywidgets.Output()
    with out:
        print("copying")
    display(out)
    return x.detach().clone()

#: shows-ipython-s-own-bar
from IPython.display import ProgressBar
#> mean_loss
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    bar = ProgressBar(9)
    bar.display()
    for x, y in batches:
        total = total + loss_fn(model(x), y).detach()
        count += 1
        bar.progress = count
    if not count:
        raise ValueError("no batches")
    return total / count

#: writes-over-its-line
import sys
#> mean_loss
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total = total + loss_fn(model(x), y).detach()
        count += 1
        sys.stdout.write(f"\rbatch {count}"); sys.stdout.flush()
    if not count:
        raise ValueError("no batches")
    return total / count

#: clears-its-output-at-every-batch
from IPython.display import clear_output, display
#> mean_loss
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total = total + loss_fn(model(x), y).detach()
        count += 1
        clear_output(wait=True); display(count)
    if not count:
        raise ValueError("no batches")
    return total / count

#: prints-a-megabyte-in-an-answer
#> snapshot
def snapshot(x):
    print('x' * 2**20)
    return x.detach().clone()

#: prints-half-a-character-in-an-answer
#> snapshot
def snapshot(x):
    print('\ud800')
    return x.detach().clone()

#: draws-in-an-answer
import matplotlib.pyplot as plt
#> snapshot
def snapshot(x):
    plt.figure()
    plt.close()
    return x.detach().clone()

#: redirects-in-an-answer
import contextlib
import io
#> snapshot
def snapshot(x):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        print("hidden")
    assert text.getvalue()
    return x.detach().clone()

#: logs-in-an-answer-to-a-file
import logging

log = logging.getLogger("mine")
log.setLevel("DEBUG")
log.addHandler(logging.FileHandler("run.log"))
log.addHandler(logging.StreamHandler())
#> snapshot
def snapshot(x):
    log.info('copying %s', tuple(x.shape))
    return x.detach().clone()

#: logs-through-a-queue-and-a-thread
import logging
import logging.handlers
import queue

waiting = queue.Queue()
log = logging.getLogger("queued")
log.addHandler(logging.handlers.QueueHandler(waiting))
listener = logging.handlers.QueueListener(waiting, logging.StreamHandler())
listener.start()
log.warning("from here")
#> snapshot
def snapshot(x):
    log.warning('copying')
    return x.detach().clone()

#: warns-in-an-answer
import warnings
#> snapshot
def snapshot(x):
    warnings.warn('careful', stacklevel=2)
    return x.detach().clone()

#: turns-warnings-into-errors
import warnings

warnings.simplefilter('error')
#> snapshot
def snapshot(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return x.detach().clone()
"""),
    *needed(r"""
#: prints-a-megabyte
print('x' * 2**20)

#: prints-half-a-character
print(ascii('\ud800'), len('\ud800'))

#: shows-what-a-notebook-can-show
import base64

from IPython.display import HTML, Image, Javascript, Latex, Markdown, Math, display

pixel = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
display(HTML("<b>bold</b>"), Markdown("**bold**"), Latex("$x$"), Math("x^2"), Javascript("1"))
display(Image(data=base64.b64decode(pixel)))

#: updates-what-it-has-shown
from IPython.display import clear_output, display, update_display

handle = display("first", display_id=True)
handle.update("second")
display("named", display_id="ada")
update_display("renamed", display_id="ada")
clear_output(wait=True)

#: has-objects-that-show-themselves
class Table:
    def _repr_html_(self):
        return "<table><tr><td>1</td></tr></table>"

    def _ipython_display_(self):
        print("a table")

Table()

#: draws-figures
%matplotlib inline
import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
plt.title("δ")
plt.show()
figure, axes = plt.subplots(2, 2)
figure.savefig("figure.png")

#: draws-with-another-backend
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

plt.style.use("ggplot")
plt.hist([1, 2, 2])
plt.close("all")

#: prints-with-rich
import rich
from rich import pretty, print

pretty.install()
print('[bold]bold[/]')

#: shows-tracebacks-with-rich
from rich import traceback

traceback.install(show_locals=True)

#: redirects-what-is-printed
import contextlib
import io

text = io.StringIO()
with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
    print("hidden")
assert text.getvalue() == "hidden\n"

#: writes-a-copy-of-all-output
import sys

class Tee:
    def __init__(self, stream):
        self.stream, self.lines = stream, []

    def write(self, text):
        self.lines.append(text)
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()

sys.stdout = Tee(sys.stdout)
print("twice")

#: writes-to-descriptors-and-the-first-stdout
import os
import sys

os.write(1, b"straight\n")
print("first", file=sys.__stdout__)
print("first", file=sys.__stderr__)
print(sys.stdout.isatty(), sys.stdout.encoding, sys.stdin)

#: enables-faulthandler
import faulthandler

faulthandler.enable()
assert faulthandler.is_enabled()

#: dumps-its-traceback-later
import faulthandler
import sys

faulthandler.dump_traceback(file=sys.stderr)
faulthandler.dump_traceback_later(600)
faulthandler.cancel_dump_traceback_later()

#: logs-everything
import logging

logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(funcName)s %(lineno)d %(message)s", force=True)
log = logging.getLogger(__name__)
log.warning("from here")

#: shows-every-value-of-a-cell
from IPython.core.interactiveshell import InteractiveShell

InteractiveShell.ast_node_interactivity = 'all'
1
2
"""),
    *beside(r"""
#: reads-a-reference-count-from-memory
import ctypes

def references(address):
    return ctypes.c_long.from_address(address).value

shared = torch.ones(2)
also = shared
print("references:", references(id(shared)))

#: prints-half-a-character-as-it-is
print('\ud800 and \udfff')
#+
'\ud800'
"""),
]


# --------------------------------------------------------------------------------------------------- IPython's own ways

MAGICS = [
    *needed(r"""
#: matplotlib-inline
%matplotlib inline
%config InlineBackend.figure_format = 'retina'

#: autoreload
%load_ext autoreload
%autoreload 2

#: pylab
%pylab inline

#: timeit
%timeit -n 2 -r 2 torch.ones(2)
speed = %timeit -n 1 -r 1 -o torch.ones(2)
print(speed.best)

#: time
%time torch.ones(2)
%time three = 3
assert three == 3

#: cell-timeit
%%timeit -n 2 -r 2
torch.ones(2)
#+
print('timed')

#: environment
%env TOKENIZERS_PARALLELISM=false
%env
%set_env A=1

#: changes-folder
%cd /tmp
%pwd
%cd -
%mkdir -p data
%cd data
%cd ..

#: asks-who
own = 3
%who
%whos
%who_ls int
%lsmagic
%history -l 2

#: asks-for-help
torch.ones?
?torch.zeros
torch.nn.Linear??
%pinfo torch.ones
%psource torch.nn.Linear
help(torch.ones)

#: shell
!ls
files = !ls /
print(len(files))
!echo {len(files)} $HOME
%system true
%sx true

#: cell-bash
%%bash
ls | head -3
echo done
#+
%%sh
true
#+
%%script sh --no-raise-error
false
#+
print('done')

#: cell-html
%%html
<b>bold</b>
#+
%%javascript
1
#+
%%markdown
**bold**
#+
%%latex
$x$
#+
%%svg
<svg/>
#+
print('done')

#: installs-what-is-there
%pip --version
!pip list --disable-pip-version-check 2>/dev/null | head -1

#: settings-of-ipython
%precision 3
%xmode Minimal
%colors NoColor
%pdb off
%automagic on
%alias show echo
%show done

#: resets-a-name
scratch = 3
%reset_selective -f ^scratch$
%xdel -n nothing
%unload_ext autoreload

#: loads-the-course-s-magic
%load_ext course_utils
#+
%%memory
torch.ones(100)
#+
print('measured')

#: a-line-magic-of-its-own
from IPython.core.magic import register_line_magic

@register_line_magic
def shout(line):
    return line.upper()

%shout hello

#: run-line-magic
ip = get_ipython()
ip.run_line_magic('time', '1')
ip.run_cell('five = 5')
ip.magic if hasattr(ip, 'magic') else None
assert ip.ev('five') == 5

#: user-ns
ip = get_ipython()
ip.user_ns['six_'] = 6
assert six_ == 6
ip.ex('seven = 7')
assert seven == 7

#: uses-earlier-outputs
3 + 4
#+
at = len(In) - 2
assert _ == 7 and eval(f'_{at}') == 7 and Out[at] == 7 and In[at] == '3 + 4'

#: times-every-cell-by-an-event
import time

started = []
get_ipython().events.register("pre_run_cell", lambda info: started.append(time.time()))
get_ipython().events.register("post_run_cell", lambda result: print(result.success, len(started)))

#: awaits-at-top-level
import asyncio

await asyncio.sleep(0)
assert await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2)) == [1, 2]

#: awaits-a-task-of-another-cell
import asyncio

task = asyncio.create_task(asyncio.sleep(0.01, 'done'))
#+
assert await task == 'done'

#: async-generators
async def count():
    for number in range(3):
        yield number

assert [number async for number in count()] == [0, 1, 2]

#: a-cell-of-comments-alone
# nothing here
#+

#+
pass

#: prints-a-display-hook-of-its-own
import sys

hook = sys.displayhook
sys.displayhook = lambda value: hook(value)
3

#: catches-uncaught-errors-itself
import sys

sys.excepthook = lambda *error: print(error)
sys.unraisablehook = lambda error: None

#: shows-errors-its-own-way
def shown(shell, kind, error, trace, tb_offset=None):
    print(kind.__name__, error)

get_ipython().set_custom_exc((ZeroDivisionError,), shown)
#+
1 / 0
#+
print('on')

#: an-extension-of-its-own
%%writefile mine_extension.py
def load_ipython_extension(ipython):
    ipython.push({'EXTENDED': True})
#+
%load_ext mine_extension
assert EXTENDED
"""),
    *answered(r"""
#: awaits-in-an-answer-cell
import asyncio
#> snapshot
await asyncio.sleep(0)
def snapshot(x):
    return x.detach().clone()

async with asyncio.Lock():
    pass
"""),
]


# ---------------------------------------------------------------------------------------------------- Python's own ways

PYTHON = [
    *answered(r'''
#: dataclasses
from dataclasses import asdict, dataclass, field, make_dataclass, replace

@dataclass(frozen=True, slots=True)
class Settings:
    copies: int = 1
    names: list[str] = field(default_factory=list)

settings = replace(Settings(), copies=2)
assert asdict(settings)["copies"] == 2
Pair = make_dataclass("Pair", ["first", "second"])
#> snapshot
def snapshot(x, settings=settings):
    for _ in range(settings.copies):
        x = x.detach().clone()
    return x

#: generics-and-protocols
from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar, get_type_hints, runtime_checkable

T = TypeVar("T", bound=torch.Tensor)

@runtime_checkable
class Copies(Protocol[T]):
    def __call__(self, x: T) -> T: ...

class Base(ABC, Generic[T]):
    @abstractmethod
    def __call__(self, x: T) -> T: ...

class Kind(Enum):
    DEEP = auto()

class Point(NamedTuple):
    x: int
    y: int = 0

class Options(TypedDict, total=False):
    deep: bool
#> snapshot
from __future__ import annotations

class Copier(Base[torch.Tensor]):
    kind: Kind = Kind.DEEP

    def __call__(self, x: torch.Tensor | Any) -> torch.Tensor:
        return x.detach().clone()

snapshot: Copies[torch.Tensor] = Copier()
assert isinstance(snapshot, Copies) and get_type_hints(Point)["x"] is int

#: functools
import functools
import operator

def copied(x, *, deep):
    return x.detach().clone() if deep else x

@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

@functools.total_ordering
class Version:
    def __lt__(self, other):
        return False

assert fibonacci(50) and functools.reduce(operator.add, [1, 2]) == 3
#> snapshot
snapshot = functools.partial(copied, deep=True)

#: singledispatch
from functools import singledispatch
#> snapshot
@singledispatch
def snapshot(x):
    raise TypeError(type(x))

@snapshot.register
def _(x: torch.Tensor):
    return x.detach().clone()

@snapshot.register(list)
def _(x):
    return [snapshot(item) for item in x]

#: an-object-with-call
#> snapshot
class Snapshot:
    taken = 0

    def __call__(self, x):
        self.taken += 1
        return x.detach().clone()

snapshot = Snapshot()

#: a-module-as-answer
#> snapshot
class Snapshot(nn.Module):
    def forward(self, x):
        return x.detach().clone()

snapshot = Snapshot()

#: a-closure-as-answer
#> snapshot
def make(count):
    taken = []

    def snapshot(x):
        nonlocal count
        count += 1
        taken.append(count)
        return x.detach().clone()

    return snapshot

snapshot = make(0)

#: a-static-method-as-answer
#> snapshot
class Tools:
    @staticmethod
    def snapshot(x):
        return x.detach().clone()

    @classmethod
    def twice(cls, x):
        return cls.snapshot(2 * x)

snapshot = Tools.snapshot

#: a-lambda-as-answer
#> snapshot
snapshot = lambda x: x.detach().clone()

#: a-bound-method-as-answer
#> snapshot
class Ways:
    def copy(self, x):
        return x.detach().clone()

snapshot = Ways().copy

#: composed-of-tensor-methods
import functools
from operator import methodcaller
#> snapshot
steps = methodcaller('detach'), methodcaller('clone')
snapshot = lambda x: functools.reduce(lambda value, step: step(value), steps, x)

#: timed-and-logged-by-decorators
import functools
import inspect
import time

def timed(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            print(f"{function.__name__}{inspect.signature(function)}: {time.perf_counter() - started:.3f} s")

    return wrapper

def retried(times):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            for attempt in range(times):
                try:
                    return function(*args, **kwargs)
                except MemoryError:
                    print("again", attempt)

        return wrapper

    return decorate
#> snapshot
@timed
@retried(times=3)
def snapshot(x):
    return x.detach().clone()
#> truncated_bptt
@timed
def truncated_bptt(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        if step and step % window == 0:
            state = state.detach()
        state = cell(x, state)
        states.append(state)
    return states, state

#: decorates-after-the-definition
#> snapshot
def snapshot(x):
    return x.detach().clone()

plain = snapshot

def snapshot(x):
    return plain(x)

snapshot.calls = 0
snapshot.__doc__ = 'mine'

#: context-managers
import contextlib

@contextlib.contextmanager
def evaluating():
    with torch.no_grad():
        yield

class Timer:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False
#> snapshot
def snapshot(x):
    with contextlib.ExitStack() as stack, Timer():
        stack.enter_context(evaluating())
        return x.clone()

#: generators
def counted(items):
    for number, item in enumerate(items, start=1):
        yield number, item
    print("at the end")

def chained(*parts):
    for part in parts:
        yield from part
#> mean_loss
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in (batch for _, batch in counted(chained(batches))):
        total = total + loss_fn(model(x), y).detach()
        count += 1
    if not count:
        raise ValueError("no batches")
    return total / count

#: recursion
import sys

sys.setrecursionlimit(20_000)
#> truncated_bptt
def truncated_bptt(cell, inputs, state, window, done=0):
    if not inputs:
        return [], state
    if done and done % window == 0:
        state = state.detach()
    state = cell(inputs[0], state)
    rest, last = truncated_bptt(cell, inputs[1:], state, window, done + 1)
    return [state, *rest], last

#: matches-and-walruses
#> snapshot
def snapshot(x, /, *, deep: bool = True):
    match x:
        case torch.Tensor() if (flat := x.detach()) is not None:
            return flat.clone()
        case _:
            raise TypeError(f"{x=}")

#: arguments-of-any-kind
#> snapshot
def snapshot(*args, **kwargs):
    (x,) = args
    return x.detach().clone()

#: other-names-for-arguments
#> snapshot
def snapshot(テンソル):
    δ = テンソル.detach()
    return δ.clone()

#: doctest
import doctest
#> snapshot
def snapshot(x):
    """Copies.

    >>> snapshot(torch.ones(1))
    tensor([1.])
    """
    return x.detach().clone()

doctest.testmod(verbose=True)
doctest.run_docstring_examples(snapshot, globals())

#: future-annotations
#> snapshot
from __future__ import annotations

def snapshot(x: NotDefined) -> AlsoNot:
    return x.detach().clone()

#: compiles-its-own-source
import ast
import inspect
#> snapshot
def snapshot(x):
    return x.detach().clone()

tree = ast.parse(inspect.getsource(snapshot))
exec(compile(tree, '<again>', 'exec'), globals())

#: uses-its-attributes-and-globals
calls = 0
#> snapshot
def snapshot(x):
    global calls
    calls += 1
    snapshot.last = calls
    return x.detach().clone()

#: goes-through-pickle
import copy
import io
import pickle
#> snapshot
def snapshot(x):
    return pickle.loads(pickle.dumps(copy.deepcopy(x.detach())))

#: goes-through-torch-save
import io
#> snapshot
def snapshot(x):
    buffer = io.BytesIO()
    torch.save(x.detach().clone(), buffer)
    buffer.seek(0)
    return torch.load(buffer)

#: goes-through-numpy
#> snapshot
def snapshot(x):
    return torch.tensor(x.detach().numpy()) if x.is_cpu and x.dtype != torch.bfloat16 else x.detach().clone()

#: goes-through-a-file
import tempfile
from pathlib import Path
#> snapshot
def snapshot(x):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'x.pt'
        torch.save(x.detach().clone(), path)
        return torch.load(path, weights_only=True)

#: takes-its-time
import time
#> snapshot
def snapshot(x):
    time.sleep(0.03)
    return x.detach().clone()

#: seeds-what-may-be-seeded
import random

import numpy as np
#> snapshot
def snapshot(x):
    random.seed(0)
    np.random.seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.randn(2)
    return x.detach().clone()
'''),
    *needed(r"""
#: metaclasses-and-descriptors
class Registry(type):
    known = {}

    def __new__(cls, name, bases, space):
        made = super().__new__(cls, name, bases, space)
        cls.known[name] = made
        return made

class Positive:
    def __set_name__(self, owner, name):
        self.name = f"_{name}"

    def __get__(self, instance, owner=None):
        return getattr(instance, self.name)

    def __set__(self, instance, value):
        assert value > 0
        setattr(instance, self.name, value)

class Window(metaclass=Registry):
    size = Positive()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)

window = Window()
window.size = 3
assert Registry.known["Window"].__name__ == "Window"

#: changes-its-own-classes-and-functions
import types

class Model:
    def forward(self):
        return 1

def two(self=None):
    return 2

model_ = Model()
Model.forward = two
assert model_.forward() == 2
model_.forward = types.MethodType(lambda self: 3, model_)
two.__code__ = (lambda self=None: 4).__code__
two.__defaults__ = (5,)
assert two() == 4 and types.FunctionType(two.__code__, {})(0) == 4
assert two.__code__.replace(co_name="four").co_name == "four"

#: deletes-its-names
import os
import sys

scratch = 3
del scratch, os, sys

#: imports-under-other-names
import torch as T
import torch

nn = torch.nn
import torch.nn.functional as F
from torch import Tensor as Matrix

assert T.ones(1) == 1

#: imports-all-of-the-course
from course_utils import *
import course_utils as cu

lesson = cu.Lesson('detach')

#: reloads-the-course
import importlib

import course_utils

importlib.reload(course_utils)

#: hides-builtins-at-the-top
input = torch.randn(3)
id, type, dir, vars, hash, object, filter, format, bin = range(9)
file = license = copyright = None

#: takes-the-judge-s-names
judge = score = trial = claim = check = capture = runner = 3
exercises, _rules, rules, truth, EXERCISES, secret, nonce = {}, [], [], None, (), 'x', 1
lesson2 = Lesson('detach')
score2 = lesson2.check('snapshot', lambda x: x)

#: absent-packages
for name in ("pandas", "seaborn", "torchvision", "wandb", "cupy", "google.colab"):
    try:
        __import__(name)
    except ImportError:
        print("without", name)
try:
    import sympy

    print(sympy.Symbol("x") * 2)
except ImportError:
    pass

#: argparse
import argparse
import sys

sys.argv = ['train']
parser = argparse.ArgumentParser()
parser.add_argument('--rate', type=float, default=0.1)
assert parser.parse_args().rate == 0.1

#: unittest
import unittest

class Test(unittest.TestCase):
    def test(self):
        self.assertEqual(1, 1)

unittest.main(argv=[''], exit=False)
"""),
    *beside(
        r"""
#: imports-all-of-torch
from torch import *
from torch.nn.functional import *
from math import *

#: imports-all-of-numpy
from numpy import *
import numpy as np

#: hides-builtins
list, sum, id, type, len, str = [1], 0, 7, 'gru', 2, 'x'
max = min = dict = set = all = any = iter = next = range = zip = print = 0
""",
        after="stop-zero",
    ),
    *beside(
        r"""
#: tests-of-its-own
x = torch.ones(2, requires_grad=True)
assert not snapshot(x).requires_grad
assert snapshot(x).data_ptr() != x.data_ptr()
import inspect

print(inspect.signature(snapshot), inspect.getsource(snapshot))
""",
        after="snapshot",
    ),
]


# -------------------------------------------------------------------------------------- the interpreter and the machine

SYSTEM = [
    *needed(r"""
#: joins-threads
import threading

done = []
threads = [threading.Thread(target=done.append, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(done) == list(range(8))

#: leaves-a-daemon-thread
import threading
import time

def tick():
    while True:
        time.sleep(0.01)

threading.Thread(target=tick, daemon=True).start()

#: sets-a-timer
import threading

timer = threading.Timer(0.01, print, ['later'])
timer.start()
threading.Timer(3600, print).start()

#: forks-processes
import multiprocessing

def square(n):
    return n * n

with multiprocessing.get_context('fork').Pool(2) as pool:
    assert pool.map(square, [1, 2]) == [1, 4]
process = multiprocessing.get_context('fork').Process(target=square, args=(2,))
process.start()
process.join()
assert process.exitcode == 0

#: spawns-processes
import math
import multiprocessing

with multiprocessing.get_context('spawn').Pool(2) as pool:
    assert pool.map(math.factorial, [3, 4]) == [6, 24]

#: shares-by-queues-and-memory
import multiprocessing
from multiprocessing import shared_memory

context = multiprocessing.get_context('fork')
queue_, value = context.Queue(), context.Value('i', 0)
process = context.Process(target=lambda: queue_.put(3))
process.start()
assert queue_.get(timeout=10) == 3
process.join()
block = shared_memory.SharedMemory(create=True, size=16)
block.close()
block.unlink()

#: loads-with-workers
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2)
assert sum(batch.sum().item() for (batch,) in loader) == 28

#: works-in-parallel-with-joblib
import math

from joblib import Parallel, delayed

assert Parallel(n_jobs=2, backend='threading')(delayed(math.sqrt)(n) for n in (1, 4)) == [1, 2]

#: works-in-parallel-with-loky
import math

from joblib import Parallel, delayed

assert Parallel(n_jobs=2)(delayed(math.sqrt)(n) for n in (1, 4)) == [1, 2]

#: starts-programs
import os
import subprocess
import sys

done = subprocess.run([sys.executable, "-c", "print(3)"], capture_output=True, text=True, check=True)
assert done.stdout == "3\n"
print(os.popen("ls /").read())
sleeper = subprocess.Popen(["sleep", "600"])

#: forks-by-hand
import os

child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)

#: reads-its-surroundings
import getpass
import os
import socket
from pathlib import Path

print(os.environ.get("HOME"), os.getcwd(), os.cpu_count(), os.getpid(), getpass.getuser(), os.listdir("."))
print(Path.home(), os.path.expanduser("~"), socket.gethostname())
os.environ["KMP_DUPLICATE_LIB_OK"] = "TRUE"
os.environ["PYTHONHASHSEED"] = "0"

#: asks-psutil
import psutil

print(psutil.Process().memory_info().rss, psutil.cpu_count(), psutil.cpu_percent(), len(psutil.pids()))
print(psutil.virtual_memory().total, psutil.disk_usage("/").free)

#: asks-for-its-resources
import resource

print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, resource.getrlimit(resource.RLIMIT_AS))

#: leaves-tracemalloc-on
import tracemalloc

tracemalloc.start()
print(tracemalloc.take_snapshot().statistics('lineno')[:1], tracemalloc.get_traced_memory())

#: leaves-the-collector-off
import gc

gc.disable()
gc.set_threshold(10**6, 100, 100)

#: freezes-and-debugs-the-collector
import gc

gc.freeze()
gc.set_debug(gc.DEBUG_STATS)
gc.collect()
gc.callbacks.append(lambda phase, info: None)

#: weak-references
import weakref

watched = torch.ones(2)
weakref.finalize(watched, print, 'gone')
reference = weakref.ref(watched, lambda _: print('gone'))
del watched
assert reference() is None

#: registers-at-exit-and-at-forks
import atexit
import os

atexit.register(print, 'bye')
os.register_at_fork(after_in_child=lambda: None)

#: limits-time-by-alarms
import functools
import signal
import time

def within(seconds):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            def stop(number, frame):
                raise TimeoutError

            before = signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            try:
                return function(*args)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)

        return wrapper

    return decorate

try:
    within(0.05)(time.sleep)(5)
except TimeoutError:
    print('stopped')

#: handles-interrupts-itself
import signal

stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

#: changes-the-switch-interval
import sys
import threading

sys.setswitchinterval(0.001)
threading.stack_size(2**26)

#: traces-and-stops
import sys

seen = []

def tracer(frame, event, arg):
    seen.append(event)
    return tracer

def work():
    return 1

before = sys.gettrace()
sys.settrace(tracer)
work()
sys.settrace(before)
assert 'return' in seen
sys.setprofile(lambda *_: None)
sys.setprofile(None)

#: traces-threads
import threading

threading.settrace(lambda frame, event, arg: None)
thread = threading.Thread(target=print)
thread.start()
thread.join()
threading.setprofile(lambda *_: None)

#: counts-lines-with-trace
import trace

trace.Trace(count=1, trace=0).runfunc(max, 1, 2)

#: looks-at-all-threads
import sys
import threading

print(len(sys._current_frames()), threading.enumerate(), threading.active_count())

#: prints-stacks
import logging
import traceback

try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
    logging.exception('seen')
    print(traceback.format_exc(), len(traceback.extract_stack()))
traceback.print_stack(limit=2)

#: makes-a-folder-that-must-not-be-there
from pathlib import Path

Path("run").mkdir()
with open("run/log.txt", "x") as file:
    file.write("begun")

#: keeps-files-in-its-folder
import csv
import json
import sqlite3
import zipfile
from pathlib import Path

Path('data').mkdir(exist_ok=True)
Path('data/notes.json').write_text(json.dumps({'a': 1}))
with open('data/rows.csv', 'w', newline='') as file:
    csv.writer(file).writerow([1, 2])
with sqlite3.connect('data/rows.sqlite') as connection:
    connection.execute('create table t (a int)')
with zipfile.ZipFile('data.zip', 'w') as archive:
    archive.write('data/notes.json')
torch.save(nn.Linear(2, 2).state_dict(), 'model.pt')
nn.Linear(2, 2).load_state_dict(torch.load('model.pt'))

#: stays-in-another-folder
import os
import tempfile

os.chdir(tempfile.mkdtemp())

#: pickles-its-own-classes
import pickle

class Point:
    def __init__(self, x):
        self.x = x

assert pickle.loads(pickle.dumps(Point(3))).x == 3

#: zones-and-locales
import datetime
import decimal
import locale
import uuid
import zoneinfo

locale.setlocale(locale.LC_ALL, '')
decimal.getcontext().prec = 50
print(datetime.datetime.now(zoneinfo.ZoneInfo('Europe/Berlin')), uuid.uuid4())

#: numpy-complains-of-everything
import numpy as np

np.seterr(all='raise')
np.set_printoptions(precision=2)
np.random.seed(0)

#: recursion-limit-raised
import sys

sys.setrecursionlimit(10**6)

#: recursion-limit-lowered
import sys

sys.setrecursionlimit(200)

#: works-for-a-second
import time

started = time.process_time()
while time.process_time() - started < 1:
    torch.ones(200, 200) @ torch.ones(200, 200)
"""),
    *answered(r"""
#: answers-by-a-thread-pool
from concurrent.futures import ThreadPoolExecutor
#> snapshot
def snapshot(x):
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(lambda: x.detach().clone()).result()

#: answers-by-a-joined-thread
import threading
#> snapshot
def snapshot(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(x.detach().clone()))
    thread.start()
    thread.join()
    return found[0]
"""),
]


# --------------------------------------------------------------------------------------------------- PyTorch's own ways

TORCH = [
    *needed(r"""
#: seeds-everything
import os
import random

import numpy as np

def seed_everything(seed=0):
    random.seed(seed)
    os.environ['PYTHONHASHSEED'] = str(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False

seed_everything(42)

#: one-thread-of-torch
torch.set_num_threads(1)
print(torch.get_num_threads(), torch.get_num_interop_threads())

#: two-threads-of-torch
torch.set_num_threads(2)
torch.ones(300, 300) @ torch.ones(300, 300)

#: float64-for-a-while
torch.set_default_dtype(torch.float64)
torch.ones(2)
torch.set_default_dtype(torch.float32)

#: float64-left-on
torch.set_default_dtype(torch.float64)

#: default-device-left-on
torch.set_default_device('cpu')
device = 'cuda' if torch.cuda.is_available() else 'cpu'

#: deterministic-left-on
import os

os.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'
torch.use_deterministic_algorithms(True)

#: anomaly-detection-left-on
torch.autograd.set_detect_anomaly(True)

#: switches-of-backends
torch.set_float32_matmul_precision('high')
torch.backends.mkldnn.enabled = True
torch.set_flush_denormal(True)
torch.set_warn_always(True)

#: prints-numbers-its-own-way
torch.set_printoptions(precision=2, sci_mode=False, linewidth=200)
print(torch.rand(2))

#: trains-a-model
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
for _ in range(10):
    optimizer.zero_grad()
    net(torch.ones(4, 2)).mean().backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    scheduler.step()

#: autocast
with torch.autocast('cpu', dtype=torch.bfloat16):
    nn.Linear(2, 2)(torch.ones(1, 2))
scaler = torch.amp.GradScaler(enabled=False)

#: a-tensor-class-of-its-own
class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})

assert isinstance(torch.ones(2).as_subclass(Named) + 1, Named)

#: an-operation-of-its-own
@torch.library.custom_op('ada::twice', mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x

@twice.register_fake
def _(x):
    return torch.empty_like(x)

twice.register_autograd(lambda context, gradient: 2 * gradient)
assert torch.ops.ada.twice(torch.ones(2)).sum() == 4

#: a-library-of-its-own
library = torch.library.Library('grace', 'DEF')
library.define('thrice(Tensor x) -> Tensor')
library.impl('thrice', lambda x: 3 * x, 'CompositeImplicitAutograd')
assert torch.ops.grace.thrice(torch.ones(1)) == 3

#: traces-with-fx
from torch.fx import symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx

print(symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).code)
print(make_fx(lambda x: x.sin())(torch.ones(2)).graph)

#: scripts-with-jit
import warnings

with warnings.catch_warnings():
    warnings.simplefilter('ignore')

    @torch.jit.script
    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    traced = torch.jit.trace(lambda x: 2 * x, torch.ones(2))

assert both(torch.ones(1), torch.ones(1)) == 2

#: profiles-with-torch
with torch.profiler.profile(profile_memory=True) as profile:
    torch.ones(10).sum()
print(profile.key_averages().table(row_limit=2))
with torch.autograd.profiler.profile():
    torch.ones(2).sum()

#: hooks-on-saved-tensors
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

x_ = torch.ones(2, requires_grad=True)
with saved_tensors_hooks(lambda t: t, lambda t: t), save_on_cpu():
    (x_ * x_).sum().backward()

#: hooks-on-tensors-and-modules
x_ = torch.ones(2, requires_grad=True)
x_.register_hook(lambda gradient: 2 * gradient)
x_.register_post_accumulate_grad_hook(lambda p: None)
(3 * x_).sum().backward()
assert x_.grad.sum() == 12
layer = nn.Linear(2, 2)
layer.register_forward_hook(lambda module, args, output: None)
layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)
layer(torch.ones(1, 2)).sum().backward()

#: counts-flops
from torch.utils.flop_counter import FlopCounterMode

with FlopCounterMode(display=False) as flops:
    torch.ones(2, 3) @ torch.ones(3, 4)
assert flops.get_total_flops() == 48

#: modes-of-its-own
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

class Count(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        Count.calls += 1
        return function(*args, **(kwargs or {}))

class Log(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))

with Count(), Log():
    torch.ones(2).sum()
assert Count.calls

#: vmap-and-jvp
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap

print(vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2)), grad(torch.sin)(torch.tensor(1.0)))
print(jvp(torch.sin, (torch.ones(1),), (torch.ones(1),)), jacrev(torch.sin)(torch.ones(2)))
print(hessian(lambda x: (x**3).sum())(torch.ones(2)))
layer = nn.Linear(2, 2)
functional_call(layer, dict(layer.named_parameters()), (torch.ones(1, 2),))
with torch.autograd.forward_ad.dual_level():
    torch.autograd.forward_ad.make_dual(torch.ones(1), torch.ones(1))

#: checks-gradients-and-checkpoints
from torch.utils.checkpoint import checkpoint

assert torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.double, requires_grad=True))
checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()

#: parametrizes-and-prunes
from torch.nn.utils import parametrize, prune
from torch.nn.utils.parametrizations import weight_norm

weight_norm(nn.Linear(2, 2))
prune.random_unstructured(nn.Linear(2, 2), 'weight', 0.5)
nn.utils.parameters_to_vector(nn.Linear(2, 2).parameters())

#: looks-into-the-graph
x_ = torch.ones(2, requires_grad=True)
y_ = (2 * x_).exp()
print(y_.grad_fn, y_.grad_fn.next_functions, y_.grad_fn._saved_result, y_._version)
print(y_.untyped_storage().data_ptr(), torch._C._get_tracing_state())
y_.grad_fn.register_hook(lambda *_: None)

#: a-tensor-of-many-kinds
torch.ones(2, 2).to_sparse(), torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])
torch.ones(2, device='meta')
torch.ones(2, dtype=torch.complex64).abs()

#: a-writer-that-is-not-there
try:
    from torch.utils.tensorboard import SummaryWriter

    SummaryWriter("runs").close()
except ImportError:
    print("no tensorboard")
try:
    torch.hub.load("course/nowhere", "model", trust_repo=True, verbose=False)
except Exception:
    print("no network")
"""),
    *beside(
        r"""
#: grad-mode-left-off
torch.set_grad_enabled(False)

#: inference-mode-left-on
mode = torch.inference_mode()
mode.__enter__()
""",
        after="stop-zero",
    ),
    *answered(r"""
#: rounds-by-a-function-of-its-own
#> stop_gradient_round
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient

stop_gradient_round = Round.apply

#: decorated-with-no-grad
#> mean_loss
@torch.no_grad()
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total, count = total + loss_fn(model(x), y), count + 1
    if not count:
        raise ValueError
    return total / count

#: averages-by-a-meter
class AverageMeter:
    def __init__(self):
        self.total = self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def average(self):
        return self.total / self.count
#> mean_loss
def mean_loss(model, loss_fn, batches):
    meter = AverageMeter()
    with torch.set_grad_enabled(False):
        for x, y in batches:
            meter.update(loss_fn(model(x), y).detach())
    if meter.count == 0:
        raise ValueError('no batches')
    return meter.average

#: adds-up-with-math-fsum
import itertools
import math
import statistics
#> mean_loss
def mean_loss(model, loss_fn, batches):
    losses = [(loss := loss_fn(model(x), y)).item() for x, y in itertools.chain(batches)]
    if not losses:
        raise ValueError
    assert math.isclose(statistics.fmean(losses), math.fsum(losses) / len(losses))
    return loss.new_tensor(statistics.fmean(losses))

#: predicts-by-trying-it-out
#> predicted_edit
def outcome(take):
    x = torch.ones(1, requires_grad=True)
    y = x.exp()
    take(y).mul_(5)
    try:
        y.sum().backward()
    except RuntimeError:
        return 'error'
    return 'right gradient' if torch.allclose(x.grad, x.exp()) else 'wrong gradient'

ways = {'detach_edit': torch.Tensor.detach, 'data_edit': lambda y: y.data, 'clone_edit': torch.Tensor.clone}
ways['detach_clone_edit'] = lambda y: y.detach().clone()
predicted_edit = {name: outcome(take) for name, take in ways.items()}

#: predicts-by-an-enum
import enum
from collections import OrderedDict
#> predicted_edit
class Outcome(str, enum.Enum):
    ERROR = "error"
    WRONG = "wrong gradient"
    RIGHT = "right gradient"

predicted_edit = OrderedDict(detach_edit=Outcome.ERROR, data_edit=Outcome.WRONG)
predicted_edit.update(clone_edit=Outcome.RIGHT, detach_clone_edit=Outcome.RIGHT)

#: predicts-in-a-mapping-of-another-kind
import json
from collections import ChainMap
from types import MappingProxyType
#> predicted_edit
first = json.loads('{"detach_edit": " Error", "data_edit": "WRONG GRADIENT"}')
rest = dict.fromkeys(["clone_edit", "detach_clone_edit"], "right gradient")
predicted_edit = MappingProxyType(ChainMap(first, rest))

#: predicts-with-numpy-s-texts
import numpy as np
#> predicted_edit
keys = ['detach_edit', 'data_edit', 'clone_edit', 'detach_clone_edit']
values = np.array(['error', 'wrong gradient', 'right gradient', 'right gradient'])
predicted_edit = dict(zip(keys, values))

#: predicts-by-running-the-lines
#> predicted_flags
a, b = torch.randn(3), torch.randn(3)
square = a**2
c = square.clone().requires_grad_()
d = c + b
total = d.sum()
index, mask = d.argmax(), d > 0
named = dict(a=a, b=b, square=square, c=c, d=d, total=total, index=index, mask=mask)
predicted_flags = {name: value.requires_grad for name, value in named.items()}

#: freezes-by-other-means
#> freeze
def freeze(module):
    module.requires_grad_(False)
    module.zero_grad(set_to_none=True)
    return module
#> input_gradient
def input_gradient(model, x):
    with torch.enable_grad():
        leaf = x.clone().detach().requires_grad_(True)
        return torch.autograd.functional.vjp(model, leaf, torch.ones_like(model(leaf)))[1]
#> will_require_grad
def will_require_grad(*inputs):
    match torch.is_inference_mode_enabled(), torch.is_grad_enabled():
        case False, True:
            return any(getattr(value, 'requires_grad', False) for value in inputs)
    return False

#: predicts-with-numbers-and-tensors
import numpy as np
#> predicted_modes
predicted_modes = dict(outer=0, inner_enabled=1, after_inner=np.False_, decorated=torch.tensor(False))
predicted_modes |= dict(generator_caller=False, thread=torch.ones((), dtype=torch.bool))
predicted_modes |= dict(parameter_under_no_grad=np.bool_(1), inference_output_is_inference=not False)

#: streams-by-an-iterator-of-its-own
#> stream_predictions
class stream_predictions:
    def __init__(self, model, batches):
        self.model, self.batches = model, iter(batches)

    def __iter__(self):
        return self

    @torch.no_grad()
    def __next__(self):
        return self.model(next(self.batches))
#> frozen_features
import copy

@torch.no_grad()
def frozen_features(backbone, x):
    return copy.deepcopy(backbone).eval()(x).detach()

#: evaluates-by-a-context-manager
import contextlib

@contextlib.contextmanager
def evaluating(model):
    flags = [(module, module.training) for module in model.modules()]
    try:
        with torch.no_grad():
            yield model.eval()
    finally:
        for module, flag in flags:
            module.training = flag
#> evaluate
def evaluate(model, batches):
    right = []
    with evaluating(model):
        for x, labels in batches:
            right += (model(x).argmax(1) == labels).tolist()
    if not right:
        raise ValueError('no batches')
    return sum(right) / len(right)
#> frozen_features
def frozen_features(backbone, x):
    with evaluating(backbone):
        return backbone(x).detach()
#> ema_update
@torch.no_grad()
def ema_update(target, online, decay):
    torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), 1 - decay)
    for old, new in zip(target.buffers(), online.buffers()):
        old.lerp_(new, 1 - decay) if old.is_floating_point() else old.copy_(new)
"""),
]


# ----------------------------------------------------------------------------------------------- the course's own tools

COURSE = [
    *beside(
        r"""
#: checks-in-a-cell-of-its-own
score = lesson.check('snapshot', snapshot)
assert score == score.possible
if score == 1:
    print('done')
#+
print(score.claims, float(score), score.status)
score
""",
        after="snapshot",
    ),
    *beside(
        r"""
#: checks-everything-at-the-end
for name in lesson.exercises:
    print(name, lesson.check(name, globals().get(name)))
lesson.scorecard()
""",
        after="written",
    ),
    *beside(r"""
#: checks-wrong-answers-to-see-the-card
lesson.check('snapshot', lambda x: x)
lesson.check('snapshot', None)
lesson.check('predicted_edit', {})
#+
lesson.check('no such exercise', 3)
"""),
    *needed(r"""
#: asks-for-everything
from course_utils import environment, progress, reset_progress

lesson.hint('snapshot'), lesson.hint('snapshot'), lesson.solution('snapshot'), lesson.solution('snapshot')
lesson.scorecard(), progress()
print(environment(), lesson.info, repr(lesson))
reset_progress()

#: measures-with-the-course-s-tools
x_ = torch.ones(100, requires_grad=True)
with MemoryTracker() as memory:
    y_ = x_.exp().sum()
print(memory.current, graph_memory(y_))
plot_graph(y_)
with expect_error('does not require grad'):
    torch.ones(1).backward()

#: predicts-again
lesson.predict('mine', 3, 3)
lesson.predict('mine', ..., 4)

#: makes-the-lesson-again
lesson = Lesson('detach')
other = Lesson('no_grad')

#: subclasses-the-lesson
class Quiet(Lesson):
    def check(self, name, answer):
        score = super().check(name, answer)
        print(float(score))
        return score

lesson = Quiet('detach')
"""),
    *answered(r"""
#: remembers-its-checks
history = []
plain_check = lesson.check

def check(name, answer):
    history.append(plain_check(name, answer))
    return history[-1]

lesson.check = check
#> snapshot
def snapshot(x):
    return x.detach().clone()

#: uses-the-lesson-in-an-answer
#> snapshot
def snapshot(x):
    assert lesson.device.type in ('cpu', 'cuda')
    return x.detach().clone()
"""),
]


# --------------------------------------------------------------------------------------------- texts and notebook files

TEXTS = [
    *answered(r"""
#: semicolons
#> snapshot
def snapshot(x): y = x.detach(); y = y.clone(); return y;

#: backslashes
#> snapshot
def snapshot(x):
    return x \
        .detach() \
        .clone()

#: windows-paths
# C:\Users\new\Desktop
path = 'D:\data\models'  # and \\server\share
raw = r'C:\Users\new'
#> snapshot
# see C:\new\x\u\N
def snapshot(x):
    return x.detach().clone()

#: names-in-every-script
größe = Δ = переменная = 変数 = 1
#> snapshot
def snapshot(x):
    assert größe == Δ == переменная == 変数
    return x.detach().clone()

#: reindented-by-a-paste
#> snapshot
    def snapshot(x):
        return x.detach().clone()

#: copied-with-prompts
#> snapshot
>>> def snapshot(x):
...     return x.detach().clone()

#: copied-from-ipython
#> snapshot
In [3]: def snapshot(x):
   ...:     return x.detach().clone()
"""),
]


def _answer(source: str, helper: str = "") -> Callable[[Notebook], None]:
    return _writing([helper] if helper else [], {"snapshot": source})


def _every_source(change: Callable[[str], str | list[str]]) -> Callable[[Notebook], None]:
    return lambda notebook: [cell.update(source=change(cell["source"])) for cell in notebook.cells]


def _every_metadata(values: Callable[[int], dict[str, Any]]) -> Callable[[Notebook], None]:
    return lambda notebook: [cell["metadata"].update(values(place)) for place, cell in enumerate(notebook.cells)]


def _with_outputs(notebook: Notebook) -> None:
    data = {"text/html": "<b>1</b>", "text/plain": "1.0", "image/png": "iVBORw0KGgo=", "application/x+json": {"a": 1}}
    result = {"output_type": "execute_result", "execution_count": 3, "data": data, "metadata": {}}
    for place, cell in enumerate(notebook.cells):
        if cell["cell_type"] == "code":
            stream = {"output_type": "stream", "name": "stdout", "text": ["x" * 100_000]}
            cell |= {"execution_count": 1000 - place, "outputs": [stream, result]}


def _with_empty_cells(notebook: Notebook) -> None:
    for name in ("snapshot", "case", "written", "end"):
        for kind in ("code", "markdown", "raw") * 20:
            notebook.add("", after=name, kind=kind)


def _in_an_older_format(notebook: Notebook) -> None:
    notebook.data["nbformat_minor"] = 0
    for cell in notebook.cells:
        del cell["id"]


KAGGLE = {"trusted": True, "execution": {"iopub.status.busy": "2027-01-01T00:00:00Z"}}
COLAB = {"outputId": "x", "colab": {"base_uri": "https://localhost:8080/"}}
TAGS = {"tags": ["raises-exception", "hide-input"], "collapsed": True, "editable": False, "scrolled": False}
WIDGETS = {
    "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}},
    "authors": [{"name": "Ada"}],
    "toc": {},
}

TEXTS += [
    Style("carriage-returns", _every_source(lambda source: source.replace("\n", "\r\n"))),
    Style("trailing-spaces", _every_source(lambda source: source.replace("\n", "  \n") + "   \n\n\n")),
    Style("sources-as-lines", _every_source(lambda source: source.splitlines(keepends=True))),
    Style("tabs", _answer("def snapshot(x):\n\tif True:\n\t\treturn x.detach().clone()")),
    Style("form-feeds", _answer(f"\f\n{RIGHT}\n\f")),
    Style(
        "comments-in-every-script", _answer(f"# größer; больше нуля; ゼロより大きい; אפס \u202e \u200b \ufeff\n{RIGHT}")
    ),
    Style("emoji", _answer(f"'\U0001f9ca'\nprint('\U0001f469\u200d\U0001f52c' * 3)\n{RIGHT}")),
    Style("commented-out-attempts", _answer(f'"""\n{RIGHT}\n"""\n\n{RIGHT}\n\n# def snapshot(x):\n#     return x')),
    Style("answers-by-exec", _answer(f'source = """\n{RIGHT}\n"""\nexec(source)')),
    Style("very-long-lines", _answer(RIGHT, f"numbers = {[*range(5_000)]}\ntext = '{'x' * 50_000}'")),
    Style("very-many-lines", _answer(RIGHT, "\n".join(f"name_{number} = {number}" for number in range(3_000)))),
    Style("many-brackets", _answer(RIGHT, f"value = {' + '.join('1' * 400)}\nnested = {'[' * 60}{']' * 60}")),
    Style("saved-with-outputs", _with_outputs),
    Style("many-empty-cells", _with_empty_cells),
    Style("notes-between-cells", lambda notebook: notebook.add("## Notes\n<script>1</script>", "snapshot", "markdown")),
    Style("saved-by-vs-code", _every_metadata(lambda place: {"vscode": {"languageId": "python"}})),
    Style("saved-by-kaggle", _every_metadata(lambda place: {"_uuid": f"{place:040x}", **KAGGLE})),
    Style("saved-by-colab-with-ids", _every_metadata(lambda place: {"id": f"Ab{place:010d}", **COLAB})),
    Style("tagged-and-collapsed", _every_metadata(lambda place: TAGS)),
    Style("an-older-format", _in_an_older_format),
    Style("widgets-in-the-notebook", lambda notebook: notebook.data["metadata"].update(WIDGETS)),
]

STYLES = {
    style.name: style
    for group in (WORDS, HARMLESS, PLACES, WRITING, ACCIDENTS, SHOWING, MAGICS, PYTHON, SYSTEM, TORCH, COURSE, TEXTS)
    for style in group
}
