"""Right answers to the exercises of lesson 09, written otherwise than the course's own."""

# %%
from torch.utils.checkpoint import checkpoint


def pieces(x, y, micro_batch):
    return zip(x.split(micro_batch), y.split(micro_batch), strict=True)


def put_back(accumulate):
    """The answer, with the old gradients set aside: added at the end, put back where it raises."""

    def accumulate_safely(model, loss_fn, x, y, micro_batch):
        held = [(p, p.grad) for p in model.parameters()]
        model.zero_grad()
        try:
            total = accumulate(model, loss_fn, x, y, micro_batch)
            sums = [old if p.grad is None else p.grad if old is None else p.grad + old for p, old in held]
            held = [(p, new) for (p, _), new in zip(held, sums, strict=True)]
        finally:
            for parameter, gradient in held:
                parameter.grad = gradient
        return total

    return accumulate_safely


def accumulate_loop(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_by_grad(model, loss_fn, x, y, micro_batch):
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p) for p in parameters]
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target)
        for held, gradient in zip(sums, torch.autograd.grad(loss, parameters), strict=True):
            held += len(part) * gradient
        total += loss.item() * len(part)
    for parameter, held in zip(parameters, sums, strict=True):
        held /= len(x)
        parameter.grad = held if parameter.grad is None else parameter.grad + held
    return total / len(x)


def accumulate_functional(model, loss_fn, x, y, micro_batch):
    flagged = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def loss_of(weights, part, target):
        return loss_fn(torch.func.functional_call(model, weights, (part,)), target)

    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        weights = {name: p.detach() for name, p in flagged.items()}
        gradients, loss = torch.func.grad_and_value(loss_of)(weights, part, target)
        share = len(part) / len(x)
        for name, parameter in flagged.items():
            step = share * gradients[name]
            parameter.grad = step if parameter.grad is None else parameter.grad + step
        total += share * loss.item()
    return total


