"""Right and wrong answers to the exercises of lesson 10."""

import copy

import torch
from torch.func import functional_call, grad, grad_and_value, jacrev, stack_module_state, vjp, vmap
from torch.nn import functional as F

from tests.lessons.answers import Right, Wrong

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


def predict_from_new_leaves(models, x):
    params, buffers = stack_module_state(models)
    return vmap(stateless(models), (0, 0, None))(params, buffers, x)


def predict_detached(models, x):
    return predict_on_meta(models, x).detach()


def predict_in_single_precision(models, x):
    return predict_on_meta(models, x).float()


def predict_and_lose_the_first(models, x):
    params, buffers = own_state(models)
    base = models[0].to("meta")
    return vmap(lambda p, b: functional_call(base, (p, b), (x,)))(params, buffers)


@torch.inference_mode()
def predict_in_inference_mode(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None), randomness="different")(params, buffers, x)


def predict_loop(models, x):
    return torch.stack([model(x) for model in models])


def predict_loop_functional(models, x):
    base = copy.deepcopy(models[0])
    rows = [functional_call(base, dict(m.named_parameters()) | dict(m.named_buffers()), (x,)) for m in models]
    return torch.stack(rows)


def predict_chunks(models, x, size=2):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None), chunk_size=size)(params, buffers, x)


def predict_by_the_shape(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, 0 if len(x) == len(models) else None))(params, buffers, x)


def predict_first_model(models, x):
    params, buffers = own_state(models)
    return vmap(lambda p, b: models[0](x).clone(), randomness="same")(params, buffers)


def predict_repeated(models, x):
    return models[0](x).expand(len(models), -1, -1)


def predict_averaged(models, x):
    return predict_on_meta(models, x).mean(0)


def predict_mean_of_probabilities(models, x):
    return predict_on_meta(models, x).softmax(-1).mean(0)


def predict_batch_first(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None), out_dims=1)(params, buffers, x)


def predict_concatenated(models, x):
    return predict_on_meta(models, x).flatten(0, 1)


def predict_probabilities(models, x):
    return predict_on_meta(models, x).softmax(-1)


def predict_labels(models, x):
    return predict_on_meta(models, x).argmax(-1)


def predict_default_in_dims(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models))(params, buffers, x)


def predict_without_buffers(models, x):
    params, _ = own_state(models)
    base = copy.deepcopy(models[0])
    return vmap(lambda p, x: functional_call(base, p, (x,)), (0, None))(params, x)


def predict_without_buffers_on_meta(models, x):
    params, _ = own_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    return vmap(lambda p, x: functional_call(base, p, (x,)), (0, None))(params, x)


def predict_shared_buffers(models, x):
    params, _ = own_state(models)
    return vmap(stateless(models), (0, None, None))(params, dict(models[0].named_buffers()), x)


def predict_by_state_dict(models, x):
    states = [model.state_dict() for model in models]
    state = {name: torch.stack([row[name] for row in states]) for name in states[0]}
    base = copy.deepcopy(models[0])
    return vmap(lambda state, x: functional_call(base, state, (x,)), in_dims=(0, None))(state, x)


def predict_in_eval(models, x):
    for model in models:
        model.eval()
    return predict_on_meta(models, x)


def predict_in_train(models, x):
    params, buffers = own_state(models)
    base = copy.deepcopy(models[0]).train()
    call = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), (0, 0, None))
    return call(params, buffers, x)


def predict_in_eval_mode_on_a_copy(models, x):
    params, buffers = own_state(models)
    base = copy.deepcopy(models[0]).eval()
    return vmap(lambda p, b: functional_call(base, (p, b), (x,)))(params, buffers)


def predict_and_backward(models, x):
    for model in models:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
    return predict_on_meta(models, x)


def predict_over_modules(models, x):
    return vmap(lambda model: model(x))(models)


def predict_mean_weights(models, x):
    params, buffers = own_state(models)
    mean = {name: value.mean(0) for name, value in params.items()}
    return functional_call(models[0], (mean, {name: value[0] for name, value in buffers.items()}), (x,))


def predict_mean_buffers(models, x):
    params, buffers = own_state(models)
    mean = {name: value.double().mean(0).to(value.dtype) for name, value in buffers.items()}
    return vmap(stateless(models), (0, None, None))(params, mean, x)


def predict_whole_buffers(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, None, None))(params, buffers, x)


def predict_nested(models, x):
    params, buffers = own_state(models)
    call = stateless(models)
    row = vmap(lambda p, b, row: call(p, b, row.unsqueeze(0)).squeeze(0), (None, None, 0))
    return vmap(row, (0, 0, None))(params, buffers, x)


def predict_list(models, x):
    return list(predict_on_meta(models, x))


def predict_by_state_dict_on_meta(models, x):
    states = [model.state_dict() for model in models]
    base = copy.deepcopy(models[0]).to("meta")
    state = {name: torch.stack([row[name] for row in states]) for name in states[0]}
    return vmap(lambda state: functional_call(base, state, (x,)))(state)


def predict_row_by_row(models, x):
    params, buffers = own_state(models)
    rows = vmap(stateless(models), (None, None, 0))
    return vmap(rows, (0, 0, None))(params, buffers, x)


def frozen(models):
    for model in models:
        model.requires_grad_(False)
    return models


def predict_and_zero_grad(models, x):
    for model in models:
        model.zero_grad()
    return predict_on_meta(models, x)


def predict_frozen(models, x):
    return predict_on_meta(frozen(models), x)


def predict_after_a_look(models, x):
    return predict_on_meta(models, x).new_zeros(predict_on_meta(models, x).shape) + predict_on_meta(models, x)


def predict_after_one_model(models, x):
    return predict_on_meta(models, x).reshape(len(models), *models[0](x).shape)


def predict_broadcast(models, x):
    return functional_call(models[0], own_state(models), (x,))


def predict_by_hand(models, x):
    weight, bias, other_weight, other_bias = own_state(models)[0].values()
    hidden = torch.einsum("bi,mhi->mbh", x, weight) + bias[:, None]
    return torch.einsum("mbh,mch->mbc", hidden.relu(), other_weight) + other_bias[:, None]


def predict_squeezed(models, x):
    return predict_on_meta(models, x).squeeze()


def predict_one_model_as_it_is(models, x):
    return models[0](x) if len(models) == 1 else predict_on_meta(models, x)


def predict_expanded_by_two_dimensions(models, x):
    params, buffers = own_state(models)
    return vmap(stateless(models))(params, buffers, x.expand(len(models), -1, -1))


