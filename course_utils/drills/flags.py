"""Drills on flags: which tensors require grad?"""

from typing import Any

from course_utils.drills.moves import Ask, Move, Topic, execute, tensors

OWN, PLAIN = "{new} = torch.{fill}({SIZE}, requires_grad=True)", "{new} = torch.{fill}({SIZE})"
ASKED = "The flag is asked for when the tensor is made, and nothing lowers it later"
ONE = "An operation is recorded as soon as one operand requires grad, and `{up}` does here"
NONE = "An operation is recorded only if an operand requires grad, and `{down}` does not"
VIEW = "A view answers for its base, also where nothing is recorded: `{up}` requires grad, and so the view says it does"
LATE = "When this line ran, `{down}` did not require grad; raising its flag afterwards changes nothing"
COMPUTED = [
    Move("{new} = {up}{.exp()|.sin()|.tanh()| * 2| / 3| - 4}", "{up} -> {up}.detach()", ONE, weight=2, usual=True),
    Move("{new} = {up} {*|+|-} {down}", "{up} -> {up}.detach()", ONE, weight=2, usual=True),
    Move("{new} = {down}{.cos()| * 3| + 5| - 6}", "{down} -> {down}.detach().requires_grad_()", NONE, 1, 3, usual=True),
]
CUTS = [
    Move("{new} = {up}.detach()", "detach -> clone", "`detach()` gives a tensor outside the graph", weight=3),
    Move("{new} = {up}.data", "data -> clone()", "`.data` gives a tensor outside the graph", 2),
    Move("{new} = torch.tensor({up}.tolist())", "-> {new} = {up}.clone()", "Python numbers carry no history", 2),
    Move("{new} = torch.{ones|zeros}_like({up})", "-> {new} = {up}.clone()", "Only shape and dtype are `{up}`'s", 2),
    Move("{new} = ({up} {<|>} {0|1}).float()", "-> {new} = {up}.clone()", "Truth values cannot require grad", 2),
    Move("{new} = {up}.{argmax|argmin}()", "-> {new} = {up}.sum()", "A position is an integer and has no gradient", 2),
]
BLOCKS = [
    Move("with torch.no_grad():\n    {new1} = {up}.exp()\n    {new2} = {new1} {*|+} {up}",
         "with torch.no_grad(): -> if True:", "Nothing that is computed under `no_grad()` is recorded", 3, 1.5),
    Move("with torch.no_grad():\n    with torch.enable_grad():\n        {new} = {up} {*|+} {2..9}",
         "with torch.enable_grad(): -> if True:", "`enable_grad()` switches recording on, also inside `no_grad()`", 3),
    Move("with torch.no_grad():\n    {new} = {up}[1:]", "[1:] -> [1:].clone()", VIEW, 3, usual=True),
]  # fmt: skip
OTHERS = [
    Move("{down}.requires_grad_()", "-> pass", "`requires_grad_()` raises the flag of the tensor itself", 2),
    Move("{own}.requires_grad_(False)", "-> pass", "`requires_grad_(False)` lowers the flag of a leaf", 2),
    Move("{new} = {down} * 2\n{down}.requires_grad_()", "-> {down}.requires_grad_()\n{new} = {down} * 2", LATE, 2),
    Move("{down}.{copy_|add_}({up})", "-> pass", "Writing `{up}` into `{down}` in place is recorded", 2, 2),
    Move("{new} = nn.Parameter({up}.sin())", "-> {new} = {up}.sin().detach()", "`nn.Parameter(...)` takes the values "
         "alone: it makes a new leaf that requires grad", 2, usual=True),
    Move("layer = nn.Linear({SIZE}, {1..3})\nlayer.requires_grad_(False)\n{new} = layer({down})", "layer.requires_grad_"
         "(False) -> pass", "`requires_grad_(False)` lowers the flag of every parameter of the layer", 3),
]  # fmt: skip


def _is_vector(value: Any, flag: bool) -> bool:
    is_vector = bool(tensors({"": value})) and value.is_floating_point() and value.dim() == 1 and len(value) > 1
    return is_vector and value.requires_grad == flag


KINDS = {
    "up": lambda value, uses: _is_vector(value, True),
    "down": lambda value, uses: _is_vector(value, False) and value._base is None,
    "own": lambda value, uses: _is_vector(value, True) and value.is_leaf and value._base is None,
}
TEXTS = {"SIZE": "345", "fill": ("ones", "zeros", "rand", "randn")}
TOPIC = Topic(
    task="Which tensors require grad when the last line has run?",
    lessons=["requires_grad"],
    asks={"": Ask("does it require grad?", {True: "`{key}` requires grad", False: "`{key}` does not require grad"})},
    moves={
        "own": [Move(OWN, f"-> {PLAIN}", ASKED, usual=True)],
        "plain": [Move(PLAIN, f"-> {OWN}", "A new tensor does not require grad unless you ask for it", usual=True)],
        "any": [*COMPUTED, *CUTS, *BLOCKS, *OTHERS],
    },
    plans={n: [f"own plain{' any' * lines}", f"plain own{' any' * lines}"] for n, lines in ((1, 4), (2, 6), (3, 6))},
    read=lambda lines: {name: value.requires_grad for name, value in tensors(execute(lines)).items()},
    kinds=KINDS,
    texts=TEXTS,
)
