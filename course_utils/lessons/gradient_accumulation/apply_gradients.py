"""``apply_gradients``: one step with the average of gradients that come in lists.

The check compares where the parameters are with where a step with the right average leads, and with wrong ones.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from course_utils.base.text import message_of
from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Trial,
    equal_or_none,
    exercise,
    expect,
    expect_raises,
    same,
)
from course_utils.lessons.gradient_accumulation._shared import close
from course_utils.lessons.gradient_accumulation._steps import Gradients, Stepping

apply_gradients = exercise(__file__)

_SHAPES = ((3, 4), (3, 4), (4,), (2, 1, 3), ())


class _Lists(Stepping):
    """Parameters, their optimizer, and a list of gradients; the answer is called on it."""

    def __init__(
        self,
        trial: Trial,
        count: int = 3,
        missing: Iterable[tuple[int, int]] = (),
        dtype: torch.dtype = torch.float64,
    ) -> None:
        parameters = [trial.randn(*shape, dtype=dtype, requires_grad=True) for shape in _SHAPES]
        super().__init__(trial, parameters, parameters)
        self.ones = [1.0] * count
        self.rows: list[Gradients] = [
            [None if (batch, place) in missing else trial.randn(*shape, dtype=dtype) for place, shape in sized]
            for batch, sized in enumerate([list(enumerate(_SHAPES))] * count)
        ]
        # The answer gets copies: it might edit them.
        copies = [[None if g is None else g.clone() for g in row] for row in self.rows]
        self.lists = [list(zip(row, parameters, strict=True)) for row in copies]

    def average(self, weights: Sequence[float], divisor: float | None = None) -> Gradients:
        """For each parameter sum(w * g) / divisor, None where no micro-batch has a gradient.

        Without a divisor the wrong average, in which None takes its weight out of the sum of weights.
        """
        found: list[Tensor | None] = []
        for column in zip(*self.rows, strict=True):
            given = [(w, g) for w, g in zip(weights, column, strict=True) if g is not None]
            weight = sum(w for w, _ in given) if divisor is None else divisor
            found.append(sum(w * g for w, g in given) / weight if given else None)
        return found

    def call(self, weights: Sequence[float] | None = None, what: str = "") -> None:
        given = () if weights is None else (weights,)
        what = what or ", ".join([f"{len(self.lists)} micro-batches", *(f"weights={one}" for one in given)])
        show = f"apply_gradients(SGD with momentum, {what})"
        self.count(self.optimizer, self.lists, *given, may_change=tuple(self.parameters), show=show)

    def wrong_weights(self, weights: Sequence[float] | None) -> list[tuple[str, Gradients]]:
        """What weights that are used in a wrong way give; nothing without weights."""
        if weights is None:
            return []
        count, total = len(weights), sum(weights)
        return [
            ("raw weights", self.average(weights, 1)),
            ("weights over count", self.average(weights, count)),
            *(("unweighted", self.average(self.ones, divisor)) for divisor in (count, total)),
        ]


def _zeros_for_none(gradients: Gradients, dtype: torch.dtype = torch.float64) -> Gradients:
    pairs = zip(gradients, _SHAPES, strict=True)
    return [torch.zeros(shape, dtype=dtype) if g is None else g for g, shape in pairs]


def _call_taken(case: _Lists, weights: Sequence[float], what: str = "") -> None:
    """Calls the answer with weights that it has to take, also where one of them is 0 or less."""
    try:
        case.call(weights, what)
    except AnswerRaised as raised:
        if isinstance(raised.error, ValueError) and min(weights) <= 0:
            raise Missed("refused", expected="a step", raised=message_of(raised.error, 120)) from None
        raise


@apply_gradients.claim("applies the average of the gradients in one step", weight=2, gate=True)
def _(trial: Trial) -> None:
    for count in (trial.integer(3, 4), 1):
        case, zeros = _Lists(trial, count), [0.0] * (count - 1)
        case.call()
        alone = [case.average(ones, divisor) for ones in ([*zeros, 1.0], [1.0, *zeros]) for divisor in (1, count)]
        otherwise = [("sum", case.average(case.ones, 1)), *(("last", wrong) for wrong in alone)]
        case.expect(case.average(case.ones, count), otherwise)
        expect(case.steps == 1, "step each", expected="one step", got=f"{case.steps} steps")


@apply_gradients.claim("finds each gradient's parameter in any order", weight=1)
def _(trial: Trial) -> None:
    case = _Lists(trial, trial.integer(3, 4))
    for pairs in case.lists:
        pairs.sort(key=lambda pair: trial.randn().item())
    case.lists[0].reverse()
    count = len(case.lists)
    try:
        case.call(what=f"{count} micro-batches, pairs in different order")
    except AnswerRaised as raised:
        # What it does with pairs in one order has been judged by the claim before this one.
        raise Missed("order", expected="a step", got=type(raised.error).__name__) from None
    moved = close(case.moved(), case.moved(case.average(case.ones, count)))
    expect(moved, "order", expected="each parameter moved by its own gradients", got="other steps")


@apply_gradients.claim("takes weights: sum(w·g) / sum(w)", weight=3)
def _(trial: Trial) -> None:
    for weights in ([trial.integer(2, 9), trial.integer(10, 20), 1], (0.5, trial.integer(2, 6) / 8, 0.0), [3.0, 3.0]):
        case = _Lists(trial, len(weights))
        _call_taken(case, weights)
        case.expect(case.average(weights, sum(weights)), case.wrong_weights(weights))


@apply_gradients.claim("works for parameters of float32 and of bfloat16", weight=1)
def _(trial: Trial) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for weights in (None, [5, 2]):
            # Not for the 0-dim one, where a 0-dim weight of another dtype decides what comes out.
            case = _Lists(trial, 2, missing={(0, 4), (1, 4)}, dtype=dtype)
            case.lists = [pairs[:-1] for pairs in case.lists]
            words = f"2 micro-batches in {dtype}{'' if weights is None else f', weights={weights}'}"
            try:
                case.call(weights, words)
            except AnswerRaised as raised:
                raise Missed("cast", expected="a step", raised=message_of(raised.error, 120)) from None
            used = weights or case.ones
            wanted = [case.average(used, sum(used)), *(wrong for _, wrong in case.wrong_weights(weights))]
            wanted += [_zeros_for_none(one, dtype) for one in wanted]  # for what is in no pair: a claim of its own
            got = case.moved()
            near = any(same(got, case.moved(one), rtol=0.02, atol=0.02) for one in wanted)  # two digits
            expect(near, expected="the move of one right step", got="another move")


@apply_gradients.claim("counts None as a gradient of zero", weight=1)
def _(trial: Trial) -> None:
    for weights in (None, [5.0, 1.0, 2.0]):
        case = _Lists(trial, missing={(0, 0), (1, 1), (2, 1), (2, 4)})
        case.call(weights, "3 micro-batches, with None in some places")
        used = weights or case.ones
        elsewhere = [wrong for _, wrong in case.wrong_weights(weights)]
        case.expect(case.average(used, sum(used)), [("None left out", case.average(used))], elsewhere=elsewhere)


@apply_gradients.claim(
    "does not move a parameter that has only None, even with momentum, and moves one that has zeros", weight=1
)
def _(trial: Trial) -> None:
    place = trial.integer(0, 3)
    still = (place + 1) % 4
    for weights, is_named in ((None, True), ([2.0, 1.0, 4.0], True), (None, False)):
        case = _Lists(trial, missing={(batch, place) for batch in range(3)})
        for row, pairs in zip(case.rows, case.lists, strict=True):
            row[still] = zeros = torch.zeros(_SHAPES[still], dtype=torch.float64)
            pairs[still] = (zeros.clone(), case.parameters[still])
        if not is_named:
            case.lists = [[pair for pair in pairs if pair[0] is not None] for pairs in case.lists]
        what = "only None" if is_named else "no pair"
        case.call(weights, f"3 micro-batches, {what} for the parameter of shape {_SHAPES[place]}")
        used = weights or case.ones
        right, elsewhere = case.average(used, sum(used)), [wrong for _, wrong in case.wrong_weights(weights)]
        left_out = [None if number == still else g for number, g in enumerate(right)]
        otherwise = [("zero is None", _zeros_for_none(right)), ("None for zeros", left_out)]
        case.expect(right, otherwise, elsewhere=elsewhere)
    case, weights = _Lists(trial, missing={(0, place), (2, place)}), [2.0, 0.0, 4.0]
    _call_taken(case, weights, f"weights={weights}, one parameter's only gradient in micro-batch 1")
    # Whatever another average makes of that is judged by the claims above.
    left_out = [None if number == place else g for number, g in enumerate(case.average(weights, 6))]
    skipped = close(case.moved(), case.moved(left_out))
    expect(not skipped, "weightless", expected="momentum moves this parameter, too", got="it has not moved")


@apply_gradients.claim("counts a parameter that a list leaves out as None there", weight=1)
def _(trial: Trial) -> None:
    # The last one keeps no pair in the first list: whoever takes the parameters from there never meets it.
    missing = {(0, 4), (1, trial.integer(0, 3)), (2, 0)}
    for weights in (None, [4.0, 1.0, 3.0]):
        case = _Lists(trial, missing=missing)
        case.lists = [[pair for pair in pairs if pair[0] is not None] for pairs in case.lists]
        used = weights or case.ones
        try:
            case.call(weights, "3 micro-batches, some parameters in only two of the lists")
        except AnswerRaised as raised:
            raise Missed("left out", expected="a step", got=type(raised.error).__name__) from None
        right = case.average(used, sum(used))
        met = [None if (0, place) in missing else g for place, g in enumerate(right)]
        elsewhere = [wrong for _, wrong in case.wrong_weights(weights)]
        case.expect(right, [("None left out", case.average(used)), ("left out", met)], elsewhere=elsewhere)


@apply_gradients.claim("ignores what is in `.grad`, and leaves every `.grad` None", weight=2)
def _(trial: Trial) -> None:
    for kind in ("old gradients", "a parameter in no pair", "gradients taken from .grad"):
        case = _Lists(trial)
        old = [trial.randn(*shape) * 4 for shape in _SHAPES]
        for parameter, gradient in zip(case.parameters, old, strict=True):
            parameter.grad = gradient.clone()
        if kind == "gradients taken from .grad":
            case.lists[1] = [(p.grad, p) for p in case.parameters]
            case.rows[1] = old
        right = case.average(case.ones, 3)
        if kind == "a parameter in no pair":
            case.lists = [pairs[:-1] for pairs in case.lists]
            right[-1] = None
        case.call(what=f"3 micro-batches; {kind}")
        zeros = _zeros_for_none(right)
        summed = [g + o for g, o in zip(zeros, old, strict=True)]
        averaged = [g + o / 3 for g, o in zip(zeros, old, strict=True)]
        instead = [o if g is None else g for g, o in zip(right, old, strict=True)]
        stale = [("old grad", wrong) for wrong in (summed, instead, averaged)]
        lost = [g - o / 3 for g, o in zip(zeros, old, strict=True)]
        # Zeros for who is in no pair: a claim of its own. Zeros written over what is given empty that.
        case.expect(right, [*stale, ("zeroed in place", lost)], elsewhere=[zeros])
        left = [parameter.grad for parameter in case.parameters if parameter.grad is not None]
        key, what = ("left", "a gradient") if any(g.any() for g in left) else ("zero is None", "zeros")
        expect(not left, key, expected=".grad None", got=what)


def _expect_refused(
    case: _Lists, key: str, what: str, weights: Sequence[float] | None = None, other: str = "other error"
) -> None:
    old = {place: case.trial.randn(*_SHAPES[place]) for place in (0, 2, 4)}
    for place, gradient in old.items():
        case.parameters[place].grad = gradient.clone()
    expect_raises(ValueError, lambda: case.call(weights, what), key, other=other)
    expect(not case.moved().any(), "late", expected="no parameter moved", got="some have moved")
    for place, parameter in enumerate(case.parameters):
        kept, got = equal_or_none(parameter.grad, old.get(place)), "None" if parameter.grad is None else "another .grad"
        expect(kept, "late", expected="each .grad as before", got=got)


@apply_gradients.claim("refuses a gradient of another shape with ValueError, and changes nothing", weight=1)
def _(trial: Trial) -> None:
    # (place, shape): broadcast to the parameter, broadcast beyond it, the same numbers otherwise laid out.
    for place, shape in ((0, (1, 4)), (1, ()), (2, (1,)), (4, (1,)), (2, (3, 4)), (0, (12,)), (1, (4, 3))):
        case, batch = _Lists(trial), trial.integer(1, 2)
        case.lists[batch][place] = (trial.randn(*shape), case.parameters[place])
        what = f"in micro-batch {batch} a gradient of shape {shape} for a parameter of shape {_SHAPES[place]}"
        _expect_refused(case, "broadcast", what)
    case = _Lists(trial)
    case.lists[1][2] = (trial.randn(3, 4), case.parameters[2])
    what = "3 micro-batches, weights=[2, 0, 4], a wrong shape in micro-batch 1"
    _expect_refused(case, "weightless", what, [2.0, 0.0, 4.0], "weightless")


@apply_gradients.claim("refuses a wrong number of weights with ValueError, and changes nothing", weight=1)
def _(trial: Trial) -> None:
    for count, key in ((2, "zip"), (4, "zip"), (0, "empty")):
        weights = [trial.integer(1, 9) for _ in range(count)]
        _expect_refused(_Lists(trial), key, f"3 micro-batches, {count} weights", weights)


@apply_gradients.claim("refuses weights that add up to 0 with ValueError, no others, and changes nothing", weight=1)
def _(trial: Trial) -> None:
    number = trial.integer(1, 9)
    for weights in ([0.0, 0.0, 0.0], [number, -2 * number, number]):
        _expect_refused(_Lists(trial), "zero sum", f"3 micro-batches, weights={weights}", weights, "zero sum")
    _call_taken(_Lists(trial), [-number, -2 * number, number])
