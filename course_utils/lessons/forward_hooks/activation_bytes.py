"""``activation_bytes`` counts the bytes of every leaf module's output: its check knows the sizes of small models."""

import contextlib
import copy
import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Raises,
    Trial,
    Unlucky,
    exercise,
    expect,
    expect_hooks,
    expect_training_flags,
    first_sign,
    reading,
    same,
    training_flags,
)
from course_utils.lessons.forward_hooks._shared import expect_clean_error, layers, words

activation_bytes = exercise(__file__)

_Sizes = dict[str, int]


def _sizes(trial: Trial, model: nn.Module, x: Tensor, show: str = "model, x", when: str = "") -> _Sizes:
    """What the answer gives, but for modules with children of their own: these have claims of their own."""
    found, parents = _all_sizes(trial, model, x, show, when), {name for name, m in model.named_modules() if m._modules}
    return {name: nbytes for name, nbytes in found.items() if name not in parents}


def _all_sizes(trial: Trial, model: nn.Module, x: Tensor, show: str, when: str = "") -> _Sizes:
    got = trial.call(model, x, watch_training=False, show=f"activation_bytes({show}){when}")
    expect(got is not None, "no return value", expected="a dict of bytes by name", got="None")
    if not isinstance(got, Mapping):
        raise Missed(expected="a dict of bytes by name", got=got)
    try:
        return {name: operator.index(nbytes) for name, nbytes in got.items()}
    except TypeError:
        raise Missed(expected="whole numbers of bytes (int)", got=got) from None


def _floats(trial: Trial, *shape: int) -> Tensor:
    """Of float32: that an element may have another size has a claim of its own."""
    return trial.randn(*shape, dtype=torch.float32)


def _expect_sizes(got: _Sizes, right: _Sizes, key: str) -> None:
    expect(got.keys() == right.keys(), key, expected=f"entries: {words(right)}", got=words(got))
    for name, nbytes in right.items():
        expect(got[name] == nbytes, key, expected=f"{name!r}: {nbytes} bytes", got=f"{got[name]} bytes")


@activation_bytes.claim("lists each leaf module by dotted name, with the bytes of what it makes", weight=0, gate=True)
def _(trial: Trial) -> None:
    n, width, out = trial.integer(2, 9), trial.integer(4, 9), trial.integer(2, 3)
    block = nn.Sequential(nn.Linear(3, width), nn.Sequential(nn.Tanh(), nn.Linear(width, 10)))
    model = trial.fill(nn.Sequential(OrderedDict(body=block, head=nn.Linear(10, out))))
    elements = {"body.0": n * width, "body.1.0": n * width, "body.1.1": n * 10, "head": n * out}
    right = {name: 4 * count for name, count in elements.items()}
    got = _all_sizes(trial, model, _floats(trial, n, 3), "model of nested Sequentials, x")
    readings = (
        ("weightless", {name: nbytes for name, nbytes in right.items() if name != "body.1.0"}),
        ("inputs", {"body.0": 12 * n, "body.1.0": 4 * n * width, "body.1.1": 4 * n * width, "head": 40 * n}),
        ("one name", {"head": right["head"]}),
        ("one name", {"head": sum(right.values())}),
        ("elements", elements),
    )
    key = reading(got, readings, operator.eq)
    more = got.keys() - right.keys()
    if more and more <= {"body.1", "body", ""}:
        key = "containers" if right.keys() <= got.keys() else "children"
    elif more & {"Linear", "Tanh"}:
        key = "class names"
    _expect_sizes(got, right, key)


@activation_bytes.claim("runs the model once, by calling it as a module", weight=0.5)
def _(trial: Trial) -> None:
    model, calls, runs = layers(trial), [], []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    model.encoder.register_forward_pre_hook(lambda *_: runs.append(1))  # called by the model's own forward alone
    _sizes(trial, model, trial.randn(4, 3), "model with a hook of its own, x")
    expect(len(runs) > 0, "by hand", expected="one forward pass", got="the layers called, and the model never")
    expect(len(calls) > 0, "past the hooks", expected="the model's own hook called", got="not called")
    expect(len(calls) == 1, "several runs", expected="one forward pass", got=str(len(calls)))


