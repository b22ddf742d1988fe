"""Asks for two branches joined, one of them closed; the check looks at the places, calls, FLOPs and gradients."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Page,
    Trial,
    exercise,
    expect,
    first_difference,
    gradient,
    same,
)
from course_utils.lessons.gated_branches._shared import (
    Branch,
    branches,
    expect_gradients,
    flops,
    flops_alone,
    with_casts,
)

gated_forward = exercise(__file__)


class _Overflow(nn.Module):
    """Adds a value that is not finite to every other column, as a branch does that has overflowed."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        bad = torch.zeros_like(x)
        bad[:, ::2] = self.value
        return x + bad


class _Gate(NamedTuple):
    """What an answer is given; which branch is open."""

    a: Branch
    b: Branch
    x: Tensor
    gate: bool | Tensor

    @property
    def opened(self) -> Branch:
        return self.a if self.gate else self.b

    @property
    def closed(self) -> Branch:
        return self.b if self.gate else self.a

    def joined(self, opened: Tensor, closed: Tensor | None = None, *, exchanged: bool = False) -> Tensor:
        """The two halves in the order a, b; zeros where the closed one is None."""
        closed = torch.zeros_like(opened) if closed is None else closed
        return torch.cat((opened, closed) if bool(self.gate) != exchanged else (closed, opened), dim=1)


_Kind = Callable[[bool], bool | Tensor]  # makes a gate of a bool


def _cases(trial: Trial, first: str = "vectors", second: str = "images") -> Iterator[_Gate]:
    """Each branch open, by a bool and by a 0-dim tensor, or by what the answer takes of these; the two kinds of
    branches in turn."""
    kinds = trial.once(_kinds)
    for use_a in (True, False):
        for kind, layers in ((kinds[0], first), (kinds[-1], second)):
            yield _Gate(*branches(trial, layers), kind(use_a))
        first, second = second, first


def _kinds(trial: Trial) -> list[_Kind]:
    """The kinds of gates that the answer takes: of bools and tensors one may have a claim to fail. Both where it takes
    neither."""
    kinds: list[_Kind] = [bool, torch.tensor]
    effects = list(trial.effects)
    taken = [kind for kind in kinds if all(_opens(trial, kind(use_a)) for use_a in (True, False))]
    trial.effects, trial.called = effects, ""
    return taken or kinds


def _opens(trial: Trial, gate: bool | Tensor) -> bool:
    """Whether the answer's values are right for a gate."""
    case = _Gate(*branches(trial, "vectors"), gate)
    try:
        got = _gated(trial, case)
    except (AnswerRaised, Missed):
        return False
    return same(got, case.joined(case.opened.layers(case.x)))


def _gated(trial: Trial, case: _Gate, within: Page | None = None) -> Tensor:
    shown = f"torch.tensor({bool(case.gate)})" if isinstance(case.gate, Tensor) else str(case.gate)
    return trial.tensor(trial.call(*case, show=f"gated_forward(branch_a, branch_b, x, {shown})", within=within))


@gated_forward.claim("is `cat([a, b], dim=1)` with zeros for the closed half", weight=0, gate=True)
def _(trial: Trial) -> None:
    for case in chain(_cases(trial), _cases(trial, "images", "vectors")):
        got = _gated(trial, case)
        with torch.no_grad():
            opened = case.opened.layers(case.x)
            expected = case.joined(opened)
            if got.shape != expected.shape:
                raise _wrong_shape(got, case, opened, expected)
            if not same(got, expected):
                raise _wrong_values(got, case, opened, expected)


def _wrong_shape(got: Tensor, case: _Gate, opened: Tensor, expected: Tensor) -> Missed:
    others = [dim for dim in range(opened.dim()) if dim != 1]
    elsewhere = any(got.shape == torch.cat((opened, opened), dim).shape for dim in others)
    key = "missing" if got.shape == opened.shape else "other dimension" if elsewhere else ""
    if got.dim() > opened.dim():
        key = "stacked"
    if got.dim() == 2 and got.shape[1] == opened.shape[1] + case.x.shape[1]:
        key = "shape of x"
    return Missed(key, expected=f"shape {tuple(expected.shape)}", got=f"shape {tuple(got.shape)}")


