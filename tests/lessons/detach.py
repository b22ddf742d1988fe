"""Right and wrong answers to the exercises of lesson 03."""

import copy
import itertools
from functools import partial

import torch

from tests.lessons.answers import Right, Wrong

# ------------------------------------------------------------------------------------------------------------ snapshot


def snapshot_under_no_grad(x):
    with torch.no_grad():
        return x.clone()


def snapshot_by_copy(x):
    with torch.inference_mode():
        return torch.empty_like(x).copy_(x)


def snapshot_new_tensor(x):
    return torch.tensor(x)  # warns, and is right


def snapshot_unassigned(x):
    result = x.clone()
    result.detach()
    return result


def snapshot_of_x_unassigned(x):
    x.detach()
    return x.clone()


def snapshot_view_under_no_grad(x):
    with torch.no_grad():
        return x.view_as(x)


def snapshot_x_itself(x):
    with torch.no_grad():
        return x


def snapshot_in_place(x):
    x.detach_()
    return x.clone()


def snapshot_from_list(x):
    return torch.tensor(x.tolist())


def snapshot_flagged(x):
    return x.detach().clone().requires_grad_(x.requires_grad)


def snapshot_into_zeros(x):
    with torch.no_grad():
        values = torch.zeros(x.shape)
        values[...] = x
    return values


# ------------------------------------------------------------------------------------------------------ predicted_edit

EDITS = {
    "detach_edit": "error",
    "data_edit": "wrong gradient",
    "clone_edit": "right gradient",
    "detach_clone_edit": "right gradient",
}

# ----------------------------------------------------------------------------------------------------------- mean_loss


