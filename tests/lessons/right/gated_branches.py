"""Right answers to the exercises of lesson 06, written otherwise than the course's own."""

# %%
def hard(logit):
    return (logit > 0).to(logit.dtype)

# %% gated_forward: written into zeros
def gated_forward(branch_a, branch_b, x, use_a):
    opened = (branch_a if use_a else branch_b)(x)
    size = opened.shape[1]
    result = opened.new_zeros(len(opened), 2 * size, *opened.shape[2:])
    start = 0 if bool(use_a) else size
    result[:, start : start + size] = opened
    return result

# %% gated_forward: padded
def gated_forward(branch_a, branch_b, x, use_a):
    opened = [branch_b, branch_a][int(use_a)](x)
    sides = (0, opened.shape[1]) if use_a else (opened.shape[1], 0)
    return nn.functional.pad(opened, (0, 0) * (opened.dim() - 2) + sides)

# %% gated_forward: hstack, flagged zeros
def gated_forward(branch_a, branch_b, x, use_a):
    opened = branch_a.forward(x) if use_a else branch_b.forward(x)
    halves = [torch.zeros_like(opened).requires_grad_()] * 2
    halves[not use_a] = opened
    return torch.hstack(halves)

# %% predicted_cost: None itself, lists
predicted_cost = {"multiply": [2, 2, " ZEROS "], "no_grad": [2, 1, None], "skip": (1, 1, None)}

# %% predicted_cost: floats and bools
predicted_cost = {"multiply": (2.0, 2, "zeros"), "no_grad": (2, True, "none"), "skip": (True, True, "None")}

# %% route: index_put
def route(branch_a, branch_b, x, gate):
    parts = [(mask, branch(x[mask])) for mask, branch in ((gate, branch_a), (~gate, branch_b)) if mask.any()]
    result = parts[0][1].new_zeros(len(x), *parts[0][1].shape[1:])
    for mask, part in parts:
        result = result.index_put((mask,), part)
    return result

# %% route: the inverse order
def route(branch_a, branch_b, x, gate):
    order = torch.argsort(gate.to(torch.int8), descending=True, stable=True)
    count = int(gate.sum())
    blocks = []
    if count:
        blocks.append(branch_a(x[order[:count]]))
    if count < len(x):
        blocks.append(branch_b(x[order[count:]]))
    return torch.cat(blocks)[torch.argsort(order)]

# %% route: row by row
def route(branch_a, branch_b, x, gate):
    return torch.cat([(branch_a if on else branch_b)(row[None]) for row, on in zip(x, gate, strict=True)])

# %% route: index_copy
def route(branch_a, branch_b, x, gate):
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

# %% route: lists of rows
def route(branch_a, branch_b, x, gate):
    result = [None] * len(x)
    for branch, wanted in ((branch_a, True), (branch_b, False)):
        mine = [i for i, on in enumerate(gate.tolist()) if on is wanted]
        if mine:
            for i, row in zip(mine, branch(torch.stack([x[i] for i in mine])), strict=True):
                result[i] = row
    return torch.stack(result)

# %% route: masked_scatter
def route(branch_a, branch_b, x, gate):
    if gate.all() or not gate.any():
        return (branch_a if gate.all() else branch_b)(x)
    a, b = branch_a(x[gate]), branch_b(x[~gate])
    mask = gate.view(-1, *[1] * (a.dim() - 1)).expand(len(x), *a.shape[1:])
    return torch.zeros_like(mask, dtype=a.dtype).masked_scatter(mask, a).masked_scatter(~mask, b)

# %% masked_sqrt: scattered
def masked_sqrt(x):
    flat = x.reshape(-1)
    index = (flat > 0).nonzero()[:, 0]
    return torch.zeros_like(flat).scatter(0, index, flat[index].sqrt()).view_as(x)

# %% masked_sqrt: a hook inside
def masked_sqrt(x):
    inner = x.clamp(min=0)
    if inner.requires_grad:  # the hook is on a tensor of the answer's own
        inner.register_hook(lambda gradient: torch.where(inner > 0, gradient, 0))
    return inner.sqrt()

# %% masked_sqrt: relu, whose backward chooses
def masked_sqrt(x):
    return x.relu().sqrt()

# %% masked_sqrt: clamp, whose backward chooses as well since PyTorch 2.14
zero = torch.zeros((), requires_grad=True)
zero.clamp(min=0).backward()


def masked_sqrt(x):
    return x.relu().sqrt() if zero.grad else x.clamp(min=0).sqrt()

# %% masked_sqrt: a Function
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


masked_sqrt = MaskedSqrt.apply

# %% masked_sqrt: half the logarithm
def masked_sqrt(x):
    result = torch.zeros_like(x)
    result[x > 0] = (x[x > 0].log() / 2).exp()
    return result

# %% hard_gate: a Function
class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logit):
        ctx.save_for_backward(logit)
        return (logit > 0).to(logit.dtype)

    @staticmethod
    def backward(ctx, gradient):
        s = ctx.saved_tensors[0].sigmoid()
        return gradient * s * (1 - s)


hard_gate = Gate.apply

# %% hard_gate: a clone, overwritten
def hard_gate(logit):
    result = torch.sigmoid(logit).clone()
    with torch.no_grad():
        result.copy_(hard(logit))
    return result
