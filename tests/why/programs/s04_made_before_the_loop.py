# second_backward/made_outside_loop
import torch

weight = torch.randn(3, requires_grad=True)
scale = weight.exp()  # made
opt = torch.optim.SGD([weight], lr=0.1)
for step in range(3):
    x = torch.randn(3)
    loss = (scale * x).sum()
    opt.zero_grad()
    loss.backward()  # needed freed
    opt.step()
