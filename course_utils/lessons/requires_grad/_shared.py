"""What several exercises of lesson 01, requires_grad, look at: parameters and flags, and what must stay around them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import is_

import torch
from torch import nn

from course_utils.checks.claims import Trial, expect


def parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The module's parameters by name; one that is shared stands under each of its names."""
    return dict(module.named_parameters(remove_duplicate=False))


def some_of(names: Iterable[str]) -> str:
    """The first four names, and three dots where there are more."""
    first, rest = list(names)[:4], list(names)[4:]
    return ", ".join([*first, "..."] if rest else first)


def flagged_names(module: nn.Module) -> list[str]:
    """The names of the parameters that require grad."""
    return [name for name, parameter in parameters(module).items() if parameter.requires_grad]


def fill_gradients(trial: Trial, module: nn.Module) -> list[nn.Parameter]:
    """Gives each flagged parameter a gradient; returns these parameters."""
    filled = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in filled:
        parameter.grad = trial.randn(*parameter.shape).to(parameter)
    return filled


def in_lists(module: nn.Module) -> nn.Module:
    """Makes ``parameters`` and ``named_parameters`` return lists, to be gone through twice; returns the module."""

    def listing(submodule: nn.Module, method: Callable[..., Iterable]) -> Callable[..., list]:
        return lambda *given, **options: list(method(submodule, *given, **options))

    for submodule in module.modules():
        for method in (nn.Module.parameters, nn.Module.named_parameters):
            setattr(submodule, method.__name__, listing(submodule, method))
    return module


def expect_own_parameters(module: nn.Module, before: dict[str, nn.Parameter]) -> None:
    """The module's parameters are the same objects, under the same names."""
    now = parameters(module)
    kept = list(now) == list(before) and all(map(is_, now.values(), before.values()))
    expect(kept, "replaced", expected="the parameters that were there", got="other objects in their place")


@contextmanager
def rest_kept(module: nn.Module) -> Iterator[None]:
    """Around calls of the answer: what is no flag of a parameter stays as it was.

    Raises:
        Missed: "eval", "side effect" (training mode), "replaced" or "values" (parameters), "buffers".
    """
    training = {name: submodule.training for name, submodule in module.named_modules()}
    before = {name: (value, value.detach().clone()) for name, value in parameters(module).items()}
    buffers = {name: (value, value.detach().clone(), value.requires_grad) for name, value in module.named_buffers()}
    yield
    for name, submodule in module.named_modules():
        key, mode = ("side effect", "training mode") if submodule.training else ("eval", "eval mode")
        kept = submodule.training == training.get(name, submodule.training)
        expect(kept, key, expected=f"{name or 'the module'} in the mode it was in", got=mode)
    expect_own_parameters(module, {name: parameter for name, (parameter, _) in before.items()})
    for name, (parameter, values) in before.items():
        kept = torch.equal(parameter.detach(), values)
        expect(kept, "values", expected=f"{name} with the values it had", got="other values")
    now = dict(module.named_buffers())
    for name, (buffer, values, flag) in buffers.items():
        kept = now.get(name) is buffer and torch.equal(buffer.detach(), values) and buffer.requires_grad == flag
        expect(kept, "buffers", expected=f"the buffer {name} as it was", got="a change")
