"""Right and wrong answers to the exercises of lesson 06."""

import torch
from torch import nn

from tests.lessons.answers import Right, Wrong

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


def gated_multiply(branch_a, branch_b, x, use_a):
    return torch.cat([branch_a(x) * use_a, branch_b(x) * (not use_a)], dim=1)


def gated_stacked_halves(branch_a, branch_b, x, use_a):
    return torch.stack(gated_padded(branch_a, branch_b, x, use_a).chunk(2, dim=1), dim=1)


def gated_rows_of_zeros(branch_a, branch_b, x, use_a):
    opened = (branch_a if use_a else branch_b)(x)
    zeros = opened.new_zeros(opened.shape[:2])
    return torch.cat([opened, zeros] if use_a else [zeros, opened], dim=1)


def gated_numpy(branch_a, branch_b, x, use_a):
    opened, closed = (branch_a(x), branch_b) if use_a else (branch_b(x), branch_a)
    zeros = torch.zeros_like(opened)
    for parameter in closed.parameters():  # work with the closed branch that no counter of PyTorch's sees
        zeros = zeros + 0 * float(parameter.detach().numpy().sum())
    return torch.cat([opened, zeros] if use_a else [zeros, opened], dim=1)


def gated_where(branch_a, branch_b, x, use_a):
    a, b, gate = branch_a(x), branch_b(x), torch.as_tensor(use_a)
    return torch.cat([torch.where(gate, a, 0.0), torch.where(gate, 0.0, b)], dim=1)


def gated_no_grad(branch_a, branch_b, x, use_a):
    on = bool(use_a)
    with torch.set_grad_enabled(on):
        a = branch_a(x) * on
    with torch.set_grad_enabled(not on):
        b = branch_b(x) * (not on)
    return torch.cat([a, b], dim=1)


def gated_no_grad_for_shape(branch_a, branch_b, x, use_a):
    with torch.no_grad():
        zeros = torch.zeros_like(branch_b(x) if use_a else branch_a(x))
    return torch.cat([branch_a(x), zeros] if use_a else [zeros, branch_b(x)], dim=1)


def gated_frozen(branch_a, branch_b, x, use_a):
    closed = branch_b if use_a else branch_a
    closed.requires_grad_(False)
    return gated_multiply(branch_a, branch_b, x, use_a)


def gated_zeros_like_closed(branch_a, branch_b, x, use_a):
    a, b = branch_a(x), branch_b(x)
    if use_a:
        return torch.cat([a, torch.zeros_like(b)], dim=1)
    return torch.cat([torch.zeros_like(a), b], dim=1)


def gated_detached_closed(branch_a, branch_b, x, use_a):
    a, b = branch_a(x), branch_b(x)
    return torch.cat([a, b.detach() * 0] if use_a else [a.detach() * 0, b], dim=1)


def gated_unseen_call(branch_a, branch_b, x, use_a):
    result = gated_detached_closed(branch_a, branch_b, x, use_a)
    (branch_b if use_a else branch_a).inputs.clear()  # what the check counts calls by
    return result


def gated_no_grad_for_shape_in_dtype_of_x(branch_a, branch_b, x, use_a):
    with torch.no_grad():
        zeros = x.new_zeros((branch_b if use_a else branch_a)(x).shape)
    return torch.cat([branch_a(x), zeros] if use_a else [zeros, branch_b(x)], dim=1)


def gated_layers(branch_a, branch_b, x, use_a):
    closed = branch_b if use_a else branch_a
    with torch.no_grad():
        for module in closed.children():  # no call of the branch itself
            module(x)
    return gated_new_zeros(branch_a, branch_b, x, use_a)


def gated_twice(branch_a, branch_b, x, use_a):
    if use_a:
        return torch.cat([branch_a(x), torch.zeros_like(branch_a(x))], dim=1)
    return torch.cat([torch.zeros_like(branch_b(x)), branch_b(x)], dim=1)


def gated_open_first(branch_a, branch_b, x, use_a):
    opened = branch_a(x) if use_a else branch_b(x)
    return torch.cat([opened, torch.zeros_like(opened)], dim=1)


def gated_other_order(branch_a, branch_b, x, use_a):
    opened = branch_a(x) if use_a else branch_b(x)
    zeros = torch.zeros_like(opened)
    return torch.cat([zeros, opened] if use_a else [opened, zeros], dim=1)


def gated_inverted(branch_a, branch_b, x, use_a):
    return gated_new_zeros(branch_a, branch_b, x, not use_a)


def gated_open_alone(branch_a, branch_b, x, use_a):
    return branch_a(x) if use_a else branch_b(x)


def gated_zero_number(branch_a, branch_b, x, use_a):
    return torch.cat([branch_a(x), 0] if use_a else [0, branch_b(x)], dim=1)


def gated_batch_dimension(branch_a, branch_b, x, use_a):
    opened = branch_a(x) if use_a else branch_b(x)
    zeros = torch.zeros_like(opened)
    return torch.cat([opened, zeros] if use_a else [zeros, opened])


def gated_no_grad_values(branch_a, branch_b, x, use_a):
    with torch.no_grad():
        closed = branch_b(x) if use_a else branch_a(x)
    return torch.cat([branch_a(x), closed] if use_a else [closed, branch_b(x)], dim=1)


def gated_input_masked(branch_a, branch_b, x, use_a):
    return torch.cat([branch_a(x * use_a), branch_b(x * (not use_a))], dim=1)


