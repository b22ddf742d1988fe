"""Many models of one architecture, run one after the other or all at once (``mlps``, ``all_at_once``,
``ways_to_predict``, ``ways_to_differentiate``), and what each way takes (``count_kernels``, ``milliseconds``,
``times_faster``, ``gain_grid``). How models learn together is in ``course_utils.together``.

Lesson 10 measures with it.
"""

import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from course_utils.base.torch_private import tree_leaves
from course_utils.measure import cpu_threads, in_turns
from course_utils.record.operations import DispatchMode

Ways = Mapping[str, Callable[[], Any]]


def mlps(count: int, *sizes: int, device: torch.device | str = "cpu") -> list[nn.Sequential]:
    """Perceptrons of one architecture, each with weights of its own.

    Args:
        count: how many.
        sizes: columns of the input, of each hidden layer, and of the output; ReLU between the layers.
        device: where they live.
    """
    made = []
    for _ in range(count):
        layers: list[nn.Module] = []
        for wide, narrow in pairwise(sizes):
            layers += [nn.Linear(wide, narrow), nn.ReLU()]
        made.append(nn.Sequential(*layers[:-1]).to(device))
    return made


def all_at_once(models: Sequence[nn.Module], *, each: bool = False, **options: Any) -> Callable[[Tensor], Tensor]:
    """Stacks the models' weights, into new leaves, and returns a function that runs all models on a batch in one call.

    Args:
        models: of one class, with parameters of the same shapes.
        each: whether model i sees row i of what the function gets; else all see the whole batch.
        options: handed on to ``vmap``.
    """
    params, buffers = stack_module_state(list(models))
    base = copy.deepcopy(models[0]).to("meta")

    def one(params: Any, buffers: Any, x: Tensor) -> Tensor:
        return functional_call(base, (params, buffers), (x,))

    mapped = vmap(one, in_dims=(0, 0, 0 if each else None), **options)
    return lambda x: mapped(params, buffers, x)


def ways_to_predict(
    models: Sequence[nn.Module], x: Tensor, *, each: bool = False, record: bool = False, **options: Any
) -> Ways:
    """The predictions of all models, in a loop and in one call.

    Args:
        models: of one class, with parameters of the same shapes.
        x: one batch for all; or, with ``each``, a batch for every model along the first dimension.
        each: whether model i sees ``x[i]``.
        record: whether autograd records, for a backward pass.
        options: handed on to ``vmap``.

    Returns:
        ``{"loop": ..., "vmap": ...}``: functions without arguments that return a new tensor (models, batch, ...). The
        stacked copy of the weights is made here, once, and is not part of either.
    """
    stacked = all_at_once(models, each=each, **options)

    def loop() -> Tensor:
        with torch.set_grad_enabled(record):
            batches = x if each else [x] * len(models)
            return torch.stack([model(batch) for model, batch in zip(models, batches, strict=True)])

    def one_call() -> Tensor:
        with torch.set_grad_enabled(record):
            return stacked(x)

    return {"loop": loop, "vmap": one_call}


def ways_to_differentiate(
    model: nn.Module, loss_fn: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor
) -> dict[str, Callable[[], dict[str, Tensor]]]:
    """The gradient of every sample's own loss: one backward pass a sample, and all in one call.

    Args:
        model: every parameter requires grad.
        loss_fn: takes outputs and targets of a batch of one.
        x: inputs, first dimension the batch.
        y: targets, first dimension the batch.

    Returns:
        ``{"loop": ..., "vmap": ...}``: functions without arguments that return, by parameter name, a new tensor whose
        first dimension is the batch. No ``.grad`` is filled.
    """
    params = dict(model.named_parameters())
    detached = {name: parameter.detach() for name, parameter in params.items()}

    def loss_of_one(params: Any, x: Tensor, y: Tensor) -> Tensor:
        return loss_fn(functional_call(model, params, (x.unsqueeze(0),)), y.unsqueeze(0))

    in_one_call = vmap(grad(loss_of_one), in_dims=(None, 0, 0))

    def loop() -> dict[str, Tensor]:
        rows = []
        for i in range(len(x)):
            loss = loss_fn(model(x[i : i + 1]), y[i : i + 1])
            rows.append(torch.autograd.grad(loss, list(params.values())))
        return dict(zip(params, map(torch.stack, zip(*rows, strict=True)), strict=True))

    return {"loop": loop, "vmap": lambda: in_one_call(detached, x, y)}


class _Counter(DispatchMode):
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Mapping | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given, made = (_storages(of) for of in ((args, kwargs), result))
        only_looks = not func._schema.is_mutable and made <= given
        self.count += not only_looks and func.overloadpacket is not torch.ops.aten.empty
        return result


def _storages(tree: Any) -> set[int]:
    return {leaf.untyped_storage()._cdata for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)}


def count_kernels(function: Callable[[], Any]) -> int:
    """How many operations of a call have something to compute: each starts a kernel on the device, or more than one.

    A view is not counted, nor anything else that gives back the memory it was given: the device never hears of it.
    """
    with _Counter() as counter:
        function()
    return counter.count


def milliseconds(ways: Ways, *, rounds: int = 5) -> dict[str, float]:
    """How long one call of each function takes, the median of the rounds; see ``times_faster``."""
    return {name: 1000 * statistics.median(seconds) for name, seconds in _timed(ways, rounds).items()}


def times_faster(ways: Ways, *, rounds: int = 5) -> float:
    """How many times faster the last way is than the first: above 1 it pays, below 1 it costs.

    Both are timed in turns, and a GPU is waited for; the median of the rounds' ratios is returned. On a CPU one thread
    is used and its processor time taken, so that other programs do not count: on a busy machine, waiting for a second
    thread takes longer than small operations themselves.

    Args:
        ways: two functions without arguments, by name.
        rounds: how often each is timed.

    Raises:
        ValueError: ``ways`` has not exactly two functions, or ``rounds`` is below 1.
    """
    if len(ways) != 2 or rounds < 1:
        found = f"{len(ways)} ways and rounds={rounds}"
        raise ValueError(f"times_faster got {found}. Expected: two ways, and at least one round.")
    first, last = _timed(ways, rounds).values()
    return statistics.median(one / other for one, other in zip(first, last, strict=True))


def _timed(ways: Ways, rounds: int) -> dict[str, list[float]]:
    # A GPU works on after the thread has gone on; and on Windows the clock of threads ticks every 16 ms.
    of_thread = not torch.accelerator.is_available() and time.get_clock_info("thread_time").resolution < 1e-5
    with cpu_threads(1):
        return in_turns(ways, rounds, clock=time.thread_time if of_thread else None)


def gain_grid(
    counts: Sequence[int], widths: Sequence[int], *, rounds: int = 5, device: torch.device | str = "cpu"
) -> list[list[float]]:
    """How many times faster one call is than the loop, over the number of models and the width of their layers.

    The models have two hidden layers of that width, as many input columns, and ten outputs; all see one batch of 16
    rows, and nothing is recorded. Returns a row for each count, with a number for each width.
    """
    grid = []
    for count in counts:
        row = []
        for width in widths:
            models = mlps(count, width, width, width, 10, device=device)
            x = torch.randn(16, width, device=device)
            row.append(times_faster(ways_to_predict(models, x), rounds=rounds))
        grid.append(row)
    return grid
