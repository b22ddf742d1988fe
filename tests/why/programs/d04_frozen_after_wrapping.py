# /frozen
# code: (net|model.module).0..weight.requires_grad_..
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from course_utils import why

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
net[0].requires_grad_(False)  # cut
model = DDP(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(5, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
reason = why(model.module[0].weight, loss)
