"""Lines on tensors, and what they do, for drills on flags, leaves and modes (``Tensors``, ``GRAMMAR``, ``RULES``)."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from course_utils.drills.page import Page, Refused, Rules, listed
from course_utils.drills.programs import Draw
from course_utils.drills.rules import MAKER, TRAP, Effect, rules
from course_utils.drills.texts import TOKEN, Grammar, grammar

GRAMMAR = grammar(r"""
open x4: torch.<<ones|rand|randn|zeros>>(<<size>>
open x1: torch.full((<<size>>,), <<0.5|1.5|2.0|3.0>>
open x2: torch.<<arange(<<size>>.0|linspace(0, 1, <<size>>>>
k: <<2|3|4|5|0.5|10>>

plain: <<new>> = <<open>>)
flagged x3: <<new>> = <<open>>, requires_grad=True)
flagged x1: <<new>> = <<open>>).requires_grad_()
parameter: <<new>> = nn.Parameter(<<open>>))
frozen parameter: <<new>> = nn.Parameter(torch.ones(<<size>>), requires_grad=False)
computed at once: <<new>> = <<open>>, requires_grad=True)<< * 2| / 10| + 1|.double()|.double()|.exp()|.clone()>>

compute up: <<a:=up>><<new>> = <<op>>
compute down: <<a:=down>><<new>> = <<op>>
compute again: <<a:=leaf>><<a>> = <<a>> <<*|/|+|->> <<k>>
compute from positions: <<new>> = <<position>><<.float()| * 0.5| / 2| + 0.5>>
op x4: <<alone>>
op x5: <<b:=other>><<pair>>
op x1.5: <<a>> * <<position>>
alone x8: <<a>>.<<exp|sin|cos|tanh|sigmoid|abs|round|clone>>()
alone x6: <<a>>.<<cumsum(0)|softmax(0)|sum()|mean()|max()|norm()>>
alone x8: <<<<a>> * <<k>>|<<k>> * <<a>>|<<a>> + <<k>>|<<a>> / <<k>>|<<a>> ** 2|-<<a>>|<<k>> - <<a>>|torch.relu(<<a>>)>>
pair x3: <<a>> <<*|+|->> <<b>>
pair x2: <<b>> <<*|->> <<a>>
pair x2: torch.<<maximum(<<a>>, <<b>>)|where(<<a>> > 0, <<a>>, <<b>>)>>
pair x2: <<<<a>> @ <<b>>|torch.cat([<<b>>, <<a>>])|torch.stack([<<a>>, <<b>>])|(<<a>> - <<b>>) * <<b>>>>

view: <<new>> = <<a>><<[0]|[1:]|[:2]|[-1]|.view(-1, 1)|.unsqueeze(0)|.reshape(1, -1)>>
view up: <<a:=up>><<view>>
view down: <<a:=down>><<view>>
double: <<new>> = <<up>>.double()
same: <<new>> = <<created>><<.cpu()|.float()|.to("cpu")>>
parameter of: <<new>> = nn.Parameter(<<any>><<.exp()| * 2|.clone()| + 1|.abs()>>)

detach: <<new>> = <<up>>.detach()
cut x5: <<new>> = <<up>><<.detach()|.detach()|.detach().clone()|.data|.data>>
cut x3: <<new>> = torch.<<tensor(<<up>>.tolist())|ones_like(<<up>>)|zeros_like(<<up>>)>>
cut x6: <<new>> = <<up>><< > 0| < 1|.long()|.int()|.argmax()|.argmin()>>
raise: <<raisable>>.requires_grad_()
lower: <<created>>.requires_grad_(False)
write: <<t:=blank>><<s:=vector>><<edit>>
edit: <<t>><<[0] = <<s>>[0]|[1:] = <<s>>[1:]| += <<s>>|.add_(<<s>>)|.copy_(<<s>>)|[0] = <<s>>.sum()>>

