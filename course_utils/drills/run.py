"""Runs a drill's program and reads the answers off it (``answers``)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from course_utils.drills.programs import Program

Answers = dict[str, "bool | str"]

ERROR, WRONG, RIGHT = "error", "wrong gradient", "right gradient"


def answers(topic: str, program: Program) -> Answers:
    """What PyTorch does: the right answer to each question of the program.

    The program runs in a thread of its own, where grad mode is on and no other mode is active, with float32 as default
    dtype and a fixed seed. The caller's modes, default dtype and random state stay as they are.

    Raises:
        Exception: the program raised where it should not; a bug of the course.
    """
    found: Answers = {}
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.update(_READERS[topic](program))
        except BaseException as error:
            failed.append(error)

    before = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), torch.autograd.set_detect_anomaly(False):
        warnings.simplefilter("ignore")  # reading `.grad` of a tensor that is no leaf warns; here it is the question
        torch.default_generator.manual_seed(0)
        torch.set_default_dtype(torch.float32)
        try:
            thread = threading.Thread(target=work, name="drill", daemon=True)
            thread.start()
            thread.join()
        finally:
            torch.set_default_dtype(before)
    if failed:
        raise failed[0]
    return found


def _space() -> dict[str, Any]:
    return {"__name__": "drill", "torch": torch, "nn": nn, "Thread": threading.Thread}


def _run_all(program: Program) -> dict[str, Any]:
    space = _space()
    exec(compile(program.code, "<drill>", "exec"), space)
    return space


def _flags(program: Program) -> Answers:
    space = _run_all(program)
    return {question.key: space[question.key].requires_grad for question in program.questions}


def _leaves(program: Program) -> Answers:
    space = _run_all(program)
    found: Answers = {}
    for question in program.questions:
        name, _, grad = question.key.partition(".")
        found[question.key] = space[name].grad is not None if grad else space[name].is_leaf
    return found


def _modes(program: Program) -> Answers:
    space = _run_all(program)
    values = {question.key: space[question.key] for question in program.questions}
    return {key: value if isinstance(value, bool) else value.requires_grad for key, value in values.items()}


def _edits(program: Program) -> Answers:
    space, found = _space(), Answers()
    names = [question.key.split()[0] for question in program.questions if " " in question.key]
    before: dict[str, tuple[torch.Tensor, int]] = {}
    leaves: list[torch.Tensor] = []
    reference: list[torch.Tensor | None] | None = None
    statements = list(_statements(program.lines))
    for first, last, code in statements[:-1]:
        if first == program.edited[0]:
            before = {name: (space[name].detach().clone(), space[name]._version) for name in names}
        exec(code, space)
        if last == program.edited[1]:
            for name, (values, version) in before.items():
                found[f"{name} changed"] = not torch.equal(space[name].detach(), values)
                found[f"{name} counted"] = space[name]._version > version
        if last == program.loss:
            # Now, because later edits can leave views behind that refuse to be asked.
            leaves = _leaf_tensors(space)
            reference = _gradients(space["loss"], leaves)
    try:
        exec(statements[-1][2], space)
    except RuntimeError:
        outcome = ERROR
    else:
        same = reference is not None and all(map(_equal, (leaf.grad for leaf in leaves), reference))
        outcome = RIGHT if same else WRONG
    return {question.key: found.get(question.key, outcome) for question in program.questions}


def _leaf_tensors(space: dict[str, Any]) -> list[torch.Tensor]:
    tensors = [value for value in space.values() if isinstance(value, torch.Tensor)]
    return [tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad]


def _gradients(loss: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor | None] | None:
    """What backward would give now; None where it would raise."""
    try:
        return list(torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True))
    except RuntimeError:
        return None


def _equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


def _statements(lines: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    """The program's statements, each with its first and last line."""
    starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield start + 1, end, "\n".join(lines[start:end])


_READERS: dict[str, Callable[[Program], Answers]] = {
    "flags": _flags,
    "leaves": _leaves,
    "modes": _modes,
    "edits": _edits,
}
