"""What several exercises of lesson 01, requires_grad, look at."""

import torch
from torch import nn

from course_utils.checks.trial import Missed, Trial


class _Rest:
    """What must stay as it was around the flags: parameters themselves, buffers, training flags, hooks."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parameters = dict(module.named_parameters(remove_duplicate=False))
        self.values = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
        self.buffers = {
            name: (buffer, buffer.detach().clone(), buffer.requires_grad) for name, buffer in module.named_buffers()
        }
        self.training = {name: submodule.training for name, submodule in module.named_modules()}

    def judge(self) -> None:
        """Raises ``Missed`` with one of the keys of ``_REST_MISCONCEPTIONS``, or ``"side effect"``."""
        for name, submodule in self.module.named_modules():
            if submodule.training != self.training.get(name, submodule.training):
                key, mode = ("side effect", "training") if submodule.training else ("eval", "eval")
                raise Missed(key, expected=f"{name or 'the module'} in the mode it was in", got=f"{mode} mode")
        now = dict(self.module.named_parameters(remove_duplicate=False))
        if list(now) != list(self.parameters) or any(now[name] is not self.parameters[name] for name in now):
            raise Missed("replaced", expected="the parameters that were there", got="other objects in their place")
        for name, parameter in now.items():
            if not torch.equal(parameter.detach(), self.values[name]):
                raise Missed("values", expected=f"{name} with the values it had", got="other values")
        buffers = dict(self.module.named_buffers())
        for name, (buffer, values, flag) in self.buffers.items():
            found = buffers.get(name)
            if found is not buffer or not torch.equal(found.detach(), values) or found.requires_grad != flag:
                raise Missed("buffers", expected=f"the buffer {name} as it was", got="a change")


def _fill_gradients(trial: Trial, module: nn.Module) -> None:
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.grad = trial.randn(*parameter.shape).to(parameter)
