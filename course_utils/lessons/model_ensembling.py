"""Lesson 10, model ensembling with vmap: its exercises, what they claim, and the misconceptions that they recognise."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.base.text import describe
from course_utils.checks.claims import same
from course_utils.checks.exercise import Exercise, Misconception, Missed, Trial
from course_utils.checks.trial import AnswerRaised

# ------------------------------------------------------------------------- what all exercises look at: counted models


class _Tally:
    """Counts forward passes. A copy of a model counts on the same tally as the model."""

    def __init__(self) -> None:
        self.passes = 0

    def __deepcopy__(self, memo: dict) -> "_Tally":
        return self


class _CountedTanh(nn.Module):
    """Stands once in an architecture, so that each of its forward passes is counted, however it is called."""

    def __init__(self, tally: _Tally) -> None:
        super().__init__()
        self.tally = tally

    def forward(self, x: Tensor) -> Tensor:
        self.tally.passes += 1
        return x.tanh()


class _Shift(nn.Module):
    """Adds a buffer that is not in the state dict."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(columns), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift


def _models(trial: Trial, count: int, make: Callable[[_Tally], nn.Sequential]) -> tuple[list[nn.Sequential], _Tally]:
    """Models of one architecture whose parameters, buffers and gradients differ; every other one has a ``.grad``."""
    tally = _Tally()
    models = [trial.fill(make(tally).double()) for _ in range(count)]
    for number, model in enumerate(models):
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.copy_(trial.randn(*buffer.shape).abs() + 0.5)
            else:
                buffer.fill_(trial.integer(1, 50))
        if number % 2:
            for parameter in model.parameters():
                parameter.grad = trial.randn(*parameter.shape)
    return models, tally


def _copies(models: Sequence[nn.Module]) -> list[nn.Module]:
    """Models to hand out: whatever an answer does to them, ours stay what they are."""
    copies = [copy.deepcopy(model) for model in models]
    for model, theirs in zip(models, copies, strict=True):
        for mine, copied in zip(model.parameters(), theirs.parameters(), strict=True):
            copied.grad = None if mine.grad is None else mine.grad.clone()  # a deep copy leaves it out
    return copies


def _plain(columns: int, classes: int) -> Callable[[_Tally], nn.Sequential]:
    def make(tally: _Tally) -> nn.Sequential:
        return nn.Sequential(nn.Linear(columns, 6), _CountedTanh(tally), nn.Linear(6, classes))

    return make


def _normed(columns: int, classes: int) -> Callable[[_Tally], nn.Sequential]:
    def make(tally: _Tally) -> nn.Sequential:
        layers = nn.Linear(columns, 6), nn.BatchNorm1d(6), _CountedTanh(tally), nn.Linear(6, classes)
        return nn.Sequential(*layers).eval()

    return make


def _shifted(columns: int, classes: int) -> Callable[[_Tally], nn.Sequential]:
    def make(tally: _Tally) -> nn.Sequential:
        return nn.Sequential(nn.Linear(columns, 6), _Shift(6), _CountedTanh(tally), nn.Linear(6, classes))

    return make


def _for_images(classes: int) -> Callable[[_Tally], nn.Sequential]:
    """Takes images of shape (2, 4, 4)."""

    def make(tally: _Tally) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(2, 3, 3), _CountedTanh(tally), nn.Flatten(), nn.Linear(12, classes))

    return make


def _outputs(models: Sequence[nn.Module], xs: Sequence[Tensor], tally: _Tally) -> Tensor:
    """Model i on batch i, in a loop. The tally is as before."""
    before = tally.passes
    with torch.no_grad():
        result = torch.stack([model(x) for model, x in zip(models, xs, strict=True)])
    tally.passes = before
    return result


def _with_state_of_first(models: Sequence[nn.Module], *, parameters: bool, buffers: bool) -> list[nn.Module]:
    """Copies of the models in which every one has the first one's parameters, or buffers, or both."""
    copies = [copy.deepcopy(model) for model in models]
    first = models[0]
    with torch.no_grad():
        for model in copies:
            pairs = zip(model.parameters(), first.parameters(), strict=True) if parameters else ()
            more = zip(model.buffers(), first.buffers(), strict=True) if buffers else ()
            for mine, theirs in (*pairs, *more):
                mine.copy_(theirs)
    return copies


def _apart(trial: Trial, low: int, high: int, *others: int) -> int:
    """An integer from ``low`` to ``high`` that is none of the others, so that shapes tell dimensions apart."""
    while True:
        number = trial.integer(low, high)
        if number not in others:
            return number


def _expect_passes(tally: _Tally, expected: int, key: str) -> None:
    if tally.passes != expected:
        key = key if tally.passes > expected else ""
        raise Missed(key, expected=f"forward passes of the architecture: {expected}", got=f"{tally.passes}")


_LOOP = Misconception(
    "To stack the results of a loop is to run the models at once",
    "`torch.stack` joins results. The work was done before it, by as many calls as there are turns, in a list "
    "comprehension too. One pass means that the architecture's `forward` is called once, with a dimension more that it "
    "does not see.",
    "Put a `print` into a model's `forward`, and count the lines.",
)
_FILLED = Misconception(
    "There are gradients only where backward() was called",
    "`backward()` writes into the `.grad` of every flagged leaf that it reaches, and those are the caller's models. "
    "Gradients can also be handed to you as results.",
    "Print `.grad` of a parameter before and after your function.",
)
_MODES = Misconception(
    "The mode is mine to set",
    "The models come in the mode that the caller wants, and the flag lives in the caller's objects. What is computed "
    "from them is computed in that mode.",
    "Print `training` of the given models before and after, and leave out `train()` and `eval()`.",
)
_ONE_MODE = Misconception(
    "Training means train mode",
    "Batch norm in train mode uses the batch's own statistics and writes to its buffers. The models were given in eval "
    "mode: each trained alone would use the statistics that it holds.",
    "Print `training` of the module that you call.",
)
_STATE_DICT = Misconception(
    "state_dict() is everything that a model knows",
    "It leaves out buffers that were registered with `persistent=False`. What is not handed over is taken from the "
    "module that is called, for all models alike.",
    "Compare the keys of `state_dict()` with the names in `named_buffers()`.",
)
_BUFFERS = Misconception(
    "Parameters are all that differs between models",
    "Batch norm keeps its mean and variance in buffers. `functional_call` does not complain about names that are "
    "missing: it uses the called module's own, so every model works with one model's statistics, or with none where "
    "the module is on the meta device.",
    "Give your function two models whose `running_mean` differ, and compare with a loop.",
)
_EFFECTS_ON_MODES = (("in eval mode", "modes"), ("in training mode", "modes"))
_RAISES_MODULES = (("cannot vmap over non-Tensor arguments", "models mapped"),)
_RAISES_META = (
    ("on device meta is not on the expected device", "buffers"),
    ("Tensor on device meta", "buffers"),
    ("Missing key(s)", "buffers"),
)

