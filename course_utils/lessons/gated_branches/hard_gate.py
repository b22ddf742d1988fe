"""``hard_gate`` has the values of a step, and the gradient of a sigmoid."""

import torch

from course_utils.checks.compare import Seen, Trial, compared
from course_utils.lessons.gated_branches._shared import slopes

hard_gate = compared(__file__)


@hard_gate.looks("is 1 where the logit is positive, and 0 where it is negative", gate=True)
def _(trial: Trial) -> Seen:
    return {"the gate": trial.tensor(trial.call(trial.randn(4, 5), show="hard_gate(logit)"))}


@hard_gate.looks("is exactly 1.0 or 0.0, and 0.0 at a logit of 0", weight=1.5)
def _(trial: Trial) -> Seen:
    for dtype in (torch.float64, torch.float32):
        got = trial.tensor(trial.call(trial.randn(300, dtype=dtype), show=f"hard_gate(300 logits in {dtype})"))
        yield "all 300 are exactly 1.0 or 0.0", bool(((got == 0) | (got == 1)).all())
    tiny = torch.tensor([1e-9, -1e-9])  # whose sigmoid is 0.5, to float32
    yield "at tiny logits", trial.tensor(trial.call(tiny, show="hard_gate(torch.tensor([1e-9, -1e-9]))"))
    yield "at a logit of 0", trial.tensor(trial.call(torch.zeros(()), show="hard_gate(torch.zeros(()))"))


@hard_gate.looks("has the gradient of sigmoid(logit)", weight=5)
def _(trial: Trial) -> Seen:
    yield "gradient of logit", slopes(trial, 2 * trial.randn(4, 5), "logit")
    yield "gradient of a large logit", slopes(trial, torch.tensor([11.0, -11.0] * 9).double(), "logits of 11 and -11")


@hard_gate.looks("has it at a logit of -1000 as well", weight=0.5)
def _(trial: Trial) -> Seen:
    return {"gradient of logit": slopes(trial, torch.tensor([-1000.0]).double(), "torch.tensor([-1000.0])")}
