"""Errors half-way: what raises them, and what ``.grad`` is afterwards."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor, nn

from course_utils.checks.claims import Trial, Unlucky, equal_or_none, expect
from course_utils.lessons.gradient_accumulation._shared import Task


def some_gradients(trial: Trial, model: nn.Module) -> list[Tensor | None]:
    """Draws a ``.grad`` for every other parameter; returns copies of all."""
    for parameter in list(model.parameters())[::2]:
        parameter.grad = trial.randn(*parameter.shape)
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


@contextlib.contextmanager
def raises_half_way(task: Task, raising: str, place: int) -> Iterator[Callable[[Tensor, Tensor], Tensor]]:
    """Inside, the "model" or the "loss" raises ``Unlucky`` after so many calls; a loss of all rows at once raises, too,
    since it has the unlucky ones in it. Gives the loss."""
    calls: list[int] = []

    def note(here: str, rows: int = 0) -> None:
        if here == raising:
            calls.append(1)
            if len(calls) > place or rows == len(task.x):
                raise Unlucky("this micro-batch cannot be used")

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        note("loss", len(output))
        return task.loss_fn(output, target)

    handle = task.model[0].register_forward_pre_hook(lambda *_: note("model"))
    try:
        yield loss_fn
    finally:
        handle.remove()


def expect_grad_as_before(model: nn.Module, before: Sequence[Tensor | None]) -> None:
    """Each ``.grad`` is what it was. Else it holds a part of the new sum ("half-way"; "by name" where only tensors that
    were there do), what was there has been thrown away ("old ones lost"), or zeros stand where None was ("zeros").
    """
    found: dict[str, str] = {}
    for parameter, old in zip(model.parameters(), before, strict=True):
        now = parameter.grad
        if equal_or_none(now, old):
            continue
        if now is None or (old is not None and not now.any()):
            found["old ones lost"] = f"{'None' if now is None else 'zeros'} where a gradient was"
        elif old is None and not now.any():
            found["zeros"] = "zeros where None was"
        else:
            found["half-way" if old is None else "by name"] = "other values"
    for key in ("half-way", "by name", "old ones lost", "zeros"):
        expect(key not in found, key, expected="each .grad as before the call", got=found.get(key, ""))
