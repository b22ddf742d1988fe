"""Lesson 01, requires_grad: its exercises, what they claim, and the misconceptions that they recognise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.exercise import Exercise, Misconception, Missed, Predict, Trial
from course_utils.checks.trial import AnswerRaised

# --------------------------------------------------------------------------------------------------- predicted_flags


def _worked_example(trial: Trial) -> dict[str, bool]:
    a, b = trial.randn(3), trial.randn(3)
    square = a**2
    c = square.clone().requires_grad_()
    d = c + b
    total = d.sum()
    index, mask = d.argmax(), d > 0
    total.backward()
    tensors = {"a": a, "b": b, "square": square, "c": c, "d": d, "total": total, "index": index, "mask": mask}
    return {name: tensor.requires_grad for name, tensor in tensors.items()}


predicted_flags = Predict(
    name="predicted_flags",
    points=2,
    truth=_worked_example,
    keys=("a", "b", "square", "c", "d", "total", "index", "mask"),
    hints=(
        "Go down the lines one by one. For each result ask only: was one of its inputs flagged?",
        "`requires_grad_()` raises the flag of the tensor that it is called on. Which tensor is that here, and was "
        "anything computed from it by then?",
        "For the last two names, ask which dtype they have, and which dtypes can carry the flag at all.",
    ),
    misconceptions={
        "default": Misconception(
            "A tensor of floats requires grad unless I say otherwise",
            "A plain tensor starts with the flag down. Only `nn.Parameter` starts with it up, and here nobody made one "
            "of `a` or `b`.",
            "Print `torch.ones(3).requires_grad`.",
        ),
        "backwards": Misconception(
            "Raising a flag flags what the tensor was made from",
            "Flags travel from inputs to results, and only when an operation runs. `square` was computed before any "
            "flag was up, and `c` is a clone of it: another tensor.",
            "Raise the flag of a clone, and print the flag of its source.",
        ),
        "by hand": Misconception(
            "What comes from unflagged tensors stays unflagged",
            "So far as operations go, yes. But `requires_grad_()` raises the flag by hand, and a tensor without "
            "history lets you do so.",
            "Print the flag of `c` before and after `requires_grad_()`.",
        ),
        "all": Misconception(
            "One unflagged input is enough to stop the gradient",
            "It is the other way round: one flagged input is enough. `b` has its flag down, and `c` carries the sum.",
            "Add a flagged and a plain tensor, in both orders.",
        ),
        "number": Misconception(
            "A sum is only a number",
            "`total` is a tensor of floats with no dimensions. It was computed from a flagged tensor, so it is "
            "flagged. Otherwise no loss could ever be trained on.",
            "Print `total` and look at what stands after the number.",
        ),
        "index": Misconception(
            "Whatever is computed from a flagged tensor is flagged",
            "`argmax` gives a position, a whole number. Whole numbers have no gradient, and their dtype cannot carry "
            "the flag.",
            "Print the dtype of `d.argmax()`.",
        ),
        "mask": Misconception(
            "A comparison passes the flag on",
            "`d > 0` gives bools. A tiny change of `d` does not change them, and their dtype cannot carry the flag.",
            "Print the dtype of `d > 0`.",
        ),
    },
    readings={
        ("a", True): "default",
        ("b", True): "default",
        ("square", True): "backwards",
        ("c", False): "by hand",
        ("d", False): "all",
        ("total", False): "number",
        ("index", True): "index",
        ("mask", True): "mask",
    },
)

# ------------------------------------------------------------------------------------------------- will_require_grad

will_require_grad = Exercise(
    name="will_require_grad",
    points=2,
    hints=(
        "Two questions in one: is any of the inputs flagged, and is anything being recorded at all right now?",
        "Numbers, strings and None have no flag. Look at tensors only.",
        "`torch.is_grad_enabled()` answers one half of the second question. The table of modes shows the line where it "
        "says True and nothing is recorded; torch has a function with a similar name for that mode.",
    ),
    misconceptions={
        "all": Misconception(
            "A result requires grad only if all its inputs do",
            "One flagged input is enough. A layer's weights are flagged and its data is not, and the output is.",
            "Call your function with one flagged and one plain tensor.",
        ),
        "first": Misconception(
            "The first input decides, or the last",
            "The place of an input makes no difference: `x * w` and `w * x` both require grad.",
            "Call your function with the flagged tensor first, then last.",
        ),
        "leaves": Misconception(
            "Only leaves count",
            "A tensor that was computed from a flagged one is flagged too, and hands the flag on.",
            "Call your function with `w * 2`, where `w` requires grad.",
        ),
        "history": Misconception(
            "Only tensors with a grad_fn count",
            "A flagged leaf, such as a weight, has no `grad_fn`: no operation made it. What is computed from it "
            "requires grad all the same.",
            "Print `grad_fn` and `requires_grad` of a parameter.",
        ),
        "parameters": Misconception(
            "Parameters are what requires grad",
            "A parameter's flag can be lowered, and any tensor's can be raised. The class says nothing.",
            "Call your function with a frozen parameter, then with a plain flagged tensor.",
        ),
        "dtype": Misconception(
            "Every tensor of floats requires grad",
            "Floats *can* carry the flag. It is down until somebody raises it.",
            "Call your function with `torch.ones(3)`.",
        ),
        "mode": Misconception(
            "The flags of the inputs decide alone",
            "Under `torch.no_grad()` nothing is recorded, whatever the inputs' flags say. The result's flag is down.",
            "Call your function inside `with torch.no_grad():`, and once more with `torch.enable_grad()` inside that.",
        ),
        "inference": Misconception(
            "is_grad_enabled() says whether something is recorded",
            "Inference mode is a switch of its own. With `enable_grad()` inside it, `is_grad_enabled()` is True and "
            "still nothing is recorded.",
            "Find that line in the table of modes.",
        ),
        "attribute": Misconception(
            "Every input has a requires_grad",
            "In `x * 2` the 2 is a Python number. It has no such attribute, and asking for it raises.",
            "Call your function with a tensor and a number.",
        ),
        "not tensors": Misconception(
            "A number or a string counts like a tensor",
            "Only tensors carry the flag. Numbers, strings and None neither raise it nor lower it.",
            "Call your function with `None`, with a number, and with nothing at all.",
        ),
        "try it": Misconception(
            "I add the inputs up and look at the sum",
            "The inputs are those of any operation: they may differ in shape, and some are no tensors.",
            "Ask each tensor for its flag instead of computing with it.",
        ),
        "no bool": Misconception(
            "Something true is as good as True",
            "The caller asked for a bool. `a and b` gives one of its two sides, which can be a list, a tensor or None.",
            "Print what your function returns, not only whether `if` takes it.",
        ),
    },
    raises=(
        ("has no attribute", "attribute"),
        ("unsupported operand", "try it"),
        ("must match the size", "try it"),
        ("expected Tensor as element", "try it"),
        ("stack expects", "try it"),
        ("must be tuple of Tensors", "try it"),
    ),
)

# What an answer may take for the rule. An answer that agrees with one of them in every case is told so.
_BELIEFS: dict[str, Callable[..., bool]] = {
    "all": lambda *tensors: all(tensor.requires_grad for tensor in tensors),
    "first": lambda *tensors: tensors[0].requires_grad,
    "last": lambda *tensors: tensors[-1].requires_grad,
    "leaves": lambda *tensors: any(tensor.requires_grad and tensor.is_leaf for tensor in tensors),
    "history": lambda *tensors: any(tensor.grad_fn is not None for tensor in tensors),
    "parameters": lambda *tensors: any(isinstance(tensor, nn.Parameter) for tensor in tensors),
    "dtype": lambda *tensors: any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors),
}


def _flag(trial: Trial, *inputs: Any, within: AbstractContextManager | None = None, show: str = "") -> bool:
    """The answer's result as a bool. What kind of object it is, a claim of its own judges."""
    shown = f" under {show}" if show else ""
    names = ", ".join("tensor" if isinstance(value, Tensor) else repr(value) for value in inputs)
    got = trial.call(*inputs, within=within, show=f"will_require_grad({names}){shown}")
    if got is None:
        raise Missed("no return value", expected="True or False", got="None")
    try:
        return bool(got)
    except (RuntimeError, ValueError):  # a tensor or an array of several elements
        raise Missed("no bool", expected="True or False", got=got) from None


