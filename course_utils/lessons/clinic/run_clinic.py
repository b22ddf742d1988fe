"""``run_clinic``: the script of the lesson, repaired.

The check runs it on a watched network and looks at ten properties, one for each point: bits, flags, the log, bytes,
modes, FLOPs, hooks, the gradient, and the accuracy within a budget.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.base.text import format_bytes
from course_utils.checks.claims import AnswerRaised, Missed, Trial, exercise, expect, hook_count, training_flags
from course_utils.checks.judge import judge
from course_utils.checks.misconceptions import Misconception
from course_utils.checks.score import Score
from course_utils.clinic import CLASSES, WIDTH, ClinicDataset, ClinicResult
from course_utils.graph import graph_memory
from course_utils.lessons.clinic._gradient import (
    expect_full_gradient,
    expect_mean_loss,
    expect_network,
    is_loss,
    logits,
    seeded,
    tested,
    weights_of,
    which_moved,
)
from course_utils.lessons.clinic._watched import (
    TOLERANCE_BYTES,
    CollectingDataset,
    WatchedDataset,
    encoder,
    older_objects_aside,
    open_branch,
    run,
)
from course_utils.measure.compare import format_count
from course_utils.measure.flops import FlopCounterMode
from course_utils.memory import MemoryTracker

run_clinic = exercise(__file__)


def examine(script: Callable[[ClinicDataset, int, int], ClinicResult]) -> Score:
    """The card of any training script, judged like an answer to ``run_clinic``. Nothing is stored.

    Args:
        script: called as ``script(dataset, epochs, seed)``.
    """
    return judge(run_clinic, script, "clinic")


def symptoms(script: Callable[[ClinicDataset, int, int], ClinicResult]) -> Score:
    """The card of a training script without a word on causes: what was expected, and what was found.

    Args:
        script: as for ``examine``.
    """
    score = examine(script)
    bare = Misconception(name="", explanation="", next_step="Which line of the script does this?")
    graded = [claim for claim in score.claims if claim.weight]
    claims = tuple(replace(claim, text=claim.text.partition(" (")[0], misconception=bare) for claim in graded)
    about = {"lesson": score.lesson, "exercise": getattr(script, "__name__", "script"), "possible": float(len(claims))}
    return Score(sum(claim.held for claim in claims), status=score.status, claims=claims, output=score.output, **about)


def _list(values: Any) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise Missed(expected="a list", got=values) from None


@run_clinic.claim("trains on every batch, tests after every epoch, and gives back the network", weight=0, gate=True)
def _(trial: Trial) -> None:
    with suppress(Missed, AnswerRaised):  # one that calls the same branch in every run is told so by the next claim
        return _expect_work(trial, use_a=False)
    _expect_work(trial, use_a=True)


def _expect_work(trial: Trial, use_a: bool) -> None:
    dataset, epochs, seed = WatchedDataset(trial, use_a=use_a), 2, trial.integer(1, 10**6)
    start, result = seeded(trial, dataset, 0, seed), seeded(trial, dataset, epochs, seed)
    training, testing = dataset.passes.training(), dataset.passes.testing()
    closed = [note.part for note in dataset.passes].count("closed")
    for name, notes, count in (("training", training, dataset.steps), ("test", testing, dataset.tests)):
        seen, told = len({note.number for note in notes}), f"each {name} batch goes through the open branch"
        got = f"{seen} of {count}" + f"; through the closed one go {closed}" * bool(closed)
        expect(seen >= count, "" if closed else "nothing done", expected=told, got=got)
    evaluations = [note.number for note in testing].count(-1)
    expect(evaluations >= epochs, "nothing done", expected=f"{epochs} evaluations", got=str(evaluations))
    moving = set(which_moved(weights_of(start, dataset), weights_of(result, dataset)))
    trained = moving & {"weight", "open.weight", "open.bias"}
    expect(bool(trained), "nothing done", expected="a network that has been trained", got="its weights as they were")


@run_clinic.claim("computes the script's logits, and one accuracy per epoch", weight=0)
def _(trial: Trial) -> None:
    for use_a in (True, False):
        dataset, epochs = WatchedDataset(trial, use_a=use_a), trial.integer(1, 3)
        result = run(trial, dataset, epochs)
        expect_network(trial, dataset, result)
        accuracies = _list(result.accuracies)
        expect(len(accuracies) == epochs, expected=f"{epochs} accuracies, one an epoch", got=f"{len(accuracies)}")


def _gates(trial: Trial) -> list[bool]:
    """``use_a`` for the claims that are not about the network: both, or the one with which it is the script's."""
    right = []
    for use_a in (True, False):
        with suppress(Missed, AnswerRaised):
            dataset = WatchedDataset(trial, use_a=use_a)
            expect_network(trial, dataset, run(trial, dataset, 0))
            right.append(use_a)
    return right or [True]


