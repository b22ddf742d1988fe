"""``mean_loss`` adds losses up without keeping their graphs."""

from torch import Tensor, nn

from course_utils.checks.compare import AtMost, Seen, Trial, compared, outcome, squared_error
from course_utils.memory import MemoryTracker

mean_loss = compared(__file__)

_ROWS = 64


def _given(trial: Trial, *sizes: int) -> tuple[nn.Module, object, list[tuple[Tensor, Tensor]]]:
    model = trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double())
    model[1].eval()  # so that a train() at the end is seen
    return model, squared_error, [(trial.randn(size, 3), trial.randn(size, 1)) for size in sizes]


@mean_loss.looks("is the unweighted mean of the batch losses", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    model, loss_fn, batches = _given(trial, trial.integer(1, 3), trial.integer(9, 12), trial.integer(4, 6))
    got = trial.tensor(trial.call(model, loss_fn, batches, show="mean_loss(model, loss_fn, a list of 3 batches)"))
    return {"the mean": got.detach()}


@mean_loss.looks("has no history", "graphs")
def _(trial: Trial) -> Seen:
    model, loss_fn, batches = _given(trial, 4, 4)
    batches = [(x, model(x).detach()) for x, _ in batches]
    got = trial.call(model, loss_fn, batches, show="mean_loss(model, loss_fn, a list of 2 batches without loss)")
    return {"requires grad": got.requires_grad}


@mean_loss.looks("keeps no more bytes alive for 12 batches than for 4", "cut too late", weight=3)
def _(trial: Trial) -> Seen:
    def peak(count: int) -> int:
        model, loss_fn, batches = _given(trial, *[_ROWS] * count)
        made = ((x.clone(), y.clone()) for x, y in batches)
        tracker = MemoryTracker(model, batches)
        shown = f"mean_loss(model, loss_fn, a generator of {count} batches)"
        trial.call(model, loss_fn, made, within=tracker, show=shown)
        return tracker.peak

    few, many = peak(4), peak(12)
    return {"more bytes for each batch": AtMost((many - few) // 8)}


@mean_loss.looks("takes a generator of batches", "len")
def _(trial: Trial) -> Seen:
    model, loss_fn, batches = _given(trial, 4, 6, 5)
    return {"the mean": trial.call(model, loss_fn, iter(batches), show="mean_loss(model, loss_fn, a generator)")}


@mean_loss.looks("raises ValueError for no batches", "empty")
def _(trial: Trial) -> Seen:
    model, loss_fn, _ = _given(trial)
    for batches, show in (([], "[]"), (iter(()), "an empty generator")):
        yield show, outcome(lambda: trial.call(model, loss_fn, batches, show=f"mean_loss(model, loss_fn, {show})"))
