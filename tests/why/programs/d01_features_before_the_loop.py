# second_backward/made_outside_loop
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
encoder, head = DDP(nn.Linear(4, 6)), DDP(nn.Linear(6, 2))
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
features = encoder(torch.randn(12, 4))  # made
for labels in (torch.randn(12, 2), torch.randn(12, 2)):
    optimizer.zero_grad()
    loss = (head(torch.relu(features)) - labels).pow(2).mean()
    loss.backward()  # needed freed
    optimizer.step()
