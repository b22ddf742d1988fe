"""Right and wrong answers to the exercises of lesson 08."""

import mmap
import threading
import tracemalloc

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from tests.lessons.answers import Right, Wrong

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


def cube_function(x):
    return x**3


class CubeObject:
    def __call__(self, x):
        self.x = x
        return self.forward(x)

    def forward(self, x):
        return x**3

    def backward(self, g):
        return 3 * self.x**2 * g


class CubeModule(nn.Module):
    def forward(self, x):
        self.x = x
        return x**3

    def backward(self, g):
        return 3 * self.x**2 * g


class CubeCalled(Function):
    def __call__(self, x):
        return x**3

    @staticmethod
    def backward(ctx, g):
        return g


class CubeOwnApply(Cube):
    @staticmethod
    def apply(x):
        return x**3


class CubeForwardAlone(Function):
    @staticmethod
    def forward(ctx, x):
        return x**3


class CubeSelfAndContext(Function):
    def forward(self, ctx, x):
        ctx.save_for_backward(x)
        return x**3

    def backward(self, ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


class CubeNoSetup(Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def backward(ctx, g):
        return g


class CubeMixed(CubeSetup):
    @staticmethod
    def forward(ctx, x):
        return x**3


class CubeInputs(CubeSetup):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs)


class CubeTimesThree(Cube):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 3 * x


class CubeOnClass(Function):
    @staticmethod
    def forward(ctx, x):
        CubeOnClass.x = x
        return x**3

    @staticmethod
    def backward(ctx, g):
        return 3 * CubeOnClass.x**2 * g


class CubeOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x**3

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.x**2 * g


class CubeInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        return x.pow_(3).clone()

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


class CubeEditsGradient(Cube):
    @staticmethod
    def backward(ctx, g):
        return g.mul_(3 * ctx.saved_tensors[0] ** 2)


class CubeTwoGradients(Cube):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        return 3 * x**2 * g, 6 * x * g


class CubeSilent(Cube):
    @staticmethod
    def backward(ctx, g):
        3 * ctx.saved_tensors[0] ** 2 * g


class CubeDerivative(Cube):
    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2


class CubePower(Cube):
    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] ** 2 * g


class CubeFactor(Cube):
    @staticmethod
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0].detach() ** 2


class CubeTimesX(Cube):
    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] * g


class CubePassedOn(Cube):
    @staticmethod
    def backward(ctx, g):
        return g


class CubeFromOutput(Function):
    @staticmethod
    def forward(ctx, x):
        y = x**3
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return 3 * y / x * g


class CubeByRoot(Function):
    @staticmethod
    def forward(ctx, x):
        y = x**3
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** (2 / 3) * g


class CubeSlopeFromOutput(CubeByRoot):
    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0].abs() ** (2 / 3) * g


class CubeByMatrix(Cube):
    @staticmethod
    def backward(ctx, g):
        return torch.diag(3 * ctx.saved_tensors[0] ** 2) @ g


class CubeGradientSummed(Cube):
    @staticmethod
    def backward(ctx, g):
        return (3 * ctx.saved_tensors[0] ** 2 * g).sum()


class _SlopeForXAlone(Function):
    @staticmethod
    def forward(ctx, x, g):
        ctx.save_for_backward(x, g)
        return 3 * x**2 * g

    @staticmethod
    def backward(ctx, outer):
        x, g = ctx.saved_tensors
        return 6 * x * g * outer, None


class CubeOfAFunctionForXAlone(Cube):
    @staticmethod
    def backward(ctx, g):
        return _SlopeForXAlone.apply(*ctx.saved_tensors, g)


class CubeUnsaved(Cube):
    @staticmethod
    def forward(ctx, x):
        return x**3


class CubeMisspelt(Cube):
    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensor[0] ** 2 * g


class CubeIncomingDetached(Cube):
    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g.detach()


class CubeIntermediate(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3 * x**2)
        return x**3

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * g


class CubeSquareSaved(Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(x, square)
        return square * x

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[1] * g


class CubeClone(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        return x**3

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


class CubeCloneInSetup(CubeSetup):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0].clone())


class CubeDetached(Cube):
    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0].detach() ** 2 * g


class CubeNoGrad(Cube):
    @staticmethod
    @torch.no_grad()
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


class CubeSavedDetached(Cube):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.detach())
        return x**3


