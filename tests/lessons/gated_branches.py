"""Right and wrong answers to the exercises of lesson 06."""

import torch
from torch import nn

from tests.lessons.answers import Right

# ------------------------------------------------------------------------------------------------------- gated_forward


def gated_new_zeros(branch_a, branch_b, x, use_a):
    if use_a:
        a = branch_a(x)
        return torch.cat([a, a.new_zeros(a.shape)], 1)
    b = branch_b(x)
    return torch.cat([b.new_zeros(b.shape), b], 1)


def gated_written_into(branch_a, branch_b, x, use_a):
    opened = (branch_a if use_a else branch_b)(x)
    size = opened.shape[1]
    result = opened.new_zeros(len(opened), 2 * size, *opened.shape[2:])
    start = 0 if bool(use_a) else size
    result[:, start : start + size] = opened
    return result


def gated_padded(branch_a, branch_b, x, use_a):
    opened = [branch_b, branch_a][int(use_a)](x)
    sides = (0, opened.shape[1]) if use_a else (opened.shape[1], 0)
    return nn.functional.pad(opened, (0, 0) * (opened.dim() - 2) + sides)


def gated_stacked(branch_a, branch_b, x, use_a):
    opened = branch_a.forward(x) if use_a else branch_b.forward(x)
    halves = [torch.zeros_like(opened).requires_grad_()] * 2
    halves[not use_a] = opened
    return torch.hstack(halves)


# ------------------------------------------------------------------------------------------------------ predicted_cost


# --------------------------------------------------------------------------------------------------------------- route


def route_by_index_put(branch_a, branch_b, x, gate):
    parts = [(mask, branch(x[mask])) for mask, branch in ((gate, branch_a), (~gate, branch_b)) if mask.any()]
    result = parts[0][1].new_zeros(len(x), *parts[0][1].shape[1:])
    for mask, part in parts:
        result = result.index_put((mask,), part)
    return result


def route_by_inverse(branch_a, branch_b, x, gate):
    order = torch.argsort(gate.to(torch.int8), descending=True, stable=True)
    count = int(gate.sum())
    blocks = []
    if count:
        blocks.append(branch_a(x[order[:count]]))
    if count < len(x):
        blocks.append(branch_b(x[order[count:]]))
    return torch.cat(blocks)[torch.argsort(order)]


def route_row_by_row(branch_a, branch_b, x, gate):
    return torch.cat([(branch_a if on else branch_b)(row[None]) for row, on in zip(x, gate, strict=True)])


def route_by_scatter(branch_a, branch_b, x, gate):
    rows = [gate.nonzero()[:, 0], (~gate).nonzero()[:, 0]]
    result = None
    for index, branch in zip(rows, (branch_a, branch_b), strict=True):
        if index.numel() == 0:
            continue
        part = branch(x.index_select(0, index))
        if result is None:
            result = torch.zeros((len(x), *part.shape[1:]), dtype=part.dtype, device=part.device)
        result = result.index_copy(0, index, part)
    return result


def route_by_lists(branch_a, branch_b, x, gate):
    result = [None] * len(x)
    for branch, wanted in ((branch_a, True), (branch_b, False)):
        mine = [i for i, on in enumerate(gate.tolist()) if on is wanted]
        if mine:
            for i, row in zip(mine, branch(torch.stack([x[i] for i in mine])), strict=True):
                result[i] = row
    return torch.stack(result)


def route_masked_scatter(branch_a, branch_b, x, gate):
    if gate.all() or not gate.any():
        return (branch_a if gate.all() else branch_b)(x)
    a, b = branch_a(x[gate]), branch_b(x[~gate])
    mask = gate.view(-1, *[1] * (a.dim() - 1)).expand(len(x), *a.shape[1:])
    return torch.zeros_like(mask, dtype=a.dtype).masked_scatter(mask, a).masked_scatter(~mask, b)


# --------------------------------------------------------------------------------------------------------- masked_sqrt


def sqrt_safe_inside(x):
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1).sqrt(), 0)


def sqrt_safe_times_mask(x):
    return torch.where(x > 0, x, 1.0).sqrt() * (x > 0)


def sqrt_stand_in_taken_off(x):
    return torch.where(x > 0, x, 1).sqrt() - (x <= 0).to(x.dtype)


def sqrt_masked_fill(x):
    return x.masked_fill(x <= 0, 1).sqrt().masked_fill(x <= 0, 0)


