# second_backward/kept_state
import torch
from torch import nn

lstm = nn.LSTM(2, 4, batch_first=True)
linear = nn.Linear(4, 1)
optimizer = torch.optim.Adam(list(lstm.parameters()) + list(linear.parameters()))


def train_epoch(batches):
    h = torch.zeros(1, 3, 4)
    c = torch.zeros(1, 3, 4)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        out, (h, c) = lstm(x, (h, c))  # made
        loss = ((linear(out[:, -1]) - y) ** 2).mean()
        loss.backward()  # needed freed
        losses.append(loss.item())
    return sum(losses)


train_epoch([(torch.randn(3, 5, 2), torch.randn(3, 1)) for _ in range(3)])
