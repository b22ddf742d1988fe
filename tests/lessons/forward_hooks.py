"""Right and wrong answers to the exercises of lesson 07."""

import contextlib
import copy
from collections import OrderedDict, defaultdict
from functools import partial

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from tests.lessons.answers import Right, Wrong

# -------------------------------------------------------------------------------------------------------------- capture


def find(model, names):
    try:
        return {name: model.get_submodule(name) for name in names}
    except AttributeError as error:
        raise KeyError(str(error)) from error


def keeper(features, name, keep=lambda output: output.detach().clone()):
    def hook(module, args, output):
        features[name] = keep(output)

    return hook


class Capture:
    """Registers when it is entered."""

    keep = staticmethod(lambda output: output.detach().clone())

    def __init__(self, model, names):
        self.model, self.names, self.handles, self.features = model, names, [], {}

    def __enter__(self):
        for name, module in find(self.model, self.names).items():
            self.handles.append(module.register_forward_hook(keeper(self.features, name, self.keep)))
        return self.features

    def __exit__(self, *exc):
        for handle in self.handles:
            handle.remove()


class CaptureAtOnce:
    """Registers when it is made."""

    def __init__(self, model, names):
        self.features = {}
        modules = dict(model.named_modules())
        found = [(name, modules[name]) for name in names]
        self.handles = [module.register_forward_hook(keeper(self.features, name)) for name, module in found]

    def __enter__(self):
        return self.features

    def __exit__(self, *exc):
        while self.handles:
            self.handles.pop().remove()
        return False


@contextlib.contextmanager
def capture_by_stack(model, names):
    features = OrderedDict()
    with contextlib.ExitStack() as stack:
        for name in names:
            module = dict(model.named_modules())[name]
            stack.enter_context(module.register_forward_hook(keeper(features, name)))
        yield features


@contextlib.contextmanager
def capture_globally(model, names):
    """One hook for all modules of the process."""
    wanted, features = {id(module): name for name, module in find(model, names).items()}, {}

    def hook(module, args, output):
        if id(module) in wanted:
            features[wanted[id(module)]] = torch.empty_like(output).copy_(output.detach())

    with register_module_forward_hook(hook):
        yield features


@contextlib.contextmanager
def capture_by_wrapping(model, names):
    """No hooks at all: the modules' forward is wrapped for a while."""
    features, modules = {}, find(model, names)

    def wrap(name, forward):
        def wrapped(*args, **kwargs):
            output = forward(*args, **kwargs)
            with torch.no_grad():
                features[name] = output.clone()
            return output

        return wrapped

    found = {module: vars(module).get("forward") for module in modules.values()}
    for name, module in modules.items():
        module.forward = wrap(name, module.forward)
    try:
        yield features
    finally:
        for module, forward in found.items():
            del module.forward
            if forward is not None:  # somebody else had wrapped it
                module.forward = forward


@contextlib.contextmanager
def capture_by_numpy(model, names):
    features = {}
    modules = find(model, names)

    def keep(output):
        return torch.from_numpy(output.detach().cpu().numpy().copy())

    handles = [module.register_forward_hook(keeper(features, name, keep)) for name, module in modules.items()]
    try:
        yield features
    finally:
        [handle.remove() for handle in handles]


@contextlib.contextmanager
def capture_with(model, names, *, keep=lambda output: output.detach().clone(), make=keeper, features=None):
    """What most of the wrong answers have in common: a right frame around one wrong thing."""
    features = {} if features is None else features
    modules = find(model, names)
    handles = [module.register_forward_hook(make(features, name, keep)) for name, module in modules.items()]
    try:
        yield features
    finally:
        for handle in handles:
            handle.remove()


def capture_unflagged(model, names):
    return capture_with(model, names, keep=lambda output: output.clone().requires_grad_(False))


def capture_class_names(model, names):
    def make(features, name, keep):
        return lambda module, args, output: features.update({type(module).__name__: keep(output)})

    return capture_with(model, names, make=make)


@contextlib.contextmanager
def capture_children(model, names):
    children = dict(model.named_children())
    with capture_with(nn.ModuleDict({name: children[name] for name in names}), names) as features:
        yield features


def capture_returned_dict(model, names):
    features = {}
    for name, module in find(model, names).items():
        module.register_forward_hook(keeper(features, name))
    return features


def capture_yield_alone(model, names):
    features = {}
    for name, module in find(model, names).items():
        module.register_forward_hook(keeper(features, name))
    yield features


@contextlib.contextmanager
def capture_one_name(model, names):
    features, handles = {}, []
    for name, module in find(model, names).items():
        handles.append(module.register_forward_hook(lambda m, a, o: features.update({name: o.detach().clone()})))  # noqa: B023 (shows it)
    try:
        yield features
    finally:
        for handle in handles:
            handle.remove()


def input_keeper(features, name, keep):
    def hook(module, args, output):
        features[name] = keep(args[0])

    return hook


def swapped_keeper(features, name, keep):
    def hook(module, output, args):
        features[name] = keep(output)

    return hook


def first_keeper(features, name, keep):
    def hook(module, args, output):
        if name not in features:
            features[name] = keep(output)

    return hook


def returning_keeper(features, name, keep):
    def hook(module, args, output):
        features[name] = keep(output)
        return features[name]

    return hook


def setdefault_keeper(features, name, keep):
    return lambda module, args, output: features.setdefault(name, keep(output))


def capture_inputs(model, names):
    return capture_with(model, names, make=input_keeper)


def capture_swapped(model, names):
    return capture_with(model, names, make=swapped_keeper)


def capture_first(model, names):
    return capture_with(model, names, make=first_keeper)


def capture_setdefault(model, names):
    return capture_with(model, names, make=setdefault_keeper)


def capture_returning(model, names):
    return capture_with(model, names, make=returning_keeper)


def capture_hook_returns_entry(model, names):
    def make(features, name, _keep):
        def hook(module, args, output):
            features[name] = output.detach().clone()
            return features[name]

        return hook

    return capture_with(model, names, make=make)


def capture_whole(model, names):
    return capture_with(model, names, keep=lambda output: output)


def capture_cloned_only(model, names):
    return capture_with(model, names, keep=lambda output: output.clone())


def capture_detached_only(model, names):
    return capture_with(model, names, keep=lambda output: output.detach())


def capture_data(model, names):
    return capture_with(model, names, keep=lambda output: output.data)


def capture_numpy_view(model, names):
    return capture_with(model, names, keep=lambda output: torch.from_numpy(output.detach().numpy()))


def capture_clones_of_what_is_recorded(model, names):
    return capture_with(model, names, keep=lambda output: output.detach().clone() if output.requires_grad else output)


def capture_contiguous(model, names):
    return capture_with(model, names, keep=lambda output: output.detach().contiguous())


def capture_cast(model, names):
    return capture_with(model, names, keep=lambda output: output.detach().float().clone())


def capture_lists(model, names):
    def make(features, name, keep):
        def hook(module, args, output):
            features.setdefault(name, []).append(keep(output))

        return hook

    return capture_with(model, names, make=make)


@contextlib.contextmanager
def capture_late(model, names):
    result = {}
    with capture_with(model, names) as features:
        try:
            yield result
        finally:
            result.update(features)


@contextlib.contextmanager
def capture_detached_at_the_end(model, names):
    with capture_with(model, names, keep=lambda output: output) as features:
        try:
            yield features
        finally:
            for name, output in features.items():
                features[name] = output.detach().clone()


