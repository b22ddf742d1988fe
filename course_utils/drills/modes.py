"""Drills on grad modes: is grad mode on here, does this result require grad?"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from course_utils.drills.flags import ASK, KINDS, NEW, PLAIN, TEXTS, VIEW, size
from course_utils.drills.moves import KEYS, Ask, Move, Topic
from course_utils.drills.run import execute

_LOOK, _RESULT = "{key} = torch.is_grad_enabled()", "{new} = {up} * {2..9}"
_OFF, _ON = "torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)"
_IS_OFF = ("with torch.{off}:", "if True:", "`{off}` switches grad mode off until its block ends")
_IS_ON = ("with torch.{on}:", "if True:", "`{on}` switches grad mode on until its block ends")
_STAYS = "`set_grad_enabled` as a statement holds from its line on, to the end of the block it stands in"
_BACK = "When the block of `{off}` ends, the mode from before it comes back: grad mode is on again"
_BARE = "`torch.no_grad()` alone on a line makes a context manager that nobody enters: nothing is switched off"
_STRAIGHT = [
    *(Move(f"with torch.{{off}}:\n    {{look}}\n{after}", _IS_OFF, ("with torch.{off}:", f"{_OFF}\nif True:", _BACK,
         key), weight=2) for after, key in ((_LOOK, "{key}"), (_RESULT, "{new}"))),
    *(Move(f"torch.no_grad()\n{after}", ("torch.no_grad()", _OFF, _BARE, key)) for after, key in ((_LOOK, "{key}"),
         (_RESULT, "{new}"))),
    Move("with torch.{off}:\n    {look}", _IS_OFF, weight=2),
    Move("with torch.{on}:\n    {look}", _IS_ON),
    Move(f"{_OFF}\n{{look}}", (_OFF, "pass", _STAYS), weight=1.5),
    Move(f"{_ON}\n{{look}}", (_ON, "pass", _STAYS)),
]  # fmt: skip
_DECORATED = "@torch.{no_grad()|inference_mode()}\ndef {f}(v):\n    return v {*|+} {2..9}\n{new} = {f}({up})"
_DECORATES = ("@torch.{no_grad()|inference_mode()}", "pass", "The decorator switches grad mode off while `{f}` runs, "
              "so nothing in it is recorded", "{new}")  # fmt: skip
_CALLS = [
    Move(_DECORATED, _DECORATES, level=2),
    Move(f"{_DECORATED}\n{_LOOK}", _DECORATES, ("({up})\n", f"({{up}})\n{_OFF}\n", "A decorator switches grad mode "
         "off while its function runs, and only then: here nothing is off", "{key}"), level=2),
    Move("with torch.{off}:\n    {g} = lambda v: v {*|+} {2..9}\n{new} = {g}({up})", ("{new}",
         "with torch.no_grad(): {new}", "What counts is the mode when `{g}` is called, not the mode when it was "
         "written", "{new}"), level=2, weight=2),
    Move("{g} = lambda v: v {*|+} {2..9}\nwith torch.{off}:\n    {new} = {g}({up})\n    {key} = "
         "torch.is_grad_enabled()", _IS_OFF, level=2),
    Move("layer = nn.Linear({size}, {1..3}).eval()\n{new} = layer({down})", ("eval()", "requires_grad_(False)",
         "`eval()` changes what dropout and batch norm do, and nothing about recording: the parameters require grad",
         "{new}"), level=2, weight=1.5),
    Move("{new} = torch.zeros({size})\n{new}.{copy_|add_}({up})", ("{new}.{copy_|add_}({up})", "pass",
         "Writing `{up}` into `{new}` in place is recorded: `{new}` now hangs on the history of `{up}`"), level=2),
    Move("{new} = torch.zeros({size})\nwith torch.no_grad():\n    {new}.{copy_|add_}({up})", ("with torch.no_grad():",
         "if True:", "Under `no_grad()` the edit in the next line changes the values and is not recorded"), level=2),
]  # fmt: skip
_STREAM = (
    "def stream(v):\n    yield v {*|+} {2..9}\nbatches = stream({up})\n{new} = next(batches)\n{key1} = "
    "torch.is_grad_enabled()"
)
_WAITING = (
    _STREAM.replace("    yield", "    with torch.no_grad():\n        yield")
    + f"\nbatches.close()\n{_LOOK.replace('key', 'key2')}"
)
_DEEP = [
    Move("with torch.{no}:\n    {look1}\n    with torch.{on}:\n        {look2}\n    {look3}", ("with torch.{no}:",
         "if True:", "`{no}` switches grad mode off until its block ends"), _IS_ON, level=3, weight=2),
    Move("with torch.inference_mode():\n    with torch.{on}:\n        {key} = torch.is_grad_enabled()\n        {new} "
         "= {up} * {2..9}", ("with torch.inference_mode():", "if True:", "Inference mode records nothing, whatever "
         "grad mode says; only its end or `inference_mode(False)` leaves it"), _IS_ON, level=3),
    Move(f"with torch.{{on}}:\n    {_OFF}\n    {{look}}\n{_LOOK}", ("with torch.{on}:", "if True:", "When a block "
         "ends, the mode from before it comes back, whatever has been set inside"), (_OFF, "pass", _STAYS), level=3,
         weight=1.5),
    VIEW,
    Move(f"@torch.no_grad()\n{_STREAM}", ("@torch.no_grad()", "pass", "The decorator switches grad mode off each time "
         "the generator runs"), ("@torch.no_grad()\ndef stream(v):\n    yield", "pass\ndef stream(v):\n    with "
         "torch.no_grad(): yield", "The decorator switches grad mode back whenever the generator waits at its "
         "`yield`", "{key1}"), level=3),
    Move(_WAITING, ("with torch.no_grad():", "if True:", "The block in the generator is open while it computes "
         "its value", "{new}"), ("with torch.no_grad():", "if True:", "At `yield` the generator waits inside its "
         "block, and grad mode is one for the whole thread: it stays off for the caller", "{key1}"),
         ("batches.close()", "pass", "`close()` ends the generator's block, and the mode from before it comes back"),
         level=3),
    Move("seen = []\nwith torch.no_grad():\n    worker = Thread(target=lambda: seen.append({up} * {2..9}))\n    "
         "worker.start()\n    worker.join()\n{new} = seen[0]", ("lambda: seen.append({up} * {2..9})",
         "torch.no_grad()(lambda: seen.append({up} * {2..9}))", "Each thread has a grad mode of its own, and a new "
         "one starts with grad mode on", "{new}"), level=3, weight=1.5),
]  # fmt: skip


def _read(lines: Sequence[str]) -> dict[str, bool]:
    found = {name: value for name, value in execute(lines).items() if isinstance(value, (bool, torch.Tensor))}
    return {name: value if isinstance(value, bool) else value.requires_grad for name, value in found.items()}


TOPIC = Topic(
    task="What does each call of `torch.is_grad_enabled()` give? Which tensors require grad when all has run?",
    lessons=("volatile_history", "no_grad"),
    asks={**dict.fromkeys(KEYS, Ask("what is its value?", {True: "is True", False: "is False"})), "": ASK},
    moves={"flagged": [Move(NEW)], "plain": [Move(PLAIN)], "any": _STRAIGHT, "call": _CALLS, "deep": _DEEP},
    plans={
        1: ["flagged any any any", "flagged any any"],
        2: ["flagged plain call call any", "flagged plain any call call", "flagged plain call any call"],
        3: ["flagged deep any deep", "flagged any deep deep", "flagged plain deep call"],
    },
    read=_read,
    kinds=KINDS,
    texts={
        **TEXTS,
        "look": (_LOOK, _RESULT, "{new} = {up}.{exp|sin|cos|tanh}()"),
        "off": ("no_grad()", "no_grad()", "inference_mode()", "set_grad_enabled(False)"),
        "no": ("no_grad()", "set_grad_enabled(False)"),
        "on": ("enable_grad()", "set_grad_enabled(True)"),
        "f": ("scale", "shift", "blend"),
        "g": ("double", "step", "apply"),
    },
    values=size,
)
