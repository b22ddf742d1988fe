"""Right and wrong answers to the exercises of lesson 05."""

import contextlib
import copy
import itertools

import torch

from tests.lessons.answers import Right

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


def ema_by_detach(target, online, decay):
    for old, new in together(target, online):
        average = decay * old.detach() + (1 - decay) * new.detach()
        old.detach().copy_(average if old.is_floating_point() else new)


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
def ema_by_module(target, online, decay):
    done = set()
    for mine, other in zip(target.modules(), online.modules(), strict=True):
        for kind in ("_parameters", "_buffers"):
            for name, old in getattr(mine, kind).items():
                if old is not None and id(old) not in done:
                    done.add(id(old))
                    new = getattr(other, kind)[name]
                    old[...] = torch.lerp(new, old, decay) if old.is_floating_point() else new


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


def stream_by_decorated_call(model, batches):
    predict = torch.inference_mode()(model.__call__)
    for x in batches:
        yield predict(x)


def stream_by_forward(model, batches):
    return (torch.inference_mode()(model.forward)(x) for x in batches)


# ------------------------------------------------------------------------------------------------------ frozen_features


def features_by_numpy(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        return torch.from_numpy(backbone(x).detach().cpu().numpy().copy()).to(x.device)


def features_detached_under_no_grad(backbone, x):
    with eval_mode(backbone), torch.no_grad():
        return backbone(x).detach()


def features_cloned_outside(backbone, x):
    with eval_mode(backbone), torch.inference_mode():
        features = backbone(x.detach())
    return features.clone().detach()


def features_copy(backbone, x):
    return torch.no_grad()(copy.deepcopy(backbone).eval())(x).detach()


def features_functional(backbone, x):
    tensors = {name: t.detach() for name, t in itertools.chain(backbone.named_parameters(), backbone.named_buffers())}
    with eval_mode(backbone):
        return torch.func.functional_call(backbone, tensors, (x.detach(),))


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
