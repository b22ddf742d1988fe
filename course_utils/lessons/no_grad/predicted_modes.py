"""Asks for the grad mode at eight places; the check runs the lesson's cell and looks."""

import threading
from collections.abc import Iterator

import torch
from torch import nn

from course_utils.checks.compare import Trial, predict


def _modes_seen(trial: Trial) -> dict[str, bool]:
    """The lesson's cell."""
    seen: dict[str, bool] = {}

    def note() -> None:
        seen["thread"] = torch.is_grad_enabled()

    def hold() -> Iterator[None]:
        with torch.no_grad():
            yield

    with torch.no_grad():
        seen["outer"] = torch.is_grad_enabled()
        with torch.enable_grad():
            seen["inner_enabled"] = torch.is_grad_enabled()
        seen["after_inner"] = torch.is_grad_enabled()
        worker = threading.Thread(target=note)
        worker.start()
        worker.join()
        seen["parameter_under_no_grad"] = nn.Parameter(trial.randn(2)).requires_grad
    seen["decorated"] = torch.no_grad()(torch.is_grad_enabled)()
    paused = hold()
    next(paused)
    seen["generator_caller"] = torch.is_grad_enabled()
    paused.close()
    with torch.inference_mode():
        seen["inference_output_is_inference"] = (torch.ones(2) * 2).is_inference()
    return seen


predicted_modes = predict(__file__, _modes_seen)
