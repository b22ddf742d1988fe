# modified_in_place/indexed_assignment
# cure: torch.stack
import torch


def unroll(w, steps):
    out = torch.zeros(steps, 3)
    out[0] = w
    for i in range(1, steps):
        out[i] = out[i - 1] * torch.sigmoid(w)  # edited
    return out


w = torch.ones(3, requires_grad=True)
loss = unroll(w, 4).sum()
loss.backward()  # needed
