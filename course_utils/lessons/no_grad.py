"""Lesson 05, no_grad and its relatives: its exercises, what they claim, and the misconceptions that they recognise."""

import copy
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Turn, Unlucky, expect_training_flags, flag_words, same, training_flags
from course_utils.checks.exercise import Exercise, Misconception, Missed, Predict, Trial
from course_utils.checks.trial import AnswerRaised

# --------------------------------------------------------------------------------------------------- predicted_modes


def _modes_seen(trial: Trial) -> dict[str, bool]:
    """The lesson's cell."""
    x = trial.randn(2)
    seen: dict[str, bool] = {}
    with torch.no_grad():
        seen["outer"] = torch.is_grad_enabled()
        with torch.enable_grad():
            seen["inner_enabled"] = torch.is_grad_enabled()
        seen["after_inner"] = torch.is_grad_enabled()

        def note() -> None:
            seen["thread"] = torch.is_grad_enabled()

        worker = threading.Thread(target=note)
        worker.start()
        worker.join()
        seen["parameter_under_no_grad"] = nn.Parameter(x.clone()).requires_grad

    seen["decorated"] = torch.no_grad()(torch.is_grad_enabled)()

    def hold() -> Iterator[None]:
        with torch.no_grad():
            yield

    paused = hold()
    next(paused)
    seen["generator_caller"] = torch.is_grad_enabled()
    paused.close()

    with torch.inference_mode():
        y = x * 2
    seen["inference_output_is_inference"] = y.is_inference()
    return seen


predicted_modes = Predict(
    name="predicted_modes",
    points=2,
    truth=_modes_seen,
    keys=(
        "outer",
        "inner_enabled",
        "after_inner",
        "decorated",
        "generator_caller",
        "thread",
        "parameter_under_no_grad",
        "inference_output_is_inference",
    ),
    hints=(
        "Go through the lines one by one and keep a note of the mode of the *thread*. Which lines set it, and which "
        "put it back?",
        "A `with` block puts the mode back when it is left. Has the generator left its block when the caller goes on? "
        "And does a new thread know anything of the old one's mode?",
        "The mode is asked when an operation runs. Making a Parameter is no operation on flagged tensors, and what "
        "kind of memory an inference tensor has is decided when it is made.",
    ),
    misconceptions={
        "still recording": Misconception(
            "no_grad changes tensors, not a mode",
            "`no_grad` sets a mode of the running thread, and `torch.is_grad_enabled()` reads that mode. Inside the "
            "block or the decorated function it is off.",
            "Print `torch.is_grad_enabled()` on the line before the block and on its first line.",
        ),
        "outer wins": Misconception(
            "An outer no_grad cannot be undone inside",
            "Each switch sets the mode for its own block, whatever the mode was. The innermost one is the one that "
            "counts here.",
            "Run an operation on a flagged tensor inside both blocks, and print `requires_grad` of the result.",
        ),
        "ends with on": Misconception(
            "Leaving a block switches recording on again",
            "A block puts back what it found when it was entered. What it found may have been off.",
            "Print the mode before, inside and after the inner block.",
        ),
        "generator": Misconception(
            "A with block in a generator affects the generator alone",
            "At `yield` the block is still open and the caller goes on. The mode belongs to the thread, and both run "
            "in the same one.",
            "Ask for one item of such a generator, and print `torch.is_grad_enabled()` on the next line.",
        ),
        "thread": Misconception(
            "A thread takes over the mode of the thread that starts it",
            "Each thread has a grad mode of its own, and a new one begins with the default.",
            "Start a thread inside `no_grad` that prints `torch.is_grad_enabled()`.",
        ),
        "parameter": Misconception(
            "Layers made under no_grad are frozen",
            "`nn.Parameter` raises the flag itself, in any mode. The mode decides what happens to operations, and "
            "none has been run on the parameter.",
            "Make an `nn.Linear` under `no_grad`, and print `weight.requires_grad` afterwards.",
        ),
        "inference": Misconception(
            "Outside of inference_mode its tensors are ordinary again",
            "What is made inside the mode is made without version counter and stays so. Leaving the block changes the "
            "mode, not the tensors.",
            "Print `is_inference()` of such a tensor after the block.",
        ),
    },
    readings={
        ("outer", True): "still recording",
        ("decorated", True): "still recording",
        ("inner_enabled", False): "outer wins",
        ("after_inner", True): "ends with on",
        ("generator_caller", True): "generator",
        ("thread", False): "thread",
        ("parameter_under_no_grad", False): "parameter",
        ("inference_output_is_inference", False): "inference",
    },
)

# ----------------------------------------------------------------------------- what several exercises look at: modes


def _plain_model(trial: Trial, outputs: int = 5) -> nn.Sequential:
    """A model that does the same in both modes. Takes three columns."""
    return trial.fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, outputs)).double())


def _moody_model(trial: Trial, training: bool, other: int, outputs: int = 5) -> nn.Sequential:
    """A model whose values tell the modes apart; its submodule number ``other`` is in another mode than the rest."""
    norm = nn.BatchNorm1d(8)
    head = nn.Sequential(nn.Linear(8, outputs), Turn())
    model = trial.fill(nn.Sequential(nn.Linear(3, 8), norm, nn.Tanh(), head).double())
    with torch.no_grad():
        norm.running_mean.copy_(trial.randn(8))
        norm.running_var.copy_(trial.randn(8).abs() + 0.5)
    model.train(training)
    model[other].training = not training
    return model


def _in_eval_mode(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).eval()(x.detach())


