"""``capture`` keeps outputs of named submodules: its check looks into the dict, and at what stays on the model."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ContextDecorator
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import (
    Lazy,
    Missed,
    Trial,
    Unlucky,
    exercise,
    expect,
    expect_hooks,
    expect_no_history,
    expect_raises,
    same,
    training_flags,
)
from course_utils.lessons.forward_hooks._shared import (
    NAMES,
    difference_details,
    expect_clean_error,
    layers,
    sample,
    words,
)

capture = exercise(__file__)


_CLASSES = {"Sequential", "Linear", "ReLU", "Tanh"}  # of what is in ``layers``


@torch.no_grad()
def _outputs(model: nn.Sequential, x: Tensor, prefix: str = "") -> dict[str, Tensor]:
    """Every submodule's own output by dotted name, as without hooks; nothing that comes later has edited it."""
    found = {}
    for name, layer in copy.deepcopy(model).named_children():
        if isinstance(layer, nn.Sequential):
            found |= _outputs(layer, x, f"{prefix}{name}.")
        x = layer(x.clone())
        found[prefix + name] = x.clone()
    return found


def _session(
    trial: Trial, model: nn.Module, names: list[str], body: Callable, show: str = "model(x)", watched: bool = True
) -> SimpleNamespace:
    """Runs ``body`` inside the answer's ``with capture(model, names) as features``.

    Returns:
        The ``features``, what they held ``inside`` at the end of the block and ``after`` it, the body's ``result``, and
        whether the answer is a ``generator`` with ``contextmanager`` around it, or has an ``__exit__`` of its own.
    """
    session = SimpleNamespace(features=None, inside=None, after=None, result=None, generator=False)

    def drive() -> str:
        made = trial.answer(model, list(names))
        if not (hasattr(type(made), "__enter__") and hasattr(type(made), "__exit__")):
            return type(made).__name__
        session.generator = isinstance(made, ContextDecorator)
        with made as session.features:
            session.result = body()
            session.inside = _now(session.features)
        session.after = _now(session.features)
        return ""

    watch = {"model": model} if watched else {}
    other = trial.run(drive, called=f"with capture(model, {names}): {show}", watch=watch)
    key = "no return value" if other == "NoneType" else "no context"
    expect(not other, key, expected="a context manager", got=other)
    return session


def _now(features: Any) -> Any:
    return dict(features) if isinstance(features, Mapping) else features


def _entries(trial: Trial, features: Any, names: list[str]) -> dict[str, Tensor]:
    """The entries by name, all of them tensors."""
    if not isinstance(features, Mapping):
        key = "no return value" if features is None else "as"
        raise Missed(key, expected="`as` gives a dict of tensors by name", got=features)
    found = set(features)
    key = "one name" if found == {names[-1]} else "class names" if found and found <= _CLASSES else ""
    expected = f"entries: {words(sorted(names))}"
    expect(found == set(names), key, expected=expected, got=Lazy(lambda: words(sorted(map(str, found)))))
    for name in names:
        if isinstance(features[name], (list, tuple)):
            raise Missed("lists", expected="one tensor per name", got=features[name])
    return {name: trial.tensor(features[name], what="one tensor per name") for name in names}


def _expect_entries(
    trial: Trial, features: Any, names: list[str], outputs: Mapping[str, Tensor], key: str = "", inputs: Any = ()
) -> None:
    """The named entries are the outputs; where one is neither its output nor one of the inputs, it is ``key``."""
    for name, got in _entries(trial, features, names).items():
        if not same(got, outputs[name]):
            key = "inputs" if any(same(got, value) for value in inputs) else key
            raise Missed(key, **difference_details(got, outputs[name], f" in the output of {name!r}"))
        expect(got.dtype == outputs[name].dtype, "dtype", expected=str(outputs[name].dtype), got=str(got.dtype))


