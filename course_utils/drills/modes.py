"""Drills on grad modes: is grad mode on here, does this result require grad?"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from course_utils.drills.engine import KEYS, Ask, Effect, Move, Topic
from course_utils.drills.flags import ASK, FLAGGED, KINDS, PLAIN, TEXTS, VIEW, size
from course_utils.drills.run import execute

_LOOK, _RESULT = "{key} = torch.is_grad_enabled()", "{new} = {up} * {2..9}"
_SET_OFF, _SET_ON = "torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)"
_UNTIL = "`{off}` switches grad mode off until its block ends"
_ON = "`{on}` switches grad mode on until its block ends"
_STAYS = "`set_grad_enabled` as a statement holds from its line on, to the end of the block it stands in"
_BACK = "When the block of `{off}` ends, the mode from before it comes back: grad mode is on again"
_BARE = "`torch.no_grad()` alone on a line makes a context manager that nobody enters: nothing is switched off"
_DECORATED = "@torch.{no_grad()|inference_mode()}\ndef {f}(v):\n    return v * {2..9}\n{new} = {f}({up})"
_IN_EACH_CALL = "The decorator switches grad mode off while `{f}` runs, so nothing in it is recorded"
_NESTED = "with torch.{no}:\n    {look1}\n    with torch.{on}:\n        {look2}\n    {look3}"
_INFERENCE = "with torch.inference_mode():\n    with torch.{on}:\n        {key} = torch.is_grad_enabled()\n"
_INFERENCE += "        {new} = {up} * {2..9}"
_INSIDE = "with torch.{on}:\n    torch.set_grad_enabled(False)\n    {look}\n{key} = torch.is_grad_enabled()"
_STREAM = "@torch.no_grad()\ndef stream(v):\n    yield v {*|+} {2..9}\nbatches = stream({up})\n{new} = next(batches)\n"
_STREAM += "{key} = torch.is_grad_enabled()"
_WAITS = "def stream(v):\n    with torch.no_grad():\n        yield v {*|+} {2..9}\nbatches = stream({up})\n"
_WAITS += "{new} = next(batches)\n{key1} = torch.is_grad_enabled()\nbatches.close()\n{key2} = torch.is_grad_enabled()"
_THREAD = "seen = []\nwith torch.no_grad():\n    worker = Thread(target=lambda: seen.append({up} * {2..9}))\n"
_THREAD += "    worker.start()\n    worker.join()\n{new} = seen[0]"


def _block(after: str, key: str) -> Move:
    """A block with grad mode off, and what comes after it."""
    text = "with torch.{off}:\n    {look}\n" + after
    back = Effect(f"{_SET_OFF}\nif True:\n    {{look}}\n{after}", _BACK, key)
    return Move(text, text.replace("with torch.{off}:", "if True:"), _UNTIL, more=[back], weight=2)


def _bare(after: str, key: str) -> Move:
    return Move(f"torch.no_grad()\n{after}", f"{_SET_OFF}\n{after}", _BARE, key)


_STRAIGHT = [
    _block(_LOOK, "{key}"),
    _block(_RESULT, "{new}"),
    Move("with torch.{off}:\n    {look}", "if True:\n    {look}", _UNTIL, weight=2),
    Move("with torch.{on}:\n    {look}", "if True:\n    {look}", _ON),
    _bare(_LOOK, "{key}"),
    _bare(_RESULT, "{new}"),
    Move(f"{_SET_OFF}\n{{look}}", "pass\n{look}", _STAYS, weight=1.5),
    Move(f"{_SET_ON}\n{{look}}", "pass\n{look}", _STAYS),
]
_CALLS = [
    Move(_DECORATED, _DECORATED.replace("@torch.{no_grad()|inference_mode()}", "pass"), _IN_EACH_CALL, level=2),
    Move(f"{_DECORATED}\n{_LOOK}", f"{_DECORATED}\n{_LOOK}".replace("@torch.{no_grad()|inference_mode()}", "pass"),
         _IN_EACH_CALL, "{new}", level=2, more=[
             Effect(f"{_DECORATED}\n{_SET_OFF}\n{_LOOK}",
                    "Nothing is off here: a decorator switches grad mode off while its function runs, and only then",
                    "{key}")]),
    Move("with torch.{off}:\n    {g} = lambda v: v {*|+} {2..9}\n{new} = {g}({up})",
         "with torch.{off}:\n    {g} = lambda v: v {*|+} {2..9}\nwith torch.no_grad(): {new} = {g}({up})",
         "What counts is the mode when `{g}` is called, not the mode when it was written", "{new}", level=2, weight=2),
    Move("{g} = lambda v: v {*|+} {2..9}\nwith torch.{off}:\n    {new} = {g}({up})",
         "{g} = lambda v: v {*|+} {2..9}\nif True:\n    {new} = {g}({up})", _UNTIL, level=2),
    Move("layer = nn.Linear({size}, {1..3}).eval()\n{new} = layer({down})",
         "layer = nn.Linear({size}, {1..3}).requires_grad_(False)\n{new} = layer({down})", "`eval()` changes what dropout "
         "and batch norm do, and nothing about recording: the parameters require grad", "{new}", level=2, weight=1.5),
    Move("{new} = torch.zeros({size})\n{new}.{copy_|add_}({up})", "{new} = torch.zeros({size})\npass",
         "Writing `{up}` into `{new}` in place is recorded: `{new}` now hangs on the history of `{up}`", level=2),
    Move("{new} = torch.zeros({size})\nwith torch.no_grad():\n    {new}.{copy_|add_}({up})",
         "{new} = torch.zeros({size})\nif True:\n    {new}.{copy_|add_}({up})",
         "Under `no_grad()` the edit in the next line changes the values and is not recorded", level=2),
]  # fmt: skip
_DEEP = [
    Move(_NESTED, _NESTED.replace("with torch.{no}:", "if True:"), "`{no}` switches grad mode off until its block ends",
         level=3, weight=2, more=[Effect(_NESTED.replace("with torch.{on}:", "if True:"), _ON)]),
    Move(_INFERENCE, _INFERENCE.replace("with torch.inference_mode():", "if True:"), "Inference mode records nothing, "
         "whatever grad mode says; only its end or `inference_mode(False)` leaves it", level=3, more=[
             Effect(_INFERENCE.replace("with torch.{on}:", "if True:"), _ON)]),
    Move(_INSIDE, _INSIDE.replace("with torch.{on}:", "if True:"), "When a block ends, the mode from before it comes "
         "back, whatever has been set inside", level=3, weight=1.5, more=[
             Effect(_INSIDE.replace("torch.set_grad_enabled(False)", "pass"), _STAYS)]),
    VIEW,
    Move(_STREAM, _STREAM.replace("@torch.no_grad()", "pass"), "The decorator switches grad mode off each time the "
         "generator runs", level=3, more=[
             Effect(_STREAM.replace("@torch.no_grad()", "pass").replace("    yield", "    with torch.no_grad(): yield"),
                    "The decorator switches grad mode back whenever the generator waits at its `yield`", "{key}")]),
    Move(_WAITS, _WAITS.replace("with torch.no_grad():", "if True:"),
         "The block in the generator is open while it computes its value", "{new}", level=3, more=[
             Effect(_WAITS.replace("with torch.no_grad():", "if True:"), "At `yield` the generator waits inside its "
                    "block, and grad mode is one for the whole thread: it stays off for the caller", "{key1}"),
             Effect(_WAITS.replace("batches.close()", "pass"),
                    "`close()` ends the generator's block, and the mode from before it comes back")]),
    Move(_THREAD, _THREAD.replace("target=", "target=torch.no_grad()(").replace("}))", "})))"), "Each thread has a grad mode "
         "of its own, and a new one starts with grad mode on", "{new}", level=3, weight=1.5),
]  # fmt: skip


def _read(lines: Sequence[str]) -> dict[str, bool]:
    found = {name: value for name, value in execute(lines).items() if isinstance(value, (bool, torch.Tensor))}
    return {name: value if isinstance(value, bool) else value.requires_grad for name, value in found.items()}


TOPIC = Topic(
    task="What does each call of `torch.is_grad_enabled()` give? Which tensors require grad when all has run?",
    lessons=("volatile_history", "no_grad"),
    asks={**dict.fromkeys(KEYS, Ask("what is its value?", {True: "is True", False: "is False"})), "": ASK},
    moves={
        "flagged": [Move(FLAGGED.text)],
        "plain": [Move(PLAIN.text)],
        "any": _STRAIGHT,
        "call": _CALLS,
        "deep": _DEEP,
    },
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
