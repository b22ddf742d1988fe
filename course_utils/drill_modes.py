"""Drills on grad modes: is grad mode on here, does this result require grad? (``write``)

Imports drill_programs, drill_steps and drill_rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from course_utils.drill_programs import Draw, Page, Program, Question, Reason, named
from course_utils.drill_rules import explain_answer
from course_utils.drill_steps import factory, flagged_factory, number

ASKS = (
    "What does each `torch.is_grad_enabled()` give, and which of the other tensors require grad when the last line has run?"
)

_OFF = ("no_grad()", "no_grad()", "inference_mode()", "set_grad_enabled(False)")
_ON = ("enable_grad()", "set_grad_enabled(True)")
_POINTS = ("first", "second", "third", "fourth")
_FUNCTIONS = ("double", "scale", "blend", "shift", "step", "apply")
_BODIES = ("{v} * {k}", "{v} + {k}", "{v} ** 2", "{v}.exp()", "{v}.sin()", "{v}.tanh()", "{v} / {k}")
_LINES = {1: (6, 7), 2: (7, 8, 9), 3: (9, 10, 11)}
_MOST_LINES = {1: 8, 2: 11, 3: 12}
_MOST_POINTS = {1: 3, 2: 3, 3: 4}
_MOST_KEYS = {1: 4, 2: 5, 3: 6}


@dataclass(eq=False)
class _Tensor:
    name: str
    flag: bool
    why: Reason
    usable: bool = True  # an inference tensor cannot be saved for backward, so nothing is computed from it


class _Modes(Page):
    """A program while it is written, with the mode at its end so far.

    Attributes:
        on: what ``torch.is_grad_enabled()`` gives.
        inference: whether inference mode is on.
        why: what last set the mode; None where it is on from the start.
        past: what may be taken to have switched the mode off and has not, or not for good.
    """

    def __init__(self, draw: Draw, most_points: int) -> None:
        super().__init__(draw)
        self.most_points = most_points
        self.on, self.inference = True, False
        self.why: Reason | None = None
        self.past: Reason | None = None
        self.depth = 0
        self.inference_line = 0
        self.size = draw.choice((3, 4, 5))
        self.tensors: list[_Tensor] = []
        self.asked: list[tuple[str, bool, Reason, str]] = []
        self.points = 0
        self.functions = draw.sample(_FUNCTIONS, len(_FUNCTIONS))

    @contextmanager
    def within(self, context: str, name: str = "") -> Iterator[int]:
        before = self.on, self.inference, self.why, self.past, self.inference_line
        with self.block(f"with torch.{context}:") as line:
            self.depth += 1
            self.on = context not in _OFF
            if context.startswith("inference_mode"):
                self.inference, self.inference_line = not self.on, line
            self.why, self.past = Reason(line, "inside on" if self.on else "inside off", {"context": context}), None
            yield line
            self.depth -= 1
        after = self.on
        self.on, self.inference, self.why, self.past, self.inference_line = before
        if self.why is None and not after:
            self.past = Reason(line, "restored", {"context": context})

    def ask_tensor(self, tensor: _Tensor) -> None:
        then = f"`{tensor.name}` {'requires grad' if tensor.flag else 'does not require grad'}"
        self.asked.append((tensor.name, tensor.flag, tensor.why, then))

    def point(self) -> bool:
        """A line that looks at the mode."""
        if self.points == self.most_points:
            return self.compute()
        name = _POINTS[self.points]
        self.points += 1
        line = self.write(f"{name} = torch.is_grad_enabled()")
        why = self.why or self.past or Reason(line, "mode default")
        self.asked.append((name, self.on, why, f"`{name}` is {self.on}"))
        return True

    def source(self) -> _Tensor:
        """A tensor to compute with. Where nothing is recorded, one that requires grad, so that the mode decides."""
        usable = [tensor for tensor in self.tensors if tensor.usable and (tensor.flag or self.recording)]
        return self.draw.weighted({tensor: 3.0 if tensor.flag else 1.0 for tensor in usable})

    @property
    def recording(self) -> bool:
        return self.on and not self.inference

    def result(self, line: int, source: _Tensor) -> tuple[bool, Reason]:
        """Whether the result of an operation on this line requires grad, and why."""
        if not source.flag:
            if source.why.cuts:
                return False, source.why.passed_on(line)
            return False, Reason(line, "none", {"operands": f"`{source.name}`", "verb": "does"})
        if self.recording:
            return True, self.why or self.past or Reason(line, "any", {"carriers": f"`{source.name}`", "verb": "does"})
        if self.on:
            return False, Reason(self.inference_line, "inference wins", cuts=True)
        why = self.why
        assert why is not None
        return False, Reason(why.line, why.rule, why.facts, cuts=True)

    def compute(self) -> bool:
        """An operation on an earlier tensor."""
        source = self.source()
        name = self.name()
        line = self.write(f"{name} = {body(self.draw, source.name)}")
        flag, why = self.result(line, source)
        made = _Tensor(name, flag, why, usable=not self.inference)
        self.tensors.append(made)
        self.ask_tensor(made)
        return True

    def look(self) -> bool:
        return self.point() if self.draw.chance(0.4) else self.compute()

    def create(self, expression: str, flag: bool, rule: str, ask: bool = False) -> None:
        name = self.name()
        line = self.write(f"{name} = {expression}")
        made = _Tensor(name, flag, Reason(line, rule), usable=not self.inference)
        self.tensors.append(made)
        if ask:
            self.ask_tensor(made)


def body(draw: Draw, operand: str) -> str:
    return draw.choice(_BODIES).format(v=operand, k=number(draw))


# Motifs. Each writes some lines, or none and returns False.


def block(page: _Modes) -> bool:
    """A block, and now and then a look at what comes after it."""
    context = page.draw.choice(_OFF if page.on and page.draw.chance(0.75) else _ON)
    with page.within(context):
        page.look()
        if page.draw.chance(0.25):
            inside(page)
    if page.draw.chance(0.5):
        page.look()
    return True


def inside(page: _Modes) -> bool:
    if not page.on and page.draw.chance(0.6):
        return made_inside(page)
    return page.look()


def made_inside(page: _Modes) -> bool:
    """A new tensor that asks for the flag where nothing is recorded."""
    if page.draw.chance(0.6):
        page.create(f"torch.ones({page.size}, requires_grad=True)", True, "factory", ask=True)
    else:
        page.create(f"nn.Parameter(torch.ones({page.size}))", True, "factory", ask=True)
    return True


def bare(page: _Modes) -> bool:
    """A context manager that is made and thrown away."""
    if not page.on or page.why is not None:
        return False
    line = page.write("torch.no_grad()")
    page.past = Reason(line, "bare")
    return page.look()


def statement(page: _Modes) -> bool:
    """``set_grad_enabled`` as a statement."""
    value = not page.on if page.draw.chance(0.85) else page.on
    line = page.write(f"torch.set_grad_enabled({value})")
    page.on, page.past = value, None
    page.why = Reason(line, "set", {"value": str(value)})
    return page.look()


def decorated(page: _Modes) -> bool:
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
    made = _Tensor(name, False, why, usable=context == "no_grad()")
    page.tensors.append(made)
    page.ask_tensor(made)
    if page.why is None:
        page.past = Reason(decorator, "call is over", {"function": f"`{function}`"})
    if page.draw.chance(0.6):
        page.look()
    return True


def deferred(page: _Modes) -> bool:
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


def call(page: _Modes, function: str, why: Reason) -> None:
    name = page.name()
    page.write(f"{name} = {function}({page.tensors[0].name})")
    made = _Tensor(name, not why.cuts, why)
    page.tensors.append(made)
    page.ask_tensor(made)


def evaluation(page: _Modes) -> bool:
    """``eval()`` has nothing to do with grad mode."""
    plain = [tensor for tensor in page.tensors if tensor.usable and not tensor.flag and not tensor.why.cuts]
    if not page.recording or page.depth or not plain or any("layer" in line for line in page.lines):
        return False
    line = page.write(f"layer = nn.Linear({page.size}, {page.draw.choice((1, 2))}).eval()")
    name = page.name()
    page.write(f"{name} = layer({page.draw.choice(plain).name})")
    made = _Tensor(name, True, Reason(line, "eval"))
    page.ask_tensor(made)
    return True


def written(page: _Modes) -> bool:
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
        made = _Tensor(target, False, Reason(line, "unrecorded write", {"write": str(at)}, cuts=True))
    else:
        line = page.write(edit)
        made = _Tensor(target, True, Reason(line, "written", {"source": f"`{source}`", "target": f"`{target}`"}))
    page.ask_tensor(made)
    return True


def nested(page: _Modes) -> bool:
    """Blocks in blocks, two or three deep."""
    if page.depth or not page.recording:
        return False
    outer = page.draw.choice(_OFF[1:])
    with page.within(outer):
        if page.draw.chance(0.5):
            page.look()
        inner = list(_ON)
        if outer == "inference_mode()":
            inner.append("inference_mode(False)")
        with page.within(page.draw.choice(inner)):
            page.look()
            if page.draw.chance(0.3):
                with page.within("no_grad()"):
                    page.look()
        if page.draw.chance(0.7):
            page.look()
    if page.draw.chance(0.4):
        page.look()
    return True


def set_inside(page: _Modes) -> bool:
    """``set_grad_enabled`` as a statement in a block: the end of the block undoes it."""
    if page.depth or not page.recording:
        return False
    with page.within(page.draw.choice(("enable_grad()", "no_grad()"))):
        if page.draw.chance(0.5):
            page.look()
        statement(page)
    return page.look()


def view_inside(page: _Modes) -> bool:
    """A view of a tensor that requires grad, taken where nothing is recorded."""
    if page.depth or not page.recording:
        return False
    with page.within(page.draw.choice(("no_grad()", "set_grad_enabled(False)"))):
        name, source = page.name(), page.tensors[0].name
        line = page.write(f"{name} = {source}{page.draw.choice(('[0]', '[1:]', '[:2]', '.view(-1, 1)'))}")
        page.ask_tensor(_Tensor(name, True, Reason(line, "view", {"source": f"`{source}`"})))
        if page.draw.chance(0.6):
            page.look()
    return True


def generator(page: _Modes) -> bool:
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
    page.ask_tensor(_Tensor(name, False, Reason(line, rule, {"call": "next"}, cuts=True)))
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


def thread(page: _Modes) -> bool:
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
    made = _Tensor(name, True, Reason(line, "thread"))
    page.ask_tensor(made)
    return True


_MOTIFS: dict[int, Mapping[Callable[[_Modes], bool], float]] = {
    1: {block: 5, bare: 1.5, statement: 1.5},
    2: {block: 3, bare: 1, statement: 1, decorated: 2, deferred: 2, evaluation: 1.5, written: 2},
    3: {nested: 4, set_inside: 2, view_inside: 1, generator: 2, thread: 1.5, block: 1, decorated: 1},
}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        page = _Modes(draw, _MOST_POINTS[level])
        page.create(flagged_factory(draw, page.size), True, "raised")
        if level < 3 and draw.chance(0.6):
            page.create(factory(draw, page.size), False, "default")
        goal = draw.choice(_LINES[level])
        while len(page.lines) < goal:
            draw.weighted(_MOTIFS[level])(page)
        if page.fits and len(page.lines) <= _MOST_LINES[level] and (program := _finish(page, _MOST_KEYS[level])) is not None:
            return program


def _finish(page: _Modes, most: int) -> Program | None:
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
