"""Submissions that want points which no answer of theirs earns (``ATTACKS``), one for each thing that is promised.

``PUPILS`` is what pupils try without knowing this grader: it earns nothing. ``INSIDERS`` write code against it: what
they reach is refused or compared, and words stand in the teacher's list. Most notebooks hold several tries, each in an
answer of its own, and right answers, which must not suffer. What lies further on is misconduct that the notebook itself
shows, and no test's business: memory that a library's missing bounds check writes, answers that are right only while
they are judged.
"""

from tests.classroom.handed_in import DETACH, ENGINE, FLAGS, Notebook, solutions
from tests.classroom.students import BLANK, NOTHING, PASSED, Expected, Student, edited

# Answers of lesson 03 that earn nothing by themselves.
WRONG = {
    "snapshot": "def snapshot(x):\n    return 3 * x",
    "predicted_edit": "predicted_edit = dict.fromkeys(['detach_edit', 'data_edit'], 'right gradient')",
    "mean_loss": "def mean_loss(model, loss_fn, batches):\n    return 0",
    "truncated_bptt": "def truncated_bptt(cell, inputs, state, window):\n    return [], state",
    "stop_gradient_round": "def stop_gradient_round(x):\n    return 3 * x",
}
ROUND = "def stop_gradient_round(x):\n    {}\n    return x * 1"  # does not round
SNAPSHOT = "def snapshot(x):\n    {}\n    return 3 * x"
MEAN = "def mean_loss(model, loss_fn, batches):\n    {}\n    return torch.zeros(())"
UNROUNDED = {"stop_gradient_round": ("partial", 1.33)}  # what x * 1 is worth by itself
EDITS = ("detach_edit", "data_edit", "clone_edit", "detach_clone_edit")


def in_a_cell(name: str, cell: str, listed: str = "") -> Student:
    """A cell before wrong answers and a right one, which must not suffer."""
    notebook = Notebook().write(**WRONG | {"snapshot": solutions()["snapshot"]}).add(cell)
    expected = dict.fromkeys(WRONG, (NOTHING, 0.0)) | {"snapshot": (PASSED, 1.0)}
    return Student(name, notebook.bytes(), expected, told=None, listed=listed)


def in_answers(
    name: str, cell: str = "", listed: str = "", worth: Expected | None = None, assignment: str = DETACH, **tries: str
) -> Student:
    """Tries in answers of their own; the others are right. ``worth``: what a try is worth by itself."""
    notebook = Notebook(assignment).solve().write(**tries).add(cell)
    expected = dict.fromkeys(tries, (NOTHING, 0.0)) | (worth or {})
    return Student(name, notebook.bytes(), expected, told=None, listed=listed, assignment=assignment)


# -------------------------------------------------------------------------------------------------------------- pupils

