"""``Control``: who is recorded, who keeps a gradient, and what the modes and detach leave as it was."""

import numpy as np

from course_utils.base.text import message_of
from course_utils.checks.claims import Missed, Trial, exercise, expect
from course_utils.lessons.own_engine import _shared as shared

Control = exercise(__file__)


@Control.claim("is a class of your own with a method of this part", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_part(trial)


@Control.claim("records where one input at least requires grad", weight=1.5)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    lines = "t2 = t0 * t1", "t3 = t1 * t0", "t4 = t1 * t1", "t5 = t4 + t3", "(t5 + t2).sum().backward()"
    all_of_them = [("all", lambda found: not found["t2.requires_grad"])]
    program = shared.program(given, *lines)
    found = shared.play(trial, shared.program(given, "t2 = t0 * t0"), "records").found
    expect(found.get("t2.requires_grad", True), "nodes", expected="t2 requires grad", got="it does not")
    played = shared.play(trial, program, "records")
    if played.found.get("RuntimeError") == 4:  # the result has no history
        raise Missed("all", expected="t0 * t1 requires grad", got="it does not")
    shared.expect_as_torch(trial, program, "records", otherwise=all_of_them)


@Control.claim("begins with `.grad` None, and adds to it where x requires grad, in an array of its own", weight=2)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), (3,), flags=(True, True, False))
    program = shared.program(given, *["(t0 * t2).sum().backward()"] * 2)
    once = given["t2"][0]
    otherwise = [("overwritten", lambda found: shared.near(found["t0.grad"], once))]
    otherwise += [("zeros", lambda found: found["t1.grad"] is not None)]
    shared.expect_as_torch(trial, program, "accumulate", otherwise=otherwise)
    if trial.run(lambda: _edits_what_it_was_given(trial), called="x.backward(g); x.backward(g)"):
        trial.effects.append("edited in place the gradient that backward was given")
    lines = "t0.backward(t2.data)", "t2.add_(1.0)"
    alias = [("alias", lambda found: True)]
    shared.expect_as_torch(trial, shared.program(given, *lines), "accumulate", otherwise=alias)
    lines = "(t0 + t1).sum().backward()", "t0.sum().backward()"
    shared.expect_as_torch(trial, shared.program(given, *lines), "accumulate", otherwise=alias)
    lines = "t3 = t0 * t1", "t0.requires_grad = False", "t3.sum().backward()"
    lowered = [("lowered", lambda found: found["t0.grad"] is not None)]
    shared.expect_as_torch(trial, shared.program(given, *lines), "accumulate", otherwise=lowered)


def _edits_what_it_was_given(trial: Trial) -> bool:
    engine, g = shared.engine_of(trial, "accumulate"), np.ones(3)
    x = engine.tensor(np.zeros(3), True)
    for _ in range(2):
        x.backward(g)
    return bool((g != 1).any())


@Control.claim("records nothing inside `no_grad`, and puts back the mode that it found", weight=2)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    lines = "with lib.no_grad():\n    t2 = t0 * t1", "t3 = t0 * t1", "t3.sum().backward()"
    mode = "records", "no_grad"
    otherwise = [("clears flags", lambda found: not found["t0.requires_grad"])]
    otherwise += [("ignores the mode", lambda found: found["t2.requires_grad"])]
    program = shared.program(given, *lines)
    played = shared.play(trial, program, *mode)
    if played.found.get("RuntimeError") == 2:  # t3 has no history
        key = "" if _after_a_block(trial) else "clears flags"
        raise Missed(key, expected="t3 requires grad", got="it does not")
    shared.expect_as_torch(trial, program, *mode, otherwise=otherwise)
    nested = "with lib.no_grad():\n    with lib.no_grad():\n        t2 = t0 * 2.0\n    t3 = t0 * 3.0"
    program = shared.program(given, nested, "t4 = t0 * 2.0")
    always_on = [("always on", lambda found: found["t3.requires_grad"])]
    shared.expect_as_torch(trial, program, *mode, otherwise=always_on)
    early = "with lib.no_grad():\n    with mode:\n        t2 = t0 * 2.0\n    t3 = t0 * 3.0"
    program = shared.program(given, "mode = lib.no_grad()", early, "t4 = t0 * 4.0")
    noted_early = [("noted early", lambda found: found["t3.requires_grad"])]
    shared.expect_as_torch(trial, program, *mode, otherwise=noted_early)
    block = "    with lib.no_grad():\n        raise ValueError\n"
    raising = f"try:\n{block}    t2 = t0 * 3.0\nexcept ValueError:\n    t2 = t0 * 2.0"
    otherwise = [("swallowed", lambda found: shared.near(found["t2"], 3 * given["t0"][0]))]
    otherwise += [("only without error", lambda found: True)]
    shared.expect_as_torch(trial, shared.program(given, raising), *mode, otherwise=otherwise)


