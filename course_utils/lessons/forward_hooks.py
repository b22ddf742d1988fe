"""Lesson 07, forward hooks: its exercises, what they claim, and the misconceptions that they recognise."""

import copy
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.base.text import format_bytes
from course_utils.checks.claims import Unlucky, same
from course_utils.checks.exercise import Exercise, Misconception, Missed, Trial
from course_utils.checks.state import hook_count
from course_utils.checks.trial import AnswerRaised

# ----------------------------------------------------------------------------------- what several exercises look at


def _exactly(got: Tensor, expected: Tensor) -> bool:
    return got.shape == expected.shape and got.dtype == expected.dtype and torch.equal(got, expected)


def _expect_error(kind: type[Exception], call: Callable[[], Any], who: str) -> None:
    """The call lets an error of that kind through."""
    try:
        call()
    except AnswerRaised as raised:
        if not isinstance(raised.error, kind):
            got = f"{type(raised.error).__name__}: {raised.error}"[:120]
            raise Missed("swallowed", expected=f"the error of the {who}", got=got) from None
    else:
        raise Missed("swallowed", expected=f"the error of the {who}", got="no error")


def _expect_hooks(model: nn.Module, before: int, key: str) -> None:
    now = hook_count(model)
    if now != before:
        key = key if now > before else "cleared others"
        raise Missed(key, expected=f"hooks on the model: {before}, as before", got=f"{now}")


def _texts(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, names)) or "none"


_HOOKS = {
    "left on": Misconception(
        "A hook goes when the code that set it is done",
        "A hook lives on the module. It stays there, and is called at every forward pass, until its handle is removed, "
        "whatever becomes of the function or the object that registered it.",
        "Print `len(module._forward_hooks)` before and after.",
    ),
    "only without error": Misconception(
        "The lines at the end always run",
        "Where something raises on the way, they do not. The caller catches the error, and the hooks are still there.",
        "Let the forward pass raise, catch the error, and print `len(module._forward_hooks)`.",
    ),
    "swallowed": Misconception(
        "An error can be passed over",
        "What the model or the block raises is the caller's to handle. Passed over in silence, the caller goes on with "
        "results that are not there.",
        "Look for an `except`, or for an `__exit__` that returns True.",
    ),
    "cleared others": Misconception(
        "All hooks on the model are mine",
        "Others register hooks, too: a profiler, a second extractor, a pruning method. To empty the table of hooks, or "
        "to put back an old one, takes theirs away.",
        "Register a hook of your own before, run your answer, and see whether that hook is still called.",
    ),
}

# ----------------------------------------------------------------------------------------------------------- capture

capture = Exercise(
    name="capture",
    points=3,
    hints=(
        "Four questions: which modules, what does the hook keep, who takes the hooks away, and what if something "
        "raises in between? A handle from `register_forward_hook` answers the third.",
        "What the hook keeps must neither hang on the graph nor stand on the memory of the layer's output. And what "
        "the hook gives back replaces the output, so it gives back nothing.",
        "Look up every module before you register the first hook: then an unknown name leaves nothing behind. Collect "
        "the handles in a list, yield inside a `try`, and remove them in its `finally`.",
    ),
    misconceptions={
        "no context": Misconception(
            "A function that returns a dict can stand behind `with`",
            "`with` needs an object that has `__enter__` and `__exit__`. A function that yields becomes one through "
            "`contextlib.contextmanager`.",
            "Print the `type` of what your function returns.",
        ),
        "one name": Misconception(
            "A lambda in a loop remembers the loop's variable as it was",
            "Python looks the variable up when the lambda is called, and by then the loop is over: every hook writes "
            "under the last name.",
            "Print the keys of the dict after a forward pass.",
        ),
        "inputs": Misconception(
            "A hook's second argument is the output",
            "A forward hook is called with the module, the tuple of its positional arguments, and the output, in this "
            "order.",
            "Print the three arguments of the hook.",
        ),
        "late": Misconception(
            "The dict is wanted after the block alone",
            "The caller may read it in the block, too: after each batch, for example.",
            "Print the dict in the block, after a forward pass.",
        ),
        "lists": Misconception(
            "Every output is worth keeping",
            "The contract asks for one tensor a name, the newest. A list of all of them grows with every pass.",
            "Print one entry of the dict.",
        ),
        "emptied": Misconception(
            "What belongs to the block ends with the block",
            "The hooks end with it. The dict is what the caller came for, and is read afterwards.",
            "Print the dict after the block.",
        ),
        "first": Misconception(
            "An entry that is there is up to date",
            "A second forward pass, or a second call of the same module in one pass, has a newer output. The newest is "
            "asked for.",
            "Run the model twice in the block, on different inputs, and compare.",
        ),
        "replaced": Misconception(
            "What a forward hook returns is ignored",
            "Anything but None takes the place of the module's output. Hand back something detached, and the layers "
            "before it get no gradient.",
            "Compare the gradients of the first layer with and without the hooks.",
        ),
        "mode": Misconception(
            "The block of a context manager ends before the caller's",
            "A `with torch.no_grad()` that is open while your function waits at its `yield` reaches the caller's whole "
            "block: the mode belongs to the thread.",
            "Print `model(x).requires_grad` inside the caller's block.",
        ),
        "flags": Misconception(
            "Features are taken in eval mode, so I set it",
            "The caller runs the model, and may be training it. The contract leaves the training flags alone.",
            "Print `model.training` inside the block.",
        ),
        "graph": Misconception(
            "A feature hook only stores a tensor",
            "With its history the tensor holds the whole graph of its forward pass, and what that graph saved.",
            "Print `grad_fn` of an entry.",
        ),
        "alias": Misconception(
            "The captured tensor is the layer's output for good",
            "`detach()` and `.data` share the memory of the output. An in-place operation that comes later, such as "
            "`ReLU(inplace=True)`, writes over it.",
            "Capture a layer that an in-place ReLU follows, and look for negative values.",
        ),
        "half registered": Misconception(
            "An error on the way in takes back what was done before it",
            "`with` calls no `__exit__` where `__enter__` raised. What was registered before the unknown name stays "
            "registered.",
            "Ask for a good name and a bad one, catch the error, and count the hooks.",
        ),
        "no error": Misconception(
            "A name that is not there can be left out",
            "The caller misspelt it, and would look for the entry much later. The contract says `KeyError`.",
            'Ask for `"nowhere"`.',
        ),
        "other error": Misconception(
            "Any error tells that a name is unknown",
            "Callers catch what the contract names: `KeyError`. `get_submodule` and `getattr` raise AttributeError.",
            'Ask for `"nowhere"`, and look at the type of the error.',
        ),
    }
    | _HOOKS,
    raises=(
        ("contextmanager", "no context"),
        ("'generator' object", "no context"),
        ("argument 'input' (position 1) must be Tensor", "replaced"),
        ("object has no attribute 'detach'", "inputs"),
    ),
    effects=(("hook", "left on"), ("eval mode", "flags")),
)


def _layers(trial: Trial, *, inplace: bool = False) -> nn.Sequential:
    """A nested model of twelve columns. Takes three."""
    width = trial.integer(5, 9)
    encoder = nn.Sequential(nn.Linear(3, width), nn.ReLU(inplace=inplace), nn.Linear(width, 4))
    return trial.fill(nn.Sequential(OrderedDict(encoder=encoder, act=nn.Tanh(), head=nn.Linear(4, 2))).double())


def _outputs(model: nn.Sequential, x: Tensor, prefix: str = "") -> dict[str, Tensor]:
    """Every submodule's own output by dotted name, with its history; nothing that comes later has edited it."""
    found = {}
    for name, layer in model.named_children():
        if isinstance(layer, nn.Sequential):
            found |= _outputs(layer, x, f"{prefix}{name}.")
        x = layer(x.clone())
        found[prefix + name] = x.clone()
    return found


def _reference(model: nn.Sequential, x: Tensor) -> dict[str, Tensor]:
    twin = copy.deepcopy(model)
    with torch.no_grad():
        return _outputs(twin, x)


