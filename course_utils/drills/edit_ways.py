"""The ways in which a drill edits a tensor, each with its answers (``WAYS``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from course_utils.drills.edit_page import METHODS, EditPage
from course_utils.drills.programs import ERROR, RIGHT, WRONG, Reason


def _plain(page: EditPage) -> None:
    recorded = not page.is_leaf and not page.squares and page.draw.chance(0.4)
    if not recorded:
        page.write_loss()
    line = page.edit(page.change(page.victim))
    if recorded:
        page.write_loss()
    _noticed(page, line)


def _no_grad(page: EditPage) -> None:
    page.write_loss()
    _noticed(page, page.edit(page.change(page.victim), guarded=True))


def _noticed(page: EditPage, line: int) -> None:
    page.answer_backward(ERROR, line, "noticed")
    page.answer("changed", True, line, "edited")
    page.answer("counted", True, line, "counted")


def _before(page: EditPage) -> None:
    page.write_loss()
    line = page.edited[1]
    page.answer("backward", RIGHT, line, "before")
    page.answer("changed", True, line, "edited")
    page.answer("counted", True, line, "counted")


def _not_in_place(page: EditPage) -> None:
    page.write_loss()
    line = page.edit(f"{page.victim}.{page.draw.choice(METHODS).replace('_(', '(').replace('zero', 'neg')}")
    for what, value in (("backward", RIGHT), ("changed", False), ("counted", False)):
        page.answer(what, value, line, "not in place")


def _view(page: EditPage) -> None:
    page.write_loss()
    tail = page.draw.choice(("[1:]", "[:2]", "[0]"))
    if page.is_leaf:
        at = line = page.edit(f"{page.victim}{tail}.{page.draw.choice(METHODS)}")
    else:
        line, at = page.through(tail)
    _shared(page, line, at)


def _nested_view(page: EditPage) -> None:
    page.write_loss()
    draw = page.draw
    outer, inner = draw.choice((("[1:]", "[0]"), ("[:3]", "[1:]"), ("[1:]", "[:2]"), (".view(2, 2)", "[0]")))
    name = page.name()
    change = f"{name}{inner}.{draw.choice(METHODS)}" if draw.chance(0.6) else f"{name}{inner} = 0.1"
    if page.is_leaf or draw.chance(0.4):
        start = len(page.lines) + 1
        with page.block("with torch.no_grad():"):
            line = page.write(f"{name} = {page.victim}{outer}")
            at = page.write(change)
        page.edited = (start, at)
    else:
        line = page.write(f"{name} = {page.victim}{outer}")
        at = page.edit(change)
    _shared(page, line, at)


def _detach(page: EditPage) -> None:
    page.write_loss()
    _shared(page, *page.through(".detach()"))


def _shared(page: EditPage, line: int, at: int) -> None:
    page.answer_backward(ERROR, at, "noticed")
    page.answer("changed", True, line, "shares")
    page.answer("counted", True, line, "shares its counter")


def _data(page: EditPage) -> None:
    page.write_loss()
    line, _ = page.through(".data")
    page.answer_backward(WRONG, line, "unnoticed")
    page.answer("changed", True, line, "shares")
    page.answer("counted", False, line, "own counter")


def _numpy(page: EditPage) -> None:
    page.write_loss()
    name = page.name()
    line = page.write(f"{name} = {page.victim}.detach().numpy()")
    page.edit(f"{name}{page.draw.choice((' *= 2', ' += 1', '[0] = 0.1', '[:] = 0.1', '[1:] *= 3'))}", guarded=False)
    page.answer_backward(WRONG, line, "unnoticed by numpy")
    page.answer("changed", True, line, "shares")
    page.answer("counted", False, line, "no counter")


def _copy(page: EditPage) -> None:
    page.write_loss()
    start = ".detach()" if page.is_leaf else page.draw.choice(("", "", ".detach()"))
    calls = [".clone()"] if page.level == 1 else [".clone()", ".clone()", ".double()", ".flip(0)", "[[0, 1]]"]
    if page.level > 2:
        calls = ["[1:].clone()", ".flip(0)[1:]", "[[0, 1]]", ".double()[:2]", "[:2].clone()"]
    call = page.draw.choice(calls)
    line, _ = page.through(start + call)
    for what, value in (("backward", RIGHT), ("changed", False), ("counted", False)):
        page.answer(what, value, line, "copy", call=f"`{call}`")


def _base(page: EditPage) -> None:
    draw = page.draw
    tail = draw.choice((".detach()", ".data", "[1:]", ".clone()", ".clone()", ".detach().clone()"))
    if not page.squares:
        page.write_loss()
    name = page.name()
    line = page.write(f"{name} = {page.victim}{tail}")
    if page.squares:
        page.write_loss()
    at = page.edit(f"{page.victim}.{draw.choice(METHODS)}")
    _noticed(page, at)
    copied = tail.endswith("clone()")
    facts = {"victim": f"`{page.victim}`", "why": "", "edit": str(at), "call": "`.clone()`"}
    page.answers.append((f"{name} changed", not copied, Reason(line, "copy" if copied else "shares", facts)))


def _same(page: EditPage) -> None:
    """A second name for the tensor itself."""
    page.write_loss()
    name, call = page.name(), page.draw.choice(("", ".float()", ".contiguous()", '.to("cpu")', ".requires_grad_()"))
    line = page.write(f"{name} = {page.victim}{call}")
    at = page.edit(page.change(name))
    page.answer_backward(ERROR, at, "noticed")
    for what in ("changed", "counted"):
        page.answer(what, True, line, "same tensor", alias=f"`{name}`")


def _rebound(page: EditPage) -> None:
    """A second name that goes on to another tensor."""
    page.write_loss()
    name = page.name()
    page.write(f"{name} = {page.victim}")
    line = page.edit(f"{name} = {name} {page.draw.choice(('* 2', '+ 1', '* 0.5', '- 3'))}")
    for what, value in (("backward", RIGHT), ("changed", False), ("counted", False)):
        page.answer(what, value, line, "rebound", alias=f"`{name}`")


def _put_back(page: EditPage) -> None:
    """Other values, and then the old ones again, all of it counted."""
    page.write_loss()
    name = page.name()
    page.write(f"{name} = {page.victim}.detach().clone()")
    with page.block("with torch.no_grad():") as start:
        page.write(f"{page.victim}.{page.draw.choice(METHODS)}")
        last = page.write(f"{page.victim}.copy_({name})")
    page.edited = start, last
    page.answer_backward(ERROR, start, "put back, counted")
    page.answer("changed", False, last, "put back")
    page.answer("counted", True, start, "counted")


def _replaced(page: EditPage) -> None:
    """Other values by way of an assignment to ``.data``."""
    page.write_loss()
    form = page.draw.choice(("{h} * 2", "{h} + 1", "torch.zeros({n})", "{h} / 4"))
    line = page.edit(f"{page.victim}.data = {form.format(h=page.victim + '.data', n=page.size)}", guarded=False)
    page.answer_backward(WRONG, line, "replaced")
    page.answer("changed", True, line, "replaced")
    page.answer("counted", False, line, "replaced, uncounted")


def _step(page: EditPage) -> None:
    """An optimizer's step between the forward and the backward pass."""
    name, draw = page.name(), page.draw
    kind = draw.choice(("SGD", "SGD", "Adam", "RMSprop"))
    page.write(f"{name} = torch.optim.{kind}([{page.victim}], lr=0.{1 + draw.below(9)})")
    page.write_loss()
    page.write(f"{page.victim}.grad = torch.ones({page.size})")
    line = page.edit(f"{name}.step()", guarded=False)
    page.write(f"{name}.zero_grad()")
    page.answer_backward(ERROR, line, "noticed")
    for what in ("changed", "counted"):
        page.answer(what, True, line, "stepped")