@contextlib.contextmanager
def capture_under_inference(model, names):
    """With keyword arguments, and clones that are inference tensors."""
    modules, features = dict(model.named_modules()), {}
    if not set(names) <= set(modules):
        raise KeyError(sorted(set(names) - set(modules)))

    def hook(name, module, args, kwargs, output):
        with torch.inference_mode():
            features[name] = output.clone()

    handles = [modules[name].register_forward_hook(partial(hook, name), with_kwargs=True) for name in names]
    try:
        yield features
    finally:
        for handle in reversed(handles):
            handle.remove()


@contextlib.contextmanager
def capture_emptied(model, names):
    with capture_with(model, names) as features:
        try:
            yield features
        finally:
            features.clear()


@contextlib.contextmanager
def capture_no_grad(model, names):
    with capture_with(model, names) as features, torch.no_grad():
        yield features


@contextlib.contextmanager
def capture_eval(model, names):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with capture_with(model, names) as features:
            yield features
    finally:
        for module, training in flags:
            module.training = training


@contextlib.contextmanager
def capture_never_removed(model, names):
    features = {}
    for name, module in find(model, names).items():
        module.register_forward_hook(keeper(features, name))
    yield features


@contextlib.contextmanager
def capture_one_handle(model, names):
    """Keeps the last handle alone."""
    features = {}
    for name, module in find(model, names).items():
        handle = module.register_forward_hook(keeper(features, name))
    try:
        yield features
    finally:
        handle.remove()


class CaptureByDel(Capture):
    def __exit__(self, *exc):
        del self.handles


@contextlib.contextmanager
def capture_without_finally(model, names):
    features = {}
    handles = [module.register_forward_hook(keeper(features, name)) for name, module in find(model, names).items()]
    yield features
    for handle in handles:
        handle.remove()


class CaptureItself(Capture):
    def __enter__(self):
        super().__enter__()
        return self


class CaptureUnlessRaised(Capture):
    def __exit__(self, kind, *rest):
        if kind is None:
            super().__exit__(kind, *rest)


class CaptureSwallowing(Capture):
    def __exit__(self, *exc):
        super().__exit__(*exc)
        return True


class CaptureReturningFeatures(Capture):
    def __exit__(self, *exc):
        super().__exit__(*exc)
        return self.features


@contextlib.contextmanager
def capture_with_the_yield_in_the_try(model, names):
    features, handles = {}, []
    try:
        for name in names:
            handles.append(model.get_submodule(name).register_forward_hook(keeper(features, name)))
        yield features
    except AttributeError as error:
        raise KeyError(str(error)) from error
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def capture_suppressing(model, names):
    with capture_with(model, names) as features, contextlib.suppress(Exception):
        yield features


@contextlib.contextmanager
def capture_clearing(model, names):
    features = {}
    modules = find(model, names)
    for name, module in modules.items():
        module.register_forward_hook(keeper(features, name))
    try:
        yield features
    finally:
        for module in modules.values():
            module._forward_hooks.clear()


@contextlib.contextmanager
def capture_restoring_table(model, names):
    features, modules = {}, find(model, names)
    tables = {module: OrderedDict(module._forward_hooks) for module in modules.values()}
    for name, module in modules.items():
        module.register_forward_hook(keeper(features, name))
    try:
        yield features
    finally:
        for module, table in tables.items():
            module._forward_hooks.clear()
            module._forward_hooks.update(table)


@contextlib.contextmanager
def capture_half(model, names):
    features, handles = {}, []
    modules = dict(model.named_modules())
    for name in names:
        handles.append(modules[name].register_forward_hook(keeper(features, name)))
    try:
        yield features
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def capture_skipping(model, names):
    features, handles = {}, []
    for name, module in model.named_modules():
        if name in names:
            handles.append(module.register_forward_hook(keeper(features, name)))
    try:
        yield features
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def capture_attribute_error(model, names):
    features, handles = {}, []
    try:
        for name in names:
            handles.append(model.get_submodule(name).register_forward_hook(keeper(features, name)))
        yield features
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def capture_value_error(model, names):
    known = dict(model.named_modules())
    if not set(names) <= set(known):
        raise ValueError("unknown name")
    with capture_with(model, names) as features:
        yield features


# ----------------------------------------------------------------------------------------------------- activation_bytes


def leaves_of(model):
    return [(name, module) for name, module in model.named_modules() if not list(module.children())]


def nbytes(output):
    if isinstance(output, torch.Tensor):
        return output.numel() * output.element_size()
    return sum(map(nbytes, output))


def adder(sizes, name, count=nbytes):
    def hook(module, args, output):
        sizes[name] = sizes.get(name, 0) + count(output)

    return hook


@contextlib.contextmanager
def kept_buffers(model):
    """The pass writes to copies, which go."""
    tables = [part._buffers for part in model.modules()]
    before = [(table, name, buffer) for table in tables for name, buffer in table.items() if buffer is not None]
    try:
        for table, name, buffer in before:
            table[name] = buffer.clone()
        yield
    finally:
        for table, name, buffer in before:
            table[name] = buffer


@contextlib.contextmanager
def written_back(model):
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, values in before:
                buffer.copy_(values)


@contextlib.contextmanager
def hooked(model, sizes, modules=None, count=nbytes, make=adder, keep=kept_buffers):
    modules = leaves_of(model) if modules is None else modules
    handles = [module.register_forward_hook(make(sizes, name, count)) for name, module in modules]
    try:
        with keep(model):
            yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def bytes_decorated(model, x):
    sizes = {}
    with hooked(model, sizes):
        model(x)
    return sizes


def bytes_by_tree(model, x):
    sizes = defaultdict(int)

    def make(_sizes, name, _count):
        def hook(module, args, output):
            sizes[name] += sum(tensor.nbytes for tensor in tree_leaves(output))

        return hook

    with hooked(model, sizes, make=make), torch.inference_mode():
        model(x)
    return dict(sizes)


def bytes_of_a_copy(model, x):
    """The copy takes the hooks of others along; it is thrown away with all of them."""
    twin, sizes = copy.deepcopy(model).requires_grad_(False), {}
    for name, module in leaves_of(twin):
        module.register_forward_hook(adder(sizes, name))
    twin(x.detach())
    return sizes


def bytes_by_stack(model, x):
    sizes = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(kept_buffers(model))
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                stack.enter_context(module.register_forward_hook(adder(sizes, name)))
        model(x)
    return sizes


def bytes_globally(model, x):
    names, sizes = {module: name for name, module in leaves_of(model)}, {}

    def hook(module, args, output):
        if module in names:
            adder(sizes, names[module])(module, args, output)

    with register_module_forward_hook(hook), torch.no_grad(), kept_buffers(model):
        model(x)
    return sizes


def bytes_by_functional_call(model, x):
    copies = {name: buffer.clone() for name, buffer in model.named_buffers()}
    sizes = {}
    with hooked(model, sizes, keep=contextlib.nullcontext), torch.no_grad():
        torch.func.functional_call(model, copies, (x,))
    return sizes


def bytes_swapped_under_each_name(model, x):
    before = []
    for _, module in model.named_modules(remove_duplicate=False):
        for name, buffer in list(module.named_buffers(recurse=False)):
            before.append((module, name, buffer))
            setattr(module, name, buffer.clone())
    try:
        return bytes_batch_norm_counts(model, x)
    finally:
        for module, name, buffer in before:
            setattr(module, name, buffer)


def bytes_with_the_state_dict_copied(model, x):
    sizes = {}
    with hooked(model, sizes, keep=contextlib.nullcontext), torch.no_grad():
        torch.func.functional_call(model, copy.deepcopy(model.state_dict()), (x,))
    return sizes


def bytes_loaded_back(model, x):
    state = copy.deepcopy(model.state_dict())
    try:
        return bytes_batch_norm_counts(model, x)
    finally:
        model.load_state_dict(state)


