"""``grad_cam`` maps where a model looks: its check cuts models in two after the layer, and works the map out anew."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from course_utils.base.text import message_of
from course_utils.checks.claims import (
    AnswerRaised,
    Missed,
    Raises,
    Trial,
    Unlucky,
    equal_or_none,
    exercise,
    expect,
    expect_hooks,
    expect_no_history,
    expect_same,
    same,
)
from course_utils.lessons.forward_hooks._shared import expect_clean_error

grad_cam = exercise(__file__)

_HEIGHT, _WIDTH = 7, 6


def _image_model(trial: Trial, *, inplace: bool = False, height: int = _HEIGHT) -> nn.Sequential:
    """A convolutional model of 4 classes for images of two channels, without pooling: no gradient is constant."""
    c = trial.integer(6, 7)  # channels, places and samples differ in number, or recipes could not be told apart
    features = nn.Sequential(
        nn.Conv2d(2, 5, 2), nn.ReLU(inplace=inplace), nn.Conv2d(5, c, 2), nn.ReLU(inplace=inplace), nn.Softplus()
    )
    head = nn.Sequential(nn.Flatten(), nn.Linear(c * (height - 2) * (_WIDTH - 2), 6), nn.Tanh(), nn.Linear(6, 4))
    model = trial.fill(nn.Sequential(OrderedDict(features=features, head=head)).double())
    with torch.no_grad():
        head[1].weight.mul_(0.2)  # or tanh would be flat, and every gradient tiny
    return model


def _gradient(result: Tensor, leaf: Tensor) -> Tensor:
    return torch.autograd.grad(result.sum(), leaf, retain_graph=True)[0]


class _Cam:
    """The parts of a Grad-CAM, worked out by cutting the model in two after the layer."""

    def __init__(self, model: nn.Sequential, layer: str, x: Tensor, index: int) -> None:
        flat = [*copy.deepcopy(model.features), *copy.deepcopy(model.head)]
        cut = len(model.features) if layer == "features" else int(layer.split(".")[1]) + 1
        for module in flat:
            module.requires_grad_(False)
            if isinstance(module, nn.ReLU):
                module.inplace = False
        with torch.no_grad():
            self.activation = nn.Sequential(*flat[:cut])(x)
        self.leaf = self.activation.clone().requires_grad_()
        with torch.enable_grad():
            self.logits = nn.Sequential(*flat[cut:])(self.leaf)
        self.index = index
        self.gradient = _gradient(self.logits[:, index], self.leaf)
        self.sum = self.weighted(self.gradient)
        self.map = self.sum.relu()

    def weighted(self, gradient: Tensor) -> Tensor:
        return (gradient.mean((2, 3), keepdim=True) * self.activation).sum(1)

    def sum_of(self, result: Tensor) -> Tensor:
        """The sum of the channels for something else than the class's logit."""
        return self.weighted(_gradient(result, self.leaf))

    def other_sizes(self) -> Iterator[tuple[str, Tensor]]:
        """The map too large or too small by one factor, with the misconceptions."""
        yield "mean of batch", self.map / len(self.activation)
        yield "summed weights", self.map * self.activation[0, 0].numel()
        yield "channel mean", self.map / self.activation.shape[1]

    def of_size(self, got: Tensor) -> Tensor:
        """The map with the answer's own factor, where that is a known one: one claim alone judges the factor."""
        return next((sized for _, sized in self.other_sizes() if same(got, sized)), self.map)

    def other_recipes(self) -> Iterator[tuple[str, Tensor]]:
        """What other recipes give, with their misconceptions."""
        a, g = self.activation, self.gradient
        w = g.mean((2, 3), keepdim=True)
        yield "no relu", self.sum
        yield "absolute", self.sum.abs()
        yield "relu first", (w.relu() * a).sum(1)
        yield "relu first", (w.relu() * a).sum(1).relu()
        yield "relu first", (w * a).relu().sum(1)
        yield "relu first", (w * a.relu()).sum(1).relu()
        yield "relu first", self.weighted(g.relu()).relu()
        for key, of_channels in self._other_sums():
            yield key, of_channels.relu()
            yield key, of_channels  # and no relu, which is told when this is mended
        largest, smallest = self.map.amax((1, 2), keepdim=True), self.map.amin((1, 2), keepdim=True)
        yield "normalised", self.map / largest
        yield "normalised", self.map / (largest + 1e-8)
        yield "normalised", self.map / self.map.max()
        yield "normalised", (self.map - smallest) / (largest - smallest)

    def _other_sums(self) -> Iterator[tuple[str, Tensor]]:
        a, g = self.activation, self.gradient
        w = g.mean((2, 3), keepdim=True)
        of_all = self.sum_of(self.logits)
        for row in torch.eye(len(a), dtype=a.dtype).view(len(a), len(a), 1, 1):
            yield "one sample", self.sum * row
            yield "class first", of_all * row
        yield "batch weights", (w.mean(0) * a).sum(1)
        yield "batch weights", (w.sum(0) * a).sum(1)
        yield "pixel weights", (g * a).sum(1)
        yield "pixel weights", (g * a).mean(1)
        yield "unweighted", a.sum(1)
        yield "unweighted", a.mean(1)
        yield "all classes", of_all
        yield "predicted class", self.sum_of(self.logits.max(1).values)
        yield "probability", self.sum_of(self.logits.softmax(1)[:, self.index])
        log = self.logits.log_softmax(1)[:, self.index]
        for loss in (log, -log, log / len(a), -log / len(a)):  # summed in ``sum_of``
            yield "probability", self.sum_of(loss)


