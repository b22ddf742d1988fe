"""Models of one architecture that are trained by one number (``loss_curve``, ``train_together``), and how far from
training each alone that is (``gap_to_alone``). Lesson 10 draws and prints with it.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional

from course_utils.measure import cpu_threads


def loss_curve(
    models: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    *,
    lr: float,
    steps: int,
    together: Callable[[Tensor], Tensor] = torch.sum,
    one_row_each: bool = False,
) -> list[float]:
    """How the first model of an ensemble learns when all are trained by one number, with plain SGD.

    Args:
        models: of one class, with parameters of the same shapes; they are left as they are.
        x: inputs, first dimension the batch.
        y: class labels, one for each row.
        lr: the length of a step.
        steps: how many.
        together: makes one number of the models' losses.
        one_row_each: map the rows along with the models, as vmap does where nobody says otherwise: model i learns from
            row i alone. Needs as many rows as models.

    Returns:
        The first model's mean cross entropy over all rows: before the first step, and after each.
    """
    params, buffers = stack_module_state(list(models))
    base = copy.deepcopy(models[0])
    losses = _losses(base)
    learned = _losses(base, in_dims=0) if one_row_each else losses
    curve = []
    with cpu_threads(1):
        for step in range(steps + 1):
            with torch.no_grad():
                curve.append(losses(params, buffers, x, y)[0].item())
            if step < steps:
                gradients = torch.autograd.grad(together(learned(params, buffers, x, y)), list(params.values()))
                with torch.no_grad():
                    for parameter, gradient in zip(params.values(), gradients, strict=True):
                        parameter -= lr * gradient
    return curve


def _losses(base: nn.Module, **options: Any) -> Callable[..., Tensor]:
    """The cross entropy of every model of a stack, from (params, buffers, x, y); all see the same rows."""

    def loss_of_one(params: Any, buffers: Any, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(base, (params, buffers), (x,)), y)

    return vmap(loss_of_one, **{"in_dims": (0, 0, None, None)} | options)


def train_together(
    models: Sequence[nn.Module], x: Tensor, y: Tensor, *, steps: int, lr: float = 0.01, randomness: str = "different"
) -> None:
    """Trains all models in one call a step, with one Adam over the stacked weights, and copies the rows back.

    Args:
        models: of one class, with parameters of the same shapes, without buffers that change.
        x: inputs that all of them see.
        y: class labels, one for each row.
        steps: how many, all with the whole of ``x``.
        lr: Adam's.
        randomness: "same" or "different": what random operations draw for the models; see ``torch.vmap``.
    """
    params, buffers = stack_module_state(list(models))
    losses = _losses(models[0], randomness=randomness)
    with cpu_threads(1):
        _minimize(torch.optim.Adam, list(params.values()), lambda: losses(params, buffers, x, y).sum(), steps, lr=lr)
    with torch.no_grad():
        for number, model in enumerate(models):
            for name, parameter in model.named_parameters():
                parameter.copy_(params[name][number])


def gap_to_alone(
    kind: Callable[..., torch.optim.Optimizer], models: Sequence[nn.Module], x: Tensor, y: Tensor, **options: Any
) -> float:
    """How far ten steps of one optimizer for all models end from those of an optimizer for each.

    Args:
        kind: the optimizer's class.
        models: of one class, with parameters of the same shapes; they are left as they are.
        x: inputs that all of them see.
        y: class labels, one for each row.
        options: the optimizer's.

    Returns:
        The greatest difference between two weights.
    """
    params, buffers = stack_module_state(list(models))
    losses = _losses(models[0])
    gaps = []
    with cpu_threads(1):
        _minimize(kind, list(params.values()), lambda: losses(params, buffers, x, y).sum(), 10, **options)
        for number, model in enumerate(map(copy.deepcopy, models)):

            def loss(model: nn.Module = model) -> Tensor:
                return functional.cross_entropy(model(x), y)

            _minimize(kind, list(model.parameters()), loss, 10, **options)
            gaps += [(params[name][number] - own).abs().max().item() for name, own in model.named_parameters()]
    return max(gaps)


def _minimize(
    kind: Callable[..., torch.optim.Optimizer],
    params: list[Tensor],
    loss: Callable[[], Tensor],
    steps: int,
    **options: Any,
) -> None:
    optimizer = kind(params, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward(inputs=params)
        return value

    for _ in range(steps):
        optimizer.step(closure)
