"""Somebody's script, to be run as Python would (``asked_for``), and its end (``exit_code``, ``print_error``)."""

import argparse
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from types import CodeType, ModuleType

from course_utils.base.user_code import call_it_the_users


def asked_for(
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
    call_it_the_users(full)
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
        call_it_the_users(os.path.dirname(spec.origin) if spec.parent else spec.origin)
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
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    kept: list[traceback.FrameSummary] = []
    asked = False  # a mode was asked on the way from the last frame; it calls the same function again
    for frame in shown.stack:
        if frame.filename.startswith(own) or frame.name == "handle_torch_function":
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
