"""Right answers to the exercises of lesson 05, written otherwise than the course's own."""

# %%
import copy
import itertools

from course_utils import evaluating


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


def together(target, online):
    yield from zip(target.parameters(), online.parameters(), strict=True)
    yield from zip(target.buffers(), online.buffers(), strict=True)

# %% predicted_modes: numbers
predicted_modes = {key: int(value) for key, value in predicted_modes.items()}

# %% predicted_modes: tensors
predicted_modes = {key: torch.tensor(value) for key, value in predicted_modes.items()}

# %% evaluate: decorated
def evaluate(model, batches):
    with evaluating(model):
        return share(*torch.no_grad()(count)(model, batches))

# %% evaluate: functional call
def evaluate(model, batches):
    weights = {name: p.detach() for name, p in model.named_parameters()}
    buffers = dict(model.named_buffers())
    with evaluating(model):
        return share(*count(lambda x: torch.func.functional_call(model, weights | buffers, (x.detach(),)), batches))

# %% evaluate: topk, by hand
def evaluate(model, batches):
    before = torch.is_grad_enabled()
    hits = []
    with evaluating(model):
        try:
            torch.set_grad_enabled(False)
            for x, labels in batches:
                hits += (model(x).topk(1, dim=-1).indices.squeeze(-1) == labels).tolist()
        finally:
            torch.set_grad_enabled(before)
    return share(sum(hits), len(hits))

# %% evaluate: all at once
def evaluate(model, batches):
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

# %% ema_update: lerp
@torch.no_grad()
def ema_update(target, online, decay):
    for old, new in together(target, online):
        if old.is_floating_point():
            old.lerp_(new, 1 - decay)
        else:
            old.copy_(new)

# %% ema_update: detached
def ema_update(target, online, decay):
    for old, new in together(target, online):
        average = decay * old.detach() + (1 - decay) * new.detach()
        old.detach().copy_(average if old.is_floating_point() else new)

# %% ema_update: foreach
@torch.inference_mode()
def ema_update(target, online, decay):
    pairs = list(together(target, online))
    floating = [(old, new) for old, new in pairs if old.is_floating_point()]
    torch._foreach_lerp_([old for old, _ in floating], [new for _, new in floating], 1 - decay)
    for buffer, value in pairs:
        if not buffer.is_floating_point():
            buffer.copy_(value)

# %% ema_update: by name
def ema_update(target, online, decay):
    source = dict(online.named_parameters()) | dict(online.named_buffers())
    with torch.no_grad():
        for name, old in itertools.chain(target.named_parameters(), target.named_buffers()):
            new = source[name]
            old.copy_(decay * old + (1 - decay) * new if old.dtype.is_floating_point else new)

# %% ema_update: by module
@torch.no_grad()
def ema_update(target, online, decay):
    done = set()
    for mine, other in zip(target.modules(), online.modules(), strict=True):
        for kind in ("_parameters", "_buffers"):
            for name, old in getattr(mine, kind).items():
                if old is not None and id(old) not in done:
                    done.add(id(old))
                    new = getattr(other, kind)[name]
                    old[...] = torch.lerp(new, old, decay) if old.is_floating_point() else new

# %% stream_predictions: decorated
@torch.no_grad()
def stream_predictions(model, batches):
    for x in batches:
        yield model(x)

# %% stream_predictions: inference mode
@torch.inference_mode()
def stream_predictions(model, batches):
    for x in batches:
        yield model(x)

# %% stream_predictions: detached
def stream_predictions(model, batches):
    return (model(x).detach() for x in batches)

# %% stream_predictions: mapped
def stream_predictions(model, batches):
    return map(torch.no_grad()(lambda x: model(x)), batches)

# %% stream_predictions: an object
class stream_predictions:
    def __init__(self, model, batches):
        self.model, self.batches = model, iter(batches)

    def __iter__(self):
        return self

    def __next__(self):
        x = next(self.batches)
        with torch.no_grad():
            return self.model(x)

# %% stream_predictions: by hand
def stream_predictions(model, batches):
    for x in batches:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        try:
            y = model(x)
        finally:
            torch.set_grad_enabled(before)
        yield y

# %% stream_predictions: a decorated call
def stream_predictions(model, batches):
    predict = torch.inference_mode()(model.__call__)
    for x in batches:
        yield predict(x)

# %% stream_predictions: forward itself
def stream_predictions(model, batches):
    return (torch.inference_mode()(model.forward)(x) for x in batches)

# %% frozen_features: cloned outside
def frozen_features(backbone, x):
    with evaluating(backbone), torch.inference_mode():
        features = backbone(x.detach())
    return features.clone().detach()

# %% frozen_features: a copy
def frozen_features(backbone, x):
    return torch.no_grad()(copy.deepcopy(backbone).eval())(x).detach()

# %% frozen_features: functional call
def frozen_features(backbone, x):
    tensors = {name: t.detach() for name, t in itertools.chain(backbone.named_parameters(), backbone.named_buffers())}
    with evaluating(backbone):
        return torch.func.functional_call(backbone, tensors, (x.detach(),))
