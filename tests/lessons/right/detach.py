"""Right answers to the exercises of lesson 03, written otherwise than the course's own."""

# %%
import itertools


def nonempty(batches):
    iterator = iter(batches)
    try:
        first = next(iterator)
    except StopIteration:
        raise ValueError("no batches") from None
    return itertools.chain([first], iterator)

# %% snapshot: no_grad
def snapshot(x):
    with torch.no_grad():
        return x.clone()

# %% snapshot: inference copy
def snapshot(x):
    with torch.inference_mode():
        return torch.empty_like(x).copy_(x)

# %% predicted_edit: upper case and spaces
predicted_edit = {key: f" {value.upper()} " for key, value in predicted_edit.items()}

# %% mean_loss: inference mode
def mean_loss(model, loss_fn, batches):
    total, count = 0, 0
    with torch.inference_mode():
        for x, y in nonempty(batches):
            total, count = total + loss_fn(model(x), y), count + 1
    return total / count

# %% mean_loss: running mean
def mean_loss(model, loss_fn, batches):
    mean = None
    for count, (x, y) in enumerate(batches, start=1):
        loss = loss_fn(model(x), y).detach()
        mean = loss if mean is None else mean + (loss - mean) / count
    if mean is None:
        raise ValueError("no batches")
    return mean

# %% mean_loss: item each, in the losses' dtype
def mean_loss(model, loss_fn, batches):
    values = []
    for x, y in batches:
        loss = loss_fn(model(x), y)
        values.append(loss.item())
    if not values:
        raise ValueError("no batches")
    return torch.tensor(sum(values) / len(values), dtype=loss.dtype)

# %% truncated_bptt: nested loops
def truncated_bptt(cell, inputs, state, window):
    states = []
    for begin in range(0, len(inputs), window):
        if begin:
            state = state.detach()
        for x in inputs[begin : begin + window]:
            state = cell(x, state)
            states.append(state)
    return states, state

# %% truncated_bptt: recursive
def truncated_bptt(cell, inputs, state, window):
    states = []
    for x in inputs[:window]:
        state = cell(x, state)
        states.append(state)
    if len(inputs) <= window:
        return states, state
    later, last = truncated_bptt(cell, inputs[window:], state.detach(), window)
    return states + later, last

# %% truncated_bptt: clone and detach
def truncated_bptt(cell, inputs, state, window):
    states = [state]
    for step, x in enumerate(inputs):
        previous = states[-1]
        states.append(cell(x, previous.clone().detach() if step % window == 0 and step > 0 else previous))
    return states[1:], states[-1]

# %% stop_gradient_round: custom Function
class RoundThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


stop_gradient_round = RoundThrough.apply

# %% stop_gradient_round: value through .data
def stop_gradient_round(x):
    result = x.clone()
    result.data.round_()
    return result

# %% stop_gradient_round: a clone, rounded in place
def stop_gradient_round(x):
    result = x.clone()
    with torch.no_grad():
        result.round_()
    return result