@torch.no_grad()
def bytes_written_back(model, x):
    sizes = {}
    with hooked(model, sizes, keep=written_back):
        model(x)
    return sizes


@torch.no_grad()
def bytes_switched_on(model, x):
    sizes = bytes_decorated(model, x)
    torch.set_grad_enabled(True)
    return sizes


def bytes_eval_alone(model, x):
    """Nothing of batch norm's is put back, since eval mode protects it."""
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        return bytes_batch_norm_counts(model, x)
    finally:
        for module, training in flags.items():
            module.training = training


@torch.no_grad()
def bytes_by_hand(model, x):
    sizes = {}
    for name, module in leaves_of(model):
        x = module(x)
        sizes[name] = nbytes(x)
    return sizes


def bytes_flags_put_back_without_finally(model, x):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    sizes = bytes_decorated(model, x)
    for module, training in flags:
        module.training = training
    return sizes


def bytes_untracked(model, x):
    for module in model.modules():
        module.track_running_stats = False
    return bytes_batch_norm_counts(model, x)


def bytes_state_dict(model, x):
    state = model.state_dict()
    sizes = bytes_batch_norm_counts(model, x)
    model.load_state_dict(state)
    return sizes


def bytes_mean_and_variance(model, x):
    before = {name: buffer.clone() for name, buffer in model.named_buffers() if "running" in name}
    sizes = bytes_batch_norm_counts(model, x)
    model.load_state_dict(before, strict=False)
    return sizes


def bytes_in_eval_mode(model, x):
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        return bytes_decorated(model, x)
    finally:
        for module, training in flags.items():
            module.training = training


def bytes_with(model, x, modules=None, count=nbytes, make=adder):
    sizes = {}
    with hooked(model, sizes, modules, count, make), torch.no_grad():
        model(x)
    return sizes


def bytes_by_wrapping(model, x):
    """No hooks: every leaf's forward is wrapped for a while."""
    sizes, wrapped = defaultdict(int), []

    def wrap(name, forward):
        def run(*args, **kwargs):
            output = forward(*args, **kwargs)
            sizes[name] += nbytes(output)
            return output

        return run

    try:
        for name, module in leaves_of(model):
            module.forward = wrap(name, module.forward)
            wrapped.append(module)
        with torch.no_grad(), kept_buffers(model):
            model(x)
    finally:
        for module in wrapped:
            del module.forward
    return sizes


def bytes_class_names(model, x):
    return bytes_with(model, x, [(type(module).__name__, module) for _, module in leaves_of(model)])


def bytes_weightless(model, x):
    return bytes_with(model, x, [(name, module) for name, module in leaves_of(model) if list(module.parameters())])


def bytes_of_inputs(model, x):
    def make(sizes, name, count):
        return lambda module, args: sizes.update({name: sizes.get(name, 0) + count(args)})

    sizes = {}
    with contextlib.ExitStack() as stack:
        for name, module in leaves_of(model):
            stack.enter_context(module.register_forward_pre_hook(make(sizes, name, nbytes)))
        with torch.no_grad():
            model(x)
    return sizes


def bytes_containers(model, x):
    return bytes_with(model, x, [(name, module) for name, module in model.named_modules() if name])


def bytes_containers_and_root(model, x):
    return bytes_with(model, x, list(model.named_modules()))


def bytes_by_type(model, x):
    containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
    return bytes_with(model, x, [row for row in model.named_modules() if not isinstance(row[1], containers)])


def bytes_of_each_memory_once(model, x):
    alive = {}

    def per_tensor(tensor):
        pointer = tensor.untyped_storage().data_ptr()
        if pointer in alive:
            return 0
        alive[pointer] = tensor
        return tensor.nbytes

    return bytes_with(model, x, count=counting(per_tensor))


def bytes_children(model, x):
    return bytes_with(model, x, list(model.named_children()))


def bytes_one_name(model, x):
    sizes, handles = {}, []
    for name, module in leaves_of(model):
        handles.append(module.register_forward_hook(lambda m, a, o: sizes.update({name: nbytes(o)})))  # noqa: B023 (shows it)
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return sizes


def counting(per_tensor):
    def count(output):
        return per_tensor(output) if isinstance(output, torch.Tensor) else sum(map(count, output))

    return count


def bytes_elements(model, x):
    return bytes_with(model, x, count=counting(torch.numel))


def bytes_four(model, x):
    return bytes_with(model, x, count=counting(lambda tensor: 4 * tensor.numel()))


def bytes_in_the_dtype_of_x(model, x):
    return bytes_with(model, x, count=counting(lambda tensor: x.element_size() * tensor.numel()))


def bytes_storage(model, x):
    return bytes_with(model, x, count=counting(lambda tensor: tensor.untyped_storage().nbytes()))


def bytes_tensors_only(model, x):
    return bytes_with(model, x, count=lambda output: output.nbytes)


def bytes_first_of_tuple(model, x):
    return bytes_with(model, x, count=lambda output: (output[0] if isinstance(output, tuple) else output).nbytes)


def bytes_flat_tuples(model, x):
    def count(output):
        parts = output if isinstance(output, tuple) else (output,)
        return sum(part.nbytes for part in parts if isinstance(part, torch.Tensor))

    return bytes_with(model, x, count=count)


def bytes_of_named_items(model, x):
    def count(output):
        return sum(part.nbytes for part in (output if isinstance(output, tuple) else (output,)))

    return bytes_with(model, x, count=count)


def bytes_two_levels(model, x):
    def count(output):
        parts = output if isinstance(output, tuple) else (output,)
        parts = [inner for part in parts for inner in (part if isinstance(part, tuple) else (part,))]
        return sum(part.nbytes for part in parts if isinstance(part, torch.Tensor))

    return bytes_with(model, x, count=count)


def bytes_tuples_left_out(model, x):
    sizes = bytes_with(model, x, count=lambda output: output.nbytes if isinstance(output, torch.Tensor) else 0)
    return {name: size for name, size in sizes.items() if size}


def overwriting(sizes, name, count):
    def hook(module, args, output):
        sizes[name] = count(output)

    return hook


def returning_size(sizes, name, count):
    return lambda module, args, output: sizes.setdefault(name, count(output))


def keeping_the_first(sizes, name, count):
    def hook(module, args, output):
        sizes.setdefault(name, count(output))

    return hook


def bytes_of_the_first_call(model, x):
    return bytes_with(model, x, make=keeping_the_first)


def bytes_overwritten(model, x):
    return bytes_with(model, x, make=overwriting)


def bytes_returned(model, x):
    return bytes_with(model, x, make=returning_size)


def bytes_zero_entries(model, x):
    return {name: 0 for name, _ in leaves_of(model)} | bytes_decorated(model, x)


def bytes_recorded(model, x):
    sizes = {}
    with hooked(model, sizes):
        model(x)
    return sizes


def bytes_x_detached(model, x):
    return bytes_recorded(model, x.detach())


def bytes_frozen(model, x):
    model.requires_grad_(False)
    return bytes_recorded(model, x.detach())


def bytes_frozen_for_a_while(model, x):
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.requires_grad_(False)
    try:
        return bytes_recorded(model, x)
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def bytes_never_removed(model, x):
    sizes = {}
    for name, module in leaves_of(model):
        module.register_forward_hook(adder(sizes, name))
    with torch.no_grad():
        model(x)
    return sizes


def bytes_without_finally(model, x):
    sizes = {}
    handles = [module.register_forward_hook(adder(sizes, name)) for name, module in leaves_of(model)]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return sizes


def bytes_swallowed(model, x):
    with contextlib.suppress(Exception):
        return bytes_decorated(model, x)
    return {}