# ----------------------------------------------------------------------------------------------------- predictions

_PREDICTION_MISCONCEPTIONS = {
    "loop": _LOOP,
    "first model": Misconception(
        "vmap knows which model is meant",
        "A module that is called by itself uses its own weights. Only what goes into the mapped function as an "
        "argument, with a dimension to map, differs from model to model.",
        "Compare two rows of your result. Which weights did each of them use?",
    ),
    "models mapped": Misconception(
        "vmap maps over a list of models",
        "vmap maps tensors. A module is none, so the models' numbers have to come in as tensors, with a dimension of "
        "models, and the module itself stays outside.",
        "Look at what `stack_module_state(models)` gives you.",
    ),
    "averaged": Misconception(
        "An ensemble's prediction is the mean of its members",
        "That is what many do with it next. Here every model's own outputs are asked for, and a mean, of outputs or of "
        "weights, cannot be undone.",
        "Print the shape of what you return.",
    ),
    "order": Misconception(
        "All numbers are there, so the order of dimensions does not matter",
        "The caller indexes: `result[i]` is to be model i's answer to the whole batch.",
        "Compare `result[0]` with `models[0]` called alone. `out_dims` and `stack` say where the new dimension goes.",
    ),
    "scores": Misconception(
        "A prediction is a probability, or a class",
        "The contract asks for what the models give back. Softmax and argmax can follow, and neither can be undone.",
        "Compare with `models[0]` called alone.",
    ),
    "buffers": _BUFFERS,
    "state dict": _STATE_DICT,
    "modes": _MODES,
    "filled": _FILLED,
}


def _prediction_key(got: Tensor, expected: Tensor) -> str:
    """Which misconception a wrong result of model predictions shows, or ""."""
    models, batch, classes = expected.shape
    probabilities = expected.softmax(-1)
    if same(got.transpose(0, 1) if got.dim() > 1 else got, expected) or same(got, expected.flatten(0, 1)):
        return "order"
    if got.dim() > 1 and got.numel() == expected.numel() and got.shape != expected.shape:
        return "order"
    if any(same(got, value) for value in (expected.mean(0), expected.sum(0), probabilities.mean(0))):
        return "averaged"
    if got.shape == (models, batch) or any(same(got, f(expected, -1)) for f in (F.softmax, F.log_softmax)):
        return "scores"
    if got.shape == (batch, classes):
        return "first model" if same(got, expected[0]) else "averaged"
    return ""


def _expect_predictions(
    result: Any, models: Sequence[nn.Module], xs: Sequence[Tensor], tally: _Tally, trial: Trial, key: str = ""
) -> Tensor:
    """The result as a tensor, where it is every model's output for its batch."""
    expected = _outputs(models, xs, tally)
    count, batch, classes = expected.shape
    got = trial.tensor(result, what=f"a tensor of shape ({count}, {batch}, {classes})")
    if got.shape != expected.shape:
        found = key or _prediction_key(got, expected)
        raise Missed(found, expected=f"shape (models {count}, batch {batch}, classes {classes})", got=_shape(got))
    if not same(got, expected):
        one = _outputs(_with_state_of_first(models, parameters=True, buffers=True), xs, tally)
        part = _outputs(_with_state_of_first(models, parameters=True, buffers=False), xs, tally)
        found = "first model" if count > 1 and (same(got, one) or same(got, part)) else ""
        found = found or key or _prediction_key(got, expected)
        wrong = [i for i in range(count) if not same(got[i], expected[i])]
        raise Missed(found, expected="each model's own outputs", got=f"other values for model {_numbers(wrong)}")
    return got


def _shape(tensor: Tensor) -> str:
    return f"shape {tuple(tensor.shape)}"


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _show(name: str, models: Sequence[nn.Module], *rest: object, what: str = "models") -> str:
    return f"{name}({', '.join([f'{len(models)} {what}', *map(describe, rest)])})"


# ------------------------------------------------------------------------------------------------- ensemble_predict

ensemble_predict = Exercise(
    name="ensemble_predict",
    points=2,
    hints=(
        "Write down what differs from model to model, and what is the same for all. What differs needs a leading "
        "dimension of models.",
        "A function of (parameters, buffers, x) that calls one stateless copy of the architecture is what vmap can "
        "map. `stack_module_state` makes the first two.",
        "`in_dims` has one entry for each argument of that function: 0 for what has the dimension of models, and what "
        "for `x`?",
    ),
    misconceptions=_PREDICTION_MISCONCEPTIONS
    | {
        "in_dims": Misconception(
            "vmap sees that x is shared",
            "The default of `in_dims` maps the first dimension of every argument, and for `x` that is the batch. Where "
            "models and rows are not equally many it raises. Where they are, each model silently sees one row.",
            "Say for every argument whether it has a dimension of models.",
        ),
        "whole": Misconception(
            "None in in_dims means: as it comes",
            "It means that every model gets the whole of it. Stacked buffers have a dimension of models, and a layer "
            "wants those of one model.",
            "Say for every argument whether it has a dimension of models.",
        ),
    },
    raises=(
        *_RAISES_META,
        *_RAISES_MODULES,
        ("running_mean should contain", "whole"),
        ("same size in the mapped dimension", "in_dims"),
        ("expected 2D or 3D input", "in_dims"),
    ),
    effects=(*_EFFECTS_ON_MODES, (".grad", "filled")),
)


