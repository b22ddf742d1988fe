"""The warm interpreter in the sandbox: everything a check needs is imported once, then forked (``main``).

It never runs a student's code itself: every submission gets a fork, and this process guards it. Nothing here may start
a thread or run ``backward``: neither survives a fork. What only a lesson's experiments need, figures and the digits, is
left out: a larger process takes longer to fork, and experiments are seldom run.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import pkgutil
import signal
import socket
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from course_utils.classroom.sandbox import jail
from course_utils.classroom.sandbox.protocol import Broken, Channel, Closed
from course_utils.classroom.sandbox.supervisor import Supervisor
from course_utils.classroom.tampering.audit import announce_memory_calls
from course_utils.classroom.tampering.names import picture_of

# What lessons, checks and answers import when they are first used; each would cost every submission its time.
PRELOADED = (
    *("IPython.core.completer", "IPython.core.magics", "IPython.core.pylabtools", "torch._dynamo"),
    *("torch.fx.experimental.proxy_tensor", "torch.func", "torch.optim", "torch.testing"),
    *("torch.utils._python_dispatch", "torch.utils.checkpoint", "torch.utils.data", "torch.utils.flop_counter"),
)
# Whose names must be what they were when an answer is judged: what checks, cards and the runner call.
GUARDED = (
    *("builtins", "abc", "collections", "contextlib", "copy", "ctypes", "dataclasses", "dis", "enum", "functools"),
    *("gc", "html", "importlib", "inspect", "io", "itertools", "json", "json.decoder", "json.encoder", "linecache"),
    *("math", "numbers", "operator", "os", "os.path", "random", "re", "resource", "secrets", "select", "signal"),
    *("socket", "statistics", "string", "struct", "textwrap", "threading", "time", "traceback", "types", "typing"),
    *("warnings", "weakref", "numpy", "torch", "torch._C", "torch._C._autograd", "torch._tensor", "torch.autograd"),
    *("torch.autograd.function", "torch.autograd.functional", "torch.autograd.grad_mode", "torch.autograd.graph"),
    *("torch.autograd.gradcheck", "torch.func", "torch.functional", "torch.linalg", "torch.nn"),
    *("torch.nn.functional", "torch.nn.init", "torch.nn.modules.linear", "torch.nn.modules.loss"),
    *("torch.nn.modules.module", "torch.nn.parameter", "torch.nn.utils", "torch.optim", "torch.optim.optimizer"),
    *("torch.overrides", "torch.testing", "torch.testing._comparison", "torch.utils._python_dispatch"),
    *("torch.utils._pytree", "torch.utils.checkpoint", "torch.utils.flop_counter", "torch.utils.hooks"),
)
PACKAGE = "course_utils"
# What judges, and what imports something of it, as the drills do: a student's code gets a second copy of all of these.
# A module that is missing here would lead it to the first.
JUDGES = ("checks", "classroom", "drills", "lesson", "lessons")
NOT_LEARNERS = ("authoring", "classroom", "workspace")
NOT_JUDGING = tuple(f"{PACKAGE}.{name}" for name in ("classroom", "draw", "drills", "workspace"))
# Of this part of it, what has to do with judging; the shell's state changes with every cell.
OWN_JUDGING = tuple(f"{PACKAGE}.classroom.{name}" for name in ("sandbox.protocol", "sandbox.runner", "tampering"))


def main(control: int, roots: list[str]) -> None:
    """Warms up, says so, and then serves submissions until the grader is gone.

    Args:
        control: descriptor of the socket on which jobs arrive.
        roots: folders whose code is not a student's.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grader, which then ends this process
    nested = jail.can_nest()
    if not nested and jail.can_nest(leading=True):
        jail.lead()
        nested = True
    start = _warm_up(tuple(roots))
    if not nested:
        jail.adopt_orphans()
    end = socket.socket(fileno=control)
    Channel(end).send({"nested": nested})
    while True:
        data, descriptors, _, _ = socket.recv_fds(end, 1, 1)
        if not data or not descriptors:
            return
        grader = Channel(socket.socket(fileno=descriptors[0]))
        try:
            job = grader.receive()
            ready = partial(start, job["lesson"])
            with contextlib.closing(
                Supervisor(grader, jail.Bounds(**job["bounds"]), nested, roots, ready)
            ) as supervisor:
                supervisor.serve()
        except (Closed, Broken):  # the grader has what it wanted, or is gone
            pass
        finally:
            grader.close()


