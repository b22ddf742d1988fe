"""Drills on hooks: which of them fires, and what does it see?

A number goes through two modules, and hooks note in ``seen`` what they see of it, or of its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from course_utils.drills.moves import KEYS, USUAL, Ask, Draw, Move, Topic
from course_utils.drills.run import execute

NOTHING = "nothing"
_MODULES, _NET = (
    "seen = {}\n{f}, {g} = nn.{inner}, nn.{outer}",
    "\nnet = nn.Sequential({f}, {g})\n{x} = torch.tensor([{number}])",
)
_RUN = "result = net({x})"
# Hooks that note something, and what they note.
_FORWARD = {
    "{part}.register_forward_hook(lambda _, args, out: seen.update({key}=out))": "A forward hook of `{part}` runs "
    "when it has been called, and sees its result",
    "{part}.register_forward_pre_hook(lambda _, args: seen.update({key}=args[0]))": "A forward pre-hook of `{part}` "
    "runs before it, and sees its input",
}
_OF_MODULES = {
    f"{{{one}}}.register_full_backward_pre_hook(lambda _, grads: seen.update({{key}}=grads[0]))": "The hook sees the "
    f"gradient of the result with respect to `{{{result}}}`, as it comes there"
    for one, result in ("fh", "gy")
}
_OF_SIDES = {text.replace("part", "side"): words.replace("part", "side") for text, words in _FORWARD.items()}
_GRADIENT = {
    "{tensor}.register_hook(lambda grad: seen.update({key}=grad))": "The hook sees the gradient of the result with "
    "respect to `{tensor}`, as it comes there",
    "{x}.register_post_accumulate_grad_hook(lambda t: seen.update({key}=t.grad))": "The hook runs when `.grad` of "
    "`{x}` has been filled, after all other hooks of `{x}`",
}


def _looks(texts: dict[str, str], level: int = 1) -> list[Move]:
    moves = [Move(text, ("", "pass", words, "{key}", USUAL), level=level) for text, words in texts.items()]
    moves[0].weight = 2.0
    return moves


_METHOD = "`forward` is a method, and knows of no hooks"
_RUNS = [
    Move(_RUN),
    Move("result = net.forward({x})", (".forward", "", f"Hooks run when a module is called. This line does not call "
         f"`net`: {_METHOD}")),
    Move("result = {g}({f}.forward({x}))", ("", _RUN, "Hooks run when a module is called. This line calls `{g}` and "
         f"neither `{{f}}` nor `net`: {_METHOD}"), weight=1.5),
    Move("result = {g}({f}({x}))", ("", _RUN, "Hooks run when a module is called. This line calls `{f}` and `{g}`, "
         "and not `net`"), weight=1.5),
]  # fmt: skip
_LATE = "The hook of `{key}` is registered when the net has run, and a hook sees only what comes later"
_INSTEAD = "What this hook returns takes the place of what {} `{{side}}`, for all that comes after it"
_CHANGES = [
    Move(f"{{side}}.register_forward_{how}", ("", "pass", _INSTEAD.format(where)), level=2)
    for how, where in {"pre_hook(lambda _, args: args[0] * {3|5|10})": "goes into",
                       "hook(lambda _, args, out: out * {3|5|10})": "comes out of"}.items()
]  # fmt: skip
_EDITED = Move(_MODULES.replace("{outer}", "ReLU(inplace=True)") + _NET, ("inplace=True", "", "What is noted is the "
               "tensor itself and no copy, and `{g}` edits it in place afterwards"), level=2)  # fmt: skip
_TURN = Move("{tensor}.register_hook(lambda grad: grad * {-1|3|5|10})", ("", "pass", "What this hook returns takes the "
             "place of the gradient of `{tensor}`, for all that comes after it"), level=3)  # fmt: skip
_BACK = [
    Move("({2..7} * {y}).backward()", weight=2),
    Move("torch.autograd.grad({2..7} * {y}, {x})", ("", "({2..7} * {y}).backward()", "`torch.autograd.grad` returns "
         "the gradient of `{x}` and fills no `.grad`")),
    Move("torch.autograd.grad({2..7} * {y}, {h})", ("", "({2..7} * {y}).backward()", "`torch.autograd.grad` goes back "
         "as far as `{h}` and no further")),
]  # fmt: skip


def _names(draw: Draw, level: int) -> dict[str, object]:
    smooth = ["LeakyReLU(0.5)", "LeakyReLU(2.0)"]  # at level 3 no slope is asked for where it jumps
    second = [*smooth, "Hardtanh()", "ReLU6()", "ReLU()"]
    others = [*second, "Threshold(1.25, 8.0)"]
    inner, outer = (smooth, second) if level == 3 else ([*others, "Identity()"], others)
    number = "-" * (draw.below(10) < (3 if level == 2 else 5)) + f"{1 + draw.below(7)}.5"
    names = {name: f"N9{at}_" for at, name in enumerate("fgxhy")}
    return {**names, "inner": draw.choice(inner), "outer": draw.choice(outer), "number": number}


def _read(lines: Sequence[str]) -> dict[str, str]:
    """What each hook has noted."""
    seen = execute(lines)["seen"]
    return {key: format(seen[key].item() + 0.0, "g") if key in seen else NOTHING for key in KEYS}


TOPIC = Topic(
    task="What has each hook noted in `seen` when the last line has run?",
    lessons=("forward_hooks",),
    asks={"": Ask("which number is noted under it?", {NOTHING: "is never noted"}, others="is {}")},
    moves={
        "net": [Move(_MODULES + _NET)], "edited": [_EDITED], "look": _looks(_FORWARD), "run": _RUNS, "change": _CHANGES,
        "late": [Move(f"{_RUN}\n{look}", ("", f"{look}\n{_RUN}", _LATE, "{key}")) for look in _FORWARD],
        "kept": [Move(f"{{new}} = {look}") for look in _FORWARD],
        "remove": [Move("{handle}.remove()", ("", "pass", "`remove()` takes the hook away before the net runs"))],
        "pass": [Move("net({x})", weight=2), Move("with torch.no_grad():\n    net({x})")],
        "modules": [Move(_MODULES)], "module": [*_looks(_OF_MODULES, 3), *_looks(_OF_SIDES)],
        "forward": [Move("{x} = torch.tensor([{number}], requires_grad=True)\n{h} = {f}({x})\n{y} = {g}({h})")],
        "grad": _looks(_GRADIENT, 3), "turn": [_TURN], "end": _BACK,
    },
    plans={
        1: ["net look look look run", "net kept look remove look run", "net look look late",
            "net kept look remove late"],
        2: ["net change look look look pass", "net look change look look pass", "net look look change look pass",
            "edited look look look pass"],
        3: ["modules module forward turn grad grad end", "modules module forward grad turn grad end",
            "modules forward turn grad grad end", "modules module forward grad turn end"],
    },
    read=_read,
    kinds={"handle": lambda value, uses: "Handle" in type(value).__name__},
    texts={"part": ("{f}", "{g}", "net"), "side": ("{f}", "{g}"), "tensor": ("{x}", "{h}", "{y}")},
    values=_names,
    explained={
        "LeakyReLU": "`LeakyReLU(k)` multiplies a negative number by k.",
        "Hardtanh": "`Hardtanh` raises what is below -1 to -1, and lowers what is above 1 to 1.",
        "ReLU6": "`ReLU6` raises what is below 0 to 0, and lowers what is above 6 to 6.",
        "Threshold": "`Threshold(t, v)` gives v for a number that is not above t.",
    },
)  # fmt: skip
