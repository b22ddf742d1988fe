# plain tensors, no nn.Module
import torch

w1 = torch.randn(20, 50, requires_grad=True)
w2 = torch.randn(50, 1, requires_grad=True)
lr = 1e-3
total_loss = 0.0
for _epoch in range(80):
    x = torch.randn(64, 20)  # makes
    y = x.sum(1, keepdim=True)
    pred = torch.relu(x @ w1) @ w2  # makes
    loss = ((pred - y) ** 2).mean()
    g1, g2 = torch.autograd.grad(loss, (w1, w2), retain_graph=True)
    with torch.no_grad():
        w1 -= lr * g1
        w2 -= lr * g2
    total_loss = total_loss + loss  # keeps: total_loss
print(f"{total_loss.item() / 80:.1f}")