def _warm_up(roots: tuple[str, ...]) -> Callable[[str, int, int, bytes], Callable[[], None]]:
    """Loads everything once. Returns what makes a student's process ready, there; it takes the lesson first."""
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(RuntimeError):  # it was set before
        torch.set_num_interop_threads(1)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):  # not in this release of it; then nothing asks for it either
            importlib.import_module(name)
    # What torch.func registers when it is first used: a student's registrations can then be told from torch's own.
    getattr(sys.modules.get("torch._functorch.vmap"), "lazy_load_decompositions", lambda: None)()
    from course_utils.catalogue import LESSONS
    from course_utils.classroom.sandbox import runner
    from course_utils.classroom.sandbox.shell import make_shell
    from course_utils.lesson import Lesson

    exercises = {
        (info.name, name): exercise for info in LESSONS for name, exercise in Lesson(info.name).exercises.items()
    }
    _load_package()
    shell = make_shell()
    modules = _to_watch()
    _give_students_judges_of_their_own({lesson for lesson, _ in exercises})
    announce_memory_calls()
    restorer = picture_of(modules, PACKAGE, f"{PACKAGE}.lessons.", _lists(shell))
    restorers = {lesson: restorer(lesson) for lesson in ("", *sorted({name for name, _ in exercises}))}
    gc.collect()
    gc.freeze()  # so that a collection in a fork touches, and so copies, none of this

    def start(lesson: str, descriptor: int, reports: int, secret: bytes) -> Callable[[], None]:
        return runner.prepare(descriptor, reports, secret, shell, restorers[lesson], exercises, roots)

    return start


def _give_students_judges_of_their_own(names: set[str]) -> None:
    """Takes what judges, and this runner, out of the table of modules, and loads what judges a second time.

    A student's code finds the second set by its name and may do with it what it likes: what it earns is decided by
    the first, to which no name leads. The second set's exercises hold no claims and no right predictions.
    """
    package = sys.modules[PACKAGE]
    lessons = [sys.modules[f"{PACKAGE}.lessons.{name}"] for name in names]
    for name in list(sys.modules):
        parts = name.split(".")
        if parts[0] == PACKAGE and len(parts) > 1 and parts[1] in JUDGES:
            del sys.modules[name]
            if len(parts) == 2:
                vars(package).pop(parts[1], None)
    for lesson in lessons:
        sys.modules[lesson.__name__] = _without_claims(lesson)
    _load_package()
    for name in package.__all__:
        vars(package).pop(name, None)
        getattr(package, name)


def _lists(shell: Any) -> dict[str, Any]:
    hooks = vars(sys.modules["torch.nn.modules.module"]).items()
    transformers = shell.input_transformer_manager
    return {
        f"torch.nn's {name.strip('_').replace('_', ' ')}": value
        for name, value in hooks
        if name.startswith("_global_") and isinstance(value, dict)
    } | {
        "IPython's input transformers": shell.input_transformers_post,
        "IPython's cleanup transforms": transformers.cleanup_transforms,
        "IPython's line transforms": transformers.line_transforms,
        "IPython's token transforms": transformers.token_transformers,
        "IPython's ast transformers": shell.ast_transformers,
    }


def _load_package() -> None:
    """Every module that a learner's part of the package may load later."""
    for found in pkgutil.walk_packages(sys.modules[PACKAGE].__path__, f"{PACKAGE}."):
        if found.name.split(".")[1] not in NOT_LEARNERS:
            importlib.import_module(found.name)


def _to_watch() -> dict[str, types.ModuleType]:
    """The modules whose names must stay. Torch's first: what two of them hold is called by the first's name."""
    own = [name for name in sys.modules if f"{name}.".startswith(f"{PACKAGE}.")]
    own = [name for name in own if not name.startswith(NOT_JUDGING) or name.startswith(OWN_JUDGING)]
    return {name: sys.modules[name] for name in (*GUARDED, *own) if name in sys.modules}


def _without_claims(lesson: types.ModuleType) -> types.ModuleType:
    """A lesson's module as a student's code finds it: what its exercises are called, and nothing of how they judge."""
    from course_utils.checks.exercise import Exercise
    from course_utils.checks.missed import Missed

    def later(answer: Any) -> None:
        raise Missed(found="it is judged when your teacher grades")

    module = types.ModuleType(lesson.__name__)
    module.__file__ = lesson.__file__  # beside it lie the words that ``Lesson`` reads
    # What a notebook imports from a lesson are its functions, ``exercises`` aside.
    tools = {name for name, value in vars(lesson).items() if isinstance(value, types.FunctionType)} - {"exercises"}
    exercises = [Exercise(exercise.name, exercise.points, exercise.hints, {}) for exercise in lesson.EXERCISES]
    for exercise in exercises:
        exercise.claim("earns its points")(later)
    vars(module).update(dict.fromkeys(tools, later), EXERCISES=exercises)
    return module
