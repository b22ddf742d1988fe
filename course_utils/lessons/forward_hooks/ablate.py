"""``ablate`` zeroes channels of a module's output: its check looks at outputs, inputs, gradients, and the undoing."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Lazy, Missed, Trial, exercise, expect, expect_same, hook_count, reading, same
from course_utils.lessons.forward_hooks._shared import difference_details, sample

ablate = exercise(__file__)


class ScaledExp(nn.Module):
    """Works on each channel by itself: one weight per channel, and a function whose result autograd saves."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight.view(-1, *[1] * (x.dim() - 2)) * x / 4).exp()


class KeepsOutput(nn.Module):
    """Hands out a tensor that it keeps."""

    def forward(self, x: Tensor) -> Tensor:
        self.last = x * 2
        return self.last


def _split(trial: Trial, count: int) -> tuple[list[int], list[int]]:
    """Channels out of so many, in any order, never all; and the others."""
    listed = sample(trial, range(count), trial.integer(1, count - 2))
    return listed, [index for index in range(count) if index not in listed]


def _zeroed(y: Tensor, channels: list[int], dim: int = 1) -> Tensor:
    return y.index_fill(dim, torch.tensor(channels), 0)


def _ablating(
    trial: Trial, module: nn.Module, channels: list[int], body: Callable[[Any], Any], x: Tensor, show: str = "module(x)"
) -> Any:
    """Calls the answer, then ``body`` with its handle, and looks whether it left inputs and weights alone."""
    handles: list[Any] = []

    def drive() -> Any:
        handles.append(trial.answer(module, list(channels)))
        return body(handles[0]) if callable(getattr(handles[0], "remove", None)) else None

    watch = {"x": x} | {f"module.{name}": tensor for name, tensor in module.named_parameters()}
    result = trial.run(drive, called=f"ablate({type(module).__name__}, {channels}); {show}", watch=watch)
    if not callable(getattr(handles[0], "remove", None)):
        key = "no return value" if handles[0] is None else ""
        raise Missed(key, expected="a handle with remove()", got=handles[0])
    return result


def _images(trial: Trial, channels: int) -> tuple[nn.Module, Tensor]:
    """A convolution with that many channels, and its input."""
    return trial.fill(nn.Conv2d(3, channels, 1)).double(), trial.randn(4, 3, 2, 2)


@ablate.claim("zeroes the listed channels of images from now on, and keeps the others", weight=0, gate=True)
def _(trial: Trial) -> None:
    # Every dimension has room for every index.
    c, (n, high, wide) = trial.integer(5, 7), (trial.integer(8, 9) for _ in range(3))
    convolution = trial.fill(nn.Conv2d(8, c, 1)).double()
    cases = [(convolution, trial.randn(n, 8, high, wide)), (nn.Identity(), trial.randn(n, c, high, wide))]
    _expect_zeroed(trial, c, cases)


@ablate.claim("also where the output has two dimensions, or three", weight=4)
def _(trial: Trial) -> None:
    c, (n, long) = trial.integer(5, 7), (trial.integer(8, 9) for _ in range(2))
    linear, convolution = trial.fill(nn.Linear(8, c)).double(), trial.fill(nn.Conv1d(2, c, 1)).double()
    identity = nn.Identity(), trial.randn(n, c)
    _expect_zeroed(trial, c, [(linear, trial.randn(n, 8)), identity, (convolution, trial.randn(n, 2, long))])


