# leaf_in_place/own_initialisation
# code: with torch.no_grad\(\): layer.weight\[0\] = 1.0
import torch
from torch import nn

layer = nn.Linear(3, 2)
layer.weight[0] = 1.0  # edited
