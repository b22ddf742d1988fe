"""Drills on leaves: which tensors are leaves, and whose ``.grad`` does backward fill? (``write``)"""

from __future__ import annotations

from collections.abc import Iterator

from course_utils.drills import blocks, steps
from course_utils.drills.programs import Draw, Program, Question, Reason, named
from course_utils.drills.rules import explain_answer
from course_utils.drills.trace import Trace, Value

_START: steps.Steps = {steps.create_flagged: 2.0, steps.create_computed: 3.0, steps.create_parameter: 0.5}
# Steps that end in a leaf, and in a tensor that is none, by level.
_LEAF: dict[int, steps.Steps] = {
    1: {
        steps.cut: 4,
        steps.compute_plain: 3,
        steps.parameter_of: 1.5,
        steps.convert_nothing: 1.5,
        steps.create_flagged: 1,
        steps.create_parameter: 0.5,
    },
    2: {
        steps.cut: 3,
        steps.compute_plain: 2,
        blocks.view_plain: 1.5,
        blocks.detach_in_place: 1,
        steps.parameter_of: 1.5,
        steps.convert_nothing: 1.5,
        steps.create_flagged: 0.5,
    },
    3: {
        steps.cut: 2,
        steps.compute_plain: 1,
        blocks.view_plain: 0.5,
        blocks.detach_in_place: 1,
        steps.parameter_of: 1,
        steps.convert_nothing: 1,
        blocks.block({steps.compute_flagged: 3, blocks.view_flagged: 1}): 2,
        blocks.block({steps.compute_flagged: 3, blocks.view_flagged: 1}, {steps.compute_flagged: 1}): 2,
    },
}
_RESULT: dict[int, steps.Steps] = {
    1: {steps.compute_flagged: 4, steps.create_computed: 2.5, steps.convert: 1.5, steps.compute_again: 1},
    2: {
        steps.compute_flagged: 4,
        steps.create_computed: 1,
        steps.convert: 1,
        steps.compute_again: 1.5,
        blocks.view_flagged: 1.5,
        blocks.write_flagged: 2,
    },
    3: {
        steps.compute_flagged: 4,
        steps.create_computed: 1,
        steps.convert: 0.5,
        steps.compute_again: 1.5,
        blocks.view_flagged: 1,
        blocks.write_flagged: 2,
    },
}
_LINES = {1: (5, 6), 2: (6, 7), 3: (7, 8)}
_KEYS = {1: (6, False), 2: (3, True), 3: (3, True)}  # how many names at most, and whether three gradients
# What is asked more often than its share of all gradients.
_WORTH = {"not reached": 6.0, "lowered": 6.0, "filled": 2.0, "not flagged": 2.0, "unused": 1.5, "not kept": 0.7}


def write(draw: Draw, level: int) -> Program:
    """A program at the given level, and what is asked about it."""
    while True:
        trace = Trace(draw)
        first = draw.chance(0.6)
        for flagged in (first, not first):
            steps.take(trace, _START if flagged else {steps.create_plain: 1.0})
        goal = draw.choice(_LINES[level])
        while len(trace.lines) < goal:
            steps.take(trace, (_LEAF if draw.chance(0.5) else _RESULT)[level])
        loss, retained = _backward(trace, level) if level > 1 else (None, None)
        # Level 2 has a backward pass, level 3 a block besides.
        has_block = any(line.startswith(" ") for line in trace.lines)
        fits = trace.fits and (level < 3 or has_block)
        if fits and (program := _finish(trace, level, loss, retained)) is not None:
            return program


def _backward(trace: Trace, level: int) -> tuple[Value | None, tuple[Value, Reason] | None]:
    """Adds a loss and its backward; returns the loss, and the tensor whose gradient is kept on request."""
    draw = trace.draw
    flagged = steps.floats(trace, True)
    results = [value for value in flagged if not value.leaf]
    if not results:
        return None, None
    ends = [results[-1]] if draw.chance(0.5) else draw.sample(flagged, min(2, len(flagged)))
    behind_a_cut = [value for value in results if any(block > 0 for block in _blocks(value))]
    if behind_a_cut and draw.chance(0.6):
        ends = [draw.choice(behind_a_cut)]
    terms = [value.name if not value.shape else f"{value.name}.{draw.choice(('sum', 'mean'))}()" for value in ends]
    retained = None
    if draw.chance(0.6):
        value = draw.choice(results[-3:])
        retained = value, Reason(trace.write(f"{value.name}.retain_grad()"), "retained")
    line = trace.write(f"loss = {' + '.join(terms)}")
    loss = Value("loss", True, False, Reason(line, "any"), Reason(line, "any"), (), line=line)
    loss.sources = [(value, 0) for value in ends]
    leaves = [value for value in flagged if value.made and value.leaf and not trace.viewed(value)]
    if level == 3 and leaves and draw.chance(0.4):
        trace.lower_flag(draw.choice(leaves))
    trace.write("loss.backward()")
    return loss, retained