def _expect_zeroed(trial: Trial, count: int, cases: list[tuple[nn.Module, Tensor]]) -> None:
    for module, x in cases:
        listed, others = _split(trial, count)
        plain, xs, hooks = copy.deepcopy(module), [x, x[:-1] + 1], []

        def body(_handle: Any) -> list[Tensor]:
            hooks.append(hook_count(module))
            with torch.no_grad():
                return [module(x.clone()) for x in xs]

        results = _ablating(trial, module, listed, body, x, "module(x), twice")
        weights = plain.state_dict()
        kept = all(torch.equal(value, weights[name]) for name, value in module.state_dict().items())
        expect(kept, "weights", expected="the module's weights as before", got="other weights")
        for x, result, unchanged in zip(xs, results, ("not returned", "once"), strict=True):
            y, got = plain(x).detach(), trial.tensor(result)
            key = "image" if got.dim() > y.dim() else "dropped" if got.shape[1:2] == (len(others),) else ""
            expect(got.shape == y.shape, key, expected=f"shape {tuple(y.shape)}", got=f"shape {tuple(got.shape)}")
            if same(got, _zeroed(y, listed)):
                continue
            readings = [(unchanged if hooks[0] else "gone", y), ("inverted", _zeroed(y, others))]
            if x.shape[1] >= count:
                readings.append(("inputs", plain(_zeroed(x, listed))))
            readings += [(key, _zeroed(y, listed, dim)) for key, dim in (("dim", 0), ("last", -1))]
            zeros = [index for index in range(count) if not got[:, index].any()]
            shown = f"zeros in {zeros or 'none of them'}" + ", and other values" * (zeros == sorted(listed))
            along = [dim for dim in range(y.dim()) if dim != 1 and same(got, _zeroed(y, listed, dim))]
            shown = f"zeros at {sorted(listed)} of dimension {along[0]}" if along else shown
            raise Missed(reading(got, readings), expected=f"zeros in the channels {sorted(listed)} alone", got=shown)


@ablate.claim("zeroes them exactly, also where they were inf or NaN, and leaves the others' inf and NaN", weight=4)
def _(trial: Trial) -> None:
    c = trial.integer(5, 7)
    listed, others = _split(trial, c)
    for shape in ((4, c, 3, 3), (3, c, 4, 2)):
        module, x = nn.Identity(), trial.randn(*shape)
        for row, bad in enumerate((torch.nan, torch.inf, -torch.inf)):
            x[row, [listed[0], others[0]]] = bad
        result = _ablating(trial, module, listed, lambda _: module(x.clone()), x, "module(x), x with inf and NaN")
        got = trial.tensor(result, shape=x.shape)
        zeroed = bool((got[:, listed] == 0).all())
        left = Lazy(lambda: f"{got[:, listed][got[:, listed] != 0][0].item():g}")
        expect(zeroed, "times zero", expected=f"0 in the channels {sorted(listed)}", got=left)
        expected = f"channel {others[0]} as it was, inf and NaN too"
        expect(same(got, _zeroed(x, listed)), "cleaned", expected=expected, got="other values")


@ablate.claim("keeps the output's dtype, also where that has 16 bits")
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        c = trial.integer(5, 7)
        module, x = (value.to(dtype) for value in _images(trial, c))
        result = _ablating(trial, module, _split(trial, c)[0], lambda _: module(x), x, f"module(x) in {dtype}")
        got = trial.tensor(result)
        widened = dtype.itemsize == 2 and got.dtype == torch.float32  # and wider ones stayed as they were
        expect(got.dtype == dtype, "widened" if widened else "dtype", expected=str(dtype), got=str(got.dtype))


@ablate.claim("edits neither the module's input nor its own output tensor", weight=4)
def _(trial: Trial) -> None:
    c = trial.integer(5, 7)
    listed, _ = _split(trial, c)
    for module in (nn.Identity(), KeepsOutput()):
        x = trial.randn(4, c, 2, 3)
        seen: list[tuple[Tensor, Tensor]] = []
        module.register_forward_hook(lambda _module, _args, output: seen.append((output, output.clone())))
        given = x.clone()
        got = trial.tensor(_ablating(trial, module, listed, lambda _: module(given), x))
        expect(bool(seen), "cleared others", expected="the hook of another called", got="not called")
        output, as_it_was = seen[0]
        for what, tensor, before in (("input", given, x), ("own output tensor", output, as_it_was)):
            kept = tensor.dtype == before.dtype and torch.equal(tensor, before)
            expect(kept, "in place", expected=f"the module's {what} as it was", got="zeros in it")
        zeroed = same(got, _zeroed(as_it_was, listed))
        expect(zeroed, expected="zeros in the listed channels", got="other values")


