# leaf_in_place/own_initialisation
import torch

alpha = torch.nn.Parameter(torch.tensor(2.0))  # made
alpha.clamp_(0, 1)  # edited
