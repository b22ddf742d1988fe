"""Right and wrong answers to the exercises of lesson 04."""

import contextlib
import copy
import functools
import warnings

import numpy as np
import torch

from course_utils.volatile import Variable
from tests.lessons.answers import Right, Wrong

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


def rule_by_max(inputs):
    volatile = max(pair[1] for pair in inputs)
    return max(pair[0] for pair in inputs) and not volatile, volatile


def rule_none_for_nothing(inputs):
    return rule_in_a_loop(inputs) if inputs else None


def rule_merged(inputs):
    def merge(a, b):
        volatile = a[1] or b[1]
        return (a[0] or b[0]) and not volatile, volatile

    return functools.reduce(merge, inputs, (False, False))


def rule_by_numpy(inputs):
    flags = np.array(inputs, dtype=bool).reshape(-1, 2)
    volatile = flags[:, 1].any()
    return flags[:, 0].any() & ~volatile, volatile


def rule_majority(inputs):
    volatile = sum(v for _, v in inputs) * 2 > len(inputs)
    return any(r for r, _ in inputs) and not volatile, volatile


def rule_the_last_met(inputs):
    return next((pair for pair in reversed(inputs) if any(pair)), (False, False))


def rule_no_mark(inputs):
    return any(r for r, _ in inputs) and not any(v for _, v in inputs), False


def rule_of_two(inputs):
    first, second = inputs
    return rule_in_a_loop([first, second])


def rule_exactly_one(inputs):
    volatile = any(v for _, v in inputs)
    return sum(r for r, _ in inputs) == 1 and not volatile, volatile


def rule_exactly_one_volatile(inputs):
    if [volatile for _, volatile in inputs].count(True) == 1:
        return False, True
    return any(flagged for flagged, _ in inputs), False


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


def rule_swapped_for_all(inputs):
    is_volatile = any(volatile for _, volatile in inputs)
    return is_volatile, bool(inputs) and all(flagged for flagged, _ in inputs) and not is_volatile


def port_by_inference_mode(model, batches):
    with in_eval(model), torch.inference_mode():
        outputs = []
        for x in batches:
            outputs.append(model(x).to("cpu"))
        return outputs


def port_by_detach(model, batches):
    with in_eval(model):
        return [model(x).detach().cpu() for x in batches]


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


def port_flags_all_raised(model, batches):
    try:
        model.requires_grad_(False)
        return port_recorded(model, batches)
    finally:
        model.requires_grad_(True)


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


def port_as_in_0_3(model, batches):
    model.eval()
    outputs = [model(torch.autograd.Variable(x, volatile=True)).cpu() for x in batches]
    model.train()
    return outputs


def port_volatile_and_careful(model, batches):
    with in_eval(model):
        outputs = []
        for x in batches:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                x.volatile = True
            outputs.append(model(x).cpu())
        return outputs


def port_recorded(model, batches):
    with in_eval(model):
        return [model(x).cpu() for x in batches]


def port_bare_no_grad(model, batches):
    torch.no_grad()
    return port_recorded(model, batches)


def port_no_grad_for_the_data(model, batches):
    with torch.no_grad():
        batches = [x * 1 for x in batches]
    return port_recorded(model, batches)


def port_no_grad_around_the_flags(model, batches):
    with torch.no_grad():
        model.eval()
    return port_recorded(model, batches)


def port_read_twice(model, batches):
    return port_by_detach(model, batches) if any(len(x) for x in batches) else []


def port_rows(model, batches):
    outputs = []
    for output in port_by_inference_mode(model, batches):
        outputs += output
    return outputs


def port_generator(model, batches):
    yield from port_by_inference_mode(model, batches)


def port_refused(model, batches):
    if outputs := port_by_inference_mode(model, batches):
        return outputs
    raise ValueError("no batches")


def port_flag_lowered(model, batches):
    with in_eval(model):
        return [model(x).requires_grad_(False) for x in batches]


@torch.no_grad()
def port_without_eval(model, batches):
    return [model(x).cpu() for x in batches]


