"""Drills on grad modes: is grad mode on here, does this result require grad? (``write``)"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch

from course_utils.drills.page import Asked, Page, Refused, Rules
from course_utils.drills.programs import Draw, Program
from course_utils.drills.rules import indent_of, rules
from course_utils.drills.run import execute
from course_utils.drills.tensors import RULES, WRITTEN, Tensors
from course_utils.drills.texts import grammar

TASK = "What does each call of `torch.is_grad_enabled()` give? Which tensors require grad when all has run?"
LESSONS = ("volatile_history", "no_grad")
# Level 2 has functions, layers and edits; level 3 blocks in blocks and the like.
MARKS = {
    2: r"def |lambda|layer|_\(\w\)|\+=|\[0\] =",
    3: r"(?m)^        |yield|Thread|^    torch\.set|^    \w = \w(\[|\.view)",
}
_POINTS = ("first", "second", "third", "fourth")
_GRAMMAR = grammar(r"""
off: <<no_grad()|no_grad()|inference_mode()|set_grad_enabled(False)>>
on: <<enable_grad()|set_grad_enabled(True)>>
look x4: <<point>> = torch.is_grad_enabled()
look x6: <<new>> = <<v:=source>><<body>>
look? x1: <<look>>
look? x1:
body: <<v>><< * <<k>>| + <<k>>| / <<k>>| ** 2|.exp()|.sin()|.tanh()>>
body of v: v<< * <<k>>| + <<k>>| / <<k>>| ** 2|.exp()|.sin()|.tanh()>>

block x3:
    with torch.<<off>>:
        <<look>>
        <<inside?>>
    <<look?>>
block x1:
    with torch.<<on>>:
        <<look>>
        <<inside?>>
    <<look?>>
inside? x3:
inside? x0.5: <<look>>
inside? x0.5: <<new>> = <<torch.ones(<<size>>, requires_grad=True)|nn.Parameter(torch.ones(<<size>>))>>
bare: torch.no_grad(); <<look>>
statement: torch.set_grad_enabled(<<True|False>>); <<look>>
decorated:
    <<f:=function>>@torch.<<no_grad()|no_grad()|inference_mode()>>
    def <<f>>(v):
        return <<body of v>>
    <<new>> = <<f>>(<<source>>)
    <<look?>>
deferred:
    <<f:=function>>with torch.<<off>>:
        <<f>> = lambda v: <<body of v>>
    <<new>> = <<f>>(<<source>>)
deferred:
    <<f:=function>><<f>> = lambda v: <<body of v>>
    with torch.<<off>>:
        <<new>> = <<f>>(<<source>>)
evaluation: layer = nn.Linear(<<size>>, <<1|2>>).eval(); <<new>> = layer(<<down>>)
written: <<t:=new>><<t>> = torch.zeros(<<size>>); <<s:=vector>><<edit>>
written:
    <<t:=new>><<t>> = torch.zeros(<<size>>)
    with torch.no_grad():
        <<s:=vector>><<edit>>
nested:
    with torch.<<off>>:
        <<look?>>
        with torch.<<on>>:
            <<look>>
        <<look?>>
    <<look?>>
nested:
    with torch.<<off>>:
        with torch.<<on>>:
            <<look>>
            with torch.no_grad():
                <<look>>
        <<look?>>
nested:
    with torch.inference_mode():
        <<look?>>
        with torch.<<<<on>>|inference_mode(False)>>:
            <<look>>
set inside:
    with torch.<<enable_grad()|no_grad()>>:
        <<look?>>
        <<statement>>
    <<look>>
view inside:
    with torch.<<no_grad()|set_grad_enabled(False)>>:
        <<a:=vector>><<view>>
        <<look?>>
generator:
    @torch.no_grad()
    def stream(v):
        yield <<body of v>>
    batches = stream(<<source>>)
    <<new>> = next(batches)
    <<look>>
generator:
    def stream(v):
        with torch.no_grad():
            yield <<body of v>>
    batches = stream(<<source>>)
    <<new>> = next(batches)
    <<look>>
    batches.close()
    <<look?>>
thread:
    seen = []
    with torch.<<no_grad()|inference_mode()>>:
        worker = Thread(target=lambda: seen.append(<<v:=source>><<body>>))
        worker.start()
        worker.join()
    <<new>> = seen[0]