layer: layer = nn.Linear(<<size>>, <<1..3>>); <<new>> = layer(<<blank>>)
misspelt: layer = nn.Linear(<<size>>, <<1..3>>); layer.requires_grad = False; <<new>> = layer(<<blank>>)
frozen: layer = nn.Linear(<<size>>, <<1..3>>); layer.requires_grad_(False); <<new>> = layer(<<<<blank>>|<<vector>>>>)
""")


class Tensors(Page):
    """A program on vectors of one size. What a tensor is like is asked of the tensor itself."""

    def __init__(self, draw: Draw, grammar: Grammar) -> None:
        super().__init__(draw, {**GRAMMAR, **grammar}, {"size": draw.choice("345")})

    def hole(self, word: str, local: Mapping[str, str]) -> str:
        """One of the tensors there are: unused ones before the others, and the newest before older ones."""
        if word == "new":
            return self.name()
        tensors = self.tensors()
        first = {id(value): name for name, value in reversed(tensors.items())}  # of two names for one tensor
        a = tensors.get(local.get("a", ""), torch.empty(0))

        def fits(name: str, value: torch.Tensor) -> bool:
            flag, made = value.requires_grad, [line for line in self.lines if line.startswith(f"{name} = ")]
            is_made = all(len(TOKEN.findall(line)) == 1 for line in made)
            if word == "position":
                return not value.is_floating_point()
            if not value.is_floating_point() or first[id(value)] != name:
                return False
            return {
                "up": flag,
                "down": not flag,
                "any": True,
                "other": value is not a and value.shape in (a.shape, ()) and flag <= a.requires_grad,
                "leaf": flag and value.is_leaf,
                "created": flag and value.is_leaf and is_made and not self.is_viewed(name),
                "raisable": not flag and is_made and not self.is_viewed(name),
                "blank": not flag and is_made and self.is_fresh(name),
                "vector": flag and value.dim() == 1,
            }[word]

        names = [name for name, value in tensors.items() if fits(name, value)]
        if not names:
            raise Refused(f"there is no tensor for <<{word}>>")
        return self.draw.weighted({name: 4.0 if self.is_fresh(name) else 1 + at / 4 for at, name in enumerate(names)})

    def is_fresh(self, name: str) -> bool:
        """Whether no line has used the tensor yet."""
        return sum(name in line for line in self.lines) == 1

    def is_viewed(self, name: str) -> bool:
        """Whether there are views of it, whose flags follow its own."""
        views = (f"= {name}[", f"= {name}.view", f"= {name}.uns", f"= {name}.resh")
        return any(view in line for line in self.lines for view in views)


def recorded(page: Page, line: int, key: str) -> Effect | None:
    """An operation is recorded, where it is, because an operand requires grad."""
    name, _, text = page.lines[line - 1].partition(" = ")
    operands = list(dict.fromkeys(TOKEN.findall(text)))
    if name.strip() != key or not operands:
        return None
    carriers = [operand for operand in operands if page.flags[line - 1].get(operand)]
    verb, words = "does" if len(carriers or operands) == 1 else "do", "An operation is recorded "
    if carriers:
        words += f"as soon as one operand requires grad, and {listed(carriers)} {verb} here"
        made = TOKEN.sub(lambda match: match[0] + ".detach()" * (match[0] in carriers), text)
    else:
        words += f"only if an operand requires grad, and {listed(operands)} {verb} not"
        made = text.replace(operands[0], f"{operands[0]}.detach().requires_grad_()", 1)
    return Effect(line, words, (*page.lines[: line - 1], f"{name} = {made}", *page.lines[line:]), MAKER)


def late(page: Page, line: int, key: str) -> Effect | None:
    """An operation is not recorded, because the flag of an operand is raised later."""
    name, _, text = page.lines[line - 1].partition(" = ")
    for number, other in enumerate(page.lines[line:], line + 1):
        operand = other.removesuffix(".requires_grad_()")
        if operand != other and operand in text:
            words = f"When this line ran, `{operand}` did not require grad, so nothing was recorded. "
            words += f"Raising the flag in line {number} changes nothing that was computed before"
            made = f"{name} = {text.replace(operand, f'{operand}.detach().requires_grad_()', 1)}"
            return Effect(line, words, (*page.lines[: line - 1], made, *page.lines[line:]), TRAP)
    return None


def _edits(page: Page, line: int, key: str) -> bool:
    """Whether the block of this line edits what the key is about in place."""
    return page.lines[line].lstrip().startswith((f"{key}.", f"{key}[", f"{key} +="))


def _in_block(page: Page, line: int, key: str) -> bool:
    return page.lines[line - 1].startswith(" ")


def _makes_next(page: Page, line: int, key: str) -> bool:
    return page.lines[line].startswith(f"{key} = ")


def _no_flag_before(page: Page, line: int, key: str) -> bool:
    return ".requires_grad" not in page.lines[line - 2]


WRITTEN = rules(
    r"""