def _predict(trial: Trial, models: Sequence[nn.Module], x: Tensor, what: str = "models") -> Any:
    return trial.call(_copies(models), x, show=_show("ensemble_predict", models, x, what=what))


@ensemble_predict.claim("gives every model's outputs for the same `x`", weight=0, gate=True)
def _(trial: Trial) -> None:
    for low, high, training in ((3, 5, True), (1, 1, False)):
        count = trial.integer(low, high)
        batch = _apart(trial, 6, 9)
        columns, classes = trial.integer(2, 5), _apart(trial, 2, 6, count, batch)
        models, tally = _models(trial, count, _plain(columns, classes))
        for model in models:
            model.train(training)
        x = trial.randn(batch, columns)
        _expect_predictions(_predict(trial, models, x), models, [x] * count, tally, trial)


@ensemble_predict.claim("runs the architecture's forward once", weight=2, gate=True)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    models, tally = _models(trial, count, _plain(columns, 3))
    _predict(trial, models, trial.randn(4, columns))
    _expect_passes(tally, 1, "loop")


@ensemble_predict.claim("is right where there are as many models as rows", weight=2)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    models, tally = _models(trial, count, _plain(columns, _apart(trial, 2, 6, count)))
    x = trial.randn(count, columns)
    result = _predict(trial, models, x)
    expected = _outputs(models, [x] * count, tally)
    rows = torch.stack([expected[i, i] for i in range(count)])
    one_row_each = isinstance(result, Tensor) and same(result, rows)
    _expect_predictions(result, models, [x] * count, tally, trial, "in_dims" if one_row_each else "")
    _expect_passes(tally, 1, "loop")


@ensemble_predict.claim("uses each model's own buffers", weight=2)
def _(trial: Trial) -> None:
    _expect_own_buffers(trial, _predict, shared_x=True)


@ensemble_predict.claim("takes inputs of more dimensions", weight=0.5)
def _(trial: Trial) -> None:
    count = trial.integer(2, 4)
    models, tally = _models(trial, count, _for_images(_apart(trial, 2, 6, count)))
    x = trial.randn(trial.integer(5, 7), 2, 4, 4)
    _expect_predictions(_predict(trial, models, x, "conv nets"), models, [x] * count, tally, trial)


def _expect_own_buffers(trial: Trial, call: Callable[..., Any], *, shared_x: bool) -> None:
    """Batch norm in eval mode with statistics that differ, then a buffer that the state dict leaves out."""
    for make, what, key in ((_normed, "models with batch norm in eval mode", "buffers"), (_shifted, "models", "")):
        count, columns = trial.integer(3, 4), trial.integer(2, 5)
        models, tally = _models(trial, count, make(columns, _apart(trial, 2, 6, count)))
        x = trial.randn(5, columns) if shared_x else trial.randn(count, 5, columns)
        xs = [x] * count if shared_x else list(x)
        got = trial.tensor(call(trial, models, x, what))
        expected = _outputs(models, xs, tally)
        if same(got, expected):
            continue
        trained = [copy.deepcopy(model).train() for model in models]
        one_state = _outputs(_with_state_of_first(models, parameters=False, buffers=True), xs, tally)
        if same(got, _outputs(trained, xs, tally)):
            key = key and "modes"
        elif not key:
            key = "state dict" if same(got, one_state) else "buffers"
        told = "the outputs with each model's own buffers"
        raise Missed(key, expected=told, got="other values" if got.shape == expected.shape else _shape(got))


# -------------------------------------------------------------------------------------------- ensemble_predict_each

ensemble_predict_each = Exercise(
    name="ensemble_predict_each",
    points=2,
    hints=(
        "What has changed from the exercise before? Which argument now differs from model to model?",
        "Every argument has a dimension of models. Which entry of `in_dims` changes?",
        "A list of tensors is not a tensor: vmap looks inside it and maps each item's first dimension, the rows. Make "
        "one tensor of it first.",
    ),
    misconceptions=_PREDICTION_MISCONCEPTIONS
    | {
        "all on all": Misconception(
            "What is not mapped does not matter",
            "What is not mapped, every model gets whole: None in `in_dims`, a variable from outside, a `cat` of all "
            "batches. Each model then runs on the batches of all.",
            "Print the shape that the architecture's forward sees, and say what each dimension counts.",
        ),
        "first batch": Misconception(
            "One batch stands for all",
            "Model i is to see the batch `xs[i]`, and no two of them are alike.",
            "Compare your `result[1]` with `models[1](xs[1])`.",
        ),
        "list": Misconception(
            "A list of tensors is a tensor with one dimension more",
            "To vmap a list is a container: it looks inside and maps the first dimension of every item, which is the "
            "batch. Nothing says that item i belongs to model i.",
            "Call your function with `list(xs)` in place of `xs`.",
        ),
        "rows": Misconception(
            "The dimension of models is found by its size",
            "`in_dims` counts places, not sizes. With as many rows as models, a wrong place goes unnoticed, and model "
            "i sees row i of every batch.",
            "Say which dimension of `xs` counts the models.",
        ),
    },
    raises=(
        *_RAISES_META,
        *_RAISES_MODULES,
        ("running_mean should contain", "all on all"),
        ("same size in the mapped dimension", "rows"),
    ),
    effects=(*_EFFECTS_ON_MODES, (".grad", "filled"), ("contents of", "list")),
)