def _property(text: str) -> Callable[[Callable[[Trial, bool], None]], None]:
    """Adds a claim that is tried with either branch open: one that drew it would judge an answer now so, now so."""

    def add(function: Callable[[Trial, bool], None]) -> None:
        @run_clinic.claim(text)
        def _(trial: Trial) -> None:
            for use_a in trial.once(_gates):
                function(trial, use_a)

    return add


def _expect_share(trial: Trial) -> None:
    """The accuracy is the share of the test rows."""
    gates = trial.once(_gates)
    apart: list[bool] = []  # of each run: would a mean over batches be another number?
    while len(apart) < 2 or (not any(apart) and len(apart) < 6):
        # So many tests that the network gets some of their rows right by chance.
        dataset, epochs = WatchedDataset(trial, tests=8, use_a=gates[len(apart) % len(gates)]), trial.integer(1, 3)
        result = run(trial, dataset, epochs)
        _, labels, outputs = tested(trial, dataset, result)
        accuracies = [float(value) for value in _list(result.accuracies)]
        hits = (outputs.argmax(dim=1) == labels).float()
        right, tolerance = hits.mean().item(), 0.1 / len(labels)  # a tenth of what one row is worth
        mean = torch.stack([part.mean() for part in hits.split(len(next(iter(dataset.test))[0]))]).mean().item()
        apart.append(abs(mean - right) > tolerance)
        if abs(accuracies[-1] - right) > tolerance:
            key = "mean of accuracies" if abs(accuracies[-1] - mean) < 1e-3 else "another share"
            raise Missed(key, expected=f"the share of all test rows, {right:.3f}", got=f"{accuracies[-1]:.3f}")


def _expect_few_rows(trial: Trial) -> None:
    """No part of the network gets more rows at once than a micro-batch has. Of the whole network, bytes tell it."""
    dataset = WatchedDataset(trial, batches=1, use_a=trial.once(_gates)[0])
    run(trial, dataset, 1)
    rows = {part: max(note.rows for note in dataset.passes.training(part)) for part in ("encoder", "open")}
    if rows["open"] <= dataset.micro_rows:
        most = rows["encoder"]
        expected = f"at most {dataset.micro_rows} rows at once in training"
        expect(most <= dataset.micro_rows, "encoder at once", expected=expected, got=f"{most} through the encoder")


def _key_of_peak(trial: Trial, digits: ClinicDataset) -> str:
    """Too many bytes at once: one backward for all micro-batches, or nodes that hold on to tensors after their own."""
    dataset, called = WatchedDataset(trial, batches=1, use_a=digits.use_a), trial.called
    model, passes = run(trial, dataset, 1).model, dataset.passes.training()
    trial.called = called
    if passes[-1].backs == passes[0].backs:
        return "over budget"

    def held() -> int:
        loss = model(dataset.images[:8]).sum()
        loss.backward()
        return graph_memory(loss).total

    return "ctx kept" if trial.run(held, called=called) > 0 else ""