class _Leaf(nn.Module):
    """A module without children that calls a function."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


class _Branches(nn.Module):
    """Feeds one input to its children, one after the other, and hands on what the last of them returns."""

    def __init__(self, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, x: Tensor) -> Any:
        return [child(x) for child in self.children()][-1]


@activation_bytes.claim("sums over nested tuples, by the elements and dtype of each tensor", weight=1.5)
def _(trial: Trial) -> None:
    n, width, hidden = trial.integer(2, 9), trial.integer(3, 6), trial.integer(2, 5)
    parts = _Leaf(lambda x: (x.half(), x > 0, (x.float(), (x.argmax(1),))))
    column = _Leaf(lambda x: x[:, :1].expand(-1, width + 2))  # a view of one column, spread over many
    model = trial.fill(_Branches(lstm=nn.LSTM(width, hidden), parts=parts, column=column).double())
    elements = {"lstm": n * hidden + 2 * hidden, "parts": n * (3 * width + 1), "column": n * (width + 2)}
    eights = {name: 8 * count for name, count in elements.items()}
    right = eights | {"parts": n * width * (2 + 1 + 4) + 8 * n}
    flat = _Branches(pair=_Leaf(lambda x: (x, 2 * x)))
    _expect_sizes(_sizes(trial, flat, _floats(trial, n, 3), "model with a tuple, x"), {"pair": 24 * n}, "tuples")
    try:
        got = _sizes(trial, model, trial.randn(n, width), "model with an LSTM and a nested tuple, x")
    except AnswerRaised as raised:
        told = str(raised.error)
        expect("'tuple' object" not in told, "nested", expected="all tensors in it", got=f"an error: {told}")
        raise
    fours = {name: 4 * count for name, count in elements.items()}
    readings = (("elements", elements), ("four bytes", fours), ("one dtype", eights))
    key = reading(got, readings, operator.eq)
    # Of a tuple's parts those that are tensors, or those of the tuples in it as well.
    is_flat = got.get("lstm") != right["lstm"] or got.get("parts") in (3 * n * width, 7 * n * width, None)
    is_storage = got.get("column") != right["column"]
    _expect_sizes(got, right, key or ("nested" if is_flat else "storage" if is_storage else ""))


@activation_bytes.claim("tells leaves by their children, and counts them also where they hand on memory")
def _(trial: Trial) -> None:
    n, width = trial.integer(2, 9), trial.integer(3, 6)
    block = _Branches(act=nn.Tanh(), out=nn.Linear(3, width))
    model, right = trial.fill(nn.Sequential(block)), {"0.act": 12 * n, "0.out": 4 * n * width}
    got = _all_sizes(trial, model, _floats(trial, n, 3), "model with a block of a class of its own, x")
    _expect_sizes(got, right, "by type" if got.keys() - right.keys() == {"0"} else "")
    parts = OrderedDict(conv=nn.Conv1d(3, width, 1), relu=nn.ReLU(inplace=True), same=nn.Identity(), flat=nn.Flatten())
    model, right = trial.fill(nn.Sequential(parts)), dict.fromkeys(parts, 8 * n * width)
    got = _sizes(trial, model, _floats(trial, n, 3, 2), "model with ReLU(inplace=True), Identity and Flatten, x")
    free = got.get("conv") and any(not got.get(name) for name in parts)
    _expect_sizes(got, right, "shared memory" if free else "")


class _Loop(nn.Module):
    """Calls the layers of ``inner`` several times, and ``spare`` and ``unused`` never."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.start, self.spare = nn.Linear(3, 4), nn.Linear(3, 4)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.unused = nn.ModuleList([nn.Tanh()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        for number in range(self.rounds):
            x = self.inner(x[number:])
        return x


@activation_bytes.claim("sums over the calls of a module, and leaves out what did not run")
def _(trial: Trial) -> None:
    n, rounds = trial.integer(6, 9), trial.integer(2, 3)
    model = trial.fill(_Loop(rounds))
    rows = [n - sum(range(number + 1)) for number in range(rounds)]
    right, first, last = (
        {"start": 16 * n, "inner.0": 16 * count, "inner.1": 16 * count} for count in (sum(rows), rows[0], rows[-1])
    )
    got = _sizes(trial, model, _floats(trial, n, 3), "model that calls two layers several times, x")
    zeros = {"spare": 0, "unused.0": 0}
    overwritten = [("overwritten", sizes | more) for sizes in (last, first) for more in ({}, zeros)]
    _expect_sizes(got, right, reading(got, [("not run", right | zeros), *overwritten], operator.eq))


@activation_bytes.claim("lists a layer with two names once, and a model that is itself a leaf", weight=0.5)
def _(trial: Trial) -> None:
    n, act = trial.integer(2, 9), nn.Tanh()
    model = _Branches(act=act, head=nn.Linear(3, 2), again=act)  # which calls it once: several calls are judged above
    got = _sizes(trial, trial.fill(model), _floats(trial, n, 3), "model that has one layer under two names, x")
    _expect_sizes(got, {"act": 12 * n, "head": 8 * n}, "two names" if "again" in got else "")
    alone, calls = trial.fill(nn.Linear(3, 2)), []
    alone.register_forward_pre_hook(lambda *_: calls.append(1))
    got = _sizes(trial, alone, _floats(trial, n, 3), "nn.Linear(3, 2), x")
    _expect_sizes(got, {"": 8 * n}, "alone" if calls else "past the hooks")