def predict_mean_weights_for_all(models, x):
    mean = predict_mean_weights(models, x)
    return mean.expand(len(models), *mean.shape)


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


def each_loop(models, xs):
    return torch.stack([model(x) for model, x in zip(models, xs, strict=True)])


def each_all_on_all(models, xs):
    params, buffers = own_state(models)
    xs = torch.stack(list(xs))
    return vmap(stateless(models), (0, 0, None))(params, buffers, xs)


def each_first_batch(models, xs):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None))(params, buffers, xs[0])


def each_first_model(models, xs):
    return vmap(lambda x: models[0](x))(torch.stack(list(xs)))


def each_no_list(models, xs):
    params, buffers = own_state(models)
    return vmap(stateless(models))(params, buffers, xs)


def each_list_by_rows(models, xs):
    params, buffers = own_state(models)
    call = stateless(models)
    return vmap(lambda p, b, xs: call(p, b, torch.stack(xs) if isinstance(xs, list) else xs))(params, buffers, xs)


def each_list_by_concatenation(models, xs):
    if isinstance(xs, list):
        xs = torch.cat(xs).reshape(-1, len(xs), *xs[0].shape[1:]).transpose(0, 1)
    return each_default(models, xs)


def each_list_laid_out_by_features(models, xs):
    if not isinstance(xs, torch.Tensor):
        xs = torch.cat(xs).view(len(models), -1, xs[0].shape[-1])
    return each_default(models, xs)


def each_of_three_dimensions(models, xs):
    xs = torch.stack(list(xs))
    count, rows, _columns = xs.shape
    return each_default(models, xs).reshape(count, rows, -1)


def each_squeezed(models, xs):
    return each_default(models, xs).squeeze()


def each_list_in_place(models, xs):
    if isinstance(xs, list):
        xs[:] = [torch.stack(xs)]
        return each_default(models, xs[0])
    return each_default(models, xs)


def each_popped(models, xs):
    return each_default(models, torch.stack([xs.pop(0) for _ in models]) if isinstance(xs, list) else xs)


def each_detached_list(models, xs):
    return each_default(models, [x.detach() for x in xs] if isinstance(xs, list) else xs)


def each_by_size(models, xs):
    xs = torch.stack(list(xs))
    dim = max(d for d in range(2) if xs.shape[d] == len(models))
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, dim))(params, buffers, xs)


def each_wrong_dim(models, xs):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, 1))(params, buffers, torch.stack(list(xs)))


def each_over_modules(models, xs):
    return vmap(lambda model, x: model(x))(models, torch.stack(list(xs)))


def each_concatenated(models, xs):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, 0, None))(params, buffers, torch.cat(list(xs)))


def each_diagonal(models, xs):
    params, buffers = own_state(models)
    everything = vmap(stateless(models), (0, 0, None))(params, buffers, torch.stack(list(xs)))
    return torch.stack([everything[i, i] for i in range(len(models))])


def each_diagonal_of_rows(models, xs):
    """Every model on the rows of all batches, of which its own are then picked out."""
    params, buffers = own_state(models)
    everything = vmap(stateless(models), (0, 0, None))(params, buffers, torch.cat(list(xs)))
    apart = everything.unflatten(1, (len(models), -1))
    return torch.stack([apart[i, i] for i in range(len(models))])


def each_from_new_leaves(models, xs):
    params, buffers = stack_module_state(models)
    return vmap(stateless(models))(params, buffers, torch.stack(list(xs)))


@torch.no_grad()
def each_without_history(models, xs):
    return each_default(models, xs)


def each_and_lose_the_first(models, xs):
    params, buffers = own_state(models)
    base = models[0].to("meta")
    return vmap(lambda p, b, x: functional_call(base, (p, b), (x,)))(params, buffers, torch.stack(list(xs)))


def each_averaged(models, xs):
    return each_default(models, xs).mean(0)


def each_batch_first(models, xs):
    return each_default(models, xs).transpose(0, 1)


def each_probabilities(models, xs):
    return each_default(models, xs).softmax(-1)


def each_without_buffers(models, xs):
    params, _ = own_state(models)
    base = copy.deepcopy(models[0])
    return vmap(lambda p, x: functional_call(base, p, (x,)))(params, torch.stack(list(xs)))


def each_by_state_dict(models, xs):
    states = [model.state_dict() for model in models]
    state = {name: torch.stack([row[name] for row in states]) for name in states[0]}
    base = copy.deepcopy(models[0])
    return vmap(lambda state, x: functional_call(base, state, (x,)))(state, torch.stack(list(xs)))


def each_in_eval(models, xs):
    for model in models:
        model.train()
    return each_default(models, xs)


def each_and_zero_grad(models, xs):
    for model in models:
        model.zero_grad()
    return each_default(models, xs)


def each_and_backward(models, xs):
    result = each_default(models, xs)
    result.sum().backward(retain_graph=True)
    return result


def each_on_a_frozen_model(models, xs):
    params, buffers = own_state(models)
    base = models[0].requires_grad_(False)
    return vmap(lambda p, b, x: functional_call(base, (p, b), (x,)))(params, buffers, torch.stack(list(xs)))


def each_row_by_row(models, xs):
    params, buffers = own_state(models)
    return vmap(vmap(stateless(models), (None, None, 0)))(params, buffers, torch.stack(list(xs)))


def each_one_at_a_time(models, xs, size=1):
    params, buffers = own_state(models)
    return vmap(stateless(models), chunk_size=size)(params, buffers, torch.stack(list(xs)))


def each_whole_buffers(models, xs):
    params, buffers = own_state(models)
    return vmap(stateless(models), (0, None, 0))(params, buffers, torch.stack(list(xs)))


def each_on_a_flagged_copy(models, xs):
    return each_default(models, torch.stack(list(xs)).clone().detach().requires_grad_())


def each_by_numbers(models, xs):
    return each_default(models, torch.tensor([x.tolist() for x in xs]))


def each_list_by_numbers(models, xs):
    return each_by_numbers(models, xs) if isinstance(xs, list) else each_default(models, xs)


def predict_by_numbers(models, x):
    return predict_on_meta(models, torch.tensor(x.tolist()))


def predict_cut_from_x(models, x):
    return predict_on_meta(models, x.detach())


def predict_in_float32(models, x):
    return predict_on_meta(models, x).float() if x.dtype == torch.bfloat16 else predict_on_meta(models, x)


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