def _call(trial: Trial, model: nn.Module, *args: Any, show: str) -> Any:
    """Calls the answer. Training flags have claims of their own; all else about the model must stay as it was."""
    return trial.call(model, *args, watch_training=False, show=show)


def _expect_grad_mode(trial: Trial, key: str, expected: bool) -> None:
    if any("grad mode" in effect for effect in trial.effects):
        raise Missed(key, expected=f"the grad mode {expected}, as before", got=f"{not expected}")


_MODE_MISCONCEPTIONS = {
    "no eval": Misconception(
        "Without gradients a model is in eval mode",
        "Recording and the training flags are two switches. Under `no_grad`, dropout still drops and batch norm still "
        "works with the batch's own statistics, and learns from them.",
        "Call the model twice on one batch under `no_grad`, with `model.training` True, and look at its buffers.",
    ),
    "left in eval": Misconception(
        "Whoever trains next will call train()",
        "The caller gets the model back in eval mode. Dropout and batch norm stay off in the rest of the training, and "
        "nothing says so.",
        "Print `model.training` before and after the call.",
    ),
    "one flag": Misconception(
        "One flag describes the whole model",
        "Each submodule has a `training` flag of its own: a frozen batch norm is in eval mode while the rest trains. "
        "`train()` and `eval()` write one value over all of them.",
        "Put one submodule in eval mode, call your function, and print `training` of every module.",
    ),
    "only without error": Misconception(
        "The lines at the end always run",
        "Where the model or a batch raises, they do not. Whoever catches the error has modes that they did not set.",
        "Let the model raise, catch the error, and print the modes.",
    ),
    "swallowed": Misconception(
        "An error can be passed over",
        "What the model or a batch raises is the caller's to handle. Passed over in silence, the result is that of "
        "other data.",
        "Take out the `except`, or let it raise again.",
    ),
    "frozen": Misconception(
        "To stop the recording, lower the flags of the parameters",
        "It stops it, and it changes the caller's model: what was to be trained afterwards no longer is.",
        "Print `requires_grad` of the parameters before and after.",
    ),
    "grad mode": Misconception(
        "A plain set_grad_enabled call ends with the function",
        "As a plain call it sets the thread's mode until somebody sets it again. To set it to True at the end is no "
        "better: the caller may have had it off.",
        "Call your function with the mode on and with the mode off, and print `torch.is_grad_enabled()` after each.",
    ),
}

# ---------------------------------------------------------------------------------------------------------- evaluate

evaluate = Exercise(
    name="evaluate",
    points=2,
    hints=(
        "Two switches are needed, and both have to be put back. Which of them puts itself back?",
        "Write down `training` of every module before `eval()`, and write each back in a `finally`. Count right "
        "answers and samples as two whole numbers.",
        "`model(x).argmax(1) == labels` is one truth value a sample. Divide once, after the loop, and think of the "
        "loop that never ran.",
    ),
    misconceptions={
        "recorded": Misconception(
            "eval() turns autograd off",
            "`eval()` writes `training` flags, which dropout and batch norm read. Operations on flagged parameters are "
            "recorded as before. A `torch.no_grad()` on a line of its own does not stop them: it makes a context "
            "manager and throws it away.",
            "Print `model(x).requires_grad` inside your loop.",
        ),
        "mean of means": Misconception(
            "The mean of the batch accuracies is the accuracy",
            "Only if all batches have the same size. Else the samples of a small batch count for more than others.",
            "Work it out by hand for a batch of 1 and a batch of 9.",
        ),
        "count": Misconception(
            "The number of right answers says it",
            "The contract asks for a share between 0 and 1, so that data sets of different size can be compared.",
            "Divide by the number of samples that came.",
        ),
        "last": Misconception(
            "The last batch stands for all",
            "The share is over all samples. What the loop does not add up is gone at the next turn.",
            "Print the right answers of each batch beside what you return.",
        ),
        "tensor": Misconception(
            "A 0-dim tensor is a float",
            "It prints like one, and it is a tensor: it lives on a device and has no place in a JSON log.",
            "Print the `type` of what you return.",
        ),
        "len": Misconception(
            "Every iterable has a length and an index",
            "A generator makes its batches one by one, and can be read once.",
            "Call your function with `iter(batches)`.",
        ),
        "empty": Misconception(
            "No batches: the share takes care of itself",
            "A share of nothing is no number. As 0.0 it looks like a bad model, as nan it travels on, and a "
            "ZeroDivisionError does not say what was missing.",
            "Call your function with an empty list.",
        ),
    }
    | _MODE_MISCONCEPTIONS,
    raises=(
        ("has no len()", "len"),
        ("has no attribute '__len__'", "len"),
        ("is not subscriptable", "len"),
    ),
    effects=(("grad mode", "grad mode"), ("requires_grad", "frozen"), ("running_", "no eval")),
)


def _labelled(trial: Trial, model: nn.Module, *sizes: int) -> tuple[list[tuple[Tensor, Tensor]], list[int]]:
    """Batches, and how many labels of each agree with the model in eval mode: all, few, all but one, and again."""
    batches, right = [], []
    for number, size in enumerate(sizes):
        x = trial.randn(size, 3)
        scores = _in_eval_mode(model, x)
        agree = (size, min(2, size), size - 1)[number % 3]
        labels = scores.argmax(1)
        labels[agree:] = (labels[agree:] + 1) % scores.shape[1]
        order = torch.argsort(x[:, 0])  # the wrong ones stand anywhere
        batches.append((x[order], labels[order]))
        right.append(agree)
    return batches, right


