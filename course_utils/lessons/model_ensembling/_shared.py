"""What the exercises of lesson 10 look at: models of one architecture, and how often their forward runs."""

import copy

from torch import Tensor, nn

from course_utils.checks.compare import Trial


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
