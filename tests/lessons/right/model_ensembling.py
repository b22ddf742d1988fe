"""Right answers to the exercises of lesson 10, written otherwise than the course's own."""

# %%
from torch.func import jacrev, vjp


def own_state(models):
    """Parameters and buffers of all models, stacked; the parameters are connected to the models' own."""
    params = {k: torch.stack([m.get_parameter(k) for m in models]) for k, _ in models[0].named_parameters()}
    buffers = {k: torch.stack([m.get_buffer(k) for m in models]) for k, _ in models[0].named_buffers()}
    return params, buffers


def stateless(models):
    base = copy.deepcopy(models[0]).to("meta")
    return lambda params, buffers, x: functional_call(base, (params, buffers), (x,))


def detached(model):
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def one_loss(models):
    base = copy.deepcopy(models[0])

    def loss(params, buffers, x, y):
        return F.cross_entropy(functional_call(base, (params, buffers), (x,)), y)

    return loss

# %% ensemble_predict: on the meta device
def ensemble_predict(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None))(params, buffers, x)

# %% ensemble_predict: called on the first model itself
def ensemble_predict(models, x):
    params, buffers = own_state(models)
    return vmap(lambda p, b: functional_call(models[0], p | b, x))(params, buffers)

# %% ensemble_predict: stacked by hand
def ensemble_predict(models, x):
    named = [dict(model.named_parameters()) | dict(model.named_buffers()) for model in models]
    state = {name: torch.stack([row[name] for row in named]) for name in named[0]}
    base = copy.deepcopy(models[0])
    return vmap(lambda state, x: functional_call(base, state, (x,), strict=True), in_dims=(0, None))(state, x)

# %% ensemble_predict: x expanded
def ensemble_predict(models, x):
    params, buffers = own_state(models)
    xs = x.unsqueeze(0).expand(len(models), *x.shape)
    return vmap(stateless(models))(params, buffers, xs)

# %% ensemble_predict: out_dims and back
def ensemble_predict(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None), out_dims=1)(params, buffers, x).transpose(0, 1)

# %% ensemble_predict: rows mapped, too
def ensemble_predict(models, x):
    params, buffers = own_state(models)
    call = stateless(models)
    row = vmap(lambda p, b, row: call(p, b, row.unsqueeze(0)).squeeze(0), (None, None, 0))
    return vmap(row, (0, 0, None))(params, buffers, x)

# %% ensemble_predict_each: default in_dims
def ensemble_predict_each(models, xs):
    params, buffers = own_state(models)
    xs = xs if isinstance(xs, torch.Tensor) else torch.stack(xs)
    return vmap(stateless(models))(params, buffers, xs)

# %% ensemble_predict_each: one dict of state
def ensemble_predict_each(models, xs):
    params, buffers = own_state(models)
    xs = torch.stack(list(xs))
    state = {**params, **buffers}
    base = copy.deepcopy(models[0])
    return vmap(lambda state, x: functional_call(base, state, x), in_dims=0)(state, xs)

# %% ensemble_predict_each: state as a tuple
def ensemble_predict_each(models, xs):
    state = own_state(models)
    batches = torch.cat([x.unsqueeze(0) for x in xs])
    return vmap(lambda state, x: functional_call(models[0], state, (x,)), ((0, 0), 0))(state, batches)

# %% ensemble_predict_each: models along dimension 1
def ensemble_predict_each(models, xs):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, 1))(params, buffers, torch.stack([*xs], dim=1))

# %% per_sample_gradients: vmap of grad
def per_sample_gradients(model, loss_fn, x, y):
    buffers = dict(model.named_buffers())

    def loss(params, x, y):
        return loss_fn(functional_call(model, (params, buffers), (x[None],)), y[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(detached(model), x, y)

# %% per_sample_gradients: a dimension in front
def per_sample_gradients(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x,)), y)

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    return each(detached(model), x.unsqueeze(1), y.unsqueeze(1))

# %% per_sample_gradients: argnums for the parameters
def per_sample_gradients(model, loss_fn, x, y):
    def loss(x, y, params):
        return loss_fn(functional_call(model, params, (x[None],)), y[None])

    return vmap(grad(loss, argnums=2), in_dims=(0, 0, None))(x, y, detached(model))

