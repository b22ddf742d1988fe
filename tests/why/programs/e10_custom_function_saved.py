# modified_in_place/inplace_operation
# code: y = y.add\(1.0\)
import torch


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * result


x = torch.randn(3, requires_grad=True)
y = Exp.apply(x)
y.add_(1.0)  # edited
y.sum().backward()  # needed
