"""Right answers to the exercises of lesson 01, written otherwise than the course's own."""

# %%
import copy
import functools


def refuse(model, trainable):
    if trainable == "" or trainable not in dict(model.named_modules(remove_duplicate=False)):
        raise ValueError(f"no {trainable!r}; there are {[name for name, _ in model.named_children()]}")

# %% predicted_flags: ones, zeros and extra keys
predicted_flags = {key: int(value) for key, value in predicted_flags.items()} | {"e": 1}

# %% predicted_flags: truth values of torch
predicted_flags = {key: torch.tensor(value) for key, value in predicted_flags.items()}

# %% predicted_flags: ones and zeros of floats
predicted_flags = {key: float(value) for key, value in predicted_flags.items()}

# %% predicted_flags: in another order
predicted_flags = dict(reversed(predicted_flags.items()))

# %% will_require_grad: loop
def will_require_grad(*inputs):
    if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
        return False
    found = False
    for value in inputs:
        if isinstance(value, torch.Tensor):
            found |= value.requires_grad
    return found

# %% will_require_grad: getattr
def will_require_grad(*inputs):
    flags = {getattr(value, "requires_grad", False) for value in inputs}
    return True in flags and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()

# %% will_require_grad: asks the engine: is a probe's double recorded?
def will_require_grad(*inputs):
    probe = torch.zeros((), requires_grad=True)
    return (probe * 2).requires_grad and any(getattr(value, "requires_grad", False) for value in inputs)

# %% will_require_grad: runs an operation on every tensor among the inputs
def will_require_grad(*inputs):
    total = torch.zeros(())
    for value in inputs:
        if torch.is_tensor(value):
            total = total + value.sum()
    return total.requires_grad

# %% will_require_grad: match
def will_require_grad(*inputs):
    match (torch.is_inference_mode_enabled(), torch.is_grad_enabled()):
        case (False, True):
            return len([1 for value in inputs if torch.is_tensor(value) and value.requires_grad]) > 0
        case _:
            return False

# %% will_require_grad: a leaf's grad_fn
def will_require_grad(*inputs):
    leaf = torch.ones(1, requires_grad=True)
    if (leaf + 0).grad_fn is None:
        return False
    return any(value.requires_grad for value in filter(torch.is_tensor, inputs))

# %% freeze: the module's own methods
def freeze(module):
    module.requires_grad_(False)
    module.zero_grad()
    return module

# %% freeze: apply
def freeze(module):
    def freeze_own(submodule):
        for parameter in submodule.parameters(recurse=False):
            parameter.requires_grad_(False)
            parameter.grad = None

    return module.apply(freeze_own)

# %% freeze: by name
def freeze(module):
    for name, _ in list(module.named_parameters()):
        parameter = functools.reduce(getattr, name.split("."), module)
        parameter.grad, parameter.requires_grad = None, False
    return module

# %% freeze: every module's own parameters
def freeze(module):
    for submodule in module.modules():
        for parameter in submodule._parameters.values():
            if parameter is not None:
                parameter.requires_grad, parameter.grad = False, None
    return module

# %% freeze: recursive
def freeze(module):
    for parameter in module.parameters(recurse=False):
        parameter.requires_grad_(False)
        parameter.grad = None
    for child in module.children():
        freeze(child)
    return module

# %% finetune_parameters: set of parameters
def finetune_parameters(model, trainable):
    refuse(model, trainable)
    wanted = set(model.get_submodule(trainable).parameters())
    for parameter in model.parameters():
        parameter.requires_grad = parameter in wanted
        if not parameter.requires_grad:
            parameter.grad = None
    return [parameter for parameter in model.parameters() if parameter in wanted]

# %% finetune_parameters: walking down
def finetune_parameters(model, trainable):
    current = model
    for part in trainable.split("."):
        current = current._modules.get(part)
        if current is None:
            raise ValueError("direct submodules: " + ", ".join(name for name, _ in model.named_children()))
    kept = [(parameter, parameter.grad) for parameter in current.parameters()]
    model.requires_grad_(False)
    model.zero_grad(set_to_none=True)
    for parameter, gradient in kept:
        parameter.requires_grad_()
        parameter.grad = gradient
    return [parameter for parameter, _ in kept]