def _tensor_cases(trial: Trial) -> list[tuple[Tensor, ...]]:
    rows, columns = trial.integer(2, 4), trial.integer(5, 7)
    plain, flagged = trial.randn(rows, columns), trial.randn(columns, requires_grad=True)
    inner, parameter = trial.randn(rows, requires_grad=True) * 2, nn.Parameter(trial.randn(columns))
    frozen = nn.Parameter(trial.randn(columns), requires_grad=False)
    whole, number = (trial.randn(rows) * 9).long(), trial.randn(requires_grad=True)
    return [
        (plain, trial.randn(columns)),
        (flagged,),
        (flagged, plain),
        (plain, flagged),
        (whole, plain, flagged),
        (inner,),
        (plain, inner),
        (inner.detach(), plain),
        (parameter, plain),
        (frozen, plain),
        (frozen, number),
        (whole,),
        (torch.complex(plain, plain), whole),
        (torch.complex(plain, plain).requires_grad_(), whole),
        (flagged, inner, parameter),
    ]


def _described(tensors: Sequence[Tensor]) -> str:
    return ", ".join("flagged" if tensor.requires_grad else "not flagged" for tensor in tensors)


@will_require_grad.claim("is True as soon as one tensor is flagged, and only then", weight=2, gate=True)
def _(trial: Trial) -> None:
    cases, got = _tensor_cases(trial), []
    for tensors in cases:
        got.append(_flag(trial, *tensors))
    for tensors, answer in zip(cases, got, strict=True):
        expected = any(tensor.requires_grad for tensor in tensors)
        if answer != expected:
            trial.called = f"will_require_grad({', '.join('tensor' for _ in tensors)})"
            raise Missed(_belief(cases, got, tensors), inputs=_described(tensors), expected=expected, got=answer)


def _belief(cases: Sequence[tuple[Tensor, ...]], got: Sequence[bool], wrong: tuple[Tensor, ...]) -> str:
    """The key of the rule that the answer follows; else what its first wrong case points to."""
    for key, rule in _BELIEFS.items():
        if [rule(*tensors) for tensors in cases] == list(got):
            return "first" if key == "last" else key
    if not any(tensor.requires_grad for tensor in wrong):
        return "parameters" if any(isinstance(tensor, nn.Parameter) for tensor in wrong) else "dtype"
    if len(wrong) > 1:
        return "all"
    return "history" if wrong[0].is_leaf else "leaves"


@will_require_grad.claim("passes over numbers, strings and None", weight=1)
def _(trial: Trial) -> None:
    plain, flagged = trial.randn(trial.integer(2, 4)), trial.randn(3, trial.integer(2, 4), requires_grad=True)
    number = trial.integer(2, 9)
    for inputs in (
        (flagged, number),
        (0.5, flagged),
        (plain, number, "mean"),
        ("sum", None, True, flagged, 0),
        (None,),
        (number, 1.5, 2j),
        (),
    ):
        expected = any(isinstance(value, Tensor) and value.requires_grad for value in inputs)
        got = _flag(trial, *inputs)
        if got != expected:
            raise Missed("not tensors", expected=expected, got=got)


@contextmanager
def _modes(*modes: AbstractContextManager) -> Iterator[None]:
    """Enters several modes, the first one outermost."""
    if not modes:
        yield
        return
    with modes[0], _modes(*modes[1:]):
        yield


@contextmanager
def _grad_set_off() -> Iterator[None]:
    # Made here and not where the cases are listed: it acts when it is constructed.
    with torch.set_grad_enabled(False):
        yield


def _judge_modes(trial: Trial, cases: Mapping[str, tuple[bool, Callable[[], AbstractContextManager]]]) -> None:
    flagged, plain = trial.randn(trial.integer(2, 4), requires_grad=True), trial.randn(3)
    for name, (records, make) in cases.items():
        for inputs in ((flagged, plain), (plain, 2)):
            expected = records and inputs[0] is flagged
            got = _flag(trial, *inputs, within=make(), show=name)
            if got != expected:
                key = "inference" if "inference_mode(), enable" in name else "mode"
                raise Missed(key, inputs=_described(inputs[:1]), expected=expected, got=got)


@will_require_grad.claim("obeys the grad mode", weight=1)
def _(trial: Trial) -> None:
    _judge_modes(
        trial,
        {
            "no_grad()": (False, torch.no_grad),
            "set_grad_enabled(False)": (False, _grad_set_off),
            "no_grad(), enable_grad()": (True, lambda: _modes(torch.no_grad(), torch.enable_grad())),
            "enable_grad()": (True, torch.enable_grad),
        },
    )


@will_require_grad.claim("obeys inference mode", weight=1)
def _(trial: Trial) -> None:
    inference = torch.inference_mode
    _judge_modes(
        trial,
        {
            "inference_mode()": (False, inference),
            "inference_mode(), enable_grad()": (False, lambda: _modes(inference(), torch.enable_grad())),
            "inference_mode(), inference_mode(False)": (True, lambda: _modes(inference(), inference(False))),
            "inference_mode(False)": (True, lambda: inference(False)),
        },
    )


@will_require_grad.claim("answers with a bool", weight=0)
def _(trial: Trial) -> None:
    flagged, plain = trial.randn(3, requires_grad=True), trial.randn(2)
    for inputs in ((flagged, plain), (plain, 2), (plain,), ()):
        for make in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            got = trial.call(*inputs, within=make())
            if not isinstance(got, bool) and type(got).__module__ != "numpy":
                raise Missed("no bool", expected="True or False", got=got)


