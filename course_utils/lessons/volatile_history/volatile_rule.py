"""Asks for the flags of a result by the rule of 0.3; the check compares them for lists of inputs."""

import contextlib
import operator
from collections.abc import Callable

from course_utils.base.text import message_of
from course_utils.checks.claims import AnswerRaised, Missed, Trial, exercise, expect, normal_value, reading

volatile_rule = exercise(__file__)

_Flags = tuple[bool, bool]  # (requires_grad, volatile)
_PLAIN, _FLAGGED, _VOLATILE = (False, False), (True, False), (False, True)


def _rule(flagged: tuple[bool, ...], volatile: tuple[bool, ...]) -> _Flags:
    # compute_flags in tools/autograd/templates/VariableType.cpp of 0.3.
    return any(flagged) and not any(volatile), any(volatile)


def _most(flags: tuple[bool, ...]) -> bool:
    return 2 * sum(flags) > len(flags)


# What somebody with a misconception would compute, for lists that are not empty.
_BELIEFS: tuple[tuple[str, Callable[[tuple[bool, ...], tuple[bool, ...]], _Flags]], ...] = (
    ("both up", lambda flagged, volatile: (any(flagged), any(volatile))),
    ("all volatile", lambda flagged, volatile: (any(flagged), all(volatile))),
    ("majority", lambda flagged, volatile: (any(flagged) and not _most(volatile), _most(volatile))),
    ("majority", lambda flagged, volatile: (sum(flagged) > sum(volatile), sum(volatile) > sum(flagged))),
    ("flag wins", lambda flagged, volatile: (any(flagged), any(volatile) and not any(flagged))),
    ("today", lambda flagged, volatile: (any(flagged), False)),
    ("all flagged", lambda flagged, volatile: (all(flagged), any(volatile))),
    ("exactly one", lambda flagged, volatile: (any(flagged) and sum(volatile) != 1, sum(volatile) == 1)),
    ("exactly one", lambda flagged, volatile: (sum(flagged) == 1 and not any(volatile), any(volatile))),
    ("one input", lambda flagged, volatile: (flagged[0], volatile[0])),
    ("one input", lambda flagged, volatile: (flagged[-1], volatile[-1])),
    ("no mark", lambda flagged, volatile: (any(flagged) and not any(volatile), False)),
    ("not flagged", lambda flagged, volatile: (any(flagged), not any(flagged))),
    ("not flagged", lambda flagged, volatile: (all(flagged), not all(flagged))),
    ("not flagged", lambda flagged, volatile: (not any(volatile), any(volatile))),
    ("swapped", lambda flagged, volatile: _rule(flagged, volatile)[::-1]),
)

# What one wrong result hints at: (expected, got).
_HINTS = {
    (_VOLATILE, (True, True)): "both up",
    (_VOLATILE, _FLAGGED): "flag wins",
    (_VOLATILE, _PLAIN): "all volatile",
    (_FLAGGED, _PLAIN): "all flagged",
}


def _drawn(trial: Trial, *states: _Flags, must: tuple[_Flags, ...]) -> list[list[_Flags]]:
    """Six lists of inputs in random order: of each state in ``must`` one at least, the others of any in ``states``."""
    lists = []
    for _ in range(6):
        inputs = [*must, *(states[trial.integer(0, len(states) - 1)] for _ in range(trial.integer(4, 8)))]
        lists.append([inputs.pop(trial.integer(0, len(inputs) - 1)) for _ in range(len(inputs))])
    return lists


def _answer(trial: Trial, inputs: list[_Flags]) -> _Flags:
    result, flags = trial.call(list(inputs), show=f"volatile_rule({inputs})"), None
    expect(result is not None, "no return value", expected="a pair (requires_grad, volatile)", got="None")
    with contextlib.suppress(TypeError):
        flags = normal_value(result)
    is_pair = isinstance(flags, tuple) and len(flags) == 2 and all(isinstance(flag, bool) for flag in flags)
    expect(is_pair, expected="a pair (requires_grad, volatile) of True or False", got=result)
    return flags


