"""Right and wrong answers to the exercises of lesson 10."""

import copy

import torch
from torch.func import functional_call, grad, grad_and_value, jacrev, stack_module_state, vjp, vmap
from torch.nn import functional as F

from tests.lessons.answers import Right

# ------------------------------------------------------------------------------------------------------ predictions


def own_state(models):
    """Parameters and buffers of all models, stacked; the parameters are connected to the models' own."""
    params = {k: torch.stack([m.get_parameter(k) for m in models]) for k, _ in models[0].named_parameters()}
    buffers = {k: torch.stack([m.get_buffer(k) for m in models]) for k, _ in models[0].named_buffers()}
    return params, buffers


def stateless(models, **options):
    base = copy.deepcopy(models[0]).to("meta")
    return lambda params, buffers, x: functional_call(base, (params, buffers), (x,), **options)


def predict_on_meta(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None))(params, buffers, x)


def predict_on_the_first(models, x):
    params, buffers = own_state(models)
    return vmap(lambda p, b: functional_call(models[0], p | b, x))(params, buffers)


def predict_stacked_by_hand(models, x):
    named = [dict(model.named_parameters()) | dict(model.named_buffers()) for model in models]
    state = {name: torch.stack([row[name] for row in named]) for name in named[0]}
    base = copy.deepcopy(models[0])
    return vmap(lambda state, x: functional_call(base, state, (x,), strict=True), in_dims=(0, None))(state, x)


def predict_expanded(models, x):
    params, buffers = own_state(models)
    xs = x.unsqueeze(0).expand(len(models), *x.shape)
    return vmap(stateless(models))(params, buffers, xs)


def predict_out_dims_and_back(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None), out_dims=1)(params, buffers, x).transpose(0, 1)


def predict_nested(models, x):
    params, buffers = own_state(models)
    call = stateless(models)
    row = vmap(lambda p, b, row: call(p, b, row.unsqueeze(0)).squeeze(0), (None, None, 0))
    return vmap(row, (0, 0, None))(params, buffers, x)


# ------------------------------------------------------------------------------------------------- one batch each


def each_default(models, xs):
    params, buffers = own_state(models)
    xs = xs if isinstance(xs, torch.Tensor) else torch.stack(xs)
    return vmap(stateless(models))(params, buffers, xs)


def each_by_index(models, xs):
    params, buffers = own_state(models)
    xs = torch.stack(list(xs))
    state = {**params, **buffers}
    base = copy.deepcopy(models[0])
    return vmap(lambda state, x: functional_call(base, state, x), in_dims=0)(state, xs)


def each_state_in_one_tuple(models, xs):
    state = own_state(models)
    batches = torch.cat([x.unsqueeze(0) for x in xs])
    return vmap(lambda state, x: functional_call(models[0], state, (x,)), ((0, 0), 0))(state, batches)


def each_moved(models, xs):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, 1))(params, buffers, torch.stack([*xs], dim=1))


# --------------------------------------------------------------------------------------------- per-sample gradients


def detached(model):
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def samples_by_grad(model, loss_fn, x, y):
    buffers = dict(model.named_buffers())

    def loss(params, x, y):
        return loss_fn(functional_call(model, (params, buffers), (x[None],)), y[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(detached(model), x, y)


def samples_with_a_dimension_in_front(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x,)), y)

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    return each(detached(model), x.unsqueeze(1), y.unsqueeze(1))


def samples_by_jacrev(model, loss_fn, x, y):
    def losses(params):
        outputs = functional_call(model, params, (x,))
        return torch.stack([loss_fn(outputs[i : i + 1], y[i : i + 1]) for i in range(len(x))])

    return dict(jacrev(losses)(detached(model)))


