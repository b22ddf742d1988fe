"""How a part of an engine is looked at: put before the course's other parts, it runs small programs (``play``)."""

import weakref
from typing import Any

import numpy as np
import torch

from course_utils.base.text import describe
from course_utils.checks.compare import Compared, Missed, Raised, Trial, outcome
from course_utils.engine import PARTS, Engine, Tensor, beside, closed
from course_utils.memory.loops import collector_off

THROUGH = "goes through"


def engine_of(part: Compared, trial: Trial, own: str) -> Any:
    """An engine of the answer's methods that ``own`` names, and of the course's for everything else."""
    if not isinstance(trial.answer, type):
        raise Missed(expected=f"the class {part.name} itself", got=describe(trial.answer))
    missing = [name for name in own.split() if not hasattr(trial.answer, name)]
    if missing:
        raise Missed(expected=f"{part.name} with {', '.join(missing)}", got="not written yet")
    others = {name: vars(Engine)[name] for names in PARTS.values() for name in names if name not in own.split()}
    others |= {name: vars(part.model)[name] for name in others if name in PARTS[part.name]}
    return type("Engine", (trial.answer, beside(part.name)), others)()


def play(part: Compared, trial: Trial, own: str, program: str, seen: str = "", **given: torch.Tensor) -> Any:
    """Runs a program on an engine with the answer in it.

    Args:
        part: the exercise.
        trial: holds the answer.
        own: the names of its methods that the program is about; the course's stand in for the others.
        program: statements in one line; a block has lines of its own. Where it speaks of ``w`` or ``v``, these are
            leaves of three numbers that require grad; ``x`` and ``z`` are plain tensors of three.
        seen: what to look at afterwards: expressions, each with the words of a card before it: "gradient: w.grad; ..."
        given: other leaves by name; those that require grad do so on the engine as well.

    Returns:
        What was seen, by its words, arrays as tensors; ``THROUGH`` where nothing is to be looked at.
    """
    engine, code = engine_of(part, trial, own), compile(program, "<program>", "exec")
    drawn = {name: trial.randn(3, requires_grad=name in "wv") for name in "wvxz" if name in code.co_names}
    given = drawn | given
    looks = [look.strip().split(": ", 1) for look in seen.split(";") if look]
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in given.items())

    def run() -> Any:
        space = {"__name__": "course_utils", "engine": engine, "np": np, "weakref": weakref}
        for name, value in given.items():
            space[name] = engine.tensor(value.detach().numpy().copy(), value.requires_grad)
        with collector_off():
            exec(code, space)
            return {words: _plain(eval(text, space)) for words, text in looks} or THROUGH

    return trial.run(run, called=f"{program} (with {shapes})" if shapes else program, within=closed(part.name))


def ends(part: Compared, trial: Trial, own: str, program: str, **given: torch.Tensor) -> Any:
    """How a program ends: ``THROUGH``, or the error; of one that an answer words as it likes, its kind alone."""
    found = outcome(lambda: play(part, trial, own, program, **given))
    return Raised(found.kind, "") if isinstance(found, Raised) and found.kind in (RuntimeError, ValueError) else found


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.floating, Tensor)):
        return torch.tensor(np.asarray(value.data if isinstance(value, Tensor) else value, float))
    return value
