"""Drills on in-place edits: does backward notice, and is its gradient right? (``write``)

Every edit that is not recorded comes after the loss, so that the right gradient is that of the loss as it was computed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import torch

from course_utils.drills.page import Asked, Page, Refused
from course_utils.drills.programs import Answer, Draw, Program
from course_utils.drills.rules import rules
from course_utils.drills.run import space, statements
from course_utils.drills.texts import grammar

TASK = "What does the last line do, and what does the edit change?"
LESSONS = ("detach",)
MARKS: Mapping[int, str] = {}
OUTCOMES = ERROR, WRONG, RIGHT = "error", "wrong gradient", "right gradient"
# The edited tensor is $v, and $w another name that has to do with it. Lines of the edit begin with a "!".
_GRAMMAR = grammar(r"""
open x3: torch.full((<<size>>,), <<0.5|1.5|2.0>>
open x2: torch.<<ones(<<size>>|linspace(1, 2, <<size>>>>
leaf: <<n>> = <<open>><<, requires_grad=True)|, requires_grad=True)|).requires_grad_()>>
c: <<2|3|0.5|4>>
middle: <<n>> = <<<<m>> * <<c>>|<<m>> + <<c>>|<<c>> * <<m>>|<<m>> / <<c>>>>
results: <<n:=$a>><<leaf>>; <<m:=$a>><<n:=$h>><<middle>>
a leaf: <<n:=$v>><<leaf>>
a result: <<n:=$a>><<leaf>>; <<m:=$a>><<n:=$v>><<middle>>
victim x35: <<a leaf>>
victim x65: <<a result>>
keeps input: <<.sin()|.cos()| ** 2| ** 3|.square()>>
keeps result: <<.exp()|.sigmoid()|.tanh()|.sqrt()>>
keeps nothing: <<<<x>> + 1|<<x>> * 3|-<<x>>|<<x>> / 2|4 * <<x>>|<<x>> - 0.2>>

input: <<victim>>; $y = $v<<part>><<keeps input>>
result: <<results>>; $v = $h<<keeps result>>
factor: <<n:=$b>><<leaf>>; <<victim>>; $y = <<$v * $b|$b * $v>>
squares: <<results>>; <<x:=$h>>$v = <<keeps nothing>>
nothing: <<victim>>; <<x:=$v>>$y = <<keeps nothing>>
sum: <<n:=$b>><<leaf>>; <<victim>>; $y = $v + $b
nothing of it: <<results>>; <<x:=$h>>$v = <<keeps nothing>>
result of input: <<results>>; $v = $h<<keeps input>>
input of result: <<victim>>; $y = $v<<keeps result>>
plain factor: $b = <<open>>); <<victim>>; $y = <<$v * $b|$b * $v>>

method: <<mul_(2)|add_(1)|zero_()|mul_(0.5)|add_(0.5)|mul_(3)>>
simple change: <<t>><<.<<method>>|.<<method>>|.fill_(0.3)|.sub_(1)|.div_(8)| += 1| *= 2>>
any change x5: <<simple change>>
any change x1: <<t>>[0] = 0.1
edit: !<<t:=$v>><<change>>
edit:
    !with torch.no_grad():
    !    <<t:=$v>><<change>>
input before: <<a result>>; !<<t:=$v>><<change>>; $y = $v<<keeps input>>
factor before: <<n:=$b>><<leaf>>; <<a result>>; !<<t:=$v>><<change>>; $y = <<$v * $b|$b * $v>>

plain x3: <<loss>>; <<edit>>
plain x1: !<<t:=$v>><<change>>; <<loss>>
seen before: <<loss>>
not in place: <<loss>>; !$v.<<mul(2)|add(1)|neg()|mul(0.5)|add(0.5)|mul(3)>>
data at once: <<loss>>; !$v.data.<<method>>
copy at once: <<loss>>; !$v<<|.detach()>>.clone().<<method>>

view: <<loss>>; $w = $v<<[1:]|[:2]|[0]>>; !$w.<<method>>
view x0.5:
    <<loss>>
    !with torch.no_grad():
    !    $v<<[1:]|[:2]|[0]>>.<<method>>
detach: <<loss>>; $w = $v.detach(); !$w.<<method>>
data: <<loss>>; $w = $v.data; !$w.<<method>>
copy: <<loss>>; $w = $v<<|.detach()>><<.clone()|.clone()|.double()|.flip(0)|[[0, 1]]>>; !<<t:=$w>><<change>>
base: <<loss>>; $w = $v<<.detach()|.data|[1:]|.clone()|.clone()|.detach().clone()>>; !$v.<<method>>
same: <<loss>>; $w = $v<<|.float()|.to("cpu")|.requires_grad_()>>; !<<t:=$w>><<change>>
rebound: <<loss>>; $w = $v; !$w = $w <<* 2|+ 1|* 0.5|- 3>>