def gated_open_times_zero(branch_a, branch_b, x, use_a):
    opened = branch_a(x) if use_a else branch_b(x)
    return torch.cat([opened, opened * 0] if use_a else [opened * 0, opened], dim=1)


def gated_default_zeros(branch_a, branch_b, x, use_a):
    opened = branch_a(x) if use_a else branch_b(x)
    zeros = torch.zeros(opened.shape)
    return torch.cat([opened, zeros] if use_a else [zeros, opened], dim=1)


def gated_zeros_in_dtype_of_x(branch_a, branch_b, x, use_a):
    opened = branch_a(x) if use_a else branch_b(x)
    zeros = torch.zeros(opened.shape, dtype=x.dtype)
    return torch.cat([opened, zeros] if use_a else [zeros, opened], dim=1)


def gated_is_true(branch_a, branch_b, x, use_a):
    return gated_new_zeros(branch_a, branch_b, x, use_a is True)


def gated_item(branch_a, branch_b, x, use_a):
    return gated_new_zeros(branch_a, branch_b, x, use_a.item())


def gated_detached(branch_a, branch_b, x, use_a):
    return gated_new_zeros(branch_a, branch_b, x, use_a).detach()


def gated_detached_input(branch_a, branch_b, x, use_a):
    return gated_new_zeros(branch_a, branch_b, x.detach(), use_a)


def gated_under_no_grad(branch_a, branch_b, x, use_a):
    with torch.no_grad():
        return gated_new_zeros(branch_a, branch_b, x, use_a)


def gated_zeros_like_x(branch_a, branch_b, x, use_a):
    zeros = torch.zeros_like(x)
    return torch.cat([branch_a(x), zeros] if use_a else [zeros, branch_b(x)], dim=1)


def gated_ones(branch_a, branch_b, x, use_a):
    opened = branch_a(x) if use_a else branch_b(x)
    rest = torch.full_like(opened, 1e-3)
    return torch.cat([opened, rest] if use_a else [rest, opened], dim=1)


def gated_fabricated(branch_a, branch_b, x, use_a):
    for parameter in (branch_b if use_a else branch_a).parameters():
        parameter.grad = torch.zeros_like(parameter)
    return gated_new_zeros(branch_a, branch_b, x, use_a)


def gated_masked_fill(branch_a, branch_b, x, use_a):
    a, b, gate = branch_a(x), branch_b(x), torch.as_tensor(use_a)
    return torch.cat([a.masked_fill(~gate, 0), b.masked_fill(gate, 0)], dim=1)


def gated_one_row_for_shape(branch_a, branch_b, x, use_a):
    with torch.no_grad():
        shape = (branch_b if use_a else branch_a)(x[:1]).shape[1:]
    zeros = torch.zeros(len(x), *shape, dtype=x.dtype)
    return torch.cat([branch_a(x), zeros] if use_a else [zeros, branch_b(x)], dim=1)


def gated_no_rows_for_shape(branch_a, branch_b, x, use_a):
    closed = (branch_b if use_a else branch_a)(x[:0])
    zeros = torch.zeros(len(x), *closed.shape[1:], dtype=closed.dtype)
    return torch.cat([branch_a(x), zeros] if use_a else [zeros, branch_b(x)], dim=1)


def gated_last_dimension(branch_a, branch_b, x, use_a):
    opened = branch_a(x) if use_a else branch_b(x)
    zeros = torch.zeros_like(opened)
    return torch.cat([opened, zeros] if use_a else [zeros, opened], dim=-1)


def gated_zeros_for_each_weight(branch_a, branch_b, x, use_a):
    opened, closed = (branch_a, branch_b) if use_a else (branch_b, branch_a)
    half = opened(x)
    zeros = torch.zeros_like(half)
    for parameter in closed.parameters():
        zeros = zeros + 0.0 * parameter.sum().to(half.dtype)
    return torch.cat([half, zeros] if use_a else [zeros, half], dim=1)


# ------------------------------------------------------------------------------------------------------ predicted_cost

COSTS = {"multiply": (2, 2, "zeros"), "no_grad": (2, 1, "None"), "skip": (1, 1, "None")}

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


def route_in_dtype_of_x(branch_a, branch_b, x, gate):
    return route_by_index_put(branch_a, branch_b, x, gate).to(x.dtype)


def route_room_like_x(branch_a, branch_b, x, gate):
    result = None
    for mask, branch in ((gate, branch_a), (~gate, branch_b)):
        if mask.any():
            part = branch(x[mask])
            result = x.new_zeros(len(x), *part.shape[1:]) if result is None else result
            result[mask] = part
    return result


def route_zeros_for_the_rest(branch_a, branch_b, x, gate):
    if not gate.any():
        return branch_b(x)
    rows = branch_a(x[gate])
    result = rows.new_zeros(len(x), *rows.shape[1:])
    result[gate] = rows
    return result


def route_all_through_a(branch_a, branch_b, x, gate):
    result = branch_a(x).clone()
    if not gate.all():
        result[~gate] = branch_b(x[~gate])
    return result


def route_asks_for_the_shape(branch_a, branch_b, x, gate):
    result = torch.zeros(len(x), *branch_a(x[:1]).shape[1:], dtype=x.dtype)
    for mask, branch in ((gate, branch_a), (~gate, branch_b)):
        if mask.any():
            result[mask] = branch(x[mask])
    return result


