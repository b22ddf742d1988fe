"""A drill on grad modes while it is written, and the mode at its end so far (``ModePage``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from course_utils.drills.programs import Draw, Page, Reason
from course_utils.drills.steps import number

OFF = ("no_grad()", "no_grad()", "inference_mode()", "set_grad_enabled(False)")
ON = ("enable_grad()", "set_grad_enabled(True)")
_POINTS = ("first", "second", "third", "fourth")
_FUNCTIONS = ("double", "scale", "blend", "shift", "step", "apply")
_BODIES = ("{v} * {k}", "{v} + {k}", "{v} ** 2", "{v}.exp()", "{v}.sin()", "{v}.tanh()", "{v} / {k}")


@dataclass(eq=False)
class ModeTensor:
    name: str
    flag: bool
    why: Reason
    usable: bool = True  # an inference tensor cannot be saved for backward, so nothing is computed from it


class ModePage(Page):
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
        self.tensors: list[ModeTensor] = []
        self.asked: list[tuple[str, bool, Reason, str]] = []
        self.points = 0
        self.functions = draw.sample(_FUNCTIONS, len(_FUNCTIONS))

    @contextmanager
    def within(self, context: str) -> Iterator[int]:
        before = self.on, self.inference, self.why, self.past, self.inference_line
        with self.block(f"with torch.{context}:") as line:
            self.depth += 1
            self.on = context not in OFF
            if context.startswith("inference_mode"):
                self.inference, self.inference_line = not self.on, line
            self.why, self.past = Reason(line, "inside on" if self.on else "inside off", {"context": context}), None
            yield line
            self.depth -= 1
        after = self.on
        self.on, self.inference, self.why, self.past, self.inference_line = before
        if self.why is None and not after:
            self.past = Reason(line, "restored", {"context": context})

    def ask_tensor(self, tensor: ModeTensor) -> None:
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

    def source(self) -> ModeTensor:
        """A tensor to compute with. Where nothing is recorded, one that requires grad, so that the mode decides."""
        usable = [tensor for tensor in self.tensors if tensor.usable and (tensor.flag or self.recording)]
        return self.draw.weighted({tensor: 3.0 if tensor.flag else 1.0 for tensor in usable})

    @property
    def recording(self) -> bool:
        return self.on and not self.inference

    def result(self, line: int, source: ModeTensor) -> tuple[bool, Reason]:
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
        made = ModeTensor(name, flag, why, usable=not self.inference)
        self.tensors.append(made)
        self.ask_tensor(made)
        return True

    def look(self) -> bool:
        return self.point() if self.draw.chance(0.4) else self.compute()

    def create(self, expression: str, flag: bool, rule: str, ask: bool = False) -> None:
        name = self.name()
        line = self.write(f"{name} = {expression}")
        made = ModeTensor(name, flag, Reason(line, rule), usable=not self.inference)
        self.tensors.append(made)
        if ask:
            self.ask_tensor(made)


def body(draw: Draw, operand: str) -> str:
    return draw.choice(_BODIES).format(v=operand, k=number(draw))
