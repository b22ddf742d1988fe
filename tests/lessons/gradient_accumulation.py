"""Right and wrong answers to the exercises of lesson 09."""

import contextlib
import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from course_utils import soft_histogram
from tests.lessons.answers import Right, Wrong

# ---------------------------------------------------------------------------------------------------------- accumulate


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


def accumulate_clones(model, loss_fn, x, y, micro_batch):
    """On top of the old gradients, with copies of them for the case of an error."""
    copies = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    try:
        return accumulate_loop(model, loss_fn, x, y, micro_batch)
    except Exception:
        for parameter, gradient in zip(model.parameters(), copies, strict=True):
            parameter.grad = gradient
        raise


def accumulate_loop(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_by_gradient_argument(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for start in range(0, len(x), micro_batch):
        part = x[start : start + micro_batch]
        loss = loss_fn(model(part), y[start : start + micro_batch])
        share = torch.tensor(len(part) / len(x), dtype=loss.dtype)
        loss.backward(share)
        total += float(loss) * share.item()
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


def accumulate_sums_then_divides(model, loss_fn, x, y, micro_batch):
    """Right where the old gradients are set aside, since the sum is divided at the end."""
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = len(part) * loss_fn(model(part), target)
        loss.backward()
        total += loss.detach()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= len(x)
    return (total / len(x)).item()


def accumulate_loader(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in DataLoader(TensorDataset(x, y), batch_size=micro_batch):
        loss = loss_fn(model(part), target) * (part.size(0) / x.size(0))
        total += loss.item()
        loss.backward()
    return total


def accumulate_functional(model, loss_fn, x, y, micro_batch):
    """torch.func: gradients as a dict, without backward."""
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


def accumulate_hooked(model, loss_fn, x, y, micro_batch):
    """The scale sits in a hook on the output."""
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        output = model(part)
        share = len(part) / len(x)
        output.register_hook(lambda gradient, share=share: gradient * share)
        loss = loss_fn(output, target)
        loss.backward()
        total += share * loss.item()
    return total


def accumulate_whole(model, loss_fn, x, y, micro_batch):
    loss = loss_fn(model(x), y)
    loss.backward()
    return loss.item()


def accumulate_whole_forward(model, loss_fn, x, y, micro_batch):
    outputs, total = model(x), 0.0
    for output, target in pieces(outputs, y, micro_batch):
        loss = loss_fn(output, target) * len(output) / len(x)
        loss.backward(retain_graph=True)
        total += loss.item()
    return total


def accumulate_chunks(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in zip(x.chunk(micro_batch), y.chunk(micro_batch), strict=True):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_undivided(model, loss_fn, x, y, micro_batch):
    total, count = 0.0, 0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target)
        loss.backward()
        total += loss.item()
        count += 1
    return total / count


def accumulate_times_size(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * len(part)
        loss.backward()
        total += loss.item()
    return total / len(x)


def accumulate_by_count(model, loss_fn, x, y, micro_batch):
    parts = list(pieces(x, y, micro_batch))
    total = 0.0
    for part, target in parts:
        loss = loss_fn(model(part), target) / len(parts)
        loss.backward()
        total += loss.item()
    return total


def accumulate_by_nominal_size(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * micro_batch / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_wiped(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        model.zero_grad()
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_divided_twice(model, loss_fn, x, y, micro_batch):
    parts = list(pieces(x, y, micro_batch))
    total = accumulate_by_count(model, loss_fn, x, y, micro_batch)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= len(parts)
    return total


def accumulate_dropped(model, loss_fn, x, y, micro_batch):
    count, total = len(x) // micro_batch, 0.0
    for i in range(count):
        rows = slice(i * micro_batch, (i + 1) * micro_batch)
        loss = loss_fn(model(x[rows]), y[rows]) / count
        loss.backward()
        total += loss.item()
    return total


def accumulate_drop_last(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in DataLoader(TensorDataset(x, y), batch_size=micro_batch, drop_last=True):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_tensor(model, loss_fn, x, y, micro_batch):
    return torch.tensor(accumulate_loop(model, loss_fn, x, y, micro_batch))


def accumulate_last_loss(model, loss_fn, x, y, micro_batch):
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target)
        (loss * len(part) / len(x)).backward()
    return loss.item()


def accumulate_loss_sum(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target)
        (loss * len(part) / len(x)).backward()
        total += loss.item()
    return total


def accumulate_mean_of_losses(model, loss_fn, x, y, micro_batch):
    losses = []
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target)
        (loss * len(part) / len(x)).backward()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def accumulate_train(model, loss_fn, x, y, micro_batch):
    model.train()
    return accumulate_loop(model, loss_fn, x, y, micro_batch)


def accumulate_eval_for_a_while(model, loss_fn, x, y, micro_batch):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        return accumulate_loop(model, loss_fn, x, y, micro_batch)
    finally:
        for module, training in flags:
            module.training = training


def accumulate_reduction(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target, reduction="sum") / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_cleared(model, loss_fn, x, y, micro_batch):
    model.zero_grad()
    return accumulate_loop(model, loss_fn, x, y, micro_batch)


def accumulate_scaled_at_the_end(model, loss_fn, x, y, micro_batch):
    total = accumulate_times_size(model, loss_fn, x, y, micro_batch)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= len(x)
    return total


def accumulate_recorded(model, loss_fn, x, y, micro_batch):
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        for parameter, gradient in zip(
            parameters, torch.autograd.grad(loss, parameters, create_graph=True), strict=True
        ):
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        total += loss.item()
    return total


def accumulate_one_backward(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        total = total + loss_fn(model(part), target) * len(part) / len(x)
    total.backward()
    return total.item()


def accumulate_joined(model, loss_fn, x, y, micro_batch):
    loss = loss_fn(torch.cat([model(part) for part in x.split(micro_batch)]), y)
    loss.backward()
    return loss.item()


def accumulate_list_of_losses(model, loss_fn, x, y, micro_batch):
    losses = [loss_fn(model(part), target) * len(part) / len(x) for part, target in pieces(x, y, micro_batch)]
    for loss in losses:
        loss.backward()
    return sum(loss.item() for loss in losses)


def accumulate_retained(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward(retain_graph=True)
        total += loss.item()
    return total


def accumulate_retained_losses(model, loss_fn, x, y, micro_batch):
    losses = []
    for part, target in pieces(x, y, micro_batch):
        losses.append(loss_fn(model(part), target) * len(part) / len(x))
        losses[-1].backward(retain_graph=True)
    return sum(loss.item() for loss in losses)


def accumulate_put_back_at_the_end(model, loss_fn, x, y, micro_batch):
    held = [(p, p.grad) for p in model.parameters()]
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    for parameter, old in held:
        if old is not None:
            parameter.grad = old if parameter.grad is None else parameter.grad + old
    return total


def by_name(accumulate):
    """The answer, and where it raises the tensors that it has added into are put back."""

    def accumulate_by_name(model, *given):
        held = [(p, p.grad) for p in model.parameters()]
        try:
            return accumulate(model, *given)
        except BaseException:
            for parameter, gradient in held:
                parameter.grad = gradient
            raise

    return accumulate_by_name


def accumulate_swallows(model, loss_fn, x, y, micro_batch):
    held = [(p, p.grad) for p in model.parameters()]
    model.zero_grad()
    try:
        return put_back(accumulate_loop)(model, loss_fn, x, y, micro_batch)
    except Exception:
        for parameter in model.parameters():
            parameter.grad = None
        return float("nan")
    finally:
        for parameter, old in held:
            if old is not None:
                parameter.grad = old if parameter.grad is None else parameter.grad + old


def accumulate_cleared_frozen(model, loss_fn, x, y, micro_batch):
    """Adds to what trainable parameters held, and empties the frozen ones."""
    held = [(p, p.grad) for p in model.parameters()]
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    for parameter, old in held:
        if parameter.requires_grad and old is not None:
            parameter.grad += old
    return total


def accumulate_full_forward(model, loss_fn, x, y, micro_batch):
    accumulate_loop(model, loss_fn, x, y, micro_batch)
    with torch.no_grad():
        return loss_fn(model(x), y).item()


def accumulate_stepped(model, loss_fn, x, y, micro_batch):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    optimizer.step()
    return total


def accumulate_grad_of_all(model, loss_fn, x, y, micro_batch):
    parameters, total = list(model.parameters()), 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        total += loss.item()
    return total


def accumulate_returns_in_the_loop(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
        return total


def accumulate_first_targets(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part in x.split(micro_batch):
        loss = loss_fn(model(part), y[: len(part)]) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_under_no_grad(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        with torch.no_grad():
            output = model(part)
        loss = loss_fn(output, target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_overwrites(model, loss_fn, x, y, micro_batch):
    before = [p.grad for p in model.parameters()]
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    for parameter, old in zip(model.parameters(), before, strict=True):
        if not parameter.requires_grad:
            parameter.grad = old
    return total


def accumulate_checkpointed(model, loss_fn, x, y, micro_batch):
    """From the last micro-batch to the first, with the forward pass run again in backward."""
    total = 0.0
    for rows in reversed(torch.arange(len(x)).split(micro_batch)):
        loss = loss_fn(checkpoint(model, x[rows], use_reentrant=False), y[rows]) * (len(rows) / len(x))
        loss.backward()
        total += loss.item()
    return total


def accumulate_zeros_first(model, loss_fn, x, y, micro_batch):
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return accumulate_loop(model, loss_fn, x, y, micro_batch)


def accumulate_named_output(model, loss_fn, x, y, micro_batch):
    """A name keeps the last output until the next one is there."""
    total = 0.0
    for part, target in DataLoader(TensorDataset(x, y), batch_size=micro_batch):
        output = model(part)
        loss = loss_fn(output, target)
        (loss * len(part) / len(x)).backward()
        total += loss.detach().item() * len(part)
    return total / len(x)


def accumulate_lists(model, loss_fn, x, y, micro_batch):
    """The gradients of all micro-batches wait in lists, and are stacked at the end."""
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


def accumulate_zeros_put_back(model, loss_fn, x, y, micro_batch):
    """Zeros stand for None, also after an error."""
    held = [(p, torch.zeros_like(p) if p.grad is None else p.grad.clone()) for p in model.parameters()]
    try:
        return accumulate_loop(model, loss_fn, x, y, micro_batch)
    except Exception:
        for parameter, old in held:
            parameter.grad = old
        raise


def accumulate_clears_after_an_error(model, loss_fn, x, y, micro_batch):
    try:
        return accumulate_loop(model, loss_fn, x, y, micro_batch)
    except Exception:
        model.zero_grad()
        raise


def accumulate_clears_first(model, loss_fn, x, y, micro_batch):
    model.zero_grad()
    return accumulate_clears_after_an_error(model, loss_fn, x, y, micro_batch)


def accumulate_keeps_outputs(model, loss_fn, x, y, micro_batch):
    """All outputs, without their graphs, for one loss at the end."""
    outputs = []
    for part, target in pieces(x, y, micro_batch):
        output = model(part)
        (loss_fn(output, target) * len(part) / len(x)).backward()
        outputs.append(output.detach())
    return loss_fn(torch.cat(outputs), y).item()


def accumulate_copies_all_rows(model, loss_fn, x, y, micro_batch):
    batches = list(DataLoader(TensorDataset(x, y), batch_size=micro_batch))
    total = 0.0
    for part, target in batches:
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_edits_the_loss(model, loss_fn, x, y, micro_batch):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target)
        loss *= len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def accumulate_sums_onto_a_loss(model, loss_fn, x, y, micro_batch):
    total = None
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target)
        (loss * len(part) / len(x)).backward()
        if total is None:
            total = loss.detach()
            total *= len(part) / len(x)
        else:
            total += loss.detach() * len(part) / len(x)
    return total.item()


# ---------------------------------------------------------------------------------------------------- accumulated_step


def step_with(accumulator, clip=nn.utils.clip_grad_norm_):
    """An answer that differs from a right one in how it fills ``.grad`` or how it clips."""

    def accumulated_step(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
        for parameter in model.parameters():
            parameter.grad = None
        optimizer.zero_grad()
        total = accumulator(model, loss_fn, x, y, micro_batch)
        clip(list(model.parameters()), max_norm)
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


step_right = undone(step_with(accumulate_loop))


def step_by_hand(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
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


def step_own_sums(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    """Sums of its own, put into .grad at the end."""
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


def step_in_a_closure(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    def closure():
        model.zero_grad()
        with torch.enable_grad():
            loss = accumulate_by_grad(model, loss_fn, x, y, micro_batch)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm, foreach=False)
        return loss

    loss = optimizer.step(closure)
    model.zero_grad()
    return loss


def step_clip_late(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    model.zero_grad()
    return total


def clip_nothing(parameters, max_norm):
    pass


def step_clip_running(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        total += loss.item()
    optimizer.step()
    model.zero_grad()
    return total


def step_clip_parts(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    """Clips each micro-batch's own gradient, then takes the weighted mean."""
    model.zero_grad()
    sums, total = {}, 0.0
    for part, target in pieces(x, y, micro_batch):
        model.zero_grad()
        loss = loss_fn(model(part), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        for parameter in model.parameters():
            if parameter.grad is not None:
                sums[parameter] = sums.get(parameter, 0) + parameter.grad * len(part) / len(x)
        total += loss.item() * len(part) / len(x)
    for parameter, held in sums.items():
        parameter.grad = held
    optimizer.step()
    model.zero_grad()
    return total


def clip_tensors(parameters, max_norm):
    for parameter in parameters:
        nn.utils.clip_grad_norm_(parameter, max_norm)


def clip_values(parameters, max_norm):
    nn.utils.clip_grad_value_(parameters, max_norm)


def scale_always(parameters, max_norm):
    norm = torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).norm()
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad *= max_norm / norm


def step_clip_optimizer(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], max_norm)
    optimizer.step()
    model.zero_grad()
    return total


def step_not_cleared(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    model.zero_grad()
    return total


def step_optimizer_zero_grad(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    optimizer.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return total


def step_frozen_not_cleared(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = None
    return step_not_cleared(model, optimizer, loss_fn, x, y, micro_batch, max_norm)


def step_among_the_trainable(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    trainable = [p for p in model.parameters() if p.requires_grad]  # the others get no gradient anyway
    for parameter in trainable:
        parameter.grad = None
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    for parameter in trainable:
        parameter.grad = None
    return total


def step_puts_frozen_back(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    aside = [(p, p.grad) for p in model.parameters() if not p.requires_grad]
    total = step_with(accumulate_loop)(model, optimizer, loss_fn, x, y, micro_batch, max_norm)
    for parameter, gradient in aside:
        parameter.grad = gradient
    return total


def step_clip_before_division(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_times_size(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= len(x)
    optimizer.step()
    model.zero_grad()
    return total


def step_skipped(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    if nn.utils.clip_grad_norm_(model.parameters(), max_norm) <= max_norm:
        optimizer.step()
    model.zero_grad()
    return total


def step_own_sgd(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter -= group["lr"] * parameter.grad
    model.zero_grad()
    return total


def step_zeros(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    model.zero_grad(set_to_none=False)
    return total


def step_left(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


def step_left_outside(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return total


def step_each(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    total = 0.0
    for part, target in pieces(x, y, micro_batch):
        model.zero_grad()
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        total += loss.item()
    model.zero_grad()
    return total


def step_none(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    model.zero_grad()
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    model.zero_grad()
    return total


def step_loss_after(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    step_right(model, optimizer, loss_fn, x, y, micro_batch, max_norm)
    with torch.no_grad():
        return sum(loss_fn(model(p), t).item() * len(p) for p, t in pieces(x, y, micro_batch)) / len(x)


def step_from_zeros(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    """Old gradients become zeros, which are a gradient for the frozen ones."""
    model.zero_grad(set_to_none=False)
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    model.zero_grad()
    return total


def step_nothing_put_back(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    """Right where nothing raises."""
    return step_with(accumulate_loop)(model, optimizer, loss_fn, x, y, micro_batch, max_norm)


def step_on_zeros(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    """Zeros in the tensors that were there, and no gradient where there was none."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    held = [p for p in model.parameters() if p.grad is not None and not p.requires_grad]
    for parameter in held:
        parameter.grad = None  # weight decay moves a frozen weight that has zeros
    total = accumulate_loop(model, loss_fn, x, y, micro_batch)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    model.zero_grad()
    return total


def step_swallows(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    try:
        return step_right(model, optimizer, loss_fn, x, y, micro_batch, max_norm)
    except Exception:
        return float("nan")


def step_clears_after_an_error(model, optimizer, loss_fn, x, y, micro_batch, max_norm):
    try:
        return step_nothing_put_back(model, optimizer, loss_fn, x, y, micro_batch, max_norm)
    except Exception:
        model.zero_grad()
        raise


# ----------------------------------------------------------------------------------------------------- apply_gradients


def refuse(grads_and_params, weights):
    if weights is not None and len(weights) != len(grads_and_params):
        raise ValueError(f"{len(weights)} weights for {len(grads_and_params)} micro-batches")
    if weights is not None and sum(weights) == 0:
        raise ValueError("weights that add up to 0")
    for pairs in grads_and_params:
        for gradient, parameter in pairs:
            if gradient is not None and gradient.shape != parameter.shape:
                raise ValueError(f"gradient {tuple(gradient.shape)}, parameter {tuple(parameter.shape)}")


def apply_sums(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    weights = [1.0] * len(grads_and_params) if weights is None else weights
    sums = {}
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            if gradient is not None:
                sums[parameter] = sums.get(parameter, 0) + weight * gradient
    optimizer.zero_grad()
    for parameter, held in sums.items():
        parameter.grad = held / sum(weights)
    optimizer.step()
    optimizer.zero_grad()


def apply_stacked(optimizer, grads_and_params, weights=None):
    """One stack a parameter, None as zeros."""
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


def apply_in_place(optimizer, grads_and_params, weights=None):
    """Accumulates in .grad itself, in tensors of its own."""
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


def apply_running_mean(optimizer, grads_and_params, weights=None):
    """A mean that is brought up to date with each micro-batch."""
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


def apply_with(combine, check=refuse, clear=True):
    """An answer that differs in how it combines: ``combine(sums, weights, given)`` sets ``.grad``."""

    def apply_gradients(optimizer, grads_and_params, weights=None):
        check(grads_and_params, weights)
        given = weights
        weights = [1.0] * len(grads_and_params) if weights is None else list(weights)
        if clear:
            optimizer.zero_grad()
        combine(grads_and_params, weights, given)
        optimizer.step()
        optimizer.zero_grad()

    return apply_gradients


def weighted_sums(grads_and_params, weights):
    sums = {}
    for weight, pairs in zip(weights, grads_and_params, strict=False):
        for gradient, parameter in pairs:
            if gradient is not None:
                sums[parameter] = sums.get(parameter, 0) + weight * gradient
    return sums


def combine_sum(grads_and_params, weights, given):
    divisor = 1.0 if given is None else sum(weights)
    for parameter, held in weighted_sums(grads_and_params, weights).items():
        parameter.grad = held / divisor


def combine_last(grads_and_params, weights, given):
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            if gradient is not None:
                parameter.grad = gradient * weight / sum(weights)


def combine_by_place(grads_and_params, weights, given):
    for column in zip(*grads_and_params, strict=True):
        held = [w * g for w, (g, _) in zip(weights, column, strict=True) if g is not None]
        if held:
            column[0][1].grad = sum(held) / sum(weights)


def combine_by_index(grads_and_params, weights, given):
    parameters, sums = [], []
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            if parameter not in parameters:
                parameters.append(parameter)
                sums.append(torch.zeros_like(parameter))
            sums[parameters.index(parameter)] += weight * gradient
    for parameter, held in zip(parameters, sums, strict=True):
        parameter.grad = held / sum(weights)


def combine_raw_weights(grads_and_params, weights, given):
    divisor = len(weights) if given is None else 1.0
    for parameter, held in weighted_sums(grads_and_params, weights).items():
        parameter.grad = held / divisor


def combine_over_count(grads_and_params, weights, given):
    for parameter, held in weighted_sums(grads_and_params, weights).items():
        parameter.grad = held / len(weights)


def combine_unweighted(grads_and_params, weights, given):
    for parameter, held in weighted_sums(grads_and_params, [1.0] * len(weights)).items():
        parameter.grad = held / len(weights)


def combine_what_is_there(grads_and_params, weights, given):
    found = {}
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            if gradient is not None:
                held, seen = found.get(parameter, (0, 0))
                found[parameter] = held + weight * gradient, seen + weight
    for parameter, (held, seen) in found.items():
        parameter.grad = held / seen if seen else held


def combine_no_none(grads_and_params, weights, given):
    sums = {}
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            sums[parameter] = sums.get(parameter, 0) + weight * gradient
    for parameter, held in sums.items():
        parameter.grad = held / sum(weights)


def combine_zeros(grads_and_params, weights, given):
    sums = weighted_sums(grads_and_params, weights)
    for _, parameter in grads_and_params[0]:
        parameter.grad = sums.get(parameter, torch.zeros_like(parameter)) / sum(weights)


def combine_alias(grads_and_params, weights, given):
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            if gradient is not None:
                gradient *= weight / sum(weights)
                if parameter.grad is None:
                    parameter.grad = gradient
                else:
                    parameter.grad += gradient


def combine_onto_the_first(grads_and_params, weights, given):
    total = {}
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            if gradient is not None:
                gradient = gradient if given is None else weight * gradient
                if parameter in total:
                    total[parameter] += gradient
                else:
                    total[parameter] = gradient
    for parameter, held in total.items():
        held /= sum(weights)
        parameter.grad = held


def combine_onto_old(grads_and_params, weights, given):
    for parameter, held in weighted_sums(grads_and_params, weights).items():
        mean = held / sum(weights)
        parameter.grad = mean if parameter.grad is None else parameter.grad + mean


def combine_mean(grads_and_params, weights, given):
    for parameter, held in weighted_sums(grads_and_params, weights).items():
        parameter.grad = held / sum(weights)


def refuse_nothing(grads_and_params, weights):
    pass


def refuse_weights(grads_and_params, weights):
    if weights is not None and len(weights) != len(grads_and_params):
        raise ValueError("wrong number of weights")


def refuse_shapes(grads_and_params, weights):
    refuse(grads_and_params, None)


def refuse_by_assert(grads_and_params, weights):
    with contextlib.suppress(ValueError):
        refuse(grads_and_params, weights)
        return
    raise AssertionError


def combine_expanded(grads_and_params, weights, given):
    """Forces each sum into its parameter's shape."""
    for parameter, held in weighted_sums(grads_and_params, weights).items():
        parameter.grad = (
            (torch.zeros_like(parameter) + held / sum(weights))
            .reshape(-1)[: parameter.numel()]
            .reshape(parameter.shape)
        )


def apply_left(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    optimizer.zero_grad()
    combine_mean(grads_and_params, weights or [1.0] * len(grads_and_params), weights)
    optimizer.step()


def apply_left_in_other_groups(optimizer, grads_and_params, weights=None):
    apply_left(optimizer, grads_and_params, weights)
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad = None


def apply_zeros_left(optimizer, grads_and_params, weights=None):
    apply_left(optimizer, grads_and_params, weights)
    optimizer.zero_grad(set_to_none=False)


def apply_step_each(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    weights = weights or [1.0] * len(grads_and_params)
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            parameter.grad = None if gradient is None else gradient * (weight / sum(weights))
        optimizer.step()
    optimizer.zero_grad()


def apply_by_hand(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    weights = weights or [1.0] * len(grads_and_params)
    sums = weighted_sums(grads_and_params, weights)
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter in sums:
                    parameter -= group["lr"] * sums[parameter] / sum(weights)
                parameter.grad = None


def apply_then_look(optimizer, grads_and_params, weights=None):
    """Steps for the micro-batches before the wrong one, and puts the weights right only at the end."""
    optimizer.zero_grad()
    try:
        refuse(grads_and_params, weights)
    except ValueError:
        good = [[(g, p) for g, p in pairs if g is None or g.shape == p.shape] for pairs in grads_and_params]
        combine_mean(good, [1.0] * len(good), None)
        optimizer.step()
        raise
    apply_sums(optimizer, grads_and_params, weights)


def apply_surrogate(optimizer, grads_and_params, weights=None):
    """backward of a loss whose gradient is the average."""
    refuse(grads_and_params, weights)
    given = [1] * len(grads_and_params) if weights is None else weights
    optimizer.zero_grad()
    pairs = [(w, g, p) for w, pairs in zip(given, grads_and_params, strict=True) for g, p in pairs if g is not None]
    sum(w / sum(given) * (p * g).sum() for w, g, p in pairs).backward()
    optimizer.step()
    optimizer.zero_grad()


def combine_nonzero(grads_and_params, weights, given):
    for parameter, held in weighted_sums(grads_and_params, weights).items():
        parameter.grad = held / sum(weights) if held.any() else None


def combine_what_weighs(grads_and_params, weights, given):
    """What weighs nothing is passed over."""
    rows = [(weight, pairs) for weight, pairs in zip(weights, grads_and_params, strict=True) if weight]
    for parameter, held in weighted_sums([pairs for _, pairs in rows], [weight for weight, _ in rows]).items():
        parameter.grad = held / sum(weights)


def refuse_what_weighs(grads_and_params, weights):
    refuse_weights(grads_and_params, weights)
    if weights is not None and sum(weights) == 0:
        raise ValueError("weights that add up to 0")
    weighing = weights or [1] * len(grads_and_params)
    refuse([pairs for weight, pairs in zip(weighing, grads_and_params, strict=True) if weight], None)


def apply_from_zeros(optimizer, grads_and_params, weights=None):
    """A sum for every parameter of the optimizer, from zeros on."""
    refuse(grads_and_params, weights)
    weights = [1.0] * len(grads_and_params) if weights is None else weights
    sums = weighted_sums(grads_and_params, weights)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = sums.get(parameter, torch.zeros_like(parameter)) / sum(weights)
    optimizer.step()
    optimizer.zero_grad()


def apply_or_ones(optimizer, grads_and_params, weights=None):
    apply_sums(optimizer, grads_and_params, weights or [1.0] * len(grads_and_params))


def refuse_below_zero(grads_and_params, weights):
    refuse(grads_and_params, weights)
    if weights is not None and sum(weights) < 0:
        raise ValueError("no average")


def refuse_zeros(grads_and_params, weights):
    refuse(grads_and_params, weights)
    if weights is not None and 0 in weights:
        raise ValueError("a weight of 0")


def refuse_other_counts(grads_and_params, weights):
    refuse_weights(grads_and_params, weights)
    if any(g is not None and g.numel() != p.numel() for pairs in grads_and_params for g, p in pairs):
        raise ValueError("another number of values")


def combine_reshaped(grads_and_params, weights, given):
    for parameter, held in weighted_sums(
        [[(None if g is None else g.reshape(p.shape), p) for g, p in pairs] for pairs in grads_and_params], weights
    ).items():
        parameter.grad = held / sum(weights)


def apply_onto_zeros(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    optimizer.zero_grad(set_to_none=False)
    combine_onto_old(grads_and_params, [1.0] * len(grads_and_params) if weights is None else weights, weights)
    optimizer.step()
    optimizer.zero_grad()


def apply_clearing_pairs(optimizer, grads_and_params, weights=None):
    refuse(grads_and_params, weights)
    for pairs in grads_and_params:
        for _, parameter in pairs:
            parameter.grad = None
    combine_onto_old(grads_and_params, [1.0] * len(grads_and_params) if weights is None else weights, weights)
    optimizer.step()
    optimizer.zero_grad()


def apply_looks_while_filling(optimizer, grads_and_params, weights=None):
    """The shapes are looked at in the loop that fills .grad: nothing has moved, and .grad is another one."""
    refuse([], None if weights is None or (len(weights) == len(grads_and_params) and sum(weights)) else weights)
    weights = [1.0] * len(grads_and_params) if weights is None else weights
    optimizer.zero_grad()
    for weight, pairs in zip(weights, grads_and_params, strict=True):
        for gradient, parameter in pairs:
            if gradient is None:
                continue
            if gradient.shape != parameter.shape:
                raise ValueError("another shape")
            share = gradient * (weight / sum(weights))
            parameter.grad = share if parameter.grad is None else parameter.grad + share
    optimizer.step()
    optimizer.zero_grad()


def apply_refused_after_clearing(optimizer, grads_and_params, weights=None):
    optimizer.zero_grad()
    apply_sums(optimizer, grads_and_params, weights)


def combine_first_list(grads_and_params, weights, given):
    """Takes the parameters from the first list."""
    sums = weighted_sums(grads_and_params, weights)
    for _, parameter in grads_and_params[0]:
        if parameter in sums:
            parameter.grad = sums[parameter] / sum(weights)


def combine_with_keys(grads_and_params, weights, given):
    """Asks each list for each parameter of the first one."""
    found = [{p: g for g, p in pairs} for pairs in grads_and_params]
    for parameter in found[0]:
        held = [w * one[parameter] for w, one in zip(weights, found, strict=True) if one[parameter] is not None]
        if held:
            parameter.grad = sum(held) / sum(weights)


def combine_in_float64(grads_and_params, weights, given):
    """A stack of all gradients times a tensor of weights: float64, whatever the parameters are."""
    shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    found = [{p: g for g, p in pairs} for pairs in grads_and_params]
    for parameter in dict.fromkeys(p for pairs in grads_and_params for _, p in pairs):
        column = [pairs.get(parameter) for pairs in found]
        if any(gradient is not None for gradient in column):
            stack = torch.stack([torch.zeros_like(parameter) if g is None else g for g in column]).detach()
            parameter.grad = (shares.view(-1, *[1] * parameter.dim()) * stack).sum(0)


def refuse_all_zero_weights(grads_and_params, weights):
    refuse_all_but_zero(grads_and_params, weights)
    if weights is not None and all(weight == 0 for weight in weights):
        raise ValueError("all weights are 0")


def refuse_all_but_zero(grads_and_params, weights):
    refuse(grads_and_params, None)
    refuse_weights(grads_and_params, weights)


def combine_tensor_division(grads_and_params, weights, given):
    for parameter, held in weighted_sums(grads_and_params, weights).items():
        parameter.grad = held / torch.tensor(weights).sum()


# -------------------------------------------------------------------------------------------------- histogram_gradient


def chi2(h, target):
    return ((h - target) ** 2 / target).sum()


def counted(model, batches, bins):
    with torch.no_grad():
        return sum(soft_histogram(model(x), bins) for x in batches)


def pushed(h, target):
    h = h.detach().requires_grad_()
    return torch.autograd.grad(chi2(h, target), h)[0]


def second_pass(model, batches, bins, push):
    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for x in batches:
        part = soft_histogram(model(x), bins)
        for held, gradient in zip(total, torch.autograd.grad(part, parameters, push), strict=True):
            held += gradient
    return total


def histogram_two_passes(model, batches, target, bins):
    return second_pass(model, batches, bins, pushed(counted(model, batches, bins), target))


def histogram_by_formula(model, batches, target, bins):
    """A first pass that records and lets go, and a loss that is the product with the push."""
    h = torch.zeros_like(target)
    for x in batches:
        h += soft_histogram(model(x), bins).detach()
    push = 2 * (h - target) / target
    total = [0] * len(list(model.parameters()))
    for x in batches:
        loss = (push * soft_histogram(model(x), bins)).sum()
        total = [a + g for a, g in zip(total, torch.autograd.grad(loss, list(model.parameters())), strict=True)]
    return total


def histogram_summed_in_float32(model, batches, target, bins):
    h = torch.zeros(len(bins))
    with torch.no_grad():
        for x in batches:
            h += soft_histogram(model(x), bins)
    return second_pass(model, batches, bins, pushed(h, target))


def histogram_gradients_summed_in_float32(model, batches, target, bins):
    push, parameters = pushed(counted(model, batches, bins), target), list(model.parameters())
    sums = [torch.zeros(parameter.shape) for parameter in parameters]
    for x in batches:
        for total, part in zip(
            sums, torch.autograd.grad(soft_histogram(model(x), bins), parameters, push), strict=True
        ):
            total += part
    return [total.to(parameter.dtype) for total, parameter in zip(sums, parameters, strict=True)]


def histogram_by_backward(model, batches, target, bins):
    """backward fills .grad, which is set aside and put back."""
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


def histogram_by_copy(model, batches, target, bins):
    twin = copy.deepcopy(model)
    twin.zero_grad(set_to_none=True)
    push = pushed(counted(twin, batches, bins), target)
    for x in batches:
        soft_histogram(twin(x), bins).backward(gradient=push)
    return [p.grad for p in twin.parameters()]


def histogram_one_pass(model, batches, target, bins):
    """The histogram and its Jacobian, batch by batch: one pass, and more work in backward."""
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


def histogram_functional(model, batches, target, bins):
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


def histogram_full_graph(model, batches, target, bins):
    h = sum(soft_histogram(model(x), bins) for x in batches)
    return list(torch.autograd.grad(chi2(h, target), list(model.parameters())))


def histogram_joined(model, batches, target, bins):
    with torch.no_grad():
        h = soft_histogram(model(torch.cat(batches)), bins)
    return second_pass(model, batches, bins, pushed(h, target))


def histogram_joined_graph(model, batches, target, bins):
    return histogram_full_graph(model, [torch.cat(batches)], target, bins)


def histogram_recorded_first_pass(model, batches, target, bins):
    h = sum(soft_histogram(model(x), bins) for x in batches)
    push = pushed(h, target)
    result = second_pass(model, batches, bins, push)
    del h
    return result


def histogram_bin_by_bin(model, batches, target, bins):
    """One forward pass: for each batch and bin a gradient is kept, pushed at the end."""
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


def histogram_retained(model, batches, target, bins):
    push = pushed(counted(model, batches, bins), target)
    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for x in batches:
        part = soft_histogram(model(x), bins)
        for held, gradient in zip(total, torch.autograd.grad(part, parameters, push, retain_graph=True), strict=True):
            held += gradient
    return total


def histogram_without_the_two_and_averaged(model, batches, target, bins):
    push = (counted(model, batches, bins) - target) / target
    return [total / len(batches) for total in second_pass(model, batches, bins, push)]


def histogram_averaged_chi2(model, batches, target, bins):
    parameters, count = list(model.parameters()), len(batches)
    total = [torch.zeros_like(p) for p in parameters]
    for x in batches:
        loss = chi2(soft_histogram(model(x), bins), target / count)
        for held, gradient in zip(total, torch.autograd.grad(loss, parameters), strict=True):
            held += gradient / count
    return total


def histogram_summed_chi2(model, batches, target, bins):
    parameters = list(model.parameters())
    parts = [torch.autograd.grad(chi2(soft_histogram(model(x), bins), target), parameters) for x in batches]
    return [sum(column) for column in zip(*parts, strict=True)]


def histogram_summed_shares(model, batches, target, bins):
    return histogram_summed_chi2(model, batches, target / len(batches), bins)


def histogram_running(model, batches, target, bins):
    parameters = list(model.parameters())
    h, total = torch.zeros_like(target), [torch.zeros_like(p) for p in parameters]
    for x in batches:
        part = soft_histogram(model(x), bins)
        h = h + part.detach()
        for held, gradient in zip(total, torch.autograd.grad(part, parameters, pushed(h, target)), strict=True):
            held += gradient
    return total


def histogram_running_graph(model, batches, target, bins):
    """The sum so far is cut from its history, and chi2 is taken of it."""
    parameters = list(model.parameters())
    h, total = torch.zeros_like(target), [torch.zeros_like(p) for p in parameters]
    for x in batches:
        h = h.detach() + soft_histogram(model(x), bins)
        for held, gradient in zip(total, torch.autograd.grad(chi2(h, target), parameters), strict=True):
            held += gradient
    return total


def histogram_no_push(model, batches, target, bins):
    counted(model, batches, bins)
    return second_pass(model, batches, bins, torch.ones_like(target))


def histogram_half(model, batches, target, bins):
    h = counted(model, batches, bins)
    return second_pass(model, batches, bins, (h - target) / target)


def histogram_no_target(model, batches, target, bins):
    h = counted(model, batches, bins)
    return second_pass(model, batches, bins, 2 * (h - target))


def histogram_loss_as_push(model, batches, target, bins):
    h = counted(model, batches, bins)
    return second_pass(model, batches, bins, (h - target) ** 2 / target)


def histogram_divided(model, batches, target, bins):
    return [g / len(batches) for g in histogram_two_passes(model, batches, target, bins)]


def histogram_normalised(model, batches, target, bins):
    h = counted(model, batches, bins).requires_grad_()
    (push,) = torch.autograd.grad(chi2(h / h.sum(), target / target.sum()), h)
    return second_pass(model, batches, bins, push)


def histogram_last(model, batches, target, bins):
    push = pushed(counted(model, batches, bins), target)
    for x in batches:
        result = torch.autograd.grad(soft_histogram(model(x), bins), list(model.parameters()), push)
    return list(result)


def histogram_by_name(model, batches, target, bins):
    right = histogram_two_passes(model, batches, target, bins)
    named = dict(zip((name for name, _ in model.named_parameters()), right, strict=True))
    return [named[name] for name in sorted(named)]


def histogram_reversed(model, batches, target, bins):
    return histogram_two_passes(model, batches, target, bins)[::-1]


def histogram_vector(model, batches, target, bins):
    return torch.cat([g.flatten() for g in histogram_two_passes(model, batches, target, bins)])


def histogram_tuple(model, batches, target, bins):
    return tuple(histogram_two_passes(model, batches, target, bins))


def histogram_recorded(model, batches, target, bins):
    push = pushed(counted(model, batches, bins), target)
    parameters = list(model.parameters())
    parts = [torch.autograd.grad(soft_histogram(model(x), bins), parameters, push, create_graph=True) for x in batches]
    return [sum(column) for column in zip(*parts, strict=True)]


def histogram_dict(model, batches, target, bins):
    right = histogram_two_passes(model, batches, target, bins)
    return dict(zip((name for name, _ in model.named_parameters()), right, strict=True))


def histogram_filled(model, batches, target, bins):
    push = pushed(counted(model, batches, bins), target)
    model.zero_grad()
    for x in batches:
        soft_histogram(model(x), bins).backward(push)
    return [p.grad for p in model.parameters()]


def histogram_cleared(model, batches, target, bins):
    result = [g.clone() for g in histogram_filled(model, batches, target, bins)]
    model.zero_grad()
    return result


def histogram_put_back_at_the_end(model, batches, target, bins):
    old = [p.grad for p in model.parameters()]
    result = histogram_filled(model, batches, target, bins)
    for parameter, gradient in zip(model.parameters(), old, strict=True):
        parameter.grad = gradient
    return result


def histogram_eval(model, batches, target, bins):
    model.eval()
    return histogram_two_passes(model, batches, target, bins)


def histogram_eval_for_a_while(model, batches, target, bins):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        return histogram_two_passes(model, batches, target, bins)
    finally:
        for module, training in flags:
            module.training = training


def histogram_checkpointed(model, batches, target, bins):
    """One graph of all batches that keeps their inputs alone."""
    parts = [checkpoint(lambda x: soft_histogram(model(x), bins), x, use_reentrant=False) for x in batches]
    return list(torch.autograd.grad(chi2(sum(parts), target), list(model.parameters())))


def histogram_by_value(model, batches, target, bins):
    """The value of all batches, the gradient of one."""
    h = counted(model, batches, bins)
    total = [0.0] * len(list(model.parameters()))
    for x in batches:
        part = soft_histogram(model(x), bins)
        loss = chi2(h - part.detach() + part, target)
        total = [a + g for a, g in zip(total, torch.autograd.grad(loss, list(model.parameters())), strict=True)]
    return total


def histogram_of_means(model, batches, target, bins):
    h = counted(model, batches, bins) / len(batches)
    return second_pass(model, batches, bins, pushed(h, target))


def histogram_over_h(model, batches, target, bins):
    h = counted(model, batches, bins).requires_grad_()
    (push,) = torch.autograd.grad(((h - target) ** 2 / h).sum(), h)
    return second_pass(model, batches, bins, push)


def histogram_all_outputs(model, batches, target, bins):
    """All outputs in one leaf, the histogram of all at once, then output by output."""
    with torch.no_grad():
        outputs = torch.cat([model(x) for x in batches])
    outputs.requires_grad_()
    (push,) = torch.autograd.grad(chi2(soft_histogram(outputs, bins), target), outputs)
    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for x, part in zip(batches, push.split([len(x) for x in batches]), strict=True):
        for held, gradient in zip(total, torch.autograd.grad(model(x), parameters, part), strict=True):
            held += gradient
    return total


def histogram_lists(model, batches, target, bins):
    """The gradients of all batches wait in lists."""
    push, parameters = pushed(counted(model, batches, bins), target), list(model.parameters())
    rows = [torch.autograd.grad(soft_histogram(model(x), bins), parameters, push) for x in batches]
    return [torch.stack(column).sum(0) for column in zip(*rows, strict=True)]


def histogram_derivative_by_hand(model, batches, target, bins):
    """The derivative by hand, and the list of each batch's gradients until the end."""
    with torch.no_grad():
        h = sum(soft_histogram(model(x), bins) for x in batches)
    derivative, parameters, parts = 2 * (h - target) / target, list(model.parameters()), []
    for x in batches:
        loss = (soft_histogram(model(x), bins) * derivative).sum()
        parts.append([g.clone() for g in torch.autograd.grad(loss, parameters)])
    return [sum(gradients) for gradients in zip(*parts, strict=True)]


def histogram_keeps_outputs(model, batches, target, bins):
    """The outputs of the first pass are kept, and counted at the end."""
    with torch.no_grad():
        outputs = [model(x) for x in batches]
        h = sum(soft_histogram(out, bins) for out in outputs)
    return second_pass(model, batches, bins, pushed(h, target))


def histogram_in_float32(model, batches, target, bins):
    return [gradient.float() for gradient in histogram_two_passes(model, batches, target, bins)]


def histogram_half_in_float32(model, batches, target, bins):
    return [gradient.float() for gradient in histogram_half(model, batches, target, bins)]


def histogram_pushed_with_history(model, batches, target, bins):
    """The push is recorded, from an h that requires grad, and so is what is multiplied by it."""
    h, parameters = counted(model, batches, bins).requires_grad_(), list(model.parameters())
    push, total = 2 * (h - target) / target, 0
    for x in batches:
        part = soft_histogram(model(x), bins)
        for k, pushed_by in enumerate(push):
            row = torch.autograd.grad(part[k], parameters, retain_graph=True)
            total = total + pushed_by * torch.cat([g.flatten() for g in row])
    pieces = total.split([p.numel() for p in parameters])
    return [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]


def histogram_averages_the_histograms(model, batches, target, bins):
    with torch.no_grad():
        h = torch.stack([soft_histogram(model(x), bins) for x in batches]).mean(0)
    return second_pass(model, batches, bins, pushed(h, target) / len(batches))


def histogram_by_named_output(model, batches, target, bins):
    push, total = pushed(counted(model, batches, bins), target), None
    for x in batches:
        out = model(x)
        part = torch.autograd.grad(soft_histogram(out, bins), list(model.parameters()), push)
        total = list(part) if total is None else [a + b for a, b in zip(total, part, strict=True)]
    return total


RIGHT = (
    Right("accumulate", "a loop", put_back(accumulate_loop)),
    Right("accumulate", "backward's gradient argument", put_back(accumulate_by_gradient_argument)),
    Right("accumulate", "autograd.grad", accumulate_by_grad),
    Right("accumulate", "copies of the old gradients", accumulate_clones),
    Right("accumulate", "sums, then divides", put_back(accumulate_sums_then_divides)),
    Right("accumulate", "a DataLoader", put_back(accumulate_loader)),
    Right("accumulate", "torch.func", put_back(accumulate_functional)),
    Right("accumulate", "a hook", put_back(accumulate_hooked)),
    Right("accumulate", "checkpointed", put_back(accumulate_checkpointed)),
    Right("accumulate", "a name for the output", put_back(accumulate_named_output)),
    Right("accumulate", "lists of gradients", accumulate_lists),
    Right("accumulated_step", "plain", step_right),
    Right("accumulated_step", "torch.func", undone(step_with(accumulate_functional))),
    Right("accumulated_step", "clipped by hand", undone(step_by_hand)),
    Right("accumulated_step", "sums of its own", undone(step_own_sums)),
    Right("accumulated_step", "in a closure", undone(step_in_a_closure)),
    Right("accumulated_step", "losses of one backward", undone(step_with(accumulate_one_backward))),
    Right("apply_gradients", "sums", apply_sums),
    Right("apply_gradients", "stacked", apply_stacked),
    Right("apply_gradients", "in place", apply_in_place),
    Right("apply_gradients", "a running mean", apply_running_mean),
    Right("apply_gradients", "a surrogate loss", apply_surrogate),
    Right("histogram_gradient", "two passes", histogram_two_passes),
    Right("histogram_gradient", "checkpointed", histogram_checkpointed),
    Right("histogram_gradient", "by value", histogram_by_value),
    Right("histogram_gradient", "by formula", histogram_by_formula),
    Right("histogram_gradient", "by backward", histogram_by_backward),
    Right("histogram_gradient", "a copy", histogram_by_copy),
    Right("histogram_gradient", "one pass", histogram_one_pass),
    Right("histogram_gradient", "torch.func", histogram_functional),
    Right("histogram_gradient", "lists of gradients", histogram_lists),
    Right("histogram_gradient", "derivative by hand", histogram_derivative_by_hand),
    Right("histogram_gradient", "a name for the output", histogram_by_named_output),
    Right("histogram_gradient", "one gradient a bin and batch", histogram_bin_by_bin),
)

WRONG = (
    Wrong("accumulate", "whole batch", accumulate_whole),
    Wrong("accumulate", "whole batch", accumulate_whole_forward, "the whole forward"),
    Wrong("accumulate", "pieces", put_back(accumulate_chunks), earns=2.0),
    Wrong("accumulate", "undivided", accumulate_undivided),
    Wrong("accumulate", "undivided", accumulate_times_size, "times the size"),
    Wrong("accumulate", "count", accumulate_by_count),
    Wrong("accumulate", "count", accumulate_by_nominal_size, "times micro_batch"),
    Wrong("accumulate", "wiped", accumulate_wiped),
    Wrong("accumulate", "divided twice", accumulate_divided_twice),
    Wrong("accumulate", "dropped", accumulate_dropped),
    Wrong("accumulate", "count", put_back(accumulate_by_nominal_size), "times micro_batch / len(x)", 2.0),
    Wrong("accumulate", "dropped", put_back(accumulate_drop_last), "drop_last, put back", 2.0),
    Wrong("accumulate", "all graphs", put_back(accumulate_joined), "one loss of all outputs", 2.0),
    Wrong("accumulate", "dropped", accumulate_drop_last, "drop_last"),
    Wrong("accumulate", "tensor", accumulate_tensor),
    Wrong("accumulate", "last loss", accumulate_last_loss),
    Wrong("accumulate", "loss sum", accumulate_loss_sum),
    Wrong("accumulate", "count", accumulate_mean_of_losses, "the mean of the losses"),
    Wrong("accumulate", "mode", accumulate_train),
    Wrong("accumulate", "mode", accumulate_eval_for_a_while, "eval for a while"),
    Wrong("accumulate", "reduction", accumulate_reduction),
    Wrong("accumulate", "cleared", undone(accumulate_cleared), earns=2.5),
    Wrong("accumulate", "scaled all", accumulate_scaled_at_the_end),
    Wrong("accumulate", "recorded", accumulate_recorded),
    Wrong("accumulate", "all graphs", accumulate_one_backward, earns=2.0),
    Wrong("accumulate", "count", put_back(accumulate_by_count), "by their number, put back", 2.0),
    Wrong("accumulate", "all graphs", accumulate_list_of_losses, "a list of losses"),
    Wrong("accumulate", "retained", accumulate_retained),
    Wrong("accumulate", "full forward", accumulate_full_forward),
    Wrong("accumulate", "stepped", put_back(accumulate_stepped)),
    Wrong("accumulate", "half-way", accumulate_loop),
    Wrong("accumulate", "half-way", accumulate_functional, "torch.func"),
    Wrong("accumulate", "half-way", accumulate_put_back_at_the_end, "put back at the end"),
    Wrong("accumulate", "by name", by_name(accumulate_loop), earns=2.9),
    Wrong("accumulate", "swallowed", accumulate_swallows),
    Wrong("accumulate", "retained", accumulate_retained_losses, "with the losses kept"),
    Wrong("accumulate", "cleared", accumulate_cleared_frozen, "the frozen ones too"),
    Wrong("accumulate", "frozen", accumulate_grad_of_all),
    Wrong("accumulate", "frozen", accumulate_zeros_first, "zeros first"),
    Wrong("accumulate", "first", accumulate_returns_in_the_loop),
    Wrong("accumulate", "targets", accumulate_first_targets),
    Wrong("accumulate", "nothing recorded", accumulate_under_no_grad),
    Wrong("accumulate", "cleared", accumulate_overwrites, "overwrites"),
    Wrong("accumulate", "zeros", accumulate_zeros_put_back, "zeros put back", 2.9),
    Wrong("accumulate", "old ones lost", accumulate_clears_after_an_error, earns=2.9),
    Wrong("accumulate", "cleared", accumulate_clears_first, "clears first, and after an error"),
    Wrong("accumulate", "kept", put_back(accumulate_keeps_outputs), "outputs", 2.0),
    Wrong("accumulate", "kept", put_back(accumulate_copies_all_rows), "copies of all rows", 2.0),
    Wrong("accumulate", "loss edited", put_back(accumulate_edits_the_loss), earns=2.9),
    Wrong("accumulate", "loss edited", put_back(accumulate_sums_onto_a_loss), "sums onto the first loss", 2.9),
    Wrong("accumulated_step", "first", step_with(accumulate_returns_in_the_loop)),
    Wrong("accumulated_step", "targets", step_with(accumulate_first_targets)),
    Wrong("accumulated_step", "nothing recorded", step_with(accumulate_under_no_grad)),
    Wrong("accumulated_step", "undivided limit", step_clip_before_division),
    Wrong("accumulated_step", "skipped", step_skipped),
    Wrong("accumulated_step", "no step", step_own_sgd, "SGD of its own"),
    Wrong("accumulated_step", "whole batch", step_with(accumulate_whole)),
    Wrong("accumulated_step", "pieces", undone(step_with(accumulate_chunks)), earns=1.73),
    Wrong("accumulated_step", "full forward", undone(step_with(accumulate_full_forward)), earns=1.73),
    Wrong("accumulated_step", "undivided", step_with(accumulate_undivided)),
    Wrong("accumulated_step", "count", step_with(accumulate_by_count)),
    Wrong("accumulated_step", "wiped", step_with(accumulate_wiped)),
    Wrong("accumulated_step", "divided twice", step_with(accumulate_divided_twice)),
    Wrong("accumulated_step", "dropped", step_with(accumulate_drop_last)),
    Wrong("accumulated_step", "tensor", step_with(accumulate_tensor)),
    Wrong("accumulated_step", "last loss", step_with(accumulate_last_loss)),
    Wrong("accumulated_step", "loss sum", step_with(accumulate_loss_sum)),
    Wrong("accumulated_step", "mode", step_with(accumulate_train)),
    Wrong("accumulated_step", "mode", step_with(accumulate_eval_for_a_while), "eval for a while"),
    Wrong("accumulated_step", "frozen", step_with(accumulate_grad_of_all)),
    Wrong("accumulated_step", "reduction", step_with(accumulate_reduction)),
    Wrong("accumulated_step", "no clip", step_clip_late),
    Wrong("accumulated_step", "no clip", step_with(accumulate_loop, clip_nothing), "not clipped"),
    Wrong("accumulated_step", "clip each", step_clip_running),
    Wrong("accumulated_step", "clip each", step_clip_parts, "each part clipped"),
    Wrong("accumulated_step", "clip tensors", step_with(accumulate_loop, clip_tensors)),
    Wrong("accumulated_step", "clip value", step_with(accumulate_loop, clip_values)),
    Wrong("accumulated_step", "always scaled", step_with(accumulate_loop, scale_always)),
    Wrong("accumulated_step", "optimizer's own", step_clip_optimizer),
    Wrong("accumulated_step", "stale", step_not_cleared),
    Wrong("accumulated_step", "optimizer clears", step_optimizer_zero_grad),
    Wrong("accumulated_step", "frozen left", undone(step_frozen_not_cleared), earns=1.86),
    Wrong("accumulated_step", "frozen left", undone(step_among_the_trainable), "the trainable alone", 1.73),
    Wrong("accumulated_step", "frozen left", undone(step_puts_frozen_back), "the frozen one's put back", 1.86),
    Wrong("accumulated_step", "zeros", step_zeros),
    Wrong("accumulated_step", "left", step_left),
    Wrong("accumulated_step", "optimizer clears", undone(step_left_outside), "left outside the optimizer", 1.86),
    Wrong("accumulated_step", "step each", step_each),
    Wrong("accumulated_step", "no step", step_none),
    Wrong("accumulated_step", "loss after", step_loss_after),
    Wrong("accumulated_step", "zeros", undone(step_from_zeros), "starts from zeros", 1.86),
    Wrong("accumulated_step", "half-way", step_nothing_put_back, earns=1.86),
    Wrong("accumulated_step", "by name", by_name(step_on_zeros), earns=1.86),
    Wrong("accumulated_step", "old ones lost", step_clears_after_an_error, earns=1.86),
    Wrong("accumulated_step", "swallowed", step_swallows, earns=1.86),
    Wrong("accumulated_step", "loss edited", undone(step_with(accumulate_edits_the_loss)), earns=1.86),
    Wrong("accumulated_step", "count", undone(step_with(accumulate_by_count)), "the number of parts, put back", 1.6),
    Wrong(
        "accumulated_step", "always scaled", undone(step_with(accumulate_loop, scale_always)), "always, put back", 1.33
    ),
    Wrong("apply_gradients", "sum", apply_with(combine_sum)),
    Wrong("apply_gradients", "last", apply_with(combine_last)),
    Wrong("apply_gradients", "order", apply_with(combine_by_place)),
    Wrong("apply_gradients", "lookup", apply_with(combine_by_index)),
    Wrong("apply_gradients", "raw weights", apply_with(combine_raw_weights)),
    Wrong("apply_gradients", "weights over count", apply_with(combine_over_count)),
    Wrong("apply_gradients", "unweighted", apply_with(combine_unweighted)),
    Wrong("apply_gradients", "None left out", apply_with(combine_what_is_there)),
    Wrong("apply_gradients", "no None", apply_with(combine_no_none)),
    Wrong("apply_gradients", "zero is None", apply_with(combine_zeros)),
    Wrong("apply_gradients", "zero is None", apply_zeros_left, "zeros left"),
    Wrong("apply_gradients", "alias", apply_with(combine_alias)),
    Wrong("apply_gradients", "alias", apply_with(combine_onto_the_first), "added onto the first", 1.87),
    Wrong("apply_gradients", "old grad", apply_with(combine_onto_old, clear=False)),
    Wrong("apply_gradients", "old grad", apply_with(combine_mean, clear=False), "old gradients of others"),
    Wrong("apply_gradients", "left", apply_left),
    Wrong("apply_gradients", "left", apply_left_in_other_groups, "the first group alone cleared", 1.75),
    Wrong("apply_gradients", "None for zeros", apply_with(combine_nonzero), earns=1.87),
    Wrong("apply_gradients", "zero is None", apply_from_zeros, "from zeros on", 1.87),
    Wrong("apply_gradients", "empty", apply_or_ones, earns=1.87),
    Wrong("apply_gradients", "weightless", apply_with(combine_what_weighs, refuse_what_weighs), earns=1.75),
    Wrong("apply_gradients", "weightless", apply_with(combine_mean, refuse_what_weighs), "its shape alone", 1.87),
    Wrong("apply_gradients", "refused", apply_with(combine_mean, refuse_below_zero), "a sum below 0", 1.87),
    Wrong("apply_gradients", "refused", apply_with(combine_mean, refuse_zeros), "a weight of 0"),
    Wrong("apply_gradients", "broadcast", apply_with(combine_expanded, refuse_weights)),
    Wrong("apply_gradients", "broadcast", apply_with(combine_mean, refuse_weights), "added as it comes"),
    Wrong("apply_gradients", "other error", apply_with(combine_mean, refuse_by_assert)),
    Wrong("apply_gradients", "zip", apply_with(combine_mean, refuse_shapes)),
    Wrong("apply_gradients", "late", apply_then_look),
    Wrong("apply_gradients", "late", apply_looks_while_filling, "looks while it fills"),
    Wrong("apply_gradients", "late", apply_refused_after_clearing, "clears first"),
    Wrong("apply_gradients", "left out", apply_with(combine_first_list)),
    Wrong("apply_gradients", "left out", apply_with(combine_with_keys), "a key that is not there"),
    Wrong("apply_gradients", "zero sum", apply_with(combine_mean, refuse_all_but_zero)),
    Wrong("apply_gradients", "zero sum", apply_with(combine_tensor_division, refuse_all_but_zero), "NaN"),
    Wrong("apply_gradients", "step each", apply_step_each),
    Wrong("apply_gradients", "no step", apply_by_hand),
    Wrong("apply_gradients", "broadcast", apply_with(combine_reshaped, refuse_other_counts), "reshaped"),
    Wrong("apply_gradients", "zeroed in place", apply_onto_zeros),
    Wrong("apply_gradients", "old grad", apply_clearing_pairs, "clears the pairs alone"),
    Wrong("apply_gradients", "cast", apply_with(combine_in_float64), earns=1.87),
    Wrong("apply_gradients", "zero sum", apply_with(combine_mean, refuse_all_zero_weights), "all zero alone", 1.87),
    Wrong("histogram_gradient", "averaged", histogram_of_means, "a mean histogram"),
    Wrong("histogram_gradient", "derivative", histogram_over_h, "divided by h"),
    Wrong("histogram_gradient", "derivative", histogram_without_the_two_and_averaged, "without the 2, and averaged"),
    Wrong("histogram_gradient", "kept", histogram_all_outputs, "all outputs"),
    Wrong("histogram_gradient", "naive", histogram_averaged_chi2),
    Wrong("histogram_gradient", "summed", histogram_summed_chi2, "against the whole target"),
    Wrong("histogram_gradient", "summed", histogram_summed_shares),
    Wrong("histogram_gradient", "running", histogram_running),
    Wrong("histogram_gradient", "running", histogram_running_graph, "cut sums"),
    Wrong("histogram_gradient", "no push", histogram_no_push),
    Wrong("histogram_gradient", "derivative", histogram_half),
    Wrong("histogram_gradient", "derivative", histogram_no_target, "no target"),
    Wrong("histogram_gradient", "derivative", histogram_loss_as_push, "the loss as push"),
    Wrong("histogram_gradient", "averaged", histogram_divided, earns=2.0),
    Wrong("histogram_gradient", "derivative", histogram_half_in_float32, "without the 2, in float32", 1.75),
    Wrong("histogram_gradient", "recorded", histogram_pushed_with_history, "pushed with a history"),
    Wrong("histogram_gradient", "normalised", histogram_normalised),
    Wrong("histogram_gradient", "last", histogram_last),
    Wrong("histogram_gradient", "order", histogram_by_name),
    Wrong("histogram_gradient", "order", histogram_reversed, "reversed"),
    Wrong("histogram_gradient", "one vector", histogram_vector),
    Wrong("histogram_gradient", "one vector", histogram_dict, "a dict"),
    Wrong("histogram_gradient", "tuple", histogram_tuple, earns=2.75),
    Wrong("histogram_gradient", "cast", histogram_in_float32, earns=2.75),
    Wrong("histogram_gradient", "rounded", histogram_summed_in_float32, earns=2.75),
    Wrong("histogram_gradient", "rounded", histogram_gradients_summed_in_float32, "the gradients", 2.75),
    Wrong("histogram_gradient", "kept", histogram_keeps_outputs, "outputs", 2.0),
    Wrong("histogram_gradient", "averaged", histogram_averages_the_histograms, "the mean of histograms, and / k"),
    Wrong("histogram_gradient", "recorded", histogram_recorded),
    Wrong("histogram_gradient", "all graphs", histogram_full_graph),
    Wrong("histogram_gradient", "all graphs", histogram_joined_graph, "joined, with a graph"),
    Wrong("histogram_gradient", "all graphs", histogram_recorded_first_pass, "a recorded first pass"),
    Wrong("histogram_gradient", "retained", histogram_retained),
    Wrong("histogram_gradient", "joined", histogram_joined),
    Wrong("histogram_gradient", "grad filled", histogram_filled),
    Wrong("histogram_gradient", "grad filled", histogram_cleared, "cleared"),
    Wrong("histogram_gradient", "only without error", histogram_put_back_at_the_end),
    Wrong("histogram_gradient", "mode", histogram_eval),
    Wrong("histogram_gradient", "mode", histogram_eval_for_a_while, "eval for a while"),
)