@_property("1 · keeps the encoder as it was, to the bit (lesson 01)")
def _(trial: Trial, use_a: bool) -> None:
    dataset = WatchedDataset(trial, with_modes=True, use_a=use_a)
    body = dataset.parts["encoder"]
    trained = encoder(run(trial, dataset, 2))
    after = trained.state_dict()
    moved = [name for name, value in body.state_dict().items() if not torch.equal(value, after[name])]
    weights = [name for name in moved if name in dict(body.named_parameters())]
    flagged = any(parameter.requires_grad for parameter in trained.parameters())
    norm_trained = [note.norm_trains for note in dataset.passes.training("encoder")]
    undone = norm_trained[:1] == [False] and True in norm_trained  # it was in eval mode, and did not stay so
    if not weights:
        key = "all in train" if undone else "statistics"
    elif not flagged:
        key = ""
    elif "requires_grad" in vars(trained):
        key = "attribute"
    else:
        key = "still flagged" if any(norm_trained) else "eval freezes"
    expect(not moved, key, expected="equal bits before and after", got=f"changed: {', '.join(weights or moved)}")


@_property("2 · has weights that are flagged leaves, and moves them (lesson 02)")
def _(trial: Trial, use_a: bool) -> None:
    dataset, seed = WatchedDataset(trial, use_a=use_a), trial.integer(1, 10**6)

    def weights(epochs: int) -> dict[str, Any]:
        result = run(trial, dataset, epochs, seed)
        opened = open_branch(result, dataset).named_parameters()
        return {"weight": result.model.weight, **{f"open branch's {name}": value for name, value in opened}}

    start = weights(0)
    for name, after in weights(1).items():
        after = trial.tensor(after, what=f"the {name} is a tensor")
        if not after.is_leaf:
            raise Missed("non-leaf", expected=f"{name}.is_leaf is True", got=f"False, {after.grad_fn.name()}")
        expect(after.requires_grad, "unflagged", expected=f"{name}.requires_grad is True", got="False")
        moves = not torch.equal(start[name].detach(), after.detach())
        expect(moves, "not handed over", expected=f"{name} moves in training", got="as it was, to the bit")


@run_clinic.claim(
    "3 · logs each training batch's mean loss, or that whose gradient it takes, without its graph (lesson 03)"
)
def _(trial: Trial) -> None:
    for use_a in (True, False):
        one_micro_batch = WatchedDataset(trial, rows=8, use_a=use_a)  # then any scale will do
        _expect_log(trial, one_micro_batch, trial.integer(1, 2))
    for use_a in (True, False):  # a step after each micro-batch leaves the loss as near with one draw in a hundred
        expect_mean_loss(trial, use_a)


def _expect_log(trial: Trial, dataset: WatchedDataset, epochs: int) -> None:
    seed, count = trial.integer(1, 10**6), epochs * dataset.steps
    start, result = seeded(trial, dataset, 0, seed), seeded(trial, dataset, epochs, seed)
    log = _list(result.losses)
    key = "" if log else "log is empty"
    expect(len(log) == count, key, expected=f"{count} losses, one a training batch", got=f"{len(log)}")
    for entry in log:
        if isinstance(entry, Tensor) and entry.requires_grad:
            name = entry.grad_fn.name() if entry.grad_fn is not None else "a flagged leaf"
            raise Missed("log keeps graph", expected="numbers without a history", got=f"a tensor with {name}")
    images, labels = next(iter(dataset.train))
    loss = F.cross_entropy(logits(dataset.use_a, weights_of(start, dataset), images), labels)
    expected, got = loss.item(), float(log[0])
    if any(is_loss(got, scale * expected) for scale in (1, 8)):
        return
    again = float(_list(seeded(trial, dataset, epochs, seed).losses)[0])
    if not math.isclose(again, got, rel_tol=1e-5):  # float32, whose sums threads may order otherwise
        raise Missed("another seed", expected="the same weights for the same seed", got="others")
    expect_network(trial, dataset, start)
    raise Missed("logged else", expected=f"first loss {expected:.4f}", got=f"{got:.4f}")


