# /in_the_data
import numpy as np
import torch
from torch import nn

from course_utils import why

table = np.array([[1.0, 2.0], [np.nan, 1.0]], dtype=np.float32)
x = torch.from_numpy(table)
model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
loss = model(x).mean()
reason = why(loss)
