"""Right and wrong answers to the exercises of lesson 04."""

import contextlib
import copy
import functools

import numpy as np
import torch

from course_utils.volatile import Variable
from tests.lessons.answers import Right

# ------------------------------------------------------------------------------------------------------- volatile_rule


def rule_in_a_loop(inputs):
    flagged = False
    for requires_grad, volatile in inputs:
        if volatile:
            return False, True
        flagged = flagged or requires_grad
    return flagged, False


def rule_by_emulation(inputs):
    variables = [Variable(torch.ones(1), requires_grad=flag, volatile=volatile) for flag, volatile in inputs]
    result = torch.cat([*variables, Variable(torch.ones(1))])
    return result.requires_grad, result.volatile


def rule_by_sets(inputs):
    volatile = (False, True) in inputs
    return (not volatile and (True, False) in inputs), volatile


def rule_by_reduce(inputs):
    volatile = functools.reduce(lambda a, b: a | b[1], inputs, False)
    return functools.reduce(lambda a, b: a | b[0], inputs, False) and not volatile, volatile


def rule_merged(inputs):
    def merge(a, b):
        volatile = a[1] or b[1]
        return (a[0] or b[0]) and not volatile, volatile

    return functools.reduce(merge, inputs, (False, False))


def rule_by_numpy(inputs):
    flags = np.array(inputs, dtype=bool).reshape(-1, 2)
    volatile = flags[:, 1].any()
    return flags[:, 0].any() & ~volatile, volatile


# ----------------------------------------------------------------------------------------------------- port_evaluation


@contextlib.contextmanager
def in_eval(model):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in flags:
            module.training = training


def port_by_inference_mode(model, batches):
    with in_eval(model), torch.inference_mode():
        outputs = []
        for x in batches:
            outputs.append(model(x).to("cpu"))
        return outputs


@torch.no_grad()
def port_decorated(model, batches):
    modes = {name: module.training for name, module in model.named_modules()}
    try:
        for module in model.modules():
            module.training = False
        return list(map(lambda x: model(x).cpu(), batches))
    finally:
        for name, module in model.named_modules():
            module.training = modes[name]


def port_flags_lowered(model, batches):
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        model.requires_grad_(False)
        return port_recorded(model, batches)
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def port_on_a_copy(model, batches):
    twin = copy.deepcopy(model).eval().requires_grad_(False)
    return [twin(x).cpu() for x in batches]


def port_with_a_plain_call(model, batches):
    before = torch.is_grad_enabled()
    with in_eval(model):
        try:
            torch.set_grad_enabled(False)
            return [model(x).cpu() for x in batches]
        finally:
            torch.set_grad_enabled(before)


def port_exit_stack(model, batches):
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        model.eval()
        stack.enter_context(torch.inference_mode())
        return [model(x).detach().to("cpu", copy=True) for x in batches]


def port_by_generator(model, batches):
    @torch.no_grad()
    def stream():
        for x in batches:
            yield model(x).cpu()

    with in_eval(model):
        return list(stream())


def port_recorded(model, batches):
    with in_eval(model):
        return [model(x).cpu() for x in batches]


# -------------------------------------------------------------------------------------------------- bounded_evaluation


@torch.no_grad()
def bounded_by_sum(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in batches:
            output = model(x)
            total = total + output.sum(0)
            count += len(output)
            del x, output
    if not count:
        raise ValueError("no batches")
    return total / count


def bounded_running(model, batches):
    mean, count = None, 0
    with in_eval(model), torch.inference_mode():
        for x in batches:
            batch_mean, size = model(x).mean(0), x.shape[0]
            count += size
            mean = batch_mean if mean is None else mean.lerp(batch_mean, size / count)
            del x
    if mean is None:
        raise ValueError("no batches")
    return mean


def bounded_sample_by_sample(model, batches):
    with in_eval(model), torch.no_grad():
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


def bounded_in_place(model, batches):
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        raise ValueError("no batches")
    with in_eval(model), torch.set_grad_enabled(False):
        total, count = model(first).sum(0), len(first)
        del first
        for x in iterator:
            total += model(x).sum(dim=0)
            count += len(x)
            del x
        total /= count
    return total


# ---------------------------------------------------------------------------------------------------- predicted_growth

GROWTH = {"outputs": 416_000, "detached": 16_000, "floats": 0, "outputs_no_grad": 16_000}


# ----------------------------------------------------------------------------------------------- holes of older checks


def bounded_map_of_pairs(model, batches):
    total, count = 0, 0
    with in_eval(model), torch.no_grad():
        for part, size in map(lambda x: (model(x).sum(0), len(x)), batches):
            total, count = total + part, count + size
    if not count:
        raise ValueError("no batches")
    return total / count


RIGHT = (
    Right("volatile_rule", "a loop that stops early", rule_in_a_loop),
    Right("volatile_rule", "by running it", rule_by_emulation),
    Right("volatile_rule", "membership", rule_by_sets),
    Right("volatile_rule", "reduce", rule_by_reduce),
    Right("volatile_rule", "merged two by two", rule_merged),
    Right("volatile_rule", "numpy", rule_by_numpy),
    Right("port_evaluation", "exit stack", port_exit_stack),
    Right("port_evaluation", "decorated generator", port_by_generator),
    Right("port_evaluation", "inference mode", port_by_inference_mode),
    Right("port_evaluation", "flags lowered and put back one by one", port_flags_lowered),
    Right("port_evaluation", "decorated", port_decorated),
    Right("port_evaluation", "on a copy", port_on_a_copy),
    Right("port_evaluation", "a plain call, put back", port_with_a_plain_call),
    Right("bounded_evaluation", "sum and count", bounded_by_sum),
    Right("bounded_evaluation", "running mean", bounded_running),
    Right("bounded_evaluation", "sample by sample", bounded_sample_by_sample),
    Right("bounded_evaluation", "in place", bounded_in_place),
    Right("predicted_growth", "numpy", {key: np.int64(nbytes) for key, nbytes in GROWTH.items()}),
    Right("predicted_growth", "tensors and floats", {key: torch.tensor(float(n)) for key, n in GROWTH.items()}),
    Right("predicted_growth", "an extra key", GROWTH | {"total": 448_000}),
    Right("bounded_evaluation", "a map of pairs", bounded_map_of_pairs),
)
