"""Right answers by students with unusual habits (``STYLES``): each keeps all its points, or a person is told why not.

Every row is one student, and most rows are several habits that were met in real notebooks or once cost somebody points.
What a helper cell does is ``NEEDED``: the answer to ``snapshot`` calls ``severed``, which the cell defines in its last
lines, so that a cell which is refused half-way costs a point. What is ``BESIDE`` the answers may be lost alone: a cell
that raises, prints or runs without end, or ends its process.
"""

import re
from collections.abc import Callable

from tests.classroom.handed_in import DETACH, FLAGS, MODES, Notebook, solutions
from tests.classroom.students import BY_HAND, HELD, Student, edited, rows, with_cells

SEVERED = "\n\ndef severed(x):\n    return x.detach()"
BY_SEVERED = "def snapshot(x):\n    return severed(x).clone()"

NEEDED = r"""
#: works-in-colab
import sys
import types

IN_COLAB = "google.colab" in sys.modules  #@param {type:"boolean"}
%pip --version
!nvidia-smi
try:
    from tqdm.auto import tqdm
except ImportError:
    sys.modules["tqdm"] = types.ModuleType("tqdm")
    sys.modules["tqdm"].tqdm = lambda items, **_: items
    from tqdm import tqdm
for name in ("cupy", "google.colab"):
    try:
        __import__(name)
    except ImportError:
        print("without", name)
sys.path.append("..")
sys.path.insert(0, "/content/drive")
#: mocks-and-makes-modules
import sys
import types
from unittest.mock import MagicMock, patch

sys.modules["wandb"] = MagicMock()
import wandb

wandb.init(project="detach").log({"loss": 1})
with patch("builtins.print") as printed, patch.object(torch, "manual_seed"):
    print("hidden")
assert printed.called
sys.modules["my_helpers"] = types.ModuleType("my_helpers")
exec("def twice(x):\n    return 2 * x", vars(sys.modules["my_helpers"]))
from my_helpers import twice

for name in [name for name in sys.modules if name.startswith("colorsys")]:
    del sys.modules[name]
import colorsys
#: asks-what-there-is
import getpass
import os
import platform
import resource
import socket
import tracemalloc
from pathlib import Path

import psutil

print(Path("/proc/meminfo").read_text().splitlines()[0], Path("/proc/loadavg").read_text())
print([line for line in open("/proc/self/status") if line.startswith("VmRSS")])
print(psutil.Process().memory_info().rss, psutil.virtual_memory().total, len(psutil.pids()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, platform.platform(), socket.gethostname())
print(os.environ.get("HOME"), os.getcwd(), getpass.getuser(), os.listdir("."), Path.home())
tracemalloc.start()
os.environ["KMP_DUPLICATE_LIB_OK"] = "TRUE"
os.system("clear")
try:
    socket.create_connection(("198.51.100.1", 53), timeout=0.2).close()
except OSError:
    print("no network")
#: compiles
import dis

@torch.compile(backend="eager")
def fused(x, y):
    return (x * y).tanh()

print(fused(torch.ones(2), torch.ones(2)), fused.__code__.co_consts)
@torch.compile
def not_called(x):
    return x
dis.dis(not_called)
#: has-names-of-the-judge
import copy
judge = score = trial = claim = check = capture = runner = 3
exercises, rules, truth, EXERCISES, secret, nonce = {}, [], None, (), "x", 1
calls = [lesson.check("snapshot", lambda x: x), lesson.check("predicted_edit", {})]
class Quiet(Lesson):
    def check(self, name, answer):
        calls.append(super().check(name, answer))
        return calls[-1]
lesson = Quiet("detach")
print(list(lesson.exercises), copy.copy(lesson.info), Lesson("no_grad"))
#: asks-the-course-for-everything
from course_utils import *
from course_utils import environment, progress, reset_progress
import importlib
import course_utils

lesson.hint("snapshot"), lesson.solution("snapshot"), lesson.solution("snapshot"), lesson.scorecard(), progress()
print(environment(), lesson.info, repr(lesson))
reset_progress()
with expect_error("does not require grad"):
    torch.ones(1).backward()
importlib.reload(course_utils)
#: shows-what-a-notebook-can-show
import functools
import warnings
from IPython.display import HTML, Javascript, Markdown, clear_output, display, update_display
import matplotlib.pyplot as plt
import rich

handle = display("first", display_id=True)
handle.update("second")
display(HTML("<b>bold</b><script>1</script>"), Markdown("**bold**"), Javascript("1"))
plt.plot([1, 2, 3])
plt.title("δ")
plt.show()
class Table:
    def _repr_html_(self):
        return "<table><tr><td>1</td></tr></table>"
display(Table())
rich.print("[bold]bold[/]")
torch.Tensor.__repr__ = lambda self, **_: f"tensor{tuple(self.shape)}"
warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"
warnings.warn("shown in one line")
import builtins
builtins.print = functools.partial(print, flush=True)
print(ascii("\ud800"), "\ud800 and \udfff", "x" * 2**20)
#: redirects-and-copies-all-output
import contextlib
import faulthandler
import io
import logging
import os
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
with contextlib.redirect_stdout(io.StringIO()) as text:
    print("hidden")
os.write(1, b"straight\n")
print("first", file=sys.__stdout__)
logging.basicConfig(level=logging.DEBUG, force=True)
logging.getLogger(__name__).warning("from here")
faulthandler.enable()
hook = sys.displayhook
sys.displayhook = lambda value: hook(value)
#: uses-every-magic
%matplotlib inline
%load_ext autoreload
%autoreload 2
%load_ext course_utils
speed = %timeit -n 1 -r 1 -o torch.ones(2)
%time three = 3
%env TOKENIZERS_PARALLELISM=false
%cd /tmp
%cd -
%who
torch.ones?
torch.nn.Linear??
files = !ls /
!echo {len(files)} $HOME
%xmode Minimal
%alias show echo
%show done
%prun -q torch.ones(2).sum()
assert three == 3
#+
%%bash
ls | head -3
#+
%%html
<b>bold</b>
#+
%%memory
torch.ones(100)
#+
%%timeit -n 2 -r 2
torch.ones(2)
#+
3 + 4
#+
assert _ == 7 and In[-2] == "3 + 4"
#: works-on-ipython-itself
from IPython.core.magic import register_line_magic
import asyncio
import sys

@register_line_magic
def shout(line):
    return line.upper()
ip = get_ipython()
ip.user_ns["six_"] = 6
ip.push({"seven": 7})
assert six_ == 6 and ip.ev("seven") == 7
ip.events.register("pre_run_cell", lambda info: None)
ip.events.register("post_run_cell", lambda result: print(result.success))
ip.set_custom_exc((ZeroDivisionError,), lambda shell, kind, error, trace, tb_offset=None: print(kind.__name__))
sys.excepthook = lambda *error: print(error)
%shout hello
task = asyncio.create_task(asyncio.sleep(0.01, "done"))
await asyncio.sleep(0)
#+
1 / 0
#+
assert await task == "done"
#: keeps-helpers-in-files
%%writefile helpers.py
def twice(x):
    return 2 * x
#+
!mkdir -p lib && touch lib/__init__.py && echo 'THREE = 3' > lib/numbers.py
#+
%%writefile set_up.py
FIVE = 5
#+
import importlib
from pathlib import Path
import helpers
from helpers import *
from lib.numbers import THREE

Path("helpers.py").write_text(Path("helpers.py").read_text() + "# again")
importlib.reload(helpers)
%run set_up.py
assert helpers.twice(2) == twice(2) == 4 and FIVE == 5
Path("run").mkdir()
with open("run/log.txt", "x") as file:
    file.write("begun")
import os, tempfile
os.chdir(tempfile.mkdtemp())
#: leaves-settings-of-torch-behind
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
torch.set_default_dtype(torch.float64)
torch.set_default_device("cpu")
torch.use_deterministic_algorithms(True)
torch.autograd.set_detect_anomaly(True)
torch.set_flush_denormal(True)
torch.set_warn_always(True)
torch.set_printoptions(precision=2, sci_mode=False)
torch.set_float32_matmul_precision("high")
torch.set_num_threads(2)
torch.manual_seed(0)
#: leaves-settings-of-python-behind
import atexit
import decimal
import gc
import locale
import numpy as np
import os
import sys
import threading

sys.setrecursionlimit(200)
sys.setswitchinterval(0.001)
sys.argv = ["train"]
gc.disable()
gc.callbacks.append(lambda phase, info: None)
locale.setlocale(locale.LC_ALL, "")
decimal.getcontext().prec = 50
np.seterr(all="raise")
threading.stack_size(2**26)
atexit.register(print, "bye")
os.register_at_fork(after_in_child=lambda: None)
#: sets-alarms-and-handlers
import signal
import time

def stop(number, frame):
    raise TimeoutError
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    time.sleep(5)
except TimeoutError:
    print("stopped")
signal.signal(signal.SIGINT, lambda *_: None)
signal.signal(signal.SIGTERM, lambda *_: None)
#: profiles-and-debugs
import cProfile
import pdb
import sys
import trace
import threading
import warnings

seen = []
def tracer(frame, event, arg):
    seen.append(event)
    return tracer
sys.settrace(tracer)
len([])
sys.settrace(None)
threading.settrace(lambda frame, event, arg: None)
threading.setprofile(lambda *_: None)
with cProfile.Profile() as profile:
    torch.ones(3).sum()
trace.Trace(count=1, trace=0).runfunc(max, 1, 2)
pdb.Pdb(nosigint=True, readrc=False)
warnings.warn = lambda *args, **kwargs: None
with torch.profiler.profile(profile_memory=True) as profile:
    torch.ones(10).sum()
#: leaves-threads-running
import logging.handlers
import queue
import threading
import time

def tick():
    while True:
        time.sleep(0.01)
threads = [threading.Thread(target=print, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
threading.Thread(target=tick, daemon=True).start()
threading.Timer(3600, print).start()
logging.handlers.QueueListener(queue.Queue(), logging.StreamHandler()).start()
#: works-in-processes
import math
import multiprocessing
import os
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory
from torch.utils.data import DataLoader, TensorDataset

with ProcessPoolExecutor(2) as pool:
    assert list(pool.map(math.factorial, [3, 4])) == [6, 24]
context = multiprocessing.get_context("fork")
results = context.Queue()
process = context.Process(target=lambda: results.put(3))
process.start()
assert results.get(timeout=10) == 3
process.join()
block = shared_memory.SharedMemory(create=True, size=16)
block.close()
block.unlink()
loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2)
assert sum(batch.sum().item() for (batch,) in loader) == 28
sleeper = subprocess.Popen(["sleep", "600"])
if os.fork() == 0:
    os._exit(0)
os.wait()
#: extends-torch
import torch.nn.modules.module as modules

class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})
assert isinstance(torch.ones(2).as_subclass(Named) + 1, Named)
@torch.library.custom_op("ada::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x
library = torch.library.Library("grace", "DEF")
library.define("thrice(Tensor x) -> Tensor")
library.impl("thrice", lambda x: 3 * x, "CompositeImplicitAutograd")
assert torch.ops.grace.thrice(torch.ops.ada.twice(torch.ones(1))) == 6
modules.register_module_forward_hook(lambda module, args, output: None)
modules.register_module_full_backward_hook(lambda module, grad_input, grad_output: None)
torch.Tensor.copied = lambda self: self.detach().clone()
nn.Linear.reset_parameters = lambda self: nn.init.xavier_uniform_(self.weight)
import builtins
builtins.profile = lambda function: function
#: uses-modes-and-transforms
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.func import grad, vmap
from torch.fx import symbolic_trace
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

class Count(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
class Log(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
leaf = torch.ones(2, requires_grad=True)
with Count(), Log(), FlopCounterMode(display=False), saved_tensors_hooks(lambda t: t, lambda t: t), save_on_cpu():
    (leaf * leaf).sum().backward()
print(vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2)), grad(torch.sin)(torch.tensor(1.0)))
print(symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).code, leaf.untyped_storage().data_ptr())
#: keeps-more-than-a-gigabyte
ballast = bytearray(1_300 * 2**20)
#: writes-texts-of-all-kinds
path = "D:\data\models"  # and \\server\share; größer; ゼロより大きい; אפס
größe = Δ = переменная = 変数 = 1
text = 'xxxxxxxxxx'; numbers = [*range(5_000)]; nested = [[[[[[[[[[[[]]]]]]]]]]]]
print("\U0001f469\u200d\U0001f52c" * 3); value = 1 + \
    1
#: looks-into-everything
import gc
import inspect
import traceback
import course_utils.checks.judge
from course_utils.checks.score import Score

def counter():
    count = 0
    def step():
        nonlocal count
        count += 1
    return step
assert counter().__closure__[0].cell_contents == 0 and counter.__globals__ is globals()
print(len(nn.Module.__subclasses__()), inspect.getsource(Lesson.check)[:100], Score)
try:
    torch.ones(2).view(3)
except RuntimeError as error:
    print(error.__traceback__.tb_frame.f_code.co_name, traceback.format_exc())
print(sum(torch.is_tensor(item) for item in gc.get_objects()), len(gc.get_referrers(gc)))
#: asks-ctypes
import ctypes

print(ctypes.sizeof(ctypes.c_int), ctypes.CDLL("libc.so.6").malloc_trim(0))
shared = torch.ones(2)
print("references:", ctypes.c_long.from_address(id(shared)).value)
"""

