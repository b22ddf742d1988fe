# leaf_in_place/filled_after_flag
import torch

positions = torch.zeros(4, requires_grad=True)  # made
for i in range(4):
    positions[i] = i * 0.5  # edited