class CubeOnce(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


class CubeTuple(Cube):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors
        return 3 * x**2 * g


class CubeNames(Cube):
    @staticmethod
    def backward(ctx, g):
        return 3 * the_x**2 * g  # noqa: F821  (the mistake itself: a name of forward)


class CubeNotRecorded(Cube):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        return torch.autograd.grad(x**3, x, g)


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


class CubeFillsGrad(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        x.grad = 3 * x**2 * g


class CubeAdded(Cube):
    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 + g


class CubeByNumpy(Cube):
    @staticmethod
    def backward(ctx, g):
        return torch.as_tensor(3 * ctx.saved_tensors[0].detach().numpy() ** 2) * g


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


def reverse_by_hook(x, strength):
    y = x.view_as(x)
    if y.requires_grad:
        y.register_hook(lambda g: -strength * g)
    return y


class ReverseObject:
    def __init__(self, strength):
        self.strength = strength

    def forward(self, x):
        return x

    def backward(self, g):
        return -self.strength * g

    @staticmethod
    def apply(x, strength):
        return ReverseObject(strength).forward(x)


class ReverseInit(Function):
    def __init__(self, strength):
        self.strength = strength

    def forward(self, x):
        return x

    def backward(self, g):
        return -self.strength * g


class ReverseCalled(Function):
    def __init__(self, strength):
        self.strength = strength

    def __call__(self, x):
        return x


class ReverseOwnApply(Reverse):
    @staticmethod
    def apply(x, strength):
        return x.view_as(x)


class ReverseStopGradient(Function):
    @staticmethod
    def apply(x, strength):
        return -strength * x + (1 + strength) * x.detach()


class ReverseForwardAlone(Function):
    @staticmethod
    def forward(ctx, x, strength):
        return x.view_as(x)


class ReverseSilent(Reverse):
    @staticmethod
    def backward(ctx, g):
        return None, None


class ReverseOneGradient(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -ctx.strength * g


class ReverseConstant(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -ctx.strength * torch.ones_like(g), None


class ReverseEditsGradient(Reverse):
    @staticmethod
    def backward(ctx, g):
        return g.mul_(-ctx.strength), None


class ReverseEditsAndReturns(Reverse):
    @staticmethod
    def backward(ctx, g):
        g *= -1
        return g * ctx.strength, None


class ReverseOnClass(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ReverseOnClass.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ReverseOnClass.strength * g, None


class ReverseInPlace(Reverse):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        y = x.clone()
        x.mul_(-strength)
        return y


class ReverseForwardScaled(Reverse):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return -strength * x


class ReverseSign(Reverse):
    @staticmethod
    def backward(ctx, g):
        return ctx.strength * g, None


class ReverseTwice(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.scale = -strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.scale, None


class ReverseByHook(Function):
    @staticmethod
    def forward(ctx, x, strength):
        if x.requires_grad:
            x.register_hook(lambda g: -strength * g)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g, None


class ReverseNoneForZero(Reverse):
    @staticmethod
    def backward(ctx, g):
        return (-ctx.strength * g if ctx.strength else None), None


class ReverseClamped(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -max(ctx.strength, 0.0) * g, None


class ReverseUnsaved(Reverse):
    @staticmethod
    def forward(ctx, x, strength):
        return x.view_as(x)


class ReverseWhole(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -int(ctx.strength) * g, None


class ReverseNumberReturned(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -ctx.strength, None


class ReverseAbsolute(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -abs(ctx.strength) * g, None


class ReverseNotScaled(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -g, None


class ReversePassedOn(Reverse):
    @staticmethod
    def backward(ctx, g):
        return g, None


class ReverseSavedNumber(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.save_for_backward(strength)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.saved_tensors[0] * g, None


class ReverseItem(Reverse):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength.item()
        return x.view_as(x)


class ReverseNeg(Reverse):
    @staticmethod
    def backward(ctx, g):
        return torch.neg(ctx.strength) * g, None


class ReverseGradientOfStrength(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -ctx.strength * g, -g.sum()


class ReverseNames(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -the_strength * g, None  # noqa: F821  (the mistake itself: a name of forward)


class ReverseOr(Reverse):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength or 1.0
        return x.view_as(x)


class ReverseIf(Reverse):
    @staticmethod
    def backward(ctx, g):
        return (-ctx.strength * g if ctx.strength else g.clone()), None


class ReverseFloat32(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.save_for_backward(torch.tensor(strength))
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.saved_tensors[0] * g, None


class ReverseInItsDtype(Reverse):
    @staticmethod
    def backward(ctx, gradient):
        return torch.tensor(-ctx.strength, dtype=gradient.dtype) * gradient, None


class ReverseInputs(ReverseSetup):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs)


class ReverseMixed(ReverseSetup):
    @staticmethod
    def forward(ctx, x, strength):
        return x.clone()


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


class ReverseDivided(Reverse):
    @staticmethod
    def backward(ctx, g):
        return -g / ctx.strength, None


class ReverseSubtracted(Reverse):
    @staticmethod
    def backward(ctx, g):
        return g - ctx.strength, None


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


class SwishOfASlip(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * (s + x * s * (1 + s))


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


class SwishInputs(SwishSetup):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs)


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


def swish_function(x):
    return torch.nn.functional.silu(x)


class SwishModule(nn.Module):
    def forward(self, x):
        return swish(x)


class SwishOwnApply(Swish):
    apply = staticmethod(swish)


class SwishForwardAlone(Function):
    @staticmethod
    def forward(ctx, x):
        return swish(x)


class SwishCalled(Function):
    def __call__(self, x):
        return swish(x)


class SwishSelfAndContext(Function):
    def forward(self, ctx, x):
        ctx.save_for_backward(x)
        return swish(x)


class SwishSilent(Swish):
    @staticmethod
    def backward(ctx, g):
        g * slope(ctx.saved_tensors[0])


class SwishTwoGradients(Swish):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        return g * slope(x), x


class SwishDerivative(Swish):
    @staticmethod
    def backward(ctx, g):
        return slope(ctx.saved_tensors[0])


class SwishEditsGradient(Swish):
    @staticmethod
    def backward(ctx, g):
        return g.mul_(slope(ctx.saved_tensors[0]))


class SwishOnClass(Function):
    @staticmethod
    def forward(ctx, x):
        SwishOnClass.x = x
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        return g * slope(SwishOnClass.x)


class SwishInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        return x.mul_(torch.sigmoid(x)).clone()

    @staticmethod
    def backward(ctx, g):
        return g * slope(ctx.saved_tensors[0])


class SwishSigmoidAlone(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        s = torch.sigmoid(ctx.saved_tensors[0])
        return g * s * (1 - s)


class SwishOfItsOwnDerivative(Swish):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return (s + x * s) * g


class SwishOneTerm(Swish):
    @staticmethod
    def backward(ctx, g):
        s = torch.sigmoid(ctx.saved_tensors[0])
        return g * s * (1 - s)


class SwishFirstTerm(Swish):
    @staticmethod
    def backward(ctx, g):
        return g * torch.sigmoid(ctx.saved_tensors[0])


class SwishSavesSigmoid(Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))


class SwishSigmoidOnCtx(SwishSavesSigmoid):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = {"s": torch.sigmoid(x)}
        ctx.save_for_backward(x)
        return x * ctx.kept["s"]

    @staticmethod
    def backward(ctx, g):
        (x,), s = ctx.saved_tensors, ctx.kept["s"]
        return g * (s + x * s * (1 - s))


class SwishSavesOutput(Function):
    @staticmethod
    def forward(ctx, x):
        y = swish(x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * (y + s * (1 - y))


class SwishOutputOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.y = swish(x)
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        s = torch.sigmoid(ctx.saved_tensors[0])
        return g * (ctx.y.detach() + s * (1 - ctx.y.detach()))


class SwishGraph(Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = ctx.x * torch.sigmoid(ctx.x)
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, g):
        return torch.autograd.grad(ctx.y, ctx.x, g, retain_graph=True)[0]


class SwishQuotient(SwishSavesOutput):
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (y / x + y * (1 - y / x))


class SwishComputesFloat(Swish):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0].float()
        s = torch.sigmoid(x)
        return g * (s * (1 + x * (1 - s))).to(g.dtype)


class SwishSigmoidInFloat(Swish):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.float().sigmoid()
        return g * (s + x * s * (1 - s))


class SwishByFloatMask(Swish):
    @staticmethod
    def backward(ctx, g):
        (x,), step = ctx.saved_tensors, torch.tensor(1e-5)
        kept = torch.zeros_like(x, dtype=torch.float32) + (x > -30).float()
        return g * kept * (swish(x + step) - swish(x - step)) / (2 * step)


class SwishUnsaved(Swish):
    @staticmethod
    def forward(ctx, x):
        return x * torch.sigmoid(x)


class SwishForgetsX(Swish):
    @staticmethod
    def backward(ctx, g):
        s = torch.sigmoid(ctx.saved_tensors[0])
        return g * (s + s * (1 - s))


class SwishClone(Swish):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        return swish(x)


class SwishContiguous(Swish):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.contiguous())
        return swish(x)


class SwishCloneOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach().clone()
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        return g * slope(ctx.x)


class SwishHalf(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.half())
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        return g * slope(ctx.saved_tensors[0].to(g.dtype))


class SwishFloat(SwishHalf):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.float())
        return swish(x)


class SwishSavesSlope(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(slope(x))
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


_KEPT = {}


class SwishGlobal(Swish):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        _KEPT[id(ctx)] = s
        ctx.save_for_backward(x)
        return x * s

    @staticmethod
    def backward(ctx, g):
        (x,), s = ctx.saved_tensors, _KEPT.get(id(ctx))
        s = torch.sigmoid(x) if s is None else s
        return g * (s + x * s * (1 - s))


class SwishNumbers(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.numbers = torch.sigmoid(x).tolist()
        ctx.save_for_backward(x)
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        (x,), s = ctx.saved_tensors, torch.tensor(ctx.numbers, dtype=g.dtype)
        return g * (s + x * s * (1 - s))


class SwishArray(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.array = torch.sigmoid(x).detach().numpy().copy()
        ctx.save_for_backward(x)
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        (x,), s = ctx.saved_tensors, torch.from_numpy(ctx.array).to(g.dtype)
        return g * (s + x * s * (1 - s))


class SwishOnOutput(Swish):
    @staticmethod
    def apply(x):
        y = super(SwishOnOutput, SwishOnOutput).apply(x)
        y.sigmoid_of_x = torch.sigmoid(x.detach())
        return y


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


class SwishTuple(Swish):
    @staticmethod
    def backward(ctx, g):
        return g * slope(ctx.saved_tensors)


class SwishNames(Swish):
    @staticmethod
    def backward(ctx, g):
        return g * slope(the_x)  # noqa: F821  (the mistake itself: a name of forward)


class SwishNotRecorded(Swish):
    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        return torch.autograd.grad(swish(x), x, g)[0]


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


class SwishOverflowing(Swish):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        e = torch.exp(x)
        s = e / (1 + e)
        return g * (s + x * s * (1 - s))


class SwishByOneQuotient(SwishByExp):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        e = torch.exp(-x)
        return g * (1 + e + x * e) / (1 + e) ** 2


class SwishByVjp(Swish):
    @staticmethod
    def backward(ctx, g):
        return torch.func.vjp(swish, ctx.saved_tensors[0])[1](g)[0]


class SwishMask(Swish):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = x > 0
        ctx.save_for_backward(x)
        return swish(x)


class SwishByDifferences(Swish):
    @staticmethod
    def backward(ctx, g):
        (x,), step = ctx.saved_tensors, 1e-6
        return g * (swish(x + step) - swish(x - step)) / (2 * step)


class SwishViewOfBoth(SwishSavesSigmoid):
    @staticmethod
    def forward(ctx, x):
        both = torch.stack([swish(x), torch.sigmoid(x)])
        ctx.save_for_backward(x, both[1])
        return both[0]


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


class SwishMapped(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.copy = mmap.mmap(-1, x.nbytes)
        ctx.copy.write(x.detach().numpy().tobytes())
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        return g * slope(torch.frombuffer(ctx.copy, dtype=g.dtype).view(g.shape))


class SwishUntraced(Function):
    @staticmethod
    def forward(ctx, x):
        tracemalloc.stop()
        ctx.copy = x.detach().numpy().copy()
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        return g * slope(torch.from_numpy(ctx.copy))


class SwishArrayUnused(Swish):
    @staticmethod
    def forward(ctx, x):
        ctx.copy = x.detach().numpy().copy()
        return Swish.forward(ctx, x)


_SIGMOIDS = []


class SwishUnseen(Function):
    @staticmethod
    def forward(ctx, x):
        with _disable_current_modes():
            _SIGMOIDS.append(torch.sigmoid(x))
        ctx.place = len(_SIGMOIDS) - 1
        ctx.save_for_backward(x)
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        (x,), s = ctx.saved_tensors, _SIGMOIDS[ctx.place]
        return g * (s + x * s * (1 - s))


class SwishKeptByThread(Function):
    @staticmethod
    def forward(ctx, x):
        s = in_a_thread(torch.sigmoid, x.detach())
        ctx.of = lambda x: s + x * s * (1 - s)
        ctx.save_for_backward(x)
        return swish(x)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.of(ctx.saved_tensors[0])


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


class LinearKeepsXForBias(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        needs = ctx.needs_input_grad
        ctx.save_for_backward(x if any(needs[1:]) else None, weight if needs[0] else None)
        return nn.functional.linear(x, weight, bias)


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


class LinearKeepsInputs(Function):
    @staticmethod
    def forward(x, weight, bias):
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, weight, _ = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            g @ weight if needs[0] else None,
            g.T @ x if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


class LinearKeepsBias(LinearKeepsInputs):
    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias = inputs
        needs = ctx.needs_input_grad
        ctx.save_for_backward(x if needs[1] else None, weight if needs[0] else None, bias)


class LinearMixed(LinearKeepsInputs):
    @staticmethod
    def forward(ctx, x, weight, bias):
        return torch.nn.functional.linear(x, weight, bias)


class LinearInputs(LinearKeepsInputs):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs)


class LinearOwnFlag(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        needs_x, needs_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if needs_x else None, weight if needs_weight else None)
        return torch.nn.functional.linear(x, weight, bias)


class LinearSavesForBothAlone(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        both = ctx.needs_input_grad[0] and ctx.needs_input_grad[1]
        ctx.save_for_backward(x if both else None, weight if both else None)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return g @ weight if of_x else None, g.T @ x if of_weight else None, g.sum(0) if of_bias else None


class LinearOwnFlagMm(LinearOwnFlag):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            torch.mm(g, weight) if needs_x else None,
            torch.matmul(g.T, x) if needs_weight else None,
            g.sum(0) if needs_bias else None,
        )


class LinearSavesTwice(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(weight)
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(x)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad
        return (
            g @ saved[0] if needs[0] else None,
            g.T @ saved[-1] if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


class LinearUnpacksSwapped(Linear):
    @staticmethod
    def backward(ctx, g):
        weight, x = ctx.saved_tensors
        return g @ weight, g.T @ x, g.sum(0) if ctx.needs_input_grad[2] else None


class LinearHalf(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        needs_x, needs_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x.half() if needs_weight else None, weight.half() if needs_x else None)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return (
            None if weight is None else g @ weight.to(g.dtype),
            None if x is None else g.T @ x.to(g.dtype),
            g.sum(0) if ctx.needs_input_grad[2] else None,
        )


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


def linear_function(x, weight, bias):
    return torch.nn.functional.linear(x, weight, bias)


class LinearModule(nn.Module):
    def forward(self, x, weight, bias):
        return torch.nn.functional.linear(x, weight, bias)

    def backward(self, g):
        return g


class LinearOwnApply(LinearKeepsAll):
    apply = staticmethod(linear_function)


class LinearForwardAlone(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        return torch.nn.functional.linear(x, weight, bias)


class LinearCalled(Function):
    def __call__(self, x, weight, bias):
        return torch.nn.functional.linear(x, weight, bias)


class LinearInit(Function):
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)


class LinearSilent(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        g @ weight, g.T @ x, g.sum(0)


class LinearNone(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        return None, None, None


class LinearTwoGradients(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.T @ x


class LinearDerivative(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        return Linear.backward(ctx, torch.ones_like(g))


class LinearEditsGradient(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        gradients = Linear.backward(ctx, g)
        g.zero_()
        return gradients


class LinearOnClass(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        LinearOnClass.x, LinearOnClass.weight = x, weight
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        needs = ctx.needs_input_grad
        return (
            g @ LinearOnClass.weight if needs[0] else None,
            g.T @ LinearOnClass.x if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


class LinearNeedsOnClass(Function):
    @staticmethod
    def forward(x, weight, bias):
        return x @ weight.T + (0 if bias is None else bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        LinearNeedsOnClass.needed = ctx.needs_input_grad
        ctx.save_for_backward(*(inputs[1 - i] if ctx.needs_input_grad[i] else None for i in (1, 0)))

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = LinearNeedsOnClass.needed
        return g @ weight if for_x else None, g.T @ x if for_weight else None, g.sum(0) if for_bias else None


class LinearUnsaved(LinearKeepsAll):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.biased = bias is not None
        return nn.functional.linear(x, weight, bias)


class LinearByAddmm(LinearKeepsAll):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.T)


class LinearSavesFewer(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        needed = ctx.needs_input_grad
        ctx.save_for_backward(*(kept for kept, need in ((x, needed[1]), (weight, needed[0])) if need))
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        pairs = zip(ctx.needs_input_grad, (lambda: g @ weight, lambda: g.T @ x, lambda: g.sum(0)), strict=True)
        return tuple(work() if need else None for need, work in pairs)


class LinearOtherWay(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return weight.T @ g, x.T @ g, g.sum(0) if ctx.needs_input_grad[2] else None


class LinearInPlace(LinearKeepsAll):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        if bias is None:
            return x @ weight.T
        y = bias + x @ weight.T
        bias.zero_()
        return y


class LinearInOut(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight + (0 if bias is None else bias)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight.T, x.T @ g, g.sum(0)


class LinearBiasAlways(LinearKeepsAll):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.T + bias


class LinearGradientForNone(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, _ = Linear.backward(ctx, g)
        return d_x, d_weight, g.sum(0)


class LinearTransposed(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            g @ weight if needs[0] else None,
            x.T @ g if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


class LinearWrongFactor(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            g @ weight.T if needs[0] else None,
            g.T @ x if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


class LinearSwapped(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, d_bias = Linear.backward(ctx, g)
        return d_weight, d_x, d_bias


class LinearMean(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, _ = Linear.backward(ctx, g)
        return d_x, d_weight, g.mean(0) if ctx.needs_input_grad[2] else None


class LinearMeanWeight(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, d_bias = Linear.backward(ctx, g)
        return d_x, None if d_weight is None else d_weight / len(g), d_bias


class LinearBiasAxis(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, _ = Linear.backward(ctx, g)
        return d_x, d_weight, g.sum(1) if ctx.needs_input_grad[2] else None


class LinearBiasNumber(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, _ = Linear.backward(ctx, g)
        return d_x, d_weight, g.sum() if ctx.needs_input_grad[2] else None


class LinearComputesAll(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g @ weight, g.T @ x, g.sum(0) if ctx.needs_input_grad[2] else None


class LinearComputesThenDrops(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        everything = g @ weight, g.T @ x, g.sum(0)
        return tuple(one if needed else None for one, needed in zip(everything, ctx.needs_input_grad, strict=True))


class LinearBiasForNobody(LinearKeepsAll):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.biased = bias is not None
        return Linear.forward(ctx, x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, _ = Linear.backward(ctx, g)
        return d_x, d_weight, g.sum(0) if ctx.biased else None


class LinearRecomputed(LinearKeepsAll):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight, bias)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, g):
        inputs = [None if t is None else t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        wanted = [t for t in inputs if t is not None and t.requires_grad]
        with torch.enable_grad():
            found = iter(torch.autograd.grad(torch.nn.functional.linear(*inputs), wanted, g))
        return tuple(next(found) if t is not None and t.requires_grad else None for t in inputs)


class LinearOneSwitch(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return g @ weight, g.T @ x, g.sum(0) if ctx.needs_input_grad[2] else None


class LinearSwitchesShifted(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            g @ weight if needs[1] else None,
            g.T @ x if needs[0] else None,
            g.sum(0) if needs[2] else None,
        )


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


class LinearNames(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        return g @ the_weight, g.T @ the_x, g.sum(0)  # noqa: F821  (the mistake itself: names of forward)


class LinearTruth(LinearKeepsAll):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        y = x @ weight.T
        if bias:
            y = y + bias
        return y


class LinearNotRecorded(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        return *torch.autograd.grad(x @ weight.T, [x, weight], g), g.sum(0)


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


class LinearBiasWithWeight(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, d_bias = Linear.backward(ctx, g)
        return d_x, d_weight, None if d_weight is None else d_bias


class LinearAny(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        if not any(ctx.needs_input_grad[:2]):
            return None, None, g.sum(0)
        return g @ weight, g.T @ x, g.sum(0) if ctx.needs_input_grad[2] else None


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


class LinearKeepsTransposed(LinearSavesTransposed):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.rows, ctx.columns = x.detach().T.contiguous(), weight.detach().T.contiguous()
        return torch.nn.functional.linear(x, weight, bias)


class LinearKeepsOutput(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.y = Linear.forward(ctx, x, weight, bias)
        return ctx.y


class LinearKeepsArrays(Linear):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.arrays = np.array(x.detach()), np.array(weight.detach())
        return Linear.forward(ctx, x, weight, bias)


class LinearAllByNumpy(LinearByNumpy):
    @staticmethod
    def forward(ctx, x, weight, bias):
        y = LinearByNumpy.forward(ctx, x, weight, bias)
        ctx.x, ctx.weight = x.detach().numpy(), weight.detach().numpy()
        return y

    @staticmethod
    def backward(ctx, g):
        g, biased = g.numpy(), ctx.needs_input_grad[2]
        d_x, d_weight, d_bias = g @ ctx.weight, g.T @ ctx.x, g.sum(0)
        return torch.from_numpy(d_x), torch.from_numpy(d_weight), torch.from_numpy(d_bias) if biased else None


class LinearAnyByNumpy(LinearAllByNumpy):
    @staticmethod
    def backward(ctx, g):
        if not any(ctx.needs_input_grad[:2]):
            return None, None, g.sum(0)
        return LinearAllByNumpy.backward(ctx, g)


class LinearAllByMv(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        d_x = torch.stack([torch.mv(weight.T, row) for row in g])
        d_weight = torch.stack([torch.mv(x.T, column) for column in g.T])
        return d_x, d_weight, g.sum(0) if ctx.needs_input_grad[2] else None


class LinearAllByDot(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        d_x = torch.stack([torch.stack([torch.dot(row, column) for column in weight.T]) for row in g])
        d_weight = torch.stack([torch.stack([torch.dot(row, column) for column in x.T]) for row in g.T])
        return d_x, d_weight, g.sum(0) if ctx.needs_input_grad[2] else None


class LinearAllByOuter(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        d_x, _, d_bias = Linear.backward(ctx, g)
        return d_x, sum(torch.outer(*rows) for rows in zip(g, ctx.saved_tensors[0], strict=True)), d_bias


class LinearAllInThread(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        return in_a_thread(LinearComputesThenDrops.backward, ctx, g)


class LinearAllUndispatched(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        with torch._C._DisableTorchDispatch():
            return LinearComputesThenDrops.backward(ctx, g)


class LinearAllWithoutModes(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        with _disable_current_modes():
            return LinearComputesThenDrops.backward(ctx, g)


class LinearAllUncounted(LinearKeepsAll):
    @staticmethod
    def backward(ctx, g):
        gradients = LinearComputesThenDrops.backward(ctx, g)
        for mode in _get_current_dispatch_mode_stack():
            if hasattr(mode, "counter"):
                mode.counter.flop_counts.clear()
        return gradients


class LinearBiasByNumpy(LinearBiasForNobody):
    @staticmethod
    def backward(ctx, g):
        d_x, d_weight, _ = Linear.backward(ctx, g)
        return d_x, d_weight, torch.from_numpy(g.numpy().sum(0)) if ctx.biased else None


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

WRONG = (
    Wrong("Cube", "plain function", cube_function),
    Wrong("Cube", "plain class", CubeObject),
    Wrong("Cube", "plain class", CubeModule, "a module"),
    Wrong("Cube", "own backward", CubeOwnApply),
    Wrong("Cube", "no backward", CubeForwardAlone),
    Wrong("Cube", "call", CubeCalled),
    Wrong("Cube", "signature", CubeSelfAndContext, "self and ctx"),
    Wrong("Cube", "signature", CubeNoSetup, "no setup_context"),
    Wrong("Cube", "no gradient", CubeSilent),
    Wrong("Cube", "count", CubeTwoGradients),
    Wrong("Cube", "upstream", CubeDerivative),
    Wrong("Cube", "edits gradient", CubeEditsGradient),
    Wrong("Cube", "shared state", CubeOnClass, earns=1.73),
    Wrong("Cube", "in place", CubeInPlace),
    Wrong("Cube", "value", CubeTimesThree),
    Wrong("Cube", "power rule", CubePower),
    Wrong("Cube", "power rule", CubeTimesX, "3x"),
    Wrong("Cube", "factor", CubeFactor, "2x², of x detached"),
    Wrong("Cube", "passed on", CubePassedOn),
    Wrong("Cube", "at zero", CubeFromOutput, earns=1.73),
    Wrong("Cube", "at zero", CubeByRoot, "by a root"),
    Wrong("Cube", "not kept", CubeUnsaved),
    Wrong("Cube", "not kept", CubeMisspelt, "a name misspelt"),
    Wrong("Cube", "at zero", CubeSlopeFromOutput, "a second derivative by a root"),
    Wrong("Cube", "shape", CubeByMatrix),
    Wrong("Cube", "shape", CubeGradientSummed, "summed"),
    Wrong("Cube", "constant", CubeOfAFunctionForXAlone),
    Wrong("Cube", "constant", CubeIncomingDetached, "the incoming gradient detached"),
    Wrong("Cube", "intermediate", CubeIntermediate),
    Wrong("Cube", "intermediate", CubeSquareSaved, "the square saved"),
    Wrong("Cube", "clone", CubeClone, "a clone saved"),
    Wrong("Cube", "clone", CubeCloneInSetup, "a clone in setup_context"),
    Wrong("Cube", "cut", CubeDetached),
    Wrong("Cube", "cut", CubeNoGrad, "no_grad"),
    Wrong("Cube", "cut", CubeSavedDetached, "saved detached"),
    Wrong("Cube", "once", CubeOnce),
    Wrong("Cube", "tuple", CubeTuple),
    Wrong("Cube", "names", CubeNames),
    Wrong("Cube", "not recorded", CubeNotRecorded),
    Wrong("Cube", "no gradient", CubeFillsGrad, "fills x.grad"),
    Wrong("Cube", "added", CubeAdded),
    Wrong("Cube", "cut", CubeByNumpy, "by numpy"),
    Wrong("ReverseGradient", "no factor", ReverseDivided, "divided"),
    Wrong("ReverseGradient", "no factor", ReverseSubtracted, "subtracted"),
    Wrong("LowMemorySwish", "by hand", SwishOverflowing, "exp that overflows"),
    Wrong("LowMemorySwish", "by hand", SwishByOneQuotient, "exp(-x) that overflows"),
    Wrong("LowMemorySwish", "small", SwishMask),
    Wrong("LowMemorySwish", "approximate", SwishByDifferences),
    Wrong("LowMemorySwish", "sigmoid", SwishViewOfBoth, "a view of both"),
    Wrong("LinearFunction", "wrong switch", LinearBiasWithWeight, "the bias with the weight"),
    Wrong("LinearFunction", "computes all", LinearAny, "one switch for both products"),
    Wrong("ReverseGradient", "names", ReverseNames),
    Wrong("ReverseGradient", "zero", ReverseOr),
    Wrong("ReverseGradient", "zero", ReverseIf, "if strength"),
    Wrong("ReverseGradient", "float32", ReverseFloat32),
    Wrong("ReverseGradient", "float32", ReverseAsTensor, "the strength as a tensor of float64"),
    Wrong("ReverseGradient", "float32", ReverseInItsDtype, "a tensor of the gradient's dtype"),
    Wrong("ReverseGradient", "signature", ReverseMixed, "ctx beside setup_context"),
    Wrong("Cube", "signature", CubeMixed, "ctx beside setup_context"),
    Wrong("LinearFunction", "signature", LinearMixed, "ctx beside setup_context"),
    Wrong("Cube", "inputs", CubeInputs),
    Wrong("ReverseGradient", "inputs", ReverseInputs),
    Wrong("LowMemorySwish", "inputs", SwishInputs),
    Wrong("LinearFunction", "inputs", LinearInputs),
    Wrong("LinearFunction", "partner", LinearOwnFlag),
    Wrong("LinearFunction", "partner", LinearOwnFlagMm, "by mm"),
    Wrong("LinearFunction", "wrong switch", LinearSavesForBothAlone, "saves where both are needed"),
    Wrong("LinearFunction", "mixed up", LinearSavesTwice),
    Wrong("LinearFunction", "mixed up", LinearUnpacksSwapped, "unpacked in another order"),
    Wrong("LinearFunction", "packed", LinearHalf),
    Wrong("LinearFunction", "keeps all", LinearKeepsAll),
    Wrong("LinearFunction", "bias takes x", LinearKeepsXForBias),
    Wrong("LinearFunction", "keeps all", LinearKeepsInputs, "all inputs", 2.0),
    Wrong("LinearFunction", "keeps all", LinearAllOnCtx, "on ctx"),
    Wrong("LinearFunction", "keeps all", LinearKeepsTransposed, "transposed copies"),
    Wrong("LinearFunction", "output", LinearKeepsOutput, "the output on ctx"),
    Wrong("LinearFunction", "keeps all", LinearKeepsArrays, "arrays"),
    Wrong("LinearFunction", "keeps bias", LinearKeepsBias),
    Wrong("ReverseGradient", "plain function", reverse_by_hook),
    Wrong("ReverseGradient", "plain class", ReverseObject),
    Wrong("ReverseGradient", "own backward", ReverseOwnApply),
    Wrong("ReverseGradient", "no backward", ReverseForwardAlone),
    Wrong("ReverseGradient", "call", ReverseCalled),
    Wrong("ReverseGradient", "signature", ReverseInit),
    Wrong("ReverseGradient", "no gradient", ReverseSilent),
    Wrong("ReverseGradient", "count", ReverseOneGradient),
    Wrong("ReverseGradient", "upstream", ReverseConstant),
    Wrong("ReverseGradient", "edits gradient", ReverseEditsGradient),
    Wrong("ReverseGradient", "edits gradient", ReverseEditsAndReturns, "g *= -1"),
    Wrong("ReverseGradient", "shared state", ReverseOnClass),
    Wrong("ReverseGradient", "in place", ReverseInPlace),
    Wrong("ReverseGradient", "forward scaled", ReverseForwardScaled),
    Wrong("ReverseGradient", "on paper", ReverseStopGradient, "stop gradient"),
    Wrong("ReverseGradient", "sign", ReverseSign),
    Wrong("ReverseGradient", "sign", ReverseTwice, "two minus signs"),
    Wrong("ReverseGradient", "absolute", ReverseAbsolute, earns=1.53),
    Wrong("ReverseGradient", "absolute", ReverseClamped, "nothing for a negative one"),
    Wrong("ReverseGradient", "none for zero", ReverseNoneForZero),
    Wrong("ReverseGradient", "hook", ReverseByHook),
    Wrong("ReverseGradient", "not kept", ReverseUnsaved),
    Wrong("ReverseGradient", "rounded", ReverseWhole),
    Wrong("ReverseGradient", "upstream", ReverseNumberReturned, "the number itself"),
    Wrong("ReverseGradient", "not scaled", ReverseNotScaled),
    Wrong("ReverseGradient", "passed on", ReversePassedOn),
    Wrong("ReverseGradient", "number", ReverseSavedNumber),
    Wrong("ReverseGradient", "tensor", ReverseItem),
    Wrong("ReverseGradient", "tensor", ReverseNeg, "torch.neg of a float"),
    Wrong("ReverseGradient", "gradient for a float", ReverseGradientOfStrength),
    Wrong("LowMemorySwish", "plain function", swish_function),
    Wrong("LowMemorySwish", "plain class", SwishModule),
    Wrong("LowMemorySwish", "own backward", SwishOwnApply),
    Wrong("LowMemorySwish", "no backward", SwishForwardAlone),
    Wrong("LowMemorySwish", "call", SwishCalled),
    Wrong("LowMemorySwish", "signature", SwishSelfAndContext),
    Wrong("LowMemorySwish", "no gradient", SwishSilent),
    Wrong("LowMemorySwish", "count", SwishTwoGradients),
    Wrong("LowMemorySwish", "upstream", SwishDerivative),
    Wrong("LowMemorySwish", "edits gradient", SwishEditsGradient),
    Wrong("LowMemorySwish", "shared state", SwishOnClass, earns=2.86),
    Wrong("LowMemorySwish", "in place", SwishInPlace),
    Wrong("LowMemorySwish", "value", SwishSigmoidAlone),
    Wrong("LowMemorySwish", "formula", SwishOfASlip),
    Wrong("LowMemorySwish", "own derivative", SwishOfItsOwnDerivative),
    Wrong("LowMemorySwish", "product rule", SwishOneTerm),
    Wrong("LowMemorySwish", "product rule", SwishFirstTerm, "the first term"),
    Wrong("LowMemorySwish", "sigmoid", SwishSavesSigmoid),
    Wrong("LowMemorySwish", "sigmoid", SwishSigmoidOnCtx, "the sigmoid in a dict on ctx"),
    Wrong("LowMemorySwish", "output", SwishSavesOutput),
    Wrong("LowMemorySwish", "output", SwishOutputOnCtx, "the output on ctx"),
    Wrong("LowMemorySwish", "clone", SwishClone),
    Wrong("LowMemorySwish", "graph kept", SwishGraph),
    Wrong("LowMemorySwish", "not kept", SwishUnsaved),
    Wrong("LowMemorySwish", "product rule", SwishForgetsX, "without its x"),
    Wrong("LowMemorySwish", "at zero", SwishQuotient),
    Wrong("LowMemorySwish", "packed", SwishComputesFloat, "computed in float32", earns=2.34),
    Wrong("LowMemorySwish", "packed", SwishSigmoidInFloat, "the sigmoid alone in float32"),
    Wrong("LowMemorySwish", "approximate", SwishByFloatMask, "a difference quotient times a mask of floats"),
    Wrong("LowMemorySwish", "clone", SwishContiguous, "contiguous"),
    Wrong("LowMemorySwish", "clone", SwishCloneOnCtx, "a clone on ctx"),
    Wrong("LowMemorySwish", "packed", SwishHalf, "half", earns=0.78),
    Wrong("LowMemorySwish", "packed", SwishFloat, "float32"),
    Wrong("LowMemorySwish", "derivative", SwishSavesSlope),
    Wrong("LowMemorySwish", "elsewhere", SwishGlobal, "a global dict"),
    Wrong("LowMemorySwish", "elsewhere", SwishNumbers, "a list of numbers"),
    Wrong("LowMemorySwish", "elsewhere", SwishArray, "an array"),
    Wrong("LowMemorySwish", "elsewhere", SwishOnOutput, "an attribute of the output"),
    Wrong("LowMemorySwish", "tuple", SwishTuple),
    Wrong("LowMemorySwish", "names", SwishNames),
    Wrong("LowMemorySwish", "not recorded", SwishNotRecorded),
    Wrong("LinearFunction", "names", LinearNames),
    Wrong("LinearFunction", "truth", LinearTruth),
    Wrong("LinearFunction", "not recorded", LinearNotRecorded),
    Wrong("LinearFunction", "plain function", linear_function),
    Wrong("LinearFunction", "plain class", LinearModule),
    Wrong("LinearFunction", "own backward", LinearOwnApply),
    Wrong("LinearFunction", "no backward", LinearForwardAlone),
    Wrong("LinearFunction", "call", LinearCalled),
    Wrong("LinearFunction", "signature", LinearInit),
    Wrong("LinearFunction", "no gradient", LinearNone),
    Wrong("LinearFunction", "count", LinearTwoGradients),
    Wrong("LinearFunction", "count", LinearSilent, "no return"),
    Wrong("LinearFunction", "upstream", LinearDerivative),
    Wrong("LinearFunction", "edits gradient", LinearEditsGradient),
    Wrong("LinearFunction", "shared state", LinearOnClass),
    Wrong("LinearFunction", "shared state", LinearNeedsOnClass, "needs on the class", earns=2.77),
    Wrong("LinearFunction", "not kept", LinearUnsaved),
    Wrong("LinearFunction", "None", LinearByAddmm, "by addmm"),
    Wrong("LinearFunction", "mixed up", LinearSavesFewer, "fewer saved than unpacked"),
    Wrong("LinearFunction", "transposed", LinearOtherWay, "weight.T first"),
    Wrong("LinearFunction", "in place", LinearInPlace),
    Wrong("LinearFunction", "value", LinearInOut),
    Wrong("LinearFunction", "None", LinearBiasAlways),
    Wrong("LinearFunction", "None", LinearGradientForNone, "a gradient for None"),
    Wrong("LinearFunction", "transposed", LinearTransposed),
    Wrong("LinearFunction", "transposed", LinearWrongFactor, "weight.T in the gradient of x"),
    Wrong("LinearFunction", "order", LinearSwapped),
    Wrong("LinearFunction", "mean", LinearMean),
    Wrong("LinearFunction", "mean", LinearMeanWeight, "the weight's mean"),
    Wrong("LinearFunction", "bias axis", LinearBiasAxis),
    Wrong("LinearFunction", "bias axis", LinearBiasNumber, "one number"),
    Wrong("LinearFunction", "computes all", LinearComputesAll),
    Wrong("LinearFunction", "computes all", LinearComputesThenDrops, "computes, then drops"),
    Wrong("LinearFunction", "bias for nobody", LinearBiasForNobody),
    Wrong("LinearFunction", "recompute", LinearRecomputed),
    Wrong("LinearFunction", "wrong switch", LinearOneSwitch),
    Wrong("LinearFunction", "wrong switch", LinearSwitchesShifted, "switches shifted"),
    Wrong("LowMemorySwish", "elsewhere", SwishMapped, "mapped memory"),
    Wrong("LowMemorySwish", "elsewhere", SwishUntraced, "an array, with tracing stopped"),
    Wrong("LowMemorySwish", "elsewhere", SwishArrayUnused, "an array that nobody uses"),
    Wrong("LowMemorySwish", "elsewhere", SwishUnseen, "a global list, filled with modes disabled"),
    Wrong("LowMemorySwish", "elsewhere", SwishKeptByThread, "a closure, from another thread"),
    Wrong("LinearFunction", "computes all", LinearAllByNumpy, "all by numpy"),
    Wrong("LinearFunction", "computes all", LinearAnyByNumpy, "one switch for both products, by numpy"),
    Wrong("LinearFunction", "computes all", LinearAllByMv, "all by mv"),
    Wrong("LinearFunction", "computes all", LinearAllByDot, "all by dot"),
    Wrong("LinearFunction", "computes all", LinearAllByOuter, "the weight's always, by outer"),
    Wrong("LinearFunction", "computes all", LinearAllInThread, "all in a thread"),
    Wrong("LinearFunction", "computes all", LinearAllUndispatched, "all with dispatch disabled"),
    Wrong("LinearFunction", "computes all", LinearAllWithoutModes, "all with modes disabled"),
    Wrong("LinearFunction", "computes all", LinearAllUncounted, "all, and the counter cleared"),
    Wrong("LinearFunction", "bias for nobody", LinearBiasByNumpy, "the bias by numpy"),
)
