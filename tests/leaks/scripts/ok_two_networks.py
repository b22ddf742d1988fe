"""A generator and a discriminator, an averaged model, checkpointing and autocast."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

generator, judge = nn.Linear(8, 16), nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
average = AveragedModel(generator)
first, second = torch.optim.AdamW(generator.parameters(), amsgrad=True), torch.optim.Adam(judge.parameters())
for step in range(30):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = generator(torch.randn(8, 8))
        loss = judge(torch.randn(8, 16)).mean() - judge(made.detach()).mean()
    second.zero_grad()
    loss.float().backward()
    second.step()
    first.zero_grad()
    checkpoint(judge, made.float(), use_reentrant=False).mean().backward()
    first.step()
    if step % 5 == 4:
        average.update_parameters(generator)
