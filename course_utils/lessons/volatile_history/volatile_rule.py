"""``volatile_rule``: the flags of a result by the rule of 0.3."""

from course_utils.checks.compare import Missed, Raised, Seen, Trial, compared, outcome

volatile_rule = compared(__file__)

_Flags = tuple[bool, bool]  # (requires_grad, volatile)
_PLAIN, _FLAGGED, _VOLATILE = (False, False), (True, False), (False, True)
_BOTH = _PLAIN, _VOLATILE


def _result(trial: Trial, inputs: list[_Flags]) -> tuple[str, _Flags]:
    got = trial.call(list(inputs), show=f"volatile_rule({inputs})")
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        key = "no return value" if got is None else "swapped"
        raise Missed(key, expected="a pair (requires_grad, volatile)", got=got)
    requires_grad, volatile = map(bool, got)
    return "(requires_grad, volatile) of the result", (requires_grad, volatile)


def _mixed(trial: Trial, *must: _Flags, of: tuple[_Flags, ...]) -> list[_Flags]:
    """Inputs in random order: those in ``must``, and four to eight others of any in ``of``."""
    inputs = [*must, *(of[trial.integer(0, len(of) - 1)] for _ in range(trial.integer(4, 8)))]
    return [inputs.pop(trial.integer(0, len(inputs) - 1)) for _ in range(len(inputs))]


def _result_or_error(trial: Trial, inputs: list[_Flags]) -> tuple[str, _Flags | str]:
    """For inputs that an answer may refuse: one error is as good as another."""
    name, got = "(requires_grad, volatile) of the result", outcome(lambda: _result(trial, inputs)[1])
    return name, "an error" if isinstance(got, Raised) else got


@volatile_rule.looks("hands on the flags of one plain input, and of one flagged input", gate=True)
def _(trial: Trial) -> Seen:
    for inputs in ([_PLAIN], [_FLAGGED]):
        yield _result(trial, inputs)


@volatile_rule.looks("flags the result where one input at least is flagged, and none is volatile", weight=3)
def _(trial: Trial) -> Seen:
    lists = [_mixed(trial, _FLAGGED, _FLAGGED, _PLAIN, of=(_PLAIN, _FLAGGED)) for _ in range(5)]
    for inputs in ([_PLAIN, _PLAIN], [_FLAGGED, _PLAIN], [_PLAIN, _FLAGGED], [_FLAGGED, _FLAGGED], *lists):
        yield _result(trial, inputs)


@volatile_rule.looks("makes the result volatile as soon as one input is", weight=4)
def _(trial: Trial) -> Seen:
    lists = [_mixed(trial, _VOLATILE, _PLAIN, of=of) for of in (*4 * [_BOTH], (_PLAIN,), (_VOLATILE,))]
    for inputs in ([_VOLATILE], [_VOLATILE, _PLAIN], [_PLAIN, _VOLATILE], [_VOLATILE, _VOLATILE], *lists):
        yield _result(trial, inputs)


@volatile_rule.looks("lets one volatile input win against any number of flagged ones", weight=5)
def _(trial: Trial) -> Seen:
    lists = [_mixed(trial, _VOLATILE, _FLAGGED, of=(_FLAGGED, _PLAIN)) for _ in range(3)]
    lists += [_mixed(trial, _VOLATILE, _VOLATILE, _FLAGGED, of=of) for of in ((_PLAIN,), *3 * [(_FLAGGED, *_BOTH)])]
    for inputs in ([_FLAGGED, _VOLATILE], [_VOLATILE, _FLAGGED], *lists):
        yield _result_or_error(trial, inputs)


@volatile_rule.looks("gives `(False, False)` for no inputs", "inputs")
def _(trial: Trial) -> Seen:
    return [_result_or_error(trial, [])]
