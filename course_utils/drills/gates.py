"""Drills on branches that are gated: which of them runs, what is in its ``.grad``, and does it move?"""

import contextlib
from collections.abc import Sequence

from torch import nn

from course_utils.drills.moves import Answer, Ask, Move, Topic, space, tensors

NONE, ZEROS, VALUES = "none", "zeros", "values"
_ZERO = "`{p}` is called, and the gradient of its result is multiplied by zero on the way back"
_ONE = "`{p}` is called, and the loss is computed from its result"
_BOTH = "Both are called, and the gradient of what `{p}` gives is multiplied by zero on the way back"
_DROP = "Both are called and the result of `{p}` is dropped: the loss is computed from that of `{q}` alone"
_SKIP = "`{q}` is called and `{p}` is not: nothing is computed there, and no gradient comes there"
_MASK = "Both are called on all rows, and no row of the result of `{p}` is used: the selection hands zeros back to it"
_NOT_CALLED, _ALONE = "-> {new} = torch.zeros({ROWS}, 2)", ("-> {new} = {p}({x})", "-> {new} = {q}({x})")
_GATE, _TURNED = "{new1} = torch.tensor([0.0, {0.5|2.0}])\n{new} = ", "[0.0, {0.5|2.0}] -> [{0.5|2.0}, 0.0]"
_BRANCHES = "torch.zeros({ROWS}, 2)\nif {new1}[0]: {new} = {new} + {p}({x})\nif {new1}[1]: {new} = {new} + {q}({x})"
_GATES = [
    Move("{new} = {0.0|0} * {p}({x})", ("{0.0|0} -> 1.0", _NOT_CALLED), _ZERO, weight=2),
    Move("{new} = {2..5} * {p}({x})", ("({x}) -> ({x}).detach()", _NOT_CALLED), _ONE),
    Move("{new} = [{p}({x}), {q}({x})][1]", ("[1] -> [0]", *_ALONE), _DROP),
    Move("{new} = [{q}({x}), {p}({x})][0]", ("[0] -> [1]", *_ALONE), _DROP),
    Move("{new} = [{p}, {q}][1]({x})", "[1] -> [0]", _SKIP),
    Move("{new} = [{q}, {p}][0]({x})", "[0] -> [1]", _SKIP),
    Move("{new} = {p}({x}) if {1..3} > {4..6} else {q}({x})", "> -> <", _SKIP, weight=2),
    Move("{new} = torch.where(torch.tensor(False), {p}({x}), {q}({x}))", ("False -> True", *_ALONE), _MASK, weight=2),
    Move(_GATE + "{new1}[0] * {p}({x}) + {new1}[1] * {q}({x})", (_TURNED, "{new1}[0] * {p}({x}) + -> "), _BOTH, 1, 2),
    Move(_GATE + _BRANCHES, _TURNED, _SKIP, weight=3),
]
_NO_ROW, _ZEROS = "{new1} = torch.tensor([False] * {ROWS})\n{new} = ", "torch.zeros({ROWS}, 2)\n"
_MASKED = "{new}[{new1}] = {p}({x}[{new1}])"
_ROUTES = [
    Move("with torch.no_grad():\n    {new} = {p}({x})", ("with torch.no_grad(): -> if True:", "{p}({x}) -> 0"),
         "`{p}` is called in the block, where nothing is recorded, so backward never comes there", 2),
    Move("{new} = {2..5} * {p}({x}).detach()", (".detach() -> ", _NOT_CALLED),
         "`{p}` is called and recorded, and `detach()` cuts it off: backward never comes there", 2),
    Move(_NO_ROW + _ZEROS + _MASKED, ("False -> True", f"{_MASKED} -> pass"),
         "`{p}` is called on a batch of no rows. It is part of the graph, and a sum over no rows is zero", 2, 2),
    Move(f"{_NO_ROW}{_ZEROS}if {{new1}}.any(): {_MASKED}", "False -> True",
         "No row is chosen, so `{p}` is not called: nothing is computed and no gradient comes there", 2, 2),
    Move(_NO_ROW + "torch.cat([{p}({x})[{new1}], {q}({x})[~{new1}]])", ("False -> True", *_ALONE), _MASK, 2),
]  # fmt: skip
_X = "{X} = torch.ones({ROWS}, {2..7})\n"
_PAIR = "%s = nn.Linear({2..7}, 2), nn.Linear({2..7}, 2)\nboth = [*{P}.parameters(), *{Q}.parameters()]"
_OPTIMIZERS = [
    Move("{S} = torch.optim.SGD(both, lr=0.{1..9})", ") -> , momentum=0.9)", "Plain SGD subtracts the gradient times "
         "the learning rate, and that is zero", 3, 2, about="moves"),
    Move("{S} = torch.optim.{Adam(both, lr=0.1)|SGD(both, lr=0.1, momentum=0.9)}", "-> {S} = torch.optim.SGD(both, "
         "lr=0.1)", "A gradient of zeros is one like any other: what this optimizer remembers goes on", 3, 2, False,
         "moves"),
]  # fmt: skip
_CLEAR = [
    Move("{S}.zero_grad()", "() -> (set_to_none=False)", "`zero_grad()` drops the old gradient, the next backward "
         "makes none, and the optimizer passes over a parameter without one, with all that it remembers", 3, 3),
    Move("{S}.zero_grad(set_to_none=False)", "set_to_none=False -> ", "`set_to_none=False` fills the old gradient with "
         "zeros, and the next backward adds nothing to it", 3, 9, about="grad"),
]  # fmt: skip
_SECOND = [
    Move("{Q}({X}).{sum|mean}().backward()", "{Q}({X}) -> (0.0 * {Q}({X}))", "The loss is computed from `{Q}`", 3, 2),
    Move("({0.0|0} * {P}({X}) + {Q}({X})).{sum|mean}().backward()", ("{0.0|0} -> 1.0", "+ {Q} -> + 0.0 * {Q}"),
         "The gradient of `{P}` is multiplied by zero on the way back, and that of `{Q}` is not", 3),
]  # fmt: skip


