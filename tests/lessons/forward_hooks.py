"""Right and wrong answers to the exercises of lesson 07."""

import contextlib
import copy
from collections import OrderedDict, defaultdict
from functools import partial

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._pytree import tree_leaves

from tests.lessons.answers import Right

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


# --------------------------------------------------------------------------------------------------------------- ablate


def ablate_filled(module, channels):
    def hook(module, args, output):
        index = torch.tensor(channels, device=output.device)
        return output.index_fill(1, index, 0)

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
