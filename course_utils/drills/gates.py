"""Drills on branches that are gated: which of them runs, what is in its ``.grad``, and does it move?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from course_utils.drills.moves import USUAL, Answer, Ask, Draw, Move, Topic
from course_utils.drills.run import space

NONE, ZEROS, VALUES = "none", "zeros", "values"
_P, _Q, _NOT_CALLED = r"{p}\.weight\.grad", r"{q}\.weight\.grad", "torch.zeros({rows}, 2)"
_ZERO = "The result of `{p}` is part of the graph, and its gradient is multiplied by zero on the way back"
_USED = "The loss is computed from the result of `{name}`"
_SKIP = "This line does not call `{p}`, so nothing is computed and no gradient comes there"
_DROP = "`{p}` is run and its result is dropped: the loss is not computed from it, so backward never comes there"
_MASK = (
    "`{p}` runs on all rows and none of its results is used. The selection is part of the graph and hands back zeros"
)
_SOME = "At least one row of the result of `{name}` is used, and gradients come back through it"


def _runs(one: str) -> tuple[str, str, str, str, bool]:
    words = "This line calls `{name}`; what is done with its result comes after that"
    return f"{{{one}}}({{x}})", _NOT_CALLED, words, f"{{{one}}} runs", USUAL


def _both(text: str, old: str, new: str, words: str, level: int = 1, weight: float = 1.0) -> Move:
    """Branches {p} and {q} that both run, and {q} alone has an effect; with ``new`` it is the other way round."""
    return Move(
        text, (old, new, words, _P), (old, new, _USED, _Q, USUAL), _runs("p"), _runs("q"), level=level, weight=weight
    )


def _either(text: str, old: str, new: str, words: str = _SKIP, calls: str = "", weight: float = 1.0) -> Move:
    """Branches of which {q} runs and {p} does not; with ``new`` it is the other way round."""
    calls = calls or "This line calls `{q}`; what is done with its result comes after that"
    return Move(text, (old, new, words, f"{_P}|{{p}} runs"), (old, new, _USED, _Q, USUAL), (old, new, calls,
        "{q} runs", USUAL),
                weight=weight)  # fmt: skip


_GATE, _TURNED = "[0.0, {1.0|0.5|2.0}]", "[{1.0|0.5|2.0}, 0.0]"
_GATES = [
    Move("{new} = {0.0|0} * {p}({x})", ("{0.0|0}", "1.0", _ZERO, _P), _runs("p"), weight=2),
    Move("{new} = {p}({x}) * {0.0|0}", ("{0.0|0}", "1.0", _ZERO, _P), _runs("p")),
    Move("{new} = {2..5} * {p}({x})", ("({x})", "({x}).detach()", _USED, _P), _runs("p")),
    _both("{new} = [{p}({x}), {q}({x})][1]", "[1]", "[0]", _DROP),
    _both("{new} = [{q}({x}), {p}({x})][0]", "[0]", "[1]", _DROP),
    _either("{new} = [{p}, {q}][1]({x})", "[1]", "[0]"),
    _either("{new} = [{q}, {p}][0]({x})", "[0]", "[1]"),
    _either("{new} = {p}({x}) if {1..3} > {4..6} else {q}({x})", ">", "<"),
    _either("{new} = {q}({x}) if {1..3} < {4..6} else {p}({x})", "<", ">"),
    _both("{new} = torch.where(torch.tensor(False), {p}({x}), {q}({x}))", "False", "True", _MASK, weight=2),
    _both(f"{{new1}} = torch.tensor({_GATE})\n" + "{new} = {new1}[0] * {p}({x}) + {new1}[1] * {q}({x})", _GATE,
         _TURNED, _ZERO, weight=2),
    _either(f"{{new1}} = torch.tensor({_GATE})\n" + "{new} = torch.zeros({rows}, 2)\nif {new1}[0]: {new} = {new} + "
         "{p}({x})\nif {new1}[1]: {new} = {new} + {q}({x})", _GATE, _TURNED, "The gate of `{p}` is zero, so the line "
         "that would call `{p}` does not: nothing is computed and no gradient comes there", "The gate of `{q}` is not "
         "zero, so `{q}` is called", 3),
]  # fmt: skip
_MASKED = "{new1} = torch.tensor([False] * {rows})\n{new} = torch.zeros({rows}, 2)\n{new}[{new1}] = {p}({x}[{new1}])"
_ROUTES = [
    Move("with torch.no_grad():\n    {new} = {p}({x})", ("with torch.no_grad():", "if True:", "`{p}` runs in the "
         "block, where nothing is recorded, so backward never comes there", _P), _runs("p"), level=2),
    Move("{new} = {2..5} * {p}({x}).detach()", (".detach()", "", "`{p}` runs and is recorded, and `detach()` cuts it "
         "off: backward never comes there", _P), _runs("p"), level=2),
    Move(_MASKED, ("False", "True", "`{p}` runs on a batch of no rows. It is part of the graph, and a sum over no "
         "rows is zero", _P), ("{new}[{new1}] = {p}({x}[{new1}])", "pass", "This line calls `{p}`, on no rows",
         "{p} runs", USUAL), level=2, weight=2),
    Move(_MASKED.replace("\n{new}[", "\nif {new1}.any(): {new}["), ("False", "True", "No row is chosen, so `{p}` is "
         "not called: nothing is computed and no gradient comes there", f"{_P}|{{p}} runs"), level=2, weight=3),
    _both("{new1} = torch.tensor([False] * {rows})\n{new} = torch.cat([{p}({x})[{new1}], {q}({x})[~{new1}]])",
         "False", "True", _MASK, 2),
    Move("{new1} = torch.tensor([True, False] + [{True|False}] * {more})\n{new} = torch.where({new1}[:, None], "
         "{p}({x}), {q}({x}))", ("{p}({x})", "{p}({x}).detach()", _SOME, _P, USUAL), ("{q}({x})", "{q}({x}).detach()",
         _SOME, _Q, USUAL), level=2, weight=2),
]  # fmt: skip
_ALIKE = "a gradient of zeros is a gradient like any other"
_OPTIMIZERS = [
    Move("{s} = torch.optim.SGD(both, lr=0.{1..9})", ("{1..9}", "{1..9}, momentum=0.9", "Plain SGD subtracts the "
         "gradient times the learning rate, and that is zero", ".* moves"), weight=2),
    Move("{s} = torch.optim.SGD(both, lr=0.{1..9}, momentum=0.9)", (", momentum=0.9", "", f"For SGD with momentum "
         f"{_ALIKE}: the momentum " "of the first step goes on", ".* moves")),
    Move("{s} = torch.optim.SGD(both, lr=0.{1..9}, weight_decay=0.1)", (", weight_decay=0.1", "", f"For SGD with "
         f"weight decay {_ALIKE}: " "the decay is added to it", ".* moves")),
    Move("{s} = torch.optim.Adam(both, lr=0.{1..9})", ("Adam", "SGD", f"For Adam {_ALIKE}: the averages of the first "
         f"step go on", ".* moves")),
]  # fmt: skip
_CLEAR = [
    Move("{s}.zero_grad()", ("()", "(set_to_none=False)", "`zero_grad()` drops the old gradient, and the next "
         "backward makes none for `{name}`", r".*\.grad"), ("()", "(set_to_none=False)", "`zero_grad()` drops the "
         "gradient, and an optimizer passes over a parameter whose `.grad` is None, with all that it remembers",
         ".* moves"), weight=3),
    Move("{s}.zero_grad(set_to_none=False)", ("set_to_none=False", "", "`set_to_none=False` fills the old gradient "
         "with zeros, and the next backward adds none for `{name}`", r".*\.grad"), weight=2),
]  # fmt: skip
_LAST = ("{q}({x})", "(0.0 * {q}({x}))", _USED, rf"{{q}} moves|{_Q}", USUAL)
_SECOND = [
    Move("{q}({x}).{sum|mean}().backward()", _LAST, level=3, weight=2.5),
    Move("({0.0|0} * {p}({x}) + {q}({x})).{sum|mean}().backward()", ("{0.0|0}", "1.0", _ZERO, _P), _LAST, level=3),
]


def _shape(draw: Draw, level: int) -> dict[str, object]:
    rows, last = 3 + draw.below(4), draw.below(2)
    pair = {"p": f"N8{1 + last}_", "q": f"N8{2 - last}_", "s": "N83_"} if level == 3 else {}
    return {"rows": rows, "more": rows - 2, "width": 2 + draw.below(6), "x": "N80_", **pair}


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
        moves = not branch.weight.equal(before[name])
        found |= {f"{name} moves": moves} if "step" in lines[-1] else {f"{name} runs": name in called}
    return found


_SAYS = {NONE: "is None", ZEROS: "holds zeros alone", VALUES: "holds numbers that are not zero"}
_INPUT, _LINEAR = "{x} = torch.ones({rows}, {width})\n", "nn.Linear({width}, 2)"
TOPIC = Topic(
    task="Which branches run, and what does that leave in their gradients?",
    lessons=("gated_branches",),
    asks={
        " runs": Ask("is it called anywhere?", {True: "runs", False: "does not run"}, subject="`{name}`"),
        " moves": Ask("does the last line change its weight?", {True: "moves", False: "does not move"},
                      subject="the weight of `{name}`"),
        ".grad": Ask("what is in it?", _SAYS),
    },
    moves={
        "start": [Move(_INPUT + f"{{new1}}, {{new2}}, {{new3}}, {{new4}} = ({_LINEAR} for _ in range(4))")],
        "pair": [Move(f"{_INPUT}N81_, N82_ = {_LINEAR}, {_LINEAR}\nboth = [*N81_.parameters(), *N82_.parameters()]")],
        "first": [Move("({p}({x}) + {q}({x})).{sum|mean}().backward()\n{s}.step()")],
        "gate": _GATES, "route": _ROUTES, "optimizer": _OPTIMIZERS, "clear": _CLEAR, "second": _SECOND,
        "end": [Move("({r1} + {r2}).{sum|mean}().backward()")],
        "step": [Move("{s}.step()")],
    },
    plans={1: ["start gate gate end"], 2: ["start gate route end", "start route route end", "start route gate end"],
           3: ["pair optimizer first clear second step"]},
    read=_read,
    kinds={
        **dict.fromkeys("pq", lambda value, uses: isinstance(value, nn.Linear) and uses == 1),
        "r": lambda value, uses: isinstance(value, torch.Tensor) and value.shape[1:] == (2,),
    },
    values=_shape,
)  # fmt: skip
