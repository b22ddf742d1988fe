"""Right and wrong answers to the exercises of lesson 05."""

import contextlib
import copy
import itertools
from concurrent.futures import ThreadPoolExecutor

import torch

from tests.lessons.answers import Right, Wrong

# ------------------------------------------------------------------------------------------------------ predicted_modes

MODES = {
    "outer": False,
    "inner_enabled": True,
    "after_inner": False,
    "decorated": False,
    "generator_caller": False,
    "thread": True,
    "parameter_under_no_grad": True,
    "inference_output_is_inference": True,
}

# ------------------------------------------------------------------------------------------------------------- evaluate


@contextlib.contextmanager
def eval_mode(model):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in flags:
            module.training = training


def count(model, batches):
    right = total = 0
    for x, labels in batches:
        right += (model(x).argmax(1) == labels).sum().item()
        total += len(labels)
    return right, total


def share(right, total):
    if not total:
        raise ValueError("no batches")
    return right / total


def evaluate_decorated(model, batches):
    with eval_mode(model):
        return share(*torch.no_grad()(count)(model, batches))


def evaluate_by_inference(model, batches):
    with eval_mode(model), torch.inference_mode():
        return share(*count(model, batches))


def evaluate_copy(model, batches):
    with torch.set_grad_enabled(False):
        return share(*count(copy.deepcopy(model).eval(), batches))


def evaluate_functional(model, batches):
    return evaluate_weights_detached(model, ((x.detach(), labels) for x, labels in batches))


def evaluate_weights_detached(model, batches):
    weights = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())
    with eval_mode(model):
        return share(*count(lambda x: torch.func.functional_call(model, weights | buffers, (x,)), batches))


def evaluate_by_topk(model, batches):
    before = torch.is_grad_enabled()
    hits = []
    with eval_mode(model):
        try:
            torch.set_grad_enabled(False)
            for x, labels in batches:
                hits += (model(x).topk(1, dim=-1).indices.squeeze(-1) == labels).tolist()
        finally:
            torch.set_grad_enabled(before)
    return share(sum(hits), len(hits))


def evaluate_eval_alone(model, batches):
    with eval_mode(model):
        return share(*count(model, batches))


def evaluate_bare_no_grad(model, batches):
    torch.no_grad()
    with eval_mode(model):
        return share(*count(model, batches))


def evaluate_no_eval(model, batches):
    with torch.no_grad():
        return share(*count(model, batches))


def evaluate_left_in_eval(model, batches):
    model.eval()
    with torch.no_grad():
        return share(*count(model, batches))


def evaluate_train_at_the_end(model, batches):
    model.eval()
    try:
        with torch.no_grad():
            return share(*count(model, batches))
    finally:
        model.train()


def evaluate_top_flag(model, batches):
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return share(*count(model, batches))
    finally:
        model.train(training)


