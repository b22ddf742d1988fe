"""Drills on branches that are gated: which of them runs, what is in its ``.grad``, and does it move?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from course_utils.drills.engine import Answer, Ask, Draw, Effect, Move, Topic
from course_utils.drills.run import space

NONE, ZEROS, VALUES = "none", "zeros", "values"
_ZERO = "The result of `{p}` is part of the graph, and its gradient is multiplied by zero on the way back"
_USED = "The loss is computed from the result of `{name}`"
_CALLED = "This line calls `{name}`; what is done with its result comes after that"
_SKIP = "This line does not call `{p}`, so nothing is computed and no gradient comes there"
_DROP = "`{p}` is run and its result is dropped: the loss is not computed from it, so backward never comes there"
_MASK = (
    "`{p}` runs on all rows and none of its results is used. The selection is part of the graph and hands back zeros"
)
_ROWS = "`{p}` runs on a batch of no rows. It is part of the graph, and a sum over no rows is zero"
_CUT = "`{p}` runs and is recorded, and `detach()` cuts it off: backward never comes there"
_OFF = "`{p}` runs in the block, where nothing is recorded, so backward never comes there"
GRAD = r"{p}\.weight\.grad"
_NOTHING = "{new} = torch.zeros({rows}, 2)"


def _one(text: str, without: str, words: str, level: int = 1, weight: float = 1.0, runs: str = _NOTHING) -> Move:
    """One branch {p}, which runs; ``runs``: the same where it does not."""
    return Move(text, without, words, GRAD, level=level, weight=weight, more=[Effect(runs, _CALLED, "{p} runs", True)])


def _both(text: str, other: str, words: str, level: int = 1, weight: float = 1.0) -> Move:
    """Branches {p} and {q} that both run, and {q} alone has an effect; in ``other`` it is the other way round."""
    more = [Effect(text.replace(f"{{{one}}}({{x}})", _NOTHING[8:]), _CALLED, f"{{{one}}} runs", True) for one in "pq"]
    used = Effect(other, _USED, r"{q}\.weight\.grad", True)
    return Move(text, other, words, GRAD, level=level, weight=weight, more=[used, *more])


def _either(text: str, other: str, words: str = _SKIP, called: str = _CALLED, weight: float = 1.0) -> Move:
    """Branches of which {q} runs and {p} does not; in ``other`` it is the other way round."""
    more = [Effect(other, _USED, r"{q}\.weight\.grad", True), Effect(other, called, "{q} runs", True)]
    return Move(text, other, words, r"{p}\.weight\.grad|{p} runs", weight=weight, more=more)


_IF = "{new} = {p}({x}) if {1..3} > {4..6} else {q}({x})"
_IF_NOT = "{new} = {q}({x}) if {1..3} < {4..6} else {p}({x})"
_WHERE = "{new} = torch.where(torch.tensor(False), {p}({x}), {q}({x}))"
_GATE, _TURNED = "[0.0, {1.0|0.5|2.0}]", "[{1.0|0.5|2.0}, 0.0]"
_SUM = f"{{new1}} = torch.tensor({_GATE})\n" + "{new} = {new1}[0] * {p}({x}) + {new1}[1] * {q}({x})"
_ASKED = f"{{new1}} = torch.tensor({_GATE})\n" + "{new} = torch.zeros({rows}, 2)\n"
_ASKED += "if {new1}[0]: {new} = {new} + {p}({x})\nif {new1}[1]: {new} = {new} + {q}({x})"
_GATES = [
    _one("{new} = {0.0|0} * {p}({x})", "{new} = 1.0 * {p}({x})", _ZERO, weight=2),
    _one("{new} = {p}({x}) * {0.0|0}", "{new} = {p}({x}) * 1.0", _ZERO),
    _one("{new} = {2..5} * {p}({x})", "{new} = {2..5} * {p}({x}).detach()", "The loss is computed from the result of `{p}`"),
    _both("{new} = [{p}({x}), {q}({x})][1]", "{new} = [{p}({x}), {q}({x})][0]", _DROP),
    _both("{new} = [{q}({x}), {p}({x})][0]", "{new} = [{q}({x}), {p}({x})][1]", _DROP),
    _either("{new} = [{p}, {q}][1]({x})", "{new} = [{p}, {q}][0]({x})"),
    _either("{new} = [{q}, {p}][0]({x})", "{new} = [{q}, {p}][1]({x})"),
    _either(_IF, _IF.replace(">", "<")),
    _either(_IF_NOT, _IF_NOT.replace("<", ">")),
    _both(_WHERE, _WHERE.replace("False", "True"), _MASK, weight=2),
    _both(_SUM, _SUM.replace(_GATE, _TURNED), _ZERO, weight=2),
    _either(_ASKED, _ASKED.replace(_GATE, _TURNED), "The gate of `{p}` is zero, so the line that would call `{p}` does not: "
            "nothing is computed and no gradient comes there", "The gate of `{q}` is not zero, so `{q}` is called", 3),
]  # fmt: skip
_NO_ROWS = "{new1} = torch.tensor([False] * {rows})\n{new} = torch.zeros({rows}, 2)\n{new}[{new1}] = {p}({x}[{new1}])"
_ROUTED = _NO_ROWS.replace("{new}[{new1}] = ", "if {new1}.any(): {new}[{new1}] = ")
_SOME = "{new1} = torch.tensor([True, False] + [{True|False}] * {more})\n"
_SOME += "{new} = torch.where({new1}[:, None], {p}({x}), {q}({x}))"
_CAT = "{new1} = torch.tensor([False] * {rows})\n{new} = torch.cat([{p}({x})[{new1}], {q}({x})[~{new1}]])"
_ROUTES = [
    _one("with torch.no_grad():\n    {new} = {p}({x})", "if True:\n    {new} = {p}({x})", _OFF, 2,
         runs="with torch.no_grad():\n    " + _NOTHING),
    _one("{new} = {2..5} * {p}({x}).detach()", "{new} = {2..5} * {p}({x})", _CUT, 2),
    _one(_NO_ROWS, _NO_ROWS.replace("False", "True"), _ROWS, 2, 2, _NO_ROWS.split("\n{new}[")[0] + "\npass"),
    Move(_ROUTED, _ROUTED.replace("False", "True"), _SKIP, r"{p}\.weight\.grad|{p} runs", level=2, weight=2),
    _both(_CAT, _CAT.replace("False", "True"), _MASK, 2),
    Move(_SOME, level=2, weight=2, more=[
        Effect(_SOME.replace("{p}({x})", "{p}({x}).detach()"), "At least one row of the result of `{p}` is used, and "
               "gradients come back through it", GRAD, True),
        Effect(_SOME.replace("{q}({x})", "{q}({x}).detach()"), "At least one row of the result of `{q}` is used, and "
               "gradients come back through it", r"{q}\.weight\.grad", True)]),
]  # fmt: skip

_ALIKE = "a gradient of zeros is a gradient like any other"
_OPTIMIZERS = [
    Move("{s} = torch.optim.SGD(both, lr=0.{1..9})", "{s} = torch.optim.SGD(both, lr=0.{1..9}, momentum=0.9)",
         "Plain SGD subtracts the gradient times the learning rate, and that is zero", ".* moves", weight=2),
    Move("{s} = torch.optim.SGD(both, lr=0.{1..9}, momentum=0.9)", "{s} = torch.optim.SGD(both, lr=0.{1..9})",
         f"For SGD with momentum {_ALIKE}: the momentum of the first step goes on", ".* moves"),
    Move("{s} = torch.optim.SGD(both, lr=0.{1..9}, weight_decay=0.1)", "{s} = torch.optim.SGD(both, lr=0.{1..9})",
         f"For SGD with weight decay {_ALIKE}: the decay is added to it", ".* moves"),
    Move("{s} = torch.optim.Adam(both, lr=0.{1..9})", "{s} = torch.optim.SGD(both, lr=0.{1..9})",
         f"For Adam {_ALIKE}: the averages of the first step go on", ".* moves"),
]  # fmt: skip
_FIRST = "({p}({x}) + {q}({x})).{sum|mean}().backward()\n{s}.step()"
_CLEAR = [
    Move("{s}.zero_grad()", "{s}.zero_grad(set_to_none=False)", "`zero_grad()` drops the old gradient, and the next "
         "backward makes none for `{name}`", r".*\.grad", weight=3, more=[
             Effect("{s}.zero_grad(set_to_none=False)", "`zero_grad()` drops the gradient, and an optimizer passes over a "
                    "parameter whose `.grad` is None, with all that it remembers", ".* moves")]),
    Move("{s}.zero_grad(set_to_none=False)", "{s}.zero_grad()", "`set_to_none=False` fills the old gradient with zeros, "
         "and the next backward adds none for `{name}`", r".*\.grad", weight=2),
]  # fmt: skip
_SECOND = [
    Move("{q}({x}).{sum|mean}().backward()", "(0.0 * {q}({x})).{sum|mean}().backward()",
         "The loss is computed from the result of `{q}`", r"{q} moves|{q}\.weight\.grad", True, level=3, weight=2.5),
    Move("({0.0|0} * {p}({x}) + {q}({x})).{sum|mean}().backward()", "(1.0 * {p}({x}) + {q}({x})).{sum|mean}().backward()",
         _ZERO, GRAD, level=3, more=[Effect("({0.0|0} * {p}({x}) + 0.0 * {q}({x})).{sum|mean}().backward()",
                                            "The loss is computed from the result of `{q}`", r"{q} moves|{q}\.weight\.grad", True)]),
]  # fmt: skip


def _shape(draw: Draw, level: int) -> dict[str, object]:
    rows = 3 + draw.below(4)
    both = {"p": "N81_", "q": "N82_"} if draw.below(2) else {"p": "N82_", "q": "N81_"}
    return {"rows": rows, "more": rows - 2, "width": 2 + draw.below(6), "x": "N80_"} | (
        {**both, "s": "N83_"} if level == 3 else {}
    )


def _read(lines: Sequence[str]) -> dict[str, Answer]:
    """Which branches run, what is in their ``.grad`` at the end, and which the last line moves, where it is a step."""
    names, called = space(), set[str]()
    exec("\n".join(lines[:2]), names)
    branches = {name: value for name, value in names.items() if isinstance(value, nn.Linear)}
    for name, branch in branches.items():
        branch.register_forward_hook(lambda *_, name=name: called.add(name))
    exec("\n".join(lines[2:-1]), names)
    before = {name: branch.weight.detach().clone() for name, branch in branches.items()}
    try:
        exec(lines[-1], names)
    except RuntimeError:  # where every way is cut, there is nothing to go backward through
        if "backward()" not in lines[-1]:
            raise
    found: dict[str, Answer] = {}
    for name, branch in branches.items():
        grad = branch.weight.grad
        found[f"{name}.weight.grad"] = NONE if grad is None else VALUES if grad.count_nonzero() else ZEROS
        if "step" in lines[-1]:
            found[f"{name} moves"] = not branch.weight.equal(before[name])
        else:
            found[f"{name} runs"] = name in called
    return found


TOPIC = Topic(
    task="Which branches run, and what does that leave in their gradients?",
    lessons=("gated_branches",),
    asks={
        " runs": Ask("is it called anywhere?", {True: "runs", False: "does not run"}, subject="`{name}`"),
        " moves": Ask("does the last line change its weight?", {True: "moves", False: "does not move"},
                      subject="the weight of `{name}`"),
        ".grad": Ask("what is in it?", {NONE: "is None", ZEROS: "holds zeros alone", VALUES: "holds numbers that are not zero"}),
    },
    moves={
        "start": [Move("{x} = torch.ones({rows}, {width})\n{new1}, {new2}, {new3}, {new4} = "
                       "(nn.Linear({width}, 2) for _ in range(4))")],
        "pair": [Move("{x} = torch.ones({rows}, {width})\nN81_, N82_ = nn.Linear({width}, 2), nn.Linear({width}, 2)")],
        "gate": _GATES, "route": _ROUTES, "optimizer": _OPTIMIZERS, "clear": _CLEAR, "second": _SECOND,
        "both": [Move("both = [*{p}.parameters(), *{q}.parameters()]")],
        "first": [Move(_FIRST)],
        "end": [Move("({r1} + {r2}).{sum|mean}().backward()")],
        "step": [Move("{s}.step()")],
    },
    plans={1: ["start gate gate end"], 2: ["start gate route end", "start route route end", "start route gate end"],
           3: ["pair both optimizer first clear second step"]},
    read=_read,
    kinds={
        "p": lambda value, uses: isinstance(value, nn.Linear) and uses == 1,
        "q": lambda value, uses: isinstance(value, nn.Linear) and uses == 1,
        "r": lambda value, uses: isinstance(value, torch.Tensor) and value.shape[1:] == (2,) and uses > 0,
    },
    values=_shape,
)  # fmt: skip
