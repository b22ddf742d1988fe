"""What a script moves and leaves behind: the claims on bits, flags, bytes, FLOPs and hooks."""

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.compare import Trial, hook_count
from course_utils.clinic import WIDTH, collector_off
from course_utils.lessons.clinic._network import expect, weights_of
from course_utils.lessons.clinic._watched import Watched, WatchedDataset, run
from course_utils.measure import FlopCounterMode
from course_utils.measure.compare import format_count
from course_utils.memory import MemoryTracker


def expect_frozen(trial: Trial) -> None:
    dataset = WatchedDataset(trial, with_modes=True)
    run(trial, dataset, 2)
    before, after = (parts["encoder"].state_dict() for parts in (dataset.fresh, dataset.made))
    moved = [name for name, value in before.items() if not torch.equal(value, after[name])]
    weights = [name for name in moved if name.endswith(("weight", "bias"))]
    expect(not moved, "encoder", expected="equal bits before and after", got=f"changed: {', '.join(weights or moved)}")


def expect_moving(trial: Trial) -> None:
    for use_a in (True, False):
        dataset, seed = WatchedDataset(trial, use_a=use_a), trial.integer(1, 10**6)
        before = weights_of(run(trial, dataset, 0, seed), dataset)
        result, opened = run(trial, dataset, 1, seed), dataset.made["open"][0]
        for name, weight in (("weight", result.model.weight), ("open branch's weight", opened.weight)):
            made_by = weight.grad_fn.name() if weight.grad_fn is not None else ""
            expect(not made_by, "weight", expected=f"{name}.is_leaf is True", got=f"False, {made_by}")
            expect(weight.requires_grad, "weight", expected=f"{name}.requires_grad is True", got="False")
            moves = not torch.equal(before["weight" if name == "weight" else "open.weight"], weight.detach())
            told = f"{name} moves in training"
            expect(moves or not dataset.training(), "weight", expected=told, got="as it was, to the bit")


def _expect_flat(trial: Trial, dataset: WatchedDataset, key: str) -> None:
    """No more bytes from batch to batch, with the garbage collector off."""
    dataset.tracker = MemoryTracker()
    with collector_off():
        run(trial, dataset, 1, within=dataset.tracker)
    notes = dataset.training() if key == "steps" else dataset.testing()
    graph = key == "evaluation" and notes[-1].recorded
    expect(not graph, key, expected="outputs without a history", got="a graph at every test batch")
    first = {note.number: note.held for note in reversed(notes)}
    held = [first[number] for number in sorted(first, key=abs)][1:]  # the first step makes gradients
    growth = (held[-1] - held[0]) / (len(held) - 1)
    told = f"{format_bytes(round(growth))} more each time"
    # A few numbers a batch in small tensors are a log, not a leak.
    expect(growth <= 32, key, expected="the same bytes at the start of each batch", got=told)


def expect_flat_training(trial: Trial) -> None:
    _expect_flat(trial, WatchedDataset(trial, 5), "steps")


def expect_flat_tests(trial: Trial) -> None:
    _expect_flat(trial, WatchedDataset(trial), "evaluation")


def expect_modes(trial: Trial) -> None:
    dataset = WatchedDataset(trial, with_modes=True)
    run(trial, dataset, 2)
    ends = {part: [each.training for each in module.modules()] for part, module in dataset.made.items()}

    def mode(flags: list[bool]) -> str:
        return "training mode" if all(flags) else "mixed modes" if any(flags) else "eval mode"

    for note in (note for part in ends for note in dataset.testing(part)):
        expect(not any(note.modes), "modes", expected="eval mode in the evaluation", got=mode(note.modes))
    for part, end in ends.items():
        first, *others = [*([note.modes for note in dataset.training(part)] or [[True] * len(end)]), end]
        told = f"{part} branch in training mode" if part != "encoder" else ""
        expect(part == "encoder" or all(first), "modes", expected=told, got=mode(first))
        for after in others:  # an encoder that never was in eval mode is the first promise's affair
            told = f"{part} in {mode(first)}"
            expect(after == first, "modes", expected=told, got=f"{mode(after)} after an evaluation")


def expect_closed(trial: Trial) -> None:
    dataset, flops = WatchedDataset(trial, 1), []
    for layers in (0, 4):  # the same work with a closed branch that is so much deeper
        deeper = (nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        dataset.fresh["closed"] = Watched("closed", nn.Sequential(*dataset.fresh["closed"], *deeper), dataset)
        counter = FlopCounterMode(display=False)
        run(trial, dataset, 1, within=counter)
        flops.append(counter.get_total_flops())
    expected, got = (format_count(count) for count in flops)
    told = f"{expected} FLOPs, however deep the closed branch is"
    expect(flops[0] == flops[1], "gate", expected=told, got=f"{got} with four layers more")


def expect_no_hooks(trial: Trial) -> None:
    model = run(trial, WatchedDataset(trial), 2).model
    tensors = [tensor for tensor in (*model.parameters(), model.weight) if isinstance(tensor, Tensor)]
    on_tensors = [(t._backward_hooks, getattr(t, "_post_accumulate_grad_hooks", None)) for t in tensors]
    left = hook_count(model) + sum(len(hooks) for pair in on_tensors for hooks in pair if hooks)
    expect(not left, "hooks", expected="no hook of the script's own after 2 epochs", got=f"{left} left")
