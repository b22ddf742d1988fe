"""Drills on in-place edits: does backward notice, and is its gradient right?

Every edit comes after the loss, so that the right gradient is that of the loss as it was computed.
"""

from collections.abc import Sequence

import torch

from course_utils.drills.moves import Answer, Ask, Move, Topic, execute, tensors

ERROR, WRONG, RIGHT = "error", "wrong gradient", "right gradient"
# {V} is edited; it is made of {A}, and {Y} is made of it; {W} is another name that has to do with it.
_A, _B = (f"{{{name}}} = torch.{{ones|rand}}({{SIZE}}, requires_grad=True)\n" for name in "AB")
_RESULT = _A + "{B} = {A} {*|+} {2..4}\n{V} = {B}.%s()\nloss = {V}.{sum|mean}()"
_INPUT = _A + "{V} = {A} {*|+} {2..4}\n{Y} = %s\nloss = {Y}.{sum|mean}()"
_HEADS = [
    Move(_RESULT % "{keeps}", weight=2.5),
    Move(_INPUT % "{V}.{saves}()", weight=2.5),
    Move(_B + _INPUT % "{V} * {B}", weight=2),
    Move(_INPUT % "{V} {+|-} {2..9}", "{V} {+|-} {2..9} -> {V} ** 2", "`{+|-}` needs no values in backward"),
    Move(_INPUT % "{V}.{keeps}()", "{keeps} -> square", "`{keeps}` needs its result `{Y}`, and not its input `{V}`"),
    Move(_RESULT % "{saves}", "{saves} -> exp", "`{saves}` needs its input `{B}`, and not its result `{V}`"),
]
_PLAIN = "An edit in place changes the values and moves the version counter, under `no_grad()` too"
_SHARES = "`{V}` and what is edited share memory and version counter, so an edit of one is an edit of the other"
_APART = "`.data` shares the memory of `{V}` and has a version counter of its own"
_OWN = "`clone()` makes a tensor with memory of its own: the edit changes nothing of `{V}`"
_DROPPED = "Without the underscore a new tensor is made and dropped; `{V}` stays as it was"
_ARRAY = "The array shares the memory of `{V}`, and NumPy knows of no version counter"
_BACK = "`copy_` puts back the values, but no version counter goes back, and backward looks at that alone"
_DATA, _CLONE = ("data -> clone()", "data -> detach()"), "{.detach()|}.clone() -> .detach()"
_EDITS = [
    Move("{V}.{method}", "-> pass", _PLAIN, weight=2.5),
    Move("with torch.no_grad():\n    {V}.{method}", "{V}.{method} -> pass", _PLAIN, weight=2),
    Move("{V}.detach().{method}", "detach() -> detach().clone()", _SHARES, weight=2),
    Move("{V}.data.{method}", _DATA, _APART, weight=4),
    Move("{V}{.detach()|}.clone().{method}", _CLONE, _OWN, weight=4),
    Move("{V}.{mul|add}(2)", "{V}.{mul|add} -> {V}.detach().{mul|add}_", _DROPPED, weight=3.5),
]
_THROUGH = [
    Move("{W} = {V}.detach()\n{W}.{method}", "detach -> clone", _SHARES, 2, 3),
    Move("{W} = {V}{[1:]|[:2]|[0]}\n{W}.{method}", "{[1:]|[:2]|[0]} -> {[1:]|[:2]|[0]}.clone()", _SHARES, 2, 3),
    Move("{W} = {V}.clone()\n{V}.{method}", "{V}.{method} -> {W}.{method}", _PLAIN, 2, 2),
    Move("{W} = {V}.data\n{W}.{method}", _DATA, _APART, 2, 6),
    Move("{W} = {V}\n{W} = {W} {*|-} {2..5}", "= {W} {*|-} -> {*|-}=", "This line gives `{W}` to a new tensor", 2, 5),
]
_SAVED = "{W} = {V}.detach().clone()\nwith torch.no_grad():\n    {V}.{method}\n    {V}.copy_({W})"
_UNCOUNTED = [
    Move("{W} = {V}.detach().numpy()\n{W} {*|+}= 3", (".numpy() -> .clone().numpy()", ".numpy() -> "), _ARRAY, 3, 3),
    Move(_SAVED, ("{V}.copy_({W}) -> pass", "{V}.{method}\n    {V}.copy_({W}) -> pass"), _BACK, 3, 2.5),
]


def _read(lines: Sequence[str]) -> dict[str, Answer]:
    """Looks at all tensors when the loss is computed and before backward."""
    loss = next(at for at, line in enumerate(lines, 1) if line.startswith("loss = "))
    names = execute(lines[:loss])
    leaves = [value for value in tensors(names).values() if value.is_leaf]
    right = torch.autograd.grad(names["loss"], leaves, retain_graph=True)
    before = {name: (value, value.detach().clone(), value._version) for name, value in tensors(names).items()}
    exec("\n".join(lines[loss:-1]), names)
    found: dict[str, Answer] = {}
    for name, (value, values, version) in before.items():
        found |= {f"{name} changed": not value.detach().equal(values), f"{name} counted": value._version > version}
    execute(lines[-1:], names)
    grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
    is_right = all(grad.equal(gradient) for grad, gradient in zip(grads, right, strict=False))
    return found | {"backward": ERROR if len(grads) < len(leaves) else RIGHT if is_right else WRONG}


TOPIC = Topic(
    task="What does the last line do, and what has the edit before it changed?",
    lessons=["detach"],
    asks={
        " changed": Ask("does it hold other values than when the loss was computed?",
                        {True: "`{name}` has other values than before", False: "`{name}` keeps its values"}),
        " counted": Ask("has its `_version` grown since the loss was computed?",
                        {True: "the counter of `{name}` moves", False: "the counter of `{name}` stays as it was"}),
        "backward": Ask("what does it do? (right: the gradient of the loss as it was computed)", {
            ERROR: "backward finds that the version counter of a tensor that it needs has moved",
            WRONG: "backward takes new values for the old ones", RIGHT: "backward gives the right gradient"}),
    },
    moves={"head": _HEADS, "edit": _EDITS, "through": _THROUGH, "uncounted": _UNCOUNTED,
           "end": [Move("loss.backward()")]},
    plans={1: ["head edit end"], 2: ["head through end"], 3: ["head uncounted end"]},
    read=_read,
    texts={"SIZE": "345", "keeps": ("exp", "sqrt", "tanh", "sigmoid"), "saves": ("sin", "cos", "square"),
           "method": ("mul_(2)", "mul_(3)", "add_(1)", "add_(2)", "zero_()")},
)  # fmt: skip
