"""Drills on hooks: which of them fires, and what does it see? (``write``)

A number goes through two modules, and hooks note in ``seen`` what they see of it, or of its gradient.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from course_utils.drills.page import Asked, Page, Refused, Rules
from course_utils.drills.programs import Draw, Program
from course_utils.drills.rules import RANKS, Effect, rules
from course_utils.drills.run import execute
from course_utils.drills.texts import grammar

TASK = "What has each hook noted in `seen` when the last line has run?"
EXPLAINED = {
    "LeakyReLU": "`LeakyReLU(k)` multiplies a negative number by k.",
    "Hardtanh": "`Hardtanh` raises what is below -1 to -1, and lowers what is above 1 to 1.",
    "ReLU6": "`ReLU6` raises what is below 0 to 0, and lowers what is above 6 to 6.",
    "Threshold": "`Threshold(t, v)` gives v for a number that is not above t.",
}
LESSONS = ("forward_hooks",)
MARKS = {2: r"args\[0\] \* |out \* |inplace", 3: r"lambda grad"}
NOTHING = "nothing"
_KEYS = ("first", "second", "third", "fourth")
# Modules that make a number of a number, with the places where their slope jumps.
_KINKS = {
    **{"nn.ReLU()": (0.0,), "nn.LeakyReLU(0.5)": (0.0,), "nn.LeakyReLU(2.0)": (0.0,), "nn.Hardtanh()": (-1.0, 1.0)},
    **{
        "nn.ReLU6()": (0.0, 6.0),
        "nn.Threshold(1.5, 8.0)": (1.5,),
        "nn.ReLU(inplace=True)": (0.0,),
        "nn.Identity()": (),
    },
}
# The number $x goes through the modules $f and $g; what comes out of them are $h and $y.
_GRAMMAR = grammar(r"""
number: <<|->><<1|2|3|4|5|6|7>>.<<0|5>>
module: nn.<<ReLU()|LeakyReLU(0.5)|LeakyReLU(2.0)|Hardtanh()|ReLU6()|Threshold(1.5, 8.0)>>
start:
    seen = {}
    $f, $g = <<first module>>, <<second module>>
    net = nn.Sequential($f, $g)
    $x = torch.tensor([<<number>>])
first module x6: <<module>>
first module x1: nn.Identity()
second module: <<module>>
look x3: <<<<$f|$g>>|net>>.register_forward_hook(lambda _, args, out: seen.update(<<key>>=out))
look x2: <<<<$f|$g>>|net>>.register_forward_pre_hook(lambda _, args: seen.update(<<key>>=args[0]))

calls x4: <<start>>; <<look>>; <<look>>; <<look>>; <<run>>
calls x3: <<start>>; $z = <<look>>; <<look>>; <<look>>; $z.remove(); <<run>>
calls x2: <<start>>; <<look>>; <<look>>; <<run>>; <<look>>
calls x1: <<start>>; $z = <<look>>; <<look>>; $z.remove(); <<run>>; <<look>>
run x5: result = net<<||.forward>>($x)
run x3: result = $g($f<<|.forward>>($x))

change x1: <<$f|$g>>.register_forward_pre_hook(lambda _, args: args[0] * <<3|5|10>>)
change x1: <<$f|$g>>.register_forward_hook(lambda _, args, out: out * <<3|5|10>>)
passes x3: net($x)
passes x2:
    with torch.no_grad():
        net($x)
changes: <<start>>; <<change>>; <<look>>; <<look>>; <<look>>; <<passes>>
changes: <<start>>; <<look>>; <<change>>; <<look>>; <<look>>; <<passes>>
changes: <<start>>; <<look>>; <<look>>; <<change>>; <<look>>; <<passes>>
edits:
    seen = {}
    $f, $g = <<module>>, nn.ReLU(inplace=True)
    net = nn.Sequential($f, $g)
    $x = torch.tensor([<<number>>])
    <<look>>
    <<look>>
    <<look>>
    <<passes>>