ANSWERED = r"""
#: answers-under-magics
%load_ext course_utils
#> snapshot
%%time
def snapshot(x):
    return x.detach().clone()
#> stop_gradient_round
%%memory
def stop_gradient_round(x):
    return x + (x.round() - x).detach()
#> predicted_edit
%%capture printed
print("hello")
predicted_edit = dict(detach_edit="error", data_edit="wrong gradient")
predicted_edit |= dict.fromkeys(["clone_edit", "detach_clone_edit"], "right gradient")
#: makes-its-answers-of-texts
#> snapshot
for name, way in {"snapshot": "x.detach().clone()", "thrice": "3 * x"}.items():
    exec(f"def {name}(x):\n    return {way}")
#> stop_gradient_round
import ast
import inspect

def stop_gradient_round(x):
    return x + (x.round() - x).detach()
tree = ast.parse(inspect.getsource(stop_gradient_round))
exec(compile(tree, "<again>", "exec"), globals())
#> predicted_edit
globals()["predicted_edit"] = eval("{'detach_edit': ' Error', 'data_edit': 'WRONG GRADIENT'}")
predicted_edit.update(dict.fromkeys(["clone_edit", "detach_clone_edit"], "right gradient"))
#: answers-by-objects
import functools
from functools import singledispatch
#> snapshot
class Snapshot(nn.Module):
    def forward(self, x):
        return x.detach().clone()
snapshot = Snapshot()
#> stop_gradient_round
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()
    @staticmethod
    def backward(ctx, gradient):
        return gradient
stop_gradient_round = Round.apply
#> mean_loss
class Mean:
    calls = 0
    @torch.no_grad()
    def __call__(self, model, loss_fn, batches):
        self.calls += 1
        total, count = 0, 0
        for x, y in batches:
            total, count = total + loss_fn(model(x), y), count + 1
        if not count:
            raise ValueError("no batches")
        return total / count
mean_loss = Mean()
#> predicted_edit
from collections import ChainMap
from types import MappingProxyType
import enum
import numpy as np
class Outcome(str, enum.Enum):
    RIGHT = "right gradient"
first = dict(zip(["detach_edit", "data_edit"], np.array(["error", "wrong gradient"])))
predicted_edit = MappingProxyType(ChainMap(first, dict.fromkeys(["clone_edit", "detach_clone_edit"], Outcome.RIGHT)))
#> truncated_bptt
def steps(cell, inputs, state, window, *, deep):
    if not inputs:
        return [], state
    if deep and deep % window == 0:
        state = state.detach()
    state = cell(inputs[0], state)
    rest, last = steps(cell, inputs[1:], state, window, deep=deep + 1)
    return [state, *rest], last
truncated_bptt = functools.partial(steps, deep=0)
#: decorates-its-answers
from __future__ import annotations
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
#> snapshot
from __future__ import annotations
@timed
def snapshot(テンソル: NotDefined, /, *, deep: bool = True) -> AlsoNot:
    match テンソル:
        case torch.Tensor() if (flat := テンソル.detach()) is not None:
            return flat.clone()
#> stop_gradient_round
@torch.compile(backend="eager")
def stop_gradient_round(x):
    return x + (x.round() - x).detach()
#: answers-under-conditions
#> snapshot
if __name__ == "__main__":
    def snapshot(x):
        return x.detach().clone()
#> stop_gradient_round
try:
    from my_unpublished_package import stop_gradient_round
except ImportError:
    def stop_gradient_round(*args, **kwargs):
        (x,) = args
        return x + (x.round() - x).detach()
#: raises-after-its-answers
#> snapshot
def snapshot(x):
    return x.detach().clone()

score = lesson.check("snapshot", snapshot)
assert snapshot(torch.ones(2)).sum() == 3, "counted wrongly"
#> stop_gradient_round
def stop_gradient_round(x):
    return x + (x.round() - x).detach()
unfinished = stop_gradient_round("text")
#: predicts-by-trying-it-out
#> predicted_edit
def outcome(take):
    x = torch.ones(1, requires_grad=True)
    y = x.exp()
    take(y).mul_(5)
    try:
        y.sum().backward()
    except RuntimeError:
        return "error"
    return "right gradient" if torch.allclose(x.grad, x.exp()) else "wrong gradient"
ways = {"detach_edit": torch.Tensor.detach, "data_edit": lambda y: y.data, "clone_edit": torch.Tensor.clone}
ways["detach_clone_edit"] = lambda y: y.detach().clone()
predicted_edit = {name: outcome(take) for name, take in ways.items()}
#: answers-by-threads
from concurrent.futures import ThreadPoolExecutor
import threading
#> snapshot
def snapshot(x):
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(lambda: x.detach().clone()).result()
#> stop_gradient_round
def stop_gradient_round(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(x + (x.round() - x).detach()))
    thread.start()
    thread.join()
    return found[0]
#: prints-and-shows-in-its-answers
import contextlib, io, logging, sys, warnings
import matplotlib.pyplot as plt
from IPython.display import clear_output
from rich.progress import track

warnings.simplefilter("error")
logging.getLogger("mine").addHandler(logging.FileHandler("run.log"))
#> snapshot
def snapshot(x):
    print("x" * 2**20, "\ud800")
    plt.figure()
    plt.close()
    return x.detach().clone()
#> mean_loss
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in track(batches):
        total = total + loss_fn(model(x), y).detach()
        count += 1
        sys.stdout.write(f"\rbatch {count}"); sys.stdout.flush()
        clear_output(wait=True); display(count)
    if not count:
        raise ValueError("no batches")
    return total / count
#> stop_gradient_round
def stop_gradient_round(x):
    warnings.warn("careful", stacklevel=2)
    logging.getLogger("mine").warning("copying %s", tuple(x.shape))
    with contextlib.redirect_stdout(io.StringIO()) as text:
        print("hidden")
    return x + (x.round() - x).detach()
#: goes-round-by-files
import copy, io, pickle, random, tempfile, time
from pathlib import Path
#> snapshot
def snapshot(x):
    random.seed(0)
    time.sleep(0.03)
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng():
        torch.save(x.detach().clone(), Path(folder) / "x.pt")
        return pickle.loads(pickle.dumps(copy.deepcopy(torch.load(Path(folder) / "x.pt", weights_only=True))))
#: uses-one-answer-in-another
history, plain_check = [], lesson.check
def check(name, answer):
    history.append(plain_check(name, answer))
    return history[-1]
lesson.check = check
#> snapshot
def snapshot(x):
    global calls
    assert lesson.device.type in ("cpu", "cuda")
    calls = snapshot.last = 1
    return without_history(x).clone()
def without_history(x):
    return x.detach()
#> stop_gradient_round
def stop_gradient_round(x):
    return x + without_history(snapshot(x.round() - x))
#: copies-with-prompts-and-spaces
#> snapshot
>>> def snapshot(x):
...     return x.detach().clone()
#> stop_gradient_round
In [3]: def stop_gradient_round(x):
   ...:     return x + (x.round() - x).detach()
#> truncated_bptt
    def truncated_bptt(cell, inputs, state, window):
        states = []
        for step, x in enumerate(inputs):
            state = state.detach() if step and step % window == 0 else state
            state = cell(x, state); states.append(state)
        return states, \
            state
#: makes-helpers-of-experiments
#> snapshot
def whole(x):
    return x.detach()

print(whole(weight))
def snapshot(x):
    return whole(x).clone()
"""