class MaskedSqrt(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        root = x.clamp(min=0).sqrt()
        ctx.save_for_backward(root)
        return root

    @staticmethod
    def backward(ctx, gradient):
        (root,) = ctx.saved_tensors
        result = torch.zeros_like(root)
        positive = root > 0
        result[positive] = gradient[positive] / (2 * root[positive])
        return result


def sqrt_by_log(x):
    result = torch.zeros_like(x)
    result[x > 0] = (x[x > 0].log() / 2).exp()
    return result


def sqrt_where_inside(x):
    return torch.where(x > 0, x, 0).sqrt()  # its backward chooses, and does not multiply


def sqrt_hook_inside(x):
    inner = x.clamp(min=0)
    if inner.requires_grad:  # the hook is on a tensor of the answer's own
        inner.register_hook(lambda gradient: torch.where(inner > 0, gradient, 0))
    return inner.sqrt()


def sqrt_scattered(x):
    flat = x.reshape(-1)
    index = (flat > 0).nonzero()[:, 0]
    return torch.zeros_like(flat).scatter(0, index, flat[index].sqrt()).view_as(x)


def sqrt_clamp(x):
    return x.clamp(min=0).sqrt()


def clamp_chooses():
    """Whether clamp, like relu, passes no gradient on where x is the bound: since PyTorch 2.14."""
    x = torch.zeros((), requires_grad=True)
    x.clamp(min=0).backward()
    return x.grad.item() == 0


def sqrt_relu(x):
    return x.relu().sqrt()


# ----------------------------------------------------------------------------------------------------------- hard_gate


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logit):
        ctx.save_for_backward(logit)
        return (logit > 0).to(logit.dtype)

    @staticmethod
    def backward(ctx, gradient):
        s = ctx.saved_tensors[0].sigmoid()
        return gradient * s * (1 - s)


def hard(logit):
    return (logit > 0).to(logit.dtype)


def gate_difference(logit):
    s = torch.sigmoid(logit)
    return hard(logit) + (s - s.detach())


def gate_copied(logit):
    result = torch.sigmoid(logit).clone()
    with torch.no_grad():
        result.copy_(hard(logit))
    return result


def gate_heaviside(logit):
    s = logit.sigmoid()
    return torch.heaviside(logit.detach(), torch.zeros_like(logit)) - (s.detach() - s)


def gate_half_tanh(logit):
    t = torch.tanh(logit / 2) / 2
    return hard(logit) + (t - t.detach())


def gate_softmax(logit):
    s = torch.stack([logit, torch.zeros_like(logit)]).softmax(0)[0]
    return hard(logit) - (s.detach() - s)


def gate_detached_pair(logit):
    s = torch.sigmoid(logit)
    return (hard(logit) - s).detach() + s


def gate_left_to_right(logit):
    soft = torch.sigmoid(logit)
    return hard(logit) - soft.detach() + soft


RIGHT = (
    Right("gated_forward", "new zeros", gated_new_zeros),
    Right("gated_forward", "written into zeros", gated_written_into),
    Right("gated_forward", "padded", gated_padded),
    Right("gated_forward", "hstack, flagged zeros", gated_stacked),
    Right(
        "predicted_cost",
        "None itself, lists",
        {"multiply": [2, 2, " ZEROS "], "no_grad": [2, 1, None], "skip": (1, 1, None)},
    ),
    Right(
        "predicted_cost",
        "floats and bools",
        {"multiply": (2.0, 2, "zeros"), "no_grad": (2, True, "none"), "skip": (True, True, "None")},
    ),
    Right("route", "index_put", route_by_index_put),
    Right("route", "the inverse order", route_by_inverse),
    Right("route", "row by row", route_row_by_row),
    Right("route", "index_copy", route_by_scatter),
    Right("route", "lists of rows", route_by_lists),
    Right("route", "masked_scatter", route_masked_scatter),
    Right("masked_sqrt", "where inside", sqrt_where_inside),
    Right("masked_sqrt", "scattered", sqrt_scattered),
    Right("masked_sqrt", "a hook inside", sqrt_hook_inside),
    Right("masked_sqrt", "where inside where", sqrt_safe_inside),
    Right("masked_sqrt", "safe times mask", sqrt_safe_times_mask),
    Right("masked_sqrt", "the stand-in's root taken off", sqrt_stand_in_taken_off),
    Right("masked_sqrt", "masked_fill twice", sqrt_masked_fill),
    Right("masked_sqrt", "relu, whose backward chooses", sqrt_relu),
    *([Right("masked_sqrt", "clamp, whose backward chooses", sqrt_clamp)] if clamp_chooses() else []),
    Right("masked_sqrt", "a Function", MaskedSqrt.apply),
    Right("masked_sqrt", "half the logarithm", sqrt_by_log),
    Right("hard_gate", "zero term", gate_difference),
    Right("hard_gate", "(hard - s).detach() + s", gate_detached_pair),  # 1 - s is exact from 0.5 to 1
    Right("hard_gate", "a Function", Gate.apply),
    Right("hard_gate", "a clone, overwritten", gate_copied),
    Right("hard_gate", "hard - s.detach() + s", gate_left_to_right),  # the same sum
    Right("hard_gate", "heaviside", gate_heaviside),
    Right("hard_gate", "half a tanh", gate_half_tanh),
    Right("hard_gate", "a softmax of two", gate_softmax),
)
