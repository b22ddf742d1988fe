import numpy as np
import torch
from torch import nn

N = 60
results = np.empty(N, dtype=object)
model = nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU(), nn.Conv1d(8, 3, 3))


@torch.no_grad()
def predict(x):
    return model(x)  # makes


for i in range(N):
    signal = torch.randn(2, 3, 200)
    results[i] = predict(signal)  # keeps: results
print(results.shape)