def route_dummy_row(branch_a, branch_b, x, gate):
    dummy = torch.zeros_like(x[:1])
    blocks = [branch(torch.cat([dummy, x[rows]]))[1:] for branch, rows in ((branch_a, gate), (branch_b, ~gate))]
    order = torch.cat([gate.nonzero(), (~gate).nonzero()]).flatten()
    return torch.cat(blocks)[order.argsort()]


def route_detached_rows(branch_a, branch_b, x, gate):
    return route_by_index_put(branch_a, branch_b, x.detach(), gate)


def route_picks_under_no_grad(branch_a, branch_b, x, gate):
    with torch.no_grad():
        rows = {branch: x[mask] for mask, branch in ((gate, branch_a), (~gate, branch_b)) if mask.any()}
    results = {branch: branch(part) for branch, part in rows.items()}
    first = next(iter(results.values()))
    result = first.new_zeros(len(x), *first.shape[1:])
    for mask, branch in ((gate, branch_a), (~gate, branch_b)):
        if branch in results:
            result[mask] = results[branch]
    return result


def route_detached_into_zeros(branch_a, branch_b, x, gate):
    rows, out = x.detach(), None
    for mask, branch in ((gate, branch_a), (~gate, branch_b)):
        if mask.any():
            part = branch(rows[mask])
            out = part.new_zeros(len(x), *part.shape[1:]) if out is None else out
            out[mask] = part
    return out


def route_detached_row_by_row(branch_a, branch_b, x, gate):
    branches = [branch_a if on else branch_b for on in gate.tolist()]
    return torch.stack([branch(row[None].detach())[0] for branch, row in zip(branches, x, strict=True)])


def route_first_row_decides(branch_a, branch_b, x, gate):
    return (branch_a if gate[0] else branch_b)(x)


def route_where(branch_a, branch_b, x, gate):
    a, b = branch_a(x), branch_b(x)
    return torch.where(gate.view(-1, *[1] * (a.dim() - 1)), a, b)


def route_multiply(branch_a, branch_b, x, gate):
    a, b = branch_a(x), branch_b(x)
    weight = gate.to(a.dtype).view(-1, *[1] * (a.dim() - 1))
    return weight * a + (1 - weight) * b


def route_all_then_pick(branch_a, branch_b, x, gate):
    result = branch_b(x)
    result = result.clone()
    result[gate] = branch_a(x)[gate]
    return result


def route_masked_inputs(branch_a, branch_b, x, gate):
    mask = gate.view(-1, *[1] * (x.dim() - 1))
    a, b = branch_a(x * mask), branch_b(x * ~mask)
    return torch.where(gate.view(-1, *[1] * (a.dim() - 1)), a, b)


def route_masked_sum(branch_a, branch_b, x, gate):
    mask = gate.view(-1, *[1] * (x.dim() - 1))
    return branch_a(x * mask) + branch_b(x * ~mask)


def route_by_numbers(branch_a, branch_b, x, gate, numbers):
    if gate.all() or not gate.any():
        return (branch_a if gate.all() else branch_b)(x)
    a, b = branch_a(x[numbers(gate)]), branch_b(x[numbers(~gate)])
    result = a.new_empty(len(x), *a.shape[1:])
    result[numbers(gate)], result[numbers(~gate)] = a, b
    return result


def route_two_dimensions(branch_a, branch_b, x, gate):
    result = None
    for branch, rows in ((branch_a, gate), (branch_b, ~gate)):
        if rows.any():
            y = branch(x[rows])
            result = y.new_empty(len(x), y.shape[1]) if result is None else result
            result[rows] = y
    return result


def route_stacked_batches(branch_a, branch_b, x, gate):
    return torch.stack([(branch_a if on else branch_b)(row[None]) for row, on in zip(x, gate, strict=True)])


def route_scattered_like_x(branch_a, branch_b, x, gate):
    result = torch.zeros_like(x)
    for branch, rows in ((branch_a, gate), (branch_b, ~gate)):
        if rows.any():
            result = result.masked_scatter(rows.view(-1, *[1] * (x.dim() - 1)), branch(x[rows]))
    return result


def route_squeezed(branch_a, branch_b, x, gate):
    return route_by_numbers(branch_a, branch_b, x, gate, lambda mask: mask.nonzero().squeeze())


def route_room_beside_squeezed(branch_a, branch_b, x, gate):
    result = None
    for index, branch in ((gate.nonzero().squeeze(), branch_a), ((~gate).nonzero().squeeze(), branch_b)):
        if index.numel():
            rows = branch(x[index])
            if result is None:
                result = rows.new_zeros(len(x), *rows.shape[index.dim() :])
            result[index] = rows
    return result


def route_nonzero(branch_a, branch_b, x, gate):
    return route_by_numbers(branch_a, branch_b, x, gate, torch.nonzero)


def route_cat_of_rows(branch_a, branch_b, x, gate):
    return torch.cat([(branch_a if on else branch_b)(row) for row, on in zip(x, gate, strict=True)])


def route_room_of_a(branch_a, branch_b, x, gate):
    if gate.any():
        a = branch_a(x[gate])
        result = a.new_empty(len(x), *a.shape[1:])
        result[gate] = a
    if not gate.all():
        result[~gate] = branch_b(x[~gate])
    return result


def route_none_without_a(branch_a, branch_b, x, gate):
    result = None
    if gate.any():
        a = branch_a(x[gate])
        result = a.new_zeros(len(x), *a.shape[1:])
        result[gate] = a
    if not gate.all():
        result[~gate] = branch_b(x[~gate])
    return result


