"""``Extend``: Functions and hooks of others, and a training step that a hook takes."""

import gc
import weakref
from typing import Any

import numpy as np
import torch

from course_utils.checks.claims import Missed, Trial, exercise, expect
from course_utils.engine import Function
from course_utils.lessons.own_engine import _shared as shared

Extend = exercise(__file__)


@Extend.claim("is a class of your own with a method of this part", weight=0, gate=True)
def _(trial: Trial) -> None:
    shared.expect_part(trial)


class _Noted:
    """Two Functions that note what is done to them: a product of three, and one that hands on what it was given."""

    def __init__(self) -> None:
        self.calls, self.modes, self.kinds = 0, list[bool](), set[str]()
        noted = self

        class Product(Function):
            @staticmethod
            def forward(context: Any, a: Any, b: Any, c: Any) -> Any:
                noted.modes.append(c.engine.enabled)
                context.save_for_backward(a, b)
                context.factor = 3.0
                return a * b * c * context.factor

            @staticmethod
            def backward(context: Any, gradient: Any) -> Any:
                noted.calls += 1
                a, b = context.saved_tensors
                noted.kinds |= {type(a).__name__, type(gradient).__name__}
                return gradient * b * context.factor, gradient * a * context.factor, None

        class Same(Function):
            forward = staticmethod(lambda context, x: x)
            backward = staticmethod(lambda context, gradient: -gradient)

        self.product, self.same = Product, Same


class _Square(Function):
    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return gradient * 2 * context.saved_tensors[0]


def _expect_recorded(trial: Trial) -> None:
    """What a Function returns requires grad. Where it does not, the mode in which it was recorded says why."""
    shared.expect_written(trial, "apply")
    modes: list[bool] = []

    def is_recorded() -> bool:
        engine = shared.engine_of(trial, "apply")
        record = engine.record
        engine.record = lambda *given: modes.append(engine.enabled) or record(*given)
        return _Noted().same.apply(engine.tensor(np.ones(3), True)).requires_grad

    recorded = trial.run(is_recorded, called="Same.apply(x), whose forward returns x, and which requires grad")
    key = "recorded off" if modes == [False] else ""
    expect(recorded, key, expected="a result that requires grad", got="one that does not")


@Extend.claim(
    "runs forward unrecorded, and records one node, whose backward is called once with what was saved", weight=3
)
def _(trial: Trial) -> None:
    _expect_recorded(trial)
    a, b = trial.randn(3).numpy(), trial.randn(3).numpy()
    noted = _Noted()

    def apply() -> list[Any]:
        engine = shared.engine_of(trial, "apply")
        x, y = engine.tensor(a, True), engine.tensor(b, True)
        result = noted.product.apply(x, y, np.ones(3))
        (result * result).sum().backward()
        return [result.data, x.grad, y.grad, [node.name for node in engine.visits]]

    value, of_a, of_b, names = trial.run(apply, called="Product.apply(a, b, ones), a Function with a backward")
    expect(noted.modes == [False], "recorded inside", expected="forward inside no_grad", got="while recording")
    right = 3 * a * b
    expect(shared.near(value, right), expected="what forward returned", got=shared.shown(value))
    once = f"{noted.calls} calls of backward"
    expect(noted.calls > 0, expected="one call of backward", got=once)
    expect(noted.calls == 1, "once each", expected="one call of backward", got=once)
    expect("Product" in names, expected="a node with the name of the Function", got=" ".join(names))
    expect(noted.kinds == {"ndarray"}, expected="arrays for backward", got=", ".join(sorted(noted.kinds)))
    for got, gradient in ((of_a, 2 * right * 3 * b), (of_b, 2 * right * 3 * a)):
        expect(shared.near(got, gradient), expected=shared.shown(gradient), got=shared.shown(got))


@Extend.claim("raises after an edit of what a Function has saved, and at a second backward", weight=1.5)
def _(trial: Trial) -> None:
    _expect_recorded(trial)
    a, b = trial.randn(3).numpy(), trial.randn(3).numpy()

    def raised(edit: bool) -> str:
        noted, engine = _Noted(), shared.engine_of(trial, "apply")
        x, y = engine.tensor(a, True), engine.tensor(b.copy())
        loss = noted.product.apply(x, y, engine.tensor(np.ones(3))).sum()
        try:
            if edit:
                y.mul_(2.0)
            loss.backward()
            loss.backward()
        except RuntimeError:
            return "error" if noted.calls == (0 if edit else 1) else f"one after {noted.calls} calls of backward"
        return "nothing raised"

    for edit, what in ((True, "after an edit of what was saved"), (False, "the second time")):
        got = trial.run(lambda edit=edit: raised(edit), called=f"backward through a Function {what}")
        key = "around save" if got == "nothing raised" else ""
        expect(got == "error", key, expected=f"a RuntimeError {what}", got=got)


@Extend.claim("gives a Function that returns its input a result of its own", weight=0.5)
def _(trial: Trial) -> None:
    _expect_recorded(trial)
    a = trial.randn(3).numpy()

    def same() -> list[Any]:
        engine = shared.engine_of(trial, "apply")
        x = engine.tensor(a, True)
        result = _Noted().same.apply(x)
        leaf = x.is_leaf
        if leaf:
            (result * 2.0).sum().backward()
        return [leaf, x.grad]

    leaf, gradient = trial.run(same, called="Same.apply(x), whose forward returns x")
    expect(leaf, "its input", expected="x is a leaf as before", got="x has become a result")
    expect(shared.near(gradient, np.full(3, -2.0)), expected="-2 everywhere", got=shared.shown(gradient))