def _predict_each(trial: Trial, models: Sequence[nn.Module], xs: Any, what: str = "models") -> Any:
    shown = "list of tensors" if isinstance(xs, list) else describe(xs)
    return trial.call(_copies(models), xs, show=f"ensemble_predict_each({len(models)} {what}, {shown})")


def _each_key(result: Any, models: Sequence[nn.Module], xs: Tensor, tally: _Tally) -> str:
    if not isinstance(result, Tensor):
        return ""
    count, batch = len(models), xs.shape[1]
    if (
        result.shape[:1] == (count,)
        and result.numel() == count * _outputs(models, list(xs), tally).numel()
        and count > 1
    ):
        return "all on all"
    if count > 1 and same(result, _outputs(models, [xs[0]] * count, tally)):
        return "first batch"
    if count == batch and same(result, _outputs(models, list(xs.transpose(0, 1)), tally)):
        return "rows"
    return ""


@ensemble_predict_each.claim("gives model i's outputs for batch i", weight=0, gate=True)
def _(trial: Trial) -> None:
    for low, high in ((3, 5), (1, 1)):
        count = trial.integer(low, high)
        batch = _apart(trial, 6, 9)
        columns, classes = trial.integer(2, 5), _apart(trial, 2, 6, count, batch)
        models, tally = _models(trial, count, _plain(columns, classes))
        xs = trial.randn(count, batch, columns)
        result = _predict_each(trial, models, xs)
        _expect_predictions(result, models, list(xs), tally, trial, _each_key(result, models, xs, tally))


@ensemble_predict_each.claim("runs the architecture's forward once", weight=2, gate=True)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    models, tally = _models(trial, count, _plain(columns, 3))
    _predict_each(trial, models, trial.randn(count, 4, columns))
    _expect_passes(tally, 1, "loop")


@ensemble_predict_each.claim("is right where there are as many models as rows", weight=1)
def _(trial: Trial) -> None:
    columns, count = trial.integer(2, 5), trial.integer(3, 6)
    models, tally = _models(trial, count, _plain(columns, _apart(trial, 2, 6, count)))
    xs = trial.randn(count, count, columns)
    result = _predict_each(trial, models, xs)
    _expect_predictions(result, models, list(xs), tally, trial, _each_key(result, models, xs, tally))
    _expect_passes(tally, 1, "loop")


@ensemble_predict_each.claim("takes a list of batches, too", weight=1.5)
def _(trial: Trial) -> None:
    for batch_is_count in (False, True):
        columns, count = trial.integer(2, 5), trial.integer(3, 5)
        models, tally = _models(trial, count, _plain(columns, _apart(trial, 2, 6, count)))
        xs = trial.randn(count, count if batch_is_count else _apart(trial, 2, 8, count), columns)
        try:
            result = _predict_each(trial, models, [x.clone() for x in xs])
        except AnswerRaised as raised:
            error = f"{type(raised.error).__name__}: {raised.error}".split("\n")[0]
            raise Missed("list", expected="the same as for the stacked batches", raised=error[:160]) from raised
        _expect_predictions(result, models, list(xs), tally, trial, "list")
        _expect_passes(tally, 1, "loop")


@ensemble_predict_each.claim("uses each model's own buffers", weight=1.5)
def _(trial: Trial) -> None:
    _expect_own_buffers(trial, _predict_each, shared_x=False)


# --------------------------------------------------------------------------------------------- per_sample_gradients

per_sample_gradients = Exercise(
    name="per_sample_gradients",
    points=3,
    hints=(
        "Write the loss of one sample as a function whose first argument is a dict of parameters. `torch.func.grad` "
        "makes a function of it that returns the gradient.",
        "That function is mapped over samples. The parameters are the same for all of them: which entry of `in_dims` "
        "says so?",
        "vmap takes the dimension of samples away. The model and the loss want a batch, so give it back inside, with "
        "the size 1.",
    ),
    misconceptions={
        "loop": _LOOP,
        "summed": Misconception(
            "backward() keeps the samples apart",
            "It adds the gradients of all samples into one tensor of the parameter's shape. From a sum the terms "
            "cannot be had back.",
            "Compare the shape of what you return for a weight with the weight's own.",
        ),
        "scaled": Misconception(
            "The gradient of the mean, sample by sample, is the sample's gradient",
            "A mean over the batch divides every sample's share by the size of the batch. Here each sample has a loss "
            "of its own.",
            "Call your function with the same sample once and twice. Does its gradient change?",
        ),
        "not named": Misconception(
            "In the right order, gradients need no names",
            "The contract asks for a dict by the parameter's name. Callers look up `'0.weight'`.",
            "Print the type of what you return, and its keys.",
        ),
        "own weights": Misconception(
            "grad finds the parameters that the model uses",
            "`torch.func.grad` differentiates with respect to the first argument. A model called as `model(x)` uses "
            "its own parameters: then the gradient is that of `x`, or zero without a word.",
            "What is the first argument of your loss, and where in it does that go?",
        ),
        "unbatched": Misconception(
            "A sample is as good as a batch of one",
            "Inside vmap the dimension of samples is gone. Batch norm, `Flatten` and many losses take the first "
            "dimension that is left for the batch: they raise, or compute something else.",
            "Print the shapes inside your loss function.",
        ),
        "whole batch": Misconception(
            "The loss of a batch is the losses of its samples",
            "`loss_fn` was asked with more than one sample at a time. What it does with a batch is its own affair: "
            "mean, sum, or a division by the length.",
            "Print the shapes that `loss_fn` is called with.",
        ),
        "mapped parameters": Misconception(
            "Every argument is mapped over samples",
            "The parameters have no dimension of samples. With the default of `in_dims` vmap slices them all the same, "
            "and raises where the sizes differ.",
            "Say for each argument whether it differs from sample to sample.",
        ),
        "backward inside": Misconception(
            "backward() can be called inside vmap",
            "Inside a transform there is no `.grad` to fill, and torch refuses. Gradients come from a transform of "
            "their own, as a result.",
            "Look for a function in `torch.func` that turns a loss into its gradient.",
        ),
        "filled": _FILLED,
        "modes": _MODES,
        "buffers": _BUFFERS,
    },
    raises=(
        *_RAISES_META,
        ("called inside a functorch transform", "backward inside"),
        ("inside a functorch transform", "backward inside"),
        ("that was called inside of a functorch", "backward inside"),
        ("does not require grad and does not have a grad_fn", "backward inside"),
        ("same size in the mapped dimension", "mapped parameters"),
        ("expected 2D or 3D input", "unbatched"),
        ("Expected input batch_size (1)", "whole batch"),
        ("Expected input batch_size", "unbatched"),
        ("Dimension out of range", "unbatched"),
    ),
    effects=(*_EFFECTS_ON_MODES, (".grad", "filled")),
)


