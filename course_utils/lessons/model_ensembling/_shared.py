"""What the exercises of lesson 10 look at: models of one architecture, their outputs in a loop, forward passes."""

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import describe, message_of
from course_utils.base.torch_private import get_unwrapped, is_batched, is_functorch_wrapped
from course_utils.checks.claims import (
    AnswerRaised,
    Lazy,
    Missed,
    Trial,
    expect,
    gradient,
    reading,
    same,
)
from course_utils.memory.dispatch import DispatchMode

MANY = (65, 70)  # models or samples, more than what chunks usually have


class _Numbers(DispatchMode):
    """How many numbers an operation gives back. Under vmap this sees the tensors with all their dimensions."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Mapping | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count = max(self.count, result.numel())  # autograd looks at a result once more
        return result


def _is_mapped(x: Tensor) -> bool:
    """Whether vmap hands this tensor on, with more dimensions than it shows."""
    while is_functorch_wrapped(x):
        if is_batched(x):
            return True
        x = get_unwrapped(x)
    return False


class _CountedTanh(nn.Module):
    """Stands once in an architecture, so that each of its forward passes is counted, however it is called."""

    def forward(self, x: Tensor) -> Tensor:
        with _Numbers() as numbers:
            result = x.tanh()
        self.count((numbers.count, _is_mapped(x), x.dim()))
        return result


class _Shift(nn.Module):
    """Adds a buffer that is not in the state dict; in eval mode it takes it away."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(columns), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift if self.training else x - self.shift


def plain(columns: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(columns, 6), _CountedTanh(), nn.Linear(6, classes))


def normed(columns: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(columns, 6), nn.BatchNorm1d(6), _CountedTanh(), nn.Linear(6, classes)).eval()


def for_images(classes: int) -> nn.Sequential:
    """Takes images of shape (2, 4, 4)."""
    return nn.Sequential(nn.Conv2d(2, 3, 3), _CountedTanh(), nn.Flatten(), nn.Linear(12, classes))


