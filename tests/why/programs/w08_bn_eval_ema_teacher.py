# modified_in_place/inplace_operation
import copy

import torch
from torch import nn

student = nn.Linear(3, 3)
teacher = copy.deepcopy(student)
opt = torch.optim.SGD(student.parameters(), lr=0.1)


@torch.no_grad()
def update_teacher(momentum=0.99):
    for ps, pt in zip(student.parameters(), teacher.parameters()):
        pt.mul_(momentum).add_(ps, alpha=1 - momentum)  # edited


x = torch.randn(4, 3, requires_grad=True)
loss = (student(x) - teacher(x)).pow(2).mean()
update_teacher()
loss.backward()  # needed
opt.step()
