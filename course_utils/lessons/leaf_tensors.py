"""Lesson 02, leaf and non-leaf tensors: its exercises, what they claim, and the misconceptions that they recognise."""

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import describe
from course_utils.checks.exercise import Exercise, Misconception, Missed, Predict, Trial
from course_utils.checks.trial import AnswerRaised

# -------------------------------------------------------------------------------------------------- predicted_leaves


def _leaves(trial: Trial) -> dict[str, bool]:
    plain = torch.ones(3)
    flagged = torch.ones(3, requires_grad=True)
    computed = flagged * 2
    with torch.no_grad():
        under_no_grad = flagged * 2
    tensors = {
        "plain": plain,
        "flagged": flagged,
        "computed": computed,
        "detached": computed.detach(),
        "cast": flagged.to(torch.float64),
        "parameter": nn.Parameter(torch.ones(3)),
        "under_no_grad": under_no_grad,
        "view": flagged[:1],
    }
    return {name: tensor.is_leaf for name, tensor in tensors.items()}


predicted_leaves = Predict(
    name="predicted_leaves",
    points=2,
    truth=_leaves,
    keys=("plain", "flagged", "computed", "detached", "cast", "parameter", "under_no_grad", "view"),
    hints=(
        "Ask of each tensor: is there a recorded operation that made it? Flags alone do not decide it.",
        "Three questions help. Was anything computed at all? Did an input require grad? Was recording switched on?",
        "A new dtype is a computation, and so is taking a slice. A result that was never recorded, or was cut free, "
        "has no operation behind it.",
    ),
    misconceptions={
        "unflagged": Misconception(
            "Only a tensor that requires grad can be a leaf",
            "No recorded operation made this tensor, so the graph would end here. By PyTorch's convention every "
            "tensor without history is a leaf, flagged or not.",
            "Print `plain.grad_fn`.",
        ),
        "flagged": Misconception(
            "requires_grad puts a tensor inside the graph",
            "The flag says that gradients are wanted here. Nothing computed this tensor, so it stands where the graph "
            "begins.",
            "Print `flagged.grad_fn`, and then that of `flagged * 2`.",
        ),
        "computed": Misconception(
            "Every tensor that has a name of its own is a leaf",
            "Names are Python's; the graph does not know them. The multiplication was recorded, so this tensor has a "
            "history.",
            "Print `computed.grad_fn`.",
        ),
        "detached": Misconception(
            "A detached tensor is still computed, so it is no leaf",
            "What counts is the record, and `detach` returns a tensor that has none.",
            "Print `grad_fn` before and after `detach()`.",
        ),
        "cast": Misconception(
            "x.to(...) keeps my tensor a leaf",
            "A change of dtype or device is an operation like any other: it is recorded, and what it returns is "
            "another tensor, with a history.",
            "Print `flagged.to(torch.float64).grad_fn`.",
        ),
        "parameter": Misconception(
            "A parameter belongs to a model, so it is no leaf",
            "Parameters are what a graph ends in. `nn.Parameter` makes a new leaf out of whatever it is given.",
            "Print `grad_fn` of any parameter of a `nn.Linear`.",
        ),
        "under no_grad": Misconception(
            "Whatever is computed is no leaf",
            "Under `no_grad` the operation runs and is not recorded. Its result has no history, as if you had typed "
            "the numbers in.",
            "Compute the same product with and without `no_grad`, and print `grad_fn` of both.",
        ),
        "view": Misconception(
            "A part of a leaf is a leaf",
            "Slicing is recorded, so that the gradient finds its way back to the whole. Each slice is a new tensor "
            "with a history.",
            "Print `flagged[:1].grad_fn`.",
        ),
    },
    readings={
        ("plain", False): "unflagged",
        ("flagged", False): "flagged",
        ("computed", True): "computed",
        ("detached", False): "detached",
        ("cast", True): "cast",
        ("parameter", False): "parameter",
        ("under_no_grad", False): "under no_grad",
        ("view", True): "view",
    },
)

# ------------------------------------------------------------------------------------------------------- make_weight