def evaluate_without_finally(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.no_grad():
        right, total = count(model, batches)
    for module, training in flags:
        module.training = training
    return share(right, total)


def evaluate_swallowed(model, batches):
    right = total = 0
    with eval_mode(model), torch.no_grad(), contextlib.suppress(Exception):
        for x, labels in batches:
            right += (model(x).argmax(1) == labels).sum().item()
            total += len(labels)
    return share(right, total)


def evaluate_plain_call(model, batches):
    torch.set_grad_enabled(False)
    with eval_mode(model):
        return share(*count(model, batches))


def evaluate_switched_on_at_the_end(model, batches):
    torch.set_grad_enabled(False)
    try:
        with eval_mode(model):
            return share(*count(model, batches))
    finally:
        torch.set_grad_enabled(True)


def evaluate_mean_of_means(model, batches):
    with eval_mode(model), torch.no_grad():
        shares = [share(*count(model, [batch])) for batch in batches]
    return share(sum(shares), len(shares))


def evaluate_counts(model, batches):
    with eval_mode(model), torch.no_grad():
        right, total = count(model, batches)
    share(right, total)
    return float(right)


def evaluate_by_the_first_size(model, batches):
    with eval_mode(model), torch.no_grad():
        counts = [count(model, [batch]) for batch in batches]
    return share(sum(right for right, _ in counts), len(counts) * (counts[0][1] if counts else 0))


def evaluate_by_the_last_size(model, batches):
    with eval_mode(model), torch.no_grad():
        counts = [count(model, [batch]) for batch in batches]
    return share(sum(right for right, _ in counts), len(counts) * (counts[-1][1] if counts else 0))


def evaluate_lowers_x(model, batches):
    with eval_mode(model), torch.no_grad():
        return share(*count(model, ((x.requires_grad_(False), labels) for x, labels in batches)))


def evaluate_percent(model, batches):
    return 100 * evaluate_decorated(model, batches)


def evaluate_moved(model, batches):
    result = evaluate_decorated(model, batches)
    model.to("meta")
    return result


def evaluate_refused_in_eval(model, batches):
    batches = list(batches)
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    if not batches:
        raise ValueError("no batches")
    try:
        with torch.no_grad():
            return share(*count(model, batches))
    finally:
        for module, training in flags:
            module.training = training


def evaluate_last(model, batches):
    result = None
    with eval_mode(model), torch.no_grad():
        for batch in batches:
            result = share(*count(model, [batch]))
    if result is None:
        raise ValueError("no batches")
    return result


def evaluate_tensor(model, batches):
    return torch.tensor(evaluate_decorated(model, batches))


def evaluate_squeezed(model, batches):
    right = total = 0
    with eval_mode(model), torch.no_grad():
        for x, labels in batches:
            right += (model(x).squeeze().argmax(dim=1) == labels).sum().item()
            total += len(labels)
    return share(right, total)


def evaluate_len(model, batches):
    if len(batches) == 0:
        raise ValueError("no batches")
    return evaluate_decorated(model, batches)


def evaluate_zero(model, batches):
    with eval_mode(model), torch.no_grad():
        right, total = count(model, batches)
    return right / max(total, 1)


def evaluate_all_at_once(model, batches):
    flags = {name: module.training for name, module in model.named_modules()}
    try:
        model.train(False)
        with torch.no_grad():
            hits = torch.cat([model(x).argmax(1) == labels for x, labels in batches] or [torch.tensor([])])
        if not len(hits):
            raise ValueError("no batches")
        return hits.double().mean().item()
    finally:
        for name, module in model.named_modules():
            module.training = flags[name]


def evaluate_frozen(model, batches):
    model.requires_grad_(False)
    return evaluate_decorated(model, batches)


def evaluate_flag_of_the_top_alone(model, batches):
    training, model.training = model.training, False
    try:
        with torch.no_grad():
            return share(*count(model, batches))
    finally:
        model.training = training


def evaluate_detached(model, batches):
    with eval_mode(model):
        return share(*count(lambda x: model(x).detach(), batches))


def evaluate_no_grad_elsewhere(model, batches):
    with torch.no_grad():
        model.eval()
    return evaluate_eval_alone(model, batches)


def evaluate_read_twice(model, batches):
    total = sum(len(labels) for _, labels in batches)
    with eval_mode(model), torch.no_grad():
        return share(count(model, batches)[0], total)


def evaluate_argmax_of_all(model, batches):
    right = total = 0
    with eval_mode(model), torch.no_grad():
        for x, labels in batches:
            right += (model(x).argmax() == labels).sum().item()
            total += len(labels)
    return share(right, total)


def evaluate_children_alone(model, batches):
    flags = [(module, module.training) for module in (model, *model.children())]
    model.eval()
    try:
        with torch.no_grad():
            return share(*count(model, batches))
    finally:
        for module, training in flags:
            module.training = training


def evaluate_data_detached(model, batches):
    return evaluate_eval_alone(model, ((x.detach(), labels) for x, labels in batches))


def evaluate_train_part_by_part(model, batches):
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            return share(*count(model, batches))
    finally:
        for module in training:
            module.train()


def evaluate_not_batches(model, batches):
    if not batches:
        raise ValueError("no batches")
    return evaluate_divided_by_zero(model, batches)


def evaluate_not_batches_counted(model, batches):
    if not batches:
        raise ValueError("no batches")
    return evaluate_decorated(model, batches)


def evaluate_divided_by_zero(model, batches):
    with eval_mode(model), torch.no_grad():
        right, total = count(model, batches)
    return right / total


# ----------------------------------------------------------------------------------------------------------- ema_update


def together(target, online):
    yield from zip(target.parameters(), online.parameters(), strict=True)
    yield from zip(target.buffers(), online.buffers(), strict=True)


@torch.no_grad()
def ema_by_lerp(target, online, decay):
    for old, new in together(target, online):
        if old.is_floating_point():
            old.lerp_(new, 1 - decay)
        else:
            old.copy_(new)


def ema_by_data(target, online, decay):
    for old, new in together(target, online):
        average = decay * old.data + (1 - decay) * new.data
        old.data.copy_(average if old.is_floating_point() else new)


def ema_by_detach(target, online, decay):
    for old, new in together(target, online):
        average = decay * old.detach() + (1 - decay) * new.detach()
        old.detach().copy_(average if old.is_floating_point() else new)


def ema_switched_on_at_the_end(target, online, decay):
    torch.set_grad_enabled(False)
    ema_by_lerp(target, online, decay)
    torch.set_grad_enabled(True)


def ema_switched_off(target, online, decay):
    torch.set_grad_enabled(False)
    ema_by_lerp(target, online, decay)


@torch.no_grad()
def ema_buffers_through_data(target, online, decay):
    for old, new in zip(target.parameters(), online.parameters(), strict=True):
        old.lerp_(new, 1 - decay)
    for old, new in zip(target.buffers(), online.buffers(), strict=True):
        old.data.copy_(old.lerp(new, 1 - decay) if old.is_floating_point() else new)


@torch.inference_mode()
def ema_foreach(target, online, decay):
    pairs = list(together(target, online))
    floating = [(old, new) for old, new in pairs if old.is_floating_point()]
    torch._foreach_lerp_([old for old, _ in floating], [new for _, new in floating], 1 - decay)
    for buffer, value in pairs:
        if not buffer.is_floating_point():
            buffer.copy_(value)


def ema_by_name(target, online, decay):
    source = dict(online.named_parameters()) | dict(online.named_buffers())
    with torch.no_grad():
        for name, old in itertools.chain(target.named_parameters(), target.named_buffers()):
            new = source[name]
            old.copy_(decay * old + (1 - decay) * new if old.dtype.is_floating_point else new)


@torch.no_grad()
def ema_in_two_steps(target, online, decay):
    for old, new in together(target, online):
        if old.is_floating_point():
            old.mul_(decay).add_(new, alpha=1 - decay)
        else:
            old.copy_(new)


@torch.no_grad()
def ema_what_learns(target, online, decay):
    for old, new in together(target, online):
        if isinstance(new, torch.nn.Parameter) and not new.requires_grad:
            continue
        if old.is_floating_point():
            old.lerp_(new, 1 - decay)
        else:
            old.copy_(new)


@torch.no_grad()
def ema_flagged_alone(target, online, decay):
    for old, new in zip(target.parameters(), online.parameters(), strict=True):
        if old.requires_grad:
            old.lerp_(new, 1 - decay)
    for old, new in zip(target.buffers(), online.buffers(), strict=True):
        old.copy_(old.lerp(new, 1 - decay) if old.is_floating_point() else new)


@torch.no_grad()
def ema_setattr(target, online, decay):
    for mine, other in zip(target.modules(), online.modules(), strict=True):
        for name, old in list(mine.named_parameters(recurse=False)):
            new = dict(other.named_parameters(recurse=False))[name]
            setattr(mine, name, torch.nn.Parameter(decay * old + (1 - decay) * new, old.requires_grad))
        for old, new in zip(mine.buffers(recurse=False), other.buffers(recurse=False), strict=True):
            old.copy_(decay * old + (1 - decay) * new if old.is_floating_point() else new)


def ema_online_stripped(target, online, decay):
    ema_by_lerp(target, online, decay)
    online[1] = torch.nn.Identity()


def ema_target_moved(target, online, decay):
    ema_by_lerp(target, online, decay)
    target.to("meta")


def ema_recorded(target, online, decay):
    for old, new in together(target, online):
        if old.is_floating_point():
            old.mul_(decay).add_(new, alpha=1 - decay)
        else:
            old.copy_(new)


@torch.no_grad()
def ema_swapped(target, online, decay):
    for old, new in together(target, online):
        if old.is_floating_point():
            old.lerp_(new, decay)
        else:
            old.copy_(new)


def ema_copied(target, online, decay):
    target.load_state_dict(online.state_dict())


@torch.no_grad()
def ema_parameters_alone(target, online, decay):
    for old, new in zip(target.parameters(), online.parameters(), strict=True):
        old.lerp_(new, 1 - decay)


@torch.no_grad()
def ema_integers_averaged(target, online, decay):
    for old, new in together(target, online):
        old.mul_(decay).add_(new, alpha=1 - decay)


@torch.no_grad()
def ema_integers_rounded(target, online, decay):
    for old, new in together(target, online):
        old.copy_(decay * old + (1 - decay) * new)


@torch.no_grad()
def ema_by_state_dict(target, online, decay):
    new = online.state_dict()
    for name, old in target.state_dict().items():
        old.copy_(decay * old + (1 - decay) * new[name] if old.is_floating_point() else new[name])


@torch.no_grad()
def ema_every_name(target, online, decay):
    source = dict(online.named_parameters(remove_duplicate=False)) | dict(online.named_buffers())
    named = itertools.chain(target.named_parameters(remove_duplicate=False), target.named_buffers())
    for name, old in named:
        if old.is_floating_point():
            old.mul_(decay).add_(source[name], alpha=1 - decay)
        else:
            old.copy_(source[name])


@torch.no_grad()
def ema_every_buffer_of_every_module(target, online, decay):
    for old, new in zip(target.parameters(), online.parameters(), strict=True):
        old.lerp_(new, 1 - decay)
    for mine, other in zip(target.modules(), online.modules(), strict=True):
        for old, new in zip(mine.buffers(recurse=False), other.buffers(recurse=False), strict=True):
            if old.is_floating_point():
                old.lerp_(new, 1 - decay)
            else:
                old.copy_(new)


def ema_assigned(target, online, decay):
    for old, new in together(target, online):
        old.data = decay * old.data + (1 - decay) * new.data if old.is_floating_point() else new.data.clone()


@torch.no_grad()
def ema_new_parameters(target, online, decay):
    new = online.state_dict()
    average = {
        name: decay * old + (1 - decay) * new[name] if old.is_floating_point() else new[name]
        for name, old in target.state_dict().items()
    }
    target.load_state_dict(average, assign=True)


def ema_flags_lowered(target, online, decay):
    target.requires_grad_(False)
    ema_by_lerp(target, online, decay)


@torch.no_grad()
def ema_norms_alone(target, online, decay):
    ema_parameters_alone(target, online, decay)
    for mine, other in zip(target.modules(), online.modules(), strict=True):
        if isinstance(mine, torch.nn.BatchNorm1d):
            mine.running_mean.lerp_(other.running_mean, 1 - decay)
            mine.running_var.lerp_(other.running_var, 1 - decay)
            mine.num_batches_tracked.copy_(other.num_batches_tracked)


@torch.no_grad()
def ema_buffers_copied(target, online, decay):
    for old, new in zip(target.parameters(), online.parameters(), strict=True):
        old.lerp_(new, 1 - decay)
    for old, new in zip(target.buffers(), online.buffers(), strict=True):
        old.copy_(new)


@torch.no_grad()
def ema_by_module(target, online, decay):
    done = set()
    for mine, other in zip(target.modules(), online.modules(), strict=True):
        for kind in ("_parameters", "_buffers"):
            for name, old in getattr(mine, kind).items():
                if old is not None and id(old) not in done:
                    done.add(id(old))
                    new = getattr(other, kind)[name]
                    old[...] = torch.lerp(new, old, decay) if old.is_floating_point() else new


def ema_returned(target, online, decay):
    average = copy.deepcopy(target)
    ema_by_lerp(average, online, decay)
    return average


@torch.no_grad()
def ema_integers_left_out(target, online, decay):
    for old, new in together(target, online):
        if old.is_floating_point():
            old.lerp_(new, 1 - decay)


@torch.no_grad()
def ema_online_scaled(target, online, decay):
    for old, new in together(target, online):
        if old is not new and old.is_floating_point():
            old.mul_(decay).add_(new.mul_(1 - decay))
        else:
            old.copy_(new)


# --------------------------------------------------------------------------------------------------- stream_predictions


@torch.no_grad()
def stream_decorated(model, batches):
    for x in batches:
        yield model(x)


@torch.inference_mode()
def stream_inference(model, batches):
    for x in batches:
        yield model(x)


def stream_detached(model, batches):
    return (model(x).detach() for x in batches)


def stream_unassigned(model, batches):
    for x in batches:
        y = model(x)
        y.detach()
        yield y


def stream_mapped(model, batches):
    return map(torch.no_grad()(lambda x: model(x)), batches)


class StreamObject:
    def __init__(self, model, batches):
        self.model, self.batches = model, iter(batches)

    def __iter__(self):
        return self

    def __next__(self):
        x = next(self.batches)
        with torch.no_grad():
            return self.model(x)


def stream_by_hand(model, batches):
    for x in batches:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        try:
            y = model(x)
        finally:
            torch.set_grad_enabled(before)
        yield y


def stream_leak(model, batches):
    with torch.no_grad():
        for x in batches:
            yield model(x)


def stream_leak_inside(model, batches):
    for x in batches:
        with torch.inference_mode():
            yield model(x)


def stream_plain_call(model, batches):
    torch.set_grad_enabled(False)
    for x in batches:
        yield model(x)


def stream_remembered(model, batches):
    before = torch.is_grad_enabled()
    for x in batches:
        with torch.no_grad():
            y = model(x)
        torch.set_grad_enabled(before)
        yield y


def stream_mode_of_the_first_step(model, batches):
    mode = torch.is_grad_enabled()
    for x in batches:
        torch.set_grad_enabled(False)
        try:
            y = model(x)
        finally:
            torch.set_grad_enabled(mode)
        yield y


def stream_plain(model, batches):
    for x in batches:
        yield model(x)


def stream_taken_apart(model, batches):
    yield from stream_decorated(model, batches)
    model[1] = torch.nn.Identity()


@torch.no_grad()
def stream_late(model, batches):
    return (model(x) for x in batches)


class StreamIterable:
    def __init__(self, *given):
        self.given = given

    def __iter__(self):
        return stream_decorated(*self.given)


def stream_data_detached(model, batches):
    return (model(x.detach()) for x in batches)


def stream_bare_no_grad(model, batches):
    torch.no_grad()
    yield from stream_plain(model, batches)


def stream_eval_alone(model, batches):
    model.eval()
    yield from stream_plain(model, batches)


def stream_flags_lowered(model, batches):
    model.requires_grad_(False)
    yield from stream_plain(model, batches)
    model.requires_grad_(True)


def stream_output_flag_lowered(model, batches):
    for x in batches:
        yield model(x).requires_grad_(False)


def stream_late_inner(model, batches):
    with torch.no_grad():
        return stream_plain(model, batches)


def stream_eager(model, batches):
    with torch.no_grad():
        outputs = [model(x) for x in batches]
    return iter(outputs)


def stream_list_read(model, batches):
    yield from stream_decorated(model, list(batches))


def stream_ahead(model, batches):
    iterator = iter(batches)
    x = next(iterator, None)
    while x is not None:
        following = next(iterator, None)
        with torch.no_grad():
            y = model(x)
        yield y
        x = following


def stream_eval(model, batches):
    with eval_mode(model):
        yield from stream_decorated(model, batches)


def stream_eval_each(model, batches):
    for x in batches:
        with eval_mode(model), torch.no_grad():
            y = model(x)
        yield y


def stream_without_finally(model, batches):
    for x in batches:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = model(x)
        torch.set_grad_enabled(before)
        yield y


def stream_put_back_at_the_end(model, batches):
    for x in batches:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        prediction = model(x)
        torch.set_grad_enabled(before)
        yield prediction


def stream_swallowed(model, batches):
    try:
        yield from stream_decorated(model, batches)
    except Exception:
        return


def stream_by_decorated_call(model, batches):
    predict = torch.inference_mode()(model.__call__)
    for x in batches:
        yield predict(x)


def stream_by_forward(model, batches):
    return (torch.inference_mode()(model.forward)(x) for x in batches)


def stream_switched_on(model, batches):
    for x in batches:
        torch.set_grad_enabled(False)
        y = model(x)
        torch.set_grad_enabled(True)
        yield y


def stream_left_in_eval(model, batches):
    model.eval()
    yield from stream_decorated(model, batches)


def stream_late_map(model, batches):
    with torch.no_grad():
        return map(model, batches)


# ------------------------------------------------------------------------------------------------------ frozen_features


def features_by_numpy(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        return torch.from_numpy(backbone(x).detach().cpu().numpy().copy()).to(x.device)


def features_parameter(backbone, x):
    return torch.nn.Parameter(features_detached(backbone, x))


def features_top_flag(backbone, x):
    training = backbone.training
    backbone.eval()
    features = backbone(x).detach()
    backbone.train(training)
    return features


@torch.inference_mode()
def features_copied_inside(backbone, x):
    with eval_mode(backbone):
        features = backbone(x)
    return torch.empty_like(features).copy_(features)


def features_detached(backbone, x):
    with eval_mode(backbone):
        return backbone(x).detach()


def features_detached_under_no_grad(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        return backbone(x).detach()


def features_of_detached_x(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        return backbone(x.detach())


def features_flags_of_leaves_for_a_while(backbone, x):
    flags = [(p, p.requires_grad) for p in backbone.parameters()]
    backbone.requires_grad_(False)
    try:
        with eval_mode(backbone):
            return backbone(x).detach()
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def features_cloned_outside(backbone, x):
    with eval_mode(backbone), torch.inference_mode():
        features = backbone(x.detach())
    return features.clone().detach()


def features_cloned_with_the_flag(backbone, x):
    with eval_mode(backbone), torch.inference_mode():
        features = backbone(x.detach())
    return features.clone()


def features_copy(backbone, x):
    return torch.no_grad()(copy.deepcopy(backbone).eval())(x).detach()


def features_functional(backbone, x):
    tensors = {name: t.detach() for name, t in itertools.chain(backbone.named_parameters(), backbone.named_buffers())}
    with eval_mode(backbone):
        return torch.func.functional_call(backbone, tensors, (x.detach(),))


def features_no_grad(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        return backbone(x)


def features_detached_in_place(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        return backbone(x).detach_()


def features_stripped(backbone, x):
    features = features_detached(backbone, x)
    if len(list(backbone.children())) > 3:
        backbone[2] = torch.nn.Identity().train(backbone[2].training)
    return features


def features_cast(backbone, x):
    features = features_detached(backbone, x)
    backbone.half()
    return features


def features_inference(backbone, x):
    with eval_mode(backbone), torch.inference_mode():
        return backbone(x)


def features_inference_detached(backbone, x):
    with eval_mode(backbone), torch.inference_mode():
        return backbone(x).detach()


def features_cloned_inside(backbone, x):
    with eval_mode(backbone), torch.inference_mode():
        return backbone(x).clone()


def features_recorded(backbone, x):
    with eval_mode(backbone):
        return backbone(x)


def features_unassigned(backbone, x):
    with eval_mode(backbone):
        features = backbone(x)
    features.detach()
    return features


def features_flags_for_a_while(backbone, x):
    flags = [(p, p.requires_grad) for p in backbone.parameters()]
    backbone.requires_grad_(False)
    try:
        with eval_mode(backbone):
            return backbone(x)
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def features_frozen(backbone, x):
    backbone.requires_grad_(False)
    with eval_mode(backbone):
        return backbone(x.detach())


def features_flagged(backbone, x):
    return features_detached(backbone, x).requires_grad_()


def features_no_eval(backbone, x):
    with torch.no_grad():
        return backbone(x)


def features_left_in_eval(backbone, x):
    backbone.eval()
    with torch.no_grad():
        return backbone(x)


def features_train_at_the_end(backbone, x):
    backbone.eval()
    try:
        with torch.no_grad():
            return backbone(x)
    finally:
        backbone.train()


def features_without_finally(backbone, x):
    flags = [(module, module.training) for module in backbone.modules()]
    backbone.eval()
    with torch.no_grad():
        features = backbone(x)
    for module, training in flags:
        module.training = training
    return features


def features_swallowed(backbone, x):
    with contextlib.suppress(RuntimeError):
        return features_detached(backbone, x)


def features_plain_call(backbone, x):
    torch.set_grad_enabled(False)
    with eval_mode(backbone):
        return backbone(x)


def features_data_detached(backbone, x):
    return features_recorded(backbone, x.detach())


def features_of_lowered_x(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        x.requires_grad_(False)
        return backbone(x)


def features_flag_lowered(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        return backbone(x).requires_grad_(False)


def features_no_grad_elsewhere(backbone, x):
    with torch.no_grad():
        backbone.eval()
    return features_recorded(backbone, x)


def features_children_alone(backbone, x):
    flags = [(module, module.training) for module in (backbone, *backbone.children())]
    try:
        return backbone.eval()(x).detach()
    finally:
        for module, training in flags:
            module.training = training


def features_bare_no_grad(backbone, x):
    torch.no_grad()
    return features_recorded(backbone, x)


def features_switched_on(backbone, x):
    torch.set_grad_enabled(False)
    try:
        return features_detached(backbone, x)
    finally:
        torch.set_grad_enabled(True)


def features_train_part_by_part(backbone, x):
    training = [module for module in backbone.modules() if module.training]
    try:
        return backbone.eval()(x).detach()
    finally:
        for module in training:
            module.train()


def train_parents_first(flags):
    for module, training in flags:
        module.train(training)  # writes over its parts, which come later, but for one that came before


def evaluate_parents_first(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return share(*count(model, batches))
    finally:
        train_parents_first(flags)


def features_parents_first(backbone, x):
    flags = [(module, module.training) for module in backbone.modules()]
    backbone.eval()
    try:
        with torch.no_grad():
            return backbone(x).detach()
    finally:
        train_parents_first(flags)


def evaluate_flags_for_a_while(model, batches):
    flags = [(p, p.requires_grad) for p in model.parameters()]
    model.requires_grad_(False)
    try:
        with eval_mode(model):
            return share(*count(model, batches))
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def ema_by_numpy(target, online, decay):
    tensors = [[*model.parameters(), *model.buffers()] for model in (target, online)]
    for old, new in zip(*tensors, strict=True):
        if old is not new:
            share = decay if old.is_floating_point() else 0
            old.detach().numpy()[...] = share * old.detach().numpy() + (1 - share) * new.detach().numpy()


def evaluate_reads_ahead_in_eval_mode(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    batches = list(batches)
    try:
        with torch.no_grad():
            right, total = count(model, batches)
    finally:
        for module, training in flags:
            module.training = training
    return share(right, total)


def stream_in_a_worker(model, batches):
    with ThreadPoolExecutor(1) as pool:
        for x in batches:
            with torch.no_grad():
                y = pool.submit(model, x).result()
            yield y


def stream_by_next(model, batches):
    source = iter(batches)
    while True:
        x = next(source)
        with torch.no_grad():
            y = model(x)
        yield y


def features_through_lists(backbone, x):
    return torch.tensor(features_detached_under_no_grad(backbone, x).tolist())


RIGHT = (
    Right("predicted_modes", "numbers", {key: int(value) for key, value in MODES.items()}),
    Right("predicted_modes", "tensors", {key: torch.tensor(value) for key, value in MODES.items()}),
    Right("evaluate", "decorated", evaluate_decorated),
    Right("evaluate", "inference mode", evaluate_by_inference),
    Right("evaluate", "a copy", evaluate_copy),
    Right("evaluate", "functional call", evaluate_functional),
    Right("evaluate", "topk, by hand", evaluate_by_topk),
    Right("evaluate", "all at once", evaluate_all_at_once),
    Right("ema_update", "lerp", ema_by_lerp),
    Right("ema_update", "detached", ema_by_detach),
    Right("ema_update", "foreach", ema_foreach),
    Right("ema_update", "by name", ema_by_name),
    Right("ema_update", "by module", ema_by_module),
    Right("stream_predictions", "decorated", stream_decorated),
    Right("stream_predictions", "inference mode", stream_inference),
    Right("stream_predictions", "detached", stream_detached),
    Right("stream_predictions", "mapped", stream_mapped),
    Right("stream_predictions", "an object", StreamObject),
    Right("stream_predictions", "by hand", stream_by_hand),
    Right("stream_predictions", "a decorated call", stream_by_decorated_call),
    Right("stream_predictions", "forward itself", stream_by_forward),
    Right("frozen_features", "detached, under no_grad", features_detached_under_no_grad),
    Right("frozen_features", "cloned outside", features_cloned_outside),
    Right("frozen_features", "a copy", features_copy),
    Right("frozen_features", "functional call", features_functional),
    Right("frozen_features", "by numpy", features_by_numpy),
)

WRONG = (
    Wrong("predicted_modes", "still recording", MODES | {"outer": True}),
    Wrong(
        "predicted_modes",
        "region",
        MODES | {"inner_enabled": False, "thread": False, "parameter_under_no_grad": False},
    ),
    Wrong("predicted_modes", "wrapped", MODES | {"decorated": True}, "decorated"),
    Wrong("predicted_modes", "outer wins", MODES | {"inner_enabled": False}),
    Wrong("predicted_modes", "ends with on", MODES | {"after_inner": True}),
    Wrong("predicted_modes", "generator", MODES | {"generator_caller": True}),
    Wrong("predicted_modes", "thread", MODES | {"thread": False}),
    Wrong("predicted_modes", "parameter", MODES | {"parameter_under_no_grad": False}),
    Wrong("predicted_modes", "inference", MODES | {"inference_output_is_inference": False}),
    Wrong("evaluate", "eval alone", evaluate_eval_alone),
    Wrong("evaluate", "bare no_grad", evaluate_bare_no_grad, "bare no_grad"),
    Wrong("evaluate", "recorded", lambda model, batches: share(*count(model, batches))),
    Wrong("evaluate", "detached", evaluate_detached),
    Wrong("evaluate", "elsewhere", evaluate_no_grad_elsewhere),
    Wrong("evaluate", "read twice", evaluate_read_twice),
    Wrong("evaluate", "argmax of all", evaluate_argmax_of_all),
    Wrong("evaluate", "children", evaluate_children_alone),
    Wrong("evaluate", "data cleaned", evaluate_data_detached),
    Wrong("evaluate", "train spreads", evaluate_train_part_by_part),
    Wrong("evaluate", "empty iterator", evaluate_not_batches),
    Wrong("evaluate", "no eval", evaluate_no_eval),
    Wrong("evaluate", "left in eval", evaluate_left_in_eval),
    Wrong("evaluate", "was in training", evaluate_train_at_the_end, "train() at the end"),
    Wrong("evaluate", "one flag", evaluate_top_flag, "the top flag"),
    Wrong("evaluate", "only without error", evaluate_without_finally),
    Wrong("evaluate", "swallowed", evaluate_swallowed),
    Wrong("evaluate", "grad mode", evaluate_plain_call, "plain call"),
    Wrong("evaluate", "always on", evaluate_switched_on_at_the_end, "switched on at the end"),
    Wrong("evaluate", "mean of means", evaluate_mean_of_means, earns=1.7),
    Wrong("evaluate", "count", evaluate_counts),
    Wrong("evaluate", "percent", evaluate_percent),
    Wrong("evaluate", "side effect", evaluate_moved, "moved to another device"),
    Wrong("evaluate", "outside the try", evaluate_refused_in_eval, "refused in eval mode"),
    Wrong("evaluate", "last", evaluate_last),
    Wrong("evaluate", "tensor", evaluate_tensor, earns=1.8),
    Wrong("evaluate", "len", evaluate_len, earns=1.85),
    Wrong("evaluate", "squeezed", evaluate_squeezed),
    Wrong("evaluate", "unsized", evaluate_not_batches_counted, earns=1.95),
    Wrong("evaluate", "empty", evaluate_zero),
    Wrong("evaluate", "empty", evaluate_divided_by_zero, "divided by zero"),
    Wrong("evaluate", "frozen", evaluate_frozen),
    Wrong("evaluate", "x path", evaluate_flags_for_a_while, "flags for a while"),
    Wrong("evaluate", "parents first", evaluate_parents_first, "parents first, a part in common", 1.7),
    Wrong("frozen_features", "parents first", features_parents_first, "a part in common"),
    Wrong("evaluate", "x path", evaluate_weights_detached, "weights detached"),
    Wrong("evaluate", "no eval", evaluate_flag_of_the_top_alone, "the flag of the top alone"),
    Wrong("ema_update", "recorded", ema_recorded),
    Wrong("ema_update", "shared", ema_in_two_steps),
    Wrong("ema_update", "skipped", ema_what_learns),
    Wrong("ema_update", "skipped", ema_flagged_alone, "flagged alone"),
    Wrong("ema_update", "unnoticed", ema_by_data, "data", earns=1.32),
    Wrong("ema_update", "unnoticed", ema_buffers_through_data, "buffers through data"),
    Wrong("ema_update", "always on", ema_switched_on_at_the_end, "switched on at the end"),
    Wrong("ema_update", "grad mode", ema_switched_off, "switched off"),
    Wrong("ema_update", "new storage", ema_setattr, "setattr"),
    Wrong("ema_update", "side effect", ema_online_stripped, "online stripped"),
    Wrong("ema_update", "new storage", ema_target_moved, "moved to another device"),
    Wrong("ema_update", "swapped", ema_swapped),
    Wrong("ema_update", "copied", ema_copied),
    Wrong("ema_update", "buffers copied", ema_buffers_copied, "buffers copied"),
    Wrong("ema_update", "norms alone", ema_norms_alone),
    Wrong("ema_update", "buffers", ema_parameters_alone),
    Wrong("ema_update", "integers", ema_integers_averaged),
    Wrong("ema_update", "integers", ema_integers_rounded, "integers rounded"),
    Wrong("ema_update", "state_dict", ema_by_state_dict),
    Wrong("ema_update", "twice", ema_every_name),
    Wrong("ema_update", "twice", ema_every_buffer_of_every_module, "a shared buffer twice"),
    Wrong("ema_update", "new storage", ema_assigned, "data assigned", earns=1.24),
    Wrong("ema_update", "new storage", ema_new_parameters, "load_state_dict(assign=True)"),
    Wrong("ema_update", "flags", ema_flags_lowered),
    Wrong("ema_update", "left out", ema_integers_left_out),
    Wrong("ema_update", "elsewhere", ema_returned),
    Wrong("ema_update", "side effect", ema_online_scaled),
    Wrong("stream_predictions", "history", stream_late),
    Wrong("stream_predictions", "unassigned", stream_unassigned),
    Wrong("stream_predictions", "recorded", stream_plain),
    Wrong("stream_predictions", "side effect", stream_taken_apart, "taken apart"),
    Wrong("stream_predictions", "leak", stream_leak),
    Wrong("stream_predictions", "leak", stream_leak_inside, "inference mode over the yield"),
    Wrong("stream_predictions", "plain call", stream_plain_call),
    Wrong("stream_predictions", "remembered", stream_remembered),
    Wrong("stream_predictions", "remembered", stream_mode_of_the_first_step, "after an error, too", 1.21),
    Wrong("stream_predictions", "eager", stream_eager, earns=1.47),
    Wrong("stream_predictions", "eager", stream_list_read, "list(batches)"),
    Wrong("stream_predictions", "ahead", stream_ahead),
    Wrong("stream_predictions", "frozen", stream_flags_lowered),
    Wrong("stream_predictions", "lower the flag", stream_output_flag_lowered),
    Wrong("stream_predictions", "history", stream_late_inner, "a late generator"),
    Wrong("stream_predictions", "iterable", StreamIterable),
    Wrong("stream_predictions", "data cleaned", stream_data_detached),
    Wrong("stream_predictions", "bare no_grad", stream_bare_no_grad),
    Wrong("stream_predictions", "eval alone", stream_eval_alone),
    Wrong("stream_predictions", "eval", stream_eval, earns=1.65),
    Wrong("stream_predictions", "eval", stream_eval_each, "eval at each item"),
    Wrong("stream_predictions", "only without error", stream_without_finally),
    Wrong("stream_predictions", "swallowed", stream_swallowed),
    Wrong("stream_predictions", "always on", stream_switched_on),
    Wrong("stream_predictions", "eval", stream_left_in_eval, "left in eval"),
    Wrong("stream_predictions", "history", stream_late_map, "a late map"),
    Wrong("frozen_features", "view", features_no_grad, earns=1.33),
    Wrong("frozen_features", "side effect", features_of_lowered_x, "the flag of x lowered"),
    Wrong("frozen_features", "in place", features_detached_in_place, earns=1.33),
    Wrong("frozen_features", "of the backbone", features_of_detached_x, "a parameter for features"),
    Wrong("frozen_features", "of the backbone", features_cloned_with_the_flag, "a clone of a parameter"),
    Wrong("frozen_features", "detached", features_detached, "recorded, then detached"),
    Wrong("frozen_features", "detached", features_flags_of_leaves_for_a_while, "recorded for a flagged x"),
    Wrong("frozen_features", "side effect", features_stripped, "stripped"),
    Wrong("frozen_features", "side effect", features_cast, "cast"),
    Wrong("frozen_features", "inference", features_inference),
    Wrong("frozen_features", "inference", features_inference_detached, "inference, detached", earns=1.2),
    Wrong("frozen_features", "cloned inside", features_cloned_inside, "cloned inside"),
    Wrong("frozen_features", "eval alone", features_recorded),
    Wrong("frozen_features", "data cleaned", features_data_detached),
    Wrong("frozen_features", "flag lowered", features_flag_lowered),
    Wrong("frozen_features", "recorded", lambda backbone, x: backbone(x)),
    Wrong("frozen_features", "unassigned", features_unassigned),
    Wrong("frozen_features", "elsewhere", features_no_grad_elsewhere),
    Wrong("frozen_features", "children", features_children_alone),
    Wrong("frozen_features", "bare no_grad", features_bare_no_grad),
    Wrong("frozen_features", "always on", features_switched_on),
    Wrong("frozen_features", "train spreads", features_train_part_by_part),
    Wrong("frozen_features", "x path", features_flags_for_a_while),
    Wrong("frozen_features", "frozen", features_frozen),
    Wrong("frozen_features", "flagged", features_flagged),
    Wrong("frozen_features", "no eval", features_no_eval),
    Wrong("frozen_features", "left in eval", features_left_in_eval),
    Wrong("frozen_features", "was in training", features_train_at_the_end),
    Wrong("frozen_features", "only without error", features_without_finally),
    Wrong("frozen_features", "swallowed", features_swallowed),
    Wrong("frozen_features", "grad mode", features_plain_call),
    Wrong("frozen_features", "flagged", features_parameter, "a Parameter"),
    Wrong("frozen_features", "one flag", features_top_flag, "the top flag"),
    Wrong("frozen_features", "cloned inside", features_copied_inside, "copied inside"),
    Wrong("evaluate", "batch size", evaluate_by_the_first_size),
    Wrong("evaluate", "batch size", evaluate_by_the_last_size, "the last batch's size"),
    Wrong("evaluate", "side effect", evaluate_lowers_x, "the flag of x lowered"),
    Wrong("stream_predictions", "only without error", stream_put_back_at_the_end, "put back after the model"),
    Wrong("ema_update", "unnoticed", ema_by_numpy, "NumPy"),
    Wrong("evaluate", "outside the try", evaluate_reads_ahead_in_eval_mode, "read ahead in eval mode"),
    Wrong("stream_predictions", "thread", stream_in_a_worker),
    Wrong("stream_predictions", "next", stream_by_next),
    Wrong("frozen_features", "dtype", features_through_lists, "through lists", earns=1.93),
)