def _gradients_alone(
    model: nn.Module, loss_fn: Callable, x: Tensor, y: Tensor, tally: _Tally | None = None
) -> dict[str, Tensor]:
    """One backward pass a sample. The tally is as before."""
    before = tally.passes if tally else 0
    names, parameters = zip(*model.named_parameters(), strict=True)
    rows = []
    for i in range(len(x)):
        rows.append(torch.autograd.grad(loss_fn(model(x[i : i + 1]), y[i : i + 1]), parameters))
    if tally:
        tally.passes = before
    return {name: torch.stack(columns) for name, columns in zip(names, zip(*rows, strict=True), strict=True)}


def _expect_named(
    result: Any, expected: Mapping[str, Tensor], key_of: Callable[[dict[str, Tensor]], str], not_named: str = ""
) -> dict[str, Tensor]:
    """The result as a dict of tensors, where names, shapes and values are as expected."""
    if result is None:
        raise Missed("no return value", expected="a dict of tensors", got="None")
    if isinstance(result, Tensor) and not_named:
        raise Missed("own weights", expected="a dict of tensors by parameter name", got=_shape(result))
    if not isinstance(result, Mapping):
        raise Missed(not_named, expected="a dict of tensors by parameter name", got=f"{type(result).__name__}")
    if set(result) != set(expected):
        raise Missed(not_named, expected="names " + ", ".join(expected), got=describe(list(result), 120))
    got = {}
    for name in expected:
        tensor = result[name]
        if not isinstance(tensor, Tensor):
            raise Missed("not a tensor", expected=f"a tensor for {name}", got=describe(tensor, 60))
        got[name] = tensor
    wrong_shape = next((name for name in expected if got[name].shape != expected[name].shape), None)
    if wrong_shape is not None:
        wanted, found = tuple(expected[wrong_shape].shape), tuple(got[wrong_shape].shape)
        raise Missed(key_of(got), expected=f"shape {wanted} for {wrong_shape}", got=f"shape {found}")
    wrong = next((name for name in expected if not same(got[name], expected[name])), None)
    if wrong is not None:
        raise Missed(key_of(got), expected=f"{wrong}: {_first(expected[wrong])}", got=_first(got[wrong]))
    return got


def _first(tensor: Tensor) -> str:
    values = tensor.detach().flatten()[:3].tolist()
    return "begins with " + ", ".join(f"{value:.4g}" for value in values)


def _gradient_key(expected: Mapping[str, Tensor]) -> Callable[[dict[str, Tensor]], str]:
    def key(got: dict[str, Tensor]) -> str:
        batch = len(next(iter(expected.values())))
        if all(got[name].shape == value.shape[1:] for name, value in expected.items()):
            return "summed"
        if all(not got[name].any() for name in expected):
            return "own weights"
        if all(same(got[name] * batch, value) for name, value in expected.items()):
            return "scaled"
        if batch > 1 and all(same(got[name], value.sum(0).expand_as(value)) for name, value in expected.items()):
            return "summed"
        if batch > 1 and all(same(got[name], value.mean(0).expand_as(value)) for name, value in expected.items()):
            return "summed"
        return ""

    return key


def _gradients(
    trial: Trial, model: nn.Module, loss_fn: Callable, x: Tensor, y: Tensor, loss: str = "cross_entropy"
) -> Any:
    show = f"per_sample_gradients(model, {loss}, x {describe(x)}, y {describe(y)})"
    return trial.call(model, loss_fn, x, y, show=show)


def _labels(trial: Trial, batch: int, classes: int) -> Tensor:
    """Labels, each different from its neighbours as far as classes allow."""
    return (torch.arange(batch) + trial.integer(0, classes - 1)) % classes


@per_sample_gradients.claim("gives, by parameter name, the gradient of each sample's own loss", weight=0, gate=True)
def _(trial: Trial) -> None:
    for batch in (trial.integer(4, 7), 1):
        columns, classes = trial.integer(2, 4), trial.integer(2, 3)
        (_, model), tally = _models(trial, 2, _plain(columns, classes))
        x, y = trial.randn(batch, columns), _labels(trial, batch, classes)
        expected = _gradients_alone(model, F.cross_entropy, x, y, tally)
        result = _gradients(trial, model, F.cross_entropy, x, y)
        _expect_named(result, expected, _gradient_key(expected), "not named")


@per_sample_gradients.claim("runs the architecture's forward once", weight=2, gate=True)
def _(trial: Trial) -> None:
    columns, batch = trial.integer(2, 4), trial.integer(4, 7)
    (model, _), tally = _models(trial, 2, _plain(columns, 3))
    _gradients(trial, model, F.cross_entropy, trial.randn(batch, columns), _labels(trial, batch, 3))
    _expect_passes(tally, 1, "loop")