def _share(trial: Trial, model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], show: str) -> float:
    got = _call(trial, model, batches, show=f"evaluate({show})")
    if got is None:
        raise Missed("no return value", expected="a float", got="None")
    if isinstance(got, Tensor):
        raise Missed("tensor", expected="a float", got="a tensor")
    try:
        return float(got)
    except (TypeError, ValueError):
        raise Missed(expected="a float", got=got) from None


@evaluate.claim("is the share of right top-1 answers over all samples, as a float", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _plain_model(trial, trial.integer(3, 6))
    sizes = [trial.integer(1, 2), trial.integer(9, 12), trial.integer(4, 6)]
    batches, right = _labelled(trial, model, *sizes)
    expected = sum(right) / sum(sizes)
    shares = [hits / size for hits, size in zip(right, sizes, strict=True)]
    for given in (batches, iter(batches)):
        got = _share(trial, model, given, "model, 3 batches of different size")
        if abs(got - expected) < 1e-6:
            continue
        guesses = (
            ("mean of means", sum(shares) / 3),
            ("count", float(sum(right))),
            ("count", sum(right) / 3),
            ("count", 100 * expected),
            ("last", shares[-1]),
        )
        key = next((key for key, value in guesses if abs(got - value) < 1e-6), "")
        raise Missed(key, expected=f"{sum(right)} of {sum(sizes)}: {expected:.6f}", got=f"{got:.6f}")


def _noting_model(trial: Trial) -> tuple[nn.Sequential, list[bool]]:
    """A plain model that notes at each forward pass whether what it computes is being recorded."""
    model, recorded = _plain_model(trial), []
    model[0].register_forward_hook(lambda _module, _inputs, output: recorded.append(output.requires_grad))
    return model, recorded


@evaluate.claim("records nothing", weight=2)
def _(trial: Trial) -> None:
    model, recorded = _noting_model(trial)
    batches, _right = _labelled(trial, model, 4, 3)
    recorded.clear()  # what the labels were worked out with
    _share(trial, model, batches, "model, 2 batches")
    if any(recorded):
        raise Missed("recorded", expected="no graph while the model runs", got="the model's outputs require grad")


@evaluate.claim("leaves the grad mode as it found it, on or off")
def _(trial: Trial) -> None:
    for enabled in (True, False):
        model, recorded = _noting_model(trial)
        batches, _right = _labelled(trial, model, 4, 3)
        recorded.clear()
        with torch.set_grad_enabled(enabled):
            _share(trial, model, batches, "model, batches" + ("" if enabled else ", called inside no_grad"))
        _expect_grad_mode(trial, "grad mode", enabled)
        # Leaving the mode alone earns nothing where it had to be switched.
        if any(recorded):
            raise Missed("recorded", expected="no graph while the model runs", got="the model's outputs require grad")


@evaluate.claim("is computed in eval mode", weight=2, gate=True)
def _(trial: Trial) -> None:
    for training, other in ((True, 2), (False, 1)):
        model = _moody_model(trial, training, other)
        batches, right = _labelled(trial, model, 5, 8)
        got = _share(trial, model, iter(batches), "model in training mode, 2 batches")
        if abs(got - sum(right) / 13) > 1e-6:
            raise Missed("no eval", expected=f"{sum(right)} of 13 right, in eval mode", got=f"{got * 13:.1f} of 13")
        if any("running_" in effect for effect in trial.effects):
            raise Missed("no eval", expected="batch norm's statistics as before", got="they have moved")


@evaluate.claim("puts back every submodule's own training flag")
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 3), (True, 2)):
        model = _moody_model(trial, training, other)
        before = training_flags(model)
        batches, _right = _labelled(trial, model, 4, 3)
        _share(trial, model, batches, "model, 2 batches")
        expect_training_flags(model, before)


@evaluate.claim("puts back flags and grad mode where a batch raises, and lets the error through")
def _(trial: Trial) -> None:
    for kind, (training, other) in ((Unlucky, (True, 1)), (RuntimeError, (False, 3))):
        model = _moody_model(trial, training, other)
        before = training_flags(model)
        batches, _right = _labelled(trial, model, 4)
        given: Iterable = [*batches, (trial.randn(4, 2), batches[0][1])] if kind is RuntimeError else _unlucky(batches)
        show = f"evaluate(model, batches), the {'model' if kind is RuntimeError else 'source'} raises"
        _expect_error(trial, kind, lambda model=model, given=given, show=show: _call(trial, model, given, show=show))
        expect_training_flags(model, before, "only without error")
        _expect_grad_mode(trial, "only without error", True)


def _unlucky(batches: Iterable) -> Iterator:
    yield from batches
    raise Unlucky("this batch cannot be read")


def _expect_error(trial: Trial, kind: type[Exception], call: Callable[[], Any]) -> None:
    try:
        call()
    except AnswerRaised as raised:
        if not isinstance(raised.error, kind):
            got = type(raised.error).__name__
            raise Missed("swallowed", expected="the error of the batch or the model", got=got) from None
    else:
        raise Missed("swallowed", expected="the error of the batch or the model", got="no error")


@evaluate.claim("raises ValueError for no batches")
def _(trial: Trial) -> None:
    for empty in ([], iter([])):
        try:
            got = _call(trial, _plain_model(trial), empty, show="evaluate(model, [])")
        except AnswerRaised as raised:
            if isinstance(raised.error, ValueError):
                continue
            raise Missed("empty", expected="ValueError", got=type(raised.error).__name__) from None
        raise Missed("empty", expected="ValueError", got=got)


# -------------------------------------------------------------------------------------------------------- ema_update

