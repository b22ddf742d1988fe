"""Drills on grad modes: is grad mode on here, does this result require grad?"""

from collections.abc import Sequence

import torch

from course_utils.drills.flags import BLOCKS, KINDS, OTHERS, OWN, PLAIN, TEXTS
from course_utils.drills.moves import Ask, Move, Topic, execute

_LOOK, _OFF = "{new} = torch.is_grad_enabled()", "torch.set_grad_enabled(False)"
_BLOCK = ("with torch.{off}: -> if True:", f"with torch.{{off}}: -> {_OFF}\nif True:")
_UNTIL = "`{off}` switches grad mode off until its block ends, and no longer"
_STAYS = "As a statement `set_grad_enabled` holds from its line on, to the end of the block that it stands in"
_CALLED = "What counts is the mode when `{g}` is called, not the mode when it was written"
_NOBODY = "`torch.no_grad()` alone on a line makes a context manager that nobody enters: nothing is switched off"
_EVAL = "`eval()` changes what dropout and batch norm do, and nothing about recording"
_STRAIGHT = [
    Move("with torch.{off}:\n    {look1}\n{look2}", _BLOCK, _UNTIL, weight=2),
    Move("with torch.{off}:\n    {look}", _BLOCK, _UNTIL),
    Move(f"torch.no_grad()\n{_LOOK}", f"torch.no_grad() -> {_OFF}", _NOBODY, weight=2),
    Move(f"{_OFF}\n{{look}}", f"{_OFF} -> pass", _STAYS, weight=1.5),
    Move("torch.set_grad_enabled(True)\n{look}", "torch.set_grad_enabled(True) -> pass", _STAYS, weight=1.5),
]
_DECORATED = "@torch.{no_grad|inference_mode}()"
_CALLS = [
    Move(f"{_DECORATED}\ndef {{f}}(value):\n    return value * {{2..9}}\n{{new1}} = {{f}}({{up}})\n{{new2}} = "
         "torch.is_grad_enabled()", (f"{_DECORATED} -> pass", f"{_DECORATED} -> {_OFF}"), "The decorator switches grad "
         "mode off while `{f}` runs, and only then", 2, 2),
    Move("with torch.{off}:\n    {g} = lambda value: value {*|+} {2..9}\n{new} = {g}({up})",
         "{new} -> with torch.no_grad(): {new}", _CALLED, 2, 2),
    Move("{g} = lambda value: value {*|+} {2..9}\nwith torch.{off}:\n    {new} = {g}({up})", _BLOCK[0], _CALLED, 2),
    Move("layer = nn.Linear({SIZE}, 2).eval()\n{new} = layer({down})", "eval() -> requires_grad_(False)", _EVAL, 2),
    OTHERS[3],
]  # fmt: skip
_STREAM = "def stream(value):\n    with torch.no_grad():\n        yield value {*|+} {2..9}\nbatches = stream({up})\n"
_WAITS = "The generator waits at its `yield` inside its block, and grad mode stays off until that block ends"
_DEEP = [
    Move("with torch.{no}:\n    {look1}\n    with torch.{on}:\n        {look2}\n    {look3}", ("with torch.{no}: -> if "
         "True:", "with torch.{on}: -> if True:"), "The innermost block around a line decides its mode, and behind it "
         "that of the block around holds again", 3, 2),
    Move("with torch.inference_mode():\n    with torch.{on}:\n        {new} = {up} * {2..9}", "with "
         "torch.inference_mode(): -> if True:", "Inference mode records nothing, whatever grad mode says", 3),
    *BLOCKS[2:],
    Move(f"{_STREAM}{{new1}} = next(batches)\n{{new2}} = torch.is_grad_enabled()\nbatches.close()\n{{new3}} = "
         "torch.is_grad_enabled()", ("with torch.no_grad(): -> if True:", "batches.close() -> pass"), _WAITS, 3),
    Move("seen = []\nwith torch.no_grad():\n    worker = Thread(target=lambda: seen.append({up} * 2))\n    "
         "worker.start()\n    worker.join()\n{new} = seen[0]", "lambda: seen.append({up} * 2) -> "
         "torch.no_grad()(lambda: seen.append({up} * 2))", "Each thread has a grad mode of its own, at first on", 3),
]  # fmt: skip


def _read(lines: Sequence[str]) -> dict[str, bool]:
    found = {}
    for name, value in execute(lines).items():
        if isinstance(value, torch.Tensor):
            found[f"{name}.requires_grad"] = value.requires_grad
        elif isinstance(value, bool):
            found[name] = value
    return found


TOPIC = Topic(
    task="What is each of these when all has run?",
    lessons=["volatile_history", "no_grad"],
    asks={"": Ask("what is its value?", {True: "`{key}` is True", False: "`{key}` is False"})},
    moves={"own": [Move(OWN)], "plain": [Move(PLAIN)], "any": _STRAIGHT, "call": _CALLS, "deep": _DEEP},
    plans={
        1: ["own any any any", "own any any"],
        2: ["own plain call call any", "own plain any call call", "own plain any call"],
        3: ["own deep any deep", "own any deep deep", "own plain deep call"],
    },
    read=_read,
    kinds=KINDS,
    texts={
        **TEXTS, "look": (_LOOK, "{new} = {up} * {2..9}", "{new} = {up}.{exp|sin|cos|tanh}()"),
        "off": ("no_grad()", "no_grad()", "inference_mode()", _OFF[6:]), "no": ("no_grad()", _OFF[6:]),
        "on": ("enable_grad()", "set_grad_enabled(True)"), "f": ("scale", "shift"), "g": ("double", "step"),
    },
)  # fmt: skip