# ---------------------------------------------------------------------------------- what freeze and finetune may not do


class _Rest:
    """What must stay as it was around the flags: parameters themselves, buffers, training flags, hooks."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parameters = dict(module.named_parameters(remove_duplicate=False))
        self.values = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
        self.buffers = {
            name: (buffer, buffer.detach().clone(), buffer.requires_grad) for name, buffer in module.named_buffers()
        }
        self.training = {name: submodule.training for name, submodule in module.named_modules()}

    def judge(self) -> None:
        """Raises ``Missed`` with one of the keys of ``_REST_MISCONCEPTIONS``, or ``"side effect"``."""
        for name, submodule in self.module.named_modules():
            if submodule.training != self.training.get(name, submodule.training):
                key, mode = ("side effect", "training") if submodule.training else ("eval", "eval")
                raise Missed(key, expected=f"{name or 'the module'} in the mode it was in", got=f"{mode} mode")
        now = dict(self.module.named_parameters(remove_duplicate=False))
        if list(now) != list(self.parameters) or any(now[name] is not self.parameters[name] for name in now):
            raise Missed("replaced", expected="the parameters that were there", got="other objects in their place")
        for name, parameter in now.items():
            if not torch.equal(parameter.detach(), self.values[name]):
                raise Missed("values", expected=f"{name} with the values it had", got="other values")
        buffers = dict(self.module.named_buffers())
        for name, (buffer, values, flag) in self.buffers.items():
            found = buffers.get(name)
            if found is not buffer or not torch.equal(found.detach(), values) or found.requires_grad != flag:
                raise Missed("buffers", expected=f"the buffer {name} as it was", got="a change")


_REST_MISCONCEPTIONS = {
    "eval": Misconception(
        "Freezing means eval()",
        "`eval()` switches dropout and batch norm. It touches no flag, and whether a part trains or not is the "
        "caller's other decision.",
        "Print `training` of every submodule before and after.",
    ),
    "replaced": Misconception(
        "A new parameter in the old one's place is the same",
        "The optimizer, and whoever shares the weight, hold the old object. They do not hear of the new one.",
        "Compare `id(parameter)` before and after.",
    ),
    "values": Misconception(
        "A frozen weight may be overwritten",
        "Freezing keeps the values that training has found. They must stay to the bit.",
        "Compare the weights before and after with `torch.equal`.",
    ),
    "buffers": Misconception(
        "A buffer is a parameter without a gradient",
        "Buffers are the module's other tensors, running statistics for instance. `state_dict()` mixes both; a flag or "
        "a value of theirs is not yours to change here.",
        "List `named_parameters()` and `named_buffers()` side by side.",
    ),
}

# ------------------------------------------------------------------------------------------------------------- freeze

freeze = Exercise(
    name="freeze",
    points=2,
    hints=(
        "Where is the flag: on the module, or on the tensors in it? And which method of a module walks through all of "
        "them, however deep?",
        "A lowered flag keeps *new* gradients out. Ask what an optimizer does with a gradient that is already there.",
        "For each parameter two things have to be so afterwards: `requires_grad` is False, and `.grad` is None. Zeros "
        "are a gradient too.",
    ),
    misconceptions={
        "attribute": Misconception(
            "module.requires_grad = False freezes the module",
            "A module has no such switch. The line makes a new Python attribute that nobody reads, and every parameter "
            "keeps its own flag.",
            "Print `[p.requires_grad for p in module.parameters()]` after your function.",
        ),
        "misspelt": Misconception(
            "A line that raises no error has had its effect",
            "Python lets you set any attribute on a parameter. With one letter missing in its name, the flag stays up.",
            "Compare the name that you set with the one in the error messages of this lesson.",
        ),
        "shallow": Misconception(
            "A module's parameters are those of its own layers",
            "Modules stand inside modules. Some parameters are deeper than your loop goes, and they train on.",
            "Print the names of the parameters that are still flagged.",
        ),
        "own forgotten": Misconception(
            "Parameters live in the layers inside",
            "A module can own parameters itself, beside its submodules; a single `nn.Linear` owns nothing else.",
            "Call your function with an `nn.Linear`.",
        ),
        "kinds": Misconception(
            "I know which layers have parameters",
            "Norms, embeddings and modules of the caller's own have parameters too. A list of layer types misses some.",
            "Print the names of the parameters that are still flagged, and the types of their modules.",
        ),
        "weights": Misconception(
            "Freezing the weights is enough",
            "Biases, scales and norms have parameters under other names. They train on, and the features move.",
            "Print the names of the parameters that are still flagged.",
        ),
        "elsewhere": Misconception(
            "What I lower the flag of is the parameter",
            "No parameter's flag has changed. `state_dict()`, `.data`, `.detach()` and copies give *other* tensors, "
            "whose flags are their own; hooks, modes and cleared gradients are no flags at all.",
            "Compare `id` of what you lower the flag of with that of `module.weight`.",
        ),
        "toggle": Misconception(
            "Freezing turns the flag over",
            "A parameter that was frozen before is now trained again. Freezing twice must leave it frozen.",
            "Call your function twice.",
        ),
        "stale": Misconception(
            "A lowered flag stops the optimizer",
            "The optimizer looks at `.grad`, not at the flag. A gradient from before the freeze moves the weight at "
            "the next step.",
            "Print `.grad` of a parameter after your function, when there was a backward before it.",
        ),
        "zeros": Misconception(
            "A gradient of zeros moves nothing",
            "Momentum and weight decay move a weight whose gradient is zero. Only None makes the optimizer pass over "
            "it.",
            "Take a step with momentum after your function, and compare the weights.",
        ),
        "none": Misconception(
            "Every parameter has a .grad",
            "Before the first backward, and for what was frozen already, `.grad` is None. None has no methods.",
            "Call your function on a new module.",
        ),
        "copy": Misconception(
            "I return a frozen copy",
            "The caller's module is in their optimizer and in their model. They asked for that very object, frozen.",
            "Check `freeze(module) is module`.",
        ),
        "no_grad": Misconception(
            "A frozen module runs under no_grad",
            "`no_grad` cuts the path, so nothing *before* the module learns any more. A frozen module still hands "
            "gradients on to its input.",
            "Give the module a flagged input, and look at the input's gradient.",
        ),
        **_REST_MISCONCEPTIONS,
    },
    raises=(("'NoneType' object", "none"), ("floating point", "toggle")),
)


class _Net(nn.Module):
    """Parameters of its own and at three depths, batch norm, buffers, one of them flagged, a whole-number parameter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.table = nn.Parameter(torch.arange(3), requires_grad=False)
        self.register_buffer("offset", torch.ones(width, dtype=torch.float64, requires_grad=True))
        self.stem = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
        self.out = nn.Linear(width, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Sequential(nn.Linear(width, width)), nn.Tanh()) for _ in range(2))