def _map(
    trial: Trial, model: nn.Module, layer: str, x: Tensor, index: int, what: str = "model", when: str = ""
) -> Tensor:
    show = f"grad_cam({what}, {layer!r}, {'flagged ' * x.requires_grad}x, {index}){when}"
    return trial.tensor(trial.call(model, layer, x, index, show=show))


def _place(tensor: Tensor) -> int | None:
    try:
        return tensor.data_ptr()
    except RuntimeError:  # what torch.func wraps has no memory of its own
        return None


def _handed_on(model: nn.Module, layer: str) -> Callable[[], str]:
    """Afterwards, what was edited in place: what the layer gave, or another tensor that the answer handed on for it."""
    name, _, number = layer.rpartition(".")
    given, taken = list[int | None](), list[int | None]()
    model.get_submodule(layer).register_forward_hook(lambda _module, _args, output: given.append(_place(output)))
    following = model.get_submodule(f"{name}.{int(number) + 1}")
    following.register_forward_pre_hook(lambda _module, args: taken.append(_place(args[0])))
    return lambda: "in place" if given == taken else "handed on"


def _images(trial: Trial, *, flagged: bool = False) -> Tensor:
    return trial.randn(trial.integer(2, 4), 2, _HEIGHT, _WIDTH, requires_grad=flagged)


def _mapped(trial: Trial, layer: str, *, inplace: bool) -> tuple[nn.Sequential, Tensor, int, _Cam]:
    model, x, index = _image_model(trial, inplace=inplace), _images(trial), trial.integer(0, 3)
    return model, x, index, _Cam(model, layer, x, index)


def _telling(trial: Trial, layer: str) -> tuple[nn.Sequential, Tensor, int, _Cam]:
    """A model, images and a class whose maps are not empty and not without a negative sum, so that recipes differ."""
    while True:
        model, many, index = _image_model(trial), trial.randn(24, 2, _HEIGHT, _WIDTH), trial.integer(0, 3)
        cam = _Cam(model, layer, many, index)
        telling = (cam.map > 1e-3) & (cam.sum_of(cam.logits) > 1e-3)
        mixed = telling.flatten(1).any(1) & (cam.sum < -1e-3).flatten(1).any(1) & (cam.logits.argmax(1) != index)
        x = many[mixed.nonzero().flatten()[: trial.integer(2, 4)]]
        if len(x) >= 2:
            return model, x, index, _Cam(model, layer, x, index)


@grad_cam.claim("is relu of the channels summed with each sample's own weights, up to one factor", weight=0, gate=True)
def _(trial: Trial) -> None:
    for layer in ("features.2", "features.0", "features"):
        model, x, index, cam = _telling(trial, layer)
        got = _map(trial, model, layer, x, index)
        is_large = got.shape == (len(x), _HEIGHT, _WIDTH)
        right = f"shape {tuple(cam.map.shape)}"
        expect(not is_large, "image size", expected=right, got=f"shape {tuple(got.shape)}")
        with_channel = got.shape == cam.map[:, None].shape
        expect(not with_channel, "size one", expected=right, got=f"shape {tuple(got.shape)}")
        expect_same(got, cam.of_size(got), cam.other_recipes())


@grad_cam.claim("weighs each channel by the mean of its gradient", weight=4.5)
def _(trial: Trial) -> None:
    model, x, _index, cam = _telling(trial, "features.2")
    expect_same(_map(trial, model, "features.2", x, cam.index), cam.map, cam.other_sizes())


@grad_cam.claim("keeps its three dimensions for a single image, and for a layer of height 1", weight=0.5)
def _(trial: Trial) -> None:
    for count, height, show in ((1, _HEIGHT, ", x one image"), (2, 3, ", x of low images")):
        model, x = _image_model(trial, height=height), trial.randn(count, 2, height, _WIDTH)
        cam, right = _Cam(model, "features.2", x, 1), f"shape {(count, height - 2, _WIDTH - 2)}"
        try:
            got = _map(trial, model, "features.2", x, 1, when=show)
        except AnswerRaised as raised:
            raise Missed("size one", expected=right, raised=message_of(raised.error, 100)) from None
        expect(got.shape == cam.map.shape, "size one", expected=right, got=f"shape {tuple(got.shape)}")
        expect_same(got, cam.of_size(got))


@grad_cam.claim("has the dtype of the layer's output, also where that has 16 bits", weight=0.5)
def _(trial: Trial) -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        got = _map(trial, _image_model(trial).to(dtype), "features.2", _images(trial).to(dtype), 1, f"model in {dtype}")
        expect(got.dtype == dtype, "dtype", expected=str(dtype), got=str(got.dtype))