def _wrong_values(got: Tensor, case: _Gate, opened: Tensor, expected: Tensor) -> Missed:
    other, of_zeros = case.closed.layers(case.x), case.closed.layers(torch.zeros_like(case.x))
    readings = (
        ("order", "the two halves exchanged", case.joined(opened, exchanged=True)),
        ("inverted", "the other branch open", case.joined(other, exchanged=True)),
        ("order", "the other branch's features at this one's place", case.joined(other)),
        ("not zeroed", "both branches open", case.joined(opened, other)),
        ("input masked", "what the closed branch makes of zeros", case.joined(opened, of_zeros)),
    )
    wanted = f"{'branch_a, zeros' if case.gate else 'zeros, branch_b'}: the two halves in this order"
    for key, shown, values in readings:
        if same(got, values):
            return Missed(key, expected=wanted, got=shown)
    if same(got[expected != 0], expected[expected != 0]):
        place, _, number = first_difference(got, expected)
        return Missed("unwritten", expected=wanted, got=f"{number:.4g} in the closed half{place}")
    return Missed(expected=wanted, got="other values")


@gated_forward.claim("takes a bool and a 0-dim bool tensor alike")
def _(trial: Trial) -> None:
    for kind, key in ((torch.tensor, "tensor gate"), (bool, "bool gate")):
        for use_a in (True, False):
            case = _Gate(*branches(trial, "vectors"), kind(use_a))
            got = _gated(trial, case)
            is_right = same(got, case.joined(case.opened.layers(case.x)))
            wanted = f"branch_{'a' if use_a else 'b'} open"
            expect(is_right, key, expected=wanted, got="the other branch open, or other values")


@gated_forward.claim("passes gradients on to the open branch and to x", weight=0, gate=True)
def _(trial: Trial) -> None:
    for case in _cases(trial):
        expected = case.joined(case.opened.layers(case.x))
        expect_gradients(trial, _gated(trial, case), expected, {"x": case.x, **dict(case.opened.named_parameters())})


def _why_called(trial: Trial, case: _Gate, got: Tensor) -> str:
    closed = case.closed
    if not all(closed.flagged):
        return "frozen"
    if max(len(rows) for rows in closed.inputs) < len(got):
        return "shape"  # a few rows, or none, are enough for a shape
    if not any(closed.grad_modes):
        return "no_grad"
    return "multiply" if _has_path(case, got) else "cut off" if _uses_values(trial, case.gate) else "shape"


def _has_path(case: _Gate, got: Tensor) -> bool:
    return any(gradient(got, parameter) is not None for parameter in case.closed.parameters())


def _why_not_none(trial: Trial, case: _Gate, got: Tensor) -> str:
    """Why the closed branch's weights get a gradient, or are read, where nobody calls it: for the gradient's sake, or
    to compute features, which costs FLOPs."""
    spent = flops(lambda: _gated(trial, case._replace(x=case.x.detach())))
    free = spent <= flops_alone(case.opened, case.x.detach())
    return "zeros wanted" if free and _has_path(case, got) else "by other means"


def _expect_not_called(trial: Trial, case: _Gate, got: Tensor) -> None:
    if calls := len(case.closed.inputs):
        shown = f"{calls} call{'s' if calls > 1 else ''}"
        raise Missed(_why_called(trial, case, got), expected="no call of the closed branch", got=shown)


def _overflowing(trial: Trial, value: float, gate: bool | Tensor) -> _Gate:
    """A case in which both branches return a value that is not finite."""
    return _Gate(*branches(trial, "vectors", _Overflow(value)), gate)


def _closed_half(got: Tensor, case: _Gate) -> Tensor:
    size = got.shape[1] // 2
    return got[:, size:] if case.gate else got[:, :size]