nested view:
    <<loss>>
    !with torch.no_grad():
    !    $w = $v<<[1:]|[:3]|.view(2, 2)>>
    !    $w[0]<<.<<method>>| = 0.1>>
nested view: <<loss>>; $w = $v<<[1:]|[:3]|.view(2, 2)>>; !$w[1:]<<.<<method>>| = 0.1>>
numpy: <<loss>>; $w = $v.detach().numpy(); !$w<< *= 2| += 1|[0] = 0.1|[:] = 0.1|[1:] *= 3>>
elsewhere: <<loss>>; !$v.data[2:].<<zero_()|mul_(2)|add_(1)>>
elsewhere, counted: <<loss>>; !$v[2:].<<zero_()|mul_(2)|add_(1)>>
undone: <<loss>>; $w = $v.data; <<c:=2|4>>!$w.mul_(<<c>>); !$w.div_(<<c>>)
put back:
    <<loss>>
    $w = $v.detach().clone()
    !with torch.no_grad():
    !    $v.<<method>>
    !    $v.copy_($w)
replaced: <<loss>>; !$v.data = <<$v.data * 2|$v.data + 1|torch.zeros(<<size>>)|$v.data / 4>>
step:
    $w = torch.optim.<<SGD|SGD|Adam|RMSprop>>([$v], lr=0.<<1..9>>)
    <<loss>>
    $v.grad = torch.ones(<<size>>)
    !$w.step()
    $w.zero_grad()
copy of a part:
    <<loss>>
    $w = $v<<|.detach()>><<[1:].clone()|.flip(0)[1:]|[[0, 1]]|.double()[:2]|[:2].clone()>>
    !$w.<<method>>
""")
# Ways to edit, by level, with their weights. Level 1: the tensor itself. Level 2: through another name for it, or for a
# part of it. Level 3: two edits, an optimizer's, and those that nobody counts.
_ROUTES: Mapping[int, Mapping[str, float]] = {
    1: {"plain": 6, "data at once": 4, "copy at once": 3, "not in place": 3, "seen before": 1},
    2: {"view": 2, "detach": 1.5, "data": 3.5, "copy": 4, "base": 2, "same": 2, "rebound": 2.5},
    3: {"nested view": 2, "numpy": 2.5, "elsewhere": 1.5, "elsewhere, counted": 1, "undone": 2.5, "put back": 2}
    | {"replaced": 3, "step": 2.5, "copy of a part": 2},
}
# What the operation keeps that backward needs, and where it needs nothing that is edited.
_NEEDED = {
    "input": "needs its input `$v<<part>>` in backward",
    "result": "needs its result `$v` in backward",
    "factor": "needs `$v` in backward, for the gradient of `$b`",
    "squares": "needs its input `$v` in backward",
}
_NOT_NEEDED = {
    "nothing": "needs no values in backward",
    "sum": "needs no values in backward",
    "nothing of it": "needs no values in backward",
    "result of input": "needs its input `$h` in backward, and not its result `$v`",
    "input of result": "needs its result `$y` in backward, and not its input `$v`",
    "plain factor": "would need `$v` for the gradient of `$b` alone, and `$b` does not require grad",
}
_ON_LEAVES = ("input", "factor", "nothing", "sum", "input of result")
# These have a reason of their own for a right gradient, so backward must need the edited tensor.
_NEED_IT = "copy|copy at once|not in place|seen before|elsewhere.*|undone|rebound"


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    route = draw.weighted(_ROUTES[level])
    kinds = _NEEDED if re.fullmatch(_NEED_IT, route) or draw.chance(0.85) else _NOT_NEEDED
    if route in ("step", "replaced"):  # a result that is kept is kept apart from what `.data` is set to
        kinds = {kind: why for kind, why in kinds.items() if kind in _ON_LEAVES}
    elif route.startswith("elsewhere"):
        kinds = {"input": kinds["input"]}
    elif route == "seen before":
        kinds = {f"{kind} before": kinds[kind] for kind in ("input", "factor")}
    kind = draw.choice(list(kinds))
    if kind == "plain factor" and level == 1:
        raise Refused("a plain factor is for level 2")
    end = "$y" if kind.removesuffix(" before") in (*_ON_LEAVES, "plain factor") else "$v"
    loss = f"loss = <<{end}.sum()|{end}.mean()|(5 * {end}).sum()>>"
    if kind == "squares":
        loss = "loss = ($v ** 2).<<sum|mean>>()"
    elif level > 1 and draw.chance(0.3):
        loss = f"<<m:={end}>><<n:=$z>><<middle>>\nloss = <<$z.sum()|$z.mean()>>"
    size, part = "4" if level == 3 else draw.choice("345"), "[:2]" * route.startswith("elsewhere")
    more = {"size": size, "part": part, "loss": loss, "change": "<<any change>>" if level > 1 else "<<simple change>>"}
    if route in ("step", "base"):
        more["victim"] = "<<a leaf>>" if route == "step" else "<<a result>>"
    page = Page(draw, _GRAMMAR, more)
    _fill(page, f"<<{kind}>>\n<<{route}>>", kinds[kind])
    return _asked(page, [_V, _W] if route == "base" else [_V])


def _fill(page: Page, text: str, why: str) -> None:
    """Writes the program. Its facts: the edit's first and last line, the line that keeps what is edited or does not."""
    assert (page.name("v"), page.name("w")) == (_V, _W)
    lines = page.fill(text).split("\n")
    marked = [number for number, line in enumerate(lines, 1) if line.startswith("!")]
    for _, _, code in statements([line.removeprefix("!") for line in lines]):
        page.add(code)
    ends = (f"{page.name('y')} = ", f"{_V} = ", f"loss = ({_V} ** 2)")
    saver = max(number for number, line in enumerate(page.lines, 1) if line.startswith(ends))
    sign = re.findall(r"(?<=\.)\w+(?=\()|(?<= )(?:\*\*|[-+*/])", page.lines[saver - 1])[0]
    page.facts = {"first": marked[0], "last": marked[-1], "saver": saver, "v": _V, "w": _W}
    page.facts["why"] = f"`{sign}` in line {saver} {page.fill(why)}"
    page.add("loss.backward()", run=False)