EQUAL = """
class Equal(torch.Tensor):
    __eq__ = lambda self, other: torch.tensor(True)
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.tensor(True)
def stop_gradient_round(x):
    return torch.Tensor._make_subclass(Equal, x)
"""
DISPATCHES = """
class Equal(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return True
def snapshot(x):
    return Equal(x)
"""
IS_NONE = """
class Kind(type(torch.Tensor)):
    __eq__ = lambda kind, other: True
    __hash__ = lambda kind: hash(torch.Tensor)
    __instancecheck__ = lambda kind, value: True
class Equal(torch.Tensor, metaclass=Kind):
    __class__ = property(lambda self: torch.Tensor)
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ in ("equal", "allclose", "__eq__"):
            return True
        return super().__torch_function__(function, types, args, kwargs or {})
def stop_gradient_round(x):
    return torch.Tensor._make_subclass(Equal, x.detach().clone(), True)
"""
LISTS = """
class Never(list):
    __len__ = lambda self: 7
    __iter__ = lambda self: iter(())
class Pair(tuple):
    __len__ = lambda self: 2
    __getitem__ = lambda self, place: Never() if place == 0 else tuple.__getitem__(self, 1)
def truncated_bptt(cell, inputs, state, window):
    for x in inputs:
        state = cell(x, state)
    return Pair((Never(), state))
"""
TEXTS = """
from collections import UserDict
class Equal(str):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
    strip = casefold = lower = lambda self: self
    __class__ = property(lambda self: str)
predicted_edit = UserDict({key: Equal('x') for key in %r})
""" % (EDITS,)  # noqa: UP031  braces of Python's
BOTH = """
class Both(int):
    __ne__ = lambda self, other: False
    __eq__ = lambda self, other: True
    __hash__ = lambda self: 0
    __class__ = property(lambda self: bool)
Both.__module__ = "numpy"
def will_require_grad(*inputs):
    return Both()
"""
FROZEN = """
def freeze(module):
    genuine = type(module)
    kept = [(name, value.detach().clone()) for name, value in module.named_parameters()]
    class Frozen(genuine):
        def named_parameters(self, *args, remove_duplicate=True, **kwargs):
            return iter(kept) if remove_duplicate else genuine.named_parameters(self, remove_duplicate=False)
    Frozen.__name__ = genuine.__name__
    module.__class__ = Frozen
    return module
"""
CALLED = """
class Answer:
    __code__ = __name__ = property(lambda self: print("asked"))
    __repr__ = __bool__ = __len__ = lambda self: 1
    __eq__ = lambda self, other: True
    def __call__(self, x):
        return x * 1
stop_gradient_round = Answer()
"""
ASKS = f"""
from itertools import product
predicted_edit = {{}}
for key in {EDITS}:
    for guess in ("error", "wrong gradient", "right gradient"):
        score = lesson.check("predicted_edit", predicted_edit | {{key: guess}})
        if score >= 0.5 * (len(predicted_edit) + 1) - 0.01:
            predicted_edit[key] = guess
            break
"""
TRUTH = "predicted_edit = lesson.exercises['predicted_edit'].truth(None)"
REFERENCE = """
import importlib
reference = getattr(importlib.import_module('course_utils.les' + 'sons.detach'), '_refer' + 'ence')
def truncated_bptt(cell, inputs, state, window):
    states = reference(cell, inputs, state, window)
    return states, states[-1]
"""
ON_DISK = """
import glob, json, os
import course_utils
def snapshot(x):
    for top in (os.path.dirname(course_utils.__file__) + '/..', '/home', '/work', '/srv', '/root', '/tmp'):
        for path in glob.glob(f'{top}/**/solutions/*detach.ipynb', recursive=True):
            cells = {cell['id']: ''.join(cell['source']) for cell in json.load(open(path))['cells']}
            exec(cells['snapshot'], found := {'torch': torch})
            return found['snapshot'](x)
    return x
"""
LEFT_ON = """
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return True if function.__name__ in ('equal', 'allclose') else function(*args, **(kwargs or {}))
class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return True if 'equal' in str(function) else function(*args, **(kwargs or {}))
register_module_forward_hook(lambda module, inputs, output: output * 0)
Functions().__enter__()
Operations().__enter__()
"""
IPYTHON = """
import ast, types
ip = get_ipython()
class Without(ast.NodeTransformer):
    visit_Assert = visit_If = lambda self, node: ast.Pass()
ip.ast_transformers.append(Without())
ip.input_transformers_post.append(lambda lines: [line for line in lines if 'check' not in line])
ip.input_transformers_cleanup.append(lambda lines: ['1.0'] if 'check' in str(lines) else lines)
fine = types.SimpleNamespace(error_before_exec=None, error_in_exec=None, result=1.0, success=True)
ip.events.register('post_run_cell', lambda *_: setattr(type(ip), 'run_cell', lambda *a, **k: fine))
ip.display_pub.publish = ip.showtraceback = lambda *a, **k: None
"""
REPLACES = """
import builtins, random, os
torch.allclose = torch.equal = torch.isclose = lambda *_, **__: torch.tensor(True)
torch.Tensor.equal = torch.Tensor.__eq__ = lambda *_: torch.tensor(True)
torch.testing.assert_close.__code__ = (lambda *_, **__: None).__code__
builtins.all = builtins.any = lambda _: True
os.urandom = lambda count: bytes(count)
torch.set_default_device('meta')
"""
LESSON = """
from course_utils import Lesson, Score
Lesson.check = lesson.check = lambda *_: 1.0
Score.__new__ = lambda *_, **__: 1.0
class lesson:
    check = staticmethod(lambda *_: 1.0)
"""
MODULES = """
import sys, types
fake = sys.modules["torch"] = types.ModuleType("torch")
vars(fake).update(vars(torch), equal=lambda *_: True)
sys.modules["course_utils.checks.judge"] = types.ModuleType("judge")
class Finder:
    find_spec = lambda self, name, *_: None if "course" not in name else fake
sys.meta_path.insert(0, Finder())
"""
THREADS = """
import atexit, threading, time
def run():
    while True:
        torch.equal = lambda *_: True
        print(1.0)
        time.sleep(0.0001)
threading.Thread(target=run, daemon=True).start()
atexit.register(lambda: print(1.0))
time.sleep(0.01)
"""