# What no answer needs; beside right answers, after the cell that is named.
BESIDE = {
    "stop-zero": r"""
#: hides-builtins-and-modes
from torch import *
from math import *
list, sum, id, type, len, str, input = [1], 0, 7, "gru", 2, "x", torch.randn(3)
max = min = dict = set = all = any = iter = next = range = zip = print = 0
torch.set_grad_enabled(False)
mode = torch.inference_mode()
mode.__enter__()
#: forks-between-two-answers
import multiprocessing
context = multiprocessing.get_context("fork")
results = context.Queue()
process = context.Process(target=results.put, args=(3,))
process.start()
assert results.get(timeout=10) == 3
process.join()
#: ends-its-process-three-times
import os
os._exit(3)
#+
quit()
#+
import os, signal
os.kill(os.getpid(), signal.SIGSEGV)
""",
    "snapshot": r"""
#: tests-and-raises-beside-its-answer
import inspect
print(inspect.signature(snapshot), inspect.getsource(snapshot))
score = lesson.check("snapshot", snapshot)
assert score == score.possible and print(score.claims, float(score))
#+
snapshot("text")
#+
lesson.check("no such exercise", 3)
#+
def unfinished(:
    pass
#+
raise KeyboardInterrupt
""",
    "written": r"""
#: checks-everything-at-the-end
for name in lesson.exercises:
    print(name, lesson.check(name, globals().get(name)))
lesson.scorecard()
""",
    "setup": r"""
#: loops-without-end
while True:
    pass
#: catches-its-own-interruption
while True:
    try:
        torch.ones(9).sum()
    except:
        pass
#: hears-no-signal
import signal, time
for number in signal.valid_signals() - {9, 19}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True:
    time.sleep(1)
#: prints-without-end
while True:
    print("x" * 10_000)
#: prints-and-shows-much
import sys
print("x" * 10**8)
for number in range(20_000):
    print(number, file=sys.stderr)
for number in range(500):
    display(number)
list(range(1_000_000))
#: shows-what-does-not-end
class Round:
    def __repr__(self):
        return repr(self)
class Picture:
    def _repr_png_(self):
        return bytes(10**6)
display(Round(), *[Picture()] * 50, {"image/png": 3, "text/plain": [["a"]]})
display({"image/png": [None], "text/plain": 10**400}, raw=True)
error = None
for place in range(5000):
    new = ValueError("x" * 100)
    new.__cause__, error = error, new
raise error
#: recurses-without-end
def down(n):
    return down(n + 1)
down(0)
#: takes-what-there-is
import torch
try:
    everything = bytearray(50 * 2**30)
except MemoryError:
    pass
try:
    torch.empty(10**13)
except RuntimeError:
    pass
hoard = []
while True:
    hoard.append(bytearray(2**24))
#: sets-an-alarm-that-ends-it
import signal
signal.setitimer(signal.ITIMER_REAL, 0.2)
#: stops-itself
import os, signal
os.kill(os.getpid(), signal.SIGSTOP)
#: closes-what-it-prints-to
import sys
sys.stdout.close()
sys.stderr.close()
#: keeps-locks-and-threads-at-the-end
import _imp, atexit, logging, threading, time
atexit.register(time.sleep, 10**6)
threading.Thread(target=time.sleep, args=(10**6,)).start()
logging._lock.acquire()
class Loop:
    def __del__(self):
        while True:
            pass
last = Loop()
""",
}

