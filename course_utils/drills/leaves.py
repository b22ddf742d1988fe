"""Drills on leaves: which tensors are leaves, and whose ``.grad`` does backward fill? (``write``)"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from course_utils.drills.page import Asked, Page, Refused, Rules, has_marks
from course_utils.drills.programs import Draw, Program
from course_utils.drills.rules import CAUSE, Rule, name_of, rules
from course_utils.drills.run import execute
from course_utils.drills.tensors import RULES, Tensors
from course_utils.drills.texts import TOKEN, grammar

TASK = "Which tensors are leaves when the last line has run?"
LESSONS = ("leaf_tensors",)
MARKS = {2: r"backward\(\)", 3: r"(?m)^    "}  # level 2 has a backward pass, level 3 a block besides
_GRAMMAR = grammar(r"""
inside x2: <<compute up>>
inside x1: <<view up>>
block:
    with torch.no_grad():
        <<inside>>
block:
    with torch.no_grad():
        <<inside>>
        with torch.enable_grad():
            <<compute up>>
block:
    with torch.no_grad():
        with torch.enable_grad():
            <<compute up>>
        <<inside>>
start x2: <<flagged>>
start x3: <<computed at once>>
start x0.5: <<parameter>>
""")
# Lines that end in a leaf, and in a tensor that is none, by level.
_LEAF = {
    1: {"cut": 4.0, "compute down": 3.0, "parameter of": 1.5, "same": 1.5, "flagged": 1.0, "parameter": 0.5},
    2: {"cut": 5, "compute down": 3, "view down": 1.5, "parameter of": 1.5, "same": 1.5, "flagged": 0.5},
    3: {"cut": 4, "compute down": 2, "view down": 0.5, "parameter of": 1, "same": 1, "block": 4},
}
_RESULT = {
    1: {"compute up": 4.0, "computed at once": 2.5, "double": 1.5, "compute again": 1.0},
    2: {"compute up": 4, "computed at once": 1, "double": 1, "compute again": 1.5, "view up": 1.5, "write": 2},
    3: {"compute up": 4, "computed at once": 1, "double": 0.5, "compute again": 1.5, "view up": 1, "write": 2},
}
_LINES, _MOST = {1: (5, 6), 2: (6, 7), 3: (7, 8)}, {1: 6, 2: 3, 3: 3}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Tensors(draw, _GRAMMAR)
    for kind in draw.sample(("start", "plain"), 2):
        page.add(f"<<{kind}>>")
    page.grow(lambda: (_LEAF if draw.chance(0.5) else _RESULT)[level], draw.choice(_LINES[level]))
    names = list(page.tensors())
    if level > 1:
        _backward(page, level)
    if not has_marks("\n".join(page.lines), MARKS, level):
        raise Refused("a program of another level")
    # That what you create is a leaf is asked now and then, and no more.
    worth = [name for name in names if f"{name} = torch" not in "\n".join(page.lines) or draw.chance(0.7)]
    leaf = {True: "has no `grad_fn` and is a leaf", False: "has a `grad_fn` and is no leaf"}
    asked = [Asked(name, "is it a leaf?", leaf) for name in worth]
    there = {True: "is a tensor", False: "is None"}
    own = {id(page.space[name]): name for name in reversed(names)}  # of two names for one tensor the first
    for name in reversed(own.values()) if level > 1 else ():
        asked.append(Asked(f"{name}.grad", "is it a tensor, and not None?", there))
    program = page.finish(asked, _RULES, _read, least=4, most=_MOST[level])
    if level > 1 and len({question.answer for question in program.questions if ".grad" in question.key}) < 2:
        raise Refused("one answer to all gradients")
    return program


def _backward(page: Tensors, level: int) -> None:
    """Adds a loss and its backward."""
    draw, flagged = page.draw, [name for name, value in page.tensors().items() if value.requires_grad]
    results = [name for name in flagged if not page.space[name].is_leaf]
    if not results:
        raise Refused("there is nothing to go backward through")
    cut = {
        line.strip().partition(" = ")[0]
        for line in page.lines
        if re.search(r"detach|data$|_like|tolist|\.arg| [<>] ", line)
    }
    behind = [name for name in results if cut & _sources(page, name)]
    ends = [results[-1]] if draw.chance(0.5) else draw.sample(flagged, min(2, len(flagged)))
    if behind and draw.chance(0.7):
        ends = [draw.choice(behind)]
    if draw.chance(0.6):
        page.add(f"{draw.choice(results[-3:])}.retain_grad()")
    page.add("loss = " + " + ".join(f"{name}<<.sum()|.mean()>>" if page.space[name].shape else name for name in ends))
    if level == 3 and draw.chance(0.4):
        page.add("<<lower>>")
    page.add("loss.backward()")


def _sources(page: Page, name: str) -> set[str]:
    """The names of all that a tensor is computed from."""
    found = {name}
    for line in reversed(page.lines):
        made, _, text = line.strip().partition(" = ")
        if made in found:
            found.update(TOKEN.findall(text))
    return found - {name}


def _kind(flag: bool, leaf: bool) -> Callable[[Page, int, str], bool]:
    """Whether a line is the last one that makes a tensor, and the tensor such a leaf or none."""

    def fits(page: Page, line: int, key: str) -> bool:
        name = name_of(key)
        is_last = not any(text.lstrip().startswith(f"{name} = ") for text in page.lines[line:])
        return is_last and (page.space[name].requires_grad, page.space[name].is_leaf) == (flag, leaf)

    return fits


def _same(page: Page, line: int, key: str) -> bool:
    """Whether a line gives a second name to a tensor."""
    return page.space[key] is page.space[TOKEN.findall(page.lines[line - 1])[1]]


def _through_a_cut(rule: Rule) -> Rule:
    """The same line, as what keeps a gradient away."""
    words = "This line cuts every way from the loss back to `{name}`"
    return replace(rule, words=words, about="grad$", answers=(False,), worth=6.0)


_CUTS = [rule for rule in RULES if isinstance(rule, Rule) and rule.rank == CAUSE and "lowers" not in rule.words]
_RULES: Rules = (
    *map(_through_a_cut, _CUTS),
    *rules(
        r"""