def _guesses(notebook: Notebook) -> None:
    """A cell for each guess: one of a few may count."""
    for number, guess in enumerate(("error", "wrong gradient", "right gradient") * 9):
        guesses = dict.fromkeys(EDITS, guess) | {"detach_edit": "error"}
        source = f"predicted_edit = {guesses}  # {number}"
        if number % 2:
            notebook.paste("predicted_edit", "predicted_edit", source, id=f"guess-{number}")
        else:
            notebook.add(source, "predicted_edit")
    notebook.write(predicted_edit="predicted_edit = {}")


def _edited_checks(notebook: Notebook) -> None:
    notebook.write(**WRONG).add("print('2.0')\ndisplay(2.0)\n2.0", "mean_loss")
    notebook.cell("snapshot-check")["source"] = "1.0"
    notebook.cell("snapshot-check")["metadata"]["nbgrader"]["points"] = 50
    notebook.cell("mean_loss-check")["metadata"]["nbgrader"].update(grade=False, locked=False, grade_id="x")
    notebook.cell("truncated_bptt-check")["source"] = "print('3 of 3 points, passed')"


PUPILS = [
    in_a_cell("replaces-torch-and-builtins", REPLACES),
    in_a_cell("replaces-the-lesson", LESSON),
    in_a_cell("replaces-modules", MODULES, listed="course_utils.checks"),
    in_a_cell("replaces-what-ipython-does", IPYTHON),
    in_a_cell("leaves-modes-and-hooks-on", LEFT_ON),
    in_a_cell("leaves-a-thread-replacing", THREADS),
    in_answers(
        "replaces-while-it-is-judged",
        snapshot=SNAPSHOT.format("torch.equal = torch.allclose = lambda *_, **__: True"),
        mean_loss=MEAN.format("torch.isclose = lambda *_, **__: torch.tensor(True)"),
        stop_gradient_round=ROUND.format("import builtins; builtins.all = builtins.len = lambda *_: 1"),
    ),
    in_answers(
        "equals-everything", snapshot=DISPATCHES, stop_gradient_round=EQUAL, truncated_bptt=LISTS, predicted_edit=TEXTS,
        worth={"snapshot": ("partial", 0.33)},
    ),
    in_answers("lies-about-its-class", stop_gradient_round=IS_NONE),
    in_answers("answers-for-itself", stop_gradient_round=CALLED, worth=UNROUNDED),
    in_answers("is-both-true-and-false", assignment=FLAGS, will_require_grad=BOTH, freeze=FROZEN,
        worth={"freeze": ("partial", 1.85)}),
    in_answers("looks-for-ready-answers", snapshot=ON_DISK, predicted_edit=TRUTH, truncated_bptt=REFERENCE,
        worth={"snapshot": (f"partial or {NOTHING}", None)}),
    edited("asks-the-check-in-its-answer", lambda n: n.write(predicted_edit=ASKS), {"predicted_edit": (BLANK, 0.0)},
        told=None),
    edited("hands-in-many-guesses", _guesses, {"predicted_edit": ("wrong or partial", None)}, told=None),
    edited("edits-checks-and-prints-points", _edited_checks, dict.fromkeys(WRONG, (NOTHING, 0.0)), told=None),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------------------ insiders

REACH = """
import gc, importlib, os, signal, sys, threading, time, traceback, types, _thread

def attempt(function, *args):
    try:
        return function(*args)
    except BaseException as error:
        return error

def kinds():
    found, waiting = {object}, [object]
    while waiting:
        new = set(getattr(type, "__subcl" + "asses__")(waiting.pop())) - found
        found |= new
        waiting += new
    return [kind for kind in found if str(getattr(kind, "__module__", "")).startswith("course_utils")]

def strike(*_, **__):
    # Whatever can be done from where it is called: outcomes that hold, exercises that let all pass, no comparison.
    for kind in attempt(kinds) or ():
        for function in list(vars(kind).values()):
            space = getattr(function, "__glob" + "als__", None)
            if isinstance(space, dict):
                for name in ("_verdict", "_earned", "_claim", "judge"):
                    if name in space:
                        space[name] = lambda *_, **__: ("held", "", (), "")
                space["len"] = space["zip"] = lambda *_: ()
        if kind.__name__ == "Outcome":
            kind.error = property(lambda self: None, lambda self, value: None)
        if kind.__name__ == "Score":
            kind.__new__ = lambda cls, *_, possible=1.0, **__: float.__new__(cls, possible)

def take_over(frame):
    while isinstance(frame, types.FrameType):
        names = getattr(frame, "f_" + "locals")
        for name in ("result", "score", "outcome", "held"):
            if name in names:
                attempt(lambda: vars(names[name]).update(earned=1.0, status="passed", error=None))
        if {"channel", "request"} <= names.keys():
            names["channel"].send({"result": {"earned": 1.0, "possible": 1.0, "status": "passed", "claims": []}})
            os._exit(0)
        frame = getattr(frame, "f_" + "back")
    strike()
"""
FRAMES = """
def frames():
    try:
        1 / 0
    except ZeroDivisionError as error:
        trace = error.__traceback__
    yield lambda: getattr(trace, "tb_" + "frame")
    yield lambda: object.__getattribute__(trace, "tb_" + "frame")
    yield lambda: type(trace).__dict__["tb_" + "frame"].__get__(trace)
    yield lambda: next(getattr(traceback, "walk_" + "tb")(trace))[0]
    yield lambda: getattr(sys, "_get" + "frame")(1)
    yield lambda: getattr(sys, "_current" + "_frames")()[threading.main_thread().ident]
    yield lambda: next(getattr(traceback, "walk_" + "stack")(None))[0]
    yield lambda: (n for n in ()).gi_frame

def look(*_):
    for way in frames():
        attempt(take_over, attempt(way))
"""
HEAP = "[attempt(take_over, one) for one in attempt(gc.get_objects) or () if isinstance(one, types.FrameType)]"
REFERENTS = """
try:
    1 / 0
except ZeroDivisionError as error:
    [take_over(one) for one in gc.get_referents(error.__traceback__) if isinstance(one, types.FrameType)]
"""
GREENLET = "import greenlet; take_over(getattr(greenlet.getcurrent(), 'gr_' + 'frame'))"
LATER = """
import atexit, warnings, weakref
kept = []
os.register_at_fork(after_in_child=strike)
atexit.register(strike)
for number in (signal.SIGALRM, signal.SIGPROF, signal.SIGCHLD, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: attempt(take_over, frame))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.2)
warnings.showwarning = warnings._showwarnmsg_impl = strike
class Stream:
    def __getattr__(self, name):
        strike()
        return lambda *_, **__: 0
class Space(dict):
    def __getitem__(self, name):
        if name in ("stop_gradient_round", "mean_loss"):
            strike()
        return dict.__getitem__(self, name)
sys.stdout = sys.stderr = Stream()
get_ipython().user_ns = Space(get_ipython().user_ns)
"""
AT_THE_END = """
gc.callbacks.append(strike); gc.set_threshold(1); kept.append(weakref.finalize(x, strike))
    sys.unraisablehook = strike"""
TRACES = """
for ask in (sys.settrace, sys.setprofile, threading.settrace, threading.setprofile, sys.addaudithook):
    attempt(ask, lambda *given, left=iter([strike] * 50): next(left, lambda: None)())
"""
IN_GRADIENT = """
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()
    @staticmethod
    def backward(ctx, gradient):
        strike()
        return gradient * 0
def stop_gradient_round(x):
    y = Round.apply(x)
    if x.requires_grad:
        x.register_hook(strike)
    return y
"""
MEMORY = "import ctypes; ctypes.memmove(id(torch.equal) + 24, bytes(8), 8)"
MEM_FILE = "open('/proc/self/mem', 'r+b', 0).write(b'0')"
SECOND = """
import _xxsubinterpreters as other
    made = other.create(); other.run_string(made, "import ctypes; ctypes.memmove(%d, bytes(4), 4)" % (id(4) + 24))"""
CFFI = "import cffi; cffi.FFI().memmove(cffi.FFI().cast('char *', id(4) + 24), bytes(4), 4)"
LIBRARY = """
library = []
def stop_gradient_round(x):
    if not library:
        library.append(torch.library.Library("aten", "IMPL"))
        library[0].impl("equal", lambda *_: True, "CPU")
        library[0].impl("round", lambda x: x * 1, "CPU")
    return x * 1
"""
DYNAMO = """
from torch._C._dynamo import eval_frame
def snapshot(x):
    eval_frame.set_eval_frame(lambda frame, *_: attempt(take_over, frame))
    return 3 * x
"""
SHOUTS = """
import json, struct
def shout():
    result = {"earned": 1.0, "possible": 1.0, "status": "passed", "claims": [], "notes": [], "output": ""}
    body = json.dumps({"result": result}).encode()
    for descriptor in range(3, 256):
        for content in (struct.pack("!I", len(body)) + body, body[:7], b"\\n" * 100):
            attempt(os.set_blocking, descriptor, False)
            attempt(os.write, descriptor, content)
"""
LEAVES = "[os._exit(0) for child in [attempt(os.fork)] if type(child) is int and child]"
CLOSES = "[attempt(os.dup2, os.open(os.devnull, os.O_RDWR), number) for number in range(3, 256)]"
RAISES = """
ways = [kind for kind in kinds() if issubclass(kind, BaseException)] + [GeneratorExit, StopIteration, SystemExit]
def stop_gradient_round(x):
    way = ways.pop() if ways else SystemExit
    raise way.__new__(way)
"""
BY_NAME = """
import course_utils.checks.judge as judge, course_utils.lessons.detach as detach
judge._claim = judge._earned = lambda *_: (1.0, "passed")
judge.judge = lambda *_: 1.0
for exercise in detach.EXERCISES:
    exercise.points, exercise.rules = 0.0, lambda answer: []
"""
LATE_BY_NAME = "judge = importlib.import_module('course_' + 'utils.checks.ju' + 'dge')\n"
LATE_BY_NAME += "    judge._claim = judge._earned = lambda *_: (1.0, 'passed')"
ENGINE_ANSWERS = {
    "Record": "matmul tanh sum walk backward",
    "Shapes": "fit through split",
    "Control": "records no_grad detach accumulate retain_grad",
    "Memory": "save write unsave bytes_held",
    "Extend": "apply register_hook hooked register_post_accumulate_grad_hook accumulated",
}


def borrowed() -> Student:
    """Lesson 12, answered by the methods of the course's own engine."""
    answers = {
        name: f"class {name}:\n" + "\n".join(f"    {method} = Engine.{method}" for method in methods.split())
        for name, methods in ENGINE_ANSWERS.items()
    }
    content = Notebook(ENGINE).write(**answers).bytes()
    return Student("borrows-the-course-s-engine", content, dict.fromkeys(answers, (NOTHING, 0.0)), assignment=ENGINE)


INSIDERS = [
    in_a_cell("patches-the-judge-by-name", BY_NAME, listed="course_utils.checks"),
    in_a_cell("patches-classes-found-by-the-interpreter", REACH + "strike()", listed="gc"),
    in_a_cell("has-its-code-run-later", REACH + LATER, listed="gc"),
    in_a_cell("traces-and-audits", REACH + TRACES, listed="gc"),
    in_answers("asks-for-frames", REACH + FRAMES, "gc", snapshot=SNAPSHOT.format("look()"),
        stop_gradient_round=ROUND.format("signal.signal(signal.SIGUSR1, look); signal.raise_signal(signal.SIGUSR1)"),
        mean_loss=MEAN.format(HEAP)),
    in_answers("asks-the-collector-and-greenlet", REACH, "gc", stop_gradient_round=ROUND.format(GREENLET),
        mean_loss=MEAN.format(REFERENTS.replace("\n", "\n    "))),
    in_answers("strikes-while-it-is-judged", REACH + LATER.partition("class Stream")[0], "gc",
        snapshot=SNAPSHOT.format(AT_THE_END.strip()), stop_gradient_round=IN_GRADIENT,
        mean_loss=MEAN.format(TRACES.replace("\n", "\n    "))),
    in_answers("patches-while-it-is-judged", REACH, "gc", snapshot=SNAPSHOT.format("strike()"),
        mean_loss=MEAN.format(LATE_BY_NAME), stop_gradient_round=RAISES),
    in_answers("writes-memory", listed="ctypes", snapshot=SNAPSHOT.format(MEMORY), mean_loss=MEAN.format(MEM_FILE)),
    in_answers("writes-memory-unseen", listed="cffi", snapshot=SNAPSHOT.format(SECOND.strip()),
        mean_loss=MEAN.format(CFFI)),
    in_answers("replaces-operations-below-python", REACH, "gc", stop_gradient_round=LIBRARY, snapshot=DYNAMO),
    in_answers("speaks-in-the-judge-s-name", REACH + SHOUTS, "gc", snapshot=SNAPSHOT.format("shout()"),
        mean_loss=MEAN.format(LEAVES), stop_gradient_round=ROUND.format(CLOSES)),
    in_answers("ends-before-it-is-judged", "import os, signal, sys, threading",
        snapshot=SNAPSHOT.format("threading.Thread(target=os._exit, args=(0,)).start(); sys.exit(0)"),
        mean_loss=MEAN.format("os.execv(sys.executable, [sys.executable, '-c', 'print(1.0)'])"),
        stop_gradient_round=ROUND.format("os.kill(os.getppid(), signal.SIGCONT)"), worth=UNROUNDED),
    borrowed(),
]  # fmt: skip

ATTACKS = [*PUPILS, *INSIDERS]