def samples_by_batched_backward(model, loss_fn, x, y):
    outputs = model(x)
    losses = torch.stack([loss_fn(o.unsqueeze(0), t.unsqueeze(0)) for o, t in zip(outputs, y, strict=True)])
    names, parameters = zip(*model.named_parameters(), strict=True)
    rows = torch.autograd.grad(losses, parameters, torch.eye(len(x), dtype=losses.dtype), is_grads_batched=True)
    return dict(zip(names, rows, strict=True))


def samples_by_expanded_parameters(model, loss_fn, x, y):
    params = {k: p.detach().expand(len(x), *p.shape).clone().requires_grad_() for k, p in model.named_parameters()}
    one = vmap(lambda p, x, y: loss_fn(functional_call(model, p, (x,)), y))
    losses = one(params, x.unsqueeze(1), y.unsqueeze(1))
    return dict(zip(params, torch.autograd.grad(losses.sum(), list(params.values())), strict=True))


def samples_by_argnums(model, loss_fn, x, y):
    def loss(x, y, params):
        return loss_fn(functional_call(model, params, (x[None],)), y[None])

    return vmap(grad(loss, argnums=2), in_dims=(0, 0, None))(x, y, detached(model))


def samples_by_vjp(model, loss_fn, x, y):
    def losses(params):
        return vmap(lambda o, t: loss_fn(o[None], t[None]))(functional_call(model, params, (x,)), y)

    values, pull = vjp(losses, detached(model))
    return vmap(pull)(torch.eye(len(x), dtype=values.dtype))[0]