def _net(trial: Trial) -> _Net:
    net = _Net(trial.integer(2, 4)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.is_floating_point():
                parameter.copy_(trial.randn(*parameter.shape))
    net.stem[1].running_mean.copy_(trial.randn(*net.scale.shape))
    net.blocks[0].eval()
    return net


def _frozen(trial: Trial, module: nn.Module, show: str = "freeze(module)") -> Any:
    """Calls the answer, and returns what it returned. The module's parameters must be frozen afterwards."""
    before = {name: parameter.requires_grad for name, parameter in module.named_parameters()}
    training = [submodule.training for submodule in module.modules()]
    result = trial.call(module, may_change=(module,), show=show)
    flagged = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    if flagged:
        changed = [submodule.training for submodule in module.modules()] != training
        key = "eval" if changed else _why_flagged(module, before, flagged, result)
        raise Missed(key, expected="no parameter that requires grad", still_flagged=", ".join(flagged[:4]))
    return result


def _why_flagged(module: nn.Module, before: Mapping[str, bool], flagged: list[str], result: Any) -> str:
    if any(not before[name] for name in flagged):
        return "toggle"
    lowered = [name for name, flag in before.items() if flag and name not in flagged]
    if lowered:
        deepest = max(name.count(".") for name in flagged)
        if deepest == 0:
            return "own forgotten"
        if all(name.endswith("weight") for name in lowered):
            return "weights"
        return "shallow" if deepest > max(name.count(".") for name in lowered) else "kinds"
    if any("requires_grad" in vars(submodule) for submodule in module.modules()):
        return "attribute"
    if any(vars(parameter) for parameter in module.parameters()):
        return "misspelt"
    if isinstance(result, nn.Module) and result is not module:
        return "copy"
    return "own forgotten" if not list(module.children()) else "elsewhere"


def _fill_gradients(trial: Trial, module: nn.Module) -> None:
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.grad = trial.randn(*parameter.shape).to(parameter)


@freeze.claim("lowers the flag of every parameter, however deep", weight=2, gate=True)
def _(trial: Trial) -> None:
    _frozen(trial, _net(trial))
    single = trial.fill(nn.Linear(trial.integer(2, 4), 2))
    _frozen(trial, single, "freeze(nn.Linear(...))")
    _frozen(trial, nn.Sequential(nn.Tanh()), "freeze(a module without parameters)")
    partly = _net(trial)
    partly.scale.requires_grad_(False)
    partly.stem[0].weight.requires_grad_(False)
    _frozen(trial, partly, "freeze(a module that is partly frozen)")


@freeze.claim("drops gradients from before, so that no optimizer moves a weight", weight=3)
def _(trial: Trial) -> None:
    net = _net(trial)
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9, weight_decay=0.1)
    _fill_gradients(trial, net)
    optimizer.step()  # fills the momentum
    net.scale.requires_grad_(False)  # frozen by somebody else, and its gradient forgotten
    net.stem[0].bias.grad = None
    _frozen(trial, net, "freeze(module) after a backward")
    before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    left = [name for name, parameter in net.named_parameters() if parameter.grad is not None]
    optimizer.step()
    moved = [name for name, parameter in net.named_parameters() if not torch.equal(parameter.detach(), before[name])]
    if left:
        gradients = [dict(net.named_parameters())[name].grad for name in left]
        key = "stale" if any(gradient.any() for gradient in gradients) else "zeros"
        raise Missed(
            key, expected="every .grad None", not_None=", ".join(left[:4]), moved_by_a_step=f"{len(moved)} tensors"
        )
    if moved:
        raise Missed("replaced", expected="the same weights after a step", got=f"{moved[0]} moved")


@freeze.claim("leaves parameters, buffers and training flags as they are", weight=0.5)
def _(trial: Trial) -> None:
    net = _net(trial)
    _fill_gradients(trial, net)
    rest = _Rest(net)
    _frozen(trial, net)
    rest.judge()


@freeze.claim("lets gradients pass through to what comes before", weight=0.5)
def _(trial: Trial) -> None:
    width = trial.integer(2, 4)
    net = trial.fill(nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Sequential(nn.Linear(width, 2))).double())
    x = trial.randn(trial.integer(4, 6), 3, requires_grad=True)
    (expected,) = torch.autograd.grad(net(x).square().sum(), x)
    _frozen(trial, net)
    out = net(x)
    if not out.requires_grad:
        raise Missed("no_grad", expected="an output with a path to the flagged input", got="an output without history")
    (got,) = torch.autograd.grad(out.square().sum(), x, allow_unused=True)
    if got is None or not torch.allclose(got, expected):
        raise Missed("no_grad", expected="the gradient of the input as before", got="another gradient")


@freeze.claim("returns the module it was given, and may be called twice", weight=1)
def _(trial: Trial) -> None:
    net = _net(trial)
    rest = _Rest(net)
    for time in ("first", "second"):
        result = _frozen(trial, net, f"freeze(module), the {time} time")
        if result is None:
            raise Missed("no return value", expected="the module itself", got="None")
        if result is not net:
            key = "copy" if isinstance(result, nn.Module) else ""
            raise Missed(key, expected="the module itself", got=f"another {type(result).__name__}")
    rest.judge()


# ------------------------------------------------------------------------------------------------ finetune_parameters

