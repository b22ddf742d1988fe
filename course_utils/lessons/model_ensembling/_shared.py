"""What several exercises of lesson 10, model_ensembling, look at."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.base.text import describe
from course_utils.checks.claims import same
from course_utils.checks.trial import Missed, Trial


class _Tally:
    """Counts forward passes. A copy of a model counts on the same tally as the model."""

    def __init__(self) -> None:
        self.passes = 0

    def __deepcopy__(self, memo: dict) -> "_Tally":
        return self


class _CountedTanh(nn.Module):
    """Stands once in an architecture, so that each of its forward passes is counted, however it is called."""

    def __init__(self, tally: _Tally) -> None:
        super().__init__()
        self.tally = tally

    def forward(self, x: Tensor) -> Tensor:
        self.tally.passes += 1
        return x.tanh()


class _Shift(nn.Module):
    """Adds a buffer that is not in the state dict."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(columns), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift


def _models(trial: Trial, count: int, make: Callable[[_Tally], nn.Sequential]) -> tuple[list[nn.Sequential], _Tally]:
    """Models of one architecture whose parameters, buffers and gradients differ; every other one has a ``.grad``."""
    tally = _Tally()
    models = [trial.fill(make(tally).double()) for _ in range(count)]
    for number, model in enumerate(models):
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.copy_(trial.randn(*buffer.shape).abs() + 0.5)
            else:
                buffer.fill_(trial.integer(1, 50))
        if number % 2:
            for parameter in model.parameters():
                parameter.grad = trial.randn(*parameter.shape)
    return models, tally


def _copies(models: Sequence[nn.Module]) -> list[nn.Module]:
    """Models to hand out: whatever an answer does to them, ours stay what they are."""
    copies = [copy.deepcopy(model) for model in models]
    for model, theirs in zip(models, copies, strict=True):
        for mine, copied in zip(model.parameters(), theirs.parameters(), strict=True):
            copied.grad = None if mine.grad is None else mine.grad.clone()  # a deep copy leaves it out
    return copies


def _plain(columns: int, classes: int) -> Callable[[_Tally], nn.Sequential]:
    def make(tally: _Tally) -> nn.Sequential:
        return nn.Sequential(nn.Linear(columns, 6), _CountedTanh(tally), nn.Linear(6, classes))

    return make


def _normed(columns: int, classes: int) -> Callable[[_Tally], nn.Sequential]:
    def make(tally: _Tally) -> nn.Sequential:
        layers = nn.Linear(columns, 6), nn.BatchNorm1d(6), _CountedTanh(tally), nn.Linear(6, classes)
        return nn.Sequential(*layers).eval()

    return make


def _shifted(columns: int, classes: int) -> Callable[[_Tally], nn.Sequential]:
    def make(tally: _Tally) -> nn.Sequential:
        return nn.Sequential(nn.Linear(columns, 6), _Shift(6), _CountedTanh(tally), nn.Linear(6, classes))

    return make


def _for_images(classes: int) -> Callable[[_Tally], nn.Sequential]:
    """Takes images of shape (2, 4, 4)."""

    def make(tally: _Tally) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(2, 3, 3), _CountedTanh(tally), nn.Flatten(), nn.Linear(12, classes))

    return make


def _outputs(models: Sequence[nn.Module], xs: Sequence[Tensor], tally: _Tally) -> Tensor:
    """Model i on batch i, in a loop. The tally is as before."""
    before = tally.passes
    with torch.no_grad():
        result = torch.stack([model(x) for model, x in zip(models, xs, strict=True)])
    tally.passes = before
    return result


def _with_state_of_first(models: Sequence[nn.Module], *, parameters: bool, buffers: bool) -> list[nn.Module]:
    """Copies of the models in which every one has the first one's parameters, or buffers, or both."""
    copies = [copy.deepcopy(model) for model in models]
    first = models[0]
    with torch.no_grad():
        for model in copies:
            pairs = zip(model.parameters(), first.parameters(), strict=True) if parameters else ()
            more = zip(model.buffers(), first.buffers(), strict=True) if buffers else ()
            for mine, theirs in (*pairs, *more):
                mine.copy_(theirs)
    return copies


def _apart(trial: Trial, low: int, high: int, *others: int) -> int:
    """An integer from ``low`` to ``high`` that is none of the others, so that shapes tell dimensions apart."""
    while True:
        number = trial.integer(low, high)
        if number not in others:
            return number


def _expect_passes(tally: _Tally, expected: int, key: str) -> None:
    if tally.passes != expected:
        key = key if tally.passes > expected else ""
        raise Missed(key, expected=f"forward passes of the architecture: {expected}", got=f"{tally.passes}")


_EFFECTS_ON_MODES = (("in eval mode", "modes"), ("in training mode", "modes"))
_RAISES_MODULES = (("cannot vmap over non-Tensor arguments", "models mapped"),)
_RAISES_META = (
    ("on device meta is not on the expected device", "buffers"),
    ("Tensor on device meta", "buffers"),
    ("Missing key(s)", "buffers"),
)