def bytes_none_for_an_error(model, x):
    with contextlib.suppress(Exception):
        return bytes_decorated(model, x)


def bytes_clearing(model, x):
    sizes = {}
    for name, module in leaves_of(model):
        module.register_forward_hook(adder(sizes, name))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for module in model.modules():
            module._forward_hooks = OrderedDict()
    return sizes


def bytes_past_the_hooks(model, x):
    sizes = {}
    with hooked(model, sizes), torch.no_grad():
        model.forward(x)
    return sizes


def bytes_run_twice(model, x):
    """A run to see which leaves there are, and one to count."""
    return bytes_decorated(model, x) and bytes_decorated(model, x)


def bytes_under_all_names(model, x):
    leaves = [
        (name, module) for name, module in model.named_modules(remove_duplicate=False) if not [*module.children()]
    ]
    return bytes_with(model, x, leaves)


def bytes_of_submodules(model, x):
    return bytes_with(model, x, [(name, module) for name, module in leaves_of(model) if name])


def bytes_batch_norm_counts(model, x):
    sizes = {}
    with hooked(model, sizes, keep=contextlib.nullcontext), torch.no_grad():
        model(x)
    return sizes


def bytes_put_back_without_finally(model, x):
    buffers = [buffer.clone() for buffer in model.buffers()]
    sizes = bytes_batch_norm_counts(model, x)
    for buffer, values in zip(model.buffers(), buffers, strict=True):
        buffer.copy_(values)
    return sizes


def bytes_copy_put_in(model, x):
    """The pass writes to the buffers that were there, and their copies take their places."""
    copies = [(m, name, b.clone()) for m in model.modules() for name, b in m.named_buffers(recurse=False)]
    try:
        return bytes_batch_norm_counts(model, x)
    finally:
        for module, name, buffer in copies:
            setattr(module, name, buffer)


def bytes_own_buffers_passed_over(model, x):
    """Copies stand in for batch norm's buffers during the pass, and for no others."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    with contextlib.ExitStack() as stack:
        for norm in norms:
            stack.enter_context(kept_buffers(norm))
        return bytes_batch_norm_counts(model, x)


def bytes_left_in_eval(model, x):
    model.eval()
    return bytes_decorated(model, x)


def bytes_train_at_the_end(model, x):
    model.eval()
    try:
        return bytes_decorated(model, x)
    finally:
        model.train()


# --------------------------------------------------------------------------------------------------------------- ablate


def ablate_filled(module, channels):
    def hook(module, args, output):
        index = torch.tensor(channels, device=output.device)
        return output.index_fill(1, index, 0)

    return module.register_forward_hook(hook)


def ablate_where_of_float32(module, channels):
    def hook(module, args, output):
        keep = torch.ones(output.shape[1], dtype=torch.bool).index_fill(0, torch.tensor(channels), False)
        return torch.where(keep.view(-1, *[1] * (output.dim() - 2)), output, torch.zeros(1))

    return module.register_forward_hook(hook)


def ablate_where(module, channels):
    def hook(module, args, output):
        mask = torch.zeros(output.shape[1], dtype=torch.bool, device=output.device)
        mask[channels] = True
        return torch.where(mask.view(1, -1, *[1] * (output.dim() - 2)), 0.0, output)

    return module.register_forward_hook(hook)


def ablate_unbound(module, channels):
    def hook(module, args, output):
        parts = list(output.unbind(1))
        for channel in channels:
            parts[channel] = torch.zeros_like(parts[channel])
        return torch.stack(parts, 1)

    return module.register_forward_hook(hook)


def ablate_moved(module, channels):
    """With a handle of its own that removes twice."""

    class Handle:
        def __init__(self, handle):
            self.remove = handle.remove

    def hook(module, args, output):
        copied = output.movedim(1, 0).clone()
        copied[channels] = 0
        return copied.movedim(0, 1)

    return Handle(module.register_forward_hook(hook))


class Zeroed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, channels):
        ctx.channels = channels
        return output.index_fill(1, torch.tensor(channels), 0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.index_fill(1, torch.tensor(ctx.channels), 0), None


def ablate_by_function(module, channels):
    return module.register_forward_hook(lambda m, a, o: Zeroed.apply(o, channels))


def ablate_inputs(module, channels):
    def hook(module, args):
        x = args[0].clone()
        x[:, channels] = 0
        return (x,)

    return module.register_forward_pre_hook(hook)


def dropped(output, channels):
    return output[:, [channel for channel in range(output.shape[1]) if channel not in channels]]


def minus_detached(output, channels):
    mask = torch.zeros(output.shape[1], dtype=output.dtype)
    mask[channels] = 1
    return output - (output * mask.view(1, -1, *[1] * (output.dim() - 2))).detach()


def ablate_hook(edit):
    return lambda module, channels: module.register_forward_hook(lambda m, a, o: edit(o, channels))


def not_returned(output, channels):
    output = output.clone()
    output[:, channels] = 0


def first_index(output, channels):
    output = output.clone()
    output[channels] = 0
    return output


def last_index(output, channels):
    output = output.clone()
    output[..., channels] = 0
    return output


def four_indices(output, channels):
    output = output.clone()
    output[:, channels, :, :] = 0
    return output


def shape_of_images(output, channels):
    _, count, _, _ = output.shape
    gone = torch.tensor([index in channels for index in range(count)])
    return output.masked_fill(gone.view(1, count, 1, 1), 0)


def mask_of_images(output, channels):
    gone = torch.zeros(1, output.shape[1], 1, 1, dtype=torch.bool)
    gone[:, channels] = True
    return output.masked_fill(gone.expand_as(output), 0)


def channels_brought_to_the_end(output, channels):
    moved = output.permute(0, 2, 3, 1).clone()
    moved[..., channels] = 0
    return moved.permute(0, 3, 1, 2)


def mask_by_einsum(output, channels):
    gone = torch.zeros(output.shape[1], dtype=output.dtype)
    gone[channels] = 1
    return output.masked_fill(torch.einsum("nchw,c->nchw", torch.ones_like(output), gone) > 0, 0)


def third_from_the_end(output, channels):
    return output.index_fill(-3, torch.tensor(channels), 0)


def ablate_by_vector(module, channels):
    def hook(m, args, output):
        return output.where(torch.tensor([index not in channels for index in range(output.shape[1])]), 0)

    return module.register_forward_hook(hook)


def ablate_in_a_block(module, channels):
    with ablate_filled(module, channels) as handle:
        return handle


def inverted(output, channels):
    kept = torch.zeros_like(output)
    kept[:, channels] = output[:, channels]
    return kept


def times_mask(output, channels):
    mask = torch.ones(output.shape[1], dtype=output.dtype)
    mask[channels] = 0
    return output * mask.view(1, -1, *[1] * (output.dim() - 2))


def times_float_mask(output, channels):
    return output * torch.ones(output.shape[1]).index_fill(0, torch.tensor(channels), 0).view(
        -1, *[1] * (output.dim() - 2)
    )


def times_image_mask(output, channels):
    mask = torch.ones(output.shape[1], dtype=output.dtype)
    mask[channels] = 0
    return output * mask.view(1, -1, 1, 1)


def times_zero(output, channels):
    output = output.clone()
    output[:, channels] *= 0
    return output


def minus_itself(output, channels):
    output = output.clone()
    output[:, channels] -= output[:, channels]
    return output


def cleaned(output, channels):
    return times_mask(output.nan_to_num(), channels)


def cast(output, channels):
    return output.float().index_fill(1, torch.tensor(channels), 0)


def in_place(output, channels):
    output[:, channels] = 0


def in_place_returned(output, channels):
    output[:, channels] = 0
    return output


@torch.no_grad()
def in_place_unrecorded(output, channels):
    output[:, channels] = 0


def in_place_data(output, channels):
    output.data[:, channels] = 0


def in_place_detached(output, channels):
    output = output.detach()
    output[:, channels] = 0
    return output


def detached(output, channels):
    output = output.detach().clone()
    output[:, channels] = 0
    return output


@torch.no_grad()
def unrecorded(output, channels):
    return output.index_fill(1, torch.tensor(channels), 0)


def ablate_weights(module, channels):
    with torch.no_grad():
        module.weight[channels] = 0
        if module.bias is not None:
            module.bias[channels] = 0
    return RemovableHandle(OrderedDict())


def ablate_once(module, channels):
    def hook(module, args, output):
        handle.remove()
        return output.index_fill(1, torch.tensor(channels), 0)

    handle = module.register_forward_hook(hook)
    return handle


def ablate_no_handle(module, channels):
    ablate_filled(module, channels)


def ablate_by_an_attribute(module, channels):
    module.gone = torch.tensor(channels)
    return module.register_forward_hook(lambda m, a, o: o.index_fill(1, m.gone, 0))


def ablate_clearing_first(module, channels):
    module._forward_hooks.clear()
    return ablate_filled(module, channels)


def ablate_other_handle(module, channels):
    ablate_filled(module, channels)
    return RemovableHandle(OrderedDict())


class ClearingHandle:
    def __init__(self, module):
        self.module = module

    def remove(self):
        self.module._forward_hooks.clear()


def ablate_clearing(module, channels):
    ablate_filled(module, channels)
    return ClearingHandle(module)


def ablate_wrapped(module, channels):
    """Puts another forward in place, and later the one that it found."""
    found = module.forward

    class Handle:
        def remove(self):
            module.forward = found

    module.forward = lambda *args: found(*args).index_fill(1, torch.tensor(channels), 0)
    return Handle()


# ------------------------------------------------------------------------------------------------------------- grad_cam


def cam_of(activation, gradient):
    return torch.einsum("bchw,bc->bhw", activation, gradient.mean((2, 3))).relu().detach()


def cam_by_tensor_hook(model, layer, x, class_index):
    """The hook on the tensor belongs to the value before the in-place operation."""
    seen = {}

    def hook(module, args, output):
        seen["activation"] = output.detach().clone()
        output.register_hook(lambda gradient: seen.update(gradient=gradient))

    handle = model.get_submodule(layer).register_forward_hook(hook)
    try:
        with torch.enable_grad():
            x = x.detach().clone().requires_grad_()
            torch.autograd.grad(model(x)[:, class_index].sum(), x)
    finally:
        handle.remove()
    return cam_of(seen["activation"], seen["gradient"])


@torch.enable_grad()
def cam_from_the_layer_on(model, layer, x, class_index):
    """Records nothing before the layer: a fresh leaf takes the place of its output."""
    kept = []

    def hook(module, args, output):
        kept.append(output.detach().requires_grad_())
        return kept[0].clone()

    with model.get_submodule(layer).register_forward_hook(hook):
        logits = model(x.detach())
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept[0])
    return cam_of(kept[0].detach(), gradient)


@torch.enable_grad()
def cam_of_a_copy(model, layer, x, class_index):
    twin = copy.deepcopy(model)
    for module in twin.modules():
        if hasattr(module, "inplace"):
            module.inplace = False
    kept = []
    twin.get_submodule(layer).register_forward_hook(lambda m, a, o: kept.append(o))
    score = twin(x.detach().clone().requires_grad_())[:, class_index].sum()
    (gradient,) = torch.autograd.grad(score, kept)
    weights = gradient.mean(dim=(2, 3), keepdim=True)
    return torch.relu((weights * kept[0]).sum(1)).detach()


@torch.enable_grad()
def cam_by_offset(model, layer, x, class_index):
    """Adds a zero of its own to the output, and asks for the gradient of that zero."""
    kept = {}

    def hook(module, args, output):
        kept["activation"] = output.detach().clone()
        kept["zero"] = torch.zeros_like(output, requires_grad=True)
        return output + kept["zero"]

    handle = model.get_submodule(layer).register_forward_hook(hook)
    try:
        logits = model(x)
    finally:
        handle.remove()
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept["zero"])
    return cam_of(kept["activation"], gradient)


def cam_sample_by_sample(model, layer, x, class_index):
    return torch.cat([cam_by_tensor_hook(model, layer, one.unsqueeze(0), class_index) for one in x])


def cam_by_vjp(model, layer, x, class_index):
    """The model as a function of what is added to the layer's output."""
    module, kept = model.get_submodule(layer), {}

    def logits_with(offset):
        def hook(module, args, output):
            kept["activation"] = output.detach().clone()
            return output + offset

        with module.register_forward_hook(hook):
            return model(x.detach())

    with torch.no_grad():
        logits_with(0.0)
    logits, pull = torch.func.vjp(logits_with, torch.zeros_like(kept["activation"]))
    direction = torch.zeros_like(logits)
    direction[:, class_index] = 1
    return cam_of(kept["activation"], pull(direction)[0].detach())