@capture.claim("gives a dict with each named submodule's output, in the block and after it", weight=0, gate=True)
def _(trial: Trial) -> None:
    for names in (["encoder.0", "head"], sample(trial, NAMES, 3), ["act"]):
        model, x = layers(trial), trial.randn(trial.integer(2, 5), 3)
        outputs = _outputs(model, x)
        session = _session(trial, model, names, partial(model, x))
        if isinstance(session.inside, Mapping) and not session.inside and session.after:
            raise Missed("late", expected="the entries in the block", got=f"only after it: {words(session.after)}")
        inputs = [x, *(value for name, value in outputs.items() if name not in names)] if len(names) < 3 else []
        _expect_entries(trial, session.inside, names, outputs, inputs=inputs)
        if isinstance(session.after, Mapping) and not session.after.keys() >= set(names):
            raise Missed("emptied", expected="the entries after the block, too", got=words(session.after))
        _expect_entries(trial, session.after, names, outputs)


@capture.claim("holds the newest output: of the last pass, and of the last call in it", weight=0.5)
def _(trial: Trial) -> None:
    model, xs = layers(trial), [trial.randn(4, 3) for _ in range(3)]
    names = sample(trial, NAMES, 2)
    session = _session(trial, model, names, lambda: [model(x) for x in xs], "model(x), three times")
    _expect_entries(trial, session.after, names, _outputs(model, xs[-1]), "first")
    act = nn.Tanh()
    parts = OrderedDict(first=nn.Linear(3, 4), act=act, second=nn.Linear(4, 2), again=act)
    twice = trial.fill(nn.Sequential(parts).double())
    session = _session(trial, twice, ["act"], partial(twice, xs[0]), "model(x), which calls act twice")
    with torch.no_grad():
        _expect_entries(trial, session.after, ["act"], {"act": twice(xs[0])}, "first")


def _step(model: nn.Module, x: Tensor) -> tuple[bool, list[bool], Tensor, tuple[Tensor | None, ...]]:
    """Grad mode and training flags of a forward pass, its output, and the gradients where it was recorded."""
    y = model(x)
    recorded = torch.autograd.grad(y.sum(), list(model.parameters()), allow_unused=True) if y.requires_grad else ()
    return torch.is_grad_enabled(), training_flags(model), y, recorded


@capture.claim("leaves the model to compute, record and train as without it", weight=2.5)
def _(trial: Trial) -> None:
    for enabled, training in ((True, True), (True, False), (False, True)):
        model, x = layers(trial).train(training), trial.randn(4, 3)
        model.act.training = not training
        names = [*sample(trial, ["encoder", "encoder.0", "encoder.2"], 1), "act"]
        with torch.set_grad_enabled(enabled):
            _, flags, plain, right = _step(copy.deepcopy(model), x)
            session = _session(trial, model, names, partial(_step, model, x), "model(x), and backward")
        mode, used, y, gradients = session.result
        expect(mode == enabled, "mode", expected=f"the grad mode {enabled} in the block", got=str(mode))
        expect(used == flags, "flags", expected="the caller's training flags", got="other ones in the block")
        expect(same(trial.tensor(y), plain), "replaced", expected="the output as without hooks", got="another one")
        if enabled:
            missing = len(gradients) < len(right) or any(gradient is None for gradient in gradients)
            unchanged = not missing and all(map(same, gradients, right))
            got = "none for some layers" if missing else "other ones"
            expect(unchanged, "replaced", expected="the gradients as without hooks", got=got)


@capture.claim("holds tensors without history", weight=3.5)
def _(trial: Trial) -> None:
    for flagged in (False, True):
        model, x = layers(trial), trial.randn(4, 3, requires_grad=flagged)
        names = sample(trial, NAMES, 3)
        session = _session(trial, model, names, partial(model, x))
        for features in (session.inside, session.after):
            for name, got in _entries(trial, features, names).items():
                key = "graph" if got.grad_fn is not None else ""
                key = "cloned" if key and got.grad_fn.name() == "CloneBackward0" else key
                expect_no_history(got, key, what=f"{name!r} without history, not flagged")