class _Session:
    """One ``with capture(model, names) as features`` and what could be seen in it.

    Attributes:
        inside: what ``features`` held at the end of the block.
        after: what it held when the block was over.
        result: what the block's body returned.
    """

    def __init__(self) -> None:
        self.made: Any = None
        self.entered = False
        self.features: Any = None
        self.inside: Any = None
        self.after: Any = None
        self.result: Any = None


def _session(
    trial: Trial, model: nn.Module, names: list[str], body: Callable[[], Any], *, show: str = "", others: Any = None
) -> _Session:
    """Runs ``body`` inside the answer's context manager.

    Raises:
        Missed: the answer is no context manager, or what it gives is no dict.
    """
    session = _Session()

    def drive() -> None:
        session.made = trial.answer(model, list(names))
        if not hasattr(type(session.made), "__enter__") or not hasattr(type(session.made), "__exit__"):
            return
        with session.made as session.features:
            session.entered = True
            session.result = body()
            session.inside = _shallow(session.features)
        session.after = _shallow(session.features)

    called = f"with capture(model, {names}): " + (show or "model(x)")
    trial.run(drive, called=called, watch={"model": model} if others is None else others)
    if not session.entered:
        key = "no return value" if session.made is None else "no context"
        raise Missed(key, expected="a context manager", got=type(session.made).__name__)
    return session


def _shallow(features: Any) -> Any:
    return dict(features) if isinstance(features, Mapping) else features


def _entries(trial: Trial, features: Any, names: Iterable[str]) -> dict[str, Tensor]:
    """The entries by name, all of them tensors."""
    if not isinstance(features, Mapping):
        key = "no return value" if features is None else ""
        raise Missed(key, expected="`as` gives a dict of tensors by name", got=features)
    if set(features) != set(names):
        key = "one name" if len(features) < len(set(names)) and set(features) <= {list(names)[-1]} and features else ""
        raise Missed(key, expected=f"entries: {_texts(sorted(names))}", got=_texts(sorted(map(str, features))))
    for name in names:
        if isinstance(features[name], (list, tuple)):
            raise Missed("lists", expected="one tensor a name", got=features[name])
    return {name: trial.tensor(features[name], what="one tensor a name") for name in names}


def _expect_entries(
    trial: Trial, features: Any, wanted: Mapping[str, Tensor], key: str, keys: Iterable[tuple[str, Tensor]] = ()
) -> None:
    for name, got in _entries(trial, features, wanted).items():
        if not same(got, wanted[name]):
            shown = f"the output of {name!r}, {_numbers(wanted[name])}"
            reading = next((other for other, value in keys if same(got, value)), key)
            raise Missed(reading, expected=shown, got=_numbers(got))


def _numbers(tensor: Tensor) -> str:
    values = tensor.detach().flatten()[:3].tolist()
    shown = ", ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in values)
    return f"shape {tuple(tensor.shape)}, values {shown} ..."


def _differing(got: Tensor, expected: Tensor) -> dict[str, str]:
    """Where two tensors of one shape differ most, for the card."""
    place = int((got.detach() - expected).abs().nan_to_num(torch.inf).argmax())
    index = [int(part) for part in torch.unravel_index(torch.tensor(place), expected.shape)]
    values = (tensor.detach().flatten()[place].item() for tensor in (expected, got))
    return {label: f"{value:.6f} at {index}" for label, value in zip(("expected", "got"), values, strict=True)}


def _some_names(trial: Trial, names: list[str], count: int) -> list[str]:
    names = list(names)
    return [names.pop(trial.integer(0, len(names) - 1)) for _ in range(count)]


_ALL_NAMES = ["encoder", "encoder.0", "encoder.1", "encoder.2", "act", "head"]


@capture.claim("gives a dict with each named submodule's output, in the block and after it", weight=0, gate=True)
def _(trial: Trial) -> None:
    for names in (["encoder.0", "head"], _some_names(trial, _ALL_NAMES, 3), ["act"]):
        model, x = _layers(trial), trial.randn(trial.integer(2, 5), 3)
        wanted = _reference(model, x)
        session = _session(trial, model, names, lambda model=model, x=x: model(x))
        chosen = {name: wanted[name] for name in names}
        if isinstance(session.inside, Mapping) and not session.inside and session.after:
            raise Missed(
                "late", expected="the entries in the block", got="none there; after it " + _texts(session.after)
            )
        inputs = [("inputs", x), *(("inputs", value) for name, value in wanted.items() if name not in names)]
        _expect_entries(trial, session.inside, chosen, "", inputs if len(names) < 3 else ())
        if isinstance(session.after, Mapping) and not set(chosen) <= set(session.after):
            raise Missed("emptied", expected="the entries after the block, too", got=_texts(session.after))
        _expect_entries(trial, session.after, chosen, "")