finetune_parameters = Exercise(
    name="finetune_parameters",
    points=2,
    hints=(
        "Settle the name first, before any flag is touched. `named_modules()` lists every name that there is; so does "
        "`get_submodule`, in its own way. What do both make of the empty name?",
        "Once you hold the submodule, its own `parameters()` says which tensors are meant. Compare tensors by identity "
        "(`id` or `is`), not by the beginning of their names.",
        "Freeze everything, then raise the flags of the chosen ones: that settles shared weights as well. Whose "
        "`.grad` must survive this?",
    ),
    misconceptions={
        "prefix": Misconception(
            "A name that begins with encoder belongs to the encoder",
            "`encoder2.weight` begins with `encoder` too. A submodule's parameters are those that it holds, whatever "
            "they are called.",
            "Try a model with the submodules `encoder` and `encoder2`.",
        ),
        "not raised": Misconception(
            "What I do not freeze will train",
            "Somebody may have frozen it before, as in the second stage of any fine-tuning. The chosen part has to be "
            "flagged afterwards, whatever it was.",
            "Freeze the whole model, then call your function.",
        ),
        "rest trains": Misconception(
            "Only what is in the optimizer trains, so flags do not matter",
            "Flags decide what is recorded and which gradients are computed. What is not chosen has to be frozen, "
            "whichever module holds it.",
            "Print the names of all flagged parameters after your function.",
        ),
        "attribute": Misconception(
            "module.requires_grad = False freezes the module",
            "A module has no such switch. The line makes a new Python attribute that nobody reads, and every parameter "
            "keeps its own flag.",
            "Print the names of all flagged parameters after your function.",
        ),
        "root": Misconception(
            "Parameters live in submodules",
            "The model itself can own a parameter, beside its submodules. It is not part of the chosen one, so it has "
            "to be frozen.",
            "Give the model an `nn.Parameter` of its own.",
        ),
        "no parameters": Misconception(
            "A submodule without parameters is none",
            "An activation is a submodule like any other. Its list of parameters is empty, and everything else is "
            "frozen.",
            "Choose the activation of a model.",
        ),
        "children": Misconception(
            "A submodule is a direct child",
            '`"decoder.head"` names a submodule inside a submodule. The dots lead down, one level each.',
            'Call your function with `"decoder.head"`.',
        ),
        "shared": Misconception(
            "A parameter has one name",
            "Two modules can share a weight. `named_parameters()` lists it once, under the first name; it belongs to "
            "the chosen submodule all the same.",
            "Tie a weight of the decoder to one of the encoder, and look at its flag.",
        ),
        "twice": Misconception(
            "A shared weight is two parameters",
            "It is one tensor. An optimizer that gets it twice warns or refuses, and would step it twice.",
            "Compare `len(result)` with `len(set(result))`.",
        ),
        "no list": Misconception(
            "parameters() is a list",
            "It is a generator: whoever reads it first empties it. The optimizer then finds no parameter.",
            "Call `list()` on your result twice.",
        ),
        "pairs": Misconception(
            "named_parameters() gives parameters",
            "It gives pairs of name and parameter. The caller wants the parameters alone.",
            "Print the type of the first element that you return.",
        ),
        "everything": Misconception(
            "The optimizer may get everything",
            "The result is what the optimizer gets: the chosen submodule's parameters and no others.",
            "Compare the number of parameters you return with those of the submodule.",
        ),
        "stale": Misconception(
            "A lowered flag stops the optimizer",
            "An optimizer looks at `.grad`. One that still holds a frozen parameter applies the gradient from before.",
            "Print `.grad` of the frozen parameters after your function.",
        ),
        "no gradient": Misconception(
            "Every parameter has a .grad",
            "Before the first backward, and for what was frozen already, `.grad` is None. None has no methods.",
            "Call your function on a new model.",
        ),
        "cleared": Misconception(
            "A new stage starts with every gradient cleared",
            "Only the others' gradients are stale. What the chosen part has gathered is still good, and the contract "
            "leaves it.",
            "Print `.grad` of the chosen parameters before and after.",
        ),
        "silent": Misconception(
            "A wrong name trains nothing, so it does no harm",
            "The training runs on with everything frozen, and the loss stands still. An error at once says what is "
            "wrong.",
            'Call your function with `"decodr"`.',
        ),
        "empty name": Misconception(
            "The empty name is no name",
            '`get_submodule("")` and `named_modules()` know it: it is the model itself. The contract asks for a '
            "submodule.",
            'Call your function with `""`.',
        ),
        "parameter's name": Misconception(
            "A parameter's name will do",
            "`decoder.head.weight` is a parameter and `decoder.forward` a method. Neither is a submodule.",
            'Call your function with `"decoder.head.weight"`.',
        ),
        "error type": Misconception(
            "Any error will do",
            "The caller catches ValueError. AttributeError and KeyError say how you looked the name up, which is no "
            "concern of theirs.",
            "Look at the type of what your function raises.",
        ),
        "message": Misconception(
            "The error says enough by its type",
            "Whoever mistypes a name wants to know which ones there are. The message has to name the direct "
            "submodules.",
            "Read your message as somebody who has never seen the model.",
        ),
        "half done": Misconception(
            "An error undoes what was done before it",
            "Flags that were lowered and gradients that were dropped stay so. Check the name first.",
            "Call your function with a wrong name, and print the flags.",
        ),
        **_REST_MISCONCEPTIONS,
    },
    raises=(
        ("'NoneType' object", "no gradient"),
        ("'tuple' object has no attribute", "pairs"),
    ),
)


class _Model(nn.Module):
    """Names that begin alike, two levels, a parameter of its own, batch norm, one weight in two places."""

    def __init__(self, width: int, tied: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.encoder = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Tanh())
        self.encoder2 = nn.Linear(width, width)
        self.decoder = nn.Module()
        self.decoder.hidden = nn.Linear(width, width)
        self.decoder.head = nn.Linear(width, width)
        self.decoder.headless = nn.Linear(width, width)
        self.activation = nn.Tanh()
        if tied:
            self.decoder.head.weight = self.encoder2.weight
            self.decoder.headless.weight = self.decoder.hidden.weight


def _model(trial: Trial, tied: bool = False) -> _Model:
    model = trial.fill(_Model(trial.integer(2, 4), tied).double())
    model.encoder[1].running_mean.copy_(trial.randn(*model.scale.shape))
    _fill_gradients(trial, model)
    model.encoder[1].eval()
    return model


def _finetune(trial: Trial, model: nn.Module, name: str, show: str = "") -> Any:
    return trial.call(model, name, may_change=(model,), show=show or f"finetune_parameters(model, {name!r})")


def _flagged(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters(remove_duplicate=False) if parameter.requires_grad]


def _phrase(error: BaseException) -> bool:
    """Whether the error is one that the exercise knows by its message."""
    return any(phrase in str(error) for phrase, _ in finetune_parameters.raises)


def _judge_flags(trial: Trial, model: nn.Module, name: str, show: str = "") -> Any:
    """Calls the answer; the submodule's parameters, and no others, must be flagged afterwards. Returns its result."""
    before = dict(model.named_parameters(remove_duplicate=False))
    try:
        result = _finetune(trial, model, name, show)
    except AnswerRaised as raised:
        looked_up = isinstance(raised.error, (ValueError, AttributeError, KeyError))
        if not looked_up or _phrase(raised.error) or not ("." in name or name == "activation"):
            raise
        key = "children" if "." in name else "no parameters"
        kind = type(raised.error).__name__
        raise Missed(key, expected=f"the parameters of {name}", raised=f"{kind}: {str(raised.error)[:80]}") from None
    chosen = {id(parameter) for parameter in model.get_submodule(name).parameters()}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    if any(parameters.get(key) is not value for key, value in before.items()):
        raise Missed("replaced", expected="the parameters that were there", got="other objects in their place")
    extra = [key for key in _flagged(model) if id(parameters[key]) not in chosen]
    missing = [key for key, value in parameters.items() if id(value) in chosen and not value.requires_grad]
    if missing:
        names = [key for key, value in parameters.items() if value is parameters[missing[0]]]
        key = "shared" if len(names) > 1 else "not raised"
        raise Missed(key, expected=f"the parameters of {name} flagged", not_flagged=", ".join(missing[:4]))
    if extra:
        if any("requires_grad" in vars(submodule) for submodule in model.modules()):
            key = "attribute"
        elif all("." not in key for key in extra):
            key = "root"
        else:
            alike = all(key.startswith(name) and not key.startswith(f"{name}.") for key in extra)
            key = "prefix" if alike else "rest trains"
        raise Missed(key, expected=f"only the parameters of {name} flagged", flagged_too=", ".join(extra[:4]))
    return result


