# second_backward/kept_state
# code: self.state = self.state.detach\(\)
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.value = nn.Linear(4, 1)
        self.state = torch.zeros(1, 4)
        self.memory = torch.zeros(1, 4)

    def forward(self, x):
        self.state, self.memory = self.cell(x, (self.state, self.memory))  # made
        return self.value(self.state)


agent = Agent()
opt = torch.optim.Adam(agent.parameters())
for step in range(3):
    loss = agent(torch.randn(1, 3)).pow(2).mean()
    opt.zero_grad()
    loss.backward()  # needed freed
    opt.step()
