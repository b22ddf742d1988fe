"""``per_sample_gradients``: the gradient of each sample's own loss, by parameter name, in one forward pass.

The check compares with one backward pass per sample, and looks at what ``loss_fn`` is asked.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.base.text import describe, message_of
from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Trial,
    exercise,
    expect,
    expect_no_history,
    first_sign,
    same,
)
from course_utils.lessons.model_ensembling import _shared as shared
from course_utils.lessons.model_ensembling._named import (
    Named,
    all_same,
    expect_dtype,
    expect_named,
    is_exactly,
    rows_agree,
    stack,
)

per_sample_gradients = exercise(__file__)


class _Samples:
    """A model, a loss and samples; the answer is called on them."""

    def __init__(
        self, ensemble: shared.Ensemble, model: nn.Module, x: Tensor, y: Tensor, loss_fn: Callable = F.cross_entropy
    ) -> None:
        self.ensemble, self.model, self.loss_fn, self.x, self.y = ensemble, model, loss_fn, x, y
        names, parameters = zip(*model.named_parameters(), strict=True)
        losses = [loss_fn(model(x[i : i + 1]), y[i : i + 1]) for i in range(len(x))]
        gradients = [torch.autograd.grad(loss, parameters) for loss in losses]
        self.expected = stack([dict(zip(names, row, strict=True)) for row in gradients])
        self.shares = {name: value / len(x) for name, value in self.expected.items()}

    def call(self) -> Any:
        loss = self.loss_fn.__name__
        show = f"per_sample_gradients(model, {loss}, x {describe(self.x)}, y {describe(self.y)})"
        return self.ensemble.call(self.model, self.loss_fn, self.x, self.y, show=show)

    def expect(self, result: Any, shares: bool = True) -> None:
        """The gradients are right; or, where ``shares`` may pass, each is divided by the number of samples."""
        key = "not named"
        if shares and is_exactly(result, self.shares):
            return
        if isinstance(result, Tensor):  # the gradient of x, or all gradients in one
            size, full = result.numel(), sum(value.numel() for value in self.expected.values())
            key = first_sign(("own weights", size == self.x.numel()), ("not named", size == full))
        elif isinstance(result, tuple) and any(isinstance(part, Mapping) for part in result):
            key = "with values"
        expect_named(result, self.expected, self._key, key)

    def _key(self, got: Named) -> str:
        batch, expected = len(self.x), self.expected
        if all(same(got[name], value) or shared.is_squeezed(got[name], value) for name, value in expected.items()):
            return "squeezed"
        if all(got[name].shape == value.shape[1:] for name, value in expected.items()):
            return "summed"
        if all(got[name].shape[2:] == value.shape[1:] != got[name].shape[1:] for name, value in expected.items()):
            return "outputs"
        if all(not got[name].any() for name in expected):
            return "own weights"
        if all_same({name: value * batch for name, value in got.items()}, expected):
            return "scaled"
        # Whatever gradient they hold, with what the model's .grad held before or without it.
        return "same rows" if batch > 1 and rows_agree(got, expected) else ""


def _classified(
    trial: Trial,
    batch: int,
    number: int,
    architecture: Callable = shared.plain,
    dtype: torch.dtype = torch.float64,
    columns: int = 0,
) -> _Samples:
    """Classes to learn, for model 0 or for model 1, which has a ``.grad``."""
    columns, classes = columns or trial.integer(2, 4), trial.integer(2, 3)
    ensemble = shared.Ensemble(trial, 2, architecture(columns, classes))
    model, x = ensemble.models[number].to(dtype), trial.randn(batch, columns, dtype=dtype)
    return _Samples(ensemble, model, x, shared.labels(trial, batch, classes))


@per_sample_gradients.claim(
    "gives, by name, gradients in the direction of each sample's own, sizes of one aside", weight=0, gate=True
)
def _(trial: Trial) -> None:
    case = _classified(trial, trial.integer(4, 7), 1)
    case.expect(case.call())


@per_sample_gradients.claim("runs all samples together, not in a loop", weight=0, gate=True)
def _(trial: Trial) -> None:
    case = _classified(trial, trial.integer(4, 7), 0)
    case.call()
    case.ensemble.expect_no_loop()


@per_sample_gradients.claim("gives each gradient at its full length", weight=5)
def _(trial: Trial) -> None:
    case = _classified(trial, trial.integer(4, 7), 1)
    case.expect(case.call(), shares=False)


@per_sample_gradients.claim("runs the architecture's forward once", weight=5)
def _(trial: Trial) -> None:
    case = _classified(trial, trial.integer(*shared.MANY), 0)
    case.call()
    case.ensemble.expect_passes(len(case.x))


@per_sample_gradients.claim(
    "is right for conv nets and targets of more dimensions, with batches of one for `loss_fn`, the length aside",
    weight=2,
)
def _(trial: Trial) -> None:
    batch, classes = trial.integer(3, 6), trial.integer(2, 3)
    ensemble = shared.Ensemble(trial, 2, shared.for_images(classes))
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
        shapes.append((tuple(outputs.shape), tuple(targets.shape)))
        return (outputs - targets).square().sum(dim=-1).sum() / len(targets)

    x, y = trial.randn(batch, 2, 4, 4), trial.randn(batch, classes)
    case = _Samples(ensemble, ensemble.models[0], x, y, squared_error)
    wanted = f"outputs (1, {classes}), targets (1, {classes})"
    shapes.clear()
    try:
        result = case.call()
    except AnswerRaised as raised:
        error = message_of(raised.error, 160)
        key = first_sign(
            # y reshaped inside the mapped function, or before it.
            ("target shape", f"is invalid for input of size {y.numel()}" in error),
            ("target shape", f"got sizes [{batch}, {y.numel()}] for the mapped dimension" in error),
            ("mapped parameters", "mapped dimension" in error),
            ("unbatched", True),
        )
        raise Missed(key, expected=wanted, raised=error) from raised
    for outputs, targets in shapes:
        key = "unbatched" if len(outputs) < 2 or len(targets) < 2 else "whole batch"
        if outputs == (1, classes) and len(targets) < 2:  # labels were given as a batch of one: the claims above
            key = "target shape"
        expect(outputs == targets == (1, classes), key, expected=wanted, got=f"outputs {outputs}, targets {targets}")
    case.expect(result)


@per_sample_gradients.claim("keeps a dimension for one sample, and for one column of a weight", weight=0.5)
def _(trial: Trial) -> None:
    for batch, columns in ((1, 0), (trial.integer(4, 7), 1)):
        case = _classified(trial, batch, 1, columns=columns)
        case.expect(case.call())


@per_sample_gradients.claim("is right for a model with batch norm in eval mode, the length aside", weight=0.5)
def _(trial: Trial) -> None:
    case = _classified(trial, trial.integer(3, 5), 0, shared.normed)
    case.expect(case.call())
    case.ensemble.expect_no_loop()


@per_sample_gradients.claim("gives tensors without history, in the dtype of the parameters", weight=1)
def _(trial: Trial) -> None:
    case = _classified(trial, trial.integer(3, 5), 1)
    result = case.call()
    case.expect(result)
    for name, value in result.items():
        expect_no_history(value, "history", what=f"no history for {name}")
    for dtype in (torch.float32, torch.bfloat16):
        case = _classified(trial, trial.integer(3, 5), 1, dtype=dtype)
        expect_dtype(case.call(), case.expected)