@finetune_parameters.claim("flags the parameters of the submodule, and no others", weight=2, gate=True)
def _(trial: Trial) -> None:
    for name in ("decoder", "encoder", "decoder.head", "encoder.0", "activation"):
        _judge_flags(trial, _model(trial), name)
    model = _model(trial)
    _judge_flags(trial, model, "encoder")
    _judge_flags(trial, model, "decoder", "finetune_parameters(model, 'decoder') after 'encoder'")


@finetune_parameters.claim("returns a list of them, once each, also where weights are shared", weight=2)
def _(trial: Trial) -> None:
    for tied in (False, True):
        for name in ("decoder", "encoder2", "decoder.head", "activation"):
            model = _model(trial, tied)
            show = f"finetune_parameters(model with shared weights, {name!r})" if tied else ""
            _judge_list(_judge_flags(trial, model, name, show), model, model.get_submodule(name))


def _judge_list(result: Any, model: nn.Module, submodule: nn.Module) -> None:
    expected = list(submodule.parameters())
    if result is None:
        raise Missed("no return value", expected=f"a list of {len(expected)} parameters", got="None")
    if not isinstance(result, list):
        key = "no list" if isinstance(result, Iterator) else ""
        raise Missed(key, expected="a list", got=type(result).__name__)
    if not all(isinstance(value, Tensor) for value in result):
        wrong = next(value for value in result if not isinstance(value, Tensor))
        raise Missed("pairs" if isinstance(wrong, (tuple, str)) else "", expected="parameters", got=wrong)
    got, wanted = [id(value) for value in result], {id(value) for value in expected}
    if set(got) != wanted:
        own = {id(value) for value in model.parameters()}
        if not set(got) <= own:
            key = "replaced"
        elif wanted < set(got):
            key = "everything"
        else:
            key = "shared" if got and len(set(got) & wanted) < len(wanted) else ""
        raise Missed(key, expected=f"the {len(wanted)} parameters of the submodule", got=f"another {len(set(got))}")
    if len(got) != len(wanted):
        raise Missed("twice", expected=f"{len(wanted)} parameters, once each", got=f"{len(got)}")


@finetune_parameters.claim("drops the others' gradients, and leaves the chosen ones'", weight=2)
def _(trial: Trial) -> None:
    for name, tied in (("decoder", True), ("encoder", False), ("decoder.head", False)):
        model = _model(trial, tied)
        model.scale.requires_grad_(False)  # frozen before, its gradient forgotten
        model.encoder[0].bias.grad = model.decoder.hidden.bias.grad = None
        chosen = {id(parameter) for parameter in model.get_submodule(name).parameters()}
        before = {id(parameter): parameter.grad for parameter in model.parameters()}
        values = {key: gradient.clone() for key, gradient in before.items() if gradient is not None}
        _judge_flags(trial, model, name)
        for key, parameter in model.named_parameters():
            gradient = parameter.grad
            if id(parameter) not in chosen:
                if gradient is not None:
                    raise Missed("stale", expected=f"{key}.grad None", got="a gradient" if gradient.any() else "zeros")
            elif (gradient is None) != (before[id(parameter)] is None) or (
                gradient is not None and not torch.equal(gradient, values[id(parameter)])
            ):
                raise Missed("cleared", expected=f"{key}.grad as it was", got=gradient)


@finetune_parameters.claim("leaves parameters, buffers and training flags as they are", weight=0.5)
def _(trial: Trial) -> None:
    model = _model(trial)
    rest = _Rest(model)
    _judge_flags(trial, model, "decoder")
    rest.judge()


# Each of them looks like a submodule to some way of looking names up.
_NO_SUBMODULES = {
    "decodr": "silent",
    "enc": "silent",
    "decoder.body": "silent",
    "": "empty name",
    "decoder.head.weight": "parameter's name",
    "scale": "parameter's name",
    "encoder.1.running_mean": "parameter's name",
    "training": "parameter's name",
}


@finetune_parameters.claim("raises ValueError for a name that is no submodule, names those there are", weight=2)
def _(trial: Trial) -> None:
    for name, misconception in _NO_SUBMODULES.items():
        model = _model(trial)
        before = _state(model)
        try:
            got = _finetune(trial, model, name)
        except AnswerRaised as raised:
            message, kind = str(raised.error), type(raised.error).__name__
            if not isinstance(raised.error, ValueError):
                raise Missed("error type", expected="ValueError", got=f"{kind}: {message[:80]}") from None
        else:
            raise Missed(misconception, expected="ValueError", got=got)
        unnamed = [child for child, _ in model.named_children() if child not in message]
        if unnamed:
            raise Missed("message", expected=f"a message that names {', '.join(unnamed)}", got=message[:120])
        if _state(model) != before:
            raise Missed("half done", expected="a model as it was", got="changed flags or gradients")


def _state(model: nn.Module) -> list[tuple[str, bool, bool, bool]]:
    """Flags, whether there is a gradient, and whether it holds anything: by parameter."""
    return [
        (name, parameter.requires_grad, gradient is not None, gradient is not None and bool(gradient.any()))
        for name, parameter in model.named_parameters()
        for gradient in [parameter.grad]
    ]


# ----------------------------------------------------------------------------------------------------- input_gradient

