"""``Memory``: what is saved, freed and checked for edits, and how many bytes a graph holds."""

from contextlib import suppress

import numpy as np
import torch

from course_utils.checks.claims import Trial, exercise, expect
from course_utils.graph import graph_memory
from course_utils.lessons.own_engine import _shared as shared
from course_utils.lessons.own_engine._programs import ERROR, TORCH

Memory = exercise(__file__)

_SAVING = "save", "unsave", "write"


@Memory.claim("is a class of your own with a method of this part", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_part(trial)


@Memory.claim("frees what was saved, unless told to retain it, and says so to a second backward", weight=2.5)
def _(trial: Trial) -> None:
    given, early = shared.leaves(trial, (3,), (3,)), _key_of_refusal(trial)
    program = shared.program(given, "loss = (t0 * t1).sum()", "loss.backward()", "loss.backward()")
    shared.expect_as_torch(trial, program, *_SAVING, error=early, silent="never freed", kind="kind")
    lines = "loss = (t0 * t1).sum()", "loss.backward(retain_graph=True)", "loss.backward()"
    shared.expect_as_torch(trial, shared.program(given, *lines), *_SAVING, error="retain ignored")


def _key_of_refusal(trial: Trial, otherwise: str = "") -> str:
    """Why a first backward is refused: a way that has saved nothing passes for freed, and no other one does."""
    given = shared.leaves(trial, (), ())
    programs = (shared.program(given, f"t2 = t0 {sign} t1", "t2.backward()") for sign in "*+")
    refused = [ERROR in shared.play(trial, program, *_SAVING).found for program in programs]
    return "nothing is freed" if refused == [False, True] else otherwise


@Memory.claim("goes again through a graph that has saved nothing", weight=0.5)
def _(trial: Trial) -> None:
    given, refusal = shared.leaves(trial, (3,), (3,)), _key_of_refusal(trial, "nothing saved")
    lines = "loss = (t0 + t1).sum()", "loss.backward()", "loss.backward()"
    shared.expect_as_torch(trial, shared.program(given, *lines), *_SAVING, error=refusal)


@Memory.claim("writes into the memory that is there", weight=1)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), flags=(False,))
    program = shared.program(given, "t1 = t0.detach()", "t0.mul_(2.0)")
    shared.expect_as_torch(trial, program, *_SAVING, otherwise=[("rebound", lambda found: True)])
    program = shared.program(shared.leaves(trial, (), flags=(False,)), "t0.mul_(2.0)")
    shared.expect_as_torch(trial, program, *_SAVING)


@Memory.claim("saves the arrays themselves, no copies", weight=7)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    lines = "t2 = t0 * t1", "t1.data[...] = 5.0", "t2.sum().backward()"  # which goes around the counter
    copy = [("copy", lambda found: True)]
    shared.expect_as_torch(trial, shared.program(given, *lines), *_SAVING, otherwise=copy)
    first = trial.run(lambda: type(shared.engine_of(trial, "save").tensor(1.0).save()[0]).__name__, called="save(x)[0]")
    expect(first == "ndarray", "tensor saved", expected="an array", got=f"a {first}")


@Memory.claim(
    "raises an error where what was saved has been edited since, before it frees, and after no other edit", weight=4
)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    silent, refusal = _key_of_silence(trial), _key_of_refusal(trial, "every edit")
    for lines in (
        ("t2 = t0 * t1", "t1.mul_(2.0)"),
        ("t2 = t0.exp()", "t2.mul_(2.0)"),
        ("t2 = t0.tanh()", "t2.detach().mul_(2.0)"),
        ("t2 = t0 + t1", "t1.mul_(2.0)"),
        ("t2 = t0 * t1", "with lib.no_grad():\n    t0.mul_(2.0)"),
        ("t2 = t0 * t1", "t2.mul_(2.0)"),
        ("t1.mul_(2.0)", "t2 = t0 * t1"),
        ("t3, t4 = t1.split([1, 2])", "t2 = t0.split([1, 2])[1] * t4", "t3.mul_(2.0)"),
    ):
        program = shared.program(given, *lines, "t2.sum().backward()")
        shared.expect_as_torch(trial, program, *_SAVING, silent=silent, error=refusal, kind="kind")
    for at in (0, 1):
        called = f"backward along a way that has saved a and b, after {'ab'[at]}.mul_(2.0)"
        refuses = trial.run(lambda at=at: _refuses_edit_of(trial, at), called=called)
        expect(refuses, "first alone", expected="a RuntimeError", got="nothing raised")

    def held() -> list[int]:
        engine = shared.engine_of(trial, *_SAVING)
        factor = engine.tensor(np.ones(3))
        loss = (engine.tensor(np.ones(3), True) * factor).sum()
        factor.mul_(2.0)
        before = engine.bytes_held(loss)
        with suppress(RuntimeError):
            loss.backward()
        return [before, engine.bytes_held(loss)]

    before, after = trial.run(held, called="bytes_held(loss) before and after a backward that refuses")
    expect(after == before, "freed first", expected=f"{before} bytes, then as before", got=f"{after} bytes")


