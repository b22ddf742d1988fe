"""What a drill asks, in words: its task, the meaning of its keys, the cell to answer with."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from course_utils.drills.programs import Question, listed

if TYPE_CHECKING:
    from course_utils.drills.card import DrillScore
    from course_utils.drills.drill import Drill

TASKS = {
    "flags": "Which tensors require grad when the last line has run?",
    "leaves": "Which tensors are leaves when the last line has run?",
    "modes": "What does each call of `torch.is_grad_enabled()` give? Which tensors require grad when all has run?",
    "edits": "What does the last line do, and what does the edit change?",
    "gates": "Which branches run, and what does that leave in their gradients?",
    "hooks": "What has each hook noted in `seen` when the last line has run?",
    "functions": "In the end all names are deleted but that of the result. Whose bytes does the graph still hold?",
    "scale": "Which divisors leave the gradient of `whole` in `model.weight.grad`? Each key is put in the place of "
    "`DIVISOR`, and the program begins from its first line.",
    "in_dims": "Which `in_dims` make `once` equal to `loop`? Each key is put in the place of `IN_DIMS`. One that "
    "raises an error does not.",
}
_IMPORTS = {"torch": "torch", "nn": "nn.", "F": "F.", "Thread": "Thread("}
_LABEL = 36  # a longer label leaves no room for the question beside it
_RIGHT = " (right: the gradient of the loss as it was computed)"


def task(drill: Drill) -> str:
    """What is to be done with the program."""
    names = [name for name, sign in _IMPORTS.items() if sign in drill.code]
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{TASKS[drill.topic]} Read the program, do not run it: the check does that. {listed(names)} {verb} imported."
    )


def questions(drill: Drill) -> list[tuple[str, str]]:
    """What each kind of key asks, and the values to choose from."""
    kinds: dict[str, list[str]] = {}
    for question in drill.program.questions:
        kinds.setdefault(_asks(drill, question), []).append(question.key)
    labels = [", ".join(keys) for keys in kinds.values()]
    if len(kinds) == 1 and ("," in "".join(*kinds.values()) or len(labels[0]) > _LABEL):
        labels = ["each key"]
    return list(zip(labels, kinds, strict=True))


def _asks(drill: Drill, question: Question) -> str:
    text = _bare(drill, question)
    if not question.choices:
        return f"{text} True or False"
    values = " or ".join(map(repr, question.choices)).replace(" or ", ", ", len(question.choices) - 2)
    return f"{text} {values}".strip() + (_RIGHT if drill.topic == "edits" else "")


def _bare(drill: Drill, question: Question) -> str:
    """The question without its values."""
    key, (first, last) = question.key, drill.program.edited
    name, _, what = key.partition(" ")
    if drill.topic == "edits":
        where = f"in line {first}" if first == last else f"in lines {first} to {last}"
        changed = f"does {name} hold other values after line {last} than before line {first}?"
        asks = {"changed": changed, "counted": f"does {name}._version grow {where}?"}
        return asks.get(what, "")
    if key.endswith(".grad"):
        return "what is in it?" if question.choices else "is it a tensor, and not None?"
    if drill.topic == "gates":
        where = f"in line {first}" if first else "anywhere"
        return f"is it called {where}?" if what == "runs" else f"does line {last} change its weight?"
    if drill.topic == "modes" and len(key) > 1:
        return "what is its value?"
    return {
        "leaves": "is it a leaf?",
        "hooks": "which number is noted under it?",
        "functions": "still held?",
        "scale": "right divisor?",
        "in_dims": "equal to the loop?",
    }.get(drill.topic, "does it require grad?")


def cell(drill: Drill) -> str:
    """The cell to answer with: it names the seed, so that it is the same drill tomorrow and on another machine."""
    # Keys may hold spaces, which are no place to break a line.
    keys = " ".join(f'"{question.key}": ...,'.replace(" ", "\0") for question in drill.program.questions)
    lines = textwrap.wrap(keys, 56, break_long_words=False, break_on_hyphens=False)
    inner = "\n".join(f"    {line}" for line in lines).replace("\0", " ")
    return f"{call(drill, drill.seed)}.check({{\n{inner}\n}})"


def call(made: Drill | DrillScore, seed: int | str | None = None, level: int = 0) -> str:
    """The call that makes a drill of this topic, at this level or another one."""
    parts = [f'"{made.topic}"']
    if seed is not None:
        parts.append(f"seed={seed!r}")
    if (level or made.level) > 1:
        parts.append(f"level={level or made.level}")
    return f"drill({', '.join(parts)})"