input_gradient = Exercise(
    name="input_gradient",
    points=2,
    hints=(
        "You need a flagged tensor with the values of `x` that is not `x`. What does a detached tensor lend itself to?",
        "`backward()` fills every `.grad` that it can reach. `torch.autograd.grad` hands you the gradients that you "
        "name, and fills none.",
        "Inside the caller's `no_grad` nothing is recorded, so switch recording on for your own lines, with a context "
        "manager that switches back.",
    ),
    misconceptions={
        "unflagged": Misconception(
            "A gradient can be taken with respect to any tensor",
            "Data comes with its flag down, so nothing leads back to it: there is no gradient to read.",
            "Print `requires_grad` of the tensor that you differentiate by, before the model runs.",
        ),
        "mean": Misconception(
            "The mean has the same gradient as the sum",
            "The mean divides by the number of outputs, or of rows, and so does its gradient.",
            "Compare with the sum's gradient on a model that you can work out by hand.",
        ),
        "part": Misconception(
            "One output stands for all",
            "The sum is taken over all outputs: every row and every column has its share in the gradient.",
            "Try a batch of two rows, and look at the gradient of each.",
        ),
        "output": Misconception(
            "The gradient is what the model returns",
            "The model returns values. Its gradient says how their sum changes when `x` does, and has the shape of "
            "`x`.",
            "Try a model that doubles its input: the gradient is 2 everywhere.",
        ),
        "absolute": Misconception(
            "A saliency map is the gradient",
            "Maps in papers often show the absolute value. The contract asks for the derivative, sign included.",
            "Try a model that multiplies by -1.",
        ),
        "history": Misconception(
            "A gradient is only a number",
            "With `create_graph=True`, or inside `torch.func`, the gradient is recorded as well: it keeps the whole "
            "graph of the model alive.",
            "Print `requires_grad` of what you return.",
        ),
        "x changed": Misconception(
            "x is mine to flag",
            "`x` belongs to the caller, and so do its flag and its `.grad`. Left flagged, everything that they compute "
            "from it is recorded from now on.",
            "Print `x.requires_grad` and `x.grad` before and after.",
        ),
        "accumulated": Misconception(
            "x.grad is the gradient of my call",
            "`.grad` adds up. What was in it before your call is in your result.",
            "Call your function twice on the same flagged `x`.",
        ),
        "non-leaf": Misconception(
            "Every flagged tensor gets a .grad",
            "Only leaves do. If `x` was itself computed from something flagged, `.grad` stays None; and gradients run "
            "on into the caller's graph.",
            "Call your function with `w * 2`, where `w` requires grad.",
        ),
        "fills": Misconception(
            "backward() gives the gradient that I look at",
            "It gives every gradient that it can reach: the parameters' `.grad` too. The caller's next optimizer step "
            "would use them.",
            "Print `.grad` of the model's parameters after your function.",
        ),
        "clears": Misconception(
            "zero_grad() tidies up after me",
            "It also throws away what the caller had gathered there before your call.",
            "Give the parameters a `.grad`, call your function, and compare.",
        ),
        "flags": Misconception(
            "I may freeze the model for my purpose",
            "Flags are the caller's. A model that is still frozen after your call stops training without a word.",
            "Compare the flags before and after, also when the model raises.",
        ),
        "frozen": Misconception(
            "A frozen model has no gradients",
            "Its parameters get none. The input can still be flagged, and then the path from output to input is "
            "recorded.",
            "Draw the graph of a frozen model's output for a flagged input.",
        ),
        "no_grad": Misconception(
            "Inside no_grad there are no gradients",
            "Nothing is recorded while grad mode is off. But grad mode can be switched on again inside, for the few "
            "lines that need it.",
            "Call your function inside `with torch.no_grad():`.",
        ),
        "mode left": Misconception(
            "The grad mode is mine to set",
            "The caller works under `no_grad` for a reason. Left on, everything after your call is recorded.",
            "Print `torch.is_grad_enabled()` before and after your call, inside `no_grad`.",
        ),
        "eval": Misconception(
            "A gradient is taken in eval mode",
            "The contract asks for the gradient of the model as it is. In eval mode it is another function.",
            "Take out the `eval()`.",
        ),
        "swallowed": Misconception(
            "An error of the model means no gradient",
            "What the model raises is the caller's to handle. Hidden, it comes back later as a wrong map.",
            "Take out the `except`.",
        ),
    },
    raises=(
        ("differentiated Tensors does not require grad", "unflagged"),
        ("only Tensors of floating point dtype", "unflagged"),
        ("leaf variables", "non-leaf"),
        ("deepcopy protocol", "non-leaf"),
        ("appears to not have been used in the graph", "unflagged"),
        ("does not require grad", "no_grad"),
    ),
    effects=(
        ("grad mode", "mode left"),
        ("left model in", "eval"),
        ("set model", "flags"),
        ("cleared model", "clears"),
        ("filled model", "fills"),
        ("changed model", "fills"),
        ("edited x", "x changed"),
        ("x.requires_grad", "x changed"),
        ("x.grad", "x changed"),
        ("history of x", "x changed"),
    ),
)


class _Mode(nn.Module):
    """Doubles its input in training mode alone, as dropout and batch norm behave differently in the two modes."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if self.training else x


def _network(trial: Trial, width: int, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Some parameters frozen, some with a gradient from before, some with none."""
    hidden = trial.integer(3, 5)
    layers = [nn.Linear(width, hidden), nn.Tanh(), _Mode(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 3)]
    model = trial.fill(nn.Sequential(*layers).to(dtype))
    model[0].weight.grad = trial.randn(*model[0].weight.shape, dtype=dtype)
    model[5].bias.grad = trial.randn(3, dtype=dtype)
    model[3].bias.requires_grad_(False)
    return model


def _true_gradient(model: nn.Module, x: Tensor) -> Tensor:
    inner = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(inner).sum(), inner)[0]


def _shapes(trial: Trial) -> Iterator[tuple[int, ...]]:
    width = trial.integer(2, 5)
    yield from ((trial.integer(2, 5), width), (width,), (2, trial.integer(2, 3), width))


def _one_shape(trial: Trial) -> tuple[int, ...]:
    """For claims that the shape has no part in: one of the shapes, by chance."""
    return list(_shapes(trial))[trial.integer(0, 2)]


def _close(got: Tensor, expected: Tensor) -> bool:
    # Wide enough for central differences in float64, and for another order of sums in float32.
    return torch.allclose(got.detach().to(expected), expected, rtol=1e-4, atol=1e-6)


def _call(
    trial: Trial, model: nn.Module, x: Tensor, show: str = "", within: AbstractContextManager | None = None
) -> Any:
    """Calls the answer. Its arguments are reported as ``model`` and ``x``, whatever it calls them."""
    return trial.run(
        lambda: trial.answer(model, x),
        called=show or f"input_gradient(model, x of shape {tuple(x.shape)})",
        watch={"model": model, "x": x},
        within=within,
    )


def _effect_key(effect: str) -> str:
    return next((key for phrase, key in input_gradient.effects if phrase in effect), "")


def _gradient_of(
    trial: Trial, model: nn.Module, x: Tensor, show: str = "", within: AbstractContextManager | None = None
) -> Tensor:
    """Calls the answer and compares with the live engine."""
    expected = _true_gradient(model, x)
    start = x.grad.clone() if x.is_leaf and x.grad is not None else None
    with torch.no_grad():
        output = model(x)
    result = _call(trial, model, x, show, within)
    if result is None and not x.is_leaf:
        raise Missed("non-leaf", expected=f"a gradient of shape {tuple(x.shape)}", got="None")
    if result is None and not x.requires_grad and _works_when_flagged(trial, model, x):
        raise Missed("unflagged", expected=f"a gradient of shape {tuple(x.shape)}", got="None")
    got = trial.tensor(result)
    if got.shape == x.shape and _close(got, expected):
        if got.dtype != x.dtype:
            raise Missed(expected=str(x.dtype), got=str(got.dtype))
        return got
    key = ""
    if start is not None and got.shape == x.shape and _close(got, expected + start):
        key = "accumulated"
    elif got.shape == x.shape and _close(got, expected.abs()):
        key = "absolute"
    elif got.shape == x.shape and any(_close(got * count, expected) for count in range(2, output.numel() + 1)):
        key = "mean"
    elif got.shape == x.shape and any(_close(got, gradient) for gradient in _gradients_of_parts(model, x)):
        key = "part"
    elif got.numel() in (1, output.numel()) and _close(got, output if got.dim() else output.sum()):
        key = "output"
    elif got.shape == x.shape and _close(got, _in_eval_mode(model, x)):
        key = "eval"
    if got.shape != x.shape:
        raise Missed(key, expected=f"shape {tuple(x.shape)}", got=f"shape {tuple(got.shape)}")
    raise Missed(key, expected=_numbers(expected), got=_numbers(got))


