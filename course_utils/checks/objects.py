"""What the objects that an answer is given were like: values, flags, gradients, modes and hooks (``Objects``)."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from course_utils.base.text import count_of


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    if torch.equal(before, after):
        return True
    # NaN differs from itself; equal NaN patterns are still no change.
    return bool(((before == after) | ((before != before) & (after != after))).all())


class _TensorPicture:
    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self.name, self.tensor = name, tensor
        self.values = tensor.detach().clone()
        self.flagged, self.grad_fn = tensor.requires_grad, tensor.grad_fn
        self.grad = tensor.grad if tensor.is_leaf else None
        self.grad_values = None if self.grad is None else self.grad.detach().clone()

    def differences(self) -> Iterator[str]:
        tensor = self.tensor
        if not _same(self.values, tensor.detach()):
            yield f"edited {self.name}"
        if tensor.requires_grad != self.flagged:
            yield f"set {self.name}.requires_grad to {tensor.requires_grad}"
        elif tensor.grad_fn is not self.grad_fn:
            yield f"changed the history of {self.name}"
        if tensor.is_leaf:
            if (tensor.grad is None) != (self.grad is None):
                yield f"{'cleared' if tensor.grad is None else 'filled'} {self.name}.grad"
            elif self.grad_values is not None and tensor.grad is not None and not _same(self.grad_values, tensor.grad):
                yield f"changed {self.name}.grad"


# Where a module keeps its hooks, whatever their kind.
_HOOKS = tuple(name for name in vars(nn.Module()) if name.endswith("_hooks"))


def hook_count(module: nn.Module) -> int:
    """How many hooks of any kind are registered on a module and its submodules."""
    return sum(map(_own_hooks, module.modules()))


def _own_hooks(module: nn.Module) -> int:
    filled = filter(None, map(vars(module).get, _HOOKS))
    return sum(len(hooks) for hooks in filled if isinstance(hooks, dict))


class _Contents:
    """What a module is made of, seen in one walk: modes by the submodules' names, tensors by theirs, hooks."""

    def __init__(self, module: nn.Module) -> None:
        self.training, self.hooks = dict[str, bool](), 0
        parameters, buffers = dict[str, torch.Tensor](), dict[str, torch.Tensor]()
        seen = set[int]()  # a tensor that is shared stands under its first name
        for prefix, part in module.named_modules():
            own = vars(part)
            self.training[prefix] = part.training
            self.hooks += _own_hooks(part)
            for found, kind in ((parameters, "_parameters"), (buffers, "_buffers")):
                for key, tensor in own[kind].items():
                    if tensor is not None and id(tensor) not in seen:
                        seen.add(id(tensor))
                        found[f"{prefix}.{key}" if prefix else key] = tensor
        self.tensors = parameters | buffers


class _ModulePicture:
    def __init__(self, name: str, module: nn.Module, watch_training: bool) -> None:
        self.name, self.module, self.watch_training = name, module, watch_training
        self.before = _Contents(module)
        self.tensors = [_TensorPicture(f"{name}.{key}", tensor) for key, tensor in self.before.tensors.items()]

    def differences(self) -> Iterator[str]:
        before, now = self.before, _Contents(self.module)
        changed = [key for key, training in before.training.items() if now.training.get(key, training) != training]
        if changed and self.watch_training:
            yield f"left {self.name} in {'training' if now.training[changed[0]] else 'eval'} mode"
        if list(now.tensors) != list(before.tensors):
            yield f"added or removed parameters or buffers of {self.name}"
        extra = now.hooks - before.hooks
        if extra:
            yield f"left {count_of(extra, 'hook')} on {self.name}" if extra > 0 else f"removed hooks of {self.name}"
        for tensor in self.tensors:
            yield from tensor.differences()


class Objects:
    """Values, flags, gradients, training flags and hooks of the objects that an answer was given.

    Args:
        named: the objects by the name that a report should use. Containers are followed; what is no tensor, module or
            container of them is left alone.
        may_change: objects (and all that they contain) whose change the contract allows.
        watch_training: False where the modules' training flags are judged by a claim of their own.
    """

    def __init__(self, named: Mapping[str, Any], may_change: tuple[Any, ...] = (), watch_training: bool = True) -> None:
        self._watch_training = watch_training
        self._pictures: list[_TensorPicture | _ModulePicture] = []
        self._containers: list[tuple[str, list | dict, list]] = []
        allowed = {id(value) for value in may_change}
        for name, value in named.items():
            self._take(name, value, allowed)

    def _take(self, name: str, value: Any, allowed: set[int]) -> None:
        if id(value) in allowed:
            return
        if isinstance(value, torch.Tensor):
            self._pictures.append(_TensorPicture(name, value))
        elif isinstance(value, nn.Module):
            self._pictures.append(_ModulePicture(name, value, self._watch_training))
        elif isinstance(value, (list, tuple)):
            if isinstance(value, list):
                self._containers.append((name, value, list(value)))
            for index, item in enumerate(value):
                self._take(f"{name}[{index}]", item, allowed)
        elif isinstance(value, dict):
            self._containers.append((name, value, list(value.items())))
            for key, item in value.items():
                self._take(f"{name}[{key!r}]", item, allowed)

    def differences(self) -> list[str]:
        """What has changed since, one phrase each; at most the first four of a kind of object."""
        found = []
        for name, container, before in self._containers:
            now = list(container.items()) if isinstance(container, dict) else list(container)
            if len(now) != len(before) or any(_different(a, b) for a, b in zip(now, before, strict=True)):
                found.append(f"changed the contents of {name}")
        for picture in self._pictures:
            found.extend(picture.differences())
        return found if len(found) <= 4 else [*found[:4], f"and {len(found) - 4} more changes"]


def _different(after: Any, before: Any) -> bool:
    if isinstance(after, tuple) and isinstance(before, tuple) and len(after) == len(before) == 2:
        return any(a is not b for a, b in zip(after, before, strict=True))
    return after is not before