def _elsewhere(page: EditPage) -> None:
    page.write_loss()
    change = page.draw.choice((".zero_()", ".mul_(2)", ".add_(1)"))
    line = page.edit(f"{page.victim}.data[2:]{change}", guarded=False)
    page.answer("backward", RIGHT, line, "elsewhere")
    page.answer("changed", True, line, "shares")
    page.answer("counted", False, line, "own counter")


def _elsewhere_counted(page: EditPage) -> None:
    page.write_loss()
    change = page.draw.choice((".zero_()", ".mul_(2)", ".add_(1)"))
    line = page.edit(f"{page.victim}[2:]{change}")
    page.answer("backward", ERROR, line, "one counter")
    page.answer("changed", True, line, "shares")
    page.answer("counted", True, line, "shares its counter")


def _undone(page: EditPage) -> None:
    page.write_loss()
    there, back = page.draw.choice((("mul_(2)", "div_(2)"), ("mul_(4)", "div_(4)"), ("div_(2)", "mul_(2)")))
    target, line = page.alias(".data")
    first = page.edit(f"{target}.{there}", guarded=False)
    last = page.edit(f"{target}.{back}", guarded=False)
    page.answer("backward", RIGHT, last, "undone")
    page.answer("changed", False, last, "undone")
    page.answer("counted", False, line or first, "own counter")


WAYS: Mapping[str, Callable[[EditPage], None]] = {
    "plain": _plain,
    "no_grad": _no_grad,
    "data": _data,
    "copy": _copy,
    "not in place": _not_in_place,
    "before": _before,
    "view": _view,
    "nested view": _nested_view,
    "detach": _detach,
    "base": _base,
    "numpy": _numpy,
    "elsewhere": _elsewhere,
    "elsewhere, counted": _elsewhere_counted,
    "undone": _undone,
    "same": _same,
    "rebound": _rebound,
    "put back": _put_back,
    "replaced": _replaced,
    "step": _step,
}
