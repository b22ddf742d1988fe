"""Right and wrong answers to the exercises of lesson 03."""

import itertools

import torch

from tests.lessons.answers import Right

# ------------------------------------------------------------------------------------------------------------ snapshot


def snapshot_under_no_grad(x):
    with torch.no_grad():
        return x.clone()


def snapshot_by_copy(x):
    with torch.inference_mode():
        return torch.empty_like(x).copy_(x)


def snapshot_new_tensor(x):
    return torch.tensor(x)  # warns, and is right


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


def mean_loss_by_inference(model, loss_fn, batches):
    total, count = 0, 0
    with torch.inference_mode():
        for x, y in nonempty(batches):
            total, count = total + loss_fn(model(x), y), count + 1
    return total / count


def nonempty(batches):
    iterator = iter(batches)
    try:
        first = next(iterator)
    except StopIteration:
        raise ValueError("no batches") from None
    return itertools.chain([first], iterator)


def mean_loss_detached_twice(model, loss_fn, batches):
    total, count = 0, 0
    for x, y in nonempty(batches):
        loss = loss_fn(model(x), y)
        loss.detach()
        total, count = total + loss.detach(), count + 1
    return total / count


def mean_loss_running(model, loss_fn, batches):
    mean = None
    for count, (x, y) in enumerate(batches, start=1):
        loss = loss_fn(model(x), y).detach()
        mean = loss if mean is None else mean + (loss - mean) / count
    if mean is None:
        raise ValueError("no batches")
    return mean


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


def bptt_recursive(cell, inputs, state, window):
    states = []
    for x in inputs[:window]:
        state = cell(x, state)
        states.append(state)
    if len(inputs) <= window:
        return states, state
    later, last = bptt_recursive(cell, inputs[window:], state.detach(), window)
    return states + later, last


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


def round_in_place_of_a_clone(x):
    result = x.clone()
    with torch.no_grad():
        result.round_()
    return result


def round_by_data(x):
    result = x.clone()
    result.data.round_()
    return result


# ----------------------------------------------------------------------------------------------- holes of older checks


def mean_loss_by_item_in_its_dtype(model, loss_fn, batches):
    values = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        values.append(loss.item())
    if not values:
        raise ValueError("no batches")
    return torch.tensor(sum(values) / len(values), dtype=loss.dtype)


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
