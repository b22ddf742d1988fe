"""The warm Python in the sandbox (``main``): everything a check needs is imported once, then forked.

It never runs a student's code itself: every submission gets a fork, and this process supervises it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pkgutil
import signal
import socket
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from importlib.abc import Loader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

from course_utils.classroom.sandbox.bubblewrap import LESSONS
from course_utils.classroom.sandbox.bubblewrap import PACKAGE as PACKAGE_FOLDER
from course_utils.classroom.sandbox.supervisor import Channel, Closed, Supervisor, empty

PACKAGE = "course_utils"
# What lessons, checks and answers import when they are first used; each would cost every submission its time.
PRELOADED = (
    *("IPython.core.completer", "IPython.core.magics", "IPython.core.pylabtools", "matplotlib.pyplot", "torch._dynamo"),
    *("torch.fx.experimental.proxy_tensor", "torch.func", "torch.optim", "torch.testing"),
    *("torch.utils._python_dispatch", "torch.utils.checkpoint", "torch.utils.data", "torch.utils.flop_counter"),
)
# Modules whose names must be what they were when an answer is judged: what checks, cards and the runner call. With them
# all at the top of Python's library, and this package's own. After a dot also what lies in them.
GUARDED = (
    *("importlib.", "json.", "numpy", "torch", "torch._C", "torch._C._autograd", "torch._tensor", "torch.autograd."),
    *("torch.func", "torch.functional", "torch.linalg", "torch.nn.", "torch.optim.", "torch.overrides"),
    *("torch.testing.", "torch.utils._python_dispatch", "torch.utils._pytree", "torch.utils.checkpoint"),
    *("torch.utils.flop_counter", "torch.utils.hooks"),
)
# What judges: compiled here, and run anew in the fork of each check, so that no student's code has ever met it.
JUDGES = ("checks", "classroom", "lesson", "lessons")
NOT_LOADED = ("authoring", "classroom", "workspace")


def main(control: int, roots: list[str]) -> None:
    """Warms up, says so, and then serves submissions until the grader is gone.

    Args:
        control: descriptor of the socket on which requests arrive.
        roots: folders whose code is not a student's.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the grader, which then ends this process
    # Below the frames of a student's code lies this one and no other, and this one leads nowhere.
    next(_students(control, roots), int)()


def _students(control: int, roots: list[str]) -> Iterator[Callable[[], None]]:
    """Supervises submissions. Yields in a student's process alone: what serves there."""
    grader = Channel(socket.socket(fileno=control))
    prepare = _warm_up(tuple(roots), grader.receive())  # what judges is in no file here
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: nobody may look into this process and those it forks
    with contextlib.suppress(Closed):
        while True:
            grader.send({})
            limits = grader.receive()["limits"]
            supervisor = Supervisor(grader, limits)
            if supervisor.pid == 0:
                yield prepare(supervisor.end.detach(), supervisor.secret, limits)
            supervisor.serve()


def _warm_up(roots: tuple[str, ...], judges: dict[str, str]) -> Callable[..., Callable[[], None]]:
    """Loads everything once. Returns what makes a student's process ready, there."""
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):  # not in this release of it; then nothing asks for it either
            importlib.import_module(name)
    # What torch.func registers when it is first used: a student's registrations can then be told from torch's own.
    getattr(sys.modules.get("torch._functorch.vmap"), "lazy_load_decompositions", lambda: None)()
    from course_utils.classroom.sandbox import guard, student

    loader = Judges(judges)
    for found in pkgutil.walk_packages(sys.modules[PACKAGE].__path__, f"{PACKAGE}."):
        if found.name.split(".")[1] not in NOT_LOADED:
            importlib.import_module(found.name)
    loader.hide_lessons()
    for name in sys.modules[PACKAGE].__all__:
        getattr(sys.modules[PACKAGE], name)
    shell = student.make_shell()
    modules = {name: module for name, module in list(sys.modules.items()) if _is_guarded(name)}
    for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.classroom.")]:
        del sys.modules[name]
    vars(sys.modules[PACKAGE]).pop("classroom", None)
    of_modules = vars(sys.modules["torch.nn.modules.module"])
    hooks = {name: of for name, of in of_modules.items() if name.startswith("_global_") and isinstance(of, dict)}
    restore, begin = guard.picture(modules, hooks), guard.watch(roots)
    gc.collect()
    gc.freeze()  # so that a collection in a fork touches, and so copies, none of this

    def judged(request: dict[str, Any]) -> dict[str, Any]:
        loader.anew()
        from course_utils.classroom.sandbox.judging import judged

        return judged(request, shell, restore, begin, loader, guard.picture)

    return partial(student.prepare, shell=shell, restore=restore, judged=judged)


class Judges(Loader):
    """What judges, imported from code that is held here.

    Args:
        files: the text of each module, and of each file that lies beside them, by its path.
    """

    def __init__(self, files: dict[str, str]) -> None:
        code = {path: compile(text, path, "exec") for path, text in files.items() if path.endswith(".py")}
        self._code = {_module(path): (path, compiled) for path, compiled in code.items()}
        self._texts = {path: text for path, text in files.items() if path not in code}

    def hide_lessons(self) -> None:
        """Puts a module in place of each lesson: as a copy of the course without answers has it, which judges nothing.
        Its tools, too, judge when the teacher grades."""
        for name in [name for name in self._code if name.count(".") == 2 and name.startswith(f"{PACKAGE}.lessons.")]:
            lesson = sys.modules[name] = types.ModuleType(name)
            vars(lesson).update(__file__=self._code[name][0], __getattr__=lambda tool: _later, EXERCISES=())

    def anew(self) -> None:
        """Forgets what was imported of it; from now on it is imported from here."""
        for name in [name for name in sys.modules if name in self._code]:
            del sys.modules[name]
        sys.meta_path.insert(0, self)

    @contextlib.contextmanager
    def texts(self) -> Iterator[None]:
        """The text files lie beside the modules for the length of a ``with`` block."""
        empty(LESSONS)  # of what a student's code may have put there
        for path, text in self._texts.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        yield
        empty(LESSONS)

    def sealed(self, picture: Callable[..., Callable[[], list[str]]]) -> Callable[[], list[str]]:
        """A picture of what was imported of it: an answer can find the judge while it is judged."""
        return picture({name: sys.modules[name] for name in self._code if name in sys.modules}, {})

    # As importlib asks for them.

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._code:
            return None
        file = self._code[name][0]
        folders = [os.path.dirname(file)] if file.endswith("__init__.py") else None
        return spec_from_file_location(name, file, loader=self, submodule_search_locations=folders)

    def exec_module(self, module: types.ModuleType) -> None:
        exec(self._code[module.__name__][1], vars(module))


def _module(path: str) -> str:
    parts = Path(path).relative_to(PACKAGE_FOLDER.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _later(*_: Any) -> None:
    raise RuntimeError("It is judged when your teacher grades.")


def _is_guarded(name: str) -> bool:
    first, *more = name.split(".")
    if first == PACKAGE:
        return bool(more) and more[0] not in (*JUDGES, "drills", "draw")
    whole = tuple(root for root in GUARDED if root.endswith("."))
    return name in GUARDED or f"{name}.".startswith(whole) or (name in sys.stdlib_module_names and name != "sys")