OTHER_LESSONS = {
    FLAGS: r"""
#: answers-flags-in-other-ways
import numpy as np
#> predicted_flags
a, b = torch.randn(3), torch.randn(3)
square = a**2
c = square.clone().requires_grad_()
d = c + b
total = d.sum()
named = dict(a=a, b=b, square=square, c=c, d=d, total=total, index=d.argmax(), mask=d > 0)
predicted_flags = {name: value.requires_grad for name, value in named.items()}
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
""",
    MODES: r"""
#: answers-modes-in-other-ways
import contextlib
import numpy as np

@contextlib.contextmanager
def evaluating(model):
    flags = [(module, module.training) for module in model.modules()]
    try:
        with torch.no_grad():
            yield model.eval()
    finally:
        for module, flag in flags:
            module.training = flag
#> predicted_modes
predicted_modes = dict(outer=0, inner_enabled=1, after_inner=np.False_, decorated=torch.tensor(False))
predicted_modes |= dict(generator_caller=False, thread=torch.ones((), dtype=torch.bool))
predicted_modes |= dict(parameter_under_no_grad=np.bool_(1), inference_output_is_inference=not False)
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
def frozen_features(backbone, x):
    with evaluating(backbone):
        return backbone(x).detach()
#> ema_update
@torch.no_grad()
def ema_update(target, online, decay):
    torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), 1 - decay)
    for old, new in zip(target.buffers(), online.buffers()):
        old.lerp_(new, 1 - decay) if old.is_floating_point() else old.copy_(new)
""",
}

