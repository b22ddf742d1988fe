"""What a student's code meets under the names of functions that hand out frames and objects (``lay``).

While cells run these do what they always do. While an answer is judged, ``audit`` raises ``NotImplementedError`` in
them, with what the answer may see. Nothing here is secret: a student's code can reach all of it.
"""

from __future__ import annotations

import cProfile
import ctypes
import gc
import sys
import types
from collections.abc import Callable
from typing import Any


class Frame:
    """A record of a frame, which ``isinstance`` takes for one."""

    __class__ = property(lambda self: types.FrameType)  # type: ignore[assignment]  # as proxies do it
    f_trace = None

    def __init__(self, fields: dict[str, Any], back: Frame | None) -> None:
        vars(self).update(fields, f_back=back)


def _framed(records: list[dict[str, Any]]) -> Frame | None:
    back = None
    for fields in reversed(records):
        back = Frame(fields, back)
    return back


def lay() -> frozenset[types.CodeType]:
    """Puts them in place; once, in the warm interpreter. Returns the code by which ``audit`` knows them."""
    codes = set()
    for module, name, make in (
        (sys, "_getframe", _getframe),
        (sys, "_current_frames", _current_frames),
        (sys, "settrace", _veiled),
        (sys, "setprofile", _veiled),
        (gc, "get_objects", _veiled),
        (gc, "get_referrers", _veiled),
    ):
        setattr(module, name, make(getattr(module, name)))
        codes.add(getattr(module, name).__code__)
    for name in ("memmove", "memset", "cast"):  # which no audit event tells of
        setattr(ctypes, name, _told(getattr(ctypes, name)))
    # Called from here, so that it cannot be taken for ``sys.setprofile``, which hands frames to a function.
    cProfile.Profile.enable = _called_here(cProfile.Profile.enable)  # type: ignore[method-assign]
    return frozenset(codes)


def _veiled(function: Callable[..., Any], show: Callable[[Any], Any] = lambda found: found) -> Any:
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except NotImplementedError as veiled:
            return show(veiled.args[0])

    return call


def _getframe(function: Callable[..., Any]) -> Any:
    def call(depth: int = 0, /) -> Any:
        try:
            return function(depth + 1)
        except NotImplementedError as veiled:
            return _framed(veiled.args[0])

    return call


def _current_frames(function: Callable[..., Any]) -> Any:
    return _veiled(function, lambda found: {ident: _framed(records) for ident, records in found.items()})


def _told(function: Callable[..., Any]) -> Any:
    def call(*arguments: Any) -> Any:
        sys.audit("ctypes.memory")
        return function(*arguments)

    return call


def _called_here(function: Callable[..., Any]) -> Any:
    return lambda *arguments, **keywords: function(*arguments, **keywords)
