"""What the exercises of lesson 10 look at: models of one architecture, and how often their forward runs."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, grad_and_value, stack_module_state, vmap

from course_utils.checks.compare import AtMost, Compared, Seen, Trial, compared
from course_utils.measure import FlopCounterMode

_FUNCTIONS = functional_call, grad, grad_and_value, stack_module_state, vmap
NAMES = {"copy": copy} | {each.__name__: each for each in _FUNCTIONS}  # what answers may use


class Passes:
    """How many forward passes an architecture has run, all copies of it taken together."""

    def __init__(self) -> None:
        self.count = 0

    def __deepcopy__(self, memo: object) -> "Passes":
        return self


class _CountedTanh(nn.Tanh):
    """Stands once in an architecture. Under vmap a pass of all models at once is one pass."""

    def __init__(self, passes: Passes) -> None:
        super().__init__()
        self.passes = passes

    def forward(self, x: Tensor) -> Tensor:
        self.passes.count += 1
        return super().forward(x)


COLUMNS, CLASSES = 4, 2


def models_of(trial: Trial, count: int, *, normed: bool = False) -> tuple[list[nn.Module], Passes]:
    """Models of one architecture, whose parameters and buffers differ; every second one has gradients.

    Args:
        trial: draws the numbers.
        count: how many models.
        normed: whether they have batch norm, in eval mode.
    """
    passes = Passes()
    norm = [nn.BatchNorm1d(6)] if normed else []
    architecture = nn.Sequential(nn.Linear(COLUMNS, 6), *norm, _CountedTanh(passes), nn.Linear(6, CLASSES)).double()
    models = [trial.fill(copy.deepcopy(architecture)) for _ in range(count)]
    for number, model in enumerate(models):
        model.train(not normed)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.copy_(trial.randn(*buffer.shape).abs() + 0.5)
        for parameter in model.parameters() if number % 2 else ():
            parameter.grad = trial.randn(*parameter.shape)
    return models, passes


def ensemble(
    file: str, gives: str, inputs: str, draw: Callable[[Trial, int], Tensor], weights: tuple[int, int, int]
) -> Compared:
    """The exercise of a function of models and their inputs, with its claims.

    Args:
        file: the exercise's module.
        gives: the first claim.
        inputs: what the card calls them.
        draw: the inputs of so many models.
        weights: those of the other claims: one pass, connected parameters, batch norm.
    """
    exercise = compared(file, **NAMES)

    def called(trial: Trial, count: int = 3, *, normed: bool = False) -> tuple[Tensor, list[nn.Module], Passes]:
        models, passes = models_of(trial, count, normed=normed)
        got = trial.call(models, draw(trial, count), show=f"{trial.name}({count} models, {inputs})")
        return trial.tensor(got), models, passes

    @exercise.looks(gives, gate=True)
    def _(trial: Trial) -> Seen:
        return {"the outputs": called(trial)[0].detach()}

    @exercise.looks("runs the architecture's forward once", weight=weights[0])
    def _(trial: Trial) -> Seen:
        with FlopCounterMode(display=False) as counter:
            *_, passes = called(trial)
        yield "forward passes", passes.count
        yield "FLOPs", AtMost(counter.get_total_flops())

    @exercise.looks("is connected to the models' own parameters", weight=weights[1])
    def _(trial: Trial) -> Seen:
        got, models, _ = called(trial)
        yield "requires grad", got.requires_grad
        parameters = [parameter for model in models for parameter in model.parameters()]
        found = torch.autograd.grad((got * trial.randn(*got.shape)).sum(), parameters, allow_unused=True)
        yield "gradients of the models' parameters", list(found)

    @exercise.looks("takes each model's own batch norm, in eval mode", weight=weights[2])
    def _(trial: Trial) -> Seen:
        for count in (5, 1):
            yield f"the outputs of {count} models", called(trial, count, normed=True)[0].detach()

    return exercise
