"""The user's functions that an error came through, or that are running (``Frame``), and what torch's were given."""

import ast
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import torch

from course_utils.base.user_code import Site, is_user_file
from course_utils.graph.steps import local_variables
from course_utils.holders.lines import parsed

_GIVEN = ("t_outputs", "outputs", "tensors")
"""Variables of torch's frames that hold what backward was called on."""


class Frame(NamedTuple):
    """A user's function that the error came through.

    Attributes:
        variables: its variables; a module's for code outside of functions.
        site: the line that was running.
        expression: the part of it that was being worked out; None where that is not known.
        space: the variables of its module.
    """

    variables: dict[str, Any]
    site: Site
    expression: ast.expr | None
    space: dict[str, Any]


def entries_of(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def running(frame: FrameType | None) -> Iterator[Frame]:
    """The user's functions that are running, from a frame outwards."""
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename):
            yield Frame(
                local_variables(frame), Site(code.co_filename, frame.f_lineno, code.co_qualname), None, frame.f_globals
            )
        frame = frame.f_back


def frame_at(entry: TracebackType) -> Frame:
    """The function of a traceback's entry, as it was left."""
    code = entry.tb_frame.f_code
    variables = local_variables(entry.tb_frame)
    site = Site(code.co_filename, entry.tb_lineno, code.co_qualname)
    return Frame(variables, site, _expression(entry), entry.tb_frame.f_globals)


def _expression(entry: TracebackType) -> ast.expr | None:
    """The part of a line that was being worked out, by the place that the compiler noted for the instruction."""
    code = entry.tb_frame.f_code
    positions = list(code.co_positions())
    at = entry.tb_lasti // 2
    tree = parsed(code.co_filename)
    if tree is None or at >= len(positions):
        return None
    for one in ast.walk(tree):
        if isinstance(one, ast.expr):
            place = (one.lineno, one.end_lineno, one.col_offset, one.end_col_offset)
            if positions[at] == place:
                return one
    return None


def given_to_backward(frames: list[FrameType]) -> tuple[torch.Tensor, ...]:
    """The tensors that backward was called on, as torch's own frames hold them."""
    found: list[torch.Tensor] = []
    for frame in frames:
        if "torch" in frame.f_code.co_filename and not is_user_file(frame.f_code.co_filename):
            for name in _GIVEN:
                value = local_variables(frame).get(name)
                several = value if isinstance(value, (tuple, list)) else (value,)
                found += [one for one in several if isinstance(one, torch.Tensor)]
    return tuple({id(tensor): tensor for tensor in found}.values())
