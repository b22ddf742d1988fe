# does_not_require_grad/cut_history
# code: grad\(f\(x\), x, create_graph=True\)
import torch


def newton(f, x, steps=3):
    for _ in range(steps):
        (g,) = torch.autograd.grad(f(x), x)  # cut
        (h,) = torch.autograd.grad(g, x)  # needed
        x = x - g / h
    return x


x = torch.tensor(2.0, requires_grad=True)
print(newton(lambda t: t**4, x))
