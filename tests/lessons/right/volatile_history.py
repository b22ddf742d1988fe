"""Right answers to the exercises of lesson 04, written otherwise than the course's own."""

# %%
import contextlib
import copy
import functools

import numpy as np

from course_utils import evaluating
from course_utils.volatile import Variable


# %% volatile_rule: a loop that stops early
def volatile_rule(inputs):
    flagged = False
    for requires_grad, volatile in inputs:
        if volatile:
            return False, True
        flagged = flagged or requires_grad
    return flagged, False

# %% volatile_rule: by running it
def volatile_rule(inputs):
    variables = [Variable(torch.ones(1), requires_grad=flag, volatile=volatile) for flag, volatile in inputs]
    result = torch.cat([*variables, Variable(torch.ones(1))])
    return result.requires_grad, result.volatile

# %% volatile_rule: membership
def volatile_rule(inputs):
    volatile = (False, True) in inputs
    return (not volatile and (True, False) in inputs), volatile

# %% volatile_rule: reduce
def volatile_rule(inputs):
    volatile = functools.reduce(lambda a, b: a | b[1], inputs, False)
    return functools.reduce(lambda a, b: a | b[0], inputs, False) and not volatile, volatile

# %% volatile_rule: merged two by two
def volatile_rule(inputs):
    def merge(a, b):
        volatile = a[1] or b[1]
        return (a[0] or b[0]) and not volatile, volatile

    return functools.reduce(merge, inputs, (False, False))

# %% volatile_rule: numpy
def volatile_rule(inputs):
    flags = np.array(inputs, dtype=bool).reshape(-1, 2)
    volatile = flags[:, 1].any()
    return flags[:, 0].any() & ~volatile, volatile

# %% port_evaluation: exit stack
def port_evaluation(model, batches):
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        model.eval()
        stack.enter_context(torch.inference_mode())
        return [model(x).detach().to("cpu", copy=True) for x in batches]

# %% port_evaluation: decorated generator
def port_evaluation(model, batches):
    @torch.no_grad()
    def stream():
        for x in batches:
            yield model(x).cpu()

    with evaluating(model):
        return list(stream())

# %% port_evaluation: flags lowered and put back one by one
def port_evaluation(model, batches):
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        model.requires_grad_(False)
        with evaluating(model):
            return [model(x).cpu() for x in batches]
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)

# %% port_evaluation: decorated
@torch.no_grad()
def port_evaluation(model, batches):
    modes = {name: module.training for name, module in model.named_modules()}
    try:
        for module in model.modules():
            module.training = False
        return list(map(lambda x: model(x).cpu(), batches))
    finally:
        for name, module in model.named_modules():
            module.training = modes[name]

# %% port_evaluation: on a copy
def port_evaluation(model, batches):
    twin = copy.deepcopy(model).eval().requires_grad_(False)
    return [twin(x).cpu() for x in batches]

# %% port_evaluation: a plain call, put back
def port_evaluation(model, batches):
    before = torch.is_grad_enabled()
    with evaluating(model):
        try:
            torch.set_grad_enabled(False)
            return [model(x).cpu() for x in batches]
        finally:
            torch.set_grad_enabled(before)

# %% bounded_evaluation: sum and count
@torch.no_grad()
def bounded_evaluation(model, batches):
    total, count = 0, 0
    with evaluating(model):
        for x in batches:
            output = model(x)
            total = total + output.sum(0)
            count += len(output)
            del x, output
    if not count:
        raise ValueError("no batches")
    return total / count

# %% bounded_evaluation: running mean
def bounded_evaluation(model, batches):
    mean, count = None, 0
    with evaluating(model), torch.inference_mode():
        for x in batches:
            batch_mean, size = model(x).mean(0), x.shape[0]
            count += size
            mean = batch_mean if mean is None else mean.lerp(batch_mean, size / count)
            del x
    if mean is None:
        raise ValueError("no batches")
    return mean

# %% bounded_evaluation: sample by sample
def bounded_evaluation(model, batches):
    with evaluating(model), torch.no_grad():
        total, count = None, 0
        for x in batches:
            for sample in x.split(1):
                value = model(sample)[0]
                total = value if total is None else total.add_(value)
                count += 1
            del x, sample, value
        if total is None:
            raise ValueError("no batches")
        return total.div(count)

# %% bounded_evaluation: in place
def bounded_evaluation(model, batches):
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        raise ValueError("no batches")
    with evaluating(model), torch.set_grad_enabled(False):
        total, count = model(first).sum(0), len(first)
        del first
        for x in iterator:
            total += model(x).sum(dim=0)
            count += len(x)
            del x
        total /= count
    return total

# %% predicted_growth: numpy
predicted_growth = {key: np.int64(nbytes) for key, nbytes in predicted_growth.items()}

# %% predicted_growth: tensors and floats
predicted_growth = {key: torch.tensor(float(n)) for key, n in predicted_growth.items()}