@per_sample_gradients.claim("asks `loss_fn` with a batch of one", weight=2)
def _(trial: Trial) -> None:
    batch, classes = trial.integer(3, 6), trial.integer(2, 3)
    (model, _), tally = _models(trial, 2, _for_images(classes))
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
        shapes.append((tuple(outputs.shape), tuple(targets.shape)))
        return (outputs - targets).square().sum(dim=-1).sum() / len(targets)

    x, y = trial.randn(batch, 2, 4, 4), trial.randn(batch, classes)
    expected = _gradients_alone(model, squared_error, x, y, tally)
    shapes.clear()
    try:
        result = _gradients(trial, model, squared_error, x, y, "squared_error")
    except AnswerRaised as raised:
        error = f"{type(raised.error).__name__}: {raised.error}".split("\n")[0]
        key = "unbatched" if "mapped dimension" not in error else "mapped parameters"
        raise Missed(key, expected=f"outputs (1, {classes}), targets (1, {classes})", raised=error[:160]) from raised
    wanted = ((1, classes), (1, classes))
    for outputs, targets in shapes:
        if (outputs, targets) != wanted:
            few = len(outputs) < 2 or len(targets) < 2
            got = f"outputs {outputs}, targets {targets}"
            key = "unbatched" if few else "whole batch"
            raise Missed(key, expected=f"outputs {wanted[0]}, targets {wanted[1]}", got=got)
    _expect_named(result, expected, _gradient_key(expected), "not named")


@per_sample_gradients.claim("is right for a model with batch norm in eval mode", weight=1)
def _(trial: Trial) -> None:
    columns, classes, batch = trial.integer(2, 4), trial.integer(2, 3), trial.integer(3, 5)
    (model, _), tally = _models(trial, 2, _normed(columns, classes))
    x, y = trial.randn(batch, columns), _labels(trial, batch, classes)
    expected = _gradients_alone(model, F.cross_entropy, x, y, tally)
    result = _gradients(trial, model, F.cross_entropy, x, y)
    _expect_named(result, expected, _gradient_key(expected), "not named")
    _expect_passes(tally, 1, "loop")


# --------------------------------------------------------------------------------------------------- train_ensemble

train_ensemble = Exercise(
    name="train_ensemble",
    points=3,
    hints=(
        "The stacked parameters are what is trained. In which dict, and in which memory, does a step write?",
        "Either one loss whose gradient for each model is the gradient that it would have alone, or `torch.func.grad` "
        "of one model's loss, mapped over models.",
        "Mean over the batch, sum over the models. Then one step: parameter minus lr times gradient, for each name, "
        "and the next pass starts from there.",
    ),
    misconceptions={
        "loop": _LOOP,
        "mean over models": Misconception(
            "The mean of the models' losses is the natural loss",
            "It divides every model's gradient by the number of models: each learns as if `lr` were that much smaller. "
            "`cross_entropy` over all models' rows at once is such a mean, too.",
            "Compare the gradient of one slice with that of the model trained alone.",
        ),
        "sum over rows": Misconception(
            "A sum over everything keeps the models independent and changes nothing else",
            "The models stay independent, but the loss asked for is a mean over the batch. A sum over its rows makes "
            "each step as many times longer.",
            "Work out by which factor your first step is too long.",
        ),
        "joint": Misconception(
            "An ensemble is trained on its joint prediction",
            "Then each model's gradient depends on what the others answer. The contract asks for models that come out "
            "as if each had been trained alone.",
            "Change one model's weights, and look whether another one's step changes.",
        ),
        "uphill": Misconception(
            "A step adds the gradient",
            "The gradient points to where the loss grows. A step goes the other way.",
            "Print the loss before and after one step.",
        ),
        "optimizer": Misconception(
            "Any optimizer comes to the same",
            "Plain SGD moves a parameter by `lr` times its gradient and remembers nothing. Momentum, weight decay and "
            "Adam move it otherwise.",
            "Do one step of the contract's rule by hand, and compare.",
        ),
        "accumulated": Misconception(
            "backward() gives this step's gradient",
            "It adds to what `.grad` holds. Without clearing, each step uses the sum of all gradients so far.",
            "Print the gradient's norm before and after the second backward.",
        ),
        "same start": Misconception(
            "The gradient of the start serves all steps",
            "After a step the parameters are others, and so is the gradient. Every step needs a pass of its own, with "
            "the parameters of that moment.",
            "Print the loss at every step.",
        ),
        "never moved": Misconception(
            "A step moves whatever bears the name",
            "A step has to end in the tensors that you return. An optimizer over the models' own parameters finds no "
            "gradient there, since the stacked ones are other tensors; and new values that only a variable holds are "
            "gone at the next turn.",
            "Print one row of what you return before and after a step.",
        ),
        "zero steps": Misconception(
            "Training takes at least one step",
            "With `steps=0` nothing is to be trained, and the stacked parameters are asked for as they are.",
            "Call your function with `steps=0` and with `steps=1`.",
        ),
        "history": Misconception(
            "What training gives back is data",
            "The stacked parameters are flagged leaves, and what is computed from them has a history. Whoever uses the "
            "result goes on recording.",
            "Print `requires_grad` and `grad_fn` of what you return.",
        ),
        "with buffers": Misconception(
            "Buffers are trained, too",
            "No gradient reaches them. The contract asks for the stacked parameters alone.",
            "Compare the keys that you return with the names in `named_parameters()`.",
        ),
        "factor": Misconception(
            "A factor in the loss does no harm",
            "In plain SGD it is a factor in the step. Here every step goes in the right direction and has the wrong "
            "length: look for a division, or for clipping by a norm that all models share.",
            "Divide your step by `lr` and by the gradient of one model alone.",
        ),
        "softmax": Misconception(
            "cross_entropy wants probabilities",
            "It takes scores and applies the softmax itself. Applied twice, the gradient is another one, and a small "
            "one.",
            "Compare with `cross_entropy(model(x), y)` for one model.",
        ),
        "one set": Misconception(
            "One set of weights comes out of an ensemble",
            "The models stay many: every tensor keeps its leading dimension of models. A mean of weights, or one "
            "model's, is another thing.",
            "Compare the shape of what you return with that of the stacked parameters.",
        ),
        "one model": Misconception(
            "The models start alike",
            "Each has weights of its own to start from, and trained alone, each ends elsewhere.",
            "Compare two rows of a stacked weight before the first step.",
        ),
        "written back": Misconception(
            "Training an ensemble trains its models",
            "The stacked parameters are new tensors. The models stay what they were, and the caller counts on it.",
            "Print a weight of `models[0]` before and after.",
        ),
        "backward inside": Misconception(
            "backward() can be called inside vmap",
            "Inside a transform there is no `.grad` to fill, and torch refuses. Either backward runs outside, on one "
            "number, or the gradient is a transform itself.",
            "Look for a function in `torch.func` that turns a loss into its gradient.",
        ),
        "in_dims": Misconception(
            "vmap sees that x and y are shared",
            "The default of `in_dims` maps the first dimension of every argument, and for the data that is the batch. "
            "Where models and rows are equally many, each model silently learns from one row.",
            "Say for every argument whether it has a dimension of models.",
        ),
        "models mapped": _PREDICTION_MISCONCEPTIONS["models mapped"],
        "buffers": _BUFFERS,
        "train mode": _ONE_MODE,
        "modes": _MODES,
        "filled": _FILLED,
    },
    raises=(
        *_RAISES_META,
        *_RAISES_MODULES,
        ("inside a functorch transform", "backward inside"),
        ("inside of a functorch", "backward inside"),
        ("same size in the mapped dimension", "in_dims"),
        ("expected 2D or 3D input", "in_dims"),
        ("updated in place, were not batched", "train mode"),
    ),
    effects=(*_EFFECTS_ON_MODES, ("edited", "written back"), (".grad", "filled")),
)

