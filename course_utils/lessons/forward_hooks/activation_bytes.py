"""``activation_bytes`` counts the bytes of every leaf module's output."""

import torch
from torch import Tensor, nn

from course_utils.checks.compare import Raises, Seen, Trial, compared, hook_count, outcome
from course_utils.controls import evaluating

activation_bytes = compared(__file__, evaluating=evaluating)


class _Largest(nn.Module):
    """Gives whole numbers, a part of what it has made, and counts its calls in a buffer that is in no state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.argmax(1)[1:]


class _Net(nn.Module):
    """Calls ``mix`` and ``act`` twice, with fewer rows the second time, and ``spare`` never."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 6), nn.ReLU(inplace=True), nn.BatchNorm1d(6))
        self.mix, self.act, self.spare = nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)
        self.largest, self.table = _Largest(), nn.Embedding(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x)
        for _ in range(2):
            x = self.act(self.mix(x[1:]))
        return self.table(self.largest(x))


def _given(trial: Trial) -> tuple[nn.Module, Tensor]:
    return trial.fill(_Net()), trial.randn(trial.integer(6, 9), 3, dtype=torch.float32)


def _broken(trial: Trial) -> tuple[nn.Module, Tensor]:
    model, x = _given(trial)
    return nn.Sequential(model, Raises()), x


_MODELS = {"model": _given, "model that raises": _broken}


@activation_bytes.looks("lists each leaf module by dotted name, with the bytes of its output", gate=True, weight=2)
def _(trial: Trial) -> Seen:
    body = nn.Sequential(nn.Linear(3, trial.integer(4, 9)), nn.Sequential(nn.Tanh(), nn.Flatten()))
    x = trial.randn(trial.integer(2, 9), 3, dtype=torch.float32)
    return {"bytes by name": trial.call(nn.Sequential(body, nn.ReLU()), x, show="activation_bytes(model, x)")}


@activation_bytes.looks("counts elements of any dtype, adds up the calls, and leaves out what did not run", weight=2)
def _(trial: Trial) -> Seen:
    model, x = _given(trial)
    shown = "activation_bytes(model that calls two layers twice and one never, x)"
    return {"bytes by name": trial.call(model, x, show=shown)}


@activation_bytes.looks("calls the model once, in the modes that it is in, and records nothing", weight=2)
def _(trial: Trial) -> Seen:
    for training in (True, False):
        (model, x), seen = _given(trial), []
        model.train(training).encoder[2].train(not training)
        model.encoder.register_forward_hook(lambda part, _args, y: seen.append((part.training, y.requires_grad)))
        where = f"in {'training' if training else 'eval'} mode"
        trial.call(model, x.requires_grad_(), show=f"activation_bytes(model {where}, x with requires_grad=True)")
        yield f"forward passes, {where}", len(seen)
        yield f"in training mode while it runs, {where}", [mode for mode, _ in seen]
        yield "outputs that require grad", [flag for _, flag in seen]


@activation_bytes.looks("leaves all buffers as before, also when the forward pass raises", weight=3)
def _(trial: Trial) -> Seen:
    for what, made in _MODELS.items():
        model, x = made(trial)
        outcome(lambda: trial.call(model, x, show=f"activation_bytes({what}, x)"))
        yield f"buffers of the {what}", {name: buffer.clone() for name, buffer in model.named_buffers()}


@activation_bytes.looks("leaves no hooks, also when the forward pass raises", weight=2)
def _(trial: Trial) -> Seen:
    for what, made in _MODELS.items():
        model, x = made(trial)
        ended = outcome(lambda: trial.call(model, x, show=f"activation_bytes({what}, x)") and None)
        yield f"hooks left on the {what}", hook_count(model)
    yield "the error, as the caller sees it", ended