@torch.no_grad()
def port_root_flag_only(model, batches):
    training = model.training
    model.training = False
    try:
        return [model(x).cpu() for x in batches]
    finally:
        model.training = training


@torch.no_grad()
def port_train_at_the_end(model, batches):
    model.eval()
    try:
        return [model(x).cpu() for x in batches]
    finally:
        model.train()


@torch.no_grad()
def port_train_as_the_root(model, batches):
    training = model.training
    model.eval()
    try:
        return [model(x).cpu() for x in batches]
    finally:
        model.train(training)


@torch.no_grad()
def port_by_apply(model, batches):
    flags = {module: module.training for module in model.modules()}
    try:
        return [model.eval()(x).cpu() for x in batches]
    finally:
        model.apply(lambda module: module.train(flags[module]))


@torch.no_grad()
def port_children_only(model, batches):
    flags = [(module, module.training) for module in (model, *model.children())]
    model.eval()
    try:
        return [model(x).cpu() for x in batches]
    finally:
        for module, training in flags:
            module.train(training)


@torch.no_grad()
def port_by_index(model, batches):
    with in_eval(model):
        return [model(batches[index]).cpu() for index in range(len(batches))]


def port_by_index_left_off(model, batches):
    with in_eval(model):
        torch.set_grad_enabled(False)
        return [model(batches[i]).cpu() for i in range(len(batches))]


@torch.no_grad()
def port_left_in_eval(model, batches):
    model.eval()
    return [model(x).cpu() for x in batches]