# %% finetune_parameters: names with duplicates
def finetune_parameters(model, trainable):
    refuse(model, trainable)
    found = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name.startswith(trainable + "."):
            found[id(parameter)] = parameter
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in found)
        if id(parameter) not in found:
            parameter.grad = None
    return list(found.values())

# %% finetune_parameters: difference of sets
def finetune_parameters(model, trainable):
    try:
        if trainable == "":
            raise AttributeError("the model itself")
        submodule = model.get_submodule(trainable)
    except AttributeError as error:
        raise ValueError(f"{trainable!r}: choose from {[name for name, _ in model.named_children()]}") from error
    chosen = list(dict.fromkeys(submodule.parameters()))
    for parameter in set(model.parameters()) - set(chosen):
        parameter.requires_grad, parameter.grad = False, None
    submodule.requires_grad_(True)
    return chosen

# %% finetune_parameters: the model as message
def finetune_parameters(model, trainable):
    found = [module for name, module in model.named_modules(remove_duplicate=False) if name == trainable and name]
    if not found:
        raise ValueError(str(model))
    ids, chosen = {id(parameter) for parameter in found[0].parameters()}, []
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in ids)
        if id(parameter) in ids:
            chosen.append(parameter)
        else:
            parameter.grad = None
    return chosen

# %% finetune_parameters: get_submodule
def finetune_parameters(model, trainable):
    try:
        chosen = model.get_submodule(trainable) if trainable else None
    except AttributeError:
        chosen = None
    if chosen is None:
        raise ValueError(f"{trainable!r} is none of {[name for name, _ in model.named_children()]}")
    model.requires_grad_(False)
    listed = list(chosen.requires_grad_().parameters())
    for parameter in model.parameters():
        if not parameter.requires_grad:
            parameter.grad = None
    return listed

# %% input_gradient: torch.func.vjp
def input_gradient(model, x):
    _, pull_back = torch.func.vjp(lambda value: model(value).sum(), x.detach())
    return pull_back(torch.ones((), dtype=x.dtype))[0].detach()

# %% input_gradient: tensor hook
def input_gradient(model, x):
    got = []
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        inner = leaf * 1
        inner.register_hook(lambda gradient: got.append(gradient.clone()))
        model(inner).sum().backward(inputs=[leaf])
    return got[0]

# %% input_gradient: central differences
def input_gradient(model, x):
    twin = copy.deepcopy(model).double()
    flat = x.detach().clone().double().flatten()
    out = torch.empty_like(flat)
    with torch.no_grad():
        for index in range(flat.numel()):
            step = torch.zeros_like(flat)
            step[index] = 1e-6
            out[index] = (twin((flat + step).view(x.shape)) - twin((flat - step).view(x.shape))).sum() / 2e-6
    return out.view(x.shape).to(x.dtype)

# %% input_gradient: forward mode
def input_gradient(model, x):
    with torch.enable_grad():
        return torch.func.jacfwd(lambda value: model(value).sum())(x.detach()).detach()

# %% input_gradient: torch.func.grad
def input_gradient(model, x):
    return torch.func.grad(lambda value: model(value).sum())(x.detach()).detach()

# %% input_gradient: jacobian
def input_gradient(model, x):
    return torch.autograd.functional.jacobian(lambda value: model(value).sum(), x.detach()).detach()

# %% input_gradient: freezes the parameters for the time of the call
def input_gradient(model, x):
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.requires_grad_(False)
    try:
        with torch.set_grad_enabled(True):
            leaf = nn.Parameter(x.detach().clone())
            model(leaf).sum().backward()
        return leaf.grad
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)

# %% input_gradient: a copy of the model
def input_gradient(model, x):
    twin = copy.deepcopy(model)
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        twin(leaf).sum().backward()
    return leaf.grad.clone()