""")
_MOTIFS = {
    1: {"block": 5.0, "bare": 1.5, "statement": 1.5},
    2: {"block": 3, "bare": 1, "statement": 1, "decorated": 2, "deferred": 2, "evaluation": 1.5, "written": 2},
    3: {"nested": 4, "set inside": 2, "view inside": 1, "generator": 2, "thread": 1.5, "block": 1, "decorated": 1},
}
_LINES, _MOST_LINES, _MOST = {1: (6, 7), 2: (7, 8, 9), 3: (9, 10, 11)}, {1: 8, 2: 11, 3: 12}, {1: 2, 2: 3, 3: 3}


class Modes(Tensors):
    """A program while it is drawn, with the number of its looks at the mode."""

    points = 0

    def add(self, text: str, run: bool = True) -> int:
        before = self.points
        try:
            return super().add(text, run)
        except Refused:
            self.points = before
            raise

    def hole(self, word: str, local: Mapping[str, str]) -> str:
        if word == "point":
            self.points += 1
            if self.points > len(_POINTS):
                raise Refused("no point is left")
            return _POINTS[self.points - 1]
        if word == "function":
            return self.draw.choice([name for name in _FUNCTIONS if name not in self.space])
        return super().hole("up" if word == "source" else word, local)


_FUNCTIONS = ("double", "scale", "blend", "shift", "step", "apply")


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Modes(draw, _GRAMMAR)
    page.add("<<flagged>>")
    if level < 3 and draw.chance(0.6):
        page.add("<<plain>>")
    start = len(page.tensors())
    page.grow(lambda: _MOTIFS[level], draw.choice(_LINES[level]))
    if len(page.lines) > _MOST_LINES[level]:
        raise Refused("too long")
    flag, mode = {True: "requires grad", False: "does not require grad"}, {True: "is True", False: "is False"}
    names = [*list(page.tensors())[start:], *(name for name in _POINTS if name in page.space)]
    names.sort(key=lambda name: next(at for at, line in enumerate(page.lines) if f"{name} = " in line))
    kinds = {True: ("what is its value?", mode), False: ("does it require grad?", flag)}
    asked = [Asked(name, *kinds[name in _POINTS]) for name in names]
    return page.finish(asked, _RULES, _read, most=_MOST[level])


def _read(lines: Sequence[str]) -> dict[str, bool]:
    names = execute(lines).items()
    modes = {name: value for name, value in names if isinstance(value, bool)}
    return modes | {name: value.requires_grad for name, value in names if isinstance(value, torch.Tensor)}


def _made_at(page: Page, key: str) -> int:
    """The line that makes what a key is about."""
    return max(at for at, line in enumerate(page.lines, 1) if line.lstrip().startswith(f"{key} = "))


def _deeper(page: Page, line: int, key: str) -> bool:
    """Whether a tensor is made in a block inside the one that opens here."""
    return indent_of(page.lines[_made_at(page, key) - 1]) > indent_of(page.lines[line - 1]) + 4 and key not in _POINTS


def _after(page: Page, line: int, key: str) -> bool:
    """Whether a thing is made outside all blocks, after this line."""
    made = _made_at(page, key)
    return made > line and not page.lines[made - 1].startswith(" ") and not page.lines[line - 1].startswith(" ")


def _from_a_block(page: Page, line: int, key: str) -> bool:
    """Whether the function that is called here was written in a block."""
    called = re.search(r"= (\w+)\(", page.lines[line - 1])
    return called is not None and any(text.startswith(f"    {called[1]} = lambda") for text in page.lines)


_RULES: Rules = (
    *WRITTEN,
    *rules(
        r"""
[when:deeper] with torch\.inference_mode\(\): -> if True:
    Inference mode records nothing, whatever grad mode says; only its end or `inference_mode(False)` leaves it
with torch\.no_grad\(\):(?=\n        yield(?:.*\n)*KEY = next) -> if True:
    The block in the generator is open while it computes its value
with torch\.no_grad\(\):(?=\n        yield) -> if True:
    At `yield` the generator waits inside its block, and grad mode is one for the whole thread: it stays off for the
    caller
with torch\.((?:no_grad|inference_mode|set_grad_enabled)\((?:False)?\)): -> if True:
    `{0}` switches grad mode off until its block ends
with torch\.((?:enable_grad|set_grad_enabled|inference_mode)\(\w*\)): -> if True:
    `{0}` switches grad mode on until its block ends
torch\.(set_grad_enabled\((\w+)\)) -> torch.set_grad_enabled(not \2)
    `{0}` as a statement holds from its line on, to the end of the block it stands in
@torch\.\S+(?=\ndef stream)
    The decorator switches grad mode off each time the generator runs
@torch\.\S+(?=\ndef (\w+))
    The decorator switches grad mode off while `{0}` runs, so nothing in it is recorded
batches\.close\(\)
    `close()` ends the generator's block, and the mode from before it comes back

[trap when:after] with torch\.((?:no_grad|inference_mode|set_grad_enabled)\((?:False)?\)):
    -> torch.set_grad_enabled(False)\nif True:
    with: Were it off from there on,
    When the block of `{0}` ends, the mode from before it comes back: grad mode is on again
[trap] torch\.no_grad\(\)$ -> torch.set_grad_enabled(False)
    `torch.no_grad()` alone on a line makes a context manager that nobody enters: nothing is switched off
[trap] @torch\.\S+\n(def stream.*\n)    (yield.*) -> pass\n\1    with torch.no_grad(): \2
    with: Were it still off there,
    The decorator switches grad mode back whenever the generator waits at its `yield`
[trap when:after] @torch\.\S+\n(def (\w+).*\n    )(return) -> pass\n\1torch.set_grad_enabled(False)\n    \3
    with: Were it off from there on,
    The decorator switches grad mode off while `{1}` runs, and only then
[trap own when:from_a_block] (\w+ = (\w+)\(.*) -> with torch.no_grad(): \1
    What counts is the mode when `{1}` is called, not the mode when it was written
[trap] (layer = .*)\.eval\(\)\n(?=KEY) -> \1.requires_grad_(False)\n
    `eval()` changes what dropout and batch norm do, and nothing about recording: the parameters require grad
[trap] worker = Thread\(target=(.*)\)(?=\n(?:.*\n)*KEY = seen) -> worker = Thread(target=torch.no_grad()(\1))
    Each thread has a grad mode of its own, and a new one starts with grad mode on

[maker own] (\w+ = torch\.is_grad_enabled\(\)) -> torch.set_grad_enabled(False)\n\1
    with: With `torch.set_grad_enabled(False)` before it
    Grad mode is on until something switches it off
[maker own when:in_block] (\w+) = (?:nn\.Parameter\()?(torch\.ones\(.)(?:\)\)|, requires_grad=True\)) -> \1 = \2)
    Grad modes decide what is recorded. A new tensor has the flag that it asks for, and a parameter asks
""",
        deeper=_deeper,
        after=_after,
        from_a_block=_from_a_block,
        in_block=lambda page, line, key: page.lines[line - 1].startswith(" "),
    ),
    *RULES,
)
