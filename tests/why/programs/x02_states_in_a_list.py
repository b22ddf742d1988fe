# second_backward/kept_state
# code: hiddens.append\(h.clone\(\).detach\(\)\)
import torch
from torch import nn

rnn = nn.GRU(3, 4, batch_first=True)
head = nn.Linear(4, 2)
opt = torch.optim.SGD([*rnn.parameters(), *head.parameters()], 0.1)
hiddens = [torch.zeros(1, 2, 4)]
for i in range(3):
    out, h = rnn(torch.randn(2, 5, 3), hiddens[-1])
    hiddens.append(h.clone())  # made
    loss = nn.functional.cross_entropy(head(out[:, -1]), torch.tensor([0, 1]))
    opt.zero_grad()
    loss.backward()  # needed freed
    opt.step()