def cam_with(
    model,
    layer,
    x,
    class_index,
    *,
    score=lambda logits, index: logits[:, index].sum(),
    combine=cam_of,
):
    """The course's way, with one part exchanged."""
    kept = []

    def hook(module, args, output):
        kept.append(output)
        return output.clone()

    handle = model.get_submodule(layer).register_forward_hook(hook)
    try:
        logits = model(x.detach().clone().requires_grad_())
    finally:
        handle.remove()
    (gradient,) = torch.autograd.grad(score(logits, class_index), kept)
    return combine(kept[0].detach(), gradient)


def cam_variant(**parts):
    return lambda model, layer, x, class_index: cam_with(model, layer, x, class_index, **parts)


def weighted(activation, gradient):
    return (gradient.mean((2, 3), keepdim=True) * activation).sum(1)


def cam_of_squeezed_weights(activation, gradient):
    return torch.einsum("bc,bchw->bhw", gradient.mean((2, 3), keepdim=True).squeeze(), activation).relu()


def normalised(activation, gradient):
    cam = cam_of(activation, gradient)
    return cam / cam.amax((1, 2), keepdim=True)


def min_max(activation, gradient):
    cam = cam_of(activation, gradient)
    low, high = cam.amin((1, 2), keepdim=True), cam.amax((1, 2), keepdim=True)
    return (cam - low) / (high - low)


def enlarged(activation, gradient):
    cam = cam_of(activation, gradient).unsqueeze(1)
    return nn.functional.interpolate(cam, size=(7, 6), mode="bilinear").squeeze(1)


def cam_history(model, layer, x, class_index):
    kept = []

    def hook(module, args, output):
        kept.append(output)
        return output.clone()

    with model.get_submodule(layer).register_forward_hook(hook):
        logits = model(x.detach().clone().requires_grad_())
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept)
    return weighted(kept[0], gradient).relu()


def cam_in_place(model, layer, x, class_index):
    """Asks for the gradient of the tensor that the hook got."""
    kept = []
    with model.get_submodule(layer).register_forward_hook(lambda m, a, o: kept.append(o)):
        logits = model(x.detach().clone().requires_grad_())
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept)
    return cam_of(kept[0].detach(), gradient)


def cam_activation_overwritten(model, layer, x, class_index):
    seen = {}

    def hook(module, args, output):
        seen["activation"] = output.detach()
        output.register_hook(lambda gradient: seen.update(gradient=gradient))

    with model.get_submodule(layer).register_forward_hook(hook):
        x = x.detach().clone().requires_grad_()
        torch.autograd.grad(model(x)[:, class_index].sum(), x)
    return cam_of(seen["activation"], seen["gradient"])