class Ensemble:
    """Models of one architecture whose parameters, buffers and gradients differ; every other one has a ``.grad``.

    Attributes:
        given: the parameters of each model that the answer's last call got.
        passed: how many forward passes the answer's last call ran.
        numbers: how many numbers one layer, that of ``tanh``, gave back in the largest of them.
    """

    def __init__(self, trial: Trial, count: int, architecture: nn.Sequential) -> None:
        self.trial, self.passed, self.numbers = trial, 0, 0
        self._passes: list[tuple[int, bool, int]] = []
        self.given: list[list[nn.Parameter]] = []
        (counted,) = (layer for layer in architecture if isinstance(layer, _CountedTanh))
        passes = self._passes
        counted.count = lambda seen: passes.append(seen)  # a deep copy of a model has this very function
        self.models = [trial.fill(copy.deepcopy(architecture).double()) for _ in range(count)]
        for number, model in enumerate(self.models):
            for buffer in model.buffers():
                is_count = not buffer.is_floating_point()
                buffer.copy_(torch.tensor(trial.integer(1, 50)) if is_count else trial.randn(*buffer.shape).abs() + 0.5)
            for parameter in model.parameters() if number % 2 else ():
                parameter.grad = trial.randn(*parameter.shape)

    def call(self, *arguments: Any, show: str = "") -> Any:
        """Calls the answer as ``trial.call`` does, counts forward passes, and notes models that lost their tensors."""
        self._passes.clear()
        first = arguments[0]
        named = {f"models[{i}]": one for i, one in enumerate(first)} if isinstance(first, list) else {"model": first}
        before = {name: _tensors(model) for name, model in named.items()}
        self.given = [list(model.parameters()) for model in named.values()]
        try:
            result = self.trial.call(*arguments, show=show)
        finally:
            for name, model in named.items():
                old, new = before[name], _tensors(model)
                if any(new.get(key, tensor) is not tensor for key, tensor in old.items()):
                    device = next(iter(new.values())).device
                    self.trial.effects.append(f"put other tensors into {name}, on the device {device}")
        self.passed, self.numbers = len(self._passes), max((numbers for numbers, *_ in self._passes), default=0)
        return result

    def call_with_models(self, *arguments: Any, what: str = "models") -> Any:
        """Calls the answer with copies of all models: whatever it does to them, ours stay what they are."""
        copies = copy.deepcopy(self.models)
        for model, theirs in zip(self.models, copies, strict=True):
            for mine, copied in zip(model.parameters(), theirs.parameters(), strict=True):
                copied.grad = None if mine.grad is None else mine.grad.clone()  # a deep copy leaves it out
        what = what if len(copies) > 1 else what.replace("models", "model")
        shown = ", ".join([f"{len(copies)} {what}", *(describe(argument, 40) for argument in arguments)])
        return self.call(copies, *arguments, show=f"{self.trial.name}({shown})")

    def outputs(self, xs: Sequence[Tensor], models: Sequence[nn.Module] = ()) -> Tensor:
        """Model i on batch i, in a loop; of other models where they are given."""
        with torch.no_grad():
            return torch.stack([model(x) for model, x in zip(models or self.models, xs, strict=True)])

    def recorded(self, xs: Sequence[Tensor]) -> Tensor:
        """Model i on batch i, in a loop, with its history."""
        return torch.stack([model(x) for model, x in zip(self.models, xs, strict=True)])

    def with_state_of_first(self, *, parameters: bool, buffers: bool) -> list[nn.Module]:
        """Copies of the models in which every one has the first one's parameters, or buffers, or both."""
        copies, first = copy.deepcopy(self.models), self.models[0]
        for model in copies:
            pairs = zip(model.parameters(), first.parameters(), strict=True) if parameters else ()
            more = zip(model.buffers(), first.buffers(), strict=True) if buffers else ()
            for mine, theirs in (*pairs, *more):
                mine.detach().copy_(theirs)
        return copies

    def expect_no_loop(self, expected: int = 1) -> None:
        """The answer's last call ran the architecture's forward as often as expected, or at least mapped some of it."""
        looped = self.passed > expected and not any(mapped for _, mapped, _ in self._passes)
        told = f"forward passes of the architecture: {expected}"
        expect(not looped, "loop", expected=told, got=f"{self.passed}, each of one model or one sample")

    def expect_passes(self, rows: int, expected: int = 1) -> None:
        """The answer's last call ran the architecture's forward as often as expected, each time on all these rows."""
        key = "loop" if self.passed > expected else ""
        if key and any(mapped for _, mapped, _ in self._passes):
            whole = max(numbers for numbers, *_ in self._passes) >= rows * self.models[0][0].out_features
            key = "again" if whole else "chunks"
        told = f"forward passes of the architecture: {expected}"
        expect(self.passed == expected, key, expected=told, got=str(self.passed))

    @contextlib.contextmanager
    def given_images(self) -> Iterator[None]:
        """Inside, an error of the answer, which has been right for rows of features, says what it takes images for."""
        try:
            yield
        except AnswerRaised as raised:
            alone = any(dims < 4 for *_, dims in self._passes)  # what the convolution gave for a sample by itself
            error = message_of(raised.error, 160)
            raise Missed("unbatched" if alone else "table", expected="what a loop gives", raised=error) from raised

    def expect_rows(self, rows: int) -> None:
        """No more rows went through the architecture in any pass of the answer's last call than these."""
        seen = self.numbers / self.models[0][0].out_features
        told = f"rows through the architecture, of all models: {rows}"
        expect(seen <= rows, "all on all", expected=told, got=Lazy(lambda: f"{seen:g}"))

    def expect_connected(self, result: Tensor, xs: Sequence[Tensor]) -> None:
        """The result of the answer's last call leads to the models' own parameters, as that of a loop does."""
        expected = "a result that is connected to the parameters of the models, as the loop's is"
        frozen = sum(not parameter.requires_grad for given in self.given for parameter in given)
        expect(not frozen, "flags", expected=expected, got=f"requires_grad False on {frozen} of these parameters")
        expect(result.requires_grad, "cut", expected=expected, got="a result without history")
        upstream = self.trial.randn(*result.shape)
        for number, (mine, wanted) in enumerate(zip(self.models, self.given, strict=True)):
            got = torch.autograd.grad((result * upstream).sum(), wanted, retain_graph=True, allow_unused=True)
            told = f"a history that does not reach models[{number}]"
            expect(all(one is not None for one in got), "new leaves", expected=expected, got=told)
            right = torch.autograd.grad((mine(xs[number]) * upstream[number]).sum(), list(mine.parameters()))
            agree = all(same(one, other) for one, other in zip(got, right, strict=True))
            expect(agree, expected="the gradients that the loop's result gives", got=f"others for models[{number}]")

    def expect_predictions(self, result: Any, xs: Sequence[Tensor], key: str = "") -> None:
        """The result is every model's output for its batch; ``key`` names what else explains another one."""
        expected = self.outputs(xs)
        count, batch, classes = expected.shape
        got = self.trial.tensor(result, what=f"a tensor of shape ({count}, {batch}, {classes})")
        if got.shape != expected.shape:
            told = f"shape (models {count}, batch {batch}, classes {classes})"
            raise Missed(key or _prediction_key(got, expected), expected=told, got=f"shape {tuple(got.shape)}")
        if not same(got, expected):
            ones = [self.outputs(xs, self.with_state_of_first(parameters=True, buffers=also)) for also in (True, False)]
            key = reading(got, (("first model", one) for one in ones if count > 1)) or key
            key = key or _prediction_key(got, expected) or ("" if self.passed else "by hand")
            raise Missed(key, expected="each model's own outputs", got=_differing(got, expected))