# %% per_sample_gradients: jacrev
def per_sample_gradients(model, loss_fn, x, y):
    def losses(params):
        outputs = functional_call(model, params, (x,))
        return torch.stack([loss_fn(outputs[i : i + 1], y[i : i + 1]) for i in range(len(x))])

    return dict(jacrev(losses)(detached(model)))

# %% per_sample_gradients: one forward, a gradient for each loss
def per_sample_gradients(model, loss_fn, x, y):
    names, parameters = zip(*model.named_parameters(), strict=True)
    losses = [loss_fn(output[None], target[None]) for output, target in zip(model(x), y, strict=True)]
    rows = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
    return {name: torch.stack(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}

# %% per_sample_gradients: is_grads_batched
def per_sample_gradients(model, loss_fn, x, y):
    outputs = model(x)
    losses = torch.stack([loss_fn(o.unsqueeze(0), t.unsqueeze(0)) for o, t in zip(outputs, y, strict=True)])
    names, parameters = zip(*model.named_parameters(), strict=True)
    rows = torch.autograd.grad(losses, parameters, torch.eye(len(x), dtype=losses.dtype), is_grads_batched=True)
    return dict(zip(names, rows, strict=True))

# %% per_sample_gradients: parameters expanded
def per_sample_gradients(model, loss_fn, x, y):
    params = {k: p.detach().expand(len(x), *p.shape).clone().requires_grad_() for k, p in model.named_parameters()}
    one = vmap(lambda p, x, y: loss_fn(functional_call(model, p, (x,)), y))
    losses = one(params, x.unsqueeze(1), y.unsqueeze(1))
    return dict(zip(params, torch.autograd.grad(losses.sum(), list(params.values())), strict=True))

# %% per_sample_gradients: vjp
def per_sample_gradients(model, loss_fn, x, y):
    def losses(params):
        return vmap(lambda o, t: loss_fn(o[None], t[None]))(functional_call(model, params, (x,)), y)

    values, pull = vjp(losses, detached(model))
    return vmap(pull)(torch.eye(len(x), dtype=values.dtype))[0]

# %% train_ensemble: functional
def train_ensemble(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    params = {name: value.detach() for name, value in params.items()}
    step = vmap(grad(one_loss(models)), in_dims=(0, 0, None, None))
    for _ in range(steps):
        gradients = step(params, buffers, x, y)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params

# %% train_ensemble: one optimizer, summed loss
def train_ensemble(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    optimizer = torch.optim.SGD(params.values(), lr=lr)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        optimizer.zero_grad()
        losses(params, buffers, x, y).sum().backward()
        optimizer.step()
    return {name: value.detach() for name, value in params.items()}

# %% train_ensemble: one flat loss
def train_ensemble(models, x, y, lr, steps):
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

# %% train_ensemble: grad_and_value
def own_stack(models):
    return {
        name: torch.stack([dict(model.named_parameters())[name].detach() for model in models])
        for name, _ in models[0].named_parameters()
    }


def train_ensemble(models, x, y, lr, steps):
    params = own_stack(models)
    buffers = stack_module_state(models)[1]
    call = vmap(grad_and_value(one_loss(models)), in_dims=(0, 0, None, None))
    with torch.no_grad():
        for _ in range(steps):
            gradients, _losses = call(params, buffers, x, y)
            torch._foreach_add_(list(params.values()), [gradients[name] for name in params], alpha=-lr)
    return params

# %% train_ensemble: loss by hand
def train_ensemble(models, x, y, lr, steps):
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

# %% train_ensemble: new leaves, the flat loss sample by sample, so that each label stands beside its copies
def train_ensemble(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    for _ in range(steps):
        outputs = vmap(stateless(models), (0, 0, None), out_dims=1)(params, buffers, x)
        loss = len(models) * F.cross_entropy(outputs.flatten(0, 1), y.repeat_interleave(len(models)))
        gradients = torch.autograd.grad(loss, list(params.values()))
        with torch.no_grad():
            new = [value - lr * gradient for value, gradient in zip(params.values(), gradients, strict=True)]
        params = {name: value.requires_grad_() for name, value in zip(params, new, strict=True)}
    return {name: value.detach() for name, value in params.items()}

# %% train_ensemble: flags lowered and raised
def train_ensemble(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        losses(params, buffers, x, y).sum().backward()
        for value in params.values():
            value.requires_grad_(False).sub_(lr * value.grad).requires_grad_().grad = None
    return {name: value.detach() for name, value in params.items()}
