"""``accumulated_step``: one optimizer step, micro-batch by micro-batch, with the gradient clipped once."""

import torch
from torch import Tensor, nn

from course_utils.checks.compare import AtMost, Seen, Trial, compared
from course_utils.lessons.gradient_accumulation._shared import Batch, count_rows, loss_seen, mixed_modes

accumulated_step = compared(__file__)

_FAR = 1000.0  # a limit that no gradient here reaches


class _Step(Batch):
    """A batch, and an optimizer whose momentum is under way: it shows a step too many, and a wrong length."""

    def __init__(self, trial: Trial, rows: int, micro_batch: int, *layers: nn.Module) -> None:
        super().__init__(trial, rows, micro_batch, *layers)
        self.trial = trial
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.old_gradients(trial)
        self.optimizer.step()
        self.model.zero_grad()

    def call(self, max_norm: float, what: str = "") -> object:
        given = (self.model, self.optimizer, self.loss_fn, self.x, self.y, self.micro_batch, max_norm)
        show = f"accumulated_step(model, SGD with momentum, loss_fn, x, y, micro_batch, max_norm={max_norm:.3g})"
        words = f"{show}, {self.words}{what}"
        return self.trial.run(lambda: self.trial.answer(*given), called=words, watch=self.watched())

    def weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}


@accumulated_step.looks("makes the step of the full batch where all micro-batches are full, clipping aside", gate=True)
def _(trial: Trial) -> Seen:
    step = _Step(trial, 9, 3)
    step.call(_FAR)
    return {"weights after the step": step.weights()}


@accumulated_step.looks("also where the last micro-batch has fewer rows, or is the only one", weight=2)
def _(trial: Trial) -> Seen:
    for rows, size in ((11, 4), (trial.integer(3, 5), 7)):
        step = _Step(trial, rows, size)
        step.call(_FAR)
        yield f"weights after the step, {step.words}", step.weights()


@accumulated_step.looks("clips the total norm of the gradient once, to at most `max_norm`", weight=4)
def _(trial: Trial) -> Seen:
    for max_norm in (0.1, 0.5):
        step = _Step(trial, 12, 4)
        step.optimizer.param_groups[0]["params"].pop()  # it counts for the norm all the same
        step.call(max_norm)
        yield f"weights after the step, max_norm={max_norm}", step.weights()


@accumulated_step.looks("shows the model at most `micro_batch` rows at a time", weight=2)
def _(trial: Trial) -> Seen:
    step = _Step(trial, 14, 3)
    passes = count_rows(step.model)
    step.call(_FAR)
    return {"rows at a time": AtMost(max((rows for rows, _ in passes), default=0))}


@accumulated_step.looks("counts no old gradients, and leaves every `.grad` None")
def _(trial: Trial) -> Seen:
    step = _Step(trial, 8, 4)
    step.model[0].requires_grad_(False)
    step.optimizer.param_groups[0]["params"].pop()
    step.old_gradients(trial)
    step.call(_FAR, ", with old gradients in `.grad`")
    return {"weights after the step": step.weights(), ".grad afterwards": step.gradients()}


@accumulated_step.looks("returns the full batch's loss before the step, a float")
def _(trial: Trial) -> Seen:
    return loss_seen(trial, _Step(trial, 11, 4, *mixed_modes()).call(_FAR, ", a layer in eval mode"))