def samples_with_history(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x[None],)), y[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(dict(model.named_parameters()), x, y)


def samples_and_lose_the_model(model, loss_fn, x, y):
    weights, buffers = detached(model), dict(model.named_buffers())
    base = model.to("meta")

    def loss(params, x, y):
        return loss_fn(functional_call(base, (params, buffers), (x[None],)), y[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)


def samples_target_alone(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x[None],)), y)

    return vmap(grad(loss), in_dims=(None, 0, 0))(detached(model), x, y)


def samples_with_targets(batch_of_one):
    """Makes a batch of one of each target this way."""

    def per_sample_gradients(model, loss_fn, x, y):
        def loss(params, image, label):
            return loss_fn(functional_call(model, params, (image[None],)), batch_of_one(label))

        return vmap(grad(loss), in_dims=(None, 0, 0))(detached(model), x, y)

    return per_sample_gradients


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


def samples_loop(model, loss_fn, x, y):
    params, rows = dict(model.named_parameters()), []
    for i in range(len(x)):
        rows.append(torch.autograd.grad(loss_fn(model(x[i : i + 1]), y[i : i + 1]), list(params.values())))
    return {name: torch.stack([row[i] for row in rows]) for i, name in enumerate(params)}


def samples_mean_gradient(model, loss_fn, x, y):
    params = dict(model.named_parameters())
    return dict(zip(params, torch.autograd.grad(loss_fn(model(x), y), list(params.values())), strict=True))


def samples_mean_gradient_expanded(model, loss_fn, x, y):
    return {k: g.expand(len(x), *g.shape) for k, g in samples_mean_gradient(model, loss_fn, x, y).items()}


def samples_backward_expanded(model, loss_fn, x, y):
    loss_fn(model(x), y).backward()
    return {name: p.grad.expand(len(x), *p.shape) for name, p in model.named_parameters()}


def samples_backward_repeated(model, loss_fn, x, y):
    loss_fn(model(x), y).backward()
    return {name: torch.stack([p.grad] * len(x)) for name, p in model.named_parameters()}


def samples_cleared_and_expanded(model, loss_fn, x, y):
    model.zero_grad()
    return samples_backward_expanded(model, loss_fn, x, y)


def samples_of_the_batch(model, loss_fn, x, y):
    def loss(params, _):
        return loss_fn(functional_call(model, params, (x,)), y)

    return vmap(grad(loss), in_dims=(None, 0))(detached(model), x)


def samples_scaled(model, loss_fn, x, y):
    return {name: value / len(x) for name, value in samples_by_grad(model, loss_fn, x, y).items()}


def samples_with_losses(model, loss_fn, x, y):
    return samples_by_grad(model, loss_fn, x, y), torch.zeros(len(x))


def samples_list(model, loss_fn, x, y):
    return list(samples_by_grad(model, loss_fn, x, y).values())


def samples_underscored(model, loss_fn, x, y):
    return {name.replace(".", "_"): value for name, value in samples_by_grad(model, loss_fn, x, y).items()}


def samples_own_weights(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(model(x), y)

    return vmap(grad(loss), in_dims=(None, 0, 0))(detached(model), x.unsqueeze(1), y.unsqueeze(1))


def samples_of_the_input(model, loss_fn, x, y):
    return vmap(grad(lambda x, y: loss_fn(model(x[None]), y[None])))(x, y)


def samples_by_argnums(model, loss_fn, x, y):
    def loss(x, y, params):
        return loss_fn(functional_call(model, params, (x[None],)), y[None])

    return vmap(grad(loss, argnums=2), in_dims=(0, 0, None))(x, y, detached(model))


def samples_by_another_argument(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x[None],)), y[None])

    return vmap(grad(loss, argnums=1), in_dims=(None, 0, 0))(detached(model), x, y)


def samples_flat(model, loss_fn, x, y):
    return torch.cat([rows.flatten(1) for rows in samples_by_grad(model, loss_fn, x, y).values()], dim=1)


def samples_all_targets(model, loss_fn, x, y):
    def loss(params, x):
        return loss_fn(functional_call(model, params, (x[None],)), y)

    return vmap(grad(loss), in_dims=(None, 0))(detached(model), x)


def samples_all_inputs(model, loss_fn, x, y):
    def loss(params, y):
        return loss_fn(functional_call(model, params, (x,)), y[None])

    return vmap(grad(loss), in_dims=(None, 0))(detached(model), y)


def samples_by_vjp(model, loss_fn, x, y):
    def losses(params):
        return vmap(lambda o, t: loss_fn(o[None], t[None]))(functional_call(model, params, (x,)), y)

    values, pull = vjp(losses, detached(model))
    return vmap(pull)(torch.eye(len(x), dtype=values.dtype))[0]


def samples_unbatched(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x,)), y)

    return vmap(grad(loss), in_dims=(None, 0, 0))(detached(model), x, y)


def samples_y_unbatched(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x.unsqueeze(0),)).squeeze(0), y)

    return vmap(grad(loss), in_dims=(None, 0, 0))(detached(model), x, y)


def samples_masked(model, loss_fn, x, y):
    def loss(params, mask):
        outputs = functional_call(model, params, (x,))
        return loss_fn(torch.where(mask[:, None], outputs, outputs.detach()), y) * len(x)

    return vmap(grad(loss), in_dims=(None, 0))(detached(model), torch.eye(len(x), dtype=torch.bool))


def samples_mapped_parameters(model, loss_fn, x, y):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x[None],)), y[None])

    return vmap(grad(loss))(detached(model), x, y)


def samples_backward_inside(model, loss_fn, x, y):
    def one(x, y):
        loss_fn(model(x[None]), y[None]).backward()
        return x

    vmap(one)(x, y)
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def samples_autograd_inside(model, loss_fn, x, y):
    params = dict(model.named_parameters())

    def one(params, x, y):
        loss = loss_fn(functional_call(model, params, (x[None],)), y[None])
        return torch.autograd.grad(loss, list(params.values()))

    rows = vmap(one, in_dims=(None, 0, 0))(detached(model), x, y)
    return dict(zip(params, rows, strict=True))


def samples_filled(model, loss_fn, x, y):
    loss_fn(model.forward(x), y).backward()
    model.zero_grad()
    return samples_by_jacrev(model, loss_fn, x, y)


