"""Reads off what was run, kept and accumulated: gates, hooks, Functions, divisors, the dims of ``torch.vmap``."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from course_utils.drills.hook_page import NOTHING, shown
from course_utils.drills.in_dims import IN_DIMS
from course_utils.drills.programs import Program
from course_utils.drills.scale import DIVISOR
from course_utils.drills.statements import Answers, run_all, space, statements
from course_utils.memory.collector import collector_off


def scale(program: Program) -> Answers:
    """Which divisors leave the gradient of the whole loss."""
    return {question.key: _is_whole(program.code.replace(DIVISOR, question.key)) for question in program.questions}


def _is_whole(code: str) -> bool:
    names = space()
    exec(compile(code, "<drill>", "exec"), names)
    weight = names["model"].weight
    (whole,) = torch.autograd.grad(names["whole"], weight)
    return torch.allclose(weight.grad, whole, rtol=1e-3, atol=1e-6)


def in_dims(program: Program) -> Answers:
    """Which dims give what the loop gives. One that cannot be run does not."""
    names = space()
    exec(compile("\n".join(program.lines[:-1]), "<drill>", "exec"), names)
    return {
        question.key: _is_loop(program.lines[-1].replace(IN_DIMS, question.key), names)
        for question in program.questions
    }


def _is_loop(line: str, names: dict[str, Any]) -> bool:
    try:
        exec(line, names)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    once, loop = names["once"], names["loop"]
    return once.shape == loop.shape and torch.allclose(once, loop, rtol=1e-3, atol=1e-5)


def gates(program: Program) -> Answers:
    """Which branches run in the watched lines, what is in their ``.grad`` at the end, which have moved."""
    names, called = space(), set[nn.Module]()
    before: dict[str, torch.Tensor] = {}
    for first, _, code in statements(program.lines):
        if first == program.edited[0]:
            called.clear()
        if first == program.edited[1]:
            before = {name: branch.weight.detach().clone() for name, branch in _branches(names).items()}
        known = set(_branches(names).values())
        exec(compile(code, "<drill>", "exec"), names)
        for branch in set(_branches(names).values()) - known:
            branch.register_forward_hook(lambda module, args, out: called.add(module))
    found: Answers = {}
    for question in program.questions:
        name, branch = question.key[0], names[question.key[0]]
        if question.key.endswith("runs"):
            found[question.key] = branch in called
        elif question.key.endswith("moves"):
            found[question.key] = not torch.equal(branch.weight, before[name])
        else:
            grad = branch.weight.grad
            found[question.key] = "none" if grad is None else "values" if grad.count_nonzero() else "zeros"
    return found


def _branches(names: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in names.items() if isinstance(value, nn.Linear)}


def hooks(program: Program) -> Answers:
    """What each hook has noted."""
    seen = run_all(program)["seen"]
    return {
        question.key: shown(seen[question.key].item()) if question.key in seen else NOTHING
        for question in program.questions
    }


def functions(program: Program) -> Answers:
    """Whose bytes are held when only the last tensor's name is left."""
    with collector_off():  # what it finds, and when, depends on what else the process has done
        names = run_all(program)
        tensors = [name for name, value in names.items() if isinstance(value, torch.Tensor)]
        held = {name: StorageWeakRef(names[name].untyped_storage()) for name in tensors}
        for name in tensors[:-1]:
            del names[name]
        return {question.key: not held[question.key].expired() for question in program.questions}