def _asked(page: Page, names: Sequence[str]) -> Program:
    first, last = page.facts["first"], page.facts["last"]
    where = f"in line {first}" if first == last else f"in lines {first} to {last}"
    outcomes = {ERROR: "raises an error", WRONG: "runs and gives a wrong gradient", RIGHT: "gives the right gradient"}
    asks = "... (right: the gradient of the loss as it was computed)"
    asked = [Asked("backward", asks, outcomes, OUTCOMES, "`loss.backward()`")]
    values = {True: "has other values than before", False: "keeps its values"}
    for name in names:
        asks = f"does {name} hold other values after line {last} than before line {first}?"
        asked.append(Asked(f"{name} changed", asks, values, subject=f"`{name}`"))
    moves = {True: "moves", False: "stays where it was"}
    counter = f"the version counter of `{_V}`"
    asked.append(Asked(f"{_V} counted", f"does {_V}._version grow {where}?", moves, subject=counter))
    return page.finish(asked, _RULES, partial(_read, (first, last), names))


def _read(edited: tuple[int, int], watched: Sequence[str], lines: Sequence[str]) -> dict[str, Answer]:
    """Runs the program statement by statement, and looks at the tensors before and after the edit."""
    names, found = space(), dict[str, Answer]()
    before: dict[str, tuple[torch.Tensor, int]] = {}
    right = None
    *pieces, backward = statements(lines)
    torch.default_generator.manual_seed(0)
    for first, last, code in pieces:
        if first <= edited[0] <= last:
            before = {name: (names[name].detach().clone(), names[name]._version) for name in watched}
        exec(code, names)
        if first <= edited[1] <= last:
            for name, (values, version) in before.items():
                found[f"{name} changed"] = not torch.equal(names[name].detach(), values)
                found[f"{name} counted"] = names[name]._version > version
        if code.startswith("loss"):
            # Now, because later edits can leave views behind that refuse to be asked.
            leaves = [t for t in names.values() if isinstance(t, torch.Tensor) and t.is_leaf and t.requires_grad]
            with contextlib.suppress(RuntimeError):  # where an edit came first
                right = _numbers(torch.autograd.grad(names["loss"], leaves, retain_graph=True, allow_unused=True))
    try:
        exec(backward[2], names)
    except RuntimeError:
        return found | {"backward": ERROR}
    return found | {"backward": RIGHT if _numbers(leaf.grad for leaf in leaves) == right else WRONG}


def _numbers(gradients: Iterable[torch.Tensor | None]) -> list[list[float] | None]:
    return [None if gradient is None else gradient.tolist() for gradient in gradients]