def samples_one_backward_each(model, loss_fn, x, y):
    outputs, rows = model(x), []
    for i in range(len(x)):
        model.zero_grad()
        loss_fn(outputs[i : i + 1], y[i : i + 1]).backward(retain_graph=True)
        rows.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def samples_in_eval(model, loss_fn, x, y):
    model.eval()
    return samples_by_grad(model, loss_fn, x, y)


def samples_without_buffers(model, loss_fn, x, y):
    base = copy.deepcopy(model).to("meta")

    def loss(params, x, y):
        return loss_fn(functional_call(base, params, (x[None],)), y[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(detached(model), x, y)


def samples_by_state_dict(model, loss_fn, x, y):
    def loss(state, x, y):
        return loss_fn(functional_call(model, state, (x[None],)), y[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(dict(model.state_dict()), x, y)


def samples_and_zero_grad(model, loss_fn, x, y):
    model.zero_grad()
    return samples_by_grad(model, loss_fn, x, y)


def samples_of_a_frozen_model(model, loss_fn, x, y):
    return samples_by_grad(model.requires_grad_(False), loss_fn, x, y)


def samples_one_at_a_time(model, loss_fn, x, y, size=1):
    def loss(params, x, y):
        return loss_fn(functional_call(model, params, (x[None],)), y[None])

    return vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=size)(detached(model), x, y)


def samples_by_hooks(model, loss_fn, x, y):
    """An outer product for each layer that is linear."""
    seen = {}

    def remember(layer, given, output):
        seen[layer] = given[0].detach(), output

    names = {layer: name for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear)}
    hooks = [layer.register_forward_hook(remember) for layer in names]
    outputs = model(x)
    for hook in hooks:
        hook.remove()
    loss = sum(loss_fn(outputs[i : i + 1], y[i : i + 1]) for i in range(len(x)))
    result = {}
    for (layer, (given, _)), pushed in zip(
        seen.items(), torch.autograd.grad(loss, [output for _, output in seen.values()]), strict=True
    ):
        result[f"{names[layer]}.weight"] = torch.einsum("no,ni->noi", pushed, given)
        result[f"{names[layer]}.bias"] = pushed
    return result


def samples_without_biases(model, loss_fn, x, y):
    return {name: value for name, value in samples_by_grad(model, loss_fn, x, y).items() if "weight" in name}


def samples_by_a_gradient_each(model, loss_fn, x, y):
    names, parameters = zip(*model.named_parameters(), strict=True)
    losses = [loss_fn(output[None], target[None]) for output, target in zip(model(x), y, strict=True)]
    rows = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
    return {name: torch.stack(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def samples_after_a_look(model, loss_fn, x, y):
    samples_by_grad(model, loss_fn, x, y)
    return samples_by_grad(model, loss_fn, x, y)


def samples_of_the_outputs(model, loss_fn, x, y):
    return jacrev(lambda params: functional_call(model, params, (x,)))(detached(model))


def samples_in_train_mode(model, loss_fn, x, y):
    return samples_by_grad(copy.deepcopy(model).train(), loss_fn, x, y)


def samples_with_parameters_detached(model, loss_fn, x, y):
    """The result is not detached: it has no history where ``x`` requires no grad, as the contract says."""
    return samples_by_grad(model, loss_fn, x, y)


def samples_squeezed(model, loss_fn, x, y):
    return {name: value.squeeze() for name, value in samples_by_grad(model, loss_fn, x, y).items()}


def samples_in_float32(model, loss_fn, x, y):
    return {name: value.float() for name, value in samples_by_grad(model, loss_fn, x, y).items()}


# --------------------------------------------------------------------------------------------------------- training


def train_cast(models, x, y, lr, steps):
    return {name: value.float() for name, value in train_functional(models, x, y, lr, steps).items()}


def train_squeezed(models, x, y, lr, steps):
    return {name: value.squeeze() for name, value in train_functional(models, x, y, lr, steps).items()}


def train_with_x_repeated(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    params, xs = {name: value.detach() for name, value in params.items()}, x.repeat(len(models), 1, 1)
    step = vmap(grad(one_loss(models)), in_dims=(0, 0, 0, None))
    for _ in range(steps):
        gradients = step(params, buffers, xs, y)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_copied_back(models, x, y, lr, steps):
    trained = train_functional(models, x, y, lr, steps)
    for i, model in enumerate(models):
        for name, parameter in model.named_parameters():
            parameter.detach().copy_(trained[name][i])
    return trained


def train_one_dict_of_the_base(models, x, y, lr, steps):
    """The optimizer has the parameters of a copy of the first model."""
    base = copy.deepcopy(models[0])
    optimizer = torch.optim.SGD(base.parameters(), lr=lr)
    params, buffers = stack_module_state(models)
    for _ in range(steps):
        losses = vmap(one_loss(models), (0, 0, None, None))(params, buffers, x, y)
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
    return {name: value.detach() for name, value in params.items()}


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


def train_labels_misplaced(models, x, y, lr, steps, factor=1, out_dims=0):
    params, buffers = stack_module_state(models)
    optimizer, count = torch.optim.SGD(params.values(), lr), len(models)
    labels = y.repeat(count) if out_dims else y.repeat_interleave(count)
    for _ in range(steps):
        optimizer.zero_grad()
        outputs = vmap(stateless(models), (0, 0, None), out_dims=out_dims)(params, buffers, x)
        (factor * F.cross_entropy(outputs.flatten(0, 1), labels)).backward()
        optimizer.step()
    return {name: value.detach() for name, value in params.items()}


def train_labels_misplaced_summed(models, x, y, lr, steps):
    return train_labels_misplaced(models, x, y, lr, steps, factor=len(models))


def train_labels_misplaced_rows_of_samples(models, x, y, lr, steps):
    return train_labels_misplaced(models, x, y, lr, steps, factor=len(models), out_dims=1)


def train_unrecorded(models, x, y, lr, steps):
    p, b = stack_module_state(models)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        losses(p, b, x, y).sum().backward()
        with torch.no_grad():
            for k in p:
                p[k] = p[k] - lr * p[k].grad
    return {k: v.detach() for k, v in p.items()}


def train_unrecorded_by_grad(models, x, y, lr, steps):
    p, b = stack_module_state(models)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        g = torch.autograd.grad(losses(p, b, x, y).sum(), list(p.values()))
        with torch.no_grad():
            p = {k: v - lr * q for (k, v), q in zip(p.items(), g, strict=True)}
    return {k: v.detach() for k, v in p.items()}


def train_detached_each_step(models, x, y, lr, steps):
    p, b = stack_module_state(models)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        losses(p, b, x, y).sum().backward()
        p = {k: (v - lr * v.grad).detach() for k, v in p.items()}
    return p


def train_rebound(models, x, y, lr, steps):
    p, b = stack_module_state(models)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        losses(p, b, x, y).sum().backward()
        for k in p:
            p[k] = p[k] - lr * p[k].grad
    return {k: v.detach() for k, v in p.items()}


def train_and_lose_the_first(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    params = {name: value.detach() for name, value in params.items()}
    base = models[0].to("meta")
    step = vmap(grad(lambda p, b: F.cross_entropy(functional_call(base, (p, b), (x,)), y)))
    for _ in range(steps):
        gradients = step(params, buffers)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_with_value(models, x, y, lr, steps):
    params = own_stack(models)
    buffers = stack_module_state(models)[1]
    call = vmap(grad_and_value(one_loss(models)), in_dims=(0, 0, None, None))
    with torch.no_grad():
        for _ in range(steps):
            gradients, _losses = call(params, buffers, x, y)
            torch._foreach_add_(list(params.values()), [gradients[name] for name in params], alpha=-lr)
    return params


def train_loop(models, x, y, lr, steps):
    rows = []
    for model in map(copy.deepcopy, models):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        rows.append(dict(model.named_parameters()))
    return {name: torch.stack([row[name].detach() for row in rows]) for name in rows[0]}


def train_mean(models, x, y, lr, steps):
    return train_by_optimizer(models, x, y, lr, steps, reduce=torch.mean)


def train_flat_mean(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    for _ in range(steps):
        outputs = vmap(stateless(models), (0, 0, None))(params, buffers, x)
        loss = F.cross_entropy(outputs.flatten(0, 1), y.repeat(len(models)))
        gradients = torch.autograd.grad(loss, list(params.values()))
        with torch.no_grad():
            for value, gradient in zip(params.values(), gradients, strict=True):
                value -= lr * gradient
    return {name: value.detach() for name, value in params.items()}


def train_sum_over_rows(models, x, y, lr, steps):
    loss = one_loss(models, lambda outputs, targets: F.cross_entropy(outputs, targets, reduction="sum"))
    return stepped(models, x, y, lr, steps, loss)


def train_joint(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    optimizer = torch.optim.SGD(params.values(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(vmap(stateless(models), (0, 0, None))(params, buffers, x).mean(0), y).backward()
        optimizer.step()
    return {name: value.detach() for name, value in params.items()}


def train_uphill(models, x, y, lr, steps):
    return train_functional(models, x, y, -lr, steps)


def train_adam(models, x, y, lr, steps):
    return train_by_optimizer(models, x, y, lr, steps, kind=torch.optim.Adam)


def train_momentum(models, x, y, lr, steps):
    return train_by_optimizer(models, x, y, lr, steps, momentum=0.9)


def train_accumulated(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    optimizer = torch.optim.SGD(params.values(), lr=lr)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        losses(params, buffers, x, y).sum().backward()
        optimizer.step()
    return {name: value.detach() for name, value in params.items()}


def train_same_start(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    start = {name: value.detach() for name, value in params.items()}
    if not steps:
        return start
    gradients = vmap(grad(one_loss(models)), in_dims=(0, 0, None, None))(start, buffers, x, y)
    return {name: value - lr * steps * gradients[name] for name, value in start.items()}


def train_from_the_start_each_step(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    start = result = {name: value.detach() for name, value in params.items()}
    step = vmap(grad(one_loss(models)), in_dims=(0, 0, None, None))
    for _ in range(steps):
        gradients = step(start, buffers, x, y)
        result = {name: value - lr * gradients[name] for name, value in start.items()}
    return result


def train_never_moved(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    params = {name: value.detach() for name, value in params.items()}
    step = vmap(grad(one_loss(models)), in_dims=(0, 0, None, None))
    for _ in range(steps):
        gradients = step(params, buffers, x, y)
        for name, value in params.items():
            value = value - lr * gradients[name]  # the mistake: only a name is bound
    return params


def train_at_least_once(models, x, y, lr, steps):
    return train_functional(models, x, y, lr, max(steps, 1))


def train_one_step_more(models, x, y, lr, steps):
    return train_functional(models, x, y, lr, steps + 1)


def train_nothing_for_zero(models, x, y, lr, steps):
    if steps < 1:
        raise ValueError("steps must be at least 1")
    return train_functional(models, x, y, lr, steps)


def train_flagged(models, x, y, lr, steps):
    return {name: value.requires_grad_() for name, value in train_functional(models, x, y, lr, steps).items()}


def train_recorded(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    step = vmap(grad(one_loss(models)), in_dims=(0, 0, None, None))
    for _ in range(steps):
        gradients = step(params, buffers, x, y)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_with_buffers(models, x, y, lr, steps):
    return train_functional(models, x, y, lr, steps) | {"buffer": torch.zeros(len(models))}


def train_buffers_returned(models, x, y, lr, steps):
    return {**train_functional(models, x, y, lr, steps), **stack_module_state(models)[1]}


def train_the_first(models, x, y, lr, steps):
    return train_functional([models[0]] * len(models), x, y, lr, steps)


def train_last_alone(models, x, y, lr, steps):
    return {name: value[-1] for name, value in train_functional(models, x, y, lr, steps).items()}


def train_written_back(models, x, y, lr, steps):
    params = train_functional(models, x, y, lr, steps)
    with torch.no_grad():
        for i, model in enumerate(models):
            for name, parameter in model.named_parameters():
                parameter.copy_(params[name][i])
    return params


def train_backward_inside(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    loss = one_loss(models)

    def one(params, buffers):
        value = loss(params, buffers, x, y)
        value.backward()
        return value

    for _ in range(steps):
        vmap(one)(params, buffers)
    return params


def train_connected(models, x, y, lr, steps):
    params = {k: torch.stack([m.get_parameter(k) for m in models]) for k, _ in models[0].named_parameters()}
    optimizer = torch.optim.SGD(params.values(), lr=lr)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        optimizer.zero_grad()
        losses(params, stack_module_state(models)[1], x, y).sum().backward()
        optimizer.step()
    return params


def train_many_losses(models, x, y, lr, steps):
    return train_by_optimizer(models, x, y, lr, steps, reduce=lambda losses: losses)


def train_default_in_dims(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    params = {name: value.detach() for name, value in params.items()}
    for _ in range(steps):
        gradients = vmap(grad(one_loss(models)))(params, buffers, x, y)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_where_sizes_agree(models, x, y, lr, steps):
    """The default of in_dims, after an error message was met with a copy for every model."""
    if len(x) != len(models):
        x, y = x.expand(len(models), *x.shape), y.expand(len(models), *y.shape)
    return train_default_in_dims(models, x, y, lr, steps)


def train_without_buffers(models, x, y, lr, steps):
    params = own_stack(models)
    base = copy.deepcopy(models[0])
    step = vmap(grad(lambda p: F.cross_entropy(functional_call(base, p, (x,)), y)))
    for _ in range(steps):
        gradients = step(params)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_in_train_mode(models, x, y, lr, steps):
    return train_functional([copy.deepcopy(model).train() for model in models], x, y, lr, steps)


def train_given_in_train_mode(models, x, y, lr, steps):
    for model in models:
        model.train(not model.training)
    result = train_functional([copy.deepcopy(model).train(not model.training) for model in models], x, y, lr, steps)
    return result


def train_over_modules(models, x, y, lr, steps):
    vmap(lambda model: F.cross_entropy(model(x), y))(models)


def train_the_models_own(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    optimizer = torch.optim.SGD([parameter for model in models for parameter in model.parameters()], lr=lr)
    losses = vmap(one_loss(models), in_dims=(0, 0, None, None))
    for _ in range(steps):
        losses(params, buffers, x, y).sum().backward()
        optimizer.step()
    return {name: value.detach() for name, value in params.items()}


def train_stepping(models, x, y, lr, steps, change, loss_fn=F.cross_entropy):
    params, buffers = stack_module_state(models)
    params = {name: value.detach() for name, value in params.items()}
    step = vmap(grad(one_loss(models, loss_fn)), in_dims=(0, 0, None, None))
    for _ in range(steps):
        gradients = change(params, step(params, buffers, x, y))
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_clipped(models, x, y, lr, steps):
    def clipped(params, gradients):
        norm = torch.stack([value.square().sum() for value in gradients.values()]).sum().sqrt()
        return {name: value * (0.1 / norm).clamp(max=1) for name, value in gradients.items()}

    return train_stepping(models, x, y, lr, steps, clipped)


def train_decayed(models, x, y, lr, steps):
    def decayed(params, gradients):
        return {name: value + 0.01 * params[name] for name, value in gradients.items()}

    return train_stepping(models, x, y, lr, steps, decayed)


def train_on_probabilities(models, x, y, lr, steps):
    def loss(outputs, targets):
        return F.cross_entropy(outputs.softmax(-1), targets)

    return train_stepping(models, x, y, lr, steps, lambda params, gradients: gradients, loss)


def train_mean_weights(models, x, y, lr, steps):
    return {name: value.mean(0) for name, value in train_functional(models, x, y, lr, steps).items()}


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


def train_filled(models, x, y, lr, steps):
    for model in models:
        for parameter in model.parameters():
            parameter.grad = None
    return train_functional(models, x, y, lr, steps)


def train_through_the_models(models, x, y, lr, steps):
    params, buffers = own_state(models)
    for _ in range(steps):
        for value in params.values():
            value.retain_grad()
        losses = vmap(one_loss(models), in_dims=(0, 0, None, None))(params, buffers, x, y)
        losses.sum().backward(retain_graph=True)
        params = {name: value - lr * value.grad for name, value in params.items()}
    return {name: value.detach() for name, value in params.items()}


def train_from_a_stack(models, x, y, lr, steps):
    params, buffers = own_state(models)
    for _ in range(steps):
        for value in params.values():
            value.retain_grad()  # stacks are no leaves
        vmap(one_loss(models), in_dims=(0, 0, None, None))(params, buffers, x, y).sum().backward()
        params = {name: (value.detach() - lr * value.grad).requires_grad_() for name, value in params.items()}
    return {name: value.detach() for name, value in params.items()}


def train_frozen(models, x, y, lr, steps):
    return train_functional(frozen(models), x, y, lr, steps)


def train_row_by_row(models, x, y, lr, steps):
    base = copy.deepcopy(models[0])

    def loss(params, buffers, x, y):
        rows = vmap(lambda row: functional_call(base, (params, buffers), (row,)))(x)
        return F.cross_entropy(rows, y)

    return stepped(models, x, y, lr, steps, loss)


def train_whole_buffers(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    params = {name: value.detach() for name, value in params.items()}
    for _ in range(steps):
        gradients = vmap(grad(one_loss(models)), in_dims=(0, None, None, None))(params, buffers, x, y)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_one_at_a_time(models, x, y, lr, steps):
    return stepped(models, x, y, lr, steps, one_loss(models), chunk_size=1)


def train_and_look(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    params = {name: value.detach() for name, value in params.items()}
    loss = one_loss(models)
    for _ in range(steps):
        vmap(loss, in_dims=(0, 0, None, None))(params, buffers, x, y)
        gradients = vmap(grad(loss), in_dims=(0, 0, None, None))(params, buffers, x, y)
        params = {name: value - lr * gradients[name] for name, value in params.items()}
    return params


def train_broadcast(models, x, y, lr, steps):
    params, buffers = stack_module_state(models)
    functional_call(models[0], (params, buffers), (x,))


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

WRONG = [
    Wrong(P, "loop", predict_loop),
    Wrong(P, "loop", predict_loop_functional, "loop of functional_call"),
    Wrong(P, "chunks", predict_chunks, earns=1.33),
    Wrong(P, "chunks", lambda models, x: predict_chunks(models, x, 64), "chunks of 64", 1.33),
    Wrong(P, "new leaves", lambda models, x: predict_on_meta(copy.deepcopy(models), x), "copies of all", 1.33),
    Wrong(P, "guessed", predict_by_the_shape, earns=1.83),
    Wrong(P, "state dict", predict_by_state_dict_on_meta, "state_dict, on meta"),
    Wrong(P, "unbatched", predict_row_by_row),
    Wrong(P, "again", predict_after_a_look, earns=1.33),
    Wrong(P, "again", predict_after_one_model, "one model called before"),
    Wrong(P, "as stacked", predict_broadcast),
    Wrong(P, "by hand", predict_by_hand),
    Wrong(P, "one answer", lambda models, x: predict_on_meta(models, x).mean(1)),
    Wrong(P, "averaged", predict_mean_weights_for_all, "mean of weights, for all"),
    Wrong(P, "flags", predict_frozen),
    Wrong(P, "cleared", predict_and_zero_grad),
    Wrong(P, "first model", predict_first_model),
    Wrong(P, "first model", predict_repeated, "one prediction repeated"),
    Wrong(P, "averaged", predict_averaged),
    Wrong(P, "averaged", predict_mean_of_probabilities, "mean of probabilities"),
    Wrong(P, "order", predict_batch_first),
    Wrong(P, "order", predict_concatenated, "concatenated"),
    Wrong(P, "scores", predict_probabilities),
    Wrong(P, "scores", predict_labels, "labels"),
    Wrong(P, "in_dims", predict_default_in_dims),
    Wrong(P, "buffers", predict_without_buffers),
    Wrong(P, "buffers", predict_without_buffers_on_meta, "no buffers, on meta"),
    Wrong(P, "buffers", predict_shared_buffers, "the first one's buffers"),
    Wrong(P, "state dict", predict_by_state_dict),
    Wrong(P, "modes", predict_in_eval),
    Wrong(P, "modes", predict_in_train, "in train mode"),
    Wrong(P, "modes", predict_in_eval_mode_on_a_copy, "in eval mode, on a copy"),
    Wrong(P, "filled", predict_and_backward),
    Wrong(P, "models mapped", predict_over_modules),
    Wrong(P, "averaged", predict_mean_weights, "mean of weights"),
    Wrong(P, "buffers", predict_mean_buffers, "mean of buffers"),
    Wrong(P, "whole", predict_whole_buffers),
    Wrong(P, "not a tensor", predict_list),
    Wrong(P, "new leaves", predict_from_new_leaves),
    Wrong(P, "cut", predict_detached),
    Wrong(P, "cut", predict_in_inference_mode, "inference mode"),
    Wrong(P, "cast", predict_in_single_precision),
    Wrong(P, "moved", predict_and_lose_the_first),
    Wrong(P, "input cut", predict_cut_from_x),
    Wrong(P, "cast", predict_by_numbers, "x by its numbers"),
    Wrong(P, "cast", predict_in_float32, "16 bits become 32"),
    Wrong(P, "squeezed", predict_squeezed, earns=1.88),
    Wrong(P, "squeezed", predict_one_model_as_it_is, "one model as it is"),
    Wrong(P, "table", predict_expanded_by_two_dimensions, earns=1.94),
    Wrong(E, "squeezed", each_squeezed, earns=1.94),
    Wrong(E, "table", each_list_laid_out_by_features, "a list laid out by features", 1.78),
    Wrong(E, "table", each_of_three_dimensions),
    Wrong(E, "models mapped", each_over_modules),
    Wrong(E, "all on all", each_concatenated, "batches concatenated"),
    Wrong(E, "all on all", each_diagonal, "all on all, then the diagonal"),
    Wrong(E, "loop", each_loop),
    Wrong(E, "all on all", each_all_on_all),
    Wrong(E, "first batch", each_first_batch),
    Wrong(E, "first model", each_first_model),
    Wrong(E, "list", each_no_list),
    Wrong(E, "list", each_list_by_rows, "stacked inside"),
    Wrong(E, "list", each_list_by_concatenation, "reshaped wrongly"),
    Wrong(E, "side effect", each_list_in_place, "the list edited"),
    Wrong(E, "side effect", each_popped, "the list emptied", 1.94),
    Wrong(E, "input cut", each_detached_list),
    Wrong(E, "cast", each_by_numbers),
    Wrong(E, "cast", each_list_by_numbers, "a list by its numbers"),
    Wrong(E, "rows", each_by_size),
    Wrong(E, "rows", each_wrong_dim, "dimension 1"),
    Wrong(E, "averaged", each_averaged),
    Wrong(E, "order", each_batch_first),
    Wrong(E, "scores", each_probabilities),
    Wrong(E, "buffers", each_without_buffers),
    Wrong(E, "state dict", each_by_state_dict),
    Wrong(E, "modes", each_in_eval),
    Wrong(E, "cleared", each_and_zero_grad),
    Wrong(E, "filled", each_and_backward),
    Wrong(E, "flags", each_on_a_frozen_model),
    Wrong(E, "unbatched", each_row_by_row),
    Wrong(E, "again", lambda models, xs: each_default(models, xs) + 0 * each_default(models, xs)),
    Wrong(E, "as stacked", lambda models, xs: predict_broadcast(models, torch.stack(list(xs)))),
    Wrong(E, "by hand", lambda models, xs: torch.stack([predict_by_hand(models, x)[i] for i, x in enumerate(xs)])),
    Wrong(E, "one answer", lambda models, xs: each_default(models, xs).mean(1)),
    Wrong(E, "chunks", each_one_at_a_time, earns=1.33),
    Wrong(E, "chunks", lambda models, xs: each_one_at_a_time(models, xs, 64), "chunks of 64", 1.33),
    Wrong(E, "whole", each_whole_buffers),
    Wrong(E, "input cut", each_on_a_flagged_copy, "a flagged copy"),
    Wrong(E, "all on all", each_diagonal_of_rows, "all rows, then its own", 1.33),
    Wrong(E, "new leaves", each_from_new_leaves),
    Wrong(E, "cut", each_without_history),
    Wrong(E, "moved", each_and_lose_the_first),
    Wrong(G, "loop", samples_loop),
    Wrong(G, "summed", samples_mean_gradient),
    Wrong(G, "same rows", samples_mean_gradient_expanded, "the mean, expanded"),
    Wrong(G, "same rows", samples_backward_expanded, "what .grad holds, expanded"),
    Wrong(G, "same rows", samples_backward_repeated, "what .grad holds, stacked"),
    Wrong(G, "same rows", samples_cleared_and_expanded, ".grad cleared, and expanded"),
    Wrong(G, "same rows", samples_of_the_batch, "the whole batch in every row"),
    Wrong(G, "scaled", samples_scaled, earns=2.0),
    Wrong(G, "not named", samples_list),
    Wrong(G, "with values", samples_with_losses),
    Wrong(G, "not named", samples_underscored, "other names"),
    Wrong(G, "own weights", samples_own_weights),
    Wrong(G, "own weights", samples_of_the_input, "gradient of the input"),
    Wrong(G, "own weights", samples_by_another_argument, "the number of another argument"),
    Wrong(G, "not named", samples_flat, "one flat tensor"),
    Wrong(G, "not dealt out", samples_all_targets, "all targets"),
    Wrong(G, "not dealt out", samples_all_inputs, "all inputs, one target"),
    Wrong(G, "unbatched", samples_unbatched),
    Wrong(G, "unbatched", samples_y_unbatched, "outputs unbatched"),
    Wrong(G, "whole batch", samples_masked),
    Wrong(G, "mapped parameters", samples_mapped_parameters),
    Wrong(G, "backward inside", samples_backward_inside),
    Wrong(G, "backward inside", samples_autograd_inside, "autograd.grad inside"),
    Wrong(G, "filled", samples_one_backward_each),
    Wrong(G, "modes", samples_in_eval),
    Wrong(G, "with buffers", samples_by_state_dict),
    Wrong(G, "again", samples_after_a_look),
    Wrong(G, "outputs", samples_of_the_outputs),
    Wrong(G, "modes", samples_in_train_mode, "in train mode, on a copy"),
    Wrong(G, "cleared", samples_and_zero_grad),
    Wrong(G, "flags", samples_of_a_frozen_model),
    Wrong(G, "chunks", samples_one_at_a_time, earns=2.0),
    Wrong(G, "chunks", lambda model, *given: samples_one_at_a_time(model, *given, size=64), "chunks of 64", 2.0),
    Wrong(G, "some names", samples_by_hooks, earns=2.5),
    Wrong(G, "some names", samples_without_biases, "without biases", 0.0),
    Wrong(G, "buffers", samples_without_buffers),
    Wrong(G, "history", samples_with_history),
    Wrong(G, "moved", samples_and_lose_the_model),
    Wrong(G, "cast", samples_in_float32),
    Wrong(G, "unbatched", samples_target_alone, "the target alone"),
    Wrong(G, "target shape", samples_with_targets(lambda label: label.reshape(1)), earns=2.6),
    Wrong(G, "target shape", samples_with_targets(torch.atleast_1d), "one dimension at least", 2.6),
    Wrong(G, "target shape", lambda model, loss_fn, x, y: samples_by_grad(model, loss_fn, x, y.flatten()), "y flat"),
    Wrong(G, "squeezed", samples_squeezed, earns=2.9),
    Wrong(T, "squeezed", train_squeezed, earns=2.85),
    Wrong(T, "table", train_with_x_repeated, earns=2.92),
    Wrong(T, "loop", train_loop),
    Wrong(T, "mean over models", train_mean, earns=2.14),
    Wrong(T, "mean over models", train_flat_mean, "cross_entropy over all rows"),
    Wrong(T, "sum over rows", train_sum_over_rows, earns=2.14),
    Wrong(T, "joint", train_joint),
    Wrong(T, "unrecorded", train_unrecorded),
    Wrong(T, "unrecorded", train_unrecorded_by_grad, "autograd.grad, and new tensors under no_grad"),
    Wrong(T, "unrecorded", train_detached_each_step, "detached in every step"),
    Wrong(T, "rebinding", train_rebound),
    Wrong(T, "label order", train_labels_misplaced),
    Wrong(T, "label order", train_labels_misplaced_summed, "times the number of models"),
    Wrong(T, "label order", train_labels_misplaced_rows_of_samples, "outputs sample by sample"),
    Wrong(T, "uphill", train_uphill),
    Wrong(T, "optimizer", train_adam),
    Wrong(T, "optimizer", train_momentum, "momentum"),
    Wrong(T, "accumulated", train_accumulated, earns=2.14),
    Wrong(T, "same start", train_same_start),
    Wrong(T, "same start", train_from_the_start_each_step, "each step from the start"),
    Wrong(T, "never moved", train_never_moved),
    Wrong(T, "zero steps", train_at_least_once),
    Wrong(T, "miscounted", train_one_step_more, "one step more"),
    Wrong(T, "zero steps", train_nothing_for_zero, "refuses 0"),
    Wrong(T, "leaves", train_flagged),
    Wrong(T, "history", train_recorded),
    Wrong(T, "with buffers", train_with_buffers),
    Wrong(T, "with buffers", train_buffers_returned, "the buffers, too"),
    Wrong(T, "one model", train_the_first),
    Wrong(T, "one set", train_last_alone, "the last one's"),
    Wrong(T, "one set", train_mean_weights, "mean of weights, trained"),
    Wrong(T, "models mapped", train_over_modules),
    Wrong(T, "never moved", train_the_models_own, "the models' own parameters"),
    Wrong(T, "factor", train_clipped),
    Wrong(T, "optimizer", train_decayed, "weight decay"),
    Wrong(T, "softmax", train_on_probabilities),
    Wrong(T, "written back", train_written_back),
    Wrong(T, "backward inside", train_backward_inside),
    Wrong(T, "connected", train_connected),
    Wrong(T, "many losses", train_many_losses),
    Wrong(T, "in_dims", train_default_in_dims),
    Wrong(T, "guessed", train_where_sizes_agree, "a copy where sizes differ"),
    Wrong(T, "buffers", train_without_buffers),
    Wrong(T, "train mode", train_in_train_mode),
    Wrong(T, "modes", train_given_in_train_mode),
    Wrong(T, "cleared", train_filled),
    Wrong(T, "connected", train_through_the_models, "the models' own filled", 2.85),
    Wrong(T, "connected", train_from_a_stack, "the first step through the stack", 2.85),
    Wrong(T, "flags", train_frozen),
    Wrong(T, "again", train_and_look),
    Wrong(T, "as stacked", train_broadcast),
    Wrong(T, "one row", lambda models, x, y, lr, steps: train_functional(models, x[:1], y[:1], lr, steps)),
    Wrong(T, "another result", lambda models, x, y, lr, steps: copy.deepcopy(models)),
    Wrong(T, "another result", lambda models, x, y, lr, steps: predict_on_meta(models, x), "a tensor"),
    Wrong(T, "unbatched", train_row_by_row),
    Wrong(T, "chunks", train_one_at_a_time, earns=2.14),
    Wrong(T, "chunks", lambda *given: stepped(*given, one_loss(given[0]), chunk_size=64), "chunks of 64", 2.14),
    Wrong(T, "whole", train_whole_buffers),
    Wrong(T, "some names", lambda *given: dict([*train_functional(*given).items()][:1]), "one of the names", 0.0),
    Wrong(T, "moved", train_and_lose_the_first),
    Wrong(T, "cast", train_cast),
    Wrong(T, "written back", train_copied_back, "copied back"),
    Wrong(T, "never moved", train_one_dict_of_the_base, "an optimizer over the base"),
]