@torch.no_grad()
def port_no_finally(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    outputs = [model(x).cpu() for x in batches]
    for module, training in flags:
        module.training = training
    return outputs


@torch.no_grad()
def port_swallowed(model, batches):
    outputs = []
    with in_eval(model), contextlib.suppress(Exception):
        for x in batches:
            outputs.append(model(x).cpu())
    return outputs


@torch.no_grad()
def port_returns_in_finally(model, batches):
    flags, outputs = [(module, module.training) for module in model.modules()], []
    try:
        model.eval()
        for x in batches:
            outputs.append(model(x).cpu())
    finally:
        for module, training in flags:
            module.training = training
        return outputs  # noqa: B012


@torch.no_grad()
def port_reads_before_the_try(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    batches = list(batches)
    try:
        return [model(x).cpu() for x in batches]
    finally:
        for module, training in flags:
            module.training = training


def port_frozen(model, batches):
    model.requires_grad_(False)
    return port_recorded(model, batches)


def port_grad_mode_off(model, batches):
    torch.set_grad_enabled(False)
    return port_recorded(model, batches)


def port_grad_mode_on(model, batches):
    torch.set_grad_enabled(False)
    try:
        return port_recorded(model, batches)
    finally:
        torch.set_grad_enabled(True)


def port_mode_put_back_without_finally(model, batches):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    outputs = port_recorded(model, batches)
    torch.set_grad_enabled(before)
    return outputs


@torch.no_grad()
def port_last(model, batches):
    with in_eval(model):
        for x in batches:
            output = model(x).cpu()
        return output


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


def bounded_by_reduce(model, batches):
    def step(state, x):
        total, count = state
        part = model(x).sum(0)
        return (part if total is None else total + part), count + x.size(0)

    with in_eval(model), torch.no_grad():
        total, count = functools.reduce(step, batches, (None, 0))
    if count == 0:
        raise ValueError("no batches")
    return total / count


def bounded_in_double(model, batches):
    total, count, dtype = 0.0, 0, None
    with in_eval(model), torch.inference_mode():
        for x in batches:
            output = model(x)
            dtype = output.dtype
            total, count = total + output.double().sum(dim=0), count + output.shape[0]
            del output, x
    if not count:
        raise ValueError("no batches")
    return (total / count).to(dtype)


@torch.no_grad()
def bounded_enumerates(model, batches):
    total, number, count = 0, 0, 0
    with in_eval(model):
        for number, x in enumerate(batches, start=1):  # noqa: B007
            output = model(x)
            del x
            total, count = total + output.sum(0), count + len(output)
            del output
    if not number:
        raise ValueError("no batches")
    return total / count


def nonempty(batches):
    iterator = iter(batches)
    for first in iterator:
        yield first
        del first
        yield from iterator
        return
    raise ValueError("no batches")


@torch.no_grad()
def bounded_mean_of_means(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in nonempty(batches):
            total, count = total + model(x).mean(0), count + 1
    return total / count


@torch.no_grad()
def bounded_total(model, batches):
    with in_eval(model):
        return sum(model(x).sum(0) for x in nonempty(batches))


@torch.no_grad()
def bounded_last(model, batches):
    with in_eval(model):
        for x in nonempty(batches):
            mean = model(x).mean(0)
    return mean


@torch.no_grad()
def bounded_one_number(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in nonempty(batches):
            output = model(x)
            total, count = total + output.sum(), count + output.numel()
    return total / count


def bounded_sum_of_all(model, batches):
    total, count = 0, 0
    with in_eval(model), torch.no_grad():
        for x in nonempty(batches):
            total, count = total + model(x).sum().item(), count + len(x)
    return torch.tensor(total / count)


def bounded_with_history(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in nonempty(batches):
            total, count = total + model(x).sum(0), count + len(x)
            del x
    return total / count


def bounded_cut_at_the_end(model, batches):
    return bounded_with_history(model, batches).detach()


def bounded_recorded(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in nonempty(batches):
            total, count = total + model(x).detach().sum(0), count + len(x)
    return total / count


def bounded_name_dropped(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in nonempty(batches):
            output = model(x)
            total, count = total + output.sum(0).detach(), count + len(x)
            del output
    return total / count


@torch.no_grad()
def bounded_recursive(model, batches):
    def go(iterator):
        for x in iterator:
            total, count = go(iterator)
            return total + model(x).sum(0), count + len(x)
        return 0, 0

    with in_eval(model):
        total, count = go(nonempty(batches))
    return total / count


@torch.no_grad()
def bounded_kept_dimension(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in nonempty(batches):
            total, count = total + model(x).sum(0, keepdim=True), count + len(x)
    return total / count


@torch.no_grad()
def bounded_by_the_last_size(model, batches):
    total = 0
    with in_eval(model):
        for x in nonempty(batches):
            total = total + model(x).sum(0)
    return total / len(x)


@torch.no_grad()
def bounded_by_index(model, batches):
    if len(batches) == 0:
        raise ValueError("no batches")
    with in_eval(model):
        total = sum(model(x).sum(0) for x in batches)
    return total / sum(len(x) for x in batches)


@torch.no_grad()
def bounded_outputs_kept(model, batches):
    with in_eval(model):
        return torch.cat([model(x) for x in nonempty(batches)]).mean(0)


def bounded_batches_kept(model, batches):
    return bounded_by_sum(model, list(batches))


@torch.no_grad()
def bounded_one_big_batch(model, batches):
    batches = list(batches)
    if not batches:
        raise ValueError("no batches")
    with in_eval(model):
        return model(torch.cat(batches)).mean(0)


@torch.no_grad()
def bounded_sums_kept(model, batches):
    sums, count = [], 0
    with in_eval(model):
        for x in nonempty(batches):
            sums.append(model(x).sum(0))
            count += len(x)
    return torch.stack(sums).sum(0) / count


def bounded_on_a_copy(model, batches):
    return bounded_by_sum(copy.deepcopy(model), batches)


@torch.no_grad()
def bounded_nan(model, batches):
    total, count = torch.zeros(()), 0
    with in_eval(model):
        for x in batches:
            total, count = total + model(x).sum(0), count + len(x)
    return total / count


@torch.no_grad()
def bounded_zero_division(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in batches:
            total, count = total + model(x).sum(0), count + len(x)
    return total / count


@torch.no_grad()
def bounded_without_eval(model, batches):
    total, count = 0, 0
    for x in nonempty(batches):
        total, count = total + model(x).sum(0), count + len(x)
    return total / count


def bounded_train_at_the_end(model, batches):
    model.eval()
    try:
        return bounded_without_eval(model, batches)
    finally:
        model.train()


def bounded_top_flag(model, batches):
    training = model.training
    model.eval()
    try:
        return bounded_without_eval(model, batches)
    finally:
        model.train(training)


def bounded_left_in_eval(model, batches):
    model.eval()
    return bounded_without_eval(model, batches)


def bounded_no_finally(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    mean = bounded_without_eval(model, batches)
    for module, training in flags:
        module.training = training
    return mean


def bounded_not_put_back_for_no_batches(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    total, count = 0, 0
    try:
        with torch.no_grad():
            for x in batches:
                total, count = total + model(x).sum(0), count + len(x)
    except Exception:
        for module, training in flags:
            module.training = training
        raise
    if not count:
        raise ValueError("no batches")
    for module, training in flags:
        module.training = training
    return total / count


@torch.no_grad()
def bounded_swallowed(model, batches):
    total, count = 0, 0
    with in_eval(model), contextlib.suppress(Exception):
        for x in batches:
            total, count = total + model(x).sum(0), count + len(x)
    if not count:
        raise ValueError("no batches")
    return total / count


def bounded_frozen(model, batches):
    model.requires_grad_(False)
    return bounded_with_history(model, batches)


def bounded_flags_all_raised(model, batches):
    try:
        model.requires_grad_(False)
        return bounded_with_history(model, batches)
    finally:
        model.requires_grad_(True)


def bounded_train_part_by_part(model, batches):
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        return bounded_without_eval(model, batches)
    finally:
        for module in training:
            module.train()


def bounded_bare_no_grad(model, batches):
    torch.no_grad()
    return bounded_with_history(model, batches)


def bounded_data_detached(model, batches):
    return bounded_with_history(model, (x.detach() for x in batches))


def bounded_no_grad_elsewhere(model, batches):
    mean = bounded_with_history(model, batches)
    with torch.no_grad():
        return mean


@torch.no_grad()
def bounded_children_only(model, batches):
    flags = [(module, module.training) for module in (model, *model.children())]
    model.eval()
    try:
        return bounded_without_eval(model, batches)
    finally:
        for module, training in flags:
            module.training = training


@torch.no_grad()
def bounded_read_twice(model, batches):
    count = sum(len(x) for x in batches)
    if not count:
        raise ValueError("no batches")
    with in_eval(model):
        return sum(model(x).sum(0) for x in batches) / count


@torch.no_grad()
def bounded_halved(model, batches):
    with in_eval(model):
        return functools.reduce(lambda mean, new: (mean + new) / 2, (model(x).mean(0) for x in nonempty(batches)))


def bounded_not_batches(model, batches):
    if not batches:
        raise ValueError("no batches")
    return bounded_nan(model, batches)


def bounded_grad_mode(model, batches):
    torch.set_grad_enabled(False)
    return bounded_with_history(model, batches)


# ---------------------------------------------------------------------------------------------------- predicted_growth

GROWTH = {"outputs": 416_000, "detached": 16_000, "floats": 0, "outputs_no_grad": 16_000}


# ----------------------------------------------------------------------------------------------- holes of older checks


def rule_meeting_raises(inputs):
    flagged, volatile = (any(flags) for flags in zip(*inputs, strict=True)) if inputs else (False, False)
    if flagged and volatile:
        raise ValueError("flagged and volatile exclude each other")
    return flagged, volatile


def port_not_to_the_cpu(model, batches):
    with in_eval(model), torch.no_grad():
        return [model(x) for x in batches]


def port_tuple(model, batches):
    with in_eval(model), torch.no_grad():
        return tuple(model(x).cpu() for x in batches)


def port_detached(model, batches):
    with in_eval(model):
        return [model(x).detach().cpu() for x in batches]


def port_parents_first(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return [model(x).cpu() for x in batches]
    finally:
        for module, flag in flags:
            module.train(flag)


def bounded_batch_held(model, batches):
    total, count = 0, 0
    with in_eval(model), torch.no_grad():
        for x in batches:
            total = total + model(x).sum(0)
            count += len(x)
    if not count:
        raise ValueError("no batches")
    return total / count


def bounded_output_held(model, batches):
    total, count = 0, 0
    with in_eval(model), torch.no_grad():
        for x in batches:
            out = model(x)
            del x
            total = total + out.sum(0)
            count += len(out)
    if not count:
        raise ValueError("no batches")
    return total / count


def bounded_map_of_pairs(model, batches):
    total, count = 0, 0
    with in_eval(model), torch.no_grad():
        for part, size in map(lambda x: (model(x).sum(0), len(x)), batches):
            total, count = total + part, count + size
    if not count:
        raise ValueError("no batches")
    return total / count


def bounded_by_the_sum_of(model, batches, sum_of):
    total, count = 0, 0
    with in_eval(model), torch.no_grad():
        for x in batches:
            count += len(x)
            total = total + sum_of(model(x))
            del x
    if not count:
        raise ValueError("no batches")
    return total / count


def bounded_left_in_double(model, batches):
    return bounded_by_the_sum_of(model, batches, lambda output: output.sum(0).double())


def bounded_outputs_in_float32(model, batches):
    return bounded_by_the_sum_of(model, batches, lambda output: output.float().sum(0))


def bounded_output_copied(model, batches):
    return bounded_by_the_sum_of(model, batches, lambda output: output.mul(1).sum(0))


def bounded_in_float32(model, batches):
    return bounded_map_of_pairs(model, batches).float()


def bounded_peeks(model, batches):
    batches = iter(batches) if not isinstance(batches, list) else batches
    if next(iter(batches), None) is None:
        raise ValueError("no batches")
    return bounded_map_of_pairs(model, batches)


def bounded_list_of_outputs(model, batches):
    with in_eval(model), torch.no_grad():
        outputs = [model(x) for x in batches]
    if not outputs:
        raise ValueError("no batches")
    return torch.cat(outputs).mean(0)


def port_in_float32(model, batches):
    return [output.float() for output in port_by_inference_mode(model, batches)]


def bounded_list_let_go(model, batches):
    outputs = []
    with in_eval(model), torch.no_grad():
        for x in batches:
            outputs.append(model(x))
            del x
    if not outputs:
        raise ValueError("no batches")
    return torch.cat(outputs).mean(0)


def bounded_parents_first(model, batches):
    flags = [(module, module.training) for module in model.modules()]
    try:
        return bounded_map_of_pairs(model, batches)
    finally:
        for module, flag in flags:
            module.train(flag)


def rule_all_flags_and_first_volatile(inputs):
    volatile = inputs[0][1]
    return all(r for r, _ in inputs) and not volatile, volatile


@torch.no_grad()
def port_train_without_finally(model, batches):
    model.eval()
    outputs = [model(x).cpu() for x in batches]
    model.train()
    return outputs


def bounded_recorded_then_detached(model, batches):
    total, count = 0, 0
    with in_eval(model):
        for x in batches:
            total, count = total + model(x).sum(0).detach(), count + len(x)
            del x
    if not count:
        raise ValueError("no batches")
    return total / count


def bounded_none_left_in_eval(model, batches):
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    iterator = iter(batches)
    x = next(iterator, None)
    if x is None:
        raise ValueError("no batches")
    try:
        total, count = 0, 0
        with torch.no_grad():
            while x is not None:
                total, count = total + model(x).sum(0), count + len(x)
                del x
                x = next(iterator, None)
        return total / count
    finally:
        for part, mode in modes:
            part.training = mode


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

WRONG = (
    Wrong("volatile_rule", "both up", lambda inputs: (any(r for r, _ in inputs), any(v for _, v in inputs))),
    Wrong(
        "volatile_rule",
        "all volatile",
        lambda inputs: (any(r for r, _ in inputs), bool(inputs) and all(v for _, v in inputs)),
    ),
    Wrong(
        "volatile_rule",
        "flag wins",
        lambda inputs: (any(r for r, _ in inputs), any(v for _, v in inputs) and not any(r for r, _ in inputs)),
    ),
    Wrong("volatile_rule", "today", lambda inputs: (any(r for r, _ in inputs), False)),
    Wrong("volatile_rule", "all flagged", lambda inputs: (all(r for r, _ in inputs), any(v for _, v in inputs))),
    Wrong("volatile_rule", "one input", lambda inputs: inputs[0] if inputs else (False, False)),
    Wrong("volatile_rule", "one input", lambda inputs: inputs[-1] if inputs else (False, False), "the last decides"),
    Wrong("volatile_rule", "one input", rule_the_last_met, "the last that is met"),
    Wrong("volatile_rule", "no mark", rule_no_mark),
    Wrong("volatile_rule", "not flagged", lambda inputs: (any(r for r, _ in inputs), not any(r for r, _ in inputs))),
    Wrong("volatile_rule", "majority", rule_majority, "the majority decides"),
    Wrong("volatile_rule", "exactly one", rule_exactly_one, "exactly one flagged"),
    Wrong("volatile_rule", "exactly one", rule_exactly_one_volatile, "exactly one volatile", earns=1.0),
    Wrong("volatile_rule", "all flagged", rule_all_flags_and_first_volatile, "all flagged, the first volatile"),
    Wrong(
        "volatile_rule", "not flagged", lambda inputs: (not (v := any(v for _, v in inputs)), v), "flagged or volatile"
    ),
    Wrong("volatile_rule", "two inputs", rule_of_two),
    Wrong("volatile_rule", "swapped", lambda inputs: rule_in_a_loop(inputs)[::-1]),
    Wrong("volatile_rule", "swapped", rule_swapped_for_all, "swapped, and all for any"),
    Wrong("volatile_rule", "empty", rule_by_max, "an error for no inputs"),
    Wrong("volatile_rule", "no return value", rule_none_for_nothing, "None for no inputs"),
    Wrong("volatile_rule", "no return value", lambda inputs: print(inputs), "no return"),
    Wrong("port_evaluation", "volatile", port_as_in_0_3, "as in 0.3"),
    Wrong("port_evaluation", "volatile", port_volatile_and_careful, "volatile set by hand"),
    Wrong("port_evaluation", "eval alone", port_recorded),
    Wrong("port_evaluation", "bare no_grad", port_bare_no_grad, "a bare no_grad()"),
    Wrong("port_evaluation", "data cleaned", port_no_grad_for_the_data, "no_grad around the data"),
    Wrong("port_evaluation", "detached", port_by_detach, "recorded, then detached"),
    Wrong("port_evaluation", "frozen", port_flags_all_raised, "flags lowered, all raised"),
    Wrong("port_evaluation", "stacked", lambda model, batches: torch.cat(port_by_detach(model, batches))),
    Wrong("port_evaluation", "stacked", lambda model, batches: torch.stack(port_by_detach(model, batches)), "stack"),
    Wrong("port_evaluation", "last", port_last),
    Wrong("port_evaluation", "recorded", lambda model, batches: [model(x).cpu() for x in batches]),
    Wrong("port_evaluation", "elsewhere", port_no_grad_around_the_flags),
    Wrong("port_evaluation", "read twice", port_read_twice),
    Wrong("port_evaluation", "rows", port_rows),
    Wrong("port_evaluation", "generator", port_generator),
    Wrong("port_evaluation", "refused", port_refused),
    Wrong("port_evaluation", "lower the flag", port_flag_lowered),
    Wrong("port_evaluation", "no eval", port_without_eval),
    Wrong("port_evaluation", "no eval", port_root_flag_only, "model.training = False"),
    Wrong("port_evaluation", "was in training", port_train_at_the_end, "train() at the end", earns=1.85),
    Wrong("port_evaluation", "was in training", port_train_without_finally, "train() on the last line", earns=1.85),
    Wrong("port_evaluation", "one flag", port_train_as_the_root, "train(as the root)"),
    Wrong("port_evaluation", "children", port_children_only, "children only"),
    Wrong("port_evaluation", "train spreads", port_by_apply, "train() by apply()"),
    Wrong("port_evaluation", "len", port_by_index, earns=2.9),
    Wrong("port_evaluation", "len", port_by_index_left_off, "by index, and a switch left off", earns=1.95),
    Wrong("port_evaluation", "left in eval", port_left_in_eval),
    Wrong("port_evaluation", "only without error", port_no_finally, "no finally", earns=2.42),
    Wrong("port_evaluation", "only without error", port_mode_put_back_without_finally, "grad mode without finally"),
    Wrong("port_evaluation", "swallowed", port_swallowed),
    Wrong("port_evaluation", "swallowed", port_returns_in_finally, "a return in the finally"),
    Wrong("port_evaluation", "outside the try", port_reads_before_the_try, "batches read before the try"),
    Wrong("port_evaluation", "frozen", port_frozen),
    Wrong("port_evaluation", "grad mode", port_grad_mode_off, "grad mode left off"),
    Wrong("port_evaluation", "always on", port_grad_mode_on, "grad mode switched on"),
    Wrong("port_evaluation", "not a tensor", lambda m, b: [y.tolist() for y in port_by_detach(m, b)], "lists"),
    Wrong("bounded_evaluation", "mean of means", bounded_mean_of_means, earns=2.33),
    Wrong("bounded_evaluation", "sum", bounded_total),
    Wrong("bounded_evaluation", "last", bounded_last),
    Wrong("bounded_evaluation", "one number", bounded_one_number),
    Wrong("bounded_evaluation", "one number", bounded_sum_of_all, "the sum of all outputs by samples"),
    Wrong("bounded_evaluation", "history", bounded_with_history),
    Wrong("bounded_evaluation", "graphs", bounded_cut_at_the_end, "detached at the end"),
    Wrong("bounded_evaluation", "recorded", bounded_recorded, "each output detached"),
    Wrong("bounded_evaluation", "recorded", bounded_recorded_then_detached, "the sum detached", earns=2.1),
    Wrong("bounded_evaluation", "recorded", bounded_name_dropped, "recorded, name dropped"),
    Wrong("bounded_evaluation", "batches kept", bounded_recursive, "recursive"),
    Wrong("bounded_evaluation", "kept dimension", bounded_kept_dimension),
    Wrong("bounded_evaluation", "wrong count", bounded_by_the_last_size, "divided by the last size"),
    Wrong("bounded_evaluation", "len", bounded_by_index, earns=2.84),
    Wrong("bounded_evaluation", "outputs kept", bounded_outputs_kept),
    Wrong("bounded_evaluation", "batches kept", bounded_batches_kept),
    Wrong("bounded_evaluation", "one big batch", bounded_one_big_batch),
    Wrong("bounded_evaluation", "sums kept", bounded_sums_kept),
    Wrong("bounded_evaluation", "copied", bounded_on_a_copy),
    Wrong("bounded_evaluation", "empty", bounded_nan, "nan for no batches"),
    Wrong("bounded_evaluation", "empty", bounded_zero_division, "division by zero"),
    Wrong("bounded_evaluation", "no eval", bounded_without_eval),
    Wrong("bounded_evaluation", "was in training", bounded_train_at_the_end, "train() at the end"),
    Wrong("bounded_evaluation", "one flag", bounded_top_flag, "the top flag"),
    Wrong("bounded_evaluation", "train spreads", bounded_train_part_by_part),
    Wrong("bounded_evaluation", "bare no_grad", bounded_bare_no_grad),
    Wrong("bounded_evaluation", "data cleaned", bounded_data_detached),
    Wrong("bounded_evaluation", "elsewhere", bounded_no_grad_elsewhere),
    Wrong("bounded_evaluation", "children", bounded_children_only),
    Wrong("bounded_evaluation", "read twice", bounded_read_twice),
    Wrong("bounded_evaluation", "halved", bounded_halved),
    Wrong("bounded_evaluation", "empty iterator", bounded_not_batches),
    Wrong("bounded_evaluation", "left in eval", bounded_left_in_eval),
    Wrong("bounded_evaluation", "only without error", bounded_no_finally, "no finally"),
    Wrong("bounded_evaluation", "outside the try", bounded_not_put_back_for_no_batches, "eval after no batches"),
    Wrong("bounded_evaluation", "outside the try", bounded_none_left_in_eval, "the first batch before the try"),
    Wrong("bounded_evaluation", "swallowed", bounded_swallowed),
    Wrong("bounded_evaluation", "frozen", bounded_frozen),
    Wrong("bounded_evaluation", "frozen", bounded_flags_all_raised, "flags lowered, all raised"),
    Wrong("bounded_evaluation", "grad mode", bounded_grad_mode, "grad mode left off"),
    Wrong("bounded_evaluation", "no return value", lambda model, batches: None or print(model), "no return"),
    Wrong("predicted_growth", "numbers only", GROWTH | {"outputs": 16_000}),
    Wrong("predicted_growth", "output forgotten", GROWTH | {"outputs": 400_000}),
    Wrong("predicted_growth", "last only", GROWTH | {"outputs": 20_800}),
    Wrong("predicted_growth", "newest graph", GROWTH | {"outputs": 36_000}),
    Wrong("predicted_growth", "elements", {key: nbytes // 4 for key, nbytes in GROWTH.items()}),
    Wrong("predicted_growth", "every step", GROWTH | {"outputs": 816_000}),
    Wrong("predicted_growth", "inputs counted", GROWTH | {"outputs": 544_000}),
    Wrong("predicted_growth", "detach", GROWTH | {"detached": 416_000}),
    Wrong("predicted_growth", "detach", GROWTH | {"detached": 20_800}, "detached, the graph of one batch"),
    Wrong("predicted_growth", "no backward", GROWTH | {"outputs_no_grad": 416_000}),
    Wrong("predicted_growth", "alias", GROWTH | {"detached": 0}),
    Wrong("predicted_growth", "weightless", GROWTH | {"detached": 0, "outputs_no_grad": 0}),
    Wrong("predicted_growth", "floats", GROWTH | {"floats": 80}),
    Wrong("predicted_growth", "arithmetic", GROWTH | {"outputs": 832_000}, "float64"),
    Wrong("predicted_growth", "inputs counted", GROWTH | {"outputs": 430_816}, "parameters too"),
    Wrong("predicted_growth", "arithmetic", GROWTH | {"detached": 32_000}, "detached twice"),
    Wrong("volatile_rule", "exclusive", rule_meeting_raises),
    Wrong("port_evaluation", "device", port_not_to_the_cpu),
    Wrong("port_evaluation", "no list", port_tuple, "a tuple"),
    Wrong("port_evaluation", "detached", port_detached, "detached, not switched off", earns=2.0),
    Wrong("port_evaluation", "parents first", port_parents_first, "train(flag), parents first"),
    Wrong("bounded_evaluation", "batch held", bounded_batch_held),
    Wrong("bounded_evaluation", "output held", bounded_output_held),
    Wrong("bounded_evaluation", "dtype", bounded_in_float32),
    Wrong("bounded_evaluation", "dtype", bounded_left_in_double, "the sum in double, and so the mean", earns=2.96),
    Wrong("bounded_evaluation", "dtype", bounded_outputs_in_float32, "outputs cast to float32", earns=2.84),
    Wrong("bounded_evaluation", "output copied", bounded_output_copied),
    Wrong("bounded_evaluation", "output copied", bounded_in_double, "in double", earns=2.88),
    Wrong("bounded_evaluation", "batch held", bounded_enumerates, "enumerate"),
    Wrong("bounded_evaluation", "peeked", bounded_peeks),
    Wrong("bounded_evaluation", "outputs kept", bounded_list_of_outputs, "a list of outputs"),
    Wrong("bounded_evaluation", "parents first", bounded_parents_first, "train(flag), parents first"),
    Wrong("bounded_evaluation", "batch held", bounded_by_reduce, "reduce"),
    Wrong("bounded_evaluation", "outputs kept", bounded_list_let_go, "a list of outputs, the batch let go"),
    Wrong("port_evaluation", "dtype", port_in_float32),
)
