"""Drills on modules: which of gated branches run, what is in their ``.grad``, and do they move (``GATES``); which hook
fires, and what does it see (``HOOKS``)?
"""

import re
from collections.abc import Sequence

from torch import nn

from course_utils.drills.moves import Answer, Ask, Move, Topic, execute, tensors

NONE, ZEROS, VALUES = "none", "zeros", "values"
_ZERO = "`{p}` is called, and the gradient of its result is multiplied by zero on the way back"
_ONE = "`{p}` is called, and the loss is computed from its result"
_DROP = "Both are called and the result of `{p}` is dropped: the loss is computed from that of `{q}` alone"
_SKIP = "`{q}` is called and `{p}` is not: nothing is computed there, and no gradient comes there"
_MASK = "Both are called on all rows, and no row of the result of `{p}` is used: the selection hands zeros back to it"
_OFF = "`{p}` is called where nothing is recorded, so backward never comes there"
_EMPTY = "`{p}` is called on a batch of no rows. It is part of the graph, and a sum over no rows is zero"
_NOT_CALLED, _ALONE = "-> {new} = torch.zeros({ROWS}, 2)", ("-> {new} = {p}({X})", "-> {new} = {q}({X})")
_NO_ROW = "{new1} = torch.tensor([False] * {ROWS})\n{new} = torch.zeros({ROWS}, 2)\n%s{new}[{new1}] = {p}({X}[{new1}])"
_GATES = [
    Move("{new} = {0.0|0} * {p}({X})", ("{0.0|0} -> 1.0", _NOT_CALLED), _ZERO, weight=2),
    Move("{new} = {2..5} * {p}({X})", ("({X}) -> ({X}).detach()", _NOT_CALLED), _ONE),
    Move("{new} = [{p}({X}), {q}({X})][1]", ("[1] -> [0]", *_ALONE), _DROP, weight=2),
    Move("{new} = {p}({X}) if {1..3} > {4..6} else {q}({X})", "> -> <", _SKIP, weight=4),
    Move("{new} = torch.where(torch.tensor(False), {p}({X}), {q}({X}))", ("False -> True", *_ALONE), _MASK, weight=2),
    Move("with torch.no_grad():\n    {new} = {p}({X})", ("no_grad() -> enable_grad()", _NOT_CALLED), _OFF, 2),
    Move(_NO_ROW % "", ("False -> True", "= {p}({X}[{new1}]) -> = 0"), _EMPTY, 2, 2),
    Move(_NO_ROW % "if {new1}.any(): ", "False -> True", "No row is chosen, and so `{p}` is not called", 2, 3),
]
_HALF = "The gradient of `{P}` is multiplied by zero on the way back, and that of `{Q}` is not"
_DROPPED = "`zero_grad()` drops the old gradient, and the optimizer passes over a parameter without one"
_FILLED = "`set_to_none=False` leaves a gradient of zeros, which is one like any other for what the optimizer remembers"
_WHOLE, _STATELESS = "The loss is computed from `{Q}`", "Plain SGD subtracts the gradient alone"
_FIRST = "{S} = torch.optim.%s\n({P}({X}) + {Q}({X})).{sum|mean}().backward()\n{S}.step()"


def _branches(lines: Sequence[str]) -> dict[str, Answer]:
    """Which branches run, what is in their ``.grad`` at the end, and which the last line moves, where it is a step."""
    names, called = execute(lines[:2]), set[str]()
    branches = {name: value for name, value in names.items() if isinstance(value, nn.Linear)}
    for name, branch in branches.items():
        branch.register_forward_hook(lambda *_, name=name: called.add(name))
    execute(lines[2:-1], names)
    before = {name: branch.weight.detach().clone() for name, branch in branches.items()}
    execute(lines[-1:], names)
    found: dict[str, Answer] = {}
    for name, branch in branches.items():
        grad, moves = branch.weight.grad, not branch.weight.equal(before[name])
        found[f"{name}.weight.grad"] = NONE if grad is None else VALUES if grad.count_nonzero() else ZEROS
        found |= {f"{name} moves": moves} if "step" in lines[-1] else {f"{name} runs": name in called}
    return found


_X, _LINEAR = "{X} = torch.ones({ROWS}, {2..7})\n", "nn.Linear({2..7}, 2)"
_PAIR = f"%s = {_LINEAR}, {_LINEAR}\nboth = [*{{P}}.parameters(), *{{Q}}.parameters()]"
GATES = Topic(
    task="Which branches run, and what does that leave in their gradients?",
    lessons=["gated_branches"],
    asks={" runs": Ask("Is it called anywhere?", {True: "`{name}` runs", False: "`{name}` does not run"}),
          " moves": Ask("Does the last line change its weight?", {True: "`{name}` moves", False: "`{name}` stays"}),
          ".grad": Ask("What is in it?", {NONE: "`{key}` is None", ZEROS: "`{key}` holds zeros alone",
                                          VALUES: "`{key}` holds numbers that are not zero"})},
    moves={
        "start": [Move(_X + f"{{new1}}, {{new2}}, {{new3}}, {{new4}} = ({_LINEAR} for _ in range(4))")],
        "pair": [Move(_X + _PAIR % "{P}, {Q}"), Move(_X + _PAIR % "{Q}, {P}")],
        "gate": _GATES, "end": [Move("({r1} + {r2}).{sum|mean}().backward()")],
        "first": [Move(_FIRST % "SGD(both, lr=0.1)", "0.1) -> 0.1, momentum=0.9)", _STATELESS, 3, 2),
                  Move(_FIRST % "{Adam(both, lr=0.1)|SGD(both, lr=0.1, momentum=0.9)}", level=3, weight=2)],
        "clear": [Move("{S}.zero_grad()", "() -> (set_to_none=False)", _DROPPED, 3, 5),
                  Move("{S}.zero_grad(set_to_none=False)", "set_to_none=False -> ", _FILLED, 3, 9)],
        "second": [Move("{Q}({X}).sum().backward()", "{Q}({X}) -> (0.0 * {Q}({X}))", _WHOLE, 3, 2),
                   Move("(0.0 * {P}({X}) + {Q}({X})).sum().backward()", ("0.0 -> 1.0", "+ -> + 0.0 *"), _HALF, 3)],
        "step": [Move("{S}.step()")],
    },
    plans={1: ["start gate gate end"], 2: ["start gate gate end"], 3: ["pair first clear second step"]},
    read=_branches,
    kinds={**dict.fromkeys("pq", lambda value, uses: isinstance(value, nn.Linear) and uses == 1),
           "r": lambda value, uses: bool(tensors({"": value})) and value.shape[1:] == (2,)},
    texts={"ROWS": "3456"},
)  # fmt: skip