make_weight = Exercise(
    name="make_weight",
    points=2,
    hints=(
        "Two things are asked for: scaled numbers, and a flag. What happens between them decides what you return.",
        "Whatever you compute from a flagged tensor is recorded. Is there an order in which nothing needs recording?",
        "Have the numbers ready before anybody asks for gradients. Then look at `is_leaf` of exactly the object that "
        "you return.",
    ),
    misconceptions={
        "scaled leaf": Misconception(
            "A scaled leaf is a leaf",
            "The scaling was recorded, so what you return is its result. The leaf is the unscaled tensor behind it, "
            "which nobody holds: it gets the gradients. Raising the flag once more changes nothing on a result.",
            "Print `is_leaf` and `grad_fn` of what you return.",
        ),
        "retained": Misconception(
            "retain_grad() makes a tensor a parameter",
            "`retain_grad` keeps a copy of the gradient as it passes by. The tensor stays a result, and an optimizer "
            "has nothing that it could move.",
            "Hand what you return to `torch.optim.SGD`.",
        ),
        "unflagged": Misconception(
            "A weight gets gradients because it is a leaf",
            "Every tensor without history is a leaf. Only one that also requires grad gets a gradient; an optimizer "
            "takes the other kind without a word, and never moves it.",
            "Print `requires_grad` of what you return.",
        ),
        "in place": Misconception(
            "Scaled in place, it stays my leaf",
            "Torch refuses to edit a flagged leaf in place while it is recording: the value that gradients are asked "
            "for would be gone.",
            "Read the error. Was the flag needed at that moment?",
        ),
        "is_leaf set": Misconception(
            "is_leaf is a switch",
            "It is an answer, read from the history of the tensor, and cannot be set.",
            "Find out which line gave the tensor its history.",
        ),
        "deepcopy": Misconception(
            "copy.deepcopy makes any tensor independent",
            "`deepcopy` refuses a tensor with history, because it cannot copy the graph behind it.",
            "Print `grad_fn` of what you copy.",
        ),
        "inference": Misconception(
            "inference_mode is a faster no_grad",
            "Tensors made in inference mode stay inference tensors: autograd refuses to use them when you train.",
            "Ask your tensor `is_inference()`.",
        ),
        "swapped": Misconception(
            "A weight has the shape (fan_in, fan_out)",
            "`nn.Linear` computes `x @ weight.T`: a row of the weight for each output.",
            "Print the shape of `nn.Linear(2, 5).weight`.",
        ),
        "unscaled": Misconception(
            "The scale of a weight does not matter",
            "Each output adds up `fan_in` terms. With standard deviation 1 the outputs grow with the square root of "
            "`fan_in`, layer after layer.",
            "Print the standard deviation of what you return for `fan_in = 400`.",
        ),
        "wrong fan": Misconception(
            "fan_in counts the outputs",
            "`fan_in` is how many numbers come in, so how many terms each output adds up. Your scale follows "
            "`fan_out`.",
            "Try a fan_in of 400 and a fan_out of 4.",
        ),
        "variance": Misconception(
            "1/fan_in is the standard deviation",
            "1/fan_in is the variance. The standard deviation is its square root.",
            "Print the standard deviation for `fan_in = 100` and compare it with 0.1.",
        ),
        "other recipe": Misconception(
            "All initialisations have the same scale",
            "Xavier's rule looks at `fan_in` and `fan_out` together, He's has a factor of 2 for ReLU. Here the "
            "standard deviation is 1/sqrt(fan_in).",
            "Print the standard deviation for `fan_in = 400` and compare it with 0.05.",
        ),
        "uniform": Misconception(
            "The default of nn.Linear is a normal distribution",
            "`nn.Linear`, `torch.rand` and the Kaiming and Xavier functions with `uniform` in their name draw evenly "
            "between two bounds. A normal distribution has no bounds.",
            "Draw a histogram of a large weight.",
        ),
        "repeated": Misconception(
            "expand() fills a matrix with random numbers",
            "Expanded or repeated rows are one draw seen many times: all outputs of the layer would start equal.",
            "Compare two rows of what you return.",
        ),
        "seeded": Misconception(
            "Seeding inside a function makes it reproducible",
            "It resets the random numbers of the whole program: every weight made here is the same, and so is "
            "everything drawn after it.",
            "Leave the seed to whoever runs the program.",
        ),
    },
    raises=(
        ("leaf Variable", "in place"),
        ("'is_leaf' of", "is_leaf set"),
        ("deepcopy protocol", "deepcopy"),
        ("inference tensor", "inference"),
    ),
    effects=(("random number generator", "seeded"),),
)


@make_weight.claim("has the shape (fan_out, fan_in)", weight=0, gate=True)
def _(trial: Trial) -> None:
    sizes = (
        (trial.integer(2, 19), trial.integer(20, 999)),
        (trial.integer(20, 999), trial.integer(2, 19)),
        (1, trial.integer(2, 999)),
        (trial.integer(2, 999), 1),
    )
    for fan_in, fan_out in sizes:
        got = trial.tensor(trial.call(fan_in, fan_out))
        if got.shape != (fan_out, fan_in):
            key = "swapped" if got.shape == (fan_in, fan_out) else ""
            raise Missed(key, expected=f"shape {(fan_out, fan_in)}", got=f"shape {tuple(got.shape)}")
        if not got.is_floating_point():
            raise Missed(expected="a floating-point dtype", got=str(got.dtype))


@make_weight.claim("is a leaf that requires grad", weight=3)
def _(trial: Trial) -> None:
    got = trial.tensor(trial.call(trial.integer(2, 19), trial.integer(2, 999)))
    if not got.is_leaf:
        key = "retained" if got.retains_grad else "scaled leaf"
        raise Missed(key, expected="is_leaf True", got=f"is_leaf False, made by {got.grad_fn.name()}")
    if not got.requires_grad:
        raise Missed("unflagged", expected="requires_grad True", got="requires_grad False")


@make_weight.claim("is normal, with mean 0 and standard deviation 1/sqrt(fan_in)", weight=2)
def _(trial: Trial) -> None:
    # 30 000 draws or more: the bounds below are seven standard errors wide or wider. The sizes are such that no two of
    # the scales which are told apart coincide.
    sizes = ((trial.integer(300, 400), trial.integer(100, 120)), (trial.integer(40, 50), trial.integer(800, 900)))
    for fan_in, fan_out in sizes:
        weight = trial.tensor(trial.call(fan_in, fan_out), shape=(fan_out, fan_in)).detach().double().cpu()
        wanted, mean, deviation = 1 / math.sqrt(fan_in), weight.mean().item(), weight.std().item()
        repeated = _repeats(weight, deviation)
        kurtosis = ((weight - mean) / deviation).pow(4).mean().item() if deviation else math.nan
        if repeated:
            raise Missed("repeated", expected="every number drawn for itself", got="equal rows or columns")
        if 1.5 < kurtosis < 2.1:
            raise Missed("uniform", expected="a normal distribution", got="values spread evenly between two bounds")
        if not abs(deviation / wanted - 1) < 0.03:
            scales = (
                ("unscaled", 1.0),
                ("wrong fan", 1 / math.sqrt(fan_out)),
                ("variance", 1 / fan_in),
                ("other recipe", math.sqrt(2 / fan_in)),
                ("other recipe", math.sqrt(2 / (fan_in + fan_out))),
            )
            key = next((key for key, scale in scales if abs(deviation / scale - 1) < 0.03), "")
            raise Missed(key, expected=f"standard deviation {wanted:.4f}", got=f"{deviation:.4f}")
        if not abs(mean) < 0.05 * wanted:
            raise Missed(expected="mean 0", got=f"mean {mean:.4f}")
        if not abs(kurtosis - 3) < 0.3:
            raise Missed(expected="a normal distribution (kurtosis 3)", got=f"kurtosis {kurtosis:.2f}")