def cam_retained(model, layer, x, class_index):
    kept = []

    def hook(module, args, output):
        output.retain_grad()
        kept.extend((output, output.detach().clone()))

    with model.get_submodule(layer).register_forward_hook(hook):
        score = model(x.detach().clone().requires_grad_())[:, class_index].sum()
    score.backward(inputs=[kept[0]])
    return cam_of(kept[1], kept[0].grad)


def cam_of_what_is_handed_on(model, layer, x, class_index):
    made = []

    def begin_here(module, args, output):
        made.append(output.detach().clone().requires_grad_() * 1)  # not a leaf, so it may be edited
        return made[0]

    with torch.enable_grad(), model.get_submodule(layer).register_forward_hook(begin_here):
        (gradient,) = torch.autograd.grad(model(x)[:, class_index].sum(), made)
    return cam_of(made[0].detach(), gradient)


def cam_from_a_leaf_handed_on(model, layer, x, class_index):
    made = []

    def begin_here(module, args, output):
        made.append(output.detach().requires_grad_())
        return made[0]

    with torch.enable_grad(), model.get_submodule(layer).register_forward_hook(begin_here):
        score = model(x)[:, class_index].sum()
    (gradient,) = torch.autograd.grad(score, made)
    return cam_of(made[0].detach(), gradient)


def cam_from_a_copied_leaf_handed_on(model, layer, x, class_index):
    made = []

    def begin_here(module, args, output):
        made.append(output.detach().clone().requires_grad_())
        return made[0]

    with torch.enable_grad(), model.get_submodule(layer).register_forward_hook(begin_here):
        score = model(x)[:, class_index].sum()
    (gradient,) = torch.autograd.grad(score, made)
    return cam_of(made[0].detach(), gradient)


def cam_of_a_clone_aside(model, layer, x, class_index):
    kept = []
    with model.get_submodule(layer).register_forward_hook(lambda m, a, o: kept.append(o.clone().requires_grad_())):
        logits = model(x)
    return cam_of(kept[0], torch.autograd.grad(logits[:, class_index].sum(), kept[0])[0]).detach()


def cam_full_hook(model, layer, x, class_index):
    seen = {}
    module = model.get_submodule(layer)
    with (
        module.register_forward_hook(lambda m, a, o: seen.update(activation=o.detach().clone())),
        module.register_full_backward_hook(lambda m, grad_in, grad_out: seen.update(gradient=grad_out[0])),
    ):
        x = x.detach().clone().requires_grad_()
        torch.autograd.grad(model(x)[:, class_index].sum(), x)
    return cam_of(seen["activation"], seen["gradient"])


def cam_backward(model, layer, x, class_index):
    seen = {}

    def hook(module, args, output):
        seen["activation"] = output.detach().clone()
        output.register_hook(lambda gradient: seen.update(gradient=gradient))

    with model.get_submodule(layer).register_forward_hook(hook):
        model(x.detach().clone().requires_grad_())[:, class_index].sum().backward()
    return cam_of(seen["activation"], seen["gradient"])


def cam_backward_and_the_old_gradients(model, layer, x, class_index):
    leaves = [*model.parameters(), x]
    before = [leaf.grad for leaf in leaves]
    cam = cam_backward(model, layer, x, class_index)
    for leaf, grad in zip(leaves, before, strict=True):
        leaf.grad = grad
    return cam


def cam_backward_and_zero(model, layer, x, class_index):
    cam = cam_backward(model, layer, x, class_index)
    model.zero_grad()
    return cam


def cam_zero_grad_first(model, layer, x, class_index):
    model.zero_grad()
    return cam_by_vjp(model, layer, x, class_index)


def cam_not_frozen(model, layer, x, class_index):
    kept = []

    def hook(module, args, output):
        kept.append(output)
        return output.clone()

    with model.get_submodule(layer).register_forward_hook(hook):
        logits = model(x)
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept)
    return cam_of(kept[0].detach(), gradient)


def cam_score_after_the_block(model, layer, x, class_index):
    kept = []

    def hook(module, args, output):
        kept.append(output.detach().clone().requires_grad_())
        return kept[0].clone()

    with model.get_submodule(layer).register_forward_hook(hook), torch.enable_grad():
        logits = model(x)
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept)
    return cam_of(kept[0].detach(), gradient)


def cam_flags_raised(model, layer, x, class_index):
    model.requires_grad_(True)
    return cam_not_frozen(model, layer, x, class_index)


def cam_flags_by_the_first_parameter(model, layer, x, class_index):
    was = next(model.parameters()).requires_grad
    model.requires_grad_(True)
    try:
        return cam_by_vjp(model, layer, x, class_index)
    finally:
        model.requires_grad_(was)


def cam_frozen_at_the_end(model, layer, x, class_index):
    model.requires_grad_(True)
    try:
        return cam_by_vjp(model, layer, x, class_index)
    finally:
        model.requires_grad_(False)


def cam_x_flagged(model, layer, x, class_index):
    x.requires_grad_()
    return cam_not_frozen(model, layer, x, class_index)


def cam_never_removed(model, layer, x, class_index):
    kept = []

    def hook(module, args, output):
        kept.append(output)
        return output.clone()

    model.get_submodule(layer).register_forward_hook(hook)
    logits = model(x.detach().clone().requires_grad_())
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept[-1:])
    return cam_of(kept[-1].detach(), gradient)


def cam_without_finally(model, layer, x, class_index):
    kept = []

    def hook(module, args, output):
        kept.append(output)
        return output.clone()

    handle = model.get_submodule(layer).register_forward_hook(hook)
    logits = model(x.detach().clone().requires_grad_())
    handle.remove()
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept)
    return cam_of(kept[0].detach(), gradient)


def cam_swallowed(model, layer, x, class_index):
    try:
        return cam_with(model, layer, x, class_index)
    except Exception:
        return torch.zeros(len(x), 1, 1)


def cam_none_for_an_error(model, layer, x, class_index):
    with contextlib.suppress(Exception):
        return cam_by_vjp(model, layer, x, class_index)


def cam_clearing(model, layer, x, class_index):
    try:
        return cam_never_removed(model, layer, x, class_index)
    finally:
        model.get_submodule(layer)._forward_hooks.clear()


RIGHT = (
    Right("capture", "a class", Capture),
    Right("capture", "registers when made", CaptureAtOnce),
    Right("capture", "an exit stack", capture_by_stack),
    Right("capture", "a global hook", capture_globally),
    Right("capture", "forward wrapped", capture_by_wrapping),
    Right("capture", "by numpy", capture_by_numpy),
    Right("capture", "inference tensors", capture_under_inference),
    Right("activation_bytes", "decorated", bytes_decorated),
    Right("activation_bytes", "forward wrapped", bytes_by_wrapping),
    Right("activation_bytes", "tree_leaves", bytes_by_tree),
    Right("activation_bytes", "a copy", bytes_of_a_copy),
    Right("activation_bytes", "an exit stack", bytes_by_stack),
    Right("activation_bytes", "a global hook", bytes_globally),
    Right("ablate", "index_fill", ablate_filled),
    Right("ablate", "where", ablate_where),
    Right("ablate", "unbind", ablate_unbound),
    Right("ablate", "movedim", ablate_moved),
    Right("ablate", "a Function", ablate_by_function),
    Right("grad_cam", "a tensor hook", cam_by_tensor_hook),
    Right("grad_cam", "from the layer on", cam_from_the_layer_on),
    Right("grad_cam", "a copy", cam_of_a_copy),
    Right("grad_cam", "a zero added", cam_by_offset),
    Right("grad_cam", "vjp", cam_by_vjp),
    Right("grad_cam", "sample by sample", cam_sample_by_sample),
)

