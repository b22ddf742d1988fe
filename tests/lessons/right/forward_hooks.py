"""Right answers to the exercises of lesson 07, written otherwise than the course's own."""

# %%
import contextlib
from collections import defaultdict

from torch.nn.modules.module import register_module_forward_hook
from torch.utils._pytree import tree_leaves


def find(model, names):
    try:
        return {name: model.get_submodule(name) for name in names}
    except AttributeError as error:
        raise KeyError(str(error)) from error


def keeper(features, name):
    def hook(module, args, output):
        features[name] = output.detach().clone()

    return hook


def leaves_of(model):
    return [(name, module) for name, module in model.named_modules() if not list(module.children())]


def nbytes(output):
    if isinstance(output, torch.Tensor):
        return output.numel() * output.element_size()
    return sum(map(nbytes, output))


def adder(sizes, name):
    def hook(module, args, output):
        sizes[name] = sizes.get(name, 0) + nbytes(output)

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


def cam_of(activation, gradient):
    return torch.einsum("bchw,bc->bhw", activation, gradient.mean((2, 3))).relu().detach()


def cam_by_tensor_hook(model, layer, x, class_index):
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

# %% capture: a class that registers when it is entered
class capture:
    def __init__(self, model, names):
        self.model, self.names, self.handles, self.features = model, names, [], {}

    def __enter__(self):
        for name, module in find(self.model, self.names).items():
            self.handles.append(module.register_forward_hook(keeper(self.features, name)))
        return self.features

    def __exit__(self, *exc):
        for handle in self.handles:
            handle.remove()

# %% capture: a class that registers when it is made
class capture:
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

# %% capture: an exit stack
@contextlib.contextmanager
def capture(model, names):
    features = OrderedDict()
    with contextlib.ExitStack() as stack:
        for name in names:
            module = dict(model.named_modules())[name]
            stack.enter_context(module.register_forward_hook(keeper(features, name)))
        yield features

# %% capture: one hook for all modules of the process
@contextlib.contextmanager
def capture(model, names):
    wanted, features = {id(module): name for name, module in find(model, names).items()}, {}

    def hook(module, args, output):
        if id(module) in wanted:
            features[wanted[id(module)]] = torch.empty_like(output).copy_(output.detach())

    with register_module_forward_hook(hook):
        yield features

# %% capture: no hooks at all: the modules' forward is wrapped for a while
@contextlib.contextmanager
def capture(model, names):
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

# %% activation_bytes: no hooks: every leaf's forward is wrapped for a while
def activation_bytes(model, x):
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

# %% activation_bytes: a copy, thrown away with the hooks of others that it took along
def activation_bytes(model, x):
    twin, sizes = copy.deepcopy(model).requires_grad_(False), {}
    for name, module in leaves_of(twin):
        module.register_forward_hook(adder(sizes, name))
    twin(x.detach())
    return sizes

# %% activation_bytes: an exit stack
def activation_bytes(model, x):
    sizes = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(kept_buffers(model))
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                stack.enter_context(module.register_forward_hook(adder(sizes, name)))
        model(x)
    return sizes

# %% activation_bytes: a global hook
def activation_bytes(model, x):
    names, sizes = {module: name for name, module in leaves_of(model)}, {}

    def hook(module, args, output):
        if module in names:
            adder(sizes, names[module])(module, args, output)

    with register_module_forward_hook(hook), torch.no_grad(), kept_buffers(model):
        model(x)
    return sizes

# %% ablate: where
def ablate(module, channels):
    def hook(module, args, output):
        mask = torch.zeros(output.shape[1], dtype=torch.bool, device=output.device)
        mask[channels] = True
        return torch.where(mask.view(1, -1, *[1] * (output.dim() - 2)), 0.0, output)

    return module.register_forward_hook(hook)

# %% ablate: movedim: with a handle of its own that removes twice
def ablate(module, channels):
    class Handle:
        def __init__(self, handle):
            self.remove = handle.remove

    def hook(module, args, output):
        copied = output.movedim(1, 0).clone()
        copied[channels] = 0
        return copied.movedim(0, 1)

    return Handle(module.register_forward_hook(hook))

# %% ablate: a Function
class Zeroed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, channels):
        ctx.channels = channels
        return output.index_fill(1, torch.tensor(channels), 0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.index_fill(1, torch.tensor(ctx.channels), 0), None


def ablate(module, channels):
    return module.register_forward_hook(lambda m, a, o: Zeroed.apply(o, channels))

# %% grad_cam: a hook on the tensor belongs to the value before the in-place operation
grad_cam = cam_by_tensor_hook

# %% grad_cam: records nothing before the layer: a fresh leaf takes the place of its output
@torch.enable_grad()
def grad_cam(model, layer, x, class_index):
    kept = []

    def hook(module, args, output):
        kept.append(output.detach().requires_grad_())
        return kept[0].clone()

    with model.get_submodule(layer).register_forward_hook(hook):
        logits = model(x.detach())
    (gradient,) = torch.autograd.grad(logits[:, class_index].sum(), kept[0])
    return cam_of(kept[0].detach(), gradient)

# %% grad_cam: a copy
@torch.enable_grad()
def grad_cam(model, layer, x, class_index):
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

# %% grad_cam: adds a zero of its own to the output, and asks for the gradient of that zero
@torch.enable_grad()
def grad_cam(model, layer, x, class_index):
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

# %% grad_cam: vjp: the model as a function of what is added to the layer's output
def grad_cam(model, layer, x, class_index):
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

# %% grad_cam: sample by sample
def grad_cam(model, layer, x, class_index):
    return torch.cat([cam_by_tensor_hook(model, layer, one.unsqueeze(0), class_index) for one in x])
