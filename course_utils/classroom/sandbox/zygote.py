"""The warm interpreter in the sandbox: everything a check needs is imported once, then forked (``main``).

It never runs a student's code itself: every submission gets a fork, and this process guards it.
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
from pathlib import Path
from typing import Any

from course_utils.classroom.sandbox.bubblewrap import LESSONS
from course_utils.classroom.sandbox.bubblewrap import PACKAGE as PACKAGE_FOLDER
from course_utils.classroom.sandbox.protocol import Broken, Channel, Closed
from course_utils.classroom.sandbox.supervisor import Supervisor, empty

PACKAGE = "course_utils"
# What lessons, checks and answers import when they are first used; each would cost every submission its time.
PRELOADED = (
    *("IPython.core.completer", "IPython.core.magics", "IPython.core.pylabtools", "torch._dynamo"),
    *("torch.fx.experimental.proxy_tensor", "torch.func", "torch.optim", "torch.testing"),
    *("torch.utils._python_dispatch", "torch.utils.checkpoint", "torch.utils.data", "torch.utils.flop_counter"),
)
# Whose names must be what they were when an answer is judged: what checks, cards and the runner call.
GUARDED = (
    *("builtins", "_frozen_importlib", "_frozen_importlib_external", "abc", "collections", "contextlib", "copy"),
    *("ctypes", "dataclasses", "dis", "enum", "functools", "gc", "html", "importlib", "inspect", "io", "itertools"),
    *("json", "json.decoder", "json.encoder", "linecache", "math", "numbers", "operator", "os", "os.path", "random"),
    *("re", "resource", "select", "signal", "socket", "statistics", "string", "struct", "textwrap", "threading"),
    *("time", "tomllib", "traceback", "types", "typing", "warnings", "weakref", "numpy", "torch", "torch._C"),
    *("torch._C._autograd", "torch._tensor", "torch.autograd", "torch.autograd.function"),
    *("torch.autograd.functional", "torch.autograd.grad_mode", "torch.autograd.graph", "torch.autograd.gradcheck"),
    *("torch.func", "torch.functional", "torch.linalg", "torch.nn", "torch.nn.functional", "torch.nn.init"),
    *("torch.nn.modules.linear", "torch.nn.modules.loss", "torch.nn.modules.module", "torch.nn.parameter"),
    *("torch.nn.utils", "torch.optim", "torch.optim.optimizer", "torch.overrides", "torch.testing"),
    *("torch.testing._comparison", "torch.utils._python_dispatch", "torch.utils._pytree"),
    *("torch.utils.checkpoint", "torch.utils.flop_counter", "torch.utils.hooks"),
)
# What judges: compiled here, and run anew in the fork of each check, so that no student's code has ever met it.
JUDGES = ("checks", "classroom", "lesson", "lessons")
NOT_LEARNERS = ("authoring", "classroom", "workspace")


def main(control: int, roots: list[str]) -> None:
    """Warms up, says so, and then serves submissions until the grader is gone.

    Args:
        control: descriptor of the socket on which jobs arrive.
        roots: folders whose code is not a student's.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grader, which then ends this process
    end = socket.socket(fileno=control)
    ready = _warm_up(tuple(roots), Channel(end).receive())  # what judges is in no file here
    Channel(end).send({"ready": True})
    from course_utils.classroom.sandbox.student import hide_memory

    hide_memory()
    while True:
        data, descriptors, _, _ = socket.recv_fds(end, 1, 1)
        if not data or not descriptors:
            return
        grader = Channel(socket.socket(fileno=descriptors[0]))
        with (
            contextlib.suppress(Closed, Broken),
            contextlib.closing(grader),
            contextlib.closing(Supervisor(grader, grader.receive()["bounds"], ready)) as supervisor,
        ):
            supervisor.serve()


