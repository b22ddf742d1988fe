"""The network of the script as a function of its weights, and the steps that right and wrong gradients make."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.checks.claims import Missed, Trial, expect
from course_utils.clinic import ClinicResult
from course_utils.lessons.clinic._watched import WatchedDataset, encoder, open_branch, run

Weights = dict[str, Tensor]
Batches = Iterable[tuple[Tensor, Tensor, float]]


def weights_of(result: ClinicResult, dataset: WatchedDataset) -> Weights:
    """All weights that the logits depend on, by name."""
    encodes, opened = encoder(result)[0], open_branch(result, dataset)[0]
    named = {"weight": result.model.weight, "encoder.weight": encodes.weight, "encoder.bias": encodes.bias}
    named |= {"open.weight": opened.weight, "open.bias": opened.bias}
    return {name: tensor.detach().clone() for name, tensor in named.items()}


def logits(use_a: bool, weights: Weights, images: Tensor) -> Tensor:
    """What the network gives, without probes."""
    rows = images.flatten(1)
    features = F.linear(rows, weights["encoder.weight"], weights["encoder.bias"])
    features = torch.cat([rows[:, :1], features[:, 1:]], dim=1)
    half = F.silu(F.linear(features, weights["open.weight"], weights["open.bias"]))
    zeros = torch.zeros_like(half)
    return torch.cat([half, zeros] if use_a else [zeros, half], dim=1) @ weights["weight"].T


def tested(trial: Trial, dataset: WatchedDataset, result: ClinicResult) -> tuple[Tensor, Tensor, Tensor]:
    """All test images, their labels, and what the network gives for them in eval mode."""
    images, labels = (torch.cat(part) for part in zip(*dataset.test, strict=True))
    with torch.no_grad():
        return images, labels, trial.run(lambda: result.model.eval()(images), called=trial.called)


def expect_network(trial: Trial, dataset: WatchedDataset, result: ClinicResult) -> None:
    """The network is the script's, whichever branch is open."""
    weights, before = weights_of(result, dataset), len(dataset.passes)
    images, _, got = tested(trial, dataset, result)

    def gives(use_a: bool) -> bool:
        wanted = logits(use_a, weights, images)
        return got.shape == wanted.shape and torch.allclose(got, wanted, rtol=1e-3, atol=1e-5)

    if not gives(dataset.use_a):
        is_called = "open" in [note.part for note in dataset.passes[before:]]
        key = "another network" if is_called else "one branch"
        found = "other logits" if is_called else "other logits, without a call of the open branch"
        if gives(not dataset.use_a):
            key, found = "other columns", "the logits of the open half in the other one's place"
        raise Missed(key, expected="the logits of the script's network", got=found)


def _gradients(
    dataset: WatchedDataset, weights: Weights, images: Tensor, labels: Tensor, names: list[str]
) -> list[Tensor]:
    """The gradient of a batch's mean loss for the weights of these names."""
    weights = {name: value.clone().requires_grad_(name in names) for name, value in weights.items()}
    loss = F.cross_entropy(logits(dataset.use_a, weights, images), labels)
    return list(torch.autograd.grad(loss, [weights[name] for name in names]))


def _open_gradients(dataset: WatchedDataset, weights: Weights) -> list[tuple[str, Tensor]]:
    """The first batch's gradient for the open branch's weight: the right one, then what each mistake makes of it."""
    images, labels = next(iter(dataset.train))
    rows = dataset.micro_rows

    def gradient(x: Tensor, y: Tensor) -> Tensor:
        return _gradients(dataset, weights, x, y, ["open.weight"])[0]

    whole = gradient(images, labels)
    parts = torch.stack([gradient(x, y) for x, y in zip(images.split(rows), labels.split(rows), strict=True)])
    last_share = (len(images) % rows or rows) / len(images)
    return [
        ("", whole),
        ("undivided", parts.sum(0)),
        ("mean of means", parts.mean(0)),
        ("sum of rows", whole * len(images)),
        *(("last only", parts[-1] * share) for share in (1, last_share, 1 / len(parts))),
    ]