# Right answers of which nobody can be sure: never a bare 0, a person decides.
MEAN_BY_POOL = """
def _one(model, loss_fn, x, y):
    with torch.no_grad():
        return loss_fn(model(x), y)

def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total = total + POOL.submit(_one, model, loss_fn, x, y).result({})
        count += 1
    if count == 0:
        raise ValueError("no batches")
    return total / count
"""
POOL = "from concurrent.futures import ThreadPoolExecutor\nPOOL = ThreadPoolExecutor(2)\nlist(POOL.map(pow, [1], [2]))"
DRIVE = (
    "from google.colab import drive\ndrive.mount('/content/drive')\n\ndef add(total, loss):\n    return total + loss"
)
BY_ADD = solutions()["mean_loss"].replace("total + ", "add(total, ").replace("y)\n", "y))\n")
LACKING = "import wandb_of_mine as wandb\ndef snapshot(x):\n    return x.detach().clone()"
LACKING_INSIDE = "def snapshot(x):\n    import wandb_of_mine\n    return x.detach().clone()"
BESIDES = "import pandas_of_mine"  # which no answer needs, and no message names
LOOKS = "import gc, inspect\ndef snapshot(x):\n    print({})\n    return x.detach().clone()"
BY_FRAME, LIVING = LOOKS.format("inspect.currentframe().f_code.co_name"), LOOKS.format("len(gc.get_objects())")
UNSURE = {  # name: cells, answers, what is judged by a person, and what is said of it
    "uses-a-pool-of-an-earlier-cell": ([POOL], {"mean_loss": MEAN_BY_POOL.format("timeout=2")}, "threads or processes"),
    "waits-for-a-pool-of-an-earlier-cell": ([POOL], {"mean_loss": MEAN_BY_POOL.format("")}, "threads|time|ended"),
    "imports-what-is-not-there": ([BESIDES], {"snapshot": LACKING}, "^((?!pandas).)*'wandb_of_mine' where"),
    "imports-it-in-its-answer": ([BESIDES], {"snapshot": LACKING_INSIDE}, "^((?!pandas).)*'wandb_of_mine' where"),
    "mounts-a-drive": ([DRIVE], {"mean_loss": BY_ADD}, "'google' where"),
    "names-itself-by-its-frame": ([], {"snapshot": BY_FRAME}, "frames of its callers"),
    "counts-what-is-alive": ([], {"snapshot": LIVING}, "garbage collector"),
}