@activation_bytes.claim("records nothing", weight=2)
def _(trial: Trial) -> None:
    for flagged, frozen in ((False, False), (True, False), (True, True)):
        model, recorded = layers(trial).requires_grad_(not frozen), []
        for layer in (model.encoder[0], model.head):
            layer.register_forward_hook(lambda _module, _args, output: recorded.append(output.requires_grad))
        _sizes(trial, model, trial.randn(4, 3, requires_grad=flagged), f"model, {'flagged ' * flagged}x")
        shown = "the layers' outputs require grad"
        expect(not any(recorded), "recorded", expected="no graph while the model runs", got=shown)
        is_frozen = any("requires_grad" in effect for effect in trial.effects)
        expect(not is_frozen, "frozen", expected="the parameters' flags as before", got="other flags")
    with torch.no_grad():
        _sizes(trial, layers(trial), trial.randn(4, 3), when=", called inside no_grad")


@activation_bytes.claim(
    "leaves the hooks of others as they were, and the training flags, also when the forward pass raises"
)
def _(trial: Trial) -> None:
    for training, other in ((True, "act"), (False, "encoder.1")):
        model, seen = layers(trial).train(training), []
        model.get_submodule(other).training = not training
        flags = training_flags(model)
        model.head.register_forward_hook(lambda *_: seen.append(1))
        model.encoder[0].register_forward_pre_hook(lambda *_: seen.append(1))
        _sizes(trial, model, trial.randn(4, 3), f"model in {'training' if training else 'eval'} mode, x")
        expect_training_flags(model, flags, "flags", "one flag")
        seen.clear()
        model(trial.randn(4, 3))
        expect(len(seen) == 2, "cleared others", expected="2 hooks of others called", got=str(len(seen)))
        with contextlib.suppress(AnswerRaised, Missed):
            _sizes(trial, model, trial.randn(4, 2), "model, x that raises")
        expect_training_flags(model, flags, "only without error")


@activation_bytes.claim(
    "leaves no hooks and no grad mode of its own, also when the forward pass raises, and lets the error through"
)
def _(trial: Trial) -> None:
    model = layers(trial)
    _sizes(trial, model, trial.randn(4, 3))
    expect_hooks(model, 0, "left on")
    for kind, x in ((RuntimeError, trial.randn(4, 2)), (Unlucky, trial.randn(4, 3))):
        model = layers(trial)
        if kind is Unlucky:
            model.append(Raises())
        expect_clean_error(kind, model, lambda: _sizes(trial, model, x, "model, x that raises"))
        is_on = torch.is_grad_enabled() and not any("grad mode" in effect for effect in trial.effects)
        expect(is_on, "only without error", expected="the grad mode as before", got="switched off")


class _Auxiliary(nn.Module):
    """A model with a head for training alone, which is a leaf."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.auxiliary = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Any:
        x = self.body(x)
        return (self.head(x), self.auxiliary(x)) if self.training else self.head(x)


@activation_bytes.claim("runs the model in the modes that it is in", weight=0.5)
def _(trial: Trial) -> None:
    n = trial.integer(2, 9)
    for training in (True, False):
        model, show = trial.fill(_Auxiliary()).train(training), f"model in {'training' if training else 'eval'} mode, x"
        right = {"body": 16 * n, "head": 8 * n} | ({"auxiliary": 12 * n} if training else {})
        got = _sizes(trial, model, _floats(trial, n, 3), show)
        key = "eval" if right.keys() - got.keys() == {"auxiliary"} else ""
        if key:
            # Who leaves a count in a buffer to the model has set the mode for the buffers' sake.
            counts = nn.Sequential(_Counts())
            _sizes(trial, counts, trial.randn(4, 3), show)
            key = "own buffers" if counts[0].passes else key
        _expect_sizes(got, right, key)


class _Counts(nn.Module):
    """Hands its input on, and counts in two buffers, one of them in no state dict, whatever mode it is in."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("passes", torch.zeros(1, dtype=torch.float64))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.float64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        self.calls += 1
        return x + 0 * self.calls


