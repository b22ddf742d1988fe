"""Right and wrong answers to the exercises of lesson 02."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.lessons.answers import Right

# ---------------------------------------------------------------------------------------------------- predicted_leaves

LEAVES = {
    "plain": True,
    "flagged": True,
    "computed": False,
    "detached": True,
    "cast": False,
    "parameter": True,
    "under_no_grad": True,
    "view": False,
}

# --------------------------------------------------------------------------------------------------------- make_weight


def weight_as_parameter(fan_in, fan_out):
    return nn.Parameter(torch.randn(fan_out, fan_in) * fan_in**-0.5)


def weight_under_no_grad(fan_in, fan_out):
    weight = torch.empty(fan_out, fan_in, requires_grad=True)
    with torch.no_grad():
        weight.normal_(0, fan_in**-0.5)
    return weight


def weight_by_data(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in, requires_grad=True)
    weight.data /= math.sqrt(fan_in)
    return weight


def weight_by_init(fan_in, fan_out):
    return nn.init.kaiming_normal_(nn.Parameter(torch.empty(fan_out, fan_in)), nonlinearity="linear")


def weight_cut_free(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in, requires_grad=True) / math.sqrt(fan_in)
    return weight.detach().requires_grad_()


def weight_transposed(fan_in, fan_out):
    return torch.normal(0.0, fan_in**-0.5, (fan_in, fan_out), dtype=torch.float64).T.requires_grad_()


def weight_of_a_layer(fan_in, fan_out):
    layer = nn.Linear(fan_in, fan_out, bias=False)
    nn.init.normal_(layer.weight, std=fan_in**-0.5)
    return layer.weight


def weight_by_distribution(fan_in, fan_out):
    return torch.distributions.Normal(0.0, fan_in**-0.5).sample((fan_out, fan_in)).requires_grad_()


def weight_by_numpy(fan_in, fan_out):
    return torch.tensor(np.random.randn(fan_out, fan_in) / math.sqrt(fan_in), requires_grad=True)


# ------------------------------------------------------------------------------------------------ activation_gradients


@torch.enable_grad()
def gradients_by_retain_grad(layers, x):
    outputs = []
    for layer in layers:
        x = layer(x)
        if not x.requires_grad:
            x = x.detach().requires_grad_()
        x.retain_grad()
        outputs.append(x)
    outputs[-1].sum().backward(inputs=outputs)
    return [output.grad for output in outputs]


@torch.enable_grad()
def gradients_by_hooks(layers, x):
    found = {}
    source = value = x.detach().clone().requires_grad_()
    for i, layer in enumerate(layers):
        value = layer(value)
        value.register_hook(lambda gradient, i=i: found.__setitem__(i, gradient.clone()))
    torch.autograd.grad(value.sum(), source)
    return [found[i] for i in range(len(layers))]


@torch.enable_grad()
def gradients_layer_by_layer(layers, x):
    leaves = [layers[0](x).detach().requires_grad_()]
    results = []
    for layer in layers[1:]:
        results.append(layer(leaves[-1]))
        leaves.append(results[-1].detach().requires_grad_())
    gradients = [torch.ones_like(leaves[-1])]
    for leaf, result in zip(leaves[-2::-1], results[::-1], strict=True):
        gradients.insert(0, torch.autograd.grad(result, leaf, gradients[0])[0])
    return gradients


@torch.enable_grad()
def gradients_flagged_output(layers, x):
    outputs, x = [], x.detach()  # which a layer may hand on as it is
    for layer in layers:
        x = layer(x)
        outputs.append(x if x.requires_grad else x.requires_grad_())
    return list(torch.autograd.grad(outputs[-1].sum(), outputs))


@torch.enable_grad()
def gradients_grad_put_back(layers, x):
    tensors = [x, *(p for layer in layers for p in layer.parameters())]
    before = [t.grad for t in tensors]
    for t in tensors:
        t.grad = None
    outputs = []
    value = x
    try:
        for layer in layers:
            value = layer(value)
            value = value if value.requires_grad else value.detach().requires_grad_()
            value.retain_grad()
            outputs.append(value)
        value.sum().backward()
    finally:
        for t, gradient in zip(tensors, before, strict=True):
            t.grad = gradient
    return [output.grad for output in outputs]


@torch.enable_grad()
def gradients_by_vjp(layers, x):
    values, pulls = [layers[0](x).detach()], []
    for layer in layers[1:]:
        value, pull = torch.func.vjp(layer, values[-1])
        values.append(value)
        pulls.append(pull)
    gradients = [torch.ones_like(values[-1])]
    for pull in reversed(pulls):
        gradients.insert(0, pull(gradients[0])[0].detach())
    return gradients


@torch.enable_grad()
def gradients_of_added_zeros(layers, x):
    zeros = []
    for layer in layers:
        x = layer(x)
        zeros.append(torch.zeros_like(x, requires_grad=True))
        x = x + zeros[-1]
    return list(torch.autograd.grad(x.sum(), zeros))


# ------------------------------------------------------------------------------------------------------------ sgd_step


@torch.no_grad()
def step_by_copy(params, lr):
    for p in params:
        if p.grad is not None:
            p.copy_(p - lr * p.grad)
            p.grad = None


def step_by_optimizer(params, lr):
    optimizer = torch.optim.SGD(params, lr=lr)
    optimizer.step()
    optimizer.zero_grad()


def step_by_detach(params, lr):
    for p in list(params):
        if p.grad is not None:
            p.detach().sub_(p.grad, alpha=lr)
            del p.grad


def step_flag_lowered_and_raised(params, lr):
    for p in params:
        if p.grad is not None:
            p.requires_grad = False
            p -= lr * p.grad.detach()
            p.requires_grad = True
            p.grad = None


@torch.no_grad()
def step_foreach(params, lr):
    params = [p for p in params if p.grad is not None]
    if params:
        torch._foreach_add_(params, [p.grad for p in params], alpha=-lr)
    for p in params:
        p.grad = None


def step_in_inference_mode(params, lr):
    with torch.inference_mode():
        for p in params:
            if p.grad is not None:
                p -= lr * p.grad
            p.grad = None


# ------------------------------------------------------------------------------------------------------------ fit_line


def zeros():
    return torch.zeros((), requires_grad=True), torch.zeros((), requires_grad=True)


def fit_by_optimizer(x, y, steps, lr):
    weights = [nn.Parameter(torch.tensor(0.0, dtype=x.dtype)) for _ in range(2)]
    optimizer = torch.optim.SGD(weights, lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(weights[0] * x + weights[1], y).backward()
        optimizer.step()
    return tuple(weights)


def fit_by_new_leaves(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        loss = (slope * x + intercept - y).pow(2).mean()
        gradients = torch.autograd.grad(loss, (slope, intercept))
        slope, intercept = (
            (w - lr * g).detach().requires_grad_() for w, g in zip((slope, intercept), gradients, strict=True)
        )
    return slope, intercept


def fit_by_formula(x, y, steps, lr):
    slope = intercept = 0.0
    for _ in range(steps):
        error = slope * x + intercept - y
        slope, intercept = slope - lr * 2 * (error * x).mean().item(), intercept - lr * 2 * error.mean().item()
    return torch.tensor(slope, requires_grad=True), torch.tensor(intercept, requires_grad=True)


def fit_by_one_vector(x, y, steps, lr):
    w = torch.zeros(2, dtype=x.dtype, requires_grad=True)
    for _ in range(steps):
        ((w[0] * x + w[1] - y) ** 2).mean().backward()
        w.data -= lr * w.grad
        w.grad = None
    return tuple(part.clone().requires_grad_() for part in w.detach())


def fit_by_func(x, y, steps, lr):
    w = torch.zeros(2, dtype=torch.float64)
    gradient = torch.func.grad(lambda w: ((w[0] * x + w[1] - y) ** 2).mean())
    for _ in range(steps):
        w = w - lr * gradient(w)
    return tuple(part.clone().requires_grad_() for part in w)


def fit_by_layer(x, y, steps, lr):
    layer = nn.Linear(1, 1).to(x.dtype)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(layer(x[:, None])[:, 0], y).backward()
        optimizer.step()
    return tuple(p.detach().reshape(()).requires_grad_() for p in layer.parameters())


def fit_with(x, y, steps, lr, reduce=torch.mean, clear=True):
    slope, intercept = zeros()
    for _ in range(steps):
        reduce((slope * x + intercept - y).square()).backward()
        with torch.no_grad():
            slope -= lr * slope.grad
            intercept -= lr * intercept.grad
        if clear:
            slope.grad = intercept.grad = None
    return slope, intercept


# ----------------------------------------------------------------------------------------------- holes of older checks


def fit_float32(x, y, steps, lr):
    slope, intercept = fit_with(x, y, steps, lr)
    return tuple(weight.detach().float().requires_grad_() for weight in (slope, intercept))


RIGHT = (
    Right("predicted_leaves", "ones and zeros", {key: int(value) for key, value in LEAVES.items()}),
    Right("predicted_leaves", "from the last to the first", dict(reversed(LEAVES.items()))),
    Right("predicted_leaves", "torch's bools", {key: torch.tensor(value) for key, value in LEAVES.items()}),
    Right("predicted_leaves", "more keys than asked for", LEAVES | {"buffer": False}),
    Right("make_weight", "nn.Parameter", weight_as_parameter),
    Right("make_weight", "filled under no_grad", weight_under_no_grad),
    Right("make_weight", "scaled through .data", weight_by_data),
    Right("make_weight", "nn.init", weight_by_init),
    Right("make_weight", "detached after scaling", weight_cut_free),
    Right("make_weight", "drawn transposed in float64", weight_transposed),
    Right("make_weight", "a layer's weight", weight_of_a_layer),
    Right("make_weight", "a distribution", weight_by_distribution),
    Right("make_weight", "numpy", weight_by_numpy),
    Right("activation_gradients", "vjp", gradients_by_vjp),
    Right("activation_gradients", "zeros added to the outputs", gradients_of_added_zeros),
    Right("activation_gradients", "retain_grad", gradients_by_retain_grad),
    Right("activation_gradients", "tensor hooks", gradients_by_hooks),
    Right("activation_gradients", "layer by layer", gradients_layer_by_layer),
    Right("activation_gradients", "first output flagged", gradients_flagged_output),
    Right("activation_gradients", ".grad put back", gradients_grad_put_back),
    Right("sgd_step", "copy_", step_by_copy),
    Right("sgd_step", "torch.optim", step_by_optimizer),
    Right("sgd_step", "through detach()", step_by_detach),
    Right("sgd_step", "flag lowered and raised", step_flag_lowered_and_raised),
    Right("sgd_step", "foreach", step_foreach),
    Right("sgd_step", "inference mode", step_in_inference_mode),
    Right("fit_line", "torch.func", fit_by_func),
    Right("fit_line", "nn.Linear", fit_by_layer),
    Right("fit_line", "torch.optim", fit_by_optimizer),
    Right("fit_line", "new leaves each step", fit_by_new_leaves),
    Right("fit_line", "formula", fit_by_formula),
    Right("fit_line", "one vector", fit_by_one_vector),
    Right("fit_line", "float32 whatever x is", fit_float32),
)
