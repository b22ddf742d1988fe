"""``make_weight``: what it claims."""

import math

import torch
from torch import Tensor

from course_utils.base.text import describe
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial

make_weight = exercise(__file__)


@make_weight.claim("has the shape (fan_out, fan_in)", weight=0, gate=True)
def _(trial: Trial) -> None:
    sizes = (
        (trial.integer(2, 19), trial.integer(20, 999)),
        (trial.integer(20, 999), trial.integer(2, 19)),
        (1, trial.integer(2, 999)),
        (trial.integer(2, 999), 1),
    )
    for fan_in, fan_out in sizes:
        got = trial.tensor(trial.call(fan_in, fan_out))
        if got.shape != (fan_out, fan_in):
            key = "swapped" if got.shape == (fan_in, fan_out) else ""
            raise Missed(key, expected=f"shape {(fan_out, fan_in)}", got=f"shape {tuple(got.shape)}")
        if not got.is_floating_point():
            raise Missed(expected="a floating-point dtype", got=str(got.dtype))


@make_weight.claim("is a leaf that requires grad", weight=3)
def _(trial: Trial) -> None:
    got = trial.tensor(trial.call(trial.integer(2, 19), trial.integer(2, 999)))
    if not got.is_leaf:
        key = "retained" if got.retains_grad else "scaled leaf"
        raise Missed(key, expected="is_leaf True", got=f"is_leaf False, made by {got.grad_fn.name()}")
    if not got.requires_grad:
        raise Missed("unflagged", expected="requires_grad True", got="requires_grad False")


@make_weight.claim("is normal, with mean 0 and standard deviation 1/sqrt(fan_in)", weight=2)
def _(trial: Trial) -> None:
    # 30 000 draws or more: the bounds below are seven standard errors wide or wider. The sizes are such that no two of
    # the scales which are told apart coincide.
    sizes = ((trial.integer(300, 400), trial.integer(100, 120)), (trial.integer(40, 50), trial.integer(800, 900)))
    for fan_in, fan_out in sizes:
        weight = trial.tensor(trial.call(fan_in, fan_out), shape=(fan_out, fan_in)).detach().double().cpu()
        wanted, mean, deviation = 1 / math.sqrt(fan_in), weight.mean().item(), weight.std().item()
        repeated = _repeats(weight, deviation)
        kurtosis = ((weight - mean) / deviation).pow(4).mean().item() if deviation else math.nan
        if repeated:
            raise Missed("repeated", expected="every number drawn for itself", got="equal rows or columns")
        if 1.5 < kurtosis < 2.1:
            raise Missed("uniform", expected="a normal distribution", got="values spread evenly between two bounds")
        if not abs(deviation / wanted - 1) < 0.03:
            scales = (
                ("unscaled", 1.0),
                ("wrong fan", 1 / math.sqrt(fan_out)),
                ("variance", 1 / fan_in),
                ("other recipe", math.sqrt(2 / fan_in)),
                ("other recipe", math.sqrt(2 / (fan_in + fan_out))),
            )
            key = next((key for key, scale in scales if abs(deviation / scale - 1) < 0.03), "")
            raise Missed(key, expected=f"standard deviation {wanted:.4f}", got=f"{deviation:.4f}")
        if not abs(mean) < 0.05 * wanted:
            raise Missed(expected="mean 0", got=f"mean {mean:.4f}")
        if not abs(kurtosis - 3) < 0.3:
            raise Missed(expected="a normal distribution (kurtosis 3)", got=f"kurtosis {kurtosis:.2f}")


def _repeats(weight: Tensor, deviation: float) -> bool:
    """Whether rows or columns are copies of each other: their means then vary as much as single values do."""
    over_rows, over_columns = weight.mean(0).std().item(), weight.mean(1).std().item()
    rows, columns = weight.shape
    return bool(over_rows > 3 * deviation / math.sqrt(rows) or over_columns > 3 * deviation / math.sqrt(columns))


@make_weight.claim("is taken by an optimizer, and moved", weight=2)
def _(trial: Trial) -> None:
    fan_in, fan_out, lr = trial.integer(2, 9), trial.integer(2, 9), 0.25
    weight = trial.tensor(trial.call(fan_in, fan_out), shape=(fan_out, fan_in))
    before = weight.detach().clone()
    try:
        optimizer = torch.optim.SGD([weight], lr=lr)
    except ValueError as error:
        key = "retained" if weight.retains_grad else "scaled leaf"
        raise Missed(key, expected="an optimizer takes it", got=f"ValueError: {error}") from None
    if not weight.requires_grad:
        raise Missed("unflagged", expected="a gradient to step by", got="requires_grad False")
    x = trial.randn(5, fan_in, dtype=weight.dtype).to(weight.device)
    weight.grad = None
    try:
        (x @ weight.T).sum().backward()
    except RuntimeError as error:
        key = "inference" if weight.is_inference() else ""
        raise Missed(key, expected="backward runs", got=f"RuntimeError: {describe(str(error), 60)}") from None
    optimizer.step()
    if not torch.allclose(weight.detach(), before - lr * x.sum(0), rtol=0.02, atol=0.02):
        raise Missed(expected="weight - lr * gradient after one step", got="other values")
