"""``grad_cam``: what it claims."""

import copy
from collections import OrderedDict

import torch
from torch import Tensor, nn

from course_utils.checks.claims import Unlucky, same
from course_utils.checks.exercise import exercise
from course_utils.checks.trial import Missed, Trial
from course_utils.lessons.forward_hooks._shared import _differing, _expect_error, _expect_hooks, _Raises

grad_cam = exercise(__file__)

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
