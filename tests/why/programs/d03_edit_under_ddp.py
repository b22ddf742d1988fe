# modified_in_place/inplace_operation
# code: h = h \+ self.shift
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        h = torch.sigmoid(self.layer(x))  # made
        h += self.shift  # edited
        return h


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DDP(Shifted())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(3, 4)).square().mean()
    loss.backward()  # needed
    optimizer.step()
