"""``make_weight``: make a weight to train. The check looks at shape, flag and values, and has an optimizer move it."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from course_utils.base.text import message_of
from course_utils.checks.claims import Calls, Lazy, Missed, Trial, exercise, expect, reading, same
from course_utils.lessons.leaf_tensors._shared import expect_flagged_leaf

make_weight = exercise(__file__)


@make_weight.claim("is a matrix of fan_in and fan_out", weight=0, gate=True)
def _(trial: Trial) -> None:
    for fan_in, fan_out in _sizes(trial):
        got = _weight(trial, fan_in, fan_out)
        expect(got.is_floating_point(), expected="a floating-point dtype", got=str(got.dtype))


@make_weight.claim("has the shape (fan_out, fan_in)", weight=1)
def _(trial: Trial) -> None:
    for fan_in, fan_out in _sizes(trial):
        got = _weight(trial, fan_in, fan_out)
        is_right = got.shape == (fan_out, fan_in)
        expect(is_right, "swapped", expected=f"shape {(fan_out, fan_in)}", got=f"shape {tuple(got.shape)}")


def _sizes(trial: Trial) -> Iterator[tuple[int, int]]:
    few, many, number = (2, 19), (20, 999), (2, 999)
    for first, second in ((few, many), (many, few), ((1, 1), number), (number, (1, 1))):
        yield trial.integer(*first), trial.integer(*second)


def _weight(trial: Trial, fan_in: int, fan_out: int, within: AbstractContextManager | None = None) -> Tensor:
    """The answer's weight. Which of its two dimensions comes first, a claim of its own judges."""
    got = trial.tensor(trial.call(fan_in, fan_out, within=within))
    is_matrix = got.shape in ((fan_out, fan_in), (fan_in, fan_out))
    expect(is_matrix, expected=f"shape {(fan_out, fan_in)}", got=f"shape {tuple(got.shape)}")
    return got


@make_weight.claim("is a leaf that requires grad", weight=5)
def _(trial: Trial) -> None:
    weight, of_result, unflagged = _made(trial, trial.integer(2, 19), trial.integer(2, 999))
    expect_flagged_leaf(weight, of_result, unflagged)


def _made(trial: Trial, fan_in: int, fan_out: int) -> tuple[Tensor, str, str]:
    """The answer's weight, and what it shows if it is a result, and if it is not flagged."""
    made = Calls()
    weight = _weight(trial, fan_in, fan_out, made)
    of_result = "retained" if weight.retains_grad else "view" if weight._is_view() else "scaled leaf"
    return weight, of_result, "flag lost" if any(tensor.requires_grad for tensor in made.tensors) else "unflagged"


