"""Right answers to the exercises of lesson 02, written otherwise than the course's own."""

# %%
import math

import numpy as np


def zeros():
    return torch.zeros((), requires_grad=True), torch.zeros((), requires_grad=True)

# %% predicted_leaves: ones and zeros
predicted_leaves = {key: int(value) for key, value in predicted_leaves.items()}

# %% predicted_leaves: from the last to the first
predicted_leaves = dict(reversed(predicted_leaves.items()))

# %% predicted_leaves: torch's bools
predicted_leaves = {key: torch.tensor(value) for key, value in predicted_leaves.items()}

# %% predicted_leaves: more keys than asked for
predicted_leaves = predicted_leaves | {"buffer": False}

# %% make_weight: filled under no_grad
def make_weight(fan_in, fan_out):
    weight = torch.empty(fan_out, fan_in, requires_grad=True)
    with torch.no_grad():
        weight.normal_(0, fan_in**-0.5)
    return weight

# %% make_weight: scaled through .data
def make_weight(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in, requires_grad=True)
    weight.data /= math.sqrt(fan_in)
    return weight

# %% make_weight: nn.init
def make_weight(fan_in, fan_out):
    return nn.init.kaiming_normal_(nn.Parameter(torch.empty(fan_out, fan_in)), nonlinearity="linear")

# %% make_weight: a layer's weight
def make_weight(fan_in, fan_out):
    layer = nn.Linear(fan_in, fan_out, bias=False)
    nn.init.normal_(layer.weight, std=fan_in**-0.5)
    return layer.weight

# %% activation_gradients: vjp
@torch.enable_grad()
def activation_gradients(layers, x):
    values, pulls = [layers[0](x).detach()], []
    for layer in layers[1:]:
        value, pull = torch.func.vjp(layer, values[-1])
        values.append(value)
        pulls.append(pull)
    gradients = [torch.ones_like(values[-1])]
    for pull in reversed(pulls):
        gradients.insert(0, pull(gradients[0])[0].detach())
    return gradients

# %% activation_gradients: zeros added to the outputs
@torch.enable_grad()
def activation_gradients(layers, x):
    zeros = []
    for layer in layers:
        x = layer(x)
        zeros.append(torch.zeros_like(x, requires_grad=True))
        x = x + zeros[-1]
    return list(torch.autograd.grad(x.sum(), zeros))

# %% activation_gradients: tensor hooks
@torch.enable_grad()
def activation_gradients(layers, x):
    found = {}
    source = value = x.detach().clone().requires_grad_()
    for i, layer in enumerate(layers):
        value = layer(value)
        value.register_hook(lambda gradient, i=i: found.__setitem__(i, gradient.clone()))
    torch.autograd.grad(value.sum(), source)
    return [found[i] for i in range(len(layers))]

# %% activation_gradients: layer by layer
@torch.enable_grad()
def activation_gradients(layers, x):
    leaves = [layers[0](x).detach().requires_grad_()]
    results = []
    for layer in layers[1:]:
        results.append(layer(leaves[-1]))
        leaves.append(results[-1].detach().requires_grad_())
    gradients = [torch.ones_like(leaves[-1])]
    for leaf, result in zip(leaves[-2::-1], results[::-1], strict=True):
        gradients.insert(0, torch.autograd.grad(result, leaf, gradients[0])[0])
    return gradients

# %% activation_gradients: .grad put back
@torch.enable_grad()
def activation_gradients(layers, x):
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

# %% sgd_step: torch.optim
def sgd_step(params, lr):
    optimizer = torch.optim.SGD(params, lr=lr)
    optimizer.step()
    optimizer.zero_grad()

# %% sgd_step: through detach()
def sgd_step(params, lr):
    for p in list(params):
        if p.grad is not None:
            p.detach().sub_(p.grad, alpha=lr)
            del p.grad

# %% sgd_step: flag lowered and raised
def sgd_step(params, lr):
    for p in params:
        if p.grad is not None:
            p.requires_grad = False
            p -= lr * p.grad.detach()
            p.requires_grad = True
            p.grad = None

# %% sgd_step: foreach
@torch.no_grad()
def sgd_step(params, lr):
    params = [p for p in params if p.grad is not None]
    if params:
        torch._foreach_add_(params, [p.grad for p in params], alpha=-lr)
    for p in params:
        p.grad = None

# %% fit_line: torch.func
def fit_line(x, y, steps, lr):
    w = torch.zeros(2, dtype=torch.float64)
    gradient = torch.func.grad(lambda w: ((w[0] * x + w[1] - y) ** 2).mean())
    for _ in range(steps):
        w = w - lr * gradient(w)
    return tuple(part.clone().requires_grad_() for part in w)

# %% fit_line: nn.Linear
def fit_line(x, y, steps, lr):
    layer = nn.Linear(1, 1).to(x.dtype)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(layer(x[:, None])[:, 0], y).backward()
        optimizer.step()
    return tuple(p.detach().reshape(()).requires_grad_() for p in layer.parameters())

# %% fit_line: torch.optim
def fit_line(x, y, steps, lr):
    weights = [nn.Parameter(torch.tensor(0.0, dtype=x.dtype)) for _ in range(2)]
    optimizer = torch.optim.SGD(weights, lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(weights[0] * x + weights[1], y).backward()
        optimizer.step()
    return tuple(weights)

# %% fit_line: new leaves each step
def fit_line(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        loss = (slope * x + intercept - y).pow(2).mean()
        gradients = torch.autograd.grad(loss, (slope, intercept))
        slope, intercept = (
            (w - lr * g).detach().requires_grad_() for w, g in zip((slope, intercept), gradients, strict=True)
        )
    return slope, intercept

# %% fit_line: formula
def fit_line(x, y, steps, lr):
    slope = intercept = 0.0
    for _ in range(steps):
        error = slope * x + intercept - y
        slope, intercept = slope - lr * 2 * (error * x).mean().item(), intercept - lr * 2 * error.mean().item()
    return torch.tensor(slope, requires_grad=True), torch.tensor(intercept, requires_grad=True)

# %% fit_line: one vector
def fit_line(x, y, steps, lr):
    w = torch.zeros(2, dtype=x.dtype, requires_grad=True)
    for _ in range(steps):
        ((w[0] * x + w[1] - y) ** 2).mean().backward()
        w.data -= lr * w.grad
        w.grad = None
    return tuple(part.clone().requires_grad_() for part in w.detach())

# %% fit_line: backward into .grad, float32 whatever x is
def fit_line(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        (slope * x + intercept - y).square().mean().backward()
        with torch.no_grad():
            slope -= lr * slope.grad
            intercept -= lr * intercept.grad
        slope.grad = intercept.grad = None
    return tuple(weight.detach().float().requires_grad_() for weight in (slope, intercept))