@ablate.claim("keeps the gradients of the other channels", weight=4)
def _(trial: Trial) -> None:
    c = trial.integer(5, 7)
    for shape, flagged in (((4, c, 2, 2), True), ((3, c, 4, 2), False)):
        listed, others = _split(trial, c)
        module = trial.fill(ScaledExp(c).double())
        x, slope = trial.randn(*shape, requires_grad=flagged), trial.randn(*shape)
        inputs = [module.weight, x][: 1 + flagged]
        expected = torch.autograd.grad((_zeroed(module(x), listed) * slope).sum(), inputs)

        def body(_handle: Any) -> tuple:
            y = module(x)
            return torch.autograd.grad((y * slope).sum(), inputs, allow_unused=True) if y.requires_grad else ()

        got = _ablating(trial, module, listed, body, x, "module(x), and backward")
        is_there = got and all(gradient is not None for gradient in got)
        expect(is_there, "detached", expected="gradients of the other channels", got="none")
        for dim, (gradient, right) in enumerate(zip(got, expected, strict=True)):  # channels: weight's first dimension
            gradient, right = (tensor.index_select(dim, torch.tensor(others)) for tensor in (gradient, right))
            expect_same(gradient, right, key="" if gradient.any() else "detached")


@ablate.claim("is undone by `handle.remove()`, which leaves the hooks and ablations of others in place")
def _(trial: Trial) -> None:
    c = trial.integer(5, 7)
    (channels, _), (module, x) = _split(trial, c), _images(trial, c)
    with torch.no_grad():
        plain = module(x)

    def undone(handle: Any) -> tuple[Tensor, Tensor]:
        on = module(x)
        handle.remove()
        return on, module(x)

    on, off = _ablating(trial, module, channels, undone, x, "handle.remove(); module(x)")
    for key, when, got, right in (
        ("no undo", " after remove()", off, plain),
        ("", " before remove()", on, _zeroed(plain, channels)),
    ):
        if not same(got, right):
            raise Missed(key, **difference_details(got, right, when))

    seen: list[int] = []
    module.register_forward_hook(lambda *_: seen.append(1))
    later = channels[:1]
    earlier = [index for index in range(c) if index not in later][:2]

    def stacked(first: Any) -> tuple[Tensor, Tensor, Tensor, list[int], bool]:
        second = trial.answer(module, list(later))
        cleared = hook_count(module) < 2  # another's hook and the second ablation's
        module.register_forward_hook(lambda *_: seen.append(2))
        before = module(x)
        first.remove()
        seen.clear()
        after, called = module(x), list(seen)
        second.remove()
        return before, after, module(x), called, cleared

    before, after, last, called, cleared = _ablating(
        trial, module, earlier, stacked, x, "a second ablate; remove() of the first"
    )
    both = same(before, _zeroed(plain, earlier + later))
    expect(
        both, "cleared others" if cleared else "one ablation", expected="both ablations at work", got="not both of them"
    )
    expect(called == [1, 2], "cleared others", expected="two hooks of others called", got=f"{len(called)} of them")
    # Whoever has put back what was there before the first one has undone the second, and then brings the first back.
    key = "found before" if same(last, _zeroed(plain, earlier)) else ""
    got = "neither at work" if same(after, plain) else "another output"
    expected = "the second ablation at work, and not the first"
    expect(same(after, _zeroed(plain, later)), key, expected=expected, got=got)
    expected = "the module's own output after both are removed"
    expect(same(last, plain), "no undo", expected=expected, got="zeros in it")
