"""Drills on grad modes: is grad mode on here, does this result require grad? (``write``)"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import torch

from course_utils.drills.moves import Tensors, view_flagged, write_into
from course_utils.drills.programs import MAKER, TRAP, Draw, Effect, Program, Refused, reader

TASK = "What does each call of `torch.is_grad_enabled()` give? Which tensors require grad when all has run?"
LESSONS = ("volatile_history", "no_grad")
# Level 2 has functions, layers and edits; level 3 blocks in blocks and the like.
MARKS = {
    2: r"def |lambda|layer|_\(\w\)|\+=|\[0\] =",
    3: r"(?m)^        |yield|Thread|^    torch\.set|^    \w = \w(\[|\.view)",
}
_LINES = {1: (6, 7), 2: (7, 8, 9), 3: (9, 10, 11)}
_MOST_LINES, _MOST_POINTS, _MOST_KEYS = {1: 8, 2: 11, 3: 12}, {1: 3, 2: 3, 3: 4}, {1: 2, 2: 3, 3: 3}
_OFF = ("no_grad()", "no_grad()", "inference_mode()", "set_grad_enabled(False)")
_ON = ("enable_grad()", "set_grad_enabled(True)")
_POINTS = ("first", "second", "third", "fourth")
_FUNCTIONS = ("double", "scale", "blend", "shift", "step", "apply")
_BODIES = ("{v} * {k}", "{v} + {k}", "{v} ** 2", "{v}.exp()", "{v}.sin()", "{v}.tanh()", "{v} / {k}")
_KEEP_OFF = "torch.set_grad_enabled(False)"


class Modes(Tensors):
    """A program while it is written.

    Attributes:
        trap: what may be taken to have switched the mode off, and has not or not for good.
        inference: the line that switched inference mode on; 0 where it is off.
    """

    def __init__(self, draw: Draw, most_points: int) -> None:
        super().__init__(draw)
        self.points = list(_POINTS[:most_points])
        self.functions = draw.sample(_FUNCTIONS, len(_FUNCTIONS))
        self.trap: Effect | None = None
        self.inference = 0

    @property
    def open(self) -> bool:
        """Whether the program stands outside all blocks, and records."""
        return not self.depth and torch.is_grad_enabled()

    @contextmanager
    def mode(self, context: str) -> Iterator[int]:
        """A block that sets the mode."""
        was_on, before, trap = torch.is_grad_enabled(), self.inference, self.trap
        is_off, context = context in _OFF, f"torch.{context}"
        with self.within(
            context, f"`{context[6:]}` switches grad mode {'off' if is_off else 'on'} until its block ends"
        ) as line:
            self.trap = None
            if "inference" in context:
                self.inference = line if is_off else 0
            yield line
        self.inference, self.trap = before, trap
        if was_on and is_off and not self.depth:
            rule = f"When the block of `{context[6:]}` ends, the mode from before it comes back: grad mode is on again"
            self.trapped(line, rule, f"{_KEEP_OFF}\nif True:")

    def trapped(self, line: int, rule: str, without: Mapping[int, str] | str) -> None:
        """Says why the mode is on from here, though it might be taken to be off."""
        changes = {line: without} if isinstance(without, str) else without
        self.trap = Effect(line, rule, changes, rank=TRAP, instead="Were it off from there on,")

    def ask_tensor(self, name: str) -> None:
        flag = {True: "requires grad", False: "does not require grad"}
        self.ask(name, "does it require grad?", lambda yes: f"`{name}` {flag[yes]}")

    def look(self) -> None:
        """A line that looks at the mode, or one that computes where it matters."""
        if self.points and self.draw.chance(0.4):
            name = self.points.pop(0)
            line = self.write(f"{name} = torch.is_grad_enabled()")
            text = self.lines[-1].strip()
            default = "Grad mode is on until something switches it off"
            self.effect(
                line, default, f"{_KEEP_OFF}\n{text}", name, rank=MAKER, instead=f"With `{_KEEP_OFF}` before it"
            )
            self.ask(name, "what is its value?", lambda yes: f"`{name}` is {yes}")
        else:
            sources = {x: 3.0 if self.space[x].requires_grad else 1.0 for x in self.floats()}
            if not self.open:  # so that the mode decides
                sources = {x: 1.0 for x in sources if self.space[x].requires_grad}
            if not sources:
                raise Refused("nothing requires grad")
            x = self.draw.weighted(sources)
            name = self.operate(self.body(x), [x])
            self.ask_tensor(name)
            if self.inference and torch.is_grad_enabled():
                rule = "Inference mode records nothing, whatever grad mode says; only its end or `inference_mode(False)` leaves it"
                self.effect(self.inference, rule, "if True:", name)
        if self.trap:
            self.effects.append(replace(self.trap, about=name))

    def body(self, operand: str) -> str:
        return self.draw.choice(_BODIES).format(v=operand, k=self.number())

    def function(self) -> str:
        if not self.open or not self.functions:
            raise Refused("no place for a function")
        return self.functions.pop()


# Motifs. Each writes some lines, and refuses where they have no place.


def block(page: Modes) -> None:
    """A block, and now and then a look at what comes after it."""
    with page.mode(page.draw.choice(_OFF if torch.is_grad_enabled() and page.draw.chance(0.75) else _ON)):
        page.look()
        if page.draw.chance(0.25):
            inside(page)
    if page.draw.chance(0.5):
        page.look()


def inside(page: Modes) -> None:
    """A new tensor that asks for the flag where nothing is recorded; or a second look."""
    if torch.is_grad_enabled() or page.draw.chance(0.4):
        return page.look()
    call, rule = (
        f"torch.ones({page.size})",
        "Grad modes decide what is recorded. A new tensor has the flag that it asks for",
    )
    text = page.draw.choice((f"{call[:-1]}, requires_grad=True)",) * 3 + (f"nn.Parameter({call})",) * 2)
    name = page.name()
    page.made(name, text, f"{rule}, and a parameter asks", call)
    page.ask_tensor(name)


def bare(page: Modes) -> None:
    """A context manager that is made and thrown away."""
    if not page.open:
        raise Refused("it would change nothing")
    line = page.write("torch.no_grad()")
    rule = "`torch.no_grad()` alone on a line makes a context manager that nobody enters: nothing is switched off"
    page.trapped(line, rule, _KEEP_OFF)
    page.look()


def statement(page: Modes) -> None:
    """``set_grad_enabled`` as a statement."""
    value = not torch.is_grad_enabled() if page.draw.chance(0.85) else torch.is_grad_enabled()
    line = page.write(f"torch.set_grad_enabled({value})")
    page.trap = None
    rule = f"`set_grad_enabled({value})` as a statement holds from its line on, to the end of the block it stands in"
    page.effect(line, rule, f"torch.set_grad_enabled({not value})")
    page.look()


def decorated(page: Modes) -> None:
    """A decorated function: the mode changes for the call alone."""
    function, context = page.function(), page.draw.choice(("no_grad()", "no_grad()", "inference_mode()"))
    line = page.write(f"@torch.{context}\ndef {function}(v):\n    return {page.body('v')}")
    name, x = page.name(), page.draw.choice(page.floats(True))
    page.write(f"{name} = {function}({x})")
    rule = f"The decorator switches grad mode off while `{function}` runs"
    page.effect(line, f"{rule}, so nothing in it is recorded")
    page.ask_tensor(name)
    body = page.lines[line + 1].strip()
    page.trapped(line, f"{rule}, and only then", {line: "pass", line + 2: f"{_KEEP_OFF}\n{body}"})
    if page.draw.chance(0.6):
        page.look()


def deferred(page: Modes) -> None:
    """A function that is made where nothing is recorded and called where it is, or the other way round."""
    function, context = page.function(), page.draw.choice(("no_grad()", "no_grad()", "set_grad_enabled(False)"))
    code, x, name = f"{function} = lambda v: {page.body('v')}", page.floats(True)[0], page.name()
    call = f"{name} = {function}({x})"
    if page.draw.chance(0.6):
        with page.mode(context):
            page.write(code)
        line = page.write(call)
        rule = f"What counts is the mode when `{function}` is called, not the mode when it was written"
        page.effect(line, rule, f"with torch.no_grad(): {call}", name, rank=MAKER)
    else:
        page.write(code)
        with page.mode(context):
            page.write(call)
    page.ask_tensor(name)


def evaluation(page: Modes) -> None:
    """``eval()`` has nothing to do with grad mode."""
    plain = [name for name in page.floats(False) if name in page.created]
    if not page.open or not plain or "layer" in page.space:
        raise Refused("no place for a layer")
    text = f"layer = nn.Linear({page.size}, {page.draw.choice((1, 2))})"
    line, name = page.write(f"{text}.eval()"), page.name()
    page.write(f"{name} = layer({page.draw.choice(plain)})")
    rule = "`eval()` changes what dropout and batch norm do, and nothing about recording: the parameters require grad"
    page.effect(line, rule, f"{text}.requires_grad_(False)", name, rank=MAKER)
    page.ask_tensor(name)


def written(page: Modes) -> None:
    """An in-place edit, recorded or not."""
    if not page.open:
        raise Refused("no place for an edit")
    name, n = page.name(), page.size
    page.made(
        name,
        f"torch.zeros({n})",
        "A new tensor does not require grad unless you ask for it",
        f"torch.zeros({n}, requires_grad=True)",
    )
    page.created = [name]
    if page.draw.chance(0.6):
        with page.mode("no_grad()"):
            write_into(page)
    else:
        write_into(page)
    page.ask_tensor(name)


def nested(page: Modes) -> None:
    """Blocks in blocks, two or three deep."""
    if not page.open:
        raise Refused("no place for blocks")
    outer = page.draw.choice(_OFF[1:])
    with page.mode(outer):
        if page.draw.chance(0.5):
            page.look()
        with page.mode(page.draw.choice((*_ON, "inference_mode(False)") if "inference" in outer else _ON)):
            page.look()
            # Inside inference mode it would be one of two lines that decide alone.
            if not page.inference and page.draw.chance(0.3):
                with page.mode("no_grad()"):
                    page.look()
        if page.draw.chance(0.7):
            page.look()
    if page.draw.chance(0.4):
        page.look()


def set_inside(page: Modes) -> None:
    """``set_grad_enabled`` as a statement in a block: the end of the block undoes it."""
    if not page.open:
        raise Refused("no place for a block")
    with page.mode(page.draw.choice(("enable_grad()", "no_grad()"))):
        if page.draw.chance(0.5):
            page.look()
        statement(page)
    page.look()


def view_inside(page: Modes) -> None:
    """A view of a tensor that requires grad, taken where nothing is recorded."""
    if not page.open:
        raise Refused("no place for a block")
    with page.mode(page.draw.choice(("no_grad()", "set_grad_enabled(False)"))):
        view_flagged(page)
        page.ask_tensor(list(page.tensors())[-1])
        if page.draw.chance(0.6):
            page.look()


def generator(page: Modes) -> None:
    """A generator with a block around its ``yield``, or decorated."""
    if not page.open or page.trap or "stream" in page.space:
        raise Refused("no place for a generator")
    given, name, x = f"yield {page.body('v')}", page.name(), page.floats(True)[0]
    is_decorated = page.draw.chance(0.5)
    if is_decorated:
        line = page.write(f"@torch.no_grad()\ndef stream(v):\n    {given}")
        rule = "The decorator switches grad mode off each time the generator runs"
        page.effect(line, rule)
        waits = "The decorator switches grad mode back whenever the generator waits at its `yield`"
        page.trapped(line, waits, {line: "pass", line + 2: f"with torch.no_grad(): {given}"})
    else:
        line = page.write(f"def stream(v):\n    with torch.no_grad():\n        {given}") + 1
        leaks = (
            "At `yield` the generator waits inside its block, and grad mode is one for the whole thread: it stays off for the "
            "caller"
        )
        page.effect(line, leaks, "if True:")
        page.effect(line, "The block in the generator is open while it computes its value", "if True:", name)
    page.write(f"batches = stream({x})")
    page.write(f"{name} = next(batches)")
    page.ask_tensor(name)
    page.look()
    if not is_decorated:
        page.effect(
            page.write("batches.close()"),
            "`close()` ends the generator's block, and the mode from before it comes back",
        )
        if page.draw.chance(0.6):
            page.look()


def thread(page: Modes) -> None:
    """A thread that is started where grad mode is off."""
    if not page.open or "worker" in page.space:
        raise Refused("no place for a thread")
    page.write("seen = []")
    function, name = f"lambda: seen.append({page.body(page.floats(True)[0])})", page.name()
    with page.mode(page.draw.choice(("no_grad()", "inference_mode()"))):
        line = page.write(f"worker = Thread(target={function})")
        page.write("worker.start()")
        page.write("worker.join()")
    page.write(f"{name} = seen[0]")
    rule = "Each thread has a grad mode of its own, and a new one starts with grad mode on"
    page.effect(line, rule, f"worker = Thread(target=torch.no_grad()({function}))", name, rank=MAKER)
    page.ask_tensor(name)


_MOTIFS: dict[int, Mapping[Callable[[Modes], None], float]] = {
    1: {block: 5, bare: 1.5, statement: 1.5},
    2: {block: 3, bare: 1, statement: 1, decorated: 2, deferred: 2, evaluation: 1.5, written: 2},
    3: {nested: 4, set_inside: 2, view_inside: 1, generator: 2, thread: 1.5, block: 1, decorated: 1},
}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    page = Modes(draw, _MOST_POINTS[level])
    page.flagged()
    if level < 3 and draw.chance(0.6):
        page.plain()
    goal = draw.choice(_LINES[level])
    while len(page.lines) < goal:
        page.take(_MOTIFS[level])
    if len(page.lines) > _MOST_LINES[level]:
        raise Refused("too long")
    return page.finish(
        reader(lambda name, value: {name: value if value is True or value is False else value.requires_grad}),
        most=_MOST_KEYS[level],
    )
