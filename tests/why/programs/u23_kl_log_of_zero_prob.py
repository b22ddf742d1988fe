# /made_forward
import torch
from torch import nn

from course_utils import why


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)

    def forward(self, x):
        return torch.softmax(self.fc(x) * 1000, dim=-1)


def kl(p, q):
    return (p * (p.log() - q.log())).sum(-1).mean()  # made


model = Model()
p = model(torch.ones(2, 2))
loss = kl(p, torch.full((2, 3), 1 / 3))
reason = why(loss)
