"""``run_clinic``: what it claims."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.base.text import format_bytes
from course_utils.checks.exercise import Score, exercise
from course_utils.checks.judge import judge
from course_utils.checks.trial import Missed, Trial
from course_utils.clinic import WIDTH, ClinicDataset, ClinicResult
from course_utils.lessons.clinic._shared import (
    _ITS_OWN,
    _TOLERANCE_BYTES,
    _another_rule,
    _encoder,
    _expect_the_network,
    _expect_two_steps,
    _flops,
    _gradients,
    _growth,
    _hooks,
    _list,
    _logits,
    _measured,
    _mode,
    _modes,
    _older_objects_aside,
    _open,
    _open_weights,
    _Patient,
    _run,
    _somebody_s_hook,
    _Ward,
)
from course_utils.measure.compare import format_count
from course_utils.memory import MemoryTracker

run_clinic = exercise(__file__)


def examine(script: Callable[[ClinicDataset, int, int], ClinicResult]) -> Score:
    """The card of any training script, judged like an answer to ``run_clinic``. Nothing is stored.

    Args:
        script: called as ``script(dataset, epochs, seed)``.
    """
    return judge(run_clinic, script, "clinic")


@run_clinic.claim("trains on every batch, tests after every epoch, and gives back the network", weight=0, gate=True)
def _(trial: Trial) -> None:
    patient, epochs = _Patient(trial), 2
    result = _run(trial, patient, epochs)
    for name, notes, count in (
        ("training", patient.chart.training(), patient.steps),
        ("test", patient.chart.testing(), patient.tests),
    ):
        seen = len({note.number for note in notes})
        if seen < count:
            raise Missed(
                "nothing done", expected=f"each {name} batch goes through the open branch", got=f"{seen} of {count}"
            )
    passes = [note.number for note in patient.chart.testing()]
    if passes.count(-1) < epochs:
        raise Missed("nothing done", expected=f"{epochs} evaluations", got=str(passes.count(-1)))
    before = patient.open_body.state_dict()
    if all(torch.equal(value, before[name]) for name, value in _open_weights(result, patient).items()):
        raise Missed("nothing done", expected="the open branch has been trained", got="its weights as they were")


@run_clinic.claim("computes what the script computes: the logits, a loss a batch, an accuracy an epoch", weight=0)
def _(trial: Trial) -> None:
    for use_a in (True, False):
        _expect_the_network(trial, _Patient(trial, use_a=use_a), trial.integer(1, 3))


@run_clinic.claim("1 · keeps the encoder as it was, to the bit (lesson 01)")
def _(trial: Trial) -> None:
    patient = _Patient(trial, moody=True)
    before = patient.encoder_body.state_dict()
    result = _run(trial, patient, 2)
    after = _encoder(result).body.state_dict()
    moved = [name for name, value in before.items() if not torch.equal(value, after[name].detach())]
    if not moved:
        return
    parameters = dict(patient.encoder_body.named_parameters())
    weights = [name for name in moved if name in parameters]
    flagged = any(parameter.requires_grad for parameter in _encoder(result).parameters())
    key = ("attribute" if flagged else "") if weights else "statistics"
    raise Missed(key, expected="equal bits before and after", got=f"changed: {', '.join(weights or moved)}")


@run_clinic.claim("2 · has weights that are flagged leaves, and moves them (lesson 02)")
def _(trial: Trial) -> None:
    patient, seed = _Patient(trial), trial.integer(1, 10**6)
    start = _run(trial, patient, 0, seed)
    result = _run(trial, patient, 1, seed)
    pairs = {"weight": (start.model.weight, result.model.weight)}
    opened = dict(_open(start, patient).body.named_parameters())
    pairs |= {f"open branch's {k}": (opened[k], v) for k, v in _open(result, patient).body.named_parameters()}
    for name, (before, after) in pairs.items():
        after = trial.tensor(after, what=f"the {name} is a tensor")
        if not after.is_leaf:
            raise Missed("non-leaf", expected=f"{name}.is_leaf is True", got=f"False, {after.grad_fn.name()}")
        if not after.requires_grad:
            raise Missed("unflagged", expected=f"{name}.requires_grad is True", got="False")
        if torch.equal(before.detach(), after.detach()):
            raise Missed("not handed over", expected=f"{name} moves in training", got="as it was, to the bit")


@run_clinic.claim("3 · keeps a loss log that holds no graph (lesson 03)")
def _(trial: Trial) -> None:
    # Equal micro-batches: a log with the wrong scale is wrong by their number, and judged with the gradient.
    patient, seed, epochs = _Patient(trial, rows=16), trial.integer(1, 10**6), trial.integer(1, 2)
    start = _run(trial, patient, 0, seed)
    result = _run(trial, patient, epochs, seed)
    log = _list(result.losses)
    if len(log) != epochs * patient.steps:
        key = "log is empty" if not log else ""
        raise Missed(key, expected=f"{epochs * patient.steps} losses, one a training batch", got=f"{len(log)}")
    for entry in log:
        if isinstance(entry, Tensor) and entry.requires_grad:
            name = entry.grad_fn.name() if entry.grad_fn is not None else "a flagged leaf"
            raise Missed("log keeps graph", expected="numbers without a history", got=f"a tensor with {name}")
    images, labels = next(iter(patient.train))
    with torch.no_grad():
        logits = _logits(patient, images, _open_weights(start, patient), start.model.weight.detach())
        expected = F.cross_entropy(logits, labels).item()
    got = float(log[0])
    if not any(abs(got - scale * expected) < 2e-3 * abs(expected) * scale for scale in (1, 2, 16)):
        raise Missed(expected=f"first loss {expected:.4f}", got=f"{got:.4f}")


@run_clinic.claim("4 · holds no more bytes from training step to training step (lesson 08)")
def _(trial: Trial) -> None:
    patient = _Patient(trial, batches=5)
    _run(trial, patient, 1, within=_measured(patient.chart))
    growth = _growth(patient.chart)
    if growth > _TOLERANCE_BYTES:
        circles = patient.chart.circles_bytes
        key = "cycle" if circles > 0.8 * growth * patient.steps else "kept"
        raise Missed(
            key,
            expected="the same bytes at the start of each step",
            got=f"{format_bytes(round(growth))} more each step",
            waits_for_the_garbage_collector=f"{format_bytes(circles)} at the end",
        )


@run_clinic.claim("5 · records nothing in evaluation, and holds no more from test batch to test batch (lesson 04)")
def _(trial: Trial) -> None:
    patient = _Patient(trial, batches=2, tests=5, test_rows=40)
    _run(trial, patient, 1, within=_measured(patient.chart))
    notes = patient.chart.testing()[: patient.tests]
    growth = (notes[-1].held_bytes - notes[1].held_bytes) / (len(notes) - 2)
    recorded = notes[-1].recorded
    if growth > _TOLERANCE_BYTES:
        key = "graphs kept" if recorded else "outputs kept"
        raise Missed(key, expected="the same bytes at each batch", got=f"{format_bytes(round(growth))} more each batch")
    if recorded:
        raise Missed("recorded", expected="outputs without a history", got="a graph at every test batch")


@run_clinic.claim("6 · evaluates in eval mode, and leaves every training flag as it was (lesson 05)")
def _(trial: Trial) -> None:
    patient = _Patient(trial, moody=True)
    result = _run(trial, patient, 2)
    for part in ("encoder", "open"):
        if any(note.moody for note in patient.chart.testing(part)):
            raise Missed(
                "no eval", expected="dropout and batch norm in eval mode", got="training mode in the evaluation"
            )
    trained = patient.chart.training()
    seen = {
        "encoder": [*(note.modes for note in patient.chart.training("encoder")), _modes(_encoder(result))],
        "open branch": [*(note.modes for note in trained), _modes(_open(result, patient))],
        "closed branch": [*(note.closed_modes for note in trained), _modes(patient.chart.closed)],
    }
    for part, modes in seen.items():
        for after in modes:
            if after != modes[0]:
                key = "left in eval" if not any(after) else "all in train" if all(after) else ""
                raise Missed(key, expected=f"{part} in {_mode(modes[0])}", got=f"{_mode(after)} after an evaluation")


@run_clinic.claim("7 · spends no FLOPs on the closed branch (lesson 06)")
def _(trial: Trial) -> None:
    patient = _Patient(trial, batches=1, tests=1)
    # The same work with a closed branch that is four layers deeper: what is closed cannot make a difference.
    deeper = _Patient(trial, batches=1, tests=1, like=patient, closed_layers=5)
    plain, deep = _flops(trial, patient), _flops(trial, deeper)
    if plain == deep and not [note for note in patient.chart if note.part == "closed"]:
        return
    rows = len(patient.images)
    forward = rows * 2 * WIDTH * WIDTH * 4
    key = "no_grad branch" if deep - plain <= 1.2 * forward else "gate multiplies"
    raise Missed(
        key,
        expected=f"{format_count(plain)} FLOPs, however deep the closed branch is",
        got=f"{format_count(deep)} with four layers more",
    )


@run_clinic.claim("8 · leaves no hooks behind (lesson 07)")
def _(trial: Trial) -> None:
    patient = _Patient(trial)
    patient.parts["encoder"].register_forward_hook(_somebody_s_hook)
    result = _run(trial, patient, 2)
    if _somebody_s_hook not in _encoder(result)._forward_hooks.values():
        raise Missed("hooks cleared", expected="the hook that the encoder came with", got="it is gone")
    left = _hooks(result.model) - 1
    if left:
        raise Missed("hook left", expected="no hook of the script's own after 2 epochs", got=f"{left} left")


@run_clinic.claim("9 · accumulates the gradient of the full batch (lesson 09)")
def _(trial: Trial) -> None:
    # One batch, one step of plain gradient descent: how far a weight has moved tells the gradient it was given.
    patient, seed = _Patient(trial, batches=1, rows=20, micro=8), trial.integer(1, 10**6)
    start = _run(trial, patient, 0, seed)
    again = _run(trial, patient, 0, seed)
    before, weight = _open_weights(start, patient), start.model.weight.detach()
    if not torch.equal(weight, again.model.weight.detach()):
        raise Missed("another seed", expected="the same weights for the same seed", got="others")
    result = _run(trial, patient, 1, seed)
    two = _Patient(trial, batches=2, use_a=patient.use_a)
    step = (before["0.weight"] - _open_weights(result, patient)["0.weight"]) / patient.learning_rate
    candidates = _gradients(patient, before, weight)
    errors = {key: ((step - value).norm() / value.norm()).item() for key, value in candidates.items()}
    if errors[""] < 1e-3:
        _expect_two_steps(trial, two, seed)
        return
    best = min(errors, key=errors.__getitem__)
    key = best.split(",")[0] if errors[best] < 1e-2 else ""
    if not key and _another_rule(step, candidates[""], before["0.weight"]):
        key = "another rule"
    raise Missed(
        key,
        expected=f"the full batch's gradient, norm {candidates[''].norm():.4f}",
        got=f"norm {step.norm():.4f}, off by {100 * errors['']:.0f} %",
    )


@run_clinic.claim("10 · reaches the bar within the budget (lessons 03, 04 and 09)")
def _(trial: Trial) -> None:
    seed = trial.integer(1, 10**6)
    data = ClinicDataset.digits(seed, use_a=bool(trial.integer(0, 1)))
    data.micro_rows = 30  # the accuracy does not depend on it, and half as many passes take half the time
    images, labels = (torch.cat(part) for part in zip(*data.train, strict=True))
    test_images, test_labels = (torch.cat(part) for part in zip(*data.test, strict=True))
    # Few steps and one test batch: what piles up over more of them has properties of its own.
    small = _Ward(images[:480], labels[:480], test_images[:16], test_labels[:16], use_a=data.use_a, batch_rows=240)
    with _older_objects_aside():
        tracker = MemoryTracker(data._images)
        _run(trial, small, 2, seed, within=tracker)
    if (peak := tracker.peak) > data.budget_bytes:
        raise Missed("over budget", expected=f"at most {format_bytes(data.budget_bytes)}", got=format_bytes(peak))
    result = _run(trial, data, data.epochs, seed)
    model = result.model.eval()
    with torch.no_grad():
        accuracy = (model(test_images).argmax(dim=1) == test_labels).float().mean().item()
    if not accuracy >= data.bar:
        raise Missed(
            "below the bar",
            expected=f"{data.bar:.2f} of the test images after {data.epochs} epochs",
            got=f"{accuracy:.2f}",
        )


@run_clinic.claim("leaves torch's settings and the dataset as they were", weight=0)
def _(trial: Trial) -> None:
    _run(trial, _Patient(trial), 1)
    effects = [effect for effect in trial.effects if effect != _ITS_OWN]
    if effects:
        raise Missed("side effect", found="; ".join(f"the script {effect}" for effect in effects[:4]))
