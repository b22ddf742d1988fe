"""The variables that a search begins at: of running functions and modules (``users_roots``, ``roots_in_libraries``), of
suspended generators, and of custom Functions that nothing refers to any more (``roots_in_heap``).
"""

import sys
from collections.abc import Iterator
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, ModuleType, TracebackType
from typing import Any

import torch

from course_utils.base.torch_private import FunctionBase
from course_utils.base.user_code import frames_of_all_threads, is_user_file
from course_utils.graph.references import living
from course_utils.graph.steps import frame_of, local_variables
from course_utils.holders.search import Root

_GENERATORS = (GeneratorType, CoroutineType, AsyncGeneratorType)


def users_roots(traceback: TracebackType | None = None) -> Iterator[Root]:
    """The user's variables: of running functions, innermost first, of those that an error has ended, and of modules."""
    frames = frames_of_all_threads()
    while traceback is not None:
        frames.insert(0, traceback.tb_frame)
        traceback = traceback.tb_next
    for frame in frames:
        if is_user_file(frame.f_code.co_filename):
            yield from _of_frame(frame)
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and _is_users(module):
            yield from _of_module(module)


def roots_in_heap() -> Iterator[Root]:
    """The variables of the user's generators and coroutines that wait to be asked on; and the nodes of custom Functions
    by the attribute of ``ctx`` that refers to a tensor of the node's own making. Looks at all objects, once.
    """
    running = {id(frame) for frame in frames_of_all_threads()}
    found = living(lambda kind: kind in _GENERATORS or issubclass(kind, FunctionBase))
    for thing in found:
        frame = frame_of(thing) if type(thing) in _GENERATORS else None
        if frame is not None and id(frame) not in running and is_user_file(frame.f_code.co_filename):
            yield from _of_frame(frame)
    for thing in found:
        if type(thing) not in _GENERATORS and hasattr(thing, "next_functions"):
            yield from _of_context(thing)


def roots_in_libraries() -> Iterator[Root]:
    """The variables of libraries' running functions, such as a trainer's."""
    for frame in frames_of_all_threads():
        if not is_user_file(frame.f_code.co_filename):
            yield from _of_frame(frame)


def _of_context(node: Any) -> Iterator[Root]:
    for name, value in list(vars(node).items()):
        inside = value if isinstance(value, (list, tuple)) else (value,)
        if any(isinstance(item, torch.Tensor) and item.grad_fn is node for item in inside):
            yield Root("cycle", f"ctx.{name}", type(node).__name__.removesuffix("Backward"), _file_of(node), 0, node)


def _file_of(node: Any) -> str:
    module = sys.modules.get(getattr(type(node), "_forward_cls", type(node)).__module__)
    return getattr(module, "__file__", None) or ""


def _of_frame(frame: FrameType) -> Iterator[Root]:
    code = frame.f_code
    if frame.f_locals is frame.f_globals:
        return  # a module's variables
    for name, value in local_variables(frame).items():
        yield Root("local", name, code.co_qualname, code.co_filename, code.co_firstlineno, value)


def _of_module(module: ModuleType) -> Iterator[Root]:
    file = getattr(module, "__file__", None) or ""
    for name, value in list(vars(module).items()):
        if not name.startswith("__"):
            yield Root("global", name, "", file, 0, value)


def _is_users(module: ModuleType) -> bool:
    if module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and is_user_file(file)
