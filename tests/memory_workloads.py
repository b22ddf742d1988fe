"""Small programs whose memory is known from two sides: what a tracker says and what an allocator says.

Each is a function of the device that returns a ``Workload``. ``run(phase)`` does the work inside ``phase`` blocks and
returns what must stay alive until the tracker's block ends.
"""

import contextlib
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@dataclass
class Workload:
    known: tuple
    run: Callable[[Callable], Any]


def mlp_model(device: str) -> nn.Sequential:
    sizes = (256, 512, 512, 512)
    layers = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(512, 10)).to(device)


def mlp_data(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(64, 256).to(device), torch.randint(0, 10, (64,)).to(device)


def mlp_steps(device: str) -> Workload:
    model, (x, y) = mlp_model(device), mlp_data(device)
    # foreach=False: the CPU's and CUDA's defaults differ, and this is to be compared between them.
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)

    def run(phase: Callable) -> Any:
        for step in range(2):
            with phase(f"forward {step}"):
                loss = F.cross_entropy(model(x), y) * 1.0
            with phase(f"backward {step}"):
                loss.backward()
            with phase(f"step {step}"):
                optimizer.step()
            with phase(f"zero {step}"):
                optimizer.zero_grad(set_to_none=step == 1)
        return loss

    return Workload((model, optimizer, x, y), run)


class GatedConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 1)
        self.gate, self.head = nn.Linear(8, 2), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem(x))
        gate = self.gate(x.mean((2, 3))).softmax(-1)
        left, right = F.relu(self.left(x)).mean((2, 3)), torch.tanh(self.right(x)).mean((2, 3))
        return self.head(gate[:, :1] * left + gate[:, 1:] * right)


def gated_conv(device: str) -> Workload:
    model, x, y = GatedConv().to(device), torch.randn(8, 3, 64, 64).to(device), torch.arange(8).to(device)

    def run(phase: Callable) -> Any:
        with phase("forward"):
            loss = F.cross_entropy(model(x), y) * 1.0
        with phase("backward"):
            loss.backward()
        return loss

    return Workload((model, x, y), run)


def _without_graph(make_model: Callable, x: torch.Tensor, mode: Callable) -> Workload:
    model = make_model()

    def run(phase: Callable) -> Any:
        with phase("forward"), mode():
            return model(x)

    return Workload((model, x), run)


