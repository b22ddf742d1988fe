"""Right and wrong answers to the exercises of lesson 01."""

import copy
import functools

import torch
from torch import nn

from tests.lessons.answers import Right

# ----------------------------------------------------------------------------------------------------- predicted_flags

FLAGS = {
    "a": False,
    "b": False,
    "square": False,
    "c": True,
    "d": True,
    "total": True,
    "index": False,
    "mask": False,
}

# --------------------------------------------------------------------------------------------------- will_require_grad


def will_by_loop(*inputs):
    if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
        return False
    found = False
    for value in inputs:
        if isinstance(value, torch.Tensor):
            found |= value.requires_grad
    return found


def will_by_getattr(*inputs):
    flags = {getattr(value, "requires_grad", False) for value in inputs}
    return True in flags and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def will_by_probe(*inputs):
    """Asks the engine: is a probe's double recorded?"""
    probe = torch.zeros((), requires_grad=True)
    return (probe * 2).requires_grad and any(getattr(value, "requires_grad", False) for value in inputs)


def will_by_adding(*inputs):
    """Runs an operation on every tensor among the inputs."""
    total = torch.zeros(())
    for value in inputs:
        if torch.is_tensor(value):
            total = total + value.sum()
    return total.requires_grad


def will_by_match(*inputs):
    match (torch.is_inference_mode_enabled(), torch.is_grad_enabled()):
        case (False, True):
            return len([1 for value in inputs if torch.is_tensor(value) and value.requires_grad]) > 0
        case _:
            return False


def will_by_leaf(*inputs):
    leaf = torch.ones(1, requires_grad=True)
    if (leaf + 0).grad_fn is None:
        return False
    return any(value.requires_grad for value in filter(torch.is_tensor, inputs))


# -------------------------------------------------------------------------------------------------------------- freeze


def freeze_by_method(module):
    module.requires_grad_(False)
    module.zero_grad()
    return module


def freeze_by_modules(module):
    for submodule in module.modules():
        for parameter in submodule._parameters.values():
            if parameter is not None:
                parameter.requires_grad, parameter.grad = False, None
    return module


def freeze_recursive(module):
    for parameter in module.parameters(recurse=False):
        parameter.requires_grad_(False)
        parameter.grad = None
    for child in module.children():
        freeze_recursive(child)
    return module


def freeze_by_apply(module):
    def freeze_own(submodule):
        for parameter in submodule.parameters(recurse=False):
            parameter.requires_grad_(False)
            parameter.grad = None

    return module.apply(freeze_own)


def freeze_by_names(module):
    for name, _ in list(module.named_parameters()):
        parameter = functools.reduce(getattr, name.split("."), module)
        parameter.grad, parameter.requires_grad = None, False
    return module


def freeze_by_detaching(module):
    for parameter in module.parameters():
        parameter.detach_()
        parameter.grad = None
    return module


# ------------------------------------------------------------------------------------------------- finetune_parameters


def refuse(model, trainable):
    if trainable == "" or trainable not in dict(model.named_modules(remove_duplicate=False)):
        raise ValueError(f"no {trainable!r}; there are {[name for name, _ in model.named_children()]}")


def finetune_by_identity(model, trainable):
    refuse(model, trainable)
    wanted = set(model.get_submodule(trainable).parameters())
    for parameter in model.parameters():
        parameter.requires_grad = parameter in wanted
        if not parameter.requires_grad:
            parameter.grad = None
    return [parameter for parameter in model.parameters() if parameter in wanted]


def finetune_by_walking(model, trainable):
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


def finetune_by_names(model, trainable, dot="."):
    refuse(model, trainable)
    found = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name.startswith(trainable + dot):
            found[id(parameter)] = parameter
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in found)
        if id(parameter) not in found:
            parameter.grad = None
    return list(found.values())


def finetune_by_sets(model, trainable):
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


def finetune_message_is_the_model(model, trainable):
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


# ------------------------------------------------------------------------------------------------------ input_gradient


def gradient_by_backward_to_inputs(model, x):
    with torch.enable_grad():
        copy_of_x = x.detach().clone().requires_grad_()
        model(copy_of_x).sum().backward(inputs=[copy_of_x])
    return copy_of_x.grad


def gradient_by_func(model, x):
    return torch.func.grad(lambda value: model(value).sum())(x.detach()).detach()


