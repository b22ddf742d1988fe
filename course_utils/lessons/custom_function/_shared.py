"""What the looks of lesson 08 have in common: they call ``apply`` and the answer's backward."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from course_utils.base.torch_private import BackwardCFunction, tree_leaves
from course_utils.checks.compare import Missed, Trial
from course_utils.graph.recorded import nodes_behind
from course_utils.memory import MemoryTracker


def require_function(trial: Trial) -> None:
    """Raises ``Missed`` where the answer is no subclass of ``torch.autograd.Function``."""
    answer = trial.answer
    if not (isinstance(answer, type) and issubclass(answer, Function)):
        got = answer.__name__ if isinstance(answer, type) else f"an object of the class {type(answer).__name__}"
        raise Missed("no Function", expected="a subclass of torch.autograd.Function", got=got)


def applied(trial: Trial, *inputs: object, what: str = "x") -> Tensor:
    """What ``apply`` gives; ``what`` stands between the brackets on the card."""
    watch = dict(zip(("x", "weight", "bias"), inputs, strict=False))
    called = f"{trial.name}.apply({what})"
    result = trial.tensor(trial.run(lambda: trial.answer.apply(*inputs), called=called, watch=watch))
    if result.requires_grad and not any(isinstance(node, BackwardCFunction) for node in nodes_behind(result)):
        raise Missed("no Function", expected="a backward of the class's own", got="one that torch has recorded")
    return result


def gradients(
    trial: Trial, result: Tensor, wanted: Sequence[Tensor], incoming: Tensor, what: str = "", **how: bool
) -> list[Tensor | None]:
    """The gradients that the answer's backward gives to ``wanted``, for this incoming gradient of the result, of its
    shape. Both are watched: a backward that edits what comes in, or an input, or fills a ``.grad``, is seen."""

    def work() -> list[Tensor | None]:
        with result.register_hook(lambda _: incoming):  # this very tensor, and no copy of it, is what comes in
            return list(torch.autograd.grad(result.sum(), wanted, retain_graph=True, allow_unused=True, **how))

    watch = {"the incoming gradient": incoming, "inputs": list(wanted)}
    return trial.run(work, called=f"backward of {trial.name}.apply(...){what}", watch=watch)


def bytes_kept(
    trial: Trial, leaves: Sequence[Tensor], what: str, *, inputs_stay: bool = False, output_stays: bool = False
) -> int:
    """The bytes that are alive between forward and backward beside the leaves: when inputs and output are gone, or
    beside those that stay."""
    memory = MemoryTracker(list(leaves))

    def measure() -> tuple[int, object]:
        # The history of the copies keeps the leaves, and not them.
        inputs = list(leaves) if inputs_stay else [leaf.clone() for leaf in leaves]
        output = trial.answer.apply(*inputs)
        arrays = [each for each in tree_leaves(vars(output.grad_fn)) if isinstance(each, np.ndarray)]
        own = sum(array.nbytes for array in arrays if array.base is None)  # not a tensor's memory, which is counted
        holder = output.sum().grad_fn, output if output_stays else None
        del inputs, output
        return memory.current + own - (holder[1].nbytes if output_stays else 0), holder

    kept, _ = trial.run(measure, called=f"{trial.name}.apply({what})", within=memory)
    return kept
