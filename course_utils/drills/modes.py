"""Drills on grad modes: is grad mode on here, does this result require grad? (``write``)"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from course_utils.drills.mode_page import OFF, ON, ModePage, ModeTensor, body
from course_utils.drills.programs import Draw, Program, Question, Reason, named
from course_utils.drills.rules import explain_answer
from course_utils.drills.steps import factory, flagged_factory

_LINES = {1: (6, 7), 2: (7, 8, 9), 3: (9, 10, 11)}
_MOST_LINES = {1: 8, 2: 11, 3: 12}
_MOST_POINTS = {1: 3, 2: 3, 3: 4}
_MOST_KEYS = {1: 4, 2: 5, 3: 6}
# What a program must have that the level below has not: functions, layers, edits; then blocks in blocks and the like.
_MARKS = {
    1: "",
    2: r"def |lambda|layer|_\(\w\)|\+=|\[0\] =",
    3: r"(?m)^        |yield|Thread|^    torch\.set|^    \w = \w(\[|\.view)",
}

# Motifs. Each writes some lines, or none and returns False.


def block(page: ModePage) -> bool:
    """A block, and now and then a look at what comes after it."""
    context = page.draw.choice(OFF if page.on and page.draw.chance(0.75) else ON)
    with page.within(context):
        page.look()
        if page.draw.chance(0.25):
            inside(page)
    if page.draw.chance(0.5):
        page.look()
    return True


def inside(page: ModePage) -> bool:
    if not page.on and page.draw.chance(0.6):
        return made_inside(page)
    return page.look()


def made_inside(page: ModePage) -> bool:
    """A new tensor that asks for the flag where nothing is recorded."""
    if page.draw.chance(0.6):
        page.create(f"torch.ones({page.size}, requires_grad=True)", True, "factory", ask=True)
    else:
        page.create(f"nn.Parameter(torch.ones({page.size}))", True, "factory", ask=True)
    return True


def bare(page: ModePage) -> bool:
    """A context manager that is made and thrown away."""
    if not page.on or page.why is not None:
        return False
    line = page.write("torch.no_grad()")
    page.past = Reason(line, "bare")
    return page.look()


def statement(page: ModePage) -> bool:
    """``set_grad_enabled`` as a statement."""
    value = not page.on if page.draw.chance(0.85) else page.on
    line = page.write(f"torch.set_grad_enabled({value})")
    page.on, page.past = value, None
    page.why = Reason(line, "set", {"value": str(value)})
    return page.look()


def decorated(page: ModePage) -> bool:
    """A decorated function: the mode changes for the call alone."""
    if page.depth or not page.recording or not page.functions:
        return False
    function = page.functions.pop()
    context = page.draw.choice(("no_grad()", "no_grad()", "inference_mode()"))
    decorator = page.write(f"@torch.{context}")
    with page.block(f"def {function}(v):"):
        page.write(f"return {body(page.draw, 'v')}")
    source = page.source()
    if not source.flag:
        source = page.tensors[0]
    name = page.name()
    page.write(f"{name} = {function}({source.name})")
    why = Reason(decorator, "decorated", {"function": f"`{function}`"}, cuts=True)
    made = ModeTensor(name, False, why, usable=context == "no_grad()")
    page.tensors.append(made)
    page.ask_tensor(made)
    if page.why is None:
        page.past = Reason(decorator, "call is over", {"function": f"`{function}`"})
    if page.draw.chance(0.6):
        page.look()
    return True


def deferred(page: ModePage) -> bool:
    """A function that is made where nothing is recorded and called where it is, or the other way round."""
    if page.depth or not page.recording or not page.functions:
        return False
    function = page.functions.pop()
    code = f"{function} = lambda v: {body(page.draw, 'v')}"
    context = page.draw.choice(("no_grad()", "no_grad()", "set_grad_enabled(False)"))
    made_inside = page.draw.chance(0.6)
    if made_inside:
        with page.within(context):
            page.write(code)
        call(page, function, Reason(len(page.lines) + 1, "called", {"function": f"`{function}`"}))
    else:
        page.write(code)
        with page.within(context) as line:
            call(page, function, Reason(line, "inside off", {"context": context}, cuts=True))
    return True


def call(page: ModePage, function: str, why: Reason) -> None:
    name = page.name()
    page.write(f"{name} = {function}({page.tensors[0].name})")
    made = ModeTensor(name, not why.cuts, why)
    page.tensors.append(made)
    page.ask_tensor(made)


def evaluation(page: ModePage) -> bool:
    """``eval()`` has nothing to do with grad mode."""
    plain = [tensor for tensor in page.tensors if tensor.usable and not tensor.flag and not tensor.why.cuts]
    if not page.recording or page.depth or not plain or any("layer" in line for line in page.lines):
        return False
    line = page.write(f"layer = nn.Linear({page.size}, {page.draw.choice((1, 2))}).eval()")
    name = page.name()
    page.write(f"{name} = layer({page.draw.choice(plain).name})")
    made = ModeTensor(name, True, Reason(line, "eval"))
    page.ask_tensor(made)
    return True


def written(page: ModePage) -> bool:
    """An in-place edit, recorded or not."""
    if page.depth or not page.recording:
        return False
    target, source = page.name(), page.tensors[0].name
    line = page.write(f"{target} = torch.zeros({page.size})")
    text = page.draw.choice(("{t}.copy_({s})", "{t} += {s}", "{t}[0] = {s}[0]", "{t}.add_({s})"))
    edit = text.format(t=target, s=source)
    if page.draw.chance(0.6):
        with page.within("no_grad()") as line:
            at = page.write(edit)
        made = ModeTensor(target, False, Reason(line, "unrecorded write", {"write": str(at)}, cuts=True))
    else:
        line = page.write(edit)
        made = ModeTensor(target, True, Reason(line, "written", {"source": f"`{source}`", "target": f"`{target}`"}))
    page.ask_tensor(made)
    return True


def nested(page: ModePage) -> bool:
    """Blocks in blocks, two or three deep."""
    if page.depth or not page.recording:
        return False
    outer = page.draw.choice(OFF[1:])
    with page.within(outer):
        if page.draw.chance(0.5):
            page.look()
        inner = list(ON)
        if outer == "inference_mode()":
            inner.append("inference_mode(False)")
        with page.within(page.draw.choice(inner)):
            page.look()
            # Inside inference mode it would be one of two lines that decide alone.
            if not page.inference_line and page.draw.chance(0.3):
                with page.within("no_grad()"):
                    page.look()
        if page.draw.chance(0.7):
            page.look()
    if page.draw.chance(0.4):
        page.look()
    return True


def set_inside(page: ModePage) -> bool:
    """``set_grad_enabled`` as a statement in a block: the end of the block undoes it."""
    if page.depth or not page.recording:
        return False
    with page.within(page.draw.choice(("enable_grad()", "no_grad()"))):
        if page.draw.chance(0.5):
            page.look()
        statement(page)
    return page.look()


def view_inside(page: ModePage) -> bool:
    """A view of a tensor that requires grad, taken where nothing is recorded."""
    if page.depth or not page.recording:
        return False
    with page.within(page.draw.choice(("no_grad()", "set_grad_enabled(False)"))):
        name, source = page.name(), page.tensors[0].name
        line = page.write(f"{name} = {source}{page.draw.choice(('[0]', '[1:]', '[:2]', '.view(-1, 1)'))}")
        page.ask_tensor(ModeTensor(name, True, Reason(line, "view", {"source": f"`{source}`"})))
        if page.draw.chance(0.6):
            page.look()
    return True


def generator(page: ModePage) -> bool:
    """A generator with a block around its ``yield``, or decorated."""
    if page.depth or not page.recording or page.why is not None or any("yield" in line for line in page.lines):
        return False
    is_decorated = page.draw.chance(0.5)
    decorator = page.write("@torch.no_grad()") if is_decorated else 0
    expression = body(page.draw, "v")
    with page.block("def stream(v):"):
        if is_decorated:
            page.write(f"yield {expression}")
            line = decorator
        else:
            with page.block("with torch.no_grad():") as line:
                page.write(f"yield {expression}")
    page.write(f"batches = stream({page.tensors[0].name})")
    name = page.name()
    page.write(f"{name} = next(batches)")
    rule = "decorated generator" if is_decorated else "generator"
    page.ask_tensor(ModeTensor(name, False, Reason(line, rule, {"call": "next"}, cuts=True)))
    if is_decorated:
        page.past = Reason(line, "decorated generator waits")
    else:
        page.on, page.why = False, Reason(line, "generator leaks")
    page.look()
    if not is_decorated:
        page.write("batches.close()")
        page.on, page.why, page.past = True, None, Reason(len(page.lines), "generator closed")
        if page.draw.chance(0.6):
            page.look()
    return True


def thread(page: ModePage) -> bool:
    """A thread that is started where grad mode is off."""
    if page.depth or not page.recording or any("Thread" in line for line in page.lines):
        return False
    page.write("seen = []")
    function = body(page.draw, page.tensors[0].name)
    with page.within(page.draw.choice(("no_grad()", "inference_mode()"))):
        line = page.write(f"worker = Thread(target=lambda: seen.append({function}))")
        page.write("worker.start()")
        page.write("worker.join()")
    name = page.name()
    page.write(f"{name} = seen[0]")
    made = ModeTensor(name, True, Reason(line, "thread"))
    page.ask_tensor(made)
    return True


_MOTIFS: dict[int, Mapping[Callable[[ModePage], bool], float]] = {
    1: {block: 5, bare: 1.5, statement: 1.5},
    2: {block: 3, bare: 1, statement: 1, decorated: 2, deferred: 2, evaluation: 1.5, written: 2},
    3: {nested: 4, set_inside: 2, view_inside: 1, generator: 2, thread: 1.5, block: 1, decorated: 1},
}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = ModePage(draw, _MOST_POINTS[level])
        page.create(flagged_factory(draw, page.size), True, "raised")
        if level < 3 and draw.chance(0.6):
            page.create(factory(draw, page.size), False, "default")
        goal = draw.choice(_LINES[level])
        while len(page.lines) < goal:
            draw.weighted(_MOTIFS[level])(page)
        if (
            page.fits
            and len(page.lines) <= _MOST_LINES[level]
            and (program := _finish(page, _MOST_KEYS[level])) is not None
            and re.search(_MARKS[level], program.code)
        ):
            return program


def _finish(page: ModePage, most: int) -> Program | None:
    names = page.names()
    asked = page.asked
    if len(asked) > most:
        asked = [asked[index] for index in sorted(page.draw.sample(range(len(asked)), most))]
    if len(asked) < 3 or len({answer for _, answer, _, _ in asked}) < 2:
        return None
    questions = tuple(
        Question(named(key, names), answer, why.line, why.rule, named(explain_answer(why, then), names))
        for key, answer, why, then in asked
    )
    return Program(tuple(named(line, names) for line in page.lines), questions)
