"""Recorded graphs of many kinds, and the bytes that dropping one really frees, from the CPU allocator itself.

Each builder returns a loss, and what stays in variables beside it.
"""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint

Build = Callable[[], tuple[Tensor, Any]]
GRAPHS: dict[str, Build] = {}


def graph(build: Build) -> Build:
    GRAPHS[build.__name__] = build
    return build


def freed_by_dropping(build: Build, read: Callable[[Tensor], Any]) -> tuple[int, Any]:
    """Bytes that the allocator gets back when the only reference to the loss is dropped, and what ``read`` said of it.

    Everything happens under the profiler, because it knows the size of a block only if it saw the allocation.
    """
    gc.disable()  # a collection in between would free what references alone do not
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
            torch.manual_seed(0)
            loss, keep = build()
            box = [loss]
            del loss
            said = read(box[0])
            with record_function("drop"):
                box.clear()
            del keep
    finally:
        gc.enable()
    return -sum(_allocations(profiler)), said


def _allocations(profiler: profile) -> Iterator[int]:
    waiting = [(event, False) for event in profiler.profiler.kineto_results.experimental_event_tree()]
    while waiting:
        event, inside = waiting.pop()
        inside = inside or event.name == "drop"
        if inside and event.name == "[memory]":
            yield event.extra_fields.alloc_size
        waiting.extend((child, inside) for child in event.children)


def leaf(*shape: int, dtype: torch.dtype | None = None) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def perceptron_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


class GatedNet(nn.Module):
    """Two convolution branches behind a gate: 40 nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = self.branch(), self.branch()
        self.gate = nn.Conv2d(3, 32, 1)
        self.head = nn.Linear(32, 10)

    @staticmethod
    def branch() -> nn.Sequential:
        first, second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        return nn.Sequential(first, nn.BatchNorm2d(32), nn.ReLU(), second, nn.ReLU(), nn.MaxPool2d(2))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(functional.avg_pool2d(self.gate(x), 2))
        return self.head((gate * self.a(x) + (1 - gate) * self.b(x)).mean((2, 3)))


def gated_loss(model: nn.Module) -> Tensor:
    return functional.cross_entropy(model(torch.randn(2, 3, 16, 16)), torch.randint(0, 10, (2,)))


@graph
def convolution_norm_pool_dropout():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout()
    )
    head = nn.Sequential(nn.LayerNorm(8 * 7 * 7), nn.Linear(8 * 7 * 7, 10))
    return head(model(torch.randn(4, 3, 16, 16))).sum(), (model, head)


@graph
def recurrent_cell_of_twenty_steps():
    model = nn.RNNCell(16, 32)
    state = torch.zeros(2, 32)
    for _ in range(20):
        state = model(torch.randn(2, 16), state)
    return state.sum(), model


class Cube(torch.autograd.Function):
    """Keeps tensors in three ways: saved, as an attribute, and in a container on the ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.square = x * x
        ctx.cache = {"cube": [x**3]}
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3 * ctx.square


class Hoards(torch.autograd.Function):
    """Puts a tensor into a list that it was given, and keeps the list."""

    @staticmethod
    def forward(ctx, x, cache):
        ctx.cache = cache
        cache.append(x * 2)
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3, None


class Circle(torch.autograd.Function):
    """Keeps its own output as an attribute: a circle of references, https://github.com/pytorch/pytorch/issues/25340."""

    @staticmethod
    def forward(ctx, x):
        ctx.out = x.exp()
        return ctx.out

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.out


@graph
def checkpoint_in_the_middle():
    model = perceptron_model()
    hidden = checkpoint(model[2:4], model[:2](torch.randn(16, 32)), use_reentrant=False)
    return model[4](hidden).sum(), model


@graph
def hooks_that_pack_into_half():
    x = leaf(1000)
    with saved_tensors_hooks(lambda tensor: tensor.detach().half(), lambda packed: packed.float()):
        y = (x.sin() * x.cos()).exp()
    return y.sum(), x


@graph
def hooks_that_pack_into_a_tuple():
    x = leaf(1000)
    with saved_tensors_hooks(lambda tensor: (tensor.detach().clone(), "note"), lambda packed: packed[0]):
        y = (x.sin() * x).tanh()
    return y.sum(), x


class Packer:
    """Hooks that are methods, and share what the object holds."""

    def __init__(self) -> None:
        self.table = torch.ones(300)

    def pack(self, tensor):
        return tensor.detach()

    def unpack(self, packed):
        return packed * self.table[0]


@graph
def hooks_that_are_methods():
    x, packer = leaf(1000), Packer()
    with saved_tensors_hooks(packer.pack, packer.unpack):
        y = (x.sin() * x).tanh()
    return y.sum(), x


@graph
def save_on_cpu_keeps_its_output():
    x = leaf(1000)
    with save_on_cpu():
        y = x.exp()
    return y.sum(), x


@graph
def ensemble():
    models = [perceptron_model() for _ in range(3)]
    state = torch.func.stack_module_state(models)
    x = torch.randn(16, 32)
    call = torch.vmap(lambda parameters, buffers: torch.func.functional_call(models[0], (parameters, buffers), (x,)))
    return call(*state).sum(), (state, models)


@graph
def double_backward_and_the_first_loss():
    x = leaf(1000)
    first = x.sin().pow(3).sum()
    (gradient,) = torch.autograd.grad(first, x, create_graph=True)
    return gradient.pow(2).sum() + first, (x, first)


@graph
def autocast():
    model = perceptron_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(torch.randn(16, 32))
    return output.float().sum(), model