ema_update = Exercise(
    name="ema_update",
    points=2,
    hints=(
        "Parameters and buffers are two lists, and they want different treatment. Which buffers have an average, and "
        "which have only a newest value?",
        "Both models have the same structure, so their `parameters()` come in the same order, and so do their "
        "`buffers()`. Each names a shared tensor once.",
        "In place means methods with an underscore, on the tensor itself. On flagged leaves they need a block in which "
        "nothing is recorded.",
    ),
    misconceptions={
        "recorded": Misconception(
            "A frozen target can be updated anywhere",
            "With recording on, an in-place edit by flagged values gives the target a history: it is no leaf any more, "
            "and each update adds to its graph. Where the target itself is flagged, torch refuses.",
            "Print `grad_fn` of a target's parameter after two updates.",
        ),
        "swapped": Misconception(
            "decay is the share of the new model",
            "`decay` says how much of the old average stays. At 0.99 the target moves by one hundredth of the way.",
            "Call your function with `decay=1.0`: nothing may change.",
        ),
        "copied": Misconception(
            "An average of weights is the newest weights",
            "A copy forgets everything before it. The target is to keep the share `decay` of what it was.",
            "Compare target and online after one update.",
        ),
        "buffers": Misconception(
            "parameters() is all that a model knows",
            "Batch norm keeps its mean and variance in buffers. Left out, the averaged weights work with statistics of "
            "another model.",
            "Print `dict(target.named_buffers())` before and after.",
        ),
        "state_dict": Misconception(
            "state_dict() is the list of everything once",
            "It leaves out buffers that were registered with `persistent=False`, and it names a shared tensor once for "
            "each of its names.",
            "Compare the keys of `state_dict()` with those of `named_parameters()` and `named_buffers()`.",
        ),
        "integers": Misconception(
            "Every buffer can be averaged",
            "`num_batches_tracked` is an integer: a count has a newest value, and its average is not a whole number.",
            "Print the dtype of every buffer.",
        ),
        "left out": Misconception(
            "What has no average is left alone",
            "A count or a mask belongs to the state, too. Left out, the target keeps the value that it had at its "
            "start.",
            "Print `num_batches_tracked` of both models after a few updates.",
        ),
        "elsewhere": Misconception(
            "A function that returns the new model has updated the old one",
            "The caller holds `target` itself, and perhaps a view of its memory. Nothing has happened to either.",
            "Print a parameter of the model that you passed in, before and after the call.",
        ),
        "twice": Misconception(
            "Walking over every name updates every weight once",
            "A shared parameter has several names and one memory. Updated once a name, it forgets twice as fast.",
            "Compare `len(list(m.parameters()))` with the number of names, for a model with tied weights.",
        ),
        "new storage": Misconception(
            "Assigning .data is an in-place update",
            "It gives the parameter another memory. Whoever held the old one, an optimizer's flat buffer or another "
            "process for example, sees no update any more.",
            "Print `data_ptr()` of a parameter before and after.",
        ),
        "flags": Misconception(
            "Lowering the flag is a way to be allowed to edit",
            "It is, and the caller's target has other flags afterwards.",
            "Print `requires_grad` of every parameter before and after.",
        ),
    },
    raises=(
        ("a leaf Variable that requires grad", "recorded"),
        ("can't be cast to the desired output type", "integers"),
        ("to the desired output type Long", "integers"),
        ("only supported for floating", "integers"),
        ('"lerp', "integers"),
        ("expected dtype", "integers"),
        ("Can only assign", "new storage"),
        ("cannot assign", "new storage"),
    ),
)


class _Statistics(nn.Module):
    """A layer with a scalar parameter and buffers of several kinds, one of which is not in the state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.zeros(4, dtype=torch.bool))
        self.register_buffer("cache", torch.zeros(2, dtype=torch.float64), persistent=False)


def _pair(trial: Trial, *layers: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Two models of the same structure with other values; the target is frozen, the online one flagged."""
    online = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), *layers).double()
    target = copy.deepcopy(online).requires_grad_(False)
    for model in (online, target):
        trial.fill(model)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.copy_(trial.randn(*buffer.shape).abs() + 0.5)
            elif buffer.dtype == torch.bool:
                buffer.copy_(torch.arange(len(buffer)) % 2 == (model is target))
            else:
                buffer.fill_(trial.integer(5, 20) + 40 * (model is target))
    return target, online


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


def _averages(target: nn.Module, online: nn.Module, decay: float) -> dict[str, Tensor]:
    new = _tensors(online)
    return {
        name: decay * old.detach() + (1 - decay) * new[name].detach()
        if old.is_floating_point()
        else new[name].detach().clone()
        for name, old in _tensors(target).items()
    }


def _update(trial: Trial, target: nn.Module, online: nn.Module, decay: float) -> None:
    flags = training_flags(target)
    show = f"ema_update(target, online, decay={decay:.3f})"
    trial.call(target, online, decay, may_change=(target,), show=show)
    if training_flags(target) != flags:
        trial.effects.append("changed the training mode of target")


def _decay(trial: Trial) -> float:
    return trial.integer(600, 950) / 1000