@_property("4 · holds no more bytes from training step to training step (lesson 08)")
def _(trial: Trial, use_a: bool) -> None:
    dataset = WatchedDataset(trial, batches=5, use_a=use_a)
    run(trial, dataset, 1, within=dataset.measured())
    growth, cycles = dataset.passes.growth(), dataset.passes.cycles_bytes
    expect(
        growth <= TOLERANCE_BYTES,
        "cycle" if cycles > 0.8 * growth * dataset.steps else "kept",
        expected="the same bytes at the start of each step",
        got=f"{format_bytes(round(growth))} more each step",
        waits_for_the_garbage_collector=f"{format_bytes(cycles)} at the end",
    )


@_property("5 · records nothing in evaluation, and holds no more from test batch to test batch (lesson 04)")
def _(trial: Trial, use_a: bool) -> None:
    rows = 40
    dataset = WatchedDataset(trial, batches=2, tests=5, test_rows=rows, use_a=use_a)
    run(trial, dataset, 1, within=dataset.measured())
    notes = dataset.passes.testing()[: dataset.tests]
    growth = (notes[-1].held_bytes - notes[1].held_bytes) / (len(notes) - 2)
    recorded = notes[-1].recorded
    # Of less than two outputs a batch, nothing reaches the graphs: they were cut off, or only labels are kept.
    if not recorded or growth > 2 * rows * CLASSES * 4:
        key, got = "graphs kept" if recorded else "outputs kept", f"{format_bytes(round(growth))} more each batch"
        expect(growth <= TOLERANCE_BYTES, key, expected="the same bytes at each batch", got=got)
    expect(not recorded, "recorded", expected="outputs without a history", got="a graph at every test batch")


@_property(
    "6 · trains the branches in training mode, evaluates in eval mode, and leaves every flag as it was (lesson 05)"
)
def _(trial: Trial, use_a: bool) -> None:
    def mode(flags: list[bool]) -> str:
        return "training mode" if all(flags) else "mixed modes" if any(flags) else "eval mode"

    dataset = WatchedDataset(trial, with_modes=True, use_a=use_a)
    result, passes = run(trial, dataset, 2), dataset.passes
    trains = any(note.norm_trains for part in ("encoder", "open") for note in passes.testing(part))
    expected = "dropout and batch norm in eval mode"
    expect(not trains, "no eval", expected=expected, got="training mode in the evaluation")
    # The encoder last: whoever did not freeze it would read here that it belongs in training mode.
    seen = {
        "open branch": [*(note.modes for note in passes.training()), training_flags(open_branch(result, dataset))],
        "closed branch": [*(note.closed_modes for note in passes.training()), training_flags(passes.closed)],
        "encoder": [*(note.modes for note in passes.training("encoder")), training_flags(encoder(result))],
    }
    for part, (first, *others) in seen.items():
        if part == "open branch":
            expect(all(first), "never trains", expected="the open branch in training mode", got=mode(first))
        for after in others:
            key = "left in eval" if not any(after) else "all in train" if all(after) else ""
            # In eval mode at every pass, and put back at the end into the mode that it came in.
            key = "as it came" if part == "encoder" and after is others[-1] and not any(map(any, others[:-1])) else key
            if part == "encoder" and any(first) and not any(after):  # where it belongs, and came there too late
                flagged = any(parameter.requires_grad for parameter in encoder(result).parameters())
                key = "still flagged" if flagged else "statistics"
                raise Missed(key, expected="the encoder in eval mode from the first pass on", got=mode(first))
            got = f"{mode(after)} after an evaluation"
            expect(after == first, key, expected=f"{part} in {mode(first)}", got=got)