class _Twice(nn.Module):
    """Calls one and the same submodule twice in a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.second = nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.second(self.act(self.first(x))))


@capture.claim("holds the newest output: of the last pass, and of the last call in it", weight=0.5)
def _(trial: Trial) -> None:
    model = _layers(trial)
    xs = [trial.randn(4, 3) for _ in range(3)]
    names = _some_names(trial, _ALL_NAMES, 2)
    session = _session(trial, model, names, lambda: [model(x) for x in xs], show="model(x), three times")
    wanted = _reference(model, xs[-1])
    _expect_entries(trial, session.after, {name: wanted[name] for name in names}, "first")
    twice = trial.fill(_Twice().double())
    session = _session(trial, twice, ["act"], lambda: twice(xs[0]), show="model(x), which calls act twice")
    with torch.no_grad():
        wanted = {"act": twice(xs[0])}
    _expect_entries(trial, session.after, wanted, "first")


@capture.claim("leaves the model to compute, record and train as without it", weight=0.5)
def _(trial: Trial) -> None:
    for enabled, training in ((True, True), (True, False), (False, True)):
        model, x = _layers(trial).train(training), trial.randn(4, 3)
        model.act.training = not training
        flags = [module.training for module in model.modules()]
        with torch.set_grad_enabled(enabled):
            plain = copy.deepcopy(model)(x)
        expected = _gradients(copy.deepcopy(model), x)

        def body(model: nn.Module = model, x: Tensor = x, enabled: bool = enabled) -> tuple:
            y = model(x)
            weights = list(model.parameters())
            used = [module.training for module in model.modules()]
            if not enabled or not y.requires_grad:
                return y, torch.is_grad_enabled(), used, None
            return y, torch.is_grad_enabled(), used, torch.autograd.grad(y.sum(), weights, allow_unused=True)

        with torch.set_grad_enabled(enabled):
            names = [*_some_names(trial, ["encoder", "encoder.0", "encoder.2"], 1), "act"]
            session = _session(trial, model, names, body, show="model(x), and backward")
        y, mode, used, gradients = session.result
        if mode != enabled:
            raise Missed("mode", expected=f"the grad mode {enabled} in the block", got=f"{mode}")
        if used != flags:
            raise Missed("flags", expected="training flags as the caller has them", got="other ones in the block")
        if not same(y, plain):
            raise Missed("replaced", expected="the model's output as without hooks", got="another one")
        if enabled:
            missing = gradients is None or any(gradient is None for gradient in gradients)
            if missing or not all(map(same, gradients, expected)):
                got = "none for some layers" if missing else "other ones"
                raise Missed("replaced", expected="the gradients as without hooks", got=got)


def _gradients(model: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(model(x).sum(), list(model.parameters()))


@capture.claim("holds tensors without history")
def _(trial: Trial) -> None:
    for flagged in (False, True):
        model, x = _layers(trial), trial.randn(4, 3, requires_grad=flagged)
        names = _some_names(trial, _ALL_NAMES, 3)
        session = _session(trial, model, names, lambda model=model, x=x: model(x))
        for features in (session.inside, session.after):
            for name, got in _entries(trial, features, names).items():
                if got.requires_grad:
                    history = f"grad_fn {got.grad_fn.name()}" if got.grad_fn is not None else "a flagged leaf"
                    key = "graph" if got.grad_fn is not None else ""
                    raise Missed(key, expected=f"{name!r} without history, not flagged", got=history)


@capture.claim("is not touched by later in-place operations on the output")
def _(trial: Trial) -> None:
    model, x = _layers(trial, inplace=True), trial.randn(6, 3)
    wanted = _reference(model, x)
    names = ["encoder.0", "encoder.1"]
    session = _session(trial, model, names, lambda: model(x), show="model(x), with ReLU(inplace=True)")
    _expect_entries(trial, session.after, {name: wanted[name] for name in names}, "alias")

    def edit() -> None:
        with torch.no_grad():
            model(x).mul_(3).add_(1)

    session = _session(trial, model, ["head"], edit, show="model(x).mul_(3)")
    _expect_entries(trial, session.after, {"head": wanted["head"]}, "alias")
    outputs: list[Tensor] = []
    session = _session(trial, model, ["head"], lambda: outputs.append(model(x).detach()))
    outputs[0].zero_()
    _expect_entries(trial, session.features, {"head": wanted["head"]}, "alias")


@capture.claim("takes its hooks away at the end, also after an exception, which goes through", weight=1.5)
def _(trial: Trial) -> None:
    names = ["encoder.0", "act", "head"]
    model, x = _layers(trial), trial.randn(4, 3)
    session = _session(trial, model, names, lambda: model(x))
    _expect_hooks(model, 0, "left on")
    kept = {name: value.detach().clone() for name, value in _entries(trial, session.features, names).items()}
    model(2 * x + 1)
    _expect_entries(trial, session.features, kept, "left on")

    error = Unlucky("this block ends early")

    def unlucky(model: nn.Module, x: Tensor) -> None:
        model(x)
        raise error

    cases = (
        (Unlucky, "block", unlucky, x),
        (RuntimeError, "model", lambda model, x: model(x), trial.randn(4, 2)),
    )
    for kind, who, body, given in cases:
        model = _layers(trial)

        def call(model: nn.Module = model, body: Any = body, given: Tensor = given, who: str = who) -> None:
            _session(trial, model, names, lambda: body(model, given), show=f"..., and the {who} raises")

        _expect_error(kind, call, who)
        _expect_hooks(model, 0, "only without error")


@capture.claim("leaves the hooks of others in place", weight=0.5)
def _(trial: Trial) -> None:
    model, x, seen = _layers(trial), trial.randn(4, 3), []
    for name in ("encoder.0", "head"):
        layer = model.get_submodule(name)
        layer.register_forward_hook(lambda *_, name=name: seen.append(f"before {name}"))
        layer.register_forward_pre_hook(lambda *_, name=name: seen.append(f"pre {name}"))

    def body() -> None:
        model(x)
        # Somebody else's, set while the block runs: it is theirs to remove.
        model.get_submodule("head").register_forward_hook(lambda *_: seen.append("inside head"))

    _session(trial, model, ["encoder.0", "head"], body, others={})
    seen.clear()
    model(x)
    expected = ["pre encoder.0", "before encoder.0", "pre head", "before head", "inside head"]
    if seen != expected:
        raise Missed("cleared others", expected=f"others' hooks called: {_texts(expected)}", got=_texts(seen))
    outer = _layers(trial)
    pair: list[Any] = []

    def nested() -> None:
        with trial.answer(outer, ["act"]) as inner:
            outer(x)
        pair.append(_shallow(inner))
        outer(2 * x)

    session = _session(trial, outer, ["act"], nested, show="... with a second capture inside")
    _expect_entries(trial, pair[0], {"act": _reference(outer, x)["act"]}, "cleared others")
    _expect_entries(trial, session.after, {"act": _reference(outer, 2 * x)["act"]}, "cleared others")


@capture.claim("raises KeyError for an unknown name, and leaves no hook behind")
def _(trial: Trial) -> None:
    for names in (["encoder.0", "act", "nowhere"], ["head", "encoder.7", "encoder.0"], ["nowhere"]):
        model = _layers(trial)
        x = trial.randn(2, 3)
        try:
            _session(trial, model, names, lambda model=model, x=x: model(x))
        except AnswerRaised as raised:
            if not isinstance(raised.error, KeyError):
                raise Missed("other error", expected="KeyError", got=type(raised.error).__name__) from None
        else:
            raise Missed("no error", expected="KeyError", got="no error")
        _expect_hooks(model, 0, "half registered")


# -------------------------------------------------------------------------------------------------- activation_bytes

activation_bytes = Exercise(
    name="activation_bytes",
    points=2,
    hints=(
        "A hook on every leaf, one forward pass, all hooks removed. Which modules have no children, and how does the "
        "hook know the name of its own?",
        "Write a small function for the bytes of an output: a tensor has `numel()` and `element_size()`, a tuple has "
        "items that may be tuples again. Start an entry at 0 at its first call, and add.",
        "Two things have to be put right whatever happens: the hooks, in a `finally`, and the recording, by a block "
        "around the forward pass.",
    ),
    misconceptions={
        "containers": Misconception(
            "Every module's output is one more activation",
            "A container hands on what its last layer made. Counted with its layers, the same numbers count twice.",
            "Compare your keys with the modules that have no children.",
        ),
        "children": Misconception(
            "named_children() names all layers",
            "It names the direct children alone. A layer inside a block is a child of the block.",
            "Print the names for a model with a `Sequential` inside a `Sequential`.",
        ),
        "class names": Misconception(
            "A class name tells layers apart",
            "Two linear layers have the same. `named_modules()` gives each module with its dotted name.",
            "Print the keys for a model with two layers of a kind.",
        ),
        "weightless": Misconception(
            "Only layers with weights have activations",
            "A ReLU or a pooling layer makes a new tensor as large as any other. A leaf is a module without children.",
            "Look for the activation functions among your keys.",
        ),
        "inputs": Misconception(
            "The bytes of a layer are those of what goes in",
            "The contract counts what comes out: the hook's third argument.",
            "Call your function with a layer that makes 100 columns out of 3.",
        ),
        "one name": Misconception(
            "A lambda in a loop remembers the loop's variable as it was",
            "Python looks the variable up when the hook is called, and by then the loop is over: every hook writes "
            "under the last name.",
            "Print the keys after a forward pass.",
        ),
        "elements": Misconception(
            "Elements are bytes",
            "An element takes one to sixteen bytes, by its dtype: `element_size()` says how many.",
            "Divide your numbers by `numel()` of the outputs.",
        ),
        "four bytes": Misconception(
            "An element takes four bytes",
            "That is float32. A float64 takes eight, a float16 two, a bool one.",
            "Call your function with a model in float64.",
        ),
        "tuples": Misconception(
            "Every module returns one tensor",
            "An LSTM returns its outputs and a tuple of its states. A tuple may hold tuples.",
            "Print the type of what `nn.LSTM(3, 4)` returns.",
        ),
        "storage": Misconception(
            "A tensor's bytes are those of its memory",
            "A view stands on the memory of its base, which may be larger or smaller than the view's elements. The "
            "contract counts elements times element size.",
            "Count for a module that returns one column of its input.",
        ),
        "overwritten": Misconception(
            "One module, one call in a forward pass",
            "An activation module is often shared by several places. Each call has an output of its own, and the last "
            "one writes over the entry of the first.",
            "Run a model that calls the same module twice.",
        ),
        "not run": Misconception(
            "A layer that exists has an output",
            "A layer that the forward pass did not reach has none. The contract leaves it out.",
            "Look for keys whose value is 0.",
        ),
        "recorded": Misconception(
            "With plain inputs nothing is recorded",
            "The parameters are flagged, and one flagged input is enough. A detached input, or eval mode, changes "
            "nothing about that.",
            "Print `output.requires_grad` inside the hook.",
        ),
        "frozen": Misconception(
            "To stop the recording, lower the flags of the parameters",
            "It stops it, and the caller's model does not train any more.",
            "Print `requires_grad` of the parameters before and after.",
        ),
        "flags": Misconception(
            "Whoever trains next will call train()",
            "Each submodule has a `training` flag of its own. `eval()` and `train()` write one value over all of them, "
            "and the caller goes on with it.",
            "Put one submodule in eval mode, call your function, and print `training` of every module.",
        ),
        "replaced": Misconception(
            "What a forward hook returns is ignored",
            "Anything but None takes the place of the module's output, and the next layer gets it as its input.",
            "Look at what the last expression of your hook, or your lambda, gives back.",
        ),
    }
    | _HOOKS,
    raises=(
        ("must be Tensor, not int", "replaced"),
        ("'int' object has no attribute", "replaced"),
        ("unsupported operand type(s) for", "replaced"),
        ("'tuple' object has no attribute", "tuples"),
    ),
    effects=(("requires_grad", "frozen"), ("hook", "left on")),
)


def _sizes(trial: Trial, model: nn.Module, x: Tensor, show: str = "") -> dict[str, int]:
    got = trial.call(model, x, watch_training=False, show=f"activation_bytes({show or 'model, x'})")
    if got is None:
        raise Missed("no return value", expected="a dict of bytes by name", got="None")
    if not isinstance(got, Mapping):
        raise Missed(expected="a dict of bytes by name", got=got)
    try:
        return {name: operator.index(nbytes) for name, nbytes in got.items()}
    except TypeError:
        raise Missed(expected="whole numbers of bytes (int)", got=got) from None


def _expect_sizes(got: dict[str, int], wanted: dict[str, int], readings: Iterable[tuple[str, dict[str, int]]]) -> None:
    if got == wanted:
        return
    reading = next((key for key, value in readings if got == value), "")
    names = [name for name in (*wanted, *got) if wanted.get(name) != got.get(name)]
    name = names[0]
    expected = f"{name!r}: {format_bytes(wanted[name])}" if name in wanted else f"no entry {name!r}"
    shown = f"{format_bytes(got[name])} ({got[name]})" if name in got else "no such entry"
    raise Missed(reading, expected=expected, got=shown)


@activation_bytes.claim("gives the bytes of every leaf module's output by dotted name", weight=0, gate=True)
def _(trial: Trial) -> None:
    n, width, out = trial.integer(2, 9), trial.integer(4, 9), trial.integer(2, 3)
    block = nn.Sequential(nn.Linear(3, width), nn.Sequential(nn.Tanh(), nn.Linear(width, 10)))
    model = trial.fill(nn.Sequential(OrderedDict(body=block, head=nn.Linear(10, out))).double())
    elements = {"body.0": n * width, "body.1.0": n * width, "body.1.1": n * 10, "head": n * out}
    wanted = {name: 8 * count for name, count in elements.items()}
    got = _sizes(trial, model, trial.randn(n, 3), "model of nested Sequentials, x")
    containers = {"body.1": 80 * n, "body": 80 * n, "": 8 * n * out}
    if set(got) - set(wanted) and set(got) - set(wanted) <= set(containers):
        key = "children" if not set(wanted) <= set(got) else "containers"
        raise Missed(key, expected=f"entries: {_texts(wanted)}", got=_texts(got))
    before = {"body.0": 24 * n, "body.1.0": 8 * n * width, "body.1.1": 8 * n * width, "head": 80 * n}
    linears = {name: nbytes for name, nbytes in wanted.items() if name != "body.1.0"}
    if set(got) & {"Linear", "Tanh"}:
        raise Missed("class names", expected=f"entries: {_texts(wanted)}", got=_texts(got))
    readings = (
        ("weightless", linears),
        ("inputs", before),
        ("one name", {"head": wanted["head"]}),
        ("one name", {"head": sum(wanted.values())}),
        ("children", {"head": wanted["head"], "body": 80 * n}),
        ("elements", elements),
        ("four bytes", {name: 4 * count for name, count in elements.items()}),
    )
    if set(got) != set(wanted):
        key = next((key for key, value in readings if got == value), "")
        raise Missed(key, expected=f"entries: {_texts(wanted)}", got=_texts(got))
    _expect_sizes(got, wanted, readings)


class _Parts(nn.Module):
    """A leaf that returns a tuple in a tuple in a tuple, of several dtypes."""

    def forward(self, x: Tensor) -> tuple:
        return x.half(), (x > 0, (x.float(), x.argmax(1)))


class _Column(nn.Module):
    """A leaf whose output is a view of one column, spread over ``width`` columns."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1].expand(-1, self.width)