def _quiet(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Calls a function whose warnings are known and beside the point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def _checkpointed(device: str, use_reentrant: bool) -> Workload:
    model, (x, y) = mlp_model(device), mlp_data(device)
    blocks = [model[0:2], model[2:4], model[4:6]]

    def run(phase: Callable) -> Any:
        with phase("forward"):
            hidden = x
            for block in blocks:
                hidden = _quiet(checkpoint, block, hidden, use_reentrant=use_reentrant)  # no input requires grad
            loss = F.cross_entropy(model[6](hidden), y) * 1.0
            del hidden
        with phase("backward"):
            loss.backward()
        return loss

    return Workload((model, x, y), run)


def micro_batches(device: str) -> Workload:
    model, (x, y) = mlp_model(device), mlp_data(device)

    def run(phase: Callable) -> Any:
        for number in range(4):
            with phase(f"forward {number}"):
                loss = F.cross_entropy(model(x), y) * 0.25
            with phase(f"backward {number}"):
                loss.backward()
        return loss

    return Workload((model, x, y), run)


def _losses(device: str, keep: Callable) -> Workload:
    model, (x, y) = mlp_model(device), mlp_data(device)

    def run(phase: Callable) -> Any:
        kept = []
        for number in range(4):
            with phase(f"forward {number}"):
                loss = F.cross_entropy(model(x), y) * 1.0
                kept.append(keep(loss))
        return kept, loss

    return Workload((model, x, y), run)


def hooked_features(device: str) -> Workload:
    model, x = mlp_model(device), mlp_data(device)[0]

    def run(phase: Callable) -> Any:
        features = {}
        handle = model[1].register_forward_hook(lambda module, args, out: features.update(kept=out.detach()))
        with contextlib.closing(contextlib.ExitStack()) as stack:
            stack.callback(handle.remove)
            for number in range(3):
                with phase(f"forward {number}"):
                    model(x)
        return features

    return Workload((model, x), run)


def vmap_ensemble(device: str) -> Workload:
    models, (x, y) = [mlp_model(device) for _ in range(4)], mlp_data(device)
    base = mlp_model("meta")
    params, _ = torch.func.stack_module_state(models)
    del models

    def member(params: dict, x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(base, params, (x,))

    def run(phase: Callable) -> Any:
        with phase("forward"):
            logits = torch.func.vmap(member, (0, None))(params, x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.repeat(4)) * 1.0
            del logits
        with phase("backward"):
            loss.backward()
        return loss

    return Workload((params, x, y), run)


def dropout(device: str) -> Workload:
    """``native_dropout`` keeps the same mask on every device; ``F.dropout`` does not."""
    model, (x, y) = mlp_model(device), mlp_data(device)

    def run(phase: Callable) -> Any:
        with phase("forward"):
            hidden, _ = torch.native_dropout(model[:2](x), 0.5, True)
            loss = F.cross_entropy(model[2:](hidden), y) * 1.0
            del hidden, _
        with phase("backward"):
            loss.backward()
        return loss

    return Workload((model, x, y), run)


SECTION_4 = {
    "mlp_steps": mlp_steps,
    "gated_conv": gated_conv,
    "mlp_no_grad": lambda device: _without_graph(lambda: mlp_model(device), mlp_data(device)[0], torch.no_grad),
    "mlp_inference_mode": lambda device: _without_graph(
        lambda: mlp_model(device), mlp_data(device)[0], torch.inference_mode
    ),
    "conv_no_grad": lambda device: _without_graph(
        lambda: GatedConv().to(device), torch.randn(8, 3, 64, 64).to(device), torch.no_grad
    ),
    "checkpointed": lambda device: _checkpointed(device, use_reentrant=False),
    "checkpointed_reentrant": lambda device: _checkpointed(device, use_reentrant=True),
    "micro_batches": micro_batches,
    "loss_list": lambda device: _losses(device, lambda loss: loss),
    "loss_list_items": lambda device: _losses(device, lambda loss: loss.item()),
    "hooked_features": hooked_features,
    "vmap_ensemble": vmap_ensemble,
    "dropout": dropout,
}


# One phase each: what the ways of making, keeping and changing tensors do to the bytes alive.
def _simple(work: Callable[[], Any], *known: Any) -> Workload:
    def run(phase: Callable) -> Any:
        with phase("all"):
            return _quiet(work)

    return Workload(known, run)


def _train(optimizer_class: Callable, **options: Any) -> Callable[[str], Workload]:
    def make(device: str) -> Workload:
        model, x = nn.Linear(32, 16).to(device), torch.randn(4, 32).to(device)
        optimizer = optimizer_class(model.parameters(), lr=0.1, **options)

        def work() -> None:
            for _ in range(2):
                optimizer.zero_grad()
                model(x).square().sum().backward()
                optimizer.step()

        return _simple(work, model, optimizer, x)

    return make


def _module(make_module: Callable[[], nn.Module], *shape: int) -> Callable[[str], Workload]:
    def make(device: str) -> Workload:
        layer, x = make_module().to(device), torch.randn(*shape).to(device).requires_grad_()

        def work() -> Any:
            out = layer(x)
            out = out[0] if isinstance(out, tuple) else out
            loss = out.sum()
            del out
            loss.backward(retain_graph=True)
            return loss

        return _simple(work, layer, x)

    return make


def _function(work: Callable[[torch.Tensor], Any], *shape: int) -> Callable[[str], Workload]:
    def make(device: str) -> Workload:
        x = torch.randn(*shape).to(device).requires_grad_()
        return _simple(lambda: work(x), x)

    return make


def _resize(x: torch.Tensor) -> Any:
    kept = torch.empty(10)
    kept.resize_(1000)
    shrunk = torch.empty(1000).resize_(10)
    return kept, shrunk


def _out(x: torch.Tensor) -> Any:
    kept = torch.empty(0)
    torch.add(x.detach(), 1, out=kept)
    pair = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.sort(x.detach().flatten(), out=pair)
    return kept, pair


def _set(x: torch.Tensor) -> Any:
    kept = torch.empty(100)
    kept.set_(torch.empty(500))
    copy = torch.empty(0)
    copy.set_(x.detach().untyped_storage()[:])
    return kept, copy


def _storage_resize(x: torch.Tensor) -> Any:
    kept = torch.ones(1000)
    kept.untyped_storage().resize_(0)
    other = torch.ones(10)
    other.untyped_storage().resize_(4000)
    return kept, other


def _sparse(x: torch.Tensor) -> Any:
    indices = torch.tensor([[0, 1, 1], [2, 0, 2]])
    first = torch.sparse_coo_tensor(indices, torch.ones(3), (2, 3))
    second = (first + first).coalesce()
    return first, second, second.to_dense().to_sparse_csr()


def _quantized(x: torch.Tensor) -> Any:
    packed = torch.quantize_per_tensor(x.detach(), 0.1, 0, torch.qint8)
    return packed, packed.dequantize()


def _literals(x: torch.Tensor) -> Any:
    return torch.tensor([1.0, 2.0]), torch.tensor(3), torch.as_tensor([1, 2, 3]), torch.Tensor([1.0]), torch.eye(4)


def _copies(x: torch.Tensor) -> Any:
    import copy
    import pickle

    plain = torch.ones(50)
    return (
        copy.deepcopy(x),
        copy.deepcopy(plain),
        copy.deepcopy(nn.BatchNorm1d(8)),
        pickle.loads(pickle.dumps(plain)),
    )


def _views(x: torch.Tensor) -> Any:
    base = torch.ones(100, 10)
    row = base[3]
    del base
    return row, x.detach().T, x.unbind(0)


def _foreach(x: torch.Tensor) -> Any:
    parts = list(x.detach().unbind(0))
    return torch._foreach_mul(parts, 2.0), torch._foreach_norm(parts)


def _random_state(x: torch.Tensor) -> Any:
    return F.dropout(x, 0.5), torch.randperm(100), torch.bernoulli(x.detach().sigmoid())


def _double_backward(x: torch.Tensor) -> Any:
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.square().sum().backward()
    return None


def _custom_function(x: torch.Tensor) -> Any:
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            out = x.exp()
            ctx.kept = out.detach() * 2
            return out

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * ctx.kept / 2

    loss = Exp.apply(x).sum()
    loss.backward()
    return loss


def _autocast(x: torch.Tensor) -> Any:
    layer = nn.Linear(x.shape[1], 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (layer(x) + layer(x)).float().sum()
    loss.backward()
    return loss, layer


def _jagged(x: torch.Tensor) -> Any:
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)
    return nested, nested * 2


def _functional(transform: Callable) -> Callable[[torch.Tensor], Any]:
    return lambda x: transform(lambda v: (v**3).sin().sum())(x.detach())


def _embedding(device: str) -> Workload:
    layer = nn.Embedding(20, 8).to(device)
    return _simple(lambda: layer(torch.arange(10, device=device)).sum().backward(), layer)


MORE = {
    "resize_": _function(_resize, 4, 8),
    "out=": _function(_out, 4, 8),
    "set_": _function(_set, 4, 8),
    "storage.resize_": _function(_storage_resize, 1),
    "sparse": _function(_sparse, 1),
    "quantized": _function(_quantized, 4, 8),
    "literals": _function(_literals, 1),
    "copies": _function(_copies, 4, 8),
    "views": _function(_views, 4, 8),
    "foreach": _function(_foreach, 4, 8),
    "random": _function(_random_state, 4, 8),
    "double backward": _function(_double_backward, 100),
    "custom Function": _function(_custom_function, 100),
    "autocast": _function(_autocast, 4, 8),
    "jagged nested": _function(_jagged, 1),
    "func.grad": _function(_functional(torch.func.grad), 10),
    "vmap of grad": _function(lambda x: torch.func.vmap(torch.func.grad(lambda v: v.sin().sum()))(x.detach()), 5, 10),
    "jacrev": _function(lambda x: torch.func.jacrev(torch.sin)(x.detach()), 10),
    "jacfwd": _function(lambda x: torch.func.jacfwd(torch.sin)(x.detach()), 10),
    "hessian": _function(_functional(torch.func.hessian), 10),
    "jvp": _function(lambda x: torch.func.jvp(torch.sin, (x.detach(),), (x.detach(),)), 10),
    "SGD loop": _train(torch.optim.SGD, momentum=0.9, foreach=False),
    "SGD foreach": _train(torch.optim.SGD, momentum=0.9, foreach=True),
    "AdamW loop": _train(torch.optim.AdamW, foreach=False),
    "AdamW foreach": _train(torch.optim.AdamW, foreach=True),
    "AdamW fused": _train(torch.optim.AdamW, fused=True),
    "transformer layer": _module(lambda: nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), 2, 6, 32),
    "LayerNorm": _module(lambda: nn.LayerNorm(32), 4, 32),
    "BatchNorm": _module(lambda: nn.BatchNorm2d(4), 2, 4, 8, 8),
    "LSTM": _module(lambda: nn.LSTM(8, 16, 2), 5, 3, 8),
    "GRU": _module(lambda: nn.GRU(8, 16), 5, 3, 8),
    "conv channels_last": _module(lambda: nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last), 2, 4, 8, 8),
    "embedding": _embedding,
}
