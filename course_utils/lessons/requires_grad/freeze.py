"""``freeze``: freeze a module. The check looks at its flags, at what an optimizer then moves, and at the rest."""

from contextlib import nullcontext, suppress
from typing import Any

import torch
from torch import nn

from course_utils.checks.claims import AnswerRaised, Lazy, Trial, exercise, expect, first_sign, same, training_flags
from course_utils.lessons.requires_grad._shared import fill_gradients, flagged_names, in_lists, rest_kept, some_of

freeze = exercise(__file__)


class _Net(nn.Module):
    """Parameters of its own and at three depths, batch norm, buffers, one of them flagged."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.register_buffer("offset", torch.ones(width, dtype=torch.float64, requires_grad=True))
        self.stem = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
        self.out = nn.Linear(width, width)
        self.slope = nn.PReLU()
        self.cell = nn.GRUCell(width, width)  # whose parameters are weight_ih, weight_hh, bias_ih, bias_hh
        self.blocks = nn.ModuleList(nn.Sequential(nn.Sequential(nn.Linear(width, width)), nn.Tanh()) for _ in range(2))


def _net(trial: Trial) -> _Net:
    net = trial.fill(_Net(trial.integer(2, 4)).double())
    net.table = nn.Parameter(torch.arange(3), requires_grad=False)  # whole numbers, so not to be drawn
    net.stem[1].running_mean.copy_(trial.randn(*net.scale.shape))
    net.blocks[0].eval()
    return net


def _stepped(trial: Trial) -> tuple[_Net, torch.optim.Optimizer]:
    """A net after a step, and the optimizer that made it."""
    net = _net(trial)
    optimizer = torch.optim.SGD(fill_gradients(trial, net), lr=0.1, momentum=0.9, weight_decay=0.1)
    optimizer.step()  # fills the momentum
    net.scale.requires_grad_(False)  # frozen by somebody else, and its gradient forgotten
    net.stem[0].bias.grad = None
    return net, optimizer


def _needs_two_passes(trial: Trial, net: nn.Module) -> bool:
    """Whether the answer freezes a net, and drops its gradients, where ``parameters()`` returns a list."""
    aside = Trial(trial.answer, trial.name)
    with suppress(AnswerRaised):
        aside.call(in_lists(net), may_change=(net,))
    return all(parameter.grad is None and not parameter.requires_grad for parameter in net.parameters())


def _frozen(trial: Trial, module: nn.Module, show: str = "freeze(module)") -> Any:
    """Calls the answer, and returns what it returned. The module's parameters must be frozen afterwards."""
    before, training = flagged_names(module), training_flags(module)
    result = trial.call(module, may_change=(module,), show=show)
    after = flagged_names(module)
    lowered = [name for name in before if name not in after]
    called = [[name.endswith((".weight", ".bias")) for name in names] for names in (lowered, after)]
    deepest = max((name.count(".") for name in after), default=0)
    key = first_sign(
        ("eval", not lowered and training_flags(module) != training),
        ("toggle", not set(after) <= set(before)),
        ("own forgotten", lowered and not deepest),
        ("called", lowered and all(called[0]) and not any(called[1])),
        ("weights", lowered and all(name.rpartition(".")[2].startswith("weight") for name in lowered)),
        ("shallow", lowered and all(name.count(".") < deepest for name in lowered)),
        ("kinds", lowered),
        ("attribute", any("requires_grad" in vars(submodule) for submodule in module.modules())),
        ("no_grad", any("forward" in vars(submodule) for submodule in module.modules())),
        ("misspelt", any(vars(parameter) for parameter in module.parameters())),
        ("copy", isinstance(result, nn.Module) and result is not module),
        ("own forgotten", not list(module.children())),
        ("read twice", after and _needs_two_passes(trial, _net(trial))),
        ("elsewhere", True),
    )
    expect(not after, key, expected="no parameter that requires grad", still_flagged=some_of(after))
    return result


@freeze.claim("lowers the flags of parameters, however deep", weight=2, gate=True)
def _(trial: Trial) -> None:
    _frozen(trial, _net(trial))
    _frozen(trial, trial.fill(nn.Linear(trial.integer(2, 4), 2)), "freeze(nn.Linear(...))")
    _frozen(trial, nn.Sequential(nn.Tanh()), "freeze(a module without parameters)")
    partly = _net(trial)
    partly.scale.requires_grad_(False)
    partly.stem[0].weight.requires_grad_(False)
    _frozen(trial, partly, "freeze(a module that is partly frozen)")


@freeze.claim("drops gradients from before, so that no optimizer moves a weight", weight=3)
def _(trial: Trial) -> None:
    net, optimizer = _stepped(trial)
    already = {name for name, parameter in net.named_parameters() if not parameter.requires_grad}
    _frozen(trial, net, "freeze(module) after a backward")
    before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    left = {name: parameter.grad for name, parameter in net.named_parameters() if parameter.grad is not None}
    key = "frozen before" if left.keys() <= already else "stale" if any(map(torch.any, left.values())) else "zeros"
    key = "read twice" if key == "stale" and _needs_two_passes(trial, _stepped(trial)[0]) else key
    optimizer.step()
    moved = [name for name, parameter in net.named_parameters() if not torch.equal(parameter.detach(), before[name])]
    names, tensors = some_of(left), f"{len(moved)} of {len(before)} parameters"
    expect(not left, key, expected="every .grad None", not_None=names, moved_by_a_step=tensors)
    expect(not moved, "replaced", expected="the same weights after a step", got=Lazy(lambda: f"{moved[0]} moved"))


@freeze.claim("leaves parameters, buffers and training flags as they are", weight=0.5)
def _(trial: Trial) -> None:
    net = _net(trial)
    fill_gradients(trial, net)
    with rest_kept(net):
        _frozen(trial, net)


@freeze.claim("lets gradients pass through to what comes before", weight=0.5)
def _(trial: Trial) -> None:
    width = trial.integer(2, 4)
    net = trial.fill(nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Sequential(nn.Linear(width, 2))).double())
    x = trial.randn(trial.integer(4, 6), 3, requires_grad=True)
    (expected,) = torch.autograd.grad(net(x).square().sum(), x)
    _frozen(trial, net)
    out = net(x)
    what = "an output with a path to the flagged input"
    expect(out.requires_grad, "no_grad", expected=what, got="an output without history")
    (got,) = torch.autograd.grad(out.square().sum(), x, allow_unused=True)
    kept = got is not None and same(got, expected)
    expect(kept, "no_grad", expected="the gradient of the input as before", got="another gradient")


@freeze.claim("returns the module it was given, and may be called twice", weight=1)
def _(trial: Trial) -> None:
    net = _net(trial)
    for time in ("first", "second"):
        with rest_kept(net) if time == "second" else nullcontext():  # the first call is judged above
            result = _frozen(trial, net, f"freeze(module), the {time} time")
        expect(result is not None, "no return value", expected="the module itself", got="None")
        key = "copy" if isinstance(result, nn.Module) else ""
        expect(result is net, key, expected="the module itself", got=f"another {type(result).__name__}")