@make_weight.claim("is drawn anew in each call: normal, with mean 0 and standard deviation 1/sqrt(fan_in)", weight=3)
def _(trial: Trial) -> None:
    # 30 000 draws or more: the bounds below are seven standard errors wide or wider. The sizes are such that no two of
    # the scales which are told apart coincide.
    sizes = [(trial.integer(300, 400), trial.integer(100, 120)), (trial.integer(40, 50), trial.integer(800, 900))]
    sizes.append((1, trial.integer(30_000, 31_000)))  # here a normal distribution has numbers beyond 2
    for fan_in, fan_out in sizes:
        weight = _weight(trial, fan_in, fan_out).detach().double().cpu()
        wanted, mean, deviation = 1 / math.sqrt(fan_in), weight.mean().item(), weight.std().item()
        kurtosis = ((weight - mean) / deviation).pow(4).mean().item() if deviation else math.nan
        copied = fan_in > 1 and _repeats(weight, deviation)
        expect(not copied, "repeated", expected="every number drawn for itself", got="equal rows or columns")
        again = _weight(trial, fan_in, fan_out).detach().double().cpu()
        expect(
            not (deviation and torch.equal(weight, again)),
            "seeded",
            expected="other numbers in the second call",
            got="the same",
        )
        normal = "a normal distribution (kurtosis 3)"
        key = "same deviation" if _is_scale(deviation, wanted) else "uniform"
        expect(not 1.5 < kurtosis < 2.1, key, expected=normal, got="values spread evenly between two bounds")
        scales = [("unscaled", 1.0) if fan_in > 1 else ("cut at two", 0.8796)]  # of a normal one cut at 2
        scales += [("wrong fan", 1 / math.sqrt(fan_out)), ("variance", 1 / fan_in)]
        scales += [("other recipe", math.sqrt(2 / fan_in)), ("other recipe", math.sqrt(2 / (fan_in + fan_out)))]
        key = reading(deviation, scales, _is_scale) or ("other recipe" if deviation and fan_in > 1 else "")
        is_right = _is_scale(deviation, wanted)
        expect(is_right, key, expected=f"standard deviation {wanted:.4g}", got=f"{deviation:.4g}")
        expect(abs(mean) < 0.05 * wanted, expected="mean 0", got=f"mean {mean:.4g}")
        expect(abs(kurtosis - 3) < 0.3, expected=normal, got=f"kurtosis {kurtosis:.2f}")
    single = trial.tensor(trial.call(1, 1)).item()
    is_drawn = math.isfinite(single) and single != 0
    expect(is_drawn, "standardised", expected="one number, drawn", got=f"{single:.4g}")


def _is_scale(deviation: float, scale: float) -> bool:
    return abs(deviation / scale - 1) < 0.03


def _repeats(weight: Tensor, deviation: float) -> bool:
    """Whether rows or columns are copies of each other: their means then vary as much as single values do."""
    over_rows, over_columns = weight.mean(0).std().item(), weight.mean(1).std().item()
    rows, columns = weight.shape
    return bool(over_rows > 3 * deviation / math.sqrt(rows) or over_columns > 3 * deviation / math.sqrt(columns))


@make_weight.claim("leaves the seed of the whole program as it was", weight=0)
def _(trial: Trial) -> None:
    seed = trial.integer(1, 10**6)
    torch.manual_seed(seed)
    weights = [_weight(trial, 9, 9) for _ in range(2)]
    key = "seeded" if torch.equal(*weights) else "reseeded"
    kept = torch.initial_seed() == seed
    expect(kept, key, expected=f"torch.initial_seed() {seed}, as it was", got=Lazy(lambda: str(torch.initial_seed())))


@make_weight.claim("is taken by an optimizer, and moved", weight=5)
def _(trial: Trial) -> None:
    fan_in, fan_out, lr = trial.integer(2, 9), trial.integer(2, 9), 0.25
    weight, of_result, unflagged = _made(trial, fan_in, fan_out)
    before, columns = weight.detach().clone(), int(weight.shape == (fan_out, fan_in))
    try:
        optimizer = torch.optim.SGD([weight], lr=lr)
    except ValueError as error:
        raise Missed(of_result, expected="an optimizer takes it", got=message_of(error)) from None
    expect(weight.requires_grad, unflagged, expected="a gradient to step by", got="requires_grad False")
    x = trial.randn(5, fan_in, dtype=weight.dtype).to(weight.device)
    weight.grad = None
    try:
        torch.tensordot(x, weight, ([1], [columns])).sum().backward()
    except RuntimeError as error:
        key = "inference" if weight.is_inference() else ""
        raise Missed(key, expected="backward runs", got=message_of(error, 80)) from None
    key = "unrecorded view" if weight._is_view() else ""
    expect(weight.grad is not None, key, expected="a gradient for it", got="None")
    optimizer.step()
    # The weight is of any floating-point dtype: a bfloat16 has two digits.
    slopes = x.sum(0) if columns else x.sum(0).unsqueeze(1)
    moved = same(weight, before - lr * slopes, rtol=0.02, atol=0.02)
    expect(moved, expected="weight - lr * gradient after one step", got="other values")