forward look: <<$f|$g>>.register_forward_hook(lambda _, args, out: seen.update(<<key>>=out))
module look: <<$f|$g>>.register_full_backward_pre_hook(lambda _, grads: seen.update(<<key>>=grads[0]))
gradients x3:
    seen = {}
    $f, $g = <<module>>, <<module>>
    <<<<forward look>>|<<module look>>>>
    <<through>>
    <<three looks>>
    <<back>>
gradients x2:
    seen = {}
    $f, $g = <<module>>, <<module>>
    <<forward look>>
    <<module look>>
    <<through>>
    <<two looks>>
    <<back>>
through: $x = torch.tensor([<<number>>], requires_grad=True); $h = $f($x); $y = $g($h)
grad: <<$x|$h|$y>>.register_hook(lambda grad: seen.update(<<key>>=grad))
kept: $x.register_post_accumulate_grad_hook(lambda t: seen.update(<<key>>=t.grad))
grad change: <<$x|$h|$y>>.register_hook(lambda grad: grad * <<-1|3|5|10>>)
two looks: <<grad change>>; <<grad>>; <<<<grad>>|<<kept>>|<<kept>>>>
two looks: <<<<grad>>|<<kept>>>>; <<grad change>>; <<grad>>
three looks: <<two looks>>; <<grad>>
three looks: <<grad>>; <<two looks>>
back x3: (<<2..7>> * $y).backward()
back x3.5: torch.autograd.grad(<<2..7>> * $y, <<$x|$x|$h>>)
""")


class Hooks(Page):
    """A program while it is drawn, with the number of its keys."""

    keys = 0

    def hole(self, word: str, local: Mapping[str, str]) -> str:
        if word != "key":
            return super().hole(word, local)
        self.keys += 1
        return _KEYS[self.keys - 1]


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Hooks(draw, _GRAMMAR, {})
    f, g, x, h, y = (page.name(letter) for letter in "fgxhy")
    page.facts = {"g": g, "h": h, "y": y}
    page.add(f"<<{draw.weighted(({'calls': 1.0}, {'changes': 2.0, 'edits': 1.0}, {'gradients': 1.0})[level - 1])}>>")
    at = [page.space[x].detach().clone()]
    for module in (f, g):
        at.append(page.space[module].forward(at[-1].clone()))
    texts = re.findall(r"nn\.\w+\([^)]*\)", page.lines[1])
    if any(float(value) in _KINKS[text] for value, text in zip(at, texts, strict=False)):
        raise Refused("a module would have to say what its slope is where that jumps")
    base, keys = _read(page.lines), _KEYS[: page.keys]
    # What a reader might come to who misses something: what passes without hooks, and what is seen without one of them.
    numbers = {_shown(float(value)) for value in at} | set(base.values())
    for key in keys:
        for line in [line for rank in RANKS for line in page.effects(key, base[key], [_RULES] * len(page.lines), rank)]:
            numbers.update(*(page.tried(_read, effect).values() for effect in line))
    asked = []
    for key in keys:
        others = sorted(numbers - {base[key], NOTHING}, key=float)
        choices = {base[key], *draw.sample(others, min(3, len(others)))} - {NOTHING}
        says = {value: f"is {value}" for value in choices} | {NOTHING: "is never noted"}
        asked.append(Asked(key, "which number is noted under it?", says, (*sorted(choices, key=float), NOTHING)))
    program = page.finish(asked, _RULES, _read, least=len(keys))
    if level == 2 and not any(" place" in question.rule for question in program.questions):
        raise Refused("nothing that is noted is changed")
    return program


def _read(lines: Sequence[str]) -> dict[str, str]:
    """What each hook has noted."""
    seen = execute(lines)["seen"]
    return {key: _shown(seen[key].item()) if key in seen else NOTHING for key in _KEYS}


def _shown(value: float) -> str:
    """A number as it is answered."""
    return format(value + 0.0, "g")


def _notes(page: Page, key: str) -> int:
    """The line that registers the hook of a key."""
    return next(line for line, text in enumerate(page.lines, 1) if f"({key}=" in text)


def _late(page: Page, line: int, key: str) -> Effect | None:
    """A hook that is registered when the net has run."""
    run = next((number for number, text in enumerate(page.lines, 1) if text.startswith("result = ")), line)
    if line != _notes(page, key) or line <= run:
        return None
    lines = (
        *page.lines[: run - 1],
        f"{page.lines[line - 1]}\n{page.lines[run - 1]}",
        *page.lines[run : line - 1],
        "pass",
    )
    words = f"Line {run} has run by then, and a hook sees only what comes later"
    return Effect(line, words, lines, instead=f"With it before line {run}")


def _not_called(page: Page, line: int, key: str) -> Effect | None:
    """A line that passes a module's hooks by."""
    if not page.lines[line - 1].startswith("result = ") or _notes(page, key) > line:
        return None
    owner = page.lines[_notes(page, key) - 1].partition(".")[0].split()[-1]
    words = (
        f"Hooks run when a module is called. This line does not call `{owner}`: `forward` is a method, and knows of no "
    )
    lines = (*page.lines[: line - 1], f"result = net({page.name('x')})", *page.lines[line:])
    return Effect(line, f"{words}hooks", lines, answers=(NOTHING,))