def _refuses_edit_of(trial: Trial, at: int) -> bool:
    engine = shared.engine_of(trial, *_SAVING)
    x, *saved = (engine.tensor(np.ones(3), flag) for flag in (True, False, False))
    result = engine.record("product", engine.tensor(x.data), (x, lambda g, a, b: g * a * b, *saved))
    saved[at].mul_(2.0)
    try:
        result.backward(np.ones(3))
    except RuntimeError:
        return True
    return False


def _key_of_silence(trial: Trial) -> str:
    """Why an edit passes: it is not counted, not where it changes no number, or nobody looks at the count."""

    def counted(factor: float) -> bool:
        x = shared.engine_of(trial, "write").tensor(np.ones(3))
        before = x.memory.version
        x.mul_(factor)
        return x.memory.version != before

    shared.expect_written(trial, "write")
    keys = {"not counted": 2.0, "same numbers": 1.0}
    missed = (key for key, factor in keys.items() if not trial.run(lambda: counted(factor), called=f"x.mul_({factor})"))
    return next(missed, "unnoticed")


@Memory.claim("notices an edit that changes no number", weight=0.5)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    program = shared.program(given, "t2 = t0 * t1", "t1.mul_(1.0)", "t2.sum().backward()")
    shared.expect_as_torch(trial, program, *_SAVING, silent=_key_of_silence(trial), kind="kind")


@Memory.claim("counts the bytes of what the graph has saved, each memory once", weight=2)
def _(trial: Trial) -> None:
    shared.expect_written(trial, "bytes_held")
    rows, wide = trial.integer(3, 9), trial.integer(3, 9)
    x, w1, w2 = (trial.randn(*shape).numpy() for shape in ((rows, 4), (4, wide), (wide, wide)))
    programs = {
        "h = (x @ w1).tanh(); loss = (h @ w2 * h).sum()": lambda x, w1, w2, h: (h @ w2 * h).sum(),
        "h = (x @ w1).tanh(); loss = (h + h).sum()": lambda x, w1, w2, h: (h + h).sum(),
        "h = (x @ w1).tanh(); loss = (h * h).exp().sum()": lambda x, w1, w2, h: (h * h).exp().sum(),
    }
    piece = "first, _ = x.split([1, rows - 1]); loss = (first @ w1).tanh().sum()"
    programs[piece] = lambda x, w1, w2, h: (x.split([1, rows - 1])[0] @ w1).tanh().sum()
    both = (
        "h = (x @ w1).tanh(); first, rest = h.split([1, rows - 1]); loss = (first * first).sum() + (rest * rest).sum()"
    )
    programs[both] = lambda x, w1, w2, h: sum((part * part).sum() for part in h.split([1, rows - 1]))
    for text, rest in programs.items():
        right = _held(TORCH, rest, x, w1, w2)

        def measure(backward: bool, rest=rest) -> tuple[int, int]:
            engine = shared.engine_of(trial, "bytes_held")
            result, weights = _result(engine, rest, x, w1, w2)
            nodes = engine.walk(result.node)
            saved = {id(memory) for node in nodes for way in node.ways for _, memory, _ in way.saved}
            leaves = {id(w.memory): w.data.nbytes for w in weights if w in [node.keeps[0] for node in nodes]}
            if backward:
                result.backward()
            return engine.bytes_held(result), right + sum(leaves[one] for one in leaves.keys() - saved)

        held, with_leaves = trial.run(lambda: measure(False), called=f"{text}; bytes_held(loss)")
        key = "array bytes" if text == piece else ""
        if held > right:
            key = "leaves" if held == with_leaves else "views" if text == both else "counted twice"
        expect(held == right, key, expected=f"{right:,} bytes", got=f"{held:,}")
        after, _ = trial.run(lambda: measure(True), called=f"{text}; loss.backward(); bytes_held(loss)")
        expect(after == 0, expected="0 bytes", got=f"{after:,}")


def _result(lib: object, rest: object, x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> object:
    x, w1, w2 = lib.tensor(x), lib.tensor(w1, True), lib.tensor(w2, True)
    return rest(x, w1, w2, (x @ w1).tanh()), [w1, w2]


def _held(lib: object, rest: object, x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> int:
    with torch.enable_grad():
        result, weights = _result(lib, rest, x, w1, w2)
        held = graph_memory(result).total  # while the weights are held: a graph that alone holds a leaf counts it, too
        del weights
        return held


@Memory.claim("agrees with PyTorch on random programs, errors included", weight=2.5)
def _(trial: Trial) -> None:
    given, again = shared.leaves(trial, (3,), (3,), flags=(True, False)), "loss0.backward()"
    programs = (
        ("loss0 = (t0 * t1).sum()", again, again),
        ("loss0 = (t0 * t1).sum()", "loss0.backward(retain_graph=True)", again),
        ("loss0 = (t0 + t1).sum()", again, again),
        ("t2 = t1.detach()", "t1.mul_(1.5)"),
        ("t2 = t0 * t1", "t1.mul_(1.5)", "loss0 = t2.sum()", again),
    )
    first = [shared.program(given, *lines) for lines in programs]
    shared.expect_random(trial, "edit edit detach repeat", first, 16)