def _is_another_rule(step: Tensor, gradient: Tensor, weight: Tensor) -> bool:
    """Whether the step is that of Adam (equally long in every entry) or one with weight decay."""
    sizes = step.abs()
    decayed = F.cosine_similarity((step - gradient).flatten(), weight.flatten(), dim=0)
    return bool(sizes.std() < 0.1 * sizes.mean() or decayed > 0.99)


def _descended(
    dataset: WatchedDataset, weights: Weights, names: list[str], batches: Batches, cleared: bool = True
) -> Tensor:
    """The open branch's weight after a step of plain gradient descent for each batch, with its factor in the loss."""
    weights, sums = dict(weights), [torch.zeros(()) for _ in names]
    for images, labels, share in batches:
        gradients = _gradients(dataset, weights, images, labels, names)
        sums = gradients if cleared else [held + gradient for held, gradient in zip(sums, gradients, strict=True)]
        for name, gradient in zip(names, sums, strict=True):
            weights[name] = weights[name] - dataset.learning_rate * share * gradient
    return weights["open.weight"]


def which_moved(before: Weights, after: Weights) -> list[str]:
    """The names of those that have moved. What stands still, and what moves that should not, is judged elsewhere."""
    return [name for name in before if not torch.equal(before[name], after[name])]


def _key_of_step(dataset: WatchedDataset, before: Weights, after: Weights, parts_sum: Tensor, right: Tensor) -> str:
    """What a step in a wrong direction, or of a wrong length, shows."""
    moved = before["open.weight"] - after["open.weight"]
    images, labels = next(iter(dataset.train))
    parts = list(zip(images.split(dataset.micro_rows), labels.split(dataset.micro_rows), strict=True))
    for scale in (None, 1, 1 / len(parts)):
        batches = [(x, y, scale or len(x) / len(images)) for x, y in parts]
        each = before["open.weight"] - _descended(dataset, before, which_moved(before, after), batches)
        if (moved - each).norm() < 1e-3 * each.norm():
            return "step each"
    for key, direction in (("factor", right), ("rate", parts_sum)):
        if F.cosine_similarity(moved.flatten(), direction.flatten(), dim=0) > 0.9999:
            return key
    return "another rule" if _is_another_rule(moved / dataset.learning_rate, right, before["open.weight"]) else ""


def _expect_steps_of_descent(trial: Trial, dataset: WatchedDataset, seed: int) -> None:
    """The open branch's weight goes the way of plain gradient descent, one step a batch."""
    before, after = (weights_of(run(trial, dataset, epochs, seed), dataset) for epochs in (0, 1))
    moving = which_moved(before, after)

    def error(cleared: bool) -> float:
        expected = _descended(dataset, before, moving, [(x, y, 1) for x, y in dataset.train], cleared)
        return ((after["open.weight"] - expected).norm() / (expected - before["open.weight"]).norm()).item()

    if error(cleared=True) > 2e-3:
        key = "never cleared" if error(cleared=False) < 2e-3 else "another rule"
        got = f"a way that is off by {100 * error(cleared=True):.0f} %"
        raise Missed(key, expected="two steps of plain gradient descent for two batches", got=got)


def expect_mean_loss(trial: Trial, use_a: bool) -> None:
    """The log holds a batch's mean loss, or that whose gradient is taken: a mistake in both is judged by the latter."""
    for _ in range(5):  # until no other number that people log is as near as 0.1 %; a constant start has none apart
        dataset, seed = WatchedDataset(trial, batches=1, use_a=use_a), trial.integer(1, 10**6)
        start = seeded(trial, dataset, 0, seed)
        weights, (images, labels) = weights_of(start, dataset), next(iter(dataset.train))
        losses = F.cross_entropy(logits(dataset.use_a, weights, images), labels, reduction="none")
        parts, loss = torch.stack([part.mean() for part in losses.split(dataset.micro_rows)]), losses.mean().item()
        if all(abs(one - loss) > 1e-3 * loss for one in (*parts.tolist(), parts.mean().item())):
            break
    result = seeded(trial, dataset, 1, seed)
    logged = float(next(iter(result.losses)))
    if is_loss(logged, loss):
        return
    after = weights_of(result, dataset)
    step = (weights["open.weight"] - after["open.weight"]) / dataset.learning_rate
    gradients = _open_gradients(dataset, weights)
    off = [((step - value).norm() / value.norm()).item() for _, value in gradients]
    last_share = len(images.split(dataset.micro_rows)[-1]) / len(images)
    last = [parts[-1] * share for share in (1, last_share, 1 / len(parts))]
    like_gradients = [one.item() for one in (losses.mean(), parts.sum(), parts.mean(), losses.sum(), *last)]
    if min(off) < 1e-2 and is_loss(logged, like_gradients[off.index(min(off))]):
        return
    pairs = zip(gradients, like_gradients, strict=True)
    key = next((key for (key, _), one in pairs if is_loss(logged, one)), "logged else")
    if key == "last only":
        key = "logged else"
    elif key in ("undivided", "sum of rows"):
        key = "logged sum"
    elif _key_of_step(dataset, weights, after, gradients[1][1], gradients[0][1]) == "step each":
        key = "step each"
    raise Missed(key, expected=f"the batch's mean loss {loss:.4f} in the log", got=f"{logged:.4f}")


