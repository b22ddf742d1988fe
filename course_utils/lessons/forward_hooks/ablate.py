"""``ablate``: what it claims."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.checks.claims import same
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.forward_hooks._shared import _exactly, _numbers

ablate = exercise(__file__)


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