def route_grouped(branch_a, branch_b, x, gate):
    return torch.cat([branch_a(x[gate]), branch_b(x[~gate])])


def route_grouped_b_first(branch_a, branch_b, x, gate):
    return torch.cat([branch_b(x[~gate]), branch_a(x[gate])])


def route_wrong_inverse(branch_a, branch_b, x, gate):
    order = torch.cat([gate.nonzero(), (~gate).nonzero()])[:, 0]
    return route_grouped(branch_a, branch_b, x, gate)[order]


def route_wrong_argsort(branch_a, branch_b, x, gate):
    order = torch.argsort(gate.int(), stable=True)
    return route_grouped_b_first(branch_a, branch_b, x, gate)[order]


def route_swapped(branch_a, branch_b, x, gate):
    return route_by_index_put(branch_a, branch_b, x, ~gate)


def route_any(branch_a, branch_b, x, gate):
    return branch_a(x) if gate.any() else branch_b(x)


def route_if(branch_a, branch_b, x, gate):
    return branch_a(x) if gate else branch_b(x)


def route_where_unaligned(branch_a, branch_b, x, gate):
    return torch.where(gate, branch_a(x), branch_b(x))


def route_always_both(branch_a, branch_b, x, gate):
    a, b = branch_a(x[gate]), branch_b(x[~gate])
    result = a.new_empty(len(x), *a.shape[1:])
    result[gate], result[~gate] = a, b
    return result


def route_in_place(branch_a, branch_b, x, gate):
    x[gate] = branch_a(x[gate])
    x[~gate] = branch_b(x[~gate])
    return x


def route_like_x(branch_a, branch_b, x, gate):
    result = torch.empty_like(x)
    if gate.any():
        result[gate] = branch_a(x[gate])
    if not gate.all():
        result[~gate] = branch_b(x[~gate])
    return result


def route_default_zeros(branch_a, branch_b, x, gate):
    shape = (branch_a(x[gate]) if gate.any() else branch_b(x[~gate])).shape[1:]
    result = torch.zeros(len(x), *shape)
    result[gate] = branch_a(x[gate])
    result[~gate] = branch_b(x[~gate])
    return result


def route_float32_buffer(branch_a, branch_b, x, gate):
    result = None
    for i, on in enumerate(gate.tolist()):
        row = (branch_a if on else branch_b)(x[i : i + 1])[0]
        result = torch.zeros(len(x), *row.shape) if result is None else result
        result[i] = row  # one row at a time is converted without a word
    return result


def route_where_column(branch_a, branch_b, x, gate):
    return torch.where(gate[:, None], branch_a(x), branch_b(x))


def route_multiplied_column(branch_a, branch_b, x, gate):
    return branch_a(x) * gate[:, None] + branch_b(x) * ~gate[:, None]


def route_idle_in_numpy(branch_a, branch_b, x, gate):
    for parameter in (*branch_a.parameters(), *branch_b.parameters()):
        parameter.detach().numpy().sum()
    return route_by_index_put(branch_a, branch_b, x, gate)


def route_no_grad_write(branch_a, branch_b, x, gate):
    parts = [(mask, branch(x[mask])) for mask, branch in ((gate, branch_a), (~gate, branch_b)) if mask.any()]
    result = parts[0][1].new_zeros(len(x), *parts[0][1].shape[1:])
    with torch.no_grad():
        for mask, part in parts:
            result[mask] = part
    return result


def route_fills_data(branch_a, branch_b, x, gate):
    result = None
    for mask, branch in ((gate, branch_a), (~gate, branch_b)):
        if mask.any():
            rows = branch(x[mask])
            result = rows.new_zeros(len(x), *rows.shape[1:]) if result is None else result
            result.data[mask] = rows
    return result


def route_from_lists(branch_a, branch_b, x, gate):
    rows = [(branch_a if on else branch_b)(row[None])[0].tolist() for row, on in zip(x, gate, strict=True)]
    return torch.tensor(rows, dtype=x.dtype)


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


class MaskedSqrtSlope(MaskedSqrt):
    @staticmethod
    def backward(ctx, gradient):
        return MaskedSqrt.backward(ctx, torch.ones_like(gradient))


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


def sqrt_early_zeros(x):
    return sqrt_where_inside(x) if (x > 0).any() else torch.zeros_like(x)


def sqrt_of_the_largest_first(x):
    return x * 0 if x.max() <= 0 else sqrt_where_inside(x)


def sqrt_masked_inside(x):
    return (x * (x > 0)).sqrt()


def sqrt_with_one(x):
    return torch.where(x > 0, x, torch.ones(1)).sqrt() * (x > 0)


def sqrt_maximum(x):
    return torch.maximum(x, torch.zeros_like(x)).sqrt()


def sqrt_not_negative(x):
    result = torch.zeros_like(x)
    result[x >= 0] = x[x >= 0].sqrt()
    return result


def sqrt_repaired(x):
    root = x.sqrt()
    root[x <= 0] = 0
    return root


def sqrt_from_list(x):
    numbers = [number**0.5 if number > 0 else 0.0 for number in x.flatten().tolist()]
    return torch.tensor(numbers, dtype=x.dtype).view_as(x)


def sqrt_where(x):
    return torch.where(x > 0, x.sqrt(), 0.0)


