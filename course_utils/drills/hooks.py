"""Drills on hooks: which of them fires, and what does it see?

A number goes through two modules, and hooks note in ``seen`` what they see of it, or of its gradient.
"""

import re
from collections.abc import Sequence

from course_utils.drills.moves import Ask, Move, Topic, execute

_NEVER = "none"
_MODULES = "seen = {}\n{F}, {G} = nn.{%s}, nn.{outer}"
_NET = _MODULES % "inner" + "\nnet = nn.Sequential({F}, {G})\n{X} = torch.tensor([{number}])"
_RUN, _METHOD = "result = net({X})", "Hooks run when a module is called, and `forward` is a method that knows of none"
_LATE = "The hook is registered when the net has run, and a hook sees only what comes later"
_INSTEAD = "What this hook returns takes the place of what it sees, for all that comes after it"
_RETURNS = "`torch.autograd.grad` returns the gradient of `{X}`, goes no further, and fills no `.grad`"


def _look(where: str, sees: str, words: str, level: int = 1) -> Move:
    """A hook that notes something; without it, it is removed at once."""
    text = f"{where}: seen.update({{new}}={sees}))"
    return Move(text, f"-> {text}.remove()", words, level, usual=True)


def _forward(part: str) -> list[Move]:
    return [
        _look(f"{part}.register_forward_hook(lambda _, args, out", "out",
              f"The hook runs when `{part}` has been called, and sees its result"),
        _look(f"{part}.register_forward_pre_hook(lambda _, args", "args[0]",
              f"The pre-hook runs before `{part}`, and sees its input"),
    ]  # fmt: skip


_LOOKS = _forward("{part}")
_GRADIENTS = [
    _look("{tensor}.register_hook(lambda grad", "grad",
          "The hook sees the gradient of the result with respect to `{tensor}`, as it comes there", 3),
    _look("{X}.register_post_accumulate_grad_hook(lambda leaf", "leaf.grad",
          "The hook runs when `.grad` of `{X}` has been filled, after all other hooks of `{X}`", 3),
]  # fmt: skip
_RUNS = [
    Move(_RUN),
    Move("result = net.forward({X})", ".forward -> ", _METHOD, weight=1.5),
    Move("result = {G}({F}({X}))", f"-> {_RUN}", "This line calls `{F}` and `{G}`, and not `net`", weight=2),
]
_CHANGES = [
    Move("{side}.register_forward_pre_hook(lambda _, args: args[0] * {3|5|10})", "-> pass", _INSTEAD, 2),
    Move("{side}.register_forward_hook(lambda _, args, out: out * {3|5|10})", "-> pass", _INSTEAD, 2),
]
_EDITED = Move(
    _NET.replace("{outer}", "ReLU(inplace=True)"), "inplace=True -> ", "What is noted is no copy, and `{G}` edits it", 2
)
_TURN = Move("{tensor}.register_hook(lambda grad: grad * {-1|3|5|10})", "-> pass", _INSTEAD, 3)
_BACKWARD = "({2..7} * {Y}).backward()"


def _read(lines: Sequence[str]) -> dict[str, str]:
    """What each hook has noted."""
    seen, keys = execute(lines)["seen"], re.findall(r"update\((\w+)=", "\n".join(lines))
    return {key: format(seen[key].item() + 0.0, "g") if key in seen else _NEVER for key in keys}


TOPIC = Topic(
    task="What has each hook noted in `seen` when the last line has run? `LeakyReLU(k)` turns x below 0 into k * x.",
    lessons=["forward_hooks"],
    asks={"": Ask("which number is noted under it?", {_NEVER: "it is never noted"}, "it is {answer}")},
    moves={
        "net": [Move(_NET)], "edited": [_EDITED], "look": _LOOKS, "run": _RUNS, "change": _CHANGES,
        "late": [Move(f"{_RUN}\n{look.text}", f"-> {look.text}\n{_RUN}", _LATE) for look in _LOOKS],
        "kept": [Move(f"{{T}} = {look.text}") for look in _LOOKS],
        "remove": [Move("{T}.remove()", "-> pass", "`remove()` takes the hook away before the net runs")],
        "pass": [Move("net({X})", weight=2), Move("with torch.no_grad():\n    net({X})")],
        "modules": [Move(_MODULES % "smooth")], "module": _forward("{side}"), "grad": _GRADIENTS, "turn": [_TURN],
        "forward": [Move("{X} = torch.tensor([{number}], requires_grad=True)\n{H} = {F}({X})\n{Y} = {G}({H})")],
        "end": [Move(_BACKWARD), Move("torch.autograd.grad({2..7} * {Y}, {X})", f"-> {_BACKWARD}", _RETURNS, weight=2)],
    },
    plans={
        1: ["net look look look run", "net kept look remove look run", "net look look late"],
        2: ["net change look look look pass", "net look change look look pass", "edited look look look pass"],
        3: ["modules module forward turn grad grad end", "modules forward turn grad grad end"],
    },
    read=_read,
    texts={
        "part": ("{F}", "{G}", "net"), "side": ("{F}", "{G}"), "tensor": ("{X}", "{H}", "{Y}"),
        "number": ("{1..7}.5", "-{1..7}.5"), "smooth": ("LeakyReLU(0.5)", "LeakyReLU(2.0)", "LeakyReLU(10.0)"),
        **dict.fromkeys(("inner", "outer"), ("LeakyReLU(0.5)", "LeakyReLU(2.0)", "ReLU()")),
    },
)  # fmt: skip