@ema_update.claim("moves every parameter to decay·target + (1 - decay)·online", weight=0, gate=True)
def _(trial: Trial) -> None:
    for decay in (_decay(trial), 1.0, 0.0):
        target, online = _pair(trial)
        before, expected = copy.deepcopy(target), _averages(target, online, decay)
        swapped = _averages(target, online, 1 - decay)
        _update(trial, target, online, decay)
        after = _tensors(target)
        if after.keys() != expected.keys():
            raise Missed(expected="the same parameters as before", got="others")
        if all(same(after[name], value) for name, value in expected.items()):
            continue
        if all(same(after[name], value) for name, value in swapped.items()):
            key = "swapped"
        elif all(same(after[name], value) for name, value in _tensors(online).items()):
            key = "copied"
        else:
            key = ""
        still = all(torch.equal(after[name], value) for name, value in _tensors(before).items())
        if still:
            key = key or "elsewhere"
        name = next(name for name, value in expected.items() if not same(after[name], value))
        shown = "the old values" if still else f"{after[name].flatten()[0].item():.6f}"
        raise Missed(key, expected=f"{expected[name].flatten()[0].item():.6f} at the start of {name}", got=shown)


@ema_update.claim("records nothing and leaves the flags alone", weight=2)
def _(trial: Trial) -> None:
    for flagged in ((), (0, 1, 2, 3), (1, 2)):
        target, online = _pair(trial)
        for number, parameter in enumerate(target.parameters()):
            parameter.requires_grad_(number in flagged)
            parameter.grad = trial.randn(*parameter.shape)
        before = {name: (p.requires_grad, p.grad.clone()) for name, p in target.named_parameters()}
        expected = _averages(target, online, 0.75)
        _update(trial, target, online, 0.75)
        for name, parameter in _tensors(target).items():
            flag, grad = before[name]
            if parameter.grad_fn is not None:
                got = f"grad_fn {parameter.grad_fn.name()}"
                raise Missed("recorded", expected=f"target's {name} without history", got=got)
            if parameter.requires_grad != flag:
                raise Missed("flags", expected=f"requires_grad {flag} at {name}", got=str(not flag))
            if parameter.grad is None or not torch.equal(parameter.grad, grad):
                raise Missed(expected=f"the old .grad of {name}", got="another one")
            if not same(parameter, expected[name]):
                raise Missed(expected=f"the average at {name}", got="other values")


@ema_update.claim("works in place, on the same memory", weight=1)
def _(trial: Trial) -> None:
    target, online = _pair(trial, nn.BatchNorm1d(2))
    decay = _decay(trial)
    expected = {name: value for name, value in _averages(target, online, decay).items() if "3." not in name}
    # Parameters alone: what becomes of buffers has a claim of its own.
    old = {name: (tensor, tensor.detach()) for name, tensor in _tensors(target).items()}
    _update(trial, target, online, decay)
    now = _tensors(target)
    for name, (tensor, alias) in old.items():
        if now.get(name) is not tensor and alias.is_floating_point():
            raise Missed("new storage", expected=f"{name} to be the same tensor", got="another one in its place")
        if now[name].data_ptr() != alias.data_ptr():
            raise Missed("new storage", expected=f"{name} on the same memory", got="other memory")
        if name in expected and not same(alias, expected[name]):
            raise Missed("new storage", expected=f"the update in the memory of {name}", got="the old values there")


@ema_update.claim("averages floating-point buffers and copies the others", weight=2)
def _(trial: Trial) -> None:
    for layers in ((nn.BatchNorm1d(2),), (_Statistics(), nn.BatchNorm1d(2))):
        target, online = _pair(trial, *layers)
        decay = _decay(trial)
        before = {name: tensor.detach().clone() for name, tensor in _tensors(target).items()}
        expected = _averages(target, online, decay)
        _update(trial, target, online, decay)
        after = _tensors(target)
        # The buffers in the state dict come first: who forgot all of them has not met the other question.
        names = sorted(dict(target.named_buffers()), key=lambda name: name.endswith("cache"))
        for name in names:
            got, wanted = after[name], expected[name]
            if got.dtype != wanted.dtype:
                raise Missed("integers", expected=f"{name} as {wanted.dtype}", got=str(got.dtype))
            if same(got, wanted):
                continue
            if name.endswith("cache"):
                key = "state_dict"
            else:
                key = "integers" if not wanted.is_floating_point() else "buffers"
                if wanted.is_floating_point() and torch.equal(got, _tensors(online)[name]):
                    key = "buffers copied"
            if key == "integers" and torch.equal(got, before[name]):
                key = "left out"  # the values are far enough apart for a rounded average to differ from the old one
            if key == "buffers copied":
                raise Missed("copied", expected=f"an average at {name}", got="online's values")
            shown = "the old value" if torch.equal(got, before[name]) else f"{got.flatten()[0].item()}"
            raise Missed(key, expected=f"{wanted.flatten()[0].item()} at the start of {name}", got=shown)


@ema_update.claim("updates what is shared once", weight=1)
def _(trial: Trial) -> None:
    target, online = _pair(trial)
    for model in (target, online):
        extra = nn.Linear(3, 4, bias=False, dtype=torch.float64)
        extra.weight = model[0].weight
        norm = nn.BatchNorm1d(2).double()
        first, second = _Statistics(), _Statistics()
        first.mean.copy_(trial.randn(3))
        second.mean = first.mean
        model.extend((extra, norm, norm, first, second))
    target.requires_grad_(False)
    decay = _decay(trial)
    expected, twice = _averages(target, online, decay), _averages(target, online, decay**2)
    _update(trial, target, online, decay)
    parameters = dict(target.named_parameters())
    for name, tensor in _tensors(target).items():
        if same(tensor, expected[name]):
            continue
        if same(tensor, twice.get(name, expected[name])):
            raise Missed("twice", expected=f"one update of {name}, which two layers share", got="two updates")
        if name in parameters:  # buffers that were left out have a claim of their own
            raise Missed(expected=f"one update of {name}, which two layers share", got="other values")