def step_with(accumulator):
    """An answer that fills ``.grad`` in this way."""

    def accumulated_step(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
        for parameter in model.parameters():
            parameter.grad = None
        optimizer.zero_grad()
        total = accumulator(model, loss_fn, x, y, micro_batch)
        nn.utils.clip_grad_norm_(list(model.parameters()), max_norm)
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None
        return total

    return accumulated_step


def undone(step):
    """The answer, and where it raises every ``.grad`` is put back."""

    def step_safely(model, *given):
        held = [(p, None if p.grad is None else p.grad.clone()) for p in model.parameters()]
        try:
            return step(model, *given)
        except BaseException:
            for parameter, gradient in held:
                parameter.grad = gradient
            raise

    return step_safely


def refuse(grads_and_params, weights):
    if weights is not None and len(weights) != len(grads_and_params):
        raise ValueError(f"{len(weights)} weights for {len(grads_and_params)} micro-batches")
    if weights is not None and sum(weights) == 0:
        raise ValueError("weights that add up to 0")
    for pairs in grads_and_params:
        for gradient, parameter in pairs:
            if gradient is not None and gradient.shape != parameter.shape:
                raise ValueError(f"gradient {tuple(gradient.shape)}, parameter {tuple(parameter.shape)}")


def chi2(h, target):
    return ((h - target) ** 2 / target).sum()


def counted(model, batches, bins):
    with torch.no_grad():
        return sum(soft_histogram(model(x), bins) for x in batches)


def pushed(h, target):
    h = h.detach().requires_grad_()
    return torch.autograd.grad(chi2(h, target), h)[0]

# %% accumulate: a loop
accumulate = put_back(accumulate_loop)

# %% accumulate: backward's gradient argument
@put_back
def accumulate(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for start in range(0, len(x), micro_batch):
        part = x[start : start + micro_batch]
        loss = loss_fn(model(part), y[start : start + micro_batch])
        share = torch.tensor(len(part) / len(x), dtype=loss.dtype)
        loss.backward(share)
        total += float(loss) * share.item()
    return total

# %% accumulate: autograd.grad
accumulate = accumulate_by_grad

# %% accumulate: on top of the old gradients, with copies of them for the case of an error
def accumulate(model, loss_fn, x, y, micro_batch):
    copies = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    try:
        return accumulate_loop(model, loss_fn, x, y, micro_batch)
    except Exception:
        for parameter, gradient in zip(model.parameters(), copies, strict=True):
            parameter.grad = gradient
        raise

# %% accumulate: sums, then divides, which is right where the old gradients are set aside
@put_back
def accumulate(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = len(part) * loss_fn(model(part), target)
        loss.backward()
        total += loss.detach()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= len(x)
    return (total / len(x)).item()

# %% accumulate: a DataLoader
@put_back
def accumulate(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in DataLoader(TensorDataset(x, y), batch_size=micro_batch):
        loss = loss_fn(model(part), target) * (part.size(0) / x.size(0))
        total += loss.item()
        loss.backward()
    return total

# %% accumulate: torch.func: gradients as a dict, without backward
accumulate = put_back(accumulate_functional)

# %% accumulate: the scale sits in a hook on the output
@put_back
def accumulate(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        output = model(part)
        share = len(part) / len(x)
        output.register_hook(lambda gradient, share=share: gradient * share)
        loss = loss_fn(output, target)
        loss.backward()
        total += share * loss.item()
    return total

# %% accumulate: checkpointed, from the last micro-batch to the first
@put_back
def accumulate(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for rows in reversed(torch.arange(len(x)).split(micro_batch)):
        loss = loss_fn(checkpoint(model, x[rows], use_reentrant=False), y[rows]) * (len(rows) / len(x))
        loss.backward()
        total += loss.item()
    return total

# %% accumulate: a name keeps the last output until the next one is there
@put_back
def accumulate(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in DataLoader(TensorDataset(x, y), batch_size=micro_batch):
        output = model(part)
        loss = loss_fn(output, target)
        (loss * len(part) / len(x)).backward()
        total += loss.detach().item() * len(part)
    return total / len(x)

# %% accumulate: the gradients of all micro-batches wait in lists, and are stacked at the end
def accumulate(model, loss_fn, x, y, micro_batch):
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows, losses = [], []
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target)
        rows.append([g * (len(part) / len(x)) for g in torch.autograd.grad(loss, parameters)])
        losses.append(loss.item() * len(part) / len(x))
    for parameter, column in zip(parameters, zip(*rows, strict=True), strict=True):
        total = torch.stack(column).sum(0)
        parameter.grad = total if parameter.grad is None else parameter.grad + total
    return sum(losses)

# %% accumulated_step: plain
accumulated_step = undone(step_with(accumulate_loop))

# %% accumulated_step: torch.func
accumulated_step = undone(step_with(accumulate_functional))

# %% accumulated_step: clipped by hand
@undone
def accumulated_step(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    if norm > max_norm:
        for gradient in gradients:
            gradient *= max_norm / norm
    optimizer.step()
    model.zero_grad()
    return total

# %% accumulated_step: sums of its own, put into .grad at the end
@undone
def accumulated_step(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad(set_to_none=True)
    flagged = [p for p in model.parameters() if p.requires_grad]
    sums, total = None, 0.0
    for start in range(0, len(x), micro_batch):
        rows = slice(start, start + micro_batch)
        loss = loss_fn(model(x[rows]), y[rows])
        share = len(x[rows]) / len(x)
        parts = [share * g for g in torch.autograd.grad(loss, flagged)]
        sums = parts if sums is None else [a + b for a, b in zip(sums, parts, strict=True)]
        total += share * loss.item()
    norm = torch.stack([s.norm() for s in sums]).norm()
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for parameter, held in zip(flagged, sums, strict=True):
        parameter.grad = held * factor
    optimizer.step()
    for parameter in flagged:
        parameter.grad = None
    return total

# %% accumulated_step: in a closure
@undone
def accumulated_step(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    def closure():
        model.zero_grad()
        with torch.enable_grad():
            loss = accumulate_by_grad(model, loss_fn, x, y, micro_batch)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=False)
        return loss

    loss = optimizer.step(closure)
    model.zero_grad()
    return loss

# %% accumulated_step: losses of one backward
@undone
@step_with
def accumulated_step(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        total = total + loss_fn(model(part), target) * len(part) / len(x)
    total.backward()
    return total.item()

# %% apply_gradients: one stack a parameter, None as zeros
def apply_gradients(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    count = len(grads_and_params)
    weights = torch.tensor([1.0] * count if weights is None else list(weights), dtype=torch.float64)
    found = [{p: g for g, p in pairs} for pairs in grads_and_params]
    optimizer.zero_grad(set_to_none=True)
    for parameter in dict.fromkeys(p for pairs in grads_and_params for _, p in pairs):
        column = [pairs.get(parameter) for pairs in found]
        if all(gradient is None for gradient in column):
            continue
        stack = torch.stack([torch.zeros_like(parameter) if g is None else g for g in column]).detach()
        shares = (weights / weights.sum()).to(stack.dtype)
        parameter.grad = torch.tensordot(shares, stack, dims=1).reshape(parameter.shape)
    optimizer.step()
    optimizer.zero_grad()

# %% apply_gradients: accumulates in .grad itself, in tensors of its own
def apply_gradients(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    given = [1] * len(grads_and_params) if weights is None else list(weights)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None
    for weight, pairs in zip(given, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            if gradient is None:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.add_(gradient, alpha=weight / sum(given))
    optimizer.step()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None

# %% apply_gradients: a mean that is brought up to date with each micro-batch
def apply_gradients(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    parameters = {p for pairs in grads_and_params for _, p in pairs}
    means, seen = {p: None for p in parameters}, 0.0
    for index, pairs in enumerate(grads_and_params):
        weight = 1.0 if weights is None else float(weights[index])
        seen += weight
        lookup = dict((p, g) for g, p in pairs)
        for parameter in parameters:
            gradient = lookup.get(parameter)
            if means[parameter] is None and gradient is None:
                continue
            mean = torch.zeros_like(parameter) if means[parameter] is None else means[parameter]
            new = torch.zeros_like(parameter) if gradient is None else gradient
            means[parameter] = (mean + (new - mean) * (weight / seen if seen else 0.0)).detach()
    optimizer.zero_grad()
    for parameter, mean in means.items():
        parameter.grad = mean
    optimizer.step()
    optimizer.zero_grad()

# %% apply_gradients: backward of a loss whose gradient is the average
def apply_gradients(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    given = [1] * len(grads_and_params) if weights is None else weights
    optimizer.zero_grad()
    pairs = [(w, g, p) for w, pairs in zip(given, grads_and_params, strict=True) for g, p in pairs if g is not None]
    sum(w / sum(given) * (p * g).sum() for w, g, p in pairs).backward()
    optimizer.step()
    optimizer.zero_grad()

# %% histogram_gradient: checkpointed: one graph of all batches that keeps their inputs alone
def histogram_gradient(model, batches, target, bins):
    parts = [checkpoint(lambda x: soft_histogram(model(x), bins), x, use_reentrant=False) for x in batches]
    return list(torch.autograd.grad(chi2(sum(parts), target), list(model.parameters())))

# %% histogram_gradient: the value of all batches, the gradient of one
def histogram_gradient(model, batches, target, bins):
    h = counted(model, batches, bins)
    total = [0.0] * len(list(model.parameters()))
    for x in batches:
        part = soft_histogram(model(x), bins)
        loss = chi2(h - part.detach() + part, target)
        total = [a + g for a, g in zip(total, torch.autograd.grad(loss, list(model.parameters())), strict=True)]
    return total

# %% histogram_gradient: a first pass that records and lets go, and a loss that is the product with the push
def histogram_gradient(model, batches, target, bins):
    h = torch.zeros_like(target)
    for x in batches:
        h += soft_histogram(model(x), bins).detach()
    push = 2 * (h - target) / target
    total = [0] * len(list(model.parameters()))
    for x in batches:
        loss = (push * soft_histogram(model(x), bins)).sum()
        total = [a + g for a, g in zip(total, torch.autograd.grad(loss, list(model.parameters())), strict=True)]
    return total

# %% histogram_gradient: backward fills .grad, which is set aside and put back
def histogram_gradient(model, batches, target, bins):
    push = pushed(counted(model, batches, bins), target)
    old = [(p, p.grad) for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    try:
        for x in batches:
            soft_histogram(model(x), bins).backward(push)
        return [p.grad for p, _ in old]
    finally:
        for parameter, gradient in old:
            parameter.grad = gradient

# %% histogram_gradient: a copy
def histogram_gradient(model, batches, target, bins):
    twin = copy.deepcopy(model)
    twin.zero_grad(set_to_none=True)
    push = pushed(counted(twin, batches, bins), target)
    for x in batches:
        soft_histogram(twin(x), bins).backward(gradient=push)
    return [p.grad for p in twin.parameters()]

# %% histogram_gradient: the histogram and its Jacobian, batch by batch: one pass, and more work in backward
def histogram_gradient(model, batches, target, bins):
    parameters = list(model.parameters())
    h, jacobian = torch.zeros_like(target), [[torch.zeros_like(p) for p in parameters] for _ in bins]
    for x in batches:
        part = soft_histogram(model(x), bins)
        for i, row in enumerate(jacobian):
            last = i == len(bins) - 1
            for held, gradient in zip(
                row, torch.autograd.grad(part[i], parameters, retain_graph=not last), strict=True
            ):
                held += gradient
        h += part.detach()
    push = 2 * (h - target) / target
    return [sum(p * row[k] for p, row in zip(push, jacobian, strict=True)) for k in range(len(parameters))]

# %% histogram_gradient: torch.func
def histogram_gradient(model, batches, target, bins):
    names = [name for name, _ in model.named_parameters()]
    weights = {name: p.detach() for name, p in model.named_parameters()}
    push = pushed(counted(model, batches, bins), target)
    total = None
    for x in batches:
        _, pull = torch.func.vjp(
            lambda w, x=x: soft_histogram(torch.func.functional_call(model, w, (x,)), bins), weights
        )
        (part,) = pull(push)
        del pull  # it holds the graph
        total = part if total is None else {name: total[name] + part[name] for name in names}
    return [total[name] for name in names]

# %% histogram_gradient: the gradients of all batches wait in lists
def histogram_gradient(model, batches, target, bins):
    push, parameters = pushed(counted(model, batches, bins), target), list(model.parameters())
    rows = [torch.autograd.grad(soft_histogram(model(x), bins), parameters, push) for x in batches]
    return [torch.stack(column).sum(0) for column in zip(*rows, strict=True)]

# %% histogram_gradient: the derivative by hand, and the list of each batch's gradients until the end
def histogram_gradient(model, batches, target, bins):
    with torch.no_grad():
        h = sum(soft_histogram(model(x), bins) for x in batches)
    derivative, parameters, parts = 2 * (h - target) / target, list(model.parameters()), []
    for x in batches:
        loss = (soft_histogram(model(x), bins) * derivative).sum()
        parts.append([g.clone() for g in torch.autograd.grad(loss, parameters)])
    return [sum(gradients) for gradients in zip(*parts, strict=True)]

# %% histogram_gradient: a name for the output
def histogram_gradient(model, batches, target, bins):
    push, total = pushed(counted(model, batches, bins), target), None
    for x in batches:
        out = model(x)
        part = torch.autograd.grad(soft_histogram(out, bins), list(model.parameters()), push)
        total = list(part) if total is None else [a + b for a, b in zip(total, part, strict=True)]
    return total

# %% histogram_gradient: one forward pass; for each batch and bin a gradient is kept, and pushed at the end
def histogram_gradient(model, batches, target, bins):
    parameters, h, rows = list(model.parameters()), 0, []
    for x in batches:
        part = soft_histogram(model(x), bins)
        last = len(bins) - 1
        rows.append([torch.autograd.grad(part[k], parameters, retain_graph=k < last) for k in range(len(bins))])
        h = h + part.detach()
        del part
    push = pushed(h, target)
    pairs = [(factor, row) for of_batch in rows for factor, row in zip(push, of_batch, strict=True)]
    return [sum(factor * row[place] for factor, row in pairs) for place in range(len(parameters))]