@_property("7 · spends no FLOPs on the closed branch (lesson 06)")
def _(trial: Trial, use_a: bool) -> None:
    dataset = WatchedDataset(trial, batches=1, tests=1, use_a=use_a)
    # The same work with a closed branch that is four layers deeper: what is closed cannot make a difference.
    flops = []
    for one in (dataset, dataset.deeper(trial)):
        counter = FlopCounterMode(display=False)
        run(trial, one, 1, within=counter)
        flops.append(counter.get_total_flops())
    plain, deep = flops
    forward = len(dataset.images) * 2 * WIDTH * WIDTH * 4
    called = [note for note in dataset.passes if note.part == "closed"]
    expected = f"{format_count(plain)} FLOPs, however deep the closed branch is"
    got = f"{format_count(deep)} with four layers more" if deep != plain else "a call of the closed branch"
    key = "shape of a pass" if any(note.recorded for note in called) else "no_grad branch"
    backward_too = deep - plain > 1.2 * forward
    expect(plain == deep and not called, "gate multiplies" if backward_too else key, expected=expected, got=got)


def _somebody_s_hook(module: nn.Module, args: Any, output: Any) -> None:
    """The hook of somebody else, which stays."""


@_property("8 · leaves no hooks behind, and those of others in place (lesson 07)")
def _(trial: Trial, use_a: bool) -> None:
    dataset = WatchedDataset(trial, use_a=use_a)
    dataset.parts["encoder"].register_forward_hook(_somebody_s_hook)
    result = run(trial, dataset, 2)
    kept = _somebody_s_hook in encoder(result)._forward_hooks.values()
    expect(kept, "hooks cleared", expected="the hook that the encoder came with", got="it is gone")
    model = result.model
    tensors = [tensor for tensor in (*model.parameters(), model.weight) if isinstance(tensor, Tensor)]
    on_tensors = [(t._backward_hooks, getattr(t, "_post_accumulate_grad_hooks", None)) for t in tensors]
    left = hook_count(model) - 1 + sum(len(hooks) for pair in on_tensors for hooks in pair if hooks)
    expect(not left, "hook left", expected="no hook of the script's own after 2 epochs", got=f"{left} left")


run_clinic.claim("9 · goes one step down the full batch's gradient, from the seed's weights (lesson 09)")(
    expect_full_gradient
)


@run_clinic.claim(
    "10 · reaches the bar, counted by rows, within the budget, few rows at a time (lessons 03, 04 and 09)"
)
def _(trial: Trial) -> None:
    _expect_share(trial)
    _expect_few_rows(trial)
    seed = trial.integer(1, 10**6)
    data = ClinicDataset.digits(seed, use_a=trial.once(_gates)[0])
    data.micro_rows = 30  # the accuracy does not depend on it, and half as many passes take half the time
    (images, labels), (test_images, test_labels) = (
        map(torch.cat, zip(*part, strict=True)) for part in (data.train, data.test)
    )
    # Few steps and one test batch: what piles up over more of them has properties of its own.
    small = CollectingDataset(
        images[:480], labels[:480], test_images[:16], test_labels[:16], use_a=data.use_a, batch_rows=240
    )
    with older_objects_aside():
        tracker = MemoryTracker(data._images)
        run(trial, small, 2, seed, within=tracker)
    peak, budget = format_bytes(tracker.peak), data.budget_bytes
    if tracker.peak > budget:
        raise Missed(_key_of_peak(trial, small), expected=f"at most {format_bytes(budget)}", got=peak)
    for again in range(2):  # a last layer that never learns misses it with one draw of its weights in several hundred
        model = run(trial, data, data.epochs, seed + again).model.eval()
        with torch.no_grad():
            accuracy = (model(test_images).argmax(dim=1) == test_labels).float().mean().item()
        if accuracy >= data.bar:
            return
    expected = f"{data.bar:.2f} of the test images after {data.epochs} epochs"
    raise Missed("below the bar", expected=expected, got=f"{accuracy:.2f}")


@run_clinic.claim("leaves torch's settings and the dataset as they were", weight=0)
def _(trial: Trial) -> None:
    run(trial, WatchedDataset(trial), 1)
    # Its seed is the script's own affair.
    effects = [effect for effect in trial.effects if effect != "seeded the random number generator"]
    expect(not effects, "side effect", found="; ".join(f"the script {effect}" for effect in effects[:4]))