def _repeats(weight: Tensor, deviation: float) -> bool:
    """Whether rows or columns are copies of each other: their means then vary as much as single values do."""
    over_rows, over_columns = weight.mean(0).std().item(), weight.mean(1).std().item()
    rows, columns = weight.shape
    return bool(over_rows > 3 * deviation / math.sqrt(rows) or over_columns > 3 * deviation / math.sqrt(columns))


@make_weight.claim("is taken by an optimizer, and moved", weight=2)
def _(trial: Trial) -> None:
    fan_in, fan_out, lr = trial.integer(2, 9), trial.integer(2, 9), 0.25
    weight = trial.tensor(trial.call(fan_in, fan_out), shape=(fan_out, fan_in))
    before = weight.detach().clone()
    try:
        optimizer = torch.optim.SGD([weight], lr=lr)
    except ValueError as error:
        key = "retained" if weight.retains_grad else "scaled leaf"
        raise Missed(key, expected="an optimizer takes it", got=f"ValueError: {error}") from None
    if not weight.requires_grad:
        raise Missed("unflagged", expected="a gradient to step by", got="requires_grad False")
    x = trial.randn(5, fan_in, dtype=weight.dtype).to(weight.device)
    weight.grad = None
    try:
        (x @ weight.T).sum().backward()
    except RuntimeError as error:
        key = "inference" if weight.is_inference() else ""
        raise Missed(key, expected="backward runs", got=f"RuntimeError: {describe(str(error), 60)}") from None
    optimizer.step()
    if not torch.allclose(weight.detach(), before - lr * x.sum(0), rtol=0.02, atol=0.02):
        raise Missed(expected="weight - lr * gradient after one step", got="other values")


# ---------------------------------------------------------------------------------------------- activation_gradients

activation_gradients = Exercise(
    name="activation_gradients",
    points=2,
    hints=(
        "Run the layers one after the other and keep every output. Then ask for the gradient of one number with "
        "respect to all of them.",
        "There is a function that returns gradients instead of leaving them in `.grad`. It takes a list.",
        "Behind a frozen layer nothing is recorded. Whose flag could you raise so that recording starts there, without "
        "touching anything that the caller gave you?",
    ),
    misconceptions={
        "never asked": Misconception(
            "After backward every tensor in the graph has .grad",
            "Only leaves keep theirs. The gradient of an activation passes through and is dropped, unless somebody "
            "asked for it before.",
            "Read the warning that torch gives when you look at `.grad` of an activation.",
        ),
        "asked too late": Misconception(
            "retain_grad() can be called after backward",
            "It is a request to future backward passes. What has already passed by is gone.",
            "Move the request, and see which of the two lines has to come first.",
        ),
        "backward fills": Misconception(
            "backward() only gives me what I ask for",
            "`backward` adds to the `.grad` of every flagged leaf that it reaches: weights, and an input that requires "
            "grad. The caller's next step is made with the sum.",
            "Print a weight's `.grad` before and after your function.",
        ),
        "cleanup": Misconception(
            "zero_grad() puts things back as they were",
            "It throws away gradients that were there before you came. A caller who accumulates over several batches "
            "loses them.",
            "Put a value into a weight's `.grad`, call your function, and look again.",
        ),
        "frozen": Misconception(
            "Behind a frozen layer there is no gradient to ask for",
            "The gradient exists. What is missing is the record: the first output comes from unflagged tensors only, "
            "so nothing says that it matters.",
            "Print `requires_grad` of each output when the first layer is frozen.",
        ),
        "unfrozen": Misconception(
            "A frozen layer may be thawed for a moment",
            "The flags are the caller's. Left up, the frozen weights train from the next step on.",
            "Print the flags of the first layer's parameters after your function.",
        ),
        "input flagged": Misconception(
            "x.requires_grad_() is a harmless way to start recording",
            "It changes the caller's tensor: everything they compute from it afterwards is recorded.",
            "Print `x.requires_grad` after your function.",
        ),
        "last left out": Misconception(
            "The last output has no gradient",
            "It has one, with respect to its own sum: each element counts once.",
            "Count what you return, and count the layers.",
        ),
        "reversed": Misconception(
            "Gradients come in the order in which backward finds them",
            "Backward goes from the last layer to the first. The list is asked for in the order of the layers.",
            "Print the shapes of what you return beside those of the outputs.",
        ),
        "inputs": Misconception(
            "A layer's input is as good as its output",
            "The gradient with respect to what goes into a layer is that of the layer before it. Your list is shifted "
            "by one and begins with `x`.",
            "Print the shapes of what you return beside those of the outputs.",
        ),
        "weights": Misconception(
            "A layer's gradient is that of its weights",
            "A weight's gradient and an activation's are different things. The exercise asks for one tensor a layer, "
            "of the shape of its output.",
            "Print the shapes of what you return beside those of the outputs.",
        ),
        "mean": Misconception(
            "Sum and mean give the same gradient",
            "The mean divides every gradient by the number of elements. Here the sum is asked for, so the last one is "
            "all ones.",
            "Look at the last tensor that you return.",
        ),
        "cut": Misconception(
            "Each layer's output may be detached on the way",
            "Then no path leads from the last output back to the earlier ones, and their gradient is lost.",
            "Draw the graph of the last output's sum: how far down does it reach?",
        ),
        "no sum": Misconception(
            "A gradient can be asked of a whole tensor",
            "Backward starts from one number, or from a weight for each element. Torch does not choose for you.",
            "Read the contract again: of which number is the gradient asked?",
        ),
        "values": Misconception(
            "The outputs are the gradients",
            "What a layer returns is its value. The gradient says how the last sum would change with it.",
            "Print one of the tensors you return beside the layer's output.",
        ),
        "own sum": Misconception(
            "Each layer has a sum of its own",
            "Only the last layer's output is summed. With respect to its own sum every output has the gradient one, "
            "which says nothing about the layers after it.",
            "Ask what changes in the last sum when an element of the first output grows a little.",
        ),
    },
    raises=(
        ("requires_grad=False", "frozen"),
        ("does not require grad", "frozen"),
        ("have been used in the graph", "cut"),
        ("only for scalar outputs", "no sum"),
    ),
    effects=(
        ("x.requires_grad", "input flagged"),
        ("requires_grad to True", "unfrozen"),
        ("cleared", "cleanup"),
        ("filled", "backward fills"),
        (".grad", "backward fills"),
    ),
)


