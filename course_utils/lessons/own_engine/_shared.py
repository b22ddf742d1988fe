"""How a part of an engine is judged: put before the course's other parts, it runs the same programs as PyTorch."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from course_utils.base.text import describe, message_of
from course_utils.checks.claims import AnswerRaised, Missed, Trial, expect
from course_utils.engine import Engine
from course_utils.engine.parts import PARTS, beside
from course_utils.graph import graph_memory
from course_utils.lessons.own_engine._programs import ERROR, SAID, TORCH, Program, difference, drawn, outcome

# A mistake, and whether an outcome shows it.
Reading = tuple[str, Callable[[dict[str, Any]], bool]]


@dataclass
class Played:
    """What a program did on an engine.

    Attributes:
        found: its outcome; empty where it raised something that is no RuntimeError.
        visits: the numbers of the nodes in the order in which they were run.
        names: their names.
        raised: what it raised, None where it went through.
    """

    found: dict[str, Any]
    visits: list[int]
    names: list[str]
    raised: AnswerRaised | None = None


def expect_part(trial: Trial) -> None:
    """The answer is a class of one's own, with one method at least of those that are asked for."""
    answer, asked = trial.answer, PARTS[trial.name]
    expect(isinstance(answer, type), expected=f"the class {trial.name} itself", got=describe(answer))
    own = not issubclass(answer, Engine)
    expect(own, expected="a class of your own", got="a subclass of the course's engine")
    there = [name for name in asked if hasattr(answer, name)]
    expect(bool(there), expected="one of the methods " + ", ".join(asked), got="none of them")


def expect_written(trial: Trial, *own: str) -> None:
    """The answer has these methods, or all of its part where none is named."""
    missing = [name for name in own or PARTS[trial.name] if not hasattr(trial.answer, name)]
    expect(not missing, expected=f"{trial.name} with {', '.join(missing)}", got="not written yet")


def engine_of(trial: Trial, *own: str) -> Any:
    """An engine of the answer and of the course's other parts. It notes which nodes are run, and takes everything else
    from the course where ``own`` names the answer's methods that are to be used."""
    left_out = {name: vars(Engine)[name] for name in PARTS[trial.name] if own and name not in own}
    visits: list[Any] = []

    def run(self: Any, node: Any, gradients: Any) -> Any:
        visits.append(node)
        return Engine.run(self, node, gradients)

    bases = trial.answer, beside(trial.name)
    return type("Engine", bases, left_out | {"run": run, "visits": visits})()


def play(trial: Trial, program: Program, *own: str) -> Played:
    """Runs a program on the answer's engine."""
    trial.called = ""  # of another claim's program, should a method be missing
    expect_written(trial, *own)
    visits: list[Any] = []

    def run() -> tuple[dict[str, Any], list[int], list[str]]:
        engine = engine_of(trial, *own)
        nonlocal visits
        visits = engine.visits
        return outcome(engine, program)

    raised, found = None, {}
    try:
        found = trial.run(run, called=program.text)
    except AnswerRaised as error:
        raised = error
    return Played(found, [node.number for node in visits], [node.name for node in visits], raised)


def expect_as_torch(
    trial: Trial,
    program: Program,
    *own: str,
    otherwise: Sequence[Reading] = (),
    error: str = "",
    silent: str = "",
    kind: str = "",
) -> Played:
    """The answer's engine comes to the same values, gradients and errors as PyTorch.

    Args:
        trial: holds the answer.
        program: what is run on both.
        own: see ``engine_of``.
        otherwise: what known mistakes lead to, by their keys; the first that fits is named.
        error: the misconception where the engine raises a RuntimeError and PyTorch does not, or another error.
        silent: the one where it raises none and PyTorch does.
        kind: the one where it raises something that is no RuntimeError, and PyTorch a RuntimeError.
    """
    played, right = play(trial, program, *own), outcome(TORCH, program)
    if played.raised is not None:
        got = message_of(played.raised.error, 120)
        if ERROR in right:
            before = play(trial, Program(program.lines[: right[ERROR]], program.given), *own)
            if before.raised is not None:
                raise before.raised
            trial.called = program.text
            raise Missed(kind, expected=f"a RuntimeError: {_line(program.lines, right[ERROR])}", got=got)
        if not error:
            raise played.raised
        raise Missed(error, expected="nothing raised", got=got)
    wrong = difference(played.found, right)
    if wrong is None:
        return played
    name, expected, got = wrong
    if name == ERROR:
        lines = program.lines
        texts = ["nothing raised" if at is None else f"a RuntimeError: {_line(lines, at)}" for at in (expected, got)]
        said = "" if got is None else f": {textwrap.shorten(played.found[SAID], 120, placeholder='...')}"
        raise Missed(silent if got is None else error, expected=texts[0], got=texts[1] + said)
    key = next((key for key, fits in otherwise if fits(played.found)), "")
    raise Missed(key, expected=f"{name}: {shown(expected)}", got=shown(got))