def _uses_values(trial: Trial, gate: bool | Tensor) -> bool:
    """Whether the closed half is made from what the closed branch returns: 0 times inf is NaN."""
    case = _overflowing(trial, torch.inf, gate)
    return bool(_closed_half(_gated(trial, case), case).isnan().any())


@gated_forward.claim("does not call the closed branch, nor compute with its weights", weight=2)
def _(trial: Trial) -> None:
    for case in _cases(trial, "images", "vectors"):
        if case.x.dim() == 4:  # what runs behind one's back, too
            case.closed.layers.insert(0, nn.BatchNorm2d(case.x.shape[1]).double())
        page = Page.under(case.closed)  # whoever runs the branch by other means than a call reads its weights, too
        _expect_not_called(trial, case, got := _gated(trial, case, page))
        expected = "weights of the closed branch that nobody reads"
        if page.was_read:
            raise Missed(_why_not_none(trial, case, got), expected=expected, got="they are read")


@gated_forward.claim("has exact zeros there, also where a branch returns inf or nan")
def _(trial: Trial) -> None:
    kinds = trial.once(_kinds)
    for use_a in (True, False):
        for value, gate in ((torch.inf, kinds[0](use_a)), (torch.nan, kinds[-1](use_a))):
            broken = _Gate(*branches(trial, "vectors"), gate)
            for parameter in broken.closed.parameters():
                nn.init.constant_(parameter, value)
            for case in (_overflowing(trial, value, gate), broken):
                half = _closed_half(got := _gated(trial, case), case)
                if half.any():
                    key = "nan" if half.isnan().any() else "unwritten"
                    key = _why_not_none(trial, case, got) if case is broken and not case.closed.inputs else key
                    raise Missed(key, expected="zeros in the closed half", got=f"{half[half != 0][0].item():.4g}")


@gated_forward.claim("leaves `.grad` of the closed branch None after backward")
def _(trial: Trial) -> None:
    for case in _cases(trial, "images", "images"):
        (got := _gated(trial, case)).sum().backward(retain_graph=True)
        for parameter in case.closed.parameters():
            if parameter.grad is not None:
                fabricated = any(".grad" in effect for effect in trial.effects)
                key = "multiply" if case.closed.inputs else _why_not_none(trial, case, got)
                key = "fabricated" if fabricated else key
                raise Missed(key, expected="None", got="zeros" if not parameter.grad.any() else "a gradient")


@gated_forward.claim("costs the FLOPs of one branch, forward and backward")
def _(trial: Trial) -> None:
    for case in _cases(trial):
        # Without a flag: PyTorch's counter raises where a module is given a view of a flagged tensor under no_grad.
        case = case._replace(x=case.x.detach())
        budget = flops_alone(case.opened, case.x)
        spent = flops(lambda case=case: _gated(trial, case))
        if spent > budget:
            key = "twice" if len(case.opened.inputs) > 1 else ""
            key = _why_called(trial, case, _gated(trial, case)) if case.closed.inputs and not key else key
            raise Missed(key, expected=f"{budget} FLOPs", got=f"{spent} FLOPs")


@gated_forward.claim("keeps the branches' dtype, without a call of the closed one", weight=0.5)
def _(trial: Trial) -> None:
    for number, case in enumerate(_cases(trial, "vectors", "vectors")):
        dtype = torch.float32 if number % 2 else torch.bfloat16
        got = _gated(trial, _Gate(case.a.to(dtype), case.b.to(dtype), case.x.detach().to(dtype), case.gate))
        expect(got.dtype == dtype, "dtype", expected=str(dtype), got=str(got.dtype))
    for case in _cases(trial, "vectors", "vectors"):
        got = _gated(trial, _Gate(with_casts(case.a), with_casts(case.b), x := case.x.detach().float(), case.gate))
        key = "dtype of x" if got.dtype == x.dtype else ""
        expected = "torch.float16 from branches that return it for a float32 x"
        expect(got.dtype == torch.float16, key, expected=expected, got=str(got.dtype))
    for case in _cases(trial, "vectors", "vectors"):  # last: a wrong dtype is told also to those who call it
        _expect_not_called(trial, case, _gated(trial, case))
