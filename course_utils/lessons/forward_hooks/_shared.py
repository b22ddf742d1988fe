"""What several exercises of lesson 07, forward_hooks, look at."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Unlucky
from course_utils.checks.state import hook_count
from course_utils.checks.trial import AnswerRaised, Missed, Trial


def _exactly(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and got.dtype == expected.dtype and torch.equal(got, expected)


def _expect_error(kind: type[Exception], call: Callable[[], Any], who: str) -> None:
    """The call lets an error of that kind through."""
    try:
        call()
    except AnswerRaised as raised:
        if not isinstance(raised.error, kind):
            got = f"{type(raised.error).__name__}: {raised.error}"[:120]
            raise Missed("swallowed", expected=f"the error of the {who}", got=got) from None
    else:
        raise Missed("swallowed", expected=f"the error of the {who}", got="no error")


def _expect_hooks(model: nn.Module, before: int, key: str) -> None:
    now = hook_count(model)
    if now != before:
        key = key if now > before else "cleared others"
        raise Missed(key, expected=f"hooks on the model: {before}, as before", got=f"{now}")


def _texts(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _layers(trial: Trial, *, inplace: bool = False) -> nn.Sequential:
    """A nested model of twelve columns. Takes three."""
    width = trial.integer(5, 9)
    encoder = nn.Sequential(nn.Linear(3, width), nn.ReLU(inplace=inplace), nn.Linear(width, 4))
    return trial.fill(nn.Sequential(OrderedDict(encoder=encoder, act=nn.Tanh(), head=nn.Linear(4, 2))).double())


def _numbers(tensor: Tensor) -> str:
    values = tensor.detach().flatten()[:3].tolist()
    shown = ", ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in values)
    return f"shape {tuple(tensor.shape)}, values {shown} ..."


def _differing(got: Tensor, expected: Tensor) -> dict[str, str]:
    """Where two tensors of one shape differ most, for the card."""
    place = int((got.detach() - expected).abs().nan_to_num(torch.inf).argmax())
    index = [int(part) for part in torch.unravel_index(torch.tensor(place), expected.shape)]
    values = (tensor.detach().flatten()[place].item() for tensor in (expected, got))
    return {label: f"{value:.6f} at {index}" for label, value in zip(("expected", "got"), values, strict=True)}


class _Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise Unlucky("this layer cannot go on")