def _is_kept(page: Page, line: int, key: str) -> bool:
    """Whether the hook waits for the ``.grad`` that would be filled last."""
    return "accumulate" in page.lines[_notes(page, key) - 1] and page.lines[line - 1].endswith(f", {page.name('x')})")


_RULES: Rules = (
    _late,
    _not_called,
    *rules(
        r"""
\w+\.remove\(\)
    `remove()` takes the hook of `first` away before the net runs
(\w+)\.register_forward_pre_hook\(lambda _, args: args\[0\] \*.*
    What this hook returns takes the place of what goes into `{0}`, for all that comes after it
(\w+)\.register_forward_hook\(lambda _, args, out: out \*.*
    What this hook returns takes the place of what comes out of `{0}`, for all that comes after it
(\w+)\.register_hook\(lambda grad: grad \*.*
    What this hook returns takes the place of the gradient of `{0}`, for all that comes after it
(.*)inplace=True -> \1
    What is noted is the tensor itself and no copy, and `{g}` edits it in place afterwards
[answer:nothing when:kept] torch\.autograd\.grad\((.*), (\w+)\) -> (\1).backward()
    `torch.autograd.grad` returns the gradient of `{1}` and fills no `.grad`
[answer:nothing] torch\.autograd\.grad\((.*), (\w+)\) -> (\1).backward()
    `torch.autograd.grad` goes back as far as `{1}` and no further
[maker] (?:\w+ = )?(\w+)\.register_forward_pre_hook\(.*\(KEY=.*
    A forward pre-hook of `{0}` runs before it, and sees its input
[maker] (?:\w+ = )?(\w+)\.register_forward_hook\(.*\(KEY=.*
    A forward hook of `{0}` runs when it has been called, and sees its result
[maker] (\w+)\.register_hook\(.*\(KEY=.*
    The hook sees the gradient of the result with respect to `{0}`, as it comes there
[maker] N1_\.register_full_backward_pre_hook\(.*\(KEY=.*
    The hook sees the gradient of the result with respect to `{h}`, as it comes there
[maker] N2_\.register_full_backward_pre_hook\(.*\(KEY=.*
    The hook sees the gradient of the result with respect to `{y}`, as it comes there
[maker] (\w+)\.register_post_accumulate_grad_hook\(.*\(KEY=.*
    The hook runs when `.grad` of `{0}` has been filled, after all other hooks of `{0}`
""",
        kept=_is_kept,
    ),
)