# ---------------------------------------------------------------------------- what is unusual is where something stands

RIGHT = solutions()
STUB = Notebook().cell("snapshot")["source"]


def _elsewhere(notebook: Notebook) -> None:
    """Every answer in cells of its own, in ways that no text shows."""
    notebook.write(**{name: Notebook().cell(name)["source"] for name in RIGHT})
    notebook.add(f"import __main__\nexec({RIGHT['snapshot']!r})\nsetattr(__main__, 'snapshot', snapshot)", "snapshot")
    notebook.add(f"get_ipython().push({{'predicted_edit': {PREDICTED}}})", "predicted_edit")
    notebook.add(f"%%writefile answers.py\nimport torch\n{RIGHT['mean_loss']}", "edits-run")
    notebook.add("from answers import *", "mean_loss")
    notebook.add(OWN_MAGIC, "mean_loss").add(f"%%noted bptt\n{RIGHT['truncated_bptt']}", "truncated_bptt")
    inside = "\n    ".join(RIGHT["stop_gradient_round"].splitlines())
    notebook.add(f"def make():\n    global stop_gradient_round\n    {inside}\nmake()", "stop_gradient_round")


PREDICTED = dict(detach_edit="error", data_edit="wrong gradient", clone_edit="right gradient")
PREDICTED |= {"detach_clone_edit": "right gradient"}
OWN_MAGIC = """
from IPython.core.magic import register_cell_magic

@register_cell_magic
def noted(line, cell):
    get_ipython().run_cell(cell)
"""