def held(lib: Any, program: Program) -> int:
    """The bytes that the graph behind t2 holds when a program has been run, while its leaves are held."""
    space = {"lib": lib} | {name: lib.tensor(values.copy(), flag) for name, (values, flag) in program.given.items()}
    with torch.enable_grad():
        exec("\n".join(program.lines), space)
        result = space["t2"]
        return graph_memory(result).total if lib is TORCH else lib.bytes_held(result)


def expect_random(trial: Trial, kinds: str, first: Sequence[Program], count: int = 12, *own: str) -> None:
    """Random programs come to the same as in PyTorch. Of one that does not, as few lines are shown as will do.

    ``first`` are some of this kind that come first: what the known mistakes fail in, so that an answer earns the same
    each time.
    """
    for program in (*first, *random_programs(trial, kinds, count)):
        if _fails(trial, program, *own):
            expect_as_torch(trial, _shortened(trial, program, *own), *own)


def _fails(trial: Trial, program: Program, *own: str) -> bool:
    try:
        expect_as_torch(trial, program, *own)
    except (Missed, AnswerRaised):
        return True
    return False


def _shortened(trial: Trial, program: Program, *own: str) -> Program:
    """Without the lines and the terms of its losses that it fails without; from the last line up, for who uses a
    tensor stands below it."""
    for at in reversed(range(len(program.lines))):
        name, _, terms = program.lines[at].partition(" = ")
        alone = [(f"{name} = {term}",) for term in terms.split(" + ")] if terms and name.startswith("loss") else []
        for instead in ((), *alone):
            shorter = Program((*program.lines[:at], *instead, *program.lines[at + 1 :]), program.given)
            try:
                right, engine_s = outcome(TORCH, shorter), outcome(Engine(), shorter)
            except (NameError, SyntaxError):  # another line needs this one; a term of a sum in brackets is none
                continue
            # Where PyTorch ends otherwise than before, or than the course's engine, it says nothing about the answer.
            same = (ERROR in right) == (ERROR in outcome(TORCH, program)) and not difference(engine_s, right)
            if same and _fails(trial, shorter, *own):
                program = shorter
                break
    return program


def random_programs(trial: Trial, kinds: str, count: int) -> Iterator[Program]:
    for _ in range(count):
        yield drawn(trial.integer(0, 2**60), kinds)


def leaves(trial: Trial, *shapes: tuple[int, ...], flags: Sequence[bool] = ()) -> dict[str, tuple[np.ndarray, bool]]:
    """Leaves t0, t1, ... of these shapes; all of them require grad where no flags are given."""
    flags = flags or [True] * len(shapes)
    pairs = zip(shapes, flags, strict=True)
    return {f"t{i}": (trial.randn(*shape).numpy(), flag) for i, (shape, flag) in enumerate(pairs)}


def program(given: dict[str, tuple[np.ndarray, bool]], *lines: str) -> Program:
    return Program(lines, given)


def near(found: Any, right: Any) -> bool:
    """Whether an entry is this value."""
    if found is None or right is None:
        return found is right
    one, other = np.asarray(found), np.asarray(right)
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-9, atol=1e-12))


def _line(lines: Sequence[str], at: int) -> str:
    return f"line {at + 1}, {' '.join(lines[at].split())}"


def shown(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return str(value)
    text = np.array2string(value, precision=4, separator=", ", threshold=6, max_line_width=200)
    return " ".join(text.split()) + (f", shape {value.shape}" if value.size > 4 else "")