_Loss = Callable[[Tensor, Tensor], Tensor]


def _alone(
    models: Sequence[nn.Module],
    data: Sequence[tuple[Tensor, Tensor]],
    lr: float,
    steps: int,
    *,
    momentum: float = 0.0,
    dampening: float = 0.0,
    loss_fn: _Loss = F.cross_entropy,
) -> dict[str, Tensor]:
    """Every model trained alone, on copies; their parameters, stacked."""
    trained = []
    for model, (x, y) in zip(models, data, strict=True):
        mine = copy.deepcopy(model)
        names, parameters = zip(*mine.named_parameters(), strict=True)
        velocity = [torch.zeros_like(parameter) for parameter in parameters]
        for _ in range(steps):
            gradients = torch.autograd.grad(loss_fn(mine(x), y), parameters)
            with torch.no_grad():
                for parameter, gradient, speed in zip(parameters, gradients, velocity, strict=True):
                    speed.mul_(momentum).add_(gradient, alpha=1 - dampening)
                    parameter.sub_(lr * speed)
        trained.append({name: parameter.detach() for name, parameter in zip(names, parameters, strict=True)})
    return {name: torch.stack([row[name] for row in trained]) for name in trained[0]}


def _all_same(got: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> bool:
    return all(name in got and same(got[name], value) for name, value in expected.items())


def _is_multiple(these: Mapping[str, Tensor], those: Mapping[str, Tensor]) -> bool:
    """Whether all these tensors are those, times one number above or below 0."""
    if any(tensor.shape != those[name].shape for name, tensor in these.items()):
        return False
    one = torch.cat([tensor.detach().double().flatten() for tensor in these.values()])
    other = torch.cat([those[name].double().flatten() for name in these])
    factor = one.dot(other) / other.dot(other)
    return bool(factor.abs() > 1e-6) and torch.allclose(one, factor * other, rtol=1e-4, atol=1e-9)


def _joint_step(models: Sequence[nn.Module], x: Tensor, y: Tensor, lr: float, factor: float) -> dict[str, Tensor]:
    """One step down the loss of the models' mean outputs."""
    copies = [copy.deepcopy(model) for model in models]
    names = [name for name, _ in copies[0].named_parameters()]
    loss = factor * F.cross_entropy(torch.stack([model(x) for model in copies]).mean(0), y)
    gradients = iter(torch.autograd.grad(loss, [p for model in copies for p in model.parameters()]))
    rows = [[p.detach() - lr * next(gradients) for p in model.parameters()] for model in copies]
    return {name: torch.stack(columns) for name, columns in zip(names, zip(*rows, strict=True), strict=True)}


def _training_key(
    models: Sequence[nn.Module], x: Tensor, y: Tensor, lr: float, steps: int, tally: _Tally
) -> Callable[[dict[str, Tensor]], str]:
    """Finds the misconception behind wrong parameters by training with it."""

    def summed(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="sum")

    def of_probabilities(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.softmax(-1), targets)

    def key(got: dict[str, Tensor]) -> str:
        before, count, data = tally.passes, len(models), [(x, y)] * len(models)
        start, right = _alone(models, data, lr, 0), _alone(models, data, lr, steps)
        try:
            if any(value.shape == start[name].shape[1:] for name, value in got.items()):
                return "one set"
            if _all_same(got, _alone([models[0]] * count, data, lr, steps)) and count > 1:
                return "one model"
            if _all_same(got, start):
                return "never moved"
            for more in (-1, 1):
                if _all_same(got, _alone(models, data, lr, steps + more)):
                    return "zero steps"
            attempts: list[tuple[str, dict[str, Any]]] = [
                ("mean over models", {"lr": lr / count}),
                ("sum over rows", {"lr": lr, "loss_fn": summed}),
                ("sum over rows", {"lr": lr / count, "loss_fn": summed}),
                ("uphill", {"lr": -lr}),
                ("softmax", {"lr": lr, "loss_fn": of_probabilities}),
                ("accumulated", {"lr": lr, "momentum": 1.0}),
                ("accumulated", {"lr": lr / count, "momentum": 1.0}),
                ("optimizer", {"lr": lr, "momentum": 0.9}),
                ("optimizer", {"lr": lr, "momentum": 0.9, "dampening": 0.9}),
            ]
            for name, options in attempts:
                if _all_same(got, _alone(models, data, options.pop("lr"), steps, **options)):
                    return name
            if steps > 1 and _all_same(got, _alone(models, data, lr * steps, 1)):
                return "same start"
            if steps > 1 and _all_same(got, _alone(models, data, lr, 1)):
                return "same start"
            if steps == 1 and any(_all_same(got, _joint_step(models, x, y, lr, f)) for f in (1.0, float(count))):
                return "joint"
            # Adam's first step moves every parameter by lr, whatever its gradient.
            moved = torch.cat([(got[name].detach() - value).abs().flatten() for name, value in start.items()])
            if steps == 1 and (moved.double() - lr).abs().median() < 0.01 * lr:
                return "optimizer"
            if steps == 1 and _is_multiple({name: got[name] - value for name, value in right.items()}, start):
                return "optimizer"  # weight decay
            taken = {name: got[name] - value for name, value in start.items()}
            if steps == 1 and _is_multiple(taken, {name: value - start[name] for name, value in right.items()}):
                return "factor"
            rows = [(x[i : i + 1], y[i : i + 1]) for i in range(min(count, len(x)))]
            if len(x) == count and _all_same(got, _alone(models, rows, lr, steps)):
                return "in_dims"
            frozen_state = _with_state_of_first(models, parameters=False, buffers=True)
            if any(True for _ in models[0].buffers()):
                if _all_same(got, _alone(frozen_state, data, lr, steps)):
                    return "buffers"
                if _all_same(got, _alone([copy.deepcopy(model).train() for model in models], data, lr, steps)):
                    return "train mode"
            return ""
        finally:
            tally.passes = before

    return key


def _train(trial: Trial, models: Sequence[nn.Module], x: Tensor, y: Tensor, lr: float, steps: int, what: str) -> Any:
    show = f"train_ensemble({len(models)} {what}, x {describe(x)}, y {describe(y)}, lr={lr}, steps={steps})"
    return trial.call(_copies(models), x, y, lr, steps, show=show)


def _expect_trained(
    trial: Trial,
    make: Callable[[int, int], Callable[[_Tally], nn.Sequential]],
    *,
    steps: int,
    batch: int = 0,
    what: str = "models",
) -> tuple[dict[str, Tensor], _Tally]:
    """Trains models of that kind by the answer and alone; the result, and how many passes the answer ran."""
    columns, count = trial.integer(2, 4), trial.integer(3, 5)
    models, tally = _models(trial, count, make(columns, trial.integer(2, 3)))
    classes = models[0][-1].out_features
    batch = batch or _apart(trial, 6, 9)
    batch = count if batch < 0 else batch
    x, y = trial.randn(batch, columns), _labels(trial, batch, classes)
    lr = trial.integer(21, 79) / 100
    expected = _alone(models, [(x, y)] * count, lr, steps)
    tally.passes = 0
    result = _train(trial, models, x, y, lr, steps, what)
    if isinstance(result, Mapping) and set(result) > set(expected):
        raise Missed("with buffers", expected="names " + ", ".join(expected), got=describe(list(result), 120))
    got = _expect_named(result, expected, _training_key(models, x, y, lr, steps, tally))
    return got, tally


@train_ensemble.claim("after one step, has each model where it would be alone", weight=0, gate=True)
def _(trial: Trial) -> None:
    _expect_trained(trial, _plain, steps=1)


@train_ensemble.claim("runs the architecture's forward once a step", weight=2, gate=True)
def _(trial: Trial) -> None:
    steps, columns, count = trial.integer(2, 4), trial.integer(2, 4), trial.integer(3, 5)
    models, tally = _models(trial, count, _plain(columns, 3))
    x, y = trial.randn(6, columns), _labels(trial, 6, 3)
    _train(trial, models, x, y, trial.integer(21, 79) / 100, steps, "models")
    if tally.passes != steps:
        key = "same start" if tally.passes < steps else "loop" if tally.passes > steps + 1 else ""
        raise Missed(key, expected=f"forward passes for {steps} steps: {steps}", got=f"{tally.passes}")


@train_ensemble.claim("after several steps, has each model where it would be alone", weight=2)
def _(trial: Trial) -> None:
    _expect_trained(trial, _plain, steps=trial.integer(3, 5))


@train_ensemble.claim("after 0 steps, gives the stacked parameters as they are", weight=1)
def _(trial: Trial) -> None:
    try:
        _expect_trained(trial, _plain, steps=0)
    except AnswerRaised as raised:
        error = f"{type(raised.error).__name__}: {raised.error}".split("\n")[0]
        raise Missed("zero steps", expected="the stacked parameters", raised=error[:160]) from raised


@train_ensemble.claim("gives detached tensors", weight=1)
def _(trial: Trial) -> None:
    for steps in (2, 0):
        got, _tally = _expect_trained(trial, _plain, steps=steps)
        for name, value in got.items():
            if value.grad_fn is not None:
                told = f"grad_fn {value.grad_fn.name()} for {name}"
                raise Missed("history", expected="no history", got=told)
            if value.requires_grad:
                raise Missed("history", expected="requires_grad False", got=f"requires_grad True for {name}")


@train_ensemble.claim("is right where there are as many models as rows", weight=1)
def _(trial: Trial) -> None:
    _expect_trained(trial, _plain, steps=2, batch=-1)


@train_ensemble.claim("is right for models with batch norm in eval mode, each with its own statistics", weight=2)
def _(trial: Trial) -> None:
    steps = trial.integer(1, 2)
    _, tally = _expect_trained(trial, _normed, steps=steps, what="models with batch norm in eval mode")
    _expect_passes(tally, steps, "loop")


EXERCISES = (ensemble_predict, ensemble_predict_each, per_sample_gradients, train_ensemble)