def _replaces(trial: Trial) -> bool:
    """Whether the next layer is given something that the answer has detached, which then is the entry itself."""
    model, given = layers(trial), []
    model.act.register_forward_pre_hook(lambda _module, args: given.append(args[0].requires_grad))
    _session(trial, model, ["encoder"], partial(model, trial.randn(2, 3)))
    return not all(given)


@capture.claim("is not touched by later in-place operations on the output", weight=3.5)
def _(trial: Trial) -> None:
    alias = "replaced" if _replaces(trial) else "alias"
    model, x = layers(trial, inplace=True), trial.randn(6, 3)
    outputs = _outputs(model, x)

    names = ["encoder.0", "encoder.1"]
    session = _session(trial, model, names, partial(model, x), "model(x), with ReLU(inplace=True)")
    _expect_entries(trial, session.after, names, outputs, alias)
    session = _session(trial, model, ["head"], lambda: model(x).detach(), "y = model(x); after it y.detach().zero_()")
    session.result.zero_()
    _expect_entries(trial, session.features, ["head"], outputs, alias)

    @torch.no_grad()
    def edit() -> None:
        model(x).mul_(3)

    session = _session(trial, model, ["head"], edit, "with torch.no_grad(): model(x).mul_(3)")
    _expect_entries(trial, session.after, ["head"], outputs, "unrecorded")


@capture.claim("takes its hooks away at the end, also after an exception, which goes through", weight=2.5)
def _(trial: Trial) -> None:
    names = ["encoder.0", "act", "head"]
    model, x = layers(trial), trial.randn(4, 3)
    session = _session(trial, model, names, partial(model, x))
    expect_hooks(model, 0, "left on")
    kept = {name: value.detach().clone() for name, value in _entries(trial, session.features, names).items()}
    model(2 * x + 1)
    _expect_entries(trial, session.features, names, kept, "left on")
    swallowed, translated = ("swallowed", "own lines") if session.generator else ("exit value", "")
    for kind, who, given, other in (
        (Unlucky, "block", x, ""),
        (RuntimeError, "model", trial.randn(4, 2), ""),
        (AttributeError, "block", x, translated),  # as of a submodule that is not there
    ):
        model = layers(trial)

        def body() -> None:
            model(given)
            raise kind("this block ends early")

        def call() -> None:
            _session(trial, model, names, body, f"..., and the {who} raises {kind.__name__}")

        expect_clean_error(kind, model, call, who, swallowed, other)


@capture.claim("leaves the hooks of others in place")
def _(trial: Trial) -> None:
    model, x, seen = layers(trial), trial.randn(4, 3), []
    for name in ("encoder.0", "head"):
        layer = model.get_submodule(name)
        layer.register_forward_hook(lambda *_, name=name: seen.append(f"before {name}"))
        layer.register_forward_pre_hook(lambda *_, name=name: seen.append(f"pre {name}"))

    def body() -> None:
        model(x)
        # Somebody else's, set while the block runs: it is theirs to remove.
        model.head.register_forward_hook(lambda *_: seen.append("inside head"))

    _session(trial, model, ["encoder.0", "head"], body, watched=False)
    seen.clear()
    model(x)
    expected = ["pre encoder.0", "before encoder.0", "pre head", "before head", "inside head"]
    shown = f"others' hooks called: {words(expected)}"
    expect(seen == expected, "cleared others", expected=shown, got=words(seen))
    outer = layers(trial)

    def nested() -> Any:
        with trial.answer(outer, ["act"]):
            pass
        return outer(x)

    session = _session(trial, outer, ["act"], nested, "... after a second capture has ended inside")
    _expect_entries(trial, session.after, ["act"], _outputs(outer, x), "cleared others")


@capture.claim("raises KeyError for an unknown name, and leaves no hook behind")
def _(trial: Trial) -> None:
    for names in (["encoder.0", "act", "nowhere"], ["head", "encoder.7", "encoder.0"], ["nowhere"]):
        model, x = layers(trial), trial.randn(2, 3)

        def call() -> None:
            _session(trial, model, names, partial(model, x))

        expect_raises(KeyError, call, "no error", other="other error")
        expect_hooks(model, 0, "half registered")
