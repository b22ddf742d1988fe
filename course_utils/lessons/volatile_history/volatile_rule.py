"""``volatile_rule``: what it claims."""

from collections.abc import Callable

from course_utils.checks.exercise import exercise, normal_value
from course_utils.checks.trial import AnswerRaised, Missed, Trial

volatile_rule = exercise(__file__)

_PLAIN, _FLAGGED, _VOLATILE = (False, False), (True, False), (False, True)
_Pairs = list[tuple[bool, bool]]


def _rule(pairs: _Pairs) -> tuple[bool, bool]:
    # compute_flags in tools/autograd/templates/VariableType.cpp of 0.3.
    volatile = any(pair[1] for pair in pairs)
    return any(pair[0] for pair in pairs) and not volatile, volatile


def _most_are_volatile(pairs: _Pairs) -> bool:
    return 2 * sum(pair[1] for pair in pairs) > len(pairs)


# What somebody with a misconception would compute, for lists that are not empty.
_BELIEFS: tuple[tuple[str, Callable[[_Pairs], tuple[bool, bool]]], ...] = (
    ("both up", lambda pairs: (any(r for r, _ in pairs), any(v for _, v in pairs))),
    ("all volatile", lambda pairs: (any(r for r, _ in pairs), all(v for _, v in pairs))),
    (
        "all volatile",
        lambda pairs: (any(r for r, _ in pairs) and not _most_are_volatile(pairs), _most_are_volatile(pairs)),
    ),
    ("flag wins", lambda pairs: (any(r for r, _ in pairs), any(v for _, v in pairs) and not any(r for r, _ in pairs))),
    ("today", lambda pairs: (any(r for r, _ in pairs), False)),
    ("all flagged", lambda pairs: (all(r for r, _ in pairs), any(v for _, v in pairs))),
    ("one input", lambda pairs: pairs[0]),
    ("one input", lambda pairs: pairs[-1]),
    ("not flagged", lambda pairs: (any(r for r, _ in pairs), not any(r for r, _ in pairs))),
    ("not flagged", lambda pairs: (all(r for r, _ in pairs), not all(r for r, _ in pairs))),
    ("swapped", lambda pairs: _rule(pairs)[::-1]),
)


def _pairs(trial: Trial, states: tuple[tuple[bool, bool], ...], must: tuple[tuple[bool, bool], ...] = ()) -> _Pairs:
    """Some pairs in random order: of each state in ``must`` one at least, the others of any in ``states``."""
    pairs = [*must, *(states[trial.integer(0, len(states) - 1)] for _ in range(trial.integer(4, 8)))]
    return [pairs.pop(trial.integer(0, len(pairs) - 1)) for _ in range(len(pairs))]


def _flags(trial: Trial, pairs: _Pairs) -> tuple[bool, bool]:
    result = trial.call(list(pairs), show=f"volatile_rule({pairs})")
    if result is None:
        raise Missed("no return value", expected="a pair (requires_grad, volatile)", got="None")
    try:
        flags = normal_value(result)
    except TypeError:
        flags = None
    if not isinstance(flags, tuple) or len(flags) != 2 or not all(isinstance(flag, bool) for flag in flags):
        raise Missed(expected="a pair (requires_grad, volatile) of True or False", got=result)
    return flags


def _belief(trial: Trial, pairs: _Pairs) -> str:
    """The misconception whose results the answer gives throughout; empty where none fits."""
    samples = [pairs, [_FLAGGED, _VOLATILE], [_VOLATILE, _FLAGGED], [_FLAGGED, _PLAIN], [_PLAIN, _FLAGGED]]
    samples += [[_PLAIN, _VOLATILE, _FLAGGED], [_VOLATILE, _PLAIN], [_PLAIN, _PLAIN], [_VOLATILE], [_FLAGGED]]
    samples += [_pairs(trial, (_PLAIN, _FLAGGED, _VOLATILE), must=(_PLAIN,)) for _ in range(6)]
    try:
        given = [_flags(trial, sample) for sample in samples]
    except (AnswerRaised, Missed):
        return ""
    for key, belief in _BELIEFS:
        if given == [belief(sample) for sample in samples]:
            return key
    return ""


def _mismatch(expected: tuple[bool, bool], got: tuple[bool, bool]) -> str:
    """The misconception that one wrong result hints at."""
    if expected == _VOLATILE:
        return {(True, True): "both up", _FLAGGED: "flag wins", _PLAIN: "all volatile"}.get(got, "")
    return "all flagged" if expected == _FLAGGED and got == _PLAIN else ""


def _expect_rule(trial: Trial, pairs: _Pairs, look_at: slice) -> None:
    expected, got = _rule(pairs), _flags(trial, pairs)
    if got[look_at] != expected[look_at]:
        called = trial.called
        key = _belief(trial, pairs) or _mismatch(expected, got)
        trial.called = called  # the card shows the call that failed first
        raise Missed(key, expected=str(expected), got=str(got))


@volatile_rule.claim("flags the result where one input at least is flagged and none is volatile")
def _(trial: Trial) -> None:
    for pairs in ([_FLAGGED], [_PLAIN, _FLAGGED], [_FLAGGED, _PLAIN], [_PLAIN, _PLAIN]):
        _expect_rule(trial, pairs, slice(0, 2))
    for _ in range(6):
        _expect_rule(trial, _pairs(trial, (_PLAIN, _FLAGGED), must=(_FLAGGED, _PLAIN)), slice(0, 2))


@volatile_rule.claim("makes it volatile as soon as one input is")
def _(trial: Trial) -> None:
    for _ in range(6):
        _expect_rule(trial, _pairs(trial, (_PLAIN, _FLAGGED, _VOLATILE), must=(_VOLATILE, _PLAIN)), slice(1, 2))


@volatile_rule.claim("leaves a volatile result unflagged, against any number of flagged inputs", weight=2)
def _(trial: Trial) -> None:
    for pairs in ([_FLAGGED, _VOLATILE], [_VOLATILE, _FLAGGED]):
        _expect_rule(trial, pairs, slice(0, 2))
    for _ in range(6):
        _expect_rule(trial, _pairs(trial, (_FLAGGED, _PLAIN), must=(_VOLATILE, _FLAGGED, _FLAGGED)), slice(0, 2))


@volatile_rule.claim("gives `(False, False)` for no inputs")
def _(trial: Trial) -> None:
    # A constant earns nothing here.
    for pairs in ([_VOLATILE], [_FLAGGED]):
        _expect_rule(trial, pairs, slice(0, 2))
    try:
        got = _flags(trial, [])
    except AnswerRaised as raised:
        raise Missed("empty", expected="(False, False)", raised=type(raised.error).__name__) from None
    if got != (False, False):
        raise Missed("empty", expected="(False, False)", got=str(got))