class _Branches(nn.Module):
    """Feeds one input to its children, one after the other, and hands on what the last of them returns."""

    def __init__(self, **children: nn.Module) -> None:
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, x: Tensor) -> Any:
        return [child(x) for child in self.children()][-1]


@activation_bytes.claim("sums over nested tuples, by the elements and dtype of each tensor")
def _(trial: Trial) -> None:
    n, width, hidden = trial.integer(2, 9), trial.integer(3, 6), trial.integer(2, 5)
    model = trial.fill(
        _Branches(lstm=nn.LSTM(width, hidden).double(), parts=_Parts(), column=_Column(width + 2)).double()
    )
    wanted = {
        "lstm": 8 * (n * hidden + 2 * hidden),
        "parts": 2 * n * width + n * width + 4 * n * width + 8 * n,
        "column": 8 * n * (width + 2),
    }
    got = _sizes(trial, model, trial.randn(n, width), "model with an LSTM and a nested tuple, x")
    first = {"lstm": 8 * n * hidden, "parts": 2 * n * width}
    flat = {"lstm": 8 * n * hidden, "parts": 3 * n * width}
    shallow = {"lstm": wanted["lstm"], "parts": 3 * n * width}
    storage = wanted | {"column": 8 * n * width}
    counts = {"lstm": wanted["lstm"] // 8, "parts": n * (3 * width + 1), "column": wanted["column"] // 8}
    eights = {name: 8 * count for name, count in counts.items()}
    readings = [("tuples", part | {"column": wanted["column"]}) for part in (first, flat, shallow)]
    readings += [("tuples", {"column": wanted["column"]}), ("storage", storage)]
    readings += [("elements", counts), ("four bytes", eights)]
    if got.get("lstm") != wanted["lstm"] or got.get("parts") in (first["parts"], flat["parts"], None):
        readings = [*readings, ("tuples", got)]
    elif got.get("column") != wanted["column"]:
        readings = [*readings, ("storage", got)]
    _expect_sizes(got, wanted, readings)


class _Loop(nn.Module):
    """Calls ``cell`` and ``act`` several times, and ``spare`` never."""

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
    model = trial.fill(_Loop(rounds).double())
    rows = [n - sum(range(number + 1)) for number in range(rounds)]
    wanted = {"start": 32 * n, "inner.0": 32 * sum(rows), "inner.1": 32 * sum(rows)}
    got = _sizes(trial, model, trial.randn(n, 3), "model that calls two layers several times, x")
    zeros = {"spare": 0, "unused.0": 0}
    if wanted | zeros == got:
        raise Missed("not run", expected="no entries 'spare' and 'unused.0'", got="entries of 0")
    last = wanted | dict.fromkeys(("inner.0", "inner.1"), 32 * rows[-1])
    first = wanted | dict.fromkeys(("inner.0", "inner.1"), 32 * rows[0])
    readings = [("overwritten", part | more) for part in (last, first) for more in ({}, zeros)]
    _expect_sizes(got, wanted, readings)


def _noting(trial: Trial) -> tuple[nn.Sequential, list[bool]]:
    model, recorded = _layers(trial), []
    for name in ("encoder.0", "head"):
        layer = model.get_submodule(name)
        layer.register_forward_hook(lambda _module, _args, output: recorded.append(output.requires_grad))
    return model, recorded


@activation_bytes.claim("records nothing")
def _(trial: Trial) -> None:
    for flagged, frozen in ((False, False), (True, False), (True, True)):
        model, recorded = _noting(trial)
        model.requires_grad_(not frozen)
        _sizes(trial, model, trial.randn(4, 3, requires_grad=flagged), f"model, {'flagged ' * flagged}x")
        if any(recorded):
            raise Missed("recorded", expected="no graph while the model runs", got="the layers' outputs require grad")
        if any("requires_grad" in effect for effect in trial.effects):
            raise Missed("frozen", expected="the parameters' flags as before", got="other flags")


@activation_bytes.claim("leaves no hooks of its own, also when the forward pass raises, and lets the error through")
def _(trial: Trial) -> None:
    model = _layers(trial)
    _sizes(trial, model, trial.randn(4, 3))
    _expect_hooks(model, 0, "left on")
    for kind, given in ((RuntimeError, trial.randn(4, 2)), (Unlucky, trial.randn(4, 3))):
        model = _layers(trial)
        if kind is Unlucky:
            model.append(_Raises())
        _expect_error(
            kind, lambda model=model, given=given: _sizes(trial, model, given, "model, x that raises"), "model"
        )
        _expect_hooks(model, 0, "only without error")
        if not torch.is_grad_enabled() or any("grad mode" in effect for effect in trial.effects):
            raise Missed("only without error", expected="the grad mode as before", got="switched off")


class _Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise Unlucky("this layer cannot go on")


@activation_bytes.claim("leaves the training flags and the hooks of others as they were")
def _(trial: Trial) -> None:
    for training, other in ((True, "act"), (False, "encoder.1")):
        model, seen = _layers(trial).train(training), []
        model.get_submodule(other).training = not training
        flags = [module.training for module in model.modules()]
        model.head.register_forward_hook(lambda *_, seen=seen: seen.append(1))
        model.encoder[0].register_forward_pre_hook(lambda *_, seen=seen: seen.append(1))
        _sizes(trial, model, trial.randn(4, 3), f"model in {'training' if training else 'eval'} mode, x")
        if [module.training for module in model.modules()] != flags:
            raise Missed("flags", expected="every submodule's own training flag", got="other flags")
        seen.clear()
        model(trial.randn(4, 3))
        if len(seen) != 2:
            raise Missed("cleared others", expected="2 hooks of others called", got=f"{len(seen)}")


# ------------------------------------------------------------------------------------------------------------ ablate

ablate = Exercise(
    name="ablate",
    points=2,
    hints=(
        "What a forward hook returns takes the place of the output. So there is no need to edit the one that it got.",
        "Zero times infinity is NaN. Choose between two values instead of multiplying: `torch.where` and "
        "`masked_fill` do so, and a copy can be filled by index.",
        "Dimension 1 is the second one, for any number of dimensions. The handle that registering gives you has the "
        "`remove` that is asked for.",
    ),
    misconceptions={
        "not returned": Misconception(
            "A hook that edits its own copy has edited the output",
            "The copy is gone when the hook returns None. The module's output stays what it was.",
            "Print `output` of the module, with the hook on.",
        ),
        "inputs": Misconception(
            "A channel taken from the input is a channel taken from the output",
            "A linear or convolutional layer mixes its input channels into every output channel. The contract speaks "
            "of the module's output.",
            "Compare the shapes of the module's input and output.",
        ),
        "dropped": Misconception(
            "To take a channel away is to leave it out",
            "The layer behind expects all channels, each in its place. A zero there takes the channel's say away.",
            "Print the shape of the output.",
        ),
        "dim": Misconception(
            "The first index is the channel",
            "Index 0 counts the samples of the batch. Channels are dimension 1, and more dimensions may follow.",
            "Print which entries are 0 for an output of shape (2, 3, 4).",
        ),
        "inverted": Misconception(
            "The listed channels are the ones that stay",
            "To ablate is to take away: the listed ones become zero.",
            "Call it with one channel of ten, and count the zeros.",
        ),
        "weights": Misconception(
            "A channel without weights is an ablated channel",
            "The weights are the caller's, and are lost. A module without parameters has channels, too.",
            "Compare the module's `state_dict()` before, and after `handle.remove()`.",
        ),
        "once": Misconception(
            "A hook is for one call",
            "From now on means every call until `remove()`.",
            "Call the module twice.",
        ),
        "times zero": Misconception(
            "Anything times zero is zero",
            "Not NaN, and not infinity: 0 · inf is NaN. A dead or exploded channel stays in the output.",
            "Call it with an input that holds `inf` in a listed channel.",
        ),
        "cleaned": Misconception(
            "NaN and inf are to be cleaned up everywhere",
            "In the other channels they are the module's own values, and the caller has to see them.",
            "Call it with an `inf` in a channel that is not listed.",
        ),
        "in place": Misconception(
            "Inside the hook the output is mine",
            "It may be the module's input, or a tensor that the module, autograd or an earlier hook holds. Edited in "
            "place, it changes for all of them.",
            "Register it on an `nn.Identity`, and print the input afterwards.",
        ),
        "detached": Misconception(
            "A copy for the hook needs no history",
            "The copy is the output from now on. Without history, nothing before it gets a gradient.",
            "Print the gradient of the module's weight with the hook on.",
        ),
        "no undo": Misconception(
            "Without the handle the channels come back",
            "They come back when `remove()` of what you return takes the hook away.",
            "Call the module after `handle.remove()`.",
        ),
        "cleared others": Misconception(
            "remove() may put everything back as it was",
            "Between the two, others may have registered hooks, or ablated more. Only what this call has set may go.",
            "Ablate twice, remove the first one, and see whether the second one still works.",
        ),
    },
    raises=(
        ("has no attribute 'weight'", "weights"),
        ("has no attribute 'bias'", "weights"),
        ("a leaf Variable that requires grad", "in place"),
        ("modified by an inplace operation", "in place"),
        ("modified inplace", "in place"),
        ("does not require grad", "detached"),
    ),
    effects=(("edited x", "in place"), ("history of x", "in place"), ("edited", "weights")),
)


class _Channels(nn.Module):
    """Works on each channel by itself: a weight a channel, and a function whose result autograd saves."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight.view(-1, *[1] * (x.dim() - 2)) * x / 4).exp()


class _Kept(nn.Module):
    """Hands out a tensor that it keeps."""

    def forward(self, x: Tensor) -> Tensor:
        self.last = x * 2
        return self.last


def _drawn_channels(trial: Trial, count: int) -> list[int]:
    """Some channels out of so many, in any order; never all."""
    every = list(range(count))
    return [every.pop(trial.integer(0, len(every) - 1)) for _ in range(trial.integer(1, count - 2))]


def _zeroed(y: Tensor, channels: list[int], dim: int = 1, invert: bool = False) -> Tensor:
    mask = torch.zeros(y.shape[dim], dtype=torch.bool)
    mask[channels] = True
    if invert:
        mask = ~mask
    shape = [1] * y.dim()
    shape[dim] = -1
    return torch.where(mask.view(shape), torch.zeros((), dtype=y.dtype), y)


def _ablating(
    trial: Trial, module: nn.Module, channels: list[int], body: Callable[[Any], Any], x: Tensor, show: str = ""
) -> Any:
    """Calls the answer, then ``body`` with its handle, and looks whether it left inputs and weights alone."""
    made: list[Any] = []

    def drive() -> Any:
        handle = trial.answer(module, list(channels))
        made.append(handle)
        if handle is None or not callable(getattr(handle, "remove", None)):
            return None
        return body(handle)

    watch = {"x": x} | {f"module.{name}": tensor for name, tensor in module.named_parameters()}
    called = f"ablate({type(module).__name__}, {channels})" + (f"; {show}" if show else "")
    result = trial.run(drive, called=called, watch=watch)
    if made[0] is None:
        raise Missed("no return value", expected="a handle with remove()", got="None")
    if not callable(getattr(made[0], "remove", None)):
        raise Missed(expected="a handle with remove()", got=made[0])
    return result


def _cases(trial: Trial) -> list[tuple[nn.Module, Tensor, int]]:
    """Modules of several kinds, inputs, and their number of channels. Every dimension has room for every index."""
    c = trial.integer(5, 7)
    n, long, high, wide = (trial.integer(8, 9) for _ in range(4))
    return [
        (trial.fill(nn.Linear(8, c).double()), trial.randn(n, 8), c),
        (nn.Identity(), trial.randn(n, c), c),
        (trial.fill(nn.Conv1d(2, c, 1).double()), trial.randn(n, 2, long), c),
        (trial.fill(nn.Conv2d(2, c, 1).double()), trial.randn(n, 2, high, wide), c),
    ]


@ablate.claim("zeroes the listed channels from now on, and keeps the others", weight=0, gate=True)
def _(trial: Trial) -> None:
    for module, x, count in _cases(trial):
        channels = _drawn_channels(trial, count)
        plain = copy.deepcopy(module)
        before = {name: value.clone() for name, value in module.state_dict().items()}
        xs = [x, x[:-1] + 1]

        def body(_handle: Any, module: nn.Module = module, xs: list[Tensor] = xs) -> list[Tensor]:
            with torch.no_grad():
                return [module(x.clone()) for x in xs]

        results = _ablating(trial, module, channels, body, x, "module(x), twice")
        if not all(torch.equal(value, before[name]) for name, value in module.state_dict().items()):
            raise Missed("weights", expected="the module's weights as before", got="other weights")
        for number, (given, result) in enumerate(zip(xs, results, strict=True)):
            with torch.no_grad():
                y = plain(given)
            wanted = _zeroed(y, channels)
            got = trial.tensor(result)
            if got.shape != wanted.shape:
                key = "dropped" if got.shape[1:2] == (count - len(channels),) else ""
                raise Missed(key, expected=f"shape {tuple(wanted.shape)}", got=f"shape {tuple(got.shape)}")
            if same(got, wanted):
                continue
            readings = (
                ("once" if number else "not returned", y),
                ("inverted", _zeroed(y, channels, invert=True)),
                ("inputs", plain(_zeroed(given, channels)).detach() if given.shape[1] >= count else y),
                ("dim", _zeroed(y, channels, 0)),
                ("dim", _zeroed(y, channels, -1)),
            )
            key = next((key for key, value in readings if same(got, value)), "")
            zeros = [index for index in range(count) if not bool(got[:, index].any())]
            raise Missed(key, expected=f"zeros in the channels {sorted(channels)} alone", got=f"zeros in {zeros}")


@ablate.claim("zeroes them exactly, also where they were inf or NaN, and leaves the others' inf and NaN")
def _(trial: Trial) -> None:
    c = trial.integer(5, 7)
    channels = _drawn_channels(trial, c)
    others = [index for index in range(c) if index not in channels]
    for shape in ((4, c), (3, c, 4, 2)):
        module, x = nn.Identity(), trial.randn(*shape)
        for number, bad in enumerate((float("nan"), float("inf"), float("-inf"))):
            x[number, channels[0]] = bad
            x[number, others[0]] = bad

        def body(_handle: Any, module: nn.Module = module, x: Tensor = x) -> Tensor:
            return module(x.clone())

        got = _ablating(trial, module, channels, body, x, "module(x), x with inf and NaN")
        wanted = _zeroed(x, channels)
        if not bool((got[:, channels] == 0).all()):
            raise Missed("times zero", expected=f"0 in channel {channels[0]}", got=_numbers(got[:3, channels[0]]))
        if not same(got, wanted):
            raise Missed("cleaned", expected=f"channel {others[0]} as it was, inf and NaN too", got="other values")


@ablate.claim("edits neither the module's input nor its own output tensor")
def _(trial: Trial) -> None:
    c = trial.integer(5, 7)
    channels = _drawn_channels(trial, c)
    for module in (nn.Identity(), _Kept()):
        x = trial.randn(4, c)
        seen: list[tuple[Tensor, Tensor]] = []
        module.register_forward_hook(lambda _module, _args, output, seen=seen: seen.append((output, output.clone())))
        given = x.clone()

        def body(_handle: Any, module: nn.Module = module, given: Tensor = given) -> Tensor:
            return module(given)

        got = _ablating(trial, module, channels, body, x)
        output, as_it_was = seen[0]
        if not _exactly(given, x):
            raise Missed("in place", expected="the module's input as it was", got="zeros in it")
        if not _exactly(output, as_it_was):
            raise Missed("in place", expected="the module's own output tensor as it was", got="zeros in it")
        if not same(got, _zeroed(as_it_was, channels)):
            raise Missed(expected="zeros in the listed channels", got="other values")


@ablate.claim("keeps the gradients of the other channels")
def _(trial: Trial) -> None:
    c = trial.integer(5, 7)
    for shape, flagged in (((4, c), True), ((3, c, 4, 2), False)):
        channels = _drawn_channels(trial, c)
        others = [index for index in range(c) if index not in channels]
        module = trial.fill(_Channels(c).double())
        x, slope = trial.randn(*shape, requires_grad=flagged), trial.randn(*shape)
        inputs = [module.weight, x] if flagged else [module.weight]
        expected = torch.autograd.grad((_zeroed(module(x), channels) * slope).sum(), inputs)

        def body(
            _handle: Any, module: nn.Module = module, x: Tensor = x, slope: Tensor = slope, inputs: list = inputs
        ) -> tuple:
            y = module(x)
            return torch.autograd.grad((y * slope).sum(), inputs, allow_unused=True) if y.requires_grad else ()

        got = _ablating(trial, module, channels, body, x, "module(x), and backward")
        if not got or any(gradient is None for gradient in got):
            raise Missed("detached", expected="gradients of the other channels", got="none")
        for gradient, wanted in zip(got, expected, strict=True):
            if gradient.shape == module.weight.shape:
                gradient, wanted = gradient[others], wanted[others]
            else:
                gradient, wanted = gradient[:, others], wanted[:, others]
            if not same(gradient, wanted):
                key = "detached" if not bool(gradient.any()) else ""
                raise Missed(key, expected=_numbers(wanted), got=_numbers(gradient))


@ablate.claim("is undone by `handle.remove()`, which leaves the hooks and ablations of others in place")
def _(trial: Trial) -> None:
    c = trial.integer(5, 7)
    channels, x = _drawn_channels(trial, c), trial.randn(4, 3)
    module = trial.fill(nn.Linear(3, c).double())
    with torch.no_grad():
        plain = module(x)

    def undone(handle: Any) -> tuple[Tensor, Tensor]:
        on = module(x)
        handle.remove()
        return on, module(x)

    on, off = _ablating(trial, module, channels, undone, x, "handle.remove(); module(x)")
    if not same(off, plain):
        raise Missed("no undo", expected="the module's own output after remove()", got=_numbers(off))
    if not same(on, _zeroed(plain, channels)):
        raise Missed(expected="zeros before remove()", got=_numbers(on))

    seen: list[int] = []
    module.register_forward_hook(lambda *_: seen.append(1))
    both = _drawn_channels(trial, c)[:1]
    single = [index for index in range(c) if index not in both][:2]

    def stacked(first: Any) -> tuple[Tensor, Tensor]:
        second = trial.answer(module, list(both))
        module.register_forward_hook(lambda *_: seen.append(2))
        before = module(x)
        first.remove()
        seen.clear()
        after = module(x)
        second.remove()
        return before, after

    before, after = _ablating(trial, module, single, stacked, x, "a second ablate; remove() of the first")
    if not same(before, _zeroed(plain, single + both)):
        raise Missed("cleared others", expected="both ablations at work", got="not both of them")
    if not same(after, _zeroed(plain, both)) or seen != [1, 2]:
        raise Missed("cleared others", expected="the second ablation and two hooks of others", got="not all of them")
    if not same(module(x), plain):
        raise Missed("no undo", expected="the module's own output after both are removed", got="zeros in it")


# ---------------------------------------------------------------------------------------------------------- grad_cam

grad_cam = Exercise(
    name="grad_cam",
    points=3,
    hints=(
        "You need two tensors of the same shape: what the layer gave, and the gradient of the logit with respect to "
        "it. `torch.autograd.grad` works out the second without filling any `.grad`.",
        "Samples do not mix, so the sum of one class's logits over the batch has each sample's own gradient. For a "
        "frozen model, something on the way has to require grad, and it must not be the caller's `x` itself.",
        "What the hook gets may be written over by the next layer. Hand a copy on to that layer, as the hook's return "
        "value, and keep the tensor that nobody edits. Remove the hook in a `finally`.",
    ),
    misconceptions={
        "no relu": Misconception(
            "The weighted sum is the map",
            "What speaks against the class has a negative sum. The map keeps what speaks for it: relu comes last.",
            "Look for negative values in what you return.",
        ),
        "absolute": Misconception(
            "The size of the sum is what counts",
            "The absolute value mixes what speaks for the class with what speaks against it. The contract says relu.",
            "Compare with the sum itself where it is negative.",
        ),
        "relu first": Misconception(
            "relu may come before the sum",
            "A channel with a negative weight takes away from the map. Without its minus sign it is lost, and the sum "
            "is another one.",
            "Apply relu once, to the sum over the channels.",
        ),
        "one sample": Misconception(
            "One logit gives the gradient of all samples",
            "A sample's logit depends on its own activation alone: for all the others its gradient is zero.",
            "Look at the maps of the second and third image.",
        ),
        "class first": Misconception(
            "The first index of the logits is the class",
            "Logits have shape (batch, classes): the first index is the sample.",
            "Print the shape of `model(x)`.",
        ),
        "mean of batch": Misconception(
            "The mean of the logits has each sample's gradient",
            "The mean divides each sample's gradient by the batch size: the map of an image depends on its company.",
            "Compare the map of one image alone with its map in a batch.",
        ),
        "batch weights": Misconception(
            "One set of weights serves the whole batch",
            "Each sample has a gradient of its own, so each has its own weights.",
            "Print the shape of your weights: the batch must still be in it.",
        ),
        "pixel weights": Misconception(
            "Gradient times activation is Grad-CAM",
            "That is another method. Here each channel has one weight: the mean of its gradient over all places.",
            "Print the shape of your weights for a layer of 8 channels.",
        ),
        "summed weights": Misconception(
            "Sum or mean over the places is the same",
            "They differ by the number of places, and the contract says mean.",
            "Divide your result by the expected one, on the card.",
        ),
        "channel mean": Misconception(
            "The mean over the channels is their weighted sum",
            "It differs by the number of channels, and the contract says sum.",
            "Divide your result by the expected one, on the card.",
        ),
        "unweighted": Misconception(
            "The layer's activation shows what the class looks at",
            "It shows what the layer sees, for any class. Only the gradient knows the class.",
            "Call your function with two class indices, and compare.",
        ),
        "all classes": Misconception(
            "The gradient of the output is the gradient of the class",
            "The sum over all logits asks for all classes at once.",
            "Call your function with two class indices, and compare.",
        ),
        "predicted class": Misconception(
            "The class is the one that the model predicts",
            "The caller names it: the map may be asked for a class that the model holds for unlikely.",
            "Call your function with two class indices, and compare.",
        ),
        "probability": Misconception(
            "The class's probability is as good as its logit",
            "Softmax ties the classes together: its gradient holds the other logits too, and vanishes where the model "
            "is sure.",
            "Take the output of the model as it is.",
        ),
        "normalised": Misconception(
            "A map goes from 0 to 1",
            "For a picture it may be scaled so. The contract gives the values themselves, which can be compared "
            "between images.",
            "Print the largest value of the map.",
        ),
        "image size": Misconception(
            "The map has the size of the image",
            "It has the height and width of the layer's output. To enlarge it is a matter of drawing.",
            "Print the shape of the layer's output.",
        ),
        "history": Misconception(
            "A result of autograd.grad needs no detach",
            "The gradient has no history, but the activation in the product does: the map holds the whole graph.",
            "Print `grad_fn` of what you return.",
        ),
        "in place": Misconception(
            "What the hook gets stays the layer's output",
            "A `ReLU(inplace=True)` writes over it, and from then on the same Python object stands for the edited "
            "tensor: its values are others, and the gradient with respect to it is that of the new value.",
            "Put an in-place ReLU after the layer, and compare with an ordinary one.",
        ),
        "full hook": Misconception(
            "A full backward hook can sit on any layer",
            "It wraps the layer's output into a view, and an in-place operation on that view raises.",
            "Ask the output tensor itself for its gradient, by a tensor hook or by `torch.autograd.grad`.",
        ),
        "fills": Misconception(
            "backward() is the way to get a gradient",
            "It adds to `.grad` of every flagged leaf on its way, and the caller's next optimizer step takes it.",
            "Print `.grad` of the parameters after the call.",
        ),
        "frozen": Misconception(
            "A gradient can be asked for anywhere",
            "With all parameters frozen and a plain image nothing is recorded, so there is nothing to ask.",
            "Call your function after `model.requires_grad_(False)`.",
        ),
        "flags": Misconception(
            "I may raise the flags that I need",
            "The model and `x` are the caller's. A frozen model comes back trainable, or the caller's `x` suddenly "
            "requires grad.",
            "Print `requires_grad` of `x` and of the parameters before and after.",
        ),
    }
    | _HOOKS,
    raises=(
        ("BackwardHookFunction", "full hook"),
        ("a leaf Variable that requires grad", "in place"),
        ("modified by an inplace operation", "in place"),
        ("does not require grad", "frozen"),
        ("doesn't require grad", "frozen"),
        ("require gradient", "frozen"),
    ),
    effects=(("requires_grad to", "flags"), (".grad", "fills"), ("hook", "left on")),
)

_HEIGHT, _WIDTH = 7, 6


def _image_model(trial: Trial, *, inplace: bool) -> nn.Sequential:
    """A convolutional model of 4 classes for images of shape (2, 7, 6), without pooling: no gradient is constant."""
    c = trial.integer(6, 7)  # channels, places and samples differ in number, or recipes could not be told apart
    features = nn.Sequential(
        nn.Conv2d(2, 5, 2), nn.ReLU(inplace=inplace), nn.Conv2d(5, c, 2), nn.ReLU(inplace=inplace), nn.Softplus()
    )
    head = nn.Sequential(nn.Flatten(), nn.Linear(c * (_HEIGHT - 2) * (_WIDTH - 2), 6), nn.Tanh(), nn.Linear(6, 4))
    model = trial.fill(nn.Sequential(OrderedDict(features=features, head=head)).double())
    with torch.no_grad():
        head[1].weight.mul_(0.2)  # or tanh would be flat, and every gradient tiny
    return model


class _Cam:
    """The parts of a Grad-CAM, worked out by cutting the model in two behind the layer."""

    def __init__(self, model: nn.Sequential, layer: str, x: Tensor, index: int) -> None:
        flat = [*copy.deepcopy(model.features), *copy.deepcopy(model.head)]
        cut = len(model.features) if layer == "features" else int(layer.split(".")[1]) + 1
        for module in flat:
            module.requires_grad_(False)
            if isinstance(module, nn.ReLU):
                module.inplace = False
        with torch.no_grad():
            self.activation = nn.Sequential(*flat[:cut])(x)
        leaf = self.activation.clone().requires_grad_()
        with torch.enable_grad():
            self.logits = nn.Sequential(*flat[cut:])(leaf)
            self.gradient = _of(self.logits[:, index], leaf)
        self.leaf, self.index = leaf, index
        self.sum = self.weighted(self.gradient)
        self.map = self.sum.relu()

    def weighted(self, gradient: Tensor) -> Tensor:
        return (gradient.mean((2, 3), keepdim=True) * self.activation).sum(1)

    def of_all(self) -> Tensor:
        """The map of the sum of all logits."""
        return self.weighted(_of(self.logits, self.leaf)).relu()

    def readings(self) -> list[tuple[str, Tensor]]:
        """What other recipes would give."""
        a, g = self.activation, self.gradient
        predicted = _of(self.logits.max(1).values, self.leaf)
        probability = _of(self.logits.softmax(1)[:, self.index], self.leaf)
        w = g.mean((2, 3), keepdim=True)
        places, channels, batch = a[0, 0].numel(), a.shape[1], a.shape[0]
        largest = self.map.flatten(1).max(1).values.view(-1, 1, 1)
        smallest = self.map.flatten(1).min(1).values.view(-1, 1, 1)
        rows = torch.eye(batch, dtype=a.dtype).view(batch, batch, 1, 1)
        of_all = self.of_all()
        return [
            *(("one sample", self.map * row) for row in rows),
            *(("class first", of_all * row) for row in rows),
            ("no relu", self.sum),
            ("absolute", self.sum.abs()),
            ("relu first", (w.relu() * a).sum(1)),
            ("relu first", (w.relu() * a).sum(1).relu()),
            ("relu first", (w * a).relu().sum(1)),
            ("relu first", (w * a.relu()).sum(1).relu()),
            ("relu first", (g.relu().mean((2, 3), keepdim=True) * a).sum(1).relu()),
            ("mean of batch", self.map / batch),
            ("batch weights", (w.mean(0) * a).sum(1).relu()),
            ("batch weights", (w.sum(0) * a).sum(1).relu()),
            ("pixel weights", (g * a).sum(1).relu()),
            ("pixel weights", (g * a).mean(1).relu()),
            ("summed weights", self.map * places),
            ("channel mean", self.map / channels),
            ("unweighted", a.sum(1).relu()),
            ("unweighted", a.mean(1).relu()),
            ("unweighted", a.sum(1)),
            ("unweighted", a.mean(1)),
            ("all classes", of_all),
            ("predicted class", self.weighted(predicted).relu()),
            ("probability", self.weighted(probability).relu()),
            ("normalised", self.map / largest),
            ("normalised", self.map / (largest + 1e-8)),
            ("normalised", self.map / self.map.max()),
            ("normalised", (self.map - smallest) / (largest - smallest)),
        ]


def _of(result: Tensor, leaf: Tensor) -> Tensor:
    return torch.autograd.grad(result.sum(), leaf, retain_graph=True)[0]


def _map(trial: Trial, model: nn.Module, layer: str, x: Tensor, index: int, what: str = "model") -> Tensor:
    show = f"grad_cam({what}, {layer!r}, {'flagged ' * x.requires_grad}x, {index})"
    return trial.tensor(trial.call(model, layer, x, index, show=show))


def _images(trial: Trial, *, flagged: bool = False) -> Tensor:
    return trial.randn(trial.integer(2, 4), 2, _HEIGHT, _WIDTH, requires_grad=flagged)


def _mapped(trial: Trial, layer: str, *, inplace: bool) -> tuple[nn.Sequential, Tensor, int, _Cam]:
    model, x, index = _image_model(trial, inplace=inplace), _images(trial), trial.integer(0, 3)
    return model, x, index, _Cam(model, layer, x, index)


def _telling(trial: Trial, layer: str) -> tuple[nn.Sequential, Tensor, int, _Cam]:
    """A model, images and a class whose maps are not empty and not without a negative sum, so that recipes differ."""
    while True:
        model, many = _image_model(trial, inplace=False), trial.randn(24, 2, _HEIGHT, _WIDTH)
        index = trial.integer(0, 3)
        cam = _Cam(model, layer, many, index)
        telling = (cam.map > 1e-3) & (cam.of_all() > 1e-3)
        mixed = telling.flatten(1).any(1) & (cam.sum < -1e-3).flatten(1).any(1) & (cam.logits.argmax(1) != index)
        rows = mixed.nonzero().flatten()[: trial.integer(2, 4)]
        if len(rows) >= 2:
            return model, many[rows], index, _Cam(model, layer, many[rows], index)


@grad_cam.claim("is relu of the channels summed with each sample's own weights", weight=0, gate=True)
def _(trial: Trial) -> None:
    for layer in ("features.2", "features.0", "features"):
        model, x, index, cam = _telling(trial, layer)
        got = _map(trial, model, layer, x, index)
        if got.shape == (len(x), _HEIGHT, _WIDTH):
            raise Missed("image size", expected=f"shape {tuple(cam.map.shape)}", got=f"shape {tuple(got.shape)}")
        if got.shape != cam.map.shape:
            raise Missed(expected=f"shape {tuple(cam.map.shape)}", got=f"shape {tuple(got.shape)}")
        if not same(got, cam.map):
            key = next((key for key, value in cam.readings() if same(got, value)), "")
            raise Missed(key, **_differing(got, cam.map))


@grad_cam.claim("is detached", weight=0.5)
def _(trial: Trial) -> None:
    for flagged in (False, True):
        model, x = _image_model(trial, inplace=False), _images(trial, flagged=flagged)
        got = _map(trial, model, "features.2", x, trial.integer(0, 3))
        if got.requires_grad:
            history = f"grad_fn {got.grad_fn.name()}" if got.grad_fn is not None else "a flagged leaf"
            raise Missed("history", expected="no history", got=history)


@grad_cam.claim("uses the layer's own activation and gradient, also where an in-place operation follows", weight=1.5)
def _(trial: Trial) -> None:
    for layer in ("features.2", "features.0", "features.3"):
        model, x, index, cam = _mapped(trial, layer, inplace=True)
        got = _map(trial, model, layer, x, index, "model with ReLU(inplace=True)")
        if not same(got, cam.map):
            key = "in place" if layer != "features.3" else ""
            raise Missed(key, **_differing(got, cam.map))


@grad_cam.claim("fills no `.grad` and leaves those that are there")
def _(trial: Trial) -> None:
    for filled in (False, True):
        model, x = _image_model(trial, inplace=False), _images(trial, flagged=True)
        leaves = [*model.parameters(), x]
        for leaf in leaves:
            leaf.grad = trial.randn(*leaf.shape) if filled else None
        before = [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves]
        _map(trial, model, "features.2", x, 1)
        for leaf, grad in zip(leaves, before, strict=True):
            if (leaf.grad is None) != (grad is None) or (grad is not None and not torch.equal(leaf.grad, grad)):
                who = "x" if leaf is x else "a parameter"
                got = "cleared" if leaf.grad is None else "filled" if grad is None else "changed"
                raise Missed("fills", expected=f".grad of {who} as before", got=got)


@grad_cam.claim("works for a frozen model, and leaves all flags as they were")
def _(trial: Trial) -> None:
    for frozen, layer, inplace in (
        ("all", "features.2", False),
        ("all", "features.0", True),
        ("some", "features", False),
    ):
        model, x, index, cam = _mapped(trial, layer, inplace=inplace)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(frozen == "some" and name.startswith("head.3"))
        flags = [parameter.requires_grad for parameter in model.parameters()]
        got = _map(trial, model, layer, x, index, "frozen model")
        if [parameter.requires_grad for parameter in model.parameters()] != flags or x.requires_grad:
            raise Missed("flags", expected="requires_grad of model and x as before", got="other flags")
        if not same(got, cam.map):
            key = "in place" if inplace else ""
            raise Missed(key, **_differing(got, cam.map))


@grad_cam.claim("leaves no hooks, also where the forward pass raises, and the hooks of others in place")
def _(trial: Trial) -> None:
    model, seen = _image_model(trial, inplace=False), []
    layer = model.get_submodule("features.2")
    _map(trial, model, "features.2", _images(trial), 1)
    _expect_hooks(model, 0, "left on")
    layer.register_forward_hook(lambda *_: seen.append(1))
    _map(trial, model, "features.2", _images(trial), 1)
    seen.clear()
    model(_images(trial))
    if seen != [1]:
        raise Missed("cleared others", expected="the hook of another called once", got=f"{len(seen)} times")
    cases = ((RuntimeError, trial.randn(2, 2, _HEIGHT + 1, _WIDTH)), (Unlucky, _images(trial)))
    for kind, x in cases:
        model = _image_model(trial, inplace=False)
        if kind is Unlucky:
            model.head.insert(1, _Raises())
        show = "model that raises behind the layer"
        _expect_error(kind, lambda model=model, x=x, show=show: _map(trial, model, "features.2", x, 1, show), "model")
        _expect_hooks(model, 0, "only without error")


EXERCISES = (capture, activation_bytes, ablate, grad_cam)