WRONG = (
    Wrong("capture", "no context", capture_returned_dict),
    Wrong("capture", "no context", capture_yield_alone, "a plain generator"),
    Wrong("capture", "as", CaptureItself),
    Wrong("capture", "one name", capture_one_name),
    Wrong("capture", "children", capture_children),
    Wrong("capture", "class names", capture_class_names),
    Wrong("capture", "lowered", capture_unflagged),
    Wrong("capture", "inputs", capture_inputs),
    Wrong("capture", "inputs", capture_swapped, "arguments swapped"),
    Wrong("capture", "lists", capture_lists),
    Wrong("capture", "late", capture_late),
    Wrong("capture", "emptied", capture_emptied),
    Wrong("capture", "first", capture_first),
    Wrong("capture", "first", capture_setdefault, "setdefault"),
    Wrong("capture", "replaced", capture_returning),
    Wrong("capture", "replaced", capture_hook_returns_entry, "the hook returns its entry"),
    Wrong("capture", "mode", capture_no_grad, earns=2.51),
    Wrong("capture", "flags", capture_eval),
    Wrong("capture", "graph", capture_whole),
    Wrong("capture", "cloned", capture_cloned_only),
    Wrong("capture", "graph", capture_detached_at_the_end, "detached at the end"),
    Wrong("capture", "alias", capture_detached_only, earns=2.32),
    Wrong("capture", "alias", capture_data, "data"),
    Wrong("capture", "alias", capture_contiguous, "contiguous"),
    Wrong("capture", "alias", capture_numpy_view, "numpy's view"),
    Wrong("capture", "dtype", capture_cast),
    Wrong("capture", "left on", capture_never_removed),
    Wrong("capture", "left on", capture_one_handle, "one handle for all"),
    Wrong("capture", "left on", CaptureByDel, "del handles"),
    Wrong("capture", "only without error", capture_without_finally),
    Wrong("capture", "only without error", CaptureUnlessRaised, "kept for errors"),
    Wrong("capture", "exit value", CaptureSwallowing),
    Wrong("capture", "exit value", CaptureReturningFeatures, "the features returned at the end"),
    Wrong("capture", "own lines", capture_with_the_yield_in_the_try),
    Wrong("capture", "unrecorded", capture_clones_of_what_is_recorded),
    Wrong("capture", "swallowed", capture_suppressing),
    Wrong("capture", "cleared others", capture_clearing),
    Wrong("capture", "cleared others", capture_restoring_table, "an old table put back"),
    Wrong("capture", "half registered", capture_half),
    Wrong("capture", "no error", capture_skipping),
    Wrong("capture", "other error", capture_attribute_error),
    Wrong("capture", "other error", capture_value_error, "ValueError"),
    Wrong("activation_bytes", "containers", bytes_containers),
    Wrong("activation_bytes", "containers", bytes_containers_and_root, "the root too"),
    Wrong("activation_bytes", "by type", bytes_by_type),
    Wrong("activation_bytes", "shared memory", bytes_of_each_memory_once),
    Wrong("activation_bytes", "children", bytes_children),
    Wrong("activation_bytes", "class names", bytes_class_names),
    Wrong("activation_bytes", "weightless", bytes_weightless),
    Wrong("activation_bytes", "inputs", bytes_of_inputs),
    Wrong("activation_bytes", "one name", bytes_one_name),
    Wrong("activation_bytes", "elements", bytes_elements),
    Wrong("activation_bytes", "four bytes", bytes_four),
    Wrong("activation_bytes", "one dtype", bytes_in_the_dtype_of_x),
    Wrong("activation_bytes", "tuples", bytes_tensors_only),
    Wrong("activation_bytes", "nested", bytes_of_named_items, "no tuple in a tuple is looked into"),
    Wrong("activation_bytes", "tuples", bytes_first_of_tuple, "first of a tuple"),
    Wrong("activation_bytes", "nested", bytes_flat_tuples),
    Wrong("activation_bytes", "nested", bytes_two_levels, "two levels"),
    Wrong("activation_bytes", "tuples", bytes_tuples_left_out, "tuples left out"),
    Wrong("activation_bytes", "storage", bytes_storage),
    Wrong("activation_bytes", "overwritten", bytes_overwritten, earns=1.89),
    Wrong("activation_bytes", "overwritten", bytes_of_the_first_call, "the first call"),
    Wrong("activation_bytes", "replaced", bytes_returned),
    Wrong("activation_bytes", "not run", bytes_zero_entries),
    Wrong("activation_bytes", "recorded", bytes_recorded),
    Wrong("activation_bytes", "recorded", bytes_x_detached, "x detached"),
    Wrong("activation_bytes", "frozen", bytes_frozen),
    Wrong("activation_bytes", "recorded", bytes_frozen_for_a_while, "frozen for a while"),
    Wrong("activation_bytes", "left on", bytes_never_removed),
    Wrong("activation_bytes", "only without error", bytes_without_finally),
    Wrong("activation_bytes", "only without error", bytes_flags_put_back_without_finally, "flags put back at the end"),
    Wrong("activation_bytes", "swallowed", bytes_swallowed),
    Wrong("activation_bytes", "swallowed", bytes_none_for_an_error, "None for an error"),
    Wrong("activation_bytes", "only without error", bytes_put_back_without_finally, "buffers put back at the end"),
    Wrong("activation_bytes", "cleared others", bytes_clearing),
    Wrong("activation_bytes", "past the hooks", bytes_past_the_hooks),
    Wrong("activation_bytes", "several runs", bytes_run_twice),
    Wrong("activation_bytes", "two names", bytes_under_all_names),
    Wrong("activation_bytes", "alone", bytes_of_submodules),
    Wrong("activation_bytes", "statistics", bytes_batch_norm_counts),
    Wrong("activation_bytes", "snapshot", bytes_state_dict),
    Wrong("activation_bytes", "eval", bytes_in_eval_mode, "eval mode put back"),
    Wrong("activation_bytes", "own buffers", bytes_eval_alone, "eval mode for batch norm"),
    Wrong("activation_bytes", "state dict", bytes_loaded_back, "a state dict loaded back"),
    Wrong("activation_bytes", "state dict", bytes_with_the_state_dict_copied, "a state dict copied"),
    Wrong("activation_bytes", "swapped twice", bytes_by_functional_call, "functional_call"),
    Wrong("activation_bytes", "swapped twice", bytes_swapped_under_each_name, "swapped under each name"),
    Wrong("activation_bytes", "versions", bytes_written_back, "buffers written back", earns=1.33),
    Wrong("activation_bytes", "copy put in", bytes_copy_put_in, earns=1.48),
    Wrong("activation_bytes", "own buffers", bytes_own_buffers_passed_over, "batch norm's alone"),
    Wrong("activation_bytes", "by hand", bytes_by_hand),
    Wrong("activation_bytes", "side effect", bytes_untracked),
    Wrong("activation_bytes", "counter", bytes_mean_and_variance),
    Wrong("activation_bytes", "flags", bytes_left_in_eval),
    Wrong("activation_bytes", "one flag", bytes_train_at_the_end, "train() at the end", 1.84),
    Wrong("ablate", "not returned", ablate_hook(not_returned)),
    Wrong("ablate", "dim", ablate_hook(first_index)),
    Wrong("ablate", "last", ablate_hook(last_index)),
    Wrong("ablate", "last", ablate_by_vector, "a mask of one dimension"),
    Wrong("ablate", "gone", ablate_in_a_block),
    Wrong("ablate", "image", ablate_hook(four_indices), "four indices"),
    Wrong("ablate", "image", ablate_hook(third_from_the_end), "the third dimension from the end", 1.57),
    Wrong("ablate", "image", ablate_hook(shape_of_images), "a shape of four numbers"),
    Wrong("ablate", "image", ablate_hook(mask_of_images), "a mask of four dimensions, expanded"),
    Wrong("ablate", "image", ablate_hook(channels_brought_to_the_end), "four dimensions permuted"),
    Wrong("ablate", "image", ablate_hook(mask_by_einsum), "four letters"),
    Wrong("ablate", "inputs", ablate_inputs),
    Wrong("ablate", "dropped", ablate_hook(dropped)),
    Wrong("ablate", "inverted", ablate_hook(inverted)),
    Wrong("ablate", "weights", ablate_weights),
    Wrong("ablate", "once", ablate_once),
    Wrong("ablate", "image", ablate_hook(times_image_mask)),
    Wrong("ablate", "times zero", ablate_hook(times_mask), earns=1.57),
    Wrong("ablate", "times zero", ablate_hook(times_zero), "times zero in place"),
    Wrong("ablate", "times zero", ablate_hook(minus_itself), "minus itself"),
    Wrong("ablate", "times zero", ablate_hook(minus_detached), "minus its detached self"),
    Wrong("ablate", "cleaned", ablate_hook(cleaned)),
    Wrong("ablate", "in place", ablate_hook(in_place)),
    Wrong("ablate", "in place", ablate_hook(in_place_returned), "in place, returned"),
    Wrong("ablate", "in place", ablate_hook(in_place_unrecorded), "in place under no_grad"),
    Wrong("ablate", "in place", ablate_hook(in_place_data), "data"),
    Wrong("ablate", "in place", ablate_hook(in_place_detached), "detached, no clone"),
    Wrong("ablate", "dtype", ablate_hook(cast)),
    Wrong("ablate", "widened", ablate_where_of_float32, "where, with a zero of float32"),
    Wrong("ablate", "times zero", ablate_hook(times_float_mask), "times a mask of float32"),
    Wrong("ablate", "detached", ablate_hook(detached), earns=1.57),
    Wrong("ablate", "detached", ablate_hook(unrecorded), "no_grad"),
    Wrong("ablate", "no return value", ablate_no_handle),
    Wrong("ablate", "no undo", ablate_other_handle),
    Wrong("ablate", "one ablation", ablate_by_an_attribute, "the channels on the module"),
    Wrong("ablate", "cleared others", ablate_clearing_first, "cleared before"),
    Wrong("ablate", "cleared others", ablate_clearing),
    Wrong("ablate", "found before", ablate_wrapped),
    Wrong("grad_cam", "no relu", cam_variant(combine=weighted)),
    Wrong("grad_cam", "absolute", cam_variant(combine=lambda a, g: weighted(a, g).abs())),
    Wrong("grad_cam", "relu first", cam_variant(combine=lambda a, g: weighted(a, g.mean((2, 3), True).relu()))),
    Wrong("grad_cam", "relu first", cam_variant(combine=lambda a, g: cam_of(a.relu(), g)), "relu of the activation"),
    Wrong("grad_cam", "one sample", cam_variant(score=lambda logits, index: logits[0, index])),
    Wrong("grad_cam", "class first", cam_variant(score=lambda logits, index: logits[index % len(logits)].sum())),
    Wrong("grad_cam", "mean of batch", cam_variant(score=lambda logits, index: logits[:, index].mean()), earns=1.73),
    Wrong("grad_cam", "batch weights", cam_variant(combine=lambda a, g: cam_of(a, g.mean(0, True).expand_as(a)))),
    Wrong(
        "grad_cam",
        "batch weights",
        cam_variant(combine=lambda a, g: weighted(a, g.mean(0, True).expand_as(a))),
        "batch weights and no relu",
    ),
    Wrong("grad_cam", "pixel weights", cam_variant(combine=lambda a, g: (a * g).sum(1).relu())),
    Wrong("grad_cam", "summed weights", cam_variant(combine=lambda a, g: cam_of(a, g * g[0, 0].numel())), earns=1.73),
    Wrong("grad_cam", "channel mean", cam_variant(combine=lambda a, g: cam_of(a, g) / a.shape[1])),
    Wrong("grad_cam", "unweighted", cam_variant(combine=lambda a, g: a.mean(1))),
    Wrong("grad_cam", "all classes", cam_variant(score=lambda logits, index: logits.sum())),
    Wrong("grad_cam", "predicted class", cam_variant(score=lambda logits, index: logits.max(1).values.sum())),
    Wrong("grad_cam", "probability", cam_variant(score=lambda logits, index: logits.softmax(1)[:, index].sum())),
    Wrong("grad_cam", "normalised", cam_variant(combine=normalised)),
    Wrong("grad_cam", "normalised", cam_variant(combine=min_max), "from 0 to 1"),
    Wrong("grad_cam", "image size", cam_variant(combine=enlarged)),
    Wrong("grad_cam", "unaligned", cam_variant(combine=lambda a, g: g.mean((2, 3)) * a)),
    Wrong("grad_cam", "vector", cam_variant(score=lambda logits, index: logits[:, index])),
    Wrong("grad_cam", "size one", cam_variant(combine=lambda a, g: cam_of(a, g)[:, None])),
    Wrong("grad_cam", "size one", cam_variant(combine=lambda a, g: cam_of(a, g).squeeze()), "squeezed"),
    Wrong("grad_cam", "size one", cam_variant(combine=lambda a, g: cam_of(a, g).squeeze(0)), "one image, squeezed"),
    Wrong("grad_cam", "size one", cam_variant(combine=cam_of_squeezed_weights), "the weights squeezed"),
    Wrong("grad_cam", "dtype", cam_variant(combine=lambda a, g: cam_of(a, g).float())),
    Wrong("grad_cam", "history", cam_history),
    Wrong("grad_cam", "in place", cam_in_place),
    Wrong("grad_cam", "in place", cam_activation_overwritten, "activation overwritten"),
    Wrong("grad_cam", "in place", cam_retained, "retain_grad"),
    Wrong("grad_cam", "handed on", cam_of_what_is_handed_on, earns=2.53),
    Wrong("grad_cam", "leaf handed on", cam_from_a_leaf_handed_on),
    Wrong("grad_cam", "leaf handed on", cam_from_a_copied_leaf_handed_on, "a copy of its own", 2.53),
    Wrong("grad_cam", "aside", cam_of_a_clone_aside),
    Wrong("grad_cam", "full hook", cam_full_hook),
    Wrong("grad_cam", "fills", cam_backward),
    Wrong("grad_cam", "put back", cam_backward_and_the_old_gradients),
    Wrong("grad_cam", "cleared", cam_backward_and_zero, "backward and zero_grad"),
    Wrong("grad_cam", "cleared", cam_zero_grad_first),
    Wrong("grad_cam", "frozen", cam_not_frozen),
    Wrong("grad_cam", "frozen", cam_with, "without enable_grad"),
    Wrong("grad_cam", "after the block", cam_score_after_the_block, earns=2.76),
    Wrong("grad_cam", "flags", cam_flags_raised),
    Wrong("grad_cam", "flags", cam_x_flagged, "x flagged"),
    Wrong("grad_cam", "flags", cam_frozen_at_the_end, "frozen at the end"),
    Wrong("grad_cam", "one flag", cam_flags_by_the_first_parameter),
    Wrong("grad_cam", "left on", cam_never_removed),
    Wrong("grad_cam", "only without error", cam_without_finally),
    Wrong("grad_cam", "swallowed", cam_swallowed),
    Wrong("grad_cam", "swallowed", cam_none_for_an_error, "None for an error"),
    Wrong("grad_cam", "cleared others", cam_clearing),
)
