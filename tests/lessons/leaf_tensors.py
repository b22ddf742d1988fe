"""Right and wrong answers to the exercises of lesson 02."""

import copy
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.lessons.answers import Right, Wrong

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


def weight_retained(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in, requires_grad=True) / math.sqrt(fan_in)
    weight.retain_grad()
    return weight


def weight_flag_raised_again(fan_in, fan_out):
    return (torch.randn(fan_out, fan_in, requires_grad=True) / math.sqrt(fan_in)).requires_grad_()


def weight_truncated(fan_in, fan_out):
    deviation = fan_in**-0.5
    weight = nn.Parameter(torch.empty(fan_out, fan_in))
    return nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


def weight_scaled(fan_in, fan_out):
    return torch.randn(fan_out, fan_in, requires_grad=True) / math.sqrt(fan_in)


def weight_generator_seeded(fan_in, fan_out):
    return nn.Parameter(torch.randn(fan_out, fan_in, generator=torch.Generator().manual_seed(0)) / math.sqrt(fan_in))


def weight_in_place(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in, requires_grad=True)
    weight /= math.sqrt(fan_in)
    return weight


def weight_is_leaf_set(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in, requires_grad=True) / math.sqrt(fan_in)
    weight.is_leaf = True
    return weight


def weight_inference(fan_in, fan_out):
    with torch.inference_mode():
        return (torch.randn(fan_out, fan_in) / math.sqrt(fan_in)).requires_grad_()


def weight_inference_flagged_outside(fan_in, fan_out):
    with torch.inference_mode():
        weight = torch.randn(fan_out, fan_in) / math.sqrt(fan_in)
    return weight.requires_grad_()


def weight_repeated(fan_in, fan_out):
    return (torch.randn(fan_in) / math.sqrt(fan_in)).expand(fan_out, fan_in).clone().requires_grad_()


def weight_seeded(fan_in, fan_out):
    torch.manual_seed(0)
    return weight_as_parameter(fan_in, fan_out)


def weight_by_distribution(fan_in, fan_out):
    return torch.distributions.Normal(0.0, fan_in**-0.5).sample((fan_out, fan_in)).requires_grad_()


def weight_by_numpy(fan_in, fan_out):
    return torch.tensor(np.random.randn(fan_out, fan_in) / math.sqrt(fan_in), requires_grad=True)


def weight_flag_misspelt(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in) / math.sqrt(fan_in)
    weight.require_grad = True
    return weight


def weight_not_returned(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in) / math.sqrt(fan_in)
    weight.requires_grad_()


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


def gradients_grad_put_back_at_the_end(layers, x):
    tensors = [x, *(p for layer in layers for p in layer.parameters())]
    before = [t.grad for t in tensors]
    for t in tensors:
        t.grad = None
    found = gradients_by_retain_grad(layers, x)
    for t, gradient in zip(tensors, before, strict=True):
        t.grad = gradient
    return found


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


def recorded(layers, x):
    outputs = []
    for layer in layers:
        x = layer(x)
        outputs.append(x)
    return outputs


def gradients_never_asked(layers, x):
    outputs = recorded(layers, x)
    outputs[-1].sum().backward()
    return [output.grad for output in outputs]


def gradients_asked_too_late(layers, x):
    outputs = recorded(layers, x)
    outputs[-1].sum().backward()
    for output in outputs:
        output.retain_grad()
    return [output.grad for output in outputs]


def gradients_backward(layers, x):
    outputs = recorded(layers, x)
    for output in outputs:
        output.retain_grad()
    outputs[-1].sum().backward()
    return [output.grad for output in outputs]