# ------------------------------------------------------------------------------------------------- stream_predictions

stream_predictions = Exercise(
    name="stream_predictions",
    points=2,
    hints=(
        "Between two items your function is paused and the caller runs. In which mode is the thread at that moment?",
        "Recording has to be off while the model computes, and only then. Where does the block have to end, and where "
        "does the `yield` have to stand?",
        "Make the output inside the block, leave the block, then yield. The decorator form does the same for you on a "
        "function that yields.",
    ),
    misconceptions={
        "history": Misconception(
            "Making the stream under no_grad is enough",
            "A generator's body runs when it is asked for items. By then the block in which it was made, or the "
            "decorated function that returned it, is over.",
            "Print `requires_grad` of the first item.",
        ),
        "leak": Misconception(
            "A with block in a generator affects the generator alone",
            "At `yield` the block is still open. The mode belongs to the thread, so the caller computes without "
            "recording until it asks for the next item, and its own loss has no grad_fn.",
            "Print `torch.is_grad_enabled()` in the body of the caller's loop.",
        ),
        "plain call": Misconception(
            "set_grad_enabled(False) as a plain call ends with the generator",
            "It sets the thread's mode, and nobody puts it back: not the next item, and not the end of the stream.",
            "Print `torch.is_grad_enabled()` after the caller's loop.",
        ),
        "remembered": Misconception(
            "The caller's mode is the one that it had at first",
            "The caller may change its mode between two items. What was written down before the first item is out of "
            "date at the second.",
            "Ask for one item inside `no_grad` and the next one outside, and print the mode after each.",
        ),
        "always on": Misconception(
            "The caller's mode is on",
            "Callers evaluate inside blocks of their own. Set to True after each item, the mode of such a caller is "
            "switched on behind its back.",
            "Run the caller's loop inside `torch.no_grad()`, and print the mode in its body.",
        ),
        "eager": Misconception(
            "A list is as good as a stream",
            "It is ready only when every batch has been read and every output made: the memory of all of them, and no "
            "end for a source without end.",
            "Count how many batches have been read when the first item arrives.",
        ),
        "ahead": Misconception(
            "Reading one batch ahead does no harm",
            "The contract says one batch a step: the source may be a device that waits, and a batch that was read and "
            "not used is lost when the caller breaks off.",
            "Count the batches that have been read when the first item arrives.",
        ),
        "eval": Misconception(
            "Predictions are made in eval mode, so I set it",
            "The contract leaves the training flags to the caller. Between two items, and after a `break`, the caller "
            "would go on with a model in another mode.",
            "Print `model.training` in the body of the caller's loop.",
        ),
        "only without error": Misconception(
            "The line that puts the mode back always runs",
            "Where the model or the source raises, the lines after it do not run. A `with` block puts back in any "
            "case.",
            "Let the model raise, catch the error, and print the mode.",
        ),
        "swallowed": Misconception(
            "A batch that fails can be left out of the stream",
            "The caller counts on one item a batch, in order. What the source or the model raises is the caller's to "
            "handle.",
            "Take out the `except`.",
        ),
    },
    effects=(("eval mode", "eval"), ("training mode", "eval")),
)


def _stream(trial: Trial, model: nn.Module, batches: Iterable[Tensor], show: str) -> Iterator[Tensor]:
    result = trial.call(model, batches, show=f"stream_predictions({show})")
    if result is None:
        raise Missed("no return value", expected="an iterator of tensors", got="None")
    if isinstance(result, Tensor) or not hasattr(result, "__iter__"):
        raise Missed(expected="an iterator of tensors", got=result)
    return iter(result)


def _close(stream: Any) -> None:
    close = getattr(stream, "close", None)
    if close is not None:
        close()


@stream_predictions.claim("yields `model(x)` for each batch, in order", weight=0, gate=True)
def _(trial: Trial) -> None:
    model = _plain_model(trial)
    batches = [trial.randn(trial.integer(1, 5), 3) for _ in range(trial.integer(3, 4))]
    expected = [_in_eval_mode(model, x) for x in batches]
    for given, wanted in ((batches, expected), (iter(batches), expected), ([], [])):
        show = f"model, {len(wanted)} batches"
        stream = _stream(trial, model, given, show)
        items = trial.run(lambda stream=stream: list(stream), called=f"list(stream_predictions({show}))")
        if len(items) != len(wanted):
            raise Missed(expected=f"{len(wanted)} items", got=f"{len(items)} items")
        for got, output in zip(items, wanted, strict=True):
            if not same(trial.tensor(got, shape=output.shape), output):
                raise Missed(expected="the model's outputs, batch by batch", got="other values")


@stream_predictions.claim("yields tensors without history", weight=1, gate=True)
def _(trial: Trial) -> None:
    for made_with, used_with in ((True, True), (False, True), (True, False)):
        model = _plain_model(trial)
        batches = [trial.randn(4, 3) for _ in range(3)]
        with torch.set_grad_enabled(made_with):
            stream = _stream(trial, model, iter(batches), "model, 3 batches")
        with torch.set_grad_enabled(used_with):
            items = trial.run(lambda stream=stream: list(stream), called="list(stream_predictions(model, 3 batches))")
        for item in items:
            got = trial.tensor(item)
            if got.requires_grad:
                history = f"grad_fn {got.grad_fn.name()}" if got.grad_fn is not None else "a flagged leaf"
                raise Missed("history", expected="no history", got=history)


