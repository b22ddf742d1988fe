"""No leak: backpropagation through time, cut off between chunks, in training and in evaluation."""

import torch
from torch import nn


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(20, 8), nn.LSTM(8, 16), nn.Linear(16, 20)

    def forward(self, x, state):
        y, state = self.rnn(self.embed(x), state)
        return self.out(y), state


model = Language()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for training in (True, False):
        state = (torch.zeros(1, 4, 16), torch.zeros(1, 4, 16))
        with torch.set_grad_enabled(training):
            for _ in range(25):
                state = tuple(part.detach() for part in state)
                x = torch.randint(0, 20, (10, 4))
                out, state = model(x, state)
                loss = nn.functional.cross_entropy(out.flatten(0, 1), x.flatten())
                if training:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
# verdict: bounded steady
