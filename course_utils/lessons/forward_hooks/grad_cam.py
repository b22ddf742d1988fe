"""``grad_cam`` maps where a model looks."""

from collections import OrderedDict

from torch import Tensor, nn

from course_utils.checks.compare import Raises, Seen, Trial, compared, hook_count, outcome

grad_cam = compared(__file__)


def _model(trial: Trial, *more: nn.Module) -> nn.Sequential:
    """For images of 7 by 6, of 4 classes: channels and places differ in number, and no gradient is constant."""
    features = nn.Sequential(nn.Conv2d(2, 5, 2), nn.ReLU(), nn.Conv2d(5, 6, 2), nn.Softplus())
    head = nn.Sequential(nn.Flatten(), *more, nn.Linear(6 * 5 * 4, 7), nn.Tanh(), nn.Linear(7, 4))
    return trial.fill(nn.Sequential(OrderedDict(features=features, head=head)).double())


def _images(trial: Trial, count: int) -> Tensor:
    return trial.randn(count, 2, 7, 6)


def _map(
    trial: Trial, model: nn.Module, x: Tensor, layer: str = "features.2", index: int = 1, what: str = "model"
) -> Tensor:
    images = f"x of {len(x)} images" if len(x) > 1 else "x of one image"
    return trial.tensor(trial.call(model, layer, x, index, show=f"grad_cam({what}, {layer!r}, {images}, {index})"))


@grad_cam.looks("is a map of shape (batch, height, width) for the class that is asked for", gate=True)
def _(trial: Trial) -> Seen:
    model, x = _model(trial), _images(trial, 4)
    first, second = (_map(trial, model, x, index=index) for index in (0, 1))
    return {"shape": tuple(first.shape), "another map for another class": not first.equal(second)}


@grad_cam.looks("is relu of the sum of the channels, each weighted by its gradient's mean", weight=4)
def _(trial: Trial) -> Seen:
    model, count = _model(trial), 4
    maps = [_map(trial, model, x) for x in _images(trial, count).split(1)]
    yield "the maps of images that were given one by one", [one.reshape(1, 5, 4) for one in maps]
    yield "the map of another layer", _map(trial, model, _images(trial, 1), "features.0", 2)


@grad_cam.looks("has a map of its own for each image of a batch", weight=2)
def _(trial: Trial) -> Seen:
    model = _model(trial)
    yield "shape for one image", tuple(_map(trial, model, _images(trial, 1)).shape)
    for index, x in enumerate(_images(trial, 12).split(4)):  # the map of one class may be zero all over
        yield f"the maps of class {index}", _map(trial, model, x, index=index)


@grad_cam.looks("is detached", weight=0.5)
def _(trial: Trial) -> Seen:
    return {"requires grad": _map(trial, _model(trial), _images(trial, 2)).requires_grad}


@grad_cam.looks("fills no `.grad`, and leaves those that are there", weight=1.5)
def _(trial: Trial) -> Seen:
    model = _model(trial)
    for parameter in list(model.parameters())[::2]:
        parameter.grad = trial.randn(*parameter.shape)
    _map(trial, model, _images(trial, 2), what="model with some gradients there before")
    return {f"{name}.grad": one.grad if one.grad is not None else "None" for name, one in model.named_parameters()}


@grad_cam.looks("works for a frozen model", weight=1.5)
def _(trial: Trial) -> Seen:
    model, x = _model(trial), _images(trial, 2)
    model.head[-1].requires_grad_(False)
    frozen = _model(trial).requires_grad_(False)
    yield "a map", tuple(_map(trial, frozen, x, what="frozen model").shape)
    _map(trial, model, x)
    yield "flags of a partly frozen model", [one.requires_grad for one in model.parameters()]


@grad_cam.looks("leaves no hook, also when the model raises", weight=1.5)
def _(trial: Trial) -> Seen:
    model, broken = _model(trial), _model(trial, Raises())
    _map(trial, model, _images(trial, 2))
    yield "hooks left", hook_count(model)
    ended = outcome(lambda: _map(trial, broken, _images(trial, 2), what="model that raises after the layer"))
    yield "hooks left on a model that raises", hook_count(broken)
    yield "the error, as the caller sees it", ended