def _in_one_cell(notebook: Notebook) -> None:
    notebook.add("\n\n".join(RIGHT.values())).remove(*RIGHT)
    keep = {"setup", "written", *(f"{name}-check" for name in RIGHT)}
    notebook.data["cells"] = [cell for cell in notebook.cells if cell["id"] in keep or cell["id"].startswith("new-")]


def _around_the_check(notebook: Notebook) -> None:
    check = notebook.write(snapshot=STUB).cell("snapshot-check")
    check["source"] = f"{RIGHT['snapshot']}\n\nprint({check['source']});\nlesson.scorecard()"
    notebook.add("def mean_loss(*given):\n    return 0", "mean_loss-check")  # tried after the check


def _one_name_twice(notebook: Notebook) -> None:
    notebook.add("def tool(x):\n    return x.detach()").add("del tool, snapshot", "snapshot-check")
    notebook.add("def tool(x):\n    return (x.round() - x).detach()", "stop-zero")
    notebook.write(snapshot="def snapshot(x):\n    return tool(x).clone()")
    notebook.write(stop_gradient_round="def stop_gradient_round(x):\n    return x + tool(x)")


def _below(notebook: Notebook) -> None:
    """What an answer needs, defined anew in a later cell that does nothing else."""
    notebook.add("def tool(x):\n    return x").add("def tool(x):\n    return x.round()", "stop_gradient_round-check")
    notebook.write(stop_gradient_round="def stop_gradient_round(x):\n    return x + (tool(x) - x).detach()")


def _hides_a_builtin(notebook: Notebook) -> None:
    notebook.add("def len(x):\n    return 7")
    notebook.write(snapshot="def snapshot(x):\n    return x.detach().clone() if len([x]) == 1 else x")


def _next_cell(stub: str) -> Callable[[Notebook], object]:
    """A dict that the answer's cell begins and the next one fills."""
    lines = "\n".join(f"predicted_edit[{key!r}] = {value!r}" for key, value in PREDICTED.items())
    return lambda notebook: notebook.write(predicted_edit=stub).add(lines, "predicted_edit")