def _perceptron(trial: Trial) -> tuple[list[nn.Module], Tensor]:
    first, middle, last = trial.integer(2, 4), trial.integer(5, 7), trial.integer(2, 4)
    layers = [nn.Linear(first, middle), nn.Tanh(), nn.Identity(), nn.Linear(middle, last), nn.Softplus()]
    return [trial.fill(layer.double()) for layer in layers], trial.randn(trial.integer(2, 4), first)


def _convolution(trial: Trial) -> tuple[list[nn.Module], Tensor]:
    side = trial.integer(4, 6)
    layers = [nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(2 * (side - 2) ** 2, 3)]
    return [trial.fill(layer.double()) for layer in layers], trial.randn(2, 1, side, side)


def _outputs(layers: Sequence[nn.Module], x: Tensor) -> list[Tensor]:
    """Every layer's output, all on one recorded path, and no path to ``x``."""
    outputs = [layers[0](x.detach()).detach().requires_grad_()]
    for layer in layers[1:]:
        outputs.append(layer(outputs[-1]))
    return outputs


def _expected_gradients(layers: Sequence[nn.Module], x: Tensor) -> list[Tensor]:
    outputs = _outputs(layers, x)
    return list(torch.autograd.grad(outputs[-1].sum(), outputs))


def _gradients(trial: Trial, layers: list[nn.Module], x: Tensor) -> list[Any]:
    """What the answer returned, as a list with one item a layer; Missed where it is not that."""
    show = f"activation_gradients([{', '.join(type(layer).__name__ for layer in layers)}], {describe(x)})"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = trial.call(layers, x, show=show)
    for warning in caught:  # on to the card
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if result is None:
        raise Missed("no return value", expected="a list of gradients", got="None")
    if not isinstance(result, (list, tuple)):
        raise Missed(expected="a list of gradients", got=result)
    if any(item is None for item in result):
        frozen = not any(parameter.requires_grad for parameter in layers[0].parameters())
        if any("not a leaf" in str(warning.message) for warning in caught):
            key = "never asked"
        elif all(item is None for item in result):
            key = "asked too late"
        else:
            key = "frozen" if frozen else "cut"
        missing = [index for index, item in enumerate(result) if item is None]
        raise Missed(key, expected=f"{len(layers)} tensors", got=f"None at {missing}")
    return list(result)


def _judge_gradients(trial: Trial, layers: list[nn.Module], x: Tensor) -> None:
    outputs, expected = _outputs(layers, x), _expected_gradients(layers, x)
    got = _gradients(trial, layers, x)
    if len(got) != len(layers):
        key = "last left out" if _equal_lists(got, expected[:-1]) else _other_list(layers, x, got)
        raise Missed(key, expected=f"{len(layers)} gradients, one a layer", got=f"{len(got)}")
    got = [trial.tensor(item, what="a list of tensors") for item in got]
    if _equal_lists(got, expected):
        return
    shapes = [tuple(item.shape) for item in got], [tuple(item.shape) for item in expected]
    key = _other_list(layers, x, got)
    patterns = (
        ("values", outputs),
        ("own sum", [torch.ones_like(output) for output in outputs]),
        ("mean", [gradient / outputs[-1].numel() for gradient in expected]),
    )
    key = key or next((key for key, pattern in patterns if _equal_lists(got, pattern)), "")
    if shapes[0] != shapes[1]:
        raise Missed(key, expected="shapes " + _listed(shapes[1]), got="shapes " + _listed(shapes[0]))
    wrong = next(i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if not torch.allclose(a, b))
    raise Missed(
        key,
        expected=f"{_first(expected[wrong])} in the first place of gradient {wrong} (from 0)",
        got=_first(got[wrong]),
    )