def _belief(trial: Trial, inputs: list[_Flags], expected: _Flags) -> str:
    """The misconception whose results the answer gives throughout, or else that of this result; empty if none fits."""
    samples = [inputs, [_VOLATILE], [_FLAGGED], [_PLAIN, _PLAIN], [_VOLATILE, _PLAIN]]
    samples += [[_FLAGGED, _VOLATILE], [_VOLATILE, _FLAGGED], [_FLAGGED, _PLAIN], [_PLAIN, _FLAGGED]]
    samples += [[_PLAIN, _VOLATILE, _FLAGGED], [_VOLATILE, _VOLATILE, _FLAGGED]]
    samples += _drawn(trial, _PLAIN, _FLAGGED, _VOLATILE, must=(_PLAIN,))
    try:
        given, turned = ([_answer(trial, sample[::step]) for sample in samples] for step in (1, -1))
    except (AnswerRaised, Missed):
        return ""
    believed = ((key, [belief(*zip(*sample, strict=True)) for sample in samples]) for key, belief in _BELIEFS)
    if given[1:3] == [
        _FLAGGED,
        _VOLATILE,
    ]:  # single inputs that come back turned round tell the pair, whatever else is wrong
        return "swapped"
    key = reading(given, believed, operator.eq) or ("one input" if turned[0] != given[0] else "")
    if (expected, given[0]) == (_VOLATILE, _FLAGGED) and given[5] != _FLAGGED:
        return key  # one flag does not win against one volatile input
    # A hint is about inputs that meet: for an answer that hands on the flags of a single one.
    return key or (_HINTS.get((expected, given[0]), "") if given[1:3] == [_VOLATILE, _FLAGGED] else "")


def _expect_rule(trial: Trial, *lists: list[_Flags], look_at: slice = slice(0, 2)) -> None:
    for inputs in lists:
        expected = _rule(*zip(*inputs, strict=True))
        try:
            got = _answer(trial, inputs)
        except AnswerRaised as raised:
            if {_FLAGGED, _VOLATILE} <= set(inputs):
                shown = message_of(raised.error, 100)
                raise Missed("exclusive", expected=str(expected), raised=shown) from None
            raise
        if got[look_at] != expected[look_at]:
            called = trial.called
            key = _belief(trial, inputs, expected)
            trial.called = called  # the card shows the call that failed first
            raise Missed(key, expected=str(expected), got=str(got))


@volatile_rule.claim("flags the result where one input at least is flagged and none is volatile")
def _(trial: Trial) -> None:
    drawn = _drawn(trial, _PLAIN, _FLAGGED, must=(_FLAGGED, _PLAIN))
    _expect_rule(trial, [_FLAGGED], [_PLAIN, _FLAGGED], [_FLAGGED, _PLAIN], [_PLAIN, _PLAIN], *drawn)


@volatile_rule.claim("makes it volatile as soon as one input is, and only then")
def _(trial: Trial) -> None:
    drawn = _drawn(trial, _PLAIN, _FLAGGED, _VOLATILE, must=(_VOLATILE, _PLAIN))
    lists = [_VOLATILE, _PLAIN, _FLAGGED], [_FLAGGED, _PLAIN, _VOLATILE], [_VOLATILE, _VOLATILE], *drawn
    _expect_rule(trial, *lists, look_at=slice(1, 2))
    _expect_rule(trial, [_PLAIN, _FLAGGED], look_at=slice(1, 2))


@volatile_rule.claim("leaves a volatile result unflagged, against any number of flagged inputs, and no other", weight=2)
def _(trial: Trial) -> None:
    drawn = _drawn(trial, _FLAGGED, _PLAIN, _VOLATILE, must=(_VOLATILE, _FLAGGED, _FLAGGED))
    _expect_rule(trial, [_FLAGGED, _VOLATILE], [_VOLATILE, _FLAGGED, _VOLATILE], *drawn, [_FLAGGED, _FLAGGED])


@volatile_rule.claim("hands on the flags of a single input, and gives `(False, False)` for no inputs")
def _(trial: Trial) -> None:
    _expect_rule(trial, [_VOLATILE], [_FLAGGED], [_PLAIN])
    try:
        got = _answer(trial, [])
    except AnswerRaised as raised:
        raise Missed("empty", expected="(False, False)", raised=message_of(raised.error, 100)) from None
    expect(got == _PLAIN, "empty", expected="(False, False)", got=str(got))