@Extend.claim("runs tensor hooks one after the other; None leaves the gradient as it is", weight=2)
def _(trial: Trial) -> None:
    given = shared.leaves(trial, (3,), (3,), flags=(True, False))
    c = given["t1"][0]
    own = "register_hook", "hooked"
    looks = ("t2.register_hook(lambda g: None)",)
    program = shared.program(given, "t2 = t0 * t1", *looks, "t2.sum().backward()")
    otherwise = [("None is zero", lambda found: not shared.near(found["t0.grad"], c))]
    shared.expect_as_torch(trial, program, *own, otherwise=otherwise, error="None is zero")
    hooks = "t2.register_hook(lambda g: g * 3.0)", "t2.register_hook(lambda g: g + 1.0)"
    # Ones come to t2. The first hook alone makes 3 of them, the second 2; one after the other they make 4.
    otherwise = [("not chained", lambda found: shared.near(found["t0.grad"], 2 * c))]
    otherwise += [("first only", lambda found: shared.near(found["t0.grad"], 3 * c))]
    otherwise += [("new list", lambda found: shared.near(found["t0.grad"], c) and _is_another_list(trial))]
    shared.expect_as_torch(
        trial, shared.program(given, "t2 = t0 * t1", *hooks, "t2.sum().backward()"), *own, otherwise=otherwise
    )
    program = shared.program(given, "t2 = t0 * t1", *looks, hooks[0], "t2.sum().backward()")
    ends = [("None ends", lambda found: shared.near(found["t0.grad"], c))]
    shared.expect_as_torch(trial, program, *own, otherwise=ends)
    lines = "t0.register_hook(lambda g: g * 2.0)", "t2 = t0 * t1", "(t2 + t2).sum().backward()"
    shared.expect_as_torch(trial, shared.program(given, *lines), *own)


def _is_another_list(trial: Trial) -> bool:
    """Whether a tensor has another list of hooks when one has been registered."""

    def changed() -> bool:
        h = shared.engine_of(trial, "register_hook").tensor(np.ones(3), True) * 2.0
        before = h.hooks
        h.register_hook(lambda gradient: None)
        return h.hooks is not before

    return trial.run(changed, called=trial.called)


@Extend.claim("calls a leaf's hooks with the leaf, when its `.grad` has been filled", weight=1)
def _(trial: Trial) -> None:
    a = trial.randn(3).numpy()

    def step() -> list[Any]:
        engine, seen = shared.engine_of(trial, "register_post_accumulate_grad_hook", "accumulated"), []
        x = engine.tensor(a.copy(), True)
        early = []

        def hook(leaf: Any) -> None:
            early.append(x.grad is None)
            seen.append(leaf is x and leaf.grad.copy())

        x.register_post_accumulate_grad_hook(hook)
        (x + x * 2.0).sum().backward()
        return [seen, early[:1] == [True]]

    shared.expect_written(trial, "register_post_accumulate_grad_hook", "accumulated")
    seen, early = trial.run(step, called="backward with a hook of register_post_accumulate_grad_hook")
    expect(len(seen) > 0, expected="one call", got="no call")
    expect(len(seen) == 1, expected="one call", got=f"{len(seen)} calls")
    where = "the wrong list" if early else "the gradient"
    expect(seen[0] is not False, where, expected="the leaf itself", got="a gradient" + " on its way" * early)
    expect(shared.near(seen[0], np.full(3, 3.0)), expected=".grad filled: 3 everywhere", got=shared.shown(seen[0]))


@Extend.claim("lets go of what backward frees", weight=0.5)
def _(trial: Trial) -> None:
    _expect_recorded(trial)
    a = trial.randn(3).numpy()

    class Kept(Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            made = x.engine.tensor(np.exp(x.data))
            context.save_for_backward(made)
            Kept.array = weakref.ref(made.data)
            return made * 2.0

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            (made,) = context.saved_tensors
            return gradient * made * 2.0

    def alive() -> list[bool]:
        loss = Kept.apply(shared.engine_of(trial, "apply").tensor(a, True)).sum()
        before = Kept.array() is not None
        loss.backward()
        if Kept.array() is not None:
            gc.collect()
        return [before, Kept.array() is not None]

    before, after = trial.run(alive, called="backward through a Function that saves what its forward made")
    expect(before, expected="the array alive before backward", got="it is gone")
    expect(not after, "kept", expected="nobody holds the array after backward", got="somebody does")


@Extend.claim("trains a net, each weight stepping in its hook, to the losses of PyTorch", weight=1)
def _(trial: Trial) -> None:
    x, y = trial.randn(16, 5).numpy(), trial.randn(16, 3).numpy()
    w1, w2 = trial.randn(5, 7).numpy() * 0.3, trial.randn(7, 3).numpy() * 0.3

    def train(lib: Any, square: Any) -> list[float]:
        inputs, target = lib.tensor(x), lib.tensor(-y)
        weights = [lib.tensor(w.copy(), True) for w in (w1, w2)]

        def step(weight: Any) -> None:
            with lib.no_grad():
                weight.add_(weight.grad * -0.01)
            weight.grad = None

        for weight in weights:
            weight.register_post_accumulate_grad_hook(step)
        losses = []
        for _ in range(8):
            error = (inputs @ weights[0]).tanh() @ weights[1] + target
            loss = square(error).sum()
            loss.backward()
            losses.append(float(loss.data))
        return losses

    shared.expect_written(trial)
    _expect_recorded(trial)
    with torch.enable_grad():
        right = train(shared.TORCH, torch.square)
    called = "eight steps of a two-layer net, whose loss a Function squares"
    got = trial.run(lambda: train(shared.engine_of(trial), _Square.apply), called=called)
    if not np.allclose(got, right, rtol=0, atol=1e-10):
        raise Missed(expected=f"the losses of PyTorch, {right[-1]:.10f} at last", got=f"{got[-1]:.10f}")