def _other_list(layers: Sequence[nn.Module], x: Tensor, got: Sequence[Any]) -> str:
    """The misconception by which somebody gets this list, where it is a known one."""
    expected = _expected_gradients(layers, x)
    source = x.detach().clone().requires_grad_()
    value = source
    for layer in layers:
        value = layer(value)
    (at_input,) = torch.autograd.grad(value.sum(), source, allow_unused=True)
    shapes = {tuple(p.shape) for layer in layers for p in layer.parameters()}
    if _equal_lists(got, expected[::-1]):
        return "reversed"
    if _equal_lists(got, [at_input, *expected[:-1]]) or _equal_lists(got, [at_input, *expected]):
        return "inputs"
    if got and all(isinstance(item, Tensor) and tuple(item.shape) in shapes for item in got):
        return "weights"
    return ""


def _equal_lists(got: Sequence[Any], expected: Sequence[Any]) -> bool:
    return len(got) == len(expected) and all(
        isinstance(a, Tensor) and a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b)
        for a, b in zip(got, expected, strict=True)
    )


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes))


def _first(tensor: Tensor) -> str:
    return f"{tensor.detach().flatten()[0].item():.6g}"


@activation_gradients.claim("is d (last output).sum() / d output for each layer, in order", weight=2, gate=True)
def _(trial: Trial) -> None:
    for layers, x in (_perceptron(trial), _convolution(trial)):
        _judge_gradients(trial, layers, x)


@activation_gradients.claim("leaves every `.grad` as it was", weight=1)
def _(trial: Trial) -> None:
    for flagged in (False, True):
        layers, x = _perceptron(trial)
        layers[0].weight.grad = trial.randn(*layers[0].weight.shape)
        if flagged:
            x.requires_grad_().grad = trial.randn(*x.shape)
        watched = {f"layers[{i}].{name}": p for i in (0, 3) for name, p in layers[i].named_parameters()} | {"x": x}
        before = {name: None if p.grad is None else p.grad.clone() for name, p in watched.items()}
        _gradients(trial, layers, x)
        for name, tensor in watched.items():
            was, now = before[name], tensor.grad
            if (was is None) != (now is None):
                found = "None" if now is None else "a gradient"
                key = "cleanup" if now is None else "backward fills"
                raise Missed(key, expected=f"{name}.grad as before", got=found)
            if was is not None and not torch.equal(was, now):
                key = "cleanup" if not now.any() else "backward fills"
                raise Missed(key, expected=f"{name}.grad as before", got="other values")


@activation_gradients.claim("works when the first layer is frozen", weight=1)
def _(trial: Trial) -> None:
    for count in (5, 1):
        layers, x = _perceptron(trial)
        layers[0].requires_grad_(False)
        _judge_gradients(trial, layers[:count], x)


# ---------------------------------------------------------------------------------------------------------- sgd_step

sgd_step = Exercise(
    name="sgd_step",
    points=2,
    hints=(
        "The numbers change, the objects stay. Which kind of operation writes into the memory that is already there?",
        "Torch refuses that on a flagged leaf while it is recording. Say that it need not record.",
        "Go through `params` once. For each: is there a gradient at all? Then the step, then let go of the gradient, "
        "so that the next backward starts from nothing.",
    ),
    misconceptions={
        "rebinding": Misconception(
            "p = p - lr * p.grad moves the parameter",
            "It computes a new tensor and gives it the name `p` inside your function. The parameter itself, which the "
            "model holds, is untouched.",
            "Print `id(p)` before and after that line.",
        ),
        "leaf in place": Misconception(
            "A parameter may be edited in place at any time",
            "While torch is recording, an in-place edit of a flagged leaf is refused. An optimizer's step is nothing "
            "that should be differentiated.",
            "Read the error's last words, and ask what could be switched off for a moment.",
        ),
        "new memory": Misconception(
            "p.data = ... writes into p",
            "It gives the parameter other memory. Whoever looks at the old memory, a view, a tied weight or a "
            "checkpoint, still sees the old numbers.",
            "Compare `p.data_ptr()` before and after.",
        ),
        "flag lost": Misconception(
            "A parameter may lose its flag for the step",
            "Without its flag it gets no gradient from the next backward on: it has been frozen.",
            "Print `requires_grad` after your function.",
        ),
        "kept": Misconception(
            "The next backward replaces .grad",
            "It adds to what is there. A gradient that stays is used again in every later step.",
            "Call your function, then `backward`, and compare `.grad` with the fresh gradient.",
        ),
        "zeros": Misconception(
            "Zeros and None are the same",
            "Optimizers skip None. With zeros, momentum and weight decay move a parameter that got no gradient, and "
            "the memory stays in use. The contract says None.",
            "Print `.grad` after your function.",
        ),
        "none grad": Misconception(
            "Every parameter has a gradient",
            "A parameter that did not take part in the loss has `.grad` None. There is nothing to step by.",
            "Pass a parameter that no backward has reached.",
        ),
        "stops": Misconception(
            "The first parameter without a gradient ends the step",
            "It is skipped. Those after it have gradients and must move.",
            "Pass three parameters of which only the last has a gradient.",
        ),
        "read twice": Misconception(
            "params can be gone through twice",
            "`model.parameters()` is a generator. After one pass it is empty, and a second loop does nothing, without "
            "an error.",
            "Run `for` twice over `iter([1, 2])`.",
        ),
        "ascent": Misconception(
            "A step adds the gradient",
            "The gradient points to where the loss grows. Descent goes the other way.",
            "Compute the loss before and after a step.",
        ),
        "length": Misconception(
            "The direction is all that counts",
            "The step is the gradient times the learning rate. Without the rate, with it used twice, or with a "
            "gradient that was scaled, the step has the right direction and another length.",
            "Work one step out by hand for a gradient of 3 and a learning rate of 0.1.",
        ),
        "other rule": Misconception(
            "All optimizers make the same step",
            "Adam and its kin divide by the size of the gradient: their first step has the same length for every "
            "weight. Plain gradient descent does not.",
            "Work one step out by hand for gradients of 3 and of 0.3.",
        ),
        "grad mode": Misconception(
            "set_grad_enabled(False) ends with the function",
            "As a plain call it switches the whole thread, until somebody switches back. The caller's training stops "
            "recording.",
            "Use it with `with`, which puts back what it found, also when something raises.",
        ),
    },
    raises=(
        ("leaf Variable", "leaf in place"),
        ("NoneType", "none grad"),
        ("has no len()", "read twice"),
        ("is not subscriptable", "read twice"),
    ),
    effects=(("grad mode", "grad mode"),),
)