def _warm_up(roots: tuple[str, ...], judges: dict[str, dict[str, str]]) -> Callable[[int, bytes], Callable[[], None]]:
    """Loads everything once. Returns what makes a student's process ready, there."""
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(RuntimeError):  # it was set before
        torch.set_num_interop_threads(1)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):  # not in this release of it; then nothing asks for it either
            importlib.import_module(name)
    # What torch.func registers when it is first used: a student's registrations can then be told from torch's own.
    getattr(sys.modules.get("torch._functorch.vmap"), "lazy_load_decompositions", lambda: None)()
    from course_utils.classroom.sandbox import guard, student
    from course_utils.classroom.sandbox.shell import make_shell

    code = {_module(path): (path, compile(text, path, "exec")) for path, text in judges["code"].items()}
    loader = _Loader(code, judges["texts"])
    with loader:
        for found in pkgutil.walk_packages(sys.modules[PACKAGE].__path__, f"{PACKAGE}."):
            if found.name.split(".")[1] not in NOT_LEARNERS:
                importlib.import_module(found.name)
        for name in [name for name in code if name.count(".") == 2 and name.split(".")[1] == "lessons"]:
            sys.modules[name] = _without_claims(importlib.import_module(name))
        for name in [name for name in sys.modules if name in code and name.count(".") > 2]:
            if name.split(".")[1] == "lessons":
                del sys.modules[name]
    for name in sys.modules[PACKAGE].__all__:
        getattr(sys.modules[PACKAGE], name)
    shell = make_shell()
    own = [n for n in sys.modules if n.startswith(f"{PACKAGE}.") and n.split(".")[1] not in (*JUDGES, "drills", "draw")]
    modules = {name: sys.modules[name] for name in (*GUARDED, *own) if name in sys.modules}
    for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.classroom.")]:
        del sys.modules[name]
    vars(sys.modules[PACKAGE]).pop("classroom", None)
    restore, (begin, refused) = guard.picture(modules, _lists(shell)), guard.watch(roots)
    gc.collect()
    gc.freeze()  # so that a collection in a fork touches, and so copies, none of this

    def ready(descriptor: int, secret: bytes) -> Callable[[], None]:
        return student.prepare(descriptor, secret, shell, restore, begin, refused, loader, guard.picture)

    return ready


def _module(path: str) -> str:
    parts = Path(path).relative_to(PACKAGE_FOLDER.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class _Loader:
    """Imports modules from code that is held here, for the length of a ``with`` block, in which the text files lie
    beside them, too."""

    def __init__(self, code: dict[str, tuple[str, types.CodeType]], texts: dict[str, str]) -> None:
        self._code, self._texts = code, texts

    def __enter__(self) -> _Loader:
        empty(LESSONS)  # of what a student's code may have put there
        for path, text in self._texts.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *error: object) -> None:
        sys.meta_path.remove(self)
        empty(LESSONS)

    def anew(self) -> None:
        """Forgets what was imported of it."""
        for name in [name for name in sys.modules if name in self._code]:
            del sys.modules[name]

    def sealed(self, picture: Callable[..., Callable[[], list[str]]]) -> Callable[[], list[str]]:
        """A picture of what was imported of it: an answer can find the judge while it is judged."""
        return picture({name: sys.modules[name] for name in self._code if name in sys.modules}, {})

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._code:
            return None
        from importlib.machinery import ModuleSpec

        file = self._code[name][0]
        spec = ModuleSpec(name, self, origin=file, is_package=file.endswith("__init__.py"))  # type: ignore[arg-type]
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(file.rpartition("/")[0])
        return spec

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        exec(self._code[module.__name__][1], vars(module))


def _lists(shell: Any) -> dict[str, Any]:
    transformers = shell.input_transformer_manager
    return {
        f"torch.nn's {name.strip('_').replace('_', ' ')}": value
        for name, value in vars(sys.modules["torch.nn.modules.module"]).items()
        if name.startswith("_global_") and isinstance(value, dict)
    } | {
        "IPython's input transformers": shell.input_transformers_post,
        "IPython's cleanup transforms": transformers.cleanup_transforms,
        "IPython's line transforms": transformers.line_transforms,
        "IPython's token transforms": transformers.token_transformers,
        "IPython's ast transformers": shell.ast_transformers,
    }


def _without_claims(lesson: types.ModuleType) -> types.ModuleType:
    """A lesson's module as a student's code finds it: what its exercises are called, and nothing of how they judge."""
    from course_utils.checks.exercise import Exercise
    from course_utils.checks.missed import Missed

    def later(answer: Any) -> None:
        raise Missed(found="it is judged when your teacher grades")

    module = types.ModuleType(lesson.__name__)
    module.__file__ = lesson.__file__  # beside it lie the words that ``Lesson`` reads
    tools = {name for name, value in vars(lesson).items() if isinstance(value, types.FunctionType)} - {"exercises"}
    exercises = [Exercise(exercise.name, exercise.points, exercise.hints, {}) for exercise in lesson.EXERCISES]
    for exercise in exercises:
        exercise.claim("earns its points")(later)
    vars(module).update(dict.fromkeys(tools, later), EXERCISES=exercises)
    return module
