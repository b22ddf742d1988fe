"""A hidden state goes through an epoch of training uncut, with retain_graph; evaluation follows."""

import torch
from torch import nn

rnn, head = nn.GRUCell(8, 32), nn.Linear(32, 4)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.001)


def train():
    hidden = torch.zeros(16, 32)
    for _ in range(20):
        hidden = rnn(torch.randn(16, 8), hidden)  # line
        loss = head(hidden).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
    return loss.item()


@torch.no_grad()
def evaluate():
    hidden = torch.zeros(16, 32)
    for _ in range(15):
        hidden = rnn(torch.randn(16, 8), hidden)


for _ in range(2):
    train()
    evaluate()
# says: `hidden = rnn\(torch.randn\(16, 8\), hidden\)` \(\S+:LINE\) keeps the graph of every call
# says: given back when `train` returned
# says: hidden = hidden.detach\(\)
# verdict: growing