_MODULES = "seen = {}\n{F}, {G} = nn.{layer1}, nn.{layer2}"
_NET = _MODULES + "\nnet = nn.Sequential({F}, {G})\n{X} = torch.tensor([{number}])"
_RUN, _METHOD = "result = net({X})", "Hooks run when a module is called, and `forward` is a method that knows of none"
_PARTS = "This line calls `{F}` and `{G}`, and not `net`"
_LATE = "The hook is registered when the net has run, and a hook sees only what comes later"
_INSTEAD = "What this hook returns takes the place of what it sees, for all that comes after it"
_RETURNS = "`torch.autograd.grad` returns the gradient of `{X}`, goes no further, and fills no `.grad`"
_REMOVED = "`remove()` takes the hook away before the net runs"


def _look(hook: str, sees: str, words: str) -> Move:
    """A hook that notes something; without it, it is removed at once."""
    text = f"{hook}: seen.update({{new}}={sees}))"
    return Move(text, f"-> {text}.remove()", words, usual=True)


_BEFORE, _AFTER = "register_forward_pre_hook(lambda _, args", "register_forward_hook(lambda _, args, out"
_LOOKS = [
    _look(f"{{part}}.{_AFTER}", "out", "The hook runs after `{part}`, and sees its result"),
    _look(f"{{part}}.{_BEFORE}", "args[0]", "The hook runs before `{part}`, on its input"),
]
_COMES = "The hook sees the gradient of the result with respect to `{tensor}`, as it comes there"
_LATER = "The hook runs when `.grad` of `{X}` has been filled, after all other hooks of `{X}`"
_BACKWARD = "({2..7} * {Y}).backward()"


def _noted(lines: Sequence[str]) -> dict[str, str]:
    """What each hook has noted."""
    seen, keys = execute(lines)["seen"], re.findall(r"update\((\w+)=", "\n".join(lines))
    return {key: format(seen[key].item() + 0.0, "g") if key in seen else NONE for key in keys}


HOOKS = Topic(
    task="What has each hook noted in `seen` when the last line has run? `LeakyReLU(k)` turns x below 0 into k * x.",
    lessons=["forward_hooks"],
    asks={"": Ask("Which number is noted under it?", {NONE: "none is noted"}, "{answer} is noted")},
    moves={
        "net": [Move(_NET)], "look": _LOOKS,
        "late": [Move(f"{_RUN}\n{look.text}", f"-> {look.text}\n{_RUN}", _LATE) for look in _LOOKS],
        "removed": [Move(f"{{T}} = {look.text}\n{{T}}.remove()", "{T}.remove() -> pass", _REMOVED) for look in _LOOKS],
        "change": [Move(f"{{side}}.{_BEFORE}: args[0] * {{3|5|10}})", "-> pass", _INSTEAD, 2),
                   Move(f"{{side}}.{_AFTER}: out * {{3|5|10}})", "-> pass", _INSTEAD, 2)],
        "modules": [Move(_MODULES)],
        "run": [Move(_RUN), Move("result = net.forward({X})", ".forward -> ", _METHOD, weight=1.5),
                Move("result = {G}({F}({X}))", f"-> {_RUN}", _PARTS, weight=2)],
        "grad": [_look("{tensor}.register_hook(lambda grad", "grad", _COMES),
                 _look("{X}.register_post_accumulate_grad_hook(lambda leaf", "leaf.grad", _LATER)],
        "turn": [Move("{tensor}.register_hook(lambda grad: grad * {-1|3|5|10})", "-> pass", _INSTEAD, 3)],
        "forward": [Move("{X} = torch.tensor([{number}], requires_grad=True)\n{H} = {F}({X})\n{Y} = {G}({H})")],
        "end": [Move(_BACKWARD), Move("torch.autograd.grad({2..7} * {Y}, {X})", f"-> {_BACKWARD}", _RETURNS, weight=2)],
    },
    plans={1: ["net look look look run", "net removed look look run", "net look look late"],
           2: ["net change look look look run", "net look change look look run"],
           3: ["modules forward turn grad grad grad end", "modules forward grad turn grad grad end"]},
    read=_noted,
    texts={"part": ("{F}", "{G}", "net"), "side": ("{F}", "{G}"), "tensor": ("{X}", "{H}", "{Y}"),
           "number": ("{1..7}.5", "-{1..7}.5"), "layer": ("LeakyReLU(0.5)", "LeakyReLU(2.0)", "ReLU()")},
)  # fmt: skip