def _under_another_name(notebook: Notebook) -> None:
    source = RIGHT["mean_loss"].replace("def mean_loss", "def my_mean_loss")
    notebook.write(mean_loss=source).cell("mean_loss-check")["source"] = 'lesson.check("mean_loss", my_mean_loss)'


def _in_colab(notebook: Notebook) -> None:
    """No ids, nothing of nbgrader's in the metadata, large outputs."""
    notebook.data |= {"nbformat_minor": 0, "metadata": {"colab": {"provenance": []}, "kernelspec": {"name": "julia"}}}
    data = {"text/html": "<b>1</b>", "image/png": "iVBORw0KGgo=", "application/x+json": {"a": float("nan")}}
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["x" * 100_000]}]
    outputs += [{"output_type": "execute_result", "execution_count": 3, "data": data, "metadata": {}}]
    for place, cell in enumerate(notebook.cells):
        cell.pop("id", None)
        cell["metadata"] = {"id": f"Ab{place:010d}", "outputId": "x"}
        cell |= {"execution_count": 1000 - place, "outputs": outputs} if cell["cell_type"] == "code" else {}


def _in_kaggle(notebook: Notebook) -> None:
    """New ids, foreign metadata, line ends of Windows, trailing spaces, empty cells."""
    for name in ("snapshot", "case", "written", "end"):
        for kind in ("code", "markdown", "raw") * 20:
            notebook.add("", name, kind)
    for place, cell in enumerate(notebook.cells):
        cell["metadata"] |= {"_uuid": f"{place:040x}", "trusted": True, "tags": ["raises-exception"], "editable": False}
        cell["metadata"] |= {"vscode": {"languageId": "python"}, "collapsed": True}
        cell |= {"id": f"{place:08x}", "source": (cell["source"].replace("\n", "  \r\n") + " \n\n").splitlines(True)}
    notebook.data["metadata"] |= {"widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}}}


EDITED = {
    "answers-in-cells-of-their-own": _elsewhere,
    "answers-in-one-cell": _in_one_cell,
    "answers-in-the-check-cell": _around_the_check,
    "gives-two-helpers-one-name": _one_name_twice,
    "defines-below-what-it-needs": _below,
    "hides-a-builtin-by-a-function": _hides_a_builtin,
    "fills-a-dict-in-the-next-cell": _next_cell(Notebook().cell("predicted_edit")["source"]),
    "fills-a-touched-dict-in-the-next-cell": _next_cell(Notebook().cell("predicted_edit")["source"] + "\npass"),
    "fills-half-a-dict-in-the-next-cell": _next_cell("predicted_edit = {'detach_edit': 'error', 'data_edit': ...}"),
    "saves-in-colab": _in_colab,
    "saves-in-kaggle": _in_kaggle,
}


def _listed(*sources: str) -> str:
    """A word that the teacher reads where it stands in what a student wrote."""
    text = "\n".join(sources)
    return next((word for word in ("ctypes", "gc") if re.search(rf"\b{word}\b", text)), "")


def _with(cells: list[str], after: str = "setup", lesson: str = DETACH, **answers: str) -> dict:
    """The content of a style, and the words in it."""
    content = with_cells(cells, after, lesson, **answers).bytes()
    return {"content": content, "assignment": lesson, "listed": _listed(*cells, *answers.values())}


STYLES = [
    *(
        Student(name, **_with([*cells[:-1], cells[-1] + SEVERED], snapshot=BY_SEVERED), expected=HELD)
        for name, cells, _ in rows(NEEDED)
    ),
    *(Student(name, **_with(cells, **answers), expected=HELD) for name, cells, answers in rows(ANSWERED)),
    *(
        Student(name, **_with(cells, after), expected=HELD)
        for after, table in BESIDE.items()
        for name, cells, _ in rows(table)
    ),
    *(
        Student(name, **_with(cells, lesson=lesson, **answers))
        for lesson, table in OTHER_LESSONS.items()
        for name, cells, answers in rows(table)
    ),
    *(
        Student(name, **_with(cells, **answers), expected=HELD | dict.fromkeys(answers, (BY_HAND, 0.0)), told=told)
        for name, (cells, answers, told) in UNSURE.items()
    ),
    *(edited(name, edit) for name, edit in EDITED.items()),
    edited("hands-its-answer-over-under-another-name", _under_another_name,
        {"mean_loss": (BY_HAND, 0.0)}, told="my_mean_loss"),
]  # fmt: skip