def seeded(trial: Trial, dataset: WatchedDataset, epochs: int, seed: int) -> ClinicResult:
    """A run that begins alike each time, also of a script that ignores the seed, which has a claim of its own."""
    torch.manual_seed(seed)
    return run(trial, dataset, epochs, seed)


def is_loss(logged: float, loss: float) -> bool:
    """Whether an entry of the log is this loss. float32 is a hundred times as exact, another loss seldom as near."""
    return abs(logged - loss) < 2e-5 * loss


def _is_own_backward_wrong(trial: Trial, dataset: WatchedDataset, result: ClinicResult, weights: Weights) -> bool:
    """Whether the network gives a wrong gradient in one plain pass: a Function of its own has another backward."""
    images, labels = (part[: dataset.micro_rows] for part in next(iter(dataset.train)))
    (right,) = _gradients(dataset, weights, images, labels, ["open.weight"])
    wanted = open_branch(result, dataset)[0].weight
    expected = F.cross_entropy(logits(dataset.use_a, weights, images), labels)
    loss = trial.run(lambda: F.cross_entropy(result.model(images), labels), called=trial.called)
    if not torch.allclose(loss, expected, rtol=1e-3):
        return False
    (got,) = trial.run(lambda: torch.autograd.grad(loss, wanted), called=trial.called)
    return not torch.allclose(got, right, rtol=1e-2, atol=1e-3 * right.abs().max().item())


def expect_full_gradient(trial: Trial) -> None:
    """A step is that of the full batch's gradient, whatever the micro-batches and whichever branch is open."""
    for use_a in (True, False):
        _expect_full_gradient(trial, use_a)


def _expect_full_gradient(trial: Trial, use_a: bool) -> None:
    # One batch, one step of plain gradient descent: how far a weight has moved tells the gradient it was given.
    dataset, seed = WatchedDataset(trial, batches=1, use_a=use_a), trial.integer(1, 10**6)
    results = [run(trial, dataset, epochs, start) for epochs, start in ((0, seed), (0, seed), (0, seed + 1), (1, seed))]
    before, again, other, after = (weights_of(result, dataset) for result in results)
    same = torch.equal(before["weight"], again["weight"])
    expect(same, "another seed", expected="the same weights for the same seed", got="others")
    differs = not torch.equal(before["weight"], other["weight"])
    expect(differs, "any seed", expected="another head's weight for another seed", got="the same, to the bit")
    step = (before["open.weight"] - after["open.weight"]) / dataset.learning_rate
    candidates = _open_gradients(dataset, before)
    right = candidates[0][1]
    errors = [(((step - value).norm() / value.norm()).item(), key) for key, value in candidates]
    if errors[0][0] < 1e-3:
        return _expect_steps_of_descent(trial, WatchedDataset(trial, batches=2, use_a=use_a), seed)
    expect_network(trial, dataset, results[0])
    error, key = min(errors)
    key = key if error < 1e-2 else ""
    if not key and _is_own_backward_wrong(trial, dataset, results[0], before):
        key = "wrong derivative"
    key = key or _key_of_step(dataset, before, after, candidates[1][1], right)
    got = f"norm {step.norm():.4f}, and {100 * errors[0][0]:.0f} % of the right length away"
    raise Missed(key, expected=f"the full batch's gradient, norm {right.norm():.4f}", got=got)