def _read(lines: Sequence[str]) -> dict[str, Answer]:
    """Which branches run, what is in their ``.grad`` at the end, and which the last line moves, where it is a step."""
    names, called = space(), set[str]()
    exec("\n".join(lines[:2]), names)
    branches = {name: value for name, value in names.items() if isinstance(value, nn.Linear)}
    for name, branch in branches.items():
        branch.register_forward_hook(lambda *_, name=name: called.add(name))
    exec("\n".join(lines[2:-1]), names)
    before = {name: branch.weight.detach().clone() for name, branch in branches.items()}
    with contextlib.suppress(RuntimeError):  # where every way is cut, there is nothing to go backward through
        exec(lines[-1], names)
    found: dict[str, Answer] = {}
    for name, branch in branches.items():
        grad = branch.weight.grad
        found[f"{name}.weight.grad"] = NONE if grad is None else VALUES if grad.count_nonzero() else ZEROS
        moves = not branch.weight.equal(before[name])
        found |= {f"{name} moves": moves} if "step" in lines[-1] else {f"{name} runs": name in called}
    return found


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
        "start": [Move(_X + "{new1}, {new2}, {new3}, {new4} = (nn.Linear({2..7}, 2) for _ in range(4))")],
        "pair": [Move(_X + _PAIR % "{P}, {Q}"), Move(_X + _PAIR % "{Q}, {P}")],
        "first": [Move("({P}({X}) + {Q}({X})).{sum|mean}().backward()\n{S}.step()")],
        "gate": _GATES, "route": _ROUTES, "optimizer": _OPTIMIZERS, "clear": _CLEAR, "second": _SECOND,
        "end": [Move("({r1} + {r2}).{sum|mean}().backward()")], "step": [Move("{S}.step()")],
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