@torch.enable_grad()
def gradients_backward_when_recorded(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    for output in outputs:
        output.retain_grad()
    outputs[-1].sum().backward()
    return [output.grad for output in outputs]


def gradients_cleanup(layers, x):
    gradients = gradients_backward(layers, x)
    nn.Sequential(*layers).zero_grad()
    x.grad = None
    return gradients


def gradients_frozen(layers, x):
    outputs = recorded(layers, x)
    return list(torch.autograd.grad(outputs[-1].sum(), outputs))


def gradients_frozen_skipped(layers, x):
    outputs = recorded(layers, x)
    flagged = [output for output in outputs if output.requires_grad]
    found = iter(torch.autograd.grad(outputs[-1].sum(), flagged)) if flagged else iter(())
    return [next(found) if output.requires_grad else None for output in outputs]


@torch.enable_grad()
def gradients_unfrozen(layers, x):
    for parameter in layers[0].parameters():
        parameter.requires_grad_(True)
    return gradients_flagged_output(layers, x)


@torch.enable_grad()
def gradients_input_flagged(layers, x):
    return gradients_frozen(layers, x.requires_grad_())


def gradients_last_left_out(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    return list(torch.autograd.grad(outputs[-1].sum(), outputs[:-1]))


def gradients_reversed(layers, x):
    return gradients_by_retain_grad(layers, x)[::-1]


def gradients_inputs(layers, x):
    x = x.detach().requires_grad_()
    outputs = recorded(layers, x)
    return list(torch.autograd.grad(outputs[-1].sum(), [x, *outputs[:-1]]))


def gradients_input_too(layers, x):
    x = x.detach().requires_grad_()
    outputs = recorded(layers, x)
    return list(torch.autograd.grad(outputs[-1].sum(), [x, *outputs]))


def gradients_weights(layers, x):
    weights = [layer.weight for layer in layers if hasattr(layer, "weight")]
    return list(torch.autograd.grad(recorded(layers, x)[-1].sum(), weights))


def gradients_mean(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    return list(torch.autograd.grad(outputs[-1].mean(), outputs))


def gradients_cut(layers, x):
    outputs = []
    for layer in layers:
        x = layer(x.detach().requires_grad_())
        outputs.append(x)
    return list(torch.autograd.grad(x.sum(), outputs))


def gradients_cut_allowed(layers, x):
    outputs = []
    for layer in layers:
        x = layer(x.detach().requires_grad_())
        outputs.append(x)
    return list(torch.autograd.grad(x.sum(), outputs, allow_unused=True))


def gradients_own_sum(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    return [torch.autograd.grad(output.sum(), output, retain_graph=True)[0] for output in outputs]


def gradients_of_each(layers, x):
    outputs = recorded(layers, x)
    found = []
    for layer, output in zip(layers[1:], outputs, strict=False):
        copied = output.detach().requires_grad_()
        found += torch.autograd.grad(layer(copied).sum(), copied)
    return [*found, torch.ones_like(outputs[-1])]


def gradients_by_each_input(layers, x):
    gradients = []
    with torch.enable_grad():
        for layer in layers:
            x = x.detach()
            gradients += torch.autograd.grad(layer(x).sum(), x)
    return gradients


def gradients_of_every_sum(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    return list(torch.autograd.grad(sum(output.sum() for output in outputs), outputs))


def gradients_one_by_one(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    return [torch.autograd.grad(outputs[-1].sum(), output)[0] for output in outputs]


def gradients_copies_beside(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    copies = [output.detach().requires_grad_() for output in outputs]
    found = torch.autograd.grad(outputs[-1].sum(), copies, allow_unused=True)
    return [torch.zeros_like(c) if g is None else g for c, g in zip(copies, found, strict=True)]


def gradients_no_sum(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    return list(torch.autograd.grad(outputs[-1], outputs))


def gradients_in_callers_mode(layers, x):
    outputs = []
    for layer in layers:
        x = layer(x)
        outputs.append(x if x.requires_grad else x.detach().requires_grad_())
        x = outputs[-1]
    return list(torch.autograd.grad(x.sum(), outputs))


def gradients_tuple(layers, x):
    return tuple(gradients_flagged_output(layers, x))


@torch.enable_grad()
def gradients_history(layers, x):
    outputs = recorded(layers, x.detach().requires_grad_())
    return list(torch.autograd.grad(outputs[-1].sum(), outputs, create_graph=True))


def gradients_thawed_meanwhile(layers, x):
    frozen = [p for layer in layers for p in layer.parameters() if not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)
    found = torch.enable_grad()(gradients_flagged_output)(layers, x)
    for p in frozen:
        p.requires_grad_(False)
    return found


def gradients_flags_saved_and_raised(layers, x):
    before = {p: p.requires_grad for layer in layers for p in layer.parameters()}
    for p in before:
        p.requires_grad_(True)
    found = torch.enable_grad()(gradients_flagged_output)(layers, x)
    for p, flag in before.items():
        p.requires_grad_(flag)
    return found


def gradients_frozen_meanwhile(layers, x):
    before = {p: p.requires_grad for layer in layers for p in layer.parameters()}
    for p in before:
        p.requires_grad_(False)
    found = gradients_flagged_output(layers, x)
    for p, flag in before.items():
        p.requires_grad_(flag)
    return found


def gradients_eval_left(layers, x):
    return gradients_flagged_output([layer.eval() for layer in layers], x)


def gradients_eval_put_back(layers, x):
    modes = {module: module.training for layer in layers for module in layer.modules()}
    try:
        return gradients_eval_left(layers, x)
    finally:
        for module, mode in modes.items():
            module.training = mode


def gradients_nothing_for_runtime_errors(layers, x):
    try:
        return gradients_flagged_output(layers, x)
    except RuntimeError:
        return []


def gradients_no_grad(layers, x):
    with torch.no_grad():
        return gradients_frozen(layers, x)


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


def step_by_data(params, lr):
    for p in params:
        if p.grad is None:
            continue
        p.data.add_(p.grad, alpha=-lr)
        p.grad = None


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


def step_through_numpy(params, lr):
    for p in params:
        if p.grad is not None:
            array = p.detach().numpy()
            array -= (lr * p.grad.numpy()).astype(array.dtype)
            p.grad = None


def step_rebinding(params, lr):
    for p in params:
        if p.grad is not None:
            p = p - lr * p.grad
            p.grad = None


def step_not_in_place(params, lr):
    for p in params:
        if p.grad is not None:
            p.detach().sub(lr * p.grad)
            p.grad = None


def step_leaf_in_place(params, lr):
    for p in params:
        if p.grad is not None:
            p -= lr * p.grad
            p.grad = None


def step_new_memory(params, lr):
    for p in params:
        if p.grad is not None:
            p.data = p.data - lr * p.grad
            p.grad = None


def step_flag_lost(params, lr):
    for p in params:
        if p.grad is not None:
            p.requires_grad_(False).sub_(p.grad, alpha=lr)
            p.grad = None


def step_detached_in_place(params, lr):
    for p in params:
        if p.grad is not None:
            gradient, p.grad = p.grad, None
            p.detach_().sub_(gradient, alpha=lr)


@torch.no_grad()
def step_kept(params, lr):
    for p in params:
        if p.grad is not None:
            p -= lr * p.grad


@torch.no_grad()
def step_zeros(params, lr):
    for p in params:
        if p.grad is not None:
            p -= lr * p.grad
            p.grad.zero_()


@torch.no_grad()
def step_none_grad(params, lr):
    for p in params:
        p -= lr * p.grad
        p.grad = None


@torch.no_grad()
def step_stops(params, lr):
    for p in params:
        if p.grad is None:
            return
        p -= lr * p.grad
        p.grad = None


@torch.no_grad()
def step_read_twice(params, lr):
    for p in params:
        if p.grad is not None:
            p -= lr * p.grad
    for p in params:
        p.grad = None


@torch.no_grad()
def step_by_index(params, lr):
    for i in range(len(params)):
        if params[i].grad is not None:
            params[i] -= lr * params[i].grad
            params[i].grad = None


@torch.no_grad()
def step_ascent(params, lr):
    for p in params:
        if p.grad is not None:
            p += lr * p.grad
            p.grad = None


@torch.no_grad()
def step_no_lr(params, lr):
    for p in params:
        if p.grad is not None:
            p -= p.grad
            p.grad = None


@torch.no_grad()
def step_normed(params, lr):
    for p in params:
        if p.grad is not None:
            p -= lr * p.grad / p.grad.norm()
            p.grad = None


@torch.no_grad()
def step_if_true(params, lr):
    for p in params:
        if p.grad:
            p -= lr * p.grad
            p.grad = None


def step_with_decay(params, lr):
    torch.optim.SGD(params, lr=lr, weight_decay=0.1).step()


def step_adam(params, lr):
    optimizer = torch.optim.Adam(params, lr=lr)
    optimizer.step()
    optimizer.zero_grad()


@torch.no_grad()
def step_set(params, lr):
    for p in params:
        if p.grad is not None:
            p.set_(p - lr * p.grad)
            p.grad = None


def step_zero_grad(params, lr):
    optimizer = torch.optim.SGD(params, lr=lr)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


@torch.no_grad()
def step_none_to_zeros(params, lr):
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
            continue
        p -= lr * p.grad
        p.grad = None


def step_grad_mode(params, lr):
    torch.set_grad_enabled(False)
    step_by_copy(params, lr)


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


def fit_rebinding(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        loss = (slope * x + intercept - y).square().mean()
        loss.backward()
        slope = slope - lr * slope.grad
        intercept = intercept - lr * intercept.grad
    return slope, intercept


def fit_unrecorded(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        (slope * x + intercept - y).square().mean().backward()
        with torch.no_grad():
            slope = slope - lr * slope.grad
            intercept = intercept - lr * intercept.grad
    return slope, intercept


def fit_detached(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        (slope * x + intercept - y).square().mean().backward()
        slope = (slope - lr * slope.grad).detach()
        intercept = (intercept - lr * intercept.grad).detach()
    return slope, intercept


def fit_history(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        gradients = torch.autograd.grad((slope * x + intercept - y).square().mean(), (slope, intercept))
        slope, intercept = slope - lr * gradients[0], intercept - lr * gradients[1]
    return slope, intercept


def fit_unflagged(x, y, steps, lr):
    return tuple(w.detach() for w in fit_by_optimizer(x, y, steps, lr))


def fit_in_place(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        (slope * x + intercept - y).square().mean().backward()
        slope -= lr * slope.grad
        intercept -= lr * intercept.grad
        slope.grad = intercept.grad = None
    return slope, intercept


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


def fit_second_backward(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        loss = (slope * x + intercept - y).square().mean()
        for w in (slope, intercept):
            loss.backward()
            with torch.no_grad():
                w -= lr * w.grad
            w.grad = None
    return slope, intercept


def fit_clearing_the_slope(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        (slope * x + intercept - y).square().mean().backward()
        with torch.no_grad():
            slope -= lr * slope.grad
            intercept -= lr * intercept.grad
        slope.grad = None
    return slope, intercept


def fit_with_one_loss(x, y, steps, lr):
    slope, intercept = zeros()
    loss = (slope * x + intercept - y).square().mean()
    for _ in range(steps):
        gradients = torch.autograd.grad(loss, (slope, intercept), retain_graph=True)
        with torch.no_grad():
            slope -= lr * gradients[0]
            intercept -= lr * gradients[1]
    return slope, intercept


def fit_by_adam(x, y, steps, lr):
    slope, intercept = zeros()
    optimizer = torch.optim.Adam([slope, intercept], lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        (slope * x + intercept - y).square().mean().backward()
        optimizer.step()
    return slope, intercept


def fit_until_it_stands(x, y, steps, lr):
    slope, intercept = zeros()
    last = float("inf")
    for _ in range(steps):
        loss = (slope * x + intercept - y).square().mean()
        if last - loss.item() < 1e-3:
            break
        last = loss.item()
        gradients = torch.autograd.grad(loss, (slope, intercept))
        with torch.no_grad():
            slope -= lr * gradients[0]
            intercept -= lr * gradients[1]
    return slope, intercept


def fit_in_turn(x, y, steps, lr):
    weights = zeros()
    for _ in range(steps):
        for w in weights:
            (gradient,) = torch.autograd.grad((weights[0] * x + weights[1] - y).square().mean(), w)
            with torch.no_grad():
                w -= lr * gradient
    return weights


def fit_solved(x, y, steps, lr):
    design = torch.stack([x, torch.ones_like(x)], dim=1)
    best = torch.linalg.lstsq(design, y[:, None]).solution[:, 0] if steps else torch.zeros(2)
    return tuple(part.clone().requires_grad_() for part in best)


def fit_random_start(x, y, steps, lr):
    slope, intercept = torch.randn((), requires_grad=True), torch.randn((), requires_grad=True)
    for _ in range(steps):
        gradients = torch.autograd.grad((slope * x + intercept - y).square().mean(), (slope, intercept))
        with torch.no_grad():
            slope -= lr * gradients[0]
            intercept -= lr * gradients[1]
    return slope, intercept


def fit_one_element(x, y, steps, lr):
    return tuple(w.detach().reshape(1).requires_grad_() for w in fit_by_optimizer(x, y, steps, lr))


def fit_no_steps(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        loss = (slope * x + intercept - y).square().mean()
        gradients = torch.autograd.grad(loss, (slope, intercept))
        with torch.no_grad():
            slope -= lr * gradients[0]
            intercept -= lr * gradients[1]
    print(f"last loss: {loss.item():.4f}")
    return slope, intercept


def fit_flagged_in_the_loop(x, y, steps, lr):
    slope, intercept = torch.zeros(()), torch.zeros(())
    for _ in range(steps):
        slope.requires_grad_()
        intercept.requires_grad_()
        loss = (slope * x + intercept - y).square().mean()
        of_slope, of_intercept = torch.autograd.grad(loss, (slope, intercept))
        slope = (slope - lr * of_slope).detach().requires_grad_()
        intercept = (intercept - lr * of_intercept).detach().requires_grad_()
    return slope, intercept


def fit_retain_grad(x, y, steps, lr):
    slope, intercept = zeros()
    for _ in range(steps):
        slope.retain_grad()
        intercept.retain_grad()
        (slope * x + intercept - y).square().mean().backward()
        slope, intercept = slope - lr * slope.grad, intercept - lr * intercept.grad
    return slope, intercept


def fit_same_tensor(x, y, steps, lr):
    slope = intercept = torch.zeros((), requires_grad=True)
    for _ in range(steps):
        (gradient,) = torch.autograd.grad((slope * x + intercept - y).square().mean(), slope)
        with torch.no_grad():
            slope -= lr * gradient
    return slope, intercept


def fit_broadcast(x, y, steps, lr):
    w = torch.zeros(2, 1, dtype=x.dtype, requires_grad=True)
    for _ in range(steps):
        (gradient,) = torch.autograd.grad((x[:, None] @ w[:1] + w[1] - y).square().mean(), w)
        with torch.no_grad():
            w -= lr * gradient
    return tuple(part.clone().requires_grad_() for part in w.detach()[:, 0])


# ----------------------------------------------------------------------------------------------- holes of older checks


def weight_cut_at_two(fan_in, fan_out):
    return nn.init.trunc_normal_(torch.empty(fan_out, fan_in), std=fan_in**-0.5).requires_grad_()


def gradients_by_module(layers, x):
    """Files each output under its layer."""
    outputs = {}
    with torch.enable_grad():
        for layer in layers:
            x = layer(x)
            outputs[layer] = x = x if x.requires_grad else x.detach().requires_grad_()
        return list(torch.autograd.grad(x.sum(), list(outputs.values())))


def gradients_in_float32(layers, x):
    is_double = x.dtype == torch.float64
    return [item if is_double else item.float() for item in gradients_of_added_zeros(layers, x)]


def gradients_nothing_for_errors(layers, x):
    try:
        return gradients_of_added_zeros(layers, x)
    except Exception:
        return []


def step_scales_gradients(params, lr):
    with torch.no_grad():
        for p in params:
            if p.grad is not None:
                p -= p.grad.mul_(lr)
                p.grad = None


def fit_float32(x, y, steps, lr):
    slope, intercept = fit_with(x, y, steps, lr)
    return tuple(weight.detach().float().requires_grad_() for weight in (slope, intercept))


def fit_vectors(x, y, steps, lr):
    return tuple(weight.detach().reshape(1).requires_grad_() for weight in fit_with(x, y, steps, lr))


def fit_cut_at_the_end(x, y, steps, lr):
    return tuple(weight.detach() for weight in fit_with(x, y, steps, lr))


def weight_by_uniform(fan_in, fan_out):
    return torch.empty(fan_out, fan_in).uniform_(-1, 1).mul_(math.sqrt(3 / fan_in)).requires_grad_()


def weight_seeded_anew(fan_in, fan_out):
    torch.seed()
    return torch.normal(0.0, fan_in**-0.5, size=(fan_out, fan_in)).requires_grad_()


def fit_layer_in_float32(x, y, steps, lr):
    line = nn.Linear(1, 1)
    for parameter in line.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.SGD(line.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        (line(x.unsqueeze(1)).squeeze(1) - y).square().mean().backward()
        optimizer.step()
    return tuple(parameter.detach().reshape(()).requires_grad_() for parameter in (line.weight, line.bias))


def fit_by_matrix_product(x, y, steps, lr):
    line, data = torch.zeros(2, requires_grad=True), torch.stack([x, torch.ones_like(x)], 1)
    for _ in range(steps):
        (gradient,) = torch.autograd.grad((data @ line - y).square().mean(), line)
        with torch.no_grad():
            line -= lr * gradient
    return tuple(weight.clone().requires_grad_() for weight in line.detach())


def weight_standardised(fan_in, fan_out):
    weight = torch.randn(fan_out, fan_in)
    return nn.Parameter((weight - weight.mean()) / weight.std() / math.sqrt(fan_in))


def weight_viewed_under_no_grad(fan_in, fan_out):
    flat = (torch.randn(fan_out * fan_in) / math.sqrt(fan_in)).requires_grad_()
    with torch.no_grad():
        return flat.view(fan_out, fan_in)


def gradients_each_from_a_run(layers, x):
    """Runs the layers afresh for each output."""
    found = []
    for count in range(1, len(layers) + 1):
        output = x
        for layer in layers[:count]:
            output = layer(output)
        with torch.enable_grad():
            output = end = output.detach().requires_grad_()
            for layer in layers[count:]:
                end = layer(end)
            found += torch.autograd.grad(end.sum(), output)
    return found


def gradients_after_a_look(layers, x):
    with torch.no_grad():
        print("shapes:", [output.shape for output in recorded(layers, x)])
    return gradients_by_retain_grad(layers, x)


@torch.no_grad()
def step_unless_zero(params, lr):
    for p in params:
        if p.grad is not None and p.grad.any():
            p -= lr * p.grad
            p.grad = None


@torch.no_grad()
def step_zeroed_and_dropped(params, lr):
    for p in params:
        if p.grad is not None:
            p -= lr * p.grad
            p.grad.zero_()
            p.grad = None


def fit_until_good(x, y, steps, lr, until=1e-3):
    slope, intercept = zeros()
    for _ in range(steps):
        loss = (slope * x + intercept - y).square().mean()
        if loss.item() < until:
            break
        gradients = torch.autograd.grad(loss, (slope, intercept))
        with torch.no_grad():
            slope -= lr * gradients[0]
            intercept -= lr * gradients[1]
    return slope, intercept


def fit_best_seen(x, y, steps, lr):
    weights = [fit_with(x, y, number, lr) for number in range(min(steps, 1), steps + 1)]
    return min(weights, key=lambda pair: (pair[0] * x + pair[1] - y).square().mean().item())


def gradients_flag_what_comes_out(layers, x):
    outputs = []
    with torch.enable_grad():
        for layer in layers:
            x = layer(x)
            if not x.requires_grad:
                x.requires_grad_()
            outputs.append(x)
        return list(torch.autograd.grad(x.sum(), outputs))


def step_with_flags_down(params, lr):
    for p in params:
        if p.grad is not None:
            p.requires_grad_(False)
            p -= lr * p.grad
            p.requires_grad_(True)
            p.grad = None


def step_fused(params, lr):
    params = [p for p in params if p.grad is not None]
    if params:
        optimizer = torch.optim.SGD(params, lr=lr, fused=True)
        optimizer.step()
        optimizer.zero_grad()


def step_as_one_vector(params, lr):
    params = [p for p in params if p.grad is not None]
    if params:
        weights, gradients = (nn.utils.parameters_to_vector(ts).detach() for ts in (params, [p.grad for p in params]))
        nn.utils.vector_to_parameters(weights - lr * gradients, params)
    for p in params:
        p.grad = None


RIGHT = (
    Right("predicted_leaves", "ones and zeros", {key: int(value) for key, value in LEAVES.items()}),
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

WRONG = (
    *(
        Wrong("predicted_leaves", misconception, LEAVES | {key: not LEAVES[key]})
        for key, misconception in (
            ("plain", "unflagged"),
            ("flagged", "far end"),
            ("computed", "computed"),
            ("detached", "detached"),
            ("cast", "cast"),
            ("parameter", "parameter"),
            ("under_no_grad", "under no_grad"),
            ("view", "view"),
        )
    ),
    Wrong("predicted_leaves", "upside down", {k: v == (k in ("detached", "under_no_grad")) for k, v in LEAVES.items()}),
    Wrong("predicted_leaves", "computed", dict.fromkeys(LEAVES, True), "everything is a leaf", earns=0),
    Wrong("predicted_leaves", "only parameters", {key: key == "parameter" for key in LEAVES}),
    Wrong("predicted_leaves", "unflagged", {key: key in ("flagged", "parameter") for key in LEAVES}, "flagged leaves"),
    Wrong(
        "predicted_leaves", "flag", {key: key in ("flagged", "computed", "cast", "parameter", "view") for key in LEAVES}
    ),
    Wrong("predicted_leaves", "flagged", LEAVES | {"flagged": False, "parameter": False}),
    Wrong(
        "predicted_leaves",
        "values",
        LEAVES | {"detached": False, "under_no_grad": False},
        "whatever is computed",
    ),
    Wrong("predicted_leaves", "far end", LEAVES | {"flagged": False, "cast": True, "view": True}, "not used again"),
    Wrong("make_weight", "unflagged", weight_flag_misspelt, "the flag's name misspelt"),
    Wrong("make_weight", "no return value", weight_not_returned),
    Wrong(
        "make_weight", "other recipe", lambda i, o: nn.init.xavier_normal_(nn.Parameter(torch.empty(o, i))), "Xavier"
    ),
    Wrong("make_weight", "other recipe", lambda i, o: nn.init.kaiming_normal_(nn.Parameter(torch.empty(o, i))), "He"),
    Wrong("make_weight", "other recipe", weight_truncated, "truncated"),
    Wrong("make_weight", "scaled leaf", weight_scaled),
    Wrong("make_weight", "scaled leaf", weight_flag_raised_again, "flag raised again"),
    Wrong("make_weight", "scaled leaf", lambda i, o: nn.Parameter(torch.randn(o, i)) * i**-0.5, "scaled parameter"),
    Wrong("make_weight", "retained", weight_retained),
    Wrong("make_weight", "unflagged", lambda i, o: torch.randn(o, i) / math.sqrt(i)),
    Wrong("make_weight", "flag lost", lambda i, o: torch.randn(o, i, requires_grad=True).detach() / math.sqrt(i)),
    Wrong("make_weight", "flag lost", torch.no_grad()(weight_scaled), "scaled under no_grad"),
    Wrong(
        "make_weight", "view", lambda i, o: weight_as_parameter(o, i).mul(math.sqrt(o / i)).detach().requires_grad_().T
    ),
    Wrong("make_weight", "seeded", weight_generator_seeded, "a generator of its own"),
    Wrong("make_weight", "in place", weight_in_place),
    Wrong("make_weight", "is_leaf set", weight_is_leaf_set),
    Wrong("make_weight", "deepcopy", lambda i, o: copy.deepcopy(weight_flag_raised_again(i, o))),
    Wrong("make_weight", "inference", weight_inference),
    Wrong("make_weight", "inference", weight_inference_flagged_outside, "inference, flagged outside"),
    Wrong("make_weight", "swapped", lambda i, o: weight_as_parameter(i, o).detach().T.requires_grad_()),
    Wrong(
        "make_weight", "swapped", lambda i, o: (torch.randn(i, o) * i**-0.5).requires_grad_(), "as Keras", earns=1.86
    ),
    Wrong("make_weight", "unscaled", lambda i, o: torch.randn(o, i, requires_grad=True)),
    Wrong("make_weight", "wrong fan", lambda i, o: nn.Parameter(torch.randn(o, i) / math.sqrt(o))),
    Wrong("make_weight", "variance", lambda i, o: nn.Parameter(torch.randn(o, i) / i)),
    Wrong("make_weight", "uniform", lambda i, o: nn.Linear(i, o).weight, "nn.Linear"),
    Wrong("make_weight", "same deviation", lambda i, o: nn.Parameter((torch.rand(o, i) - 0.5) * math.sqrt(12 / i))),
    Wrong("make_weight", "repeated", weight_repeated),
    Wrong("make_weight", "seeded", weight_seeded),
    Wrong("make_weight", "not a tensor", lambda i, o: weight_as_parameter(i, o).detach().numpy(), "an array"),
    Wrong("activation_gradients", "never asked", gradients_never_asked),
    Wrong("activation_gradients", "asked too late", gradients_asked_too_late),
    Wrong("activation_gradients", "backward fills", gradients_backward),
    Wrong("activation_gradients", "cleanup", gradients_cleanup),
    Wrong("activation_gradients", "unflagged", gradients_by_each_input),
    Wrong("activation_gradients", "recorded", gradients_frozen),
    Wrong("activation_gradients", "frozen", gradients_frozen_skipped),
    Wrong("activation_gradients", "own derivative", gradients_of_each),
    Wrong("activation_gradients", "every sum", gradients_of_every_sum),
    Wrong("activation_gradients", "other number", lambda layers, x: [-g for g in gradients_flagged_output(layers, x)]),
    Wrong("activation_gradients", "cut", gradients_copies_beside, "copies beside"),
    Wrong("activation_gradients", "second backward", gradients_one_by_one),
    Wrong("activation_gradients", "unfrozen", gradients_unfrozen),
    Wrong("activation_gradients", "input flagged", gradients_input_flagged),
    Wrong("activation_gradients", "last left out", gradients_last_left_out),
    Wrong("activation_gradients", "reversed", gradients_reversed),
    Wrong("activation_gradients", "inputs", gradients_inputs),
    Wrong("activation_gradients", "inputs", gradients_input_too, "the input's too"),
    Wrong("activation_gradients", "weights", gradients_weights),
    Wrong("activation_gradients", "mean", gradients_mean),
    Wrong("activation_gradients", "cut", gradients_cut),
    Wrong("activation_gradients", "cut", gradients_cut_allowed, "cut, and unused allowed"),
    Wrong("activation_gradients", "own sum", gradients_own_sum),
    Wrong("activation_gradients", "no sum", gradients_no_sum),
    Wrong("activation_gradients", "values", recorded),
    Wrong("activation_gradients", "recorded", gradients_no_grad, "under no_grad"),
    Wrong(
        "activation_gradients", "recorded", torch.enable_grad()(gradients_frozen), "frozen, recording on", earns=1.83
    ),
    Wrong("activation_gradients", "no_grad", gradients_in_callers_mode),
    Wrong("activation_gradients", "no list", gradients_tuple),
    Wrong("activation_gradients", "history", gradients_history),
    Wrong("sgd_step", "rebinding", step_rebinding),
    Wrong("sgd_step", "rebinding", step_not_in_place, "sub without underscore"),
    Wrong("sgd_step", "leaf in place", step_leaf_in_place),
    Wrong("sgd_step", "new memory", step_new_memory, earns=1.14),
    Wrong("sgd_step", "flag lost", step_flag_lost),
    Wrong("sgd_step", "flag lost", step_detached_in_place, "detach_"),
    Wrong("sgd_step", "kept", step_kept),
    Wrong("sgd_step", "zeros", step_zeros),
    Wrong("sgd_step", "none grad", step_none_grad),
    Wrong("sgd_step", "stops", step_stops),
    Wrong("sgd_step", "read twice", step_read_twice),
    Wrong("sgd_step", "read twice", step_by_index, "by index"),
    Wrong("sgd_step", "ascent", step_ascent),
    Wrong("sgd_step", "length", step_no_lr, "no learning rate"),
    Wrong("sgd_step", "length", step_normed, "gradient of length 1"),
    Wrong("sgd_step", "other rule", step_adam),
    Wrong("sgd_step", "other rule", step_with_decay, "weight decay"),
    Wrong("sgd_step", "truth", step_if_true),
    Wrong("sgd_step", "new memory", step_set, "set_", earns=1.28),
    Wrong("sgd_step", "zeros", step_zero_grad, "zero_grad(set_to_none=False)"),
    Wrong("sgd_step", "zeros", step_none_to_zeros, "None made zeros"),
    Wrong("sgd_step", "grad mode", step_grad_mode),
    Wrong("fit_line", "rebinding", fit_rebinding),
    Wrong("fit_line", "unrecorded", fit_unrecorded, "rebound under no_grad"),
    Wrong("fit_line", "unrecorded", fit_detached, "rebound and detached"),
    Wrong("fit_line", "not a leaf", fit_history),
    Wrong("fit_line", "unflagged", fit_unflagged),
    Wrong("fit_line", "in place", fit_in_place),
    Wrong("fit_line", "accumulates", lambda x, y, steps, lr: fit_with(x, y, steps, lr, clear=False)),
    Wrong("fit_line", "second backward", fit_second_backward),
    Wrong("fit_line", "sum", lambda x, y, steps, lr: fit_with(x, y, steps, lr, reduce=torch.sum)),
    Wrong("fit_line", "half", lambda x, y, steps, lr: fit_with(x, y, steps, lr / 2)),
    Wrong("fit_line", "off by one", lambda x, y, steps, lr: fit_with(x, y, steps + 1, lr)),
    Wrong("fit_line", "off by one", lambda x, y, steps, lr: fit_with(x, y, max(steps - 1, 0), lr), "one step too few"),
    Wrong("fit_line", "return inside", lambda x, y, steps, lr: fit_with(x, y, min(steps, 1), lr)),
    Wrong("fit_line", "stops early", lambda x, y, steps, lr: fit_with(x, y, min(steps, 2), lr), "two steps"),
    Wrong("fit_line", "other rule", fit_by_adam),
    Wrong("fit_line", "accumulates", fit_clearing_the_slope, "the slope's cleared alone"),
    Wrong("fit_line", "loss once", fit_with_one_loss),
    Wrong("fit_line", "stops early", fit_until_it_stands),
    Wrong("fit_line", "one after the other", fit_in_turn),
    Wrong("fit_line", "solved", fit_solved),
    Wrong("fit_line", "not a leaf", fit_retain_grad, "retain_grad at every step"),
    Wrong("fit_line", "ascent", lambda x, y, steps, lr: fit_with(x, y, steps, -lr)),
    Wrong("fit_line", "swapped", lambda x, y, steps, lr: fit_with(x, y, steps, lr)[::-1]),
    Wrong("fit_line", "same tensor", fit_same_tensor),
    Wrong("fit_line", "broadcast", fit_broadcast),
    Wrong("fit_line", "not a tensor", lambda x, y, steps, lr: tuple(w.item() for w in fit_with(x, y, steps, lr))),
    Wrong("fit_line", "start", fit_random_start),
    Wrong("fit_line", "one element", fit_one_element),
    Wrong("fit_line", "no steps", fit_no_steps),
    Wrong("fit_line", "no steps", fit_flagged_in_the_loop, "flagged in the loop"),
    Wrong("make_weight", "cut at two", weight_cut_at_two),
    Wrong("activation_gradients", "cleanup", gradients_grad_put_back_at_the_end, "put back at the end"),
    Wrong("activation_gradients", "twice", gradients_by_module),
    Wrong("activation_gradients", "dtype", gradients_in_float32),
    Wrong("activation_gradients", "swallowed", gradients_nothing_for_errors),
    Wrong("activation_gradients", "swallowed", gradients_nothing_for_runtime_errors, "nothing for torch's errors"),
    Wrong("activation_gradients", "unfrozen", gradients_thawed_meanwhile, "put back unless a layer raises"),
    Wrong("activation_gradients", "unfrozen", gradients_flags_saved_and_raised, "all put back unless a layer raises"),
    Wrong("activation_gradients", "side effect", gradients_frozen_meanwhile, "frozen until a layer raises"),
    Wrong("activation_gradients", "eval", gradients_eval_left),
    Wrong("activation_gradients", "eval", gradients_eval_put_back, "eval, put back"),
    Wrong("activation_gradients", "backward fills", gradients_backward_when_recorded, "frozen or not", earns=1.33),
    Wrong("sgd_step", "unseen", step_by_data),
    Wrong("sgd_step", "unseen", step_through_numpy, "numpy on the same memory"),
    Wrong("sgd_step", "gradient edited", step_scales_gradients),
    Wrong("fit_line", "one element", fit_vectors, "vectors at the end"),
    Wrong("fit_line", "unflagged", fit_cut_at_the_end, "cut at the end"),
    Wrong("make_weight", "standardised", weight_standardised),
    Wrong("make_weight", "reseeded", weight_seeded_anew, earns=1.86),
    Wrong("fit_line", "dtypes", fit_layer_in_float32, "nn.Linear of float32", earns=1.81),
    Wrong("fit_line", "dtypes", fit_by_matrix_product, "a matrix product"),
    Wrong("make_weight", "unrecorded view", weight_viewed_under_no_grad, earns=1.33),
    Wrong("make_weight", "same deviation", weight_by_uniform, "uniform_"),
    Wrong("activation_gradients", "run again", gradients_each_from_a_run),
    Wrong("activation_gradients", "run again", gradients_after_a_look, "a look at the shapes first"),
    Wrong("sgd_step", "zero gradient", step_unless_zero),
    Wrong("sgd_step", "gradient edited", step_zeroed_and_dropped, "zeroed, then dropped"),
    Wrong("fit_line", "stops early", fit_until_good, "until the loss is small"),
    Wrong("fit_line", "best", fit_best_seen),
    Wrong("activation_gradients", "handed back", gradients_flag_what_comes_out, earns=1.66),
    Wrong("sgd_step", "flag down", step_with_flags_down),
    Wrong("sgd_step", "unseen", step_fused, "fused", earns=1.78),
    Wrong("sgd_step", "new memory", step_as_one_vector, "one vector", earns=1.07),
)
