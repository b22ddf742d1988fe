"""Reads off what autograd has recorded: flags, leaves, modes, and what edits do to backward."""

from __future__ import annotations

from typing import Any

import torch

from course_utils.drills.programs import ERROR, RIGHT, WRONG, Program
from course_utils.drills.statements import Answers, run_all, space, statements


def flags(program: Program) -> Answers:
    variables = run_all(program)
    return {question.key: variables[question.key].requires_grad for question in program.questions}


def leaves(program: Program) -> Answers:
    variables = run_all(program)
    found: Answers = {}
    for question in program.questions:
        name, _, grad = question.key.partition(".")
        found[question.key] = variables[name].grad is not None if grad else variables[name].is_leaf
    return found


def modes(program: Program) -> Answers:
    variables = run_all(program)
    values = {question.key: variables[question.key] for question in program.questions}
    return {key: value if isinstance(value, bool) else value.requires_grad for key, value in values.items()}


def edits(program: Program) -> Answers:
    variables, found = space(), Answers()
    names = [question.key.split()[0] for question in program.questions if " " in question.key]
    before: dict[str, tuple[torch.Tensor, int]] = {}
    leaves: list[torch.Tensor] = []
    reference: list[torch.Tensor | None] | None = None
    pieces = list(statements(program.lines))
    for first, last, code in pieces[:-1]:
        if first == program.edited[0]:
            before = {name: (variables[name].detach().clone(), variables[name]._version) for name in names}
        exec(code, variables)
        if last == program.edited[1]:
            for name, (values, version) in before.items():
                found[f"{name} changed"] = not torch.equal(variables[name].detach(), values)
                found[f"{name} counted"] = variables[name]._version > version
        if last == program.loss:
            # Now, because later edits can leave views behind that refuse to be asked.
            leaves = _leaf_tensors(variables)
            reference = _gradients(variables["loss"], leaves)
    try:
        exec(pieces[-1][2], variables)
    except RuntimeError:
        outcome = ERROR
    else:
        same = reference is not None and all(map(_equal, (leaf.grad for leaf in leaves), reference))
        outcome = RIGHT if same else WRONG
    return {question.key: found.get(question.key, outcome) for question in program.questions}


def _leaf_tensors(variables: dict[str, Any]) -> list[torch.Tensor]:
    tensors = [value for value in variables.values() if isinstance(value, torch.Tensor)]
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
