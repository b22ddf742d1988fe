"""The engine of lesson 12: whole (``Engine``), and made of a learner's parts and the course's (``assemble``)."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from course_utils.engine.whole import Engine as Engine
from course_utils.engine.whole import Node as Node
from course_utils.engine.whole import Tensor as Tensor
from course_utils.engine.whole import Way as Way

PARTS: dict[str, tuple[str, ...]] = {
    "Extend": ("matmul", "tanh", "sum", "small_step"),
    "Record": ("record", "walk"),
    "Shapes": ("backward", "fit"),
    "Control": ("records", "no_grad", "detach", "accumulate", "retain_grad"),
    "Memory": ("save", "write", "unsave", "bytes_held"),
}


def assemble(*own: type) -> Engine:
    """An engine of your own parts. The course's methods stand behind them, for what you have not written yet.

    Args:
        own: your classes, each with some of an engine's methods; one that is still empty counts for nothing.

    Returns:
        The engine; shown, it says which methods are yours.
    """
    written = [part for part in own if any(callable(value) for value in vars(part).values())]
    return type("Engine", (*written, Engine), {"__repr__": lambda self: _whose(written)})()


def beside(part: str) -> type:
    """The course's engine without the methods of one part: what an answer that is to be judged is put before."""
    left_out = {*PARTS[part], "__dict__", "__weakref__"}
    return type("Rest", (), {name: value for name, value in vars(Engine).items() if name not in left_out})


@contextmanager
def closed(part: str) -> Iterator[None]:
    """In this block the course's own methods of a part raise, whatever name an answer has for them."""

    methods = [inspect.unwrap(vars(Engine)[name]) for name in PARTS[part]]
    codes = [method.__code__ for method in methods]
    try:
        for method in methods:
            method.__code__ = _refused.__code__
        yield
    finally:
        for method, code in zip(methods, codes, strict=True):
            method.__code__ = code


def _refused(*given: Any, **more: Any) -> None:
    raise TypeError("this method is the course's own; an answer is yours")


def _whose(own: list[Any]) -> str:
    names = [name for names in PARTS.values() for name in names]
    mine = [name for name in names if any(hasattr(part, name) for part in own)]
    rest = [name for name in names if name not in mine]
    return f"yours: {', '.join(mine) or 'nothing yet'}\nthe course's: {', '.join(rest) or 'nothing'}"
