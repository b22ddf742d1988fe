"""Which code is the user's own (``is_user_file``), and where it is at this moment (``Site``, ``user_site``). Somebody's
script, to be run as Python would (``load_script``), and its end (``exit_code``, ``print_error``).
"""

import argparse
import contextlib
import functools
import importlib.util
import io
import linecache
import os
import site
import sys
import sysconfig
import threading
import tokenize
import traceback
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, ModuleType
from typing import Any

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Folders of installed code: Python's own library, packages, and the commands that come with them."""
    installed = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
    paths = installed | {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(path.rstrip(os.sep) + os.sep for path in paths)


_chosen: set[str] = set()
_whole = functools.cache(os.path.abspath)


def count_as_users(path: str) -> None:
    """Counts a file, or the files of a folder, as the user's wherever it lies: the script that was asked for."""
    _chosen.add(os.path.abspath(path))
    is_user_file.cache_clear()


@functools.cache
def is_user_file(filename: str) -> bool:
    """Whether a file is neither Python's, nor an installed package's, nor of this package; notebook cells are."""
    path = _whole(filename)
    if any(path == chosen or path.startswith(chosen + os.sep) for chosen in _chosen):
        return True
    if filename.startswith("<"):
        return filename.startswith("<ipython-input")
    if path.startswith(_OWN):
        return path.startswith(os.path.join(_OWN, "clinic", "scripts", ""))  # patients to be examined
    made = f"{os.sep}torchinductor_" in path  # what torch.compile writes
    return not (made or path.startswith(_libraries()) or f"{os.sep}site-packages{os.sep}" in path)


@dataclass(frozen=True)
class Site:
    """A line of the user's.

    Attributes:
        file: the file's path; "" where no line of the user's was running.
        line: the line's number, from 1.
        function: the function's name, ``Trainer.fit``; "<module>" outside of functions.
    """

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The line's text, without indentation and without a comment."""
        text = linecache.getline(self.file, self.line).strip() if self.file else ""
        if "#" in text:
            with contextlib.suppress(tokenize.TokenError, IndentationError, SyntaxError):
                for token in tokenize.generate_tokens(io.StringIO(text).readline):
                    if token.type == tokenize.COMMENT:
                        return text[: token.start[1]].rstrip()
        return text

    def __str__(self) -> str:
        if not self.file:
            return "no line of yours"
        cell = getattr(getattr(ipython(), "compile", None), "_filename_map", {}).get(self.file)
        return f"{os.path.basename(self.file)}:{self.line}" if cell is None else f"Cell In[{cell}], line {self.line}"


def ipython() -> Any:
    """IPython's shell; None outside of it."""
    return getattr(sys.modules.get("IPython.core.getipython"), "get_ipython", lambda: None)()


NOWHERE = Site("", 0, "")
_sites: dict[int, tuple[weakref.ref[CodeType], dict[int, Site]]] = {}  # code that is the same in two files is equal


def user_site(frame: FrameType | None) -> Site:
    """The innermost line of the user's that is running, from a frame outwards."""
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if is_user_file(name):
            entry = _sites.get(id(code))
            if entry is None:
                entry = _sites[id(code)] = weakref.ref(code, functools.partial(_forget, id(code))), {}
            site = entry[1].get(frame.f_lasti)
            if site is None:
                site = entry[1][frame.f_lasti] = Site(name, frame.f_lineno or 0, code.co_qualname)
            return site
        frame = frame.f_back
    return NOWHERE


def _forget(code: int, _: object) -> None:
    _sites.pop(code, None)


def outside(frame: FrameType) -> FrameType:
    """The innermost frame that is none of this package's own, from a frame outwards."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def frames_of_all_threads() -> list[FrameType]:
    """Every running frame, innermost first, of this thread and then of the others; none of this package's own.

    A frame that is in a list among its own variables would be a cycle, and keep what it refers to alive.
    """
    stacks = sys._current_frames()
    stacks[threading.get_ident()] = sys._getframe(1)  # not this function's own
    frames, seen = [], set()
    for frame in (stacks.pop(threading.get_ident()), *stacks.values()):
        while frame is not None and id(frame) not in seen:
            seen.add(id(frame))
            file = frame.f_code.co_filename
            if not file.startswith(_OWN) or is_user_file(file):
                frames.append(frame)
            frame = frame.f_back  # type: ignore[assignment]  # None above the outermost
    return frames


def load_script(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> tuple[argparse.Namespace, CodeType, ModuleType]:
    """The options that a parser knows, and the script (or ``-m`` and a module) after them, loaded, ``sys.argv`` set.
    Where none was named, or it cannot be run, it exits with 2, and says why on stderr.
    """
    parser.add_argument("-m", dest="module", action="store_true", help="what follows is a module's name")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="script.py [arguments]")
    options = parser.parse_args(arguments)
    if not options.words or (options.module and options.words[0].startswith("-")):
        parser.error("the script to run is missing")
    name = options.words[0]
    try:
        code, module = (_module if options.module else _script)(name)
    except (OSError, ImportError, SyntaxError) as error:
        print(f"{name} could not be run: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    file = getattr(module, "__file__", None) if options.module else None  # a script's name is passed as it was typed
    sys.argv = [file or name, *options.words[1:]]
    return options, code, module


def _script(path: str) -> tuple[CodeType, ModuleType]:
    if os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    with open(path, "rb") as file:
        source = file.read()
    full = os.path.abspath(path)
    code = compile(source, full, "exec", dont_inherit=True)
    module = ModuleType("__main__")
    module.__file__ = full
    vars(module).update(__builtins__=__builtins__, __spec__=None, __cached__=None, __annotations__={})
    sys.path[0] = os.path.dirname(full)
    count_as_users(full)
    return code, module


def _module(name: str) -> tuple[CodeType, ModuleType]:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no module called {name} that can be run")
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]  # as runpy does
    if code is None:
        raise ImportError(f"{name} has no code to run")
    module = ModuleType("__main__")
    module.__file__, module.__spec__ = spec.origin, spec
    vars(module).update(
        __builtins__=__builtins__, __package__=spec.parent, __loader__=spec.loader, __cached__=spec.cached
    )
    if spec.origin:
        count_as_users(os.path.dirname(spec.origin) if spec.parent else spec.origin)
    return code, module


def exit_code(error: SystemExit) -> int:
    """What Python would exit with; text is printed, as Python does."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    print(error.code, file=sys.stderr)
    return 1


def print_error(error: BaseException) -> None:
    """Prints a traceback as Python does without a watch: its frames are left out, and what PyTorch put between it and
    the script.
    """
    shown = traceback.TracebackException.from_exception(error)
    _forget_the_watch(shown)
    sys.stdout.flush()
    print("".join(shown.format()), end="", file=sys.stderr)


def _forget_the_watch(shown: traceback.TracebackException) -> None:
    kept: list[traceback.FrameSummary] = []
    asked = False  # a mode was asked on the way from the last frame; it calls the same function again
    for frame in shown.stack:
        if frame.filename.startswith(_OWN) or frame.name == "handle_torch_function":
            asked = True
            continue
        if asked and kept and (kept[-1].filename, kept[-1].name) == (frame.filename, frame.name):
            kept.pop()
        kept.append(frame)
        asked = False
    shown.stack = traceback.StackSummary.from_list(kept)
    for earlier in (shown.__cause__, shown.__context__):
        if earlier is not None:
            _forget_the_watch(earlier)