_V, _W = "N1_", "N2_"
_RULES = rules(
    r"""
[key:N2_ answer:False] N2_ = (N1_.*)\.clone\(\) -> N2_ = \1.detach()
    `.clone()` makes a tensor with memory of its own: the edit changes nothing of `{w}`
[answer:False,right_gradient] (.*N1_(?:\.detach\(\))?)(\S*(?:clone|double|flip)\(0?\)[^.\n]*|\[\[.*)(?!(.*\n)+.*copy_)
    -> \1.detach()
    `{1}` makes a tensor with memory of its own: the edit changes nothing of `{v}`
N1_\.(mul|add|neg)\( -> N1_.detach().\1_(
    Without the underscore a new tensor is made and dropped; `{v}` stays as it was
N2_ = N2_ (.) (.*) -> N2_ \1= \2
    This line makes a new tensor and gives it the name `{w}`; `{v}` stays as it was
[key:N1_ answer:True] N2_ = N1_(?:|\.float\(\)|\.to\(.*\)|\.requires_grad_\(\))$ -> \g<0> * 1
    `{w}` and `{v}` are two names for one tensor: nothing is copied, and no view is made

[key:backward|changed answer:True,wrong_gradient] N1_\.data = .*
    {why}. Setting `.data` gives `{v}` other memory, and backward finds the new values there
[key:counted] N1_\.data = (.*) -> N1_.detach().copy_(\1)
    Setting `.data` gives `{v}` other memory, and its version counter does not move
[key:backward|changed] N2_\.div_\([24]\)
    The second edit puts back exactly what the first one changed, and `.data` moves no counter of `{v}`
[key:backward answer:right_gradient] N1_\.data\[2:\] -> N1_.data
    {why}. The edit changes other elements than those, and `.data` moves no counter of `{v}`
[key:backward answer:error] N1_\[2:\].*
    {why}. The edit changes other elements, but `{v}` and its views have one version counter in common, so backward
    refuses
[key:backward answer:wrong_gradient] (.*)N1_\.data\b -> \1N1_.detach()
    {why}. `.data` has a version counter of its own, so backward takes the new values for the old ones
[key:backward answer:wrong_gradient] N2_ = N1_\.detach\(\)\.numpy\(\) -> N2_ = N1_.detach()
    {why}. NumPy moves no version counter, so backward takes the new values for the old ones
[key:counted answer:False] (.*)N1_\.data\b -> \1N1_.detach()
    `.data` shares the memory of `{v}` and has a version counter of its own
[key:counted answer:False] N2_ = N1_\.detach\(\)\.numpy\(\) -> N2_ = N1_.detach()
    The array shares the memory of `{v}`, and NumPy knows of no version counter
[key:changed answer:True] (.*N1_\.detach\(\))\.numpy\(\) -> \1.clone().numpy()
    Memory is shared with `{v}`, so an edit of one is an edit of the other
[key:changed answer:True] (.*N1_(?:\.data\[2:\]|\.data|\.detach\(\)|\.view\(2, 2\)|\[[\d:]+\])) -> \1.clone()
    Memory is shared with `{v}`, so an edit of one is an edit of the other
[key:counted answer:True] (.*N1_(?:\.detach\(\)|\.view\(2, 2\)|\[[\d:]+\]))(?!\.clone) -> \1.clone()
    The version counter is shared with `{v}` as the memory is, so the edit counts for both

[key:changed answer:False] N1_\.copy_\(N2_\)
    `copy_` puts back the values from before the edit
[key:backward answer:error] with torch.*\n(    N1_.*\n)    N1_\.copy_.* -> if True:\n    pass\n    pass
    with: Without the two lines in it
    {why}. The values are those from before, but the version counter has moved, and backward looks at that alone
[key:counted answer:True] with torch.*\n(    N1_.*\n)    N1_\.copy_.* -> if True:\n    pass\n    pass
    with: Without the two lines in it
    An edit in place moves the version counter of the tensor, under `no_grad()` too
[key:changed|counted] N2_\.step\(\)
    `step()` edits the parameter in place, under `no_grad()`, and that moves its version counter
[key:backward answer:right_gradient when:edit] (N1_.*)((?:\n.*)*?\nloss = .*) -> pass\2\n\1
    with: With the edit after the loss
    {why}, and line {line} has run by then: what is kept is the edited tensor
[maker key:backward answer:error when:edit] (?!with).*
    {why}. The edit in line {line} comes after that and moves the version counter, so backward refuses
[maker key:changed answer:True when:edit] (?!with).*
    Line {line} edits `{v}` in place
[maker key:counted answer:True when:edit] (?!with).*
    An edit in place moves the version counter of the tensor, under `no_grad()` too

[maker key:backward answer:right_gradient when:saves] N1_ = (.*) -> N1_ = (\1).tanh()
    {why}, so the edit of `{v}` does no harm
[maker key:backward answer:right_gradient when:saves] (N\d+_) = (.*) -> \1 = (\2) * N1_
    {why}, so the edit of `{v}` does no harm
""",
    edit=lambda page, line, key: page.facts["first"] <= line <= page.facts["last"],
    saves=lambda page, line, key: line == page.facts["saver"],
)