def _numbers(values: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in values.detach().flatten()[:3].tolist()) + ", ..."


def _gradients_of_parts(model: nn.Module, x: Tensor) -> Iterator[Tensor]:
    inner = x.detach().clone().requires_grad_()
    output = model(inner)
    for part in (output.flatten()[0], output[0].sum(), output[..., 0].sum(), output.max(), output.amax(-1).sum()):
        yield torch.autograd.grad(part, inner, retain_graph=True)[0]


def _works_when_flagged(trial: Trial, model: nn.Module, x: Tensor) -> bool:
    flagged = x.detach().clone().requires_grad_()
    called, effects = trial.called, list(trial.effects)
    try:
        return isinstance(_call(trial, model, flagged), Tensor)
    except AnswerRaised:
        return False
    finally:
        trial.called, trial.effects[:] = called, effects


def _in_eval_mode(model: nn.Module, x: Tensor) -> Tensor:
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        return _true_gradient(model, x)
    finally:
        for module, training in flags:
            module.training = training


@input_gradient.claim("is d model(x).sum() / dx, with the shape and dtype of `x`", weight=2, gate=True)
def _(trial: Trial) -> None:
    for shape in _shapes(trial):
        _gradient_of(trial, _network(trial, shape[-1]).eval(), trial.randn(*shape))
    x = trial.randn(3, 4, dtype=torch.float32)
    _gradient_of(trial, _network(trial, 4, torch.float32).eval(), x)


@input_gradient.claim("leaves `x`, its flag and its `.grad` alone, whatever they are", weight=2)
def _(trial: Trial) -> None:
    for shape in _shapes(trial):
        model = _network(trial, shape[-1]).eval()
        leaf = trial.randn(*shape, requires_grad=True)
        leaf.grad = trial.randn(*shape)
        source = trial.randn(*shape, requires_grad=True)
        for x in (
            trial.randn(*shape),
            leaf,
            trial.randn(*shape, requires_grad=True),
            source * 2,
            (source * 2).view(shape),
        ):
            _gradient_of(trial, model, x)
            changes = [effect for effect in trial.effects if _effect_key(effect) == "x changed"]
            if source.grad is not None:
                changes.append("filled the .grad of what x was computed from")
                source.grad = None
            if changes:
                key = "non-leaf" if "computed" in changes[0] else "x changed"
                raise Missed(key, expected="x as it was", got=f"the answer {changes[0]}")


@input_gradient.claim("has no history", weight=1)
def _(trial: Trial) -> None:
    shape = _one_shape(trial)
    for x in (
        trial.randn(*shape),
        trial.randn(*shape, requires_grad=True),
        trial.randn(*shape, requires_grad=True) * 2,
    ):
        got = _plain_call(trial, _network(trial, shape[-1]), x)
        if got.requires_grad:
            found = got.grad_fn.name() if got.grad_fn is not None else "a flagged leaf"
            raise Missed("history", expected="no history", got=found)


def _plain_call(trial: Trial, model: nn.Module, x: Tensor) -> Tensor:
    result = _call(trial, model, x)
    if result is None:
        raise Missed("non-leaf" if not x.is_leaf else "no return value", expected="a gradient", got="None")
    return trial.tensor(result, shape=x.shape)


@input_gradient.claim("touches no parameter's `.grad` or flag, and takes the model as it is", weight=3)
def _(trial: Trial) -> None:
    shape = _one_shape(trial)
    model = _network(trial, shape[-1])
    _gradient_of(trial, model, trial.randn(*shape))
    changes = [effect for effect in trial.effects if "model" in effect]
    if changes:
        raise Missed(_effect_key(changes[0]), expected="a model as it was", got=f"the answer {changes[0]}")


@input_gradient.claim("works for a frozen model", weight=1)
def _(trial: Trial) -> None:
    shape = _one_shape(trial)
    model = _network(trial, shape[-1]).requires_grad_(False)
    for x in (trial.randn(*shape), trial.randn(*shape, requires_grad=True)):
        try:
            _gradient_of(trial, model, x, show="input_gradient(a frozen model, x)")
        except AnswerRaised as raised:
            if "does not require grad" not in str(raised.error):
                raise
            raise Missed("frozen", expected="a gradient", raised=str(raised.error)[:90]) from None
        except Missed as missed:
            if missed.misconception:
                raise
            raise Missed("frozen", expected="the gradient that leads to x", got="another tensor") from None


@contextmanager
def _callers_no_grad() -> Iterator[None]:
    """``no_grad`` as the caller's own mode: it must still be off when the answer has returned."""
    with torch.no_grad():
        try:
            yield
        finally:
            if torch.is_grad_enabled():
                raise Missed("mode left", expected="grad mode still off after the call", got="grad mode on")


@input_gradient.claim("works inside the caller's `no_grad`", weight=2)
def _(trial: Trial) -> None:
    shape = _one_shape(trial)
    for frozen in (False, True):
        model = _network(trial, shape[-1]).requires_grad_(not frozen)
        for x in (trial.randn(*shape), trial.randn(*shape, requires_grad=True)):
            got = _inside_no_grad(trial, model, x)
            if got.requires_grad:
                raise Missed("history", expected="no history", got="a flagged result")


def _inside_no_grad(trial: Trial, model: nn.Module, x: Tensor) -> Tensor:
    try:
        return _gradient_of(trial, model, x, within=_callers_no_grad(), show="input_gradient(model, x) under no_grad()")
    except AnswerRaised as raised:
        if isinstance(raised.error, Missed):
            raise raised.error from None
        raise


class _Broken(Exception):
    """What a model raises in a check."""


class _Breaks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise _Broken("this model cannot run")


@input_gradient.claim("lets through what the model raises, and puts back what it changed", weight=1)
def _(trial: Trial) -> None:
    for within in (None, _callers_no_grad()):
        model = _network(trial, 4).append(_Breaks())
        x = trial.randn(3, 4)
        try:
            got = _call(trial, model, x, "input_gradient(a model that raises, x)", within)
        except AnswerRaised as raised:
            if isinstance(raised.error, Missed):
                raise raised.error from None
            if not isinstance(raised.error, _Broken):
                raise Missed(expected="the model's error", got=f"{type(raised.error).__name__}") from None
        else:
            raise Missed("swallowed", expected="the model's error", got=got)
        if trial.effects:
            effect = trial.effects[0]
            raise Missed(_effect_key(effect), expected="everything put back", got=f"the answer {effect}")


EXERCISES = (predicted_flags, will_require_grad, freeze, finetune_parameters, input_gradient)