def sqrt_clamp(x):
    return x.clamp(min=0).sqrt()


def clamp_chooses():
    """Whether clamp, like relu, passes no gradient on where x is the bound: since PyTorch 2.14."""
    x = torch.zeros((), requires_grad=True)
    x.clamp(min=0).backward()
    return x.grad.item() == 0


def sqrt_relu(x):
    return x.relu().sqrt()


def sqrt_nan_to_num(x):
    return x.sqrt().nan_to_num(0.0)


def sqrt_where_not_negative(x):
    return torch.where(x >= 0, x, 1.0).sqrt() * (x > 0)


def sqrt_multiply(x):
    return x.sqrt() * (x > 0)


def sqrt_epsilon(x):
    return (x.clamp(min=0) + 1e-12).sqrt()


def sqrt_of_a_number_too_small_for_16_bits(x):
    mask = (x > 0).to(x.dtype)
    return (x * mask + (1 - mask) * 1e-8).sqrt() * mask


def sqrt_clamp_epsilon(x):
    return torch.where(x > 0, x.clamp(min=1e-12).sqrt(), 0.0)


def sqrt_clamped_at_the_smallest_normal(x):
    return torch.where(x > 0, x.clamp(min=torch.finfo(x.dtype).tiny).sqrt(), 0)


def sqrt_clamped_at_tiny(x):
    return x.clamp(min=torch.finfo(x.dtype).tiny).sqrt()


def sqrt_shifted_inside(x):
    return torch.where(x > 0, (x.clamp(min=0) + 1e-8).sqrt(), 0)  # hardly wrong at 4, and far off at 1e-300


def sqrt_absolute(x):
    return x.abs().sqrt()


def sqrt_absolute_masked(x):
    return x.abs().sqrt() * (x > 0)


def sqrt_no_grad(x):
    with torch.no_grad():
        return sqrt_safe_inside(x)


def sqrt_detached_root(x):
    return x.clamp(min=0).detach().sqrt()


def sqrt_hook_on_x(x):
    if x.requires_grad:
        x.register_hook(lambda gradient: torch.where(gradient.isfinite(), gradient, 0.0))
    return sqrt_where(x)


def sqrt_always_hooked(x):
    x.register_hook(lambda gradient: torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0))
    return torch.nan_to_num(x.sqrt(), nan=0.0)


def sqrt_beside_one(x):
    return torch.where(x > 0, torch.where(x > 0, x, torch.ones(())).sqrt(), 0.0)


def sqrt_in_default_dtype(x):
    result, keep = torch.zeros(x.shape), x > 0
    result[keep] = x[keep].sqrt()
    return result


def sqrt_clamped_in_place(x):
    return x.clamp_(min=0).sqrt()


def sqrt_data_clamped(x):
    x.data.clamp_(min=0)
    return x.sqrt()


def sqrt_wide(x):
    return torch.where(x > 0, x, 1.0).sqrt() * torch.where(x > 0, 1.0, 0.0)


def sqrt_cast(x):
    return sqrt_safe_inside(x.float())


def sqrt_if(x):
    return x.sqrt() if x > 0 else torch.zeros_like(x)


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


class GateSlope(Gate):
    @staticmethod
    def backward(ctx, gradient):
        return Gate.backward(ctx, torch.ones_like(gradient))


class GateIdentity(Gate):
    @staticmethod
    def backward(ctx, gradient):
        return gradient


class GateClipped(Gate):
    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-1, 1)


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


def gate_added(logit):
    return hard(logit) + torch.sigmoid(logit)


def gate_cancelled(logit):
    s = torch.sigmoid(logit)
    return s + (hard(logit) - s)


def gate_soft_first(logit):
    soft, hard_values = torch.sigmoid(logit), hard(logit)
    return soft + (hard_values - soft)


def gate_scalars(logit):
    s = torch.sigmoid(logit)
    return torch.where(logit > 0, 1.0, 0.0) + (s - s.detach())


def gate_where(logit):
    s = torch.sigmoid(logit)
    return torch.where(logit > 0, torch.ones_like(s), torch.zeros_like(s))


def gate_product(logit):
    s = torch.sigmoid(logit)
    return hard(logit) * (1 + (s - s.detach()))


def gate_gumbel(logit):
    pair = torch.stack([logit, torch.zeros_like(logit)], dim=-1)
    return nn.functional.gumbel_softmax(pair, hard=True)[..., 0]


def gate_sum_order(logit):
    s = torch.sigmoid(logit)
    return hard(logit) + s - s.detach()


def gate_detached_pair(logit):
    s = torch.sigmoid(logit)
    return (hard(logit) - s).detach() + s


def gate_sigmoid_first(logit):
    s = torch.sigmoid(logit)
    return (s > 0.5).to(s.dtype) + (s - s.detach())


class GateSaved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logit):
        ctx.save_for_backward(gate := hard(logit))
        return gate

    @staticmethod
    def backward(ctx, gradient):
        (gate,) = ctx.saved_tensors
        return gradient * gate * (1 - gate)


def gate_tanh(logit):
    t = torch.tanh(logit)
    return hard(logit) + (t - t.detach())


def gate_at_zero(logit):
    s = torch.sigmoid(logit)
    return (logit >= 0).to(s.dtype) + (s - s.detach())


def gate_of_signs(logit):
    s = torch.sigmoid(logit)
    return (logit.sign() + 1).detach() / 2 + (s - s.detach())