def _differing(got: Tensor, expected: Tensor) -> str:
    wrong = ", ".join(str(i) for i in range(len(expected)) if not same(got[i], expected[i]))
    return f"other values for model {wrong}"


def _tensors(model: nn.Module) -> Mapping[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


def _prediction_key(got: Tensor, expected: Tensor) -> str:
    """Which misconception a wrong result of model predictions shows, or ""."""
    models, batch, classes = expected.shape
    if is_squeezed(got, expected):
        return "squeezed"
    probabilities = expected.softmax(-1)
    swapped = got.transpose(0, 1) if got.dim() > 1 else got
    otherwise = [("order", expected.flatten(0, 1))]
    otherwise += [("averaged", mean) for mean in (expected.mean(0), expected.sum(0), probabilities.mean(0))]
    otherwise += [("scores", scores) for scores in (probabilities, expected.log_softmax(-1))]
    if same(swapped, expected) or (got.dim() > 1 and got.numel() == expected.numel() and got.shape != expected.shape):
        return "order"
    if key := reading(got, otherwise):
        return key
    if got.shape == (models, batch):
        return "scores"
    if got.shape == (models, classes):
        return "one answer"
    one = got if got.shape == (batch, classes) else got[0]
    if models > 1 and same(one.expand_as(got), got):  # one answer for all models
        return "first model" if any(same(one, own) for own in expected) else "averaged"
    return ""


def is_squeezed(got: Tensor, expected: Tensor) -> bool:
    """Whether these are the expected numbers, and nothing is missing but dimensions of size 1."""
    larger = [[size for size in one.shape if size > 1] for one in (got, expected)]
    return got.dim() < expected.dim() and larger[0] == larger[1] and same(got.reshape(expected.shape), expected)


def expect_sizes_of_one(trial: Trial, *, each: bool) -> None:
    """One model, then one row, then one class, and more of the others.

    Args:
        trial: calls the answer.
        each: whether each model has a batch of its own.
    """
    for place in range(3):
        sizes, columns = [trial.integer(3, 5), trial.integer(6, 9), 2], trial.integer(2, 5)
        sizes[place] = 1
        count, batch, classes = sizes
        ensemble = Ensemble(trial, count, plain(columns, classes).train(place > 0))
        x = trial.randn(count, batch, columns) if each else trial.randn(batch, columns)
        ensemble.expect_predictions(ensemble.call_with_models(x), list(x) if each else [x] * count)


def expect_images(trial: Trial, *, each: bool, listed: bool = False) -> None:
    """Samples of three dimensions.

    Args:
        trial: calls the answer.
        each: whether each model has a batch of its own.
        listed: whether these come in a list.
    """
    count, batch = trial.integer(2, 4), trial.integer(5, 7)
    ensemble = Ensemble(trial, count, for_images(other_integer(trial, 2, 6, count)))
    x = trial.randn(count, batch, 2, 4, 4) if each else trial.randn(batch, 2, 4, 4)
    with ensemble.given_images():
        result = ensemble.call_with_models(list(x) if listed else x, what="conv nets")
    ensemble.expect_predictions(result, list(x) if each else [x] * count, "table")


def expect_own_buffers(trial: Trial, *, each: bool) -> None:
    """Batch norm in eval mode with statistics that differ, then a buffer that the state dict leaves out.

    Args:
        trial: calls the answer.
        each: whether each model has a batch of its own.
    """
    for what in ("models with batch norm in eval mode", "models"):
        count, columns = trial.integer(3, 4), trial.integer(2, 5)
        architecture = normed(columns, other_integer(trial, 2, 6, count))
        if what == "models":
            architecture[1] = _Shift(6)
            architecture.train()
        ensemble = Ensemble(trial, count, architecture)
        x = trial.randn(count, 5, columns) if each else trial.randn(5, columns)
        xs = list(x) if each else [x] * count
        try:
            got = trial.tensor(ensemble.call_with_models(x, what=what))
        except AnswerRaised as raised:
            error = message_of(raised.error, 160)
            if what != "models" or "meta" not in error:
                raise
            raise Missed("state dict", expected="the outputs with each model's own buffers", raised=error) from raised
        if what == "models":
            otherwise = {"state dict": ensemble.with_state_of_first(parameters=False, buffers=True)}
            otherwise["modes"] = [copy.deepcopy(model).eval() for model in ensemble.models]
        else:
            otherwise = {"modes": [copy.deepcopy(model).train() for model in ensemble.models]}
        readings = {key: ensemble.outputs(xs, models) for key, models in otherwise.items()}
        expected = ensemble.outputs(xs)
        if not same(got, expected):
            got_told = _differing(got, expected) if got.shape == expected.shape else f"shape {tuple(got.shape)}"
            key = reading(got, readings) or "buffers"
            told = "the outputs " + ("in the models' own modes" if key == "modes" else "with each model's own buffers")
            raise Missed(key, expected=told, got=got_told)


def expect_connected(trial: Trial, *, each: bool) -> None:
    """The gradient of the answer's result reaches every model's own parameters, and inputs that require grad.

    Args:
        trial: calls the answer.
        each: whether each model has a batch of its own.
    """
    count, columns = trial.integer(2, 4), trial.integer(2, 5)
    ensemble = Ensemble(trial, count, plain(columns, other_integer(trial, 2, 6, count)))
    x = trial.randn(count, 5, columns) if each else trial.randn(5, columns)
    result = trial.tensor(ensemble.call_with_models(x))
    ensemble.expect_connected(result, list(x) if each else [x] * count)
    x.requires_grad_()
    loop = ensemble.recorded(list(x) if each else [x] * count)
    expected = "a result that is connected to an x that requires grad, as the loop's is"
    for given in (x, list(x)) if each else (x,):
        try:
            result = trial.tensor(ensemble.call_with_models(given))
        except (AnswerRaised, Missed):
            if given is x:
                raise
            return  # what a list gives has a claim of its own
        if given is not x and not same(result, loop):
            return
        got, right = gradient(result, x), gradient(loop, x)
        told = "a result without a way to x" if given is x else "a result without a way to the batches in a list"
        expect(got is not None, "input cut", expected=expected, got=told)
        expect(same(got, right), expected="the gradient of x that the loop's result gives", got="another one")


def other_integer(trial: Trial, low: int, high: int, *others: int) -> int:
    """An integer from ``low`` to ``high`` that is none of the others, so that shapes tell dimensions apart."""
    while (number := trial.integer(low, high)) in others:
        pass
    return number


def labels(trial: Trial, batch: int, classes: int) -> Tensor:
    """Labels, each different from its neighbours as far as classes allow."""
    return (torch.arange(batch) + trial.integer(0, classes - 1)) % classes
