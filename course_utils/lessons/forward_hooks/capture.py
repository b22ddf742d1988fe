"""``capture``: what it claims."""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Unlucky, same
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import AnswerRaised, Missed, Trial
from course_utils.lessons.forward_hooks._shared import _expect_error, _expect_hooks, _layers, _numbers, _texts

capture = exercise(__file__)


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