def gate_identity(logit):
    return hard(logit) + (logit - logit.detach())


def gate_doubled(logit):
    s = torch.sigmoid(logit)
    return hard(logit) + 2 * (s - s.detach())


def gate_scaled(logit):
    s = torch.sigmoid(logit)
    return hard(logit) * s / s.detach()


def gate_data_of_sigmoid(logit):
    s = torch.sigmoid(logit)
    s.data.copy_(hard(logit))
    return s


def gate_edited_output(logit):
    s = torch.sigmoid(logit)
    with torch.no_grad():
        s.copy_(hard(logit))
    return s


def gate_float(logit):
    s = torch.sigmoid(logit.float())
    return (logit > 0).float() + (s - s.detach())


def gate_fresh_leaf(logit):
    return hard(logit).requires_grad_()


def gate_sampled(logit):
    s = torch.sigmoid(logit)
    return torch.bernoulli(s.detach()) + (s - s.detach())


def gate_by_hand(logit):
    s = 1 / (1 + torch.exp(-logit))
    return hard(logit) + (s - s.detach())


def gate_clamped(logit):
    s = torch.sigmoid(logit.clamp(-20, 20))
    return hard(logit) + (s - s.detach())


def gate_clamped_at(bound):
    def gate(logit):
        s = torch.sigmoid(logit.clamp(-bound, bound))
        return hard(logit) + (s - s.detach())

    return gate


def gate_edited_through_data(logit):
    s = torch.sigmoid(logit)
    s.data.copy_(logit.data > 0)
    return s


def gate_left_to_right(logit):
    soft = torch.sigmoid(logit)
    return hard(logit) - soft.detach() + soft


def gate_leaf_in_place(logit):
    return logit.sigmoid_().round_()


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