def gradient_by_jacobian(model, x):
    return torch.autograd.functional.jacobian(lambda value: model(value).sum(), x.detach()).detach()


def gradient_frozen_meanwhile(model, x):
    """Freezes the parameters for the time of the call."""
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


def gradient_by_vector_jacobian(model, x):
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        out = model(leaf)
        return torch.autograd.grad(out, leaf, torch.ones_like(out))[0]


def gradient_by_ones_in_float32(model, x):
    twin = copy.deepcopy(model)
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        twin(leaf).sum().backward()
    return leaf.grad.clone()


def gradient_by_func_vjp(model, x):
    _, pull_back = torch.func.vjp(lambda value: model(value).sum(), x.detach())
    return pull_back(torch.ones((), dtype=x.dtype))[0].detach()


def gradient_by_tensor_hook(model, x):
    got = []
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        inner = leaf * 1
        inner.register_hook(lambda gradient: got.append(gradient.clone()))
        model(inner).sum().backward(inputs=[leaf])
    return got[0]


def gradient_by_differences(model, x):
    twin = copy.deepcopy(model).double()
    flat = x.detach().clone().double().flatten()
    out = torch.empty_like(flat)
    with torch.no_grad():
        for index in range(flat.numel()):
            step = torch.zeros_like(flat)
            step[index] = 1e-6
            out[index] = (twin((flat + step).view(x.shape)) - twin((flat - step).view(x.shape))).sum() / 2e-6
    return out.view(x.shape).to(x.dtype)


def gradient_by_forward_mode(model, x):
    with torch.enable_grad():
        return torch.func.jacfwd(lambda value: model(value).sum())(x.detach()).detach()


# ----------------------------------------------------------------------------------------------- holes of older checks


def finetune_by_get_submodule(model, trainable):
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


RIGHT = (
    Right(
        "predicted_flags", "ones, zeros and extra keys", {key: int(value) for key, value in FLAGS.items()} | {"e": 1}
    ),
    Right("predicted_flags", "truth values of torch", {key: torch.tensor(value) for key, value in FLAGS.items()}),
    Right("predicted_flags", "ones and zeros of floats", {key: float(value) for key, value in FLAGS.items()}),
    Right("predicted_flags", "in another order", dict(reversed(FLAGS.items()))),
    Right("will_require_grad", "loop", will_by_loop),
    Right("will_require_grad", "getattr", will_by_getattr),
    Right("will_require_grad", "probe of the engine", will_by_probe),
    Right("will_require_grad", "adding tensors", will_by_adding),
    Right("will_require_grad", "match", will_by_match),
    Right("will_require_grad", "a leaf's grad_fn", will_by_leaf),
    Right("freeze", "the module's own methods", freeze_by_method),
    Right("freeze", "apply", freeze_by_apply),
    Right("freeze", "by name", freeze_by_names),
    Right("freeze", "detach_", freeze_by_detaching),
    Right("freeze", "every module's own parameters", freeze_by_modules),
    Right("freeze", "recursive", freeze_recursive),
    Right("finetune_parameters", "set of parameters", finetune_by_identity),
    Right("finetune_parameters", "walking down", finetune_by_walking),
    Right("finetune_parameters", "names with duplicates", finetune_by_names),
    Right("finetune_parameters", "difference of sets", finetune_by_sets),
    Right("finetune_parameters", "the model as message", finetune_message_is_the_model),
    Right("input_gradient", "torch.func.vjp", gradient_by_func_vjp),
    Right("input_gradient", "tensor hook", gradient_by_tensor_hook),
    Right("input_gradient", "central differences", gradient_by_differences),
    Right("input_gradient", "forward mode", gradient_by_forward_mode),
    Right("input_gradient", "backward to the input alone", gradient_by_backward_to_inputs),
    Right("input_gradient", "torch.func.grad", gradient_by_func),
    Right("input_gradient", "jacobian", gradient_by_jacobian),
    Right("input_gradient", "frozen meanwhile", gradient_frozen_meanwhile),
    Right("input_gradient", "vector-Jacobian product", gradient_by_vector_jacobian),
    Right("input_gradient", "a copy of the model", gradient_by_ones_in_float32),
    Right("finetune_parameters", "get_submodule", finetune_by_get_submodule),
)
