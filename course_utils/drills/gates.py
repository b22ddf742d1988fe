"""Drills on branches that are gated: which of them runs, what is in its ``.grad``, and does it move? (``write``)"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import nn

from course_utils.drills.page import Asked, Page
from course_utils.drills.programs import Answer, Draw, Program
from course_utils.drills.rules import rules
from course_utils.drills.run import execute, space, statements
from course_utils.drills.texts import grammar

TASK = "Which branches run, and what does that leave in their gradients?"
LESSONS = ("gated_branches",)
MARKS = {2: r"no_grad|detach|\[True|\[False", 3: r"optim"}
NONE, ZEROS, VALUES = GRADS = ("none", "zeros", "values")
# Two branches $b and $c run on the input $x.
_GRAMMAR = grammar(r"""
start:
    $x = torch.ones(<<rows>>, <<width>>)
    $b, $c = nn.Linear(<<width>>, <<outputs>>), nn.Linear(<<width>>, <<outputs>>)
one: <<1.0|0.5|2.0>>
gates: $g = torch.tensor([<<0.0, <<one>>|<<one>>, 0.0|0.0, <<one>>|<<one>>, 0.0|<<one>>, <<one>>>>])
end: $y.<<sum|mean>>().backward()

multiplied:
    <<gates>>
    $y = <<$g[0] * $b($x) + $g[1] * $c($x)|torch.cat([$g[0] * $b($x), $g[1] * $c($x)])|$b($x) * $g[0] - $c($x) * $g[1]>>
    <<end>>
asked:
    <<gates>>
    $y = torch.zeros(<<rows>>, <<outputs>>)
    if $g[0]: $y = $y + $b($x)
    if $g[1]: $y = $y + $c($x)
    <<end>>
chosen: $y = <<way>>; <<end>>
way x2: <<[$b($x), $c($x)]|torch.stack([$b($x), $c($x)])>>[<<0..1>>]
way x2: <<torch.where(torch.tensor(<<True|False>>), $b($x), $c($x))|[$b, $c][<<0..1>>]($x)>>
way x1: $b($x) if <<1..3>> > <<0..5>> else $c($x)

selected:
    <<mask>>
    $y = <<torch.where($m[:, None], $b($x), $c($x))|$m[:, None] * $b($x) + ~$m[:, None] * $c($x)>>
    <<end>>
selected x0.5: <<mask>>; $y = torch.cat([$b($x)[$m], $c($x)[~$m]]); <<end>>
routed x7:
    <<mask>>
    $y = torch.zeros(<<rows>>, <<outputs>>)
    if $m.any(): $y[$m] = $b($x[$m])
    if (~$m).any(): $y[~$m] = $c($x[~$m])
    <<end>>
routed x3: <<mask>>; $y = torch.zeros(<<rows>>, <<outputs>>); $y[$m] = $b($x[$m]); $y[~$m] = $c($x[~$m]); <<end>>
cut x0.5:
    <<gates>>
    with torch.no_grad():
        $k = $b($x)
    $y = $g[0] * $k + $g[1] * $c($x)
    <<end>>
cut x0.5:
    <<gates>>
    with torch.no_grad():
        $k = $c($x)
    $y = $g[0] * $b($x) + $g[1] * $k
    <<end>>
cut: <<gates>>; $y = <<$g[0] * $b($x).detach() + $g[1] * $c($x)|$g[0] * $b($x) + $g[1] * $c($x).detach()>>; <<end>>

steps:
    both = [*$b.parameters(), *$c.parameters()]
    $s = torch.optim.<<optimizer>>
    ($b($x) + $c($x)).<<sum|mean>>().backward()
    $s.step()
    <<clear>>
    <<second>>
    $s.step()