WRONG = (
    Wrong("gated_forward", "multiply", gated_multiply),
    Wrong("gated_forward", "multiply", gated_where, "torch.where"),
    Wrong("gated_forward", "by other means", gated_numpy, "in NumPy"),
    Wrong("gated_forward", "no_grad", gated_no_grad),
    Wrong("gated_forward", "no_grad", gated_no_grad_for_shape, "no_grad for the shape"),
    Wrong("gated_forward", "no_grad", gated_no_grad_for_shape_in_dtype_of_x, "no_grad, in the dtype of x"),
    Wrong("gated_forward", "frozen", gated_frozen),
    Wrong("gated_forward", "shape", gated_zeros_like_closed),
    Wrong("gated_forward", "cut off", gated_detached_closed),
    Wrong("gated_forward", "by other means", gated_unseen_call, "a call struck out"),
    Wrong("gated_forward", "by other means", gated_layers, "its layers, not itself"),
    Wrong("gated_forward", "twice", gated_twice),
    Wrong("gated_forward", "order", gated_open_first, "the open half first"),
    Wrong("gated_forward", "order", gated_other_order, "the halves exchanged"),
    Wrong("gated_forward", "inverted", gated_inverted),
    Wrong("gated_forward", "missing", gated_open_alone),
    Wrong("gated_forward", "missing", gated_zero_number, "the number 0"),
    Wrong("gated_forward", "other dimension", gated_batch_dimension),
    Wrong("gated_forward", "stacked", gated_stacked_halves),
    Wrong("gated_forward", "vectors", gated_rows_of_zeros),
    Wrong("gated_forward", "not zeroed", gated_no_grad_values),
    Wrong("gated_forward", "input masked", gated_input_masked),
    Wrong("gated_forward", "nan", gated_open_times_zero),
    Wrong("gated_forward", "dtype", gated_default_zeros),
    Wrong("gated_forward", "dtype of x", gated_zeros_in_dtype_of_x),
    Wrong("gated_forward", "tensor gate", gated_is_true),
    Wrong("gated_forward", "bool gate", gated_item),
    Wrong("gated_forward", "detached", gated_detached),
    Wrong("gated_forward", "detached", gated_under_no_grad, "all under no_grad"),
    Wrong("gated_forward", "x detached", gated_detached_input),
    Wrong("gated_forward", "shape of x", gated_zeros_like_x),
    Wrong("gated_forward", "unwritten", gated_ones),
    Wrong("gated_forward", "fabricated", gated_fabricated),
    Wrong("gated_forward", "multiply", gated_masked_fill, "masked_fill"),
    Wrong("gated_forward", "shape", gated_one_row_for_shape, "one row for the shape"),
    Wrong("gated_forward", "shape", gated_no_rows_for_shape, "no rows for the shape"),
    Wrong("gated_forward", "other dimension", gated_last_dimension, "the last dimension"),
    Wrong("gated_forward", "zeros wanted", gated_zeros_for_each_weight),
    Wrong("predicted_cost", "gate stops forward", COSTS | {"multiply": (1, 1, "None")}),
    Wrong("predicted_cost", "gate stops forward", COSTS | {"multiply": (1, 1, "zeros")}, "zeros after a run of one"),
    Wrong(
        "predicted_cost",
        "closed alone",
        COSTS | {"multiply": (1, 1, None), "skip": (0, 0, None)},
        "the closed branch alone, no_grad right",
    ),
    Wrong(
        "predicted_cost",
        "closed alone",
        COSTS | {"multiply": (1, 1, "zeros"), "skip": (0, 0, "zeros")},
        "the closed branch alone, with zeros",
    ),
    Wrong(
        "predicted_cost",
        "closed alone",
        {"multiply": (1, 1, "zeros"), "no_grad": (1, 0, None), "skip": (0, 0, None)},
        "the closed branch alone",
    ),
    Wrong(
        "predicted_cost",
        "unrecorded gives zeros",
        COSTS | {"no_grad": (2, 1, "zeros"), "skip": (1, 1, "zeros")},
        "zeros everywhere",
    ),
    Wrong("predicted_cost", "gate stops backward", COSTS | {"multiply": (2, 1, "zeros")}),
    Wrong("predicted_cost", "exchanged", COSTS | {"no_grad": (1, 2, "None")}),
    Wrong("predicted_cost", "zeros are none", COSTS | {"multiply": (2, 2, None)}),
    Wrong("predicted_cost", "no_grad stops forward", COSTS | {"no_grad": (1, 1, "None")}),
    Wrong("predicted_cost", "no_grad goes backward", COSTS | {"no_grad": (2, 2, "None")}),
    Wrong("predicted_cost", "no_grad ends backward", COSTS | {"no_grad": (2, 0, "None")}),
    Wrong("predicted_cost", "no_grad gives zeros", COSTS | {"no_grad": (2, 1, "zeros")}),
    Wrong("predicted_cost", "skip runs", COSTS | {"skip": (2, 1, "None")}),
    Wrong("predicted_cost", "closed alone", COSTS | {"skip": (0, 0, "None")}, "the closed branch alone, skipped"),
    Wrong("predicted_cost", "skip goes backward", COSTS | {"skip": (1, 2, "zeros")}),
    Wrong("predicted_cost", "skip gives zeros", COSTS | {"skip": (1, 1, "zeros")}),
    Wrong("route", "choose afterwards", route_where, "torch.where"),
    Wrong("route", "choose afterwards", route_multiply, "masks"),
    Wrong("route", "choose afterwards", route_all_then_pick, "all rows, then a few"),
    Wrong("route", "choose afterwards", route_masked_inputs, "masked inputs"),
    Wrong("route", "grouped", route_grouped),
    Wrong("route", "grouped", route_grouped_b_first, "b's block first"),
    Wrong("route", "inverse", route_wrong_inverse),
    Wrong("route", "inverse", route_wrong_argsort, "argsort itself"),
    Wrong("route", "swapped", route_swapped),
    Wrong("route", "one gate", route_any, "any()"),
    Wrong("route", "one gate", route_if, "if gate"),
    Wrong("route", "broadcast", route_where_unaligned),
    Wrong("route", "empty batch", route_always_both),
    Wrong("route", "in place", route_in_place),
    Wrong("route", "shape of x", route_like_x),
    Wrong("route", "dtype", route_default_zeros),
    Wrong("route", "dtype", route_float32_buffer, "row by row into float32"),
    Wrong("route", "dtype", lambda *given: route_by_inverse(*given).float(), "cast to float32"),
    Wrong("route", "dtype of x", route_in_dtype_of_x),
    Wrong("route", "dtype of x", route_room_like_x, "room in the dtype of x"),
    Wrong("route", "choose afterwards", route_where_column, "torch.where, a column"),
    Wrong("route", "choose afterwards", route_multiplied_column, "masks, a column"),
    Wrong("route", "choose afterwards", route_idle_in_numpy, "in NumPy"),
    Wrong("route", "detached", route_no_grad_write),
    Wrong("route", "detached", route_from_lists, "lists"),
    Wrong("route", "detached", route_fills_data, "written through data"),
    Wrong("route", "left out", route_zeros_for_the_rest),
    Wrong("route", "choose afterwards", route_all_through_a, "all through a"),
    Wrong("route", "twice", route_asks_for_the_shape),
    Wrong("route", "thrown away", route_dummy_row),
    Wrong("route", "x detached", route_detached_rows),
    Wrong("route", "x detached", route_picks_under_no_grad, "picked under no_grad", earns=1.36),
    Wrong("route", "x detached", route_detached_into_zeros, "into zeros"),
    Wrong("route", "x detached", route_detached_row_by_row, "row by row"),
    Wrong("route", "one gate", route_first_row_decides, "the first row decides"),
    Wrong("route", "one row", route_squeezed, earns=1.68),
    Wrong("route", "one row", route_room_beside_squeezed, "squeezed, with room for a row without a batch"),
    Wrong("route", "one row", route_cat_of_rows, "rows without a batch dimension"),
    Wrong("route", "nonzero", route_nonzero),
    Wrong("route", "vectors", route_two_dimensions),
    Wrong("route", "size one", route_stacked_batches),
    Wrong("route", "shape of x", route_scattered_like_x, "masked_scatter into zeros"),
    Wrong("route", "no rows", route_room_of_a),
    Wrong("route", "no rows", route_none_without_a, "None where a has no rows", earns=1.52),
    Wrong("route", "input masked", route_masked_sum),
    Wrong("masked_sqrt", "one element", sqrt_with_one),
    Wrong("masked_sqrt", "stand-in", lambda x: torch.where(x > 0, x, 1).sqrt()),
    Wrong("masked_sqrt", "where", sqrt_masked_inside, "a mask inside"),
    Wrong("masked_sqrt", "zero itself", sqrt_maximum, "maximum"),
    Wrong("masked_sqrt", "zero itself", sqrt_not_negative, "x >= 0"),
    Wrong("masked_sqrt", "result edited", sqrt_repaired),
    Wrong("masked_sqrt", "detached", sqrt_from_list, "a list"),
    Wrong("masked_sqrt", "where", sqrt_where),
    Wrong("masked_sqrt", "where", sqrt_nan_to_num, "nan_to_num"),
    *([] if clamp_chooses() else [Wrong("masked_sqrt", "zero itself", sqrt_clamp, "clamp")]),
    Wrong("masked_sqrt", "zero itself", sqrt_where_not_negative),
    Wrong("masked_sqrt", "multiply", sqrt_multiply),
    Wrong("masked_sqrt", "epsilon", sqrt_epsilon),
    Wrong("masked_sqrt", "epsilon", sqrt_clamp_epsilon, "clamped at an epsilon"),
    Wrong("masked_sqrt", "epsilon", sqrt_of_a_number_too_small_for_16_bits, "too small for 16 bits"),
    Wrong("masked_sqrt", "epsilon", sqrt_clamped_at_the_smallest_normal, "clamped at the smallest normal number"),
    Wrong("masked_sqrt", "epsilon", sqrt_clamped_at_tiny, "clamped at tiny, and no mask"),
    Wrong("masked_sqrt", "epsilon", sqrt_shifted_inside, "an epsilon where x is positive"),
    Wrong("masked_sqrt", "absolute", sqrt_absolute),
    Wrong("masked_sqrt", "zero itself", sqrt_absolute_masked, "the absolute value's, masked"),
    Wrong("masked_sqrt", "detached", sqrt_no_grad),
    Wrong("masked_sqrt", "detached", sqrt_detached_root, "a detached root"),
    Wrong("masked_sqrt", "early", sqrt_early_zeros),
    Wrong("masked_sqrt", "no elements", sqrt_of_the_largest_first, earns=0.95),
    Wrong("masked_sqrt", "hook on x", sqrt_hook_on_x),
    Wrong("masked_sqrt", "hook on x", sqrt_always_hooked, "a hook, whatever x is", earns=0.85),
    Wrong("masked_sqrt", "edited", sqrt_clamped_in_place),
    Wrong("masked_sqrt", "upstream", MaskedSqrtSlope.apply),
    Wrong("masked_sqrt", "scalar if", sqrt_if),
    Wrong("masked_sqrt", "dtype", sqrt_wide),
    Wrong("masked_sqrt", "dtype", sqrt_cast, "a cast", earns=0.8),
    Wrong("masked_sqrt", "dtype", sqrt_beside_one, "a one of float32", earns=0.95),
    Wrong("masked_sqrt", "dtype", sqrt_in_default_dtype, "the result in the default dtype", earns=0.8),
    Wrong("hard_gate", "added", gate_added),
    Wrong("hard_gate", "cancelled", gate_cancelled),
    Wrong("hard_gate", "cancelled", gate_soft_first, "soft + (hard - soft)"),
    Wrong("hard_gate", "dtype", gate_scalars, "torch.where of two numbers"),
    Wrong("hard_gate", "comparison", gate_where, "torch.where"),
    Wrong("hard_gate", "scaled", gate_product, "a product"),
    Wrong("hard_gate", "sampled", gate_gumbel, "gumbel_softmax"),
    Wrong("hard_gate", "comparison", hard),
    Wrong("hard_gate", "comparison", lambda logit: (logit > 0).float(), "float()"),
    Wrong("hard_gate", "zero gradient", lambda logit: torch.sigmoid(logit).round(), "round"),
    Wrong("hard_gate", "zero gradient", lambda logit: (logit.sign() + 1) / 2, "sign"),
    Wrong("hard_gate", "soft", torch.sigmoid),
    Wrong("hard_gate", "soft", lambda logit: torch.sigmoid(5 * logit), "a steep sigmoid"),
    Wrong("hard_gate", "identity", gate_identity),
    Wrong("hard_gate", "identity", GateIdentity.apply, "a Function that hands on"),
    Wrong("hard_gate", "no slope", GateClipped.apply),
    Wrong("hard_gate", "order", gate_sum_order),
    Wrong("hard_gate", "clamped", gate_clamped),
    Wrong("hard_gate", "clamped", gate_clamped_at(10), "clamped at 10", earns=1.9),
    Wrong("hard_gate", "clamped", gate_clamped_at(5), "clamped at 5", earns=0),
    Wrong("hard_gate", "saved output", gate_edited_through_data, "through data"),
    Wrong("hard_gate", "sigmoid first", gate_sigmoid_first),
    Wrong("hard_gate", "at zero", gate_at_zero),
    Wrong("hard_gate", "half open", gate_of_signs, earns=1.6),
    Wrong("hard_gate", "doubled", gate_doubled),
    Wrong("hard_gate", "scaled", gate_scaled),
    Wrong("hard_gate", "upstream", GateSlope.apply),
    Wrong("hard_gate", "saved output", gate_edited_output),
    Wrong("hard_gate", "saved output", gate_leaf_in_place, "the logit itself"),
    Wrong("hard_gate", "dtype", gate_float),
    Wrong("hard_gate", "fresh leaf", gate_fresh_leaf),
    Wrong("hard_gate", "sampled", gate_sampled),
    Wrong("hard_gate", "by hand", gate_by_hand),
    Wrong("hard_gate", "saved", GateSaved.apply),
    Wrong("hard_gate", "surrogate", gate_tanh),
    Wrong("hard_gate", "one element", lambda logit: torch.where(logit > 0, torch.ones(1), torch.zeros(1))),
)