def _finish(trace: Trace, level: int, loss: Value | None, retained: tuple[Value, Reason] | None) -> Program | None:
    draw, names = trace.draw, trace.names()
    most_names, asks_gradients = _KEYS[level]
    gradients: list[tuple[str, bool, Reason]] = []
    if asks_gradients:
        if loss is None:
            return None
        found = list(_gradients(trace, loss, retained))
        for wanted in draw.choice(((True, True, False), (True, False, False))):
            weights = {
                item: _WORTH.get(item[2].rule, 1.0) for item in found if item[1] is wanted and item not in gradients
            }
            gradients += [draw.weighted(weights)] if weights else []
        if len({answer for _, answer, _ in gradients}) < 2:
            return None
    tokens = list(trace.values)
    # That what you create is a leaf is asked now and then, and no more.
    worth = [token for token in tokens if trace.values[token].why_leaf.rule != "created" or draw.chance(0.6)]
    asked = [worth[i] for i in sorted(draw.sample(range(len(worth)), min(len(worth), most_names)))]
    if len({trace.values[token].leaf for token in asked}) < 2 or len(asked) + len(gradients) < 4:
        return None
    questions = []
    for token in asked:
        value = trace.values[token]
        why = trace.second_names.get(token, value.why_leaf)
        then = f"`{token}` has {'no `grad_fn` and is a' if value.leaf else 'a `grad_fn` and is no'} leaf"
        questions.append(_question(token, value.leaf, why, then, names))
    for token, filled, why in sorted(gradients, key=lambda item: tokens.index(item[0])):
        then = f"`{token}.grad` is {'a tensor' if filled else 'None'}"
        questions.append(_question(f"{token}.grad", filled, why, then, names))
    return Program(tuple(named(line, names) for line in trace.lines), tuple(questions))


def _question(key: str, answer: bool, why: Reason, then: str, names: list[str]) -> Question:
    return Question(named(key, names), answer, why.line, why.rule, named(explain_answer(why, then), names))


def _gradients(trace: Trace, loss: Value, retained: tuple[Value, Reason] | None) -> Iterator[tuple[str, bool, Reason]]:
    """The tensors for which one line decides whether backward fills their ``.grad``: token, answer, reason."""
    for token, value in trace.values.items():
        facts = {"name": f"`{token}`"}
        if token in trace.second_names or value.shared or not value.is_float or value.why_flag.rule == "view":
            continue
        reached = trace.reached(loss, value)
        if not value.flag:
            if value.made and reached and value.why_flag.rule in ("default", "lowered"):
                rule = "lowered" if value.why_flag.rule == "lowered" else "not flagged"
                yield token, False, Reason(value.why_flag.line, rule, facts)
        elif reached and value.leaf:
            yield token, True, Reason(value.why_flag.line, "filled", facts)
        elif reached and retained is not None and retained[0] is value:
            yield token, True, retained[1]
        elif reached:
            yield token, False, Reason(value.line, "not kept", facts)
        elif value.leaf:
            blocks = sorted(_blocks(loss))
            cuts = [line for line in blocks if line > 0 and trace.reached(loss, value, line)]
            if len(cuts) == 1:
                yield token, False, Reason(cuts[0], "not reached", facts)
            elif not cuts and not _computed_from(loss, value):
                yield token, False, Reason(loss.line, "unused", facts)


def _blocks(start: Value) -> set[int]:
    found = {block for _, block in start.sources}
    for source, _ in start.sources:
        found |= _blocks(source)
    return found


def _computed_from(start: Value, goal: Value) -> bool:
    return start is goal or any(_computed_from(source, goal) for source, _ in start.sources)
