"""Right and wrong answers to the exercises of lesson 08."""

import threading

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.lessons.answers import Right

# ---------------------------------------------------------------------------------------------------------------- Cube


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class CubeSetup(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        return (g * 3) * x.square()


class CubeWithoutDecorators(Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x.pow(3)

    def backward(self, g):
        return torch.square(self.saved_tensors[0]).mul(g).mul(3)


class _Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


class CubeOfFunctions(Cube):
    @staticmethod
    def backward(ctx, g):
        return 3 * g * _Square.apply(ctx.saved_tensors[0])


class CubeRecomputed(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = x * x * x
            return torch.autograd.grad(y, x, g, create_graph=True)[0]


class CubeVjp(Cube):
    @staticmethod
    def vjp(ctx, g):
        return g * ctx.saved_tensors[0] ** 2 * 3

    backward = Function.backward


class CubeNoMaterialize(Cube):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        if g is None:
            return None
        return 3 * ctx.saved_tensors[0] ** 2 * g


class CubeVersionByHand(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.version = x, x._version
        return x**3

    @staticmethod
    def backward(ctx, g):
        if ctx.x._version != ctx.version:
            raise RuntimeError("x was edited")
        return 3 * ctx.x**2 * g


class CubeOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x**3

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.x**2 * g


class _Power(Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x**n

    @staticmethod
    def backward(ctx, g):
        return g * ctx.n * ctx.saved_tensors[0] ** (ctx.n - 1), None


class CubeAsPower(_Power):
    @classmethod
    def apply(cls, x):
        return super().apply(x, 3)


class CubeByAbs(CubeSetup):
    @staticmethod
    def backward(ctx, g):
        size = ctx.saved_tensors[0].abs()
        return 3 * size * size * g


# ----------------------------------------------------------------------------------------------------- ReverseGradient


class Reverse(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.strength * g, None


class ReverseSetup(Function):
    @staticmethod
    def forward(x, strength):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.strength = inputs

    @staticmethod
    def backward(ctx, g):
        return g.neg().mul_(ctx.strength), None


class ReverseAsItIs(Reverse):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x


class ReverseOnce(Reverse):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return torch.mul(g, -ctx.strength), None, None


class ReverseAsTensor(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.save_for_backward(torch.as_tensor(-strength, dtype=torch.float64))
        return x.detach()

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * g, None


class ReverseOfItem(ReverseAsTensor):
    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0].item() * g, None


class ReverseSelf(Function):
    def forward(self, x, strength):
        self.factor = -strength
        return x * 1

    def backward(self, gradient):
        return gradient * self.factor, None


class ReverseByClosure(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.turn = lambda g: g.mul(-strength)
        return x + 0

    @staticmethod
    def backward(ctx, g):
        return ctx.turn(g), None


class ReverseCloned(Reverse):
    @staticmethod
    def backward(ctx, g):
        return g.clone().mul_(-ctx.strength), None


# ------------------------------------------------------------------------------------------------------ LowMemorySwish


def swish(x):
    return x * torch.sigmoid(x)


def slope(x):
    s = torch.sigmoid(x)
    return s * (1 + x * (1 - s))


class Swish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * slope(x)


class SwishSetup(Function):
    @staticmethod
    def forward(x):
        return torch.nn.functional.silu(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return torch.ops.aten.silu_backward(g, ctx.saved_tensors[0])


class SwishRecomputed(Swish):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(swish(x), x, g)


class SwishOnce(Swish):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        s = x.sigmoid()
        return x.mul(1 - s).add_(1).mul_(s).mul_(g)


class SwishByTanh(Function):
    def forward(self, x):
        self.save_for_backward(x.detach())
        return 0.5 * x * (1 + torch.tanh(x / 2))

    def backward(self, g):
        (x,) = self.saved_tensors
        t = torch.tanh(x / 2)
        return g * (0.5 * (1 + t) + 0.25 * x * (1 - t * t))


class SwishOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        return g * slope(ctx.x)


class SwishData(Swish):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.data)
        return swish(x)


class SwishByExp(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / (1 + torch.exp(-x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = 1 / (1 + torch.exp(-x))
        return g * s * (1 + x - x * s)


class SwishByVjp(Swish):
    @staticmethod
    def backward(ctx, g):
        return torch.func.vjp(swish, ctx.saved_tensors[0])[1](g)[0]


class SwishByNumpy(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach().numpy()
        return torch.from_numpy(np.asarray(ctx.x / (1 + np.exp(-ctx.x))))

    @staticmethod
    def backward(ctx, g):
        s = 1 / (1 + np.exp(-ctx.x))
        return g * torch.from_numpy(np.asarray(s + ctx.x * s * (1 - s)))


def in_a_thread(function, *args):
    found = []
    thread = threading.Thread(target=lambda: found.append(function(*args)))
    thread.start()
    thread.join()
    return found[0]


class SwishInThread(Swish):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return in_a_thread(swish, x.detach())


class SwishOutOf(Swish):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x, out=torch.empty_like(x))
        print(x.dtype, s.shape)
        return torch.addcmul(s, x * s, 1 - s).mul_(g)


# ------------------------------------------------------------------------------------------------------ LinearFunction


class LinearKeepsAll(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            g @ weight if needs_x else None,
            g.T @ x if needs_weight else None,
            g.sum(0) if needs_bias else None,
        )


class Linear(LinearKeepsAll):
    @staticmethod
    def forward(ctx, x, weight, bias):
        needs_x, needs_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if needs_weight else None, weight if needs_x else None)
        return torch.nn.functional.linear(x, weight, bias)


class LinearSetup(Function):
    @staticmethod
    def forward(x, weight, bias):
        y = x @ weight.t()
        return y if bias is None else y + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        pairs = zip(inputs, ctx.needs_input_grad[1::-1], strict=False)
        ctx.save_for_backward(*[tensor if needed else None for tensor, needed in pairs])

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        gradients = [None, None, None]
        if ctx.needs_input_grad[0]:
            gradients[0] = g.mm(weight)
        if ctx.needs_input_grad[1]:
            gradients[1] = torch.einsum("bo,bi->oi", g, x)
        if ctx.needs_input_grad[2]:
            gradients[2] = torch.ones(1, len(g), dtype=g.dtype).mm(g).squeeze(0)
        return tuple(gradients)


class LinearFlags(Function):
    """The inputs' own flags say what is needed; autograd sums what it can broadcast."""

    def forward(self, x, weight, bias):
        self.save_for_backward(x if weight.requires_grad else None, weight if x.requires_grad else None)
        y = torch.mm(x, weight.T)
        if bias is not None:
            y += bias
        self.biased = bias is not None
        return y

    def backward(self, g):
        x, weight = self.saved_tensors
        d_x = None if weight is None else torch.matmul(g, weight)
        d_weight = None if x is None else (x.T @ g).T
        return d_x, d_weight, g if self.biased else None


class LinearByBroadcast(Linear):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        d_x = (g.unsqueeze(2) * weight).sum(1) if ctx.needs_input_grad[0] else None
        d_weight = (g.unsqueeze(2) * x.unsqueeze(1)).sum(0) if ctx.needs_input_grad[1] else None
        return d_x, d_weight, g.sum(dim=0) if ctx.needs_input_grad[2] else None


class LinearSavesTheNeeded(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x if weight.requires_grad else None, weight if x.requires_grad else None)
        return torch.addmm(bias, x, weight.t()) if bias is not None else x.matmul(weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    @once_differentiable
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        d_bias = g.sum(0) if ctx.needs_input_grad[2] else None
        return None if weight is None else g @ weight, None if x is None else g.t() @ x, d_bias


class LinearAllOnCtx(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.x, ctx.weight = x, weight
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        needs = ctx.needs_input_grad
        return (
            g @ ctx.weight if needs[0] else None,
            g.T @ ctx.x if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


class LinearOnCtx(LinearAllOnCtx):
    @staticmethod
    def forward(ctx, x, weight, bias):
        if ctx.needs_input_grad[0]:
            ctx.weight = weight
        if ctx.needs_input_grad[1]:
            ctx.x = x
        return torch.nn.functional.linear(x, weight, bias)


class LinearByLinear(Linear):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            torch.nn.functional.linear(g, weight.t()) if needs[0] else None,
            torch.nn.functional.linear(g.t(), x.t()) if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


class LinearByTensordot(Function):
    @staticmethod
    def forward(x, weight, bias):
        y = torch.tensordot(x, weight, dims=([1], [1]))
        return y if bias is None else y.add(bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.needs = ctx.needs_input_grad
        ctx.save_for_backward(x if ctx.needs[1] else None, weight if ctx.needs[0] else None)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        for_x = None if weight is None else torch.tensordot(g, weight, dims=1)
        for_weight = None if x is None else torch.tensordot(g, x, dims=([0], [0]))
        return for_x, for_weight, torch.einsum("bo->o", g) if ctx.needs[2] else None


class LinearByNumpy(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.x, ctx.weight = x.detach().numpy(), weight.detach().numpy()
        y = ctx.x @ ctx.weight.T
        if not ctx.needs_input_grad[1]:
            ctx.x = None
        if not ctx.needs_input_grad[0]:
            ctx.weight = None
        return torch.from_numpy(y if bias is None else y + bias.detach().numpy())

    @staticmethod
    def backward(ctx, g):
        needs, g = ctx.needs_input_grad, g.numpy()
        return (
            torch.from_numpy(g @ ctx.weight) if needs[0] else None,
            torch.from_numpy(np.einsum("bo,bi->oi", g, ctx.x)) if needs[1] else None,
            torch.from_numpy(g.sum(0)) if needs[2] else None,
        )


class LinearOfCopies(Linear):
    """Copies, prints and looks through what it has, and computes with what it needs."""

    @staticmethod
    def backward(ctx, g):
        x, weight = (None if t is None else torch.from_numpy(np.array(t.detach())) for t in ctx.saved_tensors)
        assert all(torch.isfinite(t).all() for t in (x, weight, g) if t is not None)
        print(x, weight, g)
        g, needs = g.clone(), ctx.needs_input_grad
        return (
            (g * 1.0) @ weight if needs[0] else None,
            (2 * g).T @ x / 2 if needs[1] else None,
            (g * torch.ones_like(g)).sum(0) if needs[2] else None,
        )


class LinearRowByRow(Linear):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            torch.stack([torch.mv(weight.T, row) for row in g]) if needs[0] else None,
            torch.stack([torch.mv(x.T, column) for column in g.T]) if needs[1] else None,
            torch.mv(g.T, torch.ones(len(g), dtype=g.dtype)) if needs[2] else None,
        )


class LinearColumnByColumn(Linear):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = torch.stack([(g * column).sum(1) for column in weight.T], dim=1)
        if ctx.needs_input_grad[1]:
            d_weight = torch.stack([(g * column.unsqueeze(1)).sum(0) for column in x.T], dim=1)
        if ctx.needs_input_grad[2]:
            d_bias = sum(row for row in g)
        return d_x, d_weight, d_bias


class LinearOutOf(Linear):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = torch.mm(g, weight, out=g.new_empty(len(g), weight.shape[1]))
        if ctx.needs_input_grad[1]:
            d_weight = g.new_zeros(g.shape[1], x.shape[1]).addmm_(g.T, x)
        if ctx.needs_input_grad[2]:
            d_bias = g.cumsum(0)[-1]
        return d_x, d_weight, d_bias


class LinearInThread(Linear):
    @staticmethod
    def backward(ctx, g):
        return in_a_thread(Linear.backward, ctx, g)


class LinearSavesTransposed(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        needs_x, needs_weight, _ = ctx.needs_input_grad
        ctx.rows = x.detach().T.contiguous() if needs_weight else None
        ctx.columns = weight.detach().T.contiguous() if needs_x else None
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        needs = ctx.needs_input_grad
        return (
            g @ ctx.columns.T if needs[0] else None,
            (ctx.rows @ g).T if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


RIGHT = (
    Right("Cube", "forward(ctx, x)", Cube),
    Right("Cube", "setup_context", CubeSetup),
    Right("Cube", "without decorators", CubeWithoutDecorators),
    Right("Cube", "with another Function", CubeOfFunctions),
    Right("Cube", "recomputed", CubeRecomputed),
    Right("Cube", "vjp", CubeVjp),
    Right("Cube", "gradients not materialized", CubeNoMaterialize),
    Right("Cube", "version checked by hand", CubeVersionByHand),
    Right("Cube", "as a power", CubeAsPower),
    Right("Cube", "by the absolute value", CubeByAbs),
    Right("ReverseGradient", "by a closure", ReverseByClosure),
    Right("ReverseGradient", "in place on a clone", ReverseCloned),
    Right("LowMemorySwish", "by exp", SwishByExp),
    Right("LowMemorySwish", "by vjp", SwishByVjp),
    Right("LinearFunction", "by linear", LinearByLinear),
    Right("LinearFunction", "by tensordot", LinearByTensordot),
    Right("ReverseGradient", "forward(ctx, ...)", Reverse),
    Right("ReverseGradient", "setup_context", ReverseSetup),
    Right("ReverseGradient", "x as it is", ReverseAsItIs),
    Right("ReverseGradient", "once differentiable", ReverseOnce),
    Right("ReverseGradient", "the strength as a tensor, and its item", ReverseOfItem),
    Right("ReverseGradient", "without decorators", ReverseSelf),
    Right("LowMemorySwish", "forward(ctx, x)", Swish),
    Right("LowMemorySwish", "setup_context", SwishSetup),
    Right("LowMemorySwish", "recomputed", SwishRecomputed),
    Right("LowMemorySwish", "once differentiable, in place", SwishOnce),
    Right("LowMemorySwish", "by tanh", SwishByTanh),
    Right("LinearFunction", "forward(ctx, ...)", Linear),
    Right("LinearFunction", "setup_context", LinearSetup),
    Right("LinearFunction", "flags of the inputs", LinearFlags),
    Right("LinearFunction", "by broadcasting", LinearByBroadcast),
    Right("LinearFunction", "saves the needed", LinearSavesTheNeeded),
    Right("Cube", "on ctx", CubeOnCtx),
    Right("LowMemorySwish", "on ctx", SwishOnCtx),
    Right("LowMemorySwish", ".data", SwishData),
    Right("LinearFunction", "on ctx", LinearOnCtx),
    Right("LowMemorySwish", "by numpy", SwishByNumpy),
    Right("LowMemorySwish", "in a thread", SwishInThread),
    Right("LowMemorySwish", "out=", SwishOutOf),
    Right("LinearFunction", "by numpy", LinearByNumpy),
    Right("LinearFunction", "of copies, printed", LinearOfCopies),
    Right("LinearFunction", "row by row", LinearRowByRow),
    Right("LinearFunction", "column by column", LinearColumnByColumn),
    Right("LinearFunction", "out= and addmm", LinearOutOf),
    Right("LinearFunction", "in a thread", LinearInThread),
    Right("LinearFunction", "saves transposed copies", LinearSavesTransposed),
)