def _prediction_key(got: Tensor, expected: Tensor) -> str:
    """Which misconception a wrong result of model predictions shows, or ""."""
    models, batch, classes = expected.shape
    probabilities = expected.softmax(-1)
    if same(got.transpose(0, 1) if got.dim() > 1 else got, expected) or same(got, expected.flatten(0, 1)):
        return "order"
    if got.dim() > 1 and got.numel() == expected.numel() and got.shape != expected.shape:
        return "order"
    if any(same(got, value) for value in (expected.mean(0), expected.sum(0), probabilities.mean(0))):
        return "averaged"
    if got.shape == (models, batch) or any(same(got, f(expected, -1)) for f in (F.softmax, F.log_softmax)):
        return "scores"
    if got.shape == (batch, classes):
        return "first model" if same(got, expected[0]) else "averaged"
    return ""


def _expect_predictions(
    result: Any, models: Sequence[nn.Module], xs: Sequence[Tensor], tally: _Tally, trial: Trial, key: str = ""
) -> Tensor:
    """The result as a tensor, where it is every model's output for its batch."""
    expected = _outputs(models, xs, tally)
    count, batch, classes = expected.shape
    got = trial.tensor(result, what=f"a tensor of shape ({count}, {batch}, {classes})")
    if got.shape != expected.shape:
        found = key or _prediction_key(got, expected)
        raise Missed(found, expected=f"shape (models {count}, batch {batch}, classes {classes})", got=_shape(got))
    if not same(got, expected):
        one = _outputs(_with_state_of_first(models, parameters=True, buffers=True), xs, tally)
        part = _outputs(_with_state_of_first(models, parameters=True, buffers=False), xs, tally)
        found = "first model" if count > 1 and (same(got, one) or same(got, part)) else ""
        found = found or key or _prediction_key(got, expected)
        wrong = [i for i in range(count) if not same(got[i], expected[i])]
        raise Missed(found, expected="each model's own outputs", got=f"other values for model {_numbers(wrong)}")
    return got


def _shape(tensor: Tensor) -> str:
    return f"shape {tuple(tensor.shape)}"


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _show(name: str, models: Sequence[nn.Module], *rest: object, what: str = "models") -> str:
    return f"{name}({', '.join([f'{len(models)} {what}', *map(describe, rest)])})"


def _expect_own_buffers(trial: Trial, call: Callable[..., Any], *, shared_x: bool) -> None:
    """Batch norm in eval mode with statistics that differ, then a buffer that the state dict leaves out."""
    for make, what, key in ((_normed, "models with batch norm in eval mode", "buffers"), (_shifted, "models", "")):
        count, columns = trial.integer(3, 4), trial.integer(2, 5)
        models, tally = _models(trial, count, make(columns, _apart(trial, 2, 6, count)))
        x = trial.randn(5, columns) if shared_x else trial.randn(count, 5, columns)
        xs = [x] * count if shared_x else list(x)
        got = trial.tensor(call(trial, models, x, what))
        expected = _outputs(models, xs, tally)
        if same(got, expected):
            continue
        trained = [copy.deepcopy(model).train() for model in models]
        one_state = _outputs(_with_state_of_first(models, parameters=False, buffers=True), xs, tally)
        if same(got, _outputs(trained, xs, tally)):
            key = key and "modes"
        elif not key:
            key = "state dict" if same(got, one_state) else "buffers"
        told = "the outputs with each model's own buffers"
        raise Missed(key, expected=told, got="other values" if got.shape == expected.shape else _shape(got))


def _expect_named(
    result: Any, expected: Mapping[str, Tensor], key_of: Callable[[dict[str, Tensor]], str], not_named: str = ""
) -> dict[str, Tensor]:
    """The result as a dict of tensors, where names, shapes and values are as expected."""
    if result is None:
        raise Missed("no return value", expected="a dict of tensors", got="None")
    if isinstance(result, Tensor) and not_named:
        raise Missed("own weights", expected="a dict of tensors by parameter name", got=_shape(result))
    if not isinstance(result, Mapping):
        raise Missed(not_named, expected="a dict of tensors by parameter name", got=f"{type(result).__name__}")
    if set(result) != set(expected):
        raise Missed(not_named, expected="names " + ", ".join(expected), got=describe(list(result), 120))
    got = {}
    for name in expected:
        tensor = result[name]
        if not isinstance(tensor, Tensor):
            raise Missed("not a tensor", expected=f"a tensor for {name}", got=describe(tensor, 60))
        got[name] = tensor
    wrong_shape = next((name for name in expected if got[name].shape != expected[name].shape), None)
    if wrong_shape is not None:
        wanted, found = tuple(expected[wrong_shape].shape), tuple(got[wrong_shape].shape)
        raise Missed(key_of(got), expected=f"shape {wanted} for {wrong_shape}", got=f"shape {found}")
    wrong = next((name for name in expected if not same(got[name], expected[name])), None)
    if wrong is not None:
        raise Missed(key_of(got), expected=f"{wrong}: {_first(expected[wrong])}", got=_first(got[wrong]))
    return got


def _first(tensor: Tensor) -> str:
    values = tensor.detach().flatten()[:3].tolist()
    return "begins with " + ", ".join(f"{value:.4g}" for value in values)


def _labels(trial: Trial, batch: int, classes: int) -> Tensor:
    """Labels, each different from its neighbours as far as classes allow."""
    return (torch.arange(batch) + trial.integer(0, classes - 1)) % classes
