"""A drill on gated branches while it is written, and what becomes of each branch (``GatePage``, ``finish``)."""

from __future__ import annotations

from dataclasses import dataclass

from course_utils.drills.programs import Draw, Page, Program, Question, Reason, named
from course_utils.drills.rules import explain_answer

NONE, ZEROS, VALUES = GRADS = ("none", "zeros", "values")
_GRAD_TEXT = {NONE: "is None", ZEROS: "holds zeros alone", VALUES: "holds numbers that are not zero"}


@dataclass(eq=False)
class Branch:
    """A branch: its name as a token, and what becomes of it, each with the reason."""

    name: str
    runs: tuple[bool, Reason] | None = None
    grad: tuple[str, Reason] | None = None
    moves: tuple[bool, Reason] | None = None


class GatePage(Page):
    """A program while it is written: two branches of one kind, their input, and which lines are asked about."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.rows, self.width, self.outputs = 2 + draw.below(5), 2 + draw.below(7), 2 + draw.below(7)
        self.watched = (0, 0)
        self.input = self.name()
        self.branches = [Branch(self.name()), Branch(self.name())]
        self.write(f"{self.input} = torch.ones({self.rows}, {self.width})")
        layer = f"nn.Linear({self.width}, {self.outputs})"
        self.write(f"{self.branches[0].name}, {self.branches[1].name} = {layer}, {layer}")

    @property
    def calls(self) -> list[str]:
        return [f"{branch.name}({self.input})" for branch in self.branches]

    def ran(self, index: int, line: int) -> None:
        branch = self.branches[index]
        branch.runs = True, Reason(line, "runs first", {"branch": f"`{branch.name}`", "line": str(line)})

    def skipped(self, index: int, line: int) -> None:
        """A branch that is not run: no gradient comes to it."""
        branch = self.branches[index]
        why = Reason(line, "is not called", {"branch": f"`{branch.name}`", "line": str(line)})
        branch.runs, branch.grad = (False, why), (NONE, why)

    def reached(self, index: int, line: int, answer: str, rule: str) -> None:
        branch = self.branches[index]
        branch.grad = answer, Reason(line, rule, {"branch": f"`{branch.name}`", "line": str(line)})


def finish(page: GatePage) -> Program | None:
    """The program with what is asked about it; None where that is too little."""
    keys: list[tuple[str, bool | str, Reason, str, tuple[str, ...]]] = []
    for branch in page.branches:
        # That a branch runs is asked now and then; that it does not, always.
        if branch.runs is not None and (not branch.runs[0] or page.draw.chance(0.35)):
            then = f"`{branch.name}` {'runs' if branch.runs[0] else 'does not run'}"
            keys.append((f"{branch.name} runs", *branch.runs, then, ()))
    for branch in page.branches:
        if branch.grad is not None:
            then = f"`{branch.name}.weight.grad` {_GRAD_TEXT[branch.grad[0]]}"
            keys.append((f"{branch.name}.weight.grad", *branch.grad, then, GRADS))
    for branch in page.branches:
        if branch.moves is not None:
            then = f"the last line {'moves' if branch.moves[0] else 'does not move'} `{branch.name}.weight`"
            keys.append((f"{branch.name} moves", *branch.moves, then, ()))
    if len(keys) < 3 or len({value for _, value, *_ in keys}) < 2:
        return None
    names, questions = page.names(), []
    for key, value, why, then, texts in keys:
        text = named(explain_answer(why, then), names)
        questions.append(Question(named(key, names), value, why.line, why.rule, text, texts))
    return Program(tuple(named(row, names) for row in page.lines), tuple(questions), edited=page.watched)