optimizer x3: SGD(both, lr=0.<<1..9>><<|, momentum=0.9|, weight_decay=0.1>>)
optimizer x2: <<SGD|Adam>>(both, lr=0.<<1..9>>)
clear x4: $s.zero_grad(<<|set_to_none=False>>)
clear x1:
second x3: <<$b|$c>>($x).<<sum|mean>>().backward()
second x2: (<<0.0 * $b($x) + 1.0 * $c($x)|1.0 * $b($x) + 0.0 * $c($x)>>).sum().backward()
""")
_MOTIFS = {
    1: {"multiplied": 3.0, "asked": 3.0, "chosen": 4.0},
    2: {"selected": 2.0, "routed": 4.0, "cut": 1.5},
    3: {"steps": 1.0},
}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    rows = 2 + draw.below(5)
    some = [True, False, *(draw.chance(0.5) for _ in range(rows - 2))]
    masks = [[True] * rows, [False] * rows] * 2 + [draw.sample(some, rows)]
    more = {"rows": f"{rows}", "width": f"{2 + draw.below(7)}", "outputs": f"{2 + draw.below(7)}"}
    page = Page(draw, _GRAMMAR, more | {"mask": f"$m = torch.tensor({draw.choice(masks)})"})
    page.add("<<start>>")
    last = page.add(f"<<{draw.weighted(_MOTIFS[level])}>>")
    first = last - 1 if level == 3 else 0
    page.facts = {"second": first}
    read = partial(_read, page, (first, last) if first else (0, 0))
    found, names = read(page.lines), (page.name("b"), page.name("c"))
    asked = []
    for name in names:
        # That a branch runs is asked now and then; that it does not, always.
        if not found[f"{name} runs"] or draw.chance(0.35):
            asks = f"is it called {f'in line {first}' if first else 'anywhere'}?"
            asked.append(Asked(f"{name} runs", asks, {True: "runs", False: "does not run"}, subject=f"`{name}`"))
    holds = {NONE: "is None", ZEROS: "holds zeros alone", VALUES: "holds numbers that are not zero"}
    asked += [Asked(f"{name}.weight.grad", "what is in it?", holds, GRADS) for name in names]
    for name in names if first else ():
        says = {True: f"moves `{name}.weight`", False: f"does not move `{name}.weight`"}
        asked.append(Asked(f"{name} moves", f"does line {last} change its weight?", says, subject="the last line"))
    return page.finish(asked, _RULES, read)


def _read(page: Page, watched: tuple[int, int], lines: Sequence[str]) -> dict[str, Answer]:
    """Which branches run in the watched lines, what is in their ``.grad`` at the end, which have moved."""
    names, called, (first, last) = space(), set[Any](), watched
    execute(lines[:2], names)
    branches: dict[str, nn.Linear] = {name: names[name] for name in (page.name("b"), page.name("c"))}
    for branch in branches.values():
        branch.register_forward_hook(lambda module, args, out: called.add(module))
    before: dict[str, Any] = {}
    for line, _, code in statements(lines)[2:]:
        if line == first:
            called.clear()
        if line == last:
            before = {name: branch.weight.detach().clone() for name, branch in branches.items()}
        try:
            exec(code, names)
        except RuntimeError:  # where every way is cut, there is nothing to go backward through
            if "backward()" not in code:
                raise
    found: dict[str, Answer] = {}
    for name, branch in branches.items():
        grad = branch.weight.grad
        found[f"{name} runs"] = branch in called
        found[f"{name}.weight.grad"] = NONE if grad is None else VALUES if grad.count_nonzero() else ZEROS
        if last:
            found[f"{name} moves"] = not branch.weight.equal(before[name])
    return found


_RULES = rules(r"""
[key:runs$|grad$ answer:False,none] if .*?: (.*\bKEY\(.*) -> \1
    This line does not call `{name}`, so nothing is computed and no gradient comes there
[key:runs$|grad$ answer:False,none] (.* = )(.*) if (.*) else (.*) -> \1\4 if \3 else \2
    This line does not call `{name}`, so nothing is computed and no gradient comes there
[key:runs$|grad$ answer:False,none] (.* = \[\w+, \w+\])(\[\d\]\(.*) -> \1[::-1]\2
    This line does not call `{name}`, so nothing is computed and no gradient comes there
[key:runs$ answer:True] (.* = \[\w+, \w+\])(\[\d\]\(.*) -> \1[::-1]\2
    This line calls `{name}`; what is done with its result comes after that
[key:grad$ answer:values] .* = \[\w+, \w+\]\[\d\]\(.* -> \g<0>.detach()
    The loss is computed from the result of `{name}`
[key:runs$ answer:False] (\w+\((\w+)\))(\..*backward\(\)) -> (\1 + KEY(\2))\3
    This line does not call `{name}`, so nothing is computed and no gradient comes there
[maker key:grad$ answer:none] (\w+\((\w+)\))(\..*backward\(\)) -> (\1 + KEY(\2))\3
    This line does not call `{name}`, so nothing is computed and no gradient comes there
[key:grad$ answer:none] (.* = )(\[\w+\(\w+\), \w+\(\w+\)\])\[\d\] -> \1sum(\2)
    `{name}` is run and its result is dropped: the loss is not computed from it, so backward never comes there
[key:grad$] with torch\.no_grad\(\): -> if True:
    `{name}` runs in the block, where nothing is recorded, so backward never comes there
[key:grad$] (.*\bKEY\(\w+\))\.detach\(\) -> \1
    `{name}` runs and is recorded, and `detach()` cuts it off: backward never comes there

[key:grad$|moves$ answer:values,True] \(\w+\(\w+\) \+ .*backward\(\)$(?!(.*\n)*.*zero_grad)
    Nothing clears the gradients that this line has left
[key:grad$ answer:none] (.*zero_grad)\(\) -> \1(set_to_none=False)
    `zero_grad()` drops the old gradient, and line {second} makes none for `{name}`
[key:moves$ answer:False] (.*zero_grad)\(\) -> \1(set_to_none=False)
    `zero_grad()` drops the gradient, and an optimizer passes over a parameter whose `.grad` is None, with all that it
    remembers
[key:grad$ answer:zeros] (.*zero_grad)\(set_to_none=False\) -> \1()
    `set_to_none=False` fills the old gradient with zeros, and line {second} adds none for `{name}`
[key:moves$ answer:False] (.* = torch\.optim\.SGD\([^,]*, lr=0\.\d)\)$ -> \1, momentum=0.9)
    Plain SGD subtracts the gradient times the learning rate, and that is zero
[key:moves$ answer:True] (.* = torch\.optim\.)Adam -> \1SGD
    For Adam a gradient of zeros is a gradient like any other: the averages of the first step go on
[key:moves$ answer:True] (.* = torch\.optim\..*), momentum=0\.9 -> \1
    For SGD with momentum a gradient of zeros is a gradient like any other: the momentum of the first step goes on
[key:moves$ answer:True] (.* = torch\.optim\..*), weight_decay=0\.1 -> \1
    For SGD with weight decay a gradient of zeros is a gradient like any other: the decay is added to it

[maker key:runs$ answer:True] (.*?)\bKEY\(([^()]*)\) -> \1(\2 @ KEY.weight.T)
    This line calls `{name}`; what is done with its result comes after that
[maker key:grad$ answer:zeros] (.*\[~?\w+\] = KEY\([^()]*\)) -> \1.detach()
    `{name}` runs on a batch of no rows. It is part of the graph, and a sum over no rows is zero
[maker key:grad$ answer:zeros] ((?=.*(?:, None\]|\)\[~?N)).*?\bKEY\([^()]*\)) -> \1.detach()
    `{name}` runs on all rows and none of its results is used. The selection is part of the graph and hands back zeros
[maker key:grad$ answer:values] ((?=.*(?:, None\]|\)\[~?N|\] = KEY)).*?\bKEY\([^()]*\)) -> \1.detach()
    At least one row of the result of `{name}` is used, and gradients come back through it
[maker key:grad$ answer:zeros] (.*?\bKEY\([^()]*\)) -> \1.detach()
    The result of `{name}` is part of the graph, and its gradient is multiplied by zero on the way back
[maker key:grad$ answer:values] (.*?\bKEY\([^()]*\)) -> \1.detach()
    The loss is computed from the result of `{name}`
""")