@grad_cam.claim("is detached", weight=0.5)
def _(trial: Trial) -> None:
    for flagged in (False, True):
        x = _images(trial, flagged=flagged)
        expect_no_history(_map(trial, _image_model(trial), "features.2", x, trial.integer(0, 3)), "history")


@grad_cam.claim("uses the layer's own output and its gradient, also where an in-place operation follows", weight=2)
def _(trial: Trial) -> None:
    for layer, is_edited in (("features.2", True), ("features.0", True), ("features.3", False)):
        model, x, index, cam = _mapped(trial, layer, inplace=True)
        edited = _handed_on(model, layer)
        got = _map(trial, model, layer, x, index, "model with ReLU(inplace=True)")
        expect_same(got, cam.of_size(got), key=edited() if is_edited else "")


@grad_cam.claim("fills no `.grad` and leaves those that are there")
def _(trial: Trial) -> None:
    for filled in (False, True):
        model, x = _image_model(trial), _images(trial, flagged=True)
        leaves = [*model.parameters(), x]
        before = [trial.randn(*leaf.shape) if filled else None for leaf in leaves]
        for leaf, grad in zip(leaves, before, strict=True):
            leaf.grad = grad.clone() if filled else None
        _map(trial, model, "features.2", x, 1, when=", with gradients there before" * filled)
        for leaf, grad in zip(leaves, before, strict=True):
            kept = equal_or_none(leaf.grad, grad)
            got = "cleared" if leaf.grad is None else "changed" if filled else "filled"
            key = "cleared" if got == "cleared" and filled else "put back" if filled else "fills"
            expect(kept, key, expected=f".grad of {'x' if leaf is x else 'a parameter'} as before", got=got)


def _bears_edits(trial: Trial) -> bool:
    """Whether an in-place operation after the layer goes well where parameters are flagged. If it does not, that is
    told above, and is no mistake about frozen models."""
    effects, (model, x, index, cam) = list(trial.effects), _mapped(trial, "features.0", inplace=True)
    try:
        got = _map(trial, model, "features.0", x, index)
    except (AnswerRaised, Missed):
        return False
    finally:
        trial.effects = effects
    return same(got, cam.of_size(got))


@grad_cam.claim("works for a frozen model, and leaves all flags as they were")
def _(trial: Trial) -> None:
    for layer, inplace, trained, show in (
        ("features.2", False, "nothing", "frozen model"),
        ("features.0", True, "nothing", "frozen model with ReLU(inplace=True)"),
        ("features.2", False, "", "model"),
        ("features", False, "head.3", "frozen model with a trained head.3"),
    ):
        if inplace and not trial.once(_bears_edits):
            continue
        model, x, index, cam = _mapped(trial, layer, inplace=inplace)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith(trained))
        given = {"x": x, **dict(model.named_parameters())}
        flags = {name: tensor.requires_grad for name, tensor in given.items()}
        edited = _handed_on(model, layer) if inplace else str
        got = _map(trial, model, layer, x, index, show)
        changed = next((name for name, tensor in given.items() if tensor.requires_grad != flags[name]), "x")
        # Where all were equal before, or some still differ, it was not one flag for all.
        is_one = trained == "head.3" and len({parameter.requires_grad for parameter in model.parameters()}) == 1
        before, now = (f"requires_grad of {changed}: {flag}" for flag in (flags[changed], given[changed].requires_grad))
        expect(before == now, "one flag" if is_one else "flags", expected=before, got=now)
        expect_same(got, cam.of_size(got), key=edited())


@grad_cam.claim("leaves no hooks, also where the forward pass raises, and the hooks of others in place")
def _(trial: Trial) -> None:
    model, seen = _image_model(trial), []
    _map(trial, model, "features.2", _images(trial), 1)
    expect_hooks(model, 0, "left on")
    model.features[2].register_forward_hook(lambda *_: seen.append(1))
    _map(trial, model, "features.2", _images(trial), 1)
    seen.clear()
    model(_images(trial))
    shown = f"{len(seen)} times"
    expect(seen == [1], "cleared others", expected="the hook of another called once", got=shown)
    for kind, x in ((RuntimeError, trial.randn(2, 2, _HEIGHT + 1, _WIDTH)), (Unlucky, _images(trial))):
        model = _image_model(trial)
        if kind is Unlucky:
            model.head.insert(1, Raises())
        show = "model that raises after the layer"
        expect_clean_error(kind, model, lambda: _map(trial, model, "features.2", x, 1, show))


@grad_cam.claim("works inside the caller's `no_grad`")
def _(trial: Trial) -> None:
    model, x, index, cam = _mapped(trial, "features.2", inplace=False)
    recorded = list[bool]()
    model.register_forward_hook(lambda _module, _args, logits: recorded.append(logits.requires_grad))
    with torch.no_grad():
        try:
            got = _map(trial, model, "features.2", x, index, when=", under no_grad")
        except AnswerRaised as raised:
            message = message_of(raised.error, 100)
            if any(recorded) and "require" in message:  # the logits were recorded, what was made of them was not
                raise Missed("after the block", raised=message, **{"in": raised.where}) from None
            raise
        expect_same(got, cam.of_size(got))