# More of them, each the body of such a builder.
SHORT = {
    "one_operation": "x = leaf(1000); return x.exp(), x",
    "nothing_saved": "x = leaf(1000); return x.sum(), x",
    "leaf_gone": "return (leaf(1000).sin() * 2).sum(), None",
    "boxed_scalars": "x = leaf(1000); return (x * 2.5).sum() * 1.0, x",
    "where_with_a_scalar": "x = leaf(1000); return torch.where(x > 0, x, 0.0).sum(), x",
    "perceptron": (
        "model = perceptron_model(); "
        "return functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(0, 10, (16,))), model"
    ),
    "named_intermediates": (
        "model = perceptron_model(); x = torch.randn(16, 32); first = model[0](x); "
        "second = model[1](first); return model[2:](second).sum(), (model, x, first, second)"
    ),
    "named_output": (
        "model = perceptron_model(); output = model(torch.randn(16, 32)); return output.pow(2).mean(), (model, output)"
    ),
    "trunk_shared_with_another_loss": (
        "model = perceptron_model(); trunk = model(torch.randn(16, 32)).exp(); "
        "return trunk.sin().sum(), (model, (trunk * trunk).sum())"
    ),
    "gated_convolutions": "model = GatedNet(); return gated_loss(model), model",
    "transformer_layer": (
        "model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True); "
        "return model(torch.randn(2, 8, 32)).sum(), model"
    ),
    "lstm": "model = nn.LSTM(16, 32); return model(torch.randn(5, 2, 16))[0].sum(), model",
    "gru_of_two_layers": "model = nn.GRU(16, 32, 2); return model(torch.randn(5, 2, 16))[0].sum(), model",
    "custom_function": "x = leaf(500); return Cube.apply(x * 2).sum(), x",
    "list_on_ctx_that_a_variable_holds": "x, cache = leaf(500), []; return Hoards.apply(x, cache).sum(), (x, cache)",
    "list_on_ctx_alone": "x = leaf(500); return Hoards.apply(x, []).sum(), x",
    "circle_through_ctx": "x = leaf(500); return Circle.apply(x).sum(), x",
    "checkpoint_of_everything": (
        "model = perceptron_model(); return checkpoint(model, leaf(16, 32), use_reentrant=False).sum(), model"
    ),
    "checkpoints_in_a_chain": (
        "model = perceptron_model(); hidden = checkpoint(model[:2], torch.randn(16, 32), use_reentrant=False); "
        "return checkpoint(model[2:], hidden, use_reentrant=False).sum(), model"
    ),
    "checkpoint_with_named_output": (
        "model = perceptron_model(); hidden = checkpoint(model[:4], torch.randn(16, 32), use_reentrant=False); "
        "return model[4](hidden).sum(), (model, hidden)"
    ),
    "reentrant_checkpoint": (
        "model, x = perceptron_model(), leaf(16, 32); return checkpoint(model, x, use_reentrant=True).sum(), (model, x)"
    ),
    "vmapped": "x, w = leaf(4, 100), leaf(100); return torch.vmap(lambda row: (row * w).sin().sum())(x).sum(), (x, w)",
    "vector_jacobian_product": (
        "x = leaf(100); _, product = torch.func.vjp(lambda tensor: tensor.sin().exp(), x); "
        "return product(torch.ones(100))[0].sum(), x"
    ),
    "double_backward": (
        "x = leaf(1000); (gradient,) = torch.autograd.grad(x.sin().pow(3).sum(), x, create_graph=True); "
        "return gradient.pow(2).sum(), x"
    ),
    "sum_of_four_losses": (
        "model = perceptron_model(); "
        "return sum(model(torch.randn(16, 32)).logsumexp(1).mean() for _ in range(4)), model"
    ),
    "attention": (
        "query, key, value = (leaf(2, 4, 8, 16) for _ in range(3)); "
        "return functional.scaled_dot_product_attention(query, key, value).sum(), (query, key, value)"
    ),
    "embedding": "model = nn.Embedding(100, 16); return model(torch.randint(0, 100, (8, 5))).pow(2).sum(), model",
    "views": "x = leaf(64, 64); y = x.exp(); return (y[0] * y[:, 1]).sum(), x",
    "view_of_a_base_that_is_gone": "x = leaf(64, 64); return (x.exp().t()[3] * 2).sin().sum(), x",
    "written_into_a_slice": "x = leaf(10, 100); y = x.clone(); y[0] = x[1].exp(); return y.sin().sum(), x",
    "multiplied_in_a_slice": "x = leaf(10, 100); y = x.clone(); y[0].mul_(x[1]); return y.sin().sum(), x",
    "concatenated_and_stacked": (
        "x = leaf(100); return (torch.cat([x.exp(), x.sin()]) * torch.stack([x, x * 2]).flatten()).prod(), x"
    ),
    "indexed": "x = leaf(100, 10); return x[torch.arange(0, 100, 3)].pow(2).sum(), x",
    "sparse_matrix": (
        "matrix, w = torch.eye(50).to_sparse(), leaf(50, 20); return torch.sparse.mm(matrix, w).pow(2).sum(), w"
    ),
    "unbound": "x = leaf(4, 100); first, second, third, _ = x.exp().unbind(); return (first * second + third).sum(), x",
    "complex_numbers": "x = leaf(100, dtype=torch.complex64); return torch.fft.fft(x).abs().sum(), x",
}
for name, body in SHORT.items():
    exec(f"def {name}(): {body}", globals(), GRAPHS)