\w+\.retain_grad\(\)
    `retain_grad()` asks backward to keep the gradient of a tensor that is no leaf

[maker own] (\w+ = torch\.[^N]*, requires_grad=True\))(?: [*/+]|\.).* -> \1
    The name stands for the result of the whole line, whose last operation is recorded; the tensor that asked for the
    flag is the one before it
[maker own] (\w+ = (?:torch|nn\.Parameter\(torch)\.[^N]*(?:, requires_grad=True\)|requires_grad_\(\)|\)\)))$ -> \1 * 1
    A tensor that you create yourself has no history, whatever its flag
[maker own] (\w+ = torch\.(?!.*requires_grad)[^N]*)\)$ -> \1, requires_grad=True) * 1
    A tensor that you create yourself has no history, whatever its flag
[maker own] (\w+) = nn\.Parameter\((N\w+)(.*)\)$ -> \1 = nn.Parameter(\2\3) * 1
    `nn.Parameter(...)` takes the values alone: it makes a new leaf that requires grad
[maker own when:same] (\w+) = (N\w+)(\.cpu\(\)|\.float\(\)|\.to\(.*\))$ -> \1 = \2 * 1
    `{2}` has nothing to convert, so it returns the very object that `{1}` stands for

[maker key:grad$ when:flagged answer:True worth:2] KEY = (?:nn\.P.*|torch\.[^N]*(?:, requires_grad=True\)|_\(\)))$
    -> \g<0>.detach()
    `{name}` is a leaf that requires grad since this line, and the loss is computed from it
[maker key:grad$ when:plain worth:2] KEY = torch\.[^N]*\)$ -> \g<0>.requires_grad_()
    The loss is computed from `{name}`, which does not require grad: backward has nothing to do there
[maker key:grad$ when:result answer:False] (KEY) = .* -> \g<0>\n\1 = \1.detach().requires_grad_()
    with: With `{0} = {0}.detach().requires_grad_()` after it
    Backward passes through `{name}` and fills `.grad` of leaves alone; `{name}` is an operation's result
[maker key:grad$ worth:1.5] (loss = .*) -> \1 + KEY.sum()
    The loss is not computed from `{name}`, so no gradient comes there
""",
        same=_same,
        flagged=_kind(True, True),
        plain=_kind(False, True),
        result=_kind(True, False),
    ),
    *RULES,
)


def _read(lines: Sequence[str]) -> dict[str, bool]:
    tensors = {name: value for name, value in execute(lines).items() if isinstance(value, torch.Tensor)}
    leaves = {name: value.is_leaf for name, value in tensors.items()}
    return leaves | {f"{name}.grad": value.grad is not None for name, value in tensors.items()}