[when:edits] with torch\.no_grad\(\):(\n.*) -> if True:\1
    Under `no_grad()` the edit in line {on} changes the values and is not recorded
(N\d+_)(?:\[\S+ =|\.add_\(|\.copy_\(| \+=).*?(N\d+_).*
    Writing `{1}` into `{0}` in place is recorded: `{0}` now hangs on the history of `{1}`
""",
    edits=_edits,
)
RULES: Rules = (
    *WRITTEN,
    *rules(r"""
(\w+) = (\w+)\.detach\(\)(?:\.clone\(\))?$ -> \1 = \2.clone()
    `detach()` gives a tensor outside the graph, on the values of `{1}`
(\w+) = (\w+)\.data$ -> \1 = \2.clone()
    `.data` gives a tensor outside the graph, on the values of `{1}`
(\w+) = torch\.tensor\((\w+)\.tolist\(\)\)$ -> \1 = \2.clone()
    The values go through Python numbers, which carry no history; `torch.tensor` makes a new tensor of them
(\w+) = torch\.\w+_like\((\w+)\)$ -> \1 = \2.clone()
    Only shape and dtype are taken from `{1}`: the result is a new tensor
(\w+) = (\w+) [<>] \d$ -> \1 = \2.clone()
    A comparison gives truth values, and only floating-point and complex tensors can require grad
(\w+) = (\w+)\.(?:long|int)\(\)$ -> \1 = \2.clone()
    Integers cannot require grad, so the conversion ends the history of `{1}`
(\w+) = (\w+)\.arg\w+\(\)$ -> \1 = \2.sum()
    A position is an integer and has no gradient, so the history of `{1}` ends here
N\d+_\.requires_grad_\(\)
    `requires_grad_()` raises the flag of the tensor itself
N\d+_\.requires_grad_\(False\)
    `requires_grad_(False)` lowers the flag of a leaf, from this line on
layer\.requires_grad_\(False\)
    `requires_grad_(False)` lowers the flag of every parameter of the layer, and the input passes none on
with torch\.no_grad\(\): -> if True:
    Nothing that is computed under `no_grad()` is recorded
with torch\.enable_grad\(\): -> if True:
    `enable_grad()` switches recording on again, also inside `no_grad()`
"""),
    late,
    # What a line makes.
    *rules(
        r"""
[maker when:makes_next] layer\.requires_grad = False -> layer.requires_grad_(False)
    `layer.requires_grad = False` sets an attribute that nobody reads: the parameters still require grad
[maker own when:no_flag_before] (\w+ = layer\(.*) -> layer.requires_grad_(False)\n\1
    with: With `layer.requires_grad_(False)` before it
    The parameters of a layer require grad, so its output does, whatever its input
[maker own when:in_block] (\w+) = (N\d+_)(\[.*|\.view.*|\.unsq.*|\.resh.*) -> \1 = \2\3.clone()
    A view answers for its base, also where nothing is recorded: `{1}` requires grad, and so the view says it does,
    though it has no history
[maker own] (\w+) = nn\.Parameter\((torch.*), requires_grad=False\)$ -> \1 = nn.Parameter(\2)
    `nn.Parameter` raises the flag unless `requires_grad=False` says otherwise
[maker own] (\w+) = nn\.Parameter\((torch.*)\)$ -> \1 = \2
    `nn.Parameter` raises the flag by itself
[maker own] (\w+) = nn\.Parameter\((N.*)\)$ -> \1 = (\2).detach()
    `nn.Parameter(...)` takes the values alone: it makes a new leaf that requires grad
[maker own] (\w+) = (torch\.[^N]*?)(?:, requires_grad=True\)|\)\.requires_grad_\(\))$ -> \1 = \2)
    The flag is asked for when the tensor is made, and nothing lowers it later
[maker own] (N\d+_) = (torch\.(?!.*requires_grad)[^N]*)\)$ -> \1 = \2, requires_grad=True)
    A new tensor does not require grad unless you ask for it
""",
        makes_next=_makes_next,
        no_flag_before=_no_flag_before,
        in_block=_in_block,
    ),
    recorded,
)