def _after_a_block(trial: Trial) -> bool:
    """Whether a leaf still requires grad after it was used in a block."""
    given = shared.leaves(trial, (3,))
    program = shared.program(given, "with lib.no_grad():\n    t1 = t0 * 2.0")
    return bool(shared.play(trial, program, "records", "no_grad").found.get("t0.requires_grad", True))


@Control.claim("detaches on the same memory, without history, and leaves the tensor alone", weight=2)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    lines = "t2 = t0 * t1", "t3 = t2.detach()", "t4 = t2 * t3", "t4.sum().backward()"
    otherwise = [("itself", lambda found: not found["t2.requires_grad"])]
    otherwise += [("no twin", lambda found: found["t3.requires_grad"])]
    program = shared.program(given, *lines)
    played = shared.play(trial, program, "detach")
    if played.found.get("RuntimeError") == 3:
        raise Missed("itself", expected="t2 with its history", got="a t2 without")
    shared.expect_as_torch(trial, program, "detach", otherwise=otherwise)
    copy = [("copy", lambda found: shared.near(found["t0"], given["t0"][0]))]
    program = shared.program(given, "t2 = t0.detach()", "t2.mul_(2.0)")
    shared.expect_as_torch(trial, program, "detach", otherwise=copy)
    program = shared.program(given, "t2 = t0.exp()", "t2.detach().mul_(2.0)", "t2.sum().backward()")
    shared.expect_as_torch(trial, program, "detach", silent="own counter")
    program = shared.program(given, "t2 = t0 * t1", "t3 = t2.detach()", "t2.mul_(2.0)", "t2.sum().backward()")
    shared.expect_as_torch(trial, program, "detach", error="viewed")


@Control.claim("keeps an inner gradient where that is asked for, and refuses where there will be none", weight=1.5)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    lines = "t2 = t0 * t1", "t2.retain_grad()", "t0.retain_grad()", "(t2 * t2).sum().backward()"
    shared.expect_as_torch(trial, shared.program(given, *lines), "retain_grad")
    lines = "t2, t3 = t0.split([1, 2])", "t3.retain_grad()", "(t3 * t3).sum().backward()"
    slot = [("slot", lambda found: found["t3.grad"] is None)]
    shared.expect_as_torch(trial, shared.program(given, *lines), "retain_grad", otherwise=slot)
    played = shared.play(trial, shared.program(given, "t1.retain_grad()"), "retain_grad")
    key, got = ("", "nothing raised") if played.raised is None else ("kind", message_of(played.raised.error))
    expect(played.found.get("RuntimeError") == 0, key, expected="a RuntimeError for t1.retain_grad()", got=got)
    played = shared.play(trial, shared.program(given, "t2 = t0 * t1", "(t2 * t2).sum().backward()"))
    kept = played.found.get("t2.grad")
    expect(kept is None, expected="t2.grad None without retain_grad()", got=np.array(kept).tolist())


@Control.claim("agrees with PyTorch on random programs", weight=1)
def _(trial: Trial) -> None:
    refused = shared.program(shared.leaves(trial, (3,), flags=(False,)), "t0.retain_grad()")
    shared.expect_random(trial, "detach no_grad retain", [refused])