@stream_predictions.claim("reads one batch a step", weight=1)
def _(trial: Trial) -> None:
    model, calls = _plain_model(trial), []
    model[0].register_forward_hook(lambda *_: calls.append(1))  # an answer may call model.forward, past its own hooks
    read: list[int] = []

    def source() -> Iterator[Tensor]:
        for _ in range(6):
            read.append(1)
            yield trial.randn(2, 3)

    def drive() -> list[tuple[int, int]]:
        stream = iter(trial.answer(model, source()))
        counts = [(len(read), len(calls))]
        for _ in range(3):
            next(stream)
            counts.append((len(read), len(calls)))
        _close(stream)
        return counts

    counts = trial.run(drive, called="stream_predictions(model, 6 batches), asked for 3 items", watch={"model": model})
    for steps, (batches_read, model_calls) in enumerate(counts):
        if (batches_read, model_calls) != (steps, steps):
            raise Missed(
                "eager" if max(batches_read, model_calls) >= 5 else "ahead",
                expected=f"after step {steps}: batches read {steps}, outputs made {steps}",
                got=f"batches read {batches_read}, outputs made {model_calls}",
            )


def _mode() -> bool:
    """Whether operations are recorded: ``enable_grad`` inside inference mode says so and does not do it."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def _drive(trial: Trial, modes: list[bool], *, keep: bool = True) -> list[bool]:
    """The caller's mode after each step of a stream, and at last after it was broken off.

    Args:
        trial: holds the answer.
        modes: the mode in which the caller makes the stream, and then the one in which it asks for each item.
        keep: whether the stream is still referred to when the last mode is noted.
    """
    model = _plain_model(trial)
    batches = [trial.randn(2, 3) for _ in range(len(modes) + 1)]

    def drive() -> list[bool]:
        torch.set_grad_enabled(modes[0])
        stream = iter(trial.answer(model, iter(batches)))
        seen = [_mode()]
        try:
            for before, mode in pairwise(modes):
                if mode != before:
                    torch.set_grad_enabled(mode)
                next(stream)
                seen.append(_mode())
        finally:
            _close(stream)
        if not keep:
            del stream
        seen.append(_mode())
        torch.set_grad_enabled(True)  # as the claim's thread had it
        return seen

    shown = ", ".join("on" if mode else "off" for mode in modes[1:])
    return trial.run(drive, called=f"stream_predictions(model, batches), grad mode {shown}", watch={"model": model})


@stream_predictions.claim("leaves the caller's grad mode its own at every step", weight=3)
def _(trial: Trial) -> None:
    cases = ([True] * 4, [False] * 4, [True, False, True, False], [False, True, False, True], [True, True])
    for number, modes in enumerate(cases):
        seen, expected = _drive(trial, modes, keep=number % 2 == 0), [*modes, modes[-1]]
        if seen == expected:
            continue
        on_is_kept = all(after == before for after, before in zip(seen, expected, strict=True) if before)
        constant = "always on" if on_is_kept else "leak" if seen[-1] == modes[-1] else "plain call"
        key = constant if len(set(modes)) == 1 else "remembered"
        raise Missed(
            key,
            expected="on, off after each step: " + ", ".join("on" if mode else "off" for mode in expected),
            got=", ".join("on" if mode else "off" for mode in seen),
        )


@stream_predictions.claim("leaves the training flags alone", weight=1)
def _(trial: Trial) -> None:
    for training, other in ((True, 2), (False, 3)):
        head = nn.Sequential(nn.Linear(8, 4), Turn())
        model = trial.fill(nn.Sequential(nn.Linear(3, 8), Turn(), nn.Tanh(), head).double()).train(training)
        model[other].training = not training
        before = training_flags(model)
        batches = [trial.randn(3, 3) for _ in range(3)]
        with torch.no_grad():
            expected = [model(x) for x in batches]

        def drive(model: nn.Module = model, batches: list[Tensor] = batches) -> list[tuple[Tensor, list[bool]]]:
            return [(y, training_flags(model)) for y in trial.answer(model, iter(batches))]

        show = f"stream_predictions(model in {flag_words([training])} mode, 3 batches)"
        for (got, flags), wanted in zip(trial.run(drive, called=show), expected, strict=True):
            if flags != before:
                raise Missed(
                    "eval", expected=f"training flags {flag_words(before)} in the caller's loop", got=flag_words(flags)
                )
            if not same(trial.tensor(got), wanted):
                raise Missed("eval", expected="outputs in the modes that the model is in", got="other values")
        if training_flags(model) != before:
            raise Missed("eval", expected=f"training flags {flag_words(before)}", got=flag_words(training_flags(model)))


@stream_predictions.claim("lets errors through, with the caller's mode put back", weight=0.5)
def _(trial: Trial) -> None:
    for kind in (Unlucky, RuntimeError):
        model = _plain_model(trial)
        batches = [trial.randn(2, 3)]
        given = _unlucky(batches) if kind is Unlucky else iter([*batches, trial.randn(2, 2), *batches])
        who = "source" if kind is Unlucky else "model"
        seen: list[bool] = []

        def drive(model: nn.Module = model, given: Iterable = given, seen: list[bool] = seen) -> None:
            try:
                for _ in trial.answer(model, given):
                    pass
            finally:
                seen.append(_mode())

        show = f"stream_predictions(model, batches), the {who} raises"
        _expect_error(trial, kind, lambda drive=drive, show=show: trial.run(drive, called=show))
        if seen != [True]:
            raise Missed("only without error", expected="the caller's mode: on", got="off")


# --------------------------------------------------------------------------------------------------- frozen_features

frozen_features = Exercise(
    name="frozen_features",
    points=2,
    hints=(
        "Two relatives stop the recording. What can be done with the result of one of them, and not with that of the "
        "other?",
        "A head multiplies the features by its weights, so backward needs them: they have to be tensors that autograd "
        "may save.",
        "`eval()` writes over the flags of all submodules. Note each one before, and write it back whatever happens.",
    ),
    misconceptions={
        "inference": Misconception(
            "inference_mode is a faster no_grad",
            "Tensors that are made inside it are inference tensors and stay so. A head that has to save one for its "
            "backward raises. A clone made inside the block is one, too.",
            "Print `is_inference()` of what you return.",
        ),
        "recorded": Misconception(
            "eval() turns autograd off",
            "`eval()` changes what dropout and batch norm do. The features still hang on the graph of the backbone, "
            "and the head's backward would run through it.",
            "Print `grad_fn` of what you return.",
        ),
        "x path": Misconception(
            "A frozen backbone has no graph",
            "Operations are recorded as soon as one input is flagged, and that may be `x`. With all parameters frozen "
            "the graph leads through the backbone to `x`.",
            "Call your function with an `x` that requires grad.",
        ),
        "flagged": Misconception(
            "For a head to learn, its input has to require grad",
            "A head learns through its own flagged weights. A flag on the features makes autograd work out a gradient "
            "that nobody asked for.",
            "Lower the flag, and look at the head's `weight.grad` after backward.",
        ),
    }
    | _MODE_MISCONCEPTIONS,
    raises=(("Inference tensors cannot be saved", "inference"),),
    effects=(("grad mode", "grad mode"), ("requires_grad", "frozen")),
)


def _features(trial: Trial, backbone: nn.Module, x: Tensor, show: str = "") -> Tensor:
    return trial.tensor(_call(trial, backbone, x, show=f"frozen_features({show or 'backbone, x'})"))


@frozen_features.claim("gives the backbone's output for `x`", weight=0, gate=True)
def _(trial: Trial) -> None:
    for ending in ((), (nn.Unflatten(1, (2, 3)),)):
        backbone = _plain_model(trial, 6).extend(ending)
        x = trial.randn(trial.integer(1, 6), 3)
        if not same(_features(trial, backbone, x), _in_eval_mode(backbone, x)):
            raise Missed(expected="the backbone's output", got="other values")


@frozen_features.claim("is not flagged and has no graph into the backbone or `x`", gate=True)
def _(trial: Trial) -> None:
    for flagged_x, frozen in ((False, False), (True, False), (True, True)):
        backbone = _plain_model(trial).requires_grad_(not frozen)
        x = trial.randn(4, 3, requires_grad=flagged_x)
        got = _features(trial, backbone, x, f"{'frozen ' * frozen}backbone, {'flagged ' * flagged_x}x")
        if got.grad_fn is not None:
            key = "x path" if flagged_x else "recorded"
            raise Missed(key, expected="no history", got=f"grad_fn {got.grad_fn.name()}")
        if got.requires_grad:
            raise Missed("flagged", expected="requires_grad False", got="requires_grad True")


@frozen_features.claim("can be saved for the backward of a head", weight=2)
def _(trial: Trial) -> None:
    for enabled in (True, False):
        backbone = _plain_model(trial)
        x = trial.randn(4, 3, requires_grad=True)
        with torch.set_grad_enabled(enabled):
            features = _features(trial, backbone, x, "backbone, x" + ("" if enabled else ", called inside no_grad"))
        weight = trial.randn(5, 2, requires_grad=True)
        if features.is_inference():
            raise Missed("inference", expected="an ordinary tensor", got="an inference tensor")
        (features @ weight).sum().backward()
        wanted = _in_eval_mode(backbone, x).sum(0).unsqueeze(1).expand(5, 2)
        if weight.grad is None or not same(weight.grad, wanted):
            raise Missed(expected="the head's gradient", got="another one")
        _expect_grad_mode(trial, "grad mode", enabled)


@frozen_features.claim("is computed in eval mode, and batch norm learns nothing", weight=2, gate=True)
def _(trial: Trial) -> None:
    for training, other in ((False, 1), (True, 1), (True, 2)):
        backbone = _moody_model(trial, training, other)
        x = trial.randn(5, 3)
        before = [buffer.clone() for buffer in backbone.buffers()]
        expected = _in_eval_mode(backbone, x)
        if not same(_features(trial, backbone, x, "backbone in training mode, x"), expected):
            raise Missed("no eval", expected="the values of eval mode", got="other values")
        if not all(torch.equal(*pair) for pair in zip(backbone.buffers(), before, strict=True)):
            raise Missed("no eval", expected="batch norm's statistics as before", got="they have moved")


@frozen_features.claim("puts back every submodule's own training flag, also where the backbone raises")
def _(trial: Trial) -> None:
    for training, other in ((True, 1), (False, 3), (True, 2)):
        backbone = _moody_model(trial, training, other)
        before = training_flags(backbone)
        _features(trial, backbone, trial.randn(4, 3))
        expect_training_flags(backbone, before)
    for training, other in ((True, 1), (False, 3)):
        backbone = _moody_model(trial, training, other)
        before = training_flags(backbone)
        show = "frozen_features(backbone, x of a wrong width)"
        bad = trial.randn(4, 2)
        _expect_error(trial, RuntimeError, lambda b=backbone, bad=bad, show=show: _call(trial, b, bad, show=show))
        expect_training_flags(backbone, before, "only without error")
        _expect_grad_mode(trial, "only without error", True)


EXERCISES = (predicted_modes, evaluate, ema_update, stream_predictions, frozen_features)