def samples_by_a_gradient_each(model, loss_fn, x, y):
    names, parameters = zip(*model.named_parameters(), strict=True)
    losses = [loss_fn(output[None], target[None]) for output, target in zip(model(x), y, strict=True)]
    rows = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
    return {name: torch.stack(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def samples_with_parameters_detached(model, loss_fn, x, y):
    """The result is not detached: it has no history where ``x`` requires no grad, as the contract says."""
    return samples_by_grad(model, loss_fn, x, y)


# --------------------------------------------------------------------------------------------------------- training


def own_stack(models):
    return {
        name: torch.stack([dict(model.named_parameters())[name].detach() for model in models])
        for name, _ in models[0].named_parameters()
    }


def one_loss(models, loss_fn=F.cross_entropy):
    base = copy.deepcopy(models[0])

    def loss(params, buffers, x, y):
        return loss_fn(functional_call(base, (params, buffers), (x,)), y)

    return loss


def stepped(models, x, y, lr, steps, loss, **options):
    """Plain gradient descent on all models at once, with the loss of one."""
    params, buffers = stack_module_state(models)
    params = {name: value.detach() for name, value in params.items()}
    step = vmap(grad(loss), in_dims=(0, 0, None, None), **options)
    for _ in range(steps):
        gradients = step(params, buffers, x, y)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_functional(models, x, y, lr, steps):
    return stepped(models, x, y, lr, steps, one_loss(models))


def train_by_optimizer(models, x, y, lr, steps, reduce=torch.sum, **options):
    params, buffers = stack_module_state(models)
    optimizer = options.pop("kind", torch.optim.SGD)(params.values(), lr=lr, **options)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        optimizer.zero_grad()
        reduce(losses(params, buffers, x, y)).backward()
        optimizer.step()
    return {name: value.detach() for name, value in params.items()}


def train_by_flat_loss(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    params = {name: value.detach().requires_grad_() for name, value in params.items()}
    for _ in range(steps):
        outputs = vmap(stateless(models), (0, 0, None))(params, buffers, x)
        loss = F.cross_entropy(outputs.flatten(0, 1), y.repeat(len(models)), reduction="sum") / len(x)
        gradients = torch.autograd.grad(loss, list(params.values()))
        with torch.no_grad():
            for value, gradient in zip(params.values(), gradients, strict=True):
                value -= lr * gradient
    return {name: value.detach().clone() for name, value in params.items()}


def train_sample_by_sample(models, x, y, lr, steps):
    """The flat loss, with the outputs sample by sample, so that each label stands beside its copies."""
    params, buffers = stack_module_state(models)
    for _ in range(steps):
        outputs = vmap(stateless(models), (0, 0, None), out_dims=1)(params, buffers, x)
        loss = len(models) * F.cross_entropy(outputs.flatten(0, 1), y.repeat_interleave(len(models)))
        gradients = torch.autograd.grad(loss, list(params.values()))
        with torch.no_grad():
            new = [value - lr * gradient for value, gradient in zip(params.values(), gradients, strict=True)]
        params = {name: value.requires_grad_() for name, value in zip(params, new, strict=True)}
    return {name: value.detach() for name, value in params.items()}


def train_flag_up_and_down(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        losses(params, buffers, x, y).sum().backward()
        for value in params.values():
            value.requires_grad_(False).sub_(lr * value.grad).requires_grad_().grad = None
    return {name: value.detach() for name, value in params.items()}


def train_with_value(models, x, y, lr, steps):
    params = own_stack(models)
    buffers = stack_module_state(models)[1]
    call = vmap(grad_and_value(one_loss(models)), in_dims=(0, 0, None, None))
    with torch.no_grad():
        for _ in range(steps):
            gradients, _losses = call(params, buffers, x, y)
            torch._foreach_add_(list(params.values()), [gradients[name] for name in params], alpha=-lr)
    return params


def train_by_hand(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    optimizer = torch.optim.SGD(list(params.values()), lr)
    for _ in range(steps):
        scores = vmap(stateless(models), (0, 0, None))(params, buffers, x).log_softmax(-1)
        for value in params.values():
            value.grad = None
        (-scores[:, torch.arange(len(y)), y]).mean(1).sum().backward()
        optimizer.step()
    with torch.no_grad():
        return {name: value.clone() for name, value in params.items()}


RIGHT = [
    Right("ensemble_predict", "on the meta device", predict_on_meta),
    Right("ensemble_predict", "called on the first model itself", predict_on_the_first),
    Right("ensemble_predict", "stacked by hand", predict_stacked_by_hand),
    Right("ensemble_predict", "x expanded", predict_expanded),
    Right("ensemble_predict", "out_dims and back", predict_out_dims_and_back),
    Right("ensemble_predict", "rows mapped, too", predict_nested),
    Right("ensemble_predict_each", "default in_dims", each_default),
    Right("ensemble_predict_each", "one dict of state", each_by_index),
    Right("ensemble_predict_each", "state as a tuple", each_state_in_one_tuple),
    Right("ensemble_predict_each", "models along dimension 1", each_moved),
    Right("per_sample_gradients", "vmap of grad", samples_by_grad),
    Right("per_sample_gradients", "a dimension in front", samples_with_a_dimension_in_front),
    Right("per_sample_gradients", "argnums for the parameters", samples_by_argnums),
    Right("per_sample_gradients", "jacrev", samples_by_jacrev),
    Right("per_sample_gradients", "one forward, a gradient for each loss", samples_by_a_gradient_each),
    Right("per_sample_gradients", "is_grads_batched", samples_by_batched_backward),
    Right("per_sample_gradients", "parameters expanded", samples_by_expanded_parameters),
    Right("per_sample_gradients", "vjp", samples_by_vjp),
    Right("per_sample_gradients", "parameters detached, the result not", samples_with_parameters_detached),
    Right("train_ensemble", "functional", train_functional),
    Right("train_ensemble", "one optimizer, summed loss", train_by_optimizer),
    Right("train_ensemble", "one flat loss", train_by_flat_loss),
    Right("train_ensemble", "grad_and_value", train_with_value),
    Right("train_ensemble", "loss by hand", train_by_hand),
    Right("train_ensemble", "outputs sample by sample, new leaves", train_sample_by_sample),
    Right("train_ensemble", "flags lowered and raised", train_flag_up_and_down),
]

P, E, G, T = "ensemble_predict", "ensemble_predict_each", "per_sample_gradients", "train_ensemble"
