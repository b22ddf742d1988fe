"""Drills on branches that are gated: which of them runs, what is in its ``.grad``, and does it move?"""

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
_CUT = "`{p}` is called and recorded, and `detach()` cuts it off: backward never comes there"
_EMPTY = "`{p}` is called on a batch of no rows. It is part of the graph, and a sum over no rows is zero"
_NOT_CALLED, _ALONE = "-> {new} = torch.zeros({ROWS}, 2)", ("-> {new} = {p}({x})", "-> {new} = {q}({x})")
_GATES = [
    Move("{new} = {0.0|0} * {p}({x})", ("{0.0|0} -> 1.0", _NOT_CALLED), _ZERO, weight=2),
    Move("{new} = {2..5} * {p}({x})", ("({x}) -> ({x}).detach()", _NOT_CALLED), _ONE),
    Move("{new} = [{p}({x}), {q}({x})][1]", ("[1] -> [0]", *_ALONE), _DROP, weight=2),
    Move("{new} = [{p}, {q}][1]({x})", "[1] -> [0]", _SKIP, weight=2),
    Move("{new} = {p}({x}) if {1..3} > {4..6} else {q}({x})", "> -> <", _SKIP, weight=2),
    Move("{new} = torch.where(torch.tensor(False), {p}({x}), {q}({x}))", ("False -> True", *_ALONE), _MASK, weight=2),
]
_NO_ROW = "{new1} = torch.tensor([False] * {ROWS})\n{new} = torch.zeros({ROWS}, 2)\n%s{new}[{new1}] = {p}({x}[{new1}])"
_ROUTES = [
    Move("with torch.no_grad():\n    {new} = {p}({x})", ("no_grad() -> enable_grad()", _NOT_CALLED), _OFF, 2),
    Move("{new} = {2..5} * {p}({x}).detach()", (".detach() -> ", _NOT_CALLED), _CUT, 2),
    Move(_NO_ROW % "", ("False -> True", "= {p}({x}[{new1}]) -> = 0"), _EMPTY, 2, 2),
    Move(_NO_ROW % "if {new1}.any(): ", "False -> True", "No row is chosen, and so `{p}` is not called", 2, 3),
]
_SGD, _MEMORY = "{S} = torch.optim.SGD(both, lr=0.1)", "Adam(both, lr=0.1)|SGD(both, lr=0.1, momentum=0.9)"
_GOES_ON = "A gradient of zeros is one like any other: what this optimizer remembers goes on"
_HALF = "The gradient of `{P}` is multiplied by zero on the way back, and that of `{Q}` is not"
_NO_GRADIENT = "`zero_grad()` drops the old gradient, and the optimizer passes over a parameter without one"
_FILLED = "`set_to_none=False` fills the old gradient with zeros, and the next backward adds nothing to it"
_STEPS = {
    "optimizer": [
        Move(_SGD, ") -> , momentum=0.9)", "Plain SGD subtracts the gradient alone: zero", 3, 2, about="moves"),
        Move(f"{{S}} = torch.optim.{{{_MEMORY}}}", f"-> {_SGD}", _GOES_ON, 3, 2, about="moves"),
    ],
    "first": [Move("({P}({X}) + {Q}({X})).{sum|mean}().backward()\n{S}.step()")],
    "clear": [
        Move("{S}.zero_grad()", "() -> (set_to_none=False)", _NO_GRADIENT, 3, 5),
        Move("{S}.zero_grad(set_to_none=False)", "set_to_none=False -> ", _FILLED, 3, 9, about="grad"),
    ],
    "second": [
        Move("{Q}({X}).sum().backward()", "{Q}({X}) -> (0.0 * {Q}({X}))", "The loss is computed from `{Q}`", 3, 2),
        Move("(0.0 * {P}({X}) + {Q}({X})).sum().backward()", ("0.0 -> 1.0", "+ {Q} -> + 0.0 * {Q}"), _HALF, 3),
    ],
    "step": [Move("{S}.step()")],
}  # fmt: skip


def _read(lines: Sequence[str]) -> dict[str, Answer]:
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
TOPIC = Topic(
    task="Which branches run, and what does that leave in their gradients?",
    lessons=["gated_branches"],
    asks={
        " runs": Ask("is it called anywhere?", {True: "`{name}` runs", False: "`{name}` does not run"}),
        " moves": Ask("does the last line change its weight?", {True: "`{name}` moves", False: "`{name}` stays"}),
        ".grad": Ask("what is in it?", {NONE: "`{key}` is None", ZEROS: "`{key}` holds zeros alone",
                                        VALUES: "`{key}` holds numbers that are not zero"}),
    },
    moves={
        "start": [Move(_X + f"{{new1}}, {{new2}}, {{new3}}, {{new4}} = ({_LINEAR} for _ in range(4))")],
        "pair": [Move(_X + _PAIR % "{P}, {Q}"), Move(_X + _PAIR % "{Q}, {P}")],
        "gate": _GATES, "route": _ROUTES, "end": [Move("({r1} + {r2}).{sum|mean}().backward()")], **_STEPS,
    },
    plans={1: ["start gate gate end"], 2: ["start gate route end", "start route route end", "start route gate end"],
           3: ["pair optimizer first clear second step"]},
    read=_read,
    kinds={
        "x": lambda value, uses: bool(tensors({"": value})) and value.shape[1:] != (2,) and value.dim() == 2,
        **dict.fromkeys("pq", lambda value, uses: isinstance(value, nn.Linear) and uses == 1),
        "r": lambda value, uses: bool(tensors({"": value})) and value.shape[1:] == (2,),
    },
    texts={"ROWS": "3456"},
)  # fmt: skip