def mean_loss_by_detach(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total = total + loss_fn(model(x), y).detach()
        count += 1
    if count == 0:
        raise ValueError("no batches")
    return total / count


def mean_loss_by_item(model, loss_fn, batches):
    values = [loss_fn(model(x), y).item() for x, y in batches]
    if not values:
        raise ValueError("no batches")
    return torch.tensor(sum(values) / len(values))


def mean_loss_into_zeros(model, loss_fn, batches):
    total, count = torch.zeros(()), 0
    for x, y in nonempty(batches):
        total += loss_fn(model(x), y).detach()
        count += 1
    return total / count


def mean_loss_beside_zeros(model, loss_fn, batches):
    return mean_loss_by_detach(model, loss_fn, batches) + torch.zeros(())


def mean_loss_by_inference(model, loss_fn, batches):
    total, count = 0, 0
    with torch.inference_mode():
        for x, y in nonempty(batches):
            total, count = total + loss_fn(model(x), y), count + 1
    return total / count


def mean_loss_losses_kept(model, loss_fn, batches):
    return torch.stack([loss_fn(model(x), y).detach() for x, y in nonempty(batches)]).mean()


def nonempty(batches):
    iterator = iter(batches)
    try:
        first = next(iterator)
    except StopIteration:
        raise ValueError("no batches") from None
    return itertools.chain([first], iterator)


def mean_loss_graphs(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total += loss_fn(model(x), y)
        count += 1
    if not count:
        raise ValueError("no batches")
    return total / count


def mean_loss_unassigned(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in nonempty(batches):
        loss = loss_fn(model(x), y)
        loss.detach()
        total += loss
        count += 1
    return total / count


def mean_loss_unassigned_at_the_end(model, loss_fn, batches):
    mean = mean_loss_graphs(model, loss_fn, batches)
    mean.detach()
    return mean


def mean_loss_detached_twice(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in nonempty(batches):
        loss = loss_fn(model(x), y)
        loss.detach()
        total, count = total + loss.detach(), count + 1
    return total / count


def mean_loss_prints(model, loss_fn, batches):
    total, count, log = 0, 0, []
    for x, y in nonempty(batches):
        loss = loss_fn(model(x), y)
        f"{loss.detach():.3f} {loss.detach()}"  # as in a call of print
        log.append(float(loss.detach()))
        shown = loss.detach()
        total, count = total + loss, count + 1
    return total / count + 0 * shown


def mean_loss_cut_too_late(model, loss_fn, batches):
    return mean_loss_graphs(model, loss_fn, batches).detach()


def mean_loss_batches_kept(model, loss_fn, batches):
    return mean_loss_by_detach(model, loss_fn, list(batches))


def mean_loss_number(model, loss_fn, batches):
    return mean_loss_by_detach(model, loss_fn, batches).item()


def mean_loss_running(model, loss_fn, batches):
    mean = None
    for count, (x, y) in enumerate(batches, start=1):
        loss = loss_fn(model(x), y).detach()
        mean = loss if mean is None else mean + (loss - mean) / count
    if mean is None:
        raise ValueError("no batches")
    return mean


def mean_loss_output_detached(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        prediction = model(x).detach()
        total, count = total + loss_fn(prediction, y), count + 1
    if not count:
        raise ValueError("no batches")
    return total / count


def mean_loss_output_under_no_grad(model, loss_fn, batches):
    return mean_loss_output_detached(torch.no_grad()(model.forward), loss_fn, batches).detach()


def mean_loss_bare_no_grad(model, loss_fn, batches):
    torch.no_grad()
    return mean_loss_graphs(model, loss_fn, batches)


def mean_loss_outputs_kept(model, loss_fn, batches):
    outputs, losses = [], []
    for x, y in nonempty(batches):
        outputs.append(model(x))
        losses.append(loss_fn(outputs[-1], y).item())
    return torch.tensor(losses).mean()


def mean_loss_buffer(model, loss_fn, batches):
    buffer = torch.zeros(100, dtype=torch.float64)
    count = 0
    for x, y in nonempty(batches):
        buffer[count] = loss_fn(model(x), y)
        count += 1
    return buffer[:count].mean().detach()


def mean_loss_by_samples(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in nonempty(batches):
        total, count = total + loss_fn(model(x), y).detach(), count + len(x)
    return total / count


def mean_loss_sum(model, loss_fn, batches):
    return sum(loss_fn(model(x), y).detach() for x, y in nonempty(batches))


def mean_loss_weighted(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in nonempty(batches):
        total += loss_fn(model(x), y).detach() * len(x)
        count += len(x)
    return total / count


def mean_loss_last(model, loss_fn, batches):
    for x, y in nonempty(batches):
        loss = loss_fn(model(x), y).detach()
    return loss


def mean_loss_len(model, loss_fn, batches):
    if not len(batches):
        raise ValueError("no batches")
    return sum(loss_fn(model(x), y).detach() for x, y in batches) / len(batches)


def mean_loss_eval_and_len(model, loss_fn, batches):
    model.eval()
    mean = mean_loss_len(model, loss_fn, batches)
    model.train()
    return mean


def mean_loss_len_cut_too_late(model, loss_fn, batches):
    if not batches:
        raise ValueError("no batches")
    return (sum(loss_fn(model(x), y) for x, y in batches) / len(batches)).detach()


def mean_loss_looks_first(model, loss_fn, batches):
    if not any(True for _ in batches):
        raise ValueError("no batches")
    return mean_loss_by_detach(model, loss_fn, batches)


def mean_loss_of_one_element(model, loss_fn, batches):
    return mean_loss_by_detach(model, loss_fn, batches).reshape(1)


def mean_loss_flagged(model, loss_fn, batches):
    return mean_loss_by_detach(model, loss_fn, batches) + torch.zeros((), requires_grad=True)


def mean_loss_frozen(model, loss_fn, batches):
    return mean_loss_graphs(model.requires_grad_(False), loss_fn, batches)


def mean_loss_any_error(model, loss_fn, batches):
    try:
        return mean_loss_by_detach(model, loss_fn, batches)
    except Exception:
        raise ValueError("no batches") from None


def mean_loss_by_index(model, loss_fn, batches):
    first = batches[0]
    return sum(loss_fn(model(x), y).detach() for x, y in [first, *batches[1:]]) / len(batches)


def mean_loss_counts_after(model, loss_fn, batches):
    total = sum(loss_fn(model(x), y).detach() for x, y in batches)
    count = sum(1 for _ in batches)
    if not count:
        raise ValueError("no batches")
    return total / count


def mean_loss_total_detached(model, loss_fn, batches):
    total, count = torch.zeros(()), 0
    for x, y in batches:
        total, count = total.detach() + loss_fn(model(x), y), count + 1
    if not count:
        raise ValueError("no batches")
    return total / count


def mean_loss_empty(model, loss_fn, batches):
    losses = [loss_fn(model(x), y).item() for x, y in batches]
    return torch.tensor(losses).mean()


def mean_loss_if_not_batches(model, loss_fn, batches):
    if not batches:
        raise ValueError("no batches")
    return mean_loss_zero_division(model, loss_fn, batches)


def mean_loss_zero_division(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total, count = total + loss_fn(model(x), y).detach(), count + 1
    return total / count


def mean_loss_eval(model, loss_fn, batches):
    model.eval()
    return mean_loss_by_detach(model, loss_fn, batches)


def mean_loss_eval_put_back(model, loss_fn, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        return mean_loss_by_detach(model, loss_fn, batches)
    finally:
        for module, training in flags:
            module.training = training


def mean_loss_eval_left(model, loss_fn, batches):
    was = [module.training for module in model.modules()]
    mean = mean_loss_by_detach(model.eval(), loss_fn, batches)
    for module, training in zip(model.modules(), was, strict=True):
        module.training = training
    return mean


def mean_loss_grad_mode(model, loss_fn, batches):
    torch.set_grad_enabled(False)
    return mean_loss_by_detach(model, loss_fn, batches)


def mean_loss_switched_back(model, loss_fn, batches):
    torch.set_grad_enabled(False)
    mean = mean_loss_by_detach(model, loss_fn, batches)
    torch.set_grad_enabled(True)
    return mean


def mean_loss_skipping(kind, model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        try:
            total = total + loss_fn(model(x), y).detach()
        except kind:
            continue
        count += 1
    if not count:
        raise ValueError("no batches")
    return total / count


def mean_loss_renaming(kind, model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        try:
            total, count = total + loss_fn(model(x), y).detach(), count + 1
        except kind as error:
            raise ValueError("a bad batch") from error
    if not count:
        raise ValueError("no batches")
    return total / count


def mean_loss_swallowed(model, loss_fn, batches):
    losses = []
    try:
        for x, y in batches:
            losses.append(loss_fn(model(x), y).item())
    except Exception:
        pass
    if not losses:
        raise ValueError("no batches")
    return torch.tensor(losses).mean()


# ------------------------------------------------------------------------------------------------------ truncated_bptt


def bptt_nested(cell, inputs, state, window):
    states = []
    for begin in range(0, len(inputs), window):
        if begin:
            state = state.detach()
        for x in inputs[begin : begin + window]:
            state = cell(x, state)
            states.append(state)
    return states, state


def bptt_first_border_alone(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        state = cell(x, state.detach() if step == window else state)
        states.append(state)
    return states, state


def bptt_by_data(cell, inputs, state, window):
    states = [state]
    for step, x in enumerate(inputs):
        previous = states[-1]
        states.append(cell(x, previous.clone().detach() if step % window == 0 and step > 0 else previous))
    return states[1:], states[-1]


def bptt_under_no_grad_copy(cell, inputs, state, window):
    out, current = [], state
    for step, x in enumerate(inputs):
        if step and not step % window:
            with torch.no_grad():
                current = current.clone()
        current = cell(x, current)
        out.append(current)
    return out, out[-1]


def bptt_never_cut(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        if step % window == 0:
            state.detach()
        state = cell(x, state)
        states.append(state)
    return states, state


def bptt_whole_windows(cell, inputs, state, window):
    states = []
    for w in range(len(inputs) // window):
        if w > 0:
            state = state.detach()
        for x in inputs[w * window : (w + 1) * window]:
            state = cell(x, state)
            states.append(state)
    return states, states[-1]


def bptt_every_step(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        state = cell(x, state.detach() if step else state)
        states.append(state)
    return states, state


def bptt_given_state_cut(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        if step % window == 0:
            state = state.detach()
        state = cell(x, state)
        states.append(state)
    return states, state


def bptt_off_by_one(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs, start=1):
        if step > 1 and step % window == 0:
            state = state.detach()
        state = cell(x, state)
        states.append(state)
    return states, state


def bptt_stored_detached(cell, inputs, state, window):
    states, last = bptt_nested(cell, inputs, state, window)
    return [value.detach() for value in states], last


def bptt_last_detached(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        state = cell(x, state)
        states.append(state)
        if (step + 1) % window == 0:
            state = state.detach()
    return states, state


def bptt_in_place(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        if step and step % window == 0:
            state.detach_()
        state = cell(x, state)
        states.append(state)
    return states, state


def bptt_inputs_cut(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        if step and step % window == 0:
            state, x = state.detach(), x.detach()
        state = cell(x, state)
        states.append(state)
    return states, state


def bptt_inputs_cut_everywhere(cell, inputs, state, window):
    return bptt_given_state_cut(cell, [x.detach() for x in inputs], state, window)


def bptt_hooked(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        if step and step % window == 0:
            state.register_hook(torch.zeros_like)
        state = cell(x, state)
        states.append(state)
    return states, state


def bptt_recursive(cell, inputs, state, window):
    states = []
    for x in inputs[:window]:
        state = cell(x, state)
        states.append(state)
    if len(inputs) <= window:
        return states, state
    later, last = bptt_recursive(cell, inputs[window:], state.detach(), window)
    return states + later, last


def bptt_cut_before_storing(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs, start=1):
        state = cell(x, state)
        if step % window == 0:
            state = state.detach()
        states.append(state)
    return states, state


def bptt_clone_at_border(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        state = cell(x, state.clone() if step % window == 0 else state)
        states.append(state)
    return states, state


def bptt_under_no_grad(cell, inputs, state, window):
    with torch.no_grad():
        return bptt_nested(cell, inputs, state, window)


def bptt_in_a_tuple(cell, inputs, state, window):
    states, last = bptt_nested(cell, inputs, state, window)
    return tuple(states), last


def bptt_backward_inside(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        if step and step % window == 0:
            state.sum().backward()
            state = state.detach()
        state = cell(x, state)
        states.append(state)
    return states, state


def bptt_fresh(cell, inputs, state, window, begin=torch.zeros_like):
    states = []
    for step, x in enumerate(inputs):
        states.append(cell(x, states[-1] if step % window else begin(state) if step else state))
    return states, states[-1]


def bptt_given_again(cell, inputs, state, window):
    return bptt_fresh(cell, inputs, state, window, lambda given: given)


def bptt_multiples(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs, start=1):
        state = cell(x, state.detach() if step % window == 0 else state)
        states.append(state)
    return states, state


def bptt_ends(cell, inputs, state, window):
    states, last = bptt_nested(cell, inputs, state, window)
    return states[window - 1 :: window], last


def bptt_border_under_no_grad(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        with torch.set_grad_enabled(step == 0 or step % window != 0):
            state = cell(x, state)
        states.append(state)
    return states, state


# ------------------------------------------------------------------------------------------------- stop_gradient_round


class RoundThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def round_by_zero_term(x):
    return x.round().detach() + (x - x.detach())


class RoundOnes(RoundThrough):
    @staticmethod
    def backward(ctx, gradient):
        return torch.ones_like(gradient)


class RoundClipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.saved_tensors[0].abs() <= 1)


def round_hooked(x):
    result = x.round()
    if result.requires_grad:
        result.register_hook(torch.ones_like)
    return result


def round_no_grad(x):
    with torch.no_grad():
        return x + (x.round() - x)


def round_in_place_of_a_clone(x):
    result = x.clone()
    with torch.no_grad():
        result.round_()
    return result


def round_by_data(x):
    result = x.clone()
    result.data.round_()
    return result


def round_edited(x):
    x.data = x.data.round()
    return x * 1


def round_leaf(x):
    return x.round_()


def round_fresh_leaf(x):
    return x.detach().round().requires_grad_()


# ----------------------------------------------------------------------------------------------- holes of older checks


def mean_loss_by_item_in_its_dtype(model, loss_fn, batches):
    values = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        values.append(loss.item())
    if not values:
        raise ValueError("no batches")
    return torch.tensor(sum(values) / len(values), dtype=loss.dtype)


def mean_loss_alias(model, loss_fn, batches):
    total, count = None, 0
    for x, y in batches:
        loss = loss_fn(model(x), y).detach()
        if total is None:
            total = loss
        else:
            total += loss
        count += 1
    if not count:
        raise ValueError("no batches")
    return total / count


def mean_loss_not_total(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in batches:
        total = total + loss_fn(model(x), y).detach()
        count += 1
    if not total:
        raise ValueError("no batches")
    return total / count


def mean_loss_switched_on(model, loss_fn, batches):
    torch.set_grad_enabled(False)
    try:
        return mean_loss_by_detach(model, loss_fn, batches)
    finally:
        torch.set_grad_enabled(True)


def bptt_only_the_last_window(cell, inputs, state, window):
    states, begin = [], (len(inputs) - 1) // window * window
    for step, x in enumerate(inputs):
        with torch.set_grad_enabled(step >= begin):
            state = cell(x, state)
        states.append(state)
    return states, state


def bptt_last_window_after_detaching_all(cell, inputs, state, window):
    states, begin = [], (len(inputs) - 1) // window * window
    for step, x in enumerate(inputs):
        state = cell(x, state)
        state = state if step >= begin else state.detach()
        states.append(state)
    return states, state


def bptt_last_steps_connected(cell, inputs, state, window):
    states = []
    for step, x in enumerate(inputs):
        state = cell(x, state if step > len(inputs) - window or not step else state.detach())
        states.append(state)
    return states, state


def mean_loss_detached_in_place(model, loss_fn, batches):
    def detached(prediction, target):
        return loss_fn(prediction, target).detach_()

    return mean_loss_by_detach(model, detached, batches)


def round_in_float32(x):
    rounded = x.float().round().to(x.dtype)
    return x + (rounded - x).detach()


RIGHT = (
    Right("snapshot", "no_grad", snapshot_under_no_grad),
    Right("snapshot", "clone then detach", lambda x: x.clone().detach()),
    Right("snapshot", "inference copy", snapshot_by_copy),
    Right("snapshot", "torch.tensor", snapshot_new_tensor),
    Right("predicted_edit", "upper case and spaces", {key: f" {value.upper()} " for key, value in EDITS.items()}),
    Right("mean_loss", "detach each", mean_loss_by_detach),
    Right("mean_loss", "inference mode", mean_loss_by_inference),
    Right("mean_loss", "running mean", mean_loss_running),
    Right("mean_loss", "a detach for nothing before that which counts", mean_loss_detached_twice),
    Right("truncated_bptt", "nested loops", bptt_nested),
    Right("truncated_bptt", "recursive", bptt_recursive),
    Right("truncated_bptt", "clone and detach", bptt_by_data),
    Right("truncated_bptt", "clone under no_grad", bptt_under_no_grad_copy),
    Right("stop_gradient_round", "custom Function", RoundThrough.apply),
    Right("stop_gradient_round", "zero term", round_by_zero_term),
    Right("stop_gradient_round", "value through .data", round_by_data),
    Right("stop_gradient_round", "a clone, rounded in place", round_in_place_of_a_clone),
    Right("stop_gradient_round", "x minus what is cut off", lambda x: x - (x - x.round()).detach()),
    Right("mean_loss", "item each, in the losses' dtype", mean_loss_by_item_in_its_dtype),
    Right("snapshot", "empty_like and copy_", lambda x: torch.empty_like(x, requires_grad=False).copy_(x.detach())),
)

WRONG = (
    Wrong("snapshot", "alias", lambda x: x.detach(), "detach alone"),
    Wrong("snapshot", "alias", lambda x: x.data, "data alone"),
    Wrong("snapshot", "same memory", lambda x: torch.from_numpy(x.detach().numpy()), "through NumPy"),
    Wrong("snapshot", "same memory", lambda x: x.detach()[...], "a slice"),
    Wrong("snapshot", "same memory", lambda x: x.detach().contiguous(), "contiguous"),
    Wrong("snapshot", "x itself", lambda x: x, "returned as it is"),
    Wrong("snapshot", "rows", lambda x: x.detach()[:].clone(), earns=0.96),
    Wrong("snapshot", "rows", lambda x: torch.cat((x.detach(),)), "cat of one", earns=0.96),
    Wrong("snapshot", "flagged", lambda x: x.detach().clone().requires_grad_(), "any dtype"),
    Wrong("snapshot", "history", lambda x: x.clone(), "clone alone"),
    Wrong("snapshot", "history", lambda x: x + 0, "plus 0"),
    Wrong("snapshot", "unassigned", snapshot_unassigned, "a detach that is not assigned"),
    Wrong("snapshot", "unassigned", snapshot_of_x_unassigned, "a detach of x that is not assigned"),
    Wrong("snapshot", "x itself", snapshot_x_itself),
    Wrong("snapshot", "view", snapshot_view_under_no_grad, "a view made under no_grad"),
    Wrong("snapshot", "filled", lambda x: torch.empty_like(x).copy_(x)),
    Wrong("snapshot", "flagged", snapshot_flagged),
    Wrong("snapshot", "flagged", lambda x: torch.nn.Parameter(x.detach().clone(), x.is_floating_point()), "Parameter"),
    Wrong("snapshot", "dtype", snapshot_from_list, earns=0.74),
    Wrong("snapshot", "dtype", snapshot_into_zeros, "into zeros"),
    Wrong("snapshot", "arithmetic", lambda x: x.detach() + 0, "plus 0, detached", earns=0.96),
    Wrong("snapshot", "dtype", lambda x: torch.tensor(x.tolist()).to(x), "from a list, and back to its dtype"),
    Wrong("snapshot", "in place", snapshot_in_place),
    Wrong("snapshot", "lower the flag", lambda x: x.clone().requires_grad_(False)),
    Wrong("snapshot", "numpy", lambda x: torch.from_numpy(x.numpy().copy())),
    Wrong("snapshot", "deepcopy", copy.deepcopy),
    Wrong("snapshot", "not a tensor", lambda x: x.detach().numpy().copy(), "a NumPy array"),
    Wrong("snapshot", "no return value", lambda x: print(x.shape), "no return"),
    Wrong("predicted_edit", "detach copies", EDITS | {"detach_edit": "right gradient"}),
    Wrong("predicted_edit", "detach is silent", EDITS | {"detach_edit": "wrong gradient"}),
    Wrong("predicted_edit", "data is watched", EDITS | {"data_edit": "error"}),
    Wrong("predicted_edit", "data copies", EDITS | {"data_edit": "right gradient"}),
    Wrong("predicted_edit", "clone is watched", EDITS | {"clone_edit": "error"}),
    Wrong("predicted_edit", "clone feeds back", EDITS | {"clone_edit": "wrong gradient"}),
    Wrong("predicted_edit", "always error", dict.fromkeys(EDITS, "error"), earns=0),
    Wrong("predicted_edit", "cut reaches back", EDITS | {"detach_clone_edit": "error"}),
    Wrong("mean_loss", "graphs", mean_loss_graphs),
    Wrong("mean_loss", "graphs", mean_loss_bare_no_grad, "a bare no_grad()"),
    Wrong("mean_loss", "graphs", mean_loss_prints, "detached to be shown, and added with its graph"),
    Wrong("mean_loss", "unassigned", mean_loss_unassigned),
    Wrong("mean_loss", "unassigned", mean_loss_unassigned_at_the_end, "the mean at the end"),
    Wrong("mean_loss", "cut too late", mean_loss_cut_too_late, earns=1.21),
    Wrong("mean_loss", "cut too late", mean_loss_outputs_kept, "outputs kept"),
    Wrong("mean_loss", "cut too late", mean_loss_buffer, "written into a buffer"),
    Wrong("mean_loss", "losses kept", mean_loss_losses_kept),
    Wrong("mean_loss", "batches kept", mean_loss_batches_kept),
    Wrong("mean_loss", "number", mean_loss_number),
    Wrong("mean_loss", "sum", mean_loss_sum),
    Wrong("mean_loss", "weighted", mean_loss_weighted),
    Wrong("mean_loss", "weighted", mean_loss_by_samples, "divided by samples"),
    Wrong("mean_loss", "last", mean_loss_last),
    Wrong("mean_loss", "len", mean_loss_len, earns=1.82),
    Wrong("mean_loss", "eval", mean_loss_eval_and_len, "len, and a model left in training mode", earns=1.3),
    Wrong("mean_loss", "cut too late", mean_loss_len_cut_too_late, "len, and detached at the end"),
    Wrong("mean_loss", "len", mean_loss_looks_first, "a look before the loop"),
    Wrong("mean_loss", "len", mean_loss_counts_after, "counted after the loop"),
    Wrong("mean_loss", "len", mean_loss_by_index, "an index"),
    Wrong("mean_loss", "len", mean_loss_if_not_batches, "if not batches"),
    Wrong("mean_loss", "last graph", mean_loss_total_detached),
    Wrong("mean_loss", "flagged", mean_loss_flagged),
    Wrong("mean_loss", "side effect", mean_loss_frozen, "the model frozen"),
    Wrong("mean_loss", "one element", mean_loss_of_one_element),
    Wrong("mean_loss", "other error", mean_loss_any_error),
    Wrong("mean_loss", "empty", mean_loss_empty, "nan for no batches"),
    Wrong("mean_loss", "empty", mean_loss_zero_division, "division by zero"),
    Wrong("mean_loss", "eval", mean_loss_eval),
    Wrong("mean_loss", "eval", mean_loss_eval_put_back, "eval, put back"),
    Wrong("mean_loss", "eval", mean_loss_eval_left, "eval, put back unless something raises"),
    Wrong("mean_loss", "grad mode", mean_loss_grad_mode),
    Wrong("mean_loss", "only without error", mean_loss_switched_back),
    Wrong("mean_loss", "other error", partial(mean_loss_renaming, TypeError), "any TypeError means empty"),
    Wrong("mean_loss", "swallowed", mean_loss_swallowed),
    Wrong("mean_loss", "swallowed", partial(mean_loss_skipping, Exception), "a batch that raises is passed over"),
    Wrong("mean_loss", "swallowed", partial(mean_loss_skipping, RuntimeError), "torch's errors are passed over"),
    Wrong("mean_loss", "other error", partial(mean_loss_renaming, Exception), "an error of a batch is a ValueError"),
    Wrong("mean_loss", "other error", partial(mean_loss_renaming, RuntimeError), "torch's errors are ValueErrors"),
    Wrong(
        "mean_loss", "other error", partial(mean_loss_renaming, ZeroDivisionError), "any division by zero means empty"
    ),
    Wrong("truncated_bptt", "never cut", bptt_never_cut),
    Wrong("truncated_bptt", "no cut", bptt_clone_at_border, "clone at the border"),
    Wrong("truncated_bptt", "fresh state", bptt_fresh),
    Wrong("truncated_bptt", "backward inside", bptt_backward_inside),
    Wrong("truncated_bptt", "fresh state", bptt_given_again, "the given state again"),
    Wrong("truncated_bptt", "off by one", bptt_multiples, "counted from 1"),
    Wrong("truncated_bptt", "no list", bptt_ends, "the last state of each window"),
    Wrong("truncated_bptt", "border stored", bptt_cut_before_storing, "cut before storing"),
    Wrong("truncated_bptt", "whole windows", bptt_whole_windows, earns=2.71),
    Wrong("truncated_bptt", "every step", bptt_every_step),
    Wrong("truncated_bptt", "some borders", bptt_first_border_alone),
    Wrong("truncated_bptt", "given state cut", bptt_given_state_cut),
    Wrong("truncated_bptt", "off by one", bptt_off_by_one),
    Wrong("truncated_bptt", "stored detached", bptt_stored_detached),
    Wrong("truncated_bptt", "stored detached", bptt_under_no_grad, "no_grad"),
    Wrong("truncated_bptt", "no list", bptt_in_a_tuple, "a tuple of states"),
    Wrong("truncated_bptt", "border unrecorded", bptt_border_under_no_grad),
    Wrong("truncated_bptt", "last detached", bptt_last_detached),
    Wrong("truncated_bptt", "in place", bptt_in_place),
    Wrong("truncated_bptt", "inputs cut", bptt_inputs_cut),
    Wrong("truncated_bptt", "inputs cut", bptt_inputs_cut_everywhere, "inputs and the given state cut"),
    Wrong("truncated_bptt", "hook", bptt_hooked, "a hook that zeroes"),
    Wrong("stop_gradient_round", "zero gradient", lambda x: x.round()),
    Wrong("stop_gradient_round", "all detached", lambda x: (x + (x.round() - x)).detach()),
    Wrong("stop_gradient_round", "all detached", lambda x: x.round().detach(), "detached round"),
    Wrong("stop_gradient_round", "order", lambda x: x.round().detach() + x - x.detach()),
    Wrong("stop_gradient_round", "half up", lambda x: x + ((x + 0.5).floor() - x).detach(), earns=1.33),
    Wrong("stop_gradient_round", "scaled", lambda x: x * (x.round() / x).detach()),
    Wrong("stop_gradient_round", "doubled", lambda x: x.round().detach() + (x - x.detach()) + (x - x.detach())),
    Wrong("stop_gradient_round", "upstream", RoundOnes.apply),
    Wrong("stop_gradient_round", "edited", round_edited),
    Wrong("stop_gradient_round", "leaf", round_leaf),
    Wrong("stop_gradient_round", "cut from x", round_fresh_leaf),
    Wrong("stop_gradient_round", "clipped", RoundClipped.apply),
    Wrong("stop_gradient_round", "correction", lambda x: x.detach() + (x.round() - x)),
    Wrong("stop_gradient_round", "scaled", lambda x: x.round().detach() * (x / x.detach()), "a factor of 1"),
    Wrong("stop_gradient_round", "hook", round_hooked),
    Wrong("stop_gradient_round", "cancelled", lambda x: x + (x.round() - x)),
    Wrong("stop_gradient_round", "unassigned", lambda x: x),
    Wrong("stop_gradient_round", "added", lambda x: x.round().detach() + x),
    Wrong("stop_gradient_round", "dtype", lambda x: (x + (x.round() - x).detach()).float(), earns=1.33),
    Wrong("stop_gradient_round", "all detached", lambda x: torch.tensor(x.round().tolist()), "from a list", earns=0.0),
    Wrong("stop_gradient_round", "all detached", round_no_grad, "no_grad"),
    Wrong("stop_gradient_round", "cut off", lambda x: x + (x.trunc() - x).detach()),
    Wrong("snapshot", "every dtype", lambda x: torch.from_numpy(x.detach().cpu().numpy().copy()), earns=0.92),
    Wrong("snapshot", "device", lambda x: x.detach().cpu().clone()),
    Wrong(
        "predicted_edit",
        "copies feed back",
        EDITS | dict.fromkeys(("clone_edit", "detach_clone_edit"), "wrong gradient"),
        "measured on one leaf",
    ),
    Wrong("predicted_edit", "exchanged", EDITS | {"detach_edit": "wrong gradient", "data_edit": "error"}),
    Wrong("predicted_edit", "detach is silent", dict.fromkeys(EDITS, "wrong gradient"), "one for all", earns=0),
    Wrong("predicted_edit", "detach copies", dict.fromkeys(EDITS, "right gradient"), "all is well", earns=0),
    Wrong("mean_loss", "output detached", mean_loss_output_detached, earns=1.82),
    Wrong("mean_loss", "output detached", mean_loss_output_under_no_grad, "output under no_grad, cut at the end"),
    Wrong("mean_loss", "dtype", mean_loss_by_item),
    Wrong("mean_loss", "dtype", mean_loss_into_zeros, "into zeros"),
    Wrong("mean_loss", "dtype", mean_loss_beside_zeros, "beside zeros"),
    Wrong("mean_loss", "losses edited", mean_loss_alias),
    Wrong("mean_loss", "zero total", mean_loss_not_total),
    Wrong("mean_loss", "always on", mean_loss_switched_on),
    Wrong("truncated_bptt", "last window", bptt_only_the_last_window, "only the last window learns"),
    Wrong("truncated_bptt", "last window", bptt_last_window_after_detaching_all, "all others detached"),
    Wrong("truncated_bptt", "last window", bptt_last_steps_connected, "the last steps connected"),
    Wrong("mean_loss", "in place", mean_loss_detached_in_place),
    Wrong("stop_gradient_round", "float32", round_in_float32),
    Wrong("stop_gradient_round", "integer", lambda x: x.detach().round().long().to(x.dtype) + (x - x.detach())),
    Wrong("stop_gradient_round", "integer", lambda x: x + (x.detach().round().int() - x).detach(), "int32"),
)
