"""Which line decides: programs whose deciding lines were found by hand, and programs in which none decides alone."""

import contextlib
import importlib
import re
import textwrap
from functools import partial
from pathlib import Path

import pytest

from course_utils.drills import tensors
from course_utils.drills.page import Page, Refused, has_marks
from course_utils.drills.programs import Draw
from course_utils.drills.run import apart, statements

# After each line the keys that it decides, and a part of what is said of it.
BY_HAND = {
    "flags": r"""
        $a = torch.ones(3, requires_grad=True)      # $a: nothing lowers it later
        $b = $a.detach()                            # $b $d: outside the graph
        $c = $a * 2                                 # $c: `$a` does here
        $d = $b + 1
        with torch.no_grad():                       # $g: Nothing that is computed under `no_grad()`
            $g = $a * 3
        $h = torch.zeros(3)
        $h[0] = $a[0]                               # $h: in place is recorded
        $k = torch.ones(3)
        $m = $k * 2                                 # $m: so nothing was recorded
        $k.requires_grad_()                         # $k: raises the flag
        """,
    "leaves": r"""
        $a = torch.ones(3, requires_grad=True)      # $a: no history
        $b = torch.rand(3)                          # $b $b.grad: no history|does not require grad
        $c = $a * $b                                # $c: as soon as one operand
        $d = $c.detach()                            # $d: outside the graph
        $g = $c.exp()                               # $g: as soon as one operand
        $h = $a + 1
        $h.retain_grad()                            # $h.grad: asks backward to keep
        loss = $g.sum() + $h.sum()
        loss.backward()
        """,
    "modes": r"""
        $a = torch.ones(3, requires_grad=True)
        with torch.no_grad():                       # first $b second: until its block ends|before it comes back
            first = torch.is_grad_enabled()
            $b = $a * 2
        second = torch.is_grad_enabled()
        torch.set_grad_enabled(False)               # third: from its line on
        third = torch.is_grad_enabled()
        """,
    "edits": r"""
        $a = torch.ones(3, requires_grad=True)
        $v = $a * 2
        $y = $v ** 2
        loss = $y.sum()
        $w = $v.data                                # backward $v_counted $v_changed: `.data`|Memory is shared
        !$w.mul_(2)
        """,
    "gates": r"""
        $x = torch.ones(3, 4)
        $b, $c = nn.Linear(4, 2), nn.Linear(4, 2)
        $g = torch.tensor([0.0, 1.0])
        $y = torch.zeros(3, 2)
        if $g[0]: $y = $y + $b($x)                  # $b_runs $b.weight.grad: does not call `$b`
        if $g[1]: $y = $y + $c($x)                  # $c_runs $c.weight.grad: calls `$c`|result of `$c`
        $y.sum().backward()
        """,
    "hooks": r"""
        seen = {}
        $f, $g = nn.ReLU(), nn.Hardtanh()
        net = nn.Sequential($f, $g)
        $x = torch.tensor([3.0])
        $f.register_forward_hook(lambda _, args, out: seen.update(first=out))
        $g.register_forward_pre_hook(lambda _, args: seen.update(second=args[0]))   # second: sees its input
        result = $g($f.forward($x))                 # first: does not call `$f`
        $g.register_forward_hook(lambda _, args, out: seen.update(third=out))       # third: has run by then
        """,
    "functions": r"""
        $a = torch.ones(4, requires_grad=True)      # $a: will fill its `.grad`
        $b = $a * 3
        $c = $b.sin()                               # $b: needs its input
        $d = $c.exp()                               # $c $d: needs its result
        $g = $d.sum()
        """,
}


def decided(topic, text):
    """By key, which line of a program decides and what is said of it; beside it, the same as found by hand."""
    module = importlib.import_module(f"course_utils.drills.{topic}")
    rows = [line.partition("  #") for line in textwrap.dedent(text).strip("\n").split("\n")]
    page = Page(Draw("by hand"), {}, {})
    letters = [page.name(letter) for letter in {"edits": "vw", "gates": "xbc", "hooks": "fgx"}.get(topic, "")]
    lines = [line.rstrip() for line, _, _ in rows]
    for _, _, code in statements([line.removeprefix("!") for line in lines]):
        page.add(code)
    edited = next((at for at, line in enumerate(lines, 1) if line.startswith("!")), 0)
    page.facts = {"first": edited, "last": edited, "saver": 3, "why": "It is needed", "v": "N1_", "w": "N2_"}
    if topic == "edits":
        page.add("loss.backward()", run=False)
    read = {
        "edits": lambda: partial(module._read, (edited, edited), letters[:1]),
        "gates": lambda: partial(module._read, page, (0, 0)),
    }.get(topic, lambda: module._read)()
    by_hand = {}
    for number, (_, _, marks) in enumerate(rows, 1):
        keys, _, words = page.fill(marks.strip()).partition(": ")
        by_hand |= {key.replace("_runs", " runs").replace("__", "_ "): (number, words) for key in keys.split()}
    found = page.deciding(list(by_hand), vars(module).get("_RULES", tensors.RULES), read, read(page.lines))
    return by_hand, {key: (effect.line, effect.words) if effect else (0, "") for key, effect in found.items()}


@pytest.mark.parametrize("topic", BY_HAND)
def test_the_deciding_line_is_the_one_found_by_hand(topic):
    by_hand, found = apart(lambda: decided(topic, BY_HAND[topic]))
    assert {key: line for key, (line, _) in by_hand.items()} == {key: line for key, (line, _) in found.items()}
    for key, (_, words) in by_hand.items():
        assert any(part in found[key][1] for part in words.split("|")), (key, found[key][1])


HEAD = """
from collections.abc import Sequence
import torch
from course_utils.drills.page import Asked, Page
from course_utils.drills.programs import Draw, Program
from course_utils.drills.rules import rules
from course_utils.drills.run import execute
from course_utils.drills.texts import grammar
"""


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_topic_on_the_page_for_contributors_works(level):
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = re.search(r"## Add a drill topic.*?```python\n(.*?)```", page, re.DOTALL)[1]
    topic, made = {}, []
    exec(HEAD + code, topic)
    draw = Draw(f"memory/{level}")
    while len(made) < 5:
        with contextlib.suppress(Refused):
            made.append(apart(lambda: topic["write"](draw, level)))
    assert any(has_marks(program.code, topic["MARKS"], level) for program in made)
    for program in made:
        space = {}
        exec("import torch\n" + program.code, space)
        first = space[program.lines[0][0]].untyped_storage().data_ptr()
        for question in program.questions:
            assert question.answer == (space[question.key].untyped_storage().data_ptr() == first)
            assert program.lines[question.line - 1].startswith(f"{question.key} = ")


# Of these keys no line decides alone: two cuts, or two that would each do.
BY_NONE = {
    "flags": r"""
        $a = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            $b = $a.detach()                        # $b: two cuts
        $c = torch.zeros(3)
        $c[0] = $a[0]
        $c += $a                                    # $c: either edit records it
        """,
    "modes": r"""
        with torch.no_grad():
            with torch.inference_mode():
                first = torch.is_grad_enabled()     # first: either block
        """,
}


@pytest.mark.parametrize("topic", BY_NONE)
def test_where_two_lines_would_each_do_none_decides(topic):
    by_hand, found = apart(lambda: decided(topic, BY_NONE[topic]))
    assert found == dict.fromkeys(by_hand, (0, ""))
