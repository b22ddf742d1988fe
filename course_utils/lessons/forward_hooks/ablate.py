"""``ablate`` zeroes channels of a module's output."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Seen, Trial, compared

ablate = compared(__file__)


def _convolution(trial: Trial, channels: int) -> tuple[nn.Module, Tensor]:
    """Every dimension of its input and output has room for every channel's index."""
    return trial.fill(nn.Conv2d(8, channels, 1)).double(), trial.randn(8, 8, 9, 8)


def _split(trial: Trial) -> tuple[list[int], list[int]]:
    """Two channels out of six, the larger index first; and the others."""
    second = trial.integer(2, 5)
    listed = [second, trial.integer(0, second - 1)]
    return listed, [index for index in range(6) if index not in listed]


def _ablating(
    trial: Trial, module: nn.Module, channels: list[int], body: Callable[[Any], Any], show: str = "module(x)"
) -> Any:
    """What ``body`` gives that is called with the answer's handle."""
    return trial.run(
        lambda: body(trial.answer(module, list(channels))),
        called=f"handle = ablate({type(module).__name__}, {channels}); {show}",
        watch={f"module.{name}": tensor for name, tensor in module.named_parameters()},
    )


@ablate.looks("zeroes the listed channels of images from now on, and keeps the others", gate=True, weight=0.5)
def _(trial: Trial) -> Seen:
    listed, _ = _split(trial)
    module, x = _convolution(trial, 6)
    first, second = _ablating(trial, module, listed, lambda _: (module(x), module(2 * x)), "module(x), module(2 * x)")
    yield f"output, channels {listed} ablated", first
    yield f"output of a second call, channels {listed} ablated", second


@ablate.looks("does so for outputs of two dimensions, or three, as well", "image")
def _(trial: Trial) -> Seen:
    listed, _ = _split(trial)
    for module, x in (
        (nn.Linear(8, 6), trial.randn(9, 8)),
        (nn.Conv1d(8, 6, 1), trial.randn(9, 8, 8)),
        (nn.Tanh(), trial.randn(9, 6)),
    ):
        trial.fill(module).double()
        got = _ablating(trial, module, listed, lambda _, module=module, x=x: module(x))
        yield f"output of {type(module).__name__}, channels {listed} ablated", got


@ablate.looks("does not edit the module's own output tensor", weight=4)
def _(trial: Trial) -> Seen:
    outputs: list[tuple[Tensor, Tensor]] = []
    listed, _ = _split(trial)
    module, x = _convolution(trial, 6)
    module.register_forward_hook(lambda _module, _args, output: outputs.append((output, output.detach().clone())))
    _ablating(trial, module, listed, lambda _: module(x))
    return {"the module's own output edited": [not torch.equal(output, was) for output, was in outputs]}


@ablate.looks("keeps the gradients of the other channels, and gives the listed ones none", weight=4)
def _(trial: Trial) -> Seen:
    listed, _ = _split(trial)
    convolution, x = _convolution(trial, 6)
    module, slope = nn.Sequential(convolution, nn.Tanh()), trial.randn(8, 6, 9, 8)

    def body(_handle: Any) -> tuple[bool, Any]:
        y, weights = module(x), [*module.parameters()]
        return y.requires_grad, torch.autograd.grad((y * slope).sum(), weights) if y.requires_grad else ()

    recorded, found = _ablating(trial, module, listed, body, "module(x), and backward")
    yield "the output requires grad", recorded
    yield f"gradients of weight and bias, channels {listed} ablated", found


@ablate.looks("is undone by `handle.remove()`, and other ablations are not", weight=1.5)
def _(trial: Trial) -> Seen:
    listed, others = _split(trial)
    module, x = _convolution(trial, 6)

    def body(first: Any) -> list[Tensor]:
        second = trial.answer(module, others[:1])
        outputs = [module(x)]
        for handle in (first, second):
            handle.remove()
            outputs.append(module(x))
        return outputs

    outputs = _ablating(trial, module, listed, body, f"other = ablate(Conv2d, {others[:1]}); module(x)")
    yield "output with both", outputs[0]
    yield "output after handle.remove()", outputs[1]
    yield "output after other.remove()", outputs[2]