@activation_bytes.claim("leaves all buffers as they were, also when the forward pass raises", weight=3)
def _(trial: Trial) -> None:
    for raises, key in ((False, "statistics"), (True, "only without error")):
        norm = nn.BatchNorm1d(2).double()
        model = layers(trial).append(norm)
        model.append(_Counts())
        before = {name: (buffer, buffer.clone()) for name, buffer in model.named_buffers()}
        counter = norm.num_batches_tracked
        writes, passes = counter._version, int(counter)
        if raises:
            model.append(Raises())
        with contextlib.suppress(*[AnswerRaised] * raises):
            _sizes(trial, model, trial.randn(4, 3), f"model with batch norm{', x that raises' * raises}")
        kept = norm.track_running_stats and norm.momentum == 0.1
        expect(kept, "side effect", expected="batch norm's settings as before", got="other settings")
        now = dict(model.named_buffers())
        moved = [
            name for name, (buffer, was) in before.items() if not (torch.equal(now[name], was) and same(buffer, was))
        ]
        # Each forward pass writes once: whatever wrote besides has put back what was no copy.
        if not raises and counter._version - writes > int(counter) - passes > 0:
            key = "snapshot"
        last = {name.rpartition(".")[2] for name in moved}
        signs = (
            ("counter", last - {"passes", "calls"} == {"num_batches_tracked"}),
            ("state dict", last == {"calls"}),
            ("own buffers", last == {"passes", "calls"}),
        )
        key = first_sign(*signs) or key
        got = f"{', '.join(moved)} changed"
        if moved and all(
            now[name] is not before[name][0] and torch.equal(now[name], before[name][1]) for name in moved
        ):
            key, got = "copy put in", f"a copy in its place, and the tensor that was {moved[0]} was written to"
        expect(not moved, key, expected="all buffers as before", got=got)
    norm = nn.BatchNorm1d(2).double()
    shared, mean = layers(trial).extend((norm, nn.Tanh(), norm)), norm.running_mean
    _sizes(trial, shared, trial.randn(4, 3), "model that has one batch norm under two names, x")
    kept = norm.running_mean is mean and not int(norm.num_batches_tracked)
    expect(kept, "swapped twice", expected="its buffers as before", got="others in their place, or other values")


def _expect_backward_goes_on(trial: Trial, layer: nn.Module, name: str, recorded_in: bool, called_in: bool) -> None:
    """A loss that was recorded before has its gradients after a call.

    Args:
        layer: the last of the model that computes it.
        name: a buffer of the layer's, which tells what was written.
        recorded_in, called_in: whether the model was in training mode then, and is in it now.
    """
    model, x, slope = layers(trial).append(layer).train(recorded_in), trial.randn(4, 3), trial.randn(4, 2)
    twin, weight, buffer = copy.deepcopy(model), model.encoder[0].weight, layer.get_buffer(name)
    (expected,) = torch.autograd.grad((twin(x) * slope).sum(), twin.encoder[0].weight)
    loss = (model(x) * slope).sum()
    was, version = buffer.clone(), buffer._version
    then, now = ("training mode" if training else "eval mode" for training in (recorded_in, called_in))
    when = f", while a loss{f' recorded in {then}' * (then != now)} waits for backward"
    _sizes(trial, model.train(called_in), x, f"model in {now}, x", when)
    shown = "other values, and no error"
    try:
        (got,) = torch.autograd.grad(loss, weight)
        if same(got, expected):
            return
    except RuntimeError as error:
        shown = f"RuntimeError: {error}".split(";")[0][:160]
    put = getattr(layer, name, None)
    is_old = isinstance(put, Tensor) and same(put, was)
    signs = (
        ("copy put in", is_old and put is not buffer),
        ("versions", is_old),
        ("state dict", name not in layer.state_dict()),
        ("own buffers", type(layer) is _Grows),
        ("snapshot", buffer._version > version),  # batch norm's own write is not counted
        ("statistics", not same(buffer, was)),
    )
    raise Missed(first_sign(*signs), expected="the gradients of that loss", got=shown)


@activation_bytes.claim(
    "leaves the caller's graphs: the backward of a loss through batch norm, recorded in the same mode, goes on",
    weight=5.5,
)
def _(trial: Trial) -> None:
    for training in (True, False):
        _expect_backward_goes_on(trial, nn.BatchNorm1d(2).double(), "running_mean", training, training)


class _Grows(nn.Module):
    """Multiplies by a buffer, to which it adds in each pass before it does."""

    def __init__(self, persistent: bool) -> None:
        super().__init__()
        self.register_buffer("multiplier", torch.ones(1, dtype=torch.float64), persistent=persistent)

    def forward(self, x: Tensor) -> Tensor:
        self.multiplier += 1
        return x * self.multiplier


@activation_bytes.claim(
    "leaves the caller's graphs also where the pass itself would write to a buffer that they have saved"
)
def _(trial: Trial) -> None:
    _expect_backward_goes_on(trial, nn.BatchNorm1d(2).double(), "running_mean", False, True)
    for persistent in (True, False):
        _expect_backward_goes_on(trial, _Grows(persistent), "multiplier", True, True)
