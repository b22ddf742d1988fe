# ddp_unused/unused_branch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 8)
        self.heads = nn.ModuleDict({"depth": nn.Linear(8, 1), "label": nn.Linear(8, 3)})

    def forward(self, x, task):
        return self.heads[task](torch.relu(self.trunk(x)))


def train(model, optimizer):
    for task in ("depth", "label"):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 4), task).pow(2).mean()  # raised
        loss.backward()
        optimizer.step()


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DDP(MultiTask())
train(model, torch.optim.SGD(model.parameters(), lr=0.1))