def _parameters(trial: Trial) -> list[Tensor]:
    """Flagged leaves of several shapes, one of float32 and one that is not contiguous, each with a gradient."""
    rows, columns = trial.integer(2, 5), trial.integer(2, 5)
    parameters = [
        nn.Parameter(trial.randn(rows, columns)),
        trial.randn(columns, requires_grad=True),
        trial.randn(requires_grad=True),
        trial.randn(rows, dtype=torch.float32, requires_grad=True),
        trial.randn(columns, rows).T.clone(memory_format=torch.preserve_format).requires_grad_(),
    ]
    for parameter in parameters:
        parameter.grad = trial.randn(*parameter.shape).to(parameter.dtype)
    return parameters


def _learning_rate(trial: Trial) -> float:
    return trial.integer(20, 900) / 1000


def _step(trial: Trial, given: Any, parameters: Sequence[Tensor], lr: float, what: str) -> None:
    trial.call(given, lr, may_change=tuple(parameters), show=f"sgd_step({what}, lr={lr})")


def _stepped(parameters: Sequence[Tensor], lr: float) -> list[Tensor]:
    """Where the parameters belong after the step."""
    return [p.detach().clone() if p.grad is None else p.detach() - lr * p.grad for p in parameters]


def _same_values(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and torch.allclose(got.detach(), expected, rtol=1e-5, atol=1e-7)


@sgd_step.claim("moves each parameter by -lr times its gradient", weight=2, gate=True)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    before = [p.detach().clone() for p in parameters]
    gradients = [p.grad.clone() for p in parameters]
    expected = _stepped(parameters, lr)
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters")
    for index, parameter in enumerate(parameters):
        if _same_values(parameter, expected[index]):
            continue
        start, gradient = before[index], gradients[index]
        raise Missed(
            _other_step(parameter.detach(), start, gradient, lr),
            expected=f"parameter {index} at {_first(expected[index])} (first element; it was {_first(start)})",
            got=_first(parameter),
        )


def _other_step(value: Tensor, start: Tensor, gradient: Tensor, lr: float) -> str:
    """The misconception by which a parameter gets from ``start`` to ``value``, where it is a known one."""
    if value.shape != start.shape:
        return ""
    if torch.equal(value, start):
        return "rebinding"
    factors = (value - start) / gradient
    if torch.allclose(factors, factors.mean(), rtol=1e-4):
        return "ascent" if factors.mean() > 0 else "length"
    return "other rule" if torch.allclose(value, start - lr * gradient.sign(), rtol=1e-3) else ""


@sgd_step.claim("keeps the objects and their memory", weight=2)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    aliases, places = [p.detach() for p in parameters], [p.data_ptr() for p in parameters]
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters")
    for parameter, alias, place in zip(parameters, aliases, places, strict=True):
        if parameter.data_ptr() != place or not torch.equal(parameter.detach(), alias):
            raise Missed("new memory", expected="the new values in the old memory", got="other memory")


@sgd_step.claim("leaves flagged leaves, and nothing recorded", weight=1)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters")
    for parameter in parameters:
        if parameter.grad_fn is not None:
            raise Missed(expected="grad_fn None", got=f"grad_fn {parameter.grad_fn.name()}")
        if not parameter.requires_grad:
            raise Missed("flag lost", expected="requires_grad True", got="requires_grad False")


@sgd_step.claim("leaves `.grad` None", weight=1)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters")
    _no_gradients(parameters)


def _no_gradients(parameters: Sequence[Tensor], key: str = "") -> None:
    for parameter in parameters:
        if parameter.grad is not None:
            zeros = not parameter.grad.any()
            key = key or ("zeros" if zeros else "kept")
            raise Missed(key, expected=".grad None", got="zeros" if zeros else "the old gradient")


@sgd_step.claim("skips a parameter whose `.grad` is None", weight=1)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    parameters[0].grad = parameters[2].grad = None
    expected = _stepped(parameters, lr)
    moving = [p for p in parameters if p.grad is not None]
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters, two without gradient")
    for parameter, value in zip(parameters, expected, strict=True):
        if not _same_values(parameter, value):
            stopped = any(parameter is p for p in moving)
            raise Missed(
                "stops" if stopped else "",
                expected="only those with a gradient move",
                got="one with a gradient stood still" if stopped else "one without a gradient moved",
            )
    _no_gradients(parameters)
    for parameter in parameters:
        parameter.grad = None
    _step(trial, parameters, parameters, lr, f"{len(parameters)} parameters, none with a gradient")


@sgd_step.claim("takes an iterator as well as a list", weight=1)
def _(trial: Trial) -> None:
    parameters, lr = _parameters(trial), _learning_rate(trial)
    expected = _stepped(parameters, lr)
    _step(trial, iter(parameters), parameters, lr, "an iterator")
    if not all(map(_same_values, parameters, expected)):
        raise Missed("read twice", expected="every parameter moved", got="some or all stood still")
    # Where a list works and an iterator does not, it was the second pass that found nothing.
    listed = _parameters(trial)
    _step(trial, listed, listed, lr, "a list")
    _no_gradients(parameters, "read twice" if all(p.grad is None for p in listed) else "")


# ---------------------------------------------------------------------------------------------------------- fit_line

fit_line = Exercise(
    name="fit_line",
    points=2,
    hints=(
        "After the first step, what is `slope`: the tensor that you made, or the result of a subtraction?",
        "The name must go on pointing at the same leaf. So the leaf's numbers have to change, where nothing is "
        "recorded.",
        "One loop has four parts: the loss, its gradients, the step in place, and no old gradients left for the next "
        "turn. With `steps=0` the loop does not run, and what you return has to be right all the same.",
    ),
    misconceptions={
        "rebinding": Misconception(
            "w = w - lr * w.grad is a gradient step",
            "It gives the name to the result of a subtraction, which has a history and is no leaf. Its `.grad` stays "
            "None, and the second step has nothing to multiply.",
            "Print `slope.is_leaf` after the first step.",
        ),
        "not a leaf": Misconception(
            "The numbers are right, so it is a leaf",
            "What you return carries a history: the last subtraction at least, or every step from the first on. It "
            "cannot be trained on, and it keeps that graph alive.",
            "Print `grad_fn` of what you return.",
        ),
        "unflagged": Misconception(
            "A trained weight needs no flag any more",
            "The caller may want to go on training. The contract asks for leaves that require grad.",
            "Print `requires_grad` of what you return.",
        ),
        "in place": Misconception(
            "A weight may be edited in place at any time",
            "While torch is recording, an in-place edit of a flagged leaf is refused.",
            "Read the error, and ask whether this line needs to be recorded.",
        ),
        "accumulates": Misconception(
            "Each backward starts from nothing",
            "`backward` adds to `.grad`. Without a word from you the second step is made with the sum of two "
            "gradients, the third with the sum of three.",
            "Print `slope.grad` in every turn of the loop.",
        ),
        "second backward": Misconception(
            "One backward for each weight",
            "One pass fills `.grad` of every leaf that it reaches, and frees what the graph had saved. A second pass "
            "through the same graph raises.",
            "Print both gradients after the first `backward`.",
        ),
        "sum": Misconception(
            "Sum and mean give the same steps",
            "The sum's gradient is as many times larger as there are points, so the steps grow with the data.",
            "Work out the first step by hand for two points.",
        ),
        "half": Misconception(
            "The 2 of the square does not matter",
            "The derivative of a square brings a factor of 2. Without it each step is half as long.",
            "Compare your formula with what autograd says for one point.",
        ),
        "off by one": Misconception(
            "One step more or less is the same",
            "The contract names the number of steps, and after few of them each one shows.",
            "Call it with `steps=1` and work out that step by hand.",
        ),
        "one after the other": Misconception(
            "Slope and intercept may step one after the other",
            "Gradient descent takes both gradients at the same point. If the slope has already moved, the intercept's "
            "gradient is that of another place.",
            "Compute both gradients before either weight moves.",
        ),
        "ascent": Misconception(
            "A step adds the gradient",
            "The gradient points to where the loss grows. Descent goes the other way.",
            "Print the loss in every turn of the loop.",
        ),
        "swapped": Misconception(
            "The order of what I return does not matter",
            "The caller takes them by place: first the slope, then the intercept.",
            "Call it on points of the line y = 3x, and print both.",
        ),
        "same tensor": Misconception(
            "a = b = tensor makes two tensors",
            "It gives one tensor two names. Each step of one is a step of the other.",
            "Print `slope is intercept`.",
        ),
        "broadcast": Misconception(
            "Shapes that do not fit raise an error",
            "A column of predictions minus a row of targets is a square: each prediction is compared with every "
            "target. The best line for that is flat.",
            "Print the shape of your error.",
        ),
        "solved": Misconception(
            "The best line is the answer",
            "What is asked for is where gradient descent stands after so many steps, not where it would end.",
            "Call it with `steps=1`.",
        ),
        "start": Misconception(
            "Any start will do",
            "After few steps the start still shows. The contract says zeros.",
            "Call it with `steps=0`.",
        ),
        "one element": Misconception(
            "A tensor with one element is 0-dim",
            "`torch.zeros(1)` has one dimension of length 1. The contract asks for none.",
            "Print `shape` of both.",
        ),
        "no steps": Misconception(
            "The loop always runs",
            "With `steps=0` it does not. What is only made inside it does not exist then, and what is only put right "
            "inside it stays wrong.",
            "Call it with `steps=0`.",
        ),
    },
    raises=(
        ("UnboundLocalError", "no steps"),
        ("referenced before assignment", "no steps"),
        ("NoneType", "rebinding"),
        ("leaf Variable", "in place"),
        ("second time", "second backward"),
    ),
)


def _line(trial: Trial, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, float]:
    """Points near a line that is far from zero, and a learning rate at which few steps do not get there."""
    x = trial.randn(trial.integer(20, 40))
    slope, intercept = (2 + trial.randn().abs().item() for _ in range(2))
    y = -slope * x + intercept + 0.3 * trial.randn(len(x))
    return x.to(dtype), y.to(dtype), trial.integer(40, 90) / 1000


def _descend(
    x: Tensor, y: Tensor, steps: int, lr: float, *, keep: float = 0.0, in_turn: bool = False
) -> tuple[float, float]:
    """Slope and intercept by the formula, in float64. ``keep`` is the share of the old gradient that each step adds;
    ``in_turn`` moves the slope before the intercept's gradient is taken."""
    x, y = x.detach().double(), y.detach().double()
    slope = intercept = gradient_slope = gradient_intercept = 0.0
    for _ in range(steps):
        error = slope * x + intercept - y
        gradient_slope = keep * gradient_slope + 2 * (error * x).mean().item()
        if in_turn:
            slope -= lr * gradient_slope
            error = slope * x + intercept - y
        gradient_intercept = keep * gradient_intercept + 2 * error.mean().item()
        slope -= 0.0 if in_turn else lr * gradient_slope
        intercept -= lr * gradient_intercept
    return slope, intercept


def _best_line(x: Tensor, y: Tensor) -> tuple[float, float]:
    x, y = x.double(), y.double()
    slope = (((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()).item()
    return slope, y.mean().item() - slope * x.mean().item()


def _fitted(trial: Trial, x: Tensor, y: Tensor, steps: int, lr: float) -> tuple[Tensor, Tensor]:
    result = trial.call(x, y, steps, lr, show=f"fit_line({describe(x)}, {describe(y)}, steps={steps}, lr={lr})")
    if result is None:
        raise Missed("no return value", expected="(slope, intercept)", got="None")
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise Missed(expected="a tuple (slope, intercept)", got=result)
    slope, intercept = (trial.tensor(item, what="two tensors") for item in result)
    for weight in (slope, intercept):
        if weight.dim():
            key = "one element" if weight.numel() == 1 else ""
            raise Missed(key, expected="0-dim tensors", got=f"shape {tuple(weight.shape)}")
    return slope, intercept


def _is_at(got: Sequence[Tensor], expected: tuple[float, float], relative: float = 0.0) -> bool:
    return all(abs(a.item() - b) <= 1e-4 + relative * abs(b) for a, b in zip(got, expected, strict=True))


@fit_line.claim("ends where gradient descent from zeros ends", weight=3, gate=True)
def _(trial: Trial) -> None:
    for steps, dtype in (
        (trial.integer(4, 9), torch.float64),
        (1, torch.float64),
        (trial.integer(4, 9), torch.float32),
    ):
        x, y, lr = _line(trial, dtype)
        got = _fitted(trial, x, y, steps, lr)
        expected = _descend(x, y, steps, lr)
        if _is_at(got, expected):
            continue
        guesses = (
            ("accumulates", _descend(x, y, steps, lr, keep=1.0)),
            ("sum", _descend(x, y, steps, lr * len(x))),
            ("half", _descend(x, y, steps, lr / 2)),
            ("off by one", _descend(x, y, steps - 1, lr)),
            ("off by one", _descend(x, y, steps + 1, lr)),
            ("one after the other", _descend(x, y, steps, lr, in_turn=True)),
            ("ascent", _descend(x, y, steps, -lr)),
            ("swapped", expected[::-1]),
            ("broadcast", _descend(x, y.mean().expand_as(y), steps, lr)),
            ("solved", _best_line(x, y)),
        )
        # The sum diverges, and float32 with it.
        key = next((key for key, value in guesses if _is_at(got, value, relative=1e-3)), "")
        if got[0] is got[1]:
            key = "same tensor"
        called = trial.called
        if not key and not _is_at(_fitted(trial, x, y, 0, lr), (0.0, 0.0)):
            key = "start"
        trial.called = called
        raise Missed(
            key,
            expected=f"slope {expected[0]:.4f}, intercept {expected[1]:.4f} after {steps} steps",
            got=f"slope {got[0].item():.4f}, intercept {got[1].item():.4f}",
        )


def _judge_leaves(weights: Iterator[tuple[str, Tensor]]) -> None:
    for name, weight in weights:
        if not weight.is_leaf:
            raise Missed("not a leaf", expected=f"{name}.is_leaf True", got=f"made by {weight.grad_fn.name()}")
        if not weight.requires_grad:
            raise Missed("unflagged", expected=f"{name}.requires_grad True", got="False")


@fit_line.claim("returns leaves that require grad", weight=2)
def _(trial: Trial) -> None:
    x, y, lr = _line(trial)
    weights = _fitted(trial, x, y, trial.integer(1, 5), lr)
    _judge_leaves(zip(("slope", "intercept"), weights, strict=True))


@fit_line.claim("takes no step where `steps` is 0", weight=1)
def _(trial: Trial) -> None:
    x, y, lr = _line(trial)
    try:
        weights = _fitted(trial, x, y, 0, lr)
    except AnswerRaised as raised:
        error = f"{type(raised.error).__name__}: {describe(str(raised.error), 60)}"
        raise Missed("no steps", expected="zeros for steps=0", got=error) from None
    if not _is_at(weights, (0.0, 0.0)):
        raise Missed("start", expected="slope 0, intercept 0", got=", ".join(f"{w.item():.4f}" for w in weights))
    _judge_leaves(zip(("slope", "intercept"), weights, strict=True))


EXERCISES = (predicted_leaves, make_weight, activation_gradients, sgd_step, fit_line)
