"""What ``freeze`` and ``finetune_parameters`` look at, each by the words that a card uses for it."""

from typing import Any

from torch import nn

from course_utils.checks.compare import Trial


def with_gradients(trial: Trial, module: nn.Module) -> nn.Module:
    """Gives each parameter a gradient; returns the module."""
    for parameter in module.parameters():
        parameter.grad = trial.randn(*parameter.shape)
    return module


def flags(module: nn.Module) -> dict[str, Any]:
    """Whether each parameter requires grad."""
    return {f"{name}.requires_grad": parameter.requires_grad for name, parameter in module.named_parameters()}


def gradients(module: nn.Module, of: str = "") -> dict[str, Any]:
    """What each parameter whose name begins with ``of`` has in ``.grad``."""
    return {f"{name}.grad": one.grad for name, one in module.named_parameters() if name.startswith(of)}


def rest(module: nn.Module) -> dict[str, Any]:
    """What no flag is: values, and the mode of each part."""
    values = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    modes = {f"{name or 'the module'}.training": part.training for name, part in module.named_modules()}
    return values | modes
