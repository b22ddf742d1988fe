"""What the objects that an answer is given were like: values, flags, gradients, modes and hooks (``Objects``)."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from course_utils.base.text import count_of

# Where a module keeps its hooks, whatever their kind.
_HOOKS = tuple(name for name in vars(nn.Module()) if name.endswith("_hooks"))


def hook_count(module: nn.Module) -> int:
    """How many hooks of any kind are registered on a module and its submodules."""
    return sum(len(vars(part).get(name) or ()) for part in module.modules() for name in _HOOKS)


class Objects:
    """Values, flags, gradients, training flags and hooks of the objects that an answer was given.

    Args:
        named: the objects by the name that a report should use. Containers are followed; what is no tensor, module or
            container of them is left alone.
        may_change: objects (and all that they contain) whose change the contract allows.
        watch_training: False where the modules' training flags are judged by a claim of their own.
    """

    def __init__(self, named: Mapping[str, Any], may_change: tuple[Any, ...] = (), watch_training: bool = True) -> None:
        self._watch_training, self._allowed = watch_training, set(map(id, may_change))
        # Each look sees how its object is, waits, and says in its next steps what has changed.
        self._looks = [look for name, value in named.items() for look in self._at(name, value)]
        for look in self._looks:
            next(look)

    def differences(self) -> list[str]:
        """What has changed since, one phrase each."""
        return [phrase for look in self._looks for phrase in look]

    def _at(self, name: str, value: Any) -> Iterator[Iterator[str]]:
        if id(value) in self._allowed:
            return
        if isinstance(value, torch.Tensor):
            yield _tensor(name, value)
        elif isinstance(value, nn.Module):
            yield _module(name, value, self._watch_training)
            for key, tensor in _tensors(value).items():
                yield _tensor(f"{name}.{key}", tensor)
        elif isinstance(value, (list, tuple, dict)):
            yield _container(name, value)
            for at, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self._at(f"{name}[{at!r}]", item)


def _tensor(name: str, tensor: torch.Tensor) -> Iterator[str]:
    values, flagged, grad_fn = tensor.detach().clone(), tensor.requires_grad, tensor.grad_fn
    grad = None if not tensor.is_leaf or tensor.grad is None else tensor.grad.detach().clone()
    yield ""
    if not _same(values, tensor.detach()):
        yield f"edited {name}"
    if tensor.requires_grad != flagged:
        yield f"set {name}.requires_grad to {tensor.requires_grad}"
    elif tensor.grad_fn is not grad_fn:
        yield f"changed the history of {name}"
    now = tensor.grad if tensor.is_leaf else None
    if (now is None) != (grad is None):
        yield f"{'cleared' if now is None else 'filled'} {name}.grad"
    elif grad is not None and now is not None and not _same(grad, now):
        yield f"changed {name}.grad"


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.shape != after.shape or before.dtype != after.dtype:
        return False
    # NaN differs from itself; equal NaN patterns are still no change.
    return torch.equal(before, after) or bool(((before == after) | ((before != before) & (after != after))).all())


def _module(name: str, module: nn.Module, watch_training: bool) -> Iterator[str]:
    flags, tensors, hooks = [part.training for part in module.modules()], _tensors(module), hook_count(module)
    yield ""
    changed = [part.training for part, was in zip(module.modules(), flags, strict=False) if part.training != was]
    if changed and watch_training:
        yield f"left {name} in {'training' if changed[0] else 'eval'} mode"
    current = _tensors(module)
    if list(current) != list(tensors):
        yield f"added or removed parameters or buffers of {name}"
    elif any(current[key] is not tensor for key, tensor in tensors.items()):
        yield f"put other tensors into {name}"
    extra = hook_count(module) - hooks
    if extra:
        yield f"left {count_of(extra, 'hook')} on {name}" if extra > 0 else f"removed hooks of {name}"


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return dict([*module.named_parameters(), *module.named_buffers()])


def _container(name: str, container: list | tuple | dict) -> Iterator[str]:
    def contents() -> list[Any]:
        return [*container, *(container.values() if isinstance(container, dict) else ())]

    before = contents()
    yield ""
    now = contents()
    if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
        yield f"changed the contents of {name}"
